/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

#include "base/clock.h"
#include "base/log_limit.h"

#define BEGIN (77 * NSEC_PER_SEC)

static int stop_the_clock(void **state)
{
	(void)state;
	otte_clock_fake(BEGIN);
	return 0;
}

static int go_back_to_the_real_clock(void **state)
{
	(void)state;
	otte_clock_fake(0);
	return 0;
}

/* How many of `lines` are admitted now. */
static unsigned admitted(struct otte_log_limit *limit, unsigned lines)
{
	unsigned n = 0;

	while (lines--)
		n += otte_log_limit_admits(limit, otte_now_ns());
	return n;
}

static void a_second_has_so_many_lines_and_the_rest_is_counted(void **state)
{
	struct otte_log_limit limit = { 0 };

	(void)state;
	assert_int_equal(admitted(&limit, OTTE_LOG_LIMIT_LINES), OTTE_LOG_LIMIT_LINES);
	assert_true(otte_log_limit_due(&limit) == UINT64_MAX);
	assert_int_equal(admitted(&limit, 500), 0);
	assert_int_equal(otte_log_limit_due(&limit), BEGIN + NSEC_PER_SEC);
	/* Not before the second is over, and then once. */
	otte_clock_fake(BEGIN + NSEC_PER_SEC - 1);
	assert_int_equal(admitted(&limit, 1), 0);
	assert_int_equal(otte_log_limit_held(&limit, otte_now_ns()), 0);
	otte_clock_fake(BEGIN + NSEC_PER_SEC);
	assert_int_equal(otte_log_limit_held(&limit, otte_now_ns()), 501);
	assert_int_equal(otte_log_limit_held(&limit, otte_now_ns()), 0);
	assert_true(otte_log_limit_due(&limit) == UINT64_MAX);
}

static void the_next_second_begins_with_its_first_line(void **state)
{
	struct otte_log_limit limit = { 0 };

	(void)state;
	assert_int_equal(admitted(&limit, OTTE_LOG_LIMIT_LINES + 3), OTTE_LOG_LIMIT_LINES);
	otte_clock_fake(BEGIN + 5 * NSEC_PER_SEC);
	assert_int_equal(otte_log_limit_held(&limit, otte_now_ns()), 3);
	assert_int_equal(admitted(&limit, OTTE_LOG_LIMIT_LINES), OTTE_LOG_LIMIT_LINES);
	assert_int_equal(admitted(&limit, 1), 0);
	assert_int_equal(otte_log_limit_due(&limit), BEGIN + 6 * NSEC_PER_SEC);
}

static void a_few_lines_now_and_then_are_never_held_back(void **state)
{
	struct otte_log_limit limit = { 0 };
	unsigned i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		otte_clock_fake(BEGIN + i * NSEC_PER_SEC / OTTE_LOG_LIMIT_LINES);
		assert_int_equal(admitted(&limit, 1), 1);
	}
	assert_true(otte_log_limit_due(&limit) == UINT64_MAX);
}

int run_log_limit_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_second_has_so_many_lines_and_the_rest_is_counted,
						stop_the_clock, go_back_to_the_real_clock),
		cmocka_unit_test_setup_teardown(the_next_second_begins_with_its_first_line,
						stop_the_clock, go_back_to_the_real_clock),
		cmocka_unit_test_setup_teardown(a_few_lines_now_and_then_are_never_held_back,
						stop_the_clock, go_back_to_the_real_clock),
	};

	return cmocka_run_group_tests_name("log limit", tests, NULL, NULL);
}
