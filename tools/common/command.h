/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs of this tree share as command lines: how one finds its command by the first
 * word, how it says that something is wrong, and the exit codes that mean the same in all of them. A
 * program is one table; program_main() is all of its main().
 */
#ifndef OTTE_TOOLS_COMMAND_H
#define OTTE_TOOLS_COMMAND_H

#include <stddef.h>

#include "base/util.h"

/* The codes of every program; a program's own ones are in its own header. */
enum {
	EXIT_OK = 0,
	EXIT_USAGE = 1, /* the command line; the message names the argument */
	EXIT_LOCAL = 5, /* this side: a file, memory, a full disk, a socket, an engine */
};

/* `run` gets its own name and arguments, and returns an exit code. */
struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
};

struct program {
	const char *name;
	const char *purpose; /* one sentence, for --help */
	const char *version_help; /* what --version says, for --help */
	const char *exit_codes; /* lines of --help */
	const struct command *commands;
	size_t command_count;
	void (*print_version)(void);
};

/* Runs the command that argv names, or what stands in its place; returns the exit code. */
int program_main(const struct program *program, int argc, char **argv);

/* Print "PROGRAM COMMAND: message" on standard error and return `code`. */
int complain(int code, const char *format, ...) OTTE_PRINTF(2, 3);

/* Print "PROGRAM COMMAND: warning: message" on standard error. */
void warn_user(const char *format, ...) OTTE_PRINTF(1, 2);

/* Called before either, if set: a screen of its own would take the message away with it. */
extern void (*before_message)(void);

/* The name of the command in use, "" before one is known. */
extern const char *tool_command;

#endif
