/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Queue pairs: which can be had, how they move, and what is refused its end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/util.h"
#include "ends.h"
#include "suites.h"

static struct ibv_qp *qp;

static int start(void **state)
{
	ends_start(state);
	qp = end_create_qp(&here);
	return 0;
}

static int finish(void **state)
{
	assert_int_equal(here.verbs->destroy_qp(qp), 0);
	return ends_finish(state);
}

/* ---- Create ---------------------------------------------------------------------------------- */

static void refused(struct ibv_qp_init_attr attr, int error)
{
	errno = 0;
	assert_null(here.verbs->create_qp(here.pd, &attr));
	assert_int_equal(errno, error);
}

static void only_what_the_device_can_is_created(void **state)
{
	const struct ibv_qp_init_attr good = {
		.send_cq = here.sends,
		.recv_cq = here.recvs,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_init_attr attr;

	(void)state;
	attr = good;
	attr.qp_type = IBV_QPT_UD;
	refused(attr, EOPNOTSUPP);
	attr = good;
	attr.send_cq = NULL;
	refused(attr, EINVAL);
	attr = good;
	attr.recv_cq = there.recvs;
	refused(attr, EINVAL);
	attr = good;
	attr.cap.max_send_wr = (uint32_t)here.device->attr.max_qp_wr + 1;
	refused(attr, EINVAL);
	attr = good;
	attr.cap.max_recv_sge = (uint32_t)here.device->attr.max_sge + 1;
	refused(attr, EINVAL);
	attr = good;
	attr.cap.max_inline_data = here.device->max_inline + 1;
	refused(attr, EINVAL);
	here.device->attr.max_qp = 2;
	refused(good, ENOMEM);
}

static void numbers_are_the_same_on_all_devices(void **state)
{
	(void)state;
	assert_int_equal(here.qp->qp_num, there.qp->qp_num);
	assert_int_not_equal(here.qp->qp_num, qp->qp_num);
}

/* ---- States ---------------------------------------------------------------------------------- */

/* Each attribute that has to come along, left out: refused, and nothing has changed. */
static void each_needed(struct ibv_qp_attr attr, int mask)
{
	const enum ibv_qp_state before = end_state(&here, qp);
	int bit;

	for (bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
		if (!(mask & bit) || bit == IBV_QP_STATE)
			continue;
		assert_int_equal(here.verbs->modify_qp(qp, &attr, mask & ~bit), EINVAL);
		assert_int_equal(end_state(&here, qp), before);
	}
	assert_int_equal(here.verbs->modify_qp(qp, &attr, mask | IBV_QP_QKEY), EINVAL);
	assert_int_equal(end_state(&here, qp), before);
}

static struct ibv_qp_attr rtr(void)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.ah_attr = { .grh.sgid_index = END_GID, .is_global = 1, .port_num = 1 },
	};
}

#define TO_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define TO_RTR                                                                          \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TO_RTS                                                                                 \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static void every_move_needs_its_attributes(void **state)
{
	const struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	const struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };

	(void)state;
	each_needed(init, TO_INIT);
	assert_int_equal(end_to_init(&here, qp), 0);
	each_needed(rtr(), TO_RTR);
	assert_int_equal(end_to_rtr(&here, qp, &there, there.qp), 0);
	each_needed(rts, TO_RTS);
	assert_int_equal(end_to_rts(&here, qp), 0);
	assert_int_equal(end_state(&here, qp), IBV_QPS_RTS);
	assert_int_equal(qp->state, IBV_QPS_RTS);
}

static void no_state_is_passed_over(void **state)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	(void)state;
	assert_int_equal(end_to_rtr(&here, qp, &there, there.qp), EINVAL);
	assert_int_equal(end_to_rts(&here, qp), EINVAL);
	assert_int_equal(here.verbs->modify_qp(qp, &error, IBV_QP_STATE), EINVAL);
	assert_int_equal(end_to_init(&here, qp), 0);
	assert_int_equal(end_to_rts(&here, qp), EINVAL);
	assert_int_equal(here.verbs->modify_qp(qp, &error, IBV_QP_STATE), 0);
	assert_int_equal(end_to_rtr(&here, qp, &there, there.qp), EINVAL);
	assert_int_equal(end_state(&here, qp), IBV_QPS_ERR);
}

static void an_attribute_that_cannot_be_is_refused(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 2 };

	(void)state;
	assert_int_equal(here.verbs->modify_qp(qp, &attr, TO_INIT), EINVAL);
	assert_int_equal(end_to_init(&here, qp), 0);
	attr = rtr();
	attr.ah_attr.grh.sgid_index = 2; /* empty */
	assert_int_equal(here.verbs->modify_qp(qp, &attr, TO_RTR), EINVAL);
	attr = rtr();
	attr.ah_attr.is_global = 0; /* Ethernet */
	assert_int_equal(here.verbs->modify_qp(qp, &attr, TO_RTR), EINVAL);
	attr = rtr();
	attr.path_mtu = (enum ibv_mtu)(IBV_MTU_4096 + 1);
	assert_int_equal(here.verbs->modify_qp(qp, &attr, TO_RTR), EINVAL);
	attr = rtr();
	attr.max_dest_rd_atomic = (uint8_t)(here.device->attr.max_qp_rd_atom + 1);
	assert_int_equal(here.verbs->modify_qp(qp, &attr, TO_RTR), EINVAL);
	attr = rtr();
	attr.min_rnr_timer = 32;
	assert_int_equal(here.verbs->modify_qp(qp, &attr, TO_RTR), EINVAL);
	assert_int_equal(end_to_rtr(&here, qp, &there, there.qp), 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .retry_cnt = 8 };
	assert_int_equal(here.verbs->modify_qp(qp, &attr, TO_RTS), EINVAL);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 32 };
	assert_int_equal(here.verbs->modify_qp(qp, &attr, TO_RTS), EINVAL);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .max_rd_atomic = 129 };
	assert_int_equal(here.verbs->modify_qp(qp, &attr, TO_RTS), EINVAL);
	assert_int_equal(end_state(&here, qp), IBV_QPS_RTR);
}

static void a_device_that_reports_no_reads_does_one(void **state)
{
	struct ibv_qp_attr attr = rtr();

	(void)state;
	here.device->attr.max_qp_rd_atom = 0;
	assert_int_equal(end_to_init(&here, qp), 0);
	attr.max_dest_rd_atomic = 2;
	assert_int_equal(here.verbs->modify_qp(qp, &attr, TO_RTR), EINVAL);
	attr.max_dest_rd_atomic = 1;
	assert_int_equal(here.verbs->modify_qp(qp, &attr, TO_RTR), 0);
}

static void a_query_tells_what_was_set(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	end_connect(&here, qp, &there, there.qp);
	assert_int_equal(here.verbs->query_qp(qp, &attr, 0, &init), 0);
	assert_int_equal(attr.dest_qp_num, there.qp->qp_num);
	assert_int_equal(attr.retry_cnt, 6);
	assert_int_equal(attr.max_rd_atomic, 4);
	assert_int_equal(attr.cap.max_send_wr, END_WRS);
	assert_ptr_equal(init.send_cq, here.sends);
	assert_int_equal(init.cap.max_inline_data, END_INLINE);
}

static void posts_wait_for_their_state(void **state)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = {}, *bad_recv;

	(void)state;
	assert_int_equal(here.verbs->post_recv(qp, &recv, &bad_recv), EINVAL);
	assert_ptr_equal(bad_recv, &recv);
	assert_int_equal(end_to_init(&here, qp), 0);
	assert_int_equal(here.verbs->post_recv(qp, &recv, &bad_recv), 0);
	assert_int_equal(here.verbs->post_send(qp, &send, &bad_send), EINVAL);
	assert_int_equal(end_to_rtr(&here, qp, &there, there.qp), 0);
	assert_int_equal(here.verbs->post_send(qp, &send, &bad_send), EINVAL);
	assert_ptr_equal(bad_send, &send);
}

/* The library's copy does not know. */
static void into_error_all_is_flushed(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	uint64_t recv = end_recv(&here, 0, 10), send = end_send(&here, 0, 10, 0);
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(here.verbs->modify_qp(here.qp, &attr, IBV_QP_STATE), 0);
	wc = end_sent(&here);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.wr_id, send);
	wc = end_received(&here);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.wr_id, recv);
	recv = end_recv(&here, 0, 10);
	assert_int_equal(end_received(&here).wr_id, recv);
	end_send(&there, 0, 10, 0);
	assert_int_equal(end_sent(&there).status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(there.qp->state, IBV_QPS_RTS);
	assert_int_equal(end_state(&there, there.qp), IBV_QPS_ERR);
}

static void a_queue_that_drains_sends_nothing(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_async_event event;

	(void)state;
	end_recv(&there, 0, 10);
	assert_int_equal(here.verbs->modify_qp(here.qp, &attr,
					       IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
	assert_int_equal(here.verbs->get_async_event(here.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
	here.verbs->ack_async_event(&event);
	end_send(&here, 0, 10, IBV_SEND_SIGNALED);
	end_is_idle(&here);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(here.verbs->modify_qp(here.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
}

/* ---- Reset and destroy ----------------------------------------------------------------------- */

static void a_reset_forgets_everything(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	(void)state;
	end_recv(&here, 0, 10);
	end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	end_send(&here, 0, 10, IBV_SEND_SIGNALED);
	assert_int_equal(sim_counts(here.device).cqes, 1);
	assert_int_equal(sim_counts(here.device).wrs, 1);
	assert_int_equal(here.verbs->modify_qp(here.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(sim_counts(here.device).cqes, 0);
	assert_int_equal(sim_counts(here.device).wrs, 0);
	assert_int_equal(sim_counts(here.device).recvs, 0);
	end_is_idle(&here);
}

/* The other end counts on from where it was. */
static void an_end_that_began_anew_is_not_the_one_before(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	(void)state;
	end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_int_equal(there.verbs->modify_qp(there.qp, &attr, IBV_QP_STATE), 0);
	end_connect(&there, there.qp, &here, here.qp);
	end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_RETRY_EXC_ERR);
}

static void a_destroyed_queue_takes_its_completions_along(void **state)
{
	(void)state;
	end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	assert_int_equal(here.verbs->destroy_qp(here.qp), 0);
	here.qp = NULL;
	end_is_idle(&here);
}

static void rxe_leaves_them(void **state)
{
	const uint32_t number = here.qp->qp_num;

	(void)state;
	here.device->quirks = SIM_RXE_KEEPS_CQES;
	end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	assert_int_equal(here.verbs->destroy_qp(here.qp), 0);
	here.qp = NULL;
	assert_int_equal(end_sent(&here).qp_num, number);
}

static void what_a_queue_needs_stays(void **state)
{
	(void)state;
	assert_int_equal(here.verbs->destroy_cq(here.sends), EBUSY);
	assert_int_equal(here.verbs->destroy_cq(here.recvs), EBUSY);
	assert_int_equal(here.verbs->destroy_comp_channel(here.channel), EBUSY);
	assert_int_equal(here.verbs->dealloc_pd(here.pd), EBUSY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int run_queues_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(only_what_the_device_can_is_created),
		TEST(numbers_are_the_same_on_all_devices),
		TEST(every_move_needs_its_attributes),
		TEST(no_state_is_passed_over),
		TEST(an_attribute_that_cannot_be_is_refused),
		TEST(a_device_that_reports_no_reads_does_one),
		TEST(a_query_tells_what_was_set),
		TEST(posts_wait_for_their_state),
		TEST(into_error_all_is_flushed),
		TEST(a_queue_that_drains_sends_nothing),
		TEST(a_reset_forgets_everything),
		TEST(an_end_that_began_anew_is_not_the_one_before),
		TEST(a_destroyed_queue_takes_its_completions_along),
		TEST(rxe_leaves_them),
		TEST(what_a_queue_needs_stays),
	};

	return cmocka_run_group_tests_name("queues", tests, NULL, NULL);
}
