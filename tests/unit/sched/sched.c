/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Slicing and the dispatch window against what their headers say, over drawn cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "base/util.h"
#include "sched/slice.h"
#include "sched/slots.h"
#include "sched/window.h"

#define CASES 200000

static uint64_t seed = 20260729;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 16) % below;
}

/* ---- Slices ---- */

static void check_slicing(uint64_t length, uint64_t base, uint32_t most)
{
	struct otte_slicing slicing = otte_slice_plan(length, base, most);
	uint64_t end = 0, offset, part = 0;
	uint32_t i;

	assert_in_range(slicing.count, 1, most);
	assert_int_equal(slicing.block_bytes % base, 0);
	for (i = 0; i < slicing.count; i++) {
		otte_slice_range(&slicing, length, i, &offset, &part);
		assert_int_equal(offset, end);
		assert_true(part > 0);
		if (i + 1 < slicing.count)
			assert_int_equal(part, slicing.block_bytes);
		end += part;
	}
	assert_int_equal(end, length);
	/* The last one: no shorter than a quarter block beside others, no longer than what was folded in. */
	if (slicing.count > 1)
		assert_true(part >= slicing.block_bytes / 4);
	assert_true(part < slicing.block_bytes + (slicing.block_bytes + 3) / 4);
	/* Larger blocks only where base blocks would have been too many. */
	if (slicing.block_bytes > base)
		assert_true((length - 1) / base + 1 >= most);
}

static void slices_cover_a_request_exactly_and_are_few(void **state)
{
	static const uint64_t bases[] = { 1, 2, 3, 4096, 65536, 1 << 20 };
	uint64_t length, base;
	unsigned i;

	(void)state;
	for (i = 0; i < CASES; i++) {
		base = bases[draw(6)];
		length = 1 + draw(draw(2) ? base * 70 : 1ull << (1 + draw(40)));
		check_slicing(length, base, (uint32_t)(1 + draw(64)));
	}
	/* Around every multiple of a block, and around the bound. */
	for (i = 1; i < 300; i++) {
		check_slicing(i, 64, 4);
		check_slicing(i * 64ull - 1 + (i == 0), 64, 64);
		check_slicing(i * 64ull, 64, 64);
		check_slicing(i * 64ull + 1, 64, 64);
	}
}

static void a_short_tail_is_folded_into_its_predecessor(void **state)
{
	(void)state;
	assert_int_equal(otte_slice_plan(65536 + 16383, 65536, 64).count, 1);
	assert_int_equal(otte_slice_plan(65536 + 16384, 65536, 64).count, 2);
	assert_int_equal(otte_slice_plan(16383, 65536, 64).count, 1);
}

/* ---- The window ---- */

#define ENTRIES 64

struct model {
	struct otte_queue_entry entry;
	uint64_t order;
	enum {
		AWAY,
		WAITING,
		UNDER_WAY
	} where;
};

/* What ought to come next: the first of the highest priority that waits, if it fits. */
static struct model *expected(struct model *models, const struct otte_window *window)
{
	struct model *best = NULL;
	uint64_t bytes = 0;
	uint32_t requests = 0;
	int i;

	for (i = 0; i < ENTRIES; i++) {
		struct model *m = &models[i];

		if (m->where == UNDER_WAY) {
			requests++;
			bytes += m->entry.bytes;
		}
		if (m->where == WAITING &&
		    (!best || m->entry.priority < best->entry.priority ||
		     (m->entry.priority == best->entry.priority && m->order < best->order)))
			best = m;
	}
	assert_int_equal(window->requests, requests);
	assert_int_equal(window->bytes, bytes);
	if (!best || !requests)
		return best; /* alone it goes, however large */
	return requests < window->max_requests && bytes + best->entry.bytes <= window->max_bytes ?
		       best :
		       NULL;
}

static void the_window_is_first_in_first_out_by_priority(void **state)
{
	struct otte_window window = { .max_requests = 5,
				      .max_bytes = 1000,
				      .queue.bound = { ENTRIES, ENTRIES, ENTRIES } };
	static struct model models[ENTRIES];
	uint64_t order = 0;
	unsigned i, alone = 0, full = 0;

	(void)state;
	for (i = 0; i < CASES; i++) {
		struct model *m = &models[draw(ENTRIES)];
		struct otte_queue_entry *next;
		struct model *wanted;

		if (m->where == AWAY) {
			m->entry.bytes = 1 + draw(draw(8) ? 400 : 3000);
			m->entry.priority = (uint8_t)draw(OTTE_PRIORITIES);
			m->order = order++;
			m->where = WAITING;
			assert_int_equal(otte_window_push(&window, &m->entry), 0);
		} else if (m->where == WAITING) {
			if (draw(4) == 0) {
				assert_true(otte_window_remove(&window, &m->entry));
				m->where = AWAY;
			}
		} else {
			assert_false(otte_window_remove(&window, &m->entry));
			otte_window_done(&window, &m->entry);
			m->where = AWAY;
		}
		wanted = expected(models, &window);
		if (draw(2))
			continue;
		next = otte_window_next(&window);
		assert_ptr_equal(next, wanted ? &wanted->entry : NULL);
		if (next)
			wanted->where = UNDER_WAY;
		alone += next && next->bytes > window.max_bytes;
		full += !next && otte_window_waiting(&window);
	}
	assert_true(alone > 100 && full > 100);
}

static void a_large_request_of_high_priority_is_not_overtaken_for_ever(void **state)
{
	struct otte_window window = { .max_requests = 64,
				      .max_bytes = 1000,
				      .queue.bound = { ENTRIES, ENTRIES, ENTRIES } };
	struct otte_queue_entry low = { .bytes = 600, .priority = 2 };
	struct otte_queue_entry high = { .bytes = 2000, .priority = 0 };
	struct otte_queue_entry later = { .bytes = 10, .priority = 2 };

	(void)state;
	assert_int_equal(otte_window_push(&window, &low), 0);
	assert_ptr_equal(otte_window_next(&window), &low);
	assert_int_equal(otte_window_push(&window, &later), 0);
	assert_int_equal(otte_window_push(&window, &high), 0);
	/* It does not fit beside the other one, and what is behind it waits with it. */
	assert_null(otte_window_next(&window));
	otte_window_done(&window, &low);
	assert_ptr_equal(otte_window_next(&window), &high);
	assert_null(otte_window_next(&window));
	otte_window_done(&window, &high);
	assert_ptr_equal(otte_window_next(&window), &later);
}

/* ---- The window behind a gate ---- */

#define HIGH 0
#define MEDIUM 1
#define LOW 2
/* Of the usual pattern, far from the clock's zero. */
#define HIGH_SLOT_NS (600 * NSEC_PER_MSEC)
#define MEDIUM_SLOT_NS (HIGH_SLOT_NS + 2 * NSEC_PER_MSEC)
#define LOW_SLOT_NS (HIGH_SLOT_NS + 4 * NSEC_PER_MSEC)

static const struct otte_slots_pattern usual = {
	.interval_ns = 2 * NSEC_PER_MSEC,
	.slots = 3,
	.lowest = { HIGH, MEDIUM, LOW },
};

struct gated {
	struct otte_slots slots;
	struct otte_window window, other;
};

static void gated_init(struct gated *gated, uint64_t low_bytes_max)
{
	memset(gated, 0, sizeof(*gated));
	assert_int_equal(otte_slots_open_clock(&gated->slots, &usual, 0, low_bytes_max), 0);
	gated->window.max_requests = 5;
	gated->window.max_bytes = 1000;
	gated->window.queue.aging_ns = 10 * NSEC_PER_MSEC;
	gated->window.slots = &gated->slots;
	memset(gated->window.queue.bound, 0xff, sizeof(gated->window.queue.bound));
	gated->other = gated->window;
}

static void gated_fini(struct gated *gated)
{
	otte_slots_close(&gated->slots);
	otte_clock_fake(0);
}

/* `at_ns` is the time from now on. */
static void queue_one(struct otte_window *window, struct otte_queue_entry *entry, uint8_t priority,
		      uint64_t bytes, uint64_t at_ns)
{
	otte_clock_fake(at_ns);
	*entry = (struct otte_queue_entry){ .bytes = bytes,
					    .priority = priority,
					    .enqueued_ns = at_ns };
	assert_int_equal(otte_window_push(window, entry), 0);
}

static void a_full_queue_refuses_and_says_so(void **state)
{
	struct otte_queue_entry entry = { .bytes = 1 }, more = { .bytes = 1 };
	struct gated g;

	(void)state;
	gated_init(&g, 1000);
	g.window.queue.bound[HIGH] = 1;
	assert_int_equal(otte_window_push(&g.window, &entry), 0);
	assert_int_equal(otte_window_push(&g.window, &more), -EDQUOT);
	assert_int_equal(g.slots.waiting[HIGH], 1);
	assert_false(otte_window_remove(&g.window, &more));
	gated_fini(&g);
}

static void what_the_gate_holds_back_is_passed_by_and_told_when_it_opens(void **state)
{
	struct otte_queue_entry low, medium, high;
	struct gated g;

	(void)state;
	gated_init(&g, 1000);
	queue_one(&g.window, &low, LOW, 10, HIGH_SLOT_NS);
	assert_null(otte_window_next(&g.window));
	assert_int_equal(g.window.again_ns, LOW_SLOT_NS);
	queue_one(&g.window, &medium, MEDIUM, 10, HIGH_SLOT_NS);
	queue_one(&g.window, &high, HIGH, 10, HIGH_SLOT_NS + 1);
	assert_ptr_equal(otte_window_next(&g.window), &high);
	assert_null(otte_window_next(&g.window));
	assert_int_equal(g.window.again_ns, MEDIUM_SLOT_NS);
	otte_clock_fake(MEDIUM_SLOT_NS);
	assert_ptr_equal(otte_window_next(&g.window), &medium);
	assert_null(otte_window_next(&g.window));
	otte_clock_fake(LOW_SLOT_NS);
	assert_ptr_equal(otte_window_next(&g.window), &low);
	assert_null(otte_window_next(&g.window));
	assert_int_equal(g.window.again_ns, UINT64_MAX);
	gated_fini(&g);
}

static void a_lone_entry_enters_where_its_gate_is_open(void **state)
{
	struct otte_queue_entry low = { .bytes = 10, .priority = LOW };
	struct otte_queue_entry high = { .bytes = 10, .priority = HIGH };
	struct gated g;

	(void)state;
	gated_init(&g, 1000);
	otte_clock_fake(LOW_SLOT_NS - 1);
	assert_false(otte_window_enter(&g.window, &low));
	assert_int_equal(g.window.again_ns, LOW_SLOT_NS);
	assert_int_equal(g.window.requests, 0);
	assert_true(otte_window_enter(&g.window, &high));
	otte_clock_fake(LOW_SLOT_NS);
	assert_true(otte_window_enter(&g.window, &low));
	assert_int_equal(g.slots.low_bytes, 10);
	assert_false(otte_window_done(&g.window, &high));
	assert_false(otte_window_done(&g.window, &low));
	assert_int_equal(g.slots.low_bytes, 0);
	gated_fini(&g);
}

static void bytes_under_way_hold_up_what_is_below_high_and_no_more(void **state)
{
	struct otte_queue_entry low, medium, more, high;
	struct gated g;

	(void)state;
	gated_init(&g, 100);
	queue_one(&g.window, &low, LOW, 70, LOW_SLOT_NS);
	assert_ptr_equal(otte_window_next(&g.window), &low);
	queue_one(&g.window, &medium, MEDIUM, 31, LOW_SLOT_NS);
	queue_one(&g.window, &more, LOW, 1, LOW_SLOT_NS);
	/* A smaller one of lower priority does not slip through. */
	assert_null(otte_window_next(&g.window));
	assert_int_equal(g.window.again_ns, UINT64_MAX);
	queue_one(&g.window, &high, HIGH, 900, LOW_SLOT_NS);
	assert_ptr_equal(otte_window_next(&g.window), &high);
	assert_null(otte_window_next(&g.window));
	otte_window_done(&g.window, &low);
	assert_ptr_equal(otte_window_next(&g.window), &medium);
	assert_ptr_equal(otte_window_next(&g.window), &more);
	gated_fini(&g);
}

static void an_old_low_one_without_room_holds_up_no_high_one(void **state)
{
	struct otte_queue_entry first, old, high;
	struct gated g;

	(void)state;
	gated_init(&g, 100);
	queue_one(&g.window, &first, LOW, 60, LOW_SLOT_NS);
	queue_one(&g.window, &old, LOW, 60, LOW_SLOT_NS);
	assert_ptr_equal(otte_window_next(&g.window), &first);
	otte_clock_fake(LOW_SLOT_NS + 18 * NSEC_PER_MSEC);
	assert_null(otte_window_next(&g.window));
	otte_clock_fake(LOW_SLOT_NS + 19 * NSEC_PER_MSEC);
	assert_null(otte_window_next(&g.window));
	assert_int_equal(old.tier, HIGH);
	queue_one(&g.window, &high, HIGH, 60, LOW_SLOT_NS + 19 * NSEC_PER_MSEC);
	assert_ptr_equal(otte_window_next(&g.window), &high);
	assert_null(otte_window_next(&g.window));
	gated_fini(&g);
}

/* An old Low one in front of all must not keep High ones waiting for a slot that is not theirs. */
static void age_does_not_open_the_gate_nor_block_it(void **state)
{
	struct otte_queue_entry low, high;
	struct gated g;

	(void)state;
	gated_init(&g, 1000);
	queue_one(&g.window, &low, LOW, 10, HIGH_SLOT_NS);
	otte_clock_fake(HIGH_SLOT_NS + 18 * NSEC_PER_MSEC);
	assert_null(otte_window_next(&g.window));
	otte_clock_fake(HIGH_SLOT_NS + 19 * NSEC_PER_MSEC);
	assert_null(otte_window_next(&g.window));
	assert_int_equal(low.tier, HIGH);
	assert_int_equal(g.window.promoted, 2);
	queue_one(&g.window, &high, HIGH, 10, HIGH_SLOT_NS + 19 * NSEC_PER_MSEC);
	assert_ptr_equal(otte_window_next(&g.window), &high);
	/* In a slot for all it goes first. */
	queue_one(&g.window, &high, HIGH, 10, LOW_SLOT_NS + 18 * NSEC_PER_MSEC);
	assert_ptr_equal(otte_window_next(&g.window), &low);
	assert_ptr_equal(otte_window_next(&g.window), &high);
	gated_fini(&g);
}

static void without_a_gate_age_lets_low_pass_later_high_ones(void **state)
{
	struct otte_queue_entry low, early, late;
	struct gated g;

	(void)state;
	gated_init(&g, 1000);
	g.window.slots = NULL;
	queue_one(&g.window, &early, HIGH, 10, HIGH_SLOT_NS);
	queue_one(&g.window, &low, LOW, 10, HIGH_SLOT_NS);
	assert_ptr_equal(otte_window_next(&g.window), &early);
	otte_clock_fake(HIGH_SLOT_NS + 10 * NSEC_PER_MSEC);
	g.window.requests = g.window.max_requests;
	assert_null(otte_window_next(&g.window));
	otte_clock_fake(HIGH_SLOT_NS + 11 * NSEC_PER_MSEC);
	assert_null(otte_window_next(&g.window));
	queue_one(&g.window, &late, HIGH, 10, HIGH_SLOT_NS + 11 * NSEC_PER_MSEC);
	g.window.requests = 0;
	assert_ptr_equal(otte_window_next(&g.window), &low);
	assert_ptr_equal(otte_window_next(&g.window), &late);
	gated_fini(&g);
}

static void another_window_hears_of_room_that_it_waits_for(void **state)
{
	struct otte_queue_entry first, second, third;
	struct gated g;

	(void)state;
	gated_init(&g, 100);
	queue_one(&g.window, &first, LOW, 60, LOW_SLOT_NS);
	queue_one(&g.window, &second, LOW, 60, LOW_SLOT_NS);
	assert_ptr_equal(otte_window_next(&g.window), &first);
	assert_null(otte_window_next(&g.window));
	/* Its own wait is no other's. */
	assert_false(otte_window_done(&g.window, &first));
	assert_ptr_equal(otte_window_next(&g.window), &second);
	queue_one(&g.other, &third, LOW, 60, LOW_SLOT_NS);
	assert_null(otte_window_next(&g.other));
	assert_true(otte_window_done(&g.window, &second));
	assert_ptr_equal(otte_window_next(&g.other), &third);
	assert_false(otte_window_done(&g.other, &third));
	gated_fini(&g);
}

static void what_waits_is_known_by_priority(void **state)
{
	struct otte_queue_entry low, medium, high;
	struct gated g;

	(void)state;
	gated_init(&g, 1000);
	queue_one(&g.window, &low, LOW, 10, LOW_SLOT_NS);
	queue_one(&g.window, &medium, MEDIUM, 20, LOW_SLOT_NS);
	queue_one(&g.other, &high, HIGH, 40, LOW_SLOT_NS);
	assert_int_equal(g.slots.waiting[HIGH], 40);
	assert_int_equal(g.slots.waiting[MEDIUM], 20);
	assert_int_equal(g.slots.waiting[LOW], 10);
	assert_int_equal(g.window.low_waiting, 30);
	assert_int_equal(g.other.low_waiting, 0);
	assert_true(otte_window_remove(&g.window, &low));
	assert_ptr_equal(otte_window_next(&g.window), &medium);
	assert_ptr_equal(otte_window_next(&g.other), &high);
	assert_int_equal(g.slots.waiting[HIGH] | g.slots.waiting[MEDIUM] | g.slots.waiting[LOW], 0);
	assert_int_equal(g.window.low_waiting, 0);
	gated_fini(&g);
}

/* Whatever comes out may send now and is within the bound; what stays in may not, or does not fit. */
static void check_next(struct gated *g, uint64_t now_ns, unsigned *held)
{
	uint64_t low = g->slots.low_bytes, again_ns = UINT64_MAX;
	unsigned admitted = otte_slots_admit(&g->slots, OTTE_QUEUE_ALL, now_ns, &again_ns);
	struct otte_queue_entry *entry = otte_window_next(&g->window), *stays;

	if (entry) {
		assert_true(admitted & 1u << entry->priority);
		if (entry->priority != HIGH)
			assert_true(!low || low + entry->bytes <= g->slots.low_bytes_max);
		/* Whoever is before it could not. */
		stays = otte_queue_first(&g->window.queue, admitted);
		if (stays && stays->tier < entry->tier && stays->priority != HIGH)
			assert_true(low + stays->bytes > g->slots.low_bytes_max);
		return;
	}
	*held += otte_window_waiting(&g->window);
	stays = otte_queue_first(&g->window.queue, admitted);
	if (!stays || g->window.requests == g->window.max_requests ||
	    g->window.bytes + stays->bytes > g->window.max_bytes)
		return;
	assert_true(stays->priority != HIGH && low && low + stays->bytes > g->slots.low_bytes_max);
}

static void drawn_walks_keep_to_gate_bound_and_window(void **state)
{
	static struct model models[ENTRIES];
	uint64_t now_ns = HIGH_SLOT_NS;
	unsigned i, held = 0, out = 0;
	struct gated g;

	(void)state;
	memset(models, 0, sizeof(models));
	gated_init(&g, 500);
	for (i = 0; i < CASES; i++) {
		struct model *m = &models[draw(ENTRIES)];

		now_ns += draw(400000);
		otte_clock_fake(now_ns);
		if (m->where == AWAY) {
			queue_one(&g.window, &m->entry, (uint8_t)draw(OTTE_PRIORITIES),
				  1 + draw(600), now_ns);
			m->where = WAITING;
		} else if (!m->entry.queued) {
			otte_window_done(&g.window, &m->entry);
			m->where = AWAY;
			out++;
		}
		check_next(&g, now_ns, &held);
	}
	assert_true(held > 1000 && out > 1000 && g.window.promoted > 1000);
	gated_fini(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_cover_a_request_exactly_and_are_few),
		cmocka_unit_test(a_short_tail_is_folded_into_its_predecessor),
		cmocka_unit_test(the_window_is_first_in_first_out_by_priority),
		cmocka_unit_test(a_large_request_of_high_priority_is_not_overtaken_for_ever),
		cmocka_unit_test(a_full_queue_refuses_and_says_so),
		cmocka_unit_test(what_the_gate_holds_back_is_passed_by_and_told_when_it_opens),
		cmocka_unit_test(a_lone_entry_enters_where_its_gate_is_open),
		cmocka_unit_test(bytes_under_way_hold_up_what_is_below_high_and_no_more),
		cmocka_unit_test(an_old_low_one_without_room_holds_up_no_high_one),
		cmocka_unit_test(age_does_not_open_the_gate_nor_block_it),
		cmocka_unit_test(without_a_gate_age_lets_low_pass_later_high_ones),
		cmocka_unit_test(another_window_hears_of_room_that_it_waits_for),
		cmocka_unit_test(what_waits_is_known_by_priority),
		cmocka_unit_test(drawn_walks_keep_to_gate_bound_and_window),
	};

	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("sched", tests, NULL, NULL);
}
