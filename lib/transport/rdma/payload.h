/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A stage: where the payload of a slice is for our NICs, in place or in a chunk of the pool
 * (staging.h); payload.c says for how long.
 *
 * No lock: a stage is its worker's thread's; what it is of has one (budget.h, staging.h).
 */
#ifndef OTTE_TRANSPORT_RDMA_PAYLOAD_H
#define OTTE_TRANSPORT_RDMA_PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/budget.h"
#include "transport/transport.h"

struct otte_rdma;
struct otte_rdma_chunk;
struct otte_rdma_send;
struct otte_rdma_slice;
struct otte_rdma_worker;

/* All zero: none. */
struct otte_rdma_stage {
	struct otte_rdma_chunk *chunk; /* NULL: direct */
	uint64_t direct;               /* charged */
	bool filled;
};

/* Of `rdma` as it begins. */
void otte_rdma_stages_open(struct otte_rdma *rdma);
/* Of chunks: 0: there are some, or will be again. Else why there are none. */
int otte_rdma_stages_ready(struct otte_rdma *rdma);
/* No slice is longer, in a chunk or in place. */
uint64_t otte_rdma_stages_longest(const struct otte_rdma *rdma, bool staged);
/* Those of `nics` that a work's payload may pass. */
uint64_t otte_rdma_stages_nics(const struct otte_rdma *rdma, const struct otte_work *work,
			       uint64_t nics);
/* Of a slice. 0; 1: its parent waits for its turn; -EUCLEAN with a text: there will be none. */
int otte_rdma_stage_take(struct otte_rdma_worker *worker, const struct otte_rdma_slice *slice,
			 struct otte_rdma_stage *stage);
/* It wants none, for now. */
void otte_rdma_stage_leave(struct otte_rdma_worker *worker, struct otte_rdma_turn *turn);
/* No NIC can touch it any more; or nobody can say so. Of none: nothing. */
void otte_rdma_stage_give(struct otte_rdma_worker *worker, struct otte_rdma_stage *stage);
void otte_rdma_stage_stick(struct otte_rdma_worker *worker, struct otte_rdma_stage *stage);
/* Before a WRITE is posted, once; after a READ is DONE. -EFAULT, -ESTALE with a text. */
int otte_rdma_stage_fill(struct otte_rdma_stage *stage, const struct otte_rdma_slice *slice);
int otte_rdma_stage_empty(const struct otte_rdma_stage *stage, const struct otte_rdma_slice *slice);
/* The local half of what is posted to a NIC. */
void otte_rdma_stage_place(const struct otte_rdma *rdma, const struct otte_rdma_stage *stage,
			   const struct otte_rdma_slice *slice, unsigned int nic,
			   struct otte_rdma_send *send);

#endif
