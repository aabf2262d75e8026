/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Closing: both sides at once, by direction, from two threads, in bounded time, and what comes after. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "side.h"

#define BYTES (4u << 20)
#define BOTH (OTTE_CLOSE_SOURCE | OTTE_CLOSE_REQUESTER)
#define ROUNDS 100

static void two_that_serve_each_other(struct remote *remote, struct side *side)
{
	remote_start(remote, "", -1, BYTES);
	OK(side_open(side, "", -1, BYTES));
	OK(side_connect(side, remote->address, OTTE_EPOCH_ANY, remote->region));
	child_ask(&remote->child, "open %s %lu", side->address,
		  (unsigned long)otte_region_id(side->region));
	assert_string_equal(remote->child.line, "code 0");
}

/* Either done, or refused because the other side closed first. */
static void assert_done_or_refused(int code, unsigned failed)
{
	if (failed)
		assert_true(code == -ESHUTDOWN || code == -ECONNRESET);
}

static void both_sides_close_at_once_in_both_directions(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	uint64_t random = test_seed(4711), until_ns;
	struct outcome outcome;
	struct remote remote;
	struct side side;
	int i;

	(void)state;
	for (i = 0; i < ROUNDS; i++) {
		two_that_serve_each_other(&remote, &side);
		/* Each reads the other's first half into its second one. */
		OK(side_submit(&side, OTTE_READ, BYTES / 2, 0, 64 << 10, 32));
		child_ask(&remote.child, "submit %d %u 0 %u 32", OTTE_READ, BYTES / 2, 64 << 10);
		assert_string_equal(remote.child.line, "code 0");
		child_tell(&remote.child, "close %u 10000", BOTH);
		until_ns = now_ns() + draw_between(&random, 0, 1 * MS);
		while (now_ns() < until_ns)
			;
		OK(otte_engine_close(side.engine, BOTH, 10 * SECOND, &report));
		assert_int_equal(report.requests, 0);
		assert_int_equal(report.loans, 0);
		assert_int_equal(report.retained, 0);
		assert_string_equal(child_hear(&remote.child), "code 0");
		outcome = side_wait(&side, 0);
		assert_int_equal(outcome.code, 0);
		assert_done_or_refused(outcome.failure.code, outcome.status.failed);
		child_ask(&remote.child, "wait 0");
		assert_int_equal(child_number(&remote.child, "code"), 0);
		assert_done_or_refused((int)child_number(&remote.child, "failure"),
				       (unsigned)child_number(&remote.child, "failed"));
		/* And both are taken down at once. */
		child_tell(&remote.child, "quit");
		OK(side_close(&side));
		child_end(&remote.child);
	}
}

static void one_side_destroyed_early_leaves_the_other_intact(void **state)
{
	struct otte_stats stats;
	struct remote remote;
	struct side side;
	int i;

	(void)state;
	OK(side_open(&side, "", -1, BYTES));
	for (i = 0; i < 20; i++) {
		remote_start(&remote, "", -1, BYTES);
		OK(side_connect(&side, remote.address, OTTE_EPOCH_ANY, remote.region));
		child_ask(&remote.child, "open %s %lu", side.address,
			  (unsigned long)otte_region_id(side.region));
		OK(side_submit(&side, OTTE_WRITE, BYTES / 2, 0, 64 << 10, 32));
		child_end(&remote.child);
		assert_int_equal(side_wait(&side, 10 * SECOND).code, 0);
		side_disconnect(&side);
		assert_true(EVENTUALLY((stats = side_stats(&side), !stats.lanes && !stats.peers_in &&
					!stats.peers_out && !stats.loans)));
		assert_int_equal(stats.requests, 0);
	}
	OK(side_close(&side));
}

struct closer {
	struct otte_engine *engine;
	int code;
};

static void *close_slowly(void *arg)
{
	struct closer *closer = arg;

	closer->code = otte_engine_close(closer->engine, OTTE_CLOSE_REQUESTER, 600 * MS, NULL);
	return NULL;
}

static void of_two_closers_one_waits_within_its_limit_and_the_other_is_told(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	struct closer closer;
	uint64_t begun_ns;
	struct remote remote;
	struct side side;
	pthread_t thread;

	(void)state;
	remote_start(&remote, "", -1, BYTES);
	OK(side_open(&side, "deaf", -1, BYTES));
	OK(side_connect(&side, remote.address, OTTE_EPOCH_ANY, remote.region));
	child_signal(&remote.child, SIGSTOP);
	OK(side_submit(&side, OTTE_READ, 0, 0, 4096, 8));
	closer.engine = side.engine;
	begun_ns = now_ns();
	assert_int_equal(pthread_create(&thread, NULL, close_slowly, &closer), 0);
	/* From here on it is in there, waiting. */
	assert_true(EVENTUALLY(otte_notify(side.segment, NULL, "x", 1) == -ESHUTDOWN));
	assert_int_equal(otte_engine_close(side.engine, OTTE_CLOSE_REQUESTER, 0, NULL), -EALREADY);
	assert_int_equal(otte_engine_close(side.engine, OTTE_CLOSE_SOURCE, SECOND, NULL), -EALREADY);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(closer.code, -ETIMEDOUT);
	assert_in_range(now_ns() - begun_ns, 600 * MS, 2 * SECOND);
	/* Again, and it says what keeps it. */
	assert_int_equal(otte_engine_close(side.engine, OTTE_CLOSE_REQUESTER, 10 * MS, &report),
			 -ETIMEDOUT);
	assert_int_equal(report.requests, 8);
	child_signal(&remote.child, SIGCONT);
	OK(otte_engine_close(side.engine, OTTE_CLOSE_REQUESTER, 10 * SECOND, &report));
	assert_int_equal(report.requests, 0);
	assert_int_equal(side_wait(&side, 0).status.completed_prefix, 8);
	OK(side_close(&side));
	child_end(&remote.child);
}

static void after_a_close_requests_are_refused_by_direction(void **state)
{
	struct otte_segment *segment;
	struct remote remote;
	struct side side;

	(void)state;
	two_that_serve_each_other(&remote, &side);
	OK(otte_engine_close(side.engine, OTTE_CLOSE_REQUESTER, SECOND, NULL));
	assert_int_equal(side_submit(&side, OTTE_READ, 0, 0, 1, 1), -ESHUTDOWN);
	assert_int_equal(otte_notify(side.segment, NULL, "x", 1), -ESHUTDOWN);
	assert_int_equal(otte_segment_open(side.engine, remote.address, 0, SECOND, &segment),
			 -ESHUTDOWN);
	/* As a source it goes on. */
	assert_string_equal(child_ask(&remote.child, "probe"), "probe 1");
	OK(otte_engine_close(side.engine, OTTE_CLOSE_SOURCE, SECOND, NULL));
	/* Told by the source, or refused at home once its word has come. */
	child_ask(&remote.child, "run %d 0 0 1 1", OTTE_READ);
	assert_true(child_number(&remote.child, "failure") == -ESHUTDOWN ||
		    child_number(&remote.child, "code") == -ESHUTDOWN);
	assert_true(EVENTUALLY((child_ask(&remote.child, "run %d 0 0 1 1", OTTE_READ),
				child_number(&remote.child, "code") == -ESHUTDOWN)));
	OK(side_close(&side));
	child_end(&remote.child);
}

static void a_source_that_closes_finishes_what_it_began_and_refuses_the_rest(void **state)
{
	struct otte_stats stats;
	struct remote remote;
	struct side side;
	long long failed;
	int i, refusing = 0;

	(void)state;
	for (i = 0; i < 20; i++) {
		OK(side_open(&side, "", -1, BYTES));
		remote_start(&remote, "deaf window.requests=4", -1, BYTES);
		child_ask(&remote.child, "open %s %lu", side.address,
			  (unsigned long)otte_region_id(side.region));
		child_ask(&remote.child, "submit %d 0 0 4096 1024", OTTE_WRITE);
		child_tell(&remote.child, "wait 10000");
		assert_true(EVENTUALLY(side_stats(&side).served_requests > 10));
		OK(otte_engine_close(side.engine, OTTE_CLOSE_SOURCE, 10 * SECOND, NULL));
		stats = side_stats(&side);
		assert_int_equal(stats.loans, 0);
		child_hear(&remote.child);
		assert_int_equal(child_number(&remote.child, "code"), 0);
		failed = child_number(&remote.child, "failed");
		/* What was served is what the other side took for complete: no receipt is lost. */
		assert_int_equal(stats.served_requests, 1024 - failed);
		if (failed) {
			assert_int_equal(child_number(&remote.child, "failure"), -ESHUTDOWN);
			assert_int_equal(child_number(&remote.child, "drained"), 1);
			assert_int_equal(child_number(&remote.child, "effect"), OTTE_EFFECT_NONE);
			refusing++;
		}
		child_end(&remote.child);
		OK(side_close(&side));
	}
	assert_true(refusing > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_close_at_once_in_both_directions),
		cmocka_unit_test(one_side_destroyed_early_leaves_the_other_intact),
		cmocka_unit_test(of_two_closers_one_waits_within_its_limit_and_the_other_is_told),
		cmocka_unit_test(after_a_close_requests_are_refused_by_direction),
		cmocka_unit_test(a_source_that_closes_finishes_what_it_began_and_refuses_the_rest),
	};
	int status;

	if (side_role(argc, argv, &status))
		return status;
	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests_name("close", tests, NULL, NULL);
}
