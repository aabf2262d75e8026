/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Places of grants (rdma.grants), which the sources of all workers share: how many are taken, and
 * whose source is next.
 *
 * Of two sources that wait the one with fewer places goes first, and of two with as many who has
 * waited longer. A worker knows that of its own. Between workers it is known by bids: who has a
 * source that could not have a place bids for it, and has no place then while another worker's bid
 * that goes before his would be left without. A place that comes free wakes the worker whose bid is
 * the first; who cannot use it, as its queue pair has no room for the receipt, takes its bid back,
 * and so wakes the next.
 *
 *   a worker's bid:  none --a source of it waits for a place--> made --a place; or it waits no more
 *                      ^------------------------------------------'     for one
 *
 * Lock: `lock`, a leaf, also of the sources' shares. Without it a worker looks whether it has made
 * a bid itself, and workers are woken.
 */
#ifndef OTTE_TRANSPORT_RDMA_PLACES_H
#define OTTE_TRANSPORT_RDMA_PLACES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/worker.h"

/* What a source has; read by its worker without the lock, which alone changes it. */
struct otte_rdma_places_share {
	uint32_t held;
	uint64_t turn; /* of its last place: who has waited longest is next */
	uint64_t former; /* before that place */
};

struct otte_rdma_places {
	uint32_t total; /* constant */
	pthread_mutex_t lock;
	uint32_t taken; /* from EXPECTING to GRANTED */
	uint32_t stuck; /* of these: of grants that stay */
	uint64_t last_turn;
	struct otte_rdma_bid {
		bool made;
		struct otte_rdma_places_share share;
	} bids[OTTE_RDMA_WORKERS_MAX];
};

void otte_rdma_places_open(struct otte_rdma_places *places, uint32_t total);

/* Of two that wait for a place: which has the next one. */
static inline bool otte_rdma_places_before(const struct otte_rdma_places_share *share,
					   const struct otte_rdma_places_share *other)
{
	return share->held != other->held ? share->held < other->held : share->turn < other->turn;
}
/* Not taken, as of now; and whether a source may have one of so many, so that nobody has all. */
uint32_t otte_rdma_places_free(struct otte_rdma_places *places);
bool otte_rdma_places_admit(const struct otte_rdma_places_share *share, uint32_t free);
/* False: others go before, or there is none. It bids for one now. */
bool otte_rdma_places_take(struct otte_rdma_worker *worker, struct otte_rdma_places_share *share);
void otte_rdma_places_leave(struct otte_rdma_worker *worker, struct otte_rdma_places_share *share,
			    bool stuck);
/* The last one that it took was of no use: it has waited on. */
void otte_rdma_places_undo(struct otte_rdma_worker *worker, struct otte_rdma_places_share *share);
/* The worker's first source that would have one and may not; NULL: there is none. */
void otte_rdma_places_bid(struct otte_rdma_worker *worker,
			  const struct otte_rdma_places_share *share);
/* One that is taken stays. And whether all do. */
void otte_rdma_places_stick(struct otte_rdma_worker *worker);
bool otte_rdma_places_all_stick(struct otte_rdma_places *places);

#endif
