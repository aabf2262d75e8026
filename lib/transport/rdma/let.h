/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lease that a peer holds of us: an exposure of one range for as long as we let it. lease.h says
 * what leases are.
 *
 *   EXPECTING --the bind is posted--> BINDING --its CQE--> LEASED
 *                                             RETURN, not renewed, wanted back |
 *             gone <--the CQE of its invalidation-- ENDING <-------------------'
 *
 *   any --its pair has closed--> REVOKED --> gone
 *                                  `--its window stays--> RETAINED
 *
 * The peer's word that it has done is no evidence, and only has us begin to end it. That its
 * invalidation has completed is; or its queue pair is gone, as with a grant.
 *
 * No lock: its worker's thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_LET_H
#define OTTE_TRANSPORT_RDMA_LET_H

#include "transport/rdma/exposure.h"

enum otte_rdma_let_state {
	OTTE_RDMA_LET_EXPECTING = 0,
	OTTE_RDMA_LET_BINDING,
	OTTE_RDMA_LET_LEASED,
	OTTE_RDMA_LET_ENDING,
	OTTE_RDMA_LET_RETAINED,
};

struct otte_rdma_let {
	struct otte_rdma_let *prev, *next; /* source->lets */
	struct otte_rdma_range range;
	struct otte_rdma_exposure base;    /* since_ns: LEASED: it was renewed */
	enum otte_rdma_let_state state;
	bool posted;                       /* ENDING: its invalidation */
	bool told;                         /* that it is wanted back */
};

int otte_rdma_let_ask(struct otte_rdma_source_pair *pair, const struct otte_rdma_ask *ask);
void otte_rdma_let_renewed(struct otte_rdma_source *source,
			   const struct otte_rdma_leasing *leasing);
void otte_rdma_let_returned(struct otte_rdma_source *source,
			    const struct otte_rdma_leasing *leasing);
/* As those of grants. */
void otte_rdma_lets_look(struct otte_rdma_source *source, uint64_t now_ns);
void otte_rdma_lets_recall(struct otte_rdma_source *source,
			   const struct otte_rdma_recalls *recalls);
void otte_rdma_lets_revoke(struct otte_rdma_source_pair *pair);
void otte_rdma_lets_unpair(struct otte_rdma_source_pair *pair, bool gone);

#endif
