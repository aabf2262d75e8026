/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Windows: exact authority by a key that nobody had, until an end that is proven. */
#include "ends.h"

#include <string.h>

#include "base/util.h"

static struct told told;

static int finish_all(void **state)
{
	if (source.qp) {
		otte_rdma_qp_drain(source.qp, -ECANCELED, "the test ends");
		end_poll(&source);
	}
	return ends_finish(state);
}

/* A new pair of QPs after one that a refused request has put into ERR. */
static void new_qps(void)
{
	const struct otte_rdma_qp_params requesters = requester_params();
	const struct otte_rdma_qp_params sources = source_params();

	assert_int_equal(otte_rdma_qp_destroy(requester.qp), 0);
	assert_int_equal(otte_rdma_qp_destroy(source.qp), 0);
	requester.qp = end_create_qp(&requester, &requesters);
	source.qp = end_create_qp(&source, &sources);
	qps_connect(requester.qp, source.qp);
}

/* What the payload comes to, over [at, at + bytes) with this key. */
static int try(enum otte_rdma_op op, size_t at, uint64_t bytes, uint32_t key)
{
	const struct otte_rdma_send send = payload(op, at, bytes, key);

	assert_int_equal(end_post(&requester, &send, &told), 0);
	ends_poll();
	assert_int_equal(told.count, 1);
	return told.outcome.code;
}

static void a_window_opens_its_range_in_its_direction_and_no_more(void **state)
{
	static const struct {
		size_t at;
		uint64_t bytes;
		enum otte_rdma_op op;
		int code;
	} tries[] = {
		{ 4096, 8192, OTTE_RDMA_READ, 0 },	 { 4096, 1, OTTE_RDMA_READ, 0 },
		{ 12287, 1, OTTE_RDMA_READ, 0 },	 { 4095, 8192, OTTE_RDMA_READ, -EACCES },
		{ 4096, 8193, OTTE_RDMA_READ, -EACCES }, { 4095, 1, OTTE_RDMA_READ, -EACCES },
		{ 12288, 1, OTTE_RDMA_READ, -EACCES },	 { 4096, 1, OTTE_RDMA_WRITE, -EACCES },
	};
	struct otte_rdma_window *window;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(tries); i++) {
		memset(requester.bytes, 0, END_BYTES);
		window = source_bind(4096, 8192, OTTE_READ);
		assert_int_equal(try(tries[i].op, tries[i].at, tries[i].bytes, window->key),
				 tries[i].code);
		assert_int_equal(requester.bytes[tries[i].at], tries[i].code ? 0 : 0x5a);
		assert_int_equal(source.bytes[4096], 0x5a);
		otte_rdma_qp_drain(source.qp, -ECANCELED, "done");
		assert_int_equal(otte_rdma_window_free(window), 0);
		new_qps();
	}
}

static void a_window_for_writing_is_not_for_reading(void **state)
{
	struct otte_rdma_window *window = source_bind(0, 4096, OTTE_WRITE);

	(void)state;
	memset(requester.bytes, 0x11, END_BYTES);
	assert_int_equal(try(OTTE_RDMA_WRITE, 0, 4096, window->key), 0);
	assert_int_equal(source.bytes[4095], 0x11);
	assert_int_equal(source.bytes[4096], 0x5a);
	assert_int_equal(try(OTTE_RDMA_READ, 0, 1, window->key), -EACCES);
	otte_rdma_qp_drain(source.qp, -ECANCELED, "done");
	assert_int_equal(otte_rdma_window_free(window), 0);
}

static void invalidate(struct otte_rdma_window *window)
{
	told_init(&told);
	assert_int_equal(otte_rdma_window_invalidate(window, source.qp, &told.work), 0);
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_INVALIDATING);
	end_poll(&source);
	assert_int_equal(told.count, 1);
	assert_int_equal(otte_rdma_window_invalidated(window, &told.outcome), 0);
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_INVALID);
}

static void a_window_that_its_source_invalidated_opens_nothing(void **state)
{
	struct otte_rdma_window *window = source_bind(0, 4096, OTTE_READ);

	(void)state;
	assert_int_equal(try(OTTE_RDMA_READ, 0, 1, window->key), 0);
	invalidate(window);
	assert_int_equal(try(OTTE_RDMA_READ, 0, 1, window->key), -EACCES);
	otte_rdma_window_put(window);
}

static void a_window_is_used_again_with_a_key_that_nobody_had(void **state)
{
	struct otte_rdma_window *window = source_bind(0, 4096, OTTE_READ), *again;
	uint32_t key = window->key;

	(void)state;
	invalidate(window);
	otte_rdma_window_put(window);
	again = source_bind(0, 4096, OTTE_READ);
	assert_ptr_equal(again, window);
	assert_int_equal(sim_counts(source.device).mws, 1);
	assert_int_equal(again->key >> 8, key >> 8);
	assert_int_not_equal(again->key, key);
	assert_int_equal(try(OTTE_RDMA_READ, 0, 1, again->key), 0);
	assert_int_equal(try(OTTE_RDMA_READ, 0, 1, key), -EACCES);
	otte_rdma_qp_drain(source.qp, -ECANCELED, "done");
	assert_int_equal(otte_rdma_window_free(again), 0);
}

static void an_index_is_parked_after_255_grants(void **state)
{
	struct otte_rdma_window *window, *first;
	unsigned int grants;

	(void)state;
	assert_int_equal(otte_rdma_window_take(source.context, &first), 0);
	for (grants = 1; first->state != OTTE_RDMA_WINDOW_PARKED; grants++) {
		otte_rdma_window_put(first);
		if (first->state == OTTE_RDMA_WINDOW_PARKED)
			break;
		assert_int_equal(otte_rdma_window_take(source.context, &window), 0);
		assert_ptr_equal(window, first);
	}
	assert_int_equal(grants, 255);
	assert_int_equal(otte_rdma_window_take(source.context, &window), 0);
	assert_ptr_not_equal(window, first);
	assert_int_equal(sim_counts(source.device).mws, 2);
	assert_int_not_equal(window->key >> 8, first->key >> 8);
	otte_rdma_window_put(window);
}

static void with_indices(uint32_t max)
{
	otte_rdma_keys_destroy(source.context->keys);
	assert_int_equal(otte_rdma_keys_create(max, &source.context->keys), 0);
}

static void want_of_indices_names_its_budget(void **state)
{
	struct otte_rdma_window *window, *none;

	(void)state;
	with_indices(1);
	assert_int_equal(otte_rdma_window_take(source.context, &window), 0);
	assert_int_equal(otte_rdma_window_take(source.context, &none), -EDQUOT);
	assert_string_equal(otte_error_text(),
			    "mlx5_0: rdma.key_indices (1) are all used up");
	assert_int_equal(sim_counts(source.device).mws, 1);
	otte_rdma_window_put(window);
	assert_int_equal(otte_rdma_window_take(source.context, &window), 0);
	otte_rdma_window_put(window);
}

static void a_key_that_was_in_use_before_is_not_taken(void **state)
{
	struct otte_rdma_window *window, *none;
	struct sim_fault fault = { .kind = SIM_FAULT_WINDOW_KEY, .times = 1 };

	(void)state;
	assert_int_equal(otte_rdma_window_take(source.context, &window), 0);
	fault.value = window->key;
	assert_int_equal(otte_rdma_window_free(window), 0);
	sim_fault_arm(&fault);
	assert_int_equal(otte_rdma_window_take(source.context, &none), -EEXIST);
	assert_text("mlx5_0: the provider gave key 0x");
	assert_int_equal(sim_counts(source.device).mws, 0);
}

static void what_fails_in_taking_leaves_nothing(void **state)
{
	struct otte_rdma_window *window;

	(void)state;
	fail_call(SIM_ALLOC_MW, ENOMEM);
	assert_int_equal(otte_rdma_window_take(source.context, &window), -ENOMEM);
	assert_string_equal(otte_error_text(), "mlx5_0: ibv_alloc_mw: Cannot allocate memory");
	fail_allocation = 1;
	assert_int_equal(otte_rdma_window_take(source.context, &window), -ENOMEM);
	fail_allocation = 0;
	assert_string_equal(otte_error_text(), "mlx5_0: no memory for a window");
	assert_int_equal(sim_counts(source.device).mws, 0);
}

/* ---- Binds that fail ------------------------------------------------------------------------- */

static int bind(struct otte_rdma_window *window)
{
	const struct otte_rdma_window_range range = {
		.parent = &source.parent,
		.address = (uintptr_t)source.bytes,
		.bytes = 4096,
		.direction = OTTE_READ,
	};

	told_init(&told);
	return otte_rdma_window_bind(window, source.qp, &range, &told.work);
}

static void a_bind_that_was_not_taken_leaves_it_fresh(void **state)
{
	struct otte_rdma_window *window;

	(void)state;
	assert_int_equal(otte_rdma_window_take(source.context, &window), 0);
	fail_post(SIM_POST_SEND, 0, SIM_BAD_WR_EXACT);
	assert_int_equal(bind(window), -ENOMEM);
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_FRESH);
	assert_int_equal(bind(window), 0);
	end_poll(&source);
	assert_int_equal(otte_rdma_window_bound(window, &told.outcome), 0);
	assert_int_equal(bind(window), -EPROTO);
	assert_text("is bound, not fresh");
	assert_int_equal(otte_rdma_window_bound(window, &told.outcome), -EPROTO);
	invalidate(window);
	otte_rdma_window_put(window);
}

static void a_bind_of_which_nobody_knows_leaves_it_unknown(void **state)
{
	struct otte_rdma_window *window;

	(void)state;
	assert_int_equal(otte_rdma_window_take(source.context, &window), 0);
	fail_post(SIM_POST_SEND, 0, SIM_BAD_WR_NULL);
	assert_int_equal(bind(window), -EUCLEAN);
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_UNKNOWN);
	assert_fenced(&source, -EUCLEAN, "and not which of 1");
	assert_charged(&source, 1, 0);
	otte_rdma_qp_drain(source.qp, -ECANCELED, "done");
	assert_int_equal(otte_rdma_window_free(window), 0);
	assert_int_equal(told.count, 0);
	assert_int_equal(otte_rdma_qp_destroy(source.qp), 0);
	source.qp = NULL;
	assert_int_equal(told.count, 1);
	assert_int_equal(told.outcome.evidence, OTTE_RDMA_DRAINED);
}

static void a_bind_that_failed_leaves_it_unknown(void **state)
{
	struct otte_rdma_window *window;

	(void)state;
	assert_int_equal(otte_rdma_window_take(source.context, &window), 0);
	fail_wr(0, IBV_WC_MW_BIND_ERR);
	assert_int_equal(bind(window), 0);
	end_poll(&source);
	assert_int_equal(otte_rdma_window_bound(window, &told.outcome), -EFAULT);
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_UNKNOWN);
	assert_int_equal(end_status(&source).state, OTTE_RDMA_QP_DRAINING);
	assert_int_equal(otte_rdma_window_free(window), 0);
}

static void a_receipt_before_the_bind_is_none(void **state)
{
	struct otte_rdma_window *window;

	(void)state;
	assert_int_equal(otte_rdma_window_take(source.context, &window), 0);
	assert_int_equal(otte_rdma_window_received(window), -EPROTO);
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_FRESH);
	otte_rdma_window_put(window);
}

/* ---- rxe ----------------------------------------------------------------------------------- */

static void on_rxe_a_window_has_a_parent_of_its_own(void **state)
{
	unsigned int mrs = sim_counts(source.device).mrs;
	struct otte_rdma_window *window = source_bind(4096, 8192, OTTE_READ);

	(void)state;
	assert_int_equal(sim_counts(source.device).mrs, mrs + 1);
	assert_int_equal(window->own.bytes, 8192);
	invalidate(window);
	assert_int_equal(otte_rdma_window_put(window), 0);
	assert_int_equal(sim_counts(source.device).mrs, mrs);
}

static void on_rxe_a_parent_that_is_not_released_is_retained(void **state)
{
	struct otte_rdma_window *window = source_bind(4096, 8192, OTTE_READ);

	(void)state;
	invalidate(window);
	fail_call(SIM_DEREG_MR, EBUSY);
	assert_int_equal(otte_rdma_window_put(window), -EUCLEAN);
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_RETAINED);
	assert_int_equal(source.context->retained.mrs, 1);
	assert_null(source.context->idle);
	assert_int_equal(otte_rdma_window_free(window), -EUCLEAN);
	assert_int_equal(sim_calls(SIM_DEALLOC_MW), 0);
}

static void on_rxe_a_bind_that_was_not_taken_keeps_no_parent(void **state)
{
	unsigned int mrs = sim_counts(source.device).mrs;
	struct otte_rdma_window *window;

	(void)state;
	assert_int_equal(otte_rdma_window_take(source.context, &window), 0);
	fail_call(SIM_REG_MR, EFAULT);
	assert_int_equal(bind(window), -EFAULT);
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_FRESH);
	fail_post(SIM_POST_SEND, 0, SIM_BAD_WR_EXACT);
	assert_int_equal(bind(window), -ENOMEM);
	assert_string_equal(otte_error_text(), "ibv_post_send: Cannot allocate memory");
	assert_int_equal(sim_counts(source.device).mrs, mrs);
	fail_post(SIM_POST_SEND, 0, SIM_BAD_WR_EXACT);
	fail_call(SIM_DEREG_MR, EBUSY);
	assert_int_equal(bind(window), -EUCLEAN);
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_UNKNOWN);
	assert_int_equal(otte_rdma_window_free(window), -EUCLEAN);
	assert_int_equal(sim_counts(source.device).mrs, mrs + 1);
	assert_int_equal(sim_counts(source.device).mws, 0);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void a_window_that_is_bound_is_not_put_back(void **state)
{
	struct otte_rdma_window *window = source_bind(0, 4096, OTTE_READ);

	(void)state;
	assert_int_equal(otte_rdma_window_put(window), -EPROTO);
	assert_text("is bound, not invalidated");
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_BOUND);
	assert_null(source.context->idle);
	assert_int_equal(otte_rdma_window_free(window), 0);
}

static void a_window_that_is_freed_opens_nothing(void **state)
{
	struct otte_rdma_window *window = source_bind(0, 4096, OTTE_READ);
	uint32_t key = window->key;

	(void)state;
	assert_int_equal(otte_rdma_window_free(window), 0);
	assert_int_equal(try(OTTE_RDMA_READ, 0, 1, key), -EACCES);
}

static void a_window_that_cannot_be_freed_is_retained_and_untried(void **state)
{
	struct otte_rdma_window *window = source_bind(0, 4096, OTTE_READ);
	unsigned long calls;

	(void)state;
	otte_rdma_qp_drain(source.qp, -ECANCELED, "done");
	fail_call(SIM_DEALLOC_MW, EBUSY);
	assert_int_equal(otte_rdma_window_free(window), -EUCLEAN);
	assert_text(": Device or resource busy; retained");
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_RETAINED);
	calls = sim_calls(SIM_DEALLOC_MW);
	assert_int_equal(otte_rdma_window_free(window), -EUCLEAN);
	assert_int_equal(sim_calls(SIM_DEALLOC_MW), calls);
	assert_int_equal(source.context->retained.windows, 1);
	assert_int_equal(otte_rdma_qp_destroy(source.qp), 0);
	assert_int_equal(otte_rdma_lane_destroy(source.lane), 0);
	assert_int_equal(otte_rdma_mr_release(&source.local), 0);
	assert_int_equal(otte_rdma_mr_release(&source.parent), -EUCLEAN);
	assert_int_equal(otte_rdma_context_set_close(&source.set), -EUCLEAN);
	assert_int_equal(sim_calls(SIM_DEALLOC_MW), calls);
	assert_int_equal(sim_counts(source.device).mws, 1);
}

static void an_idle_window_that_cannot_be_freed_keeps_its_context(void **state)
{
	struct otte_rdma_window *window = source_bind(0, 4096, OTTE_READ);
	unsigned long calls;

	(void)state;
	invalidate(window);
	otte_rdma_window_put(window);
	assert_int_equal(otte_rdma_qp_destroy(source.qp), 0);
	assert_int_equal(otte_rdma_lane_destroy(source.lane), 0);
	assert_int_equal(otte_rdma_mr_release(&source.local), 0);
	assert_int_equal(otte_rdma_mr_release(&source.parent), 0);
	fail_call(SIM_DEALLOC_MW, EBUSY);
	assert_int_equal(otte_rdma_context_set_close(&source.set), -EUCLEAN);
	calls = sim_calls(SIM_DEALLOC_MW);
	assert_int_equal(otte_rdma_context_set_close(&source.set), -EUCLEAN);
	assert_int_equal(sim_calls(SIM_DEALLOC_MW), calls);
	assert_int_equal(sim_calls(SIM_DEALLOC_PD), 0);
}

int run_window_tests(void)
{
	const struct CMUnitTest tests[] = {
#define OWN(test) cmocka_unit_test_setup_teardown(test, ends_start, finish_all)
#define KEPT(test) cmocka_unit_test_setup_teardown(test, ends_start, ends_forget)
#define RXE(test) cmocka_unit_test_setup_teardown(test, ends_start_rxe, finish_all)
#define RXE_KEPT(test) cmocka_unit_test_setup_teardown(test, ends_start_rxe, ends_forget)
		OWN(a_window_opens_its_range_in_its_direction_and_no_more),
		RXE(a_window_opens_its_range_in_its_direction_and_no_more),
		OWN(a_window_for_writing_is_not_for_reading),
		OWN(a_window_that_its_source_invalidated_opens_nothing),
		OWN(a_window_is_used_again_with_a_key_that_nobody_had),
		OWN(an_index_is_parked_after_255_grants),
		OWN(want_of_indices_names_its_budget),
		OWN(a_key_that_was_in_use_before_is_not_taken),
		OWN(what_fails_in_taking_leaves_nothing),
		OWN(a_bind_that_was_not_taken_leaves_it_fresh),
		OWN(a_bind_of_which_nobody_knows_leaves_it_unknown),
		OWN(a_bind_that_failed_leaves_it_unknown),
		OWN(a_receipt_before_the_bind_is_none),
		RXE(on_rxe_a_window_has_a_parent_of_its_own),
		RXE_KEPT(on_rxe_a_parent_that_is_not_released_is_retained),
		RXE_KEPT(on_rxe_a_bind_that_was_not_taken_keeps_no_parent),
		OWN(a_window_that_is_bound_is_not_put_back),
		OWN(a_window_that_is_freed_opens_nothing),
		KEPT(a_window_that_cannot_be_freed_is_retained_and_untried),
		KEPT(an_idle_window_that_cannot_be_freed_keeps_its_context),
	};

	return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
