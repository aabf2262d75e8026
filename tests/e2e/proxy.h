/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process between two sides that can lose what goes through it.
 *
 * Connections are numbered in the order in which they were accepted, from 0. Commands, each answered
 * with "ok N", N the number of connections accepted so far:
 *
 *   target ADDRESS   where connections go from now on
 *   count            nothing but the answer
 *   drop N | drop all   both ends are closed at once
 *   freeze N 1|2|3   1: what comes back is held; 2: what goes there is held; 3: both
 *   thaw N           nothing if it is over already
 *   held N           "held N": bytes that it has read from connection N on the opener's side
 */
#ifndef OTTE_TESTS_PROXY_H
#define OTTE_TESTS_PROXY_H

#include "process.h"

struct proxy {
	struct child child;
	char address[64];
};

void proxy_start(struct proxy *proxy, const char *target);
bool proxy_role(int argc, char **argv, int *status);

#endif
