/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/access.h"

#include <errno.h>

#include "base/error.h"

void otte_access_map_init(struct otte_access_map *map)
{
	pthread_mutex_init(&map->lock, NULL);
	map->tree = (struct otte_itree){ 0 };
	map->live = 0;
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
	} else {
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
