/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Windows of type 2B: exactly which bytes, by whom, for how long. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "ends.h"
#include "suites.h"

#define AT 4096
#define LENGTH 8192

static struct ibv_mw *mw;

static void bind(unsigned int access)
{
	mw = end_window(&there, AT, LENGTH, access);
}

static int start(void **state)
{
	mw = NULL;
	return ends_start(state);
}

static int finish(void **state)
{
	if (mw)
		assert_int_equal(there.verbs->dealloc_mw(mw), 0);
	return ends_finish(state);
}

static void read_ends(size_t at, uint32_t length, uint32_t key, enum ibv_wc_status status)
{
	end_read(&here, 0, length, there.bytes + at, key, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, status);
	if (status == IBV_WC_SUCCESS)
		assert_memory_equal(here.bytes, there.bytes + at, length);
	else
		assert_int_equal(here.bytes[0], 0);
}

/* ---- What a window lets through -------------------------------------------------------------- */

/* Two rounds, the one ended by the requester, the other by the owner. */
static void a_window_is_there_until_it_is_invalidated(void **state)
{
	struct ibv_wc wc;
	uint32_t key;

	(void)state;
	bind(IBV_ACCESS_REMOTE_READ);
	key = mw->rkey;
	read_ends(AT, LENGTH, key, IBV_WC_SUCCESS);
	end_recv(&there, 32768, 4096);
	end_send_inv(&here, 0, 141, key, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	wc = end_received(&there);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 141);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, key);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_int_equal(sim_counts(NULL).mws_bound, 0);

	end_bind(&there, mw, ibv_inc_rkey(key), there.bytes + AT, LENGTH, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(end_sent(&there).status, IBV_WC_SUCCESS);
	mw->rkey = ibv_inc_rkey(key);
	read_ends(AT, LENGTH, mw->rkey, IBV_WC_SUCCESS);
	end_local_inv(&there, mw->rkey);
	wc = end_sent(&there);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
	here.bytes[0] = 0;
	read_ends(AT, LENGTH, mw->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void a_byte_before_is_refused(void **state)
{
	(void)state;
	bind(IBV_ACCESS_REMOTE_READ);
	read_ends(AT - 1, 10, mw->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void a_byte_behind_is_refused(void **state)
{
	(void)state;
	bind(IBV_ACCESS_REMOTE_READ);
	read_ends(AT + LENGTH - 9, 10, mw->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void rxe_compares_with_the_parent(void **state)
{
	(void)state;
	there.device->quirks = SIM_RXE_PARENT_RANGE;
	bind(IBV_ACCESS_REMOTE_READ);
	read_ends(AT - 1, 10, mw->rkey, IBV_WC_SUCCESS);
	here.bytes[0] = 0;
	read_ends(END_BYTES - 9, 10, mw->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void the_other_direction_is_refused(void **state)
{
	(void)state;
	bind(IBV_ACCESS_REMOTE_READ);
	end_write(&here, 0, 10, there.bytes + AT, mw->rkey, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(there.bytes[AT], AT % 251 + 1);
}

static void a_window_for_writing_is_not_read(void **state)
{
	(void)state;
	bind(IBV_ACCESS_REMOTE_WRITE);
	memset(here.bytes + 100, 7, 10);
	end_write(&here, 100, 10, there.bytes + AT, mw->rkey, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_int_equal(there.bytes[AT + 9], 7);
	read_ends(AT, 10, mw->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void another_consumer_byte_is_refused(void **state)
{
	(void)state;
	bind(IBV_ACCESS_REMOTE_READ);
	read_ends(AT, 10, mw->rkey - 1, IBV_WC_REM_ACCESS_ERR);
}

static void a_window_that_was_never_bound_is_refused(void **state)
{
	(void)state;
	mw = there.verbs->alloc_mw(there.pd, IBV_MW_TYPE_2);
	read_ends(AT, 10, mw->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void a_window_is_of_the_qp_that_bound_it(void **state)
{
	struct ibv_qp *first = there.qp, *second = end_create_qp(&there);
	struct ibv_qp *own = end_create_qp(&here), *before = here.qp;

	(void)state;
	bind(IBV_ACCESS_REMOTE_READ);
	end_connect(&here, own, &there, second);
	end_connect(&there, second, &here, own);
	here.qp = own;
	read_ends(AT, 10, mw->rkey, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(end_state(&there, second), IBV_QPS_ERR);
	assert_int_equal(end_state(&there, first), IBV_QPS_RTS);
	here.qp = before;
	read_ends(AT, 10, mw->rkey, IBV_WC_SUCCESS);
	assert_int_equal(here.verbs->destroy_qp(own), 0);
	assert_int_equal(there.verbs->destroy_qp(second), 0);
}

/* ---- Binding --------------------------------------------------------------------------------- */

static void bind_fails(uint32_t key, size_t at, uint64_t length, unsigned int access)
{
	end_bind(&there, mw, key, there.bytes + at, length, access);
	assert_int_equal(end_sent(&there).status, IBV_WC_MW_BIND_ERR);
	assert_int_equal(end_state(&there, there.qp), IBV_QPS_ERR);
	assert_int_equal(sim_counts(NULL).mws_bound, 0);
}

static int start_unbound(void **state)
{
	start(state);
	mw = there.verbs->alloc_mw(there.pd, IBV_MW_TYPE_2);
	return mw ? 0 : -1;
}

static void a_bind_beyond_the_parent_fails(void **state)
{
	(void)state;
	bind_fails(mw->rkey + 1, END_BYTES - 9, 10, IBV_ACCESS_REMOTE_READ);
}

static void a_bind_of_nothing_fails(void **state)
{
	(void)state;
	bind_fails(mw->rkey + 1, 0, 0, IBV_ACCESS_REMOTE_READ);
}

static void a_bind_with_another_index_fails(void **state)
{
	(void)state;
	bind_fails(mw->rkey + 0x100, 0, 10, IBV_ACCESS_REMOTE_READ);
}

static void a_bind_to_an_mr_without_the_right_fails(void **state)
{
	struct ibv_mr *parent = there.parent;

	(void)state;
	there.parent = there.local;
	bind_fails(mw->rkey + 1, 0, 10, IBV_ACCESS_REMOTE_READ);
	there.parent = parent;
}

static void a_window_for_writing_needs_a_parent_that_is_written(void **state)
{
	struct ibv_mr *parent = there.parent;

	(void)state;
	there.parent = there.verbs->reg_mr(there.pd, there.bytes, 100, IBV_ACCESS_MW_BIND);
	assert_non_null(there.parent);
	bind_fails(mw->rkey + 1, 0, 10, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(there.verbs->dereg_mr(there.parent), 0);
	there.parent = parent;
}

static void a_window_of_another_pd_is_not_bound(void **state)
{
	struct ibv_pd *pd = there.verbs->alloc_pd(there.context);
	struct ibv_mr *parent = there.parent;
	struct ibv_mw *own = mw;

	(void)state;
	there.parent = there.verbs->reg_mr(pd, there.bytes, 100, IBV_ACCESS_MW_BIND);
	mw = there.verbs->alloc_mw(pd, IBV_MW_TYPE_2);
	bind_fails(mw->rkey + 1, 0, 10, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(there.verbs->dealloc_mw(mw), 0);
	assert_int_equal(there.verbs->dereg_mr(there.parent), 0);
	there.parent = parent;
	assert_int_equal(there.verbs->dealloc_pd(pd), 0);
	mw = own;
}

static void a_bound_window_is_not_bound_again(void **state)
{
	(void)state;
	bind(IBV_ACCESS_REMOTE_READ);
	end_bind(&there, mw, mw->rkey + 1, there.bytes, 10, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(end_sent(&there).status, IBV_WC_MW_BIND_ERR);
	assert_int_equal(sim_counts(NULL).mws_bound, 1);
}

/* As rxe has it, whose library takes mw->rkey for the window's key of now. */
static void the_caller_keeps_the_key_of_now(void **state)
{
	const uint32_t first = mw->rkey;

	(void)state;
	end_bind(&there, mw, first + 1, there.bytes, 10, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(end_sent(&there).status, IBV_WC_SUCCESS);
	assert_int_equal(mw->rkey, first);
	end_local_inv(&there, first + 1);
	assert_int_equal(end_sent(&there).status, IBV_WC_SUCCESS);
	bind_fails(first + 2, 0, 10, IBV_ACCESS_REMOTE_READ);
}

/* ---- Invalidating ---------------------------------------------------------------------------- */

static void a_key_that_names_no_window_is_the_receivers_error(void **state)
{
	(void)state;
	bind(IBV_ACCESS_REMOTE_READ);
	end_recv(&there, 0, 200);
	end_send_inv(&here, 0, 10, mw->rkey + 1, IBV_SEND_SIGNALED);
	assert_int_equal(end_received(&there).status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_int_equal(end_state(&there, there.qp), IBV_QPS_ERR);
	assert_int_equal(sim_counts(NULL).mws_bound, 1);
}

static void a_window_of_another_qp_is_not_invalidated(void **state)
{
	struct ibv_qp *other = end_create_qp(&there), *own = there.qp;

	(void)state;
	bind(IBV_ACCESS_REMOTE_READ);
	end_connect(&there, other, &here, here.qp);
	there.qp = other;
	end_local_inv(&there, mw->rkey);
	assert_int_equal(end_sent(&there).status, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(end_state(&there, other), IBV_QPS_ERR);
	assert_int_equal(sim_counts(NULL).mws_bound, 1);
	assert_int_equal(there.verbs->destroy_qp(other), 0);
	there.qp = own;
}

static void rxe_lets_any_qp_invalidate(void **state)
{
	struct ibv_qp *other = end_create_qp(&there), *own = there.qp;

	(void)state;
	there.device->quirks = SIM_RXE_ANY_QP_INVALIDATES;
	bind(IBV_ACCESS_REMOTE_READ);
	end_connect(&there, other, &here, here.qp);
	there.qp = other;
	end_local_inv(&there, mw->rkey);
	assert_int_equal(end_sent(&there).status, IBV_WC_SUCCESS);
	assert_int_equal(sim_counts(NULL).mws_bound, 0);
	assert_int_equal(there.verbs->destroy_qp(other), 0);
	there.qp = own;
}

static void rxe_flags_an_invalidation_as_the_kernel_does(void **state)
{
	struct ibv_wc wc;

	(void)state;
	there.device->quirks = SIM_RXE;
	bind(IBV_ACCESS_REMOTE_READ);
	end_recv(&there, 0, 200);
	end_send_inv(&here, 0, 10, mw->rkey, 0);
	wc = end_received(&there);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | 1 << 2);
	assert_int_equal(wc.invalidated_rkey, mw->rkey);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void a_parent_with_a_bound_window_stays(void **state)
{
	(void)state;
	bind(IBV_ACCESS_REMOTE_READ);
	assert_int_equal(there.verbs->dereg_mr(there.parent), EBUSY);
	there.device->quirks = SIM_RXE_DEREG_EINVAL;
	assert_int_equal(there.verbs->dereg_mr(there.parent), EINVAL);
	assert_int_equal(there.verbs->dealloc_mw(mw), 0);
	mw = NULL;
	assert_int_equal(there.verbs->dereg_mr(there.parent), 0);
	there.parent = NULL;
}

static void a_window_of_a_destroyed_qp_is_of_nobody(void **state)
{
	(void)state;
	bind(IBV_ACCESS_REMOTE_READ);
	assert_int_equal(there.verbs->destroy_qp(there.qp), 0);
	there.qp = end_create_qp(&there); /* where the other was, as allocators do */
	assert_int_equal(sim_counts(NULL).mws_bound, 1);
	assert_int_equal(there.verbs->dereg_mr(there.parent), EBUSY);
	assert_int_equal(here.verbs->destroy_qp(here.qp), 0);
	here.qp = end_create_qp(&here);
	end_connect(&here, here.qp, &there, there.qp);
	end_connect(&there, there.qp, &here, here.qp);
	read_ends(AT, 10, mw->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void a_freed_key_does_not_come_again_soon(void **state)
{
	const uint32_t key = mw->rkey;
	int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		assert_int_equal(there.verbs->dealloc_mw(mw), 0);
		mw = there.verbs->alloc_mw(there.pd, IBV_MW_TYPE_2);
		assert_int_not_equal(mw->rkey >> 8, key >> 8);
	}
}

static void a_key_that_was_ordered_comes_next(void **state)
{
	struct sim_fault fault = {
		.kind = SIM_FAULT_WINDOW_KEY,
		.target = there.pd,
		.times = 1,
		.value = 0x500007,
	};
	struct ibv_mw *other;

	(void)state;
	sim_fault_arm(&fault);
	other = there.verbs->alloc_mw(there.pd, IBV_MW_TYPE_2);
	assert_int_equal(other->rkey, 0x500007);
	assert_int_equal(there.verbs->dealloc_mw(other), 0);
	other = there.verbs->alloc_mw(there.pd, IBV_MW_TYPE_2);
	assert_int_not_equal(other->rkey >> 8, 0x5000);
	assert_int_equal(there.verbs->dealloc_mw(other), 0);
}

static void a_device_without_windows_has_none(void **state)
{
	(void)state;
	there.device->attr.device_cap_flags &= ~IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	errno = 0;
	assert_null(there.verbs->alloc_mw(there.pd, IBV_MW_TYPE_2));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* ---- Type 1 ---------------------------------------------------------------------------------- */

static void a_window_of_type_1_is_bound_again_and_again_by_a_verb(void **state)
{
	struct ibv_mw_bind bind_info = {
		.wr_id = 5,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { there.parent, (uintptr_t)there.bytes, 100, IBV_ACCESS_REMOTE_READ },
	};
	struct ibv_mw *one = there.verbs->alloc_mw(there.pd, IBV_MW_TYPE_1);
	uint32_t key = one->rkey;
	int i;

	(void)state;
	assert_int_equal(there.verbs->bind_mw(there.qp, mw, &bind_info), EINVAL);
	for (i = 0; i < 3; i++) {
		assert_int_equal(there.verbs->bind_mw(there.qp, one, &bind_info), 0);
		assert_int_equal(end_sent(&there).opcode, IBV_WC_BIND_MW);
		assert_int_not_equal(one->rkey, key);
		key = one->rkey;
		read_ends(0, 100, key, IBV_WC_SUCCESS);
	}
	bind_info.bind_info.length = 0;
	assert_int_equal(there.verbs->bind_mw(there.qp, one, &bind_info), 0);
	assert_int_equal(end_sent(&there).status, IBV_WC_SUCCESS);
	assert_int_equal(sim_counts(NULL).mws_bound, 0);
	assert_int_equal(there.verbs->dealloc_mw(one), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
#define UNBOUND(name) cmocka_unit_test_setup_teardown(name, start_unbound, finish)

int run_windows_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_window_is_there_until_it_is_invalidated),
		TEST(a_byte_before_is_refused),
		TEST(a_byte_behind_is_refused),
		TEST(rxe_compares_with_the_parent),
		TEST(the_other_direction_is_refused),
		TEST(a_window_for_writing_is_not_read),
		TEST(another_consumer_byte_is_refused),
		TEST(a_window_that_was_never_bound_is_refused),
		TEST(a_window_is_of_the_qp_that_bound_it),
		UNBOUND(a_bind_beyond_the_parent_fails),
		UNBOUND(a_bind_of_nothing_fails),
		UNBOUND(a_bind_with_another_index_fails),
		UNBOUND(a_bind_to_an_mr_without_the_right_fails),
		UNBOUND(a_window_for_writing_needs_a_parent_that_is_written),
		UNBOUND(a_window_of_another_pd_is_not_bound),
		TEST(a_bound_window_is_not_bound_again),
		UNBOUND(the_caller_keeps_the_key_of_now),
		TEST(a_key_that_names_no_window_is_the_receivers_error),
		TEST(a_window_of_another_qp_is_not_invalidated),
		TEST(rxe_lets_any_qp_invalidate),
		TEST(rxe_flags_an_invalidation_as_the_kernel_does),
		TEST(a_parent_with_a_bound_window_stays),
		TEST(a_window_of_a_destroyed_qp_is_of_nobody),
		UNBOUND(a_freed_key_does_not_come_again_soon),
		UNBOUND(a_key_that_was_ordered_comes_next),
		TEST(a_device_without_windows_has_none),
		UNBOUND(a_window_of_type_1_is_bound_again_and_again_by_a_verb),
	};

	return cmocka_run_group_tests_name("windows", tests, NULL, NULL);
}
