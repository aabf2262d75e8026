/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A pool of pinned chunks that payload passes where NICs are not to know the caller's memory
 * (rdma.host_memory = staged): one arena of rdma.staging_bytes, an MR of it on each NIC. There are
 * two, of the requester (payload.h) and of the source (mirror.h).
 *
 *   pool:  UNMADE --the first request--> MADE --close, all chunks are back--> gone
 *             ^  `--an MR fails, the others are released--'  `--one is out--> LOST: all stays
 *             `--and one of these is not--> LOST
 *   chunk: free --take--> out --give, no NIC can touch it any more--> free
 *                          `--stick: nobody can say so--> out for good, and charged
 *
 * Chunks are given out first come first served (budget.h). An MR that fails is an error of the
 * request that wanted the pool, and the next one tries again: nothing is ever registered instead.
 *
 * Bytes are copied by the kernel, process_vm_readv(2) and its like on ourselves: where the
 * caller's memory is not there any more that is an error, and no SIGSEGV or SIGBUS.
 *
 * Lock: `lock`, of all but set, chunk_bytes and budget, also while the pool is made, as nobody can
 * go on without it then. lkey() is for who has a chunk; close() comes after all workers.
 */
#ifndef OTTE_TRANSPORT_RDMA_STAGING_H
#define OTTE_TRANSPORT_RDMA_STAGING_H

#include "transport/rdma/budget.h"
#include "transport/rdma/context_set.h"
#include "transport/rdma/mr.h"

struct otte_rdma_chunk {
	uint8_t *at;
	struct otte_rdma_chunk *next; /* free ones */
};

struct otte_rdma_staging_spec {
	const char *name;     /* its key, and whose pool it is */
	uint64_t bytes;       /* of whole chunks */
	uint32_t chunk_bytes;
	int access;           /* of its MRs */
};

struct otte_rdma_staging {
	const struct otte_rdma_context_set *set;
	uint64_t chunk_bytes;
	int access;
	struct otte_rdma_budget budget;
	pthread_mutex_t lock;
	uint8_t *arena; /* NULL: UNMADE */
	bool lost;
	bool loss_told; /* to who asked for it first */
	_Atomic uint64_t nics; /* MADE: that have an MR of it, as a mask; else 0. Read by anybody */
	struct otte_rdma_mr by_nic[OTTE_NIC_IDS];
	struct otte_rdma_chunk *chunks, *free;
};

/* `set` stays as it is until close. */
void otte_rdma_staging_init(struct otte_rdma_staging *staging,
			    const struct otte_rdma_context_set *set,
			    const struct otte_rdma_staging_spec *spec);
/*
 * 0: MADE, now or before. -ENOMEM, -ENODEV or as of otte_rdma_mr_register(): UNMADE. -EUCLEAN:
 * LOST, or all chunks stay. Each with a text.
 */
int otte_rdma_staging_make(struct otte_rdma_staging *staging);
/* It is LOST, which nobody was told before. */
bool otte_rdma_staging_take_loss(struct otte_rdma_staging *staging);
/* The NICs that chunks are, or would be, of use to. */
uint64_t otte_rdma_staging_nics(const struct otte_rdma_staging *staging);
uint32_t otte_rdma_staging_lkey(const struct otte_rdma_staging *staging, unsigned int nic);
/* 0. -EUCLEAN: what NICs may still touch stays. Of a pool that is all zero, too. */
int otte_rdma_staging_close(struct otte_rdma_staging *staging);

/* Of a pool that is MADE. 0; 1, -EUCLEAN: as of budget.h. */
int otte_rdma_staging_take(struct otte_rdma_staging *staging, struct otte_rdma_turn *turn,
			   struct otte_rdma_chunk **chunk);
void otte_rdma_staging_give(struct otte_rdma_staging *staging, struct otte_rdma_chunk *chunk);
void otte_rdma_staging_stick(struct otte_rdma_staging *staging, struct otte_rdma_chunk *chunk);

/*
 * -EFAULT with a text: the memory is not there, or not to be used so. `firm`: it is, for sure.
 * *written: bytes that were, whatever comes of it.
 */
int otte_rdma_chunk_fill(struct otte_rdma_chunk *chunk, const uint8_t *from, uint64_t bytes,
			 bool firm);
int otte_rdma_chunk_empty(const struct otte_rdma_chunk *chunk, uint8_t *to, uint64_t bytes,
			  bool firm, uint64_t *written);

#endif
