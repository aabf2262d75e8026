/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_TOOL_MEMORY_H
#define OTTE_TOOL_MEMORY_H

#include <stdint.h>

/*
 * Complain if this machine cannot give that much: one that runs out of memory later ends processes
 * without a word. `remedy` says what to change. EXIT_OK or EXIT_LOCAL.
 */
int check_memory(uint64_t bytes, const char *remedy);

#endif
