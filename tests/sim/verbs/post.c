/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Posts: what is refused at once, and the copying of the rest into the slots of a queue. A list is
 * taken up to the first that is refused.
 */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "sim/verbs/private.h"

static bool is_full(const struct sim_numbers *numbers)
{
	return numbers->tail - numbers->free >= numbers->size;
}

static uint64_t length_of(const struct ibv_sge *list, int count)
{
	uint64_t length = 0;
	int i;

	for (i = 0; i < count; i++)
		length += list[i].length;
	return length;
}

/* ---- Sends ----------------------------------------------------------------------------------- */

static int check_opcode(const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return 0;
	case IBV_WR_RDMA_READ:
	case IBV_WR_LOCAL_INV:
		return wr->send_flags & IBV_SEND_INLINE ? EINVAL : 0;
	case IBV_WR_BIND_MW:
		return wr->send_flags & IBV_SEND_INLINE || !wr->bind_mw.mw ? EINVAL : 0;
	default:
		return EINVAL;
	}
}

static int check_send(const struct sim_qp *qp, const struct ibv_send_wr *wr)
{
	const enum ibv_qp_state state = qp->attr.qp_state;

	if (state != IBV_QPS_RTS && state != IBV_QPS_SQD && state != IBV_QPS_ERR)
		return EINVAL;
	if (is_full(&qp->sends))
		return ENOMEM;
	if (wr->num_sge < 0 || wr->num_sge > (int)qp->cap.max_send_sge)
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE &&
	    length_of(wr->sg_list, wr->num_sge) > qp->cap.max_inline_data)
		return EINVAL;
	return check_opcode(wr);
}

/* They may be overwritten as soon as the post returns. */
static void take_inline(struct sim_qp *qp, uint64_t number, const struct ibv_send_wr *wr,
			struct sim_bytes *bytes)
{
	uint8_t *to = qp->inline_bytes + number % qp->sends.size * qp->cap.max_inline_data;
	int i;

	bytes->inline_bytes = to;
	for (i = 0; i < wr->num_sge; i++) {
		memcpy(to, sim_pointer(wr->sg_list[i].addr), wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

static void take_bytes(const struct sim_qp *qp, struct sim_bytes *bytes, const struct ibv_sge *list,
		       int count)
{
	bytes->nic = qp->nic;
	bytes->inline_bytes = NULL;
	bytes->count = (unsigned int)count;
	bytes->length = length_of(list, count);
	if (count)
		memcpy(bytes->list, list, (size_t)count * sizeof(*list));
}

static struct sim_bind bind_of(const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	return (struct sim_bind){
		.old_key = wr->bind_mw.mw->rkey,
		.key = wr->bind_mw.rkey,
		.parent = info->mr ? info->mr->lkey : 0,
		.at = info->addr,
		.length = info->length,
		.access = info->mw_access_flags,
	};
}

static void take_send(struct sim_qp *qp, const struct ibv_send_wr *wr)
{
	const uint64_t number = qp->sends.tail++;
	struct sim_wqe *wqe = sim_wqe_at(qp, number);
	struct sim_bytes bytes = wqe->bytes;

	take_bytes(qp, &bytes, wr->sg_list, wr->num_sge);
	if (wr->send_flags & IBV_SEND_INLINE)
		take_inline(qp, number, wr, &bytes);
	*wqe = (struct sim_wqe){
		.state = SIM_WQE_POSTED,
		.wr_id = wr->wr_id,
		.opcode = wr->opcode,
		.flags = wr->send_flags,
		.immediate_or_key = wr->invalidate_rkey,
		.remote_at = wr->wr.rdma.remote_addr,
		.remote_key = wr->wr.rdma.rkey,
		.bytes = bytes,
	};
	if (wr->opcode == IBV_WR_BIND_MW)
		wqe->bind = bind_of(wr);
	qp->nic->counts.wrs++;
}

/* Up to `most` of a list; *wr becomes the first that was not taken. */
static int take_sends(struct sim_qp *qp, struct ibv_send_wr **wr, unsigned int most)
{
	unsigned int taken;
	int error;

	for (taken = 0; *wr && taken < most; taken++, *wr = (*wr)->next) {
		error = check_send(qp, *wr);
		if (error)
			return error;
		take_send(qp, *wr);
	}
	return 0;
}

static void tell_bad_send(const struct sim_fault *fault, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad_wr)
{
	static struct ibv_send_wr foreign;

	if (!fault || fault->bad_wr == SIM_BAD_WR_EXACT)
		*bad_wr = wr;
	else if (fault->bad_wr == SIM_BAD_WR_NULL)
		*bad_wr = NULL;
	else if (fault->bad_wr == SIM_BAD_WR_FOREIGN)
		*bad_wr = &foreign;
}

static void go_on(struct sim_qp *qp)
{
	if (sim_has_work(qp))
		sim_progress_add(qp);
	sim_progress();
}

int sim_post_send(struct ibv_qp *native, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct sim_qp *qp = sim_qp_of(native);
	const struct sim_fault *fault;
	int error;

	pthread_mutex_lock(&sim_lock);
	fault = sim_fault_post(SIM_POST_SEND, SIM_OF_QP(qp));
	error = take_sends(qp, &wr, fault ? fault->accepted : UINT32_MAX);
	if (error)
		*bad_wr = wr;
	else if (fault)
		tell_bad_send(fault, wr, bad_wr);
	if (fault && !error)
		error = fault->error;
	go_on(qp);
	pthread_mutex_unlock(&sim_lock);
	return error;
}

/* For windows of type 1, whose keys the library chooses. */
int sim_bind_mw(struct ibv_qp *native, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct sim_qp *qp = sim_qp_of(native);
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = { .mw = mw,
			     .rkey = ibv_inc_rkey(mw->rkey),
			     .bind_info = bind->bind_info },
	};
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_BIND_MW, SIM_OF_QP(qp));
	if (!error)
		error = mw->type == IBV_MW_TYPE_1 ? check_send(qp, &wr) : EINVAL;
	if (!error) {
		take_send(qp, &wr);
		mw->rkey = wr.bind_mw.rkey;
		go_on(qp);
	}
	pthread_mutex_unlock(&sim_lock);
	return error;
}

/* ---- Receives -------------------------------------------------------------------------------- */

static int check_recv(const struct sim_qp *qp, const struct ibv_recv_wr *wr)
{
	if (qp->attr.qp_state == IBV_QPS_RESET)
		return EINVAL;
	if (is_full(&qp->recvs))
		return ENOMEM;
	return wr->num_sge < 0 || wr->num_sge > (int)qp->cap.max_recv_sge ? EINVAL : 0;
}

static int take_recvs(struct sim_qp *qp, struct ibv_recv_wr **wr, unsigned int most)
{
	struct sim_recv *recv;
	unsigned int taken;
	int error;

	for (taken = 0; *wr && taken < most; taken++, *wr = (*wr)->next) {
		error = check_recv(qp, *wr);
		if (error)
			return error;
		recv = sim_recv_at(qp, qp->recvs.tail++);
		recv->wr_id = (*wr)->wr_id;
		take_bytes(qp, &recv->bytes, (*wr)->sg_list, (*wr)->num_sge);
		qp->nic->counts.recvs++;
	}
	return 0;
}

static void tell_bad_recv(const struct sim_fault *fault, struct ibv_recv_wr *wr,
			  struct ibv_recv_wr **bad_wr)
{
	static struct ibv_recv_wr foreign;

	if (!fault || fault->bad_wr == SIM_BAD_WR_EXACT)
		*bad_wr = wr;
	else if (fault->bad_wr == SIM_BAD_WR_NULL)
		*bad_wr = NULL;
	else if (fault->bad_wr == SIM_BAD_WR_FOREIGN)
		*bad_wr = &foreign;
}

int sim_post_recv(struct ibv_qp *native, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct sim_qp *qp = sim_qp_of(native);
	const struct sim_fault *fault;
	int error;

	pthread_mutex_lock(&sim_lock);
	fault = sim_fault_post(SIM_POST_RECV, SIM_OF_QP(qp));
	error = take_recvs(qp, &wr, fault ? fault->accepted : UINT32_MAX);
	if (error)
		*bad_wr = wr;
	else if (fault)
		tell_bad_recv(fault, wr, bad_wr);
	if (fault && !error)
		error = fault->error;
	go_on(qp);
	pthread_mutex_unlock(&sim_lock);
	return error;
}
