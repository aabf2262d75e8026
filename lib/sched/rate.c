/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sched/rate.h"

#include <string.h>

#include "base/clock.h"

static double within(const struct otte_rate *rate, double value)
{
	if (value < rate->link / OTTE_RATE_CLAMP)
		return rate->link / OTTE_RATE_CLAMP;
	return value > rate->link * OTTE_RATE_CLAMP ? rate->link * OTTE_RATE_CLAMP : value;
}

void otte_rate_set_link(struct otte_rate *rate, double link)
{
	if (rate->link <= 0)
		rate->value = link;
	rate->link = link;
	rate->value = within(rate, rate->value);
}

void otte_rate_sample(struct otte_rate *rate, double sample, double old_weight)
{
	rate->sampled = true;
	rate->value =
		within(rate, old_weight * rate->value + (1 - old_weight) * within(rate, sample));
}

/* ---- Transmit -------------------------------------------------------------------------------- */

static void forget(struct otte_transmit *transmit)
{
	memset(transmit->buckets, 0, sizeof(transmit->buckets));
	transmit->current = 0;
}

static void advance(struct otte_transmit *transmit, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns > transmit->seen_ns ? now_ns - transmit->seen_ns : 0;

	transmit->seen_ns += passed_ns;
	if (!transmit->under_way) {
		if (passed_ns >= OTTE_RATE_WINDOW_NS)
			forget(transmit);
	} else if (!transmit->doubted) {
		transmit->buckets[transmit->current].busy_ns += passed_ns;
	}
}

/* The newest buckets that make up a window; the last of them whole. */
static double window_rate(const struct otte_transmit *transmit)
{
	unsigned at = transmit->current, i;
	uint64_t bytes = 0, busy_ns = 0;

	for (i = 0; i < OTTE_RATE_BUCKETS && busy_ns < OTTE_RATE_WINDOW_NS; i++) {
		bytes += transmit->buckets[at].bytes;
		busy_ns += transmit->buckets[at].busy_ns;
		at = (at + OTTE_RATE_BUCKETS - 1) % OTTE_RATE_BUCKETS;
	}
	return (double)bytes * (double)NSEC_PER_SEC / (double)busy_ns;
}

static void update(struct otte_transmit *transmit)
{
	otte_rate_sample(&transmit->rate, window_rate(transmit), OTTE_RATE_TRANSMIT_OLD);
	transmit->current = (transmit->current + 1) % OTTE_RATE_BUCKETS;
	memset(&transmit->buckets[transmit->current], 0, sizeof(transmit->buckets[0]));
}

void otte_transmit_posted(struct otte_transmit *transmit, uint64_t bytes, uint64_t now_ns)
{
	advance(transmit, now_ns);
	transmit->under_way += bytes;
}

void otte_transmit_completed(struct otte_transmit *transmit, uint64_t bytes, uint64_t now_ns)
{
	advance(transmit, now_ns);
	transmit->under_way -= bytes;
	if (transmit->doubted)
		return;
	transmit->buckets[transmit->current].bytes += bytes;
	if (transmit->buckets[transmit->current].busy_ns >= OTTE_RATE_UPDATE_NS)
		update(transmit);
}

void otte_transmit_dropped(struct otte_transmit *transmit, uint64_t bytes, uint64_t now_ns)
{
	advance(transmit, now_ns);
	transmit->under_way -= bytes;
	forget(transmit);
}

void otte_transmit_doubted(struct otte_transmit *transmit, uint64_t bytes, uint64_t now_ns)
{
	advance(transmit, now_ns);
	transmit->doubted += bytes;
	forget(transmit);
}

void otte_transmit_settled(struct otte_transmit *transmit, uint64_t bytes, uint64_t now_ns)
{
	advance(transmit, now_ns);
	transmit->doubted -= bytes;
	transmit->under_way -= bytes;
}
