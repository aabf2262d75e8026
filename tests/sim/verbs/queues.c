/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Queue pairs: how they begin, what state they are in, and how they end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "sim/verbs/private.h"

#define PSN_MASK 0xffffffu
#define QPN_MASK 0xffffffu

struct sim_qp *sim_qp_of(struct ibv_qp *qp)
{
	return container_of(qp, struct sim_qp, qp);
}

struct sim_cq *sim_send_cq(const struct sim_qp *qp)
{
	return container_of(qp->qp.send_cq, struct sim_cq, cq);
}

struct sim_cq *sim_recv_cq(const struct sim_qp *qp)
{
	return container_of(qp->qp.recv_cq, struct sim_cq, cq);
}

struct sim_wqe *sim_wqe_at(const struct sim_qp *qp, uint64_t number)
{
	return &qp->wqes[number % qp->sends.size];
}

struct sim_recv *sim_recv_at(const struct sim_qp *qp, uint64_t number)
{
	return &qp->recv_wqes[number % qp->recvs.size];
}

struct sim_qp *sim_qp_find(struct sim_nic *nic, uint32_t number)
{
	struct sim_qp *qp;

	LIST_FOREACH(qp, &nic->qps, nic_link)
		if (qp->qp.qp_num == number)
			return qp;
	return NULL;
}

/* ---- Create ---------------------------------------------------------------------------------- */

static int check_cap(const struct sim_nic *nic, const struct ibv_qp_cap *cap)
{
	const struct ibv_device_attr *attr = &nic->device.attr;

	if (cap->max_send_wr > (uint32_t)attr->max_qp_wr ||
	    cap->max_recv_wr > (uint32_t)attr->max_qp_wr ||
	    cap->max_send_sge > (uint32_t)attr->max_sge ||
	    cap->max_recv_sge > (uint32_t)attr->max_sge ||
	    cap->max_inline_data > nic->device.max_inline)
		return EINVAL;
	return 0;
}

static int check_init(struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
	const struct sim_nic *nic = sim_nic_of(pd->context);

	if (nic->fatal)
		return EIO;
	if (init->qp_type != IBV_QPT_RC || init->srq)
		return EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq || init->send_cq->context != pd->context ||
	    init->recv_cq->context != pd->context)
		return EINVAL;
	if (nic->counts.qps >= (unsigned int)nic->device.attr.max_qp)
		return ENOMEM;
	return check_cap(nic, &init->cap);
}

static void free_memory(struct sim_qp *qp)
{
	free(qp->wqes);
	free(qp->recv_wqes);
	free(qp->sges);
	free(qp->inline_bytes);
	free(qp);
}

/* Everything that posts will need, so that none of them allocates. */
static struct sim_qp *new_qp(const struct ibv_qp_cap *cap)
{
	const size_t send_sges = (size_t)cap->max_send_wr * cap->max_send_sge;
	const size_t recv_sges = (size_t)cap->max_recv_wr * cap->max_recv_sge;
	struct sim_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->wqes = calloc(cap->max_send_wr + 1, sizeof(struct sim_wqe));
	qp->recv_wqes = calloc(cap->max_recv_wr + 1, sizeof(struct sim_recv));
	qp->sges = calloc(send_sges + recv_sges + 1, sizeof(struct ibv_sge));
	qp->inline_bytes = calloc(1, (size_t)cap->max_send_wr * cap->max_inline_data + 1);
	if (!qp->wqes || !qp->recv_wqes || !qp->sges || !qp->inline_bytes) {
		free_memory(qp);
		return NULL;
	}
	qp->cap = *cap;
	qp->sends.size = cap->max_send_wr;
	qp->recvs.size = cap->max_recv_wr;
	return qp;
}

static void place_slots(struct sim_qp *qp)
{
	struct ibv_sge *sge = qp->sges;
	uint32_t i;

	for (i = 0; i < qp->sends.size; i++, sge += qp->cap.max_send_sge)
		qp->wqes[i].bytes.list = sge;
	for (i = 0; i < qp->recvs.size; i++, sge += qp->cap.max_recv_sge)
		qp->recv_wqes[i].bytes.list = sge;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct sim_nic *nic = sim_nic_of(pd->context);
	struct sim_qp *qp = new_qp(&init->cap);

	if (!qp)
		return NULL;
	place_slots(qp);
	do
		nic->last_qpn = (nic->last_qpn + 1) & QPN_MASK;
	while (!nic->last_qpn || sim_qp_find(nic, nic->last_qpn));
	qp->nic = nic;
	qp->signals_all = init->sq_sig_all;
	qp->qp.context = pd->context;
	qp->qp.qp_context = init->qp_context;
	qp->qp.pd = pd;
	qp->qp.send_cq = init->send_cq;
	qp->qp.recv_cq = init->recv_cq;
	qp->qp.qp_num = nic->last_qpn;
	qp->qp.state = IBV_QPS_RESET;
	qp->qp.qp_type = IBV_QPT_RC;
	sim_send_cq(qp)->queues++;
	sim_recv_cq(qp)->queues++;
	LIST_INSERT_HEAD(&nic->qps, qp, nic_link);
	LIST_INSERT_HEAD(&container_of(pd, struct sim_pd, pd)->qps, qp, pd_link);
	nic->counts.qps++;
	return &qp->qp;
}

struct ibv_qp *sim_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp *qp = NULL;
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_CREATE_QP, SIM_OF(pd, init->send_cq, init->recv_cq, pd->context,
						     pd->context->device));
	if (!error)
		error = check_init(pd, init);
	if (error)
		errno = error;
	else
		qp = create_qp(pd, init);
	pthread_mutex_unlock(&sim_lock);
	return qp;
}

/* ---- States ---------------------------------------------------------------------------------- */

void sim_qp_raise(struct sim_qp *qp, enum ibv_event_type type)
{
	const struct ibv_async_event event = { .element.qp = &qp->qp, .event_type = type };
	struct sim_context *context = sim_context_of(qp->qp.context);

	if (!context->closed)
		sim_event_push(&context->events, &event, &qp->object);
}

void sim_qp_set_error(struct sim_qp *qp)
{
	if (qp->attr.qp_state == IBV_QPS_RESET)
		return;
	qp->attr.qp_state = IBV_QPS_ERR;
	sim_progress_add(qp);
}

void sim_qp_fatal(struct ibv_qp *native)
{
	struct sim_qp *qp = sim_qp_of(native);

	pthread_mutex_lock(&sim_lock);
	sim_qp_set_error(qp);
	sim_qp_raise(qp, IBV_EVENT_QP_FATAL);
	sim_progress();
	pthread_mutex_unlock(&sim_lock);
}

static void forget(struct sim_qp *qp)
{
	const bool drop = !(qp->nic->device.quirks & SIM_RXE_KEEPS_CQES);

	sim_progress_remove(qp);
	sim_cq_forget(sim_send_cq(qp), qp, drop);
	sim_cq_forget(sim_recv_cq(qp), qp, drop);
	qp->nic->counts.wrs -= (unsigned int)(qp->sends.tail - qp->sends.head);
	qp->nic->counts.recvs -= (unsigned int)(qp->recvs.tail - qp->recvs.head);
}

static void reset(struct sim_qp *qp)
{
	forget(qp);
	qp->attr = (struct ibv_qp_attr){};
	qp->established = false;
	qp->in_flight = 0;
	qp->sends = (struct sim_numbers){ .size = qp->sends.size };
	qp->recvs = (struct sim_numbers){ .size = qp->recvs.size };
}

static void take_address(struct sim_qp *qp, const struct ibv_ah_attr *ah)
{
	const struct sim_port *port = sim_port_of(qp->nic, ah->port_num);

	qp->attr.ah_attr = *ah;
	qp->own_gid = port->gids[ah->is_global ? ah->grh.sgid_index : 0].gid;
}

#define TAKE(flag, member)                              \
	do {                                            \
		if (mask & (flag))                      \
			qp->attr.member = attr->member; \
	} while (0)

static void take(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
	TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	if (mask & IBV_QP_RQ_PSN)
		qp->psn_expected = attr->rq_psn & PSN_MASK;
	if (mask & IBV_QP_SQ_PSN)
		qp->psn_sent = attr->sq_psn & PSN_MASK;
	if (mask & IBV_QP_AV)
		take_address(qp, &attr->ah_attr);
}

static void modify(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	take(qp, attr, mask);
	if (!(mask & IBV_QP_STATE))
		return;
	if (attr->qp_state == IBV_QPS_RESET)
		reset(qp);
	else if (attr->qp_state == IBV_QPS_ERR)
		sim_qp_set_error(qp);
	else
		qp->attr.qp_state = attr->qp_state;
	/* The library's: it knows nothing of what becomes of it by itself. */
	qp->qp.state = attr->qp_state;
	if (attr->qp_state == IBV_QPS_SQD && qp->attr.en_sqd_async_notify)
		sim_qp_raise(qp, IBV_EVENT_SQ_DRAINED);
	if (sim_has_work(qp))
		sim_progress_add(qp);
}

int sim_modify_qp(struct ibv_qp *native, struct ibv_qp_attr *attr, int mask)
{
	struct sim_qp *qp = sim_qp_of(native);
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_MODIFY_QP, SIM_OF_QP(qp));
	if (!error && qp->nic->fatal)
		error = EIO;
	if (!error)
		error = sim_states_check(qp, attr, mask);
	if (!error) {
		modify(qp, attr, mask);
		sim_progress();
	}
	pthread_mutex_unlock(&sim_lock);
	return error;
}

int sim_query_qp(struct ibv_qp *native, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct sim_qp *qp = sim_qp_of(native);
	int error;

	(void)mask;
	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_QUERY_QP, SIM_OF_QP(qp));
	if (!error) {
		*attr = qp->attr;
		attr->cur_qp_state = qp->attr.qp_state;
		attr->cap = qp->cap;
		*init = (struct ibv_qp_init_attr){
			.qp_context = native->qp_context,
			.send_cq = native->send_cq,
			.recv_cq = native->recv_cq,
			.cap = qp->cap,
			.qp_type = native->qp_type,
			.sq_sig_all = qp->signals_all,
		};
	}
	pthread_mutex_unlock(&sim_lock);
	return error;
}

/* ---- Destroy --------------------------------------------------------------------------------- */

static void remove_qp(struct sim_qp *qp)
{
	forget(qp);
	sim_windows_orphan(qp);
	sim_event_purge(&sim_context_of(qp->qp.context)->events, &qp->object);
	sim_send_cq(qp)->queues--;
	sim_recv_cq(qp)->queues--;
	LIST_REMOVE(qp, nic_link);
	LIST_REMOVE(qp, pd_link);
	qp->nic->counts.qps--;
}

void sim_qp_free(struct sim_qp *qp)
{
	remove_qp(qp);
	free_memory(qp);
}

int sim_destroy_qp(struct ibv_qp *native)
{
	struct sim_qp *qp = sim_qp_of(native);
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_DESTROY_QP, SIM_OF_QP(qp));
	if (!error) {
		remove_qp(qp);
		sim_event_wait_acked(&qp->object, "destroy_qp");
		free_memory(qp);
		sim_progress();
	}
	pthread_mutex_unlock(&sim_lock);
	return error;
}
