/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What keys allow, and the moving of bytes between where messages lie. */
#include <string.h>

#include "base/util.h"
#include "sim/verbs/private.h"

/* ---- Local keys ------------------------------------------------------------------------------ */

static bool local_allowed(const struct sim_qp *qp, const struct ibv_sge *sge, bool write)
{
	const struct sim_mr *mr = sim_key_find(qp->nic, sge->lkey).mr;

	if (!sge->length)
		return true;
	return mr && mr->mr.lkey == sge->lkey && mr->mr.pd == qp->qp.pd &&
	       (!write || mr->access & IBV_ACCESS_LOCAL_WRITE) &&
	       sim_mr_covers(mr, sge->addr, sge->length);
}

bool sim_bytes_allowed(const struct sim_qp *qp, const struct sim_bytes *bytes, bool write)
{
	unsigned int i;

	for (i = 0; !bytes->inline_bytes && i < bytes->count; i++)
		if (!local_allowed(qp, &bytes->list[i], write))
			return false;
	return true;
}

/* ---- A peer's -------------------------------------------------------------------------------- */

static bool window_allows(const struct sim_qp *qp, const struct sim_mw *mw, uint64_t at,
			  uint64_t length, int access)
{
	const bool by_parent = qp->nic->device.quirks & SIM_RXE_PARENT_RANGE;

	if (!mw->parent || mw->mw.pd != qp->qp.pd || !(mw->access & (unsigned int)access))
		return false;
	if (mw->mw.type == IBV_MW_TYPE_2 && mw->qp != qp)
		return false;
	if (by_parent)
		return sim_mr_covers(mw->parent, at, length);
	return range_inside(at - mw->at, length, mw->length);
}

bool sim_remote_allowed(const struct sim_qp *qp, uint64_t at, uint64_t length, uint32_t key,
			int access)
{
	const struct sim_key found = sim_key_find(qp->nic, key);

	if (!length)
		return true;
	if (found.mw && found.mw->key == key)
		return window_allows(qp, found.mw, at, length, access);
	return found.mr && found.mr->mr.rkey == key && found.mr->mr.pd == qp->qp.pd &&
	       found.mr->access & access && sim_mr_covers(found.mr, at, length);
}

/* ---- Moving ---------------------------------------------------------------------------------- */

void *sim_pointer(uint64_t address)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): verbs have addresses as numbers */
	return (void *)(uintptr_t)address;
}

/* Memory that verbs know is not always where the CPU has it. */
static void *place(const struct sim_bytes *bytes, unsigned int i, uint64_t offset)
{
	return sim_key_pointer(bytes->nic, bytes->list[i].lkey, bytes->list[i].addr + offset);
}

static void scatter(const uint8_t *from, uint64_t length, const struct sim_bytes *to)
{
	unsigned int i;
	size_t part;

	for (i = 0; i < to->count && length; i++) {
		part = min_u64(length, to->list[i].length);
		memmove(place(to, i, 0), from, part);
		from += part;
		length -= part;
	}
}

/* Piece by piece, for a message is as long as its sender likes. */
void sim_bytes_copy(const struct sim_bytes *from, const struct sim_bytes *to)
{
	unsigned int i = 0, j = 0;
	uint64_t read = 0, written = 0;
	size_t part;

	if (from->inline_bytes) {
		scatter(from->inline_bytes, from->length, to);
		return;
	}
	while (i < from->count && j < to->count) {
		part = min_u64(from->list[i].length - read, to->list[j].length - written);
		memmove(place(to, j, written), place(from, i, read), part);
		read += part;
		written += part;
		if (read == from->list[i].length) {
			i++;
			read = 0;
		}
		if (written == to->list[j].length) {
			j++;
			written = 0;
		}
	}
}
