/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic uint64_t fake_ns;

uint64_t otte_now_ns(void)
{
	uint64_t fake = atomic_load_explicit(&fake_ns, memory_order_relaxed);
	struct timespec ts;

	if (fake)
		return fake;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

void otte_clock_fake(uint64_t now_ns)
{
	atomic_store(&fake_ns, now_ns);
}
