/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "lru.h"

#include <errno.h>
#include <stdlib.h>

int lru_init(struct lru *lru, uint32_t capacity, size_t blocks)
{
	size_t i;

	*lru = (struct lru){ .newest = LRU_NONE, .oldest = LRU_NONE, .capacity = capacity };
	lru->slots = calloc(capacity, sizeof(*lru->slots));
	lru->slot_of = calloc(blocks, sizeof(*lru->slot_of));
	if (!lru->slots || !lru->slot_of) {
		lru_free(lru);
		return -ENOMEM;
	}
	for (i = 0; i < blocks; i++)
		lru->slot_of[i] = LRU_NONE;
	return 0;
}

void lru_free(struct lru *lru)
{
	free(lru->slots);
	free(lru->slot_of);
	lru->slots = NULL;
	lru->slot_of = NULL;
}

static void unlink_slot(struct lru *lru, uint32_t at)
{
	struct lru_slot *slot = &lru->slots[at];

	if (slot->newer == LRU_NONE)
		lru->newest = slot->older;
	else
		lru->slots[slot->newer].older = slot->older;
	if (slot->older == LRU_NONE)
		lru->oldest = slot->newer;
	else
		lru->slots[slot->older].newer = slot->newer;
}

static void link_newest(struct lru *lru, uint32_t at)
{
	struct lru_slot *slot = &lru->slots[at];

	slot->newer = LRU_NONE;
	slot->older = lru->newest;
	if (lru->newest == LRU_NONE)
		lru->oldest = at;
	else
		lru->slots[lru->newest].newer = at;
	lru->newest = at;
}

static uint32_t take_slot(struct lru *lru)
{
	uint32_t at = lru->oldest;

	if (lru->used < lru->capacity)
		return lru->used++;
	lru->slot_of[lru->slots[at].block] = LRU_NONE;
	unlink_slot(lru, at);
	return at;
}

bool lru_use(struct lru *lru, uint32_t block, uint32_t *slot)
{
	bool there = lru->slot_of[block] != LRU_NONE;

	if (there) {
		*slot = lru->slot_of[block];
		unlink_slot(lru, *slot);
	} else {
		*slot = take_slot(lru);
		lru->slots[*slot].block = block;
		lru->slot_of[block] = *slot;
	}
	link_newest(lru, *slot);
	return there;
}
