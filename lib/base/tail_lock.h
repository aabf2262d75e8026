/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A mutex that its holder may let go of in two steps: it detaches, and goes on for a moment as if it held the lock
 * (the tail), which it ends by a plain store. Whoever locks in between waits for that.
 *
 * To unlock a mutex is an atomic operation, which waits until everything written before it has reached the cache.
 * After a copy of 64 KiB that is half as much as all else that is done for it; a plain store does not wait.
 *
 *   free -> held -> free            held -> tail -> free
 *
 * The tail is for what takes some microseconds and takes no lock that is above this one. Who holds the lock in its tail
 * cannot lock it again.
 */
#ifndef OTTE_BASE_TAIL_LOCK_H
#define OTTE_BASE_TAIL_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/util.h"

struct otte_tail_lock {
	pthread_mutex_t mutex;
	_Atomic bool tail; /* set under mutex, cleared without it */
};

static inline void otte_tail_lock_init(struct otte_tail_lock *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
	atomic_init(&lock->tail, false);
}

static inline void otte_tail_lock_fini(struct otte_tail_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

/* Under the mutex, with a tail to be waited for. */
OTTE_COLD void otte_tail_lock_wait(struct otte_tail_lock *lock);

static inline void otte_tail_lock(struct otte_tail_lock *lock)
{
	pthread_mutex_lock(&lock->mutex);
	if (atomic_load_explicit(&lock->tail, memory_order_acquire))
		otte_tail_lock_wait(lock);
}

static inline void otte_tail_unlock(struct otte_tail_lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
}

/* held -> tail */
static inline void otte_tail_detach(struct otte_tail_lock *lock)
{
	atomic_store_explicit(&lock->tail, true, memory_order_relaxed);
	pthread_mutex_unlock(&lock->mutex);
}

/* tail -> free */
static inline void otte_tail_end(struct otte_tail_lock *lock)
{
	atomic_store_explicit(&lock->tail, false, memory_order_release);
}

#endif
