/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A peer we ask: which lanes it has, and on which of them a slice goes.
 *
 * Lanes are connected when the control connection opens and again, with a growing pause, when one is
 * lost while it is open. stop() ends everything at once; a later connect() begins anew.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/tcp/tcp.h"

static struct tcp_peer *to_peer(struct otte_transport_peer *peer)
{
	return container_of(peer, struct tcp_peer, base);
}

int tcp_peer_open(struct otte_transport *transport, struct otte_control_client *control,
		  void (*changed)(void *arg), void *arg, struct otte_transport_peer **out)
{
	struct tcp *tcp = container_of(transport, struct tcp, base);
	struct tcp_peer *peer;
	uint32_t i;

	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return otte_fail(-ENOMEM, "no memory for a peer");
	peer->base.ops = transport->ops;
	peer->tcp = tcp;
	peer->control = control;
	peer->changed = changed;
	peer->arg = arg;
	peer->stopped = true;
	peer->code = -ECONNRESET;
	peer->lane_count = tcp->env.config->tcp_lanes;
	pthread_mutex_init(&peer->lock, NULL);
	for (i = 0; i < peer->lane_count; i++)
		tcp_lane_init(&peer->lanes[i], peer);
	*out = &peer->base;
	return 0;
}

void tcp_peer_close(struct otte_transport_peer *base)
{
	struct tcp_peer *peer = to_peer(base);
	uint32_t i;

	for (i = 0; i < peer->lane_count; i++)
		tcp_lane_fini(&peer->lanes[i]);
	pthread_mutex_destroy(&peer->lock);
	free(peer);
}

void tcp_peer_connect(struct otte_transport_peer *base)
{
	struct tcp_peer *peer = to_peer(base);
	int ret = 0;
	uint32_t i;

	pthread_mutex_lock(&peer->lock);
	peer->stopped = false;
	peer->code = 0;
	for (i = 0; i < peer->lane_count; i++) {
		ret = tcp_lane_connect(&peer->lanes[i]);
		if (ret)
			peer->code = ret;
	}
	pthread_mutex_unlock(&peer->lock);
	if (ret)
		peer->changed(peer->arg);
}

static enum tcp_lane_state lane_state(struct tcp_lane *lane, uint64_t *retry_at_ns)
{
	enum tcp_lane_state state;

	pthread_mutex_lock(&lane->lock);
	state = lane->state;
	if (retry_at_ns)
		*retry_at_ns = lane->retry_at_ns;
	pthread_mutex_unlock(&lane->lock);
	return state;
}

int tcp_peer_ready(struct otte_transport_peer *base)
{
	struct tcp_peer *peer = to_peer(base);
	uint32_t i, ready = 0, connecting = 0;
	int code;

	for (i = 0; i < peer->lane_count; i++) {
		enum tcp_lane_state state = lane_state(&peer->lanes[i], NULL);

		ready += state == TCP_LANE_READY;
		connecting += state == TCP_LANE_CONNECTING || state == TCP_LANE_HELLO;
	}
	if (connecting)
		return 0;
	if (ready)
		return 1;
	pthread_mutex_lock(&peer->lock);
	code = peer->code ? peer->code : -ECONNRESET;
	pthread_mutex_unlock(&peer->lock);
	return code;
}

/* Lanes of a peer go to one address, so by one NIC; the first that stands is asked. */
int tcp_peer_nic(struct otte_transport_peer *base, char name[IF_NAMESIZE])
{
	struct tcp_peer *peer = to_peer(base);
	struct sockaddr_storage to = { 0 };
	socklen_t length = sizeof(to);
	bool found = false;
	uint32_t i;

	for (i = 0; i < peer->lane_count && !found; i++) {
		struct tcp_lane *lane = &peer->lanes[i];

		pthread_mutex_lock(&lane->lock);
		found = lane->state == TCP_LANE_READY &&
			!getpeername(lane->watch.fd, (struct sockaddr *)&to, &length);
		pthread_mutex_unlock(&lane->lock);
	}
	return found ? tcp_route_interface(&to, name) :
		       otte_fail(-ENOTCONN, "no connection of this peer stands");
}

void tcp_peer_stop(struct otte_transport_peer *base, int code)
{
	struct tcp_peer *peer = to_peer(base);
	uint32_t i;

	pthread_mutex_lock(&peer->lock);
	peer->stopped = true;
	peer->code = code;
	pthread_mutex_unlock(&peer->lock);
	for (i = 0; i < peer->lane_count; i++)
		tcp_lane_kill(&peer->lanes[i], code, false);
}

static void reconnect(struct tcp_peer *peer, struct tcp_lane *lane, uint64_t now_ns)
{
	pthread_mutex_lock(&peer->lock);
	if (!peer->stopped && tcp_lane_connect(lane)) {
		pthread_mutex_lock(&lane->lock);
		lane->retry_at_ns = now_ns + peer->tcp->env.config->reconnect_max_ns;
		pthread_mutex_unlock(&lane->lock);
	}
	pthread_mutex_unlock(&peer->lock);
}

void tcp_peer_tick(struct otte_transport_peer *base, uint64_t now_ns)
{
	struct tcp_peer *peer = to_peer(base);
	const struct otte_config *config = peer->tcp->env.config;
	char limit[OTTE_TIME_TEXT];
	uint32_t i;

	tcp_zerocopies_tick(&peer->tcp->zerocopies, now_ns);
	for (i = 0; i < peer->lane_count; i++) {
		struct tcp_lane *lane = &peer->lanes[i];
		uint64_t quiet_ns, retry_at_ns;
		enum tcp_lane_state state;

		state = lane_state(lane, &retry_at_ns);
		quiet_ns = now_ns - min_u64(now_ns, atomic_load(&lane->progress_ns));

		if (state == TCP_LANE_READY && atomic_load(&lane->queued_bytes) &&
		    quiet_ns > config->tcp_stall_ns) {
			otte_fail(-ETIMEDOUT, "no byte moved for %s (tcp.stall_timeout_ms)",
				  otte_time_text(limit, config->tcp_stall_ns));
			tcp_lane_kill(lane, -ECONNRESET, true);
		} else if ((state == TCP_LANE_CONNECTING || state == TCP_LANE_HELLO) &&
			   quiet_ns > config->control_timeout_ns) {
			otte_fail(-ETIMEDOUT,
				  "a lane's hello was not answered within %s (control.timeout_ms)",
				  otte_time_text(limit, config->control_timeout_ns));
			tcp_lane_kill(lane, -ETIMEDOUT, false);
		} else if (state == TCP_LANE_DOWN && retry_at_ns <= now_ns) {
			reconnect(peer, lane, now_ns);
		}
	}
}

/*
 * The lane with the fewest bytes ahead. The first of several from `first` on: requests of one slice stay on one
 * lane of an idle peer, and those of many go to all, even if the first slices are gone before the last is placed.
 */
static struct tcp_lane *pick(struct tcp_peer *peer, uint32_t first, uint32_t refused)
{
	uint64_t least = UINT64_MAX;
	struct tcp_lane *best = NULL;
	uint32_t k;

	for (k = 0; k < peer->lane_count; k++) {
		uint32_t i = first + k < peer->lane_count ? first + k : first + k - peer->lane_count;
		uint64_t bytes = atomic_load_explicit(&peer->lanes[i].queued_bytes,
						      memory_order_relaxed);

		if (refused & 1u << i || bytes >= least)
			continue;
		least = bytes;
		best = &peer->lanes[i];
	}
	return best;
}

void tcp_peer_note_loss(struct tcp_peer *peer)
{
	pthread_mutex_lock(&peer->lock);
	snprintf(peer->lost, sizeof(peer->lost), "%s", otte_error_text());
	pthread_mutex_unlock(&peer->lock);
}

/* No lane takes anything: what the last one was lost for is why. */
static void say_lost(struct tcp_peer *peer)
{
	pthread_mutex_lock(&peer->lock);
	otte_fail(-ECONNRESET, "%s", peer->lost);
	pthread_mutex_unlock(&peer->lock);
}

void tcp_peer_place(struct tcp_peer *peer, struct tcp_slice *slice, uint32_t first)
{
	struct tcp_plan *plan = slice->plan;
	struct tcp_lane *lane;
	uint32_t refused = 0;
	int code;

	while (!atomic_load(&plan->abandon) && (lane = pick(peer, first, refused))) {
		if (tcp_lane_enqueue(lane, slice))
			return;
		refused |= 1u << (lane - peer->lanes);
	}
	code = atomic_load(&plan->abandon);
	if (!code)
		say_lost(peer);
	slice->finished = true;
	tcp_slice_finish(slice, code ? code : -ECONNRESET, OTTE_EFFECT_NONE);
	tcp_plan_put(plan);
}

int tcp_peer_plan(struct otte_transport_peer *base, struct otte_work *work)
{
	struct tcp_peer *peer = to_peer(base);

	return tcp_plan_create(&peer->tcp->env, atomic_load(&peer->local), work);
}

void tcp_peer_unplan(struct otte_work *work)
{
	struct tcp_plan *plan = work->native;
	uint32_t count = plan->count;

	work->native = NULL;
	/* No slice of it was placed; who has it pinned may outlive that, and free it as soon as these are given up. */
	if (atomic_fetch_sub(&plan->refs, count) == count)
		free(plan);
}

void tcp_peer_start(struct otte_transport_peer *base, struct otte_work *work)
{
	struct tcp_plan *plan = work->native;
	uint32_t i, count = plan->count;

	/* Another transport may have used some of them up since it was planned. */
	atomic_store_explicit(&plan->retries, work->retries, memory_order_relaxed);
	if (count == 1) {
		tcp_peer_place(to_peer(base), &plan->slices[0], 0);
		return;
	}
	/* The last slice may end the work and its plan before this returns from placing it. */
	atomic_fetch_add(&plan->refs, 1);
	for (i = 0; i < count; i++)
		tcp_peer_place(to_peer(base), &plan->slices[i], i);
	tcp_plan_put(plan);
}

bool tcp_peer_receive_alone(struct otte_transport_peer *base)
{
	struct tcp_peer *peer = to_peer(base);
	struct tcp_lane *busy = NULL;
	uint32_t i;

	for (i = 0; i < peer->lane_count; i++) {
		struct tcp_lane *lane = &peer->lanes[i];

		if (!atomic_load_explicit(&lane->queued_bytes, memory_order_relaxed))
			continue;
		if (busy)
			return false;
		busy = lane;
	}
	return busy && tcp_lane_receive_alone(busy);
}

bool tcp_peer_exchange(struct otte_transport_peer *base, struct otte_work *work)
{
	struct tcp_plan *plan = work->native;

	return plan->count == 1 && plan->op == OTTE_READ &&
	       tcp_lane_exchange(pick(to_peer(base), 0, 0), &plan->slices[0]);
}

void *tcp_peer_pin(struct otte_work *work)
{
	struct tcp_plan *plan = work->native;

	atomic_fetch_add(&plan->refs, 1);
	return plan;
}

_Atomic int *tcp_plan_mark(void *native)
{
	return &((struct tcp_plan *)native)->abandon;
}

void tcp_peer_cancel(struct otte_transport_peer *base, void *pinned, int code)
{
	struct tcp_peer *peer = to_peer(base);
	struct tcp_plan *plan = pinned;
	uint32_t i;

	atomic_store(&plan->abandon, code);
	for (i = 0; i < peer->lane_count; i++)
		if (!tcp_lane_abandon(&peer->lanes[i], plan, code) && code == -ETIMEDOUT)
			tcp_lane_break(&peer->lanes[i]);
	tcp_plan_put(plan);
}
