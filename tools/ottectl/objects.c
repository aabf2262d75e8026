/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ottectl clients, regions and loans: dumps of what the ledger holds, as far as the asker may see it. */
#include <stdio.h>

#include "../common/output.h"
#include "options.h"
#include "ottectl.h"
#include "rows.h"

enum {
	OPT_ROWS = OPT_OWN,
};

static const struct option long_options[] = {
	JSON_LONG_OPTION,
	HELP_LONG_OPTION,
	{ "client", required_argument, NULL, OPT_CLIENT },
	{ "rows", required_argument, NULL, OPT_ROWS },
	LONG_OPTIONS_END,
};

#define OBJECTS_HELP                                                                   \
	"Administrators (CAP_SYS_ADMIN) see all, others what is theirs.\n" COMMON_HELP \
	"      --client ID     only what belongs to this client\n"                     \
	"      --rows N        at most so many (65536)\n"

static const struct column client_columns[] = {
	{ "id", "id", COLUMN_COUNT, 0, 0 },	   { "pid", "pid", COLUMN_COUNT, 0, 0 },
	{ "uid", "uid", COLUMN_COUNT, 0, 0 },	   { "domain", "domain", COLUMN_COUNT, 0, 0 },
	{ "fenced", "fenced", COLUMN_TEXT, 0, 0 }, { "cgroup", "cgroup", COLUMN_COUNT, 0, 0 },
	{ "comm", "command", COLUMN_TEXT, 0, 0 },
};

static const struct column region_columns[] = {
	{ "id", "id", COLUMN_COUNT, 0, 0 },	      { "owner", "owner", COLUMN_COUNT, 0, 0 },
	{ "bytes", "bytes", COLUMN_BYTES, 0, 0 },     { "backing", "backing", COLUMN_TEXT, 0, 0 },
	{ "access", "access", COLUMN_TEXT, 0, 0 },    { "loans", "loans", COLUMN_COUNT, 0, 0 },
	{ "exposed", "exposed", COLUMN_COUNT, 0, 0 }, { "state", "state", COLUMN_TEXT, 0, 0 },
	{ "word", "word", COLUMN_TEXT, 0, 0 },	      { "tag", "tag", COLUMN_TEXT, 0, 0 },
};

static const struct column loan_columns[] = {
	{ "id", "id", COLUMN_COUNT, 0, 0 },
	{ "lender", "lender", COLUMN_COUNT, 0, 0 },
	{ "borrower", "borrower", COLUMN_COUNT, 0, 0 },
	{ "region", "region", COLUMN_COUNT, 0, 0 },
	{ "offset", "offset", COLUMN_COUNT, 0, 0 },
	{ "bytes", "bytes", COLUMN_BYTES, 0, 0 },
	{ "direction", "direction", COLUMN_TEXT, 0, 0 },
	{ "state", "state", COLUMN_TEXT, 0, 0 },
	{ "flags", "flags", COLUMN_TEXT, 0, 0 },
	{ "evidence", "evidence", COLUMN_TEXT, 0, 0 },
	{ "peer", "peer", COLUMN_TEXT, 0, 0 },
};

/* One kind of object, and its command. */
struct objects {
	uint8_t command;
	const char *name;
	const char *help;
	const struct column *columns;
	size_t column_count;
	bool (*of_client)(const struct rows *rows, const struct message *message);
};

static bool is_client(const struct rows *rows, const struct message *message)
{
	return message->number[OTTE_A_ID] == rows->id;
}

static bool is_owned(const struct rows *rows, const struct message *message)
{
	return message->number[OTTE_A_OWNER] == rows->id;
}

static bool is_party(const struct rows *rows, const struct message *message)
{
	return is_owned(rows, message) || message->number[OTTE_A_BORROWER] == rows->id;
}

static const struct objects clients = {
	OTTE_NL_CLIENTS,
	"clients",
	"Usage: ottectl clients [OPTION]...\n"
	"List the processes that have joined the ledger.\n" OBJECTS_HELP,
	client_columns,
	ARRAY_SIZE(client_columns),
	is_client,
};

static const struct objects regions = {
	OTTE_NL_REGIONS,
	"regions",
	"Usage: ottectl regions [OPTION]...\n"
	"List registered memory.\n" OBJECTS_HELP,
	region_columns,
	ARRAY_SIZE(region_columns),
	is_owned,
};

static const struct objects loans = {
	OTTE_NL_LOANS,
	"loans",
	"Usage: ottectl loans [OPTION]...\n"
	"List loans that are offered or exposed, or ended and not yet read about.\n" OBJECTS_HELP,
	loan_columns,
	ARRAY_SIZE(loan_columns),
	is_party,
};

static int show(const struct objects *objects, struct rows *rows, bool json)
{
	struct link link;
	int rc = link_open(&link);

	if (rc)
		return rc;
	rc = rows_dump(rows, &link, objects->command);
	link_close(&link);
	if (!rc && json) {
		output_json(rows_json(rows, objects->name));
	} else if (!rc) {
		output_table(stdout, objects->columns, objects->column_count, rows->array);
		rows_warn(rows);
	}
	rows_free(rows);
	return rc;
}

static int run(const struct objects *objects, int argc, char **argv)
{
	struct rows rows = { .most = ROWS_MAX };
	bool json = false;
	int option;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(objects->help, stdout);
			return EXIT_OK;
		case OPT_JSON:
			json = true;
			break;
		case OPT_CLIENT:
			if (!option_number("--client", optarg, 1, UINT64_MAX, &rows.id))
				return EXIT_USAGE;
			rows.wanted = objects->of_client;
			break;
		case OPT_ROWS:
			if (!option_number("--rows", optarg, 1, INT32_MAX, &rows.most))
				return EXIT_USAGE;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	return no_more_words(argc, argv) ? show(objects, &rows, json) : EXIT_USAGE;
}

int cmd_clients(int argc, char **argv)
{
	return run(&clients, argc, argv);
}

int cmd_regions(int argc, char **argv)
{
	return run(&regions, argc, argv);
}

int cmd_loans(int argc, char **argv)
{
	return run(&loans, argc, argv);
}
