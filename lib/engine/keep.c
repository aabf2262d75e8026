/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/keep.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "engine/batch.h"
#include "engine/engine.h"

struct keep {
	struct otte_region *region;
	struct otte_access access;
	uint64_t hold;
};

int otte_keep(struct otte_work *work, const uint8_t *address, uint64_t length, void **kept)
{
	struct otte_task_record *head = container_of(work, struct otte_task_record, work);
	struct otte_region *region = head->region;
	struct otte_engine *engine = region->engine;
	struct otte_mem *mem = region->mem;
	struct keep *keep;
	int ret;

	keep = calloc(1, sizeof(*keep));
	if (!keep)
		return otte_fail(-ENOMEM, "no memory for a range that is kept");
	keep->region = region;
	/* The work has the range for reading, and readers share: nobody can be in the way. */
	ret = otte_access_begin(&mem->access, &keep->access, (uint64_t)(address - mem->address), length,
				false);
	if (ret)
		goto free_keep;
	ret = engine->ledger->ops->hold(engine->client, length, OTTE_KEEP_REASON, &keep->hold);
	if (ret)
		goto end_access;
	/* Not otte_region_use(): the work's own use stands in for this one, hidden or not. */
	atomic_fetch_add(&region->uses, 1);
	*kept = keep;
	return 0;

end_access:
	otte_access_end(&mem->access, &keep->access);
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
