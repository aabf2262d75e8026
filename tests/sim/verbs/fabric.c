/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who reaches whom: ports, their addresses, and the paths that a test has cut. */
#include <string.h>

#include "base/util.h"
#include "sim/verbs/private.h"

#define PSN_MASK 0xffffffu

static bool cut[SIM_DEVICES][SIM_DEVICES];

void sim_path_set(struct sim_device *from, struct sim_device *to, bool up)
{
	pthread_mutex_lock(&sim_lock);
	cut[from->number][to->number] = !up;
	sim_progress();
	pthread_mutex_unlock(&sim_lock);
}

void sim_link_set(struct sim_device *one, struct sim_device *other, bool up)
{
	sim_path_set(one, other, up);
	sim_path_set(other, one, up);
}

void sim_fabric_reset(void)
{
	memset(cut, 0, sizeof(cut));
}

static bool is_up(const struct sim_port *port)
{
	return port && port->attr.state == IBV_PORT_ACTIVE;
}

static bool same_gid(const union ibv_gid *one, const union ibv_gid *other)
{
	return !memcmp(one, other, sizeof(*one));
}

static bool is_addressed(const struct sim_port *port, const struct ibv_ah_attr *ah)
{
	return ah->is_global ? sim_port_has_gid(port, &ah->grh.dgid) : port->attr.lid == ah->dlid;
}

/* What the receiving side compares before it looks at a packet. */
static bool is_of_connection(const struct sim_qp *qp, const struct sim_qp *peer)
{
	const enum ibv_qp_state state = peer->attr.qp_state;

	if (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD)
		return false;
	if (peer->attr.dest_qp_num != qp->qp.qp_num)
		return false;
	if (qp->attr.ah_attr.is_global && (!same_gid(&peer->attr.ah_attr.grh.dgid, &qp->own_gid) ||
					   !same_gid(&qp->attr.ah_attr.grh.dgid, &peer->own_gid)))
		return false;
	return !((qp->psn_sent ^ peer->psn_expected) & PSN_MASK);
}

/* At a port that is up, of this device. */
static struct sim_qp *peer_at(const struct sim_qp *qp, struct sim_nic *nic)
{
	struct sim_qp *peer = sim_qp_find(nic, qp->attr.dest_qp_num);
	struct sim_port *port;

	if (!peer || !is_of_connection(qp, peer))
		return NULL;
	port = sim_port_of(nic, peer->attr.port_num);
	return is_up(port) && is_addressed(port, &qp->attr.ah_attr) ? peer : NULL;
}

static bool may_leave(const struct sim_qp *qp)
{
	const struct sim_port *port = sim_port_of(qp->nic, qp->attr.port_num);

	return is_up(port) && (!qp->attr.ah_attr.is_global || sim_port_has_gid(port, &qp->own_gid));
}

struct sim_qp *sim_fabric_peer(const struct sim_qp *qp)
{
	struct sim_qp *peer;
	unsigned int i;

	if (!may_leave(qp))
		return NULL;
	for (i = 0; i < sim_nic_count; i++) {
		if (cut[qp->nic->device.number][i])
			continue;
		peer = peer_at(qp, &sim_nics[i]);
		if (peer)
			return peer;
	}
	return NULL;
}

bool sim_fabric_answers(const struct sim_qp *qp, const struct sim_qp *peer)
{
	return !cut[peer->nic->device.number][qp->nic->device.number];
}
