/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/ranks.h"

#include "topo/memory_node.h"
#include "transport/rdma/rdma.h"

static int node_of(const struct otte_rdma *rdma, unsigned int nic)
{
	const struct otte_rdma_context *context = rdma->pollers[nic].context;

	return context ? context->node : OTTE_TOPO_NO_NODE;
}

/* The least one above `node` that has a NIC, or -1. */
static int next_node(const struct otte_rdma *rdma, int node)
{
	int next = OTTE_TOPO_NO_NODE, each;
	unsigned int nic;

	for (nic = 0; nic < OTTE_NIC_IDS; nic++) {
		each = node_of(rdma, nic);
		if (each > node && (next < 0 || each < next))
			next = each;
	}
	return next;
}

static int add_row(struct otte_rdma *rdma, struct otte_location location, int node)
{
	struct otte_nic_row row = { .location = location };
	unsigned int nic, rank;

	for (nic = 0; nic < OTTE_NIC_IDS; nic++) {
		if (!rdma->pollers[nic].context)
			continue;
		rank = node >= 0 && node_of(rdma, nic) == node ? 0 : OTTE_NIC_RANKS - 1;
		row.ranks[rank] |= 1ull << nic;
	}
	return otte_nic_priority_add(&rdma->ranks, &row);
}

/* In the order of a table, which is that of kinds, and of indices within one. */
int otte_rdma_ranks_open(struct otte_rdma *rdma)
{
	struct otte_location location = { .kind = OTTE_LOCATION_CPU };
	int node = OTTE_TOPO_NO_NODE, ret = 0;

	while (!ret && (node = next_node(rdma, node)) >= 0) {
		location.index = (uint32_t)node;
		ret = add_row(rdma, location, node);
	}
	if (ret)
		return ret;
	location = (struct otte_location){ .kind = OTTE_LOCATION_ANY };
	return add_row(rdma, location, OTTE_TOPO_NO_NODE);
}

struct otte_location otte_rdma_location_of(const void *address, uint64_t length)
{
	int node = otte_memory_node(address, length);

	if (node < 0)
		return (struct otte_location){ .kind = OTTE_LOCATION_ANY };
	return (struct otte_location){ .kind = OTTE_LOCATION_CPU, .index = (uint32_t)node };
}
