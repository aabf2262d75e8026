/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/access.h"

#include <errno.h>

#include "base/error.h"

void otte_access_map_init(struct otte_access_map *map)
{
	pthread_mutex_init(&map->lock, NULL);
	map->tree = (struct otte_itree){ 0 };
	map->live = 0;
	map->shared = NULL;
}

void otte_access_map_fini(struct otte_access_map *map)
{
	pthread_mutex_destroy(&map->lock);
}

static bool writes(const struct otte_inode *node, void *arg)
{
	(void)arg;
	return container_of(node, struct otte_access, range)->write;
}

/* Under lock. */
static int enter(struct otte_access_map *map, struct otte_access *access, bool check)
{
	access->slot = otte_uses_lend(map->shared, access->range.start, access->range.end,
				      access->write, check);
	return access->slot == OTTE_USES_CONFLICT ?
		       otte_fail(-EBUSY, "bytes [%lu, %lu) are being transferred by a peer of this host",
				 (unsigned long)access->range.start,
				 (unsigned long)access->range.end) :
		       0;
}

/* Told of every live range, of which it never wants one. */
static bool enter_live(const struct otte_inode *node, void *arg)
{
	enter(arg, (struct otte_access *)container_of(node, struct otte_access, range), false);
	return false;
}

void otte_access_share(struct otte_access_map *map, struct otte_uses *shared)
{
	pthread_mutex_lock(&map->lock);
	map->shared = shared;
	otte_itree_find(&map->tree, 0, UINT64_MAX, enter_live, map);
	pthread_mutex_unlock(&map->lock);
}

int otte_access_begin(struct otte_access_map *map, struct otte_access *access, uint64_t offset,
		      uint64_t length, bool write)
{
	struct otte_inode *other;
	int ret = 0;

	access->range.start = offset;
	access->range.end = offset + length;
	access->write = write;
	pthread_mutex_lock(&map->lock);
	other = otte_itree_find(&map->tree, offset, offset + length, write ? NULL : writes, NULL);
	if (other) {
		ret = otte_fail(-EBUSY, "bytes [%lu, %lu) are being %s", (unsigned long)other->start,
				(unsigned long)other->end,
				writes(other, NULL) ? "written" : "read");
	} else if (map->shared) {
		ret = enter(map, access, true);
	}
	if (!ret) {
		otte_itree_insert(&map->tree, &access->range);
		map->live++;
	}
	pthread_mutex_unlock(&map->lock);
	return ret;
}

void otte_access_end(struct otte_access_map *map, struct otte_access *access)
{
	pthread_mutex_lock(&map->lock);
	otte_itree_remove(&map->tree, &access->range);
	map->live--;
	if (map->shared)
		otte_uses_unlend(map->shared, access->slot, access->write);
	pthread_mutex_unlock(&map->lock);
}

bool otte_access_any(struct otte_access_map *map)
{
	bool any;

	pthread_mutex_lock(&map->lock);
	any = map->live != 0;
	pthread_mutex_unlock(&map->lock);
	return any;
}
