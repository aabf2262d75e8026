/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Interval tree: which live ranges touch a given range. A treap ordered by start, each node carrying
 * the largest end below it. The caller embeds nodes and holds a lock around every call; nothing is
 * allocated. Costs are logarithmic in the number of ranges, plus the number of hits visited.
 */
#ifndef OTTE_BASE_ITREE_H
#define OTTE_BASE_ITREE_H

#include <stdbool.h>
#include <stdint.h>

struct otte_inode {
	struct otte_inode *left, *right;
	uint64_t start, end; /* [start, end), start < end; set before insert */
	uint64_t max_end;
	uint32_t weight;
};

struct otte_itree {
	struct otte_inode *root;
	uint32_t seed;
};

void otte_itree_insert(struct otte_itree *tree, struct otte_inode *node);
void otte_itree_remove(struct otte_itree *tree, struct otte_inode *node);

/*
 * Some node that overlaps [start, end) and for which match() is true (NULL: any), or NULL. match
 * must not change the tree.
 */
struct otte_inode *otte_itree_find(const struct otte_itree *tree, uint64_t start, uint64_t end,
				   bool (*match)(const struct otte_inode *node, void *arg), void *arg);

#endif
