/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "otte/otte.h"

#define TEXT_BYTES 255

static void a_failure_gives_its_code_and_keeps_its_text(void **state)
{
	(void)state;
	assert_int_equal(otte_fail(-EDQUOT, "limits.%s is %d", "regions", 7), -EDQUOT);
	assert_string_equal(otte_error_text(), "limits.regions is 7");
	assert_int_equal(otte_fail(-EBUSY, "in use"), -EBUSY);
	assert_string_equal(otte_error_text(), "in use");
}

static void callers_put_their_words_before_what_failed_within(void **state)
{
	(void)state;
	otte_fail(-EPROTO, "epoch is 0");
	assert_int_equal(otte_fail_within(-ECONNRESET, "HELLO from %s: ", "h:1"), -ECONNRESET);
	assert_int_equal(otte_fail_within(-ESTALE, "segment: "), -ESTALE);
	assert_string_equal(otte_error_text(), "segment: HELLO from h:1: epoch is 0");
}

static void a_text_may_quote_the_one_that_it_replaces(void **state)
{
	(void)state;
	otte_fail(-EIO, "inner");
	otte_fail(-EIO, "outer (%s), twice (%s)", otte_error_text(), otte_error_text());
	assert_string_equal(otte_error_text(), "outer (inner), twice (inner)");
	otte_fail_within(-EIO, "<%s> ", otte_error_text());
	assert_string_equal(otte_error_text(),
			    "<outer (inner), twice (inner)> outer (inner), twice (inner)");
}

static void a_text_that_does_not_fit_loses_its_end(void **state)
{
	char longest[2 * TEXT_BYTES + 1] = { 0 };

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	otte_fail(-EIO, "a%s", longest);
	assert_int_equal(strlen(otte_error_text()), TEXT_BYTES);
	otte_fail_within(-EIO, "b: ");
	assert_int_equal(strlen(otte_error_text()), TEXT_BYTES);
	assert_memory_equal(otte_error_text(), "b: axx", 6);
	otte_fail_within(-EIO, "%s", longest);
	assert_int_equal(strlen(otte_error_text()), TEXT_BYTES);
	assert_int_equal(otte_error_text()[0], 'x');
}

static void *fail_elsewhere(void *arg)
{
	bool *clean = arg;

	*clean = !*otte_error_text();
	otte_fail(-EIO, "another thread's");
	return NULL;
}

static void each_thread_has_a_text_of_its_own(void **state)
{
	bool clean = false;
	pthread_t thread;

	(void)state;
	otte_fail(-EIO, "this thread's");
	assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &clean), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(clean);
	assert_string_equal(otte_error_text(), "this thread's");
}

static void every_code_of_the_contract_has_words_of_its_own(void **state)
{
	static const int codes[] = {
		-EINVAL,    -ENOENT,     -ERANGE,     -EACCES,	       -ESTALE,	     -EKEYREVOKED,
		-EDQUOT,    -EBUSY,      -ECANCELED,  -ETIME,	       -ETIMEDOUT,   -ECONNRESET,
		-EUCLEAN,   -ESHUTDOWN,  -EPROTO,     -EPROTONOSUPPORT, -EKEYREJECTED, -EOWNERDEAD,
		-E2BIG,     -EEXIST,     -ENOSYS,     -ENODEV,	       -ENOTCONN,    -EALREADY,
		-EOPNOTSUPP, -EUSERS,
	};
	size_t i, j;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(codes); i++) {
		assert_string_not_equal(otte_strerror(codes[i]), strerror(-codes[i]));
		/* As much as OTTE_FAILURE_TEXT_MAX has for them. */
		assert_in_range(strlen(otte_strerror(codes[i])), 1, 80);
		for (j = 0; j < i; j++)
			assert_string_not_equal(otte_strerror(codes[i]), otte_strerror(codes[j]));
	}
	assert_string_equal(otte_strerror(0), "success");
	assert_string_equal(otte_strerror(-EDQUOT), "a budget is full");
	assert_string_equal(otte_strerror(-EIO), strerror(EIO));
	assert_non_null(otte_strerror(INT_MIN));
}

int run_error_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failure_gives_its_code_and_keeps_its_text),
		cmocka_unit_test(callers_put_their_words_before_what_failed_within),
		cmocka_unit_test(a_text_may_quote_the_one_that_it_replaces),
		cmocka_unit_test(a_text_that_does_not_fit_loses_its_end),
		cmocka_unit_test(each_thread_has_a_text_of_its_own),
		cmocka_unit_test(every_code_of_the_contract_has_words_of_its_own),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
