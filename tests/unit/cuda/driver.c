/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table over a library of the tests' own, library/libcuda.c. One that lacks an export is a copy
 * in which the name is spelled otherwise.
 */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "otte/otte.h"

#define THREADS 16

struct name {
	const char *name;
	size_t offset;
};

#define NAME(name, member)                               \
	{                                                \
		name, offsetof(struct otte_cuda, member) \
	}

static const struct name required[] = {
	NAME("cuInit", init),
	NAME("cuDriverGetVersion", driver_get_version),
	NAME("cuGetErrorName", get_error_name),
	NAME("cuDeviceGetCount", device_get_count),
	NAME("cuDeviceGet", device_get),
	NAME("cuDeviceGetAttribute", device_get_attribute),
	NAME("cuDeviceGetName", device_get_name),
	NAME("cuDeviceGetPCIBusId", device_get_pci_bus_id),
	NAME("cuDevicePrimaryCtxRetain", primary_ctx_retain),
	NAME("cuDevicePrimaryCtxRelease_v2", primary_ctx_release),
	NAME("cuCtxGetCurrent", ctx_get_current),
	NAME("cuCtxGetDevice", ctx_get_device),
	NAME("cuCtxPushCurrent_v2", ctx_push_current),
	NAME("cuCtxPopCurrent_v2", ctx_pop_current),
	NAME("cuMemAlloc_v2", mem_alloc),
	NAME("cuMemFree_v2", mem_free),
	NAME("cuMemGetAddressRange_v2", mem_get_address_range),
	NAME("cuPointerGetAttributes", pointer_get_attributes),
	NAME("cuPointerSetAttribute", pointer_set_attribute),
	NAME("cuMemHostAlloc", mem_host_alloc),
	NAME("cuMemFreeHost", mem_free_host),
	NAME("cuMemHostRegister_v2", mem_host_register),
	NAME("cuMemHostUnregister", mem_host_unregister),
	NAME("cuMemHostGetDevicePointer_v2", mem_host_get_device_pointer),
	NAME("cuIpcGetMemHandle", ipc_get_mem_handle),
	NAME("cuIpcOpenMemHandle_v2", ipc_open_mem_handle),
	NAME("cuIpcCloseMemHandle", ipc_close_mem_handle),
	NAME("cuStreamCreate", stream_create),
	NAME("cuStreamDestroy_v2", stream_destroy),
	NAME("cuStreamQuery", stream_query),
	NAME("cuStreamSynchronize", stream_synchronize),
	NAME("cuStreamWaitEvent", stream_wait_event),
	NAME("cuStreamIsCapturing", stream_is_capturing),
	NAME("cuStreamGetCtx", stream_get_ctx),
	NAME("cuEventCreate", event_create),
	NAME("cuEventDestroy_v2", event_destroy),
	NAME("cuEventRecord", event_record),
	NAME("cuEventQuery", event_query),
	NAME("cuEventSynchronize", event_synchronize),
	NAME("cuMemcpyHtoDAsync_v2", memcpy_htod_async),
	NAME("cuMemcpyDtoHAsync_v2", memcpy_dtoh_async),
	NAME("cuMemcpyDtoDAsync_v2", memcpy_dtod_async),
	NAME("cuMemcpy2DAsync_v2", memcpy_2d_async),
	NAME("cuModuleLoadDataEx", module_load_data_ex),
	NAME("cuModuleUnload", module_unload),
	NAME("cuModuleGetFunction", module_get_function),
	NAME("cuLaunchKernel", launch_kernel),
};

static const struct name optional[] = {
	NAME("cuMemcpyBatchAsync", memcpy_batch_async_12),
	NAME("cuMemcpyBatchAsync_v2", memcpy_batch_async_13),
	NAME("cuMemGetHandleForAddressRange", mem_get_handle_for_address_range),
};

/* All or none. */
static const struct name handles[] = {
	NAME("cuMemGetAllocationGranularity", mem_get_allocation_granularity),
	NAME("cuMemCreate", mem_create),
	NAME("cuMemRelease", mem_release),
	NAME("cuMemAddressReserve", mem_address_reserve),
	NAME("cuMemAddressFree", mem_address_free),
	NAME("cuMemMap", mem_map),
	NAME("cuMemUnmap", mem_unmap),
	NAME("cuMemSetAccess", mem_set_access),
	NAME("cuMemExportToShareableHandle", mem_export_to_shareable_handle),
	NAME("cuMemImportFromShareableHandle", mem_import_from_shareable_handle),
};

/* build/gcc/fake/libcuda.so.1, beside build/gcc/unit/cuda. */
static void library_path(char path[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
	int i;

	assert_true(length > 0);
	path[length] = '\0';
	for (i = 0; i < 2; i++)
		*strrchr(path, '/') = '\0';
	assert_true(strlen(path) + 32 < PATH_MAX);
	strcat(path, "/fake/libcuda.so.1");
}

static char *read_library(size_t *size)
{
	char path[PATH_MAX], *bytes;
	FILE *file;
	long end;

	library_path(path);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	end = ftell(file);
	assert_true(end > 0);
	rewind(file);
	bytes = malloc((size_t)end);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, (size_t)end, file), end);
	fclose(file);
	*size = (size_t)end;
	return bytes;
}

/* A whole string of the dynamic symbols, which stand before the text of the functions. */
static void misspell(char *bytes, size_t size, const char *name)
{
	size_t length = strlen(name) + 1, i;

	for (i = 1; i + length <= size; i++) {
		if (bytes[i - 1] || memcmp(bytes + i, name, length))
			continue;
		bytes[i] = 'X';
		return;
	}
	fail_msg("the library has no %s", name);
}

/* Loads a copy without these exports; the code of otte_cuda_load(). */
static int load_without(const char *const *names, size_t count, struct otte_cuda *cuda,
			char path[64])
{
	size_t size, i;
	char *bytes = read_library(&size);
	int fd, rc;

	strcpy(path, "/tmp/otte-cuda.XXXXXX");
	fd = mkostemp(path, O_CLOEXEC);
	assert_true(fd >= 0);
	for (i = 0; i < count; i++)
		misspell(bytes, size, names[i]);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
	free(bytes);
	rc = otte_cuda_load(path, cuda);
	unlink(path);
	return rc;
}

static void *entry(const struct otte_cuda *cuda, const struct name *name)
{
	void *function;

	memcpy(&function, (const char *)cuda + name->offset, sizeof(function));
	return function;
}

/* The library as a driver of this version. */
static int load_version(const char *version, struct otte_cuda *cuda)
{
	char path[PATH_MAX];
	int rc;

	library_path(path);
	assert_int_equal(setenv("OTTE_FAKE_CUDA_VERSION", version, 1), 0);
	rc = otte_cuda_load(path, cuda);
	unsetenv("OTTE_FAKE_CUDA_VERSION");
	return rc;
}

static void check_exports(const struct otte_cuda *cuda, void *library, const struct name *names,
			  size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		assert_non_null(entry(cuda, &names[i]));
		assert_ptr_equal(entry(cuda, &names[i]), dlsym(library, names[i].name));
	}
}

static void every_entry_is_the_export_of_its_name_and_version(void **state)
{
	struct otte_cuda cuda;
	char path[PATH_MAX];
	void *library;

	(void)state;
	assert_int_equal(load_version("13000", &cuda), 0);
	assert_int_equal(cuda.version, 13000);
	library_path(path);
	library = dlopen(path, RTLD_NOW);
	assert_non_null(library);
	check_exports(&cuda, library, required, ARRAY_SIZE(required));
	check_exports(&cuda, library, optional, ARRAY_SIZE(optional));
	check_exports(&cuda, library, handles, ARRAY_SIZE(handles));
	assert_int_equal(offsetof(struct otte_cuda, init) +
				 sizeof(void *) * (ARRAY_SIZE(required) + ARRAY_SIZE(optional) +
						   ARRAY_SIZE(handles)),
			 sizeof(cuda));
	dlclose(library);
}

static void a_missing_library_is_named(void **state)
{
	struct otte_cuda cuda;

	(void)state;
	assert_int_equal(otte_cuda_load("libotte-none.so.9", &cuda), -ENOSYS);
	assert_int_equal(strncmp(otte_error_text(), "libotte-none.so.9: ", 19), 0);
	assert_non_null(strstr(otte_error_text(), "No such file"));
}

static void a_missing_export_is_named_whichever_it_is(void **state)
{
	char path[64], want[128];
	struct otte_cuda cuda;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(required); i++) {
		assert_int_equal(load_without(&required[i].name, 1, &cuda, path), -ENOSYS);
		snprintf(want, sizeof(want), "%s: has no %s", path, required[i].name);
		assert_string_equal(otte_error_text(), want);
	}
}

static void what_a_driver_lacks_is_null_and_nothing_else(void **state)
{
	struct otte_cuda cuda;
	char path[64];
	size_t i, j;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(optional); i++) {
		assert_int_equal(load_without(&optional[i].name, 1, &cuda, path), 0);
		for (j = 0; j < ARRAY_SIZE(optional); j++)
			assert_true(!entry(&cuda, &optional[j]) == (i == j));
		assert_non_null(cuda.mem_create);
	}
}

static void memory_by_handles_is_there_whole_or_not_at_all(void **state)
{
	struct otte_cuda cuda;
	char path[64];
	size_t i, j;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(handles); i++) {
		assert_int_equal(load_without(&handles[i].name, 1, &cuda, path), 0);
		for (j = 0; j < ARRAY_SIZE(handles); j++)
			assert_null(entry(&cuda, &handles[j]));
		assert_non_null(cuda.memcpy_batch_async_12);
	}
}

/* ---- Versions -------------------------------------------------------------------------------- */

static void a_driver_before_12_is_refused_by_its_version(void **state)
{
	struct otte_cuda cuda;

	(void)state;
	assert_int_equal(load_version("11080", &cuda), -ENOSYS);
	assert_non_null(strstr(otte_error_text(), "is of CUDA 11.8; 12.0 is the oldest of use"));
	assert_int_equal(load_version("-1", &cuda), -EIO);
	assert_string_equal(otte_error_text(), "cuDriverGetVersion: CUDA error 999");
}

/* The library has both names all the time. */
static void the_batch_call_is_taken_from_the_version_that_has_its_signature(void **state)
{
	struct otte_cuda cuda;

	(void)state;
	assert_int_equal(load_version("12000", &cuda), 0);
	assert_null(cuda.memcpy_batch_async_12);
	assert_null(cuda.memcpy_batch_async_13);
	assert_non_null(cuda.mem_get_handle_for_address_range);
	assert_int_equal(load_version("12070", &cuda), 0);
	assert_null(cuda.memcpy_batch_async_12);
	assert_int_equal(load_version("12080", &cuda), 0);
	assert_non_null(cuda.memcpy_batch_async_12);
	assert_null(cuda.memcpy_batch_async_13);
	assert_int_equal(load_version("12090", &cuda), 0);
	assert_null(cuda.memcpy_batch_async_13);
	assert_int_equal(load_version("13000", &cuda), 0);
	assert_non_null(cuda.memcpy_batch_async_12);
	assert_non_null(cuda.memcpy_batch_async_13);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void an_error_names_the_call_the_result_and_the_device(void **state)
{
	struct otte_cuda cuda;

	(void)state;
	assert_int_equal(load_version("13000", &cuda), 0);
	assert_int_equal(otte_cuda_error(&cuda, CUDA_SUCCESS, 0, "cuInit"), 0);
	assert_int_equal(otte_cuda_error(&cuda, CUDA_ERROR_OUT_OF_MEMORY, 3, "cuMemAlloc_v2"),
			 -ENOMEM);
	assert_string_equal(otte_error_text(), "GPU 3: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY");
	assert_int_equal(otte_cuda_error(&cuda, CUDA_ERROR_NO_DEVICE, OTTE_CUDA_NO_DEVICE,
					 "cuInit"),
			 -ENODEV);
	assert_string_equal(otte_error_text(), "cuInit: CUDA_ERROR_NO_DEVICE");
}

static void a_result_without_a_name_is_told_by_its_number(void **state)
{
	struct otte_cuda cuda;

	(void)state;
	assert_int_equal(load_version("13000", &cuda), 0);
	assert_int_equal(otte_cuda_error(&cuda, (CUresult)950, 0, "cuEventQuery"), -EIO);
	assert_string_equal(otte_error_text(), "GPU 0: cuEventQuery: CUDA error 950");
	assert_int_equal(otte_cuda_error(&cuda, CUDA_ERROR_ILLEGAL_STATE, 0, "cuEventQuery"), -EIO);
	assert_string_equal(otte_error_text(), "GPU 0: cuEventQuery: CUDA error 401");
}

/* ---- The process's table --------------------------------------------------------------------- */

/* Of the library by its real name. */
static struct {
	unsigned int opened;
	bool missing;
} real;

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);

void *__wrap_dlopen(const char *name, int flags)
{
	char path[PATH_MAX];

	if (!name || strcmp(name, "libcuda.so.1") != 0)
		return __real_dlopen(name, flags);
	__atomic_add_fetch(&real.opened, 1, __ATOMIC_RELAXED);
	if (real.missing)
		return __real_dlopen("libotte-none.so.9", flags);
	library_path(path);
	return __real_dlopen(path, flags);
}

/* In a process of its own, which stays without. */
static int fail_to_open_twice(void)
{
	const struct otte_cuda *cuda = NULL;
	char first[256];
	int rc;

	real.missing = true;
	rc = otte_cuda_open(&cuda);
	snprintf(first, sizeof(first), "%s", otte_error_text());
	if (rc != -ENOSYS || strncmp(first, "libcuda.so.1: ", 14) != 0)
		return 1;
	real.missing = false;
	rc = otte_cuda_open(&cuda);
	return rc != -ENOSYS || cuda || real.opened != 1 || strcmp(first, otte_error_text()) != 0;
}

static void a_process_without_the_library_asks_once(void **state)
{
	int status = 0;
	pid_t child;

	(void)state;
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(fail_to_open_twice());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

struct opener {
	pthread_t thread;
	pthread_barrier_t *start;
	const struct otte_cuda *cuda;
	int rc;
};

static void *run_opener(void *arg)
{
	struct opener *opener = arg;

	pthread_barrier_wait(opener->start);
	opener->rc = otte_cuda_open(&opener->cuda);
	return NULL;
}

static void many_threads_open_the_library_once(void **state)
{
	struct opener openers[THREADS] = {};
	pthread_barrier_t start;
	size_t i;

	(void)state;
	pthread_barrier_init(&start, NULL, THREADS);
	for (i = 0; i < THREADS; i++) {
		openers[i].start = &start;
		assert_int_equal(pthread_create(&openers[i].thread, NULL, run_opener, &openers[i]),
				 0);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(openers[i].thread, NULL);
	pthread_barrier_destroy(&start);
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(openers[i].rc, 0);
		assert_non_null(openers[i].cuda);
		assert_ptr_equal(openers[i].cuda, openers[0].cuda);
	}
	assert_int_equal(real.opened, 1);
	assert_int_equal(openers[0].cuda->version, 13000);
}

/* In a process of its own, which stays without. */
static int fail_to_initialise_twice(void)
{
	const struct otte_cuda *cuda = NULL;
	int rc;

	setenv("OTTE_FAKE_CUDA_INIT", "100", 1);
	rc = otte_cuda_open(&cuda);
	if (rc != -ENODEV || cuda)
		return 1;
	unsetenv("OTTE_FAKE_CUDA_INIT");
	rc = otte_cuda_open(&cuda);
	return rc != -ENODEV || cuda ||
	       strcmp(otte_error_text(), "cuInit: CUDA_ERROR_NO_DEVICE") != 0;
}

static void a_process_without_a_device_asks_once(void **state)
{
	int status = 0;
	pid_t child;

	(void)state;
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(fail_to_initialise_twice());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_entry_is_the_export_of_its_name_and_version),
		cmocka_unit_test(a_missing_library_is_named),
		cmocka_unit_test(a_missing_export_is_named_whichever_it_is),
		cmocka_unit_test(what_a_driver_lacks_is_null_and_nothing_else),
		cmocka_unit_test(memory_by_handles_is_there_whole_or_not_at_all),
		cmocka_unit_test(a_driver_before_12_is_refused_by_its_version),
		cmocka_unit_test(the_batch_call_is_taken_from_the_version_that_has_its_signature),
		cmocka_unit_test(an_error_names_the_call_the_result_and_the_device),
		cmocka_unit_test(a_result_without_a_name_is_told_by_its_number),
		/* Those that stay without are children, and come before the process's own. */
		cmocka_unit_test(a_process_without_the_library_asks_once),
		cmocka_unit_test(a_process_without_a_device_asks_once),
		cmocka_unit_test(many_threads_open_the_library_once),
	};

	return cmocka_run_group_tests_name("cuda driver", tests, NULL, NULL);
}
