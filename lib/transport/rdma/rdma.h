/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NICs of RDMA: a peer's NIC reads or writes registered memory itself, by a key that was made for
 * exactly that range, direction and queue pair, and that is void once the request is over.
 *
 * The transport stands before another one (env.next, TCP), which it leaves to what it cannot move:
 * a peer without RDMA, or with no NIC that ours reaches; a region that NICs do not know; whatever a
 * source refuses, and then answers for there. A request that wants this transport and no other
 * fails instead. A READ that was cut off goes there once its NIC is proven to be done with it, as a
 * retry; a WRITE that was cut off has an unknown effect, and ends.
 *
 * Each of these has a header of its own; what is here all of them need.
 *
 *   rdma       the transport of one engine: contexts, MRs, its thread; rdma.c
 *   pair       one end of two QPs that are connected; pair.c
 *   peer       one that we ask: its line, and what waits for it; peer.c
 *   endpoint   the pairs with a peer over one rail, for one direction; endpoint.c
 *   rail       a NIC of ours and one of the peer's: whether it is well, and who takes which; rail.c
 *   probe      a rail that is tried before anything goes over it; rail.c
 *   parent     a request, or a stretch of a long one, and the slices that it is cut into; parent.c
 *   transfer   a slice on its way over a pair; transfer.c
 *   posting    payload that waits for the slot of its priority; posts.c
 *   stage      where its payload is for our NICs: in place, or in a pool; payload.c, staging.c
 *   source     one that asks us: its line, its pairs; source.c
 *   poller     a NIC: its context and its lanes; nic_lanes.c
 *   exposure   a range that a peer may reach: a use with its loan, a window; exposure.c
 *   mirror     what it reaches instead, where NICs do not know our memory; mirror.c
 *   lent       as a grant: for one payload, until its receipt; grant.c
 *   let        as a lease: for as long as we let it; let.c
 *   lease      one that we hold of a peer, and the uses of it; lease.c, use.c, alone.c
 *
 * One thread, "otte-rdma", does everything but registration and what needs no NIC: it hears the
 * lines, polls the lanes of all contexts, and makes and destroys queue pairs. So all of these
 * objects are its own, and what others want of it they leave in a few fields under a lock and wake
 * it. There is one thread for all NICs. It has the turn (rdma.turn) whenever it is awake; who takes
 * it in its sleep is the thread until he gives it back, as who waits for a lone request by a lease
 * does (alone.c). Beside it the monitor's thread hears what devices tell; see routes.c.
 *
 * Locks: rdma.turn, of all that is the thread's, before all others; rdma.lock, of the lists of
 * peers and sources and of what others leave there (recalls; a source's fd and told_drop);
 * otte_rdma_peer.lock, of what the peer was told. Under neither of the two is any other taken but a
 * loop's, and nobody of the engine called.
 */
#ifndef OTTE_TRANSPORT_RDMA_RDMA_H
#define OTTE_TRANSPORT_RDMA_RDMA_H

#include <pthread.h>

#include "sched/devices.h"
#include "sched/rails.h"
#include "topo/priority.h"
#include "transport/rdma/budget.h"
#include "transport/rdma/buffers.h"
#include "transport/rdma/context_set.h"
#include "transport/rdma/line.h"
#include "transport/rdma/nic_lanes.h"
#include "transport/rdma/posts.h"
#include "transport/rdma/staging.h"
#include "transport/transport.h"

/* No slice is longer, but for a tail of a quarter of it. */
#define OTTE_RDMA_PIECE_BYTES (64 * MIB)

struct otte_rdma_lent;
struct otte_rdma_monitor;
struct otte_rdma_pair;
struct otte_rdma_peer;
struct otte_rdma_source;

/* What publish() makes of a region. */
struct otte_published {
	uint64_t id;
	const struct otte_rdma_buffer *buffer; /* held; NULL: staged, no NIC knows it */
	struct otte_location location;
};

#define OTTE_RDMA_RECALLS 32

/* Regions that are wanted back. More than that: all. */
struct otte_rdma_recalls {
	uint64_t regions[OTTE_RDMA_RECALLS];
	uint32_t count;
	bool all;
};

static inline bool otte_rdma_recalls_name(const struct otte_rdma_recalls *recalls, uint64_t region)
{
	uint32_t i;

	for (i = 0; i < recalls->count; i++)
		if (recalls->regions[i] == region)
			return true;
	return recalls->all;
}

struct otte_rdma {
	struct otte_transport base;
	struct otte_transport_env env;
	struct otte_transport *next;
	const struct otte_verbs *verbs;
	struct otte_rdma_context_set set;
	struct otte_rdma_buffers *buffers;
	struct otte_rdma_monitor *monitor;
	_Atomic uint64_t published; /* ids, ever */
	_Atomic uint64_t fenced, resumed; /* NICs by id: as the monitor says, and not heard yet */

	struct otte_loop loop;
	pthread_t thread;
	_Atomic bool stop;
	_Atomic bool woken;              /* since the thread last began to look */
	_Atomic uint64_t rounds;         /* of the thread */
	pthread_mutex_t turn;
	_Atomic bool awaited;            /* by the thread: others leave it the turn */

	pthread_mutex_t lock;
	struct otte_rdma_peer *peers;
	struct otte_rdma_source *sources;
	struct otte_rdma_recalls recalls; /* not heard yet */

	/* The thread's. */
	struct otte_rdma_lines lines;
	struct otte_rdma_poller pollers[OTTE_NIC_IDS];
	struct otte_rdma_pair *closing;
	struct otte_rdma_lent *waiting;  /* ASKs without a place, first come first */
	uint32_t places;                 /* from EXPECTING to GRANTED, of config.rdma_grants */
	uint32_t stuck;                  /* of these, of grants that stay */
	uint64_t last_turn;              /* of otte_rdma_source.turn */
	uint32_t leases;                 /* of config.rdma_leases */
	uint64_t last_grant;
	bool busy;                       /* something has moved in this round */
	bool unrecorded;                 /* something stays, and there was no room to record it */
	bool timed;                      /* something has a limit that may be near */
	bool soon;                       /* something is to be tried again soon */
	struct otte_rails *rails;
	struct otte_devices *devices;
	struct otte_nic_priority ranks;  /* of devices */
	uint64_t last_epoch;             /* of peers, as rails know them */
	struct otte_slots *slots;        /* NULL: nobody tells of bytes under way (domain.c) */
	struct otte_rdma_posts posts;    /* payload that waits for its slot */
	uint8_t slot_nics[OTTE_NIC_IDS]; /* where these are told, by NIC of ours */
	struct otte_rdma_staging staging; /* of what we ask for */
	struct otte_rdma_staging mirrors; /* and of what we are asked for (mirror.h) */
	struct otte_rdma_budget direct;  /* of what is moved in place */
	struct otte_rdma_deadlines *deadlines; /* NULL: they order nothing (deadline.h) */

	/* When the log has said it, once a second: peers can make it say so. */
	_Atomic uint64_t wanted_ns;      /* what grants were refused for */
	_Atomic uint64_t failed_ns;      /* what was wrong with a peer's pair */

	/* For statistics. */
	_Atomic uint64_t qps, grants, cqes, retries, bad_frames;
	_Atomic uint64_t leases_given, lease_requests;
	_Atomic uint64_t slices, slices_moved;
	_Atomic uint64_t rails_paused, rail_errors, rail_probes, rail_recoveries;
	struct otte_rdma_rail_counts {
		_Atomic uint64_t paused, pauses, errors, probes, recoveries;
	} rails_of[OTTE_NIC_IDS];        /* by NIC of ours */
};

/*
 * Whether who has `held` of what there is may have another one of the `free` ones: a first one in
 * any case, and then as long as it has less than so many times what it would leave to others. So
 * one alone never has all.
 */
static inline bool otte_rdma_share(uint32_t held, uint32_t free, uint32_t times)
{
	return free && (!held || held < (uint64_t)times * (free - 1));
}
/* For longer than the limit; whoever has read the clock first may have come last. */
static inline bool otte_rdma_is_late(uint64_t since_ns, uint64_t limit_ns, uint64_t now_ns)
{
	return now_ns - min_u64(now_ns, since_ns) > limit_ns;
}
/* To do what is the thread's, soon to be ended: it waits. False: not now. */
bool otte_rdma_take_turn(struct otte_rdma *rdma);
void otte_rdma_end_turn(struct otte_rdma *rdma);
/* Something is to be looked at by the thread. */
static inline void otte_rdma_wake(struct otte_rdma *rdma)
{
	if (!atomic_exchange(&rdma->woken, true))
		otte_loop_wake(&rdma->loop);
}
/* A native object that could not be destroyed. */
void otte_rdma_lost(struct otte_rdma *rdma, uint64_t bytes, const char *what);

#endif
