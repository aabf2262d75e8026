/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rows and the ways to copy them. Each round takes every way, in an order that moves on, so that whatever else the
 * machine does meets all of them; figures are medians. Times of the GPU are between two events around all that was put
 * on the stream, so the upload of the kernel's rows is in them. The stream has a millisecond of other work before that:
 * what the CPU needs for a submission, which is told apart, is not in them unless it is more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench_copy.h"
#include "progress.h"
#include "samples.h"
#include "tool.h"

const char *const bench_copy_layouts[LAYOUTS] = { "contiguous", "strided", "scattered" };
const char *const bench_copy_directions[2] = { "to-device", "to-host" };

enum way {
	SINGLE, /* all of the bytes as one copy: the ceiling */
	CALLS, /* a call of the driver for each row */
	BATCH, /* one call of many copies, where the driver has that */
	KERNEL,
	AUTO,
	WAYS,
};

static const char *const way_names[WAYS] = { "single", "calls", "batch", "kernel", "auto" };

struct point {
	struct bench_copy_gpu *gpu;
	enum otte_copy_direction direction;
	enum bench_copy_layout layout;
	uint64_t bytes; /* of a row */
	unsigned rows;
	struct otte_copy_desc *descs;
	struct otte_copier *kernel, *chosen; /* by force, and as the library chooses */
	CUdeviceptr *to, *from; /* of BATCH */
	size_t *sizes;
	double gpu_ns[WAYS][BENCH_COPY_ROUNDS_MAX], submit_ns[WAYS][BENCH_COPY_ROUNDS_MAX];
};

static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (*seed >> 16) % below;
}

static void shuffle(struct otte_copy_desc *descs, unsigned count, bool host, uint64_t *seed)
{
	unsigned i;

	for (i = count; i > 1; i--) {
		uint64_t *one = host ? &descs[i - 1].host_offset : &descs[i - 1].device_offset;
		unsigned other = (unsigned)draw(seed, i);
		uint64_t *two = host ? &descs[other].host_offset : &descs[other].device_offset;
		uint64_t held = *one;

		*one = *two;
		*two = held;
	}
}

void bench_copy_descs(const struct bench_copy_gpu *gpu, enum bench_copy_layout layout,
		      uint64_t bytes, unsigned count, struct otte_copy_desc *descs)
{
	uint64_t pitch = layout == CONTIGUOUS ? bytes : 2 * bytes, seed = 20261201;
	unsigned i;

	for (i = 0; i < count; i++)
		descs[i] = (struct otte_copy_desc){ .device = gpu->on_device,
						    .host = gpu->on_host,
						    .device_offset = i * pitch,
						    .host_offset = i * pitch,
						    .bytes = bytes,
						    .rows = 1 };
	if (layout != SCATTERED)
		return;
	shuffle(descs, count, false, &seed);
	shuffle(descs, count, true, &seed);
}

uint64_t bench_copy_bytes(const struct bench_copy_options *options)
{
	uint64_t largest = 64 * KIB;
	size_t i;

	for (i = 0; i < options->size_count; i++)
		largest = max_u64(largest, options->sizes[i]);
	return 2 * largest * options->rows;
}

/* ---- The ways -------------------------------------------------------------------------------- */

/* NOLINTBEGIN(performance-no-int-to-ptr): host memory, by its address */
static CUresult put_one(struct point *point, uint64_t device, uint64_t host, size_t bytes)
{
	const struct otte_cuda *cuda = point->gpu->cuda;

	if (point->direction == OTTE_COPY_TO_HOST)
		return cuda->memcpy_dtoh_async((void *)(uintptr_t)host, device, bytes,
					       point->gpu->stream);
	return cuda->memcpy_htod_async(device, (void *)(uintptr_t)host, bytes, point->gpu->stream);
}
/* NOLINTEND(performance-no-int-to-ptr) */

static uint64_t device_of(const struct point *point, unsigned i)
{
	return point->gpu->device_at + point->descs[i].device_offset;
}

static uint64_t host_of(const struct point *point, unsigned i)
{
	return (uint64_t)(uintptr_t)point->gpu->host_at + point->descs[i].host_offset;
}

static CUresult put_calls(struct point *point)
{
	CUresult result = CUDA_SUCCESS;
	unsigned i;

	for (i = 0; i < point->rows && !result; i++)
		result = put_one(point, device_of(point, i), host_of(point, i), point->bytes);
	return result;
}

static CUresult put_batch(struct point *point)
{
	CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	const struct otte_cuda *cuda = point->gpu->cuda;
	bool to_host = point->direction == OTTE_COPY_TO_HOST;
	size_t start = 0, failed;
	unsigned i;

	for (i = 0; i < point->rows; i++) {
		point->to[i] = to_host ? host_of(point, i) : device_of(point, i);
		point->from[i] = to_host ? device_of(point, i) : host_of(point, i);
		point->sizes[i] = point->bytes;
	}
	if (cuda->memcpy_batch_async_13)
		return cuda->memcpy_batch_async_13(point->to, point->from, point->sizes,
						   point->rows, &attributes, &start, 1,
						   point->gpu->stream);
	return cuda->memcpy_batch_async_12(point->to, point->from, point->sizes, point->rows,
					   &attributes, &start, 1, &failed, point->gpu->stream);
}

static bool has(const struct point *point, enum way way)
{
	const struct otte_cuda *cuda = point->gpu->cuda;

	return way != BATCH || cuda->memcpy_batch_async_13 || cuda->memcpy_batch_async_12;
}

static int put_copier(struct point *point, struct otte_copier *copier, struct otte_copy **copy)
{
	int rc =
		otte_copier_submit(copier, point->direction, point->descs, point->rows, NULL, copy);

	return rc ? complain_library(rc, "submission") : EXIT_OK;
}

static int put(struct point *point, enum way way, struct otte_copy **copy)
{
	switch (way) {
	case SINGLE:
		return bench_copy_complain(point->gpu,
					   put_one(point, point->gpu->device_at,
						   (uint64_t)(uintptr_t)point->gpu->host_at,
						   point->bytes * point->rows),
					   "one copy");
	case CALLS:
		return bench_copy_complain(point->gpu, put_calls(point), "a copy a row");
	case BATCH:
		return bench_copy_complain(point->gpu, put_batch(point), "cuMemcpyBatchAsync");
	case KERNEL:
		return put_copier(point, point->kernel, copy);
	default:
		return put_copier(point, point->chosen, copy);
	}
}

static int settle(struct otte_copy *copy)
{
	int rc = copy ? otte_copy_wait(copy, -1) : 0;

	otte_copy_put(copy);
	return rc ? complain_library(rc, "copy") : EXIT_OK;
}

/* At 55 GB/s, more than a millisecond. */
#define HEAD_START_BYTES (64 * MIB)

static int give_head_start(struct point *point)
{
	const struct bench_copy_gpu *gpu = point->gpu;

	return bench_copy_complain(gpu,
				   put_one(point, gpu->device_at, (uint64_t)(uintptr_t)gpu->host_at,
					   min_u64(HEAD_START_BYTES, gpu->bytes)),
				   "one copy");
}

static int measure(struct point *point, enum way way, bool idle, double *gpu_ns, double *submit_ns)
{
	struct bench_copy_gpu *gpu = point->gpu;
	struct otte_copy *copy = NULL;
	float milliseconds = 0;
	uint64_t begin_ns;
	int rc;

	rc = idle ? EXIT_OK : give_head_start(point);
	if (!rc)
		rc = bench_copy_complain(gpu, gpu->cuda->event_record(gpu->begin, gpu->stream), "cuEventRecord");
	begin_ns = otte_now_ns();
	if (!rc)
		rc = put(point, way, &copy);
	*submit_ns = (double)(otte_now_ns() - begin_ns);
	if (!rc)
		rc = bench_copy_complain(gpu, gpu->cuda->event_record(gpu->end, gpu->stream),
					 "cuEventRecord");
	if (!rc)
		rc = bench_copy_complain(gpu, gpu->cuda->stream_synchronize(gpu->stream),
					 "cuStreamSynchronize");
	if (!rc)
		rc = bench_copy_complain(gpu, gpu->elapsed(&milliseconds, gpu->begin, gpu->end),
					 "cuEventElapsedTime");
	*gpu_ns = (double)milliseconds * 1e6;
	return settle(copy) ? EXIT_LOCAL : rc;
}

/* ---- A point of the table -------------------------------------------------------------------- */

static void point_free(struct point *point)
{
	otte_copier_destroy(point->kernel, -1);
	otte_copier_destroy(point->chosen, -1);
	free(point->descs);
	free(point->to);
	free(point->from);
	free(point->sizes);
	free(point);
}

static struct point *point_new(struct bench_copy_gpu *gpu, unsigned rows)
{
	struct point *point = calloc(1, sizeof(*point));

	if (!point)
		return NULL;
	point->gpu = gpu;
	point->rows = rows;
	point->descs = calloc(rows, sizeof(*point->descs));
	point->to = calloc(rows, sizeof(*point->to));
	point->from = calloc(rows, sizeof(*point->from));
	point->sizes = calloc(rows, sizeof(*point->sizes));
	if (point->descs && point->to && point->from && point->sizes)
		return point;
	point_free(point);
	return NULL;
}

/* NULL after a complaint. */
static struct point *make_point(struct bench_copy_gpu *gpu, unsigned rows)
{
	struct point *point = point_new(gpu, rows);

	if (!point) {
		complain(EXIT_LOCAL, "no memory for %u rows", rows);
		return NULL;
	}
	if (!bench_copy_bind(gpu, gpu->stream, OTTE_COPY_KERNEL, 0, false, rows, &point->kernel) &&
	    !bench_copy_bind(gpu, gpu->stream, OTTE_COPY_AUTO, 0, false, rows, &point->chosen))
		return point;
	point_free(point);
	return NULL;
}

static struct otte_copy_class class_of(struct otte_copier *copier,
				       enum otte_copy_direction direction)
{
	struct otte_copier_stats stats = { .size = sizeof(stats) };

	otte_copier_stats(copier, &stats);
	return stats.classes[direction][OTTE_INTENT_UNSPEC][OTTE_PRIORITY_HIGH];
}

static double rate(struct point *point, enum way way, unsigned rounds)
{
	double ns = median(point->gpu_ns[way], rounds);

	return ns > 0 ? (double)(point->bytes * point->rows) / ns : 0;
}

static void report_point(struct point *point, unsigned rounds, json_t *results)
{
	static const char *const by[] = { "nothing", "dma", "kernel" };
	struct otte_copy_class kernel = class_of(point->kernel, point->direction);
	struct otte_copy_class chosen = class_of(point->chosen, point->direction);
	double rates[WAYS], best = 0;
	json_t *row = json_object();
	int way;

	json_object_set_new(row, "direction", json_string(bench_copy_directions[point->direction]));
	json_object_set_new(row, "layout", json_string(bench_copy_layouts[point->layout]));
	json_object_set_new(row, "row_bytes", json_integer((json_int_t)point->bytes));
	json_object_set_new(row, "rows", json_integer(point->rows));
	for (way = 0; way < WAYS; way++) {
		if (!has(point, way))
			continue;
		rates[way] = rate(point, way, rounds);
		if (way == CALLS || way == BATCH || way == KERNEL)
			best = rates[way] > best ? rates[way] : best;
		json_object_set_new(row, way_names[way], json_real(rates[way]));
	}
	json_object_set_new(row, "by", json_string(by[chosen.last_backend]));
	json_object_set_new(row, "ctas", json_integer(chosen.last_ctas));
	json_object_set_new(row, "kernel_ctas", json_integer(kernel.last_ctas));
	json_object_set_new(row, "of_best", json_real(best > 0 ? rates[AUTO] / best : 0));
	json_object_set_new(row, "of_single",
			    json_real(rates[SINGLE] > 0 ? rates[AUTO] / rates[SINGLE] : 0));
	json_object_set_new(row, "submit_us",
			    json_real(median(point->submit_ns[AUTO], rounds) / 1e3));
	json_array_append_new(results, row);
}

static int measure_rounds(struct point *point, unsigned rounds)
{
	double unused[2];
	unsigned round;
	int rc = EXIT_OK, i;

	for (i = 0; i < WAYS && !rc; i++)
		if (has(point, i))
			rc = measure(point, i, false, &unused[0], &unused[1]);
	for (round = 0; round < rounds; round++)
		for (i = 0; i < WAYS && !rc; i++) {
			enum way way = (enum way)((round + (unsigned)i) % WAYS);

			if (has(point, way))
				rc = measure(point, way, false, &point->gpu_ns[way][round],
					     &point->submit_ns[way][round]);
		}
	return rc;
}

int bench_copy_points(const struct bench_copy_options *options, struct bench_copy_gpu *gpu,
		      json_t *results)
{
	struct point *point = make_point(gpu, options->rows);
	struct progress progress;
	uint64_t done = 0;
	int rc = EXIT_OK, direction, layout;
	size_t i;

	if (!point)
		return EXIT_LOCAL;
	progress_begin_count(&progress, "points", options->size_count * 6);
	for (i = 0; i < options->size_count && !rc; i++)
		for (direction = 0; direction < 2 && !rc; direction++)
			for (layout = 0; layout < LAYOUTS && !rc; layout++) {
				progress_update(&progress, ++done);
				if (!options->directions[direction] || !options->layouts[layout])
					continue;
				point->direction = (enum otte_copy_direction)direction;
				point->layout = (enum bench_copy_layout)layout;
				point->bytes = options->sizes[i];
				bench_copy_descs(gpu, point->layout, point->bytes, point->rows,
						 point->descs);
				rc = measure_rounds(point, options->rounds);
				if (!rc)
					report_point(point, options->rounds, results);
			}
	progress_end(&progress);
	point_free(point);
	return rc;
}

int bench_copy_rate(struct bench_copy_gpu *gpu, enum otte_copy_direction direction, uint64_t bytes, unsigned rows,
		    uint32_t ctas, unsigned rounds, double *out)
{
	struct point *point = point_new(gpu, rows);
	double unused[2];
	enum way way = KERNEL;
	unsigned round;
	int rc = EXIT_OK;

	if (!point)
		return complain(EXIT_LOCAL, "no memory for %u rows", rows);
	point->direction = direction;
	point->bytes = bytes;
	bench_copy_descs(gpu, SCATTERED, bytes, rows, point->descs);
	if (ctas)
		rc = bench_copy_bind(gpu, gpu->stream, OTTE_COPY_KERNEL, ctas, true, rows, &point->kernel);
	else
		way = has(point, BATCH) ? BATCH : CALLS;
	if (!rc)
		rc = measure(point, way, false, &unused[0], &unused[1]);
	for (round = 0; round < rounds && !rc; round++)
		rc = measure(point, way, false, &point->gpu_ns[way][round], &unused[0]);
	*out = rate(point, way, rounds);
	point_free(point);
	return rc;
}

/* ---- What a submission to an idle stream costs the CPU ---------------------------------------- */

#define SUBMIT_ROW_BYTES (2 * KIB)

int bench_copy_submits(const struct bench_copy_options *options, struct bench_copy_gpu *gpu,
		       json_t *results)
{
	struct point *point = make_point(gpu, options->rows);
	double unused, ns;
	unsigned round;
	int rc = EXIT_OK, layout;

	if (!point)
		return EXIT_LOCAL;
	point->bytes = SUBMIT_ROW_BYTES;
	for (layout = 0; layout < LAYOUTS && !rc; layout++) {
		bench_copy_descs(gpu, (enum bench_copy_layout)layout, point->bytes, point->rows,
				 point->descs);
		rc = measure(point, AUTO, true, &unused, &ns);
		for (round = 0; round < options->rounds && !rc; round++)
			rc = measure(point, AUTO, true, &unused, &point->submit_ns[AUTO][round]);
		if (rc)
			break;
		json_array_append_new(
			results, json_pack("{s:s, s:i, s:f}", "layout", bench_copy_layouts[layout],
					   "rows", (int)point->rows, "us",
					   median(point->submit_ns[AUTO], options->rounds) / 1e3));
	}
	point_free(point);
	return rc;
}

/* ---- A few rows beside the driver's own calls ------------------------------------------------ */

#define SMALL_REPEATS 200u /* of a round */
#define SMALL_ROW_BYTES (16 * KIB)

/* The calls, an event behind them, and asking for that; so many times, a time on the average. */
static int small_driver(struct point *point, double *ns)
{
	struct bench_copy_gpu *gpu = point->gpu;
	uint64_t begin_ns = otte_now_ns();
	CUresult result = CUDA_SUCCESS;
	unsigned i;

	for (i = 0; i < SMALL_REPEATS && !result; i++) {
		result = put_calls(point);
		if (!result)
			result = gpu->cuda->event_record(gpu->end, gpu->stream);
		while (!result &&
		       (result = gpu->cuda->event_query(gpu->end)) == CUDA_ERROR_NOT_READY)
			result = CUDA_SUCCESS;
	}
	*ns = (double)(otte_now_ns() - begin_ns) / SMALL_REPEATS;
	return bench_copy_complain(gpu, result, "copies and an event");
}

static int small_otte(struct point *point, double *ns)
{
	uint64_t begin_ns = otte_now_ns();
	struct otte_copy *copy;
	int rc = EXIT_OK;
	unsigned i;

	for (i = 0; i < SMALL_REPEATS && !rc; i++) {
		copy = NULL;
		rc = put_copier(point, point->chosen, &copy);
		if (!rc)
			rc = settle(copy);
	}
	*ns = (double)(otte_now_ns() - begin_ns) / SMALL_REPEATS;
	return rc;
}

static int measure_small(struct point *point, unsigned rounds, json_t *results)
{
	double *driver = point->gpu_ns[CALLS], *otte = point->gpu_ns[AUTO],
	       ratios[BENCH_COPY_ROUNDS_MAX];
	unsigned round;
	int rc = EXIT_OK;

	for (round = 0; round < rounds && !rc; round++) {
		if (round % 2)
			rc = small_driver(point, &driver[round]);
		if (!rc)
			rc = small_otte(point, &otte[round]);
		if (!rc && !(round % 2))
			rc = small_driver(point, &driver[round]);
		ratios[round] = driver[round] > 0 ? otte[round] / driver[round] : 0;
	}
	if (!rc)
		json_array_append_new(
			results,
			json_pack("{s:s, s:s, s:i, s:I, s:f, s:f, s:f}", "direction",
				  bench_copy_directions[point->direction], "layout",
				  bench_copy_layouts[point->layout], "rows", (int)point->rows,
				  "row_bytes", (json_int_t)point->bytes, "driver_us",
				  median(driver, rounds) / 1e3, "otte_us",
				  median(otte, rounds) / 1e3, "ratio", median(ratios, rounds)));
	return rc;
}

int bench_copy_smalls(const struct bench_copy_options *options, struct bench_copy_gpu *gpu,
		      json_t *results)
{
	static const unsigned rows[] = { 1, 2, 4, 8 };
	struct point *point = make_point(gpu, 8);
	int rc = EXIT_OK, direction;
	size_t i;

	if (!point)
		return EXIT_LOCAL;
	point->layout = SCATTERED;
	point->bytes = SMALL_ROW_BYTES;
	for (i = 0; i < ARRAY_SIZE(rows) && !rc; i++)
		for (direction = 0; direction < 2 && !rc; direction++) {
			point->direction = (enum otte_copy_direction)direction;
			point->rows = rows[i];
			bench_copy_descs(gpu, SCATTERED, point->bytes, point->rows, point->descs);
			rc = measure_small(point, options->rounds, results);
		}
	point_free(point);
	return rc;
}
