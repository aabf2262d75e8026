/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Each returns the number of tests that failed. */
#ifndef OTTE_TESTS_RDMA_SUITES_H
#define OTTE_TESTS_RDMA_SUITES_H

int run_verbs_tests(void);
int run_rate_tests(void);
int run_discovery_tests(void);

#endif
