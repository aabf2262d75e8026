/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"

static uint64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void assert_real(void)
{
	uint64_t before = monotonic_ns(), now = otte_now_ns(), after = monotonic_ns();

	assert_true(before <= now && now <= after);
}

static int go_back_to_the_real_clock(void **state)
{
	(void)state;
	otte_clock_fake(0);
	return 0;
}

static void time_is_the_monotonic_clock(void **state)
{
	(void)state;
	assert_real();
}

static void *read_clock(void *arg)
{
	*(uint64_t *)arg = otte_now_ns();
	return NULL;
}

static void a_fake_clock_stands_still_for_every_thread(void **state)
{
	uint64_t seen = 0;
	pthread_t thread;

	(void)state;
	otte_clock_fake(42);
	assert_int_equal(otte_now_ns(), 42);
	assert_int_equal(otte_now_ns(), 42);
	assert_int_equal(pthread_create(&thread, NULL, read_clock, &seen), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(seen, 42);
}

static void a_fake_clock_is_moved_both_ways_and_given_up(void **state)
{
	(void)state;
	otte_clock_fake(UINT64_MAX);
	assert_true(otte_now_ns() == UINT64_MAX);
	otte_clock_fake(1);
	assert_int_equal(otte_now_ns(), 1);
	otte_clock_fake(0);
	assert_real();
}

static void a_time_is_said_in_the_unit_that_people_would_use(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} times[] = {
		{ 0, "0 ns" }, { 7, "7 ns" }, { 999, "999 ns" }, { 1000, "1 us" }, { 1500, "1.5 us" },
		{ 250 * NSEC_PER_MSEC, "250 ms" }, { 10 * NSEC_PER_SEC, "10 s" },
		{ 100 * NSEC_PER_SEC, "100 s" }, { NSEC_PER_SEC + 1, "1.000000001 s" },
		{ 1050 * NSEC_PER_MSEC, "1.05 s" }, { UINT64_MAX, "18446744073.709551615 s" },
	};
	char text[OTTE_TIME_TEXT];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		assert_string_equal(otte_time_text(text, times[i].ns), times[i].text);
}

int run_clock_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_is_the_monotonic_clock),
		cmocka_unit_test(a_time_is_said_in_the_unit_that_people_would_use),
		cmocka_unit_test_teardown(a_fake_clock_stands_still_for_every_thread,
					  go_back_to_the_real_clock),
		cmocka_unit_test_teardown(a_fake_clock_is_moved_both_ways_and_given_up,
					  go_back_to_the_real_clock),
	};

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
