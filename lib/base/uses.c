/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/uses.h"

#include "base/util.h"

/*
 * The layout of a slot's word. Shared with processes of other builds: a change needs another LOCAL_MAGIC and
 * LOCAL_NAME (transport/local/local.h), and another OTTE_CAN_LEND bit or wire version (control/wire.h).
 */
enum {
	FREE = 0,
	CLAIMED = 1,
	READS = 2,
	WRITES = 3,
};

#define STATE_BITS 2
#define OWNER_BITS 30
#define SERIAL_SHIFT (STATE_BITS + OWNER_BITS)

/* Of `pulse`: the use's number, in the place it has in a word, and below how often it said that it goes on, or OVER. */
#define OVER UINT32_MAX

/* A use is its slot, and what of the slot's number there is room for in an int that is not negative. */
#define SLOT_BITS 10
#define NUMBER_BITS 20
_Static_assert(OTTE_USES_OWNER_MAX >> (OWNER_BITS - 1) == 1, "an owner's place in a word");
_Static_assert(OTTE_USES_SLOTS == 1u << SLOT_BITS, "a slot's place in a use");

static unsigned state_of(uint64_t word)
{
	return word & ((1u << STATE_BITS) - 1);
}

static uint32_t owner_of(uint64_t word)
{
	return (uint32_t)(word >> STATE_BITS) & OTTE_USES_OWNER_MAX;
}

static uint64_t number_in(uint64_t word)
{
	return word >> SERIAL_SHIFT << SERIAL_SHIFT;
}

static uint64_t with(uint64_t word, uint32_t owner, unsigned state)
{
	return number_in(word) | (uint64_t)owner << STATE_BITS | state;
}

static int use_of(unsigned slot, uint64_t word)
{
	return (int)(slot | ((word >> SERIAL_SHIFT) & ((1u << NUMBER_BITS) - 1)) << SLOT_BITS);
}

static unsigned slot_of(int use)
{
	return (unsigned)use % OTTE_USES_SLOTS;
}

/* What its owner did comes before, for who sees that it is over. */
static bool is_over(struct otte_uses_slot *slot, uint64_t word)
{
	return atomic_load_explicit(&slot->pulse, memory_order_acquire) == (number_in(word) | OVER);
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

/* Nobody's, whoever had it last. */
static bool is_free(struct otte_uses_slot *slot, uint64_t word)
{
	return state_of(word) == FREE || (state_of(word) >= READS && is_over(slot, word));
}

/* A use, or OTTE_USES_NONE. */
static int claim(struct otte_uses *uses, uint32_t owner)
{
	unsigned i;

	for (i = 0; i < OTTE_USES_SLOTS; i++) {
		uint64_t old = atomic_load_explicit(&uses->slots[i].word, memory_order_relaxed);
		uint64_t claimed = with(old + (1ull << SERIAL_SHIFT), owner, CLAIMED);

		if (is_free(&uses->slots[i], old) &&
		    atomic_compare_exchange_strong(&uses->slots[i].word, &old, claimed)) {
			raise_top(uses, i + 1);
			return use_of(i, claimed);
		}
	}
	return OTTE_USES_NONE;
}

/*
 * Who read the word of the use before, which was not over yet, and then our range, has seen no end of
 * that use but by our having claimed its slot: so the range releases, for touches() to acquire.
 */
static void publish(struct otte_uses *uses, int use, uint32_t owner, uint64_t start, uint64_t end,
		    bool write)
{
	struct otte_uses_slot *slot = &uses->slots[slot_of(use)];
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);

	atomic_store_explicit(&slot->start, start, memory_order_release);
	atomic_store_explicit(&slot->end, end, memory_order_release);
	atomic_store(&slot->word, with(word, owner, write ? WRITES : READS));
}

static bool touches(struct otte_uses_slot *slot, uint64_t start, uint64_t end, bool write, uint32_t except)
{
	uint64_t word = atomic_load(&slot->word);
	unsigned state = state_of(word);

	if (state < READS || (!write && state == READS) || owner_of(word) == except || is_over(slot, word))
		return false;
	if (atomic_load(&slot->start) >= end || start >= atomic_load(&slot->end))
		return false;
	return atomic_load(&slot->word) == word;
}

/* `mine`: our use, negative: without a slot; `except`: an owner whose uses do not matter, 0: none. */
static bool conflicts(struct otte_uses *uses, int mine, uint64_t start, uint64_t end, bool write,
		      uint32_t except)
{
	uint32_t i, top = top_of(uses);

	for (i = 0; i < top; i++)
		if ((mine < 0 || i != slot_of(mine)) && touches(&uses->slots[i], start, end, write, except))
			return true;
	if (except == OTTE_USES_LENDER)
		return false;
	return atomic_load(&uses->coarse_writers) || (write && atomic_load(&uses->coarse_readers));
}

int otte_uses_begin(struct otte_uses *uses, uint32_t owner, uint64_t start, uint64_t end, bool write)
{
	int use = claim(uses, owner);

	if (use < 0)
		return use;
	publish(uses, use, owner, start, end, write);
	if (!conflicts(uses, use, start, end, write, 0))
		return use;
	otte_uses_end(uses, use);
	return OTTE_USES_CONFLICT;
}

/*
 * A plain store, at which the bytes that were copied just before are not waited for. It may have been taken for one
 * that nobody ends, and the slot be another's by now: so it says of which use it speaks. If that comes to pass between
 * the look and the store, another's slot may lose its own OVER, and stays taken until its owner is lent nothing more.
 */
void otte_uses_end(struct otte_uses *uses, int use)
{
	struct otte_uses_slot *slot = &uses->slots[slot_of(use)];
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);

	if (state_of(word) != FREE && use_of(slot_of(use), word) == use)
		atomic_store_explicit(&slot->pulse, number_in(word) | OVER, memory_order_release);
}

void otte_uses_beat(struct otte_uses *uses, int use)
{
	struct otte_uses_slot *slot = &uses->slots[slot_of(use)];
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
	uint64_t pulse = atomic_load_explicit(&slot->pulse, memory_order_relaxed);
	uint32_t beats = number_in(pulse) == number_in(word) ? (uint32_t)pulse + 1 : 1;

	if (beats == OVER)
		beats = 0;
	if (use_of(slot_of(use), word) == use)
		atomic_store_explicit(&slot->pulse, number_in(word) | beats, memory_order_relaxed);
}

/*
 * Before its use is READS or WRITES, and until it ends: who looks takes no use of the lender's for a
 * forged one. Between the end of that and the slot's, whoever looks frees the slot, for a borrower to
 * begin. So the end of `mine` is one of the use already: it releases what the lender did, whoever
 * looks acquires that, and freeing the slot hands it on.
 */
static void set_mine(struct otte_uses_own *own, int use, bool mine)
{
	if (own->slots)
		atomic_store_explicit(&own->slots[slot_of(use)].mine, mine, memory_order_release);
}

static bool is_mine(struct otte_uses_seen *seen)
{
	return atomic_load_explicit(&seen->mine, memory_order_acquire);
}

/* A use, or OTTE_USES_NONE. */
static int lend(struct otte_uses *uses, struct otte_uses_own *own, uint64_t start, uint64_t end, bool write)
{
	int use = claim(uses, OTTE_USES_LENDER);

	if (use < 0)
		return use;
	set_mine(own, use, true);
	publish(uses, use, OTTE_USES_LENDER, start, end, write);
	return use;
}

/* Stored, not added to: what others have made of them is corrected so. */
static void tell_coarse(struct otte_uses *uses, const struct otte_uses_own *own)
{
	atomic_store(&uses->coarse_readers, own->coarse_readers);
	atomic_store(&uses->coarse_writers, own->coarse_writers);
}

static void count_coarse(struct otte_uses *uses, struct otte_uses_own *own, bool write, uint32_t change)
{
	*(write ? &own->coarse_writers : &own->coarse_readers) += change;
	tell_coarse(uses, own);
}

int otte_uses_lend(struct otte_uses *uses, struct otte_uses_own *own, uint64_t start, uint64_t end, bool write,
		   bool check)
{
	int use = lend(uses, own, start, end, write);

	if (use < 0) {
		use = OTTE_USES_COARSE;
		count_coarse(uses, own, write, 1);
	}
	if (!check || !conflicts(uses, use, start, end, write, OTTE_USES_LENDER))
		return use;
	otte_uses_unlend(uses, own, use, write);
	return OTTE_USES_CONFLICT;
}

int otte_uses_lend_alone(struct otte_uses *uses, struct otte_uses_own *own, uint64_t start, uint64_t end, bool write)
{
	int use = lend(uses, own, start, end, write);

	if (use < 0 || !conflicts(uses, use, start, end, write, OTTE_USES_LENDER))
		return use;
	otte_uses_unlend(uses, own, use, write);
	return OTTE_USES_CONFLICT;
}

void otte_uses_unlend(struct otte_uses *uses, struct otte_uses_own *own, int use, bool write)
{
	if (use == OTTE_USES_COARSE)
		count_coarse(uses, own, write, -1u);
	if (use < 0)
		return;
	set_mine(own, use, false);
	otte_uses_end(uses, use);
}

static void free_slot(struct otte_uses_slot *slot, uint64_t word)
{
	atomic_compare_exchange_strong(&slot->word, &word, with(word, 0, FREE));
}

void otte_uses_clear(struct otte_uses *uses, uint32_t owner)
{
	unsigned i;

	for (i = 0; i < OTTE_USES_SLOTS; i++) {
		uint64_t word = atomic_load(&uses->slots[i].word);

		if (state_of(word) != FREE && owner_of(word) == owner)
			free_slot(&uses->slots[i], word);
	}
}

/*
 * At two looks, as a use of the lender's is no more mine a moment before it is over, and is to end by itself: what ends
 * late may meet another's use (otte_uses_end()).
 */
static bool is_forged(struct otte_uses_seen *seen)
{
	bool before = seen->forged;

	seen->forged = !is_mine(seen);
	return before && seen->forged;
}

/* One that is CLAIMED is in nobody's way, and its owner would make it what it wants without a second look. */
static bool stands(const struct otte_uses_seen *seen, uint64_t word, uint64_t pulse)
{
	return state_of(word) >= READS && pulse != (number_in(word) | OVER) && word == seen->word &&
	       pulse == seen->pulse;
}

void otte_uses_look(struct otte_uses *uses, struct otte_uses_own *own, bool (*still)(void *arg, uint32_t owner),
		    void *arg)
{
	unsigned i;

	for (i = 0; i < OTTE_USES_SLOTS; i++) {
		struct otte_uses_slot *slot = &uses->slots[i];
		struct otte_uses_seen *seen = &own->slots[i];
		uint64_t word = atomic_load(&slot->word), pulse = atomic_load(&slot->pulse);
		bool over = false;

		if (stands(seen, word, pulse) && owner_of(word) == OTTE_USES_LENDER)
			over = is_forged(seen);
		else if (stands(seen, word, pulse))
			over = still(arg, owner_of(word));
		else
			seen->forged = false;
		if (over)
			free_slot(slot, word);
		seen->word = word;
		seen->pulse = pulse;
	}
	tell_coarse(uses, own);
}
