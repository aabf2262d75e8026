/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/ranges.h"

#include <errno.h>
#include <utlist.h>

#include "base/error.h"
#include "transport/rdma/protocol.h"
#include "transport/rdma/rdma.h"

/* One source has at most so many times what it leaves to others. */
#define LEASES_TIMES 3

void otte_rdma_ranges_open(struct otte_rdma_ranges *ranges, uint32_t total)
{
	*ranges = (struct otte_rdma_ranges){
		.total = total,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
}

static bool conflict(const struct otte_rdma_ask *ask, const struct otte_rdma_ask *other)
{
	return ask->region == other->region && ask->epoch == other->epoch &&
	       (ask->op == OTTE_WRITE || other->op == OTTE_WRITE) &&
	       ask->offset < other->offset + other->length &&
	       other->offset < ask->offset + ask->length;
}

/* ---- Leases ---- */

/*
 * Under the lock. Leases that are had again at once would keep who waits for one of them from its
 * turn.
 */
static int check(const struct otte_rdma_ranges *ranges, const struct otte_rdma_range *range,
		 uint32_t held)
{
	const struct otte_rdma_range *each;

	if (!otte_rdma_share(held, ranges->total - ranges->leases, LEASES_TIMES))
		return otte_fail(-EDQUOT, "rdma.leases (%u) is full, or the peer's share of it",
				 ranges->total);
	DL_FOREACH(ranges->awaited, each)
		if (conflict(each->ask, range->ask))
			return otte_fail(-EBUSY, "another peer waits for the range");
	return 0;
}

int otte_rdma_ranges_let(struct otte_rdma_range *range, uint32_t held)
{
	struct otte_rdma_ranges *ranges = &range->worker->rdma->ranges;
	int ret;

	pthread_mutex_lock(&ranges->lock);
	ret = check(ranges, range, held);
	if (!ret) {
		DL_APPEND(ranges->leased, range);
		range->listed = true;
		ranges->leases++;
	}
	pthread_mutex_unlock(&ranges->lock);
	return ret;
}

/* By bits. */
static void wake(struct otte_rdma_worker *worker, uint32_t workers)
{
	uint32_t left;

	for (left = workers; left; left &= left - 1) {
		unsigned int index = (unsigned int)__builtin_ctz(left);

		if (index == worker->index)
			worker->busy = true;
		else
			otte_rdma_wake(&worker->rdma->workers[index]);
	}
}

/* Under the lock: whose workers have somebody who waits for it. */
static uint32_t unlist(struct otte_rdma_ranges *ranges, struct otte_rdma_range *range)
{
	const struct otte_rdma_range *each;
	uint32_t workers = 0;

	if (!range->listed)
		return 0;
	DL_DELETE(ranges->leased, range);
	range->listed = false;
	DL_FOREACH(ranges->awaited, each)
		if (conflict(each->ask, range->ask))
			workers |= 1u << each->worker->index;
	return workers;
}

void otte_rdma_ranges_stay(struct otte_rdma_range *range)
{
	struct otte_rdma_ranges *ranges = &range->worker->rdma->ranges;
	uint32_t workers;

	pthread_mutex_lock(&ranges->lock);
	workers = unlist(ranges, range);
	pthread_mutex_unlock(&ranges->lock);
	wake(range->worker, workers);
}

void otte_rdma_ranges_unlet(struct otte_rdma_range *range)
{
	struct otte_rdma_ranges *ranges = &range->worker->rdma->ranges;
	uint32_t workers;

	pthread_mutex_lock(&ranges->lock);
	workers = unlist(ranges, range);
	ranges->leases--;
	pthread_mutex_unlock(&ranges->lock);
	wake(range->worker, workers);
}

/* ---- Who waits ---- */

void otte_rdma_ranges_wait(struct otte_rdma_range *range)
{
	struct otte_rdma_ranges *ranges = &range->worker->rdma->ranges;

	pthread_mutex_lock(&ranges->lock);
	DL_APPEND(ranges->awaited, range);
	range->listed = true;
	pthread_mutex_unlock(&ranges->lock);
}

void otte_rdma_ranges_waited(struct otte_rdma_range *range)
{
	struct otte_rdma_ranges *ranges = &range->worker->rdma->ranges;

	if (!range->listed)
		return;
	pthread_mutex_lock(&ranges->lock);
	DL_DELETE(ranges->awaited, range);
	range->listed = false;
	pthread_mutex_unlock(&ranges->lock);
}

/* Under the lock: found or not, and whose worker is to hear that it is wanted. */
static bool find_leases(struct otte_rdma_ranges *ranges, const struct otte_rdma_ask *ask,
			uint32_t *workers)
{
	struct otte_rdma_range *each;
	bool found = false;

	DL_FOREACH(ranges->leased, each) {
		if (!conflict(each->ask, ask))
			continue;
		found = true;
		if (!atomic_exchange(&each->wanted, true))
			*workers |= 1u << each->worker->index;
	}
	return found;
}

bool otte_rdma_ranges_want(struct otte_rdma_worker *worker, const struct otte_rdma_ask *ask)
{
	struct otte_rdma_ranges *ranges = &worker->rdma->ranges;
	uint32_t workers = 0;
	bool found;

	pthread_mutex_lock(&ranges->lock);
	found = find_leases(ranges, ask, &workers);
	pthread_mutex_unlock(&ranges->lock);
	wake(worker, workers);
	return found;
}
