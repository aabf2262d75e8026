/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ends.h"

#include <string.h>

#include "base/util.h"

static const struct otte_rdma_context_params params = OTTE_RDMA_CONTEXT_PARAMS;
static const struct otte_rdma_select everything = OTTE_RDMA_SELECT_DEFAULTS;

static struct otte_rdma_nics nics;
static struct otte_rdma_context_set set;

static int start(void **state)
{
	(void)state;
	sim_reset();
	return 0;
}

static void discover(void)
{
	assert_int_equal(otte_rdma_discover(sim_verbs(0), &everything, &nics), 0);
}

static int open_set(void)
{
	int rc;

	discover();
	rc = otte_rdma_context_set_open(sim_verbs(0), &nics, &params, &set);
	otte_rdma_nics_close(sim_verbs(0), &nics);
	return rc;
}

static void close_set(void)
{
	assert_int_equal(otte_rdma_context_set_close(&set), 0);
	assert_string_equal(sim_left(), "");
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void a_context_knows_its_address_and_limits(void **state)
{
	struct sim_device *device = sim_device_add(0, "mlx5_0");
	struct otte_rdma_context *context;
	struct otte_rdma_route route;

	(void)state;
	device->attr.max_qp_init_rd_atom = 7;
	device->attr.max_qp_rd_atom = 9;
	assert_int_equal(open_set(), 0);
	context = otte_rdma_context_set_get(&set, 0);
	assert_string_equal(context->name, "mlx5_0");
	assert_int_equal(context->port, 1);
	assert_int_equal(context->nic, 0);
	assert_false(context->rxe);
	assert_int_equal(context->limits.max_rd_atomic, 7);
	assert_int_equal(context->limits.max_dest_rd_atomic, 9);
	otte_rdma_context_route(context, &route);
	assert_int_equal(route.state, OTTE_RDMA_CONTEXT_ACTIVE);
	assert_int_equal(route.generation, 1);
	assert_int_equal(route.address.gid.index, 1);
	assert_int_equal(route.address.mtu_bytes, 4096);
	assert_true(route.address.ethernet);
	assert_int_equal(otte_rdma_context_check_device(context), 0);
	assert_int_equal(otte_rdma_context_check(context), 0);
	close_set();
}

static void rxe_is_known_by_its_vendor(void **state)
{
	(void)state;
	sim_device_add(0, "any_name")->attr.vendor_id = 0xffffff;
	assert_int_equal(open_set(), 0);
	assert_true(otte_rdma_context_set_get(&set, 0)->rxe);
	close_set();
}

/* Which counts as 400 Gb/s where NICs are chosen, but is not what it was told. */
static void the_rate_of_a_link_that_says_none_is_unknown(void **state)
{
	struct sim_device *device = sim_device_add(0, "mlx5_0");

	(void)state;
	device->ports[0].port_speed = device->ports[0].active_speed_ex = 0;
	assert_int_equal(open_set(), 0);
	assert_int_equal(otte_rdma_context_set_get(&set, 0)->bytes_per_s, 12500000000);
	close_set();
	sim_reset();
	device = sim_device_add(0, "mlx5_0");
	device->ports[0].port_speed = device->ports[0].active_speed_ex = 0;
	device->ports[0].attr.active_width = device->ports[0].attr.active_speed = 0;
	assert_int_equal(open_set(), 0);
	assert_int_equal(otte_rdma_context_set_get(&set, 0)->bytes_per_s, 0);
	close_set();
}

static void without_windows_of_type_2b_it_is_refused_by_name(void **state)
{
	struct sim_device *device = sim_device_add(0, "mlx4_0");

	(void)state;
	device->attr.device_cap_flags &= ~(unsigned int)IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	assert_int_equal(open_set(), -EOPNOTSUPP);
	assert_string_equal(otte_error_text(), "rdma: mlx4_0: has no memory windows of type 2B");
	close_set();
}

static void what_fails_in_opening_leaves_nothing(void **state)
{
	(void)state;
	sim_device_add(0, "mlx5_0");
	discover();
	fail_call(SIM_ALLOC_PD, ENOMEM);
	assert_int_equal(otte_rdma_context_set_open(sim_verbs(0), &nics, &params, &set), -ENOMEM);
	assert_string_equal(otte_error_text(),
			    "rdma: mlx5_0: ibv_alloc_pd: Cannot allocate memory");
	close_set();
	discover();
	fail_call(SIM_QUERY_DEVICE, EIO);
	assert_int_equal(otte_rdma_context_set_open(sim_verbs(0), &nics, &params, &set), -EIO);
	assert_string_equal(otte_error_text(),
			    "rdma: mlx5_0: ibv_query_device: Input/output error");
	close_set();
}

static int open_discovered(void)
{
	return otte_rdma_context_set_open(sim_verbs(0), &nics, &params, &set);
}

/* It has taken what was discovered. */
static void nothing_is_open(void)
{
	assert_text("mlx5_0: ");
	close_set();
	discover();
}

static void each_allocation_of_opening_may_fail(void **state)
{
	(void)state;
	sim_device_add(0, "mlx5_0");
	discover();
	assert_true(fail_each_allocation(open_discovered, nothing_is_open) > 2);
	close_set();
}

/* ---- The set --------------------------------------------------------------------------------- */

static void a_slot_that_fails_moves_no_other(void **state)
{
	struct sim_device *second;

	(void)state;
	sim_device_add(0, "mlx5_0");
	second = sim_device_add(0, "mlx5_1");
	sim_device_add(0, "mlx5_2");
	second->attr.device_cap_flags &= ~(unsigned int)IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	assert_int_equal(open_set(), 0);
	assert_int_equal(set.count, 3);
	assert_null(otte_rdma_context_set_get(&set, 1));
	assert_int_equal(set.slots[1].code, -EOPNOTSUPP);
	assert_string_equal(set.slots[1].why, "mlx5_1: has no memory windows of type 2B");
	assert_string_equal(otte_rdma_context_set_get(&set, 2)->name, "mlx5_2");
	assert_int_equal(otte_rdma_context_set_get(&set, 2)->nic, 2);
	assert_int_equal(otte_rdma_context_set_devices(&set), 5);
	assert_int_equal(otte_rdma_context_set_routes(&set), 5);
	assert_null(otte_rdma_context_set_get(&set, 3));
	close_set();
}

static void a_nic_that_was_not_usable_keeps_its_reason(void **state)
{
	struct sim_device *first = sim_device_add(0, "mlx5_0");

	(void)state;
	first->ports[0].error = EIO;
	sim_device_add(0, "mlx5_1");
	assert_int_equal(open_set(), 0);
	assert_int_equal(set.slots[0].code, -EIO);
	assert_string_equal(set.slots[0].why, "mlx5_0 port 1: ibv_query_port: Input/output error");
	assert_int_equal(otte_rdma_context_set_devices(&set), 2);
	close_set();
}

static void without_a_nic_there_is_no_set(void **state)
{
	(void)state;
	assert_int_equal(open_set(), -ENODEV);
	assert_string_equal(otte_error_text(), "rdma: no NIC");
	close_set();
}

/* ---- The route ------------------------------------------------------------------------------- */

static void a_paused_port_keeps_its_pd_and_takes_mrs(void **state)
{
	struct sim_device *device = sim_device_add(0, "mlx5_0");
	struct otte_rdma_context *context;
	struct otte_rdma_mr mr;
	static char bytes[64];

	(void)state;
	sim_port_set(device, 1, IBV_PORT_DOWN);
	assert_int_equal(open_set(), 0);
	context = otte_rdma_context_set_get(&set, 0);
	assert_int_equal(otte_rdma_context_check_device(context), 0);
	assert_int_equal(otte_rdma_context_check(context), -ENETDOWN);
	assert_string_equal(otte_error_text(), "mlx5_0 port 1 is not active");
	assert_int_equal(otte_rdma_context_set_devices(&set), 1);
	assert_int_equal(otte_rdma_context_set_routes(&set), 0);
	assert_int_equal(otte_rdma_mr_register(context, bytes, sizeof(bytes),
					       IBV_ACCESS_LOCAL_WRITE, &mr),
			 0);
	assert_int_equal(otte_rdma_context_close(context), -EBUSY);
	assert_string_equal(otte_error_text(), "mlx5_0: 1 things of it are in use");
	assert_int_equal(otte_rdma_mr_release(&mr), 0);
	close_set();
}

static void an_older_answer_clears_no_newer_fault(void **state)
{
	struct otte_rdma_context *context;
	struct otte_rdma_route before, now;

	(void)state;
	sim_device_add(0, "mlx5_0");
	assert_int_equal(open_set(), 0);
	context = otte_rdma_context_set_get(&set, 0);
	assert_true(otte_rdma_context_pause(context, -ENETDOWN, "the port is down"));
	otte_rdma_context_route(context, &before);
	assert_false(otte_rdma_context_pause(context, -ENETDOWN, "the GID is another"));
	assert_int_equal(otte_rdma_context_resume(context, before.generation, &before.address),
			 -ESTALE);
	assert_int_equal(otte_rdma_context_check(context), -ENETDOWN);
	assert_string_equal(otte_error_text(), "mlx5_0 port 1: the GID is another");
	otte_rdma_context_route(context, &now);
	assert_int_not_equal(now.generation, before.generation);
	now.address.gid.index = 5;
	assert_int_equal(otte_rdma_context_resume(context, now.generation, &now.address), 0);
	assert_int_equal(otte_rdma_context_check(context), 0);
	otte_rdma_context_route(context, &before);
	assert_int_equal(before.address.gid.index, 5);
	close_set();
}

static void a_lost_device_is_lost_for_good(void **state)
{
	struct otte_rdma_context *context;
	struct otte_rdma_route route;
	struct otte_rdma_mr mr;
	static char bytes[64];

	(void)state;
	sim_device_add(0, "mlx5_0");
	assert_int_equal(open_set(), 0);
	context = otte_rdma_context_set_get(&set, 0);
	assert_true(otte_rdma_context_fail(context, -EIO, "the device is lost"));
	assert_false(otte_rdma_context_fail(context, -EIO, "again"));
	assert_false(otte_rdma_context_pause(context, -ENETDOWN, "the port is down"));
	otte_rdma_context_route(context, &route);
	assert_int_equal(otte_rdma_context_resume(context, route.generation, &route.address),
			 -ENODEV);
	assert_string_equal(otte_error_text(), "mlx5_0 port 1: the device is lost");
	assert_int_equal(otte_rdma_mr_register(context, bytes, sizeof(bytes), 0, &mr), -ENODEV);
	assert_int_equal(sim_calls(SIM_REG_MR), 0);
	assert_int_equal(otte_rdma_context_set_devices(&set), 0);
	close_set();
}

/* ---- What stays ------------------------------------------------------------------------------ */

static void stays(enum sim_verb verb)
{
	struct otte_rdma_context *context;
	unsigned long calls;

	sim_device_add(0, "mlx5_0");
	assert_int_equal(open_set(), 0);
	context = otte_rdma_context_set_get(&set, 0);
	fail_call(verb, EBUSY);
	assert_int_equal(otte_rdma_context_set_close(&set), -EUCLEAN);
	assert_string_equal(otte_error_text(),
			    "mlx5_0: retained, with 1 things that could not be destroyed");
	calls = sim_calls(verb);
	assert_int_equal(otte_rdma_context_set_close(&set), -EUCLEAN);
	assert_int_equal(sim_calls(verb), calls);
	assert_ptr_equal(otte_rdma_context_set_get(&set, 0), context);
	assert_int_equal(otte_rdma_context_check_device(context), -ENODEV);
	assert_int_equal(otte_rdma_retained_sum(&context->retained), 1);
}

static void a_pd_that_cannot_be_freed_is_retained(void **state)
{
	(void)state;
	stays(SIM_DEALLOC_PD);
	assert_int_equal(set.slots[0].context->retained.pds, 1);
	assert_int_equal(sim_counts(NULL).pds, 1);
	assert_int_equal(sim_counts(NULL).contexts, 1);
	keep_reachable(&set, sizeof(set));
}

static void a_device_that_cannot_be_closed_is_retained(void **state)
{
	(void)state;
	stays(SIM_CLOSE_DEVICE);
	assert_int_equal(set.slots[0].context->retained.devices, 1);
	assert_int_equal(sim_counts(NULL).pds, 0);
	keep_reachable(&set, sizeof(set));
}

int run_context_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_context_knows_its_address_and_limits, start),
		cmocka_unit_test_setup(rxe_is_known_by_its_vendor, start),
		cmocka_unit_test_setup(the_rate_of_a_link_that_says_none_is_unknown, start),
		cmocka_unit_test_setup(without_windows_of_type_2b_it_is_refused_by_name, start),
		cmocka_unit_test_setup(what_fails_in_opening_leaves_nothing, start),
		cmocka_unit_test_setup(each_allocation_of_opening_may_fail, start),
		cmocka_unit_test_setup(a_slot_that_fails_moves_no_other, start),
		cmocka_unit_test_setup(a_nic_that_was_not_usable_keeps_its_reason, start),
		cmocka_unit_test_setup(without_a_nic_there_is_no_set, start),
		cmocka_unit_test_setup(a_paused_port_keeps_its_pd_and_takes_mrs, start),
		cmocka_unit_test_setup(an_older_answer_clears_no_newer_fault, start),
		cmocka_unit_test_setup(a_lost_device_is_lost_for_good, start),
		cmocka_unit_test_setup(a_pd_that_cannot_be_freed_is_retained, start),
		cmocka_unit_test_setup(a_device_that_cannot_be_closed_is_retained, start),
	};

	return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
