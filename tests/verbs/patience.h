/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that have to succeed, and what is waited for by looking again. */
#ifndef OTTE_TESTS_VERBS_PATIENCE_H
#define OTTE_TESTS_VERBS_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "otte/otte.h"

#define SECOND 1000000000ll

#define MUST(call) must(call, #call)
/* Until `condition`, or for so long; true: it holds. */
#define EVENTUALLY_WITHIN(ns, condition)                                \
	({                                                              \
		uint64_t until_ns_ = now_ns() + (ns);                   \
		bool holds_;                                            \
		while (!(holds_ = (condition)) && now_ns() < until_ns_) \
			nap();                                          \
		holds_;                                                 \
	})

static inline void must(int ret, const char *what)
{
	if (!ret)
		return;
	printf("not ok - %s: %d: %s\n", what, ret, otte_error_text());
	fflush(stdout);
	_exit(2);
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static inline void nap(void)
{
	const struct timespec step = { .tv_nsec = 2000000 };

	nanosleep(&step, NULL);
}

#endif
