/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/ranks.h"

#include "base/error.h"
#include "topo/memory_node.h"
#include "transport/rdma/rdma.h"

/* A NIC of which nobody knows that it is near weighs as one that is not. */
int otte_rdma_ranks_open(struct otte_rdma *rdma)
{
	const struct otte_config *config = rdma->env.config;
	const char *names[OTTE_NIC_IDS];
	int nodes[OTTE_NIC_IDS], ret;
	const struct otte_nic_priority_source source = {
		.nics = { .names = names, .count = OTTE_NIC_IDS },
		.nodes = nodes,
		.matrix = config->rdma_priority_matrix,
		.path = config->rdma_topology_file,
	};
	unsigned int nic;

	for (nic = 0; nic < OTTE_NIC_IDS; nic++) {
		const struct otte_rdma_context *context = rdma->pollers[nic].context;

		names[nic] = context ? context->name : NULL;
		nodes[nic] = context ? context->node : OTTE_TOPO_NO_NODE;
	}
	ret = otte_nic_priority_load(&source, &rdma->ranks);
	if (!ret)
		return 0;
	if (config->rdma_priority_matrix[0])
		return otte_fail_within(ret, "rdma.priority_matrix: ");
	return config->rdma_topology_file[0] ? otte_fail_within(ret, "rdma.topology_file: ") : ret;
}

struct otte_location otte_rdma_location_of(const void *address, uint64_t length)
{
	int node = otte_memory_node(address, length);

	if (node < 0)
		return (struct otte_location){ .kind = OTTE_LOCATION_ANY };
	return (struct otte_location){ .kind = OTTE_LOCATION_CPU, .index = (uint32_t)node };
}
