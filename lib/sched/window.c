/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sched/window.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/util.h"
#include "sched/slots.h"

#define HIGH 0 /* sends in every slot there can be */

/* Bytes begin, or end, to wait. */
static void waits(struct otte_window *window, const struct otte_queue_entry *entry, bool begin)
{
	int64_t bytes = begin ? (int64_t)entry->bytes : -(int64_t)entry->bytes;

	if (!window->slots)
		return;
	if (entry->priority != HIGH)
		window->low_waiting += (uint64_t)bytes;
	otte_slots_wait(window->slots, entry->priority, bytes);
}

int otte_window_push(struct otte_window *window, struct otte_queue_entry *entry)
{
	int ret = otte_queue_push(&window->queue, entry);

	if (ret)
		return ret;
	if (window->slots)
		otte_slots_ask(window->slots, entry->priority, entry->bytes);
	waits(window, entry, true);
	return 0;
}

static bool fits(const struct otte_window *window, const struct otte_queue_entry *entry)
{
	if (window->requests == 0)
		return true;
	return window->requests < window->max_requests && entry->bytes <= window->max_bytes &&
	       window->bytes <= window->max_bytes - entry->bytes;
}

static void take(struct otte_window *window, const struct otte_queue_entry *entry)
{
	window->requests++;
	window->bytes += entry->bytes;
}

/* Of the bytes under way below High. Where others wait for theirs, this window does not go before them. */
static bool take_room(struct otte_window *window, const struct otte_queue_entry *entry)
{
	struct otte_slots *slots = window->slots;

	if (!slots || entry->priority == HIGH)
		return true;
	if (otte_slots_contended(slots) && otte_slots_low_waiting(slots) > window->low_waiting) {
		window->deferred = true;
		return false;
	}
	return otte_slots_take(slots, entry->priority, entry->bytes);
}

/* By slot and by bytes under way; the latter are then taken. */
static OTTE_COLD bool pass_gate(struct otte_window *window, const struct otte_queue_entry *entry)
{
	unsigned wanted = 1u << entry->priority;

	window->again_ns = UINT64_MAX;
	window->deferred = false;
	return otte_slots_admit(window->slots, wanted, otte_now_ns(), &window->again_ns) &&
	       take_room(window, entry);
}

/* What others are told of an entry that leaves, until leave_gated(). */
static void depart(struct otte_window *window, struct otte_queue_entry *entry)
{
	entry->nic = window->nic;
	otte_slots_depart(window->slots, entry->nic, entry->bytes);
}

static OTTE_COLD bool enter_gated(struct otte_window *window, struct otte_queue_entry *entry)
{
	if (entry->priority != HIGH && !pass_gate(window, entry))
		return false;
	otte_slots_ask(window->slots, entry->priority, entry->bytes);
	depart(window, entry);
	return true;
}

bool otte_window_enter(struct otte_window *window, struct otte_queue_entry *entry)
{
	if (otte_window_waiting(window) || !fits(window, entry))
		return false;
	if (window->slots && !enter_gated(window, entry))
		return false;
	take(window, entry);
	return true;
}

/* Lets those move up that are to, and says which priorities may send. */
static OTTE_COLD unsigned look_at_lower(struct otte_window *window)
{
	unsigned wanted = OTTE_QUEUE_ALL & ~(1u << HIGH), i;
	uint64_t now_ns = otte_now_ns();

	window->promoted += otte_queue_age(&window->queue, now_ns);
	if (!window->slots)
		return OTTE_QUEUE_ALL;
	for (i = 0; i < OTTE_PRIORITIES; i++)
		if (!window->queue.count[i])
			wanted &= ~(1u << i);
	return 1u << HIGH | otte_slots_admit(window->slots, wanted, now_ns, &window->again_ns);
}

static bool unqueue(struct otte_window *window, struct otte_queue_entry *entry)
{
	if (!otte_queue_remove(&window->queue, entry))
		return false;
	waits(window, entry, false);
	return true;
}

struct otte_queue_entry *otte_window_next(struct otte_window *window)
{
	struct otte_queue_entry *entry;
	unsigned admitted = 1u << HIGH;

	window->again_ns = UINT64_MAX;
	window->deferred = false;
	if (window->queue.count[1] | window->queue.count[2])
		admitted = look_at_lower(window);
	for (;;) {
		entry = otte_queue_first(&window->queue, admitted);
		if (!entry || !fits(window, entry))
			return NULL;
		if (take_room(window, entry))
			break;
		/* No room for what is below High, in all; it does not hold up what is High. */
		admitted = 1u << HIGH;
	}
	unqueue(window, entry);
	if (window->slots)
		depart(window, entry);
	take(window, entry);
	return entry;
}

bool otte_window_remove(struct otte_window *window, struct otte_queue_entry *entry)
{
	if (!unqueue(window, entry))
		return false;
	entry->last = window->slots &&
		      otte_slots_answered(window->slots, entry->priority, entry->bytes) &&
		      otte_slots_low_waiting(window->slots);
	return true;
}

static OTTE_COLD bool leave_gated(struct otte_window *window, const struct otte_queue_entry *entry)
{
	struct otte_slots *slots = window->slots;
	bool last;

	otte_slots_arrive(slots, entry->nic, entry->bytes);
	last = otte_slots_answered(slots, entry->priority, entry->bytes);
	otte_slots_give(slots, entry->priority, entry->bytes);
	if (entry->priority == HIGH && !last)
		return false;
	return otte_slots_low_waiting(slots) > window->low_waiting;
}

bool otte_window_done(struct otte_window *window, struct otte_queue_entry *entry)
{
	window->requests--;
	window->bytes -= entry->bytes;
	return window->slots && leave_gated(window, entry);
}
