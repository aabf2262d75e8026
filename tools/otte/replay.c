/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* otte replay: a trace of LLM requests, followed by a prefill and a decode process. */
#include "replay.h"

#include <stdio.h>
#include <string.h>

#include "args.h"
#include "pin.h"
#include "tool.h"

#define DEFAULT_BLOCK_BYTES (16 * KIB)
#define DEFAULT_CACHE_BLOCKS 4096
#define BLOCK_BYTES_MAX GIB
#define CACHE_BLOCKS_MAX (1u << 26)
#define GENERATE_MAX 10000000

static const char help[] =
	"Usage: otte replay [OPTION]... TRACE\n"
	"       otte replay [OPTION]... --generate N [--seed S] [--write FILE]\n"
	"Replay LLM requests: a prefill process owns the blocks of their prefixes, a decode process\n"
	"keeps some in a cache, pulls those that it lacks, and checks the content of each.\n"
	"\n"
	"TRACE has one JSON object a line: timestamp (ms), input_length, output_length, hash_ids.\n"
	"\n"
	"  --cache-blocks N    blocks that the decode process keeps, least recently used out (4096)\n"
	"  --block-bytes SIZE  bytes of a block (16K)\n"
	"  --time-scale X      follow the trace's clock X times faster; 0: as fast as possible (0)\n"
	"  --generate N        make up N requests instead of reading a trace\n"
	"  --seed S            of what is made up (1)\n"
	"  --write FILE        write the trace that was made up, and do nothing else\n"
	"  --pin CPU|A,B       keep both processes on one CPU, or decode on A and prefill on B\n"
	"  -q, --quiet         no progress on standard error, errors only\n" COMMON_HELP;

enum {
	OPT_CACHE_BLOCKS = OPT_OWN,
	OPT_BLOCK_BYTES,
	OPT_TIME_SCALE,
	OPT_GENERATE,
	OPT_SEED,
	OPT_WRITE,
	OPT_PIN,
	OPT_PREFILL, /* of the second process */
	OPT_READY_FD,
};

static const struct option long_options[] = {
	{ "cache-blocks", required_argument, NULL, OPT_CACHE_BLOCKS },
	{ "block-bytes", required_argument, NULL, OPT_BLOCK_BYTES },
	{ "time-scale", required_argument, NULL, OPT_TIME_SCALE },
	{ "generate", required_argument, NULL, OPT_GENERATE },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "write", required_argument, NULL, OPT_WRITE },
	{ "pin", required_argument, NULL, OPT_PIN },
	{ "prefill", no_argument, NULL, OPT_PREFILL },
	{ "ready-fd", required_argument, NULL, OPT_READY_FD },
	{ "quiet", no_argument, NULL, 'q' },
	COMMON_LONG_OPTIONS,
};

static bool parse_ready_fd(struct replay_options *options, const char *text)
{
	uint64_t fd;

	if (!option_number("--ready-fd", text, 0, INT32_MAX, &fd))
		return false;
	options->ready_fd = (int)fd;
	return true;
}

static bool parse_block_bytes(struct replay_options *options, const char *text)
{
	if (!args_size("--block-bytes", text, &options->block_bytes))
		return false;
	if (options->block_bytes <= BLOCK_BYTES_MAX)
		return true;
	complain(EXIT_USAGE, "--block-bytes: \"%s\" is more than 1G", text);
	return false;
}

static bool parse_option(struct replay_options *options, int option, const char *text)
{
	switch (option) {
	case OPT_CACHE_BLOCKS:
		return option_number("--cache-blocks", text, 1, CACHE_BLOCKS_MAX,
				     &options->cache_blocks);
	case OPT_BLOCK_BYTES:
		return parse_block_bytes(options, text);
	case OPT_TIME_SCALE:
		return args_decimal("--time-scale", text, &options->time_scale);
	case OPT_GENERATE:
		return option_number("--generate", text, 1, GENERATE_MAX, &options->generate);
	case OPT_SEED:
		options->seeded = true;
		return option_number("--seed", text, 0, UINT64_MAX, &options->seed);
	case OPT_WRITE:
		return args_file("--write", text, &options->write);
	case OPT_PIN:
		return args_cpus("--pin", text, &options->client_cpu, &options->server_cpu);
	case 'q':
		options->quiet = true;
		return true;
	case OPT_PREFILL:
		options->prefill = true;
		return true;
	case OPT_READY_FD:
		return parse_ready_fd(options, text);
	default:
		return common_option(&options->common, option, text);
	}
}

/* Before there is anything to clean up. The second process ends with this one and needs no words. */
static int heed_signals(const struct replay_options *options)
{
	if (options->prefill)
		return EXIT_OK;
	return common_ends_at_once("otte replay");
}

static int run(const struct replay_options *options)
{
	struct trace trace;
	int rc;

	if (options->path)
		rc = trace_load(&trace, options->path);
	else
		rc = trace_generate(&trace, options->generate, options->seed);
	if (!rc) {
		if (options->write)
			rc = trace_write(&trace, options->write);
		else if (options->prefill)
			rc = replay_prefill(options, &trace);
		else
			rc = replay_decode(options, &trace);
	}
	trace_free(&trace);
	return rc;
}

int cmd_replay(int argc, char **argv)
{
	struct replay_options options = {
		.common = COMMON_DEFAULTS,
		.seed = 1,
		.block_bytes = DEFAULT_BLOCK_BYTES,
		.cache_blocks = DEFAULT_CACHE_BLOCKS,
		.client_cpu = -1,
		.server_cpu = -1,
		.ready_fd = -1,
	};
	int option, rc;

	while ((option = getopt_long(argc, argv, "hq", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (!parse_option(&options, option, optarg))
			return EXIT_USAGE;
	}
	if (argc - optind + (options.generate != 0) != 1)
		return complain(EXIT_USAGE, "give one TRACE, or --generate N");
	if (options.write && !options.generate)
		return complain(EXIT_USAGE, "--write: needs --generate");
	if (options.seeded && !options.generate)
		return complain(EXIT_USAGE, "--seed: needs --generate; a TRACE has nothing to make up");
	if (!options.generate && !*argv[optind])
		return complain(EXIT_USAGE, "the name of TRACE is empty");
	if (!options.generate)
		options.path = argv[optind];
	rc = pin_to(options.client_cpu);
	if (rc)
		return complain(EXIT_LOCAL, "--pin: %s", strerror(-rc));
	rc = heed_signals(&options);
	return rc ? rc : run(&options);
}
