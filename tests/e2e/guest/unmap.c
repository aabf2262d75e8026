/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of either side that is unmapped, or has something else mapped in its place, while requests
 * for it wait or are under way. Two engines in one process, each with a kernel ledger of its own.
 *
 * Old bytes are OLD, those of a new mapping NEW. What is reported as done moved only OLD.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "otte/otte.h"

#define SECOND 1000000000ll
#define PIECE 16384u
#define PIECES 64u
#define SIZE (PIECE * PIECES)
#define ROUNDS 12

enum { BLANK = 0x00, OLD = 0xaa, NEW = 0x55 };

static unsigned seed;

/* One side: memory of this test's own. */
struct side {
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *region;
	uint8_t *bytes;
	int unmapped; /* there may be anybody's memory now */
};

struct bench {
	struct side source, user;
	struct otte_segment *segment;
	struct otte_batch *batch;
	unsigned done, stale, lost;
};

static void ok(int ret, const char *what)
{
	if (ret)
		fail_msg("%s: %d: %s", what, ret, otte_error_text());
}

#define OK(call) ok(call, #call)

static uint8_t *map_at(uint8_t *at, uint8_t byte)
{
	uint8_t *bytes = mmap(at, SIZE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	assert_true(bytes != MAP_FAILED);
	memset(bytes, byte, SIZE);
	return bytes;
}

static void open_side(struct side *side, uint8_t byte, uint32_t access)
{
	struct otte_region_desc desc = { .length = SIZE, .access = access };
	struct otte_config config;

	OK(otte_config_init(&config, sizeof(config)));
	config.ledger = OTTE_LEDGER_KERNEL;
	config.window_requests = 4;
	config.stats_socket = 0;
	OK(otte_engine_create(&config, &side->engine));
	side->bytes = map_at(NULL, byte);
	OK(otte_mem_adopt(side->engine, side->bytes, SIZE, &side->mem));
	desc.mem = side->mem;
	OK(otte_region_register(side->engine, &desc, 1, &side->region));
}

static void close_side(struct side *side)
{
	OK(otte_region_unregister(&side->region, 1, 10 * SECOND, NULL));
	OK(otte_mem_release(side->mem));
	OK(otte_engine_destroy(side->engine));
	if (!side->unmapped)
		munmap(side->bytes, SIZE);
}

/* Unmapped, or replaced in one step: nobody else's mapping can get between. */
static void take_away(struct side *side, int unmap)
{
	side->unmapped = unmap;
	if (unmap)
		munmap(side->bytes, SIZE);
	else
		map_at(side->bytes, NEW);
}

/* The bytes start with the side that a request of `op` takes them from. */
static void open_bench(struct bench *b, uint8_t op)
{
	char address[OTTE_ADDRESS_MAX];

	memset(b, 0, sizeof(*b));
	open_side(&b->source, op == OTTE_READ ? OLD : BLANK, OTTE_REMOTE_READ | OTTE_REMOTE_WRITE);
	open_side(&b->user, op == OTTE_READ ? BLANK : OLD, OTTE_LOCAL_ONLY);
	OK(otte_engine_address(b->source.engine, address, sizeof(address)));
	OK(otte_segment_open(b->user.engine, address, OTTE_EPOCH_ANY, 10 * SECOND, &b->segment));
	OK(otte_batch_create(b->user.engine, PIECES, &b->batch));
}

static void close_bench(struct bench *b)
{
	OK(otte_batch_destroy(b->batch));
	OK(otte_segment_close(b->segment));
	close_side(&b->user);
	close_side(&b->source);
}

/* From the last piece on, so that none continues the one before it. */
static uint32_t piece_of(uint32_t index)
{
	return PIECES - 1 - index;
}

static int submit(struct bench *b, uint8_t op, uint32_t index)
{
	struct otte_request request = {
		.segment = b->segment,
		.local = b->user.region,
		.op = op,
		.local_offset = (uint64_t)piece_of(index) * PIECE,
		.remote_region = otte_region_id(b->source.region),
		.remote_offset = (uint64_t)piece_of(index) * PIECE,
		.length = PIECE,
	};

	return otte_batch_submit(b->batch, &request, 1);
}

static int is_all(const uint8_t *bytes, uint8_t byte)
{
	return bytes[0] == byte && !memcmp(bytes, bytes + 1, PIECE - 1);
}

/* ---- A moment for it to go ---- */

struct thief {
	pthread_t thread;
	struct side *side;
	long after_ns;
	int unmaps;
};

static void *steal(void *arg)
{
	struct thief *thief = arg;
	struct timespec after = { .tv_nsec = thief->after_ns };

	nanosleep(&after, NULL);
	take_away(thief->side, thief->unmaps);
	return NULL;
}

static void send_thief(struct thief *thief, struct side *side, int unmaps)
{
	thief->side = side;
	thief->unmaps = unmaps;
	thief->after_ns = rand_r(&seed) % 4000000;
	assert_int_equal(pthread_create(&thief->thread, NULL, steal, thief), 0);
}

/* ---- What came of it ---- */

/* `to`: where bytes of a request arrive. */
static void judge(struct bench *b, uint32_t index, const uint8_t *to)
{
	const uint8_t *bytes = to + (size_t)piece_of(index) * PIECE;
	struct otte_task task;

	OK(otte_batch_task(b->batch, index, &task));
	switch (task.code) {
	case 0:
		b->done++;
		assert_true(is_all(bytes, OLD));
		break;
	case -ESTALE:
		b->stale++;
		/* A READ has no effect; where a WRITE has none, nothing came. */
		if (to == b->source.bytes && task.remote_effect == OTTE_EFFECT_NONE)
			assert_true(is_all(bytes, BLANK));
		break;
	case -ECONNRESET: /* a frame that could not be ended took its connection with it */
		b->lost++;
		break;
	default:
		fail_msg("request %u: %d", index, task.code);
	}
	assert_int_equal(task.locally_drained, 1);
}

/* `victim`: whose memory goes. */
static void race(uint8_t op, int victim_is_source)
{
	unsigned round, sum_done = 0, sum_stale = 0, sum_lost = 0;

	for (round = 0; round < ROUNDS; round++) {
		struct thief thief;
		struct bench b;
		struct side *victim, *to;
		uint32_t i, sent;

		open_bench(&b, op);
		victim = victim_is_source ? &b.source : &b.user;
		to = op == OTTE_READ ? &b.user : &b.source;
		send_thief(&thief, victim, round % 2);
		for (sent = 0; sent < PIECES && !submit(&b, op, sent); sent++)
			;
		OK(otte_batch_wait(b.batch, 30 * SECOND));
		pthread_join(thief.thread, NULL);
		for (i = 0; i < sent; i++) {
			struct otte_task task;

			/* Where the new mapping is, what arrived in the old one is gone with it. */
			if (victim != to)
				judge(&b, i, to->bytes);
			OK(otte_batch_task(b.batch, i, &task));
			if (victim == to) {
				const uint8_t *now = to->bytes + (size_t)piece_of(i) * PIECE;

				b.done += !task.code;
				b.stale += task.code == -ESTALE;
				b.lost += task.code == -ECONNRESET;
				/* Written into the new one: no success. */
				if (!to->unmapped && !is_all(now, NEW))
					assert_int_not_equal(task.code, 0);
			}
		}
		/* From now on nothing moves. */
		if (sent == PIECES)
			OK(otte_batch_reset(b.batch));
		if (victim_is_source && sent == PIECES) {
			struct otte_task task;

			OK(submit(&b, op, 0));
			OK(otte_batch_wait(b.batch, 30 * SECOND));
			OK(otte_batch_task(b.batch, 0, &task));
			assert_int_equal(task.code, -ESTALE);
			assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
		} else if (!victim_is_source) {
			assert_int_equal(submit(&b, op, 0), -ESTALE);
			assert_non_null(strstr(otte_error_text(), "register it anew"));
		}
		sum_done += b.done;
		sum_stale += b.stale;
		sum_lost += b.lost;
		close_bench(&b);
	}
	print_message("%u done, %u stale, %u lost\n", sum_done, sum_stale, sum_lost);
	assert_true(sum_done + sum_stale > 0);
}

static void what_is_read_into_memory_that_goes_is_no_success(void **state)
{
	(void)state;
	race(OTTE_READ, 0);
}

static void what_is_written_from_memory_that_goes_is_what_it_was(void **state)
{
	(void)state;
	race(OTTE_WRITE, 0);
}

static void what_is_read_from_a_source_whose_memory_goes_is_what_it_was(void **state)
{
	(void)state;
	race(OTTE_READ, 1);
}

static void what_is_written_into_a_source_whose_memory_goes_is_no_success(void **state)
{
	(void)state;
	race(OTTE_WRITE, 1);
}

/* Nothing else is going on: exact. */
static void memory_unmapped_before_a_request_is_refused_and_nothing_moves(void **state)
{
	struct otte_task task;
	struct bench b;
	uint8_t op;
	int way;

	(void)state;
	for (way = 0; way < 2; way++) {
		op = way ? OTTE_WRITE : OTTE_READ;
		open_bench(&b, op);
		OK(submit(&b, op, 0));
		OK(otte_batch_wait(b.batch, 30 * SECOND));
		judge(&b, 0, op == OTTE_READ ? b.user.bytes : b.source.bytes);
		assert_int_equal(b.done, 1);
		take_away(&b.user, op == OTTE_READ);
		assert_int_equal(submit(&b, op, 1), -ESTALE);
		assert_true(is_all(b.source.bytes + (size_t)piece_of(1) * PIECE,
				   op == OTTE_READ ? OLD : BLANK));
		close_bench(&b);

		open_bench(&b, op);
		take_away(&b.source, op == OTTE_READ);
		OK(submit(&b, op, 0)); /* never lent before */
		OK(otte_batch_wait(b.batch, 30 * SECOND));
		OK(otte_batch_task(b.batch, 0, &task));
		assert_int_equal(task.code, -ESTALE);
		assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
		assert_true(is_all(b.user.bytes + (size_t)piece_of(0) * PIECE,
				   op == OTTE_READ ? BLANK : OLD));
		close_bench(&b);
	}
}

int main(void)
{
	const char *given = getenv("OTTE_TEST_SEED");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_unmapped_before_a_request_is_refused_and_nothing_moves),
		cmocka_unit_test(what_is_read_into_memory_that_goes_is_no_success),
		cmocka_unit_test(what_is_written_from_memory_that_goes_is_what_it_was),
		cmocka_unit_test(what_is_read_from_a_source_whose_memory_goes_is_what_it_was),
		cmocka_unit_test(what_is_written_into_a_source_whose_memory_goes_is_no_success),
	};

	seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
	print_message("OTTE_TEST_SEED=%u\n", seed);
	return cmocka_run_group_tests_name("unmap", tests, NULL, NULL);
}
