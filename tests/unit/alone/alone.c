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
#include "base/util.h"
#include "control/wire.h"
#include "engine/engine.h"
#include "engine/progress.h"
#include "unit/engine/pair.h"

#define SIZE (64u << 10)
#define BLOCK 4096u
#define MANY 300
#define ANSWER_MARK_AT 32

/* ---- What the library asks of the kernel ---- */

static _Atomic unsigned requester_slept, source_slept;
static _Atomic bool asleep;  /* a source, in a lane */
static _Atomic bool stalled; /* a source that was asleep does not go on */
static _Atomic bool late;    /* a requester that does not sleep looks late */
static _Atomic bool trickles; /* a requester gets one byte a millisecond */
static _Atomic int drops = -1; /* so many times it does, and then `failure`; -1: always */
static _Atomic int failure;    /* an errno: once, unless it is EAGAIN */

static _Atomic unsigned bare; /* how often a requester slept for a payload alone */
static _Atomic bool forges;  /* garbles: all that is wrong is a mark */
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

/* Of a requester that gets one byte at a time. True: now it is to get what nothing_yet() says. */
static bool dries_up(void)
{
	int left = atomic_load(&drops);

	if (left > 0)
		atomic_store(&drops, left - 1);
	return left == 0;
}

static ssize_t nothing_yet(void)
{
	errno = EAGAIN;
	if (atomic_load(&trickles) && !atomic_load(&drops) && atomic_load(&failure) != EAGAIN) {
		errno = atomic_load(&failure);
		atomic_store(&drops, -1);
	}
	return -1;
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
	if (dries_up())
		return false;
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
	if (n == OTTE_LANE_ANSWER_BYTES && atomic_load(&forges))
		((uint8_t *)message->msg_iov[0].iov_base)[ANSWER_MARK_AT] ^= 1;
	else if (n > 0)
		memset(message->msg_iov[0].iov_base, 0xff, (size_t)n);
	else
		atomic_store(&garbles, true); /* it came to nothing */
	return n;
}

/* Who calls: sources have threads of their own. */
static bool is_source(void)
{
	char name[16];

	assert_int_equal(pthread_getname_np(pthread_self(), name, sizeof(name)), 0);
	return strcmp(name, "otte-express") == 0 || strncmp(name, "otte-serve", 10) == 0;
}

static uint8_t short_payload[OTTE_LANE_ANSWER_BYTES]; /* what a requester got last that was so long */

static ssize_t note_payload(const void *data, ssize_t n)
{
	if (data && n == (ssize_t)sizeof(short_payload))
		memcpy(short_payload, data, sizeof(short_payload));
	return n;
}

/* A requester's recv(). False: nothing yet. */
static bool look_for_payload(int flags, void **data, size_t *length)
{
	struct iovec all = { *data, *length }, one;
	struct msghdr message = { .msg_iov = &all, .msg_iovlen = 1 };

	if (!*data) /* it is dropped */
		return true;
	if (!(flags & MSG_DONTWAIT))
		atomic_fetch_add(&bare, 1);
	if (!look(flags, &message, &one))
		return false;
	*data = message.msg_iov->iov_base;
	*length = message.msg_iov->iov_len;
	return true;
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

	if (!is_source())
		return look_for_payload(flags, &data, &length) ?
			       note_payload(data, __real_otte_sys_recv(fd, data, length, flags)) :
			       nothing_yet();
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

	if (!is_source())
		return look_for_payload(flags, &data, &length) ?
			       note_payload(data, __real_recv(fd, data, length, flags)) :
			       nothing_yet();
	begin_sleep(flags);
	n = __real_recv(fd, data, length, flags);
	end_sleep(flags);
	return n;
}

static _Atomic int cut_to = -1; /* of the next request so many bytes go, then no more just now; -1: all */

/* The marks of requests, oldest first, as many as there is room for. */
static uint8_t marks[200][2 * sizeof(uint64_t)];
static _Atomic unsigned marks_seen;

static void note_mark(const void *data, size_t length)
{
	static const uint8_t none[sizeof(marks[0])];
	const uint8_t *mark = (const uint8_t *)data + OTTE_LANE_MARK_AT;
	unsigned at = atomic_load(&marks_seen);

	/* Requests are as long as answers, which begin alike. */
	if (length != OTTE_LANE_REQUEST_BYTES || memcmp(data, "OTTL", 4) != 0 || is_source() ||
	    at == ARRAY_SIZE(marks) || memcmp(mark, none, sizeof(none)) == 0)
		return;
	memcpy(marks[at], mark, sizeof(none));
	atomic_store(&marks_seen, at + 1);
}

static int take_cut(size_t length)
{
	return length == OTTE_LANE_REQUEST_BYTES ? atomic_exchange(&cut_to, -1) : -1;
}

static _Atomic int hole = -1; /* a source finds one behind so many bytes more of payload, once; -1: never */

static const uint8_t *_Atomic hole_in; /* SIZE bytes of a source */

/* How many of the bytes to be sent go. 0: that is where the hole is. */
static size_t before_hole(const void *data, size_t length)
{
	uintptr_t into = (uintptr_t)data - (uintptr_t)atomic_load(&hole_in);
	int left = atomic_load(&hole);

	if (left < 0 || into >= SIZE)
		return length;
	if (left == 0) {
		atomic_store(&hole, -1);
		return 0;
	}
	length = length < (size_t)left ? length : (size_t)left;
	atomic_store(&hole, left - (int)length);
	return length;
}

static ssize_t no_memory_there(void)
{
	errno = EFAULT;
	return -1;
}

ssize_t __real_otte_sys_send(int fd, const void *data, size_t length, int flags) __attribute__((weak));
ssize_t __wrap_otte_sys_send(int fd, const void *data, size_t length, int flags);
ssize_t __wrap_otte_sys_send(int fd, const void *data, size_t length, int flags)
{
	int cut = take_cut(length);

	note_mark(data, length);
	length = before_hole(data, length);
	if (!length)
		return no_memory_there();
	return cut ? __real_otte_sys_send(fd, data, cut < 0 ? length : (size_t)cut, flags) :
		     nothing_yet();
}

ssize_t __real_send(int fd, const void *data, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t length, int flags)
{
	int cut = take_cut(length);

	note_mark(data, length);
	length = before_hole(data, length);
	if (!length)
		return no_memory_there();
	return cut ? __real_send(fd, data, cut < 0 ? length : (size_t)cut, flags) : nothing_yet();
}

static _Atomic unsigned woken; /* how often a thread was, of those that run a loop */

void __real_otte_loop_wake(struct otte_loop *loop);
void __wrap_otte_loop_wake(struct otte_loop *loop);
void __wrap_otte_loop_wake(struct otte_loop *loop)
{
	atomic_fetch_add(&woken, 1);
	__real_otte_loop_wake(loop);
}

/* ---- Tests ---- */

/* Every test is run twice: with otte_batch_run(), and with the calls that it is made of. */
static bool by_run;

static void one_lane(struct otte_config *config)
{
	config->tcp_lanes = 1;
	config->stats_socket = 0;
}

static void flow(void)
{
	atomic_store(&trickles, false);
	atomic_store(&drops, -1);
}

static void open_pair(struct pair *pair)
{
	flow();
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
	assert_in_range(otte_now_ns() - begun_ns, 100 * NSEC_PER_MSEC, 60 * NSEC_PER_SEC);
	begun_ns = otte_now_ns();
	assert_int_equal(otte_batch_wait(pair.batch, 3 * (int64_t)NSEC_PER_MSEC), -ETIMEDOUT);
	assert_in_range(otte_now_ns() - begun_ns, 3 * NSEC_PER_MSEC, 60 * NSEC_PER_SEC);
	atomic_store(&stalled, false);
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_memory_equal(pair.local_bytes + BLOCK, pair.remote_bytes + BLOCK, BLOCK);
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	pair_close(&pair);
}

static _Atomic bool cancelled;

/* Again and again: a busy machine may begin later what is to be cancelled. */
static void *cancel_soon(void *arg)
{
	do {
		usleep(50000);
		assert_int_equal(otte_batch_cancel(arg), 0);
	} while (!atomic_load(&cancelled));
	return NULL;
}

static void start_to_cancel(struct otte_batch *batch, pthread_t *thread)
{
	atomic_store(&cancelled, false);
	assert_int_equal(pthread_create(thread, NULL, cancel_soon, batch), 0);
}

static void end_to_cancel(pthread_t thread)
{
	atomic_store(&cancelled, true);
	pthread_join(thread, NULL);
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
	start_to_cancel(pair.batch, &thread);
	begun_ns = otte_now_ns();
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
	assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
	assert_int_equal(task.code, -ECANCELED);
	end_to_cancel(thread);
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
			request.deadline_ns = begun_ns + NSEC_PER_SEC;
		atomic_store(&trickles, true);
		assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
		if (!i)
			start_to_cancel(pair.batch, &thread);
		assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
		assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
		assert_int_equal(task.code, i ? -ETIMEDOUT : -ECANCELED);
		if (!i)
			end_to_cancel(thread);
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
	assert_in_range(otte_now_ns() - begun_ns, 100 * NSEC_PER_MSEC, 60 * NSEC_PER_SEC);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 20 * SECOND), -EBUSY);
	assert_int_equal(otte_batch_wait(pair.batch, 3 * (int64_t)NSEC_PER_MSEC), -ETIMEDOUT);
	atomic_store(&stalled, false);
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_memory_equal(pair.local_bytes + BLOCK, pair.remote_bytes + BLOCK, BLOCK);
	/* One that may not sleep in the connection at all. */
	stall_source(&pair);
	begun_ns = otte_now_ns();
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 0), -ETIMEDOUT);
	assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
	atomic_store(&stalled, false);
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
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
		atomic_store(&trickles, slowly);
		if (slowly)
			atomic_store(&stalled, false);
		if (cancels)
			start_to_cancel(pair.batch, &thread);
		do { /* on a busy machine its deadline may have passed before it is asked for */
			if (!cancels)
				request.deadline_ns = otte_now_ns() + 100 * NSEC_PER_MSEC;
			assert_int_equal(otte_batch_run(pair.batch, &request, 1, 30 * SECOND), 1);
			assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
		} while (task.code == -ETIME);
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
		assert_int_equal(task.code, cancels ? -ECANCELED : -ETIMEDOUT);
		if (cancels)
			end_to_cancel(thread);
		atomic_store(&trickles, false);
		atomic_store(&stalled, false);
		begun_ns = otte_now_ns();
		/* After the deadline the connection is another one. */
		while (run_one(&pair, OTTE_READ, 0, BLOCK, BLOCK))
			assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
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
	unsigned i;

	(void)state;
	open_pair(&pair);
	/* Not so often that answers come without a header, which is what can be none. */
	for (i = 0; i < 40; i++)
		assert_int_equal(run_one(&pair, OTTE_READ, 0, BLOCK, BLOCK), 0);
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

/* A refusal, to a request without one. */
static void an_answer_with_a_mark_that_nobody_gave_it_is_none(void **state)
{
	struct otte_stats stats = { .size = sizeof(stats) };
	uint64_t begun_ns = otte_now_ns();
	struct otte_request request;
	struct pair pair;

	(void)state;
	open_pair(&pair);
	request = pair_request(&pair, OTTE_READ, 0, 0, BLOCK);
	request.remote_region = UINT64_MAX;
	atomic_store(&forges, true);
	atomic_store(&garbles, true);
	while (atomic_load(&garbles)) {
		assert_in_range(otte_batch_run(pair.batch, &request, 1, 20 * SECOND), 0, 1);
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
	}
	atomic_store(&forges, false);
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
	assert_int_equal(otte_segment_open(first.requester, address, OTTE_EPOCH_ANY, 30 * SECOND,
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
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
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
			assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
			usleep(1000);
		}
		begun_ns = otte_now_ns();
		while (run_one(&pair, OTTE_READ, 0, BLOCK, BLOCK))
			assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
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
		while (!atomic_load(&second.submitted) && otte_now_ns() - begun_ns < 60 * NSEC_PER_SEC)
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

/* ---- Answers without a header: otte_batch_run() alone asks for them ---- */

#define HEADER OTTE_LANE_ANSWER_BYTES
#define NOWHERE UINT64_MAX /* no region */

static int run_request(struct pair *pair, const struct otte_request *request)
{
	struct otte_task task;

	assert_in_range(otte_batch_run(pair->batch, request, 1, 20 * SECOND), 0, 1);
	assert_int_equal(otte_batch_task(pair->batch, 0, &task), 0);
	return task.code;
}

static void read_and_compare(struct pair *pair, uint64_t at, uint64_t length)
{
	struct otte_request request = pair_request(pair, OTTE_READ, at, at, length);

	memset(pair->local_bytes, 0xee, SIZE);
	assert_int_equal(run_request(pair, &request), 0);
	assert_memory_equal(pair->local_bytes + at, pair->remote_bytes + at, length);
	if (at + length < SIZE)
		assert_int_equal(pair->local_bytes[at + length], 0xee);
}

/* Until payloads come alone. */
static unsigned read_until_bare(struct pair *pair)
{
	struct otte_request request = pair_request(pair, OTTE_READ, 0, 0, BLOCK);
	uint64_t begun_ns = otte_now_ns();
	unsigned count;

	atomic_store(&bare, 0);
	for (count = 0; !atomic_load(&bare); count++) {
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
		assert_int_equal(run_request(pair, &request), 0);
	}
	return count;
}

/* The memory is then what it was. */
static void read_nowhere(struct pair *pair)
{
	struct otte_request request = pair_request(pair, OTTE_READ, 0, 0, BLOCK);
	uint8_t before[BLOCK];

	request.remote_region = NOWHERE;
	pair_fill(pair->local_bytes, BLOCK, 77);
	memcpy(before, pair->local_bytes, BLOCK);
	assert_int_equal(run_request(pair, &request), -ENOENT);
	assert_memory_equal(pair->local_bytes, before, BLOCK);
}

/* Asked for bare, and refused. Where somebody else has the lane just then, it is asked for with a header. */
static void be_refused(struct pair *pair)
{
	uint64_t begun_ns = otte_now_ns();

	do {
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
		read_until_bare(pair);
		atomic_store(&bare, 0);
		read_nowhere(pair);
	} while (!atomic_load(&bare));
}

static void after_many_lone_reads_payloads_come_alone(void **state)
{
	static const uint64_t lengths[] = { HEADER + 1, 2 * HEADER, BLOCK, SIZE - 1, SIZE };
	uint64_t begun_ns;
	struct pair pair;
	unsigned i;

	(void)state;
	open_pair(&pair);
	read_until_bare(&pair);
	for (i = 0; i < 10 * ARRAY_SIZE(lengths); i++)
		read_and_compare(&pair, 0, lengths[i % ARRAY_SIZE(lengths)]);
	atomic_store(&bare, 0);
	read_and_compare(&pair, 5, HEADER); /* no longer than a refusal: it has a header */
	read_and_compare(&pair, 5, 1);
	assert_int_equal(atomic_load(&bare), 0);
	/* One byte longer. Where somebody else has the lane just then, it has a header, too. */
	begun_ns = otte_now_ns();
	do {
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
		read_and_compare(&pair, 5, HEADER + 1);
	} while (!atomic_load(&bare));
	pair_close(&pair);
}

/* The finalizer of splitmix64 backwards: what a mark that is one's result was made of. */
static uint64_t unmixed(const uint8_t *mark)
{
	uint64_t x;

	memcpy(&x, mark, sizeof(x));
	x = (x ^ x >> 31 ^ x >> 62) * 0x319642b2d24d8ec3ull;
	x = (x ^ x >> 27 ^ x >> 54) * 0x96de1b173f119089ull;
	return x ^ x >> 30 ^ x >> 60;
}

static void no_mark_is_used_again_or_tells_the_next(void **state)
{
	struct pair pair;
	unsigned i, k;

	(void)state;
	open_pair(&pair);
	read_until_bare(&pair);
	atomic_store(&marks_seen, 0);
	while (atomic_load(&marks_seen) < ARRAY_SIZE(marks))
		read_and_compare(&pair, 0, BLOCK);
	for (i = 1; i < ARRAY_SIZE(marks); i++) {
		assert_int_not_equal(unmixed(marks[i]) - unmixed(marks[i - 1]), 1);
		for (k = 0; k < i; k++)
			assert_memory_not_equal(marks[i], marks[k], sizeof(marks[i]));
	}
	pair_close(&pair);
}

static void payloads_that_come_alone_may_come_byte_by_byte(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	read_until_bare(&pair);
	atomic_store(&trickles, true);
	read_and_compare(&pair, 0, HEADER + 1);
	read_and_compare(&pair, 7, 3 * HEADER);
	atomic_store(&trickles, false);
	read_and_compare(&pair, 0, SIZE);
	pair_close(&pair);
}

static void a_refusal_in_place_of_a_payload_is_told_from_it(void **state)
{
	unsigned i;
	struct pair pair;

	(void)state;
	open_pair(&pair);
	be_refused(&pair);
	/* Who was refused so is answered with headers for a while. */
	atomic_store(&bare, 0);
	for (i = 0; i < 100; i++)
		read_and_compare(&pair, 0, BLOCK);
	read_nowhere(&pair);
	assert_int_equal(atomic_load(&bare), 0);
	read_until_bare(&pair);
	atomic_store(&trickles, true);
	read_nowhere(&pair);
	atomic_store(&trickles, false);
	read_and_compare(&pair, 0, SIZE);
	pair_close(&pair);
}

/* Doubled by each refusal the wait would be 32768 in the end. */
static void payloads_that_come_alone_shorten_the_wait_after_a_refusal(void **state)
{
	struct pair pair;
	unsigned i, k;

	(void)state;
	open_pair(&pair);
	for (i = 0; i < 8; i++) {
		be_refused(&pair);
		assert_in_range(read_until_bare(&pair), 64, 2000);
		for (k = 0; k < 150; k++)
			read_and_compare(&pair, 0, BLOCK);
	}
	pair_close(&pair);
}

/* A refusal was seen by somebody and comes back as a payload, alone for as long as it takes to be looked at. */
static void a_payload_that_looks_like_a_refusal_is_a_payload(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	be_refused(&pair);
	assert_memory_equal(short_payload, "OTTL", 4);
	memcpy(pair.remote_bytes, short_payload, HEADER);
	read_until_bare(&pair);
	atomic_store(&trickles, true);
	read_and_compare(&pair, 0, 2 * HEADER);
	atomic_store(&trickles, false);
	pair_close(&pair);
}

/* What comes to a requester comes byte by byte, and after so many there is that. */
static void trickle(int count, int then)
{
	atomic_store(&failure, then);
	atomic_store(&drops, count);
	atomic_store(&trickles, true);
}

/* By a cancel or by a deadline. The memory of a refused one is then what it was. */
static void give_up(struct pair *pair, bool refused, bool by_deadline)
{
	struct otte_request request = pair_request(pair, OTTE_READ, 0, 0, 2 * BLOCK);
	uint8_t before[BLOCK];
	pthread_t thread;
	int code;

	pair_fill(pair->local_bytes, BLOCK, 77);
	memcpy(before, pair->local_bytes, BLOCK);
	if (refused)
		request.remote_region = NOWHERE;
	if (!by_deadline)
		start_to_cancel(pair->batch, &thread);
	do {
		if (by_deadline)
			request.deadline_ns = otte_now_ns() + 50 * NSEC_PER_MSEC;
		code = run_request(pair, &request);
	} while (code == -ETIME);
	assert_int_equal(code, by_deadline ? -ETIMEDOUT : -ECANCELED);
	if (!by_deadline)
		end_to_cancel(thread);
	if (refused)
		assert_memory_equal(pair->local_bytes, before, BLOCK);
}

/* Given up before anything of the answer was in, or in the middle of what would be a refusal. */
static void who_gives_up_a_bare_answer_learns_what_follows_it(void **state)
{
	struct otte_request request;
	struct pair pair;
	unsigned i;

	(void)state;
	open_pair(&pair);
	for (i = 0; i < 8; i++) {
		bool refused = i % 2, late_start = i / 2 % 2;

		read_until_bare(&pair);
		if (late_start)
			stall_source(&pair);
		else
			trickle(20, EAGAIN);
		give_up(&pair, refused, i / 4);
		flow();
		atomic_store(&stalled, false);
		request = pair_request(&pair, OTTE_READ, 0, BLOCK, BLOCK);
		assert_int_equal(run_request(&pair, &request), 0);
		assert_memory_equal(pair.local_bytes, pair.remote_bytes + BLOCK, BLOCK);
	}
	pair_close(&pair);
}

/* Owned memory does not, but a program can undo a mapping that is not its own. */
static void memory_that_goes_away_under_a_bare_answer_is_stale(void **state)
{
	struct otte_request request;
	struct pair pair;
	uint64_t begun_ns;
	unsigned i;
	int code;

	(void)state;
	open_pair(&pair);
	for (i = 0; i < 4; i++) {
		request = pair_request(&pair, OTTE_READ, 0, 0, BLOCK);
		if (i % 2)
			request.remote_region = NOWHERE;
		do {
			read_until_bare(&pair);
			trickle(20, EFAULT);
			atomic_store(&bare, 0);
			code = run_request(&pair, &request);
			flow();
		} while (!atomic_load(&bare)); /* see be_refused() */
		assert_int_equal(code, -ESTALE);
		begun_ns = otte_now_ns();
		while (run_one(&pair, OTTE_READ, 0, BLOCK, BLOCK))
			;
		assert_in_range(otte_now_ns() - begun_ns, 0, 4 * NSEC_PER_SEC); /* nothing stalls */
		assert_memory_equal(pair.local_bytes, pair.remote_bytes + BLOCK, BLOCK);
	}
	pair_close(&pair);
}

/* It may go away under the library, which therefore does not look into it. */
static void what_is_adopted_is_read_with_headers(void **state)
{
	struct otte_region_desc desc = { .length = BLOCK, .access = OTTE_LOCAL_ONLY };
	static uint8_t bytes[BLOCK];
	struct otte_request request;
	struct pair pair;
	unsigned i;

	(void)state;
	open_pair(&pair);
	assert_int_equal(otte_mem_adopt(pair.requester, bytes, BLOCK, &desc.mem), 0);
	request = pair_request(&pair, OTTE_READ, 0, 0, BLOCK);
	assert_int_equal(otte_region_register(pair.requester, &desc, 1, &request.local), 0);
	read_until_bare(&pair);
	atomic_store(&bare, 0);
	for (i = 0; i < MANY; i++)
		assert_int_equal(run_request(&pair, &request), 0);
	assert_int_equal(atomic_load(&bare), 0);
	assert_memory_equal(bytes, pair.remote_bytes, BLOCK);
	assert_int_equal(otte_region_unregister(&request.local, 1, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(desc.mem), 0);
	pair_close(&pair);
}

static void a_new_connection_forgets_refusals(void **state)
{
	char address[OTTE_ADDRESS_MAX];
	unsigned i, port, near;
	struct pair pair;

	(void)state;
	open_pair(&pair);
	assert_int_equal(otte_engine_address(pair.source, address, sizeof(address)), 0);
	port = (unsigned)atoi(strrchr(address, ':') + 1);
	for (i = 0; i < 6; i++)
		be_refused(&pair);
	near = near_port(port);
	shutdown(lane_to(port), SHUT_RDWR);
	while (!near_port(port) || near_port(port) == near)
		run_one(&pair, OTTE_READ, 0, 0, BLOCK);
	while (run_one(&pair, OTTE_READ, 0, 0, BLOCK))
		;
	assert_in_range(read_until_bare(&pair), 1, 2000); /* not 4096 and more */
	pair_close(&pair);
}

static void two_lanes(struct otte_config *config)
{
	config->tcp_lanes = 2;
	config->stats_socket = 0;
}

/* All of them because connections were lost, and not for what came by them. */
static uint64_t retries_of(struct otte_engine *engine)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	assert_int_equal(otte_engine_stats(engine, &stats), 0);
	assert_int_equal(stats.bad_frames, 0);
	return stats.retries;
}

static void a_request_for_a_bare_answer_may_go_in_parts(void **state)
{
	static const int cuts[] = { 0, 1, 47, 48, 49, 63 };
	struct pair pair;
	unsigned i;

	(void)state;
	flow();
	pair_open(&pair, SIZE, two_lanes);
	pair_fill(pair.remote_bytes, SIZE, 3);
	for (i = 0; i < 4 * ARRAY_SIZE(cuts); i++) {
		read_until_bare(&pair);
		atomic_store(&cut_to, cuts[i % ARRAY_SIZE(cuts)]);
		read_and_compare(&pair, i, BLOCK);
		assert_int_equal(atomic_load(&cut_to), -1);
	}
	assert_in_range(retries_of(pair.requester), 1, 8); /* with a part of a mark out the lane ends */
	pair_close(&pair);
}

static void *lose_a_lane(void *arg)
{
	usleep(5000);
	shutdown(lane_to(*(unsigned *)arg), SHUT_RDWR);
	usleep(5000);
	atomic_store(&stalled, false);
	return NULL;
}

/* It is sent once more, and refused there. Nothing of either refusal stays in the memory. */
static void a_lane_may_end_inside_a_refusal(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	flow();
	pair_open(&pair, SIZE, two_lanes);
	for (i = 0; i < 3; i++) {
		read_until_bare(&pair);
		trickle(20, ECONNRESET);
		read_nowhere(&pair);
		flow();
		while (lanes_of(pair.requester) < 2)
			usleep(1000);
	}
	assert_in_range(retries_of(pair.requester), 3, 6);
	pair_close(&pair);
}

/* Of the source. It can say so before anything is out; after that its lane ends, and the READ is sent once more. */
static void a_source_may_lose_memory_inside_a_bare_answer(void **state)
{
	static const int holes[] = { 0, 1, HEADER - 1, HEADER, HEADER + 1, BLOCK - 1 };
	uint8_t before[BLOCK];
	struct otte_request request;
	struct pair pair;
	unsigned i;
	int code;

	(void)state;
	flow();
	pair_open(&pair, SIZE, two_lanes);
	pair_fill(pair.remote_bytes, SIZE, 3);
	pair_fill(before, BLOCK, 77);
	request = pair_request(&pair, OTTE_READ, 0, BLOCK, BLOCK);
	atomic_store(&hole_in, pair.remote_bytes);
	for (i = 0; i < ARRAY_SIZE(holes); i++) {
		do {
			atomic_store(&hole, -1); /* an answer with a header went past it */
			read_until_bare(&pair);
			pair_fill(pair.local_bytes, BLOCK, 77);
			atomic_store(&bare, 0);
			atomic_store(&hole, holes[i]);
			code = run_request(&pair, &request);
		} while (!atomic_load(&bare)); /* see be_refused() */
		assert_int_equal(code, i ? 0 : -ESTALE);
		assert_int_equal(atomic_load(&hole), -1);
		assert_memory_equal(pair.local_bytes, i ? pair.remote_bytes + BLOCK : before, BLOCK);
		while (lanes_of(pair.requester) < 2)
			usleep(1000);
	}
	assert_in_range(retries_of(pair.requester), ARRAY_SIZE(holes) - 1, 2 * ARRAY_SIZE(holes));
	pair_close(&pair);
}

/* On the other lane, where an answer with a header is expected. */
static void what_is_asked_again_is_not_asked_for_bare(void **state)
{
	char address[OTTE_ADDRESS_MAX];
	uint64_t begun_ns = otte_now_ns(), asked_ns;
	pthread_t thread;
	struct pair pair;
	unsigned port;

	(void)state;
	pair_open(&pair, SIZE, two_lanes);
	pair_fill(pair.remote_bytes, SIZE, 3);
	assert_int_equal(otte_engine_address(pair.source, address, sizeof(address)), 0);
	port = (unsigned)atoi(strrchr(address, ':') + 1);
	while (retries_of(pair.requester) < 3) {
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
		read_until_bare(&pair);
		stall_source(&pair);
		assert_int_equal(pthread_create(&thread, NULL, lose_a_lane, &port), 0);
		read_and_compare(&pair, BLOCK, BLOCK);
		pthread_join(thread, NULL);
		atomic_store(&stalled, false);
		while (lanes_of(pair.requester) < 2)
			usleep(1000);
		/* By the one that was lost, which has nothing left to wait for. */
		asked_ns = otte_now_ns();
		assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BLOCK), 0);
		assert_in_range(otte_now_ns() - asked_ns, 0, 4 * NSEC_PER_SEC); /* nothing stalls */
	}
	pair_close(&pair);
}

/* ---- The engine's thread dozes while callers of otte_batch_run() lead ---- */

static void run_until_it_dozes(struct pair *pair)
{
	struct otte_request request = pair_request(pair, OTTE_READ, 0, 0, BLOCK);
	uint64_t begun_ns = otte_now_ns();

	do {
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
		assert_int_equal(run_request(pair, &request), 0);
	} while (!atomic_load(&pair->requester->progress.dozing));
}

/* Each time that it dozes, unless it has just woken by itself: on a machine that is busy, nearly always. */
static void wakes_it(struct pair *pair, void (*act)(struct pair *pair))
{
	uint64_t begun_ns = otte_now_ns();
	unsigned found = 0;

	while (found < 3 && otte_now_ns() - begun_ns < 60 * NSEC_PER_SEC) {
		run_until_it_dozes(pair);
		atomic_store(&woken, 0);
		act(pair);
		found += atomic_load(&woken) != 0;
		assert_int_equal(otte_batch_wait(pair->batch, 30 * SECOND), 0);
	}
	assert_int_equal(found, 3);
}

static void submit_and_go(struct pair *pair)
{
	assert_int_equal(otte_batch_reset(pair->batch), 0);
	submit_one(pair, pair->batch, BLOCK);
}

static void submit_two_and_go(struct pair *pair)
{
	const struct otte_request requests[] = {
		pair_request(pair, OTTE_READ, 0, 2 * BLOCK, BLOCK),
		pair_request(pair, OTTE_READ, BLOCK, 0, BLOCK),
	};

	assert_int_equal(otte_batch_reset(pair->batch), 0);
	assert_int_equal(otte_batch_submit(pair->batch, requests, 2), 0);
}

static void run_with_a_near_deadline(struct pair *pair)
{
	struct otte_request request = pair_request(pair, OTTE_READ, 0, 0, BLOCK);

	request.deadline_ns = otte_now_ns() + NSEC_PER_MSEC;
	assert_in_range(otte_batch_run(pair->batch, &request, 1, 20 * SECOND), 0, 1);
}

static void run_and_do_not_wait(struct pair *pair)
{
	struct otte_request request = pair_request(pair, OTTE_READ, 0, 0, BLOCK);
	int ret = otte_batch_run(pair->batch, &request, 1, 0);

	assert_true(!ret || ret == -ETIMEDOUT);
}

static void who_leaves_work_behind_wakes_a_thread_that_dozes(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	wakes_it(&pair, submit_and_go);
	wakes_it(&pair, run_and_do_not_wait);
	wakes_it(&pair, run_with_a_near_deadline);
	wakes_it(&pair, submit_two_and_go);
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
	assert_int_equal(otte_segment_open(second.requester, address, OTTE_EPOCH_ANY, 30 * SECOND,
					   &second.segment), 0);
	for (i = 0; i < 5; i++) {
		struct otte_request request;

		read_many(&first); /* and now it is silent, in the express thread's hands */
		begun_ns = otte_now_ns();
		request = pair_request(&second, OTTE_READ, 0, BLOCK, BLOCK);
		request.remote_region = otte_region_id(first.remote);
		assert_int_equal(otte_batch_submit(second.batch, &request, 1), 0);
		assert_int_equal(otte_batch_wait(second.batch, 30 * SECOND), 0);
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
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
		assert_in_range(otte_now_ns() - begun_ns, 0, 60 * NSEC_PER_SEC);
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
		cmocka_unit_test(an_answer_with_a_mark_that_nobody_gave_it_is_none),
		cmocka_unit_test(a_second_request_shares_the_connection_of_a_lone_one),
		cmocka_unit_test(a_second_request_shares_the_connection_of_a_run),
		cmocka_unit_test(a_peer_that_falls_silent_does_not_hold_up_another),
		cmocka_unit_test(an_engine_ends_while_it_sleeps_in_a_lane),
	};
	const struct CMUnitTest by_run_alone[] = {
		cmocka_unit_test(after_many_lone_reads_payloads_come_alone),
		cmocka_unit_test(no_mark_is_used_again_or_tells_the_next),
		cmocka_unit_test(payloads_that_come_alone_may_come_byte_by_byte),
		cmocka_unit_test(a_refusal_in_place_of_a_payload_is_told_from_it),
		cmocka_unit_test(a_payload_that_looks_like_a_refusal_is_a_payload),
		cmocka_unit_test(who_gives_up_a_bare_answer_learns_what_follows_it),
		cmocka_unit_test(memory_that_goes_away_under_a_bare_answer_is_stale),
		cmocka_unit_test(a_lane_may_end_inside_a_refusal),
		cmocka_unit_test(a_source_may_lose_memory_inside_a_bare_answer),
		cmocka_unit_test(payloads_that_come_alone_shorten_the_wait_after_a_refusal),
		cmocka_unit_test(a_new_connection_forgets_refusals),
		cmocka_unit_test(what_is_adopted_is_read_with_headers),
		cmocka_unit_test(a_request_for_a_bare_answer_may_go_in_parts),
		cmocka_unit_test(what_is_asked_again_is_not_asked_for_bare),
		cmocka_unit_test(who_leaves_work_behind_wakes_a_thread_that_dozes),
	};
	int failed;

	failed = cmocka_run_group_tests_name("alone", tests, NULL, NULL);
	by_run = true;
	failed += cmocka_run_group_tests_name("alone, by otte_batch_run()", tests, NULL, NULL);
	failed += cmocka_run_group_tests_name("alone, without headers", by_run_alone, NULL, NULL);
	return failed;
}
