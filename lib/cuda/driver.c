/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "otte/otte.h"

#define LIBRARY "libcuda.so.1"
#define OLDEST 12000

/*
 * An export's name stands for its signature: where a later CUDA changed the arguments, it gave the
 * new function a new name and kept the old one as it was. So the names are asked for as they are,
 * with their version. `since`: the driver's version from which on the function is taken; before it,
 * who has that name has something else. 0: required.
 */
struct entry {
	const char *name;
	size_t offset;
	int since;
};

#define REQUIRED(name, member)                              \
	{                                                   \
		name, offsetof(struct otte_cuda, member), 0 \
	}
#define OPTIONAL(name, member, since)                           \
	{                                                       \
		name, offsetof(struct otte_cuda, member), since \
	}

static const struct entry entries[] = {
	REQUIRED("cuInit", init),
	REQUIRED("cuDriverGetVersion", driver_get_version),
	REQUIRED("cuGetErrorName", get_error_name),
	REQUIRED("cuDeviceGetCount", device_get_count),
	REQUIRED("cuDeviceGet", device_get),
	REQUIRED("cuDeviceGetAttribute", device_get_attribute),
	REQUIRED("cuDeviceGetName", device_get_name),
	REQUIRED("cuDeviceGetPCIBusId", device_get_pci_bus_id),
	REQUIRED("cuDevicePrimaryCtxRetain", primary_ctx_retain),
	REQUIRED("cuDevicePrimaryCtxRelease_v2", primary_ctx_release),
	REQUIRED("cuCtxGetCurrent", ctx_get_current),
	REQUIRED("cuCtxGetDevice", ctx_get_device),
	REQUIRED("cuCtxPushCurrent_v2", ctx_push_current),
	REQUIRED("cuCtxPopCurrent_v2", ctx_pop_current),
	REQUIRED("cuMemAlloc_v2", mem_alloc),
	REQUIRED("cuMemFree_v2", mem_free),
	REQUIRED("cuMemGetAddressRange_v2", mem_get_address_range),
	REQUIRED("cuPointerGetAttributes", pointer_get_attributes),
	REQUIRED("cuPointerSetAttribute", pointer_set_attribute),
	REQUIRED("cuMemHostAlloc", mem_host_alloc),
	REQUIRED("cuMemFreeHost", mem_free_host),
	REQUIRED("cuMemHostRegister_v2", mem_host_register),
	REQUIRED("cuMemHostUnregister", mem_host_unregister),
	REQUIRED("cuMemHostGetDevicePointer_v2", mem_host_get_device_pointer),
	REQUIRED("cuIpcGetMemHandle", ipc_get_mem_handle),
	REQUIRED("cuIpcOpenMemHandle_v2", ipc_open_mem_handle),
	REQUIRED("cuIpcCloseMemHandle", ipc_close_mem_handle),
	REQUIRED("cuStreamCreate", stream_create),
	REQUIRED("cuStreamDestroy_v2", stream_destroy),
	REQUIRED("cuStreamQuery", stream_query),
	REQUIRED("cuStreamSynchronize", stream_synchronize),
	REQUIRED("cuStreamWaitEvent", stream_wait_event),
	REQUIRED("cuStreamIsCapturing", stream_is_capturing),
	REQUIRED("cuStreamGetCtx", stream_get_ctx),
	REQUIRED("cuEventCreate", event_create),
	REQUIRED("cuEventDestroy_v2", event_destroy),
	REQUIRED("cuEventRecord", event_record),
	REQUIRED("cuEventQuery", event_query),
	REQUIRED("cuEventSynchronize", event_synchronize),
	REQUIRED("cuMemcpyHtoDAsync_v2", memcpy_htod_async),
	REQUIRED("cuMemcpyDtoHAsync_v2", memcpy_dtoh_async),
	REQUIRED("cuMemcpyDtoDAsync_v2", memcpy_dtod_async),
	REQUIRED("cuMemcpy2DAsync_v2", memcpy_2d_async),
	REQUIRED("cuModuleLoadDataEx", module_load_data_ex),
	REQUIRED("cuModuleUnload", module_unload),
	REQUIRED("cuModuleGetFunction", module_get_function),
	REQUIRED("cuLaunchKernel", launch_kernel),
	OPTIONAL("cuMemcpyBatchAsync", memcpy_batch_async_12, 12080),
	OPTIONAL("cuMemcpyBatchAsync_v2", memcpy_batch_async_13, 13000),
	OPTIONAL("cuMemGetHandleForAddressRange", mem_get_handle_for_address_range, OLDEST),
};

/* Of use only together. */
static const struct entry handles[] = {
	OPTIONAL("cuMemGetAllocationGranularity", mem_get_allocation_granularity, OLDEST),
	OPTIONAL("cuMemCreate", mem_create, OLDEST),
	OPTIONAL("cuMemRelease", mem_release, OLDEST),
	OPTIONAL("cuMemAddressReserve", mem_address_reserve, OLDEST),
	OPTIONAL("cuMemAddressFree", mem_address_free, OLDEST),
	OPTIONAL("cuMemMap", mem_map, OLDEST),
	OPTIONAL("cuMemUnmap", mem_unmap, OLDEST),
	OPTIONAL("cuMemSetAccess", mem_set_access, OLDEST),
	OPTIONAL("cuMemExportToShareableHandle", mem_export_to_shareable_handle, OLDEST),
	OPTIONAL("cuMemImportFromShareableHandle", mem_import_from_shareable_handle, OLDEST),
};

static void set(struct otte_cuda *cuda, const struct entry *entry, void *symbol)
{
	memcpy((char *)cuda + entry->offset, &symbol, sizeof(symbol));
}

static int resolve_required(const char *library, void *handle, struct otte_cuda *cuda)
{
	void *symbol;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		if (entries[i].since)
			continue;
		symbol = dlsym(handle, entries[i].name);
		if (!symbol)
			return otte_fail(-ENOSYS, "%s: has no %s", library, entries[i].name);
		set(cuda, &entries[i], symbol);
	}
	return 0;
}

/* The driver says it uninitialised, too. */
static int check_version(const char *library, struct otte_cuda *cuda)
{
	CUresult result = cuda->driver_get_version(&cuda->version);

	if (result)
		return otte_cuda_error(cuda, result, OTTE_CUDA_NO_DEVICE, "cuDriverGetVersion");
	if (cuda->version >= OLDEST)
		return 0;
	return otte_fail(-ENOSYS, "%s: is of CUDA %d.%d; 12.0 is the oldest of use", library,
			 cuda->version / 1000, cuda->version % 1000 / 10);
}

static void resolve_optional(void *handle, struct otte_cuda *cuda)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		if (entries[i].since && cuda->version >= entries[i].since)
			set(cuda, &entries[i], dlsym(handle, entries[i].name));
	}
}

static void resolve_handles(void *handle, struct otte_cuda *cuda)
{
	void *symbols[ARRAY_SIZE(handles)];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(handles); i++) {
		symbols[i] = dlsym(handle, handles[i].name);
		if (!symbols[i])
			return;
	}
	for (i = 0; i < ARRAY_SIZE(handles); i++)
		set(cuda, &handles[i], symbols[i]);
}

int otte_cuda_load(const char *library, struct otte_cuda *cuda)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	int rc;

	if (!handle)
		return otte_fail(-ENOSYS, "%s: cannot be loaded: %s", library, dlerror());
	memset(cuda, 0, sizeof(*cuda));
	rc = resolve_required(library, handle, cuda);
	if (!rc)
		rc = check_version(library, cuda);
	if (rc) {
		dlclose(handle);
		return rc;
	}
	resolve_optional(handle, cuda);
	resolve_handles(handle, cuda);
	return 0;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* docs/abi/cuda.md says why. What is not here is -EIO, which asks a caller to trust nothing. */
static int code_of(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_INVALID_HANDLE:
	case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
		return -EINVAL;
	case CUDA_ERROR_OUT_OF_MEMORY:
	case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
		return -ENOMEM;
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_DEVICE:
	case CUDA_ERROR_DEVICE_UNAVAILABLE:
	case CUDA_ERROR_DEVICE_NOT_LICENSED:
	case CUDA_ERROR_SYSTEM_NOT_READY:
		return -ENODEV;
	case CUDA_ERROR_STUB_LIBRARY:
	case CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER:
	case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
	case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
		return -ENOSYS;
	case CUDA_ERROR_NOT_SUPPORTED:
	case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
	case CUDA_ERROR_NO_BINARY_FOR_GPU:
	case CUDA_ERROR_INVALID_IMAGE:
	case CUDA_ERROR_INVALID_PTX:
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
	case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
	case CUDA_ERROR_JIT_COMPILATION_DISABLED:
		return -EOPNOTSUPP;
	case CUDA_ERROR_NOT_PERMITTED:
		return -EPERM;
	case CUDA_ERROR_NOT_READY:
		return -EAGAIN;
	case CUDA_ERROR_TIMEOUT:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
		return -ETIMEDOUT;
	case CUDA_ERROR_NOT_FOUND:
		return -ENOENT;
	case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
	case CUDA_ERROR_ALREADY_MAPPED:
		return -EEXIST;
	case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
	case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
	case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
	case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
	case CUDA_ERROR_CAPTURED_EVENT:
		return -EBUSY;
	default:
		return -EIO;
	}
}

int otte_cuda_error(const struct otte_cuda *cuda, CUresult result, int device, const char *call)
{
	const char *name = NULL;
	char number[24];

	if (result == CUDA_SUCCESS)
		return 0;
	/* A newer driver's name for a value that this one does not know is none. */
	if (cuda->get_error_name(result, &name) || !name) {
		snprintf(number, sizeof(number), "CUDA error %d", (int)result);
		name = number;
	}
	if (device == OTTE_CUDA_NO_DEVICE)
		return otte_fail(code_of(result), "%s: %s", call, name);
	return otte_fail(code_of(result), "GPU %d: %s: %s", device, call, name);
}

/* ---- The process's --------------------------------------------------------------------------- */

/* Written once; each caller reads it behind pthread_once(). */
static struct {
	pthread_once_t once;
	struct otte_cuda cuda;
	int code;
	char text[OTTE_ERROR_BYTES];
} process = { .once = PTHREAD_ONCE_INIT };

static void load_process(void)
{
	process.code = otte_cuda_load(LIBRARY, &process.cuda);
	if (!process.code)
		process.code = otte_cuda_error(&process.cuda, process.cuda.init(0),
					       OTTE_CUDA_NO_DEVICE, "cuInit");
	if (process.code)
		snprintf(process.text, sizeof(process.text), "%s", otte_error_text());
}

int otte_cuda_open(const struct otte_cuda **cuda)
{
	pthread_once(&process.once, load_process);
	if (process.code)
		return otte_fail(process.code, "%s", process.text);
	*cuda = &process.cuda;
	return 0;
}
