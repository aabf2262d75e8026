/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a batch promises, beyond moving bytes. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "unit/engine/pair.h"
#include "seen.h"

#define SIZE (4u << 20)
#define KIB 1024u

static struct otte_batch_status status_of(struct otte_batch *batch)
{
	struct otte_batch_status status;

	assert_int_equal(otte_batch_poll(batch, &status), 0);
	return status;
}

static bool readable(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) == 1;
}

static void open_filled(struct pair *pair, void (*adjust)(struct otte_config *config))
{
	pair_open(pair, SIZE, adjust);
	pair_fill(pair->remote_bytes, SIZE, 5);
	memset(pair->local_bytes, 0, SIZE);
}

static void fill_row(const struct pair *pair, struct otte_request *requests, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		requests[i] = pair_request(pair, OTTE_READ, i * KIB, i * KIB, KIB);
		requests[i].user_data = 100 + i;
	}
}

static void a_batch_takes_as_many_requests_as_its_capacity(void **state)
{
	struct otte_request requests[5];
	struct otte_batch *batch;
	struct pair pair;

	(void)state;
	open_filled(&pair, NULL);
	fill_row(&pair, requests, 5);
	assert_int_equal(otte_batch_create(pair.requester, 4, &batch), 0);
	assert_int_equal(otte_batch_submit(batch, requests, 5), -EDQUOT);
	assert_non_null(strstr(otte_error_text(), "capacity"));
	assert_int_equal(status_of(batch).submitted, 0);
	assert_int_equal(otte_batch_submit(batch, requests, 3), 0);
	assert_int_equal(otte_batch_submit(batch, requests + 3, 2), -EDQUOT);
	assert_int_equal(otte_batch_submit(batch, requests + 3, 1), 0);
	assert_int_equal(otte_batch_wait(batch, 30 * SECOND), 0);
	assert_int_equal(status_of(batch).completed_prefix, 4);
	assert_int_equal(otte_batch_submit(batch, requests + 4, 1), -EDQUOT);
	assert_int_equal(otte_batch_reset(batch), 0);
	assert_int_equal(otte_batch_submit(batch, requests + 4, 1), 0);
	assert_int_equal(otte_batch_wait(batch, 30 * SECOND), 0);
	assert_int_equal(otte_batch_destroy(batch), 0);
	pair_close(&pair);
}

/* How many requests the source served for eight neighbours, every second one changed a little; `least` or more. */
static uint64_t served_for(struct pair *pair, void (*change)(struct otte_request *request), uint64_t least)
{
	uint64_t before = pair_stats(pair->source).served_requests;
	struct otte_request requests[8];
	struct otte_task task;
	unsigned i;

	fill_row(pair, requests, 8);
	for (i = 1; i < 8; i += 2)
		change(&requests[i]);
	assert_int_equal(otte_batch_reset(pair->batch), 0);
	assert_int_equal(otte_batch_submit(pair->batch, requests, 8), 0);
	assert_int_equal(otte_batch_wait(pair->batch, 30 * SECOND), 0);
	assert_int_equal(status_of(pair->batch).completed_prefix, 8);
	assert_int_equal(status_of(pair->batch).bytes_completed, 8 * KIB);
	for (i = 0; i < 8; i++) {
		assert_int_equal(otte_batch_task(pair->batch, i, &task), 0);
		assert_int_equal(task.state, OTTE_TASK_COMPLETED);
		assert_int_equal(task.user_data, 100 + i);
		assert_true(task.latency_ns > 0);
		assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	}
	/* The source counts a READ after its last byte has left. */
	for (i = 0; i < 10000 && pair_stats(pair->source).served_requests - before < least; i++)
		usleep(1000);
	/* And any that should not be there, too. */
	usleep(20000);
	return pair_stats(pair->source).served_requests - before;
}

static void nothing_changes(struct otte_request *request)
{
	(void)request;
}

static void other_user_data(struct otte_request *request)
{
	(void)request; /* each of them has another one already */
}

static void other_priority(struct otte_request *request)
{
	request->priority = OTTE_PRIORITY_LOW;
}

static void other_deadline(struct otte_request *request)
{
	request->deadline_ns = OTTE_DEADLINE_NONE;
}

static void other_intent(struct otte_request *request)
{
	request->intent = OTTE_INTENT_MIGRATION;
}

static void other_op(struct otte_request *request)
{
	request->op = OTTE_WRITE;
}

static void gap_here(struct otte_request *request)
{
	request->local_offset += SIZE / 2;
}

static void gap_there(struct otte_request *request)
{
	request->remote_offset += SIZE / 2;
}

static void neighbours_are_merged_only_when_they_agree_in_all(void **state)
{
	struct pair pair;

	(void)state;
	open_filled(&pair, NULL);
	assert_int_equal(served_for(&pair, nothing_changes, 1), 1);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, 8 * KIB);
	assert_int_equal(served_for(&pair, other_user_data, 1), 1);
	assert_int_equal(served_for(&pair, other_priority, 8), 8);
	assert_int_equal(served_for(&pair, other_deadline, 8), 8);
	assert_int_equal(served_for(&pair, other_intent, 8), 8);
	assert_int_equal(served_for(&pair, other_op, 8), 8);
	assert_int_equal(served_for(&pair, gap_here, 8), 8);
	assert_int_equal(served_for(&pair, gap_there, 8), 8);
	pair_close(&pair);
}

static void the_first_run_of_failures_and_the_prefix_before_it_are_told(void **state)
{
	struct otte_batch_status status;
	struct otte_request requests[7];
	struct otte_failure failure;
	struct otte_task task;
	struct pair pair;
	unsigned i;

	(void)state;
	open_filled(&pair, NULL);
	assert_int_equal(otte_batch_failure(pair.batch, &failure), -ENOENT);
	fill_row(&pair, requests, 7);
	requests[2].remote_region += 1000;
	requests[3].remote_region += 1000;
	requests[4].remote_offset = SIZE - 1;
	requests[6].remote_region += 1000;
	assert_int_equal(otte_batch_submit(pair.batch, requests, 7), 0);
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	status = status_of(pair.batch);
	assert_int_equal(status.submitted, 7);
	assert_int_equal(status.finished, 7);
	assert_int_equal(status.failed, 4);
	assert_int_equal(status.completed_prefix, 2);
	assert_int_equal(status.bytes_completed, 3 * KIB);
	assert_int_equal(otte_batch_failure(pair.batch, &failure), 0);
	assert_int_equal(failure.first, 2);
	assert_int_equal(failure.count, 2);
	assert_int_equal(failure.code, -ENOENT);
	assert_int_equal(failure.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(failure.locally_drained, 1);
	assert_non_null(strstr(failure.text, "2 of 7"));
	for (i = 0; i < 7; i++) {
		int code = i == 4 ? -ERANGE : i == 2 || i == 3 || i == 6 ? -ENOENT : 0;

		assert_int_equal(otte_batch_task(pair.batch, i, &task), 0);
		assert_int_equal(task.code, code);
		assert_int_equal(task.state, code ? OTTE_TASK_FAILED : OTTE_TASK_COMPLETED);
	}
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	assert_int_equal(otte_batch_failure(pair.batch, &failure), -ENOENT);
	pair_close(&pair);
}

static void the_eventfd_is_readable_exactly_when_all_is_terminal(void **state)
{
	struct otte_request requests[8];
	struct otte_batch_status status;
	unsigned round, i, waited = 0;
	struct pair pair;
	int fd;

	(void)state;
	open_filled(&pair, NULL);
	fd = otte_batch_eventfd(pair.batch);
	assert_true(fd >= 0);
	assert_int_equal(otte_batch_eventfd(pair.batch), fd);
	for (round = 0; round < 50; round++) {
		bool seen;

		for (i = 0; i < 8; i++)
			requests[i] = pair_request(&pair, OTTE_READ, i * (SIZE / 8), i * (SIZE / 8),
						   SIZE / 8);
		assert_false(readable(fd));
		assert_int_equal(otte_batch_submit(pair.batch, requests, 8), 0);
		do {
			/* Looked at before the status: what it said then must be true now. */
			seen = readable(fd);
			waited += !seen;
			status = status_of(pair.batch);
			assert_true(!seen || status.finished == 8);
		} while (!seen);
		assert_true(readable(fd));
		assert_int_equal(otte_batch_wait(pair.batch, 0), 0);
		if (round % 2 == 0) {
			/* More for a batch that had finished. */
			assert_int_equal(otte_batch_submit(pair.batch, requests, 1), 0);
			assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
			assert_true(readable(fd));
		}
		assert_int_equal(otte_batch_reset(pair.batch), 0);
	}
	assert_true(waited > 0);
	pair_close(&pair);
}

static void an_eventfd_asked_for_late_knows_what_is_finished(void **state)
{
	struct otte_request request;
	struct pair pair;

	(void)state;
	open_filled(&pair, NULL);
	request = pair_request(&pair, OTTE_READ, 0, 0, KIB);
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_true(readable(otte_batch_eventfd(pair.batch)));
	pair_close(&pair);
}

static void poll_alone_moves_a_batch_to_its_end(void **state)
{
	struct otte_request request;
	struct pair pair;
	unsigned turns;

	(void)state;
	open_filled(&pair, NULL);
	request = pair_request(&pair, OTTE_READ, 0, 0, SIZE);
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
	for (turns = 0; status_of(pair.batch).finished == 0; turns++)
		assert_true(turns < 100000000);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, SIZE);
	pair_close(&pair);
}

static void a_malformed_request_is_named_and_takes_none_with_it(void **state)
{
	struct otte_request good, bad[8];
	unsigned i;
	struct pair pair;

	(void)state;
	open_filled(&pair, NULL);
	good = pair_request(&pair, OTTE_READ, 0, 0, KIB);
	for (i = 0; i < 8; i++)
		bad[i] = pair_request(&pair, OTTE_READ, KIB, KIB, KIB);
	bad[0].op = 2;
	bad[1].priority = 3;
	bad[2].intent = 7;
	bad[3].reserved[0] = 1;
	bad[4].length = 0;
	bad[5].transport = 5;
	bad[6].segment = NULL;
	bad[7].local = pair.remote; /* another engine's */
	for (i = 0; i < 8; i++) {
		const struct otte_request two[2] = { good, bad[i] };

		assert_int_equal(otte_batch_submit(pair.batch, two, 2), -EINVAL);
		assert_non_null(strstr(otte_error_text(), "request 1"));
		assert_int_equal(status_of(pair.batch).submitted, 0);
	}
	{
		struct otte_request two[2] = { good, bad[7] };

		two[1].local = pair.local;
		two[1].local_offset = SIZE;
		assert_int_equal(otte_batch_submit(pair.batch, two, 2), -ERANGE);
		assert_non_null(strstr(otte_error_text(), "request 1"));
		two[1].local_offset = KIB / 2;
		assert_int_equal(otte_batch_submit(pair.batch, two, 2), -EBUSY);
		assert_non_null(strstr(otte_error_text(), "request 1"));
	}
	assert_int_equal(pair_stats(pair.requester).requests, 0);
	assert_int_equal(pair_stats(pair.requester).bytes, 0);
	assert_int_equal(pair_stats(pair.requester).submitted, 0);
	assert_int_equal(pair.local_bytes[0] | pair.local_bytes[1], 0);
	pair_close(&pair);
}

static void small_budgets(struct otte_config *config)
{
	config->max_requests = 1024;
	config->max_bytes = 1 << 20;
}

static void a_full_budget_names_itself_and_is_given_back(void **state)
{
	static struct otte_request requests[1025];
	struct otte_batch *second;
	struct pair pair;
	unsigned i;

	(void)state;
	open_filled(&pair, small_budgets);
	for (i = 0; i < 1025; i++)
		requests[i] = pair_request(&pair, OTTE_READ, i * 2 * KIB, i * 2 * KIB, 512);
	assert_int_equal(otte_batch_create(pair.requester, 1024, &second), 0);
	assert_int_equal(otte_batch_create(pair.requester, 1025, &second), -EINVAL);
	requests[0].length = (1 << 20) + 1;
	assert_int_equal(otte_batch_submit(second, requests, 1), -EDQUOT);
	assert_non_null(strstr(otte_error_text(), "limits.bytes"));
	requests[0].length = 512;
	for (i = 0; i < 20; i++) {
		/* The second one is refused unless the first has been served in between. */
		int ret;

		assert_int_equal(otte_batch_submit(pair.batch, requests, 1024), 0);
		ret = otte_batch_submit(second, requests + 1024, 1);
		if (ret) {
			assert_int_equal(ret, -EDQUOT);
			assert_non_null(strstr(otte_error_text(), "limits.requests"));
		}
		assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
		assert_int_equal(status_of(pair.batch).completed_prefix, 1024);
		assert_int_equal(otte_batch_wait(second, 30 * SECOND), 0);
		assert_int_equal(otte_batch_reset(pair.batch), 0);
		assert_int_equal(otte_batch_reset(second), 0);
		assert_int_equal(pair_stats(pair.requester).requests, 0);
		assert_int_equal(pair_stats(pair.requester).bytes, 0);
	}
	assert_int_equal(otte_batch_destroy(second), 0);
	pair_close(&pair);
}

/* It, and one of the next bytes that has time. */
static struct otte_request *requests_beside(struct pair *pair, const struct otte_request *overdue)
{
	static struct otte_request requests[2];

	requests[0] = *overdue;
	requests[1] = pair_request(pair, OTTE_READ, KIB, KIB, KIB);
	return requests;
}

static void a_request_that_is_overdue_moves_nothing(void **state)
{
	struct otte_request request;
	struct otte_task task;
	struct pair pair;
	unsigned i;

	(void)state;
	open_filled(&pair, NULL);
	memset(pair.local_bytes, 0, 2 * KIB);
	pair_fill(pair.remote_bytes, 2 * KIB, 5);
	request = pair_request(&pair, OTTE_READ, 0, 0, KIB);
	request.deadline_ns = 1;
	for (i = 0; i < 3; i++) {
		if (i == 0)
			assert_int_equal(otte_batch_run(pair.batch, &request, 1, 10 * SECOND), 1);
		else
			assert_int_equal(otte_batch_reset(pair.batch), 0);
		if (i)
			assert_int_equal(otte_batch_submit(pair.batch, requests_beside(&pair, &request), i), 0);
		assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
		assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
		assert_int_equal(task.code, -ETIME);
		assert_int_equal(task.state, OTTE_TASK_TIMEOUT);
		assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
		assert_int_equal(task.locally_drained, 1);
		assert_int_equal(pair.local_bytes[KIB - 1], 0);
	}
	/* And the one beside it is none of that. */
	assert_int_equal(otte_batch_task(pair.batch, 1, &task), 0);
	assert_int_equal(task.code, 0);
	assert_memory_equal(pair.local_bytes + KIB, pair.remote_bytes + KIB, KIB);
	pair_close(&pair);
}

static void one_at_a_time(struct otte_config *config)
{
	config->window_requests = 1;
}

/*
 * Submit bytes of `value` and cancel at once; how many were cancelled. One whose effect is not known may
 * still arrive in a later round, with its own value.
 */
static unsigned cancel_some(struct pair *pair, uint8_t value)
{
	static struct otte_request requests[200];
	unsigned i, cancelled = 0;
	struct otte_task task;

	memset(pair->local_bytes, value, SIZE);
	for (i = 0; i < 200; i++)
		requests[i] = pair_request(pair, OTTE_WRITE, i * 20 * KIB, i * 20 * KIB, 16 * KIB);
	assert_int_equal(otte_batch_reset(pair->batch), 0);
	assert_int_equal(otte_batch_submit(pair->batch, requests, 200), 0);
	assert_int_equal(otte_batch_cancel(pair->batch), 0);
	/* Before anybody waits: what was not sent has ended. */
	for (i = 0; i < 200; i++) {
		assert_int_equal(otte_batch_task(pair->batch, i, &task), 0);
		assert_int_not_equal(task.state, OTTE_TASK_QUEUED);
	}
	assert_int_equal(otte_batch_wait(pair->batch, 30 * SECOND), 0);
	for (i = 0; i < 200; i++) {
		assert_int_equal(otte_batch_task(pair->batch, i, &task), 0);
		if (!task.code)
			continue;
		cancelled++;
		assert_int_equal(task.code, -ECANCELED);
		assert_int_equal(task.state, OTTE_TASK_CANCELLED);
		assert_int_equal(task.locally_drained, 1);
		if (task.remote_effect == OTTE_EFFECT_NONE)
			assert_int_not_equal(pair->remote_bytes[i * 20 * KIB], value);
	}
	return cancelled;
}

static void what_is_cancelled_before_it_is_sent_has_no_effect(void **state)
{
	unsigned round, cancelled = 0;
	struct pair pair;

	(void)state;
	open_filled(&pair, one_at_a_time);
	memset(pair.remote_bytes, 0, SIZE);
	/* A slow thread may find everything done; not a hundred times. */
	for (round = 0; round < 20 || (!cancelled && round < 100); round++)
		cancelled += cancel_some(&pair, (uint8_t)(round + 1));
	assert_true(cancelled > 0);
	while (pair_run(&pair, OTTE_WRITE, 0, 0, SIZE))
		usleep(1000);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, SIZE);
	pair_close(&pair);
}

static void a_block_list_moves_each_block_to_its_place(void **state)
{
	enum { BLOCKS = 100 };
	struct otte_block blocks[BLOCKS], far[2] = { { 0, 0 }, { 0, SIZE } };
	struct otte_request prototype;
	struct otte_block_list *list;
	struct otte_region_info row;
	struct pair pair;
	size_t count;
	unsigned i;

	(void)state;
	open_filled(&pair, NULL);
	for (i = 0; i < BLOCKS; i++) {
		blocks[i].local_offset = i * 8 * KIB;
		blocks[i].remote_offset = (BLOCKS - 1 - i) * 8 * KIB;
	}
	prototype = pair_request(&pair, OTTE_READ, 64, 32, 4 * KIB);
	assert_int_equal(otte_block_list_create(pair.requester, &prototype, blocks, BLOCKS, &list), 0);
	assert_int_equal(otte_engine_destroy(pair.requester), -EBUSY);
	assert_int_equal(otte_batch_submit_blocks(pair.batch, list, 10, BLOCKS - 10), 0);
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_int_equal(status_of(pair.batch).completed_prefix, BLOCKS - 10);
	for (i = 0; i < BLOCKS; i++) {
		const uint8_t *got = pair.local_bytes + 64 + i * 8 * KIB;

		if (i < 10)
			assert_int_equal(got[0] | got[1] | got[2], 0);
		else
			assert_memory_equal(got, pair.remote_bytes + 32 + (BLOCKS - 1 - i) * 8 * KIB,
					    4 * KIB);
		assert_int_equal(got[4 * KIB] | got[4 * KIB + 1], 0);
	}
	assert_int_equal(otte_batch_submit_blocks(pair.batch, list, BLOCKS, 1), -ERANGE);
	assert_int_equal(otte_batch_submit_blocks(pair.batch, list, SIZE_MAX, 2), -ERANGE);
	assert_int_equal(otte_block_list_destroy(list), 0);

	prototype.deadline_ns = 12345;
	assert_int_equal(otte_block_list_create(pair.requester, &prototype, blocks, 1, &list),
			 -EINVAL);
	assert_non_null(strstr(otte_error_text(), "must be OTTE_DEADLINE_DEFAULT or OTTE_DEADLINE_NONE"));
	prototype.deadline_ns = OTTE_DEADLINE_NONE;
	assert_int_equal(otte_segment_describe(pair.segment, 30 * SECOND, &row, 1, &count), 0);
	assert_int_equal(otte_block_list_create(pair.requester, &prototype, far, 2, &list), -ERANGE);
	assert_non_null(strstr(otte_error_text(), "1"));
	far[1].remote_offset = UINT64_MAX;
	assert_int_equal(otte_block_list_create(pair.requester, &prototype, far, 2, &list), -ERANGE);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_takes_as_many_requests_as_its_capacity),
		cmocka_unit_test(neighbours_are_merged_only_when_they_agree_in_all),
		cmocka_unit_test(the_first_run_of_failures_and_the_prefix_before_it_are_told),
		cmocka_unit_test(the_eventfd_is_readable_exactly_when_all_is_terminal),
		cmocka_unit_test(an_eventfd_asked_for_late_knows_what_is_finished),
		cmocka_unit_test(poll_alone_moves_a_batch_to_its_end),
		cmocka_unit_test(a_malformed_request_is_named_and_takes_none_with_it),
		cmocka_unit_test(a_full_budget_names_itself_and_is_given_back),
		cmocka_unit_test(a_request_that_is_overdue_moves_nothing),
		cmocka_unit_test(what_is_cancelled_before_it_is_sent_has_no_effect),
		cmocka_unit_test(a_block_list_moves_each_block_to_its_place),
	};

	return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
