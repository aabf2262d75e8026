/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who is posted first among those who want one NIC at one priority, and who is not worth beginning.
 *
 * Both go by the share that a candidate's transfer will take of the time that it has left:
 *
 *     urgency = (bytes ahead of it + its own) / rate / (deadline - now)
 *
 * More than 1: it is going to be late. Without a deadline it is 0, and once the deadline is
 * reached it is above all others, the same for all whose is. Without a known rate nothing can be
 * said, and nothing is changed: the order stays first in first out, and everybody is admitted.
 *
 * This orders work. It is no limit of a rate and promises no deadline.
 *
 * Exact: ratios are compared as whole numbers of 128 bits, so that two candidates that are equal
 * are equal, and FIFO. Sums of bytes stop at UINT64_MAX. Pure functions: time is passed in,
 * nothing is kept, allocated or locked.
 */
#ifndef OTTE_SCHED_ARBITRATE_H
#define OTTE_SCHED_ARBITRATE_H

#include <stdbool.h>
#include <stdint.h>

#define OTTE_ARBITRATE_NO_DEADLINE UINT64_MAX
/* Picks that see those before them among the bytes ahead. */
#define OTTE_ARBITRATE_GREEDY 64

struct otte_arbitrate_item {
	uint64_t bytes;       /* granted, not posted */
	uint64_t deadline_ns; /* of the same clock as `now_ns` */
};

/*
 * order[0..count): the numbers of the items, which come in the order of their arrival, as they
 * are to be posted. Each of the first OTTE_ARBITRATE_GREEDY is the most urgent of what is left
 * behind `posted_bytes` and all that was picked before it. The rest is sorted once, behind what
 * is ahead then. Of those who are equally urgent the first goes first. `rate` is the NIC's, in
 * bytes a second; 0: unknown. How high it is does not matter to the order, since it is the same
 * for all.
 *
 * At most 64 passes over the items, and a sort in place.
 */
void otte_arbitrate_order(const struct otte_arbitrate_item *items, uint32_t count,
			  uint64_t posted_bytes, uint64_t rate, uint64_t now_ns, uint32_t *order);

/* Whether it can be done in time, behind `ahead_bytes`: its urgency is at most 1, or unknown. */
bool otte_arbitrate_admits(const struct otte_arbitrate_item *item, uint64_t ahead_bytes,
			   uint64_t rate, uint64_t now_ns);

/*
 * The rate of all NICs in `devices` together: rates[n] of the NIC with id n. 0, unknown: of one
 * of them it is, or there is none. `rates` has an entry for each id in `devices`.
 */
uint64_t otte_arbitrate_rate(const uint64_t *rates, uint64_t devices);

#endif
