/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

int main(void)
{
	int failed = 0;

	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	failed += run_requester_tests();
	failed += run_source_tests();
	failed += run_lost_tests();
	return failed;
}
