/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "fake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

struct fake_context {
	struct ibv_context context;
	struct fake_device *device;
};

struct fake_machine fake;

static struct fake_device *device_of(struct ibv_context *context)
{
	return container_of(context, struct fake_context, context)->device;
}

static struct fake_port *port_of(struct ibv_context *context, uint32_t port)
{
	struct fake_device *device = device_of(context);

	return port >= 1 && (int)port <= device->ports && port <= FAKE_PORTS ?
		       &device->port[port - 1] :
		       NULL;
}

static struct ibv_device **get_device_list(int *count)
{
	struct ibv_device **list;
	int i;

	if (fake.list_error) {
		errno = fake.list_error;
		return NULL;
	}
	list = calloc((size_t)fake.count + 1, sizeof(struct ibv_device *));
	for (i = 0; list && i < fake.count; i++)
		list[i] = &fake.devices[i].device;
	*count = fake.count;
	fake.lists_now++;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	fake.lists_now--;
	free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
	return device->name;
}

static struct ibv_context *open_device(struct ibv_device *native)
{
	struct fake_device *device = container_of(native, struct fake_device, device);
	struct fake_context *context;

	device->opens++;
	if (device->open_error) {
		errno = device->open_error;
		return NULL;
	}
	context = calloc(1, sizeof(*context));
	if (!context)
		return NULL;
	context->device = device;
	device->open_now++;
	return &context->context;
}

static int close_device(struct ibv_context *context)
{
	device_of(context)->open_now--;
	free(container_of(context, struct fake_context, context));
	return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct fake_device *device = device_of(context);

	attr->phys_port_cnt = (uint8_t)device->ports;
	return device->query_error;
}

static int query_port(struct ibv_context *context, uint8_t number, union otte_verbs_port *attr)
{
	struct fake_port *port = port_of(context, number);

	if (!port)
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->attr = port->attr;
	attr->extended.active_speed_ex = port->active_speed_ex;
	return port->error;
}

static int query_port_speed(struct ibv_context *context, uint32_t number, uint64_t *hundred_mbps)
{
	struct fake_port *port = port_of(context, number);

	if (!port || !port->port_speed)
		return EOPNOTSUPP;
	*hundred_mbps = port->port_speed;
	return 0;
}

static void put_address(const char *text, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (!text || inet_pton(AF_INET6, text, gid->raw) == 1)
		return;
	gid->raw[10] = 0xff;
	gid->raw[11] = 0xff;
	inet_pton(AF_INET, text, gid->raw + 12);
}

static struct fake_gid *gid_of(struct ibv_context *context, uint32_t number, uint32_t index)
{
	struct fake_port *port = port_of(context, number);

	return port && index < FAKE_GIDS ? &port->gids[index] : NULL;
}

static int query_gid(struct ibv_context *context, uint8_t number, int index, union ibv_gid *gid)
{
	struct fake_gid *own = gid_of(context, number, (uint32_t)index);

	errno = own ? own->error : EINVAL;
	if (errno)
		return -1;
	put_address(own->address, gid);
	return 0;
}

static int query_gid_ex(struct ibv_context *context, uint32_t number, uint32_t index,
			struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct fake_gid *own = gid_of(context, number, index);

	if (flags || entry_size != sizeof(*entry))
		return EINVAL;
	if (!own || own->error)
		return own ? own->error : ENODATA;
	if (!own->address)
		return ENODATA;
	put_address(own->address, &entry->gid);
	entry->gid_type = own->type;
	return 0;
}

void fake_reset(void)
{
	fake = (struct fake_machine){
		.verbs = {
			.get_device_list = get_device_list,
			.free_device_list = free_device_list,
			.get_device_name = get_device_name,
			.open_device = open_device,
			.close_device = close_device,
			.query_device = query_device,
			.query_port = query_port,
			.query_gid = query_gid,
			.query_gid_ex = query_gid_ex,
			.query_port_speed = query_port_speed,
		},
	};
}

struct fake_device *fake_add(const char *name)
{
	struct fake_device *device = &fake.devices[fake.count++];

	snprintf(device->device.name, sizeof(device->device.name), "%s", name);
	snprintf(device->device.ibdev_path, sizeof(device->device.ibdev_path), "/none/%s", name);
	device->device.transport_type = IBV_TRANSPORT_IB;
	device->ports = 1;
	device->port[0] = (struct fake_port){
		.attr = {
			.state = IBV_PORT_ACTIVE,
			.active_mtu = IBV_MTU_4096,
			.gid_tbl_len = FAKE_GIDS,
			.active_width = 2,
			.active_speed = 32,
			.link_layer = IBV_LINK_LAYER_ETHERNET,
		},
		.gids = { { "192.0.2.1", IBV_GID_TYPE_ROCE_V2, 0 } },
	};
	return device;
}

unsigned int fake_open_now(void)
{
	unsigned int open = 0;
	int i;

	for (i = 0; i < fake.count; i++)
		open += fake.devices[i].open_now;
	return open;
}
