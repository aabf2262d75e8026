/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Submission: requests become tasks, all of them or none.
 *
 * Budgets are charged first, then each group (a head and the neighbours merged into it) takes its region,
 * its range and its transport plan. Only when every group has all of that are they queued; so nothing
 * has to be taken back from a peer.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/segment.h"

/* Merged neighbours stay below this, so that one failure does not take many requests with it. */
#define MERGE_BYTES (1 * MIB)

static void request_at(const struct otte_submission *from, size_t i, struct otte_request *request)
{
	const struct otte_block *block;

	if (!from->list) {
		*request = from->requests[i];
		return;
	}
	block = &from->list->blocks[from->first + i];
	*request = from->list->prototype;
	request->local_offset += block->local_offset;
	request->remote_offset += block->remote_offset;
}

static int check_fields(const struct otte_request *request, size_t i)
{
	if (request->op > OTTE_WRITE)
		return otte_fail(-EINVAL, "request %zu: op %u", i, request->op);
	if (request->priority > OTTE_PRIORITY_LOW)
		return otte_fail(-EINVAL, "request %zu: priority %u", i, request->priority);
	if (request->intent > OTTE_INTENT_STAGING_INTERNAL)
		return otte_fail(-EINVAL, "request %zu: intent %u", i, request->intent);
	if (request->lease > OTTE_LEASE_REGION)
		return otte_fail(-EINVAL, "request %zu: lease %u", i, request->lease);
	if (request->reserved[0] | request->reserved[1] | request->reserved[2])
		return otte_fail(-EINVAL, "request %zu: reserved is not 0", i);
	if (request->length == 0)
		return otte_fail(-EINVAL, "request %zu: length 0", i);
	if (request->transport > OTTE_TRANSPORT_NVLINK)
		return otte_fail(-EINVAL, "request %zu: transport %u", i, request->transport);
	if (request->transport > OTTE_TRANSPORT_RDMA)
		return otte_fail(-ENOSYS, "request %zu: this build has no such transport, only tcp, local and rdma",
				 i);
	return 0;
}

/* Its memory is moved by NICs that know it, and by nothing else. */
static int check_gpu(const struct otte_request *request, size_t i)
{
	if (!request->local->published)
		return otte_fail(-EOPNOTSUPP, "request %zu: local memory is a GPU's, which no NIC knows "
				 "(rdma.cuda_memory)", i);
	if (request->transport != OTTE_TRANSPORT_ANY && request->transport != OTTE_TRANSPORT_RDMA)
		return otte_fail(-EOPNOTSUPP, "request %zu: local memory is a GPU's, and transport rdma alone "
				 "reaches it", i);
	return 0;
}

int otte_request_check_ours(struct otte_engine *engine, const struct otte_request *request, size_t i)
{
	const struct otte_region *local = request->local;
	int ret;

	ret = check_fields(request, i);
	if (ret)
		return ret;
	if (request->transport == OTTE_TRANSPORT_LOCAL && engine->transport->ops->kind != OTTE_TRANSPORT_LOCAL)
		return otte_fail(-ENOSYS, "request %zu: transport local needs the module's ledger, or local.trusted",
				 i);
	if (request->transport == OTTE_TRANSPORT_RDMA && engine->no_rdma)
		return otte_fail(engine->no_rdma, "request %zu: transport rdma: %s", i, engine->no_rdma_text);
	if (!request->segment || request->segment->engine != engine)
		return otte_fail(-EINVAL, "request %zu: segment is not of this engine", i);
	if (!local || local->engine != engine)
		return otte_fail(-EINVAL, "request %zu: local is not of this engine", i);
	if (!range_inside(request->local_offset, request->length, local->length))
		return otte_fail(-ERANGE, "request %zu: [%lu, +%lu) is not inside local region %lu of %lu bytes",
				 i, (unsigned long)request->local_offset,
				 (unsigned long)request->length, (unsigned long)local->id,
				 (unsigned long)local->length);
	if (request->op == OTTE_READ && local->mem->flags & OTTE_MEM_READONLY)
		return otte_fail(-EACCES, "request %zu: local memory is mapped for reading only",
				 i);
	return otte_mem_on_device(local->mem) ? check_gpu(request, i) : 0;
}

int otte_request_check(struct otte_engine *engine, const struct otte_request *request, size_t i,
		       struct otte_region_memo *memo)
{
	int ret;

	ret = otte_request_check_ours(engine, request, i);
	if (ret)
		return ret;
	ret = otte_peer_check_region(request->segment->peer, request, memo);
	return ret ? otte_fail_within(ret, "request %zu: ", i) : 0;
}

static bool charge(_Atomic uint64_t *total, uint64_t amount, uint64_t limit)
{
	uint64_t old = atomic_load(total);

	do {
		if (amount > limit || old > limit - amount)
			return false;
	} while (!atomic_compare_exchange_weak(total, &old, old + amount));
	return true;
}

/* How many requests of a submission there are of each priority. */
static void count_priorities(const struct otte_task_record *tasks, size_t count,
			     uint64_t counts[OTTE_PRIORITIES])
{
	size_t i;

	memset(counts, 0, OTTE_PRIORITIES * sizeof(*counts));
	for (i = 0; i < count; i++)
		counts[tasks[i].work.priority]++;
}

static OTTE_COLD int charge_priorities(struct otte_engine *engine, const uint64_t counts[OTTE_PRIORITIES])
{
	const uint32_t limits[OTTE_PRIORITIES] = { engine->config.max_high_requests,
						   engine->config.max_medium_requests,
						   engine->config.max_low_requests };
	static const char *const names[OTTE_PRIORITIES] = { "high", "medium", "low" };
	unsigned i;

	for (i = 0; i < OTTE_PRIORITIES; i++)
		if (!charge(&engine->by_priority[i], counts[i], limits[i]))
			break;
	if (i == OTTE_PRIORITIES)
		return 0;
	otte_fail(-EDQUOT, "priority.%s_requests (%u) is full", names[i], limits[i]);
	while (i--)
		atomic_fetch_sub(&engine->by_priority[i], counts[i]);
	return -EDQUOT;
}

static int charge_budgets(struct otte_engine *engine, uint64_t requests, uint64_t bytes)
{
	if (!charge(&engine->requests, requests, engine->config.max_requests))
		return otte_fail(-EDQUOT, "limits.requests (%lu) is full",
				 (unsigned long)engine->config.max_requests);
	if (!charge(&engine->bytes, bytes, engine->config.max_bytes)) {
		atomic_fetch_sub(&engine->requests, requests);
		return otte_fail(-EDQUOT, "limits.bytes (%lu) is full",
				 (unsigned long)engine->config.max_bytes);
	}
	/* Once more: who has closed it and saw no request then does not expect one. */
	if (atomic_load(&engine->requester_closed)) {
		atomic_fetch_sub(&engine->requests, requests);
		atomic_fetch_sub(&engine->bytes, bytes);
		return otte_fail(-ESHUTDOWN, "this engine is closed as a requester");
	}
	return 0;
}

static uint64_t absolute_deadline(const struct otte_engine *engine,
				  const struct otte_request *request, uint64_t now_ns)
{
	if (request->deadline_ns != OTTE_DEADLINE_DEFAULT)
		return request->deadline_ns;
	if (!engine->config.default_deadline_ns)
		return OTTE_DEADLINE_NONE;
	return now_ns + engine->config.default_deadline_ns;
}

static void fill_task(struct otte_batch *batch, uint32_t index, const struct otte_request *request,
		      uint64_t now_ns)
{
	struct otte_task_record *task = &batch->tasks[index];

	zero_bytes(task, sizeof(*task));
	task->batch = batch;
	task->index = index;
	task->members = 1;
	task->segment = request->segment;
	task->peer = request->segment->peer;
	task->region = request->local;
	task->length = request->length;
	task->user_data = request->user_data;
	task->submitted_ns = now_ns;
	task->deadline_ns = absolute_deadline(batch->engine, request, now_ns);
	task->transport = OTTE_TRANSPORT_TCP; /* until it has ended */
	task->work.wanted = request->transport;
	task->work.op = request->op;
	task->work.priority = request->priority;
	task->work.intent = request->intent;
	task->work.length = request->length;
	task->work.region = request->remote_region;
	task->work.offset = request->remote_offset;
	task->work.lease = request->lease;
	task->work.deadline_ns = task->deadline_ns;
	if (request->lease == OTTE_LEASE_DEFAULT)
		task->work.lease = (uint8_t)(OTTE_LEASE_OFF + batch->engine->config.rdma_lease);
	if (batch->memo.stamp && batch->memo.id == request->remote_region)
		task->work.region_length = batch->memo.length;
	task->work.retries = batch->engine->config.retry_budget;
	/* Relative to the region until the group is prepared. */
	task->access.range.start = request->local_offset;
}

/* What goes at a lower priority goes in pieces of which the gate can let one at a time. */
static uint64_t merge_bytes(const struct otte_task_record *head)
{
	if (!head->peer->window.slots || head->work.priority == OTTE_PRIORITY_HIGH)
		return MERGE_BYTES;
	return min_u64(MERGE_BYTES, head->batch->engine->config.low_inflight_bytes);
}

/* The task goes on where the group of `head` ends, and agrees with it in everything. */
static bool continues(const struct otte_task_record *head, const struct otte_task_record *task)
{
	uint64_t length = head->work.length;

	return head->segment == task->segment && head->region == task->region &&
	       head->work.op == task->work.op && head->work.priority == task->work.priority &&
	       head->work.intent == task->work.intent && head->work.wanted == task->work.wanted &&
	       head->work.lease == task->work.lease &&
	       head->deadline_ns == task->deadline_ns &&
	       head->work.region == task->work.region &&
	       head->work.offset + length == task->work.offset &&
	       head->access.range.start + length == task->access.range.start &&
	       length + task->length <= merge_bytes(head);
}

static int prepare_group(struct otte_task_record *head)
{
	struct otte_region *region = head->region;
	struct otte_work *work = &head->work;
	uint64_t offset = region->offset + head->access.range.start;
	int ret;

	ret = otte_region_use(region);
	if (ret)
		return ret;
	ret = otte_region_check_fresh(region);
	if (ret)
		goto unuse;
	ret = otte_access_begin(&region->mem->access, &head->access, offset, work->length,
				work->op == OTTE_READ);
	if (ret)
		goto unuse;
	work->local = region->mem->address + offset;
	work->firm = otte_mem_is_firm(region->mem);
	if (otte_mem_on_device(region->mem))
		work->wanted = OTTE_TRANSPORT_RDMA;
	work->watch = &region->watch;
	work->published = region->published;
	work->epoch = head->segment->epoch;
	work->done = otte_group_done;
	head->entry.bytes = work->length;
	head->entry.priority = work->priority;
	head->entry.last = false;
	head->entry.enqueued_ns = head->submitted_ns;
	ret = head->peer->transport->ops->plan(head->peer->transport, work);
	if (ret)
		goto end_access;
	return 0;

end_access:
	otte_access_end(&region->mem->access, &head->access);
unuse:
	otte_region_unuse(region);
	return ret;
}

/* Tasks [first, first + count) are filled: merge them into groups and prepare each. */
static int prepare(struct otte_batch *batch, uint32_t first, size_t count)
{
	struct otte_task_record *tasks = batch->tasks + first, *head = NULL;
	size_t i, prepared;
	int ret = 0;

	for (i = 0; i < count; i++) {
		if (head && continues(head, &tasks[i])) {
			head->work.length += tasks[i].length;
			head->members++;
			tasks[i].members = 0;
		} else {
			head = &tasks[i];
		}
	}
	for (prepared = 0; prepared < count; prepared++) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): filled by check_all() */
		if (!tasks[prepared].members)
			continue;
		ret = prepare_group(&tasks[prepared]);
		if (ret)
			break;
	}
	if (!ret)
		return 0;
	otte_fail_within(ret, "request %zu: ", prepared);
	while (prepared--) {
		if (!tasks[prepared].members)
			continue;
		tasks[prepared].peer->transport->ops->unplan(&tasks[prepared].work);
		otte_group_release(&tasks[prepared]);
	}
	return ret;
}

/* Under batch->lock: the eventfd is quiet until these have finished too. */
static void quieten(struct otte_batch *batch)
{
	uint64_t drain;

	if (read(batch->event_fd, &drain, sizeof(drain)) < 0 && errno != EAGAIN)
		otte_log(OTTE_LOG_ERROR, "a batch's eventfd: %m");
	if (!batch->attended) {
		batch->attended = true;
		otte_progress_attend(&batch->engine->progress);
	}
}

/* Under submit_lock: what a submission changes for those who look on. */
static void commit(struct otte_batch *batch, size_t count)
{
	uint32_t submitted = batch->submitted + (uint32_t)count;

	if (batch->event_fd < 0) {
		atomic_store_explicit(&batch->submitted, submitted, memory_order_release);
		return;
	}
	otte_tail_lock(&batch->lock);
	batch->submitted = submitted;
	quieten(batch);
	otte_tail_unlock(&batch->lock);
}

static int check_all(struct otte_batch *batch, const struct otte_submission *from, size_t count,
		     uint32_t first, uint64_t *bytes)
{
	struct otte_peer *checked = NULL;
	struct otte_request request;
	uint64_t now_ns = otte_now_ns();
	size_t i;
	int ret;

	*bytes = 0;
	for (i = 0; i < count; i++) {
		request_at(from, i, &request);
		ret = otte_request_check(batch->engine, &request, i, &batch->memo);
		if (!ret && request.segment->peer != checked) {
			checked = request.segment->peer;
			ret = otte_peer_check(checked);
			if (ret)
				otte_fail_within(ret, "request %zu: ", i);
		}
		if (ret)
			return ret;
		*bytes += request.length;
		fill_task(batch, first + (uint32_t)i, &request, now_ns);
	}
	return 0;
}

static int admit(struct otte_batch *batch, const struct otte_submission *from, size_t count)
{
	struct otte_engine *engine = batch->engine;
	uint64_t bytes, counts[OTTE_PRIORITIES];
	uint32_t first = batch->submitted;
	unsigned i;
	int ret;

	if (count > batch->capacity - first)
		return otte_fail(-EDQUOT, "the batch's capacity (%u) is full", batch->capacity);
	ret = check_all(batch, from, count, first, &bytes);
	if (ret)
		return ret;
	ret = charge_budgets(engine, count, bytes);
	if (ret)
		return ret;
	if (engine->bounded) {
		count_priorities(&batch->tasks[first], count, counts);
		ret = charge_priorities(engine, counts);
		if (ret)
			goto uncharge;
	}
	ret = prepare(batch, first, count);
	if (ret)
		goto uncharge_priorities;
	commit(batch, count);
	return 0;

uncharge_priorities:
	for (i = 0; engine->bounded && i < OTTE_PRIORITIES; i++)
		atomic_fetch_sub(&engine->by_priority[i], counts[i]);
uncharge:
	atomic_fetch_sub(&engine->requests, count);
	atomic_fetch_sub(&engine->bytes, bytes);
	return ret;
}

int otte_batch_admit(struct otte_batch *batch, const struct otte_submission *from, size_t count)
{
	int ret = admit(batch, from, count);

	atomic_store_explicit(&batch->admitting, false, memory_order_release);
	return ret;
}

int otte_batch_check_open(struct otte_batch *batch)
{
	int ret;

	ret = otte_fork_check(batch->engine->generation);
	if (!ret && atomic_load(&batch->engine->requester_closed))
		ret = otte_fail(-ESHUTDOWN, "this engine is closed as a requester");
	return ret;
}

int otte_batch_add(struct otte_batch *batch, const struct otte_submission *from, size_t count)
{
	int ret;

	ret = otte_batch_check_open(batch);
	if (ret)
		return ret;
	pthread_mutex_lock(&batch->submit_lock);
	if (batch->engine->direct_bytes) {
		otte_tail_lock(&batch->lock);
		atomic_store_explicit(&batch->admitting, true, memory_order_relaxed);
		otte_tail_unlock(&batch->lock);
	}
	ret = otte_batch_admit(batch, from, count);
	if (ret)
		pthread_mutex_unlock(&batch->submit_lock);
	else
		otte_batch_start(batch, count, false);
	return ret;
}
