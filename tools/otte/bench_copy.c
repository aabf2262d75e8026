/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * otte bench --copy: what local copies of many rows cost, beside the driver's own calls, and what they take from a
 * matrix product beside them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "../common/output.h"
#include "args.h"
#include "bench_copy.h"
#include "tool.h"

#define DEFAULT_ROUNDS 9
#define DEFAULT_ROWS 4096
#define PRODUCT_SIZE 4096
#define PRODUCT_SIZE_MAX 32768
/* Copies of rows that a bar holds for. */
#define SMALL_RATIO 1.10
#define PRODUCT_RATIO 1.04

static const char help[] =
	"Usage: otte bench --copy [OPTION]...\n"
	"Measure local copies of many rows between a GPU and pinned host memory, beside the driver's\n"
	"own calls; rates are in GB/s (10^9 bytes).\n"
	"\n"
	"  --device N            GPU, by ordinal (0)\n"
	"  --sizes LIST          sizes of a row (512,2K,4K,16K,64K,256K)\n"
	"  --rows N              rows of a submission (4096)\n"
	"  --layouts LIST        of contiguous, strided, scattered (all)\n"
	"  --directions LIST     of to-device, to-host (both)\n"
	"  --parts LIST          of points (rates by size), submit (its cost on the CPU), small (up to\n"
	"                        8 rows), product (a matrix product beside copies) (all)\n"
	"  --product-size N      of the product's matrices, a multiple of 64 (4096)\n"
	"  --rounds N            measurements of each figure, of which the median is shown (9)\n"
	"  --check               exit with 7 where a bar of docs/performance.md is missed\n"
	"  --report FILE         write the results there as JSON, too\n"
	"  --note TEXT           shown with the results\n" COMMON_HELP;

enum {
	OPT_COPY = OPT_OWN,
	OPT_DEVICE,
	OPT_SIZES,
	OPT_ROWS,
	OPT_LAYOUTS,
	OPT_DIRECTIONS,
	OPT_PARTS,
	OPT_PRODUCT_SIZE,
	OPT_ROUNDS,
	OPT_CHECK,
	OPT_REPORT,
	OPT_NOTE,
};

static const struct option long_options[] = {
	{ "copy", no_argument, NULL, OPT_COPY },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "sizes", required_argument, NULL, OPT_SIZES },
	{ "rows", required_argument, NULL, OPT_ROWS },
	{ "layouts", required_argument, NULL, OPT_LAYOUTS },
	{ "directions", required_argument, NULL, OPT_DIRECTIONS },
	{ "parts", required_argument, NULL, OPT_PARTS },
	{ "product-size", required_argument, NULL, OPT_PRODUCT_SIZE },
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "report", required_argument, NULL, OPT_REPORT },
	{ "note", required_argument, NULL, OPT_NOTE },
	COMMON_LONG_OPTIONS,
};

/* ---- The command line ------------------------------------------------------------------------ */

static void set_defaults(struct bench_copy_options *options)
{
	static const uint64_t sizes[] = { 512, 2 * KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB };

	*options = (struct bench_copy_options){
		.common = COMMON_DEFAULTS,
		.size_count = ARRAY_SIZE(sizes),
		.rows = DEFAULT_ROWS,
		.rounds = DEFAULT_ROUNDS,
		.layouts = { true, true, true },
		.directions = { true, true },
		.points = true,
		.submit = true,
		.small = true,
		.product = true,
		.product_size = PRODUCT_SIZE,
	};
	memcpy(options->sizes, sizes, sizeof(sizes));
}

struct choice {
	const char *name;
	bool *chosen;
};

/* A list of names with commas: those and no others are chosen. */
static bool parse_choices(const char *option, const char *text, const struct choice *choices,
			  size_t count)
{
	char *copy = strdup(text), *at = copy, *one;
	bool good = copy != NULL;
	size_t i;

	for (i = 0; i < count; i++)
		*choices[i].chosen = false;
	while (good && (one = strsep(&at, ","))) {
		for (i = 0; i < count && strcmp(choices[i].name, one); i++)
			;
		if (i < count)
			*choices[i].chosen = true;
		else
			good = false;
		if (!good)
			complain(EXIT_USAGE, "%s: there is no \"%s\"", option, one);
	}
	free(copy);
	return good;
}

static bool parse_parts(struct bench_copy_options *options, int option, const char *text)
{
	const struct choice layouts[] = {
		{ bench_copy_layouts[CONTIGUOUS], &options->layouts[CONTIGUOUS] },
		{ bench_copy_layouts[STRIDED], &options->layouts[STRIDED] },
		{ bench_copy_layouts[SCATTERED], &options->layouts[SCATTERED] }
	};
	const struct choice directions[] = { { bench_copy_directions[0], &options->directions[0] },
					     { bench_copy_directions[1],
					       &options->directions[1] } };
	const struct choice parts[] = { { "points", &options->points },
					{ "submit", &options->submit },
					{ "small", &options->small },
					{ "product", &options->product } };

	if (option == OPT_LAYOUTS)
		return parse_choices("--layouts", text, layouts, ARRAY_SIZE(layouts));
	if (option == OPT_DIRECTIONS)
		return parse_choices("--directions", text, directions, ARRAY_SIZE(directions));
	return parse_choices("--parts", text, parts, ARRAY_SIZE(parts));
}

static bool parse_option(struct bench_copy_options *options, int option, const char *text)
{
	unsigned device;

	switch (option) {
	case OPT_COPY:
		return true;
	case OPT_DEVICE:
		if (!option_count("--device", text, 0, INT16_MAX, &device))
			return false;
		options->device = (int)device;
		return true;
	case OPT_SIZES:
		return args_sizes("--sizes", text, options->sizes, BENCH_COPY_SIZES_MAX,
				  &options->size_count);
	case OPT_ROWS:
		return option_count("--rows", text, 1, BENCH_COPY_ROWS_MAX, &options->rows);
	case OPT_LAYOUTS:
	case OPT_DIRECTIONS:
	case OPT_PARTS:
		return parse_parts(options, option, text);
	case OPT_PRODUCT_SIZE:
		if (!option_count("--product-size", text, 64, PRODUCT_SIZE_MAX,
				  &options->product_size))
			return false;
		if (options->product_size % 64)
			complain(EXIT_USAGE, "--product-size: %u is no multiple of 64",
				 options->product_size);
		return options->product_size % 64 == 0;
	case OPT_ROUNDS:
		return option_count("--rounds", text, 1, BENCH_COPY_ROUNDS_MAX, &options->rounds);
	case OPT_CHECK:
		options->check = true;
		return true;
	case OPT_REPORT:
		return args_file("--report", text, &options->report);
	case OPT_NOTE:
		options->note = text;
		return true;
	default:
		return common_option(&options->common, option, text);
	}
}

/* ---- Bars ------------------------------------------------------------------------------------ */

static const char *text_of(const json_t *row, const char *key)
{
	return json_string_value(json_object_get(row, key));
}

static double real_of(const json_t *row, const char *key)
{
	return json_number_value(json_object_get(row, key));
}

/* The worst of what a bar is held against; `at` says which. */
static void bar(json_t *bars, const char *name, double value, double wanted, bool at_least,
		const char *at)
{
	bool met = at_least ? value >= wanted : value <= wanted;

	json_array_append_new(bars, json_pack("{s:s, s:f, s:f, s:b, s:s}", "bar", name, "value",
					      value, "wanted", wanted, "met", met, "at", at));
}

static void name_point(const json_t *row, char at[96])
{
	char bytes[32];

	snprintf(at, 96, "%s of %s, %s",
		 format_bytes((uint64_t)json_integer_value(json_object_get(row, "row_bytes")),
			      bytes),
		 text_of(row, "layout"), text_of(row, "direction"));
}

/* Of the points whose rows have so many bytes, that whose `key` is worst. */
static void bar_of_points(json_t *bars, const json_t *points, const char *name, const char *key,
			  uint64_t from, uint64_t to, double wanted, bool at_least)
{
	double worst = 0, value;
	char at[96] = "";
	uint64_t bytes;
	json_t *row;
	size_t i;

	json_array_foreach(points, i, row) {
		bytes = (uint64_t)json_integer_value(json_object_get(row, "row_bytes"));
		value = real_of(row, key);
		if (bytes < from || bytes > to || (*at && (at_least ? value >= worst : value <= worst)))
			continue;
		worst = value;
		name_point(row, at);
	}
	if (*at)
		bar(bars, name, worst, wanted, at_least, at);
}

static void bars_of_points(json_t *bars, const json_t *points)
{
	bar_of_points(bars, points, "auto, of the best of calls, batch and kernel", "of_best", 0,
		      UINT64_MAX, 0.95, true);
	bar_of_points(bars, points, "auto, of one copy, rows of 512 B", "of_single", 512, 512,
		      0.62, true);
	bar_of_points(bars, points, "auto, of one copy, rows of 2 KiB", "of_single", 2 * KIB,
		      2 * KIB, 0.84, true);
	bar_of_points(bars, points, "auto, of one copy, rows from 16 KiB", "of_single", 16 * KIB,
		      UINT64_MAX, 0.90, true);
	bar_of_points(bars, points, "CTAs, rows of 512 B", "ctas", 512, 512, 8, false);
	bar_of_points(bars, points, "CTAs, rows from 2 KiB", "ctas", 2 * KIB, UINT64_MAX, 4,
		      false);
}

static void bars_of_products(json_t *bars, const json_t *products)
{
	double dma = 0, own = 0;
	size_t i;
	json_t *row;

	json_array_foreach(products, i, row) {
		if (!strcmp(text_of(row, "beside"), "dma"))
			dma = real_of(row, "slowdown");
		if (!strcmp(text_of(row, "beside"), "default"))
			own = real_of(row, "slowdown");
	}
	if (dma > 0)
		bar(bars, "a product beside default copies, of beside DMA", own / dma,
		    PRODUCT_RATIO, false, "64 KiB rows");
}

static json_t *make_bars(const json_t *report)
{
	json_t *bars = json_array(), *row;
	size_t i;

	bars_of_points(bars, json_object_get(report, "points"));
	json_array_foreach(json_object_get(report, "submit"), i, row)
		bar(bars, "us of a submission on the CPU", real_of(row, "us"),
		    strcmp(text_of(row, "layout"), bench_copy_layouts[SCATTERED]) ? 50 : 150, false,
		    text_of(row, "layout"));
	json_array_foreach(json_object_get(report, "small"), i, row) {
		char at[64];

		snprintf(at, sizeof(at), "%d rows, %s", (int)real_of(row, "rows"),
			 text_of(row, "direction"));
		bar(bars, "a few rows, of the driver's calls and an event", real_of(row, "ratio"),
		    SMALL_RATIO, false, at);
	}
	bars_of_products(bars, json_object_get(report, "product"));
	return bars;
}

/* ---- The report ------------------------------------------------------------------------------ */

static const struct column point_columns[] = {
	{ "direction", "direction", COLUMN_TEXT, 0, 9 },
	{ "layout", "layout", COLUMN_TEXT, 0, 10 },
	{ "row_bytes", "row", COLUMN_BYTES, 0, 8 },
	{ "single", "one copy", COLUMN_REAL, 1, 8 },
	{ "calls", "calls", COLUMN_REAL, 1, 6 },
	{ "batch", "batch", COLUMN_REAL, 1, 6 },
	{ "kernel", "kernel", COLUMN_REAL, 1, 6 },
	{ "kernel_ctas", "CTAs", COLUMN_COUNT, 0, 4 },
	{ "auto", "auto", COLUMN_REAL, 1, 6 },
	{ "by", "by", COLUMN_TEXT, 0, 6 },
	{ "ctas", "CTAs", COLUMN_COUNT, 0, 4 },
	{ "of_best", "of best", COLUMN_REAL, 3, 7 },
	{ "of_single", "of one", COLUMN_REAL, 3, 7 },
	{ "submit_us", "submit us", COLUMN_REAL, 1, 9 },
};

static const struct column submit_columns[] = {
	{ "layout", "layout", COLUMN_TEXT, 0, 10 },
	{ "rows", "rows", COLUMN_COUNT, 0, 6 },
	{ "us", "submit us", COLUMN_REAL, 1, 9 },
};

static const struct column small_columns[] = {
	{ "direction", "direction", COLUMN_TEXT, 0, 9 },
	{ "rows", "rows", COLUMN_COUNT, 0, 4 },
	{ "row_bytes", "row", COLUMN_BYTES, 0, 8 },
	{ "driver_us", "driver us", COLUMN_REAL, 2, 9 },
	{ "otte_us", "otte us", COLUMN_REAL, 2, 9 },
	{ "ratio", "ratio", COLUMN_REAL, 3, 6 },
};

static const struct column product_columns[] = {
	{ "beside", "beside", COLUMN_TEXT, 0, 9 },
	{ "product_ms", "product ms", COLUMN_REAL, 3, 10 },
	{ "slowdown", "slowdown", COLUMN_REAL, 3, 8 },
	{ "copied", "copied GB/s", COLUMN_REAL, 1, 11 },
};

static const struct column bar_columns[] = {
	{ "bar", "bar", COLUMN_TEXT, 0, 48 },	   { "value", "value", COLUMN_REAL, 3, 8 },
	{ "wanted", "wanted", COLUMN_REAL, 2, 8 }, { "verdict", "", COLUMN_TEXT, 0, 6 },
	{ "at", "worst at", COLUMN_TEXT, 0, 20 },
};

static void print_part(const json_t *report, const char *key, const char *title,
		       const struct column *columns, size_t count)
{
	const json_t *rows = json_object_get(report, key);

	if (!json_array_size(rows))
		return;
	printf("\n%s\n", title);
	output_table(stdout, columns, count, rows);
}

static void print_report(const json_t *report)
{
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(report, "bars"), i, row)
		json_object_set_new(row, "verdict",
				    json_string(json_is_true(json_object_get(row, "met")) ? "met" :
											    "MISSED"));
	printf("%s%s%s, CUDA %s; %s; medians of %d rounds\n", text_of(report, "note"),
	       *text_of(report, "note") ? "; " : "", text_of(report, "device"),
	       text_of(report, "cuda"), text_of(report, "machine"),
	       (int)json_integer_value(json_object_get(report, "rounds")));
	print_part(report, "points", "Rates, GB/s", point_columns, ARRAY_SIZE(point_columns));
	print_part(report, "submit", "A submission on the CPU", submit_columns,
		   ARRAY_SIZE(submit_columns));
	print_part(report, "small", "A few rows, until they are there", small_columns,
		   ARRAY_SIZE(small_columns));
	print_part(report, "product", "A matrix product beside copies", product_columns,
		   ARRAY_SIZE(product_columns));
	print_part(report, "bars", "Bars", bar_columns, ARRAY_SIZE(bar_columns));
}

static json_t *begin_report(const struct bench_copy_options *options,
			    const struct bench_copy_gpu *gpu)
{
	char cuda[32], machine[160];
	struct utsname name;

	uname(&name);
	snprintf(cuda, sizeof(cuda), "%d.%d", gpu->cuda->version / 1000,
		 gpu->cuda->version % 1000 / 10);
	snprintf(machine, sizeof(machine), "Linux %.64s %.64s", name.release, name.machine);
	return json_pack("{s:s, s:o, s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:o}", "version",
			 otte_version(), "note", output_string(options->note ? options->note : ""),
			 "device", gpu->name, "cuda", cuda, "machine", machine, "rounds",
			 (int)options->rounds, "points", json_array(), "submit", json_array(),
			 "small", json_array(), "product", json_array());
}

static int measure(const struct bench_copy_options *options, struct bench_copy_gpu *gpu,
		   json_t *report)
{
	int rc = EXIT_OK;

	if (options->points)
		rc = bench_copy_points(options, gpu, json_object_get(report, "points"));
	if (options->submit && !rc)
		rc = bench_copy_submits(options, gpu, json_object_get(report, "submit"));
	if (options->small && !rc)
		rc = bench_copy_smalls(options, gpu, json_object_get(report, "small"));
	if (options->product && !rc)
		rc = bench_copy_products(options, gpu, json_object_get(report, "product"));
	return rc;
}

static bool all_met(const json_t *bars)
{
	json_t *row;
	size_t i;

	json_array_foreach(bars, i, row)
		if (!json_is_true(json_object_get(row, "met")))
			return false;
	return true;
}

static int run(const struct bench_copy_options *options)
{
	struct bench_copy_gpu gpu;
	json_t *report;
	bool met;
	int rc;

	rc = bench_copy_open(options, bench_copy_bytes(options), &gpu);
	if (rc)
		return rc;
	report = begin_report(options, &gpu);
	rc = measure(options, &gpu, report);
	bench_copy_close(&gpu);
	if (rc) {
		json_decref(report);
		return rc;
	}
	json_object_set_new(report, "bars", make_bars(report));
	met = all_met(json_object_get(report, "bars"));
	if (options->report && json_dump_file(report, options->report, JSON_INDENT(2))) {
		json_decref(report);
		return complain(EXIT_LOCAL, "--report: %s cannot be written", options->report);
	}
	if (options->common.json) {
		output_json(report);
	} else {
		print_report(report);
		json_decref(report);
	}
	return options->check && !met ? complain(EXIT_BELOW, "a bar is missed") : EXIT_OK;
}

int bench_copy(int argc, char **argv)
{
	static struct bench_copy_options options;
	int option, rc;

	set_defaults(&options);
	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (!parse_option(&options, option, optarg))
			return EXIT_USAGE;
	}
	if (optind < argc)
		return complain(EXIT_USAGE, "unexpected argument \"%s\"", argv[optind]);
	rc = common_ends_at_once("otte bench");
	return rc ? rc : run(&options);
}
