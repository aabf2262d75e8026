/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ottectl metrics: OpenMetrics text, for the textfile collector of node_exporter. Gauges only, so that
 * readers of the older Prometheus text format take it too. Without the module there is one value,
 * otte_up 0, and no error: that is what is to be told.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../common/output.h"
#include "../common/whole.h"
#include "describe.h"
#include "options.h"
#include "ottectl.h"
#include "rows.h"
#include "sysfs.h"
#include "tally.h"

static const char help[] =
	"Usage: ottectl metrics [OPTION]...\n"
	"Print what the module counts as OpenMetrics text, for node_exporter's textfile collector.\n"
	"Without the module otte_up is 0.\n" COMMON_HELP
	"      --accounts      usage and limits of each user and cgroup, too\n"
	"  -o, --output FILE   replace FILE (*.prom) as a whole; a pipe or device is written\n";

enum {
	OPT_ACCOUNTS = OPT_OWN,
};

static const struct option long_options[] = {
	JSON_LONG_OPTION,
	HELP_LONG_OPTION,
	{ "accounts", no_argument, NULL, OPT_ACCOUNTS },
	{ "output", required_argument, NULL, 'o' },
	LONG_OPTIONS_END,
};

/* ---- What there is to tell ------------------------------------------------------------------- */

struct metrics {
	bool up;
	json_t *status;
	json_t *accounts; /* or NULL */
	json_t *domains;
	uint64_t records;
	bool all_seen; /* of these; else nobody here knows which is the oldest */
	uint64_t oldest_ns;
};

static bool is_shared(const struct rows *rows, const struct message *message)
{
	(void)rows;
	return message->number[OTTE_A_LEVEL] == OTTE_LEVEL_USER ||
	       message->number[OTTE_A_LEVEL] == OTTE_LEVEL_CGROUP;
}

static int dump(struct link *link, uint8_t command, json_t **array,
		bool (*wanted)(const struct rows *, const struct message *))
{
	struct rows rows = { .wanted = wanted };
	int rc = rows_dump(&rows, link, command);

	*array = rc ? NULL : json_incref(rows.array);
	rows_free(&rows);
	return rc;
}

/* Of who may not see all records the dump has its own; the count is of all, and was taken before. */
static int dump_oldest(struct link *link, struct metrics *metrics)
{
	struct tally *tally = tally_create();
	int rc;

	if (!tally)
		return complain(EXIT_LOCAL, "%s", strerror(ENOMEM));
	rc = tally_dump(tally, link);
	metrics->oldest_ns = tally_oldest_ns(tally);
	metrics->all_seen = tally_records(tally) >= metrics->records;
	tally_free(tally);
	return rc;
}

static int gather(struct metrics *metrics, bool accounts)
{
	struct message status;
	struct link link;
	int rc;

	if (!sysfs_present())
		return EXIT_OK;
	rc = link_open(&link);
	if (rc)
		return rc;
	metrics->up = true;
	rc = link_status(&link, &status);
	if (!rc)
		metrics->status = describe(&status);
	if (!rc)
		rc = dump(&link, OTTE_NL_DOMAINS, &metrics->domains, NULL);
	if (!rc && accounts)
		rc = dump(&link, OTTE_NL_ACCOUNTS, &metrics->accounts, is_shared);
	if (!rc && sysfs_read_number("retained_records", &metrics->records))
		rc = complain_sysfs(-ENODEV, "retained_records");
	if (!rc)
		rc = dump_oldest(&link, metrics);
	link_close(&link);
	return rc;
}

static void forget(struct metrics *metrics)
{
	json_decref(metrics->status);
	json_decref(metrics->accounts);
	json_decref(metrics->domains);
}

/* ---- The text -------------------------------------------------------------------------------- */

static void family(FILE *to, const char *name, const char *unit, const char *what)
{
	fprintf(to, "# TYPE %s gauge\n", name);
	if (*unit)
		fprintf(to, "# UNIT %s %s\n", name, unit);
	fprintf(to, "# HELP %s %s\n", name, what);
}

static void single(FILE *to, const char *name, const char *unit, const char *what, double value)
{
	family(to, name, unit, what);
	fprintf(to, "%s %.15g\n", name, value);
}

/* "lent_bytes" is resource "lent" of a family that ends in _bytes. */
static void resource_label(FILE *to, unsigned resource)
{
	char name[32];

	snprintf(name, sizeof(name), "%s", resource_names[resource]);
	if (resource_is_bytes(resource))
		*strstr(name, "_bytes") = '\0';
	output_label(to, "resource", name);
}

static void account_labels(FILE *to, const json_t *account)
{
	if (!account)
		return;
	output_label(to, "level", json_string_value(json_object_get(account, "level")));
	fprintf(to, ",key=\"%lld\",",
		(long long)json_integer_value(json_object_get(account, "key")));
}

/* Of one account the resources that are bytes, or those that are not. */
static void amounts(FILE *to, const char *name, bool bytes, const json_t *account,
		    const json_t *values)
{
	const json_t *value;
	unsigned i;

	for (i = 0; i < OTTE_RES_COUNT; i++) {
		value = json_object_get(values, resource_names[i]);
		if (resource_is_bytes(i) != bytes || json_is_null(value))
			continue;
		fprintf(to, "%s{", name);
		account_labels(to, account);
		resource_label(to, i);
		fprintf(to, "} %lld\n", (long long)json_integer_value(value));
	}
}

static void module_amounts(FILE *to, const json_t *status)
{
	const json_t *usage = json_object_get(status, "usage");
	const json_t *limit = json_object_get(status, "limit");

	family(to, "otte_usage", "", "Records that everybody together is charged for.");
	amounts(to, "otte_usage", false, NULL, usage);
	family(to, "otte_usage_bytes", "bytes", "Bytes that everybody together is charged for.");
	amounts(to, "otte_usage_bytes", true, NULL, usage);
	family(to, "otte_limit", "", "Most records of everybody together, where limited.");
	amounts(to, "otte_limit", false, NULL, limit);
	family(to, "otte_limit_bytes", "bytes", "Most bytes of everybody together, where limited.");
	amounts(to, "otte_limit_bytes", true, NULL, limit);
}

static void each_account(FILE *to, const char *name, bool bytes, const json_t *accounts,
			 const char *key)
{
	const json_t *account;
	size_t i;

	json_array_foreach(accounts, i, account)
		amounts(to, name, bytes, account, json_object_get(account, key));
}

static void account_amounts(FILE *to, const json_t *accounts)
{
	family(to, "otte_account_usage", "", "Records that a user or cgroup is charged for.");
	each_account(to, "otte_account_usage", false, accounts, "usage");
	family(to, "otte_account_usage_bytes", "bytes",
	       "Bytes that a user or cgroup is charged for.");
	each_account(to, "otte_account_usage_bytes", true, accounts, "usage");
	family(to, "otte_account_limit", "", "Most records of a user or cgroup, where limited.");
	each_account(to, "otte_account_limit", false, accounts, "limit");
	family(to, "otte_account_limit_bytes", "bytes",
	       "Most bytes of a user or cgroup, where limited.");
	each_account(to, "otte_account_limit_bytes", true, accounts, "limit");
}

static void domain_members(FILE *to, const json_t *domains)
{
	const json_t *domain;
	size_t i;

	family(to, "otte_domain_members", "", "Members of an arbitration domain.");
	json_array_foreach(domains, i, domain)
	{
		fputs("otte_domain_members{", to);
		output_label(to, "domain", json_string_value(json_object_get(domain, "name")));
		fprintf(to, "} %lld\n",
			(long long)json_integer_value(json_object_get(domain, "members")));
	}
}

static void module_info(FILE *to, const json_t *status)
{
	family(to, "otte_module", "", "1, with the module's revision and the id of its load.");
	fprintf(to, "otte_module{revision=\"%lld\",",
		(long long)json_integer_value(json_object_get(status, "revision")));
	output_label(to, "load_id", json_string_value(json_object_get(status, "load_id")));
	fputs("} 1\n", to);
}

static void print_metrics(FILE *to, const struct metrics *metrics)
{
	single(to, "otte_up", "", "1 while the module is loaded.", metrics->up);
	if (metrics->up) {
		module_info(to, metrics->status);
		single(to, "otte_draining", "", "1 while admission is stopped.",
		       json_is_true(json_object_get(metrics->status, "draining")));
		module_amounts(to, metrics->status);
		single(to, "otte_retained_records", "", "Records that lack evidence.",
		       (double)metrics->records);
		if (metrics->all_seen)
			single(to, "otte_retained_oldest_seconds", "seconds",
			       "Age of the oldest record that lacks evidence, 0 without one.",
			       (double)metrics->oldest_ns / 1e9);
		domain_members(to, metrics->domains);
		if (metrics->accounts)
			account_amounts(to, metrics->accounts);
	}
	fputs("# EOF\n", to);
}

/* ---- Where it goes --------------------------------------------------------------------------- */

/* A collector may look at any time: it finds the old file or the new one. */
static int print_file(const char *path, const struct metrics *metrics)
{
	struct whole whole;
	int rc = whole_begin(&whole, path, 0644); /* beside it under no name that ends in .prom */

	if (!rc) {
		print_metrics(whole.file, metrics);
		rc = whole_end(&whole, 0);
	}
	return rc ? complain(EXIT_LOCAL, "%s: %s", path, strerror(-rc)) : EXIT_OK;
}

static void print_json(const struct metrics *metrics)
{
	json_t *object = json_pack("{s:b}", "up", metrics->up);

	if (metrics->up) {
		json_object_set(object, "status", metrics->status);
		json_object_set(object, "domains", metrics->domains);
		json_object_set_new(object, "retained_records",
				    json_integer((json_int_t)metrics->records));
		json_object_set_new(object, "retained_oldest_ns",
				    metrics->all_seen ?
					    json_integer((json_int_t)metrics->oldest_ns) :
					    json_null());
		if (metrics->accounts)
			json_object_set(object, "accounts", metrics->accounts);
	}
	output_json(object);
}

static int run(const char *output, bool json, bool accounts)
{
	struct metrics metrics = { 0 };
	int rc = gather(&metrics, accounts);

	if (!rc && json)
		print_json(&metrics);
	else if (!rc && output)
		rc = print_file(output, &metrics);
	else if (!rc)
		print_metrics(stdout, &metrics);
	forget(&metrics);
	return rc;
}

int cmd_metrics(int argc, char **argv)
{
	bool json = false, accounts = false;
	const char *output = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "ho:", long_options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(help, stdout);
			return EXIT_OK;
		case OPT_JSON:
			json = true;
			break;
		case OPT_ACCOUNTS:
			accounts = true;
			break;
		case 'o':
			output = optarg;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (output && !*output)
		return complain(EXIT_USAGE, "-o: the name of the file is empty");
	if (json && output)
		return complain(EXIT_USAGE, "--output is for the text, not for --json");
	return no_more_words(argc, argv) ? run(output, json, accounts) : EXIT_USAGE;
}
