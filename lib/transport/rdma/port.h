/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the port of a context says of itself now. No state; the provider may sleep. */
#ifndef OTTE_TRANSPORT_RDMA_PORT_H
#define OTTE_TRANSPORT_RDMA_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "transport/rdma/context.h"

struct otte_rdma_answer {
	bool usable;
	char why[OTTE_ERROR_BYTES]; /* it is not; the rest is of one that is */
	struct otte_rdma_address address;
	uint64_t bytes_per_s; /* 0: it does not say */
};

/*
 * With the GID at this index, or OTTE_RDMA_CHOOSE. A port that is down and a GID that is not there
 * are answers. Not 0, with a text: there is none, and nothing follows from it.
 */
int otte_rdma_port_ask(const struct otte_rdma_context *context, int gid_index,
		       struct otte_rdma_answer *answer);

/* NULL: connections to one reach the other, too. Else in words what differs. */
const char *otte_rdma_address_change(const struct otte_rdma_address *one,
				     const struct otte_rdma_address *other);

#endif
