/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where memory of this process is. No state. */
#ifndef OTTE_TOPO_MEMORY_NODE_H
#define OTTE_TOPO_MEMORY_NODE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The memory node of a range that is mapped, as its first page, its last and the one in between
 * have it; OTTE_TOPO_NO_NODE: they differ, or the kernel does not say (under seccomp, or without
 * NUMA). A page that is not there yet is made.
 */
int otte_memory_node(const void *address, uint64_t length);

/* Whether this machine has a node of that number. */
bool otte_memory_has_node(int node);

#endif
