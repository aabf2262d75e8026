/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two engines with two simulated NICs each: what is shared between them, what moves over to the
 * other one when one fails, who is not tried any more, and who is tried again.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/util.h"
#include "room.h"
#include "seen.h"
#include "transport/rdma/endpoint.h"

/* ---- What is wrapped ---- */

/* A rail whose queue pairs have no room; and turns for bytes that were given up while they waited. */
static _Atomic bool second_is_full;
static _Atomic unsigned turns_left;

int __real_otte_rdma_endpoint_pick(struct otte_rdma_endpoint *endpoint, uint64_t now_ns,
				   struct otte_rdma_pair **out);
int __wrap_otte_rdma_endpoint_pick(struct otte_rdma_endpoint *endpoint, uint64_t now_ns,
				   struct otte_rdma_pair **out);

int __wrap_otte_rdma_endpoint_pick(struct otte_rdma_endpoint *endpoint, uint64_t now_ns,
				   struct otte_rdma_pair **out)
{
	if (atomic_load(&second_is_full) && endpoint->nic == 1)
		return 1;
	return __real_otte_rdma_endpoint_pick(endpoint, now_ns, out);
}

void __real_otte_rdma_budget_leave(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn);
void __wrap_otte_rdma_budget_leave(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn);

void __wrap_otte_rdma_budget_leave(struct otte_rdma_budget *budget, struct otte_rdma_turn *turn)
{
	atomic_fetch_add(&turns_left, turn->queued);
	__real_otte_rdma_budget_leave(budget, turn);
}

/* ---- What is shared ---- */

static void move_sizes(uint8_t op, void (*adjust)(struct otte_config *config), bool halves)
{
	static const uint64_t sizes[] = { 1, 17, 4095, 65536, 131072, (1u << 20) + 3, 64u << 20 };
	uint64_t before[RAILS];
	struct otte_task task;
	struct pair pair;
	unsigned i, rail;

	pair_open(&pair, (64u << 20) + 4 * GUARD, adjust);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (rail = 0; rail < RAILS; rail++)
			before[rail] = carried(op, rail);
		task = move(&pair, op, OTTE_TRANSPORT_RDMA, sizes[i], (uint8_t)(i + 1));
		assert_int_equal(task.code, 0);
		assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
		assert_arrived(&pair, op, sizes[i]);
		assert_int_equal(carried(op, 0) + carried(op, 1) - before[0] - before[1], sizes[i]);
		for (rail = 0; rail < RAILS; rail++)
			if (halves && sizes[i] >= 2u << 16)
				assert_true(carried(op, rail) > before[rail]);
	}
	assert_int_equal(pair_stats(pair.requester).rdma_rail_errors, 0);
	/* Of each rail, and one direction, as few as do. */
	assert_true(pair_stats(pair.requester).rdma_qps <= 2 * RAILS);
	pair_close(&pair);
}

static void two_rails_carry_every_length(void **state)
{
	(void)state;
	move_sizes(OTTE_READ, use_rdma, true);
	move_sizes(OTTE_WRITE, use_rdma, true);
	move_sizes(OTTE_READ, use_selection, false);
	move_sizes(OTTE_WRITE, use_selection, false);
}

/* 64 KiB are one slice, and each slice a grant. */
static void a_short_request_is_not_cut(void **state)
{
	struct otte_stats stats;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(run(&pair, OTTE_READ, 0, 65536).code, 0);
	assert_int_equal(pair_stats(pair.requester).rdma_slices, 1);
	assert_int_equal(run(&pair, OTTE_READ, 0, 131072).code, 0);
	assert_int_equal(pair_stats(pair.requester).rdma_slices, 3);
	assert_int_equal(run(&pair, OTTE_READ, 0, 1u << 20).code, 0);
	stats = pair_stats(pair.requester);
	assert_int_equal(stats.rdma_slices, 3 + 4 * RAILS);
	assert_int_equal(pair_stats(pair.source).rdma_grants, stats.rdma_slices);
	pair_close(&pair);
}

/*
 * The second NIC has a quarter of the first one's rate: 8 slices go 6 and 1, and the one that is
 * left to the best.
 */
static void the_faster_rail_gets_more(void **state)
{
	struct pair pair;

	(void)state;
	ours[0]->ports[0].port_speed = 1000;
	ours[1]->ports[0].port_speed = 250;
	pair_open(&pair, SIZE, use_selection);
	assert_int_equal(run(&pair, OTTE_READ, 0, 1u << 20).code, 0);
	assert_int_equal(carried(OTTE_READ, 0), 7u << 17);
	assert_int_equal(carried(OTTE_READ, 1), 1u << 17);
	pair_close(&pair);
}

static void without_selection_they_take_turns(void **state)
{
	struct pair pair;

	(void)state;
	ours[0]->ports[0].port_speed = 1000;
	ours[1]->ports[0].port_speed = 250;
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(run(&pair, OTTE_READ, 0, 1u << 20).code, 0);
	assert_int_equal(carried(OTTE_READ, 0), 1u << 19);
	assert_int_equal(carried(OTTE_READ, 1), 1u << 19);
	pair_close(&pair);
}

static void use_log(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_log_slice_affinity = 1;
}

static _Atomic unsigned said[RAILS];

static void count_slices(void *arg, enum otte_log_level level, const char *line)
{
	struct otte_rdma_gid gid = {};
	char text[128], address[OTTE_RDMA_GID_TEXT];
	unsigned rail;

	(void)arg;
	for (rail = 0; rail < RAILS; rail++) {
		memcpy(gid.bytes, theirs[rail]->ports[0].gids[1].gid.raw, sizeof(gid.bytes));
		snprintf(text, sizeof(text),
			 "slice of 131072 bytes: NIC %u (mlx5_%u port 1) to NIC %u (%s) of peer ",
			 rail, rail, rail, otte_rdma_gid_text(&gid, address));
		if (level == OTTE_LOG_DEBUG && strstr(line, text))
			atomic_fetch_add(&said[rail], 1);
	}
}

static void where_each_slice_goes_can_be_logged(void **state)
{
	struct pair pair;
	unsigned rail;

	(void)state;
	for (rail = 0; rail < RAILS; rail++)
		atomic_store(&said[rail], 0);
	pair_open(&pair, SIZE, use_log);
	OK(otte_log_set(count_slices, NULL, OTTE_LOG_DEBUG));
	assert_int_equal(run(&pair, OTTE_READ, 0, 1u << 20).code, 0);
	OK(otte_log_set(NULL, NULL, OTTE_LOG_WARNING));
	for (rail = 0; rail < RAILS; rail++)
		assert_int_equal(atomic_load(&said[rail]), 4);
	pair_close(&pair);
}

/* ---- All of a request or nothing ---- */

static void use_ten_grants(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_grants = 10;
}

/*
 * Two requests of 8 slices each at a time; the places are fewer than both want, and enough for
 * each.
 */
static void requests_that_want_more_than_half_end_both(void **state)
{
	struct otte_request requests[16];
	struct otte_task task;
	struct pair pair;
	unsigned round, i;

	(void)state;
	pair_open(&pair, 16u << 20, use_ten_grants);
	pair_fill(pair.remote_bytes, pair.size, 5);
	for (i = 0; i < 16; i++) /* backwards, so that no two are merged */
		requests[i] = request_over(&pair, OTTE_READ, OTTE_TRANSPORT_RDMA, (15ull - i) << 20,
					(1u << 20) - 7);
	for (round = 0; round < 4; round++) {
		OK(otte_batch_reset(pair.batch));
		OK(otte_batch_submit(pair.batch, requests, 16));
		OK(otte_batch_wait(pair.batch, 30 * SECOND));
		for (i = 0; i < 16; i++) {
			OK(otte_batch_task(pair.batch, i, &task));
			assert_int_equal(task.code, 0);
			assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
		}
	}
	for (i = 0; i < 16; i++)
		assert_memory_equal(pair.local_bytes + ((uint64_t)i << 20),
				    pair.remote_bytes + ((uint64_t)i << 20), (1u << 20) - 7);
	assert_int_equal(pair_stats(pair.source).bad_frames, 0);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	pair_close(&pair);
}

static void use_one_grant(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_grants = 1;
}

/* No slice is longer than 64 MiB, and no parent may have two: one after the other. */
static void what_one_grant_cannot_hold_goes_in_stretches(void **state)
{
	const uint64_t length = (64u << 20) + 70000;
	struct pair pair;

	(void)state;
	pair_open(&pair, length + 2 * GUARD, use_one_grant);
	assert_int_equal(move(&pair, OTTE_READ, OTTE_TRANSPORT_RDMA, length, 2).code, 0);
	assert_arrived(&pair, OTTE_READ, length);
	assert_int_equal(move(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, length, 3).code, 0);
	assert_arrived(&pair, OTTE_WRITE, length);
	assert_int_equal(pair_stats(pair.source).rdma_grants, 4);
	pair_close(&pair);
}

/* ---- A rail that is lost ---- */

static void connect_both(struct pair *pair, uint8_t op)
{
	assert_int_equal(run(pair, op, 0, SIZE).code, 0);
	assert_true(carried(op, 0) && carried(op, 1));
}

static void use_no_trials(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_rail_probe_interval_ns = 3600 * NSEC_PER_SEC;
	config->reconnect_min_ns = config->reconnect_max_ns = 3600 * NSEC_PER_SEC;
}

/* Silently, with its slices under way: they are drained, and go on over the other one. */
static void lose_a_rail_under_a_read(void (*adjust)(struct otte_config *config))
{
	struct otte_stats stats;
	struct otte_task task;
	struct pair pair;

	pair_open(&pair, SIZE, adjust);
	connect_both(&pair, OTTE_READ);
	sim_retry_set(SIM_BY_CLOCK);
	sim_progress_set(SIM_THREAD, 0);
	sim_link_set(ours[1], theirs[1], false);
	task = move(&pair, OTTE_READ, OTTE_TRANSPORT_RDMA, (1u << 20) + 3, 7);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
	assert_arrived(&pair, OTTE_READ, (1u << 20) + 3);
	stats = pair_stats(pair.requester);
	assert_true(stats.rdma_slices_moved > 0);
	assert_int_equal(stats.retries, stats.rdma_slices_moved);
	assert_true(stats.rdma_rail_errors > 0);
	assert_int_equal(stats.retained, 0);
	pair_close(&pair);
}

static void a_read_moves_to_the_other_rail(void **state)
{
	(void)state;
	lose_a_rail_under_a_read(use_no_trials);
}

/* NICs that go on for hours, and tell of nothing. */
static void use_nics_that_never_give_up(struct otte_config *config)
{
	use_no_trials(config);
	config->rdma_qp_timeout = 31;
	config->rdma_stall_ns = 100 * NSEC_PER_MSEC;
}

static void a_read_moves_though_its_nic_never_gives_up(void **state)
{
	(void)state;
	lose_a_rail_under_a_read(use_nics_that_never_give_up);
}

static void use_no_retries(struct otte_config *config)
{
	use_no_trials(config);
	config->retry_budget = 0;
}

/* What has been posted is lost with its rail, then: nobody tries again. */
static void without_a_budget_a_read_ends(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_no_retries);
	connect_both(&pair, OTTE_READ);
	sim_retry_set(SIM_BY_CLOCK);
	sim_progress_set(SIM_THREAD, 0);
	sim_link_set(ours[1], theirs[1], false);
	task = move(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 1u << 20, 7);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(pair_stats(pair.requester).rdma_slices_moved, 0);
	pair_close(&pair);
}

/* Nobody knows what of it has reached the peer, and it is not sent again. */
static void a_write_ends_with_its_rail(void **state)
{
	uint64_t before;
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_no_trials);
	connect_both(&pair, OTTE_WRITE);
	sim_retry_set(SIM_BY_CLOCK);
	sim_progress_set(SIM_THREAD, 0);
	sim_link_set(ours[1], theirs[1], false);
	before = carried(OTTE_WRITE, 0);
	task = move(&pair, OTTE_WRITE, OTTE_TRANSPORT_ANY, 1u << 20, 7);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
	/* Its share, and nothing of the other one's. */
	assert_int_equal(carried(OTTE_WRITE, 0) - before, 1u << 19);
	assert_int_equal(pair_stats(pair.requester).rdma_slices_moved, 0);
	/* Until the source has taken back what was granted there the range is busy. */
	assert_true(comes(is_drained, &pair));
	/* What comes now goes where nothing has failed. */
	task = move(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 1u << 20, 9);
	assert_int_equal(task.code, 0);
	assert_arrived(&pair, OTTE_WRITE, 1u << 20);
	assert_int_equal(carried(OTTE_WRITE, 0) - before, 3u << 19);
	pair_close(&pair);
}

static void use_pauses(struct otte_config *config)
{
	use_no_trials(config);
	config->rdma_rail_topology = OTTE_RAIL_DIRECT;
	config->rdma_rail_error_threshold = 1;
	config->rdma_rail_cooldown_ns = 3600 * NSEC_PER_SEC;
}

static unsigned refuse_pairs(unsigned rail)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = SIM_CREATE_QP,
		.target = theirs[rail],
		.error = EINVAL,
	};

	return sim_fault_arm(&fault);
}

/*
 * Nothing was posted on the rail that makes no queue pair: a WRITE goes on like a READ, and is
 * whole.
 */
static void what_was_not_posted_moves(void **state)
{
	struct otte_stats stats;
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_pauses);
	refuse_pairs(1);
	task = move(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 1u << 20, 3);
	assert_int_equal(task.code, 0);
	assert_arrived(&pair, OTTE_WRITE, 1u << 20);
	assert_int_equal(carried(OTTE_WRITE, 0), 1u << 20);
	stats = pair_stats(pair.requester);
	assert_int_equal(stats.retries, 0);
	assert_int_equal(stats.rdma_rail_errors, 1);
	pair_close(&pair);
}

static void use_long_retries(struct otte_config *config)
{
	use_no_trials(config);
	config->rdma_qp_timeout = 21; /* 8.6 s */
	config->rdma_qp_retries = 7;
}

static bool something_is_posted(void *arg)
{
	return sim_counts(arg).wrs > 0;
}

/* Whose packets are lost, and then its port: nobody waits for the packets. */
static struct otte_task lose_port(struct pair *pair, uint8_t op)
{
	struct otte_request request = request_over(pair, op, OTTE_TRANSPORT_RDMA, GUARD, 1u << 20);
	struct otte_task task;

	connect_both(pair, op);
	sim_retry_set(SIM_BY_CLOCK);
	sim_progress_set(SIM_THREAD, 0);
	sim_link_set(ours[1], theirs[1], false);
	pair_fill(pair->remote_bytes, pair->size, op == OTTE_READ ? 3 : 0);
	pair_fill(pair->local_bytes, pair->size, op == OTTE_READ ? 0 : 3);
	memset(op == OTTE_READ ? pair->local_bytes : pair->remote_bytes, UNTOUCHED, pair->size);
	OK(otte_batch_reset(pair->batch));
	OK(otte_batch_submit(pair->batch, &request, 1));
	assert_true(comes(something_is_posted, ours[1]));
	usleep(50 * WAIT_US);
	OK(otte_batch_task(pair->batch, 0, &task));
	assert_int_equal(task.state, OTTE_TASK_DISPATCHED);
	sim_port_set(ours[1], 1, IBV_PORT_DOWN);
	OK(otte_batch_wait(pair->batch, 30 * SECOND));
	OK(otte_batch_task(pair->batch, 0, &task));
	/* It is no failure of the rail. */
	assert_int_equal(pair_stats(pair->requester).rdma_rail_errors, 0);
	return task;
}

static void a_port_that_goes_takes_no_read_with_it(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_long_retries);
	assert_int_equal(lose_port(&pair, OTTE_READ).code, 0);
	assert_arrived(&pair, OTTE_READ, 1u << 20);
	assert_true(pair_stats(pair.requester).rdma_slices_moved > 0);
	pair_close(&pair);
}

static void a_port_that_goes_ends_a_write(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_long_retries);
	task = lose_port(&pair, OTTE_WRITE);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(task.locally_drained, 1);
	pair_close(&pair);
}

static bool has_all_loans(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).loans == 8;
}

static bool have_moved(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->requester).rdma_slices_moved == 4;
}

/*
 * Its grants are on their way when the port goes: nothing was posted, and the ranges are asked for
 * again, which are busy until the source has taken them back.
 */
static void what_is_only_granted_moves_when_it_is_free(void **state)
{
	struct otte_request request;
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_long_retries);
	connect_both(&pair, OTTE_WRITE);
	pair_fill(pair.local_bytes, pair.size, 6);
	memset(pair.remote_bytes, UNTOUCHED, pair.size);
	sim_progress_set(SIM_STEPPED, 0);
	request = request_over(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, GUARD, 1u << 20);
	OK(otte_batch_reset(pair.batch));
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_true(comes(has_all_loans, &pair));
	sim_port_set(ours[1], 1, IBV_PORT_DOWN);
	assert_true(comes(have_moved, &pair));
	usleep(20 * WAIT_US);
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	OK(otte_batch_task(pair.batch, 0, &task));
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
	assert_arrived(&pair, OTTE_WRITE, 1u << 20);
	assert_int_equal(pair_stats(pair.requester).rdma_slices_moved, 4);
	assert_int_equal(pair_stats(pair.requester).retries, 0);
	pair_close(&pair);
}

static void use_short_patience(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_rail_error_threshold = 1;
}

/* What a peer's NIC refuses says nothing of the way there. */
static void a_refused_access_blames_no_rail(void **state)
{
	struct sim_fault fault = {
		.kind = SIM_FAULT_SEND_STATUS,
		.times = 1,
		.status = IBV_WC_REM_ACCESS_ERR,
	};
	struct otte_stats stats;
	struct pair pair;
	unsigned i, id;

	(void)state;
	pair_open(&pair, SIZE, use_short_patience);
	connect_both(&pair, OTTE_READ);
	for (i = 0; i < 3 * RAILS; i++) {
		fault.target = ours[i % RAILS];
		id = sim_fault_arm(&fault);
		assert_int_equal(
			move(&pair, OTTE_READ, OTTE_TRANSPORT_RDMA, 1u << 20, (uint8_t)i).code, 0);
		assert_arrived(&pair, OTTE_READ, 1u << 20);
		assert_int_equal(sim_fault_hits(id), 1);
		usleep(10 * WAIT_US);
	}
	stats = pair_stats(pair.requester);
	assert_int_equal(stats.rdma_rail_errors, 0);
	assert_int_equal(stats.rdma_rails_paused, 0);
	assert_true(stats.rdma_slices_moved >= 3 * RAILS);
	pair_close(&pair);
}

/* ---- Who is paused, and comes back ---- */

static void use_quick_trials(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_rail_topology = OTTE_RAIL_DIRECT;
	config->rdma_rail_error_threshold = 1;
	config->rdma_rail_cooldown_ns = 50000000;
	config->rdma_rail_probe_interval_ns = 10000000;
}

struct recovery {
	struct pair *pair;
	uint64_t from;
};

static bool carries_again(void *arg)
{
	struct recovery *recovery = arg;

	assert_int_equal(run(recovery->pair, OTTE_READ, 0, 1u << 20).code, 0);
	return carried(OTTE_READ, 1) > recovery->from;
}

static void a_rail_that_is_well_again_carries_again(void **state)
{
	struct recovery recovery;
	struct otte_stats stats;
	uint64_t began_ns;
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_quick_trials);
	connect_both(&pair, OTTE_READ);
	sim_link_set(ours[1], theirs[1], false);
	began_ns = otte_now_ns();
	assert_int_equal(run(&pair, OTTE_READ, 0, 1u << 20).code, 0);
	assert_int_equal(pair_stats(pair.requester).rdma_rails_paused, 1);
	recovery = (struct recovery){ .pair = &pair, .from = carried(OTTE_READ, 1) };
	/* Trials fail, and no request with them. */
	for (i = 0; i < 100; i++) {
		assert_int_equal(run(&pair, OTTE_READ, 0, 1u << 20).code, 0);
		assert_int_equal(run(&pair, OTTE_WRITE, 0, 1u << 20).code, 0);
		usleep(WAIT_US);
	}
	stats = pair_stats(pair.requester);
	assert_int_equal(stats.rdma_rails_paused, 1);
	assert_int_equal(stats.rdma_rail_recoveries, 0);
	assert_in_range(stats.rdma_rail_probes, 2, (otte_now_ns() - began_ns) / 10000000);
	assert_int_equal(carried(OTTE_READ, 1), recovery.from);
	sim_link_set(ours[1], theirs[1], true);
	assert_true(comes(carries_again, &recovery));
	stats = pair_stats(pair.requester);
	assert_int_equal(stats.rdma_rails_paused, 0);
	assert_int_equal(stats.rdma_rail_recoveries, 1);
	pair_close(&pair);
}

static void use_patience(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_rail_topology = OTTE_RAIL_DIRECT;
	config->rdma_rail_error_threshold = 16;
}

/*
 * It is not paused, and pairs are made again soon: what is sent there meanwhile belongs to no
 * request.
 */
static void what_has_failed_once_carries_no_request(void **state)
{
	struct otte_stats stats;
	struct otte_task task;
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_patience);
	connect_both(&pair, OTTE_WRITE);
	sim_link_set(ours[1], theirs[1], false);
	assert_int_equal(run_over(&pair, OTTE_WRITE, OTTE_TRANSPORT_ANY, 0, 1u << 20).code,
			 -ECONNRESET);
	assert_true(comes(is_drained, &pair));
	for (i = 0; i < 10; i++) {
		usleep(10 * WAIT_US);
		task = move(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 1u << 20, (uint8_t)i);
		assert_int_equal(task.code, 0);
		assert_arrived(&pair, OTTE_WRITE, 1u << 20);
	}
	stats = pair_stats(pair.requester);
	assert_true(stats.rdma_rail_errors > 2);
	assert_int_equal(stats.rdma_rails_paused, 0);
	pair_close(&pair);
}

static void where_no_rail_is_left_nothing_is_sent(void **state)
{
	unsigned long posted;
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_pauses);
	connect_both(&pair, OTTE_WRITE);
	sim_link_set(ours[0], theirs[0], false);
	sim_link_set(ours[1], theirs[1], false);
	assert_int_equal(run(&pair, OTTE_WRITE, 0, 1u << 20).code,
			 -ECONNRESET);
	assert_int_equal(pair_stats(pair.requester).rdma_rails_paused, 2);
	posted = sim_calls(SIM_POST_SEND);
	task = run(&pair, OTTE_WRITE, 0, 1u << 20);
	assert_int_equal(task.code, -ENETUNREACH);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	task = move(&pair, OTTE_WRITE, OTTE_TRANSPORT_ANY, 1u << 20, 4);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	assert_arrived(&pair, OTTE_WRITE, 1u << 20);
	assert_int_equal(sim_calls(SIM_POST_SEND), posted);
	pair_close(&pair);
}

/* ---- NICs that are not like ---- */

/*
 * The source's first NIC has no port: ours of that place is left with the source's second one, of
 * another network.
 */
static void leave_one_alone(void)
{
	theirs[0]->ports[0].attr.state = IBV_PORT_DOWN;
}

static void use_direct(struct otte_config *config)
{
	use_no_trials(config);
	config->rdma_rail_topology = OTTE_RAIL_DIRECT;
}

static void direct_never_tries_what_is_not_like(void **state)
{
	struct otte_stats stats;
	struct pair pair;
	unsigned i;

	(void)state;
	leave_one_alone();
	pair_open(&pair, SIZE, use_direct);
	for (i = 0; i < 10; i++) {
		assert_int_equal(
			move(&pair, OTTE_READ, OTTE_TRANSPORT_RDMA, 1u << 20, (uint8_t)i).code, 0);
		assert_arrived(&pair, OTTE_READ, 1u << 20);
	}
	stats = pair_stats(pair.requester);
	assert_int_equal(stats.rdma_rail_errors, 0);
	assert_int_equal(stats.rdma_slices, 10);
	assert_int_equal(sim_counts(ours[0]).qps, 0);
	pair_close(&pair);
}

static void direct_without_a_like_one_is_no_rail(void **state)
{
	struct pair pair;

	(void)state;
	leave_one_alone();
	ours[1]->ports[0].attr.state = IBV_PORT_DOWN;
	pair_open(&pair, SIZE, use_direct);
	assert_int_equal(run(&pair, OTTE_READ, 0, 4096).code, -ENETUNREACH);
	assert_int_equal(run_over(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 4096).transport,
			 OTTE_TRANSPORT_TCP);
	assert_int_equal(sim_counts(NULL).qps, 0);
	pair_close(&pair);
}

static bool has_failed_once(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->requester).rdma_rail_errors == 1;
}

/* It is tried once, beside the requests, which wait for nothing; and then it is paused. */
static void all_tries_what_is_not_like_once(void **state)
{
	struct otte_stats stats;
	struct pair pair;
	unsigned i;

	(void)state;
	leave_one_alone();
	sim_retry_set(SIM_BY_CLOCK);
	sim_progress_set(SIM_THREAD, 0);
	pair_open(&pair, SIZE, use_no_trials);
	for (i = 0; i < 10; i++) {
		assert_int_equal(
			move(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 1u << 20, (uint8_t)i).code, 0);
		assert_arrived(&pair, OTTE_WRITE, 1u << 20);
	}
	assert_true(comes(has_failed_once, &pair));
	for (i = 0; i < 10; i++)
		assert_int_equal(run(&pair, OTTE_READ, 0, 1u << 20).code, 0);
	stats = pair_stats(pair.requester);
	assert_int_equal(stats.rdma_rail_errors, 1);
	assert_int_equal(stats.rdma_rails_paused, 1);
	assert_int_equal(stats.rdma_slices_moved, 0);
	pair_close(&pair);
}

/*
 * Nothing but that is there: who wants RDMA alone waits for one retry period, others for nothing.
 */
static void all_without_a_like_one_costs_one_retry_period(void **state)
{
	uint64_t began_ns;
	struct pair pair;

	(void)state;
	leave_one_alone();
	ours[1]->ports[0].attr.state = IBV_PORT_DOWN;
	sim_retry_set(SIM_BY_CLOCK);
	sim_progress_set(SIM_THREAD, 0);
	pair_open(&pair, SIZE, use_no_trials);
	began_ns = otte_now_ns();
	assert_int_equal(run(&pair, OTTE_WRITE, 0, 4096).code, -ENETUNREACH);
	/* 34 ms, and once more. */
	assert_true(otte_now_ns() - began_ns >= 60000000);
	assert_int_equal(pair_stats(pair.requester).rdma_rails_paused, 1);
	assert_int_equal(run(&pair, OTTE_WRITE, 0, 4096).code, -ENETUNREACH);
	assert_int_equal(run_over(&pair, OTTE_WRITE, OTTE_TRANSPORT_ANY, 0, 4096).transport,
			 OTTE_TRANSPORT_TCP);
	assert_int_equal(pair_stats(pair.requester).rdma_rail_errors, 1);
	pair_close(&pair);
}

static void use_most_retries(struct otte_config *config)
{
	use_no_trials(config);
	config->rdma_qp_timeout = 10; /* 4 ms */
	config->rdma_qp_retries = 7;
}

/* To rxe 7 retries are without end; and so a rail that leads nowhere would be tried for ever. */
static void on_rxe_the_most_retries_have_an_end_too(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	leave_one_alone();
	ours[1]->ports[0].attr.state = IBV_PORT_DOWN;
	for (i = 0; i < RAILS; i++) {
		sim_device_be_rxe(ours[i]);
		sim_device_be_rxe(theirs[i]);
	}
	sim_retry_set(SIM_BY_CLOCK);
	sim_progress_set(SIM_THREAD, 0);
	pair_open(&pair, SIZE, use_most_retries);
	assert_int_equal(run(&pair, OTTE_WRITE, 0, 4096).code, -ENETUNREACH);
	assert_int_equal(pair_stats(pair.requester).rdma_rail_errors, 1);
	assert_int_equal(pair_stats(pair.requester).rdma_rails_paused, 1);
	pair_close(&pair);
}

/* Where unlike ones do reach each other they carry what like ones cannot. */
static void all_uses_what_is_not_like_where_it_leads_somewhere(void **state)
{
	struct pair pair;

	(void)state;
	leave_one_alone();
	ours[1]->ports[0].attr.state = IBV_PORT_DOWN;
	sim_link_set(ours[0], theirs[1], true);
	pair_open(&pair, SIZE, use_no_trials);
	assert_int_equal(move(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 1u << 20, 6).code, 0);
	assert_arrived(&pair, OTTE_WRITE, 1u << 20);
	assert_int_equal(carried(OTTE_WRITE, 1), 1u << 20);
	assert_int_equal(pair_stats(pair.requester).rdma_rail_errors, 0);
	pair_close(&pair);
}

/*
 * Three of ours and two of theirs: which is like which nobody knows, and each is tried before it
 * carries anything.
 */
static void unequal_hosts_trust_no_rail_at_first(void **state)
{
	struct sim_device *third = sim_device_add(1, "mlx5_2");
	struct otte_stats stats;
	struct pair pair;
	unsigned i;

	(void)state;
	sim_link_set(ours[0], theirs[0], false);
	sim_link_set(ours[0], theirs[1], true);
	pair_open(&pair, SIZE, use_no_trials);
	for (i = 0; i < 20; i++) {
		assert_int_equal(
			move(&pair, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 1u << 20, (uint8_t)i).code, 0);
		assert_arrived(&pair, OTTE_WRITE, 1u << 20);
	}
	stats = pair_stats(pair.requester);
	assert_int_equal(stats.rdma_slices_moved, 0);
	/* The first of ours does not reach the first of theirs. */
	assert_int_equal(stats.rdma_rail_errors, 1);
	assert_int_equal(stats.rdma_rails_paused, 1);
	assert_true(sim_counts(third).qps > 0);
	pair_close(&pair);
}

/* ---- A peer whose handshakes fail ---- */

static void use_backoff(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_rail_topology = OTTE_RAIL_DIRECT;
	config->reconnect_min_ns = 5000000;
	config->reconnect_max_ns = 160000000;
	config->rdma_rail_error_threshold = 16;
}

/* It is asked more and more rarely, and nothing else waits for it. */
static void handshakes_that_fail_are_backed_off(void **state)
{
	unsigned long made;
	unsigned id[RAILS];
	struct pair pair;
	uint64_t end_ns;

	(void)state;
	pair_open(&pair, SIZE, use_backoff);
	id[0] = refuse_pairs(0);
	id[1] = refuse_pairs(1);
	made = sim_calls(SIM_CREATE_QP);
	end_ns = otte_now_ns() + 500000000;
	while (otte_now_ns() < end_ns) {
		struct otte_task task = run_over(&pair, OTTE_WRITE, OTTE_TRANSPORT_ANY, 0, 65536);

		assert_int_equal(task.code, 0);
		assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	}
	/*
	 * After 5, 10, 20, 40, 80, 160, 160 ms again, on each rail; and one at either end each
	 * time.
	 */
	assert_in_range(sim_calls(SIM_CREATE_QP) - made, 2 * RAILS * 3, 2 * RAILS * 8);
	sim_fault_disarm(id[0]);
	sim_fault_disarm(id[1]);
	pair_close(&pair);
}

/* ---- Bytes under way ---- */

static void use_bytes_of_one_slice(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_direct_bytes = 65536;
}

static bool has_all_bytes(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->requester).rdma_direct_bytes == 65536;
}

/* Of four slices one has all bytes, one waits for some, and two for room on the other rail. */
static void who_waits_for_bytes_keeps_its_turn(void **state)
{
	struct otte_rdma *rdma;
	struct pair pair;
	unsigned i, left;

	(void)state;
	pair_open(&pair, SIZE, use_bytes_of_one_slice);
	rdma = rdma_of(pair.requester);
	assert_int_equal(run(&pair, OTTE_READ, 0, 262144).code, 0);
	atomic_store(&second_is_full, true);
	sim_progress_set(SIM_STEPPED, 0);
	submit_over(&pair, OTTE_READ, OTTE_TRANSPORT_RDMA, 0, 262144);
	assert_true(comes(has_all_bytes, &pair));
	otte_rdma_workers_settle(rdma);
	left = atomic_load(&turns_left);
	for (i = 0; i < 8; i++)
		otte_rdma_workers_settle(rdma);
	assert_int_equal(atomic_load(&turns_left), left);
	assert_ptr_equal(otte_rdma_budget_next(&rdma->direct), &rdma->workers[0]);
	atomic_store(&second_is_full, false);
	sim_progress_set(SIM_INLINE, 0);
	otte_rdma_wake_all(rdma);
	assert_int_equal(wait_task(&pair).code, 0);
	assert_int_equal(pair_stats(pair.requester).rdma_direct_bytes, 0);
	pair_close(&pair);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, with_two_networks, nothing_is_left)
	const struct CMUnitTest tests[] = {
		TEST(two_rails_carry_every_length),
		TEST(a_short_request_is_not_cut),
		TEST(the_faster_rail_gets_more),
		TEST(without_selection_they_take_turns),
		TEST(where_each_slice_goes_can_be_logged),
		TEST(requests_that_want_more_than_half_end_both),
		TEST(what_one_grant_cannot_hold_goes_in_stretches),
		TEST(a_read_moves_to_the_other_rail),
		TEST(a_read_moves_though_its_nic_never_gives_up),
		TEST(without_a_budget_a_read_ends),
		TEST(a_write_ends_with_its_rail),
		TEST(what_was_not_posted_moves),
		TEST(a_port_that_goes_takes_no_read_with_it),
		TEST(a_port_that_goes_ends_a_write),
		TEST(what_is_only_granted_moves_when_it_is_free),
		TEST(a_refused_access_blames_no_rail),
		TEST(a_rail_that_is_well_again_carries_again),
		TEST(what_has_failed_once_carries_no_request),
		TEST(where_no_rail_is_left_nothing_is_sent),
		TEST(direct_never_tries_what_is_not_like),
		TEST(direct_without_a_like_one_is_no_rail),
		TEST(all_tries_what_is_not_like_once),
		TEST(all_without_a_like_one_costs_one_retry_period),
		TEST(on_rxe_the_most_retries_have_an_end_too),
		TEST(all_uses_what_is_not_like_where_it_leads_somewhere),
		TEST(unequal_hosts_trust_no_rail_at_first),
		TEST(handshakes_that_fail_are_backed_off),
		TEST(who_waits_for_bytes_keeps_its_turn),
	};

	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	hosts_in_turn = true;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
