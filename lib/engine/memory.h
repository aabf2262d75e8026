/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_ENGINE_MEMORY_H
#define OTTE_ENGINE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/access.h"
#include "engine/memory_uses.h"
#include "otte/otte.h"

enum otte_mem_kind {
	OTTE_MEM_OWNED = 0,
	OTTE_MEM_ADOPTED = 1,
	OTTE_MEM_FILE = 2,
};

struct otte_cuda_mem;

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
	struct otte_cuda_mem *cuda;   /* what CUDA knows of it: cuda/memory.h; NULL: nothing */
	struct otte_inode place;      /* engine->memories, under engine->memory_lock */
	_Atomic uint64_t views;       /* regions registered on it */
	struct otte_access_map access;
	/* With local.trusted, so that peers of this host can map it too; -1: they cannot. */
	int fd;
	/* The rest is of who reaches it by itself: memory_uses.h. */
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

/* Whether the byte at `at` still has a page behind it: a file may have been truncated since it was mapped. */
bool otte_mem_present(const struct otte_mem *mem, uint64_t at);

/*
 * An allocation at `address`, whose bytes are the caller's to give back when this fails: -EEXIST where it overlaps one
 * that the engine has. What it owns beside, `fd`, goes with it.
 */
int otte_mem_create(struct otte_engine *engine, enum otte_mem_kind kind, void *address, uint64_t length,
		    unsigned flags, int fd, struct otte_mem **mem);

/* Whether the CPU cannot touch it. */
bool otte_mem_on_device(const struct otte_mem *mem);
/* Whether the CPU can, at any time until it is released: it is the engine's own. */
bool otte_mem_is_firm(const struct otte_mem *mem);

/* Of one of CUDA's: its bytes. -EUCLEAN: they stay, and that is recorded. */
int otte_mem_free_cuda(struct otte_mem *mem);

/* Whether others can map the memory itself: 0, -EOPNOTSUPP. */
int otte_mem_share(const struct otte_mem *mem);

#endif
