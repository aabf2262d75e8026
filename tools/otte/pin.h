/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_TOOL_PIN_H
#define OTTE_TOOL_PIN_H

/*
 * Keep the calling thread, and what it starts from now on, on one CPU; negative: as it is.
 * 0 or a negative errno.
 */
int pin_to(int cpu);

#endif
