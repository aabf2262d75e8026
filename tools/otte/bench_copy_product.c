/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What copies that go on without end take from a matrix product on another stream. The path of the image is of the
 * tree's root, where make compiles.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench_copy.h"
#include "samples.h"
#include "tool.h"

#define ENTRY "otte_product"
#define TILE 64u
#define THREADS 256u
#define LAUNCHES 20u /* of a measurement */
#define ROW_BYTES (64 * KIB)
#define UNDER_WAY 4u

__asm__(".pushsection .rodata\n"
	".globl bench_copy_product_image\n"
	"bench_copy_product_image:\n"
	".incbin \"tools/otte/product.ptx\"\n"
	".byte 0\n"
	".popsection\n");

extern const char bench_copy_product_image[];

/* Beside what: `none`, and what takes how many CTAs. */
static const struct beside {
	const char *name;
	bool copies;
	enum otte_copy_mode mode;
	uint32_t ctas;
	bool wide;
} besides[] = {
	{ "nothing", false, OTTE_COPY_AUTO, 0, false },
	{ "dma", true, OTTE_COPY_DMA, 0, false },
	{ "default", true, OTTE_COPY_AUTO, 0, false },
	{ "2 CTAs", true, OTTE_COPY_KERNEL, 2, true },
	{ "8 CTAs", true, OTTE_COPY_KERNEL, 8, true },
	{ "528 CTAs", true, OTTE_COPY_KERNEL, 528, true },
};

struct product {
	struct bench_copy_gpu *gpu;
	CUstream stream; /* its own */
	CUmodule module;
	CUfunction function;
	CUdeviceptr a, b, c;
	unsigned size, rows;
	struct otte_copy_desc *descs;
	/* Of the thread that copies. */
	struct otte_copier *copier;
	_Atomic bool stop;
	uint64_t bytes, ns; /* copied, and in which time */
	int failed;
};

/* ---- Copies without end ---------------------------------------------------------------------- */

static void *copy_on(void *arg)
{
	struct product *product = arg;
	struct otte_copy *copies[UNDER_WAY] = { 0 };
	uint64_t begin_ns = otte_now_ns(), turn;
	int rc = 0;

	for (turn = 0; !rc && !atomic_load(&product->stop); turn++) {
		struct otte_copy **copy = &copies[turn % UNDER_WAY];

		if (*copy) {
			rc = otte_copy_wait(*copy, -1);
			otte_copy_put(*copy);
			*copy = NULL;
			product->bytes += product->rows * ROW_BYTES;
		}
		if (!rc)
			rc = otte_copier_submit(product->copier, OTTE_COPY_TO_DEVICE,
						product->descs, product->rows, NULL, copy);
	}
	product->ns = otte_now_ns() - begin_ns;
	for (turn = 0; turn < UNDER_WAY; turn++)
		otte_copy_put(copies[turn]);
	product->failed = rc ? complain_library(rc, "copies beside a product") : EXIT_OK;
	return NULL;
}

/* ---- The product ----------------------------------------------------------------------------- */

static CUresult launch(const struct product *product)
{
	CUdeviceptr a = product->a, b = product->b, c = product->c;
	unsigned size = product->size, grid = size / TILE, i;
	void *arguments[] = { &a, &b, &c, &size };
	CUresult result = CUDA_SUCCESS;

	for (i = 0; i < LAUNCHES && !result; i++)
		result = product->gpu->cuda->launch_kernel(product->function, grid, grid, 1,
							   THREADS, 1, 1, 0, product->stream,
							   arguments, NULL);
	return result;
}

static int time_product(const struct product *product, double *ns)
{
	const struct bench_copy_gpu *gpu = product->gpu;
	const struct otte_cuda *cuda = gpu->cuda;
	float milliseconds = 0;
	CUresult result;

	result = cuda->event_record(gpu->begin, product->stream);
	if (!result)
		result = launch(product);
	if (!result)
		result = cuda->event_record(gpu->end, product->stream);
	if (!result)
		result = cuda->stream_synchronize(product->stream);
	if (!result)
		result = gpu->elapsed(&milliseconds, gpu->begin, gpu->end);
	*ns = (double)milliseconds * 1e6;
	return bench_copy_complain(gpu, result, "a matrix product");
}

static int time_beside(struct product *product, const struct beside *beside, double *ns,
		       double *copied)
{
	pthread_t thread;
	double unused;
	int rc;

	*copied = 0;
	if (!beside->copies)
		return time_product(product, ns);
	rc = bench_copy_bind(product->gpu, product->gpu->stream, beside->mode, beside->ctas,
			     beside->wide, product->rows, &product->copier);
	if (rc)
		return rc;
	atomic_store(&product->stop, false);
	product->bytes = 0;
	rc = pthread_create(&thread, NULL, copy_on, product);
	if (rc) {
		otte_copier_destroy(product->copier, -1);
		return complain(EXIT_LOCAL, "a thread for copies");
	}
	/* The first one finds the copies under way. */
	rc = time_product(product, &unused);
	if (!rc)
		rc = time_product(product, ns);
	atomic_store(&product->stop, true);
	pthread_join(thread, NULL);
	otte_copier_destroy(product->copier, -1);
	if (product->ns)
		*copied = (double)product->bytes / (double)product->ns;
	return rc ? rc : product->failed;
}

static int make(struct product *product)
{
	const struct otte_cuda *cuda = product->gpu->cuda;
	size_t bytes = (size_t)product->size * product->size * sizeof(float);
	CUresult result;

	result = cuda->stream_create(&product->stream, CU_STREAM_NON_BLOCKING);
	if (!result)
		result = cuda->module_load_data_ex(&product->module, bench_copy_product_image, 0,
						   NULL, NULL);
	if (!result)
		result = cuda->module_get_function(&product->function, product->module, ENTRY);
	if (!result)
		result = cuda->mem_alloc(&product->a, bytes);
	if (!result)
		result = cuda->mem_alloc(&product->b, bytes);
	if (!result)
		result = cuda->mem_alloc(&product->c, bytes);
	product->descs = calloc(product->rows, sizeof(*product->descs));
	if (!product->descs)
		return complain(EXIT_LOCAL, "no memory for %u rows", product->rows);
	bench_copy_descs(product->gpu, SCATTERED, ROW_BYTES, product->rows, product->descs);
	return bench_copy_complain(product->gpu, result, "what a matrix product needs");
}

static void unmake(struct product *product)
{
	const struct otte_cuda *cuda = product->gpu->cuda;

	free(product->descs);
	if (product->a)
		cuda->mem_free(product->a);
	if (product->b)
		cuda->mem_free(product->b);
	if (product->c)
		cuda->mem_free(product->c);
	if (product->module)
		cuda->module_unload(product->module);
	if (product->stream)
		cuda->stream_destroy(product->stream);
}

int bench_copy_products(const struct bench_copy_options *options, struct bench_copy_gpu *gpu,
			json_t *results)
{
	struct product product = { .gpu = gpu,
				   .size = options->product_size,
				   .rows = options->rows };
	double ns[ARRAY_SIZE(besides)][BENCH_COPY_ROUNDS_MAX],
		copied[ARRAY_SIZE(besides)][BENCH_COPY_ROUNDS_MAX];
	double alone, it;
	unsigned round;
	size_t i;
	int rc;

	rc = make(&product);
	if (!rc)
		rc = time_product(&product, &ns[0][0]);
	for (round = 0; round < options->rounds; round++)
		for (i = 0; i < ARRAY_SIZE(besides) && !rc; i++)
			rc = time_beside(&product, &besides[i], &ns[i][round], &copied[i][round]);
	unmake(&product);
	if (rc)
		return rc;
	alone = median(ns[0], options->rounds);
	for (i = 0; i < ARRAY_SIZE(besides); i++) {
		it = median(ns[i], options->rounds);
		json_array_append_new(results,
				      json_pack("{s:s, s:f, s:f, s:f}", "beside", besides[i].name,
						"product_ms", it / 1e6 / LAUNCHES, "slowdown",
						alone > 0 ? it / alone : 0, "copied",
						median(copied[i], options->rounds)));
	}
	return EXIT_OK;
}
