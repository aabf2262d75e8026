/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The program `otte`: finds the subcommand and hands over. */
#include "tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/line.h"
#include "otte/otte.h"

#define MESSAGE_MAX 4096

const char *tool_command = "";

static const struct {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "serve", "publish files and memory, and serve peers", cmd_serve },
	{ "pull", "read a region of a peer into a file", cmd_pull },
	{ "push", "write a file into a region of a peer", cmd_push },
	{ "ls", "list what a peer publishes", cmd_ls },
	{ "stats", "print the counters of a process or a peer", cmd_stats },
	{ "bench", "measure transfers between two processes, beside plain sockets", cmd_bench },
	{ "replay", "follow a trace of LLM requests with a prefill and a decode process",
	  cmd_replay },
	{ "topo", "show memory nodes, NICs and GPUs", cmd_topo },
};

/* What a message quotes may come from anywhere: it is one line, and no terminal obeys it. */
static void print_message(const char *kind, const char *colour, const char *format, va_list args)
{
	int terminal = isatty(STDERR_FILENO);
	char text[MESSAGE_MAX], line[MESSAGE_MAX];

	vsnprintf(text, sizeof(text), format, args);
	otte_line_escape(line, sizeof(line), text);
	fflush(stdout);
	fprintf(stderr, "otte%s%s: ", *tool_command ? " " : "", tool_command);
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

	puts("Usage: otte COMMAND [OPTION]...\n"
	     "Move registered memory between processes and hosts.\n\n"
	     "Commands:");
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-8s %s\n", commands[i].name, commands[i].summary);
	puts("\nOptions:\n"
	     "  -h, --help     this text; after a command, that command's\n"
	     "  -V, --version  version of the program and of the library\n\n"
	     "Exit status:\n"
	     "  0  done                        5  a local file, memory or engine failed\n"
	     "  1  wrong usage                 6  content is not what it must be\n"
	     "  2  a transfer failed           7  bench: below a bar\n"
	     "  3  the peer is unreachable     8  serve: something stays retained\n"
	     "  4  the peer refused");
}

/* getopt_long() says argv[0] in its complaints. */
static int run_command(size_t index, int argc, char **argv)
{
	static char name[32];

	tool_command = commands[index].name;
	snprintf(name, sizeof(name), "otte %s", tool_command);
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
		printf("otte %s (libotte %s)\n", OTTE_VERSION, otte_version());
		return EXIT_OK;
	}
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return run_command(i, argc - 1, argv + 1);
	return complain(EXIT_USAGE, "unknown command \"%s\"; see otte --help", argv[1]);
}

/* Results that did not arrive are none, whatever else went well. */
int main(int argc, char **argv)
{
	int rc = dispatch(argc, argv);

	if ((fflush(stdout) || ferror(stdout)) && rc == EXIT_OK)
		return complain(EXIT_LOCAL, "standard output cannot be written");
	return rc;
}
