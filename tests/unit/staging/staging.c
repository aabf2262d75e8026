/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A requester whose memory no NIC knows: what arrives through the pool, who waits for a chunk, and
 * which chunks come back. And who waits for what is moved in place.
 */
#include "room.h"

#include "base/clock.h"
#include "transport/rdma/budget.h"

static void use_little_in_place(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_direct_bytes = CHUNK;
}

/* The source's memory is known to its NIC, whatever the requester does. */
static void open_with(struct pair *pair, void (*adjust)(struct otte_config *config))
{
	open_sides(pair, use_rdma, adjust);
}

/* Chunks, or bytes in place. */
static uint64_t in_use(const struct pair *pair)
{
	struct otte_stats stats = pair_stats(pair->requester);

	return stats.rdma_staging_bytes + stats.rdma_direct_bytes;
}

static bool nothing_is_in_use(void *arg)
{
	return !in_use(arg);
}

static bool something_is_in_use(void *arg)
{
	return in_use(arg) > 0;
}

/* ---- What arrives ---- */

static void move_sizes(struct pair *pair, uint8_t op)
{
	unsigned i;

	for (i = 0; i < SIZES; i++) {
		move_size(pair, op, i);
		/* One of the pool, and none of the caller's memory. */
		assert_int_equal(known(nics[REQUESTER][0]), 1);
		assert_in_range(sim_counts(nics[REQUESTER][0]).pinned_bytes, ARENA, ARENA + CHUNK);
	}
}

static void every_length_passes_the_pool(void **state)
{
	struct pair pair;

	(void)state;
	open_with(&pair, use_staged);
	assert_int_equal(known(nics[REQUESTER][0]), 0);
	move_sizes(&pair, OTTE_READ);
	move_sizes(&pair, OTTE_WRITE);
	assert_int_equal(pair_stats(pair.requester).rdma_mrs, 0);
	assert_int_equal(in_use(&pair), 0);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	pair_close(&pair);
}

/* Memory of the caller's own, which the kernel copies. */
static void adopt(struct pair *pair, uint8_t *at, struct otte_mem **mem, struct otte_region **region)
{
	struct otte_region_desc desc = { .length = SIZE };

	OK(otte_mem_adopt(pair->requester, at, SIZE, mem));
	desc.mem = *mem;
	OK(otte_region_register(pair->requester, &desc, 1, region));
}

static void memory_of_the_callers_own_passes_it(void **state)
{
	uint8_t *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct otte_region *region;
	struct pair pair, own;
	struct otte_mem *mem;

	(void)state;
	assert_true(at != MAP_FAILED);
	open_with(&pair, use_staged);
	adopt(&pair, at, &mem, &region);
	own = pair;
	own.local = region;
	own.local_bytes = at;
	move_sizes(&own, OTTE_READ);
	move_sizes(&own, OTTE_WRITE);
	OK(otte_region_unregister(&region, 1, 10 * SECOND, NULL));
	OK(otte_mem_release(mem));
	munmap(at, SIZE);
	pair_close(&pair);
}

/* What the caller takes away under a request is an error of that request, and nothing else. */
static void memory_that_is_gone_is_an_error(void **state)
{
	uint8_t *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct otte_region *region;
	struct pair pair, own;
	struct otte_task task;
	struct otte_mem *mem;

	(void)state;
	assert_true(at != MAP_FAILED);
	open_with(&pair, use_staged);
	adopt(&pair, at, &mem, &region);
	own = pair;
	own.local = region;
	munmap(at + 4096, 4096);
	task = run(&own, OTTE_WRITE, 0, 8192);
	assert_int_equal(task.code, -EFAULT);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(run(&own, OTTE_READ, 0, 8192).code, -EFAULT);
	assert_int_equal(run(&own, OTTE_WRITE, 0, 4096).code, 0);
	assert_int_equal(run(&own, OTTE_READ, 8192, CHUNK).code, 0);
	assert_true(comes(nothing_is_in_use, &pair));
	assert_int_equal(sim_counts(nics[SOURCE][0]).bytes_written, 4096);
	OK(otte_region_unregister(&region, 1, 10 * SECOND, NULL));
	OK(otte_mem_release(mem));
	munmap(at, SIZE);
	pair_close(&pair);
}

/* ---- Who waits ---- */

static void more_than_there_is_goes_one_after_the_other(void **state)
{
	struct otte_request requests[8];
	struct pair pair;
	unsigned i;

	(void)state;
	open_with(&pair, use_one_chunk);
	fill(&pair, OTTE_READ, 3);
	for (i = 0; i < 8; i++) /* backwards, so that no two are merged */
		requests[i] = rdma_request(&pair, OTTE_READ, (7ull - i) * 200000, 199999);
	OK(otte_batch_submit(pair.batch, requests, 8));
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	for (i = 0; i < 8; i++) {
		struct otte_task task;

		OK(otte_batch_task(pair.batch, i, &task));
		assert_int_equal(task.code, 0);
		assert_memory_equal(pair.local_bytes + i * 200000, pair.remote_bytes + i * 200000,
				    199999);
	}
	assert_int_equal(in_use(&pair), 0);
	pair_close(&pair);
}

/* One that does not move has all that there is: another one's deadline, and its cancellation. */
static void wait_in_vain(void (*adjust)(struct otte_config *config))
{
	struct otte_request first, second;
	struct otte_batch *batch;
	struct pair pair;

	open_with(&pair, adjust);
	OK(otte_batch_create(pair.requester, 16, &batch));
	first = rdma_request(&pair, OTTE_READ, 0, CHUNK);
	second = rdma_request(&pair, OTTE_READ, 2 * CHUNK, CHUNK);
	assert_int_equal(run_one(&pair, &first).code, 0);
	sim_progress_set(SIM_STEPPED, 0);
	OK(otte_batch_reset(pair.batch));
	OK(otte_batch_submit(pair.batch, &first, 1));
	assert_true(comes(something_is_in_use, &pair));
	second.deadline_ns = otte_now_ns() + 50000000;
	OK(otte_batch_submit(batch, &second, 1));
	assert_int_equal(outcome_of(batch).code, -ETIMEDOUT);
	second.deadline_ns = OTTE_DEADLINE_NONE;
	OK(otte_batch_reset(batch));
	OK(otte_batch_submit(batch, &second, 1));
	usleep(20000);
	assert_int_equal(in_use(&pair), CHUNK);
	OK(otte_batch_cancel(batch));
	assert_int_equal(outcome_of(batch).code, -ECANCELED);
	/* And it goes on. */
	OK(otte_batch_reset(batch));
	OK(otte_batch_submit(batch, &second, 1));
	sim_progress_set(SIM_THREAD, 0);
	assert_int_equal(outcome_of(pair.batch).code, 0);
	assert_int_equal(outcome_of(batch).code, 0);
	assert_true(comes(nothing_is_in_use, &pair));
	OK(otte_batch_destroy(batch));
	pair_close(&pair);
}

static void who_waits_for_a_chunk_has_a_deadline(void **state)
{
	(void)state;
	wait_in_vain(use_one_chunk);
}

static void who_waits_for_a_place_has_a_deadline(void **state)
{
	(void)state;
	wait_in_vain(use_little_in_place);
}

static void what_is_longer_than_the_budget_goes_alone(void **state)
{
	struct pair pair;

	(void)state;
	open_with(&pair, use_little_in_place);
	fill(&pair, OTTE_WRITE, 4);
	assert_int_equal(run(&pair, OTTE_WRITE, GUARD, (1u << 20) + 3).code, 0);
	assert_arrived(&pair, OTTE_WRITE, (1u << 20) + 3);
	assert_int_equal(in_use(&pair), 0);
	pair_close(&pair);
}

static void first_come_first_served(void **state)
{
	struct otte_rdma_budget budget = { .name = "a budget", .limit = 10 };
	struct otte_rdma_turn a = {}, b = {}, c = {};
	uint64_t charged;

	(void)state;
	assert_int_equal(otte_rdma_budget_take(&budget, &a, 8, &charged), 0);
	assert_int_equal(charged, 8);
	assert_int_equal(otte_rdma_budget_take(&budget, &b, 4, &charged), 1);
	/* It would fit, and was not the first. */
	assert_int_equal(otte_rdma_budget_take(&budget, &c, 1, &charged), 1);
	otte_rdma_budget_give(&budget, 8);
	assert_int_equal(otte_rdma_budget_take(&budget, &c, 1, &charged), 1);
	assert_int_equal(otte_rdma_budget_take(&budget, &b, 4, &charged), 0);
	/* As long as it wants more it stays the first. */
	assert_int_equal(otte_rdma_budget_take(&budget, &c, 1, &charged), 1);
	otte_rdma_budget_leave(&budget, &b);
	assert_int_equal(otte_rdma_budget_take(&budget, &c, 1, &charged), 0);
	otte_rdma_budget_leave(&budget, &c);
	assert_null(budget.queue);
	assert_int_equal(atomic_load(&budget.used), 5);
	/* What stays is less for all, and in the end nothing. */
	otte_rdma_budget_stick(&budget, 4);
	otte_rdma_budget_give(&budget, 1);
	assert_int_equal(otte_rdma_budget_take(&budget, &a, 100, &charged), 0);
	assert_int_equal(charged, 6);
	otte_rdma_budget_stick(&budget, 6);
	assert_int_equal(otte_rdma_budget_take(&budget, &a, 1, &charged), -EUCLEAN);
	assert_non_null(strstr(otte_error_text(), "a budget"));
}

/* ---- Pairs that are lost ---- */

static void lose_a_completion(void)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CQE_LOST,
		.target = nics[REQUESTER][0],
		.times = 1,
	};

	sim_fault_arm(&fault);
}

/* Whoever may move it: the other transport does, once the queue pair is gone. */
static void a_read_that_was_lost_arrives_all_the_same(void **state)
{
	struct otte_request request;
	struct otte_task task;
	struct pair pair;

	(void)state;
	open_with(&pair, use_staged);
	fill(&pair, OTTE_READ, 7);
	lose_a_completion();
	request = pair_request(&pair, OTTE_READ, GUARD, GUARD, 3 * CHUNK);
	OK(otte_batch_submit(pair.batch, &request, 1));
	/* As long as there is the queue pair its chunk is out. */
	assert_true(comes(something_is_in_use, &pair));
	assert_true(comes(nothing_is_in_use, &pair));
	assert_int_equal(pair_stats(pair.requester).rdma_qps, 0);
	task = outcome_of(pair.batch);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	assert_arrived(&pair, OTTE_READ, 3 * CHUNK);
	assert_int_equal(pair_stats(pair.requester).retained, 0);
	pair_close(&pair);
}

static void a_write_that_was_lost_is_not_sent_again(void **state)
{
	struct otte_request request;
	struct otte_task task;
	struct pair pair;

	(void)state;
	open_with(&pair, use_staged);
	lose_a_completion();
	request = pair_request(&pair, OTTE_WRITE, 0, 0, CHUNK);
	task = run_one(&pair, &request);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(task.locally_drained, 1);
	assert_true(comes(nothing_is_in_use, &pair));
	assert_int_equal(sim_counts(nics[SOURCE][0]).bytes_written, CHUNK);
	pair_close(&pair);
}

static void cannot_destroy(void)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = SIM_DESTROY_QP,
		.target = nics[REQUESTER][0],
		.times = 1000,
		.error = EIO,
	};

	sim_fault_arm(&fault);
}

/*
 * Only a chunk may still be read or written: the request ends as if all had completed, its memory
 * is the caller's, and the chunk stays. All of the pool, here.
 */
static void lose_for_good(uint8_t op, bool flushed)
{
	struct otte_request request;
	struct otte_task task;
	struct pair pair;

	open_with(&pair, use_one_chunk);
	MUST(run(&pair, op, 0, 64).code == 0);
	fill(&pair, op, 9);
	cannot_destroy();
	if (flushed)
		sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], false);
	else
		lose_a_completion();
	request = pair_request(&pair, op, GUARD, GUARD, CHUNK);
	task = run_one(&pair, &request);
	MUST(task.code == (op == OTTE_READ ? 0 : -ECONNRESET));
	MUST(task.locally_drained);
	MUST(op == OTTE_WRITE || task.transport == OTTE_TRANSPORT_TCP);
	MUST(op == OTTE_WRITE || !memcmp(pair.local_bytes + GUARD, pair.remote_bytes + GUARD, CHUNK));
	usleep(200000);
	MUST(in_use(&pair) == CHUNK);
	MUST(pair_stats(pair.requester).retained_bytes >= CHUNK);
	OK(otte_region_unregister(&pair.local, 1, SECOND, NULL));
	OK(otte_mem_release(pair.local_mem));
	MUST(known(nics[REQUESTER][0]) == 1);
	MUST(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, SECOND, NULL) == -EUCLEAN);
}

static void lose_a_read(void)
{
	lose_for_good(OTTE_READ, false);
}

static void lose_a_write(void)
{
	lose_for_good(OTTE_WRITE, false);
}

static void lose_a_read_that_was_flushed(void)
{
	lose_for_good(OTTE_READ, true);
}

static void a_chunk_of_a_pair_that_stays_stays(void **state)
{
	(void)state;
	in_its_own_process(lose_a_read);
	in_its_own_process(lose_a_write);
	in_its_own_process(lose_a_read_that_was_flushed);
}

/* ---- What cannot be registered ---- */

static unsigned cannot_register(unsigned times)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = SIM_REG_MR,
		.target = nics[REQUESTER][0],
		.times = times,
		.error = ENOMEM,
	};

	return sim_fault_arm(&fault);
}

static void a_pool_that_is_not_registered_is_an_error(void **state)
{
	struct pair pair;

	(void)state;
	open_with(&pair, use_staged);
	cannot_register(1);
	assert_int_equal(run(&pair, OTTE_READ, 0, 64).code, -ENOMEM);
	assert_int_equal(known(nics[REQUESTER][0]), 0);
	assert_int_equal(pair_stats(pair.source).rdma_grants, 0);
	/* Another one tries again. */
	assert_int_equal(run(&pair, OTTE_READ, 0, 64).code, 0);
	pair_close(&pair);
}

static void a_second_nic_that_fails_undoes_the_first(void **state)
{
	struct sim_device *second = sim_device_add(1, "mlx5_1");
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = SIM_REG_MR,
		.target = second,
		.times = 1,
		.error = ENOMEM,
	};
	struct pair pair;

	(void)state;
	open_with(&pair, use_staged);
	sim_fault_arm(&fault);
	assert_int_equal(run(&pair, OTTE_READ, 0, 64).code, -ENOMEM);
	assert_int_equal(known(nics[REQUESTER][0]) + known(second), 0);
	assert_int_equal(run(&pair, OTTE_READ, 0, 64).code, 0);
	assert_int_equal(known(nics[REQUESTER][0]) + known(second), 2);
	pair_close(&pair);
}

/* Nothing but what was asked for: no pool, and no region. */
static void what_is_not_registered_directly_is_not_staged(void **state)
{
	struct otte_region_desc desc = { .length = 4096 };
	struct otte_region *region;
	struct pair pair;
	unsigned id;

	(void)state;
	open_with(&pair, use_rdma);
	desc.mem = pair.local_mem;
	id = cannot_register(1000);
	assert_int_equal(otte_region_register(pair.requester, &desc, 1, &region), -ENOMEM);
	sim_fault_disarm(id);
	assert_int_equal(known(nics[REQUESTER][0]), 1);
	assert_int_equal(run(&pair, OTTE_READ, 0, 64).code, 0);
	assert_int_equal(known(nics[REQUESTER][0]), 1);
	assert_int_equal(pair_stats(pair.requester).rdma_staging_bytes, 0);
	pair_close(&pair);
}

/* ---- Leases ---- */

static void use_staged_and_lease(struct otte_config *config)
{
	use_staged(config);
	config->rdma_lease = OTTE_LEASE_RANGE - OTTE_LEASE_OFF;
}

/* By one window many requests would move in place. */
static void what_is_staged_is_granted_and_not_leased(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	open_with(&pair, use_staged_and_lease);
	for (i = 0; i < 3; i++) {
		fill(&pair, OTTE_READ, (uint8_t)i);
		assert_int_equal(run(&pair, OTTE_READ, GUARD, 4096).code, 0);
		assert_arrived(&pair, OTTE_READ, 4096);
	}
	assert_int_equal(pair_stats(pair.source).rdma_grants, 3);
	pair_close(&pair);
}

int run_requester_tests(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, with_nics, nothing_is_left)
	const struct CMUnitTest tests[] = {
		TEST(every_length_passes_the_pool),
		TEST(memory_of_the_callers_own_passes_it),
		TEST(memory_that_is_gone_is_an_error),
		TEST(more_than_there_is_goes_one_after_the_other),
		TEST(who_waits_for_a_chunk_has_a_deadline),
		TEST(who_waits_for_a_place_has_a_deadline),
		TEST(what_is_longer_than_the_budget_goes_alone),
		TEST(first_come_first_served),
		TEST(a_read_that_was_lost_arrives_all_the_same),
		TEST(a_write_that_was_lost_is_not_sent_again),
		TEST(a_chunk_of_a_pair_that_stays_stays),
		TEST(a_pool_that_is_not_registered_is_an_error),
		TEST(a_second_nic_that_fails_undoes_the_first),
		TEST(what_is_not_registered_directly_is_not_staged),
		TEST(what_is_staged_is_granted_and_not_leased),
	};

	return cmocka_run_group_tests_name("requester", tests, NULL, NULL);
}
