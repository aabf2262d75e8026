/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/mirror.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "transport/rdma/exposure.h"
#include "transport/rdma/rdma.h"

void otte_rdma_mirrors_open(struct otte_rdma *rdma)
{
	const struct otte_config *config = rdma->env.config;
	const struct otte_rdma_staging_spec spec = {
		.name = "rdma.staging_bytes, for peers",
		.bytes = config->rdma_staging_bytes,
		.chunk_bytes = config->rdma_chunk_bytes,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
	};

	otte_rdma_staging_init(&rdma->mirrors, &rdma->set, &spec);
}

uint32_t otte_rdma_mirrors_longest(const struct otte_rdma *rdma)
{
	return otte_rdma_is_staged(rdma) ? (uint32_t)rdma->mirrors.chunk_bytes : 0;
}

int otte_rdma_mirrors_ready(struct otte_rdma *rdma)
{
	int ret;

	if (!otte_rdma_is_staged(rdma))
		return 0;
	ret = otte_rdma_staging_make(&rdma->mirrors);
	if (ret && otte_rdma_staging_take_loss(&rdma->mirrors))
		otte_rdma_lost(rdma, rdma->mirrors.budget.limit,
			       "rdma: a pool of chunks for peers that a NIC still has registered");
	return ret;
}

uint32_t otte_rdma_mirrors_free(const struct otte_rdma *rdma)
{
	const struct otte_rdma_staging *pool = &rdma->mirrors;
	uint64_t free = pool->budget.limit - atomic_load(&pool->budget.used);

	return otte_rdma_is_staged(rdma) ? (uint32_t)min_u64(free / pool->chunk_bytes, UINT32_MAX) :
					   UINT32_MAX;
}

bool otte_rdma_mirrors_reach(const struct otte_rdma *rdma, unsigned int nic)
{
	return rdma->mirrors.nics >> nic & 1;
}

bool otte_rdma_is_mirrored(const struct otte_published *published)
{
	return published && !published->buffer;
}

/* ---- One of them ---- */

/* Before and after: what was copied in between was the registered memory. */
static int copy_in(const struct otte_rdma_exposure *exposure)
{
	const struct otte_source_ops *ops = otte_rdma_exposure_ops(exposure);
	int ret = ops->still(exposure->use);

	if (!ret)
		ret = otte_rdma_chunk_fill(exposure->chunk, exposure->address, exposure->ask.length,
					   ops->firm(exposure->use));
	return ret ? ret : ops->still(exposure->use);
}

int otte_rdma_mirror_take(struct otte_rdma_exposure *exposure)
{
	struct otte_rdma_staging *pool = &exposure->source->rdma->mirrors;
	int ret;

	/* Nobody queues here: ASKs wait where they wait for places. */
	ret = otte_rdma_staging_take(pool, NULL, &exposure->chunk);
	if (ret)
		return ret;
	if (exposure->ask.op == OTTE_READ)
		return copy_in(exposure);
	/* A peer may say that it has written, and not have: what it reads then is nobody's. */
	memset(exposure->chunk->at, 0, exposure->ask.length);
	return 0;
}

const struct otte_rdma_mr *otte_rdma_mirror_parent(const struct otte_rdma_exposure *exposure)
{
	return &exposure->source->rdma->mirrors.by_nic[exposure->pair->pair.nic];
}

int otte_rdma_mirror_empty(const struct otte_rdma_exposure *exposure, bool *intact)
{
	const struct otte_source_ops *ops = otte_rdma_exposure_ops(exposure);
	uint64_t written = 0;
	int ret = ops->still(exposure->use);

	if (!ret)
		ret = otte_rdma_chunk_empty(exposure->chunk, exposure->address,
					    exposure->ask.length, ops->firm(exposure->use),
					    &written);
	*intact = ret && !written;
	return ret ? ret : ops->still(exposure->use);
}

/* Whoever waits for one, at whichever worker. */
static void tell_all(const struct otte_rdma_exposure *exposure)
{
	struct otte_rdma *rdma = exposure->source->rdma;

	exposure->source->worker->busy = true;
	if (rdma->worker_count > 1)
		otte_rdma_wake_all(rdma);
}

void otte_rdma_mirror_give(struct otte_rdma_exposure *exposure)
{
	struct otte_rdma *rdma = exposure->source->rdma;

	if (!exposure->chunk)
		return;
	otte_rdma_staging_give(&rdma->mirrors, exposure->chunk);
	exposure->chunk = NULL;
	tell_all(exposure);
}

void otte_rdma_mirror_stick(struct otte_rdma_exposure *exposure)
{
	struct otte_rdma *rdma = exposure->source->rdma;

	if (!exposure->chunk)
		return;
	otte_rdma_staging_stick(&rdma->mirrors, exposure->chunk);
	exposure->chunk = NULL;
	tell_all(exposure); /* there may be none any more */
	otte_rdma_lost(rdma, rdma->mirrors.chunk_bytes,
		       "rdma: a chunk that a peer's NIC may still use");
}
