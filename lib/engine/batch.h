/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Batches and their tasks.
 *
 * A task is one request. Neighbours that continue each other, locally and remotely, and agree in all
 * else are merged: the first is the head, whose work moves the bytes of the whole group.
 *
 *   QUEUED -> DISPATCHED -> terminal        QUEUED -> terminal (cancelled, overdue, peer lost)
 *
 * A head is on its peer's live list from submission until it ends; peer->lock protects the list, the
 * window and the step from QUEUED to DISPATCHED. Terminal states are published under batch->lock as the
 * last thing that is done to a task: after that its batch may be reset or destroyed.
 */
#ifndef OTTE_ENGINE_BATCH_H
#define OTTE_ENGINE_BATCH_H

#include <pthread.h>

#include "base/tail_lock.h"
#include "engine/access.h"
#include "engine/peer.h"
#include "engine/progress.h"
#include "engine/region.h"

struct otte_segment;

struct otte_task_record {
	struct otte_task_record *prev, *next; /* peer->live, of heads */
	struct otte_work work;
	struct otte_queue_entry entry;
	struct otte_access access;
	struct otte_batch *batch;
	struct otte_segment *segment;
	struct otte_peer *peer;
	struct otte_region *region;
	uint32_t index;
	uint32_t members;                /* of the group, head included; 0: not a head */
	uint64_t length;                 /* of this request alone */
	uint64_t deadline_ns;            /* UINT64_MAX: none */
	uint64_t submitted_ns, ended_ns;
	uint64_t user_data;
	uint32_t transport;
	bool live, overdue;              /* under peer->lock */
	bool range_kept;                 /* by otte_keep(), of a head: it does not end with the group */
	_Atomic bool dispatched;         /* QUEUED is DISPATCHED; for who looks, not for who decides */
	/* Under batch->lock. */
	enum otte_task_state state;      /* QUEUED until terminal */
	int code;
	uint8_t effect;
	bool drained;
};

struct otte_pending_notify {
	struct otte_pending_notify *next;
	struct otte_segment *segment;
	uint32_t after;                  /* sent once so many requests have completed */
	uint32_t length;
	uint8_t data[];
};

/* Where the requests of a submission come from: an array, or a block list. */
struct otte_submission {
	const struct otte_request *requests;
	const struct otte_block_list *list;
	size_t first;
};

struct otte_block_list {
	struct otte_engine *engine;
	struct otte_request prototype;
	size_t count;
	struct otte_block blocks[];
};

struct otte_batch {
	struct otte_engine *engine;
	uint32_t capacity;
	struct otte_task_record *tasks;

	pthread_mutex_t submit_lock;     /* one submission at a time; outermost */
	/*
	 * A submission is at the memo and the tasks. Where anybody moves requests inside their call (direct.c), set
	 * under both locks, so that who has `lock` alone and sees it clear may be at them instead; cleared under
	 * submit_lock, once `submitted` is raised or stays.
	 */
	_Atomic bool admitting;
	struct otte_region_memo memo;
	/*
	 * `lock`: the rest, and the tasks' last four fields. Of these, `submitted` is written under submit_lock
	 * and, once there is an eventfd, under `lock` too; `finished` is the last thing that is written under
	 * `lock`: who sees it equal to `submitted` there may begin anew, and then fills in the tasks under
	 * submit_lock alone. So nobody looks at a task from `submitted` on.
	 */
	struct otte_tail_lock lock;
	/* ended: have a result; finished: and nothing of ours will touch them. */
	_Atomic uint32_t submitted, finished;
	uint32_t ended, prefix;
	_Atomic uint32_t failed;
	uint64_t bytes_completed;
	int event_fd;                    /* -1: nobody asked; written under both locks */
	bool attended;                   /* the engine's thread was asked to lead for it */
	struct otte_waiter *waiters;
	struct otte_pending_notify *notifies, **notify_tail;
	uint32_t notifies_dropped;
	char lost[88];                   /* why the first request that lost or lacked its peer did; "": none has */
	int lost_code;                   /* of that one */
};

/* Submit: everything from the checks on. */
int otte_batch_add(struct otte_batch *batch, const struct otte_submission *from, size_t count);
/* Its parts. Whether anything may be submitted; then, under submit_lock, all of it or none is. */
int otte_batch_check_open(struct otte_batch *batch);
int otte_batch_admit(struct otte_batch *batch, const struct otte_submission *from, size_t count);
/*
 * Queue the last `count` requests, and send what may be. Lets go of submit_lock; the batch may end at any moment.
 * sleeps: the caller does nothing but wait for them, and may be put to sleep here.
 */
void otte_batch_start(struct otte_batch *batch, size_t count, bool sleeps);
/* One request by itself: everything but budgets and conflicts. `index` is for the text. */
int otte_request_check(struct otte_engine *engine, const struct otte_request *request, size_t index,
		       struct otte_region_memo *memo);
/* What of that needs no look at the peer, and no lock. */
int otte_request_check_ours(struct otte_engine *engine, const struct otte_request *request, size_t index);
/* Send what the peer's window allows. */
void otte_batch_dispatch(struct otte_peer *peer);
/* Likewise, by the engine's thread, which asks all peers in turn. True: there was something. */
bool otte_batch_dispatch_in_turn(struct otte_peer *peer);
/* End what is overdue; returns the next deadline. */
uint64_t otte_batch_expire(struct otte_peer *peer, uint64_t now_ns);
/* The peer is lost: end what is queued on it. What is dispatched, its transport ends. */
void otte_batch_fail_queued(struct otte_peer *peer, int code);

#endif
