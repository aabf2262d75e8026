/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is to be known and done before a NIC may be told of device memory.
 *
 * It is admitted first: the device orders what others write before what it reads afterwards, and
 * the driver keeps its own synchronous calls in order with that (SYNC_MEMOPS), which is set on the
 * allocation and stays. Then it is given to a NIC by its address, which a module of the kernel
 * (peermem) understands, or as a dma-buf:
 *
 *   the extent, its allocation, to whole pages of the host:   [base ............... base + length)
 *   the memory that is wanted:                                      [address ...)
 *                                                             offset
 *
 * The driver exports no less than an allocation, and what a NIC may touch of it the MR says. The
 * flags are 0: the driver's own choice of how the memory is mapped.
 *
 * Of memory of the kind DEVICE. No lock: what it reads of the memory is fixed.
 */
#ifndef OTTE_CUDA_GPUDIRECT_H
#define OTTE_CUDA_GPUDIRECT_H

#include <stdint.h>

#include "cuda/memory.h"

struct otte_gpudirect_geometry {
	uint64_t base, length; /* what is exported; multiples of a page */
	uint64_t offset;       /* of the address in it */
};

/* -ERANGE with a text: the range is not within the extent, or that wraps around. */
int otte_gpudirect_fit(const struct otte_cuda_mem *memory, uint64_t address, uint64_t length,
		       uint64_t page_bytes, struct otte_gpudirect_geometry *geometry);

/*
 * -EOPNOTSUPP with a text: the device orders nothing; else what a call failed with. Of what was
 * admitted before it does the same again.
 */
int otte_gpudirect_admit(struct otte_cuda_mem *memory);

/* *missing: what the driver, or the device, lacks to export memory; NULL: nothing. */
int otte_gpudirect_look_for_export(const struct otte_cuda_mem *memory, const char **missing);

/* What a NIC is given; fd -1: none. */
struct otte_gpudirect_export {
	int fd;
	uint64_t offset;
};

/* The descriptor is to be closed below, once. -EOPNOTSUPP with a text: the driver exports none. */
int otte_gpudirect_export(struct otte_cuda_mem *memory, uint64_t address, uint64_t length,
			  struct otte_gpudirect_export *out);
/* -EUCLEAN with a text: nobody can say what became of it; it is not to be tried again. */
int otte_gpudirect_close(const struct otte_gpudirect_export *exported);

#endif
