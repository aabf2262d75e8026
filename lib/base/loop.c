/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/loop.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>
#include <utlist.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"

#define EVENTS_A_ROUND 32

static void wake_ready(struct otte_watch *watch, uint32_t events)
{
	uint64_t count;

	(void)events;
	if (read(watch->fd, &count, sizeof(count)) < 0)
		return; /* another round took it */
}

int otte_loop_init(struct otte_loop *loop)
{
	int ret;

	loop->retired = NULL;
	loop->asides = NULL;
	loop->some_aside = false;
	loop->whole = false;
	loop->epoll_fd = otte_fd_epoll();
	if (loop->epoll_fd < 0)
		return otte_fail(-errno, "epoll_create1: %m");
	loop->wake.ready = wake_ready;
	loop->wake.fd = otte_fd_eventfd(0);
	if (loop->wake.fd < 0) {
		ret = otte_fail(-errno, "eventfd: %m");
		goto close_epoll;
	}
	ret = otte_loop_add(loop, &loop->wake, EPOLLIN);
	if (ret)
		goto close_wake;
	pthread_mutex_init(&loop->lock, NULL);
	return 0;

close_wake:
	otte_fd_close(loop->wake.fd);
close_epoll:
	otte_fd_close(loop->epoll_fd);
	return ret;
}

static void free_retired(struct otte_loop *loop)
{
	struct otte_retired *retired, *next;

	pthread_mutex_lock(&loop->lock);
	retired = loop->retired;
	__atomic_store_n(&loop->retired, NULL, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&loop->lock);
	for (; retired; retired = next) {
		next = retired->next;
		retired->free(retired);
	}
}

void otte_loop_fini(struct otte_loop *loop)
{
	free_retired(loop);
	pthread_mutex_destroy(&loop->lock);
	otte_fd_close(loop->wake.fd);
	otte_fd_close(loop->epoll_fd);
}

static int control(struct otte_loop *loop, int op, struct otte_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	if (epoll_ctl(loop->epoll_fd, op, watch->fd, &event) < 0)
		return otte_fail(-errno, "epoll_ctl on descriptor %d: %m", watch->fd);
	return 0;
}

int otte_loop_add(struct otte_loop *loop, struct otte_watch *watch, uint32_t events)
{
	return control(loop, EPOLL_CTL_ADD, watch, events);
}

/* Under lock. */
static void no_longer_aside(struct otte_loop *loop, struct otte_watch *watch)
{
	DL_DELETE(loop->asides, watch);
	watch->aside = false;
	atomic_store(&loop->some_aside, loop->asides != NULL);
}

int otte_loop_change(struct otte_loop *loop, struct otte_watch *watch, uint32_t events)
{
	int ret;

	pthread_mutex_lock(&loop->lock);
	ret = control(loop, watch->aside ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, watch, events);
	if (!ret && watch->aside)
		no_longer_aside(loop, watch);
	pthread_mutex_unlock(&loop->lock);
	return ret;
}

void otte_loop_remove(struct otte_loop *loop, struct otte_watch *watch)
{
	pthread_mutex_lock(&loop->lock);
	if (watch->aside)
		no_longer_aside(loop, watch);
	else
		epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	pthread_mutex_unlock(&loop->lock);
}

void otte_loop_set_aside(struct otte_loop *loop, struct otte_watch *watch)
{
	if (watch->aside)
		return;
	pthread_mutex_lock(&loop->lock);
	if (!watch->aside && !loop->whole &&
	    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL) == 0) {
		DL_APPEND(loop->asides, watch);
		watch->aside = true;
		atomic_store(&loop->some_aside, true);
	}
	pthread_mutex_unlock(&loop->lock);
}

/* Under lock. What finds no memory now is brought back the next time. */
static void bring_back(struct otte_loop *loop)
{
	struct otte_watch *watch, *next;

	DL_FOREACH_SAFE(loop->asides, watch, next)
		if (!control(loop, EPOLL_CTL_ADD, watch, EPOLLIN))
			no_longer_aside(loop, watch);
}

void otte_loop_bring_back(struct otte_loop *loop)
{
	if (!atomic_load(&loop->some_aside))
		return;
	pthread_mutex_lock(&loop->lock);
	bring_back(loop);
	pthread_mutex_unlock(&loop->lock);
}

void otte_loop_keep_whole(struct otte_loop *loop, bool whole)
{
	pthread_mutex_lock(&loop->lock);
	loop->whole = whole;
	if (whole)
		bring_back(loop);
	pthread_mutex_unlock(&loop->lock);
}

void otte_loop_run(struct otte_loop *loop, int timeout_ms)
{
	struct epoll_event events[EVENTS_A_ROUND];
	int i, n;

	otte_loop_bring_back(loop);
	n = otte_sys_epoll_wait(loop->epoll_fd, events, EVENTS_A_ROUND, timeout_ms);
	for (i = 0; i < n; i++) {
		struct otte_watch *watch = events[i].data.ptr;

		watch->ready(watch, events[i].events);
	}
	if (__atomic_load_n(&loop->retired, __ATOMIC_RELAXED))
		free_retired(loop);
}

void otte_loop_wake(struct otte_loop *loop)
{
	uint64_t one = 1;

	if (write(loop->wake.fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: a wake is pending already */
}

void otte_loop_retire(struct otte_loop *loop, struct otte_retired *retired)
{
	pthread_mutex_lock(&loop->lock);
	retired->next = loop->retired;
	__atomic_store_n(&loop->retired, retired, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&loop->lock);
}
