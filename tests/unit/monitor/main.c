/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The monitor of RDMA over simulated verbs: what it takes and asks, and what follows for routes. */
#include "room.h"

int main(void)
{
	int failed = 0;

	failed += run_event_tests();
	failed += run_route_tests();
	failed += run_life_tests();
	failed += run_thread_tests();
	return failed != 0;
}
