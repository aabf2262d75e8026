/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sched/rails.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/util.h"

#define MAX_PAIRS 1024
#define ERROR_THRESHOLD 3
#define ERROR_WINDOW_NS (10 * NSEC_PER_SEC)
#define COOLDOWN_NS (30 * NSEC_PER_SEC)
#define COOLDOWN_MAX_NS (300 * NSEC_PER_SEC)
#define PROBE_INTERVAL_NS NSEC_PER_SEC

enum state {
	HEALTHY,
	PAUSED,
	TRIED,
};

struct otte_rail_pair {
	struct otte_rail rail; /* the key: without padding */
	UT_hash_handle hh;
	struct otte_rail_pair *prev, *next; /* the idle ones, or those that are not healthy */
	enum state state;
	uint32_t tickets; /* out */
	bool forgotten; /* in no table and list any more, and goes with its last ticket */

	/* The last failures that count, oldest first; fewer than the threshold, none if paused. */
	uint64_t failed_ns[OTTE_RAILS_ERRORS_MAX];
	uint32_t failures;
	uint64_t generation; /* of the port that they were seen at */

	/* Unless it is healthy. */
	uint64_t cooldown_ns, paused_until_ns;
	uint64_t probe_due_ns;
	uint64_t probe_was_due_ns; /* before the trial that is under way */
};

struct otte_rails {
	struct otte_rails_config config;
	struct otte_rail_pair *table;
	struct otte_rail_pair
		*idle; /* healthy, no ticket out; the one that is so for longest first */
	struct otte_rail_pair *broken; /* paused or tried */
	uint64_t generation[OTTE_NIC_IDS];
	struct otte_rails_stats stats; /* pairs: with those that are forgotten and have tickets */
};

void otte_rails_config_init(struct otte_rails_config *config)
{
	*config = (struct otte_rails_config){
		.topology = OTTE_RAILS_ALL,
		.max_pairs = MAX_PAIRS,
		.error_threshold = ERROR_THRESHOLD,
		.error_window_ns = ERROR_WINDOW_NS,
		.cooldown_ns = COOLDOWN_NS,
		.cooldown_max_ns = COOLDOWN_MAX_NS,
		.probe_interval_ns = PROBE_INTERVAL_NS,
	};
}

static int check_config(const struct otte_rails_config *config)
{
	if (!config->max_pairs)
		return otte_fail(-EINVAL, "max_rail_pairs is 0");
	if (!config->error_threshold || config->error_threshold > OTTE_RAILS_ERRORS_MAX)
		return otte_fail(-EINVAL, "rail_error_threshold (%u) is not 1 to %u",
				 config->error_threshold, OTTE_RAILS_ERRORS_MAX);
	if (config->cooldown_max_ns < config->cooldown_ns)
		return otte_fail(-EINVAL,
				 "the longest cooldown of a rail is shorter than the first");
	return 0;
}

int otte_rails_create(const struct otte_rails_config *config, struct otte_rails **rails)
{
	int ret = check_config(config);

	if (ret)
		return ret;
	*rails = calloc(1, sizeof(**rails));
	if (!*rails)
		return -ENOMEM;
	(*rails)->config = *config;
	return 0;
}

void otte_rails_destroy(struct otte_rails *rails)
{
	struct otte_rail_pair *pair, *next;

	if (!rails)
		return;
	HASH_ITER(hh, rails->table, pair, next) {
		HASH_DEL(rails->table, pair);
		free(pair);
	}
	free(rails);
}

/* ---- States ---- */

static struct otte_rail_counters *nic_of(struct otte_rails *rails,
					 const struct otte_rail_pair *pair)
{
	return &rails->stats.nic[pair->rail.local];
}

/* A healthy one has a ticket out, and so is in no list. */
static void move(struct otte_rails *rails, struct otte_rail_pair *pair, enum state to)
{
	if (pair->state == HEALTHY && to != HEALTHY) {
		DL_APPEND(rails->broken, pair);
		rails->stats.total.paused++;
		nic_of(rails, pair)->paused++;
	} else if (pair->state != HEALTHY && to == HEALTHY) {
		DL_DELETE(rails->broken, pair);
		rails->stats.total.paused--;
		nic_of(rails, pair)->paused--;
	}
	pair->state = to;
}

static uint64_t later(uint64_t now_ns, uint64_t by_ns)
{
	uint64_t then_ns;

	return __builtin_add_overflow(now_ns, by_ns, &then_ns) ? UINT64_MAX : then_ns;
}

static void pause_for(struct otte_rails *rails, struct otte_rail_pair *pair, uint64_t now_ns,
		      uint64_t cooldown_ns)
{
	pair->cooldown_ns = cooldown_ns;
	pair->paused_until_ns = later(now_ns, cooldown_ns);
	pair->probe_due_ns = later(now_ns, rails->config.probe_interval_ns);
	rails->stats.total.pauses++;
	nic_of(rails, pair)->pauses++;
	move(rails, pair, PAUSED);
}

static void recover(struct otte_rails *rails, struct otte_rail_pair *pair)
{
	rails->stats.total.recoveries++;
	nic_of(rails, pair)->recoveries++;
	move(rails, pair, HEALTHY);
}

static uint64_t trial_due_ns(const struct otte_rail_pair *pair)
{
	return min_u64(pair->paused_until_ns, pair->probe_due_ns);
}

/* ---- Which rails there are ---- */

static uint64_t reach(const struct otte_rails *rails, const struct otte_rail_paths *paths,
		      int local)
{
	uint64_t remotes = paths->compatible[local];

	return rails->config.topology == OTTE_RAILS_DIRECT ? remotes & paths->direct[local] :
							     remotes;
}

/* Nothing is allowed: `paused` rails would be if they were well; a trial is due in `wait_ns`. */
static OTTE_COLD int unreachable(const struct otte_rails *rails, uint64_t devices, unsigned paused,
				 uint64_t wait_ns)
{
	char text[OTTE_TIME_TEXT];

	if (!paused)
		return otte_fail(-ENETUNREACH, "no NIC of 0x%lx has a path to the peer%s",
				 (unsigned long)devices,
				 rails->config.topology == OTTE_RAILS_DIRECT ?
					 " (rail_topology is direct)" :
					 "");
	if (wait_ns == UINT64_MAX)
		return otte_fail(-ENETUNREACH,
				 "rails to the peer are all paused (%u) and tried now", paused);
	return otte_fail(-ENETUNREACH,
			 "rails to the peer are all paused (%u), the next trial is in %s", paused,
			 otte_time_text(text, wait_ns));
}

int otte_rails_allowed(const struct otte_rails *rails, uint64_t peer,
		       const struct otte_rail_paths *paths, uint64_t devices, uint64_t now_ns,
		       struct otte_rails_allowed *allowed)
{
	uint64_t left, remote, wait_ns = UINT64_MAX;
	const struct otte_rail_pair *pair;
	unsigned paused = 0;
	uint32_t local;

	zero_bytes(allowed, sizeof(*allowed));
	for (left = devices; left; left &= left - 1) {
		local = (uint32_t)__builtin_ctzll(left);
		allowed->healthy[local] = reach(rails, paths, (int)local);
	}
	DL_FOREACH(rails->broken, pair)
	{
		local = pair->rail.local;
		remote = 1ull << pair->rail.remote;
		if (pair->rail.peer != peer || !(allowed->healthy[local] & remote))
			continue;
		allowed->healthy[local] &= ~remote;
		paused++;
		if (pair->state != PAUSED)
			continue;
		if (now_ns >= trial_due_ns(pair))
			allowed->trial[local] |= remote;
		else
			wait_ns = min_u64(wait_ns, trial_due_ns(pair) - now_ns);
	}
	for (left = devices; left; left &= left - 1) {
		local = (uint32_t)__builtin_ctzll(left);
		if (allowed->healthy[local] | allowed->trial[local])
			allowed->locals |= 1ull << local;
	}
	return allowed->locals ? 0 : unreachable(rails, devices, paused, wait_ns);
}

/* ---- The table ---- */

static bool failed_lately(const struct otte_rails *rails, const struct otte_rail_pair *pair,
			  uint64_t now_ns)
{
	uint64_t last_ns;

	if (!pair->failures)
		return false;
	last_ns = pair->failed_ns[pair->failures - 1];
	return now_ns < last_ns || now_ns - last_ns <= rails->config.error_window_ns;
}

static void drop(struct otte_rails *rails, struct otte_rail_pair *pair)
{
	rails->stats.pairs--;
	free(pair);
}

/* The one that has been idle for longest, of those of which nothing need be known. */
static bool make_room(struct otte_rails *rails, uint64_t now_ns)
{
	struct otte_rail_pair *pair;

	DL_FOREACH(rails->idle, pair)
	{
		if (failed_lately(rails, pair, now_ns))
			continue;
		DL_DELETE(rails->idle, pair);
		HASH_DEL(rails->table, pair);
		drop(rails, pair);
		return true;
	}
	return false;
}

static OTTE_COLD int add(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns,
			 struct otte_rail_pair **added)
{
	struct otte_rail_pair *pair;

	if (rails->stats.pairs >= rails->config.max_pairs && !make_room(rails, now_ns))
		return otte_fail(
			-EDQUOT,
			"max_rail_pairs (%u) is full: all are in use, paused or failed lately",
			rails->config.max_pairs);
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return -ENOMEM;
	pair->rail = *rail;
	HASH_ADD(hh, rails->table, rail, sizeof(pair->rail), pair);
	if (!pair->hh.tbl) {
		free(pair);
		return -ENOMEM;
	}
	rails->stats.pairs++;
	*added = pair;
	return 0;
}

/* ---- Tickets ---- */

/* -EAGAIN, or the purpose of a ticket that is taken now. */
static int begin(struct otte_rails *rails, struct otte_rail_pair *pair, uint64_t now_ns,
		 enum otte_rail_purpose *purpose)
{
	*purpose = OTTE_RAIL_TRAFFIC;
	if (pair->state == HEALTHY)
		return 0;
	if (pair->state == TRIED || now_ns < trial_due_ns(pair))
		return -EAGAIN;
	pair->probe_was_due_ns = pair->probe_due_ns;
	if (now_ns >= pair->paused_until_ns) {
		*purpose = OTTE_RAIL_HALF_OPEN;
	} else {
		*purpose = OTTE_RAIL_PROBE;
		pair->probe_due_ns = later(now_ns, rails->config.probe_interval_ns);
	}
	move(rails, pair, TRIED);
	return 0;
}

int otte_rails_admit(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns,
		     struct otte_rail_ticket *ticket)
{
	struct otte_rail_pair *pair;
	int ret = 0;

	HASH_FIND(hh, rails->table, rail, sizeof(*rail), pair);
	if (!pair)
		ret = add(rails, rail, now_ns, &pair);
	else if (pair->state == HEALTHY && !pair->tickets)
		DL_DELETE(rails->idle, pair);
	if (!ret)
		ret = begin(rails, pair, now_ns, &ticket->purpose);
	if (ret)
		return ret;
	pair->tickets++;
	ticket->pair = pair;
	ticket->generation = rails->generation[rail->local];
	return 0;
}

/* The last use of the ticket's pair. */
static void give_back(struct otte_rails *rails, struct otte_rail_pair *pair)
{
	if (--pair->tickets)
		return;
	if (pair->forgotten)
		drop(rails, pair);
	else if (pair->state == HEALTHY)
		DL_APPEND(rails->idle, pair);
}

static bool is_trial(const struct otte_rail_ticket *ticket)
{
	return ticket->purpose != OTTE_RAIL_TRAFFIC;
}

void otte_rails_cancel(struct otte_rails *rails, const struct otte_rail_ticket *ticket)
{
	struct otte_rail_pair *pair = ticket->pair;

	if (is_trial(ticket) && !pair->forgotten) {
		pair->probe_due_ns = pair->probe_was_due_ns;
		move(rails, pair, PAUSED);
	}
	give_back(rails, pair);
}

/* What is told is of the port and the epoch of now; if not, a trial is over without a result. */
static bool counts(struct otte_rails *rails, const struct otte_rail_ticket *ticket)
{
	struct otte_rail_pair *pair = ticket->pair;
	struct otte_rail_counters *nic = nic_of(rails, pair);

	if (is_trial(ticket)) {
		rails->stats.total.probes++;
		nic->probes++;
	}
	if (!pair->forgotten && ticket->generation == rails->generation[pair->rail.local])
		return true;
	rails->stats.total.fenced++;
	nic->fenced++;
	if (is_trial(ticket) && !pair->forgotten)
		move(rails, pair, PAUSED);
	return false;
}

void otte_rails_succeed(struct otte_rails *rails, const struct otte_rail_ticket *ticket)
{
	if (counts(rails, ticket) && is_trial(ticket))
		recover(rails, ticket->pair);
	give_back(rails, ticket->pair);
}

/* Those that are too old, or of another port, go. */
static void remember_failure(const struct otte_rails *rails, struct otte_rail_pair *pair,
			     uint64_t now_ns)
{
	uint64_t generation = rails->generation[pair->rail.local];
	uint32_t old = 0;

	if (pair->generation != generation)
		pair->failures = 0;
	pair->generation = generation;
	while (old < pair->failures && now_ns > pair->failed_ns[old] &&
	       now_ns - pair->failed_ns[old] > rails->config.error_window_ns)
		old++;
	pair->failures -= old;
	memmove(pair->failed_ns, pair->failed_ns + old,
		pair->failures * sizeof(pair->failed_ns[0]));
	pair->failed_ns[pair->failures++] = now_ns;
}

static void failed_traffic(struct otte_rails *rails, struct otte_rail_pair *pair, uint64_t now_ns)
{
	/* Sent before the pause began, which says no more than what began it. */
	if (pair->state != HEALTHY)
		return;
	remember_failure(rails, pair, now_ns);
	if (pair->failures < rails->config.error_threshold)
		return;
	pair->failures = 0;
	pause_for(rails, pair, now_ns, rails->config.cooldown_ns);
}

static void failed_half_open(struct otte_rails *rails, struct otte_rail_pair *pair, uint64_t now_ns)
{
	uint64_t twice_ns = later(pair->cooldown_ns, pair->cooldown_ns);

	pause_for(rails, pair, now_ns, min_u64(twice_ns, rails->config.cooldown_max_ns));
}

void otte_rails_fail(struct otte_rails *rails, const struct otte_rail_ticket *ticket,
		     uint64_t now_ns)
{
	struct otte_rail_pair *pair = ticket->pair;

	if (counts(rails, ticket)) {
		rails->stats.total.errors++;
		nic_of(rails, pair)->errors++;
		if (ticket->purpose == OTTE_RAIL_TRAFFIC)
			failed_traffic(rails, pair, now_ns);
		else if (ticket->purpose == OTTE_RAIL_PROBE)
			move(rails, pair, PAUSED);
		else
			failed_half_open(rails, pair, now_ns);
	}
	give_back(rails, pair);
}

void otte_rails_condemn(struct otte_rails *rails, const struct otte_rail_ticket *ticket,
			uint64_t now_ns)
{
	struct otte_rail_pair *pair = ticket->pair;

	if (is_trial(ticket) || pair->state != HEALTHY || pair->forgotten ||
	    ticket->generation != rails->generation[pair->rail.local]) {
		otte_rails_fail(rails, ticket, now_ns);
		return;
	}
	rails->stats.total.errors++;
	nic_of(rails, pair)->errors++;
	pair->failures = 0;
	pause_for(rails, pair, now_ns, rails->config.cooldown_ns);
	give_back(rails, pair);
}

/* ---- What the monitor knows ---- */

void otte_rails_port_changed(struct otte_rails *rails, uint32_t local)
{
	rails->generation[local]++;
}

static void forget(struct otte_rails *rails, struct otte_rail_pair *pair)
{
	HASH_DEL(rails->table, pair);
	if (pair->state != HEALTHY)
		move(rails, pair, HEALTHY);
	else if (!pair->tickets)
		DL_DELETE(rails->idle, pair);
	pair->forgotten = true;
	if (!pair->tickets)
		drop(rails, pair);
}

void otte_rails_forget(struct otte_rails *rails, uint64_t peer)
{
	struct otte_rail_pair *pair, *next;

	HASH_ITER(hh, rails->table, pair, next) {
		if (pair->rail.peer == peer)
			forget(rails, pair);
	}
}

void otte_rails_stats(const struct otte_rails *rails, struct otte_rails_stats *stats)
{
	*stats = rails->stats;
}
