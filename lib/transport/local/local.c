/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/local/local.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/error.h"
#include "transport/chain.h"

static struct local *to_local(struct otte_transport *transport)
{
	return container_of(transport, struct local, base);
}

static int create(const struct otte_transport_env *env, struct otte_transport **transport)
{
	struct local *local;
	int ret;

	local = calloc(1, sizeof(*local));
	if (!local)
		return otte_fail(-ENOMEM, "no memory for the local transport");
	local->base.ops = &otte_local_transport;
	local->env = *env;
	local->owners = OTTE_USES_LENDER;
	pthread_mutex_init(&local->lock, NULL);
	ret = otte_transport_create_next(env, &local->next);
	if (ret)
		goto free_local;
	ret = local_source_open(local);
	if (ret)
		goto destroy_next;
	*transport = &local->base;
	return 0;

destroy_next:
	local->next->ops->destroy(local->next);
free_local:
	pthread_mutex_destroy(&local->lock);
	free(local);
	return ret;
}

static void destroy(struct otte_transport *transport)
{
	struct local *local = to_local(transport);

	local_source_close(local);
	local->next->ops->destroy(local->next);
	pthread_mutex_destroy(&local->lock);
	free(local);
}

static void settle(struct otte_transport *transport)
{
	otte_transport_settle(to_local(transport)->next);
}

static int publish(struct otte_transport *transport, const struct otte_publishing *range,
		   struct otte_published **published)
{
	return otte_transport_publish(to_local(transport)->next, range, published);
}

static int withdraw(struct otte_transport *transport, struct otte_published *published)
{
	return otte_transport_withdraw(to_local(transport)->next, published);
}

static uint32_t gpu_routes(struct otte_transport *transport, const struct otte_published *published)
{
	return otte_transport_gpu_routes(to_local(transport)->next, published);
}

static int accept_lane(struct otte_transport *transport, void *peer, int fd, enum otte_lane_kind kind,
		       uint64_t counter)
{
	struct local *local = to_local(transport);
	int domain = AF_INET;
	socklen_t length = sizeof(domain);

	if (kind == OTTE_LANE_LEND)
		return local_source_accept(local, peer, fd, true);
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
	if (kind == OTTE_LANE_BYTES && domain == AF_UNIX)
		return local_source_accept(local, peer, fd, false);
	return local->next->ops->accept_lane(local->next, peer, fd, kind, counter);
}

static void drop_lanes(struct otte_transport *transport, void *peer)
{
	struct local *local = to_local(transport);

	local_source_drop(local, peer);
	local->next->ops->drop_lanes(local->next, peer);
}

static void recall(struct otte_transport *transport, uint64_t region)
{
	struct local *local = to_local(transport);

	local_source_recall(local, region);
	if (local->next->ops->recall)
		local->next->ops->recall(local->next, region);
}

static void source_tick(struct otte_transport *transport, unsigned index, uint64_t now_ns)
{
	struct local *local = to_local(transport);

	if (index == 0)
		local_source_tick(local, now_ns);
	local->next->ops->source_tick(local->next, index, now_ns);
}

static void counters(struct otte_transport *transport, struct otte_stats *stats)
{
	struct local *local = to_local(transport);

	local->next->ops->counters(local->next, stats);
	stats->bad_frames += atomic_load(&local->bad_frames);
	stats->retries += atomic_load(&local->retries);
}

static size_t nics(struct otte_transport *transport, struct otte_nic_info *rows, size_t capacity)
{
	return otte_transport_nics(to_local(transport)->next, rows, capacity);
}

static void join(struct otte_transport *transport, const struct otte_nic_domain *domain)
{
	otte_transport_join(to_local(transport)->next, domain);
}

const struct otte_transport_ops otte_local_transport = {
	.name = "local",
	.kind = OTTE_TRANSPORT_LOCAL,
	.serves_by_address = true, /* what is served is served by the other one */
	.create = create,
	.settle = settle,
	.destroy = destroy,
	.publish = publish,
	.withdraw = withdraw,
	.gpu_routes = gpu_routes,
	.peer_open = local_peer_open,
	.peer_connect = local_peer_connect,
	.peer_ready = otte_chain_peer_ready,
	.peer_nic = otte_chain_peer_nic, /* our own copies use none */
	.peer_stop = local_peer_stop,
	.peer_tick = local_peer_tick,
	.peer_close = local_peer_close,
	.plan = otte_chain_plan,
	.unplan = otte_chain_unplan,
	.start = local_copy_start,
	.receive_alone = local_copy_alone,
	.exchange = local_copy_exchange,
	.direct = local_copy_direct,
	.pin = otte_chain_pin,
	.cancel = local_copy_cancel,
	.recall = recall,
	.accept_lane = accept_lane,
	.drop_lanes = drop_lanes,
	.source_tick = source_tick,
	.counters = counters,
	.nics = nics,
	.join = join,
};
