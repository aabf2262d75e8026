/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What one submission of local copies comes to: descriptors are checked, their rows joined, and the result is given
 * both as operations for the driver and as rows for the kernel (kernel/copy.h). No driver is called and no byte moved.
 *
 * A plan belongs to a worker and is made anew by each submission. All its memory is taken by otte_plan_init(), for
 * the most rows that a submission may have. No lock: the worker's is held.
 *
 * A view is what the caller registered: a range within one allocation of a device or one physical pin of host memory,
 * whose identity it names. Only neighbours of the same two owners are joined: no copy of the driver's crosses either.
 *
 * What a submission means is that its rows are copied one after another, in the descriptors' order. Where no
 * destination meets another destination or a source, the order shows nowhere; the plan says so, and only then may a
 * kernel do it. Destinations that meet leave operations that have to run in their order. Where a destination meets a
 * source nothing is joined either. Ranges meet by their addresses: memory that is mapped at two addresses is its
 * owner's to know.
 */
#ifndef OTTE_CUDA_PLAN_H
#define OTTE_CUDA_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "otte/otte_copy.h"

struct otte_copy_row;

/*
 * Rows that become one 2D operation: any two that ascend have a constant pitch, and make two 1D ones, which a batch
 * of the driver's can take.
 */
#define OTTE_PLAN_2D_ROWS 3

/*
 * A region begins with its view (engine/region.h): descriptors name regions, which nothing here knows further, and
 * thousands of them are read where they stand.
 */
struct otte_plan_view {
	uint64_t base, length;
	uint64_t owner;    /* which allocation or pin */
	uint64_t alias;    /* of host memory: where the device reaches `base`; 0: nowhere */
};

/* Rows that follow each other on both sides, as one. Never empty. Small: a submission writes and reads thousands. */
struct otte_plan_run {
	uint64_t device, host, alias;
	uint64_t bytes : 63;
	uint64_t same_owners : 1; /* as the run before it */
};

/* One of the driver's operations. 1D: one row; 2D: both pitches hold `bytes` and are within the device's limit. */
struct otte_plan_op {
	uint64_t device, host, bytes;
	uint64_t device_pitch, host_pitch;
	uint32_t rows;
};

struct otte_plan {
	/* What was asked for. */
	uint32_t max_rows;
	uint64_t max_pitch;
	/* The last build's. */
	bool to_host;
	bool overlaps; /* a destination meets a destination */
	bool aliases;  /* or a source */
	bool mapped;   /* the device reaches all host memory of it */
	uint32_t row_count, run_count, op_count;
	uint64_t bytes;
	uint64_t longest; /* bytes of a run */
	struct otte_plan_run *runs; /* in the descriptors' order, as are the operations */
	struct otte_plan_op *ops;   /* once they are made */
	/* For finding out which ranges meet. */
	struct otte_plan_range {
		uint64_t start, end;
	} *ranges, *sorted;
	uint32_t *digits;
};

/* -EINVAL: no rows; -ENOMEM. A plan that failed is nothing to free. */
int otte_plan_init(struct otte_plan *plan, uint32_t max_rows, uint64_t max_pitch);
void otte_plan_free(struct otte_plan *plan);

/*
 * Replaces what the plan held. `bytes_left`: of the worker's budget. No descriptors or no bytes are an empty plan.
 * -ERANGE: a row is not within its view; -EDQUOT: more rows or bytes than there may be; -EINVAL: a row is copied onto
 * a part of itself. The plan is empty then.
 */
int otte_plan_build(struct otte_plan *plan, const struct otte_copy_desc *descs, uint32_t count, bool to_host,
		    uint64_t bytes_left);

/* The operations: op_count of them were found, and need not be made for the kernel. */
void otte_plan_make_ops(struct otte_plan *plan);

/* The runs for the kernel, as otte_copy_cut() takes them; there is room for run_count. */
void otte_plan_fill_rows(const struct otte_plan *plan, struct otte_copy_row *rows);

/* What slots reserve for the kernel's rows: before their upload and behind it. */
uint64_t otte_plan_storage_bytes(uint32_t max_rows, uint32_t slots);

#endif
