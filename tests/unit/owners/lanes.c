/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ends.h"

#include <poll.h>
#include <string.h>

#include "base/util.h"

static struct told told;

static struct otte_rdma_lane_params lane_params(bool events)
{
	struct otte_rdma_lane_params params = OTTE_RDMA_LANE_PARAMS;

	params.max_cqes = END_CQES;
	params.max_qps = 2;
	params.events = events;
	return params;
}

static struct otte_rdma_cq_lane *create_lane(bool events)
{
	const struct otte_rdma_lane_params params = lane_params(events);
	struct otte_rdma_cq_lane *lane;

	assert_int_equal(otte_rdma_lane_create(requester.context, &params, &lane), 0);
	return lane;
}

/* ---- Creation -------------------------------------------------------------------------------- */

static void parameters_that_cannot_be_are_refused(void **state)
{
	struct otte_rdma_lane_params params = lane_params(false);
	struct otte_rdma_cq_lane *lane;

	(void)state;
	params.max_cqes = requester.context->limits.max_cqe + 1;
	assert_int_equal(otte_rdma_lane_create(requester.context, &params, &lane), -EINVAL);
	assert_text("mlx5_0: max_cqes ");
	params.max_cqes = 0;
	assert_int_equal(otte_rdma_lane_create(requester.context, &params, &lane), -EINVAL);
	params = lane_params(false);
	params.max_qps = 0;
	assert_int_equal(otte_rdma_lane_create(requester.context, &params, &lane), -EINVAL);
	assert_string_equal(otte_error_text(), "mlx5_0: a lane for no QPs");
}

static struct otte_rdma_cq_lane *made;

static int make_lane(void)
{
	const struct otte_rdma_lane_params params = lane_params(true);

	return otte_rdma_lane_create(requester.context, &params, &made);
}

/* But the requester's. */
static void no_lane_is_left(void)
{
	assert_int_equal(sim_counts(requester.device).cqs, 2);
	assert_int_equal(sim_counts(requester.device).channels, 0);
}

static void what_fails_in_creation_leaves_nothing(void **state)
{
	static const struct {
		enum sim_verb verb;
		unsigned int after;
		const char *text;
	} calls[] = {
		{ SIM_CREATE_COMP_CHANNEL, 0, "mlx5_0: ibv_create_comp_channel: " },
		{ SIM_CREATE_CQ, 0, "mlx5_0: ibv_create_cq: " },
		{ SIM_CREATE_CQ, 1, "mlx5_0: ibv_create_cq: " },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		fail_call_after(calls[i].verb, calls[i].after, EMFILE);
		assert_int_equal(make_lane(), -EMFILE);
		assert_text(calls[i].text);
		no_lane_is_left();
	}
}

static void each_allocation_of_creation_may_fail(void **state)
{
	(void)state;
	assert_true(fail_each_allocation(make_lane, no_lane_is_left) > 1);
	assert_int_equal(otte_rdma_lane_destroy(made), 0);
}

static void a_lane_takes_so_many_qps(void **state)
{
	const struct otte_rdma_qp_params params = requester_params();
	struct otte_rdma_cq_lane *lane = create_lane(false);
	struct otte_rdma_qp *qps[2], *none;

	(void)state;
	assert_int_equal(otte_rdma_qp_create(lane, &params, NULL, NULL, &qps[0]), 0);
	assert_int_equal(otte_rdma_qp_create(lane, &params, NULL, NULL, &qps[1]), 0);
	assert_int_equal(otte_rdma_qp_create(lane, &params, NULL, NULL, &none), -EAGAIN);
	assert_string_equal(otte_error_text(), "mlx5_0: a lane has 2 QPs, which is all");
	assert_int_equal(sim_counts(requester.device).qps, 2);
	assert_int_equal(otte_rdma_lane_destroy(lane), -EBUSY);
	assert_string_equal(otte_error_text(), "mlx5_0: a lane has 2 QPs");
	assert_int_equal(otte_rdma_qp_destroy(qps[0]), 0);
	assert_int_equal(otte_rdma_qp_create(lane, &params, NULL, NULL, &qps[0]), 0);
	assert_int_equal(otte_rdma_qp_destroy(qps[0]), 0);
	assert_int_equal(otte_rdma_qp_destroy(qps[1]), 0);
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static void an_error_of_a_cq_fences_all_its_qps(void **state)
{
	const struct otte_rdma_qp_params params = requester_params();
	const struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 8, 1);
	struct otte_rdma_qp *sibling = end_create_qp(&requester, &params), *none;

	(void)state;
	sim_progress_set(SIM_STEPPED, 0);
	assert_int_equal(end_post(&requester, &send, &told), 0);
	sim_cq_error(requester.lane->send_cq);
	assert_int_equal(end_poll(&requester), -EIO);
	assert_text("mlx5_0: ibv_poll_cq: -");
	assert_int_equal(lane_status(&requester).state, OTTE_RDMA_LANE_FAULTED);
	assert_int_equal(requester.fenced, 2);
	assert_int_equal(end_poll(&requester), -EIO);
	assert_int_equal(requester.fenced, 2);
	assert_int_equal(end_status(&requester).state, OTTE_RDMA_QP_FENCED);
	assert_charged(&requester, 1, 0);
	assert_int_equal(told.count, 0);
	assert_int_equal(otte_rdma_qp_create(requester.lane, &params, NULL, NULL, &none), -EAGAIN);
	assert_text("mlx5_0: a lane takes no more QPs: mlx5_0: ibv_poll_cq: ");
	assert_int_equal(otte_rdma_qp_destroy(sibling), 0);
	assert_int_equal(otte_rdma_qp_destroy(requester.qp), 0);
	requester.qp = NULL;
	assert_int_equal(told.outcome.evidence, OTTE_RDMA_DRAINED);
	assert_int_equal(lane_status(&requester).sends, 1);
}

static void a_fence_of_the_route_is_told_once_by_the_next_poll(void **state)
{
	(void)state;
	otte_rdma_lane_fence(requester.lane, -ESTALE, "the GID is another");
	otte_rdma_lane_fence(requester.lane, -EIO, "and more");
	assert_int_equal(requester.fenced, 0);
	assert_fenced(&requester, -ESTALE, "the GID is another");
	assert_string_equal(lane_status(&requester).why, "the GID is another");
}

static void destroys_itself(struct otte_rdma_qp *qp, void *arg)
{
	unsigned int *count = arg;

	++*count;
	assert_int_equal(otte_rdma_qp_destroy(qp), 0);
}

static void who_is_told_of_a_fence_may_destroy_its_qp(void **state)
{
	const struct otte_rdma_qp_params params = requester_params();
	struct otte_rdma_cq_lane *lane = create_lane(false);
	struct otte_rdma_qp *qp;
	unsigned int count = 0;

	(void)state;
	assert_int_equal(otte_rdma_qp_create(lane, &params, destroys_itself, &count, &qp), 0);
	assert_int_equal(otte_rdma_qp_create(lane, &params, destroys_itself, &count, &qp), 0);
	otte_rdma_lane_fence(lane, -ESTALE, "the GID is another");
	assert_int_equal(otte_rdma_lane_poll(lane, 1), 0);
	assert_int_equal(count, 2);
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
}

/* rxe keeps the CQEs of a QP that is destroyed. */
static void late_cqes_of_a_destroyed_qp_are_nobodys_fault(void **state)
{
	const struct otte_rdma_qp_params params = requester_params();
	const struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 8, 1);
	struct otte_rdma_qp *sibling = end_create_qp(&requester, &params);
	struct otte_rdma_qp_status status;

	(void)state;
	requester.device->quirks = SIM_RXE_KEEPS_CQES;
	assert_int_equal(end_post(&requester, &send, &told), 0);
	assert_int_equal(otte_rdma_qp_destroy(requester.qp), 0);
	requester.qp = NULL;
	assert_int_equal(told.outcome.evidence, OTTE_RDMA_DRAINED);
	assert_int_equal(end_poll(&requester), 1);
	assert_int_equal(requester.lane->late_cqes, 1);
	assert_int_equal(told.count, 1);
	assert_int_equal(lane_status(&requester).state, OTTE_RDMA_LANE_CLOSED);
	assert_int_equal(lane_status(&requester).sends, 1);
	otte_rdma_qp_status(sibling, &status);
	assert_int_equal(status.state, OTTE_RDMA_QP_NEW);
	assert_int_equal(otte_rdma_qp_destroy(sibling), 0);
}

static void a_cqe_more_than_a_destroyed_qp_had_left_is_a_fault(void **state)
{
	const struct sim_fault twice = { .kind = SIM_FAULT_CQE_TWICE, .times = 1 };
	const struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 8, 1);

	(void)state;
	requester.device->quirks = SIM_RXE_KEEPS_CQES;
	sim_fault_arm(&twice);
	assert_int_equal(end_post(&requester, &send, &told), 0);
	assert_int_equal(otte_rdma_qp_destroy(requester.qp), 0);
	requester.qp = NULL;
	assert_int_equal(end_poll(&requester), 2);
	assert_int_equal(requester.lane->late_cqes, 1);
	assert_int_equal(lane_status(&requester).state, OTTE_RDMA_LANE_FAULTED);
}

static void a_poll_stops_at_its_budget(void **state)
{
	struct otte_rdma_window *window = source_bind(0, 64, OTTE_READ);
	struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 8, window->key);
	struct told tolds[3];
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++)
		assert_int_equal(end_post(&requester, &send, &tolds[i]), 0);
	assert_int_equal(otte_rdma_lane_poll(requester.lane, 2), 2);
	assert_int_equal(tolds[1].count, 1);
	assert_int_equal(tolds[2].count, 0);
	assert_int_equal(otte_rdma_lane_poll(requester.lane, 2), 1);
	assert_int_equal(otte_rdma_lane_poll(requester.lane, 2), 0);
	otte_rdma_qp_drain(source.qp, -ECANCELED, "done");
	assert_int_equal(otte_rdma_window_free(window), 0);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static bool is_readable(const struct otte_rdma_cq_lane *lane)
{
	struct pollfd fd = { .fd = otte_rdma_lane_fd(lane), .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

static void an_armed_lane_is_woken_by_a_cqe(void **state)
{
	const struct otte_rdma_qp_params params = requester_params();
	struct otte_rdma_cq_lane *lane = create_lane(true);
	const struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 8, 1);

	(void)state;
	requester.device->quirks = SIM_RXE_NO_QP_EVENTS;
	assert_int_equal(otte_rdma_qp_create(lane, &params, NULL, NULL, &requester.qp), 0);
	assert_int_equal(otte_rdma_qp_connect(requester.qp, &requester.qp->end), 0);
	assert_int_equal(otte_rdma_lane_heard(lane), 0);
	assert_int_equal(otte_rdma_lane_arm(lane), 0);
	assert_int_equal(otte_rdma_lane_poll(lane, 64), 0);
	assert_false(is_readable(lane));
	assert_int_equal(end_post(&requester, &send, &told), 0);
	assert_true(is_readable(lane));
	assert_int_equal(otte_rdma_lane_heard(lane), 0);
	assert_false(is_readable(lane));
	assert_int_equal(sim_counts(requester.device).events, 0);
	assert_int_equal(otte_rdma_lane_poll(lane, 64), 1);
	assert_int_equal(told.count, 1);
	assert_int_equal(otte_rdma_qp_destroy(requester.qp), 0);
	requester.qp = NULL;
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
	assert_int_equal(sim_counts(requester.device).channels, 0);
}

static void a_lane_that_cannot_be_armed_or_heard_is_at_fault(void **state)
{
	struct otte_rdma_cq_lane *lane = create_lane(true);

	(void)state;
	fail_call(SIM_REQ_NOTIFY_CQ, EIO);
	assert_int_equal(otte_rdma_lane_arm(lane), -EIO);
	assert_string_equal(lane->why, "mlx5_0: ibv_req_notify_cq: Input/output error");
	assert_int_equal(lane->state, OTTE_RDMA_LANE_FAULTED);
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
	lane = create_lane(true);
	fail_call(SIM_GET_CQ_EVENT, EIO);
	assert_int_equal(otte_rdma_lane_heard(lane), -EIO);
	assert_int_equal(lane->state, OTTE_RDMA_LANE_FAULTED);
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void a_lane_is_retained(enum sim_verb verb, uint32_t cqs, uint32_t channels)
{
	struct otte_rdma_cq_lane *lane = create_lane(true);
	unsigned long calls;

	fail_call(verb, EBUSY);
	assert_int_equal(otte_rdma_lane_destroy(lane), -EUCLEAN);
	assert_text(": Device or resource busy; retained");
	calls = sim_calls(SIM_DESTROY_CQ) + sim_calls(SIM_DESTROY_COMP_CHANNEL);
	assert_int_equal(otte_rdma_lane_destroy(lane), -EUCLEAN);
	assert_int_equal(sim_calls(SIM_DESTROY_CQ) + sim_calls(SIM_DESTROY_COMP_CHANNEL), calls);
	assert_int_equal(requester.context->retained.cqs, cqs);
	assert_int_equal(requester.context->retained.channels, channels);
	assert_ptr_equal(requester.context->retained_lanes, lane);
	assert_int_equal(otte_rdma_lane_destroy(requester.lane), 0);
	assert_int_equal(otte_rdma_mr_release(&requester.local), 0);
	assert_int_equal(otte_rdma_mr_release(&requester.parent), 0);
	assert_int_equal(otte_rdma_context_set_close(&requester.set), -EUCLEAN);
	assert_int_equal(sim_counts(requester.device).channels, 1);
	assert_int_equal(sim_counts(requester.device).cqs, cqs);
}

static void a_cq_that_cannot_be_destroyed_is_retained(void **state)
{
	(void)state;
	a_lane_is_retained(SIM_DESTROY_CQ, 1, 0);
}

static void a_channel_that_cannot_be_destroyed_is_retained(void **state)
{
	(void)state;
	a_lane_is_retained(SIM_DESTROY_COMP_CHANNEL, 0, 1);
}

int run_lane_tests(void)
{
	const struct CMUnitTest tests[] = {
#define NONE(test) cmocka_unit_test_setup_teardown(test, ends_open, ends_finish)
#define PAIR(test) cmocka_unit_test_setup_teardown(test, ends_start, ends_finish)
#define KEPT(test) cmocka_unit_test_setup_teardown(test, ends_open, ends_forget)
		NONE(parameters_that_cannot_be_are_refused),
		NONE(what_fails_in_creation_leaves_nothing),
		NONE(each_allocation_of_creation_may_fail),
		NONE(a_lane_takes_so_many_qps),
		PAIR(an_error_of_a_cq_fences_all_its_qps),
		PAIR(a_fence_of_the_route_is_told_once_by_the_next_poll),
		NONE(who_is_told_of_a_fence_may_destroy_its_qp),
		PAIR(late_cqes_of_a_destroyed_qp_are_nobodys_fault),
		PAIR(a_cqe_more_than_a_destroyed_qp_had_left_is_a_fault),
		PAIR(a_poll_stops_at_its_budget),
		NONE(an_armed_lane_is_woken_by_a_cqe),
		NONE(a_lane_that_cannot_be_armed_or_heard_is_at_fault),
		KEPT(a_cq_that_cannot_be_destroyed_is_retained),
		KEPT(a_channel_that_cannot_be_destroyed_is_retained),
	};

	return cmocka_run_group_tests_name("CQ lane", tests, NULL, NULL);
}
