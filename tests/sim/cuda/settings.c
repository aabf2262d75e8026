/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Settings: the environment's, then a test's. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "sim/cuda/private.h"

#define GIVEN 16

static const struct sim_settings defaults = {
	.devices = 2,
	.version = 13000,
	.memory_mib = 8192,
	.multiprocessors = 132,
	.seed = 1,
	.alias = 1,
	.dma_buf = 1,
	.ipc = 1,
};

#define SETTING(name)                                      \
	{                                                  \
#name, offsetof(struct sim_settings, name) \
	}
static const struct {
	const char *name;
	size_t offset;
} known[] = {
	SETTING(devices),  SETTING(version), SETTING(memory_mib), SETTING(multiprocessors),
	SETTING(delay_us), SETTING(seed),    SETTING(alias),	  SETTING(unreachable),
	SETTING(dma_buf),  SETTING(ipc),
};

static struct {
	CUdevice_attribute attribute;
	int value;
} given[GIVEN];
static unsigned int given_count;
static bool read_before;

static bool set(const char *name, size_t length, uint64_t value)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (strlen(known[i].name) == length && !memcmp(known[i].name, name, length)) {
			memcpy((char *)&sim.settings + known[i].offset, &value, sizeof(value));
			return true;
		}
	return false;
}

/* One that is not understood ends the process: a test would run with something else than it says. */
static void read_environment(void)
{
	const char *at = getenv("OTTE_SIM_CUDA");
	const char *equals;
	char *end;

	while (at && *at) {
		equals = strchr(at, '=');
		if (!equals || !set(at, (size_t)(equals - at), strtoull(equals + 1, &end, 0)) ||
		    (*end && *end != ',')) {
			fprintf(stderr, "OTTE_SIM_CUDA: \"%s\" is not understood\n", at);
			abort();
		}
		at = *end ? end + 1 : end;
	}
}

void sim_settings_read(void)
{
	if (read_before)
		return;
	read_before = true;
	sim.settings = defaults;
	read_environment();
}

bool sim_attribute_given(CUdevice_attribute attribute, int *value)
{
	unsigned int i;

	for (i = 0; i < given_count; i++)
		if (given[i].attribute == attribute) {
			*value = given[i].value;
			return true;
		}
	return false;
}

EXPORT bool sim_cuda_set(const char *setting, uint64_t value)
{
	bool is_known;

	pthread_mutex_lock(&sim.lock);
	sim_settings_read();
	is_known = set(setting, strlen(setting), value);
	pthread_cond_broadcast(&sim.changed);
	pthread_mutex_unlock(&sim.lock);
	return is_known;
}

EXPORT void sim_cuda_attribute(CUdevice_attribute attribute, int value)
{
	unsigned int i;

	pthread_mutex_lock(&sim.lock);
	for (i = 0; i < given_count && given[i].attribute != attribute; i++)
		;
	if (i == GIVEN)
		abort();
	given[i].attribute = attribute;
	given[i].value = value;
	given_count = i < given_count ? given_count : i + 1;
	pthread_mutex_unlock(&sim.lock);
}

EXPORT void sim_cuda_reset(void)
{
	struct sim_stream *stream;

	pthread_mutex_lock(&sim.lock);
	read_before = false;
	sim_settings_read();
	given_count = 0;
	sim_calls_reset();
	sim.held = false;
	sim.not_ready = 0;
	sim.fail_work_in = 0;
	sim.fail_batch = false;
	sim.violations = 0;
	sim.violation[0] = 0;
	sim.pageable = 0;
	for (stream = sim.streams; stream; stream = stream->next) {
		stream->held = false;
		stream->capturing = false;
	}
	pthread_cond_broadcast(&sim.changed);
	pthread_mutex_unlock(&sim.lock);
}
