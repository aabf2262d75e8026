/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/ranks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "cuda/devices.h"
#include "topo/memory_node.h"
#include "transport/rdma/rdma.h"

/* What is known of GPUs, while ranks are made of it. */
struct gpus {
	struct otte_topo *topo;
	struct otte_cuda_devices devices;
	const char *pci[OTTE_CUDA_DEVICES_MAX];
};

static bool is_given(const struct otte_config *config)
{
	return config->rdma_priority_matrix[0] || config->rdma_topology_file[0];
}

/*
 * Only where NICs reach them, and nothing is said of them. A driver that is not there has none, and
 * without a topology none is near.
 */
static void look_at_gpus(const struct otte_config *config, struct gpus *gpus)
{
	const struct otte_cuda *cuda;
	size_t i;

	if (config->rdma_cuda_memory != OTTE_CUDA_MEMORY_DIRECT || is_given(config))
		return;
	if (otte_cuda_open(&cuda) || otte_cuda_devices_read(cuda, &gpus->devices) ||
	    otte_topo_read(NULL, &gpus->topo)) {
		otte_log(OTTE_LOG_WARNING, "rdma: which NICs are near GPUs is not known: %s",
			 otte_error_text());
		return;
	}
	for (i = 0; i < gpus->devices.count; i++)
		gpus->pci[i] = gpus->devices.pci[i];
}

/* A NIC of which nobody knows that it is near weighs as one that is not. */
static int load(struct otte_rdma *rdma, const struct gpus *gpus)
{
	const struct otte_config *config = rdma->env.config;
	const char *names[OTTE_NIC_IDS];
	int nodes[OTTE_NIC_IDS];
	const struct otte_nic_priority_source source = {
		.nics = { .names = names, .count = OTTE_NIC_IDS },
		.nodes = nodes,
		.matrix = config->rdma_priority_matrix,
		.path = config->rdma_topology_file,
		.topo = gpus->topo,
		.cuda = gpus->pci,
		.cuda_count = gpus->topo ? gpus->devices.count : 0,
	};
	unsigned int nic;

	for (nic = 0; nic < OTTE_NIC_IDS; nic++) {
		const struct otte_rdma_context *context = rdma->pollers[nic].context;

		names[nic] = context ? context->name : NULL;
		nodes[nic] = context ? context->node : OTTE_TOPO_NO_NODE;
	}
	return otte_nic_priority_load(&source, &rdma->ranks);
}

int otte_rdma_ranks_open(struct otte_rdma *rdma)
{
	const struct otte_config *config = rdma->env.config;
	struct gpus *gpus = calloc(1, sizeof(*gpus));
	int ret;

	if (!gpus)
		return otte_fail(-ENOMEM, "no memory for a list of GPUs");
	look_at_gpus(config, gpus);
	ret = load(rdma, gpus);
	otte_topo_free(gpus->topo);
	free(gpus);
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
