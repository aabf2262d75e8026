/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_TESTS_GUARD_H
#define OTTE_TESTS_GUARD_H

/* Prints what a verdict costs; 0. */
int guard_bench(void);

#endif
