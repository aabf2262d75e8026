/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two estimates of what a NIC moves, in bytes per second.
 *
 * An estimate is an exponentially weighted mean that starts at the link's rate, and stays between a
 * tenth and ten times of it. How much the old value weighs is the caller's, with each sample.
 *
 * The transmit estimate looks at all that is posted. Its time is that with payload under way: it
 * stands still while nothing is. Every 10 ms of it the bytes completed in the last 50 ms of it are
 * a sample; a pause of 50 ms makes it begin anew. While it is not known whether something is under
 * way there are no samples, and what was seen until then is forgotten.
 *
 * Pure arithmetic: the clock is passed in, and may go back a little, as between threads. No lock:
 * the owner's is held around every call.
 */
#ifndef OTTE_SCHED_RATE_H
#define OTTE_SCHED_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* 400 Gb/s, of a NIC that does not say, or says what none can be. */
#define OTTE_UNKNOWN_RATE 50000000000ull /* bytes per second */

#define OTTE_RATE_CLAMP 10.0 /* times the link's rate, and its part */
#define OTTE_RATE_SELECTION_OLD 0.01 /* weight of the old value */
#define OTTE_RATE_TRANSMIT_OLD 0.9 /* likewise */
#define OTTE_RATE_UPDATE_NS 10000000ull
#define OTTE_RATE_WINDOW_NS 50000000ull
#define OTTE_RATE_BUCKETS 5 /* of at least one update each */

struct otte_rate {
	double link, value;
	bool sampled; /* ever: else the value says no more than the link */
};

/* A link of another rate: the estimate starts at the first one, and later is kept within bounds. */
void otte_rate_set_link(struct otte_rate *rate, double link);
void otte_rate_sample(struct otte_rate *rate, double sample, double old_weight);

struct otte_transmit {
	struct otte_rate rate;
	uint64_t under_way; /* bytes posted, and neither completed nor known to be nowhere */
	uint64_t doubted; /* of these, bytes of which nobody knows whether they are */
	uint64_t seen_ns; /* the clock, as far as it was counted */
	struct {
		uint64_t bytes, busy_ns;
	} buckets[OTTE_RATE_BUCKETS];
	unsigned current;
};

/* The caller sees to it that no more bytes end than were posted, and settle than were doubted. */
void otte_transmit_posted(struct otte_transmit *transmit, uint64_t bytes, uint64_t now_ns);
void otte_transmit_completed(struct otte_transmit *transmit, uint64_t bytes, uint64_t now_ns);
/* Nothing of them is under way: not accepted, failed, or drained. */
void otte_transmit_dropped(struct otte_transmit *transmit, uint64_t bytes, uint64_t now_ns);
/* They may be under way or not; settled: they no longer are. */
void otte_transmit_doubted(struct otte_transmit *transmit, uint64_t bytes, uint64_t now_ns);
void otte_transmit_settled(struct otte_transmit *transmit, uint64_t bytes, uint64_t now_ns);

#endif
