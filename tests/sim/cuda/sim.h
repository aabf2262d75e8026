/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A libcuda.so.1 without a GPU: what tests do to it and ask of it. The driver's own entry points have the driver's
 * ABI; programs find it as they find the driver's (LD_LIBRARY_PATH, or linked), and reach what is here through
 * dlsym() or by linking.
 *
 * What is as with the driver: the CPU cannot touch memory of a device; work on a stream is done later, by another
 * thread, in an order that is only each stream's own; an error of work spoils its context for good; memory that was
 * imported by a handle outlives the descriptor that it came from; nothing works in the child of a fork. What is
 * stricter: work that names memory which was freed meanwhile, or a free of memory that work still names, is a
 * violation, which is counted.
 *
 * Settings come from OTTE_SIM_CUDA in the environment, as name=value pairs with commas between them, and can be set
 * by sim_cuda_set(). All functions may be called from any thread.
 */
#ifndef OTTE_TESTS_SIM_CUDA_SIM_H
#define OTTE_TESTS_SIM_CUDA_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"

#define SIM_CUDA_API __attribute__((visibility("default")))

/*
 * name             default  what
 * devices          2        how many there are
 * version          13000    what the driver says that it is
 * memory_mib       8192     of each device
 * multiprocessors  132
 * delay_us         0        before each piece of work, at most: the time is drawn
 * seed             1        of what is drawn: which stream is next, how late it is
 * alias            1        pinned host memory has another address on the device
 * unreachable      0        pinned host memory has none: as without unified addressing
 * dma_buf          1        device memory can be had as a dma-buf
 * ipc              1        device memory can be had by a handle
 *
 * False: no such setting.
 */
SIM_CUDA_API bool sim_cuda_set(const char *setting, uint64_t value);

/* A device's attribute is `value` from now on. */
SIM_CUDA_API void sim_cuda_attribute(CUdevice_attribute attribute, int value);

/* Settings, faults, counts, the log and what is held are as at the start; objects stay. */
SIM_CUDA_API void sim_cuda_reset(void);

/* ---- What there is --------------------------------------------------------------------------- */

struct sim_cuda_balance {
	unsigned int primaries; /* retained, each as often as it is */
	unsigned int allocations; /* of devices */
	unsigned int host, registered;
	unsigned int streams, events, modules;
	unsigned int imports; /* opened handles of other processes */
	unsigned int handles, reserved, mapped; /* memory by handles */
	unsigned int work; /* under way */
	uint64_t device_bytes;
};

/* All zero: nothing is left. */
SIM_CUDA_API void sim_cuda_balance(struct sim_cuda_balance *balance);

/* What a program did that a driver does not survive; `text` (may be NULL) is the first. */
SIM_CUDA_API unsigned int sim_cuda_violations(const char **text);

/* ---- Contexts and memory that a library finds ------------------------------------------------ */

/* One that is not a device's primary one. Not made current. */
SIM_CUDA_API CUcontext sim_cuda_context_create(CUdevice device);
SIM_CUDA_API void sim_cuda_context_destroy(CUcontext context);
/* As after work that failed: each call in it comes to `result`. */
SIM_CUDA_API void sim_cuda_context_spoil(CUcontext context, CUresult result);

/* Managed memory, of the context that is current; freed like device memory. */
SIM_CUDA_API CUdeviceptr sim_cuda_managed_alloc(size_t size);

/* Where the CPU reaches memory that the driver knows of: for a simulated NIC. NULL: it does not know it. */
SIM_CUDA_API void *sim_cuda_reach(uint64_t address, size_t size);

/* ---- Time ------------------------------------------------------------------------------------ */

/* Nothing more of the stream is done until it is released, or step by step. NULL: of all streams. */
SIM_CUDA_API void sim_cuda_hold(CUstream stream);
SIM_CUDA_API void sim_cuda_release(CUstream stream);
/* One more piece of work of a stream that is held. */
SIM_CUDA_API void sim_cuda_step(CUstream stream);
/* Until nothing can be done that is not held. */
SIM_CUDA_API void sim_cuda_settle(void);

/* The next `count` questions whether something is over are answered with "not ready". */
SIM_CUDA_API void sim_cuda_not_ready(unsigned int count);

SIM_CUDA_API void sim_cuda_capture(CUstream stream, bool capturing);

/* ---- Faults ---------------------------------------------------------------------------------- */

/*
 * The call of that name, counted from here on, number `nth` (from 1) and the `times` - 1 behind it come to `result` and
 * do nothing; with _after, they do what they do, and then come to `result`.
 */
SIM_CUDA_API void sim_cuda_fail(const char *name, unsigned int nth, CUresult result,
				unsigned int times);
SIM_CUDA_API void sim_cuda_fail_after(const char *name, unsigned int nth, CUresult result,
				      unsigned int times);
/* Every call, whatever its name: to fail one after the other. */
#define SIM_CUDA_ANY "*"
/* Work number `nth` from here on does nothing and spoils its context. */
SIM_CUDA_API void sim_cuda_fail_work(unsigned int nth, CUresult result);
/* The next call of many copies does `index` of them and fails. */
SIM_CUDA_API void sim_cuda_fail_batch(size_t index, CUresult result);

/* ---- What was called ------------------------------------------------------------------------- */

/* How often since the start or the last reset; SIM_CUDA_ANY: in all. */
SIM_CUDA_API unsigned long sim_cuda_calls(const char *name);

struct sim_cuda_call {
	const char *name;
	CUstream stream; /* of calls that put work on one */
	uint64_t to, from; /* of copies; rows of a kernel in `from` */
	size_t bytes, rows; /* of a copy; `rows` of a call of many: copies */
	CUresult result;
	unsigned int ctas;
};

/* Copies the latest `count` calls, oldest first; says how many. */
SIM_CUDA_API size_t sim_cuda_log(struct sim_cuda_call *calls, size_t count);

/* Copies whose host side was not pinned: the driver does them in the call. */
SIM_CUDA_API unsigned long sim_cuda_pageable(void);

#endif
