/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One MR of a context.
 *
 *   NONE --register--> LIVE --release--> NONE
 *                           `--release fails--> RETAINED: not tried again, its memory is kept
 *
 * No lock: its owner's.
 */
#ifndef OTTE_TRANSPORT_RDMA_MR_H
#define OTTE_TRANSPORT_RDMA_MR_H

#include <stddef.h>
#include <stdint.h>

#include "transport/rdma/context.h"

enum otte_rdma_mr_state {
	OTTE_RDMA_MR_NONE = 0,
	OTTE_RDMA_MR_LIVE = 1,
	OTTE_RDMA_MR_RETAINED = 2,
};

struct otte_rdma_mr {
	struct otte_rdma_context *context;
	struct ibv_mr *native; /* its lkey; its rkey is for nobody */
	uint64_t bytes;
	enum otte_rdma_mr_state state;
};

/*
 * `access`: of IBV_ACCESS_*. -ENODEV: the context is FATAL; -EFBIG: longer than its MRs may be;
 * else what the call failed with. Each with a text, of -ENOMEM and -EPERM with RLIMIT_MEMLOCK, if
 * any.
 */
int otte_rdma_mr_register(struct otte_rdma_context *context, void *at, uint64_t bytes, int access,
			  struct otte_rdma_mr *mr);

/* -EUCLEAN with a text: RETAINED, now or since before. 0 of NONE. */
int otte_rdma_mr_release(struct otte_rdma_mr *mr);

#endif
