/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which NICs are near memory. Of a memory node its own NICs are of the first rank and all others of
 * the last (topo/priority.h); memory of which nobody knows where it is has all NICs alike.
 */
#ifndef OTTE_TRANSPORT_RDMA_RANKS_H
#define OTTE_TRANSPORT_RDMA_RANKS_H

#include "topo/priority.h"

struct otte_rdma;

/* rdma->ranks; on error what was made of them is to be freed. */
int otte_rdma_ranks_open(struct otte_rdma *rdma);
/* Of registered memory. */
struct otte_location otte_rdma_location_of(const void *address, uint64_t length);

#endif
