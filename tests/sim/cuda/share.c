/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of devices in other processes: by handles of an allocation, by descriptors, and as a dma-buf. What is shared
 * is the memfd behind it, which says in the page behind its bytes what it is.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "sim/cuda/exports.h"

#define MAGIC 0x4f54544553494d43ull
#define GRANULARITY (2 * MIB)

/* In the file's last page. */
struct label {
	uint64_t magic, id;
	uint64_t device, size;
};

/* What an IPC handle holds. */
struct ipc {
	uint64_t magic, id;
	int32_t pid, fd;
};

/* An allocation by a handle. It is there until it is released and no longer mapped. */
struct sim_handle {
	struct sim_handle *next;
	CUdevice device;
	size_t size;
	int fd;
	bool released, exportable;
	unsigned int mapped;
};

struct sim_range {
	struct sim_range *next;
	uint64_t address;
	size_t size;
};

/* Which handle is mapped where. */
struct sim_mapping {
	struct sim_mapping *next;
	uint64_t address;
	struct sim_handle *handle;
};

static struct sim_handle *handles;
static struct sim_range *ranges;
static struct sim_mapping *mappings;

static size_t round_up(size_t size)
{
	return (size + 4095) & ~(size_t)4095;
}

int sim_file_make(CUdevice device, size_t size)
{
	struct label label = { .magic = MAGIC, .device = (uint64_t)device, .size = size };
	int fd = memfd_create("device memory", MFD_CLOEXEC);

	if (fd < 0)
		return -1;
	label.id = ((uint64_t)getpid() << 32) + ++sim.ids;
	if (ftruncate(fd, (off_t)(round_up(size) + 4096)) ||
	    pwrite(fd, &label, sizeof(label), (off_t)round_up(size)) != (ssize_t)sizeof(label)) {
		close(fd);
		return -1;
	}
	return fd;
}

bool sim_file_read(int fd, CUdevice *device, size_t *size, unsigned long long *id)
{
	struct label label;
	struct stat status;

	if (fstat(fd, &status) || status.st_size < 4096 ||
	    pread(fd, &label, sizeof(label), status.st_size - 4096) != (ssize_t)sizeof(label) ||
	    label.magic != MAGIC)
		return false;
	*device = (CUdevice)label.device;
	*size = (size_t)label.size;
	*id = label.id;
	return true;
}

/* ---- By handles of an allocation ------------------------------------------------------------- */

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr at)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_block *block;
	struct ipc ipc = { .magic = MAGIC, .pid = getpid() };
	unsigned long long id;
	CUdevice device;
	size_t size;

	if (result)
		return result;
	block = sim_block_find(at, 1);
	if (!block || block->kind != SIM_DEVICE)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	if (!sim.settings.ipc)
		return sim_end(CUDA_ERROR_NOT_SUPPORTED);
	if (!sim_file_read(block->fd, &device, &size, &id))
		abort();
	ipc.id = id;
	ipc.fd = block->fd;
	memset(out, 0, sizeof(*out));
	memcpy(out, &ipc, sizeof(ipc));
	return sim_end(CUDA_SUCCESS);
}

static struct sim_block *find_import(const CUipcMemHandle *handle)
{
	struct sim_block *block = sim.blocks;

	while (block && (block->kind != SIM_IMPORTED || block->context != sim_context_current() ||
			 memcmp(block->identity, handle, sizeof(block->identity))))
		block = block->next;
	return block;
}

static CUresult import(const CUipcMemHandle *handle, CUdeviceptr *at)
{
	struct sim_block *block;
	unsigned long long id;
	char path[64];
	struct ipc ipc;
	CUdevice device;
	CUresult result;
	size_t size;
	int fd;

	memcpy(&ipc, handle, sizeof(ipc));
	if (ipc.magic != MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (ipc.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc.pid, ipc.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_file_read(fd, &device, &size, &id) || id != ipc.id) {
		close(fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	result = sim_block_map(sim_context_current(), device, SIM_IMPORTED, size, fd, &block);
	if (result) {
		close(fd);
		return result;
	}
	memcpy(block->identity, handle, sizeof(block->identity));
	*at = block->address;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, CUipcMemHandle handle, unsigned int flags)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_block *block;

	if (result)
		return result;
	if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	block = find_import(&handle);
	if (!block)
		result = import(&handle, at);
	else
		*at = block->address;
	if (!result)
		sim_block_at(*at)->opened++;
	return sim_end(result);
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr at)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_block *block;

	if (result)
		return result;
	block = sim_block_at(at);
	if (!block || block->kind != SIM_IMPORTED)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	if (--block->opened)
		return sim_end(CUDA_SUCCESS);
	if (sim_work_names(block->address, block->size))
		sim_violate("an import of %zu bytes was closed under work that names it",
			    block->size);
	sim_block_unlink(block);
	sim_block_drop(block);
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr at, size_t size,
					      CUmemRangeHandleType type, unsigned long long flags)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_block *block;
	int fd;

	if (result)
		return result;
	if (!sim.settings.dma_buf)
		return sim_end(CUDA_ERROR_NOT_SUPPORTED);
	block = sim_block_find(at, 1);
	if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags > 1 || !block || block->fd < 0 ||
	    at & 4095 || size & 4095 || !range_inside(at - block->address, size, block->span))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	fd = fcntl(block->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return sim_end(CUDA_ERROR_OPERATING_SYSTEM);
	*(int *)handle = fd;
	return sim_end(CUDA_SUCCESS);
}

/* ---- By descriptors -------------------------------------------------------------------------- */

static struct sim_handle *find_handle(CUmemGenericAllocationHandle number)
{
	struct sim_handle *handle = handles;

	while (handle && ((uint64_t)(uintptr_t)handle != number || handle->released))
		handle = handle->next;
	return handle;
}

static struct sim_handle *add_handle(CUdevice device, size_t size, int fd, bool exportable)
{
	struct sim_handle *handle = calloc(1, sizeof(*handle));

	if (!handle)
		abort();
	*handle = (struct sim_handle){
		.next = handles, .device = device, .size = size, .fd = fd, .exportable = exportable
	};
	handles = handle;
	sim.handles++;
	return handle;
}

static void free_handle_if_unused(struct sim_handle *handle)
{
	struct sim_handle **at = &handles;

	if (!handle->released || handle->mapped)
		return;
	while (*at != handle)
		at = &(*at)->next;
	*at = handle->next;
	close(handle->fd);
	free(handle);
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity,
					      const CUmemAllocationProp *properties,
					      CUmemAllocationGranularity_flags which)
{
	CUresult result = sim_begin(__func__, SIM_INIT);

	(void)which;
	if (result)
		return result;
	if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	*granularity = GRANULARITY;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
			    const CUmemAllocationProp *properties, unsigned long long flags)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	int fd;

	if (result)
		return result;
	if (flags || !size || size % GRANULARITY ||
	    properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    properties->location.id < 0 ||
	    (uint64_t)properties->location.id >= sim.settings.devices)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	if (size > sim.settings.memory_mib * MIB - sim_device_bytes(properties->location.id))
		return sim_end(CUDA_ERROR_OUT_OF_MEMORY);
	fd = sim_file_make(properties->location.id, size);
	if (fd < 0)
		return sim_end(CUDA_ERROR_OUT_OF_MEMORY);
	*out = (uint64_t)(uintptr_t)add_handle(properties->location.id, size, fd,
					       properties->requestedHandleTypes &
						       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle number)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_handle *handle;

	if (result)
		return result;
	handle = find_handle(number);
	if (!handle)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	handle->released = true;
	sim.handles--;
	free_handle_if_unused(handle);
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *at, size_t size, size_t alignment,
				    CUdeviceptr hint, unsigned long long flags)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_range *range;
	void *address;

	(void)hint;
	if (result)
		return result;
	if (flags || !size || size % GRANULARITY || alignment & (alignment - 1))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	address = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (address == MAP_FAILED)
		return sim_end(CUDA_ERROR_OUT_OF_MEMORY);
	range = calloc(1, sizeof(*range));
	if (!range)
		abort();
	*range = (struct sim_range){ .next = ranges,
				     .address = (uint64_t)(uintptr_t)address,
				     .size = size };
	ranges = range;
	sim.reserved++;
	*at = range->address;
	return sim_end(CUDA_SUCCESS);
}

static struct sim_range *find_range(uint64_t address, size_t size)
{
	struct sim_range *range = ranges;

	while (range && !(address >= range->address &&
			  range_inside(address - range->address, size, range->size)))
		range = range->next;
	return range;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr at, size_t size)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_range *range, **place = &ranges;
	struct sim_block *block;

	if (result)
		return result;
	range = find_range(at, size);
	if (!range || range->address != at || range->size != size)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	for (block = sim.blocks; block; block = block->next)
		if (block->kind == SIM_MAPPED && find_range(block->address, 1) == range)
			return sim_end(CUDA_ERROR_INVALID_VALUE);
	while (*place != range)
		place = &(*place)->next;
	*place = range->next;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address, as the ABI has it */
	munmap((void *)at, size);
	free(range);
	sim.reserved--;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset,
			 CUmemGenericAllocationHandle number, unsigned long long flags)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_mapping *mapping;
	struct sim_handle *handle;

	if (result)
		return result;
	handle = find_handle(number);
	if (flags || offset || !handle || size != handle->size || !find_range(at, size))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	if (sim_block_find(at, 1))
		return sim_end(CUDA_ERROR_ALREADY_MAPPED);
	result = sim_block_map_at(handle->device, at, size, offset, handle->fd);
	if (result)
		return sim_end(result);
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		abort();
	*mapping = (struct sim_mapping){ .next = mappings, .address = at, .handle = handle };
	mappings = mapping;
	handle->mapped++;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemUnmap(CUdeviceptr at, size_t size)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_mapping *mapping, **place = &mappings;
	struct sim_block *block;

	if (result)
		return result;
	block = sim_block_at(at);
	if (!block || block->kind != SIM_MAPPED || block->size != size)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	if (sim_work_names(block->address, block->size))
		sim_violate("a mapping of %zu bytes was undone under work that names it",
			    block->size);
	while ((*place)->address != at)
		place = &(*place)->next;
	mapping = *place;
	*place = mapping->next;
	mapping->handle->mapped--;
	free_handle_if_unused(mapping->handle);
	free(mapping);
	sim_block_unlink(block);
	sim_block_drop(block);
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr at, size_t size, const CUmemAccessDesc *access,
			       size_t count)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_block *block;

	if (result)
		return result;
	block = sim_block_at(at);
	if (!block || block->kind != SIM_MAPPED || block->size != size || !count ||
	    access[0].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	block->access = (int)access[0].flags;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle number,
					     CUmemAllocationHandleType type,
					     unsigned long long flags)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_handle *handle;
	int fd;

	if (result)
		return result;
	handle = find_handle(number);
	if (flags || !handle || !handle->exportable ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return sim_end(CUDA_ERROR_OPERATING_SYSTEM);
	*(int *)out = fd;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *from,
					       CUmemAllocationHandleType type)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	unsigned long long id;
	CUdevice device;
	size_t size;
	int fd;

	if (result)
		return result;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !sim_file_read((int)(intptr_t)from, &device, &size, &id))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	fd = fcntl((int)(intptr_t)from, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return sim_end(CUDA_ERROR_OPERATING_SYSTEM);
	*out = (uint64_t)(uintptr_t)add_handle(device, size, fd, true);
	return sim_end(CUDA_SUCCESS);
}
