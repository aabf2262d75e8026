/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * otte serve: publishes files and anonymous memory until SIGINT, SIGTERM or SIGHUP, then closes within a
 * bounded time and says what is kept. A second signal ends the waiting.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"
#include "base/line.h"
#include "common.h"
#include "../common/output.h"
#include "../common/stopping.h"
#include "../common/whole.h"
#include "tool.h"

#define SHARES_MAX 1024
#define DEFAULT_CLOSE_NS (10 * NSEC_PER_SEC)
#define CLOSE_STEP_NS (200 * NSEC_PER_MSEC)

static const char help[] =
	"Usage: otte serve [OPTION]... (--file PATH[:NAME] | --anon NAME=SIZE)...\n"
	"Register files and memory, publish them, and serve peers until SIGINT, SIGTERM\n"
	"or SIGHUP.\n"
	"\n"
	"  --file PATH[:NAME]    publish a file under NAME (the file's own name); may be repeated\n"
	"  --anon NAME=SIZE      publish SIZE bytes of zeroed memory; may be repeated\n"
	"  --writable            peers may WRITE too; that changes the files\n"
	"  --listen HOST:PORT    where to listen; port 0 is any free one. Without this option:\n"
	"                        loopback only\n"
	"  --advertise HOST[:PORT]  the address that peers are given\n"
	"  --close-timeout TIME  how long to wait for peers at the end (10s)\n"
	"  --ready-fd N          write the endpoint to this descriptor once peers can connect\n"
	"  --port-file PATH      write the endpoint to this file while peers can connect\n"
	"  -q, --quiet           no remarks on standard error but errors\n" COMMON_HELP;

enum {
	OPT_FILE = OPT_OWN,
	OPT_ANON,
	OPT_WRITABLE,
	OPT_LISTEN,
	OPT_ADVERTISE,
	OPT_CLOSE_TIMEOUT,
	OPT_READY_FD,
	OPT_PORT_FILE,
};

static const struct option long_options[] = {
	{ "file", required_argument, NULL, OPT_FILE },
	{ "anon", required_argument, NULL, OPT_ANON },
	{ "writable", no_argument, NULL, OPT_WRITABLE },
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "advertise", required_argument, NULL, OPT_ADVERTISE },
	{ "close-timeout", required_argument, NULL, OPT_CLOSE_TIMEOUT },
	{ "ready-fd", required_argument, NULL, OPT_READY_FD },
	{ "port-file", required_argument, NULL, OPT_PORT_FILE },
	{ "quiet", no_argument, NULL, 'q' },
	COMMON_LONG_OPTIONS,
};

/* One thing to publish. `path` is NULL for anonymous memory. */
struct share {
	char *path;
	char name[OTTE_NAME_MAX], shown[OTTE_NAME_MAX]; /* as it was given, and as peers see it */
	uint64_t length;
	struct otte_mem *mem;
	struct otte_region *region;
};

struct serve {
	struct common common;
	struct share shares[SHARES_MAX];
	size_t count;
	bool writable, quiet;
	const char *listen, *advertise, *port_file;
	struct whole port; /* that file */
	uint64_t close_timeout_ns;
	int ready_fd;
	struct otte_config config;
	struct otte_engine *engine;
};

/* ---- Command line ---------------------------------------------------------------------------- */

/* The library says the same, but of a view. */
static bool set_name(struct share *share, const char *option, const char *name, size_t length)
{
	char shown[4 * OTTE_NAME_MAX];

	if (!length || length >= sizeof(share->name)) {
		complain(EXIT_USAGE, "%s: the name \"%.*s\" must have 1 to %zu bytes", option,
			 (int)length, name, sizeof(share->name) - 1);
		return false;
	}
	memcpy(share->name, name, length);
	share->name[length] = '\0';
	length = otte_name_escape(shown, sizeof(shown), share->name);
	if (length >= sizeof(share->shown)) {
		complain(EXIT_USAGE,
			 "%s: the name \"%s\" has %zu bytes where unprintable ones are \"\\xNN\", allowed are %zu",
			 option, shown, length, sizeof(share->shown) - 1);
		return false;
	}
	memcpy(share->shown, shown, length + 1);
	return true;
}

static struct share *new_share(struct serve *serve)
{
	if (serve->count < SHARES_MAX)
		return &serve->shares[serve->count++];
	complain(EXIT_USAGE, "more than %d things to publish", SHARES_MAX);
	return NULL;
}

/* A colon belongs to the path if a file of the whole name exists. */
static bool add_file(struct serve *serve, const char *text)
{
	struct share *share = new_share(serve);
	const char *colon = strrchr(text, ':');
	char *base;

	if (!share)
		return false;
	if (colon && access(text, F_OK) == 0)
		colon = NULL;
	share->path = colon ? strndup(text, (size_t)(colon - text)) : strdup(text);
	if (!share->path)
		return false;
	if (!*share->path) {
		complain(EXIT_USAGE, "--file: the path in \"%s\" is empty", text);
		return false;
	}
	if (colon)
		return set_name(share, "--file", colon + 1, strlen(colon + 1));
	base = strrchr(share->path, '/');
	base = base ? base + 1 : share->path;
	return set_name(share, "--file", base, strlen(base));
}

static bool add_anonymous(struct serve *serve, const char *text)
{
	struct share *share = new_share(serve);
	const char *equals = strchr(text, '=');

	if (!share)
		return false;
	if (!equals) {
		complain(EXIT_USAGE, "--anon: \"%s\" is not NAME=SIZE", text);
		return false;
	}
	return set_name(share, "--anon", text, (size_t)(equals - text)) &&
	       args_size("--anon", equals + 1, &share->length);
}

static bool parse_ready_fd(struct serve *serve, const char *text)
{
	uint64_t fd;

	if (!option_number("--ready-fd", text, 0, INT32_MAX, &fd))
		return false;
	serve->ready_fd = (int)fd;
	if (fcntl(serve->ready_fd, F_GETFD) >= 0)
		return true;
	complain(EXIT_USAGE, "--ready-fd: descriptor %s is not open", text);
	return false;
}

static bool parse_option(struct serve *serve, int option, const char *text)
{
	switch (option) {
	case OPT_FILE:
		return add_file(serve, text);
	case OPT_ANON:
		return add_anonymous(serve, text);
	case OPT_WRITABLE:
		serve->writable = true;
		return true;
	case OPT_LISTEN:
		serve->listen = text;
		return true;
	case OPT_ADVERTISE:
		serve->advertise = text;
		return true;
	case OPT_CLOSE_TIMEOUT:
		return args_duration("--close-timeout", text, &serve->close_timeout_ns);
	case OPT_READY_FD:
		return parse_ready_fd(serve, text);
	case OPT_PORT_FILE:
		return args_file("--port-file", text, &serve->port_file);
	case 'q':
		serve->quiet = true;
		return true;
	default:
		return common_option(&serve->common, option, text);
	}
}

/* "host:port", "[v6]:port" or "host" alone. */
static int apply_listen(struct otte_config *config, const char *text)
{
	const char *colon = strrchr(text, ':'), *host = text;
	size_t length = colon ? (size_t)(colon - text) : strlen(text);
	uint64_t port = 0;

	if (colon && strchr(text, ':') != colon && (*text != '[' || !strchr(text, ']')))
		return complain(EXIT_USAGE, "--listen: \"%s\": an IPv6 address needs brackets", text);
	if (*text == '[' && text[strlen(text) - 1] == ']')
		length = strlen(text); /* "[v6]" without a port */
	else if (colon && !option_number("--listen", colon + 1, 0, 65535, &port))
		return EXIT_USAGE;
	if (length > 1 && host[0] == '[' && host[length - 1] == ']') {
		host++;
		length -= 2;
	}
	if (!length || length >= sizeof(config->listen_address))
		return complain(EXIT_USAGE, "--listen: \"%s\" is not HOST:PORT", text);
	memcpy(config->listen_address, host, length);
	config->listen_address[length] = '\0';
	config->listen_port = (uint32_t)port;
	return EXIT_OK;
}

static bool is_loopback(const char *address)
{
	return !strncmp(address, "127.", 4) || !strcmp(address, "::1") ||
	       !strcmp(address, "localhost");
}

static void say_who_may_come(const struct serve *serve)
{
	bool key = *serve->config.key_file, loopback = is_loopback(serve->config.listen_address);

	if (key || serve->quiet)
		return;
	if (loopback && !serve->listen)
		fputs("otte serve: without --listen this listens on loopback only; there is no key, see "
		      "--key-file\n",
		      stderr);
	else if (!loopback)
		warn_user("no key: whoever reaches %s may use what is published here",
			  serve->config.listen_address);
}

static int configure(struct serve *serve)
{
	struct otte_config *config = &serve->config;
	int rc = common_config(&serve->common, config);

	if (rc)
		return rc;
	if (serve->listen && apply_listen(config, serve->listen))
		return EXIT_USAGE;
	if (serve->advertise) {
		if (strlen(serve->advertise) >= sizeof(config->advertise))
			return complain(EXIT_USAGE, "--advertise: the address is too long");
		memcpy(config->advertise, serve->advertise, strlen(serve->advertise) + 1);
	}
	if (!*config->listen_address)
		return complain(EXIT_USAGE, "listen.address is empty: nobody could connect");
	return EXIT_OK;
}

/* ---- What is published ----------------------------------------------------------------------- */

/* What is no file is not waited for: a pipe would want its writer first. */
static int open_share(const struct serve *serve, const struct share *share)
{
	const int flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

	return open(share->path, (serve->writable ? O_RDWR : O_RDONLY) | flags);
}

static int map_file(struct serve *serve, struct share *share)
{
	int fd = open_share(serve, share), rc;
	struct stat info;

	if (fd < 0 || fstat(fd, &info)) {
		rc = complain(EXIT_LOCAL, "%s: %s", share->path, strerror(errno));
	} else if (!S_ISREG(info.st_mode) || !info.st_size) {
		rc = complain(EXIT_LOCAL, "%s: %s", share->path,
			      S_ISREG(info.st_mode) ? "the file is empty" : "not a regular file");
	} else {
		share->length = (uint64_t)info.st_size;
		rc = otte_mem_map_file(serve->engine, fd, 0, 0,
				       serve->writable ? 0 : OTTE_MEM_READONLY, &share->mem);
		if (rc)
			rc = complain_library(rc, share->path);
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static int take_memory(struct serve *serve, struct share *share)
{
	int rc;

	if (share->path)
		return map_file(serve, share);
	rc = otte_mem_alloc(serve->engine, share->length, 0, &share->mem);
	return rc ? complain_library(rc, share->name) : EXIT_OK;
}

static int publish(struct serve *serve, struct share *share)
{
	struct otte_region_desc desc = { 0 };
	int rc = take_memory(serve, share);

	if (rc)
		return rc;
	desc.mem = share->mem;
	desc.length = share->length;
	desc.access = OTTE_REMOTE_READ | (serve->writable ? OTTE_REMOTE_WRITE : 0);
	desc.name = share->name;
	rc = otte_region_register(serve->engine, &desc, 1, &share->region);
	return rc ? complain_library(rc, share->name) : EXIT_OK;
}

static void announce_json(const struct serve *serve, const char *endpoint)
{
	json_t *regions = json_array();
	size_t i;

	for (i = 0; i < serve->count; i++)
		json_array_append_new(regions,
				      json_pack("{s:I, s:o, s:I, s:b}", "id",
						(json_int_t)otte_region_id(serve->shares[i].region),
						"name", json_string(serve->shares[i].shown),
						"length", (json_int_t)serve->shares[i].length,
						"writable", serve->writable));
	output_json(json_pack("{s:s, s:i, s:o}", "endpoint", endpoint, "pid", (int)getpid(),
			      "regions", regions));
}

static void announce_text(const struct serve *serve, const char *endpoint)
{
	char bytes[32];
	size_t i;

	printf("endpoint %s\n", endpoint);
	for (i = 0; i < serve->count; i++)
		printf("region %" PRIu64 " %s %s (%s)\n", otte_region_id(serve->shares[i].region),
		       serve->shares[i].shown, format_bytes(serve->shares[i].length, bytes),
		       serve->writable ? "read, write" : "read");
	fflush(stdout);
}

/* Who publishes two things of one name makes peers guess; with a name that is given it need not be. */
static int check_names(const struct serve *serve)
{
	size_t i, j;

	for (i = 1; i < serve->count; i++)
		for (j = 0; j < i; j++)
			if (!strcmp(serve->shares[i].name, serve->shares[j].name))
				return complain(EXIT_USAGE,
						"%s: \"%s\" is the name of two things to publish",
						serve->shares[i].path ? "--file" : "--anon",
						serve->shares[i].name);
	return EXIT_OK;
}

static int complain_port_file(const struct serve *serve, int code)
{
	return complain(EXIT_LOCAL, "--port-file: %s: %s", serve->port_file, strerror(-code));
}

/* What cannot be made is said before anything is announced. A pipe is opened when it is written. */
static int open_port_file(struct serve *serve)
{
	const char *path = serve->port_file;
	struct stat info;
	int rc;

	if (!stat(path, &info) && S_ISDIR(info.st_mode))
		return complain(EXIT_LOCAL, "--port-file: %s is a directory, not a file", path);
	if (whole_is_direct(path))
		return EXIT_OK;
	rc = whole_begin(&serve->port, path, 0);
	return rc ? complain_port_file(serve, rc) : EXIT_OK;
}

/*
 * Scripts see either no file or a whole one. A pipe is waited for until somebody reads it, and there is
 * nothing of ours to remove.
 */
static int write_port_file(struct serve *serve, const char *endpoint)
{
	int rc = 0;

	if (!serve->port.file) {
		stopping_ends_us("otte serve", EXIT_TRANSFER);
		rc = whole_begin(&serve->port, serve->port_file, 0);
	}
	if (!rc) {
		fprintf(serve->port.file, "%s\n", endpoint);
		rc = whole_end(&serve->port, 0);
	}
	stopping_is_noted();
	return rc ? complain_port_file(serve, rc) : EXIT_OK;
}

static int print_announcement(const struct serve *serve, const char *endpoint)
{
	if (serve->common.json)
		announce_json(serve, endpoint);
	else
		announce_text(serve, endpoint);
	return ferror(stdout) ? complain(EXIT_LOCAL, "standard output cannot be written") : EXIT_OK;
}

/* Whoever waits for the port file finds the announcement written, too. */
static int announce(struct serve *serve)
{
	char endpoint[OTTE_ADDRESS_MAX];
	int rc = otte_engine_address(serve->engine, endpoint, sizeof(endpoint));

	if (rc)
		return complain_library(rc, "address");
	if (serve->port_file && open_port_file(serve))
		return EXIT_LOCAL;
	rc = print_announcement(serve, endpoint);
	if (rc) {
		if (serve->port.file)
			whole_end(&serve->port, -ECANCELED);
		return rc;
	}
	if (serve->port_file && write_port_file(serve, endpoint))
		return EXIT_LOCAL;
	if (serve->ready_fd >= 0) {
		if (dprintf(serve->ready_fd, "%s\n", endpoint) < 0)
			return complain(EXIT_LOCAL, "--ready-fd: %s", strerror(errno));
		if (serve->ready_fd > STDERR_FILENO)
			close(serve->ready_fd);
	}
	return EXIT_OK;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Waits in steps, so that a second signal is noticed. */
static int close_engine(struct serve *serve, struct otte_close_report *report)
{
	uint64_t end = otte_now_ns() + serve->close_timeout_ns, now;
	int seen = stopping_count(), rc;

	do {
		now = otte_now_ns();
		rc = otte_engine_close(serve->engine, OTTE_CLOSE_SOURCE | OTTE_CLOSE_REQUESTER,
				       now < end ? (int64_t)min_u64(end - now, CLOSE_STEP_NS) : 0,
				       report);
	} while (rc == -ETIMEDOUT && now < end && stopping_count() == seen);
	return rc;
}

static int report_close(const struct serve *serve, const struct otte_close_report *report, int rc)
{
	char bytes[32];

	if (!rc) {
		if (!serve->quiet)
			fputs("otte serve: closed, nothing retained\n", stderr);
		return EXIT_OK;
	}
	if (rc != -ETIMEDOUT && rc != -EUCLEAN)
		return complain_library(rc, "close");
	return complain(EXIT_RETAINED,
			"%s: %" PRIu64 " requests, %" PRIu64 " loans unsettled, %" PRIu64
			" retained with %s",
			rc == -ETIMEDOUT ? "still draining" :
					   "closed, but not everything is proven done",
			report->requests, report->loans, report->retained,
			format_bytes(report->retained_bytes, bytes));
}

static void withdraw(struct serve *serve)
{
	size_t i;

	for (i = 0; i < serve->count; i++) {
		if (serve->shares[i].region)
			otte_region_unregister(&serve->shares[i].region, 1, CLOSE_STEP_NS, NULL);
		if (serve->shares[i].mem)
			otte_mem_release(serve->shares[i].mem);
		free(serve->shares[i].path);
	}
	otte_engine_destroy(serve->engine); /* refuses while something is kept: exit then */
}

static int run(struct serve *serve)
{
	struct otte_close_report report = { .size = sizeof(report) };
	size_t i;
	int rc;

	rc = otte_engine_create(&serve->config, &serve->engine);
	if (rc)
		return complain_engine(rc);
	for (i = 0, rc = 0; i < serve->count && !rc; i++)
		rc = publish(serve, &serve->shares[i]);
	if (!rc)
		rc = announce(serve);
	if (!rc)
		stopping_wait(0);
	whole_remove(&serve->port); /* nobody can connect any more */
	if (!rc)
		rc = report_close(serve, &report, close_engine(serve, &report));
	withdraw(serve);
	return rc;
}

int cmd_serve(int argc, char **argv)
{
	static struct serve serve = {
		.common = COMMON_DEFAULTS,
		.close_timeout_ns = DEFAULT_CLOSE_NS,
		.ready_fd = -1,
	};
	int option, rc;

	while ((option = getopt_long(argc, argv, "hq", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (!parse_option(&serve, option, optarg))
			return EXIT_USAGE;
	}
	if (optind < argc)
		return complain(EXIT_USAGE, "unexpected argument \"%s\"", argv[optind]);
	if (!serve.count)
		return complain(EXIT_USAGE, "nothing to publish: give --file or --anon");
	rc = check_names(&serve);
	if (!rc)
		rc = configure(&serve);
	if (rc)
		return rc;
	signal(SIGPIPE, SIG_IGN); /* whoever waits for the endpoint may be gone */
	if (stopping_begin())
		return complain(EXIT_LOCAL, "signals: %s", strerror(errno));
	say_who_may_come(&serve);
	return run(&serve);
}
