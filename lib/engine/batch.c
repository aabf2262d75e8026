/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/batch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "engine/direct.h"
#include "engine/engine.h"
#include "engine/notify.h"
#include "engine/segment.h"

/* A wait that must end sooner than this does not sleep in a connection, whose limit is coarse. */
#define ALONE_LEFT_NS (20 * NSEC_PER_MSEC)

int otte_batch_create(struct otte_engine *engine, uint32_t capacity, struct otte_batch **out)
{
	struct otte_batch *batch;
	int ret;

	if (!engine || !out)
		return otte_fail(-EINVAL, "otte_batch_create: engine and batch must not be NULL");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	if (capacity == 0 || capacity > engine->config.max_requests)
		return otte_fail(-EINVAL, "otte_batch_create: a capacity of %u, not 1..%lu", capacity,
				 (unsigned long)engine->config.max_requests);
	batch = calloc(1, sizeof(*batch));
	if (batch)
		batch->tasks = calloc(capacity, sizeof(*batch->tasks));
	if (!batch || !batch->tasks) {
		free(batch);
		return otte_fail(-ENOMEM, "no memory for a batch of %u requests", capacity);
	}
	batch->engine = engine;
	batch->capacity = capacity;
	batch->event_fd = -1;
	batch->notify_tail = &batch->notifies;
	pthread_mutex_init(&batch->submit_lock, NULL);
	otte_tail_lock_init(&batch->lock);
	atomic_fetch_add(&engine->batches, 1);
	*out = batch;
	return 0;
}

static int check(struct otte_batch *batch, const char *function)
{
	if (!batch)
		return otte_fail(-EINVAL, "%s: batch must not be NULL", function);
	return otte_fork_check(batch->engine->generation);
}

static int check_requests(const struct otte_batch *batch, const struct otte_request *requests, size_t count,
			  const char *function)
{
	if (batch && requests && count)
		return 0;
	return otte_fail(-EINVAL, "%s: %s", function,
			 !batch ? "batch must not be NULL" :
			 !requests ? "requests must not be NULL" :
				     "count must not be 0");
}

int otte_batch_submit(struct otte_batch *batch, const struct otte_request *requests, size_t count)
{
	const struct otte_submission from = { .requests = requests };
	int ret = check_requests(batch, requests, count, "otte_batch_submit");

	return ret ? ret : otte_batch_add(batch, &from, count);
}

/*
 * Under batch->lock, some of its requests not finished: the peer, held, of a batch whose requests
 * are one group that has not ended; how many.
 */
static struct otte_peer *hold_only_peer(struct otte_batch *batch, uint32_t *requests)
{
	struct otte_task_record *head = batch->tasks;

	*requests = batch->submitted;
	if (head->members != *requests || batch->ended)
		return NULL;
	otte_peer_hold(head->peer);
	return head->peer;
}

/*
 * Nobody but this thread waits for anything: it sleeps in the connection itself, for what that saves is some
 * twentieth of a small transfer's time. It holds no lead, so whoever else has work meanwhile is not hindered.
 */
static void wait_alone(struct otte_peer *peer, uint32_t requests, struct otte_waiter *waiter,
		       uint64_t until_ns)
{
	struct otte_progress *progress = &peer->engine->progress;
	struct otte_transport_peer *transport = peer->transport;

	while (otte_progress_alone(progress, requests) && transport->ops->receive_alone(transport) &&
	       !atomic_load(&waiter->done) &&
	       until_ns - min_u64(until_ns, otte_coarse_ns()) > ALONE_LEFT_NS)
		;
}

/* Long enough to sleep in a connection. */
static bool is_long(int64_t timeout_ns)
{
	return timeout_ns < 0 || timeout_ns > (int64_t)ALONE_LEFT_NS;
}

/* The waiter is on the batch's list; `peer`: held, and may be slept in. */
static int wait_for(struct otte_batch *batch, struct otte_waiter *waiter, struct otte_peer *peer,
		    uint32_t requests, uint64_t until_ns)
{
	bool finished;

	if (peer) {
		wait_alone(peer, requests, waiter, until_ns);
		otte_peer_put(peer);
	}
	otte_progress_wait(&batch->engine->progress, waiter, until_ns);
	if (waiter->own)
		return 0;
	/* Who finished the batch may still be in it, and has the waiter in hand until it lets go. */
	otte_tail_lock(&batch->lock);
	finished = waiter->done;
	if (!finished)
		DL_DELETE(batch->waiters, waiter);
	otte_tail_unlock(&batch->lock);
	return finished ? 0 : otte_fail(-ETIMEDOUT, "the batch is not finished");
}

int otte_batch_wait(struct otte_batch *batch, int64_t timeout_ns)
{
	uint64_t until_ns = otte_deadline_after(timeout_ns);
	struct otte_peer *peer = NULL;
	struct otte_waiter waiter;
	uint32_t requests = 0;
	bool finished;
	int ret;

	ret = check(batch, "otte_batch_wait");
	if (ret)
		return ret;
	otte_tail_lock(&batch->lock);
	finished = batch->finished == batch->submitted;
	if (!finished) {
		otte_waiter_init(&waiter);
		DL_APPEND(batch->waiters, &waiter);
		if (is_long(timeout_ns))
			peer = hold_only_peer(batch, &requests);
	}
	otte_tail_unlock(&batch->lock);
	return finished ? 0 : wait_for(batch, &waiter, peer, requests, until_ns);
}

int otte_batch_poll(struct otte_batch *batch, struct otte_batch_status *status)
{
	int ret;

	ret = check(batch, "otte_batch_poll");
	if (ret)
		return ret;
	if (!status)
		return otte_fail(-EINVAL, "otte_batch_poll: status must not be NULL");
	if (atomic_load(&batch->engine->requests))
		otte_progress_poll(&batch->engine->progress);
	otte_tail_lock(&batch->lock);
	*status = (struct otte_batch_status){
		.submitted = batch->submitted,
		.finished = batch->finished,
		.completed_prefix = batch->prefix,
		.failed = batch->failed,
		.bytes_completed = batch->bytes_completed,
	};
	otte_tail_unlock(&batch->lock);
	return 0;
}

int otte_batch_eventfd(struct otte_batch *batch)
{
	int ret;

	ret = check(batch, "otte_batch_eventfd");
	if (ret)
		return ret;
	pthread_mutex_lock(&batch->submit_lock);
	otte_tail_lock(&batch->lock);
	ret = batch->event_fd;
	if (ret < 0) {
		bool ready = batch->submitted && batch->finished == batch->submitted;

		ret = otte_fd_eventfd(ready);
		if (ret < 0) {
			ret = otte_fail(-errno, "eventfd: %m");
		} else {
			batch->event_fd = ret;
			batch->attended = batch->submitted && !ready;
			if (batch->attended)
				otte_progress_attend(&batch->engine->progress);
		}
	}
	otte_tail_unlock(&batch->lock);
	pthread_mutex_unlock(&batch->submit_lock);
	return ret;
}

/* Of a request that exists; under batch->lock, without which the batch may begin anew. */
static void describe_task(const struct otte_task_record *task, struct otte_task *out)
{
	const struct otte_task_record *head = task;

	while (!head->members)
		head--;
	*out = (struct otte_task){
		.state = task->state == OTTE_TASK_QUEUED && atomic_load(&head->dispatched) ?
				 OTTE_TASK_DISPATCHED :
				 task->state,
		.code = task->code,
		.remote_effect = task->effect,
		.locally_drained = task->drained,
		.transport = task->transport,
		.user_data = task->user_data,
		.latency_ns = task->ended_ns ? task->ended_ns - task->submitted_ns : 0,
	};
}

int otte_batch_task(struct otte_batch *batch, uint32_t index, struct otte_task *out)
{
	int ret;

	ret = check(batch, "otte_batch_task");
	if (ret)
		return ret;
	if (!out)
		return otte_fail(-EINVAL, "otte_batch_task: task must not be NULL");
	otte_tail_lock(&batch->lock);
	if (index < batch->submitted)
		describe_task(&batch->tasks[index], out);
	else
		ret = otte_fail(-EINVAL, "otte_batch_task: request %u of %u", index,
				batch->submitted);
	otte_tail_unlock(&batch->lock);
	return ret;
}

static bool failed(const struct otte_task_record *task)
{
	return task->state > OTTE_TASK_COMPLETED;
}

int otte_batch_failure(struct otte_batch *batch, struct otte_failure *failure)
{
	const struct otte_task_record *first = NULL;
	uint32_t i;
	int ret;

	ret = check(batch, "otte_batch_failure");
	if (ret)
		return ret;
	if (!failure)
		return otte_fail(-EINVAL, "otte_batch_failure: failure must not be NULL");
	memset(failure, 0, sizeof(*failure));
	otte_tail_lock(&batch->lock);
	for (i = 0; i < batch->submitted; i++) {
		const struct otte_task_record *task = &batch->tasks[i];

		if (!first && failed(task)) {
			first = task;
			failure->first = i;
		}
		if (!first)
			continue;
		if (!failed(task) || task->code != first->code || task->effect != first->effect ||
		    task->drained != first->drained)
			break;
		failure->count++;
	}
	if (first) {
		bool lost = batch->lost[0] && first->code == batch->lost_code;

		failure->code = first->code;
		failure->remote_effect = first->effect;
		failure->locally_drained = first->drained;
		snprintf(failure->text, sizeof(failure->text),
			 "%s %u of %u: %s%s%s; remote effect %s, local range %s%s",
			 failure->count == 1 ? "request" : "requests from", failure->first,
			 batch->submitted, otte_strerror(first->code), lost ? ": " : "",
			 lost ? batch->lost : "",
			 first->effect ? "unknown" : "none",
			 first->drained ? "drained" : "not drained",
			 batch->notifies_dropped ? "; a notification was dropped" : "");
	}
	otte_tail_unlock(&batch->lock);
	return first ? 0 : otte_fail(-ENOENT, "no request of the batch has failed");
}

/* Under both locks. */
static int check_finished(const struct otte_batch *batch)
{
	if (batch->finished != batch->submitted)
		return otte_fail(-EBUSY, "%u of the batch's %u requests are not finished",
				 batch->submitted - batch->finished, batch->submitted);
	return 0;
}

/* Under both locks. */
static int reset(struct otte_batch *batch)
{
	uint64_t drain;
	int ret;

	ret = check_finished(batch);
	if (ret)
		return ret;
	atomic_store_explicit(&batch->submitted, 0, memory_order_relaxed);
	atomic_store_explicit(&batch->finished, 0, memory_order_relaxed);
	atomic_store_explicit(&batch->failed, 0, memory_order_relaxed);
	batch->ended = batch->prefix = 0;
	batch->bytes_completed = 0;
	batch->notifies_dropped = 0;
	batch->lost[0] = '\0';
	if (batch->event_fd >= 0 && read(batch->event_fd, &drain, sizeof(drain)) < 0 &&
	    errno != EAGAIN)
		ret = otte_fail(-errno, "a batch's eventfd: %m");
	return ret;
}

int otte_batch_reset(struct otte_batch *batch)
{
	int ret;

	ret = check(batch, "otte_batch_reset");
	if (ret)
		return ret;
	pthread_mutex_lock(&batch->submit_lock);
	otte_tail_lock(&batch->lock);
	ret = reset(batch);
	otte_tail_unlock(&batch->lock);
	pthread_mutex_unlock(&batch->submit_lock);
	return ret;
}

/* Under submit_lock. The waiter sees the end of what is submitted next. */
static int begin_anew(struct otte_batch *batch, struct otte_waiter *waiter)
{
	int ret;

	otte_waiter_init(waiter);
	otte_tail_lock(&batch->lock);
	ret = reset(batch);
	if (!ret) {
		DL_APPEND(batch->waiters, waiter);
		atomic_store_explicit(&batch->admitting, true, memory_order_relaxed);
	}
	otte_tail_unlock(&batch->lock);
	return ret;
}

static void forget_waiter(struct otte_batch *batch, struct otte_waiter *waiter)
{
	otte_tail_lock(&batch->lock);
	DL_DELETE(batch->waiters, waiter);
	otte_tail_unlock(&batch->lock);
}

/*
 * Everything is queued, and the caller's waiter not done when it looked. If it is now, another thread
 * may have begun the batch anew, and be filling in its tasks under submit_lock alone.
 */
static int wait_on(struct otte_batch *batch, struct otte_waiter *waiter, int64_t timeout_ns)
{
	uint64_t until_ns = otte_deadline_after(timeout_ns);
	struct otte_peer *peer = NULL;
	uint32_t requests = 0;

	otte_tail_lock(&batch->lock);
	if (is_long(timeout_ns) && !atomic_load(&waiter->done))
		peer = hold_only_peer(batch, &requests);
	otte_tail_unlock(&batch->lock);
	return wait_for(batch, waiter, peer, requests, until_ns);
}

int otte_batch_run(struct otte_batch *batch, const struct otte_request *requests, size_t count,
		   int64_t timeout_ns)
{
	const struct otte_submission from = { .requests = requests };
	struct otte_waiter waiter;
	int ret;

	ret = check_requests(batch, requests, count, "otte_batch_run");
	if (!ret)
		ret = otte_batch_check_open(batch);
	if (ret)
		return ret;
	if (count == 1 && otte_direct_run(batch, requests, &ret))
		return ret;
	pthread_mutex_lock(&batch->submit_lock);
	ret = begin_anew(batch, &waiter);
	if (!ret) {
		ret = otte_batch_admit(batch, &from, count);
		if (ret)
			forget_waiter(batch, &waiter);
	}
	if (ret) {
		pthread_mutex_unlock(&batch->submit_lock);
		return ret;
	}
	otte_batch_start(batch, count, is_long(timeout_ns));
	if (!waiter.own) {
		ret = wait_on(batch, &waiter, timeout_ns);
		if (ret)
			return ret;
	}
	return (int)waiter.failed;
}

int otte_batch_destroy(struct otte_batch *batch)
{
	int ret;

	if (!batch)
		return 0;
	ret = check(batch, "otte_batch_destroy");
	if (ret)
		return ret;
	pthread_mutex_lock(&batch->submit_lock);
	otte_tail_lock(&batch->lock);
	ret = check_finished(batch);
	otte_tail_unlock(&batch->lock);
	pthread_mutex_unlock(&batch->submit_lock);
	if (ret)
		return ret;
	if (batch->event_fd >= 0)
		otte_fd_close(batch->event_fd);
	pthread_mutex_destroy(&batch->submit_lock);
	otte_tail_lock_fini(&batch->lock);
	atomic_fetch_sub(&batch->engine->batches, 1);
	free(batch->tasks);
	free(batch);
	return 0;
}
