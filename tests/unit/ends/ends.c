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
#include "engine/notify.h"
#include "engine/peer.h"
#include "unit/engine/pair.h"

#define SIZE (64u << 10)
#define MS 1000000ll

/* ---- Where the end of a request stops ---- */

struct stop {
	_Atomic bool set, reached;
};

static struct stop at_access; /* its segment is let go, its bytes are not */
static struct stop at_notify; /* its result stands, and is not published */

static void pass(struct stop *stop)
{
	if (!atomic_load(&stop->set))
		return;
	atomic_store(&stop->reached, true);
	while (atomic_load(&stop->set))
		usleep(1000);
}

static void set(struct stop *stop)
{
	atomic_store(&stop->reached, false);
	atomic_store(&stop->set, true);
}

static void wait_reached(struct stop *stop)
{
	int i;

	for (i = 0; i < 10000 && !atomic_load(&stop->reached); i++)
		usleep(1000);
	assert_true(atomic_load(&stop->reached));
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
	atomic_store(&at_access.set, false);
	assert_int_equal(otte_batch_wait(pair.batch, 10 * SECOND), 0);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, SIZE);
	assert_int_equal(otte_engine_address(pair.source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(pair.requester, address, OTTE_EPOCH_ANY, 10 * SECOND,
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
	atomic_store(&at_access.set, false);
	wait_reached(&at_notify);
	assert_int_equal(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, 50 * MS, &report),
			 -ETIMEDOUT);
	assert_int_equal(report.requests, 1);
	atomic_store(&at_notify.set, false);
	assert_int_equal(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, 10 * SECOND, &report), 0);
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
		cmocka_unit_test(who_waits_for_a_peer_is_told_how_its_own_attempt_ended),
	};

	return cmocka_run_group_tests_name("ends", tests, NULL, NULL);
}
