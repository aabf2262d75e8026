/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/wr_ring.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

int otte_rdma_wr_ring_open(struct otte_rdma_wr_ring *ring, uint32_t depth, uint32_t tag)
{
	*ring = (struct otte_rdma_wr_ring){ .size = 1, .depth = depth, .tag = tag };
	while (ring->size < depth)
		ring->size *= 2;
	ring->wrs = calloc(ring->size, sizeof(*ring->wrs));
	return ring->wrs ? 0 : otte_fail(-ENOMEM, "rdma: no memory for %u WRs", depth);
}

void otte_rdma_wr_ring_close(struct otte_rdma_wr_ring *ring)
{
	free(ring->wrs);
	ring->wrs = NULL;
}

static struct otte_rdma_wr *at(const struct otte_rdma_wr_ring *ring, uint32_t sequence)
{
	return &ring->wrs[sequence & (ring->size - 1)];
}

void otte_rdma_wr_ring_push(struct otte_rdma_wr_ring *ring, const struct otte_rdma_wr *wr,
			    uint64_t *id)
{
	struct otte_rdma_wr *place = at(ring, ring->next);

	*place = *wr;
	place->charged = true;
	ring->charged++;
	*id = otte_rdma_wr_id(ring->tag, ring->next++);
}

void otte_rdma_wr_ring_take_back(struct otte_rdma_wr_ring *ring, uint32_t count)
{
	ring->charged -= count;
	while (count--)
		at(ring, --ring->next)->charged = false;
}

/* Whether the sequence is in [first, next), which may go past 2^32. */
static bool is_within(const struct otte_rdma_wr_ring *ring, uint32_t sequence)
{
	return sequence - ring->first < ring->next - ring->first;
}

struct otte_rdma_wr *otte_rdma_wr_ring_find(const struct otte_rdma_wr_ring *ring, uint64_t id)
{
	struct otte_rdma_wr *wr = at(ring, (uint32_t)id);

	if (id >> 32 != ring->tag || !is_within(ring, (uint32_t)id) || !wr->charged)
		return NULL;
	return wr;
}

static struct otte_rdma_work **discharge(struct otte_rdma_wr_ring *ring, struct otte_rdma_wr *wr,
					 const struct otte_rdma_outcome *outcome,
					 struct otte_rdma_work **end)
{
	struct otte_rdma_work *work = wr->work;

	wr->charged = false;
	ring->charged--;
	if (!work)
		return end;
	work->outcome = *outcome;
	work->next = NULL;
	*end = work;
	return &work->next;
}

/* The first of the unsignalled ones that are charged right before this. */
static uint32_t first_implied(const struct otte_rdma_wr_ring *ring, uint32_t sequence)
{
	struct otte_rdma_wr *wr;

	while (sequence != ring->first) {
		wr = at(ring, sequence - 1);
		if (!wr->charged || wr->signaled)
			break;
		sequence--;
	}
	return sequence;
}

static void forget_discharged(struct otte_rdma_wr_ring *ring)
{
	while (ring->first != ring->next && !at(ring, ring->first)->charged)
		ring->first++;
}

struct otte_rdma_work **otte_rdma_wr_ring_discharge(struct otte_rdma_wr_ring *ring, uint64_t id,
						    const struct otte_rdma_outcome *outcome,
						    struct otte_rdma_work **end, uint32_t *count,
						    bool *missing)
{
	static const struct otte_rdma_outcome implied = { .evidence = OTTE_RDMA_COMPLETED };
	uint32_t last = (uint32_t)id, sequence = first_implied(ring, last);

	*count = last - sequence + 1;
	for (; sequence != last; sequence++)
		end = discharge(ring, at(ring, sequence), &implied, end);
	end = discharge(ring, at(ring, last), outcome, end);
	forget_discharged(ring);
	*missing = is_within(ring, last);
	return end;
}

uint32_t otte_rdma_wr_ring_drain(struct otte_rdma_wr_ring *ring, struct otte_rdma_work **end)
{
	static const struct otte_rdma_outcome drained = {
		.evidence = OTTE_RDMA_DRAINED,
		.code = -ECANCELED,
		.status = IBV_WC_WR_FLUSH_ERR,
	};
	uint32_t charged = ring->charged;

	*end = NULL;
	for (; ring->first != ring->next; ring->first++)
		if (at(ring, ring->first)->charged)
			end = discharge(ring, at(ring, ring->first), &drained, end);
	return charged;
}
