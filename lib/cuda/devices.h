/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the devices are that CUDA shows this process, by its ordinals. No context is made for it.
 * A copy of what the driver says; it needs no lock.
 */
#ifndef OTTE_CUDA_DEVICES_H
#define OTTE_CUDA_DEVICES_H

#include <stddef.h>

#include "cuda/driver.h"

#define OTTE_CUDA_DEVICES_MAX 64
#define OTTE_CUDA_PCI_BYTES 16 /* 0000:00:00.0 */

struct otte_cuda_devices {
	size_t count; /* what is beyond OTTE_CUDA_DEVICES_MAX is left out */
	char pci[OTTE_CUDA_DEVICES_MAX][OTTE_CUDA_PCI_BYTES];
};

/* With a text what a call failed with. */
int otte_cuda_devices_read(const struct otte_cuda *cuda, struct otte_cuda_devices *devices);

#endif
