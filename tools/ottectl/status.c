/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ottectl status: the module as a whole. */
#include <stdio.h>

#include "../common/output.h"
#include "describe.h"
#include "link.h"
#include "options.h"
#include "ottectl.h"
#include "sysfs.h"

static const char help[] =
	"Usage: ottectl status [OPTION]...\n"
	"Print revision, load id, whether admission is stopped, and for each resource what\n"
	"everybody together uses and may use.\n" COMMON_HELP;

static const struct option long_options[] = { JSON_LONG_OPTION, HELP_LONG_OPTION,
					      LONG_OPTIONS_END };

/* A table for people: bytes get units, records do not. */
static void print_amounts(const json_t *usage, const json_t *limit)
{
	const json_t *most;
	char text[2][32];
	json_int_t used;
	unsigned i;

	printf("%-18s %14s %14s\n", "resource", "usage", "limit");
	for (i = 0; i < OTTE_RES_COUNT; i++) {
		used = json_integer_value(json_object_get(usage, resource_names[i]));
		most = json_object_get(limit, resource_names[i]);
		if (resource_is_bytes(i))
			format_bytes((uint64_t)used, text[0]);
		else
			snprintf(text[0], sizeof(text[0]), "%lld", (long long)used);
		if (json_is_null(most))
			snprintf(text[1], sizeof(text[1]), "none");
		else if (resource_is_bytes(i))
			format_bytes((uint64_t)json_integer_value(most), text[1]);
		else
			snprintf(text[1], sizeof(text[1]), "%lld",
				 (long long)json_integer_value(most));
		printf("%-18s %14s %14s\n", resource_names[i], text[0], text[1]);
	}
}

static void print_status(const json_t *status)
{
	printf("revision %lld, load %s, generation %lld\n",
	       (long long)json_integer_value(json_object_get(status, "revision")),
	       json_string_value(json_object_get(status, "load_id")),
	       (long long)json_integer_value(json_object_get(status, "generation")));
	printf("admission: %s\n",
	       json_is_true(json_object_get(status, "draining")) ? "stopped (draining)" : "open");
	printf("retained records: %lld\n\n",
	       (long long)json_integer_value(json_object_get(status, "retained_records")));
	print_amounts(json_object_get(status, "usage"), json_object_get(status, "limit"));
}

static int show(bool json)
{
	struct message message;
	struct link link;
	uint64_t retained;
	json_t *status;
	int rc = link_open(&link);

	if (rc)
		return rc;
	rc = link_status(&link, &message);
	link_close(&link);
	if (rc)
		return rc;
	rc = sysfs_read_number("retained_records", &retained);
	if (rc)
		return complain_sysfs(rc, "retained_records");
	status = describe(&message);
	json_object_set_new(status, "retained_records", json_integer((json_int_t)retained));
	if (json) {
		output_json(status);
		return EXIT_OK;
	}
	print_status(status);
	json_decref(status);
	return EXIT_OK;
}

int cmd_status(int argc, char **argv)
{
	bool json = false;
	int option;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (option != OPT_JSON)
			return EXIT_USAGE;
		json = true;
	}
	return no_more_words(argc, argv) ? show(json) : EXIT_USAGE;
}
