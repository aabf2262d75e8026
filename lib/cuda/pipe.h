/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies between an allocation of a device and pinned host memory, by whoever stages it (shard.h): a stream of its own
 * for each direction, made with the first copy, and events, each of which stands for one copy that is under way. They
 * are of the memory's context, and go before it does.
 *
 *	event:  idle --copy--> under way --poll: done--> idle
 *	                           `--poll fails, its stream drains--> idle
 *	                           `--and that does not--> lost; the memory is fenced (ready.h)
 *
 * `lock` protects all of it, and no call of the driver that can sleep is made under it. Each function leaves the
 * calling thread's context as it was.
 */
#ifndef OTTE_CUDA_PIPE_H
#define OTTE_CUDA_PIPE_H

#include <pthread.h>
#include <stdint.h>

#include "cuda/driver.h"

enum otte_cuda_way {
	OTTE_CUDA_TO_HOST = 0,
	OTTE_CUDA_TO_DEVICE = 1,
};

struct otte_cuda_pipe_event {
	struct otte_cuda_pipe_event *next; /* idle */
	CUevent event;
	CUstream stream; /* under way */
};

struct otte_cuda_pipe {
	pthread_mutex_t lock;
	CUstream streams[2]; /* by enum otte_cuda_way; NULL: not made */
	struct otte_cuda_pipe_event *idle;
};

struct otte_cuda_mem;

void otte_cuda_pipe_init(struct otte_cuda_pipe *pipe);

/*
 * Begins a copy of `bytes` between `host`, which is pinned, and `device`, in `memory`, whose producer is done. 0, and
 * *event is under way. Else nothing is; -EUCLEAN: perhaps something is, for good, and the memory is fenced.
 */
int otte_cuda_pipe_copy(struct otte_cuda_mem *memory, enum otte_cuda_way way, void *host, uint64_t device,
			uint64_t bytes, struct otte_cuda_pipe_event **event);

/* -EAGAIN: under way. Else the event is idle again: 0, or the copy failed; -EUCLEAN as above. */
int otte_cuda_pipe_poll(struct otte_cuda_mem *memory, struct otte_cuda_pipe_event *event);

/* Nothing is under way, the context is current. Negative: something of it stays. */
int otte_cuda_pipe_fini(struct otte_cuda_mem *memory);

#endif
