/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"

static int probe(const struct otte_config *config)
{
	int fd, ret;

	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return otte_fail(-errno, "tcp: socket: %m");
	ret = tcp_socket_prepare(config, fd);
	close(fd);
	return ret;
}

static int create(const struct otte_transport_env *env, struct otte_transport **transport)
{
	struct tcp *tcp;
	int ret;

	tcp = calloc(1, sizeof(*tcp));
	if (!tcp)
		return otte_fail(-ENOMEM, "no memory for the tcp transport");
	tcp->base.ops = &otte_tcp_transport;
	tcp->env = *env;
	pthread_mutex_init(&tcp->lock, NULL);
	tcp_zerocopies_init(&tcp->zerocopies);
	ret = tcp_source_open(tcp);
	if (ret) {
		pthread_mutex_destroy(&tcp->lock);
		free(tcp);
		return ret;
	}
	*transport = &tcp->base;
	return 0;
}

static void destroy(struct otte_transport *transport)
{
	struct tcp *tcp = container_of(transport, struct tcp, base);

	tcp_source_close(tcp);
	/* Whatever lingered would keep a region, and with it the engine. */
	tcp_zerocopies_fini(&tcp->zerocopies);
	pthread_mutex_destroy(&tcp->lock);
	free(tcp);
}

static void counters(struct otte_transport *transport, struct otte_stats *stats)
{
	struct tcp *tcp = container_of(transport, struct tcp, base);

	stats->lanes += atomic_load(&tcp->counters.lanes);
	stats->retries += atomic_load(&tcp->counters.retries);
	stats->bad_frames += atomic_load(&tcp->counters.bad_frames);
	stats->zerocopy_bytes += atomic_load(&tcp->zerocopies.bytes);
	stats->zerocopy_sends += atomic_load(&tcp->zerocopies.sends);
	stats->zerocopy_copied += atomic_load(&tcp->zerocopies.copied);
	stats->zerocopy_refused += atomic_load(&tcp->zerocopies.refused);
	stats->zerocopy_outstanding += atomic_load(&tcp->zerocopies.outstanding);
}

const struct otte_transport_ops otte_tcp_transport = {
	.name = "tcp",
	.kind = OTTE_TRANSPORT_TCP,
	.serves_by_address = true,
	.probe = probe,
	.create = create,
	.destroy = destroy,
	.peer_open = tcp_peer_open,
	.peer_connect = tcp_peer_connect,
	.peer_ready = tcp_peer_ready,
	.peer_nic = tcp_peer_nic,
	.peer_stop = tcp_peer_stop,
	.peer_tick = tcp_peer_tick,
	.peer_close = tcp_peer_close,
	.plan = tcp_peer_plan,
	.unplan = tcp_peer_unplan,
	.start = tcp_peer_start,
	.receive_alone = tcp_peer_receive_alone,
	.exchange = tcp_peer_exchange,
	.pin = tcp_peer_pin,
	.cancel = tcp_peer_cancel,
	.mark = tcp_plan_mark,
	.accept_lane = tcp_source_accept,
	.drop_lanes = tcp_source_drop,
	.source_tick = tcp_source_tick,
	.counters = counters,
};
