/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The receive queue: a receipt is the message that names it exactly, in whichever buffer. */
#include "ends.h"

#include <string.h>

#include "base/util.h"

#define GRANTS 3

static struct otte_rdma_window *windows[GRANTS];
static struct told_receipt receipts[GRANTS];
static struct told told;

/* Three grants over a page each, with their receipts expected. */
static int start(void **state)
{
	unsigned int i;

	ends_start(state);
	assert_int_equal(otte_rdma_qp_reserve(source.qp, GRANTS), 0);
	for (i = 0; i < GRANTS; i++) {
		windows[i] = source_bind((size_t)i * 4096, 4096, OTTE_READ);
		told_receipt_init(&receipts[i], 100 + i, windows[i]->key);
		assert_int_equal(otte_rdma_qp_expect(source.qp, &receipts[i].receipt), 0);
	}
	assert_charged(&source, 0, GRANTS);
	return 0;
}

static void drop_source_qp(void)
{
	unsigned int i;

	otte_rdma_qp_drain(source.qp, -ECANCELED, "the test ends");
	for (i = 0; i < GRANTS; i++)
		if (windows[i])
			assert_int_equal(otte_rdma_window_free(windows[i]), 0);
	assert_int_equal(otte_rdma_qp_destroy(source.qp), 0);
	source.qp = NULL;
}

static int finish_all(void **state)
{
	if (source.qp)
		drop_source_qp();
	return ends_finish(state);
}

static void send_finish(unsigned int grant)
{
	const struct otte_rdma_send send = finish(&receipts[grant]);

	assert_int_equal(end_post(&requester, &send, &told), 0);
	end_poll(&requester);
	assert_int_equal(told.count, 1);
	assert_int_equal(told.outcome.code, 0);
}

static void assert_receipts(unsigned int first, unsigned int second, unsigned int third)
{
	assert_int_equal(receipts[0].count, first);
	assert_int_equal(receipts[1].count, second);
	assert_int_equal(receipts[2].count, third);
}

/*
 * A message came that is no receipt: its buffer is free, its grant's is not told, the QP is fenced.
 */
static void assert_refused(const char *text)
{
	assert_fenced(&source, -EPROTO, text);
	assert_receipts(0, 0, 0);
	assert_int_equal(end_status(&source).expected, GRANTS);
	assert_charged(&source, 0, GRANTS - 1);
}

/* ---- Receipts -------------------------------------------------------------------------------- */

static void a_receipt_comes_with_its_message(void **state)
{
	(void)state;
	send_finish(0);
	assert_int_equal(end_poll(&source), 1);
	assert_receipts(1, 0, 0);
	assert_int_equal(receipts[0].code, 0);
	assert_false(receipts[0].receipt.expected);
	assert_charged(&source, 0, 2);
	assert_int_equal(otte_rdma_window_received(windows[0]), 0);
	assert_int_equal(windows[0]->state, OTTE_RDMA_WINDOW_INVALID);
	assert_int_equal(source.fenced, 0);
}

static void the_buffer_does_not_say_whose_receipt_it_is(void **state)
{
	(void)state;
	send_finish(2);
	end_poll(&source);
	assert_receipts(0, 0, 1);
	send_finish(0);
	end_poll(&source);
	assert_receipts(1, 0, 1);
	send_finish(1);
	end_poll(&source);
	assert_receipts(1, 1, 1);
	assert_charged(&source, 0, 0);
	assert_int_equal(source.fenced, 0);
}

static void the_queue_of_a_released_grant_serves_the_next(void **state)
{
	struct told_receipt next;

	(void)state;
	assert_true(otte_rdma_qp_forget(source.qp, &receipts[0].receipt));
	assert_false(otte_rdma_qp_forget(source.qp, &receipts[0].receipt));
	assert_charged(&source, 0, GRANTS);
	told_receipt_init(&next, 200, windows[0]->key);
	assert_int_equal(otte_rdma_qp_reserve(source.qp, 1), 0);
	assert_int_equal(otte_rdma_qp_expect(source.qp, &next.receipt), 0);
	assert_int_equal(sim_calls(SIM_POST_RECV), GRANTS);
	assert_charged(&source, 0, GRANTS);
	receipts[0] = next;
	assert_true(otte_rdma_qp_forget(source.qp, &next.receipt));
}

static void the_message_waits_for_the_reads_before_it(void **state)
{
	struct otte_rdma_send sends[2];
	struct told tolds[2];
	uint32_t accepted;

	(void)state;
	told_init(&tolds[0]);
	told_init(&tolds[1]);
	sends[0] = payload(OTTE_RDMA_READ, 0, 4096, windows[0]->key);
	sends[0].work = &tolds[0].work;
	sends[1] = finish(&receipts[0]);
	sends[1].work = &tolds[1].work;
	sim_reads_late(true);
	assert_int_equal(otte_rdma_qp_post(requester.qp, sends, 2, &accepted), 0);
	assert_int_equal(end_poll(&requester), 2);
	assert_int_equal(tolds[0].outcome.code, 0);
	assert_int_equal(tolds[1].outcome.code, 0);
	assert_int_equal(requester.bytes[4095], 0x5a);
	end_poll(&source);
	assert_receipts(1, 0, 0);
}

/* It is for who gives the grant back to say, and the source expects either. */
static void a_grant_that_was_not_used_comes_back_so(void **state)
{
	struct told_receipt unused = receipts[1];
	struct otte_rdma_send send;

	(void)state;
	send_finish(0);
	unused.receipt.binding[OTTE_RDMA_BINDING_UNUSED_AT] = 1;
	send = finish(&unused);
	assert_int_equal(end_post(&requester, &send, &told), 0);
	end_poll(&source);
	assert_receipts(1, 1, 0);
	assert_false(receipts[0].receipt.unused);
	assert_true(receipts[1].receipt.unused);
}

/* ---- What is no receipt ---------------------------------------------------------------------- */

static void another_binding_completes_nothing(void **state)
{
	unsigned int at;

	/*
	 * Any byte behind the grant's number: the nonce's first, the address's, the length's, the
	 * key's.
	 */
	static const unsigned int places[] = { 6, 40, 104, 120, 128, 136 };

	for (at = 0; at < ARRAY_SIZE(places); at++) {
		struct told_receipt changed = receipts[1];
		struct otte_rdma_send send;

		changed.receipt.binding[places[at]] ^= 1;
		send = finish(&changed);
		assert_int_equal(end_post(&requester, &send, &told), 0);
		assert_refused("with another binding");
		if (at + 1 == ARRAY_SIZE(places))
			break;
		finish_all(state);
		start(state);
	}
}

static void a_grant_that_is_not_expected_completes_nothing(void **state)
{
	struct told_receipt other;
	struct otte_rdma_send send;

	(void)state;
	told_receipt_init(&other, 999, windows[0]->key);
	send = finish(&other);
	assert_int_equal(end_post(&requester, &send, &told), 0);
	assert_refused("of a grant that is not expected");
}

static void the_key_of_another_grant_completes_nothing(void **state)
{
	struct otte_rdma_send send = finish(&receipts[0]);

	(void)state;
	send.key = windows[1]->key;
	assert_int_equal(end_post(&requester, &send, &told), 0);
	assert_refused("that has invalidated another key");
}

static void a_second_message_of_a_grant_completes_nothing(void **state)
{
	struct otte_rdma_send send = finish(&receipts[0]);

	(void)state;
	send_finish(0);
	end_poll(&source);
	assert_receipts(1, 0, 0);
	send.key = windows[1]->key;
	assert_int_equal(end_post(&requester, &send, &told), 0);
	assert_fenced(&source, -EPROTO, "of a grant that is not expected");
	assert_receipts(1, 0, 0);
}

static void a_message_that_is_no_binding_completes_nothing(void **state)
{
	struct told_receipt changed = receipts[0];
	struct otte_rdma_send send;

	(void)state;
	changed.receipt.binding[OTTE_RDMA_BINDING_UNUSED_AT] = 2;
	send = finish(&changed);
	assert_int_equal(end_post(&requester, &send, &told), 0);
	assert_refused("binding: unused is 2");
}

static void a_key_that_was_not_invalidated_completes_nothing(void **state)
{
	(void)state;
	spoil_cqe(&source, SIM_FAULT_CQE_KEY, 0, 1);
	send_finish(0);
	assert_refused("that has invalidated another key");
}

static void a_message_that_invalidated_nothing_completes_nothing(void **state)
{
	(void)state;
	spoil_cqe(&source, SIM_FAULT_CQE_FLAGS, 0, IBV_WC_WITH_INV);
	send_finish(0);
	assert_refused("that has invalidated no key");
}

static void a_message_of_another_length_completes_nothing(void **state)
{
	struct ibv_wc wc = {
		.opcode = IBV_WC_RECV,
		.byte_len = 140,
		.wc_flags = IBV_WC_WITH_INV,
		.qp_num = source.qp->end.qpn,
		.wr_id = otte_rdma_wr_id(source.qp->receive.ring.tag, 0),
	};

	(void)state;
	memcpy(otte_rdma_messages_at(&source.qp->receive.messages, 0), receipts[0].receipt.binding,
	       OTTE_RDMA_BINDING_BYTES);
	wc.invalidated_rkey = receipts[0].receipt.key;
	otte_rdma_qp_received(source.qp, &wc);
	assert_refused("with a message of another length");
}

/* ---- The quirk of rxe ------------------------------------------------------------------------ */

static int start_rxe(void **state)
{
	start(state);
	source.device->quirks = SIM_RXE_INV_FLAG;
	return 0;
}

static void rxes_flag_is_taken_on_rxe(void **state)
{
	(void)state;
	source.qp->receive.rxe = true;
	send_finish(0);
	end_poll(&source);
	assert_receipts(1, 0, 0);
	assert_int_equal(source.fenced, 0);
}

static void rxes_flag_is_taken_nowhere_else(void **state)
{
	(void)state;
	assert_false(source.qp->receive.rxe);
	send_finish(0);
	assert_refused("that has invalidated no key");
}

static void a_queue_knows_that_its_context_is_rxes(void **state)
{
	const struct otte_rdma_qp_params params = source_params();
	struct otte_rdma_qp *qp;

	(void)state;
	source.context->rxe = true;
	qp = end_create_qp(&source, &params);
	assert_true(qp->receive.rxe);
	assert_int_equal(otte_rdma_qp_destroy(qp), 0);
}

/* ---- CQEs that cannot be --------------------------------------------------------------------- */

static void a_second_cqe_of_a_receive_completes_nothing(void **state)
{
	(void)state;
	spoil_cqe(&source, SIM_FAULT_CQE_TWICE, 0, 0);
	send_finish(0);
	assert_int_equal(end_poll(&source), 2);
	assert_receipts(1, 0, 0);
	assert_charged(&source, 0, 2);
	assert_fenced(&source, -EPROTO, "that is not under way");
}

static void a_cqe_of_another_receive_completes_nothing(void **state)
{
	(void)state;
	spoil_cqe(&source, SIM_FAULT_CQE_WR_ID, 0, 1ull << 20);
	send_finish(0);
	assert_int_equal(end_poll(&source), 1);
	assert_receipts(0, 0, 0);
	assert_charged(&source, 0, 3);
	assert_fenced(&source, -EPROTO, "that is not under way");
}

static void a_lost_cqe_of_a_receive_leaves_its_charge(void **state)
{
	(void)state;
	spoil_cqe(&source, SIM_FAULT_CQE_LOST, 0, 0);
	send_finish(0);
	assert_int_equal(end_poll(&source), 0);
	assert_receipts(0, 0, 0);
	assert_charged(&source, 0, 3);
	send_finish(1);
	assert_int_equal(end_poll(&source), 1);
	assert_receipts(0, 0, 0);
	assert_charged(&source, 0, 2);
	assert_fenced(&source, -EPROTO, "before an earlier one's");
	drop_source_qp();
	assert_receipts(1, 1, 1);
	assert_int_equal(receipts[0].code, -ECANCELED);
	assert_true(lane_status(&source).receives > 0);
}

static void a_destroyed_qp_tells_what_will_not_come(void **state)
{
	(void)state;
	drop_source_qp();
	assert_receipts(1, 1, 1);
	assert_int_equal(receipts[1].code, -ECANCELED);
}

/* ---- Room ------------------------------------------------------------------------------------ */

static void no_more_are_reserved_than_there_are_places(void **state)
{
	(void)state;
	assert_int_equal(otte_rdma_qp_reserve(source.qp, 2), -EAGAIN);
	assert_int_equal(otte_rdma_qp_reserve(source.qp, 1), 0);
	assert_int_equal(lane_status(&source).receives, 4);
	assert_int_equal(otte_rdma_qp_reserve(source.qp, 1), -EAGAIN);
	otte_rdma_qp_release(source.qp, 1);
	assert_int_equal(lane_status(&source).receives, 3);
	assert_true(otte_rdma_credits_take(&source.lane->receives, END_CQES - GRANTS));
	assert_int_equal(otte_rdma_qp_reserve(source.qp, 1), -EAGAIN);
	otte_rdma_credits_give(&source.lane->receives, END_CQES - GRANTS);
	assert_int_equal(otte_rdma_qp_reserve(source.qp, 1), 0);
	otte_rdma_qp_release(source.qp, 1);
}

static void what_is_not_reserved_is_not_expected(void **state)
{
	struct told_receipt more;

	(void)state;
	told_receipt_init(&more, 300, 1);
	assert_int_equal(otte_rdma_qp_expect(source.qp, &more.receipt), -EINVAL);
	assert_int_equal(otte_rdma_qp_reserve(source.qp, 1), 0);
	told_receipt_init(&more, 100, 1);
	assert_int_equal(otte_rdma_qp_expect(source.qp, &more.receipt), -EEXIST);
	otte_rdma_qp_release(source.qp, 1);
	assert_charged(&source, 0, 3);
}

static void a_buffer_that_was_not_taken_is_free_again(void **state)
{
	struct told_receipt more;

	(void)state;
	told_receipt_init(&more, 300, 1);
	assert_int_equal(otte_rdma_qp_reserve(source.qp, 1), 0);
	fail_post(SIM_POST_RECV, 0, SIM_BAD_WR_EXACT);
	assert_int_equal(otte_rdma_qp_expect(source.qp, &more.receipt), -ENOMEM);
	assert_string_equal(otte_error_text(), "ibv_post_recv: Cannot allocate memory");
	assert_false(more.receipt.expected);
	assert_charged(&source, 0, 3);
	assert_int_equal(source.fenced, 0);
	assert_int_equal(end_status(&source).state, OTTE_RDMA_QP_READY);
}

static void a_buffer_that_may_have_been_taken_stays_charged(void **state)
{
	struct told_receipt more;

	(void)state;
	told_receipt_init(&more, 300, 1);
	assert_int_equal(otte_rdma_qp_reserve(source.qp, 1), 0);
	fail_post(SIM_POST_RECV, 0, SIM_BAD_WR_NULL);
	assert_int_equal(otte_rdma_qp_expect(source.qp, &more.receipt), -EUCLEAN);
	assert_false(more.receipt.expected);
	assert_charged(&source, 0, 4);
	assert_fenced(&source, -EUCLEAN, "ibv_post_recv: Cannot allocate memory, and not which");
	drop_source_qp();
	assert_int_equal(more.count, 0);
	assert_true(lane_status(&source).receives >= 1);
}

static void a_fenced_queue_expects_nothing(void **state)
{
	struct told_receipt more;

	(void)state;
	assert_int_equal(otte_rdma_qp_reserve(source.qp, 1), 0);
	otte_rdma_qp_fence(source.qp, -ESTALE, "the route is another");
	told_receipt_init(&more, 300, 1);
	assert_int_equal(otte_rdma_qp_expect(source.qp, &more.receipt), -ESHUTDOWN);
	assert_text("is not in use: the route is another");
	otte_rdma_qp_release(source.qp, 1);
	assert_charged(&source, 0, 3);
}

int run_receive_tests(void)
{
	const struct CMUnitTest tests[] = {
#define OWN(test) cmocka_unit_test_setup_teardown(test, start, finish_all)
		OWN(a_receipt_comes_with_its_message),
		OWN(the_buffer_does_not_say_whose_receipt_it_is),
		OWN(the_queue_of_a_released_grant_serves_the_next),
		OWN(the_message_waits_for_the_reads_before_it),
		OWN(a_grant_that_was_not_used_comes_back_so),
		OWN(another_binding_completes_nothing),
		OWN(a_grant_that_is_not_expected_completes_nothing),
		OWN(the_key_of_another_grant_completes_nothing),
		OWN(a_second_message_of_a_grant_completes_nothing),
		OWN(a_message_that_is_no_binding_completes_nothing),
		OWN(a_key_that_was_not_invalidated_completes_nothing),
		OWN(a_message_that_invalidated_nothing_completes_nothing),
		OWN(a_message_of_another_length_completes_nothing),
		cmocka_unit_test_setup_teardown(rxes_flag_is_taken_on_rxe, start_rxe, finish_all),
		cmocka_unit_test_setup_teardown(rxes_flag_is_taken_nowhere_else, start_rxe,
						finish_all),
		OWN(a_queue_knows_that_its_context_is_rxes),
		OWN(a_second_cqe_of_a_receive_completes_nothing),
		OWN(a_cqe_of_another_receive_completes_nothing),
		OWN(a_lost_cqe_of_a_receive_leaves_its_charge),
		OWN(a_destroyed_qp_tells_what_will_not_come),
		OWN(no_more_are_reserved_than_there_are_places),
		OWN(what_is_not_reserved_is_not_expected),
		OWN(a_buffer_that_was_not_taken_is_free_again),
		OWN(a_buffer_that_may_have_been_taken_stays_charged),
		OWN(a_fenced_queue_expects_nothing),
	};

	return cmocka_run_group_tests_name("receive queue", tests, NULL, NULL);
}
