/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Allocations that CUDA knows of; what it knows is cuda/memory.h's. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "cuda/memory.h"
#include "engine/engine.h"
#include "engine/keep.h"
#include "engine/memory.h"
#include "otte/otte_cuda.h"

/* An arena of the caller's. Fixed until it is given back; the slots are counted in `memory`. */
struct otte_cuda_pin {
	struct otte_engine *engine;
	struct otte_cuda_mem *memory;
};

static int check(const char *call, struct otte_engine *engine, const void *out, uint64_t length,
		 unsigned flags, unsigned known)
{
	if (!engine || !out)
		return otte_fail(-EINVAL, "%s: an argument is NULL", call);
	if (flags & ~known)
		return otte_fail(-EINVAL, "%s: unknown flags 0x%x", call, flags);
	if (!length || length > INT64_MAX)
		return otte_fail(-EINVAL, "%s: a length of %lu", call, (unsigned long)length);
	return otte_fork_check(engine->generation);
}

/* What cannot be freed stays for good, and stands in the ledger. */
static int lose(struct otte_engine *engine, uint64_t length, int rc)
{
	char text[OTTE_ERROR_BYTES];

	if (rc != -EUCLEAN)
		return rc;
	otte_error_keep(text);
	otte_keep_lost(engine, length, OTTE_CUDA_REASON);
	return otte_fail(rc, "%s", text);
}

/* Recorded by the call that fails, and refused by those after it. */
static int free_once(struct otte_engine *engine, struct otte_cuda_mem *memory)
{
	uint64_t length = memory->length;
	bool lost = memory->lost;
	int ret = otte_cuda_mem_free(memory);

	return lost ? ret : lose(engine, length, ret);
}

/* `memory`, as it was made (`ret`), becomes an allocation of the engine's, or goes. */
static int take(struct otte_engine *engine, struct otte_cuda_mem *memory, int ret, uint64_t length,
		struct otte_mem **mem)
{
	enum otte_mem_kind kind;
	char text[OTTE_ERROR_BYTES];

	if (ret)
		return lose(engine, length, ret);
	kind = memory->allocated ? OTTE_MEM_OWNED : OTTE_MEM_ADOPTED;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address, of the host or of the device */
	ret = otte_mem_create(engine, kind, (void *)(uintptr_t)memory->address, length, 0, -1, mem);
	if (!ret) {
		(*mem)->cuda = memory;
		return 0;
	}
	otte_error_keep(text);
	if (otte_cuda_mem_free(memory))
		return lose(engine, length, -EUCLEAN);
	return otte_fail(ret, "%s", text);
}

int otte_cuda_alloc(struct otte_engine *engine, int device, uint64_t length, unsigned flags,
		    struct otte_mem **mem)
{
	struct otte_cuda_mem *memory = NULL;
	const struct otte_cuda *cuda;
	int ret;

	ret = check("otte_cuda_alloc", engine, mem, length, flags, 0);
	if (!ret)
		ret = otte_cuda_open(&cuda);
	if (ret)
		return ret;
	ret = otte_cuda_mem_alloc(cuda, device, length, &memory);
	return take(engine, memory, ret, length, mem);
}

int otte_cuda_adopt(struct otte_engine *engine, int device, uint64_t address, uint64_t length,
		    struct otte_mem **mem)
{
	struct otte_cuda_mem *memory = NULL;
	const struct otte_cuda *cuda;
	int ret;

	ret = check("otte_cuda_adopt", engine, mem, length, 0, 0);
	if (!ret && (!address || length > UINT64_MAX - address))
		ret = otte_fail(-EINVAL, "otte_cuda_adopt: %lu bytes at 0x%lx", (unsigned long)length,
				(unsigned long)address);
	if (!ret)
		ret = otte_cuda_open(&cuda);
	if (ret)
		return ret;
	ret = otte_cuda_mem_adopt(cuda, device, address, length, &memory);
	return take(engine, memory, ret, length, mem);
}

int otte_cuda_alloc_host(struct otte_engine *engine, int device, uint64_t length, unsigned flags,
			 struct otte_mem **mem)
{
	struct otte_cuda_mem *memory = NULL;
	const struct otte_cuda *cuda;
	int ret;

	ret = check("otte_cuda_alloc_host", engine, mem, length, flags, 0);
	if (!ret)
		ret = otte_cuda_open(&cuda);
	if (ret)
		return ret;
	ret = otte_cuda_mem_alloc_host(cuda, device, length, &memory);
	return take(engine, memory, ret, length, mem);
}

int otte_cuda_pin(struct otte_engine *engine, int device, void *address, uint64_t length, unsigned flags,
		  struct otte_cuda_pin **out)
{
	const struct otte_cuda *cuda;
	struct otte_cuda_pin *pin;
	int ret;

	ret = check("otte_cuda_pin", engine, out, length, flags, OTTE_CUDA_PINNED);
	if (!ret && (!address || length > UINT64_MAX - (uint64_t)(uintptr_t)address))
		ret = otte_fail(-EINVAL, "otte_cuda_pin: %lu bytes at %p", (unsigned long)length, address);
	if (!ret)
		ret = otte_cuda_open(&cuda);
	if (ret)
		return ret;
	pin = calloc(1, sizeof(*pin));
	if (!pin)
		return otte_fail(-ENOMEM, "no memory for an arena's record");
	pin->engine = engine;
	ret = otte_cuda_mem_pin(cuda, device, address, length, flags & OTTE_CUDA_PINNED, &pin->memory);
	if (ret) {
		free(pin);
		return lose(engine, length, ret);
	}
	*out = pin;
	return 0;
}

int otte_cuda_slot(struct otte_cuda_pin *pin, void *address, uint64_t length, struct otte_mem **mem)
{
	struct otte_cuda_mem *memory = NULL;
	int ret;

	if (!pin)
		return otte_fail(-EINVAL, "otte_cuda_slot: pin must not be NULL");
	ret = check("otte_cuda_slot", pin->engine, mem, length, 0, 0);
	if (ret)
		return ret;
	ret = otte_cuda_mem_slot(pin->memory, address, length, &memory);
	return take(pin->engine, memory, ret, length, mem);
}

int otte_cuda_unpin(struct otte_cuda_pin *pin)
{
	int ret;

	if (!pin)
		return otte_fail(-EINVAL, "otte_cuda_unpin: pin must not be NULL");
	ret = otte_fork_check(pin->engine->generation);
	if (ret)
		return ret;
	ret = free_once(pin->engine, pin->memory);
	if (!ret)
		free(pin);
	return ret;
}

int otte_cuda_record(struct otte_mem *mem, struct CUstream_st *stream)
{
	int ret;

	if (!mem)
		return otte_fail(-EINVAL, "otte_cuda_record: mem must not be NULL");
	ret = otte_fork_check(mem->engine->generation);
	if (ret)
		return ret;
	if (!mem->cuda)
		return otte_fail(-EINVAL, "otte_cuda_record: the memory is not of CUDA");
	return otte_cuda_ready_record(mem->cuda, stream);
}

int otte_mem_free_cuda(struct otte_mem *mem)
{
	return free_once(mem->engine, mem->cuda);
}
