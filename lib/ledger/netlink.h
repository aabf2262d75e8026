/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Dumps of the generic netlink family "otte", over one plain socket: a dump is a stream of rows, of
 * which each number stands at the place of its attribute.
 */
#ifndef OTTE_LEDGER_NETLINK_H
#define OTTE_LEDGER_NETLINK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "uapi/linux/otte_netlink.h"

#define OTTE_NETLINK_PEER_LEN 32

struct otte_netlink {
	pthread_mutex_t lock; /* one request at a time */
	int fd; /* -1: not there, `error` says why; the next dump tries again */
	int error;
	uint16_t family;
	uint32_t seq;
};

struct otte_netlink_row {
	uint64_t num[OTTE_A_COUNT]; /* 0 where the attribute is absent */
	uint8_t peer[OTTE_NETLINK_PEER_LEN];
	char comm[32];
};

/*
 * What takes the rows. A dump that a change interrupted starts again: `restart` forgets what was
 * taken.
 */
struct otte_netlink_sink {
	void (*restart)(void *arg);
	void (*row)(void *arg, const struct otte_netlink_row *row);
	void *arg;
};

/*
 * Finds the family. It lives in the initial network namespace: elsewhere, or without the module,
 * dumps fail with what this, or a later try, found, and all else works.
 */
void otte_netlink_open(struct otte_netlink *netlink);
void otte_netlink_close(struct otte_netlink *netlink);

/*
 * One dump, by enum otte_nl_command. 0, or a negative errno with the text set. One that is
 * interrupted again and again is taken as it is: each object that was there throughout is in it
 * once.
 */
int otte_netlink_dump(struct otte_netlink *netlink, uint8_t command,
		      const struct otte_netlink_sink *sink);

#endif
