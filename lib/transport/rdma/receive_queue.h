/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receive queue of a source's QP: buffers for closing messages, and the receipts that are
 * expected there.
 *
 * Buffers are the queue's, and all alike; which one a message comes in says nothing of which grant
 * it is of. A message completes the receipt whose grant it names, if it was not completed before,
 * if all 141 bytes are those of that grant's binding, but for the one that says whether it was used
 * (binding.h), and the key that came invalidated with it is the grant's, or none, where that is of a
 * cell; else it completes nothing, and the QP is to be fenced (-EPROTO).
 *
 *   buffer    free --reserve--> reserved --expect--> posted --its CQE--> free
 *   receipt   idle --expect--> EXPECTED --its message--> done(0)
 *                                 |------forget: it will not be told; its buffer stays posted, and
 *                                 |      serves the next one
 *                                 `------the QP is destroyed--> done(-ECANCELED)
 *
 * A place in the lane's RQ CQ is taken by reserve() and comes back with the buffer's CQE, so who
 * has reserved can post, and what is posted can complete.
 *
 * rxe sets the kernel's flag for "with invalidate" (1 << 2) instead of IBV_WC_WITH_INV (1 << 3).
 * That is taken for it on contexts of that driver and on no other.
 *
 * No lock: its QP's is held around every call.
 */
#ifndef OTTE_TRANSPORT_RDMA_RECEIVE_QUEUE_H
#define OTTE_TRANSPORT_RDMA_RECEIVE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "transport/rdma/binding.h"
#include "transport/rdma/credits.h"
#include "transport/rdma/messages.h"
#include "transport/rdma/wr_ring.h"

/* Embedded in its grant; the first five are set by who expects it. */
struct otte_rdma_receipt {
	/*
	 * In the thread of the QP's lane, under no lock. 0: it is here; -ECANCELED: it never will
	 * be.
	 */
	void (*done)(struct otte_rdma_receipt *receipt, int code);
	uint64_t grant;
	uint32_t key;
	bool plain; /* of a cell: no key comes invalidated with it */
	uint8_t binding[OTTE_RDMA_BINDING_BYTES];

	bool unused; /* with done(0): it came so */

	/* The queue's. */
	bool expected;
	struct otte_rdma_receipt *next;
	UT_hash_handle hh;
};

struct otte_rdma_receive_queue {
	struct otte_rdma_wr_ring ring;
	struct otte_rdma_credits *credits;
	struct otte_rdma_messages messages; /* a place for each WR */
	bool rxe;
	uint32_t reserved;
	uint32_t expected; /* receipts; no more than buffers that are posted */
	struct otte_rdma_receipt *receipts; /* by grant */
	uint64_t received; /* receipts that came, ever */
};

int otte_rdma_receive_queue_open(struct otte_rdma_receive_queue *queue,
				 struct otte_rdma_context *context, struct ibv_pd *pd,
				 uint32_t max_recv_wr,
				 struct otte_rdma_credits *credits, uint32_t tag);
/* Nothing is charged. -EUCLEAN with a text: its messages are retained. */
int otte_rdma_receive_queue_close(struct otte_rdma_receive_queue *queue);

/* -EAGAIN: there is no room, here or in the CQ; all or none. */
int otte_rdma_receive_queue_reserve(struct otte_rdma_receive_queue *queue, uint32_t count);
/* What was reserved and not used. */
void otte_rdma_receive_queue_release(struct otte_rdma_receive_queue *queue, uint32_t count);

/*
 * Uses up one that was reserved, whatever comes of it but -EEXIST, -ENOMEM. 0: expected, and there
 * is a buffer for it. -EEXIST: one of that grant is; -ENOMEM; -EUCLEAN with a text: the buffer may
 * be posted, stays charged, and the QP is to be fenced; else, with a text, what the post failed
 * with.
 */
int otte_rdma_receive_queue_expect(struct otte_rdma_receive_queue *queue,
				   const struct otte_verbs *verbs, struct ibv_qp *qp,
				   struct otte_rdma_receipt *receipt);
/* False: it is not expected (any more): it was or will be told. */
bool otte_rdma_receive_queue_forget(struct otte_rdma_receive_queue *queue,
				    struct otte_rdma_receipt *receipt);

/*
 * A CQE whose QPN is this QP's. 0: *done is the receipt, to be told. Else *done is NULL, and the QP
 * is to be fenced: -EPROTO with a text, it, or the message, cannot be, or one before it is missing;
 * else its status as a code (work.h).
 */
int otte_rdma_receive_queue_complete(struct otte_rdma_receive_queue *queue, const struct ibv_wc *wc,
				     struct otte_rdma_receipt **done);

/*
 * The QP is destroyed: receipts that are expected go to *done, a list, to be told. As send_queue's.
 */
uint32_t otte_rdma_receive_queue_drain(struct otte_rdma_receive_queue *queue,
				       struct otte_rdma_receipt **done);

#endif
