/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two engines with simulated NICs and GPUs that reach each other's memory of GPUs: the pair of
 * unit/engine/pair.h, and beside its memory of the host some of a GPU's at either end.
 */
#ifndef OTTE_TESTS_GPU_DIRECT_ROOM_H
#define OTTE_TESTS_GPU_DIRECT_ROOM_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/util.h"
#include "cuda/driver.h"
#include "otte/otte_cuda.h"
#include "sim/cuda/sim.h"
#include "unit/engine/nics.h"

#define SIZE (1u << 20)

struct side {
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *region;
	uint64_t address;
	uint8_t *bytes; /* where the test reaches them, as the simulated GPU does */
};

extern struct pair pair;
extern struct side local, remote; /* of a GPU, at the requester and at the source */

/* The driver as the process finds it, with GPU 0's context current. */
extern const struct otte_cuda *cuda;

/* What of the two the kernel has: a module that knows addresses of GPUs. */
extern bool module_is_there;

/* GPU Direct, at both. `gpu_adjust` (may be NULL) is called after that. */
void use_gpus(struct otte_config *config);
extern void (*gpu_adjust)(struct otte_config *config);

/* Each starts with two NICs a host, and the environment that GPU Direct wants. */
int room_start(void **state);
/* All is closed, and nothing is left, of verbs or of CUDA. */
int room_finish(void **state);

/* A pair, and memory of GPU 0 of both, which peers may use at the source. */
void room_open(void);
void room_close(void);
void side_open(struct side *side, struct otte_engine *engine, int device, uint32_t access);
void side_close(struct side *side);
/* A producer, on a stream that is held, which has still to copy 4 KiB of its middle to its beginning. */
CUstream side_keep_busy(const struct side *side);

/* What there is. NULL: of the host's memory, at either end. */
struct otte_request request_of(const struct side *from, const struct side *to, uint8_t op,
			       uint64_t offset, uint64_t length);
/* One request, from the beginning of its batch to its end. */
struct otte_task run_request(const struct otte_request *request);
/*
 * Ranges of many lengths are moved between these; each arrives, nothing is written beside it, and
 * it was RDMA.
 */
void moves(const struct side *from, const struct side *to, uint8_t op);

void says(const char *word);

#define TEST(name) cmocka_unit_test_setup_teardown(name, room_start, room_finish)

/* cells.c; and one of them, in a process of its own. */
int run_cell_tests(void);
int run_cell_test(const char *name);

#endif
