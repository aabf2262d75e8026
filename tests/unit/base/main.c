/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

int main(void)
{
	int failed = 0;

	failed += run_clock_tests();
	failed += run_error_tests();
	failed += run_itree_tests();
	failed += run_log_limit_tests();
	failed += run_log_tests();
	failed += run_loop_tests();
	failed += run_tail_lock_tests();
	failed += run_uses_tests();
	return failed != 0;
}
