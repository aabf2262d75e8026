/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A second process of this program, for subcommands that measure between two. */
#ifndef OTTE_TOOL_CHILD_H
#define OTTE_TOOL_CHILD_H

#include <sys/types.h>

#include "base/clock.h"
#include "common.h"
#include "otte/otte.h"

#define CHILD_ARGS_MAX 192
#define CHILD_STOP_NS (15 * NSEC_PER_SEC) /* for child_stop(), where nobody waits for us */

struct child_args {
	const char *argv[CHILD_ARGS_MAX + 1];
	int count;
};

struct child {
	pid_t pid;
	char endpoint[OTTE_ADDRESS_MAX];
};

/* Append to the command line; too many are left out and child_start() then refuses. */
void child_arg(struct child_args *args, const char *arg);
void child_common_args(struct child_args *args, const struct common *common);

/*
 * Start `otte ARGS --ready-fd N`, on one CPU unless that is negative, and wait for the endpoint that
 * it writes there. It ends when we do. EXIT_OK, or an exit code after a complaint.
 */
int child_start(struct child *child, struct child_args *args, int cpu);

/* SIGTERM, a wait of up to `limit_ns`, and SIGKILL if need be. */
void child_stop(struct child *child, uint64_t limit_ns);

#endif
