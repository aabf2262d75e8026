/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which rails a peer's requests take, and what became of what was sent over them.
 *
 * A rail is likely to lead somewhere if it is a direct one, of two hosts with as many NICs. It is
 * trusted as long as nothing on it has failed, if it is a likely one; or once something has passed
 * it. The payload of a request goes over trusted rails alone. All others, and those whose pause is
 * to be tried, are probed first, by a READ or WRITE of no bytes: the peer's NIC answers it, without
 * a key and without its host. So it costs no request its bytes, no WRITE its known effect and
 * nobody a loan to find out where a rail leads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/rdma/endpoint.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/routes.h"
#include "transport/rdma/selector.h"

/* ---- Life ---- */

static int open_rails(struct otte_rdma *rdma)
{
	const struct otte_config *config = rdma->env.config;
	struct otte_rails_config rails;
	int ret;

	otte_rails_config_init(&rails);
	rails.topology = config->rdma_rail_topology == OTTE_RAIL_DIRECT ? OTTE_RAILS_DIRECT :
									  OTTE_RAILS_ALL;
	rails.max_pairs = config->rdma_max_rail_pairs;
	rails.error_threshold = config->rdma_rail_error_threshold;
	rails.error_window_ns = config->rdma_rail_error_window_ns;
	rails.cooldown_ns = config->rdma_rail_cooldown_ns;
	rails.cooldown_max_ns = max_u64(rails.cooldown_max_ns, rails.cooldown_ns);
	rails.probe_interval_ns = config->rdma_rail_probe_interval_ns;
	ret = otte_rails_create(&rails, &rdma->rails);
	return ret == -ENOMEM ? otte_fail(ret, "no memory for rails") : ret;
}

int otte_rdma_rails_open(struct otte_rdma *rdma)
{
	int ret = open_rails(rdma);

	if (!ret)
		ret = otte_rdma_selector_open(rdma);
	if (ret)
		otte_rdma_rails_close(rdma);
	return ret;
}

void otte_rdma_rails_close(struct otte_rdma *rdma)
{
	otte_rdma_selector_close(rdma);
	otte_rails_destroy(rdma->rails);
	rdma->rails = NULL;
}

void otte_rdma_rails_rate(struct otte_rdma *rdma, unsigned int nic, uint64_t bytes_per_s)
{
	if (!rdma->env.config->rdma_link_rate_mbps)
		otte_devices_set_rate(rdma->devices, nic, bytes_per_s);
}

/* ---- Where they lead ---- */

static bool may_reach(const struct otte_rdma_path *local, const struct otte_rdma_path *remote)
{
	return local->active && remote->active && local->ethernet == remote->ethernet &&
	       local->gid_type == remote->gid_type;
}

/* Direct: of two NICs that stand at the same place of either list. */
static void find_reach(const struct otte_rdma_paths *ours, const struct otte_rdma_paths *theirs,
		       struct otte_rail_paths *reach)
{
	uint32_t i, j;

	zero_bytes(reach, sizeof(*reach));
	for (i = 0; i < ours->count; i++) {
		for (j = 0; j < theirs->count; j++) {
			const struct otte_rdma_path *local = &ours->rows[i],
						    *remote = &theirs->rows[j];

			if (!may_reach(local, remote))
				continue;
			reach->compatible[local->nic] |= 1ull << remote->nic;
			if (i == j)
				reach->direct[local->nic] |= 1ull << remote->nic;
		}
	}
}

void otte_rdma_peer_look_again(struct otte_rdma_peer *peer)
{
	uint64_t before, mask = otte_rdma_selector_mask(peer->rdma->env.config);
	struct otte_rdma_paths ours;
	unsigned int i;

	otte_rdma_fill_paths(peer->rdma, &ours);
	find_reach(&ours, &peer->paths, &peer->reach);
	peer->nics = 0;
	for (i = 0; i < OTTE_NIC_IDS; i++) {
		peer->nics |= ((uint64_t) !!peer->reach.compatible[i] << i) & mask;
		before = peer->likely[i];
		peer->likely[i] = ours.count == peer->paths.count ? peer->reach.direct[i] : 0;
		peer->trusted[i] |= peer->likely[i] & ~before;
	}
}

void otte_rdma_peer_meet(struct otte_rdma_peer *peer)
{
	peer->epoch = atomic_fetch_add(&peer->rdma->last_epoch, 1) + 1;
	memset(peer->likely, 0, sizeof(peer->likely));
	memset(peer->trusted, 0, sizeof(peer->trusted));
	memset(peer->carried, 0, sizeof(peer->carried));
	otte_rdma_peer_look_again(peer);
}

static void count_rails_of(struct otte_rdma_rail_counts *counts,
			   const struct otte_rail_counters *now)
{
	atomic_store(&counts->paused, now->paused);
	atomic_store(&counts->pauses, now->pauses);
	atomic_store(&counts->errors, now->errors);
	atomic_store(&counts->probes, now->probes);
	atomic_store(&counts->recoveries, now->recoveries);
}

/* Under the lock, so that nobody's older counts come last. */
static void count_rails(struct otte_rdma *rdma)
{
	struct otte_rails_stats stats;
	unsigned int nic;

	otte_rails_stats(rdma->rails, &stats);
	atomic_store(&rdma->rails_paused, stats.total.paused);
	atomic_store(&rdma->rail_errors, stats.total.errors);
	atomic_store(&rdma->rail_probes, stats.total.probes);
	atomic_store(&rdma->rail_recoveries, stats.total.recoveries);
	for (nic = 0; nic < OTTE_NIC_IDS; nic++)
		if (rdma->pollers[nic].context)
			count_rails_of(&rdma->rails_of[nic], &stats.nic[nic]);
}

void otte_rdma_peer_part(struct otte_rdma_peer *peer)
{
	struct otte_rdma *rdma = peer->rdma;

	pthread_mutex_lock(&rdma->rails_lock);
	otte_rails_forget(rdma->rails, peer->epoch);
	count_rails(rdma);
	pthread_mutex_unlock(&rdma->rails_lock);
}

void otte_rdma_peer_port_changed(struct otte_rdma_peer *peer, unsigned int nic)
{
	if (peer->state != OTTE_RDMA_PEER_READY)
		return;
	otte_rdma_endpoints_fence(peer, nic);
	otte_rdma_peer_look_again(peer);
	peer->trusted[nic] = peer->likely[nic];
	peer->carried[nic] = 0;
}

void otte_rdma_rails_port_changed(struct otte_rdma *rdma, unsigned int nic)
{
	pthread_mutex_lock(&rdma->rails_lock);
	otte_rails_port_changed(rdma->rails, nic);
	pthread_mutex_unlock(&rdma->rails_lock);
}

/* ---- What became of it ---- */

int otte_rdma_rail_admit(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic,
			 uint64_t now_ns, struct otte_rail_ticket *ticket)
{
	const struct otte_rail rail = { .peer = peer->epoch, .local = nic, .remote = remote_nic };
	struct otte_rdma *rdma = peer->rdma;
	int ret;

	pthread_mutex_lock(&rdma->rails_lock);
	ret = otte_rails_admit(rdma->rails, &rail, now_ns, ticket);
	pthread_mutex_unlock(&rdma->rails_lock);
	return ret;
}

void otte_rdma_rail_cancel(struct otte_rdma_peer *peer, const struct otte_rail_ticket *ticket)
{
	struct otte_rdma *rdma = peer->rdma;

	pthread_mutex_lock(&rdma->rails_lock);
	otte_rails_cancel(rdma->rails, ticket);
	pthread_mutex_unlock(&rdma->rails_lock);
}

void otte_rdma_rail_succeed(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic,
			    const struct otte_rail_ticket *ticket)
{
	struct otte_rdma *rdma = peer->rdma;

	peer->trusted[nic] |= 1ull << remote_nic;
	peer->carried[nic] |= 1ull << remote_nic;
	pthread_mutex_lock(&rdma->rails_lock);
	otte_rails_succeed(rdma->rails, ticket);
	if (ticket->purpose != OTTE_RAIL_TRAFFIC)
		count_rails(rdma);
	pthread_mutex_unlock(&rdma->rails_lock);
}

bool otte_rdma_blames_rail(int code)
{
	switch (code) {
	case -ETIMEDOUT: /* nothing has answered */
	case -EIO:
	case -ENETUNREACH:
	case -EHOSTUNREACH:
	case -EINVAL: /* an address that the NIC does not take */
		return true;
	default:
		return false;
	}
}

void otte_rdma_rail_fail(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic,
			 const struct otte_rail_ticket *ticket)
{
	struct otte_rdma *rdma = peer->rdma;
	uint64_t bit = 1ull << remote_nic;

	peer->trusted[nic] &= ~bit;
	pthread_mutex_lock(&rdma->rails_lock);
	/* One that was never more than a guess is not tried so often. */
	if ((peer->carried[nic] | peer->likely[nic]) & bit)
		otte_rails_fail(rdma->rails, ticket, otte_now_ns());
	else
		otte_rails_condemn(rdma->rails, ticket, otte_now_ns());
	count_rails(rdma);
	pthread_mutex_unlock(&rdma->rails_lock);
}

/* ---- Probes ---- */

static struct otte_rdma_probe *find_probe(const struct otte_rdma_peer *peer, unsigned int nic,
					  unsigned int remote_nic)
{
	struct otte_rdma_probe *probe;

	DL_FOREACH(peer->probes, probe)
		if (probe->endpoint->nic == nic && probe->endpoint->remote_nic == remote_nic &&
		    probe->state != OTTE_RDMA_PROBE_OVER)
			return probe;
	return NULL;
}

bool otte_rdma_probes_are_under_way(const struct otte_rdma_peer *peer)
{
	const struct otte_rdma_probe *probe;

	DL_FOREACH(peer->probes, probe)
		if (probe->state != OTTE_RDMA_PROBE_OVER)
			return true;
	return false;
}

/* What came of it; it stays while its WR may still complete. */
static void conclude(struct otte_rdma_probe *probe, int code)
{
	const struct otte_rdma_endpoint *endpoint = probe->endpoint;
	struct otte_rdma_peer *peer = endpoint->peer;

	if (!code)
		otte_rdma_rail_succeed(peer, endpoint->nic, endpoint->remote_nic, &probe->ticket);
	else if (otte_rdma_blames_rail(code))
		otte_rdma_rail_fail(peer, endpoint->nic, endpoint->remote_nic, &probe->ticket);
	else
		otte_rdma_rail_cancel(peer, &probe->ticket);
	probe->state = OTTE_RDMA_PROBE_OVER;
	peer->worker->busy = true;
}

static void free_probe(struct otte_rdma_probe *probe)
{
	DL_DELETE(probe->endpoint->peer->probes, probe);
	free(probe);
}

static void probe_done(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct otte_rdma_probe *probe = container_of(work, struct otte_rdma_probe, work);

	otte_rdma_pair_hear(probe->pair);
	probe->charged = false;
	/* What has failed its pair tells, which fails with it. */
	if (probe->state != OTTE_RDMA_PROBE_OVER && !outcome->code) {
		otte_rdma_endpoint_succeeded(probe->endpoint);
		conclude(probe, 0);
	}
	if (probe->state == OTTE_RDMA_PROBE_OVER)
		free_probe(probe);
}

/* Where it cannot begin it is tried with another request. */
static void begin_probe(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic,
			uint8_t op, uint64_t now_ns)
{
	struct otte_rdma_probe *probe;

	if (find_probe(peer, nic, remote_nic))
		return;
	probe = calloc(1, sizeof(*probe));
	if (!probe)
		return;
	if (otte_rdma_endpoint_get(peer, nic, remote_nic, op, &probe->endpoint) ||
	    otte_rdma_rail_admit(peer, nic, remote_nic, now_ns, &probe->ticket)) {
		free(probe);
		return;
	}
	probe->work.done = probe_done;
	DL_APPEND(peer->probes, probe);
	peer->worker->busy = true;
}

/* 0: posted; 1: there is no room now. */
static int post(struct otte_rdma_probe *probe, struct otte_rdma_pair *pair)
{
	const struct otte_rdma_send send = {
		.op = pair->op == OTTE_READ ? OTTE_RDMA_READ : OTTE_RDMA_WRITE,
		.empty = true,
		.work = &probe->work,
	};
	uint32_t accepted = 0;
	int ret;

	probe->pair = pair;
	ret = otte_rdma_pair_post(pair, &send, 1, &accepted);
	if (ret == -EAGAIN)
		return 1;
	probe->charged = accepted;
	probe->state = OTTE_RDMA_PROBE_POSTED;
	if (ret)
		pair->failed(pair, ret);
	return 0;
}

static void go_on_with(struct otte_rdma_peer *peer, struct otte_rdma_probe *probe, uint64_t now_ns)
{
	struct otte_rdma_pair *pair;
	int ret = -ECONNRESET;

	if (probe->state == OTTE_RDMA_PROBE_CONNECTING) {
		if (peer->state == OTTE_RDMA_PEER_READY)
			ret = otte_rdma_endpoint_pick(probe->endpoint, now_ns, &pair);
		if (!ret)
			ret = post(probe, pair);
		if (ret < 0)
			conclude(probe, ret);
	}
	if (probe->state == OTTE_RDMA_PROBE_OVER && !probe->charged)
		free_probe(probe);
}

void otte_rdma_probes_go_on(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	struct otte_rdma_probe *probe, *next;

	DL_FOREACH_SAFE(peer->probes, probe, next)
		go_on_with(peer, probe, now_ns);
}

void otte_rdma_rail_blame(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair,
			  bool unsaid, int code)
{
	struct otte_rdma_probe *probe = find_probe(peer, pair->nic, pair->remote_nic);
	struct otte_rail_ticket ticket;

	/* Given up here, by a deadline: it may be slow, or dead. A probe says which. */
	if (code == -ECANCELED)
		peer->trusted[pair->nic] &= ~(1ull << pair->remote_nic);
	if (probe && (!probe->pair || probe->pair == pair)) {
		conclude(probe, code);
		return;
	}
	/* Paused, or tried: who tries it says what came of that. */
	if (!unsaid ||
	    otte_rdma_rail_admit(peer, pair->nic, pair->remote_nic, otte_now_ns(), &ticket))
		return;
	if (ticket.purpose == OTTE_RAIL_TRAFFIC)
		otte_rdma_rail_fail(peer, pair->nic, pair->remote_nic, &ticket);
	else
		otte_rdma_rail_cancel(peer, &ticket);
}

/* ---- The choice ---- */

struct search {
	struct otte_rdma_peer *peer;
	const struct otte_rdma_wanted *wanted;
	uint64_t now_ns;
	int blocked; /* what holds one off that would do */
};

/* Of these remote NICs the first that a pair may be made to, direct ones before others; or -1. */
static int first_open(struct search *search, unsigned int nic, uint64_t remotes)
{
	const struct otte_rdma_peer *peer = search->peer;
	uint64_t direct = remotes & peer->reach.direct[nic], left;
	const struct otte_rdma_endpoint *endpoint;
	int remote;

	for (left = direct ? direct : remotes; left; left &= left - 1) {
		remote = __builtin_ctzll(left);
		endpoint = otte_rdma_endpoint_find(peer, nic, (unsigned int)remote,
						   search->wanted->op);
		if (!endpoint ||
		    !otte_rdma_endpoint_is_blocked(endpoint, search->now_ns, &search->blocked))
			return remote;
	}
	return direct && direct != remotes ? first_open(search, nic, remotes & ~direct) : -1;
}

/* Unlike ones only where the like one is paused, or is none: one that is held off will be back. */
static uint64_t untried(const struct otte_rdma_peer *peer, unsigned int nic,
			const struct otte_rails_allowed *allowed)
{
	uint64_t like = allowed->healthy[nic] & peer->reach.direct[nic];

	return like ? like : allowed->healthy[nic];
}

static void choose_of(struct search *search, unsigned int nic,
		      const struct otte_rails_allowed *allowed, struct otte_rdma_choice *choice)
{
	const struct otte_rdma_endpoint *but = search->wanted->but;
	uint64_t trusted = allowed->healthy[nic] & search->peer->trusted[nic], usable = trusted;
	int remote, probe;

	if (but && but->nic == nic)
		usable &= ~(1ull << but->remote_nic);
	remote = first_open(search, nic, usable);
	if (remote >= 0) {
		choice->nics |= 1ull << nic;
		choice->remote[nic] = (uint8_t)remote;
	}
	probe = first_open(search, nic, allowed->trial[nic]);
	if (probe < 0 && remote < 0)
		probe = first_open(search, nic, untried(search->peer, nic, allowed) & ~trusted);
	if (probe >= 0)
		begin_probe(search->peer, nic, (unsigned int)probe, search->wanted->op,
			    search->now_ns);
}

static int nothing_there(struct search *search)
{
	if (otte_rdma_probes_are_under_way(search->peer))
		return 1;
	if (search->blocked == -EUCLEAN)
		return otte_fail(-EUCLEAN, "all queue pairs of the peer stay, and none is of use");
	if (search->blocked)
		return otte_fail(search->blocked, "no queue pair to the peer, for a while");
	return otte_fail(-ENETUNREACH, "no rail to the peer can be tried now");
}

int otte_rdma_rails_choose(struct otte_rdma_peer *peer, const struct otte_rdma_wanted *wanted,
			   uint64_t now_ns, struct otte_rdma_choice *choice)
{
	struct search search = { .peer = peer, .wanted = wanted, .now_ns = now_ns };
	struct otte_rails_allowed allowed;
	uint64_t left;
	int ret;

	choice->nics = 0;
	if (wanted->op == OTTE_READ && !peer->rdma->env.config->rdma_rd_atomic)
		return otte_fail(-EOPNOTSUPP, "rdma.rd_atomic is 0: no READ goes by RDMA");
	pthread_mutex_lock(&peer->rdma->rails_lock);
	ret = otte_rails_allowed(peer->rdma->rails, peer->epoch, &peer->reach, wanted->nics, now_ns,
				 &allowed);
	pthread_mutex_unlock(&peer->rdma->rails_lock);
	if (ret && otte_rdma_probes_are_under_way(peer))
		return 1;
	if (ret)
		return ret;
	for (left = allowed.locals; left; left &= left - 1)
		choose_of(&search, (unsigned int)__builtin_ctzll(left), &allowed, choice);
	return choice->nics ? 0 : nothing_there(&search);
}
