/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/keep.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "engine/batch.h"
#include "engine/engine.h"

struct keep {
	struct otte_region *region;
	struct otte_access access;
	uint64_t hold;
};

/*
 * What is read from is kept beside the work's own use, for readers share. What is written to only one can have: the
 * work's own use, of all its range, which does not end with the work then.
 */
static int take_range(struct otte_task_record *head, struct keep *keep, const uint8_t *address, uint64_t length)
{
	struct otte_mem *mem = head->region->mem;

	if (head->work.op == OTTE_WRITE)
		return otte_access_begin(&mem->access, &keep->access, (uint64_t)(address - mem->address), length,
					 false);
	otte_access_replace(&mem->access, &head->access, &keep->access);
	head->range_kept = true;
	return 0;
}

static void give_range_back(struct otte_task_record *head, struct keep *keep)
{
	struct otte_mem *mem = head->region->mem;

	if (head->work.op == OTTE_WRITE)
		otte_access_end(&mem->access, &keep->access);
	else
		otte_access_replace(&mem->access, &keep->access, &head->access);
	head->range_kept = false;
}

int otte_keep(struct otte_work *work, const uint8_t *address, uint64_t length, void **kept)
{
	struct otte_task_record *head = container_of(work, struct otte_task_record, work);
	struct otte_region *region = head->region;
	struct otte_engine *engine = region->engine;
	const char *reason = work->carrier == OTTE_TRANSPORT_RDMA ? OTTE_LENT_REASON : OTTE_KEEP_REASON;
	struct keep *keep;
	int ret;

	keep = calloc(1, sizeof(*keep));
	if (!keep)
		return otte_fail(-ENOMEM, "no memory for a range that is kept");
	keep->region = region;
	/* Nobody can be in the way. */
	ret = take_range(head, keep, address, length);
	if (ret)
		goto free_keep;
	ret = engine->ledger->ops->hold(engine->client, length, reason, &keep->hold);
	if (ret)
		goto give_back;
	/* Not otte_region_use(): the work's own use stands in for this one, hidden or not. */
	atomic_fetch_add(&region->uses, 1);
	*kept = keep;
	return 0;

give_back:
	give_range_back(head, keep);
free_keep:
	free(keep);
	return ret;
}

void otte_keep_let_go(void *kept)
{
	struct keep *keep = kept;
	struct otte_engine *engine = keep->region->engine;

	engine->ledger->ops->hold_drop(engine->client, keep->hold);
	otte_access_end(&keep->region->mem->access, &keep->access);
	otte_region_unuse(keep->region);
	free(keep);
}

void otte_keep_lost(void *arg, uint64_t bytes, const char *what)
{
	struct otte_engine *engine = arg;
	uint64_t hold;

	if (engine->ledger->ops->hold(engine->client, bytes, what, &hold))
		otte_log(OTTE_LOG_ERROR, "%s, and no record of it: %s", what, otte_error_text());
}
