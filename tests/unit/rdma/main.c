/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

int main(void)
{
	int failed = 0;

	failed += run_verbs_tests();
	failed += run_rate_tests();
	failed += run_discovery_tests();
	return failed != 0;
}
