/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who reaches an allocation by itself: processes of this host that map it, or copy through the module, and say in a
 * table of uses (base/uses.h) what they touch.
 *
 * A range is lent from otte_mem_lend() to otte_mem_unlend(). The first makes the allocation's table, which stays as
 * long as that; our own user's processes share it. A peer of another user is a guest with a table of its own, as
 * long as anything is lent to it. mem->share_lock orders both. engine->memory_lock protects the list of allocations
 * that have a table, and the users of each.
 */
#ifndef OTTE_ENGINE_MEMORY_USES_H
#define OTTE_ENGINE_MEMORY_USES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/access.h"

struct otte_engine;
struct otte_mem;

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

/* A process that reaches the memory by itself, as long as something of it is lent. */
struct otte_mem_user {
	struct otte_mem_user *prev, *next;
	uint32_t owner;      /* in the table of uses */
	_Atomic bool stands; /* has uses that nobody ends */
};

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

/* Nothing of it is lent, and nobody uses it: the table goes, with the allocation. */
void otte_mem_free_uses(struct otte_mem *mem);

#endif
