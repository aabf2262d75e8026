/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A bar with rate and time left on standard error, where that is a terminal; nothing elsewhere. A
 * message of complain() and the like takes its place.
 */
#ifndef OTTE_TOOL_PROGRESS_H
#define OTTE_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *label;
	uint64_t total;
	bool counts; /* things, not bytes */
	uint64_t begin_ns;
	uint64_t shown_ns;
	bool visible;
};

/* One at a time, of bytes or of things that `label` names; none with `total` 0. */
void progress_begin(struct progress *progress, const char *label, uint64_t total);
void progress_begin_count(struct progress *progress, const char *label, uint64_t total);
void progress_update(struct progress *progress, uint64_t done);

/* Remove the bar. */
void progress_end(struct progress *progress);

#endif
