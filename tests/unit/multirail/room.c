/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "engine/engine.h"

int with_two_networks(void **state)
{
	with_two_nics(state);
	sim_link_set(ours[0], theirs[1], false);
	sim_link_set(ours[1], theirs[0], false);
	return 0;
}

void use_rdma(struct otte_config *config)
{
	use_nics(config);
	config->rdma_mrs = 1024;
	config->retry_budget = 1;
	config->rdma_qp_timeout = 13; /* 34 ms */
	config->rdma_qp_retries = 1;
	config->reconnect_min_ns = 1000000;
	config->reconnect_max_ns = 8000000;
	config->rdma_smart_selection = 0; /* halves, whatever has been measured */
}

void use_selection(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_smart_selection = 1;
}

struct otte_task move(struct pair *pair, uint8_t op, uint32_t transport, uint64_t length,
		      uint8_t salt)
{
	pair_fill(pair->remote_bytes, pair->size, op == OTTE_READ ? salt : 0);
	pair_fill(pair->local_bytes, pair->size, op == OTTE_READ ? 0 : salt);
	memset(op == OTTE_READ ? pair->local_bytes : pair->remote_bytes, UNTOUCHED, pair->size);
	return run_over(pair, op, transport, GUARD, length);
}

uint64_t carried(uint8_t op, unsigned rail)
{
	return op == OTTE_READ ? sim_counts(ours[rail]).bytes_read :
				 sim_counts(theirs[rail]).bytes_written;
}

struct otte_rdma *rdma_of(struct otte_engine *engine)
{
	return container_of(engine->transport, struct otte_rdma, base);
}

void measure(const struct pair *pair, unsigned rail, uint64_t bytes, uint64_t ns, unsigned times)
{
	const struct otte_devices_request request = {
		.location.kind = OTTE_LOCATION_ANY,
		.allowed = 1ull << rail,
		.slicing = { .count = 1, .block_bytes = bytes },
		.length = bytes,
	};
	struct otte_devices *devices = rdma_of(pair->requester)->devices;
	uint64_t now_ns = otte_now_ns();
	struct otte_device_charge charge;
	struct otte_device_lease lease;

	while (times--) {
		OK(otte_devices_select(devices, &request, &charge));
		assert_true(otte_device_charge_take(&charge, 0, &lease));
		OK(otte_device_lease_tell(&lease, OTTE_DEVICE_POSTED, bytes, now_ns));
		now_ns += ns;
		OK(otte_device_lease_tell(&lease, OTTE_DEVICE_COMPLETED, bytes, now_ns));
		OK(otte_device_lease_end(&lease));
	}
}

void read_nics(const struct pair *pair, struct otte_nic_info rows[RAILS])
{
	size_t count;

	OK(otte_engine_nics(pair->requester, rows, RAILS, &count));
	assert_int_equal(count, RAILS);
}

void put_at_node(struct sim_device *device, const char *root, int node)
{
	char path[2 * IBV_SYSFS_PATH_MAX];
	FILE *file;

	snprintf(device->device.ibdev_path, sizeof(device->device.ibdev_path), "%s/%d", root, node);
	OK(mkdir(device->device.ibdev_path, 0700));
	snprintf(path, sizeof(path), "%s/device", device->device.ibdev_path);
	OK(mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/device/numa_node", device->device.ibdev_path);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%d\n", node);
	OK(fclose(file));
}

void take_from_node(struct sim_device *device)
{
	char path[2 * IBV_SYSFS_PATH_MAX];

	snprintf(path, sizeof(path), "%s/device/numa_node", device->device.ibdev_path);
	OK(unlink(path));
	snprintf(path, sizeof(path), "%s/device", device->device.ibdev_path);
	OK(rmdir(path));
	OK(rmdir(device->device.ibdev_path));
}
