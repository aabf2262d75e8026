// SPDX-License-Identifier: GPL-2.0-only
/*
 * The laboratory's own KUnit suite: it proves that what passes, fails, is skipped, warns or dies in a
 * suite is told apart by tests/vm/kunit. The self-test builds copies of this file with other values of
 * PROBE_HOW: 6.1 runs suites before it parses a module's parameters.
 */
#include <kunit/test.h>
#include <linux/interval_tree.h>
#include <linux/module.h>
#include <linux/string.h>

#ifndef PROBE_HOW
#define PROBE_HOW "pass"
#endif

static const char *how = PROBE_HOW;

static void behaves_as_told(struct kunit *test)
{
	if (!strcmp(how, "skip"))
		kunit_skip(test, "told so");
	if (!strcmp(how, "warn"))
		WARN(1, "told so\n");
	if (!strcmp(how, "die"))
		panic("told so\n");
	KUNIT_EXPECT_STRNEQ(test, how, "fail");
}

/* A symbol that otte's own suites use: the kernel must have been configured with it. */
static void interval_tree_is_there(struct kunit *test)
{
	struct interval_tree_node node = { .start = 2, .last = 5 };
	struct rb_root_cached root = RB_ROOT_CACHED;

	if (!strcmp(how, "skip"))
		kunit_skip(test, "told so");
	interval_tree_insert(&node, &root);
	KUNIT_EXPECT_PTR_EQ(test, interval_tree_iter_first(&root, 5, 9), &node);
	KUNIT_EXPECT_NULL(test, interval_tree_iter_first(&root, 6, 9));
	interval_tree_remove(&node, &root);
}

static struct kunit_case probe_cases[] = {
	KUNIT_CASE(behaves_as_told),
	KUNIT_CASE(interval_tree_is_there),
	{}
};

static struct kunit_suite probe_suite = {
	.name = "otte_probe",
	.test_cases = probe_cases,
};

kunit_test_suite(probe_suite);

MODULE_DESCRIPTION("self-test of the laboratory's KUnit runner");
MODULE_LICENSE("GPL");
