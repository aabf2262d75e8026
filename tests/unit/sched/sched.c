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

#include "base/util.h"
#include "sched/slice.h"
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
	struct otte_window_entry entry;
	uint64_t order;
	enum { AWAY, WAITING, UNDER_WAY } where;
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
		       best : NULL;
}

static void the_window_is_first_in_first_out_by_priority(void **state)
{
	struct otte_window window = { .max_requests = 5, .max_bytes = 1000 };
	static struct model models[ENTRIES];
	uint64_t order = 0;
	unsigned i, alone = 0, full = 0;

	(void)state;
	for (i = 0; i < CASES; i++) {
		struct model *m = &models[draw(ENTRIES)];
		struct otte_window_entry *next;
		struct model *wanted;

		if (m->where == AWAY) {
			m->entry.bytes = 1 + draw(draw(8) ? 400 : 3000);
			m->entry.priority = (uint8_t)draw(OTTE_PRIORITIES);
			m->order = order++;
			m->where = WAITING;
			otte_window_push(&window, &m->entry);
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
	struct otte_window window = { .max_requests = 64, .max_bytes = 1000 };
	struct otte_window_entry low = { .bytes = 600, .priority = 2 };
	struct otte_window_entry high = { .bytes = 2000, .priority = 0 };
	struct otte_window_entry later = { .bytes = 10, .priority = 2 };

	(void)state;
	otte_window_push(&window, &low);
	assert_ptr_equal(otte_window_next(&window), &low);
	otte_window_push(&window, &later);
	otte_window_push(&window, &high);
	/* It does not fit beside the other one, and what is behind it waits with it. */
	assert_null(otte_window_next(&window));
	otte_window_done(&window, &low);
	assert_ptr_equal(otte_window_next(&window), &high);
	assert_null(otte_window_next(&window));
	otte_window_done(&window, &high);
	assert_ptr_equal(otte_window_next(&window), &later);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_cover_a_request_exactly_and_are_few),
		cmocka_unit_test(a_short_tail_is_folded_into_its_predecessor),
		cmocka_unit_test(the_window_is_first_in_first_out_by_priority),
		cmocka_unit_test(a_large_request_of_high_priority_is_not_overtaken_for_ever),
	};

	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("sched", tests, NULL, NULL);
}
