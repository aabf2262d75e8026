/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The driver's entry points that there are, with the driver's ABI. */
#ifndef OTTE_TESTS_SIM_CUDA_EXPORTS_H
#define OTTE_TESTS_SIM_CUDA_EXPORTS_H

#include "sim/cuda/private.h"

CUresult cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuCtxGetCurrent(CUcontext *handle);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuCtxPushCurrent_v2(CUcontext handle);
CUresult cuCtxPopCurrent_v2(CUcontext *handle);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size, CUstream handle);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
			    CUmemcpyAttributes *attributes, size_t *starts, size_t attribute_count,
			    size_t *failed_index, CUstream stream);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
			       CUmemcpyAttributes *attributes, size_t *starts,
			       size_t attribute_count, CUstream stream);
CUresult cuInit(unsigned int flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device);
CUresult cuDeviceGetName(char *text, int size, CUdevice device);
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
CUresult cuEventCreate(CUevent *handle, unsigned int flags);
CUresult cuEventDestroy_v2(CUevent handle);
CUresult cuEventRecord(CUevent handle, CUstream stream_handle);
CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags);
CUresult cuEventQuery(CUevent handle);
CUresult cuEventSynchronize(CUevent handle);
CUresult cuEventElapsedTime(float *milliseconds, CUevent first, CUevent last);
CUresult cuModuleLoadDataEx(CUmodule *handle, const void *image, unsigned int count,
			    CUjit_option *options, void **values);
CUresult cuModuleUnload(CUmodule handle);
CUresult cuModuleGetFunction(CUfunction *handle, CUmodule module_handle, const char *name);
CUresult cuLaunchKernel(CUfunction handle, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared_bytes, CUstream stream_handle,
			void **arguments, void **extra);
CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t size);
CUresult cuMemFree_v2(CUdeviceptr at);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr at);
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **values,
				CUdeviceptr at);
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr at);
CUresult cuMemHostAlloc(void **at, size_t size, unsigned int flags);
CUresult cuMemFreeHost(void *at);
CUresult cuMemHostRegister_v2(void *at, size_t size, unsigned int flags);
CUresult cuMemHostUnregister(void *at);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *alias, void *at, unsigned int flags);
CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr at);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, CUipcMemHandle handle, unsigned int flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr at);
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr at, size_t size,
				       CUmemRangeHandleType type, unsigned long long flags);
CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
				       CUmemAllocationGranularity_flags which);
CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
		     const CUmemAllocationProp *properties, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle number);
CUresult cuMemAddressReserve(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint,
			     unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr at, size_t size);
CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle number,
		  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr at, size_t size);
CUresult cuMemSetAccess(CUdeviceptr at, size_t size, const CUmemAccessDesc *access, size_t count);
CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle number,
				      CUmemAllocationHandleType type, unsigned long long flags);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *from,
					CUmemAllocationHandleType type);
CUresult cuStreamCreate(CUstream *handle, unsigned int flags);
CUresult cuStreamDestroy_v2(CUstream handle);
CUresult cuStreamQuery(CUstream handle);
CUresult cuStreamSynchronize(CUstream handle);
CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status);
CUresult cuStreamGetCtx(CUstream handle, CUcontext *context);
CUresult cuStreamBeginCapture_v2(CUstream handle, int mode);
CUresult cuStreamEndCapture(CUstream handle, void **graph);

#endif
