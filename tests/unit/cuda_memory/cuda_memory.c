/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory of a simulated GPU as memory of an engine: what is refused, what fails, what stays, and its producers. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "cuda/memory.h"
#include "engine/memory.h"
#include "gpu/gpu.h"
#include "seen.h"
#include "sim/cuda/sim.h"

#define SOME (64 * KIB)
#define MOST_CALLS 100u

static struct sim_cuda_balance before;
static bool lost;

/* Engines of which something stays, and the arenas that do, for as long as the process lives. */
static struct otte_engine *left[64];
static struct otte_cuda_pin *left_pins[64];
static size_t left_count, left_pin_count;

static int start(void **state)
{
	sim_cuda_reset();
	sim_cuda_balance(&before);
	lost = false;
	return gpu_start(state);
}

static int stop(void **state)
{
	struct sim_cuda_balance after;
	CUcontext context;
	const char *text;

	if (lost) {
		left[left_count++] = engine;
		sim_cuda_reset();
		assert_int_equal(gpu->ctx_pop_current(&context), 0);
		return 0;
	}
	gpu_stop(state);
	sim_cuda_balance(&after);
	assert_memory_equal(&after, &before, sizeof(after));
	if (sim_cuda_violations(&text))
		fail_msg("%s", text);
	return 0;
}

static CUdeviceptr allocate(size_t size)
{
	CUdeviceptr at;

	MUST_CUDA(gpu->mem_alloc(&at, size));
	return at;
}

static void *arena_of(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static uint64_t address_of(const struct otte_mem *mem)
{
	return (uint64_t)(uintptr_t)otte_mem_address(mem);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static void arguments_are_refused_by_name(void **state)
{
	struct otte_cuda_pin *pin = NULL;
	struct otte_mem *mem = NULL;
	uint8_t byte;

	(void)state;
	assert_int_equal(otte_cuda_alloc(NULL, 0, 1, 0, &mem), -EINVAL);
	assert_int_equal(otte_cuda_alloc(engine, 0, 1, 0, NULL), -EINVAL);
	assert_int_equal(otte_cuda_alloc(engine, 0, 0, 0, &mem), -EINVAL);
	assert_int_equal(otte_cuda_alloc(engine, 0, UINT64_MAX, 0, &mem), -EINVAL);
	assert_int_equal(otte_cuda_alloc(engine, 0, 1, 1, &mem), -EINVAL);
	gpu_says("flags");
	assert_int_equal(otte_cuda_alloc(engine, 2, 1, 0, &mem), -ENODEV);
	gpu_says("GPU 2");
	assert_int_equal(otte_cuda_alloc(engine, -1, 1, 0, &mem), -ENODEV);
	assert_int_equal(otte_cuda_alloc_host(engine, 7, 1, 0, &mem), -ENODEV);
	assert_int_equal(otte_cuda_alloc_host(engine, 0, 1, 2, &mem), -EINVAL);
	assert_int_equal(otte_cuda_alloc(engine, 0, 1ull << 40, 0, &mem), -ENOMEM);
	assert_int_equal(otte_cuda_adopt(engine, 0, 0, 1, &mem), -EINVAL);
	assert_int_equal(otte_cuda_adopt(engine, 0, UINT64_MAX, 2, &mem), -EINVAL);
	assert_int_equal(otte_cuda_pin(engine, 0, NULL, 1, 0, &pin), -EINVAL);
	assert_int_equal(otte_cuda_pin(engine, 0, &byte, 1, 2, &pin), -EINVAL);
	assert_int_equal(otte_cuda_pin(engine, 9, &byte, 1, 0, &pin), -ENODEV);
	assert_int_equal(otte_cuda_slot(NULL, &byte, 1, &mem), -EINVAL);
	assert_int_equal(otte_cuda_unpin(NULL), -EINVAL);
	assert_int_equal(otte_cuda_record(NULL, NULL), -EINVAL);
	assert_null(mem);
	assert_null(pin);
}

static void a_producer_is_of_memory_of_cuda_s(void **state)
{
	struct otte_mem *mem;

	(void)state;
	MUST(otte_mem_alloc(engine, SOME, 0, &mem));
	assert_int_equal(otte_cuda_record(mem, NULL), -EINVAL);
	MUST(otte_mem_release(mem));
}

/* In the child of a fork there is no driver, nor an engine. */
static void nothing_of_it_works_in_a_child(void **state)
{
	struct otte_mem *mem, *child_s;
	struct otte_cuda_pin *pin;
	void *arena = arena_of(SOME);
	int status;
	pid_t pid;

	(void)state;
	MUST(otte_cuda_alloc(engine, 0, SOME, 0, &mem));
	MUST(otte_cuda_pin(engine, 0, arena, SOME, 0, &pin));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		bool refused = otte_cuda_alloc(engine, 0, 1, 0, &child_s) == -EOWNERDEAD &&
			       otte_cuda_alloc_host(engine, 0, 1, 0, &child_s) == -EOWNERDEAD &&
			       otte_cuda_adopt(engine, 0, address_of(mem), 1, &child_s) ==
				       -EOWNERDEAD &&
			       otte_cuda_pin(engine, 0, &status, 1, 0, &pin) == -EOWNERDEAD &&
			       otte_cuda_slot(pin, arena, 1, &child_s) == -EOWNERDEAD &&
			       otte_cuda_unpin(pin) == -EOWNERDEAD &&
			       otte_cuda_record(mem, NULL) == -EOWNERDEAD;

		_exit(!refused);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	MUST(otte_mem_release(mem));
	MUST(otte_cuda_unpin(pin));
	munmap(arena, SOME);
}

/* ---- Adopted --------------------------------------------------------------------------------- */

static void what_is_adopted_is_the_device_s_and_within_one_allocation(void **state)
{
	CUdeviceptr at = allocate(SOME);
	struct otte_mem *mem, *other;
	void *host;

	(void)state;
	MUST(otte_cuda_adopt(engine, 0, at + 100, 1000, &mem));
	assert_true(address_of(mem) == at + 100);
	assert_true(mem->cuda->extent_base == at);
	assert_int_equal(mem->cuda->extent_length, SOME);
	assert_int_equal(otte_cuda_adopt(engine, 0, at, 101, &other), -EEXIST);
	assert_int_equal(otte_cuda_adopt(engine, 1, at, 100, &other), -EINVAL);
	gpu_says("GPU 0");
	assert_int_equal(otte_cuda_adopt(engine, 0, at + SOME - 1, 2, &other), -ERANGE);
	assert_int_equal(otte_cuda_adopt(engine, 0, at + SOME, 1, &other), -EOPNOTSUPP);
	MUST_CUDA(gpu->mem_host_alloc(&host, SOME, 0));
	assert_int_equal(otte_cuda_adopt(engine, 0, (uint64_t)(uintptr_t)host, 1, &other),
			 -EOPNOTSUPP);
	gpu_says("host memory");
	MUST_CUDA(gpu->mem_free_host(host));
	assert_int_equal(otte_cuda_adopt(engine, 0, (uint64_t)(uintptr_t)&other, 1, &other),
			 -EOPNOTSUPP);
	gpu_says("not memory of CUDA");
	MUST(otte_mem_release(mem));
	/* It is the caller's still. */
	MUST_CUDA(gpu->mem_free(at));
}

static void managed_memory_is_refused_by_name(void **state)
{
	CUdeviceptr at = sim_cuda_managed_alloc(SOME);
	struct otte_cuda_pin *pin;
	struct otte_mem *mem;
	void *address;

	(void)state;
	assert_int_equal(otte_cuda_adopt(engine, 0, at, SOME, &mem), -EOPNOTSUPP);
	gpu_says("managed");
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): managed memory, by its address */
	address = (void *)(uintptr_t)at;
	assert_int_equal(otte_cuda_pin(engine, 0, address, SOME, OTTE_CUDA_PINNED, &pin), -EOPNOTSUPP);
	gpu_says("managed");
	MUST_CUDA(gpu->mem_free(at));
}

/* Adopted memory goes by the context that it is of, which need not be the primary one, nor current. */
static void memory_of_another_context_is_used_in_that(void **state)
{
	CUcontext other = sim_cuda_context_create(0), popped, current;
	CUstream stream;
	struct otte_mem *mem;
	CUdeviceptr at;

	(void)state;
	MUST_CUDA(gpu->ctx_push_current(other));
	at = allocate(SOME);
	stream = gpu_stream();
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	MUST(otte_cuda_adopt(engine, 0, at, SOME, &mem));
	assert_ptr_equal(mem->cuda->context, other);
	assert_false(mem->cuda->primary);
	MUST(otte_cuda_record(mem, stream));
	MUST_CUDA(gpu->ctx_get_current(&current));
	assert_ptr_equal(current, gpu_context);
	MUST(otte_mem_release(mem));
	MUST_CUDA(gpu->ctx_push_current(other));
	gpu_stream_gone(stream);
	MUST_CUDA(gpu->mem_free(at));
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	sim_cuda_context_destroy(other);
}

/* Memory that was mapped by handles is no context's. */
static void memory_by_handles_goes_by_the_primary_context(void **state)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	struct otte_mem *mem;
	CUdeviceptr at;

	(void)state;
	MUST_CUDA(gpu->mem_create(&handle, 2 * MIB, &properties, 0));
	MUST_CUDA(gpu->mem_address_reserve(&at, 2 * MIB, 0, 0, 0));
	MUST_CUDA(gpu->mem_map(at, 2 * MIB, 0, handle, 0));
	MUST_CUDA(gpu->mem_set_access(at, 2 * MIB, &access, 1));
	MUST_CUDA(gpu->mem_release(handle));
	MUST(otte_cuda_adopt(engine, 0, at, 2 * MIB, &mem));
	assert_true(mem->cuda->primary);
	assert_ptr_equal(mem->cuda->context, gpu_context);
	MUST(otte_mem_release(mem));
	MUST_CUDA(gpu->mem_unmap(at, 2 * MIB));
	MUST_CUDA(gpu->mem_address_free(at, 2 * MIB));
}

static void a_context_that_is_spoiled_is_said_so(void **state)
{
	struct otte_mem *mem;

	(void)state;
	sim_cuda_context_spoil(gpu_context, CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(otte_cuda_alloc(engine, 0, SOME, 0, &mem), -EIO);
	gpu_says("CUDA_ERROR_ILLEGAL_ADDRESS");
	sim_cuda_context_spoil(gpu_context, CUDA_SUCCESS);
}

/* ---- The caller's context -------------------------------------------------------------------- */

static void each_call_leaves_the_context_that_it_found(void **state)
{
	CUcontext other = sim_cuda_context_create(1), popped, current;
	const CUcontext contexts[] = { NULL, other };
	void *arena = arena_of(SOME);
	struct otte_mem *mem, *host, *slot;
	struct otte_cuda_pin *pin;
	size_t i;

	(void)state;
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	for (i = 0; i < ARRAY_SIZE(contexts); i++) {
		if (contexts[i])
			MUST_CUDA(gpu->ctx_push_current(contexts[i]));
#define STAYS(call)                                        \
	do {                                               \
		MUST(call);                                \
		MUST_CUDA(gpu->ctx_get_current(&current)); \
		assert_ptr_equal(current, contexts[i]);    \
	} while (0)
		STAYS(otte_cuda_alloc(engine, 0, SOME, 0, &mem));
		STAYS(otte_cuda_alloc_host(engine, 0, SOME, 0, &host));
		STAYS(otte_cuda_pin(engine, 0, arena, SOME, 0, &pin));
		STAYS(otte_cuda_slot(pin, arena, 1, &slot));
		STAYS(otte_mem_release(slot));
		STAYS(otte_cuda_unpin(pin));
		STAYS(otte_mem_release(host));
		STAYS(otte_mem_release(mem));
#undef STAYS
	}
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	MUST_CUDA(gpu->ctx_push_current(gpu_context));
	sim_cuda_context_destroy(other);
	munmap(arena, SOME);
}

/* ---- Pinned ---------------------------------------------------------------------------------- */

static void an_arena_is_one_pin_and_its_slots_are_leases(void **state)
{
	uint8_t *arena = arena_of(SOME);
	struct otte_mem *slot, *other;
	struct otte_cuda_pin *pin, *second;

	(void)state;
	MUST(otte_cuda_pin(engine, 0, arena, SOME, 0, &pin));
	assert_int_equal(sim_cuda_calls("cuMemHostRegister_v2"), 1);
	assert_int_equal(otte_cuda_pin(engine, 0, arena + 4096, 4096, 0, &second), -EEXIST);
	MUST(otte_cuda_slot(pin, arena + 4096, 4096, &slot));
	assert_int_equal(otte_cuda_slot(pin, arena + 8191, 2, &other), -EEXIST);
	assert_int_equal(otte_cuda_slot(pin, arena + SOME, 1, &other), -ERANGE);
	assert_int_equal(otte_cuda_slot(pin, arena - 1, 2, &other), -ERANGE);
	assert_int_equal(otte_cuda_unpin(pin), -EBUSY);
	assert_int_equal(sim_cuda_calls("cuMemHostRegister_v2"), 2);
	/* The device has another address for it, and so for the slot. */
	assert_true(slot->cuda->alias != address_of(slot));
	assert_true(sim_cuda_reach(slot->cuda->alias, 4096) == otte_mem_address(slot));
	MUST(otte_mem_release(slot));
	MUST(otte_cuda_unpin(pin));
	munmap(arena, SOME);
}

static void an_arena_that_its_owner_pinned_is_looked_at(void **state)
{
	uint8_t *arena = arena_of(SOME);
	struct otte_cuda_pin *pin;

	(void)state;
	assert_int_equal(otte_cuda_pin(engine, 0, arena, SOME, OTTE_CUDA_PINNED, &pin),
			 -EOPNOTSUPP);
	gpu_says("not pinned");
	MUST_CUDA(gpu->mem_host_register(arena, SOME / 2, 0));
	assert_int_equal(otte_cuda_pin(engine, 0, arena, SOME, OTTE_CUDA_PINNED, &pin),
			 -EOPNOTSUPP);
	MUST_CUDA(gpu->mem_host_register(arena + SOME / 2, SOME / 2, 0));
	assert_int_equal(otte_cuda_pin(engine, 0, arena, SOME, OTTE_CUDA_PINNED, &pin), -ERANGE);
	gpu_says("one pin");
	MUST(otte_cuda_pin(engine, 0, arena, SOME / 2, OTTE_CUDA_PINNED, &pin));
	MUST(otte_cuda_unpin(pin));
	/* Not by us. */
	MUST_CUDA(gpu->mem_host_unregister(arena));
	MUST_CUDA(gpu->mem_host_unregister(arena + SOME / 2));
	munmap(arena, SOME);
}

/* ---- Calls that fail ------------------------------------------------------------------------- */

static void *sweep_arena;

static int make_device(struct otte_mem **mem, struct otte_cuda_pin **pin)
{
	(void)pin;
	return otte_cuda_alloc(engine, 0, SOME, 0, mem);
}

static int make_host(struct otte_mem **mem, struct otte_cuda_pin **pin)
{
	(void)pin;
	return otte_cuda_alloc_host(engine, 0, SOME, 0, mem);
}

static int make_pin(struct otte_mem **mem, struct otte_cuda_pin **pin)
{
	(void)mem;
	return otte_cuda_pin(engine, 0, sweep_arena, SOME, 0, pin);
}

static int unmake(struct otte_mem *mem, struct otte_cuda_pin *pin)
{
	return pin ? otte_cuda_unpin(pin) : otte_mem_release(mem);
}

static int (*const makers[])(struct otte_mem **mem,
			     struct otte_cuda_pin **pin) = { make_device, make_host, make_pin };

static void what_is_made_is_made_whole_or_not_at_all(void **state)
{
	struct sim_cuda_balance was, is;
	struct otte_cuda_pin *pin;
	struct otte_mem *mem;
	CUcontext popped;
	unsigned int nth;
	size_t i;
	int ret;

	(void)state;
	sweep_arena = arena_of(SOME);
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	for (i = 0; i < ARRAY_SIZE(makers); i++) {
		for (nth = 1; nth < MOST_CALLS; nth++) {
			mem = NULL;
			pin = NULL;
			sim_cuda_balance(&was);
			sim_cuda_reset();
			sim_cuda_fail(SIM_CUDA_ANY, nth, CUDA_ERROR_OUT_OF_MEMORY, 1);
			ret = makers[i](&mem, &pin);
			if (!ret && sim_cuda_calls(SIM_CUDA_ANY) < nth)
				break;
			sim_cuda_reset();
			if (!ret) {
				MUST(unmake(mem, pin));
				continue;
			}
			/* A way back that fails leaves another context current: the caller's own is none. */
			if (ret == -EUCLEAN) {
				MUST_CUDA(gpu->ctx_pop_current(&popped));
				assert_ptr_equal(popped, gpu_context);
				gpu_says("cuCtxPopCurrent_v2");
				MUST_CUDA(gpu->ctx_get_current(&popped));
				assert_null(popped);
			} else {
				assert_int_equal(ret, -ENOMEM);
			}
			assert_null(mem);
			assert_null(pin);
			sim_cuda_balance(&is);
			assert_memory_equal(&is, &was, sizeof(is));
		}
		assert_in_range(nth, 5, MOST_CALLS - 1);
		MUST(unmake(mem, pin));
	}
	MUST_CUDA(gpu->ctx_push_current(gpu_context));
	munmap(sweep_arena, SOME);
}

/* What could not be given back stands in the ledger once, and is not tried again. */
static void stays(struct otte_mem *mem, struct otte_cuda_pin *pin, const char *call)
{
	uint64_t records = gpu_stats().retained, bytes = gpu_stats().retained_bytes;

	assert_int_equal(unmake(mem, pin), -EUCLEAN);
	gpu_says(call);
	assert_int_equal(gpu_stats().retained, records + 1);
	assert_int_equal(gpu_stats().retained_bytes, bytes + SOME);
	sim_cuda_reset();
	assert_int_equal(unmake(mem, pin), -EUCLEAN);
	assert_int_equal(sim_cuda_calls(call), 0);
	assert_int_equal(gpu_stats().retained, records + 1);
	left_pins[left_pin_count++] = pin;
	lost = true;
}

static void what_cannot_be_given_back_stays(void **state)
{
	static const char *const calls[][3] = {
		{ "cuMemFree_v2", "cuDevicePrimaryCtxRelease_v2", "cuDeviceGet" },
		{ "cuMemFreeHost", "cuDevicePrimaryCtxRelease_v2", "cuDeviceGet" },
		{ "cuMemHostUnregister", "cuDevicePrimaryCtxRelease_v2", "cuDeviceGet" },
	};
	struct otte_cuda_pin *pin;
	struct otte_mem *mem;
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(makers); i++)
		for (k = 0; k < 3; k++) {
			mem = NULL;
			pin = NULL;
			sweep_arena = arena_of(SOME);
			MUST(makers[i](&mem, &pin));
			sim_cuda_fail(calls[i][k], 1, CUDA_ERROR_UNKNOWN, 1);
			stays(mem, pin, calls[i][k]);
		}
}

static void a_release_after_which_the_context_does_not_come_back_stays(void **state)
{
	struct otte_mem *mem;
	CUcontext popped;

	(void)state;
	MUST(otte_cuda_alloc(engine, 0, SOME, 0, &mem));
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	sim_cuda_fail("cuCtxPopCurrent_v2", 1, CUDA_ERROR_UNKNOWN, 1);
	stays(mem, NULL, "cuCtxPopCurrent_v2");
}

/* ---- Producers ------------------------------------------------------------------------------- */

static void *let_go(void *arg)
{
	while (!sim_cuda_calls("cuEventSynchronize"))
		;
	sim_cuda_release(arg);
	return NULL;
}

static void a_release_waits_for_the_producer(void **state)
{
	CUstream stream = gpu_stream();
	struct otte_mem *mem, *host;
	pthread_t thread;
	uint8_t *bytes;

	(void)state;
	MUST(otte_cuda_alloc(engine, 0, SOME, 0, &mem));
	MUST(otte_cuda_alloc_host(engine, 0, SOME, 0, &host));
	bytes = otte_mem_address(host);
	memset(bytes, 3, SOME);
	sim_cuda_hold(stream);
	MUST_CUDA(gpu->memcpy_htod_async(address_of(mem), bytes, SOME, stream));
	MUST(otte_cuda_record(mem, stream));
	assert_int_equal(otte_cuda_ready_poll(mem->cuda), -EAGAIN);
	assert_int_equal(pthread_create(&thread, NULL, let_go, stream), 0);
	MUST(otte_mem_release(mem));
	assert_int_equal(pthread_join(thread, NULL), 0);
	MUST(otte_mem_release(host));
	gpu_stream_gone(stream);
}

static void two_producers_both_count(void **state)
{
	CUstream first = gpu_stream(), second = gpu_stream();
	struct otte_mem *mem;

	(void)state;
	MUST(otte_cuda_alloc(engine, 0, SOME, 0, &mem));
	sim_cuda_hold(first);
	sim_cuda_hold(second);
	MUST(otte_cuda_record(mem, first));
	MUST(otte_cuda_record(mem, second));
	sim_cuda_release(second);
	sim_cuda_settle();
	assert_int_equal(otte_cuda_ready_poll(mem->cuda), -EAGAIN);
	sim_cuda_release(first);
	sim_cuda_settle();
	MUST(otte_cuda_ready_poll(mem->cuda));
	assert_true(otte_cuda_ready_idle(&mem->cuda->ready));
	/* Seen once: nobody asks the driver again. */
	sim_cuda_fail(SIM_CUDA_ANY, 1, CUDA_ERROR_UNKNOWN, UINT32_MAX);
	MUST(otte_cuda_ready_wait(mem->cuda));
	sim_cuda_reset();
	MUST(otte_mem_release(mem));
	gpu_stream_gone(first);
	gpu_stream_gone(second);
}

static void default_streams_are_those_of_the_context_that_is_current(void **state)
{
	CUcontext other = sim_cuda_context_create(0), popped;
	struct otte_mem *mem;

	(void)state;
	MUST(otte_cuda_alloc(engine, 0, SOME, 0, &mem));
	MUST(otte_cuda_record(mem, NULL));
	MUST(otte_cuda_record(mem, CU_STREAM_LEGACY));
	MUST(otte_cuda_record(mem, CU_STREAM_PER_THREAD));
	MUST_CUDA(gpu->ctx_push_current(other));
	assert_int_equal(otte_cuda_record(mem, NULL), -EINVAL);
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	assert_int_equal(otte_cuda_record(mem, NULL), -EINVAL);
	MUST_CUDA(gpu->ctx_push_current(popped));
	sim_cuda_capture(CU_STREAM_PER_THREAD, true);
	assert_int_equal(otte_cuda_record(mem, CU_STREAM_PER_THREAD), -EBUSY);
	sim_cuda_capture(CU_STREAM_PER_THREAD, false);
	/* None of them fences. */
	MUST(otte_cuda_record(mem, CU_STREAM_PER_THREAD));
	MUST(otte_mem_release(mem));
	sim_cuda_context_destroy(other);
}

/* Each way in which a record or a wait fails: nobody can tell any more when the producer is done. */
static void what_fails_of_a_producer_fences_the_memory(void **state)
{
	static const struct {
		const char *call;
		unsigned int nth; /* of the second record and the wait */
	} ways[] = { { "cuStreamWaitEvent", 1 },
		     { "cuEventRecord", 1 },
		     { "cuEventSynchronize", 1 } };
	CUstream stream = gpu_stream();
	struct otte_mem *mem;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		MUST(otte_cuda_alloc(engine, 0, SOME, 0, &mem));
		sim_cuda_hold(stream);
		MUST(otte_cuda_record(mem, stream));
		sim_cuda_fail(ways[i].call, ways[i].nth, CUDA_ERROR_UNKNOWN, 1);
		if (i < 2)
			assert_int_equal(otte_cuda_record(mem, stream), -EIO);
		else
			assert_int_equal(otte_cuda_ready_wait(mem->cuda), -EUCLEAN);
		gpu_says(ways[i].call);
		assert_int_equal(otte_cuda_record(mem, stream), -EUCLEAN);
		assert_int_equal(otte_cuda_ready_poll(mem->cuda), -EUCLEAN);
		sim_cuda_release(stream);
		assert_int_equal(otte_mem_release(mem), -EUCLEAN);
		assert_int_equal(gpu_stats().retained, i + 1);
		sim_cuda_reset();
	}
	MUST(otte_cuda_alloc(engine, 0, SOME, 0, &mem));
	sim_cuda_fail("cuEventCreate", 1, CUDA_ERROR_OUT_OF_MEMORY, 1);
	assert_int_equal(otte_cuda_record(mem, stream), -ENOMEM);
	assert_int_equal(otte_mem_release(mem), -EUCLEAN);
	lost = true;
}

static void an_event_that_stays_keeps_the_memory(void **state)
{
	CUstream stream = gpu_stream();
	struct otte_mem *mem;

	(void)state;
	MUST(otte_cuda_alloc(engine, 0, SOME, 0, &mem));
	MUST(otte_cuda_record(mem, stream));
	sim_cuda_fail("cuEventDestroy_v2", 1, CUDA_ERROR_UNKNOWN, 1);
	stays(mem, NULL, "cuEventDestroy_v2");
}

int main(void)
{
#define OVER_A_GPU(test) cmocka_unit_test_setup_teardown(test, start, stop)
	static const struct CMUnitTest tests[] = {
		OVER_A_GPU(arguments_are_refused_by_name),
		OVER_A_GPU(a_producer_is_of_memory_of_cuda_s),
		OVER_A_GPU(nothing_of_it_works_in_a_child),
		OVER_A_GPU(what_is_adopted_is_the_device_s_and_within_one_allocation),
		OVER_A_GPU(managed_memory_is_refused_by_name),
		OVER_A_GPU(memory_of_another_context_is_used_in_that),
		OVER_A_GPU(memory_by_handles_goes_by_the_primary_context),
		OVER_A_GPU(a_context_that_is_spoiled_is_said_so),
		OVER_A_GPU(each_call_leaves_the_context_that_it_found),
		OVER_A_GPU(an_arena_is_one_pin_and_its_slots_are_leases),
		OVER_A_GPU(an_arena_that_its_owner_pinned_is_looked_at),
		OVER_A_GPU(what_is_made_is_made_whole_or_not_at_all),
		OVER_A_GPU(what_cannot_be_given_back_stays),
		OVER_A_GPU(a_release_after_which_the_context_does_not_come_back_stays),
		OVER_A_GPU(a_release_waits_for_the_producer),
		OVER_A_GPU(two_producers_both_count),
		OVER_A_GPU(default_streams_are_those_of_the_context_that_is_current),
		OVER_A_GPU(what_fails_of_a_producer_fences_the_memory),
		OVER_A_GPU(an_event_that_stays_keeps_the_memory),
	};

	return cmocka_run_group_tests_name("memory of CUDA", tests, NULL, NULL);
}
