/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a request is cut into slices. Pure arithmetic. */
#ifndef OTTE_SCHED_SLICE_H
#define OTTE_SCHED_SLICE_H

#include <stdint.h>

struct otte_slicing {
	uint32_t count;       /* at least 1 */
	uint64_t block_bytes; /* of every slice but the last, which takes the rest */
};

/*
 * Blocks of `base_bytes`, or larger ones where more than `max_slices` would be needed. A tail shorter
 * than a quarter block is folded into its predecessor.
 */
struct otte_slicing otte_slice_plan(uint64_t length, uint64_t base_bytes, uint32_t max_slices);

/* Offset and length of slice `index`. */
void otte_slice_range(const struct otte_slicing *slicing, uint64_t length, uint32_t index,
		      uint64_t *offset, uint64_t *slice_length);

#endif
