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
