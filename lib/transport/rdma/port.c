/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "otte/otte.h"
#include "transport/rdma/gid.h"
#include "transport/rdma/rate.h"

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

static int take_mtu(const struct otte_rdma_context *context, const struct ibv_port_attr *attr,
		    struct otte_rdma_address *address)
{
	if (attr->active_mtu < IBV_MTU_256 || attr->active_mtu > IBV_MTU_4096)
		return otte_fail(-EOPNOTSUPP, "%s port %u: unknown MTU %d", context->name,
				 context->port, (int)attr->active_mtu);
	address->mtu_bytes = 128u << attr->active_mtu;
	return 0;
}

static int read_gid(const struct otte_rdma_context *context, const struct ibv_port_attr *attr,
		    int index, struct otte_rdma_gid *gid)
{
	const struct otte_rdma_gid_table table = {
		.verbs = context->verbs,
		.context = context->native,
		.sysfs = context->native->device->ibdev_path,
		.port = context->port,
		.ethernet = attr->link_layer == IBV_LINK_LAYER_ETHERNET,
		.length = attr->gid_tbl_len,
	};

	return index == OTTE_RDMA_CHOOSE ? otte_rdma_gid_choose(&table, gid) :
					   otte_rdma_gid_read(&table, index, gid);
}

/* Of a port that is active. */
static int take_address(const struct otte_rdma_context *context, const struct ibv_port_attr *attr,
			int gid_index, struct otte_rdma_answer *answer)
{
	int rc = take_mtu(context, attr, &answer->address);

	if (rc)
		return rc;
	answer->address.lid = attr->lid;
	answer->address.ethernet = attr->link_layer == IBV_LINK_LAYER_ETHERNET;
	rc = read_gid(context, attr, gid_index, &answer->address.gid);
	if (rc == -ENODATA)
		return unusable(answer, otte_error_text());
	return rc ? failed_within(context, rc) : 0;
}

int otte_rdma_port_ask(const struct otte_rdma_context *context, int gid_index,
		       struct otte_rdma_answer *answer)
{
	union otte_verbs_port port = {};
	int rc = context->verbs->query_port(context->native, context->port, &port);

	memset(answer, 0, sizeof(*answer));
	if (rc)
		return otte_fail(rc < 0 ? rc : -rc, "%s port %u: ibv_query_port: %s", context->name,
				 context->port, strerror(rc < 0 ? -rc : rc));
	if (port.attr.state != IBV_PORT_ACTIVE)
		return unusable(answer, "is not active");
	answer->usable = true;
	answer->bytes_per_s =
		otte_rdma_port_rate(context->verbs, context->native, context->port, &port);
	return take_address(context, &port.attr, gid_index, answer);
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
