/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sched/window.h"

#include <stddef.h>
#include <utlist.h>

void otte_window_push(struct otte_window *window, struct otte_window_entry *entry)
{
	DL_APPEND(window->queue[entry->priority], entry);
	entry->queued = true;
}

static bool fits(const struct otte_window *window, const struct otte_window_entry *entry)
{
	if (window->requests == 0)
		return true;
	return window->requests < window->max_requests && entry->bytes <= window->max_bytes &&
	       window->bytes <= window->max_bytes - entry->bytes;
}

static void take(struct otte_window *window, const struct otte_window_entry *entry)
{
	window->requests++;
	window->bytes += entry->bytes;
}

bool otte_window_enter(struct otte_window *window, struct otte_window_entry *entry)
{
	if (otte_window_waiting(window) || !fits(window, entry))
		return false;
	take(window, entry);
	return true;
}

struct otte_window_entry *otte_window_next(struct otte_window *window)
{
	struct otte_window_entry *entry = NULL;
	int i;

	for (i = 0; i < OTTE_PRIORITIES && !entry; i++)
		entry = window->queue[i];
	if (!entry || !fits(window, entry))
		return NULL;
	otte_window_remove(window, entry);
	take(window, entry);
	return entry;
}

bool otte_window_waiting(const struct otte_window *window)
{
	return window->queue[0] || window->queue[1] || window->queue[2];
}

bool otte_window_remove(struct otte_window *window, struct otte_window_entry *entry)
{
	if (!entry->queued)
		return false;
	DL_DELETE(window->queue[entry->priority], entry);
	entry->queued = false;
	return true;
}

void otte_window_done(struct otte_window *window, struct otte_window_entry *entry)
{
	window->requests--;
	window->bytes -= entry->bytes;
}
