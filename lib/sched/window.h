/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The dispatch window of one peer: what waits, by priority, and how much may be under way.
 *
 * An entry is queued by push(), comes out of next() once it fits and the slot gate lets its priority send,
 * and is given back with done(). A request larger than the window goes alone. The order is the queue's
 * (queue.h), but for what the gate holds back: that is passed by. What does not fit is not.
 *
 * The owner's lock is held around every call. The clock is read where aging or the gate want it.
 */
#ifndef OTTE_SCHED_WINDOW_H
#define OTTE_SCHED_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/queue.h"

struct otte_slots;

struct otte_window {
	struct otte_queue queue;
	struct otte_slots *slots;        /* of all windows of an engine; NULL: no gate */
	uint8_t nic;                     /* which its bytes pass, as the gate's domain counts them */
	uint32_t max_requests, requests; /* under way */
	uint64_t max_bytes, bytes;
	uint64_t promoted;               /* steps up, ever */
	uint64_t low_waiting;            /* bytes below High, with a gate */
	/*
	 * Since the last enter() or next(): when the gate may let go what it held back; UINT64_MAX: it held back
	 * nothing, or only for want of done().
	 */
	uint64_t again_ns;
	bool deferred;                   /* likewise: it held back something until others had their turn */
};

/* -EDQUOT: too many of its priority wait. */
int otte_window_push(struct otte_window *window, struct otte_queue_entry *entry);
/* Straight to under way, where nothing waits, it fits and may send; else false, and nothing has changed. */
bool otte_window_enter(struct otte_window *window, struct otte_queue_entry *entry);
/* The next entry, now under way; NULL when nothing waits, fits or may send. */
struct otte_queue_entry *otte_window_next(struct otte_window *window);
static inline bool otte_window_waiting(const struct otte_window *window)
{
	return !otte_queue_empty(&window->queue);
}
/* Take back an entry that still waits. False: it is under way. entry->last: as what done() returns, for all windows. */
bool otte_window_remove(struct otte_window *window, struct otte_queue_entry *entry);
/*
 * True: what waits in other windows of the engine may go now, too: there is room, or the last one above them is
 * over. All are to be looked at.
 */
bool otte_window_done(struct otte_window *window, struct otte_queue_entry *entry);

#endif
