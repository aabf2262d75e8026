/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which moves a reliable connection may make, and what has to come with each:
 *
 *	RESET --> INIT --> RTR --> RTS <--> SQD
 *	any --> RESET, any but RESET --> ERR
 */
#include <errno.h>

#include "base/util.h"
#include "sim/verbs/private.h"

#define TIMER_MAX 31
#define RETRY_MAX 7

struct move {
	enum ibv_qp_state from, to;
	int required, optional; /* besides IBV_QP_STATE */
};

static const struct move moves[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0,
	  IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
		  IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER },
};

/* Into RESET and ERR nothing else may come along. */
static bool is_move(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	size_t i;

	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return mask == IBV_QP_STATE;
	for (i = 0; i < ARRAY_SIZE(moves); i++)
		if (moves[i].from == from && moves[i].to == to)
			return (mask & moves[i].required) == moves[i].required &&
			       !(mask & ~(moves[i].required | moves[i].optional | IBV_QP_STATE));
	return false;
}

static bool is_address(const struct sim_qp *qp, const struct ibv_ah_attr *ah)
{
	const struct sim_port *port = sim_port_of(qp->nic, ah->port_num);

	if (!port || port->error)
		return false;
	if (!ah->is_global)
		return port->attr.link_layer == IBV_LINK_LAYER_INFINIBAND;
	return ah->grh.sgid_index < SIM_GIDS &&
	       sim_port_has_gid(port, &port->gids[ah->grh.sgid_index].gid);
}

/* A device that reports 0 is asked for 1 all the same. */
static bool is_rd_atomic(uint8_t wanted, int limit)
{
	return wanted <= (limit ? limit : 1);
}

static bool are_numbers(const struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct ibv_device_attr *device = &qp->nic->device.attr;

	if (mask & IBV_QP_MAX_QP_RD_ATOMIC &&
	    !is_rd_atomic(attr->max_rd_atomic, device->max_qp_init_rd_atom))
		return false;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC &&
	    !is_rd_atomic(attr->max_dest_rd_atomic, device->max_qp_rd_atom))
		return false;
	if (mask & IBV_QP_TIMEOUT && attr->timeout > TIMER_MAX)
		return false;
	if (mask & IBV_QP_MIN_RNR_TIMER && attr->min_rnr_timer > TIMER_MAX)
		return false;
	if (mask & IBV_QP_RETRY_CNT && attr->retry_cnt > RETRY_MAX)
		return false;
	return !(mask & IBV_QP_RNR_RETRY) || attr->rnr_retry <= RETRY_MAX;
}

static bool is_mtu(const struct sim_qp *qp, enum ibv_mtu mtu)
{
	const struct sim_port *port = sim_port_of(qp->nic, qp->attr.port_num);

	return port && mtu >= IBV_MTU_256 && mtu <= port->attr.active_mtu;
}

int sim_states_check(const struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const enum ibv_qp_state now = qp->attr.qp_state;
	const enum ibv_qp_state next = mask & IBV_QP_STATE ? attr->qp_state : now;

	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != now)
		return EINVAL;
	if (!is_move(now, next, mask) || !are_numbers(qp, attr, mask))
		return EINVAL;
	if (mask & IBV_QP_PORT && !sim_port_of(qp->nic, attr->port_num))
		return EINVAL;
	if (mask & IBV_QP_PKEY_INDEX && attr->pkey_index)
		return EINVAL;
	if (mask & IBV_QP_AV && !is_address(qp, &attr->ah_attr))
		return EINVAL;
	return mask & IBV_QP_PATH_MTU && !is_mtu(qp, attr->path_mtu) ? EINVAL : 0;
}
