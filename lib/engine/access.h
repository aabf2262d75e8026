/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who touches which bytes of an allocation now: readers share, a writer excludes. Every view of an
 * allocation, and every request of ours and of peers, goes through the allocation's one map. Once processes of
 * this host have the memory mapped, what they touch stands in a table that is shared with them, and so does what
 * we touch.
 *
 * A peer of another user has a table of its own (a guest's), in which it finds our uses and we find its own, so that
 * what it writes there is nobody else's trouble but ours. It is believed within what that peer is lent, and there that
 * it writes only where it may: else a few bytes for reading would be a veto over the whole allocation. While there are
 * such tables nobody is alone.
 *
 * One use at a time, whose owner sees to that, may do without the lock and the tree (`alone`): it states its range,
 * and then looks whether anything is live; others count as live, and then look at its range. All of that is
 * sequentially consistent, so of two that conflict at least one sees the other.
 */
#ifndef OTTE_ENGINE_ACCESS_H
#define OTTE_ENGINE_ACCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/itree.h"
#include "base/uses.h"

#define OTTE_ACCESS_GUESTS 8

struct otte_access {
	struct otte_inode range;
	bool write;
	int slot; /* of the shared table, while there is one */
	int guests[OTTE_ACCESS_GUESTS]; /* and of each guest's that there is */
};

/* What a guest is lent. */
struct otte_access_lent {
	struct otte_inode range;
	bool write;
};

struct otte_access_guest {
	struct otte_uses *uses;     /* NULL: none */
	struct otte_uses_own own;
	struct otte_itree lents[2]; /* for reading, for writing */
};

struct otte_access_map {
	pthread_mutex_t lock;
	struct otte_itree tree;
	_Atomic uint64_t live;              /* in the tree, or about to be; written under lock */
	struct otte_access_guest guests[OTTE_ACCESS_GUESTS]; /* under lock */
	_Atomic(struct otte_uses *) shared; /* NULL: nobody else has the memory mapped, nor has ever had */
	struct otte_uses_own own;           /* of `shared` */
	_Atomic uint64_t alone;             /* READS or WRITES, or 0, and a number that grows */
	_Atomic uint64_t alone_start, alone_end;
};

void otte_access_map_init(struct otte_access_map *map);
void otte_access_map_fini(struct otte_access_map *map);

/* Offsets are of the allocation. -EBUSY names the range in the way. */
int otte_access_begin(struct otte_access_map *map, struct otte_access *access, uint64_t offset,
		      uint64_t length, bool write);
/* From now on the table is kept: what is live is entered. It must be the map's only one. `seen`: all zero, kept. */
void otte_access_share(struct otte_access_map *map, struct otte_uses *shared, struct otte_uses_seen *seen);
/* otte_uses_look() for the table that is shared. */
void otte_access_look(struct otte_access_map *map, bool (*still)(void *arg, uint32_t owner), void *arg);
/* One more table, of one peer's. Its place, or -EUSERS. */
int otte_access_share_guest(struct otte_access_map *map, struct otte_uses *uses);
/* It is of no use any more, and is not looked at after. Nothing is lent to it. */
void otte_access_forget_guest(struct otte_access_map *map, int place);
/* The guest may use these bytes from now on, or no longer. */
void otte_access_lend(struct otte_access_map *map, int place, struct otte_access_lent *lent, uint64_t start,
		      uint64_t end, bool write);
void otte_access_unlend(struct otte_access_map *map, int place, struct otte_access_lent *lent);
void otte_access_end(struct otte_access_map *map, struct otte_access *access);
/* `to` stands for `from` from now on, which is not to be ended any more. */
void otte_access_replace(struct otte_access_map *map, struct otte_access *from, struct otte_access *to);
/*
 * The same for the one use that needs no lock. False: not now, and perhaps otherwise; nothing has changed. The caller
 * sees to it that there is only one at a time.
 */
bool otte_access_begin_alone(struct otte_access_map *map, struct otte_access *access, uint64_t offset,
			     uint64_t length, bool write);
void otte_access_end_alone(struct otte_access_map *map, const struct otte_access *access);
/* Who is alone now has ended. */
void otte_access_wait_alone(struct otte_access_map *map);
bool otte_access_any(struct otte_access_map *map);

#endif
