/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The slot gate where payload is posted.
 *
 * The engine's window has asked the gate (sched/slots.h) before it let a request go, but a round
 * trip lies between that and the payload of a range that is granted, and a long request posts its
 * pieces as earlier ones complete. So in a domain payload asks once more, when all that is left to
 * do for it is to be posted: what may not go now waits here, High before Medium before Low, first
 * come first served within each, by the rules of sched/queue.h with age; and whoever waits is
 * judged by the priority that it was asked with, however far it has aged. What is posted is never
 * called back.
 *
 *   out of the queue --ready, add()--> waits --its slot is open, go_on()--> out of it, and posted
 *                                        `--remove(): it is cancelled, or its pair is lost
 *
 * What could not be posted after all, for want of room on its queue pair, holds up nobody; its
 * owner adds it again with the next look. Payload alone waits: messages, FINISH of a range that is
 * given back unused, windows and receipts pass. Without a domain nobody comes here at all.
 *
 * Each worker has one: between payload of two of them there is no order but that of the slots.
 *
 * No lock: its worker's thread's. Time is passed in.
 */
#ifndef OTTE_TRANSPORT_RDMA_POSTS_H
#define OTTE_TRANSPORT_RDMA_POSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/queue.h"

struct otte_config;
struct otte_slots;

/* Of a transfer, or of a use of a lease. */
struct otte_rdma_posting {
	struct otte_queue_entry entry;
	void (*post)(struct otte_rdma_posting *posting); /* which may free it */
};

struct otte_rdma_posts {
	struct otte_slots *slots; /* NULL: no domain. Set once, before there are peers */
	struct otte_queue queue;
	uint64_t again_ns; /* one that waits may go then; UINT64_MAX: none does */
};

void otte_rdma_posts_init(struct otte_rdma_posts *posts, const struct otte_config *config);

/* Whether payload is to wait for its turn here. */
static inline bool otte_rdma_posts_gate(const struct otte_rdma_posts *posts)
{
	return __builtin_expect(!!posts->slots, 0);
}

/* One that waits already stays where it is. `since_ns`: its age. */
void otte_rdma_posts_add(struct otte_rdma_posts *posts, struct otte_rdma_posting *posting,
			 uint8_t priority, uint64_t since_ns);
/* One that does not wait is let be. */
void otte_rdma_posts_remove(struct otte_rdma_posts *posts, struct otte_rdma_posting *posting);
/* Posts what may go now, and finds out when there will be more. */
void otte_rdma_posts_go_on(struct otte_rdma_posts *posts, uint64_t now_ns);

/* In a domain: whether the gate is open for such a one, and nobody waits. */
bool otte_rdma_posts_may_pass(const struct otte_rdma_posts *posts, uint8_t priority,
			      uint64_t now_ns);

#endif
