/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/mover.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/util.h"
#include "cuda/kernel/copy.h"
#include "cuda/plan.h"
#include "cuda/policy.h"

/* NOLINTBEGIN(performance-no-int-to-ptr): plans have addresses of either side as numbers */

static int say(const struct otte_mover *mover, CUresult result, const char *call)
{
	return otte_cuda_error(mover->cuda, result, mover->device, call);
}

/* ---- Making and unmaking --------------------------------------------------------------------- */

static int ask_device(const struct otte_mover *mover, CUdevice_attribute attribute, CUdevice device, int *value)
{
	return say(mover, mover->cuda->device_get_attribute(value, attribute, device), "cuDeviceGetAttribute");
}

int otte_mover_init(struct otte_mover *mover, const struct otte_cuda *cuda, int device, CUcontext context,
		    CUstream stream)
{
	int multiprocessors = 0, grid = 0, pitch = 0, ret;
	CUdevice handle;

	*mover = (struct otte_mover){ .cuda = cuda, .device = device, .context = context, .stream = stream };
	mover->legacy = !stream || stream == CU_STREAM_LEGACY;
	ret = say(mover, cuda->device_get(&handle, device), "cuDeviceGet");
	if (!ret)
		ret = ask_device(mover, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle, &multiprocessors);
	if (!ret)
		ret = ask_device(mover, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, handle, &grid);
	if (!ret)
		ret = ask_device(mover, CU_DEVICE_ATTRIBUTE_MAX_PITCH, handle, &pitch);
	mover->multiprocessors = (uint32_t)multiprocessors;
	mover->max_grid_x = (uint32_t)grid;
	mover->max_pitch = (uint64_t)pitch;
	return ret;
}

static int make_events(struct otte_mover *mover)
{
	uint32_t i;
	int ret = 0;

	for (i = 0; i < mover->slot_count && !ret; i++) {
		struct otte_mover_slot *slot = &mover->slots[i];

		ret = say(mover, mover->cuda->event_create(&slot->marker, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
		if (ret)
			slot->marker = NULL;
	}
	return ret;
}

int otte_mover_open(struct otte_mover *mover, uint32_t max_rows, uint32_t slots)
{
	int ret;

	mover->max_rows = max_rows;
	mover->slot_count = slots;
	mover->slots = calloc(slots, sizeof(*mover->slots));
	mover->to = calloc(max_rows, sizeof(*mover->to));
	mover->from = calloc(max_rows, sizeof(*mover->from));
	mover->sizes = calloc(max_rows, sizeof(*mover->sizes));
	if (!mover->slots || !mover->to || !mover->from || !mover->sizes) {
		if (!mover->slots)
			mover->slot_count = 0;
		ret = otte_fail(-ENOMEM, "local copy: no memory for %u slots of %u rows", slots, max_rows);
	} else {
		ret = make_events(mover);
	}
	return ret;
}

static int make_room(struct otte_mover *mover, struct otte_mover_slot *slot)
{
	const struct otte_cuda *cuda = mover->cuda;
	size_t bytes = mover->max_rows * sizeof(*slot->rows);
	void *rows = NULL;
	int ret;

	ret = say(mover, cuda->mem_host_alloc(&rows, bytes, 0), "cuMemHostAlloc");
	if (ret)
		return ret;
	slot->rows = rows;
	ret = say(mover, cuda->mem_alloc(&slot->uploaded, bytes), "cuMemAlloc_v2");
	if (ret)
		slot->uploaded = 0;
	return ret;
}

static int free_room(struct otte_mover *mover, struct otte_mover_slot *slot)
{
	int ret = 0;

	if (slot->uploaded)
		ret = say(mover, mover->cuda->mem_free(slot->uploaded), "cuMemFree_v2");
	if (ret)
		return ret;
	slot->uploaded = 0;
	if (slot->rows)
		ret = say(mover, mover->cuda->mem_free_host(slot->rows), "cuMemFreeHost");
	if (!ret)
		slot->rows = NULL;
	return ret;
}

static int unload(struct otte_mover *mover)
{
	uint32_t i;
	int ret = 0;

	for (i = 0; i < mover->slot_count && !ret; i++)
		ret = free_room(mover, &mover->slots[i]);
	if (!ret && mover->module)
		ret = say(mover, mover->cuda->module_unload(mover->module), "cuModuleUnload");
	if (!ret)
		mover->module = NULL;
	return ret;
}

int otte_mover_load(struct otte_mover *mover)
{
	const struct otte_cuda *cuda = mover->cuda;
	char text[OTTE_ERROR_BYTES];
	uint32_t i;
	int ret;

	ret = say(mover, cuda->module_load_data_ex(&mover->module, otte_copy_image(), 0, NULL, NULL),
		  "cuModuleLoadDataEx");
	if (ret) {
		mover->module = NULL;
		return ret;
	}
	ret = say(mover, cuda->module_get_function(&mover->kernel, mover->module, OTTE_COPY_ENTRY),
		  "cuModuleGetFunction");
	for (i = 0; i < mover->slot_count && !ret; i++)
		ret = make_room(mover, &mover->slots[i]);
	if (!ret)
		return 0;
	otte_error_keep(text);
	return unload(mover) ? otte_fail_within(-EUCLEAN, "%s; ", text) : otte_fail(ret, "%s", text);
}

static int destroy_events(struct otte_mover *mover)
{
	uint32_t i;
	int ret = 0;

	for (i = 0; i < mover->slot_count && !ret; i++) {
		struct otte_mover_slot *slot = &mover->slots[i];

		if (!slot->marker)
			continue;
		ret = say(mover, mover->cuda->event_destroy(slot->marker), "cuEventDestroy_v2");
		if (!ret)
			slot->marker = NULL;
	}
	return ret;
}

int otte_mover_close(struct otte_mover *mover)
{
	int ret = unload(mover);

	if (!ret)
		ret = destroy_events(mover);
	if (ret)
		return otte_fail_within(-EUCLEAN, "local copy: ");
	free(mover->slots);
	free(mover->to);
	free(mover->from);
	free(mover->sizes);
	*mover = (struct otte_mover){ 0 };
	return 0;
}

/* ---- On the stream --------------------------------------------------------------------------- */

int otte_mover_check(const struct otte_mover *mover)
{
	CUstreamCaptureStatus capturing;
	int ret = say(mover, mover->cuda->stream_is_capturing(mover->stream, &capturing), "cuStreamIsCapturing");

	if (!ret && capturing != CU_STREAM_CAPTURE_STATUS_NONE)
		ret = otte_fail(-EBUSY, "GPU %d: the stream is capturing", mover->device);
	return ret;
}

static int put_1d(const struct otte_mover *mover, const struct otte_plan_op *op, bool to_host)
{
	const struct otte_cuda *cuda = mover->cuda;
	void *host = (void *)(uintptr_t)op->host;

	if (to_host)
		return say(mover, cuda->memcpy_dtoh_async(host, op->device, op->bytes, mover->stream),
			   "cuMemcpyDtoHAsync_v2");
	return say(mover, cuda->memcpy_htod_async(op->device, host, op->bytes, mover->stream),
		   "cuMemcpyHtoDAsync_v2");
}

static int put_2d(const struct otte_mover *mover, const struct otte_plan_op *op, bool to_host)
{
	void *host = (void *)(uintptr_t)op->host;
	CUDA_MEMCPY2D copy = { .WidthInBytes = op->bytes, .Height = op->rows };

	if (to_host) {
		copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
		copy.srcDevice = op->device;
		copy.srcPitch = op->device_pitch;
		copy.dstMemoryType = CU_MEMORYTYPE_HOST;
		copy.dstHost = host;
		copy.dstPitch = op->host_pitch;
	} else {
		copy.srcMemoryType = CU_MEMORYTYPE_HOST;
		copy.srcHost = host;
		copy.srcPitch = op->host_pitch;
		copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		copy.dstDevice = op->device;
		copy.dstPitch = op->device_pitch;
	}
	return say(mover, mover->cuda->memcpy_2d_async(&copy, mover->stream), "cuMemcpy2DAsync_v2");
}

/* Fewer copies to the device take longer in one call than in as many (H200, driver 580). */
#define BATCH_TO_DEVICE 16u

/* A driver of 13 has both calls; that of 13.0 is the one that goes on. */
static int call_batch(const struct otte_mover *mover, size_t count)
{
	CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	size_t start = 0, failed = SIZE_MAX;

	if (mover->cuda->memcpy_batch_async_13)
		return say(mover,
			   mover->cuda->memcpy_batch_async_13(mover->to, mover->from, mover->sizes, count, &attributes,
							      &start, 1, mover->stream),
			   "cuMemcpyBatchAsync_v2");
	return say(mover,
		   mover->cuda->memcpy_batch_async_12(mover->to, mover->from, mover->sizes, count, &attributes, &start,
						      1, &failed, mover->stream),
		   "cuMemcpyBatchAsync");
}

static bool can_batch(const struct otte_mover *mover, const struct otte_plan *plan)
{
	return !plan->overlaps && !plan->aliases && !mover->legacy &&
	       (mover->cuda->memcpy_batch_async_13 || mover->cuda->memcpy_batch_async_12);
}

/* How many operations from this one on are 1D. */
static uint32_t count_1d(const struct otte_plan *plan, uint32_t at)
{
	uint32_t end = at;

	while (end < plan->op_count && plan->ops[end].rows == 1)
		end++;
	return end - at;
}

static int put_batch(const struct otte_mover *mover, const struct otte_plan *plan, uint32_t at, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		const struct otte_plan_op *op = &plan->ops[at + i];

		mover->to[i] = plan->to_host ? op->host : op->device;
		mover->from[i] = plan->to_host ? op->device : op->host;
		mover->sizes[i] = op->bytes;
	}
	return call_batch(mover, count);
}

static int put_ops(const struct otte_mover *mover, struct otte_plan *plan, struct otte_mover_outcome *outcome)
{
	uint32_t least = plan->to_host ? 2 : BATCH_TO_DEVICE, at = 0;
	bool batch = can_batch(mover, plan);
	int ret = 0;

	otte_plan_make_ops(plan);
	while (at < plan->op_count && !ret) {
		const struct otte_plan_op *op = &plan->ops[at];
		uint32_t many = batch ? count_1d(plan, at) : 1;

		if (many >= least) {
			ret = put_batch(mover, plan, at, many);
			outcome->batches += !ret;
			at += many;
			continue;
		}
		ret = op->rows > 1 ? put_2d(mover, op, plan->to_host) : put_1d(mover, op, plan->to_host);
		at++;
	}
	return ret;
}

static int upload_and_launch(const struct otte_mover *mover, const struct otte_mover_slot *slot,
			     struct otte_copy_launch *launch, uint32_t ctas)
{
	const struct otte_cuda *cuda = mover->cuda;
	void *arguments[] = { &launch->rows,	    &launch->ratio, &launch->count,  &launch->pieces,
			      &launch->piece_bytes, &launch->lanes, &launch->to_host };
	int ret;

	ret = say(mover,
		  cuda->memcpy_htod_async(slot->uploaded, slot->rows, launch->count * sizeof(*slot->rows),
					  mover->stream),
		  "cuMemcpyHtoDAsync_v2");
	if (ret)
		return ret;
	return say(mover,
		   cuda->launch_kernel(mover->kernel, ctas, 1, 1, OTTE_COPY_CTA_THREADS, 1, 1, 0, mover->stream,
				       arguments, NULL),
		   "cuLaunchKernel");
}

static int put_kernel(const struct otte_mover *mover, const struct otte_mover_slot *slot, const struct otte_plan *plan,
		      const struct otte_policy_choice *choice, struct otte_mover_outcome *outcome)
{
	struct otte_copy_launch launch = { .rows = slot->uploaded, .to_host = plan->to_host };
	int ret;

	otte_plan_fill_rows(plan, slot->rows);
	ret = otte_copy_cut(slot->rows, plan->run_count, choice->ctas, choice->lanes, &launch);
	if (ret)
		return ret;
	outcome->touched = true;
	ret = upload_and_launch(mover, slot, &launch, choice->ctas);
	outcome->ctas = ret ? 0 : choice->ctas;
	return ret;
}

int otte_mover_put(struct otte_mover *mover, struct otte_mover_slot *slot, struct otte_plan *plan,
		   const struct otte_policy_choice *choice, struct otte_mover_outcome *outcome)
{
	char text[OTTE_ERROR_BYTES];
	int ret = 0, marked;

	*outcome = (struct otte_mover_outcome){ 0 };
	if (choice->backend == OTTE_COPY_BY_KERNEL) {
		ret = put_kernel(mover, slot, plan, choice, outcome);
		if (ret && !outcome->touched)
			return ret;
	} else {
		outcome->touched = true;
		ret = put_ops(mover, plan, outcome);
	}
	if (ret)
		otte_error_keep(text);
	outcome->touched = true;
	marked = say(mover, mover->cuda->event_record(slot->marker, mover->stream), "cuEventRecord");
	outcome->marked = !marked;
	if (!ret)
		return marked;
	return otte_fail(ret, "%s", text);
}

int otte_mover_ask(const struct otte_mover *mover, const struct otte_mover_slot *slot)
{
	CUresult result = mover->cuda->event_query(slot->marker);

	return result == CUDA_ERROR_NOT_READY ? -EAGAIN : say(mover, result, "cuEventQuery");
}
/* NOLINTEND(performance-no-int-to-ptr) */
