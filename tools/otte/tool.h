/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What every file of the program `otte` shares: exit codes and subcommands. */
#ifndef OTTE_TOOL_H
#define OTTE_TOOL_H

#include "../common/command.h"

/* Exit codes beside those of every program, as otte(1) documents them. */
enum {
	EXIT_TRANSFER = 2, /* a transfer failed or was not completed in time */
	EXIT_UNREACHABLE = 3, /* the peer does not answer */
	EXIT_REFUSED = 4, /* the peer answered and refused: key, version, region, right, range */
	EXIT_MISMATCH = 6, /* content is not what it must be */
	EXIT_BELOW = 7, /* bench: a ratio missed its bar */
	EXIT_RETAINED = 8, /* serve: closed, but something stays retained */
};

/* A subcommand gets its own name and arguments, and returns an exit code. */
int cmd_bench(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_push(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_topo(int argc, char **argv);

#endif
