/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A table of uses in shared memory: which bytes of one allocation are touched now, by which of the processes that
 * have it mapped. Readers share, a writer excludes.
 *
 * A slot is claimed by CAS, gets its range, is made READS or WRITES, and only then its owner looks
 * at the others. All of that is sequentially consistent, so of two uses that conflict at least one
 * sees the other; both may, and then both are refused. A slot that changes while it is looked at is
 * of a use that began after ours was to be seen, and will see it.
 *
 *   FREE -> CLAIMED -> READS or WRITES -> over        one word: state, owner, and a number that grows
 *
 * A use that is over leaves its word as it was, and says so beside it, with its number; the slot is free to be claimed
 * then. FREE is a slot that was never claimed, or that somebody else has freed.
 *
 * Where every slot is taken, the owner of the memory counts its uses as `coarse`: each is one of all bytes.
 *
 * Who takes long says from time to time that it goes on (beat). What stands still can so be told from what is slow, and
 * freed once nothing is lent to its owner any more: it may wake up after all, so it frees its own use only.
 *
 * The table is written by processes that may be wrong: whatever stands in it, every call ends, and touches
 * nothing but the table.
 */
#ifndef OTTE_BASE_USES_H
#define OTTE_BASE_USES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define OTTE_USES_SLOTS 1024
#define OTTE_USES_NONE (-1)     /* no slot: every one is taken */
#define OTTE_USES_CONFLICT (-2) /* no slot: another's use is in the way */
#define OTTE_USES_COARSE (-3)   /* counted, of all bytes; the owner of the memory only */

#define OTTE_USES_LENDER 1u /* the owner of the memory, whose uses do not exclude each other here */
#define OTTE_USES_OWNER_MAX ((1u << 30) - 1)

struct otte_uses_slot {
	_Atomic uint64_t word;
	_Atomic uint64_t start, end;
	_Atomic uint64_t pulse; /* of the use of that number: how often it said that it goes on, or OVER */
};

/* What the lender keeps of a slot: what it showed at the last look, and whether it is the lender's own use. */
struct otte_uses_seen {
	uint64_t word, pulse;
	_Atomic bool mine;
	bool forged; /* it stood as the lender's, and was not */
};

/* What the lender keeps of its table where nobody else can write. */
struct otte_uses_own {
	uint32_t coarse_readers, coarse_writers; /* caller's lock */
	struct otte_uses_seen *slots;            /* OTTE_USES_SLOTS; NULL: the table is not looked at */
};

struct otte_uses {
	_Atomic uint32_t top; /* no slot from here on was ever claimed */
	_Atomic uint32_t coarse_readers, coarse_writers;
	uint32_t reserved[13];
	struct otte_uses_slot slots[OTTE_USES_SLOTS];
};

/* A use of a slot, or OTTE_USES_NONE or _CONFLICT. `owner`: 1 to OTTE_USES_OWNER_MAX. */
int otte_uses_begin(struct otte_uses *uses, uint32_t owner, uint64_t start, uint64_t end, bool write);
void otte_uses_end(struct otte_uses *uses, int use);
/* It goes on. */
void otte_uses_beat(struct otte_uses *uses, int use);

/* By the lender: a use, COARSE or CONFLICT. `check` false: what conflicts is not looked for. Caller's lock: own's. */
int otte_uses_lend(struct otte_uses *uses, struct otte_uses_own *own, uint64_t start, uint64_t end, bool write,
		   bool check);
/* The same without that lock: NONE where it would be COARSE. */
int otte_uses_lend_alone(struct otte_uses *uses, struct otte_uses_own *own, uint64_t start, uint64_t end, bool write);
void otte_uses_unlend(struct otte_uses *uses, struct otte_uses_own *own, int use, bool write);

/* `owner` is proven to be gone: free what it left behind. */
void otte_uses_clear(struct otte_uses *uses, uint32_t owner);

/*
 * By the lender: still() is told the owner of each use that stands as it did at the last look; true: free it. What is
 * said to be of the lender and is not, is freed in any case. Caller's lock: own's.
 */
void otte_uses_look(struct otte_uses *uses, struct otte_uses_own *own, bool (*still)(void *arg, uint32_t owner),
		    void *arg);

#endif
