/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

#include <string.h>

#include "base/util.h"

#define ONE(test) cmocka_unit_test_setup_teardown(test, room_start_one, room_finish)
#define NONE(test) cmocka_unit_test_setup_teardown(test, room_start, room_finish)

/* ---- Ports ----------------------------------------------------------------------------------- */

static void an_event_of_another_port_is_acknowledged_and_pauses_none_but_its_own(void **state)
{
	struct sim_device *device = room_add("mlx5_0");

	(void)state;
	device->attr.phys_port_cnt = 2;
	room_open();
	room_rounds();
	assert_int_equal(room.set.count, 2);
	assert_int_equal(room.contexts[1]->port, 2);
	sim_port_set(device, 2, IBV_PORT_DOWN);
	room_rounds();
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
	assert_int_equal(state_of(1), OTTE_RDMA_CONTEXT_PAUSED);
	assert_told(0, 0, 0);
	assert_told(1, 1, 0);
	assert_int_equal(events_of(OTTE_RDMA_EVENT_OTHER_PORT), 1);
	assert_int_equal(events_of(OTTE_RDMA_EVENT_PORT_DOWN), 1);
	assert_acknowledged(2);
}

static void what_says_that_a_port_is_another_has_it_asked_at_once(void **state)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_PORT_ACTIVE, IBV_EVENT_GID_CHANGE,	    IBV_EVENT_LID_CHANGE,
		IBV_EVENT_SM_CHANGE,   IBV_EVENT_CLIENT_REREGISTER,
	};
	const struct otte_rdma_monitor_counts *counts = otte_rdma_monitor_counts(room.monitor);
	uint64_t queries = counts->queries;
	unsigned int i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		sim_raise_port(room.devices[0], 2, types[i]);
		room_rounds();
		assert_int_equal(counts->queries, queries + i);
		sim_raise_port(room.devices[0], 1, types[i]);
		room_rounds();
		assert_int_equal(counts->queries, queries + i + 1);
	}
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
	assert_told(0, 0, 0);
	assert_int_equal(events_of(OTTE_RDMA_EVENT_PORT_CHANGED), i);
	assert_int_equal(events_of(OTTE_RDMA_EVENT_OTHER_PORT), i);
	assert_acknowledged(2 * i);
}

static void what_means_nothing_here_is_acknowledged_too(void **state)
{
	const struct otte_rdma_monitor_counts *counts = otte_rdma_monitor_counts(room.monitor);
	uint64_t queries = counts->queries;

	(void)state;
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PATH_MIG);
	sim_raise_port(room.devices[0], 1, IBV_EVENT_SRQ_ERR);
	room_rounds();
	assert_int_equal(events_of(OTTE_RDMA_EVENT_IGNORED), 2);
	assert_int_equal(counts->queries, queries);
	assert_told(0, 0, 0);
	assert_acknowledged(2);
}

static void a_flood_holds_up_nobody_and_is_taken_in_the_end(void **state)
{
	unsigned int i, flood = 3 * OTTE_RDMA_EVENTS_A_ROUND;
	struct sim_device *second;

	(void)state;
	room_add("mlx5_0");
	second = room_add("mlx5_1");
	room_open();
	room_rounds();
	for (i = 0; i < flood; i++)
		sim_raise_port(room.devices[0], 2, IBV_EVENT_GID_CHANGE);
	sim_port_set(second, 1, IBV_PORT_DOWN);
	otte_rdma_monitor_round(room.monitor, 0);
	assert_int_equal(state_of(1), OTTE_RDMA_CONTEXT_PAUSED);
	assert_int_equal(all_events(), OTTE_RDMA_EVENTS_A_ROUND + 1);
	room_rounds();
	assert_acknowledged(flood + 1);
}

/* ---- CQs and QPs ----------------------------------------------------------------------------- */

static void fence_its_lane(const struct ibv_cq *cq)
{
	otte_rdma_lane_fence(cq->cq_context, -EIO, "an error of a CQ");
}

static void an_error_of_a_cq_names_its_lane(void **state)
{
	struct otte_rdma_cq_lane *lane = room_lane(0), *other = room_lane(0);
	struct otte_rdma_lane_status status;

	(void)state;
	room.at_cq = fence_its_lane;
	sim_cq_error(lane->receive_cq);
	room_rounds();
	assert_int_equal(room.told[0].cqs, 1);
	assert_ptr_equal(room.told[0].cq, lane->receive_cq);
	otte_rdma_lane_status(lane, &status);
	assert_int_equal(status.state, OTTE_RDMA_LANE_FAULTED);
	otte_rdma_lane_status(other, &status);
	assert_int_equal(status.state, OTTE_RDMA_LANE_OPEN);
	assert_int_equal(events_of(OTTE_RDMA_EVENT_CQ), 1);
	assert_acknowledged(1);
	assert_told(0, 0, 0);
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
	assert_int_equal(otte_rdma_lane_destroy(other), 0);
}

static unsigned int acknowledged_when_told;

static void note_acknowledged(const struct ibv_qp *qp)
{
	(void)qp;
	acknowledged_when_told = (unsigned int)sim_calls(SIM_ACK_ASYNC_EVENT);
}

static void a_qp_in_error_is_told_while_it_is_certain_to_be_there(void **state)
{
	struct otte_rdma_cq_lane *lane = room_lane(0);
	struct otte_rdma_qp *qp = room_qp(lane);

	(void)state;
	acknowledged_when_told = UINT32_MAX;
	room.at_qp = note_acknowledged;
	sim_qp_fatal(qp->native);
	room_rounds();
	assert_int_equal(room.told[0].qps, 1);
	assert_ptr_equal(room.told[0].qp, qp->native);
	assert_int_equal(acknowledged_when_told, 0);
	assert_int_equal(events_of(OTTE_RDMA_EVENT_QP), 1);
	assert_acknowledged(1);
	assert_told(0, 0, 0);
	assert_int_equal(otte_rdma_qp_destroy(qp), 0);
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
}

static void events_of_what_is_gone_are_nobodys(void **state)
{
	struct otte_rdma_cq_lane *lane = room_lane(0);
	struct otte_rdma_qp *qp = room_qp(lane);

	(void)state;
	sim_qp_fatal(qp->native);
	sim_cq_error(lane->send_cq);
	assert_int_equal(otte_rdma_qp_destroy(qp), 0);
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
	room_rounds();
	assert_int_equal(room.told[0].qps + room.told[0].cqs, 0);
	assert_acknowledged(0);
}

/* ---- Devices --------------------------------------------------------------------------------- */

static void a_fatal_event_is_for_good_and_others_are_still_taken(void **state)
{
	struct otte_rdma_cq_lane *lane = room_lane(0);
	struct otte_rdma_qp *qp = room_qp(lane);

	(void)state;
	sim_device_fatal(room.devices[0]);
	room_rounds();
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_FATAL);
	assert_told(0, 1, 0);
	assert_int_equal(room.told[0].code, -ENODEV);
	assert_string_equal(room.told[0].why, "mlx5_0 port 1: local catastrophic error");
	assert_non_null(strstr(room.log, "mlx5_0 port 1: local catastrophic error"));
	sim_qp_fatal(qp->native);
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ACTIVE);
	room_pass(NSEC_PER_SEC);
	room_pass(NSEC_PER_SEC);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_FATAL);
	assert_int_equal(room.told[0].qps, 1);
	assert_told(0, 1, 0);
	assert_acknowledged(3);
	assert_int_equal(otte_rdma_qp_destroy(qp), 0);
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
}

static void a_lost_consumer_fences_its_device_for_good(void **state)
{
	const struct otte_rdma_monitor_counts *counts;
	unsigned long gets;

	(void)state;
	room_add("mlx5_0");
	room_add("mlx5_1");
	room_open();
	room_rounds();
	counts = otte_rdma_monitor_counts(room.monitor);
	fail_call(SIM_GET_ASYNC_EVENT, 1, EIO);
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ACTIVE);
	room_rounds();
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_FATAL);
	assert_told(0, 1, 0);
	assert_string_equal(room.told[0].why, "mlx5_0 port 1: its events are lost: mlx5_0: "
					      "ibv_get_async_event: Input/output error");
	assert_non_null(strstr(room.log, "its events are lost"));
	assert_int_equal(counts->lost_consumers, 1);
	gets = sim_calls(SIM_GET_ASYNC_EVENT);
	assert_int_equal(gets, 1);
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
	room_pass(NSEC_PER_SEC);
	assert_int_equal(sim_calls(SIM_GET_ASYNC_EVENT), gets);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_FATAL);
	sim_port_set(room.devices[1], 1, IBV_PORT_DOWN);
	room_rounds();
	assert_int_equal(state_of(1), OTTE_RDMA_CONTEXT_PAUSED);
	assert_told(1, 1, 0);
	assert_int_equal(counts->lost_consumers, 1);
}

static void an_interrupted_get_is_no_loss(void **state)
{
	(void)state;
	fail_call(SIM_GET_ASYNC_EVENT, 1, EINTR);
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
	room_rounds();
	assert_int_equal(events_of(OTTE_RDMA_EVENT_PORT_DOWN), 1);
	assert_int_equal(otte_rdma_monitor_counts(room.monitor)->lost_consumers, 0);
	assert_acknowledged(1);
}

int run_event_tests(void)
{
	const struct CMUnitTest tests[] = {
		NONE(an_event_of_another_port_is_acknowledged_and_pauses_none_but_its_own),
		ONE(what_says_that_a_port_is_another_has_it_asked_at_once),
		ONE(what_means_nothing_here_is_acknowledged_too),
		NONE(a_flood_holds_up_nobody_and_is_taken_in_the_end),
		ONE(an_error_of_a_cq_names_its_lane),
		ONE(a_qp_in_error_is_told_while_it_is_certain_to_be_there),
		ONE(events_of_what_is_gone_are_nobodys),
		ONE(a_fatal_event_is_for_good_and_others_are_still_taken),
		NONE(a_lost_consumer_fences_its_device_for_good),
		ONE(an_interrupted_get_is_no_loss),
	};

	return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
