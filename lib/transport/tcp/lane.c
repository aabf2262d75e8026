/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One payload connection to a peer: what its life and its loop have it do.
 *
 * Slices are sent in the order of the queue and answered in that order. Sending (lane_send.c) is done by whoever
 * enqueues or by the loop, under `lock`; receiving (lane_receive.c) by the loop, or by the waiter of a lone request,
 * who sleeps in it, under `rx_lock`. lane_answer.c says what becomes of what came, bare.h how answers may come
 * without a header, lane_connect.c how a connection comes to be, lane_end.c what becomes of slices that end, or
 * whose connection does, before their answer. lane.h is what these share.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/tcp/lane.h"

static void lane_ready(struct otte_watch *watch, uint32_t events);

void tcp_lane_init(struct tcp_lane *lane, struct tcp_peer *peer)
{
	memset(lane, 0, sizeof(*lane));
	lane->watch.fd = -1;
	lane->watch.ready = lane_ready;
	lane->peer = peer;
	lane->backoff_ns = peer->tcp->env.config->reconnect_min_ns;
	pthread_mutex_init(&lane->lock, NULL);
	pthread_mutex_init(&lane->rx_lock, NULL);
}

void tcp_lane_fini(struct tcp_lane *lane)
{
	pthread_mutex_destroy(&lane->lock);
	pthread_mutex_destroy(&lane->rx_lock);
}

/* Under rx_lock: notifications, or an error that the next receive finds. */
static void hear_kernel(struct tcp_lane *lane, struct tcp_slice **done)
{
	pthread_mutex_lock(&lane->lock);
	if (lane->zerocopy)
		tcp_lane_reap(lane, done);
	pthread_mutex_unlock(&lane->lock);
}

static void lane_ready(struct otte_watch *watch, uint32_t events)
{
	struct tcp_lane *lane = container_of(watch, struct tcp_lane, watch);
	struct tcp_slice *done = NULL;
	enum tcp_lane_state state;
	int ret = 0;

	state = atomic_load(&lane->state);
	if (state == TCP_LANE_READY && (events & EPOLLOUT)) {
		pthread_mutex_lock(&lane->lock);
		if (lane->state == TCP_LANE_READY)
			tcp_lane_flush(lane);
		pthread_mutex_unlock(&lane->lock);
	}
	if (state == TCP_LANE_CONNECTING || state == TCP_LANE_HELLO) {
		tcp_lane_connecting_ready(lane);
		return;
	}
	if (state != TCP_LANE_READY || !(events & ~(uint32_t)EPOLLOUT))
		return;
	tcp_lane_lock_rx(lane);
	if (events & EPOLLERR)
		hear_kernel(lane, &done);
	if (lane->watch.fd >= 0)
		ret = tcp_lane_receive_round(lane, &done);
	pthread_mutex_unlock(&lane->rx_lock);
	tcp_done_finish(done);
	if (ret < 0)
		tcp_lane_kill(lane, -ECONNRESET, true);
}

void tcp_lane_break(struct tcp_lane *lane)
{
	pthread_mutex_lock(&lane->lock);
	if (lane->state != TCP_LANE_DOWN && !lane->broken)
		tcp_lane_shut(lane);
	pthread_mutex_unlock(&lane->lock);
}
