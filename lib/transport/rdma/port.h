/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a port says of itself: to discovery, once, and to the monitor, again and again. No state;
 * the provider may sleep.
 */
#ifndef OTTE_TRANSPORT_RDMA_PORT_H
#define OTTE_TRANSPORT_RDMA_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "transport/rdma/context.h"
#include "transport/rdma/verbs.h"

/* One of an open device. */
struct otte_rdma_port {
	const struct otte_verbs *verbs;
	struct ibv_context *context;
	const char *sysfs; /* the device's folder there */
	uint8_t number;
};

/* Not 0, with a text that names the call: there is no answer. */
int otte_rdma_port_query(const struct otte_rdma_port *port, union otte_verbs_port *attr);

/*
 * What a peer is to connect to, of what the port has said, with the GID at this index, or
 * OTTE_RDMA_CHOOSE. -ENODATA with a text: there is no such GID; others: something cannot be used.
 */
int otte_rdma_port_address(const struct otte_rdma_port *port, const struct ibv_port_attr *attr,
			   int gid_index, struct otte_rdma_address *address);

struct otte_rdma_answer {
	bool usable;
	char why[OTTE_ERROR_BYTES]; /* it is not; the rest is of one that is */
	struct otte_rdma_address address;
	uint64_t bytes_per_s; /* 0: it does not say */
};

/*
 * Both, of the port of a context. A port that is down and a GID that is not there are answers.
 * Not 0, with a text: there is none, and nothing follows from it.
 */
int otte_rdma_port_ask(const struct otte_rdma_context *context, int gid_index,
		       struct otte_rdma_answer *answer);

/* NULL: connections to one reach the other, too. Else in words what differs. */
const char *otte_rdma_address_change(const struct otte_rdma_address *one,
				     const struct otte_rdma_address *other);

#endif
