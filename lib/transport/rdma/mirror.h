/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A mirror: the chunk that a peer's NIC reaches in place of a range of ours, where NICs are not to
 * know our memory (rdma.host_memory = staged). It belongs to an exposure, whose window is over the
 * chunk's bytes of that range, and over no others.
 *
 *   none --take: a READ's bytes are copied into it, a WRITE's place is cleared--> out
 *   out  --empty: a WRITE's receipt has come, and says that there are bytes--> out, copied
 *   out  --give: no NIC can reach it any more--> none
 *    `-----stick: nobody can say so--> none; the chunk is out for good, charged and recorded
 *
 * So no byte that another peer has left in a chunk is ever in reach, nor ends in our memory, and a
 * WRITE whose receipt does not come, or is of no payload, writes nothing.
 *
 * The pool is the source's own, of rdma.staging_bytes as well: who holds one of its chunks waits
 * for a peer that has all the chunks that it needs. So two engines that write to each other never
 * wait for each other's. It is made for the first ASK.
 *
 * No lock: a mirror is its worker's thread's; the pool has one (staging.h).
 */
#ifndef OTTE_TRANSPORT_RDMA_MIRROR_H
#define OTTE_TRANSPORT_RDMA_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

struct otte_rdma;
struct otte_rdma_exposure;
struct otte_rdma_mr;
struct otte_published;

/* Of `rdma` as it begins. */
void otte_rdma_mirrors_open(struct otte_rdma *rdma);
/* Of PATHS: no peer asks for more at once; 0: in place. */
uint32_t otte_rdma_mirrors_longest(const struct otte_rdma *rdma);
/* 0: there are some, or will be again, or none is needed. Else, with a text, why there are none. */
int otte_rdma_mirrors_ready(struct otte_rdma *rdma);
/* So many may be taken now. */
uint32_t otte_rdma_mirrors_free(const struct otte_rdma *rdma);
/* Whether this NIC of ours has the pool, which is there. */
bool otte_rdma_mirrors_reach(const struct otte_rdma *rdma, unsigned int nic);

/* A region that no NIC knows: it is mirrored. */
bool otte_rdma_is_mirrored(const struct otte_published *published);
/*
 * For an exposure that has its loan. 0: it has a chunk. 1: none is free now. With a text -EUCLEAN:
 * all of them stay; -EFAULT, -ESTALE: there is nothing to be read, and its chunk is to be given.
 */
int otte_rdma_mirror_take(struct otte_rdma_exposure *exposure);
/* What the exposure's window is bound to. */
const struct otte_rdma_mr *otte_rdma_mirror_parent(const struct otte_rdma_exposure *exposure);
/*
 * What a WRITE has left there goes to the range, while that is lent. -EFAULT, -ESTALE with a text;
 * `intact` then: no byte of it was written.
 */
int otte_rdma_mirror_empty(const struct otte_rdma_exposure *exposure, bool *intact);
/* Of none: nothing. */
void otte_rdma_mirror_give(struct otte_rdma_exposure *exposure);
void otte_rdma_mirror_stick(struct otte_rdma_exposure *exposure);

#endif
