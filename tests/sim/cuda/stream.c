/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Streams. */
#include <stdlib.h>

#include "sim/cuda/exports.h"

static struct sim_stream *make(struct sim_context *context, enum sim_stream_kind kind)
{
	struct sim_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		abort();
	stream->context = context;
	stream->kind = kind;
	stream->last = &stream->first;
	stream->next = sim.streams;
	sim.streams = stream;
	return stream;
}

/* A default stream of the context that is current. */
static struct sim_stream *find_default(enum sim_stream_kind kind)
{
	uint64_t thread = kind == SIM_STREAM_THREAD ? sim_thread_number() : 0;
	struct sim_context *context = sim_context_current();
	struct sim_stream *stream;

	if (!context)
		return NULL;
	for (stream = sim.streams; stream; stream = stream->next)
		if (stream->context == context && stream->kind == kind && stream->thread == thread)
			return stream;
	stream = make(context, kind);
	stream->thread = thread;
	return stream;
}

struct sim_stream *sim_stream_find(CUstream handle)
{
	struct sim_stream *stream = sim.streams;

	if (!handle || handle == CU_STREAM_LEGACY)
		return find_default(SIM_STREAM_LEGACY);
	if (handle == CU_STREAM_PER_THREAD)
		return find_default(SIM_STREAM_THREAD);
	while (stream && ((CUstream)stream != handle || stream->destroyed))
		stream = stream->next;
	return stream;
}

static void unlink_and_free(struct sim_stream *stream)
{
	struct sim_stream **at = &sim.streams;

	while (*at != stream)
		at = &(*at)->next;
	*at = stream->next;
	free(stream);
}

void sim_stream_drained(struct sim_stream *stream)
{
	if (stream->destroyed && !stream->first)
		unlink_and_free(stream);
}

/* What they still have to do is never done. */
void sim_streams_drop(struct sim_context *context)
{
	struct sim_stream *stream, *next;

	while (sim.moving)
		pthread_cond_wait(&sim.changed, &sim.lock);
	for (stream = sim.streams; stream; stream = next) {
		next = stream->next;
		if (stream->context == context) {
			sim_stream_forget(stream);
			unlink_and_free(stream);
		}
	}
}

CUresult sim_stream_for_work(CUstream handle, struct sim_stream **out)
{
	struct sim_stream *stream = sim_stream_find(handle);

	sim_call()->stream = handle;
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->context != sim_context_current())
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capturing)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	*out = stream;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *handle, unsigned int flags)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	if (result)
		return result;
	if (flags & ~CU_STREAM_NON_BLOCKING)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	*handle = (CUstream)make(sim_context_current(),
				 flags ? SIM_STREAM_NON_BLOCKING : SIM_STREAM_BLOCKING);
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_stream *stream;

	if (result)
		return result;
	stream = sim_stream_find(handle);
	if (!stream || stream->kind == SIM_STREAM_LEGACY || stream->kind == SIM_STREAM_THREAD)
		return sim_end(CUDA_ERROR_INVALID_HANDLE);
	stream->destroyed = true;
	sim_stream_drained(stream);
	return sim_end(CUDA_SUCCESS);
}

/* Anybody may ask of a stream; default ones are those of what is current. */
static CUresult find_to_ask(CUstream handle, struct sim_stream **stream)
{
	*stream = sim_stream_find(handle);
	if (*stream)
		return (*stream)->context->spoiled;
	return (uintptr_t)handle <= 2 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuStreamQuery(CUstream handle)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_stream *stream;

	if (result)
		return result;
	result = find_to_ask(handle, &stream);
	if (!result && stream->capturing)
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!result && (stream->first || sim.not_ready)) {
		sim.not_ready -= sim.not_ready > 0;
		result = CUDA_ERROR_NOT_READY;
	}
	return sim_end(result);
}

EXPORT CUresult cuStreamSynchronize(CUstream handle)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_stream *stream;

	if (result)
		return result;
	result = find_to_ask(handle, &stream);
	if (!result && stream->capturing)
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return sim_end(result ? result : sim_stream_wait(stream));
}

EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_stream *stream;

	if (result)
		return result;
	result = find_to_ask(handle, &stream);
	if (!result)
		*status = stream->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE :
					      CU_STREAM_CAPTURE_STATUS_NONE;
	return sim_end(result);
}

EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_stream *stream;

	if (result)
		return result;
	result = find_to_ask(handle, &stream);
	if (!result)
		*context = (CUcontext)stream->context;
	return sim_end(result);
}

static CUresult capture(CUstream handle, bool capturing)
{
	struct sim_stream *stream;
	CUresult result = find_to_ask(handle, &stream);

	if (!result && stream->kind == SIM_STREAM_LEGACY)
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!result)
		stream->capturing = capturing;
	return result;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, int mode)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	(void)mode;
	return result ? result : sim_end(capture(handle, true));
}

EXPORT CUresult cuStreamEndCapture(CUstream handle, void **graph)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	if (result)
		return result;
	*graph = NULL;
	return sim_end(capture(handle, false));
}

/* ---- Of tests -------------------------------------------------------------------------------- */

static void set_held(CUstream handle, bool held, unsigned int steps)
{
	struct sim_stream *stream;

	pthread_mutex_lock(&sim.lock);
	if (!handle) {
		sim.held = held;
	} else {
		stream = sim_stream_find(handle);
		if (!stream)
			abort();
		stream->held = held;
		stream->steps = held ? stream->steps + steps : 0;
	}
	pthread_cond_broadcast(&sim.changed);
	pthread_mutex_unlock(&sim.lock);
}

EXPORT void sim_cuda_hold(CUstream handle)
{
	set_held(handle, true, 0);
}

EXPORT void sim_cuda_release(CUstream handle)
{
	set_held(handle, false, 0);
}

EXPORT void sim_cuda_step(CUstream handle)
{
	set_held(handle, true, 1);
}

EXPORT void sim_cuda_capture(CUstream handle, bool capturing)
{
	struct sim_stream *stream;

	pthread_mutex_lock(&sim.lock);
	stream = sim_stream_find(handle);
	if (!stream)
		abort();
	stream->capturing = capturing;
	pthread_mutex_unlock(&sim.lock);
}
