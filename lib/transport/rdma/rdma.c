/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "control/auth.h"
#include "cuda/gpudirect.h"
#include "transport/chain.h"
#include "transport/rdma/alone.h"
#include "transport/rdma/domain.h"
#include "transport/rdma/mirror.h"
#include "transport/rdma/monitor.h"
#include "transport/rdma/nic_lanes.h"
#include "transport/rdma/nic_rows.h"
#include "transport/rdma/payload.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/ranks.h"
#include "transport/rdma/routes.h"
#include "transport/rdma/selector.h"
#include "transport/rdma/source.h"

static struct otte_rdma *to_rdma(struct otte_transport *transport)
{
	return container_of(transport, struct otte_rdma, base);
}

void otte_rdma_lost(struct otte_rdma *rdma, uint64_t bytes, const char *what)
{
	rdma->env.keep.lost(rdma->env.source.engine, bytes, what);
}

/* What a thread does behind a done() it does in the same round. */
static void settle(struct otte_transport *transport)
{
	otte_rdma_workers_settle(to_rdma(transport));
}

/* ---- Regions ---- */

static int register_range(struct otte_rdma *rdma, struct otte_published *published,
			  struct otte_rdma_buffer_spec *spec)
{
	int ret;

	published->id = spec->region = atomic_fetch_add(&rdma->published, 1) + 1;
	ret = otte_rdma_buffers_publish(rdma->buffers, spec);
	if (!ret)
		published->buffer = otte_rdma_buffers_get(rdma->buffers, spec->region);
	return ret;
}

static int publish_host(struct otte_rdma *rdma, const struct otte_publishing *range,
			struct otte_published *published)
{
	struct otte_rdma_buffer_spec spec = {
		.at = range->address,
		.bytes = range->length,
		.remote = range->access != OTTE_LOCAL_ONLY,
	};
	int ret;

	published->location.kind = OTTE_LOCATION_ANY;
	if (otte_rdma_is_staged(rdma))
		return 0;
	ret = register_range(rdma, published, &spec);
	if (!ret)
		published->location = otte_rdma_location_of(range->address, range->length);
	return ret;
}

static int publish_gpu(struct otte_rdma *rdma, const struct otte_publishing *range,
		       struct otte_published *published)
{
	struct otte_rdma_buffer_spec spec = {
		.at = range->address,
		.bytes = range->length,
		.gpu = range->gpu,
	};
	int ret;

	ret = otte_gpudirect_admit(range->gpu);
	if (!ret)
		ret = otte_rdma_gpu_route(rdma->verbs, rdma->env.config->rdma_gpu_registration,
					  range->gpu, &spec.route);
	if (!ret)
		ret = register_range(rdma, published, &spec);
	if (ret)
		return ret;
	published->gpu = range->gpu;
	published->location = (struct otte_location){
		.kind = OTTE_LOCATION_CUDA,
		.index = (uint32_t)range->gpu->device,
	};
	return 0;
}

static int publish(struct otte_transport *transport, const struct otte_publishing *range,
		   struct otte_published **out)
{
	struct otte_rdma *rdma = to_rdma(transport);
	struct otte_published *published;
	int ret;

	if (range->gpu && rdma->env.config->rdma_cuda_memory != OTTE_CUDA_MEMORY_DIRECT)
		return 0;
	published = calloc(1, sizeof(*published));
	if (!published)
		return otte_fail(-ENOMEM, "no memory for a region's record");
	if (range->gpu)
		ret = publish_gpu(rdma, range, published);
	else
		ret = publish_host(rdma, range, published);
	if (ret)
		free(published);
	else
		*out = published;
	return ret;
}

static int withdraw(struct otte_transport *transport, struct otte_published *published)
{
	struct otte_rdma *rdma = to_rdma(transport);
	int ret = 0;

	if (published->buffer) {
		otte_rdma_buffers_put(rdma->buffers, published->buffer);
		ret = otte_rdma_buffers_withdraw(rdma->buffers, published->id);
	}
	free(published);
	return ret;
}

static uint32_t gpu_routes(struct otte_transport *transport, const struct otte_published *published)
{
	(void)transport;
	if (!published->gpu)
		return 0;
	return published->buffer->route == OTTE_RDMA_GPU_DMABUF ? OTTE_GPU_BY_DMABUF :
								  OTTE_GPU_BY_PEERMEM;
}

/* ---- Life ---- */

static int discover(const struct otte_config *config, const struct otte_verbs **verbs,
		    struct otte_rdma_nics *nics)
{
	struct otte_rdma_permitted permitted;
	int ret;

	ret = otte_verbs_open(verbs);
	if (!ret)
		ret = otte_verbs_survive_forks(*verbs);
	if (ret)
		return ret;
	otte_rdma_permitted_of(config, &permitted);
	return otte_rdma_discover(*verbs, &permitted.select, nics);
}

static int check_usable(const struct otte_config *config, const struct otte_rdma_nics *nics)
{
	size_t i;

	for (i = 0; i < nics->count; i++)
		if (nics->list[i].state != OTTE_RDMA_UNUSABLE)
			return 0;
	if (nics->count)
		return otte_fail(-ENODEV, "%s port %u: %s", nics->list[0].name, nics->list[0].port,
				 nics->list[0].why);
	return otte_fail(-ENODEV, "there is no verbs device%s",
			 config->rdma_blacklist[0] ? " that rdma.blacklist permits" : "");
}

/* One context at least; `set` is to be closed in any case. */
static int open_contexts(const struct otte_config *config, const struct otte_verbs **verbs,
			 struct otte_rdma_context_set *set)
{
	const struct otte_rdma_context_params params = {
		.max_window_key_indices = config->rdma_key_indices,
	};
	struct otte_rdma_nics *nics;
	int ret;

	nics = calloc(1, sizeof(*nics));
	if (!nics)
		return otte_fail(-ENOMEM, "no memory for a list of NICs");
	ret = discover(config, verbs, nics);
	if (!ret) {
		ret = check_usable(config, nics);
		if (!ret)
			ret = otte_rdma_context_set_open(*verbs, nics, &params, set);
		otte_rdma_nics_close(*verbs, nics);
	}
	free(nics);
	return ret;
}

static int probe(const struct otte_config *config)
{
	struct otte_rdma_context_set *set;
	const struct otte_verbs *verbs;
	char why[OTTE_ERROR_BYTES];
	int ret;

	if (!config->rdma_enabled)
		return otte_fail(-ENOSYS, "rdma.enabled is false");
	set = calloc(1, sizeof(*set));
	if (!set)
		return otte_fail(-ENOMEM, "no memory for a list of NICs");
	ret = open_contexts(config, &verbs, set);
	snprintf(why, sizeof(why), "%s", otte_error_text());
	if (otte_rdma_context_set_close(set))
		otte_log(OTTE_LOG_ERROR, "%s", otte_error_text());
	free(set);
	return ret ? otte_fail(ret, "%s", why) : 0;
}

static int fill_pollers(struct otte_rdma *rdma)
{
	unsigned int i;
	int ret;

	for (i = 0; i < OTTE_NIC_IDS; i++) {
		struct otte_rdma_poller *poller = &rdma->pollers[i];

		poller->rdma = rdma;
		poller->context = otte_rdma_context_set_get(&rdma->set, i);
		ret = otte_random(&poller->pd, sizeof(poller->pd));
		if (ret)
			return ret;
		poller->pd |= 1;
	}
	return 0;
}

static int open_native(struct otte_rdma *rdma)
{
	const struct otte_rdma_buffers_params params = {
		.max_cached_mrs = rdma->env.config->rdma_mrs,
		.max_cached_mr_bytes = rdma->env.config->rdma_mr_bytes,
	};
	int ret;

	ret = open_contexts(rdma->env.config, &rdma->verbs, &rdma->set);
	if (!ret)
		ret = fill_pollers(rdma);
	if (!ret)
		ret = otte_rdma_buffers_open(&rdma->set, &params, &rdma->buffers);
	return ret;
}

/* After the threads. False: something stays, and so does what it is of. */
static bool close_native(struct otte_rdma *rdma)
{
	int ret = otte_rdma_lanes_close(rdma);

	if (otte_rdma_buffers_close(rdma->buffers) || otte_rdma_staging_close(&rdma->staging) ||
	    otte_rdma_staging_close(&rdma->mirrors))
		ret = -EUCLEAN;
	if (otte_rdma_context_set_close(&rdma->set))
		ret = -EUCLEAN;
	return !ret;
}

/* The monitor's first: the others ask it. */
static int start_threads(struct otte_rdma *rdma)
{
	int ret = otte_rdma_routes_watch(rdma);

	if (!ret)
		ret = otte_rdma_monitor_start(rdma->monitor);
	return ret ? ret : otte_rdma_workers_start(rdma);
}

static int create(const struct otte_transport_env *env, struct otte_transport **transport)
{
	struct otte_rdma *rdma;
	int ret;

	rdma = calloc(1, sizeof(*rdma));
	if (!rdma)
		return otte_fail(-ENOMEM, "no memory for the rdma transport");
	rdma->base.ops = &otte_rdma_transport;
	rdma->env = *env;
	pthread_mutex_init(&rdma->lock, NULL);
	pthread_mutex_init(&rdma->rails_lock, NULL);
	otte_rdma_places_open(&rdma->places, env->config->rdma_grants);
	otte_rdma_ranges_open(&rdma->ranges, env->config->rdma_leases);
	ret = otte_rdma_workers_open(rdma);
	if (ret)
		goto free_rdma;
	ret = otte_transport_create_next(env, &rdma->next);
	if (ret)
		goto close_workers;
	otte_rdma_stages_open(rdma);
	otte_rdma_mirrors_open(rdma);
	ret = open_native(rdma);
	if (!ret)
		ret = otte_rdma_rails_open(rdma);
	if (!ret)
		ret = start_threads(rdma);
	if (ret)
		goto close_native;
	*transport = &rdma->base;
	return 0;

close_native:
	otte_rdma_monitor_stop(rdma->monitor);
	otte_rdma_rails_close(rdma);
	if (rdma->verbs)
		close_native(rdma);
	rdma->next->ops->destroy(rdma->next);
close_workers:
	otte_rdma_workers_close(rdma);
free_rdma:
	pthread_mutex_destroy(&rdma->rails_lock);
	pthread_mutex_destroy(&rdma->lock);
	free(rdma);
	return ret;
}

static void destroy(struct otte_transport *transport)
{
	struct otte_rdma *rdma = to_rdma(transport);
	bool clean, kept;

	otte_rdma_workers_stop(rdma);
	otte_rdma_monitor_stop(rdma->monitor);
	clean = close_native(rdma);
	rdma->next->ops->destroy(rdma->next);
	kept = otte_rdma_workers_keep(rdma);
	otte_rdma_workers_close(rdma);
	if (!clean || kept) {
		otte_log(OTTE_LOG_ERROR, "what NICs may still use stays: %s", otte_error_text());
		return;
	}
	otte_rdma_rails_close(rdma);
	pthread_mutex_destroy(&rdma->rails_lock);
	pthread_mutex_destroy(&rdma->lock);
	free(rdma);
}

/* ---- What is the next one's ---- */

static bool receive_alone(struct otte_transport_peer *base)
{
	struct otte_rdma_peer *peer = container_of(base, struct otte_rdma_peer, base);

	/* What is under way here is ended by another thread. */
	return otte_rdma_peer_is_idle(peer) && base->next->ops->receive_alone(base->next);
}

static bool exchange(struct otte_transport_peer *base, struct otte_work *work)
{
	struct otte_rdma_peer *peer = container_of(base, struct otte_rdma_peer, base);

	if (otte_rdma_peer_passes(peer, work))
		return base->next->ops->exchange(base->next, work);
	return otte_rdma_alone_exchange(peer, work);
}

static int accept_lane(struct otte_transport *transport, void *peer, int fd,
		       enum otte_lane_kind kind, uint64_t counter)
{
	struct otte_rdma *rdma = to_rdma(transport);

	if (kind == OTTE_LANE_RDMA)
		return otte_rdma_source_accept(rdma, peer, fd);
	return rdma->next->ops->accept_lane(rdma->next, peer, fd, kind, counter);
}

static void drop_lanes(struct otte_transport *transport, void *peer)
{
	struct otte_rdma *rdma = to_rdma(transport);

	otte_rdma_source_drop(rdma, peer);
	rdma->next->ops->drop_lanes(rdma->next, peer);
}

static void recall(struct otte_transport *transport, uint64_t region)
{
	struct otte_rdma *rdma = to_rdma(transport);

	otte_rdma_source_recall(rdma, region);
	if (rdma->next->ops->recall)
		rdma->next->ops->recall(rdma->next, region);
}

static void source_tick(struct otte_transport *transport, unsigned index, uint64_t now_ns)
{
	struct otte_rdma *rdma = to_rdma(transport);

	rdma->next->ops->source_tick(rdma->next, index, now_ns);
}

static uint64_t posted_wrs(const struct otte_rdma *rdma)
{
	uint64_t sum = 0;
	unsigned int nic;

	for (nic = 0; nic < OTTE_NIC_IDS; nic++)
		if (rdma->pollers[nic].context)
			sum += atomic_load(&rdma->pollers[nic].context->posted);
	return sum;
}

static uint64_t gpu_mrs(const struct otte_rdma *rdma, enum otte_rdma_gpu_route route)
{
	uint64_t sum = 0;
	unsigned int nic;

	for (nic = 0; nic < OTTE_NIC_IDS; nic++)
		if (rdma->pollers[nic].context)
			sum += atomic_load(&rdma->pollers[nic].context->gpu_mrs[route]);
	return sum;
}

static void counters(struct otte_transport *transport, struct otte_stats *stats)
{
	struct otte_rdma *rdma = to_rdma(transport);
	struct otte_rdma_buffers_stats buffers;

	rdma->next->ops->counters(rdma->next, stats);
	otte_rdma_buffers_stats(rdma->buffers, &buffers);
	stats->bad_frames += atomic_load(&rdma->bad_frames);
	stats->retries += atomic_load(&rdma->retries);
	stats->rdma_qps += atomic_load(&rdma->qps);
	stats->rdma_mrs += buffers.mrs;
	stats->rdma_mr_bytes += buffers.bytes;
	stats->rdma_direct_bytes += atomic_load(&rdma->direct.used);
	stats->rdma_staging_bytes +=
		atomic_load(&rdma->staging.budget.used) + atomic_load(&rdma->mirrors.budget.used);
	stats->rdma_grants += atomic_load(&rdma->grants);
	stats->rdma_leases += atomic_load(&rdma->leases_given);
	stats->rdma_lease_requests += atomic_load(&rdma->lease_requests);
	stats->rdma_wrs += posted_wrs(rdma);
	stats->rdma_dmabuf_registrations += gpu_mrs(rdma, OTTE_RDMA_GPU_DMABUF);
	stats->rdma_peermem_registrations += gpu_mrs(rdma, OTTE_RDMA_GPU_PEERMEM);
	stats->rdma_cqes += atomic_load(&rdma->cqes);
	stats->rdma_slices += atomic_load(&rdma->slices);
	stats->rdma_slices_moved += atomic_load(&rdma->slices_moved);
	stats->rdma_rails_paused += atomic_load(&rdma->rails_paused);
	stats->rdma_rail_errors += atomic_load(&rdma->rail_errors);
	stats->rdma_rail_probes += atomic_load(&rdma->rail_probes);
	stats->rdma_rail_recoveries += atomic_load(&rdma->rail_recoveries);
}

const struct otte_transport_ops otte_rdma_transport = {
	.name = "rdma",
	.kind = OTTE_TRANSPORT_RDMA,
	.serves_by_address = true, /* what it lends itself has loans of its own */
	.probe = probe,
	.check = otte_rdma_gpu_check,
	.create = create,
	.settle = settle,
	.destroy = destroy,
	.publish = publish,
	.withdraw = withdraw,
	.gpu_routes = gpu_routes,
	.peer_open = otte_rdma_peer_open,
	.peer_connect = otte_rdma_peer_connect,
	.peer_ready = otte_chain_peer_ready,
	.peer_nic = otte_chain_peer_nic, /* which of ours a request passes is found with its pair */
	.peer_stop = otte_rdma_peer_stop,
	.peer_tick = otte_rdma_peer_tick,
	.peer_close = otte_rdma_peer_close,
	.plan = otte_chain_plan,
	.unplan = otte_chain_unplan,
	.start = otte_rdma_peer_start,
	.receive_alone = receive_alone,
	.exchange = exchange,
	.pin = otte_chain_pin,
	.cancel = otte_rdma_peer_cancel,
	.recall = recall,
	.accept_lane = accept_lane,
	.drop_lanes = drop_lanes,
	.source_tick = source_tick,
	.counters = counters,
	.nics = otte_rdma_nic_rows,
	.join = otte_rdma_domain_join,
};
