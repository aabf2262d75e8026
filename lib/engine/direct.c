/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A short request that is moved inside the call that makes it.
 *
 * Where a transport copies by itself, 64 KiB take under 2 us and 256 KiB 8 us, and to queue a request, plan it, find
 * it again and tell its end would cost a third of 2 us. None of it is needed for a request that is alone: its
 * batch's only one, and the only one under way in its engine. Nothing can be ahead of it, nothing has to wait its
 * turn behind it, and it is over before anybody could cancel it. What it must not do without is here: its checks,
 * its budget, the uses of its region and its segment, its range, both looks at whether the memory is still there,
 * and the transport's own admission and receipt.
 *
 * To be alone is to set the engine's direct.busy, and then to find no request counted; there is one such at a time, and
 * who counts requests to their end (close) looks at both. It does not add to limits.requests and .bytes: it is within
 * them as nothing else is there, and what comes meanwhile exceeds them by one of 256 KiB at most. batch->lock is held
 * throughout, so that who looks at the batch sees what it was before, or the result. Whatever stands in the way, also
 * what will be an error, is left to submission, which says what it is.
 *
 * After the copy nothing here, in access.c, uses.c or the transport is an atomic operation: each would wait for the
 * last bytes to get to the cache, a tenth of the whole. So what is let go of then is let go of by plain stores, and
 * the locks are left in their tails (base/tail_lock.h).
 */
#include "engine/direct.h"

#include <errno.h>

#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/segment.h"

/* The most that a transport is asked to move so. */
#define DIRECT_BYTES (256 * KIB)

void otte_direct_open(struct otte_engine *engine)
{
	if (engine->transport->ops->direct && !engine->bounded && !otte_gate_slots(engine))
		engine->direct_bytes = min_u64(DIRECT_BYTES, engine->config.max_bytes);
}

/* Under batch->lock. Everything that submission checks, too, as far as that needs no lock above this one. */
static bool suits(struct otte_batch *batch, const struct otte_request *request)
{
	struct otte_engine *engine = batch->engine;

	return !atomic_load_explicit(&batch->admitting, memory_order_acquire) && batch->event_fd < 0 &&
	       batch->finished == batch->submitted && otte_request_check_ours(engine, request, 0) == 0 &&
	       otte_mem_is_firm(request->local->mem) &&
	       otte_peer_admits(request->segment->peer, request, &batch->memo);
}

/* Only who is alone writes it. */
static void add(_Atomic uint64_t *total, uint64_t amount)
{
	atomic_store_explicit(total, atomic_load_explicit(total, memory_order_relaxed) + amount,
			      memory_order_relaxed);
}

static void count(struct otte_engine *engine, const struct otte_work *work)
{
	if (work->code)
		add(&engine->direct.failed, 1);
	else
		add(&engine->direct.completed, 1);
	if (!work->code)
		add(work->op == OTTE_READ ? &engine->direct.read_bytes : &engine->direct.write_bytes, work->length);
	else if (work->code == -ESTALE)
		atomic_fetch_add(&engine->counters.stale_regions, 1);
}

/* Field by field: what else there is of a work nobody looks at here, and to clear it all is a tenth of the whole. */
static void fill(struct otte_work *work, const struct otte_request *request, uint64_t offset)
{
	work->op = request->op;
	work->priority = request->priority;
	work->intent = request->intent;
	work->local = request->local->mem->address + offset;
	work->length = request->length;
	work->epoch = request->segment->epoch;
	work->region = request->remote_region;
	work->offset = request->remote_offset;
	work->wanted = request->transport;
	work->firm = true;
	work->watch = &request->local->watch;
	work->alone = true;
	work->code = 0;
	work->effect = OTTE_EFFECT_NONE;
	work->own.way = NULL;
	work->own.moved = 0;
	work->own.torn = false;
	atomic_store_explicit(&work->own.abandon, 0, memory_order_relaxed);
}

/*
 * Alone in the engine. The range keeps the region, too: who hides one waits for who is alone in its memory.
 */
static bool move(const struct otte_request *request, struct otte_work *work)
{
	struct otte_transport_peer *peer = request->segment->peer->transport;
	struct otte_region *region = request->local;
	uint64_t offset = region->offset + request->local_offset;
	struct otte_access access;
	bool moved;

	fill(work, request, offset);
	if (!otte_access_begin_alone(&region->mem->access, &access, offset, request->length,
				     request->op == OTTE_READ))
		return false;
	moved = !(atomic_load(&region->uses) & OTTE_REGION_HIDDEN) && otte_region_is_fresh(&region->watch) &&
		peer->ops->direct(peer, work);
	/* As after every transfer: what moved to or from other memory is no success. */
	if (moved && !otte_region_is_fresh(&region->watch)) {
		work->code = -ESTALE;
		work->effect = work->op == OTTE_WRITE ? OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE;
	}
	otte_access_end_alone(&region->mem->access, &access);
	return moved;
}

/* Under batch->lock, or in its tail: `count` requests, which are finished. */
static void set_count(struct otte_batch *batch, uint32_t count)
{
	batch->ended = batch->prefix = count;
	atomic_store_explicit(&batch->failed, 0, memory_order_relaxed);
	atomic_store_explicit(&batch->submitted, count, memory_order_relaxed);
	atomic_store_explicit(&batch->finished, count, memory_order_release);
}

/*
 * Under batch->lock: the batch as it is when all went well. Of the task, what is looked at once it has ended. How
 * long it took the caller knows better than two looks at a clock that would cost a tenth of it.
 */
static void expect(struct otte_batch *batch, const struct otte_request *request)
{
	struct otte_task_record *task = &batch->tasks[0];

	task->members = 1;
	task->length = request->length;
	task->user_data = request->user_data;
	task->ended_ns = 0;
	task->state = OTTE_TASK_COMPLETED;
	task->code = 0;
	task->transport = batch->engine->transport->ops->kind;
	task->effect = OTTE_EFFECT_NONE;
	task->drained = true;
	set_count(batch, 1);
	batch->bytes_completed = request->length;
	batch->notifies_dropped = 0;
	batch->lost[0] = '\0';
}

/* In the tail of batch->lock: its memory was not what was registered. */
static void fail(struct otte_batch *batch, const struct otte_work *work)
{
	struct otte_task_record *task = &batch->tasks[0];

	task->state = OTTE_TASK_FAILED;
	task->code = work->code;
	task->effect = work->effect;
	batch->prefix = 0;
	batch->bytes_completed = 0;
	atomic_store_explicit(&batch->failed, 1, memory_order_relaxed);
}

/*
 * As move(). Its segment is not closed meanwhile; the mark is in sight of others before the range is, and what is
 * behind the segment is not touched any more when it goes.
 */
static bool move_held(struct otte_engine *engine, const struct otte_request *request, struct otte_work *work)
{
	bool moved;

	atomic_store_explicit(&engine->direct.segment, request->segment, memory_order_relaxed);
	moved = move(request, work);
	atomic_store_explicit(&engine->direct.segment, NULL, memory_order_release);
	return moved;
}

/* In the tail of batch->lock, alone in the engine. False: the batch is empty. */
static bool run(struct otte_batch *batch, const struct otte_request *request)
{
	struct otte_engine *engine = batch->engine;
	struct otte_work work;

	expect(batch, request);
	if (!move_held(engine, request, &work)) {
		set_count(batch, 0);
		return false;
	}
	if (work.code)
		fail(batch, &work);
	count(engine, &work);
	return true;
}

/* busy -> not; what was done before is seen by who finds it so. */
static void leave(struct otte_engine *engine)
{
	atomic_store_explicit(&engine->direct.busy, false, memory_order_release);
}

/* Nobody else is, no request is under way, and the engine was not closed meanwhile. */
static bool be_alone(struct otte_engine *engine)
{
	if (atomic_load_explicit(&engine->requests, memory_order_relaxed) ||
	    atomic_exchange(&engine->direct.busy, true))
		return false;
	if (!atomic_load(&engine->requests) && !atomic_load(&engine->requester_closed))
		return true;
	leave(engine);
	return false;
}

static bool is_short(const struct otte_engine *engine, const struct otte_request *request)
{
	return request->length <= engine->direct_bytes &&
	       (request->transport == OTTE_TRANSPORT_ANY || request->transport == OTTE_TRANSPORT_LOCAL) &&
	       (request->deadline_ns == OTTE_DEADLINE_DEFAULT || request->deadline_ns == OTTE_DEADLINE_NONE);
}

/*
 * Everything that can be written down is so before the move: afterwards it is no longer in the nearest cache. The end
 * of the lock's tail is the last that is touched of the batch, and of the engine.
 */
bool otte_direct_run(struct otte_batch *batch, const struct otte_request *request, int *failed)
{
	struct otte_engine *engine = batch->engine;
	bool moved;

	if (!is_short(engine, request) || !request->segment ||
	    !otte_direct_worth(request->segment->peer->transport, request->remote_region, request->op) ||
	    !be_alone(engine))
		return false;
	otte_tail_lock(&batch->lock);
	if (!suits(batch, request)) {
		leave(engine);
		otte_tail_unlock(&batch->lock);
		return false;
	}
	otte_tail_detach(&batch->lock);
	moved = run(batch, request);
	*failed = (int)batch->failed;
	leave(engine);
	otte_tail_end(&batch->lock);
	return moved;
}
