/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/thread.h"

#include <signal.h>
#include <string.h>

#include "base/error.h"

int otte_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		return otte_fail(-ret, "thread %s cannot be started: %s", name, strerror(ret));
	pthread_setname_np(*thread, name);
	return 0;
}
