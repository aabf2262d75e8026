/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Submission: requests become tasks, all of them or none.
 *
 * Budgets are charged first, then each group (a head and the neighbours merged into it) takes its region,
 * its range and its transport plan. Only when every group has all of that are they queued; so nothing
 * has to be taken back from a peer.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/line.h"
#include "base/log.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/notify.h"
#include "engine/segment.h"

/* Merged neighbours stay below this, so that one failure does not take many requests with it. */
#define MERGE_BYTES (1 * MIB)

static void request_at(const struct otte_submission *from, size_t i, struct otte_request *request)
{
	const struct otte_block *block;

	if (!from->list) {
		*request = from->requests[i];
		return;
	}
	block = &from->list->blocks[from->first + i];
	*request = from->list->prototype;
	request->local_offset += block->local_offset;
	request->remote_offset += block->remote_offset;
}

static int check_fields(const struct otte_request *request, size_t i)
{
	if (request->op > OTTE_WRITE)
		return otte_fail(-EINVAL, "request %zu: op %u", i, request->op);
	if (request->priority > OTTE_PRIORITY_LOW)
		return otte_fail(-EINVAL, "request %zu: priority %u", i, request->priority);
	if (request->intent > OTTE_INTENT_STAGING_INTERNAL)
		return otte_fail(-EINVAL, "request %zu: intent %u", i, request->intent);
	if (request->reserved)
		return otte_fail(-EINVAL, "request %zu: reserved is not 0", i);
	if (request->length == 0)
		return otte_fail(-EINVAL, "request %zu: length 0", i);
	if (request->transport > OTTE_TRANSPORT_NVLINK)
		return otte_fail(-EINVAL, "request %zu: transport %u", i, request->transport);
	if (request->transport > OTTE_TRANSPORT_LOCAL)
		return otte_fail(-ENOSYS, "request %zu: this build has no such transport, only tcp and local",
				 i);
	return 0;
}

int otte_request_check_ours(struct otte_engine *engine, const struct otte_request *request, size_t i)
{
	const struct otte_region *local = request->local;
	int ret;

	ret = check_fields(request, i);
	if (ret)
		return ret;
	if (request->transport == OTTE_TRANSPORT_LOCAL && !engine->config.local_trusted)
		return otte_fail(-ENOSYS, "request %zu: transport local needs local.trusted", i);
	if (!request->segment || request->segment->engine != engine)
		return otte_fail(-EINVAL, "request %zu: segment is not of this engine", i);
	if (!local || local->engine != engine)
		return otte_fail(-EINVAL, "request %zu: local is not of this engine", i);
	if (!range_inside(request->local_offset, request->length, local->length))
		return otte_fail(-ERANGE, "request %zu: [%lu, +%lu) is not inside local region %lu of %lu bytes",
				 i, (unsigned long)request->local_offset,
				 (unsigned long)request->length, (unsigned long)local->id,
				 (unsigned long)local->length);
	if (request->op == OTTE_READ && local->mem->flags & OTTE_MEM_READONLY)
		return otte_fail(-EACCES, "request %zu: local memory is mapped for reading only",
				 i);
	return 0;
}

int otte_request_check(struct otte_engine *engine, const struct otte_request *request, size_t i,
		       struct otte_region_memo *memo)
{
	int ret;

	ret = otte_request_check_ours(engine, request, i);
	if (ret)
		return ret;
	ret = otte_peer_check_region(request->segment->peer, request, memo);
	return ret ? otte_fail_within(ret, "request %zu: ", i) : 0;
}

static bool charge(_Atomic uint64_t *total, uint64_t amount, uint64_t limit)
{
	uint64_t old = atomic_load(total);

	do {
		if (amount > limit || old > limit - amount)
			return false;
	} while (!atomic_compare_exchange_weak(total, &old, old + amount));
	return true;
}

/* How many requests of a submission there are of each priority. */
static void count_priorities(const struct otte_task_record *tasks, size_t count,
			     uint64_t counts[OTTE_PRIORITIES])
{
	size_t i;

	memset(counts, 0, OTTE_PRIORITIES * sizeof(*counts));
	for (i = 0; i < count; i++)
		counts[tasks[i].work.priority]++;
}

static OTTE_COLD int charge_priorities(struct otte_engine *engine, const uint64_t counts[OTTE_PRIORITIES])
{
	const uint32_t limits[OTTE_PRIORITIES] = { engine->config.max_high_requests,
						   engine->config.max_medium_requests,
						   engine->config.max_low_requests };
	static const char *const names[OTTE_PRIORITIES] = { "high", "medium", "low" };
	unsigned i;

	for (i = 0; i < OTTE_PRIORITIES; i++)
		if (!charge(&engine->by_priority[i], counts[i], limits[i]))
			break;
	if (i == OTTE_PRIORITIES)
		return 0;
	otte_fail(-EDQUOT, "priority.%s_requests (%u) is full", names[i], limits[i]);
	while (i--)
		atomic_fetch_sub(&engine->by_priority[i], counts[i]);
	return -EDQUOT;
}

static int charge_budgets(struct otte_engine *engine, uint64_t requests, uint64_t bytes)
{
	if (!charge(&engine->requests, requests, engine->config.max_requests))
		return otte_fail(-EDQUOT, "limits.requests (%lu) is full",
				 (unsigned long)engine->config.max_requests);
	if (!charge(&engine->bytes, bytes, engine->config.max_bytes)) {
		atomic_fetch_sub(&engine->requests, requests);
		return otte_fail(-EDQUOT, "limits.bytes (%lu) is full",
				 (unsigned long)engine->config.max_bytes);
	}
	return 0;
}

static uint64_t absolute_deadline(const struct otte_engine *engine,
				  const struct otte_request *request, uint64_t now_ns)
{
	if (request->deadline_ns != OTTE_DEADLINE_DEFAULT)
		return request->deadline_ns;
	if (!engine->config.default_deadline_ns)
		return OTTE_DEADLINE_NONE;
	return now_ns + engine->config.default_deadline_ns;
}

static void fill_task(struct otte_batch *batch, uint32_t index, const struct otte_request *request,
		      uint64_t now_ns)
{
	struct otte_task_record *task = &batch->tasks[index];

	zero_bytes(task, sizeof(*task));
	task->batch = batch;
	task->index = index;
	task->members = 1;
	task->segment = request->segment;
	task->peer = request->segment->peer;
	task->region = request->local;
	task->length = request->length;
	task->user_data = request->user_data;
	task->submitted_ns = now_ns;
	task->deadline_ns = absolute_deadline(batch->engine, request, now_ns);
	task->transport = OTTE_TRANSPORT_TCP; /* until it has ended */
	task->work.wanted = request->transport;
	task->work.op = request->op;
	task->work.priority = request->priority;
	task->work.intent = request->intent;
	task->work.length = request->length;
	task->work.region = request->remote_region;
	task->work.offset = request->remote_offset;
	task->work.retries = batch->engine->config.retry_budget;
	/* Relative to the region until the group is prepared. */
	task->access.range.start = request->local_offset;
}

/* What goes at a lower priority goes in pieces of which the gate can let one at a time. */
static uint64_t merge_bytes(const struct otte_task_record *head)
{
	if (!head->peer->window.slots || head->work.priority == OTTE_PRIORITY_HIGH)
		return MERGE_BYTES;
	return min_u64(MERGE_BYTES, head->batch->engine->config.low_inflight_bytes);
}

/* The task goes on where the group of `head` ends, and agrees with it in everything. */
static bool continues(const struct otte_task_record *head, const struct otte_task_record *task)
{
	uint64_t length = head->work.length;

	return head->segment == task->segment && head->region == task->region &&
	       head->work.op == task->work.op && head->work.priority == task->work.priority &&
	       head->work.intent == task->work.intent && head->work.wanted == task->work.wanted &&
	       head->deadline_ns == task->deadline_ns &&
	       head->work.region == task->work.region &&
	       head->work.offset + length == task->work.offset &&
	       head->access.range.start + length == task->access.range.start &&
	       length + task->length <= merge_bytes(head);
}

static void work_done(struct otte_work *work);

static int prepare_group(struct otte_task_record *head)
{
	struct otte_region *region = head->region;
	struct otte_work *work = &head->work;
	uint64_t offset = region->offset + head->access.range.start;
	int ret;

	ret = otte_region_use(region);
	if (ret)
		return ret;
	ret = otte_region_check_fresh(region);
	if (ret)
		goto unuse;
	ret = otte_access_begin(&region->mem->access, &head->access, offset, work->length,
				work->op == OTTE_READ);
	if (ret)
		goto unuse;
	work->local = region->mem->address + offset;
	work->firm = region->mem->kind == OTTE_MEM_OWNED;
	work->epoch = head->segment->epoch;
	work->done = work_done;
	head->entry.bytes = work->length;
	head->entry.priority = work->priority;
	head->entry.last = false;
	head->entry.enqueued_ns = head->submitted_ns;
	ret = head->peer->tcp->ops->plan(head->peer->tcp, work);
	if (ret)
		goto end_access;
	return 0;

end_access:
	otte_access_end(&region->mem->access, &head->access);
unuse:
	otte_region_unuse(region);
	return ret;
}

/* Give back what prepare_group() took. */
static void release_group(struct otte_task_record *head)
{
	otte_access_end(&head->region->mem->access, &head->access);
	otte_region_unuse(head->region);
}

/* Tasks [first, first + count) are filled: merge them into groups and prepare each. */
static int prepare(struct otte_batch *batch, uint32_t first, size_t count)
{
	struct otte_task_record *tasks = batch->tasks + first, *head = NULL;
	size_t i, prepared;
	int ret = 0;

	for (i = 0; i < count; i++) {
		if (head && continues(head, &tasks[i])) {
			head->work.length += tasks[i].length;
			head->members++;
			tasks[i].members = 0;
		} else {
			head = &tasks[i];
		}
	}
	for (prepared = 0; prepared < count; prepared++) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): filled by check_all() */
		if (!tasks[prepared].members)
			continue;
		ret = prepare_group(&tasks[prepared]);
		if (ret)
			break;
	}
	if (!ret)
		return 0;
	otte_fail_within(ret, "request %zu: ", prepared);
	while (prepared--) {
		if (!tasks[prepared].members)
			continue;
		tasks[prepared].peer->tcp->ops->unplan(&tasks[prepared].work);
		release_group(&tasks[prepared]);
	}
	return ret;
}

/* ---- The end of a group ---- */

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
	/* Whoever ends requests for a connection that is lost, or is not to be had, has just said what became of it. */
	if ((code == -ECONNRESET || code == -ENOTCONN) && !batch->lost[0]) {
		otte_line_clean(batch->lost, sizeof(batch->lost), otte_error_text());
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

	pthread_mutex_lock(&batch->lock);
	set_results(head, code, effect, drained);
	if (batch->notifies) {
		due = due_notifies(batch);
		hopeless = batch->ended == batch->submitted ? hopeless_notifies(batch) : NULL;
		pthread_mutex_unlock(&batch->lock);
		otte_notify_send_list(due, 0);
		otte_notify_send_list(hopeless, -ECANCELED);
		pthread_mutex_lock(&batch->lock);
	}
	atomic_fetch_sub(&engine->bytes, head->work.length);
	atomic_fetch_sub(&engine->requests, members);
	if (engine->bounded)
		atomic_fetch_sub(&engine->by_priority[head->work.priority], members);
	finished = atomic_load_explicit(&batch->finished, memory_order_relaxed) + members;
	if (finished == atomic_load_explicit(&batch->submitted, memory_order_relaxed))
		tell_all_finished(batch);
	atomic_store_explicit(&batch->finished, finished, memory_order_release);
	pthread_mutex_unlock(&batch->lock);
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

/* Under peer->lock: who would end the group early finds it no more. */
static void leave_live(struct otte_peer *peer, struct otte_task_record *head)
{
	if (head->live)
		DL_DELETE(peer->live, head);
	head->live = false;
}

/* True: the peer's window has room now for what waits. The peer is held by the caller. */
static bool finish_group(struct otte_task_record *head, int code, uint8_t effect, bool drained,
			 bool sent)
{
	struct otte_peer *peer = head->peer;
	bool more, others;

	pthread_mutex_lock(&peer->lock);
	leave_live(peer, head);
	others = sent ? otte_window_done(&peer->window, &head->entry) : head->entry.last;
	/* Where other peers wait for room below High as well, they get it in turn, from the engine's thread. */
	more = sent && (others ? peer->window.queue.count[OTTE_PRIORITY_HIGH] :
				 otte_window_waiting(&peer->window));
	head->segment->uses--;
	count(&peer->counts, head, code);
	pthread_mutex_unlock(&peer->lock);
	release_group(head);
	publish(head, code, effect, drained);
	if (others)
		otte_gate_look_at(peer->engine, 0);
	return more;
}

static void end_group(struct otte_task_record *head, int code, uint8_t effect, bool drained,
		      bool sent)
{
	struct otte_peer *peer = head->peer;

	/* The segment may be closed as soon as it is let go; who finds the group not ended wants its peer. */
	otte_peer_hold(peer);
	if (finish_group(head, code, effect, drained, sent))
		otte_batch_dispatch(peer);
	otte_peer_put(peer);
}

static void count_stale(const struct otte_task_record *head)
{
	atomic_fetch_add(&head->batch->engine->counters.stale_regions, 1);
}

/*
 * What moved to or from memory that is not the registered one any more is no success: a WRITE may have
 * taken bytes of another mapping there.
 */
static void work_done(struct otte_work *work)
{
	struct otte_task_record *head = container_of(work, struct otte_task_record, work);
	uint8_t effect = work->effect;
	int code = work->code;

	if (!code && !otte_region_is_fresh(&head->region->watch)) {
		code = -ESTALE;
		effect = work->op == OTTE_WRITE ? OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE;
	}
	if (code == -ESTALE)
		count_stale(head);
	end_group(head, code, effect, work->drained, true);
}

static void end_unsent(struct otte_task_record *head, int code)
{
	head->peer->tcp->ops->unplan(&head->work);
	end_group(head, code, OTTE_EFFECT_NONE, true, false);
}

/* ---- Queueing and dispatch ---- */

enum queued {
	ENDED, /* the peer is not ready; the batch may be gone */
	WAITS, /* in the window; if alone, the peer is held for the caller */
	ENTERED, /* alone, and the caller is to start it */
};

static enum queued queue_group(struct otte_task_record *head, bool alone)
{
	struct otte_engine *engine = head->batch->engine;
	struct otte_peer *peer = head->peer;
	uint64_t deadline_ns = head->deadline_ns;
	enum queued queued = ENDED;

	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): every task has a peer */
	pthread_mutex_lock(&peer->lock);
	head->segment->uses++;
	peer->counts.submitted += head->members;
	if (peer->state == OTTE_PEER_READY) {
		head->live = true;
		DL_APPEND(peer->live, head);
		if (alone && otte_window_enter(&peer->window, &head->entry)) {
			atomic_store_explicit(&head->dispatched, true, memory_order_relaxed);
			queued = ENTERED;
		} else {
			/* There is room, as a window's bounds are those that admission has charged. */
			otte_window_push(&peer->window, &head->entry);
			if (alone)
				otte_peer_hold(peer);
			queued = WAITS;
		}
		peer->next_deadline_ns = min_u64(peer->next_deadline_ns, deadline_ns);
	}
	pthread_mutex_unlock(&peer->lock);
	/* A group that waits may have ended by now, and its batch may be gone. */
	if (queued == ENDED) {
		end_unsent(head, -ECONNRESET);
		return queued;
	}
	if (deadline_ns < atomic_load_explicit(&engine->tick_due_ns, memory_order_relaxed)) {
		otte_engine_tick_at(engine, deadline_ns);
		otte_progress_stir(&engine->progress);
	}
	return queued;
}

/* Under peer->lock: take a queued head off everything. */
static bool take_queued(struct otte_peer *peer, struct otte_task_record *head)
{
	if (!head->live || !otte_window_remove(&peer->window, &head->entry))
		return false;
	leave_live(peer, head);
	return true;
}

/* False: its memory is gone, nothing moves. sleeps: the caller has nothing else to do than to wait for it. */
static bool start(struct otte_task_record *head, bool sleeps)
{
	struct otte_transport_peer *peer = head->peer->tcp;
	const struct otte_transport_ops *ops = peer->ops;

	if (otte_region_is_fresh(&head->region->watch)) {
		if (!sleeps || !ops->exchange(peer, &head->work))
			ops->start(peer, &head->work);
		return true;
	}
	count_stale(head);
	/* Before its plan goes, which they would pin. */
	pthread_mutex_lock(&head->peer->lock);
	leave_live(head->peer, head);
	pthread_mutex_unlock(&head->peer->lock);
	ops->unplan(&head->work);
	return false;
}

/* Heads leave a window so many at a time, because the transport is called without the peer's lock. */
#define DISPATCH_FEW 16

static bool dispatch(struct otte_peer *peer, bool in_turn)
{
	struct otte_task_record *heads[DISPATCH_FEW];
	struct otte_queue_entry *entry;
	bool sent = false, room;
	uint64_t again_ns;
	size_t i, n;

	do {
		n = 0;
		again_ns = UINT64_MAX;
		room = false;
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): count is not 0 */
		pthread_mutex_lock(&peer->lock);
		while (n < DISPATCH_FEW && peer->state == OTTE_PEER_READY &&
		       (entry = otte_window_next(&peer->window))) {
			heads[n] = container_of(entry, struct otte_task_record, entry);
			heads[n++]->dispatched = true;
		}
		if (peer->window.slots)
			again_ns = peer->window.deferred && !in_turn ? 0 : peer->window.again_ns;
		pthread_mutex_unlock(&peer->lock);
		for (i = 0; i < n; i++)
			if (!start(heads[i], false))
				room |= finish_group(heads[i], -ESTALE, OTTE_EFFECT_NONE, true,
						     true);
		sent |= n > 0;
	} while (n == DISPATCH_FEW || room);
	if (again_ns != UINT64_MAX)
		otte_gate_look_at(peer->engine, again_ns);
	return sent;
}

void otte_batch_dispatch(struct otte_peer *peer)
{
	dispatch(peer, false);
}

bool otte_batch_dispatch_in_turn(struct otte_peer *peer)
{
	return dispatch(peer, true);
}

/*
 * The submission's only group, out of submit_lock. Where nothing waits before it, it need not wait either, and is
 * started here.
 */
static void start_alone(struct otte_batch *batch, struct otte_task_record *head, bool sleeps)
{
	struct otte_progress *progress = &batch->engine->progress;
	uint32_t requests = head->members;
	struct otte_peer *peer = head->peer;
	enum queued queued = queue_group(head, true);

	otte_progress_kick(progress);
	if (!sleeps)
		otte_progress_stir(progress);
	pthread_mutex_unlock(&batch->submit_lock);
	if (queued == ENTERED) {
		bool straight = sleeps && otte_progress_alone(progress, requests);

		head->work.alone = true;
		/* A copy of our own takes no look at the lanes, so that somebody has to. */
		if (sleeps && !straight && batch->engine->config.local_trusted)
			otte_progress_catch_up(progress);
		if (!start(head, straight))
			end_group(head, -ESTALE, OTTE_EFFECT_NONE, true, true);
	} else if (queued == WAITS) {
		otte_batch_dispatch(peer);
		otte_peer_put(peer);
	}
}

/* In a longer submission priorities decide, once all of it is queued. */
static void queue_all(struct otte_batch *batch, uint32_t first, size_t count)
{
	struct otte_progress *progress = &batch->engine->progress;
	struct otte_peer *peer = NULL;
	size_t i;

	for (i = 0; i < count;) {
		struct otte_task_record *head = &batch->tasks[first + i];

		i += head->members;
		if (peer != head->peer) {
			if (peer) {
				otte_batch_dispatch(peer);
				otte_peer_put(peer);
			}
			peer = head->peer;
			otte_peer_hold(peer);
		}
		queue_group(head, false);
	}
	otte_progress_kick(progress);
	otte_progress_stir(progress);
	/* NOLINTBEGIN(clang-analyzer-core.NullDereference): count is not 0 */
	otte_batch_dispatch(peer);
	/* NOLINTEND(clang-analyzer-core.NullDereference) */
	otte_peer_put(peer);
}

/* Under batch->lock: the eventfd is quiet until these have finished too. */
static void quieten(struct otte_batch *batch)
{
	uint64_t drain;

	if (read(batch->event_fd, &drain, sizeof(drain)) < 0 && errno != EAGAIN)
		otte_log(OTTE_LOG_ERROR, "a batch's eventfd: %m");
	if (!batch->attended) {
		batch->attended = true;
		otte_progress_attend(&batch->engine->progress);
	}
}

/* Under submit_lock: what a submission changes for those who look on. */
static void commit(struct otte_batch *batch, size_t count)
{
	uint32_t submitted = batch->submitted + (uint32_t)count;

	if (batch->event_fd < 0) {
		atomic_store_explicit(&batch->submitted, submitted, memory_order_release);
		return;
	}
	pthread_mutex_lock(&batch->lock);
	batch->submitted = submitted;
	quieten(batch);
	pthread_mutex_unlock(&batch->lock);
}

static int check_all(struct otte_batch *batch, const struct otte_submission *from, size_t count,
		     uint32_t first, uint64_t *bytes)
{
	struct otte_peer *checked = NULL;
	struct otte_request request;
	uint64_t now_ns = otte_now_ns();
	size_t i;
	int ret;

	*bytes = 0;
	for (i = 0; i < count; i++) {
		request_at(from, i, &request);
		ret = otte_request_check(batch->engine, &request, i, &batch->memo);
		if (!ret && request.segment->peer != checked) {
			checked = request.segment->peer;
			ret = otte_peer_check(checked);
			if (ret)
				otte_fail_within(ret, "request %zu: ", i);
		}
		if (ret)
			return ret;
		*bytes += request.length;
		fill_task(batch, first + (uint32_t)i, &request, now_ns);
	}
	return 0;
}

static int admit(struct otte_batch *batch, const struct otte_submission *from, size_t count)
{
	struct otte_engine *engine = batch->engine;
	uint64_t bytes, counts[OTTE_PRIORITIES];
	uint32_t first = batch->submitted;
	unsigned i;
	int ret;

	if (count > batch->capacity - first)
		return otte_fail(-EDQUOT, "the batch's capacity (%u) is full", batch->capacity);
	ret = check_all(batch, from, count, first, &bytes);
	if (ret)
		return ret;
	ret = charge_budgets(engine, count, bytes);
	if (ret)
		return ret;
	if (engine->bounded) {
		count_priorities(&batch->tasks[first], count, counts);
		ret = charge_priorities(engine, counts);
		if (ret)
			goto uncharge;
	}
	ret = prepare(batch, first, count);
	if (ret)
		goto uncharge_priorities;
	commit(batch, count);
	return 0;

uncharge_priorities:
	for (i = 0; engine->bounded && i < OTTE_PRIORITIES; i++)
		atomic_fetch_sub(&engine->by_priority[i], counts[i]);
uncharge:
	atomic_fetch_sub(&engine->requests, count);
	atomic_fetch_sub(&engine->bytes, bytes);
	return ret;
}

int otte_batch_admit(struct otte_batch *batch, const struct otte_submission *from, size_t count)
{
	int ret = admit(batch, from, count);

	atomic_store_explicit(&batch->admitting, false, memory_order_release);
	return ret;
}

int otte_batch_check_open(struct otte_batch *batch)
{
	int ret;

	ret = otte_fork_check(batch->engine->generation);
	if (!ret && atomic_load(&batch->engine->requester_closed))
		ret = otte_fail(-ESHUTDOWN, "this engine is closed as a requester");
	return ret;
}

void otte_batch_start(struct otte_batch *batch, size_t count, bool sleeps)
{
	uint32_t first = batch->submitted - (uint32_t)count;
	struct otte_task_record *head = &batch->tasks[first];

	if (head->members == count) {
		start_alone(batch, head, sleeps);
	} else {
		queue_all(batch, first, count);
		pthread_mutex_unlock(&batch->submit_lock);
	}
}

int otte_batch_add(struct otte_batch *batch, const struct otte_submission *from, size_t count)
{
	int ret;

	ret = otte_batch_check_open(batch);
	if (ret)
		return ret;
	pthread_mutex_lock(&batch->submit_lock);
	if (batch->engine->direct_bytes) {
		pthread_mutex_lock(&batch->lock);
		atomic_store_explicit(&batch->admitting, true, memory_order_relaxed);
		pthread_mutex_unlock(&batch->lock);
	}
	ret = otte_batch_admit(batch, from, count);
	if (ret)
		pthread_mutex_unlock(&batch->submit_lock);
	else
		otte_batch_start(batch, count, false);
	return ret;
}

/* ---- Ending early ---- */

/* Heads are ended a few at a time, because that needs the peer's lock to be free. */
#define FEW 64

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
			pinned[n++] = peer->tcp->ops->pin(&head->work);
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
			end_unsent(queued[i], -ETIME);
	while ((n = pin_overdue(peer, now_ns, pinned)))
		for (i = 0; i < n; i++)
			peer->tcp->ops->cancel(peer->tcp, pinned[i], -ETIMEDOUT);
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
		end_unsent(head, code);
	}
}

/* The group of task `index`, if it has not ended: its peer, held. */
static struct otte_peer *hold_unfinished(struct otte_batch *batch, uint32_t index)
{
	struct otte_task_record *head = &batch->tasks[index];
	struct otte_peer *peer = NULL;

	pthread_mutex_lock(&batch->lock);
	if (index < batch->submitted && head->members && head->state < OTTE_TASK_COMPLETED) {
		peer = head->peer;
		otte_peer_hold(peer);
	}
	pthread_mutex_unlock(&batch->lock);
	return peer;
}

static void cancel_queued(struct otte_peer *peer, struct otte_task_record *head)
{
	bool queued;

	pthread_mutex_lock(&peer->lock);
	queued = take_queued(peer, head);
	pthread_mutex_unlock(&peer->lock);
	if (queued)
		end_unsent(head, -ECANCELED);
}

static void cancel_dispatched(struct otte_peer *peer, struct otte_task_record *head)
{
	void *pinned = NULL;

	pthread_mutex_lock(&peer->lock);
	if (head->live && !head->entry.queued)
		pinned = peer->tcp->ops->pin(&head->work);
	pthread_mutex_unlock(&peer->lock);
	if (pinned)
		peer->tcp->ops->cancel(peer->tcp, pinned, -ECANCELED);
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
