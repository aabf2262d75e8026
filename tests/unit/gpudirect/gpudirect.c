/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory of a simulated GPU on its way to a NIC: what is checked, what is exported, what fails. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "cuda/gpudirect.h"
#include "gpu/gpu.h"
#include "sim/cuda/sim.h"

#define SOME (64 * KIB)
#define PAGE 4096u

static struct sim_cuda_balance before;
static struct otte_cuda_mem *memory;

static int start(void **state)
{
	sim_cuda_reset();
	sim_cuda_balance(&before);
	gpu_start(state);
	MUST(otte_cuda_mem_alloc(gpu, 0, SOME, &memory));
	return 0;
}

static int stop(void **state)
{
	struct sim_cuda_balance after;
	const char *text;

	MUST(otte_cuda_mem_free(memory));
	gpu_stop(state);
	sim_cuda_balance(&after);
	assert_memory_equal(&after, &before, sizeof(after));
	if (sim_cuda_violations(&text))
		fail_msg("%s", text);
	return 0;
}

static void says(const char *word)
{
	if (!strstr(otte_error_text(), word))
		fail_msg("\"%s\" does not say %s", otte_error_text(), word);
}

static int open_files(void)
{
	int fd, count = 0;

	for (fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static int sync_memops(void)
{
	CUpointer_attribute which = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
	int value = -1;
	void *values[] = { &value };

	MUST_CUDA(gpu->pointer_get_attributes(1, &which, values, memory->address));
	return value;
}

/* ---- Geometry -------------------------------------------------------------------------------- */

static const struct {
	uint64_t extent_base, extent_length, address, length;
	uint64_t page;
	int ret;
	uint64_t base, exported, offset;
} fits[] = {
	/* All of an allocation of whole pages. */
	{ 0x10000, 0x4000, 0x10000, 0x4000, 4096, 0, 0x10000, 0x4000, 0 },
	/* A part of it: what is exported is the same. */
	{ 0x10000, 0x4000, 0x11010, 0x20, 4096, 0, 0x10000, 0x4000, 0x1010 },
	{ 0x10000, 0x4000, 0x13fff, 1, 4096, 0, 0x10000, 0x4000, 0x3fff },
	/* One that ends within a page goes to the page's end. */
	{ 0x10000, 1, 0x10000, 1, 4096, 0, 0x10000, 0x1000, 0 },
	{ 0x10000, 0x1001, 0x11000, 1, 4096, 0, 0x10000, 0x2000, 0x1000 },
	/* One that begins within a page is counted from the page's beginning. */
	{ 0x10200, 0x200, 0x10300, 0x100, 4096, 0, 0x10000, 0x1000, 0x300 },
	{ 0x10e00, 0x400, 0x10e00, 0x400, 4096, 0, 0x10000, 0x2000, 0xe00 },
	/* Of another page size. */
	{ 0x10000, 0x4000, 0x11000, 0x1000, 65536, 0, 0x10000, 0x10000, 0x1000 },
	{ 0x18000, 0x10000, 0x18000, 0x10000, 65536, 0, 0x10000, 0x20000, 0x8000 },
	/* What is not within it. */
	{ 0x10000, 0x4000, 0xffff, 2, 4096, -ERANGE, 0, 0, 0 },
	{ 0x10000, 0x4000, 0x13fff, 2, 4096, -ERANGE, 0, 0, 0 },
	{ 0x10000, 0x4000, 0x14000, 1, 4096, -ERANGE, 0, 0, 0 },
	{ 0x10000, 0x4000, 0x10000, 0, 4096, -ERANGE, 0, 0, 0 },
	{ 0x10000, 0x4000, 0x11000, UINT64_MAX, 4096, -ERANGE, 0, 0, 0 },
	/* What wraps around when it is rounded. */
	{ 0x10000, UINT64_MAX, 0x10000, 1, 4096, -ERANGE, 0, 0, 0 },
	{ UINT64_MAX - 0xfff, 0xfff, UINT64_MAX - 0xfff, 1, 4096, -ERANGE, 0, 0, 0 },
};

static void an_export_is_the_allocation_in_whole_pages_of_the_host(void **state)
{
	struct otte_gpudirect_geometry geometry;
	struct otte_cuda_mem like = {};
	size_t i;
	int ret;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(fits); i++) {
		like.extent_base = fits[i].extent_base;
		like.extent_length = fits[i].extent_length;
		geometry = (struct otte_gpudirect_geometry){};
		ret = otte_gpudirect_fit(&like, fits[i].address, fits[i].length, fits[i].page,
					 &geometry);
		if (ret != fits[i].ret || geometry.base != fits[i].base ||
		    geometry.length != fits[i].exported || geometry.offset != fits[i].offset)
			fail_msg("row %zu: %d, [0x%lx, +0x%lx), offset 0x%lx", i, ret,
				 (unsigned long)geometry.base, (unsigned long)geometry.length,
				 (unsigned long)geometry.offset);
	}
}

/* ---- Admission ------------------------------------------------------------------------------- */

static void memory_of_a_device_that_orders_writes_is_admitted_in_its_context(void **state)
{
	CUcontext context;

	(void)state;
	MUST_CUDA(gpu->ctx_pop_current(&context));
	assert_int_equal(sync_memops(), 0);
	MUST(otte_gpudirect_admit(memory));
	assert_int_equal(sync_memops(), 1);
	MUST(otte_gpudirect_admit(memory));
	assert_int_equal(sync_memops(), 1);
	MUST_CUDA(gpu->ctx_get_current(&context));
	assert_null(context);
	MUST_CUDA(gpu->ctx_push_current(gpu_context));
}

static void a_device_that_orders_no_writes_is_refused_by_name(void **state)
{
	static const struct {
		int value, ret;
	} orderings[] = { { 0, -EOPNOTSUPP }, { 99, -EOPNOTSUPP }, { 100, 0 }, { 200, 0 } };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(orderings); i++) {
		sim_cuda_attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
				   orderings[i].value);
		assert_int_equal(otte_gpudirect_admit(memory), orderings[i].ret);
		if (!orderings[i].ret)
			continue;
		says("GPU 0");
		says("GPU_DIRECT_RDMA_WRITES_ORDERING");
		assert_int_equal(sync_memops(), 0);
	}
}

static void each_call_of_an_admission_may_fail(void **state)
{
	static const char *const calls[] = { "cuDeviceGet", "cuDeviceGetAttribute",
					     "cuPointerSetAttribute" };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		sim_cuda_fail(calls[i], 1, CUDA_ERROR_NOT_PERMITTED, 1);
		assert_int_equal(otte_gpudirect_admit(memory), -EPERM);
		says(calls[i]);
		assert_int_equal(sync_memops(), 0);
	}
	MUST(otte_gpudirect_admit(memory));
	assert_int_equal(sync_memops(), 1);
}

/* ---- Export ---------------------------------------------------------------------------------- */

static void what_the_driver_says_decides_whether_memory_can_be_exported(void **state)
{
	struct otte_cuda older = *gpu;
	const char *missing = "";

	(void)state;
	MUST(otte_gpudirect_look_for_export(memory, &missing));
	assert_null(missing);
	sim_cuda_set("dma_buf", 0);
	MUST(otte_gpudirect_look_for_export(memory, &missing));
	assert_non_null(strstr(missing, "DMA_BUF_SUPPORTED"));
	sim_cuda_set("dma_buf", 1);
	older.mem_get_handle_for_address_range = NULL;
	memory->cuda = &older;
	MUST(otte_gpudirect_look_for_export(memory, &missing));
	memory->cuda = gpu;
	assert_non_null(strstr(missing, "cuMemGetHandleForAddressRange"));
	sim_cuda_fail("cuDeviceGetAttribute", 1, CUDA_ERROR_UNKNOWN, 1);
	assert_int_equal(otte_gpudirect_look_for_export(memory, &missing), -EIO);
}

/* The file is the allocation's: what is written to it is there. */
static void an_export_is_of_the_memory_and_its_own_to_close(void **state)
{
	struct otte_gpudirect_export exported = { .fd = -1 };
	const int files = open_files();
	uint8_t byte = 0xa5;
	CUcontext context;
	uint8_t *at;

	(void)state;
	MUST_CUDA(gpu->ctx_pop_current(&context));
	MUST(otte_gpudirect_export(memory, memory->address + 5000, 100, &exported));
	MUST_CUDA(gpu->ctx_get_current(&context));
	assert_null(context);
	MUST_CUDA(gpu->ctx_push_current(gpu_context));
	assert_int_equal(exported.offset, 5000);
	assert_int_equal(open_files(), files + 1);
	assert_int_equal(fcntl(exported.fd, F_GETFD), FD_CLOEXEC);
	at = mmap(NULL, SOME, PROT_READ | PROT_WRITE, MAP_SHARED, exported.fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	gpu_write(memory->address + 5000, &byte, 1);
	assert_int_equal(at[exported.offset], 0xa5);
	munmap(at, SOME);
	assert_int_equal(otte_gpudirect_close(&exported), 0);
	assert_int_equal(open_files(), files);
}

static void an_export_that_fails_leaves_no_file(void **state)
{
	struct otte_gpudirect_export exported = { .fd = -7 };
	const int files = open_files();
	struct otte_cuda older = *gpu;

	(void)state;
	assert_int_equal(otte_gpudirect_export(memory, memory->address, SOME + 1, &exported),
			 -ERANGE);
	sim_cuda_fail("cuMemGetHandleForAddressRange", 1, CUDA_ERROR_NOT_SUPPORTED, 1);
	assert_int_equal(otte_gpudirect_export(memory, memory->address, SOME, &exported),
			 -EOPNOTSUPP);
	says("cuMemGetHandleForAddressRange");
	older.mem_get_handle_for_address_range = NULL;
	memory->cuda = &older;
	assert_int_equal(otte_gpudirect_export(memory, memory->address, SOME, &exported),
			 -EOPNOTSUPP);
	says("cuMemGetHandleForAddressRange");
	memory->cuda = gpu;
	assert_int_equal(exported.fd, -7);
	assert_int_equal(open_files(), files);
}

/* The thread's context is another one than before: the caller hears so, and has no file. */
static void an_export_whose_way_back_fails_leaves_no_file(void **state)
{
	struct otte_gpudirect_export exported = { .fd = -7 };
	const int files = open_files();
	CUcontext popped;
	int ret;

	(void)state;
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	sim_cuda_fail("cuCtxPopCurrent_v2", 1, CUDA_ERROR_UNKNOWN, 1);
	ret = otte_gpudirect_export(memory, memory->address, SOME, &exported);
	assert_int_equal(ret, -EIO);
	assert_int_equal(exported.fd, -7);
	assert_int_equal(open_files(), files);
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	MUST_CUDA(gpu->ctx_push_current(gpu_context));
}

static void a_close_that_fails_is_told(void **state)
{
	struct otte_gpudirect_export exported = { .fd = -1 };

	(void)state;
	assert_int_equal(otte_gpudirect_close(&exported), 0);
	MUST(otte_gpudirect_export(memory, memory->address, SOME, &exported));
	close(exported.fd);
	assert_int_equal(otte_gpudirect_close(&exported), -EUCLEAN);
	says("dma-buf");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(an_export_is_the_allocation_in_whole_pages_of_the_host),
		TEST(memory_of_a_device_that_orders_writes_is_admitted_in_its_context),
		TEST(a_device_that_orders_no_writes_is_refused_by_name),
		TEST(each_call_of_an_admission_may_fail),
		TEST(what_the_driver_says_decides_whether_memory_can_be_exported),
		TEST(an_export_is_of_the_memory_and_its_own_to_close),
		TEST(an_export_that_fails_leaves_no_file),
		TEST(an_export_whose_way_back_fails_leaves_no_file),
		TEST(a_close_that_fails_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
