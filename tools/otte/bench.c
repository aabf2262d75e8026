/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * otte bench: what transfers cost, beside what plain sockets cost.
 *
 * Every size and direction is measured in rounds. With --floor a round measures libotte and the
 * floor one right after the other, in an order that changes from round to round, so that whatever
 * else the machine does meets both. Figures are medians over the rounds; a ratio is the median of
 * the ratios within a round.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "base/clock.h"
#include "bench.h"
#include "output.h"
#include "tool.h"

#define DEFAULT_DURATION_NS (3 * NSEC_PER_SEC)
#define DEFAULT_ROUNDS 15

static const char help[] =
	"Usage: otte bench [OPTION]...\n"
	"Measure transfers between two processes, beside plain sockets.\n"
	"\n"
	"  --sizes LIST        sizes of a request (4K,64K,1M,16M)\n"
	"  --batch N           requests in flight together, of each thread (1)\n"
	"  --threads N         threads (1)\n"
	"  --op read|write|both\n"
	"  --pin CPU|A,B       keep both processes on one CPU, or client on A and server on B\n"
	"  --congestion NAME   congestion control of every socket\n"
	"  --send-buffer SIZE, --receive-buffer SIZE\n"
	"                      socket buffers; the system's without\n"
	"  --duration TIME     of each line, all rounds together (3s)\n"
	"  --iterations N      exchanges of each thread in a round, instead of a duration\n"
	"  --rounds N          measurements of each line (15)\n"
	"  --floor-only        only the plain request and answer loop over sockets\n"
	"  --json              results as JSON\n"
	"  -h, --help\n";

enum {
	OPT_SIZES = 256,
	OPT_BATCH,
	OPT_THREADS,
	OPT_OP,
	OPT_PIN,
	OPT_CONGESTION,
	OPT_SEND_BUFFER,
	OPT_RECEIVE_BUFFER,
	OPT_DURATION,
	OPT_ITERATIONS,
	OPT_ROUNDS,
	OPT_FLOOR_ONLY,
	OPT_JSON,
};

static const struct option long_options[] = {
	{ "sizes", required_argument, NULL, OPT_SIZES },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "op", required_argument, NULL, OPT_OP },
	{ "pin", required_argument, NULL, OPT_PIN },
	{ "congestion", required_argument, NULL, OPT_CONGESTION },
	{ "send-buffer", required_argument, NULL, OPT_SEND_BUFFER },
	{ "receive-buffer", required_argument, NULL, OPT_RECEIVE_BUFFER },
	{ "duration", required_argument, NULL, OPT_DURATION },
	{ "iterations", required_argument, NULL, OPT_ITERATIONS },
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ "floor-only", no_argument, NULL, OPT_FLOOR_ONLY },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const struct column columns[] = {
	{ "side", "who", COLUMN_TEXT, 0, 5 },
	{ "op", "op", COLUMN_TEXT, 0, 5 },
	{ "block", "block", COLUMN_BYTES, 0, 8 },
	{ "batch", "batch", COLUMN_COUNT, 0, 5 },
	{ "gbps", "GB/s", COLUMN_REAL, 2, 7 },
	{ "mean_us", "avg us", COLUMN_REAL, 1, 9 },
	{ "p50_us", "p50 us", COLUMN_REAL, 1, 9 },
	{ "p99_us", "p99 us", COLUMN_REAL, 1, 9 },
	{ "p999_us", "p99.9 us", COLUMN_REAL, 1, 9 },
	{ "cpu_per_gb", "CPU s/GB", COLUMN_REAL, 3, 8 },
};

uint64_t bench_memory_bytes(const struct bench_options *options)
{
	uint64_t largest = 0;
	size_t i;

	for (i = 0; i < options->size_count; i++)
		largest = max_u64(largest, options->sizes[i]);
	return largest * options->batch * options->threads;
}

static void set_defaults(struct bench_options *options)
{
	static const uint64_t sizes[] = { 4 * KIB, 64 * KIB, MIB, 16 * MIB };

	*options = (struct bench_options){
		.size_count = ARRAY_SIZE(sizes),
		.batch = 1,
		.threads = 1,
		.read = true,
		.write = true,
		.client_cpu = -1,
		.server_cpu = -1,
		.duration_ns = DEFAULT_DURATION_NS,
		.rounds = DEFAULT_ROUNDS,
	};
	memcpy(options->sizes, sizes, sizeof(sizes));
}

static bool parse_op(struct bench_options *options, const char *text)
{
	options->read = !strcmp(text, "read") || !strcmp(text, "both");
	options->write = !strcmp(text, "write") || !strcmp(text, "both");
	if (options->read || options->write)
		return true;
	complain(EXIT_USAGE, "--op: \"%s\" is not read, write or both", text);
	return false;
}

static bool parse_congestion(struct bench_options *options, const char *text)
{
	if (strlen(text) < sizeof(options->congestion)) {
		strcpy(options->congestion, text);
		return true;
	}
	complain(EXIT_USAGE, "--congestion: \"%s\" is too long", text);
	return false;
}

static bool parse_count(const char *option, const char *text, uint64_t most, unsigned *number)
{
	uint64_t value;

	if (!args_number(option, text, 1, most, &value))
		return false;
	*number = (unsigned)value;
	return true;
}

static bool parse_option(struct bench_options *options, int option, const char *text)
{
	switch (option) {
	case OPT_SIZES:
		return args_sizes("--sizes", text, options->sizes, BENCH_SIZES_MAX,
				  &options->size_count);
	case OPT_BATCH:
		return parse_count("--batch", text, BENCH_BATCH_MAX, &options->batch);
	case OPT_THREADS:
		return parse_count("--threads", text, MEASURE_THREADS_MAX, &options->threads);
	case OPT_OP:
		return parse_op(options, text);
	case OPT_PIN:
		return args_cpus("--pin", text, &options->client_cpu, &options->server_cpu);
	case OPT_CONGESTION:
		return parse_congestion(options, text);
	case OPT_SEND_BUFFER:
		return args_size("--send-buffer", text, &options->send_buffer_bytes);
	case OPT_RECEIVE_BUFFER:
		return args_size("--receive-buffer", text, &options->receive_buffer_bytes);
	case OPT_DURATION:
		return args_duration("--duration", text, &options->duration_ns);
	case OPT_ITERATIONS:
		return args_number("--iterations", text, 1, UINT32_MAX, &options->iterations);
	case OPT_ROUNDS:
		return parse_count("--rounds", text, BENCH_ROUNDS_MAX, &options->rounds);
	case OPT_FLOOR_ONLY:
		options->floor_only = true;
		return true;
	default:
		return false;
	}
}

static int pin_to(int cpu)
{
	cpu_set_t cpus;

	if (cpu < 0)
		return 0;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	return sched_setaffinity(0, sizeof(cpus), &cpus) ? -errno : 0;
}

static int measure_rounds(const struct measured *who, const struct measure_options *options,
			  unsigned rounds, struct bench_result *result)
{
	double gbps[BENCH_ROUNDS_MAX], cpu = 0, gb = 0;
	struct measurement all = { 0 }, before;
	unsigned i;
	int rc;

	rc = samples_init(&all.latencies, 1u << 20);
	for (i = 0; i < rounds && !rc; i++) {
		before = all;
		rc = measure(who, options, &all);
		gbps[i] = (double)(all.bytes - before.bytes) / (double)(all.ns - before.ns);
	}
	samples_sort(&all.latencies);
	cpu = all.cpu_seconds;
	gb = (double)all.bytes / 1e9;
	*result = (struct bench_result){
		.gbps = median(gbps, rounds),
		.mean_us = samples_mean(&all.latencies) / 1e3,
		.p50_us = (double)samples_quantile(&all.latencies, 0.5) / 1e3,
		.p99_us = (double)samples_quantile(&all.latencies, 0.99) / 1e3,
		.p999_us = (double)samples_quantile(&all.latencies, 0.999) / 1e3,
		.cpu_per_gb = gb > 0 ? cpu / gb : 0,
	};
	samples_free(&all.latencies);
	return rc;
}

static json_t *result_row(const char *side, const struct measure_options *options,
			  const struct bench_result *result)
{
	return json_pack("{s:s, s:s, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "side", side, "op",
			 options->write ? "WRITE" : "READ", "block", (json_int_t)options->length,
			 "batch", (int)options->batch, "gbps", result->gbps, "mean_us",
			 result->mean_us, "p50_us", result->p50_us, "p99_us", result->p99_us,
			 "p999_us", result->p999_us, "cpu_per_gb", result->cpu_per_gb);
}

static int run_floor_only(const struct bench_options *options, bool json)
{
	struct measure_options one = {
		.batch = options->batch,
		.threads = options->threads,
		.duration_ns = options->duration_ns / options->rounds,
		.iterations = options->iterations,
	};
	json_t *rows = json_array(), *row;
	struct bench_result result;
	struct bench_floor *floor;
	size_t i;
	int rc, write;

	rc = bench_floor_start(options, &floor);
	if (rc)
		return complain(EXIT_LOCAL, "floor: %s", strerror(-rc));
	if (!json)
		output_heading(stdout, columns, ARRAY_SIZE(columns));
	for (write = 0; write < 2; write++) {
		if (write ? !options->write : !options->read)
			continue;
		for (i = 0; i < options->size_count && !rc; i++) {
			one.write = write;
			one.length = options->sizes[i];
			rc = measure_rounds(bench_floor_side(floor), &one, options->rounds,
					    &result);
			row = result_row("floor", &one, &result);
			if (!json)
				output_row(stdout, columns, ARRAY_SIZE(columns), row);
			json_array_append_new(rows, row);
		}
	}
	bench_floor_stop(floor);
	if (rc)
		return complain(EXIT_TRANSFER, "floor: %s", strerror(-rc));
	if (json)
		output_json(json_pack("{s:o}", "results", rows));
	else
		json_decref(rows);
	return EXIT_OK;
}

int cmd_bench(int argc, char **argv)
{
	struct bench_options options;
	bool json = false;
	int option;

	set_defaults(&options);
	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (option == OPT_JSON)
			json = true;
		else if (!parse_option(&options, option, optarg))
			return EXIT_USAGE;
	}
	if (pin_to(options.client_cpu))
		return complain(EXIT_LOCAL, "--pin: %s", strerror(errno));
	if (options.floor_only)
		return run_floor_only(&options, json);
	return complain(EXIT_USAGE, "only --floor-only is there yet");
}
