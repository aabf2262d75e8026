/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The health of rails: pairs of a local and a remote NIC, for each peer and epoch of it.
 *
 * Whoever sends over a rail takes a ticket before, and gives it back with what came of it, so
 * that a rail that keeps failing is paused and one that is well again is found out by a trial.
 *
 *   HEALTHY --- `error_threshold` failures within `error_window_ns` ---> PAUSED for `cooldown_ns`
 *           --- it was condemned ---> PAUSED, likewise
 *   PAUSED  --- a ticket, once a trial is due ---> TRIED
 *   TRIED   --- it succeeded ---> HEALTHY, as if nothing had been
 *           --- it failed, or was cancelled, or no longer counts ---> PAUSED
 *
 * A trial is due each `probe_interval_ns` during the pause (the first one so long after it began;
 * 0: at once), and at any time after it. One that began during the pause is a probe: its failure
 * leaves the pause as it is. One that began after it is half-open: its failure begins a new
 * pause, of twice the length of the last one, up to `cooldown_max_ns`. There is one trial of a
 * rail at a time, and nothing but its success ends a pause: not that of what was sent before.
 *
 * A local port that changed is another one: what is told by a ticket from before changes nothing
 * (it is counted as fenced), and failures from before no longer add up with later ones.
 *
 * The table is bounded. A rail that is healthy, carries nothing and has no failure that still
 * counts may go for another; all others stay until their peer's epoch is forgotten.
 *
 * NICs have ids from 0 to 63. Time is passed in. No lock: the owner's is held around every call.
 */
#ifndef OTTE_SCHED_RAILS_H
#define OTTE_SCHED_RAILS_H

#include <stdint.h>

#include "topo/priority.h"

#define OTTE_RAILS_ERRORS_MAX 16 /* of error_threshold */

enum otte_rail_topology {
	OTTE_RAILS_ALL,    /* every pair that the path table calls compatible */
	OTTE_RAILS_DIRECT, /* of those only the ones that it calls direct */
};

struct otte_rails_config {
	enum otte_rail_topology topology;
	uint32_t max_pairs;       /* "max_rail_pairs", of all peers together */
	uint32_t error_threshold; /* 1 to OTTE_RAILS_ERRORS_MAX */
	uint64_t error_window_ns; /* failures no further apart */
	uint64_t cooldown_ns;     /* of the first pause */
	uint64_t cooldown_max_ns; /* of any, not less */
	uint64_t probe_interval_ns;
};

/* All pairs; 1024 of them; 3 failures in 10 s; 30 s to 5 min; a probe each second. */
void otte_rails_config_init(struct otte_rails_config *config);

struct otte_rails;

/* -EINVAL with a text, -ENOMEM. */
int otte_rails_create(const struct otte_rails_config *config, struct otte_rails **rails);
/* NULL is allowed. All tickets have been given back. */
void otte_rails_destroy(struct otte_rails *rails);

/* ---- Which rails there are ---- */

/* By local NIC, which remote NICs it can reach, as far as can be known without trying. */
struct otte_rail_paths {
	uint64_t compatible[OTTE_NIC_IDS];
	uint64_t direct[OTTE_NIC_IDS];
};

struct otte_rails_allowed {
	uint64_t locals;                   /* those with any bit below */
	uint64_t healthy[OTTE_NIC_IDS]; /* remote NICs, by local one */
	uint64_t trial[OTTE_NIC_IDS];   /* of a paused rail, and a trial is due */
};

/*
 * What may carry something to the peer from one of `devices`: by topology, path table and health.
 * It arms no trial, however often it is called. -ENETUNREACH: nothing may, and the text says why;
 * *allowed is empty.
 */
int otte_rails_allowed(const struct otte_rails *rails, uint64_t peer,
		       const struct otte_rail_paths *paths, uint64_t devices, uint64_t now_ns,
		       struct otte_rails_allowed *allowed);

/* ---- Tickets ---- */

struct otte_rail {
	uint64_t peer;          /* the caller's number of a peer and its epoch */
	uint32_t local, remote; /* NICs */
};

enum otte_rail_purpose {
	OTTE_RAIL_TRAFFIC,
	OTTE_RAIL_PROBE,     /* a trial during the pause */
	OTTE_RAIL_HALF_OPEN, /* a trial after it */
};

struct otte_rail_pair;

struct otte_rail_ticket {
	struct otte_rail_pair *pair;
	uint64_t generation; /* the local port's, when it was taken */
	enum otte_rail_purpose purpose;
};

/*
 * Before something is sent. 0: *ticket is to be given back with one of the three calls below, once.
 * -EAGAIN: it is paused, and no trial is due or one is under way. -EDQUOT with a text that names
 * max_rail_pairs, -ENOMEM. Nothing has changed then.
 */
int otte_rails_admit(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns,
		     struct otte_rail_ticket *ticket);

/* Nothing was posted: as if it had not been taken. A trial is due again as it was. */
void otte_rails_cancel(struct otte_rails *rails, const struct otte_rail_ticket *ticket);
/* The receipt is there. */
void otte_rails_succeed(struct otte_rails *rails, const struct otte_rail_ticket *ticket);
/* It failed, or nobody knows. */
void otte_rails_fail(struct otte_rails *rails, const struct otte_rail_ticket *ticket,
		     uint64_t now_ns);
/* Likewise, of one that nothing has ever passed, and that was a guess: it is paused at once. */
void otte_rails_condemn(struct otte_rails *rails, const struct otte_rail_ticket *ticket,
			uint64_t now_ns);

/* ---- What the monitor knows ---- */

/* The local NIC's port is another one from now on: it went, came, or has another address. */
void otte_rails_port_changed(struct otte_rails *rails, uint32_t local);

/* The epoch of the peer is over: no ticket of it is taken any more, and none counts any more. */
void otte_rails_forget(struct otte_rails *rails, uint64_t peer);

/* ---- Counters ---- */

struct otte_rail_counters {
	uint64_t errors;     /* failures that counted */
	uint64_t probes;     /* trials, of both kinds, that were not cancelled */
	uint64_t recoveries; /* pauses that a trial has ended */
	uint64_t pauses;     /* begun, one after a trial that failed, too */
	uint64_t fenced;     /* told by a ticket from before */
	uint64_t paused;     /* rails that are paused or tried now: "open" */
};

struct otte_rails_stats {
	uint32_t pairs; /* in the table */
	struct otte_rail_counters total;
	struct otte_rail_counters nic[OTTE_NIC_IDS]; /* by local NIC */
};

void otte_rails_stats(const struct otte_rails *rails, struct otte_rails_stats *stats);

#endif
