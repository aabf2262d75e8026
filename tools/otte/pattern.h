/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Content that follows from a seed, so that whoever gets it can tell whether it is right. */
#ifndef OTTE_TOOL_PATTERN_H
#define OTTE_TOOL_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

void pattern_fill(void *memory, uint64_t length, uint64_t seed);

/* On a difference, *where is the offset of the first wrong word. */
bool pattern_check(const void *memory, uint64_t length, uint64_t seed, uint64_t *where);

#endif
