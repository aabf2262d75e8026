/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lanes that take no more queue pairs, and those that live on them meanwhile. */
#include "base/clock.h"
#include "transport/rdma/nic_lanes.h"
#include "room.h"

/* A new queue pair, of whose bind nothing is heard, or nothing that could be; then it goes. */
static void lose_a_bind(struct pair *pair, enum sim_fault_kind how)
{
	unsigned id = strike(how, nics[SOURCE][0], 1ull << 40);

	assert_int_equal(read_by_rdma(pair, 8192), -ECONNRESET);
	assert_int_equal(sim_fault_hits(id), 1);
}

static unsigned cqs_wanted;

static bool has_cqs(void *arg)
{
	(void)arg;
	return sim_counts(nics[SOURCE][0]).cqs == cqs_wanted;
}

static bool has_one_qp(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).rdma_qps == 1;
}

static bool has_two_cqs(void)
{
	cqs_wanted = 2;
	return comes(has_cqs, NULL);
}

static bool has_four_cqs(void)
{
	cqs_wanted = 4;
	return comes(has_cqs, NULL);
}

/*
 * `other` keeps its queue pair on the old lane, which it goes on using, and with which the lane
 * goes.
 */
static void a_lost_completion_closes_no_nic(void **state)
{
	struct pair pair, other;
	uint64_t since_ns;
	unsigned i, tries;
	bool woken;

	(void)state;
	pair_open(&pair, SIZE, use_short_control);
	pair_join(&other, &pair, use_short_control);
	assert_int_equal(read_by_rdma(&other, 0), 0);
	lose_a_bind(&pair, SIM_FAULT_CQE_LOST);
	assert_true(comes(has_one_qp, &pair));
	assert_int_equal(read_by_rdma(&pair, 8192), 0);
	assert_true(has_four_cqs());
	/* Its completions wake the thread as before, which else would look each second. */
	for (tries = 0, woken = false; tries < 10 && !woken; tries++) { /* or it is held up */
		since_ns = otte_now_ns();
		for (i = 0; i < 5; i++)
			assert_int_equal(read_by_rdma(&other, 0), 0);
		woken = otte_now_ns() - since_ns < 2 * SECOND;
	}
	assert_true(woken);
	assert_int_equal(pair_stats(pair.source).rdma_qps, 2);
	assert_int_equal(pair_stats(pair.source).retained, 0);
	pair_close_requester(&other);
	assert_true(has_two_cqs());
	assert_int_equal(read_by_rdma(&pair, 8192), 0);
	pair_close(&pair);
}

/*
 * As many as may drain are held by one pair each: the next is refused by name, until one of them
 * goes.
 */
static void few_lanes_drain_at_a_time(void **state)
{
	struct pair pair, others[OTTE_RDMA_DRAINING_MAX];
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	for (i = 0; i < OTTE_RDMA_DRAINING_MAX; i++) {
		pair_join(&others[i], &pair, use_rdma);
		assert_int_equal(read_by_rdma(&others[i], 0), 0);
		lose_a_bind(&pair, SIM_FAULT_CQE_WR_ID);
		cqs_wanted = 2 * (i + 1);
		assert_true(comes(has_cqs, NULL));
		while (pair_stats(pair.source).rdma_qps != i + 1)
			usleep(1000);
	}
	assert_int_equal(read_by_rdma(&pair, 0), -EAGAIN);
	assert_int_equal(run_over(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 4096).transport,
			 OTTE_TRANSPORT_TCP);
	for (i = 0; i < OTTE_RDMA_DRAINING_MAX; i++)
		assert_int_equal(read_by_rdma(&others[i], 0), 0);
	pair_close_requester(&others[0]);
	assert_true(comes(works_by_rdma, &pair));
	for (i = 1; i < OTTE_RDMA_DRAINING_MAX; i++)
		pair_close_requester(&others[i]);
	assert_true(has_two_cqs());
	pair_close(&pair);
}

static unsigned long created;

static bool works_on_a_new_lane(void *arg)
{
	return works_by_rdma(arg) && sim_calls(SIM_CREATE_CQ) == created + 2;
}

/* Whoever is on a lane that cannot be armed hears of it, and is on another one then. */
static void a_lane_that_is_at_fault_is_replaced(void **state)
{
	struct pair pair;
	unsigned id;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	created = sim_calls(SIM_CREATE_CQ);
	id = fail_call(SIM_REQ_NOTIFY_CQ, nics[SOURCE][0], 1);
	assert_true(comes(works_on_a_new_lane, &pair));
	assert_int_equal(sim_fault_hits(id), 1);
	assert_true(has_two_cqs());
	assert_int_equal(pair_stats(pair.source).retained, 0);
	pair_close(&pair);
}

int run_lane_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_lost_completion_closes_no_nic, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(few_lanes_drain_at_a_time, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_lane_that_is_at_fault_is_replaced, room_start,
						nothing_is_left),
	};

	return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
