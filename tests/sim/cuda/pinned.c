/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pinned memory of the host. */
#include <stdlib.h>
#include <sys/mman.h>

#include "sim/cuda/exports.h"

static bool overlaps_pinned(uint64_t address, size_t size)
{
	struct sim_block *block;

	for (block = sim.blocks; block; block = block->next)
		if (block->address < address + size && address < block->address + block->size)
			return true;
	return false;
}

static bool is_mapped(void *at, size_t size)
{
	uint64_t first = (uint64_t)(uintptr_t)at & ~4095ull,
		 end = ((uint64_t)(uintptr_t)at + size + 4095) & ~4095ull;
	unsigned char *pages = malloc((end - first) / 4096);
	int ret;

	if (!pages)
		abort();
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address, as the ABI has it */
	ret = mincore((void *)first, end - first, pages);
	free(pages);
	return !ret;
}

static void add(enum sim_block_kind kind, void *at, size_t size)
{
	struct sim_context *context = sim_context_current();
	struct sim_block *block = calloc(1, sizeof(*block));

	if (!block)
		abort();
	*block = (struct sim_block){ .next = sim.blocks,
				     .kind = kind,
				     .device = context->device,
				     .context = context,
				     .address = (uint64_t)(uintptr_t)at,
				     .size = size,
				     .span = size,
				     .bytes = at,
				     .fd = -1,
				     .access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
				     .id = ++sim.ids };
	sim.blocks = block;
}

/* Of which the work has to be over. */
static CUresult give_back(void *at, enum sim_block_kind kind, CUresult other)
{
	struct sim_block *block = sim_block_at((uint64_t)(uintptr_t)at);

	if (!block || block->kind != kind)
		return other;
	if (sim_work_names(block->address, block->size))
		sim_violate("pinned memory of %zu bytes was given back under work that names it",
			    block->size);
	sim_block_unlink(block);
	sim_block_drop(block);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **at, size_t size, unsigned int flags)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	void *bytes;

	if (result)
		return result;
	if (!size || flags & ~7u)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return sim_end(CUDA_ERROR_OUT_OF_MEMORY);
	add(SIM_HOST, bytes, size);
	*at = bytes;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemFreeHost(void *at)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	return result ? result : sim_end(give_back(at, SIM_HOST, CUDA_ERROR_INVALID_VALUE));
}

EXPORT CUresult cuMemHostRegister_v2(void *at, size_t size, unsigned int flags)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	if (result)
		return result;
	if (!size || flags & ~15u)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	if (overlaps_pinned((uint64_t)(uintptr_t)at, size))
		return sim_end(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	if (!is_mapped(at, size))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	add(SIM_REGISTERED, at, size);
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostUnregister(void *at)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	return result ? result :
			sim_end(give_back(at, SIM_REGISTERED,
					  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *alias, void *at, unsigned int flags)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	if (result)
		return result;
	if (flags || !sim_is_pinned((uint64_t)(uintptr_t)at, 1))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	if (sim.settings.unreachable)
		return sim_end(CUDA_ERROR_NOT_SUPPORTED);
	*alias = (uint64_t)(uintptr_t)at + (sim.settings.alias ? ALIAS_OFFSET : 0);
	return sim_end(CUDA_SUCCESS);
}
