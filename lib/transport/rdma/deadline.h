/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests that wait for their turn at NICs, by their deadlines (rdma.deadline_bw_arbitration).
 *
 * What is granted is posted at once, but in a domain (posts.h), so what waits does so before it is
 * asked for: in the queue of its peer. There those of one priority that follow each other are put
 * in the order of sched/arbitrate.h, behind what our NICs have under way, whoever's it is. One that
 * cannot be done in time at the measured rate of these NICs, behind all that is before it, is
 * refused: -ETIME, before anything of it was asked for. What has begun is not.
 *
 * The rates are those of all NICs that reach the peer together. So are the bytes that go before:
 * that is less than what a request may find, and none is refused that could have been done.
 *
 * A worker's thread's, with room of its own. Nothing is allocated after its beginning.
 */
#ifndef OTTE_TRANSPORT_RDMA_DEADLINE_H
#define OTTE_TRANSPORT_RDMA_DEADLINE_H

#include "transport/rdma/peer.h"
#include "transport/rdma/rdma.h"

/* 0; -ENOMEM with a text. Where it is switched off there is nothing. */
int otte_rdma_deadlines_open(struct otte_rdma_worker *worker, const struct otte_config *config);
void otte_rdma_deadlines_close(struct otte_rdma_worker *worker);

/* For otte_rdma_deadlines_look(), where it is switched on. */
void otte_rdma_deadlines_arrange(struct otte_rdma_peer *peer, uint64_t now_ns);
/* Likewise, of one that does not wait. */
bool otte_rdma_deadlines_admit(const struct otte_rdma_peer *peer, const struct otte_work *work);

/* Puts what waits in order, and refuses what is to be. Without locks. */
static inline void otte_rdma_deadlines_look(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	if (peer->worker->deadlines && peer->state == OTTE_RDMA_PEER_READY)
		otte_rdma_deadlines_arrange(peer, now_ns);
}

/* False: it is to wait with the others, and will be refused there. */
static inline bool otte_rdma_deadline_can_be_met(const struct otte_rdma_peer *peer,
						 const struct otte_work *work)
{
	return !peer->worker->deadlines || otte_rdma_deadlines_admit(peer, work);
}

#endif
