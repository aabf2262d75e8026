/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of devices: a memfd behind two mappings, one at the device's address, which the CPU cannot touch, and one
 * for the simulator. And what addresses are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "sim/cuda/exports.h"

/* What was never written reads as this, in allocations for which that is soon done. */
#define STALE 0xa5
#define STALE_LIMIT (4 * MIB)

static bool is_host(const struct sim_block *block)
{
	return block->kind == SIM_HOST || block->kind == SIM_REGISTERED;
}

static bool holds(const struct sim_block *block, uint64_t address, size_t size)
{
	return address >= block->address &&
	       range_inside(address - block->address, size, block->size);
}

struct sim_block *sim_block_find(uint64_t address, size_t size)
{
	struct sim_block *block = sim.blocks;

	while (block && !holds(block, address, size))
		block = block->next;
	return block;
}

struct sim_block *sim_block_at(uint64_t address)
{
	struct sim_block *block = sim.blocks;

	while (block && block->address != address)
		block = block->next;
	return block;
}

uint8_t *sim_reach(uint64_t address, size_t size, struct sim_block **block)
{
	*block = sim_block_find(address, size);
	if (!*block && address >= ALIAS_OFFSET) {
		address -= ALIAS_OFFSET;
		*block = sim_block_find(address, size);
		if (*block && !is_host(*block))
			*block = NULL;
	}
	return *block ? (*block)->bytes + (address - (*block)->address) : NULL;
}

bool sim_is_pinned(uint64_t address, size_t size)
{
	struct sim_block *block = sim_block_find(address, size);

	return block && is_host(block);
}

uint64_t sim_device_bytes(CUdevice device)
{
	struct sim_block *block;
	uint64_t bytes = 0;

	for (block = sim.blocks; block; block = block->next)
		if (!is_host(block) && block->kind != SIM_IMPORTED && block->device == device)
			bytes += block->size;
	return bytes;
}

void sim_block_unlink(struct sim_block *block)
{
	struct sim_block **at = &sim.blocks;

	while (*at != block)
		at = &(*at)->next;
	*at = block->next;
}

void sim_block_drop(struct sim_block *block)
{
	while (block->busy)
		pthread_cond_wait(&sim.changed, &sim.lock);
	if (!is_host(block)) {
		munmap(block->bytes, block->span);
		/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address, as the ABI has it */
		if (block->kind != SIM_MAPPED && munmap((void *)block->address, block->span))
			abort();
		if (block->fd >= 0)
			close(block->fd);
	} else if (block->kind == SIM_HOST) {
		munmap(block->bytes, block->span);
	}
	free(block);
}

CUresult sim_block_map(struct sim_context *context, CUdevice device, enum sim_block_kind kind,
		       size_t size, int fd, struct sim_block **out)
{
	size_t span = (size + 4095) & ~(size_t)4095;
	struct sim_block *block = calloc(1, sizeof(*block));
	void *at, *bytes;

	if (!block)
		abort();
	at = mmap(NULL, span, kind == SIM_MANAGED ? PROT_READ | PROT_WRITE : PROT_NONE,
		  kind == SIM_MANAGED ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		  kind == SIM_MANAGED ? fd : -1, 0);
	bytes = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED || bytes == MAP_FAILED) {
		if (at != MAP_FAILED)
			munmap(at, span);
		free(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*block = (struct sim_block){ .kind = kind,
				     .device = device,
				     .context = context,
				     .address = (uint64_t)(uintptr_t)at,
				     .size = size,
				     .span = span,
				     .bytes = bytes,
				     .fd = fd,
				     .access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
				     .id = ++sim.ids };
	block->next = sim.blocks;
	sim.blocks = block;
	*out = block;
	return CUDA_SUCCESS;
}

CUresult sim_block_map_at(CUdevice device, uint64_t address, size_t size, size_t offset, int fd)
{
	struct sim_block *block = calloc(1, sizeof(*block));
	void *bytes;

	if (!block)
		abort();
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (bytes == MAP_FAILED) {
		free(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*block = (struct sim_block){ .next = sim.blocks,
				     .kind = SIM_MAPPED,
				     .device = device,
				     .address = address,
				     .size = size,
				     .span = size,
				     .bytes = bytes,
				     .fd = -1,
				     .id = ++sim.ids };
	sim.blocks = block;
	return CUDA_SUCCESS;
}

static CUresult allocate(size_t size, enum sim_block_kind kind, CUdeviceptr *at)
{
	struct sim_context *context = sim_context_current();
	struct sim_block *block;
	CUresult result;
	int fd;

	if (!size)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > sim.settings.memory_mib * MIB - sim_device_bytes(context->device))
		return CUDA_ERROR_OUT_OF_MEMORY;
	fd = sim_file_make(context->device, size);
	if (fd < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = sim_block_map(context, context->device, kind, size, fd, &block);
	if (result) {
		close(fd);
		return result;
	}
	if (size <= STALE_LIMIT)
		memset(block->bytes, STALE, size);
	*at = block->address;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t size)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	return result ? result : sim_end(allocate(size, SIM_DEVICE, at));
}

EXPORT CUdeviceptr sim_cuda_managed_alloc(size_t size)
{
	CUdeviceptr at = 0;

	pthread_mutex_lock(&sim.lock);
	if (!sim_context_current() || allocate(size, SIM_MANAGED, &at))
		abort();
	pthread_mutex_unlock(&sim.lock);
	return at;
}

EXPORT void *sim_cuda_reach(uint64_t address, size_t size)
{
	struct sim_block *block;
	void *at;

	pthread_mutex_lock(&sim.lock);
	at = sim_reach(address, size, &block);
	pthread_mutex_unlock(&sim.lock);
	return at;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr at)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_block *block;

	if (result)
		return result;
	block = sim_block_at(at);
	if (!block || (block->kind != SIM_DEVICE && block->kind != SIM_MANAGED))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	if (sim_work_names(block->address, block->size))
		sim_violate("device memory of %zu bytes was freed under work that names it",
			    block->size);
	sim_block_unlink(block);
	sim_block_drop(block);
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr at)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_block *block;

	if (result)
		return result;
	block = sim_block_find(at, 1);
	if (!block)
		return sim_end(CUDA_ERROR_NOT_FOUND);
	if (base)
		*base = block->address;
	if (size)
		*size = block->size;
	return sim_end(CUDA_SUCCESS);
}

/* ---- What addresses are ---------------------------------------------------------------------- */

static int memory_type(const struct sim_block *block)
{
	if (!block)
		return 0;
	return is_host(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static uint64_t pointer_on(const struct sim_block *block, uint64_t at, bool device)
{
	if (!block || (!device && block->kind != SIM_MANAGED && !is_host(block)))
		return 0;
	return device && is_host(block) && sim.settings.alias ? at + ALIAS_OFFSET : at;
}

#define PUT(type, value) (*(type *)out = (type)(value))

static CUresult tell(const struct sim_block *block, uint64_t at, CUpointer_attribute which,
		     void *out)
{
	switch (which) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		PUT(CUcontext, block ? block->context : NULL);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		PUT(int, memory_type(block));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		PUT(uint64_t, pointer_on(block, at, true));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		PUT(uint64_t, pointer_on(block, at, false));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		PUT(int, block ? block->sync_memops : 0);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		PUT(unsigned long long, block ? block->id : 0);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		PUT(int, block && block->kind == SIM_MANAGED);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		PUT(int, block ? block->device : -2);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		PUT(int, block && block->kind == SIM_DEVICE && sim.settings.ipc);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		PUT(uint64_t, block ? block->address : 0);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		PUT(size_t, block ? block->size : 0);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		PUT(int, block != NULL);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
				       void **values, CUdeviceptr at)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_block *block;
	unsigned int i;

	if (result)
		return result;
	block = sim_block_find(at, 1);
	for (i = 0; i < count && !result; i++)
		result = tell(block, at, attributes[i], values[i]);
	return sim_end(result);
}

EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				      CUdeviceptr at)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_block *block;

	if (result)
		return result;
	block = sim_block_find(at, 1);
	if (!block || is_host(block) || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	block->sync_memops = *(const unsigned int *)value;
	return sim_end(CUDA_SUCCESS);
}
