/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which block is in which slot of the decode process's cache; the least recently used one goes. */
#ifndef OTTE_TOOL_LRU_H
#define OTTE_TOOL_LRU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LRU_NONE UINT32_MAX

struct lru_slot {
	uint32_t block;
	uint32_t newer, older;
};

struct lru {
	struct lru_slot *slots;
	uint32_t *slot_of; /* of each block, or LRU_NONE */
	uint32_t newest, oldest;
	uint32_t capacity, used;
};

/* 0 or -ENOMEM. Capacity at least 1. */
int lru_init(struct lru *lru, uint32_t capacity, size_t blocks);
void lru_free(struct lru *lru);

/* Use a block: true if it is there. *slot is where it is, or where it now belongs. */
bool lru_use(struct lru *lru, uint32_t block, uint32_t *slot);

#endif
