/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the payload of a slice is for our NICs: at the caller's own place, by the MR of its region
 * (direct, charged against rdma.direct_bytes); or in a chunk of the pool, into which it is copied
 * before it is posted, and out of which when the source has said DONE (staged).
 *
 * A stage is taken before the slice is asked for, and given back by its transfer: when it has
 * ended, or when the queue pair is destroyed that it was posted to. Where that cannot be, it
 * sticks.
 */
#include <errno.h>

#include "base/error.h"
#include "ledger/ledger.h"
#include "transport/rdma/parent.h"
#include "transport/rdma/payload.h"
#include "transport/rdma/rdma.h"

void otte_rdma_stages_open(struct otte_rdma *rdma)
{
	const struct otte_config *config = rdma->env.config;
	const struct otte_rdma_staging_spec spec = {
		.name = "rdma.staging_bytes",
		.bytes = config->rdma_staging_bytes,
		.chunk_bytes = config->rdma_chunk_bytes,
		.access = IBV_ACCESS_LOCAL_WRITE,
	};

	rdma->direct = (struct otte_rdma_budget){
		.name = "rdma.direct_bytes",
		.limit = config->rdma_direct_bytes,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	otte_rdma_staging_init(&rdma->staging, &rdma->set, &spec);
}

int otte_rdma_stages_ready(struct otte_rdma *rdma)
{
	int ret = otte_rdma_staging_make(&rdma->staging);

	if (ret && otte_rdma_staging_take_loss(&rdma->staging))
		otte_rdma_lost(rdma, rdma->staging.budget.limit,
			       "rdma: a pool of chunks that a NIC still has registered");
	return ret;
}

uint64_t otte_rdma_stages_longest(const struct otte_rdma *rdma, bool staged)
{
	return staged ? rdma->staging.chunk_bytes : OTTE_RDMA_PIECE_BYTES;
}

uint64_t otte_rdma_stages_nics(const struct otte_rdma *rdma, const struct otte_work *work,
			       uint64_t nics)
{
	const struct otte_rdma_buffer *buffer = work->published->buffer;
	uint64_t known = 0, left;

	if (otte_rdma_stages(rdma, work->published))
		return nics & otte_rdma_staging_nics(&rdma->staging);
	for (left = nics; left; left &= left - 1) {
		unsigned int nic = (unsigned int)__builtin_ctzll(left);

		/* Its region may have been registered when the NIC was not to be had. */
		if (buffer->by_nic[nic].local.state == OTTE_RDMA_MR_LIVE)
			known |= 1ull << nic;
	}
	return known;
}

int otte_rdma_stage_take(struct otte_rdma_worker *worker, const struct otte_rdma_slice *slice,
			 struct otte_rdma_stage *stage)
{
	struct otte_rdma_turn *turn = &slice->parent->turn;
	struct otte_rdma *rdma = worker->rdma;

	*stage = (struct otte_rdma_stage){};
	if (!turn->queued) /* where others may ask for it */
		turn->owner = worker;
	if (otte_rdma_stages(rdma, slice->parent->work->published))
		return otte_rdma_staging_take(&rdma->staging, turn, &stage->chunk);
	return otte_rdma_budget_take(&rdma->direct, turn, slice->bytes, &stage->direct);
}

/* Whose turn it is now may be another worker's. */
static void tell_next(struct otte_rdma_worker *worker, struct otte_rdma_budget *budget)
{
	struct otte_rdma_worker *next = otte_rdma_budget_next(budget);

	if (next == worker)
		worker->busy = true;
	else if (next)
		otte_rdma_wake(next);
}

void otte_rdma_stage_leave(struct otte_rdma_worker *worker, struct otte_rdma_turn *turn)
{
	if (!turn->queued)
		return;
	otte_rdma_budget_leave(turn->budget, turn);
	worker->busy = true;
	tell_next(worker, turn->budget);
}

void otte_rdma_stage_give(struct otte_rdma_worker *worker, struct otte_rdma_stage *stage)
{
	struct otte_rdma *rdma = worker->rdma;

	if (stage->chunk) {
		otte_rdma_staging_give(&rdma->staging, stage->chunk);
		tell_next(worker, &rdma->staging.budget);
	}
	if (stage->direct) {
		otte_rdma_budget_give(&rdma->direct, stage->direct);
		tell_next(worker, &rdma->direct);
	}
	*stage = (struct otte_rdma_stage){};
}

void otte_rdma_stage_stick(struct otte_rdma_worker *worker, struct otte_rdma_stage *stage)
{
	struct otte_rdma *rdma = worker->rdma;

	/* Where all of either does, who waits is to hear so. */
	if (stage->chunk) {
		otte_rdma_staging_stick(&rdma->staging, stage->chunk);
		otte_rdma_lost(rdma, rdma->staging.chunk_bytes,
			       "rdma: a chunk that a NIC may still use");
		tell_next(worker, &rdma->staging.budget);
	}
	if (stage->direct) {
		otte_rdma_budget_stick(&rdma->direct, stage->direct);
		tell_next(worker, &rdma->direct);
	}
	*stage = (struct otte_rdma_stage){};
}

/* Other memory may be there by now: none of it is sent, and none is written over. */
static int check_fresh(const struct otte_work *work)
{
	if (otte_region_is_fresh(work->watch))
		return 0;
	return otte_fail(-ESTALE, "the local region is stale");
}

int otte_rdma_stage_fill(struct otte_rdma_stage *stage, const struct otte_rdma_slice *slice)
{
	const struct otte_work *work = slice->parent->work;
	int ret;

	if (!stage->chunk || stage->filled || work->op != OTTE_WRITE)
		return 0;
	ret = check_fresh(work);
	if (!ret)
		ret = otte_rdma_chunk_fill(stage->chunk, work->local + slice->offset, slice->bytes,
					   work->firm);
	stage->filled = !ret;
	return ret;
}

int otte_rdma_stage_empty(const struct otte_rdma_stage *stage, const struct otte_rdma_slice *slice)
{
	const struct otte_work *work = slice->parent->work;
	uint64_t written;
	int ret;

	if (!stage->chunk || work->op != OTTE_READ)
		return 0;
	ret = check_fresh(work);
	if (ret)
		return ret;
	return otte_rdma_chunk_empty(stage->chunk, work->local + slice->offset, slice->bytes,
				     work->firm, &written);
}

void otte_rdma_stage_place(const struct otte_rdma *rdma, const struct otte_rdma_stage *stage,
			   const struct otte_rdma_slice *slice, unsigned int nic,
			   struct otte_rdma_send *send)
{
	const struct otte_work *work = slice->parent->work;

	send->bytes = slice->bytes;
	if (stage->chunk) {
		send->local = (uint64_t)(uintptr_t)stage->chunk->at;
		send->lkey = otte_rdma_staging_lkey(&rdma->staging, nic);
	} else {
		send->local = (uint64_t)(uintptr_t)(work->local + slice->offset);
		send->lkey = work->published->buffer->by_nic[nic].local.native->lkey;
	}
}
