/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/access.h"

#include <errno.h>

#include "base/error.h"
#include "base/thread.h"
#include "base/util.h"

#define WAIT_NS 20000

/* Of `alone`: a number that grows with each use, above its state. */
enum {
	IDLE = 0,
	READS = 1,
	WRITES = 2,
	STATE = 3,
	NEXT = 4,
};

void otte_access_map_init(struct otte_access_map *map)
{
	pthread_mutex_init(&map->lock, NULL);
	map->tree = (struct otte_itree){ 0 };
	atomic_init(&map->live, 0);
	atomic_init(&map->shared, NULL);
	map->own = (struct otte_uses_own){ 0 };
	zero_bytes(map->guests, sizeof(map->guests));
	atomic_init(&map->alone, IDLE);
	atomic_init(&map->alone_start, 0);
	atomic_init(&map->alone_end, 0);
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
static int enter(struct otte_uses *uses, struct otte_uses_own *own, const struct otte_access *access, bool check,
		 int *slot)
{
	*slot = otte_uses_lend(uses, own, access->range.start, access->range.end, access->write, check);
	return *slot == OTTE_USES_CONFLICT ?
		       otte_fail(-EBUSY, "bytes [%lu, %lu) are being transferred by a peer of this host",
				 (unsigned long)access->range.start,
				 (unsigned long)access->range.end) :
		       0;
}

/* Under lock: the tables of the first `count` guests. */
static void leave_guests(struct otte_access_map *map, const struct otte_access *access, unsigned count)
{
	struct otte_access_guest *guest;
	unsigned i;

	for (i = 0; i < count; i++) {
		guest = &map->guests[i];
		if (guest->uses)
			otte_uses_unlend(guest->uses, &guest->own, access->guests[i], access->write);
	}
}

/* Under lock: whether the guest is lent anything that could be in conflict. */
static bool may_conflict(const struct otte_access_guest *guest, const struct otte_access *access)
{
	uint64_t start = access->range.start, end = access->range.end;

	return otte_itree_find(&guest->lents[true], start, end, NULL, NULL) ||
	       (access->write && otte_itree_find(&guest->lents[false], start, end, NULL, NULL));
}

/* Under lock: all tables that there are, or none. */
static int enter_all(struct otte_access_map *map, struct otte_access *access)
{
	struct otte_uses *shared = atomic_load(&map->shared);
	struct otte_access_guest *guest;
	unsigned i;
	int ret = 0;

	for (i = 0; i < OTTE_ACCESS_GUESTS && !ret; i++) {
		guest = &map->guests[i];
		if (guest->uses)
			ret = enter(guest->uses, &guest->own, access, may_conflict(guest, access),
				    &access->guests[i]);
	}
	if (ret) {
		leave_guests(map, access, i - 1);
		return ret;
	}
	if (shared)
		ret = enter(shared, &map->own, access, true, &access->slot);
	if (ret)
		leave_guests(map, access, OTTE_ACCESS_GUESTS);
	return ret;
}

/* A table that is new, and its place among the guests' or -1. */
struct newcomer {
	struct otte_uses *uses;
	struct otte_uses_own *own;
	int place;
};

/* Told of every live range, of which it never wants one. */
static bool enter_live(const struct otte_inode *node, void *arg)
{
	struct otte_access *access = container_of(node, struct otte_access, range);
	const struct newcomer *newcomer = arg;

	enter(newcomer->uses, newcomer->own, access, false,
	      newcomer->place < 0 ? &access->slot : &access->guests[newcomer->place]);
	return false;
}

/*
 * For one copy of 256 KiB at the most. Asleep: who only yields to it, at a realtime priority above its own, would
 * keep it from its CPU for ever. To be woken by it would cost each copy more than this costs the few who wait.
 */
void otte_access_wait_alone(struct otte_access_map *map)
{
	uint64_t word = atomic_load(&map->alone);

	while (word & STATE && atomic_load(&map->alone) == word)
		otte_thread_sleep(WAIT_NS);
}

void otte_access_share(struct otte_access_map *map, struct otte_uses *shared, struct otte_uses_seen *seen)
{
	struct newcomer newcomer = { shared, &map->own, -1 };

	pthread_mutex_lock(&map->lock);
	map->own.slots = seen;
	/* Who is alone now does not know of the table, and is done in some microseconds; no other begins so. */
	atomic_fetch_add(&map->live, 1);
	otte_access_wait_alone(map);
	atomic_store(&map->shared, shared);
	otte_itree_find(&map->tree, 0, UINT64_MAX, enter_live, &newcomer);
	atomic_fetch_sub(&map->live, 1);
	pthread_mutex_unlock(&map->lock);
}

void otte_access_look(struct otte_access_map *map, bool (*still)(void *arg, uint32_t owner), void *arg)
{
	pthread_mutex_lock(&map->lock);
	otte_uses_look(atomic_load(&map->shared), &map->own, still, arg);
	pthread_mutex_unlock(&map->lock);
}

int otte_access_share_guest(struct otte_access_map *map, struct otte_uses *uses)
{
	struct newcomer newcomer = { uses, NULL, 0 };

	pthread_mutex_lock(&map->lock);
	while (newcomer.place < OTTE_ACCESS_GUESTS && map->guests[newcomer.place].uses)
		newcomer.place++;
	if (newcomer.place == OTTE_ACCESS_GUESTS) {
		pthread_mutex_unlock(&map->lock);
		return otte_fail(-EUSERS, "%d peers of other users borrow of this memory already",
				 OTTE_ACCESS_GUESTS);
	}
	/* Live as long as it is here: who would be alone looks into none of these. */
	atomic_fetch_add(&map->live, 1);
	otte_access_wait_alone(map);
	map->guests[newcomer.place].uses = uses;
	map->guests[newcomer.place].own = (struct otte_uses_own){ 0 };
	newcomer.own = &map->guests[newcomer.place].own;
	otte_itree_find(&map->tree, 0, UINT64_MAX, enter_live, &newcomer);
	pthread_mutex_unlock(&map->lock);
	return newcomer.place;
}

void otte_access_forget_guest(struct otte_access_map *map, int place)
{
	pthread_mutex_lock(&map->lock);
	map->guests[place].uses = NULL;
	atomic_fetch_sub(&map->live, 1);
	pthread_mutex_unlock(&map->lock);
}

void otte_access_lend(struct otte_access_map *map, int place, struct otte_access_lent *lent, uint64_t start,
		      uint64_t end, bool write)
{
	lent->range.start = start;
	lent->range.end = end;
	lent->write = write;
	pthread_mutex_lock(&map->lock);
	otte_itree_insert(&map->guests[place].lents[write], &lent->range);
	pthread_mutex_unlock(&map->lock);
}

void otte_access_unlend(struct otte_access_map *map, int place, struct otte_access_lent *lent)
{
	pthread_mutex_lock(&map->lock);
	otte_itree_remove(&map->guests[place].lents[lent->write], &lent->range);
	pthread_mutex_unlock(&map->lock);
}

/* The range of the use without lock is in the way. One that changes meanwhile has begun anew, and sees ours. */
static bool meets_alone(struct otte_access_map *map, const struct otte_access *access)
{
	uint64_t word = atomic_load(&map->alone);

	if ((word & STATE) == IDLE || (!access->write && (word & STATE) == READS))
		return false;
	if (atomic_load(&map->alone_start) >= access->range.end ||
	    access->range.start >= atomic_load(&map->alone_end))
		return false;
	return atomic_load(&map->alone) == word;
}

/* Under lock: nothing in the tree is in the way. */
static int join(struct otte_access_map *map, struct otte_access *access)
{
	int ret = 0;

	atomic_fetch_add(&map->live, 1);
	if (meets_alone(map, access))
		ret = otte_fail(-EBUSY, "bytes [%lu, %lu) are being transferred",
				(unsigned long)access->range.start, (unsigned long)access->range.end);
	else
		ret = enter_all(map, access);
	if (ret)
		atomic_fetch_sub(&map->live, 1);
	else
		otte_itree_insert(&map->tree, &access->range);
	return ret;
}

int otte_access_begin(struct otte_access_map *map, struct otte_access *access, uint64_t offset,
		      uint64_t length, bool write)
{
	struct otte_inode *other;
	int ret;

	access->range.start = offset;
	access->range.end = offset + length;
	access->write = write;
	pthread_mutex_lock(&map->lock);
	other = otte_itree_find(&map->tree, offset, offset + length, write ? NULL : writes, NULL);
	if (other)
		ret = otte_fail(-EBUSY, "bytes [%lu, %lu) are being %s", (unsigned long)other->start,
				(unsigned long)other->end,
				writes(other, NULL) ? "written" : "read");
	else
		ret = join(map, access);
	pthread_mutex_unlock(&map->lock);
	return ret;
}

void otte_access_end(struct otte_access_map *map, struct otte_access *access)
{
	pthread_mutex_lock(&map->lock);
	otte_itree_remove(&map->tree, &access->range);
	atomic_fetch_sub(&map->live, 1);
	if (atomic_load(&map->shared))
		otte_uses_unlend(atomic_load(&map->shared), &map->own, access->slot, access->write);
	leave_guests(map, access, OTTE_ACCESS_GUESTS);
	pthread_mutex_unlock(&map->lock);
}

void otte_access_replace(struct otte_access_map *map, struct otte_access *from, struct otte_access *to)
{
	pthread_mutex_lock(&map->lock);
	otte_itree_remove(&map->tree, &from->range);
	*to = *from;
	otte_itree_insert(&map->tree, &to->range);
	pthread_mutex_unlock(&map->lock);
}

static void leave_alone(struct otte_access_map *map)
{
	uint64_t word = atomic_load_explicit(&map->alone, memory_order_relaxed);

	atomic_store_explicit(&map->alone, word & ~(uint64_t)STATE, memory_order_release);
}

bool otte_access_begin_alone(struct otte_access_map *map, struct otte_access *access, uint64_t offset,
			     uint64_t length, bool write)
{
	uint64_t word = atomic_load_explicit(&map->alone, memory_order_relaxed);
	struct otte_uses *shared;

	access->range.start = offset;
	access->range.end = offset + length;
	access->write = write;
	access->slot = OTTE_USES_NONE;
	/* Released: who sees them sees that the use before has ended, and does not take them for its range. */
	atomic_store_explicit(&map->alone_start, offset, memory_order_release);
	atomic_store_explicit(&map->alone_end, offset + length, memory_order_release);
	atomic_store(&map->alone, word + NEXT + (write ? WRITES : READS));
	if (atomic_load(&map->live))
		goto busy;
	shared = atomic_load(&map->shared);
	if (!shared)
		return true;
	access->slot = otte_uses_lend_alone(shared, &map->own, offset, offset + length, write);
	if (access->slot < 0)
		goto busy;
	return true;

busy:
	leave_alone(map);
	return false;
}

void otte_access_end_alone(struct otte_access_map *map, const struct otte_access *access)
{
	/* OTTE_USES_NONE: there was no table when it began, and there will be none before it ends. */
	if (access->slot != OTTE_USES_NONE)
		otte_uses_unlend(atomic_load(&map->shared), &map->own, access->slot, access->write);
	leave_alone(map);
}

bool otte_access_any(struct otte_access_map *map)
{
	bool any;

	pthread_mutex_lock(&map->lock);
	any = atomic_load(&map->live) || atomic_load(&map->alone) & STATE;
	pthread_mutex_unlock(&map->lock);
	return any;
}
