// SPDX-License-Identifier: GPL-2.0-only
/* Quotas: all or nothing over all accounts, and nothing lost when payers share some. */
#include <kunit/test.h>

#include "quota.h"

/* Ids that no client of a running module has. */
#define TEST_ID	0x00feed00ULL

static const struct otte_quota_key keys_a[] = {
	{ OTTE_LEVEL_MODULE, TEST_ID }, { OTTE_LEVEL_CGROUP, TEST_ID + 1 },
	{ OTTE_LEVEL_USER, TEST_ID }, { OTTE_LEVEL_CLIENT, TEST_ID + 10 },
};

static const struct otte_quota_key keys_b[] = {
	{ OTTE_LEVEL_MODULE, TEST_ID }, { OTTE_LEVEL_CGROUP, TEST_ID + 1 },
	{ OTTE_LEVEL_CGROUP, TEST_ID + 2 }, { OTTE_LEVEL_USER, TEST_ID },
	{ OTTE_LEVEL_CLIENT, TEST_ID + 11 },
};

static u64 usage(struct otte_payer *payer, unsigned int index, unsigned int resource)
{
	u64 used[OTTE_RES_COUNT], limit[OTTE_RES_COUNT];
	struct otte_quota_key key;

	return otte_quota_read(payer, index, &key, used, limit) ? U64_MAX : used[resource];
}

static void one_full_account_refuses_for_all(struct kunit *test)
{
	struct otte_payer *a = otte_payer_create(keys_a, ARRAY_SIZE(keys_a));
	struct otte_payer *b = otte_payer_create(keys_b, ARRAY_SIZE(keys_b));
	const struct otte_charge two = { .amount[OTTE_RES_HOLDS] = 2,
					 .amount[OTTE_RES_LENT_BYTES] = 100 };
	u64 before = otte_quota_limit(OTTE_LEVEL_CGROUP, OTTE_RES_HOLDS);
	struct otte_refusal why = {};
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, a);
	KUNIT_ASSERT_NOT_NULL(test, b);
	otte_quota_set_limit(OTTE_LEVEL_CGROUP, OTTE_RES_HOLDS, 5);
	KUNIT_EXPECT_EQ(test, 0, otte_quota_charge(a, &two, &why));
	KUNIT_EXPECT_EQ(test, 0, otte_quota_charge(b, &two, &why));
	/* A child cgroup gives no fresh quota: the parent, shared with a, is full. */
	KUNIT_EXPECT_EQ(test, -EDQUOT, otte_quota_charge(b, &two, &why));
	KUNIT_EXPECT_EQ(test, (u32)OTTE_LEVEL_CGROUP, why.key.level);
	KUNIT_EXPECT_EQ(test, TEST_ID + 1, why.key.id);
	KUNIT_EXPECT_EQ(test, (u32)OTTE_RES_HOLDS, why.resource);
	KUNIT_EXPECT_EQ(test, (u64)4, why.usage);
	KUNIT_EXPECT_EQ(test, (u64)5, why.limit);
	KUNIT_EXPECT_EQ(test, (u64)2, why.requested);
	/* Nothing of the refused charge stuck, above or below. */
	KUNIT_EXPECT_EQ(test, (u64)4, usage(b, 0, OTTE_RES_HOLDS));
	KUNIT_EXPECT_EQ(test, (u64)200, usage(b, 0, OTTE_RES_LENT_BYTES));
	KUNIT_EXPECT_EQ(test, (u64)2, usage(b, 2, OTTE_RES_HOLDS));
	KUNIT_EXPECT_EQ(test, (u64)2, usage(b, 4, OTTE_RES_HOLDS));

	otte_quota_uncharge(a, &two);
	KUNIT_EXPECT_EQ(test, 0, otte_quota_charge(b, &two, &why));
	otte_quota_uncharge(b, &two);
	otte_quota_uncharge(b, &two);
	for (i = 0; i < ARRAY_SIZE(keys_b); i++)
		KUNIT_EXPECT_EQ(test, (u64)0, usage(b, i, OTTE_RES_HOLDS));
	otte_quota_set_limit(OTTE_LEVEL_CGROUP, OTTE_RES_HOLDS, before);
	otte_payer_put(a);
	otte_payer_put(b);
}

static void a_sum_that_wraps_is_refused(struct kunit *test)
{
	struct otte_payer *a = otte_payer_create(keys_a, ARRAY_SIZE(keys_a));
	/* What a client may have where no limit is set, and far less than the module may. */
	const struct otte_charge most = { .amount[OTTE_RES_LENT_BYTES] = 1ULL << 56 };
	const struct otte_charge wrapping = { .amount[OTTE_RES_LENT_BYTES] = U64_MAX };
	const struct otte_charge one = { .amount[OTTE_RES_LENT_BYTES] = 1 };
	struct otte_refusal why;

	KUNIT_ASSERT_NOT_NULL(test, a);
	KUNIT_EXPECT_EQ(test, -EDQUOT, otte_quota_charge(a, &wrapping, &why));
	KUNIT_EXPECT_EQ(test, 0, otte_quota_charge(a, &most, &why));
	KUNIT_EXPECT_EQ(test, -EDQUOT, otte_quota_charge(a, &wrapping, &why));
	KUNIT_EXPECT_EQ(test, -EDQUOT, otte_quota_charge(a, &one, &why));
	KUNIT_EXPECT_EQ(test, (u32)OTTE_LEVEL_CLIENT, why.key.level);
	otte_quota_uncharge(a, &most);
	KUNIT_EXPECT_EQ(test, (u64)0, usage(a, 0, OTTE_RES_LENT_BYTES));
	otte_payer_put(a);
}

static void retention_above_its_limit_stops_all_else(struct kunit *test)
{
	struct otte_payer *a = otte_payer_create(keys_a, ARRAY_SIZE(keys_a));
	const struct otte_charge retained = { .amount[OTTE_RES_RETAINED_BYTES] = 10 };
	const struct otte_charge region = { .amount[OTTE_RES_REGIONS] = 1 };
	u64 before = otte_quota_limit(OTTE_LEVEL_USER, OTTE_RES_RETAINED_BYTES);
	struct otte_refusal why;

	KUNIT_ASSERT_NOT_NULL(test, a);
	otte_quota_set_limit(OTTE_LEVEL_USER, OTTE_RES_RETAINED_BYTES, 9);
	otte_quota_charge_forced(a, &retained);
	KUNIT_EXPECT_EQ(test, -EDQUOT, otte_quota_charge(a, &region, &why));
	KUNIT_EXPECT_EQ(test, (u32)OTTE_RES_RETAINED_BYTES, why.resource);
	KUNIT_EXPECT_EQ(test, (u32)OTTE_LEVEL_USER, why.key.level);
	otte_quota_uncharge(a, &retained);
	KUNIT_EXPECT_EQ(test, 0, otte_quota_charge(a, &region, &why));
	otte_quota_uncharge(a, &region);
	otte_quota_set_limit(OTTE_LEVEL_USER, OTTE_RES_RETAINED_BYTES, before);
	otte_payer_put(a);
}

static void an_account_outlives_the_client_while_it_is_charged(struct kunit *test)
{
	struct otte_payer *a = otte_payer_create(keys_a, ARRAY_SIZE(keys_a)), *again;
	const struct otte_charge pinned = { .amount[OTTE_RES_PINNED_BYTES] = 4096 };
	struct otte_refusal why;

	KUNIT_ASSERT_NOT_NULL(test, a);
	KUNIT_EXPECT_EQ(test, 0, otte_quota_charge(a, &pinned, &why));
	/* The user's next client finds what the last one left charged. */
	again = otte_payer_create(keys_b, ARRAY_SIZE(keys_b));
	KUNIT_ASSERT_NOT_NULL(test, again);
	KUNIT_EXPECT_EQ(test, (u64)4096, usage(again, 3, OTTE_RES_PINNED_BYTES));
	otte_quota_uncharge(a, &pinned);
	otte_payer_put(a);
	KUNIT_EXPECT_EQ(test, (u64)0, usage(again, 3, OTTE_RES_PINNED_BYTES));
	otte_payer_put(again);
}

static struct kunit_case quota_cases[] = {
	KUNIT_CASE(one_full_account_refuses_for_all),
	KUNIT_CASE(a_sum_that_wraps_is_refused),
	KUNIT_CASE(retention_above_its_limit_stops_all_else),
	KUNIT_CASE(an_account_outlives_the_client_while_it_is_charged),
	{}
};

static struct kunit_suite quota_suite = {
	.name = "otte_quota",
	.test_cases = quota_cases,
};

kunit_test_suite(quota_suite);
