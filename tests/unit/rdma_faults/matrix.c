/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a provider may do wrong, one after the other: what stays charged and for how long, what is
 * refused meanwhile, what is used again after that. docs/operations.md has it as a table.
 */
#include "room.h"

#include "engine/batch.h"

/* Long enough to look at what has not been destroyed yet. */
static void use_slow_destruction(struct otte_config *config)
{
	use_short_control(config);
	config->rdma_destruction_ns = SECOND;
}

static bool is_fenced(void *arg)
{
	struct otte_rdma_qp_status status;

	(void)arg;
	otte_rdma_qp_status(joined(REQUESTER), &status);
	return status.state >= OTTE_RDMA_QP_FENCED;
}

static bool has_one_qp(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->requester).rdma_qps == 1;
}

/* The pair is known by a request that went well, and is about to have another one. */
static void open_joined(struct pair *pair)
{
	pair_open(pair, SIZE, use_slow_destruction);
	pair_fill(pair->remote_bytes, SIZE, 3);
	assert_int_equal(run(pair, OTTE_WRITE, 0, 64).code, 0);
	assert_int_equal(charged(REQUESTER), 0);
}

/*
 * Of a WRITE of 4 KiB, of which `left` WRs were never heard of: they are charged and its range is
 * taken for as long as there is the queue pair, and over with it. Others go on over a new one.
 */
static void assert_charged_until_destroyed(struct pair *pair, uint32_t left)
{
	struct otte_task task;

	assert_true(comes(is_fenced, NULL));
	assert_int_equal(charged(REQUESTER), left);
	assert_true(is_taken(pair->local_mem, 4096, 4096));
	assert_true(comes(has_one_qp, pair));
	usleep(100000);
	assert_int_equal(charged(REQUESTER), left);
	assert_true(is_taken(pair->local_mem, 4096, 4096));
	task = wait_task(pair);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(is_taken(pair->local_mem, 4096, 4096), false);
	assert_true(comes(is_unconnected, pair));
	assert_true(comes(works_by_rdma, pair));
	assert_int_equal(pair_stats(pair->requester).retained, 0);
	assert_int_equal(pair_stats(pair->source).loans, 0);
	assert_int_equal(sim_counts(NULL).cqs, 4);
	pair_close(pair);
}

static void fail_a_post(enum sim_bad_wr bad_wr, unsigned accepted)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = SIM_POST_SEND,
		.target = nics[REQUESTER][0],
		.times = 1,
		.error = ENOMEM,
		.bad_wr = bad_wr,
		.accepted = accepted,
	};

	sim_fault_arm(&fault);
}

/* Which of them were taken nobody knows: all may have been. */
static void a_post_that_fails_and_names_nothing(void **state)
{
	static const enum sim_bad_wr unknown[] = { SIM_BAD_WR_NULL, SIM_BAD_WR_FOREIGN,
						   SIM_BAD_WR_UNTOUCHED };
	struct pair pair;
	unsigned i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(unknown); i++) {
		room_start(NULL);
		open_joined(&pair);
		fail_a_post(unknown[i], 0);
		submit_over(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 4096, 4096);
		assert_charged_until_destroyed(&pair, 2);
	}
}

/*
 * The rest is proven not to have been taken, and nothing is charged for it: with the first WR there
 * was no effect, with the second the payload may have arrived.
 */
static void a_post_that_fails_and_names_which(void **state)
{
	struct otte_task task;
	struct pair pair;
	unsigned accepted;

	(void)state;
	for (accepted = 0; accepted < 2; accepted++) {
		room_start(NULL);
		open_joined(&pair);
		fail_a_post(SIM_BAD_WR_EXACT, accepted);
		task = run(&pair, OTTE_WRITE, 4096, 4096);
		assert_int_equal(task.code, -ECONNRESET);
		assert_int_equal(task.remote_effect,
				 accepted ? OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE);
		assert_int_equal(task.locally_drained, 1);
		assert_int_equal(is_taken(pair.local_mem, 4096, 4096), false);
		assert_true(comes(works_by_rdma, &pair));
		assert_int_equal(pair_stats(pair.source).loans, 0);
		pair_close(&pair);
	}
}

static void a_completion_that_is_lost(void **state)
{
	struct pair pair;

	(void)state;
	open_joined(&pair);
	strike(SIM_FAULT_CQE_LOST, nics[REQUESTER][0], 0);
	submit_over(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 4096, 4096);
	assert_charged_until_destroyed(&pair, 1);
}

/* It discharges nothing: what it is of was heard of, and what comes behind it was not. */
static void a_completion_that_comes_twice(void **state)
{
	const struct sim_fault lost = {
		.kind = SIM_FAULT_CQE_LOST,
		.target = nics[REQUESTER][0],
		.times = 1,
		.after = 1,
	};
	struct pair pair;

	(void)state;
	open_joined(&pair);
	strike(SIM_FAULT_CQE_TWICE, nics[REQUESTER][0], 0);
	sim_fault_arm(&lost);
	submit_over(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 4096, 4096);
	assert_charged_until_destroyed(&pair, 1);
}

static void a_completion_of_another_work_request(void **state)
{
	struct pair pair;

	(void)state;
	open_joined(&pair);
	strike(SIM_FAULT_CQE_WR_ID, nics[REQUESTER][0], 1ull << 40);
	submit_over(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 4096, 4096);
	assert_charged_until_destroyed(&pair, 1);
}

/* Nobody's: so all on the lane are fenced, as the charge of one of them would never end. */
static void a_completion_of_another_queue_pair(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_slow_destruction);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	assert_int_equal(run(&pair, OTTE_WRITE, 0, 64).code, 0);
	assert_int_equal(pair_stats(pair.requester).rdma_qps, 2);
	strike(SIM_FAULT_CQE_QPN, nics[REQUESTER][0], 0x800000);
	submit_over(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 4096, 4096);
	assert_charged_until_destroyed(&pair, 1);
}

static bool has_one_loan(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).loans == 1;
}

/*
 * At the source, of its bind: the loan stands until its queue pair is destroyed, and is then over
 * as REVOKED.
 */
static void a_completion_that_is_lost_at_the_source(void **state)
{
	struct pair pair;

	(void)state;
	open_joined(&pair);
	strike(SIM_FAULT_CQE_LOST, nics[SOURCE][0], 0);
	submit_over(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 4096, 4096);
	assert_true(comes(has_one_loan, &pair));
	assert_true(is_taken(pair.remote_mem, 4096, 4096));
	usleep(1400000); /* the pair is closed, and not destroyed */
	assert_int_equal(pair_stats(pair.source).loans, 1);
	assert_true(is_taken(pair.remote_mem, 4096, 4096));
	assert_int_equal(charged(SOURCE), 1);
	wait_task(&pair);
	assert_true(comes(is_unconnected, &pair));
	assert_int_equal(is_taken(pair.remote_mem, 4096, 4096), false);
	assert_true(comes(works_by_rdma, &pair));
	assert_int_equal(pair_stats(pair.source).retained, 0);
	pair_close(&pair);
}

/* ---- What cannot be destroyed ---- */

static bool has_both_records(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->requester).retained >= 2;
}

/*
 * Its range, and the pair: recorded, and never tried again. Everything else goes on over another
 * one.
 */
static void keep_a_queue_pair(void)
{
	struct otte_stats stats;
	struct otte_task task;
	struct pair pair;
	unsigned id;

	pair_open(&pair, SIZE, use_rdma);
	MUST(read_by_rdma(&pair, 0) == 0);
	id = fail_call(SIM_DESTROY_QP, nics[REQUESTER][0], 1);
	strike(SIM_FAULT_CQE_LOST, nics[REQUESTER][0], 0);
	task = run(&pair, OTTE_READ, 4096, 4096);
	MUST(task.code == -EUCLEAN && !task.locally_drained);
	MUST(comes(has_both_records, &pair));
	stats = pair_stats(pair.requester);
	MUST(stats.retained_bytes >= 4096);
	MUST(stats.rdma_qps == 1);
	MUST(is_taken(pair.local_mem, 4096, 4096));
	MUST(comes(works_by_rdma, &pair));
	MUST(is_taken(pair.local_mem, 4096, 4096));
	MUST(sim_fault_hits(id) == 1);
	MUST(pair_stats(pair.requester).rdma_qps == 2);
	MUST(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, SECOND, NULL) == -EUCLEAN);
}

static void a_queue_pair_that_cannot_be_destroyed(void **state)
{
	(void)state;
	in_its_own_process(keep_a_queue_pair);
}

/* The region is gone, and its memory is not to be freed. */
static void keep_an_mr(void)
{
	struct otte_stats stats;
	struct pair pair;

	pair_open(&pair, SIZE, use_rdma);
	MUST(read_by_rdma(&pair, 0) == 0);
	fail_call(SIM_DEREG_MR, nics[REQUESTER][0], 1);
	MUST(otte_region_unregister(&pair.local, 1, SECOND, NULL) == 0);
	stats = pair_stats(pair.requester);
	MUST(stats.retained == 1 && stats.retained_bytes == SIZE);
	MUST(stats.rdma_mrs == 1 && stats.rdma_mr_bytes == SIZE);
	MUST(otte_mem_release(pair.local_mem) == -EBUSY);
	/* It would go well now, and is not tried. */
	MUST(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, SECOND, NULL) == -EUCLEAN);
	MUST(pair_stats(pair.requester).rdma_mrs == 1);
}

static void an_mr_that_cannot_be_deregistered(void **state)
{
	(void)state;
	in_its_own_process(keep_an_mr);
}

/* Its range stays lent: a key may still open it. Others are granted over another pair. */
static void keep_a_window(void)
{
	struct pair pair;

	pair_open(&pair, SIZE, use_rdma);
	MUST(read_by_rdma(&pair, 0) == 0);
	fail_call(SIM_DEALLOC_MW, nics[SOURCE][0], 1000);
	strike(SIM_FAULT_CQE_LOST, nics[REQUESTER][0], 0);
	sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], false);
	run(&pair, OTTE_READ, 4096, 4096);
	sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], true);
	MUST(comes(is_retained, &pair));
	MUST(pair_stats(pair.source).loans == 1);
	MUST(is_taken(pair.remote_mem, 4096, 4096));
	MUST(comes(works_by_rdma, &pair));
	MUST(is_taken(pair.remote_mem, 4096, 4096));
	MUST(pair_stats(pair.source).loans == 1);
	MUST(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, SECOND, NULL) == -EUCLEAN);
}

static void a_window_that_cannot_be_freed(void **state)
{
	(void)state;
	in_its_own_process(keep_a_window);
}

/* Recorded; its NIC goes on with others. */
static void keep_completion_queues(void)
{
	struct pair pair;

	pair_open(&pair, SIZE, use_rdma);
	MUST(read_by_rdma(&pair, 0) == 0);
	fail_call(SIM_DESTROY_CQ, nics[REQUESTER][0], 1);
	strike(SIM_FAULT_CQE_LOST, nics[REQUESTER][0], 0);
	MUST(read_by_rdma(&pair, 4096) == -ECONNRESET);
	MUST(comes(is_retained, &pair));
	MUST(!is_taken(pair.local_mem, 4096, 4096));
	MUST(comes(works_by_rdma, &pair));
	MUST(pair_stats(pair.requester).retained == 1);
	MUST(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, SECOND, NULL) == -EUCLEAN);
}

static void completion_queues_that_cannot_be_destroyed(void **state)
{
	(void)state;
	in_its_own_process(keep_completion_queues);
}

int run_matrix_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_post_that_fails_and_names_nothing, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_post_that_fails_and_names_which, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_completion_that_is_lost, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_completion_that_comes_twice, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_completion_of_another_work_request, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_completion_of_another_queue_pair, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_completion_that_is_lost_at_the_source, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_queue_pair_that_cannot_be_destroyed, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(an_mr_that_cannot_be_deregistered, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_window_that_cannot_be_freed, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(completion_queues_that_cannot_be_destroyed,
						room_start, nothing_is_left),
	};

	return cmocka_run_group_tests_name("matrix", tests, NULL, NULL);
}
