/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/cell.h"

#include <errno.h>
#include <string.h>

int otte_rdma_cell_open(struct otte_rdma_context *context, struct otte_rdma_cell *cell)
{
	struct ibv_pd *pd;
	int rc = otte_rdma_context_check_device(context);

	if (rc)
		return rc;
	errno = 0;
	pd = context->verbs->alloc_pd(context->native);
	if (!pd)
		return otte_rdma_call_failed(context, "ibv_alloc_pd", errno);
	atomic_fetch_add(&context->children, 1);
	*cell = (struct otte_rdma_cell){
		.context = context,
		.pd = pd,
		.state = OTTE_RDMA_CELL_OPEN,
	};
	return 0;
}

int otte_rdma_cell_register(struct otte_rdma_cell *cell, const struct otte_rdma_mr_spec *spec)
{
	struct otte_rdma_mr_spec its = *spec;
	int rc;

	if (cell->state != OTTE_RDMA_CELL_OPEN)
		return otte_fail(-EPROTO, "%s: a cell is for one range", cell->context->name);
	its.pd = cell->pd;
	rc = otte_rdma_mr_make(cell->context, &its, &cell->mr);
	if (!rc)
		cell->state = OTTE_RDMA_CELL_HELD;
	return rc;
}

static int free_pd(struct otte_rdma_cell *cell)
{
	struct otte_rdma_context *context = cell->context;
	int rc = context->verbs->dealloc_pd(cell->pd);

	if (!rc)
		return 0;
	atomic_fetch_add(&context->retained.pds, 1);
	return otte_fail(-EUCLEAN, "%s: ibv_dealloc_pd of a cell: %s; retained", context->name,
			 strerror(rc < 0 ? errno : rc));
}

/* A PD with an MR in it would not go: it is not tried. */
int otte_rdma_cell_close(struct otte_rdma_cell *cell)
{
	int rc;

	if (cell->state == OTTE_RDMA_CELL_NONE)
		return 0;
	if (cell->state == OTTE_RDMA_CELL_RETAINED)
		return otte_fail(-EUCLEAN, "%s: a cell is retained", cell->context->name);
	rc = otte_rdma_mr_release(&cell->mr);
	if (!rc)
		rc = free_pd(cell);
	atomic_fetch_sub(&cell->context->children, 1);
	if (rc)
		cell->state = OTTE_RDMA_CELL_RETAINED;
	else
		*cell = (struct otte_rdma_cell){};
	return rc;
}
