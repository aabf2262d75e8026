/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The end of a group: its tasks get their result, what waits for it is told, and what it took is given back.
 *
 * Once its members count as finished nothing of ours touches the batch any more, since it may be gone.
 */
#include <errno.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/line.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/notify.h"
#include "engine/segment.h"

void otte_group_release(struct otte_task_record *head)
{
	if (!head->range_kept)
		otte_access_end(&head->region->mem->access, &head->access);
	otte_region_unuse(head->region);
}

/* Under batch->lock: sent once the requests before it have completed, dropped if one failed. */
static struct otte_pending_notify *due_notifies(struct otte_batch *batch)
{
	struct otte_pending_notify *due = batch->notifies, *last = NULL;

	while (batch->notifies && batch->notifies->after <= batch->prefix) {
		last = batch->notifies;
		batch->notifies = last->next;
	}
	if (!batch->notifies)
		batch->notify_tail = &batch->notifies;
	if (!last)
		return NULL;
	last->next = NULL;
	return due;
}

/* Under batch->lock: everything is terminal, so what still waits for a prefix waits in vain. */
static struct otte_pending_notify *hopeless_notifies(struct otte_batch *batch)
{
	struct otte_pending_notify *hopeless = batch->notifies, *each;

	for (each = hopeless; each; each = each->next)
		batch->notifies_dropped++;
	batch->notifies = NULL;
	batch->notify_tail = &batch->notifies;
	return hopeless;
}

static void tell_all_finished(struct otte_batch *batch)
{
	struct otte_progress *progress = &batch->engine->progress;
	struct otte_waiter *waiter;
	uint64_t one = 1;

	if (batch->event_fd >= 0 && write(batch->event_fd, &one, sizeof(one)) < 0)
		otte_log(OTTE_LOG_ERROR, "a batch's eventfd: %m");
	if (batch->attended) {
		batch->attended = false;
		otte_progress_unattend(progress);
	}
	while ((waiter = batch->waiters)) {
		DL_DELETE(batch->waiters, waiter);
		waiter->failed = batch->failed;
		otte_progress_wake(progress, waiter);
	}
}

static enum otte_task_state terminal_state(int code)
{
	switch (code) {
	case 0:
		return OTTE_TASK_COMPLETED;
	case -ECANCELED:
		return OTTE_TASK_CANCELLED;
	case -ETIME:
	case -ETIMEDOUT:
		return OTTE_TASK_TIMEOUT;
	default:
		return OTTE_TASK_FAILED;
	}
}

/* Under batch->lock: the group's tasks get their result. */
static void set_results(struct otte_task_record *head, int code, uint8_t effect, bool drained)
{
	struct otte_batch *batch = head->batch;
	uint64_t now_ns = otte_now_ns();
	uint32_t i;

	for (i = 0; i < head->members; i++) {
		struct otte_task_record *task = head + i;

		task->ended_ns = now_ns;
		task->code = code;
		task->transport = head->work.carrier ? head->work.carrier : OTTE_TRANSPORT_TCP;
		task->effect = effect;
		task->drained = drained;
		task->state = terminal_state(code);
		if (!code)
			batch->bytes_completed += task->length;
	}
	batch->ended += head->members;
	if (code)
		batch->failed += head->members;
	/* Who ends requests for a connection that is lost, or is not to be had, or says so, has just told why. */
	if ((code == -ECONNRESET || code == -ENOTCONN || (code && head->work.said)) &&
	    !batch->lost[0]) {
		otte_line_escape(batch->lost, sizeof(batch->lost), otte_error_text());
		batch->lost_code = code;
	}
	while (batch->prefix < batch->submitted &&
	       batch->tasks[batch->prefix].state == OTTE_TASK_COMPLETED)
		batch->prefix++;
}

/*
 * The last thing done to a group: once its members are counted as finished the batch may be gone. What
 * hangs on them is sent before, so that a caller who saw the batch finish may close the segment. Their budget
 * is given back in between: who sees it free, like close(), finds the batch finished.
 */
static void publish(struct otte_task_record *head, int code, uint8_t effect, bool drained)
{
	struct otte_pending_notify *due, *hopeless;
	struct otte_batch *batch = head->batch;
	struct otte_engine *engine = batch->engine;
	uint32_t members = head->members, finished;

	otte_tail_lock(&batch->lock);
	set_results(head, code, effect, drained);
	if (batch->notifies) {
		due = due_notifies(batch);
		hopeless = batch->ended == batch->submitted ? hopeless_notifies(batch) : NULL;
		otte_tail_unlock(&batch->lock);
		otte_notify_send_list(due, 0);
		otte_notify_send_list(hopeless, -ECANCELED);
		otte_tail_lock(&batch->lock);
	}
	atomic_fetch_sub(&engine->bytes, head->work.length);
	atomic_fetch_sub(&engine->requests, members);
	if (engine->bounded)
		atomic_fetch_sub(&engine->by_priority[head->work.priority], members);
	finished = atomic_load_explicit(&batch->finished, memory_order_relaxed) + members;
	if (finished == atomic_load_explicit(&batch->submitted, memory_order_relaxed))
		tell_all_finished(batch);
	atomic_store_explicit(&batch->finished, finished, memory_order_release);
	otte_tail_unlock(&batch->lock);
}

/* Under peer->lock. */
static void count(struct otte_request_counts *counts, const struct otte_task_record *head, int code)
{
	if (code)
		counts->failed += head->members;
	else
		counts->completed += head->members;
	if (!code && head->work.op == OTTE_READ)
		counts->read_bytes += head->work.length;
	else if (!code)
		counts->write_bytes += head->work.length;
}

void otte_group_leave_live(struct otte_peer *peer, struct otte_task_record *head)
{
	if (head->live)
		DL_DELETE(peer->live, head);
	head->live = false;
}

bool otte_group_finish(struct otte_task_record *head, int code, uint8_t effect, bool drained,
		       bool sent)
{
	struct otte_peer *peer = head->peer;
	bool more, others;

	pthread_mutex_lock(&peer->lock);
	otte_group_leave_live(peer, head);
	others = sent ? otte_window_done(&peer->window, &head->entry) : head->entry.last;
	/* Where other peers wait for room below High as well, they get it in turn, from the engine's thread. */
	more = sent && (others ? peer->window.queue.count[OTTE_PRIORITY_HIGH] :
				 otte_window_waiting(&peer->window));
	head->segment->uses--;
	count(&peer->counts, head, code);
	pthread_mutex_unlock(&peer->lock);
	otte_group_release(head);
	publish(head, code, effect, drained);
	if (others)
		otte_gate_look_at(peer->engine, 0);
	return more;
}

void otte_group_end(struct otte_task_record *head, int code, uint8_t effect, bool drained,
		    bool sent)
{
	struct otte_peer *peer = head->peer;

	/* The segment may be closed as soon as it is let go; who finds the group not ended wants its peer. */
	otte_peer_hold(peer);
	if (otte_group_finish(head, code, effect, drained, sent))
		otte_batch_dispatch(peer);
	otte_peer_put(peer);
}

void otte_group_count_stale(const struct otte_task_record *head)
{
	atomic_fetch_add(&head->batch->engine->counters.stale_regions, 1);
}

/*
 * What moved to or from memory that is not the registered one any more is no success: a WRITE may have
 * taken bytes of another mapping there.
 */
void otte_group_done(struct otte_work *work)
{
	struct otte_task_record *head = container_of(work, struct otte_task_record, work);
	uint8_t effect = work->effect;
	int code = work->code;

	if (!code && !otte_region_is_fresh(&head->region->watch)) {
		code = -ESTALE;
		effect = work->op == OTTE_WRITE ? OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE;
	}
	if (code == -ESTALE)
		otte_group_count_stale(head);
	otte_group_end(head, code, effect, work->drained, true);
}

void otte_group_end_unsent(struct otte_task_record *head, int code)
{
	head->peer->transport->ops->unplan(&head->work);
	otte_group_end(head, code, OTTE_EFFECT_NONE, true, false);
}
