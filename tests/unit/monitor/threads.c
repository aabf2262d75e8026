/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The monitor's own thread, beside those that destroy what its events are about. */
#include "room.h"

#include <pthread.h>
#include <sched.h>

#include "base/thread.h"
#include "base/util.h"

#define ONE(test) cmocka_unit_test_setup_teardown(test, room_start_one, room_finish)
#define NONE(test) cmocka_unit_test_setup_teardown(test, room_start, room_finish)

/* What another thread brings about, in good time. */
#define WAIT_WHILE(condition)                                          \
	do {                                                           \
		uint64_t until_ns = otte_now_ns() + 60 * NSEC_PER_SEC; \
                                                                       \
		while ((condition) && otte_now_ns() < until_ns)        \
			sched_yield();                                 \
		assert_false(condition);                               \
	} while (0)

static _Atomic bool destroyed, destroyed_too_early;
static uint64_t begun_ns;
static enum sim_verb destruction;

static void start(void)
{
	otte_clock_fake(0);
	begun_ns = otte_now_ns();
	atomic_store(&destroyed, false);
	atomic_store(&destroyed_too_early, false);
	assert_int_equal(otte_rdma_monitor_start(room.monitor), 0);
}

static void stop(void)
{
	otte_rdma_monitor_stop(room.monitor);
	room.monitor = NULL;
}

/* ---- An event during a destruction ----------------------------------------------------------- */

/* By the monitor's thread: the event is taken, and somebody is in the middle of the destruction. */
static void fence_while_it_is_destroyed(struct otte_rdma_cq_lane *lane)
{
	while (!sim_calls(destruction))
		sched_yield();
	otte_thread_sleep(20 * NSEC_PER_MSEC);
	atomic_store(&destroyed_too_early, atomic_load(&destroyed));
	otte_rdma_lane_fence(lane, -EIO, "an event of it");
}

static void at_qp(const struct ibv_qp *qp)
{
	fence_while_it_is_destroyed(qp->send_cq->cq_context);
}

static void at_cq(const struct ibv_cq *cq)
{
	fence_while_it_is_destroyed(cq->cq_context);
}

static void a_qp_is_destroyed_when_its_event_is_over(void **state)
{
	struct otte_rdma_cq_lane *lane = room_lane(0);
	struct otte_rdma_qp *qp = room_qp(lane);
	struct otte_rdma_lane_status status;

	(void)state;
	room.at_qp = at_qp;
	destruction = SIM_DESTROY_QP;
	start();
	sim_qp_fatal(qp->native);
	WAIT_WHILE(!atomic_load(&room.told[0].qps));
	assert_int_equal(otte_rdma_qp_destroy(qp), 0);
	atomic_store(&destroyed, true);
	stop();
	assert_false(atomic_load(&destroyed_too_early));
	otte_rdma_lane_status(lane, &status);
	assert_int_equal(status.state, OTTE_RDMA_LANE_FAULTED);
	assert_int_equal(sim_calls(SIM_ACK_ASYNC_EVENT), 1);
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
}

static void a_lane_is_destroyed_when_its_event_is_over(void **state)
{
	struct otte_rdma_cq_lane *lane = room_lane(0);

	(void)state;
	room.at_cq = at_cq;
	destruction = SIM_DESTROY_CQ;
	start();
	sim_cq_error(lane->send_cq);
	WAIT_WHILE(!atomic_load(&room.told[0].cqs));
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
	atomic_store(&destroyed, true);
	stop();
	assert_false(atomic_load(&destroyed_too_early));
	assert_int_equal(sim_calls(SIM_ACK_ASYNC_EVENT), 1);
}

/* ---- All at once ----------------------------------------------------------------------------- */

static void fail_and_destroy(struct otte_rdma_cq_lane *lane)
{
	const struct otte_rdma_qp_params params = OTTE_RDMA_QP_PARAMS;
	struct otte_rdma_qp *qp;

	if (otte_rdma_qp_create(lane, &params, NULL, NULL, &qp))
		return;
	sim_qp_fatal(qp->native);
	assert_int_equal(otte_rdma_qp_destroy(qp), 0);
}

static void events_come_while_qps_go(void **state)
{
	const struct otte_rdma_monitor_counts *counts;
	struct otte_rdma_cq_lane *lane;
	unsigned int i;
	uint64_t ticks;

	(void)state;
	room_add("mlx5_0");
	room.interval_ns = 5 * NSEC_PER_MSEC;
	room_open();
	lane = room_lane(0);
	counts = otte_rdma_monitor_counts(room.monitor);
	start();
	for (i = 0; i < 500; i++) {
		fail_and_destroy(lane);
		if (i % 16 == 0)
			sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
		if (i % 8 == 0)
			sim_raise_port(room.devices[0], 2, IBV_EVENT_PORT_ERR);
		otte_rdma_monitor_ask(room.monitor);
	}
	WAIT_WHILE(sim_counts(NULL).events || events_of(OTTE_RDMA_EVENT_PORT_DOWN) < 32 ||
		   events_of(OTTE_RDMA_EVENT_OTHER_PORT) < 63);
	ticks = atomic_load(&counts->ticks);
	WAIT_WHILE(atomic_load(&counts->ticks) < ticks + 2);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
	assert_int_equal(counts->pauses, counts->recoveries);
	assert_int_equal(room.told[0].resumed, counts->recoveries);
	assert_int_equal(room.told[0].fenced, counts->pauses);
	assert_int_equal(events_of(OTTE_RDMA_EVENT_PORT_DOWN), 32);
	assert_int_equal(events_of(OTTE_RDMA_EVENT_OTHER_PORT), 63);
	assert_int_equal(events_of(OTTE_RDMA_EVENT_QP), room.told[0].qps);
	assert_int_equal(all_events(), sim_calls(SIM_ACK_ASYNC_EVENT));
	stop();
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
}

static _Atomic bool quiet;

static void *raise_events(void *arg)
{
	(void)arg;
	while (!atomic_load(&quiet)) {
		sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
		sched_yield();
	}
	return NULL;
}

static void it_stops_while_events_come(void **state)
{
	pthread_t raiser;

	(void)state;
	atomic_store(&quiet, false);
	start();
	assert_int_equal(pthread_create(&raiser, NULL, raise_events, NULL), 0);
	WAIT_WHILE(!atomic_load(&room.told[0].resumed));
	stop();
	atomic_store(&quiet, true);
	pthread_join(raiser, NULL);
	assert_true(room.told[0].fenced > 0);
}

static void its_thread_ticks_by_itself(void **state)
{
	const struct otte_rdma_monitor_counts *counts;

	(void)state;
	room_add("mlx5_0");
	room.interval_ns = 5 * NSEC_PER_MSEC;
	room_open();
	counts = otte_rdma_monitor_counts(room.monitor);
	start();
	WAIT_WHILE(atomic_load(&counts->ticks) < 4);
	assert_true(otte_now_ns() - begun_ns >= 15 * NSEC_PER_MSEC);
	assert_true(atomic_load(&counts->queries) >= 3);
	stop();
}

int run_thread_tests(void)
{
	const struct CMUnitTest tests[] = {
		ONE(a_qp_is_destroyed_when_its_event_is_over),
		ONE(a_lane_is_destroyed_when_its_event_is_over),
		NONE(events_come_while_qps_go),
		ONE(it_stops_while_events_come),
		NONE(its_thread_ticks_by_itself),
	};

	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
