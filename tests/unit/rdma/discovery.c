/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which NICs a machine has and may use, over simulated devices. */
#include "transport/rdma/discovery.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "otte/otte.h"
#include "sim/verbs/sim.h"
#include "suites.h"

#define GBPS 125000000ull

/* Of a table. */
#define GIDS 4

static struct otte_rdma_nics nics;
static struct otte_verbs verbs;

static int start(void **state)
{
	(void)state;
	sim_reset();
	verbs = *sim_verbs(0);
	return 0;
}

/* Whatever a test did, nothing stays open. */
static int finish(void **state)
{
	(void)state;
	otte_rdma_nics_close(&verbs, &nics);
	assert_string_equal(sim_left(), "");
	return 0;
}

/* One more device, with one active port of Ethernet at 100 Gb/s and a routable address. */
static struct sim_device *add(const char *name)
{
	struct sim_device *device = sim_device_add(0, name);

	device->ports[0].attr.gid_tbl_len = GIDS;
	sim_gid_set(device, 1, 0, "192.0.2.1", IBV_GID_TYPE_ROCE_V2);
	sim_gid_set(device, 1, 1, NULL, 0);
	return device;
}

/* Every call from now on. */
static unsigned int fail_always(const struct sim_device *device, enum sim_verb verb, int error)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = verb,
		.target = device,
		.error = error,
	};

	return sim_fault_arm(&fault);
}

static bool was_opened(const struct sim_device *device)
{
	return sim_counts(device).opened;
}

static int discover_with(const struct otte_rdma_select *select)
{
	otte_rdma_nics_close(&verbs, &nics);
	return otte_rdma_discover(&verbs, select, &nics);
}

static void discover(void)
{
	const struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;

	assert_int_equal(discover_with(&select), 0);
}

/* Fails with this code and a text in which all three are, and leaves nothing behind. */
static void refuse(const struct otte_rdma_select *select, int code, const char *one,
		   const char *other, const char *third)
{
	assert_int_equal(discover_with(select), code);
	assert_non_null(strstr(otte_error_text(), one));
	assert_non_null(strstr(otte_error_text(), other));
	assert_non_null(strstr(otte_error_text(), third));
	assert_int_equal(nics.count, 0);
	assert_int_equal(sim_counts(NULL).contexts, 0);
	assert_int_equal(sim_counts(NULL).device_lists, 0);
}

static void unusable(size_t id, int code, const char *one, const char *other)
{
	assert_int_equal(nics.list[id].state, OTTE_RDMA_UNUSABLE);
	assert_int_equal(nics.list[id].code, code);
	assert_non_null(strstr(nics.list[id].why, one));
	assert_non_null(strstr(nics.list[id].why, other));
	assert_null(nics.list[id].context);
}

static const char *gid_text(size_t id)
{
	static char text[OTTE_RDMA_GID_TEXT];

	return otte_rdma_gid_text(&nics.list[id].gid, text);
}

/* ---- Devices and ports ----------------------------------------------------------------------- */

static void a_machine_without_devices_has_no_nic(void **state)
{
	(void)state;
	discover();
	assert_int_equal(nics.count, 0);
}

static void devices_that_cannot_be_listed_are_an_error(void **state)
{
	const struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;

	(void)state;
	fail_always(NULL, SIM_GET_DEVICE_LIST, ENOSYS);
	refuse(&select, -ENOSYS, "ibv_get_device_list", "Function not implemented", "ib_uverbs");
}

static void an_active_port_is_a_nic_with_all_that_it_says(void **state)
{
	struct sim_device *device = add("mlx5_0");

	(void)state;
	device->ports[0].attr.lid = 7;
	device->ports[0].attr.active_mtu = IBV_MTU_1024;
	discover();
	assert_int_equal(nics.count, 1);
	assert_string_equal(nics.list[0].name, "mlx5_0");
	assert_int_equal(nics.list[0].port, 1);
	assert_int_equal(nics.list[0].state, OTTE_RDMA_ACTIVE);
	assert_int_equal(nics.list[0].code, 0);
	assert_int_equal(nics.list[0].mtu_bytes, 1024);
	assert_int_equal(nics.list[0].lid, 7);
	assert_true(nics.list[0].ethernet);
	assert_int_equal(nics.list[0].bytes_per_s, 100 * GBPS);
	assert_int_equal(nics.list[0].rate_source, OTTE_RDMA_RATE_REPORTED);
	assert_string_equal(nics.list[0].pci, "");
	assert_int_equal(nics.list[0].node, -1);
	assert_string_equal(gid_text(0), "192.0.2.1");
	assert_non_null(nics.list[0].context);
}

static void a_port_that_is_down_is_paused_and_keeps_its_context(void **state)
{
	static const enum ibv_port_state down[] = { IBV_PORT_NOP, IBV_PORT_DOWN, IBV_PORT_INIT,
						    IBV_PORT_ARMED, IBV_PORT_ACTIVE_DEFER };
	struct sim_device *device = add("mlx5_0");
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(down); i++) {
		device->ports[0].attr.state = down[i];
		discover();
		assert_int_equal(nics.list[0].state, OTTE_RDMA_PAUSED);
		assert_non_null(nics.list[0].context);
		assert_string_equal(gid_text(0), "192.0.2.1");
	}
}

static void a_port_that_is_down_without_a_gid_is_unusable(void **state)
{
	struct sim_device *device = add("mlx5_0");

	(void)state;
	device->ports[0].attr.state = IBV_PORT_DOWN;
	sim_gid_set(device, 1, 0, NULL, 0);
	discover();
	unusable(0, -ENODATA, "mlx5_0 port 1", "no valid GID");
}

static void each_port_is_a_nic_with_a_context_of_its_own(void **state)
{
	struct sim_device *device = add("mlx4_0");

	(void)state;
	device->attr.phys_port_cnt = 2;
	device->ports[1] = device->ports[0];
	sim_gid_set(device, 2, 0, "192.0.2.2", IBV_GID_TYPE_ROCE_V2);
	discover();
	assert_int_equal(nics.count, 2);
	assert_int_equal(nics.list[1].port, 2);
	assert_string_equal(gid_text(1), "192.0.2.2");
	assert_ptr_not_equal(nics.list[0].context, nics.list[1].context);
}

static void a_context_that_was_taken_is_not_closed(void **state)
{
	struct ibv_context *taken;

	(void)state;
	add("mlx5_0");
	add("mlx5_1");
	discover();
	taken = nics.list[0].context;
	nics.list[0].context = NULL;
	otte_rdma_nics_close(&verbs, &nics);
	assert_int_equal(sim_counts(NULL).contexts, 1);
	verbs.close_device(taken);
}

static void what_is_neither_infiniband_nor_roce_is_not_opened(void **state)
{
	struct sim_device *device = add("siw0");

	(void)state;
	device->device.transport_type = IBV_TRANSPORT_IWARP;
	discover();
	unusable(0, -EOPNOTSUPP, "siw0", "neither InfiniBand nor RoCE");
	assert_false(was_opened(device));
}

/* ---- Ids ------------------------------------------------------------------------------------- */

static void ids_follow_the_names_and_not_the_order_of_the_list(void **state)
{
	(void)state;
	add("mlx5_10");
	add("mlx5_2");
	add("mlx5_1");
	discover();
	assert_string_equal(nics.list[0].name, "mlx5_1");
	assert_string_equal(nics.list[1].name, "mlx5_2");
	assert_string_equal(nics.list[2].name, "mlx5_10");
}

static void what_fails_keeps_its_id(void **state)
{
	struct sim_device *devices[3];

	(void)state;
	devices[0] = add("mlx5_0");
	devices[1] = add("mlx5_1");
	devices[2] = add("mlx5_2");
	fail_always(devices[0], SIM_OPEN_DEVICE, EACCES);
	fail_always(devices[1], SIM_QUERY_DEVICE, EIO);
	discover();
	assert_int_equal(nics.count, 3);
	unusable(0, -EACCES, "mlx5_0", "ibv_open_device: Permission denied");
	unusable(1, -EIO, "mlx5_1", "ibv_query_device: Input/output error");
	assert_string_equal(nics.list[2].name, "mlx5_2");
	assert_int_equal(nics.list[2].state, OTTE_RDMA_ACTIVE);
}

static void no_more_than_a_mask_has_bits(void **state)
{
	struct sim_device *devices[70];
	char name[32];
	int i;

	(void)state;
	for (i = 0; i < 70; i++) {
		snprintf(name, sizeof(name), "mlx5_%d", i);
		devices[i] = add(name);
	}
	discover();
	assert_int_equal(nics.count, 64);
	assert_int_equal(nics.left_out, 6);
	assert_string_equal(nics.list[63].name, "mlx5_63");
	assert_true(was_opened(devices[63]));
	assert_false(was_opened(devices[64]));
}

/* ---- What fails ------------------------------------------------------------------------------ */

static void a_failing_call_is_named_and_leaves_nothing_open(void **state)
{
	struct sim_device *device = add("mlx5_0");
	unsigned int id;

	(void)state;
	id = fail_always(device, SIM_OPEN_DEVICE, EMFILE);
	discover();
	unusable(0, -EMFILE, "mlx5_0 port 1: ibv_open_device: ", "Too many open files");
	sim_fault_disarm(id);
	id = fail_always(device, SIM_QUERY_DEVICE, EIO);
	discover();
	unusable(0, -EIO, "mlx5_0 port 1: ibv_query_device: ", "Input/output error");
	sim_fault_disarm(id);
	device->ports[0].error = EINVAL;
	discover();
	unusable(0, -EINVAL, "mlx5_0 port 1: ibv_query_port: ", "Invalid argument");
	device->ports[0].error = 0;
	device->ports[0].gids[0].error = EPERM;
	discover();
	unusable(0, -EPERM, "mlx5_0 port 1: GID 0: ibv_query_gid_ex: ", "not permitted");
	verbs.query_gid_ex = NULL;
	discover();
	unusable(0, -EPERM, "mlx5_0 port 1: GID 0: ibv_query_gid: ", "not permitted");
	assert_int_equal(sim_counts(NULL).contexts, 0);
}

static void a_call_that_fails_without_a_reason_is_an_io_error(void **state)
{
	struct sim_device *device = add("mlx5_0");

	(void)state;
	fail_always(device, SIM_QUERY_DEVICE, -1);
	discover();
	unusable(0, -EIO, "ibv_query_device", "Input/output error");
}

static void an_mtu_that_does_not_exist_makes_a_port_unusable(void **state)
{
	struct sim_device *device = add("mlx5_0");
	int mtu;

	(void)state;
	for (mtu = -1; mtu <= 40; mtu++) {
		device->ports[0].attr.active_mtu = (enum ibv_mtu)mtu;
		discover();
		if (mtu < 1 || mtu > 5)
			unusable(0, -EOPNOTSUPP, "mlx5_0 port 1", "unknown MTU");
		else
			assert_int_equal(nics.list[0].mtu_bytes, 256 << (mtu - 1));
	}
}

/* ---- GIDs ------------------------------------------------------------------------------------ */

struct address {
	const char *text;
	uint32_t type;
};

/* That the better of two is chosen, wherever it stands. */
static void prefer(struct sim_device *device, struct address better, struct address worse)
{
	unsigned int place;

	for (place = 1; place <= 2; place++) {
		sim_gid_set(device, 1, 0, NULL, 0);
		sim_gid_set(device, 1, place, better.text, better.type);
		sim_gid_set(device, 1, 3 - place, worse.text, worse.type);
		discover();
		assert_int_equal(nics.list[0].gid.index, place);
		assert_string_equal(gid_text(0), better.text);
		assert_int_equal(nics.list[0].gid.type, better.type);
	}
}

static void a_routable_roce_v2_address_is_preferred(void **state)
{
	const uint32_t v1 = IBV_GID_TYPE_ROCE_V1, v2 = IBV_GID_TYPE_ROCE_V2;
	struct sim_device *device = add("mlx5_0");

	(void)state;
	prefer(device, (struct address){ "192.0.2.7", v2 }, (struct address){ "fe80::1", v2 });
	prefer(device, (struct address){ "2001:db8::7", v2 }, (struct address){ "fe80::1", v2 });
	prefer(device, (struct address){ "fd00::7", v2 }, (struct address){ "169.254.3.4", v2 });
	prefer(device, (struct address){ "10.0.0.7", v2 }, (struct address){ "127.0.0.1", v2 });
	prefer(device, (struct address){ "10.0.0.7", v2 }, (struct address){ "224.0.0.1", v2 });
	prefer(device, (struct address){ "10.0.0.7", v2 }, (struct address){ "::1", v2 });
	prefer(device, (struct address){ "10.0.0.7", v2 }, (struct address){ "ff02::1", v2 });
	prefer(device, (struct address){ "192.0.2.7", v2 }, (struct address){ "192.0.2.8", v1 });
	prefer(device, (struct address){ "fe80::1", v2 }, (struct address){ "192.0.2.8", v1 });
}

static void of_equal_addresses_the_first_is_chosen(void **state)
{
	struct sim_device *device = add("mlx5_0");

	(void)state;
	sim_gid_set(device, 1, 0, "fe80::1", IBV_GID_TYPE_ROCE_V2);
	sim_gid_set(device, 1, 1, "2001:db8::1", IBV_GID_TYPE_ROCE_V2);
	sim_gid_set(device, 1, 2, "192.0.2.1", IBV_GID_TYPE_ROCE_V2);
	discover();
	assert_int_equal(nics.list[0].gid.index, 1);
}

static void infiniband_has_its_first_gid(void **state)
{
	struct sim_device *device = add("mlx5_0");

	(void)state;
	device->ports[0].attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
	device->ports[0].attr.lid = 12;
	sim_gid_set(device, 1, 0, "fe80::ec0d:9a03:78:2", IBV_GID_TYPE_IB);
	sim_gid_set(device, 1, 1, "fe80::ec0d:9a03:78:3", IBV_GID_TYPE_IB);
	discover();
	assert_false(nics.list[0].ethernet);
	assert_int_equal(nics.list[0].lid, 12);
	assert_int_equal(nics.list[0].gid.index, 0);
	assert_int_equal(nics.list[0].gid.type, OTTE_RDMA_GID_IB);
}

static void an_entry_that_cannot_be_read_is_passed_over(void **state)
{
	struct sim_device *device = add("mlx5_0");

	(void)state;
	device->ports[0].gids[0].error = EIO;
	sim_gid_set(device, 1, 1, "2001:db8::2", 77);
	sim_gid_set(device, 1, 2, "fe80::1", IBV_GID_TYPE_ROCE_V2);
	discover();
	assert_int_equal(nics.list[0].gid.index, 2);
	sim_gid_set(device, 1, 2, NULL, 0);
	discover();
	unusable(0, -EIO, "GID 0: ibv_query_gid_ex", "Input/output error");
	device->ports[0].gids[0] = (struct sim_gid){};
	discover();
	unusable(0, -EOPNOTSUPP, "GID 1", "unknown type 77");
}

static void a_length_of_the_table_that_cannot_be_is_no_harm(void **state)
{
	static const int lengths[] = { -2147483647 - 1, -1, 0, 2147483647 };
	struct sim_device *device = add("mlx5_0");
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		device->ports[0].attr.gid_tbl_len = lengths[i];
		discover();
		if (lengths[i] <= 0)
			unusable(0, -ENODATA, "mlx5_0 port 1", "no valid GID");
		else
			assert_int_equal(nics.list[0].gid.index, 0);
	}
}

/* ---- GIDs of a library without their types, from sysfs --------------------------------------- */

struct sysfs {
	char root[64];
};

static void make_folders(const char *root, const char *path)
{
	char whole[256], *slash;

	snprintf(whole, sizeof(whole), "%s/%s", root, path);
	for (slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(whole, 0755);
		*slash = '/';
	}
}

static void put_file(const struct sysfs *sysfs, const char *path, const char *text)
{
	char whole[256];
	FILE *file;

	make_folders(sysfs->root, path);
	snprintf(whole, sizeof(whole), "%s/%s", sysfs->root, path);
	file = fopen(whole, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static struct sysfs make_sysfs(struct sim_device *device)
{
	struct sysfs sysfs = { "/tmp/otte-sysfs.XXXXXX" };

	assert_non_null(mkdtemp(sysfs.root));
	snprintf(device->device.ibdev_path, sizeof(device->device.ibdev_path), "%s/%s", sysfs.root,
		 device->device.name);
	return sysfs;
}

static void remove_sysfs(const struct sysfs *sysfs)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", sysfs->root);
	assert_int_equal(system(command), 0);
}

static void without_types_from_the_library_sysfs_has_them(void **state)
{
	struct sim_device *device = add("rocep1s0");
	struct sysfs sysfs = make_sysfs(device);

	(void)state;
	verbs.query_gid_ex = NULL;
	sim_gid_set(device, 1, 0, "192.0.2.9", 0);
	sim_gid_set(device, 1, 1, "fe80::1", 0);
	sim_gid_set(device, 1, 2, "192.0.2.9", 0);
	put_file(&sysfs, "rocep1s0/ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
	put_file(&sysfs, "rocep1s0/ports/1/gid_attrs/types/1", "RoCE v2\n");
	put_file(&sysfs, "rocep1s0/ports/1/gid_attrs/types/2", "RoCE v2\n");
	put_file(&sysfs, "rocep1s0/ports/1/gid_attrs/types/3", "");
	discover();
	assert_int_equal(nics.list[0].gid.index, 2);
	assert_int_equal(nics.list[0].gid.type, OTTE_RDMA_GID_ROCE_V2);
	put_file(&sysfs, "rocep1s0/ports/1/gid_attrs/types/2", "RoCE v9\n");
	put_file(&sysfs, "rocep1s0/ports/1/gid_attrs/types/1", "");
	discover();
	assert_int_equal(nics.list[0].gid.index, 0);
	assert_int_equal(nics.list[0].gid.type, OTTE_RDMA_GID_ROCE_V1);
	put_file(&sysfs, "rocep1s0/ports/1/gid_attrs/types/0", "");
	discover();
	unusable(0, -EOPNOTSUPP, "GID 2", "unknown type \"RoCE v9\"");
	remove_sysfs(&sysfs);
	discover();
	unusable(0, -ENOENT, "GID 0", "gid_attrs/types/0: No such file");
}

static void infiniband_needs_no_type_from_sysfs(void **state)
{
	struct sim_device *device = add("mlx5_0");

	(void)state;
	verbs.query_gid_ex = NULL;
	device->ports[0].attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
	sim_gid_set(device, 1, 0, "fe80::ec0d:9a03:78:2", 0);
	discover();
	assert_int_equal(nics.list[0].gid.index, 0);
	assert_int_equal(nics.list[0].state, OTTE_RDMA_ACTIVE);
}

static void pci_and_node_are_those_of_sysfs(void **state)
{
	struct sim_device *device = add("mlx5_0");
	struct sysfs sysfs = make_sysfs(device);
	char link[128];

	(void)state;
	put_file(&sysfs, "pci0000:16/10000:e1:00.1/numa_node", "1\n");
	make_folders(sysfs.root, "mlx5_0/");
	snprintf(link, sizeof(link), "%s/mlx5_0/device", sysfs.root);
	assert_int_equal(symlink("../pci0000:16/10000:e1:00.1", link), 0);
	discover();
	assert_string_equal(nics.list[0].pci, "10000:e1:00.1");
	assert_int_equal(nics.list[0].node, 1);
	put_file(&sysfs, "pci0000:16/10000:e1:00.1/numa_node", "-1\n");
	discover();
	assert_int_equal(nics.list[0].node, -1);
	remove_sysfs(&sysfs);
}

static void a_device_that_does_not_open_keeps_as_many_ids_as_it_has_ports(void **state)
{
	struct sim_device *device = add("mlx4_0");
	struct sysfs sysfs = make_sysfs(device);

	(void)state;
	add("mlx5_0");
	fail_always(device, SIM_OPEN_DEVICE, EACCES);
	make_folders(sysfs.root, "mlx4_0/ports/1/");
	make_folders(sysfs.root, "mlx4_0/ports/2/");
	discover();
	assert_int_equal(nics.count, 3);
	unusable(0, -EACCES, "mlx4_0 port 1", "ibv_open_device");
	unusable(1, -EACCES, "mlx4_0 port 2", "ibv_open_device");
	assert_string_equal(nics.list[2].name, "mlx5_0");
	remove_sysfs(&sysfs);
}

/* ---- Rates ----------------------------------------------------------------------------------- */

static void a_rate_that_is_unknown_is_assumed(void **state)
{
	struct sim_device *device = add("mlx5_0");

	(void)state;
	device->ports[0].attr.active_width = 3;
	discover();
	assert_int_equal(nics.list[0].bytes_per_s, 400 * GBPS);
	assert_int_equal(nics.list[0].rate_source, OTTE_RDMA_RATE_ASSUMED);
}

static void the_fastest_link_of_today_is_known(void **state)
{
	struct sim_device *device = add("mlx5_0");

	(void)state;
	device->ports[0].attr.active_speed = 128;
	device->ports[0].active_speed_ex = 256;
	discover();
	assert_int_equal(nics.list[0].bytes_per_s, 800 * GBPS);
	device->ports[0].port_speed = 16000;
	discover();
	assert_int_equal(nics.list[0].bytes_per_s, 1600 * GBPS);
}

static void a_configured_rate_is_that_of_every_nic(void **state)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct sim_device *device = add("rxe0");

	(void)state;
	add("mlx5_0")->ports[0].port_speed = 4000;
	device->ports[0].attr.active_width = 0;
	select.link_rate_mbps = 25000;
	assert_int_equal(discover_with(&select), 0);
	assert_int_equal(nics.list[0].bytes_per_s, 25 * GBPS);
	assert_int_equal(nics.list[1].bytes_per_s, 25 * GBPS);
	assert_int_equal(nics.list[1].rate_source, OTTE_RDMA_RATE_CONFIGURED);
	select.link_rate_mbps = UINT32_MAX;
	assert_int_equal(discover_with(&select), 0);
	assert_int_equal(nics.list[0].bytes_per_s, UINT32_MAX * 125000ull);
}

/* ---- What is fixed --------------------------------------------------------------------------- */

static void a_device_alone_means_its_port_1_and_its_gid_0(void **state)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct sim_device *other = add("mlx5_0"), *device = add("mlx5_1");

	(void)state;
	device->attr.phys_port_cnt = 2;
	device->ports[1] = device->ports[0];
	sim_gid_set(device, 1, 0, "fe80::1", IBV_GID_TYPE_ROCE_V1);
	sim_gid_set(device, 1, 1, "192.0.2.1", IBV_GID_TYPE_ROCE_V2);
	select.device = "mlx5_1";
	assert_int_equal(discover_with(&select), 0);
	assert_int_equal(nics.count, 1);
	assert_string_equal(nics.list[0].name, "mlx5_1");
	assert_int_equal(nics.list[0].port, 1);
	assert_int_equal(nics.list[0].gid.index, 0);
	assert_string_equal(gid_text(0), "fe80::1");
	assert_false(was_opened(other));
}

static void a_device_with_the_rest_to_be_chosen_has_all_ports_and_the_best_gids(void **state)
{
	const struct otte_rdma_select select = {
		.device = "mlx5_0",
		.port = OTTE_RDMA_CHOOSE,
		.gid_index = OTTE_RDMA_CHOOSE,
	};
	struct sim_device *device = add("mlx5_0");

	(void)state;
	device->attr.phys_port_cnt = 2;
	sim_gid_set(device, 1, 0, "fe80::1", IBV_GID_TYPE_ROCE_V1);
	sim_gid_set(device, 1, 3, "192.0.2.1", IBV_GID_TYPE_ROCE_V2);
	device->ports[1] = device->ports[0];
	device->ports[1].error = EIO;
	assert_int_equal(discover_with(&select), 0);
	assert_int_equal(nics.count, 2);
	assert_int_equal(nics.list[0].gid.index, 3);
	unusable(1, -EIO, "mlx5_0 port 2", "ibv_query_port");
}

static void a_device_that_is_not_there_has_no_substitute(void **state)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct sim_device *device = add("mlx5_0");

	(void)state;
	select.device = "mlx5_9";
	refuse(&select, -ENODEV, "no device mlx5_9", "rdma", "");
	assert_false(was_opened(device));
}

static void a_port_that_is_not_there_has_no_substitute(void **state)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;

	(void)state;
	add("mlx5_0");
	select.device = "mlx5_0";
	select.port = 2;
	refuse(&select, -ENODEV, "mlx5_0", "no port 2", "it has 1");
}

static void a_gid_that_is_not_there_has_no_substitute(void **state)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct sim_device *device = add("mlx5_0");

	(void)state;
	select.device = "mlx5_0";
	select.gid_index = 2;
	refuse(&select, -ENODATA, "mlx5_0 port 1", "GID 2", "empty");
	select.gid_index = 9;
	refuse(&select, -ENODATA, "mlx5_0 port 1", "no GID 9", "there are 4");
	select.gid_index = 0;
	sim_gid_set(device, 1, 0, "::", IBV_GID_TYPE_ROCE_V2);
	refuse(&select, -ENODATA, "mlx5_0 port 1", "GID 0", "empty");
}

static void a_fixed_device_that_fails_is_an_error_that_names_the_call(void **state)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct sim_device *device = add("mlx5_0");
	unsigned int id;

	(void)state;
	add("mlx5_1");
	select.device = "mlx5_0";
	id = fail_always(device, SIM_OPEN_DEVICE, EACCES);
	refuse(&select, -EACCES, "mlx5_0", "ibv_open_device", "Permission denied");
	sim_fault_disarm(id);
	id = fail_always(device, SIM_QUERY_DEVICE, EIO);
	refuse(&select, -EIO, "mlx5_0", "ibv_query_device", "Input/output error");
	sim_fault_disarm(id);
	device->ports[0].error = EIO;
	refuse(&select, -EIO, "mlx5_0 port 1", "ibv_query_port", "Input/output error");
	device->ports[0].error = 0;
	device->ports[0].gids[0].error = EIO;
	refuse(&select, -EIO, "mlx5_0 port 1", "GID 0: ibv_query_gid", "Input/output error");
}

static void a_fixed_port_that_is_down_is_paused(void **state)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;

	(void)state;
	add("mlx5_0")->ports[0].attr.state = IBV_PORT_DOWN;
	select.device = "mlx5_0";
	assert_int_equal(discover_with(&select), 0);
	assert_int_equal(nics.list[0].state, OTTE_RDMA_PAUSED);
}

/* Without a device a port and a GID are those of each. */
static void a_fixed_port_or_gid_holds_for_every_device(void **state)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct sim_device *device;

	(void)state;
	add("mlx5_0");
	device = add("mlx5_1");
	device->attr.phys_port_cnt = 2;
	device->ports[1] = device->ports[0];
	sim_gid_set(device, 2, 1, "192.0.2.4", IBV_GID_TYPE_ROCE_V1);
	select.port = 2;
	select.gid_index = 1;
	assert_int_equal(discover_with(&select), 0);
	assert_int_equal(nics.count, 2);
	unusable(0, -ENODEV, "mlx5_0", "no port 2");
	assert_int_equal(nics.list[1].port, 2);
	assert_int_equal(nics.list[1].gid.index, 1);
}

static void what_is_no_port_and_no_gid_is_refused(void **state)
{
	static const int ports[] = { -3, 0, 256 };
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct sim_device *device = add("mlx5_0");
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(ports); i++) {
		select.port = ports[i];
		refuse(&select, -EINVAL, "rdma: port", "", "");
	}
	select.port = OTTE_RDMA_UNSET;
	select.gid_index = -3;
	refuse(&select, -EINVAL, "rdma: GID -3", "", "");
	assert_false(was_opened(device));
}

/* ---- What is permitted ----------------------------------------------------------------------- */

static void what_is_not_permitted_is_not_opened_and_has_no_id(void **state)
{
	static const char *const black[] = { "mlx5_0", "mlx5_7" };
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct sim_device *one = add("mlx5_0"), *other = add("mlx5_1");

	(void)state;
	select.blacklist = black;
	select.blacklist_count = ARRAY_SIZE(black);
	assert_int_equal(discover_with(&select), 0);
	assert_int_equal(nics.count, 1);
	assert_string_equal(nics.list[0].name, "mlx5_1");
	assert_false(was_opened(one));
	assert_true(was_opened(other));
}

static void a_whitelist_beats_the_blacklist(void **state)
{
	static const char *const names[] = { "mlx5_1" };
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct sim_device *one = add("mlx5_0"), *other = add("mlx5_1");

	(void)state;
	select.whitelist = select.blacklist = names;
	select.whitelist_count = select.blacklist_count = 1;
	assert_int_equal(discover_with(&select), 0);
	assert_int_equal(nics.count, 1);
	assert_string_equal(nics.list[0].name, "mlx5_1");
	assert_false(was_opened(one));
	assert_true(was_opened(other));
}

static void an_empty_whitelist_permits_all_but_the_blacklist(void **state)
{
	static const char *const black[] = { "mlx5_1" };
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;

	(void)state;
	add("mlx5_0");
	add("mlx5_1");
	select.whitelist = black;
	select.whitelist_count = 0;
	select.blacklist = black;
	select.blacklist_count = 1;
	assert_int_equal(discover_with(&select), 0);
	assert_int_equal(nics.count, 1);
	assert_string_equal(nics.list[0].name, "mlx5_0");
}

static void a_fixed_device_that_is_not_permitted_is_refused(void **state)
{
	static const char *const names[] = { "mlx5_0" };
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct sim_device *one = add("mlx5_0"), *other = add("mlx5_1");

	(void)state;
	select.device = "mlx5_0";
	select.blacklist = names;
	select.blacklist_count = 1;
	refuse(&select, -EINVAL, "mlx5_0", "fixed", "blacklist");
	select.device = "mlx5_1";
	select.whitelist = names;
	select.whitelist_count = 1;
	refuse(&select, -EINVAL, "mlx5_1", "fixed", "whitelist");
	assert_false(was_opened(one) || was_opened(other));
}

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, start, finish)

int run_discovery_tests(void)
{
	const struct CMUnitTest tests[] = {
		ON_A_MACHINE(a_machine_without_devices_has_no_nic),
		ON_A_MACHINE(devices_that_cannot_be_listed_are_an_error),
		ON_A_MACHINE(an_active_port_is_a_nic_with_all_that_it_says),
		ON_A_MACHINE(a_port_that_is_down_is_paused_and_keeps_its_context),
		ON_A_MACHINE(a_port_that_is_down_without_a_gid_is_unusable),
		ON_A_MACHINE(each_port_is_a_nic_with_a_context_of_its_own),
		ON_A_MACHINE(a_context_that_was_taken_is_not_closed),
		ON_A_MACHINE(what_is_neither_infiniband_nor_roce_is_not_opened),
		ON_A_MACHINE(ids_follow_the_names_and_not_the_order_of_the_list),
		ON_A_MACHINE(what_fails_keeps_its_id),
		ON_A_MACHINE(no_more_than_a_mask_has_bits),
		ON_A_MACHINE(a_failing_call_is_named_and_leaves_nothing_open),
		ON_A_MACHINE(a_call_that_fails_without_a_reason_is_an_io_error),
		ON_A_MACHINE(an_mtu_that_does_not_exist_makes_a_port_unusable),
		ON_A_MACHINE(a_routable_roce_v2_address_is_preferred),
		ON_A_MACHINE(of_equal_addresses_the_first_is_chosen),
		ON_A_MACHINE(infiniband_has_its_first_gid),
		ON_A_MACHINE(an_entry_that_cannot_be_read_is_passed_over),
		ON_A_MACHINE(a_length_of_the_table_that_cannot_be_is_no_harm),
		ON_A_MACHINE(without_types_from_the_library_sysfs_has_them),
		ON_A_MACHINE(infiniband_needs_no_type_from_sysfs),
		ON_A_MACHINE(pci_and_node_are_those_of_sysfs),
		ON_A_MACHINE(a_device_that_does_not_open_keeps_as_many_ids_as_it_has_ports),
		ON_A_MACHINE(a_rate_that_is_unknown_is_assumed),
		ON_A_MACHINE(the_fastest_link_of_today_is_known),
		ON_A_MACHINE(a_configured_rate_is_that_of_every_nic),
		ON_A_MACHINE(a_device_alone_means_its_port_1_and_its_gid_0),
		ON_A_MACHINE(a_device_with_the_rest_to_be_chosen_has_all_ports_and_the_best_gids),
		ON_A_MACHINE(a_device_that_is_not_there_has_no_substitute),
		ON_A_MACHINE(a_port_that_is_not_there_has_no_substitute),
		ON_A_MACHINE(a_gid_that_is_not_there_has_no_substitute),
		ON_A_MACHINE(a_fixed_device_that_fails_is_an_error_that_names_the_call),
		ON_A_MACHINE(a_fixed_port_that_is_down_is_paused),
		ON_A_MACHINE(a_fixed_port_or_gid_holds_for_every_device),
		ON_A_MACHINE(what_is_no_port_and_no_gid_is_refused),
		ON_A_MACHINE(what_is_not_permitted_is_not_opened_and_has_no_id),
		ON_A_MACHINE(a_whitelist_beats_the_blacklist),
		ON_A_MACHINE(an_empty_whitelist_permits_all_but_the_blacklist),
		ON_A_MACHINE(a_fixed_device_that_is_not_permitted_is_refused),
	};

	return cmocka_run_group_tests_name("discovery", tests, NULL, NULL);
}
