/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lines that strangers can provoke, bounded in number for each second: a flood of them would fill a
 * disk and hide every other line. What is held back is counted, so that one line can say how many.
 *
 * The limit belongs to one thread, or to a lock of its owner's; a second to anybody.
 */
#ifndef OTTE_BASE_LOG_LIMIT_H
#define OTTE_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* Lines of one second. */
#define OTTE_LOG_LIMIT_LINES 10

/* All zero: nothing was said yet. */
struct otte_log_limit {
	uint64_t until_ns; /* the end of the second that the counts are of; 0: none has begun */
	uint32_t said, held;
};

/* Whether one more line may be said now. If not it is counted as held back. */
bool otte_log_limit_admits(struct otte_log_limit *limit, uint64_t now_ns);

/*
 * How many lines of a second that is over were held back; told once. To be asked before a line is
 * said, and from otte_log_limit_due() on.
 */
uint32_t otte_log_limit_held(struct otte_log_limit *limit, uint64_t now_ns);

/* When there will be something to tell; UINT64_MAX: nothing was held back. */
uint64_t otte_log_limit_due(const struct otte_log_limit *limit);

/* Whether a line may be said, once a second at most. *said_ns: 0 at first. Any thread, no lock. */
bool otte_log_second_admits(_Atomic uint64_t *said_ns, uint64_t now_ns);

#endif
