/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload that the kernel sends straight from registered memory: what depends on the memory lasts until the
 * kernel says that it has let go, and no shorter, whatever becomes of the connection.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/error.h"
#include "engine/engine.h"
#include "fake.h"
#include "transport/tcp/zerocopy.h"
#include "unit/engine/pair.h"
#include "seen.h"

#define AREA (32 * MIB)
#define MS 1000000ll

static bool soon(bool (*holds)(const struct pair *pair), const struct pair *pair)
{
	const struct timespec step = { .tv_nsec = 1 * MS };
	int i;

	for (i = 0; i < 10000; i++) {
		if (holds(pair))
			return true;
		nanosleep(&step, NULL);
	}
	return false;
}

static void always(struct otte_config *config)
{
	config->tcp_zerocopy = OTTE_ZEROCOPY_ALWAYS;
	config->reconnect_min_ns = 10 * MS;
	config->reconnect_max_ns = 20 * MS;
}

static void open_pair(struct pair *pair)
{
	pair_open(pair, AREA, always);
	pair_fill(pair->local_bytes, AREA, 0x17);
	pair_fill(pair->remote_bytes, AREA, 0x71);
}

static void submit(struct pair *pair, uint8_t op, uint64_t length)
{
	struct otte_request request = pair_request(pair, op, 0, 0, length);

	assert_int_equal(otte_batch_reset(pair->batch), 0);
	assert_int_equal(otte_batch_submit(pair->batch, &request, 1), 0);
}

static struct otte_task task_of(struct pair *pair)
{
	struct otte_task task;

	assert_int_equal(otte_batch_task(pair->batch, 0, &task), 0);
	return task;
}

static bool idle(const struct pair *pair)
{
	return !pair_stats(pair->requester).zerocopy_outstanding &&
	       !pair_stats(pair->source).zerocopy_outstanding;
}

static bool written(const struct pair *pair)
{
	return pair_stats(pair->source).served_requests &&
	       !memcmp(pair->local_bytes, pair->remote_bytes, MIB);
}

/* ---- What moves ---- */

static void payload_arrives_whole_and_is_counted(void **state)
{
	static const uint64_t lengths[] = { 1, 65535, 65536, MIB + 3, 17 * MIB + 1 };
	uint64_t sent = 0;
	struct pair pair;
	size_t i;

	(void)state;
	open_pair(&pair);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		pair_fill(pair.remote_bytes, AREA, (uint8_t)i);
		assert_int_equal(pair_run(&pair, OTTE_READ, 3, 5, lengths[i]), 0);
		assert_memory_equal(pair.local_bytes + 3, pair.remote_bytes + 5, lengths[i]);
		pair_fill(pair.local_bytes, AREA, (uint8_t)(i + 100));
		assert_int_equal(pair_run(&pair, OTTE_WRITE, 7, 1, lengths[i]), 0);
		assert_memory_equal(pair.local_bytes + 7, pair.remote_bytes + 1, lengths[i]);
		sent += lengths[i] < 65536 ? 0 : lengths[i];
		assert_int_equal(pair_stats(pair.requester).zerocopy_bytes, sent);
		assert_int_equal(pair_stats(pair.source).zerocopy_bytes, sent);
	}
	assert_true(soon(idle, &pair));
	/* Within a host the kernel copies in the end. */
	assert_int_equal(pair_stats(pair.source).zerocopy_copied,
			 pair_stats(pair.source).zerocopy_sends);
	assert_int_equal(pair_stats(pair.source).zerocopy_refused, 0);
	pair_close(&pair);
}

static void within_a_host_nothing_is_asked_for_unless_told(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, AREA, NULL);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, AREA), 0);
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 0, AREA), 0);
	assert_int_equal(pair_stats(pair.source).zerocopy_sends, 0);
	assert_int_equal(pair_stats(pair.requester).zerocopy_sends, 0);
	pair_close(&pair);
}

static void what_the_kernel_has_no_room_for_is_copied(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	fake_refuses = true;
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, AREA), 0);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, AREA);
	pair_fill(pair.local_bytes, AREA, 9);
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 0, AREA), 0);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, AREA);
	fake_refuses = false;
	assert_true(pair_stats(pair.source).zerocopy_refused &&
		    pair_stats(pair.requester).zerocopy_refused);
	assert_int_equal(pair_stats(pair.source).zerocopy_sends, 0);
	assert_int_equal(pair_stats(pair.requester).zerocopy_sends, 0);
	pair_close(&pair);
}

/* ---- What waits ---- */

static void a_write_ends_when_its_memory_is_free_not_when_it_is_answered(void **state)
{
	struct pair pair;
	size_t pending;

	(void)state;
	open_pair(&pair);
	fake_withholds = true;
	submit(&pair, OTTE_WRITE, MIB);
	assert_true(soon(written, &pair));
	assert_int_equal(otte_batch_wait(pair.batch, 100 * MS), -ETIMEDOUT);
	assert_int_equal(otte_region_unregister(&pair.local, 1, 50 * MS, &pending), -ETIMEDOUT);
	fake_withholds = false;
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_int_equal(task_of(&pair).code, 0);
	assert_true(task_of(&pair).locally_drained);
	assert_int_equal(pair_stats(pair.requester).zerocopy_outstanding, 0);
	pair_close(&pair);
}

static void a_write_that_is_cancelled_ends_when_its_memory_is_free(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	fake_withholds = true;
	submit(&pair, OTTE_WRITE, MIB);
	assert_true(soon(written, &pair));
	assert_int_equal(otte_batch_cancel(pair.batch), 0);
	assert_int_equal(otte_batch_wait(pair.batch, 100 * MS), -ETIMEDOUT);
	fake_withholds = false;
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_true(task_of(&pair).locally_drained);
	pair_close(&pair);
}

/* In one look at the connection: first that the memory is free, then the answer. */
static void a_cancelled_write_is_told_once_whose_answer_comes_with_its_memory(void **state)
{
	struct pair pair;
	int i;

	(void)state;
	open_pair(&pair);
	for (i = 0; i < 20; i++) {
		uint64_t served = pair_stats(pair.source).served_requests;

		fake_silent = true;
		submit(&pair, OTTE_WRITE, MIB);
		while (pair_stats(pair.source).served_requests == served)
			nanosleep(&(struct timespec){ .tv_nsec = 1 * MS }, NULL);
		assert_int_equal(otte_batch_cancel(pair.batch), 0);
		nanosleep(&(struct timespec){ .tv_nsec = 5 * MS }, NULL);
		fake_silent = false;
		assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
		assert_int_equal(task_of(&pair).code, -ECANCELED);
		assert_int_equal(task_of(&pair).remote_effect, OTTE_EFFECT_UNKNOWN);
		assert_true(task_of(&pair).locally_drained);
	}
	assert_int_equal(pair_stats(pair.requester).failed, i);
	pair_close(&pair);
}

static void a_read_that_was_served_keeps_loan_and_region_until_its_memory_is_free(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	struct pair pair;
	size_t pending;

	(void)state;
	open_pair(&pair);
	fake_withholds = true;
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, MIB), 0);
	assert_int_equal(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, 50 * MS, &report),
			 -ETIMEDOUT);
	assert_int_equal(report.loans, 1);
	assert_int_equal(report.retained, 0);
	assert_int_equal(otte_region_unregister(&pair.remote, 1, 50 * MS, &pending), -ETIMEDOUT);
	assert_int_equal(pair_stats(pair.source).loans, 1);
	fake_withholds = false;
	assert_int_equal(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, 10 * SECOND, &report), 0);
	assert_int_equal(report.loans, 0);
	pair_close(&pair);
}

/* The peer has its bytes, so for it the READ is over: the next request must not find it in the way. */
static void a_request_behind_a_read_waits_for_its_memory(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	fake_withholds = true;
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, MIB), 0);
	submit(&pair, OTTE_WRITE, 1000);
	assert_int_equal(otte_batch_wait(pair.batch, 100 * MS), -ETIMEDOUT);
	fake_withholds = false;
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_int_equal(task_of(&pair).code, 0);
	assert_int_equal(pair_stats(pair.source).refused_requests, 0);
	pair_close(&pair);
}

static void a_request_does_not_wait_for_ever(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	fake_withholds = true;
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, MIB), 0);
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 0, 1000), -EBUSY);
	assert_int_equal(pair_stats(pair.source).refused_requests, 1);
	/* Nothing is in the way of other ranges, nor of readers. */
	assert_int_equal(pair_run(&pair, OTTE_WRITE, MIB, MIB, 1000), 0);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 1000), 0);
	fake_withholds = false;
	assert_true(soon(idle, &pair));
	pair_close(&pair);
}

/* So many small requests, one at a time, that their lane is served apart from its loop. */
#define ALONE_REQUESTS 200

/* The other peer's lane copies, and knows of no kernel that keeps anything. */
static void a_request_waits_for_memory_that_another_peer_has_read(void **state)
{
	struct otte_request request = { .op = OTTE_WRITE, .length = 64 };
	struct otte_engine *engine;
	struct otte_segment *segment;
	struct otte_batch *batch;
	struct otte_region *region;
	struct otte_region_desc desc = { .length = 4096 };
	char address[OTTE_ADDRESS_MAX];
	struct otte_task task;
	struct pair pair;
	int i;

	(void)state;
	open_pair(&pair);
	assert_int_equal(otte_engine_address(pair.source, address, sizeof(address)), 0);
	fake_lacks = true;
	assert_int_equal(otte_engine_create(NULL, &engine), 0);
	assert_int_equal(otte_mem_alloc(engine, 4096, 0, &desc.mem), 0);
	assert_int_equal(otte_region_register(engine, &desc, 1, &region), 0);
	assert_int_equal(otte_batch_create(engine, 1, &batch), 0);
	assert_int_equal(otte_segment_open(engine, address, OTTE_EPOCH_ANY, 30 * SECOND, &segment), 0);
	fake_lacks = false;
	request.segment = segment;
	request.local = region;
	request.remote_region = otte_region_id(pair.remote);
	request.remote_offset = 8 * MIB;
	for (i = 0; i <= ALONE_REQUESTS; i++) {
		if (i == ALONE_REQUESTS) {
			fake_withholds = true;
			assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, MIB), 0);
			request.remote_offset = 0;
		}
		assert_int_equal(otte_batch_reset(batch), 0);
		assert_int_equal(otte_batch_submit(batch, &request, 1), 0);
		if (i < ALONE_REQUESTS)
			assert_int_equal(otte_batch_wait(batch, 30 * SECOND), 0);
	}
	assert_int_equal(otte_batch_wait(batch, 100 * MS), -ETIMEDOUT);
	fake_withholds = false;
	assert_int_equal(otte_batch_wait(batch, 30 * SECOND), 0);
	assert_int_equal(otte_batch_task(batch, 0, &task), 0);
	assert_int_equal(task.code, 0);
	assert_int_equal(pair_stats(pair.source).refused_requests, 0);
	assert_int_equal(otte_batch_destroy(batch), 0);
	assert_int_equal(otte_segment_close(segment), 0);
	assert_int_equal(otte_region_unregister(&region, 1, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(desc.mem), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
	pair_close(&pair);
}

/* Only what waits for the kernel parks a request: this one is in the way of a request of the source's own. */
static void a_real_conflict_is_told_at_once(void **state)
{
	struct otte_request own = { .op = OTTE_WRITE, .local_offset = 4 * MIB, .length = MIB };
	struct otte_segment *segment;
	char address[OTTE_ADDRESS_MAX];
	struct otte_batch *batch;
	struct pair pair;
	struct timespec before, after;

	(void)state;
	open_pair(&pair);
	assert_int_equal(otte_engine_address(pair.source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(pair.source, address, OTTE_EPOCH_ANY, 30 * SECOND, &segment), 0);
	assert_int_equal(otte_batch_create(pair.source, 1, &batch), 0);
	own.segment = segment;
	own.local = pair.remote;
	own.remote_region = otte_region_id(pair.remote);
	own.remote_offset = 8 * MIB;
	fake_withholds = true;
	assert_int_equal(otte_batch_submit(batch, &own, 1), 0);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, MIB), 0);
	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 4 * MIB, 1000), -EBUSY);
	clock_gettime(CLOCK_MONOTONIC, &after);
	/* One that is parked is refused after two seconds. */
	assert_in_range((after.tv_sec - before.tv_sec) * SECOND + after.tv_nsec - before.tv_nsec, 0,
			1500 * MS);
	fake_withholds = false;
	assert_int_equal(otte_batch_wait(batch, 30 * SECOND), 0);
	assert_int_equal(otte_batch_destroy(batch), 0);
	assert_int_equal(otte_segment_close(segment), 0);
	pair_close(&pair);
}

static int busy_ledger(struct otte_ledger_client *lender, const struct otte_loan_terms *terms, uint64_t *id)
{
	(void)lender;
	(void)terms;
	(void)id;
	return otte_fail(-EBUSY, "a loan of the same bytes is live");
}

static void one_lane(struct otte_config *config)
{
	always(config);
	config->tcp_lanes = 1;
}

/* No range is in the way, and least of all that of the lane's last request. */
static void what_the_ledger_says_is_busy_is_told_at_once(void **state)
{
	const struct otte_ledger_ops *real;
	struct timespec before, after;
	struct otte_ledger_ops ops;
	struct pair pair;

	(void)state;
	pair_open(&pair, AREA, one_lane);
	real = pair.source->ledger->ops;
	ops = *real;
	ops.loan_offer = busy_ledger;
	fake_withholds = true;
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, MIB), 0);
	pair.source->ledger->ops = &ops;
	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 4 * MIB, 1000), -EBUSY);
	clock_gettime(CLOCK_MONOTONIC, &after);
	/* One that is parked is refused after two seconds. */
	assert_in_range((after.tv_sec - before.tv_sec) * SECOND + after.tv_nsec - before.tv_nsec, 0,
			1500 * MS);
	assert_int_equal(pair_stats(pair.source).refused_requests, 1);
	pair.source->ledger->ops = real;
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 4 * MIB, 1000), 0);
	fake_withholds = false;
	assert_true(soon(idle, &pair));
	pair_close(&pair);
}

/* ---- What is left when a connection is lost ---- */

static bool requester_retains(const struct pair *pair)
{
	return pair_stats(pair->requester).retained;
}

static bool source_retains(const struct pair *pair)
{
	return pair_stats(pair->source).retained;
}

static bool requester_is_clean(const struct pair *pair)
{
	return !pair_stats(pair->requester).retained;
}

static bool source_is_clean(const struct pair *pair)
{
	return !pair_stats(pair->source).retained && !pair_stats(pair->source).loans;
}

static void a_write_whose_memory_is_not_proven_free_ends_unquiesced_and_retains_it(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	struct otte_task task;
	struct pair pair;
	size_t pending;

	(void)state;
	open_pair(&pair);
	fake_withholds = true;
	submit(&pair, OTTE_WRITE, MIB);
	assert_true(soon(written, &pair));
	pair_close_source(&pair);
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	task = task_of(&pair);
	assert_int_equal(task.code, -EUCLEAN);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_false(task.locally_drained);
	assert_true(requester_retains(&pair));
	assert_int_equal(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, 50 * MS, &report),
			 -EUCLEAN);
	assert_int_equal(report.retained, 1);
	assert_int_equal(report.retained_bytes, MIB);
	assert_int_equal(report.requests, 0);
	/* The handles that do not stand for the memory go; the memory does not. */
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	assert_int_equal(otte_region_unregister(&pair.local, 1, 50 * MS, &pending), -ETIMEDOUT);
	assert_int_equal(otte_mem_release(pair.local_mem), -EBUSY);
	fake_withholds = false;
	assert_true(soon(requester_is_clean, &pair));
	assert_int_equal(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, 50 * MS, &report), 0);
	pair_close_requester(&pair);
}

static void a_read_whose_memory_is_not_proven_free_keeps_its_loan_and_is_retained(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	struct pair pair;
	size_t pending;

	(void)state;
	open_pair(&pair);
	fake_withholds = true;
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, MIB), 0);
	pair_close_requester(&pair);
	assert_true(soon(source_retains, &pair));
	assert_int_equal(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, 50 * MS, &report),
			 -EUCLEAN);
	assert_int_equal(report.retained, 1);
	assert_int_equal(report.retained_bytes, MIB);
	assert_int_equal(report.loans, 1);
	assert_int_equal(otte_region_unregister(&pair.remote, 1, 50 * MS, &pending), -ETIMEDOUT);
	assert_int_equal(otte_engine_destroy(pair.source), -EBUSY);
	fake_withholds = false;
	assert_true(soon(source_is_clean, &pair));
	assert_int_equal(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, 50 * MS, &report), 0);
	pair_close_source(&pair);
}

static void run_out_of_time(struct pair *pair, int64_t timeout_ns)
{
	struct otte_request request = pair_request(pair, OTTE_WRITE, 0, 0, MIB);
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	request.deadline_ns = (uint64_t)(now.tv_sec * SECOND + now.tv_nsec + timeout_ns);
	fake_deaf = true;
	assert_int_equal(otte_batch_reset(pair->batch), 0);
	assert_int_equal(otte_batch_submit(pair->batch, &request, 1), 0);
	assert_int_equal(otte_batch_wait(pair->batch, 30 * SECOND), 0);
	fake_deaf = false;
}

static void a_write_that_nobody_takes_ends_with_its_deadline_once_the_kernel_has_dropped_it(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	run_out_of_time(&pair, 200 * MS);
	assert_int_equal(task_of(&pair).code, -ETIMEDOUT);
	assert_int_equal(task_of(&pair).remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_true(task_of(&pair).locally_drained);
	assert_int_equal(pair_stats(pair.requester).retained, 0);
	assert_int_equal(pair_stats(pair.requester).zerocopy_outstanding, 0);
	pair_close(&pair);
}

static void a_write_that_nobody_takes_and_the_kernel_keeps_ends_unquiesced(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	fake_withholds = true;
	run_out_of_time(&pair, 200 * MS);
	assert_int_equal(task_of(&pair).code, -EUCLEAN);
	assert_int_equal(task_of(&pair).remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_false(task_of(&pair).locally_drained);
	assert_true(requester_retains(&pair));
	fake_withholds = false;
	assert_true(soon(requester_is_clean, &pair));
	pair_close(&pair);
}

static void no_room_to_retain(struct otte_config *config)
{
	always(config);
	config->max_retained_bytes = 0;
}

/* Then there is nobody to keep the memory but the work itself, which goes on waiting. */
static void a_write_that_cannot_be_retained_does_not_end(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, AREA, no_room_to_retain);
	pair_fill(pair.local_bytes, AREA, 0x55);
	fake_withholds = true;
	submit(&pair, OTTE_WRITE, MIB);
	assert_true(soon(written, &pair));
	pair_close_source(&pair);
	assert_int_equal(otte_batch_wait(pair.batch, 2500 * MS), -ETIMEDOUT);
	assert_int_equal(pair_stats(pair.requester).retained, 0);
	fake_withholds = false;
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	/* The receipt may have come before the connection was lost. */
	assert_true(task_of(&pair).code == 0 || task_of(&pair).code == -ECONNRESET);
	assert_true(task_of(&pair).locally_drained);
	pair_close_requester(&pair);
}

/* ---- Numbers ---- */

static unsigned take_proven(struct tcp_zerocopy *zerocopy, struct tcp_claim **which)
{
	unsigned n = 0;

	for (*which = NULL; ; n++) {
		struct tcp_claim *claim = tcp_zerocopy_reap(zerocopy);

		if (!claim)
			return n;
		assert_null(claim->next);
		*which = claim;
	}
}

static void notifications_may_come_in_any_order_and_numbers_wrap(void **state)
{
	struct tcp_zerocopies all = { .bytes = 0 };
	const struct otte_config config = { .tcp_zerocopy = OTTE_ZEROCOPY_ALWAYS };
	struct tcp_zerocopy zerocopy = { .all = &all, .config = &config, .number = UINT32_MAX - 1 };
	struct tcp_claim first = { .first = 0 }, second = { .first = 0 }, *which;
	int i;

	(void)state;
	fake_all = true;
	for (i = 0; i < 4; i++) /* ..fe, ..ff, 0, 1 */
		assert_int_equal(tcp_zerocopy_send(&zerocopy, &first, "x", 1), 1);
	for (i = 0; i < 2; i++) /* 2, 3 */
		assert_int_equal(tcp_zerocopy_send(&zerocopy, &second, "x", 1), 1);
	assert_int_equal(all.outstanding, 6);

	fake_tell(1, 2, false);
	assert_int_equal(take_proven(&zerocopy, &which), 0);
	assert_int_equal(first.left, 3);
	assert_int_equal(second.left, 1);
	fake_tell(3, 3, false);
	assert_int_equal(take_proven(&zerocopy, &which), 1);
	assert_ptr_equal(which, &second);
	fake_tell(UINT32_MAX, 0, true);
	assert_int_equal(take_proven(&zerocopy, &which), 0);
	assert_int_equal(first.left, 1);
	/* A claim goes on after a pause without anything outstanding. */
	fake_tell(UINT32_MAX - 1, UINT32_MAX - 1, false);
	assert_int_equal(take_proven(&zerocopy, &which), 1);
	assert_ptr_equal(which, &first);
	assert_null(zerocopy.claims);
	assert_int_equal(all.outstanding, 0);
	assert_int_equal(all.copied, 2);
	fake_all = false;
}

static void a_run_of_copies_ends_the_asking_and_one_real_send_the_run(void **state)
{
	struct tcp_zerocopies all = { .bytes = 0 };
	const struct otte_config config = { .tcp_zerocopy_bytes = 10 };
	struct tcp_zerocopy zerocopy = { .all = &all, .config = &config };
	struct tcp_claim claim = { .first = 0 };
	int i;

	(void)state;
	fake_all = true;
	for (i = 0; i < 64; i++)
		assert_int_equal(tcp_zerocopy_send(&zerocopy, &claim, "x", 1), 1);
	fake_tell(0, 14, true);
	fake_tell(15, 15, false);
	fake_tell(16, 30, true);
	assert_null(tcp_zerocopy_reap(&zerocopy));
	assert_true(tcp_zerocopy_wants(&zerocopy, 10));
	assert_false(tcp_zerocopy_wants(&zerocopy, 9));
	assert_false(tcp_zerocopy_wants(NULL, 10));
	fake_tell(31, 31, true);
	assert_null(tcp_zerocopy_reap(&zerocopy));
	assert_false(tcp_zerocopy_wants(&zerocopy, 10));
	fake_all = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(payload_arrives_whole_and_is_counted),
		cmocka_unit_test(within_a_host_nothing_is_asked_for_unless_told),
		cmocka_unit_test(what_the_kernel_has_no_room_for_is_copied),
		cmocka_unit_test(a_write_ends_when_its_memory_is_free_not_when_it_is_answered),
		cmocka_unit_test(a_write_that_is_cancelled_ends_when_its_memory_is_free),
		cmocka_unit_test(a_cancelled_write_is_told_once_whose_answer_comes_with_its_memory),
		cmocka_unit_test(a_read_that_was_served_keeps_loan_and_region_until_its_memory_is_free),
		cmocka_unit_test(a_request_behind_a_read_waits_for_its_memory),
		cmocka_unit_test(a_request_does_not_wait_for_ever),
		cmocka_unit_test(a_request_waits_for_memory_that_another_peer_has_read),
		cmocka_unit_test(a_real_conflict_is_told_at_once),
		cmocka_unit_test(what_the_ledger_says_is_busy_is_told_at_once),
		cmocka_unit_test(a_write_that_nobody_takes_ends_with_its_deadline_once_the_kernel_has_dropped_it),
		cmocka_unit_test(a_write_that_nobody_takes_and_the_kernel_keeps_ends_unquiesced),
		cmocka_unit_test(a_write_whose_memory_is_not_proven_free_ends_unquiesced_and_retains_it),
		cmocka_unit_test(a_read_whose_memory_is_not_proven_free_keeps_its_loan_and_is_retained),
		cmocka_unit_test(a_write_that_cannot_be_retained_does_not_end),
		cmocka_unit_test(notifications_may_come_in_any_order_and_numbers_wrap),
		cmocka_unit_test(a_run_of_copies_ends_the_asking_and_one_real_send_the_run),
	};

	return cmocka_run_group_tests_name("zerocopy", tests, NULL, NULL);
}
