/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libcuda.so.1 as one table of functions, filled when it is first asked for: nothing of the library
 * links with libcuda or needs its headers (abi.h), and a machine without it runs everything but
 * memory of GPUs.
 *
 * Who uses CUDA is given a `const struct otte_cuda *` and calls through it alone; tests give a table
 * of their own. The table lives as long as the process, and so does libcuda, which keeps threads.
 * No lock beyond the once. The driver does not work in the child of a fork.
 */
#ifndef OTTE_CUDA_DRIVER_H
#define OTTE_CUDA_DRIVER_H

#include <stddef.h>

#include "cuda/abi.h"

/* No device's: for otte_cuda_error(). */
#define OTTE_CUDA_NO_DEVICE (-1)

/* Members are named like the exports, without version; the version that each is stands in driver.c. */
struct otte_cuda {
	int version; /* the driver's: 1000 * major + 10 * minor */

	/* The driver and its devices. */
	CUresult (*init)(unsigned int flags);
	CUresult (*driver_get_version)(int *version);
	CUresult (*get_error_name)(CUresult error, const char **name);
	CUresult (*device_get_count)(int *count);
	CUresult (*device_get)(CUdevice *device, int ordinal);
	CUresult (*device_get_attribute)(int *value, CUdevice_attribute attribute, CUdevice device);
	CUresult (*device_get_name)(char *text, int size, CUdevice device);
	CUresult (*device_get_pci_bus_id)(char *text, int size, CUdevice device);

	/* Contexts. */
	CUresult (*primary_ctx_retain)(CUcontext *context, CUdevice device);
	CUresult (*primary_ctx_release)(CUdevice device);
	CUresult (*ctx_get_current)(CUcontext *context);
	CUresult (*ctx_get_device)(CUdevice *device);
	CUresult (*ctx_push_current)(CUcontext context);
	CUresult (*ctx_pop_current)(CUcontext *context);

	/* Memory. */
	CUresult (*mem_alloc)(CUdeviceptr *at, size_t size);
	CUresult (*mem_free)(CUdeviceptr at);
	CUresult (*mem_get_address_range)(CUdeviceptr *base, size_t *size, CUdeviceptr at);
	CUresult (*pointer_get_attributes)(unsigned int count, CUpointer_attribute *attributes,
					   void **values, CUdeviceptr at);
	CUresult (*pointer_set_attribute)(const void *value, CUpointer_attribute attribute,
					  CUdeviceptr at);
	CUresult (*mem_host_alloc)(void **at, size_t size, unsigned int flags);
	CUresult (*mem_free_host)(void *at);
	CUresult (*mem_host_register)(void *at, size_t size, unsigned int flags);
	CUresult (*mem_host_unregister)(void *at);
	CUresult (*mem_host_get_device_pointer)(CUdeviceptr *alias, void *at, unsigned int flags);
	CUresult (*ipc_get_mem_handle)(CUipcMemHandle *handle, CUdeviceptr at);
	CUresult (*ipc_open_mem_handle)(CUdeviceptr *at, CUipcMemHandle handle, unsigned int flags);
	CUresult (*ipc_close_mem_handle)(CUdeviceptr at);

	/* Streams and events. */
	CUresult (*stream_create)(CUstream *stream, unsigned int flags);
	CUresult (*stream_destroy)(CUstream stream);
	CUresult (*stream_query)(CUstream stream);
	CUresult (*stream_synchronize)(CUstream stream);
	CUresult (*stream_wait_event)(CUstream stream, CUevent event, unsigned int flags);
	CUresult (*stream_is_capturing)(CUstream stream, CUstreamCaptureStatus *status);
	CUresult (*stream_get_ctx)(CUstream stream, CUcontext *context);
	CUresult (*event_create)(CUevent *event, unsigned int flags);
	CUresult (*event_destroy)(CUevent event);
	CUresult (*event_record)(CUevent event, CUstream stream);
	CUresult (*event_query)(CUevent event);
	CUresult (*event_synchronize)(CUevent event);

	/* Copies and the kernel. */
	CUresult (*memcpy_htod_async)(CUdeviceptr to, const void *from, size_t size,
				      CUstream stream);
	CUresult (*memcpy_dtoh_async)(void *to, CUdeviceptr from, size_t size, CUstream stream);
	CUresult (*memcpy_dtod_async)(CUdeviceptr to, CUdeviceptr from, size_t size,
				      CUstream stream);
	CUresult (*memcpy_2d_async)(const CUDA_MEMCPY2D *copy, CUstream stream);
	CUresult (*module_load_data_ex)(CUmodule *module, const void *image, unsigned int count,
					CUjit_option *options, void **values);
	CUresult (*module_unload)(CUmodule module);
	CUresult (*module_get_function)(CUfunction *function, CUmodule module, const char *name);
	CUresult (*launch_kernel)(CUfunction function, unsigned int grid_x, unsigned int grid_y,
				  unsigned int grid_z, unsigned int block_x, unsigned int block_y,
				  unsigned int block_z, unsigned int shared_bytes, CUstream stream,
				  void **arguments, void **extra);

	/*
	 * NULL where the driver lacks them. Of one call of many copies there are two: that of 12.8
	 * says which copy failed, and that of 13.0, which has a name of its own, takes no such
	 * argument. A driver of 13 has both.
	 */
	CUresult (*memcpy_batch_async_12)(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
					  size_t count, CUmemcpyAttributes *attributes,
					  size_t *starts, size_t attribute_count,
					  size_t *failed_index, CUstream stream);
	CUresult (*memcpy_batch_async_13)(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
					  size_t count, CUmemcpyAttributes *attributes,
					  size_t *starts, size_t attribute_count, CUstream stream);
	CUresult (*mem_get_handle_for_address_range)(void *handle, CUdeviceptr at, size_t size,
						     CUmemRangeHandleType type,
						     unsigned long long flags);

	/* Memory by handles: NULL all, or none. */
	CUresult (*mem_get_allocation_granularity)(size_t *granularity,
						   const CUmemAllocationProp *properties,
						   CUmemAllocationGranularity_flags which);
	CUresult (*mem_create)(CUmemGenericAllocationHandle *handle, size_t size,
			       const CUmemAllocationProp *properties, unsigned long long flags);
	CUresult (*mem_release)(CUmemGenericAllocationHandle handle);
	CUresult (*mem_address_reserve)(CUdeviceptr *at, size_t size, size_t alignment,
					CUdeviceptr hint, unsigned long long flags);
	CUresult (*mem_address_free)(CUdeviceptr at, size_t size);
	CUresult (*mem_map)(CUdeviceptr at, size_t size, size_t offset,
			    CUmemGenericAllocationHandle handle, unsigned long long flags);
	CUresult (*mem_unmap)(CUdeviceptr at, size_t size);
	CUresult (*mem_set_access)(CUdeviceptr at, size_t size, const CUmemAccessDesc *access,
				   size_t count);
	CUresult (*mem_export_to_shareable_handle)(void *out, CUmemGenericAllocationHandle handle,
						   CUmemAllocationHandleType type,
						   unsigned long long flags);
	CUresult (*mem_import_from_shareable_handle)(CUmemGenericAllocationHandle *handle,
						     void *from, CUmemAllocationHandleType type);
};

/*
 * The process's table: opens libcuda.so.1 and initialises the driver the first time, whichever
 * thread comes first. 0; or, for as long as the process lives and with a text that names what is at
 * fault: -ENOSYS for the library, an export that it lacks or a driver before CUDA 12.0, else what
 * the driver's initialisation came to, -ENODEV where it has no device.
 */
int otte_cuda_open(const struct otte_cuda **cuda);

/*
 * The code for what a call came to, of `call`, an export's name, on `device` or OTTE_CUDA_NO_DEVICE:
 * 0, or a negative errno with a text that names all three. docs/abi/cuda.md has the table.
 */
int otte_cuda_error(const struct otte_cuda *cuda, CUresult result, int device, const char *call);

/*
 * Fills `cuda` from a library by name or path, and leaves the driver uninitialised: what
 * otte_cuda_open() does once. Else for tests only.
 */
int otte_cuda_load(const char *library, struct otte_cuda *cuda);

#endif
