/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hook and its level are set together under a lock that readers do not take: a reader sees the
 * pair through one pointer, swapped whole. Old pairs stay in a ring of two, which is enough because
 * otte_log_set() is a set-up call, and a pair is only ever overwritten by the second call after it.
 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

struct sink {
	otte_log_hook hook;
	void *arg;
	enum otte_log_level level;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sink sinks[2];
static unsigned turn;
static _Atomic(struct sink *) current;

int otte_log_set(otte_log_hook hook, void *arg, enum otte_log_level level)
{
	struct sink *next;

	pthread_mutex_lock(&lock);
	next = &sinks[turn++ % 2];
	*next = (struct sink){ .hook = hook, .arg = arg, .level = level };
	atomic_store(&current, next);
	pthread_mutex_unlock(&lock);
	return 0;
}

void otte_log(enum otte_log_level level, const char *format, ...)
{
	struct sink *sink = atomic_load(&current);
	char line[512];
	va_list args;

	if (!sink || !sink->hook || level > sink->level)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	sink->hook(sink->arg, level, line);
}
