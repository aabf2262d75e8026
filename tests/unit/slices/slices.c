/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RDMA's slices: exact figures at each boundary, and the rules of slice.h over drawn requests.
 * SEED=N draws others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/util.h"
#include "sched/slice.h"

#define CASES 200000
#define BASE OTTE_SLICE_BASE_BYTES

static uint64_t seed = 20261130;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 16) % below;
}

struct expected {
	uint64_t length;
	uint32_t max_slices;
	uint32_t count;
	uint64_t block_bytes, last_bytes;
};

static void check_exactly(const struct expected *each)
{
	struct otte_slice_geometry geometry =
		otte_slice_geometry(each->length, BASE, each->max_slices);

	assert_int_equal(geometry.count, each->count);
	assert_int_equal(geometry.block_bytes, each->block_bytes);
	assert_int_equal(geometry.last_bytes, each->last_bytes);
}

#define HOST OTTE_SLICES_HOST_READ
#define ELSE OTTE_SLICES_ELSE

static void the_usual_sizes_are_cut_as_computed_by_hand(void **state)
{
	static const struct expected usual[] = {
		{ 1, HOST, 1, BASE, 1 },
		{ 17, HOST, 1, BASE, 17 },
		{ 4095, HOST, 1, BASE, 4095 },
		{ BASE, HOST, 1, BASE, BASE },
		{ BASE + 1, HOST, 1, BASE, BASE + 1 },
		{ MIB + 3, HOST, 16, BASE, BASE + 3 },
		{ MIB + 3, ELSE, 16, BASE, BASE + 3 },
		{ 4 * MIB, HOST, 64, BASE, BASE },
		{ 2 * MIB, ELSE, 32, BASE, BASE },
		{ 64 * MIB, HOST, 64, MIB, MIB },
		{ 64 * MIB, ELSE, 32, 2 * MIB, 2 * MIB },
		{ 8 * MIB + 160, HOST, 64, 128 * KIB, 128 * KIB + 160 },
		{ TIB, HOST, 64, 16 * GIB, 16 * GIB },
		{ TIB, ELSE, 32, 32 * GIB, 32 * GIB },
		{ TIB + 1, ELSE, 32, 32 * GIB, 32 * GIB + 1 },
		/* A base block over: all blocks grow by one, 63 of them, and what is left. */
		{ TIB + BASE, HOST, 64, 16 * GIB + BASE, 16 * GIB - 62 * BASE },
		{ 1ull << 63, HOST, 64, 1ull << 57, 1ull << 57 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(usual); i++)
		check_exactly(&usual[i]);
}

static void a_tail_of_less_than_a_quarter_block_is_folded(void **state)
{
	static const struct expected tails[] = {
		{ BASE + BASE / 4 - 1, HOST, 1, BASE, BASE + BASE / 4 - 1 },
		{ BASE + BASE / 4, HOST, 2, BASE, BASE / 4 },
		{ BASE / 4 - 1, HOST, 1, BASE, BASE / 4 - 1 },
		{ 2 * BASE + BASE / 4 - 1, HOST, 2, BASE, BASE + BASE / 4 - 1 },
		{ 2 * BASE - 1, HOST, 2, BASE, BASE - 1 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(tails); i++)
		check_exactly(&tails[i]);
}

static void blocks_grow_by_a_base_where_the_bound_is_passed_by_more_than_a_tail(void **state)
{
	static const struct expected bounds[] = {
		{ 64 * BASE - 1, HOST, 64, BASE, BASE - 1 },
		{ 64 * BASE + 1, HOST, 64, BASE, BASE + 1 },
		{ 64 * BASE + BASE / 4 - 1, HOST, 64, BASE, BASE + BASE / 4 - 1 },
		{ 64 * BASE + BASE / 4, HOST, 32, 2 * BASE, 2 * BASE + BASE / 4 },
		{ 65 * BASE, HOST, 33, 2 * BASE, BASE },
		{ 65 * BASE, ELSE, 22, 3 * BASE, 2 * BASE },
		/* A quarter block is two of the base here: the base bounds what is folded. */
		{ 64 * 8 * BASE + BASE - 1, HOST, 64, 8 * BASE, 9 * BASE - 1 },
		{ 64 * 8 * BASE + BASE, HOST, 57, 9 * BASE, 9 * BASE },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(bounds); i++)
		check_exactly(&bounds[i]);
}

/* How many slices blocks of this size make, and how long the longest is: counted one by one. */
static uint64_t cut(uint64_t length, uint64_t block_bytes, uint64_t *longest)
{
	uint64_t count = 0;

	*longest = 0;
	while (length) {
		uint64_t part = min_u64(length, block_bytes);

		if (length - part && length - part < block_bytes / 4)
			part = length;
		*longest = max_u64(*longest, part);
		length -= part;
		count++;
	}
	return count;
}

static void check_rules(uint64_t length, uint64_t base, uint32_t most)
{
	struct otte_slice_geometry geometry = otte_slice_geometry(length, base, most);
	uint64_t end = 0, offset, part, longest, smaller;
	uint32_t i;

	assert_in_range(geometry.count, 1, most);
	assert_true(geometry.block_bytes >= base);
	assert_int_equal(geometry.block_bytes % base, 0);
	for (i = 0; i < geometry.count; i++) {
		otte_slice_of(&geometry, i, &offset, &part);
		assert_int_equal(offset, end);
		assert_int_equal(part, i + 1 < geometry.count ? geometry.block_bytes :
								geometry.last_bytes);
		assert_true(part > 0);
		end += part;
	}
	assert_int_equal(end, length);
	assert_int_equal(cut(length, geometry.block_bytes, &longest), geometry.count);
	if (geometry.count > 1)
		assert_true(geometry.last_bytes >= geometry.block_bytes / 4);
	if (geometry.block_bytes == base)
		return;
	/* A base less would be too many slices, or one no shorter than the blocks are now. */
	smaller = geometry.block_bytes - base;
	assert_true(cut(length, smaller, &longest) > most || longest >= geometry.block_bytes);
}

static void slices_cover_a_drawn_request_exactly(void **state)
{
	static const uint64_t bases[] = { 1, 2, 3, 4096, BASE, MIB };
	uint64_t length, base;
	uint32_t most;
	unsigned i;

	(void)state;
	for (i = 0; i < CASES; i++) {
		base = bases[draw(ARRAY_SIZE(bases))];
		most = (uint32_t)(1 + draw(64));
		if (draw(3))
			length = 1 + draw(draw(2) ? base * 70 : 1ull << (1 + draw(41)));
		else /* beside a multiple of what the bound is for */
			length = base * most * (1 + draw(40)) + draw(2 * base) - base + 1;
		check_rules(length, base, most);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_usual_sizes_are_cut_as_computed_by_hand),
		cmocka_unit_test(a_tail_of_less_than_a_quarter_block_is_folded),
		cmocka_unit_test(
			blocks_grow_by_a_base_where_the_bound_is_passed_by_more_than_a_tail),
		cmocka_unit_test(slices_cover_a_drawn_request_exactly),
	};
	const char *given = getenv("SEED");

	if (given)
		seed = strtoull(given, NULL, 0);
	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("slices", tests, NULL, NULL);
}
