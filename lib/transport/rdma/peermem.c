/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/util.h"
#include "transport/rdma/gpu.h"

/* Of MLNX_OFED's nv_peer_mem, with and without its name of 2021, and of NVIDIA's. */
static const char *const versions[] = {
	"kernel/mm/memory_peers/nv_mem/version",
	"kernel/mm/memory_peers/nv_mem_nc/version",
	"module/nvidia_peermem/version",
};

/* The folder of a module alone says only that it was built in, or is about to go. */
bool otte_rdma_peermem_is_there(const char *sys)
{
	char path[PATH_MAX];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(versions); i++) {
		snprintf(path, sizeof(path), "%s/%s", sys, versions[i]);
		if (!access(path, F_OK))
			return true;
	}
	return false;
}
