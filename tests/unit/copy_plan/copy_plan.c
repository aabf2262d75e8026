/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Plans of local copies: exact operations for the shapes that have a name, the limits, and drawn submissions beside a
 * model that copies row after row and compares each pair of rows. SEED=N draws others; PLAN_COST=1 says what a plan
 * of 4,096 descriptors takes.
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
#include <time.h>

#include "base/util.h"
#include "cuda/kernel/copy.h"
#include "cuda/plan.h"

#define ROWS 4096u
#define PITCH (1ull << 31)
#define ALL UINT64_MAX
#define DEVICE 0x700000000000ull
#define HOST 0x200000000000ull
#define ALIAS 0x300000000000ull

static const struct otte_plan_view device = { .base = DEVICE, .length = GIB, .owner = 1 };
static const struct otte_plan_view host = { .base = HOST, .length = GIB, .owner = 2, .alias = ALIAS };
static uint64_t seed = 20261201;

/* Of a region, a plan reads the view alone. */
static struct otte_region *region(const struct otte_plan_view *view)
{
	return (struct otte_region *)(uintptr_t)view; /* NOLINT(performance-no-int-to-ptr): without its const */
}

static const struct otte_plan_view *view_of(const struct otte_region *it)
{
	return (const struct otte_plan_view *)it;
}

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 16) % below;
}

static int setup(void **state)
{
	static struct otte_plan plan;

	*state = &plan;
	return otte_plan_init(&plan, ROWS, PITCH);
}

static int teardown(void **state)
{
	otte_plan_free(*state);
	return 0;
}

static int build(struct otte_plan *plan, const struct otte_copy_desc *descs, uint32_t count, bool to_host,
		 uint64_t left)
{
	int ret = otte_plan_build(plan, descs, count, to_host, left);

	otte_plan_make_ops(plan);
	return ret;
}

static struct otte_copy_desc one(uint64_t device_offset, uint64_t host_offset, uint64_t bytes)
{
	return (struct otte_copy_desc){ .device = region(&device),
					.host = region(&host),
					.device_offset = device_offset,
					.host_offset = host_offset,
					.bytes = bytes,
					.rows = 1 };
}

static struct otte_copy_desc strided(struct otte_copy_desc desc, uint64_t count, uint64_t device_pitch,
				     uint64_t host_pitch)
{
	desc.rows = count;
	desc.device_pitch = device_pitch;
	desc.host_pitch = host_pitch;
	return desc;
}

static void check_op(const struct otte_plan *plan, uint32_t at, struct otte_plan_op op)
{
	assert_in_range(at, 0, plan->op_count - 1);
	assert_int_equal(plan->ops[at].device - DEVICE, op.device);
	assert_int_equal(plan->ops[at].host - HOST, op.host);
	assert_int_equal(plan->ops[at].bytes, op.bytes);
	assert_int_equal(plan->ops[at].rows, op.rows);
	assert_int_equal(plan->ops[at].device_pitch, op.device_pitch);
	assert_int_equal(plan->ops[at].host_pitch, op.host_pitch);
}

static void check_empty(const struct otte_plan *plan)
{
	assert_int_equal(plan->op_count, 0);
	assert_int_equal(plan->run_count, 0);
	assert_int_equal(plan->row_count, 0);
	assert_int_equal(plan->bytes, 0);
	assert_false(plan->overlaps);
}

static void rows_that_follow_each_other_are_one_copy(void **state)
{
	struct otte_plan *plan = *state;
	struct otte_copy_desc descs[] = { one(100, 7, 50), one(150, 57, 1), strided(one(151, 58, 10), 4, 10, 10) };
	struct otte_copy_row row;

	assert_int_equal(build(plan, descs, 3, false, ALL), 0);
	assert_int_equal(plan->op_count, 1);
	check_op(plan, 0, (struct otte_plan_op){ .device = 100, .host = 7, .bytes = 91, .rows = 1 });
	assert_int_equal(plan->row_count, 6);
	assert_int_equal(plan->bytes, 91);
	assert_int_equal(plan->longest, 91);
	assert_int_equal(plan->run_count, 1);
	assert_true(plan->mapped);
	assert_false(plan->overlaps);
	otte_plan_fill_rows(plan, &row);
	assert_int_equal(row.device, DEVICE + 100);
	assert_int_equal(row.host, ALIAS + 7);
	assert_int_equal(row.extent, 91);
}

static void rows_of_a_constant_pitch_are_one_2d_copy(void **state)
{
	struct otte_plan *plan = *state;
	struct otte_copy_desc descs[] = {
		strided(one(0, 0, 32), 4, 64, 32), /* by one descriptor */
		one(4096, 9000, 16),		   /* by three of them */
		one(4196, 9016, 16),
		one(4296, 9032, 16),
		one(9000, 20000, 16), /* two are not enough */
		one(9100, 20100, 16),
		one(9100, 30000, 16), /* back */
		one(9200, 29000, 16),
		one(9300, 28000, 16),
	};

	assert_int_equal(build(plan, descs, ARRAY_SIZE(descs), true, ALL), 0);
	assert_int_equal(plan->op_count, 7);
	check_op(plan, 0, (struct otte_plan_op){ 0, 0, 32, 64, 32, 4 });
	check_op(plan, 1, (struct otte_plan_op){ 4096, 9000, 16, 100, 16, 3 });
	check_op(plan, 2, (struct otte_plan_op){ 9000, 20000, 16, 0, 0, 1 });
	check_op(plan, 6, (struct otte_plan_op){ 9300, 28000, 16, 0, 0, 1 });
	assert_int_equal(plan->run_count, 12);
}

static void a_pair_does_not_keep_what_follows_from_a_2d_copy(void **state)
{
	struct otte_plan *plan = *state;
	struct otte_copy_desc descs[] = { one(0, 0, 8), one(1000, 1000, 8), one(1016, 1016, 8), one(1032, 1032, 8) };

	assert_int_equal(build(plan, descs, 4, false, ALL), 0);
	assert_int_equal(plan->op_count, 2);
	check_op(plan, 0, (struct otte_plan_op){ 0, 0, 8, 0, 0, 1 });
	check_op(plan, 1, (struct otte_plan_op){ 1000, 1000, 8, 16, 16, 3 });
}

static void runs_of_two_rows_are_rows_of_a_2d_copy(void **state)
{
	struct otte_plan *plan = *state;
	struct otte_copy_desc descs[6];
	uint32_t i;

	for (i = 0; i < 6; i++)
		descs[i] = one(i / 2 * 100 + i % 2 * 8, i / 2 * 50 + i % 2 * 8, 8);
	assert_int_equal(build(plan, descs, 6, false, ALL), 0);
	assert_int_equal(plan->op_count, 1);
	check_op(plan, 0, (struct otte_plan_op){ 0, 0, 16, 100, 50, 3 });
}

static void a_pitch_over_the_devices_is_no_2d_copy(void **state)
{
	struct otte_plan plan;
	struct otte_copy_desc desc = strided(one(0, 0, 16), 3, 64, 128);

	(void)state;
	assert_int_equal(otte_plan_init(&plan, 8, 127), 0);
	assert_int_equal(build(&plan, &desc, 1, false, ALL), 0);
	assert_int_equal(plan.op_count, 3);
	plan.max_pitch = 128;
	assert_int_equal(build(&plan, &desc, 1, false, ALL), 0);
	assert_int_equal(plan.op_count, 1);
	otte_plan_free(&plan);
	assert_int_equal(otte_plan_init(&plan, 0, 127), -EINVAL);
}

static void nothing_is_joined_across_owners(void **state)
{
	struct otte_plan *plan = *state;
	struct otte_plan_view parts[3];
	struct otte_copy_desc descs[3];
	uint32_t i;

	for (i = 0; i < 3; i++) {
		parts[i] = (struct otte_plan_view){ HOST + i * 64, 64, 10 + i, ALIAS + i * 64 };
		descs[i] = one(64 * i, 0, 64);
		descs[i].host = region(&parts[i]);
	}
	assert_int_equal(build(plan, descs, 3, false, ALL), 0);
	assert_int_equal(plan->op_count, 3);
	/* Views of one pin: one copy. */
	for (i = 0; i < 3; i++)
		parts[i].owner = 10;
	assert_int_equal(build(plan, descs, 3, false, ALL), 0);
	assert_int_equal(plan->op_count, 1);
	/* The device does not reach one of them. */
	parts[1].alias = 0;
	assert_int_equal(build(plan, descs, 3, false, ALL), 0);
	assert_false(plan->mapped);
}

static void what_is_no_bytes_is_no_copy(void **state)
{
	struct otte_plan *plan = *state;
	struct otte_copy_desc descs[] = { one(GIB, GIB, 0), strided(one(0, 0, 0), 5, 1, 1),
					  strided(one(2 * GIB, 2 * GIB, 8), 0, 8, 8) };

	assert_int_equal(build(plan, descs, 3, false, 0), 0);
	assert_int_equal(plan->op_count, 0);
	assert_int_equal(plan->row_count, 6);
	assert_int_equal(build(plan, NULL, 0, false, 0), 0);
	check_empty(plan);
}

static void a_row_outside_of_a_view_is_refused(void **state)
{
	struct otte_plan *plan = *state;
	struct otte_plan_view wrapped = { .base = UINT64_MAX - 10, .length = 20 };
	struct otte_copy_desc refused[] = {
		one(GIB - 7, 0, 8),
		one(0, GIB - 7, 8),
		one(GIB + 1, 0, 0),
		one(UINT64_MAX, 0, 8),
		strided(one(0, 0, 8), 3, GIB / 2 - 3, 8),
		strided(one(0, 0, 8), 3, UINT64_MAX / 2 + 1, 8),
		strided(one(8, 0, 8), 2, 8, UINT64_MAX),
		strided(one(8, 0, 8), 2, UINT64_MAX - 7, 8),
	};
	struct otte_copy_desc fits = strided(one(0, 0, 8), 3, GIB / 2 - 4, 8);
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		struct otte_copy_desc descs[] = { one(0, 0, 8), refused[i] };

		assert_int_equal(build(plan, descs, 2, false, ALL), -ERANGE);
		check_empty(plan);
	}
	assert_int_equal(build(plan, &fits, 1, false, ALL), 0);
	fits.device = region(&wrapped);
	assert_int_equal(build(plan, &fits, 1, false, ALL), -ERANGE);
}

static void the_budget_is_exact(void **state)
{
	struct otte_plan *plan = *state;
	struct otte_copy_desc descs[2] = { strided(one(0, 0, 2), ROWS - 1, 4, 4), one(MIB, MIB, 2) };

	assert_int_equal(build(plan, descs, 2, false, 8192), 0);
	assert_int_equal(plan->row_count, 4096);
	assert_int_equal(plan->bytes, 8192);
	assert_int_equal(build(plan, descs, 2, false, 8191), -EDQUOT);
	check_empty(plan);
	descs[0].rows = ROWS;
	assert_int_equal(build(plan, descs, 2, false, ALL), -EDQUOT);
	check_empty(plan);
	descs[0].rows = UINT64_MAX;
	assert_int_equal(build(plan, descs, 1, false, ALL), -EDQUOT);
	assert_int_equal(otte_plan_storage_bytes(4096, 4), 786432);
}

static void destinations_that_meet_are_found_on_their_side_alone(void **state)
{
	struct otte_plan *plan = *state;
	struct otte_copy_desc descs[100];
	uint32_t i;

	/* Sources that are the same, destinations in a shuffled order: 37 and 100 have no common divisor. */
	for (i = 0; i < 100; i++)
		descs[i] = one(i * 37 % 100 * 64, 0, 64);
	assert_int_equal(build(plan, descs, 100, false, ALL), 0);
	assert_false(plan->overlaps);
	assert_int_equal(build(plan, descs, 100, true, ALL), 0);
	assert_true(plan->overlaps);
	assert_int_equal(plan->op_count, 100);
	/* By a byte. */
	descs[50].device_offset += 1;
	assert_int_equal(build(plan, descs, 100, false, ALL), 0);
	assert_true(plan->overlaps);
	/* Rows of one descriptor. */
	descs[0] = strided(one(0, 0, 64), 10, 63, 64);
	assert_int_equal(build(plan, descs, 1, false, ALL), 0);
	assert_true(plan->overlaps);
	assert_int_equal(plan->op_count, 10);
	assert_int_equal(build(plan, descs, 1, true, ALL), 0);
	assert_false(plan->overlaps);
	assert_int_equal(plan->op_count, 10); /* a pitch below the width is no 2D copy */
}

static void a_destination_that_meets_a_source_is_found(void **state)
{
	struct otte_plan *plan = *state;
	struct otte_plan_view same = { .base = DEVICE, .length = GIB, .owner = 1, .alias = DEVICE };
	struct otte_copy_desc descs[] = { one(0, 1000, 8), one(8, 1008, 8), one(16, 0, 8) };
	uint32_t i;

	for (i = 0; i < 3; i++)
		descs[i].host = region(&same);
	assert_int_equal(build(plan, descs, 3, true, ALL), 0);
	assert_true(plan->aliases);
	assert_int_equal(plan->op_count, 3);
	descs[2].host_offset = 24;
	assert_int_equal(build(plan, descs, 3, true, ALL), 0);
	assert_false(plan->aliases);
	assert_int_equal(plan->op_count, 2);
	descs[2].host_offset = 23;
	assert_int_equal(build(plan, descs, 3, true, ALL), -EINVAL);
	check_empty(plan);
}

/* ---- Drawn ----------------------------------------------------------------------------------- */

#define AREA 8192
#define DRAWN_DESCS 96
#define DRAWN_ROWS 400

/* What a submission means. */
struct model {
	unsigned char *device, *host;
	struct model_row {
		unsigned char *to;
		const unsigned char *from;
		uint64_t bytes;
	} rows[DRAWN_ROWS];
	uint32_t count;
};

static unsigned char *pointer(uint64_t at)
{
	return (unsigned char *)(uintptr_t)at; /* NOLINT(performance-no-int-to-ptr): plans have addresses */
}

static bool apart(const unsigned char *a, uint64_t a_bytes, const unsigned char *b, uint64_t b_bytes)
{
	return a + a_bytes <= b || b + b_bytes <= a;
}

static void model_expand(struct model *model, const struct otte_copy_desc *descs, uint32_t count, bool to_host)
{
	uint32_t i;
	uint64_t row;

	model->count = 0;
	for (i = 0; i < count; i++) {
		const struct otte_copy_desc *desc = &descs[i];

		for (row = 0; row < desc->rows && desc->bytes; row++) {
			unsigned char *there = pointer(view_of(desc->device)->base + desc->device_offset +
						       row * desc->device_pitch);
			unsigned char *here =
				pointer(view_of(desc->host)->base + desc->host_offset + row * desc->host_pitch);

			model->rows[model->count++] = (struct model_row){ to_host ? here : there,
									  to_host ? there : here, desc->bytes };
		}
	}
}

static void model_meet(const struct model *model, bool *overlaps, bool *aliases, bool *onto_itself)
{
	uint32_t a, b;

	*overlaps = *aliases = *onto_itself = false;
	for (a = 0; a < model->count; a++) {
		const struct model_row *x = &model->rows[a];

		for (b = 0; b < model->count; b++) {
			const struct model_row *y = &model->rows[b];

			*overlaps |= a != b && !apart(x->to, x->bytes, y->to, y->bytes);
			*aliases |= !apart(x->to, x->bytes, y->from, y->bytes);
		}
		*onto_itself |= !apart(x->to, x->bytes, x->from, x->bytes);
	}
}

static void model_copy(const struct model *model)
{
	uint32_t i;

	for (i = 0; i < model->count; i++)
		memcpy(model->rows[i].to, model->rows[i].from, model->rows[i].bytes);
}

static void run_ops(const struct otte_plan *plan)
{
	uint32_t i, row;

	for (i = 0; i < plan->op_count; i++) {
		const struct otte_plan_op *op = &plan->ops[i];

		for (row = 0; row < op->rows; row++) {
			void *there = pointer(op->device + row * op->device_pitch);
			void *here = pointer(op->host + row * op->host_pitch);

			memcpy(plan->to_host ? here : there, plan->to_host ? there : here, op->bytes);
		}
		if (op->rows > 1) {
			assert_in_range(op->device_pitch, op->bytes, plan->max_pitch);
			assert_in_range(op->host_pitch, op->bytes, plan->max_pitch);
		}
	}
}

static void run_kernel(const struct otte_plan *plan)
{
	struct otte_copy_row *rows = calloc(plan->run_count + 1, sizeof(*rows));
	struct otte_copy_launch launch = { .to_host = plan->to_host };

	assert_non_null(rows);
	otte_plan_fill_rows(plan, rows);
	launch.rows = (uintptr_t)rows;
	assert_int_equal(otte_copy_cut(rows, plan->run_count, 1, 8u << draw(3), &launch), 0);
	otte_copy_run(&launch, 1);
	free(rows);
}

/* Few or many, alike or not, near each other so that they meet, or each in a place of its own. */
static uint32_t draw_descs(struct otte_copy_desc *descs, const struct otte_plan_view *devices,
			   const struct otte_plan_view *hosts)
{
	uint32_t count = 1 + (uint32_t)draw(draw(2) ? 6 : DRAWN_DESCS), i;
	bool own_place = draw(3), ascending = draw(2), join = draw(2);
	uint64_t most = 1 + draw(64), row = AREA / DRAWN_DESCS;

	for (i = 0; i < count; i++) {
		struct otte_copy_desc *desc = &descs[i];
		uint32_t place = ascending ? i : i * 37 % DRAWN_DESCS;

		*desc = (struct otte_copy_desc){ .device = region(&devices[draw(2)]), .host = region(&hosts[draw(2)]) };
		desc->bytes = draw(8) ? draw(most) : most;
		desc->rows = own_place ? 1 : draw(5);
		desc->device_pitch = draw(2) ? desc->bytes : draw(100);
		desc->host_pitch = draw(2) ? desc->bytes : draw(100);
		desc->device_offset = own_place ? place * row : draw(AREA - 600);
		desc->host_offset = own_place ? place * row : draw(AREA - 600);
		if (join && i) {
			*desc = descs[i - 1];
			desc->device_offset += draw(4) ? desc->bytes : desc->bytes * 2;
			desc->host_offset += draw(4) ? desc->bytes : desc->bytes * 2;
			desc->rows = 1;
			if (desc->device_offset > AREA - 600 || desc->host_offset > AREA - 600)
				return i;
		}
	}
	return count;
}

static void one_drawn(struct otte_plan *plan, unsigned char *memory, uint64_t seen[4])
{
	static unsigned char before[2 * AREA], after[2 * AREA];
	static struct model model;
	struct otte_copy_desc descs[DRAWN_DESCS];
	bool shared = !draw(4), to_host = draw(2), overlaps, aliases, onto_itself;
	struct otte_plan_view devices[2] = { { (uintptr_t)memory, AREA, 1, 0 }, { (uintptr_t)memory, AREA, 1, 0 } };
	struct otte_plan_view hosts[2];
	uint32_t count, i;
	int rc;

	hosts[0] = devices[0];
	if (!shared)
		hosts[0].base += AREA;
	hosts[0].alias = hosts[0].base;
	hosts[1] = hosts[0];
	devices[1].owner = 1 + draw(2);
	hosts[1].owner = 1 + draw(2);
	count = draw_descs(descs, devices, hosts);
	for (i = 0; i < 2 * AREA; i++)
		before[i] = (unsigned char)draw(256);
	model_expand(&model, descs, count, to_host);
	model_meet(&model, &overlaps, &aliases, &onto_itself);
	rc = build(plan, descs, count, to_host, ALL);
	assert_int_equal(rc, onto_itself ? -EINVAL : 0);
	seen[onto_itself ? 0 : aliases ? 1 : overlaps ? 2 : 3]++;
	if (onto_itself)
		return;
	assert_int_equal(plan->overlaps, overlaps);
	assert_int_equal(plan->aliases, aliases);
	memcpy(memory, before, sizeof(before));
	model_copy(&model);
	memcpy(after, memory, sizeof(after));
	memcpy(memory, before, sizeof(before));
	run_ops(plan);
	assert_memory_equal(memory, after, sizeof(after));
	if (overlaps || aliases || !plan->run_count)
		return;
	memcpy(memory, before, sizeof(before));
	run_kernel(plan);
	assert_memory_equal(memory, after, sizeof(after));
}

static void drawn_submissions_are_what_row_after_row_is(void **state)
{
	unsigned char *memory = malloc(2 * AREA);
	uint64_t seen[4] = { 0 };
	uint32_t i;

	assert_non_null(memory);
	for (i = 0; i < 4000; i++)
		one_drawn(*state, memory, seen);
	free(memory);
	print_message("onto itself %lu, aliases %lu, overlaps %lu, apart %lu\n", (unsigned long)seen[0],
		      (unsigned long)seen[1], (unsigned long)seen[2], (unsigned long)seen[3]);
	for (i = 0; i < 4; i++)
		assert_in_range(seen[i], 10, 4000);
}

/* Many ranges take the other sort: against the model, far apart and in every digit. */
static void many_destinations_are_sorted(void **state)
{
	static struct otte_copy_desc descs[ROWS];
	static struct otte_plan_view wide = { .base = 4096, .length = 1ull << 46, .owner = 1 };
	struct otte_plan *plan = *state;
	uint32_t round, i;

	for (round = 0; round < 200; round++) {
		uint32_t count = 49 + (uint32_t)draw(round ? 300 : ROWS - 49), spread = 10 + (uint32_t)draw(36), b;
		bool expected = false;

		for (i = 0; i < count; i++) {
			descs[i] = one(draw(1ull << spread) & ~draw(16), (uint64_t)i * 16, 1 + draw(16));
			descs[i].device = region(&wide);
		}
		for (i = 0; i < count; i++) {
			for (b = 0; b < i; b++)
				expected |= descs[i].device_offset < descs[b].device_offset + descs[b].bytes &&
					    descs[b].device_offset < descs[i].device_offset + descs[i].bytes;
		}
		assert_int_equal(build(plan, descs, count, false, ALL), 0);
		assert_int_equal(plan->overlaps, expected);
		for (i = 1; i < plan->run_count && !expected; i++)
			assert_true(plan->ranges[i - 1].start < plan->ranges[i].start);
	}
}

/* Blocks of a cache: whether two of them meet is told by their places, unless one of them reaches into the next. */
static void blocks_on_a_grid_meet_where_their_places_are_the_same(void **state)
{
	static struct otte_copy_desc descs[ROWS];
	struct otte_plan *plan = *state;
	uint32_t round, i, b, met = 0;

	for (round = 0; round < 300; round++) {
		uint64_t shift = 4 + draw(9), longest = (1ull << shift) + (draw(4) ? 0 : 1);
		uint32_t count = 49 + (uint32_t)draw(200), places = count + (uint32_t)draw(draw(2) ? 40000 : 20);
		bool expected = false;

		for (i = 0; i < count; i++)
			descs[i] = one(5 + (draw(places) << shift), i * 8192, 1 + draw(longest));
		for (i = 0; i < count; i++)
			for (b = 0; b < i; b++)
				expected |= descs[i].device_offset < descs[b].device_offset + descs[b].bytes &&
					    descs[b].device_offset < descs[i].device_offset + descs[i].bytes;
		assert_int_equal(build(plan, descs, count, false, ALL), 0);
		assert_int_equal(plan->overlaps, expected);
		met += expected;
	}
	assert_in_range(met, 50, 290);
	/* Each place once. */
	for (i = 0; i < ROWS; i++)
		descs[i] = one((uint64_t)i * 2731 % ROWS * 4096, (uint64_t)i * 4096, 4096);
	assert_int_equal(build(plan, descs, ROWS, false, ALL), 0);
	assert_false(plan->overlaps);
	descs[ROWS - 1].device_offset = descs[7].device_offset;
	assert_int_equal(build(plan, descs, ROWS, false, ALL), 0);
	assert_true(plan->overlaps);
}

/* ---- Cost ------------------------------------------------------------------------------------ */

static double cost_us(struct otte_plan *plan, const struct otte_copy_desc *descs)
{
	double best = 1e9;
	uint32_t i;

	for (i = 0; i < 200; i++) {
		struct timespec begin, end;
		double us;

		clock_gettime(CLOCK_MONOTONIC, &begin);
		assert_int_equal(otte_plan_build(plan, descs, ROWS, false, ALL), 0);
		clock_gettime(CLOCK_MONOTONIC, &end);
		us = (double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
		best = us < best ? us : best;
	}
	assert_false(plan->overlaps);
	return best;
}

static void what_a_plan_takes(void **state)
{
	static struct otte_copy_desc descs[ROWS];
	uint64_t i;

	if (!getenv("PLAN_COST"))
		skip();
	for (i = 0; i < ROWS; i++)
		descs[i] = one(i * 2048, i * 2048, 2048);
	print_message("contiguous %.1f us\n", cost_us(*state, descs));
	for (i = 0; i < ROWS; i++)
		descs[i] = one(i * 4096, i * 2048, 2048);
	print_message("strided %.1f us\n", cost_us(*state, descs));
	for (i = 0; i < ROWS; i++)
		descs[i] = one(i * 2731 % ROWS * 4096 * 16, i * 1531 % ROWS * 4096, 2048);
	print_message("scattered %.1f us\n", cost_us(*state, descs));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_that_follow_each_other_are_one_copy),
		cmocka_unit_test(rows_of_a_constant_pitch_are_one_2d_copy),
		cmocka_unit_test(a_pair_does_not_keep_what_follows_from_a_2d_copy),
		cmocka_unit_test(runs_of_two_rows_are_rows_of_a_2d_copy),
		cmocka_unit_test(a_pitch_over_the_devices_is_no_2d_copy),
		cmocka_unit_test(nothing_is_joined_across_owners),
		cmocka_unit_test(what_is_no_bytes_is_no_copy),
		cmocka_unit_test(a_row_outside_of_a_view_is_refused),
		cmocka_unit_test(the_budget_is_exact),
		cmocka_unit_test(destinations_that_meet_are_found_on_their_side_alone),
		cmocka_unit_test(a_destination_that_meets_a_source_is_found),
		cmocka_unit_test(drawn_submissions_are_what_row_after_row_is),
		cmocka_unit_test(many_destinations_are_sorted),
		cmocka_unit_test(blocks_on_a_grid_meet_where_their_places_are_the_same),
		cmocka_unit_test(what_a_plan_takes),
	};
	const char *given = getenv("SEED");

	if (given)
		seed = strtoull(given, NULL, 0);
	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("copy_plan", tests, setup, teardown);
}
