/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "engine/stats.h"
#include "guard.h"
#include "pair.h"

static void a_read_brings_the_exact_range(void **state)
{
	(void)state;
	pair_move_exact(OTTE_READ, OTTE_TRANSPORT_TCP, NULL);
}

static void a_write_brings_the_exact_range(void **state)
{
	(void)state;
	pair_move_exact(OTTE_WRITE, OTTE_TRANSPORT_TCP, NULL);
}

static void refusals_name_their_reason_before_any_byte_moves(void **state)
{
	struct otte_region_info rows[4];
	struct pair pair;
	struct otte_request request;
	size_t count;

	(void)state;
	pair_open(&pair, 1 << 20, NULL);
	memset(pair.local_bytes, 0x11, pair.size);
	/* Not yet described: the source refuses. */
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, pair.size - 8, 9), -ERANGE);
	/* Described: refused here. */
	assert_int_equal(otte_segment_describe(pair.segment, 30 * SECOND, rows, 4, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(rows[0].id, otte_region_id(pair.remote));
	assert_int_equal(rows[0].length, pair.size);
	assert_string_equal(rows[0].name, "block");
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, pair.size - 8, 9), -ERANGE);
	assert_non_null(strstr(otte_error_text(), "remote region"));
	assert_int_equal(pair_run(&pair, OTTE_READ, pair.size, 0, 1), -ERANGE);
	assert_non_null(strstr(otte_error_text(), "local region"));
	request = pair_request(&pair, OTTE_READ, 0, 0, 64);
	request.remote_region += 1000;
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	{
		struct otte_failure failure;

		assert_int_equal(otte_batch_failure(pair.batch, &failure), 0);
		assert_int_equal(failure.code, -ENOENT);
		assert_int_equal(failure.first, 0);
		assert_int_equal(failure.count, 1);
		assert_int_equal(failure.remote_effect, OTTE_EFFECT_NONE);
		assert_int_equal(failure.locally_drained, 1);
	}
	assert_int_equal(pair.local_bytes[0], 0x11);
	pair_close(&pair);
}

static void many_small_requests_complete_in_one_batch(void **state)
{
	struct otte_request requests[1000];
	struct otte_batch_status status;
	struct pair pair;
	int i, round;

	(void)state;
	pair_open(&pair, 8 << 20, NULL);
	pair_fill(pair.remote_bytes, pair.size, 3);
	for (round = 0; round < 5; round++) {
		memset(pair.local_bytes, 0, pair.size);
		for (i = 0; i < 1000; i++)
			requests[i] = pair_request(&pair, OTTE_READ, (uint64_t)i * 8192,
						   (uint64_t)(999 - i) * 8192, 4096);
		assert_int_equal(otte_batch_reset(pair.batch), 0);
		assert_int_equal(otte_batch_submit(pair.batch, requests, 1000), 0);
		assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
		assert_int_equal(otte_batch_poll(pair.batch, &status), 0);
		assert_int_equal(status.completed_prefix, 1000);
		assert_int_equal(status.bytes_completed, 4096000);
		for (i = 0; i < 1000; i++)
			assert_memory_equal(pair.local_bytes + i * 8192,
					    pair.remote_bytes + (999 - i) * 8192, 4096);
	}
	pair_close(&pair);
}

/* Whoever asks all the time has a tenth of the thread's time spent on counting. */
static void what_takes_long_to_count_is_told_for_longer(void **state)
{
	(void)state;
	assert_int_equal(otte_stats_age(0), 100 * NSEC_PER_MSEC);
	assert_int_equal(otte_stats_age(11 * NSEC_PER_MSEC), 100 * NSEC_PER_MSEC);
	assert_int_equal(otte_stats_age(NSEC_PER_SEC), 9 * NSEC_PER_SEC);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_takes_long_to_count_is_told_for_longer),
		cmocka_unit_test(a_read_brings_the_exact_range),
		cmocka_unit_test(a_write_brings_the_exact_range),
		cmocka_unit_test(refusals_name_their_reason_before_any_byte_moves),
		cmocka_unit_test(many_small_requests_complete_in_one_batch),
	};

	if (argc > 1 && !strcmp(argv[1], "bench"))
		return guard_bench();
	return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
