/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Windows that stand: granted once for a range, and used by many requests, with no message and nothing that the source
 * does for each.
 *
 *   lease      one that we hold of a peer; lease.c
 *   use        a request on its way by a lease: its payloads, nothing else; lease.c
 *   let        one that a peer holds of us: an exposure; let.h
 *
 * The source does not see what is done with it, so it says how long it stands without being renewed
 * (rdma.lease_idle_ms), and the requester renews what it uses and returns what it does not. The source alone
 * ends it, at any time, by an invalidation of its own, whose CQE is the evidence. What the peer has under way
 * then is refused by the NIC, and costs it the queue pair, so it is asked to return it before, and has
 * a quarter of control.timeout for that.
 *
 * Memory that may be replaced or taken away without the engine's knowing (otte_source_ops.lasts) is
 * not leased. Everything here is the thread's, as in rdma.h.
 */
#ifndef OTTE_TRANSPORT_RDMA_LEASE_H
#define OTTE_TRANSPORT_RDMA_LEASE_H

#include "transport/rdma/rdma.h"

/* ---- lease.c ---- */

/*
 *   ASKED --LEASED--> HELD --RECALL, not used any more--> LEAVING --its uses are over--> RETURNED --ENDED--> gone
 *     |                 `--ENDED, or its pair closes--> gone
 *     `--REFUSED--> NONE: for a while nothing in this range is asked for
 */
enum otte_rdma_lease_state {
	OTTE_RDMA_LEASE_ASKED = 0,
	OTTE_RDMA_LEASE_HELD,
	OTTE_RDMA_LEASE_LEAVING,
	OTTE_RDMA_LEASE_RETURNED,
	OTTE_RDMA_LEASE_NONE,
};

struct otte_rdma_lease {
	struct otte_rdma_lease *prev, *next; /* peer->leases, those used last first */
	struct otte_rdma_peer *peer;
	struct otte_rdma_pair *pair;         /* NONE: NULL */
	enum otte_rdma_lease_state state;
	uint8_t op;
	uint64_t epoch, region, offset, length;
	uint64_t ask, id;
	uint64_t address;
	uint32_t key;
	uint64_t idle_ns;
	uint64_t since_ns;                   /* ASKED, NONE; then when it was renewed */
	uint32_t uses;                       /* under way */
	bool used;                           /* since it was renewed */
	uint64_t requests, bytes;            /* that the source has not heard of */
};

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
	bool *over;                        /* somebody's who waits, to be set when it is; NULL: nobody does */
	uint64_t seen_ns;                  /* in which round it was looked at */
	struct otte_rdma_piece {
		struct otte_rdma_work work;
		struct otte_rdma_use *use;
		uint64_t bytes;            /* 0: not under way */
	} pieces[OTTE_RDMA_USE_PIECES];
};

/*
 * The first work of the peer's queue: 0: under way, by a lease, or not the first any more; 1: it waits for one that
 * was asked for, for a pair, or for room, or there is none; -ENOENT: it goes by none, if it is still *first.
 */
int otte_rdma_lease_begin(struct otte_rdma_peer *peer, uint64_t now_ns, const struct otte_work **first);
int otte_rdma_lease_given(struct otte_rdma_peer *peer, const struct otte_rdma_leased *leased);
/* False: no lease was asked for by that name. */
bool otte_rdma_lease_refused(struct otte_rdma_peer *peer, const struct otte_rdma_answer *answer);
void otte_rdma_lease_recalled(struct otte_rdma_peer *peer, const struct otte_rdma_leasing *leasing);
void otte_rdma_lease_ended(struct otte_rdma_peer *peer, const struct otte_rdma_leasing *leasing);
/* As transfers. */
void otte_rdma_leases_lose(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair);
void otte_rdma_leases_unpair(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair, bool gone);
void otte_rdma_leases_go_on(struct otte_rdma_peer *peer, uint64_t now_ns);
/* The peer is gone. */
void otte_rdma_leases_forget(struct otte_rdma_peer *peer);
/*
 * A work that is alone, by who submits it: started, and waited for a moment. False: nothing has happened, it is to be
 * started.
 */
bool otte_rdma_lease_exchange(struct otte_rdma_peer *peer, struct otte_work *work);

#endif
