/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "samples.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"

int samples_init(struct samples *samples, size_t capacity)
{
	*samples = (struct samples){ .capacity = capacity, .random = 0x9e3779b97f4a7c15ull };
	samples->ns = calloc(capacity, sizeof(*samples->ns));
	return samples->ns ? 0 : -ENOMEM;
}

void samples_free(struct samples *samples)
{
	free(samples->ns);
	samples->ns = NULL;
}

static size_t kept(const struct samples *samples)
{
	return (size_t)min_u64(samples->seen, samples->capacity);
}

static uint64_t next_random(struct samples *samples)
{
	samples->random ^= samples->random << 13;
	samples->random ^= samples->random >> 7;
	samples->random ^= samples->random << 17;
	return samples->random;
}

void samples_add(struct samples *samples, uint64_t ns)
{
	uint64_t place = samples->seen++;

	samples->sum_ns += ns;
	if (place >= samples->capacity)
		place = next_random(samples) % samples->seen;
	if (place < samples->capacity)
		samples->ns[place] = ns;
}

void samples_merge(struct samples *to, const struct samples *from)
{
	size_t i, count = kept(from);

	for (i = 0; i < count; i++)
		samples_add(to, from->ns[i]);
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void samples_sort(struct samples *samples)
{
	qsort(samples->ns, kept(samples), sizeof(*samples->ns), compare_ns);
}

uint64_t samples_quantile(const struct samples *samples, double quantile)
{
	size_t count = kept(samples), at;

	if (!count)
		return 0;
	at = (size_t)(quantile * (double)count);
	return samples->ns[at < count ? at : count - 1];
}

double samples_mean(const struct samples *samples)
{
	return samples->seen ? (double)samples->sum_ns / (double)samples->seen : 0;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(double *values, size_t count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), compare_doubles);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
