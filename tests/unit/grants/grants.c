/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two engines that reach each other's memory by simulated NICs: what arrives, what is refused, what is told when
 * something breaks, and that nothing is left.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/util.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/source.h"
#include "unit/engine/nics.h"
#include "seen.h"

#define SIZE (1u << 20)

/* ---- What they say, and hear ---- */

/* A source that says that all is done as soon as it has granted; or never says this message. */
static _Atomic bool hasty;
static _Atomic unsigned unsaid;

void __real_otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message);
void __wrap_otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message);

void __wrap_otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message)
{
	struct otte_rdma_message done = { .type = OTTE_RDMA_MSG_DONE };

	if (atomic_load(&unsaid) == message->type)
		return;
	__real_otte_rdma_source_say(source, message);
	if (!atomic_load(&hasty) || message->type != OTTE_RDMA_MSG_GRANT)
		return;
	done.answer.ask = message->grant.ask;
	done.answer.grant = message->grant.grant;
	__real_otte_rdma_source_say(source, &done);
}

/* The ledger has no room for a record, so often. */
static _Atomic unsigned unrecorded;

int __real_otte_source_retain(struct otte_source_use *use);
int __wrap_otte_source_retain(struct otte_source_use *use);

int __wrap_otte_source_retain(struct otte_source_use *use)
{
	if (!atomic_load(&unrecorded))
		return __real_otte_source_retain(use);
	atomic_fetch_sub(&unrecorded, 1);
	return otte_fail(-ENOSPC, "no room for a record");
}

/* A batch that is cancelled when its first request is on its way to a queue. */
static struct otte_batch *_Atomic cancelled_early;

void __real_otte_rdma_peer_start(struct otte_transport_peer *peer, struct otte_work *work);
void __wrap_otte_rdma_peer_start(struct otte_transport_peer *peer, struct otte_work *work);

void __wrap_otte_rdma_peer_start(struct otte_transport_peer *peer, struct otte_work *work)
{
	struct otte_batch *batch = atomic_exchange(&cancelled_early, NULL);

	if (batch)
		otte_batch_cancel(batch);
	__real_otte_rdma_peer_start(peer, work);
}

static int start(void **state)
{
	atomic_store(&unsaid, 0);
	return with_nics(state);
}

static void use_one_grant(struct otte_config *config)
{
	use_nics(config);
	config->rdma_grants = 1;
}

static void use_one_grant_by_priority(struct otte_config *config)
{
	use_one_grant(config);
	config->aging_ns = 0;
}

/* ---- What arrives ---- */

static void whatever_its_length_it_arrives_whole(void **state)
{
	(void)state;
	pair_move_exact(OTTE_READ, OTTE_TRANSPORT_RDMA, use_nics);
	pair_move_exact(OTTE_WRITE, OTTE_TRANSPORT_RDMA, use_nics);
	assert_true(sim_counts(NULL).bytes_read > 16 << 20);
	assert_true(sim_counts(NULL).bytes_written > 16 << 20);
}

static void a_long_request_goes_in_pieces(void **state)
{
	const uint64_t length = (64ull << 20) + 3;
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, length + 2 * GUARD, use_nics);
	pair_fill(pair.remote_bytes, length + 2 * GUARD, 3);
	task = run(&pair, OTTE_READ, GUARD, length);
	assert_int_equal(task.code, 0);
	assert_memory_equal(pair.local_bytes + GUARD, pair.remote_bytes + GUARD, length);
	assert_int_equal(pair.local_bytes[GUARD - 1], 0);
	assert_int_equal(pair.local_bytes[GUARD + length], 0);
	pair_fill(pair.local_bytes, length + 2 * GUARD, 9);
	task = run(&pair, OTTE_WRITE, GUARD, length);
	assert_int_equal(task.code, 0);
	assert_memory_equal(pair.local_bytes + GUARD, pair.remote_bytes + GUARD, length);
	assert_int_equal(pair_stats(pair.source).rdma_grants, 4);
	pair_close(&pair);
}

static void many_at_once_wait_for_their_places(void **state)
{
	enum { COUNT = 512, EACH = 1000 };
	static struct otte_request requests[COUNT];
	struct otte_stats stats;
	struct pair pair;
	uint32_t i;

	(void)state;
	pair_open(&pair, SIZE, use_nics);
	pair_fill(pair.remote_bytes, SIZE, 5);
	for (i = 0; i < COUNT; i++) {
		/* Backwards, so that no two are merged. */
		requests[i] = rdma_request(&pair, OTTE_READ, (COUNT - 1 - i) * EACH, EACH);
		requests[i].priority = OTTE_PRIORITY_LOW;
	}
	OK(otte_batch_submit(pair.batch, requests, COUNT));
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	for (i = 0; i < COUNT; i++)
		assert_int_equal(task_of(&pair, i).transport, OTTE_TRANSPORT_RDMA);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, COUNT * EACH);
	stats = pair_stats(pair.source);
	assert_int_equal(stats.rdma_grants, COUNT);
	assert_int_equal(stats.served_read_bytes, COUNT * EACH);
	assert_int_equal(stats.loans, 0);
	assert_int_equal(stats.loans_settled, COUNT);
	assert_int_equal(stats.retained, 0);
	pair_close(&pair);
}

/* ---- What is refused ---- */

static void what_the_source_refuses_moves_nothing(void **state)
{
	struct otte_access access;
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_nics);
	memset(pair.remote_bytes, 1, SIZE);
	/* Another use of the range, by the source itself. */
	OK(otte_access_begin(&pair.remote_mem->access, &access, 0, 4096, true));
	task = run(&pair, OTTE_READ, 4095, 2);
	assert_int_equal(task.code, -EBUSY);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(task.locally_drained, 1);
	task = run(&pair, OTTE_WRITE, 4095, 2);
	assert_int_equal(task.code, -EBUSY);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	otte_access_end(&pair.remote_mem->access, &access);
	assert_int_equal(sim_counts(NULL).bytes_read + sim_counts(NULL).bytes_written, 0);
	assert_int_equal(pair_stats(pair.source).refused_requests, 2);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	assert_int_equal(run(&pair, OTTE_READ, 4095, 2).code, 0);
	pair_close(&pair);
}

/* A view of the source's memory with these rights: a request for it, by RDMA. */
static int ask_of_view(struct pair *pair, unsigned access, uint8_t op, uint64_t length)
{
	struct otte_region_desc desc = { .mem = pair->remote_mem, .length = 4096, .access = access };
	struct otte_request request = rdma_request(pair, op, 0, length);
	struct otte_region *view;

	OK(otte_region_register(pair->source, &desc, 1, &view));
	request.remote_region = otte_region_id(view);
	OK(otte_batch_reset(pair->batch));
	OK(otte_batch_submit(pair->batch, &request, 1));
	OK(otte_batch_wait(pair->batch, 30 * SECOND));
	OK(otte_region_unregister(&view, 1, 10 * SECOND, NULL));
	return task_of(pair, 0).code;
}

static void rights_and_ranges_are_the_regions(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_nics);
	assert_int_equal(ask_of_view(&pair, OTTE_REMOTE_READ, OTTE_READ, 4096), 0);
	assert_int_equal(ask_of_view(&pair, OTTE_REMOTE_WRITE, OTTE_WRITE, 4096), 0);
	assert_int_equal(ask_of_view(&pair, OTTE_REMOTE_READ, OTTE_WRITE, 4096), -EACCES);
	assert_int_equal(ask_of_view(&pair, OTTE_REMOTE_WRITE, OTTE_READ, 4096), -EACCES);
	assert_int_equal(ask_of_view(&pair, OTTE_REMOTE_READ, OTTE_READ, 4097), -ERANGE);
	assert_int_equal(ask_of_view(&pair, OTTE_LOCAL_ONLY, OTTE_READ, 4096), -ENOENT);
	pair_close(&pair);
}

static void use_one_index(struct otte_config *config)
{
	use_nics(config);
	config->rdma_key_indices = 1;
}

static bool has_one_loan(void *arg);
static _Atomic unsigned wants;

static void count_wants(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	if (strstr(line, "a peer gets no grant: mlx5_0: rdma.key_indices (1) are all used up"))
		atomic_fetch_add(&wants, 1);
}

/* The peer is told a code, the log once a second what it is. */
static void what_is_used_up_is_named(void **state)
{
	struct otte_request request;
	struct otte_batch *second;
	struct otte_task task;
	struct pair pair;
	unsigned i;

	(void)state;
	atomic_store(&wants, 0);
	pair_open(&pair, SIZE, use_one_index);
	OK(otte_batch_create(pair.requester, 1, &second));
	OK(otte_log_set(count_wants, NULL, OTTE_LOG_WARNING));
	sim_progress_set(SIM_STEPPED, 0);
	submit(&pair, OTTE_READ, 0, 4096);
	assert_true(comes(has_one_loan, &pair));
	request = rdma_request(&pair, OTTE_READ, 8192, 4096);
	for (i = 0; i < 3; i++) {
		OK(otte_batch_submit(second, &request, 1));
		OK(otte_batch_wait(second, 30 * SECOND));
		OK(otte_batch_task(second, 0, &task));
		assert_int_equal(task.code, -EDQUOT);
		OK(otte_batch_reset(second));
	}
	assert_in_range(atomic_load(&wants), 1, 2);
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(task_of(&pair, 0).code, 0);
	OK(otte_log_set(NULL, NULL, OTTE_LOG_WARNING));
	OK(otte_batch_destroy(second));
	pair_close(&pair);
}

/* ---- Where there is none ---- */

static void refuse_to_submit(struct pair *pair, int code, const char *text)
{
	struct otte_request request = rdma_request(pair, OTTE_READ, 0, 4096);

	assert_int_equal(otte_batch_submit(pair->batch, &request, 1), code);
	assert_string_equal(otte_error_text(), text);
	assert_int_equal(pair_run(pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(task_of(pair, 0).transport, OTTE_TRANSPORT_TCP);
}

static void use_process(struct otte_config *config)
{
	config->ledger = OTTE_LEDGER_PROCESS;
}

static void what_is_missing_is_named_and_tcp_goes_on(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_process);
	refuse_to_submit(&pair, -ENOSYS, "request 0: transport rdma: rdma.enabled is false");
	assert_int_equal(verbs_opened(), 0);
	pair_close(&pair);
	pair_open(&pair, SIZE, use_nics);
	refuse_to_submit(&pair, -ENODEV, "request 0: transport rdma: there is no verbs device");
	pair_close(&pair);
	verbs_of[0] = verbs_of[1] = NULL;
	pair_open(&pair, SIZE, use_nics);
	refuse_to_submit(&pair, -ENOSYS,
			 "request 0: transport rdma: libibverbs.so.1: cannot open shared object file");
	pair_close(&pair);
}

static void a_device_that_is_named_must_be_there(void **state)
{
	struct otte_engine *engine;
	struct otte_config config;

	(void)state;
	OK(otte_config_init(&config, sizeof(config)));
	use_nics(&config);
	strcpy(config.rdma_device, "mlx5_7");
	assert_int_equal(otte_engine_create(&config, &engine), -ENODEV);
	assert_string_equal(otte_error_text(), "rdma: no device mlx5_7");
	config.rdma_enabled = 0;
	OK(otte_engine_create(&config, &engine));
	OK(otte_engine_destroy(engine));
}

static void a_peer_without_it_is_reached_over_tcp(void **state)
{
	struct pair pair, other;
	struct otte_task task;

	(void)state;
	pair_open(&pair, SIZE, use_process);
	pair_join(&other, &pair, use_nics);
	assert_int_equal(pair_run(&other, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(task_of(&other, 0).transport, OTTE_TRANSPORT_TCP);
	task = run(&other, OTTE_READ, 0, 4096);
	assert_int_equal(task.code, -ENOTCONN);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	pair_close_requester(&other);
	pair_close(&pair);
}

/* ---- What ends early ---- */

/* They are counted before they are exposed. */
static unsigned exposed_loans(const struct pair *pair)
{
	struct otte_loan_info rows[16];
	ssize_t n = pair->source->ledger->ops->dump_loans(pair->source->ledger, rows, 16), i;
	unsigned live = 0;

	for (i = 0; i < n; i++)
		live += rows[i].state == OTTE_LOAN_EXPOSED;
	return live;
}

static bool has_one_loan(void *arg)
{
	return exposed_loans(arg) == 1;
}

/* What it is, and that it covers exactly what is lent. */
static void assert_loan(struct pair *pair, uint64_t offset, uint64_t length, uint32_t right)
{
	struct otte_loan_info rows[4];
	ssize_t n = pair->source->ledger->ops->dump_loans(pair->source->ledger, rows, 4), i;
	unsigned live = 0;

	for (i = 0; i < n; i++) {
		if (rows[i].state != OTTE_LOAN_EXPOSED)
			continue;
		live++;
		assert_int_equal(rows[i].terms.region, otte_region_id(pair->remote));
		assert_int_equal(rows[i].terms.offset, offset);
		assert_int_equal(rows[i].terms.length, length);
		assert_int_equal(rows[i].terms.right, right);
		assert_memory_equal(rows[i].terms.borrower.incarnation,
				    pair->requester->identity.incarnation, 16);
		assert_int_equal(rows[i].terms.borrower.epoch, pair->requester->identity.epoch);
	}
	assert_int_equal(live, 1);
}

static bool is_retained(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).retained >= 1;
}

/* The window is not bound yet: nothing can be reached, and the loan is there. */
static void the_loan_comes_before_the_window(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_nics);
	sim_progress_set(SIM_STEPPED, 0);
	submit(&pair, OTTE_WRITE, 100, 5000);
	assert_true(comes(has_one_loan, &pair));
	assert_int_equal(sim_counts(NULL).mws_bound, 0);
	assert_loan(&pair, 100, 5000, OTTE_LOAN_WRITE);
	assert_int_equal(pair_stats(pair.source).rdma_grants, 0);
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(pair_stats(pair.source).loans, 0);
	pair_close(&pair);
}

/* It stands in no list yet. */
static void who_is_about_to_wait_can_be_cancelled(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_nics);
	atomic_store(&cancelled_early, pair.batch);
	submit(&pair, OTTE_WRITE, 0, 4096);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_null(atomic_load(&cancelled_early));
	assert_int_equal(task_of(&pair, 0).code, -ECANCELED);
	assert_int_equal(task_of(&pair, 0).remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(task_of(&pair, 0).locally_drained, 1);
	assert_int_equal(pair_stats(pair.source).rdma_grants, 0);
	assert_int_equal(run(&pair, OTTE_WRITE, 0, 4096).code, 0);
	pair_close(&pair);
}

/* With one grant at a time: the High that came last is over when of four Low at most two are. */
static void a_higher_request_has_its_turn_first(void **state)
{
	struct otte_batch_status status = { .finished = 0 };
	struct otte_request requests[4], high;
	struct otte_batch *second;
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_one_grant_by_priority);
	OK(otte_batch_create(pair.requester, 1, &second));
	sim_progress_set(SIM_STEPPED, 0);
	for (i = 0; i < 4; i++) {
		requests[i] = rdma_request(&pair, OTTE_READ, i * 8192, 4096);
		requests[i].priority = OTTE_PRIORITY_LOW;
	}
	OK(otte_batch_submit(pair.batch, requests, 4));
	assert_true(comes(has_one_loan, &pair));
	high = rdma_request(&pair, OTTE_READ, 32768, 4096);
	OK(otte_batch_submit(second, &high, 1));
	for (i = 0; i < WAIT_TURNS && status.finished == 0; i++) {
		sim_step();
		usleep(WAIT_US);
		OK(otte_batch_poll(second, &status));
	}
	assert_int_equal(status.completed_prefix, 1);
	OK(otte_batch_poll(pair.batch, &status));
	assert_in_range(status.finished, 1, 2);
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	OK(otte_batch_destroy(second));
	pair_close(&pair);
}

/* One waits for the other's place; whoever wants its end gets it at once, and the place is not lost. */
static void who_waits_can_be_cancelled(void **state)
{
	struct otte_request request;
	struct otte_batch *second;
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_one_grant);
	OK(otte_batch_create(pair.requester, 1, &second));
	sim_progress_set(SIM_STEPPED, 0);
	submit(&pair, OTTE_READ, 0, 4096);
	assert_true(comes(has_one_loan, &pair));
	request = rdma_request(&pair, OTTE_READ, 8192, 4096);
	OK(otte_batch_submit(second, &request, 1));
	OK(otte_batch_cancel(second));
	OK(otte_batch_wait(second, 30 * SECOND));
	OK(otte_batch_task(second, 0, &task));
	assert_int_equal(task.code, -ECANCELED);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(task_of(&pair, 0).state, OTTE_TASK_DISPATCHED);
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(task_of(&pair, 0).code, 0);
	OK(otte_batch_destroy(second));
	assert_int_equal(run(&pair, OTTE_WRITE, 0, 4096).code, 0);
	/* Nor was the one that was cancelled ever granted. */
	assert_int_equal(pair_stats(pair.source).rdma_grants, 2);
	pair_close(&pair);
}

/* Two peers, and one place: the second one's range is not lent meanwhile, nor after it was cancelled. */
static void who_waits_at_the_source_is_lent_nothing(void **state)
{
	struct otte_request request;
	struct pair pair, other;

	(void)state;
	pair_open(&pair, SIZE, use_one_grant);
	pair_join(&other, &pair, use_one_grant);
	sim_progress_set(SIM_STEPPED, 0);
	submit(&pair, OTTE_READ, 0, 4096);
	assert_true(comes(has_one_loan, &pair));
	request = rdma_request(&other, OTTE_READ, 8192, 4096);
	OK(otte_batch_submit(other.batch, &request, 1));
	usleep(100000);
	assert_int_equal(pair_stats(pair.source).loans, 1);
	OK(otte_batch_cancel(other.batch));
	OK(otte_batch_wait(other.batch, 30 * SECOND));
	assert_int_equal(task_of(&other, 0).code, -ECANCELED);
	usleep(100000);
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(task_of(&pair, 0).code, 0);
	assert_int_equal(run(&other, OTTE_READ, 0, 4096).code, 0);
	assert_int_equal(pair_stats(pair.source).rdma_grants, 2);
	pair_close_requester(&other);
	pair_close(&pair);
}

/* Granted after its end: it goes back unused, and the source knows that by the receipt. */
static void a_grant_that_nobody_wants_any_more_goes_back(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_nics);
	sim_progress_set(SIM_STEPPED, 0);
	submit(&pair, OTTE_WRITE, 0, 4096);
	assert_true(comes(has_one_loan, &pair));
	OK(otte_batch_cancel(pair.batch));
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(task_of(&pair, 0).code, -ECANCELED);
	assert_int_equal(task_of(&pair, 0).remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(pair_stats(pair.source).loans, 1);
	sim_progress_set(SIM_INLINE, 0);
	assert_int_equal(run(&pair, OTTE_READ, 8192, 4096).code, 0);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	assert_int_equal(pair_stats(pair.source).rdma_grants, 2);
	assert_int_equal(sim_counts(NULL).bytes_written, 0);
	pair_close(&pair);
}

/* It has the key, and dies: its queue pair goes with the session, and the loan is over as REVOKED. */
static void a_requester_that_is_gone_has_nothing_any_more(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_nics);
	memset(pair.remote_bytes, 7, SIZE);
	sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], false);
	sim_retry_set(SIM_BY_CLOCK);
	submit(&pair, OTTE_READ, 0, 4096);
	assert_true(comes(is_granted, &pair));
	assert_int_equal(pair_stats(pair.source).loans, 1);
	otte_control_client_stop(&pair.segment->peer->control, -ECONNRESET);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(task_of(&pair, 0).code, -ECONNRESET);
	assert_int_equal(task_of(&pair, 0).locally_drained, 1);
	assert_true(comes(is_drained, &pair));
	assert_int_equal(pair_stats(pair.source).retained, 0);
	OK(otte_region_unregister(&pair.remote, 1, 10 * SECOND, NULL));
	pair.remote = NULL;
	pair_close_requester(&pair);
	OK(otte_mem_release(pair.remote_mem));
	OK(otte_engine_destroy(pair.source));
}

/* ---- What breaks ---- */

/* What is told of a request that was under way when nothing passed any more. */
static struct otte_task cut_off(struct pair *pair, uint8_t op, uint32_t transport)
{
	struct otte_request request = rdma_request(pair, op, 0, 4096);

	request.transport = transport;
	sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], false);
	OK(otte_batch_reset(pair->batch));
	OK(otte_batch_submit(pair->batch, &request, 1));
	OK(otte_batch_wait(pair->batch, 30 * SECOND));
	/* Before the link is there again: what is tried then is connected. */
	assert_true(comes(is_unconnected, pair));
	sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], true);
	return task_of(pair, 0);
}

static void use_quick_reconnects(struct otte_config *config)
{
	use_nics(config);
	config->reconnect_max_ns = config->reconnect_min_ns = 1000000;
	config->rdma_rail_error_threshold = 16;
}

static void use_quick_retries(struct otte_config *config)
{
	use_quick_reconnects(config);
	config->rdma_qp_timeout = 13; /* 34 ms */
	config->rdma_qp_retries = 1;
}

static bool reads_again(void *arg)
{
	return run(arg, OTTE_READ, 0, 1).code == 0;
}

static bool writes_again(void *arg)
{
	return run(arg, OTTE_WRITE, 0, 1).code == 0;
}

/* The NIC has given it up: a READ goes over TCP, a WRITE may or may not have reached the peer. */
static void a_link_that_is_cut_ends_what_is_on_it(void **state)
{
	struct otte_stats stats;
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_quick_reconnects);
	pair_fill(pair.remote_bytes, SIZE, 1);
	task = cut_off(&pair, OTTE_READ, OTTE_TRANSPORT_ANY);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, 4096);
	assert_int_equal(pair_stats(pair.requester).retries, 1);
	/* What has failed is trusted again when something has passed it. */
	assert_true(comes(reads_again, &pair));
	task = cut_off(&pair, OTTE_READ, OTTE_TRANSPORT_RDMA);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(task.locally_drained, 1);
	assert_true(comes(writes_again, &pair));
	task = cut_off(&pair, OTTE_WRITE, OTTE_TRANSPORT_ANY);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(task.locally_drained, 1);
	usleep(5000);
	assert_int_equal(run(&pair, OTTE_WRITE, 0, 4096).code, 0);
	assert_int_equal(run(&pair, OTTE_READ, 0, 4096).code, 0);
	stats = pair_stats(pair.source);
	assert_int_equal(stats.loans, 1); /* of what went over TCP */
	assert_int_equal(stats.retained, 0);
	pair_close(&pair);
}

/* What the NIC says counts: a READ that has failed is none, whatever its source says. */
static void a_source_that_is_hasty_makes_no_success(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_quick_retries);
	memset(pair.remote_bytes, 1, SIZE);
	/* It is heard before the NIC gives up. */
	sim_retry_set(SIM_BY_CLOCK);
	sim_progress_set(SIM_THREAD, 0);
	atomic_store(&hasty, true);
	task = cut_off(&pair, OTTE_READ, OTTE_TRANSPORT_RDMA);
	atomic_store(&hasty, false);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(pair.local_bytes[0], 0);
	pair_close(&pair);
}

/* Nothing has left the source: the loan is over, and the request fails. */
static void a_window_that_cannot_be_bound_is_no_grant(void **state)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_SEND_STATUS,
		.target = nics[SOURCE][0],
		.times = 1,
		.status = IBV_WC_MW_BIND_ERR,
	};
	struct otte_task task;
	struct pair pair;
	unsigned id;

	(void)state;
	pair_open(&pair, SIZE, use_quick_reconnects);
	id = sim_fault_arm(&fault);
	task = run(&pair, OTTE_READ, 0, 4096);
	assert_int_equal(sim_fault_hits(id), 1);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_true(comes(is_drained, &pair));
	assert_int_equal(pair_stats(pair.source).rdma_grants, 0);
	usleep(5000);
	assert_int_equal(run(&pair, OTTE_READ, 0, 4096).code, 0);
	pair_close(&pair);
}

static _Atomic unsigned failures;

static void count_failures(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	if (strstr(line, "queue pair of a peer's NIC") || strstr(line, "no queue pair for a peer"))
		atomic_fetch_add(&failures, 1);
}

/* A peer can make them by the thousand. */
static void pairs_that_fail_are_told_once_a_second(void **state)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CQE_KEY,
		.target = nics[SOURCE][0],
		.times = 20,
		.value = 1,
	};
	struct pair pair;
	unsigned i, id;

	(void)state;
	atomic_store(&failures, 0);
	pair_open(&pair, SIZE, use_quick_reconnects);
	OK(otte_log_set(count_failures, NULL, OTTE_LOG_WARNING));
	id = sim_fault_arm(&fault);
	for (i = 0; sim_fault_hits(id) < 20 && i < WAIT_TURNS; i++) {
		assert_int_equal(run(&pair, OTTE_READ, 0, 4096).code, -ECONNRESET);
		usleep(WAIT_US);
	}
	assert_int_equal(sim_fault_hits(id), 20);
	assert_in_range(atomic_load(&failures), 1, 9);
	OK(otte_log_set(NULL, NULL, OTTE_LOG_WARNING));
	pair_close(&pair);
}

static void cannot_destroy(struct sim_device *device)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = SIM_DESTROY_QP,
		.target = device,
		.times = 1000,
		.error = EIO,
	};

	sim_fault_arm(&fault);
}

static void use_short_destruction(struct otte_config *config)
{
	use_quick_reconnects(config);
	config->rdma_destruction_ns = 100000000;
}

/* The requester never hears of what it posts next. */
static void lose_a_completion(void)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CQE_LOST,
		.target = nics[REQUESTER][0],
		.times = 1,
	};

	sim_fault_arm(&fault);
}

/* Of what it was nobody knows, but that it is over: its queue pair is gone. */
static void what_is_never_heard_of_ends_with_its_queue_pair(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_short_destruction);
	lose_a_completion();
	task = run(&pair, OTTE_WRITE, 0, 4096);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(task.locally_drained, 1);
	assert_true(comes(is_unconnected, &pair));
	usleep(5000);
	assert_int_equal(run(&pair, OTTE_WRITE, 0, 4096).code, 0);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	assert_int_equal(pair_stats(pair.requester).retained, 0);
	pair_close(&pair);
}

static void lose_at_requester(uint8_t op)
{
	struct otte_access access;
	struct otte_task task;
	struct pair pair;
	size_t pending = 0;

	pair_open(&pair, SIZE, use_short_destruction);
	cannot_destroy(nics[REQUESTER][0]);
	lose_a_completion();
	submit(&pair, op, 0, 4096);
	MUST(otte_batch_wait(pair.batch, 20 * SECOND) == 0);
	MUST(otte_batch_task(pair.batch, 0, &task) == 0);
	MUST(task.code == -EUCLEAN && !task.locally_drained);
	MUST(task.remote_effect == (op == OTTE_WRITE ? OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE));
	MUST(pair_stats(pair.requester).retained >= 1);
	MUST(otte_access_begin(&pair.local_mem->access, &access, 0, 4096, true) == -EBUSY);
	MUST(atomic_load(&pair.local_mem->access.live) == 1);
	MUST(otte_region_unregister(&pair.local, 1, 0, &pending) == -ETIMEDOUT && pending == 1);
	MUST(otte_mem_release(pair.local_mem) == -EBUSY);
	MUST(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, SECOND, NULL) == -EUCLEAN);
}

static void lose_a_read(void)
{
	lose_at_requester(OTTE_READ);
}

static void lose_a_write(void)
{
	lose_at_requester(OTTE_WRITE);
}

/* A queue pair that cannot be destroyed may go on reading and writing. */
static void what_a_nic_may_still_use_stays_taken(void **state)
{
	(void)state;
	in_its_own_process(lose_a_read);
	in_its_own_process(lose_a_write);
}

static void lose_at_source(void)
{
	struct otte_access access;
	struct pair pair;
	size_t pending = 0;

	pair_open(&pair, SIZE, use_nics);
	cannot_destroy(nics[SOURCE][0]);
	sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], false);
	sim_retry_set(SIM_BY_CLOCK);
	submit(&pair, OTTE_WRITE, 0, 4096);
	MUST(comes(is_granted, &pair));
	otte_control_client_stop(&pair.segment->peer->control, -ECONNRESET);
	MUST(otte_batch_wait(pair.batch, 20 * SECOND) == 0);
	MUST(comes(is_retained, &pair));
	MUST(pair_stats(pair.source).loans == 1);
	MUST(otte_access_begin(&pair.remote_mem->access, &access, 0, 4096, false) == -EBUSY);
	MUST(otte_region_unregister(&pair.remote, 1, 0, &pending) == -ETIMEDOUT && pending == 1);
	MUST(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, SECOND, NULL) == -EUCLEAN);
}

/* What is to be recorded besides is the queue pair. */
static void lose_at_source_unrecorded(void)
{
	atomic_store(&unrecorded, 2);
	lose_at_source();
	MUST(atomic_load(&unrecorded) == 0);
}

static void what_cannot_be_recorded_is_tried_again(void **state)
{
	(void)state;
	in_its_own_process(lose_at_source_unrecorded);
}

static void what_a_peers_nic_may_still_reach_stays_lent(void **state)
{
	(void)state;
	in_its_own_process(lose_at_source);
}

static void use_one_pair(struct otte_config *config)
{
	use_quick_reconnects(config);
	config->rdma_pairs = 1;
	config->rdma_send_wrs = 64;
}

static void use_few_sends(struct otte_config *config)
{
	use_one_pair(config);
	config->rdma_send_wrs = 4;
}

static bool has_six_loans(void *arg)
{
	return exposed_loans(arg) == 6;
}

static void cannot_free_windows(unsigned times)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = SIM_DEALLOC_MW,
		.target = nics[SOURCE][0],
		.times = times,
		.error = EIO,
	};

	sim_fault_arm(&fault);
}

/* Of six grants four are being bound, and two have no room for that, when the pair goes and its windows stay. */
static void keep_windows_without_a_pair(void)
{
	static struct otte_request requests[6];
	struct otte_access access;
	struct pair first, pair;
	unsigned i;

	pair_open(&first, SIZE, use_few_sends);
	pair_join(&pair, &first, use_one_pair);
	sim_progress_set(SIM_STEPPED, 0);
	for (i = 0; i < 6; i++)
		requests[i] = rdma_request(&pair, OTTE_READ, (5 - i) * 8192, 4096);
	MUST(otte_batch_submit(pair.batch, requests, 6) == 0);
	MUST(comes(has_six_loans, &first));
	cannot_free_windows(1000);
	otte_control_client_stop(&pair.segment->peer->control, -ECONNRESET);
	/* Until the pair is closed nothing is bound, or it would be moved and given back. */
	MUST(comes(is_retained, &first));
	sim_progress_set(SIM_INLINE, 0);
	MUST(otte_batch_wait(pair.batch, 20 * SECOND) == 0);
	MUST(comes(is_unconnected, &first));
	/* The source looks at all it has in each round of this. */
	MUST(run(&first, OTTE_READ, SIZE / 2, 4096).code == 0);
	MUST(pair_stats(first.source).loans == 6);
	for (i = 0; i < 6; i++)
		MUST(otte_access_begin(&first.remote_mem->access, &access, i * 8192, 4096, true) == -EBUSY);
	MUST(otte_engine_close(first.source, OTTE_CLOSE_SOURCE, SECOND, NULL) == -EUCLEAN);
}

static void a_window_that_stays_outlives_its_pair(void **state)
{
	(void)state;
	in_its_own_process(keep_windows_without_a_pair);
}

static void use_two_grants(struct otte_config *config)
{
	use_quick_reconnects(config);
	config->rdma_destruction_ns = 300000000;
	config->rdma_grants = 2;
	config->rdma_pairs = 1;
}

/* Two of an op, not next to each other. */
static void ask_twice(struct pair *pair, uint8_t op, uint64_t offset)
{
	struct otte_request requests[2];
	unsigned i;

	for (i = 0; i < 2; i++)
		requests[i] = rdma_request(pair, op, offset + (1 - i) * 8192, 4096);
	OK(otte_batch_reset(pair->batch));
	OK(otte_batch_submit(pair->batch, requests, 2));
	OK(otte_batch_wait(pair->batch, 30 * SECOND));
}

/* The source has closed the pair; of a grant's window it has not heard, and will not. */
static void what_was_closed_is_not_asked_for_any_more(void **state)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CQE_LOST,
		.target = nics[SOURCE][0],
		.times = 1,
	};
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_two_grants);
	sim_fault_arm(&fault);
	ask_twice(&pair, OTTE_READ, 0);
	assert_true(task_of(&pair, 0).code == -ECONNRESET || task_of(&pair, 1).code == -ECONNRESET);
	assert_true(pair_stats(pair.source).loans > 0);
	usleep(5000);
	/* They wait for places at the source. */
	ask_twice(&pair, OTTE_WRITE, 65536);
	for (i = 0; i < 2; i++)
		assert_int_equal(task_of(&pair, i).code, 0);
	assert_int_equal(pair_stats(pair.source).bad_frames, 0);
	pair_close(&pair);
}

/* On rxe a grant has an MR of its own, which is over before the loan is. */
static void what_was_given_back_pins_nothing(void **state)
{
	struct sim_counts before;
	struct pair pair;

	(void)state;
	sim_device_be_rxe(nics[SOURCE][0]);
	sim_device_be_rxe(nics[REQUESTER][0]);
	pair_open(&pair, SIZE, use_nics);
	before = sim_counts(nics[SOURCE][0]);
	assert_int_equal(run(&pair, OTTE_READ, 0, SIZE).code, 0);
	/* Their messages are in memory of the queue pair's. */
	assert_true(sim_counts(nics[SOURCE][0]).pinned_bytes - before.pinned_bytes < SIZE);
	OK(otte_region_unregister(&pair.remote, 1, 10 * SECOND, NULL));
	assert_true(sim_counts(nics[SOURCE][0]).pinned_bytes < SIZE);
	pair.remote = NULL;
	pair_close_requester(&pair);
	OK(otte_mem_release(pair.remote_mem));
	OK(otte_engine_destroy(pair.source));
}

static void keep_the_mr_of_a_window(void)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = SIM_DEREG_MR,
		.target = nics[SOURCE][0],
		.times = 1,
		.error = EIO,
	};
	struct otte_access access;
	struct pair pair;
	size_t pending = 0;

	sim_device_be_rxe(nics[SOURCE][0]);
	sim_device_be_rxe(nics[REQUESTER][0]);
	pair_open(&pair, SIZE, use_nics);
	sim_fault_arm(&fault);
	MUST(run(&pair, OTTE_WRITE, 0, SIZE / 2).code == 0);
	MUST(comes(is_retained, &pair));
	MUST(pair_stats(pair.source).loans == 1);
	MUST(otte_access_begin(&pair.remote_mem->access, &access, 0, 4096, false) == -EBUSY);
	MUST(run(&pair, OTTE_WRITE, SIZE / 2, 4096).code == 0);
	MUST(otte_region_unregister(&pair.remote, 1, 0, &pending) == -ETIMEDOUT && pending == 1);
	MUST(otte_mem_release(pair.remote_mem) == -EBUSY);
	MUST(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, SECOND, NULL) == -EUCLEAN);
}

/* It is the peer's no more, but the NIC's: the bytes have arrived, and the range stays taken. */
static void what_stays_pinned_stays_taken(void **state)
{
	(void)state;
	in_its_own_process(keep_the_mr_of_a_window);
}

static void use_short_limits(struct otte_config *config)
{
	use_short_destruction(config);
	config->rdma_grants = 1;
	config->control_timeout_ns = 100000000;
	config->default_deadline_ns = 0;
}

static void keep_the_only_place(void)
{
	struct pair pair, other;

	pair_open(&pair, SIZE, use_short_limits);
	cannot_destroy(nics[SOURCE][0]);
	sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], false);
	sim_retry_set(SIM_BY_CLOCK);
	submit(&pair, OTTE_WRITE, 0, 4096);
	MUST(comes(is_granted, &pair));
	otte_control_client_stop(&pair.segment->peer->control, -ECONNRESET);
	MUST(otte_batch_wait(pair.batch, 20 * SECOND) == 0);
	MUST(comes(is_retained, &pair));
	pair_join(&other, &pair, use_short_limits);
	MUST(pair_run(&other, OTTE_READ, 65536, 65536, 4096) == 0);
	MUST(task_of(&other, 0).transport == OTTE_TRANSPORT_TCP);
	MUST(run(&other, OTTE_READ, 65536, 4096).code == -EUCLEAN);
	MUST(pair_stats(pair.source).loans >= 1);
}

/* No place will ever come: who asks is told so, and is served by TCP. */
static void where_all_places_stay_nobody_waits(void **state)
{
	(void)state;
	in_its_own_process(keep_the_only_place);
}

/* ---- What is never answered ---- */

/* The next one waits for the only place, until its line is lost. */
static void without_ready_the_line_is_lost(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_short_limits);
	atomic_store(&unsaid, OTTE_RDMA_MSG_READY);
	assert_int_equal(run(&pair, OTTE_READ, 0, 4096).code, 0);
	assert_int_equal(pair_run(&pair, OTTE_READ, 8192, 8192, 4096), 0);
	assert_int_equal(task_of(&pair, 0).transport, OTTE_TRANSPORT_TCP);
	pair_close(&pair);
}

/* All of it has completed; whether the source takes it for that it never says. */
static void without_done_the_line_is_lost(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_short_limits);
	atomic_store(&unsaid, OTTE_RDMA_MSG_DONE);
	task = run(&pair, OTTE_WRITE, 0, 4096);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(task.locally_drained, 1);
	pair_close(&pair);
}

static bool is_returned(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).loans_settled == 1;
}

static void what_has_completed_can_be_cancelled(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_nics);
	atomic_store(&unsaid, OTTE_RDMA_MSG_DONE);
	submit(&pair, OTTE_WRITE, 0, 4096);
	assert_true(comes(is_returned, &pair));
	OK(otte_batch_cancel(pair.batch));
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	task = task_of(&pair, 0);
	assert_int_equal(task.code, -ECANCELED);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(task.locally_drained, 1);
	pair_close(&pair);
}

/* The source never hears of the only grant's bind, and gives up the pair for it. */
static void a_bind_that_is_never_heard_of_takes_no_place_for_good(void **state)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CQE_LOST,
		.target = nics[SOURCE][0],
		.times = 1,
	};
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_short_limits);
	sim_fault_arm(&fault);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(task_of(&pair, 0).transport, OTTE_TRANSPORT_TCP);
	assert_true(comes(is_unconnected, &pair));
	assert_int_equal(run(&pair, OTTE_READ, 8192, 4096).code, 0);
	assert_int_equal(pair_stats(pair.source).retained, 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(whatever_its_length_it_arrives_whole, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(a_long_request_goes_in_pieces, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(many_at_once_wait_for_their_places, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(what_the_source_refuses_moves_nothing, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(rights_and_ranges_are_the_regions, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(what_is_missing_is_named_and_tcp_goes_on, without_nics,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_device_that_is_named_must_be_there, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(a_peer_without_it_is_reached_over_tcp, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(the_loan_comes_before_the_window, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(who_waits_can_be_cancelled, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(a_higher_request_has_its_turn_first, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(who_waits_at_the_source_is_lent_nothing, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(a_grant_that_nobody_wants_any_more_goes_back, start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_requester_that_is_gone_has_nothing_any_more, start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_link_that_is_cut_ends_what_is_on_it, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(a_source_that_is_hasty_makes_no_success, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(a_window_that_cannot_be_bound_is_no_grant, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(what_is_never_heard_of_ends_with_its_queue_pair, start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(what_a_nic_may_still_use_stays_taken, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(what_a_peers_nic_may_still_reach_stays_lent, start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_window_that_stays_outlives_its_pair, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(what_was_closed_is_not_asked_for_any_more, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(what_was_given_back_pins_nothing, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(what_stays_pinned_stays_taken, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(without_ready_the_line_is_lost, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(without_done_the_line_is_lost, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(what_has_completed_can_be_cancelled, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(a_bind_that_is_never_heard_of_takes_no_place_for_good, start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(where_all_places_stay_nobody_waits, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(what_cannot_be_recorded_is_tried_again, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(who_is_about_to_wait_can_be_cancelled, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(what_is_used_up_is_named, start, nothing_is_left),
		cmocka_unit_test_setup_teardown(pairs_that_fail_are_told_once_a_second, start, nothing_is_left),
	};

	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	hosts_in_turn = true;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
