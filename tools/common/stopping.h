/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* SIGINT, SIGTERM and SIGHUP as something that a loop can look at and sleep on. */
#ifndef OTTE_TOOLS_STOPPING_H
#define OTTE_TOOLS_STOPPING_H

#include <stdbool.h>

/* From now on the two signals only raise the flag. Call before the engine starts threads. */
int stopping_begin(void);

/* How many have come. */
int stopping_count(void);

/* Readable from the first one on, for a poll() of the caller's own. */
int stopping_descriptor(void);

/* Sleep until one more comes than `seen`. */
void stopping_wait(int seen);

#endif
