/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who moves bytes on the requester's side.
 *
 * Lanes are in one loop. A thread that waits for its batch runs that loop itself: a hand-over between
 * threads costs more than a small transfer. At most one thread runs it, the leader; further waiters
 * follow, asleep until their batch is done or the lead is free. The engine's own thread runs timers
 * and control connections, and takes the lead only where nobody has led for a tick although work is live,
 * or where there has been no work for a while.
 *
 * Where a caller's request was all there is again and again, for many ticks in a row, and nobody has submitted
 * without waiting, there is nothing for a tick to find, and each costs that caller 20 us: the thread dozes.
 *
 *   armed   the lane loop's descriptor is watched by the engine's thread
 *   parked  the engine's thread sleeps without a tick; submitting wakes it
 *   dozing  it sleeps for many ticks; submitting without waiting, or a near deadline, wakes it
 */
#ifndef OTTE_ENGINE_PROGRESS_H
#define OTTE_ENGINE_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"

/* An instant that never comes, and still one that pthread_cond_timedwait() takes. */
#define OTTE_FOREVER_NS ((uint64_t)INT64_MAX / 2)

struct otte_waiter {
	struct otte_waiter *prev, *next; /* of a batch */
	struct otte_waiter *follow_prev, *follow_next;
	pthread_cond_t cond;             /* of a follower */
	_Atomic bool done;
	bool own;                        /* done by its own thread, which so holds no lock of ours */
	_Atomic bool leading;
	uint32_t failed;                 /* once done: of the batch's requests, so many */
	pthread_t thread;
};

struct otte_progress {
	struct otte_loop lanes;
	struct otte_loop control;        /* control connections; run by the thread */
	struct otte_watch lanes_watch;   /* lanes.epoll_fd in control, while armed */
	bool armed;                      /* the thread's */
	const _Atomic uint64_t *live;    /* requests that are not done, */
	const _Atomic bool *direct;      /* and whether one is moved inside its call */
	_Atomic uint64_t attention;      /* reasons to stay armed */
	_Atomic bool parked, dozing, stop;
	_Atomic bool restless;           /* there may be something for the next ticks to find */
	pthread_t thread;
	/* Timers; returns milliseconds until it wants to be called again, -1: not of its own accord. */
	int (*tick)(void *arg, uint64_t now_ns);
	void *arg;

	/*
	 * The lead is taken by setting `led`, without a lock. Who gives it up looks for followers after
	 * clearing it, who follows looks for the lead after enlisting: one of the two sees the other.
	 */
	_Atomic bool led;
	_Atomic uint64_t rounds;         /* led by waiters */
	_Atomic uint64_t alone;          /* the last one of who was alone */
	_Atomic uint64_t ran_ns;         /* when the lanes' loop last ran */
	pthread_mutex_t lock;            /* the followers */
	_Atomic uint32_t follower_count;
	struct otte_waiter *followers;
};

int otte_progress_start(struct otte_progress *progress, const _Atomic uint64_t *live,
			const _Atomic bool *direct, int (*tick)(void *arg, uint64_t now_ns), void *arg);
/* Ends the thread. The loops stay, for what is taken down after it, until fini. */
void otte_progress_stop(struct otte_progress *progress);
void otte_progress_fini(struct otte_progress *progress);

/* Work was added: the thread must not sleep without a tick. */
void otte_progress_kick(struct otte_progress *progress);

/* There may be work that nobody leads for, or that is due soon: the thread must tick. */
void otte_progress_stir(struct otte_progress *progress);

/* The thread is to lead at once, until unattend. */
void otte_progress_attend(struct otte_progress *progress);
void otte_progress_unattend(struct otte_progress *progress);

/* One round without waiting, unless somebody leads. */
void otte_progress_poll(struct otte_progress *progress);

/*
 * Nothing is live but `mine` requests, nobody waits for others, and the loop has run lately: the caller, who waits
 * for these, may sleep in a connection instead of leading. Counts as a round led.
 */
bool otte_progress_alone(struct otte_progress *progress, uint64_t mine);
/* Who is not alone, and may never come to lead, since a request can end where it is started: a round, if one is due. */
void otte_progress_catch_up(struct otte_progress *progress);

void otte_waiter_init(struct otte_waiter *waiter);

/* Lead or follow until the waiter is done or `until_ns`. True: done. */
bool otte_progress_wait(struct otte_progress *progress, struct otte_waiter *waiter,
			uint64_t until_ns);
/* The waiter is done; it still exists because the caller holds the lock of its list. */
void otte_progress_wake(struct otte_progress *progress, struct otte_waiter *waiter);

#endif
