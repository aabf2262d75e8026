/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ottectl domains: who shares a link in which slots. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../common/output.h"
#include "base/clock.h"
#include "describe.h"
#include "options.h"
#include "ottectl.h"
#include "rows.h"
#include "sysfs.h"

#define DEVICE "/dev/otte"
#define MODE_DEFAULT 0111

static const char help[] =
	"Usage: ottectl domains [list] [OPTION]...\n"
	"       ottectl domains create NAME [OPTION]...\n"
	"       ottectl domains set NAME [OPTION]...\n"
	"       ottectl domains delete NAME\n"
	"List the arbitration domains with the slot that runs now; make one, change one, delete one\n"
	"that has no members. A change comes into force for all members at once, at a boundary of\n"
	"slots. Domains are gone when the module is unloaded.\n" COMMON_HELP
	"      --interval MS   length of a slot in milliseconds, 0.1 to 1000 (2)\n"
	"      --pattern LIST  for each slot the lowest priority that may send, such as\n"
	"                      high,medium,low; low must be among them\n"
	"      --mode MODE     execute bits, octal: who of owner, group and others may join (0111)\n"
	"      --uid UID       owner (0)\n"
	"      --gid GID       group (0)\n"
	"`set` leaves what is not given as it is.\n";

enum {
	OPT_INTERVAL = OPT_OWN,
	OPT_PATTERN,
	OPT_MODE,
	OPT_UID,
	OPT_GID,
};

static const struct option long_options[] = {
	JSON_LONG_OPTION,
	HELP_LONG_OPTION,
	{ "interval", required_argument, NULL, OPT_INTERVAL },
	{ "pattern", required_argument, NULL, OPT_PATTERN },
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "uid", required_argument, NULL, OPT_UID },
	{ "gid", required_argument, NULL, OPT_GID },
	LONG_OPTIONS_END,
};

static const struct column columns[] = {
	{ "id", "id", COLUMN_COUNT, 0, 0 },
	{ "name", "name", COLUMN_TEXT, 0, 0 },
	{ "members", "members", COLUMN_COUNT, 0, 0 },
	{ "mode", "mode", COLUMN_TEXT, 0, 0 },
	{ "uid", "uid", COLUMN_COUNT, 0, 0 },
	{ "gid", "gid", COLUMN_COUNT, 0, 0 },
	{ "interval_ms", "slot ms", COLUMN_REAL, 1, 0 },
	{ "pattern", "pattern", COLUMN_TEXT, 0, 0 },
	{ "now", "now", COLUMN_TEXT, 0, 0 },
	{ "changes", "changes", COLUMN_TEXT, 0, 0 },
	{ "nic_names", "nics", COLUMN_TEXT, 0, 0 },
};

/* What the command line gave; the rest of `set` is as it was. */
struct settings {
	struct otte_domain_set set;
	bool interval, pattern, mode, uid, gid;
};

/* ---- List ------------------------------------------------------------------------------------ */

/* "a,b" of an array of strings. */
static json_t *joined(const json_t *array)
{
	char text[OTTE_NICS_MAX * (OTTE_NAME_LEN + 1)] = "";
	const json_t *value;
	size_t i, used = 0;

	json_array_foreach(array, i, value) if (used < sizeof(text)) used += (size_t)snprintf(
		text + used, sizeof(text) - used, "%s%s", i ? "," : "", json_string_value(value));
	return json_string(text);
}

static void print_table(json_t *array)
{
	const json_t *epoch, *slot;
	json_t *row;
	size_t i;

	json_array_foreach(array, i, row)
	{
		epoch = json_object_get(row, "epoch");
		slot = json_object_get(row, "slot");
		json_object_set_new(row, "interval_ms",
				    json_real((double)json_integer_value(
						      json_object_get(epoch, "interval_ns")) /
					      (double)NSEC_PER_MSEC));
		json_object_set_new(row, "pattern", joined(json_object_get(epoch, "slots")));
		json_object_set(row, "now", json_object_get(slot, "lowest"));
		if (!json_is_null(json_object_get(row, "pending")))
			json_object_set_new(row, "changes", json_string("pending"));
		json_object_set_new(row, "nic_names", joined(json_object_get(row, "nics")));
	}
	output_table(stdout, columns, ARRAY_SIZE(columns), array);
}

static int list(bool json)
{
	struct rows rows = { 0 };
	struct link link;
	int rc = link_open(&link);

	if (rc)
		return rc;
	rc = rows_dump(&rows, &link, OTTE_NL_DOMAINS);
	link_close(&link);
	if (!rc && json) {
		output_json(rows_json(&rows, "domains"));
	} else if (!rc) {
		print_table(rows.array);
		rows_warn(&rows);
	}
	rows_free(&rows);
	return rc;
}

/* ---- The device ------------------------------------------------------------------------------ */

static int complain_device(int error)
{
	if (error == ENOENT || error == ENXIO || error == ENODEV)
		return sysfs_present() ?
			       complain(EXIT_ABSENT,
					"the module is loaded, but there is no " DEVICE " here") :
			       complain_absent();
	if (error == EACCES || error == EPERM)
		return complain(EXIT_DENIED,
				DEVICE ": %s: this needs membership in group otte, and "
				       "CAP_SYS_ADMIN",
				strerror(error));
	if (error == ESHUTDOWN)
		return complain(EXIT_REFUSED,
				"admission is stopped; ottectl drain --undo takes that back");
	return complain(EXIT_LOCAL, DEVICE ": %s", strerror(error));
}

/* Only clients may ask for it. The descriptor, or the negative of an exit code after a complaint. */
static int open_client(void)
{
	struct otte_client_init init = { .size = sizeof(init) };
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC), error;

	if (fd < 0)
		return -complain_device(errno);
	if (!ioctl(fd, OTTE_IOC_CLIENT_INIT, &init))
		return fd;
	error = errno;
	close(fd);
	return -complain_device(error);
}

static int complain_domain(const char *name, int error)
{
	switch (error) {
	case EPERM:
		return complain(EXIT_DENIED, "%s: %s", name,
				strcmp(name, "default") != 0 ?
					"this needs CAP_SYS_ADMIN in the initial user namespace" :
					"not permitted (nobody may delete \"default\")");
	case ENOENT:
		return complain(EXIT_UNKNOWN, "there is no domain \"%s\"", name);
	case EEXIST:
		return complain(EXIT_REFUSED, "there is a domain \"%s\" already", name);
	case EBUSY:
		return complain(EXIT_REFUSED,
				"\"%s\" has members, or its last change is not in force yet", name);
	case ENOSPC:
		return complain(EXIT_REFUSED, "there are as many domains as there may be");
	case EINVAL:
		return complain(EXIT_REFUSED,
				"\"%s\": name (letters, digits, \"-_.:@\"), interval, pattern or "
				"mode is out of range",
				name);
	default:
		return complain(EXIT_REFUSED, "\"%s\": %s", name, strerror(error));
	}
}

static int call(const char *name, unsigned long request, void *arg)
{
	int fd = open_client(), rc = EXIT_OK;

	if (fd < 0)
		return -fd;
	if (ioctl(fd, request, arg))
		rc = complain_domain(name, errno);
	close(fd);
	return rc;
}

/* ---- Create, set, delete --------------------------------------------------------------------- */

static bool take_interval(struct settings *settings, const char *text)
{
	char *end;
	double ms = strtod(text, &end);

	settings->interval = true;
	if (*text && strspn(text, "0123456789.") == strlen(text) && !*end && ms <= 1e6) {
		settings->set.interval_ns = (uint64_t)llround(ms * (double)NSEC_PER_MSEC);
		return true;
	}
	complain(EXIT_USAGE, "--interval: \"%s\" is not a number of milliseconds", text);
	return false;
}

static bool take_slot(struct settings *settings, const char *name)
{
	unsigned priority;

	for (priority = 0; priority < OTTE_PRIORITIES; priority++)
		if (!strcmp(name, priority_name(priority)))
			break;
	if (priority == OTTE_PRIORITIES || settings->set.slots == OTTE_SLOTS_MAX)
		return false;
	settings->set.lowest[settings->set.slots++] = (uint8_t)priority;
	return true;
}

static bool take_pattern(struct settings *settings, const char *text)
{
	char *copy = strdup(text), *at = copy, *name;
	bool good = copy != NULL;

	settings->pattern = true;
	settings->set.slots = 0;
	memset(settings->set.lowest, 0, sizeof(settings->set.lowest));
	while (good && (name = strsep(&at, ",")))
		good = take_slot(settings, name);
	free(copy);
	if (!good)
		complain(EXIT_USAGE,
			 "--pattern: \"%s\" is not a list of high, medium and low, at "
			 "most %d",
			 text, OTTE_SLOTS_MAX);
	return good;
}

static bool take_mode(struct settings *settings, const char *text)
{
	settings->mode = true;
	if (*text && strspn(text, "01234567") == strlen(text) && strlen(text) <= 4) {
		settings->set.mode = (uint32_t)strtoul(text, NULL, 8);
		return true;
	}
	complain(EXIT_USAGE, "--mode: \"%s\" is not an octal number", text);
	return false;
}

static bool take_id(const char *option, const char *text, bool *given, uint32_t *id)
{
	uint64_t number;

	*given = true;
	if (!option_number(option, text, 0, UINT32_MAX - 1, &number))
		return false;
	*id = (uint32_t)number;
	return true;
}

static bool take_option(struct settings *settings, int option, const char *text)
{
	switch (option) {
	case OPT_INTERVAL:
		return take_interval(settings, text);
	case OPT_PATTERN:
		return take_pattern(settings, text);
	case OPT_MODE:
		return take_mode(settings, text);
	case OPT_UID:
		return take_id("--uid", text, &settings->uid, &settings->set.uid);
	case OPT_GID:
		return take_id("--gid", text, &settings->gid, &settings->set.gid);
	default:
		return false;
	}
}

struct search {
	const char *name;
	struct message found;
};

static int search_take(void *arg, const struct message *message)
{
	struct search *search = arg;

	if (!strcmp(message->name, search->name))
		search->found = *message;
	return 0;
}

static void search_restart(void *arg)
{
	struct search *search = arg;

	memset(&search->found, 0, sizeof(search->found));
}

static int find(struct search *search)
{
	struct link_taker taker = { search_take, search_restart, search };
	struct link_dump dump;
	struct link link;
	int rc = link_open(&link);

	if (rc)
		return rc;
	rc = link_dump(&link, OTTE_NL_DOMAINS, &taker, &dump);
	link_close(&link);
	if (!rc && !search->found.command)
		rc = complain_domain(search->name, ENOENT);
	return rc;
}

/* The module takes all of a domain's settings at once: what is not given stays as it is. */
static int fill_from_now(struct settings *settings, const char *name)
{
	struct search search = { .name = name };
	const struct otte_slot_epoch *epoch;
	int rc = find(&search);

	if (rc)
		return rc;
	epoch = &search.found.epoch[search.found.epochs - 1];
	if (!settings->interval)
		settings->set.interval_ns = epoch->interval_ns;
	if (!settings->pattern) {
		settings->set.slots = epoch->slots;
		memcpy(settings->set.lowest, epoch->lowest, sizeof(epoch->lowest));
	}
	if (!settings->mode)
		settings->set.mode = (uint32_t)search.found.number[OTTE_A_MODE];
	if (!settings->uid)
		settings->set.uid = (uint32_t)search.found.number[OTTE_A_UID];
	if (!settings->gid)
		settings->set.gid = (uint32_t)search.found.number[OTTE_A_GID];
	return EXIT_OK;
}

static void fill_defaults(struct settings *settings)
{
	static const uint8_t lowest[] = { OTTE_PRIORITY_HIGH, OTTE_PRIORITY_MEDIUM,
					  OTTE_PRIORITY_LOW };

	settings->set.flags = OTTE_DOMAIN_CREATE;
	if (!settings->interval)
		settings->set.interval_ns = OTTE_SLOT_NS_DEFAULT;
	if (!settings->pattern) {
		settings->set.slots = ARRAY_SIZE(lowest);
		memcpy(settings->set.lowest, lowest, sizeof(lowest));
	}
	if (!settings->mode)
		settings->set.mode = MODE_DEFAULT;
}

static int change(struct settings *settings, const char *name, bool create, bool json)
{
	int rc = EXIT_OK;

	if (create)
		fill_defaults(settings);
	else
		rc = fill_from_now(settings, name);
	if (rc)
		return rc;
	settings->set.size = sizeof(settings->set);
	memcpy(settings->set.name, name, strlen(name));
	rc = call(name, OTTE_IOC_DOMAIN_SET, &settings->set);
	if (!rc && json)
		output_json(json_pack("{s:s, s:I, s:I}", "name", name, "id",
				      (json_int_t)settings->set.domain, "effective_ns",
				      (json_int_t)settings->set.effective_ns));
	return rc;
}

static int delete (const char *name, bool json)
{
	struct otte_domain_del del = { .size = sizeof(del) };
	int rc;

	memcpy(del.name, name, strlen(name));
	rc = call(name, OTTE_IOC_DOMAIN_DEL, &del);
	if (!rc && json)
		output_json(json_pack("{s:s}", "deleted", name));
	return rc;
}

/* The first option of the command line that says how a domain shall be, or NULL. */
static const char *given(const struct settings *settings)
{
	if (settings->interval)
		return "--interval";
	if (settings->pattern)
		return "--pattern";
	if (settings->mode)
		return "--mode";
	if (settings->uid)
		return "--uid";
	return settings->gid ? "--gid" : NULL;
}

static bool check_name(const char *what, int words, char **word)
{
	if (words < 2)
		complain(EXIT_USAGE, "%s: give the NAME of the domain", what);
	else if (words > 2)
		complain(EXIT_USAGE, "%s: \"%s\": one NAME, and no more", what, word[2]);
	else if (strlen(word[1]) >= OTTE_NAME_LEN)
		complain(EXIT_USAGE, "\"%s\" is longer than %d bytes", word[1], OTTE_NAME_LEN - 1);
	else
		return true;
	return false;
}

static int run(int words, char **word, struct settings *settings, bool json)
{
	const char *what = words ? word[0] : "list";
	bool shows = !strcmp(what, "list"), makes = !strcmp(what, "create");

	if (!shows && !makes && strcmp(what, "set") != 0 && strcmp(what, "delete") != 0)
		return complain(EXIT_USAGE, "\"%s\" is none of list, create, set, delete", what);
	if (given(settings) && !makes && strcmp(what, "set") != 0)
		return complain(EXIT_USAGE, "%s: %s is for create and set", what, given(settings));
	if (shows && words > 1)
		return complain(EXIT_USAGE, "list: \"%s\": there is nothing for it here", word[1]);
	if (shows)
		return list(json);
	if (!check_name(what, words, word))
		return EXIT_USAGE;
	if (!strcmp(what, "delete"))
		return delete (word[1], json);
	return change(settings, word[1], makes, json);
}

int cmd_domains(int argc, char **argv)
{
	struct settings settings = { 0 };
	bool json = false;
	int option;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (option == OPT_JSON)
			json = true;
		else if (!take_option(&settings, option, optarg))
			return EXIT_USAGE;
	}
	return run(argc - optind, argv + optind, &settings, json);
}
