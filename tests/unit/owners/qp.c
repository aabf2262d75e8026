/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ends.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static struct told told;

/* ---- What it is made as ---------------------------------------------------------------------- */

static struct ibv_qp_attr query(const struct otte_rdma_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(qp->context->verbs->query_qp(qp->native, &attr, -1, &init), 0);
	return attr;
}

static void a_connected_qp_has_its_parameters(void **state)
{
	struct otte_rdma_qp_params params = requester_params();
	const struct otte_rdma_qp_params sources = source_params();
	struct ibv_qp_attr attr;

	(void)state;
	params.timeout = 9;
	params.retry_count = 3;
	params.rnr_retry = 5;
	params.min_rnr_timer = 20;
	requester.qp = end_create_qp(&requester, &params);
	source.qp = end_create_qp(&source, &sources);
	attr = query(requester.qp);
	assert_int_equal(attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(end_status(&requester).state, OTTE_RDMA_QP_NEW);
	qps_connect(requester.qp, source.qp);
	attr = query(requester.qp);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.timeout, 9);
	assert_int_equal(attr.retry_cnt, 3);
	assert_int_equal(attr.rnr_retry, 5);
	assert_int_equal(attr.min_rnr_timer, 20);
	assert_int_equal(attr.path_mtu, IBV_MTU_4096);
	assert_int_equal(attr.dest_qp_num, source.qp->end.qpn);
	assert_int_equal(attr.qp_access_flags, 0);
	assert_int_equal(attr.ah_attr.grh.sgid_index, 1);
	assert_int_equal(attr.max_rd_atomic, requester.qp->max_rd_atomic);
	assert_int_equal(query(source.qp).qp_access_flags,
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(end_status(&requester).state, OTTE_RDMA_QP_READY);
}

static void the_path_has_the_smaller_mtu(void **state)
{
	static const struct {
		uint32_t bytes;
		enum ibv_mtu mtu;
	} mtus[] = {
		{ 256, IBV_MTU_256 },	{ 512, IBV_MTU_512 },	{ 1024, IBV_MTU_1024 },
		{ 1500, IBV_MTU_1024 }, { 2048, IBV_MTU_2048 }, { 8192, IBV_MTU_4096 },
	};
	const struct otte_rdma_qp_params params = requester_params();
	struct otte_rdma_qp_end peer;
	struct otte_rdma_qp *qp;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(mtus); i++) {
		qp = end_create_qp(&requester, &params);
		peer = qp->end;
		peer.address.mtu_bytes = mtus[i].bytes;
		assert_int_equal(otte_rdma_qp_connect(qp, &peer), 0);
		assert_int_equal(query(qp).path_mtu, mtus[i].mtu);
		assert_int_equal(otte_rdma_qp_destroy(qp), 0);
	}
}

static void reads_under_way_are_what_is_wanted_and_can_be(void **state)
{
	static const struct {
		uint32_t limit;
		uint8_t wanted, applied;
	} cases[] = {
		{ 16, 16, 16 }, { 4, 16, 4 }, { 16, 3, 3 }, { 0, 16, 1 },
		{ 16, 0, 0 },	{ 0, 0, 0 },  { 0, 1, 1 },  { 1000, 255, 255 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(otte_rdma_rd_atomic(cases[i].wanted, cases[i].limit),
				 cases[i].applied);
}

static void a_peer_is_sent_no_more_reads_than_it_answers(void **state)
{
	struct otte_rdma_qp_params params = requester_params();
	struct otte_rdma_qp_end peer;
	struct otte_rdma_qp *qp;

	(void)state;
	requester.context->limits.max_rd_atomic = 8;
	requester.context->limits.max_dest_rd_atomic = 0;
	qp = end_create_qp(&requester, &params);
	assert_int_equal(qp->end.max_dest_rd_atomic, 1);
	peer = qp->end;
	peer.max_dest_rd_atomic = 5;
	assert_int_equal(otte_rdma_qp_connect(qp, &peer), 0);
	assert_int_equal(query(qp).max_rd_atomic, 5);
	assert_int_equal(query(qp).max_dest_rd_atomic, 1);
	assert_int_equal(otte_rdma_qp_destroy(qp), 0);
	params.max_rd_atomic = 0;
	params.max_dest_rd_atomic = 0;
	qp = end_create_qp(&requester, &params);
	assert_int_equal(otte_rdma_qp_connect(qp, &peer), 0);
	assert_int_equal(query(qp).max_rd_atomic, 0);
	assert_int_equal(query(qp).max_dest_rd_atomic, 0);
	assert_int_equal(otte_rdma_qp_destroy(qp), 0);
}

static void refuse(const struct otte_rdma_qp_params *params, const char *text)
{
	struct otte_rdma_qp *qp;

	assert_int_equal(otte_rdma_qp_create(requester.lane, params, NULL, NULL, &qp), -EINVAL);
	assert_string_equal(otte_error_text(), text);
	assert_int_equal(sim_calls(SIM_CREATE_QP), 0);
}

static void a_parameter_that_cannot_be_is_named(void **state)
{
	struct otte_rdma_qp_params params;

	(void)state;
	requester.context->limits.max_qp_wr = 100;
#define REFUSE(field, value, text)           \
	do {                                 \
		params = requester_params(); \
		params.field = (value);      \
		refuse(&params, text);       \
	} while (0)
	REFUSE(max_send_wr, 0, "rdma: max_send_wr 0, not 1 to 100");
	REFUSE(max_send_wr, 101, "rdma: max_send_wr 101, not 1 to 100");
	REFUSE(max_recv_wr, 101, "rdma: max_recv_wr 101, not 0 to 100");
	REFUSE(signal_interval, 0, "rdma: signal_interval 0, not 1 to 4294967295");
	REFUSE(timeout, 32, "rdma: timeout 32, not 0 to 31");
	REFUSE(retry_count, 8, "rdma: retry_count 8, not 0 to 7");
	REFUSE(rnr_retry, 8, "rdma: rnr_retry 8, not 0 to 7");
	REFUSE(min_rnr_timer, 32, "rdma: min_rnr_timer 32, not 0 to 31");
	REFUSE(remote_access, IBV_ACCESS_REMOTE_ATOMIC, "rdma: remote access 0x8");
}

static void a_paused_route_takes_no_qp(void **state)
{
	const struct otte_rdma_qp_params params = requester_params();
	struct otte_rdma_qp *qp;

	(void)state;
	otte_rdma_context_pause(requester.context, -ENETDOWN, "down");
	assert_int_equal(otte_rdma_qp_create(requester.lane, &params, NULL, NULL, &qp), -ENETDOWN);
	assert_string_equal(otte_error_text(), "mlx5_0 port 1: down");
}

/* ---- Failures -------------------------------------------------------------------------------- */

static struct otte_rdma_qp *made;

static int make_qp(void)
{
	struct otte_rdma_qp_params params = requester_params();

	params.max_recv_wr = 4;
	return otte_rdma_qp_create(requester.lane, &params, NULL, NULL, &made);
}

static void no_qp_is_left(void)
{
	assert_int_equal(sim_counts(requester.device).qps, 0);
	assert_int_equal(sim_counts(requester.device).mrs, 2);
	assert_int_equal(lane_status(&requester).qps, 0);
}

static void what_fails_in_creation_leaves_nothing(void **state)
{
	static const struct {
		enum sim_verb verb;
		unsigned int after;
		const char *text;
	} calls[] = {
		{ SIM_REG_MR, 0, "mlx5_0: ibv_reg_mr: Bad address" },
		{ SIM_REG_MR, 1, "mlx5_0: ibv_reg_mr: Bad address" },
		{ SIM_CREATE_QP, 0, "mlx5_0: ibv_create_qp: Bad address" },
		{ SIM_MODIFY_QP, 0, "mlx5_0: ibv_modify_qp to INIT: Bad address" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		fail_call_after(calls[i].verb, calls[i].after, EFAULT);
		assert_int_equal(make_qp(), -EFAULT);
		assert_string_equal(otte_error_text(), calls[i].text);
		no_qp_is_left();
	}
}

static void each_allocation_of_creation_may_fail(void **state)
{
	(void)state;
	assert_true(fail_each_allocation(make_qp, no_qp_is_left) > 7);
	assert_int_equal(otte_rdma_qp_destroy(made), 0);
}

static void want_of_locked_memory_is_told_by_a_qp_too(void **state)
{
	const struct otte_rdma_qp_params params = requester_params();
	struct otte_rdma_qp *qp;

	(void)state;
	fail_call(SIM_REG_MR, ENOMEM);
	assert_int_equal(otte_rdma_qp_create(requester.lane, &params, NULL, NULL, &qp), -ENOMEM);
	assert_text("mlx5_0: ibv_reg_mr of 768 bytes: Cannot allocate memory");
}

static void what_fails_in_connecting_fences(void **state)
{
	static const char *const texts[] = { "mlx5_0: ibv_modify_qp to RTR: Invalid argument",
					     "mlx5_0: ibv_modify_qp to RTS: Invalid argument" };
	const struct otte_rdma_qp_params params = requester_params();
	unsigned int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		requester.fenced = 0;
		fail_call_after(SIM_MODIFY_QP, i + 1, EINVAL);
		requester.qp = end_create_qp(&requester, &params);
		assert_int_equal(otte_rdma_qp_connect(requester.qp, &requester.qp->end), -EINVAL);
		assert_string_equal(otte_error_text(), texts[i]);
		assert_fenced(&requester, -EINVAL, texts[i]);
		assert_int_equal(otte_rdma_qp_connect(requester.qp, &requester.qp->end),
				 -ESHUTDOWN);
		assert_int_equal(otte_rdma_qp_destroy(requester.qp), 0);
		requester.qp = NULL;
	}
}

static void a_qp_that_is_not_connected_posts_nothing(void **state)
{
	const struct otte_rdma_qp_params params = requester_params();
	const struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 1, 0);

	(void)state;
	requester.qp = end_create_qp(&requester, &params);
	assert_int_equal(end_post(&requester, &send, &told), -ESHUTDOWN);
	assert_text("is not in use: not connected");
	assert_int_equal(sim_calls(SIM_POST_SEND), 0);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void a_drained_qp_has_flushed_everything(void **state)
{
	struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 8, 1);

	(void)state;
	sim_progress_set(SIM_STEPPED, 0);
	assert_int_equal(end_post(&requester, &send, &told), 0);
	assert_false(otte_rdma_qp_is_drained(requester.qp));
	assert_int_equal(otte_rdma_qp_drain(requester.qp, -ETIMEDOUT, "too late"), 0);
	assert_int_equal(end_status(&requester).state, OTTE_RDMA_QP_DRAINING);
	sim_drain();
	end_poll(&requester);
	assert_int_equal(told.count, 1);
	assert_int_equal(told.outcome.code, -ECANCELED);
	assert_int_equal(told.outcome.evidence, OTTE_RDMA_COMPLETED);
	assert_true(otte_rdma_qp_is_drained(requester.qp));
	assert_fenced(&requester, -ETIMEDOUT, "too late");
	assert_int_equal(otte_rdma_qp_destroy(requester.qp), 0);
	requester.qp = NULL;
	assert_int_equal(lane_status(&requester).state, OTTE_RDMA_LANE_OPEN);
	assert_int_equal(lane_status(&requester).sends, 0);
}

static void a_drain_that_fails_is_a_fence(void **state)
{
	(void)state;
	fail_call(SIM_MODIFY_QP, EIO);
	assert_int_equal(otte_rdma_qp_drain(requester.qp, -ETIMEDOUT, "too late"), -EIO);
	assert_string_equal(otte_error_text(), "mlx5_0: ibv_modify_qp to ERR: Input/output error");
	assert_int_equal(end_status(&requester).state, OTTE_RDMA_QP_FENCED);
	assert_fenced(&requester, -ETIMEDOUT, "too late");
}

static void what_is_under_way_when_it_goes_is_told_as_drained(void **state)
{
	const struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 8, 1);

	(void)state;
	sim_progress_set(SIM_STEPPED, 0);
	assert_int_equal(end_post(&requester, &send, &told), 0);
	assert_int_equal(otte_rdma_qp_destroy(requester.qp), 0);
	requester.qp = NULL;
	assert_int_equal(told.count, 1);
	assert_int_equal(told.outcome.evidence, OTTE_RDMA_DRAINED);
	assert_int_equal(lane_status(&requester).state, OTTE_RDMA_LANE_CLOSED);
	assert_int_equal(lane_status(&requester).sends, 1);
	assert_int_equal(lane_status(&requester).qps, 0);
}

static void a_qp_that_cannot_be_destroyed_is_retained_with_its_charges(void **state)
{
	const struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 8, 1);
	unsigned long calls;

	(void)state;
	sim_progress_set(SIM_STEPPED, 0);
	assert_int_equal(end_post(&requester, &send, &told), 0);
	fail_call(SIM_DESTROY_QP, EBUSY);
	assert_int_equal(otte_rdma_qp_destroy(requester.qp), -EUCLEAN);
	assert_text(": Device or resource busy; retained");
	calls = sim_calls(SIM_DESTROY_QP);
	assert_int_equal(otte_rdma_qp_destroy(requester.qp), -EUCLEAN);
	assert_int_equal(sim_calls(SIM_DESTROY_QP), calls);
	assert_int_equal(told.count, 0);
	assert_charged(&requester, 1, 0);
	assert_int_equal(end_status(&requester).state, OTTE_RDMA_QP_RETAINED);
	assert_int_equal(end_post(&requester, &send, &told), -ESHUTDOWN);
	assert_int_equal(otte_rdma_lane_destroy(requester.lane), -EUCLEAN);
	assert_string_equal(otte_error_text(), "mlx5_0: 1 QPs of a lane are retained");
	assert_int_equal(sim_calls(SIM_DESTROY_CQ), 0);
	assert_int_equal(otte_rdma_mr_release(&requester.local), 0);
	assert_int_equal(otte_rdma_mr_release(&requester.parent), 0);
	assert_int_equal(otte_rdma_context_set_close(&requester.set), -EUCLEAN);
	assert_int_equal(requester.context->retained.qps, 1);
	assert_ptr_equal(requester.context->retained_qps, requester.qp);
	assert_int_equal(sim_counts(requester.device).qps, 1);
	assert_int_equal(sim_counts(requester.device).cqs, 2);
	assert_int_equal(sim_counts(requester.device).mrs, 1);
}

static void a_creation_that_cannot_be_undone_is_retained(void **state)
{
	const struct otte_rdma_qp_params params = requester_params();
	struct otte_rdma_qp *qp;

	(void)state;
	fail_call(SIM_MODIFY_QP, EINVAL);
	fail_call(SIM_DESTROY_QP, EBUSY);
	assert_int_equal(otte_rdma_qp_create(requester.lane, &params, NULL, NULL, &qp), -EUCLEAN);
	assert_text("ibv_modify_qp to INIT: Invalid argument; and then mlx5_0: ibv_destroy_qp");
	assert_int_equal(otte_rdma_lane_destroy(requester.lane), -EUCLEAN);
	assert_int_equal(requester.context->retained.qps, 1);
}

static void messages_that_cannot_be_released_are_retained(void **state)
{
	const struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 8, 1);
	const struct otte_rdma_qp *qp = requester.qp;

	(void)state;
	sim_progress_set(SIM_STEPPED, 0);
	assert_int_equal(end_post(&requester, &send, &told), 0);
	fail_call(SIM_DEREG_MR, EBUSY);
	assert_int_equal(otte_rdma_qp_destroy(requester.qp), -EUCLEAN);
	assert_text("mlx5_0: ibv_dereg_mr of 768 bytes: Device or resource busy; retained");
	assert_int_equal(told.count, 1);
	assert_int_equal(told.outcome.evidence, OTTE_RDMA_DRAINED);
	assert_ptr_equal(requester.context->retained_qps, qp);
	assert_non_null(qp->send.messages.pages);
	assert_int_equal(sim_counts(requester.device).qps, 0);
	assert_int_equal(otte_rdma_lane_destroy(requester.lane), 0);
	assert_int_equal(otte_rdma_mr_release(&requester.local), 0);
	assert_int_equal(otte_rdma_mr_release(&requester.parent), 0);
	assert_int_equal(otte_rdma_context_set_close(&requester.set), -EUCLEAN);
}

int run_qp_tests(void)
{
	const struct CMUnitTest tests[] = {
#define NONE(test) cmocka_unit_test_setup_teardown(test, ends_open, ends_finish)
#define PAIR(test) cmocka_unit_test_setup_teardown(test, ends_start, ends_finish)
#define KEPT(test) cmocka_unit_test_setup_teardown(test, ends_start, ends_forget)
		NONE(a_connected_qp_has_its_parameters),
		NONE(the_path_has_the_smaller_mtu),
		cmocka_unit_test(reads_under_way_are_what_is_wanted_and_can_be),
		NONE(a_peer_is_sent_no_more_reads_than_it_answers),
		NONE(a_parameter_that_cannot_be_is_named),
		NONE(a_paused_route_takes_no_qp),
		NONE(what_fails_in_creation_leaves_nothing),
		NONE(each_allocation_of_creation_may_fail),
		NONE(want_of_locked_memory_is_told_by_a_qp_too),
		NONE(what_fails_in_connecting_fences),
		NONE(a_qp_that_is_not_connected_posts_nothing),
		PAIR(a_drained_qp_has_flushed_everything),
		PAIR(a_drain_that_fails_is_a_fence),
		PAIR(what_is_under_way_when_it_goes_is_told_as_drained),
		KEPT(a_qp_that_cannot_be_destroyed_is_retained_with_its_charges),
		cmocka_unit_test_setup_teardown(a_creation_that_cannot_be_undone_is_retained,
						ends_open, ends_forget),
		KEPT(messages_that_cannot_be_released_are_retained),
	};

	return cmocka_run_group_tests_name("QP", tests, NULL, NULL);
}
