/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The program `ottectl`: what it is, and its commands. */
#include "ottectl.h"

#include <stdio.h>

#include <linux/otte.h>

static const struct command commands[] = {
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

static void print_version(void)
{
	printf("ottectl %s (module revision %d)\n", OTTE_VERSION, OTTE_ABI_REVISION);
}

static const struct program program = {
	.name = "ottectl",
	.purpose = "Look at the ledger of otte.ko, and administer it.",
	.version_help = "version of the program, and revision of the module that it needs",
	.exit_codes =
		"  0  done                              5  a local file, memory or output failed\n"
		"  1  wrong usage                       6  no such record or domain\n"
		"  2  the module is not loaded          7  drain: unloading is not safe yet\n"
		"  3  not permitted                     8  the module refused\n"
		"  4  the module has another revision   9  the module's answer cannot be read\n",
	.commands = commands,
	.command_count = ARRAY_SIZE(commands),
	.print_version = print_version,
};

int main(int argc, char **argv)
{
	return program_main(&program, argc, argv);
}
