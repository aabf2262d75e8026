/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/devices.h"

static int read_one(const struct otte_cuda *cuda, int ordinal, char pci[OTTE_CUDA_PCI_BYTES])
{
	CUdevice device;
	int ret;

	ret = otte_cuda_error(cuda, cuda->device_get(&device, ordinal), ordinal, "cuDeviceGet");
	if (ret)
		return ret;
	return otte_cuda_error(cuda, cuda->device_get_pci_bus_id(pci, OTTE_CUDA_PCI_BYTES, device),
			       ordinal, "cuDeviceGetPCIBusId");
}

int otte_cuda_devices_read(const struct otte_cuda *cuda, struct otte_cuda_devices *devices)
{
	int count = 0, i, ret;

	devices->count = 0;
	ret = otte_cuda_error(cuda, cuda->device_get_count(&count), OTTE_CUDA_NO_DEVICE,
			      "cuDeviceGetCount");
	for (i = 0; !ret && i < count && i < OTTE_CUDA_DEVICES_MAX; i++) {
		ret = read_one(cuda, i, devices->pci[i]);
		if (!ret)
			devices->count++;
	}
	return ret;
}
