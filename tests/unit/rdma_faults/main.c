/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

int main(void)
{
	int failed = 0;

	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	failed += run_lane_tests();
	failed += run_route_tests();
	failed += run_matrix_tests();
	failed += run_fork_tests();
	failed += run_peer_tests();
	failed += run_stall_tests();
	return failed;
}
