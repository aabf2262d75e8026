/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cuda/gpudirect.h"

#define SCATTER "MLX5_SCATTER_TO_CQE"

int otte_rdma_gpu_check(const struct otte_config *config)
{
	const char *scatter = getenv(SCATTER);

	if (!config->rdma_enabled || config->rdma_cuda_memory != OTTE_CUDA_MEMORY_DIRECT)
		return 0;
	if (scatter && !strcmp(scatter, "0"))
		return 0;
	return otte_fail(-EINVAL, "rdma.cuda_memory is direct, which wants " SCATTER
				  "=0 in the environment from the start");
}

const char *otte_rdma_gpu_route_text(enum otte_rdma_gpu_route route)
{
	static const char *const texts[OTTE_RDMA_GPU_ROUTES] = { "host", "dmabuf", "peermem" };

	return texts[route];
}

/* ---- What there is --------------------------------------------------------------------------- */

/* *missing: what DMABUF would need; NULL: nothing. */
static int look_for_dmabuf(const struct otte_verbs *verbs, const struct otte_cuda_mem *memory,
			   const char **missing)
{
	int ret = otte_gpudirect_look_for_export(memory, missing);

	if (!*missing && !verbs->reg_dmabuf_mr)
		*missing = "libibverbs.so.1 has no ibv_reg_dmabuf_mr";
	return ret;
}

static const char *look_for_peermem(void)
{
	if (otte_rdma_peermem_is_there("/sys"))
		return NULL;
	return "there is no module nvidia_peermem or nv_peer_mem";
}

/* ---- Which it is ----------------------------------------------------------------------------- */

static int take_one(const struct otte_cuda_mem *memory, enum otte_rdma_gpu_route one,
		    const char *missing, enum otte_rdma_gpu_route *route)
{
	if (missing)
		return otte_fail(-ENOSYS, "GPU %d: no GPU Direct by %s: %s", memory->device,
				 otte_rdma_gpu_route_text(one), missing);
	*route = one;
	return 0;
}

int otte_rdma_gpu_route(const struct otte_verbs *verbs, uint32_t wanted,
			const struct otte_cuda_mem *memory, enum otte_rdma_gpu_route *route)
{
	const char *dmabuf, *peermem;
	int ret;

	if (wanted == OTTE_GPU_REGISTRATION_PEERMEM)
		return take_one(memory, OTTE_RDMA_GPU_PEERMEM, look_for_peermem(), route);
	ret = look_for_dmabuf(verbs, memory, &dmabuf);
	if (ret)
		return ret;
	if (wanted == OTTE_GPU_REGISTRATION_DMABUF || !dmabuf)
		return take_one(memory, OTTE_RDMA_GPU_DMABUF, dmabuf, route);
	peermem = look_for_peermem();
	if (peermem)
		return otte_fail(-ENOSYS, "GPU %d: no GPU Direct: %s, and %s", memory->device,
				 dmabuf, peermem);
	*route = OTTE_RDMA_GPU_PEERMEM;
	return 0;
}
