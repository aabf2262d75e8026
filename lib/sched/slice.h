/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a request is cut into slices. Pure arithmetic. Lengths are at least 1 and at most 2^63.
 *
 * Two geometries, for two prices of a slice. Over TCP a further slice is a header and an answer
 * on one of a few connections: otte_slice_plan() enlarges its blocks as soon as there would be more
 * than the bound. Over RDMA slices are what rails share, and the bound is what both ends have paid
 * for: otte_slice_geometry() uses it up, and would rather have a last slice that is a little longer
 * than all blocks larger by a base block.
 */
#ifndef OTTE_SCHED_SLICE_H
#define OTTE_SCHED_SLICE_H

#include <stdint.h>

struct otte_slicing {
	uint32_t count;       /* at least 1 */
	uint64_t block_bytes; /* of every slice but the last, which takes the rest */
};

/*
 * Blocks of `base_bytes`, or larger ones where more than `max_slices` would be needed. A tail
 * shorter than a quarter block is folded into its predecessor.
 */
struct otte_slicing otte_slice_plan(uint64_t length, uint64_t base_bytes, uint32_t max_slices);

/* Offset and length of slice `index`. */
void otte_slice_range(const struct otte_slicing *slicing, uint64_t length, uint32_t index,
		      uint64_t *offset, uint64_t *slice_length);

/* RDMA's, as its peers cut: the base block, and how many slices a request may have. */
#define OTTE_SLICE_BASE_BYTES 65536ull
#define OTTE_SLICES_HOST_READ 64u  /* READ into host memory */
#define OTTE_SLICES_ELSE 32u       /* WRITE, or READ into a device's memory */

struct otte_slice_geometry {
	uint32_t count;       /* at least 1 */
	uint64_t block_bytes; /* of every slice but the last: a multiple of the base */
	uint64_t last_bytes;  /* < 1 1/4 blocks; beside others >= 1/4 block */
};

/*
 * Blocks of `base_bytes`, or where those would be more than `max_slices` of the least multiple of
 * it that will do. What is then left over is a slice of its own, unless it is shorter than a
 * quarter block: that is folded into its predecessor. Where it is also shorter than a base block
 * it does not count against the bound: blocks stay as they are.
 */
struct otte_slice_geometry otte_slice_geometry(uint64_t length, uint64_t base_bytes,
					       uint32_t max_slices);

/* Offset and length of slice `index`. */
static inline void otte_slice_of(const struct otte_slice_geometry *geometry, uint32_t index,
				 uint64_t *offset, uint64_t *bytes)
{
	*offset = index * geometry->block_bytes;
	*bytes = index + 1 == geometry->count ? geometry->last_bytes : geometry->block_bytes;
}

#endif
