/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers on a command line. */
#ifndef OTTE_TOOLS_NUMBER_H
#define OTTE_TOOLS_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* A decimal number from `least` to `most`; else it complains, naming the option: false. */
bool option_number(const char *option, const char *text, uint64_t least, uint64_t most,
		   uint64_t *number);
/* The same for what is counted by an unsigned. */
bool option_count(const char *option, const char *text, unsigned least, unsigned most,
		  unsigned *number);

#endif
