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

/* The table of uses of one peer of another user, as long as it is lent anything of the allocation. */
struct otte_mem_guest {
	uint64_t client;              /* of the module; 0: none */
	uint32_t lents;
	int place;                    /* in the access map */
	struct otte_uses *uses;
	uint64_t uses_region;         /* the ledger's, of the table */
};

/*
 * A range that a peer of this host reaches by itself. Those of our user keep each other from conflicts by the table
 * that they share; a peer of another user has one of its own, so it and anybody else are lent what conflicts never at
 * the same time.
 */
struct otte_mem_lent {
	struct otte_mem_lent *prev, *next; /* mem->lents */
	uint64_t client;              /* of another user; 0: of our own */
	uint64_t start, end;
	bool write;
	struct otte_mem_guest *guest; /* or NULL */
	struct otte_access_lent access; /* of the guest */
	uint64_t uses_region;         /* the ledger's region of the table, where the module is to lend that; else 0 */
};

/*
 * An allocation. Fixed from creation on are what stands up to `length`, and `fd`; the rest names
 * its lock, or has its own. It is on engine->memories by address until released.
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
	pthread_mutex_t share_lock;   /* uses, uses_fd: making them; what follows, up to `prev` */
	int uses_fd;                  /* the table of uses; -1: nobody has mapped the memory yet */
	struct otte_uses *uses;
	uint64_t uses_region;         /* the ledger's, of `uses`; 0: the module has not lent it yet */
	struct otte_mem_guest guests[OTTE_ACCESS_GUESTS];
	struct otte_mem_lent *lents;
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

/* Whether others can map the memory itself: 0, -EOPNOTSUPP. */
int otte_mem_share(const struct otte_mem *mem);
/*
 * The range of `lent`, whose client, start, end and write are set, is to be reached by a process by itself: there is a
 * table of its uses from now on, `by_module`: one that the module can lend. -EBUSY: it conflicts with what is lent
 * to another user; -EUSERS: to too many.
 */
int otte_mem_lend(struct otte_mem *mem, struct otte_mem_lent *lent, bool by_module);
/* Of a table, in whole pages. */
uint64_t otte_mem_uses_bytes(void);
/* Nobody reaches it so any more. */
void otte_mem_unlend(struct otte_mem *mem, struct otte_mem_lent *lent);
/*
 * In no table of our own user's does `owner`, who has ended, use anything any more; those of guests
 * go with their last grant.
 */
void otte_mem_clear_uses(struct otte_engine *engine, uint32_t owner);
/* Of memory that is tracked. */
void otte_mem_add_user(struct otte_mem *mem, struct otte_mem_user *user);
void otte_mem_remove_user(struct otte_mem *mem, struct otte_mem_user *user);
/*
 * Marks the users of whom a use has stood still since the last look, in any table of our user's, and frees such uses
 * of whom nothing is lent to any more.
 */
void otte_mem_look(struct otte_engine *engine);

#endif
