/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One cmocka group for each file here; main.c runs them all. Each returns its number of failures. */
#ifndef TESTS_UNIT_CONTROL_SUITES_H
#define TESTS_UNIT_CONTROL_SUITES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

int run_wire_format_tests(void);
int run_wire_rule_tests(void);
int run_auth_tests(void);
int run_identity_tests(void);
int run_endpoint_tests(void);
int run_descriptor_tests(void);
int run_stream_tests(void);

#endif
