/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What programs over a GPU have in common: the driver's table, a context that is current, streams, an engine. The same
 * program runs over a real driver and over the simulated one, whichever libcuda.so.1 it finds.
 */
#ifndef OTTE_TESTS_GPU_H
#define OTTE_TESTS_GPU_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cuda/driver.h"
#include "otte/otte_copy.h"
#include "otte/otte_cuda.h"

/* A hang, and not slowness. */
#define PATIENCE_NS (120ll * 1000000000)

extern const struct otte_cuda *gpu;
extern CUcontext gpu_context;
extern struct otte_engine *engine;

/* What a call came to is 0, or the test ends with its text. */
#define MUST(call) must(call, #call, __FILE__, __LINE__)
void must(int64_t rc, const char *call, const char *file, int line);
#define MUST_CUDA(call) must_cuda(call, #call, __FILE__, __LINE__)
void must_cuda(CUresult result, const char *call, const char *file, int line);

/* Of a group: the driver, GPU 0's primary context, current, and an engine. */
int gpu_start(void **state);
int gpu_stop(void **state);

/* The text of the last error holds `word`. */
void gpu_says(const char *word);
/* The counters of the engine. */
struct otte_stats gpu_stats(void);

/* Of what the table does not have; NULL where the driver, or the simulated one, lacks it. */
void *gpu_symbol(const char *name);

CUstream gpu_stream(void);
void gpu_stream_gone(CUstream stream);

/* All of `memory` as one region of ours. */
struct otte_region *gpu_region(struct otte_mem *memory, uint64_t offset, uint64_t length);
void gpu_region_gone(struct otte_region *region);

/* Bytes to and from the device, done when it returns. */
void gpu_write(uint64_t to, const void *from, size_t bytes);
void gpu_read(void *to, uint64_t from, size_t bytes);

/* The seed that is printed, or OTTE_TEST_SEED. */
uint64_t gpu_seed(void);
uint64_t gpu_draw(uint64_t *seed, uint64_t below);

#endif
