/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a peer reaches memory of a GPU by: a PD of its own, with a queue pair for one grant, and one
 * MR, of exactly the range that is granted. Windows are not bound to memory of GPUs, and a key of an
 * MR is good for every queue pair of its PD: so there is one of these, and no key outlives it.
 *
 *   NONE --open: a PD--> OPEN --register: an MR, with a key for the peer--> HELD
 *     ^                    |                                                 |
 *     '--close, after its queue pair: the MR, then the PD--------------------'
 *                          `--either could not be destroyed--> RETAINED, not tried again
 *
 * That it is closed is the proof that nothing of the range is in reach any more.
 *
 * No lock: its pair's, which is its worker's thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_CELL_H
#define OTTE_TRANSPORT_RDMA_CELL_H

#include "transport/rdma/mr.h"

enum otte_rdma_cell_state {
	OTTE_RDMA_CELL_NONE = 0,
	OTTE_RDMA_CELL_OPEN,
	OTTE_RDMA_CELL_HELD,
	OTTE_RDMA_CELL_RETAINED,
};

struct otte_rdma_cell {
	struct otte_rdma_context *context;
	struct ibv_pd *pd;
	struct otte_rdma_mr mr;
	enum otte_rdma_cell_state state;
};

/* With a text what the call failed with; -ENODEV: the context is FATAL. */
int otte_rdma_cell_open(struct otte_rdma_context *context, struct otte_rdma_cell *cell);
/* The spec's PD is the cell's. As otte_rdma_mr_make(); -EPROTO with a text: it is not OPEN. */
int otte_rdma_cell_register(struct otte_rdma_cell *cell, const struct otte_rdma_mr_spec *spec);
/* 0, of NONE too; -EUCLEAN with a text: RETAINED, now or since before. */
int otte_rdma_cell_close(struct otte_rdma_cell *cell);

#endif
