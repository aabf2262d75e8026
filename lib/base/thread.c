/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/thread.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/util.h"

/* What a thread brings upon itself, in a log's hook for example. Blocked, it would pass by a handler of crashes. */
static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };

static void fill_mask(sigset_t *mask)
{
	size_t i;

	sigfillset(mask);
	for (i = 0; i < ARRAY_SIZE(faults); i++)
		sigdelset(mask, faults[i]);
}

int otte_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
	sigset_t mask, before;
	int ret;

	fill_mask(&mask);
	pthread_sigmask(SIG_SETMASK, &mask, &before);
	ret = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		return otte_fail(-ret, "thread %s cannot be started: %s", name, strerror(ret));
	pthread_setname_np(*thread, name);
	return 0;
}

void otte_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

void otte_thread_sleep(uint64_t ns)
{
	const struct timespec step = otte_timespec(ns);
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	nanosleep(&step, NULL);
	pthread_setcancelstate(before, NULL);
}
