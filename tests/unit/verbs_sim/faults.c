/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Faults: when they strike, whom, what the caller is told, and what is then so. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "ends.h"
#include "suites.h"

static struct ibv_mr *remote;

static int start(void **state)
{
	ends_start(state);
	remote = there.verbs->reg_mr(there.pd, there.bytes, 4096,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					     IBV_ACCESS_REMOTE_WRITE);
	return remote ? 0 : -1;
}

static int finish(void **state)
{
	assert_int_equal(there.verbs->dereg_mr(remote), 0);
	return ends_finish(state);
}

static unsigned int arm(struct sim_fault fault)
{
	return sim_fault_arm(&fault);
}

static unsigned int fail_call(enum sim_verb verb, const void *target, unsigned int after,
			      unsigned int times)
{
	return arm((struct sim_fault){ .kind = SIM_FAULT_CALL,
				       .verb = verb,
				       .target = target,
				       .after = after,
				       .times = times,
				       .error = EIO });
}

/* ---- Striking -------------------------------------------------------------------------------- */

static bool registers(struct end *end)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = end->verbs->reg_mr(end->pd, end->bytes, 1, 0);
	if (!mr) {
		assert_int_equal(errno, EIO);
		return false;
	}
	assert_int_equal(end->verbs->dereg_mr(mr), 0);
	return true;
}

static void a_fault_strikes_after_its_count_and_so_often(void **state)
{
	const unsigned int id = fail_call(SIM_REG_MR, NULL, 2, 2);

	(void)state;
	assert_true(registers(&here));
	assert_true(registers(&there));
	assert_false(registers(&here));
	assert_int_equal(sim_fault_hits(id), 1);
	assert_false(registers(&here));
	assert_true(registers(&here));
	assert_int_equal(sim_fault_hits(id), 2);
}

static void a_fault_strikes_its_target_alone(void **state)
{
	fail_call(SIM_REG_MR, there.pd, 0, 1);
	fail_call(SIM_REG_MR, there.device, 0, 1);
	(void)state;
	assert_true(registers(&here));
	assert_false(registers(&there));
	assert_false(registers(&there));
	assert_true(registers(&there));
}

static void a_fault_without_times_strikes_until_it_is_disarmed(void **state)
{
	const unsigned int id = fail_call(SIM_REG_MR, NULL, 0, 0);
	int i;

	(void)state;
	for (i = 0; i < 100; i++)
		assert_false(registers(&here));
	sim_fault_disarm(id);
	assert_true(registers(&here));
	assert_int_equal(sim_fault_hits(id), 100);
}

static void every_call_is_counted(void **state)
{
	const unsigned long before = sim_calls(SIM_REG_MR);

	(void)state;
	fail_call(SIM_REG_MR, NULL, 1, 1);
	registers(&here);
	registers(&here);
	assert_int_equal(sim_calls(SIM_REG_MR) - before, 2);
	assert_int_equal(sim_calls(SIM_CREATE_QP), 2);
	assert_int_equal(sim_calls(SIM_MODIFY_QP), 6);
}

/* ---- Every verb ------------------------------------------------------------------------------ */

/* The next call of each; what was not called by the end goes well again. */
static unsigned int armed[SIM_VERBS_COUNT];

static void fail_all_calls(void)
{
	enum sim_verb verb;

	for (verb = 0; verb < SIM_VERBS_COUNT; verb++)
		armed[verb] = fail_call(verb, NULL, 0, 1);
}

static void disarm_all(void)
{
	enum sim_verb verb;

	for (verb = 0; verb < SIM_VERBS_COUNT; verb++)
		sim_fault_disarm(armed[verb]);
}

static void all_that_create_fail_with_nothing_created(void **state)
{
	struct ibv_qp_init_attr init = {
		.send_cq = here.sends,
		.recv_cq = here.recvs,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	const struct sim_counts before = sim_counts(NULL);
	struct sim_counts after;
	int count;

	(void)state;
	fail_all_calls();
	assert_null(here.verbs->get_device_list(&count));
	assert_int_equal(errno, EIO);
	assert_null(here.verbs->open_device(&here.device->device));
	assert_null(here.verbs->alloc_pd(here.context));
	assert_null(here.verbs->reg_mr(here.pd, here.bytes, 1, 0));
	assert_null(here.verbs->alloc_mw(here.pd, IBV_MW_TYPE_2));
	assert_null(here.verbs->create_comp_channel(here.context));
	assert_null(here.verbs->create_cq(here.context, 1, NULL, NULL, 0));
	errno = 0;
	assert_null(here.verbs->create_qp(here.pd, &init));
	assert_int_equal(errno, EIO);
	after = sim_counts(NULL);
	assert_memory_equal(&before, &after, sizeof(before));
	disarm_all();
}

static void all_that_ask_fail_with_their_errno(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_async_event event;
	union otte_verbs_port port;
	struct ibv_device_attr attr;
	struct ibv_qp_attr qp_attr = { .qp_state = IBV_QPS_ERR };
	union ibv_gid gid;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	(void)state;
	fail_all_calls();
	assert_int_equal(here.verbs->query_device(here.context, &attr), EIO);
	assert_int_equal(here.verbs->query_port(here.context, 1, &port), EIO);
	assert_int_equal(here.verbs->query_gid(here.context, 1, 0, &gid), -1);
	assert_int_equal(here.verbs->get_async_event(here.context, &event), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(here.verbs->get_cq_event(here.channel, &cq, &context), -1);
	assert_int_equal(here.verbs->modify_qp(here.qp, &qp_attr, IBV_QP_STATE), EIO);
	assert_int_equal(here.verbs->query_qp(here.qp, &qp_attr, 0, &init), EIO);
	assert_int_equal(here.verbs->poll_cq(here.sends, 1, &wc), -1);
	assert_int_equal(here.verbs->req_notify_cq(here.recvs, 0), EIO);
	assert_int_equal(end_state(&here, here.qp), IBV_QPS_RTS);
	disarm_all();
}

/* Each end fails, and its object is as it was. */
static void all_that_destroy_fail_with_nothing_destroyed(void **state)
{
	struct ibv_mw *mw = here.verbs->alloc_mw(here.pd, IBV_MW_TYPE_2);
	struct sim_counts before = sim_counts(NULL), after;

	(void)state;
	fail_all_calls();
	assert_int_equal(here.verbs->destroy_qp(here.qp), EIO);
	assert_int_equal(here.verbs->destroy_cq(here.sends), EIO);
	assert_int_equal(here.verbs->destroy_comp_channel(here.channel), EIO);
	assert_int_equal(here.verbs->dealloc_mw(mw), EIO);
	assert_int_equal(here.verbs->dereg_mr(here.local), EIO);
	assert_int_equal(here.verbs->dealloc_pd(here.pd), EIO);
	assert_int_equal(here.verbs->close_device(here.context), -1);
	after = sim_counts(NULL);
	assert_memory_equal(&before, &after, sizeof(before));
	disarm_all();
	assert_int_equal(here.verbs->dealloc_mw(mw), 0);
}

static void a_queue_pair_that_does_not_go_still_works(void **state)
{
	const unsigned int id = fail_call(SIM_DESTROY_QP, here.qp, 0, 0);

	(void)state;
	assert_int_equal(here.verbs->destroy_qp(here.qp), EIO);
	assert_int_equal(here.verbs->destroy_qp(here.qp), EIO);
	end_read(&here, 0, 1, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	sim_fault_disarm(id);
}

/* ---- Posts ----------------------------------------------------------------------------------- */

/* A list of three, of which `accepted` are taken; what the caller is told. */
static struct ibv_send_wr *post_three(struct ibv_send_wr wrs[3], unsigned int accepted,
				      enum sim_bad_wr bad_wr)
{
	struct ibv_send_wr *bad = &wrs[2];
	int i;

	memset(wrs, 0, 3 * sizeof(wrs[0]));
	for (i = 0; i < 3; i++) {
		wrs[i].wr_id = (uint64_t)i + 10;
		wrs[i].opcode = IBV_WR_RDMA_WRITE;
		wrs[i].send_flags = IBV_SEND_SIGNALED;
		wrs[i].next = i < 2 ? &wrs[i + 1] : NULL;
	}
	arm((struct sim_fault){ .kind = SIM_FAULT_CALL,
				.verb = SIM_POST_SEND,
				.target = here.qp,
				.times = 1,
				.error = ENOMEM,
				.accepted = accepted,
				.bad_wr = bad_wr });
	assert_int_equal(here.verbs->post_send(here.qp, wrs, &bad), ENOMEM);
	for (i = 0; i < (int)accepted; i++)
		assert_int_equal(end_sent(&here).wr_id, i + 10);
	end_is_idle(&here);
	return bad;
}

static void a_post_fails_behind_what_it_has_taken(void **state)
{
	struct ibv_send_wr wrs[3];

	(void)state;
	assert_ptr_equal(post_three(wrs, 0, SIM_BAD_WR_EXACT), &wrs[0]);
	assert_ptr_equal(post_three(wrs, 2, SIM_BAD_WR_EXACT), &wrs[2]);
	assert_null(post_three(wrs, 3, SIM_BAD_WR_EXACT));
}

static void a_post_may_not_tell_what_it_has_taken(void **state)
{
	struct ibv_send_wr wrs[3], *bad;

	(void)state;
	assert_null(post_three(wrs, 1, SIM_BAD_WR_NULL));
	bad = post_three(wrs, 1, SIM_BAD_WR_FOREIGN);
	assert_non_null(bad);
	assert_true(bad < wrs || bad >= wrs + 3);
	assert_ptr_equal(post_three(wrs, 1, SIM_BAD_WR_UNTOUCHED), &wrs[2]);
}

static void a_receive_fails_as_a_send_does(void **state)
{
	struct ibv_recv_wr wrs[2] = { { .wr_id = 5, .next = &wrs[1] }, {} };
	struct ibv_recv_wr *bad = wrs;

	(void)state;
	arm((struct sim_fault){ .kind = SIM_FAULT_CALL,
				.verb = SIM_POST_RECV,
				.times = 1,
				.error = EINVAL,
				.accepted = 1,
				.bad_wr = SIM_BAD_WR_NULL });
	assert_int_equal(there.verbs->post_recv(there.qp, wrs, &bad), EINVAL);
	assert_null(bad);
	assert_int_equal(sim_counts(NULL).recvs, 1);
	end_send(&here, 0, 0, 0);
	assert_int_equal(end_received(&there).wr_id, 5);
}

/* ---- Completions ----------------------------------------------------------------------------- */

static unsigned int spoil(enum sim_fault_kind kind, const void *target, uint64_t value)
{
	return arm(
		(struct sim_fault){ .kind = kind, .target = target, .times = 1, .value = value });
}

/* Its slot is lost until a later one is polled. */
static void of_a_lost_completion_the_work_is_done(void **state)
{
	struct ibv_send_wr more = { .opcode = IBV_WR_RDMA_WRITE }, *bad;
	int i;

	(void)state;
	spoil(SIM_FAULT_CQE_LOST, here.sends, 0);
	end_read(&here, 0, 10, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	end_is_idle(&here);
	assert_int_equal(here.bytes[9], 10);
	assert_int_equal(sim_counts(here.device).wrs, 0);
	for (i = 0; i < END_WRS - 1; i++)
		end_write(&here, 0, 0, NULL, 0, i ? 0 : IBV_SEND_SIGNALED);
	assert_int_equal(here.verbs->post_send(here.qp, &more, &bad), ENOMEM);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_int_equal(here.verbs->post_send(here.qp, &more, &bad), 0);
}

static void a_completion_comes_twice(void **state)
{
	uint64_t id;

	(void)state;
	spoil(SIM_FAULT_CQE_TWICE, here.qp, 0);
	id = end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).wr_id, id);
	assert_int_equal(end_sent(&here).wr_id, id);
	end_is_idle(&here);
}

static void a_completion_names_another(void **state)
{
	struct ibv_wc wc;
	uint64_t id;

	(void)state;
	spoil(SIM_FAULT_CQE_QPN, NULL, 0x100);
	id = end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	wc = end_sent(&here);
	assert_int_equal(wc.qp_num, here.qp->qp_num ^ 0x100);
	assert_int_equal(wc.wr_id, id);
	spoil(SIM_FAULT_CQE_WR_ID, NULL, 1ull << 40);
	id = end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	wc = end_sent(&here);
	assert_int_equal(wc.qp_num, here.qp->qp_num);
	assert_int_equal(wc.wr_id, id ^ 1ull << 40);
}

static void a_receive_names_another_key(void **state)
{
	struct ibv_mw *mw = end_window(&there, 0, 10, IBV_ACCESS_REMOTE_READ);
	struct ibv_wc wc;

	(void)state;
	spoil(SIM_FAULT_CQE_KEY, there.recvs, 0xff);
	spoil(SIM_FAULT_CQE_FLAGS, there.recvs, IBV_WC_WITH_INV);
	end_recv(&there, 0, 64);
	end_send_inv(&here, 0, 1, mw->rkey, 0);
	wc = end_received(&there);
	assert_int_equal(wc.invalidated_rkey, mw->rkey ^ 0xff);
	assert_int_equal(wc.wc_flags, 0);
	assert_int_equal(there.verbs->dealloc_mw(mw), 0);
}

static void a_send_fails_with_its_work_not_done(void **state)
{
	(void)state;
	arm((struct sim_fault){
		.kind = SIM_FAULT_SEND_STATUS, .times = 1, .status = IBV_WC_RETRY_EXC_ERR });
	memset(here.bytes, 9, 10);
	end_write(&here, 0, 10, there.bytes, remote->rkey, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(there.bytes[0], 1);
	assert_int_equal(end_state(&here, here.qp), IBV_QPS_ERR);
	assert_int_equal(end_state(&there, there.qp), IBV_QPS_RTS);
}

static void a_send_fails_with_its_work_done(void **state)
{
	(void)state;
	arm((struct sim_fault){ .kind = SIM_FAULT_SEND_STATUS,
				.target = here.qp,
				.after = 1,
				.times = 1,
				.status = IBV_WC_GENERAL_ERR,
				.done = true });
	memset(here.bytes, 9, 10);
	end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	end_write(&here, 0, 10, there.bytes, remote->rkey, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_GENERAL_ERR);
	assert_int_equal(there.bytes[0], 9);
	assert_int_equal(end_state(&here, here.qp), IBV_QPS_ERR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int run_faults_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_fault_strikes_after_its_count_and_so_often),
		TEST(a_fault_strikes_its_target_alone),
		TEST(a_fault_without_times_strikes_until_it_is_disarmed),
		TEST(every_call_is_counted),
		TEST(all_that_create_fail_with_nothing_created),
		TEST(all_that_ask_fail_with_their_errno),
		TEST(all_that_destroy_fail_with_nothing_destroyed),
		TEST(a_queue_pair_that_does_not_go_still_works),
		TEST(a_post_fails_behind_what_it_has_taken),
		TEST(a_post_may_not_tell_what_it_has_taken),
		TEST(a_receive_fails_as_a_send_does),
		TEST(of_a_lost_completion_the_work_is_done),
		TEST(a_completion_comes_twice),
		TEST(a_completion_names_another),
		TEST(a_receive_names_another_key),
		TEST(a_send_fails_with_its_work_not_done),
		TEST(a_send_fails_with_its_work_done),
	};

	return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
