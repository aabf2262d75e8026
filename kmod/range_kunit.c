// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ranges: readers share, a writer excludes, what stands does not exclude what stands. Checked
 * against the plain definition.
 */
#include <kunit/test.h>
#include <linux/random.h>

#include "range.h"

static void a_range_is_inside_its_region_or_refused(struct kunit *test)
{
	struct otte_range range;

	KUNIT_EXPECT_EQ(test, 0, otte_range_set(&range, 0, 100, 100, false));
	KUNIT_EXPECT_EQ(test, (u64)0, range.start);
	KUNIT_EXPECT_EQ(test, (u64)99, range.last);
	KUNIT_EXPECT_EQ(test, 0, otte_range_set(&range, 99, 1, 100, true));
	KUNIT_EXPECT_TRUE(test, range.writer);
	KUNIT_EXPECT_EQ(test, -EINVAL, otte_range_set(&range, 0, 0, 100, false));
	KUNIT_EXPECT_EQ(test, -ERANGE, otte_range_set(&range, 0, 101, 100, false));
	KUNIT_EXPECT_EQ(test, -ERANGE, otte_range_set(&range, 100, 1, 100, false));
	KUNIT_EXPECT_EQ(test, -ERANGE, otte_range_set(&range, U64_MAX, 1, U64_MAX, false));
	KUNIT_EXPECT_EQ(test, -ERANGE, otte_range_set(&range, 2, U64_MAX, 100, false));
	KUNIT_EXPECT_EQ(test, 0, otte_range_set(&range, 0, U64_MAX, U64_MAX, false));
}

static bool conflicts_by_definition(const struct otte_range *all, const bool *in, unsigned int n,
				    const struct otte_range *one)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (in[i] && all[i].start <= one->last && one->start <= all[i].last &&
		    (all[i].writer || one->writer) && !(all[i].standing && one->standing))
			return true;
	}
	return false;
}

#define RANGES	64

static void conflicts_are_those_of_the_definition(struct kunit *test)
{
	struct otte_range *all = kunit_kcalloc(test, RANGES, sizeof(*all), GFP_KERNEL);
	struct otte_ranges ranges = OTTE_RANGES_NONE;
	bool in[RANGES] = {};
	struct rnd_state rnd;
	unsigned int step, i, lent = 0, refused = 0;
	bool conflict;

	KUNIT_ASSERT_NOT_NULL(test, all);
	prandom_seed_state(&rnd, 20261129);
	for (step = 0; step < 20000; step++) {
		i = prandom_u32_state(&rnd) % RANGES;
		if (in[i]) {
			otte_range_remove(&ranges, &all[i]);
			in[i] = false;
			continue;
		}
		otte_range_set(&all[i], prandom_u32_state(&rnd) % 1000,
			       1 + prandom_u32_state(&rnd) % 24, 2000,
			       !(prandom_u32_state(&rnd) % 3));
		all[i].standing = prandom_u32_state(&rnd) % 2;
		conflict = conflicts_by_definition(all, in, RANGES, &all[i]);
		KUNIT_ASSERT_EQ(test, conflict, otte_range_conflicts(&ranges, &all[i]));
		if (conflict) {
			refused++;
			continue;
		}
		otte_range_insert(&ranges, &all[i]);
		in[i] = true;
		lent++;
	}
	KUNIT_EXPECT_GT(test, lent, 1000u);
	KUNIT_EXPECT_GT(test, refused, 1000u);
}

static void neighbours_do_not_touch(struct kunit *test)
{
	struct otte_ranges ranges = OTTE_RANGES_NONE;
	struct otte_range a, b, c;

	otte_range_set(&a, 100, 100, 1000, true);
	otte_range_insert(&ranges, &a);
	otte_range_set(&b, 0, 100, 1000, true);
	otte_range_set(&c, 200, 100, 1000, true);
	KUNIT_EXPECT_FALSE(test, otte_range_conflicts(&ranges, &b));
	KUNIT_EXPECT_FALSE(test, otte_range_conflicts(&ranges, &c));
	otte_range_set(&b, 0, 101, 1000, false);
	otte_range_set(&c, 199, 1, 1000, false);
	KUNIT_EXPECT_TRUE(test, otte_range_conflicts(&ranges, &b));
	KUNIT_EXPECT_TRUE(test, otte_range_conflicts(&ranges, &c));
}

static struct kunit_case range_cases[] = {
	KUNIT_CASE(a_range_is_inside_its_region_or_refused),
	KUNIT_CASE(neighbours_do_not_touch),
	KUNIT_CASE(conflicts_are_those_of_the_definition),
	{}
};

static struct kunit_suite range_suite = {
	.name = "otte_range",
	.test_cases = range_cases,
};

kunit_test_suite(range_suite);
