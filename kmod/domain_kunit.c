// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sums of demand and load: what each member sees of the others, whatever they write.
 */
#include <kunit/test.h>

#include "load.h"

#define MEMBERS		4
#define ALL_NICS	0xffffUL

struct pages {
	struct otte_share_page share[MEMBERS];
	struct otte_load_page load[MEMBERS];
	unsigned long nics[MEMBERS];
};

static struct pages *pages_make(struct kunit *test)
{
	struct pages *pages = kunit_kzalloc(test, sizeof(*pages), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pages);
	for (i = 0; i < MEMBERS; i++) {
		pages->nics[i] = ALL_NICS;
		memset(&pages->load[i], 0xcc, sizeof(pages->load[i]));
	}
	return pages;
}

/* One sum over the first @members, as a domain makes it. Returns whether anybody is busy. */
static bool sum(struct pages *pages, unsigned int members, u64 now_ns)
{
	struct otte_load own[MEMBERS], all = {};
	unsigned int i;

	for (i = 0; i < members; i++) {
		otte_load_read(&own[i], &pages->share[i], pages->nics[i]);
		otte_load_add(&all, &own[i]);
	}
	/* What a member writes between the two must not matter. */
	for (i = 0; i < members; i++)
		pages->share[i].waiting[OTTE_PRIORITY_LOW] ^= 1;
	for (i = 0; i < members; i++)
		otte_load_publish(&pages->load[i], &all, &own[i], now_ns);
	for (i = 0; i < members; i++)
		pages->share[i].waiting[OTTE_PRIORITY_LOW] ^= 1;
	return !otte_load_idle(&all);
}

static void each_sees_the_others_without_itself(struct kunit *test)
{
	struct pages *pages = pages_make(test);
	unsigned int i;

	for (i = 0; i < MEMBERS; i++) {
		pages->share[i].waiting[OTTE_PRIORITY_HIGH] = 1U << i;
		pages->share[i].nic_bytes[15] = 16U << i;
	}
	KUNIT_EXPECT_TRUE(test, sum(pages, MEMBERS, 77));
	for (i = 0; i < MEMBERS; i++) {
		KUNIT_EXPECT_EQ(test, pages->load[i].waiting[OTTE_PRIORITY_HIGH],
				(u64)(15 - (1U << i)));
		KUNIT_EXPECT_EQ(test, pages->load[i].waiting[OTTE_PRIORITY_MEDIUM], 0ULL);
		KUNIT_EXPECT_EQ(test, pages->load[i].waiting[OTTE_PRIORITY_LOW], 0ULL);
		KUNIT_EXPECT_EQ(test, pages->load[i].nic_bytes[15], (u64)(16 * 15 - (16U << i)));
		KUNIT_EXPECT_EQ(test, pages->load[i].nic_bytes[0], 0ULL);
		KUNIT_EXPECT_EQ(test, pages->load[i].updated_ns, 77ULL);
	}
}

static void one_alone_sees_nothing(struct kunit *test)
{
	struct pages *pages = pages_make(test);

	pages->share[0].waiting[OTTE_PRIORITY_HIGH] = 5;
	pages->share[0].nic_bytes[3] = 6;
	KUNIT_EXPECT_TRUE(test, sum(pages, 1, 1));
	KUNIT_EXPECT_EQ(test, pages->load[0].waiting[OTTE_PRIORITY_HIGH], 0ULL);
	KUNIT_EXPECT_EQ(test, pages->load[0].nic_bytes[3], 0ULL);
}

static void false_values_are_clamped(struct kunit *test)
{
	struct pages *pages = pages_make(test);
	unsigned int i;

	for (i = 0; i < MEMBERS; i++) {
		memset(pages->share[i].waiting, 0xff, sizeof(pages->share[i].waiting));
		memset(pages->share[i].nic_bytes, 0xff, sizeof(pages->share[i].nic_bytes));
	}
	KUNIT_EXPECT_TRUE(test, sum(pages, MEMBERS, 1));
	for (i = 0; i < OTTE_PRIORITIES; i++)
		KUNIT_EXPECT_EQ(test, pages->load[0].waiting[i],
				(MEMBERS - 1) * OTTE_SHARE_BYTES_MAX);
	for (i = 0; i < OTTE_NICS_MAX; i++)
		KUNIT_EXPECT_EQ(test, pages->load[0].nic_bytes[i],
				(MEMBERS - 1) * OTTE_SHARE_BYTES_MAX);
	pages->share[1].waiting[0] = OTTE_SHARE_BYTES_MAX;
	pages->share[2].waiting[0] = OTTE_SHARE_BYTES_MAX - 1;
	pages->share[3].waiting[0] = OTTE_SHARE_BYTES_MAX + 1;
	sum(pages, MEMBERS, 1);
	KUNIT_EXPECT_EQ(test, pages->load[0].waiting[0], 3 * OTTE_SHARE_BYTES_MAX - 1);
}

static void bytes_of_a_nic_that_was_not_named_do_not_count(struct kunit *test)
{
	struct pages *pages = pages_make(test);

	pages->nics[1] = 1UL << 4;
	memset(pages->share[1].nic_bytes, 0xff, sizeof(pages->share[1].nic_bytes));
	KUNIT_EXPECT_TRUE(test, sum(pages, 2, 1));
	KUNIT_EXPECT_EQ(test, pages->load[0].nic_bytes[4], OTTE_SHARE_BYTES_MAX);
	KUNIT_EXPECT_EQ(test, pages->load[0].nic_bytes[3], 0ULL);
	KUNIT_EXPECT_EQ(test, pages->load[0].nic_bytes[5], 0ULL);
	pages->nics[1] = 0;
	KUNIT_EXPECT_FALSE(test, sum(pages, 2, 1));
}

static void any_single_word_makes_busy(struct kunit *test)
{
	struct pages *pages = pages_make(test);
	unsigned int i;

	KUNIT_EXPECT_FALSE(test, sum(pages, MEMBERS, 1));
	for (i = 0; i < OTTE_PRIORITIES; i++) {
		pages->share[2].waiting[i] = 1;
		KUNIT_EXPECT_TRUE(test, sum(pages, MEMBERS, 1));
		pages->share[2].waiting[i] = 0;
	}
	for (i = 0; i < OTTE_NICS_MAX; i++) {
		pages->share[3].nic_bytes[i] = 1;
		KUNIT_EXPECT_TRUE(test, sum(pages, MEMBERS, 1));
		pages->share[3].nic_bytes[i] = 0;
	}
	KUNIT_EXPECT_FALSE(test, sum(pages, MEMBERS, 1));
}

/* A process that polls whether anybody waits touches one cache line. */
static void demand_fits_one_cache_line(struct kunit *test)
{
	KUNIT_EXPECT_LE(test, offsetofend(struct otte_load_page, updated_ns), (size_t)64);
	KUNIT_EXPECT_GE(test, offsetof(struct otte_load_page, nic_bytes), (size_t)64);
	KUNIT_EXPECT_GE(test, offsetof(struct otte_share_page, nic_bytes), (size_t)64);
}

static struct kunit_case domain_cases[] = {
	KUNIT_CASE(each_sees_the_others_without_itself),
	KUNIT_CASE(one_alone_sees_nothing),
	KUNIT_CASE(false_values_are_clamped),
	KUNIT_CASE(bytes_of_a_nic_that_was_not_named_do_not_count),
	KUNIT_CASE(any_single_word_makes_busy),
	KUNIT_CASE(demand_fits_one_cache_line),
	{}
};

static struct kunit_suite domain_suite = {
	.name = "otte_domain",
	.test_cases = domain_cases,
};

kunit_test_suite(domain_suite);
