/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One MR of a context.
 *
 *   NONE --register--> LIVE --release--> NONE
 *                           `--release fails--> RETAINED: not tried again, its memory is kept
 *
 * That of a GPU's memory that was exported keeps the descriptor as long: the kernel has a reference
 * of its own, but nobody is to wonder whether. It is closed once, after the MR is gone; where that
 * fails the MR is RETAINED, too, without anything native.
 *
 * No lock: its owner's.
 */
#ifndef OTTE_TRANSPORT_RDMA_MR_H
#define OTTE_TRANSPORT_RDMA_MR_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/gpudirect.h"
#include "transport/rdma/context.h"
#include "transport/rdma/gpu.h"

enum otte_rdma_mr_state {
	OTTE_RDMA_MR_NONE = 0,
	OTTE_RDMA_MR_LIVE = 1,
	OTTE_RDMA_MR_RETAINED = 2,
};

struct otte_rdma_mr {
	struct otte_rdma_context *context;
	struct ibv_mr *native; /* its lkey; its rkey is for nobody but who owns its PD (cell.h) */
	uint64_t bytes;
	enum otte_rdma_mr_state state;
	bool exported;         /* `file` is open */
	struct otte_gpudirect_export file;
};

struct otte_rdma_mr_spec {
	void *at;
	uint64_t bytes;
	int access;                     /* of IBV_ACCESS_* */
	struct ibv_pd *pd;              /* NULL: the context's */
	enum otte_rdma_gpu_route route; /* not NONE: `at` is in `gpu`, which was admitted */
	struct otte_cuda_mem *gpu;
};

/*
 * -ENODEV: the context is FATAL; -EFBIG: longer than its MRs may be; -EUCLEAN: it could not be
 * made, and its descriptor is retained; else what a call failed with. Each with a text, of -ENOMEM
 * and -EPERM of the host's memory with RLIMIT_MEMLOCK, if any.
 */
int otte_rdma_mr_make(struct otte_rdma_context *context, const struct otte_rdma_mr_spec *spec,
		      struct otte_rdma_mr *mr);
/* Of the host's memory, in the context's PD. */
int otte_rdma_mr_register(struct otte_rdma_context *context, void *at, uint64_t bytes, int access,
			  struct otte_rdma_mr *mr);

/* -EUCLEAN with a text: RETAINED, now or since before. 0 of NONE. */
int otte_rdma_mr_release(struct otte_rdma_mr *mr);

#endif
