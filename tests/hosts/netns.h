/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two hosts on this machine: network namespaces without a name, joined by a veth pair.
 *
 * The namespaces live as long as a process in them or a descriptor of this one, and the pair with them: a
 * test that is killed leaves nothing behind. Threads and children that a test starts are on the host that
 * it has entered.
 *
 *   HERE   10.77.7.1, fd77:7::1      THERE   10.77.7.2, fd77:7::2, and 10.77.9.2 on no interface
 *                                            of the link, which HERE reaches through it
 */
#ifndef OTTE_TESTS_NETNS_H
#define OTTE_TESTS_NETNS_H

#include <stdbool.h>

enum host { HERE = 0, THERE = 1 };

/* False: this machine does not let us make them. */
bool hosts_make(void);
void hosts_enter(enum host host);
/* The pair; hosts_make() makes it. */
void link_make(void);
void link_delete(void);
/* One end is down: neither side hears more of the other, and nobody is told. */
void link_cut(void);
void link_join(void);
/* A command of the shell on a host; its exit status. */
int host_runs(enum host host, const char *command);
/* Connections on this host through which at least `bytes` came in, or went out. */
unsigned busy_connections(enum host host, bool in, unsigned long long bytes);

#endif
