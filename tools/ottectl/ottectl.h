/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What every file of the program ottectl shares: exit codes and commands. */
#ifndef OTTECTL_H
#define OTTECTL_H

#include <stdbool.h>

#include "../common/command.h"

/* Exit codes beside those of every program, as ottectl(8) documents them. */
enum {
	EXIT_ABSENT = 2, /* the module is not loaded, or cannot be seen from here */
	EXIT_DENIED = 3, /* what was asked for is not for this user */
	EXIT_ABI = 4, /* the module speaks another revision */
	EXIT_UNKNOWN = 6, /* no such record or domain */
	EXIT_UNSAFE = 7, /* drain: something still keeps the module */
	EXIT_REFUSED = 8, /* the module refused: the object is busy, a value is out of range */
	EXIT_GARBLED = 9, /* the module's answer cannot be read */
};

/* A command gets its own name and arguments, and returns an exit code. */
int cmd_clients(int argc, char **argv);
int cmd_domains(int argc, char **argv);
int cmd_drain(int argc, char **argv);
int cmd_limits(int argc, char **argv);
int cmd_loans(int argc, char **argv);
int cmd_metrics(int argc, char **argv);
int cmd_monitor(int argc, char **argv);
int cmd_regions(int argc, char **argv);
int cmd_retained(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_top(int argc, char **argv);

#endif
