/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Chunks of a source that are not given back: what takes them back, and which stay.
 */
#include "room.h"

#include "base/clock.h"
#include "engine/access.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/segment.h"
#include "transport/rdma/mirror.h"
#include "transport/rdma/rdma.h"

/* Another worker wants the pool in the middle of this one's wish for it. */
static _Atomic bool another_is_faster;

int __real_otte_rdma_staging_make(struct otte_rdma_staging *staging);
int __wrap_otte_rdma_staging_make(struct otte_rdma_staging *staging);

int __wrap_otte_rdma_staging_make(struct otte_rdma_staging *staging)
{
	if (atomic_exchange(&another_is_faster, false))
		otte_rdma_mirrors_ready(container_of(staging, struct otte_rdma, mirrors));
	return __real_otte_rdma_staging_make(staging);
}

static void use_short_limits(struct otte_config *config)
{
	use_staged(config);
	config->reconnect_min_ns = config->reconnect_max_ns = 1000000;
	config->control_timeout_ns = SECOND;
	config->default_deadline_ns = 0;
}

static void use_one_chunk_at_once(struct otte_config *config)
{
	use_short_limits(config);
	config->rdma_staging_bytes = CHUNK;
}

static unsigned fail_call(enum sim_verb verb, struct sim_device *device, unsigned times)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = verb,
		.target = device,
		.times = times,
		.error = ENOMEM,
	};

	return sim_fault_arm(&fault);
}

/* Of the source's device, whatever it is of. */
static void lose_a_completion(unsigned after)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CQE_LOST,
		.target = nics[SOURCE][0],
		.after = after,
		.times = 1,
	};

	sim_fault_arm(&fault);
}

static bool is_untouched(const struct pair *pair)
{
	uint64_t i;

	for (i = 0; i < pair->size; i++)
		if (pair->remote_bytes[i] != UNTOUCHED)
			return false;
	return true;
}

/* Nothing of it is out, and nothing was written. */
static void assert_taken_back(struct pair *pair, uint8_t op)
{
	struct otte_task task;

	OK(otte_batch_wait(pair->batch, 30 * SECOND));
	task = task_of(pair, 0);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.locally_drained, 1);
	assert_true(comes(nothing_is_mirrored, pair));
	assert_int_equal(pair_stats(pair->source).loans, 0);
	assert_int_equal(pair_stats(pair->source).retained, 0);
	assert_int_equal(atomic_load(&ended_as[OTTE_EVIDENCE_REVOKED]), 1);
	assert_true(op == OTTE_READ || is_untouched(pair));
}

/* ---- Who keeps what it was granted ---- */

static void keep(struct pair *pair, uint8_t op)
{
	open_sides(pair, use_short_limits, use_short_limits);
	fill(pair, op, 1);
	atomic_store(&keeping, true);
	submit(pair, op, 0, 4096);
	assert_true(comes(is_granted, pair));
	assert_true(something_is_mirrored(pair));
}

static void unregister_while_granted(uint8_t op)
{
	struct pair pair;

	keep(&pair, op);
	OK(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL));
	assert_taken_back(&pair, op);
	close_rest(&pair);
	sim_reset();
	room_start(NULL);
}

static void who_keeps_a_chunk_does_not_keep_a_region(void **state)
{
	(void)state;
	unregister_while_granted(OTTE_READ);
	unregister_while_granted(OTTE_WRITE);
}

static void who_keeps_a_chunk_does_not_keep_an_engine(void **state)
{
	struct pair pair;

	(void)state;
	keep(&pair, OTTE_WRITE);
	OK(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, 5 * SECOND, NULL));
	assert_taken_back(&pair, OTTE_WRITE);
	pair_close(&pair);
}

static void who_is_gone_has_no_chunk_any_more(void **state)
{
	struct pair pair;

	(void)state;
	keep(&pair, OTTE_WRITE);
	otte_control_client_stop(&pair.segment->peer->control, -ECONNRESET);
	assert_taken_back(&pair, OTTE_WRITE);
	pair_close(&pair);
}

/* ---- What is not heard of ---- */

static void a_bind_that_fails_is_no_grant(void **state)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_SEND_STATUS,
		.target = nics[SOURCE][0],
		.times = 1,
		.status = IBV_WC_MW_BIND_ERR,
	};
	struct pair pair;

	(void)state;
	open_sides(&pair, use_short_limits, use_short_limits);
	fill(&pair, OTTE_WRITE, 1);
	sim_fault_arm(&fault);
	submit(&pair, OTTE_WRITE, 0, 4096);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(pair_stats(pair.source).rdma_grants, task_of(&pair, 0).code ? 0 : 1);
	assert_true(comes(nothing_is_mirrored, &pair));
	assert_int_equal(pair_stats(pair.source).loans, 0);
	assert_int_equal(atomic_load(&ended_as[OTTE_EVIDENCE_REVOKED]), 1);
	pair_close(&pair);
}

/* Its pair is closed for it, and so the chunk comes back. */
static void a_bind_that_is_not_heard_of_keeps_no_chunk(void **state)
{
	struct pair pair;

	(void)state;
	open_sides(&pair, use_short_limits, use_short_limits);
	lose_a_completion(0);
	submit(&pair, OTTE_READ, 0, 4096);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_true(comes(nothing_is_mirrored, &pair));
	assert_int_equal(pair_stats(pair.source).loans, 0);
	assert_int_equal(pair_stats(pair.source).retained, 0);
	assert_int_equal(atomic_load(&ended_as[OTTE_EVIDENCE_REVOKED]), 1);
	pair_close(&pair);
}

static void use_short_grants(struct otte_config *config)
{
	use_short_limits(config);
	config->rdma_grant_ns = SECOND / 2;
}

/* All of the payload is in the chunk, and what says so was lost: none of it is written. */
static void a_receipt_that_is_not_heard_of_writes_nothing(void **state)
{
	struct pair pair;

	(void)state;
	open_sides(&pair, use_short_grants, use_short_limits);
	fill(&pair, OTTE_WRITE, 1);
	lose_a_completion(1);
	submit(&pair, OTTE_WRITE, 0, 4096);
	assert_taken_back(&pair, OTTE_WRITE);
	assert_int_equal(sim_counts(nics[SOURCE][0]).bytes_written, 4096);
	assert_int_equal(task_of(&pair, 0).remote_effect, OTTE_EFFECT_UNKNOWN);
	pair_close(&pair);
}

static void what_has_no_window_has_no_chunk(void **state)
{
	struct pair pair;

	(void)state;
	open_sides(&pair, use_staged, use_rdma);
	fail_call(SIM_ALLOC_MW, nics[SOURCE][0], 1);
	assert_int_equal(run(&pair, OTTE_READ, 0, 4096).code, -ENOMEM);
	assert_int_equal(atomic_load(&ended_as[OTTE_EVIDENCE_NEVER_EXPOSED]), 1);
	assert_true(nothing_is_mirrored(&pair));
	assert_int_equal(run(&pair, OTTE_READ, 0, 4096).code, 0);
	assert_true(comes(nothing_is_mirrored, &pair));
	pair_close(&pair);
}

/* ---- What stays ---- */

static bool chunk_is_recorded(void *arg)
{
	struct otte_stats stats = pair_stats(((struct pair *)arg)->source);

	return stats.retained_bytes >= CHUNK && !stats.loans;
}

/* A moment after its loan. */
static bool range_is_free(void *arg)
{
	struct otte_access_map *map = &((struct pair *)arg)->remote_mem->access;
	struct otte_access access;

	if (otte_access_begin(map, &access, 0, SIZE, true))
		return false;
	otte_access_end(map, &access);
	return true;
}

/* All of the pool is out for good, and nothing of the source's memory: who asks is told so. */
static void assert_only_the_chunk_stays(struct pair *pair, struct pair *other)
{
	MUST(comes(chunk_is_recorded, pair));
	MUST(mirrored(pair) == CHUNK);
	MUST(comes(range_is_free, pair));
	MUST(pair_run(other, OTTE_READ, 65536, 65536, 4096) == 0);
	MUST(task_of(other, 0).transport == OTTE_TRANSPORT_TCP);
	MUST(run(other, OTTE_READ, 65536, 4096).code == -EUCLEAN);
	MUST(mirrored(pair) == CHUNK);
	OK(otte_region_unregister(&pair->remote, 1, 5 * SECOND, NULL));
	OK(otte_mem_release(pair->remote_mem));
	MUST(known(nics[SOURCE][0]) >= 1);
	MUST(otte_engine_close(pair->source, OTTE_CLOSE_SOURCE, SECOND, NULL) == -EUCLEAN);
}

/* A queue pair that cannot be destroyed goes on having its window, and that its chunk. */
static void lose_a_pair(uint8_t op)
{
	struct pair pair, other;

	open_sides(&pair, use_one_chunk_at_once, use_rdma);
	pair_join(&other, &pair, use_rdma);
	fill(&pair, op, 1);
	fail_call(SIM_DESTROY_QP, nics[SOURCE][0], 1000);
	atomic_store(&keeping, true);
	submit(&pair, op, 0, 4096);
	MUST(comes(is_kept, NULL));
	atomic_store(&keeping, false);
	otte_control_client_stop(&pair.segment->peer->control, -ECONNRESET);
	MUST(otte_batch_wait(pair.batch, 20 * SECOND) == 0);
	assert_only_the_chunk_stays(&pair, &other);
	MUST(op == OTTE_READ || atomic_load(&ended_as[OTTE_EVIDENCE_REVOKED]) == 1);
}

static void lose_a_read(void)
{
	lose_a_pair(OTTE_READ);
}

static void lose_a_write(void)
{
	lose_a_pair(OTTE_WRITE);
}

static void a_chunk_of_a_pair_that_stays_stays(void **state)
{
	(void)state;
	in_its_own_process(lose_a_read);
	in_its_own_process(lose_a_write);
}

/* The queue pair is gone, and the window is not. */
static void keep_a_window(void)
{
	struct pair pair, other;

	open_sides(&pair, use_one_chunk_at_once, use_rdma);
	pair_join(&other, &pair, use_rdma);
	fail_call(SIM_DEALLOC_MW, nics[SOURCE][0], 1000);
	atomic_store(&keeping, true);
	submit(&pair, OTTE_WRITE, 0, 4096);
	MUST(comes(is_kept, NULL));
	atomic_store(&keeping, false);
	otte_control_client_stop(&pair.segment->peer->control, -ECONNRESET);
	MUST(otte_batch_wait(pair.batch, 20 * SECOND) == 0);
	assert_only_the_chunk_stays(&pair, &other);
}

static void a_chunk_of_a_window_that_stays_stays(void **state)
{
	(void)state;
	in_its_own_process(keep_a_window);
}

/* On rxe: the grant is over, its bytes are where they belong, and its MR still has the chunk. */
static void keep_the_mr_of_a_window(void)
{
	struct pair pair, other;

	sim_device_be_rxe(nics[SOURCE][0]);
	sim_device_be_rxe(nics[REQUESTER][0]);
	open_sides(&pair, use_one_chunk_at_once, use_rdma);
	pair_join(&other, &pair, use_rdma);
	fill(&pair, OTTE_WRITE, 1);
	fail_call(SIM_DEREG_MR, nics[SOURCE][0], 1);
	MUST(run(&pair, OTTE_WRITE, GUARD, 4096).code == 0);
	MUST(!memcmp(pair.remote_bytes + GUARD, pair.local_bytes + GUARD, 4096));
	MUST(atomic_load(&ended_as[OTTE_EVIDENCE_RETURNED]) == 1);
	assert_only_the_chunk_stays(&pair, &other);
}

static void a_chunk_that_stays_pinned_stays(void **state)
{
	(void)state;
	in_its_own_process(keep_the_mr_of_a_window);
}

/* ---- What cannot be had ---- */

static char heard[512];

static void hear(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	if (strstr(line, "a peer gets no grant"))
		snprintf(heard, sizeof(heard), "%s", line);
}

/* Refused, for what the log names, and nothing is registered instead; the next one tries again. */
static void have_no_pool(void (*spoil)(void), const char *why)
{
	struct otte_request request;
	struct otte_task task;
	struct pair pair;

	heard[0] = '\0';
	OK(otte_log_set(hear, NULL, OTTE_LOG_WARNING));
	open_sides(&pair, use_staged, use_rdma);
	spoil();
	assert_int_equal(run(&pair, OTTE_READ, 0, 64).code, -ENOMEM);
	OK(otte_log_set(NULL, NULL, OTTE_LOG_WARNING));
	assert_non_null(strstr(heard, "rdma.staging_bytes, for peers"));
	assert_non_null(strstr(heard, why));
	assert_int_equal(known(nics[SOURCE][0]), 0);
	assert_true(is_drained(&pair));
	request = pair_request(&pair, OTTE_READ, 0, 0, 64);
	task = run_one(&pair, &request);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	assert_int_equal(run(&pair, OTTE_READ, 0, 64).code, 0);
	assert_int_equal(known(nics[SOURCE][0]), 1);
	pair_close(&pair);
}

/* The first one is of the queue pair's messages. */
static void use_bad_mr(void)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = SIM_REG_MR,
		.target = nics[SOURCE][0],
		.after = 1,
		.times = 2,
		.error = ENOMEM,
	};

	sim_fault_arm(&fault);
}

static void use_no_arena(void)
{
	atomic_store(&no_arena, 2);
}

static void use_no_list(void)
{
	atomic_store(&no_list, 2);
}

static void a_pool_that_is_not_registered_is_an_error(void **state)
{
	(void)state;
	have_no_pool(use_bad_mr, "ibv_reg_mr");
}

static void a_pool_without_memory_is_an_error(void **state)
{
	have_no_pool(use_no_arena, "mmap of 1245184 bytes");
	sim_reset();
	room_start(state);
	have_no_pool(use_no_list, "no memory for a list of chunks");
}

static void a_second_nic_that_fails_undoes_the_first(void **state)
{
	struct sim_device *second = sim_device_add(SOURCE, "mlx5_1");
	struct pair pair;

	(void)state;
	open_sides(&pair, use_staged, use_rdma);
	fail_call(SIM_REG_MR, second, 1);
	assert_int_equal(run(&pair, OTTE_READ, 0, 64).code, -ENOMEM);
	assert_int_equal(known(nics[SOURCE][0]) + known(second), 0);
	assert_int_equal(run(&pair, OTTE_READ, 0, 64).code, 0);
	assert_int_equal(known(nics[SOURCE][0]) + known(second), 2);
	pair_close(&pair);
}

/* It may still be registered somewhere, and is tried no more. */
static void lose_the_pool(void)
{
	struct sim_device *second = sim_device_add(SOURCE, "mlx5_1");
	struct pair pair;

	open_sides(&pair, use_staged, use_rdma);
	fail_call(SIM_REG_MR, second, 1);
	fail_call(SIM_DEREG_MR, nics[SOURCE][0], 1);
	MUST(run(&pair, OTTE_READ, 0, 64).code == -EUCLEAN);
	MUST(run(&pair, OTTE_READ, 0, 64).code == -EUCLEAN);
	MUST(pair_stats(pair.source).retained == 1);
	MUST(pair_stats(pair.source).retained_bytes >= ARENA);
	OK(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL));
	MUST(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, SECOND, NULL) == -EUCLEAN);
}

static void lose_the_pool_to_two(void)
{
	atomic_store(&another_is_faster, true);
	lose_the_pool();
	MUST(!atomic_load(&another_is_faster));
}

static void a_pool_that_stays_registered_is_lost(void **state)
{
	(void)state;
	in_its_own_process(lose_the_pool);
}

static void a_pool_is_lost_once_whoever_wanted_it(void **state)
{
	(void)state;
	in_its_own_process(lose_the_pool_to_two);
}

int run_lost_tests(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, room_start, nothing_is_left)
	const struct CMUnitTest tests[] = {
		TEST(who_keeps_a_chunk_does_not_keep_a_region),
		TEST(who_keeps_a_chunk_does_not_keep_an_engine),
		TEST(who_is_gone_has_no_chunk_any_more),
		TEST(a_bind_that_fails_is_no_grant),
		TEST(a_bind_that_is_not_heard_of_keeps_no_chunk),
		TEST(a_receipt_that_is_not_heard_of_writes_nothing),
		TEST(what_has_no_window_has_no_chunk),
		TEST(a_chunk_of_a_pair_that_stays_stays),
		TEST(a_chunk_of_a_window_that_stays_stays),
		TEST(a_chunk_that_stays_pinned_stays),
		TEST(a_pool_that_is_not_registered_is_an_error),
		TEST(a_pool_without_memory_is_an_error),
		TEST(a_second_nic_that_fails_undoes_the_first),
		TEST(a_pool_that_stays_registered_is_lost),
		TEST(a_pool_is_lost_once_whoever_wanted_it),
	};

	return cmocka_run_group_tests_name("lost", tests, NULL, NULL);
}
