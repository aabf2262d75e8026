/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ottectl monitor: notices as they come, for administrators. They may be lost, which is told; the dump
 * is the truth.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../common/output.h"
#include "../common/stopping.h"
#include "describe.h"
#include "link.h"
#include "options.h"
#include "ottectl.h"
#include "sysfs.h"

#define LOOK_MS 1000 /* whether the module is still the same */

static const char help[] =
	"Usage: ottectl monitor [OPTION]...\n"
	"Print notices as they come: clients that come and go, what is retained and released,\n"
	"refusals for want of budget, fences. Administrators (CAP_SYS_ADMIN) only. Ends with SIGINT.\n" COMMON_HELP
	"      --count N       end after so many\n";

enum {
	OPT_COUNT = OPT_OWN,
};

static const struct option long_options[] = {
	JSON_LONG_OPTION,
	HELP_LONG_OPTION,
	{ "count", required_argument, NULL, OPT_COUNT },
	LONG_OPTIONS_END,
};

struct monitor {
	bool json;
	uint64_t left; /* notices still to print */
	char load_id[64];
};

static double wall_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void print_time(void)
{
	time_t now = time(NULL);
	struct tm parts;
	char text[16];

	localtime_r(&now, &parts);
	strftime(text, sizeof(text), "%H:%M:%S", &parts);
	printf("%s ", text);
}

static void print_json(json_t *object)
{
	json_object_set_new(object, "time", json_real(wall_time()));
	json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(16));
	putchar('\n');
	fflush(stdout);
}

static void print_text(const json_t *object)
{
	const json_t *limit = json_object_get(object, "limit");
	const char *notice = json_string_value(json_object_get(object, "notice"));

	print_time();
	printf("%s %lld", notice, (long long)json_integer_value(json_object_get(object, "id")));
	if (!strcmp(notice, "quota")) {
		printf(": %s of %s %lld: %lld in use, %lld more asked for, limit ",
		       json_string_value(json_object_get(object, "resource")),
		       json_string_value(json_object_get(object, "level")),
		       (long long)json_integer_value(json_object_get(object, "key")),
		       (long long)json_integer_value(json_object_get(object, "usage")),
		       (long long)json_integer_value(json_object_get(object, "requested")));
		if (json_is_null(limit))
			printf("none");
		else
			printf("%lld", (long long)json_integer_value(limit));
	}
	putchar('\n');
	fflush(stdout);
}

static int take(void *arg, const struct message *message)
{
	struct monitor *monitor = arg;
	json_t *object;

	if (message->command != OTTE_NL_NOTICE || !monitor->left)
		return 0;
	object = describe(message);
	if (!object)
		return -ENOMEM;
	if (monitor->json)
		print_json(object);
	else
		print_text(object);
	json_decref(object);
	monitor->left--;
	return 0;
}

static void tell_loss(const struct monitor *monitor)
{
	json_t *object = json_pack("{s:s}", "notice", "lost");

	if (monitor->json) {
		print_json(object);
	} else {
		print_time();
		puts("lost: notices came faster than they were read; dump again");
		fflush(stdout);
	}
	json_decref(object);
}

/* A new load has another family: this socket would stay silent for good. */
static int check_load(const struct monitor *monitor)
{
	char load_id[sizeof(monitor->load_id)];

	if (!sysfs_read("load_id", load_id, sizeof(load_id)) && !strcmp(load_id, monitor->load_id))
		return EXIT_OK;
	return complain(EXIT_ABSENT, "the module was unloaded");
}

static int watch(struct monitor *monitor, struct link *link)
{
	struct pollfd ready = { .fd = link_descriptor(link), .events = POLLIN };
	bool lost;
	int rc;

	while (monitor->left && !stopping_count()) {
		rc = poll(&ready, 1, LOOK_MS);
		if (rc < 0 && errno != EINTR)
			return complain(EXIT_LOCAL, "%s", strerror(errno));
		if (!rc) {
			rc = check_load(monitor);
			if (rc)
				return rc;
		}
		if (rc <= 0)
			continue;
		rc = link_notices(link, take, monitor, &lost);
		if (rc)
			return rc;
		if (lost)
			tell_loss(monitor);
		if (ferror(stdout))
			return EXIT_OK; /* main() says so */
	}
	return EXIT_OK;
}

static int run(struct monitor *monitor)
{
	struct link link;
	int rc = stopping_begin();

	if (rc)
		return complain(EXIT_LOCAL, "%s", strerror(-rc));
	rc = sysfs_check();
	if (!rc && sysfs_read("load_id", monitor->load_id, sizeof(monitor->load_id)))
		rc = complain_absent();
	if (!rc)
		rc = link_listen(&link);
	if (rc)
		return rc;
	rc = watch(monitor, &link);
	link_close(&link);
	return rc;
}

int cmd_monitor(int argc, char **argv)
{
	struct monitor monitor = { .left = UINT64_MAX };
	int option;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(help, stdout);
			return EXIT_OK;
		case OPT_JSON:
			monitor.json = true;
			break;
		case OPT_COUNT:
			if (!option_number("--count", optarg, 1, UINT64_MAX, &monitor.left))
				return EXIT_USAGE;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	return no_more_words(argc, argv) ? run(&monitor) : EXIT_USAGE;
}
