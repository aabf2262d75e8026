/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

int main(void)
{
	int failed = 0;

	failed += run_wire_format_tests();
	failed += run_wire_rule_tests();
	failed += run_auth_tests();
	failed += run_identity_tests();
	failed += run_endpoint_tests();
	failed += run_descriptor_tests();
	failed += run_stream_tests();
	return failed != 0;
}
