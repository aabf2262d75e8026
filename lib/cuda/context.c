/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/context.h"

#include <errno.h>

#include "base/error.h"
#include "otte/otte.h"

int otte_cuda_enter(struct otte_cuda_guard *guard, const struct otte_cuda *cuda, CUcontext context,
		    int device)
{
	CUcontext current = NULL;
	CUresult result = cuda->ctx_get_current(&current);

	*guard = (struct otte_cuda_guard){ .cuda = cuda, .context = context, .device = device };
	if (!result && current == context)
		return 0;
	guard->pushed = true;
	result = cuda->ctx_push_current(context);
	return otte_cuda_error(cuda, result, device, "cuCtxPushCurrent_v2");
}

/* Whoever pushed the other one finds it where it was. */
static int put_back(const struct otte_cuda_guard *guard, CUcontext other)
{
	CUresult result = guard->cuda->ctx_push_current(other);

	if (result)
		return otte_cuda_error(guard->cuda, result, guard->device, "cuCtxPushCurrent_v2");
	return otte_fail(-EIO, "GPU %d: another context was left current in a call", guard->device);
}

static int check_current(const struct otte_cuda_guard *guard)
{
	CUcontext current = NULL;
	CUresult result = guard->cuda->ctx_get_current(&current);

	if (result)
		return otte_cuda_error(guard->cuda, result, guard->device, "cuCtxGetCurrent");
	if (current != guard->context)
		return otte_fail(-EIO, "GPU %d: another context was left current in a call", guard->device);
	return 0;
}

static int restore(const struct otte_cuda_guard *guard)
{
	CUcontext popped = NULL;
	CUresult result;

	if (!guard->pushed)
		return check_current(guard);
	result = guard->cuda->ctx_pop_current(&popped);
	if (result)
		return otte_cuda_error(guard->cuda, result, guard->device, "cuCtxPopCurrent_v2");
	return popped == guard->context ? 0 : put_back(guard, popped);
}

int otte_cuda_leave(struct otte_cuda_guard *guard, int rc, bool *restored)
{
	char text[OTTE_ERROR_BYTES];
	int failed;

	if (rc)
		otte_error_keep(text);
	failed = restore(guard);
	*restored = !failed;
	if (!rc)
		return failed;
	return otte_fail(rc, "%s", text);
}

int otte_cuda_check_stream(const struct otte_cuda *cuda, CUcontext context, int device, CUstream stream)
{
	CUstreamCaptureStatus capturing;
	CUcontext its = NULL;
	CUresult result;

	result = cuda->stream_is_capturing(stream, &capturing);
	if (result)
		return otte_cuda_error(cuda, result, device, "cuStreamIsCapturing");
	if (capturing != CU_STREAM_CAPTURE_STATUS_NONE)
		return otte_fail(-EBUSY, "GPU %d: the stream is capturing", device);
	result = cuda->stream_get_ctx(stream, &its);
	if (result)
		return otte_cuda_error(cuda, result, device, "cuStreamGetCtx");
	if (its != context)
		return otte_fail(-EINVAL, "GPU %d: the stream is of another context than the memory", device);
	return 0;
}
