/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests that end early: cancelled or overdue, before and after dispatch, and lanes that go down under
 * them. What is said of the remote effect and of the local range is compared with the bytes.
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

#define BYTES (32u << 20)
#define POISON 0xee
/* More than the sockets of one lane ever hold. */
#define LARGE (24u << 20)
/* Nobody answers, so it is waited for in full; long enough to be dispatched on a busy machine. */
#define DUE_NS (500 * MS)

struct setting {
	uint8_t *remote_bytes;
	int fd;
	struct remote source;
	struct proxy proxy;
	struct side side;
};

static void setting_open(struct setting *setting, const char *keys, bool proxied)
{
	memset(setting, 0, sizeof(*setting));
	setting->remote_bytes = share(&setting->fd, BYTES);
	inherit(setting->fd);
	remote_start(&setting->source, "", setting->fd, BYTES);
	if (proxied)
		proxy_start(&setting->proxy, setting->source.address);
	OK(side_open(&setting->side, keys, -1, BYTES));
	OK(side_connect(&setting->side,
			proxied ? setting->proxy.address : setting->source.address,
			OTTE_EPOCH_ANY, setting->source.region));
	assert_true(side_probe(&setting->side));
	memset(setting->side.bytes, POISON, BYTES);
	memset(setting->remote_bytes, 0x11, BYTES);
}

static void setting_close(struct setting *setting)
{
	OK(side_close(&setting->side));
	if (setting->proxy.child.pid)
		child_end(&setting->proxy.child);
	child_end(&setting->source.child);
	share_end(setting->remote_bytes, setting->fd, BYTES);
}

static struct otte_task task_of(const struct setting *setting, uint32_t index)
{
	struct otte_task task;

	OK(otte_batch_task(setting->side.batch, index, &task));
	return task;
}

static bool all(const uint8_t *bytes, uint64_t size, uint8_t value)
{
	return bytes[0] == value && !memcmp(bytes, bytes + 1, size - 1);
}

static unsigned long long served(struct setting *setting)
{
	child_ask(&setting->source.child, "stats");
	return (unsigned long long)child_number(&setting->source.child, "served_requests");
}

/* ---- Before dispatch ---- */

static void what_is_cancelled_before_dispatch_ends_at_once_without_effect(void **state)
{
	struct setting setting;
	struct otte_task task;
	uint32_t i;

	(void)state;
	setting_open(&setting, "window.requests=1 tcp.lanes=1", false);
	child_signal(&setting.source.child, SIGSTOP);
	OK(side_submit(&setting.side, OTTE_WRITE, 0, 0, 1 << 20, 8));
	OK(otte_batch_cancel(setting.side.batch));
	for (i = 1; i < 8; i++) {
		task = task_of(&setting, i);
		assert_int_equal(task.state, OTTE_TASK_CANCELLED);
		assert_int_equal(task.code, -ECANCELED);
		assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
		assert_int_equal(task.locally_drained, 1);
	}
	child_signal(&setting.source.child, SIGCONT);
	assert_int_equal(side_wait(&setting.side, 20 * SECOND).code, 0);
	assert_int_equal(task_of(&setting, 0).remote_effect, OTTE_EFFECT_UNKNOWN);
	/* Answers come in order: whatever was sent has been dealt with once this is answered. */
	assert_true(side_probe(&setting.side));
	assert_true(all(setting.remote_bytes + (1 << 20), 7 << 20, 0x11));
	setting_close(&setting);
}

static void what_is_overdue_before_dispatch_ends_with_etime_without_effect(void **state)
{
	struct setting setting;
	struct otte_task task;
	uint32_t i;

	(void)state;
	setting_open(&setting, "window.requests=1 tcp.lanes=1", false);
	child_signal(&setting.source.child, SIGSTOP);
	setting.side.due_ns = DUE_NS;
	OK(side_submit(&setting.side, OTTE_READ, 0, 0, 32 << 10, 256));
	setting.side.due_ns = 0;
	assert_int_equal(side_wait(&setting.side, 20 * SECOND).code, 0);
	/* The first one was dispatched. Its end makes room for no other, however many there are. */
	assert_int_equal(task_of(&setting, 0).code, -ETIMEDOUT);
	for (i = 1; i < 256; i++) {
		task = task_of(&setting, i);
		assert_int_equal(task.state, OTTE_TASK_TIMEOUT);
		assert_int_equal(task.code, -ETIME);
		assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
		assert_int_equal(task.locally_drained, 1);
	}
	assert_true(all(setting.side.bytes, 8 << 20, POISON));
	child_signal(&setting.source.child, SIGCONT);
	assert_true(side_probe(&setting.side));
	assert_true(all(setting.side.bytes + (1 << 20), 7 << 20, POISON));
	setting_close(&setting);
}

/* ---- After dispatch ---- */

static void a_drained_read_is_never_written_again(uint64_t length, bool cancel)
{
	struct setting setting;
	struct otte_task task;
	struct outcome outcome;

	setting_open(&setting, "tcp.lanes=1", false);
	child_signal(&setting.source.child, SIGSTOP);
	setting.side.due_ns = cancel ? 0 : DUE_NS;
	OK(side_submit(&setting.side, OTTE_READ, 1 << 20, 1 << 20, length, 1));
	setting.side.due_ns = 0;
	if (cancel)
		OK(otte_batch_cancel(setting.side.batch));
	assert_int_equal(side_wait(&setting.side, 20 * SECOND).code, 0);
	task = task_of(&setting, 0);
	assert_int_equal(task.code, cancel ? -ECANCELED : -ETIMEDOUT);
	assert_int_equal(task.state, cancel ? OTTE_TASK_CANCELLED : OTTE_TASK_TIMEOUT);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(task.locally_drained, 1);
	memset(setting.side.bytes, 0x77, BYTES);
	child_signal(&setting.source.child, SIGCONT);
	/* On the same lane behind it: the late payload has come and gone when this is answered. */
	outcome = side_run(&setting.side, OTTE_READ, 0, 0, 4096, 1);
	assert_int_equal(outcome.status.completed_prefix, 1);
	assert_true(all(setting.side.bytes, 4096, 0x11));
	assert_true(all(setting.side.bytes + 4096, BYTES - 4096, 0x77));
	setting_close(&setting);
}

static void a_read_that_timed_out_leaves_its_buffer_alone(void **state)
{
	(void)state;
	a_drained_read_is_never_written_again(100, false);
	a_drained_read_is_never_written_again(LARGE, false);
}

static void a_read_that_was_cancelled_leaves_its_buffer_alone(void **state)
{
	(void)state;
	a_drained_read_is_never_written_again(100, true);
	a_drained_read_is_never_written_again(LARGE, true);
}

/* Whether it was sent wholly or to a half: of unknown effect, and its buffer is free. */
static void a_drained_write_sends_nothing_that_is_written_later(uint64_t length)
{
	struct setting setting;
	struct otte_task task;
	uint64_t k;

	setting_open(&setting, "tcp.lanes=1", false);
	child_signal(&setting.source.child, SIGSTOP);
	setting.side.due_ns = DUE_NS;
	OK(side_submit(&setting.side, OTTE_WRITE, 0, 0, length, 1));
	setting.side.due_ns = 0;
	assert_int_equal(side_wait(&setting.side, 20 * SECOND).code, 0);
	task = task_of(&setting, 0);
	assert_int_equal(task.code, -ETIMEDOUT);
	assert_int_equal(task.state, OTTE_TASK_TIMEOUT);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(task.locally_drained, 1);
	memset(setting.side.bytes, 0x77, BYTES);
	child_signal(&setting.source.child, SIGCONT);
	/* This comes behind what the lane carried; or on a new lane, and then the old one ends. */
	assert_true(EVENTUALLY(side_run(&setting.side, OTTE_READ, 0, BYTES - 4096, 4096, 1)
				       .status.completed_prefix == 1));
	assert_true(EVENTUALLY((child_ask(&setting.source.child, "stats"),
				child_number(&setting.source.child, "lanes") == 1)));
	for (k = 0; k < length; k++)
		assert_true(setting.remote_bytes[k] == 0x11 || setting.remote_bytes[k] == POISON);
	assert_true(all(setting.remote_bytes + length, BYTES - length, 0x11));
	setting_close(&setting);
}

static void a_write_that_timed_out_sends_nothing_that_is_written_later(void **state)
{
	(void)state;
	a_drained_write_sends_nothing_that_is_written_later(100);
	a_drained_write_sends_nothing_that_is_written_later(LARGE);
}

/* ---- Lanes that go down ---- */

/* The lane that an idle peer's next request takes, as the proxy numbers it: one that swallows it. */
static unsigned freeze_lanes(struct setting *setting, unsigned how)
{
	child_ask(&setting->proxy.child, "freeze 1 %u", how);
	child_ask(&setting->proxy.child, "freeze 2 %u", how);
	return 2;
}

/* Which of the two lanes has taken more than its hello since `before`. */
static unsigned busy_lane(struct setting *setting, const long long before[2])
{
	unsigned lane;

	for (;;) {
		for (lane = 1; lane <= 2; lane++) {
			child_ask(&setting->proxy.child, "held %u", lane);
			if (child_number(&setting->proxy.child, "held") > before[lane - 1])
				return lane;
		}
		nap();
	}
}

static void held(struct setting *setting, long long bytes[2])
{
	unsigned lane;

	for (lane = 1; lane <= 2; lane++) {
		child_ask(&setting->proxy.child, "held %u", lane);
		bytes[lane - 1] = child_number(&setting->proxy.child, "held");
	}
}

/* Submit one request that gets stuck on a lane, then drop that lane and let the other one go on. */
static struct outcome lose_lane_under(struct setting *setting, uint8_t op, unsigned frozen)
{
	long long before[2];
	unsigned lane;

	held(setting, before);
	freeze_lanes(setting, frozen);
	OK(side_submit(&setting->side, op, 0, 0, 4096, 1));
	lane = busy_lane(setting, before);
	if (!(frozen & 2))
		assert_true(EVENTUALLY(served(setting) > 2));
	child_ask(&setting->proxy.child, "drop %u", lane);
	child_ask(&setting->proxy.child, "thaw %u", 3 - lane);
	return side_wait(&setting->side, 20 * SECOND);
}

static void a_read_whose_lane_is_lost_is_sent_again_within_its_budget(void **state)
{
	struct setting setting;
	struct outcome outcome;

	(void)state;
	setting_open(&setting, "tcp.lanes=2", true);
	outcome = lose_lane_under(&setting, OTTE_READ, 1);
	assert_int_equal(outcome.code, 0);
	assert_int_equal(outcome.status.completed_prefix, 1);
	assert_true(all(setting.side.bytes, 4096, 0x11));
	assert_int_equal(side_stats(&setting.side).retries, 1);
	/* The lane comes back by itself. */
	assert_true(EVENTUALLY(side_stats(&setting.side).lanes == 2));
	assert_true(side_probe(&setting.side));
	setting_close(&setting);
}

static void a_read_without_a_retry_budget_fails_with_its_lane(void **state)
{
	struct setting setting;
	struct outcome outcome;

	(void)state;
	setting_open(&setting, "tcp.lanes=2 retry.budget=0", true);
	outcome = lose_lane_under(&setting, OTTE_READ, 1);
	assert_int_equal(outcome.code, 0);
	assert_int_equal(outcome.failure.code, -ECONNRESET);
	assert_int_equal(outcome.failure.locally_drained, 1);
	assert_int_equal(side_stats(&setting.side).retries, 0);
	assert_true(side_probe(&setting.side));
	setting_close(&setting);
}

static void a_write_whose_lane_is_lost_is_of_unknown_effect_and_never_replayed(void **state)
{
	struct setting setting;
	struct outcome outcome;

	(void)state;
	/* Its receipt is lost. */
	setting_open(&setting, "tcp.lanes=2 retry.budget=16", true);
	outcome = lose_lane_under(&setting, OTTE_WRITE, 1);
	assert_int_equal(outcome.failure.code, -ECONNRESET);
	assert_int_equal(outcome.failure.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(outcome.failure.locally_drained, 1);
	assert_int_equal(served(&setting), 3);
	assert_true(all(setting.remote_bytes, 4096, POISON));
	assert_int_equal(side_run(&setting.side, OTTE_READ, 0, 0, 1, 1).status.completed_prefix, 1);
	assert_true(EVENTUALLY(served(&setting) == 4));
	setting_close(&setting);
	/* It never arrived. */
	setting_open(&setting, "tcp.lanes=2 retry.budget=16", true);
	outcome = lose_lane_under(&setting, OTTE_WRITE, 3);
	assert_int_equal(outcome.failure.code, -ECONNRESET);
	assert_int_equal(outcome.failure.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(side_run(&setting.side, OTTE_READ, 0, 0, 1, 1).status.completed_prefix, 1);
	assert_true(EVENTUALLY(served(&setting) == 3));
	assert_true(all(setting.remote_bytes, 4096, 0x11));
	setting_close(&setting);
}

/* ---- What was sent before an early end, and is on its way yet ---- */

/*
 * A WRITE ends early while the network has all of it, and its lane is held. A later one to the same range goes by the
 * other lane; only when that is complete the network lets go of the first.
 */
static void an_ended_write_stays_behind_a_later_one(bool cancel)
{
	long long before[2];
	struct setting setting;
	struct outcome outcome;
	unsigned lane;

	/* One that is cancelled waits for its answer, until its lane is given up for the lack of it. */
	setting_open(&setting, cancel ? "tcp.lanes=2 tcp.stall_timeout_ms=500" :
					"tcp.lanes=2 tcp.stall_timeout_ms=30000", true);
	held(&setting, before);
	freeze_lanes(&setting, 2);
	setting.side.due_ns = cancel ? 0 : DUE_NS;
	OK(side_submit(&setting.side, OTTE_WRITE, 0, 0, 4096, 1));
	setting.side.due_ns = 0;
	lane = busy_lane(&setting, before);
	if (cancel)
		OK(otte_batch_cancel(setting.side.batch));
	outcome = side_wait(&setting.side, 60 * SECOND);
	assert_int_equal(outcome.failure.code, cancel ? -ECANCELED : -ETIMEDOUT);
	assert_int_equal(outcome.failure.remote_effect, OTTE_EFFECT_UNKNOWN);
	child_ask(&setting.proxy.child, "thaw %u", 3 - lane);
	memset(setting.side.bytes, 0x77, BYTES);
	/* On a busy machine so short a timeout may end a lane that only is slow. */
	assert_true(EVENTUALLY(side_run(&setting.side, OTTE_WRITE, 0, 0, 4096, 1)
				       .status.completed_prefix == 1));
	assert_true(all(setting.remote_bytes, 4096, 0x77));
	child_ask(&setting.proxy.child, "thaw %u", lane);
	/* The lane comes back, and that in whose place it comes is gone: so what went by it has come, if it does. */
	assert_true(EVENTUALLY(side_stats(&setting.side).lanes == 2));
	assert_true(EVENTUALLY((child_ask(&setting.source.child, "stats"),
				child_number(&setting.source.child, "lanes") == 2)));
	assert_true(all(setting.remote_bytes, 4096, 0x77));
	setting_close(&setting);
}

static void a_write_that_timed_out_is_not_applied_behind_a_later_one(void **state)
{
	(void)state;
	an_ended_write_stays_behind_a_later_one(false);
}

static void a_write_that_was_cancelled_is_not_applied_behind_a_later_one(void **state)
{
	(void)state;
	an_ended_write_stays_behind_a_later_one(true);
}

/* Wholly sent, it ends with the peer's answer, which says that all of it has arrived. */
static void a_write_that_was_cancelled_ends_with_its_answer(void **state)
{
	struct setting setting;
	struct outcome outcome;
	long long before[2];

	(void)state;
	setting_open(&setting, "tcp.lanes=2", true);
	held(&setting, before);
	freeze_lanes(&setting, 2);
	OK(side_submit(&setting.side, OTTE_WRITE, 0, 0, 4096, 1));
	busy_lane(&setting, before);
	OK(otte_batch_cancel(setting.side.batch));
	assert_int_equal(task_of(&setting, 0).state, OTTE_TASK_DISPATCHED);
	child_ask(&setting.proxy.child, "thaw 1");
	child_ask(&setting.proxy.child, "thaw 2");
	outcome = side_wait(&setting.side, 60 * SECOND);
	assert_int_equal(outcome.failure.code, -ECANCELED);
	assert_true(all(setting.remote_bytes, 4096, POISON));
	assert_int_equal(side_stats(&setting.side).lanes, 2);
	setting_close(&setting);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_cancelled_before_dispatch_ends_at_once_without_effect),
		cmocka_unit_test(what_is_overdue_before_dispatch_ends_with_etime_without_effect),
		cmocka_unit_test(a_read_that_timed_out_leaves_its_buffer_alone),
		cmocka_unit_test(a_read_that_was_cancelled_leaves_its_buffer_alone),
		cmocka_unit_test(a_write_that_timed_out_sends_nothing_that_is_written_later),
		cmocka_unit_test(a_read_whose_lane_is_lost_is_sent_again_within_its_budget),
		cmocka_unit_test(a_read_without_a_retry_budget_fails_with_its_lane),
		cmocka_unit_test(a_write_whose_lane_is_lost_is_of_unknown_effect_and_never_replayed),
		cmocka_unit_test(a_write_that_timed_out_is_not_applied_behind_a_later_one),
		cmocka_unit_test(a_write_that_was_cancelled_is_not_applied_behind_a_later_one),
		cmocka_unit_test(a_write_that_was_cancelled_ends_with_its_answer),
	};
	int status;

	if (side_role(argc, argv, &status) || proxy_role(argc, argv, &status))
		return status;
	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests_name("cancel", tests, NULL, NULL);
}
