/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an engine posts below High, and what its gate could know then: read from the pages by this file's own means,
 * beside the library. For programs that wrap otte_slots_admit() and otte_slots_take(). Domains are made here, too.
 *
 * A post is held against two looks at the pages, before and after the gate's. Who waited at both waited in between;
 * where one of them found nobody, the gate may have as well.
 */
#ifndef OTTE_TESTS_SLOT_LOG_H
#define OTTE_TESTS_SLOT_LOG_H

#include <stdbool.h>
#include <stdint.h>

struct otte_slots;

struct slot_post {
	uint64_t now_ns;    /* what the gate was asked with, on the host's clock */
	uint64_t bytes;
	uint64_t low_bytes; /* under way below High, with it */
	uint8_t priority;
	uint8_t lowest;     /* of the slot, by the page's pattern */
	uint8_t waiting;    /* mask of who waited, here or elsewhere; all where the gate cannot know */
};

/* Of every gate in this process, from now on. */
void slot_log_start(void);
unsigned slot_log_count(void);
const struct slot_post *slot_log_post(unsigned index);

/* In its slot, or before a slot that nobody above wanted. */
static inline bool slot_post_obeys(const struct slot_post *post)
{
	return post->priority <= post->lowest || !(post->waiting & ((1u << post->priority) - 1));
}

/* Whether it went outside of its slot. */
static inline bool slot_post_is_early(const struct slot_post *post)
{
	return post->priority > post->lowest;
}

/* The usual pattern with slots of that length; `mode`: who may join, of user 0's domain. 0 or -errno. */
int slot_domain_create(const char *name, uint64_t interval_ns, unsigned mode);
int slot_domain_delete(const char *name);

/* What the module says that others have waiting. */
uint64_t slot_others_wait(const struct otte_slots *slots, unsigned priority);

#endif
