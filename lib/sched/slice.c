/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sched/slice.h"

#include "base/util.h"

struct otte_slicing otte_slice_plan(uint64_t length, uint64_t base_bytes, uint32_t max_slices)
{
	struct otte_slicing slicing = { .block_bytes = base_bytes };
	uint64_t count, tail;

	if (length / base_bytes >= max_slices) {
		/* Whole base blocks, so that slices stay aligned as the caller's buffer is. */
		uint64_t blocks = (length - 1) / base_bytes + 1;

		slicing.block_bytes = ((blocks - 1) / max_slices + 1) * base_bytes;
	}
	count = (length - 1) / slicing.block_bytes + 1;
	tail = length - (count - 1) * slicing.block_bytes;
	if (count > 1 && tail < slicing.block_bytes / 4)
		count--;
	slicing.count = (uint32_t)count;
	return slicing;
}

void otte_slice_range(const struct otte_slicing *slicing, uint64_t length, uint32_t index,
		      uint64_t *offset, uint64_t *slice_length)
{
	*offset = index * slicing->block_bytes;
	*slice_length = index + 1 == slicing->count ? length - *offset : slicing->block_bytes;
}

/* The least multiple of the base of which `max_slices` will do, but for what can be folded. */
static uint64_t fitting_block(uint64_t length, uint64_t base_bytes, uint32_t max_slices)
{
	uint64_t block_bytes = length / base_bytes / max_slices * base_bytes;
	uint64_t left = length - block_bytes * max_slices;

	if (!left || (left < base_bytes && left < block_bytes / 4))
		return block_bytes;
	return block_bytes + base_bytes;
}

struct otte_slice_geometry otte_slice_geometry(uint64_t length, uint64_t base_bytes,
					       uint32_t max_slices)
{
	struct otte_slice_geometry geometry = { .block_bytes = base_bytes };
	uint64_t count, tail;

	if (length / base_bytes >= max_slices)
		geometry.block_bytes = fitting_block(length, base_bytes, max_slices);
	count = length / geometry.block_bytes;
	tail = length % geometry.block_bytes;
	if (!count || (tail && tail >= geometry.block_bytes / 4)) {
		count++;
		geometry.last_bytes = tail;
	} else {
		geometry.last_bytes = geometry.block_bytes + tail;
	}
	geometry.count = (uint32_t)count;
	return geometry;
}
