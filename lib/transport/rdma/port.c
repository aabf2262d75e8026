/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "otte/otte.h"
#include "transport/rdma/gid.h"
#include "transport/rdma/rate.h"

static int take_mtu(const struct ibv_port_attr *attr, struct otte_rdma_address *address)
{
	if (attr->active_mtu < IBV_MTU_256 || attr->active_mtu > IBV_MTU_4096)
		return otte_fail(-EOPNOTSUPP, "unknown MTU %d", (int)attr->active_mtu);
	address->mtu_bytes = 128u << attr->active_mtu;
	return 0;
}

static int read_gid(const struct otte_rdma_port *port, const struct ibv_port_attr *attr, int index,
		    struct otte_rdma_gid *gid)
{
	const struct otte_rdma_gid_table table = {
		.verbs = port->verbs,
		.context = port->context,
		.sysfs = port->sysfs,
		.port = port->number,
		.ethernet = attr->link_layer == IBV_LINK_LAYER_ETHERNET,
		.length = attr->gid_tbl_len,
	};

	return index == OTTE_RDMA_CHOOSE ? otte_rdma_gid_choose(&table, gid) :
					   otte_rdma_gid_read(&table, index, gid);
}

int otte_rdma_port_query(const struct otte_rdma_port *port, union otte_verbs_port *attr)
{
	int rc;

	memset(attr, 0, sizeof(*attr));
	rc = port->verbs->query_port(port->context, port->number, attr);
	if (rc < 0)
		rc = EIO;
	return rc ? otte_fail(-rc, "ibv_query_port: %s", strerror(rc)) : 0;
}

int otte_rdma_port_address(const struct otte_rdma_port *port, const struct ibv_port_attr *attr,
			   int gid_index, struct otte_rdma_address *address)
{
	int rc = take_mtu(attr, address);

	if (rc)
		return rc;
	address->lid = attr->lid;
	address->ethernet = attr->link_layer == IBV_LINK_LAYER_ETHERNET;
	return read_gid(port, attr, gid_index, &address->gid);
}

static int failed_within(const struct otte_rdma_context *context, int rc)
{
	return otte_fail_within(rc, "%s port %u: ", context->name, context->port);
}

static int unusable(struct otte_rdma_answer *answer, const char *why)
{
	answer->usable = false;
	snprintf(answer->why, sizeof(answer->why), "%s", why);
	return 0;
}

int otte_rdma_port_ask(const struct otte_rdma_context *context, int gid_index,
		       struct otte_rdma_answer *answer)
{
	const struct otte_rdma_port port = {
		.verbs = context->verbs,
		.context = context->native,
		.sysfs = context->native->device->ibdev_path,
		.number = context->port,
	};
	union otte_verbs_port attr;
	int rc = otte_rdma_port_query(&port, &attr);

	memset(answer, 0, sizeof(*answer));
	if (rc)
		return failed_within(context, rc);
	if (attr.attr.state != IBV_PORT_ACTIVE)
		return unusable(answer, "is not active");
	answer->usable = true;
	answer->bytes_per_s = otte_rdma_port_rate(port.verbs, port.context, port.number, &attr);
	rc = otte_rdma_port_address(&port, &attr.attr, gid_index, &answer->address);
	if (rc == -ENODATA)
		return unusable(answer, otte_error_text());
	return rc ? failed_within(context, rc) : 0;
}

const char *otte_rdma_address_change(const struct otte_rdma_address *one,
				     const struct otte_rdma_address *other)
{
	if (one->ethernet != other->ethernet)
		return "the link layer is another";
	if (one->gid.index != other->gid.index || one->gid.type != other->gid.type ||
	    memcmp(one->gid.bytes, other->gid.bytes, sizeof(one->gid.bytes)))
		return "the GID is another";
	if (one->lid != other->lid)
		return "the LID is another";
	if (one->mtu_bytes != other->mtu_bytes)
		return "the MTU is another";
	return NULL;
}
