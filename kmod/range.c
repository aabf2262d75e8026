// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lent ranges of one region: readers share, a writer excludes everybody it overlaps.
 *
 * The tree is the region's and is protected by the ledger. Nothing here sleeps or allocates.
 */
#include <linux/interval_tree_generic.h>
#include <linux/overflow.h>

#include "otte_priv.h"

#define RANGE_START(range)	((range)->start)
#define RANGE_LAST(range)	((range)->last)

INTERVAL_TREE_DEFINE(struct otte_range, rb, u64, subtree_last, RANGE_START, RANGE_LAST, static,
		     range_tree)

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
	return 0;
}

bool otte_range_conflicts(struct rb_root_cached *tree, const struct otte_range *range)
{
	struct otte_range *other;

	for (other = range_tree_iter_first(tree, range->start, range->last); other;
	     other = range_tree_iter_next(other, range->start, range->last)) {
		if (range->writer || other->writer)
			return true;
	}
	return false;
}

void otte_range_insert(struct rb_root_cached *tree, struct otte_range *range)
{
	range_tree_insert(range, tree);
}

void otte_range_remove(struct rb_root_cached *tree, struct otte_range *range)
{
	range_tree_remove(range, tree);
}
