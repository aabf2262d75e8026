/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which NICs are near memory: by rdma.priority_matrix, else by rdma.topology_file, else by what
 * sysfs says of NICs' nodes. By that a memory node has its own NICs in the first rank and all others
 * in the last (topo/priority.h), and memory of which nobody knows where it is has all NICs alike.
 * Of GPUs, where NICs reach them (rdma.cuda_memory), the machine's topology says it: those below the
 * same bridge come first, then others of its node.
 */
#ifndef OTTE_TRANSPORT_RDMA_RANKS_H
#define OTTE_TRANSPORT_RDMA_RANKS_H

#include "topo/priority.h"

struct otte_rdma;

/* rdma->ranks. On error, with a text that names the key, there are none. */
int otte_rdma_ranks_open(struct otte_rdma *rdma);
/* Of registered memory. */
struct otte_location otte_rdma_location_of(const void *address, uint64_t length);

#endif
