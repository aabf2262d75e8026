/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contexts of a transport by the stable ids of their NICs, which are discovery's. A slot whose
 * NIC cannot be used stays empty and says why; no other slot moves.
 *
 *   slot: EMPTY (`code`, `why`) | OPEN --close--> EMPTY, or still OPEN: busy or retained
 *
 * No lock: slots are filled by open() and emptied by close(), which one thread calls while nobody
 * else looks. What changes in between is a context's own.
 */
#ifndef OTTE_TRANSPORT_RDMA_CONTEXT_SET_H
#define OTTE_TRANSPORT_RDMA_CONTEXT_SET_H

#include <stddef.h>
#include <stdint.h>

#include "topo/priority.h"
#include "transport/rdma/context.h"

struct otte_rdma_context_slot {
	struct otte_rdma_context *context; /* NULL: empty */
	int code;
	char why[OTTE_ERROR_BYTES];
};

struct otte_rdma_context_set {
	size_t count;
	struct otte_rdma_context_slot slots[OTTE_NIC_IDS];
};

/*
 * Takes the contexts out of `nics`. 0 if one opened; else the first slot's code and text, or
 * -ENODEV where there is no NIC. `set` is to be closed in either case.
 */
int otte_rdma_context_set_open(const struct otte_verbs *verbs, struct otte_rdma_nics *nics,
			       const struct otte_rdma_context_params *params,
			       struct otte_rdma_context_set *set);

/*
 * Each that can be closed. -EBUSY, -EUCLEAN: of the first that cannot, with its text; call again.
 */
int otte_rdma_context_set_close(struct otte_rdma_context_set *set);

/* NULL: no such NIC, or its slot is empty. */
struct otte_rdma_context *otte_rdma_context_set_get(const struct otte_rdma_context_set *set,
						    unsigned int nic);

/* Masks by NIC id: where memory may be registered, and where paths go out. */
uint64_t otte_rdma_context_set_devices(const struct otte_rdma_context_set *set);
uint64_t otte_rdma_context_set_routes(const struct otte_rdma_context_set *set);

#endif
