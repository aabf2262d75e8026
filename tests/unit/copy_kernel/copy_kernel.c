/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The copy kernel's body, run by this machine: every byte of a row arrives and no other one changes, whatever the
 * alignments, lengths and pieces; and what the image says. SEED=N draws other rows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "cuda/kernel/copy.h"

#define SHORT 81
#define ROWS 300

static uint64_t seed = 20261201;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 16) % below;
}

static otte_copy_u64 address(const void *at)
{
	return (otte_copy_u64)(uintptr_t)at;
}

/* Each row is a block of its own from malloc(), so that AddressSanitizer sees who reads behind it. */
struct row {
	unsigned char *from_block, *to_block, *expected;
	size_t from_at, to_at, length, to_size;
};

static void row_make(struct row *row, size_t from_at, size_t to_at, size_t length)
{
	size_t i;

	*row = (struct row){ .from_at = from_at, .to_at = to_at, .length = length };
	row->to_size = to_at + length + 32;
	assert_non_null(row->from_block = malloc(from_at + length + 1));
	assert_non_null(row->to_block = malloc(row->to_size));
	assert_non_null(row->expected = malloc(row->to_size));
	for (i = 0; i < from_at + length; i++)
		row->from_block[i] = (unsigned char)draw(256);
	for (i = 0; i < row->to_size; i++)
		row->to_block[i] = (unsigned char)draw(256);
	memcpy(row->expected, row->to_block, row->to_size);
	memcpy(row->expected + to_at, row->from_block + from_at, length);
}

static void row_check(struct row *row)
{
	assert_memory_equal(row->to_block, row->expected, row->to_size);
	free(row->from_block);
	free(row->to_block);
	free(row->expected);
}

static void run(struct row *rows, uint32_t count, uint32_t ctas, uint32_t lanes, uint32_t to_host)
{
	struct otte_copy_launch launch = { .to_host = to_host };
	struct otte_copy_row *table = calloc(count, sizeof(*table));
	uint32_t i;

	assert_non_null(table);
	for (i = 0; i < count; i++) {
		otte_copy_u64 from = address(rows[i].from_block + rows[i].from_at);
		otte_copy_u64 to = address(rows[i].to_block + rows[i].to_at);

		table[i] = (struct otte_copy_row){ .device = to_host ? from : to,
						   .host = to_host ? to : from,
						   .extent = rows[i].length };
	}
	launch.rows = address(table);
	assert_int_equal(otte_copy_cut(table, count, ctas, lanes, &launch), 0);
	otte_copy_run(&launch, ctas);
	for (i = 0; i < count; i++) {
		assert_int_equal(otte_copy_row_bytes(&table[i]), rows[i].length);
		row_check(&rows[i]);
	}
	free(table);
}

static void short_rows_of_every_alignment_arrive(void **state)
{
	struct row rows[SHORT];
	uint32_t from, to, length;

	(void)state;
	for (from = 0; from < 16; from++) {
		for (to = 0; to < 16; to++) {
			for (length = 0; length < SHORT; length++)
				row_make(&rows[length], from, to, length);
			run(rows, SHORT, 1, 8u << (from + to) % 3, to & 1);
		}
	}
}

static void tails_of_long_rows_arrive(void **state)
{
	static const uint32_t around[] = { 512, 2048, 4096, 16384, 65536 };
	struct row rows[2 * ARRAY_SIZE(around) * 31];
	uint32_t lanes, shift;

	(void)state;
	for (lanes = 8; lanes <= 32; lanes *= 2) {
		for (shift = 0; shift < 16; shift += 5) {
			uint32_t count = 0, i;
			int tail;

			for (i = 0; i < ARRAY_SIZE(around); i++) {
				for (tail = -15; tail <= 15; tail++)
					row_make(&rows[count++], 3, (3 + shift) % 16,
						 around[i] + (size_t)(tail + 15) - 15);
			}
			run(rows, count, 1 + lanes / 16, lanes, shift & 1);
		}
	}
}

/* Rows that are alike are found at once, others by search; a few long ones beside many empty ones, too. */
static void drawn_rows_arrive(void **state)
{
	struct row rows[ROWS];
	uint32_t round;

	(void)state;
	for (round = 0; round < 40; round++) {
		uint32_t count = 1 + (uint32_t)draw(draw(2) ? 8 : ROWS), i;
		uint64_t most = 1ull << draw(17);

		for (i = 0; i < count; i++)
			row_make(&rows[i], draw(16), draw(16),
				 draw(3) ? draw(most) : draw(2) ? 0 : draw(64 * KIB));
		run(rows, count, 1 + (uint32_t)draw(3), 8u << draw(3), (uint32_t)draw(2));
	}
}

static void rows_are_cut_as_computed_by_hand(void **state)
{
	/* Four teams of one CTA's 32 at 2 KiB and less; 16 KiB are the most. */
	struct otte_copy_row rows[] = { { .extent = 0 },    { .extent = 2048 }, { .extent = 2049 },
					{ .extent = 4096 }, { .extent = 1 },    { .extent = 0 } };
	static const uint32_t first[] = { 0, 1, 2, 4, 6, 7 };
	struct otte_copy_row alike[4] = { { .extent = 64 * MIB }, { .extent = 64 * MIB },
					  { .extent = 64 * MIB }, { .extent = 64 * MIB } };
	struct otte_copy_launch launch = { 0 };
	uint32_t i;

	(void)state;
	assert_int_equal(otte_copy_cut(rows, 6, 1, 32, &launch), 0);
	assert_int_equal(launch.count, 6);
	assert_int_equal(launch.pieces, 8);
	assert_int_equal(launch.piece_bytes, 2048);
	assert_int_equal(launch.lanes, 32);
	assert_int_equal(launch.ratio, 3221225472u); /* 6 / 8 */
	for (i = 0; i < ARRAY_SIZE(first); i++)
		assert_int_equal(rows[i].extent >> OTTE_COPY_ROW_BITS, first[i]);
	assert_int_equal(otte_copy_row_bytes(&rows[2]), 2049);
	assert_int_equal(otte_copy_cut(alike, 4, 2, 8, &launch), 0);
	assert_int_equal(launch.piece_bytes, 16384);
	assert_int_equal(launch.pieces, 16384);
	assert_int_equal(alike[3].extent >> OTTE_COPY_ROW_BITS, 3 * 4096);
	/* 256 KiB for 64 teams, two pieces each. */
	alike[0].extent = alike[1].extent = 128 * KIB;
	assert_int_equal(otte_copy_cut(alike, 2, 2, 32, &launch), 0);
	assert_int_equal(launch.piece_bytes, 2048);
	assert_int_equal(launch.pieces, 128);
}

static void what_cannot_be_cut_is_refused(void **state)
{
	struct otte_copy_row rows[2] = { { .extent = 1 }, { .extent = 1 } };
	struct otte_copy_launch launch;

	(void)state;
	assert_int_equal(otte_copy_cut(rows, 2, 1, 4, &launch), -EINVAL);
	assert_int_equal(otte_copy_cut(rows, 2, 1, 64, &launch), -EINVAL);
	assert_int_equal(otte_copy_cut(rows, 0, 1, 32, &launch), -EINVAL);
	assert_int_equal(otte_copy_cut(rows, 2, 0, 32, &launch), -EINVAL);
	assert_int_equal(otte_copy_cut(rows, 2, 65536, 32, &launch), -EINVAL);
	rows[1].extent = 1ull << 40;
	assert_int_equal(otte_copy_cut(rows, 2, 1, 32, &launch), -ERANGE);
	/* 256 GiB are 2^24 pieces of 16 KiB; a byte more is one more, behind which another row has no number. */
	rows[0].extent = 256 * GIB;
	assert_int_equal(otte_copy_cut(rows, 1, 1, 32, &launch), 0);
	assert_int_equal(launch.pieces, OTTE_COPY_MAX_PIECES);
	rows[0].extent = 256 * GIB;
	rows[1].extent = 0;
	assert_int_equal(otte_copy_cut(rows, 2, 1, 32, &launch), -ERANGE);
	rows[0].extent = 256 * GIB + 1;
	assert_int_equal(otte_copy_cut(rows, 1, 1, 32, &launch), -ERANGE);
}

static void the_image_is_a_ptx_text_with_the_entry(void **state)
{
	const char *image = otte_copy_image();

	(void)state;
	assert_non_null(strstr(image, ".version 6.0\n.target sm_70\n.address_size 64\n"));
	assert_non_null(strstr(image, ".visible .entry " OTTE_COPY_ENTRY "("));
	assert_non_null(strstr(image, ".maxntid 1024, 1, 1\n"));
	/* Host memory that another side writes is not read through the path for what stays as it is. */
	assert_null(strstr(image, ".nc."));
	assert_int_equal(image[strlen(image) - 1], '\n');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_rows_of_every_alignment_arrive),
		cmocka_unit_test(tails_of_long_rows_arrive),
		cmocka_unit_test(drawn_rows_arrive),
		cmocka_unit_test(rows_are_cut_as_computed_by_hand),
		cmocka_unit_test(what_cannot_be_cut_is_refused),
		cmocka_unit_test(the_image_is_a_ptx_text_with_the_entry),
	};
	const char *given = getenv("SEED");

	if (given)
		seed = strtoull(given, NULL, 0);
	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("copy_kernel", tests, NULL, NULL);
}
