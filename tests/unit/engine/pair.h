/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Two engines in one process: a source with a published region and a requester that opened it. */
#ifndef OTTE_TESTS_PAIR_H
#define OTTE_TESTS_PAIR_H

#include <stdbool.h>

#include "otte/otte.h"

#define SECOND 1000000000ll

struct pair {
	struct otte_engine *source, *requester;
	struct otte_mem *remote_mem, *local_mem;
	struct otte_region *remote, *local;
	struct otte_segment *segment;
	struct otte_batch *batch;
	uint8_t *remote_bytes, *local_bytes;
	uint64_t size;
};

/* `adjust` (may be NULL) changes both configs. Fails the test on any error. */
void pair_open(struct pair *pair, uint64_t size, void (*adjust)(struct otte_config *config));
/* Another requester of the first one's source. */
void pair_join(struct pair *pair, const struct pair *first, void (*adjust)(struct otte_config *config));
void pair_close(struct pair *pair);
/* Gives back what belongs to one side, so that a test can lose the other. */
void pair_close_requester(struct pair *pair);
void pair_close_source(struct pair *pair);

/* Of one side. */
struct otte_stats pair_stats(struct otte_engine *engine);

/* Bytes that say where they are. */
void pair_fill(uint8_t *bytes, uint64_t size, uint8_t salt);

struct otte_request pair_request(const struct pair *pair, uint8_t op, uint64_t local_offset,
				 uint64_t remote_offset, uint64_t length);
/* Submit one request, wait, and return its code. */
int pair_run(struct pair *pair, uint8_t op, uint64_t local_offset, uint64_t remote_offset,
	     uint64_t length);

/*
 * Moves ranges of many lengths by a pair of its own, and asserts that each arrives whole, with nothing beside it, by
 * this transport.
 */
void pair_move_exact(uint8_t op, uint32_t transport, void (*adjust)(struct otte_config *config));

#endif
