/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* otte push: a file into a remote region, from its start on. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"
#include "common.h"
#include "digest.h"
#include "endpoint.h"
#include "../common/output.h"
#include "../common/stopping.h"
#include "tool.h"
#include "transfer.h"

static const char help[] =
	"Usage: otte push [OPTION]... FILE ENDPOINT/NAME\n"
	"Write FILE into a region of the peer at HOST:PORT, from the region's start on.\n"
	"\n"
	"  --sha256            print the SHA-256 of what was written\n"
	"  --window SIZE       bytes of one window, of which four are under way (4M;\n"
	"                      4K to 1G)\n"
	"  -q, --quiet         print errors only\n" COMMON_HELP;

enum {
	OPT_SHA256 = OPT_OWN,
	OPT_WINDOW,
};

static const struct option long_options[] = {
	{ "sha256", no_argument, NULL, OPT_SHA256 },
	{ "window", required_argument, NULL, OPT_WINDOW },
	{ "quiet", no_argument, NULL, 'q' },
	COMMON_LONG_OPTIONS,
};

struct push {
	struct common common;
	const char *file, *target;
	bool sha256, quiet;
	uint64_t window_bytes;
	uint64_t length;
	int fd;
	struct digest digest;
};

static int open_input(struct push *push)
{
	struct stat info;

	/* What is no file is not waited for: a pipe would want its writer first. */
	push->fd = open(push->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (push->fd < 0 || fstat(push->fd, &info))
		return complain(EXIT_LOCAL, "%s: %s", push->file, strerror(errno));
	if (!S_ISREG(info.st_mode))
		return complain(EXIT_LOCAL, "%s: not a regular file", push->file);
	if (!info.st_size)
		return complain(EXIT_LOCAL, "%s: the file is empty", push->file);
	push->length = (uint64_t)info.st_size;
	return EXIT_OK;
}

static int read_in(void *arg, void *data, uint64_t length)
{
	struct push *push = arg;
	char *at = data;
	uint64_t left = length;
	ssize_t got;

	while (left) {
		got = read(push->fd, at, left);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return complain(EXIT_LOCAL, "%s: %s", push->file, strerror(errno));
		if (!got)
			return complain(EXIT_LOCAL, "%s: the file became shorter", push->file);
		at += got;
		left -= (uint64_t)got;
	}
	digest_add(&push->digest, data, length);
	return EXIT_OK;
}

static void report(struct push *push, const struct routes *routes, uint64_t ns)
{
	double seconds = (double)ns / 1e9, gbps = (double)push->length / (double)ns;
	char hash[DIGEST_TEXT], bytes[32], name[OUTPUT_NAME_MAX], by[ROUTES_TEXT];

	digest_text(&push->digest, hash);
	if (push->common.json) {
		json_t *json = json_pack("{s:o, s:o, s:I, s:f, s:f, s:o}", "file",
					 output_string(push->file), "target",
					 output_string(push->target), "bytes",
					 (json_int_t)push->length, "seconds", seconds, "gbps",
					 gbps, "routes", routes_json(routes));

		if (*hash)
			json_object_set_new(json, "sha256", json_string(hash));
		output_json(json);
		return;
	}
	if (!push->quiet)
		printf("%s: %s in %.3f s, %.2f GB/s by %s\n", output_name(name, push->target),
		       format_bytes(push->length, bytes), seconds, gbps, routes_text(routes, by));
	if (*hash)
		printf("%s  %s\n", hash, output_name(name, push->file));
}

static int transfer(struct push *push, struct otte_engine *engine, const struct remote *remote)
{
	uint64_t begin = otte_now_ns();
	struct routes routes;
	struct transfer moving;
	struct progress bar;
	int rc;

	if (!(remote->region.access & OTTE_REMOTE_WRITE))
		return complain(EXIT_REFUSED, "%s may not be written", push->target);
	if (push->length > remote->region.length)
		return complain(EXIT_REFUSED,
				"%s has %" PRIu64 " bytes, but %s takes only %" PRIu64, push->file,
				push->length, push->target, remote->region.length);
	stopping_is_noted();
	digest_begin(&push->digest, push->sha256);
	rc = transfer_begin(&moving, engine, remote, min_u64(push->window_bytes, push->length));
	progress_begin(&bar, remote->name, push->quiet ? 0 : push->length);
	if (!rc)
		rc = transfer_run(&moving, OTTE_WRITE, push->length, read_in, push, &bar);
	progress_end(&bar);
	routes = moving.routes;
	transfer_end(&moving);
	if (!rc)
		report(push, &routes, otte_now_ns() - begin);
	return rc;
}

static int run(struct push *push)
{
	struct otte_engine *engine;
	struct otte_config config;
	struct remote remote;
	int rc;

	rc = open_input(push);
	if (rc)
		return rc;
	rc = common_requester(&push->common, &config, &engine);
	if (rc)
		return rc;
	rc = remote_open(engine, &config, push->target, &remote);
	if (!rc)
		rc = transfer(push, engine, &remote);
	remote_close(&remote);
	otte_engine_destroy(engine);
	close(push->fd);
	return rc;
}

static bool parse_option(struct push *push, int option, const char *text)
{
	switch (option) {
	case 'q':
		push->quiet = true;
		return true;
	case OPT_SHA256:
		push->sha256 = true;
		return true;
	case OPT_WINDOW:
		return transfer_window(text, &push->window_bytes);
	default:
		return common_option(&push->common, option, text);
	}
}

int cmd_push(int argc, char **argv)
{
	struct push push = {
		.common = COMMON_DEFAULTS,
		.window_bytes = TRANSFER_WINDOW_BYTES,
		.fd = -1,
	};
	int option, rc;

	while ((option = getopt_long(argc, argv, "hq", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (!parse_option(&push, option, optarg))
			return EXIT_USAGE;
	}
	if (argc - optind != 2)
		return complain(EXIT_USAGE, "give FILE and ENDPOINT/NAME");
	if (!*argv[optind])
		return complain(EXIT_USAGE, "the name of FILE is empty");
	push.file = argv[optind];
	push.target = argv[optind + 1];
	rc = common_ends_at_once("otte push");
	return rc ? rc : run(&push);
}
