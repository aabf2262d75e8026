/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A context that is current for as long as a call takes. What the calling thread had before is its
 * own again after: another context, the same one, or none.
 *
 *	rc = otte_cuda_enter(&guard, cuda, context, device);
 *	if (rc)
 *		return rc;
 *	... calls of the driver ...
 *	return otte_cuda_leave(&guard, rc, &restored);
 *
 * On the stack of who calls; entered and left by one thread, once. No lock.
 */
#ifndef OTTE_CUDA_CONTEXT_H
#define OTTE_CUDA_CONTEXT_H

#include <stdbool.h>

#include "cuda/driver.h"

struct otte_cuda_guard {
	const struct otte_cuda *cuda;
	CUcontext context;
	int device;
	bool pushed; /* else it was current before */
};

/* 0, or a negative errno: then nothing has changed, and there is nothing to leave. */
int otte_cuda_enter(struct otte_cuda_guard *guard, const struct otte_cuda *cuda, CUcontext context,
		    int device);

/*
 * `rc`, and the text as it was, where that is an error; else 0, or why the caller's context is not
 * what it was. -EIO: another context than the guard's was on top, which has been put back.
 * `*restored` says whether the caller's context is its own again: if not, what the call was about
 * stays retained.
 */
int otte_cuda_leave(struct otte_cuda_guard *guard, int rc, bool *restored);

/*
 * Whether work may be put on `stream`, of `context`, by the calling thread as it is, before it enters:
 * default streams are those of what is current there. -EBUSY: it is capturing; -EINVAL: it is of
 * another context.
 */
int otte_cuda_check_stream(const struct otte_cuda *cuda, CUcontext context, int device, CUstream stream);

#endif
