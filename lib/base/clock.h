/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every instant in the library comes from here, so that unit tests can run on a clock of their own. */
#ifndef OTTE_BASE_CLOCK_H
#define OTTE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NSEC_PER_USEC 1000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_SEC 1000000000ull

/* CLOCK_MONOTONIC in nanoseconds, or what otte_clock_fake() was last given. */
uint64_t otte_now_ns(void);

/* An instant or a time of it as the system's calls take it. */
static inline struct timespec otte_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NSEC_PER_SEC), .tv_nsec = (long)(ns % NSEC_PER_SEC) };
}

/*
 * The same clock to the last tick of the kernel (1 to 10 ms), for a quarter of the cost: for limits of
 * seconds that are stamped on every transfer.
 */
uint64_t otte_coarse_ns(void);

#define OTTE_TIME_TEXT 32

/* "10 s", "1.5 s", "250 ms", "7 ns": as people say it, without loss down to the nanosecond. */
const char *otte_time_text(char text[OTTE_TIME_TEXT], uint64_t ns);

/* Tests only: stop the clock at `now_ns`; 0 goes back to the real one. */
void otte_clock_fake(uint64_t now_ns);

#endif
