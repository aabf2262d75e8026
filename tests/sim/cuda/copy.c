/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies. A host side that is not pinned is copied in the call, when the stream has come to it. */
#include "base/util.h"
#include "sim/cuda/exports.h"

static bool is_device(uint64_t address, size_t size)
{
	struct sim_block *block = sim_block_find(address, size);

	return block && block->kind != SIM_HOST && block->kind != SIM_REGISTERED;
}

/* All of it pinned by one, or none of it pinned. */
static bool is_host(uint64_t address, size_t size, bool *pinned)
{
	struct sim_block *first = sim_block_find(address, 1),
			 *last = sim_block_find(address + size - 1, 1);

	*pinned = first != NULL;
	return first == last && !is_device(address, 1);
}

static CUresult put(CUstream handle, struct sim_work *work, bool pinned)
{
	struct sim_stream *stream;
	CUresult result = sim_stream_for_work(handle, &stream);
	struct sim_cuda_call *call = sim_call();
	struct sim_block *block;

	if (result)
		return result;
	call->to = work->to;
	call->from = work->from;
	call->bytes = work->bytes;
	call->rows = work->rows;
	work->kind = SIM_COPY;
	work->to_pageable = !sim_reach(work->to, 1, &block);
	work->from_pageable = !sim_reach(work->from, 1, &block);
	sim_work_put(stream, work);
	if (pinned)
		return CUDA_SUCCESS;
	sim.pageable++;
	return sim_stream_wait(stream);
}

static CUresult put_1d(uint64_t to, uint64_t from, size_t size, CUstream stream, bool pinned)
{
	struct sim_work work = { .to = to, .from = from, .bytes = size, .rows = 1 };

	return put(stream, &work, pinned);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	uint64_t host = (uint64_t)(uintptr_t)from;
	bool pinned = true;

	if (result)
		return result;
	if (size && (!is_device(to, size) || !is_host(host, size, &pinned)))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	return sim_end(put_1d(to, host, size, stream, pinned));
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	uint64_t host = (uint64_t)(uintptr_t)to;
	bool pinned = true;

	if (result)
		return result;
	if (size && (!is_device(from, size) || !is_host(host, size, &pinned)))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	return sim_end(put_1d(host, from, size, stream, pinned));
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	if (result)
		return result;
	if (size && (!is_device(to, size) || !is_device(from, size)))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	return sim_end(put_1d(to, from, size, stream, true));
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	bool one = true, other = true;

	if (result)
		return result;
	if (size && ((!is_device(to, size) && !is_host(to, size, &one)) ||
		     (!is_device(from, size) && !is_host(from, size, &other))))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	return sim_end(put_1d(to, from, size, stream, one && other));
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size, CUstream handle)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_stream *stream;
	struct sim_block *block;
	uint8_t *bytes;
	size_t i;

	if (result)
		return result;
	if (!is_device(to, size))
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	result = sim_stream_for_work(handle, &stream);
	if (!result)
		result = sim_stream_wait(stream);
	bytes = sim_reach(to, size, &block);
	for (i = 0; i < size && !result; i++)
		bytes[i] = value;
	return sim_end(result);
}

/* ---- Two dimensions -------------------------------------------------------------------------- */

static bool side(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y,
		 size_t pitch, size_t width, size_t height, uint64_t *address, bool *pinned)
{
	size_t span = (height - 1) * pitch + width;

	*pinned = true;
	if (type == CU_MEMORYTYPE_HOST) {
		*address = (uint64_t)(uintptr_t)host + y * pitch + x;
		return is_host(*address, span, pinned);
	}
	*address = device + y * pitch + x;
	return type == CU_MEMORYTYPE_DEVICE && is_device(*address, span);
}

static CUresult put_2d(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	struct sim_work work = { .bytes = copy->WidthInBytes,
				 .rows = copy->Height,
				 .to_pitch = copy->dstPitch,
				 .from_pitch = copy->srcPitch };
	bool one, other;

	if (!work.bytes || !work.rows)
		return CUDA_SUCCESS;
	if (work.rows > 1 && (work.to_pitch < work.bytes || work.from_pitch < work.bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (work.to_pitch > INT32_MAX || work.from_pitch > INT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!side(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes,
		  copy->srcY, copy->srcPitch, work.bytes, work.rows, &work.from, &one) ||
	    !side(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes,
		  copy->dstY, copy->dstPitch, work.bytes, work.rows, &work.to, &other))
		return CUDA_ERROR_INVALID_VALUE;
	return put(stream, &work, one && other);
}

EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	return result ? result : sim_end(put_2d(copy, stream));
}

/* ---- Many in a call -------------------------------------------------------------------------- */

static CUresult put_one(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	struct sim_block *to_block, *from_block;

	if (!size || !sim_reach(to, size, &to_block) || !sim_reach(from, size, &from_block))
		return CUDA_ERROR_INVALID_VALUE;
	return put_1d(to, from, size, stream, true);
}

static CUresult put_many(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
			 const CUmemcpyAttributes *attributes, const size_t *starts,
			 size_t attribute_count, size_t *failed, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;
	size_t i;

	if (!count || !attribute_count || attribute_count > count || starts[0] ||
	    attributes[0].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
	    attributes[0].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream || stream == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count && !result; i++) {
		if (sim.fail_batch && i == sim.fail_batch_at)
			result = sim.fail_batch_with;
		else
			result = put_one(to[i], from[i], sizes[i], stream);
		if (result && failed)
			*failed = i;
	}
	sim.fail_batch = false;
	sim_call()->rows = count;
	return result;
}

EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
				   CUmemcpyAttributes *attributes, size_t *starts,
				   size_t attribute_count, size_t *failed_index, CUstream stream)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	if (result)
		return result;
	return sim_end(put_many(to, from, sizes, count, attributes, starts, attribute_count,
				failed_index, stream));
}

EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
				      size_t count, CUmemcpyAttributes *attributes, size_t *starts,
				      size_t attribute_count, CUstream stream)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	if (result)
		return result;
	return sim_end(put_many(to, from, sizes, count, attributes, starts, attribute_count, NULL,
				stream));
}

EXPORT void sim_cuda_fail_batch(size_t index, CUresult result)
{
	pthread_mutex_lock(&sim.lock);
	sim.fail_batch = true;
	sim.fail_batch_at = index;
	sim.fail_batch_with = result;
	pthread_mutex_unlock(&sim.lock);
}

EXPORT unsigned long sim_cuda_pageable(void)
{
	unsigned long count;

	pthread_mutex_lock(&sim.lock);
	count = sim.pageable;
	pthread_mutex_unlock(&sim.lock);
	return count;
}
