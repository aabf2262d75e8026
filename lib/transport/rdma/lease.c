/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/lease.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/rdma/endpoint.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/parent.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/use.h"

/* Those that are to be renewed sooner are looked at often. */
#define SHORT_IDLE_NS (4 * NSEC_PER_SEC)
/* A lease that was refused is asked for again. */
#define REFUSED_NS NSEC_PER_SEC

static bool is_late(uint64_t since_ns, uint64_t limit_ns, uint64_t now_ns)
{
	return now_ns - min_u64(now_ns, since_ns) >= limit_ns;
}

/* ---- Leases ---- */

static void free_lease(struct otte_rdma_lease *lease)
{
	struct otte_rdma_peer *peer = lease->peer;

	otte_rdma_uses_forget_lease(lease);
	if (lease->state != OTTE_RDMA_LEASE_NONE)
		peer->lease_count--;
	DL_DELETE(peer->leases, lease);
	free(lease);
}

static void say(struct otte_rdma_lease *lease, uint16_t type)
{
	const struct otte_rdma_message message = {
		.type = type,
		.leasing = {
			.lease = lease->id,
			.requests = lease->requests,
			.bytes = lease->bytes,
		},
	};

	lease->requests = lease->bytes = 0;
	otte_rdma_peer_say(lease->peer, &message);
}

/* Nothing more is posted by it. */
static void leave(struct otte_rdma_lease *lease)
{
	if (lease->state == OTTE_RDMA_LEASE_HELD)
		lease->state = OTTE_RDMA_LEASE_LEAVING;
	if (lease->state != OTTE_RDMA_LEASE_LEAVING || lease->uses)
		return;
	lease->state = OTTE_RDMA_LEASE_RETURNED;
	say(lease, OTTE_RDMA_MSG_RETURN);
}

bool otte_rdma_lease_is_wanted(const struct otte_work *work)
{
	return work->lease > OTTE_LEASE_OFF && !work->own.unleased && !work->own.moved &&
	       work->published && work->published->buffer;
}

/* What is left of a work lies in it. */
static bool covers(const struct otte_rdma_lease *lease, const struct otte_work *work)
{
	return lease->op == work->op && lease->region == work->region &&
	       lease->epoch == work->epoch && lease->offset <= work->offset &&
	       work->offset - lease->offset <= lease->length &&
	       work->length <= lease->length - (work->offset - lease->offset);
}

static struct otte_rdma_lease *find(const struct otte_rdma_peer *peer, const struct otte_work *work)
{
	struct otte_rdma_lease *lease;

	DL_FOREACH(peer->leases, lease)
		if (covers(lease, work))
			return lease;
	return NULL;
}

/* It is not sure that the source has not ended it meanwhile, and would have told us. */
static bool is_over(const struct otte_rdma_lease *lease, uint64_t now_ns)
{
	return lease->state != OTTE_RDMA_LEASE_HELD ||
	       is_late(lease->since_ns, lease->idle_ns, now_ns);
}

/* Its region may have been registered when the NIC was not to be had. */
static bool is_known(const struct otte_work *work, unsigned int nic)
{
	return work->published->buffer->by_nic[nic].local.state == OTTE_RDMA_MR_LIVE;
}

static bool is_usable(const struct otte_rdma_lease *lease, const struct otte_work *work,
		      uint64_t now_ns)
{
	return !is_over(lease, now_ns) && is_known(work, lease->pair->nic);
}

struct otte_rdma_lease *otte_rdma_lease_find(const struct otte_rdma_peer *peer,
					     const struct otte_work *work, uint64_t now_ns)
{
	struct otte_rdma_lease *lease = find(peer, work);

	return lease && is_usable(lease, work, now_ns) ? lease : NULL;
}

void otte_rdma_lease_use(struct otte_rdma_lease *lease)
{
	struct otte_rdma_peer *peer = lease->peer;

	lease->uses++;
	lease->used = true;
	if (peer->leases == lease)
		return;
	DL_DELETE(peer->leases, lease);
	DL_PREPEND(peer->leases, lease);
}

void otte_rdma_lease_count(struct otte_rdma_lease *lease, uint64_t bytes)
{
	lease->requests++;
	lease->bytes += bytes;
}

void otte_rdma_lease_put(struct otte_rdma_lease *lease)
{
	lease->uses--;
	if (lease->state == OTTE_RDMA_LEASE_LEAVING)
		leave(lease);
}

/* ---- The queue's first ---- */

/*
 * Others put works into the queue, and take them away, whenever they like: what is found out about
 * the first one holds as long as that is the first.
 */
static const struct otte_work *look_at_first(struct otte_rdma_peer *peer)
{
	const struct otte_work *first;

	pthread_mutex_lock(&peer->lock);
	first = peer->queue;
	pthread_mutex_unlock(&peer->lock);
	return first;
}

static int begin_held(struct otte_rdma_peer *peer, const struct otte_work *first, uint64_t now_ns)
{
	struct otte_rdma_lease *lease = NULL;
	struct otte_rdma_use *use = NULL;
	struct otte_work *work;
	int ret = -ENOENT;

	pthread_mutex_lock(&peer->lock);
	work = peer->queue;
	if (work == first && otte_rdma_lease_is_wanted(work))
		lease = find(peer, work);
	if (work != first) {
		ret = 0;
	} else if (lease && lease->state == OTTE_RDMA_LEASE_ASKED) {
		ret = 1;
	} else if (lease && is_usable(lease, work, now_ns)) {
		ret = 1;
		if (otte_rdma_uses_leave_room(peer, lease->pair) && !otte_rdma_poll_producer(work))
			use = otte_rdma_use_make(lease, work);
		if (use) {
			DL_DELETE2(peer->queue, work, own.prev, own.next);
			DL_APPEND2(peer->running, work, own.prev, own.next);
			ret = 0;
		}
	}
	pthread_mutex_unlock(&peer->lock);
	if (use)
		otte_rdma_use_start(use);
	return ret;
}

/* ---- What is asked and answered ---- */

/* The one that was not used for longest is given back, and its place is free soon. */
static void make_room(struct otte_rdma_peer *peer)
{
	struct otte_rdma_lease *lease, *last = NULL;

	DL_FOREACH(peer->leases, lease)
		if (lease->state == OTTE_RDMA_LEASE_HELD && !lease->uses)
			last = lease;
	if (last)
		leave(last);
}

static bool is_full(const struct otte_rdma_peer *peer)
{
	return peer->lease_count >=
	       min_u64(peer->rdma->env.config->rdma_leases, peer->paths.leases);
}

static void fill_range(struct otte_rdma_lease *lease, const struct otte_work *work)
{
	bool whole = work->lease == OTTE_LEASE_REGION && work->region_length;

	lease->op = work->op;
	lease->epoch = work->epoch;
	lease->region = work->region;
	lease->offset = whole ? 0 : work->offset;
	lease->length = whole ? work->region_length : work->length;
}

static void ask_for(struct otte_rdma_lease *lease, const struct otte_rdma_ask *as)
{
	struct otte_rdma_message message = { .type = OTTE_RDMA_MSG_LEASE, .ask = *as };

	message.ask.ask = lease->ask;
	message.ask.connection = lease->pair->connection;
	otte_rdma_peer_say(lease->peer, &message);
}

/* Of ours, that which has fewest leases, as far as it is near. */
static unsigned int choose_nic(const struct otte_rdma_peer *peer, uint64_t nics,
			       struct otte_location location)
{
	const struct otte_rdma_lease *lease;
	unsigned int nic, best = 0, count;
	double score, least = HUGE_VAL;
	uint64_t left;

	for (left = nics; left; left &= left - 1) {
		nic = (unsigned int)__builtin_ctzll(left);
		count = 0;
		DL_FOREACH(peer->leases, lease)
			count += lease->pair && lease->pair->nic == nic;
		score = (count + 1) * otte_devices_weight(peer->rdma->devices, location, nic);
		if (score < least) {
			least = score;
			best = nic;
		}
	}
	return best;
}

/* 0; 1: later; negative: not by a lease, as what is granted once finds out, too. */
static int choose_pair(struct otte_rdma_peer *peer, const struct otte_rdma_plan *wish,
		       uint64_t now_ns, struct otte_rdma_pair **pair)
{
	struct otte_rdma_endpoint *endpoint;
	struct otte_rdma_choice choice;
	unsigned int nic;
	int ret;

	ret = otte_rdma_rails_choose(peer, &wish->wanted, now_ns, &choice);
	if (ret)
		return -ENETUNREACH;
	nic = choose_nic(peer, choice.nics, wish->location);
	ret = otte_rdma_endpoint_get(peer, nic, choice.remote[nic], wish->wanted.op, &endpoint);
	return ret ? ret : otte_rdma_endpoint_pick(endpoint, now_ns, pair);
}

/* Under peer->lock: what the first one would have leased, if that is not there, nor asked for. */
static bool plan(const struct otte_rdma_peer *peer, const struct otte_work *first,
		 struct otte_rdma_plan *wish, struct otte_rdma_lease *like,
		 struct otte_rdma_ask *ask)
{
	struct otte_work *work = peer->queue;

	if (work != first || !otte_rdma_lease_is_wanted(work) || find(peer, work) ||
	    otte_rdma_peer_is_celled(peer, work->region))
		return false;
	otte_rdma_plan(peer, work, wish);
	fill_range(like, work);
	*ask = (struct otte_rdma_ask){
		.epoch = like->epoch,
		.region = like->region,
		.offset = like->offset,
		.length = like->length,
		.op = like->op,
		.priority = work->priority,
		.intent = work->intent,
	};
	return true;
}

static bool make(struct otte_rdma_peer *peer, const struct otte_rdma_lease *like,
		 struct otte_rdma_pair *pair, const struct otte_rdma_ask *ask)
{
	struct otte_rdma_lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return false;
	*lease = *like;
	lease->peer = peer;
	lease->pair = pair;
	lease->ask = ++peer->last_ask;
	lease->since_ns = otte_now_ns();
	peer->lease_count++;
	DL_PREPEND(peer->leases, lease);
	ask_for(lease, ask);
	return true;
}

/* The first of the queue waits: for a lease that is asked for, or for a pair to ask for one on. */
static bool ask_for_first(struct otte_rdma_peer *peer, const struct otte_work *first,
			  uint64_t now_ns)
{
	struct otte_rdma_lease like = { .state = OTTE_RDMA_LEASE_ASKED };
	struct otte_rdma_plan wish = {};
	struct otte_rdma_pair *pair;
	struct otte_rdma_ask ask;
	bool wanted;
	int ret;

	pthread_mutex_lock(&peer->lock);
	wanted = plan(peer, first, &wish, &like, &ask);
	pthread_mutex_unlock(&peer->lock);
	if (!wanted)
		return false;
	if (is_full(peer)) {
		make_room(peer);
		return false;
	}
	ret = choose_pair(peer, &wish, now_ns, &pair);
	return ret > 0 || (!ret && make(peer, &like, pair, &ask));
}

int otte_rdma_lease_begin(struct otte_rdma_peer *peer, uint64_t now_ns,
			  const struct otte_work **first)
{
	int ret;

	*first = look_at_first(peer);
	if (!*first)
		return 1;
	ret = begin_held(peer, *first, now_ns);
	return ret == -ENOENT && ask_for_first(peer, *first, now_ns) ? 1 : ret;
}

static struct otte_rdma_lease *find_asked(struct otte_rdma_peer *peer, uint64_t ask)
{
	struct otte_rdma_lease *lease;

	DL_FOREACH(peer->leases, lease)
		if (lease->ask == ask && lease->state == OTTE_RDMA_LEASE_ASKED)
			return lease;
	return NULL;
}

int otte_rdma_lease_given(struct otte_rdma_peer *peer, const struct otte_rdma_leased *leased)
{
	struct otte_rdma_lease *lease = find_asked(peer, leased->ask);

	if (!lease)
		return 0; /* of a pair that was closed meanwhile */
	if (leased->qpn != lease->pair->remote_qpn)
		return otte_fail(-EPROTO, "a lease on a queue pair that nobody named");
	lease->id = leased->lease;
	lease->address = leased->address;
	lease->key = leased->key;
	lease->idle_ns = (uint64_t)leased->idle_ms * NSEC_PER_MSEC;
	/* It stands since it was asked for, as far as we know. */
	lease->state = OTTE_RDMA_LEASE_HELD;
	lease->used = true;
	return 0;
}

bool otte_rdma_lease_refused(struct otte_rdma_peer *peer, const struct otte_rdma_answer *answer)
{
	struct otte_rdma_lease *lease = find_asked(peer, answer->ask);

	if (!lease)
		return false;
	if (answer->status == OTTE_RDMA_WANTS_CELL)
		otte_rdma_peer_note_celled(peer, lease->region);
	otte_fail(answer->status, "the peer does not lease it");
	otte_log(OTTE_LOG_DEBUG, "peer %s: %s", peer->source.name, otte_error_text());
	lease->state = OTTE_RDMA_LEASE_NONE;
	lease->pair = NULL;
	lease->since_ns = otte_now_ns();
	peer->lease_count--;
	return true;
}

static struct otte_rdma_lease *find_given(struct otte_rdma_peer *peer, uint64_t id)
{
	struct otte_rdma_lease *lease;

	DL_FOREACH(peer->leases, lease)
		if (lease->id == id && lease->state != OTTE_RDMA_LEASE_ASKED &&
		    lease->state != OTTE_RDMA_LEASE_NONE)
			return lease;
	return NULL;
}

void otte_rdma_lease_recalled(struct otte_rdma_peer *peer, const struct otte_rdma_leasing *leasing)
{
	struct otte_rdma_lease *lease = find_given(peer, leasing->lease);

	if (lease)
		leave(lease);
}

/* What is under way by it is refused by the NIC, and ends with its pair. */
void otte_rdma_lease_ended(struct otte_rdma_peer *peer, const struct otte_rdma_leasing *leasing)
{
	struct otte_rdma_lease *lease = find_given(peer, leasing->lease);

	if (lease)
		free_lease(lease);
}

/* ---- Its end without the source ---- */

void otte_rdma_leases_lose(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair)
{
	struct otte_rdma_lease *lease, *next;

	DL_FOREACH_SAFE(peer->leases, lease, next)
		if (lease->pair == pair)
			free_lease(lease);
}

void otte_rdma_leases_forget(struct otte_rdma_peer *peer)
{
	struct otte_rdma_lease *lease, *next;

	DL_FOREACH_SAFE(peer->leases, lease, next)
		free_lease(lease);
}

/* ---- Now and then ---- */

/* Half of its time is over: it is renewed if it was used, else given back. */
static void look_whether_used(struct otte_rdma_lease *lease, uint64_t now_ns)
{
	lease->peer->worker->timed |= lease->idle_ns < SHORT_IDLE_NS;
	if (!is_late(lease->since_ns, lease->idle_ns / 2, now_ns))
		return;
	if (is_over(lease, now_ns) || (!lease->used && !lease->uses)) {
		leave(lease);
		return;
	}
	say(lease, OTTE_RDMA_MSG_RENEW);
	lease->used = false;
	lease->since_ns = now_ns;
}

static void look_at_lease(struct otte_rdma_lease *lease, uint64_t now_ns)
{
	struct otte_rdma_peer *peer = lease->peer;
	uint64_t answer_ns = 2 * peer->rdma->env.config->control_timeout_ns;

	if (lease->state == OTTE_RDMA_LEASE_HELD) {
		look_whether_used(lease, now_ns);
	} else if (lease->state == OTTE_RDMA_LEASE_NONE &&
		   is_late(lease->since_ns, REFUSED_NS, now_ns)) {
		free_lease(lease);
	} else if (lease->state == OTTE_RDMA_LEASE_ASKED &&
		   is_late(lease->since_ns, answer_ns, now_ns)) {
		otte_fail(-ETIMEDOUT, "the peer does not say LEASED (control.timeout_ms)");
		otte_rdma_peer_break(peer, -ETIMEDOUT);
	}
}

void otte_rdma_leases_go_on(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	struct otte_rdma_lease *lease, *next;

	DL_FOREACH_SAFE(peer->leases, lease, next)
		look_at_lease(lease, now_ns);
}
