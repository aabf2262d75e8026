/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/pipe.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "cuda/context.h"
#include "cuda/memory.h"

void otte_cuda_pipe_init(struct otte_cuda_pipe *pipe)
{
	pthread_mutex_init(&pipe->lock, NULL);
	pipe->streams[OTTE_CUDA_TO_HOST] = NULL;
	pipe->streams[OTTE_CUDA_TO_DEVICE] = NULL;
	pipe->idle = NULL;
}

static int say(const struct otte_cuda_mem *memory, CUresult result, const char *call)
{
	return otte_cuda_error(memory->cuda, result, memory->device, call);
}

/* Under lock, as the next. */
static int make_stream(struct otte_cuda_mem *memory, enum otte_cuda_way way)
{
	CUstream *stream = &memory->pipe.streams[way];

	if (*stream)
		return 0;
	return say(memory, memory->cuda->stream_create(stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

static int make_event(struct otte_cuda_mem *memory, struct otte_cuda_pipe_event **out)
{
	struct otte_cuda_pipe_event *event = calloc(1, sizeof(*event));
	int ret;

	if (!event)
		return otte_fail(-ENOMEM, "no memory for an event of GPU %d", memory->device);
	ret = say(memory, memory->cuda->event_create(&event->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	if (ret)
		free(event);
	else
		*out = event;
	return ret;
}

static int take(struct otte_cuda_mem *memory, enum otte_cuda_way way, struct otte_cuda_pipe_event **event)
{
	struct otte_cuda_pipe *pipe = &memory->pipe;
	int ret;

	pthread_mutex_lock(&pipe->lock);
	ret = make_stream(memory, way);
	*event = pipe->idle;
	if (!ret && pipe->idle)
		pipe->idle = pipe->idle->next;
	else if (!ret)
		ret = make_event(memory, event);
	if (!ret)
		(*event)->stream = pipe->streams[way];
	pthread_mutex_unlock(&pipe->lock);
	return ret;
}

static void put(struct otte_cuda_mem *memory, struct otte_cuda_pipe_event *event)
{
	struct otte_cuda_pipe *pipe = &memory->pipe;

	pthread_mutex_lock(&pipe->lock);
	event->next = pipe->idle;
	pipe->idle = event;
	pthread_mutex_unlock(&pipe->lock);
}

/* A call of a copy failed (`rc`): the copy may have begun before it. `rc`, or -EUCLEAN where nobody can say more. */
static int drain(struct otte_cuda_mem *memory, CUstream stream, int rc)
{
	char text[OTTE_ERROR_BYTES];

	otte_error_keep(text);
	if (memory->cuda->stream_synchronize(stream)) {
		otte_cuda_ready_fence(memory);
		return otte_fail(-EUCLEAN, "a copy that may still be under way: %s", text);
	}
	return otte_fail(rc, "%s", text);
}

static int issue(struct otte_cuda_mem *memory, enum otte_cuda_way way, void *host, uint64_t device, uint64_t bytes,
		 struct otte_cuda_pipe_event *event)
{
	const struct otte_cuda *cuda = memory->cuda;
	int ret;

	if (way == OTTE_CUDA_TO_HOST)
		ret = say(memory, cuda->memcpy_dtoh_async(host, device, bytes, event->stream),
			  "cuMemcpyDtoHAsync_v2");
	else
		ret = say(memory, cuda->memcpy_htod_async(device, host, bytes, event->stream),
			  "cuMemcpyHtoDAsync_v2");
	if (!ret)
		ret = say(memory, cuda->event_record(event->event, event->stream), "cuEventRecord");
	return ret ? drain(memory, event->stream, ret) : 0;
}

/* What a step came to, with the context that the thread had put back. */
static int leave(struct otte_cuda_mem *memory, struct otte_cuda_guard *guard, int rc)
{
	bool restored;
	int ret = otte_cuda_leave(guard, rc, &restored);

	if (restored)
		return ret;
	otte_cuda_ready_fence(memory);
	return otte_fail_within(-EUCLEAN, "the caller's context: ");
}

int otte_cuda_pipe_copy(struct otte_cuda_mem *memory, enum otte_cuda_way way, void *host, uint64_t device,
			uint64_t bytes, struct otte_cuda_pipe_event **out)
{
	struct otte_cuda_pipe_event *event = NULL;
	struct otte_cuda_guard guard;
	int ret;

	ret = otte_cuda_enter(&guard, memory->cuda, memory->context, memory->device);
	if (ret)
		return ret;
	ret = take(memory, way, &event);
	if (!ret) {
		ret = issue(memory, way, host, device, bytes, event);
		if (ret)
			put(memory, event);
	}
	*out = event;
	return leave(memory, &guard, ret);
}

static int ask(struct otte_cuda_mem *memory, struct otte_cuda_pipe_event *event)
{
	CUresult result = memory->cuda->event_query(event->event);
	int ret;

	if (result == CUDA_ERROR_NOT_READY)
		return -EAGAIN;
	ret = say(memory, result, "cuEventQuery");
	if (ret)
		ret = drain(memory, event->stream, ret);
	put(memory, event);
	return ret;
}

int otte_cuda_pipe_poll(struct otte_cuda_mem *memory, struct otte_cuda_pipe_event *event)
{
	struct otte_cuda_guard guard;
	int ret;

	ret = otte_cuda_enter(&guard, memory->cuda, memory->context, memory->device);
	if (!ret)
		return leave(memory, &guard, ask(memory, event));
	/* The event is out of reach, and with it what it stands for. */
	otte_cuda_ready_fence(memory);
	return otte_fail_within(-EUCLEAN, "a copy that may still be under way: ");
}

static int destroy_stream(struct otte_cuda_mem *memory, enum otte_cuda_way way)
{
	CUstream *stream = &memory->pipe.streams[way];
	int ret;

	if (!*stream)
		return 0;
	ret = say(memory, memory->cuda->stream_destroy(*stream), "cuStreamDestroy_v2");
	*stream = NULL;
	return ret;
}

int otte_cuda_pipe_fini(struct otte_cuda_mem *memory)
{
	struct otte_cuda_pipe *pipe = &memory->pipe;
	struct otte_cuda_pipe_event *event;
	int ret = 0, way;

	while (!ret && (event = pipe->idle)) {
		pipe->idle = event->next;
		ret = say(memory, memory->cuda->event_destroy(event->event), "cuEventDestroy_v2");
		free(event);
	}
	for (way = OTTE_CUDA_TO_HOST; !ret && way <= OTTE_CUDA_TO_DEVICE; way++)
		ret = destroy_stream(memory, (enum otte_cuda_way)way);
	if (!ret)
		pthread_mutex_destroy(&pipe->lock);
	return ret;
}
