/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ottectl limits: what each account of a level may use. The module forgets them when it is unloaded, so
 * `set` keeps them in a file too, and `apply`, which udev runs whenever the device appears, sets them
 * again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../common/output.h"
#include "describe.h"
#include "limits_file.h"
#include "options.h"
#include "ottectl.h"
#include "sysfs.h"

static const char help[] =
	"Usage: ottectl limits [get] [OPTION]...\n"
	"       ottectl limits set [OPTION]... LEVEL.RESOURCE=AMOUNT...\n"
	"       ottectl limits apply [OPTION]...\n"
	"Print the limits of each level, set some now and from the next load on, or set those that\n"
	"the file keeps. LEVEL is module, cgroup, user or client; RESOURCE is clients, regions,\n"
	"registered_bytes, pinned_bytes, lent_bytes, loans, retained_bytes or holds; AMOUNT is 4096,\n"
	"64K, 1M, 1G or max. A limit below what is in use takes nothing away.\n" COMMON_HELP
	"      --file FILE     instead of " LIMITS_FILE "\n"
	"      --volatile      set: do not write the file\n"
	"      --file-only     set: write the file alone; the module need not be loaded\n";

enum {
	OPT_FILE = OPT_OWN,
	OPT_VOLATILE,
	OPT_FILE_ONLY,
};

static const struct option long_options[] = {
	JSON_LONG_OPTION,
	HELP_LONG_OPTION,
	{ "file", required_argument, NULL, OPT_FILE },
	{ "volatile", no_argument, NULL, OPT_VOLATILE },
	{ "file-only", no_argument, NULL, OPT_FILE_ONLY },
	LONG_OPTIONS_END,
};

/* A file that the command line names has to be there; the usual one need not. */
struct limits_options {
	const char *file;
	bool named, json, only_now, only_file;
};

#define NAME_MAX_BYTES 48

static const char *file_of(char name[NAME_MAX_BYTES], unsigned level, unsigned resource)
{
	snprintf(name, NAME_MAX_BYTES, "limit_%s/%s", level_names[level], resource_names[resource]);
	return name;
}

/* ---- The module's ---------------------------------------------------------------------------- */

static int read_all(struct limits *limits)
{
	char name[NAME_MAX_BYTES];
	unsigned i, j;
	int rc = sysfs_check();

	for (i = 0; !rc && i < OTTE_LEVEL_COUNT; i++)
		for (j = 0; !rc && j < OTTE_RES_COUNT; j++) {
			limits->set[i][j] = true;
			rc = sysfs_read_number(file_of(name, i, j), &limits->value[i][j]);
			if (rc)
				rc = complain_sysfs(rc, name);
		}
	return rc;
}

static int write_one(unsigned level, unsigned resource, uint64_t value)
{
	char name[NAME_MAX_BYTES], text[24] = "max";
	int rc;

	if (value != UINT64_MAX)
		snprintf(text, sizeof(text), "%" PRIu64, value);
	rc = sysfs_write(file_of(name, level, resource), text);
	return rc ? complain_sysfs(rc, name) : EXIT_OK;
}

/* All of them or none: what was changed before a failure is put back. */
static int write_all(const struct limits *limits, unsigned *count)
{
	struct limits before;
	unsigned i, done, level, resource;
	int rc = read_all(&before);

	*count = 0;
	for (i = 0; !rc && i < OTTE_LEVEL_COUNT * OTTE_RES_COUNT; i++) {
		level = i / OTTE_RES_COUNT, resource = i % OTTE_RES_COUNT;
		if (!limits->set[level][resource])
			continue;
		rc = write_one(level, resource, limits->value[level][resource]);
		*count += !rc;
	}
	if (!rc || !*count)
		return rc;
	for (done = 0; done + 1 < i; done++) {
		level = done / OTTE_RES_COUNT, resource = done % OTTE_RES_COUNT;
		if (limits->set[level][resource])
			write_one(level, resource, before.value[level][resource]);
	}
	return rc;
}

/* ---- Commands -------------------------------------------------------------------------------- */

static const char *format_limit(char text[32], unsigned resource, uint64_t value)
{
	if (value == UINT64_MAX)
		snprintf(text, 32, "max");
	else if (resource_is_bytes(resource))
		format_bytes(value, text);
	else
		snprintf(text, 32, "%" PRIu64, value);
	return text;
}

static void print_table(const struct limits *limits)
{
	char text[32];
	unsigned i, j;

	printf("%-18s", "resource");
	for (i = 0; i < OTTE_LEVEL_COUNT; i++)
		printf(" %12s", level_names[i]);
	putchar('\n');
	for (j = 0; j < OTTE_RES_COUNT; j++) {
		printf("%-18s", resource_names[j]);
		for (i = 0; i < OTTE_LEVEL_COUNT; i++)
			printf(" %12s", format_limit(text, j, limits->value[i][j]));
		putchar('\n');
	}
}

/* What the next load of the module has. */
static void print_kept(const struct limits *kept, const char *file)
{
	char name[OUTPUT_NAME_MAX], text[32];
	unsigned i, j;

	output_name(name, file);
	for (i = 0; i < OTTE_LEVEL_COUNT; i++)
		for (j = 0; j < OTTE_RES_COUNT; j++)
			if (kept->set[i][j])
				printf("%s keeps %s.%s %s\n", name, level_names[i],
				       resource_names[j], format_limit(text, j, kept->value[i][j]));
}

static int get(const struct limits_options *options)
{
	struct limits limits, kept;
	int rc = limits_load(options->file, options->named, &kept);

	if (!rc)
		rc = read_all(&limits);
	if (rc)
		return rc;
	if (!options->json) {
		print_table(&limits);
		print_kept(&kept, options->file);
		return EXIT_OK;
	}
	output_json(json_pack("{s:o, s:o, s:o}", "limits", limits_json(&limits), "file",
			      output_string(options->file), "kept", limits_json(&kept)));
	return EXIT_OK;
}

/* "user.pinned_bytes=64G" */
static int take_setting(struct limits *limits, const char *text)
{
	const char *dot = strchr(text, '.'), *equals = strchr(text, '=');
	unsigned level, resource;
	uint64_t amount;

	if (!dot || !equals || dot > equals)
		return complain(EXIT_USAGE, "\"%s\" is not LEVEL.RESOURCE=AMOUNT", text);
	for (level = 0; level < OTTE_LEVEL_COUNT; level++)
		if (strlen(level_names[level]) == (size_t)(dot - text) &&
		    !strncmp(level_names[level], text, (size_t)(dot - text)))
			break;
	if (level == OTTE_LEVEL_COUNT)
		return complain(EXIT_USAGE,
				"\"%s\": the level is none of module, cgroup, user, "
				"client",
				text);
	for (resource = 0; resource < OTTE_RES_COUNT; resource++)
		if (strlen(resource_names[resource]) == (size_t)(equals - dot - 1) &&
		    !strncmp(resource_names[resource], dot + 1, (size_t)(equals - dot - 1)))
			break;
	if (resource == OTTE_RES_COUNT)
		return complain(EXIT_USAGE, "\"%s\": there is no such resource; see --help", text);
	if (!option_amount(text, equals + 1, &amount))
		return EXIT_USAGE;
	limits->set[level][resource] = true;
	limits->value[level][resource] = amount;
	return EXIT_OK;
}

static int keep(const struct limits_options *options, const struct limits *limits)
{
	int rc = limits_save(options->file, limits);

	if (rc && !options->only_file)
		warn_user("the limits are set, but only until the module is unloaded");
	return rc;
}

static int set(const struct limits_options *options, char **settings, int count)
{
	struct limits limits = { 0 };
	unsigned written = 0;
	int i, rc = EXIT_OK;

	if (!count)
		return complain(EXIT_USAGE, "set: give LEVEL.RESOURCE=AMOUNT");
	if (options->only_now && options->only_file)
		return complain(EXIT_USAGE, "--volatile and --file-only leave nothing to do");
	for (i = 0; !rc && i < count; i++)
		rc = take_setting(&limits, settings[i]);
	if (!rc && !options->only_file)
		rc = write_all(&limits, &written);
	if (!rc && !options->only_now)
		rc = keep(options, &limits);
	if (!rc && options->json)
		output_json(json_pack("{s:o, s:b, s:b}", "set", limits_json(&limits), "now",
				      !options->only_file, "kept", !options->only_now));
	return rc;
}

static int apply(const struct limits_options *options)
{
	struct limits limits;
	unsigned count = 0;
	int rc = limits_load(options->file, options->named, &limits);

	if (!rc)
		rc = write_all(&limits, &count);
	if (!rc && options->json)
		output_json(json_pack("{s:i, s:o}", "applied", (int)count, "file",
				      output_string(options->file)));
	else if (!rc)
		printf("applied: %u\n", count);
	return rc;
}

int cmd_limits(int argc, char **argv)
{
	struct limits_options options = { .file = LIMITS_FILE };
	const char *what;
	int option;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(help, stdout);
			return EXIT_OK;
		case OPT_JSON:
			options.json = true;
			break;
		case OPT_FILE:
			options.file = optarg;
			options.named = true;
			break;
		case OPT_VOLATILE:
			options.only_now = true;
			break;
		case OPT_FILE_ONLY:
			options.only_file = true;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	what = optind < argc ? argv[optind++] : "get";
	if (!strcmp(what, "set"))
		return set(&options, argv + optind, argc - optind);
	if (strcmp(what, "get") != 0 && strcmp(what, "apply") != 0)
		return complain(EXIT_USAGE, "\"%s\" is none of get, set, apply", what);
	if (options.only_now || options.only_file)
		return complain(EXIT_USAGE, "%s: %s is for set", what,
				options.only_now ? "--volatile" : "--file-only");
	if (!no_more_words(argc, argv))
		return EXIT_USAGE;
	return *what == 'g' ? get(&options) : apply(&options);
}
