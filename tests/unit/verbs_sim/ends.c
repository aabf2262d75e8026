/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

struct end here, there;

/* ---- Opening --------------------------------------------------------------------------------- */

struct ibv_qp *end_create_qp(struct end *end)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = end->sends,
		.recv_cq = end->recvs,
		.cap = { END_WRS, END_WRS, 2, 2, END_INLINE },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = end->verbs->create_qp(end->pd, &attr);

	assert_non_null(qp);
	return qp;
}

void end_open(struct end *end, struct sim_device *device)
{
	memset(end, 0, sizeof(*end));
	end->verbs = sim_verbs(device->host);
	end->device = device;
	end->context = end->verbs->open_device(&device->device);
	assert_non_null(end->context);
	end->pd = end->verbs->alloc_pd(end->context);
	end->channel = end->verbs->create_comp_channel(end->context);
	end->sends = end->verbs->create_cq(end->context, 2 * END_WRS, NULL, NULL, 0);
	end->recvs = end->verbs->create_cq(end->context, 2 * END_WRS, end, end->channel, 0);
	assert_non_null(end->sends);
	assert_non_null(end->recvs);
	end->local = end->verbs->reg_mr(end->pd, end->bytes, END_BYTES, IBV_ACCESS_LOCAL_WRITE);
	end->parent = end->verbs->reg_mr(end->pd, end->bytes, END_BYTES,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	assert_non_null(end->local);
	assert_non_null(end->parent);
	end->qp = end_create_qp(end);
}

void end_close(struct end *end)
{
	if (end->qp)
		assert_int_equal(end->verbs->destroy_qp(end->qp), 0);
	if (end->local)
		assert_int_equal(end->verbs->dereg_mr(end->local), 0);
	if (end->parent)
		assert_int_equal(end->verbs->dereg_mr(end->parent), 0);
	if (end->sends)
		assert_int_equal(end->verbs->destroy_cq(end->sends), 0);
	if (end->recvs)
		assert_int_equal(end->verbs->destroy_cq(end->recvs), 0);
	if (end->channel)
		assert_int_equal(end->verbs->destroy_comp_channel(end->channel), 0);
	assert_int_equal(end->verbs->dealloc_pd(end->pd), 0);
	assert_int_equal(end->verbs->close_device(end->context), 0);
}

int end_to_init(struct end *end, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};

	return end->verbs->modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int end_to_rtr(struct end *end, struct ibv_qp *qp, const struct end *peer,
	       const struct ibv_qp *peer_qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer_qp->qp_num,
		.rq_psn = peer_qp->qp_num + 100,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {
			.grh = {
				.dgid = peer->device->ports[0].gids[END_GID].gid,
				.sgid_index = END_GID,
				.hop_limit = 64,
			},
			.is_global = 1,
			.port_num = 1,
		},
	};

	return end->verbs->modify_qp(qp, &attr,
				     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					     IBV_QP_MIN_RNR_TIMER);
}

int end_to_rts(struct end *end, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 6,
		.rnr_retry = 7,
		.sq_psn = qp->qp_num + 100,
		.max_rd_atomic = 4,
	};

	return end->verbs->modify_qp(qp, &attr,
				     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					     IBV_QP_MAX_QP_RD_ATOMIC);
}

void end_connect(struct end *end, struct ibv_qp *qp, const struct end *peer,
		 const struct ibv_qp *peer_qp)
{
	assert_int_equal(end_to_init(end, qp), 0);
	assert_int_equal(end_to_rtr(end, qp, peer, peer_qp), 0);
	assert_int_equal(end_to_rts(end, qp), 0);
}

int ends_start(void **state)
{
	size_t i;

	(void)state;
	sim_reset();
	end_open(&here, sim_device_add(0, "mlx5_0"));
	end_open(&there, sim_device_add(1, "mlx5_0"));
	for (i = 0; i < END_BYTES; i++)
		there.bytes[i] = (uint8_t)(i % 251 + 1);
	end_connect(&here, here.qp, &there, there.qp);
	end_connect(&there, there.qp, &here, here.qp);
	return 0;
}

int ends_finish(void **state)
{
	(void)state;
	end_close(&here);
	end_close(&there);
	assert_string_equal(sim_left(), "");
	return 0;
}

/* ---- Posting --------------------------------------------------------------------------------- */

static uint64_t post(struct end *end, struct ibv_send_wr wr, size_t at, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->bytes + at,
		.length = length,
		.lkey = end->local->lkey,
	};
	struct ibv_send_wr *bad = NULL;

	wr.wr_id = ++end->last_id;
	wr.sg_list = &sge;
	wr.num_sge = length != 0;
	assert_int_equal(end->verbs->post_send(end->qp, &wr, &bad), 0);
	return wr.wr_id;
}

uint64_t end_read(struct end *end, size_t to, uint32_t length, const void *from, uint32_t key,
		  unsigned int flags)
{
	const struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = flags,
		.wr.rdma = { (uintptr_t)from, key },
	};

	return post(end, wr, to, length);
}

uint64_t end_write(struct end *end, size_t from, uint32_t length, const void *to, uint32_t key,
		   unsigned int flags)
{
	const struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = flags,
		.wr.rdma = { (uintptr_t)to, key },
	};

	return post(end, wr, from, length);
}

uint64_t end_send(struct end *end, size_t from, uint32_t length, unsigned int flags)
{
	const struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = flags };

	return post(end, wr, from, length);
}

uint64_t end_send_inv(struct end *end, size_t from, uint32_t length, uint32_t key,
		      unsigned int flags)
{
	const struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_INV,
		.send_flags = flags,
		.invalidate_rkey = key,
	};

	return post(end, wr, from, length);
}

uint64_t end_bind(struct end *end, struct ibv_mw *mw, uint32_t key, const void *at, uint64_t length,
		  unsigned int access)
{
	const struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw,
			.rkey = key,
			.bind_info = { end->parent, (uintptr_t)at, length, access },
		},
	};

	return post(end, wr, 0, 0);
}

uint64_t end_local_inv(struct end *end, uint32_t key)
{
	const struct ibv_send_wr wr = {
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = key,
	};

	return post(end, wr, 0, 0);
}

uint64_t end_recv(struct end *end, size_t to, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->bytes + to,
		.length = length,
		.lkey = end->local->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = ++end->last_id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad = NULL;

	assert_int_equal(end->verbs->post_recv(end->qp, &wr, &bad), 0);
	return wr.wr_id;
}

/* ---- Finding --------------------------------------------------------------------------------- */

static struct ibv_wc next(struct end *end, struct ibv_cq *cq)
{
	struct ibv_wc wc = {};

	assert_int_equal(end->verbs->poll_cq(cq, 1, &wc), 1);
	return wc;
}

struct ibv_wc end_sent(struct end *end)
{
	return next(end, end->sends);
}

struct ibv_wc end_received(struct end *end)
{
	return next(end, end->recvs);
}

void end_is_idle(struct end *end)
{
	struct ibv_wc wc;

	assert_int_equal(end->verbs->poll_cq(end->sends, 1, &wc), 0);
	assert_int_equal(end->verbs->poll_cq(end->recvs, 1, &wc), 0);
}

void end_fails(struct end *end, uint64_t id, enum ibv_wc_status status)
{
	const struct ibv_wc wc = end_sent(end);

	assert_int_equal(wc.status, status);
	assert_int_equal(wc.wr_id, id);
}

struct ibv_mw *end_window(struct end *end, size_t offset, uint64_t length, unsigned int access)
{
	struct ibv_mw *mw = end->verbs->alloc_mw(end->pd, IBV_MW_TYPE_2);
	uint32_t key;
	uint64_t id;
	struct ibv_wc wc;

	assert_non_null(mw);
	key = ibv_inc_rkey(mw->rkey);
	id = end_bind(end, mw, key, end->bytes + offset, length, access);
	wc = end_sent(end);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
	assert_int_equal(wc.wr_id, id);
	mw->rkey = key;
	return mw;
}

enum ibv_qp_state end_state(struct end *end, struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(end->verbs->query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}
