/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What streams have to do, and the thread that does it: one piece after the other, of a stream that is drawn among
 * those which can go on. The first of a stream stays there until it is done.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/cuda/exports.h"

static uint64_t drawn;

static uint64_t draw(uint64_t below)
{
	if (!drawn)
		drawn = sim.settings.seed * 2 + 1;
	drawn = drawn * 6364136223846793005ull + 1442695040888963407ull;
	return (drawn >> 24) % below;
}

static bool waits_for_legacy(const struct sim_stream *stream)
{
	return stream->kind == SIM_STREAM_BLOCKING || stream->kind == SIM_STREAM_THREAD;
}

/* Legacy ones and those that block go by the order of the calls. */
static bool is_behind_another(const struct sim_stream *stream)
{
	const struct sim_stream *other;

	if (stream->kind == SIM_STREAM_NON_BLOCKING)
		return false;
	for (other = sim.streams; other; other = other->next) {
		if (other == stream || other->context != stream->context || !other->first)
			continue;
		if (stream->kind == SIM_STREAM_LEGACY ? !waits_for_legacy(other) :
							other->kind != SIM_STREAM_LEGACY)
			continue;
		if (other->first->number < stream->first->number)
			return true;
	}
	return false;
}

static bool can_go_on(const struct sim_stream *stream)
{
	const struct sim_work *work = stream->first;

	if (!work)
		return false;
	if (stream->context->spoiled)
		return true;
	if (sim.held || (stream->held && !stream->steps))
		return false;
	if (work->kind == SIM_WAIT && work->event->passed < work->count &&
	    !work->event->context->spoiled)
		return false;
	return !is_behind_another(stream);
}

static struct sim_stream *pick(void)
{
	struct sim_stream *stream, *picked = NULL;
	uint64_t count = 0;

	for (stream = sim.streams; stream; stream = stream->next)
		if (can_go_on(stream) && !draw(++count))
			picked = stream;
	return picked;
}

static void free_work(struct sim_work *work)
{
	if (work->event)
		sim_event_unname(work->event);
	if (work->launch)
		sim_launch_free(work->launch);
	free(work);
	sim.work--;
}

void sim_stream_forget(struct sim_stream *stream)
{
	struct sim_work *work;

	while (stream->first) {
		work = stream->first;
		stream->first = work->next;
		free_work(work);
	}
	stream->last = &stream->first;
}

/* ---- Moving bytes ---------------------------------------------------------------------------- */

static size_t span_of(const struct sim_work *work, uint64_t pitch)
{
	return work->rows ? (size_t)((work->rows - 1) * pitch + work->bytes) : 0;
}

static void move(uint8_t *to, const uint8_t *from, const struct sim_work *work)
{
	size_t i;

	for (i = 0; i < work->rows; i++)
		memmove(to + i * work->to_pitch, from + i * work->from_pitch, work->bytes);
}

/* Memory that the driver does not know was taken at its word in the call. NULL: what it knew is gone. */
static uint8_t *reach(uint64_t address, size_t span, bool pageable, struct sim_block **block)
{
	*block = NULL;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address, as the ABI has it */
	return pageable ? (uint8_t *)(uintptr_t)address : sim_reach(address, span, block);
}

static CUresult copy(const struct sim_work *work)
{
	size_t to_span = span_of(work, work->to_pitch), from_span = span_of(work, work->from_pitch);
	struct sim_block *to_block, *from_block;
	uint8_t *to, *from;

	if (!work->rows || !work->bytes)
		return CUDA_SUCCESS;
	to = reach(work->to, to_span, work->to_pageable, &to_block);
	from = reach(work->from, from_span, work->from_pageable, &from_block);
	if (!to || !from || (!to_block && !from_block))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if ((to_block && to_block->access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) ||
	    (from_block && !from_block->access))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (to_block)
		to_block->busy++;
	if (from_block)
		from_block->busy++;
	pthread_mutex_unlock(&sim.lock);
	move(to, from, work);
	pthread_mutex_lock(&sim.lock);
	if (to_block)
		to_block->busy--;
	if (from_block)
		from_block->busy--;
	return CUDA_SUCCESS;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static CUresult run(struct sim_work *work)
{
	switch (work->kind) {
	case SIM_COPY:
		return copy(work);
	case SIM_KERNEL:
		return sim_launch_run(work->launch, work->ctas);
	case SIM_RECORD:
		if (work->event->passed < work->count)
			work->event->passed = work->count;
		work->event->passed_ns = now_ns();
		return CUDA_SUCCESS;
	case SIM_WAIT:
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_UNKNOWN;
}

static CUresult fault(const struct sim_work *work)
{
	if (!sim.fail_work_in || work->kind == SIM_RECORD || work->kind == SIM_WAIT ||
	    --sim.fail_work_in)
		return CUDA_SUCCESS;
	return sim.fail_work_with;
}

static void sleep_a_while(void)
{
	struct timespec time = { 0 };

	if (!sim.settings.delay_us)
		return;
	time.tv_nsec = (long)draw(sim.settings.delay_us) * 1000;
	pthread_mutex_unlock(&sim.lock);
	nanosleep(&time, NULL);
	pthread_mutex_lock(&sim.lock);
}

static void do_first(struct sim_stream *stream)
{
	struct sim_work *work = stream->first;
	CUresult result = stream->context->spoiled;

	sim.moving = true;
	sleep_a_while();
	if (!result)
		result = fault(work);
	if (!result)
		result = run(work);
	if (result && !stream->context->spoiled)
		stream->context->spoiled = result;
	sim.moving = false;
	stream->first = work->next;
	if (!stream->first)
		stream->last = &stream->first;
	stream->steps -= stream->steps > 0;
	free_work(work);
	sim_stream_drained(stream);
	pthread_cond_broadcast(&sim.changed);
}

static void *do_work(void *unused)
{
	struct sim_stream *stream;

	(void)unused;
	pthread_mutex_lock(&sim.lock);
	for (;;) {
		stream = pick();
		if (stream)
			do_first(stream);
		else
			pthread_cond_wait(&sim.changed, &sim.lock);
	}
	return NULL;
}

static void start_worker(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	if (sim.worker)
		return;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attributes, do_work, NULL))
		abort();
	pthread_attr_destroy(&attributes);
	sim.worker = true;
}

CUresult sim_work_put(struct sim_stream *stream, const struct sim_work *work)
{
	struct sim_work *own = malloc(sizeof(*own));

	if (!own)
		abort();
	*own = *work;
	own->next = NULL;
	own->number = ++sim.numbers;
	*stream->last = own;
	stream->last = &own->next;
	sim.work++;
	start_worker();
	pthread_cond_broadcast(&sim.changed);
	return CUDA_SUCCESS;
}

/* More of it may come meanwhile, which is not waited for; nor does the stream have to be there at the end. */
CUresult sim_stream_wait(struct sim_stream *stream)
{
	struct sim_context *context = stream->context;
	uint64_t until = sim.numbers;
	struct sim_stream *at;

	for (;;) {
		for (at = sim.streams; at && at != stream; at = at->next)
			;
		if (!at || !at->first || at->first->number > until || context->spoiled)
			break;
		pthread_cond_wait(&sim.changed, &sim.lock);
	}
	return context->spoiled;
}

static bool meet(uint64_t at, size_t size, uint64_t other, size_t other_size)
{
	return at < other + other_size && other < at + size;
}

static bool names(const struct sim_work *work, uint64_t address, size_t size)
{
	if (work->kind == SIM_KERNEL)
		return sim_launch_names(work->launch, address, size);
	return work->kind == SIM_COPY && work->rows && work->bytes &&
	       (meet(work->to, span_of(work, work->to_pitch), address, size) ||
		meet(work->from, span_of(work, work->from_pitch), address, size));
}

bool sim_work_names(uint64_t address, size_t size)
{
	const struct sim_stream *stream;
	const struct sim_work *work;

	for (stream = sim.streams; stream; stream = stream->next)
		for (work = stream->first; work && !stream->context->spoiled; work = work->next)
			if (names(work, address, size))
				return true;
	return false;
}

/* ---- Of tests -------------------------------------------------------------------------------- */

EXPORT void sim_cuda_settle(void)
{
	pthread_mutex_lock(&sim.lock);
	while (sim.moving || pick())
		pthread_cond_wait(&sim.changed, &sim.lock);
	pthread_mutex_unlock(&sim.lock);
}

EXPORT void sim_cuda_fail_work(unsigned int nth, CUresult result)
{
	pthread_mutex_lock(&sim.lock);
	sim.fail_work_in = nth;
	sim.fail_work_with = result;
	pthread_mutex_unlock(&sim.lock);
}
