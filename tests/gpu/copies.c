/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Local copies: every byte of both sides, whatever carries them, and what is refused with nothing moved. */
#include "gpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"
#include "seen.h"

#define AREA (4 * MIB)
#define ROUNDS 12
#define DRAWN 300
#define LIMIT 4096u

static struct {
	struct otte_mem *device, *host;
	struct otte_region *on_device, *on_host;
	uint8_t *bytes;                 /* of the host */
	uint8_t *was_device, *was_host; /* what they are to hold */
	uint8_t *read;
	CUstream stream;
} room;

static uint64_t seed;

static int start(void **state)
{
	gpu_start(state);
	seed = gpu_seed();
	MUST(otte_cuda_alloc(engine, 0, AREA, 0, &room.device));
	MUST(otte_cuda_alloc_host(engine, 0, AREA, 0, &room.host));
	room.on_device = gpu_region(room.device, 0, AREA);
	room.on_host = gpu_region(room.host, 0, AREA);
	room.bytes = otte_mem_address(room.host);
	room.was_device = malloc(AREA);
	room.was_host = malloc(AREA);
	room.read = malloc(AREA);
	assert_true(room.was_device && room.was_host && room.read);
	room.stream = gpu_stream();
	return 0;
}

static int stop(void **state)
{
	gpu_stream_gone(room.stream);
	free(room.was_device);
	free(room.was_host);
	free(room.read);
	gpu_region_gone(room.on_device);
	gpu_region_gone(room.on_host);
	MUST(otte_mem_release(room.device));
	MUST(otte_mem_release(room.host));
	return gpu_stop(state);
}

static uint64_t device_address(void)
{
	return (uint64_t)(uintptr_t)otte_mem_address(room.device);
}

/* Both sides hold what no row's bytes are by chance, and that is known here. */
static void fill(void)
{
	uint64_t i, one = gpu_draw(&seed, UINT32_MAX), other = gpu_draw(&seed, UINT32_MAX);

	for (i = 0; i < AREA / 8; i++) {
		((uint64_t *)room.was_device)[i] = (i + one) * 0x9e3779b97f4a7c15ull;
		((uint64_t *)room.was_host)[i] = (i + other) * 0xc2b2ae3d27d4eb4full;
	}
	memcpy(room.bytes, room.was_host, AREA);
	gpu_write(device_address(), room.was_device, AREA);
}

static void check_bytes(void)
{
	uint64_t i;

	gpu_read(room.read, device_address(), AREA);
	for (i = 0; i < AREA && room.read[i] == room.was_device[i]; i++)
		;
	if (i < AREA)
		fail_msg("byte %llu of the device differs", (unsigned long long)i);
	for (i = 0; i < AREA && room.bytes[i] == room.was_host[i]; i++)
		;
	if (i < AREA)
		fail_msg("byte %llu of the host differs", (unsigned long long)i);
}

/* What the rows come to, one after the other. */
static void expect(enum otte_copy_direction direction, const struct otte_copy_desc *descs, size_t count)
{
	uint64_t row;
	size_t i;

	for (i = 0; i < count; i++)
		for (row = 0; row < descs[i].rows; row++) {
			uint8_t *there = room.was_device + descs[i].device_offset + row * descs[i].device_pitch;
			uint8_t *here = room.was_host + descs[i].host_offset + row * descs[i].host_pitch;

			if (direction == OTTE_COPY_TO_DEVICE)
				memcpy(there, here, descs[i].bytes);
			else
				memcpy(here, there, descs[i].bytes);
		}
}

static struct otte_copier *bind_with(const struct otte_copier_config *config)
{
	struct otte_copier *copier;

	MUST(otte_copier_bind(room.device, room.stream, config, &copier));
	return copier;
}

static struct otte_copier *bind_mode(enum otte_copy_mode mode)
{
	struct otte_copier_config config;

	MUST(otte_copier_config_init(&config, sizeof(config)));
	config.mode = mode;
	config.threshold = 8;
	return bind_with(&config);
}

static struct otte_copy_desc one(uint64_t device_offset, uint64_t host_offset, uint64_t bytes)
{
	return (struct otte_copy_desc){ .device = room.on_device,
					.host = room.on_host,
					.device_offset = device_offset,
					.host_offset = host_offset,
					.bytes = bytes,
					.rows = 1 };
}

static void submit_and_wait(struct otte_copier *copier, enum otte_copy_direction direction,
			    const struct otte_copy_desc *descs, size_t count)
{
	struct otte_copy *copy;

	MUST(otte_copier_submit(copier, direction, descs, count, NULL, &copy));
	MUST(otte_copy_wait(copy, PATIENCE_NS));
	MUST(otte_copy_poll(copy));
	otte_copy_put(copy);
}

static struct otte_copy_class class_of(struct otte_copier *copier, enum otte_copy_direction direction)
{
	struct otte_copier_stats stats = { .size = sizeof(stats) };

	MUST(otte_copier_stats(copier, &stats));
	return stats.classes[direction][OTTE_INTENT_UNSPEC][OTTE_PRIORITY_HIGH];
}

/* ---- Every byte ------------------------------------------------------------------------------ */

static uint64_t draw_bytes(void)
{
	static const uint64_t lengths[] = { 0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 512, 1000, 2048, 4095, 4097, 9000 };

	return lengths[gpu_draw(&seed, ARRAY_SIZE(lengths))];
}

/* Rows apart from each other on both sides, at any alignment, in any order. */
static size_t draw_descs(struct otte_copy_desc *descs)
{
	uint64_t device = 0, host = 0, span;
	size_t count = 0, i;

	while (count < DRAWN) {
		struct otte_copy_desc desc = one(0, 0, draw_bytes());

		desc.rows = gpu_draw(&seed, 4) ? 1 : gpu_draw(&seed, 6);
		desc.device_pitch = desc.bytes + gpu_draw(&seed, 3) * gpu_draw(&seed, 40);
		desc.host_pitch = desc.bytes + gpu_draw(&seed, 3) * gpu_draw(&seed, 40);
		device += gpu_draw(&seed, 3) * gpu_draw(&seed, 70);
		host += gpu_draw(&seed, 3) * gpu_draw(&seed, 70);
		desc.device_offset = device;
		desc.host_offset = host;
		span = 6 * max_u64(desc.device_pitch, desc.host_pitch);
		if (device + span > AREA || host + span > AREA)
			break;
		device += desc.rows * desc.device_pitch;
		host += desc.rows * desc.host_pitch;
		descs[count++] = desc;
	}
	for (i = count; i > 1; i--) {
		size_t other = gpu_draw(&seed, i);
		struct otte_copy_desc held = descs[i - 1];

		descs[i - 1] = descs[other];
		descs[other] = held;
	}
	return count;
}

static void rows_arrive(enum otte_copy_mode mode, uint32_t cta_limit, bool wide)
{
	struct otte_copy_desc descs[DRAWN];
	struct otte_copier_config config;
	struct otte_copier *copier;
	size_t count;
	int round;

	MUST(otte_copier_config_init(&config, sizeof(config)));
	config.mode = mode;
	config.threshold = 8;
	config.cta_limit = cta_limit;
	config.wide = wide;
	copier = bind_with(&config);
	for (round = 0; round < ROUNDS; round++) {
		enum otte_copy_direction direction = round & 1 ? OTTE_COPY_TO_HOST : OTTE_COPY_TO_DEVICE;

		fill();
		count = draw_descs(descs);
		expect(direction, descs, count);
		submit_and_wait(copier, direction, descs, count);
		check_bytes();
		assert_int_equal(class_of(copier, direction).last_backend,
				 mode == OTTE_COPY_DMA ? OTTE_COPY_BY_DMA : OTTE_COPY_BY_KERNEL);
	}
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

static void dma_moves_every_row_and_nothing_else(void **state)
{
	(void)state;
	rows_arrive(OTTE_COPY_DMA, 0, false);
}

static void the_kernel_moves_every_row_and_nothing_else(void **state)
{
	(void)state;
	rows_arrive(OTTE_COPY_KERNEL, 0, false);
	rows_arrive(OTTE_COPY_KERNEL, 1, false);
	rows_arrive(OTTE_COPY_KERNEL, 0, true);
}

static void auto_moves_every_row_and_nothing_else(void **state)
{
	(void)state;
	rows_arrive(OTTE_COPY_AUTO, 3, false);
}

static void rows_of_one_pitch_go_as_one_copy(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_AUTO);
	struct otte_copy_desc desc = one(5, 3, 700);
	enum otte_copy_direction direction;

	(void)state;
	desc.rows = 1000;
	desc.device_pitch = 1024;
	desc.host_pitch = 800;
	for (direction = OTTE_COPY_TO_DEVICE; direction <= OTTE_COPY_TO_HOST; direction++) {
		fill();
		expect(direction, &desc, 1);
		submit_and_wait(copier, direction, &desc, 1);
		check_bytes();
		assert_int_equal(class_of(copier, direction).last_reason, OTTE_COPY_BELOW_THRESHOLD);
	}
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

/* Written in order, as if one by one; and never by the kernel. */
static void rows_that_meet_are_written_in_order(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_AUTO), *kernel;
	struct otte_copy_desc descs[64];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(descs); i++)
		descs[i] = one(gpu_draw(&seed, 3000), 4096 * i + gpu_draw(&seed, 9), 1 + gpu_draw(&seed, 2000));
	fill();
	expect(OTTE_COPY_TO_DEVICE, descs, ARRAY_SIZE(descs));
	submit_and_wait(copier, OTTE_COPY_TO_DEVICE, descs, ARRAY_SIZE(descs));
	check_bytes();
	assert_int_equal(class_of(copier, OTTE_COPY_TO_DEVICE).last_reason, OTTE_COPY_OVERLAP);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	kernel = bind_mode(OTTE_COPY_KERNEL);
	assert_int_equal(otte_copier_submit(kernel, OTTE_COPY_TO_DEVICE, descs, ARRAY_SIZE(descs), NULL, NULL),
			 -EINVAL);
	check_bytes();
	MUST(otte_copier_destroy(kernel, PATIENCE_NS));
}

static void nothing_to_copy_is_a_marker(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_AUTO);
	struct otte_copy_desc descs[] = { one(0, 0, 0), one(8, 8, 100) };

	(void)state;
	descs[1].rows = 0;
	fill();
	submit_and_wait(copier, OTTE_COPY_TO_HOST, NULL, 0);
	submit_and_wait(copier, OTTE_COPY_TO_HOST, descs, ARRAY_SIZE(descs));
	check_bytes();
	assert_int_equal(class_of(copier, OTTE_COPY_TO_HOST).empty, 2);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void so_many_rows_and_not_one_more(void **state)
{
	static const enum otte_copy_mode modes[] = { OTTE_COPY_DMA, OTTE_COPY_KERNEL };
	static struct otte_copy_desc descs[LIMIT + 1];
	size_t i, mode;

	(void)state;
	for (i = 0; i <= LIMIT; i++)
		descs[i] = one(i * 700 + 1, (LIMIT - i) * 800 + 2, 600);
	for (mode = 0; mode < ARRAY_SIZE(modes); mode++) {
		struct otte_copier *copier = bind_mode(modes[mode]);
		struct otte_copy_desc strided = one(0, 0, 4);

		fill();
		expect(OTTE_COPY_TO_DEVICE, descs, LIMIT);
		submit_and_wait(copier, OTTE_COPY_TO_DEVICE, descs, LIMIT);
		check_bytes();
		assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_HOST, descs, LIMIT + 1, NULL, NULL), -EDQUOT);
		assert_non_null(strstr(otte_error_text(), "max_rows"));
		strided.rows = LIMIT + 1;
		strided.device_pitch = strided.host_pitch = 8;
		assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_HOST, &strided, 1, NULL, NULL), -EDQUOT);
		check_bytes();
		MUST(otte_copier_destroy(copier, PATIENCE_NS));
	}
}

static void bytes_and_slots_are_bounded(void **state)
{
	struct otte_copier_stats stats = { .size = sizeof(stats) };
	struct otte_copier_config config;
	struct otte_copy_desc desc = one(0, 0, 1 * MIB);
	struct otte_copy *copies[3];
	struct otte_copier *copier;
	int i;

	(void)state;
	MUST(otte_copier_config_init(&config, sizeof(config)));
	config.max_bytes = MIB;
	copier = bind_with(&config);
	desc.bytes++;
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL), -EDQUOT);
	desc.bytes--;
	fill();
	expect(OTTE_COPY_TO_DEVICE, &desc, 1);
	submit_and_wait(copier, OTTE_COPY_TO_DEVICE, &desc, 1);
	check_bytes();
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	config.max_bytes = 256 * MIB;
	config.slots = 2;
	copier = bind_with(&config);
	for (i = 0; i < 3; i++) {
		int ret = otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, &copies[i]);

		/* A third one that is refused finds two under way; one that is not, finds them over. */
		assert_true(!ret || (i == 2 && ret == -EDQUOT));
	}
	for (i = 0; i < 3; i++)
		if (copies[i]) {
			MUST(otte_copy_wait(copies[i], PATIENCE_NS));
			otte_copy_put(copies[i]);
		}
	MUST(otte_copier_stats(copier, &stats));
	assert_int_equal(stats.slots_used, 0);
	assert_int_equal(stats.bytes_charged, 0);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

static void what_is_no_row_of_its_views_is_refused(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_AUTO);
	struct otte_copy_options options = { .intent = OTTE_COPY_INTENTS };
	struct otte_copy_desc desc = one(AREA - 7, 0, 8);

	(void)state;
	fill();
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL), -ERANGE);
	desc = one(0, AREA, 1);
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL), -ERANGE);
	desc = one(0, 0, 1);
	desc.device = room.on_host;
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL), -EINVAL);
	desc.device = room.on_device;
	desc.host = room.on_device;
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL), -EINVAL);
	desc.host = NULL;
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL), -EINVAL);
	desc = one(0, 0, 1);
	assert_int_equal(otte_copier_submit(copier, (enum otte_copy_direction)2, &desc, 1, NULL, NULL), -EINVAL);
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, &options, NULL), -EINVAL);
	check_bytes();
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

static void configs_are_refused_by_name(void **state)
{
	struct otte_copier_config config;
	struct otte_copier *copier;

	(void)state;
#define REFUSED(field, value, code, word)                                                           \
	do {                                                                                        \
		MUST(otte_copier_config_init(&config, sizeof(config)));                             \
		config.field = value;                                                               \
		assert_int_equal(otte_copier_bind(room.device, room.stream, &config, &copier), code); \
		assert_non_null(strstr(otte_error_text(), word));                                   \
	} while (0)
	REFUSED(mode, 3, -EINVAL, "mode");
	REFUSED(threshold_background, 128, -EINVAL, "background");
	REFUSED(max_rows, 0, -EINVAL, "max_rows");
	REFUSED(slots, 0, -EINVAL, "slots");
	REFUSED(max_bytes, 0, -EINVAL, "max_bytes");
	REFUSED(wide, 2, -EINVAL, "wide");
	REFUSED(cta_limit, 65536, -ERANGE, "CTA");
	REFUSED(size, 3, -EINVAL, "size");
#undef REFUSED
	assert_int_equal(otte_copier_bind(room.host, room.stream, NULL, &copier), -EOPNOTSUPP);
	assert_int_equal(otte_copier_bind(NULL, room.stream, NULL, &copier), -EINVAL);
	assert_int_equal(otte_copier_config_init(&config, 3), -EINVAL);
}

/* ---- Streams and contexts -------------------------------------------------------------------- */

static void default_streams_take_copies_as_well(void **state)
{
	const CUstream streams[] = { NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD };
	struct otte_copy_desc descs[DRAWN];
	struct otte_copier *copier;
	size_t i, count;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(streams); i++) {
		MUST(otte_copier_bind(room.device, streams[i], NULL, &copier));
		fill();
		count = draw_descs(descs);
		expect(OTTE_COPY_TO_HOST, descs, count);
		submit_and_wait(copier, OTTE_COPY_TO_HOST, descs, count);
		check_bytes();
		MUST(otte_copier_destroy(copier, PATIENCE_NS));
	}
}

static void *submit_elsewhere(void *arg)
{
	struct otte_copy_desc desc = one(0, 0, 8);

	/* NOLINTNEXTLINE(performance-no-int-to-ptr): a code, as a thread says it */
	return (void *)(intptr_t)otte_copier_submit(arg, OTTE_COPY_TO_HOST, &desc, 1, NULL, NULL);
}

static int submit_in_a_thread(struct otte_copier *copier)
{
	pthread_t thread;
	void *ret;

	assert_int_equal(pthread_create(&thread, NULL, submit_elsewhere, copier), 0);
	assert_int_equal(pthread_join(thread, &ret), 0);
	return (int)(intptr_t)ret;
}

static void a_per_thread_stream_is_that_threads(void **state)
{
	struct otte_copier *copier;

	(void)state;
	MUST(otte_copier_bind(room.device, CU_STREAM_PER_THREAD, NULL, &copier));
	assert_int_equal(submit_in_a_thread(copier), -EINVAL);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	/* Of others each thread may, and need not have a context. */
	MUST(otte_copier_bind(room.device, room.stream, NULL, &copier));
	assert_int_equal(submit_in_a_thread(copier), 0);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

static void the_callers_context_stays_an_empty_one_too(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_AUTO);
	struct otte_copy_desc desc = one(1, 2, 3);
	CUcontext popped, current;
	struct otte_copy *copy;

	(void)state;
	fill();
	expect(OTTE_COPY_TO_HOST, &desc, 1);
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_HOST, &desc, 1, NULL, &copy));
	MUST_CUDA(gpu->ctx_get_current(&current));
	assert_null(current);
	MUST(otte_copy_wait(copy, PATIENCE_NS));
	MUST_CUDA(gpu->ctx_get_current(&current));
	assert_null(current);
	otte_copy_put(copy);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	MUST_CUDA(gpu->ctx_get_current(&current));
	assert_null(current);
	MUST_CUDA(gpu->ctx_push_current(popped));
	check_bytes();
}

typedef CUresult (*begin_capture_t)(CUstream stream, int mode);
typedef CUresult (*end_capture_t)(CUstream stream, void **graph);

static void a_stream_that_is_capturing_takes_nothing(void **state)
{
	begin_capture_t begin = (begin_capture_t)gpu_symbol("cuStreamBeginCapture_v2");
	end_capture_t end = (end_capture_t)gpu_symbol("cuStreamEndCapture");
	struct otte_copier *copier = bind_mode(OTTE_COPY_AUTO), *other;
	struct otte_copy_desc desc = one(0, 0, 64);
	struct otte_copy *copy = NULL;
	void *graph;

	(void)state;
	assert_true(begin && end);
	fill();
	MUST_CUDA(begin(room.stream, 2)); /* relaxed: others of this thread go on */
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_HOST, &desc, 1, NULL, &copy), -EBUSY);
	assert_null(copy);
	assert_int_equal(otte_copier_bind(room.device, room.stream, NULL, &other), -EBUSY);
	assert_int_equal(otte_cuda_record(room.device, room.stream), -EBUSY);
	MUST_CUDA(end(room.stream, &graph));
	check_bytes();
	expect(OTTE_COPY_TO_HOST, &desc, 1);
	submit_and_wait(copier, OTTE_COPY_TO_HOST, &desc, 1);
	check_bytes();
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

/* ---- Producers and completions --------------------------------------------------------------- */

/* Much for another stream to do before it writes what is then copied. */
static void write_late(CUstream stream, uint64_t to, const uint8_t *from, size_t bytes)
{
	int i;

	for (i = 0; i < 64; i++)
		MUST_CUDA(gpu->memcpy_dtod_async(device_address() + AREA / 2, device_address() + AREA / 2 + MIB, MIB,
						 stream));
	MUST_CUDA(gpu->memcpy_htod_async(to, from, bytes, stream));
}

static void copies_come_after_their_producers(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_AUTO);
	struct otte_copy_desc desc = one(0, 0, 64 * KIB);
	struct otte_copy_options options = { 0 };
	CUstream producer = gpu_stream();
	CUevent event;
	int way;

	(void)state;
	MUST_CUDA(gpu->event_create(&event, CU_EVENT_DISABLE_TIMING));
	for (way = 0; way < 2; way++) {
		uint8_t *from = room.bytes + 2 * MIB;
		struct otte_copy *copy;

		fill();
		memcpy(room.was_device, room.was_host + 2 * MIB, desc.bytes);
		memcpy(room.was_device + AREA / 2, room.was_device + AREA / 2 + MIB, MIB);
		expect(OTTE_COPY_TO_HOST, &desc, 1);
		write_late(producer, device_address(), from, desc.bytes);
		if (way) {
			MUST_CUDA(gpu->event_record(event, producer));
			options.ready = event;
		} else {
			MUST(otte_cuda_record(room.device, producer));
		}
		MUST(otte_copier_submit(copier, OTTE_COPY_TO_HOST, &desc, 1, &options, &copy));
		MUST(otte_copy_wait(copy, PATIENCE_NS));
		otte_copy_put(copy);
		check_bytes();
	}
	MUST_CUDA(gpu->event_destroy(event));
	gpu_stream_gone(producer);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

static void a_completion_outlives_handle_and_copier(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_AUTO);
	struct otte_copy_desc desc = one(0, 0, MIB);
	struct otte_copy *copies[3];
	int i;

	(void)state;
	fill();
	expect(OTTE_COPY_TO_HOST, &desc, 1);
	for (i = 0; i < 3; i++)
		MUST(otte_copier_submit(copier, OTTE_COPY_TO_HOST, &desc, 1, NULL, &copies[i]));
	otte_copy_put(copies[0]);
	MUST(otte_copier_progress(copier));
	MUST(otte_copier_close(copier, PATIENCE_NS));
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_HOST, &desc, 1, NULL, NULL), -ESHUTDOWN);
	MUST(otte_copier_close(copier, 0));
	check_bytes();
	assert_int_equal(otte_copy_poll(copies[1]), 0);
	otte_copy_put(copies[1]);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	assert_int_equal(otte_copy_wait(copies[2], 0), 0);
	otte_copy_put(copies[2]);
	otte_copy_put(NULL);
	MUST(otte_copier_destroy(NULL, 0));
}

/* ---- Arenas ---------------------------------------------------------------------------------- */

static void slots_of_an_arena_are_copied_as_one_and_outlive_no_copy(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA);
	void *arena = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct otte_region *views[2];
	struct otte_copy_desc descs[2];
	struct otte_cuda_pin *pin;
	struct otte_mem *slots[3];
	struct otte_copy *copy;
	size_t pending;
	int i;

	(void)state;
	assert_ptr_not_equal(arena, MAP_FAILED);
	MUST(otte_cuda_pin(engine, 0, arena, MIB, 0, &pin));
	for (i = 0; i < 2; i++) {
		MUST(otte_cuda_slot(pin, (uint8_t *)arena + i * 256 * KIB, 256 * KIB, &slots[i]));
		views[i] = gpu_region(slots[i], 0, 256 * KIB);
		descs[i] = one((uint64_t)i * 256 * KIB, 0, 256 * KIB);
		descs[i].host = views[i];
	}
	assert_int_equal(otte_cuda_slot(pin, arena, 1, &slots[2]), -EEXIST);
	assert_int_equal(otte_cuda_slot(pin, (uint8_t *)arena + MIB - 1, 2, &slots[2]), -ERANGE);
	assert_int_equal(otte_cuda_unpin(pin), -EBUSY);
	fill();
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_HOST, descs, 2, NULL, &copy));
	/* A slot goes when its copy is over, and no sooner. */
	if (otte_region_unregister(views, 1, 0, &pending) == -ETIMEDOUT)
		assert_int_equal(otte_mem_release(slots[0]), -EBUSY);
	else
		views[0] = NULL;
	MUST(otte_copy_wait(copy, PATIENCE_NS));
	otte_copy_put(copy);
	assert_memory_equal(arena, room.was_device, 512 * KIB);
	for (i = 0; i < 2; i++) {
		if (views[i])
			gpu_region_gone(views[i]);
		MUST(otte_mem_release(slots[i]));
	}
	MUST(otte_cuda_unpin(pin));
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	munmap(arena, MIB);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(dma_moves_every_row_and_nothing_else),
		cmocka_unit_test(the_kernel_moves_every_row_and_nothing_else),
		cmocka_unit_test(auto_moves_every_row_and_nothing_else),
		cmocka_unit_test(rows_of_one_pitch_go_as_one_copy),
		cmocka_unit_test(rows_that_meet_are_written_in_order),
		cmocka_unit_test(nothing_to_copy_is_a_marker),
		cmocka_unit_test(so_many_rows_and_not_one_more),
		cmocka_unit_test(bytes_and_slots_are_bounded),
		cmocka_unit_test(what_is_no_row_of_its_views_is_refused),
		cmocka_unit_test(configs_are_refused_by_name),
		cmocka_unit_test(default_streams_take_copies_as_well),
		cmocka_unit_test(a_per_thread_stream_is_that_threads),
		cmocka_unit_test(the_callers_context_stays_an_empty_one_too),
		cmocka_unit_test(a_stream_that_is_capturing_takes_nothing),
		cmocka_unit_test(copies_come_after_their_producers),
		cmocka_unit_test(a_completion_outlives_handle_and_copier),
		cmocka_unit_test(slots_of_an_arena_are_copied_as_one_and_outlive_no_copy),
	};

	return cmocka_run_group_tests_name("local copies", tests, start, stop);
}
