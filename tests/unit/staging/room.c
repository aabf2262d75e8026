/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

#include <utlist.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/region.h"
#include "engine/source_use.h"
#include "ledger/ledger.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/qp.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/routes.h"
#include "transport/rdma/source.h"
#include "transport/rdma/transfer.h"

void use_rdma(struct otte_config *config)
{
	use_nics(config);
	config->rdma_destruction_ns = 100000000;
	config->reconnect_min_ns = config->reconnect_max_ns = 3600 * NSEC_PER_SEC;
}

void use_staged(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_host_memory = OTTE_HOST_MEMORY_STAGED;
	config->rdma_chunk_bytes = CHUNK;
	config->rdma_staging_bytes = ARENA;
}

void use_one_chunk(struct otte_config *config)
{
	use_staged(config);
	config->rdma_staging_bytes = CHUNK;
}

void open_sides(struct pair *pair, void (*source)(struct otte_config *config),
		void (*requester)(struct otte_config *config))
{
	struct pair first;

	pair_open(&first, SIZE, source);
	pair_close_requester(&first);
	pair_join(pair, &first, requester);
}

struct otte_task outcome_of(struct otte_batch *batch)
{
	struct otte_task task;

	OK(otte_batch_wait(batch, 30 * SECOND));
	OK(otte_batch_task(batch, 0, &task));
	return task;
}

struct otte_task run_one(struct pair *pair, const struct otte_request *request)
{
	OK(otte_batch_reset(pair->batch));
	OK(otte_batch_submit(pair->batch, request, 1));
	return wait_task(pair);
}

/* MRs of anything but the receives of queue pairs, which each have one. */
unsigned known(const struct sim_device *device)
{
	struct sim_counts counts = sim_counts(device);

	return counts.mrs - counts.qps;
}

void fill(const struct pair *pair, uint8_t op, uint8_t salt)
{
	pair_fill(op == OTTE_READ ? pair->remote_bytes : pair->local_bytes, pair->size, salt);
	memset(op == OTTE_READ ? pair->local_bytes : pair->remote_bytes, UNTOUCHED, pair->size);
}

const uint64_t lengths[SIZES] = { 1, 17, 4095, CHUNK - 1, CHUNK, CHUNK + 1, (1u << 20) + 3 };

/* ---- What happens on the way ---- */

_Atomic bool keeping, lying, without_chunks;
_Atomic int64_t shift;
_Atomic int looks_left, no_arena, no_list;
_Atomic unsigned grants_said, grants_kept;
const struct otte_rdma *_Atomic last_keeper;
_Atomic unsigned ended_as[16];

static _Atomic uint64_t word;

void __real_otte_rdma_source_say(struct otte_rdma_source *source,
				 const struct otte_rdma_message *message);
void __wrap_otte_rdma_source_say(struct otte_rdma_source *source,
				 const struct otte_rdma_message *message);

void __wrap_otte_rdma_source_say(struct otte_rdma_source *source,
				 const struct otte_rdma_message *message)
{
	if (message->type == OTTE_RDMA_MSG_GRANT)
		atomic_fetch_add(&grants_said, 1);
	__real_otte_rdma_source_say(source, message);
}

int __real_otte_rdma_transfer_granted(struct otte_rdma_peer *peer,
				      const struct otte_rdma_grant *grant);
int __wrap_otte_rdma_transfer_granted(struct otte_rdma_peer *peer,
				      const struct otte_rdma_grant *grant);

int __wrap_otte_rdma_transfer_granted(struct otte_rdma_peer *peer,
				      const struct otte_rdma_grant *grant)
{
	struct otte_rdma_grant said = *grant;
	struct otte_rdma_transfer *transfer;

	if (atomic_load(&keeping)) {
		DL_FOREACH(peer->transfers, transfer)
			transfer->since_ns = UINT64_MAX;
		atomic_store(&last_keeper, peer->rdma);
		atomic_fetch_add(&grants_kept, 1);
		return 0;
	}
	said.address += (uint64_t)atomic_load(&shift);
	return __real_otte_rdma_transfer_granted(peer, &said);
}

int __real_otte_rdma_qp_post(struct otte_rdma_qp *qp, const struct otte_rdma_send *sends,
			     uint32_t count, uint32_t *accepted);
int __wrap_otte_rdma_qp_post(struct otte_rdma_qp *qp, const struct otte_rdma_send *sends,
			     uint32_t count, uint32_t *accepted);

int __wrap_otte_rdma_qp_post(struct otte_rdma_qp *qp, const struct otte_rdma_send *sends,
			     uint32_t count, uint32_t *accepted)
{
	struct otte_rdma_send others[2];

	if (!atomic_load(&lying) || count != 2 || sends[0].op != OTTE_RDMA_WRITE)
		return __real_otte_rdma_qp_post(qp, sends, count, accepted);
	memcpy(others, sends, sizeof(others));
	others[0].bytes = 1;
	return __real_otte_rdma_qp_post(qp, others, count, accepted);
}

int __real_otte_source_still(const struct otte_source_use *use);
int __wrap_otte_source_still(const struct otte_source_use *use);

int __wrap_otte_source_still(const struct otte_source_use *use)
{
	if (atomic_load(&looks_left) >= 0 && atomic_fetch_sub(&looks_left, 1) == 0)
		atomic_store(&word, 1);
	return __real_otte_source_still(use);
}

void __real_otte_source_end_lent(struct otte_source_use *use, bool complete, uint32_t evidence);
void __wrap_otte_source_end_lent(struct otte_source_use *use, bool complete, uint32_t evidence);

void __wrap_otte_source_end_lent(struct otte_source_use *use, bool complete, uint32_t evidence)
{
	atomic_fetch_add(&ended_as[evidence], 1);
	__real_otte_source_end_lent(use, complete, evidence);
}

void __real_otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths);
void __wrap_otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths);

void __wrap_otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths)
{
	__real_otte_rdma_fill_paths(rdma, paths);
	if (atomic_load(&without_chunks))
		paths->chunk_bytes = 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
	if (count == ARENA / CHUNK && size == sizeof(struct otte_rdma_chunk) &&
	    atomic_load(&no_list) > 0) {
		atomic_fetch_sub(&no_list, 1);
		return NULL;
	}
	return __real_calloc(count, size);
}

void *__real_mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset);

void *__wrap_mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (length == ARENA && atomic_load(&no_arena) > 0) {
		atomic_fetch_sub(&no_arena, 1);
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(at, length, prot, flags, fd, offset);
}

void room_start_words(void)
{
	unsigned i;

	atomic_store(&keeping, false);
	atomic_store(&grants_kept, 0);
	atomic_store(&lying, false);
	atomic_store(&without_chunks, false);
	atomic_store(&shift, 0);
	atomic_store(&looks_left, -1);
	atomic_store(&no_arena, 0);
	atomic_store(&no_list, 0);
	atomic_store(&grants_said, 0);
	atomic_store(&word, 0);
	for (i = 0; i < ARRAY_SIZE(ended_as); i++)
		atomic_store(&ended_as[i], 0);
}

int room_start(void **state)
{
	room_start_words();
	return with_nics(state);
}

int room_start_rxe(void **state)
{
	room_start(state);
	sim_device_be_rxe(nics[SOURCE][0]);
	sim_device_be_rxe(nics[REQUESTER][0]);
	return 0;
}

bool is_kept(void *arg)
{
	(void)arg;
	return atomic_load(&grants_kept) == 1;
}

uint64_t mirrored(const struct pair *pair)
{
	return pair_stats(pair->source).rdma_staging_bytes;
}

bool nothing_is_mirrored(void *arg)
{
	return !mirrored(arg);
}

bool something_is_mirrored(void *arg)
{
	return mirrored(arg) > 0;
}

void watch_source(struct pair *pair)
{
	pair->remote->watch = (struct otte_region_watch){ .word = &word, .mask = 1 };
	pair->remote_mem->kind = OTTE_MEM_ADOPTED;
}

void unwatch_source(struct pair *pair)
{
	pair->remote->watch = (struct otte_region_watch){};
	pair->remote_mem->kind = OTTE_MEM_OWNED;
}

void move_size(struct pair *pair, uint8_t op, unsigned i)
{
	const uint64_t slices = pair_stats(pair->requester).rdma_slices;
	struct otte_task task;

	fill(pair, op, (uint8_t)(i + 1));
	task = run(pair, op, GUARD, lengths[i]);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
	assert_arrived(pair, op, lengths[i]);
	assert_int_equal(pair_stats(pair->requester).rdma_slices - slices,
			 (lengths[i] + CHUNK - 1) / CHUNK);
}
