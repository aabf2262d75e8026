/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "topo/cpus.h"

static void add_node(const struct otte_topo *topo, int node, cpu_set_t *cpus)
{
	size_t i;

	for (i = 0; i < topo->node_count; i++)
		if (node != OTTE_TOPO_NO_NODE && topo->nodes[i].id == node)
			CPU_OR(cpus, cpus, &topo->nodes[i].cpu_set);
}

bool otte_topo_cpus_near(const struct otte_topo *topo, const int *nodes, size_t count,
			 const cpu_set_t *allowed, cpu_set_t *cpus)
{
	cpu_set_t near;
	size_t i;

	CPU_ZERO(&near);
	for (i = 0; i < count; i++)
		add_node(topo, nodes[i], &near);
	CPU_AND(cpus, &near, allowed);
	if (CPU_COUNT(cpus))
		return true;
	*cpus = *allowed;
	return false;
}
