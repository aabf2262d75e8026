/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Windows of type 2B: who may bind and invalidate them. A window is free until a bind, and bound
 * until it is invalidated by its key; it is never bound anew before that. Those of type 1 are bound
 * again and again, and belong to no QP.
 */
#include "base/util.h"
#include "sim/verbs/private.h"

#define KEY_BYTE 0xffu
#define WINDOW_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

void sim_window_unbind(struct sim_mw *mw)
{
	if (!mw->parent)
		return;
	mw->parent->windows--;
	mw->parent = NULL;
	mw->qp = NULL;
	mw->access = 0;
	sim_nic_of(mw->mw.context)->counts.mws_bound--;
}

static bool may_bind(const struct sim_mr *mr, const struct sim_bind *bind)
{
	if (!(mr->access & IBV_ACCESS_MW_BIND) || bind->access & ~WINDOW_ACCESS)
		return false;
	if (bind->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	return sim_mr_covers(mr, bind->at, bind->length);
}

static bool may_take_key(const struct sim_mw *mw, const struct sim_bind *bind)
{
	return bind->old_key == mw->key && (bind->key & ~KEY_BYTE) == (mw->key & ~KEY_BYTE);
}

/* NULL: it may not be one. Keys are looked up, for what they named may be gone by now. */
static struct sim_mr *parent_of(const struct sim_mw *mw, const struct sim_bind *bind)
{
	struct sim_mr *mr = sim_key_find(sim_nic_of(mw->mw.context), bind->parent).mr;

	if (!mr || mr->mr.lkey != bind->parent || mr->mr.pd != mw->mw.pd || !may_bind(mr, bind))
		return NULL;
	return mr;
}

enum ibv_wc_status sim_window_bind(struct sim_qp *qp, const struct sim_bind *bind)
{
	struct sim_mw *mw = sim_key_find(qp->nic, bind->old_key).mw;
	struct sim_mr *mr = NULL;
	bool type2;

	if (!mw || mw->mw.pd != qp->qp.pd || !may_take_key(mw, bind))
		return IBV_WC_MW_BIND_ERR;
	type2 = mw->mw.type == IBV_MW_TYPE_2;
	if (bind->length)
		mr = parent_of(mw, bind);
	if (type2 ? mw->parent || !mr : bind->length && !mr)
		return IBV_WC_MW_BIND_ERR;
	sim_window_unbind(mw);
	mw->key = bind->key;
	if (!mr)
		return IBV_WC_SUCCESS;
	mw->parent = mr;
	mw->qp = type2 ? qp : NULL;
	mw->at = bind->at;
	mw->length = bind->length;
	mw->access = bind->access;
	mr->windows++;
	qp->nic->counts.mws_bound++;
	return IBV_WC_SUCCESS;
}

bool sim_window_invalidate(struct sim_qp *qp, uint32_t key)
{
	const bool any_qp = qp->nic->device.quirks & SIM_RXE_ANY_QP_INVALIDATES;
	struct sim_mw *mw = sim_key_find(qp->nic, key).mw;

	if (!mw || mw->key != key || !mw->parent || mw->mw.type != IBV_MW_TYPE_2)
		return false;
	if (mw->qp != qp && !any_qp)
		return false;
	sim_window_unbind(mw);
	return true;
}
