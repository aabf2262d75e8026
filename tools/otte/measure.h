/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One timed run of exchanges. libotte and the floor are measured by the same code. */
#ifndef OTTE_TOOL_MEASURE_H
#define OTTE_TOOL_MEASURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "samples.h"

#define MEASURE_THREADS_MAX 64
#define MEASURE_SAMPLES_MAX (1u << 18) /* kept for each thread */

/* Who is measured. */
struct measured {
	/* `batch` requests of `length` bytes, until all are done. 0 or a negative errno. */
	int (*exchange)(void *lane, bool write, uint64_t length, unsigned batch);
	void *lanes[MEASURE_THREADS_MAX]; /* one for each thread */
	pid_t peer; /* its CPU time counts too; 0: it is elsewhere */
};

struct measure_options {
	bool write;
	uint64_t length;
	unsigned batch;
	unsigned threads;
	uint64_t duration_ns; /* ends after this, or */
	uint64_t iterations; /* after so many exchanges of each thread, if not 0 */
};

struct measurement {
	uint64_t bytes;
	uint64_t ns;
	double cpu_seconds; /* of both processes */
	struct samples latencies; /* of exchanges; initialised by the caller, added to here */
};

/* Adds to *result. 0 or the first error of a thread. */
int measure(const struct measured *who, const struct measure_options *options,
	    struct measurement *result);

#endif
