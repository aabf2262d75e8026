/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The lanes of NICs. All of it is the thread's; two counts are read by the monitor's.
 *
 * A lane that takes no more QPs, because one went whose CQEs may still come, or because it is at
 * fault, keeps those that it has. So it is polled and armed on until they are gone, beside the one
 * that takes its place at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/rdma/nic_lanes.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/routes.h"

/* CQEs of one lane before the others have their turn. */
#define POLL_BUDGET 256

static void cq_ready(struct otte_watch *watch, uint32_t events)
{
	struct otte_rdma_nic_lane *lane = container_of(watch, struct otte_rdma_nic_lane, watch);

	(void)events;
	lane->poller->rdma->busy = true;
	if (lane->lane && otte_rdma_lane_heard(lane->lane))
		otte_log(OTTE_LOG_ERROR, "NIC %s: %s", lane->poller->context->name,
			 otte_error_text());
}

static void free_lane(struct otte_retired *retired)
{
	free(container_of(retired, struct otte_rdma_nic_lane, retired));
}

/* It has no QPs that could be destroyed any more. */
static int drop(struct otte_rdma_nic_lane *lane)
{
	struct otte_rdma *rdma = lane->poller->rdma;
	int ret;

	otte_loop_remove(&rdma->loop, &lane->watch);
	ret = otte_rdma_lane_destroy(lane->lane);
	if (ret) {
		otte_log(OTTE_LOG_ERROR, "NIC %s: %s", lane->poller->context->name,
			 otte_error_text());
		otte_rdma_lost(rdma, 0, "rdma: completion queues that could not be destroyed");
	}
	lane->lane = NULL;
	lane->retired.free = free_lane;
	otte_loop_retire(&rdma->loop, &lane->retired);
	return ret;
}

/* ---- The one that takes QPs ---- */

static int open_lane(struct otte_rdma_nic_lane *lane)
{
	const struct otte_config *config = lane->poller->rdma->env.config;
	struct otte_rdma_lane_params params = OTTE_RDMA_LANE_PARAMS;
	int ret;

	params.max_cqes = config->rdma_cqes;
	params.max_qps = config->rdma_endpoints;
	params.events = true;
	ret = otte_rdma_lane_create(lane->poller->context, &params, &lane->lane);
	if (ret)
		return ret;
	lane->watch.fd = otte_rdma_lane_fd(lane->lane);
	lane->watch.ready = cq_ready;
	ret = otte_loop_add(&lane->poller->rdma->loop, &lane->watch, EPOLLIN);
	if (ret && otte_rdma_lane_destroy(lane->lane))
		otte_rdma_lost(lane->poller->rdma, 0,
			       "rdma: completion queues that could not be destroyed");
	return ret;
}

static int make_lane(struct otte_rdma_poller *poller)
{
	struct otte_rdma_nic_lane *lane = calloc(1, sizeof(*lane));
	int ret;

	if (!lane)
		return otte_fail(-ENOMEM, "no memory for a lane of NIC %s", poller->context->name);
	lane->poller = poller;
	ret = open_lane(lane);
	if (ret)
		free(lane);
	else
		poller->current = lane;
	return ret;
}

static void retire_current(struct otte_rdma_poller *poller)
{
	DL_APPEND(poller->draining, poller->current);
	poller->current = NULL;
	atomic_fetch_add(&poller->drains, 1);
}

int otte_rdma_lane_of(struct otte_rdma *rdma, unsigned int nic, struct otte_rdma_cq_lane **lane)
{
	struct otte_rdma_poller *poller = &rdma->pollers[nic];
	int ret = 0;

	if (!poller->context)
		return otte_fail(-ENODEV, "there is no NIC %u", nic);
	if (poller->current && !otte_rdma_lane_admits(poller->current->lane))
		retire_current(poller);
	if (!poller->current) {
		if (atomic_load(&poller->drains) >= OTTE_RDMA_DRAINING_MAX)
			return otte_fail(-EAGAIN,
					 "NIC %s: %u of its lanes drain, which is all that may",
					 poller->context->name, OTTE_RDMA_DRAINING_MAX);
		ret = make_lane(poller);
	}
	if (!ret)
		*lane = poller->current->lane;
	return ret;
}

/* ---- Rounds ---- */

static void poll_one(struct otte_rdma_nic_lane *lane)
{
	struct otte_rdma *rdma = lane->poller->rdma;
	int ret = otte_rdma_lane_poll(lane->lane, POLL_BUDGET);

	if (ret <= 0)
		return;
	atomic_fetch_add(&rdma->cqes, (uint64_t)ret);
	rdma->busy = true;
}

/* One with a QP that stays is polled for good: what that has posted may complete. */
static void reclaim(struct otte_rdma_poller *poller, struct otte_rdma_nic_lane *lane)
{
	struct otte_rdma_lane_status status;

	otte_rdma_lane_status(lane->lane, &status);
	if (status.qps)
		return;
	DL_DELETE(poller->draining, lane);
	drop(lane);
	atomic_fetch_sub(&poller->drains, 1);
	otte_rdma_route_drains(poller);
}

static void poll_nic(struct otte_rdma_poller *poller)
{
	struct otte_rdma_nic_lane *lane, *next;

	if (poller->current) {
		poll_one(poller->current);
		if (!otte_rdma_lane_admits(poller->current->lane))
			retire_current(poller);
	}
	DL_FOREACH_SAFE(poller->draining, lane, next) {
		poll_one(lane);
		reclaim(poller, lane);
	}
}

void otte_rdma_lanes_poll(struct otte_rdma *rdma)
{
	unsigned int i;

	for (i = 0; i < rdma->set.count; i++)
		poll_nic(&rdma->pollers[i]);
}

static void arm(struct otte_rdma_nic_lane *lane)
{
	if (lane->deaf || !otte_rdma_lane_arm_posted(lane->lane))
		return;
	otte_log(OTTE_LOG_ERROR, "NIC %s: %s", lane->poller->context->name, otte_error_text());
	lane->deaf = true;
}

void otte_rdma_lanes_arm(struct otte_rdma *rdma)
{
	struct otte_rdma_nic_lane *lane;
	unsigned int i;

	for (i = 0; i < rdma->set.count; i++) {
		if (rdma->pollers[i].current)
			arm(rdma->pollers[i].current);
		DL_FOREACH(rdma->pollers[i].draining, lane)
			arm(lane);
	}
}

/* One that cannot be armed is at fault, and so among those that drain with the next round. */
bool otte_rdma_lanes_are_deaf(const struct otte_rdma *rdma)
{
	const struct otte_rdma_nic_lane *lane;
	unsigned int i;

	for (i = 0; i < rdma->set.count; i++) {
		if (rdma->pollers[i].current && rdma->pollers[i].current->deaf)
			return true;
		DL_FOREACH(rdma->pollers[i].draining, lane)
			if (lane->deaf)
				return true;
	}
	return false;
}

/* ---- The end ---- */

static int close_nic(struct otte_rdma_poller *poller)
{
	struct otte_rdma_nic_lane *lane, *next;
	int ret = 0;

	if (poller->current)
		retire_current(poller);
	DL_FOREACH_SAFE(poller->draining, lane, next) {
		DL_DELETE(poller->draining, lane);
		if (drop(lane))
			ret = -EUCLEAN;
	}
	return ret;
}

int otte_rdma_lanes_close(struct otte_rdma *rdma)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < rdma->set.count; i++)
		if (close_nic(&rdma->pollers[i]))
			ret = -EUCLEAN;
	return ret;
}
