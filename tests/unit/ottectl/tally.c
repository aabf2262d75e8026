/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums by client, from dumps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../../tools/ottectl/tally.h"
#include "build.h"
#include "suites.h"

static void add(struct tally *tally, struct message message)
{
	assert_int_equal(tally_add(tally, &message), 0);
}

static long long sum(const json_t *row, const char *key)
{
	return (long long)json_integer_value(json_object_get(row, key));
}

static void clients_have_what_is_theirs_and_who_lent_most_is_first(void **state)
{
	struct tally *tally = tally_create();
	json_t *rows, *row;

	(void)state;
	add(tally, build_client(1, 1001, "one"));
	add(tally, build_client(2, 1002, "two"));
	add(tally, build_region(1, 1000));
	add(tally, build_region(1, 24));
	add(tally, build_loan(2, 1, OTTE_NL_LOAN_EXPOSED, 300));
	add(tally, build_loan(2, 1, OTTE_NL_LOAN_OFFERED, 50));
	add(tally, build_loan(2, 0, OTTE_NL_LOAN_EXPOSED, 7));
	add(tally, build_loan(1, 2, OTTE_NL_LOAN_SETTLED, 9999));
	rows = tally_json(tally);
	assert_int_equal(json_array_size(rows), 2);
	row = json_array_get(rows, 0);
	assert_int_equal(sum(row, "id"), 2);
	assert_int_equal(sum(row, "uid"), 1002);
	assert_string_equal(json_string_value(json_object_get(row, "comm")), "two");
	assert_int_equal(sum(row, "lent_bytes"), 357);
	assert_int_equal(sum(row, "loans"), 3);
	assert_int_equal(sum(row, "borrowed_bytes"), 0);
	row = json_array_get(rows, 1);
	assert_int_equal(sum(row, "id"), 1);
	assert_int_equal(sum(row, "registered_bytes"), 1024);
	assert_int_equal(sum(row, "regions"), 2);
	assert_int_equal(sum(row, "lent_bytes"), 0);
	assert_int_equal(sum(row, "borrowed_bytes"), 300);
	json_decref(rows);
	tally_free(tally);
}

static void the_dead_are_there_by_what_they_left(void **state)
{
	struct tally *tally = tally_create();
	json_t *rows, *row;

	(void)state;
	add(tally, build_client(1, 1001, "one"));
	add(tally, build_record(1, 10, 500));
	add(tally, build_record(8, 20, 900));
	rows = tally_json(tally);
	assert_int_equal(json_array_size(rows), 2);
	row = json_array_get(rows, 0);
	assert_false(json_is_true(json_object_get(row, "gone")));
	assert_int_equal(sum(row, "retained_bytes"), 10);
	row = json_array_get(rows, 1);
	assert_int_equal(sum(row, "id"), 8);
	assert_true(json_is_true(json_object_get(row, "gone")));
	assert_int_equal(sum(row, "retained_records"), 1);
	assert_int_equal(tally_oldest_ns(tally), 900);
	assert_int_equal(tally_records(tally), 2);
	json_decref(rows);
	tally_free(tally);
}

/* An unprivileged reader sees a loan of its own, and not who has it. */
static void whoever_is_not_shown_is_not_called_gone(void **state)
{
	struct tally *tally = tally_create();
	json_t *rows;

	(void)state;
	add(tally, build_client(1, 1001, "one"));
	add(tally, build_loan(1, 77, OTTE_NL_LOAN_EXPOSED, 300));
	rows = tally_json(tally);
	assert_int_equal(json_array_size(rows), 1);
	assert_int_equal(sum(json_array_get(rows, 0), "lent_bytes"), 300);
	json_decref(rows);
	tally_free(tally);
}

int tally_suite(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(clients_have_what_is_theirs_and_who_lent_most_is_first),
		cmocka_unit_test(the_dead_are_there_by_what_they_left),
		cmocka_unit_test(whoever_is_not_shown_is_not_called_gone),
	};

	return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
