/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A grant that we give a peer: an exposure of one range for one payload, from its ASK to its ACK.
 *
 *   WAITING --a place--> EXPECTING --the bind is posted--> BINDING --its CQE--> GRANTED
 *      |                                                                           | receipt
 *      `--refused, cancelled--> gone                        gone <--ACK-- RETURNED <'
 *
 *   any but WAITING --its pair has closed--> REVOKED --> gone
 *                                             `--its window stays--> RETAINED
 *
 * Of memory of a GPU, by a cell (cell.h), it is neither EXPECTING nor BINDING for long; and
 *
 *   GRANTED --receipt--> LEAVING --its pair and cell are gone--> RETURNED
 *                           `--one of them stays--> RETAINED
 *
 * Its producer is to be done with it before: until then it WAITS.
 *
 * Where the range is mirrored a place comes with a chunk, and is not to be had without (mirror.h).
 *
 * Who WAITS for half of control.timeout is refused. A BINDING that is not heard of for
 * control.timeout has its pair closed; so has what is GRANTED for rdma.grant_ms, or for
 * control.timeout after its region was wanted back.
 *
 * RETURNED: the peer's binding has come by that queue pair, and has invalidated that key. REVOKED:
 * the queue pair is in ERR, its windows are freed, and it is destroyed. RETAINED: nothing is to be
 * said of it, and its pair may be gone; but its window, or the MR that this had, stays, and so does
 * it. Where the pair itself stays it keeps its state: the receipt may still come.
 *
 * No lock: its worker's thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_GRANT_H
#define OTTE_TRANSPORT_RDMA_GRANT_H

#include "transport/rdma/exposure.h"
#include "transport/rdma/receive_queue.h"

enum otte_rdma_lent_state {
	OTTE_RDMA_LENT_WAITING = 0,
	OTTE_RDMA_LENT_EXPECTING,
	OTTE_RDMA_LENT_BINDING,
	OTTE_RDMA_LENT_GRANTED,
	OTTE_RDMA_LENT_LEAVING,
	OTTE_RDMA_LENT_RETURNED,
	OTTE_RDMA_LENT_RETAINED,
};

/* In struct otte_rdma_grant, protocol.h, is what the peer hears of it. */
struct otte_rdma_lent {
	struct otte_rdma_lent *prev, *next;           /* source->lents */
	struct otte_rdma_lent *wait_prev, *wait_next; /* worker->waiting */
	struct otte_rdma_range range;                 /* WAITING: what is awaited */
	struct otte_rdma_exposure base;
	enum otte_rdma_lent_state state;
	bool stuck;                                   /* it stays, and its place with it */
	bool answered;                                /* counted in `unanswered` no more */
	bool pending;                                 /* WAITING: for its producer, as of this look */
	struct otte_rdma_receipt receipt;
	uint8_t nonce[16];
};

int otte_rdma_lent_ask(struct otte_rdma_source_pair *pair, const struct otte_rdma_ask *ask);
void otte_rdma_lent_acknowledged(struct otte_rdma_source *source,
				 const struct otte_rdma_answer *answer);
void otte_rdma_lent_cancelled(struct otte_rdma_source *source,
			      const struct otte_rdma_answer *answer);
/* Places for those that wait. */
void otte_rdma_lents_go_on(struct otte_rdma_worker *worker);
/* What stays, where that could not be recorded. */
void otte_rdma_lents_retain(struct otte_rdma_source *source);
/*
 * Binds that had no room, and what has had its time. A grant whose receipt does not come is ended
 * by closing its pair, as is a bind that is not heard of; who waits for a place is refused.
 */
void otte_rdma_lents_look(struct otte_rdma_source *source, uint64_t now_ns);
/* These regions are wanted back. */
void otte_rdma_lents_recall(struct otte_rdma_source *source,
			    const struct otte_rdma_recalls *recalls);
/* The line is lost: what nothing reaches needs no answer any more. */
void otte_rdma_lents_forget(struct otte_rdma_source *source);
/* The pair is CLOSING; then gone, or it stays. */
void otte_rdma_lents_revoke(struct otte_rdma_source_pair *pair);
void otte_rdma_lents_unpair(struct otte_rdma_source_pair *pair, bool gone);
/* Before that: what is in its cell stays in reach. */
void otte_rdma_lents_keep(struct otte_rdma_source_pair *pair);

#endif
