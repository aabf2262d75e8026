/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

int main(void)
{
	int failed = 0;

	failed += run_devices_tests();
	failed += run_memory_tests();
	failed += run_queues_tests();
	failed += run_transfer_tests();
	failed += run_windows_tests();
	failed += run_completion_tests();
	failed += run_events_tests();
	failed += run_fabric_tests();
	failed += run_progress_tests();
	failed += run_faults_tests();
	return failed != 0;
}
