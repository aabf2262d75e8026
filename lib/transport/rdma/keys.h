/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The history of the keys of a PD's memory windows: no key is granted twice.
 *
 * A window's key is (index << 8 | consumer byte). The provider chooses the index, and the byte
 * that the window begins with; each grant takes another byte. A peer may keep a key for as long
 * as it likes. So what was once handed out, by the provider or as a grant, is used up for the
 * life of the PD, also after its window is gone: an index gives at most 255 grants, and is parked
 * then.
 *
 *   unknown --admit--> LIVE --retire--> known --admit, with a key that is not used up--> LIVE
 *                       | the last byte
 *                       v
 *                    parked: grants nothing any more
 *
 * A parked window is best kept allocated until the PD goes, so that the provider does not hand
 * its index out again. One that is idle is best used again, rather than freed and another
 * allocated: the history can forget no index, and is bounded by max_window_key_indices.
 *
 * A grant is O(1), an admission is one search in a hash table that is at most half full. All
 * memory is taken at the beginning, 40 bytes for each index there may be and 8 to 16 for the
 * table: 3 MiB for 65,536, of which the kernel gives what is touched, and entries are touched in
 * the order in which they are needed.
 *
 * No verbs here, and no lock: that of the PD's owner is held around every call.
 */
#ifndef OTTE_TRANSPORT_RDMA_KEYS_H
#define OTTE_TRANSPORT_RDMA_KEYS_H

#include <stdint.h>

/* The default of max_window_key_indices, and how many a key can name. */
#define OTTE_RDMA_KEY_INDICES 65536u
#define OTTE_RDMA_KEY_INDICES_MAX (1u << 24)

struct otte_rdma_keys;
struct otte_rdma_key_index; /* a known index; stays where it is until destroy */

/* -ENOMEM. More than OTTE_RDMA_KEY_INDICES_MAX are as many. */
int otte_rdma_keys_create(uint32_t max_indices, struct otte_rdma_keys **keys);
/* NULL is allowed. The PD is gone. */
void otte_rdma_keys_destroy(struct otte_rdma_keys *keys);

/*
 * The provider has allocated a window with this key. 0: *index is its index, to grant from. Else
 * the window is of no use, and nothing has changed: -EEXIST with a text, the provider has handed
 * out a key that it, or a grant, had before, or an index that is another window's; -EDQUOT with a
 * text that names rdma.key_indices.
 */
int otte_rdma_keys_admit(struct otte_rdma_keys *keys, uint32_t key,
			 struct otte_rdma_key_index **index);

/* A key that nobody has had, for the live window of this index. -ENOSPC: it is parked. */
int otte_rdma_keys_grant(struct otte_rdma_keys *keys, struct otte_rdma_key_index *index,
			 uint32_t *key);

/* The window is freed. */
void otte_rdma_keys_retire(struct otte_rdma_keys *keys, struct otte_rdma_key_index *index);

struct otte_rdma_keys_stats {
	uint32_t indices; /* known: live, retired and parked; counted against the bound */
	uint32_t live;    /* with a window */
	uint32_t parked;  /* without a byte that is left; with a window or not */
	uint64_t grants;
};

void otte_rdma_keys_stats(const struct otte_rdma_keys *keys, struct otte_rdma_keys_stats *stats);

#endif
