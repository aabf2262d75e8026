/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Devices, hosts, ports and addresses; and the library's own discovery over them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "ends.h"
#include "suites.h"
#include "transport/rdma/discovery.h"

static int start(void **state)
{
	(void)state;
	sim_reset();
	return 0;
}

static int finish(void **state)
{
	(void)state;
	assert_string_equal(sim_left(), "");
	return 0;
}

static struct ibv_context *open_first(unsigned int host)
{
	const struct otte_verbs *verbs = sim_verbs(host);
	struct ibv_device **list = verbs->get_device_list(NULL);
	struct ibv_context *context = verbs->open_device(list[0]);

	assert_non_null(context);
	verbs->free_device_list(list);
	return context;
}

static void a_host_sees_its_own_devices(void **state)
{
	struct ibv_device **list;
	int count = -1;

	(void)state;
	sim_device_add(0, "mlx5_0");
	sim_device_add(1, "rxe0");
	sim_device_add(1, "rxe1");
	list = sim_verbs(0)->get_device_list(&count);
	assert_int_equal(count, 1);
	assert_string_equal(sim_verbs(0)->get_device_name(list[0]), "mlx5_0");
	assert_null(list[1]);
	assert_string_equal(sim_left(), "all: 1 device lists");
	sim_verbs(0)->free_device_list(list);
	list = sim_verbs(1)->get_device_list(&count);
	assert_int_equal(count, 2);
	sim_verbs(1)->free_device_list(list);
	list = sim_verbs(2)->get_device_list(&count);
	assert_int_equal(count, 0);
	sim_verbs(2)->free_device_list(list);
}

static void discovery_finds_them_as_it_finds_real_ones(void **state)
{
	const struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	static struct otte_rdma_nics nics;
	char text[OTTE_RDMA_GID_TEXT];
	struct sim_device *second;

	(void)state;
	sim_device_add(0, "rxe0");
	second = sim_device_add(0, "rxe1");
	second->ports[0].attr.state = IBV_PORT_DOWN;
	assert_int_equal(otte_rdma_discover(sim_verbs(0), &select, &nics), 0);
	assert_int_equal(nics.count, 2);
	assert_int_equal(nics.list[0].state, OTTE_RDMA_ACTIVE);
	assert_int_equal(nics.list[0].gid.index, 1);
	assert_string_equal(otte_rdma_gid_text(&nics.list[0].gid, text), "192.0.2.1");
	assert_int_equal(nics.list[0].mtu_bytes, 4096);
	assert_int_equal(nics.list[0].bytes_per_s, 12500000000ull);
	assert_int_equal(nics.list[1].state, OTTE_RDMA_PAUSED);
	assert_string_equal(otte_rdma_gid_text(&nics.list[1].gid, text), "192.0.2.2");
	assert_int_equal(sim_counts(NULL).contexts, 2);
	otte_rdma_nics_close(sim_verbs(0), &nics);
	assert_int_equal(sim_counts(NULL).contexts, 0);
	assert_int_equal(sim_counts(second).opened, 1);
}

static void an_address_is_what_the_test_says_it_is(void **state)
{
	struct sim_device *device = sim_device_add(0, "mlx5_0");
	struct ibv_context *context = open_first(0);
	const struct otte_verbs *verbs = sim_verbs(0);
	struct ibv_gid_entry entry;
	union ibv_gid gid;

	(void)state;
	sim_gid_set(device, 1, 1, NULL, 0);
	assert_int_equal(verbs->query_gid_ex(context, 1, 1, &entry, 0, sizeof(entry)), ENODATA);
	sim_gid_set(device, 1, 1, "fe80::5", IBV_GID_TYPE_ROCE_V1);
	assert_int_equal(verbs->query_gid_ex(context, 1, 1, &entry, 0, sizeof(entry)), 0);
	assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V1);
	assert_int_equal(entry.gid.raw[0], 0xfe);
	assert_int_equal(entry.gid.raw[15], 5);
	assert_int_equal(verbs->query_gid(context, 1, 1, &gid), 0);
	assert_memory_equal(&gid, &entry.gid, sizeof(gid));
	device->ports[0].gids[1].error = EIO;
	errno = 0;
	assert_int_equal(verbs->query_gid(context, 1, 1, &gid), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(verbs->query_gid_ex(context, 1, SIM_GIDS, &entry, 0, sizeof(entry)),
			 EINVAL);
	assert_int_equal(verbs->query_gid_ex(context, 1, 1, &entry, 1, sizeof(entry)), EINVAL);
	assert_int_equal(verbs->close_device(context), 0);
}

static void a_device_may_be_rxe(void **state)
{
	const struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct sim_device *device = sim_device_add(0, "rxe0");
	static struct otte_rdma_nics nics;

	(void)state;
	sim_device_be_rxe(device);
	assert_int_equal(otte_rdma_discover(sim_verbs(0), &select, &nics), 0);
	assert_int_equal(nics.list[0].state, OTTE_RDMA_ACTIVE);
	assert_int_equal(nics.list[0].mtu_bytes, 1024);
	assert_int_equal(nics.list[0].bytes_per_s, 2500 * 125000);
	assert_int_equal(device->attr.vendor_id, 0xffffff);
	assert_int_equal(device->quirks, SIM_RXE);
	otte_rdma_nics_close(sim_verbs(0), &nics);
}

static void a_port_is_what_the_test_says_it_is(void **state)
{
	struct sim_device *device = sim_device_add(0, "mlx5_0");
	const struct otte_verbs *verbs = sim_verbs(0);
	union otte_verbs_port port;
	struct ibv_device_attr attr;
	struct ibv_context *context;
	uint64_t speed;

	(void)state;
	device->attr.phys_port_cnt = 2;
	device->ports[1].attr.lid = 9;
	device->ports[1].active_speed_ex = 256;
	device->ports[1].port_speed = 8000;
	context = open_first(0);
	assert_int_equal(verbs->query_device(context, &attr), 0);
	assert_int_equal(attr.phys_port_cnt, 2);
	assert_int_equal(verbs->query_port(context, 2, &port), 0);
	assert_int_equal(port.attr.lid, 9);
	assert_int_equal(port.extended.active_speed_ex, 256);
	assert_int_equal(verbs->query_port_speed(context, 2, &speed), 0);
	assert_int_equal(speed, 8000);
	assert_int_equal(verbs->query_port_speed(context, 1, &speed), EOPNOTSUPP);
	assert_int_equal(verbs->query_port(context, 3, &port), EINVAL);
	device->ports[1].error = EIO;
	assert_int_equal(verbs->query_port(context, 2, &port), EIO);
	assert_int_equal(verbs->close_device(context), 0);
}

/* The kernel takes all of it away; who has pointers to it has a leak. */
static void what_outlives_its_context_is_left(void **state)
{
	const struct otte_verbs *verbs = sim_verbs(0);
	struct ibv_context *context;

	(void)state;
	sim_device_add(0, "mlx5_0");
	context = open_first(0);
	assert_non_null(verbs->alloc_pd(context));
	assert_non_null(verbs->create_cq(context, 1, NULL, NULL, 0));
	assert_int_equal(verbs->close_device(context), 0);
	assert_string_equal(sim_left(), "mlx5_0: 1 PDs, mlx5_0: 1 CQs");
	assert_false(sim_is_empty());
	sim_reset();
	assert_true(sim_is_empty());
}

static void nothing_of_a_closed_context_can_be_reached(void **state)
{
	static struct end one, other;
	struct ibv_mw *mw;

	(void)state;
	end_open(&one, sim_device_add(0, "mlx5_0"));
	end_open(&other, sim_device_add(1, "mlx5_0"));
	end_connect(&one, one.qp, &other, other.qp);
	end_connect(&other, other.qp, &one, one.qp);
	mw = end_window(&other, 0, 10, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(sim_counts(other.device).mws_bound, 1);
	assert_int_equal(other.verbs->close_device(other.context), 0);
	assert_int_equal(sim_counts(other.device).mws_bound, 0);
	end_read(&one, 0, 10, other.bytes, mw->rkey, 0);
	assert_int_equal(end_sent(&one).status, IBV_WC_RETRY_EXC_ERR);
	end_close(&one);
	assert_int_equal(sim_counts(other.device).mws, 1);
	sim_reset();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int run_devices_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_host_sees_its_own_devices),
		TEST(discovery_finds_them_as_it_finds_real_ones),
		TEST(an_address_is_what_the_test_says_it_is),
		TEST(a_device_may_be_rxe),
		TEST(a_port_is_what_the_test_says_it_is),
		TEST(nothing_of_a_closed_context_can_be_reached),
		TEST(what_outlives_its_context_is_left),
	};

	return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
