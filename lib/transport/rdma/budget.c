/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <utlist.h>

#include "base/error.h"
#include "base/util.h"

static int wait(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn)
{
	if (!turn)
		return 1;
	if (!turn->queued)
		DL_APPEND(budget->queue, turn);
	turn->budget = budget;
	turn->queued = true;
	return 1;
}

/* Under the lock. What comes back meanwhile is seen with the next look, of which next() tells. */
static int take(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn, uint64_t bytes,
		uint64_t *charged)
{
	uint64_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);
	uint64_t all = budget->limit - budget->stuck, want = min_u64(bytes, all);

	if (!all)
		return otte_fail(-EUCLEAN, "all of %s (%" PRIu64 ") stays", budget->name,
				 budget->limit);
	if (budget->queue && budget->queue != turn)
		return wait(budget, turn);
	if (want > budget->limit - used)
		return wait(budget, turn);
	atomic_fetch_add(&budget->used, want);
	*charged = want;
	return 0;
}

int otte_rdma_budget_take(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn,
			  uint64_t bytes, uint64_t *charged)
{
	int ret;

	pthread_mutex_lock(&budget->lock);
	ret = take(budget, turn, bytes, charged);
	pthread_mutex_unlock(&budget->lock);
	return ret;
}

void otte_rdma_budget_give(struct otte_rdma_budget *budget, uint64_t charged)
{
	pthread_mutex_lock(&budget->lock);
	atomic_fetch_sub(&budget->used, charged);
	pthread_mutex_unlock(&budget->lock);
}

void otte_rdma_budget_stick(struct otte_rdma_budget *budget, uint64_t charged)
{
	pthread_mutex_lock(&budget->lock);
	budget->stuck += charged;
	pthread_mutex_unlock(&budget->lock);
}

bool otte_rdma_budget_is_stuck(struct otte_rdma_budget *budget)
{
	bool all;

	pthread_mutex_lock(&budget->lock);
	all = budget->stuck == budget->limit;
	pthread_mutex_unlock(&budget->lock);
	return all;
}

void *otte_rdma_budget_next(struct otte_rdma_budget *budget)
{
	void *owner;

	pthread_mutex_lock(&budget->lock);
	owner = budget->queue ? budget->queue->owner : NULL;
	pthread_mutex_unlock(&budget->lock);
	return owner;
}

void otte_rdma_budget_leave(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn)
{
	pthread_mutex_lock(&budget->lock);
	if (turn->queued)
		DL_DELETE(budget->queue, turn);
	turn->queued = false;
	pthread_mutex_unlock(&budget->lock);
}
