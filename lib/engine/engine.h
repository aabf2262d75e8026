/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine: owner of everything that is not owned by a handle of the caller's.
 *
 * Threads: one for requests (progress.h), config.tcp_workers that serve peers, one that serves the peer
 * that waits for each answer (tcp.h), and where NICs of RDMA are used config.rdma_workers for these and one that
 * watches them (rdma.h). Their number does not depend on the number of peers.
 *
 * Locks, outermost first; a lock further down may be taken while one above is held, never the reverse:
 *
 *   (transport: otte_rdma_worker.turn, that of its thread; others only try for it, with no lock held)
 *   batch.submit_lock          one submission at a time (batch.h)
 *   close_lock                 one closer at a time
 *   register_lock              the order of region ids
 *   peer_lock                  the table of peers
 *   source_lock                the table of sessions
 *   (transport, source side: tcp.sending; local.lock, local_lane.lock; otte_mem.share_lock,
 *   then the access map)
 *   parked_lock                loans whose end the module has yet to say
 *   source_peer.lock           standing loans
 *   otte_peer.lock             state, window, live tasks
 *   (transport: tcp_peer.lock, rx_lock, lane lock)
 *   batch.lock                 results; held while a request is moved inside its call (direct.c)
 *   (transport: local_peer.lock; otte_control_client.lock; otte_rdma_cq_lane.lock, otte_rdma_qp.lock,
 *   otte_rdma_context.lock)
 *   awaited_lock (then the ledger)
 *   region_lock, memory_lock > access maps, region_wait_lock, notify_lock, progress.lock, gate.lock, ledger,
 *   otte_devices.lock (sched/devices.h), and the transport's tcp.lock, tcp_express.lock,
 *   tcp_zerocopies.lock, otte_rdma_buffers.lock, those that rdma.h lists behind the turn, the loops' locks
 */
#ifndef OTTE_ENGINE_ENGINE_H
#define OTTE_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/itree.h"
#include "base/loop.h"
#include "control/attest.h"
#include "control/auth.h"
#include "control/server.h"
#include "engine/fork.h"
#include "engine/gate.h"
#include "engine/peer.h"
#include "engine/progress.h"
#include "engine/region.h"
#include "engine/source.h"
#include "ledger/ledger.h"
#include "otte/otte.h"
#include "sched/slots.h"
#include "transport/transport.h"

#define OTTE_SOURCE_LANES_MAX 16

struct source_peer;
struct otte_notify_queue;
struct otte_stats_socket;

struct otte_serve_thread {
	struct otte_engine *engine;
	unsigned index;
	struct otte_watch timer;         /* readable when the next tick is due */
	uint64_t timer_ns;               /* what it is set to */
	bool due;
	pthread_t thread;
};

struct otte_engine {
	/* What every request looks at, in as few lines of the cache as it takes. */
	struct otte_transport *transport; /* the first that is asked; the others are behind it */
	unsigned generation;             /* of fork, see fork.h */
	bool bounded;                    /* some priority has less room than all together */
	_Atomic bool source_closed, requester_closed;
	uint64_t direct_bytes;           /* the longest request that is moved inside its call; 0: none is */
	_Atomic uint64_t requests, bytes; /* budgets, charged at submission */
	/* Of requests that were moved so: written by the one that is alone, read by anybody. */
	struct {
		_Atomic bool busy; /* there is one, not among `requests` */
		_Atomic uint64_t completed, failed, read_bytes, write_bytes;
		_Atomic(struct otte_segment *) segment; /* of the one that moves now, or NULL */
	} direct;

	struct otte_config config;
	struct otte_identity identity;
	struct otte_keys keys;
	int no_rdma;                     /* 0: there is transport rdma; else why there is not */
	char no_rdma_text[OTTE_ERROR_BYTES];
	uint32_t user;                   /* whose process this is, as the module says it of others */
	char address[OTTE_ADDRESS_MAX];  /* as peers are told; "" without a listener */

	struct otte_ledger *ledger;
	struct otte_ledger_client *client;
	struct otte_attestor attestor;   /* its client 0 without the module */

	struct otte_progress progress;

	/* Serving. server and told belong to serve thread 0. */
	unsigned serve_count;
	struct otte_loop serve_loops[OTTE_WORKERS_MAX];
	struct otte_serve_thread serve_threads[OTTE_WORKERS_MAX];
	_Atomic bool serve_stop, serve_bye;
	struct otte_control_server server;
	struct otte_stats_socket *stats_socket;
	struct {
		struct otte_ledger_counters ledger;
		uint64_t until_ns;       /* counted anew from then on */
	} told;                          /* to peers that ask for counters */

	pthread_mutex_t memory_lock;
	struct otte_itree memories;      /* allocations by address */
	uint64_t memory_count;
	struct otte_mem *tracked;        /* those that have a table of uses */
	uint64_t looked_ns;              /* into all of them; of the thread that serves first */

	pthread_mutex_t register_lock;
	pthread_rwlock_t region_lock;
	struct otte_region *regions;
	uint64_t published;
	pthread_mutex_t region_wait_lock;
	pthread_cond_t region_idle;

	pthread_mutex_t peer_lock;
	struct otte_peer *peers;         /* in the order in which they are given room next */
	struct otte_request_counts request_counts; /* of peers that are gone */

	pthread_mutex_t source_lock;
	struct source_peer *source_peers;
	struct otte_source_counts source_counts; /* of peers that are gone */
	pthread_mutex_t awaited_lock;
	struct otte_source_awaited *awaited; /* loans whose end the ledger will tell */
	pthread_mutex_t parked_lock;
	struct otte_source_grant *parked; /* given back, and not yet over in the module */
	/* Of the module's loans, retained: it knows of them by itself, so the ledger has no records of ours of them. */
	_Atomic uint64_t kept, kept_bytes;

	struct otte_notify_queue *notify;

	pthread_mutex_t close_lock;
	bool closing;

	/* Budgets. */
	_Atomic uint64_t segments, batches, block_lists;
	_Atomic uint64_t by_priority[OTTE_PRIORITIES]; /* of requests, where bounded */
	_Atomic uint64_t tick_due_ns;    /* peers want to be looked at then */
	struct otte_gate gate;
	_Atomic uint64_t describe_stamp;
	_Atomic uint64_t quota_said_ns;  /* 0: never */

	struct {
		_Atomic uint64_t refused_requests;
		_Atomic uint64_t peers_out, reconnects;
		_Atomic uint64_t notifications_sent, notifications_received;
		_Atomic uint64_t stale_regions;
	} counters;
};

/* Now plus `timeout_ns`, at most OTTE_FOREVER_NS, which negative ones give at once. */
uint64_t otte_deadline_after(int64_t timeout_ns);

/* The peers are to be looked at no later than at `at_ns`, to the engine's tick. */
static inline void otte_engine_tick_at(struct otte_engine *engine, uint64_t at_ns)
{
	uint64_t due_ns = atomic_load_explicit(&engine->tick_due_ns, memory_order_relaxed);

	while (at_ns < due_ns &&
	       !atomic_compare_exchange_weak(&engine->tick_due_ns, &due_ns, at_ns))
		;
}

/* Of ours, not ended. */
static inline uint64_t otte_engine_requests(const struct otte_engine *engine)
{
	return atomic_load(&engine->requests) + atomic_load(&engine->direct.busy);
}

void otte_engine_fill_stats(struct otte_engine *engine, struct otte_stats *stats);
/* For a peer: the ledger as of a moment ago. Serve thread 0 alone. */
void otte_engine_tell_stats(struct otte_engine *engine, struct otte_stats *stats);

#endif
