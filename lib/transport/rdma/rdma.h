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
 *   rdma       the transport of one engine: contexts, MRs, its workers; rdma.c
 *   worker     a thread, with its peers and sources and all that is of these; worker.c
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
 *   poller     a NIC: its context, and the lanes on it that each worker has; nic_lanes.c
 *   exposure   a range that a peer may reach: a use with its loan, a window; exposure.c
 *   mirror     what it reaches instead, where NICs do not know our memory; mirror.c
 *   cell       what it is reached by, where it is a GPU's; cell.c
 *   lent       as a grant: for one payload, until its receipt; grant.c
 *   let        as a lease: for as long as we let it; let.c
 *   place      of a grant, and whose source is next; places.c
 *   range      what is leased, or waited for, of all sources; ranges.c
 *   lease      one that we hold of a peer, and the uses of it; lease.c, use.c, alone.c
 *
 * Workers, "otte-rdma" where there is one and "otte-rdma0" and so on where there are more, do
 * everything but registration and what needs no NIC: they hear the lines, poll the lanes of all
 * contexts, and make and destroy queue pairs. Each peer and each source is one worker's, and so are
 * all of these objects that are of it; what others want of them they leave in a few fields under a
 * lock and wake the worker (worker.h). It is by peer, and not by NIC or by slice, as a peer's line
 * orders what is said of all of its slices, and as nothing on the way of a slice needs a lock then.
 * The price is that one peer never has more than one worker. Beside them the monitor's thread hears
 * what devices tell; see routes.c.
 *
 * Locks, in their order:
 *
 *   otte_rdma_worker.turn   of all that is its thread's
 *   rdma.lock               of who is given the next peer or source
 *   otte_rdma_worker.lock   of the lists of peers and sources, and of what others leave there
 *   otte_rdma_peer.lock     of what the peer was told
 *   and then one of these, for what workers share:
 *     rdma.rails_lock         the table of rails (rail.c)
 *     otte_rdma_places.lock   places of grants, and who bids for the next (places.h)
 *     otte_rdma_ranges.lock   leases that were given, and who waits for a range (ranges.h)
 *     otte_rdma_staging.lock  a pool of chunks (staging.h)
 *     otte_rdma_budget.lock   bytes under way, and whose turn it is (budget.h)
 *
 * Under a lock of a worker or a peer none is taken but a loop's, and, to ask whether a producer is
 * done with memory, otte_cuda_ready.lock; and nobody of the engine is called.
 * Those of what workers share are leaves, and nobody is woken under them; but while a pool is made
 * its lock is held, for long, with its budget's and its contexts' within. What NICs have of their
 * own, a context's routes and windows, a lane's QPs, buffers and devices, has a lock of its own in
 * any case.
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
#include "transport/rdma/nic_lanes.h"
#include "transport/rdma/places.h"
#include "transport/rdma/ranges.h"
#include "transport/rdma/staging.h"
#include "transport/rdma/worker.h"
#include "transport/transport.h"

/* No slice is longer, but for a tail of a quarter of it. */
#define OTTE_RDMA_PIECE_BYTES (64 * MIB)

struct otte_rdma_monitor;

/* What publish() makes of a region. */
struct otte_published {
	uint64_t id;
	const struct otte_rdma_buffer *buffer; /* held; NULL: staged, no NIC knows it */
	struct otte_location location;
	struct otte_cuda_mem *gpu;             /* whose memory it is, with a buffer; NULL: the host's */
};

struct otte_rdma {
	struct otte_transport base;
	struct otte_transport_env env;
	struct otte_transport *next;
	const struct otte_verbs *verbs;
	struct otte_rdma_context_set set;
	struct otte_rdma_buffers *buffers;
	struct otte_rdma_monitor *monitor;
	_Atomic uint64_t published; /* ids, ever */
	_Atomic bool stop;               /* of all workers */
	struct otte_rdma_worker workers[OTTE_RDMA_WORKERS_MAX];
	unsigned int worker_count;

	pthread_mutex_t lock;
	unsigned int next_worker;        /* who is asked first for the next peer or source */

	struct otte_rdma_poller pollers[OTTE_NIC_IDS];
	struct otte_rdma_places places;
	struct otte_rdma_ranges ranges;
	_Atomic uint64_t last_grant;
	pthread_mutex_t rails_lock;
	struct otte_rails *rails;        /* under it */
	struct otte_devices *devices;
	struct otte_nic_priority ranks;  /* of devices */
	_Atomic uint64_t last_epoch;     /* of peers, as rails know them */
	struct otte_slots *slots;        /* NULL: nobody tells of bytes under way (domain.c) */
	uint8_t slot_nics[OTTE_NIC_IDS]; /* where these are told, by NIC of ours */
	struct otte_rdma_staging staging; /* of what we ask for */
	struct otte_rdma_staging mirrors; /* and of what we are asked for (mirror.h) */
	struct otte_rdma_budget direct;  /* of what is moved in place */

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

/* NICs know pools of ours, and nothing of the host's that is registered. */
static inline bool otte_rdma_is_staged(const struct otte_rdma *rdma)
{
	return rdma->env.config->rdma_host_memory == OTTE_HOST_MEMORY_STAGED;
}
/* Whether the payload of what is registered so passes a pool. */
static inline bool otte_rdma_stages(const struct otte_rdma *rdma,
				    const struct otte_published *published)
{
	return otte_rdma_is_staged(rdma) && !published->gpu;
}
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
/* A native object that could not be destroyed. */
void otte_rdma_lost(struct otte_rdma *rdma, uint64_t bytes, const char *what);

#endif
