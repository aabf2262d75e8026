/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Leases that we hold, and requests that move by them.
 *
 * A request that would have a lease waits at the head of the queue until it is answered. By one that is held it
 * is posted at once, on the lease's queue pair, and it is over with the last of its CQEs. A queue pair that
 * fails takes its leases with it; what was under way is told, or goes on without a lease, when everything of it
 * has completed: a READ as a retry, a WRITE not at all, unless nothing of it was posted.
 */
#include "transport/rdma/lease.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/rdma/waiting.h"

/* Those that are to be renewed sooner are looked at often. */
#define SHORT_IDLE_NS (4 * NSEC_PER_SEC)
/* A lease that was refused is asked for again. */
#define REFUSED_NS NSEC_PER_SEC
/* Who waits for a lone request looks for its end himself for so long; then the thread does. */
#define ALONE_NS (2 * NSEC_PER_MSEC)

static bool is_late(uint64_t since_ns, uint64_t limit_ns, uint64_t now_ns)
{
	return now_ns - min_u64(now_ns, since_ns) >= limit_ns;
}

/* ---- Leases ---- */

static void free_lease(struct otte_rdma_lease *lease)
{
	struct otte_rdma_peer *peer = lease->peer;
	struct otte_rdma_use *use;

	DL_FOREACH(peer->uses, use)
		if (use->lease == lease)
			use->lease = NULL;
	if (lease->state != OTTE_RDMA_LEASE_NONE)
		peer->lease_count--;
	DL_DELETE(peer->leases, lease);
	free(lease);
}

static void say(struct otte_rdma_lease *lease, uint16_t type)
{
	const struct otte_rdma_message message = {
		.type = type,
		.leasing = { .lease = lease->id, .requests = lease->requests, .bytes = lease->bytes },
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

/* Whether a request would have one. What is staged is granted, slice by slice. */
static bool wants(const struct otte_work *work)
{
	return work->lease > OTTE_LEASE_OFF && !work->own.unleased && !work->own.moved && work->published &&
	       work->published->buffer;
}

/* What is left of a work lies in it. */
static bool covers(const struct otte_rdma_lease *lease, const struct otte_work *work)
{
	return lease->op == work->op && lease->region == work->region && lease->epoch == work->epoch &&
	       lease->offset <= work->offset && work->offset - lease->offset <= lease->length &&
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
static bool is_over(struct otte_rdma_lease *lease, uint64_t now_ns)
{
	return lease->state != OTTE_RDMA_LEASE_HELD || is_late(lease->since_ns, lease->idle_ns, now_ns);
}

/* ---- Uses ---- */

/* The work leaves the use; nobody cancels it by that any more. */
static struct otte_work *let_go(struct otte_rdma_use *use)
{
	struct otte_rdma_peer *peer = use->peer;
	struct otte_work *work = use->work;

	pthread_mutex_lock(&peer->lock);
	DL_DELETE2(peer->running, work, own.prev, own.next);
	pthread_mutex_unlock(&peer->lock);
	use->work = NULL;
	return work;
}

static void free_use(struct otte_rdma_use *use)
{
	struct otte_rdma_lease *lease = use->lease;

	if (use->over)
		*use->over = true;
	DL_DELETE(use->peer->uses, use);
	free(use);
	if (!lease)
		return;
	lease->uses--;
	if (lease->state == OTTE_RDMA_LEASE_LEAVING)
		leave(lease);
}

static void end(struct otte_rdma_use *use, int code)
{
	struct otte_work *work = let_go(use);

	free_use(use);
	otte_rdma_work_tell(work, code, true);
}

static bool is_under_way(const struct otte_rdma_use *use)
{
	unsigned int i;

	for (i = 0; i < OTTE_RDMA_USE_PIECES; i++)
		if (use->pieces[i].bytes)
			return true;
	return false;
}

/*
 * Before all but those of a higher priority, and by no lease; who wanted its end meanwhile is heard.
 * A peer that is DOWN has no queue.
 */
static void go_another_way(struct otte_rdma_use *use, int code)
{
	struct otte_rdma_peer *peer = use->peer;
	struct otte_work *work = use->work;
	bool down = peer->state != OTTE_RDMA_PEER_READY;
	int abandon;

	use->work = NULL;
	work->own.unleased = true;
	pthread_mutex_lock(&peer->lock);
	DL_DELETE2(peer->running, work, own.prev, own.next);
	abandon = atomic_load(&work->own.abandon);
	if (!abandon && !down)
		otte_rdma_waiting_return(&peer->queue, work);
	pthread_mutex_unlock(&peer->lock);
	free_use(use);
	if (abandon)
		otte_rdma_work_tell(work, abandon, true);
	else if (down)
		otte_rdma_work_hand_on(peer, work, code);
	peer->rdma->busy = true;
}

/* Nothing of it moves any more, and its pair is of no use. */
static void end_lost(struct otte_rdma_use *use)
{
	struct otte_work *work = use->work;
	int abandon = atomic_load(&work->own.abandon);

	otte_fail(-ECONNRESET, "queue pair %u of the peer is lost", use->pair->remote_qpn);
	if (abandon || (use->posted && (work->op == OTTE_WRITE || !work->retries))) {
		end(use, abandon ? abandon : -ECONNRESET);
		return;
	}
	if (use->posted) {
		work->retries--;
		atomic_fetch_add(&use->peer->rdma->retries, 1);
	}
	go_another_way(use, -ECONNRESET);
}

static void look_whether_over(struct otte_rdma_use *use)
{
	struct otte_rdma_lease *lease = use->lease;
	struct otte_work *work = use->work;
	int abandon;

	if (!work || is_under_way(use))
		return;
	if (use->lost) {
		end_lost(use);
		return;
	}
	if (use->code)
		return; /* its pair is about to be closed */
	abandon = atomic_load(&work->own.abandon);
	if (use->posted == work->length) {
		atomic_fetch_add(&use->peer->rdma->lease_requests, 1);
		if (lease) {
			lease->requests++;
			lease->bytes += work->length;
		}
		otte_rdma_endpoint_succeeded(use->pair->owner);
		end(use, 0);
	} else if (abandon) {
		end(use, abandon);
	}
}

static void piece_done(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct otte_rdma_piece *piece = container_of(work, struct otte_rdma_piece, work);
	struct otte_rdma_use *use = piece->use;
	uint64_t bytes = piece->bytes;

	use->peer->rdma->busy = true;
	piece->bytes = 0;
	if (!use->work)
		return;
	if (outcome->code && !use->code)
		use->code = outcome->code;
	if (!outcome->code)
		use->work->own.moved += bytes;
	look_whether_over(use);
}

static struct otte_rdma_piece *find_piece(struct otte_rdma_use *use)
{
	unsigned int i;

	for (i = 0; i < OTTE_RDMA_USE_PIECES; i++)
		if (!use->pieces[i].bytes)
			return &use->pieces[i];
	return NULL;
}

static void fill_payload(const struct otte_rdma_use *use, struct otte_rdma_piece *piece, struct otte_rdma_send *send)
{
	const struct otte_rdma_lease *lease = use->lease;
	const struct otte_work *work = use->work;

	piece->bytes = min_u64(work->length - use->posted, OTTE_RDMA_PIECE_BYTES);
	piece->work.done = piece_done;
	piece->use = (struct otte_rdma_use *)use;
	*send = (struct otte_rdma_send){
		.op = work->op == OTTE_READ ? OTTE_RDMA_READ : OTTE_RDMA_WRITE,
		.local = (uint64_t)(uintptr_t)(work->local + use->posted),
		.bytes = piece->bytes,
		.lkey = work->published->buffer->by_nic[use->pair->nic].local.native->lkey,
		.remote = lease->address + (work->offset - lease->offset) + use->posted,
		.key = lease->key,
		.work = &piece->work,
	};
}

/* What there is room for. Not 0: its pair is to be closed. */
static int post(struct otte_rdma_use *use)
{
	struct otte_rdma_piece *piece;
	struct otte_rdma_send send;
	uint32_t accepted;
	int ret = 0;

	while (use->posted < use->work->length && (piece = find_piece(use))) {
		fill_payload(use, piece, &send);
		accepted = 0;
		ret = otte_rdma_qp_post(use->pair->qp, &send, 1, &accepted);
		if (!accepted)
			piece->bytes = 0;
		else
			use->posted += send.bytes;
		use->work->own.torn |= accepted;
		if (ret)
			break;
	}
	return ret == -EAGAIN ? 0 : ret;
}

static void post_more(struct otte_rdma_use *use)
{
	int ret;

	if (use->lost || use->code || !use->work || use->posted == use->work->length ||
	    atomic_load(&use->work->own.abandon))
		return;
	/* A lease that is gone, or being given back, gets no new request, but this one has begun. */
	if (!use->lease) {
		if (!is_under_way(use) && !use->posted)
			go_another_way(use, -EAGAIN);
		else if (!is_under_way(use))
			use->pair->failed(use->pair, -ECONNRESET);
		return;
	}
	ret = post(use);
	if (ret)
		use->pair->failed(use->pair, ret);
}

/* ---- The queue's first ---- */

/* Those that have begun on a pair go before others. */
static bool has_room(const struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair)
{
	const struct otte_rdma_use *use;

	DL_FOREACH(peer->uses, use)
		if (use->pair == pair && use->work && use->posted < use->work->length)
			return false;
	return true;
}

/* Its region may have been registered when the NIC was not to be had. */
static bool is_known(const struct otte_work *work, unsigned int nic)
{
	return work->published->buffer->by_nic[nic].local.state == OTTE_RDMA_MR_LIVE;
}

static void start(struct otte_rdma_use *use)
{
	struct otte_rdma_peer *peer = use->peer;
	struct otte_rdma_lease *lease = use->lease;

	DL_APPEND(peer->uses, use);
	lease->uses++;
	lease->used = true;
	if (peer->leases != lease) {
		DL_DELETE(peer->leases, lease);
		DL_PREPEND(peer->leases, lease);
	}
	post_more(use);
}

static struct otte_rdma_use *make_use(struct otte_rdma_lease *lease, struct otte_work *work)
{
	struct otte_rdma_use *use = calloc(1, sizeof(*use));

	if (!use)
		return NULL;
	use->peer = lease->peer;
	use->pair = lease->pair;
	use->lease = lease;
	use->work = work;
	return use;
}

/*
 * Others put works into the queue, and take them away, whenever they like: what is found out about the first one holds
 * as long as that is the first.
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
	if (work == first && wants(work))
		lease = find(peer, work);
	if (work != first) {
		ret = 0;
	} else if (lease && lease->state == OTTE_RDMA_LEASE_ASKED) {
		ret = 1;
	} else if (lease && !is_over(lease, now_ns) && is_known(work, lease->pair->nic)) {
		ret = 1;
		if (has_room(peer, lease->pair))
			use = make_use(lease, work);
		if (use) {
			DL_DELETE2(peer->queue, work, own.prev, own.next);
			DL_APPEND2(peer->running, work, own.prev, own.next);
			ret = 0;
		}
	}
	pthread_mutex_unlock(&peer->lock);
	if (use)
		start(use);
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
	return peer->lease_count >= min_u64(peer->rdma->env.config->rdma_leases, peer->paths.leases);
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

/* Of ours, that which has fewest leases. */
static unsigned int choose_nic(const struct otte_rdma_peer *peer, uint64_t nics)
{
	const struct otte_rdma_lease *lease;
	unsigned int nic, best = 0, count, least = UINT_MAX;
	uint64_t left;

	for (left = nics; left; left &= left - 1) {
		nic = (unsigned int)__builtin_ctzll(left);
		count = 0;
		DL_FOREACH(peer->leases, lease)
			count += lease->pair && lease->pair->nic == nic;
		if (count < least) {
			least = count;
			best = nic;
		}
	}
	return best;
}

/* 0; 1: later; negative: not by a lease, as what is granted once finds out, too. */
static int choose_pair(struct otte_rdma_peer *peer, const struct otte_rdma_wanted *wanted, uint64_t now_ns,
		       struct otte_rdma_pair **pair)
{
	struct otte_rdma_endpoint *endpoint;
	struct otte_rdma_choice choice;
	unsigned int nic;
	int ret;

	ret = otte_rdma_rails_choose(peer, wanted, now_ns, &choice);
	if (ret)
		return -ENETUNREACH;
	nic = choose_nic(peer, choice.nics);
	ret = otte_rdma_endpoint_get(peer, nic, choice.remote[nic], wanted->op, &endpoint);
	return ret ? ret : otte_rdma_endpoint_pick(endpoint, now_ns, pair);
}

/* Under peer->lock: what the first one would have leased, if that is not there, nor asked for. */
static bool plan(const struct otte_rdma_peer *peer, const struct otte_work *first, struct otte_rdma_plan *wish,
		 struct otte_rdma_lease *like, struct otte_rdma_ask *ask)
{
	struct otte_work *work = peer->queue;

	if (work != first || !wants(work) || find(peer, work))
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

static bool make(struct otte_rdma_peer *peer, const struct otte_rdma_lease *like, struct otte_rdma_pair *pair,
		 const struct otte_rdma_ask *ask)
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
static bool ask_for_first(struct otte_rdma_peer *peer, const struct otte_work *first, uint64_t now_ns)
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
	ret = choose_pair(peer, &wish.wanted, now_ns, &pair);
	return ret > 0 || (!ret && make(peer, &like, pair, &ask));
}

int otte_rdma_lease_begin(struct otte_rdma_peer *peer, uint64_t now_ns, const struct otte_work **first)
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
		if (lease->id == id && lease->state != OTTE_RDMA_LEASE_ASKED && lease->state != OTTE_RDMA_LEASE_NONE)
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

/* ---- Pairs that close ---- */

void otte_rdma_leases_lose(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair)
{
	struct otte_rdma_lease *lease, *next;
	struct otte_rdma_use *use, *after;

	DL_FOREACH_SAFE(peer->leases, lease, next)
		if (lease->pair == pair)
			free_lease(lease);
	DL_FOREACH_SAFE(peer->uses, use, after) {
		if (use->pair != pair || use->lost)
			continue;
		use->lost = true;
		look_whether_over(use);
	}
}

/* As a transfer's (transfer.c). The use stays with the pair, which may still name it. */
static void end_unproven(struct otte_rdma_use *use)
{
	const struct otte_keep_ops *keep = &use->peer->rdma->env.keep;
	struct otte_work *work = use->work;
	void *kept;

	work->carrier = OTTE_TRANSPORT_RDMA;
	if (keep->keep(work, work->local + work->own.moved, work->length - work->own.moved, &kept)) {
		otte_log(OTTE_LOG_ERROR, "a range that a NIC may still use: %s", otte_error_text());
		return;
	}
	let_go(use);
	if (use->over)
		*use->over = true;
	use->over = NULL;
	DL_DELETE(use->peer->uses, use);
	otte_fail(-EUCLEAN, "a queue pair could not be destroyed");
	otte_rdma_work_tell(work, -EUCLEAN, false);
}

/* Where it is gone everything was told, and so nothing is left. */
void otte_rdma_leases_unpair(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair, bool gone)
{
	struct otte_rdma_use *use, *next;

	DL_FOREACH_SAFE(peer->uses, use, next)
		if (use->pair == pair && !gone)
			end_unproven(use);
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
	lease->peer->rdma->timed |= lease->idle_ns < SHORT_IDLE_NS;
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

	if (lease->state == OTTE_RDMA_LEASE_HELD) {
		look_whether_used(lease, now_ns);
	} else if (lease->state == OTTE_RDMA_LEASE_NONE && is_late(lease->since_ns, REFUSED_NS, now_ns)) {
		free_lease(lease);
	} else if (lease->state == OTTE_RDMA_LEASE_ASKED &&
		   is_late(lease->since_ns, 2 * peer->rdma->env.config->control_timeout_ns, now_ns)) {
		otte_fail(-ETIMEDOUT, "the peer does not say LEASED (control.timeout_ms)");
		otte_rdma_peer_break(peer, -ETIMEDOUT);
	}
}

/* The caller of a request wants its end. */
static void look_whether_abandoned(struct otte_rdma_use *use)
{
	int code = atomic_load(&use->work->own.abandon);

	if (!code)
		return;
	if (is_under_way(use) && code == -ETIMEDOUT && !use->lost) {
		otte_fail(-ETIMEDOUT, "a request that is overdue");
		use->pair->failed(use->pair, -ECANCELED); /* which blames no rail */
	} else {
		look_whether_over(use);
	}
}

void otte_rdma_leases_go_on(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	struct otte_rdma_lease *lease, *next;
	struct otte_rdma_use *use;

	DL_FOREACH_SAFE(peer->leases, lease, next)
		look_at_lease(lease, now_ns);
again:
	DL_FOREACH(peer->uses, use) {
		if (use->seen_ns == now_ns)
			continue;
		use->seen_ns = now_ns;
		if (use->pair->state == OTTE_RDMA_PAIR_RETAINED)
			end_unproven(use);
		else if (atomic_load(&use->work->own.abandon))
			look_whether_abandoned(use);
		else
			post_more(use);
		goto again; /* where a pair has failed others may be gone, too */
	}
}

/* ---- A lone request ---- */

static struct otte_rdma_use *begin_alone(struct otte_rdma_peer *peer, struct otte_work *work, bool *over)
{
	struct otte_rdma_lease *lease = find(peer, work);
	struct otte_rdma_use *use;
	bool waits;

	if (!lease || peer->broken || is_over(lease, otte_now_ns()) || !is_known(work, lease->pair->nic) ||
	    !has_room(peer, lease->pair))
		return NULL;
	use = make_use(lease, work);
	if (!use)
		return NULL;
	use->over = over;
	pthread_mutex_lock(&peer->lock);
	waits = peer->queue || peer->told_stop || atomic_load(work->own.planner->mark(work->native));
	if (!waits)
		DL_APPEND2(peer->running, work, own.prev, own.next);
	pthread_mutex_unlock(&peer->lock);
	if (!waits)
		return use;
	free(use);
	return NULL;
}

/* Looks at its completion queue, and lets others have the CPU that may be at work for it. */
static void wait_alone(struct otte_rdma *rdma, struct otte_rdma_cq_lane *lane, const bool *over)
{
	uint64_t until_ns = otte_now_ns() + ALONE_NS;
	int cqes = 0;

	while (!*over && cqes >= 0 && otte_now_ns() < until_ns) {
		cqes = otte_rdma_lane_poll(lane, 16);
		if (cqes > 0)
			atomic_fetch_add(&rdma->cqes, (uint64_t)cqes);
		if (!*over)
			sched_yield();
	}
}

/* The thread goes on. */
static void forget_waiter(struct otte_rdma_peer *peer, const bool *over)
{
	struct otte_rdma_use *use;

	DL_FOREACH(peer->uses, use)
		if (use->over == over)
			use->over = NULL;
}

bool otte_rdma_lease_exchange(struct otte_rdma_peer *peer, struct otte_work *work)
{
	struct otte_rdma *rdma = peer->rdma; /* the work may be over, and the peer gone, at once */
	struct otte_rdma_use *use;
	bool over = false, begun, more;

	otte_rdma_work_init(work);
	if (!wants(work) || peer->state != OTTE_RDMA_PEER_READY || !otte_rdma_take_turn(rdma))
		return false;
	use = begin_alone(peer, work, &over);
	begun = use; /* which may be freed with the next call */
	if (begun) {
		struct otte_rdma_cq_lane *lane = use->pair->qp->lane;

		start(use);
		wait_alone(rdma, lane, &over);
		if (!over)
			forget_waiter(peer, &over);
	}
	/* A pair that has failed meanwhile is closing, and its line may be of no use. */
	more = (begun && !over) || rdma->lines.unsent || rdma->closing || peer->broken;
	/* Before others may have the turn: who has seen the batch end may end the engine then. */
	if (more)
		otte_rdma_wake(rdma);
	otte_rdma_end_turn(rdma);
	return begun;
}
