/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/use.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/rdma/endpoint.h"
#include "transport/rdma/lease.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/waiting.h"

/* ---- Its end ---- */

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

	otte_rdma_posts_remove(&use->peer->worker->posts, &use->posting);
	if (use->over)
		*use->over = true;
	DL_DELETE(use->peer->uses, use);
	free(use);
	if (lease)
		otte_rdma_lease_put(lease);
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
 * Before all but those of a higher priority, and by no lease; who wanted its end meanwhile is
 * heard. A peer that is DOWN has no queue.
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
	peer->worker->busy = true;
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
		if (lease)
			otte_rdma_lease_count(lease, work->length);
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

	use->peer->worker->busy = true;
	otte_rdma_pair_hear(use->pair);
	piece->bytes = 0;
	otte_devices_arrive(use->peer->rdma->devices, use->pair->nic, bytes, !outcome->code);
	if (!use->work)
		return;
	if (outcome->code && !use->code)
		use->code = outcome->code;
	if (!outcome->code)
		use->work->own.moved += bytes;
	look_whether_over(use);
}

/* ---- Its payloads ---- */

static struct otte_rdma_piece *find_piece(struct otte_rdma_use *use)
{
	unsigned int i;

	for (i = 0; i < OTTE_RDMA_USE_PIECES; i++)
		if (!use->pieces[i].bytes)
			return &use->pieces[i];
	return NULL;
}

static void fill_payload(const struct otte_rdma_use *use, struct otte_rdma_piece *piece,
			 struct otte_rdma_send *send)
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
		ret = otte_rdma_pair_post(use->pair, &send, 1, &accepted);
		if (!accepted)
			piece->bytes = 0;
		else
			use->posted += send.bytes;
		if (accepted)
			otte_devices_depart(use->peer->rdma->devices, use->pair->nic, send.bytes);
		use->work->own.torn |= accepted;
		if (ret)
			break;
	}
	return ret == -EAGAIN ? 0 : ret;
}

static void post_now(struct otte_rdma_use *use)
{
	int ret;

	/* What is gone, or being given back, gets no new request, but this one has begun. */
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

static bool has_more(const struct otte_rdma_use *use)
{
	return !use->lost && !use->code && use->work && use->posted < use->work->length &&
	       !atomic_load(&use->work->own.abandon);
}

static void post_in_turn(struct otte_rdma_posting *posting)
{
	struct otte_rdma_use *use = container_of(posting, struct otte_rdma_use, posting);

	if (has_more(use))
		post_now(use);
}

/* Where there are slots, in its turn. Without its lease there is no payload to wait with. */
static void post_more(struct otte_rdma_use *use)
{
	struct otte_rdma_posts *posts = &use->peer->worker->posts;

	if (!has_more(use))
		return;
	if (!otte_rdma_posts_gate(posts) || !use->lease)
		post_now(use);
	else if (find_piece(use))
		otte_rdma_posts_add(posts, &use->posting, use->work->priority,
				    use->work->own.since_ns);
}

/* ---- Its beginning ---- */

bool otte_rdma_uses_leave_room(const struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair)
{
	const struct otte_rdma_use *use;

	DL_FOREACH(peer->uses, use)
		if (use->pair == pair && use->work && use->posted < use->work->length)
			return false;
	return true;
}

bool otte_rdma_uses_are_on(const struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair)
{
	const struct otte_rdma_use *use;

	DL_FOREACH(peer->uses, use)
		if (use->pair == pair)
			return true;
	return false;
}

struct otte_rdma_use *otte_rdma_use_make(struct otte_rdma_lease *lease, struct otte_work *work)
{
	struct otte_rdma_use *use = calloc(1, sizeof(*use));

	if (!use)
		return NULL;
	use->peer = lease->peer;
	use->pair = lease->pair;
	use->lease = lease;
	use->work = work;
	use->posting.post = post_in_turn;
	return use;
}

void otte_rdma_use_start(struct otte_rdma_use *use)
{
	DL_APPEND(use->peer->uses, use);
	otte_rdma_lease_use(use->lease);
	post_more(use);
}

/* ---- Leases and pairs that go ---- */

void otte_rdma_uses_forget_lease(const struct otte_rdma_lease *lease)
{
	struct otte_rdma_use *use;

	DL_FOREACH(lease->peer->uses, use)
		if (use->lease == lease)
			use->lease = NULL;
}

void otte_rdma_uses_forget_waiter(struct otte_rdma_peer *peer, const bool *over)
{
	struct otte_rdma_use *use;

	DL_FOREACH(peer->uses, use)
		if (use->over == over)
			use->over = NULL;
}

void otte_rdma_uses_lose(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair)
{
	struct otte_rdma_use *use, *next;

	DL_FOREACH_SAFE(peer->uses, use, next) {
		if (use->pair != pair || use->lost)
			continue;
		use->lost = true;
		otte_rdma_posts_remove(&peer->worker->posts, &use->posting);
		look_whether_over(use);
	}
}

/* As a transfer's (transfer.c). The use stays with the pair, which may still name it. */
static void end_unproven(struct otte_rdma_use *use)
{
	const struct otte_keep_ops *keep = &use->peer->rdma->env.keep;
	struct otte_work *work = use->work;
	uint64_t moved = work->own.moved;
	void *kept;

	work->carrier = OTTE_TRANSPORT_RDMA;
	if (keep->keep(work, work->local + moved, work->length - moved, &kept)) {
		otte_log(OTTE_LOG_ERROR, "a range that a NIC may still use: %s", otte_error_text());
		return;
	}
	let_go(use);
	if (use->over)
		*use->over = true;
	use->over = NULL;
	otte_rdma_posts_remove(&use->peer->worker->posts, &use->posting);
	DL_DELETE(use->peer->uses, use);
	otte_fail(-EUCLEAN, "a queue pair could not be destroyed");
	otte_rdma_work_tell(work, -EUCLEAN, false);
}

/* Where it is gone everything was told, and so nothing is left. */
void otte_rdma_uses_unpair(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair,
			   bool gone)
{
	struct otte_rdma_use *use, *next;

	DL_FOREACH_SAFE(peer->uses, use, next)
		if (use->pair == pair && !gone)
			end_unproven(use);
}

/* ---- Now and then ---- */

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

void otte_rdma_uses_go_on(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	struct otte_rdma_use *use;

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
