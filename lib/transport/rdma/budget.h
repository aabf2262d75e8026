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
 * No lock: the thread's, "otte-rdma". `used` is read by anybody.
 */
#ifndef OTTE_TRANSPORT_RDMA_BUDGET_H
#define OTTE_TRANSPORT_RDMA_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All zero: out. */
struct otte_rdma_turn {
	struct otte_rdma_turn *prev, *next;
	bool queued;
};

struct otte_rdma_budget {
	const char *name; /* its key */
	uint64_t limit;
	_Atomic uint64_t used;
	uint64_t stuck; /* of these */
	struct otte_rdma_turn *queue;
};

/* 0: *charged are to be given back. 1: it waits. -EUCLEAN with a text: all that there is stays. */
int otte_rdma_budget_take(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn,
			  uint64_t bytes, uint64_t *charged);
void otte_rdma_budget_give(struct otte_rdma_budget *budget, uint64_t charged);
/* It does not come back. */
void otte_rdma_budget_stick(struct otte_rdma_budget *budget, uint64_t charged);
/* It wants no more, for now. */
void otte_rdma_budget_leave(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn);

#endif
