/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bytes that may be under way at a time, and who waits for some: first come first served.
 *
 *   turn: out --no room, or others wait--> queued --leave()--> out
 *
 * The first of the queue takes whatever comes back, and may take more than once before it leaves;
 * nobody takes anything from behind it. More than the limit goes alone. What sticks never comes
 * back: who asks when all does is told so instead of waiting for ever.
 *
 * Lock: `lock`, a leaf, of all but name and limit; `used` is read by anybody. A turn is one
 * worker's, which wakes whose turn has come where something comes back (next()).
 */
#ifndef OTTE_TRANSPORT_RDMA_BUDGET_H
#define OTTE_TRANSPORT_RDMA_BUDGET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct otte_rdma_budget;

/* All zero: out. */
struct otte_rdma_turn {
	struct otte_rdma_turn *prev, *next;
	void *owner; /* whose it is; set before take() */
	struct otte_rdma_budget *budget; /* queued: where */
	bool queued;
};

struct otte_rdma_budget {
	const char *name; /* its key */
	uint64_t limit;
	pthread_mutex_t lock;
	_Atomic uint64_t used;
	uint64_t stuck; /* of these */
	struct otte_rdma_turn *queue;
};

/*
 * 0: *charged are to be given back. 1: it waits; without a turn for nothing, and in nobody's way.
 * -EUCLEAN with a text: all that there is stays.
 */
int otte_rdma_budget_take(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn,
			  uint64_t bytes, uint64_t *charged);
void otte_rdma_budget_give(struct otte_rdma_budget *budget, uint64_t charged);
/* It does not come back; and whether nothing will. */
void otte_rdma_budget_stick(struct otte_rdma_budget *budget, uint64_t charged);
bool otte_rdma_budget_is_stuck(struct otte_rdma_budget *budget);
/* The owner of the queue's first, or NULL. */
void *otte_rdma_budget_next(struct otte_rdma_budget *budget);
/* It wants no more, for now. */
void otte_rdma_budget_leave(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn);

#endif
