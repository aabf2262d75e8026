/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The MRs of regions: of each, on each context, a local one (LOCAL_WRITE), which payload is posted
 * with; and where peers may use the region a parent of windows besides (LOCAL_WRITE | MW_BIND). No
 * key of either leaves the process: what a peer gets is a window's. Memory of a GPU has no parents,
 * as windows are not bound to it: what a peer gets of it is a key of a cell's (cell.h).
 *
 *   PREPARING --all MRs are there--> VISIBLE --withdraw--> HIDDEN --withdraw, when unused--> gone
 *      `--one fails: the others are released--> gone       `--an MR is not released--> RETAINED
 *
 * A region is published on every context where memory may be registered, those with a paused port
 * included; all of it or nothing. RETAINED, it keeps what could not be released, with its charge
 * and its memory, which its owner must not free; it is never tried again.
 *
 * Each MR is charged before it is made, against max_cached_mrs and max_cached_mr_bytes.
 *
 * Lock: one, of the table, the charges, states and counts of uses. MRs are made and released
 * without it, by who has moved the entry to a state that is his alone. A buffer that is held
 * (get()) is constant.
 */
#ifndef OTTE_TRANSPORT_RDMA_BUFFERS_H
#define OTTE_TRANSPORT_RDMA_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/context_set.h"
#include "transport/rdma/mr.h"

struct otte_rdma_buffers;

/* One region; who holds it reads all but what is private. */
struct otte_rdma_buffer {
	uint64_t region;
	uint8_t *at;
	uint64_t bytes;
	bool remote; /* has parents */
	enum otte_rdma_gpu_route route; /* not NONE: of `gpu`, and peers reach it by cells */
	struct otte_cuda_mem *gpu;
	struct otte_rdma_buffer_mrs {
		struct otte_rdma_mr local, parent;
	} *by_nic; /* as many as the set has slots; NONE where there is no context */
	size_t nics;
};

struct otte_rdma_buffers_params {
	uint32_t max_cached_mrs;
	uint64_t max_cached_mr_bytes;
};

#define OTTE_RDMA_BUFFERS_PARAMS                                              \
	{                                                                     \
		.max_cached_mrs = 64, .max_cached_mr_bytes = 64ull * 1048576, \
	}

/* The set stays as it is until close. -ENOMEM. */
int otte_rdma_buffers_open(const struct otte_rdma_context_set *set,
			   const struct otte_rdma_buffers_params *params,
			   struct otte_rdma_buffers **buffers);
/* 0: gone. -EBUSY: a region is still there. -EUCLEAN: one is retained. NULL is allowed. */
int otte_rdma_buffers_close(struct otte_rdma_buffers *buffers);

struct otte_rdma_buffer_spec {
	uint64_t region;
	void *at;
	uint64_t bytes;
	bool remote; /* of the host's memory alone */
	enum otte_rdma_gpu_route route;
	struct otte_cuda_mem *gpu;
};

/*
 * 0: it is visible. Else it is not, and nothing of it is left (but for what could not be released:
 * then -EUCLEAN, and the memory is to be kept): -EEXIST: there is one of this id, -EDQUOT with a
 * text that names the budget, -ENODEV: no context to register with; or as of
 * otte_rdma_mr_register().
 */
int otte_rdma_buffers_publish(struct otte_rdma_buffers *buffers,
			      const struct otte_rdma_buffer_spec *spec);

/* NULL: not visible. */
const struct otte_rdma_buffer *otte_rdma_buffers_get(struct otte_rdma_buffers *buffers,
						     uint64_t region);
void otte_rdma_buffers_put(struct otte_rdma_buffers *buffers,
			   const struct otte_rdma_buffer *buffer);

/*
 * Hidden at once. 0: gone. -EBUSY: it is held, or another withdraws it; call again. -EUCLEAN with a
 * text: retained. -ENOENT.
 */
int otte_rdma_buffers_withdraw(struct otte_rdma_buffers *buffers, uint64_t region);

struct otte_rdma_buffers_stats {
	uint32_t mrs; /* charged, those that are retained included */
	uint64_t bytes;
	uint32_t retained; /* regions */
};

void otte_rdma_buffers_stats(struct otte_rdma_buffers *buffers,
			     struct otte_rdma_buffers_stats *stats);

#endif
