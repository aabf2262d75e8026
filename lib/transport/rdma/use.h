/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A request on its way by a lease: its payloads, nothing else. It is posted on the lease's queue
 * pair, and it is over with the last of its CQEs.
 *
 *   begun --posted, piece by piece; all CQEs have come--> told, gone
 *     |  `--its lease is gone, and nothing of it was posted--> goes another way
 *     `--its pair closes: lost--> everything of it has completed--> goes another way, or is told
 *                                 `--its pair stays--> told as not drained; the use stays with it
 *
 * What is lost goes on without a lease: a READ as a retry, a WRITE not at all, unless nothing of it
 * was posted.
 *
 * No lock: its worker's thread's, or whose turn it is (alone.h). Its work is in peer->running,
 * under the peer's lock.
 */
#ifndef OTTE_TRANSPORT_RDMA_USE_H
#define OTTE_TRANSPORT_RDMA_USE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/posts.h"
#include "transport/rdma/work.h"
#include "transport/transport.h"

struct otte_rdma_lease;
struct otte_rdma_pair;
struct otte_rdma_peer;

/* Payloads of one request that are under way at a time, of OTTE_RDMA_PIECE_BYTES each. */
#define OTTE_RDMA_USE_PIECES 4

struct otte_rdma_use {
	struct otte_rdma_use *prev, *next; /* peer->uses */
	struct otte_rdma_peer *peer;
	struct otte_rdma_pair *pair;
	struct otte_rdma_lease *lease;     /* NULL: it is gone */
	struct otte_work *work;            /* NULL: told; what is left is a retained pair's */
	uint64_t posted;                   /* bytes of it */
	int code;                          /* of the first WR that failed */
	bool lost;                         /* its pair is closed */
	struct otte_rdma_posting posting;  /* its turn, where there are slots */
	bool *over;                        /* of who waits, to be set when it is; or NULL */
	uint64_t seen_ns;                  /* in which round it was looked at */
	struct otte_rdma_piece {
		struct otte_rdma_work work;
		struct otte_rdma_use *use;
		uint64_t bytes;            /* 0: not under way */
	} pieces[OTTE_RDMA_USE_PIECES];
};

/* Those that have begun on a pair go before others. */
bool otte_rdma_uses_leave_room(const struct otte_rdma_peer *peer,
			       const struct otte_rdma_pair *pair);
bool otte_rdma_uses_are_on(const struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair);
/* Of a lease that is held; or NULL, for want of memory. free() is all that it needs. */
struct otte_rdma_use *otte_rdma_use_make(struct otte_rdma_lease *lease, struct otte_work *work);
/* Its work is in peer->running. It may be over, and freed, at once. */
void otte_rdma_use_start(struct otte_rdma_use *use);

/* A lease is gone. */
void otte_rdma_uses_forget_lease(const struct otte_rdma_lease *lease);
/* Who has waited does not any more. */
void otte_rdma_uses_forget_waiter(struct otte_rdma_peer *peer, const bool *over);
/* As transfers, of a pair whose leases are gone. */
void otte_rdma_uses_lose(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair);
void otte_rdma_uses_unpair(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair,
			   bool gone);
/* What could not be posted, and what was cancelled. */
void otte_rdma_uses_go_on(struct otte_rdma_peer *peer, uint64_t now_ns);

#endif
