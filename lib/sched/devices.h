/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which NIC each slice of a request takes.
 *
 * Eligible is a NIC that has a rank in the row of the memory's location, is in the mask of the
 * configuration, healthy, among those that the caller allows (a path to the peer, no rail that is
 * paused), and, where locality is strict, not known to be at another memory node. No weight
 * makes another one eligible.
 *
 * Of these, per slice:
 *
 *     score = (bytes charged here + other processes' + the slice's) / estimated bytes per second
 *             * weight of its rank
 *
 * A request of one slice takes the lowest, and equal ones in turn. One of several gives each NIC
 * floor(slices * weight / sum of weights), where a NIC's weight is 1 / (score + 1e-12), and the
 * best what is left; every 100th such request goes round all that are eligible instead, so that
 * nobody stays unknown. Without `smart` slices go round the eligible NICs of the first rank that
 * has any, and nothing is charged.
 *
 * Charges are made for all slices of a request at once, under the lock:
 *
 *   otte_device_charge   the request's, from select(); what nobody took goes back with abandon()
 *   otte_device_lease    one slice's, from take(): its owner tells what becomes of its bytes, and
 *                        gives the charge back with end(), which refuses while bytes of it may be
 *                        under way
 *
 * Both belong to the caller, who passes each to one thread at a time, and outlive no selector.
 * Nothing is allocated after open().
 *
 * What goes by leases of a peer's memory is not chosen slice by slice: of that there are counts of
 * bytes alone, which scores include, and no samples.
 *
 * Lock: one, a leaf; nothing is called under it. `others` is called before it is taken, `moves`
 * after it. The counts
 * of leases have none. Time is passed in.
 */
#ifndef OTTE_SCHED_DEVICES_H
#define OTTE_SCHED_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/rate.h"
#include "sched/slice.h"
#include "topo/priority.h"

#define OTTE_DEVICES_SLICES_MAX 64 /* of one request */

struct otte_devices;

struct otte_devices_params {
	uint64_t mask; /* of the configuration */
	bool smart;
	bool strict_numa;
	int preferred_node; /* in place of host memory's own; or OTTE_TOPO_NO_NODE */
	double rank_weights[OTTE_NIC_RANKS];
	uint32_t probe_interval; /* requests of several slices; 0: no probes */
	uint64_t unknown_rate; /* of a link that says none, bytes per second */
	/* Bytes under way at a NIC in other processes; NULL: nobody knows. */
	uint64_t (*others)(void *arg, unsigned nic);
	/* Bytes are under way from now on, or, negative, no longer; NULL: nobody is told. */
	void (*moves)(void *arg, unsigned nic, int64_t bytes);
	void *arg;
};

#define OTTE_DEVICES_PARAMS                                                             \
	{                                                                               \
		.mask = UINT64_MAX, .smart = true, .preferred_node = OTTE_TOPO_NO_NODE, \
		.rank_weights = { 1, 5, 10 }, .probe_interval = 100,                    \
		.unknown_rate = OTTE_UNKNOWN_RATE                                       \
	}

struct otte_device {
	int node; /* or OTTE_TOPO_NO_NODE */
	uint64_t rate; /* bytes per second; 0: unknown */
};

/* Copied by open(), but for the table of ranks, which stays as it is until close(). */
struct otte_devices_setup {
	struct otte_devices_params params;
	const struct otte_device *devices; /* by NIC id */
	size_t count; /* at most OTTE_NIC_IDS */
	const struct otte_nic_priority *priority;
	const int *cuda_nodes; /* of cuda:0 and so on, for strict locality */
	size_t cuda_count;
};

/* All are healthy at first. -EINVAL with a text, -ENOMEM. */
int otte_devices_open(const struct otte_devices_setup *setup, struct otte_devices **devices);
/* Every charge and lease is over. NULL is allowed. */
void otte_devices_close(struct otte_devices *devices);

void otte_devices_set_healthy(struct otte_devices *devices, unsigned nic, bool healthy);
/* What the port says now; 0: unknown. One that could not be asked keeps what it said last. */
void otte_devices_set_rate(struct otte_devices *devices, unsigned nic, uint64_t rate);

struct otte_devices_request {
	struct otte_location location;
	uint64_t allowed;
	struct otte_slicing slicing;
	uint64_t length;
};

struct otte_device_charge {
	struct otte_devices *devices;
	struct otte_slicing slicing;
	uint64_t length;
	uint64_t held; /* slices that nobody took; under the lock */
	bool charged; /* their bytes count in scores */
	uint8_t nics[OTTE_DEVICES_SLICES_MAX];
};

struct otte_device_lease {
	struct otte_devices *devices; /* NULL: over */
	uint64_t charged; /* bytes */
	uint8_t nic;
	/* Under the lock: */
	bool spoiled; /* no sample */
	uint64_t under_way, doubted, completed;
	uint64_t first_ns, last_ns;
};

/* Those that requests of memory at this place may have, whatever is healthy now. */
uint64_t otte_devices_eligible(const struct otte_devices *devices, struct otte_location location);
/* By which a NIC's score is multiplied for it: the less the nearer. */
double otte_devices_weight(const struct otte_devices *devices, struct otte_location location,
			   unsigned nic);

/* -ENODEV: no NIC is eligible, -EINVAL: more slices than there may be; both with a text. */
int otte_devices_select(struct otte_devices *devices, const struct otte_devices_request *request,
			struct otte_device_charge *charge);

/* False: it was taken, or abandoned. */
bool otte_device_charge_take(struct otte_device_charge *charge, uint32_t slice,
			     struct otte_device_lease *lease);
/* The bytes of slices that went back. */
uint64_t otte_device_charge_abandon(struct otte_device_charge *charge);

enum otte_device_event {
	OTTE_DEVICE_POSTED, /* before they are: from now on they may be under way */
	OTTE_DEVICE_COMPLETED, /* by a good CQE */
	OTTE_DEVICE_DROPPED, /* not accepted, failed, or drained: no longer under way */
	OTTE_DEVICE_DOUBTED, /* posted ones of which nobody knows */
	OTTE_DEVICE_SETTLED, /* doubted ones that completed or are drained */
};

/* -EINVAL: that is more than there is to tell it of, and nothing has changed. */
int otte_device_lease_tell(struct otte_device_lease *lease, enum otte_device_event event,
			   uint64_t bytes, uint64_t now_ns);
/* -EBUSY: bytes may still be under way, and stay charged. -EALREADY: it is over already. */
int otte_device_lease_end(struct otte_device_lease *lease);

/* By a lease: bytes are posted; and have completed, or are no longer under way otherwise. */
void otte_devices_depart(struct otte_devices *devices, unsigned nic, uint64_t bytes);
void otte_devices_arrive(struct otte_devices *devices, unsigned nic, uint64_t bytes,
			 bool completed);

/* With what goes by leases, but for `charged` and `assigned`. */
struct otte_device_load {
	uint64_t link; /* bytes per second, as are the next two */
	double selection, transmit;
	bool told; /* the link says its rate */
	bool measured; /* `transmit` is of what was seen to move, not yet the link's rate */
	bool healthy;
	uint64_t charged; /* bytes now */
	uint64_t under_way; /* likewise */
	uint64_t doubted; /* of these, as well */
	uint64_t assigned, posted, completed; /* bytes, ever */
	uint64_t slices; /* that were taken for it, ever */
};

/* -ENOENT: there is no such NIC. */
int otte_devices_read(struct otte_devices *devices, unsigned nic, struct otte_device_load *load);

#endif
