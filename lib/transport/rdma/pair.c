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

/* A NIC may take four times as long as it is told to (IBTA, "local ACK timeout"). */
#define STALL_TIMES 4
/* Threads that get no CPU, at either end, are late by less. */
#define STALL_LEAST_NS NSEC_PER_SEC

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
	params->max_rd_atomic = (uint8_t)config->rdma_rd_atomic;
	params->max_dest_rd_atomic = (uint8_t)config->rdma_dest_rd_atomic;
	params->signal_interval = config->rdma_signal_interval;
	params->finishes = !source;
	if (!source)
		return;
	params->pd = pair->pd;
	params->max_recv_wr = pair->cell ? 1 : config->rdma_grants;
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
	uint64_t held = atomic_load(&rdma->qps);

	/* Nobody is refused for one that another worker only tried to have. */
	while (held < most)
		if (atomic_compare_exchange_weak(&rdma->qps, &held, held + 1))
			return 0;
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
	pair->under_way = 0;
	pair->spent = false;
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

/* ---- What is under way ---- */

int otte_rdma_pair_post(struct otte_rdma_pair *pair, const struct otte_rdma_send *sends,
			uint32_t count, uint32_t *accepted)
{
	int ret = otte_rdma_qp_post(pair->qp, sends, count, accepted);

	/* Nothing is told before this returns: the CQ is polled by who posts, and not now. */
	if (!pair->under_way && *accepted)
		pair->heard_ns = otte_now_ns();
	pair->under_way += *accepted;
	return ret;
}

void otte_rdma_pair_hear(struct otte_rdma_pair *pair)
{
	pair->heard_ns = otte_now_ns();
	pair->under_way--;
}

/* What nobody answers is given up by the NIC in this time, if that keeps to what it was told. */
static uint64_t give_up_ns(const struct otte_config *config)
{
	const uint64_t period_ns = 4096ull << config->rdma_qp_timeout;

	return period_ns * (config->rdma_qp_retries + 1);
}

/* Of what is under way over its NIC, at the least rate that is believed of one. */
static uint64_t moving_ns(const struct otte_rdma_pair *pair)
{
	struct otte_device_load load;

	if (otte_devices_read(pair->rdma->devices, pair->nic, &load) || !load.link)
		return 0;
	return (uint64_t)((double)load.under_way / (double)load.link * OTTE_RATE_CLAMP *
			  (double)NSEC_PER_SEC);
}

bool otte_rdma_pair_is_stalled(const struct otte_rdma_pair *pair, uint64_t now_ns)
{
	const struct otte_config *config = pair->rdma->env.config;
	uint64_t limit_ns = config->rdma_stall_ns, quiet_ns;

	if (pair->state != OTTE_RDMA_PAIR_JOINED || !pair->under_way)
		return false;
	pair->worker->timed = true;
	quiet_ns = now_ns - min_u64(now_ns, pair->heard_ns);
	if (!limit_ns)
		limit_ns = max_u64(STALL_TIMES * give_up_ns(config), STALL_LEAST_NS);
	if (quiet_ns <= limit_ns)
		return false;
	/* One completion tells of all of its payload, which may be long, and share its NIC. */
	return config->rdma_stall_ns || quiet_ns - limit_ns > moving_ns(pair);
}

/* ---- The end ---- */

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
