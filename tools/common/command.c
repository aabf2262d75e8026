/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "command.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/line.h"
#include "output.h"

#define MESSAGE_MAX 4096

const char *tool_command = "";
void (*before_message)(void);

static const char *program_name = "";

/* ---- Messages -------------------------------------------------------------------------------- */

/* What a message quotes may come from anywhere: it is one line, and no terminal obeys it. */
static void print_message(const char *kind, const char *colour, const char *format, va_list args)
{
	bool colours = output_has_colours(stderr);
	char text[MESSAGE_MAX], line[MESSAGE_MAX];

	vsnprintf(text, sizeof(text), format, args);
	otte_line_escape(line, sizeof(line), text);
	if (before_message)
		before_message();
	fflush(stdout);
	fprintf(stderr, "%s%s%s: ", program_name, *tool_command ? " " : "", tool_command);
	if (*kind)
		fprintf(stderr, "%s%s%s: ", colours ? colour : "", kind, colours ? "\033[0m" : "");
	fprintf(stderr, "%s\n", line);
}

int complain(int code, const char *format, ...)
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

/* ---- The command line ------------------------------------------------------------------------ */

static int name_width(const struct program *program)
{
	size_t i, width = 0, length;

	for (i = 0; i < program->command_count; i++) {
		length = strlen(program->commands[i].name);
		if (length > width)
			width = length;
	}
	return (int)width;
}

static void print_help(FILE *to, const struct program *program)
{
	int width = name_width(program);
	size_t i;

	fprintf(to, "Usage: %s COMMAND [OPTION]...\n%s\n\nCommands:\n", program->name,
		program->purpose);
	for (i = 0; i < program->command_count; i++)
		fprintf(to, "  %-*s  %s\n", width, program->commands[i].name,
			program->commands[i].summary);
	fprintf(to,
		"\nOptions:\n"
		"  -h, --help     this text, as the command help; after a command, that command's\n"
		"  -V, --version  %s\n\n"
		"Exit status:\n%s",
		program->version_help, program->exit_codes);
}

/* getopt_long() says argv[0] in its complaints. */
static int run_command(const struct program *program, const struct command *command, int argc,
		       char **argv)
{
	static char name[32];

	tool_command = command->name;
	snprintf(name, sizeof(name), "%s %s", program->name, tool_command);
	argv[0] = name;
	return command->run(argc, argv);
}

static bool is_one_of(const char *word, const char *first, const char *second)
{
	return !strcmp(word, first) || !strcmp(word, second);
}

static int dispatch(const struct program *program, int argc, char **argv)
{
	const char *word = argc < 2 ? "" : argv[1];
	size_t i;

	if (argc < 2) {
		print_help(stderr, program);
		return EXIT_USAGE;
	}
	if (is_one_of(word, "--help", "-h") || !strcmp(word, "help")) {
		print_help(stdout, program);
		return EXIT_OK;
	}
	if (is_one_of(word, "--version", "-V")) {
		program->print_version();
		return EXIT_OK;
	}
	for (i = 0; i < program->command_count; i++)
		if (!strcmp(word, program->commands[i].name))
			return run_command(program, &program->commands[i], argc - 1, argv + 1);
	return complain(EXIT_USAGE, "unknown %s \"%s\"; see %s --help",
			*word == '-' ? "option" : "command", word, program->name);
}

/*
 * Results that did not arrive are none, whatever else went well. A file that may not become as large (ulimit -f) is
 * an error of the write, with a name to it, and not the end.
 */
int program_main(const struct program *program, int argc, char **argv)
{
	int rc;

	program_name = program->name;
	signal(SIGXFSZ, SIG_IGN);
	rc = dispatch(program, argc, argv);
	if ((fflush(stdout) || ferror(stdout)) && rc == EXIT_OK)
		return complain(EXIT_LOCAL, "standard output cannot be written");
	return rc;
}
