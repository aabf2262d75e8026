/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/staging.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"
#include "otte/otte.h"

void otte_rdma_staging_init(struct otte_rdma_staging *staging,
			    const struct otte_rdma_context_set *set,
			    const struct otte_rdma_staging_spec *spec)
{
	/* Less than a chunk is one, of that size. */
	uint64_t chunk_bytes = min_u64(spec->chunk_bytes, spec->bytes);

	*staging = (struct otte_rdma_staging){
		.set = set,
		.chunk_bytes = chunk_bytes,
		.access = spec->access,
		.budget = { .name = spec->name,
			    .limit = spec->bytes / chunk_bytes * chunk_bytes,
			    .lock = PTHREAD_MUTEX_INITIALIZER },
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
}

/* ---- The arena ---- */

/* -EUCLEAN: one of them stays. */
static int release_all(struct otte_rdma_staging *staging)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < OTTE_NIC_IDS; i++)
		if (otte_rdma_mr_release(&staging->by_nic[i]))
			ret = -EUCLEAN;
	atomic_store(&staging->nics, 0);
	return ret;
}

static int register_all(struct otte_rdma_staging *staging, uint64_t nics)
{
	uint64_t left;
	int ret = 0;

	for (left = nics; left && !ret; left &= left - 1) {
		unsigned int nic = (unsigned int)__builtin_ctzll(left);

		ret = otte_rdma_mr_register(otte_rdma_context_set_get(staging->set, nic),
					    staging->arena, staging->budget.limit, staging->access,
					    &staging->by_nic[nic]);
	}
	if (!ret)
		atomic_store(&staging->nics, nics);
	return ret;
}

static void unmap(struct otte_rdma_staging *staging)
{
	munmap(staging->arena, staging->budget.limit);
	free(staging->chunks);
	staging->arena = NULL;
	staging->chunks = staging->free = NULL;
}

static int map(struct otte_rdma_staging *staging)
{
	uint64_t bytes = staging->budget.limit, count = bytes / staging->chunk_bytes, i;
	void *arena;

	staging->chunks = calloc(count, sizeof(*staging->chunks));
	if (!staging->chunks)
		return otte_fail(-ENOMEM, "%s: no memory for a list of chunks",
				 staging->budget.name);
	arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED) {
		free(staging->chunks);
		staging->chunks = NULL;
		return otte_fail(-ENOMEM, "%s: mmap of %" PRIu64 " bytes: %m", staging->budget.name,
				 bytes);
	}
	staging->arena = arena;
	for (i = 0; i < count; i++) {
		staging->chunks[i].at = staging->arena + i * staging->chunk_bytes;
		staging->chunks[i].next = i + 1 < count ? &staging->chunks[i + 1] : NULL;
	}
	staging->free = staging->chunks;
	return 0;
}

/* What that fails with comes before `code`. */
static int undo(struct otte_rdma_staging *staging, int code)
{
	char why[OTTE_ERROR_BYTES];

	snprintf(why, sizeof(why), "%s", otte_error_text());
	if (release_all(staging)) {
		staging->lost = true;
		return otte_fail_within(-EUCLEAN, "%s: %s; and then ", staging->budget.name, why);
	}
	unmap(staging);
	return otte_fail(code, "%s: %s", staging->budget.name, why);
}

/* Under the lock. */
static int make(struct otte_rdma_staging *staging)
{
	uint64_t nics = otte_rdma_context_set_devices(staging->set);
	int ret;

	if (staging->lost)
		return otte_fail(-EUCLEAN, "%s: an MR of the pool is retained",
				 staging->budget.name);
	if (otte_rdma_budget_is_stuck(&staging->budget))
		return otte_fail(-EUCLEAN, "all of %s (%" PRIu64 ") stays", staging->budget.name,
				 staging->budget.limit);
	if (staging->arena)
		return 0;
	if (!nics)
		return otte_fail(-ENODEV, "rdma: no device can register memory");
	ret = map(staging);
	if (ret)
		return ret;
	ret = register_all(staging, nics);
	return ret ? undo(staging, ret) : 0;
}

int otte_rdma_staging_make(struct otte_rdma_staging *staging)
{
	int ret;

	pthread_mutex_lock(&staging->lock);
	ret = make(staging);
	pthread_mutex_unlock(&staging->lock);
	return ret;
}

bool otte_rdma_staging_take_loss(struct otte_rdma_staging *staging)
{
	bool first;

	pthread_mutex_lock(&staging->lock);
	first = staging->lost && !staging->loss_told;
	staging->loss_told = staging->lost;
	pthread_mutex_unlock(&staging->lock);
	return first;
}

uint64_t otte_rdma_staging_nics(const struct otte_rdma_staging *staging)
{
	uint64_t nics = atomic_load(&staging->nics);

	return nics ? nics : otte_rdma_context_set_devices(staging->set);
}

uint32_t otte_rdma_staging_lkey(const struct otte_rdma_staging *staging, unsigned int nic)
{
	return staging->by_nic[nic].native->lkey;
}

int otte_rdma_staging_close(struct otte_rdma_staging *staging)
{
	uint64_t out = atomic_load(&staging->budget.used);

	if (!staging->arena)
		return 0;
	if (out)
		return otte_fail(-EUCLEAN, "%s: a NIC may still use %" PRIu64 " bytes",
				 staging->budget.name, out);
	if (staging->lost || release_all(staging)) {
		staging->lost = true;
		return -EUCLEAN;
	}
	unmap(staging);
	return 0;
}

/* ---- Chunks ---- */

int otte_rdma_staging_take(struct otte_rdma_staging *staging, struct otte_rdma_turn *turn,
			   struct otte_rdma_chunk **chunk)
{
	uint64_t charged;
	int ret = otte_rdma_budget_take(&staging->budget, turn, staging->chunk_bytes, &charged);

	if (ret)
		return ret;
	pthread_mutex_lock(&staging->lock);
	*chunk = staging->free;
	staging->free = staging->free->next;
	pthread_mutex_unlock(&staging->lock);
	return 0;
}

void otte_rdma_staging_give(struct otte_rdma_staging *staging, struct otte_rdma_chunk *chunk)
{
	pthread_mutex_lock(&staging->lock);
	chunk->next = staging->free;
	staging->free = chunk;
	pthread_mutex_unlock(&staging->lock);
	/* After it: what the budget has is in the list. */
	otte_rdma_budget_give(&staging->budget, staging->chunk_bytes);
}

void otte_rdma_staging_stick(struct otte_rdma_staging *staging, struct otte_rdma_chunk *chunk)
{
	(void)chunk; /* in no list any more */
	otte_rdma_budget_stick(&staging->budget, staging->chunk_bytes);
}

/* ---- Copies ---- */

typedef ssize_t copy_fn(pid_t pid, const struct iovec *ours, unsigned long our_count,
			const struct iovec *theirs, unsigned long their_count,
			unsigned long flags);

/* Both of this process; what is at `theirs` may be gone. */
static int copy(copy_fn *call, uint8_t *ours, uint8_t *theirs, uint64_t bytes, uint64_t *done)
{
	ssize_t moved;

	*done = 0;
	while (*done < bytes) {
		const struct iovec near = { ours + *done, bytes - *done };
		const struct iovec far = { theirs + *done, bytes - *done };

		moved = call(getpid(), &near, 1, &far, 1, 0);
		if (moved <= 0)
			return otte_fail(moved ? -errno : -EFAULT,
					 "byte %" PRIu64 " of a local range: %s", *done,
					 strerror(moved ? errno : EFAULT));
		*done += (uint64_t)moved;
	}
	return 0;
}

int otte_rdma_chunk_fill(struct otte_rdma_chunk *chunk, const uint8_t *from, uint64_t bytes,
			 bool firm)
{
	uint64_t done;

	if (!firm)
		return copy(process_vm_readv, chunk->at, (uint8_t *)from, bytes, &done);
	memcpy(chunk->at, from, bytes);
	return 0;
}

int otte_rdma_chunk_empty(const struct otte_rdma_chunk *chunk, uint8_t *to, uint64_t bytes,
			  bool firm, uint64_t *written)
{
	if (!firm)
		return copy(process_vm_writev, chunk->at, to, bytes, written);
	memcpy(to, chunk->at, bytes);
	*written = bytes;
	return 0;
}
