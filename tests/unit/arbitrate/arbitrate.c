/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Arbitration by deadline: exact orders, and drawn ones against a model that compares fractions
 * by long division and picks one by one. SEED=N draws others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/util.h"
#include "sched/arbitrate.h"

#define NONE OTTE_ARBITRATE_NO_DEADLINE
#define NOW_NS (7 * NSEC_PER_SEC + 3)
#define RATE 50000000000ull /* 400 Gb/s */
#define ITEMS_MAX 300
#define CASES 1500

static uint64_t seed = 20261130;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 16) % below;
}

/* ---- Exact orders ---- */

static void check_order(const struct otte_arbitrate_item *items, uint32_t count,
			uint64_t posted_bytes, uint64_t rate, const uint32_t *expected)
{
	uint32_t order[ITEMS_MAX + 1], i;

	memset(order, 0xff, sizeof(order));
	otte_arbitrate_order(items, count, posted_bytes, rate, NOW_NS, order);
	for (i = 0; i < count; i++)
		assert_int_equal(order[i], expected[i]);
	assert_int_equal(order[count], UINT32_MAX);
}

static void what_takes_more_of_its_time_goes_first(void **state)
{
	static const struct otte_arbitrate_item items[] = {
		{ 100, NOW_NS + 1000 },
		{ 10, NOW_NS + 50 },
		{ 1000, NOW_NS + 1000 },
		{ 1, NONE },
	};
	static const uint32_t expected[] = { 2, 1, 0, 3 };

	(void)state;
	/* 0.1, 0.2, 1.0, none. After 1000 bytes: 1.1, 20.2. */
	check_order(items, 4, 0, RATE, expected);
}

static void what_is_posted_already_makes_a_near_deadline_weigh_more(void **state)
{
	static const struct otte_arbitrate_item items[] = {
		{ 100, NOW_NS + 1000 },
		{ 10, NOW_NS + 200 },
	};
	static const uint32_t alone[] = { 0, 1 }, behind[] = { 1, 0 };

	(void)state;
	/* 0.1 and 0.05; behind 1000 bytes 1.1 and 5.05. */
	check_order(items, 2, 0, RATE, alone);
	check_order(items, 2, 1000, RATE, behind);
}

static void each_pick_is_ahead_of_those_that_follow(void **state)
{
	static const struct otte_arbitrate_item items[] = {
		{ 1000, NOW_NS + 1000 },
		{ 300, NOW_NS + 900 },
		{ 10, NOW_NS + 100 },
	};
	static const uint32_t expected[] = { 0, 2, 1 };

	(void)state;
	/* At first 1.0, 0.33, 0.1; behind the 1000 bytes of the first 1.44 and 10.1. */
	check_order(items, 3, 0, RATE, expected);
}

static void equals_and_those_without_a_deadline_are_first_in_first_out(void **state)
{
	static const struct otte_arbitrate_item none[] = { { 9, NONE }, { 7, NONE }, { 8, NONE } };
	static const struct otte_arbitrate_item equal[] = {
		{ 5, NONE },	   { 20, NOW_NS + 200 }, { 10, NOW_NS + 100 },
		{ 0, NOW_NS + 5 }, { 30, NOW_NS + 300 },
	};
	static const uint32_t as_they_came[] = { 0, 1, 2, 3, 4 }, expected[] = { 1, 3, 2, 4, 0 };

	(void)state;
	check_order(none, 3, 1000, RATE, as_they_came);
	/* Three of 0.1, of which the first goes first; behind it 20/5, 30/100 and 50/300. */
	check_order(equal, 5, 0, RATE, expected);
	check_order(equal, 0, 0, RATE, expected);
}

static void a_deadline_that_is_reached_is_before_all_and_first_in_first_out(void **state)
{
	static const struct otte_arbitrate_item items[] = {
		{ UINT64_MAX, NOW_NS + 1 },
		{ 1, NOW_NS },
		{ 500, NOW_NS - 1 },
		{ 2, 0 },
		{ 3, NONE },
	};
	static const uint32_t expected[] = { 1, 2, 3, 0, 4 };

	(void)state;
	check_order(items, 5, 0, RATE, expected);
}

static void without_a_rate_all_stays_as_it_came(void **state)
{
	static const struct otte_arbitrate_item items[] = {
		{ 1, NONE },
		{ 1000, NOW_NS + 1 },
		{ 5, NOW_NS - 1 },
	};
	static const uint32_t as_they_came[] = { 0, 1, 2 };

	(void)state;
	check_order(items, 3, 0, 0, as_they_came);
}

static void the_rate_itself_does_not_change_the_order(void **state)
{
	static const struct otte_arbitrate_item items[] = {
		{ 100, NOW_NS + 1000 },
		{ 1000, NOW_NS + 1000 },
	};
	static const uint32_t expected[] = { 1, 0 };

	(void)state;
	check_order(items, 2, 0, 1, expected);
	check_order(items, 2, 0, UINT64_MAX, expected);
}

/* The 65th is judged behind the 64 before it, and so is the 66th, behind no more. */
static void from_the_65th_on_what_is_ahead_stays(void **state)
{
	struct otte_arbitrate_item items[OTTE_ARBITRATE_GREEDY + 3];
	uint32_t expected[ARRAY_SIZE(items)], i;

	(void)state;
	for (i = 0; i < OTTE_ARBITRATE_GREEDY; i++) {
		items[i] = (struct otte_arbitrate_item){ 0, NOW_NS };
		expected[i] = i;
	}
	items[i] = (struct otte_arbitrate_item){ 300, NOW_NS + 900 };
	items[i + 1] = (struct otte_arbitrate_item){ 10, NOW_NS + 100 };
	items[i + 2] = (struct otte_arbitrate_item){ 1000, NOW_NS + 1000 };
	/* As in each_pick_..., where the near one is second: here it is last, of 1.0, 0.33, 0.1. */
	expected[i] = i + 2;
	expected[i + 1] = i;
	expected[i + 2] = i + 1;
	check_order(items, ARRAY_SIZE(items), 0, RATE, expected);
	/* And the picks do count: with so many bytes the near one is first. */
	items[0].bytes = 1000;
	expected[i] = i + 1;
	expected[i + 1] = i + 2;
	expected[i + 2] = i;
	check_order(items, ARRAY_SIZE(items), 0, RATE, expected);
}

static void sums_of_bytes_stop_at_the_most_there_can_be(void **state)
{
	static const struct otte_arbitrate_item items[] = {
		{ 1, NOW_NS + 1000 },
		{ UINT64_MAX, NOW_NS + 1000 },
		{ UINT64_MAX, NOW_NS + 999 },
	};
	static const uint32_t expected[] = { 2, 0, 1 };

	(void)state;
	check_order(items, 3, UINT64_MAX, RATE, expected);
}

/* ---- Admission ---- */

static void it_is_admitted_up_to_the_last_byte_that_can_be_in_time(void **state)
{
	struct otte_arbitrate_item item = { 400, NOW_NS + 1000 };

	(void)state;
	/* A byte a nanosecond. */
	assert_true(otte_arbitrate_admits(&item, 600, NSEC_PER_SEC, NOW_NS));
	assert_false(otte_arbitrate_admits(&item, 601, NSEC_PER_SEC, NOW_NS));
	assert_false(otte_arbitrate_admits(&item, 600, NSEC_PER_SEC - 1, NOW_NS));
	assert_false(otte_arbitrate_admits(&item, 600, NSEC_PER_SEC, NOW_NS + 1));
	assert_false(otte_arbitrate_admits(&item, UINT64_MAX, NSEC_PER_SEC, NOW_NS));
	item.deadline_ns = NOW_NS;
	assert_false(otte_arbitrate_admits(&item, 0, UINT64_MAX, NOW_NS));
	/* 1 TiB at 1 GiB a second: more byte nanoseconds than 64 bits count. */
	item = (struct otte_arbitrate_item){ TIB, NOW_NS + 1024 * NSEC_PER_SEC };
	assert_true(otte_arbitrate_admits(&item, 0, GIB, NOW_NS));
	assert_false(otte_arbitrate_admits(&item, 1, GIB, NOW_NS));
}

static void without_a_rate_or_a_deadline_it_is_admitted(void **state)
{
	struct otte_arbitrate_item late = { 400, NOW_NS - 1 }, endless = { UINT64_MAX, NONE };

	(void)state;
	assert_true(otte_arbitrate_admits(&late, UINT64_MAX, 0, NOW_NS));
	assert_true(otte_arbitrate_admits(&endless, UINT64_MAX, 1, NOW_NS));
	assert_true(otte_arbitrate_admits(&endless, UINT64_MAX, 0, NOW_NS));
}

static void one_rate_that_is_missing_leaves_that_of_all_unknown(void **state)
{
	uint64_t rates[64] = { [0] = 10, [2] = 20, [63] = 5 };

	(void)state;
	assert_int_equal(otte_arbitrate_rate(rates, 1ull << 0), 10);
	assert_int_equal(otte_arbitrate_rate(rates, 1ull << 0 | 1ull << 2 | 1ull << 63), 35);
	assert_int_equal(otte_arbitrate_rate(rates, 1ull << 0 | 1ull << 1), 0);
	assert_int_equal(otte_arbitrate_rate(rates, 0), 0);
	rates[63] = UINT64_MAX;
	assert_int_equal(otte_arbitrate_rate(rates, 1ull << 0 | 1ull << 63), UINT64_MAX);
}

/* ---- Against a model ---- */

/* a/b against c/d: by their whole parts, then by what is left of both, upside down. */
static int compare_fractions(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	uint64_t left_a = a % b, left_c = c % d;

	if (a / b != c / d)
		return a / b < c / d ? -1 : 1;
	if (left_a == 0)
		return left_c == 0 ? 0 : -1;
	if (left_c == 0)
		return 1;
	return compare_fractions(d, left_c, b, left_a);
}

static int rank(const struct otte_arbitrate_item *item)
{
	return item->deadline_ns <= NOW_NS ? 2 : item->deadline_ns != NONE;
}

static int compare_urgency(const struct otte_arbitrate_item *a, const struct otte_arbitrate_item *b,
			   uint64_t ahead)
{
	uint64_t above_a = ahead + a->bytes, above_b = ahead + b->bytes;

	if (rank(a) == 2 || rank(b) == 2)
		return rank(a) - rank(b);
	if (rank(a) == 1 && rank(b) == 1)
		return compare_fractions(above_a, a->deadline_ns - NOW_NS, above_b,
					 b->deadline_ns - NOW_NS);
	return (rank(a) && above_a) - (rank(b) && above_b);
}

static void model_order(const struct otte_arbitrate_item *items, uint32_t count, uint64_t ahead,
			uint32_t *order)
{
	bool taken[ITEMS_MAX] = { false };
	uint32_t place, best, i;

	for (place = 0; place < count; place++) {
		for (best = 0; taken[best]; best++)
			;
		for (i = best + 1; i < count; i++)
			if (!taken[i] && compare_urgency(&items[i], &items[best], ahead) > 0)
				best = i;
		taken[best] = true;
		order[place] = best;
		if (place < 64)
			ahead += items[best].bytes;
	}
}

static struct otte_arbitrate_item draw_item(void)
{
	/* Few values make ties. */
	static const uint64_t sizes[] = { 8, 1000, 1 << 30 };
	uint64_t bytes = draw(sizes[draw(3)]), left = 1 + draw(sizes[draw(3)]);

	switch (draw(8)) {
	case 0:
		return (struct otte_arbitrate_item){ bytes, NONE };
	case 1:
		return (struct otte_arbitrate_item){ bytes, NOW_NS - draw(3) };
	default:
		return (struct otte_arbitrate_item){ bytes, NOW_NS + left };
	}
}

static void drawn_orders_agree_with_a_model(void **state)
{
	struct otte_arbitrate_item items[ITEMS_MAX];
	uint32_t order[ITEMS_MAX], expected[ITEMS_MAX], count, i;
	unsigned n, moved = 0, tails = 0;
	uint64_t posted;

	(void)state;
	for (n = 0; n < CASES; n++) {
		count = (uint32_t)draw(draw(3) ? 20 : ITEMS_MAX + 1);
		posted = draw(3) ? draw(2000) : 0;
		for (i = 0; i < count; i++)
			items[i] = draw_item();
		otte_arbitrate_order(items, count, posted, RATE, NOW_NS, order);
		model_order(items, count, posted, expected);
		for (i = 0; i < count; i++)
			assert_int_equal(order[i], expected[i]);
		for (i = 0; i < count; i++)
			moved += order[i] != i;
		tails += count > OTTE_ARBITRATE_GREEDY + 1;
	}
	assert_true(moved > 10000 && tails > 100);
}

static void drawn_admissions_agree_with_the_time_that_they_take(void **state)
{
	struct otte_arbitrate_item item;
	unsigned n, yes = 0, no = 0;
	uint64_t ahead, rate;
	bool in_time;

	(void)state;
	for (n = 0; n < 200000; n++) {
		item = draw_item();
		ahead = draw(draw(2) ? 10 : 1000000);
		rate = 1 + draw(draw(2) ? 20 * NSEC_PER_SEC : 1000);
		/* Up to 2^31 bytes: their time in whole units of 1/rate s fits into 64 bits. */
		in_time = item.deadline_ns == NONE ||
			  (item.deadline_ns > NOW_NS &&
			   compare_fractions((ahead + item.bytes) * NSEC_PER_SEC, rate,
					     item.deadline_ns - NOW_NS, 1) <= 0);
		assert_int_equal(otte_arbitrate_admits(&item, ahead, rate, NOW_NS), in_time);
		yes += in_time;
		no += !in_time;
	}
	assert_true(yes > 1000 && no > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_takes_more_of_its_time_goes_first),
		cmocka_unit_test(what_is_posted_already_makes_a_near_deadline_weigh_more),
		cmocka_unit_test(each_pick_is_ahead_of_those_that_follow),
		cmocka_unit_test(equals_and_those_without_a_deadline_are_first_in_first_out),
		cmocka_unit_test(a_deadline_that_is_reached_is_before_all_and_first_in_first_out),
		cmocka_unit_test(without_a_rate_all_stays_as_it_came),
		cmocka_unit_test(the_rate_itself_does_not_change_the_order),
		cmocka_unit_test(from_the_65th_on_what_is_ahead_stays),
		cmocka_unit_test(sums_of_bytes_stop_at_the_most_there_can_be),
		cmocka_unit_test(it_is_admitted_up_to_the_last_byte_that_can_be_in_time),
		cmocka_unit_test(without_a_rate_or_a_deadline_it_is_admitted),
		cmocka_unit_test(one_rate_that_is_missing_leaves_that_of_all_unknown),
		cmocka_unit_test(drawn_orders_agree_with_a_model),
		cmocka_unit_test(drawn_admissions_agree_with_the_time_that_they_take),
	};
	const char *given = getenv("SEED");

	if (given)
		seed = strtoull(given, NULL, 0);
	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("arbitrate", tests, NULL, NULL);
}
