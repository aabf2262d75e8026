/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The send queue of a QP: what was posted there and may still be under way, by exact WR ids
 * (wr_ring.h). Payload, binds, invalidations and closing messages of all grants of the QP share it.
 *
 * Admission: at most max_send_wr, and a place in the lane's SQ CQ for each; what does not fit is
 * not posted (-EAGAIN). After a post that failed, only the suffix that `bad_wr` proves not to have
 * been accepted is given back; where `bad_wr` names nothing of what was posted, all of it stays
 * charged.
 *
 * Signals: every `signal_interval`th WR, which is at most half the queue, and the last one of each
 * post. A CQE, if it is of this QP, of a charged id and of its opcode, discharges that WR and the
 * unsignalled ones right before it; any other discharges nothing. Whatever cannot be, makes the QP
 * fence itself: the functions here say so by -EPROTO or -EUCLEAN.
 *
 * No lock: its QP's is held around every call.
 */
#ifndef OTTE_TRANSPORT_RDMA_SEND_QUEUE_H
#define OTTE_TRANSPORT_RDMA_SEND_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/binding.h"
#include "transport/rdma/credits.h"
#include "transport/rdma/messages.h"
#include "transport/rdma/wr_ring.h"

/* A message has at most 2^31 bytes. */
#define OTTE_RDMA_PAYLOAD_MAX (1u << 31)

enum otte_rdma_op {
	OTTE_RDMA_READ, /* local, bytes, lkey; remote, key */
	OTTE_RDMA_WRITE,
	OTTE_RDMA_FINISH, /* message, key: a fenced SEND that invalidates the peer's key */
	OTTE_RDMA_TELL, /* message: the same without a key */
	OTTE_RDMA_BIND, /* window, parent, remote, bytes, key, access */
	OTTE_RDMA_INVALIDATE, /* key: of a window of ours */
};

/* One WR to be posted. Nothing it points to is needed after the post but the payload's bytes. */
struct otte_rdma_send {
	enum otte_rdma_op op;
	uint32_t lkey, key;
	unsigned int access;
	uint64_t local, remote, bytes;
	struct ibv_mw *window;
	struct ibv_mr *parent;
	const uint8_t *message; /* OTTE_RDMA_BINDING_BYTES, copied */
	struct otte_rdma_work *work; /* told once if it may have been accepted; NULL: nobody */
	bool fenced; /* not before READs that were posted earlier are in; messages are, always */
	bool empty; /* READ, WRITE of no bytes: needs no key, touches nothing; does it arrive? */
};

struct otte_rdma_send_queue {
	struct otte_rdma_wr_ring ring;
	struct otte_rdma_credits *credits;
	struct otte_rdma_messages messages; /* a place for each WR; empty at a source */
	uint32_t signal_interval;
	struct ibv_send_wr *wrs; /* of the post that is being made */
	struct ibv_sge *sges;
	uint64_t posted, completed; /* WRs, ever */
};

struct otte_rdma_send_queue_params {
	uint32_t max_send_wr;
	uint32_t signal_interval; /* at least 1 */
	bool messages; /* FINISH or TELL will be posted */
	struct ibv_pd *pd; /* of the QP; NULL: the context's */
};

int otte_rdma_send_queue_open(struct otte_rdma_send_queue *queue, struct otte_rdma_context *context,
			      const struct otte_rdma_send_queue_params *params,
			      struct otte_rdma_credits *credits, uint32_t tag);
/* Nothing is charged. -EUCLEAN with a text: its messages are retained. */
int otte_rdma_send_queue_close(struct otte_rdma_send_queue *queue);

/*
 * Posts `count` WRs in this order. *accepted: of how many works done() will be called.
 *   0         all were accepted
 *   -EAGAIN   there is no room now; none was
 *   -EINVAL   with a text: one cannot be posted at all; none was
 *   -EUCLEAN  with a text: nobody knows; all are charged, *accepted is `count`. Fence the QP
 *   -EPROTO   with a text: the accepted ones will not all be heard of. Fence the QP
 *   else      with a text: the first *accepted were accepted, no other was
 */
int otte_rdma_send_queue_post(struct otte_rdma_send_queue *queue, const struct otte_verbs *verbs,
			      struct ibv_qp *qp, const struct otte_rdma_send *sends, uint32_t count,
			      uint32_t *accepted);

/*
 * A CQE whose QPN is this QP's. Works that are to be told are put into *done. 0; -EPROTO with a
 * text: it cannot be, or one before it is missing; else its status as a code (work.h). If not 0
 * the QP is to be fenced.
 */
int otte_rdma_send_queue_complete(struct otte_rdma_send_queue *queue, const struct ibv_wc *wc,
				  struct otte_rdma_work **done);

/* The QP is destroyed: what was charged goes to *done. How many places in the CQ it still fills. */
uint32_t otte_rdma_send_queue_drain(struct otte_rdma_send_queue *queue,
				    struct otte_rdma_work **done);

#endif
