/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads that sleep in a connection: the waiter of a lone request, and who answers it. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "engine/progress.h"
#include "unit/engine/pair.h"

#define SIZE (64u << 10)
#define BLOCK 4096u
#define MANY 300

/* ---- What the library asks of the kernel ---- */

static _Atomic unsigned requester_slept, source_slept;
static _Atomic bool asleep;  /* a source, in a lane */
static _Atomic bool stalled; /* a source that was asleep does not go on */
static _Atomic bool late;    /* a requester that does not sleep looks late */
static _Atomic bool trickles; /* a requester gets one byte a millisecond */

static _Atomic bool garbles; /* the next answer that a requester sleeps for is none; its payload waits */

static void note(_Atomic unsigned *slept, int flags)
{
	if (!(flags & MSG_DONTWAIT))
		atomic_fetch_add(slept, 1);
}

static void begin_sleep(int flags)
{
	note(&source_slept, flags);
	if (!(flags & MSG_DONTWAIT))
		atomic_store(&asleep, true);
}

static void end_sleep(int flags)
{
	if (flags & MSG_DONTWAIT)
		return;
	while (atomic_load(&stalled))
		usleep(1000);
	atomic_store(&asleep, false);
}

/* When a requester looks, and how much it finds then; false: nothing yet. */
static bool look(int flags, struct msghdr *message, struct iovec *one)
{
	static _Atomic uint64_t next_ns;

	note(&requester_slept, flags);
	if (atomic_load(&late) && flags & MSG_DONTWAIT)
		usleep(500);
	if (!atomic_load(&trickles))
		return true;
	if (flags & MSG_DONTWAIT && otte_now_ns() < atomic_load(&next_ns))
		return false;
	while (otte_now_ns() < atomic_load(&next_ns))
		usleep(100);
	atomic_store(&next_ns, otte_now_ns() + NSEC_PER_MSEC);
	*one = (struct iovec){ message->msg_iov[0].iov_base, 1 };
	message->msg_iov = one;
	message->msg_iovlen = 1;
	return true;
}

/* As look(). True: garble() what comes. */
static bool cut_off(int flags, struct msghdr *message)
{
	if (flags & MSG_DONTWAIT || !atomic_exchange(&garbles, false))
		return false;
	message->msg_iovlen = 1;
	return true;
}

static ssize_t garble(const struct msghdr *message, ssize_t n)
{
	if (n > 0)
		memset(message->msg_iov[0].iov_base, 0xff, (size_t)n);
	else
		atomic_store(&garbles, true); /* it came to nothing */
	return n;
}

static ssize_t nothing_yet(void)
{
	errno = EAGAIN;
	return -1;
}

ssize_t __real_otte_sys_recvmsg(int fd, struct msghdr *message, int flags) __attribute__((weak));
ssize_t __wrap_otte_sys_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_otte_sys_recvmsg(int fd, struct msghdr *message, int flags)
{
	struct iovec one;
	ssize_t n;
	bool cut;

	if (!look(flags, message, &one))
		return nothing_yet();
	cut = cut_off(flags, message);
	n = __real_otte_sys_recvmsg(fd, message, flags);
	return cut ? garble(message, n) : n;
}

ssize_t __real_otte_sys_recv(int fd, void *data, size_t length, int flags) __attribute__((weak));
ssize_t __wrap_otte_sys_recv(int fd, void *data, size_t length, int flags);
ssize_t __wrap_otte_sys_recv(int fd, void *data, size_t length, int flags)
{
	ssize_t n;

	begin_sleep(flags);
	n = __real_otte_sys_recv(fd, data, length, flags);
	end_sleep(flags);
	return n;
}

/* Under a sanitizer the library calls libc's, and has none of its own. */
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	struct iovec one;
	ssize_t n;
	bool cut;

	if (!look(flags, message, &one))
		return nothing_yet();
	cut = cut_off(flags, message);
	n = __real_recvmsg(fd, message, flags);
	return cut ? garble(message, n) : n;
}

ssize_t __real_recv(int fd, void *data, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t length, int flags)
{
	ssize_t n;

	begin_sleep(flags);
	n = __real_recv(fd, data, length, flags);
	end_sleep(flags);
	return n;
}

/* ---- Tests ---- */

/* Every test is run twice: with otte_batch_run(), and with the calls that it is made of. */
static bool by_run;

static void one_lane(struct otte_config *config)
{
	config->tcp_lanes = 1;
	config->stats_socket = 0;
}

static void open_pair(struct pair *pair)
{
	atomic_store(&stalled, false);
	pair_open(pair, SIZE, one_lane);
	pair_fill(pair->remote_bytes, SIZE, 3);
}

static int run_one(struct pair *pair, uint8_t op, uint64_t local_offset, uint64_t remote_offset,
		   uint64_t length)
{
	struct otte_request request = pair_request(pair, op, local_offset, remote_offset, length);
	struct otte_task task;
	int failed;

	if (!by_run)
		return pair_run(pair, op, local_offset, remote_offset, length);
	failed = otte_batch_run(pair->batch, &request, 1, 20 * SECOND);
	if (failed < 0)
		return failed;
	assert_int_equal(otte_batch_task(pair->batch, 0, &task), 0);
	assert_int_equal(failed, task.code != 0);
	return task.code;
}

static void read_many(struct pair *pair)
{
	unsigned i;

	for (i = 0; i < MANY; i++)
		assert_int_equal(run_one(pair, OTTE_READ, 0, i % (SIZE / BLOCK) * BLOCK, BLOCK), 0);
	assert_memory_equal(pair->local_bytes, pair->remote_bytes + (MANY - 1) % (SIZE / BLOCK) * BLOCK,
			    BLOCK);
}

static void submit_one(struct pair *pair, struct otte_batch *batch, uint64_t at)
{
	const struct otte_request request = pair_request(pair, OTTE_READ, at, at, BLOCK);

	assert_int_equal(otte_batch_reset(batch), 0);
	assert_int_equal(otte_batch_submit(batch, &request, 1), 0);
}

/* The lane is the express thread's, and that thread does not answer. */
static void stall_source(struct pair *pair)
{
	uint64_t begun_ns = otte_now_ns();

	do {
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
		atomic_store(&stalled, false);
		read_many(pair);
		atomic_store(&stalled, true);
	} while (!atomic_load(&asleep));
}

static void both_sides_sleep_in_the_connection_of_a_lone_request(void **state)
{
	uint64_t begun_ns = otte_now_ns();
	struct pair pair;

	(void)state;
	open_pair(&pair);
	/* On a busy machine an answer may take longer than TCP_ALONE_MS, and then nobody sleeps for it. */
	do {
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
		atomic_store(&requester_slept, 0);
		atomic_store(&source_slept, 0);
		read_many(&pair);
	} while (atomic_load(&requester_slept) < MANY / 2 || atomic_load(&source_slept) < MANY / 2);
	pair_close(&pair);
}

static void a_write_is_answered_alone_too(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	open_pair(&pair);
	for (i = 0; i < MANY; i++) {
		memset(pair.local_bytes, (int)i, SIZE);
		assert_int_equal(run_one(&pair, OTTE_WRITE, 0, 0, SIZE), 0);
		assert_memory_equal(pair.remote_bytes, pair.local_bytes, SIZE);
	}
	pair_close(&pair);
}

/* After a pause the engine's thread watches the lanes, and looks too when a waiter already has the answer. */
static void two_that_look_at_a_lane_lose_no_answer(void **state)
{
	unsigned i, k;
	struct pair pair;

	(void)state;
	open_pair(&pair);
	atomic_store(&late, true);
	for (i = 0; i < 12; i++) {
		usleep(110000);
		for (k = 0; k < 20; k++)
			assert_int_equal(run_one(&pair, OTTE_READ, 0, k % (SIZE / BLOCK) * BLOCK, BLOCK),
					 0);
	}
	atomic_store(&late, false);
	pair_close(&pair);
}

static void a_refusal_ends_a_lone_wait(void **state)
{
	struct pair pair;
	size_t pending;

	(void)state;
	open_pair(&pair);
	read_many(&pair);
	assert_int_equal(otte_region_unregister(&pair.remote, 1, SECOND, &pending), 0);
	pair.remote = NULL;
	assert_int_equal(run_one(&pair, OTTE_READ, 0, 0, BLOCK), -ENOENT);
	assert_int_equal(run_one(&pair, OTTE_READ, 0, 0, SIZE), -ENOENT);
	pair_close(&pair);
}

static void a_lone_wait_keeps_its_limit(void **state)
{
	struct pair pair;
	uint64_t begun_ns;

	(void)state;
	open_pair(&pair);
	stall_source(&pair);
	submit_one(&pair, pair.batch, BLOCK);
	begun_ns = otte_now_ns();
	assert_int_equal(otte_batch_wait(pair.batch, 100 * (int64_t)NSEC_PER_MSEC), -ETIMEDOUT);
	assert_in_range(otte_now_ns() - begun_ns, 100 * NSEC_PER_MSEC, 5 * NSEC_PER_SEC);
	begun_ns = otte_now_ns();
	assert_int_equal(otte_batch_wait(pair.batch, 3 * (int64_t)NSEC_PER_MSEC), -ETIMEDOUT);
	assert_in_range(otte_now_ns() - begun_ns, 3 * NSEC_PER_MSEC, 5 * NSEC_PER_SEC);
	atomic_store(&stalled, false);
	assert_int_equal(otte_batch_wait(pair.batch, 10 * SECOND), 0);
	assert_memory_equal(pair.local_bytes + BLOCK, pair.remote_bytes + BLOCK, BLOCK);
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	pair_close(&pair);
}

static void *cancel_soon(void *arg)
{
	usleep(50000);
	assert_int_equal(otte_batch_cancel(arg), 0);
	return NULL;
}

static void a_cancel_ends_a_lone_wait(void **state)
{
	struct otte_task task;
	uint64_t begun_ns;
	pthread_t thread;
	struct pair pair;

	(void)state;
	open_pair(&pair);
	stall_source(&pair);
	submit_one(&pair, pair.batch, 0);
	assert_int_equal(pthread_create(&thread, NULL, cancel_soon, pair.batch), 0);
	begun_ns = otte_now_ns();
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_in_range(otte_now_ns() - begun_ns, 0, 10 * NSEC_PER_SEC);
	assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
	assert_int_equal(task.code, -ECANCELED);
	pthread_join(thread, NULL);
	atomic_store(&stalled, false);
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	/* The connection goes on behind the answer that nobody wanted. */
	assert_int_equal(run_one(&pair, OTTE_READ, 0, BLOCK, BLOCK), 0);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes + BLOCK, BLOCK);
	pair_close(&pair);
}

/* Bytes come, one after another: whoever sleeps for them has the connection nearly all of the time. */
static void a_cancel_or_a_deadline_ends_a_wait_whose_bytes_trickle_in(void **state)
{
	struct otte_request request;
	struct otte_task task;
	uint64_t begun_ns;
	pthread_t thread;
	struct pair pair;
	int i;

	(void)state;
	open_pair(&pair);
	for (i = 0; i < 2; i++) {
		read_many(&pair);
		assert_int_equal(otte_batch_reset(pair.batch), 0);
		begun_ns = otte_now_ns();
		request = pair_request(&pair, OTTE_READ, 0, 0, SIZE);
		if (i)
			request.deadline_ns = begun_ns + 100 * NSEC_PER_MSEC;
		atomic_store(&trickles, true);
		assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
		if (!i)
			assert_int_equal(pthread_create(&thread, NULL, cancel_soon, pair.batch), 0);
		assert_int_equal(otte_batch_wait(pair.batch, 20 * SECOND), 0);
		assert_in_range(otte_now_ns() - begun_ns, 0, 10 * NSEC_PER_SEC);
		assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
		assert_int_equal(task.code, i ? -ETIMEDOUT : -ECANCELED);
		if (!i)
			pthread_join(thread, NULL);
		atomic_store(&trickles, false);
	}
	pair_close(&pair);
}

static void a_run_keeps_its_limit_and_goes_on(void **state)
{
	struct otte_request request;
	struct pair pair;
	uint64_t begun_ns;

	(void)state;
	open_pair(&pair);
	request = pair_request(&pair, OTTE_READ, BLOCK, BLOCK, BLOCK);
	stall_source(&pair);
	begun_ns = otte_now_ns();
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 100 * (int64_t)NSEC_PER_MSEC),
			 -ETIMEDOUT);
	assert_in_range(otte_now_ns() - begun_ns, 100 * NSEC_PER_MSEC, 5 * NSEC_PER_SEC);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 20 * SECOND), -EBUSY);
	assert_int_equal(otte_batch_wait(pair.batch, 3 * (int64_t)NSEC_PER_MSEC), -ETIMEDOUT);
	atomic_store(&stalled, false);
	assert_int_equal(otte_batch_wait(pair.batch, 10 * SECOND), 0);
	assert_memory_equal(pair.local_bytes + BLOCK, pair.remote_bytes + BLOCK, BLOCK);
	/* One that may not sleep in the connection at all. */
	stall_source(&pair);
	begun_ns = otte_now_ns();
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 0), -ETIMEDOUT);
	assert_in_range(otte_now_ns() - begun_ns, 0, 5 * NSEC_PER_SEC);
	atomic_store(&stalled, false);
	assert_int_equal(otte_batch_wait(pair.batch, 10 * SECOND), 0);
	pair_close(&pair);
}

static void a_cancel_or_a_deadline_ends_a_run(void **state)
{
	struct otte_request request;
	struct otte_task task;
	uint64_t begun_ns;
	pthread_t thread;
	struct pair pair;
	int i;

	(void)state;
	open_pair(&pair);
	for (i = 0; i < 4; i++) {
		bool cancels = i % 2, slowly = i / 2;

		stall_source(&pair);
		begun_ns = otte_now_ns();
		request = pair_request(&pair, OTTE_READ, 0, 0, SIZE);
		if (!cancels)
			request.deadline_ns = begun_ns + 100 * NSEC_PER_MSEC;
		atomic_store(&trickles, slowly);
		if (slowly)
			atomic_store(&stalled, false);
		if (cancels)
			assert_int_equal(pthread_create(&thread, NULL, cancel_soon, pair.batch), 0);
		assert_int_equal(otte_batch_run(pair.batch, &request, 1, 30 * SECOND), 1);
		assert_in_range(otte_now_ns() - begun_ns, 0, 10 * NSEC_PER_SEC);
		assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
		assert_int_equal(task.code, cancels ? -ECANCELED : -ETIMEDOUT);
		if (cancels)
			pthread_join(thread, NULL);
		atomic_store(&trickles, false);
		atomic_store(&stalled, false);
		begun_ns = otte_now_ns();
		/* After the deadline the connection is another one. */
		while (run_one(&pair, OTTE_READ, 0, BLOCK, BLOCK))
			assert_in_range(otte_now_ns() - begun_ns, 0, 10 * NSEC_PER_SEC);
		assert_memory_equal(pair.local_bytes, pair.remote_bytes + BLOCK, BLOCK);
	}
	pair_close(&pair);
}

static void who_sleeps_alone_leads_when_nobody_has_for_a_while(void **state)
{
	_Atomic uint64_t live = 1;
	struct otte_progress progress = { .live = &live, .ran_ns = NSEC_PER_SEC };

	(void)state;
	otte_clock_fake(NSEC_PER_SEC + 10 * NSEC_PER_MSEC);
	assert_true(otte_progress_alone(&progress, 1));
	otte_clock_fake(NSEC_PER_SEC + 60 * NSEC_PER_MSEC);
	assert_false(otte_progress_alone(&progress, 1));
	progress.ran_ns = otte_coarse_ns();
	assert_true(otte_progress_alone(&progress, 1));
}

static int go_back_to_the_real_clock(void **state)
{
	(void)state;
	otte_clock_fake(0);
	return 0;
}

/* A connection that the requester opened to `port`: it is one whose receives have a limit. -1: there is none. */
static int find_lane(unsigned port)
{
	struct sockaddr_in peer = { 0 };
	struct timeval limit;
	socklen_t length;
	int fd;

	for (fd = 3; fd < 1024; fd++) {
		length = sizeof(peer);
		if (getpeername(fd, (struct sockaddr *)&peer, &length) || peer.sin_family != AF_INET ||
		    ntohs(peer.sin_port) != port)
			continue;
		length = sizeof(limit);
		if (!getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &length) && limit.tv_usec)
			return fd;
	}
	return -1;
}

static int lane_to(unsigned port)
{
	int fd = find_lane(port);

	assert_in_range(fd, 3, 1023);
	return fd;
}

/* What tells one such connection from the next. 0: there is none just now. */
static unsigned near_port(unsigned port)
{
	struct sockaddr_in near = { 0 };
	socklen_t length = sizeof(near);
	int fd = find_lane(port);

	return fd < 0 || getsockname(fd, (struct sockaddr *)&near, &length) ? 0 : ntohs(near.sin_port);
}

/* The stream is of no use after it, whatever the next bytes look like. */
static void an_answer_that_is_none_is_the_last_of_its_connection(void **state)
{
	struct otte_stats stats = { .size = sizeof(stats) };
	uint64_t begun_ns = otte_now_ns();
	struct pair pair;

	(void)state;
	open_pair(&pair);
	read_many(&pair);
	atomic_store(&garbles, true);
	/* The request is sent once more, if there is a connection by then. */
	while (atomic_load(&garbles)) {
		run_one(&pair, OTTE_READ, 0, BLOCK, BLOCK);
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
	}
	while (run_one(&pair, OTTE_READ, 0, BLOCK, BLOCK))
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes + BLOCK, BLOCK);
	assert_int_equal(otte_engine_stats(pair.requester, &stats), 0);
	assert_int_equal(stats.bad_frames, 1);
	pair_close(&pair);
}

static uint64_t lanes_of(struct otte_engine *engine)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	assert_int_equal(otte_engine_stats(engine, &stats), 0);
	return stats.lanes;
}

/* Who sleeps in one connection all the time still finds out what becomes of the others. */
static void a_lost_connection_is_made_again_beside_lone_waits(void **state)
{
	char address[OTTE_ADDRESS_MAX];
	struct otte_segment *segment;
	struct pair first, second;
	unsigned port, near;
	uint64_t begun_ns;

	(void)state;
	open_pair(&first);
	pair_open(&second, SIZE, one_lane);
	assert_int_equal(otte_engine_address(second.source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(first.requester, address, OTTE_EPOCH_ANY, 10 * SECOND,
					   &segment), 0);
	pair_close_requester(&second);
	assert_int_equal(lanes_of(first.requester), 2);
	read_many(&first);
	port = (unsigned)atoi(strrchr(address, ':') + 1);
	near = near_port(port);
	shutdown(lane_to(port), SHUT_RDWR);
	begun_ns = otte_now_ns();
	while (!near_port(port) || near_port(port) == near) {
		read_many(&first);
		assert_in_range(otte_now_ns() - begun_ns, 0, 10 * NSEC_PER_SEC);
	}
	assert_int_equal(otte_segment_close(segment), 0);
	pair_close_source(&second);
	pair_close(&first);
}

/* It was in nobody's loop while requests followed each other on it. */
static void a_connection_that_is_lost_afterwards_is_made_again(void **state)
{
	char address[OTTE_ADDRESS_MAX];
	unsigned i, port, near;
	uint64_t begun_ns;
	struct pair pair;

	(void)state;
	open_pair(&pair);
	assert_int_equal(otte_engine_address(pair.source, address, sizeof(address)), 0);
	port = (unsigned)atoi(strrchr(address, ':') + 1);
	for (i = 0; i < 5; i++) {
		read_many(&pair);
		usleep(i * 40000); /* until after the engine's thread has gone to sleep */
		near = near_port(port);
		assert_int_not_equal(near, 0);
		shutdown(lane_to(port), SHUT_RDWR);
		begun_ns = otte_now_ns();
		while (!near_port(port) || near_port(port) == near) {
			assert_in_range(otte_now_ns() - begun_ns, 0, 10 * NSEC_PER_SEC);
			usleep(1000);
		}
		begun_ns = otte_now_ns();
		while (run_one(&pair, OTTE_READ, 0, BLOCK, BLOCK))
			assert_in_range(otte_now_ns() - begun_ns, 0, 10 * NSEC_PER_SEC);
	}
	pair_close(&pair);
}

struct second {
	struct pair *pair;
	struct otte_batch *batch;
	_Atomic bool submitted;
};

static void *second_request(void *arg)
{
	struct second *second = arg;

	usleep(1000);
	submit_one(second->pair, second->batch, BLOCK);
	atomic_store(&second->submitted, true);
	assert_int_equal(otte_batch_wait(second->batch, 30 * SECOND), 0);
	return NULL;
}

static void a_second_request_shares_the_connection_of_a_lone_one(void **state)
{
	struct second second = { 0 };
	uint64_t begun_ns;
	pthread_t thread;
	struct pair pair;
	unsigned i;

	(void)state;
	open_pair(&pair);
	second.pair = &pair;
	assert_int_equal(otte_batch_create(pair.requester, 1, &second.batch), 0);
	for (i = 0; i < 20; i++) {
		stall_source(&pair);
		memset(pair.local_bytes, 0, SIZE);
		atomic_store(&second.submitted, false);
		assert_int_equal(pthread_create(&thread, NULL, second_request, &second), 0);
		submit_one(&pair, pair.batch, 0);
		begun_ns = otte_now_ns();
		while (!atomic_load(&second.submitted) && otte_now_ns() - begun_ns < 10 * NSEC_PER_SEC)
			assert_int_equal(otte_batch_wait(pair.batch, 25 * (int64_t)NSEC_PER_MSEC),
					 -ETIMEDOUT);
		assert_true(second.submitted); /* submitting does not wait for the network */
		atomic_store(&stalled, false);
		assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
		pthread_join(thread, NULL);
		assert_memory_equal(pair.local_bytes, pair.remote_bytes, 2 * BLOCK);
		assert_int_equal(otte_batch_reset(pair.batch), 0);
		assert_int_equal(otte_batch_reset(second.batch), 0);
	}
	assert_int_equal(otte_batch_destroy(second.batch), 0);
	pair_close(&pair);
}

static void *second_request_then_go_on(void *arg)
{
	struct second *second = arg;

	usleep(1000);
	submit_one(second->pair, second->batch, BLOCK);
	atomic_store(&stalled, false);
	assert_int_equal(otte_batch_wait(second->batch, 30 * SECOND), 0);
	return NULL;
}

static void a_second_request_shares_the_connection_of_a_run(void **state)
{
	struct otte_request request;
	struct second second = { 0 };
	struct otte_task task;
	pthread_t thread;
	struct pair pair;
	unsigned i;

	(void)state;
	open_pair(&pair);
	second.pair = &pair;
	assert_int_equal(otte_batch_create(pair.requester, 1, &second.batch), 0);
	for (i = 0; i < 20; i++) {
		bool refused = i % 2;

		request = pair_request(&pair, OTTE_READ, 0, 0, BLOCK);
		/* Where the payload would be, the other's answer must not be taken for it. */
		if (refused)
			request.remote_region = UINT64_MAX;
		stall_source(&pair);
		memset(pair.local_bytes, 0, SIZE);
		assert_int_equal(pthread_create(&thread, NULL, second_request_then_go_on, &second),
				 0);
		assert_int_equal(otte_batch_run(pair.batch, &request, 1, 30 * SECOND), refused);
		pthread_join(thread, NULL);
		assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
		assert_int_equal(task.code, refused ? -ENOENT : 0);
		if (!refused)
			assert_memory_equal(pair.local_bytes, pair.remote_bytes, BLOCK);
		assert_memory_equal(pair.local_bytes + BLOCK, pair.remote_bytes + BLOCK, BLOCK);
	}
	assert_int_equal(otte_batch_destroy(second.batch), 0);
	pair_close(&pair);
}

static void a_peer_that_falls_silent_does_not_hold_up_another(void **state)
{
	struct pair first, second;
	char address[OTTE_ADDRESS_MAX];
	uint64_t begun_ns;
	unsigned i;

	(void)state;
	open_pair(&first);
	pair_open(&second, SIZE, one_lane);
	/* The second requester asks the first source too. */
	assert_int_equal(otte_engine_address(first.source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_close(second.segment), 0);
	assert_int_equal(otte_segment_open(second.requester, address, OTTE_EPOCH_ANY, 10 * SECOND,
					   &second.segment), 0);
	for (i = 0; i < 5; i++) {
		struct otte_request request;

		read_many(&first); /* and now it is silent, in the express thread's hands */
		begun_ns = otte_now_ns();
		request = pair_request(&second, OTTE_READ, 0, BLOCK, BLOCK);
		request.remote_region = otte_region_id(first.remote);
		assert_int_equal(otte_batch_submit(second.batch, &request, 1), 0);
		assert_int_equal(otte_batch_wait(second.batch, 10 * SECOND), 0);
		assert_in_range(otte_now_ns() - begun_ns, 0, 5 * NSEC_PER_SEC);
		assert_int_equal(otte_batch_reset(second.batch), 0);
		assert_memory_equal(second.local_bytes, first.remote_bytes + BLOCK, BLOCK);
		usleep(i * 5000);
	}
	pair_close_requester(&second);
	pair_close_source(&second);
	pair_close(&first);
}

static void an_engine_ends_while_it_sleeps_in_a_lane(void **state)
{
	struct pair pair;
	uint64_t begun_ns;
	unsigned i;

	(void)state;
	for (i = 0; i < 5; i++) {
		open_pair(&pair);
		read_many(&pair);
		begun_ns = otte_now_ns();
		pair_close_source(&pair);
		assert_in_range(otte_now_ns() - begun_ns, 0, 10 * NSEC_PER_SEC);
		pair_close_requester(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_sleep_in_the_connection_of_a_lone_request),
		cmocka_unit_test(a_write_is_answered_alone_too),
		cmocka_unit_test(two_that_look_at_a_lane_lose_no_answer),
		cmocka_unit_test(a_refusal_ends_a_lone_wait),
		cmocka_unit_test(a_lone_wait_keeps_its_limit),
		cmocka_unit_test(a_cancel_ends_a_lone_wait),
		cmocka_unit_test(a_cancel_or_a_deadline_ends_a_wait_whose_bytes_trickle_in),
		cmocka_unit_test(a_run_keeps_its_limit_and_goes_on),
		cmocka_unit_test(a_cancel_or_a_deadline_ends_a_run),
		cmocka_unit_test_teardown(who_sleeps_alone_leads_when_nobody_has_for_a_while,
					  go_back_to_the_real_clock),
		cmocka_unit_test(a_lost_connection_is_made_again_beside_lone_waits),
		cmocka_unit_test(a_connection_that_is_lost_afterwards_is_made_again),
		cmocka_unit_test(an_answer_that_is_none_is_the_last_of_its_connection),
		cmocka_unit_test(a_second_request_shares_the_connection_of_a_lone_one),
		cmocka_unit_test(a_second_request_shares_the_connection_of_a_run),
		cmocka_unit_test(a_peer_that_falls_silent_does_not_hold_up_another),
		cmocka_unit_test(an_engine_ends_while_it_sleeps_in_a_lane),
	};

	int failed;

	failed = cmocka_run_group_tests_name("alone", tests, NULL, NULL);
	by_run = true;
	failed += cmocka_run_group_tests_name("alone, by otte_batch_run()", tests, NULL, NULL);
	return failed;
}
