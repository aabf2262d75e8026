/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: readers share, a writer excludes. Free of VFS. See range.c.
 */
#ifndef OTTE_RANGE_H
#define OTTE_RANGE_H

#include <linux/rbtree.h>

#include "otte_priv.h"

/**
 * struct otte_range - a lent range in one of its region's interval trees
 * @rb: in the tree
 * @start: first byte
 * @last: last byte
 * @subtree_last: largest @last below
 * @writer: excludes all overlapping ranges
 * @standing: but not those that stand, if it does: their lender orders them
 */
struct otte_range {
	struct rb_node rb;
	u64 start;
	u64 last;
	u64 subtree_last;
	bool writer;
	bool standing;
};

/**
 * struct otte_ranges - the lent ranges of a region, by whether they stand
 * @readers: interval trees of those that only read: [0] of loans that do not stand, [1] that do
 * @writers: of those that write
 */
struct otte_ranges {
	struct rb_root_cached readers[2];
	struct rb_root_cached writers[2];
};

#define OTTE_RANGES_NONE	((struct otte_ranges){ { RB_ROOT_CACHED, RB_ROOT_CACHED },	\
						       { RB_ROOT_CACHED, RB_ROOT_CACHED } })

/*
 * 0, -ERANGE if [offset, offset + length) is not inside [0, size), -EINVAL if it is empty. Not
 * standing.
 */
int otte_range_set(struct otte_range *range, u64 offset, u64 length, u64 size, bool writer);
bool otte_range_conflicts(struct otte_ranges *ranges, const struct otte_range *range);
void otte_range_insert(struct otte_ranges *ranges, struct otte_range *range);
void otte_range_remove(struct otte_ranges *ranges, struct otte_range *range);

#endif /* OTTE_RANGE_H */
