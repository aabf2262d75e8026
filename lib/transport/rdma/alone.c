/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/alone.h"

#include <sched.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "transport/rdma/deadline.h"
#include "transport/rdma/lease.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/use.h"

/* Who waits for a lone request looks for its end himself for so long; then the thread does. */
#define ALONE_NS (2 * NSEC_PER_MSEC)

static bool is_in_its_slot(const struct otte_rdma_worker *worker, const struct otte_work *work)
{
	return !otte_rdma_posts_gate(&worker->posts) ||
	       otte_rdma_posts_may_pass(&worker->posts, work->priority, otte_now_ns());
}

static struct otte_rdma_use *begin_alone(struct otte_rdma_peer *peer, struct otte_work *work,
					 bool *over)
{
	struct otte_rdma_lease *lease = otte_rdma_lease_find(peer, work, otte_now_ns());
	struct otte_rdma_use *use;
	bool waits;

	if (!lease || peer->broken || !otte_rdma_uses_leave_room(peer, lease->pair) ||
	    !otte_rdma_deadline_can_be_met(peer, work) || !is_in_its_slot(peer->worker, work) ||
	    otte_rdma_poll_producer(work))
		return NULL;
	use = otte_rdma_use_make(lease, work);
	if (!use)
		return NULL;
	use->over = over;
	pthread_mutex_lock(&peer->lock);
	waits = peer->queue || peer->told_stop ||
		atomic_load(work->own.planner->mark(work->native));
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

bool otte_rdma_alone_exchange(struct otte_rdma_peer *peer, struct otte_work *work)
{
	/* The work may be over, and the peer gone, at once. */
	struct otte_rdma_worker *worker = peer->worker;
	struct otte_rdma_use *use;
	bool over = false, begun, more;

	otte_rdma_work_init(work);
	if (!otte_rdma_lease_is_wanted(work) || peer->state != OTTE_RDMA_PEER_READY ||
	    !otte_rdma_take_turn(worker))
		return false;
	use = begin_alone(peer, work, &over);
	begun = use; /* which may be freed with the next call */
	if (begun) {
		struct otte_rdma_cq_lane *lane = use->pair->qp->lane;

		otte_rdma_use_start(use);
		if (otte_rdma_posts_gate(&worker->posts))
			otte_rdma_posts_go_on(&worker->posts, otte_now_ns());
		wait_alone(worker->rdma, lane, &over);
		if (!over) /* the thread goes on */
			otte_rdma_uses_forget_waiter(peer, &over);
	}
	/* A pair that has failed meanwhile is closing, and its line may be of no use. */
	more = (begun && !over) || worker->lines.unsent || worker->closing || peer->broken;
	/* Before others may have the turn: who has seen the batch end may end the engine then. */
	if (more)
		otte_rdma_wake(worker);
	otte_rdma_end_turn(worker);
	return begun;
}
