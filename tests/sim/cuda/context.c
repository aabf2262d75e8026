/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Contexts, and each thread's stack of them. */
#include <stdlib.h>

#include "sim/cuda/exports.h"

#define STACK 32

static __thread struct sim_context *stack[STACK];
static __thread unsigned int depth;

uint64_t sim_thread_number(void)
{
	static __thread uint64_t number;

	if (!number)
		number = ++sim.ids;
	return number;
}

struct sim_context *sim_context_find(CUcontext handle)
{
	struct sim_context *context = sim.contexts;

	while (context && (CUcontext)context != handle)
		context = context->next;
	return context;
}

struct sim_context *sim_context_current(void)
{
	return depth ? sim_context_find((CUcontext)stack[depth - 1]) : NULL;
}

static struct sim_context *find_primary(CUdevice device)
{
	struct sim_context *context = sim.contexts;

	while (context && !(context->primary && context->device == device))
		context = context->next;
	return context;
}

static struct sim_context *make(CUdevice device, bool primary)
{
	struct sim_context *context = calloc(1, sizeof(*context));

	if (!context)
		abort();
	context->device = device;
	context->primary = primary;
	context->next = sim.contexts;
	sim.contexts = context;
	return context;
}

/* With it goes what was made in it. */
static void drop(struct sim_context *context)
{
	struct sim_context **at = &sim.contexts;
	struct sim_block *block, *next;

	sim_streams_drop(context);
	for (block = sim.blocks; block; block = next) {
		next = block->next;
		if (block->context != context)
			continue;
		sim_block_unlink(block);
		sim_block_drop(block);
		next = sim.blocks;
	}
	while (*at != context)
		at = &(*at)->next;
	*at = context->next;
	free(context);
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice device)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_context *context;

	if (result)
		return result;
	if (device < 0 || (uint64_t)device >= sim.settings.devices)
		return sim_end(CUDA_ERROR_INVALID_DEVICE);
	context = find_primary(device);
	if (!context)
		context = make(device, true);
	context->retained++;
	*handle = (CUcontext)context;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_context *context;

	if (result)
		return result;
	context = find_primary(device);
	if (!context)
		return sim_end(CUDA_ERROR_INVALID_CONTEXT);
	if (!--context->retained)
		drop(context);
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *handle)
{
	CUresult result = sim_begin(__func__, SIM_INIT);

	if (result)
		return result;
	*handle = (CUcontext)sim_context_current();
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	if (result)
		return result;
	*device = sim_context_current()->device;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_context *context;

	if (result)
		return result;
	context = sim_context_find(handle);
	if (!context || depth == STACK)
		return sim_end(CUDA_ERROR_INVALID_CONTEXT);
	stack[depth++] = context;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *handle)
{
	CUresult result = sim_begin(__func__, SIM_INIT);

	if (result)
		return result;
	if (!depth)
		return sim_end(CUDA_ERROR_INVALID_CONTEXT);
	if (handle)
		*handle = (CUcontext)stack[depth - 1];
	depth--;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUcontext sim_cuda_context_create(CUdevice device)
{
	struct sim_context *context;

	pthread_mutex_lock(&sim.lock);
	context = make(device, false);
	pthread_mutex_unlock(&sim.lock);
	return (CUcontext)context;
}

EXPORT void sim_cuda_context_destroy(CUcontext handle)
{
	struct sim_context *context;

	pthread_mutex_lock(&sim.lock);
	context = sim_context_find(handle);
	if (!context || context->primary)
		abort();
	drop(context);
	pthread_mutex_unlock(&sim.lock);
}

EXPORT void sim_cuda_context_spoil(CUcontext handle, CUresult result)
{
	struct sim_context *context;

	pthread_mutex_lock(&sim.lock);
	context = sim_context_find(handle);
	if (!context)
		abort();
	context->spoiled = result;
	pthread_cond_broadcast(&sim.changed);
	pthread_mutex_unlock(&sim.lock);
}
