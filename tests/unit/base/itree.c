/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(touching_ranges_do_not_overlap),
		cmocka_unit_test(random_ranges_agree_with_a_linear_search),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
