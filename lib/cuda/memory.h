/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory that CUDA knows of: of a device, or of the host and pinned. Allocated here, or the
 * caller's; a pin of a whole arena, or a slot in one.
 *
 * From otte_cuda_mem_*() that makes it until otte_cuda_mem_free() has returned 0 everything
 * here but `ready`, `slots` and `lost` is fixed, and its context is there: a primary one is retained, one
 * of the caller's stays by contract. -EUCLEAN from the free: what is left stays for good, with the
 * struct; whoever owns it records that.
 *
 * Each function restores the context that the calling thread had, which may be none.
 */
#ifndef OTTE_CUDA_MEMORY_H
#define OTTE_CUDA_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/driver.h"
#include "cuda/ready.h"

enum otte_cuda_kind {
	OTTE_CUDA_DEVICE = 0, /* the CPU cannot touch it */
	OTTE_CUDA_HOST = 1, /* host memory, which it can, and which the device may reach as well */
};

struct otte_cuda_mem {
	const struct otte_cuda *cuda;
	enum otte_cuda_kind kind;
	int device;              /* ordinal */
	CUcontext context;
	bool primary;            /* `context` is retained with it */
	bool allocated;          /* by us */
	bool registered;         /* host memory that we pinned */
	bool lost;               /* a free failed, and is not tried again */
	uint64_t address, length;
	/* The allocation or pin that it lies in, which no copy of the driver's crosses; and its identity. */
	uint64_t extent_base, extent_length;
	uint64_t owner;
	uint64_t alias;          /* of pinned memory: where the device reaches `address`; 0: nowhere */
	struct otte_cuda_mem *pin; /* of a slot */
	struct otte_cuda_mem *next_lost; /* of those that stay, so that each is in reach */
	_Atomic uint64_t slots;  /* of a pin */
	struct otte_cuda_ready ready;
};

/* `length` bytes of device memory, aligned as the driver aligns; what they hold is undefined. */
int otte_cuda_mem_alloc(const struct otte_cuda *cuda, int device, uint64_t length,
			   struct otte_cuda_mem **memory);

/*
 * Device memory of the caller's, by address. -EOPNOTSUPP: it is managed, the host's or not CUDA's;
 * -EINVAL: another device's, or of a context that is another device's; -ERANGE: not within one
 * allocation.
 */
int otte_cuda_mem_adopt(const struct otte_cuda *cuda, int device, uint64_t address, uint64_t length,
			   struct otte_cuda_mem **memory);

/* Pinned host memory, which all devices reach. */
int otte_cuda_mem_alloc_host(const struct otte_cuda *cuda, int device, uint64_t length,
				struct otte_cuda_mem **memory);

/*
 * Host memory of the caller's as one pin: pinned here, or, `pinned`, by the caller before, which is
 * looked at. A slot lies in a pin, which stays until its slots are gone: -EBUSY from the free.
 */
int otte_cuda_mem_pin(const struct otte_cuda *cuda, int device, void *address, uint64_t length,
			 bool pinned, struct otte_cuda_mem **pin);
int otte_cuda_mem_slot(struct otte_cuda_mem *pin, void *address, uint64_t length,
			  struct otte_cuda_mem **memory);

int otte_cuda_mem_free(struct otte_cuda_mem *memory);

#endif
