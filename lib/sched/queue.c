/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sched/queue.h"

#include <errno.h>
#include <stddef.h>
#include <utlist.h>

static void append(struct otte_queue *queue, struct otte_queue_entry *entry, unsigned tier)
{
	entry->tier = (uint8_t)tier;
	entry->arrival = queue->arrivals++;
	DL_APPEND(queue->waits[tier][entry->priority], entry);
}

static void unlink_entry(struct otte_queue *queue, struct otte_queue_entry *entry)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in this list, so the head is not behind it */
	DL_DELETE(queue->waits[entry->tier][entry->priority], entry);
}

int otte_queue_push(struct otte_queue *queue, struct otte_queue_entry *entry)
{
	if (queue->count[entry->priority] >= queue->bound[entry->priority])
		return -EDQUOT;
	append(queue, entry, entry->priority);
	queue->count[entry->priority]++;
	entry->queued = true;
	return 0;
}

bool otte_queue_remove(struct otte_queue *queue, struct otte_queue_entry *entry)
{
	if (!entry->queued)
		return false;
	unlink_entry(queue, entry);
	queue->count[entry->priority]--;
	entry->queued = false;
	return true;
}

/* Of what waits in a tier: a tier holds entries of its own priority and of lower ones. */
static struct otte_queue_entry *first_of(const struct otte_queue *queue, unsigned tier,
					 unsigned admitted)
{
	struct otte_queue_entry *first = NULL, *each;
	unsigned priority;

	for (priority = tier; priority < OTTE_PRIORITIES; priority++) {
		each = queue->waits[tier][priority];
		if (each && admitted & 1u << priority && (!first || each->arrival < first->arrival))
			first = each;
	}
	return first;
}

struct otte_queue_entry *otte_queue_first(const struct otte_queue *queue, unsigned admitted)
{
	struct otte_queue_entry *first = NULL;
	unsigned tier;

	for (tier = 0; tier < OTTE_PRIORITIES && !first; tier++)
		first = first_of(queue, tier, admitted);
	return first;
}

static bool aged(const struct otte_queue *queue, const struct otte_queue_entry *entry,
		 uint64_t now_ns)
{
	return now_ns >= entry->enqueued_ns && now_ns - entry->enqueued_ns >= queue->aging_ns;
}

static void lift(struct otte_queue *queue, struct otte_queue_entry *entry)
{
	unlink_entry(queue, entry);
	append(queue, entry, entry->tier - 1u);
}

/* Behind what is in the tier above, in the order in which they were in this one. */
static uint32_t raise_all(struct otte_queue *queue, unsigned tier)
{
	struct otte_queue_entry *entry;
	uint32_t raised = 0;

	while ((entry = first_of(queue, tier, OTTE_QUEUE_ALL))) {
		lift(queue, entry);
		raised++;
	}
	return raised;
}

/* The next aged one that heads the entries of its priority. */
static struct otte_queue_entry *first_aged(const struct otte_queue *queue, unsigned tier,
					   uint64_t now_ns)
{
	unsigned heads = 0, priority;

	for (priority = tier; priority < OTTE_PRIORITIES; priority++)
		if (queue->waits[tier][priority] &&
		    aged(queue, queue->waits[tier][priority], now_ns))
			heads |= 1u << priority;
	return first_of(queue, tier, heads);
}

static uint32_t raise_aged(struct otte_queue *queue, unsigned tier, uint64_t now_ns)
{
	struct otte_queue_entry *entry;
	uint32_t raised = 0;

	while ((entry = first_aged(queue, tier, now_ns))) {
		lift(queue, entry);
		raised++;
	}
	return raised;
}

/* An entry is moved at most twice in its life, so the cost of all passes is that of all pushes. */
uint32_t otte_queue_age(struct otte_queue *queue, uint64_t now_ns)
{
	struct otte_queue_entry *head;
	uint32_t raised = 0;
	unsigned tier;

	if (!queue->aging_ns || now_ns < queue->pass_due_ns || !(queue->count[1] | queue->count[2]))
		return 0;
	queue->pass_due_ns = now_ns + OTTE_QUEUE_PASS_NS;
	/* From above, so that nothing goes up two tiers. */
	for (tier = 1; tier < OTTE_PRIORITIES; tier++) {
		if (queue->per_entry) {
			raised += raise_aged(queue, tier, now_ns);
			continue;
		}
		head = first_of(queue, tier, OTTE_QUEUE_ALL);
		if (head && aged(queue, head, now_ns))
			raised += raise_all(queue, tier);
	}
	return raised;
}
