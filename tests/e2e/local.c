/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Transport local between processes: SIGKILL of the one that lends and of the one that has mapped. OTTE_STORM_KILLS is
 * the number of kills of each (default 40), OTTE_TEST_SEED the seed.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "side.h"

#define BYTES (16u << 20)
#define TRUSTED "local.trusted=true"

static unsigned kills(void)
{
	const char *text = getenv("OTTE_STORM_KILLS");

	return text ? (unsigned)atoi(text) : 40;
}

static uint32_t route(const struct side *side)
{
	struct otte_task task;

	OK(otte_batch_task(side->batch, 0, &task));
	return task.transport;
}

/* A READ under way completes with the right bytes, or fails; a WRITE that was begun and is not complete is UNKNOWN. */
static void a_source_that_is_killed_is_not_the_requesters_end(void **state)
{
	uint64_t random = test_seed(31);
	unsigned i, n = kills(), failed = 0;
	struct outcome outcome;
	struct remote source;
	struct otte_task task;
	struct side side;

	(void)state;
	OK(side_open(&side, "deaf " TRUSTED, -1, BYTES));
	for (i = 0; i < n; i++) {
		uint8_t op = i % 2 ? OTTE_WRITE : OTTE_READ;
		uint64_t until_ns;

		remote_start(&source, TRUSTED, -1, BYTES);
		OK(side_connect(&side, source.address, source.epoch, source.region));
		fill(side.bytes, BYTES, (uint8_t)i);
		assert_int_equal(side_run(&side, OTTE_WRITE, 0, 0, BYTES, 1).status.completed_prefix, 1);
		assert_int_equal(route(&side), OTTE_TRANSPORT_LOCAL);
		if (op == OTTE_READ)
			memset(side.bytes, 0xee, BYTES);
		assert_int_equal(side_submit(&side, op, 0, 0, BYTES / 4, 4), 0);
		until_ns = now_ns() + draw_between(&random, 0, 4 * MS);
		while (now_ns() < until_ns)
			;
		child_kill(&source.child);
		outcome = side_wait(&side, 20 * SECOND);
		assert_int_equal(outcome.code, 0);
		OK(otte_batch_task(side.batch, 0, &task));
		failed += outcome.failure.code != 0;
		if (outcome.failure.code) {
			assert_int_equal(outcome.failure.code, -ECONNRESET);
			assert_true(outcome.failure.locally_drained);
		} else if (op == OTTE_READ) {
			assert_true(filled(side.bytes, BYTES, (uint8_t)i));
		}
		side_disconnect(&side);
	}
	print_message("%u kills, %u batches failed\n", n, failed);
	assert_int_equal(side_stats(&side).requests, 0);
	OK(side_close(&side));
}

/* Its loans end with it, its uses block nobody, and the region can be unregistered. */
static void a_requester_that_is_killed_leaves_nothing_behind(void **state)
{
	uint64_t random = test_seed(32);
	unsigned i, n = kills();
	struct remote requester;
	struct side source, other;

	(void)state;
	OK(side_open(&source, TRUSTED, -1, BYTES));
	OK(side_open(&other, "deaf " TRUSTED, -1, BYTES));
	OK(side_connect(&other, source.address, OTTE_EPOCH_ANY, otte_region_id(source.region)));
	for (i = 0; i < n; i++) {
		remote_start(&requester, "deaf " TRUSTED, -1, BYTES);
		child_ask(&requester.child, "open %s %lu", source.address,
			  (unsigned long)otte_region_id(source.region));
		assert_string_equal(requester.child.line, "code 0");
		child_tell(&requester.child, "run %d 0 0 %u 16", i % 2 ? OTTE_WRITE : OTTE_READ, BYTES / 16);
		usleep((useconds_t)draw_between(&random, 0, 8000));
		child_kill(&requester.child);
		assert_true(EVENTUALLY(side_stats(&source).peers_in == 1));
		assert_true(EVENTUALLY(side_stats(&source).loans == (i > 0)));
		assert_int_equal(side_run(&other, OTTE_WRITE, 0, 0, BYTES, 1).failure.code, 0);
		assert_int_equal(route(&other), OTTE_TRANSPORT_LOCAL);
	}
	OK(side_close(&other));
	assert_true(EVENTUALLY(!side_stats(&source).loans));
	OK(side_close(&source));
}

/* One that is stopped keeps what it has mapped, and with it the region; nobody else waits. */
static void a_requester_that_is_stopped_keeps_its_loan_until_it_goes_on(void **state)
{
	struct remote requester;
	struct side source;

	(void)state;
	OK(side_open(&source, TRUSTED, -1, BYTES));
	remote_start(&requester, "deaf " TRUSTED, -1, BYTES);
	child_ask(&requester.child, "open %s %lu", source.address,
		  (unsigned long)otte_region_id(source.region));
	assert_string_equal(requester.child.line, "code 0");
	child_ask(&requester.child, "run %d 0 0 4096 4", OTTE_READ);
	assert_int_equal(side_stats(&source).loans, 1);
	child_signal(&requester.child, SIGSTOP);
	assert_int_equal(otte_region_unregister(&source.region, 1, SECOND / 5, NULL), -ETIMEDOUT);
	assert_int_equal(side_stats(&source).loans, 1);
	child_signal(&requester.child, SIGCONT);
	assert_int_equal(otte_region_unregister(&source.region, 1, 10 * SECOND, NULL), 0);
	assert_int_equal(side_stats(&source).loans, 0);
	child_end(&requester.child);
	OK(otte_batch_destroy(source.batch));
	OK(otte_mem_release(source.mem));
	OK(otte_engine_destroy(source.engine));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_source_that_is_killed_is_not_the_requesters_end),
		cmocka_unit_test(a_requester_that_is_killed_leaves_nothing_behind),
		cmocka_unit_test(a_requester_that_is_stopped_keeps_its_loan_until_it_goes_on),
	};
	int status;

	if (side_role(argc, argv, &status))
		return status;
	return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
