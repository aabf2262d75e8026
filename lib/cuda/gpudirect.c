/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/gpudirect.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/util.h"
#include "cuda/context.h"

static int say(const struct otte_cuda_mem *memory, CUresult result, const char *call)
{
	return otte_cuda_error(memory->cuda, result, memory->device, call);
}

static int ask_device(const struct otte_cuda_mem *memory, CUdevice_attribute attribute, int *value)
{
	const struct otte_cuda *cuda = memory->cuda;
	CUdevice device;
	int ret;

	ret = say(memory, cuda->device_get(&device, memory->device), "cuDeviceGet");
	if (ret)
		return ret;
	return say(memory, cuda->device_get_attribute(value, attribute, device),
		   "cuDeviceGetAttribute");
}

/* ---- Admission ------------------------------------------------------------------------------- */

static int check_ordering(const struct otte_cuda_mem *memory)
{
	int ordering, ret;

	ret = ask_device(memory, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, &ordering);
	if (ret)
		return ret;
	/* To its own work at least; then nothing needs to be flushed before that begins. */
	if (ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER)
		return 0;
	return otte_fail(-EOPNOTSUPP,
			 "GPU %d: does not order what NICs write "
			 "(GPU_DIRECT_RDMA_WRITES_ORDERING is %d)",
			 memory->device, ordering);
}

static int set_sync_memops(const struct otte_cuda_mem *memory)
{
	static const unsigned int on = 1;
	CUresult result = memory->cuda->pointer_set_attribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
							      memory->address);

	return say(memory, result, "cuPointerSetAttribute (SYNC_MEMOPS)");
}

/* With the memory's context current. */
static int within(const struct otte_cuda_mem *memory,
		  int (*step)(const struct otte_cuda_mem *memory))
{
	struct otte_cuda_guard guard;
	bool restored;
	int ret;

	ret = otte_cuda_enter(&guard, memory->cuda, memory->context, memory->device);
	return ret ? ret : otte_cuda_leave(&guard, step(memory), &restored);
}

int otte_gpudirect_admit(struct otte_cuda_mem *memory)
{
	int ret = check_ordering(memory);

	return ret ? ret : within(memory, set_sync_memops);
}

/* ---- Export ---------------------------------------------------------------------------------- */

int otte_gpudirect_fit(const struct otte_cuda_mem *memory, uint64_t address, uint64_t length,
		       uint64_t page_bytes, struct otte_gpudirect_geometry *geometry)
{
	uint64_t before = memory->extent_base % page_bytes, bytes, end;

	if (!length || address < memory->extent_base ||
	    !range_inside(address - memory->extent_base, length, memory->extent_length))
		return otte_fail(-ERANGE,
				 "GPU %d: %" PRIu64 " bytes are not inside their allocation",
				 memory->device, length);
	if (__builtin_add_overflow(memory->extent_length, before, &bytes) ||
	    __builtin_add_overflow(bytes, page_bytes - 1, &bytes) ||
	    __builtin_add_overflow(memory->extent_base - before, bytes - bytes % page_bytes, &end))
		return otte_fail(-ERANGE, "GPU %d: an allocation wraps around", memory->device);
	geometry->base = memory->extent_base - before;
	geometry->length = bytes - bytes % page_bytes;
	geometry->offset = address - geometry->base;
	return 0;
}

int otte_gpudirect_look_for_export(const struct otte_cuda_mem *memory, const char **missing)
{
	int value = 0, ret;

	*missing = NULL;
	ret = ask_device(memory, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, &value);
	if (!memory->cuda->mem_get_handle_for_address_range)
		*missing = "the driver has no cuMemGetHandleForAddressRange";
	else if (!value)
		*missing = "the GPU does not export its memory (DMA_BUF_SUPPORTED)";
	return ret;
}

/* Of whatever flags it came with: a child of fork() is not to keep the memory. */
static int keep_from_children(const struct otte_cuda_mem *memory, int fd)
{
	if (fcntl(fd, F_SETFD, FD_CLOEXEC))
		return otte_fail(-errno, "GPU %d: FD_CLOEXEC of a dma-buf: %s", memory->device,
				 strerror(errno));
	if (otte_fd_mark(fd))
		return otte_fail(-ENOMEM, "GPU %d: no memory for a dma-buf's record",
				 memory->device);
	return 0;
}

/* With the memory's context current. */
static int export(const struct otte_cuda_mem *memory,
		  const struct otte_gpudirect_geometry *geometry, int *out)
{
	int fd = -1, ret;

	ret = say(memory,
		  memory->cuda->mem_get_handle_for_address_range(
			  &fd, geometry->base, geometry->length,
			  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
		  "cuMemGetHandleForAddressRange");
	if (ret)
		return ret;
	ret = keep_from_children(memory, fd);
	if (ret)
		close(fd);
	else
		*out = fd;
	return ret;
}

int otte_gpudirect_export(struct otte_cuda_mem *memory, uint64_t address, uint64_t length,
			  struct otte_gpudirect_export *out)
{
	struct otte_gpudirect_geometry geometry;
	struct otte_cuda_guard guard;
	bool restored;
	int fd = -1, ret;

	if (!memory->cuda->mem_get_handle_for_address_range)
		return otte_fail(-EOPNOTSUPP,
				 "GPU %d: the driver has no cuMemGetHandleForAddressRange",
				 memory->device);
	ret = otte_gpudirect_fit(memory, address, length, (uint64_t)sysconf(_SC_PAGESIZE),
				 &geometry);
	if (!ret)
		ret = otte_cuda_enter(&guard, memory->cuda, memory->context, memory->device);
	if (ret)
		return ret;
	ret = otte_cuda_leave(&guard, export(memory, &geometry, &fd), &restored);
	if (ret) {
		otte_fd_close(fd);
		return ret;
	}
	*out = (struct otte_gpudirect_export){ .fd = fd, .offset = geometry.offset };
	return 0;
}

int otte_gpudirect_close(const struct otte_gpudirect_export *exported)
{
	if (exported->fd < 0)
		return 0;
	otte_fd_forget(exported->fd);
	if (!close(exported->fd))
		return 0;
	return otte_fail(-EUCLEAN, "close of a dma-buf: %s; retained", strerror(errno));
}
