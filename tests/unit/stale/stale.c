/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Registered memory that is found gone, at each step of a request. The word that says so is this
 * test's; in the guest (tests/e2e/guest/unmap.c) it is the module's, and the memory really goes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/region.h"
#include "engine/source_use.h"
#include "transport/tcp/zerocopy.h"
#include "unit/engine/pair.h"

#define KIB 1024u
#define SIZE (256 * KIB)
#define PIECE 64u

/* ---- Words ---- */

static _Atomic uint64_t local_word, remote_word;

static void watch(struct otte_region *region, const _Atomic uint64_t *word)
{
	region->watch = (struct otte_region_watch){ .word = word, .mask = 1 };
}

static void one_at_a_time(struct otte_config *config)
{
	config->window_requests = 1;
}

static void zerocopy(struct otte_config *config)
{
	config->tcp_zerocopy = OTTE_ZEROCOPY_ALWAYS;
	config->tcp_zerocopy_bytes = 1;
}

static void open_watched(struct pair *pair, void (*adjust)(struct otte_config *config))
{
	atomic_store(&local_word, 0);
	atomic_store(&remote_word, 0);
	pair_open(pair, SIZE, adjust);
	watch(pair->local, &local_word);
	watch(pair->remote, &remote_word);
	pair->remote_mem->kind = OTTE_MEM_ADOPTED; /* the application's to unmap */
	pair_fill(pair->local_bytes, SIZE, 1);
	pair_fill(pair->remote_bytes, SIZE, 2);
}

static void close_watched(struct pair *pair)
{
	pair->remote_mem->kind = OTTE_MEM_OWNED;
	pair_close(pair);
}

/* ---- Where a source stops ---- */

static _Atomic bool hold_begin, begin_held;

int __real_otte_source_begin(void *arg, const struct otte_lane_request *request,
			     struct otte_source_use **use, uint8_t **address);
int __wrap_otte_source_begin(void *arg, const struct otte_lane_request *request,
			     struct otte_source_use **use, uint8_t **address);
int __wrap_otte_source_begin(void *arg, const struct otte_lane_request *request,
			     struct otte_source_use **use, uint8_t **address)
{
	if (atomic_load(&hold_begin))
		atomic_store(&begin_held, true);
	while (atomic_load(&hold_begin))
		usleep(1000);
	return __real_otte_source_begin(arg, request, use, address);
}

/* The memory goes just before the last look: all that was copied is in question. */
static _Atomic bool goes_last;
static _Atomic unsigned looks;

int __real_otte_source_still(const struct otte_source_use *use);
int __wrap_otte_source_still(const struct otte_source_use *use);
int __wrap_otte_source_still(const struct otte_source_use *use)
{
	atomic_fetch_add(&looks, 1);
	if (atomic_load(&goes_last))
		atomic_store(&remote_word, 1);
	return __real_otte_source_still(use);
}

/* ---- What the kernel does ---- */

/* Bytes that one send takes of a payload before the socket is full, once; 0: all. */
static _Atomic size_t room;
/* The payload is found gone behind so many more bytes of an answer; negative: it is there. */
static _Atomic int gap = -1;
static _Atomic bool gap_heals; /* by the time it was found */
static _Atomic bool gap_each;  /* right behind the head of each answer */
static _Atomic unsigned verdicts;

typedef ssize_t (*sendmsg_call)(int fd, const struct msghdr *message, int flags);

/* At most the first `bytes` of the message. */
static ssize_t send_first(sendmsg_call call, int fd, const struct msghdr *message, size_t bytes,
			  int flags)
{
	struct iovec parts[8];
	struct msghdr first = { .msg_iov = parts };
	size_t length;

	for (; bytes && first.msg_iovlen < message->msg_iovlen; bytes -= length) {
		struct iovec *part = &parts[first.msg_iovlen];

		*part = message->msg_iov[first.msg_iovlen++];
		length = part->iov_len = part->iov_len < bytes ? part->iov_len : bytes;
	}
	return call(fd, &first, flags);
}

static size_t bytes_of(const struct msghdr *message, size_t parts)
{
	size_t bytes = 0, i;

	for (i = 0; i < parts; i++)
		bytes += message->msg_iov[i].iov_len;
	return bytes;
}

/* The kernel sends what is before a hole, and says so of the next call. */
static ssize_t send_before_gap(sendmsg_call call, int fd, const struct msghdr *message, int flags,
			       int there)
{
	ssize_t n;

	if (!there) {
		if (atomic_load(&gap_heals))
			atomic_store(&gap, -1);
		errno = EFAULT;
		return -1;
	}
	n = send_first(call, fd, message, (size_t)there, flags);
	if (n > 0)
		atomic_store(&gap, there - (int)n);
	return n;
}

/* Part by part, as the kernel does it: what happens between the payload and its verdict is this test's. */
static ssize_t send_in_order(sendmsg_call call, int fd, const struct msghdr *message, int flags)
{
	size_t last = message->msg_iovlen - 1;
	size_t before = bytes_of(message, last), full = atomic_exchange(&room, 0);
	int there;
	ssize_t n;

	if (atomic_load(&gap_each))
		atomic_store(&gap, message->msg_iov[0].iov_len == 64 ? 64 : 0);
	there = atomic_load(&gap);
	if (there >= 0)
		return send_before_gap(call, fd, message, flags, there);
	if (full)
		return send_first(call, fd, message, full, flags);
	n = send_first(call, fd, message, before, flags | MSG_MORE);
	if (n < 0 || (size_t)n < before)
		return n;
	if (atomic_load(&goes_last))
		atomic_store(&remote_word, 1);
	atomic_fetch_add(&verdicts, 1);
	return call(fd, &(struct msghdr){ .msg_iov = message->msg_iov + last, .msg_iovlen = 1 },
		    flags) == 1 ? n + 1 : n;
}

static ssize_t watched_sendmsg(sendmsg_call call, int fd, const struct msghdr *message, int flags)
{
	size_t last = message->msg_iovlen - 1;

	if (message->msg_iov[last].iov_base != (void *)&remote_word)
		return call(fd, message, flags);
	return send_in_order(call, fd, message, flags);
}

ssize_t __real_otte_sys_sendmsg(int fd, const struct msghdr *message, int flags)
	__attribute__((weak));
ssize_t __wrap_otte_sys_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_otte_sys_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return watched_sendmsg(__real_otte_sys_sendmsg, fd, message, flags);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return watched_sendmsg(__real_sendmsg, fd, message, flags);
}

/* Its verdict is read by the source, after. */
ssize_t __real_tcp_zerocopy_send(struct tcp_zerocopy *zerocopy, struct tcp_claim *claim,
				 const void *bytes, uint64_t length);
ssize_t __wrap_tcp_zerocopy_send(struct tcp_zerocopy *zerocopy, struct tcp_claim *claim,
				 const void *bytes, uint64_t length);
ssize_t __wrap_tcp_zerocopy_send(struct tcp_zerocopy *zerocopy, struct tcp_claim *claim,
				 const void *bytes, uint64_t length)
{
	ssize_t n = __real_tcp_zerocopy_send(zerocopy, claim, bytes, length);

	if (n == (ssize_t)length && atomic_load(&goes_last))
		atomic_store(&remote_word, 1);
	return n;
}

static void expect_task(struct otte_batch *batch, uint32_t index, int code, uint32_t effect)
{
	struct otte_task task;

	assert_int_equal(otte_batch_task(batch, index, &task), 0);
	assert_int_equal(task.code, code);
	assert_int_equal(task.remote_effect, effect);
	assert_int_equal(task.locally_drained, 1);
}

static void run(struct pair *pair, uint8_t op, uint64_t length)
{
	const struct otte_request request = pair_request(pair, op, 0, 0, length);

	assert_int_equal(otte_batch_reset(pair->batch), 0);
	assert_int_equal(otte_batch_submit(pair->batch, &request, 1), 0);
	assert_int_equal(otte_batch_wait(pair->batch, 30 * SECOND), 0);
}

static void expect_filled(const uint8_t *bytes, uint64_t size, uint8_t salt)
{
	static uint8_t wanted[SIZE];

	pair_fill(wanted, SIZE, salt);
	assert_memory_equal(bytes, wanted, size);
}

/* ---- Ours ---- */

static void a_request_for_memory_that_is_gone_is_not_taken(void **state)
{
	struct otte_request request;
	struct pair pair;
	uint8_t op;
	int way;

	(void)state;
	open_watched(&pair, NULL);
	atomic_store(&local_word, 1);
	for (way = 0; way < 2; way++) {
		op = way ? OTTE_WRITE : OTTE_READ;
		request = pair_request(&pair, op, 0, 0, PIECE);
		assert_int_equal(otte_batch_submit(pair.batch, &request, 1), -ESTALE);
		assert_non_null(strstr(otte_error_text(), "was unmapped or replaced"));
	}
	expect_filled(pair.local_bytes, SIZE, 1);
	expect_filled(pair.remote_bytes, SIZE, 2);
	atomic_store(&local_word, 0);
	run(&pair, OTTE_READ, PIECE);
	expect_task(pair.batch, 0, 0, OTTE_EFFECT_NONE);
	close_watched(&pair);
}

/* In an order in which none continues the one before it. */
static void submit_apart(struct pair *pair, struct otte_batch *batch, uint8_t op, uint32_t count)
{
	struct otte_request request;
	uint32_t i;

	for (i = count; i--;) {
		request = pair_request(pair, op, (uint64_t)i * PIECE, (uint64_t)i * PIECE, PIECE);
		assert_int_equal(otte_batch_submit(batch, &request, 1), 0);
	}
}

static void what_waits_when_its_memory_goes_moves_nothing(void **state)
{
	const uint32_t count = SIZE / PIECE;
	struct otte_stats stats = { .size = sizeof(stats) };
	struct otte_batch *batch;
	struct pair pair;
	uint32_t i;
	uint8_t op;
	int way;

	(void)state;
	for (way = 0; way < 2; way++) {
		op = way ? OTTE_WRITE : OTTE_READ;
		open_watched(&pair, one_at_a_time);
		assert_int_equal(otte_batch_create(pair.requester, count, &batch), 0);
		atomic_store(&begin_held, false);
		atomic_store(&hold_begin, true);
		submit_apart(&pair, batch, op, count);
		while (!atomic_load(&begin_held))
			usleep(1000);
		atomic_store(&local_word, 1);
		atomic_store(&hold_begin, false);
		assert_int_equal(otte_batch_wait(batch, 30 * SECOND), 0);
		/* The first was under way: all of its bytes may have been others. */
		expect_task(batch, 0, -ESTALE,
			    op == OTTE_WRITE ? OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE);
		for (i = 1; i < count; i++)
			expect_task(batch, i, -ESTALE, OTTE_EFFECT_NONE);
		expect_filled(pair.local_bytes, SIZE - PIECE, 1);
		expect_filled(pair.remote_bytes, SIZE - PIECE, 2);
		assert_int_equal(otte_engine_stats(pair.requester, &stats), 0);
		assert_int_equal(stats.stale_regions, count);
		assert_int_equal(stats.requests, 0);
		assert_int_equal(otte_batch_destroy(batch), 0);
		/* The window is as free as before. */
		atomic_store(&local_word, 0);
		run(&pair, op, SIZE);
		expect_task(pair.batch, 0, 0, OTTE_EFFECT_NONE);
		close_watched(&pair);
	}
}

/* Somebody cancels while a group that was found gone has no plan any more and has not ended yet. */
static struct otte_batch *_Atomic cancelled_unplanned;

void __real_tcp_peer_unplan(struct otte_work *work);
void __wrap_tcp_peer_unplan(struct otte_work *work);
void __wrap_tcp_peer_unplan(struct otte_work *work)
{
	struct otte_batch *batch = atomic_exchange(&cancelled_unplanned, NULL);

	__real_tcp_peer_unplan(work);
	if (batch)
		assert_int_equal(otte_batch_cancel(batch), 0);
}

static void what_is_found_gone_is_out_of_reach_of_a_cancel(void **state)
{
	struct otte_batch *batch;
	struct pair pair;

	(void)state;
	open_watched(&pair, one_at_a_time);
	assert_int_equal(otte_batch_create(pair.requester, 2, &batch), 0);
	atomic_store(&begin_held, false);
	atomic_store(&hold_begin, true);
	submit_apart(&pair, batch, OTTE_READ, 2);
	while (!atomic_load(&begin_held))
		usleep(1000);
	atomic_store(&local_word, 1);
	atomic_store(&cancelled_unplanned, batch);
	atomic_store(&hold_begin, false);
	assert_int_equal(otte_batch_wait(batch, 30 * SECOND), 0);
	assert_null(atomic_load(&cancelled_unplanned));
	expect_task(batch, 1, -ESTALE, OTTE_EFFECT_NONE);
	assert_int_equal(otte_batch_destroy(batch), 0);
	atomic_store(&local_word, 0);
	run(&pair, OTTE_READ, SIZE);
	expect_task(pair.batch, 0, 0, OTTE_EFFECT_NONE);
	close_watched(&pair);
}

/* ---- The source's ---- */

static void a_source_serves_nothing_of_memory_that_is_gone(void **state)
{
	struct pair pair;
	uint8_t op;
	int way;

	(void)state;
	open_watched(&pair, NULL);
	/* Lent before, and not. */
	run(&pair, OTTE_READ, PIECE);
	pair_fill(pair.local_bytes, SIZE, 1);
	atomic_store(&remote_word, 1);
	for (way = 0; way < 2; way++) {
		op = way ? OTTE_WRITE : OTTE_READ;
		run(&pair, op, SIZE);
		expect_task(pair.batch, 0, -ESTALE, OTTE_EFFECT_NONE);
	}
	expect_filled(pair.local_bytes, SIZE, 1);
	expect_filled(pair.remote_bytes, SIZE, 2);
	close_watched(&pair);
}

static void a_write_into_memory_that_goes_may_have_gone_elsewhere(void **state)
{
	struct pair pair;

	(void)state;
	open_watched(&pair, NULL);
	atomic_store(&goes_last, true);
	run(&pair, OTTE_WRITE, PIECE);
	atomic_store(&goes_last, false);
	expect_task(pair.batch, 0, -ESTALE, OTTE_EFFECT_UNKNOWN);
	close_watched(&pair);
}

static const uint32_t lengths[] = { 1, PIECE, 4095, 4096, 4097, 64 * KIB, SIZE };

static uint64_t lanes_lost(const struct pair *pair)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	assert_int_equal(otte_engine_stats(pair->requester, &stats), 0);
	return stats.retries + stats.reconnects;
}

/* Whatever came: it fails alone, and its connection goes on. */
static void a_read_of_memory_that_goes_fails_whatever_came(void **state)
{
	static void (*const ways[])(struct otte_config *) = { NULL, zerocopy };
	struct pair pair;
	size_t i, way;

	(void)state;
	for (way = 0; way < 2; way++) {
		open_watched(&pair, ways[way]);
		for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			atomic_store(&goes_last, true);
			run(&pair, OTTE_READ, lengths[i]);
			atomic_store(&goes_last, false);
			expect_task(pair.batch, 0, -ESTALE, OTTE_EFFECT_NONE);
			atomic_store(&remote_word, 0);
			run(&pair, OTTE_READ, lengths[i]);
			expect_task(pair.batch, 0, 0, OTTE_EFFECT_NONE);
			expect_filled(pair.local_bytes, lengths[i], 2);
		}
		assert_int_equal(lanes_lost(&pair), 0);
		close_watched(&pair);
	}
}

/*
 * After many lone READs the next is asked for without a header, which has to say how a verdict is taken; so it is asked
 * again with one.
 */
static void many_lone_reads_have_their_verdicts_too(void **state)
{
	struct otte_request request;
	struct pair pair;
	unsigned i;

	(void)state;
	open_watched(&pair, NULL);
	request = pair_request(&pair, OTTE_READ, 0, 0, 4096);
	for (i = 0; i < 600; i++) {
		bool goes = i % 3 == 2;

		memset(pair.local_bytes, 0, 4096);
		atomic_store(&goes_last, goes);
		assert_int_equal(otte_batch_run(pair.batch, &request, 1, 20 * SECOND), goes);
		atomic_store(&goes_last, false);
		expect_task(pair.batch, 0, goes ? -ESTALE : 0, OTTE_EFFECT_NONE);
		if (!goes)
			expect_filled(pair.local_bytes, 4096, 2);
		atomic_store(&remote_word, 0);
	}
	assert_int_equal(lanes_lost(&pair), 0);
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	close_watched(&pair);
}

/* The same where the socket was full in between, at each kind of place. */
static void a_verdict_that_finds_no_room_follows_later(void **state)
{
	static const size_t rooms[] = { 1, 63, 64, 65, 64 + 4095, 64 + 4096 };
	struct pair pair;
	size_t i;
	int gone;

	(void)state;
	open_watched(&pair, NULL);
	for (gone = 0; gone < 2; gone++) {
		for (i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
			pair_fill(pair.local_bytes, SIZE, 1);
			atomic_store(&remote_word, 0);
			atomic_store(&room, rooms[i]);
			/* Nothing of ours is asked for the last byte alone: it looks by itself. */
			atomic_store(&goes_last, gone && rooms[i] < 64 + 4096);
			run(&pair, OTTE_READ, 4096);
			atomic_store(&goes_last, false);
			expect_task(pair.batch, 0, gone && rooms[i] < 64 + 4096 ? -ESTALE : 0,
				    OTTE_EFFECT_NONE);
			if (!gone)
				expect_filled(pair.local_bytes, 4096, 2);
		}
	}
	assert_int_equal(lanes_lost(&pair), 0);
	close_watched(&pair);
}

/* A hole in the middle: the rest is made up, and the verdict says that it is. */
static void a_read_that_meets_a_hole_fails_alone(void **state)
{
	static const int holes[] = { 0, 1, 30, 63, 64, 65, 64 + 100, 64 + 4095 };
	struct otte_stats stats = { .size = sizeof(stats) };
	struct pair pair;
	size_t i;

	(void)state;
	open_watched(&pair, NULL);
	for (i = 0; i < sizeof(holes) / sizeof(holes[0]); i++) {
		atomic_store(&gap, holes[i]);
		run(&pair, OTTE_READ, 16 * KIB);
		expect_task(pair.batch, 0, -ESTALE, OTTE_EFFECT_NONE);
		atomic_store(&gap, -1);
		run(&pair, OTTE_READ, 16 * KIB);
		expect_task(pair.batch, 0, 0, OTTE_EFFECT_NONE);
		expect_filled(pair.local_bytes, 16 * KIB, 2);
	}
	assert_int_equal(lanes_lost(&pair), 0);
	/* What has left is counted after it. */
	for (i = 0; i < 5000 && stats.served_requests < sizeof(holes) / sizeof(holes[0]); i++) {
		usleep(1000);
		assert_int_equal(otte_engine_stats(pair.source, &stats), 0);
	}
	assert_int_equal(stats.refused_requests, sizeof(holes) / sizeof(holes[0]));
	assert_int_equal(stats.served_requests, sizeof(holes) / sizeof(holes[0]));
	close_watched(&pair);
}

static void one_lane(struct otte_config *config)
{
	config->tcp_lanes = 1;
}

/* What a round leaves is gone on with, also where the peer has nothing more to ask. */
static void many_answers_with_holes_are_not_left_halfway(void **state)
{
	const uint64_t piece = 12 * KIB;
	struct otte_request request;
	uint32_t count, i;
	struct pair pair;

	(void)state;
	open_watched(&pair, one_lane);
	run(&pair, OTTE_READ, SIZE);
	atomic_store(&gap_each, true);
	for (count = 1; count <= 3 * SIZE / piece; count++) {
		assert_int_equal(otte_batch_reset(pair.batch), 0);
		for (i = count % (SIZE / piece); i--;) {
			request = pair_request(&pair, OTTE_READ, i * piece, i * piece, piece);
			assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
		}
		assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	}
	atomic_store(&gap_each, false);
	atomic_store(&gap, -1);
	assert_int_equal(lanes_lost(&pair), 0);
	close_watched(&pair);
}

/* Nobody makes up so much: the connection ends, and what is there by then is read again. */
static void a_hole_with_much_behind_it_costs_the_connection_and_the_retry_gets_it(void **state)
{
	struct pair pair;

	(void)state;
	open_watched(&pair, NULL);
	atomic_store(&gap_heals, true);
	atomic_store(&gap, 64);
	run(&pair, OTTE_READ, SIZE);
	expect_task(pair.batch, 0, 0, OTTE_EFFECT_NONE);
	expect_filled(pair.local_bytes, SIZE, 2);
	assert_true(lanes_lost(&pair) > 0);
	atomic_store(&gap_heals, false);
	close_watched(&pair);
}

static void what_is_guarded_arrives_as_it_was(void **state)
{
	static void (*const ways[])(struct otte_config *) = { NULL, zerocopy };
	struct otte_request request;
	struct pair pair;
	size_t i, way;
	uint64_t at;

	(void)state;
	for (way = 0; way < 2; way++) {
		open_watched(&pair, ways[way]);
		for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			atomic_store(&verdicts, 0);
			pair_fill(pair.local_bytes, SIZE, 1);
			run(&pair, OTTE_READ, lengths[i]);
			expect_task(pair.batch, 0, 0, OTTE_EFFECT_NONE);
			assert_memory_equal(pair.local_bytes, pair.remote_bytes, lengths[i]);
			assert_true(atomic_load(&verdicts) > 0 || way);
			run(&pair, OTTE_WRITE, lengths[i]);
			expect_task(pair.batch, 0, 0, OTTE_EFFECT_NONE);
		}
		/* One lane, READs and WRITEs and refusals in turn: nothing of one hangs on the next. */
		assert_int_equal(otte_batch_reset(pair.batch), 0);
		for (at = 0, i = 0; i < 300; i++, at = (at + 9973) % (SIZE - 8192)) {
			request = pair_request(&pair,
					       (uint8_t)(i % 3 == 0 ? OTTE_WRITE : OTTE_READ), at,
					       at, 1 + (i * 977) % 8192);
			assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
			assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
			expect_task(pair.batch, (uint32_t)i, 0, OTTE_EFFECT_NONE);
			assert_memory_equal(pair.local_bytes + at, pair.remote_bytes + at,
					    request.length);
		}
		close_watched(&pair);
	}
}

/* No verdict follows, and it looks after a WRITE all the same. */
static void what_the_engine_mapped_is_served_without_a_guard(void **state)
{
	struct pair pair;

	(void)state;
	open_watched(&pair, NULL);
	pair.remote_mem->kind = OTTE_MEM_OWNED;
	atomic_store(&verdicts, 0);
	atomic_store(&looks, 0);
	run(&pair, OTTE_READ, SIZE);
	expect_task(pair.batch, 0, 0, OTTE_EFFECT_NONE);
	assert_int_equal(atomic_load(&verdicts), 0);
	assert_int_equal(atomic_load(&looks), 0);
	atomic_store(&goes_last, true);
	run(&pair, OTTE_WRITE, PIECE);
	atomic_store(&goes_last, false);
	expect_task(pair.batch, 0, -ESTALE, OTTE_EFFECT_UNKNOWN);
	close_watched(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_for_memory_that_is_gone_is_not_taken),
		cmocka_unit_test(what_waits_when_its_memory_goes_moves_nothing),
		cmocka_unit_test(what_is_found_gone_is_out_of_reach_of_a_cancel),
		cmocka_unit_test(a_source_serves_nothing_of_memory_that_is_gone),
		cmocka_unit_test(a_write_into_memory_that_goes_may_have_gone_elsewhere),
		cmocka_unit_test(a_read_of_memory_that_goes_fails_whatever_came),
		cmocka_unit_test(many_lone_reads_have_their_verdicts_too),
		cmocka_unit_test(a_verdict_that_finds_no_room_follows_later),
		cmocka_unit_test(a_read_that_meets_a_hole_fails_alone),
		cmocka_unit_test(many_answers_with_holes_are_not_left_halfway),
		cmocka_unit_test(a_hole_with_much_behind_it_costs_the_connection_and_the_retry_gets_it),
		cmocka_unit_test(what_is_guarded_arrives_as_it_was),
		cmocka_unit_test(what_the_engine_mapped_is_served_without_a_guard),
	};

	return cmocka_run_group_tests_name("stale", tests, NULL, NULL);
}
