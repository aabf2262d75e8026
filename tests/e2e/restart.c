/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Peers that come back: another process on the same address is another peer, a lost connection to the
 * same process heals. Neither a restarting nor a silent peer slows the others.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proxy.h"
#include "side.h"

#define BYTES (4u << 20)
#define RESTARTS 10

static unsigned port_of(const char *address)
{
	return (unsigned)atoi(strrchr(address, ':') + 1);
}

/* A source on the port of the last one, whose memory holds `value` everywhere. */
static void start_again(struct remote *source, unsigned port, uint8_t *bytes, int fd, uint8_t value)
{
	char keys[64];

	memset(bytes, value, BYTES);
	snprintf(keys, sizeof(keys), "listen.port=%u", port);
	remote_start(source, keys, fd, BYTES);
}

static bool all(const uint8_t *bytes, uint64_t size, uint8_t value)
{
	return bytes[0] == value && !memcmp(bytes, bytes + 1, size - 1);
}

/* Until the segment says that somebody else is there; no byte of theirs may have come. */
static void run_into_the_new_one(struct side *side, uint8_t old)
{
	struct outcome outcome;
	int code = 0;
	uint64_t k;

	while (code != -ESTALE) {
		memset(side->bytes, 0xee, BYTES);
		outcome = side_run(side, OTTE_READ, 0, 0, BYTES / 64, 64);
		code = outcome.code ? outcome.code : outcome.failure.code;
		assert_true(code == -ECONNRESET || code == -ESTALE);
		for (k = 0; k < BYTES; k++)
			assert_true(side->bytes[k] == 0xee || side->bytes[k] == old);
		nap();
	}
}

static void a_restarted_peer_is_another_peer_and_none_of_its_bytes_reach_old_requests(void **state)
{
	struct otte_segment *fresh, *refused;
	struct remote source;
	struct side side;
	unsigned i, port;
	uint64_t old_epoch;
	uint8_t *bytes;
	int fd;

	(void)state;
	bytes = share(&fd, BYTES);
	inherit(fd);
	start_again(&source, 0, bytes, fd, 1);
	port = port_of(source.address);
	OK(side_open(&side, "deaf control.reconnect_min_ms=5", -1, BYTES));
	OK(side_connect(&side, source.address, OTTE_EPOCH_ANY, source.region));
	for (i = 1; i <= RESTARTS; i++) {
		assert_int_equal(side_run(&side, OTTE_READ, 0, 0, BYTES, 1).status.completed_prefix, 1);
		assert_true(all(side.bytes, BYTES, (uint8_t)i));
		old_epoch = source.epoch;
		/* Some requests are under way when it goes. */
		child_signal(&source.child, SIGSTOP);
		OK(side_submit(&side, OTTE_READ, 0, 0, BYTES / 64, 64));
		child_kill(&source.child);
		start_again(&source, port, bytes, fd, (uint8_t)(i + 1));
		assert_int_equal(side_wait(&side, 20 * SECOND).failure.code, -ECONNRESET);
		run_into_the_new_one(&side, (uint8_t)i);
		assert_int_equal(otte_segment_open(side.engine, source.address, old_epoch, 5 * SECOND,
						   &refused), -ESTALE);
		/* Whoever asks for the one that is there gets it, beside the stale segment. */
		OK(otte_segment_open(side.engine, source.address, OTTE_EPOCH_ANY, 5 * SECOND, &fresh));
		side_disconnect(&side);
		side.segment = fresh;
		side.remote = source.region;
	}
	OK(side_close(&side));
	child_end(&source.child);
	share_end(bytes, fd, BYTES);
}

static void an_open_for_anybody_is_not_bound_to_the_peer_that_was_there(void **state)
{
	struct otte_segment *fresh;
	struct remote source;
	struct side side;
	unsigned i, port;
	uint8_t *bytes;
	int fd;

	(void)state;
	bytes = share(&fd, BYTES);
	inherit(fd);
	start_again(&source, 0, bytes, fd, 1);
	port = port_of(source.address);
	for (i = 1; i <= RESTARTS; i++) {
		/* The old segment reconnects all the time while the new one is being opened. */
		OK(side_open(&side, "deaf control.reconnect_min_ms=1 control.reconnect_max_ms=1", -1,
			     BYTES));
		OK(side_connect(&side, source.address, OTTE_EPOCH_ANY, source.region));
		child_kill(&source.child);
		assert_true(EVENTUALLY(!side_stats(&side).peers_out));
		start_again(&source, port, bytes, fd, (uint8_t)(i + 1));
		OK(otte_segment_open(side.engine, source.address, OTTE_EPOCH_ANY, 5 * SECOND, &fresh));
		side_disconnect(&side);
		side.segment = fresh;
		side.remote = source.region;
		assert_int_equal(side_run(&side, OTTE_READ, 0, 0, BYTES, 1).status.completed_prefix, 1);
		assert_true(all(side.bytes, BYTES, (uint8_t)(i + 1)));
		OK(side_close(&side));
	}
	child_end(&source.child);
	share_end(bytes, fd, BYTES);
}

/* ---- A lost connection ---- */

static void lose_and_heal(const char *what)
{
	struct remote source;
	struct proxy proxy;
	struct side side;
	struct otte_stats stats;
	int i;

	remote_start(&source, "", -1, BYTES);
	proxy_start(&proxy, source.address);
	OK(side_open(&side, "deaf", -1, BYTES));
	OK(side_connect(&side, proxy.address, source.epoch, source.region));
	for (i = 0; i < 5; i++) {
		assert_true(side_probe(&side));
		child_ask(&proxy.child, "drop %s", i ? "all" : what);
		/* Nobody calls the library meanwhile, but for its counters. */
		assert_true(EVENTUALLY((stats = side_stats(&side)).lanes == 2 && stats.peers_out == 1 &&
				       (strcmp(what, "all") || stats.reconnects > (unsigned)i)));
		assert_true(EVENTUALLY(side_probe(&side)));
	}
	assert_int_equal(side_stats(&side).requests, 0);
	OK(side_close(&side));
	assert_true(EVENTUALLY((child_ask(&source.child, "stats"),
				!child_number(&source.child, "lanes") &&
				!child_number(&source.child, "peers_in") &&
				!child_number(&source.child, "loans"))));
	child_end(&proxy.child);
	child_end(&source.child);
}

static void a_lost_connection_heals_by_itself_and_the_segment_works_again(void **state)
{
	(void)state;
	lose_and_heal("all");
	lose_and_heal("0");
	lose_and_heal("1");
	lose_and_heal("2");
}

static void connections_that_are_dropped_in_the_middle_make_no_byte_wrong(void **state)
{
	uint64_t random = test_seed(77), until_ns;
	struct outcome outcome;
	struct remote source;
	struct proxy proxy;
	struct side side;
	uint8_t *bytes;
	int i, fd, failed = 0;

	(void)state;
	bytes = share(&fd, BYTES);
	inherit(fd);
	fill(bytes, BYTES, 9);
	remote_start(&source, "", fd, BYTES);
	proxy_start(&proxy, source.address);
	OK(side_open(&side, "deaf tcp.lanes=3 retry.budget=2", -1, BYTES));
	OK(side_connect(&side, proxy.address, OTTE_EPOCH_ANY, source.region));
	for (i = 0; i < 30; i++) {
		unsigned accepted, k, completed = 0;
		struct otte_task task;

		memset(side.bytes, 0, BYTES);
		while (side_submit(&side, OTTE_READ, 0, 0, BYTES / 64, 64))
			nap();
		until_ns = now_ns() + draw_between(&random, 0, 3 * MS);
		while (now_ns() < until_ns)
			;
		/* One of the last few, so that it is a live one. */
		child_ask(&proxy.child, "count");
		accepted = (unsigned)child_number(&proxy.child, "ok");
		child_ask(&proxy.child, "drop %u", accepted - 1 - (unsigned)(draw(&random) % 3));
		outcome = side_wait(&side, 20 * SECOND);
		assert_int_equal(outcome.code, 0);
		for (k = 0; k < 64; k++) {
			OK(otte_batch_task(side.batch, k, &task));
			if (task.code)
				assert_int_equal(task.code, -ECONNRESET);
			else if (++completed)
				assert_memory_equal(side.bytes + k * (BYTES / 64),
						    bytes + k * (BYTES / 64), BYTES / 64);
		}
		failed += completed < 64;
	}
	printf("%d of 30 batches had failures\n", failed);
	OK(side_close(&side));
	child_end(&proxy.child);
	child_end(&source.child);
	share_end(bytes, fd, BYTES);
}

/* ---- Others ---- */

static int by_value(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

/* The middle one of 101 transfers of 64 KiB. */
static uint64_t median_ns(struct side *side)
{
	uint64_t took_ns[101], begun_ns;
	int i;

	for (i = 0; i < 101; i++) {
		begun_ns = now_ns();
		assert_int_equal(side_run(side, OTTE_READ, 0, 0, 64 << 10, 1).status.completed_prefix, 1);
		took_ns[i] = now_ns() - begun_ns;
	}
	qsort(took_ns, 101, sizeof(took_ns[0]), by_value);
	return took_ns[50];
}

/*
 * Allowed: three times as long, and what the scheduler of a busy machine may add. A machine that has just become
 * busy holds up one round or another; a peer that slows the others does in each.
 */
static void assert_not_slowed(struct side *side, uint64_t alone_ns)
{
	const uint64_t allowed_ns = 3 * alone_ns + 2 * MS;
	uint64_t least_ns = median_ns(side);
	int round;

	for (round = 1; round < 10 && least_ns > allowed_ns; round++) {
		const uint64_t next_ns = median_ns(side);

		least_ns = next_ns < least_ns ? next_ns : least_ns;
	}
	assert_in_range(least_ns, 0, allowed_ns);
}

static void a_silent_or_restarting_peer_does_not_slow_the_others(void **state)
{
	struct remote good, bad;
	struct otte_segment *other, *segment;
	struct otte_batch *batch, *stuck;
	struct otte_request requests[64];
	struct side side;
	uint64_t alone_ns;
	unsigned i, port;

	(void)state;
	remote_start(&good, "", -1, BYTES);
	remote_start(&bad, "", -1, BYTES);
	port = port_of(bad.address);
	OK(side_open(&side, "deaf", -1, BYTES));
	OK(side_connect(&side, good.address, OTTE_EPOCH_ANY, good.region));
	OK(otte_segment_open(side.engine, bad.address, OTTE_EPOCH_ANY, 5 * SECOND, &other));
	OK(otte_batch_create(side.engine, 64, &stuck));
	alone_ns = median_ns(&side);
	/* Silent, with a window full of requests. */
	child_signal(&bad.child, SIGSTOP);
	segment = side.segment;
	side.segment = other;
	side.remote = bad.region;
	for (i = 0; i < 64; i++)
		requests[i] = side_request(&side, OTTE_READ, (1 << 20) + i * 4096, i * 4096, 4096);
	OK(otte_batch_submit(stuck, requests, 64));
	side.segment = segment;
	side.remote = good.region;
	assert_not_slowed(&side, alone_ns);
	/* Gone, and back, and gone. */
	for (i = 0; i < 5; i++) {
		uint8_t *bytes;
		int fd;

		child_kill(&bad.child);
		assert_not_slowed(&side, alone_ns);
		bytes = share(&fd, BYTES);
		inherit(fd);
		start_again(&bad, port, bytes, fd, 1);
		share_end(bytes, fd, BYTES);
		assert_not_slowed(&side, alone_ns);
	}
	OK(otte_batch_wait(stuck, 10 * SECOND));
	batch = side.batch;
	side.batch = stuck;
	assert_int_equal(side_wait(&side, 0).failure.code, -ECONNRESET);
	side.batch = batch;
	OK(otte_batch_destroy(stuck));
	OK(otte_segment_close(other));
	OK(side_close(&side));
	child_end(&good.child);
	child_end(&bad.child);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_restarted_peer_is_another_peer_and_none_of_its_bytes_reach_old_requests),
		cmocka_unit_test(an_open_for_anybody_is_not_bound_to_the_peer_that_was_there),
		cmocka_unit_test(a_lost_connection_heals_by_itself_and_the_segment_works_again),
		cmocka_unit_test(connections_that_are_dropped_in_the_middle_make_no_byte_wrong),
		cmocka_unit_test(a_silent_or_restarting_peer_does_not_slow_the_others),
	};
	int status;

	if (side_role(argc, argv, &status) || proxy_role(argc, argv, &status))
		return status;
	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests_name("restart", tests, NULL, NULL);
}
