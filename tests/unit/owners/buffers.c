/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ends.h"

#include <string.h>
#include <sys/resource.h>

#include "base/util.h"
#include "transport/rdma/buffers.h"

static struct otte_rdma_context_set set;
static struct otte_rdma_buffers *buffers;
static struct sim_device *devices[2];
static uint8_t bytes[8192];

static const struct otte_rdma_buffer_spec local = { .region = 7,
						    .at = bytes,
						    .bytes = sizeof(bytes),
						    .remote = false };
static const struct otte_rdma_buffer_spec remote = { .region = 7,
						     .at = bytes,
						     .bytes = sizeof(bytes),
						     .remote = true };

static int start(void **state)
{
	const struct otte_rdma_buffers_params params = OTTE_RDMA_BUFFERS_PARAMS;

	(void)state;
	sim_reset();
	devices[0] = sim_device_add(0, "mlx5_0");
	devices[1] = sim_device_add(0, "mlx5_1");
	set_open(0, &set);
	assert_int_equal(otte_rdma_buffers_open(&set, &params, &buffers), 0);
	return 0;
}

static int finish_all(void **state)
{
	(void)state;
	assert_int_equal(otte_rdma_buffers_close(buffers), 0);
	assert_int_equal(otte_rdma_context_set_close(&set), 0);
	assert_string_equal(sim_left(), "");
	return 0;
}

static int keep(void **state)
{
	(void)state;
	keep_reachable(&set, sizeof(set));
	keep_reachable(&buffers, sizeof(buffers));
	return 0;
}

static struct otte_rdma_buffers_stats stats(void)
{
	struct otte_rdma_buffers_stats now;

	otte_rdma_buffers_stats(buffers, &now);
	return now;
}

static void assert_charges(uint32_t mrs, uint64_t charged)
{
	assert_int_equal(stats().mrs, mrs);
	assert_int_equal(stats().bytes, charged);
}

static void with_budget(uint32_t mrs, uint64_t most)
{
	const struct otte_rdma_buffers_params params = { mrs, most };

	assert_int_equal(otte_rdma_buffers_close(buffers), 0);
	assert_int_equal(otte_rdma_buffers_open(&set, &params, &buffers), 0);
}

/* ---- Publishing ------------------------------------------------------------------------------ */

static void a_local_region_has_an_mr_on_each_context(void **state)
{
	const struct otte_rdma_buffer *buffer;

	(void)state;
	assert_int_equal(otte_rdma_buffers_publish(buffers, &local), 0);
	assert_int_equal(sim_counts(devices[0]).mrs, 1);
	assert_int_equal(sim_counts(devices[1]).mrs, 1);
	assert_charges(2, 2 * sizeof(bytes));
	buffer = otte_rdma_buffers_get(buffers, 7);
	assert_non_null(buffer);
	assert_int_equal(buffer->by_nic[0].local.state, OTTE_RDMA_MR_LIVE);
	assert_int_equal(buffer->by_nic[0].parent.state, OTTE_RDMA_MR_NONE);
	otte_rdma_buffers_put(buffers, buffer);
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), 0);
	assert_charges(0, 0);
}

static void a_remote_region_has_a_parent_besides(void **state)
{
	const struct otte_rdma_buffer *buffer;
	unsigned int nic;

	(void)state;
	assert_int_equal(otte_rdma_buffers_publish(buffers, &remote), 0);
	assert_charges(4, 4 * sizeof(bytes));
	buffer = otte_rdma_buffers_get(buffers, 7);
	for (nic = 0; nic < 2; nic++) {
		assert_int_equal(sim_counts(devices[nic]).mrs, 2);
		assert_int_equal(buffer->by_nic[nic].parent.state, OTTE_RDMA_MR_LIVE);
		assert_ptr_not_equal(buffer->by_nic[nic].parent.native,
				     buffer->by_nic[nic].local.native);
	}
	otte_rdma_buffers_put(buffers, buffer);
	assert_int_equal(otte_rdma_buffers_publish(buffers, &local), -EEXIST);
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), 0);
}

static void a_paused_port_gets_its_mr_and_a_lost_device_none(void **state)
{
	const struct otte_rdma_buffer *buffer;

	(void)state;
	otte_rdma_context_pause(otte_rdma_context_set_get(&set, 0), -ENETDOWN, "down");
	otte_rdma_context_fail(otte_rdma_context_set_get(&set, 1), -EIO, "lost");
	assert_int_equal(otte_rdma_buffers_publish(buffers, &local), 0);
	buffer = otte_rdma_buffers_get(buffers, 7);
	assert_int_equal(buffer->by_nic[0].local.state, OTTE_RDMA_MR_LIVE);
	assert_int_equal(buffer->by_nic[1].local.state, OTTE_RDMA_MR_NONE);
	otte_rdma_buffers_put(buffers, buffer);
	assert_charges(1, sizeof(bytes));
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), 0);
	otte_rdma_context_fail(otte_rdma_context_set_get(&set, 0), -EIO, "lost");
	assert_int_equal(otte_rdma_buffers_publish(buffers, &local), -ENODEV);
}

static void a_failure_rolls_back_what_it_made_and_no_more(void **state)
{
	const struct otte_rdma_buffer_spec other = {
		.region = 8, .at = bytes, .bytes = sizeof(bytes), .remote = true
	};
	unsigned int after;

	(void)state;
	assert_int_equal(otte_rdma_buffers_publish(buffers, &other), 0);
	for (after = 0; after < 4; after++) {
		fail_call_after(SIM_REG_MR, after, EFAULT);
		assert_int_equal(otte_rdma_buffers_publish(buffers, &remote), -EFAULT);
		assert_text(": ibv_reg_mr: Bad address");
		assert_int_equal(sim_counts(NULL).mrs, 4);
		assert_charges(4, 4 * sizeof(bytes));
		assert_null(otte_rdma_buffers_get(buffers, 7));
		assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), -ENOENT);
	}
	assert_int_equal(otte_rdma_buffers_publish(buffers, &remote), 0);
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), 0);
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 8), 0);
}

static int publish_remote(void)
{
	return otte_rdma_buffers_publish(buffers, &remote);
}

static void nothing_is_charged(void)
{
	assert_int_equal(sim_counts(NULL).mrs, 0);
	assert_charges(0, 0);
}

static void each_allocation_of_publishing_may_fail(void **state)
{
	(void)state;
	assert_true(fail_each_allocation(publish_remote, nothing_is_charged) > 2);
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), 0);
}

/* ---- Budgets --------------------------------------------------------------------------------- */

static void the_budget_that_is_full_is_named(void **state)
{
	(void)state;
	with_budget(3, 1 << 20);
	assert_int_equal(otte_rdma_buffers_publish(buffers, &remote), -EDQUOT);
	assert_string_equal(otte_error_text(), "rdma.mrs (3): 0 are used, 4 wanted");
	with_budget(4, 4 * sizeof(bytes) - 1);
	assert_int_equal(otte_rdma_buffers_publish(buffers, &remote), -EDQUOT);
	assert_string_equal(otte_error_text(),
			    "rdma.mr_bytes (32767): 0 are used, 4 times 8192 wanted");
	assert_int_equal(sim_calls(SIM_REG_MR), 0);
	with_budget(4, 4 * sizeof(bytes));
	assert_int_equal(otte_rdma_buffers_publish(buffers, &remote), 0);
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), 0);
	assert_charges(0, 0);
}

static void no_length_wraps_the_budget(void **state)
{
	const struct otte_rdma_buffer_spec huge = {
		.region = 7, .at = bytes, .bytes = UINT64_MAX / 2 + 1, .remote = true
	};

	(void)state;
	with_budget(64, UINT64_MAX);
	assert_int_equal(otte_rdma_buffers_publish(buffers, &huge), -EDQUOT);
	assert_int_equal(sim_calls(SIM_REG_MR), 0);
}

static void want_of_locked_memory_names_its_limit(void **state)
{
	struct rlimit before, limit;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	limit = before;
	limit.rlim_cur = 65536;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	fail_call(SIM_REG_MR, ENOMEM);
	assert_int_equal(otte_rdma_buffers_publish(buffers, &local), -ENOMEM);
	assert_string_equal(otte_error_text(), "mlx5_0: ibv_reg_mr of 8192 bytes: Cannot allocate "
					       "memory; RLIMIT_MEMLOCK is 65536 bytes");
	fail_call(SIM_REG_MR, EPERM);
	assert_int_equal(otte_rdma_buffers_publish(buffers, &local), -EPERM);
	assert_string_equal(otte_error_text(), "mlx5_0: ibv_reg_mr of 8192 bytes: Operation not "
					       "permitted; RLIMIT_MEMLOCK is 65536 bytes");
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

static void what_is_longer_than_an_mr_may_be_is_refused(void **state)
{
	(void)state;
	otte_rdma_context_set_get(&set, 0)->limits.max_mr_bytes = 4096;
	assert_int_equal(otte_rdma_buffers_publish(buffers, &local), -EFBIG);
	assert_string_equal(otte_error_text(), "mlx5_0: 8192 bytes in an MR, at most 4096");
	assert_charges(0, 0);
}

/* ---- Withdrawal ------------------------------------------------------------------------------ */

static void what_is_withdrawn_is_hidden_at_once_and_goes_with_its_last_use(void **state)
{
	const struct otte_rdma_buffer *buffer;

	(void)state;
	assert_int_equal(otte_rdma_buffers_publish(buffers, &local), 0);
	buffer = otte_rdma_buffers_get(buffers, 7);
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), -EBUSY);
	assert_null(otte_rdma_buffers_get(buffers, 7));
	assert_int_equal(sim_counts(NULL).mrs, 2);
	assert_charges(2, 2 * sizeof(bytes));
	assert_int_equal(otte_rdma_buffers_close(buffers), -EBUSY);
	otte_rdma_buffers_put(buffers, buffer);
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), 0);
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), -ENOENT);
	assert_int_equal(sim_counts(NULL).mrs, 0);
}

static void an_mr_that_is_not_released_stays_charged_and_untried(void **state)
{
	unsigned long calls;

	(void)state;
	assert_int_equal(otte_rdma_buffers_publish(buffers, &remote), 0);
	fail_call(SIM_DEREG_MR, EBUSY);
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), -EUCLEAN);
	assert_string_equal(otte_error_text(), "mlx5_0: ibv_dereg_mr of 8192 bytes: Device or "
					       "resource busy; retained");
	assert_int_equal(sim_counts(NULL).mrs, 1);
	assert_charges(1, sizeof(bytes));
	assert_int_equal(stats().retained, 1);
	calls = sim_calls(SIM_DEREG_MR);
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), -EUCLEAN);
	assert_int_equal(sim_calls(SIM_DEREG_MR), calls);
	assert_null(otte_rdma_buffers_get(buffers, 7));
	assert_int_equal(otte_rdma_buffers_publish(buffers, &remote), -EEXIST);
	assert_int_equal(otte_rdma_buffers_close(buffers), -EUCLEAN);
	assert_int_equal(otte_rdma_context_set_close(&set), -EUCLEAN);
	assert_int_equal(set.slots[0].context->retained.mrs, 1);
	assert_int_equal(set.slots[0].context->retained.mr_bytes, sizeof(bytes));
	assert_null(set.slots[1].context);
}

static void an_mr_that_is_retained_is_not_tried_again(void **state)
{
	struct otte_rdma_context *context = otte_rdma_context_set_get(&set, 0);
	struct otte_rdma_mr mr = {};

	(void)state;
	assert_int_equal(otte_rdma_mr_release(&mr), 0);
	assert_int_equal(otte_rdma_mr_register(context, bytes, 64, 0, &mr), 0);
	fail_call(SIM_DEREG_MR, EBUSY);
	assert_int_equal(otte_rdma_mr_release(&mr), -EUCLEAN);
	assert_int_equal(otte_rdma_mr_release(&mr), -EUCLEAN);
	assert_string_equal(otte_error_text(), "mlx5_0: an MR of 64 bytes is retained");
	assert_int_equal(sim_calls(SIM_DEREG_MR), 1);
	assert_int_equal(context->retained.mrs, 1);
	assert_int_equal(context->children, 0);
}

static void a_rollback_that_fails_is_retained(void **state)
{
	const struct sim_fault third = {
		.kind = SIM_FAULT_CALL, .verb = SIM_REG_MR, .times = 1, .error = EFAULT, .after = 2
	};

	(void)state;
	sim_fault_arm(&third);
	fail_call(SIM_DEREG_MR, EBUSY);
	assert_int_equal(otte_rdma_buffers_publish(buffers, &remote), -EUCLEAN);
	assert_string_equal(otte_error_text(), "mlx5_1: ibv_reg_mr: Bad address; and then mlx5_0: "
					       "ibv_dereg_mr of 8192 bytes: Device or resource "
					       "busy; retained");
	assert_int_equal(sim_counts(NULL).mrs, 1);
	assert_charges(1, sizeof(bytes));
	assert_null(otte_rdma_buffers_get(buffers, 7));
	assert_int_equal(otte_rdma_buffers_withdraw(buffers, 7), -EUCLEAN);
}

int run_buffer_tests(void)
{
	const struct CMUnitTest tests[] = {
#define OWN(test) cmocka_unit_test_setup_teardown(test, start, finish_all)
#define KEPT(test) cmocka_unit_test_setup_teardown(test, start, keep)
		OWN(a_local_region_has_an_mr_on_each_context),
		OWN(a_remote_region_has_a_parent_besides),
		OWN(a_paused_port_gets_its_mr_and_a_lost_device_none),
		OWN(a_failure_rolls_back_what_it_made_and_no_more),
		OWN(each_allocation_of_publishing_may_fail),
		OWN(the_budget_that_is_full_is_named),
		OWN(no_length_wraps_the_budget),
		OWN(want_of_locked_memory_names_its_limit),
		OWN(what_is_longer_than_an_mr_may_be_is_refused),
		OWN(what_is_withdrawn_is_hidden_at_once_and_goes_with_its_last_use),
		KEPT(an_mr_that_is_not_released_stays_charged_and_untried),
		KEPT(an_mr_that_is_retained_is_not_tried_again),
		KEPT(a_rollback_that_fails_is_retained),
	};

	return cmocka_run_group_tests_name("buffers", tests, NULL, NULL);
}
