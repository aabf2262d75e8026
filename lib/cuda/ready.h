/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What its producers have still to do with an allocation before anybody else touches it: an event
 * that was recorded on the producer's stream.
 *
 *	IDLE -> PENDING -> IDLE    recorded; the event was seen complete
 *	any  -> FENCED             a record, a wait, or the way back to the caller's context failed:
 *	                           nobody can say any more when the producer is done; or when a copy
 *	                           of ours is (pipe.h)
 *
 * One that is recorded anew while it is pending stands for both: the second stream waits for the
 * first. `lock` is held over every move; the state alone may be read without it.
 */
#ifndef OTTE_CUDA_READY_H
#define OTTE_CUDA_READY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/driver.h"

enum otte_cuda_ready_state {
	OTTE_CUDA_READY_IDLE = 0,
	OTTE_CUDA_READY_PENDING = 1,
	OTTE_CUDA_READY_FENCED = 2,
};

struct otte_cuda_ready {
	pthread_mutex_t lock;
	_Atomic int state;
	CUevent event; /* made with the first record; NULL before */
};

struct otte_cuda_mem;

void otte_cuda_ready_init(struct otte_cuda_ready *ready);

/*
 * What `stream` was given so far comes before whoever touches the memory from now on. Of the thread
 * that gave it: legacy and per-thread streams are that thread's, and the context that is current
 * there has to be the memory's. -EBUSY: the stream is capturing; -EINVAL: it is another context's.
 * Neither fences; each other failure does.
 */
int otte_cuda_ready_record(struct otte_cuda_mem *memory, CUstream stream);

/*
 * Before a touch. wait() sleeps until the producer is done; poll() says -EAGAIN while it is not;
 * chain() has `stream`, of the memory's context, which is current, wait instead of the caller. 0 at
 * once where nothing is pending. -EUCLEAN: fenced.
 */
int otte_cuda_ready_wait(struct otte_cuda_mem *memory);
int otte_cuda_ready_poll(struct otte_cuda_mem *memory);
int otte_cuda_ready_chain(struct otte_cuda_mem *memory, CUstream stream);

/* Something else of the memory's cannot be told any more: a copy that may still be under way. */
void otte_cuda_ready_fence(struct otte_cuda_mem *memory);

/* Waits first; -EUCLEAN: it is fenced, or the event stays. The context is current. */
int otte_cuda_ready_fini(struct otte_cuda_mem *memory);

static inline bool otte_cuda_ready_idle(const struct otte_cuda_ready *ready)
{
	return atomic_load_explicit(&ready->state, memory_order_acquire) == OTTE_CUDA_READY_IDLE;
}

static inline bool otte_cuda_ready_fenced(const struct otte_cuda_ready *ready)
{
	return atomic_load_explicit(&ready->state, memory_order_acquire) == OTTE_CUDA_READY_FENCED;
}

#endif
