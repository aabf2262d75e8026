/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Groups that end early: cancelled, overdue, or queued on a peer that was lost.
 *
 * What is queued ends here. What is dispatched belongs to the transport: it is pinned under the peer's lock, so that
 * it stays while its transport is asked, without that lock, to end it.
 */
#include <errno.h>
#include <utlist.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/group.h"

/* Heads are ended a few at a time, because that needs the peer's lock to be free. */
#define FEW 64

/* Under peer->lock: take a queued head off everything. */
static bool take_queued(struct otte_peer *peer, struct otte_task_record *head)
{
	if (!head->live || !otte_window_remove(&peer->window, &head->entry))
		return false;
	otte_group_leave_live(peer, head);
	return true;
}

static size_t take_overdue(struct otte_peer *peer, uint64_t now_ns, struct otte_task_record **queued)
{
	struct otte_task_record *head, *next;
	size_t n = 0;

	pthread_mutex_lock(&peer->lock);
	DL_FOREACH_SAFE(peer->live, head, next) {
		if (n == FEW)
			break;
		if (head->deadline_ns <= now_ns && take_queued(peer, head))
			queued[n++] = head;
	}
	pthread_mutex_unlock(&peer->lock);
	return n;
}

static size_t pin_overdue(struct otte_peer *peer, uint64_t now_ns, void **pinned)
{
	uint64_t next_ns = UINT64_MAX;
	struct otte_task_record *head;
	size_t n = 0;

	pthread_mutex_lock(&peer->lock);
	DL_FOREACH(peer->live, head) {
		if (head->deadline_ns > now_ns) {
			next_ns = min_u64(next_ns, head->deadline_ns);
		} else if (head->entry.queued || (!head->overdue && n == FEW)) {
			next_ns = now_ns; /* the next time */
		} else if (!head->overdue) {
			head->overdue = true;
			pinned[n++] = peer->transport->ops->pin(&head->work);
		}
	}
	peer->next_deadline_ns = next_ns;
	pthread_mutex_unlock(&peer->lock);
	return n;
}

uint64_t otte_batch_expire(struct otte_peer *peer, uint64_t now_ns)
{
	struct otte_task_record *queued[FEW];
	void *pinned[FEW];
	uint64_t next_ns;
	size_t i, n;

	pthread_mutex_lock(&peer->lock);
	next_ns = peer->next_deadline_ns;
	pthread_mutex_unlock(&peer->lock);
	if (next_ns > now_ns)
		return next_ns;
	/* Ending what was dispatched makes room, and nothing that is overdue may be sent into it. */
	while ((n = take_overdue(peer, now_ns, queued)))
		for (i = 0; i < n; i++)
			otte_group_end_unsent(queued[i], -ETIME);
	while ((n = pin_overdue(peer, now_ns, pinned)))
		for (i = 0; i < n; i++)
			peer->transport->ops->cancel(peer->transport, pinned[i], -ETIMEDOUT);
	pthread_mutex_lock(&peer->lock);
	next_ns = peer->next_deadline_ns;
	pthread_mutex_unlock(&peer->lock);
	return next_ns;
}

void otte_batch_fail_queued(struct otte_peer *peer, int code)
{
	struct otte_task_record *head;

	for (;;) {
		pthread_mutex_lock(&peer->lock);
		DL_FOREACH(peer->live, head)
			if (take_queued(peer, head))
				break;
		pthread_mutex_unlock(&peer->lock);
		if (!head)
			return;
		otte_group_end_unsent(head, code);
	}
}

/* The group of task `index`, if it has not ended: its peer, held. */
static struct otte_peer *hold_unfinished(struct otte_batch *batch, uint32_t index)
{
	struct otte_task_record *head = &batch->tasks[index];
	struct otte_peer *peer = NULL;

	otte_tail_lock(&batch->lock);
	if (index < batch->submitted && head->members && head->state < OTTE_TASK_COMPLETED) {
		peer = head->peer;
		otte_peer_hold(peer);
	}
	otte_tail_unlock(&batch->lock);
	return peer;
}

static void cancel_queued(struct otte_peer *peer, struct otte_task_record *head)
{
	bool queued;

	pthread_mutex_lock(&peer->lock);
	queued = take_queued(peer, head);
	pthread_mutex_unlock(&peer->lock);
	if (queued)
		otte_group_end_unsent(head, -ECANCELED);
}

static void cancel_dispatched(struct otte_peer *peer, struct otte_task_record *head)
{
	void *pinned = NULL;

	pthread_mutex_lock(&peer->lock);
	if (head->live && !head->entry.queued)
		pinned = peer->transport->ops->pin(&head->work);
	pthread_mutex_unlock(&peer->lock);
	if (pinned)
		peer->transport->ops->cancel(peer->transport, pinned, -ECANCELED);
}

/* Under submit_lock. */
static void cancel_each(struct otte_batch *batch,
			void (*cancel)(struct otte_peer *peer, struct otte_task_record *head))
{
	struct otte_peer *peer;
	uint32_t i;

	for (i = batch->submitted; i--;) {
		peer = hold_unfinished(batch, i);
		if (!peer)
			continue;
		cancel(peer, &batch->tasks[i]);
		otte_peer_put(peer);
	}
}

int otte_batch_cancel(struct otte_batch *batch)
{
	int ret;

	if (!batch)
		return otte_fail(-EINVAL, "otte_batch_cancel: batch must not be NULL");
	ret = otte_fork_check(batch->engine->generation);
	if (ret)
		return ret;
	pthread_mutex_lock(&batch->submit_lock);
	/* From the last one on, so that the end of one does not have the next one dispatched. */
	cancel_each(batch, cancel_queued);
	cancel_each(batch, cancel_dispatched);
	pthread_mutex_unlock(&batch->submit_lock);
	return 0;
}
