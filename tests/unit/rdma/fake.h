/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A machine with verbs devices that a test describes, as a table of functions. Contexts and lists
 * are counted, so that what stays open shows.
 */
#ifndef OTTE_TESTS_RDMA_FAKE_H
#define OTTE_TESTS_RDMA_FAKE_H

#include <stdbool.h>

#include "transport/rdma/verbs.h"

#define FAKE_DEVICES 80
#define FAKE_PORTS 3
#define FAKE_GIDS 4

struct fake_gid {
	const char *address; /* "fe80::1", "192.0.2.1"; NULL: empty */
	uint32_t type;
	int error;
};

struct fake_port {
	struct ibv_port_attr attr;
	uint32_t active_speed_ex;
	uint64_t port_speed; /* in 100 Mb/s; 0: the call fails */
	struct fake_gid gids[FAKE_GIDS];
	int error;
};

struct fake_device {
	struct ibv_device device;
	int ports;
	struct fake_port port[FAKE_PORTS]; /* the first is port 1 */
	int open_error, query_error;
	unsigned int opens, open_now;
};

struct fake_machine {
	struct otte_verbs verbs;
	struct fake_device devices[FAKE_DEVICES];
	int count;
	int list_error;
	int lists_now; /* not yet freed */
};

/* The machine that the table's functions are of. Empty after fake_reset(). */
extern struct fake_machine fake;

void fake_reset(void);

/* One more device, with one active port of Ethernet at 100 Gb/s and a routable address. */
struct fake_device *fake_add(const char *name);

/* Contexts that are open, of all devices. */
unsigned int fake_open_now(void);

#endif
