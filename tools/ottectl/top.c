/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ottectl top: the ledger on one screen, looked at again and again. A frame is made as JSON, and printed
 * as such or drawn; on a terminal each is drawn over the last one, and 'q' ends.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "../common/output.h"
#include "../common/stopping.h"
#include "base/clock.h"
#include "describe.h"
#include "options.h"
#include "ottectl.h"
#include "rows.h"
#include "tally.h"

#define INTERVAL_NS NSEC_PER_SEC
#define INTERVAL_MIN_NS (50 * NSEC_PER_MSEC)
#define BAR_CELLS 20
#define CLIENTS_SHOWN 20 /* where there is no terminal to be filled */
#define HEAD_LINES 16 /* of a frame, above the clients */

static const char help[] =
	"Usage: ottectl top [OPTION]...\n"
	"Follow the module: usage against limits, domains with the slot that runs now, and clients,\n"
	"who lent most first. Others than administrators see their own clients. 'q' ends.\n" COMMON_HELP
	"      --interval S    look every so many seconds (1)\n"
	"      --count N       end after so many looks\n";

enum {
	OPT_INTERVAL = OPT_OWN,
	OPT_COUNT,
};

static const struct option long_options[] = {
	JSON_LONG_OPTION,
	HELP_LONG_OPTION,
	{ "interval", required_argument, NULL, OPT_INTERVAL },
	{ "count", required_argument, NULL, OPT_COUNT },
	LONG_OPTIONS_END,
};

static const struct column client_columns[] = {
	{ "id", "client", COLUMN_COUNT, 0, 7 },
	{ "pid", "pid", COLUMN_COUNT, 0, 7 },
	{ "uid", "uid", COLUMN_COUNT, 0, 6 },
	{ "registered_bytes", "registered", COLUMN_BYTES, 0, 10 },
	{ "lent_bytes", "lent", COLUMN_BYTES, 0, 10 },
	{ "borrowed_bytes", "borrowed", COLUMN_BYTES, 0, 10 },
	{ "retained_bytes", "retained", COLUMN_BYTES, 0, 10 },
	{ "gone", "gone", COLUMN_TEXT, 0, 4 },
	{ "comm", "command", COLUMN_TEXT, 0, 0 },
};

/* ---- Looking --------------------------------------------------------------------------------- */

static int look(struct link *link, json_t **frame)
{
	struct rows domains = { 0 };
	struct tally *tally = tally_create();
	struct message status;
	int rc;

	*frame = NULL;
	if (!tally)
		return complain(EXIT_LOCAL, "%s", strerror(ENOMEM));
	rc = link_status(link, &status);
	if (!rc)
		rc = tally_dump(tally, link);
	if (!rc)
		rc = rows_dump(&domains, link, OTTE_NL_DOMAINS);
	if (!rc)
		*frame = json_pack("{s:o, s:o, s:O}", "status", describe(&status), "clients",
				   tally_json(tally), "domains", domains.array);
	rows_free(&domains);
	tally_free(tally);
	return rc;
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static json_int_t integer(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* "[######..............]  30 %" */
static void draw_bar(json_int_t usage, const json_t *limit, bool colours)
{
	double share = 0;
	int i, full;

	if (json_is_null(limit)) {
		printf("%*s", BAR_CELLS + 9, "");
		return;
	}
	if (usage)
		share = json_integer_value(limit) ?
				(double)usage / (double)json_integer_value(limit) :
				1;
	full = share >= 1 ? BAR_CELLS : (int)(share * BAR_CELLS);
	printf("[%s", colours ? share >= 0.9 ? "\033[31m" :
				share >= 0.7 ? "\033[33m" :
					       "\033[32m" :
				"");
	for (i = 0; i < BAR_CELLS; i++)
		putchar(i < full ? '#' : '.');
	printf("%s] %3.0f %% ", colours ? "\033[0m" : "", share * 100);
}

static void draw_amounts(const json_t *status, bool colours)
{
	const json_t *usages = json_object_get(status, "usage");
	const json_t *limits = json_object_get(status, "limit"), *limit;
	char used[32], most[32];
	json_int_t usage;
	unsigned i;

	for (i = 0; i < OTTE_RES_COUNT; i++) {
		usage = integer(usages, resource_names[i]);
		limit = json_object_get(limits, resource_names[i]);
		snprintf(most, sizeof(most), "no limit");
		if (resource_is_bytes(i)) {
			format_bytes((uint64_t)usage, used);
			if (!json_is_null(limit))
				format_bytes((uint64_t)json_integer_value(limit), most);
		} else {
			snprintf(used, sizeof(used), "%lld", (long long)usage);
			if (!json_is_null(limit))
				snprintf(most, sizeof(most), "%lld",
					 (long long)json_integer_value(limit));
		}
		printf("%-17s ", resource_names[i]);
		draw_bar(usage, limit, colours);
		printf("%s of %s\n", used, most);
	}
}

static void draw_domain(const json_t *domain)
{
	const json_t *slot = json_object_get(domain, "slot");
	const json_t *slots = json_object_get(json_object_get(domain, "epoch"), "slots");
	char name[OUTPUT_NAME_MAX];

	printf("domain %s: %lld members, ",
	       output_name(name, json_string_value(json_object_get(domain, "name"))),
	       (long long)integer(domain, "members"));
	if (json_is_null(slot))
		printf("no slot yet");
	else
		printf("slot %lld of %zu (%s), %.1f ms left", (long long)integer(slot, "index") + 1,
		       json_array_size(slots), json_string_value(json_object_get(slot, "lowest")),
		       (double)integer(slot, "left_ns") / (double)NSEC_PER_MSEC);
	puts(json_is_true(json_object_get(domain, "summing")) ? ", busy" : "");
}

static size_t clients_that_fit(size_t domains)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row)
		return CLIENTS_SHOWN;
	return size.ws_row > HEAD_LINES + domains ? size.ws_row - HEAD_LINES - domains : 1;
}

static void draw(const json_t *frame, bool terminal)
{
	const json_t *status = json_object_get(frame, "status");
	const json_t *domains = json_object_get(frame, "domains"), *domain;
	json_t *clients = json_object_get(frame, "clients"), *shown = json_array();
	size_t i, fit = clients_that_fit(json_array_size(domains));

	if (terminal)
		fputs("\033[H\033[2J", stdout);
	printf("otte: generation %lld, admission %s\n\n", (long long)integer(status, "generation"),
	       json_is_true(json_object_get(status, "draining")) ? "stopped" : "open");
	draw_amounts(status, terminal && output_has_colours(stdout));
	putchar('\n');
	json_array_foreach(domains, i, domain) draw_domain(domain);
	putchar('\n');
	for (i = 0; i < json_array_size(clients) && i < fit; i++)
		json_array_append(shown, json_array_get(clients, i));
	output_table(stdout, client_columns, ARRAY_SIZE(client_columns), shown);
	if (json_array_size(clients) > fit)
		printf("and %zu more\n", json_array_size(clients) - fit);
	json_decref(shown);
	fflush(stdout);
}

static void print_json(const json_t *frame)
{
	json_dumpf(frame, stdout, JSON_COMPACT);
	putchar('\n');
	fflush(stdout);
}

/* ---- The terminal ---------------------------------------------------------------------------- */

/* There is one, which a message ends wherever it comes from. */
static struct screen {
	bool drawn_over; /* standard output is a terminal */
	bool keys; /* standard input is one, and gives single keys */
	struct termios before;
} screen;

static void screen_end(void)
{
	if (screen.drawn_over) {
		fputs("\033[?25h\033[?1049l", stdout);
		fflush(stdout);
	}
	if (screen.keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
	screen.drawn_over = screen.keys = false;
}

static void screen_begin(bool json)
{
	struct termios single;

	screen.drawn_over = !json && isatty(STDOUT_FILENO);
	screen.keys = screen.drawn_over && !tcgetattr(STDIN_FILENO, &screen.before);
	if (screen.keys) {
		single = screen.before;
		single.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
		/* These keys would leave the screen as it is. */
		single.c_cc[VSUSP] = single.c_cc[VQUIT] = _POSIX_VDISABLE;
		screen.keys = !tcsetattr(STDIN_FILENO, TCSANOW, &single);
	}
	/* The other screen, without a cursor: what was there before comes back. */
	if (screen.drawn_over)
		fputs("\033[?1049h\033[?25l", stdout);
	before_message = screen_end;
}

/* Whether somebody wants to leave before the next look. */
static bool pause_or_leave(uint64_t ns)
{
	struct pollfd wakers[] = {
		{ .fd = screen.keys ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = stopping_descriptor(), .events = POLLIN },
	};
	char key;

	if (poll(wakers, ARRAY_SIZE(wakers), (int)(ns / NSEC_PER_MSEC)) <= 0 || !wakers[0].revents)
		return stopping_count();
	return read(STDIN_FILENO, &key, 1) != 1 || key == 'q';
}

static int follow(struct link *link, bool json, uint64_t interval_ns, uint64_t count)
{
	json_t *frame;
	int rc;

	for (;;) {
		rc = look(link, &frame);
		if (rc)
			return rc;
		if (json)
			print_json(frame);
		else
			draw(frame, screen.drawn_over);
		json_decref(frame);
		if (!--count || ferror(stdout) || pause_or_leave(interval_ns))
			return EXIT_OK;
	}
}

static int run(bool json, uint64_t interval_ns, uint64_t count)
{
	struct link link;
	int rc = stopping_begin();

	if (rc)
		return complain(EXIT_LOCAL, "%s", strerror(-rc));
	rc = link_open(&link);
	if (rc)
		return rc;
	screen_begin(json);
	rc = follow(&link, json, interval_ns, count);
	screen_end();
	link_close(&link);
	return rc;
}

int cmd_top(int argc, char **argv)
{
	uint64_t interval_ns = INTERVAL_NS, count = UINT64_MAX;
	bool json = false;
	int option;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(help, stdout);
			return EXIT_OK;
		case OPT_JSON:
			json = true;
			break;
		case OPT_INTERVAL:
			if (!option_seconds("--interval", optarg, &interval_ns))
				return EXIT_USAGE;
			interval_ns = max_u64(interval_ns, INTERVAL_MIN_NS);
			break;
		case OPT_COUNT:
			if (!option_number("--count", optarg, 1, UINT64_MAX, &count))
				return EXIT_USAGE;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	return no_more_words(argc, argv) ?
		       run(json, min_u64(interval_ns, 86400 * NSEC_PER_SEC), count) :
		       EXIT_USAGE;
}
