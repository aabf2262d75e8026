/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/tail_lock.h"

#include <time.h>

#define WAIT_NS 20000

/*
 * Asleep: who only yields to it, at a realtime priority above its own, would keep it from its CPU for ever. To be woken
 * by it would cost each tail more than this costs the few who wait.
 */
void otte_tail_lock_wait(struct otte_tail_lock *lock)
{
	const struct timespec step = { .tv_nsec = WAIT_NS };

	while (atomic_load_explicit(&lock->tail, memory_order_acquire))
		nanosleep(&step, NULL);
}
