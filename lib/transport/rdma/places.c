/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/places.h"

#include "transport/rdma/rdma.h"

/* One source has at most so many times what it leaves to others. */
#define PLACES_TIMES 3

void otte_rdma_places_open(struct otte_rdma_places *places, uint32_t total)
{
	*places = (struct otte_rdma_places){
		.total = total,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
}

bool otte_rdma_places_admit(const struct otte_rdma_places_share *share, uint32_t free)
{
	return otte_rdma_share(share->held, free, PLACES_TIMES);
}

/* ---- All under the lock ---- */

static bool may_have(const struct otte_rdma_places *places,
		     const struct otte_rdma_places_share *share)
{
	return otte_rdma_places_admit(share, places->total - places->taken);
}

/* Bids of other workers for a place that they may have, and that go before this one. */
static uint32_t count_before(const struct otte_rdma_places *places, unsigned int index,
			     const struct otte_rdma_places_share *share)
{
	uint32_t count = 0;
	unsigned int i;

	for (i = 0; i < OTTE_RDMA_WORKERS_MAX; i++) {
		const struct otte_rdma_bid *bid = &places->bids[i];

		count += i != index && bid->made && may_have(places, &bid->share) &&
			 otte_rdma_places_before(&bid->share, share);
	}
	return count;
}

/* Whose bid is the first of those that may have a place; or -1. */
static int first_bid(const struct otte_rdma_places *places)
{
	int first = -1, i;

	for (i = 0; i < OTTE_RDMA_WORKERS_MAX; i++) {
		const struct otte_rdma_bid *bid = &places->bids[i];

		if (bid->made && may_have(places, &bid->share) &&
		    (first < 0 || otte_rdma_places_before(&bid->share, &places->bids[first].share)))
			first = i;
	}
	return first;
}

static void make_bid(struct otte_rdma_places *places, unsigned int index,
		     const struct otte_rdma_places_share *share)
{
	places->bids[index] = (struct otte_rdma_bid){ .made = share };
	if (share)
		places->bids[index].share = *share;
}

/* ---- And without ---- */

/* `first`: as first_bid(), of now or a moment ago. */
static void tell(struct otte_rdma_worker *worker, int first)
{
	if (first == (int)worker->index)
		worker->busy = true;
	else if (first >= 0)
		otte_rdma_wake(&worker->rdma->workers[first]);
}

uint32_t otte_rdma_places_free(struct otte_rdma_places *places)
{
	uint32_t free;

	pthread_mutex_lock(&places->lock);
	free = places->total - places->taken;
	pthread_mutex_unlock(&places->lock);
	return free;
}

bool otte_rdma_places_take(struct otte_rdma_worker *worker, struct otte_rdma_places_share *share)
{
	struct otte_rdma_places *places = &worker->rdma->places;
	bool taken;
	int first;

	pthread_mutex_lock(&places->lock);
	taken = may_have(places, share) &&
		count_before(places, worker->index, share) < places->total - places->taken;
	if (taken) {
		places->taken++;
		share->held++;
		share->former = share->turn;
		share->turn = ++places->last_turn;
	}
	make_bid(places, worker->index, taken ? NULL : share);
	first = first_bid(places);
	pthread_mutex_unlock(&places->lock);
	tell(worker, first);
	return taken;
}

void otte_rdma_places_leave(struct otte_rdma_worker *worker, struct otte_rdma_places_share *share,
			    bool stuck)
{
	struct otte_rdma_places *places = &worker->rdma->places;
	int first;

	pthread_mutex_lock(&places->lock);
	places->taken--;
	places->stuck -= stuck;
	share->held--;
	first = first_bid(places);
	pthread_mutex_unlock(&places->lock);
	tell(worker, first);
}

void otte_rdma_places_undo(struct otte_rdma_worker *worker, struct otte_rdma_places_share *share)
{
	share->turn = share->former;
	otte_rdma_places_leave(worker, share, false);
}

void otte_rdma_places_bid(struct otte_rdma_worker *worker,
			  const struct otte_rdma_places_share *share)
{
	struct otte_rdma_places *places = &worker->rdma->places;
	int first;

	/* Who has none to take back, in each of his rounds: none but he makes it. */
	if (!share && !places->bids[worker->index].made)
		return;
	pthread_mutex_lock(&places->lock);
	make_bid(places, worker->index, share);
	first = first_bid(places);
	pthread_mutex_unlock(&places->lock);
	tell(worker, first);
}

/* Who waits hears it, wherever. */
void otte_rdma_places_stick(struct otte_rdma_worker *worker)
{
	struct otte_rdma_places *places = &worker->rdma->places;
	bool all;

	pthread_mutex_lock(&places->lock);
	places->stuck++;
	all = places->stuck == places->total;
	pthread_mutex_unlock(&places->lock);
	worker->busy = true;
	if (all)
		otte_rdma_wake_all(worker->rdma);
}

bool otte_rdma_places_all_stick(struct otte_rdma_places *places)
{
	bool all;

	pthread_mutex_lock(&places->lock);
	all = places->stuck == places->total;
	pthread_mutex_unlock(&places->lock);
	return all;
}
