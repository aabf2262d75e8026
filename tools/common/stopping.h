/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* SIGINT, SIGTERM and SIGHUP as something that a loop can look at and sleep on. */
#ifndef OTTE_TOOLS_STOPPING_H
#define OTTE_TOOLS_STOPPING_H

#include <stdbool.h>

/* From now on they only raise the flag. Call before the engine starts threads. */
int stopping_begin(void);

/*
 * While there is nothing to clean up, and calls wait that do not look at the flag: from now on until
 * stopping_is_noted() one of them ends the process at once with exit status `code`, "WHO: interrupted" on
 * standard error, and no more.
 */
void stopping_ends_us(const char *who, int code);
void stopping_is_noted(void);

/* How many have come. */
int stopping_count(void);

/* Readable from the first one on, for a poll() of the caller's own. */
int stopping_descriptor(void);

/* Sleep until one more comes than `seen`. */
void stopping_wait(int seen);

#endif
