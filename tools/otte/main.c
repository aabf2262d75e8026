/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The program `otte`: what it is, and its commands. */
#include "tool.h"

#include <stdio.h>

#include "otte/otte.h"

static const struct command commands[] = {
	{ "serve", "publish files and memory, and serve peers", cmd_serve },
	{ "pull", "read a region of a peer into a file", cmd_pull },
	{ "push", "write a file into a region of a peer", cmd_push },
	{ "ls", "list what a peer publishes", cmd_ls },
	{ "stats", "print the counters of a process or a peer", cmd_stats },
	{ "bench", "measure transfers between two processes, beside plain sockets", cmd_bench },
	{ "calibrate", "measure how many CTAs local copies need on a GPU, and keep that", cmd_calibrate },
	{ "replay", "follow a trace of LLM requests with a prefill and a decode process",
	  cmd_replay },
	{ "topo", "show memory nodes, NICs and GPUs", cmd_topo },
};

static void print_version(void)
{
	printf("otte %s (libotte %s)\n", OTTE_VERSION, otte_version());
}

static const struct program program = {
	.name = "otte",
	.purpose = "Move registered memory between processes and hosts.",
	.version_help = "version of the program and of the library",
	.exit_codes = "  0  done                        5  a local file, memory or engine failed\n"
		      "  1  wrong usage                 6  content is not what it must be\n"
		      "  2  a transfer failed           7  bench: below a bar\n"
		      "  3  the peer is unreachable     8  serve: something stays retained\n"
		      "  4  the peer refused\n",
	.commands = commands,
	.command_count = ARRAY_SIZE(commands),
	.print_version = print_version,
};

int main(int argc, char **argv)
{
	return program_main(&program, argc, argv);
}
