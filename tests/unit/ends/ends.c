/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The end of a request, step by step, against those who close what it was made of. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/access.h"
#include "engine/batch.h"
#include "engine/notify.h"
#include "engine/peer.h"
#include "unit/engine/pair.h"

#define SIZE (64u << 10)
#define MS 1000000ll

/* ---- Where the end of a request stops ---- */

/* It orders nothing: the thread sanitizer is to see what the library orders, and not what the test does. */
struct stop {
	_Atomic bool set, reached;
};

static bool look(_Atomic bool *flag)
{
	return atomic_load_explicit(flag, memory_order_relaxed);
}

static void put(_Atomic bool *flag, bool value)
{
	atomic_store_explicit(flag, value, memory_order_relaxed);
}

static struct stop at_access; /* its segment is let go, its bytes are not */
static struct stop at_notify; /* its result stands, and is not published */
static struct stop at_start;  /* a run's requests are on their way */
static struct stop at_check;  /* all of a submission are filled in but the one at OTHER */

#define OTHER (32u << 10)

static void pass(struct stop *stop)
{
	if (!look(&stop->set))
		return;
	put(&stop->reached, true);
	while (look(&stop->set))
		usleep(1000);
}

static void set(struct stop *stop)
{
	put(&stop->reached, false);
	put(&stop->set, true);
}

static void wait_reached(struct stop *stop)
{
	int i;

	for (i = 0; i < 10000 && !look(&stop->reached); i++)
		usleep(1000);
	assert_true(look(&stop->reached));
}

void __real_otte_access_end(struct otte_access_map *map, struct otte_access *access);
void __wrap_otte_access_end(struct otte_access_map *map, struct otte_access *access);
void __wrap_otte_access_end(struct otte_access_map *map, struct otte_access *access)
{
	if (access->write) /* of a READ, at the requester */
		pass(&at_access);
	__real_otte_access_end(map, access);
}

void __real_otte_notify_send_list(struct otte_pending_notify *list, int code);
void __wrap_otte_notify_send_list(struct otte_pending_notify *list, int code);
void __wrap_otte_notify_send_list(struct otte_pending_notify *list, int code)
{
	if (list)
		pass(&at_notify);
	__real_otte_notify_send_list(list, code);
}

void __real_otte_batch_start(struct otte_batch *batch, size_t count, bool sleeps);
void __wrap_otte_batch_start(struct otte_batch *batch, size_t count, bool sleeps);
void __wrap_otte_batch_start(struct otte_batch *batch, size_t count, bool sleeps)
{
	__real_otte_batch_start(batch, count, sleeps);
	pass(&at_start);
}

int __real_otte_peer_check_region(struct otte_peer *peer, const struct otte_request *request,
				  struct otte_region_memo *memo);
int __wrap_otte_peer_check_region(struct otte_peer *peer, const struct otte_request *request,
				  struct otte_region_memo *memo);
int __wrap_otte_peer_check_region(struct otte_peer *peer, const struct otte_request *request,
				  struct otte_region_memo *memo)
{
	if (request->remote_offset == OTHER)
		pass(&at_check);
	return __real_otte_peer_check_region(peer, request, memo);
}

static _Atomic bool late; /* a waiter looks when the next attempt to connect is under way */

static bool tries_again(struct otte_engine *engine)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	assert_int_equal(otte_engine_stats(engine, &stats), 0);
	return stats.reconnects;
}

int __real_otte_peer_wait_ready(struct otte_peer *peer, uint64_t losses, uint64_t until_ns);
int __wrap_otte_peer_wait_ready(struct otte_peer *peer, uint64_t losses, uint64_t until_ns);
int __wrap_otte_peer_wait_ready(struct otte_peer *peer, uint64_t losses, uint64_t until_ns)
{
	int i;

	for (i = 0; atomic_load(&late) && !tries_again(peer->engine) && i < 10000; i++)
		usleep(1000);
	return __real_otte_peer_wait_ready(peer, losses, until_ns);
}

/* ---- Tests ---- */

static void open_pair(struct pair *pair)
{
	pair_open(pair, SIZE, NULL);
	pair_fill(pair->remote_bytes, SIZE, 5);
}

/* Nobody waits for it: the engine's thread ends it. */
static void submit(struct pair *pair)
{
	const struct otte_request request = pair_request(pair, OTTE_READ, 0, 0, SIZE);

	assert_int_equal(otte_batch_submit(pair->batch, &request, 1), 0);
}

static void a_segment_may_be_closed_while_its_last_request_ends(void **state)
{
	char address[OTTE_ADDRESS_MAX];
	struct pair pair;

	(void)state;
	open_pair(&pair);
	set(&at_access);
	submit(&pair);
	wait_reached(&at_access);
	assert_int_equal(otte_segment_close(pair.segment), 0);
	/* Both look for the peer of what is not terminal. */
	assert_int_equal(otte_batch_cancel(pair.batch), 0);
	assert_int_equal(otte_batch_wait(pair.batch, 50 * MS), -ETIMEDOUT);
	put(&at_access.set, false);
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, SIZE);
	assert_int_equal(otte_engine_address(pair.source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(pair.requester, address, OTTE_EPOCH_ANY, 30 * SECOND,
					   &pair.segment), 0);
	pair_close(&pair);
}

static void close_waits_until_results_are_published(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	struct pair pair;

	(void)state;
	open_pair(&pair);
	set(&at_notify);
	set(&at_access);
	submit(&pair);
	assert_int_equal(otte_notify(pair.segment, pair.batch, "x", 1), 0);
	put(&at_access.set, false);
	wait_reached(&at_notify);
	assert_int_equal(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, 50 * MS, &report),
			 -ETIMEDOUT);
	assert_int_equal(report.requests, 1);
	put(&at_notify.set, false);
	assert_int_equal(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, 10 * SECOND, &report), 0);
	pair_close(&pair);
}

struct run {
	struct otte_batch *batch;
	struct otte_request requests[2];
	size_t count;
	int ret;
};

static void *run(void *arg)
{
	struct run *run = arg;

	run->ret = otte_batch_run(run->batch, run->requests, run->count, 10 * SECOND);
	return NULL;
}

/* Somebody else ended the requests of the first, and a second has the batch before the first looks. */
static void a_run_tells_of_its_own_requests(void **state)
{
	pthread_t first_thread, second_thread;
	struct run first, second;
	struct pair pair;

	(void)state;
	open_pair(&pair);
	first = (struct run){ .batch = pair.batch, .count = 1 };
	first.requests[0] = pair_request(&pair, OTTE_WRITE, 0, 0, 4096);
	first.requests[0].remote_region = UINT64_MAX;
	second = (struct run){ .batch = pair.batch, .count = 2 };
	second.requests[0] = pair_request(&pair, OTTE_READ, 0, 0, 4096);
	second.requests[1] = pair_request(&pair, OTTE_READ, OTHER, OTHER, 4096);
	set(&at_start);
	set(&at_check);
	assert_int_equal(pthread_create(&first_thread, NULL, run, &first), 0);
	wait_reached(&at_start);
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_int_equal(pthread_create(&second_thread, NULL, run, &second), 0);
	wait_reached(&at_check);
	put(&at_start.set, false);
	pthread_join(first_thread, NULL);
	put(&at_check.set, false);
	pthread_join(second_thread, NULL);
	assert_int_equal(first.ret, 1);
	assert_int_equal(second.ret, 0);
	assert_memory_equal(pair.local_bytes + OTHER, pair.remote_bytes + OTHER, 4096);
	pair_close(&pair);
}

static void *hang_up_once(void *arg)
{
	close(accept(*(int *)arg, NULL, NULL));
	return NULL;
}

/* It hangs up, and does not answer the next attempt, which nobody asked for. */
static void who_waits_for_a_peer_is_told_how_its_own_attempt_ended(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t length = sizeof(in);
	struct otte_segment *segment;
	char address[OTTE_ADDRESS_MAX];
	struct otte_config config;
	struct otte_engine *engine;
	pthread_t thread;

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&in, &length), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(in.sin_port));
	assert_int_equal(otte_config_init(&config, sizeof(config)), 0);
	config.listen_address[0] = '\0';
	config.stats_socket = 0;
	config.reconnect_min_ns = 5 * MS;
	assert_int_equal(otte_engine_create(&config, &engine), 0);
	assert_int_equal(pthread_create(&thread, NULL, hang_up_once, &listener), 0);
	atomic_store(&late, true);
	assert_int_equal(otte_segment_open(engine, address, OTTE_EPOCH_ANY, 2 * SECOND, &segment),
			 -ECONNRESET);
	atomic_store(&late, false);
	pthread_join(thread, NULL);
	close(listener);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_segment_may_be_closed_while_its_last_request_ends),
		cmocka_unit_test(close_waits_until_results_are_published),
		cmocka_unit_test(a_run_tells_of_its_own_requests),
		cmocka_unit_test(who_waits_for_a_peer_is_told_how_its_own_attempt_ended),
	};

	return cmocka_run_group_tests_name("ends", tests, NULL, NULL);
}
