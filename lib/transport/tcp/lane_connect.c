/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a lane's connection comes to be: DOWN -> CONNECTING -> HELLO -> READY. Its hello proves that it belongs to the
 * session of the control connection (control/auth.h). Under both locks of the lane.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "control/auth.h"
#include "transport/tcp/lane.h"

static int open_socket(struct tcp_lane *lane, const struct otte_client_address *to)
{
	int fd, ret;

	fd = otte_fd_socket(to->address.ss_family, SOCK_STREAM);
	if (fd < 0)
		return otte_fail(-errno, "socket: %m");
	ret = tcp_socket_prepare(lane->peer->tcp->env.config, fd);
	if (!ret && connect(fd, (const struct sockaddr *)&to->address, to->length) < 0 &&
	    errno != EINPROGRESS)
		ret = otte_fail(-errno, "connect: %m");
	if (!ret) {
		lane->watch.fd = fd;
		ret = otte_loop_add(tcp_lane_loop(lane), &lane->watch, EPOLLIN | EPOLLOUT);
	}
	if (ret) {
		lane->watch.fd = -1;
		otte_fd_close(fd);
		return ret;
	}
	lane->wants_room = true;
	return 0;
}

/* 1: a part of it waits for room; 0: all is sent. */
static int send_hello(struct tcp_lane *lane)
{
	struct otte_frame frame = { .type = OTTE_FRAME_LANE, .length = OTTE_LANE_HELLO_BYTES };
	uint8_t out[OTTE_LANE_HELLO_BYTES];

	otte_lane_hello_encode(&lane->greeting, out, sizeof(out));
	lane->state = TCP_LANE_HELLO;
	return otte_stream_send(&lane->hello, &frame, out);
}

int tcp_lane_connect(struct tcp_lane *lane)
{
	struct otte_client_address to;
	int ret;

	ret = otte_control_client_lane(lane->peer->control, OTTE_LANE_BYTES, &lane->greeting, &to);
	if (ret)
		return ret;
	tcp_cut_session(lane->peer, lane->greeting.session);

	tcp_lane_lock_rx(lane);
	pthread_mutex_lock(&lane->lock);
	if (lane->state == TCP_LANE_DOWN) {
		ret = open_socket(lane, &to);
		if (!ret) {
			lane->state = TCP_LANE_CONNECTING;
			lane->session = lane->greeting.session;
			lane->counter = lane->greeting.counter;
			tcp_cut_begin(lane);
			otte_stream_init(&lane->hello, lane->watch.fd, 4096, 4096);
		}
		atomic_store(&lane->progress_ns, otte_coarse_ns());
	}
	pthread_mutex_unlock(&lane->lock);
	pthread_mutex_unlock(&lane->rx_lock);
	return ret;
}

/* Under both locks, CONNECTING or HELLO. 1: READY now; 0: not yet. */
static int shake_hands(struct tcp_lane *lane)
{
	struct sockaddr_storage peer;
	socklen_t length = sizeof(int), peer_length = sizeof(peer);
	struct otte_frame frame;
	const uint8_t *payload;
	int error = 0, ret;

	if (lane->state == TCP_LANE_CONNECTING) {
		getsockopt(lane->watch.fd, SOL_SOCKET, SO_ERROR, &error, &length);
		if (error)
			return otte_fail(-error, "connect: %s", strerror(error));
		/* An event of the connection before this one may come late. */
		if (getpeername(lane->watch.fd, (struct sockaddr *)&peer, &peer_length) < 0)
			return 0;
		atomic_store(&lane->peer->local,
			     tcp_socket_connected(lane->peer->tcp->env.config, lane->watch.fd));
		ret = send_hello(lane);
		return ret < 0 ? ret : tcp_lane_ask_for_room(lane, ret);
	}
	ret = otte_stream_flush(&lane->hello);
	if (ret >= 0)
		ret = tcp_lane_ask_for_room(lane, ret);
	if (ret)
		return ret;
	ret = otte_stream_receive(&lane->hello, &frame, &payload);
	if (ret <= 0)
		return ret;
	if (frame.type != OTTE_FRAME_LANE_READY)
		return otte_fail(-EPROTO, "a lane's hello is answered with frame type %u", frame.type);
	otte_stream_fini(&lane->hello);
	tcp_bare_reset(&lane->bare);
	lane->zerocopy = tcp_zerocopy_open(&lane->peer->tcp->zerocopies, lane->peer->tcp->env.config,
					   lane->watch.fd, atomic_load(&lane->peer->local));
	lane->state = TCP_LANE_READY;
	lane->backoff_ns = lane->peer->tcp->env.config->reconnect_min_ns;
	return 1;
}

void tcp_lane_connecting_ready(struct tcp_lane *lane)
{
	int ret = 0;

	tcp_lane_lock_rx(lane);
	pthread_mutex_lock(&lane->lock);
	if (lane->state == TCP_LANE_CONNECTING || lane->state == TCP_LANE_HELLO)
		ret = shake_hands(lane);
	pthread_mutex_unlock(&lane->lock);
	pthread_mutex_unlock(&lane->rx_lock);
	if (ret < 0) {
		tcp_lane_kill(lane, ret, false);
	} else if (ret == 1) {
		atomic_fetch_add(&lane->peer->tcp->counters.lanes, 1);
		lane->peer->changed(lane->peer->arg);
	}
}
