/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs of this folder have in common: rules that are counted, and what they need
 * first.
 */
#ifndef OTTE_TESTS_VERBS_CHECK_H
#define OTTE_TESTS_VERBS_CHECK_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned int passed, failed;

static inline void check(bool good, const char *rule)
{
	printf("%s - %s\n", good ? "ok" : "not ok", rule);
	passed += good;
	failed += !good;
}

/* The closing line, and the exit status. */
static inline int checked(void)
{
	printf("%u passed, %u failed, 0 skipped\n", passed, failed);
	return failed != 0;
}

#endif
