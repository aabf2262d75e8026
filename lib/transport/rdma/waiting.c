/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/waiting.h"

#include <utlist.h>

#include "base/util.h"

static bool may_be_overtaken(const struct otte_work *each, const struct otte_work *work,
			     uint64_t aging_ns)
{
	/* Whoever has read the clock first may get the lock last. */
	uint64_t waited_ns = work->own.since_ns - min_u64(work->own.since_ns, each->own.since_ns);

	return each->priority > work->priority && (!aging_ns || waited_ns < aging_ns);
}

void otte_rdma_waiting_add(struct otte_work **queue, struct otte_work *work, uint64_t now_ns,
			   uint64_t aging_ns)
{
	struct otte_work *before = NULL, *each;

	work->own.since_ns = now_ns;
	for (each = *queue ? (*queue)->own.prev : NULL;
	     each && may_be_overtaken(each, work, aging_ns);
	     each = each == *queue ? NULL : each->own.prev)
		before = each;
	/* NOLINTBEGIN(clang-analyzer-core.NullDereference): what is listed is behind its head */
	if (before)
		DL_PREPEND_ELEM2(*queue, before, work, own.prev, own.next);
	else
		DL_APPEND2(*queue, work, own.prev, own.next);
	/* NOLINTEND(clang-analyzer-core.NullDereference) */
}

void otte_rdma_waiting_return(struct otte_work **queue, struct otte_work *work)
{
	struct otte_work *each;

	DL_FOREACH2(*queue, each, own.next)
		if (each->priority >= work->priority)
			break;
	if (each)
		DL_PREPEND_ELEM2(*queue, each, work, own.prev, own.next);
	else
		DL_APPEND2(*queue, work, own.prev, own.next);
}
