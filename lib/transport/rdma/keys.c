/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/keys.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

#define BYTES 256 /* that a consumer can choose */
#define WORDS (BYTES / 64)

struct otte_rdma_key_index {
	uint64_t used[WORDS]; /* a bit for each consumer byte that was handed out */
	uint32_t index;
	uint16_t count; /* of those bits */
	uint8_t last; /* the one that was handed out last */
	bool live;
};

struct otte_rdma_keys {
	struct otte_rdma_key_index *known; /* in the order in which they came */
	uint32_t *table; /* 1 + place in known[]; 0: empty */
	uint32_t table_mask;
	uint32_t max_indices;
	struct otte_rdma_keys_stats stats;
};

/* A power of two, at least twice as many: a search ends at an empty place. */
static uint32_t table_size(uint32_t max_indices)
{
	uint32_t size = 2;

	while (size < 2 * max_indices)
		size *= 2;
	return size;
}

int otte_rdma_keys_create(uint32_t max_indices, struct otte_rdma_keys **out)
{
	struct otte_rdma_keys *keys = calloc(1, sizeof(*keys));
	uint32_t size;

	if (!keys)
		return -ENOMEM;
	keys->max_indices = max_indices < OTTE_RDMA_KEY_INDICES_MAX ? max_indices :
								      OTTE_RDMA_KEY_INDICES_MAX;
	size = table_size(keys->max_indices);
	keys->table_mask = size - 1;
	keys->table = calloc(size, sizeof(*keys->table));
	keys->known = calloc(keys->max_indices + 1, sizeof(*keys->known));
	if (!keys->table || !keys->known) {
		otte_rdma_keys_destroy(keys);
		return -ENOMEM;
	}
	*out = keys;
	return 0;
}

void otte_rdma_keys_destroy(struct otte_rdma_keys *keys)
{
	if (!keys)
		return;
	free(keys->table);
	free(keys->known);
	free(keys);
}

/* Where the index is in the table, or is to be. */
static uint32_t *find(const struct otte_rdma_keys *keys, uint32_t index)
{
	uint32_t place = index * 2654435769u; /* 2^32 over the golden ratio */

	place ^= place >> 16;
	for (;; place++) {
		uint32_t *entry = &keys->table[place & keys->table_mask];

		if (!*entry || keys->known[*entry - 1].index == index)
			return entry;
	}
}

static bool is_used(const struct otte_rdma_key_index *index, uint8_t byte)
{
	return index->used[byte / 64] >> byte % 64 & 1;
}

static void use(struct otte_rdma_keys *keys, struct otte_rdma_key_index *index, uint8_t byte)
{
	index->used[byte / 64] |= 1ull << byte % 64;
	index->last = byte;
	if (++index->count == BYTES)
		keys->stats.parked++;
}

static int check_known(const struct otte_rdma_key_index *known, uint32_t key)
{
	if (known->live)
		return otte_fail(-EEXIST,
				 "the provider gave key 0x%08x, of a window that is in use", key);
	if (is_used(known, (uint8_t)key))
		return otte_fail(-EEXIST, "the provider gave key 0x%08x, which was in use before",
				 key);
	return 0;
}

static int add(struct otte_rdma_keys *keys, uint32_t index, uint32_t *entry,
	       struct otte_rdma_key_index **added)
{
	if (keys->stats.indices == keys->max_indices)
		return otte_fail(-EDQUOT, "rdma.key_indices (%u) are all used up",
				 keys->max_indices);
	*added = &keys->known[keys->stats.indices++];
	(*added)->index = index;
	*entry = keys->stats.indices;
	return 0;
}

int otte_rdma_keys_admit(struct otte_rdma_keys *keys, uint32_t key,
			 struct otte_rdma_key_index **out)
{
	uint32_t *entry = find(keys, key >> 8);
	struct otte_rdma_key_index *index = NULL;
	int ret;

	if (*entry) {
		index = &keys->known[*entry - 1];
		ret = check_known(index, key);
	} else {
		ret = add(keys, key >> 8, entry, &index);
	}
	if (ret)
		return ret;
	use(keys, index, (uint8_t)key);
	index->live = true;
	keys->stats.live++;
	*out = index;
	return 0;
}

/* From the given byte on, and around to those before it. There is one. */
static uint8_t first_fresh(const struct otte_rdma_key_index *index, uint8_t from)
{
	unsigned word = from / 64;
	uint64_t fresh = ~index->used[word] & ~0ull << from % 64;

	while (!fresh) {
		word = (word + 1) % WORDS;
		fresh = ~index->used[word];
	}
	return (uint8_t)(word * 64 + (unsigned)__builtin_ctzll(fresh));
}

int otte_rdma_keys_grant(struct otte_rdma_keys *keys, struct otte_rdma_key_index *index,
			 uint32_t *key)
{
	uint8_t byte;

	if (index->count == BYTES)
		return -ENOSPC;
	byte = first_fresh(index, (uint8_t)(index->last + 1));
	use(keys, index, byte);
	keys->stats.grants++;
	*key = index->index << 8 | byte;
	return 0;
}

void otte_rdma_keys_retire(struct otte_rdma_keys *keys, struct otte_rdma_key_index *index)
{
	index->live = false;
	keys->stats.live--;
}

void otte_rdma_keys_stats(const struct otte_rdma_keys *keys, struct otte_rdma_keys_stats *stats)
{
	*stats = keys->stats;
}
