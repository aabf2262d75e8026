/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Latencies of one measurement, in bounded memory: the first `capacity` are kept, from then on a
 * uniform choice of all (reservoir sampling).
 */
#ifndef OTTE_TOOL_SAMPLES_H
#define OTTE_TOOL_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

struct samples {
	uint64_t *ns;
	size_t capacity;
	uint64_t seen;
	uint64_t sum_ns;
	uint64_t random;
};

/* 0 or -ENOMEM. */
int samples_init(struct samples *samples, size_t capacity);
void samples_free(struct samples *samples);
void samples_add(struct samples *samples, uint64_t ns);

/* Add what `from` kept, as far as there is room. */
void samples_merge(struct samples *to, const struct samples *from);

/* Sorts what was kept; then quantiles may be asked for (0.5, 0.99). 0 without samples. */
void samples_sort(struct samples *samples);
uint64_t samples_quantile(const struct samples *samples, double quantile);
double samples_mean(const struct samples *samples);

/* Median of `count` numbers, which are put into order. */
double median(double *values, size_t count);

#endif
