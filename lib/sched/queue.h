/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Three bounded queues, High before Medium before Low, first in first out within each.
 *
 * What waits for long moves up. A pass, at most one each millisecond, raises by one tier: under the
 * usual rule a whole tier once its head has waited for `aging_ns`, under `per_entry` those entries that
 * have. The age counts from when an entry was enqueued, however often it has moved. So old work gets on
 * under a stream of new work of higher priority.
 *
 * An entry keeps the priority it was asked with: that is what its bound is of, and what the slot gate
 * judges it by. The tier says only whom it goes before in this process; else a flood of old Low requests
 * would be High ones to other processes.
 *
 * Time is passed in. No lock: the owner's is held around every call.
 */
#ifndef OTTE_SCHED_QUEUE_H
#define OTTE_SCHED_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#define OTTE_PRIORITIES 3
#define OTTE_QUEUE_ALL ((1u << OTTE_PRIORITIES) - 1)
/* Passes are no closer together. */
#define OTTE_QUEUE_PASS_NS 1000000ull

struct otte_queue_entry {
	struct otte_queue_entry *prev, *next;
	/* The owner's, set before push and unchanged while queued. */
	uint64_t bytes;
	uint64_t enqueued_ns;
	uint8_t priority;        /* as asked, 0 the highest */
	/* The queue's. */
	bool queued;
	uint8_t tier;            /* where it waits; never below its priority */
	bool last;               /* the window's, of one that was taken back: others may go for it */
	uint8_t nic;             /* the window's: whose bytes it is counted with, once under way */
	uint64_t arrival;        /* in its tier: order among all that are there */
};

struct otte_queue {
	/* By tier, then by priority as asked: each list is in order of arrival. */
	struct otte_queue_entry *waits[OTTE_PRIORITIES][OTTE_PRIORITIES];
	uint64_t arrivals;
	uint64_t pass_due_ns;            /* the next pass is not before */

	/* Set once. */
	uint64_t aging_ns;               /* 0: nothing moves up */
	bool per_entry;
	uint32_t bound[OTTE_PRIORITIES]; /* entries of each priority that may wait */

	uint32_t count[OTTE_PRIORITIES]; /* that do, by priority as asked */
};

/* To the end of its own tier. -EDQUOT: so many of its priority wait already, and nothing has changed. */
int otte_queue_push(struct otte_queue *queue, struct otte_queue_entry *entry);

/*
 * One pass, if it is due and something could move. Returns how many entries went up. An aged entry does
 * not overtake a younger one of its own priority: requests of a batch stay in order.
 */
uint32_t otte_queue_age(struct otte_queue *queue, uint64_t now_ns);

/*
 * The entry that is next among those whose priority, as asked, is in `admitted` (bit 0: High); NULL: none.
 * It stays queued.
 */
struct otte_queue_entry *otte_queue_first(const struct otte_queue *queue, unsigned admitted);

/* Take it out. False: it was not queued. */
bool otte_queue_remove(struct otte_queue *queue, struct otte_queue_entry *entry);

static inline bool otte_queue_empty(const struct otte_queue *queue)
{
	return !(queue->count[0] | queue->count[1] | queue->count[2]);
}

#endif
