/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How fast a port is, for all that it can report. */
#include "transport/rdma/rate.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/util.h"
#include "suites.h"

#define GBPS 125000000ull

static void a_known_encoding_is_lanes_times_speed(void **state)
{
	static const struct {
		uint8_t width;
		uint32_t speed;
		uint64_t gbps;
	} known[] = {
		{ 2, 1, 10 },	  { 2, 2, 20 },	  { 2, 4, 40 },	   { 2, 8, 40 },    { 2, 16, 56 },
		{ 2, 32, 100 },	  { 2, 64, 200 }, { 2, 128, 400 }, { 2, 256, 800 }, { 1, 128, 100 },
		{ 4, 256, 1600 }, { 8, 32, 300 }, { 16, 64, 100 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(known); i++)
		assert_int_equal(otte_rdma_encoded_rate(known[i].width, known[i].speed),
				 known[i].gbps * GBPS);
	assert_int_equal(otte_rdma_encoded_rate(1, 1), 5 * GBPS / 2);
}

/* All widths with all speeds of two bytes, and a bit in each place above. */
static void any_other_encoding_is_unknown(void **state)
{
	unsigned int width, bit, known = 0;
	uint64_t speed;

	(void)state;
	for (width = 0; width <= UINT8_MAX; width++) {
		for (speed = 0; speed <= UINT16_MAX; speed++)
			known += otte_rdma_encoded_rate((uint8_t)width, (uint32_t)speed) != 0;
		for (bit = 16; bit < 32; bit++)
			assert_int_equal(otte_rdma_encoded_rate((uint8_t)width, 1u << bit), 0);
	}
	assert_int_equal(known, 5 * 9);
}

/* ---- A port ---------------------------------------------------------------------------------- */

static struct {
	uint64_t value;
	int error;
} told;

static int tell_speed(struct ibv_context *context, uint32_t port, uint64_t *hundred_mbps)
{
	(void)context;
	(void)port;
	*hundred_mbps = told.value;
	return told.error;
}

static uint64_t rate_of(uint8_t width, uint8_t speed, uint32_t speed_ex)
{
	union otte_verbs_port port = { .attr = { .active_width = width, .active_speed = speed } };
	struct otte_verbs verbs = { .query_port_speed = tell_speed };

	port.extended.active_speed_ex = speed_ex;
	return otte_rdma_port_rate(&verbs, NULL, 1, &port);
}

static void the_extended_speed_comes_before_that_of_a_byte(void **state)
{
	(void)state;
	told.error = EOPNOTSUPP;
	assert_int_equal(rate_of(2, 128, 256), 800 * GBPS);
	assert_int_equal(rate_of(2, 128, 0), 400 * GBPS);
}

static void what_the_library_tells_of_a_port_comes_before_both(void **state)
{
	(void)state;
	told.error = 0;
	told.value = 3000;
	assert_int_equal(rate_of(2, 128, 256), 300 * GBPS);
	told.error = EPROTONOSUPPORT;
	assert_int_equal(rate_of(2, 128, 256), 800 * GBPS);
}

static void what_no_port_can_be_is_not_believed(void **state)
{
	static const uint64_t wrong[] = { 0, 1000001, UINT32_MAX, UINT64_MAX / 12500000 + 1,
					  UINT64_MAX };
	size_t i;

	(void)state;
	told.error = 0;
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		told.value = wrong[i];
		assert_int_equal(rate_of(2, 128, 0), 400 * GBPS);
	}
	told.value = 1000000;
	assert_int_equal(rate_of(2, 128, 0), 100000 * GBPS);
}

static void a_library_that_cannot_tell_is_not_asked(void **state)
{
	union otte_verbs_port port = { .attr = { .active_width = 2, .active_speed = 32 } };
	struct otte_verbs verbs = {};

	(void)state;
	assert_int_equal(otte_rdma_port_rate(&verbs, NULL, 1, &port), 100 * GBPS);
}

int run_rate_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_known_encoding_is_lanes_times_speed),
		cmocka_unit_test(any_other_encoding_is_unknown),
		cmocka_unit_test(the_extended_speed_comes_before_that_of_a_byte),
		cmocka_unit_test(what_the_library_tells_of_a_port_comes_before_both),
		cmocka_unit_test(what_no_port_can_be_is_not_believed),
		cmocka_unit_test(a_library_that_cannot_tell_is_not_asked),
	};

	return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
