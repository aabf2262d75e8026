/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The dispatch window of one peer: what waits, by priority, and how much may be under way.
 *
 * An entry is queued by push(), comes out of next() once it fits, and is given back with done(). A
 * request larger than the window goes alone. High before Medium before Low, first in first out within
 * each. The owner's lock is held around every call.
 */
#ifndef OTTE_SCHED_WINDOW_H
#define OTTE_SCHED_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define OTTE_PRIORITIES 3

struct otte_window_entry {
	struct otte_window_entry *prev, *next;
	uint64_t bytes;
	uint8_t priority;
	bool queued;
};

struct otte_window {
	struct otte_window_entry *queue[OTTE_PRIORITIES];
	uint32_t max_requests, requests; /* under way */
	uint64_t max_bytes, bytes;
};

void otte_window_push(struct otte_window *window, struct otte_window_entry *entry);
/* Straight to under way, where nothing waits and it fits; else false, and nothing has changed. */
bool otte_window_enter(struct otte_window *window, struct otte_window_entry *entry);
/* The next entry, now under way; NULL when nothing waits or nothing fits. */
struct otte_window_entry *otte_window_next(struct otte_window *window);
bool otte_window_waiting(const struct otte_window *window);
/* Take back an entry that still waits. False: it is under way. */
bool otte_window_remove(struct otte_window *window, struct otte_window_entry *entry);
void otte_window_done(struct otte_window *window, struct otte_window_entry *entry);

#endif
