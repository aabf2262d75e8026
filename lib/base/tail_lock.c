/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/tail_lock.h"

#include <sched.h>

#include "base/thread.h"

/* A tail is over in some microseconds, if its owner has a CPU. */
#define YIELDS 50
#define WAIT_NS 20000

/*
 * At last asleep: who only yields to it, at a realtime priority above its own, would keep it from its CPU for ever. To
 * be woken by it would cost each tail more than this costs the few who wait.
 */
void otte_tail_lock_wait(struct otte_tail_lock *lock)
{
	unsigned i;

	for (i = 0; atomic_load_explicit(&lock->tail, memory_order_acquire); i++) {
		if (i < YIELDS)
			sched_yield();
		else
			otte_thread_sleep(WAIT_NS);
	}
}
