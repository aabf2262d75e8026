/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/ready.h"

#include <errno.h>

#include "base/error.h"
#include "cuda/context.h"
#include "cuda/memory.h"

void otte_cuda_ready_init(struct otte_cuda_ready *ready)
{
	pthread_mutex_init(&ready->lock, NULL);
	atomic_init(&ready->state, OTTE_CUDA_READY_IDLE);
	ready->event = NULL;
}

/* ready->lock is held. */
static void move(struct otte_cuda_ready *ready, enum otte_cuda_ready_state state)
{
	if (atomic_load(&ready->state) != OTTE_CUDA_READY_FENCED)
		atomic_store_explicit(&ready->state, state, memory_order_release);
}

static int fence(struct otte_cuda_mem *memory, int rc)
{
	move(&memory->ready, OTTE_CUDA_READY_FENCED);
	return rc;
}

static int say_fenced(const struct otte_cuda_mem *memory)
{
	return otte_fail(-EUCLEAN, "GPU %d: whether the producer of the memory is done cannot be told",
			 memory->device);
}

static int record(struct otte_cuda_mem *memory, CUstream stream)
{
	const struct otte_cuda *cuda = memory->cuda;
	struct otte_cuda_ready *ready = &memory->ready;
	CUresult result;

	if (!ready->event) {
		result = cuda->event_create(&ready->event, CU_EVENT_DISABLE_TIMING);
		if (result) {
			ready->event = NULL;
			return otte_cuda_error(cuda, result, memory->device, "cuEventCreate");
		}
	}
	if (!otte_cuda_ready_idle(ready)) {
		result = cuda->stream_wait_event(stream, ready->event, 0);
		if (result)
			return otte_cuda_error(cuda, result, memory->device, "cuStreamWaitEvent");
	}
	result = cuda->event_record(ready->event, stream);
	return otte_cuda_error(cuda, result, memory->device, "cuEventRecord");
}

int otte_cuda_ready_record(struct otte_cuda_mem *memory, CUstream stream)
{
	struct otte_cuda_ready *ready = &memory->ready;
	struct otte_cuda_guard guard;
	bool restored;
	int ret;

	ret = otte_cuda_check_stream(memory->cuda, memory->context, memory->device, stream);
	if (ret)
		return ret;
	pthread_mutex_lock(&ready->lock);
	if (atomic_load(&ready->state) == OTTE_CUDA_READY_FENCED) {
		ret = say_fenced(memory);
		goto unlock;
	}
	ret = otte_cuda_enter(&guard, memory->cuda, memory->context, memory->device);
	if (ret)
		goto unlock;
	ret = otte_cuda_leave(&guard, record(memory, stream), &restored);
	if (ret || !restored)
		fence(memory, ret);
	else
		move(ready, OTTE_CUDA_READY_PENDING);
unlock:
	pthread_mutex_unlock(&ready->lock);
	return ret;
}

/* What is asked of an event that is pending, with the context current. -EAGAIN: it is still. */
typedef int (*ask_t)(struct otte_cuda_mem *memory, CUstream stream);

static int ask_sleeping(struct otte_cuda_mem *memory, CUstream stream)
{
	CUresult result = memory->cuda->event_synchronize(memory->ready.event);

	(void)stream;
	return otte_cuda_error(memory->cuda, result, memory->device, "cuEventSynchronize");
}

static int ask_once(struct otte_cuda_mem *memory, CUstream stream)
{
	CUresult result = memory->cuda->event_query(memory->ready.event);

	(void)stream;
	if (result == CUDA_ERROR_NOT_READY)
		return -EAGAIN;
	return otte_cuda_error(memory->cuda, result, memory->device, "cuEventQuery");
}

/* Stays pending for others where `stream` waits instead. */
static int ask_or_chain(struct otte_cuda_mem *memory, CUstream stream)
{
	int ret = ask_once(memory, stream);
	CUresult result;

	if (ret != -EAGAIN)
		return ret;
	result = memory->cuda->stream_wait_event(stream, memory->ready.event, 0);
	ret = otte_cuda_error(memory->cuda, result, memory->device, "cuStreamWaitEvent");
	return ret ? ret : -EAGAIN;
}

/* ready->lock is held, and the context current. */
static int settle(struct otte_cuda_mem *memory, ask_t ask, CUstream stream)
{
	struct otte_cuda_ready *ready = &memory->ready;
	int ret;

	switch (atomic_load(&ready->state)) {
	case OTTE_CUDA_READY_FENCED:
		return say_fenced(memory);
	case OTTE_CUDA_READY_IDLE:
		return 0;
	}
	ret = ask(memory, stream);
	if (ret == -EAGAIN)
		return ret;
	if (ret) {
		fence(memory, ret);
		return otte_fail_within(-EUCLEAN, "the memory's producer: ");
	}
	move(ready, OTTE_CUDA_READY_IDLE);
	return 0;
}

static int settle_from_outside(struct otte_cuda_mem *memory, ask_t ask)
{
	struct otte_cuda_guard guard;
	bool restored = true;
	int ret;

	if (otte_cuda_ready_idle(&memory->ready))
		return 0;
	pthread_mutex_lock(&memory->ready.lock);
	ret = otte_cuda_enter(&guard, memory->cuda, memory->context, memory->device);
	if (ret)
		goto unlock;
	ret = otte_cuda_leave(&guard, settle(memory, ask, NULL), &restored);
	if (!restored) {
		fence(memory, ret);
		ret = otte_fail_within(-EUCLEAN, "the caller's context: ");
	}
unlock:
	pthread_mutex_unlock(&memory->ready.lock);
	return ret;
}

int otte_cuda_ready_wait(struct otte_cuda_mem *memory)
{
	return settle_from_outside(memory, ask_sleeping);
}

int otte_cuda_ready_poll(struct otte_cuda_mem *memory)
{
	return settle_from_outside(memory, ask_once);
}

int otte_cuda_ready_chain(struct otte_cuda_mem *memory, CUstream stream)
{
	int ret;

	if (otte_cuda_ready_idle(&memory->ready))
		return 0;
	pthread_mutex_lock(&memory->ready.lock);
	ret = settle(memory, ask_or_chain, stream);
	pthread_mutex_unlock(&memory->ready.lock);
	return ret == -EAGAIN ? 0 : ret;
}

void otte_cuda_ready_fence(struct otte_cuda_mem *memory)
{
	pthread_mutex_lock(&memory->ready.lock);
	move(&memory->ready, OTTE_CUDA_READY_FENCED);
	pthread_mutex_unlock(&memory->ready.lock);
}

int otte_cuda_ready_fini(struct otte_cuda_mem *memory)
{
	struct otte_cuda_ready *ready = &memory->ready;
	CUresult result = CUDA_SUCCESS;
	int ret;

	pthread_mutex_lock(&ready->lock);
	ret = settle(memory, ask_sleeping, NULL);
	if (!ret && ready->event) {
		result = memory->cuda->event_destroy(ready->event);
		if (result) {
			ret = otte_cuda_error(memory->cuda, result, memory->device, "cuEventDestroy_v2");
			fence(memory, ret);
			ret = otte_fail_within(-EUCLEAN, "the memory's event: ");
		}
	}
	pthread_mutex_unlock(&ready->lock);
	if (!ret)
		pthread_mutex_destroy(&ready->lock);
	return ret;
}
