/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/deadline.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "sched/arbitrate.h"

/* So many are put in order at a time; those behind them stay first come first served. */
#define WORKS 1024

struct refusal {
	struct otte_work *work;
	uint64_t left_ns, takes_ns;
};

struct otte_rdma_deadlines {
	struct otte_work *works[WORKS];
	struct otte_arbitrate_item items[WORKS];
	uint32_t order[WORKS];
	struct refusal refusals[WORKS];
	uint32_t refused;
};

/* What a peer's NICs are doing. */
struct state {
	uint64_t now_ns;
	uint64_t ahead; /* bytes that were begun before anything that waits */
	uint64_t rate; /* 0: of one of them nothing is known */
	uint64_t measured; /* 0: one of them was not seen to move anything yet */
};

int otte_rdma_deadlines_open(struct otte_rdma_worker *worker, const struct otte_config *config)
{
	if (!config->rdma_deadline_bw_arbitration)
		return 0;
	worker->deadlines = calloc(1, sizeof(*worker->deadlines));
	return worker->deadlines ? 0 : otte_fail(-ENOMEM, "no memory for an order by deadlines");
}

void otte_rdma_deadlines_close(struct otte_rdma_worker *worker)
{
	free(worker->deadlines);
	worker->deadlines = NULL;
}

static void look_at_nics(const struct otte_rdma_peer *peer, uint64_t now_ns, struct state *state)
{
	uint64_t rates[OTTE_NIC_IDS] = {}, measured[OTTE_NIC_IDS] = {}, left;
	struct otte_device_load load;
	unsigned int nic;

	*state = (struct state){ .now_ns = now_ns };
	for (left = peer->nics; left; left &= left - 1) {
		nic = (unsigned int)__builtin_ctzll(left);
		if (otte_devices_read(peer->rdma->devices, nic, &load))
			continue;
		if (load.told || load.measured)
			rates[nic] = (uint64_t)load.transmit;
		if (load.measured)
			measured[nic] = (uint64_t)load.transmit;
		/* What may stay for good is not waited for. */
		state->ahead += max_u64(load.charged, load.under_way) - load.doubted;
	}
	state->rate = otte_arbitrate_rate(rates, peer->nics);
	state->measured = otte_arbitrate_rate(measured, peer->nics);
}

static struct otte_arbitrate_item item_of(const struct otte_work *work)
{
	return (struct otte_arbitrate_item){ .bytes = work->length - work->own.moved,
					     .deadline_ns = work->deadline_ns };
}

/* Something of it may have gone. */
static bool has_begun(const struct otte_work *work)
{
	return work->own.moved || work->own.torn;
}

static uint64_t takes_ns(uint64_t bytes, uint64_t rate)
{
	return (uint64_t)((double)bytes * (double)NSEC_PER_SEC / (double)rate);
}

/* ---- All under the peer's lock ---- */

/* Those of one priority from `first` on; what is behind them, or NULL. */
static uint32_t gather(struct otte_rdma_deadlines *all, struct otte_work *first,
		       struct otte_work **behind)
{
	struct otte_work *work;
	uint32_t count = 0;

	for (work = first; work && count < WORKS && work->priority == first->priority;
	     work = work->own.next) {
		all->works[count] = work;
		all->items[count++] = item_of(work);
	}
	*behind = work;
	return count;
}

static void put_before(struct otte_work **queue, struct otte_work *behind, struct otte_work *work)
{
	DL_DELETE2(*queue, work, own.prev, own.next);
	if (behind)
		DL_PREPEND_ELEM2(*queue, behind, work, own.prev, own.next);
	else
		DL_APPEND2(*queue, work, own.prev, own.next);
}

static void refuse(struct otte_rdma_peer *peer, struct otte_work *work,
		   const struct otte_arbitrate_item *item, const struct state *state)
{
	struct otte_rdma_deadlines *all = peer->worker->deadlines;

	DL_DELETE2(peer->queue, work, own.prev, own.next);
	all->refusals[all->refused++] = (struct refusal){
		.work = work,
		.left_ns = item->deadline_ns - min_u64(item->deadline_ns, state->now_ns),
		.takes_ns = takes_ns(state->ahead + item->bytes, state->measured),
	};
}

/* In their order, each before `behind`, or out of the queue. What stays goes before the next. */
static void put_back(struct otte_rdma_peer *peer, uint32_t count, struct otte_work *behind,
		     struct state *state)
{
	struct otte_rdma_deadlines *all = peer->worker->deadlines;
	const struct otte_arbitrate_item *item;
	struct otte_work *work;
	uint32_t i;

	for (i = 0; i < count; i++) {
		work = all->works[all->order[i]];
		item = &all->items[all->order[i]];
		if (all->refused < WORKS && !has_begun(work) &&
		    !otte_arbitrate_admits(item, state->ahead, state->measured, state->now_ns)) {
			refuse(peer, work, item, state);
			continue;
		}
		put_before(&peer->queue, behind, work);
		state->ahead += item->bytes;
	}
}

static void arrange(struct otte_rdma_peer *peer, struct state *state)
{
	struct otte_rdma_deadlines *all = peer->worker->deadlines;
	struct otte_work *first = peer->queue, *behind;
	uint32_t count;

	for (; first; first = behind) {
		count = gather(all, first, &behind);
		otte_arbitrate_order(all->items, count, state->ahead, state->rate, state->now_ns,
				     all->order);
		put_back(peer, count, behind, state);
	}
}

/* ---- The thread ---- */

static void tell(const struct refusal *refusal)
{
	char left[OTTE_TIME_TEXT], takes[OTTE_TIME_TEXT];

	/* To the microsecond. */
	otte_time_text(left, refusal->left_ns / NSEC_PER_USEC * NSEC_PER_USEC);
	otte_time_text(takes, refusal->takes_ns / NSEC_PER_USEC * NSEC_PER_USEC);
	otte_fail(-ETIME, "it is due in %s, and its NICs need %s for it", left, takes);
	refusal->work->said = true;
	otte_rdma_work_tell(refusal->work, -ETIME, true);
}

static bool nobody_waits(struct otte_rdma_peer *peer)
{
	bool nobody;

	pthread_mutex_lock(&peer->lock);
	nobody = !peer->queue;
	pthread_mutex_unlock(&peer->lock);
	return nobody;
}

void otte_rdma_deadlines_arrange(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	struct otte_rdma_deadlines *all = peer->worker->deadlines;
	struct state state;
	uint32_t i;

	if (nobody_waits(peer))
		return;
	look_at_nics(peer, now_ns, &state);
	all->refused = 0;
	pthread_mutex_lock(&peer->lock);
	arrange(peer, &state);
	pthread_mutex_unlock(&peer->lock);
	/* Those that found no place among them are seen with the next look. */
	peer->worker->busy |= all->refused;
	for (i = 0; i < all->refused; i++)
		tell(&all->refusals[i]);
}

bool otte_rdma_deadlines_admit(const struct otte_rdma_peer *peer, const struct otte_work *work)
{
	const struct otte_arbitrate_item item = item_of(work);
	struct state state;

	look_at_nics(peer, otte_now_ns(), &state);
	return otte_arbitrate_admits(&item, state.ahead, state.measured, state.now_ns);
}
