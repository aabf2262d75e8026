/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/memory.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/util.h"
#include "cuda/context.h"
#include "otte/otte.h"

/* What the driver says of an address; all zero for one that it does not know. */
struct facts {
	CUcontext context;
	CUmemorytype type;
	int managed;
	int device;
	CUdeviceptr start;
	size_t size;
	unsigned long long id;
};

/* What the driver did not let go of, for as long as the process lives. */
static struct {
	pthread_mutex_t lock;
	struct otte_cuda_mem *first;
} lost = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void lose(struct otte_cuda_mem *memory)
{
	memory->lost = true;
	pthread_mutex_lock(&lost.lock);
	memory->next_lost = lost.first;
	lost.first = memory;
	pthread_mutex_unlock(&lost.lock);
}

static int say(const struct otte_cuda_mem *memory, CUresult result, const char *call)
{
	return otte_cuda_error(memory->cuda, result, memory->device, call);
}

static int ask(const struct otte_cuda_mem *memory, uint64_t address, struct facts *facts)
{
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,	CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_BUFFER_ID,
	};
	void *values[] = { &facts->context, &facts->type, &facts->managed, &facts->device,
			   &facts->start,   &facts->size, &facts->id };

	*facts = (struct facts){ .device = OTTE_CUDA_NO_DEVICE };
	return say(memory, memory->cuda->pointer_get_attributes(ARRAY_SIZE(which), which, values, address),
		   "cuPointerGetAttributes");
}

static int make(const struct otte_cuda *cuda, enum otte_cuda_kind kind, int device, uint64_t address,
		uint64_t length, struct otte_cuda_mem **out)
{
	struct otte_cuda_mem *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return otte_fail(-ENOMEM, "no memory for the record of memory of GPU %d", device);
	memory->cuda = cuda;
	memory->kind = kind;
	memory->device = device;
	memory->address = memory->extent_base = address;
	memory->length = memory->extent_length = length;
	otte_cuda_ready_init(&memory->ready);
	*out = memory;
	return 0;
}

static int retain_primary(struct otte_cuda_mem *memory)
{
	const struct otte_cuda *cuda = memory->cuda;
	CUdevice device;
	int ret;

	ret = say(memory, cuda->device_get(&device, memory->device), "cuDeviceGet");
	if (ret)
		return ret;
	ret = say(memory, cuda->primary_ctx_retain(&memory->context, device), "cuDevicePrimaryCtxRetain");
	memory->primary = !ret;
	return ret;
}

static int release_primary(struct otte_cuda_mem *memory)
{
	const struct otte_cuda *cuda = memory->cuda;
	CUdevice device;
	int ret;

	if (!memory->primary)
		return 0;
	ret = say(memory, cuda->device_get(&device, memory->device), "cuDeviceGet");
	if (ret)
		return ret;
	return say(memory, cuda->primary_ctx_release(device), "cuDevicePrimaryCtxRelease_v2");
}

/* ---- What is done with the context current --------------------------------------------------- */

static int identify(struct otte_cuda_mem *memory)
{
	struct facts facts;
	int ret = ask(memory, memory->address, &facts);

	memory->owner = facts.id;
	return ret;
}

static int find_alias(struct otte_cuda_mem *memory)
{
	CUdeviceptr alias = 0;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): host memory, by its address */
	void *at = (void *)(uintptr_t)memory->address;
	int ret = say(memory, memory->cuda->mem_host_get_device_pointer(&alias, at, 0),
		      "cuMemHostGetDevicePointer_v2");

	/* What the device does not reach, its copies do. */
	memory->alias = ret ? 0 : alias;
	return ret == -EOPNOTSUPP || ret == -EINVAL ? 0 : ret;
}

static int allocate_device(struct otte_cuda_mem *memory)
{
	CUdeviceptr at = 0;
	int ret = say(memory, memory->cuda->mem_alloc(&at, memory->length), "cuMemAlloc_v2");

	if (ret)
		return ret;
	memory->allocated = true;
	memory->address = memory->extent_base = at;
	return identify(memory);
}

static int allocate_host(struct otte_cuda_mem *memory)
{
	void *at = NULL;
	int ret = say(memory, memory->cuda->mem_host_alloc(&at, memory->length,
							   CU_MEMHOSTALLOC_PORTABLE |
								   CU_MEMHOSTALLOC_DEVICEMAP),
		      "cuMemHostAlloc");

	if (ret)
		return ret;
	memory->allocated = true;
	memory->address = memory->extent_base = (uint64_t)(uintptr_t)at;
	memory->owner = memory->address;
	return find_alias(memory);
}

static int register_host(struct otte_cuda_mem *memory)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): host memory, by its address */
	void *at = (void *)(uintptr_t)memory->address;
	int ret = say(memory, memory->cuda->mem_host_register(at, memory->length,
							      CU_MEMHOSTREGISTER_PORTABLE |
								      CU_MEMHOSTREGISTER_DEVICEMAP),
		      "cuMemHostRegister_v2");

	if (ret)
		return ret;
	memory->registered = true;
	return find_alias(memory);
}

/* Both ends are looked at: a pin of the caller's need not be told whole by the driver. */
static int check_pinned(struct otte_cuda_mem *memory)
{
	struct facts first, last;
	int ret;

	ret = ask(memory, memory->address, &first);
	if (!ret)
		ret = ask(memory, memory->address + memory->length - 1, &last);
	if (ret)
		return ret;
	if (first.managed || last.managed)
		return otte_fail(-EOPNOTSUPP, "GPU %d: the arena is managed memory", memory->device);
	if (first.type != CU_MEMORYTYPE_HOST || last.type != CU_MEMORYTYPE_HOST)
		return otte_fail(-EOPNOTSUPP, "GPU %d: the arena is not pinned host memory", memory->device);
	if (first.start != last.start)
		return otte_fail(-ERANGE, "GPU %d: the arena is not one pin", memory->device);
	return find_alias(memory);
}

/* The context that is current is the memory's own: is it the device's? */
static int check_device(struct otte_cuda_mem *memory)
{
	CUdevice current, device;
	int ret;

	ret = say(memory, memory->cuda->device_get(&device, memory->device), "cuDeviceGet");
	if (!ret)
		ret = say(memory, memory->cuda->ctx_get_device(&current), "cuCtxGetDevice");
	if (ret)
		return ret;
	if (current != device)
		return otte_fail(-EINVAL, "GPU %d: the memory's context is of another one", memory->device);
	return 0;
}

static int free_natively(struct otte_cuda_mem *memory)
{
	const struct otte_cuda *cuda = memory->cuda;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): host memory, by its address */
	void *at = (void *)(uintptr_t)memory->address;

	if (memory->registered)
		return say(memory, cuda->mem_host_unregister(at), "cuMemHostUnregister");
	if (!memory->allocated)
		return 0;
	if (memory->kind == OTTE_CUDA_HOST)
		return say(memory, cuda->mem_free_host(at), "cuMemFreeHost");
	return say(memory, cuda->mem_free(memory->address), "cuMemFree_v2");
}

/* ---- Making and freeing ---------------------------------------------------------------------- */

/* `step` with the memory's context current. A way back that fails is a failure of the step. */
static int within(struct otte_cuda_mem *memory, int (*step)(struct otte_cuda_mem *memory))
{
	struct otte_cuda_guard guard;
	bool restored;
	int ret;

	ret = otte_cuda_enter(&guard, memory->cuda, memory->context, memory->device);
	if (ret)
		return ret;
	ret = otte_cuda_leave(&guard, step(memory), &restored);
	if (!restored)
		return otte_fail_within(-EUCLEAN, "the caller's context: ");
	return ret;
}

static int dismantle(struct otte_cuda_mem *memory)
{
	int ret = otte_cuda_ready_fini(memory);

	return ret ? ret : free_natively(memory);
}

int otte_cuda_mem_free(struct otte_cuda_mem *memory)
{
	int ret = 0;

	if (atomic_load(&memory->slots))
		return otte_fail(-EBUSY, "GPU %d: %lu slots of the arena are in use", memory->device,
				 (unsigned long)atomic_load(&memory->slots));
	if (memory->lost)
		return otte_fail(-EUCLEAN, "GPU %d: memory that the driver could not let go stays", memory->device);
	if (memory->context)
		ret = within(memory, dismantle);
	if (!ret)
		ret = release_primary(memory);
	if (ret) {
		lose(memory);
		return otte_fail_within(-EUCLEAN, "memory stays: ");
	}
	if (memory->pin)
		atomic_fetch_sub(&memory->pin->slots, 1);
	free(memory);
	return 0;
}

/* One that could not be made. `rc` with its text, or -EUCLEAN with both: something of it stays. */
static int give_up(struct otte_cuda_mem *memory, int rc)
{
	char text[OTTE_ERROR_BYTES];

	otte_error_keep(text);
	if (otte_cuda_mem_free(memory))
		return otte_fail_within(-EUCLEAN, "%s; ", text);
	return otte_fail(rc, "%s", text);
}

static int make_with(const struct otte_cuda *cuda, enum otte_cuda_kind kind, int device, uint64_t address,
		     uint64_t length, int (*step)(struct otte_cuda_mem *memory),
		     struct otte_cuda_mem **out)
{
	struct otte_cuda_mem *memory = NULL;
	int ret;

	ret = make(cuda, kind, device, address, length, &memory);
	if (ret)
		return ret;
	ret = retain_primary(memory);
	if (!ret)
		ret = within(memory, step);
	if (ret)
		return give_up(memory, ret);
	*out = memory;
	return 0;
}

int otte_cuda_mem_alloc(const struct otte_cuda *cuda, int device, uint64_t length,
			   struct otte_cuda_mem **memory)
{
	return make_with(cuda, OTTE_CUDA_DEVICE, device, 0, length, allocate_device, memory);
}

int otte_cuda_mem_alloc_host(const struct otte_cuda *cuda, int device, uint64_t length,
				struct otte_cuda_mem **memory)
{
	return make_with(cuda, OTTE_CUDA_HOST, device, 0, length, allocate_host, memory);
}

int otte_cuda_mem_pin(const struct otte_cuda *cuda, int device, void *address, uint64_t length,
			 bool pinned, struct otte_cuda_mem **pin)
{
	uint64_t at = (uint64_t)(uintptr_t)address;
	int ret;

	ret = make_with(cuda, OTTE_CUDA_HOST, device, at, length, pinned ? check_pinned : register_host, pin);
	if (!ret)
		(*pin)->owner = at;
	return ret;
}

int otte_cuda_mem_slot(struct otte_cuda_mem *pin, void *address, uint64_t length,
			  struct otte_cuda_mem **memory)
{
	uint64_t at = (uint64_t)(uintptr_t)address, offset = at - pin->address;
	int ret;

	if (at < pin->address || !range_inside(offset, length, pin->length))
		return otte_fail(-ERANGE, "GPU %d: the slot is not inside its arena of %lu bytes", pin->device,
				 (unsigned long)pin->length);
	ret = make(pin->cuda, OTTE_CUDA_HOST, pin->device, at, length, memory);
	if (ret)
		return ret;
	(*memory)->context = pin->context;
	(*memory)->extent_base = pin->extent_base;
	(*memory)->extent_length = pin->extent_length;
	(*memory)->owner = pin->owner;
	(*memory)->alias = pin->alias ? pin->alias + offset : 0;
	(*memory)->pin = pin;
	atomic_fetch_add(&pin->slots, 1);
	return 0;
}

/* What a pointer of the caller's has to be. */
static int check_adopted(const struct otte_cuda_mem *memory, const struct facts *facts)
{
	if (facts->managed)
		return otte_fail(-EOPNOTSUPP, "GPU %d: managed memory cannot be adopted", memory->device);
	if (facts->type == CU_MEMORYTYPE_HOST)
		return otte_fail(-EOPNOTSUPP, "GPU %d: host memory cannot be adopted as the device's",
				 memory->device);
	if (facts->type != CU_MEMORYTYPE_DEVICE)
		return otte_fail(-EOPNOTSUPP, "GPU %d: 0x%lx is not memory of CUDA", memory->device,
				 (unsigned long)memory->address);
	if (facts->device != memory->device)
		return otte_fail(-EINVAL, "GPU %d: the memory is GPU %d's", memory->device, facts->device);
	if (memory->address < facts->start ||
	    !range_inside(memory->address - facts->start, memory->length, facts->size))
		return otte_fail(-ERANGE, "GPU %d: [0x%lx, +%lu) is not inside one allocation", memory->device,
				 (unsigned long)memory->address, (unsigned long)memory->length);
	return 0;
}

int otte_cuda_mem_adopt(const struct otte_cuda *cuda, int device, uint64_t address, uint64_t length,
			   struct otte_cuda_mem **out)
{
	struct otte_cuda_mem *memory = NULL;
	struct facts facts;
	int ret;

	ret = make(cuda, OTTE_CUDA_DEVICE, device, address, length, &memory);
	if (ret)
		return ret;
	ret = ask(memory, address, &facts);
	if (!ret)
		ret = check_adopted(memory, &facts);
	if (ret)
		goto give_up;
	memory->extent_base = facts.start;
	memory->extent_length = facts.size;
	memory->owner = facts.id;
	/* Memory of a pool, or that was mapped by handles, is no context's: it goes by the primary one. */
	memory->context = facts.context;
	if (!facts.context)
		ret = retain_primary(memory);
	if (!ret)
		ret = within(memory, check_device);
	if (ret)
		goto give_up;
	*out = memory;
	return 0;

give_up:
	return give_up(memory, ret);
}
