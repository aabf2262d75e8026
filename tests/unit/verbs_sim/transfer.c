/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* READ, WRITE and SEND between two ends: which bytes move, what completes, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "ends.h"
#include "suites.h"

#define REMOTE_READ (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
#define REMOTE_WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

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

/* The requester's next completion has this status, and then both queue pairs are in error. */
static void both_fail(enum ibv_wc_status status)
{
	assert_int_equal(end_sent(&here).status, status);
	assert_int_equal(end_state(&here, here.qp), IBV_QPS_ERR);
	assert_int_equal(end_state(&there, there.qp), IBV_QPS_ERR);
}

static bool is_zero(const uint8_t *bytes, size_t length)
{
	return !bytes[0] && !memcmp(bytes, bytes + 1, length - 1);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void a_read_moves_exactly_its_bytes(void **state)
{
	struct ibv_wc wc;
	uint64_t id;

	(void)state;
	id = end_read(&here, 100, 1000, there.bytes + 7, remote->rkey, IBV_SEND_SIGNALED);
	wc = end_sent(&here);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.byte_len, 1000);
	assert_int_equal(wc.qp_num, here.qp->qp_num);
	assert_memory_equal(here.bytes + 100, there.bytes + 7, 1000);
	assert_true(is_zero(here.bytes, 100));
	assert_true(is_zero(here.bytes + 1100, END_BYTES - 1100));
	assert_int_equal(sim_counts(here.device).bytes_read, 1000);
	end_is_idle(&here);
	end_is_idle(&there);
}

static void a_write_moves_exactly_its_bytes(void **state)
{
	(void)state;
	memset(here.bytes, 0xee, 1000);
	end_write(&here, 0, 1000, there.bytes + 5, remote->rkey, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).opcode, IBV_WC_RDMA_WRITE);
	assert_memory_equal(there.bytes + 5, here.bytes, 1000);
	assert_int_equal(there.bytes[4], 5);
	assert_int_equal(there.bytes[1005], 1005 % 251 + 1);
	assert_int_equal(sim_counts(there.device).bytes_written, 1000);
	end_is_idle(&there);
}

static void a_send_fills_the_oldest_receive(void **state)
{
	struct ibv_wc wc;
	uint64_t first;

	(void)state;
	memset(here.bytes, 0xaa, 141);
	first = end_recv(&there, 8192, 200);
	end_recv(&there, 16384, 200);
	end_send(&here, 0, 141, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).opcode, IBV_WC_SEND);
	wc = end_received(&there);
	assert_int_equal(wc.wr_id, first);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 141);
	assert_int_equal(wc.wc_flags, 0);
	assert_memory_equal(there.bytes + 8192, here.bytes, 141);
	assert_int_equal(there.bytes[8192 + 141], (8192 + 141) % 251 + 1);
	assert_int_equal(sim_counts(there.device).recvs, 1);
}

static void lists_are_gathered_and_scattered(void **state)
{
	struct ibv_sge from[2] = {
		{ (uintptr_t)here.bytes, 100, here.local->lkey },
		{ (uintptr_t)here.bytes + 1000, 50, here.local->lkey },
	};
	struct ibv_sge to[2] = {
		{ (uintptr_t)there.bytes + 30000, 60, there.local->lkey },
		{ (uintptr_t)there.bytes + 20000, 100, there.local->lkey },
	};
	struct ibv_recv_wr recv = { .sg_list = to, .num_sge = 2 }, *bad_recv;
	struct ibv_send_wr send = {
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = from,
		.num_sge = 2,
	}, *bad;

	(void)state;
	memset(here.bytes, 1, 100);
	memset(here.bytes + 1000, 2, 50);
	assert_int_equal(there.verbs->post_recv(there.qp, &recv, &bad_recv), 0);
	assert_int_equal(here.verbs->post_send(here.qp, &send, &bad), 0);
	assert_int_equal(end_received(&there).byte_len, 150);
	assert_memory_equal(there.bytes + 30000, here.bytes, 60);
	assert_memory_equal(there.bytes + 20000, here.bytes, 40);
	assert_memory_equal(there.bytes + 20040, here.bytes + 1000, 50);
	assert_int_equal(there.bytes[20090], 20090 % 251 + 1);
}

static void inline_bytes_are_taken_by_the_post(void **state)
{
	struct ibv_sge sge = { .length = END_INLINE };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	}, *bad;
	uint8_t bytes[END_INLINE];

	(void)state;
	sim_progress_set(SIM_STEPPED, 0);
	memset(bytes, 0x77, sizeof(bytes));
	sge.addr = (uintptr_t)bytes;
	end_recv(&there, 0, 200);
	assert_int_equal(here.verbs->post_send(here.qp, &wr, &bad), 0);
	memset(bytes, 0, sizeof(bytes));
	assert_true(sim_step());
	assert_int_equal(end_received(&there).byte_len, END_INLINE);
	assert_int_equal(there.bytes[0], 0x77);
	assert_int_equal(there.bytes[END_INLINE - 1], 0x77);
	sge.length = END_INLINE + 1;
	assert_int_equal(here.verbs->post_send(here.qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
}

static void immediate_data_comes_with_a_receive(void **state)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = 0x12345678,
	}, *bad;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(here.verbs->post_send(here.qp, &wr, &bad), 0);
	end_is_idle(&here);
	end_recv(&there, 0, 0);
	wc = end_received(&there);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x12345678);
	end_recv(&there, 0, 0);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	assert_int_equal(here.verbs->post_send(here.qp, &wr, &bad), 0);
	wc = end_received(&there);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.imm_data, 0x12345678);
}

/* ---- Completions ----------------------------------------------------------------------------- */

static void what_is_not_signalled_completes_without_a_word(void **state)
{
	(void)state;
	end_read(&here, 0, 10, there.bytes, remote->rkey, 0);
	end_is_idle(&here);
	assert_int_equal(here.bytes[9], 10);
	assert_int_equal(sim_counts(here.device).wrs, 0);
}

static void a_queue_that_signals_all_needs_no_flag(void **state)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = here.sends,
		.recv_cq = here.recvs,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = here.verbs->create_qp(here.pd, &attr), *other = end_create_qp(&there);
	struct ibv_send_wr wr = { .wr_id = 77, .opcode = IBV_WR_RDMA_WRITE }, *bad;

	(void)state;
	assert_non_null(qp);
	end_connect(&here, qp, &there, other);
	end_connect(&there, other, &here, qp);
	assert_int_equal(here.verbs->post_send(qp, &wr, &bad), 0);
	assert_int_equal(end_sent(&here).wr_id, 77);
	assert_int_equal(here.verbs->destroy_qp(qp), 0);
	assert_int_equal(there.verbs->destroy_qp(other), 0);
}

/* A slot is free when its completion, or a later one, was polled. */
static void a_queue_has_as_many_slots_as_were_asked_for(void **state)
{
	struct ibv_send_wr wrs[3] = { { .opcode = IBV_WR_RDMA_WRITE, .next = &wrs[1] },
				      { .opcode = IBV_WR_RDMA_WRITE, .next = &wrs[2] },
				      { .opcode = IBV_WR_RDMA_WRITE } },
			   *bad = NULL;
	int i;

	(void)state;
	for (i = 0; i < END_WRS - 2; i++)
		end_write(&here, 0, 0, NULL, 0, i == END_WRS - 3 ? IBV_SEND_SIGNALED : 0);
	assert_int_equal(here.verbs->post_send(here.qp, wrs, &bad), ENOMEM);
	assert_ptr_equal(bad, &wrs[2]);
	assert_int_equal(end_sent(&here).wr_id, here.last_id);
	assert_int_equal(here.verbs->post_send(here.qp, wrs, &bad), 0);
	assert_int_equal(here.verbs->post_send(here.qp, wrs, &bad), 0);
	assert_int_equal(here.verbs->post_send(here.qp, wrs, &bad), ENOMEM);
	assert_ptr_equal(bad, &wrs[0]);
}

static void a_receive_queue_has_as_many_slots_as_were_asked_for(void **state)
{
	struct ibv_recv_wr more = {}, *bad = NULL;
	int i;

	(void)state;
	for (i = 0; i < END_WRS; i++)
		end_recv(&there, 0, 64);
	assert_int_equal(there.verbs->post_recv(there.qp, &more, &bad), ENOMEM);
	assert_ptr_equal(bad, &more);
	end_send(&here, 0, 1, 0);
	assert_int_equal(there.verbs->post_recv(there.qp, &more, &bad), ENOMEM);
	end_received(&there);
	assert_int_equal(there.verbs->post_recv(there.qp, &more, &bad), 0);
}

static void what_cannot_be_posted_is_refused_at_once(void **state)
{
	struct ibv_sge sges[3] = {};
	const struct ibv_send_wr wrong[] = {
		{ .opcode = IBV_WR_RDMA_WRITE, .sg_list = sges, .num_sge = 3 },
		{ .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_INLINE },
		{ .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD },
		{ .opcode = IBV_WR_TSO },
		{ .opcode = IBV_WR_BIND_MW },
	};
	struct ibv_send_wr wr, *bad;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		wr = wrong[i];
		bad = NULL;
		assert_int_equal(here.verbs->post_send(here.qp, &wr, &bad), EINVAL);
		assert_ptr_equal(bad, &wr);
	}
	assert_int_equal(sim_counts(NULL).wrs, 0);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void a_byte_beyond_the_mr_is_refused_and_both_are_in_error(void **state)
{
	(void)state;
	end_recv(&there, 0, 10);
	end_read(&here, 0, 11, there.bytes + 4086, remote->rkey, 0);
	end_read(&here, 0, 1, there.bytes, remote->rkey, 0);
	both_fail(IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(end_sent(&here).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_received(&there).status, IBV_WC_WR_FLUSH_ERR);
	assert_true(is_zero(here.bytes, END_BYTES));
	end_write(&here, 0, 1, there.bytes, remote->rkey, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(there.bytes[0], 1);
}

static void the_last_byte_of_the_mr_is_allowed(void **state)
{
	(void)state;
	end_read(&here, 0, 10, there.bytes + 4086, remote->rkey, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
}

static void a_key_of_another_byte_is_refused(void **state)
{
	(void)state;
	end_read(&here, 0, 10, there.bytes, remote->rkey ^ 1, 0);
	both_fail(IBV_WC_REM_ACCESS_ERR);
}

static void a_local_key_is_no_remote_key(void **state)
{
	(void)state;
	assert_int_equal(there.parent->rkey, 0);
	end_read(&here, 0, 10, there.bytes, there.parent->lkey, 0);
	both_fail(IBV_WC_REM_ACCESS_ERR);
}

static void a_right_that_the_mr_lacks_is_refused(void **state)
{
	struct ibv_mr *mr = there.verbs->reg_mr(there.pd, there.bytes, 64, REMOTE_READ);

	(void)state;
	end_write(&here, 0, 10, there.bytes, mr->rkey, 0);
	both_fail(IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(there.bytes[0], 1);
	assert_int_equal(there.verbs->dereg_mr(mr), 0);
}

static void a_key_of_another_pd_is_refused(void **state)
{
	struct ibv_pd *pd = there.verbs->alloc_pd(there.context);
	struct ibv_mr *mr = there.verbs->reg_mr(pd, there.bytes, 64, REMOTE_WRITE);

	(void)state;
	end_write(&here, 0, 10, there.bytes, mr->rkey, 0);
	both_fail(IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(there.verbs->dealloc_pd(pd), EBUSY);
	assert_int_equal(there.verbs->dereg_mr(mr), 0);
	assert_int_equal(there.verbs->dealloc_pd(pd), 0);
}

static void what_the_qp_does_not_permit_is_an_invalid_request(void **state)
{
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	(void)state;
	assert_int_equal(there.verbs->modify_qp(there.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	end_read(&here, 0, 10, there.bytes, remote->rkey, 0);
	both_fail(IBV_WC_REM_INV_REQ_ERR);
}

/* How many READs an end asks for at a time, or answers. */
static void set_rd_atomic(struct end *end, uint8_t asks, uint8_t answers)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };

	assert_int_equal(end->verbs->modify_qp(end->qp, &attr, IBV_QP_STATE), 0);
	attr.max_rd_atomic = asks;
	attr.max_dest_rd_atomic = answers;
	assert_int_equal(end->verbs->modify_qp(end->qp, &attr,
					       IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(end->verbs->modify_qp(end->qp, &attr, IBV_QP_STATE), 0);
}

static void who_may_have_no_read_outstanding_cannot_read(void **state)
{
	(void)state;
	set_rd_atomic(&here, 0, 4);
	end_read(&here, 0, 10, there.bytes, remote->rkey, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(end_state(&there, there.qp), IBV_QPS_RTS);
}

static void more_reads_than_are_answered_are_an_invalid_request(void **state)
{
	(void)state;
	set_rd_atomic(&there, 4, 1);
	end_read(&here, 0, 10, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	sim_reads_late(true);
	sim_progress_set(SIM_STEPPED, 0);
	end_read(&here, 0, 10, there.bytes, remote->rkey, 0);
	end_read(&here, 0, 10, there.bytes, remote->rkey, 0);
	sim_drain();
	both_fail(IBV_WC_REM_INV_REQ_ERR);
}

static void a_message_beyond_what_the_port_carries_is_not_sent(void **state)
{
	(void)state;
	here.device->ports[0].attr.max_msg_sz = 100;
	end_write(&here, 0, 100, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	end_write(&here, 0, 101, there.bytes, remote->rkey, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_LOC_LEN_ERR);
}

static void a_wrong_local_key_concerns_the_requester_alone(void **state)
{
	struct ibv_sge sge = { (uintptr_t)here.bytes, 10, here.local->lkey ^ 1 };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { (uintptr_t)there.bytes, remote->rkey },
	}, *bad;

	(void)state;
	assert_int_equal(here.verbs->post_send(here.qp, &wr, &bad), 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(end_state(&here, here.qp), IBV_QPS_ERR);
	assert_int_equal(end_state(&there, there.qp), IBV_QPS_RTS);
	assert_int_equal(there.bytes[0], 1);
}

static void a_message_longer_than_its_receive_fails_both(void **state)
{
	(void)state;
	end_recv(&there, 0, 10);
	end_send(&here, 100, 11, 0);
	both_fail(IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(end_received(&there).status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(there.bytes[0], 1);
}

static void a_receive_that_may_not_be_written_fails_both(void **state)
{
	struct ibv_sge sge = { (uintptr_t)there.bytes, 64, there.local->lkey ^ 1 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	(void)state;
	assert_int_equal(there.verbs->post_recv(there.qp, &wr, &bad), 0);
	end_send(&here, 0, 10, 0);
	both_fail(IBV_WC_REM_OP_ERR);
	assert_int_equal(end_received(&there).status, IBV_WC_LOC_PROT_ERR);
}

/* rnr_retry 7. */
static void a_send_waits_for_a_receive(void **state)
{
	(void)state;
	end_send(&here, 0, 10, IBV_SEND_SIGNALED);
	end_is_idle(&here);
	assert_int_equal(sim_counts(here.device).wrs, 1);
	end_recv(&there, 0, 10);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_int_equal(end_received(&there).byte_len, 10);
}

static void a_failed_completion_is_rubbish_but_for_what_is_defined(void **state)
{
	struct ibv_wc wc;
	uint64_t id;

	(void)state;
	id = end_read(&here, 0, 11, there.bytes + 4086, remote->rkey, 0);
	wc = end_sent(&here);
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.qp_num, here.qp->qp_num);
	assert_int_not_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_int_not_equal(wc.byte_len, 11);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int run_transfer_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_read_moves_exactly_its_bytes),
		TEST(a_write_moves_exactly_its_bytes),
		TEST(a_send_fills_the_oldest_receive),
		TEST(lists_are_gathered_and_scattered),
		TEST(inline_bytes_are_taken_by_the_post),
		TEST(immediate_data_comes_with_a_receive),
		TEST(what_is_not_signalled_completes_without_a_word),
		TEST(a_queue_that_signals_all_needs_no_flag),
		TEST(a_queue_has_as_many_slots_as_were_asked_for),
		TEST(a_receive_queue_has_as_many_slots_as_were_asked_for),
		TEST(what_cannot_be_posted_is_refused_at_once),
		TEST(a_byte_beyond_the_mr_is_refused_and_both_are_in_error),
		TEST(the_last_byte_of_the_mr_is_allowed),
		TEST(a_key_of_another_byte_is_refused),
		TEST(a_local_key_is_no_remote_key),
		TEST(a_right_that_the_mr_lacks_is_refused),
		TEST(a_key_of_another_pd_is_refused),
		TEST(what_the_qp_does_not_permit_is_an_invalid_request),
		TEST(who_may_have_no_read_outstanding_cannot_read),
		TEST(more_reads_than_are_answered_are_an_invalid_request),
		TEST(a_message_beyond_what_the_port_carries_is_not_sent),
		TEST(a_wrong_local_key_concerns_the_requester_alone),
		TEST(a_message_longer_than_its_receive_fails_both),
		TEST(a_receive_that_may_not_be_written_fails_both),
		TEST(a_send_waits_for_a_receive),
		TEST(a_failed_completion_is_rubbish_but_for_what_is_defined),
	};

	return cmocka_run_group_tests_name("transfer", tests, NULL, NULL);
}
