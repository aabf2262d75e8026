/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/uses.h"

#include "base/util.h"

enum {
	FREE = 0,
	CLAIMED = 1,
	READS = 2,
	WRITES = 3,
};

#define STATE_BITS 2
#define OWNER_BITS 30
#define SERIAL_SHIFT (STATE_BITS + OWNER_BITS)

static unsigned state_of(uint64_t word)
{
	return word & ((1u << STATE_BITS) - 1);
}

static uint32_t owner_of(uint64_t word)
{
	return (uint32_t)(word >> STATE_BITS) & ((1u << OWNER_BITS) - 1);
}

static uint64_t with(uint64_t word, uint32_t owner, unsigned state)
{
	return word >> SERIAL_SHIFT << SERIAL_SHIFT | (uint64_t)owner << STATE_BITS | state;
}

static uint32_t top_of(struct otte_uses *uses)
{
	return (uint32_t)min_u64(atomic_load(&uses->top), OTTE_USES_SLOTS);
}

/* Before the slot is READS or WRITES: who looks afterwards looks that far. */
static void raise_top(struct otte_uses *uses, uint32_t top)
{
	uint32_t old = atomic_load(&uses->top);
	unsigned i;

	/* Each that is lost to an honest process has raised it. */
	for (i = 0; i < OTTE_USES_SLOTS && old < top; i++)
		if (atomic_compare_exchange_strong(&uses->top, &old, top))
			return;
}

static int claim(struct otte_uses *uses, uint32_t owner)
{
	unsigned i;

	for (i = 0; i < OTTE_USES_SLOTS; i++) {
		uint64_t old = atomic_load_explicit(&uses->slots[i].word, memory_order_relaxed);
		uint64_t claimed = with(old + (1ull << SERIAL_SHIFT), owner, CLAIMED);

		if (state_of(old) == FREE &&
		    atomic_compare_exchange_strong(&uses->slots[i].word, &old, claimed)) {
			raise_top(uses, i + 1);
			return (int)i;
		}
	}
	return OTTE_USES_NONE;
}

static void publish(struct otte_uses *uses, int at, uint32_t owner, uint64_t start, uint64_t end,
		    bool write)
{
	struct otte_uses_slot *slot = &uses->slots[at];
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);

	atomic_store_explicit(&slot->start, start, memory_order_relaxed);
	atomic_store_explicit(&slot->end, end, memory_order_relaxed);
	atomic_store(&slot->word, with(word, owner, write ? WRITES : READS));
}

static bool touches(struct otte_uses_slot *slot, uint64_t start, uint64_t end, bool write, uint32_t except)
{
	uint64_t word = atomic_load(&slot->word);
	unsigned state = state_of(word);

	if (state < READS || (!write && state == READS) || owner_of(word) == except)
		return false;
	if (atomic_load(&slot->start) >= end || start >= atomic_load(&slot->end))
		return false;
	return atomic_load(&slot->word) == word;
}

/* `mine`: our slot; `except`: an owner whose uses do not matter, 0: none. */
static bool conflicts(struct otte_uses *uses, int mine, uint64_t start, uint64_t end, bool write,
		      uint32_t except)
{
	uint32_t i, top = top_of(uses);

	for (i = 0; i < top; i++)
		if ((int)i != mine && touches(&uses->slots[i], start, end, write, except))
			return true;
	if (except == OTTE_USES_LENDER)
		return false;
	return atomic_load(&uses->coarse_writers) || (write && atomic_load(&uses->coarse_readers));
}

int otte_uses_begin(struct otte_uses *uses, uint32_t owner, uint64_t start, uint64_t end, bool write)
{
	int slot = claim(uses, owner);

	if (slot < 0)
		return slot;
	publish(uses, slot, owner, start, end, write);
	if (!conflicts(uses, slot, start, end, write, 0))
		return slot;
	otte_uses_end(uses, slot);
	return OTTE_USES_CONFLICT;
}

void otte_uses_end(struct otte_uses *uses, int slot)
{
	_Atomic uint64_t *word = &uses->slots[slot].word;

	atomic_store_explicit(word, with(atomic_load_explicit(word, memory_order_relaxed), 0, FREE),
			      memory_order_release);
}

int otte_uses_lend(struct otte_uses *uses, uint64_t start, uint64_t end, bool write, bool check)
{
	int slot = claim(uses, OTTE_USES_LENDER);

	if (slot >= 0) {
		publish(uses, slot, OTTE_USES_LENDER, start, end, write);
	} else {
		slot = OTTE_USES_COARSE;
		atomic_fetch_add(write ? &uses->coarse_writers : &uses->coarse_readers, 1);
	}
	if (!check || !conflicts(uses, slot, start, end, write, OTTE_USES_LENDER))
		return slot;
	otte_uses_unlend(uses, slot, write);
	return OTTE_USES_CONFLICT;
}

void otte_uses_unlend(struct otte_uses *uses, int slot, bool write)
{
	if (slot >= 0)
		otte_uses_end(uses, slot);
	else if (slot == OTTE_USES_COARSE)
		atomic_fetch_sub(write ? &uses->coarse_writers : &uses->coarse_readers, 1);
}

void otte_uses_clear(struct otte_uses *uses, uint32_t owner)
{
	unsigned i;

	for (i = 0; i < OTTE_USES_SLOTS; i++) {
		uint64_t word = atomic_load(&uses->slots[i].word);

		if (state_of(word) != FREE && owner_of(word) == owner)
			atomic_compare_exchange_strong(&uses->slots[i].word, &word, with(word, 0, FREE));
	}
}
