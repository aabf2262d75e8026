/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rounds of one line of the benchmark, and what is said about them. */
#include <errno.h>
#include <string.h>

#include "bench.h"

#define SAMPLES_OF_ALL_ROUNDS (1u << 20)

int bench_series_begin(struct bench_series *series)
{
	memset(series, 0, sizeof(*series));
	return samples_init(&series->all.latencies, SAMPLES_OF_ALL_ROUNDS);
}

void bench_series_end(struct bench_series *series)
{
	samples_free(&series->all.latencies);
}

int bench_series_add(struct bench_series *series, const struct measured *who,
		     const struct measure_options *options)
{
	struct measurement one = { 0 };
	int rc;

	if (series->rounds == BENCH_ROUNDS_MAX)
		return -E2BIG;
	rc = samples_init(&one.latencies, MEASURE_SAMPLES_MAX);
	if (!rc)
		rc = measure(who, options, &one);
	if (!rc) {
		samples_sort(&one.latencies);
		series->gbps[series->rounds] = (double)one.bytes / (double)one.ns;
		series->p50_us[series->rounds] =
			(double)samples_quantile(&one.latencies, 0.5) / 1e3;
		series->rounds++;
		series->all.bytes += one.bytes;
		series->all.ns += one.ns;
		series->all.cpu_seconds += one.cpu_seconds;
		samples_merge(&series->all.latencies, &one.latencies);
	}
	samples_free(&one.latencies);
	return rc;
}

static double median_of(const double *values, size_t count)
{
	double copy[BENCH_ROUNDS_MAX];

	memcpy(copy, values, count * sizeof(*values));
	return median(copy, count);
}

static double median_ratio(const double *values, const double *others, size_t count)
{
	double ratios[BENCH_ROUNDS_MAX];
	size_t i;

	for (i = 0; i < count; i++)
		ratios[i] = others[i] > 0 ? values[i] / others[i] : 0;
	return median(ratios, count);
}

double bench_series_gbps(const struct bench_series *series)
{
	return median_of(series->gbps, series->rounds);
}

double bench_series_p50_us(const struct bench_series *series)
{
	return median_of(series->p50_us, series->rounds);
}

double bench_series_speed_ratio(const struct bench_series *one, const struct bench_series *other)
{
	return median_ratio(one->gbps, other->gbps, one->rounds);
}

double bench_series_latency_ratio(const struct bench_series *one, const struct bench_series *other)
{
	return median_ratio(one->p50_us, other->p50_us, one->rounds);
}
