/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads of the library: named, and deaf to signals, which are for the program's own, but for their own faults. */
#ifndef OTTE_BASE_THREAD_H
#define OTTE_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* `name`: at most 15 characters, as ps(1) and gdb(1) show it. 0 or a negative errno, with text. */
int otte_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg);

/* pthread_cond_timedwait() on it goes by the clock of otte_now_ns(). */
void otte_cond_init(pthread_cond_t *cond);

/* Under a lock: pthread_cancel() has no effect on it, and so takes no lock with it. */
void otte_thread_sleep(uint64_t ns);

#endif
