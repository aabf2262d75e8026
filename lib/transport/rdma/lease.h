/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Leases that we hold of a peer. A lease is a window that stands: granted once for a range, and
 * used by many requests, with no message and nothing that the source does for each.
 *
 *   lease      one that we hold; lease.c
 *   use        a request on its way by a lease; use.h
 *   alone      a request that its submitter posts and polls himself; alone.h
 *   let        one that a peer holds of us; let.h
 *
 * The source does not see what is done with it, so it says how long it stands without being renewed
 * (rdma.lease_idle_ms), and the requester renews what it uses and returns what it does not. The
 * source alone ends it, at any time, by an invalidation of its own, whose CQE is the evidence. What
 * the peer has under way then is refused by the NIC, and costs it the queue pair, so it is asked to
 * return it before, and has a quarter of control.timeout for that.
 *
 * Memory that may be replaced or taken away without the engine's knowing (otte_source_ops.lasts) is
 * not leased.
 *
 * A request that would have a lease waits at the head of the peer's queue until that is answered,
 * and then has a use of it. A queue pair that closes takes its leases with it.
 *
 *   ASKED --LEASED--> HELD --RECALL, not used any more--> LEAVING --its uses are over--> RETURNED
 *     |                 |                                                         ENDED |
 *     |                 `--ENDED, or its pair closes--> gone <--------------------------'
 *     `--REFUSED--> NONE: for a while nothing in this range is asked for
 *
 * No lock: its worker's thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_LEASE_H
#define OTTE_TRANSPORT_RDMA_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/protocol.h"
#include "transport/transport.h"

struct otte_rdma_pair;
struct otte_rdma_peer;

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

/*
 * The first work of the peer's queue: 0: under way, by a lease, or not the first any more; 1: it
 * waits for one that was asked for, for a pair, or for room, or there is none; -ENOENT: it goes by
 * none, if it is still *first.
 */
int otte_rdma_lease_begin(struct otte_rdma_peer *peer, uint64_t now_ns,
			  const struct otte_work **first);
int otte_rdma_lease_given(struct otte_rdma_peer *peer, const struct otte_rdma_leased *leased);
/* False: no lease was asked for by that name. */
bool otte_rdma_lease_refused(struct otte_rdma_peer *peer, const struct otte_rdma_answer *answer);
void otte_rdma_lease_recalled(struct otte_rdma_peer *peer, const struct otte_rdma_leasing *leasing);
void otte_rdma_lease_ended(struct otte_rdma_peer *peer, const struct otte_rdma_leasing *leasing);
/* Those of a pair that was closed. */
void otte_rdma_leases_lose(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair);
/* What is renewed, given back, and what the peer should have answered: that ends its line. */
void otte_rdma_leases_go_on(struct otte_rdma_peer *peer, uint64_t now_ns);
/* The peer is gone. */
void otte_rdma_leases_forget(struct otte_rdma_peer *peer);

/* ---- For its uses ---- */

/* Whether a request would have one. What is staged is granted, slice by slice. */
bool otte_rdma_lease_is_wanted(const struct otte_work *work);
/* One that is held and covers a work, whose memory its NIC knows; or NULL. */
struct otte_rdma_lease *otte_rdma_lease_find(const struct otte_rdma_peer *peer,
					     const struct otte_work *work, uint64_t now_ns);
/* A use of it begins; a request has moved by it; and a use is over. */
void otte_rdma_lease_use(struct otte_rdma_lease *lease);
void otte_rdma_lease_count(struct otte_rdma_lease *lease, uint64_t bytes);
void otte_rdma_lease_put(struct otte_rdma_lease *lease);

#endif
