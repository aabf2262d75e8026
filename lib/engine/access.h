/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who touches which bytes of an allocation now: readers share, a writer excludes. Every view of an
 * allocation, and every request of ours and of peers, goes through the allocation's one map.
 */
#ifndef OTTE_ENGINE_ACCESS_H
#define OTTE_ENGINE_ACCESS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/itree.h"

struct otte_access {
	struct otte_inode range;
	bool write;
};

struct otte_access_map {
	pthread_mutex_t lock;
	struct otte_itree tree;
	uint64_t live;
};

void otte_access_map_init(struct otte_access_map *map);
void otte_access_map_fini(struct otte_access_map *map);

/* Offsets are of the allocation. -EBUSY names the range in the way. */
int otte_access_begin(struct otte_access_map *map, struct otte_access *access, uint64_t offset,
		      uint64_t length, bool write);
void otte_access_end(struct otte_access_map *map, struct otte_access *access);
bool otte_access_any(struct otte_access_map *map);

#endif
