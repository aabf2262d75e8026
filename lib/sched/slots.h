/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The slot gate: which priorities may send now, shared by the processes of an arbitration domain.
 *
 * A pattern divides time into slots of one length and says for each the lowest priority that may send in
 * it. Which slot it is is arithmetic on the clock: no call, nobody who could stall. Two sources of the
 * pattern, one arithmetic:
 *
 *   clock only   interval and pattern from the config, slot 0 at the clock's zero. Shares nothing but the
 *                clock; so nobody knows who waits elsewhere, and the pattern always rules.
 *   domain       the pages of otte.ko: the pattern from the slot page, and from the load page who waits
 *                elsewhere. While nobody in the domain waits at a higher priority a lower one goes at any
 *                time; once somebody does, the pattern rules.
 *
 * What is posted cannot be called back. So the bytes under way below High are bounded; one request that
 * is larger than the bound goes while there are no others.
 *
 * Who waits is who has asked for bytes and does not have them yet: High is never held back here, so
 * that what others are to make room for is what is under way.
 *
 * A request is judged by the priority that it was asked with, however far it has aged.
 *
 * Clocks: callers pass CLOCK_MONOTONIC as they read it. Patterns are in the host's, of the initial time
 * namespace: the gate takes the caller's offset off, and adds it to what it answers.
 *
 * Threads: any. Counts are atomic, all else is set once, and the pages are the module's but for the
 * share page, whose words are counts of this process.
 */
#ifndef OTTE_SCHED_SLOTS_H
#define OTTE_SCHED_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/queue.h"

#define OTTE_SLOTS_PATTERN_MAX 16 /* slots of a pattern, as in the module's ABI */
#define OTTE_SLOTS_NAME_MAX 32    /* bytes of a domain's name with its terminator, likewise */

struct otte_slot_page;
struct otte_load_page;
struct otte_share_page;

struct otte_slots_pattern {
	uint64_t interval_ns;
	uint32_t slots;
	uint8_t lowest[OTTE_SLOTS_PATTERN_MAX]; /* 0 behind the pattern */
};

/* A domain of the module's, joined by a client of it. */
struct otte_slots_domain {
	const struct otte_slot_page *slot;
	const struct otte_load_page *load; /* NULL, and share: nobody knows who waits */
	struct otte_share_page *share;
	/* DOMAIN_KICK: the module is to sum now. Called under the locks of who asks for bytes. */
	void (*kick)(void *arg);
	void *arg;
};

struct otte_slots {
	struct otte_slot_page *own;      /* clock only: what stands for the domain's */
	const struct otte_slot_page *page;
	const struct otte_load_page *load; /* NULL: nobody knows who waits elsewhere */
	struct otte_share_page *share;   /* NULL just then */
	void (*kick)(void *arg);
	void *kick_arg;
	int64_t offset_ns;               /* the caller's clock minus the host's */
	uint64_t low_bytes_max;

	_Atomic uint64_t low_bytes;      /* under way below High */
	_Atomic bool refused;            /* somebody found no room for more, in this round */
	_Atomic uint64_t waiting[OTTE_PRIORITIES]; /* bytes that wait in windows of this process */
};

/* "high,medium,low": lowest[] and slots. -EINVAL with a text of what is wrong, *pattern in any state. */
int otte_slots_parse(const char *text, struct otte_slots_pattern *pattern);
/* 0: a name that a domain can have. -EINVAL with a text. */
int otte_slots_check_name(const char *name);

/* A gate on the clock alone. -EINVAL where the module would refuse the pattern, -ENOMEM. */
int otte_slots_open_clock(struct otte_slots *slots, const struct otte_slots_pattern *pattern,
			  int64_t offset_ns, uint64_t low_bytes_max);
/* A gate over the pages of a domain, which stay mapped until close. */
void otte_slots_open_domain(struct otte_slots *slots, const struct otte_slots_domain *domain,
			    uint64_t low_bytes_max);
void otte_slots_close(struct otte_slots *slots);

/*
 * CLOCK_MONOTONIC of this process minus the host's, where no module says it. -EOPNOTSUPP where nothing does, or why
 * /proc cannot be read.
 */
int otte_slots_clock_offset(int64_t *offset_ns);

/*
 * Which of `wanted` (bit 0: High) may send at `now_ns`. *again_ns is lowered to the instant at which the answer
 * for the others may be another one; it is later than now.
 */
unsigned otte_slots_admit(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns,
			  uint64_t *again_ns);

/*
 * What the domain is told of who waits: bytes that were asked for, before they are posted, and those
 * of them that are done or never will be. True: they were the last of this process at that priority, and who
 * waits below may go.
 */
void otte_slots_ask(struct otte_slots *slots, unsigned priority, uint64_t bytes);
bool otte_slots_answered(struct otte_slots *slots, unsigned priority, uint64_t bytes);

/*
 * Bytes under way at a NIC of the domain's, by its index: what others are told of, and, for who chooses
 * between NICs, what all others have. OTTE_SLOTS_NO_NIC: nobody counts.
 */
#define OTTE_SLOTS_NO_NIC 255
void otte_slots_depart(struct otte_slots *slots, uint8_t nic, uint64_t bytes);
void otte_slots_arrive(struct otte_slots *slots, uint8_t nic, uint64_t bytes);
uint64_t otte_slots_nic_others(const struct otte_slots *slots, uint8_t nic);

/* Bytes that begin (positive) or end (negative) to wait in a window of this process. */
void otte_slots_wait(struct otte_slots *slots, unsigned priority, int64_t bytes);

/* All that waits in this process below High. */
uint64_t otte_slots_low_waiting(const struct otte_slots *slots);

/* Post so many bytes. False: too many are under way below High, and nothing is taken. */
bool otte_slots_take(struct otte_slots *slots, unsigned priority, uint64_t bytes);
/*
 * Whether somebody was refused in this round: then nobody else is to take, or those who come and go would for ever
 * have what is needed by one who waits. A new round is for who lets everybody try in turn.
 */
static inline bool otte_slots_contended(const struct otte_slots *slots)
{
	return atomic_load(&slots->refused);
}
static inline void otte_slots_new_round(struct otte_slots *slots)
{
	atomic_store(&slots->refused, false);
}
/* They are no longer under way. Who was refused is to be let try again: whatever otte_slots_wait() has told of. */
void otte_slots_give(struct otte_slots *slots, unsigned priority, uint64_t bytes);

#endif
