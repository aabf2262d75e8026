/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Groups that were admitted: into their peer's window, and from there to the transport.
 *
 * Where nothing waits before the only group of a submission it need not wait either: who submits starts it. Else the
 * window (sched/window.h) says what goes, to whoever has queued, ended or is to look at what waits.
 */
#include <errno.h>
#include <utlist.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/segment.h"

enum queued {
	ENDED, /* the peer is not ready, or the deadline is over; the batch may be gone */
	WAITS, /* in the window; if alone, the peer is held for the caller */
	ENTERED, /* alone, and the caller is to start it */
};

static enum queued queue_group(struct otte_task_record *head, bool alone)
{
	struct otte_engine *engine = head->batch->engine;
	struct otte_peer *peer = head->peer;
	uint64_t deadline_ns = head->deadline_ns;
	enum queued queued = ENDED;
	int code = -ECONNRESET;

	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): every task has a peer */
	pthread_mutex_lock(&peer->lock);
	head->segment->uses++;
	peer->counts.submitted += head->members;
	if (deadline_ns <= head->submitted_ns) {
		code = -ETIME;
	} else if (peer->state == OTTE_PEER_READY) {
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
		otte_group_end_unsent(head, code);
		return queued;
	}
	if (deadline_ns < atomic_load_explicit(&engine->tick_due_ns, memory_order_relaxed)) {
		otte_engine_tick_at(engine, deadline_ns);
		otte_progress_stir(&engine->progress);
	}
	return queued;
}

/* False: its memory is gone, nothing moves. sleeps: the caller has nothing else to do than to wait for it. */
static bool start(struct otte_task_record *head, bool sleeps)
{
	struct otte_transport_peer *peer = head->peer->transport;
	const struct otte_transport_ops *ops = peer->ops;

	if (otte_region_is_fresh(&head->region->watch)) {
		if (!sleeps || !ops->exchange(peer, &head->work))
			ops->start(peer, &head->work);
		return true;
	}
	otte_group_count_stale(head);
	/* Before its plan goes, which they would pin. */
	pthread_mutex_lock(&head->peer->lock);
	otte_group_leave_live(head->peer, head);
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
				room |= otte_group_finish(heads[i], -ESTALE, OTTE_EFFECT_NONE, true,
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
			otte_group_end(head, -ESTALE, OTTE_EFFECT_NONE, true, true);
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
