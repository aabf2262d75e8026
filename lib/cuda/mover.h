/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What puts a plan of local copies on a stream: the driver's copies, or the kernel with its rows,
 * and a marker behind them. It belongs to one copier, whose lock is held around every call and
 * whose context is current in all of them.
 *
 * A slot has what one submission needs for as long as it is under way: the marker's event, and room
 * for the kernel's rows twice, in pinned host memory and on the device, to which they are uploaded
 * ahead of the kernel, on the same stream.
 */
#ifndef OTTE_CUDA_MOVER_H
#define OTTE_CUDA_MOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/driver.h"

struct otte_copy_row;
struct otte_plan;
struct otte_policy_choice;

struct otte_mover_slot {
	CUevent marker;
	struct otte_copy_row *rows;
	CUdeviceptr uploaded;
};

struct otte_mover {
	const struct otte_cuda *cuda;
	int device;
	CUcontext context;
	CUstream stream;
	bool legacy;              /* which the driver's call of many copies does not take */
	uint32_t max_rows, slot_count;
	/* The device's. */
	uint32_t multiprocessors, max_grid_x;
	uint64_t max_pitch;
	CUmodule module;          /* NULL: the kernel is not loaded */
	CUfunction kernel;
	struct otte_mover_slot *slots;
	/* The arguments of one call of many copies. */
	CUdeviceptr *to, *from;
	size_t *sizes;
};

/* What became of it on the stream. */
struct otte_mover_outcome {
	bool touched;   /* the driver was asked for something */
	bool marked;    /* and the marker is behind all of that */
	uint32_t batches;
	uint32_t ctas;  /* of a kernel that was launched */
};

/* What the device is like. Nothing is made yet. */
int otte_mover_init(struct otte_mover *mover, const struct otte_cuda *cuda, int device, CUcontext context,
		    CUstream stream);

/*
 * Events and arguments for submissions of at most so many rows; and, `kernel`, the image and the
 * room for its rows. All or nothing.
 */
int otte_mover_open(struct otte_mover *mover, uint32_t max_rows, uint32_t slots);
int otte_mover_load(struct otte_mover *mover);

/* -EUCLEAN: some of it stays; which is still in `mover`. Not tried again. Nothing is under way. */
int otte_mover_close(struct otte_mover *mover);

/* Whether the stream is capturing (-EBUSY), or unusable. */
int otte_mover_check(const struct otte_mover *mover);

/*
 * Puts `plan` on the stream, as `choice` says, and the marker. An error may have left a part of it
 * there: if it is marked, that part is over with the marker; if it was touched and is not marked,
 * nobody can tell when.
 */
int otte_mover_put(struct otte_mover *mover, struct otte_mover_slot *slot, struct otte_plan *plan,
		   const struct otte_policy_choice *choice, struct otte_mover_outcome *outcome);

/* 0: the marker was passed; -EAGAIN; else nobody can tell. */
int otte_mover_ask(const struct otte_mover *mover, const struct otte_mover_slot *slot);

#endif
