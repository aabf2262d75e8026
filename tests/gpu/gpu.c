/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const struct otte_cuda *gpu;
CUcontext gpu_context;
struct otte_engine *engine;

void must(int64_t rc, const char *call, const char *file, int line)
{
	if (rc >= 0)
		return;
	print_error("%s: %s\n", call, otte_error_text());
	_fail(file, line);
}

void must_cuda(CUresult result, const char *call, const char *file, int line)
{
	const char *name = NULL;

	if (!result)
		return;
	gpu->get_error_name(result, &name);
	print_error("%s: %s\n", call, name ? name : "an error without a name");
	_fail(file, line);
}

int gpu_start(void **state)
{
	struct otte_config config;
	CUdevice device;

	(void)state;
	MUST(otte_cuda_open(&gpu));
	MUST_CUDA(gpu->device_get(&device, 0));
	MUST_CUDA(gpu->primary_ctx_retain(&gpu_context, device));
	MUST_CUDA(gpu->ctx_push_current(gpu_context));
	MUST(otte_config_init(&config, sizeof(config)));
	config.ledger = OTTE_LEDGER_PROCESS;
	MUST(otte_engine_create(&config, &engine));
	return 0;
}

int gpu_stop(void **state)
{
	CUcontext popped;
	CUdevice device;

	(void)state;
	MUST(otte_engine_destroy(engine));
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	assert_ptr_equal(popped, gpu_context);
	MUST_CUDA(gpu->device_get(&device, 0));
	MUST_CUDA(gpu->primary_ctx_release(device));
	return 0;
}

void gpu_says(const char *word)
{
	if (!strstr(otte_error_text(), word))
		fail_msg("\"%s\" does not say %s", otte_error_text(), word);
}

struct otte_stats gpu_stats(void)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	MUST(otte_engine_stats(engine, &stats));
	return stats;
}

void *gpu_symbol(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	assert_non_null(library);
	return dlsym(library, name);
}

CUstream gpu_stream(void)
{
	CUstream stream;

	MUST_CUDA(gpu->stream_create(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

void gpu_stream_gone(CUstream stream)
{
	MUST_CUDA(gpu->stream_synchronize(stream));
	MUST_CUDA(gpu->stream_destroy(stream));
}

struct otte_region *gpu_region(struct otte_mem *memory, uint64_t offset, uint64_t length)
{
	struct otte_region_desc desc = { .mem = memory, .offset = offset, .length = length };
	struct otte_region *region;

	MUST(otte_region_register(engine, &desc, 1, &region));
	return region;
}

void gpu_region_gone(struct otte_region *region)
{
	MUST(otte_region_unregister(&region, 1, PATIENCE_NS, NULL));
}

void gpu_write(uint64_t to, const void *from, size_t bytes)
{
	CUstream stream = gpu_stream();

	MUST_CUDA(gpu->memcpy_htod_async(to, from, bytes, stream));
	gpu_stream_gone(stream);
}

void gpu_read(void *to, uint64_t from, size_t bytes)
{
	CUstream stream = gpu_stream();

	MUST_CUDA(gpu->memcpy_dtoh_async(to, from, bytes, stream));
	gpu_stream_gone(stream);
}

uint64_t gpu_seed(void)
{
	const char *given = getenv("OTTE_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);

	print_message("seed %llu\n", (unsigned long long)seed);
	return seed;
}

uint64_t gpu_draw(uint64_t *seed, uint64_t below)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (*seed >> 16) % below;
}
