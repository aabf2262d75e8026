/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * otte pull: a remote region into a file.
 *
 * Bytes gather in FILE.partial, which becomes FILE once all are there; so an existing FILE survives
 * a failure. They go through write(), not a mapping: a full disk is then an error and no SIGBUS.
 * FILE.partial is locked until it has its name: two pulls into one FILE would mix their bytes.
 * A FILE that is no regular file (a pipe, a device), "-" and /dev/stdout are written as they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"
#include "common.h"
#include "digest.h"
#include "endpoint.h"
#include "../common/output.h"
#include "../common/stopping.h"
#include "../common/whole.h"
#include "tool.h"
#include "transfer.h"

#define WHO "otte pull"

static const char help[] =
	"Usage: otte pull [OPTION]... ENDPOINT/NAME -o FILE\n"
	"Read a region of the peer at HOST:PORT into FILE; \"-\" is standard output.\n"
	"\n"
	"  -o, --output FILE   where to; bytes gather in FILE.partial until all are there\n"
	"  --keep              keep FILE.partial after a failure\n"
	"  --fsync             do not end before FILE is on its disk\n"
	"  --sha256            print the SHA-256 of what was read\n"
	"  --window SIZE       bytes of one window, of which four are under way (4M;\n"
	"                      4K to 1G)\n"
	"  -q, --quiet         print errors only\n" COMMON_HELP;

enum {
	OPT_KEEP = OPT_OWN,
	OPT_FSYNC,
	OPT_SHA256,
	OPT_WINDOW,
};

static const struct option long_options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "keep", no_argument, NULL, OPT_KEEP },
	{ "fsync", no_argument, NULL, OPT_FSYNC },
	{ "sha256", no_argument, NULL, OPT_SHA256 },
	{ "window", required_argument, NULL, OPT_WINDOW },
	{ "quiet", no_argument, NULL, 'q' },
	COMMON_LONG_OPTIONS,
};

struct pull {
	struct common common;
	const char *source, *output;
	bool keep, sync, sha256, quiet;
	uint64_t window_bytes;
	char *partial; /* NULL: the output is written directly */
	bool replaces; /* a FILE of before */
	mode_t mode;   /* of that */
	int fd;
	struct digest digest;
};

/* ---- The file -------------------------------------------------------------------------------- */

static const char *written_name(const struct pull *pull)
{
	return pull->partial ? pull->partial : pull->output;
}

/* By whichever name: then reports go to standard error. */
static bool is_standard_output(const char *path)
{
	return !strcmp(path, "-") || !strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/fd/1") ||
	       !strcmp(path, "/proc/self/fd/1");
}

/* Space first: to know at the start what would otherwise fail near the end. */
static int reserve(const struct pull *pull, uint64_t length)
{
	char bytes[32];
	int rc;

	if (!pull->partial)
		return EXIT_OK;
	do {
		rc = posix_fallocate(pull->fd, 0, (off_t)length);
	} while (rc == EINTR);
	if (rc && rc != EINVAL && rc != EOPNOTSUPP)
		return complain(EXIT_LOCAL, "%s: no room for %s: %s", pull->partial,
				format_bytes(length, bytes), strerror(rc));
	return EXIT_OK;
}

/* Whoever held the lock may have renamed or removed what was opened here. */
static bool still_named(int fd, const char *path)
{
	struct stat opened, named;

	return !fstat(fd, &opened) && !lstat(path, &named) && opened.st_dev == named.st_dev &&
	       opened.st_ino == named.st_ino;
}

/* Of a pull before, that is: what has other names, or another owner, is not for us to write to. */
static bool is_ours_alone(int fd)
{
	struct stat found;

	return !fstat(fd, &found) && S_ISREG(found.st_mode) && found.st_nlink == 1 &&
	       found.st_uid == geteuid();
}

/*
 * The file, of a pull before, or new with `mode` and umask. In a folder that others write to, anything may
 * have been put at its name: links are not followed, and nobody is waited for at the other end of a pipe.
 * -EEXIST: such a thing is there; -EAGAIN: look again.
 */
static int open_once(const char *path, mode_t mode)
{
	const int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	bool found = false;
	int fd, rc = 0;

	fd = open(path, flags | O_CREAT | O_EXCL, mode);
	if (fd < 0 && errno == EEXIST) {
		found = true;
		fd = open(path, flags);
	}
	if (fd < 0 && found)
		return errno == ENOENT ? -EAGAIN : errno == ELOOP || errno == ENXIO ? -EEXIST : -errno;
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		rc = -EBUSY;
	else if (!still_named(fd, path))
		rc = -EAGAIN;
	else if (found && !is_ours_alone(fd))
		rc = -EEXIST;
	else if (ftruncate(fd, 0))
		rc = -errno;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

/* -EBUSY: another pull writes it. A file system without locks goes without. */
static int open_partial(const char *path, mode_t mode)
{
	int fd;

	do {
		fd = open_once(path, mode);
	} while (fd == -EAGAIN);
	return fd;
}

/* Who gave FILE does not know of FILE.partial: where the folder is at fault, it is named. */
static int complain_unopened(const char *partial, int error)
{
	char copy[PATH_MAX], *folder;

	if (error == EBUSY)
		return complain(EXIT_LOCAL, "%s: another pull is writing it", partial);
	if (error == EEXIST)
		return complain(EXIT_LOCAL, "%s is in the way: not a file of yours alone", partial);
	snprintf(copy, sizeof(copy), "%s", partial);
	folder = dirname(copy);
	if (error == ENOENT || error == ENOTDIR || access(folder, W_OK | X_OK))
		return complain(EXIT_LOCAL, "-o: the folder %s: %s", folder, strerror(error));
	return complain(EXIT_LOCAL, "%s: %s", partial, strerror(error));
}

static int open_file(struct pull *pull)
{
	struct stat before;
	char *partial;
	int fd, rc;

	/* What FILE lets others do, its successor lets them do, too, and nothing else. */
	pull->replaces = !stat(pull->output, &before);
	pull->mode = pull->replaces ? before.st_mode & 0777 : 0666;
	if (asprintf(&partial, "%s.partial", pull->output) < 0)
		return complain(EXIT_LOCAL, "no memory");
	/* The next pull must be able to open what this one may leave. */
	fd = open_partial(partial, pull->mode | S_IWUSR);
	if (fd < 0) {
		rc = complain_unopened(partial, -fd);
		free(partial);
		return rc;
	}
	pull->partial = partial;
	pull->fd = fd;
	if (pull->replaces && fchmod(fd, pull->mode | S_IWUSR))
		return complain(EXIT_LOCAL, "%s: %s", partial, strerror(errno));
	return EXIT_OK;
}

static int open_output(struct pull *pull, uint64_t length)
{
	int rc;

	if (is_standard_output(pull->output)) {
		pull->fd = STDOUT_FILENO;
		return EXIT_OK;
	}
	if (whole_is_direct(pull->output)) {
		pull->fd = open(pull->output, O_WRONLY | O_CLOEXEC);
		if (pull->fd < 0)
			return complain(EXIT_LOCAL, "%s: %s", pull->output, strerror(errno));
		return EXIT_OK;
	}
	stopping_is_noted(); /* there is something to remove from here on */
	rc = open_file(pull);
	return rc ? rc : reserve(pull, length);
}

/*
 * Whoever reads a pipe may take its time, and write() looks at no flag; nothing of ours stays behind if
 * it is the last that happens.
 */
static ssize_t write_some(const struct pull *pull, const char *data, uint64_t length)
{
	ssize_t written;
	int saved;

	if (!pull->partial)
		stopping_ends_us(WHO, EXIT_TRANSFER);
	written = write(pull->fd, data, length);
	saved = errno;
	stopping_is_noted();
	errno = saved;
	return written;
}

static int write_out(void *arg, void *data, uint64_t length)
{
	struct pull *pull = arg;
	const char *at = data;
	ssize_t written;

	digest_add(&pull->digest, data, length);
	while (length) {
		written = write_some(pull, at, length);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return complain(EXIT_LOCAL, "%s: %s", written_name(pull), strerror(errno));
		at += written;
		length -= (uint64_t)written;
	}
	return EXIT_OK;
}

static int finish_output(struct pull *pull)
{
	int copy;

	if (pull->sync && fsync(pull->fd))
		return complain(EXIT_LOCAL, "%s: %s", written_name(pull), strerror(errno));
	if (!pull->partial)
		return EXIT_OK;
	/* What close() would report late is wanted before the rename, and the lock until after it. */
	if (pull->replaces && fchmod(pull->fd, pull->mode))
		return complain(EXIT_LOCAL, "%s: %s", pull->partial, strerror(errno));
	copy = dup(pull->fd);
	if (copy < 0 || close(copy))
		return complain(EXIT_LOCAL, "%s: %s", pull->partial, strerror(errno));
	if (rename(pull->partial, pull->output))
		return complain(EXIT_LOCAL, "%s: %s", pull->output, strerror(errno));
	close(pull->fd);
	pull->fd = -1;
	return EXIT_OK;
}

static void abandon_output(struct pull *pull)
{
	char name[OUTPUT_NAME_MAX];

	if (pull->partial && !pull->keep)
		unlink(pull->partial);
	else if (pull->partial)
		fprintf(stderr, "otte pull: %s is kept\n", output_name(name, pull->partial));
	if (pull->fd >= 0 && pull->fd != STDOUT_FILENO)
		close(pull->fd);
	pull->fd = -1;
}

/* ---- The transfer ---------------------------------------------------------------------------- */

static void report(struct pull *pull, const struct routes *routes, uint64_t length, uint64_t ns)
{
	FILE *to = pull->fd == STDOUT_FILENO ? stderr : stdout;
	double seconds = (double)ns / 1e9;
	char hash[DIGEST_TEXT], bytes[32], name[OUTPUT_NAME_MAX], by[ROUTES_TEXT];

	output_name(name, pull->output);
	digest_text(&pull->digest, hash);
	if (pull->common.json) {
		json_t *json = json_pack("{s:o, s:o, s:I, s:f, s:f, s:o}", "source",
					 output_string(pull->source), "output",
					 output_string(pull->output), "bytes", (json_int_t)length,
					 "seconds", seconds, "gbps", (double)length / (double)ns,
					 "routes", routes_json(routes));

		if (*hash)
			json_object_set_new(json, "sha256", json_string(hash));
		json_dumpf(json, to, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
		fputc('\n', to);
		json_decref(json);
		return;
	}
	if (!pull->quiet)
		fprintf(to, "%s: %s in %.3f s, %.2f GB/s by %s\n", name,
			format_bytes(length, bytes), seconds, (double)length / (double)ns,
			routes_text(routes, by));
	if (*hash)
		fprintf(to, "%s  %s\n", hash, name);
}

static int transfer(struct pull *pull, struct otte_engine *engine, const struct remote *remote)
{
	uint64_t length = remote->region.length, begin = otte_now_ns();
	struct routes routes = { 0 };
	struct transfer moving;
	struct progress bar;
	int rc;

	if (!(remote->region.access & OTTE_REMOTE_READ))
		return complain(EXIT_REFUSED, "%s may not be read", pull->source);
	digest_begin(&pull->digest, pull->sha256);
	rc = open_output(pull, length);
	stopping_is_noted();
	if (!rc) {
		rc = transfer_begin(&moving, engine, remote, min_u64(pull->window_bytes, length));
		progress_begin(&bar, remote->name, pull->quiet ? 0 : length);
		if (!rc)
			rc = transfer_run(&moving, OTTE_READ, length, write_out, pull, &bar);
		progress_end(&bar);
		routes = moving.routes;
		transfer_end(&moving);
	}
	if (!rc)
		rc = finish_output(pull);
	if (rc)
		abandon_output(pull);
	else
		report(pull, &routes, length, otte_now_ns() - begin);
	return rc;
}

static int run(struct pull *pull)
{
	struct otte_engine *engine;
	struct otte_config config;
	struct remote remote;
	int rc;

	rc = common_requester(&pull->common, &config, &engine);
	if (rc)
		return rc;
	rc = remote_open(engine, &config, pull->source, &remote);
	if (!rc)
		rc = transfer(pull, engine, &remote);
	remote_close(&remote);
	otte_engine_destroy(engine);
	free(pull->partial);
	return rc;
}

static bool parse_option(struct pull *pull, int option, const char *text)
{
	switch (option) {
	case 'o':
		pull->output = text;
		return true;
	case 'q':
		pull->quiet = true;
		return true;
	case OPT_KEEP:
		pull->keep = true;
		return true;
	case OPT_FSYNC:
		pull->sync = true;
		return true;
	case OPT_SHA256:
		pull->sha256 = true;
		return true;
	case OPT_WINDOW:
		return transfer_window(text, &pull->window_bytes);
	default:
		return common_option(&pull->common, option, text);
	}
}

int cmd_pull(int argc, char **argv)
{
	struct pull pull = {
		.common = COMMON_DEFAULTS,
		.window_bytes = TRANSFER_WINDOW_BYTES,
		.fd = -1,
	};
	int option, rc;

	while ((option = getopt_long(argc, argv, "ho:q", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (!parse_option(&pull, option, optarg))
			return EXIT_USAGE;
	}
	if (argc - optind != 1)
		return complain(EXIT_USAGE, "give one ENDPOINT/NAME");
	if (!pull.output)
		return complain(EXIT_USAGE, "say where to with -o FILE");
	if (!*pull.output)
		return complain(EXIT_USAGE, "-o: the name of the file is empty");
	pull.source = argv[optind];
	rc = common_ends_at_once(WHO);
	return rc ? rc : run(&pull);
}
