/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NICs that never tell of what was posted: how long that is put up with, and what comes of it. The
 * clock stands, and is moved by the test alone.
 */
#include "room.h"

#include "base/clock.h"
#include "transport/rdma/rdma.h"

#define STALL_NS (NSEC_PER_SEC / 10)
#define DESTRUCTION_NS (NSEC_PER_SEC / 10) /* use_rdma() */
#define LENGTH 4096
#define MANY 6

static uint64_t clock_ns;

static void stop_clock(void)
{
	clock_ns = otte_now_ns();
	otte_clock_fake(clock_ns);
}

static void pass(uint64_t ns)
{
	clock_ns += ns;
	otte_clock_fake(clock_ns);
}

static int start(void **state)
{
	room_start(state);
	stop_clock();
	return 0;
}

static int end(void **state)
{
	otte_clock_fake(0);
	return nothing_is_left(state);
}

/* Nothing else ends anything within a test's time. */
static void use_derived(struct otte_config *config)
{
	use_rdma(config);
	config->default_deadline_ns = 0;
	config->retry_budget = 1;
	config->rdma_pairs = 1;
}

static void use_stall(struct otte_config *config)
{
	use_derived(config);
	config->rdma_stall_ns = STALL_NS;
}

/* 8 us, and no second time. */
static void use_short_timeout(struct otte_config *config)
{
	use_derived(config);
	config->rdma_qp_timeout = 1;
	config->rdma_qp_retries = 0;
}

/* ---- What the requester does ---- */

struct rounds {
	struct otte_rdma *rdma;
	uint64_t until;
};

static bool have_passed(void *arg)
{
	const struct rounds *rounds = arg;

	return atomic_load(&rounds->rdma->workers[0].rounds) >= rounds->until;
}

/* Its thread has looked at everything, by the clock of now. */
static void look(const struct pair *pair)
{
	struct otte_rdma *rdma = container_of(pair->requester->transport, struct otte_rdma, base);
	struct rounds rounds = { .rdma = rdma, .until = atomic_load(&rdma->workers[0].rounds) + 2 };

	assert_true(comes(have_passed, &rounds));
}

static struct otte_request request_by(const struct pair *pair, uint8_t op, uint8_t lease,
				      unsigned place)
{
	/* Not side by side, so that no two are merged. */
	struct otte_request request =
		request_over(pair, op, OTTE_TRANSPORT_ANY, 2ull * place * LENGTH, LENGTH);

	request.lease = lease;
	return request;
}

static void submit_by(struct pair *pair, uint8_t op, uint8_t lease, unsigned place)
{
	const struct otte_request request = request_by(pair, op, lease, place);

	OK(otte_batch_submit(pair->batch, &request, 1));
}

static unsigned finished(const struct pair *pair)
{
	struct otte_batch_status status;

	OK(otte_batch_poll(pair->batch, &status));
	return status.finished;
}

static bool all_finished(void *arg)
{
	struct otte_batch_status status;
	struct pair *pair = arg;

	OK(otte_batch_poll(pair->batch, &status));
	return status.finished == status.submitted;
}

struct progress {
	struct pair *pair;
	unsigned finished;
};

static bool has_come_to(void *arg)
{
	const struct progress *progress = arg;

	return finished(progress->pair) == progress->finished;
}

static bool has_failed(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->requester).rdma_rail_errors == 1;
}

static bool is_posted(void *arg)
{
	const unsigned *wrs = arg;

	return sim_counts(nics[REQUESTER][0]).wrs >= *wrs;
}

/* There is a pair, and what is leased is: a request went well. */
static void open_by(struct pair *pair, uint8_t op, uint8_t lease,
		    void (*adjust)(struct otte_config *config))
{
	struct otte_region_info rows[4];
	size_t count;

	pair_open(pair, SIZE, adjust);
	pair_fill(pair->remote_bytes, SIZE, 3);
	OK(otte_segment_describe(pair->segment, 30 * SECOND, rows, 4, &count));
	submit_by(pair, op, lease, MANY);
	assert_true(comes(all_finished, pair));
	assert_int_equal(task_of(pair, 0).code, 0);
	OK(otte_batch_reset(pair->batch));
}

static void reset_clock_and_close(struct pair *pair)
{
	otte_clock_fake(0);
	pair_close(pair);
}

/* ---- The limit ---- */

/* Of the requester, from here on. */
static unsigned lose_completions(void)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CQE_LOST,
		.target = nics[REQUESTER][0],
	};

	return sim_fault_arm(&fault);
}

static bool has_struck(void *arg)
{
	const unsigned *id = arg;

	return sim_fault_hits(*id) > 0;
}

/* Its pair is not closed before, and is then; what was on it ends as with any loss. */
static void give_up_behind(uint8_t op, uint8_t lease, void (*adjust)(struct otte_config *config),
			   uint64_t limit_ns, uint64_t more_ns)
{
	struct otte_task task;
	struct pair pair;
	unsigned id;

	open_by(&pair, op, lease, adjust);
	pass(limit_ns + more_ns); /* it is idle, which is no stall */
	id = lose_completions();
	submit_by(&pair, op, lease, 0);
	assert_true(comes(has_struck, &id));
	look(&pair);
	pass(limit_ns);
	look(&pair);
	assert_int_equal(pair_stats(pair.requester).rdma_rail_errors, 0);
	assert_int_equal(finished(&pair), 0);
	pass(more_ns);
	assert_true(comes(has_failed, &pair));
	/* Its WRs are never told of: their time is over with the queue pair. */
	assert_int_equal(finished(&pair), 0);
	sim_fault_disarm(id);
	pass(DESTRUCTION_NS);
	assert_true(comes(all_finished, &pair));
	task = task_of(&pair, 0);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(task.code, op == OTTE_READ ? 0 : -ECONNRESET);
	assert_int_equal(task.remote_effect,
			 op == OTTE_READ ? OTTE_EFFECT_NONE : OTTE_EFFECT_UNKNOWN);
	assert_int_equal(pair_stats(pair.requester).retries, op == OTTE_READ);
	if (op == OTTE_READ)
		assert_memory_equal(pair.local_bytes, pair.remote_bytes, LENGTH);
	assert_int_equal(pair_stats(pair.requester).retained, 0);
	reset_clock_and_close(&pair);
}

static void what_is_granted_and_never_completes(void **state)
{
	(void)state;
	give_up_behind(OTTE_READ, OTTE_LEASE_OFF, use_stall, STALL_NS, 1);
	start(NULL);
	give_up_behind(OTTE_WRITE, OTTE_LEASE_OFF, use_stall, STALL_NS, 1);
}

static void what_goes_by_a_lease_and_never_completes(void **state)
{
	(void)state;
	give_up_behind(OTTE_READ, OTTE_LEASE_REGION, use_stall, STALL_NS, 1);
	start(NULL);
	give_up_behind(OTTE_WRITE, OTTE_LEASE_REGION, use_stall, STALL_NS, 1);
}

/*
 * Four times what the NIC is told to take, and a second at least. It has 100 Gb/s, of a tenth of
 * which 4 KiB are 3.3 us.
 */
static void by_default_as_its_timeout_allows(void **state)
{
	const uint64_t period_ns = 4096ull << 14, slow_ns = 10ull * LENGTH * 8 / 100;

	(void)state;
	give_up_behind(OTTE_READ, OTTE_LEASE_OFF, use_derived, 4 * 8 * period_ns + slow_ns - 1, 2);
	start(NULL);
	give_up_behind(OTTE_READ, OTTE_LEASE_OFF, use_short_timeout,
		       NSEC_PER_SEC + slow_ns - 1, 2);
}

/* ---- What goes on ---- */

static void post_many(struct pair *pair, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++)
		submit_by(pair, OTTE_READ, OTTE_LEASE_REGION, i);
	assert_true(comes(is_posted, &count));
	look(pair);
}

/* One completes each time that the limit is just not over: all of it takes many times as long. */
static void a_long_queue_that_goes_on_is_none(void **state)
{
	struct progress progress;
	struct pair pair;
	unsigned i;

	(void)state;
	progress.pair = &pair;
	open_by(&pair, OTTE_READ, OTTE_LEASE_REGION, use_stall);
	sim_progress_set(SIM_STEPPED, 0);
	post_many(&pair, MANY);
	for (i = 0; i < MANY; i++) {
		pass(STALL_NS);
		look(&pair);
		assert_true(sim_step());
		progress.finished = i + 1;
		assert_true(comes(has_come_to, &progress));
	}
	assert_int_equal(pair_stats(pair.requester).rdma_rail_errors, 0);
	sim_progress_set(SIM_INLINE, 0);
	reset_clock_and_close(&pair);
}

/* What is posted behind it is no sign of life. */
static void more_requests_do_not_put_it_off(void **state)
{
	struct pair pair;

	(void)state;
	open_by(&pair, OTTE_READ, OTTE_LEASE_REGION, use_stall);
	sim_progress_set(SIM_STEPPED, 0);
	post_many(&pair, 1);
	pass(STALL_NS);
	submit_by(&pair, OTTE_READ, OTTE_LEASE_REGION, 1);
	assert_true(comes(is_posted, &(unsigned){ 2 }));
	look(&pair);
	assert_int_equal(pair_stats(pair.requester).rdma_rail_errors, 0);
	pass(1);
	assert_true(comes(has_failed, &pair));
	sim_progress_set(SIM_INLINE, 0);
	sim_drain();
	assert_true(comes(all_finished, &pair));
	assert_int_equal(task_of(&pair, 0).code, 0);
	assert_int_equal(task_of(&pair, 1).code, 0);
	reset_clock_and_close(&pair);
}

int run_stall_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_granted_and_never_completes, start, end),
		cmocka_unit_test_setup_teardown(what_goes_by_a_lease_and_never_completes, start,
						end),
		cmocka_unit_test_setup_teardown(by_default_as_its_timeout_allows, start, end),
		cmocka_unit_test_setup_teardown(a_long_queue_that_goes_on_is_none, start, end),
		cmocka_unit_test_setup_teardown(more_requests_do_not_put_it_off, start, end),
	};

	return cmocka_run_group_tests_name("stalls", tests, NULL, NULL);
}
