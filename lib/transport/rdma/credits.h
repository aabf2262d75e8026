/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Places in a CQ, which the queues of many QPs share: one for each WR that may still complete
 * there. A place that was taken comes back with its CQE, and with nothing else; those of a QP that
 * was destroyed without come back when the CQ is. No lock: one atomic count.
 */
#ifndef OTTE_TRANSPORT_RDMA_CREDITS_H
#define OTTE_TRANSPORT_RDMA_CREDITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct otte_rdma_credits {
	_Atomic uint32_t free;
	uint32_t total; /* constant */
};

static inline void otte_rdma_credits_init(struct otte_rdma_credits *credits, uint32_t total)
{
	credits->total = total;
	atomic_init(&credits->free, total);
}

/* All or none. */
static inline bool otte_rdma_credits_take(struct otte_rdma_credits *credits, uint32_t count)
{
	uint32_t have = atomic_load_explicit(&credits->free, memory_order_relaxed);

	do {
		if (have < count)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&credits->free, &have, have - count,
							memory_order_acquire,
							memory_order_relaxed));
	return true;
}

static inline void otte_rdma_credits_give(struct otte_rdma_credits *credits, uint32_t count)
{
	atomic_fetch_add_explicit(&credits->free, count, memory_order_release);
}

static inline uint32_t otte_rdma_credits_free(const struct otte_rdma_credits *credits)
{
	return atomic_load_explicit(&credits->free, memory_order_relaxed);
}

#endif
