/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Local ranges that outlive their request: a transport could not prove that the kernel, or a NIC, is done
 * with them. Each holds its region and its range, as the request did, and has a record in the ledger, from
 * otte_keep() until otte_keep_let_go(). The request itself ends, not drained.
 */
#ifndef OTTE_ENGINE_KEEP_H
#define OTTE_ENGINE_KEEP_H

#include <stdint.h>

#include "transport/transport.h"

/* What the ledger's records say, for requests of ours and of peers alike. */
#define OTTE_KEEP_REASON "tcp: sent without a copy, and the kernel has not released it"
#define OTTE_LENT_REASON "rdma: a NIC may still reach it"
#define OTTE_PINNED_REASON "rdma: a NIC still has it registered"
#define OTTE_CUDA_REASON "cuda: memory, an event or a context of which the driver could not let go"
#define OTTE_COPY_REASON "cuda: a copy that cannot be proven done"
#define OTTE_MAPPED_REASON "local: mapped by a process of which nothing is heard any more"

int otte_keep(struct otte_work *work, const uint8_t *address, uint64_t length, void **kept);
void otte_keep_let_go(void *kept);
/* A native object of a transport's, for good. */
void otte_keep_lost(void *engine, uint64_t bytes, const char *what);

#endif
