/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <utlist.h>

#include "base/error.h"
#include "base/util.h"

static int wait(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn)
{
	if (!turn->queued)
		DL_APPEND(budget->queue, turn);
	turn->queued = true;
	return 1;
}

int otte_rdma_budget_take(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn,
			  uint64_t bytes, uint64_t *charged)
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

void otte_rdma_budget_give(struct otte_rdma_budget *budget, uint64_t charged)
{
	atomic_fetch_sub(&budget->used, charged);
}

void otte_rdma_budget_stick(struct otte_rdma_budget *budget, uint64_t charged)
{
	budget->stuck += charged;
}

void otte_rdma_budget_leave(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn)
{
	if (turn->queued)
		DL_DELETE(budget->queue, turn);
	turn->queued = false;
}
