/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who copies, and when.
 *
 * A short request by otte_batch_run() that is alone in its engine is copied inside the call (direct). Another short
 * request that was submitted by itself is copied by who submits it, and a longer one as well where that
 * thread waits for nothing else (exchange). Everything else is queued and copied in steps by who runs the loop, or
 * by the waiter of a lone request. Each is looked at between two steps: whether it was cancelled, is overdue, or its
 * peer was lost. So a copy ends with the exact number of bytes known, and always
 * drained: nobody else touches the local range.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "ledger/ledger.h"
#include "transport/chain.h"
#include "transport/local/local.h"

/* Submission takes no longer than this many bytes need: some 10 to 30 us. */
#define INLINE_BYTES (256 * KIB)
#define STEP_BYTES (1 * MIB)
/* Who waits for it anyway moves so much in its own thread, and looks up after each step. */
#define EXCHANGE_BYTES (16 * MIB)
/* So much, 2 us at the most, is moved without letting go of the lock, which costs less. */
#define AT_ONCE_BYTES (64 * KIB)
/* And so much, 8 us, where nobody else has anything under way, and no call of the module is made. */
#define DIRECT_BYTES (256 * KIB)
/* Short ones of a round, before others have their turn. */
#define ROUND_WORKS 64

static struct local_peer *to_peer(struct otte_transport_peer *peer)
{
	return container_of(peer, struct local_peer, base);
}

void local_copy_kick(struct local_peer *peer)
{
	if (peer->kicked || !peer->queue)
		return;
	peer->kicked = true;
	if (eventfd_write(peer->kick.fd, 1))
		otte_log(OTTE_LOG_ERROR, "a peer's eventfd: %m");
}

/* Under lock. */
static void calm(struct local_peer *peer)
{
	eventfd_t value;

	if (peer->kicked && eventfd_read(peer->kick.fd, &value) && errno != EAGAIN)
		otte_log(OTTE_LOG_ERROR, "a peer's eventfd: %m");
	peer->kicked = false;
}

/* ---- The end of a work ---- */

/* Without locks; nothing of the peer is touched after. */
static void tell(struct otte_work *work, int code)
{
	const struct otte_transport_ops *planner = work->own.planner;
	struct otte_work planned = { .native = work->native };

	work->code = code;
	work->effect = code && work->op == OTTE_WRITE && (work->own.moved || work->own.torn) ?
			       OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE;
	work->drained = true;
	work->carrier = OTTE_TRANSPORT_LOCAL;
	work->done(work);
	/* Who would end it early could pin its plan up to here. */
	planner->unplan(&planned);
}

/*
 * Nothing of it has moved, and nothing will by us. It may have waited for an answer of the peer's meanwhile, and a
 * transport that finds its memory gone can but break off a connection that has others' work on it.
 */
static void hand_on(struct local_peer *peer, struct otte_work *work, int code)
{
	if (!otte_region_is_fresh(work->watch))
		tell(work, -ESTALE);
	else if (work->wanted == OTTE_TRANSPORT_LOCAL)
		tell(work, code);
	else
		peer->base.next->ops->start(peer->base.next, work);
}

static void end_use(struct local_grant *grant, int use)
{
	if (local_way_has_uses(grant))
		otte_uses_end(grant->uses, use);
}

/* Under lock: the work lets go of what it had begun with. */
static int settle(struct local_peer *peer, struct otte_work *work)
{
	struct local_grant *grant = work->own.way;
	bool complete = work->own.moved == work->length;
	int code = complete ? 0 : atomic_load(&work->own.abandon);

	end_use(grant, work->own.slot);
	if (complete)
		local_peer_count(peer, work);
	if (code == -EKEYREVOKED)
		local_grant_spoil(peer, grant);
	local_grant_put(peer, grant);
	return code;
}

/*
 * Without locks, of a settled work. One that was cut short because its grant was taken back goes the other way if
 * nothing of it has moved; so does a READ, all of it and as a retry, for it is drained.
 */
static void finish(struct local_peer *peer, struct otte_work *work, int code)
{
	bool moved = work->own.moved || work->own.torn;

	if (code != -EKEYREVOKED || work->wanted == OTTE_TRANSPORT_LOCAL ||
	    (moved && (work->op == OTTE_WRITE || !work->retries))) {
		tell(work, code);
		return;
	}
	work->retries -= moved;
	if (moved)
		atomic_fetch_add(&peer->local->retries, 1);
	hand_on(peer, work, code);
}

/* ---- Moving ---- */

/* Under lock. 0: it has a slot of the grant's, own.slot; 1: it waits; negative: it is to be handed on. */
static int enter(struct local_peer *peer, struct otte_work *work, struct local_grant **out)
{
	struct local_grant *grant;
	uint64_t start;
	int ret;

	ret = local_grant_find(peer, work, &grant);
	if (ret)
		return ret;
	if (!local_way_has_uses(grant)) {
		local_grant_spoil(peer, grant);
		return -EKEYREVOKED;
	}
	start = grant->offset + work->offset;
	work->own.slot = otte_uses_begin(grant->uses, grant->owner, start, start + work->length,
					 work->op == OTTE_WRITE);
	if (work->own.slot == OTTE_USES_CONFLICT)
		return otte_fail(-EBUSY, "bytes [%lu, +%lu) of region %lu are in use",
				 (unsigned long)work->offset, (unsigned long)work->length,
				 (unsigned long)work->region);
	if (work->own.slot < 0)
		return otte_fail(-EBUSY, "the table of uses of region %lu is full",
				 (unsigned long)work->region);
	*out = grant;
	return 0;
}

/* Under lock. Likewise, and it holds the grant. */
static int admit(struct local_peer *peer, struct otte_work *work)
{
	struct local_grant *grant;
	int ret;

	if (work->own.way)
		return 0;
	ret = enter(peer, work, &grant);
	if (ret)
		return ret;
	grant->users++;
	work->own.way = grant;
	return 0;
}

/* Without lock, of a running work: true when there is nothing left to do. */
static bool step(struct otte_work *work)
{
	uint64_t n = min_u64(STEP_BYTES, work->length - work->own.moved);
	struct local_grant *grant = work->own.way;
	int ret;

	if (atomic_load(&work->own.abandon))
		return true;
	if (local_way_has_uses(grant))
		otte_uses_beat(grant->uses, work->own.slot);
	ret = local_way_move(grant, work, n);
	if (ret) {
		atomic_store(&work->own.abandon, ret);
		return true;
	}
	return work->own.moved == work->length;
}

/*
 * Under lock, which is dropped in between. One work's turn: false if nothing in the queue can run now. A work that
 * is handed on or told is gone when this returns.
 */
static bool turn(struct local_peer *peer, uint64_t *bytes)
{
	struct otte_work *work, *next;
	int ret = 1;
	bool over;

	DL_FOREACH_SAFE2(peer->queue, work, next, own.next) {
		ret = admit(peer, work);
		if (ret != 1)
			break;
	}
	if (!work)
		return false;
	DL_DELETE2(peer->queue, work, own.prev, own.next);
	if (ret == 0)
		DL_APPEND2(peer->running, work, own.prev, own.next);
	otte_tail_unlock(&peer->lock);
	if (ret < 0) {
		hand_on(peer, work, ret);
		otte_tail_lock(&peer->lock);
		return true;
	}
	*bytes += min_u64(STEP_BYTES, work->length);
	over = step(work);
	otte_tail_lock(&peer->lock);
	DL_DELETE2(peer->running, work, own.prev, own.next);
	if (!over) {
		DL_PREPEND2(peer->queue, work, own.prev, own.next);
		return true;
	}
	ret = settle(peer, work);
	otte_tail_unlock(&peer->lock);
	finish(peer, work, ret);
	otte_tail_lock(&peer->lock);
	return true;
}

/* True: something has moved, or been handed on. */
static bool run(struct local_peer *peer)
{
	uint64_t bytes = 0;
	unsigned works = 0;
	bool more = true;

	otte_tail_lock(&peer->lock);
	while (more && bytes < STEP_BYTES && works < ROUND_WORKS) {
		more = turn(peer, &bytes);
		works += more;
	}
	if (more && peer->queue)
		local_copy_kick(peer);
	else
		calm(peer);
	otte_tail_unlock(&peer->lock);
	return works;
}

void local_copy_ready(struct otte_watch *watch, uint32_t events)
{
	(void)events;
	run(container_of(watch, struct local_peer, kick));
}

/* ---- What the engine asks ---- */

/* In the submitter's thread. */
static void run_alone(struct local_peer *peer, struct otte_work *work)
{
	int code;

	while (!step(work))
		;
	otte_tail_lock(&peer->lock);
	DL_DELETE2(peer->running, work, own.prev, own.next);
	code = settle(peer, work);
	otte_tail_unlock(&peer->lock);
	finish(peer, work, code);
}

/* Not for us, as far as can be told without the lock. */
static bool passes_by(const struct local_peer *peer, const struct otte_work *work)
{
	if (work->wanted != OTTE_TRANSPORT_ANY)
		return work->wanted != OTTE_TRANSPORT_LOCAL;
	if (atomic_load_explicit(&peer->state, memory_order_relaxed) == LOCAL_DOWN)
		return true;
	return !otte_direct_worth(&peer->base, work->region, work->op) &&
	       otte_coarse_ns() < atomic_load_explicit(&peer->refused_until_ns, memory_order_relaxed);
}

/* A grant that is likely the work's, if any. */
static bool is_long_for(const struct local_grant *grant, const struct otte_work *work)
{
	return work->length > AT_ONCE_BYTES && grant && grant->client;
}

/*
 * Under lock, by a grant of the module's. False: it is too long, or has failed, and is to be tried as any other; not
 * so a WRITE that has begun.
 */
static bool direct_borrowed(struct local_peer *peer, struct otte_work *work, struct local_grant *grant)
{
	int code;

	if (is_long_for(grant, work)) {
		end_use(grant, work->own.slot);
		return false;
	}
	code = local_way_move(grant, work, work->length);
	end_use(grant, work->own.slot);
	if (!code)
		local_peer_count(peer, work);
	if (code == -EKEYREVOKED)
		local_grant_spoil(peer, grant);
	if (code && (work->op == OTTE_READ || (!work->own.moved && !work->own.torn)))
		return false;
	work->code = code;
	work->effect = code ? OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE;
	work->carrier = OTTE_TRANSPORT_LOCAL;
	return true;
}

/*
 * Under the lock throughout, or in its tail, as it is over in 8 us: nobody can want it to end early, or its grant to
 * leave. What is not borrowed cannot fail either, so it is counted first: what is written after it is no longer in the
 * nearest cache, and to unlock would wait for all of it.
 */
bool local_copy_direct(struct otte_transport_peer *base, struct otte_work *work)
{
	struct local_peer *peer = to_peer(base);
	struct local_grant *grant;
	struct otte_uses *uses;
	bool moved;

	if (work->length > DIRECT_BYTES ||
	    atomic_load_explicit(&peer->state, memory_order_relaxed) != LOCAL_READY)
		return false;
	otte_tail_lock(&peer->lock);
	moved = !peer->queue && !is_long_for(peer->last, work) && enter(peer, work, &grant) == 0;
	if (!moved || grant->client) {
		moved = moved && direct_borrowed(peer, work, grant);
		otte_tail_unlock(&peer->lock);
		return moved;
	}
	uses = grant->uses;
	work->carrier = OTTE_TRANSPORT_LOCAL;
	local_peer_count(peer, work);
	otte_tail_detach(&peer->lock);
	local_way_move(grant, work, work->length);
	otte_uses_end(uses, work->own.slot);
	otte_tail_end(&peer->lock);
	return true;
}

bool local_copy_exchange(struct otte_transport_peer *base, struct otte_work *work)
{
	struct local_peer *peer = to_peer(base);
	int ret = 1, code;

	if (passes_by(peer, work))
		return peer->base.next->ops->exchange(peer->base.next, work);
	if (work->length > EXCHANGE_BYTES)
		return false;
	otte_tail_lock(&peer->lock);
	if (!peer->queue)
		ret = admit(peer, work);
	if (ret == 0 && work->firm && work->length <= AT_ONCE_BYTES) {
		step(work);
		code = settle(peer, work);
		otte_tail_unlock(&peer->lock);
		finish(peer, work, code);
		return true;
	}
	if (ret == 0)
		DL_APPEND2(peer->running, work, own.prev, own.next);
	otte_tail_unlock(&peer->lock);
	if (ret == 0)
		run_alone(peer, work);
	else if (ret < 0 && (work->wanted == OTTE_TRANSPORT_LOCAL ||
			     !peer->base.next->ops->exchange(peer->base.next, work)))
		hand_on(peer, work, ret);
	return ret != 1;
}

void local_copy_start(struct otte_transport_peer *base, struct otte_work *work)
{
	struct local_peer *peer = to_peer(base);
	int ret = 1;

	if (passes_by(peer, work)) {
		peer->base.next->ops->start(peer->base.next, work);
		return;
	}
	otte_tail_lock(&peer->lock);
	if ((work->alone && work->length <= INLINE_BYTES && !peer->queue) ||
	    peer->state == LOCAL_DOWN)
		ret = admit(peer, work);
	if (ret == 0) {
		DL_APPEND2(peer->running, work, own.prev, own.next);
	} else if (ret == 1) {
		DL_APPEND2(peer->queue, work, own.prev, own.next);
		local_copy_kick(peer);
	}
	otte_tail_unlock(&peer->lock);
	if (ret == 0)
		run_alone(peer, work);
	else if (ret < 0)
		hand_on(peer, work, ret);
}

bool local_copy_alone(struct otte_transport_peer *base)
{
	struct local_peer *peer = to_peer(base);

	if (atomic_load_explicit(&peer->state, memory_order_relaxed) != LOCAL_DOWN && run(peer))
		return true;
	return peer->base.next->ops->receive_alone(peer->base.next);
}

/* What stands nowhere here is the other transport's, or over; it has the pin in any case. */
void local_copy_cancel(struct otte_transport_peer *base, void *pinned, int code)
{
	struct local_peer *peer = to_peer(base);
	struct otte_work *work, *each;

	otte_tail_lock(&peer->lock);
	work = otte_chain_take_pinned(&peer->queue, pinned);
	if (work) {
		atomic_store(&work->own.abandon, code);
		if (work->own.way)
			settle(peer, work);
	}
	DL_FOREACH2(peer->running, each, own.next)
		if (each->native == pinned)
			atomic_store(&each->own.abandon, code);
	otte_tail_unlock(&peer->lock);
	if (work)
		tell(work, code);
	peer->base.next->ops->cancel(peer->base.next, pinned, code);
}

/* Under lock: it has begun to read what its peer's end does not take away. */
static bool goes_on(const struct otte_work *work)
{
	return work->own.way && work->op == OTTE_READ && local_way_outlives(work->own.way);
}

static void abandon(struct otte_work *work, int code, bool writes)
{
	if (work->own.way && !goes_on(work) && (!writes || work->op == OTTE_WRITE))
		atomic_store(&work->own.abandon, code);
}

void local_copy_abandon(struct local_peer *peer, int code, bool writes)
{
	struct otte_work *work;

	DL_FOREACH2(peer->running, work, own.next)
		abandon(work, code, writes);
	DL_FOREACH2(peer->queue, work, own.next)
		abandon(work, code, writes);
}

/* Under lock: the first in the queue that ends with its peer. */
static struct otte_work *take_hopeless(struct local_peer *peer)
{
	struct otte_work *work;

	DL_FOREACH2(peer->queue, work, own.next)
		if (!goes_on(work))
			break;
	if (!work)
		return NULL;
	DL_DELETE2(peer->queue, work, own.prev, own.next);
	if (work->own.way)
		settle(peer, work);
	return work;
}

void local_copy_fail(struct local_peer *peer, int code)
{
	struct otte_work *work;

	for (;;) {
		otte_tail_lock(&peer->lock);
		work = take_hopeless(peer);
		if (!work)
			local_copy_kick(peer);
		otte_tail_unlock(&peer->lock);
		if (!work)
			return;
		tell(work, code);
	}
}
