/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The addresses of a port, and which of them to use. No state. */
#ifndef OTTE_TRANSPORT_RDMA_GID_H
#define OTTE_TRANSPORT_RDMA_GID_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/discovery.h"
#include "transport/rdma/verbs.h"

/* Whose GIDs are asked for. */
struct otte_rdma_gid_table {
	const struct otte_verbs *verbs;
	struct ibv_context *context;
	const char *sysfs; /* the device's folder there */
	uint8_t port;
	bool ethernet;
	int length;
};

/* One entry. -ENODATA: it is empty; else what the call failed with. Text says which entry. */
int otte_rdma_gid_read(const struct otte_rdma_gid_table *table, int index,
		       struct otte_rdma_gid *gid);

/*
 * The best: RoCE v2 with an address that is routed, RoCE v2, RoCE v1 or InfiniBand; the first of
 * equal ones. An entry that cannot be read is passed over while there is another.
 */
int otte_rdma_gid_choose(const struct otte_rdma_gid_table *table, struct otte_rdma_gid *gid);

#endif
