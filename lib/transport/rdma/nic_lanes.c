/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A worker's lanes of NICs. All of it is its thread's, but for the poller's counts.
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
	lane->lanes->worker->busy = true;
	if (lane->lane && otte_rdma_lane_heard(lane->lane))
		otte_log(OTTE_LOG_ERROR, "NIC %s: %s", lane->lanes->poller->context->name,
			 otte_error_text());
}

static void free_lane(struct otte_retired *retired)
{
	free(container_of(retired, struct otte_rdma_nic_lane, retired));
}

/* It has no QPs that could be destroyed any more. */
static int drop(struct otte_rdma_nic_lane *lane)
{
	struct otte_rdma_worker *worker = lane->lanes->worker;
	int ret;

	if (lane->watch.ready)
		otte_loop_remove(&worker->loop, &lane->watch);
	ret = otte_rdma_lane_destroy(lane->lane);
	if (ret) {
		otte_log(OTTE_LOG_ERROR, "NIC %s: %s", lane->lanes->poller->context->name,
			 otte_error_text());
		otte_rdma_lost(worker->rdma, 0,
			       "rdma: completion queues that could not be destroyed");
	}
	lane->lane = NULL;
	lane->retired.free = free_lane;
	otte_loop_retire(&worker->loop, &lane->retired);
	return ret;
}

/* ---- The one that takes QPs ---- */

static int open_lane(struct otte_rdma_nic_lane *lane)
{
	struct otte_rdma_worker *worker = lane->lanes->worker;
	const struct otte_config *config = worker->rdma->env.config;
	struct otte_rdma_lane_params params = OTTE_RDMA_LANE_PARAMS;
	int ret;

	params.max_cqes = config->rdma_cqes;
	params.max_qps = config->rdma_endpoints;
	params.events = config->rdma_progress == OTTE_RDMA_PROGRESS_EVENTS;
	ret = otte_rdma_lane_create(lane->lanes->poller->context, &params, &lane->lane);
	lane->deaf = !params.events;
	if (ret || lane->deaf)
		return ret;
	lane->watch.fd = otte_rdma_lane_fd(lane->lane);
	lane->watch.ready = cq_ready;
	ret = otte_loop_add(&worker->loop, &lane->watch, EPOLLIN);
	if (ret && otte_rdma_lane_destroy(lane->lane))
		otte_rdma_lost(worker->rdma, 0,
			       "rdma: completion queues that could not be destroyed");
	return ret;
}

static int make_lane(struct otte_rdma_nic_lanes *lanes)
{
	struct otte_rdma_nic_lane *lane = calloc(1, sizeof(*lane));
	int ret;

	if (!lane)
		return otte_fail(-ENOMEM, "no memory for a lane of NIC %s",
				 lanes->poller->context->name);
	lane->lanes = lanes;
	ret = open_lane(lane);
	if (ret)
		free(lane);
	else
		lanes->current = lane;
	return ret;
}

static void retire_current(struct otte_rdma_nic_lanes *lanes)
{
	DL_APPEND(lanes->draining, lanes->current);
	lanes->current = NULL;
	lanes->drains++;
	atomic_fetch_add(&lanes->poller->drains, 1);
}

int otte_rdma_lane_of(struct otte_rdma_worker *worker, unsigned int nic,
		      struct otte_rdma_cq_lane **lane)
{
	struct otte_rdma_nic_lanes *lanes = &worker->lanes[nic];
	int ret = 0;

	if (!lanes->poller->context)
		return otte_fail(-ENODEV, "there is no NIC %u", nic);
	if (lanes->current && !otte_rdma_lane_admits(lanes->current->lane))
		retire_current(lanes);
	if (!lanes->current) {
		if (lanes->drains >= OTTE_RDMA_DRAINING_MAX)
			return otte_fail(-EAGAIN,
					 "NIC %s: %u of its lanes drain, which is all that may",
					 lanes->poller->context->name, OTTE_RDMA_DRAINING_MAX);
		ret = make_lane(lanes);
	}
	if (!ret)
		*lane = lanes->current->lane;
	return ret;
}

/* ---- Rounds ---- */

static void poll_one(struct otte_rdma_nic_lane *lane)
{
	struct otte_rdma_worker *worker = lane->lanes->worker;
	int ret = otte_rdma_lane_poll(lane->lane, POLL_BUDGET);

	if (ret <= 0)
		return;
	atomic_fetch_add(&worker->rdma->cqes, (uint64_t)ret);
	worker->busy = true;
}

/* One with a QP that stays is polled for good: what that has posted may complete. */
static void reclaim(struct otte_rdma_nic_lanes *lanes, struct otte_rdma_nic_lane *lane)
{
	struct otte_rdma_lane_status status;

	otte_rdma_lane_status(lane->lane, &status);
	if (status.qps)
		return;
	DL_DELETE(lanes->draining, lane);
	drop(lane);
	lanes->drains--;
	atomic_fetch_sub(&lanes->poller->drains, 1);
	otte_rdma_route_drains(lanes->poller);
}

static void poll_nic(struct otte_rdma_nic_lanes *lanes)
{
	struct otte_rdma_nic_lane *lane, *next;

	if (lanes->current) {
		poll_one(lanes->current);
		if (!otte_rdma_lane_admits(lanes->current->lane))
			retire_current(lanes);
	}
	DL_FOREACH_SAFE(lanes->draining, lane, next) {
		poll_one(lane);
		reclaim(lanes, lane);
	}
}

void otte_rdma_lanes_poll(struct otte_rdma_worker *worker)
{
	unsigned int i;

	for (i = 0; i < worker->rdma->set.count; i++)
		poll_nic(&worker->lanes[i]);
}

static void arm(struct otte_rdma_nic_lane *lane)
{
	if (lane->deaf || !otte_rdma_lane_arm_posted(lane->lane))
		return;
	otte_log(OTTE_LOG_ERROR, "NIC %s: %s", lane->lanes->poller->context->name,
		 otte_error_text());
	lane->deaf = true;
}

void otte_rdma_lanes_arm(struct otte_rdma_worker *worker)
{
	struct otte_rdma_nic_lane *lane;
	unsigned int i;

	for (i = 0; i < worker->rdma->set.count; i++) {
		if (worker->lanes[i].current)
			arm(worker->lanes[i].current);
		DL_FOREACH(worker->lanes[i].draining, lane)
			arm(lane);
	}
}

static bool is_deaf(const struct otte_rdma_nic_lane *lane)
{
	struct otte_rdma_lane_status status;

	if (!lane->deaf)
		return false;
	otte_rdma_lane_status(lane->lane, &status);
	return status.qps;
}

/*
 * One that cannot be armed is at fault, and so among those that drain with the next round. One
 * without QPs has nothing to tell.
 */
bool otte_rdma_lanes_are_deaf(const struct otte_rdma_worker *worker)
{
	const struct otte_rdma_nic_lane *lane;
	unsigned int i;

	for (i = 0; i < worker->rdma->set.count; i++) {
		if (worker->lanes[i].current && is_deaf(worker->lanes[i].current))
			return true;
		DL_FOREACH(worker->lanes[i].draining, lane)
			if (is_deaf(lane))
				return true;
	}
	return false;
}

/* ---- The end ---- */

static int close_nic(struct otte_rdma_nic_lanes *lanes)
{
	struct otte_rdma_nic_lane *lane, *next;
	int ret = 0;

	if (lanes->current)
		retire_current(lanes);
	DL_FOREACH_SAFE(lanes->draining, lane, next) {
		DL_DELETE(lanes->draining, lane);
		if (drop(lane))
			ret = -EUCLEAN;
	}
	return ret;
}

static int close_lanes(struct otte_rdma_worker *worker)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < worker->rdma->set.count; i++)
		if (close_nic(&worker->lanes[i]))
			ret = -EUCLEAN;
	return ret;
}

int otte_rdma_lanes_close(struct otte_rdma *rdma)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < rdma->worker_count; i++)
		if (close_lanes(&rdma->workers[i]))
			ret = -EUCLEAN;
	return ret;
}
