/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * otte calibrate: how few CTAs the copy kernel needs on a GPU, by direction and size of a row, and from which size on
 * the driver's copies are ahead of it. The file it writes is lib/cuda/table.h's.
 */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/output.h"
#include "../common/whole.h"
#include "args.h"
#include "bench_copy.h"
#include "cuda/table.h"
#include "progress.h"
#include "tool.h"

/* As good as the best: CTAs are taken from others, so the last percents are not worth them. */
#define ENOUGH 0.97
#define DEFAULT_ROUNDS 5
#define DEFAULT_ROWS 4096
#define LONG_BYTES (512 * MIB) /* of long rows, at most */

static const char help[] =
	"Usage: otte calibrate [OPTION]...\n"
	"Measure how many CTAs local copies need on a GPU, and keep that for copiers of all programs\n"
	"that are started from then on.\n"
	"\n"
	"  --device N            GPU, by ordinal (0)\n"
	"  --output FILE         where it is kept; without, /var/cache/otte for root, for others\n"
	"                        $XDG_CACHE_HOME/otte or ~/.cache/otte; - is standard output\n"
	"  --rows N              rows of a submission (4096)\n"
	"  --rounds N            measurements of each figure, of which the median counts (5)\n" COMMON_HELP;

enum {
	OPT_DEVICE = OPT_OWN,
	OPT_OUTPUT,
	OPT_ROWS,
	OPT_ROUNDS,
};

static const struct option long_options[] = {
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "output", required_argument, NULL, OPT_OUTPUT },
	{ "rows", required_argument, NULL, OPT_ROWS },
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	COMMON_LONG_OPTIONS,
};

static const uint64_t short_sizes[] = { 512, KIB, 2 * KIB, 8 * KIB };
static const uint64_t long_sizes[] = { 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB };
static const uint32_t ctas[] = { 1, 2, 3, 4, 6, 8 }; /* more are not left to others */

struct calibration {
	struct bench_copy_options options;
	const char *output;
	struct bench_copy_gpu gpu;
	struct progress progress;
	uint64_t done;
	uint32_t least[ARRAY_SIZE(short_sizes)][2];
	uint64_t long_bytes; /* OTTE_COPY_NEVER */
	json_t *measured;
};

/* ---- Measuring ------------------------------------------------------------------------------- */

static int measure(struct calibration *it, enum otte_copy_direction direction, uint64_t bytes,
		   unsigned rows, uint32_t count, double *rate)
{
	int rc = bench_copy_rate(&it->gpu, direction, bytes, rows, count, it->options.rounds, rate);

	progress_update(&it->progress, ++it->done);
	if (!rc)
		json_array_append_new(it->measured, json_pack("{s:s, s:I, s:i, s:f}", "direction",
							      bench_copy_directions[direction],
							      "row_bytes", (json_int_t)bytes,
							      "ctas", (int)count, "gbps", *rate));
	return rc;
}

static int find_least(struct calibration *it, size_t size, enum otte_copy_direction direction)
{
	double rates[ARRAY_SIZE(ctas)], best = 0;
	int rc = EXIT_OK;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ctas) && !rc; i++) {
		rc = measure(it, direction, short_sizes[size], it->options.rows, ctas[i],
			     &rates[i]);
		best = !rc && rates[i] > best ? rates[i] : best;
	}
	for (i = 0; i < ARRAY_SIZE(ctas) - 1 && !rc && rates[i] < ENOUGH * best; i++)
		;
	if (!rc)
		it->least[size][direction] = ctas[i];
	return rc;
}

static unsigned long_rows(const struct calibration *it, uint64_t bytes)
{
	return (unsigned)min_u64(it->options.rows, LONG_BYTES / bytes);
}

/* Whether the driver is ahead at this size, whichever the direction. */
static int compare_long(struct calibration *it, uint64_t bytes, bool *ahead)
{
	unsigned rows = long_rows(it, bytes);
	int rc = EXIT_OK, direction;

	*ahead = true;
	for (direction = 0; direction < 2 && !rc; direction++) {
		double kernel = 0, driver = 0;

		rc = measure(it, (enum otte_copy_direction)direction, bytes, rows,
			     it->least[ARRAY_SIZE(short_sizes) - 1][direction], &kernel);
		if (!rc)
			rc = measure(it, (enum otte_copy_direction)direction, bytes, rows, 0,
				     &driver);
		*ahead &= !rc && driver >= kernel;
	}
	return rc;
}

/* Between the last size at which it is behind and the first at which it is not. */
static int find_long(struct calibration *it)
{
	bool ahead = false;
	int rc = EXIT_OK;
	size_t i;

	it->long_bytes = OTTE_COPY_NEVER;
	for (i = 0; i < ARRAY_SIZE(long_sizes) && !rc && !ahead; i++) {
		rc = compare_long(it, long_sizes[i], &ahead);
		if (ahead)
			it->long_bytes = long_sizes[i] / 4 * 3;
	}
	return rc;
}

static int measure_all(struct calibration *it)
{
	int rc = EXIT_OK, direction;
	size_t i;

	progress_begin_count(&it->progress, "measurements",
			     ARRAY_SIZE(short_sizes) * 2 * ARRAY_SIZE(ctas) +
				     ARRAY_SIZE(long_sizes) * 4);
	for (i = 0; i < ARRAY_SIZE(short_sizes) && !rc; i++)
		for (direction = 0; direction < 2 && !rc; direction++)
			rc = find_least(it, i, (enum otte_copy_direction)direction);
	if (!rc)
		rc = find_long(it);
	progress_end(&it->progress);
	return rc;
}

/* ---- What is kept ---------------------------------------------------------------------------- */

static bool same_as_next(const struct calibration *it, size_t i)
{
	return i + 1 < ARRAY_SIZE(short_sizes) && it->least[i][0] == it->least[i + 1][0] &&
	       it->least[i][1] == it->least[i + 1][1];
}

static json_t *make_rows(const struct calibration *it)
{
	json_t *rows = json_array(), *row;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(short_sizes); i++) {
		if (same_as_next(it, i))
			continue;
		row = json_object();
		if (i + 1 < ARRAY_SIZE(short_sizes))
			json_object_set_new(row, "bytes",
					    json_integer((json_int_t)short_sizes[i + 1] - 1));
		json_object_set_new(row, "to_device",
				    json_integer(it->least[i][OTTE_COPY_TO_DEVICE]));
		json_object_set_new(row, "to_host", json_integer(it->least[i][OTTE_COPY_TO_HOST]));
		json_array_append_new(rows, row);
	}
	return rows;
}

static json_t *make_table(const struct calibration *it)
{
	json_t *table = json_pack("{s:s, s:i, s:o}", "device", it->gpu.name, "driver",
				  it->gpu.cuda->version, "rows", make_rows(it));

	if (it->long_bytes != OTTE_COPY_NEVER)
		json_object_set_new(table, "long_bytes", json_integer((json_int_t)it->long_bytes));
	return table;
}

/* The folder of a file, and that above it, where they are missing. */
static void make_folders(const char *path)
{
	char folder[512], above[512];

	snprintf(folder, sizeof(folder), "%s", path);
	snprintf(above, sizeof(above), "%s", dirname(folder));
	snprintf(folder, sizeof(folder), "%s", above);
	mkdir(dirname(above), 0755);
	mkdir(folder, 0755);
}

/* Whole or not at all: programs may read it meanwhile. */
static int write_table(const char *path, const json_t *table)
{
	static struct whole whole; /* large */
	int rc = whole_begin(&whole, path, 0);

	if (!rc)
		rc = whole_end(&whole, json_dumpf(table, whole.file, JSON_INDENT(2)) ? -EIO : 0);
	return rc ? complain(EXIT_LOCAL, "%s: cannot be written: %s", path, strerror(-rc)) : EXIT_OK;
}

static int keep(const struct calibration *it, const json_t *table, char path[512])
{
	int rc;

	if (it->output) {
		snprintf(path, 512, "%s", it->output);
	} else {
		rc = otte_table_path(it->gpu.name, geteuid() == 0, path, 512);
		if (rc)
			return complain_library(rc, "where it is to be kept");
		make_folders(path);
	}
	return write_table(path, table);
}

static int finish(struct calibration *it)
{
	json_t *table = make_table(it);
	char path[512] = "";
	int rc = EXIT_OK;

	if (it->output && !strcmp(it->output, "-")) {
		output_json(table);
		return EXIT_OK;
	}
	rc = keep(it, table, path);
	if (!rc && it->options.common.json) {
		json_object_set_new(table, "file", output_string(path));
		json_object_set(table, "measured", it->measured);
		output_json(table);
		return EXIT_OK;
	}
	if (!rc)
		printf("%s: kept in %s\n", it->gpu.name, path);
	json_decref(table);
	return rc;
}

/* ---- The command line ------------------------------------------------------------------------ */

static bool parse_option(struct calibration *it, int option, const char *text)
{
	unsigned device;

	switch (option) {
	case OPT_DEVICE:
		if (!option_count("--device", text, 0, INT16_MAX, &device))
			return false;
		it->options.device = (int)device;
		return true;
	case OPT_OUTPUT:
		return args_file("--output", text, &it->output);
	case OPT_ROWS:
		return option_count("--rows", text, 1, BENCH_COPY_ROWS_MAX, &it->options.rows);
	case OPT_ROUNDS:
		return option_count("--rounds", text, 1, BENCH_COPY_ROUNDS_MAX, &it->options.rounds);
	default:
		return common_option(&it->options.common, option, text);
	}
}

static int run(struct calibration *it)
{
	uint64_t bytes = 2 * max_u64(short_sizes[ARRAY_SIZE(short_sizes) - 1] * it->options.rows,
				     LONG_BYTES);
	int rc = bench_copy_open(&it->options, bytes, &it->gpu);

	if (rc)
		return rc;
	it->measured = json_array();
	rc = measure_all(it);
	bench_copy_close(&it->gpu);
	if (!rc)
		rc = finish(it);
	json_decref(it->measured);
	return rc;
}

int cmd_calibrate(int argc, char **argv)
{
	static struct calibration it = { .options = { .common = COMMON_DEFAULTS,
						      .rows = DEFAULT_ROWS,
						      .rounds = DEFAULT_ROUNDS } };
	int option, rc;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (!parse_option(&it, option, optarg))
			return EXIT_USAGE;
	}
	if (optind < argc)
		return complain(EXIT_USAGE, "unexpected argument \"%s\"", argv[optind]);
	rc = common_ends_at_once("otte calibrate");
	return rc ? rc : run(&it);
}
