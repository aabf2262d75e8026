/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The driver and its devices. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "sim/cuda/exports.h"

static const struct {
	CUresult result;
	const char *name;
} names[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY" },
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED" },
	{ CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE" },
	{ CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT" },
	{ CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX" },
	{ CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" },
	{ CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE" },
	{ CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND" },
	{ CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY" },
	{ CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS" },
	{ CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" },
	{ CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" },
	{ CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED" },
	{ CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" },
	{ CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE" },
	{ CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN" },
};

/* As of an H200. */
static const struct {
	CUdevice_attribute attribute;
	int value;
} attributes[] = {
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT32_MAX },
	{ CU_DEVICE_ATTRIBUTE_MAX_PITCH, INT32_MAX },
	{ CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0 },
	{ CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0 },
	{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0 },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 1 },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 100 },
};

static CUresult attribute_of(int *value, CUdevice_attribute attribute, CUdevice device)
{
	size_t i;

	*value = 0;
	if (sim_attribute_given(attribute, value))
		return CUDA_SUCCESS;
	switch ((int)attribute) {
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = (int)sim.settings.multiprocessors;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
		*value = !sim.settings.alias;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
		*value = (int)sim.settings.dma_buf;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		*value = 0x10 + device;
		return CUDA_SUCCESS;
	}
	for (i = 0; i < ARRAY_SIZE(attributes); i++)
		if (attributes[i].attribute == attribute) {
			*value = attributes[i].value;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

static bool is_device(CUdevice device)
{
	return device >= 0 && (uint64_t)device < sim.settings.devices;
}

EXPORT CUresult cuInit(unsigned int flags)
{
	CUresult result = sim_begin(__func__, SIM_NOTHING);

	if (result)
		return result;
	if (flags)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (!sim.settings.devices)
		result = CUDA_ERROR_NO_DEVICE;
	else
		sim.pid = getpid();
	return sim_end(result);
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	CUresult result = sim_begin(__func__, SIM_NOTHING);

	if (result)
		return result;
	*version = (int)sim.settings.version;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
	size_t i;

	*name = NULL;
	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].result == error)
			*name = names[i].name;
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	CUresult result = sim_begin(__func__, SIM_INIT);

	if (result)
		return result;
	*count = (int)sim.settings.devices;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult result = sim_begin(__func__, SIM_INIT);

	if (result)
		return result;
	if (!is_device(ordinal))
		return sim_end(CUDA_ERROR_INVALID_DEVICE);
	*device = ordinal;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CUresult result = sim_begin(__func__, SIM_INIT);

	if (result)
		return result;
	if (!is_device(device))
		return sim_end(CUDA_ERROR_INVALID_DEVICE);
	return sim_end(attribute_of(value, attribute, device));
}

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device)
{
	CUresult result = sim_begin(__func__, SIM_INIT);

	if (result)
		return result;
	if (!is_device(device))
		return sim_end(CUDA_ERROR_INVALID_DEVICE);
	if (size < 13)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	snprintf(text, (size_t)size, "0000:%02X:00.0", 0x10 + device);
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetName(char *text, int size, CUdevice device)
{
	CUresult result = sim_begin(__func__, SIM_INIT);

	if (result)
		return result;
	if (!is_device(device))
		return sim_end(CUDA_ERROR_INVALID_DEVICE);
	snprintf(text, (size_t)size, "simulated GPU");
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);

	if (result)
		return result;
	*total = (size_t)sim.settings.memory_mib * MIB;
	*free_bytes = *total - sim_device_bytes(sim_context_current()->device);
	return sim_end(CUDA_SUCCESS);
}
