/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/context.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "otte/otte.h"

int otte_cuda_enter(struct otte_cuda_guard *guard, const struct otte_cuda *cuda, CUcontext context,
		    int device)
{
	CUresult result = cuda->ctx_push_current(context);

	if (result)
		return otte_cuda_error(cuda, result, device, "cuCtxPushCurrent_v2");
	*guard = (struct otte_cuda_guard){ .cuda = cuda, .context = context, .device = device };
	return 0;
}

/* Whoever pushed the other one finds it where it was. */
static int put_back(const struct otte_cuda_guard *guard, CUcontext other)
{
	CUresult result = guard->cuda->ctx_push_current(other);

	if (result)
		return otte_cuda_error(guard->cuda, result, guard->device, "cuCtxPushCurrent_v2");
	return otte_fail(-EIO, "GPU %d: another context was left current in a call", guard->device);
}

static int restore(const struct otte_cuda_guard *guard)
{
	CUcontext popped = NULL;
	CUresult result = guard->cuda->ctx_pop_current(&popped);

	if (result)
		return otte_cuda_error(guard->cuda, result, guard->device, "cuCtxPopCurrent_v2");
	return popped == guard->context ? 0 : put_back(guard, popped);
}

int otte_cuda_leave(struct otte_cuda_guard *guard, int rc, bool *restored)
{
	char text[OTTE_ERROR_BYTES];
	int failed;

	if (rc)
		snprintf(text, sizeof(text), "%s", otte_error_text());
	failed = restore(guard);
	*restored = !failed;
	if (!rc)
		return failed;
	return otte_fail(rc, "%s", text);
}
