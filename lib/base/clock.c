/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/clock.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/util.h"

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

const char *otte_time_text(char text[OTTE_TIME_TEXT], uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *unit;
		int digits; /* behind the point */
	} units[] = { { NSEC_PER_SEC, "s", 9 }, { NSEC_PER_MSEC, "ms", 6 }, { NSEC_PER_USEC, "us", 3 },
		      { 1, "ns", 0 } };
	size_t i = 0, end;

	while (i + 1 < ARRAY_SIZE(units) && ns < units[i].ns)
		i++;
	snprintf(text, OTTE_TIME_TEXT, "%" PRIu64 ".%0*" PRIu64, ns / units[i].ns, units[i].digits,
		 ns % units[i].ns);
	/* No zeros at the end, nor a point. */
	end = strlen(text);
	while (text[end - 1] == '0' && strchr(text, '.') < text + end - 1)
		end--;
	if (text[end - 1] == '.' || !units[i].digits)
		end = (size_t)(strchr(text, '.') - text);
	snprintf(text + end, OTTE_TIME_TEXT - end, " %s", units[i].unit);
	return text;
}

void otte_clock_fake(uint64_t now_ns)
{
	atomic_store(&fake_ns, now_ns);
}
