/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The simulator's own tests. Each returns the number of tests that failed. */
#ifndef OTTE_TESTS_VERBS_SIM_SUITES_H
#define OTTE_TESTS_VERBS_SIM_SUITES_H

int run_devices_tests(void);
int run_memory_tests(void);
int run_queues_tests(void);
int run_transfer_tests(void);
int run_windows_tests(void);
int run_completion_tests(void);
int run_events_tests(void);
int run_fabric_tests(void);
int run_progress_tests(void);
int run_faults_tests(void);

#endif
