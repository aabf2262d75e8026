/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The WRs of one queue of a QP that may still complete, by their exact ids, in the order in which
 * they were posted.
 *
 *   free --push--> charged --take back: proven not accepted--> free
 *                     `-----discharge: its CQE, once---------> free
 *
 * An id is (tag, sequence), and a tag is of one queue of one QP of a lane: a CQE of another, and
 * one that came before, finds nothing. Places go round, so what is charged spans at most `depth`
 * of them: a CQE that is lost stops the queue rather than be overtaken.
 *
 * No lock: its QP's is held around every call. All memory is taken by open().
 */
#ifndef OTTE_TRANSPORT_RDMA_WR_RING_H
#define OTTE_TRANSPORT_RDMA_WR_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/work.h"

#define OTTE_RDMA_WRS_MAX 32768u /* of one queue */

struct otte_rdma_wr {
	bool charged;
	bool signaled;
	enum ibv_wc_opcode opcode; /* that its CQE has */
	struct otte_rdma_work *work; /* NULL: nobody waits */
};

struct otte_rdma_wr_ring {
	struct otte_rdma_wr *wrs;
	uint32_t size; /* places: a power of two, at least depth */
	uint32_t depth; /* of the queue */
	uint32_t first, next; /* sequences: all that is charged is in [first, next) */
	uint32_t charged;
	uint32_t tag;
};

/* -ENOMEM with a text. 0 of depth: there is never room. */
int otte_rdma_wr_ring_open(struct otte_rdma_wr_ring *ring, uint32_t depth, uint32_t tag);
void otte_rdma_wr_ring_close(struct otte_rdma_wr_ring *ring);

static inline uint32_t otte_rdma_wr_ring_room(const struct otte_rdma_wr_ring *ring)
{
	return ring->depth - (ring->next - ring->first);
}

static inline uint64_t otte_rdma_wr_id(uint32_t tag, uint32_t sequence)
{
	return (uint64_t)tag << 32 | sequence;
}

static inline uint32_t otte_rdma_wr_place(const struct otte_rdma_wr_ring *ring, uint64_t id)
{
	return (uint32_t)id & (ring->size - 1);
}

/* There is room. *id is the next one's. */
void otte_rdma_wr_ring_push(struct otte_rdma_wr_ring *ring, const struct otte_rdma_wr *wr,
			    uint64_t *id);
/* The last `count`, in reverse of push. */
void otte_rdma_wr_ring_take_back(struct otte_rdma_wr_ring *ring, uint32_t count);

/* NULL: nothing with this id is charged. */
struct otte_rdma_wr *otte_rdma_wr_ring_find(const struct otte_rdma_wr_ring *ring, uint64_t id);

/*
 * The CQE of `id`, which is charged: discharges it, and the unsignalled ones right before it, whose
 * only CQE it is. Each of their works is appended to the list at `end` in the order of posting,
 * and the new end returned; works before the last get `implied`, the last `outcome`. *count is how
 * many WRs those were. *missing: one before them is still charged, which should have completed
 * before.
 */
struct otte_rdma_work **otte_rdma_wr_ring_discharge(struct otte_rdma_wr_ring *ring, uint64_t id,
						    const struct otte_rdma_outcome *outcome,
						    struct otte_rdma_work **end, uint32_t *count,
						    bool *missing);

/* All that is charged, when the QP is no more: how many, and their works at `end` with DRAINED. */
uint32_t otte_rdma_wr_ring_drain(struct otte_rdma_wr_ring *ring, struct otte_rdma_work **end);

#endif
