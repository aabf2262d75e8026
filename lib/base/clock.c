/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic uint64_t fake_ns;

static uint64_t read_clock(clockid_t clock)
{
	uint64_t fake = atomic_load_explicit(&fake_ns, memory_order_relaxed);
	struct timespec ts;

	if (fake)
		return fake;
	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t otte_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t otte_coarse_ns(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
}

void otte_clock_fake(uint64_t now_ns)
{
	atomic_store(&fake_ns, now_ns);
}
