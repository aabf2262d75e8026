/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A request, or a stretch of a long one, and the slices that it was cut into.
 *
 * A parent begins when its peer may be asked for all of its slices: as many more ASKs may be
 * unanswered then, and none of them is given to another parent. So two that want more than half
 * each go one after the other, and neither waits with a part of what the other one needs. What a
 * source grants it grants slice by slice, and each slice goes on by itself: a grant never waits for
 * another one of its parent.
 *
 * How finely it is cut: a slice costs a grant, with its system calls at the source, and is what
 * rails share. Over one rail a request is not cut, up to OTTE_RDMA_PIECE_BYTES. Over several there
 * are up to SLICES_PER_RAIL for each, of 64 KiB and more, so that they can be given out by weight.
 *
 * The work is told, or goes the other way, when no slice is under way any more: nothing of ours can
 * touch its range then, or it is kept.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "sched/slice.h"
#include "transport/rdma/endpoint.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/parent.h"
#include "transport/rdma/payload.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/transfer.h"
#include "transport/rdma/waiting.h"

#define SLICES_PER_RAIL 4
/* A range that was given back elsewhere is asked for again so soon, if it is busy. */
#define BUSY_AGAIN_NS 2000000

/* ---- What becomes of a slice ---- */

static void leave(struct otte_rdma_slice *slice, enum otte_rdma_slice_state state)
{
	struct otte_rdma_parent *parent = slice->parent;

	if (slice->state == OTTE_RDMA_SLICE_WAITING) {
		parent->waiting--;
		parent->peer->unbegun--;
	} else {
		parent->under_way--;
	}
	slice->state = state;
	/* Refused where its bytes are in doubt: then they stay charged. */
	otte_device_lease_end(&slice->lease);
	parent->peer->worker->busy = true;
}

/*
 * The request ends with it, once nothing of it is under way. Settled: not even the other transport
 * is tried.
 */
static void fail(struct otte_rdma_parent *parent, int code, bool settled)
{
	uint32_t i;

	if (!parent->code) {
		parent->code = code;
		parent->settled = settled;
	}
	otte_rdma_stage_leave(parent->peer->worker, &parent->turn);
	for (i = 0; i < parent->count; i++)
		if (parent->slices[i].state == OTTE_RDMA_SLICE_WAITING)
			leave(&parent->slices[i], OTTE_RDMA_SLICE_DROPPED);
}

void otte_rdma_slice_done(struct otte_rdma_slice *slice)
{
	slice->parent->done++;
	leave(slice, OTTE_RDMA_SLICE_DONE);
}

void otte_rdma_slice_failed(struct otte_rdma_slice *slice, int code)
{
	leave(slice, OTTE_RDMA_SLICE_DROPPED);
	fail(slice->parent, code, true);
}

void otte_rdma_slice_unproven(struct otte_rdma_slice *slice)
{
	slice->parent->unproven++;
	leave(slice, OTTE_RDMA_SLICE_UNPROVEN);
	fail(slice->parent, -EUCLEAN, true);
}

/* ---- Another rail ---- */

/* False: no NIC that reaches the peer knows its memory. */
static bool fill_wanted(const struct otte_rdma_peer *peer, const struct otte_work *work,
			struct otte_rdma_wanted *wanted)
{
	const struct otte_devices *devices = peer->rdma->devices;
	uint64_t known = otte_rdma_stages_nics(peer->rdma, work, peer->nics);

	*wanted = (struct otte_rdma_wanted){
		.nics = known & otte_devices_eligible(devices, work->published->location),
		.op = work->op,
	};
	return known;
}

static int select_nics(struct otte_rdma_peer *peer, const struct otte_rdma_choice *choice,
		       struct otte_location location, uint64_t bytes,
		       const struct otte_slicing *slicing, struct otte_device_charge *charge)
{
	const struct otte_devices_request request = {
		.location = location,
		.allowed = choice->nics,
		.slicing = *slicing,
		.length = bytes,
	};

	return otte_devices_select(peer->rdma->devices, &request, charge);
}

static void put_on(struct otte_rdma_slice *slice, uint32_t index, struct otte_device_charge *charge,
		   const struct otte_rdma_choice *choice)
{
	otte_device_charge_take(charge, index, &slice->lease);
	slice->nic = slice->lease.nic;
	slice->remote_nic = choice->remote[slice->nic];
}

/*
 * Of a slice that nothing was posted of, or whose payload cannot be under way any more. `but` may
 * be NULL.
 */
static int choose_again(struct otte_rdma_slice *slice, const struct otte_rdma_endpoint *but,
			uint64_t now_ns)
{
	const struct otte_slicing one = { .count = 1, .block_bytes = slice->bytes };
	struct otte_rdma_peer *peer = slice->parent->peer;
	struct otte_rdma_wanted wanted;
	struct otte_rdma_choice choice;
	struct otte_device_charge charge;
	int ret;

	fill_wanted(peer, slice->parent->work, &wanted);
	wanted.but = but;
	ret = otte_rdma_rails_choose(peer, &wanted, now_ns, &choice);
	if (ret > 0)
		return otte_fail(-ENETUNREACH, "no rail to the peer is known to be well");
	if (!ret)
		ret = select_nics(peer, &choice, slice->parent->location, slice->bytes, &one,
				  &charge);
	if (ret)
		return ret;
	otte_device_lease_end(&slice->lease);
	put_on(slice, 0, &charge, &choice);
	return 0;
}

static void wait_again(struct otte_rdma_slice *slice, uint64_t again_ns)
{
	struct otte_rdma_parent *parent = slice->parent;

	slice->state = OTTE_RDMA_SLICE_WAITING;
	slice->again_ns = again_ns;
	parent->under_way--;
	parent->waiting++;
	parent->peer->unbegun++;
	parent->peer->worker->busy = true;
}

/*
 * The payload of a READ may go again, so often as the request may be tried again; of a WRITE
 * nothing that went may.
 */
static bool may_go_again(const struct otte_rdma_slice *slice, bool posted)
{
	const struct otte_work *work = slice->parent->work;

	return !posted || (work->op == OTTE_READ && slice->tries < work->retries);
}

void otte_rdma_slice_lost(struct otte_rdma_slice *slice, const struct otte_rdma_endpoint *endpoint,
			  bool posted)
{
	struct otte_rdma_parent *parent = slice->parent;
	struct otte_rdma *rdma = parent->peer->rdma;
	int abandon = atomic_load(&parent->work->own.abandon);

	if (!parent->code && !abandon && may_go_again(slice, posted) &&
	    parent->peer->state == OTTE_RDMA_PEER_READY && parent->epoch == parent->peer->epoch &&
	    !choose_again(slice, endpoint, otte_now_ns())) {
		slice->tries += posted;
		slice->moved = true;
		atomic_fetch_add(&rdma->slices_moved, 1);
		atomic_fetch_add(&rdma->retries, posted);
		wait_again(slice, 0);
		return;
	}
	parent->replays |= posted;
	leave(slice, OTTE_RDMA_SLICE_DROPPED);
	fail(parent, abandon ? abandon : -ECONNRESET,
	     abandon || (posted && !parent->work->retries));
}

void otte_rdma_slice_refused(struct otte_rdma_slice *slice, int code)
{
	struct otte_rdma_parent *parent = slice->parent;
	uint64_t now_ns = otte_now_ns();

	/* What it was granted on the rail that failed is about to be taken back there. */
	if (code == -EBUSY && slice->moved && !parent->code) {
		if (!slice->busy_ns)
			slice->busy_ns = now_ns;
		if (now_ns - slice->busy_ns < parent->peer->rdma->env.config->control_timeout_ns) {
			wait_again(slice, now_ns + BUSY_AGAIN_NS);
			return;
		}
	}
	/* It is asked for over a cell, as are those of its region from now on. */
	if (code == OTTE_RDMA_WANTS_CELL && !slice->celled && !parent->code) {
		otte_rdma_peer_note_celled(parent->peer, parent->work->region);
		wait_again(slice, 0);
		return;
	}
	/*
	 * No place has come for a while, or a producer is not done: what may go by nothing else
	 * asks again.
	 */
	if (code == -EAGAIN && (parent->work->wanted == OTTE_TRANSPORT_RDMA || slice->celled) &&
	    !parent->code) {
		wait_again(slice, 0);
		return;
	}
	leave(slice, OTTE_RDMA_SLICE_DROPPED);
	fail(parent, code, false);
}

/* ---- The end of a parent ---- */

/* From the first to the last byte that a NIC may still use. */
static int keep(struct otte_rdma_parent *parent)
{
	const struct otte_keep_ops *ops = &parent->peer->rdma->env.keep;
	uint64_t from = UINT64_MAX, to = 0;
	void *kept;
	uint32_t i;

	for (i = 0; i < parent->count; i++) {
		const struct otte_rdma_slice *slice = &parent->slices[i];

		if (slice->state != OTTE_RDMA_SLICE_UNPROVEN)
			continue;
		from = min_u64(from, slice->offset);
		to = max_u64(to, slice->offset + slice->bytes);
	}
	parent->work->carrier = OTTE_TRANSPORT_RDMA;
	return ops->keep(parent->work, parent->work->local + from, to - from, &kept);
}

/* What has arrived without a gap. */
static uint64_t prefix(const struct otte_rdma_parent *parent)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < parent->count && parent->slices[i].state == OTTE_RDMA_SLICE_DONE; i++)
		bytes += parent->slices[i].bytes;
	return bytes;
}

/*
 * Between two stretches the work is in the queue again, and before all others but those of a higher
 * priority. It is in one list or the other whenever somebody wants its end; who did so before is
 * heard here. What has moved goes on by grants (lease.c): a lease moves a work from its beginning.
 */
static int let_go(struct otte_rdma_peer *peer, struct otte_work *work, bool goes_on)
{
	int code;

	pthread_mutex_lock(&peer->lock);
	DL_DELETE2(peer->running, work, own.prev, own.next);
	code = atomic_load(&work->own.abandon);
	if (goes_on && !code)
		otte_rdma_waiting_return(&peer->queue, work);
	pthread_mutex_unlock(&peer->lock);
	return code;
}

static void charge_retries(struct otte_rdma_parent *parent)
{
	struct otte_work *work = parent->work;
	uint32_t most = 0, i;

	for (i = 0; i < parent->count; i++)
		most = (uint32_t)max_u64(most, parent->slices[i].tries);
	/* The other transport is going to try it again. */
	if (parent->code && !parent->settled && parent->replays && work->op == OTTE_READ &&
	    work->wanted != OTTE_TRANSPORT_RDMA) {
		most++;
		atomic_fetch_add(&parent->peer->rdma->retries, 1);
	}
	work->retries -= (uint32_t)min_u64(most, work->retries);
}

static void tell(struct otte_rdma_parent *parent)
{
	struct otte_rdma_peer *peer = parent->peer;
	struct otte_work *work = parent->work;
	bool goes_on = !parent->code && work->own.moved < work->length;
	int abandon = let_go(peer, work, goes_on);

	if (goes_on && !abandon)
		return;
	if (goes_on)
		otte_rdma_work_tell(work, abandon, true);
	else if (!parent->code || parent->settled || parent->unproven)
		otte_rdma_work_tell(work, parent->unproven ? -EUCLEAN : parent->code,
				    !parent->unproven);
	else
		otte_rdma_work_leave(peer, work, parent->code);
}

/* Nothing of it is under way any more. */
static void end(struct otte_rdma_parent *parent)
{
	struct otte_rdma_peer *peer = parent->peer;

	if (parent->unproven && keep(parent)) {
		otte_log(OTTE_LOG_ERROR, "a range that a NIC may still use: %s", otte_error_text());
		return; /* the request has it as long as it is not told; with the next look */
	}
	parent->work->own.torn |= parent->done && parent->code;
	parent->work->own.moved += prefix(parent);
	charge_retries(parent);
	tell(parent);
	DL_DELETE(peer->parents, parent);
	peer->worker->busy = true;
	free(parent);
}

/* ---- The beginning ---- */

/*
 * In the queue until now, if it is still there: who wants it to end early may have been faster.
 * Another one may be at its place in memory then, which is taken where the plan is its own, too.
 */
static bool take(struct otte_rdma_peer *peer, const struct otte_work *work,
		 const struct otte_rdma_plan *plan)
{
	struct otte_rdma_plan now = {};
	struct otte_work *first;
	bool same = false;

	pthread_mutex_lock(&peer->lock);
	first = peer->queue;
	if (first && first == work) {
		otte_rdma_plan(peer, first, &now);
		same = now.wanted.op == plan->wanted.op && now.wanted.nics == plan->wanted.nics &&
		       now.left == plan->left && now.staged == plan->staged &&
		       !otte_rdma_poll_producer(first);
	}
	if (same) {
		DL_DELETE2(peer->queue, first, own.prev, own.next);
		DL_APPEND2(peer->running, first, own.prev, own.next);
	}
	pthread_mutex_unlock(&peer->lock);
	return same;
}

static uint32_t most_slices(const struct otte_rdma_peer *peer, uint8_t op)
{
	uint64_t most = op == OTTE_READ ? OTTE_SLICES_HOST_READ : OTTE_SLICES_ELSE;

	return (uint32_t)min_u64(most,
				 min_u64(peer->rdma->env.config->rdma_grants, peer->paths.grants));
}

/* None is longer, be it the last one; of whole base blocks, where they may be so long. */
static struct otte_slice_geometry cut_evenly(uint64_t bytes, uint64_t longest, uint64_t count)
{
	/* Of something there is at least one. */
	uint64_t share = (bytes + max_u64(count, 1) - 1) / max_u64(count, 1);
	uint64_t blocks = (share + OTTE_SLICE_BASE_BYTES - 1) / OTTE_SLICE_BASE_BYTES;
	struct otte_slice_geometry geometry = {
		.block_bytes = max_u64(min_u64(longest, blocks * OTTE_SLICE_BASE_BYTES), 1),
	};

	geometry.count = (uint32_t)((bytes + geometry.block_bytes - 1) / geometry.block_bytes);
	geometry.last_bytes = bytes - (geometry.count - 1) * geometry.block_bytes;
	return geometry;
}

/* A chunk holds all of it, at either side where there are any. */
static uint64_t longest_slice(const struct otte_rdma_peer *peer, bool staged)
{
	uint64_t ours = otte_rdma_stages_longest(peer->rdma, staged);
	uint64_t theirs = peer->paths.chunk_bytes;

	return theirs ? min_u64(ours, theirs) : ours;
}

/* Of what is left of a work, the bytes of the next parent, and how they are cut. */
static uint64_t cut(const struct otte_rdma_peer *peer, const struct otte_rdma_plan *plan,
		    unsigned int rails, struct otte_slice_geometry *geometry)
{
	uint64_t most = most_slices(peer, plan->wanted.op);
	uint64_t longest = longest_slice(peer, plan->staged);
	uint64_t bytes = min_u64(plan->left, most * longest);
	uint64_t pieces = (bytes + longest - 1) / longest;
	uint64_t shares = rails > 1 ? rails * SLICES_PER_RAIL : 1;

	if (longest < OTTE_RDMA_PIECE_BYTES) {
		*geometry = cut_evenly(bytes, longest, min_u64(most, max_u64(pieces, shares)));
		return bytes;
	}
	*geometry = otte_slice_geometry(bytes, OTTE_SLICE_BASE_BYTES,
					(uint32_t)min_u64(most, max_u64(pieces, shares)));
	return bytes;
}

static struct otte_rdma_parent *make(struct otte_rdma_peer *peer, struct otte_work *work,
				     uint8_t op, const struct otte_slice_geometry *geometry)
{
	struct otte_rdma_parent *parent;
	uint32_t i;

	parent = calloc(1, sizeof(*parent) + geometry->count * sizeof(parent->slices[0]));
	if (!parent)
		return NULL;
	parent->peer = peer;
	parent->work = work;
	parent->op = op;
	parent->epoch = peer->epoch;
	parent->count = parent->waiting = geometry->count;
	for (i = 0; i < geometry->count; i++) {
		struct otte_rdma_slice *slice = &parent->slices[i];

		slice->parent = parent;
		otte_slice_of(geometry, i, &slice->offset, &slice->bytes);
	}
	return parent;
}

static void admit(struct otte_rdma_parent *parent, struct otte_device_charge *charge,
		  const struct otte_rdma_choice *choice)
{
	struct otte_rdma_peer *peer = parent->peer;
	uint32_t i;

	for (i = 0; i < parent->count; i++) {
		parent->slices[i].offset += parent->work->own.moved;
		put_on(&parent->slices[i], i, charge, choice);
	}
	DL_APPEND(peer->parents, parent);
	peer->unbegun += parent->count;
	atomic_fetch_add(&peer->rdma->slices, parent->count);
}

/* Whether so many more may be asked for. */
static bool has_room(const struct otte_rdma_peer *peer, uint32_t count)
{
	return peer->unanswered + peer->unbegun + count <=
	       min_u64(peer->rdma->env.config->rdma_grants, peer->paths.grants);
}

static int no_nic(const struct otte_rdma_plan *plan)
{
	char text[OTTE_LOCATION_TEXT];

	if (plan->known)
		return otte_fail(-ENODEV, "no NIC that reaches the peer is for memory at %s",
				 otte_location_text(text, plan->location));
	return otte_fail(-EOPNOTSUPP, "no NIC that reaches the peer knows the local region");
}

int otte_rdma_parent_begin(struct otte_rdma_peer *peer, struct otte_work *work,
			   const struct otte_rdma_plan *plan, uint64_t now_ns)
{
	struct otte_slice_geometry geometry;
	struct otte_device_charge charge;
	struct otte_rdma_parent *parent;
	struct otte_rdma_choice choice;
	struct otte_slicing slicing;
	uint64_t bytes;
	int ret;

	if (!has_room(peer, 1))
		return 1;
	if (!plan->wanted.nics && peer->nics)
		return no_nic(plan);
	ret = plan->staged ? otte_rdma_stages_ready(peer->rdma) : 0;
	if (ret)
		return ret;
	ret = otte_rdma_rails_choose(peer, &plan->wanted, now_ns, &choice);
	if (ret > 0 && !plan->patient)
		return otte_fail(-ENETUNREACH, "no rail to the peer is known to be well");
	if (ret)
		return ret;
	bytes = cut(peer, plan, (unsigned int)__builtin_popcountll(choice.nics), &geometry);
	if (!has_room(peer, geometry.count))
		return 1;
	slicing = (struct otte_slicing){ .count = geometry.count,
					 .block_bytes = geometry.block_bytes };
	ret = select_nics(peer, &choice, plan->location, bytes, &slicing, &charge);
	if (ret)
		return ret;
	parent = make(peer, work, plan->wanted.op, &geometry);
	if (!parent)
		ret = otte_fail(-ENOMEM, "no memory for a request over rdma");
	else
		parent->location = plan->location;
	if (ret || !take(peer, work, plan)) {
		otte_device_charge_abandon(&charge);
		free(parent);
		return ret;
	}
	admit(parent, &charge, &choice);
	return 0;
}

void otte_rdma_plan(const struct otte_rdma_peer *peer, const struct otte_work *work,
		    struct otte_rdma_plan *plan)
{
	plan->known = fill_wanted(peer, work, &plan->wanted);
	plan->staged = otte_rdma_stages(peer->rdma, work->published);
	plan->location = work->published->location;
	plan->left = work->length - work->own.moved;
	plan->patient = work->wanted == OTTE_TRANSPORT_RDMA;
}

/* ---- What waits ---- */

/* 0; negative: it cannot be asked for, over this rail. */
static int ask_over(struct otte_rdma_slice *slice, struct otte_rdma_pair *pair,
		    const struct otte_rdma_stage *stage, uint64_t now_ns)
{
	struct otte_rdma_peer *peer = slice->parent->peer;
	struct otte_rail_ticket ticket;
	int ret;

	ret = otte_rdma_rail_admit(peer, slice->nic, slice->remote_nic, now_ns, &ticket);
	if (ret == -EAGAIN)
		return otte_fail(-ENETUNREACH, "a rail to the peer is paused");
	if (ret)
		return ret;
	if (ticket.purpose == OTTE_RAIL_TRAFFIC)
		ret = otte_rdma_transfer_begin(peer, pair, slice, &ticket, stage);
	else /* its pause began after the choice */
		ret = otte_fail(-ENETUNREACH, "a rail to the peer is to be tried");
	if (ret)
		otte_rdma_rail_cancel(peer, &ticket);
	return ret;
}

/*
 * 0: it is asked for; 1: later; negative: it cannot be, over this rail. *in_turn: it waits for a
 * stage, and for nothing else.
 */
static int ask(struct otte_rdma_slice *slice, uint64_t now_ns, bool *in_turn)
{
	struct otte_rdma_peer *peer = slice->parent->peer;
	struct otte_rdma_endpoint *endpoint;
	struct otte_rdma_stage stage;
	struct otte_rdma_pair *pair;
	int ret;

	if (!(peer->trusted[slice->nic] >> slice->remote_nic & 1))
		return otte_fail(-ENETUNREACH, "something has failed on a rail to the peer");
	slice->celled = otte_rdma_peer_is_celled(peer, slice->parent->work->region);
	if (slice->celled)
		ret = otte_rdma_endpoint_get_cells(peer, slice->nic, slice->remote_nic,
						   slice->parent->op, &endpoint);
	else
		ret = otte_rdma_endpoint_get(peer, slice->nic, slice->remote_nic, slice->parent->op,
					     &endpoint);
	if (!ret)
		ret = otte_rdma_endpoint_pick(endpoint, now_ns, &pair);
	if (ret == -EDQUOT && slice->celled) { /* there will be room */
		peer->worker->soon = true;
		return 1;
	}
	if (ret)
		return ret;
	ret = otte_rdma_stage_take(peer->worker, slice, &stage);
	if (ret < 0) { /* on no rail */
		fail(slice->parent, ret, false);
		return 1;
	}
	*in_turn |= ret > 0;
	if (ret)
		return ret;
	ret = ask_over(slice, pair, &stage, now_ns);
	if (ret)
		otte_rdma_stage_give(peer->worker, &stage);
	return ret;
}

/* It was not asked for. Another rail, or the end of all of it. */
static void go_round(struct otte_rdma_slice *slice, int code, uint64_t now_ns)
{
	const unsigned int nic = slice->nic, remote_nic = slice->remote_nic;
	struct otte_rdma_parent *parent = slice->parent;

	/* What holds no rail off, as no memory, would send it from one to another and back. */
	if (++slice->turns > OTTE_NIC_IDS || choose_again(slice, NULL, now_ns) ||
	    (slice->nic == nic && slice->remote_nic == remote_nic))
		fail(parent, code, false);
	parent->peer->worker->busy = true;
}

static void begin_slices(struct otte_rdma_parent *parent, uint64_t now_ns)
{
	struct otte_rdma_peer *peer = parent->peer;
	bool in_turn = false;
	uint32_t i;
	int ret;

	for (i = 0; i < parent->count && !peer->broken && !parent->code; i++) {
		struct otte_rdma_slice *slice = &parent->slices[i];

		if (slice->state != OTTE_RDMA_SLICE_WAITING)
			continue;
		if (now_ns < slice->again_ns) {
			peer->worker->soon = true;
			continue;
		}
		ret = ask(slice, now_ns, &in_turn);
		if (ret < 0)
			go_round(slice, ret, now_ns);
		if (ret)
			continue;
		slice->turns = 0;
		slice->state = OTTE_RDMA_SLICE_UNDER_WAY;
		parent->waiting--;
		parent->under_way++;
		peer->unbegun--;
		peer->worker->busy = true;
	}
	/* What waits for room on a rail, others need not wait for. */
	if (!in_turn)
		otte_rdma_stage_leave(peer->worker, &parent->turn);
}

void otte_rdma_parents_go_on(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	struct otte_rdma_parent *parent, *next;
	int abandon;

	DL_FOREACH_SAFE(peer->parents, parent, next) {
		abandon = atomic_load(&parent->work->own.abandon);
		if (abandon && (parent->waiting || parent->under_way))
			fail(parent, abandon, true);
		if (parent->waiting)
			begin_slices(parent, now_ns);
		if (!parent->waiting && !parent->under_way)
			end(parent);
	}
}

void otte_rdma_parents_fail(struct otte_rdma_peer *peer, int code, bool settled)
{
	struct otte_rdma_parent *parent;

	DL_FOREACH(peer->parents, parent)
		fail(parent, code, settled);
}
