/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Prepared block lists: one template, many places. Fixed once made. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/segment.h"

static int check_blocks(struct otte_engine *engine, const struct otte_request *prototype,
			const struct otte_block *blocks, size_t count)
{
	struct otte_region_memo memo = { 0 };
	struct otte_request request;
	size_t i;
	int ret;

	if (prototype->deadline_ns != OTTE_DEADLINE_DEFAULT &&
	    prototype->deadline_ns != OTTE_DEADLINE_NONE)
		return otte_fail(-EINVAL, "a block list's deadline must be OTTE_DEADLINE_DEFAULT "
					  "or OTTE_DEADLINE_NONE");
	for (i = 0; i < count; i++) {
		request = *prototype;
		if (__builtin_add_overflow(request.local_offset, blocks[i].local_offset,
					   &request.local_offset) ||
		    __builtin_add_overflow(request.remote_offset, blocks[i].remote_offset,
					   &request.remote_offset))
			return otte_fail(-ERANGE, "block %zu: an offset overflows", i);
		ret = otte_request_check(engine, &request, i, &memo);
		if (ret)
			return ret;
	}
	return 0;
}

int otte_block_list_create(struct otte_engine *engine, const struct otte_request *prototype,
			   const struct otte_block *blocks, size_t count,
			   struct otte_block_list **out)
{
	struct otte_block_list *list;
	int ret;

	if (!engine || !prototype || !blocks || !out)
		return otte_fail(-EINVAL,
				 "otte_block_list_create: engine, prototype, blocks and list must not be NULL");
	if (!count)
		return otte_fail(-EINVAL, "otte_block_list_create: count must not be 0");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	if (count > engine->config.max_requests)
		return otte_fail(-EDQUOT, "limits.requests (%lu) is less than %zu blocks",
				 (unsigned long)engine->config.max_requests, count);
	ret = check_blocks(engine, prototype, blocks, count);
	if (ret)
		return ret;
	list = malloc(sizeof(*list) + count * sizeof(*blocks));
	if (!list)
		return otte_fail(-ENOMEM, "no memory for %zu blocks", count);
	list->engine = engine;
	list->prototype = *prototype;
	list->count = count;
	memcpy(list->blocks, blocks, count * sizeof(*blocks));
	atomic_fetch_add(&engine->block_lists, 1);
	*out = list;
	return 0;
}

int otte_batch_submit_blocks(struct otte_batch *batch, struct otte_block_list *list, size_t first,
			     size_t count)
{
	const struct otte_submission from = { .list = list, .first = first };

	if (!batch || !list)
		return otte_fail(-EINVAL, "otte_batch_submit_blocks: batch and list must not be NULL");
	if (!count)
		return otte_fail(-EINVAL, "otte_batch_submit_blocks: count must not be 0");
	if (list->engine != batch->engine)
		return otte_fail(-EINVAL, "otte_batch_submit_blocks: list is not of this engine");
	if (!range_inside(first, count, list->count))
		return otte_fail(-ERANGE, "blocks [%zu, +%zu) of %zu", first, count, list->count);
	return otte_batch_add(batch, &from, count);
}

int otte_block_list_destroy(struct otte_block_list *list)
{
	int ret;

	if (!list)
		return 0;
	ret = otte_fork_check(list->engine->generation);
	if (ret)
		return ret;
	atomic_fetch_sub(&list->engine->block_lists, 1);
	free(list);
	return 0;
}
