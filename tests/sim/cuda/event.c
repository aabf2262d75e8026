/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events. */
#include <stdlib.h>

#include "sim/cuda/exports.h"

struct sim_event *sim_event_find(CUevent handle)
{
	struct sim_event *event = sim.events;

	while (event && ((CUevent)event != handle || event->destroyed))
		event = event->next;
	return event;
}

static void free_if_unused(struct sim_event *event)
{
	struct sim_event **at = &sim.events;

	if (!event->destroyed || event->named)
		return;
	while (*at != event)
		at = &(*at)->next;
	*at = event->next;
	free(event);
}

void sim_event_unname(struct sim_event *event)
{
	event->named--;
	free_if_unused(event);
}

EXPORT CUresult cuEventCreate(CUevent *handle, unsigned int flags)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_event *event;

	if (result)
		return result;
	if (flags & ~7u)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	event = calloc(1, sizeof(*event));
	if (!event)
		abort();
	event->context = sim_context_current();
	event->flags = flags;
	event->next = sim.events;
	sim.events = event;
	*handle = (CUevent)event;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuEventDestroy_v2(CUevent handle)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_event *event;

	if (result)
		return result;
	event = sim_event_find(handle);
	if (!event)
		return sim_end(CUDA_ERROR_INVALID_HANDLE);
	event->destroyed = true;
	free_if_unused(event);
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuEventRecord(CUevent handle, CUstream stream_handle)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_event *event;
	struct sim_stream *stream;

	if (result)
		return result;
	event = sim_event_find(handle);
	result = sim_stream_for_work(stream_handle, &stream);
	if (!result && (!event || event->context != stream->context))
		result = CUDA_ERROR_INVALID_HANDLE;
	if (!result) {
		event->recorded++;
		event->named++;
		result = sim_work_put(stream, &(struct sim_work){ .kind = SIM_RECORD,
								  .event = event,
								  .count = event->recorded });
	}
	return sim_end(result);
}

/* One that was never recorded is over. */
EXPORT CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_event *event;
	struct sim_stream *stream;

	if (result)
		return result;
	event = sim_event_find(handle);
	result = sim_stream_for_work(stream_handle, &stream);
	if (!result && (!event || flags))
		result = CUDA_ERROR_INVALID_HANDLE;
	if (!result) {
		event->named++;
		result = sim_work_put(stream, &(struct sim_work){ .kind = SIM_WAIT,
								  .event = event,
								  .count = event->recorded });
	}
	return sim_end(result);
}

EXPORT CUresult cuEventQuery(CUevent handle)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_event *event;

	if (result)
		return result;
	event = sim_event_find(handle);
	if (!event)
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (event->context->spoiled)
		result = event->context->spoiled;
	else if (event->passed < event->recorded || sim.not_ready)
		result = CUDA_ERROR_NOT_READY;
	if (result == CUDA_ERROR_NOT_READY && sim.not_ready)
		sim.not_ready--;
	return sim_end(result);
}

EXPORT CUresult cuEventSynchronize(CUevent handle)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_event *event;
	uint64_t count;

	if (result)
		return result;
	event = sim_event_find(handle);
	if (!event)
		return sim_end(CUDA_ERROR_INVALID_HANDLE);
	event->named++;
	count = event->recorded;
	while (event->passed < count && !event->context->spoiled)
		pthread_cond_wait(&sim.changed, &sim.lock);
	result = event->context->spoiled;
	sim_event_unname(event);
	return sim_end(result);
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent first_handle, CUevent last_handle)
{
	CUresult result = sim_begin(__func__, SIM_INIT);
	struct sim_event *first, *last;

	if (result)
		return result;
	first = sim_event_find(first_handle);
	last = sim_event_find(last_handle);
	if (!first || !last || !first->recorded || !last->recorded ||
	    (first->flags | last->flags) & CU_EVENT_DISABLE_TIMING)
		return sim_end(CUDA_ERROR_INVALID_HANDLE);
	if (first->passed < first->recorded || last->passed < last->recorded)
		return sim_end(CUDA_ERROR_NOT_READY);
	*milliseconds = (float)((double)(int64_t)(last->passed_ns - first->passed_ns) / 1e6);
	return sim_end(CUDA_SUCCESS);
}

EXPORT void sim_cuda_not_ready(unsigned int count)
{
	pthread_mutex_lock(&sim.lock);
	sim.not_ready = count;
	pthread_mutex_unlock(&sim.lock);
}
