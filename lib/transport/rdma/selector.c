/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/selector.h"

#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "topo/memory_node.h"
#include "topo/topo.h"
#include "transport/rdma/domain.h"
#include "transport/rdma/ranks.h"
#include "transport/rdma/rdma.h"

/* ---- Devices --------------------------------------------------------------------------------- */

void otte_rdma_permitted_of(const struct otte_config *config, struct otte_rdma_permitted *permitted)
{
	struct otte_rdma_select *select = &permitted->select;

	otte_name_list_split(&permitted->whitelist, config->rdma_whitelist);
	otte_name_list_split(&permitted->blacklist, config->rdma_blacklist);
	*select = (struct otte_rdma_select)OTTE_RDMA_SELECT_DEFAULTS;
	select->device = config->rdma_device[0] ? config->rdma_device : NULL;
	if (config->rdma_port)
		select->port = (int)config->rdma_port;
	if (config->rdma_gid_index != OTTE_RDMA_GID_UNSET)
		select->gid_index = (int)config->rdma_gid_index;
	select->link_rate_mbps = config->rdma_link_rate_mbps;
	select->whitelist = permitted->whitelist.names;
	select->whitelist_count = permitted->whitelist.count;
	select->blacklist = permitted->blacklist.names;
	select->blacklist_count = permitted->blacklist.count;
}

/* ---- NICs ------------------------------------------------------------------------------------ */

uint64_t otte_rdma_selector_mask(const struct otte_config *config)
{
	return config->rdma_device_mask ? config->rdma_device_mask : UINT64_MAX;
}

static uint64_t all_nics(const struct otte_rdma *rdma)
{
	uint64_t all = 0;
	unsigned int nic;

	for (nic = 0; nic < OTTE_NIC_IDS; nic++)
		all |= (uint64_t) !!rdma->pollers[nic].context << nic;
	return all;
}

static int check_mask(const struct otte_rdma *rdma)
{
	uint64_t mask = otte_rdma_selector_mask(rdma->env.config), all = all_nics(rdma);

	if (mask & all)
		return 0;
	return otte_fail(-ENODEV,
			 "rdma.device_mask: %#" PRIx64 " leaves no NIC, there are those of %#" PRIx64,
			 mask, all);
}

static int preferred_node(const struct otte_config *config)
{
	return config->rdma_numa_node == OTTE_RDMA_NODE_UNSET ? OTTE_TOPO_NO_NODE :
								 (int)config->rdma_numa_node;
}

static bool is_of_a_nic(const struct otte_rdma *rdma, int node)
{
	unsigned int nic;

	for (nic = 0; nic < OTTE_NIC_IDS; nic++)
		if (rdma->pollers[nic].context && rdma->pollers[nic].context->node == node)
			return true;
	return false;
}

static int check_node(const struct otte_rdma *rdma)
{
	int node = preferred_node(rdma->env.config);

	if (node < 0 || is_of_a_nic(rdma, node) || otte_memory_has_node(node))
		return 0;
	return otte_fail(-ENODEV, "rdma.numa_node: there is no node %d", node);
}

/* With a node that is fixed it does not depend on where memory is. */
static int check_left(const struct otte_rdma *rdma)
{
	const struct otte_location any = { .kind = OTTE_LOCATION_ANY };
	int node = preferred_node(rdma->env.config);

	if (node < 0 || otte_devices_eligible(rdma->devices, any))
		return 0;
	return otte_fail(-ENODEV, "rdma.numa_node: for memory at node %d no NIC is left", node);
}

static int open_devices(struct otte_rdma *rdma)
{
	const struct otte_config *config = rdma->env.config;
	struct otte_device list[OTTE_NIC_IDS];
	struct otte_devices_setup setup = {
		.params = OTTE_DEVICES_PARAMS,
		.devices = list,
		.count = OTTE_NIC_IDS,
		.priority = &rdma->ranks,
	};
	unsigned int i;

	for (i = 0; i < OTTE_NIC_IDS; i++) {
		const struct otte_rdma_context *context = rdma->pollers[i].context;

		list[i] = (struct otte_device){ .node = OTTE_TOPO_NO_NODE };
		if (!context)
			continue;
		list[i] =
			(struct otte_device){ .node = context->node, .rate = context->bytes_per_s };
	}
	setup.params.mask = otte_rdma_selector_mask(config);
	setup.params.smart = config->rdma_smart_selection;
	setup.params.strict_numa = config->rdma_strict_numa;
	setup.params.preferred_node = preferred_node(config);
	setup.params.others = otte_rdma_domain_others;
	setup.params.moves = otte_rdma_domain_moves;
	setup.params.arg = rdma;
	return otte_devices_open(&setup, &rdma->devices);
}

int otte_rdma_selector_open(struct otte_rdma *rdma)
{
	int ret = check_mask(rdma);

	if (!ret)
		ret = check_node(rdma);
	if (!ret)
		ret = otte_rdma_ranks_open(rdma);
	if (!ret)
		ret = open_devices(rdma);
	return ret ? ret : check_left(rdma);
}

void otte_rdma_selector_close(struct otte_rdma *rdma)
{
	otte_devices_close(rdma->devices);
	otte_nic_priority_free(&rdma->ranks);
	rdma->devices = NULL;
}
