/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One end of two QPs that are connected.
 *
 *   EMPTY --open--> OPEN --join--> JOINED
 *     ^              |               |   close, or the QP has fenced itself: failed() is told
 *     |              v               v
 *     `---------- CLOSING: destroyed once its WRs have completed, flushed, or after a while
 *     |              |
 *  closed(gone)      `--it could not be--> RETAINED, closed(not gone)
 *
 * It is embedded in its owner, an endpoint (endpoint.h) or a source's pair (source.h). No lock: its
 * worker's thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_PAIR_H
#define OTTE_TRANSPORT_RDMA_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/protocol.h"
#include "transport/rdma/qp.h"

struct otte_rdma;
struct otte_rdma_send;
struct otte_rdma_worker;

/* QPs of an endpoint, at most; rdma.pairs of these slots are filled, in their order. */
#define OTTE_RDMA_WIDTH 8

enum otte_rdma_pair_state {
	OTTE_RDMA_PAIR_EMPTY = 0,
	OTTE_RDMA_PAIR_OPEN,
	OTTE_RDMA_PAIR_JOINED,
	OTTE_RDMA_PAIR_CLOSING,
	OTTE_RDMA_PAIR_RETAINED,
};

struct otte_rdma_pair {
	struct otte_rdma_pair *prev, *next; /* worker->closing */
	struct otte_rdma *rdma;
	struct otte_rdma_worker *worker; /* its owner's */
	void *owner;
	enum otte_rdma_pair_state state;
	uint64_t connection;
	unsigned int nic, remote_nic;
	uint8_t op;
	bool cell;           /* it is for one grant, of memory of a GPU (cell.h) */
	bool spent;          /* and was asked for that */
	struct ibv_pd *pd;   /* of a source's cell; NULL: the context's */
	struct otte_rdma_qp *qp;
	uint32_t remote_qpn;
	int code;            /* CLOSING: why */
	bool stopped;        /* and it is in ERR */
	uint64_t since_ns;   /* OPEN, CLOSING */
	uint32_t under_way;  /* JOINED: what was posted, and is not told yet; a requester's */
	uint64_t heard_ns;   /* when something was told last, or posted while nothing was under way */
	/* The QP is of no use any more, by itself: to be closed. */
	void (*failed)(struct otte_rdma_pair *pair, int code);
	/*
	 * gone: it has done what it ever did. Everything that was posted has been told; not so
	 * where it is not gone.
	 */
	void (*closed)(struct otte_rdma_pair *pair, bool gone);
};

/*
 * `source`: the end that grants. rdma, worker, owner, nic, remote_nic, op, connection, failed and
 * closed are set.
 */
int otte_rdma_pair_open(struct otte_rdma_pair *pair, bool source);
int otte_rdma_pair_join(struct otte_rdma_pair *pair, const struct otte_rdma_path *path,
			uint32_t qpn, uint32_t psn, uint32_t mtu_bytes, uint32_t rd_atomic);
/* A requester's work: otte_rdma_qp_post(). */
int otte_rdma_pair_post(struct otte_rdma_pair *pair, const struct otte_rdma_send *sends,
			uint32_t count, uint32_t *accepted);
/* And what each done() of it says first. */
void otte_rdma_pair_hear(struct otte_rdma_pair *pair);
/*
 * Something is under way, and for longer than rdma.stall_ms nothing was told: the NIC may never do
 * it. A queue that goes on, however long it is, is not stalled. Also sees to it that the question
 * is asked again in time.
 */
bool otte_rdma_pair_is_stalled(const struct otte_rdma_pair *pair, uint64_t now_ns);
/* Of OPEN or JOINED; nothing of it moves from now on but what is under way. */
void otte_rdma_pair_close(struct otte_rdma_pair *pair, int code, const char *why);
/* Those that are CLOSING and drained. */
void otte_rdma_pairs_reap(struct otte_rdma_worker *worker, uint64_t now_ns);

#endif
