/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is the same in every entry point: the lock, counts, faults, the log. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "sim/cuda/private.h"

#define FAULTS 32
#define NAMES 160
#define LOG 4096

struct sim sim = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static struct fault {
	char name[64];
	unsigned long from, to; /* calls of that name, counted on */
	CUresult result;
	bool after;
} faults[FAULTS];
static unsigned int fault_count;

static struct {
	const char *name;
	unsigned long calls;
} counts[NAMES];
static unsigned long all_calls;

static struct sim_cuda_call entries[LOG];
static uint64_t logged;

/* Of the call that this thread is in. */
static __thread struct sim_cuda_call current;
static __thread CUresult after;

static unsigned long *count_of(const char *name)
{
	size_t i;

	if (!strcmp(name, SIM_CUDA_ANY))
		return &all_calls;
	for (i = 0; i < NAMES && counts[i].name; i++)
		if (!strcmp(counts[i].name, name))
			return &counts[i].calls;
	if (i == NAMES)
		abort();
	/* For as long as the process: names of callers need not be. */
	counts[i].name = strdup(name);
	return &counts[i].calls;
}

static bool hits(const struct fault *fault, const char *name)
{
	unsigned long count;

	if (strcmp(fault->name, name) && strcmp(fault->name, SIM_CUDA_ANY))
		return false;
	count = *count_of(fault->name);
	return count >= fault->from && count < fault->to;
}

/* Which fault a call that was counted meets; a text that names errors never fails. */
static CUresult find_fault(const char *name)
{
	unsigned int i;

	for (i = 0; i < fault_count; i++) {
		if (!strcmp(name, "cuGetErrorName") || !hits(&faults[i], name))
			continue;
		if (!faults[i].after)
			return faults[i].result;
		after = faults[i].result;
	}
	return CUDA_SUCCESS;
}

static CUresult check_needs(enum sim_needs needs)
{
	struct sim_context *context;

	if (needs == SIM_NOTHING)
		return CUDA_SUCCESS;
	if (!sim.pid)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (needs == SIM_INIT)
		return CUDA_SUCCESS;
	context = sim_context_current();
	return context ? context->spoiled : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_begin(const char *name, enum sim_needs needs)
{
	CUresult result;

	/* In the child of a fork, where the lock may be anybody's. */
	if (sim.pid && sim.pid != getpid())
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&sim.lock);
	sim_settings_read();
	after = CUDA_SUCCESS;
	current = (struct sim_cuda_call){ .name = name };
	if (strcmp(name, "cuGetErrorName"))
		all_calls++;
	++*count_of(name);
	result = find_fault(name);
	if (!result)
		result = check_needs(needs);
	if (result) {
		after = CUDA_SUCCESS;
		sim_end(result);
	}
	return result;
}

struct sim_cuda_call *sim_call(void)
{
	return &current;
}

CUresult sim_end(CUresult result)
{
	if (!result)
		result = after;
	current.result = result;
	entries[logged++ % LOG] = current;
	pthread_mutex_unlock(&sim.lock);
	return result;
}

void sim_violate(const char *format, ...)
{
	va_list arguments;

	if (sim.violations++)
		return;
	va_start(arguments, format);
	vsnprintf(sim.violation, sizeof(sim.violation), format, arguments);
	va_end(arguments);
}

void sim_calls_reset(void)
{
	size_t i;

	fault_count = 0;
	logged = 0;
	all_calls = 0;
	for (i = 0; i < NAMES; i++)
		counts[i].calls = 0;
}

/* ---- Of tests -------------------------------------------------------------------------------- */

static void arm(const char *name, unsigned int nth, CUresult result, unsigned int times,
		bool is_after)
{
	struct fault *fault;

	pthread_mutex_lock(&sim.lock);
	if (fault_count == FAULTS)
		abort();
	fault = &faults[fault_count++];
	snprintf(fault->name, sizeof(fault->name), "%s", name);
	fault->from = *count_of(name) + nth;
	fault->to = times == UINT32_MAX ? (unsigned long)-1 : fault->from + times;
	fault->result = result;
	fault->after = is_after;
	pthread_mutex_unlock(&sim.lock);
}

EXPORT void sim_cuda_fail(const char *name, unsigned int nth, CUresult result, unsigned int times)
{
	arm(name, nth, result, times, false);
}

EXPORT void sim_cuda_fail_after(const char *name, unsigned int nth, CUresult result,
				unsigned int times)
{
	arm(name, nth, result, times, true);
}

EXPORT unsigned long sim_cuda_calls(const char *name)
{
	unsigned long count;

	pthread_mutex_lock(&sim.lock);
	count = *count_of(name);
	pthread_mutex_unlock(&sim.lock);
	return count;
}

EXPORT size_t sim_cuda_log(struct sim_cuda_call *calls, size_t count)
{
	uint64_t from;
	size_t i;

	pthread_mutex_lock(&sim.lock);
	count = (size_t)min_u64(count, min_u64(logged, LOG));
	from = logged - count;
	for (i = 0; i < count; i++)
		calls[i] = entries[(from + i) % LOG];
	pthread_mutex_unlock(&sim.lock);
	return count;
}

EXPORT unsigned int sim_cuda_violations(const char **text)
{
	unsigned int count;

	pthread_mutex_lock(&sim.lock);
	count = sim.violations;
	if (text)
		*text = sim.violation;
	pthread_mutex_unlock(&sim.lock);
	return count;
}
