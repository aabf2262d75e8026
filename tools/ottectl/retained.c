/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ottectl retained: what lacks evidence, and an administrator's word that ends it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../common/output.h"
#include "base/clock.h"
#include "options.h"
#include "ottectl.h"
#include "rows.h"
#include "sysfs.h"

#define RELEASE_SECONDS 10 /* for what is queued to be done */
#define LOOK_NS (20 * NSEC_PER_MSEC)

static const char help[] =
	"Usage: ottectl retained [OPTION]...\n"
	"       ottectl retained --release ID\n"
	"List memory and native objects whose use could not be proven over.\n"
	"Administrators (CAP_SYS_ADMIN) see all, others what is charged to them.\n" COMMON_HELP
	"      --client ID     only what is charged to this client\n"
	"      --rows N        at most so many (65536)\n"
	"      --release ID    end this record without evidence. You state that nobody uses the\n"
	"                      memory any more: hardware that still does will read or write memory\n"
	"                      of somebody else\n";

enum {
	OPT_ROWS = OPT_OWN,
};

static const struct option long_options[] = {
	JSON_LONG_OPTION,
	HELP_LONG_OPTION,
	{ "client", required_argument, NULL, OPT_CLIENT },
	{ "rows", required_argument, NULL, OPT_ROWS },
	{ "release", required_argument, NULL, OPT_RELEASE },
	LONG_OPTIONS_END,
};

static const struct column columns[] = {
	{ "id", "id", COLUMN_COUNT, 0, 0 },
	{ "kind", "kind", COLUMN_TEXT, 0, 0 },
	{ "bytes", "bytes", COLUMN_BYTES, 0, 0 },
	{ "owner", "owner", COLUMN_COUNT, 0, 0 },
	{ "pid", "pid", COLUMN_COUNT, 0, 0 },
	{ "uid", "uid", COLUMN_COUNT, 0, 0 },
	{ "comm", "command", COLUMN_TEXT, 0, 0 },
	{ "age_s", "age s", COLUMN_REAL, 1, 0 },
	{ "reason_text", "reason", COLUMN_TEXT, 0, 0 },
};

static bool is_charged(const struct rows *rows, const struct message *message)
{
	return message->number[OTTE_A_OWNER] == rows->id;
}

static bool is_record(const struct rows *rows, const struct message *message)
{
	return message->number[OTTE_A_ID] == rows->id;
}

static void print_table(json_t *array)
{
	json_t *row;
	size_t i;

	json_array_foreach(array, i, row) json_object_set_new(
		row, "age_s",
		json_real((double)json_integer_value(json_object_get(row, "age_ns")) / 1e9));
	output_table(stdout, columns, ARRAY_SIZE(columns), array);
}

static int list(struct link *link, struct rows *rows, bool json)
{
	int rc = rows_dump(rows, link, OTTE_NL_RETAINED);

	if (!rc && json) {
		output_json(rows_json(rows, "retained"));
	} else if (!rc) {
		print_table(rows->array);
		rows_warn(rows);
	}
	rows_free(rows);
	return rc;
}

/* ---- --release ------------------------------------------------------------------------------- */

static int complain_release(int code, uint64_t id)
{
	if (code == -ENODEV)
		return complain(EXIT_UNKNOWN, "there is no retained record %" PRIu64, id);
	if (code == -EBUSY)
		return complain(EXIT_REFUSED,
				"%" PRIu64
				" is a hold of a living process, which alone can drop it",
				id);
	return complain_sysfs(code, "retained_release");
}

/* The record as long as it is listed: `*found` is the caller's, NULL where there is none. */
static int find(struct link *link, uint64_t id, json_t **found)
{
	struct rows rows = { .wanted = is_record, .id = id };
	int rc = rows_dump(&rows, link, OTTE_NL_RETAINED);

	*found = rc ? NULL : json_incref(json_array_get(rows.array, 0));
	rows_free(&rows);
	return rc;
}

/* Releasing is queued; a copy in flight is drained first. */
static int wait_until_gone(struct link *link, uint64_t id)
{
	struct timespec pause = { .tv_nsec = LOOK_NS };
	uint64_t deadline = otte_now_ns() + RELEASE_SECONDS * NSEC_PER_SEC;
	json_t *found;
	int rc;

	for (;;) {
		rc = find(link, id, &found);
		if (rc || !found)
			return rc;
		json_decref(found);
		if (otte_now_ns() >= deadline)
			return complain(EXIT_REFUSED,
					"%" PRIu64 " is being released: copies in flight are not "
					"drained after %d s",
					id, RELEASE_SECONDS);
		nanosleep(&pause, NULL);
	}
}

static int release(struct link *link, uint64_t id, bool json)
{
	char text[24];
	json_t *found;
	int rc = find(link, id, &found);

	if (rc)
		return rc;
	snprintf(text, sizeof(text), "%" PRIu64, id);
	rc = sysfs_write("retained_release", text);
	rc = rc ? complain_release(rc, id) : wait_until_gone(link, id);
	if (!rc && json)
		output_json(json_pack("{s:I, s:o*}", "released", (json_int_t)id, "record",
				      json_incref(found)));
	else if (!rc)
		printf("released: %" PRIu64 "\n", id);
	json_decref(found);
	return rc;
}

int cmd_retained(int argc, char **argv)
{
	struct rows rows = { .most = ROWS_MAX };
	uint64_t release_id = 0;
	bool json = false;
	struct link link;
	int option, rc;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(help, stdout);
			return EXIT_OK;
		case OPT_JSON:
			json = true;
			break;
		case OPT_CLIENT:
			if (!option_number("--client", optarg, 1, UINT64_MAX, &rows.id))
				return EXIT_USAGE;
			rows.wanted = is_charged;
			break;
		case OPT_ROWS:
			if (!option_number("--rows", optarg, 1, INT32_MAX, &rows.most))
				return EXIT_USAGE;
			break;
		case OPT_RELEASE:
			if (!option_number("--release", optarg, 1, UINT64_MAX, &release_id))
				return EXIT_USAGE;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (!no_more_words(argc, argv))
		return EXIT_USAGE;
	rc = link_open(&link);
	if (rc)
		return rc;
	rc = release_id ? release(&link, release_id, json) : list(&link, &rows, json);
	link_close(&link);
	return rc;
}
