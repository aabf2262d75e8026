/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "topo/memory_node.h"

#include <linux/mempolicy.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "topo/topo.h"

/* Without libnuma, which does no more than this call. */
static int node_at(const uint8_t *address)
{
	int node;

	if (syscall(SYS_get_mempolicy, &node, NULL, 0UL, address, MPOL_F_NODE | MPOL_F_ADDR))
		return OTTE_TOPO_NO_NODE;
	return node;
}

int otte_memory_node(const void *address, uint64_t length)
{
	const uint8_t *first = address;
	const uint64_t offsets[] = { length / 2, length - 1 };
	int node = node_at(first);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(offsets); i++)
		if (node_at(first + offsets[i]) != node)
			return OTTE_TOPO_NO_NODE;
	return node;
}

bool otte_memory_has_node(int node)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", node);
	return !access(path, F_OK);
}
