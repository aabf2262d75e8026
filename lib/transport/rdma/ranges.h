/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ranges of ours that are leased to peers, and those that peers wait to be granted: what the
 * sources of all workers need to know of each other, so that a lease stands in nobody's way for
 * long (let.h). And how many leases there are, of rdma.leases.
 *
 *   a lease:   off --let--> listed --somebody wants it--> wanted; its worker is woken
 *                            |  `--it stays: nobody can have it back--> counted alone
 *              off <--unlet--'---------------------------------'
 *   a waiter:  off --wait--> listed --waited--> off
 *
 * Lock: `lock`, a leaf, of lists and counts; `wanted` is read by the lease's worker without. Workers
 * are woken without it.
 */
#ifndef OTTE_TRANSPORT_RDMA_RANGES_H
#define OTTE_TRANSPORT_RDMA_RANGES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/worker.h"

struct otte_rdma_ask;

/* worker and ask are set by its owner. */
struct otte_rdma_range {
	struct otte_rdma_range *prev, *next;
	struct otte_rdma_worker *worker;
	const struct otte_rdma_ask *ask; /* what was asked for; constant */
	bool listed; /* changed by its worker alone */
	_Atomic bool wanted;
};

struct otte_rdma_ranges {
	uint32_t total; /* rdma.leases; constant */
	pthread_mutex_t lock;
	struct otte_rdma_range *leased, *awaited;
	uint32_t leases;
};

void otte_rdma_ranges_open(struct otte_rdma_ranges *ranges, uint32_t total);

/*
 * A lease, of who has `held` of them. -EDQUOT, -EBUSY with a text: it has its share, or somebody
 * waits for the range.
 */
int otte_rdma_ranges_let(struct otte_rdma_range *range, uint32_t held);
/* By its worker. Who waits for it looks again. */
void otte_rdma_ranges_stay(struct otte_rdma_range *range);
void otte_rdma_ranges_unlet(struct otte_rdma_range *range);

void otte_rdma_ranges_wait(struct otte_rdma_range *range);
void otte_rdma_ranges_waited(struct otte_rdma_range *range);

/* Whether leases stand in the way of what a worker is asked for: then they are wanted back. */
bool otte_rdma_ranges_want(struct otte_rdma_worker *worker, const struct otte_rdma_ask *ask);

#endif
