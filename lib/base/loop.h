/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An epoll set and the objects that watch descriptors in it.
 *
 * One thread at a time runs a loop (the caller sees to that); any thread may add, change, remove and
 * wake. A removed watch can still stand in the round that is being handled, so its memory must go
 * through otte_loop_retire(), which frees it when no round can know it any more.
 */
#ifndef OTTE_BASE_LOOP_H
#define OTTE_BASE_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct otte_watch {
	int fd;
	/* Called by the thread that runs the loop, with EPOLL* bits. */
	void (*ready)(struct otte_watch *watch, uint32_t events);
	struct otte_watch *prev, *next; /* loop->aside, while `aside` */
	_Atomic bool aside;
};

struct otte_retired {
	struct otte_retired *next;
	void (*free)(struct otte_retired *retired);
};

struct otte_loop {
	int epoll_fd;
	struct otte_watch wake;
	pthread_mutex_t lock;          /* the rest, and its watches' `aside` */
	struct otte_retired *retired;
	struct otte_watch *asides;
	_Atomic bool some_aside;       /* for who only looks whether there is anything to do */
	bool whole;                    /* nothing is set aside now */
};

int otte_loop_init(struct otte_loop *loop);
/* Frees what was retired. No thread may run the loop any more. */
void otte_loop_fini(struct otte_loop *loop);

int otte_loop_add(struct otte_loop *loop, struct otte_watch *watch, uint32_t events);
int otte_loop_change(struct otte_loop *loop, struct otte_watch *watch, uint32_t events);
void otte_loop_remove(struct otte_loop *loop, struct otte_watch *watch);

/*
 * Set aside: out of the set for as long as somebody sleeps in the descriptor itself. The kernel would otherwise tell
 * the set of all that comes there too. Brought back, with EPOLLIN, by the next round, by whoever asks, and by remove.
 */
void otte_loop_set_aside(struct otte_loop *loop, struct otte_watch *watch);
void otte_loop_bring_back(struct otte_loop *loop);
/* From true on, until false, nothing is aside: the set itself is watched, or nobody would bring back. */
void otte_loop_keep_whole(struct otte_loop *loop, bool whole);

/* One round: wait at most `timeout_ms` (-1: for ever), call what is ready, free what was retired. */
void otte_loop_run(struct otte_loop *loop, int timeout_ms);

/* End a wait of otte_loop_run() early, or the next one if none is going on. */
void otte_loop_wake(struct otte_loop *loop);

/* Have `retired->free` called after the round; at once is possible only for the runner. */
void otte_loop_retire(struct otte_loop *loop, struct otte_retired *retired);

#endif
