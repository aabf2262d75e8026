/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Devices as a test describes them, their ports and addresses, and who has opened them. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "sim/verbs/private.h"

/* As rxe has them: the first number of a QP that is free, and the first of a key. */
#define FIRST_QPN 16
#define COMP_VECTORS 4
#define RXE_VENDOR 0xffffffu
#define RXE_MESSAGE_BYTES 0x800000u

struct sim_nic sim_nics[SIM_DEVICES];
unsigned int sim_nic_count;
unsigned int sim_lists_now;

struct sim_context *sim_context_of(struct ibv_context *context)
{
	return container_of(context, struct sim_context, context);
}

struct sim_nic *sim_nic_of(struct ibv_context *context)
{
	return sim_context_of(context)->nic;
}

struct sim_port *sim_port_of(struct sim_nic *nic, uint32_t port)
{
	if (port < 1 || port > nic->device.attr.phys_port_cnt || port > SIM_PORTS)
		return NULL;
	return &nic->device.ports[port - 1];
}

/* ---- A device -------------------------------------------------------------------------------- */

static struct ibv_device_attr default_attr(unsigned int number)
{
	return (struct ibv_device_attr){
		.fw_ver = "sim",
		.node_guid = htobe64(0x0200000000000000ull | (number + 1)),
		.sys_image_guid = htobe64(0x0200000000000000ull | (number + 1)),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffff000,
		.max_qp = 4096,
		.max_qp_wr = 16384,
		.device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				    IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_RC_RNR_NAK_GEN,
		.max_sge = 32,
		.max_sge_rd = 32,
		.max_cq = 4096,
		.max_cqe = 32767,
		.max_mr = 65536,
		.max_pd = 4096,
		.max_mw = 65536,
		.max_qp_rd_atom = 128,
		.max_res_rd_atom = 4096 * 128,
		.max_qp_init_rd_atom = 128,
		.atomic_cap = IBV_ATOMIC_NONE,
		.max_pkeys = 64,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = 1,
	};
}

static struct sim_port default_port(void)
{
	return (struct sim_port){
		.attr = {
			.state = IBV_PORT_ACTIVE,
			.max_mtu = IBV_MTU_4096,
			.active_mtu = IBV_MTU_4096,
			.gid_tbl_len = SIM_GIDS,
			.max_msg_sz = 0x80000000,
			.pkey_tbl_len = 1,
			.active_width = 2,
			.active_speed = 32,
			.phys_state = 5,
			.link_layer = IBV_LINK_LAYER_ETHERNET,
		},
	};
}

static void default_gids(struct sim_device *device)
{
	unsigned int port, n = device->number + 1;
	char text[64];

	for (port = 1; port <= SIM_PORTS; port++) {
		device->ports[port - 1] = default_port();
		snprintf(text, sizeof(text), "fe80::%x:%x", port - 1, n);
		sim_gid_set(device, port, 0, text, IBV_GID_TYPE_ROCE_V2);
		snprintf(text, sizeof(text), "192.0.%u.%u", port + 1, n);
		sim_gid_set(device, port, 1, text, IBV_GID_TYPE_ROCE_V2);
	}
}

struct sim_device *sim_device_add(unsigned int host, const char *name)
{
	struct sim_nic *nic = &sim_nics[sim_nic_count];
	struct sim_device *device = &nic->device;

	*nic = (struct sim_nic){ .last_qpn = FIRST_QPN };
	device->host = host;
	device->number = sim_nic_count;
	snprintf(device->device.name, sizeof(device->device.name), "%s", name);
	snprintf(device->device.dev_name, sizeof(device->device.dev_name), "uverbs%u",
		 device->number);
	snprintf(device->device.ibdev_path, sizeof(device->device.ibdev_path), "/none/%s", name);
	device->device.node_type = IBV_NODE_CA;
	device->device.transport_type = IBV_TRANSPORT_IB;
	device->attr = default_attr(device->number);
	device->max_inline = 256;
	default_gids(device);
	sim_nic_count++;
	return device;
}

void sim_device_be_rxe(struct sim_device *device)
{
	struct ibv_port_attr *attr;
	unsigned int i;

	device->quirks = SIM_RXE;
	device->attr.vendor_id = RXE_VENDOR;
	for (i = 0; i < SIM_PORTS; i++) {
		attr = &device->ports[i].attr;
		attr->active_mtu = IBV_MTU_1024;
		attr->max_msg_sz = RXE_MESSAGE_BYTES;
		attr->active_width = 1;
		attr->active_speed = 1;
		attr->phys_state = 2; /* polling, also while the port is active */
	}
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static union ibv_gid address_of(const char *text)
{
	union ibv_gid gid = {};

	if (!text || inet_pton(AF_INET6, text, gid.raw) == 1)
		return gid;
	if (inet_pton(AF_INET, text, gid.raw + 12) != 1)
		sim_abort("%s is no address", text);
	gid.raw[10] = 0xff;
	gid.raw[11] = 0xff;
	return gid;
}

void sim_gid_set(struct sim_device *device, unsigned int port, unsigned int index,
		 const char *address, uint32_t type)
{
	struct sim_gid *gid = &device->ports[port - 1].gids[index];

	pthread_mutex_lock(&sim_lock);
	gid->gid = address_of(address);
	gid->type = type;
	sim_progress();
	pthread_mutex_unlock(&sim_lock);
}

static bool is_empty(const union ibv_gid *gid)
{
	static const union ibv_gid zero;

	return !memcmp(gid, &zero, sizeof(zero));
}

bool sim_port_has_gid(const struct sim_port *port, const union ibv_gid *gid)
{
	unsigned int i;

	for (i = 0; i < SIM_GIDS; i++)
		if (!is_empty(gid) && !memcmp(&port->gids[i].gid, gid, sizeof(*gid)))
			return true;
	return false;
}

static struct sim_gid *gid_of(struct sim_nic *nic, uint32_t number, uint32_t index)
{
	struct sim_port *port = sim_port_of(nic, number);

	return port && index < SIM_GIDS && (int)index < port->attr.gid_tbl_len ?
		       &port->gids[index] :
		       NULL;
}

int sim_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	struct sim_gid *own;
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_QUERY_GID, SIM_OF(context, context->device));
	own = gid_of(sim_nic_of(context), port, (uint32_t)index);
	if (!error)
		error = own ? own->error : EINVAL;
	if (!error)
		*gid = own->gid;
	pthread_mutex_unlock(&sim_lock);
	if (error)
		errno = error;
	return error ? -1 : 0;
}

static int query_entry(struct sim_nic *nic, uint32_t port, uint32_t index,
		       struct ibv_gid_entry *entry)
{
	const struct sim_gid *own = gid_of(nic, port, index);

	if (!own)
		return EINVAL;
	if (own->error)
		return own->error;
	if (is_empty(&own->gid))
		return ENODATA;
	*entry = (struct ibv_gid_entry){
		.gid = own->gid,
		.gid_index = index,
		.port_num = port,
		.gid_type = own->type,
	};
	return 0;
}

int sim_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		     struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	int error;

	if (flags || entry_size != sizeof(*entry))
		return EINVAL;
	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_QUERY_GID, SIM_OF(context, context->device));
	if (!error)
		error = query_entry(sim_nic_of(context), port, index, entry);
	pthread_mutex_unlock(&sim_lock);
	return error;
}

/* ---- Lists and contexts ---------------------------------------------------------------------- */

struct ibv_device **sim_get_device_list(unsigned int host, int *count)
{
	struct ibv_device **list;
	int error, found = 0;
	unsigned int i;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_GET_DEVICE_LIST, SIM_OF(NULL));
	list = error ? NULL : calloc(sim_nic_count + 1, sizeof(struct ibv_device *));
	for (i = 0; list && i < sim_nic_count; i++)
		if (sim_nics[i].device.host == host)
			list[found++] = &sim_nics[i].device.device;
	sim_lists_now += list != NULL;
	pthread_mutex_unlock(&sim_lock);
	if (!list)
		errno = error ? error : ENOMEM;
	else if (count)
		*count = found;
	return list;
}

void sim_free_device_list(struct ibv_device **list)
{
	pthread_mutex_lock(&sim_lock);
	sim_lists_now--;
	pthread_mutex_unlock(&sim_lock);
	free(list);
}

const char *sim_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static struct sim_context *new_context(struct sim_nic *nic)
{
	struct sim_context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	if (sim_event_queue_open(&context->events)) {
		free(context);
		return NULL;
	}
	context->nic = nic;
	context->context.device = &nic->device.device;
	context->context.cmd_fd = -1;
	context->context.async_fd = context->events.fd;
	context->context.num_comp_vectors = COMP_VECTORS;
	LIST_INIT(&context->pds);
	LIST_INIT(&context->channels);
	LIST_INIT(&context->cqs);
	LIST_INSERT_HEAD(&nic->contexts, context, link);
	nic->counts.contexts++;
	nic->counts.opened++;
	return context;
}

struct ibv_context *sim_open_device(struct ibv_device *device)
{
	struct sim_nic *nic = container_of(device, struct sim_nic, device.device);
	struct sim_context *context = NULL;
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_OPEN_DEVICE, SIM_OF(device));
	if (!error && nic->fatal)
		error = EIO;
	if (!error)
		context = new_context(nic);
	pthread_mutex_unlock(&sim_lock);
	if (!context)
		errno = error ? error : ENOMEM;
	return context ? &context->context : NULL;
}

static void free_context(struct sim_context *context)
{
	LIST_REMOVE(context, link);
	sim_event_queue_close(&context->events);
	free(context);
}

/* The kernel takes away what there is of it: no window is bound any more, no QP can be reached. */
static void abandon(struct sim_context *context)
{
	struct sim_pd *pd;
	struct sim_mw *mw;
	struct sim_qp *qp;

	context->closed = true;
	LIST_FOREACH(pd, &context->pds, link) {
		LIST_FOREACH(mw, &pd->mws, link)
			sim_window_unbind(mw);
		LIST_FOREACH(qp, &pd->qps, pd_link)
			sim_qp_set_error(qp);
	}
}

int sim_close_device(struct ibv_context *native)
{
	struct sim_context *context = sim_context_of(native);
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_CLOSE_DEVICE, SIM_OF(native, native->device));
	if (!error) {
		context->nic->counts.contexts--;
		if (LIST_EMPTY(&context->pds) && LIST_EMPTY(&context->channels) &&
		    LIST_EMPTY(&context->cqs))
			free_context(context);
		else
			abandon(context);
	}
	pthread_mutex_unlock(&sim_lock);
	return error ? -1 : 0;
}

int sim_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_QUERY_DEVICE, SIM_OF(context, context->device));
	if (!error)
		*attr = sim_nic_of(context)->device.attr;
	pthread_mutex_unlock(&sim_lock);
	return error;
}

/* ---- Ports ----------------------------------------------------------------------------------- */

static int query_port(struct sim_nic *nic, uint8_t number, union otte_verbs_port *attr)
{
	const struct sim_port *port = sim_port_of(nic, number);

	if (!port)
		return EINVAL;
	if (port->error)
		return port->error;
	memset(attr, 0, sizeof(*attr));
	attr->attr = port->attr;
	attr->extended.active_speed_ex = port->active_speed_ex;
	return 0;
}

int sim_query_port(struct ibv_context *context, uint8_t port, union otte_verbs_port *attr)
{
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_QUERY_PORT, SIM_OF(context, context->device));
	if (!error)
		error = query_port(sim_nic_of(context), port, attr);
	pthread_mutex_unlock(&sim_lock);
	return error;
}

int sim_query_port_speed(struct ibv_context *context, uint32_t number, uint64_t *hundred_mbps)
{
	const struct sim_port *port;
	uint64_t speed;

	pthread_mutex_lock(&sim_lock);
	port = sim_port_of(sim_nic_of(context), number);
	speed = port ? port->port_speed : 0;
	pthread_mutex_unlock(&sim_lock);
	if (!speed)
		return EOPNOTSUPP;
	*hundred_mbps = speed;
	return 0;
}

static void tell(struct sim_nic *nic, enum ibv_event_type type, unsigned int port)
{
	const struct ibv_async_event event = {
		.element.port_num = (int)port,
		.event_type = type,
	};
	struct sim_context *context;

	LIST_FOREACH(context, &nic->contexts, link)
		if (!context->closed)
			sim_event_push(&context->events, &event, NULL);
}

void sim_raise_port(struct sim_device *device, unsigned int port, enum ibv_event_type event)
{
	pthread_mutex_lock(&sim_lock);
	tell(container_of(device, struct sim_nic, device), event, port);
	pthread_mutex_unlock(&sim_lock);
}

void sim_port_set(struct sim_device *device, unsigned int port, enum ibv_port_state state)
{
	struct ibv_port_attr *attr = &device->ports[port - 1].attr;

	pthread_mutex_lock(&sim_lock);
	if ((attr->state == IBV_PORT_ACTIVE) != (state == IBV_PORT_ACTIVE))
		tell(container_of(device, struct sim_nic, device),
		     state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, port);
	attr->state = state;
	attr->phys_state = state == IBV_PORT_ACTIVE ? 5 : 3;
	sim_progress();
	pthread_mutex_unlock(&sim_lock);
}

void sim_device_fatal(struct sim_device *device)
{
	struct sim_nic *nic = container_of(device, struct sim_nic, device);
	struct sim_qp *qp;

	pthread_mutex_lock(&sim_lock);
	nic->fatal = true;
	LIST_FOREACH(qp, &nic->qps, nic_link)
		sim_qp_set_error(qp);
	tell(nic, IBV_EVENT_DEVICE_FATAL, 0);
	sim_progress();
	pthread_mutex_unlock(&sim_lock);
}

/* ---- The end --------------------------------------------------------------------------------- */

void sim_devices_reset(void)
{
	struct sim_context *context;
	unsigned int i;

	for (i = 0; i < sim_nic_count; i++) {
		while ((context = LIST_FIRST(&sim_nics[i].contexts))) {
			sim_memory_free(context);
			sim_completion_free(context);
			free_context(context);
		}
		free(sim_nics[i].keys);
	}
	memset(sim_nics, 0, sizeof(sim_nics));
	sim_nic_count = 0;
	sim_lists_now = 0;
	sim_ports = (struct sim_object){};
}
