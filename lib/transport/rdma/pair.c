/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/rdma/nic_lanes.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/routes.h"

static void fenced(struct otte_rdma_qp *qp, void *arg)
{
	struct otte_rdma_pair *pair = arg;
	struct otte_rdma_qp_status status;

	if (pair->state != OTTE_RDMA_PAIR_OPEN && pair->state != OTTE_RDMA_PAIR_JOINED)
		return;
	otte_rdma_qp_status(qp, &status);
	otte_fail(status.code, "%s", status.why);
	pair->failed(pair, status.code);
}

static void fill_params(const struct otte_rdma_pair *pair, bool source,
			struct otte_rdma_qp_params *params)
{
	const struct otte_config *config = pair->rdma->env.config;

	*params = (struct otte_rdma_qp_params)OTTE_RDMA_QP_PARAMS;
	params->max_send_wr = config->rdma_send_wrs;
	params->timeout = (uint8_t)config->rdma_qp_timeout;
	params->retry_count = (uint8_t)config->rdma_qp_retries;
	params->finishes = !source;
	if (!source)
		return;
	params->max_recv_wr = config->rdma_grants;
	params->remote_access = pair->op == OTTE_READ ? IBV_ACCESS_REMOTE_READ :
							IBV_ACCESS_REMOTE_WRITE;
}

/* Before the route is asked for: see routes.c. */
static void use_nic(struct otte_rdma_poller *poller)
{
	atomic_fetch_add(&poller->users, 1);
}

static void leave_nic(struct otte_rdma_poller *poller)
{
	if (atomic_fetch_sub(&poller->users, 1) == 1)
		otte_rdma_route_drains(poller);
}

/* One of rdma.endpoints, of all workers together. */
static int charge(struct otte_rdma *rdma)
{
	uint32_t most = rdma->env.config->rdma_endpoints;

	if (atomic_fetch_add(&rdma->qps, 1) < most)
		return 0;
	atomic_fetch_sub(&rdma->qps, 1);
	return otte_fail(-EDQUOT, "rdma.endpoints (%u) is full", most);
}

int otte_rdma_pair_open(struct otte_rdma_pair *pair, bool source)
{
	struct otte_rdma *rdma = pair->rdma;
	struct otte_rdma_poller *poller = &rdma->pollers[pair->nic];
	struct otte_rdma_qp_params params;
	struct otte_rdma_cq_lane *lane;
	int ret;

	ret = charge(rdma);
	if (ret)
		return ret;
	ret = otte_rdma_lane_of(pair->worker, pair->nic, &lane);
	if (ret)
		goto uncharge;
	fill_params(pair, source, &params);
	use_nic(poller);
	ret = otte_rdma_qp_create(lane, &params, fenced, pair, &pair->qp);
	if (ret == -EUCLEAN) /* and so does the count: its route does not return */
		otte_rdma_lost(rdma, 0, "rdma: a queue pair that was made in part");
	else if (ret)
		leave_nic(poller);
	if (ret)
		goto uncharge;
	pair->worker->pairs++;
	pair->state = OTTE_RDMA_PAIR_OPEN;
	pair->since_ns = otte_now_ns();
	return 0;

uncharge:
	atomic_fetch_sub(&rdma->qps, 1);
	return ret;
}

int otte_rdma_pair_join(struct otte_rdma_pair *pair, const struct otte_rdma_path *path,
			uint32_t qpn, uint32_t psn, uint32_t mtu_bytes, uint32_t rd_atomic)
{
	struct otte_rdma_qp_end end = {
		.qpn = qpn,
		.psn = psn,
		.address = {
			.gid.type = path->gid_type,
			.mtu_bytes = mtu_bytes,
			.lid = path->lid,
			.ethernet = path->ethernet,
		},
		.max_dest_rd_atomic = (uint8_t)rd_atomic,
	};
	int ret;

	memcpy(end.address.gid.bytes, path->gid, sizeof(end.address.gid.bytes));
	ret = otte_rdma_qp_connect(pair->qp, &end);
	if (ret)
		return ret;
	pair->remote_qpn = qpn;
	pair->state = OTTE_RDMA_PAIR_JOINED;
	return 0;
}

void otte_rdma_pair_close(struct otte_rdma_pair *pair, int code, const char *why)
{
	if (pair->state != OTTE_RDMA_PAIR_OPEN && pair->state != OTTE_RDMA_PAIR_JOINED)
		return;
	pair->state = OTTE_RDMA_PAIR_CLOSING;
	pair->code = code;
	pair->since_ns = otte_now_ns();
	DL_APPEND(pair->worker->closing, pair);
	pair->stopped = !otte_rdma_qp_drain(pair->qp, code, why);
	if (!pair->stopped)
		otte_log(OTTE_LOG_WARNING, "a queue pair does not stop by itself: %s",
			 otte_error_text());
	pair->worker->busy = true;
}

static void destroy(struct otte_rdma_pair *pair)
{
	struct otte_rdma *rdma = pair->rdma;
	int ret = otte_rdma_qp_destroy(pair->qp);

	DL_DELETE(pair->worker->closing, pair);
	pair->worker->pairs--;
	if (ret) {
		pair->state = OTTE_RDMA_PAIR_RETAINED;
		otte_log(OTTE_LOG_ERROR, "a queue pair stays: %s", otte_error_text());
		otte_rdma_lost(rdma, 0, "rdma: a queue pair that could not be destroyed");
	} else {
		pair->state = OTTE_RDMA_PAIR_EMPTY;
		pair->qp = NULL;
		leave_nic(&rdma->pollers[pair->nic]);
	}
	pair->closed(pair, !ret);
	/* Who sees that it is gone sees what was on it given back, too. */
	if (!ret)
		atomic_fetch_sub(&rdma->qps, 1);
}

/* What is posted completes at once when its QP is in ERR, if nothing is lost. */
void otte_rdma_pairs_reap(struct otte_rdma_worker *worker, uint64_t now_ns)
{
	uint64_t limit_ns = worker->rdma->env.config->rdma_destruction_ns;
	struct otte_rdma_pair *pair, *next;

	DL_FOREACH_SAFE(worker->closing, pair, next) {
		if (!otte_rdma_qp_is_drained(pair->qp) &&
		    now_ns - min_u64(now_ns, pair->since_ns) < limit_ns)
			continue;
		destroy(pair);
		worker->busy = true;
	}
}
