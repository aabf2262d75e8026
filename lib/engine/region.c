/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/line.h"
#include "cuda/memory.h"
#include "engine/engine.h"
#include "engine/keep.h"
#include "engine/source.h"

/* What is hidden and still lent is asked for so often. */
#define GONE_POLL_US 5000

/* Who is refused was never counted: one that waits for the last use would take it for one more. */
int otte_region_use(struct otte_region *region)
{
	uint64_t uses = atomic_load(&region->uses);

	do {
		if (uses & OTTE_REGION_HIDDEN)
			return otte_fail(-ENOENT, "region %lu is unregistered",
					 (unsigned long)region->id);
	} while (!atomic_compare_exchange_weak(&region->uses, &uses, uses + 1));
	return 0;
}

int otte_region_use_id(struct otte_engine *engine, uint64_t id, struct otte_region **out)
{
	struct otte_region *region;
	int ret = 0;

	pthread_rwlock_rdlock(&engine->region_lock);
	HASH_FIND(hh, engine->regions, &id, sizeof(id), region);
	if (region)
		atomic_fetch_add(&region->uses, 1);
	else
		ret = otte_fail(-ENOENT, "no region %lu", (unsigned long)id);
	pthread_rwlock_unlock(&engine->region_lock);
	*out = region;
	return ret;
}

void otte_region_unuse(struct otte_region *region)
{
	struct otte_engine *engine = region->engine;

	/* Somebody waits only for the last use of a hidden region; then the region may be gone already. */
	if (atomic_fetch_sub(&region->uses, 1) != (OTTE_REGION_HIDDEN | 1))
		return;
	pthread_mutex_lock(&engine->region_wait_lock);
	pthread_cond_broadcast(&engine->region_idle);
	pthread_mutex_unlock(&engine->region_wait_lock);
}

int otte_region_check_fresh(const struct otte_region *region)
{
	if (otte_region_is_fresh(&region->watch))
		return 0;
	return otte_fail(-ESTALE, "the memory of region %lu was unmapped or replaced: register it anew",
			 (unsigned long)region->id);
}

static bool in_use(const struct otte_region *region)
{
	return atomic_load(&region->uses) & ~OTTE_REGION_HIDDEN;
}

/* Peers see it escaped, and as much of it must fit. */
static int check_name(const char *name, size_t i)
{
	char shown[4 * OTTE_NAME_MAX];
	size_t length;

	if (strlen(name) >= OTTE_NAME_MAX)
		return otte_fail(-EINVAL, "view %zu: the name is longer than %d bytes", i,
				 OTTE_NAME_MAX - 1);
	length = otte_name_escape(shown, sizeof(shown), name);
	if (length >= OTTE_NAME_MAX)
		return otte_fail(-EINVAL, "view %zu: the name has %zu bytes where unprintable ones are"
				 " \"\\xNN\", allowed are %d", i, length, OTTE_NAME_MAX - 1);
	return 0;
}

/* Of a GPU's memory: peers reach it through NICs that know it, and through nothing else. */
static int check_gpu(struct otte_engine *engine, const struct otte_region_desc *desc, size_t i)
{
	if (desc->flags & OTTE_REGION_PINNED)
		return otte_fail(-EOPNOTSUPP, "view %zu: the module pins no memory of a GPU", i);
	if (!desc->access)
		return 0;
	if (engine->no_rdma)
		return otte_fail(-EOPNOTSUPP, "view %zu: peers reach memory of a GPU by transport rdma alone: %s", i,
				 engine->no_rdma_text);
	if (engine->config.rdma_cuda_memory != OTTE_CUDA_MEMORY_DIRECT)
		return otte_fail(-EOPNOTSUPP, "view %zu: peers reach memory of a GPU by GPU Direct alone, and "
				 "rdma.cuda_memory is staged", i);
	return 0;
}

static int check_desc(struct otte_engine *engine, const struct otte_region_desc *desc, size_t i)
{
	int ret;

	if (!desc->mem || desc->mem->engine != engine)
		return otte_fail(-EINVAL, "view %zu: mem is not of this engine", i);
	if (desc->flags & ~OTTE_REGION_PINNED || desc->access & ~(OTTE_REMOTE_READ | OTTE_REMOTE_WRITE))
		return otte_fail(-EINVAL, "view %zu: unknown access 0x%x or flags 0x%x", i, desc->access,
				 desc->flags);
	if (desc->length == 0 || !range_inside(desc->offset, desc->length, desc->mem->length))
		return otte_fail(-ERANGE, "view %zu: [%lu, +%lu) is not inside its memory of %lu bytes", i,
				 (unsigned long)desc->offset, (unsigned long)desc->length,
				 (unsigned long)desc->mem->length);
	if (desc->access & OTTE_REMOTE_WRITE && desc->mem->flags & OTTE_MEM_READONLY)
		return otte_fail(-EACCES, "view %zu: its memory is mapped for reading only", i);
	if (otte_mem_on_device(desc->mem)) {
		ret = check_gpu(engine, desc, i);
		if (ret)
			return ret;
	}
	return desc->name ? check_name(desc->name, i) : 0;
}

/* A NIC may reach it for good: it counts as a view, so that nobody frees it. */
static void keep_memory(struct otte_region *region)
{
	atomic_fetch_add(&region->mem->views, 1);
	otte_keep_lost(region->engine, region->length, OTTE_PINNED_REASON);
}

/*
 * For a NIC. Pinning may replace pages: the ledger is to see those that stay. What is mapped for reading alone no NIC
 * can be told of.
 */
static int publish(struct otte_region *region)
{
	struct otte_mem *mem = region->mem;
	const struct otte_publishing range = {
		.address = mem->address + region->offset,
		.length = region->length,
		.access = region->access,
		.gpu = otte_mem_on_device(mem) ? mem->cuda : NULL,
	};
	int ret;

	if (mem->flags & OTTE_MEM_READONLY)
		return 0;
	ret = otte_transport_publish(region->engine->transport, &range, &region->published);
	if (ret == -EUCLEAN)
		keep_memory(region);
	return ret;
}

static void withdraw(struct otte_region *region)
{
	if (otte_transport_withdraw(region->engine->transport, region->published) == -EUCLEAN)
		keep_memory(region);
}

static void see(struct otte_region *region)
{
	const struct otte_cuda_mem *cuda = region->mem->cuda;

	if (cuda)
		region->view = (struct otte_plan_view){
			.base = cuda->address + region->offset,
			.length = region->length,
			.owner = cuda->owner,
			.alias = cuda->alias ? cuda->alias + region->offset : 0,
		};
}

/* One view, known to the ledger, not yet visible. */
static int prepare(struct otte_engine *engine, const struct otte_region_desc *desc,
		   struct otte_region **out)
{
	bool pinned = desc->flags & OTTE_REGION_PINNED ||
		      (engine->config.local_pinned && desc->access != OTTE_LOCAL_ONLY &&
		       !otte_mem_on_device(desc->mem));
	const struct otte_region_claim claim = {
		.address = (uint64_t)(uintptr_t)desc->mem->address + desc->offset,
		.length = desc->length,
		.access = desc->access,
		.backing = pinned ? OTTE_BACKING_PAGES : OTTE_BACKING_NONE,
	};
	struct otte_region *region;
	int ret;

	region = calloc(1, sizeof(*region));
	if (!region)
		return otte_fail(-ENOMEM, "no memory for a region's record");
	region->engine = engine;
	region->mem = desc->mem;
	region->offset = desc->offset;
	region->length = desc->length;
	region->access = desc->access;
	region->pinned = pinned;
	see(region);
	if (desc->name)
		otte_name_escape(region->name, sizeof(region->name), desc->name);
	ret = publish(region);
	if (ret)
		goto free_region;
	ret = engine->ledger->ops->region_add(engine->client, &claim, &region->id);
	if (ret)
		goto withdraw;
	ret = engine->ledger->ops->region_watch(engine->client, region->id, &region->watch);
	if (ret)
		goto del_region;
	atomic_fetch_add(&desc->mem->views, 1);
	*out = region;
	return 0;

del_region:
	engine->ledger->ops->region_del(engine->client, region->id);
withdraw:
	withdraw(region);
free_region:
	free(region);
	return ret;
}

/* The ledger's word for it counts, whoever forgot what of it is still lent. */
static bool leave_ledger(struct otte_region *region)
{
	struct otte_engine *engine = region->engine;
	int ret = engine->ledger->ops->region_del(engine->client, region->id);

	return ret != -EINPROGRESS && ret != -EALREADY;
}

/* Nothing of it is in use here. */
static bool wait_settled(struct otte_region *region, uint64_t until_ns)
{
	otte_source_forget(region->engine, region->id);
	while (!leave_ledger(region)) {
		if (otte_now_ns() >= until_ns)
			return false;
		usleep(GONE_POLL_US);
	}
	return true;
}

/* It has left the ledger. */
static void discard(struct otte_region *region)
{
	withdraw(region);
	atomic_fetch_sub(&region->mem->views, 1);
	free(region);
}

int otte_region_register(struct otte_engine *engine, const struct otte_region_desc *descs,
			 size_t count, struct otte_region **regions)
{
	size_t i, made = 0;
	int ret;

	if (!engine || !descs || !regions)
		return otte_fail(-EINVAL, "otte_region_register: engine, descs and regions must not be NULL");
	if (!count)
		return otte_fail(-EINVAL, "otte_region_register: count must not be 0");
	ret = otte_fork_check(engine->generation);
	for (i = 0; i < count && !ret; i++)
		ret = check_desc(engine, &descs[i], i);
	if (ret)
		return ret;
	/* One caller at a time, so that the table's order is that of the ids. */
	pthread_mutex_lock(&engine->register_lock);
	for (; made < count; made++) {
		ret = prepare(engine, &descs[made], &regions[made]);
		if (ret)
			goto undo;
	}
	pthread_rwlock_wrlock(&engine->region_lock);
	for (i = 0; i < count && !ret; i++) {
		struct otte_region *region = regions[i];

		HASH_ADD(hh, engine->regions, id, sizeof(region->id), region);
		if (!region->hh.tbl)
			ret = otte_fail(-ENOMEM, "no memory for the table of regions");
	}
	if (ret)
		for (i = 0; i < count; i++)
			if (regions[i]->hh.tbl)
				/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): in the table */
				HASH_DEL(engine->regions, regions[i]);
	for (i = 0; i < count && !ret; i++)
		engine->published += regions[i]->access != OTTE_LOCAL_ONLY;
	pthread_rwlock_unlock(&engine->region_lock);
undo:
	while (ret && made) {
		leave_ledger(regions[--made]); /* it was never lent */
		discard(regions[made]);
		regions[made] = NULL;
	}
	pthread_mutex_unlock(&engine->register_lock);
	return ret;
}

/* -> HIDDEN, once. */
static void hide(struct otte_region *region)
{
	struct otte_engine *engine = region->engine;

	pthread_rwlock_wrlock(&engine->region_lock);
	if (!(atomic_fetch_or(&region->uses, OTTE_REGION_HIDDEN) & OTTE_REGION_HIDDEN)) {
		engine->published -= region->access != OTTE_LOCAL_ONLY;
		HASH_DEL(engine->regions, region);
	}
	pthread_rwlock_unlock(&engine->region_lock);
	/* Who does not count its use (direct.c) has ended, or sees the mark. */
	otte_access_wait_alone(&region->mem->access);
}

static bool wait_idle(struct otte_region *region, uint64_t until_ns)
{
	struct otte_engine *engine = region->engine;
	const struct timespec until = otte_timespec(until_ns);
	int ret = 0;

	if (!in_use(region))
		return true;
	pthread_mutex_lock(&engine->region_wait_lock);
	while (in_use(region) && ret == 0)
		ret = pthread_cond_timedwait(&engine->region_idle, &engine->region_wait_lock,
					     &until);
	pthread_mutex_unlock(&engine->region_wait_lock);
	return !in_use(region);
}

static int by_address(const void *a, const void *b)
{
	const struct otte_region *const *left = a, *const *right = b;

	return *left < *right ? -1 : *left > *right;
}

/* Sort, and drop what stands there twice. */
static size_t unique(struct otte_region **regions, size_t count)
{
	size_t i, kept = 0;

	if (count)
		qsort(regions, count, sizeof(*regions), by_address);
	for (i = 0; i < count; i++)
		if (regions[i] && (!kept || regions[kept - 1] != regions[i]))
			regions[kept++] = regions[i];
	return kept;
}

int otte_region_unregister(struct otte_region **regions, size_t count, int64_t timeout_ns,
			   size_t *pending)
{
	uint64_t until_ns = otte_deadline_after(timeout_ns);
	size_t i, left = 0;
	int ret = 0;

	if (!regions && count)
		return otte_fail(-EINVAL, "otte_region_unregister: regions must not be NULL");
	count = unique(regions, count);
	if (count)
		ret = otte_fork_check(regions[0]->engine->generation);
	if (ret)
		return ret;
	for (i = 0; i < count; i++)
		hide(regions[i]);
	/* All are asked for before any is waited for. */
	for (i = 0; i < count; i++)
		if (in_use(regions[i]))
			otte_source_recall(regions[i]->engine, regions[i]->id);
	for (i = 0; i < count; i++) {
		if (wait_idle(regions[i], until_ns) && wait_settled(regions[i], until_ns))
			discard(regions[i]);
		else
			regions[left++] = regions[i];
	}
	if (pending)
		*pending = left;
	if (left)
		return otte_fail(-ETIMEDOUT, "%zu of %zu regions are still in use", left, count);
	return 0;
}

uint64_t otte_region_id(const struct otte_region *region)
{
	return region ? region->id : 0;
}

int otte_region_check_published(const struct otte_region *region)
{
	if (region->access == OTTE_LOCAL_ONLY)
		return otte_fail(-ENOENT, "region %lu is not published", (unsigned long)region->id);
	return 0;
}

int otte_region_check_right(const struct otte_region *region, uint8_t op)
{
	if (!(region->access & (op == OTTE_READ ? OTTE_REMOTE_READ : OTTE_REMOTE_WRITE)))
		return otte_fail(-EACCES, "region %lu does not grant it", (unsigned long)region->id);
	return 0;
}

int otte_region_describe(struct otte_engine *engine, uint64_t after, struct otte_region_info *rows,
			 size_t capacity, struct otte_regions *regions)
{
	struct otte_region *region;
	uint32_t count = 0;

	pthread_rwlock_rdlock(&engine->region_lock);
	HASH_FIND(hh, engine->regions, &after, sizeof(after), region);
	region = region ? region->hh.next : engine->regions;
	for (; region && count < capacity; region = region->hh.next) {
		struct otte_region_info *row = &rows[count];

		if (region->id <= after || !region->access)
			continue;
		memset(row, 0, sizeof(*row));
		row->id = region->id;
		row->length = region->length;
		row->address = (uint64_t)(uintptr_t)region->mem->address + region->offset;
		row->access = region->access;
		row->gpu_routes = otte_transport_gpu_routes(engine->transport, region->published);
		strcpy(row->name, region->name);
		count++;
	}
	regions->total = engine->published;
	regions->count = count;
	regions->more = region != NULL;
	pthread_rwlock_unlock(&engine->region_lock);
	return 0;
}
