/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/fork.h"

#include <errno.h>
#include <pthread.h>

#include "base/fd.h"

_Atomic unsigned otte_fork_generation;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int watch_result;

static void in_child(void)
{
	otte_fd_after_fork_in_child();
	atomic_fetch_add(&otte_fork_generation, 1);
}

static void watch(void)
{
	watch_result = -pthread_atfork(otte_fd_before_fork, otte_fd_after_fork_in_parent, in_child);
}

int otte_fork_watch(void)
{
	pthread_once(&once, watch);
	return watch_result ? otte_fail(watch_result, "pthread_atfork: no memory") : 0;
}

int otte_fork_check(unsigned generation)
{
	if (atomic_load_explicit(&otte_fork_generation, memory_order_relaxed) == generation)
		return 0;
	return otte_fail(-EOWNERDEAD, "this handle belongs to the process before fork");
}
