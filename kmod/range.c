// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lent ranges of one region: readers share, a writer excludes everybody it overlaps, but what
 * stands excludes nothing that stands.
 *
 * Readers and writers, standing or not, are in a tree each, so that every question is whether there
 * is any overlap, and its answer does not depend on how many share a range. The trees are the
 * region's and are protected by the ledger. Nothing here sleeps or allocates.
 */
#include <linux/interval_tree_generic.h>
#include <linux/overflow.h>

#include "range.h"

#define RANGE_START(range)	((range)->start)
#define RANGE_LAST(range)	((range)->last)

INTERVAL_TREE_DEFINE(struct otte_range, rb, u64, subtree_last, RANGE_START, RANGE_LAST,
		     static __maybe_unused, range_tree)

int otte_range_set(struct otte_range *range, u64 offset, u64 length, u64 size, bool writer)
{
	u64 end;

	if (!length)
		return -EINVAL;
	if (check_add_overflow(offset, length, &end) || end > size)
		return -ERANGE;
	range->start = offset;
	range->last = end - 1;
	range->writer = writer;
	range->standing = false;
	return 0;
}

static bool overlaps(struct rb_root_cached *tree, const struct otte_range *range)
{
	return range_tree_iter_first(tree, range->start, range->last);
}

/* With what stands, or with what does not. */
static bool conflicts(struct otte_ranges *ranges, const struct otte_range *range, bool standing)
{
	if (overlaps(&ranges->writers[standing], range))
		return true;
	return range->writer && overlaps(&ranges->readers[standing], range);
}

bool otte_range_conflicts(struct otte_ranges *ranges, const struct otte_range *range)
{
	return conflicts(ranges, range, false) ||
	       (!range->standing && conflicts(ranges, range, true));
}

static struct rb_root_cached *tree_of(struct otte_ranges *ranges, const struct otte_range *range)
{
	return range->writer ? &ranges->writers[range->standing] :
			       &ranges->readers[range->standing];
}

void otte_range_insert(struct otte_ranges *ranges, struct otte_range *range)
{
	range_tree_insert(range, tree_of(ranges, range));
}

void otte_range_remove(struct otte_ranges *ranges, struct otte_range *range)
{
	range_tree_remove(range, tree_of(ranges, range));
}
