/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How NICs are told of memory of GPUs (rdma.gpu_direct_registration), and what has to be so before:
 *
 *   DMABUF   the driver exports it, and libibverbs registers what is exported
 *   PEERMEM  a module of the kernel knows its addresses, which are registered like any others
 *
 * "auto" is DMABUF where the GPU, its driver and libibverbs say that they have it, else PEERMEM
 * where a module is there. Which it is is decided once for a region, by what is there and not by
 * what comes of it: a registration that fails is never tried the other way, nor is what a route
 * needs and has not got made up for by another one that was not asked for.
 *
 * No state.
 */
#ifndef OTTE_TRANSPORT_RDMA_GPU_H
#define OTTE_TRANSPORT_RDMA_GPU_H

#include <stdbool.h>

#include "cuda/memory.h"
#include "otte/otte.h"
#include "transport/rdma/verbs.h"

enum otte_rdma_gpu_route {
	OTTE_RDMA_GPU_NONE = 0, /* memory of the host */
	OTTE_RDMA_GPU_DMABUF = 1,
	OTTE_RDMA_GPU_PEERMEM = 2,
};

#define OTTE_RDMA_GPU_ROUTES 3

/*
 * Before any device is opened. -EINVAL with a text: GPU Direct is wanted, and the environment lets a
 * provider's CPU write short payloads, which it cannot do to a GPU's memory.
 */
int otte_rdma_gpu_check(const struct otte_config *config);

/* -ENOSYS with a text that names what is missing; else what a call failed with. */
int otte_rdma_gpu_route(const struct otte_verbs *verbs, uint32_t wanted,
			const struct otte_cuda_mem *memory, enum otte_rdma_gpu_route *route);

const char *otte_rdma_gpu_route_text(enum otte_rdma_gpu_route route);

/* Whether a module is there that knows addresses of GPUs; `sys` is where sysfs is mounted. */
bool otte_rdma_peermem_is_there(const char *sys);

#endif
