/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where paths go out, as the monitor sees it and as the lines say it.
 *
 *   the monitor's thread                      each worker
 *   pauses a route, or fails the device
 *   fenced()              --a bit, a wake-->  PATHS again to all; its pairs of that NIC are closed
 *   drained()? not yet    <--asked anew-----  the last one of all workers is gone
 *   resumes it, resumed() --a bit, a wake-->  PATHS again to all
 *
 * A route returns when every worker has heard that it was paused, and none has anything of it left.
 *
 * The monitor leaves bits and takes no lock but a lane's or a QP's, which are held across no
 * destruction. Between a route's pause and its return nothing is made of it: a QP's creation asks
 * for the route after it is counted in `users`, and drained() counts after the pause.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/rdma/mirror.h"
#include "transport/rdma/monitor.h"
#include "transport/rdma/nic_lanes.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/routes.h"
#include "transport/rdma/source.h"

/* ---- What the monitor tells, in its thread ---- */

static void fenced(void *arg, struct otte_rdma_context *context, int code, const char *why)
{
	struct otte_rdma *rdma = arg;
	unsigned int i;

	/* Both are the context's until it returns, which it does not before this was heard. */
	(void)code;
	(void)why;
	for (i = 0; i < rdma->worker_count; i++)
		atomic_fetch_or(&rdma->workers[i].fenced, 1ull << context->nic);
	otte_rdma_wake_all(rdma);
}

static bool all_have_heard(const struct otte_rdma *rdma, unsigned int nic)
{
	unsigned int i;

	for (i = 0; i < rdma->worker_count; i++)
		if (atomic_load(&rdma->workers[i].fenced) & 1ull << nic)
			return false;
	return true;
}

static bool drained(void *arg, struct otte_rdma_context *context)
{
	struct otte_rdma *rdma = arg;
	struct otte_rdma_poller *poller = &rdma->pollers[context->nic];

	return all_have_heard(rdma, context->nic) && !atomic_load(&poller->users) &&
	       !atomic_load(&poller->drains);
}

static void resumed(void *arg, struct otte_rdma_context *context)
{
	struct otte_rdma *rdma = arg;
	unsigned int i;

	for (i = 0; i < rdma->worker_count; i++)
		atomic_fetch_or(&rdma->workers[i].resumed, 1ull << context->nic);
	otte_rdma_wake_all(rdma);
}

static void rate(void *arg, struct otte_rdma_context *context, uint64_t bytes_per_s)
{
	otte_rdma_rails_rate(arg, context->nic, bytes_per_s);
}

/* Its lane is there as long as the CQ is, and that waits for this event. */
static void cq_failed(void *arg, struct otte_rdma_context *context, const struct ibv_cq *cq,
		      const char *why)
{
	char text[OTTE_ERROR_BYTES];

	snprintf(text, sizeof(text), "%s: a completion queue: %s", context->name, why);
	otte_rdma_lane_fence(cq->cq_context, -EIO, text);
	otte_rdma_wake_all(arg);
}

/* Likewise. */
static void qp_failed(void *arg, struct otte_rdma_context *context, const struct ibv_qp *qp,
		      const char *why)
{
	char text[OTTE_ERROR_BYTES];

	snprintf(text, sizeof(text), "%s: QP %u: %s", context->name, qp->qp_num, why);
	otte_rdma_qp_fence(qp->qp_context, -EIO, text);
	otte_rdma_wake_all(arg);
}

static const struct otte_rdma_monitor_ops monitor_ops = {
	.fenced = fenced,
	.drained = drained,
	.resumed = resumed,
	.rate = rate,
	.cq_failed = cq_failed,
	.qp_failed = qp_failed,
};

int otte_rdma_routes_watch(struct otte_rdma *rdma)
{
	const struct otte_config *config = rdma->env.config;
	struct otte_rdma_monitor_params params = OTTE_RDMA_MONITOR_PARAMS;

	params.automatic_gid = config->rdma_gid_index == OTTE_RDMA_GID_UNSET &&
			       !config->rdma_device[0];
	return otte_rdma_monitor_create(&rdma->set, &params, &monitor_ops, rdma, &rdma->monitor);
}

/* ---- What a worker does about it ---- */

void otte_rdma_route_drains(struct otte_rdma_poller *poller)
{
	if (atomic_load(&poller->users) || atomic_load(&poller->drains))
		return;
	otte_rdma_monitor_ask(poller->rdma->monitor);
}

/*
 * A function of each peer or source of a worker. Others append to the lists meanwhile; its thread
 * alone takes away from them.
 */
static void each_peer(struct otte_rdma_worker *worker,
		      void (*do_it)(struct otte_rdma_peer *peer, unsigned int nic),
		      unsigned int nic)
{
	struct otte_rdma_peer *peer;

	pthread_mutex_lock(&worker->lock);
	for (peer = worker->peers; peer; peer = peer->next_peer) {
		pthread_mutex_unlock(&worker->lock);
		do_it(peer, nic);
		pthread_mutex_lock(&worker->lock);
	}
	pthread_mutex_unlock(&worker->lock);
}

static void each_source(struct otte_rdma_worker *worker,
			void (*do_it)(struct otte_rdma_source *source, unsigned int nic),
			unsigned int nic)
{
	struct otte_rdma_source *source;

	pthread_mutex_lock(&worker->lock);
	for (source = worker->sources; source; source = source->next) {
		pthread_mutex_unlock(&worker->lock);
		do_it(source, nic);
		pthread_mutex_lock(&worker->lock);
	}
	pthread_mutex_unlock(&worker->lock);
}

/*
 * A port that is down, or another: no path goes out there for now. PATHS have been said; all pairs
 * of the worker on that NIC are closed, of those that we ask and of those that ask us.
 */
static void port_changed(struct otte_rdma_worker *worker, unsigned int nic)
{
	/* Once by each: nothing of the old route is begun by one that has heard. */
	otte_rdma_rails_port_changed(worker->rdma, nic);
	each_peer(worker, otte_rdma_peer_port_changed, nic);
	each_source(worker, otte_rdma_source_port_changed, nic);
}

int otte_rdma_why_changed(struct otte_rdma *rdma, unsigned int nic)
{
	struct otte_rdma_context *context = rdma->pollers[nic].context;
	int code = otte_rdma_context_check(context);

	return code ? code :
		      otte_fail(-ENETDOWN, "%s port %u was another one", context->name,
				context->port);
}

/* Peers hear of it before the pairs close, so that they look for no other one on the same NIC. */
void otte_rdma_routes_look(struct otte_rdma_worker *worker)
{
	uint64_t changed, returned;
	unsigned int i;

	if (!atomic_load(&worker->fenced) && !atomic_load(&worker->resumed))
		return;
	changed = atomic_exchange(&worker->fenced, 0);
	returned = atomic_exchange(&worker->resumed, 0);
	worker->busy = true;
	each_peer(worker, otte_rdma_peer_paths_changed, 0);
	each_source(worker, otte_rdma_source_paths_changed, 0);
	for (i = 0; i < OTTE_NIC_IDS; i++)
		if (changed & 1ull << i)
			port_changed(worker, i);
	for (i = 0; i < OTTE_NIC_IDS; i++)
		if ((changed | returned) & 1ull << i)
			otte_rdma_route_drains(&worker->rdma->pollers[i]);
}

/* ---- PATHS ---- */

void otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths)
{
	unsigned int i;

	paths->grants = rdma->env.config->rdma_grants;
	paths->leases = rdma->env.config->rdma_leases;
	paths->chunk_bytes = otte_rdma_mirrors_longest(rdma);
	paths->count = 0;
	for (i = 0; i < OTTE_NIC_IDS; i++) {
		const struct otte_rdma_poller *poller = &rdma->pollers[i];
		struct otte_rdma_path *path = &paths->rows[paths->count];
		struct otte_rdma_route route;

		if (!poller->context)
			continue;
		otte_rdma_context_route(poller->context, &route);
		*path = (struct otte_rdma_path){
			.nic = (uint8_t)i,
			.port = poller->context->port,
			.gid_type = (uint8_t)route.address.gid.type,
			.ethernet = route.address.ethernet,
			.active = route.state == OTTE_RDMA_CONTEXT_ACTIVE,
			.lid = route.address.lid,
			.mtu_bytes = route.address.mtu_bytes,
			.pd = poller->pd,
		};
		memcpy(path->gid, route.address.gid.bytes, sizeof(path->gid));
		paths->count++;
	}
}

const struct otte_rdma_path *otte_rdma_find_path(const struct otte_rdma_paths *paths,
						 unsigned int nic)
{
	uint32_t i;

	for (i = 0; i < paths->count; i++)
		if (paths->rows[i].nic == nic)
			return &paths->rows[i];
	return NULL;
}

int otte_rdma_paths_follow(const struct otte_rdma_paths *paths,
			   const struct otte_rdma_paths *earlier)
{
	uint32_t i;

	if (paths->grants != earlier->grants || paths->leases != earlier->leases ||
	    paths->chunk_bytes != earlier->chunk_bytes || paths->count != earlier->count)
		return otte_fail(-EPROTO, "PATHS of %u NICs, %u grants, after those of %u and %u",
				 paths->count, paths->grants, earlier->count, earlier->grants);
	for (i = 0; i < paths->count; i++)
		if (paths->rows[i].nic != earlier->rows[i].nic ||
		    paths->rows[i].port != earlier->rows[i].port ||
		    paths->rows[i].pd != earlier->rows[i].pd)
			return otte_fail(-EPROTO, "PATHS in which NIC %u is another one",
					 earlier->rows[i].nic);
	return 0;
}
