// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slot arithmetic at every boundary and at jumps of the clock.
 */
#include <kunit/test.h>

#include "slot.h"

#define INTERVAL	OTTE_SLOT_NS_DEFAULT
#define BASE		1000003ULL

static const u8 usual[OTTE_SLOTS_MAX] = {
	OTTE_PRIORITY_HIGH, OTTE_PRIORITY_MEDIUM, OTTE_PRIORITY_LOW,
};

static struct otte_slot_epoch epoch_of(u64 base_ns, u64 interval_ns)
{
	struct otte_slot_epoch epoch = {
		.base_ns = base_ns, .interval_ns = interval_ns, .slots = 3,
	};

	memcpy(epoch.lowest, usual, sizeof(usual));
	return epoch;
}

static void pages_init(struct otte_slot_epoch epoch[2])
{
	epoch[0] = epoch_of(BASE, INTERVAL);
	memset(&epoch[1], 0, sizeof(epoch[1]));
	epoch[1].base_ns = OTTE_SLOT_UNUSED_NS;
}

static void pattern_is_checked(struct kunit *test)
{
	struct otte_slot_epoch epoch;
	u8 lowest[OTTE_SLOTS_MAX];

	memset(&epoch, 0xcc, sizeof(epoch));
	epoch.base_ns = 7;
	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, INTERVAL, 3, usual), 0);
	KUNIT_EXPECT_EQ(test, epoch.base_ns, 7ULL);
	KUNIT_EXPECT_EQ(test, epoch.reserved, 0U);
	KUNIT_EXPECT_EQ(test, epoch.slots, 3U);

	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, OTTE_SLOT_NS_MIN, 3, usual), 0);
	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, OTTE_SLOT_NS_MAX, 3, usual), 0);
	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, OTTE_SLOT_NS_MIN - 1, 3, usual), -EINVAL);
	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, OTTE_SLOT_NS_MAX + 1, 3, usual), -EINVAL);
	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, 0, 3, usual), -EINVAL);
	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, INTERVAL, 0, usual), -EINVAL);
	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, INTERVAL, OTTE_SLOTS_MAX + 1, usual),
			-EINVAL);
	/* What lies behind the pattern must be zero. */
	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, INTERVAL, 2, usual), -EINVAL);

	memset(lowest, OTTE_PRIORITY_LOW, sizeof(lowest));
	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, INTERVAL, OTTE_SLOTS_MAX, lowest), 0);
	lowest[OTTE_SLOTS_MAX - 1] = OTTE_PRIORITIES;
	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, INTERVAL, OTTE_SLOTS_MAX, lowest),
			-EINVAL);
	/* The lowest priority must have its turn. */
	memset(lowest, OTTE_PRIORITY_MEDIUM, sizeof(lowest));
	KUNIT_EXPECT_EQ(test, otte_slot_pattern(&epoch, INTERVAL, OTTE_SLOTS_MAX, lowest),
			-EINVAL);
}

static void slot_changes_on_the_boundary_and_nowhere_else(struct kunit *test)
{
	struct otte_slot_epoch epoch = epoch_of(BASE, INTERVAL);
	u64 at;
	u32 i;

	for (i = 0; i < 1000; i++) {
		at = BASE + i * INTERVAL;
		KUNIT_ASSERT_EQ(test, otte_slot_at(&epoch, at), i % 3);
		KUNIT_ASSERT_EQ(test, otte_slot_at(&epoch, at + 1), i % 3);
		KUNIT_ASSERT_EQ(test, otte_slot_at(&epoch, at + INTERVAL - 1), i % 3);
	}
}

static void slot_follows_jumps_of_the_clock(struct kunit *test)
{
	struct otte_slot_epoch epoch = epoch_of(BASE, INTERVAL);
	u64 far = div64_u64(U64_MAX - BASE, INTERVAL);

	/* Forward by years, back again, and the last slot of all. */
	KUNIT_EXPECT_EQ(test, otte_slot_at(&epoch, BASE + 3 * INTERVAL * 7884000000ULL), 0U);
	KUNIT_EXPECT_EQ(test, otte_slot_at(&epoch, BASE + INTERVAL), 1U);
	KUNIT_EXPECT_EQ(test, otte_slot_at(&epoch, BASE), 0U);
	KUNIT_EXPECT_EQ(test, otte_slot_at(&epoch, U64_MAX), (u32)(far - 3 * div64_u64(far, 3)));
}

static void priorities_send_as_the_pattern_says(struct kunit *test)
{
	static const bool may[3][OTTE_PRIORITIES] = {
		{ true, false, false }, { true, true, false }, { true, true, true },
	};
	struct otte_slot_epoch epoch[2];
	u32 slot, priority;
	u64 at;

	pages_init(epoch);
	for (slot = 0; slot < 3; slot++) {
		at = BASE + (slot + 3) * INTERVAL;
		for (priority = 0; priority < OTTE_PRIORITIES; priority++) {
			KUNIT_EXPECT_EQ(test, otte_slot_may_send(epoch, at, priority),
					may[slot][priority]);
			KUNIT_EXPECT_EQ(test, otte_slot_may_send(epoch, at + INTERVAL - 1,
								 priority),
					may[slot][priority]);
		}
		KUNIT_EXPECT_FALSE(test, otte_slot_may_send(epoch, at, OTTE_PRIORITIES));
	}
	KUNIT_EXPECT_FALSE(test, otte_slot_may_send(epoch, BASE - 1, OTTE_PRIORITY_HIGH));
}

static void epoch_comes_into_force_at_its_base(struct kunit *test)
{
	struct otte_slot_epoch epoch[2];
	int i;

	pages_init(epoch);
	KUNIT_EXPECT_EQ(test, otte_slot_in_force(epoch, BASE - 1), -ENOENT);
	KUNIT_EXPECT_EQ(test, otte_slot_in_force(epoch, BASE), 0);
	KUNIT_EXPECT_EQ(test, otte_slot_in_force(epoch, U64_MAX - 1), 0);
	KUNIT_EXPECT_EQ(test, otte_slot_in_force(epoch, U64_MAX), 0);
	KUNIT_EXPECT_FALSE(test, otte_slot_pending(epoch, BASE));

	/* Whichever of the two it is written to. */
	for (i = 0; i < 2; i++) {
		epoch[i] = epoch_of(BASE + 10 * INTERVAL, 5 * INTERVAL);
		epoch[!i] = epoch_of(BASE, INTERVAL);
		KUNIT_EXPECT_EQ(test, otte_slot_in_force(epoch, BASE + 10 * INTERVAL - 1), !i);
		KUNIT_EXPECT_TRUE(test, otte_slot_pending(epoch, BASE + 10 * INTERVAL - 1));
		KUNIT_EXPECT_EQ(test, otte_slot_in_force(epoch, BASE + 10 * INTERVAL), i);
		KUNIT_EXPECT_FALSE(test, otte_slot_pending(epoch, BASE + 10 * INTERVAL));
	}
}

/* The new epoch begins where a slot of the old one ends, never in the middle of it. */
static void boundary_is_whole_intervals_ahead(struct kunit *test)
{
	struct otte_slot_epoch epoch = epoch_of(BASE, INTERVAL);
	static const u64 offsets[] = { 0, 1, INTERVAL / 2, INTERVAL - 1 };
	u64 now, boundary;
	unsigned int i, slot;

	for (slot = 0; slot < 100; slot++) {
		for (i = 0; i < ARRAY_SIZE(offsets); i++) {
			now = BASE + slot * INTERVAL + offsets[i];
			boundary = 0xcc;
			KUNIT_ASSERT_EQ(test, otte_slot_boundary(&epoch, now, &boundary), 0);
			KUNIT_ASSERT_GE(test, boundary - now, INTERVAL);
			KUNIT_ASSERT_LT(test, boundary - now, 2 * INTERVAL);
			KUNIT_ASSERT_EQ(test, (boundary - BASE) % INTERVAL, 0ULL);
		}
	}
}

static void boundary_at_the_end_of_the_clock_is_refused(struct kunit *test)
{
	struct otte_slot_epoch epoch = epoch_of(0, OTTE_SLOT_NS_MAX);
	u64 boundary;

	KUNIT_EXPECT_EQ(test, otte_slot_boundary(&epoch, U64_MAX, &boundary), -EOVERFLOW);
	KUNIT_EXPECT_EQ(test, otte_slot_boundary(&epoch, U64_MAX - OTTE_SLOT_NS_MAX, &boundary),
			-EOVERFLOW);
	KUNIT_EXPECT_EQ(test, otte_slot_boundary(&epoch, U64_MAX - 3 * OTTE_SLOT_NS_MAX,
						 &boundary), 0);
	/* An epoch that would begin at the mark for unused. */
	epoch = epoch_of(U64_MAX - OTTE_SLOT_NS_MAX, OTTE_SLOT_NS_MAX);
	KUNIT_EXPECT_EQ(test, otte_slot_boundary(&epoch, U64_MAX - OTTE_SLOT_NS_MAX, &boundary),
			-EOVERFLOW);
}

static void pattern_is_compared_without_its_base(struct kunit *test)
{
	struct otte_slot_epoch a = epoch_of(1, INTERVAL), b = epoch_of(2, INTERVAL);

	KUNIT_EXPECT_TRUE(test, otte_slot_same_pattern(&a, &b));
	b.lowest[1] = OTTE_PRIORITY_LOW;
	KUNIT_EXPECT_FALSE(test, otte_slot_same_pattern(&a, &b));
	b = epoch_of(1, INTERVAL + 1);
	KUNIT_EXPECT_FALSE(test, otte_slot_same_pattern(&a, &b));
	b = epoch_of(1, INTERVAL);
	b.slots = 4;
	KUNIT_EXPECT_FALSE(test, otte_slot_same_pattern(&a, &b));
}

static struct kunit_case slot_cases[] = {
	KUNIT_CASE(pattern_is_checked),
	KUNIT_CASE(slot_changes_on_the_boundary_and_nowhere_else),
	KUNIT_CASE(slot_follows_jumps_of_the_clock),
	KUNIT_CASE(priorities_send_as_the_pattern_says),
	KUNIT_CASE(epoch_comes_into_force_at_its_base),
	KUNIT_CASE(boundary_is_whole_intervals_ahead),
	KUNIT_CASE(boundary_at_the_end_of_the_clock_is_refused),
	KUNIT_CASE(pattern_is_compared_without_its_base),
	{}
};

static struct kunit_suite slot_suite = {
	.name = "otte_slot",
	.test_cases = slot_cases,
};

kunit_test_suite(slot_suite);
