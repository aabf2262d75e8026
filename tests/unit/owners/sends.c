/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The send queue: what may be under way is charged until exactly its CQE, or its QP's end. */
#include "ends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static struct otte_rdma_window *window; /* over all of the source's bytes */
static struct told told[64];
static uint32_t accepted;

static int start(void **state)
{
	ends_start(state);
	window = source_bind(0, END_BYTES, OTTE_READ);
	return 0;
}

/* The QPs go first, in ERR, as windows are freed before them. */
static void drop_qps(void)
{
	otte_rdma_qp_drain(source.qp, -ECANCELED, "the test ends");
	otte_rdma_qp_drain(requester.qp, -ECANCELED, "the test ends");
	sim_drain();
	ends_poll();
	assert_int_equal(otte_rdma_window_free(window), 0);
	assert_int_equal(otte_rdma_qp_destroy(requester.qp), 0);
	requester.qp = NULL;
}

static int finish_all(void **state)
{
	if (requester.qp)
		drop_qps();
	return ends_finish(state);
}

/* `count` READs of 100 bytes each, at different places. */
static int post_reads(uint32_t count)
{
	struct otte_rdma_send sends[64];
	uint32_t i;

	for (i = 0; i < count; i++) {
		told_init(&told[i]);
		sends[i] = payload(OTTE_RDMA_READ, (size_t)i * 100, 100, window->key);
		sends[i].work = &told[i].work;
	}
	return otte_rdma_qp_post(requester.qp, sends, count, &accepted);
}

/* told[from] to told[to - 1]. */
static void assert_told(uint32_t from, uint32_t to, unsigned int count, int code)
{
	uint32_t i;

	for (i = from; i < to; i++) {
		assert_int_equal(told[i].count, count);
		if (!count)
			continue;
		assert_int_equal(told[i].outcome.code, code);
		assert_int_equal(told[i].outcome.evidence, OTTE_RDMA_COMPLETED);
	}
}

static void assert_drained(uint32_t from, uint32_t to)
{
	uint32_t i;

	for (i = from; i < to; i++) {
		assert_int_equal(told[i].count, 1);
		assert_int_equal(told[i].outcome.evidence, OTTE_RDMA_DRAINED);
		assert_int_equal(told[i].outcome.code, -ECANCELED);
	}
}

/* ---- What goes well -------------------------------------------------------------------------- */

static void a_read_moves_its_bytes_and_is_told_once(void **state)
{
	(void)state;
	assert_int_equal(post_reads(2), 0);
	assert_int_equal(accepted, 2);
	assert_charged(&requester, 2, 0);
	assert_int_equal(end_poll(&requester), 2);
	assert_told(0, 2, 1, 0);
	assert_charged(&requester, 0, 0);
	assert_int_equal(requester.bytes[199], 0x5a);
	assert_int_equal(requester.bytes[200], 0);
	assert_int_equal(requester.fenced, 0);
}

static void no_more_are_posted_than_the_queue_has_places(void **state)
{
	(void)state;
	sim_progress_set(SIM_STEPPED, 0);
	assert_int_equal(post_reads(5), -EINVAL);
	assert_string_equal(otte_error_text(), "rdma: 5 WRs in one post, at most 4");
	assert_int_equal(post_reads(4), 0);
	assert_int_equal(post_reads(1), -EAGAIN);
	assert_int_equal(accepted, 0);
	assert_charged(&requester, 4, 0);
	sim_drain();
	assert_int_equal(post_reads(1), -EAGAIN);
	assert_int_equal(end_poll(&requester), 4);
	assert_int_equal(post_reads(4), 0);
	sim_drain();
	end_poll(&requester);
	assert_charged(&requester, 0, 0);
}

static void no_more_are_posted_than_the_cq_has_places(void **state)
{
	(void)state;
	assert_true(otte_rdma_credits_take(&requester.lane->sends, END_CQES - 2));
	assert_int_equal(post_reads(3), -EAGAIN);
	assert_int_equal(otte_rdma_credits_free(&requester.lane->sends), 2);
	assert_int_equal(post_reads(2), 0);
	assert_int_equal(post_reads(1), -EAGAIN);
	assert_int_equal(end_poll(&requester), 2);
	otte_rdma_credits_give(&requester.lane->sends, END_CQES - 2);
	assert_charged(&requester, 0, 0);
}

static void ids_go_round(void **state)
{
	struct otte_rdma_wr_ring *ring = &requester.qp->send.ring;
	unsigned int i;

	(void)state;
	ring->first = UINT32_MAX - 4;
	ring->next = UINT32_MAX - 4;
	for (i = 0; i < 4; i++) {
		assert_int_equal(post_reads(3), 0);
		assert_int_equal(end_poll(&requester), 3);
		assert_told(0, 3, 1, 0);
		assert_charged(&requester, 0, 0);
	}
	assert_int_equal(ring->next, 7);
	assert_int_equal(requester.fenced, 0);
}

static void what_cannot_be_posted_is_refused_whole(void **state)
{
	const struct told_receipt receipt = {};
	struct otte_rdma_send send;
	struct told one;

	(void)state;
	send = payload(OTTE_RDMA_READ, 0, 0, window->key);
	assert_int_equal(end_post(&requester, &send, &one), -EINVAL);
	send = payload(OTTE_RDMA_WRITE, 0, (1ull << 31) + 1, window->key);
	assert_int_equal(end_post(&requester, &send, &one), -EINVAL);
	assert_string_equal(otte_error_text(), "rdma: 2147483649 bytes in one WR");
	send = payload((enum otte_rdma_op)99, 0, 1, 0);
	assert_int_equal(end_post(&requester, &send, &one), -EINVAL);
	send = finish(&receipt);
	assert_int_equal(end_post(&source, &send, &one), -EINVAL);
	send = (struct otte_rdma_send){ .op = OTTE_RDMA_BIND };
	assert_int_equal(end_post(&source, &send, &one), -EINVAL);
	assert_int_equal(otte_rdma_qp_post(requester.qp, &send, 0, &accepted), -EINVAL);
	assert_charged(&requester, 0, 0);
	assert_charged(&source, 0, 0);
}

/* ---- Posts that fail ------------------------------------------------------------------------- */

static void only_a_proven_suffix_is_given_back(void **state)
{
	unsigned int taken;

	(void)state;
	for (taken = 0; taken < 3; taken++) {
		fail_post(SIM_POST_SEND, taken, SIM_BAD_WR_EXACT);
		assert_int_equal(post_reads(3), -ENOMEM);
		assert_string_equal(otte_error_text(), "ibv_post_send: Cannot allocate memory");
		assert_int_equal(accepted, taken);
		assert_charged(&requester, taken, 0);
		end_poll(&requester);
		assert_told(0, taken, 1, 0);
		assert_told(taken, 3, 0, 0);
		assert_charged(&requester, 0, 0);
		assert_int_equal(end_status(&requester).state, OTTE_RDMA_QP_READY);
	}
	assert_int_equal(post_reads(3), 0);
	end_poll(&requester);
	assert_told(0, 3, 1, 0);
}

/* Whatever of them was really taken, its CQE ends; of the others nothing does. */
static void unknown(enum sim_bad_wr bad_wr, unsigned int taken)
{
	fail_post(SIM_POST_SEND, taken, bad_wr);
	assert_int_equal(post_reads(3), -EUCLEAN);
	assert_string_equal(otte_error_text(),
			    "ibv_post_send: Cannot allocate memory, and not which of 3");
	assert_int_equal(accepted, 3);
	assert_charged(&requester, 3, 0);
	assert_fenced(&requester, -EUCLEAN, "and not which of 3");
	assert_told(0, taken, 1, 0);
	assert_told(taken, 3, 0, 0);
	assert_charged(&requester, 3 - taken, 0);
	drop_qps();
	assert_drained(taken, 3);
	assert_int_equal(lane_status(&requester).sends, 3 - taken);
	assert_int_equal(lane_status(&requester).state, OTTE_RDMA_LANE_CLOSED);
}

static void no_bad_wr_keeps_all_of_it_charged(void **state)
{
	(void)state;
	unknown(SIM_BAD_WR_NULL, 0);
}

static void a_foreign_bad_wr_keeps_all_of_it_charged(void **state)
{
	(void)state;
	unknown(SIM_BAD_WR_FOREIGN, 0);
}

static void an_untouched_bad_wr_keeps_all_of_it_charged(void **state)
{
	(void)state;
	unknown(SIM_BAD_WR_UNTOUCHED, 0);
}

static void what_was_taken_all_the_same_ends_by_its_cqe(void **state)
{
	(void)state;
	unknown(SIM_BAD_WR_NULL, 2);
}

/* ---- CQEs that cannot be --------------------------------------------------------------------- */

static void a_lost_cqe_leaves_its_charge(void **state)
{
	(void)state;
	spoil_cqe(&requester, SIM_FAULT_CQE_LOST, 0, 0);
	assert_int_equal(post_reads(1), 0);
	assert_int_equal(end_poll(&requester), 0);
	assert_told(0, 1, 0, 0);
	assert_charged(&requester, 1, 0);
	assert_int_equal(end_status(&requester).state, OTTE_RDMA_QP_READY);
	drop_qps();
	assert_drained(0, 1);
	assert_int_equal(lane_status(&requester).sends, 1);
}

static void a_cqe_before_an_earlier_ones_fences(void **state)
{
	(void)state;
	spoil_cqe(&requester, SIM_FAULT_CQE_LOST, 0, 0);
	assert_int_equal(post_reads(2), 0);
	assert_int_equal(end_poll(&requester), 1);
	assert_told(0, 1, 0, 0);
	assert_told(1, 2, 1, 0);
	assert_charged(&requester, 1, 0);
	assert_fenced(&requester, -EPROTO, "before an earlier one's");
	drop_qps();
	assert_drained(0, 1);
	assert_int_equal(lane_status(&requester).sends, 1);
}

static void a_cqe_of_another_wr_id_discharges_nothing(void **state)
{
	(void)state;
	spoil_cqe(&requester, SIM_FAULT_CQE_WR_ID, 0, 1);
	assert_int_equal(post_reads(1), 0);
	assert_int_equal(end_poll(&requester), 1);
	assert_told(0, 1, 0, 0);
	assert_charged(&requester, 1, 0);
	assert_fenced(&requester, -EPROTO, "that is not under way");
}

static void a_cqe_of_another_queues_wr_id_discharges_nothing(void **state)
{
	(void)state;
	spoil_cqe(&requester, SIM_FAULT_CQE_WR_ID, 0, 1ull << 32);
	assert_int_equal(post_reads(1), 0);
	assert_int_equal(end_poll(&requester), 1);
	assert_charged(&requester, 1, 0);
	assert_fenced(&requester, -EPROTO, "that is not under way");
}

static void a_second_cqe_discharges_nothing(void **state)
{
	(void)state;
	spoil_cqe(&requester, SIM_FAULT_CQE_TWICE, 0, 0);
	assert_int_equal(post_reads(1), 0);
	assert_int_equal(end_poll(&requester), 2);
	assert_told(0, 1, 1, 0);
	assert_charged(&requester, 0, 0);
	assert_int_equal(otte_rdma_credits_free(&requester.lane->sends), END_CQES);
	assert_fenced(&requester, -EPROTO, "that is not under way");
}

static void a_cqe_of_a_qpn_that_is_not_here_is_the_lanes_fault(void **state)
{
	(void)state;
	spoil_cqe(&requester, SIM_FAULT_CQE_QPN, 0, 0x400000);
	assert_int_equal(post_reads(1), 0);
	assert_int_equal(end_poll(&requester), 1);
	assert_told(0, 1, 0, 0);
	assert_charged(&requester, 1, 0);
	assert_int_equal(lane_status(&requester).state, OTTE_RDMA_LANE_FAULTED);
	assert_fenced(&requester, -EPROTO, "which is not here");
}

static void a_cqe_of_a_siblings_qpn_discharges_nothing_there(void **state)
{
	const struct otte_rdma_qp_params params = requester_params();
	struct otte_rdma_qp *sibling = end_create_qp(&requester, &params);
	struct otte_rdma_qp_status status;

	(void)state;
	spoil_cqe(&requester, SIM_FAULT_CQE_QPN, 0, requester.qp->end.qpn ^ sibling->end.qpn);
	assert_int_equal(post_reads(1), 0);
	assert_int_equal(end_poll(&requester), 1);
	assert_int_equal(end_status(&requester).sends, 1);
	otte_rdma_qp_status(sibling, &status);
	assert_int_equal(status.code, -EPROTO);
	assert_int_equal(requester.fenced, 1);
	assert_int_equal(otte_rdma_qp_destroy(sibling), 0);
}

static void a_cqe_of_another_opcode_discharges_nothing(void **state)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RDMA_WRITE };

	(void)state;
	sim_progress_set(SIM_STEPPED, 0);
	assert_int_equal(post_reads(1), 0);
	wc.qp_num = requester.qp->end.qpn;
	wc.wr_id = otte_rdma_wr_id(requester.qp->send.ring.tag, requester.qp->send.ring.first);
	otte_rdma_qp_sent(requester.qp, &wc);
	assert_told(0, 1, 0, 0);
	assert_charged(&requester, 1, 0);
	assert_fenced(&requester, -EPROTO, "with another's opcode");
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void an_error_is_told_and_the_rest_is_flushed(void **state)
{
	(void)state;
	sim_progress_set(SIM_STEPPED, 0);
	fail_wr(1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(post_reads(4), 0);
	sim_drain();
	end_poll(&requester);
	assert_told(0, 1, 1, 0);
	assert_told(1, 2, 1, -EACCES);
	assert_told(2, 4, 1, -ECANCELED);
	assert_int_equal(told[1].outcome.status, IBV_WC_REM_ACCESS_ERR);
	assert_charged(&requester, 0, 0);
	assert_int_equal(end_status(&requester).state, OTTE_RDMA_QP_DRAINING);
	assert_fenced(&requester, -EACCES, "mlx5_0: QP ");
	assert_true(otte_rdma_qp_is_drained(requester.qp));
}

static void statuses_have_codes(void **state)
{
	static const struct {
		enum ibv_wc_status status;
		int code;
	} codes[] = {
		{ IBV_WC_SUCCESS, 0 },
		{ IBV_WC_WR_FLUSH_ERR, -ECANCELED },
		{ IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT },
		{ IBV_WC_RNR_RETRY_EXC_ERR, -ETIMEDOUT },
		{ IBV_WC_REM_ACCESS_ERR, -EACCES },
		{ IBV_WC_LOC_PROT_ERR, -EFAULT },
		{ IBV_WC_MW_BIND_ERR, -EFAULT },
		{ IBV_WC_REM_INV_REQ_ERR, -EREMOTEIO },
		{ IBV_WC_REM_OP_ERR, -EREMOTEIO },
		{ IBV_WC_LOC_QP_OP_ERR, -EIO },
	};
	int status;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(codes); i++)
		assert_int_equal(otte_rdma_status_code(codes[i].status), codes[i].code);
	for (status = IBV_WC_SUCCESS; status <= IBV_WC_TM_RNDV_INCOMPLETE; status++)
		assert_int_not_equal(otte_rdma_status_code((enum ibv_wc_status)status), -EPROTO);
}

/* ---- Signals --------------------------------------------------------------------------------- */

/* In place of the requester's QP, one with this interval, to a source's of its own. */
static void with_interval(uint32_t max_send_wr, uint32_t interval)
{
	struct otte_rdma_qp_params params = requester_params();

	assert_int_equal(otte_rdma_qp_destroy(requester.qp), 0);
	params.max_send_wr = max_send_wr;
	params.signal_interval = interval;
	requester.qp = end_create_qp(&requester, &params);
	assert_int_equal(otte_rdma_qp_drain(source.qp, -ECANCELED, "another"), 0);
	ends_poll();
	assert_int_equal(otte_rdma_window_free(window), 0);
	assert_int_equal(otte_rdma_qp_destroy(source.qp), 0);
	params = source_params();
	source.qp = end_create_qp(&source, &params);
	qps_connect(requester.qp, source.qp);
	window = source_bind(0, END_BYTES, OTTE_READ);
}

static void an_interval_is_at_most_half_the_queue_and_the_tail_is_signalled(void **state)
{
	(void)state;
	with_interval(8, 100);
	assert_int_equal(post_reads(6), 0);
	assert_int_equal(sim_counts(requester.device).cqes, 2);
	assert_charged(&requester, 6, 0);
	assert_int_equal(end_poll(&requester), 2);
	assert_told(0, 6, 1, 0);
	assert_charged(&requester, 0, 0);
	assert_int_equal(otte_rdma_credits_free(&requester.lane->sends), END_CQES);
}

static void every_nth_is_signalled(void **state)
{
	(void)state;
	with_interval(8, 2);
	assert_int_equal(post_reads(7), 0);
	assert_int_equal(sim_counts(requester.device).cqes, 4);
	assert_int_equal(end_poll(&requester), 4);
	assert_told(0, 7, 1, 0);
}

static void a_prefix_that_will_not_be_heard_of_fences(void **state)
{
	(void)state;
	with_interval(8, 4);
	fail_post(SIM_POST_SEND, 2, SIM_BAD_WR_EXACT);
	assert_int_equal(post_reads(4), -EPROTO);
	assert_int_equal(accepted, 2);
	assert_charged(&requester, 2, 0);
	assert_fenced(&requester, -EPROTO, "behind one without a signal");
	assert_told(0, 2, 0, 0);
	drop_qps();
	assert_drained(0, 2);
}

static void an_error_of_one_without_a_signal_is_told(void **state)
{
	(void)state;
	with_interval(8, 4);
	fail_wr(1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(post_reads(4), 0);
	sim_drain();
	end_poll(&requester);
	assert_told(0, 1, 1, 0);
	assert_told(1, 2, 1, -EACCES);
	assert_told(2, 4, 1, -ECANCELED);
	assert_charged(&requester, 0, 0);
}

/* ---- Any order ------------------------------------------------------------------------------- */

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % below;
}

/* Any of the faults, or none. */
static void arm_any(void)
{
	static const enum sim_fault_kind kinds[] = { SIM_FAULT_CQE_LOST, SIM_FAULT_CQE_TWICE,
						     SIM_FAULT_CQE_WR_ID, SIM_FAULT_CQE_QPN };
	static const enum sim_bad_wr bad_wrs[] = { SIM_BAD_WR_EXACT, SIM_BAD_WR_NULL,
						   SIM_BAD_WR_FOREIGN };

	if (draw(4))
		spoil_cqe(&requester, kinds[draw(ARRAY_SIZE(kinds))], draw(12), 1 + draw(3));
	if (draw(4))
		fail_post(SIM_POST_SEND, draw(2), bad_wrs[draw(ARRAY_SIZE(bad_wrs))]);
}

/* Each work that may have been taken is told once, and what is not told is what is charged. */
static void whatever_fails_each_work_is_told_once(void **state)
{
	uint32_t posted = 0, count, i, untold;
	unsigned int round, more;
	struct otte_rdma_send sends[4];
	const char *given = getenv("SEED");

	(void)state;
	seed = given ? strtoull(given, NULL, 0) : 20261130;
	print_message("SEED=%llu\n", (unsigned long long)seed);
	for (round = 0; round < 200; round++) {
		sim_progress_set(SIM_STEPPED, 1 + draw(1000));
		arm_any();
		for (more = 0, posted = 0; more < 12; more++) {
			count = 1 + draw(4);
			for (i = 0; i < count; i++) {
				told_init(&told[posted + i]);
				sends[i] = payload(OTTE_RDMA_READ, 0, 8, window->key);
				sends[i].work = &told[posted + i].work;
			}
			otte_rdma_qp_post(requester.qp, sends, count, &accepted);
			posted += accepted;
			for (i = draw(6); i; i--)
				sim_step();
			if (draw(2))
				end_poll(&requester);
			for (untold = 0, i = 0; i < posted; i++)
				untold += !told[i].count;
			assert_int_equal(end_status(&requester).sends, untold);
			assert_int_equal(lane_status(&requester).sends, untold);
		}
		drop_qps();
		for (i = 0; i < posted; i++)
			assert_int_equal(told[i].count, 1);
		finish_all(state);
		start(state);
	}
}

int run_send_tests(void)
{
	const struct CMUnitTest tests[] = {
#define OWN(test) cmocka_unit_test_setup_teardown(test, start, finish_all)
		OWN(a_read_moves_its_bytes_and_is_told_once),
		OWN(no_more_are_posted_than_the_queue_has_places),
		OWN(no_more_are_posted_than_the_cq_has_places),
		OWN(ids_go_round),
		OWN(what_cannot_be_posted_is_refused_whole),
		OWN(only_a_proven_suffix_is_given_back),
		OWN(no_bad_wr_keeps_all_of_it_charged),
		OWN(a_foreign_bad_wr_keeps_all_of_it_charged),
		OWN(an_untouched_bad_wr_keeps_all_of_it_charged),
		OWN(what_was_taken_all_the_same_ends_by_its_cqe),
		OWN(a_lost_cqe_leaves_its_charge),
		OWN(a_cqe_before_an_earlier_ones_fences),
		OWN(a_cqe_of_another_wr_id_discharges_nothing),
		OWN(a_cqe_of_another_queues_wr_id_discharges_nothing),
		OWN(a_second_cqe_discharges_nothing),
		OWN(a_cqe_of_a_qpn_that_is_not_here_is_the_lanes_fault),
		OWN(a_cqe_of_a_siblings_qpn_discharges_nothing_there),
		OWN(a_cqe_of_another_opcode_discharges_nothing),
		OWN(an_error_is_told_and_the_rest_is_flushed),
		cmocka_unit_test(statuses_have_codes),
		OWN(an_interval_is_at_most_half_the_queue_and_the_tail_is_signalled),
		OWN(every_nth_is_signalled),
		OWN(a_prefix_that_will_not_be_heard_of_fences),
		OWN(an_error_of_one_without_a_signal_is_told),
		OWN(whatever_fails_each_work_is_told_once),
	};

	return cmocka_run_group_tests_name("send queue", tests, NULL, NULL);
}
