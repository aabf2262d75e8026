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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "base/clock.h"
#include "bench.h"
#include "bench_copy.h"
#include "memory.h"
#include "pin.h"
#include "../common/stopping.h"
#include "tool.h"

#define DEFAULT_DURATION_NS (3 * NSEC_PER_SEC)
#define DEFAULT_ROUNDS 15
#define LANES_MAX 16

static const char help[] =
	"Usage: otte bench [OPTION]...\n"
	"Measure transfers between two processes, beside plain sockets.\n"
	"\n"
	"  --copy                local copies between a GPU and host memory instead, with options of\n"
	"                        their own: otte bench --copy --help\n"
	"  --peer ENDPOINT/NAME  use this region of a peer instead of a process of our own; --op write\n"
	"                        and both OVERWRITE it, from its start on, and so the file it is of\n"
	"  --sizes LIST          sizes of a request (4K,64K,1M,16M)\n"
	"  --batch N             requests in flight together, of each thread (1)\n"
	"  --threads N           threads (1)\n"
	"  --lanes N             payload connections\n"
	"  --lease               RDMA moves requests by a lease of the whole region\n"
	"  --op read|write|both  direction (both); with --peer, read writes nothing there, and so\n"
	"                        cannot verify content\n"
	"  --pin CPU|A,B         keep both processes on one CPU, or client on A and server on B\n"
	"  --congestion NAME     congestion control of every payload socket\n"
	"  --send-buffer SIZE, --receive-buffer SIZE\n"
	"                        socket buffers; the system's without\n"
	"  --duration TIME       of each line, all rounds together (3s)\n"
	"  --iterations N        exchanges of each thread in a round, instead of a duration\n"
	"  --rounds N            measurements of each line (15)\n"
	"  --no-verify           do not check content before and after\n"
	"  --floor               alternate with a plain request and answer loop over sockets\n"
	"  --floor-only          that loop alone\n"
	"  --require LIST        fail unless READs reach this part of the floor's speed: 1M=0.95,...\n"
	"  --require-latency LIST  fail if the median latency of READs is more than this multiple\n"
	"                        of the floor's: 4K=1.25,...\n"
	"  --report FILE         append the results as a table\n"
	"  --note TEXT           shown with the results\n" COMMON_HELP;

enum {
	OPT_PEER = OPT_OWN,
	OPT_SIZES,
	OPT_BATCH,
	OPT_THREADS,
	OPT_LANES,
	OPT_LEASE,
	OPT_OP,
	OPT_PIN,
	OPT_CONGESTION,
	OPT_SEND_BUFFER,
	OPT_RECEIVE_BUFFER,
	OPT_DURATION,
	OPT_ITERATIONS,
	OPT_ROUNDS,
	OPT_NO_VERIFY,
	OPT_FLOOR,
	OPT_FLOOR_ONLY,
	OPT_REQUIRE,
	OPT_REQUIRE_LATENCY,
	OPT_REPORT,
	OPT_NOTE,
};

static const struct option long_options[] = {
	{ "peer", required_argument, NULL, OPT_PEER },
	{ "sizes", required_argument, NULL, OPT_SIZES },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "lanes", required_argument, NULL, OPT_LANES },
	{ "lease", no_argument, NULL, OPT_LEASE },
	{ "op", required_argument, NULL, OPT_OP },
	{ "pin", required_argument, NULL, OPT_PIN },
	{ "congestion", required_argument, NULL, OPT_CONGESTION },
	{ "send-buffer", required_argument, NULL, OPT_SEND_BUFFER },
	{ "receive-buffer", required_argument, NULL, OPT_RECEIVE_BUFFER },
	{ "duration", required_argument, NULL, OPT_DURATION },
	{ "iterations", required_argument, NULL, OPT_ITERATIONS },
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ "no-verify", no_argument, NULL, OPT_NO_VERIFY },
	{ "floor", no_argument, NULL, OPT_FLOOR },
	{ "floor-only", no_argument, NULL, OPT_FLOOR_ONLY },
	{ "require", required_argument, NULL, OPT_REQUIRE },
	{ "require-latency", required_argument, NULL, OPT_REQUIRE_LATENCY },
	{ "report", required_argument, NULL, OPT_REPORT },
	{ "note", required_argument, NULL, OPT_NOTE },
	COMMON_LONG_OPTIONS,
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
		.common = COMMON_DEFAULTS,
		.verify = true,
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
		memcpy(options->congestion, text, strlen(text) + 1);
		return true;
	}
	complain(EXIT_USAGE, "--congestion: \"%s\" is too long", text);
	return false;
}

/* "1M=0.95,16M=0.95" */
static bool parse_bars(const char *option, const char *text, struct bench_bar *bars, size_t *count)
{
	char *copy = strdup(text), *at = copy, *one, *equals;
	bool good = copy != NULL;

	while (good && (one = strsep(&at, ","))) {
		equals = strchr(one, '=');
		if (!equals || *count == BENCH_BARS_MAX) {
			complain(EXIT_USAGE, "%s: \"%s\" is not a list of SIZE=RATIO", option,
				 text);
			good = false;
			break;
		}
		*equals = '\0';
		good = args_size(option, one, &bars[*count].length) &&
		       args_decimal(option, equals + 1, &bars[*count].ratio);
		++*count;
	}
	free(copy);
	return good;
}

static bool parse_option(struct bench_options *options, int option, const char *text)
{
	switch (option) {
	case OPT_PEER:
		options->peer = text;
		return true;
	case OPT_SIZES:
		return args_sizes("--sizes", text, options->sizes, BENCH_SIZES_MAX,
				  &options->size_count);
	case OPT_BATCH:
		return option_count("--batch", text, 1, BENCH_BATCH_MAX, &options->batch);
	case OPT_THREADS:
		return option_count("--threads", text, 1, MEASURE_THREADS_MAX, &options->threads);
	case OPT_LANES:
		return option_count("--lanes", text, 1, LANES_MAX, &options->lanes);
	case OPT_LEASE:
		options->lease = true;
		return true;
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
		return option_number("--iterations", text, 1, UINT32_MAX, &options->iterations);
	case OPT_ROUNDS:
		return option_count("--rounds", text, 1, BENCH_ROUNDS_MAX, &options->rounds);
	case OPT_NO_VERIFY:
		options->verify = false;
		return true;
	case OPT_FLOOR:
		options->floor = true;
		return true;
	case OPT_FLOOR_ONLY:
		options->floor_only = true;
		return true;
	case OPT_REQUIRE:
		return parse_bars("--require", text, options->speed_bars,
				  &options->speed_bar_count);
	case OPT_REQUIRE_LATENCY:
		return parse_bars("--require-latency", text, options->latency_bars,
				  &options->latency_bar_count);
	case OPT_REPORT:
		options->report = text;
		return true;
	case OPT_NOTE:
		options->note = text;
		return true;
	default:
		return common_option(&options->common, option, text);
	}
}

/* ---- Measuring ------------------------------------------------------------------------------- */

struct bench {
	const struct bench_options *options;
	struct bench_otte *otte; /* NULL: the floor alone */
	struct bench_floor *floor; /* NULL: not asked for */
	struct bench_series otte_series, floor_series;
};

static int add_otte(struct bench *bench, const struct measure_options *line)
{
	int rc = bench_series_add(&bench->otte_series, bench_otte_side(bench->otte), line);

	return rc ? bench_otte_complain(bench->otte, rc) : EXIT_OK;
}

static int add_floor(struct bench *bench, const struct measure_options *line)
{
	int rc = bench_series_add(&bench->floor_series, bench_floor_side(bench->floor), line);

	if (!rc || stopping_count()) /* which has ended the floor's other process, too */
		return rc ? EXIT_TRANSFER : EXIT_OK;
	return complain(EXIT_TRANSFER, "floor: %s", strerror(-rc));
}

/* Who goes first changes from round to round. */
static int measure_round(struct bench *bench, const struct measure_options *line, unsigned round)
{
	int rc = EXIT_OK;

	if (bench->floor && round % 2)
		rc = add_floor(bench, line);
	if (bench->otte && !rc)
		rc = add_otte(bench, line);
	if (bench->floor && !(round % 2) && !rc)
		rc = add_floor(bench, line);
	return rc;
}

static int measure_rounds(struct bench *bench, const struct measure_options *line)
{
	unsigned round;
	int rc = EXIT_OK;

	if (bench->otte)
		rc = bench_otte_prepare(bench->otte, line->write, line->length);
	for (round = 0; round < bench->options->rounds && !rc; round++)
		rc = measure_round(bench, line, round);
	if (bench->otte && !rc)
		rc = bench_otte_verify(bench->otte, line->write, line->length);
	return rc;
}

static int measure_line(struct bench *bench, const struct measure_options *line)
{
	int rc = EXIT_OK;

	if (bench_series_begin(&bench->otte_series) | bench_series_begin(&bench->floor_series))
		rc = complain(EXIT_LOCAL, "no memory for samples");
	if (!rc)
		rc = measure_rounds(bench, line);
	if (!rc && bench->otte)
		bench_report_row(bench->options, "otte", line, &bench->otte_series,
				 bench->floor ? &bench->floor_series : NULL);
	if (!rc && bench->floor)
		bench_report_row(bench->options, "floor", line, &bench->floor_series,
				 NULL);
	bench_series_end(&bench->otte_series);
	bench_series_end(&bench->floor_series);
	return rc;
}

static int measure_all(struct bench *bench)
{
	const struct bench_options *options = bench->options;
	unsigned sides = bench->otte && bench->floor ? 2 : 1;
	struct measure_options line = {
		.batch = options->batch,
		.threads = options->threads,
		.duration_ns = options->duration_ns / options->rounds / sides,
		.iterations = options->iterations,
	};
	int rc = EXIT_OK, write;
	size_t i;

	for (write = 0; write < 2; write++) {
		if (write ? !options->write : !options->read)
			continue;
		for (i = 0; i < options->size_count && !rc; i++) {
			line.write = write;
			line.length = options->sizes[i];
			rc = measure_line(bench, &line);
		}
	}
	return rc;
}

static int start_sides(struct bench *bench)
{
	const struct bench_options *options = bench->options;
	int rc;

	/* The floor first: it forks, and an engine does not survive that. */
	if (options->floor) {
		rc = bench_floor_start(options, &bench->floor);
		if (rc)
			return complain(EXIT_LOCAL, "floor: %s", strerror(-rc));
	}
	return options->floor_only ? EXIT_OK : bench_otte_start(options, &bench->otte);
}

/* Each side has that much in each of its two processes. */
static uint64_t memory_of_all(const struct bench_options *options)
{
	unsigned processes = (options->floor ? 2 : 0) + (options->floor_only ? 0 :
							 options->peer	     ? 1 :
									       2);

	return bench_memory_bytes(options) * processes;
}

static int run(const struct bench_options *options)
{
	static struct bench bench; /* large */
	json_t *report;
	int rc;

	bench.options = options;
	rc = check_memory(memory_of_all(options), "give smaller --sizes, --batch or --threads");
	if (rc)
		return rc;
	rc = start_sides(&bench);
	if (!rc)
		rc = bench_report_begin(options, bench.otte);
	if (!rc)
		rc = measure_all(&bench);
	if (rc && stopping_count())
		bench_report_interrupt();
	if (bench.otte)
		bench_otte_stop(bench.otte);
	if (bench.floor)
		bench_floor_stop(bench.floor);
	report = bench_report_close();
	if (!rc)
		return bench_report_end(options, report);
	json_decref(report);
	return rc;
}

static bool make_sense(struct bench_options *options)
{
	if (options->floor_only)
		options->floor = true;
	if (options->peer && options->server_cpu != options->client_cpu)
		complain(EXIT_USAGE, "--pin A,B: the server of --peer is pinned where it runs");
	else if (options->peer && options->floor)
		complain(EXIT_USAGE, "%s: measures two processes here, and --peer is elsewhere",
			 options->floor_only ? "--floor-only" : "--floor");
	else if ((options->speed_bar_count || options->latency_bar_count) && !options->floor)
		complain(EXIT_USAGE, "--require and --require-latency: need --floor");
	else
		return true;
	return false;
}

/* What is measured by --copy has options of its own. */
static bool asks_for_copies(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--copy"))
			return true;
	return false;
}

int cmd_bench(int argc, char **argv)
{
	static struct bench_options options;
	int option, rc;

	if (asks_for_copies(argc, argv))
		return bench_copy(argc, argv);
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
	if (!make_sense(&options))
		return EXIT_USAGE;
	rc = bench_report_check(&options);
	if (rc)
		return rc;
	rc = pin_to(options.client_cpu);
	if (rc)
		return complain(EXIT_LOCAL, "--pin: %s", strerror(-rc));
	/* All that is left is a second process, which ends with this one. */
	rc = common_ends_at_once("otte bench");
	return rc ? rc : run(&options);
}
