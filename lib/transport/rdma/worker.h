/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A worker: a thread, and all that it alone does: the lines of its peers and sources, their pairs,
 * and the lanes that these are on.
 *
 *   made --start--> runs: looks, sleeps until something is to be looked at, looks ...
 *                     `--stop, and nothing is left, or it has had its time--> ended
 *
 * A peer that we ask and a session that asks us have each one worker, for life. So their endpoints,
 * parents, transfers, grants and leases are of one thread, and need no lock. Who comes is given to
 * the worker that has fewest, and of equal ones to each in turn.
 *
 * With rdma.progress "polling" it does not sleep as long as it has a pair. With rdma.bind_cpus it
 * runs on CPUs of the memory nodes at which the NICs are; as any peer may be reached by any of
 * them, these are the same for all workers.
 *
 * Its thread has the turn whenever it is awake; who takes it in its sleep is the thread until he
 * gives it back, as who waits for a lone request by a lease does (alone.c).
 *
 * Locks: `turn`, of all that is the thread's, before all others; `lock`, of the lists of peers and
 * sources, to which others append and from which the thread alone takes away, and of what others
 * leave there (recalls; a source's fd and told_drop).
 */
#ifndef OTTE_TRANSPORT_RDMA_WORKER_H
#define OTTE_TRANSPORT_RDMA_WORKER_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "topo/priority.h"
#include "transport/rdma/line.h"
#include "transport/rdma/nic_lanes.h"
#include "transport/rdma/posts.h"

struct otte_rdma;
struct otte_rdma_deadlines;
struct otte_rdma_lent;
struct otte_rdma_pair;
struct otte_rdma_peer;
struct otte_rdma_source;

/* rdma.workers, at most. */
#define OTTE_RDMA_WORKERS_MAX 8

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

struct otte_rdma_worker {
	struct otte_rdma *rdma;
	unsigned int index;
	bool started, bound;
	cpu_set_t cpus;                  /* that it runs on, where `bound` */
	struct otte_loop loop;
	pthread_t thread;
	_Atomic uint64_t fenced, resumed; /* NICs by id: as the monitor says, and not heard yet */
	_Atomic uint64_t rounds;         /* of the thread */
	pthread_mutex_t turn;
	_Atomic bool woken;              /* since the thread last began to look */
	_Atomic bool awaited;            /* by the thread: others leave it the turn */
	_Atomic uint32_t impatient;      /* who found it taken, ever */
	_Atomic uint32_t sessions;       /* peers and sources that it was given and has */

	pthread_mutex_t lock;
	struct otte_rdma_peer *peers;
	struct otte_rdma_source *sources;
	struct otte_rdma_recalls recalls; /* not heard yet */

	/* The thread's. */
	struct otte_rdma_lines lines;
	struct otte_rdma_posts posts;    /* payload that waits for its slot */
	struct otte_rdma_nic_lanes lanes[OTTE_NIC_IDS];
	struct otte_rdma_pair *closing;
	struct otte_rdma_lent *waiting;  /* ASKs without a place, first come first */
	struct otte_rdma_deadlines *deadlines; /* NULL: they order nothing (deadline.h) */
	uint32_t pairs;                  /* whose QPs are there, but for those that stay */
	bool busy;                       /* something has moved in this round */
	bool unrecorded;                 /* something stays, and there was no room to record it */
	bool timed;                      /* something has a limit that may be near */
	bool soon;                       /* something is to be tried again soon */
};

/* All of them. Not 0, with a text: none is made, or none runs. */
int otte_rdma_workers_open(struct otte_rdma *rdma);
int otte_rdma_workers_start(struct otte_rdma *rdma);
/* Those that were started end what they have, within rdma.destruction_ms twice. */
void otte_rdma_workers_stop(struct otte_rdma *rdma);
/* After that. */
void otte_rdma_workers_close(struct otte_rdma *rdma);
/* Some has peers or sources that stay. */
bool otte_rdma_workers_keep(const struct otte_rdma *rdma);
/* Each has gone round once. */
void otte_rdma_workers_settle(struct otte_rdma *rdma);

/* Of those that there are, who has fewest. Under rdma.lock. */
struct otte_rdma_worker *otte_rdma_worker_choose(struct otte_rdma *rdma);
/* To do what is the thread's, soon to be ended: it waits. False: not now. */
bool otte_rdma_take_turn(struct otte_rdma_worker *worker);
void otte_rdma_end_turn(struct otte_rdma_worker *worker);
/* Something is to be looked at by the thread; by all of them. */
static inline void otte_rdma_wake(struct otte_rdma_worker *worker)
{
	if (!atomic_exchange(&worker->woken, true))
		otte_loop_wake(&worker->loop);
}
void otte_rdma_wake_all(struct otte_rdma *rdma);

#endif
