/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sched/arbitrate.h"

#include <string.h>

#include "base/clock.h"
#include "base/util.h"

__extension__ typedef unsigned __int128 u128;

/* Urgency but for the rate, as a fraction. Below it is 0 where it is without bound. */
struct urgency {
	uint64_t above, below;
};

struct arbitration {
	const struct otte_arbitrate_item *items;
	uint64_t ahead_bytes, now_ns;
};

static uint64_t sum(uint64_t a, uint64_t b)
{
	uint64_t both;

	return __builtin_add_overflow(a, b, &both) ? UINT64_MAX : both;
}

static struct urgency urgency_of(const struct otte_arbitrate_item *item, uint64_t ahead_bytes,
				 uint64_t now_ns)
{
	if (item->deadline_ns == OTTE_ARBITRATE_NO_DEADLINE)
		return (struct urgency){ 0, 1 };
	if (item->deadline_ns <= now_ns)
		return (struct urgency){ 1, 0 };
	return (struct urgency){ sum(ahead_bytes, item->bytes), item->deadline_ns - now_ns };
}

static bool more_urgent(struct urgency a, struct urgency b)
{
	return (u128)a.above * b.below > (u128)b.above * a.below;
}

static struct urgency urgency_in(const struct arbitration *by, uint32_t number)
{
	return urgency_of(&by->items[number], by->ahead_bytes, by->now_ns);
}

/* The place of the most urgent one; the first of them, and what is left is in order of arrival. */
static uint32_t most_urgent(const struct arbitration *by, const uint32_t *left, uint32_t count)
{
	struct urgency best = urgency_in(by, left[0]), each;
	uint32_t place = 0, i;

	for (i = 1; i < count; i++) {
		each = urgency_in(by, left[i]);
		if (more_urgent(each, best)) {
			best = each;
			place = i;
		}
	}
	return place;
}

/* To the front; those before it stay in order. */
static void bring_forward(uint32_t *left, uint32_t place)
{
	uint32_t number = left[place];

	memmove(left + 1, left, place * sizeof(*left));
	left[0] = number;
}

/* ---- The tail: a heap whose root is the last one needs no memory, and no two are equal ---- */

static bool behind(const struct arbitration *by, uint32_t a, uint32_t b)
{
	struct urgency of_a = urgency_in(by, a), of_b = urgency_in(by, b);

	if (more_urgent(of_b, of_a))
		return true;
	return !more_urgent(of_a, of_b) && a > b;
}

static void sift_down(const struct arbitration *by, uint32_t *heap, uint32_t root, uint32_t count)
{
	uint32_t number = heap[root], child;

	while ((child = 2 * root + 1) < count) {
		if (child + 1 < count && behind(by, heap[child + 1], heap[child]))
			child++;
		if (!behind(by, heap[child], number))
			break;
		heap[root] = heap[child];
		root = child;
	}
	heap[root] = number;
}

static void sort(const struct arbitration *by, uint32_t *left, uint32_t count)
{
	uint32_t i, last;

	for (i = count / 2; i-- > 0;)
		sift_down(by, left, i, count);
	for (i = count; i-- > 1;) {
		last = left[0];
		left[0] = left[i];
		left[i] = last;
		sift_down(by, left, 0, i);
	}
}

void otte_arbitrate_order(const struct otte_arbitrate_item *items, uint32_t count,
			  uint64_t posted_bytes, uint64_t rate, uint64_t now_ns, uint32_t *order)
{
	struct arbitration by = { .items = items, .ahead_bytes = posted_bytes, .now_ns = now_ns };
	uint32_t i;

	for (i = 0; i < count; i++)
		order[i] = i;
	if (!rate)
		return;
	for (i = 0; i < count && i < OTTE_ARBITRATE_GREEDY; i++) {
		bring_forward(order + i, most_urgent(&by, order + i, count - i));
		by.ahead_bytes = sum(by.ahead_bytes, items[order[i]].bytes);
	}
	sort(&by, order + i, count - i);
}

bool otte_arbitrate_admits(const struct otte_arbitrate_item *item, uint64_t ahead_bytes,
			   uint64_t rate, uint64_t now_ns)
{
	struct urgency urgency = urgency_of(item, ahead_bytes, now_ns);

	if (!rate)
		return true;
	return (u128)urgency.above * NSEC_PER_SEC <= (u128)urgency.below * rate;
}

uint64_t otte_arbitrate_rate(const uint64_t *rates, uint64_t devices)
{
	uint64_t rate = 0;
	int nic;

	for (; devices; devices &= devices - 1) {
		nic = __builtin_ctzll(devices);
		if (!rates[nic])
			return 0;
		rate = sum(rate, rates[nic]);
	}
	return rate;
}
