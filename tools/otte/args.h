/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Arguments as people write them. Each function takes the option's name for its message; on a bad
 * argument it complains, naming option and argument, and returns false.
 */
#ifndef OTTE_TOOL_ARGS_H
#define OTTE_TOOL_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/number.h"

/* A file's name. An empty one would do without what was meant: a variable that is not set, in a script. */
bool args_file(const char *option, const char *text, const char **file);

/* 4096, 64K, 1M, 1.5G, 2T; K is 1024. Never 0. */
bool args_size(const char *option, const char *text, uint64_t *bytes);

/* The same where not every size will do. */
bool args_size_within(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *bytes);

/* A list of sizes with commas. At most `capacity`; *count says how many. */
bool args_sizes(const char *option, const char *text, uint64_t *sizes, size_t capacity,
		size_t *count);

/* 5, 5s, 250ms, 10us, 2m: a bare number is seconds. */
bool args_duration(const char *option, const char *text, uint64_t *ns);

/* A decimal such as 0.95 or 10, not negative. */
bool args_decimal(const char *option, const char *text, double *value);

/* "CPU" for both, or "A,B". */
bool args_cpus(const char *option, const char *text, int *first, int *second);

#endif
