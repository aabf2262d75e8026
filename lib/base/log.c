/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hook, its argument and its level belong together: a message reads them under the lock and calls
 * the hook after it, so that a hook may log and even set another hook. A message that nobody wants
 * costs one load and takes no lock. A hook may call the library, and fail: the error text of the thread, which
 * is often what is logged, is the same after the message as before.
 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/error.h"

#define SILENT (-1) /* below every level */

struct sink {
	otte_log_hook hook;
	void *arg;
	int level; /* SILENT without a hook */
};

/* Protects sink; held across fork so that a child can log. Taken with no other lock wanted inside. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sink sink = { .level = SILENT };
static atomic_int wanted = SILENT; /* sink.level, to be read without the lock */

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* Without memory for it a child that forked in the middle of a message could block: no more. */
static void watch_forks(void)
{
	(void)pthread_atfork(before_fork, after_fork, after_fork);
}

int otte_log_set(otte_log_hook hook, void *arg, enum otte_log_level level)
{
	struct sink next = { .hook = hook, .arg = arg, .level = hook ? (int)level : SILENT };

	pthread_once(&fork_once, watch_forks);
	pthread_mutex_lock(&lock);
	sink = next;
	atomic_store_explicit(&wanted, next.level, memory_order_relaxed);
	pthread_mutex_unlock(&lock);
	return 0;
}

static struct sink current(void)
{
	struct sink now;

	pthread_mutex_lock(&lock);
	now = sink;
	pthread_mutex_unlock(&lock);
	return now;
}

void otte_log(enum otte_log_level level, const char *format, ...)
{
	struct sink to;
	char line[512], text[OTTE_ERROR_BYTES];
	va_list args;

	if ((int)level > atomic_load_explicit(&wanted, memory_order_relaxed))
		return;
	to = current();
	if ((int)level > to.level)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	snprintf(text, sizeof(text), "%s", otte_error_text());
	to.hook(to.arg, level, line);
	otte_fail(0, "%s", text);
}
