/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ways to copy many rows between pinned host memory and a GPU, measured side by side; needs a GPU and its driver,
 * nothing else of CUDA. From the tree's root:
 *
 *	gcc -O2 -std=gnu11 -D_GNU_SOURCE -DOTTE_VERSION='"0"' -Iinclude -Ilib tests/gpu/copy_probe.c \
 *		lib/cuda/kernel/cut.c lib/cuda/kernel/image.c lib/base/error.c -o copy_probe -ldl
 *	./copy_probe [VARIANTS.ptx [SECONDS]] >copy.csv
 *
 * First each byte is checked, whatever the alignment; a difference ends the program with 1. Then one line for each
 * measurement, medians: the kernel by CTAs, one call a row, the driver's batch, one single copy. event_us is between
 * two events around all that a submission puts on the stream, the upload of the rows included; wall_us from the first
 * call until the stream is empty; submit_us until the last call is back. What does not fit in SECONDS (170) is left
 * out, and said.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "cuda/kernel/copy.h"

#define MAX_ROWS 4096u
#ifndef MAX_BYTES
#define MAX_BYTES (1024 * MIB)
#endif
#define AREA_BYTES (2 * MAX_BYTES + 4 * MIB)
#define CHECK_BYTES (64 * MIB)
#define REPEATS 9
#define FILLER 0xee

/* What the driver exports, as far as it is used here; handles are pointers. */
struct location {
	int type, id;
};
struct batch_attributes {
	int source_order;
	struct location source, destination;
	unsigned int flags;
};

static struct {
	int (*init)(unsigned int);
	int (*driver_version)(int *);
	int (*device_get)(int *, int);
	int (*device_name)(char *, int, int);
	int (*attribute)(int *, int, int);
	int (*retain)(void **, int);
	int (*set_current)(void *);
	int (*load)(void **, const void *);
	int (*function)(void **, void *, const char *);
	int (*function_attribute)(int *, int, void *);
	int (*launch)(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
		      unsigned int, void *, void **, void **);
	int (*alloc)(uint64_t *, size_t);
	int (*host_alloc)(void **, size_t, unsigned int);
	int (*host_alias)(uint64_t *, void *, unsigned int);
	int (*to_device)(uint64_t, const void *, size_t, void *);
	int (*to_host)(void *, uint64_t, size_t, void *);
	int (*fill)(uint64_t, unsigned char, size_t, void *);
	int (*stream_create)(void **, unsigned int);
	int (*stream_wait)(void *);
	int (*event_create)(void **, unsigned int);
	int (*event_record)(void *, void *);
	int (*elapsed)(float *, void *, void *);
	int (*proc)(const char *, void **, int, uint64_t, int *);
	/* 12.8 has a pointer for the index that failed, before the stream; 13.0 has not. One of them or none. */
	int (*batch_12_8)(uint64_t *, uint64_t *, size_t *, size_t, struct batch_attributes *, size_t *, size_t,
			  size_t *, void *);
	int (*batch_13_0)(uint64_t *, uint64_t *, size_t *, size_t, struct batch_attributes *, size_t *, size_t,
			  void *);
} cu;

static const struct {
	const char *name;
	void *to;
} exports[] = {
	{ "cuInit", &cu.init },
	{ "cuDriverGetVersion", &cu.driver_version },
	{ "cuDeviceGet", &cu.device_get },
	{ "cuDeviceGetName", &cu.device_name },
	{ "cuDeviceGetAttribute", &cu.attribute },
	{ "cuDevicePrimaryCtxRetain", &cu.retain },
	{ "cuCtxSetCurrent", &cu.set_current },
	{ "cuModuleLoadData", &cu.load },
	{ "cuModuleGetFunction", &cu.function },
	{ "cuFuncGetAttribute", &cu.function_attribute },
	{ "cuLaunchKernel", &cu.launch },
	{ "cuMemAlloc_v2", &cu.alloc },
	{ "cuMemHostAlloc", &cu.host_alloc },
	{ "cuMemHostGetDevicePointer_v2", &cu.host_alias },
	{ "cuMemcpyHtoDAsync_v2", &cu.to_device },
	{ "cuMemcpyDtoHAsync_v2", &cu.to_host },
	{ "cuMemsetD8Async", &cu.fill },
	{ "cuStreamCreate", &cu.stream_create },
	{ "cuStreamSynchronize", &cu.stream_wait },
	{ "cuEventCreate", &cu.event_create },
	{ "cuEventRecord", &cu.event_record },
	{ "cuEventElapsedTime", &cu.elapsed },
	{ "cuGetProcAddress_v2", &cu.proc },
};

static void *stream, *begin_event, *end_event;
static unsigned char *host;       /* AREA_BYTES, pinned */
static uint64_t host_alias, device; /* likewise */
static unsigned char *back;       /* CHECK_BYTES, pinned */
static struct otte_copy_row *staged; /* MAX_ROWS and one more for each alignment, pinned */
static uint64_t staged_alias, uploaded;
static uint64_t give_up_ns;
static uint64_t seed = 20261201;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

#define DO(call)                                                      \
	do {                                                          \
		int error_ = (call);                                  \
		if (error_)                                           \
			die("%s: CUDA error %d", #call, error_);      \
	} while (0)

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 16) % below;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

enum layout { CONTIGUOUS, STRIDED, SCATTERED, LAYOUTS };
static const char *const layout_names[] = { "contiguous", "strided", "scattered" };

struct rows {
	uint32_t count, bytes;
	uint64_t device[MAX_ROWS], host[MAX_ROWS]; /* offsets */
};

static void shuffle(uint64_t *at, uint32_t count)
{
	uint32_t i;

	for (i = count; i > 1; i--) {
		uint32_t other = (uint32_t)draw(i);
		uint64_t kept = at[i - 1];

		at[i - 1] = at[other];
		at[other] = kept;
	}
}

/* Strided and scattered rows have a gap as long as they behind each. */
static void rows_make(struct rows *rows, enum layout layout, uint32_t bytes, uint32_t count)
{
	uint64_t pitch = layout == CONTIGUOUS ? bytes : 2ull * bytes;
	uint32_t i;

	rows->bytes = bytes;
	rows->count = count;
	for (i = 0; i < count; i++)
		rows->device[i] = rows->host[i] = i * pitch;
	if (layout == SCATTERED) {
		shuffle(rows->device, count);
		shuffle(rows->host, count);
	}
}

/* ---- Ways to copy them ----------------------------------------------------------------------- */

struct way {
	const char *name;
	void (*submit)(const struct rows *rows, bool to_host, const struct way *way);
	void *kernel;
	uint32_t ctas, lanes;
	uint32_t piece_bytes; /* 0: as the library cuts */
	bool in_place;        /* the kernel reads the rows in host memory; they are not uploaded */
};

static void cut(struct otte_copy_launch *launch, uint32_t count, const struct way *way)
{
	uint64_t pieces = 0;
	uint32_t i;

	if (!count)
		die("no rows");
	if (!way->piece_bytes) {
		if (otte_copy_cut(staged, count, way->ctas, way->lanes, launch))
			die("otte_copy_cut");
		return;
	}
	for (i = 0; i < count; i++) {
		uint64_t bytes = staged[i].extent;

		staged[i].extent |= pieces << OTTE_COPY_ROW_BITS;
		pieces += bytes ? (bytes - 1) / way->piece_bytes + 1 : 1;
	}
	*launch = (struct otte_copy_launch){ .ratio = (((uint64_t)count << 32) + pieces - 1) / pieces,
					     .count = count,
					     .pieces = (uint32_t)pieces,
					     .piece_bytes = way->piece_bytes,
					     .lanes = way->lanes };
}

/* What staged[] says. */
static void launch_staged(uint32_t count, bool to_host, const struct way *way)
{
	struct otte_copy_launch launch = { 0 };
	void *parameters[] = { &launch.rows,  &launch.ratio, &launch.count, &launch.pieces, &launch.piece_bytes,
			       &launch.lanes, &launch.to_host };

	cut(&launch, count, way);
	launch.to_host = to_host;
	launch.rows = way->in_place ? staged_alias : uploaded;
	if (!way->in_place)
		DO(cu.to_device(uploaded, staged, count * sizeof(*staged), stream));
	DO(cu.launch(way->kernel, way->ctas, 1, 1, OTTE_COPY_CTA_THREADS, 1, 1, 0, stream, parameters, NULL));
}

static void by_kernel(const struct rows *rows, bool to_host, const struct way *way)
{
	uint32_t i;

	for (i = 0; i < rows->count; i++) {
		staged[i].device = device + rows->device[i];
		staged[i].host = host_alias + rows->host[i];
		staged[i].extent = rows->bytes;
	}
	launch_staged(rows->count, to_host, way);
}

static void by_calls(const struct rows *rows, bool to_host, const struct way *way)
{
	uint32_t i;

	(void)way;
	for (i = 0; i < rows->count; i++) {
		if (to_host)
			DO(cu.to_host(host + rows->host[i], device + rows->device[i], rows->bytes, stream));
		else
			DO(cu.to_device(device + rows->device[i], host + rows->host[i], rows->bytes, stream));
	}
}

static void by_batch(const struct rows *rows, bool to_host, const struct way *way)
{
	static uint64_t to[MAX_ROWS], from[MAX_ROWS];
	static size_t sizes[MAX_ROWS];
	struct batch_attributes attributes = { .source_order = 1 }; /* as the stream orders */
	size_t first = 0, failed;
	uint32_t i;
	int error;

	(void)way;
	for (i = 0; i < rows->count; i++) {
		uint64_t here = (uintptr_t)host + rows->host[i], there = device + rows->device[i];

		to[i] = to_host ? here : there;
		from[i] = to_host ? there : here;
		sizes[i] = rows->bytes;
	}
	if (cu.batch_13_0)
		error = cu.batch_13_0(to, from, sizes, rows->count, &attributes, &first, 1, stream);
	else
		error = cu.batch_12_8(to, from, sizes, rows->count, &attributes, &first, 1, &failed, stream);
	/* What is measured beside it is worth having without it: the next line's figures are of nothing. */
	if (error)
		printf("# batch: CUDA error %d\n", error);
}

/* The ceiling: as many bytes in one piece. */
static void by_single(const struct rows *rows, bool to_host, const struct way *way)
{
	uint64_t bytes = (uint64_t)rows->count * rows->bytes;

	(void)way;
	if (to_host)
		DO(cu.to_host(host, device, bytes, stream));
	else
		DO(cu.to_device(device, host, bytes, stream));
}

/* ---- Times ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *of, int count)
{
	qsort(of, (size_t)count, sizeof(*of), compare);
	return of[count / 2];
}

static void measure(const struct rows *rows, const char *layout, bool to_host, const struct way *way, int repeats)
{
	double event[REPEATS], wall[REPEATS], submit[REPEATS];
	double bytes = (double)rows->bytes * rows->count, e, w, s;
	int i;

	if (now_ns() > give_up_ns) {
		printf("# left out: %s %s %u x %u\n", way->name, layout, rows->bytes, rows->count);
		return;
	}
	for (i = -1; i < repeats; i++) { /* once for nothing */
		uint64_t begin = now_ns(), submitted;
		float ms;

		DO(cu.event_record(begin_event, stream));
		way->submit(rows, to_host, way);
		DO(cu.event_record(end_event, stream));
		submitted = now_ns();
		DO(cu.stream_wait(stream));
		if (i < 0)
			continue;
		wall[i] = (double)(now_ns() - begin) / 1e3;
		submit[i] = (double)(submitted - begin) / 1e3;
		DO(cu.elapsed(&ms, begin_event, end_event));
		event[i] = ms * 1e3;
	}
	e = median(event, repeats);
	w = median(wall, repeats);
	s = median(submit, repeats);
	printf("%s,%s,%s,%u,%u,%u,%u,%u,%s,%.1f,%.1f,%.1f,%.2f,%.2f\n", way->name, to_host ? "dtoh" : "htod", layout,
	       rows->bytes, rows->count, way->ctas, way->lanes, way->piece_bytes,
	       !way->kernel ? "-" : way->in_place ? "host" : "device", e, w, s, bytes / e / 1e3, bytes / w / 1e3);
	fflush(stdout);
}

/* ---- Every byte ------------------------------------------------------------------------------ */

static unsigned char *expected;

/* Before a copy in CHECK_BYTES of the destination: FILLER, there and in expected[]. */
static void check_begin(bool to_host)
{
	memset(expected, FILLER, CHECK_BYTES);
	if (to_host) {
		DO(cu.to_device(device, host, CHECK_BYTES, stream));
		DO(cu.stream_wait(stream));
	} else {
		DO(cu.fill(device, FILLER, CHECK_BYTES, stream));
	}
}

/* back[] is where the kernel wrote if that is the host: then host[] is the model of what the device holds. */
static void check_end(bool to_host, const char *what)
{
	size_t i;

	DO(cu.stream_wait(stream));
	if (!to_host) {
		DO(cu.to_host(back, device, CHECK_BYTES, stream));
		DO(cu.stream_wait(stream));
	}
	if (!memcmp(back, expected, CHECK_BYTES))
		return;
	for (i = 0; back[i] == expected[i]; i++)
		;
	die("%s, %s: byte %zu is %02x, not %02x", what, to_host ? "dtoh" : "htod", i, back[i], expected[i]);
}

/* One row of staged[]: from and to are offsets. */
static void check_row(uint32_t at, bool to_host, uint64_t back_alias, uint64_t from, uint64_t to, uint32_t bytes)
{
	staged[at].device = device + (to_host ? from : to);
	staged[at].host = to_host ? back_alias + to : host_alias + from;
	staged[at].extent = bytes;
	memcpy(expected + to, host + from, bytes);
}

static void check_unaligned(const struct way *way, bool to_host, uint64_t back_alias)
{
	static const uint32_t around[] = { 512, 2048, 4096, 16384, 40000 };
	uint32_t from, to, length, count = 0, i;
	uint64_t at = 0;

	if (to_host)
		memset(back, FILLER, CHECK_BYTES);
	check_begin(to_host);
	for (from = 0; from < 16; from++) {
		for (to = 0; to < 16; to++) {
			for (length = 0; length <= 80; length++, at += 128)
				check_row(count++, to_host, back_alias, at + from, at + to, length);
		}
	}
	for (i = 0; i < ARRAY_SIZE(around); i++) {
		for (from = 0; from < 16; from += 3) {
			for (length = around[i] - 15; length <= around[i] + 15; length++, at += 40960)
				check_row(count++, to_host, back_alias, at + from, at + (from * 7 + length) % 16,
					  length);
		}
	}
	launch_staged(count, to_host, way);
	check_end(to_host, way->name);
}

static void check_shape(const struct way *way, bool to_host, uint64_t back_alias, enum layout layout, uint32_t bytes)
{
	static struct rows rows;
	uint64_t fit = CHECK_BYTES / 2 / bytes;
	uint32_t i;

	rows_make(&rows, layout, bytes, (uint32_t)min_u64(fit, MAX_ROWS));
	if (to_host)
		memset(back, FILLER, CHECK_BYTES);
	check_begin(to_host);
	for (i = 0; i < rows.count; i++)
		check_row(i, to_host, back_alias, to_host ? rows.device[i] : rows.host[i],
			  to_host ? rows.host[i] : rows.device[i], bytes);
	launch_staged(rows.count, to_host, way);
	check_end(to_host, layout_names[layout]);
}

/* ---- Set up ---------------------------------------------------------------------------------- */

static void *kernel_of(void *module, const char *name)
{
	int registers = 0, local = 0;
	void *kernel;

	DO(cu.function(&kernel, module, name));
	DO(cu.function_attribute(&registers, 4, kernel));
	DO(cu.function_attribute(&local, 3, kernel));
	printf("# %s: %d registers, %d bytes of local memory\n", name, registers, local);
	return kernel;
}

static void open_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	int version = 0, status = 0, sms = 0, gpu;
	char name[128] = "";
	void *context, *batch = NULL;
	size_t i;

	if (!library)
		die("%s", dlerror());
	for (i = 0; i < ARRAY_SIZE(exports); i++) {
		void *found = dlsym(library, exports[i].name);

		if (!found)
			die("libcuda.so.1 has no %s", exports[i].name);
		memcpy(exports[i].to, &found, sizeof(found));
	}
	DO(cu.init(0));
	DO(cu.driver_version(&version));
	DO(cu.device_get(&gpu, 0));
	DO(cu.device_name(name, sizeof(name), gpu));
	DO(cu.attribute(&sms, 16, gpu));
	DO(cu.retain(&context, gpu));
	DO(cu.set_current(context));
	if (version >= 12080 && !cu.proc("cuMemcpyBatchAsync", &batch, version >= 13000 ? 13000 : 12080, 0, &status) &&
	    !status && batch) {
		if (version >= 13000)
			memcpy(&cu.batch_13_0, &batch, sizeof(batch));
		else
			memcpy(&cu.batch_12_8, &batch, sizeof(batch));
	}
	printf("# %s, %d SMs, driver %d, batch %s\n", name, sms, version,
	       cu.batch_13_0 ? "13.0" : cu.batch_12_8 ? "12.8" : "none");
}

static void fill_host(void)
{
	uint64_t at, word = 0x9e3779b97f4a7c15ull;

	for (at = 0; at + 8 <= AREA_BYTES; at += 8) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		memcpy(host + at, &word, sizeof(word));
	}
}

static char *read_text(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = calloc(1, 1 << 20);

	if (!file || !text)
		die("%s: cannot be read", path);
	if (!fread(text, 1, (1 << 20) - 1, file))
		die("%s: is empty", path);
	fclose(file);
	return text;
}

#define CHECK_ROWS (256 * 81 + 5 * 6 * 31)
_Static_assert(CHECK_ROWS >= MAX_ROWS, "staged[] holds both");

static uint64_t make_memory(void)
{
	uint64_t alias;

	DO(cu.stream_create(&stream, 1));
	DO(cu.event_create(&begin_event, 0));
	DO(cu.event_create(&end_event, 0));
	DO(cu.host_alloc((void **)&host, AREA_BYTES, 3));
	DO(cu.host_alloc((void **)&back, CHECK_BYTES, 3));
	DO(cu.host_alloc((void **)&staged, CHECK_ROWS * sizeof(*staged), 3));
	DO(cu.host_alias(&host_alias, host, 0));
	DO(cu.host_alias(&alias, back, 0));
	DO(cu.host_alias(&staged_alias, staged, 0));
	DO(cu.alloc(&device, AREA_BYTES));
	DO(cu.alloc(&uploaded, CHECK_ROWS * sizeof(*staged)));
	expected = malloc(CHECK_BYTES);
	if (!expected)
		die("no memory");
	fill_host();
	DO(cu.to_device(device, host, AREA_BYTES, stream));
	DO(cu.stream_wait(stream));
	return alias;
}

/* ---- What is measured ------------------------------------------------------------------------ */

static const uint32_t sizes[] = { 512, 2048, 4096, 16384, 65536, 262144 };
static const char *const variants[] = { "copy_plain", "copy_volatile", "copy_cv", "copy_no_l1", "copy_two",
					"copy_six" };

static void check_all(struct way way, uint64_t back_alias)
{
	size_t size;
	int layout, to_host;

	for (to_host = 0; to_host < 2; to_host++) {
		for (way.lanes = 8; way.lanes <= 32; way.lanes *= 2)
			check_unaligned(&way, to_host, back_alias);
		way.lanes = 32;
		for (layout = 0; layout < LAYOUTS; layout++) {
			for (size = 0; size < ARRAY_SIZE(sizes); size++)
				check_shape(&way, to_host, back_alias, layout, sizes[size]);
		}
	}
}

/* The table that the default is chosen by. */
static void measure_shapes(const struct way *kernel)
{
	static const uint32_t ctas[] = { 1, 2, 4, 8, 16, 32, 132, 528 };
	static struct rows rows;
	size_t size, i;
	int layout, to_host;

	for (size = 0; size < ARRAY_SIZE(sizes); size++) {
		for (layout = 0; layout < LAYOUTS; layout++) {
			uint32_t count = (uint32_t)min_u64(MAX_BYTES / sizes[size], MAX_ROWS);

			rows_make(&rows, layout, sizes[size], count);
			for (to_host = 0; to_host < 2; to_host++) {
				const char *name = layout_names[layout];
				struct way way = *kernel;

				for (i = 0; i < ARRAY_SIZE(ctas); i++) {
					way.ctas = ctas[i];
					measure(&rows, name, to_host, &way, REPEATS);
				}
				way = (struct way){ .name = "calls", .submit = by_calls };
				measure(&rows, name, to_host, &way, 3);
				way = (struct way){ .name = "batch", .submit = by_batch };
				if (cu.batch_12_8 || cu.batch_13_0)
					measure(&rows, name, to_host, &way, 5);
				way = (struct way){ .name = "single", .submit = by_single };
				measure(&rows, name, to_host, &way, REPEATS);
			}
		}
	}
	rows_make(&rows, CONTIGUOUS, 262144, (uint32_t)min_u64(MAX_BYTES / 262144, MAX_ROWS));
	for (to_host = 0; to_host < 2; to_host++) {
		struct way way = { .name = "ceiling", .submit = by_single };

		measure(&rows, "contiguous", to_host, &way, REPEATS);
	}
}

/* Lanes for each row, where the rows are read, and forms of the kernel. */
static void measure_forms(const struct way *forms, size_t count)
{
	static const uint32_t lengths[] = { 512, 2048, 16384 }, ctas[] = { 1, 2, 4, 8 };
	static struct rows rows;
	size_t form, size, i;
	int to_host;

	for (size = 0; size < ARRAY_SIZE(lengths); size++) {
		rows_make(&rows, STRIDED, lengths[size], MAX_ROWS);
		for (to_host = 0; to_host < 2; to_host++) {
			for (form = 0; form < count; form++) {
				for (i = 0; i < ARRAY_SIZE(ctas); i++) {
					struct way way = forms[form];

					way.ctas = ctas[i];
					for (way.lanes = 8; way.lanes <= 32; way.lanes *= 2)
						measure(&rows, "strided", to_host, &way, REPEATS);
					way.lanes = 32;
					way.in_place = true;
					measure(&rows, "strided", to_host, &way, REPEATS);
				}
			}
		}
	}
}

/* How long a piece is best; few long rows too. */
static void measure_pieces(const struct way *kernel)
{
	static const uint32_t pieces[] = { 0, 2048, 4096, 8192, 16384, 32768, 65536, 262144 };
	static const struct {
		uint32_t bytes, count;
	} shapes[] = { { 16384, 4096 }, { 65536, 4096 }, { 262144, 1024 }, { 262144, 8 } };
	static struct rows rows;
	size_t shape, piece;
	int to_host;

	for (shape = 0; shape < ARRAY_SIZE(shapes); shape++) {
		rows_make(&rows, STRIDED, shapes[shape].bytes, shapes[shape].count);
		for (to_host = 0; to_host < 2; to_host++) {
			for (piece = 0; piece < ARRAY_SIZE(pieces); piece++) {
				struct way way = *kernel;

				way.piece_bytes = pieces[piece];
				for (way.ctas = 1; way.ctas <= 4; way.ctas *= 2)
					measure(&rows, "strided", to_host, &way, REPEATS);
			}
		}
	}
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "tests/gpu/copy_variants.ptx";
	struct way forms[1 + ARRAY_SIZE(variants)];
	uint64_t back_alias;
	void *module;
	char *text;
	size_t i;

	give_up_ns = now_ns() + (argc > 2 ? strtoull(argv[2], NULL, 0) : 170) * 1000000000ull;
	open_driver();
	DO(cu.load(&module, otte_copy_image()));
	forms[0] = (struct way){ .name = OTTE_COPY_ENTRY, .submit = by_kernel, .ctas = 2, .lanes = 32 };
	forms[0].kernel = kernel_of(module, OTTE_COPY_ENTRY);
	text = read_text(path);
	DO(cu.load(&module, text));
	free(text);
	for (i = 0; i < ARRAY_SIZE(variants); i++) {
		forms[1 + i] = forms[0];
		forms[1 + i].name = variants[i];
		forms[1 + i].kernel = kernel_of(module, variants[i]);
	}
	back_alias = make_memory();
	for (i = 0; i < ARRAY_SIZE(forms); i++)
		check_all(forms[i], back_alias);
	printf("# every byte is right\n");
	DO(cu.to_device(device, host, AREA_BYTES, stream));
	DO(cu.stream_wait(stream));
	printf("method,direction,layout,row_bytes,rows,ctas,lanes,piece_bytes,rows_in,event_us,wall_us,submit_us,"
	       "event_gbps,wall_gbps\n");
	measure_shapes(&forms[0]);
	measure_pieces(&forms[0]);
	measure_forms(forms, ARRAY_SIZE(forms));
	return 0;
}
