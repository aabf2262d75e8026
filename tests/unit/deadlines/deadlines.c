/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests that wait for NICs, by their deadlines: who is asked for first, and who is refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/util.h"
#include "transport/rdma/peer.h"
#include "unit/multirail/room.h"
#include "seen.h"

#define WORKS_MAX 4
#define STEP (1u << 20)
#define ALL (WORKS_MAX * STEP)
/* Bytes per second of a NIC that was measured to be slow: STEP takes 84 s there. */
#define LINK_MBPS 1
#define SLOW (LINK_MBPS * 125000 / 10)

/* ---- What is asked for ---- */

static _Atomic unsigned asks;
static uint64_t asked[64];

void __real_otte_rdma_peer_say(struct otte_rdma_peer *peer,
			       const struct otte_rdma_message *message);
void __wrap_otte_rdma_peer_say(struct otte_rdma_peer *peer,
			       const struct otte_rdma_message *message);

void __wrap_otte_rdma_peer_say(struct otte_rdma_peer *peer, const struct otte_rdma_message *message)
{
	if (message->type == OTTE_RDMA_MSG_ASK && atomic_load(&asks) < ARRAY_SIZE(asked)) {
		asked[atomic_load(&asks)] = message->ask.offset;
		atomic_fetch_add(&asks, 1);
	}
	__real_otte_rdma_peer_say(peer, message);
}

/* Of two rails one is up. */
static int with_one_rail(void **state)
{
	atomic_store(&asks, 0);
	with_two_networks(state);
	ours[0]->ports[0].attr.state = IBV_PORT_DOWN;
	return 0;
}

static int at_the_end(void **state)
{
	otte_clock_fake(0);
	return nothing_is_left(state);
}

/* One is asked for at a time. */
static void use_fifo(struct otte_config *config)
{
	use_selection(config);
	config->rdma_grants = 1;
	config->rdma_link_rate_mbps = LINK_MBPS;
}

static void use_deadlines(struct otte_config *config)
{
	use_fifo(config);
	config->rdma_deadline_bw_arbitration = 1;
}

/* ---- Who is first ---- */

struct wish {
	uint64_t length;
	uint64_t seconds; /* until it is due; 0: never */
	uint8_t priority;
};

static struct otte_request request_of(const struct pair *pair, const struct wish *wish,
				      uint64_t offset)
{
	struct otte_request request = rdma_request(pair, OTTE_READ, offset, wish->length);

	request.priority = wish->priority;
	request.deadline_ns = OTTE_DEADLINE_NONE;
	if (wish->seconds)
		request.deadline_ns = otte_now_ns() + wish->seconds * NSEC_PER_SEC;
	return request;
}

/* All of them, while the thread does nothing. */
static void submit_together(struct pair *pair, const struct wish *wishes, size_t count)
{
	struct otte_rdma_worker *worker = &rdma_of(pair->requester)->workers[0];
	struct otte_request requests[WORKS_MAX];
	size_t i;

	for (i = 0; i < count; i++)
		requests[i] = request_of(pair, &wishes[i], i * STEP);
	while (!otte_rdma_take_turn(worker))
		usleep(WAIT_US);
	OK(otte_batch_reset(pair->batch));
	OK(otte_batch_submit(pair->batch, requests, count));
	otte_rdma_end_turn(worker);
	otte_rdma_wake(worker);
}

static int code_of(const struct pair *pair, uint32_t index)
{
	struct otte_task task;

	OK(otte_batch_task(pair->batch, index, &task));
	return task.code;
}

static void assert_order(void (*adjust)(struct otte_config *config), const struct wish *wishes,
			 size_t count, const unsigned *order)
{
	struct pair pair;
	uint32_t i;

	pair_open(&pair, ALL, adjust);
	submit_together(&pair, wishes, count);
	OK(otte_batch_wait(pair.batch, -1));
	assert_int_equal(atomic_load(&asks), count);
	for (i = 0; i < count; i++) {
		assert_int_equal(code_of(&pair, i), 0);
		assert_int_equal(asked[i], order[i] * STEP);
	}
	pair_close(&pair);
	atomic_store(&asks, 0);
}

static const struct wish four[] = {
	{ 4096, 4000, OTTE_PRIORITY_HIGH },
	{ 4096, 0, OTTE_PRIORITY_HIGH },
	{ 4096, 2000, OTTE_PRIORITY_HIGH },
	{ 4096, 3000, OTTE_PRIORITY_HIGH },
};

static const unsigned as_they_came[] = { 0, 1, 2, 3 };

static void what_is_due_first_goes_first(void **state)
{
	static const unsigned by_deadline[] = { 2, 3, 0, 1 };

	(void)state;
	assert_order(use_deadlines, four, 4, by_deadline);
}

static void switched_off_who_came_first_goes_first(void **state)
{
	(void)state;
	assert_order(use_fifo, four, 4, as_they_came);
}

static void use_unknown_rate(struct otte_config *config)
{
	use_deadlines(config);
	config->rdma_link_rate_mbps = 0;
}

/* The clock stands still, so nothing is measured. */
static void with_an_unknown_rate_who_came_first_goes_first(void **state)
{
	struct sim_port *port = &ours[1]->ports[0];

	(void)state;
	port->port_speed = 0;
	port->attr.active_width = port->attr.active_speed = 0;
	port->active_speed_ex = 0;
	otte_clock_fake(otte_now_ns());
	assert_order(use_unknown_rate, four, 4, as_they_came);
}

/* What it will take counts, and not only when it is due. */
static void what_takes_more_of_its_time_goes_first(void **state)
{
	static const struct wish wishes[] = {
		{ 4096, 2000, OTTE_PRIORITY_HIGH },
		{ STEP, 3000, OTTE_PRIORITY_HIGH },
	};
	static const unsigned order[] = { 1, 0 };

	(void)state;
	assert_order(use_deadlines, wishes, 2, order);
}

static void no_deadline_goes_before_a_higher_priority(void **state)
{
	static const struct wish wishes[] = {
		{ STEP, 1000, OTTE_PRIORITY_LOW },
		{ 4096, 4000, OTTE_PRIORITY_HIGH },
		{ 4096, 3000, OTTE_PRIORITY_HIGH },
		{ STEP, 900, OTTE_PRIORITY_LOW },
	};
	static const unsigned order[] = { 2, 1, 3, 0 };

	(void)state;
	assert_order(use_deadlines, wishes, 4, order);
}

/* ---- Who is refused ---- */

/* All that it was seen to move is as slow as can be. */
static void be_slow(const struct pair *pair)
{
	struct otte_nic_info rows[RAILS];

	measure(pair, 1, 1, NSEC_PER_SEC, 200);
	read_nics(pair, rows);
	assert_in_range(rows[1].transmit_rate, SLOW, SLOW + 1);
}

static void submit_one(struct pair *pair, uint64_t length, uint64_t seconds)
{
	const struct wish wish = { length, seconds, OTTE_PRIORITY_HIGH };
	struct otte_request request = request_of(pair, &wish, 0);

	OK(otte_batch_reset(pair->batch));
	OK(otte_batch_submit(pair->batch, &request, 1));
}

static void assert_refused(const struct pair *pair, uint32_t index)
{
	struct otte_failure failure;
	struct otte_task task;

	OK(otte_batch_task(pair->batch, index, &task));
	assert_int_equal(task.code, -ETIME);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
	OK(otte_batch_failure(pair->batch, &failure));
	assert_int_equal(failure.code, -ETIME);
	assert_non_null(strstr(failure.text, "it is due in "));
	assert_non_null(strstr(failure.text, ", and its NICs need "));
}

/* Long before it is over, and nothing is begun for it. */
static void what_cannot_be_done_in_time_is_refused(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, ALL, use_deadlines);
	be_slow(&pair);
	submit_one(&pair, 2 * STEP, 100);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_refused(&pair, 0);
	assert_int_equal(atomic_load(&asks), 0);
	assert_int_equal(pair_stats(pair.requester).rdma_slices, 0);
	assert_int_equal(pair_stats(pair.requester).rdma_qps, 0);
	submit_one(&pair, 2 * STEP, 1000);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(code_of(&pair, 0), 0);
	pair_close(&pair);
}

static void switched_off_nothing_is_refused(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, ALL, use_fifo);
	be_slow(&pair);
	submit_one(&pair, 2 * STEP, 100);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(code_of(&pair, 0), 0);
	pair_close(&pair);
}

/* By what the port says it would take 16.8 s. */
static void nothing_is_refused_by_a_rate_that_was_not_measured(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, ALL, use_deadlines);
	otte_clock_fake(otte_now_ns());
	submit_one(&pair, 2 * STEP, 10);
	OK(otte_batch_wait(pair.batch, -1));
	assert_int_equal(code_of(&pair, 0), 0);
	otte_clock_fake(0);
	pair_close(&pair);
}

/*
 * All of it, and not only what is under way; but for what is refused. 84 s are before the Low ones,
 * which take 84 and 10.
 */
static void what_waits_before_it_counts(void **state)
{
	static const struct wish wishes[] = {
		{ STEP / 2, 0, OTTE_PRIORITY_HIGH },
		{ STEP / 2, 0, OTTE_PRIORITY_HIGH },
		{ STEP, 130, OTTE_PRIORITY_LOW },
		{ STEP / 8, 130, OTTE_PRIORITY_LOW },
	};
	static const int codes[] = { 0, 0, -ETIME, 0 };
	struct pair pair;
	uint32_t i;

	(void)state;
	pair_open(&pair, ALL, use_deadlines);
	be_slow(&pair);
	submit_together(&pair, wishes, ARRAY_SIZE(wishes));
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	for (i = 0; i < ARRAY_SIZE(codes); i++)
		assert_int_equal(code_of(&pair, i), codes[i]);
	pair_close(&pair);
}

static bool is_asked_for(void *arg)
{
	(void)arg;
	return atomic_load(&asks) == 1;
}

static void what_is_under_way_counts(void **state)
{
	struct wish wish = { STEP, 130, OTTE_PRIORITY_HIGH };
	struct otte_request request;
	struct otte_batch *batch;
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, ALL, use_deadlines);
	be_slow(&pair);
	OK(otte_batch_create(pair.requester, 1, &batch));
	sim_progress_set(SIM_STEPPED, 0);
	submit_one(&pair, STEP, 0);
	assert_true(comes(is_asked_for, NULL));
	request = request_of(&pair, &wish, STEP);
	OK(otte_batch_submit(batch, &request, 1));
	OK(otte_batch_wait(batch, 30 * SECOND));
	OK(otte_batch_task(batch, 0, &task));
	assert_int_equal(task.code, -ETIME);
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(code_of(&pair, 0), 0);
	OK(otte_batch_destroy(batch));
	pair_close(&pair);
}

/* It goes in two stretches, and what is left after the first takes four minutes at least. */
static void what_has_begun_is_not_refused(void **state)
{
	const uint64_t length = 96u << 20;
	struct pair pair;

	(void)state;
	pair_open(&pair, length, use_deadlines);
	sim_progress_set(SIM_STEPPED, 0);
	submit_one(&pair, length, 100);
	assert_true(comes(is_asked_for, NULL));
	be_slow(&pair);
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 60 * SECOND));
	assert_int_equal(code_of(&pair, 0), 0);
	assert_int_equal(atomic_load(&asks), 2);
	pair_close(&pair);
}

static void use_leases(struct otte_config *config)
{
	use_deadlines(config);
	config->rdma_lease = 1;
}

/* Who submits it would post it himself. */
static void a_lone_request_by_a_lease_is_refused_too(void **state)
{
	const struct wish never = { 2 * STEP, 0, OTTE_PRIORITY_HIGH };
	const struct wish soon = { 2 * STEP, 100, OTTE_PRIORITY_HIGH };
	struct otte_nic_info before[RAILS], after[RAILS];
	struct otte_request request;
	struct pair pair;

	(void)state;
	pair_open(&pair, ALL, use_leases);
	request = request_of(&pair, &never, 0);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 20 * SECOND), 0);
	be_slow(&pair);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 20 * SECOND), 0);
	assert_int_equal(pair_stats(pair.requester).rdma_lease_requests, 2);
	read_nics(&pair, before);
	request = request_of(&pair, &soon, 0);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 20 * SECOND), 1);
	assert_refused(&pair, 0);
	read_nics(&pair, after);
	assert_int_equal(after[1].posted_bytes, before[1].posted_bytes);
	assert_int_equal(pair_stats(pair.requester).rdma_lease_requests, 2);
	pair_close(&pair);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, with_one_rail, at_the_end)
	const struct CMUnitTest tests[] = {
		TEST(what_is_due_first_goes_first),
		TEST(switched_off_who_came_first_goes_first),
		TEST(with_an_unknown_rate_who_came_first_goes_first),
		TEST(what_takes_more_of_its_time_goes_first),
		TEST(no_deadline_goes_before_a_higher_priority),
		TEST(what_cannot_be_done_in_time_is_refused),
		TEST(switched_off_nothing_is_refused),
		TEST(nothing_is_refused_by_a_rate_that_was_not_measured),
		TEST(what_waits_before_it_counts),
		TEST(what_is_under_way_counts),
		TEST(what_has_begun_is_not_refused),
		TEST(a_lone_request_by_a_lease_is_refused_too),
	};

	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
