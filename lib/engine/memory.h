/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_ENGINE_MEMORY_H
#define OTTE_ENGINE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/access.h"
#include "otte/otte.h"

enum otte_mem_kind {
	OTTE_MEM_OWNED = 0,
	OTTE_MEM_ADOPTED = 1,
	OTTE_MEM_FILE = 2,
};

/*
 * An allocation. Everything but `views` and the access map is fixed from creation on; it is on
 * engine->memories by address until released.
 */
struct otte_mem {
	struct otte_engine *engine;
	enum otte_mem_kind kind;
	unsigned flags;
	uint8_t *address;
	uint64_t length;
	struct otte_inode place;      /* engine->memories, under engine->memory_lock */
	_Atomic uint64_t views;       /* regions registered on it */
	struct otte_access_map access;
	/* With local.trusted, so that peers of this host can map it too; -1: they cannot. */
	int fd;
	pthread_mutex_t share_lock;   /* uses, uses_fd: making them */
	int uses_fd;                  /* the table of uses; -1: nobody has mapped the memory yet */
	struct otte_uses *uses;
	struct otte_mem *prev, *next; /* engine->tracked, under engine->memory_lock; and the rest, too */
	struct otte_uses_seen *seen;  /* of the table */
	struct otte_mem_user *users;
};

/* A process that reaches the memory by itself, as long as something of it is lent. */
struct otte_mem_user {
	struct otte_mem_user *prev, *next;
	uint32_t owner;      /* in the table of uses */
	_Atomic bool stands; /* has uses that nobody ends */
};

/* Whether the byte at `at` still has a page behind it: a file may have been truncated since it was mapped. */
bool otte_mem_present(const struct otte_mem *mem, uint64_t at);

/*
 * The memory is to be lent to a process that maps it: have its table of uses. -EOPNOTSUPP: nobody else can map it.
 */
int otte_mem_share(struct otte_mem *mem);
/* From now on there is a table of its uses, for processes that reach it by themselves. */
int otte_mem_track(struct otte_mem *mem);
/* In no table does `owner`, who has ended, use anything any more. */
void otte_mem_clear_uses(struct otte_engine *engine, uint32_t owner);
/* Of memory that is tracked. */
void otte_mem_add_user(struct otte_mem *mem, struct otte_mem_user *user);
void otte_mem_remove_user(struct otte_mem *mem, struct otte_mem_user *user);
/*
 * Marks the users of whom a use has stood still since the last look, in any table, and frees such uses of those to
 * whom nothing is lent any more.
 */
void otte_mem_look(struct otte_engine *engine);

#endif
