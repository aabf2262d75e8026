/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/fd.h"

_Atomic unsigned otte_fork_generation;

/* Protects `watched`; not pthread_once(), because what had no memory once may have it the next time. */
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static bool watched;

static void in_child(void)
{
	otte_fd_after_fork_in_child();
	atomic_fetch_add(&otte_fork_generation, 1);
}

int otte_fork_watch(void)
{
	int ret = 0;

	pthread_mutex_lock(&watch_lock);
	if (!watched)
		ret = -pthread_atfork(otte_fd_before_fork, otte_fd_after_fork_in_parent, in_child);
	watched = ret == 0;
	pthread_mutex_unlock(&watch_lock);
	return ret ? otte_fail(ret, "pthread_atfork: no memory") : 0;
}

int otte_fork_check(unsigned generation)
{
	if (atomic_load_explicit(&otte_fork_generation, memory_order_relaxed) == generation)
		return 0;
	return otte_fail(-EOWNERDEAD, "this handle belongs to the process before fork");
}
