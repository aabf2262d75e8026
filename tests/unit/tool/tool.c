/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parts of the program otte that its end-to-end tests cannot look into. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../tools/otte/args.h"
#include "../../../tools/otte/lru.h"
#include "../../../tools/otte/pattern.h"
#include "../../../tools/otte/routes.h"
#include "../../../tools/otte/samples.h"
#include "../../../tools/otte/stats_text.h"
#include "../../../tools/otte/tool.h"
#include "../../../tools/otte/trace.h"

static unsigned complaints;
static char complaint[512]; /* the last one */

/* Stands for the one in main.c. */
int complain(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(complaint, sizeof(complaint), format, args);
	va_end(args);
	complaints++;
	return code;
}

/* ---- Routes ---------------------------------------------------------------------------------- */

static void one_route_is_named_and_several_with_their_bytes(void **state)
{
	struct routes routes = { { 0 } };
	char text[ROUTES_TEXT];
	json_t *json;

	(void)state;
	assert_string_equal(routes_text(&routes, text), "none");
	routes.bytes[OTTE_TRANSPORT_TCP] = 1u << 20;
	assert_string_equal(routes_text(&routes, text), "tcp");
	routes.bytes[OTTE_TRANSPORT_LOCAL] = 3u << 20;
	assert_string_equal(routes_text(&routes, text), "local (3 MiB) and tcp (1 MiB)");
	json = routes_json(&routes);
	assert_int_equal(json_object_size(json), 2);
	assert_int_equal(json_integer_value(json_object_get(json, "tcp")), 1u << 20);
	assert_int_equal(json_integer_value(json_object_get(json, "local")), 3u << 20);
	json_decref(json);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

static const char two_nics[] =
	"{\"name\":\"a\\\"b\",\"pid\":7,\"requests\":3,\"rdma_nics\":["
	"{\"nic\":0,\"name\":\"mlx5_0\",\"port\":1,\"active\":true,\"slices\":12},"
	"{\"nic\":3,\"name\":\"mlx5_3\",\"port\":2,\"active\":false,\"slices\":5}]}";

static void assert_shown(void (*print)(FILE *to, const json_t *stats), const char *json,
			 const char *wanted)
{
	json_t *stats = json_loads(json, 0, NULL);
	size_t length;
	char *text;
	FILE *to = open_memstream(&text, &length);

	print(to, stats);
	fclose(to);
	assert_string_equal(text, wanted);
	free(text);
	json_decref(stats);
}

static void each_value_of_a_nic_has_a_line(void **state)
{
	(void)state;
	assert_shown(stats_print, two_nics,
		     "name                     a\"b\n"
		     "pid                      7\n"
		     "requests                 3\n"
		     "nic0.name                mlx5_0\n"
		     "nic0.port                1\n"
		     "nic0.active              true\n"
		     "nic0.slices              12\n"
		     "nic3.name                mlx5_3\n"
		     "nic3.port                2\n"
		     "nic3.active              false\n"
		     "nic3.slices              5\n");
}

static void metrics_have_a_family_for_each_value(void **state)
{
	(void)state;
	assert_shown(stats_print_metrics, two_nics,
		     "# TYPE otte_engine_requests gauge\n"
		     "otte_engine_requests{engine=\"a\\\"b\",pid=\"7\"} 3\n"
		     "# TYPE otte_nic_active gauge\n"
		     "otte_nic_active{engine=\"a\\\"b\",pid=\"7\",device=\"mlx5_0\",port=\"1\"} 1\n"
		     "otte_nic_active{engine=\"a\\\"b\",pid=\"7\",device=\"mlx5_3\",port=\"2\"} 0\n"
		     "# TYPE otte_nic_slices gauge\n"
		     "otte_nic_slices{engine=\"a\\\"b\",pid=\"7\",device=\"mlx5_0\",port=\"1\"} 12\n"
		     "otte_nic_slices{engine=\"a\\\"b\",pid=\"7\",device=\"mlx5_3\",port=\"2\"} 5\n"
		     "# EOF\n");
	/* A peer says neither who it is nor what its NICs do. */
	assert_shown(stats_print_metrics, "{\"requests\":3}",
		     "# TYPE otte_engine_requests gauge\notte_engine_requests{} 3\n# EOF\n");
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static void sizes_have_binary_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{ "1", 1 },
		{ "4096", 4096 },
		{ "64K", 65536 },
		{ "64k", 65536 },
		{ "64KiB", 65536 },
		{ "1M", 1u << 20 },
		{ "1.5G", 3ull << 29 },
		{ "2T", 2ull << 40 },
		{ "0.5K", 512 },
		{ "100B", 100 },
	};
	uint64_t bytes;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_true(args_size("--size", cases[i].text, &bytes));
		assert_int_equal(bytes, cases[i].bytes);
	}
}

static void what_is_no_size_is_complained_about(void **state)
{
	static const char *const cases[] = { "",       "0",   "-1",    "K",
					     "4Q",     "4KK", "0.3",   "1e400",
					     "4 ",     " 4",  "0x10K", "1.0001",
					     "9999T9", "inf", "nan",   "16777216T" };
	uint64_t bytes;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		complaints = 0;
		assert_false(args_size("--size", cases[i], &bytes));
		assert_int_equal(complaints, 1);
	}
}

static void a_list_of_sizes_has_a_limit(void **state)
{
	uint64_t sizes[2];
	size_t count;

	(void)state;
	assert_true(args_sizes("--sizes", "4K,1M", sizes, 2, &count));
	assert_int_equal(count, 2);
	assert_int_equal(sizes[1], 1u << 20);
	assert_false(args_sizes("--sizes", "4K,1M,1G", sizes, 2, &count));
	assert_false(args_sizes("--sizes", "4K,", sizes, 2, &count));
}

static void a_duration_without_unit_is_in_seconds(void **state)
{
	uint64_t ns;

	(void)state;
	assert_true(args_duration("--time", "2", &ns));
	assert_int_equal(ns, 2000000000);
	assert_true(args_duration("--time", "250ms", &ns));
	assert_int_equal(ns, 250000000);
	assert_true(args_duration("--time", "1.5m", &ns));
	assert_int_equal(ns, 90000000000);
	assert_false(args_duration("--time", "2 s", &ns));
	assert_false(args_duration("--time", "-2s", &ns));
}

static void numbers_are_within_their_limits(void **state)
{
	uint64_t number;

	(void)state;
	assert_true(option_number("--n", "16", 1, 16, &number));
	assert_int_equal(number, 16);
	assert_false(option_number("--n", "17", 1, 16, &number));
	assert_false(option_number("--n", "0", 1, 16, &number));
	assert_false(option_number("--n", "+1", 1, 16, &number));
	assert_false(option_number("--n", "99999999999999999999", 0, UINT64_MAX, &number));
}

/* ---- Samples --------------------------------------------------------------------------------- */

static void quantiles_are_those_of_the_samples(void **state)
{
	struct samples samples;
	uint64_t i;

	(void)state;
	assert_int_equal(samples_init(&samples, 1000), 0);
	assert_int_equal(samples_quantile(&samples, 0.5), 0);
	for (i = 1000; i > 0; i--)
		samples_add(&samples, i);
	samples_sort(&samples);
	assert_int_equal(samples_quantile(&samples, 0), 1);
	assert_int_equal(samples_quantile(&samples, 0.5), 501);
	assert_int_equal(samples_quantile(&samples, 0.99), 991);
	assert_int_equal(samples_quantile(&samples, 1), 1000);
	assert_true(samples_mean(&samples) == 500.5);
	samples_free(&samples);
}

static void samples_beyond_the_room_are_a_fair_choice(void **state)
{
	struct samples samples;
	uint64_t i, middle;

	(void)state;
	assert_int_equal(samples_init(&samples, 1000), 0);
	for (i = 0; i < 1000000; i++)
		samples_add(&samples, i);
	assert_int_equal(samples.seen, 1000000);
	samples_sort(&samples);
	middle = samples_quantile(&samples, 0.5);
	assert_true(middle > 400000 && middle < 600000);
	samples_free(&samples);
}

static void the_median_of_an_even_count_is_between_the_two_in_the_middle(void **state)
{
	double odd[] = { 9, 1, 5 }, even[] = { 4, 1, 3, 2 };

	(void)state;
	assert_true(median(odd, 3) == 5);
	assert_true(median(even, 4) == 2.5);
	assert_true(median(NULL, 0) == 0);
}

/* ---- Content --------------------------------------------------------------------------------- */

static void every_changed_byte_is_found(void **state)
{
	unsigned char memory[61];
	uint64_t where;
	size_t i;

	(void)state;
	pattern_fill(memory, sizeof(memory), 7);
	assert_true(pattern_check(memory, sizeof(memory), 7, &where));
	for (i = 0; i < sizeof(memory); i++) {
		memory[i] ^= 0x10;
		assert_false(pattern_check(memory, sizeof(memory), 7, &where));
		assert_int_equal(where, i / 8 * 8);
		memory[i] ^= 0x10;
	}
}

static void seeds_differ_in_every_word(void **state)
{
	uint64_t one[512], other[512];
	size_t i, seed;

	(void)state;
	for (seed = 0; seed < 100; seed++) {
		pattern_fill(one, sizeof(one), seed);
		pattern_fill(other, sizeof(other), seed + 1);
		for (i = 0; i < 512; i++)
			assert_true(one[i] != other[i]);
	}
}

/* ---- Cache ----------------------------------------------------------------------------------- */

static void the_least_recently_used_block_goes(void **state)
{
	struct lru lru;
	uint32_t slot, first;

	(void)state;
	assert_int_equal(lru_init(&lru, 2, 10), 0);
	assert_false(lru_use(&lru, 1, &first));
	assert_false(lru_use(&lru, 2, &slot));
	assert_true(lru_use(&lru, 1, &slot));
	assert_int_equal(slot, first);
	assert_false(lru_use(&lru, 3, &slot)); /* in the place of 2 */
	assert_true(lru_use(&lru, 1, &slot));
	assert_false(lru_use(&lru, 2, &slot)); /* in the place of 3 */
	assert_false(lru_use(&lru, 3, &slot));
	lru_free(&lru);
}

/* ---- Trace ----------------------------------------------------------------------------------- */

FILE *__real_fdopen(int fd, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode);

/* A disk on which the so-manieth write finds no room, and those after it do. */
static bool on_the_disk;
static unsigned full_at, writes;

static ssize_t write_on(void *cookie, const char *bytes, size_t length)
{
	(void)cookie;
	(void)bytes;
	if (++writes != full_at)
		return (ssize_t)length;
	errno = ENOSPC;
	return 0; /* is an error, of a cookie */
}

FILE *__wrap_fdopen(int fd, const char *mode)
{
	const cookie_io_functions_t disk = { .write = write_on };

	if (!on_the_disk)
		return __real_fdopen(fd, mode);
	close(fd);
	return fopencookie(NULL, "w", disk);
}

static void a_trace_is_written_whole_or_it_is_said(void **state)
{
	char folder[] = "/tmp/otte-tool-unit.XXXXXX", path[64], wanted[128];
	struct trace trace;
	unsigned all;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/trace", folder);
	snprintf(wanted, sizeof(wanted), "%s: No space left on device", path);
	assert_int_equal(trace_generate(&trace, 200, 1), EXIT_OK);
	on_the_disk = true;
	full_at = writes = 0;
	assert_int_equal(trace_write(&trace, path), EXIT_OK);
	assert_int_equal(unlink(path), 0);
	all = writes;
	assert_true(all > 3);
	for (full_at = 1; full_at <= all; full_at++) {
		writes = 0;
		complaint[0] = '\0';
		assert_int_equal(trace_write(&trace, path), EXIT_LOCAL);
		assert_string_equal(complaint, wanted);
	}
	on_the_disk = false;
	trace_free(&trace);
	assert_int_equal(rmdir(folder), 0); /* nothing is left in it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_have_binary_units),
		cmocka_unit_test(what_is_no_size_is_complained_about),
		cmocka_unit_test(a_list_of_sizes_has_a_limit),
		cmocka_unit_test(a_duration_without_unit_is_in_seconds),
		cmocka_unit_test(numbers_are_within_their_limits),
		cmocka_unit_test(quantiles_are_those_of_the_samples),
		cmocka_unit_test(samples_beyond_the_room_are_a_fair_choice),
		cmocka_unit_test(the_median_of_an_even_count_is_between_the_two_in_the_middle),
		cmocka_unit_test(one_route_is_named_and_several_with_their_bytes),
		cmocka_unit_test(each_value_of_a_nic_has_a_line),
		cmocka_unit_test(metrics_have_a_family_for_each_value),
		cmocka_unit_test(every_changed_byte_is_found),
		cmocka_unit_test(seeds_differ_in_every_word),
		cmocka_unit_test(the_least_recently_used_block_goes),
		cmocka_unit_test(a_trace_is_written_whole_or_it_is_said),
	};

	return cmocka_run_group_tests_name("tool", tests, NULL, NULL);
}
