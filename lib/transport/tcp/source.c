/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A serving lane's life: it is accepted, served by one of the loops (source_step.c), and ends. See source.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "transport/tcp/source.h"

static void free_lane(struct otte_retired *retired)
{
	struct source_lane *lane = container_of(retired, struct source_lane, retired);

	free(lane->sent);
	free(lane);
}

void tcp_source_lane_over(void *arg)
{
	struct source_lane *lane = arg;

	lane->tcp->env.source.lane_closed(lane->peer);
	otte_loop_retire(lane->loop, &lane->retired);
}

void tcp_source_end_lane(struct source_lane *lane)
{
	struct tcp *tcp = lane->tcp;
	bool over = tcp_source_end_zerocopy(lane);
	struct source_lane *other;

	tcp_source_end_use(lane, false);
	otte_loop_remove(lane->loop, &lane->watch); /* it may not be in it */
	pthread_mutex_lock(&tcp->lock);
	DL_DELETE(tcp->lanes, lane);
	if (over)
		otte_fd_close(lane->watch.fd);
	lane->watch.fd = -1;
	DL_FOREACH(tcp->lanes, other)
		if (other->cutting && other->peer == lane->peer)
			tcp_source_kick(other);
	pthread_mutex_unlock(&tcp->lock);
	atomic_fetch_sub(&tcp->counters.lanes, 1);
	if (over)
		tcp_source_lane_over(lane);
	else
		tcp_source_linger(lane);
}

int tcp_source_open(struct tcp *tcp)
{
	return tcp_express_init(&tcp->express, tcp_source_serve_alone);
}

int tcp_source_accept(struct otte_transport *transport, void *peer, int fd,
		      enum otte_lane_kind kind, uint64_t counter)
{
	struct tcp *tcp = container_of(transport, struct tcp, base);
	struct source_lane *lane;
	int ret;

	if (kind != OTTE_LANE_BYTES)
		return otte_fail(-EOPNOTSUPP, "transport tcp has no lanes of frames");
	ret = tcp_socket_prepare(tcp->env.config, fd);
	if (ret)
		return ret;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return otte_fail(-ENOMEM, "no memory for a lane");
	lane->tcp = tcp;
	lane->peer = peer;
	lane->counter = counter;
	lane->retired.free = free_lane;
	lane->watch.fd = fd;
	lane->watch.ready = tcp_source_ready;
	tcp_source_open_zerocopy(lane, tcp_socket_connected(tcp->env.config, fd));
	lane->progress_ns = otte_coarse_ns();
	pthread_mutex_lock(&tcp->lock);
	lane->loop_index = tcp->next_loop++ % tcp->env.config->tcp_workers;
	lane->loop = &tcp->env.serve_loops[lane->loop_index];
	if (tcp_source_is_cut(tcp, peer, counter))
		ret = otte_fail(-ECONNRESET, "the peer has given up a lane before it was taken");
	DL_APPEND(tcp->lanes, lane);
	if (!ret)
		ret = otte_loop_add(lane->loop, &lane->watch, EPOLLIN);
	if (ret)
		DL_DELETE(tcp->lanes, lane);
	else
		atomic_fetch_add(&tcp->counters.lanes, 1);
	pthread_mutex_unlock(&tcp->lock);
	if (ret) {
		tcp_zerocopy_close(lane->zerocopy);
		free_lane(&lane->retired);
	}
	return ret;
}

void tcp_source_drop(struct otte_transport *transport, void *peer)
{
	struct tcp *tcp = container_of(transport, struct tcp, base);
	struct source_lane *lane;

	pthread_mutex_lock(&tcp->lock);
	DL_FOREACH(tcp->lanes, lane)
		if (lane->peer == peer)
			shutdown(lane->watch.fd, SHUT_RDWR);
	pthread_mutex_unlock(&tcp->lock);
}

void tcp_source_tick(struct otte_transport *transport, unsigned index, uint64_t now_ns)
{
	struct tcp *tcp = container_of(transport, struct tcp, base);
	struct source_lane *lane;

	tcp_zerocopies_tick(&tcp->zerocopies, now_ns);
	pthread_mutex_lock(&tcp->lock);
	DL_FOREACH(tcp->lanes, lane) {
		if (lane->parked) {
			tcp_source_kick(lane); /* its time may be over */
			continue;
		}
		if (lane->loop_index != index || atomic_load(&lane->alone) ||
		    tcp_source_between_requests(lane))
			continue;
		if (now_ns - min_u64(now_ns, lane->progress_ns) > tcp->env.config->tcp_stall_ns)
			shutdown(lane->watch.fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&tcp->lock);
}

void tcp_source_close(struct tcp *tcp)
{
	struct source_lane *lane;

	/* Those who sleep in a lane wake. */
	pthread_mutex_lock(&tcp->lock);
	DL_FOREACH(tcp->lanes, lane)
		shutdown(lane->watch.fd, SHUT_RDWR);
	pthread_mutex_unlock(&tcp->lock);
	tcp_express_fini(&tcp->express);
	while (tcp->lanes)
		tcp_source_end_lane(tcp->lanes);
}
