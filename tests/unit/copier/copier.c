/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A copier over a simulated GPU: what becomes of a submission of which a call fails, of one whose end cannot be told,
 * and of a copier that cannot be made or unmade whole.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "gpu/gpu.h"
#include "seen.h"
#include "sim/cuda/sim.h"

#define AREA MIB
#define ROW 256u
#define ROWS 512u
/* Calls of a bind, and more. */
#define MOST_CALLS 200u

/* What each test has. `lost`: something of it cannot be given back, and stays. */
static struct room {
	struct otte_mem *device, *host;
	struct otte_region *on_device, *on_host;
	uint8_t *bytes;
	CUstream stream;
	struct sim_cuda_balance before;
	bool lost;
} room;

/* Engines of which something stays, for as long as the process lives. */
static struct otte_engine *left[64];
static size_t left_count;

static int start(void **state)
{
	sim_cuda_reset();
	sim_cuda_balance(&room.before);
	gpu_start(state);
	MUST(otte_cuda_alloc(engine, 0, AREA, 0, &room.device));
	MUST(otte_cuda_alloc_host(engine, 0, AREA, 0, &room.host));
	room.on_device = gpu_region(room.device, 0, AREA);
	room.on_host = gpu_region(room.host, 0, AREA);
	room.bytes = otte_mem_address(room.host);
	room.stream = gpu_stream();
	room.lost = false;
	return 0;
}

static void nothing_is_left(void)
{
	struct sim_cuda_balance after;
	const char *text;

	sim_cuda_balance(&after);
	assert_memory_equal(&after, &room.before, sizeof(after));
	if (sim_cuda_violations(&text))
		fail_msg("%s", text);
}

static int stop(void **state)
{
	CUcontext context;

	if (room.lost) {
		assert_int_equal(otte_engine_destroy(engine), -EBUSY);
		left[left_count++] = engine;
		sim_cuda_reset();
		assert_int_equal(gpu->ctx_pop_current(&context), 0);
		return 0;
	}
	gpu_stream_gone(room.stream);
	gpu_region_gone(room.on_device);
	gpu_region_gone(room.on_host);
	MUST(otte_mem_release(room.device));
	MUST(otte_mem_release(room.host));
	gpu_stop(state);
	nothing_is_left();
	return 0;
}

static struct otte_copier *bind_mode(enum otte_copy_mode mode, uint32_t slots)
{
	struct otte_copier_config config;
	struct otte_copier *copier;

	MUST(otte_copier_config_init(&config, sizeof(config)));
	config.mode = mode;
	config.threshold = 8;
	config.max_rows = ROWS;
	config.slots = slots;
	MUST(otte_copier_bind(room.device, room.stream, &config, &copier));
	return copier;
}

/* Rows apart from each other on the device, and in the opposite order on the host. */
static void make_descs(struct otte_copy_desc *descs, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		descs[i] =
			(struct otte_copy_desc){ .device = room.on_device,
						 .host = room.on_host,
						 .device_offset = (uint64_t)i * 2 * ROW,
						 .host_offset = (uint64_t)(count - 1 - i) * 2 * ROW,
						 .bytes = ROW,
						 .rows = 1 };
}

static uint8_t *device_bytes(void)
{
	uint8_t *at = sim_cuda_reach((uint64_t)(uintptr_t)otte_mem_address(room.device), AREA);

	assert_non_null(at);
	return at;
}

static struct otte_copier_stats stats_of(struct otte_copier *copier)
{
	struct otte_copier_stats stats = { .size = sizeof(stats) };

	MUST(otte_copier_stats(copier, &stats));
	return stats;
}

/* ---- A call that fails in the middle --------------------------------------------------------- */

/* What the driver took before goes through, and the handle says when, and why not all of it. */
static void part_of(struct otte_copier *copier, const char *call, uint32_t taken)
{
	struct otte_copy_desc descs[16];
	uint8_t *device = device_bytes();
	struct otte_copy *copy = NULL;
	uint32_t i;

	make_descs(descs, ARRAY_SIZE(descs));
	memset(device, 0xee, AREA);
	for (i = 0; i < AREA; i++)
		room.bytes[i] = (uint8_t)(i / ROW + 1);
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, descs, ARRAY_SIZE(descs),
					    NULL, &copy),
			 -EIO);
	gpu_says(call);
	assert_non_null(copy);
	assert_int_equal(otte_copy_wait(copy, PATIENCE_NS), -EIO);
	gpu_says(call);
	assert_int_equal(otte_copy_poll(copy), -EIO);
	otte_copy_put(copy);
	for (i = 0; i < ARRAY_SIZE(descs); i++)
		assert_int_equal(device[descs[i].device_offset],
				 i < taken ? room.bytes[descs[i].host_offset] : 0xee);
	assert_int_equal(stats_of(copier).failed, 1);
	assert_int_equal(stats_of(copier).slots_used, 0);
	assert_int_equal(stats_of(copier).bytes_charged, 0);
	/* The next is as if nothing had been. */
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, descs, ARRAY_SIZE(descs), NULL,
				&copy));
	MUST(otte_copy_wait(copy, PATIENCE_NS));
	otte_copy_put(copy);
	for (i = 0; i < ARRAY_SIZE(descs); i++)
		assert_memory_equal(device + descs[i].device_offset,
				    room.bytes + descs[i].host_offset, ROW);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

/* The table of the process, as of a driver that lacks what is given. */
static struct otte_cuda *as_of(bool with_12, bool with_13)
{
	static CUresult (*batch_12)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t,
				    CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream);
	static CUresult (*batch_13)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t,
				    CUmemcpyAttributes *, size_t *, size_t, CUstream);
	struct otte_cuda *table = (struct otte_cuda *)gpu;

	if (!batch_12) {
		batch_12 = table->memcpy_batch_async_12;
		batch_13 = table->memcpy_batch_async_13;
	}
	table->memcpy_batch_async_12 = with_12 ? batch_12 : NULL;
	table->memcpy_batch_async_13 = with_13 ? batch_13 : NULL;
	return table;
}

static void a_call_of_many_that_fails_in_the_middle_is_told_when_it_is_over(void **state)
{
	(void)state;
	sim_cuda_fail_batch(3, CUDA_ERROR_UNKNOWN);
	part_of(bind_mode(OTTE_COPY_DMA, 2), "cuMemcpyBatchAsync_v2", 3);
	as_of(true, false);
	sim_cuda_fail_batch(5, CUDA_ERROR_UNKNOWN);
	part_of(bind_mode(OTTE_COPY_DMA, 2), "cuMemcpyBatchAsync", 5);
	as_of(true, true);
}

static void so_is_one_of_single_copies(void **state)
{
	(void)state;
	as_of(false, false);
	sim_cuda_fail("cuMemcpyHtoDAsync_v2", 3, CUDA_ERROR_UNKNOWN, 1);
	part_of(bind_mode(OTTE_COPY_DMA, 2), "cuMemcpyHtoDAsync_v2", 2);
	as_of(true, true);
}

static void so_is_the_kernel_s_launch_behind_its_rows(void **state)
{
	(void)state;
	sim_cuda_fail("cuLaunchKernel", 1, CUDA_ERROR_UNKNOWN, 1);
	part_of(bind_mode(OTTE_COPY_KERNEL, 2), "cuLaunchKernel", 0);
	sim_cuda_fail("cuMemcpyHtoDAsync_v2", 1, CUDA_ERROR_UNKNOWN, 1);
	part_of(bind_mode(OTTE_COPY_KERNEL, 2), "cuMemcpyHtoDAsync_v2", 0);
}

/* To the device, where they take longer in one call. */
static void a_few_rows_are_calls_of_their_own(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 1);
	struct otte_copy_desc descs[16];
	struct otte_copy *copy;
	uint32_t way;

	(void)state;
	for (way = 0; way < 3; way++) {
		make_descs(descs, 15 + way / 2);
		MUST(otte_copier_submit(copier, way == 1 ? OTTE_COPY_TO_HOST : OTTE_COPY_TO_DEVICE, descs, 15 + way / 2,
					NULL, &copy));
		MUST(otte_copy_wait(copy, PATIENCE_NS));
		otte_copy_put(copy);
		assert_int_equal(sim_cuda_calls("cuMemcpyBatchAsync_v2"), way);
	}
	assert_int_equal(sim_cuda_calls("cuMemcpyHtoDAsync_v2"), 15);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

static void strided_rows_are_one_call_of_the_driver_s(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 1);
	struct otte_copy_desc desc;
	struct otte_copy *copy;

	(void)state;
	make_descs(&desc, 1);
	desc.rows = 100;
	desc.device_pitch = 2 * ROW;
	desc.host_pitch = 3 * ROW;
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_HOST, &desc, 1, NULL, &copy));
	MUST(otte_copy_wait(copy, PATIENCE_NS));
	otte_copy_put(copy);
	assert_int_equal(sim_cuda_calls("cuMemcpy2DAsync_v2"), 1);
	assert_int_equal(sim_cuda_calls("cuMemcpyBatchAsync_v2"), 0);
	sim_cuda_fail("cuMemcpy2DAsync_v2", 1, CUDA_ERROR_UNKNOWN, 1);
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, &copy),
			 -EIO);
	assert_int_equal(otte_copy_wait(copy, PATIENCE_NS), -EIO);
	otte_copy_put(copy);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	assert_int_equal(sim_cuda_pageable(), 0);
}

/* ---- An end that cannot be told -------------------------------------------------------------- */

/* The copier takes nothing more, its views stay, and the ledger says so. */
static void is_stuck(struct otte_copier *copier, struct otte_copy *copy)
{
	struct otte_copy_desc desc;
	size_t pending;

	make_descs(&desc, 1);
	assert_int_equal(otte_copy_poll(copy), -EUCLEAN);
	assert_int_equal(otte_copy_wait(copy, PATIENCE_NS), -EUCLEAN);
	assert_int_equal(stats_of(copier).unquiesced, 1);
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL),
			 -EUCLEAN);
	assert_int_equal(otte_copier_progress(copier), -EUCLEAN);
	assert_int_equal(otte_copier_close(copier, PATIENCE_NS), -EUCLEAN);
	assert_int_equal(gpu_stats().retained, 0);
	assert_int_equal(otte_copier_destroy(copier, PATIENCE_NS), -EUCLEAN);
	assert_int_equal(otte_copy_poll(copy), -EUCLEAN);
	otte_copy_put(copy);
	assert_int_equal(gpu_stats().retained, 1);
	sim_cuda_settle();
	assert_int_equal(otte_region_unregister(&room.on_device, 1, 0, &pending), -ETIMEDOUT);
	assert_int_equal(otte_mem_release(room.device), -EBUSY);
	room.lost = true;
}

static void without_a_marker_nothing_can_be_told(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 2);
	struct otte_copy_desc descs[4];
	struct otte_copy *copy = NULL;

	(void)state;
	make_descs(descs, 4);
	sim_cuda_fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN, 1);
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, descs, 4, NULL, &copy),
			 -EUCLEAN);
	assert_non_null(copy);
	is_stuck(copier, copy);
}

static void a_question_that_fails_is_no_answer(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_KERNEL, 2);
	struct otte_copy_desc descs[16];
	struct otte_copy *copy;

	(void)state;
	make_descs(descs, 16);
	sim_cuda_fail("cuEventQuery", 1, CUDA_ERROR_UNKNOWN, 1);
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, descs, 16, NULL, &copy));
	assert_int_equal(otte_copy_wait(copy, PATIENCE_NS), -EUCLEAN);
	gpu_says("cuEventQuery");
	is_stuck(copier, copy);
}

static void work_that_failed_spoils_what_is_under_way(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 2);
	struct otte_copy_desc desc;
	struct otte_copy *copy;

	(void)state;
	make_descs(&desc, 1);
	sim_cuda_fail_work(1, CUDA_ERROR_ILLEGAL_ADDRESS);
	sim_cuda_hold(room.stream);
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, &copy));
	sim_cuda_release(room.stream);
	assert_int_equal(otte_copy_wait(copy, PATIENCE_NS), -EUCLEAN);
	gpu_says("CUDA_ERROR_ILLEGAL_ADDRESS");
	is_stuck(copier, copy);
	sim_cuda_context_spoil(gpu_context, CUDA_SUCCESS);
}

/* Whoever waits may not go on as if the thread's context were its own. */
static void a_context_that_does_not_come_back_ends_what_is_under_way(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 2);
	struct otte_copy_desc desc;
	struct otte_copy *copy;
	CUcontext popped;

	(void)state;
	make_descs(&desc, 1);
	MUST_CUDA(gpu->ctx_pop_current(&popped));
	sim_cuda_fail("cuCtxPopCurrent_v2", 1, CUDA_ERROR_UNKNOWN, 1);
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, &copy),
			 -EUCLEAN);
	gpu_says("cuCtxPopCurrent_v2");
	is_stuck(copier, copy);
}

static void one_that_is_destroyed_before_it_is_done_stays(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 2);
	struct otte_copy_desc desc;
	struct otte_copy *copy;

	(void)state;
	make_descs(&desc, 1);
	sim_cuda_hold(room.stream);
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, &copy));
	assert_int_equal(otte_copier_close(copier, 0), -ETIMEDOUT);
	assert_int_equal(otte_copy_poll(copy), -EAGAIN);
	assert_int_equal(otte_copy_wait(copy, 1000), -ETIMEDOUT);
	assert_int_equal(gpu_stats().retained, 0);
	assert_int_equal(otte_copier_destroy(copier, 1000), -EUCLEAN);
	assert_int_equal(otte_copy_poll(copy), -EUCLEAN);
	otte_copy_put(copy);
	assert_int_equal(gpu_stats().retained, 1);
	sim_cuda_release(room.stream);
	sim_cuda_settle();
	assert_int_equal(otte_mem_release(room.device), -EBUSY);
	room.lost = true;
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void an_answer_that_does_not_come_is_asked_for_again(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 2);
	struct otte_copy_desc desc;
	struct otte_copy *copy;

	(void)state;
	make_descs(&desc, 1);
	sim_cuda_not_ready(1000);
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, &copy));
	MUST(otte_copy_wait(copy, PATIENCE_NS));
	assert_true(sim_cuda_calls("cuEventQuery") > 1000);
	otte_copy_put(copy);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

static void slots_are_so_many_and_one_that_is_over_is_taken_again(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 2);
	struct otte_copy *copies[3] = { 0 };
	struct otte_copy_desc desc;
	size_t pending;

	(void)state;
	make_descs(&desc, 1);
	sim_cuda_hold(room.stream);
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, &copies[0]));
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL));
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL,
					    &copies[1]),
			 -EDQUOT);
	gpu_says("slots");
	assert_null(copies[1]);
	assert_int_equal(otte_region_unregister(&room.on_host, 1, 0, &pending), -ETIMEDOUT);
	/* Two pieces each: the copy and the marker. */
	sim_cuda_step(room.stream);
	sim_cuda_step(room.stream);
	sim_cuda_settle();
	MUST(otte_copy_poll(copies[0]));
	assert_int_equal(stats_of(copier).slots_used, 1);
	sim_cuda_release(room.stream);
	sim_cuda_settle();
	/* The second has no handle, and is seen to be over by who comes. */
	assert_int_equal(stats_of(copier).slots_used, 1);
	MUST(otte_copier_progress(copier));
	assert_int_equal(stats_of(copier).slots_used, 0);
	assert_int_equal(stats_of(copier).completed, 2);
	otte_copy_put(copies[0]);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	MUST(otte_region_unregister(&room.on_host, 1, PATIENCE_NS, NULL));
	room.on_host = gpu_region(room.host, 0, AREA);
}

static void *wait_for(void *arg)
{
	struct otte_copy *copy = arg;
	static int code;

	code = otte_copy_wait(copy, -1);
	return &code;
}

static void a_wait_for_ever_ends_with_the_copy(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 1);
	struct otte_copy_desc desc;
	struct otte_copy *copy;
	pthread_t thread;
	void *code;

	(void)state;
	make_descs(&desc, 1);
	sim_cuda_hold(room.stream);
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, &copy));
	assert_int_equal(pthread_create(&thread, NULL, wait_for, copy), 0);
	while (sim_cuda_calls("cuEventQuery") < 50)
		;
	sim_cuda_release(room.stream);
	assert_int_equal(pthread_join(thread, &code), 0);
	assert_int_equal(*(int *)code, 0);
	otte_copy_put(copy);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

static void the_stream_waits_for_a_producer_and_the_caller_does_not(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_AUTO, 2);
	CUstream producer = gpu_stream();
	struct otte_copy_desc desc;
	struct otte_copy *copy;
	uint8_t *device = device_bytes();

	(void)state;
	make_descs(&desc, 1);
	memset(room.bytes, 0, AREA);
	memset(device, 7, AREA);
	memset(room.bytes + AREA / 2, 9, ROW);
	sim_cuda_hold(producer);
	MUST_CUDA(gpu->memcpy_htod_async((uint64_t)(uintptr_t)otte_mem_address(room.device),
					 room.bytes + AREA / 2, ROW, producer));
	MUST(otte_cuda_record(room.device, producer));
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_HOST, &desc, 1, NULL, &copy));
	sim_cuda_settle();
	assert_int_equal(otte_copy_poll(copy), -EAGAIN);
	assert_int_equal(room.bytes[0], 0);
	sim_cuda_release(producer);
	MUST(otte_copy_wait(copy, PATIENCE_NS));
	assert_int_equal(room.bytes[0], 9);
	otte_copy_put(copy);
	gpu_stream_gone(producer);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

static void a_producer_that_failed_lets_nobody_through(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_AUTO, 2);
	struct otte_copy_desc desc;
	struct otte_copy *copy = NULL;

	(void)state;
	make_descs(&desc, 1);
	sim_cuda_fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN, 1);
	assert_int_equal(otte_cuda_record(room.device, room.stream), -EIO);
	assert_int_equal(otte_cuda_record(room.device, room.stream), -EUCLEAN);
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_HOST, &desc, 1, NULL, &copy),
			 -EUCLEAN);
	assert_null(copy);
	/* Nothing of it was begun. */
	assert_int_equal(stats_of(copier).unquiesced, 0);
	assert_int_equal(stats_of(copier).slots_used, 0);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	gpu_region_gone(room.on_device);
	assert_int_equal(otte_mem_release(room.device), -EUCLEAN);
	assert_int_equal(gpu_stats().retained, 1);
	assert_int_equal(otte_mem_release(room.device), -EUCLEAN);
	assert_int_equal(gpu_stats().retained, 1);
	room.lost = true;
}

static void a_destroyed_stream_and_a_foreign_one_are_refused(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 1), *other;
	CUcontext foreign = sim_cuda_context_create(0);
	struct otte_copy_desc desc;
	CUstream stream;

	(void)state;
	make_descs(&desc, 1);
	MUST_CUDA(gpu->ctx_push_current(foreign));
	stream = gpu_stream();
	MUST_CUDA(gpu->ctx_pop_current(&foreign));
	assert_int_equal(otte_copier_bind(room.device, stream, NULL, &other), -EINVAL);
	gpu_says("another context");
	assert_int_equal(otte_cuda_record(room.device, stream), -EINVAL);
	MUST_CUDA(gpu->stream_destroy(stream));
	assert_int_equal(otte_copier_bind(room.device, stream, NULL, &other), -EINVAL);
	sim_cuda_context_destroy(foreign);
	MUST_CUDA(gpu->stream_destroy(room.stream));
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL),
			 -EINVAL);
	gpu_says("cuStreamIsCapturing");
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	room.stream = gpu_stream();
}

static void a_view_that_is_gone_is_not_found(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 1);
	struct otte_copy_desc desc;
	size_t pending;

	(void)state;
	make_descs(&desc, 1);
	sim_cuda_hold(room.stream);
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL));
	/* Its end has begun, and waits for the copy. */
	assert_int_equal(otte_region_unregister(&room.on_host, 1, 0, &pending), -ETIMEDOUT);
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL),
			 -EDQUOT);
	sim_cuda_release(room.stream);
	sim_cuda_settle();
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL),
			 -ENOENT);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	MUST(otte_region_unregister(&room.on_host, 1, PATIENCE_NS, NULL));
	room.on_host = gpu_region(room.host, 0, AREA);
}

/* Also one that the submission holds already, as the other. */
static void a_view_is_of_its_side(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 1);
	struct otte_copy_desc descs[2];

	(void)state;
	make_descs(descs, 2);
	descs[1].host = room.on_device;
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, descs, 2, NULL, NULL), -EINVAL);
	gpu_says("descriptor 1: its host view");
	make_descs(descs, 2);
	descs[1].device = room.on_host;
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, descs, 2, NULL, NULL), -EINVAL);
	gpu_says("descriptor 1: its device view");
	assert_int_equal(sim_cuda_calls("cuMemcpyHtoDAsync_v2"), 0);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

static bool refuses_all(struct otte_copier *copier, struct otte_copy *copy)
{
	struct otte_copier *other;
	struct otte_copy_desc desc;

	make_descs(&desc, 1);
	otte_copy_put(copy);
	return otte_copier_bind(room.device, room.stream, NULL, &other) == -EOWNERDEAD &&
	       otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, NULL) ==
		       -EOWNERDEAD &&
	       otte_copier_progress(copier) == -EOWNERDEAD && otte_copy_poll(copy) == -EOWNERDEAD &&
	       otte_copy_wait(copy, 0) == -EOWNERDEAD &&
	       otte_copier_close(copier, 0) == -EOWNERDEAD &&
	       otte_copier_destroy(copier, 0) == -EOWNERDEAD;
}

static void nothing_of_it_works_in_a_child(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_DMA, 1);
	struct otte_copy_desc desc;
	struct otte_copy *copy;
	int status;
	pid_t pid;

	(void)state;
	make_descs(&desc, 1);
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_DEVICE, &desc, 1, NULL, &copy));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(!refuses_all(copier, copy));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	MUST(otte_copy_wait(copy, PATIENCE_NS));
	otte_copy_put(copy);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

/* ---- The choice ------------------------------------------------------------------------------ */

static struct otte_copy_class submit_as(struct otte_copier *copier,
					enum otte_copy_direction direction, uint32_t intent,
					uint32_t rows)
{
	struct otte_copy_options options = { .intent = intent };
	static struct otte_copy_desc descs[ROWS];
	struct otte_copy *copy;

	make_descs(descs, rows);
	MUST(otte_copier_submit(copier, direction, descs, rows, &options, &copy));
	MUST(otte_copy_wait(copy, PATIENCE_NS));
	otte_copy_put(copy);
	return stats_of(copier).classes[direction][intent][OTTE_PRIORITY_HIGH];
}

static void who_can_wait_does_not_take_multiprocessors(void **state)
{
	struct otte_copier *copier = bind_mode(OTTE_COPY_AUTO, 1);
	struct otte_copy_class it;

	(void)state;
	it = submit_as(copier, OTTE_COPY_TO_HOST, OTTE_INTENT_CHECKPOINT, 64);
	assert_int_equal(it.last_backend, OTTE_COPY_BY_DMA);
	assert_int_equal(it.last_reason, OTTE_COPY_BACKGROUND);
	it = submit_as(copier, OTTE_COPY_TO_DEVICE, OTTE_INTENT_CHECKPOINT, 64);
	assert_int_equal(it.last_backend, OTTE_COPY_BY_KERNEL);
	it = submit_as(copier, OTTE_COPY_TO_HOST, OTTE_INTENT_UNSPEC, 7);
	assert_int_equal(it.last_reason, OTTE_COPY_BELOW_THRESHOLD);
	it = submit_as(copier, OTTE_COPY_TO_HOST, OTTE_INTENT_UNSPEC, 8);
	assert_int_equal(it.last_backend, OTTE_COPY_BY_KERNEL);
	assert_int_equal(it.last_reason, OTTE_COPY_NO_REASON);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

static unsigned int launched_ctas(void)
{
	static struct sim_cuda_call calls[4096];
	size_t count = sim_cuda_log(calls, ARRAY_SIZE(calls));

	while (count--)
		if (!strcmp(calls[count].name, "cuLaunchKernel"))
			return calls[count].ctas;
	return 0;
}

static void the_grid_is_what_was_asked_for(void **state)
{
	static const struct {
		uint32_t limit, wide, to_device, to_host;
	} grids[] = { { 0, 0, 8, 4 }, { 1, 0, 1, 1 }, { 0, 1, 512, 512 }, { 100, 1, 100, 100 } };
	struct otte_copier_config config;
	struct otte_copier *copier;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(grids); i++) {
		MUST(otte_copier_config_init(&config, sizeof(config)));
		config.mode = OTTE_COPY_KERNEL;
		config.max_rows = ROWS;
		config.cta_limit = grids[i].limit;
		config.wide = grids[i].wide;
		MUST(otte_copier_bind(room.device, room.stream, &config, &copier));
		assert_int_equal(submit_as(copier, OTTE_COPY_TO_DEVICE, 0, ROWS).last_ctas,
				 grids[i].to_device);
		assert_int_equal(launched_ctas(), grids[i].to_device);
		assert_int_equal(submit_as(copier, OTTE_COPY_TO_HOST, 0, ROWS).last_ctas,
				 grids[i].to_host);
		assert_int_equal(launched_ctas(), grids[i].to_host);
		MUST(otte_copier_destroy(copier, PATIENCE_NS));
	}
}

static void without_an_image_copies_go_by_the_driver(void **state)
{
	struct otte_copier_config config;
	struct otte_copier *copier;

	(void)state;
	sim_cuda_fail("cuModuleLoadDataEx", 1, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 2);
	copier = bind_mode(OTTE_COPY_AUTO, 1);
	assert_int_equal(submit_as(copier, OTTE_COPY_TO_HOST, 0, 64).last_reason,
			 OTTE_COPY_NO_IMAGE);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	MUST(otte_copier_config_init(&config, sizeof(config)));
	config.mode = OTTE_COPY_KERNEL;
	assert_int_equal(otte_copier_bind(room.device, room.stream, &config, &copier), -ENOSYS);
	gpu_says("cuModuleLoadDataEx");
	sim_cuda_fail("cuModuleGetFunction", 1, CUDA_ERROR_NOT_FOUND, 1);
	assert_int_equal(otte_copier_bind(room.device, room.stream, &config, &copier), -ENOSYS);
	gpu_says("cuModuleGetFunction");
}

static void memory_that_the_device_does_not_reach_goes_by_the_driver(void **state)
{
	struct otte_copier *copier, *kernel;
	struct otte_copy_desc descs[64];
	struct otte_region *region;
	struct otte_copy *copy;
	struct otte_mem *mem;
	size_t i;

	(void)state;
	sim_cuda_set("unreachable", 1);
	MUST(otte_cuda_alloc_host(engine, 0, AREA, 0, &mem));
	region = gpu_region(mem, 0, AREA);
	copier = bind_mode(OTTE_COPY_AUTO, 1);
	make_descs(descs, 64);
	for (i = 0; i < 64; i++)
		descs[i].host = region;
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_HOST, descs, 64, NULL, &copy));
	MUST(otte_copy_wait(copy, PATIENCE_NS));
	otte_copy_put(copy);
	assert_int_equal(stats_of(copier).classes[OTTE_COPY_TO_HOST][0][0].last_reason,
			 OTTE_COPY_NO_MAPPING);
	kernel = bind_mode(OTTE_COPY_KERNEL, 1);
	assert_int_equal(otte_copier_submit(kernel, OTTE_COPY_TO_HOST, descs, 64, NULL, NULL),
			 -EINVAL);
	MUST(otte_copier_destroy(kernel, PATIENCE_NS));
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	gpu_region_gone(region);
	MUST(otte_mem_release(mem));
}

static void rows_without_room_for_their_upload_go_by_the_driver(void **state)
{
	struct otte_copier_config config;
	struct otte_copier *copier;
	struct otte_copy_desc descs[64];

	(void)state;
	make_descs(descs, 64);
	MUST(otte_copier_config_init(&config, sizeof(config)));
	config.threshold = 8;
	config.max_rows = 64;
	config.max_bytes = 64 * ROW + 64 * 48 - 1;
	MUST(otte_copier_bind(room.device, room.stream, &config, &copier));
	assert_int_equal(submit_as(copier, OTTE_COPY_TO_HOST, 0, 64).last_reason,
			 OTTE_COPY_NO_ROOM);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	config.mode = OTTE_COPY_KERNEL;
	MUST(otte_copier_bind(room.device, room.stream, &config, &copier));
	assert_int_equal(otte_copier_submit(copier, OTTE_COPY_TO_HOST, descs, 64, NULL, NULL),
			 -EDQUOT);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	config.max_bytes++;
	MUST(otte_copier_bind(room.device, room.stream, &config, &copier));
	assert_int_equal(submit_as(copier, OTTE_COPY_TO_HOST, 0, 64).last_backend,
			 OTTE_COPY_BY_KERNEL);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

/* ---- Making and unmaking --------------------------------------------------------------------- */

/* Each call that a bind makes fails once: it comes to an error, and nothing of it is left. */
static void a_bind_of_which_a_call_fails_leaves_nothing(void **state)
{
	struct sim_cuda_balance before, after;
	struct otte_copier_config config;
	struct otte_copier *copier = NULL;
	unsigned int nth, failed = 0;
	int ret;

	(void)state;
	MUST(otte_copier_config_init(&config, sizeof(config)));
	config.mode = OTTE_COPY_KERNEL;
	for (nth = 1; nth < MOST_CALLS; nth++) {
		sim_cuda_balance(&before);
		sim_cuda_reset();
		sim_cuda_fail(SIM_CUDA_ANY, nth, CUDA_ERROR_OUT_OF_MEMORY, 1);
		ret = otte_copier_bind(room.device, room.stream, &config, &copier);
		if (!ret && sim_cuda_calls(SIM_CUDA_ANY) < nth)
			break;
		sim_cuda_reset();
		/* The question which context is current is answered by a push. */
		if (!ret) {
			MUST(otte_copier_destroy(copier, PATIENCE_NS));
			continue;
		}
		assert_true(ret == -ENOMEM || ret == -ENOSYS);
		failed++;
		sim_cuda_balance(&after);
		assert_memory_equal(&before, &after, sizeof(after));
		assert_int_equal(gpu_stats().retained, 0);
	}
	assert_in_range(nth, 20, MOST_CALLS - 1);
	assert_in_range(failed, nth - 6, nth);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
}

/* And each that unmakes it: what is left stands in the ledger, and is in reach. */
static void a_destroy_of_which_a_call_fails_keeps_what_is_left(void **state)
{
	static const char *const calls[] = { "cuMemFree_v2", "cuMemFreeHost", "cuModuleUnload",
					     "cuEventDestroy_v2" };
	struct otte_copier *copier;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		copier = bind_mode(OTTE_COPY_KERNEL, 2);
		sim_cuda_fail(calls[i], 2 - (i == 2), CUDA_ERROR_UNKNOWN, 1);
		assert_int_equal(otte_copier_destroy(copier, PATIENCE_NS), -EUCLEAN);
		gpu_says(calls[i]);
		assert_int_equal(gpu_stats().retained, i + 1);
	}
	room.lost = true;
}

static void a_bind_that_cannot_be_undone_says_so(void **state)
{
	struct otte_copier_config config;
	struct otte_copier *copier;

	(void)state;
	MUST(otte_copier_config_init(&config, sizeof(config)));
	sim_cuda_fail("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY, 1);
	sim_cuda_fail("cuModuleUnload", 1, CUDA_ERROR_UNKNOWN, UINT32_MAX);
	assert_int_equal(otte_copier_bind(room.device, room.stream, &config, &copier), -EUCLEAN);
	gpu_says("cuMemAlloc_v2");
	assert_int_equal(gpu_stats().retained, 1);
	room.lost = true;
}

int main(void)
{
#define IN_A_ROOM(test) cmocka_unit_test_setup_teardown(test, start, stop)
	static const struct CMUnitTest tests[] = {
		IN_A_ROOM(a_call_of_many_that_fails_in_the_middle_is_told_when_it_is_over),
		IN_A_ROOM(so_is_one_of_single_copies),
		IN_A_ROOM(so_is_the_kernel_s_launch_behind_its_rows),
		IN_A_ROOM(a_few_rows_are_calls_of_their_own),
		IN_A_ROOM(strided_rows_are_one_call_of_the_driver_s),
		IN_A_ROOM(without_a_marker_nothing_can_be_told),
		IN_A_ROOM(a_question_that_fails_is_no_answer),
		IN_A_ROOM(work_that_failed_spoils_what_is_under_way),
		IN_A_ROOM(a_context_that_does_not_come_back_ends_what_is_under_way),
		IN_A_ROOM(one_that_is_destroyed_before_it_is_done_stays),
		IN_A_ROOM(an_answer_that_does_not_come_is_asked_for_again),
		IN_A_ROOM(slots_are_so_many_and_one_that_is_over_is_taken_again),
		IN_A_ROOM(a_wait_for_ever_ends_with_the_copy),
		IN_A_ROOM(the_stream_waits_for_a_producer_and_the_caller_does_not),
		IN_A_ROOM(a_producer_that_failed_lets_nobody_through),
		IN_A_ROOM(a_destroyed_stream_and_a_foreign_one_are_refused),
		IN_A_ROOM(a_view_is_of_its_side),
		IN_A_ROOM(a_view_that_is_gone_is_not_found),
		IN_A_ROOM(nothing_of_it_works_in_a_child),
		IN_A_ROOM(who_can_wait_does_not_take_multiprocessors),
		IN_A_ROOM(the_grid_is_what_was_asked_for),
		IN_A_ROOM(without_an_image_copies_go_by_the_driver),
		IN_A_ROOM(memory_that_the_device_does_not_reach_goes_by_the_driver),
		IN_A_ROOM(rows_without_room_for_their_upload_go_by_the_driver),
		IN_A_ROOM(a_bind_of_which_a_call_fails_leaves_nothing),
		IN_A_ROOM(a_destroy_of_which_a_call_fails_keeps_what_is_left),
		IN_A_ROOM(a_bind_that_cannot_be_undone_says_so),
	};

	return cmocka_run_group_tests_name("copier", tests, NULL, NULL);
}
