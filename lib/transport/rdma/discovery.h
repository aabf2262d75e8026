/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which NICs a process may use: each port of each verbs device that is permitted, with the address
 * that stands for it. A snapshot, taken once; who keeps it looks at changes. No lock: one thread at
 * a time.
 *
 * A NIC is a port, and its id is its place in the list: devices by name (mlx5_2 before mlx5_10),
 * ports by number. One that cannot be used keeps its place, with the reason, so no id means another
 * NIC because something failed. A device that is not permitted has none, and is never opened.
 */
#ifndef OTTE_TRANSPORT_RDMA_DISCOVERY_H
#define OTTE_TRANSPORT_RDMA_DISCOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "topo/priority.h"

struct ibv_context;
struct otte_verbs;

#define OTTE_RDMA_NAME_MAX 64

/* For a port and a GID: UNSET is 1 and 0 where a device is named, else CHOOSE. */
#define OTTE_RDMA_UNSET (-1)
#define OTTE_RDMA_CHOOSE (-2)

/* What is permitted and what is fixed. What is fixed has no substitute. */
struct otte_rdma_select {
	const char *device; /* this one alone; NULL: all */
	int port; /* CHOOSE: every port is a NIC */
	int gid_index; /* CHOOSE: the best, see gid.h */
	const char *const
		*whitelist; /* these alone, and the blacklist is not looked at; empty: all */
	size_t whitelist_count;
	const char *const *blacklist;
	size_t blacklist_count;
	uint32_t link_rate_mbps; /* of every NIC, whatever it reports; 0: as reported */
};

#define OTTE_RDMA_SELECT_DEFAULTS                                     \
	{                                                             \
		.port = OTTE_RDMA_UNSET, .gid_index = OTTE_RDMA_UNSET \
	}

enum otte_rdma_state {
	OTTE_RDMA_UNUSABLE = 0, /* `code` and `why` */
	OTTE_RDMA_PAUSED = 1, /* the port is not active, all else is valid */
	OTTE_RDMA_ACTIVE = 2,
};

enum otte_rdma_gid_type {
	OTTE_RDMA_GID_IB = 0,
	OTTE_RDMA_GID_ROCE_V1 = 1,
	OTTE_RDMA_GID_ROCE_V2 = 2,
};

struct otte_rdma_gid {
	int index;
	enum otte_rdma_gid_type type;
	uint8_t bytes[16];
};

enum otte_rdma_rate_source {
	OTTE_RDMA_RATE_ASSUMED = 0, /* it reports none, or none that can be */
	OTTE_RDMA_RATE_REPORTED = 1,
	OTTE_RDMA_RATE_CONFIGURED = 2,
};

struct otte_rdma_nic {
	char name[OTTE_RDMA_NAME_MAX]; /* the device's */
	char pci[16]; /* 0000:00:00.0; "": none */
	int node; /* of memory; -1: unknown */
	uint8_t port;
	enum otte_rdma_state state;
	int code; /* 0, or what failed: a negative errno */
	char why[OTTE_ERROR_BYTES];

	/* Of a usable or paused one. */
	struct otte_rdma_gid gid;
	uint32_t mtu_bytes;
	uint16_t lid; /* 0 on Ethernet */
	bool ethernet; /* link layer; else InfiniBand */
	uint64_t bytes_per_s;
	enum otte_rdma_rate_source rate_source;
	struct ibv_context *context; /* its own, open; NULL where unusable or taken */
};

struct otte_rdma_nics {
	size_t count;
	size_t left_out; /* beyond OTTE_NIC_IDS */
	struct otte_rdma_nic list[OTTE_NIC_IDS];
};

/*
 * Fills `nics`. 0, also where there is none or none is usable; else a negative errno with text and
 * no NIC: what is fixed, or in the whitelist, is not there or what is fixed cannot be used (-ENODEV,
 * -ENODATA for a GID, or what the call failed with), is fixed and not permitted (-EINVAL), or the
 * devices cannot be listed.
 *
 * Each usable or paused NIC comes with a context of its own. Who wants to own one takes it out,
 * leaving NULL; otte_rdma_nics_close() closes those that are left.
 */
int otte_rdma_discover(const struct otte_verbs *verbs, const struct otte_rdma_select *select,
		       struct otte_rdma_nics *nics);

void otte_rdma_nics_close(const struct otte_verbs *verbs, struct otte_rdma_nics *nics);

const char *otte_rdma_state_text(enum otte_rdma_state state);
const char *otte_rdma_gid_type_text(enum otte_rdma_gid_type type);
const char *otte_rdma_rate_source_text(enum otte_rdma_rate_source source);

/* "192.0.2.1" of an address of IPv4, "fe80::1" of others. */
#define OTTE_RDMA_GID_TEXT 48
const char *otte_rdma_gid_text(const struct otte_rdma_gid *gid, char text[OTTE_RDMA_GID_TEXT]);

#endif
