/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "bench_copy.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "otte/otte_cuda.h"
#include "tool.h"

int bench_copy_complain(const struct bench_copy_gpu *gpu, CUresult result, const char *call)
{
	const char *name = NULL;

	if (!result)
		return EXIT_OK;
	gpu->cuda->get_error_name(result, &name);
	return complain(EXIT_LOCAL, "%s: %s", call, name ? name : "an error without a name");
}

#define CUDA(call, name)                                                   \
	do {                                                               \
		int rc_ = bench_copy_complain(gpu, gpu->cuda->call, name); \
		if (rc_)                                                   \
			return rc_;                                        \
	} while (0)

/* And what the library has no use for. */
static int find_device(const struct bench_copy_options *options, struct bench_copy_gpu *gpu)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *elapsed = library ? dlsym(library, "cuEventElapsedTime") : NULL;
	CUdevice device;

	if (!elapsed)
		return complain(EXIT_LOCAL, "libcuda.so.1 has no cuEventElapsedTime");
	memcpy(&gpu->elapsed, &elapsed, sizeof(elapsed));
	CUDA(device_get(&device, options->device), "cuDeviceGet");
	CUDA(primary_ctx_retain(&gpu->context, device), "cuDevicePrimaryCtxRetain");
	CUDA(ctx_push_current(gpu->context), "cuCtxPushCurrent_v2");
	return bench_copy_complain(gpu, gpu->cuda->device_get_name(gpu->name, sizeof(gpu->name), device),
				   "cuDeviceGetName");
}

static int make_memory(const struct bench_copy_options *options, struct bench_copy_gpu *gpu)
{
	struct otte_region_desc desc = { .length = gpu->bytes };
	int rc;

	rc = otte_cuda_alloc(gpu->engine, options->device, gpu->bytes, 0, &gpu->device);
	if (!rc)
		rc = otte_cuda_alloc_host(gpu->engine, options->device, gpu->bytes, 0, &gpu->host);
	if (rc)
		return complain_library(rc, "memory");
	desc.mem = gpu->device;
	rc = otte_region_register(gpu->engine, &desc, 1, &gpu->on_device);
	desc.mem = gpu->host;
	if (!rc)
		rc = otte_region_register(gpu->engine, &desc, 1, &gpu->on_host);
	if (rc)
		return complain_library(rc, "regions");
	gpu->device_at = (uint64_t)(uintptr_t)otte_mem_address(gpu->device);
	gpu->host_at = otte_mem_address(gpu->host);
	/* So that each page is there, and written. */
	memset(gpu->host_at, 0x5a, gpu->bytes);
	CUDA(memcpy_htod_async(gpu->device_at, gpu->host_at, gpu->bytes, gpu->stream),
	     "cuMemcpyHtoDAsync_v2");
	CUDA(stream_synchronize(gpu->stream), "cuStreamSynchronize");
	return EXIT_OK;
}

static int make(const struct bench_copy_options *options, struct bench_copy_gpu *gpu)
{
	struct otte_config config;
	int rc;

	rc = otte_cuda_open(&gpu->cuda);
	if (rc)
		return complain_library(rc, "CUDA");
	rc = find_device(options, gpu);
	if (rc)
		return rc;
	CUDA(stream_create(&gpu->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	CUDA(event_create(&gpu->begin, 0), "cuEventCreate");
	CUDA(event_create(&gpu->end, 0), "cuEventCreate");
	rc = common_requester(&options->common, &config, &gpu->engine);
	return rc ? rc : make_memory(options, gpu);
}

int bench_copy_open(const struct bench_copy_options *options, uint64_t bytes,
		    struct bench_copy_gpu *gpu)
{
	int rc;

	*gpu = (struct bench_copy_gpu){ .bytes = bytes };
	rc = make(options, gpu);
	if (rc)
		bench_copy_close(gpu);
	return rc;
}

/* What fails here ends with the process. */
void bench_copy_close(struct bench_copy_gpu *gpu)
{
	CUcontext popped;
	CUdevice device;

	if (gpu->on_device)
		otte_region_unregister(&gpu->on_device, 1, 0, NULL);
	if (gpu->on_host)
		otte_region_unregister(&gpu->on_host, 1, 0, NULL);
	if (gpu->device)
		otte_mem_release(gpu->device);
	if (gpu->host)
		otte_mem_release(gpu->host);
	if (gpu->engine)
		otte_engine_destroy(gpu->engine);
	if (gpu->begin)
		gpu->cuda->event_destroy(gpu->begin);
	if (gpu->end)
		gpu->cuda->event_destroy(gpu->end);
	if (gpu->stream)
		gpu->cuda->stream_destroy(gpu->stream);
	if (gpu->context && !gpu->cuda->ctx_get_device(&device)) {
		gpu->cuda->ctx_pop_current(&popped);
		gpu->cuda->primary_ctx_release(device);
	}
}

int bench_copy_bind(struct bench_copy_gpu *gpu, CUstream stream, enum otte_copy_mode mode,
		    uint32_t ctas, bool wide, uint32_t rows, struct otte_copier **copier)
{
	struct otte_copier_config config;
	int rc;

	otte_copier_config_init(&config, sizeof(config));
	config.mode = mode;
	config.cta_limit = ctas;
	config.wide = wide;
	config.max_rows = rows;
	config.max_bytes = 8 * (gpu->bytes + MIB);
	rc = otte_copier_bind(gpu->device, stream, &config, copier);
	return rc ? complain_library(rc, "copier") : EXIT_OK;
}
