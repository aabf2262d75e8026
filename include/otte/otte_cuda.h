/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of GPUs, and pinned host memory that they reach, as memory of an engine.
 *
 *   otte_mem        device memory: allocated here, or the caller's; pinned host memory: allocated
 *                   here, or a slot of an arena
 *   otte_cuda_pin   an arena: host memory of the caller's that is one pin
 *
 * Regions of either are registered as of any other memory (otte.h). libcuda.so.1 is opened with the
 * first call here: building with this header, or with the library, needs nothing of CUDA.
 *
 * Conventions are those of otte.h, and these:
 *   Devices     By ordinal, as the process sees them: CUDA_VISIBLE_DEVICES counts.
 *   Contexts    Memory that is allocated here belongs to its device's primary context, which is
 *               that of the CUDA runtime and of the frameworks on it, and which it retains. Each
 *               call leaves the calling thread with the context that it had, or with none.
 *   Streams     Are the driver's CUstream, which is the runtime's cudaStream_t. NULL is the
 *               legacy default stream of the context that is current.
 *   Errors      -ENOSYS: no libcuda.so.1, or one of before CUDA 12.0; -ENODEV: no such device;
 *               -ENOMEM; -EIO: the device failed; -EUCLEAN: something could not be undone, and is
 *               retained. docs/abi/cuda.md has the driver's codes.
 */
#ifndef OTTE_OTTE_CUDA_H
#define OTTE_OTTE_CUDA_H

#include <otte/otte.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* ---- Device memory --------------------------------------------------------------------------- */

/*
 * `length` bytes of memory of GPU `device`, owned by the engine; what they hold is undefined. Their
 * address, otte_mem_address(), is the device's. Given back by otte_mem_release(). `flags`: 0.
 */
OTTE_API int otte_cuda_alloc(struct otte_engine *engine, int device, uint64_t length, unsigned flags,
			     struct otte_mem **mem);

/*
 * Device memory of the caller's, who keeps it, and the context that it is of, until
 * otte_mem_release() has returned 0, and touches none of it in conflict with transfers. -EOPNOTSUPP:
 * managed memory, host memory, or memory that CUDA does not know; -EINVAL: another device's, or of
 * another device's context; -ERANGE: not within one allocation; -EEXIST: as otte_mem_adopt().
 */
OTTE_API int otte_cuda_adopt(struct otte_engine *engine, int device, uint64_t address, uint64_t length,
			     struct otte_mem **mem);

/* ---- Pinned host memory ---------------------------------------------------------------------- */

/* Host memory that is pinned, and that each device of the process reaches; owned by the engine. */
OTTE_API int otte_cuda_alloc_host(struct otte_engine *engine, int device, uint64_t length,
				  unsigned flags, struct otte_mem **mem);

struct otte_cuda_pin;

#define OTTE_CUDA_PINNED 1u /* by the caller, in one call: the engine pins nothing, and looks */

/*
 * An arena: `length` bytes of host memory of the caller's, who keeps it mapped until
 * otte_cuda_unpin() has returned 0. Pinned here as a whole, or with OTTE_CUDA_PINNED by the caller
 * before, who keeps it so. One pin may be several slots; no copy of a GPU's crosses two pins, so
 * one for each arena and not for each slot is what copies are joined by. -EEXIST: it, or a part, is
 * pinned already; -EOPNOTSUPP: managed memory, or, said to be pinned, it is not; -ERANGE: it is
 * not one pin.
 */
OTTE_API int otte_cuda_pin(struct otte_engine *engine, int device, void *address, uint64_t length,
			   unsigned flags, struct otte_cuda_pin **pin);

/*
 * A slot of an arena as memory of the engine: a lease, during which the caller's allocator gives
 * these bytes to nobody else. It ends when otte_mem_release() has returned 0. -ERANGE: not inside
 * the arena; -EEXIST: it overlaps another slot.
 */
OTTE_API int otte_cuda_slot(struct otte_cuda_pin *pin, void *address, uint64_t length,
			    struct otte_mem **mem);

/* -EBUSY while there are slots. -EUCLEAN: the driver could not unpin it, and it must stay mapped. */
OTTE_API int otte_cuda_unpin(struct otte_cuda_pin *pin);

/* ---- Producers ------------------------------------------------------------------------------- */

/*
 * What `stream` was given so far writes the memory (or reads it, where a transfer will write): every
 * transfer and copy of it that begins from now on comes after that. By the thread that gave it. The
 * stream is of the memory's context: NULL, legacy and per-thread streams are those of the context
 * that is current. The caller keeps the stream, and what its work needs, until a transfer of the
 * memory has completed, or otte_mem_release() has returned. Recorded again before it came to that,
 * both count.
 *
 * -EBUSY: the stream is capturing; -EINVAL: it is of another context, or the memory is not of
 * CUDA. On another error, and when the wait for the producer fails, nobody can tell any more when
 * it is done: requests of the memory are refused with -EUCLEAN from then on, and so is its release.
 */
OTTE_API int otte_cuda_record(struct otte_mem *mem, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
