/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A library with the exports of libcuda. The driver's version and what its initialisation comes to
 * are the environment's; the others do nothing.
 */
#include <stdlib.h>
#include <string.h>

#define EXPORT(name)      \
	int name(void);   \
	int name(void)    \
	{                 \
		return 0; \
	}

int cuDriverGetVersion(int *version);
int cuInit(unsigned int flags);
int cuGetErrorName(int error, const char **name);

int cuDriverGetVersion(int *version)
{
	const char *text = getenv("OTTE_FAKE_CUDA_VERSION");

	*version = text ? atoi(text) : 13000;
	return *version < 0 ? 999 : 0;
}

int cuInit(unsigned int flags)
{
	const char *text = getenv("OTTE_FAKE_CUDA_INIT");

	(void)flags;
	return text ? atoi(text) : 0;
}

/* Two that it knows; the third is said to be known, and has no name. */
int cuGetErrorName(int error, const char **name)
{
	*name = NULL;
	if (error == 2)
		*name = "CUDA_ERROR_OUT_OF_MEMORY";
	if (error == 100)
		*name = "CUDA_ERROR_NO_DEVICE";
	return *name || error == 401 ? 0 : 1;
}

EXPORT(cuDeviceGetCount)
EXPORT(cuDeviceGet)
EXPORT(cuDeviceGetAttribute)
EXPORT(cuDeviceGetName)
EXPORT(cuDeviceGetPCIBusId)
EXPORT(cuDevicePrimaryCtxRetain)
EXPORT(cuDevicePrimaryCtxRelease_v2)
EXPORT(cuCtxGetCurrent)
EXPORT(cuCtxGetDevice)
EXPORT(cuCtxPushCurrent_v2)
EXPORT(cuCtxPopCurrent_v2)
EXPORT(cuMemAlloc_v2)
EXPORT(cuMemFree_v2)
EXPORT(cuMemGetAddressRange_v2)
EXPORT(cuPointerGetAttributes)
EXPORT(cuPointerSetAttribute)
EXPORT(cuMemHostAlloc)
EXPORT(cuMemFreeHost)
EXPORT(cuMemHostRegister_v2)
EXPORT(cuMemHostUnregister)
EXPORT(cuMemHostGetDevicePointer_v2)
EXPORT(cuIpcGetMemHandle)
EXPORT(cuIpcOpenMemHandle_v2)
EXPORT(cuIpcCloseMemHandle)
EXPORT(cuStreamCreate)
EXPORT(cuStreamDestroy_v2)
EXPORT(cuStreamQuery)
EXPORT(cuStreamSynchronize)
EXPORT(cuStreamWaitEvent)
EXPORT(cuStreamIsCapturing)
EXPORT(cuStreamGetCtx)
EXPORT(cuEventCreate)
EXPORT(cuEventDestroy_v2)
EXPORT(cuEventRecord)
EXPORT(cuEventQuery)
EXPORT(cuEventSynchronize)
EXPORT(cuMemcpyHtoDAsync_v2)
EXPORT(cuMemcpyDtoHAsync_v2)
EXPORT(cuMemcpyDtoDAsync_v2)
EXPORT(cuMemcpy2DAsync_v2)
EXPORT(cuModuleLoadDataEx)
EXPORT(cuModuleUnload)
EXPORT(cuModuleGetFunction)
EXPORT(cuLaunchKernel)
EXPORT(cuMemcpyBatchAsync)
EXPORT(cuMemcpyBatchAsync_v2)
EXPORT(cuMemGetHandleForAddressRange)
EXPORT(cuMemGetAllocationGranularity)
EXPORT(cuMemCreate)
EXPORT(cuMemRelease)
EXPORT(cuMemAddressReserve)
EXPORT(cuMemAddressFree)
EXPORT(cuMemMap)
EXPORT(cuMemUnmap)
EXPORT(cuMemSetAccess)
EXPORT(cuMemExportToShareableHandle)
EXPORT(cuMemImportFromShareableHandle)
