/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ottectl drain: stops admission, waits for what is there to end, and says whether the module can be
 * unloaded. It can when nothing is charged and nobody has the device open; the kernel counts both as
 * references of the module.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "../common/output.h"
#include "../common/stopping.h"
#include "base/clock.h"
#include "describe.h"
#include "options.h"
#include "ottectl.h"
#include "rows.h"
#include "sysfs.h"

#define TIMEOUT_NS (30 * NSEC_PER_SEC)
#define LOOK_MS 100

static const char help[] =
	"Usage: ottectl drain [OPTION]...\n"
	"       ottectl drain --undo\n"
	"Stop admission of clients, regions and loans, wait for those that exist to end, and say\n"
	"whether the module can be unloaded: exit status 0 if so, 7 if not, with what keeps it.\n"
	"Admission stays stopped in both cases.\n" COMMON_HELP
	"      --timeout S     wait at most so many seconds (30); 0 stops admission and\n"
	"                      does not wait\n"
	"      --undo          let everybody in again\n";

enum {
	OPT_TIMEOUT = OPT_OWN,
	OPT_UNDO,
};

static const struct option long_options[] = {
	JSON_LONG_OPTION,
	HELP_LONG_OPTION,
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "undo", no_argument, NULL, OPT_UNDO },
	LONG_OPTIONS_END,
};

/* What keeps the module. */
struct left {
	uint64_t usage[OTTE_RES_COUNT];
	uint64_t references;
	bool removable; /* not built into the kernel */
};

static bool is_safe(const struct left *left)
{
	unsigned i;

	for (i = 0; i < OTTE_RES_COUNT; i++)
		if (left->usage[i])
			return false;
	return left->removable && !left->references;
}

static int look(struct left *left)
{
	char name[32];
	unsigned i;
	int rc;

	for (i = 0; i < OTTE_RES_COUNT; i++) {
		snprintf(name, sizeof(name), "usage/%s", resource_names[i]);
		rc = sysfs_read_number(name, &left->usage[i]);
		if (rc)
			return complain_sysfs(rc, name);
	}
	left->removable = !sysfs_module_references(&left->references);
	return EXIT_OK;
}

/* Until it is safe, the time is over, or somebody is tired of waiting. */
static int wait_for_end(uint64_t timeout_ns, struct left *left)
{
	uint64_t deadline = otte_now_ns() + timeout_ns;
	int rc;

	for (;;) {
		rc = look(left);
		if (rc || is_safe(left) || stopping_count() || otte_now_ns() >= deadline)
			return rc;
		poll(NULL, 0, LOOK_MS);
	}
}

/* ---- What keeps it --------------------------------------------------------------------------- */

/* Objects are told where the family can be reached; the sums are there in any case, and the verdict. */
static void find_keepers(json_t *report)
{
	static const struct {
		uint8_t command;
		const char *name;
	} kinds[] = { { OTTE_NL_CLIENTS, "clients" }, { OTTE_NL_RETAINED, "retained" } };
	struct link link;
	size_t i;
	int rc = link_open(&link);

	if (rc)
		return;
	for (i = 0; !rc && i < ARRAY_SIZE(kinds); i++) {
		struct rows rows = { .most = 1024 };

		rc = rows_dump(&rows, &link, kinds[i].command);
		json_object_set(report, kinds[i].name, rows.array);
		json_object_set_new(report, i ? "retained_left_out" : "clients_left_out",
				    json_integer((json_int_t)rows.left_out));
		rows_free(&rows);
	}
	link_close(&link);
}

static void print_client(const json_t *row)
{
	char comm[OUTPUT_NAME_MAX];

	printf("  client %lld: process %lld, %s, user %lld\n",
	       (long long)json_integer_value(json_object_get(row, "id")),
	       (long long)json_integer_value(json_object_get(row, "pid")),
	       output_name(comm, json_string_value(json_object_get(row, "comm"))),
	       (long long)json_integer_value(json_object_get(row, "uid")));
}

static void print_record(const json_t *row)
{
	char bytes[32];

	printf("  retained %lld: %s of %s, of client %lld, for %lld s\n",
	       (long long)json_integer_value(json_object_get(row, "id")),
	       json_string_value(json_object_get(row, "kind")),
	       format_bytes((uint64_t)json_integer_value(json_object_get(row, "bytes")), bytes),
	       (long long)json_integer_value(json_object_get(row, "owner")),
	       (long long)json_integer_value(json_object_get(row, "age_ns")) / 1000000000);
}

static void print_left(const struct left *left, const json_t *report)
{
	const json_t *row;
	char bytes[32];
	unsigned i;
	size_t j;

	puts("not safe to unload; admission stays stopped (ottectl drain --undo)");
	for (i = 0; i < OTTE_RES_COUNT; i++) {
		if (!left->usage[i])
			continue;
		if (resource_is_bytes(i))
			printf("  %s: %s\n", resource_names[i],
			       format_bytes(left->usage[i], bytes));
		else
			printf("  %s: %" PRIu64 "\n", resource_names[i], left->usage[i]);
	}
	json_array_foreach(json_object_get(report, "clients"), j, row) print_client(row);
	json_array_foreach(json_object_get(report, "retained"), j, row) print_record(row);
	if (!left->removable)
		puts("  the module is built into the kernel, or the kernel cannot unload modules");
	else if (left->references)
		printf("  references: %" PRIu64 " (who has the device open: fuser -v /dev/otte)\n",
		       left->references);
}

static json_t *report_json(const struct left *left)
{
	return json_pack("{s:b, s:b, s:o, s:o}", "draining", true, "safe", is_safe(left), "usage",
			 describe_amounts(left->usage, false), "references",
			 left->removable ? json_integer((json_int_t)left->references) :
					   json_null());
}

static int tell(const struct left *left, bool json)
{
	json_t *report = report_json(left);
	bool safe = is_safe(left);

	if (!safe)
		find_keepers(report);
	if (json)
		output_json(json_incref(report));
	else if (safe)
		puts("safe to unload: rmmod otte");
	else
		print_left(left, report);
	json_decref(report);
	return safe ? EXIT_OK : EXIT_UNSAFE;
}

static int set_draining(bool draining)
{
	int rc = sysfs_check();

	if (rc)
		return rc;
	rc = sysfs_write("draining", draining ? "1" : "0");
	return rc ? complain_sysfs(rc, "draining") : EXIT_OK;
}

static int undo(bool json)
{
	int rc = set_draining(false);

	if (!rc && json)
		output_json(json_pack("{s:b}", "draining", false));
	else if (!rc)
		puts("admission is open again");
	return rc;
}

static int drain(uint64_t timeout_ns, bool json)
{
	struct left left;
	int rc = stopping_begin();

	if (rc)
		return complain(EXIT_LOCAL, "%s", strerror(-rc));
	rc = set_draining(true);
	if (!rc)
		rc = wait_for_end(timeout_ns, &left);
	return rc ? rc : tell(&left, json);
}

int cmd_drain(int argc, char **argv)
{
	uint64_t timeout_ns = TIMEOUT_NS;
	bool json = false, back = false;
	int option;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(help, stdout);
			return EXIT_OK;
		case OPT_JSON:
			json = true;
			break;
		case OPT_TIMEOUT:
			if (!option_seconds("--timeout", optarg, &timeout_ns))
				return EXIT_USAGE;
			break;
		case OPT_UNDO:
			back = true;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (!no_more_words(argc, argv))
		return EXIT_USAGE;
	return back ? undo(json) : drain(timeout_ns, json);
}
