/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the parts of `otte bench --copy` share.
 *
 *   bench_copy.c          the command line, the order of things, and what is reported
 *   bench_copy_gpu.c      the GPU: its memory, streams, events, and copiers on it
 *   bench_copy_rows.c     rows, and the ways to copy them; a table point, and what a submission costs
 *   bench_copy_product.c  a matrix product beside copies
 *
 * All of it is done by one thread, but for the copies beside a product.
 */
#ifndef OTTE_TOOL_BENCH_COPY_H
#define OTTE_TOOL_BENCH_COPY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common.h"
#include "cuda/driver.h"
#include "otte/otte_copy.h"

#define BENCH_COPY_ROWS_MAX 65536u
#define BENCH_COPY_ROUNDS_MAX 101
#define BENCH_COPY_SIZES_MAX 16

enum bench_copy_layout {
	CONTIGUOUS, /* one row behind the other on both sides */
	STRIDED, /* a gap as long as a row behind each */
	SCATTERED, /* strided, in an order of its own on either side */
	LAYOUTS,
};

extern const char *const bench_copy_layouts[LAYOUTS];
extern const char *const bench_copy_directions[2];

struct bench_copy_options {
	struct common common;
	int device;
	uint64_t sizes[BENCH_COPY_SIZES_MAX]; /* of rows */
	size_t size_count;
	unsigned rows;
	unsigned rounds;
	bool layouts[LAYOUTS], directions[2];
	bool points, submit, small, product; /* what is measured */
	unsigned product_size; /* of its matrices */
	bool check; /* bars end with EXIT_BELOW */
	const char *note;
	const char *report; /* a file for the results as JSON; NULL */
};

/* All of `otte bench --copy`: an exit code. */
int bench_copy(int argc, char **argv);

struct bench_copy_gpu {
	const struct otte_cuda *cuda;
	char name[64];
	CUresult (*elapsed)(float *milliseconds, CUevent first, CUevent last);
	CUcontext context;
	CUstream stream;
	CUevent begin, end;
	struct otte_engine *engine;
	uint64_t bytes; /* of either memory */
	struct otte_mem *device, *host;
	struct otte_region *on_device, *on_host;
	uint64_t device_at;
	uint8_t *host_at;
};

/* EXIT_OK, or the exit code after a complaint; then there is nothing to close. */
int bench_copy_open(const struct bench_copy_options *options, uint64_t bytes,
		    struct bench_copy_gpu *gpu);
void bench_copy_close(struct bench_copy_gpu *gpu);
/* The exit code after a complaint of what a call of the driver came to; EXIT_OK for none. */
int bench_copy_complain(const struct bench_copy_gpu *gpu, CUresult result, const char *call);
int bench_copy_bind(struct bench_copy_gpu *gpu, CUstream stream, enum otte_copy_mode mode,
		    uint32_t ctas, bool wide, uint32_t rows, struct otte_copier **copier);

/* The bytes that rows of these options take on either side, at most. */
uint64_t bench_copy_bytes(const struct bench_copy_options *options);
/* Each adds objects to `results`. */
int bench_copy_points(const struct bench_copy_options *options, struct bench_copy_gpu *gpu,
		      json_t *results);
int bench_copy_submits(const struct bench_copy_options *options, struct bench_copy_gpu *gpu,
		       json_t *results);
int bench_copy_smalls(const struct bench_copy_options *options, struct bench_copy_gpu *gpu,
		      json_t *results);
int bench_copy_products(const struct bench_copy_options *options, struct bench_copy_gpu *gpu,
			json_t *results);

/* Scattered rows: GB/s of the kernel on so many CTAs, or, with 0, of the driver's calls, many in one where it can. */
int bench_copy_rate(struct bench_copy_gpu *gpu, enum otte_copy_direction direction, uint64_t bytes, unsigned rows,
		    uint32_t ctas, unsigned rounds, double *rate);

/* `count` rows of `bytes` in a layout, as descriptors. */
void bench_copy_descs(const struct bench_copy_gpu *gpu, enum bench_copy_layout layout,
		      uint64_t bytes, unsigned count, struct otte_copy_desc *descs);

#endif
