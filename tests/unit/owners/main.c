/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The lower owners of RDMA over simulated verbs: what is charged, what is refused, what is
 * retained.
 */
#include "ends.h"

int main(void)
{
	int failed = 0;

	failed += run_binding_tests();
	failed += run_context_tests();
	failed += run_buffer_tests();
	failed += run_qp_tests();
	failed += run_send_tests();
	failed += run_receive_tests();
	failed += run_window_tests();
	failed += run_lane_tests();
	failed += run_thread_tests();
	return failed != 0;
}
