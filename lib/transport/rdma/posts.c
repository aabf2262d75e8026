/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/posts.h"

#include "base/util.h"
#include "otte/otte.h"
#include "sched/slots.h"

#define HIGH 0 /* goes in every slot there can be */

void otte_rdma_posts_init(struct otte_rdma_posts *posts, const struct otte_config *config)
{
	unsigned priority;

	*posts = (struct otte_rdma_posts){
		.queue = {
			.aging_ns = config->aging_ns,
			.per_entry = config->aging_per_entry,
		},
		.again_ns = UINT64_MAX,
	};
	/* Bounded by what is granted and leased. */
	for (priority = 0; priority < OTTE_PRIORITIES; priority++)
		posts->queue.bound[priority] = UINT32_MAX;
}

void otte_rdma_posts_add(struct otte_rdma_posts *posts, struct otte_rdma_posting *posting,
			 uint8_t priority, uint64_t since_ns)
{
	if (posting->entry.queued)
		return;
	posting->entry.priority = priority;
	posting->entry.enqueued_ns = since_ns;
	otte_queue_push(&posts->queue, &posting->entry);
}

void otte_rdma_posts_remove(struct otte_rdma_posts *posts, struct otte_rdma_posting *posting)
{
	otte_queue_remove(&posts->queue, &posting->entry);
}

/* Which priorities may be posted now. */
static unsigned admit(struct otte_rdma_posts *posts, uint64_t now_ns)
{
	unsigned wanted = 0, priority;

	for (priority = HIGH + 1; priority < OTTE_PRIORITIES; priority++)
		wanted |= (unsigned)(posts->queue.count[priority] > 0) << priority;
	posts->again_ns = UINT64_MAX;
	if (!wanted)
		return 1u << HIGH;
	otte_queue_age(&posts->queue, now_ns);
	return 1u << HIGH | otte_slots_admit(posts->slots, wanted, now_ns, &posts->again_ns);
}

void otte_rdma_posts_go_on(struct otte_rdma_posts *posts, uint64_t now_ns)
{
	struct otte_queue_entry *entry;
	unsigned admitted;

	if (!otte_rdma_posts_gate(posts))
		return;
	admitted = admit(posts, now_ns);
	/* The first one anew each time: what is posted may fail, and take others out with its pair. */
	while ((entry = otte_queue_first(&posts->queue, admitted))) {
		struct otte_rdma_posting *posting =
			container_of(entry, struct otte_rdma_posting, entry);

		otte_queue_remove(&posts->queue, entry);
		posting->post(posting);
	}
}

bool otte_rdma_posts_may_pass(const struct otte_rdma_posts *posts, uint8_t priority,
			      uint64_t now_ns)
{
	uint64_t again_ns = UINT64_MAX;

	return otte_queue_empty(&posts->queue) &&
	       (priority == HIGH ||
		otte_slots_admit(posts->slots, 1u << priority, now_ns, &again_ns));
}
