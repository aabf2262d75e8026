/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Moves the first `total` bytes of a remote region to or from the caller, in order, through a ring
 * of registered windows. While one window is read or written by the caller, the others are under
 * way. Owns the windows, their region and batches.
 */
#ifndef OTTE_TOOL_TRANSFER_H
#define OTTE_TOOL_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "endpoint.h"
#include "otte/otte.h"
#include "progress.h"
#include "routes.h"

#define TRANSFER_SLOTS 4
#define TRANSFER_WINDOW_BYTES (4ull << 20)
#define TRANSFER_REQUEST_BYTES (1ull << 20)
#define TRANSFER_WINDOW_MIN (4ull << 10) /* below, a transfer is one of single packets */
#define TRANSFER_WINDOW_MAX (1024 * TRANSFER_REQUEST_BYTES)

/* --window, for args: complains and returns false if it is none or out of range. */
bool transfer_window(const char *text, uint64_t *bytes);

struct transfer_slot {
	struct otte_batch *batch;
	char *memory;
	uint64_t local_offset;
	uint64_t length; /* under way in it; 0: free */
};

struct transfer {
	struct otte_engine *engine;
	const struct remote *remote;
	struct otte_mem *mem;
	struct otte_region *region;
	uint64_t window_bytes;
	struct routes routes; /* of what has landed */
	struct transfer_slot slots[TRANSFER_SLOTS];
};

/* Takes (READ) or gives (WRITE) the next `length` bytes. EXIT_OK, or an exit code after a complaint. */
typedef int (*transfer_step)(void *arg, void *data, uint64_t length);

/* All of these: EXIT_OK, or the exit code after a complaint. */
int transfer_begin(struct transfer *transfer, struct otte_engine *engine,
		   const struct remote *remote, uint64_t window_bytes);
int transfer_run(struct transfer *transfer, enum otte_op op, uint64_t total, transfer_step step,
		 void *arg, struct progress *progress);

/* Gives everything back; may be called whatever happened before. */
void transfer_end(struct transfer *transfer);

#endif
