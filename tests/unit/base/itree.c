/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

#include <stdlib.h>

#include "base/itree.h"
#include "base/util.h"

static void touching_ranges_do_not_overlap(void **state)
{
	struct otte_itree tree = { 0 };
	struct otte_inode node = { .start = 10, .end = 20 };

	(void)state;
	otte_itree_insert(&tree, &node);
	assert_null(otte_itree_find(&tree, 0, 10, NULL, NULL));
	assert_null(otte_itree_find(&tree, 20, 30, NULL, NULL));
	assert_ptr_equal(otte_itree_find(&tree, 19, 20, NULL, NULL), &node);
	otte_itree_remove(&tree, &node);
	assert_null(tree.root);
}

/* Against a plain array, over a fixed and printed seed. */
static void random_ranges_agree_with_a_linear_search(void **state)
{
	enum { N = 300, ROUNDS = 20000 };
	static struct otte_inode nodes[N];
	static char in[N];
	struct otte_itree tree = { 0 };
	unsigned seed = 7;
	int round, i;

	(void)state;
	print_message("seed %u\n", seed);
	for (round = 0; round < ROUNDS; round++) {
		uint64_t start = (uint64_t)rand_r(&seed) % 1000;
		uint64_t end = start + 1 + (uint64_t)rand_r(&seed) % 50;
		int expected = 0;

		i = rand_r(&seed) % N;
		if (in[i]) {
			otte_itree_remove(&tree, &nodes[i]);
		} else {
			nodes[i].start = start;
			nodes[i].end = end;
			otte_itree_insert(&tree, &nodes[i]);
		}
		in[i] = !in[i];
		for (i = 0; i < N; i++)
			expected |= in[i] && nodes[i].start < end && start < nodes[i].end;
		assert_int_equal(otte_itree_find(&tree, start, end, NULL, NULL) != NULL, expected);
	}
}

enum { MANY = 100000 };

/*
 * A treap of n nodes with random weights is about 3 ln n = 35 deep here, and recursion goes that deep:
 * twice that would mean that the weights are not random.
 */
#define DEPTH_MAX 70

static struct otte_inode many[MANY];

static int depth(const struct otte_inode *node)
{
	int left, right;

	if (!node)
		return 0;
	left = depth(node->left);
	right = depth(node->right);
	return 1 + (left > right ? left : right);
}

static void insert_many(struct otte_itree *tree, uint64_t (*start)(uint64_t), uint64_t length)
{
	uint64_t i;

	for (i = 0; i < MANY; i++) {
		many[i] = (struct otte_inode){ .start = start(i), .end = start(i) + length };
		otte_itree_insert(tree, &many[i]);
	}
	assert_in_range(depth(tree->root), 17, DEPTH_MAX);
}

static uint64_t equal(uint64_t i)
{
	(void)i;
	return 1000;
}

static uint64_t ascending(uint64_t i)
{
	return i * 10;
}

static uint64_t descending(uint64_t i)
{
	return (MANY - i) * 10;
}

static bool is_node(const struct otte_inode *node, void *arg)
{
	return node == arg;
}

static bool count_and_refuse(const struct otte_inode *node, void *arg)
{
	(void)node;
	++*(unsigned *)arg;
	return false;
}

static void a_hundred_thousand_equal_ranges_are_each_found_and_removed(void **state)
{
	struct otte_itree tree = { 0 };
	unsigned visits = 0;
	int i;

	(void)state;
	insert_many(&tree, equal, 1);
	assert_null(otte_itree_find(&tree, 999, 1000, NULL, NULL));
	assert_null(otte_itree_find(&tree, 1001, 1002, NULL, NULL));
	assert_null(otte_itree_find(&tree, 1000, 1001, count_and_refuse, &visits));
	assert_int_equal(visits, MANY); /* each once */
	for (i = 0; i < MANY; i += MANY / 10)
		assert_ptr_equal(otte_itree_find(&tree, 1000, 1001, is_node, &many[i]), &many[i]);
	for (i = 0; i < MANY; i++) {
		assert_non_null(otte_itree_find(&tree, 1000, 1001, NULL, NULL));
		otte_itree_remove(&tree, &many[i * 7919ull % MANY]); /* a prime: each once */
	}
	assert_null(tree.root);
}

/* Inserted in order: without balance this is a list. */
static void ranges_in_order_stay_balanced_and_touch_only_their_own(void **state)
{
	struct otte_itree tree = { 0 };
	unsigned visits = 0;
	uint64_t i;

	(void)state;
	insert_many(&tree, ascending, 10);
	for (i = 0; i < MANY; i++)
		assert_ptr_equal(otte_itree_find(&tree, i * 10 + 9, i * 10 + 10, NULL, NULL),
				 &many[i]);
	assert_null(otte_itree_find(&tree, 555, 565, count_and_refuse, &visits));
	assert_int_equal(visits, 2);
	for (i = 0; i < MANY; i++)
		otte_itree_remove(&tree, &many[i]);
	assert_null(tree.root);
	insert_many(&tree, descending, 10);
	assert_null(otte_itree_find(&tree, 0, 10, NULL, NULL));
	assert_ptr_equal(otte_itree_find(&tree, 0, 11, NULL, NULL), &many[MANY - 1]);
}

/* The largest end below must follow the long range out again, or later finds go astray or visit all. */
static void a_range_over_all_others_is_found_until_it_is_removed(void **state)
{
	struct otte_inode all = { .start = 0, .end = UINT64_MAX };
	struct otte_itree tree = { 0 };
	uint64_t beyond = ascending(MANY) + 10;

	(void)state;
	insert_many(&tree, ascending, 10);
	otte_itree_insert(&tree, &all);
	assert_ptr_equal(otte_itree_find(&tree, beyond, beyond + 1, NULL, NULL), &all);
	assert_ptr_equal(otte_itree_find(&tree, 5, 6, is_node, &all), &all);
	otte_itree_remove(&tree, &all);
	assert_null(otte_itree_find(&tree, beyond, beyond + 1, NULL, NULL));
	assert_true(tree.root->max_end == ascending(MANY));
}

int run_itree_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(touching_ranges_do_not_overlap),
		cmocka_unit_test(random_ranges_agree_with_a_linear_search),
		cmocka_unit_test(a_hundred_thousand_equal_ranges_are_each_found_and_removed),
		cmocka_unit_test(ranges_in_order_stay_balanced_and_touch_only_their_own),
		cmocka_unit_test(a_range_over_all_others_is_found_until_it_is_removed),
	};

	return cmocka_run_group_tests_name("itree", tests, NULL, NULL);
}
