/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A source whose memory no NIC knows: what arrives through its chunks, what else of them is in
 * reach, who waits for one, and what becomes of memory that is not there any more.
 */
#include "room.h"

#include <utlist.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "transport/rdma/grant.h"
#include "transport/rdma/mirror.h"
#include "transport/rdma/rdma.h"

static void use_larger_chunks(struct otte_config *config)
{
	use_staged(config);
	config->rdma_chunk_bytes = 3 * CHUNK;
}

/* Long enough for a busy machine, where something is to be given up after it. */
static void use_short_limits(struct otte_config *config)
{
	use_one_chunk(config);
	config->reconnect_min_ns = config->reconnect_max_ns = 1000000;
	config->control_timeout_ns = SECOND;
	config->default_deadline_ns = 0;
}

/* ---- What arrives ---- */

static void move_sizes(struct pair *pair, uint8_t op, unsigned requesters_mrs)
{
	unsigned i;

	for (i = 0; i < SIZES; i++) {
		move_size(pair, op, i);
		assert_int_equal(known(nics[REQUESTER][0]), requesters_mrs);
	}
}

/* The source has one MR, of its pool, and the requester those of its region, or of its own pool. */
static void move_all(void (*source)(struct otte_config *config),
		     void (*requester)(struct otte_config *config), unsigned requesters_mrs)
{
	struct sim_counts counts;
	struct pair pair;

	open_sides(&pair, source, requester);
	assert_int_equal(known(nics[SOURCE][0]), 0);
	move_sizes(&pair, OTTE_READ, requesters_mrs);
	move_sizes(&pair, OTTE_WRITE, requesters_mrs);
	counts = sim_counts(nics[SOURCE][0]);
	assert_int_equal(known(nics[SOURCE][0]), 1);
	assert_in_range(counts.pinned_bytes, ARENA, ARENA + CHUNK);
	assert_int_equal(pair_stats(pair.source).rdma_mrs, 0);
	assert_true(comes(nothing_is_mirrored, &pair));
	assert_int_equal(pair_stats(pair.source).loans, 0);
	assert_int_equal(atomic_load(&ended_as[OTTE_EVIDENCE_RETURNED]), atomic_load(&grants_said));
	pair_close(&pair);
}

static void every_length_arrives_from_memory_in_place(void **state)
{
	(void)state;
	move_all(use_staged, use_rdma, 1);
}

static void every_length_arrives_through_two_pools(void **state)
{
	(void)state;
	move_all(use_staged, use_staged, 1);
}

/* There a window has an MR of its own, over its bytes of the chunk. */
static void on_rxe_it_arrives_as_well(void **state)
{
	(void)state;
	move_all(use_staged, use_staged, 1);
}

/* Whose chunks are the smaller ones; and none is longer than the pool. */
static void a_slice_fits_into_both_chunks(void **state)
{
	struct pair pair;

	(void)state;
	open_sides(&pair, use_larger_chunks, use_staged);
	fill(&pair, OTTE_READ, 1);
	assert_int_equal(run(&pair, OTTE_READ, GUARD, 6 * CHUNK).code, 0);
	assert_arrived(&pair, OTTE_READ, 6 * CHUNK);
	assert_int_equal(pair_stats(pair.requester).rdma_slices, 6);
	pair_close(&pair);
	sim_reset();
	room_start(state);
	open_sides(&pair, use_larger_chunks, use_larger_chunks);
	assert_int_equal(run(&pair, OTTE_WRITE, GUARD, 6 * CHUNK).code, 0);
	assert_int_equal(pair_stats(pair.requester).rdma_slices, 2);
	pair_close(&pair);
}

/* Who does not keep to what PATHS say has no line any more. */
static void more_than_a_chunk_is_not_asked_for(void **state)
{
	struct pair pair;

	(void)state;
	atomic_store(&without_chunks, true);
	open_sides(&pair, use_staged, use_rdma);
	assert_int_equal(run(&pair, OTTE_READ, 0, CHUNK).code, 0);
	assert_int_not_equal(run(&pair, OTTE_READ, 0, CHUNK + 1).code, 0);
	assert_int_equal(pair_stats(pair.source).bad_frames, 1);
	assert_int_equal(atomic_load(&grants_said), 1);
	pair_close(&pair);
}

static void use_lease(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_lease = OTTE_LEASE_RANGE - OTTE_LEASE_OFF;
}

static void chunks_are_granted_and_not_leased(void **state)
{
	struct otte_request request;
	struct pair pair;
	unsigned i;

	(void)state;
	open_sides(&pair, use_staged, use_lease);
	/* First something that has the pool made. */
	request = rdma_request(&pair, OTTE_READ, SIZE / 2, 64);
	request.lease = OTTE_LEASE_OFF;
	assert_int_equal(run_one(&pair, &request).code, 0);
	for (i = 0; i < 3; i++) {
		fill(&pair, OTTE_READ, (uint8_t)i);
		assert_int_equal(run(&pair, OTTE_READ, GUARD, 4096).code, 0);
		assert_arrived(&pair, OTTE_READ, 4096);
	}
	assert_int_equal(pair_stats(pair.source).rdma_grants, 4);
	assert_int_equal(pair_stats(pair.source).rdma_leases, 0);
	pair_close(&pair);
}

/* ---- What is in reach ---- */

/* One byte before, and one behind: both are of the chunk, and of the same MR. */
static void miss_by(uint8_t op, int64_t by)
{
	uint64_t written;
	struct pair pair;

	open_sides(&pair, use_staged, use_rdma);
	/* Two are in use, so that there is one before the window. */
	assert_int_equal(run(&pair, op, 0, CHUNK).code, 0);
	fill(&pair, op, 3);
	written = sim_counts(nics[SOURCE][0]).bytes_written;
	atomic_store(&shift, by);
	assert_int_not_equal(run(&pair, op, GUARD, 4096).code, 0);
	assert_int_equal(sim_counts(nics[SOURCE][0]).bytes_written, written);
	assert_arrived(&pair, op, 0);
	assert_true(comes(nothing_is_mirrored, &pair));
	assert_true(comes(is_drained, &pair));
	pair_close(&pair);
	sim_reset();
	room_start(NULL);
}

static void nothing_else_of_a_chunk_is_in_reach(void **state)
{
	(void)state;
	miss_by(OTTE_READ, -1);
	miss_by(OTTE_READ, 1);
	miss_by(OTTE_WRITE, -1);
	miss_by(OTTE_WRITE, 1);
}

static uint64_t count_bytes(const uint8_t *bytes, uint64_t length, uint8_t byte)
{
	uint64_t i, count = 0;

	for (i = 0; i < length; i++)
		count += bytes[i] == byte;
	return count;
}

/* A peer that only says that it has written reads nothing of what was in the chunk before. */
static void what_was_in_a_chunk_before_is_nobodys(void **state)
{
	struct pair pair;

	(void)state;
	open_sides(&pair, use_one_chunk, use_rdma);
	memset(pair.remote_bytes, 0x5e, CHUNK);
	assert_int_equal(run(&pair, OTTE_READ, 0, CHUNK).code, 0);
	atomic_store(&lying, true);
	memset(pair.local_bytes, 1, SIZE);
	memset(pair.remote_bytes, UNTOUCHED, SIZE);
	assert_int_equal(run(&pair, OTTE_WRITE, GUARD, 4096).code, 0);
	assert_int_equal(count_bytes(pair.remote_bytes, SIZE, 0x5e), 0);
	assert_int_equal(count_bytes(pair.remote_bytes, SIZE, UNTOUCHED), SIZE - 4096);
	pair_close(&pair);
}

/* Its chunk is lent without payload, and nothing of it goes anywhere. */
static void a_grant_that_nobody_wants_any_more_writes_nothing(void **state)
{
	struct pair pair;

	(void)state;
	open_sides(&pair, use_staged, use_rdma);
	fill(&pair, OTTE_WRITE, 1);
	sim_progress_set(SIM_STEPPED, 0);
	submit(&pair, OTTE_WRITE, GUARD, 4096);
	assert_true(comes(has_loan, &pair));
	OK(otte_batch_cancel(pair.batch));
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(task_of(&pair, 0).code, -ECANCELED);
	assert_int_equal(task_of(&pair, 0).remote_effect, OTTE_EFFECT_NONE);
	sim_progress_set(SIM_INLINE, 0);
	assert_true(comes(is_drained, &pair));
	assert_int_equal(atomic_load(&ended_as[OTTE_EVIDENCE_RETURNED]), 1);
	assert_int_equal(count_bytes(pair.remote_bytes, SIZE, UNTOUCHED), SIZE);
	pair_close(&pair);
}

/* The payload has reached the chunk, and there it stays: nobody has said that it is all of it. */
static void a_write_without_its_receipt_writes_nothing(void **state)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_SEND_STATUS,
		.target = nics[REQUESTER][0],
		.after = 1,
		.times = 1,
		.status = IBV_WC_RETRY_EXC_ERR,
	};
	struct otte_task task;
	struct pair pair;

	(void)state;
	open_sides(&pair, use_staged, use_rdma);
	assert_int_equal(run(&pair, OTTE_READ, 0, 64).code, 0);
	fill(&pair, OTTE_WRITE, 1);
	/* The probe of the other direction's pair passes first, and then the payload. */
	assert_int_equal(run(&pair, OTTE_WRITE, SIZE / 2, 64).code, 0);
	memset(pair.remote_bytes, UNTOUCHED, SIZE);
	sim_fault_arm(&fault);
	task = run(&pair, OTTE_WRITE, GUARD, 4096);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(sim_counts(nics[SOURCE][0]).bytes_written, 64 + 4096);
	assert_true(comes(is_drained, &pair));
	assert_true(comes(nothing_is_mirrored, &pair));
	assert_int_equal(count_bytes(pair.remote_bytes, SIZE, UNTOUCHED), SIZE);
	pair_close(&pair);
}

/* ---- Who waits ---- */

static void more_than_there_is_goes_one_after_the_other(void **state)
{
	struct otte_request requests[8];
	struct pair pair;
	unsigned i;

	(void)state;
	open_sides(&pair, use_one_chunk, use_staged);
	fill(&pair, OTTE_WRITE, 3);
	for (i = 0; i < 8; i++) /* backwards, so that no two are merged */
		requests[i] = rdma_request(&pair, OTTE_WRITE, (7ull - i) * 200000, 199999);
	OK(otte_batch_submit(pair.batch, requests, 8));
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	for (i = 0; i < 8; i++) {
		assert_int_equal(task_of(&pair, i).code, 0);
		assert_memory_equal(pair.remote_bytes + i * 200000, pair.local_bytes + i * 200000,
				    199999);
	}
	assert_true(comes(nothing_is_mirrored, &pair));
	pair_close(&pair);
}

/* Two peers, and one chunk that the first one keeps. It has its time; the other one has it then. */
static void who_waits_for_a_chunk_does_not_wait_for_ever(void **state)
{
	struct otte_request request;
	struct otte_task task;
	struct pair pair, other;

	(void)state;
	open_sides(&pair, use_short_limits, use_short_limits);
	pair_join(&other, &pair, use_short_limits);
	atomic_store(&keeping, true);
	submit(&pair, OTTE_READ, 0, 4096);
	assert_true(comes(is_kept, NULL));
	atomic_store(&keeping, false);
	request = pair_request(&other, OTTE_READ, 8192, 8192, 4096);
	task = run_one(&other, &request);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	/* The first one's, and the standing one of TCP: who waits for a chunk is lent nothing. */
	assert_int_equal(pair_stats(pair.source).loans, 2);
	OK(otte_batch_cancel(pair.batch));
	pair_close_requester(&other);
	OK(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL));
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_true(comes(nothing_is_mirrored, &pair));
	assert_int_equal(pair_stats(pair.source).retained, 0);
	close_rest(&pair);
}

/* Who would take a chunk finds none, once: another worker has it. */
static _Atomic bool another_is_faster;

int __real_otte_rdma_staging_take(struct otte_rdma_staging *staging, struct otte_rdma_turn *turn,
				  struct otte_rdma_chunk **chunk);
int __wrap_otte_rdma_staging_take(struct otte_rdma_staging *staging, struct otte_rdma_turn *turn,
				  struct otte_rdma_chunk **chunk);

int __wrap_otte_rdma_staging_take(struct otte_rdma_staging *staging, struct otte_rdma_turn *turn,
				  struct otte_rdma_chunk **chunk)
{
	if (atomic_exchange(&another_is_faster, false))
		return 1;
	return __real_otte_rdma_staging_take(staging, turn, chunk);
}

static struct otte_rdma *rdma_of(const struct otte_engine *engine)
{
	return (struct otte_rdma *)engine->transport;
}

static bool two_wait(void *arg)
{
	struct otte_rdma_worker *worker = &rdma_of(((struct pair *)arg)->source)->workers[0];
	const struct otte_rdma_lent *lent;
	unsigned count = 0;

	if (!otte_rdma_take_turn(worker))
		return false;
	DL_FOREACH2(worker->waiting, lent, wait_next)
		count++;
	otte_rdma_end_turn(worker);
	return count == 2;
}

static bool two_are_kept(void *arg)
{
	(void)arg;
	return atomic_load(&grants_kept) == 2;
}

static void use_one_chunk_for_long(struct otte_config *config)
{
	use_short_limits(config);
	config->rdma_workers = 1; /* which sleeps, and can be looked into */
	config->rdma_progress = OTTE_RDMA_PROGRESS_EVENTS;
	config->control_timeout_ns = 20 * SECOND;
}

/* Of two that wait who had the chunk last is the last, though the other one misses it once. */
static void who_misses_a_chunk_keeps_its_turn(void **state)
{
	struct pair pair, others[2];
	unsigned i;

	(void)state;
	open_sides(&pair, use_one_chunk_for_long, use_one_chunk_for_long);
	for (i = 0; i < 2; i++) {
		pair_join(&others[i], &pair, use_one_chunk_for_long);
		assert_int_equal(run(&others[i], OTTE_READ, 0, 4096).code, 0);
	}
	atomic_store(&keeping, true);
	submit(&pair, OTTE_READ, 0, 4096);
	assert_true(comes(is_kept, NULL));
	for (i = 0; i < 2; i++)
		submit_over(&others[i], OTTE_READ, OTTE_TRANSPORT_RDMA, 8192 * (i + 1), 4096);
	assert_true(comes(two_wait, &pair));
	atomic_store(&another_is_faster, true);
	otte_control_client_stop(&pair.segment->peer->control, -ECONNRESET);
	assert_true(comes(two_are_kept, NULL));
	assert_false(atomic_load(&another_is_faster));
	assert_ptr_equal(atomic_load(&last_keeper), rdma_of(others[0].requester));
	atomic_store(&keeping, false);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	for (i = 0; i < 2; i++) {
		otte_control_client_stop(&others[i].segment->peer->control, -ECONNRESET);
		OK(otte_batch_wait(others[i].batch, 30 * SECOND));
		pair_close_requester(&others[i]);
	}
	assert_true(comes(nothing_is_mirrored, &pair));
	pair_close(&pair);
}

static void use_four_chunks(struct otte_config *config)
{
	use_short_limits(config);
	config->rdma_staging_bytes = 4 * CHUNK;
}

static bool three_are_kept(void *arg)
{
	(void)arg;
	return atomic_load(&grants_kept) == 3;
}

static bool has_three_loans(void *arg)
{
	return pair_stats(((struct pair *)arg)->source).loans == 3;
}

/* Of four chunks one that keeps what it gets has three, as of places. */
static void one_peer_leaves_a_chunk_to_others(void **state)
{
	struct otte_request requests[4];
	struct pair pair, other;
	unsigned i;

	(void)state;
	open_sides(&pair, use_four_chunks, use_rdma);
	pair_join(&other, &pair, use_rdma);
	atomic_store(&keeping, true);
	for (i = 0; i < 4; i++)
		requests[i] = rdma_request(&pair, OTTE_READ, (3 - i) * 8192, 4096);
	OK(otte_batch_submit(pair.batch, requests, 4));
	assert_true(comes(three_are_kept, NULL));
	assert_true(has_three_loans(&pair));
	atomic_store(&keeping, false);
	assert_int_equal(run(&other, OTTE_READ, 65536, 4096).code, 0);
	assert_true(has_three_loans(&pair));
	OK(otte_batch_cancel(pair.batch));
	pair_close_requester(&other);
	OK(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL));
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	close_rest(&pair);
}

/* Each is source and requester, of one chunk for each of the two. */
struct both {
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *region;
	struct otte_segment *segment;
	struct otte_batch *batch;
	uint8_t *bytes;
};

static void open_both(struct both *both)
{
	struct otte_region_desc desc = {
		.length = 2 * SIZE,
		.access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE,
	};
	struct otte_config config;

	OK(otte_config_init(&config, sizeof(config)));
	use_one_chunk(&config);
	OK(otte_engine_create(&config, &both->engine));
	OK(otte_mem_alloc(both->engine, 2 * SIZE, 0, &both->mem));
	desc.mem = both->mem;
	OK(otte_region_register(both->engine, &desc, 1, &both->region));
	both->bytes = otte_mem_address(both->mem);
	OK(otte_batch_create(both->engine, 16, &both->batch));
}

static void close_both(struct both *both)
{
	OK(otte_batch_destroy(both->batch));
	OK(otte_segment_close(both->segment));
}

static void free_both(struct both *both)
{
	OK(otte_region_unregister(&both->region, 1, 10 * SECOND, NULL));
	OK(otte_mem_release(both->mem));
	OK(otte_engine_destroy(both->engine));
}

static void know_each_other(struct both *one, const struct both *other)
{
	char address[OTTE_ADDRESS_MAX];

	OK(otte_engine_address(other->engine, address, sizeof(address)));
	OK(otte_segment_open(one->engine, address, OTTE_EPOCH_ANY, 30 * SECOND, &one->segment));
}

#define MUTUAL 8
#define EACH (3 * CHUNK + 17)

/* From the first half of its memory into the second half of the other's. */
static void write_into(struct both *one, const struct both *other)
{
	struct otte_request requests[MUTUAL];
	unsigned i;

	for (i = 0; i < MUTUAL; i++)
		requests[i] = (struct otte_request){
			.segment = one->segment,
			.local = one->region,
			.local_offset = (MUTUAL - 1 - i) * (EACH + 64ull),
			.remote_region = otte_region_id(other->region),
			.remote_offset = SIZE + (MUTUAL - 1 - i) * (EACH + 64ull),
			.length = EACH,
			.op = OTTE_WRITE,
			.transport = OTTE_TRANSPORT_RDMA,
		};
	OK(otte_batch_submit(one->batch, requests, MUTUAL));
}

static void assert_written(struct both *one, const struct both *other)
{
	struct otte_task task;
	unsigned i;

	OK(otte_batch_wait(one->batch, 30 * SECOND));
	for (i = 0; i < MUTUAL; i++) {
		OK(otte_batch_task(one->batch, i, &task));
		assert_int_equal(task.code, 0);
		assert_memory_equal(other->bytes + SIZE + i * (EACH + 64ull),
				    one->bytes + i * (EACH + 64ull), EACH);
	}
}

/* Each waits with its only chunk for the only one that the other one has for peers. */
static void two_that_write_to_each_other_do_not_wait_for_ever(void **state)
{
	struct both one = {}, other = {};
	unsigned round;

	(void)state;
	hosts_in_turn = true;
	open_both(&one);
	open_both(&other);
	know_each_other(&one, &other);
	know_each_other(&other, &one);
	sim_progress_set(SIM_THREAD, 7);
	for (round = 0; round < 4; round++) {
		pair_fill(one.bytes, SIZE, (uint8_t)(2 * round));
		pair_fill(other.bytes, SIZE, (uint8_t)(2 * round + 1));
		OK(otte_batch_reset(one.batch));
		OK(otte_batch_reset(other.batch));
		write_into(&one, &other);
		write_into(&other, &one);
		assert_written(&one, &other);
		assert_written(&other, &one);
	}
	close_both(&one);
	close_both(&other);
	free_both(&one);
	free_both(&other);
	hosts_in_turn = false;
}

/* ---- Memory that is gone ---- */

static void adopt_remote(struct pair *pair, uint8_t *at, struct otte_mem **mem,
			 struct otte_region **region)
{
	struct otte_region_desc desc = {
		.length = SIZE,
		.access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE,
	};

	OK(otte_mem_adopt(pair->source, at, SIZE, mem));
	desc.mem = *mem;
	OK(otte_region_register(pair->source, &desc, 1, region));
}

/* What the source's application takes away is an error of the request, and no signal. */
static void memory_that_is_gone_is_an_error(void **state)
{
	uint8_t *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct otte_region *region;
	struct pair pair, own;
	struct otte_task task;
	struct otte_mem *mem;

	(void)state;
	assert_true(at != MAP_FAILED);
	open_sides(&pair, use_staged, use_rdma);
	adopt_remote(&pair, at, &mem, &region);
	own = pair;
	own.remote = region;
	own.remote_bytes = at;
	move_sizes(&own, OTTE_READ, 1);
	move_sizes(&own, OTTE_WRITE, 1);
	munmap(at + 4096, 4096);
	memset(own.local_bytes, UNTOUCHED, SIZE);
	assert_int_equal(run(&own, OTTE_READ, 0, 8192).code, -EFAULT);
	assert_int_equal(count_bytes(own.local_bytes, SIZE, UNTOUCHED), SIZE);
	/* The first byte cannot be written; then one behind those that were. */
	task = run(&own, OTTE_WRITE, 4096, 8192);
	assert_int_equal(task.code, -EFAULT);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(task.locally_drained, 1);
	task = run(&own, OTTE_WRITE, 0, 8192);
	assert_int_equal(task.code, -EFAULT);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(run(&own, OTTE_READ, 0, 4096).code, 0);
	assert_int_equal(run(&own, OTTE_WRITE, 8192, CHUNK).code, 0);
	assert_true(comes(nothing_is_mirrored, &pair));
	assert_int_equal(pair_stats(pair.source).loans, 0);
	assert_int_equal(pair_stats(pair.source).retained, 0);
	OK(otte_region_unregister(&region, 1, 10 * SECOND, NULL));
	OK(otte_mem_release(mem));
	munmap(at, SIZE);
	pair_close(&pair);
}

/* It is looked at: for a READ before its bytes are copied, after that, and when it is over. */
static void what_is_read_was_the_registered_memory(void **state)
{
	struct otte_task task;
	struct pair pair;
	int looks;

	(void)state;
	open_sides(&pair, use_staged, use_rdma);
	for (looks = 0; looks < 3; looks++) {
		room_start_words();
		watch_source(&pair);
		atomic_store(&looks_left, looks);
		task = run(&pair, OTTE_READ, GUARD, 4096);
		assert_int_equal(task.code, -ESTALE);
		assert_true(comes(is_drained, &pair));
		assert_true(comes(nothing_is_mirrored, &pair));
		/* Refused before it was granted; the last time it was granted. */
		assert_int_equal(atomic_load(&grants_said), looks == 2);
		unwatch_source(&pair);
	}
	pair_close(&pair);
}

/* Before a WRITE's bytes are copied, when nothing was written; and after that. */
static void what_is_written_is_the_registered_memory(void **state)
{
	struct otte_task task;
	struct pair pair;
	int looks;

	(void)state;
	open_sides(&pair, use_staged, use_staged);
	for (looks = 0; looks < 2; looks++) {
		room_start_words();
		watch_source(&pair);
		fill(&pair, OTTE_WRITE, 5);
		atomic_store(&looks_left, looks);
		task = run(&pair, OTTE_WRITE, GUARD, 4096);
		assert_int_equal(task.code, -ESTALE);
		assert_int_equal(task.remote_effect,
				 looks ? OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE);
		assert_int_equal(task.locally_drained, 1);
		assert_int_equal(count_bytes(pair.remote_bytes, SIZE, UNTOUCHED) == SIZE, !looks);
		assert_true(comes(is_drained, &pair));
		assert_true(comes(nothing_is_mirrored, &pair));
		unwatch_source(&pair);
	}
	/* Of several slices one may have been written. */
	room_start_words();
	watch_source(&pair);
	atomic_store(&looks_left, 2);
	task = run(&pair, OTTE_WRITE, GUARD, 4 * CHUNK);
	assert_int_equal(task.code, -ESTALE);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_true(comes(is_drained, &pair));
	unwatch_source(&pair);
	pair_close(&pair);
}

int run_source_tests(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, room_start, nothing_is_left)
	const struct CMUnitTest tests[] = {
		TEST(every_length_arrives_from_memory_in_place),
		TEST(every_length_arrives_through_two_pools),
		cmocka_unit_test_setup_teardown(on_rxe_it_arrives_as_well, room_start_rxe,
						nothing_is_left),
		TEST(a_slice_fits_into_both_chunks),
		TEST(more_than_a_chunk_is_not_asked_for),
		TEST(chunks_are_granted_and_not_leased),
		TEST(nothing_else_of_a_chunk_is_in_reach),
		TEST(what_was_in_a_chunk_before_is_nobodys),
		TEST(a_grant_that_nobody_wants_any_more_writes_nothing),
		TEST(a_write_without_its_receipt_writes_nothing),
		TEST(more_than_there_is_goes_one_after_the_other),
		TEST(who_waits_for_a_chunk_does_not_wait_for_ever),
		TEST(one_peer_leaves_a_chunk_to_others),
		TEST(who_misses_a_chunk_keeps_its_turn),
		TEST(two_that_write_to_each_other_do_not_wait_for_ever),
		TEST(memory_that_is_gone_is_an_error),
		TEST(what_is_read_was_the_registered_memory),
		TEST(what_is_written_is_the_registered_memory),
	};

	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
