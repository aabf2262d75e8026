/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/itree.h"

#include <stddef.h>

static void update(struct otte_inode *node)
{
	node->max_end = node->end;
	if (node->left && node->left->max_end > node->max_end)
		node->max_end = node->left->max_end;
	if (node->right && node->right->max_end > node->max_end)
		node->max_end = node->right->max_end;
}

/* A total order, so that equal starts are still found again on removal. */
static bool before(const struct otte_inode *a, const struct otte_inode *b)
{
	if (a->start != b->start)
		return a->start < b->start;
	return (uintptr_t)a < (uintptr_t)b;
}

static void split(struct otte_inode *node, const struct otte_inode *at, struct otte_inode **low,
		  struct otte_inode **high)
{
	if (!node) {
		*low = *high = NULL;
	} else if (before(node, at)) {
		split(node->right, at, &node->right, high);
		*low = node;
		update(node);
	} else {
		split(node->left, at, low, &node->left);
		*high = node;
		update(node);
	}
}

static struct otte_inode *merge(struct otte_inode *low, struct otte_inode *high)
{
	if (!low)
		return high;
	if (!high)
		return low;
	if (low->weight > high->weight) {
		low->right = merge(low->right, high);
		update(low);
		return low;
	}
	high->left = merge(low, high->left);
	update(high);
	return high;
}

void otte_itree_insert(struct otte_itree *tree, struct otte_inode *node)
{
	struct otte_inode *low, *high;

	tree->seed = tree->seed * 1664525u + 1013904223u; /* only balance depends on it */
	node->weight = tree->seed;
	node->left = node->right = NULL;
	node->max_end = node->end;
	if (!tree->root) {
		tree->root = node;
		return;
	}
	split(tree->root, node, &low, &high);
	tree->root = merge(merge(low, node), high);
}

static struct otte_inode *remove_from(struct otte_inode *root, struct otte_inode *node)
{
	if (!root)
		return NULL;
	if (root == node)
		return merge(node->left, node->right);
	if (before(node, root))
		root->left = remove_from(root->left, node);
	else
		root->right = remove_from(root->right, node);
	update(root);
	return root;
}

void otte_itree_remove(struct otte_itree *tree, struct otte_inode *node)
{
	tree->root = remove_from(tree->root, node);
	node->left = node->right = NULL;
}

static struct otte_inode *find(struct otte_inode *node, uint64_t start, uint64_t end,
			       bool (*match)(const struct otte_inode *node, void *arg), void *arg)
{
	struct otte_inode *hit;

	while (node && node->max_end > start) {
		hit = find(node->left, start, end, match, arg);
		if (hit)
			return hit;
		if (node->start >= end)
			return NULL;
		if (node->end > start && (!match || match(node, arg)))
			return node;
		node = node->right;
	}
	return NULL;
}

struct otte_inode *otte_itree_find(const struct otte_itree *tree, uint64_t start, uint64_t end,
				   bool (*match)(const struct otte_inode *node, void *arg), void *arg)
{
	return find(tree->root, start, end, match, arg);
}
