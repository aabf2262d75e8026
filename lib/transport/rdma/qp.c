/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/qp.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "otte/otte.h"
#include "transport/rdma/cq_lane.h"

#define HOP_LIMIT 64
#define PSN_BITS 0xffffffu
/* rxe takes 7 for without end: of what is lost in silence nobody would ever hear. */
#define RXE_RETRIES_MAX 6

/* The ids of the WRs of a lane's `serial`th QP: those of sends are even. */
#define SEND_TAG(serial) ((serial)*2)
#define RECEIVE_TAG(serial) ((serial)*2 + 1)

/* ---- States ---------------------------------------------------------------------------------- */

static bool may_move(enum otte_rdma_qp_state from, enum otte_rdma_qp_state to)
{
	switch (to) {
	case OTTE_RDMA_QP_NEW:
		return false;
	case OTTE_RDMA_QP_READY:
		return from == OTTE_RDMA_QP_NEW;
	case OTTE_RDMA_QP_FENCED:
		return from < OTTE_RDMA_QP_FENCED;
	case OTTE_RDMA_QP_DRAINING:
		return from == OTTE_RDMA_QP_FENCED;
	case OTTE_RDMA_QP_RETAINED:
		return from != OTTE_RDMA_QP_RETAINED;
	}
	return false;
}

/* Under the lock. False: not from where it is. */
static bool move(struct otte_rdma_qp *qp, enum otte_rdma_qp_state to)
{
	if (!may_move(qp->state, to))
		return false;
	qp->state = to;
	return true;
}

/* Under the lock. */
static void fence(struct otte_rdma_qp *qp, int code, const char *why)
{
	if (!move(qp, OTTE_RDMA_QP_FENCED))
		return;
	qp->code = code;
	snprintf(qp->why, sizeof(qp->why), "%s", why);
	qp->announce = true;
	atomic_fetch_add(&qp->lane->announcements, 1);
}

static int refuse(const struct otte_rdma_qp *qp)
{
	return otte_fail(-ESHUTDOWN, "%s: QP %u is not in use: %s", qp->context->name, qp->end.qpn,
			 qp->state == OTTE_RDMA_QP_NEW ? "not connected" : qp->why);
}

void otte_rdma_qp_fence(struct otte_rdma_qp *qp, int code, const char *why)
{
	pthread_mutex_lock(&qp->lock);
	fence(qp, code, why);
	pthread_mutex_unlock(&qp->lock);
}

/* Under the lock: of what just failed with a text, or not. */
static int fence_if(struct otte_rdma_qp *qp, int rc)
{
	if (rc)
		fence(qp, rc, otte_error_text());
	return rc;
}

/* ---- Creation -------------------------------------------------------------------------------- */

uint8_t otte_rdma_rd_atomic(uint8_t wanted, uint32_t limit)
{
	if (!limit)
		limit = 1;
	return wanted < limit ? wanted : (uint8_t)limit;
}

static int check_number(const char *name, uint32_t value, uint32_t least, uint32_t most)
{
	if (value >= least && value <= most)
		return 0;
	return otte_fail(-EINVAL, "rdma: %s %u, not %u to %u", name, value, least, most);
}

static int check_params(const struct otte_rdma_context *context,
			const struct otte_rdma_qp_params *params)
{
	const unsigned int allowed = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	uint32_t most = context->limits.max_qp_wr < OTTE_RDMA_WRS_MAX ? context->limits.max_qp_wr :
									OTTE_RDMA_WRS_MAX;
	int rc = check_number("max_send_wr", params->max_send_wr, 1, most);

	if (!rc)
		rc = check_number("max_recv_wr", params->max_recv_wr, 0, most);
	if (!rc)
		rc = check_number("signal_interval", params->signal_interval, 1, UINT32_MAX);
	if (!rc)
		rc = check_number("timeout", params->timeout, 0, 31);
	if (!rc)
		rc = check_number("retry_count", params->retry_count, 0, 7);
	if (!rc)
		rc = check_number("rnr_retry", params->rnr_retry, 0, 7);
	if (!rc)
		rc = check_number("min_rnr_timer", params->min_rnr_timer, 0, 31);
	if (!rc && params->remote_access & ~allowed)
		rc = otte_fail(-EINVAL, "rdma: remote access 0x%x", params->remote_access);
	return rc;
}

static int open_queues(struct otte_rdma_qp *qp, uint32_t serial)
{
	const struct otte_rdma_send_queue_params send = {
		.max_send_wr = qp->params.max_send_wr,
		.signal_interval = qp->params.signal_interval,
		.messages = qp->params.finishes,
		.pd = qp->params.pd,
	};
	int rc = otte_rdma_send_queue_open(&qp->send, qp->context, &send, &qp->lane->sends,
					   SEND_TAG(serial));

	if (rc)
		return rc;
	rc = otte_rdma_receive_queue_open(&qp->receive, qp->context, qp->params.pd,
					  qp->params.max_recv_wr, &qp->lane->receives,
					  RECEIVE_TAG(serial));
	if (rc && otte_rdma_send_queue_close(&qp->send))
		return -EUCLEAN;
	return rc;
}

/* Both are tried, once. */
static int close_queues(struct otte_rdma_qp *qp)
{
	int send = otte_rdma_send_queue_close(&qp->send);
	int receive = otte_rdma_receive_queue_close(&qp->receive);

	return send ? send : receive;
}

static int create_native(struct otte_rdma_qp *qp)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = qp,
		.qp_type = IBV_QPT_RC,
		.send_cq = qp->lane->send_cq,
		.recv_cq = qp->lane->receive_cq,
		.cap = {
			.max_send_wr = qp->params.max_send_wr,
			.max_recv_wr = qp->params.max_recv_wr,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};

	struct ibv_pd *pd = qp->params.pd ? qp->params.pd : qp->context->pd;

	errno = 0;
	qp->native = qp->context->verbs->create_qp(pd, &attr);
	if (!qp->native)
		return otte_rdma_call_failed(qp->context, "ibv_create_qp", errno);
	qp->end.qpn = qp->native->qp_num;
	return 0;
}

static int set_init(struct otte_rdma_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = qp->context->port,
		.qp_access_flags = qp->params.remote_access,
	};
	int rc = qp->context->verbs->modify_qp(qp->native, &attr,
					       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						       IBV_QP_ACCESS_FLAGS);

	return rc ? otte_rdma_call_failed(qp->context, "ibv_modify_qp to INIT", rc) : 0;
}

static void set_end(struct otte_rdma_qp *qp)
{
	struct otte_rdma_route route;

	otte_rdma_context_route(qp->context, &route);
	qp->route_generation = route.generation;
	qp->end.address = route.address;
	qp->end.psn = randombytes_random() & PSN_BITS;
	qp->end.max_dest_rd_atomic = otte_rdma_rd_atomic(qp->params.max_dest_rd_atomic,
							 qp->context->limits.max_dest_rd_atomic);
}

static struct otte_rdma_qp *new_qp(struct otte_rdma_cq_lane *lane,
				   const struct otte_rdma_qp_params *params)
{
	struct otte_rdma_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->context = lane->context;
	qp->lane = lane;
	qp->params = *params;
	pthread_mutex_init(&qp->lock, NULL);
	set_end(qp);
	return qp;
}

static void free_qp(struct otte_rdma_qp *qp)
{
	pthread_mutex_destroy(&qp->lock);
	free(qp);
}

static int retain(struct otte_rdma_qp *qp, const char *why)
{
	pthread_mutex_lock(&qp->lock);
	move(qp, OTTE_RDMA_QP_RETAINED);
	qp->code = -EUCLEAN;
	snprintf(qp->why, sizeof(qp->why), "%s", why);
	pthread_mutex_unlock(&qp->lock);
	pthread_mutex_lock(&qp->context->lock);
	qp->next = qp->context->retained_qps;
	qp->context->retained_qps = qp;
	pthread_mutex_unlock(&qp->context->lock);
	return otte_fail(-EUCLEAN, "%s", qp->why);
}

static int destroy_native(struct otte_rdma_qp *qp)
{
	char why[OTTE_ERROR_BYTES];
	int rc = qp->context->verbs->destroy_qp(qp->native);

	if (!rc) {
		qp->native = NULL;
		return 0;
	}
	atomic_fetch_add(&qp->context->retained.qps, 1);
	otte_rdma_lane_strand(qp->lane);
	snprintf(why, sizeof(why), "%s: ibv_destroy_qp of QP %u: %s; retained", qp->context->name,
		 qp->end.qpn, strerror(rc < 0 ? -rc : rc));
	return retain(qp, why);
}

/* Its native QP is gone, and so is its place on the lane. */
static int dismantle(struct otte_rdma_qp *qp)
{
	char why[OTTE_ERROR_BYTES];

	if (!close_queues(qp)) {
		free_qp(qp);
		return 0;
	}
	snprintf(why, sizeof(why), "%s", otte_error_text());
	return retain(qp, why);
}

/* After `rc`: what was made is undone. */
static int undo(struct otte_rdma_qp *qp, int rc)
{
	char why[OTTE_ERROR_BYTES];
	int undone = 0;

	snprintf(why, sizeof(why), "%s", otte_error_text());
	if (qp->native)
		undone = destroy_native(qp);
	if (!undone)
		undone = dismantle(qp);
	if (undone)
		return otte_fail_within(undone, "%s; and then ", why);
	return otte_fail(rc, "%s", why);
}

/* Whoever finds it by its QPN finds a whole one. */
static int build(struct otte_rdma_qp *qp)
{
	int rc = create_native(qp);

	if (!rc)
		rc = set_init(qp);
	if (!rc)
		rc = otte_rdma_lane_add(qp->lane, qp);
	return rc;
}

int otte_rdma_qp_create(struct otte_rdma_cq_lane *lane, const struct otte_rdma_qp_params *params,
			void (*fenced)(struct otte_rdma_qp *qp, void *arg), void *arg,
			struct otte_rdma_qp **out)
{
	struct otte_rdma_qp *qp;
	uint32_t serial;
	int rc = check_params(lane->context, params);

	if (!rc)
		rc = otte_rdma_context_check(lane->context);
	if (!rc)
		rc = otte_rdma_lane_admit(lane, &serial);
	if (rc)
		return rc;
	qp = new_qp(lane, params);
	if (!qp)
		return otte_fail(-ENOMEM, "%s: %s", lane->context->name, strerror(ENOMEM));
	qp->fenced = fenced;
	qp->arg = arg;
	rc = open_queues(qp, serial);
	if (!rc)
		rc = build(qp);
	if (rc)
		return undo(qp, rc);
	*out = qp;
	return 0;
}

/* ---- Connection ------------------------------------------------------------------------------ */

static enum ibv_mtu path_mtu(const struct otte_rdma_qp *qp, const struct otte_rdma_qp_end *peer)
{
	uint32_t bytes = qp->end.address.mtu_bytes < peer->address.mtu_bytes ?
				 qp->end.address.mtu_bytes :
				 peer->address.mtu_bytes;
	int mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && 256u << (mtu - IBV_MTU_256 + 1) <= bytes)
		mtu++;
	return (enum ibv_mtu)mtu;
}

/* On InfiniBand peers are in the same subnet, and reached by LID. */
static void set_path(const struct otte_rdma_qp *qp, const struct otte_rdma_qp_end *peer,
		     struct ibv_ah_attr *path)
{
	path->port_num = qp->context->port;
	if (!qp->end.address.ethernet) {
		path->dlid = peer->address.lid;
		return;
	}
	path->is_global = 1;
	path->grh.sgid_index = (uint8_t)qp->end.address.gid.index;
	path->grh.hop_limit = HOP_LIMIT;
	memcpy(path->grh.dgid.raw, peer->address.gid.bytes, sizeof(path->grh.dgid.raw));
}

static int set_rtr(struct otte_rdma_qp *qp, const struct otte_rdma_qp_end *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = path_mtu(qp, peer),
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = qp->end.max_dest_rd_atomic,
		.min_rnr_timer = qp->params.min_rnr_timer,
	};
	int rc;

	set_path(qp, peer, &attr.ah_attr);
	rc = qp->context->verbs->modify_qp(
		qp->native, &attr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	return rc ? otte_rdma_call_failed(qp->context, "ibv_modify_qp to RTR", rc) : 0;
}

static uint8_t retries(const struct otte_rdma_qp *qp)
{
	uint8_t count = qp->params.retry_count;

	return qp->context->rxe && count > RXE_RETRIES_MAX ? RXE_RETRIES_MAX : count;
}

static int set_rts(struct otte_rdma_qp *qp, const struct otte_rdma_qp_end *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = qp->end.psn,
		.timeout = qp->params.timeout,
		.retry_cnt = retries(qp),
		.rnr_retry = qp->params.rnr_retry,
		.max_rd_atomic = otte_rdma_rd_atomic(qp->params.max_rd_atomic,
						     qp->context->limits.max_rd_atomic),
	};
	int rc;

	if (attr.max_rd_atomic > peer->max_dest_rd_atomic)
		attr.max_rd_atomic = peer->max_dest_rd_atomic;
	rc = qp->context->verbs->modify_qp(qp->native, &attr,
					   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						   IBV_QP_MAX_QP_RD_ATOMIC);
	qp->max_rd_atomic = attr.max_rd_atomic;
	return rc ? otte_rdma_call_failed(qp->context, "ibv_modify_qp to RTS", rc) : 0;
}

/* Under the lock. */
static int connect_peer(struct otte_rdma_qp *qp, const struct otte_rdma_qp_end *peer)
{
	int rc;

	if (qp->state != OTTE_RDMA_QP_NEW)
		return refuse(qp);
	rc = set_rtr(qp, peer);
	if (!rc)
		rc = set_rts(qp, peer);
	if (!rc)
		move(qp, OTTE_RDMA_QP_READY);
	return fence_if(qp, rc);
}

int otte_rdma_qp_connect(struct otte_rdma_qp *qp, const struct otte_rdma_qp_end *peer)
{
	int rc;

	pthread_mutex_lock(&qp->lock);
	rc = connect_peer(qp, peer);
	pthread_mutex_unlock(&qp->lock);
	return rc;
}

/* ---- Work ------------------------------------------------------------------------------------ */

/* What a queue said of a post. */
static void fence_after_post(struct otte_rdma_qp *qp, int rc)
{
	if (rc == -EUCLEAN || rc == -EPROTO)
		fence(qp, rc, otte_error_text());
}

int otte_rdma_qp_post(struct otte_rdma_qp *qp, const struct otte_rdma_send *sends, uint32_t count,
		      uint32_t *accepted)
{
	int rc;

	*accepted = 0;
	pthread_mutex_lock(&qp->lock);
	if (qp->state != OTTE_RDMA_QP_READY) {
		rc = refuse(qp);
	} else {
		rc = otte_rdma_send_queue_post(&qp->send, qp->context->verbs, qp->native, sends,
					       count, accepted);
		atomic_fetch_add_explicit(&qp->context->posted, *accepted, memory_order_relaxed);
		fence_after_post(qp, rc);
	}
	pthread_mutex_unlock(&qp->lock);
	return rc;
}

int otte_rdma_qp_reserve(struct otte_rdma_qp *qp, uint32_t receipts)
{
	int rc;

	pthread_mutex_lock(&qp->lock);
	rc = qp->state > OTTE_RDMA_QP_READY ?
		     refuse(qp) :
		     otte_rdma_receive_queue_reserve(&qp->receive, receipts);
	pthread_mutex_unlock(&qp->lock);
	return rc;
}

void otte_rdma_qp_release(struct otte_rdma_qp *qp, uint32_t receipts)
{
	pthread_mutex_lock(&qp->lock);
	otte_rdma_receive_queue_release(&qp->receive, receipts);
	pthread_mutex_unlock(&qp->lock);
}

int otte_rdma_qp_expect(struct otte_rdma_qp *qp, struct otte_rdma_receipt *receipt)
{
	int rc;

	pthread_mutex_lock(&qp->lock);
	if (qp->state > OTTE_RDMA_QP_READY) {
		rc = refuse(qp);
	} else {
		rc = otte_rdma_receive_queue_expect(&qp->receive, qp->context->verbs, qp->native,
						    receipt);
		fence_after_post(qp, rc);
	}
	pthread_mutex_unlock(&qp->lock);
	return rc;
}

bool otte_rdma_qp_forget(struct otte_rdma_qp *qp, struct otte_rdma_receipt *receipt)
{
	bool forgotten;

	pthread_mutex_lock(&qp->lock);
	forgotten = otte_rdma_receive_queue_forget(&qp->receive, receipt);
	pthread_mutex_unlock(&qp->lock);
	return forgotten;
}

/* ---- Completions ----------------------------------------------------------------------------- */

/* Under the lock. An error of a WR has put the QP into ERR by itself. */
static void take_verdict(struct otte_rdma_qp *qp, const struct ibv_wc *wc, int rc)
{
	if (!rc)
		return;
	if (rc != -EPROTO)
		otte_fail(rc, "%s: QP %u: %s", qp->context->name, qp->end.qpn,
			  qp->context->verbs->wc_status_str(wc->status));
	fence(qp, rc, otte_error_text());
	if (wc->status != IBV_WC_SUCCESS)
		move(qp, OTTE_RDMA_QP_DRAINING);
}

void otte_rdma_qp_sent(struct otte_rdma_qp *qp, const struct ibv_wc *wc)
{
	struct otte_rdma_work *done;

	pthread_mutex_lock(&qp->lock);
	take_verdict(qp, wc, otte_rdma_send_queue_complete(&qp->send, wc, &done));
	pthread_mutex_unlock(&qp->lock);
	otte_rdma_works_done(done);
}

void otte_rdma_qp_received(struct otte_rdma_qp *qp, const struct ibv_wc *wc)
{
	struct otte_rdma_receipt *done;

	pthread_mutex_lock(&qp->lock);
	take_verdict(qp, wc, otte_rdma_receive_queue_complete(&qp->receive, wc, &done));
	pthread_mutex_unlock(&qp->lock);
	if (done)
		done->done(done, 0);
}

bool otte_rdma_qp_take_announcement(struct otte_rdma_qp *qp)
{
	bool due;

	pthread_mutex_lock(&qp->lock);
	due = qp->announce;
	qp->announce = false;
	pthread_mutex_unlock(&qp->lock);
	return due;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Under the lock. */
static int drain(struct otte_rdma_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int rc;

	if (qp->state != OTTE_RDMA_QP_FENCED)
		return 0;
	rc = qp->context->verbs->modify_qp(qp->native, &attr, IBV_QP_STATE);
	if (rc)
		return otte_rdma_call_failed(qp->context, "ibv_modify_qp to ERR", rc);
	move(qp, OTTE_RDMA_QP_DRAINING);
	return 0;
}

int otte_rdma_qp_drain(struct otte_rdma_qp *qp, int code, const char *why)
{
	int rc;

	pthread_mutex_lock(&qp->lock);
	fence(qp, code, why);
	rc = drain(qp);
	pthread_mutex_unlock(&qp->lock);
	return rc;
}

bool otte_rdma_qp_is_drained(struct otte_rdma_qp *qp)
{
	bool drained;

	pthread_mutex_lock(&qp->lock);
	drained = !qp->send.ring.charged && !qp->receive.ring.charged;
	pthread_mutex_unlock(&qp->lock);
	return drained;
}

static void tell_receipts(struct otte_rdma_receipt *list)
{
	struct otte_rdma_receipt *receipt;

	while (list) {
		receipt = list;
		list = receipt->next;
		receipt->done(receipt, -ECANCELED);
	}
}

static int check_retained(struct otte_rdma_qp *qp)
{
	int rc = 0;

	pthread_mutex_lock(&qp->lock);
	if (qp->state == OTTE_RDMA_QP_RETAINED)
		rc = otte_fail(-EUCLEAN, "%s", qp->why);
	pthread_mutex_unlock(&qp->lock);
	return rc;
}

int otte_rdma_qp_destroy(struct otte_rdma_qp *qp)
{
	struct otte_rdma_late late = { .qpn = qp->end.qpn };
	struct otte_rdma_receipt *receipts;
	struct otte_rdma_work *works;
	int rc;

	rc = check_retained(qp);
	if (!rc)
		rc = destroy_native(qp);
	if (rc)
		return rc;
	pthread_mutex_lock(&qp->lock);
	late.sends = otte_rdma_send_queue_drain(&qp->send, &works);
	late.receives = otte_rdma_receive_queue_drain(&qp->receive, &receipts);
	pthread_mutex_unlock(&qp->lock);
	otte_rdma_lane_remove(qp->lane, qp, &late);
	rc = dismantle(qp);
	otte_rdma_works_done(works);
	tell_receipts(receipts);
	return rc;
}

void otte_rdma_qp_status(struct otte_rdma_qp *qp, struct otte_rdma_qp_status *status)
{
	pthread_mutex_lock(&qp->lock);
	*status = (struct otte_rdma_qp_status){
		.state = qp->state,
		.code = qp->code,
		.sends = qp->send.ring.charged,
		.receives = qp->receive.ring.charged,
		.expected = qp->receive.expected,
	};
	memcpy(status->why, qp->why, sizeof(status->why));
	pthread_mutex_unlock(&qp->lock);
}
