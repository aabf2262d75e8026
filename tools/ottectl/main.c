/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The program `ottectl`: finds the command and hands over. */
#include "ottectl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/otte.h>

#include "base/line.h"

#define MESSAGE_MAX 4096

const char *tool_command = "";
void (*before_message)(void);

static const struct {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "status", "revision, usage and limits of the module", cmd_status },
	{ "clients", "processes that have joined the ledger", cmd_clients },
	{ "regions", "memory that they registered", cmd_regions },
	{ "loans", "who uses whose memory", cmd_loans },
	{ "retained", "what lacks evidence; --release ends one", cmd_retained },
	{ "limits", "what each level may use; set, kept in a file, applied again", cmd_limits },
	{ "domains", "who shares a link in which slots; create, set, delete", cmd_domains },
	{ "drain", "stop admission and say whether the module can be unloaded", cmd_drain },
	{ "monitor", "notices as they come", cmd_monitor },
	{ "top", "a view that follows usage, clients and slots", cmd_top },
	{ "metrics", "OpenMetrics text for node_exporter", cmd_metrics },
};

/* What a message quotes may come from anywhere: it is one line, and no terminal obeys it. */
static void print_message(const char *kind, const char *colour, const char *format, va_list args)
{
	int terminal = isatty(STDERR_FILENO);
	char text[MESSAGE_MAX], line[MESSAGE_MAX];

	vsnprintf(text, sizeof(text), format, args);
	otte_line_escape(line, sizeof(line), text);
	if (before_message)
		before_message();
	fflush(stdout);
	fprintf(stderr, "ottectl%s%s: ", *tool_command ? " " : "", tool_command);
	if (*kind)
		fprintf(stderr, "%s%s%s: ", terminal ? colour : "", kind,
			terminal ? "\033[0m" : "");
	fprintf(stderr, "%s\n", line);
}

int complain(enum exit_code code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_message("", "", format, args);
	va_end(args);
	return code;
}

void warn_user(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_message("warning", "\033[33m", format, args);
	va_end(args);
}

static void print_help(void)
{
	size_t i;

	puts("Usage: ottectl COMMAND [OPTION]...\n"
	     "Look at the ledger of otte.ko, and administer it.\n\n"
	     "Commands:");
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-9s %s\n", commands[i].name, commands[i].summary);
	puts("\nOptions:\n"
	     "  -h, --help     this text; after a command, that command's\n"
	     "  -V, --version  version of the program, and revision of the module that it needs\n\n"
	     "Exit status:\n"
	     "  0  done                              5  a local file, memory or output failed\n"
	     "  1  wrong usage                       6  no such record or domain\n"
	     "  2  the module is not loaded          7  drain: unloading is not safe yet\n"
	     "  3  not permitted                     8  the module refused\n"
	     "  4  the module has another revision   9  the module's answer cannot be read");
}

/* getopt_long() says argv[0] in its complaints. */
static int run_command(size_t index, int argc, char **argv)
{
	static char name[32];

	tool_command = commands[index].name;
	snprintf(name, sizeof(name), "ottectl %s", tool_command);
	argv[0] = name;
	return commands[index].run(argc, argv);
}

static int dispatch(int argc, char **argv)
{
	size_t i;

	if (argc < 2) {
		print_help();
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help();
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("ottectl %s (module revision %d)\n", OTTE_VERSION, OTTE_ABI_REVISION);
		return EXIT_OK;
	}
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return run_command(i, argc - 1, argv + 1);
	return complain(EXIT_USAGE, "unknown command \"%s\"; see ottectl --help", argv[1]);
}

/* Results that did not arrive are none, whatever else went well. */
int main(int argc, char **argv)
{
	int rc = dispatch(argc, argv);

	if ((fflush(stdout) || ferror(stdout)) && rc == EXIT_OK)
		return complain(EXIT_LOCAL, "standard output cannot be written");
	return rc;
}
