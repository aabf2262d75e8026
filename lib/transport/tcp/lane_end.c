/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Slices that end before their answer: because their work is given up, or their connection is.
 *
 * Where the connection lives the queue keeps a READ that was sent, since answers come in order; it only touches no
 * memory any more. A WRITE of which anything was sent ends with its answer, or with the connection: its bytes may
 * yet be written there, and must not be so behind those of a later request (cut.c). A dead connection's slices go
 * to another lane or end. What the kernel still refers to of it waits for proof, on the list of sockets that linger
 * (zerocopy.h).
 */
#include <errno.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "transport/tcp/lane.h"

bool tcp_lane_abandon(struct tcp_lane *lane, const struct tcp_plan *plan, int code)
{
	struct tcp_slice *slice, *next, *done = NULL;
	bool drained = true;

	tcp_lane_lock_rx(lane);
	pthread_mutex_lock(&lane->lock);
	if (lane->zerocopy)
		tcp_lane_reap(lane, &done);
	DL_FOREACH(lane->unproven, slice)
		drained &= slice->plan != plan;
	DL_FOREACH_SAFE(lane->queue, slice, next) {
		if (slice->plan != plan || slice->finished)
			continue;
		if (slice->sent == 0) {
			if (lane->unsent == slice)
				lane->unsent = next;
			DL_DELETE(lane->queue, slice);
			tcp_lane_change_queued(lane, 0, slice->length);
			slice->finished = true;
			tcp_done_add(&done, slice, code, OTTE_EFFECT_NONE);
		} else if (plan->op == OTTE_WRITE) {
			slice->abandon = code;
			drained = false;
		} else {
			if (slice == lane->current && tcp_lane_has_start(lane)) {
				tcp_lane_keep_start(lane);
				tcp_lane_put_back_start(lane);
			}
			tcp_done_add_early(&done, slice, code);
		}
	}
	pthread_mutex_unlock(&lane->lock);
	pthread_mutex_unlock(&lane->rx_lock);
	tcp_done_finish(done);
	return drained;
}

/* ---- What the kernel still refers to of a dead lane ---- */

static void lingering_proven(struct tcp_claim *claim)
{
	struct tcp_slice *slice = container_of(claim, struct tcp_slice, claim);
	struct tcp_plan *plan = slice->plan;

	if (slice->kept)
		plan->keep->let_go(slice->kept);
	else
		tcp_slice_finish(slice, slice->code, slice->effect);
	tcp_plan_put(plan);
}

/* The work need not wait any longer, but its memory has to. */
static int lingering_retain(struct tcp_claim *claim)
{
	struct tcp_slice *slice = container_of(claim, struct tcp_slice, claim);
	struct tcp_plan *plan = slice->plan;
	int ret;

	ret = plan->keep->keep(plan->work, slice->local, slice->length, &slice->kept);
	if (ret)
		return ret;
	atomic_store(&plan->undrained, true);
	tcp_slice_finish(slice, -EUCLEAN, OTTE_EFFECT_UNKNOWN);
	return 0;
}

static const struct tcp_linger_ops lingering = {
	.proven = lingering_proven,
	.retain = lingering_retain,
};

/* Every slice that is left in it knows its result. */
static void end_zerocopy(struct tcp_zerocopy *zerocopy)
{
	if (zerocopy->claims) {
		tcp_zerocopy_linger(zerocopy, &lingering, NULL);
	} else {
		otte_fd_close(zerocopy->fd);
		tcp_zerocopy_close(zerocopy);
	}
}

/* One that touched nothing there goes on over another lane. False: it was sent, and its plan has no retry left. */
static bool place_again(struct tcp_lane *lane, struct tcp_slice *slice)
{
	struct tcp_plan *plan = slice->plan;
	uint32_t left = slice->sent ? atomic_load(&plan->retries) : 1;

	while (slice->sent && left &&
	       !atomic_compare_exchange_weak(&plan->retries, &left, left - 1))
		;
	if (!left)
		return false;
	if (slice->sent)
		atomic_fetch_add(&lane->peer->tcp->counters.retries, 1);
	slice->sent = 0;
	tcp_bare_unask(slice->request);
	tcp_peer_place(lane->peer, slice, 0);
	return true;
}

/* A slice that fell out of a dead lane. What the kernel refers to waits for proof. */
static void bury(struct tcp_lane *lane, struct tcp_slice *slice, int code, bool retry)
{
	struct tcp_plan *plan = slice->plan;
	uint8_t effect = plan->op == OTTE_WRITE && slice->sent ? OTTE_EFFECT_UNKNOWN :
								 OTTE_EFFECT_NONE;

	if (slice->finished) {
		tcp_plan_put(plan);
		return;
	}
	if (slice->claim.left) {
		slice->code = slice->abandon ? slice->abandon : code;
		slice->effect = effect;
		return;
	}
	if (retry && !slice->abandon && effect == OTTE_EFFECT_NONE && place_again(lane, slice))
		return;
	slice->finished = true;
	tcp_slice_finish(slice, slice->abandon ? slice->abandon : code, effect);
	tcp_plan_put(plan);
}

/* What a lane had when it went down. */
struct remains {
	enum tcp_lane_state state;
	uint64_t session, counter;
	struct tcp_slice *queue, *unproven;
	struct tcp_zerocopy *zerocopy; /* NULL: its connection is closed already */
};

/* Under both locks. -> DOWN, with nothing left of the connection. */
static void go_down(struct tcp_lane *lane, struct remains *remains)
{
	*remains = (struct remains){
		.state = lane->state,
		.session = lane->session,
		.counter = lane->counter,
		.queue = lane->queue,
		.unproven = lane->unproven,
		.zerocopy = lane->zerocopy,
	};
	if (lane->state != TCP_LANE_READY)
		otte_stream_fini(&lane->hello);
	otte_loop_remove(tcp_lane_loop(lane), &lane->watch);
	if (!lane->zerocopy)
		otte_fd_close(lane->watch.fd);
	lane->watch.fd = -1;
	lane->zerocopy = NULL;
	lane->state = TCP_LANE_DOWN;
	lane->broken = false;
	lane->retry_at_ns = otte_now_ns() + lane->backoff_ns;
	lane->backoff_ns = min_u64(lane->backoff_ns * 2,
				   lane->peer->tcp->env.config->reconnect_max_ns);
	if (tcp_lane_has_start(lane))
		tcp_lane_put_back_start(lane);
	lane->queue = NULL;
	lane->unproven = NULL;
	lane->unsent = NULL;
	lane->current = NULL;
	lane->answer_got = 0;
	lane->bare.pending = false;
	lane->held = false;
	lane->garbled = false;
	atomic_store(&lane->queued_bytes, 0);
}

/* Without locks. */
static void bury_all(struct tcp_lane *lane, const struct remains *remains, int code, bool retry)
{
	struct tcp_slice *slice, *next;

	if (remains->zerocopy)
		tcp_zerocopy_disconnect(remains->zerocopy);
	DL_FOREACH_SAFE(remains->unproven, slice, next)
		if (!slice->claim.left)
			lingering_proven(&slice->claim);
	DL_FOREACH_SAFE(remains->queue, slice, next)
		bury(lane, slice, code, retry);
	if (remains->zerocopy)
		end_zerocopy(remains->zerocopy);
}

void tcp_lane_kill(struct tcp_lane *lane, int code, bool retry)
{
	struct remains remains = { .state = TCP_LANE_DOWN };

	tcp_lane_lock_rx(lane);
	pthread_mutex_lock(&lane->lock);
	if (lane->state != TCP_LANE_DOWN)
		go_down(lane, &remains);
	pthread_mutex_unlock(&lane->lock);
	pthread_mutex_unlock(&lane->rx_lock);
	if (remains.state == TCP_LANE_DOWN)
		return;
	if (remains.state == TCP_LANE_READY)
		atomic_fetch_sub(&lane->peer->tcp->counters.lanes, 1);
	otte_log(OTTE_LOG_INFO, "a lane is down: %s", otte_error_text());
	tcp_peer_note_loss(lane->peer);
	if (remains.state == TCP_LANE_READY)
		tcp_cut_lane(lane->peer, remains.session, remains.counter);
	bury_all(lane, &remains, code, retry);
	lane->peer->changed(lane->peer->arg);
}
