/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One cmocka group for each file here; main.c runs them all. Each returns its number of failures. */
#ifndef TESTS_UNIT_BASE_SUITES_H
#define TESTS_UNIT_BASE_SUITES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

int run_clock_tests(void);
int run_error_tests(void);
int run_itree_tests(void);
int run_log_limit_tests(void);
int run_loop_tests(void);
int run_log_tests(void);
int run_tail_lock_tests(void);
int run_uses_tests(void);

#endif
