/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Transport local through the module, between two engines of one process, over a simulated one. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "engine/source_awaited.h"
#include "module.h"
#include "transport/local/local.h"
#include "transport/tcp/tcp.h"
#include "unit/engine/pair.h"

#define MIB_ (1u << 20)
#define BYTES (4 * MIB_)
#define PIECE (256u << 10) /* that the simulated module copies at a time */

static const uint64_t sizes[] = { 1, 17, 4096, 65536, 65537, 256 << 10, MIB_ + 3, BYTES };

/* Shared memory, so that the simulated module can map it; what is lent is never the memfd. */
static void copies(struct otte_config *config)
{
	config->local_trusted = 1;
	config->local_pinned = 1;
	config->local_map_entries = 0;
	config->control_timeout_ns = SECOND;
}

static void maps(struct otte_config *config)
{
	copies(config);
	config->local_map_entries = 2;
	config->local_map_repeats = 1;
	config->local_map_bytes = 4096;
}

static void not_pinned(struct otte_config *config)
{
	(void)config;
}

/* Every lane of TCP's that there can be, and nobody who trusts. */
static void all_lanes(struct otte_config *config)
{
	config->local_pinned = 1;
	config->local_map_entries = 0;
	config->tcp_lanes = 16;
}

static void (*const ways[])(struct otte_config *) = { copies, maps };

static uint32_t route(struct pair *pair)
{
	struct otte_task task;

	assert_int_equal(otte_batch_task(pair->batch, 0, &task), 0);
	return task.transport;
}

static struct otte_task last_task(struct pair *pair)
{
	struct otte_task task;

	assert_int_equal(otte_batch_task(pair->batch, 0, &task), 0);
	return task;
}

static int run_local(struct pair *pair)
{
	struct otte_request request = pair_request(pair, OTTE_READ, 0, 0, 4096);

	request.transport = OTTE_TRANSPORT_LOCAL;
	assert_int_equal(otte_batch_reset(pair->batch), 0);
	otte_batch_run(pair->batch, &request, 1, 10 * SECOND);
	return last_task(pair).code;
}

static uint64_t loans(struct pair *pair)
{
	struct otte_ledger_counters counters;

	pair->source->ledger->ops->counters(pair->source->ledger, &counters);
	return counters.loans - module_tables();
}

static bool settles(struct pair *pair, uint64_t count)
{
	int i;

	for (i = 0; i < 60000 && loans(pair) != count; i++)
		usleep(1000);
	return loans(pair) == count;
}

/* The module's ledger has no loan any more a moment before what the engine knows of it is gone. */
static int close_source_at_last(struct pair *pair, struct otte_close_report *report)
{
	int i, ret = -EUCLEAN;

	for (i = 0; i < 60000 && ret == -EUCLEAN; i++) {
		ret = otte_engine_close(pair->source, OTTE_CLOSE_SOURCE, 60 * SECOND, report);
		usleep(1000);
	}
	return ret;
}

static void bytes_arrive_whole_and_nothing_beside_them(void **state)
{
	struct pair pair;
	unsigned w, op, i;

	(void)state;
	for (w = 0; w < 2; w++) {
		module_reset();
		pair_open(&pair, BYTES, ways[w]);
		for (op = OTTE_READ; op <= OTTE_WRITE; op++) {
			uint8_t *from = op == OTTE_READ ? pair.remote_bytes : pair.local_bytes;
			uint8_t *to = op == OTTE_READ ? pair.local_bytes : pair.remote_bytes;

			for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
				uint64_t at = sizes[i] < BYTES ? 64 : 0, n = sizes[i];

				pair_fill(from, BYTES, (uint8_t)i);
				memset(to, 0xee, BYTES);
				assert_int_equal(pair_run(&pair, (uint8_t)op, at, at, n), 0);
				assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
				assert_memory_equal(to + at, from + at, n);
				assert_true(!at || to[at - 1] == 0xee);
				assert_true(at + n == BYTES || to[at + n] == 0xee);
			}
		}
		assert_int_equal(script.mapped, w ? 2 : 0);
		assert_true(script.copied > 0);
		assert_int_equal(loans(&pair), w ? 4 : 2);
		pair_close_requester(&pair);
		assert_true(settles(&pair, 0));
		pair_close_source(&pair);
	}
}

static void what_is_borrowed_takes_no_lane_of_tcps(void **state)
{
	struct otte_stats stats;
	struct pair pair;
	int i;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, all_lanes);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BYTES), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
	for (i = 0; i < 1000; i++) {
		stats.size = sizeof(stats);
		assert_int_equal(otte_engine_stats(pair.source, &stats), 0);
		if (stats.lanes == 16)
			break;
		usleep(1000);
	}
	assert_int_equal(stats.lanes, 16);
	pair_close(&pair);
}

static void what_is_not_pinned_goes_over_tcp(void **state)
{
	struct pair pair;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, not_pinned);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BYTES), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_TCP);
	assert_int_equal(script.copied, 0);
	pair_close(&pair);
}

static _Atomic unsigned quotas_said;

static void note_quota(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	if (level == OTTE_LOG_WARNING && strstr(line, "a peer is lent nothing: "))
		quotas_said += strstr(line, "no more loans") || strstr(line, "(local.maps)") ||
			       strstr(line, "RLIMIT_MEMLOCK is reached");
}

static void a_refused_loan_is_no_error_of_the_requests(void **state)
{
	struct otte_request request;
	struct pair pair;

	(void)state;
	module_reset();
	script.refuses = true;
	quotas_said = 0;
	otte_log_set(note_quota, NULL, OTTE_LOG_WARNING);
	pair_open(&pair, BYTES, copies);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BYTES), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_TCP);
	/* The limit is told where it can be raised. */
	assert_int_equal(quotas_said, 1);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	request = pair_request(&pair, OTTE_READ, 0, 0, 4096);
	request.transport = OTTE_TRANSPORT_LOCAL;
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 10 * SECOND), 1);
	assert_int_equal(last_task(&pair).code, -EDQUOT);
	script.refuses = false;
	usleep(1100000);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BYTES), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
	pair_close(&pair);
}

/* A region may fit into what can be locked where the table of its uses does not. */
static void a_table_that_cannot_be_pinned_is_told(void **state)
{
	struct pair pair;

	(void)state;
	module_reset();
	script.refuses_pins = true;
	quotas_said = 0;
	otte_log_set(note_quota, NULL, OTTE_LOG_WARNING);
	pair_open(&pair, BYTES, copies);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BYTES), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_TCP);
	assert_true(quotas_said > 0);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	script.refuses_pins = false;
	pair_close(&pair);
}

/* ---- Taken away ---- */

struct moment {
	struct pair *pair;
	unsigned at; /* before so many copies have begun */
	void (*what)(struct pair *pair);
	_Atomic bool done;
};

static void at_moment(void *arg)
{
	struct moment *moment = arg;

	if (atomic_load(&script.copied) + atomic_load(&script.looked) >= moment->at &&
	    !atomic_exchange(&moment->done, true))
		moment->what(moment->pair);
}

static void take_away(struct pair *pair)
{
	(void)pair;
	module_revoke_all();
}

static void unmap(struct pair *pair)
{
	(void)pair;
	module_unmap();
}

static void lose(struct pair *pair)
{
	otte_fail(-ECONNRESET, "cut by the test");
	otte_control_client_stop(&pair->segment->peer->control, -ECONNRESET);
}

static struct otte_task run_with(struct pair *pair, struct moment *moment, uint8_t op)
{
	/* The loan is there. */
	assert_int_equal(pair_run(pair, op, 0, 0, BYTES), 0);
	assert_int_equal(route(pair), OTTE_TRANSPORT_LOCAL);
	pair_fill(op == OTTE_READ ? pair->remote_bytes : pair->local_bytes, BYTES, 7);
	memset(op == OTTE_READ ? pair->local_bytes : pair->remote_bytes, 0xee, BYTES);
	script.copied = script.looked = 0;
	script.arg = moment;
	script.before = at_moment;
	pair_run(pair, op, 0, 0, BYTES);
	script.before = NULL;
	return last_task(pair);
}

/* Those that are left to TCP for what it starts. */
static _Atomic uint32_t retries_left;

void __real_tcp_peer_start(struct otte_transport_peer *base, struct otte_work *work);
void __wrap_tcp_peer_start(struct otte_transport_peer *base, struct otte_work *work);
void __wrap_tcp_peer_start(struct otte_transport_peer *base, struct otte_work *work)
{
	struct tcp_plan *plan = tcp_peer_pin(work);

	__real_tcp_peer_start(base, work);
	retries_left = plan->retries;
	tcp_plan_put(plan);
}

static uint64_t retries(struct pair *pair)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	assert_int_equal(otte_engine_stats(pair->requester, &stats), 0);
	return stats.retries;
}

static void what_is_revoked_before_or_within_a_read_comes_over_tcp(void **state)
{
	struct otte_config config;
	struct pair pair;
	unsigned at;

	(void)state;
	assert_int_equal(otte_config_init(&config, sizeof(config)), 0);
	for (at = 0; at < 8; at += 3) {
		struct moment moment = { &pair, at, take_away, false };
		struct otte_task task;

		module_reset();
		pair_open(&pair, BYTES, copies);
		task = run_with(&pair, &moment, OTTE_READ);
		assert_int_equal(task.code, 0);
		assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
		assert_int_equal(retries_left, config.retry_budget - (at ? 1 : 0));
		assert_int_equal(retries(&pair), at ? 1 : 0);
		assert_memory_equal(pair.local_bytes, pair.remote_bytes, BYTES);
		/* And it is lent anew. */
		assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BYTES), 0);
		assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
		pair_close(&pair);
	}
}

static void a_write_that_was_cut_is_never_tried_again(void **state)
{
	struct pair pair;
	unsigned at;

	(void)state;
	for (at = 0; at < 8; at += 3) {
		struct moment moment = { &pair, at, take_away, false };
		struct otte_task task;

		module_reset();
		pair_open(&pair, BYTES, copies);
		task = run_with(&pair, &moment, OTTE_WRITE);
		assert_int_equal(task.code, at ? -EKEYREVOKED : 0);
		assert_int_equal(task.remote_effect, at ? OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE);
		assert_int_equal(task.transport, at ? OTTE_TRANSPORT_LOCAL : OTTE_TRANSPORT_TCP);
		assert_true(task.locally_drained);
		pair_close(&pair);
	}
}

/* Before: nothing moves. Within: a WRITE is no success, and what was read are bytes of before. */
static void what_its_owner_unmapped_is_stale(void **state)
{
	struct pair pair;
	unsigned w, op, i;

	(void)state;
	for (w = 0; w < 2; w++) {
		for (op = OTTE_READ; op <= OTTE_WRITE; op++) {
			for (i = 0; i < (op == OTTE_WRITE ? 3 : 2); i++) {
				/* The last look of a WRITE comes behind each step's, or each piece that is copied. */
				unsigned at = i < 2 ? i : w ? BYTES / MIB_ : BYTES / PIECE;
				struct moment moment = { &pair, at, unmap, false };
				struct otte_task task;

				module_reset();
				pair_open(&pair, BYTES, ways[w]);
				/* Until it is mapped. */
				while (w && script.mapped < 1)
					assert_int_equal(pair_run(&pair, (uint8_t)op, 0, 0, BYTES), 0);
				task = run_with(&pair, &moment, (uint8_t)op);
				assert_true(moment.done);
				assert_int_equal(task.code, -ESTALE);
				assert_int_equal(task.remote_effect, at && op == OTTE_WRITE ?
								     OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE);
				if (!at)
					assert_int_equal((op == OTTE_READ ? pair.local_bytes :
									    pair.remote_bytes)[0], 0xee);
				pair_close(&pair);
			}
		}
	}
}

static void what_may_be_other_pages_is_asked_for_back(void **state)
{
	struct pair pair;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BYTES), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
	assert_int_equal(loans(&pair), 1);
	module_suspect();
	assert_true(settles(&pair, 0));
	pair_close(&pair);
}

/* ---- A peer that is gone ---- */

static void a_read_that_has_begun_goes_on_without_its_peer(void **state)
{
	struct pair pair;
	unsigned w, at;

	(void)state;
	for (w = 0; w < 2; w++) {
		for (at = 0; at < 3; at++) {
			struct moment moment = { &pair, at, lose, false };
			struct otte_task task;

			module_reset();
			pair_open(&pair, BYTES, ways[w]);
			while (w && script.mapped < 1)
				assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BYTES), 0);
			task = run_with(&pair, &moment, OTTE_READ);
			assert_true(moment.done);
			assert_int_equal(task.code, 0);
			assert_int_equal(task.transport, OTTE_TRANSPORT_LOCAL);
			assert_memory_equal(pair.local_bytes, pair.remote_bytes, BYTES);
			pair_close(&pair);
		}
	}
}

/* Once a look, which is taken each time that the coarse clock ticks, can tell. */
static void release_tables(struct pair *pair)
{
	(void)pair;
	module_release_tables();
	usleep(50000);
}

/* Nor does anything begin with it, and what has begun goes on by the memory's own loan. */
static void a_table_that_was_released_is_touched_no_more(void **state)
{
	struct pair pair;
	unsigned op, w;

	(void)state;
	for (w = 0; w < 2; w++) {
		for (op = OTTE_READ; op <= OTTE_WRITE; op++) {
			struct moment moment = { &pair, 1, release_tables, false };
			struct otte_task task;

			module_reset();
			pair_open(&pair, BYTES, ways[w]);
			assert_int_equal(pair_run(&pair, (uint8_t)op, 0, 0, 4096), 0);
			while (w && script.mapped < 1)
				assert_int_equal(pair_run(&pair, (uint8_t)op, 0, 0, 4096), 0);
			release_tables(&pair);
			assert_int_equal(pair_run(&pair, (uint8_t)op, 0, 0, 4096), 0);
			assert_int_equal(route(&pair), module_framed ? OTTE_TRANSPORT_TCP : OTTE_TRANSPORT_LOCAL);
			/* Each grant has a table of its own to lose. */
			do {
				assert_int_equal(pair_run(&pair, (uint8_t)op, 0, 0, BYTES), 0);
			} while (route(&pair) != OTTE_TRANSPORT_LOCAL);
			task = run_with(&pair, &moment, (uint8_t)op);
			assert_true(moment.done);
			assert_int_equal(task.code, 0);
			assert_int_equal(task.transport, OTTE_TRANSPORT_LOCAL);
			assert_memory_equal(pair.local_bytes, pair.remote_bytes, BYTES);
			pair_close(&pair);
		}
	}
}

/* Until it is known. */
static void lose_for_good(struct pair *pair)
{
	const struct otte_transport_peer *base = pair->segment->peer->transport;
	const struct local_peer *peer = container_of(base, struct local_peer, base);

	lose(pair);
	while (peer->state != LOCAL_DOWN)
		usleep(1000);
}

/* An administrator may take it away, and who touches it then ends. */
static void a_mapping_is_not_touched_once_its_peer_is_lost(void **state)
{
	struct otte_task task;
	struct moment moment;
	struct pair pair;

	(void)state;
	moment = (struct moment){ &pair, 0, lose_for_good, false };
	module_reset();
	pair_open(&pair, BYTES, maps);
	while (script.mapped < 1)
		assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BYTES), 0);
	task = run_with(&pair, &moment, OTTE_READ);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_LOCAL);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, BYTES);
	/* All but the step within which it was lost. */
	assert_int_equal(script.copied, (BYTES - MIB_) / PIECE);
	pair_close(&pair);
}

static void a_write_that_has_begun_ends_with_its_peer(void **state)
{
	struct moment moment;
	struct otte_task task;
	struct pair pair;

	(void)state;
	moment = (struct moment){ &pair, 1, lose, false };
	module_reset();
	pair_open(&pair, BYTES, copies);
	task = run_with(&pair, &moment, OTTE_WRITE);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_true(task.locally_drained);
	pair_close(&pair);
}

/* ---- Taken back ---- */

/* A copy that stands still until the test lets it go on. */
static _Atomic bool stands, released;

static void stand(struct pair *pair)
{
	(void)pair;
	stands = true;
	while (!released)
		usleep(1000);
}

/* A READ of which a copy stands, and whose loan the module cannot end. */
static void stand_in_a_read(struct pair *pair, struct moment *moment)
{
	struct otte_request request;

	module_reset();
	pair_open(pair, BYTES, copies);
	assert_int_equal(pair_run(pair, OTTE_READ, 0, 0, BYTES), 0);
	*moment = (struct moment){ pair, 1, stand, false };
	stands = released = false;
	script.copied = script.looked = 0;
	script.arg = moment;
	script.before = at_moment;
	script.drains = true;
	assert_int_equal(otte_batch_reset(pair->batch), 0);
	request = pair_request(pair, OTTE_READ, 0, 0, BYTES);
	request.transport = OTTE_TRANSPORT_LOCAL;
	assert_int_equal(otte_batch_submit(pair->batch, &request, 1), 0);
	while (!stands)
		usleep(1000);
}

/* It goes on, and finds its loan gone. */
static void stand_no_longer(struct pair *pair)
{
	struct otte_task task;

	released = true;
	otte_batch_wait(pair->batch, 10 * SECOND);
	task = last_task(pair);
	assert_int_equal(task.code, -EKEYREVOKED);
	assert_true(task.locally_drained);
	script.before = NULL;
	pair_close_requester(pair);
}

/* The requester does not answer: the loan is revoked, and it is over once the module has no copy of it on its way. */
static void what_does_not_come_back_is_revoked_and_waited_for(void **state)
{
	struct moment moment;
	struct pair pair;

	(void)state;
	stand_in_a_read(&pair, &moment);
	/* A second, then as often as the serving thread looks. */
	assert_int_equal(otte_region_unregister(&pair.remote, 1, 4 * SECOND, NULL), -ETIMEDOUT);
	assert_int_equal(loans(&pair), 1);
	script.drains = false;
	assert_int_equal(otte_region_unregister(&pair.remote, 1, 10 * SECOND, NULL), 0);
	assert_int_equal(loans(&pair), 0);
	stand_no_longer(&pair);
	assert_int_equal(otte_mem_release(pair.remote_mem), 0);
	assert_int_equal(otte_engine_destroy(pair.source), 0);
}

/* The module may not get to its end in time, which must not keep the source from closing. */
static void what_cannot_be_had_back_is_retained(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	struct otte_ledger_counters counters;
	struct moment moment;
	struct pair pair;

	(void)state;
	stand_in_a_read(&pair, &moment);
	assert_int_equal(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, 10 * SECOND, &report), -EUCLEAN);
	assert_int_equal(report.retained, 1);
	assert_int_equal(report.retained_bytes, BYTES);
	assert_int_equal(report.loans, 1 + module_tables());
	assert_int_equal(pair_stats(pair.source).retained_bytes, BYTES);
	/* The module has the loan in its books, and needs no record beside that. */
	pair.source->ledger->ops->counters(pair.source->ledger, &counters);
	assert_int_equal(counters.retained, 0);
	script.drains = false;
	assert_true(settles(&pair, 0));
	assert_int_equal(close_source_at_last(&pair, &report), 0);
	assert_int_equal(report.retained, 0);
	stand_no_longer(&pair);
	pair_close_source(&pair);
}

static bool fail_mapped(const char *call)
{
	return !strcmp(call, "loan_settle, mapped");
}

/* Nobody but its borrower can end what is mapped: so it stays, and is told, until that has ended. */
static void a_mapping_that_is_not_settled_is_retained_until_its_borrower_ends(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	struct pair pair;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, maps);
	while (script.mapped < 1)
		assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BYTES), 0);
	script.fails = fail_mapped;
	assert_int_equal(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, 10 * SECOND, &report), -EUCLEAN);
	assert_int_equal(report.retained, 1);
	assert_int_equal(report.retained_bytes, BYTES);
	assert_int_equal(loans(&pair), 1);
	pair_close_requester(&pair);
	assert_true(settles(&pair, 0));
	pair_close_source(&pair);
}

/* ---- Uses that nobody ends ---- */

static bool can_begin(struct pair *pair, int *use)
{
	int i;

	for (i = 0; i < 10000; i++) {
		*use = otte_uses_begin(pair->remote_mem->uses, 99, 0, BYTES, true);
		if (*use >= 0)
			return true;
		usleep(1000);
	}
	return false;
}

/* Whoever stops in a copy blocks others so long, and what he ends when he wakes up is his own. */
static void a_use_that_stands_still_is_freed_once_its_loan_is_revoked(void **state)
{
	struct moment moment;
	struct otte_task task;
	struct pair pair;
	int use, i;

	(void)state;
	stand_in_a_read(&pair, &moment);
	script.drains = false;
	assert_int_equal(otte_uses_begin(pair.remote_mem->uses, 99, 0, BYTES, true), OTTE_USES_CONFLICT);
	assert_true(can_begin(&pair, &use));
	assert_int_equal(loans(&pair), 0);
	released = true;
	for (i = 0; i < 1000 && otte_batch_wait(pair.batch, 10000000) == -ETIMEDOUT; i++)
		otte_uses_beat(pair.remote_mem->uses, use);
	task = last_task(&pair);
	assert_int_equal(task.code, -EKEYREVOKED);
	assert_int_equal(otte_uses_begin(pair.remote_mem->uses, 98, 0, 1, false), OTTE_USES_CONFLICT);
	/* Of somebody to whom nothing is lent: nor is that waited for. */
	assert_true(can_begin(&pair, &use));
	otte_uses_end(pair.remote_mem->uses, use);
	script.before = NULL;
	pair_close(&pair);
}

static bool is_refused(struct pair *pair, uint8_t op)
{
	int use = otte_uses_begin(pair->remote_mem->uses, 99, 0, 4096, op == OTTE_WRITE);

	if (use >= 0)
		otte_uses_end(pair->remote_mem->uses, use);
	return use == OTTE_USES_CONFLICT;
}

/* What a borrower wrote into the table as if it were the lender's. What is the lender's stays as long as that takes. */
static void forged_uses_of_the_lender_end(void **state)
{
	struct otte_access access;
	struct otte_uses_own forged = { 0 };
	struct otte_uses *uses;
	struct pair pair;
	int i;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
	uses = pair.remote_mem->uses;
	assert_int_equal(otte_access_begin(&pair.remote_mem->access, &access, 0, 4096, false), 0);
	assert_true(otte_uses_lend(uses, &forged, 0, UINT64_MAX, true, false) >= 0);
	atomic_fetch_add(&uses->coarse_writers, 1);
	assert_true(is_refused(&pair, OTTE_READ));
	for (i = 0; i < 10000 && is_refused(&pair, OTTE_READ); i++)
		usleep(1000);
	assert_int_equal(run_local(&pair), 0);
	for (i = 0; i < 30; i++) {
		assert_true(is_refused(&pair, OTTE_WRITE));
		usleep(100000);
	}
	otte_access_end(&pair.remote_mem->access, &access);
	assert_false(is_refused(&pair, OTTE_WRITE));
	pair_close(&pair);
}

/* Where no slot is left the lender's uses are counted; a borrower that changes the count does so for a while only. */
static void uses_without_a_slot_are_counted_by_the_lender(void **state)
{
	struct otte_access access;
	struct otte_uses *uses;
	struct pair pair;
	unsigned n;
	int i;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	uses = pair.remote_mem->uses;
	for (n = 0; otte_uses_begin(uses, 98, BYTES + n, BYTES + n + 1, false) >= 0; n++)
		;
	assert_int_equal(n, OTTE_USES_SLOTS);
	assert_false(otte_access_begin_alone(&pair.remote_mem->access, &access, 0, 4096, true));
	assert_int_equal(otte_access_begin(&pair.remote_mem->access, &access, 0, 4096, true), 0);
	assert_int_equal(access.slot, OTTE_USES_COARSE);
	assert_int_equal(atomic_load(&uses->coarse_writers), 1);
	atomic_store(&uses->coarse_writers, 0);
	for (i = 0; i < 10000 && !atomic_load(&uses->coarse_writers); i++)
		usleep(1000);
	assert_int_equal(atomic_load(&uses->coarse_writers), 1);
	otte_access_end(&pair.remote_mem->access, &access);
	assert_int_equal(atomic_load(&uses->coarse_writers), 0);
	otte_uses_clear(uses, 98);
	assert_false(is_refused(&pair, OTTE_WRITE));
	pair_close(&pair);
}

/* A lender, a borrower and who looks. What both write is ordered by the table alone. */
struct shared {
	struct otte_uses uses;
	struct otte_uses_seen seen[OTTE_USES_SLOTS];
	struct otte_uses_own own;
	uint64_t written, borrowed;
	_Atomic bool stop;
};

static bool is_still_there(void *arg, uint32_t owner)
{
	(void)arg;
	(void)owner;
	return false;
}

static void *look_always(void *arg)
{
	struct shared *shared = arg;

	while (!shared->stop)
		otte_uses_look(&shared->uses, &shared->own, is_still_there, NULL);
	return NULL;
}

static void *borrow_always(void *arg)
{
	struct shared *shared = arg;
	int use;

	while (!shared->stop) {
		use = otte_uses_begin(&shared->uses, 5, 0, 8, true);
		if (use < 0)
			continue;
		shared->written++;
		shared->borrowed++;
		otte_uses_end(&shared->uses, use);
	}
	return NULL;
}

/* Also where a look frees the slot of a use that its lender is about to end: for ThreadSanitizer. */
static void what_a_lender_did_is_seen_by_whoever_begins_next(void **state)
{
	void *(*const others[])(void *) = { look_always, borrow_always };
	struct shared *shared = calloc(1, sizeof(*shared));
	pthread_t threads[2];
	uint64_t lent = 0;
	unsigned i;
	int use;

	(void)state;
	assert_non_null(shared);
	shared->own.slots = shared->seen;
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, others[i], shared), 0);
	for (i = 0; i < 300000; i++) {
		use = otte_uses_lend(&shared->uses, &shared->own, 0, 8, true, true);
		if (use < 0)
			continue;
		shared->written++;
		lent++;
		otte_uses_unlend(&shared->uses, &shared->own, use, true);
	}
	shared->stop = true;
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(shared->written, lent + shared->borrowed);
	free(shared);
}

static void dawdle(void *arg)
{
	(void)arg;
	usleep(200000);
}

/* Six seconds, of which none is without a step. */
static void a_use_that_is_slow_is_left_alone(void **state)
{
	struct pair pair;

	(void)state;
	module_reset();
	pair_open(&pair, 2 * BYTES, copies);
	script.before = dawdle;
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 2 * BYTES), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
	script.before = NULL;
	pair_close(&pair);
}

/* Of a lender that can take away what it lends to be mapped: it is copied, or takes TCP where the table is lent so. */
static void what_can_be_taken_away_is_never_mapped(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, maps);
	script.keeps_rights = true;
	for (i = 0; i < 20; i++) {
		assert_int_equal(pair_run(&pair, (uint8_t)(i % 2), 0, 0, BYTES), 0);
		assert_int_equal(route(&pair), module_framed ? OTTE_TRANSPORT_TCP : OTTE_TRANSPORT_LOCAL);
		usleep(1000);
	}
	assert_int_equal(run_local(&pair), module_framed ? -EPROTO : 0);
	assert_int_equal(script.mapped, 0);
	assert_int_equal(script.mapped_tables, 0);
	pair_close_requester(&pair);
	assert_true(settles(&pair, 0));
	assert_int_equal(module_tables(), 0);
	pair_close_source(&pair);
}

static bool fail_settle(const char *call)
{
	return !strncmp(call, "loan_settle", 11);
}

static _Atomic unsigned unsettled_said;

static void note_unsettled(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	if (level == OTTE_LOG_ERROR && strstr(line, "cannot be given back"))
		unsettled_said++;
}

/* Whoever lends so that no receipt is good decides how many there are. */
static void receipts_that_are_refused_are_said_once_a_second(void **state)
{
	uint64_t began_ns;
	struct pair pair;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 0, 4096), 0);
	assert_int_equal(module_loans(true), module_framed ? 4 : 2);
	script.fails = fail_settle;
	unsettled_said = 0;
	otte_log_set(note_unsettled, NULL, OTTE_LOG_ERROR);
	began_ns = otte_now_ns();
	pair_close_requester(&pair);
	assert_in_range(unsettled_said, 1, 1 + (otte_now_ns() - began_ns) / SECOND);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	script.fails = NULL;
	pair_close_source(&pair);
}

static void what_is_mapped_is_bounded(void **state)
{
	struct otte_region_desc desc = { .length = 65536, .access = OTTE_REMOTE_READ };
	struct otte_region *views[8];
	struct otte_request request;
	struct pair pair;
	unsigned i;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, maps);
	desc.mem = pair.remote_mem;
	for (i = 0; i < 8; i++) {
		desc.offset = i * 65536;
		assert_int_equal(otte_region_register(pair.source, &desc, 1, &views[i]), 0);
	}
	for (i = 0; i < 8; i++) {
		do {
			request = pair_request(&pair, OTTE_READ, 0, 0, 65536);
			request.remote_region = otte_region_id(views[i]);
			assert_int_equal(otte_batch_reset(pair.batch), 0);
			assert_int_equal(otte_batch_run(pair.batch, &request, 1, 10 * SECOND), 0);
			assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
			usleep(100);
		} while (script.mapped <= i);
	}
	/* Eight that are copied, and two that are mapped. */
	assert_true(settles(&pair, 10));
	pair_close_requester(&pair);
	assert_int_equal(otte_region_unregister(views, 8, 10 * SECOND, NULL), 0);
	pair_close_source(&pair);
}

/* ---- Who may lend ---- */

static uint64_t lender_of(struct local_peer *peer)
{
	uint64_t lender;

	otte_tail_lock(&peer->lock);
	lender = peer->lender;
	otte_tail_unlock(&peer->lock);
	return lender;
}

static bool goes_locally(struct pair *pair)
{
	return pair_run(pair, OTTE_READ, 0, 0, 4096) == 0 && route(pair) == OTTE_TRANSPORT_LOCAL;
}

/* A source that was started anew is another client; the module keeps a place for each that is welcome. */
static void who_was_a_peer_is_not_welcome_for_ever(void **state)
{
	struct local_peer *peer;
	struct pair pair;
	uint64_t lender;
	int i;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	peer = (struct local_peer *)pair.segment->peer->transport;
	lender = lender_of(peer);
	assert_int_not_equal(lender, 0);
	otte_tail_lock(&peer->lock);
	peer->lender = 4711; /* in its former life */
	otte_tail_unlock(&peer->lock);
	lose(&pair);
	for (i = 0; i < 10000 && lender_of(peer) == 4711; i++)
		usleep(1000);
	assert_int_equal(lender_of(peer), lender);
	assert_int_equal(script.unwelcome, 4711);
	for (i = 0; i < 10000 && !goes_locally(&pair); i++)
		usleep(1000);
	assert_true(goes_locally(&pair));
	assert_int_equal(script.unwelcome, 4711);
	pair_close_requester(&pair);
	assert_int_equal(script.unwelcome, lender);
	pair_close_source(&pair);
}

static _Atomic unsigned unwelcome_said;

static void note_unwelcome(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	if (level == OTTE_LOG_WARNING && strstr(line, "cannot lend to us: no more lenders"))
		unwelcome_said++;
}

static void who_cannot_be_made_welcome_is_logged_once(void **state)
{
	struct pair pair;

	(void)state;
	module_reset();
	script.refuses_lenders = true;
	unwelcome_said = 0;
	otte_log_set(note_unwelcome, NULL, OTTE_LOG_WARNING);
	pair_open(&pair, BYTES, copies);
	/* One grant is asked for each. */
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 0, 4096), 0);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	assert_int_equal(unwelcome_said, 1);
	pair_close(&pair);
}

/* ---- All at once ---- */

#define WRITERS 3
#define PART (512u << 10)

struct writer {
	struct pair *pair;
	unsigned index, rounds, cut, wrong;
	_Atomic bool *stop;
};

static int run_part(struct otte_batch *batch, const struct writer *writer, uint8_t op, uint64_t length)
{
	uint64_t at = (uint64_t)writer->index * 2 * PART;
	struct otte_request request = pair_request(writer->pair, op, at, at, length);
	struct otte_task task;
	int ret;

	ret = otte_batch_run(batch, &request, 1, 10 * SECOND);
	if (ret >= 0)
		ret = otte_batch_task(batch, 0, &task);
	return ret ? ret : task.code;
}

static bool cut(int code)
{
	return code == -EKEYREVOKED || code == -ECONNRESET;
}

/* What was written is read back, whichever way both went; or a WRITE was cut, or the peer was lost. */
static void *write_and_read(void *arg)
{
	struct writer *writer = arg;
	uint8_t *bytes = writer->pair->local_bytes + (uint64_t)writer->index * 2 * PART;
	struct otte_batch *batch;
	unsigned n;
	int code;

	if (otte_batch_create(writer->pair->requester, 1, &batch))
		return NULL;
	for (n = 0; !*writer->stop; n++) {
		uint64_t length = n % 3 ? PART : 4096;

		memset(bytes, (int)(n % 251), length);
		code = run_part(batch, writer, OTTE_WRITE, length);
		writer->wrong += code && !cut(code);
		memset(bytes, 0xff, length);
		if (!code)
			code = run_part(batch, writer, OTTE_READ, length);
		writer->wrong += code && code != -ECONNRESET && code != -EKEYREVOKED;
		writer->cut += cut(code);
		if (code)
			continue;
		writer->wrong += bytes[0] != n % 251 || memcmp(bytes, bytes + 1, length - 1);
		writer->rounds++;
	}
	writer->wrong += otte_batch_destroy(batch) != 0;
	return NULL;
}

static void loans_that_come_and_go_harm_no_request(void **state)
{
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];
	_Atomic bool stop = false;
	struct pair pair;
	unsigned i, n;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, maps);
	for (i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ .pair = &pair, .index = i, .stop = &stop };
		assert_int_equal(pthread_create(&threads[i], NULL, write_and_read, &writers[i]), 0);
	}
	for (n = 0; n < 300; n++) {
		module_revoke_all();
		if (n % 50 == 49)
			lose(&pair);
		usleep(3000);
	}
	stop = true;
	for (i = 0; i < WRITERS; i++) {
		pthread_join(threads[i], NULL);
		print_message("%u rounds, %u cut\n", writers[i].rounds, writers[i].cut);
		assert_int_equal(writers[i].wrong, 0);
	}
	pair_close(&pair);
}

/* ---- Peers of another user, and lanes of anybody's ---- */

static void another_user_is_lent_copies_alone(void **state)
{
	struct pair pair;
	unsigned op, i;

	(void)state;
	module_reset();
	script.user = getuid() + 1;
	pair_open(&pair, BYTES, maps);
	for (i = 0; i < 4; i++) {
		for (op = OTTE_READ; op <= OTTE_WRITE; op++) {
			pair_fill(op == OTTE_READ ? pair.remote_bytes : pair.local_bytes, BYTES, (uint8_t)(i + op));
			assert_int_equal(pair_run(&pair, (uint8_t)op, 0, 0, BYTES), 0);
			assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
			assert_memory_equal(pair.local_bytes, pair.remote_bytes, BYTES);
			usleep(1000);
		}
	}
	assert_int_equal(script.mapped, 0);
	assert_int_equal(loans(&pair), 2);
	assert_int_equal(module_tables(), 2);
	/* A table of its own, not the one of our user. */
	assert_null(pair.remote_mem->uses);
	assert_int_equal(pair.remote_mem->guests[0].lents, 2);
	pair_close_requester(&pair);
	assert_true(settles(&pair, 0));
	assert_int_equal(pair.remote_mem->guests[0].client, 0);
	pair_close_source(&pair);
}

/* It keeps others out as long as it is lent anything, and no longer. */
static void a_mark_of_another_user_ends_with_its_loan(void **state)
{
	struct otte_request request;
	struct pair pair;

	(void)state;
	module_reset();
	script.user = getuid() + 1;
	pair_open(&pair, BYTES, copies);
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 0, BYTES), 0);
	assert_true(otte_uses_begin(pair.remote_mem->guests[0].uses, 77, 0, BYTES, true) >= 0);
	request = pair_request(&pair, OTTE_READ, 0, 0, 4096);
	request.transport = OTTE_TRANSPORT_TCP;
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 10 * SECOND), 1);
	assert_int_equal(last_task(&pair).code, -EBUSY);
	pair_close_requester(&pair);
	assert_true(settles(&pair, 0));
	assert_false(otte_access_any(&pair.remote_mem->access));
	pair_close_source(&pair);
}

static void users_are_lent_nothing_that_conflicts(void **state)
{
	struct otte_mem_lent five = { .client = 5, .end = 100, .write = true };
	struct otte_mem_lent six = { .client = 6, .start = 99, .end = 200 };
	struct otte_mem_lent ours = { .start = 150, .end = 160 };
	struct otte_mem_lent more[OTTE_ACCESS_GUESTS + 1] = { 0 };
	struct otte_access access;
	struct pair pair;
	unsigned i;
	int slot;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	assert_int_equal(otte_mem_lend(pair.remote_mem, &five, true), 0);
	assert_int_equal(otte_mem_lend(pair.remote_mem, &six, true), -EBUSY);
	six.start = 100;
	assert_int_equal(otte_mem_lend(pair.remote_mem, &six, true), 0);
	ours.write = true;
	assert_int_equal(otte_mem_lend(pair.remote_mem, &ours, true), -EBUSY);
	ours.write = false;
	assert_int_equal(otte_mem_lend(pair.remote_mem, &ours, true), 0);
	assert_int_not_equal(five.uses_region, six.uses_region);
	/* Each sees what we do, and we see what each does. */
	assert_int_equal(otte_access_begin(&pair.remote_mem->access, &access, 0, 10, true), 0);
	assert_int_equal(otte_uses_begin(five.guest->uses, 9, 0, 1, false), OTTE_USES_CONFLICT);
	otte_access_end(&pair.remote_mem->access, &access);
	slot = otte_uses_begin(five.guest->uses, 9, 0, 1, false);
	assert_true(slot >= 0);
	assert_int_equal(otte_access_begin(&pair.remote_mem->access, &access, 0, 10, true), -EBUSY);
	assert_int_equal(otte_access_begin(&pair.remote_mem->access, &access, 0, 10, false), 0);
	otte_access_end(&pair.remote_mem->access, &access);
	for (i = 0; i <= OTTE_ACCESS_GUESTS; i++) {
		more[i] = (struct otte_mem_lent){ .client = 10 + i, .start = 1000, .end = 1001 };
		assert_int_equal(otte_mem_lend(pair.remote_mem, &more[i], true),
				 i < OTTE_ACCESS_GUESTS - 2 ? 0 : -EUSERS);
	}
	for (i = 0; i < OTTE_ACCESS_GUESTS - 2; i++)
		otte_mem_unlend(pair.remote_mem, &more[i]);
	otte_mem_unlend(pair.remote_mem, &five);
	/* What stood in its table is nobody's concern any more. */
	assert_int_equal(otte_access_begin(&pair.remote_mem->access, &access, 0, 10, true), 0);
	otte_access_end(&pair.remote_mem->access, &access);
	otte_mem_unlend(pair.remote_mem, &six);
	otte_mem_unlend(pair.remote_mem, &ours);
	pair_close(&pair);
}

static int begin_access(const struct pair *pair, uint64_t offset, uint64_t length, bool write)
{
	struct otte_access access;
	int ret = otte_access_begin(&pair->remote_mem->access, &access, offset, length, write);

	if (!ret)
		otte_access_end(&pair->remote_mem->access, &access);
	return ret;
}

/* Of what a peer of another user says in its table: where it is lent something, and what it may do there. */
static void a_mark_matters_only_within_what_is_lent(void **state)
{
	struct otte_mem_lent reader = { .client = 5, .start = 4096, .end = 8192 };
	struct otte_mem_lent writer = { .client = 5, .start = 16384, .end = 20480, .write = true };
	struct otte_request request;
	struct pair pair;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	assert_int_equal(otte_mem_lend(pair.remote_mem, &reader, true), 0);
	assert_true(otte_uses_begin(reader.guest->uses, 9, 0, UINT64_MAX, true) >= 0);
	assert_int_equal(begin_access(&pair, 0, 4096, true), 0);
	assert_int_equal(begin_access(&pair, 8192, BYTES - 8192, true), 0);
	assert_int_equal(begin_access(&pair, 4096, 4096, false), 0);
	assert_int_equal(begin_access(&pair, 8191, 1, true), -EBUSY);
	assert_int_equal(begin_access(&pair, 0, 4097, true), -EBUSY);
	/* Nor does it keep other peers from it, by either way. */
	request = pair_request(&pair, OTTE_READ, 0, 0, 65536);
	request.transport = OTTE_TRANSPORT_TCP;
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 10 * SECOND), 0);
	assert_int_equal(run_local(&pair), 0);
	/* Where it may write its word keeps readers out, too. */
	assert_int_equal(otte_mem_lend(pair.remote_mem, &writer, true), -EBUSY);
	pair_close_requester(&pair);
	assert_true(settles(&pair, 0));
	assert_int_equal(otte_mem_lend(pair.remote_mem, &writer, true), 0);
	assert_int_equal(begin_access(&pair, 20479, 1, false), -EBUSY);
	assert_int_equal(begin_access(&pair, 4096, 4096, false), 0);
	otte_mem_unlend(pair.remote_mem, &writer);
	assert_int_equal(begin_access(&pair, 16384, 4096, true), 0);
	otte_mem_unlend(pair.remote_mem, &reader);
	assert_int_equal(begin_access(&pair, 0, BYTES, true), 0);
	pair_close_source(&pair);
}

/* To where the requester has its session, or to the socket of the source for its host. */
static int connect_lane(const struct pair *pair, const struct otte_client_address *to, bool framed)
{
	struct sockaddr_un name;
	int fd, one = 1;

	if (!framed) {
		socklen_t length = local_address(&pair->source->identity, &name);

		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		assert_int_equal(connect(fd, (struct sockaddr *)&name, length), 0);
		return fd;
	}
	fd = socket(to->address.ss_family, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&to->address, to->length), 0);
	/* What it says is small, and no answer is waited for now and then. */
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	return fd;
}

/* A connection that says it is a lane for loans of the pair's session; *answer is what it is told. */
static int forge(struct pair *pair, bool framed, struct otte_frame *answer)
{
	struct otte_control_client *control = &pair->segment->peer->control;
	enum otte_lane_kind kind = framed ? OTTE_LANE_LEND : OTTE_LANE_BYTES;
	const struct otte_frame frame = {
		.type = otte_lane_frame(kind),
		.length = OTTE_LANE_HELLO_BYTES,
	};
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_LANE_HELLO_BYTES];
	struct otte_client_address to;
	struct otte_lane_hello hello;
	int fd;

	assert_int_equal(otte_control_client_lane(control, kind, &hello, &to), 0);
	otte_frame_encode(&frame, bytes);
	otte_lane_hello_encode(&hello, bytes + OTTE_FRAME_HEADER, OTTE_LANE_HELLO_BYTES);
	fd = connect_lane(pair, &to, framed);
	assert_int_equal(send(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(recv(fd, bytes, OTTE_FRAME_HEADER, MSG_WAITALL), OTTE_FRAME_HEADER);
	assert_int_equal(otte_frame_decode(bytes, 4096, answer), 0);
	return fd;
}

static int forge_lane(struct pair *pair, struct otte_frame *answer)
{
	return forge(pair, true, answer);
}

#define SAID (OTTE_FRAME_HEADER + OTTE_LEND_BYTES)

static uint8_t *encode_lend(uint8_t *at, const struct otte_lend *lend)
{
	const struct otte_frame header = { .type = OTTE_FRAME_LEND, .length = OTTE_LEND_BYTES };

	otte_frame_encode(&header, at);
	otte_lend_encode(lend, at + OTTE_FRAME_HEADER, OTTE_LEND_BYTES);
	return at + SAID;
}

/*
 * Asks for the pair's region over a forged lane, where all was given back before that in the same breath; the status of
 * the answer.
 */
static int ask_after(const struct pair *pair, int fd, bool returned)
{
	const struct otte_lend give_back = { .type = OTTE_LEND_RETURN };
	struct otte_lend lend = { .type = OTTE_LEND_ASK, .region = otte_region_id(pair->remote) };
	uint8_t bytes[2 * SAID], *end = bytes;

	if (returned)
		end = encode_lend(end, &give_back);
	end = encode_lend(end, &lend);
	assert_int_equal(send(fd, bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
	assert_int_equal(recv(fd, bytes, SAID, MSG_WAITALL), SAID);
	assert_int_equal(otte_lend_decode(bytes + OTTE_FRAME_HEADER, OTTE_LEND_BYTES, &lend), 0);
	assert_int_equal(lend.type, OTTE_LEND_GRANT);
	return lend.status;
}

static int ask(const struct pair *pair, int fd)
{
	return ask_after(pair, fd, false);
}

static void few_at_a_time(struct otte_config *config)
{
	copies(config);
	config->local_maps = 3;
}

/* It is told so, and has all else over TCP; others are lent as ever, also while it goes on asking. */
static void what_one_peer_is_lent_is_bounded_and_no_other_peers_loss(void **state)
{
	struct otte_frame answer;
	struct pair pair, other;
	uint64_t began_ns;
	unsigned i;
	int fd;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, few_at_a_time);
	pair_join(&other, &pair, few_at_a_time);
	fd = forge_lane(&pair, &answer);
	for (i = 0; i < 3; i++)
		assert_int_equal(ask(&pair, fd), 0);
	quotas_said = 0;
	otte_log_set(note_quota, NULL, OTTE_LOG_WARNING);
	began_ns = otte_now_ns();
	for (i = 0; i < 300; i++) {
		assert_int_equal(ask(&pair, fd), -EDQUOT);
		assert_int_equal(pair_run(&other, OTTE_READ, 0, 0, 4096), 0);
		assert_int_equal(route(&other), OTTE_TRANSPORT_LOCAL);
	}
	/* The source's log says which limit that is. */
	assert_in_range(quotas_said, 1, 1 + (otte_now_ns() - began_ns) / SECOND);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	assert_int_equal(loans(&pair), 4);
	assert_int_equal(module_tables(), 4);
	/* Of the same session. */
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_TCP);
	assert_int_equal(run_local(&pair), -EDQUOT);
	close(fd);
	/* The other's, and TCP's. */
	assert_true(settles(&pair, 2));
	/* A refusal is believed for a second. */
	for (i = 0; i < 3000 && run_local(&pair); i++)
		usleep(1000);
	assert_int_equal(last_task(&pair).code, 0);
	pair_close_requester(&other);
	pair_close(&pair);
}

/* Nor does it help to open more sessions. */
static void what_one_client_is_lent_is_bounded_whatever_sessions_it_has(void **state)
{
	struct pair pair, again, other;
	struct otte_frame answer;
	int fd, second, others;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, few_at_a_time);
	pair_join(&other, &pair, few_at_a_time);
	script.client = pair.requester->ledger->ops->client_id(pair.requester->client);
	pair_join(&again, &pair, few_at_a_time);
	script.client = 0;
	fd = forge_lane(&pair, &answer);
	second = forge_lane(&again, &answer);
	others = forge_lane(&other, &answer);
	assert_int_equal(ask(&pair, fd), 0);
	assert_int_equal(ask(&pair, fd), 0);
	assert_int_equal(ask(&again, second), 0);
	assert_int_equal(ask(&again, second), -EDQUOT);
	assert_int_equal(ask(&pair, fd), -EDQUOT);
	assert_int_equal(ask(&other, others), 0);
	assert_int_equal(ask_after(&again, second, true), 0);
	assert_int_equal(ask_after(&pair, fd, true), 0);
	assert_int_equal(ask(&again, second), 0);
	assert_int_equal(ask(&pair, fd), -EDQUOT);
	close(fd);
	close(second);
	close(others);
	pair_close_requester(&again);
	pair_close_requester(&other);
	pair_close(&pair);
}

/* Over a lane that it lost, too. */
static void what_a_peer_gave_back_counts_no_more_when_it_asks_next(void **state)
{
	struct otte_frame answer;
	struct pair pair;
	int i, fd;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, few_at_a_time);
	fd = forge_lane(&pair, &answer);
	for (i = 0; i < 3; i++)
		assert_int_equal(ask(&pair, fd), 0);
	close(fd);
	fd = forge_lane(&pair, &answer);
	assert_int_equal(ask_after(&pair, fd, true), 0);
	assert_int_equal(loans(&pair), 1);
	close(fd);
	pair_close(&pair);
}

/* Frames of random bytes, nearly right ones, and ones that are cut off. */
static void garbage_on_a_lane_harms_nobody(void **state)
{
	const struct otte_frame header = { .type = OTTE_FRAME_LEND, .length = OTTE_LEND_BYTES };
	unsigned seed = 4711, i, k, b;
	struct otte_frame answer;
	struct pair pair;

	(void)state;
	module_reset();
	print_message("seed %u\n", seed);
	pair_open(&pair, BYTES, copies);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	for (i = 0; i < 100; i++) {
		int fd = forge_lane(&pair, &answer);

		assert_int_equal(answer.type, OTTE_FRAME_LANE_READY);
		for (k = 0; k < 20; k++) {
			uint8_t bytes[OTTE_FRAME_HEADER + OTTE_LEND_BYTES];
			struct otte_lend lend = {
				.type = (uint16_t)(rand_r(&seed) % 7), .op = (uint16_t)(rand_r(&seed) % 4),
				.id = (uint64_t)(rand_r(&seed) % 3), .region = (uint64_t)(rand_r(&seed) % 4),
			};
			size_t length = rand_r(&seed) % 8 ? sizeof(bytes) : (size_t)rand_r(&seed) % sizeof(bytes);

			otte_frame_encode(&header, bytes);
			otte_lend_encode(&lend, bytes + OTTE_FRAME_HEADER, OTTE_LEND_BYTES);
			for (b = i % 3 ? sizeof(bytes) : 0; b < sizeof(bytes); b++)
				bytes[b] = (uint8_t)(rand_r(&seed) >> 8);
			if (send(fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length || length < sizeof(bytes))
				break;
		}
		close(fd);
		if (i % 25 == 0)
			assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	}
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
	pair_close_requester(&pair);
	/* What they were lent was never accepted, and is taken back. */
	assert_true(settles(&pair, 0));
	assert_int_equal(module_tables(), 0);
	pair_close_source(&pair);
}

/* A peer that knows of no such lanes. */
static void without_lanes_for_loans_it_goes_over_tcp(void **state)
{
	struct otte_frame answer;
	struct pair pair;

	(void)state;
	module_reset();
	script.old = true;
	pair_open(&pair, BYTES, copies);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, BYTES), 0);
	assert_int_equal(route(&pair), module_framed ? OTTE_TRANSPORT_TCP : OTTE_TRANSPORT_LOCAL);
	close(forge_lane(&pair, &answer));
	assert_int_equal(answer.type, OTTE_FRAME_ERROR);
	assert_int_equal(answer.status, -EPROTO);
	pair_close(&pair);
}

static bool awaits(struct otte_engine *engine)
{
	bool any;

	pthread_mutex_lock(&engine->awaited_lock);
	any = engine->awaited != NULL;
	pthread_mutex_unlock(&engine->awaited_lock);
	return any;
}

static bool has_lanes(const struct pair *pair)
{
	struct local *local = (struct local *)pair->source->transport;
	bool any;

	pthread_mutex_lock(&local->lock);
	any = local->lanes != NULL;
	pthread_mutex_unlock(&local->lock);
	return any;
}

static bool lanes_end(const struct pair *pair)
{
	int i;

	for (i = 0; i < 10000 && has_lanes(pair); i++)
		usleep(1000);
	return !has_lanes(pair);
}

/* Who is lent something, ends its session and keeps the connection of its lane costs its source nothing for good. */
static void a_lane_without_its_session_ends(void **state)
{
	struct otte_frame answer;
	struct pair pair;
	int fd, again;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	fd = forge_lane(&pair, &answer);
	again = forge_lane(&pair, &answer);
	assert_int_equal(ask(&pair, fd), 0);
	assert_int_equal(ask(&pair, again), 0);
	pair_close_requester(&pair);
	assert_true(lanes_end(&pair));
	assert_false(awaits(pair.source));
	close(fd);
	close(again);
	pair_close_source(&pair);
}

/* Over a socket; the status of the answer. */
static int ask_socket(const struct pair *pair, int fd)
{
	struct local_message message = {
		.magic = LOCAL_MAGIC,
		.type = LOCAL_ASK,
		.region = otte_region_id(pair->remote),
	};
	int fds[LOCAL_FDS], ret = 0, i;

	assert_int_equal(local_send(fd, &message, NULL), 0);
	for (i = 0; i < 10000 && !ret; i++) {
		ret = local_receive(fd, &message, fds);
		usleep(1000);
	}
	assert_int_equal(ret, 1);
	local_close_fds(fds);
	assert_int_equal(message.type, LOCAL_GRANT);
	return message.status;
}

/* Nor over a socket, where its process may live for ever. */
static void a_socket_without_its_session_ends(void **state)
{
	struct otte_frame answer;
	struct pair pair;
	int fd, lost;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	fd = forge(&pair, false, &answer);
	lost = forge(&pair, false, &answer);
	assert_int_equal(ask_socket(&pair, fd), 0);
	assert_int_equal(ask_socket(&pair, lost), 0);
	assert_int_equal(loans(&pair), 2);
	close(lost);
	pair_close_requester(&pair);
	assert_true(lanes_end(&pair));
	assert_int_equal(loans(&pair), 0);
	close(fd);
	pair_close_source(&pair);
}

static void copies_without_a_module(struct otte_config *config)
{
	copies(config);
	config->local_pinned = 0;
}

/* Whoever has the memory itself has it until it says otherwise, or has ended. */
static void a_socket_that_memory_was_lent_over_stays(void **state)
{
	const struct local_message returned = { .magic = LOCAL_MAGIC, .type = LOCAL_RETURN };
	struct otte_frame answer;
	struct pair pair;
	int fd, i;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies_without_a_module);
	fd = forge(&pair, false, &answer);
	assert_int_equal(ask_socket(&pair, fd), 0);
	pair_close_requester(&pair);
	for (i = 0; i < 30; i++) {
		assert_true(has_lanes(&pair));
		usleep(100000);
	}
	assert_int_equal(local_send(fd, &returned, NULL), 0);
	assert_true(lanes_end(&pair));
	close(fd);
	pair_close_source(&pair);
}

static struct otte_lend granted(const struct pair *pair, int fd)
{
	struct otte_lend lend = { .type = OTTE_LEND_ASK, .region = otte_region_id(pair->remote) };
	uint8_t bytes[SAID];

	encode_lend(bytes, &lend);
	assert_int_equal(send(fd, bytes, SAID, MSG_NOSIGNAL), SAID);
	assert_int_equal(recv(fd, bytes, SAID, MSG_WAITALL), SAID);
	assert_int_equal(otte_lend_decode(bytes + OTTE_FRAME_HEADER, OTTE_LEND_BYTES, &lend), 0);
	assert_int_equal(lend.status, 0);
	return lend;
}

static void accept_loan(const struct pair *pair, uint64_t loan)
{
	assert_int_equal(pair->requester->ledger->ops->loan_accept(pair->requester->client, loan), 0);
}

static void end_loan(const struct pair *pair, uint64_t loan)
{
	const struct otte_ledger_ops *ops = pair->requester->ledger->ops;

	assert_int_equal(ops->loan_settle(pair->requester->client, loan, OTTE_EVIDENCE_RETURNED), 0);
}

/* The borrower takes it, and has ended. */
static void take_and_end(const struct pair *pair, uint64_t loan)
{
	accept_loan(pair, loan);
	end_loan(pair, loan);
}

static void tell_settled(const struct pair *pair, uint64_t loan)
{
	const struct otte_event event = {
		.kind = OTTE_EVENT_SETTLED, .loan = loan, .evidence = OTTE_EVIDENCE_UNMAPPED,
	};

	otte_source_told(pair->source, &event);
}

/* A look for an unknown loan goes through all that there are, in the thread that serves everybody. */
static void a_borrower_that_is_gone_costs_no_look_at_the_ledger(void **state)
{
	struct otte_frame answer;
	struct otte_lend lend;
	struct pair pair;
	int fd, i;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	fd = forge_lane(&pair, &answer);
	for (i = 0; i < 3; i++) {
		lend = granted(&pair, fd);
		take_and_end(&pair, lend.loan);
		take_and_end(&pair, lend.uses);
		tell_settled(&pair, lend.loan);
		tell_settled(&pair, lend.uses);
	}
	close(fd);
	pair_close_requester(&pair);
	assert_true(lanes_end(&pair));
	assert_int_equal(script.in_vain, 0);
	assert_false(awaits(pair.source));
	pair_close_source(&pair);
}

static void tell_missed(const struct pair *pair)
{
	const struct otte_event missed = { .kind = OTTE_EVENT_MISSED, .missed = 1 };

	otte_source_told(pair->source, &missed);
}

/* Nor do those whose end was not heard of, whoever sees to it that news are lost. */
static void what_ended_unheard_costs_no_look_at_the_ledger(void **state)
{
	struct otte_frame answer;
	struct otte_lend lend;
	struct pair pair;
	int fd, i;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	fd = forge_lane(&pair, &answer);
	script.forgetful = true;
	for (i = 0; i < 100; i++) {
		lend = granted(&pair, fd);
		take_and_end(&pair, lend.loan);
		take_and_end(&pair, lend.uses);
	}
	tell_missed(&pair);
	close(fd);
	pair_close_requester(&pair);
	assert_true(lanes_end(&pair));
	assert_int_equal(script.in_vain, 0);
	assert_int_equal(loans(&pair), 0);
	assert_false(awaits(pair.source));
	pair_close_source(&pair);
}

/* Events were lost, of others: whoever ends a thousand loans at once sees to that. */
static void what_is_on_offer_is_not_withdrawn_by_a_look(void **state)
{
	const struct otte_ledger_ops *ops;
	struct otte_borrowed borrowed;
	struct otte_frame answer;
	struct otte_lend lend;
	struct pair pair;
	int fd;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	fd = forge_lane(&pair, &answer);
	lend = granted(&pair, fd);
	tell_missed(&pair);
	ops = pair.requester->ledger->ops;
	assert_int_equal(ops->loan_borrow(pair.requester->client, lend.uses,
					  pair.source->ledger->ops->client_id(pair.source->client), &borrowed), 0);
	close(fd);
	pair_close(&pair);
}

static bool awaits_soon(const struct pair *pair, bool any)
{
	int i;

	for (i = 0; i < 10000 && awaits(pair->source) != any; i++)
		usleep(1000);
	return awaits(pair->source) == any;
}

/* Before its grant is over, or after that: it is asked for then. */
static void a_table_that_ended_unheard_is_awaited_no_longer(void **state)
{
	struct otte_lend lend, give_back = { .type = OTTE_LEND_RETURN };
	struct otte_frame answer;
	uint8_t bytes[SAID];
	struct pair pair;
	int fd, i;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	fd = forge_lane(&pair, &answer);
	script.forgetful = true;
	encode_lend(bytes, &give_back);
	for (i = 0; i < 2; i++) {
		lend = granted(&pair, fd);
		if (i == 0)
			take_and_end(&pair, lend.uses);
		else
			accept_loan(&pair, lend.uses);
		tell_missed(&pair);
		assert_int_equal(send(fd, bytes, SAID, MSG_NOSIGNAL), SAID);
		assert_true(settles(&pair, 0));
		assert_true(awaits_soon(&pair, i == 1));
	}
	tell_missed(&pair);
	assert_true(awaits(pair.source));
	end_loan(&pair, lend.uses);
	tell_missed(&pair);
	assert_true(awaits_soon(&pair, false));
	close(fd);
	pair_close(&pair);
}

/* Accepts so many tables, as far as it gets, and gives back the grants alone; the loan of the last, or 0: none. */
static uint64_t keep_tables(const struct pair *pair, int fd, unsigned count)
{
	struct otte_lend lend, give_back = { .type = OTTE_LEND_RETURN };
	uint8_t bytes[SAID];
	uint64_t last = 0;

	while (count--) {
		lend = granted(pair, fd);
		accept_loan(pair, lend.uses);
		last = lend.uses;
		give_back.id = lend.id;
		encode_lend(bytes, &give_back);
		assert_int_equal(send(fd, bytes, SAID, MSG_NOSIGNAL), SAID);
	}
	return last;
}

/* They cost their lender pages, whose number is not left to that of the clients which a user has. */
static void tables_that_another_user_keeps_are_bounded_whatever_clients_it_has(void **state)
{
	struct pair pair, other, ours;
	struct otte_frame answer;
	uint64_t last;
	int fd, second;

	(void)state;
	module_reset();
	script.user = getuid() + 1;
	pair_open(&pair, BYTES, copies);
	pair_join(&other, &pair, copies);
	script.user = getuid();
	pair_join(&ours, &pair, copies);
	fd = forge_lane(&pair, &answer);
	second = forge_lane(&other, &answer);
	keep_tables(&pair, fd, 100);
	last = keep_tables(&other, second, 28);
	assert_int_equal(ask(&pair, fd), -EDQUOT);
	assert_int_equal(ask(&other, second), -EDQUOT);
	assert_int_equal(pair_run(&ours, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(route(&ours), OTTE_TRANSPORT_LOCAL);
	end_loan(&other, last);
	tell_settled(&pair, last);
	assert_int_equal(ask(&pair, fd), 0);
	close(fd);
	close(second);
	pair_close_requester(&ours);
	pair_close_requester(&other);
	pair_close(&pair);
}

/* One more requester, of a user, with a lane. */
static void of_user(struct pair *peer, struct pair *pair, uint32_t user, int *fd)
{
	struct otte_frame answer;

	script.user = user;
	pair_join(peer, pair, copies);
	*fd = forge_lane(peer, &answer);
}

#define OTHERS 3

/* All other users together less than a process may usually pin; nor is it a loss of our user's. */
static void tables_that_all_keep_are_bounded(void **state)
{
	struct pair pair, ours, others[OTHERS];
	int fds[OTHERS], fd, our_fd, i;
	struct otte_frame answer;

	(void)state;
	module_reset();
	script.user = getuid();
	pair_open(&pair, BYTES, copies);
	fd = forge_lane(&pair, &answer);
	of_user(&ours, &pair, getuid(), &our_fd);
	for (i = 0; i < OTHERS; i++)
		of_user(&others[i], &pair, getuid() + 1 + i, &fds[i]);
	keep_tables(&ours, our_fd, 256);
	assert_int_equal(ask(&ours, our_fd), -EDQUOT);
	assert_int_equal(ask(&pair, fd), 0);
	for (i = 0; i < OTHERS; i++)
		assert_int_equal(ask(&others[i], fds[i]), 0);
	keep_tables(&others[0], fds[0], 128);
	assert_int_equal(ask(&others[0], fds[0]), -EDQUOT);
	assert_int_equal(ask(&others[1], fds[1]), 0);
	keep_tables(&others[1], fds[1], 64);
	for (i = 0; i < OTHERS; i++)
		assert_int_equal(ask(&others[i], fds[i]), -EDQUOT);
	assert_int_equal(ask(&pair, fd), 0);
	assert_int_equal(ask(&ours, our_fd), -EDQUOT);
	for (i = 0; i < OTHERS; i++) {
		close(fds[i]);
		pair_close_requester(&others[i]);
	}
	close(our_fd);
	pair_close_requester(&ours);
	close(fd);
	pair_close(&pair);
}

/* ---- Peers that do not mean well ---- */

struct thief {
	struct pair *pair;
	bool wants_table; /* and not what it is of */
	uint64_t loan;
};

/* Told by the module, or guessing its id, it need not wait for the GRANT. */
static void take_at_once(void *arg, uint64_t loan, bool table)
{
	struct thief *thief = arg;
	const struct otte_engine *engine = thief->pair->requester;
	struct otte_ledger_client *client = engine->client;

	if (table != thief->wants_table)
		return;
	assert_int_equal(engine->ledger->ops->loan_accept(client, loan), 0);
	thief->loan = loan;
}

static void watch_offers(struct thief *thief, struct pair *pair, bool wants_table)
{
	*thief = (struct thief){ .pair = pair, .wants_table = wants_table };
	script.offered_arg = thief;
	script.offered = take_at_once;
}

/* It could be accepted before it is withdrawn: who has no table, since it keeps too many, would have the memory. */
static void nothing_is_on_offer_before_its_table_is(void **state)
{
	struct otte_frame answer;
	struct thief thief;
	struct pair pair;
	int fd;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	fd = forge_lane(&pair, &answer);
	script.refuses_tables = true;
	watch_offers(&thief, &pair, false);
	assert_int_equal(ask(&pair, fd), -EDQUOT);
	script.offered = NULL;
	assert_int_equal(thief.loan, 0);
	assert_int_equal(loans(&pair), 0);
	assert_int_equal(module_tables(), 0);
	close(fd);
	pair_close(&pair);
}

/* What is not lent after all leaves no table on offer; one that was taken is known until its end. */
static void a_table_that_was_taken_without_its_grant_is_awaited(void **state)
{
	struct otte_frame answer;
	struct thief thief;
	struct pair pair;
	int fd;

	(void)state;
	module_reset();
	pair_open(&pair, BYTES, copies);
	fd = forge_lane(&pair, &answer);
	script.refuses_memory = true;
	assert_int_equal(ask(&pair, fd), -EDQUOT);
	assert_int_equal(module_tables(), 0);
	assert_false(awaits(pair.source));
	watch_offers(&thief, &pair, true);
	assert_int_equal(ask(&pair, fd), -EDQUOT);
	script.offered = NULL;
	assert_int_not_equal(thief.loan, 0);
	assert_int_equal(module_tables(), 1);
	assert_true(awaits(pair.source));
	close(fd);
	pair_close(&pair);
}

static int over_a_socket(void **state)
{
	(void)state;
	module_framed = false;
	return 0;
}

static int over_a_lane(void **state)
{
	(void)state;
	module_framed = true;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_arrive_whole_and_nothing_beside_them),
		cmocka_unit_test(what_is_borrowed_takes_no_lane_of_tcps),
		cmocka_unit_test(what_is_not_pinned_goes_over_tcp),
		cmocka_unit_test(a_refused_loan_is_no_error_of_the_requests),
		cmocka_unit_test(what_is_revoked_before_or_within_a_read_comes_over_tcp),
		cmocka_unit_test(a_write_that_was_cut_is_never_tried_again),
		cmocka_unit_test(what_its_owner_unmapped_is_stale),
		cmocka_unit_test(what_may_be_other_pages_is_asked_for_back),
		cmocka_unit_test(a_read_that_has_begun_goes_on_without_its_peer),
		cmocka_unit_test(a_table_that_was_released_is_touched_no_more),
		cmocka_unit_test(a_mapping_is_not_touched_once_its_peer_is_lost),
		cmocka_unit_test(a_write_that_has_begun_ends_with_its_peer),
		cmocka_unit_test(what_does_not_come_back_is_revoked_and_waited_for),
		cmocka_unit_test(what_cannot_be_had_back_is_retained),
		cmocka_unit_test(a_mapping_that_is_not_settled_is_retained_until_its_borrower_ends),
		cmocka_unit_test(a_use_that_stands_still_is_freed_once_its_loan_is_revoked),
		cmocka_unit_test(forged_uses_of_the_lender_end),
		cmocka_unit_test(uses_without_a_slot_are_counted_by_the_lender),
		cmocka_unit_test(a_use_that_is_slow_is_left_alone),
		cmocka_unit_test(what_can_be_taken_away_is_never_mapped),
		cmocka_unit_test(receipts_that_are_refused_are_said_once_a_second),
		cmocka_unit_test(what_is_mapped_is_bounded),
		cmocka_unit_test(who_was_a_peer_is_not_welcome_for_ever),
		cmocka_unit_test(who_cannot_be_made_welcome_is_logged_once),
		cmocka_unit_test(loans_that_come_and_go_harm_no_request),
	};

	const struct CMUnitTest lanes[] = {
		cmocka_unit_test(what_a_lender_did_is_seen_by_whoever_begins_next),
		cmocka_unit_test(another_user_is_lent_copies_alone),
		cmocka_unit_test(a_mark_of_another_user_ends_with_its_loan),
		cmocka_unit_test(users_are_lent_nothing_that_conflicts),
		cmocka_unit_test(a_mark_matters_only_within_what_is_lent),
		cmocka_unit_test(what_one_peer_is_lent_is_bounded_and_no_other_peers_loss),
		cmocka_unit_test(what_one_client_is_lent_is_bounded_whatever_sessions_it_has),
		cmocka_unit_test(what_a_peer_gave_back_counts_no_more_when_it_asks_next),
		cmocka_unit_test(garbage_on_a_lane_harms_nobody),
		cmocka_unit_test(without_lanes_for_loans_it_goes_over_tcp),
		cmocka_unit_test(nothing_is_on_offer_before_its_table_is),
		cmocka_unit_test(a_table_that_was_taken_without_its_grant_is_awaited),
		cmocka_unit_test(a_lane_without_its_session_ends),
		cmocka_unit_test(a_socket_without_its_session_ends),
		cmocka_unit_test(a_socket_that_memory_was_lent_over_stays),
		cmocka_unit_test(a_borrower_that_is_gone_costs_no_look_at_the_ledger),
		cmocka_unit_test(what_ended_unheard_costs_no_look_at_the_ledger),
		cmocka_unit_test(what_is_on_offer_is_not_withdrawn_by_a_look),
		cmocka_unit_test(a_table_that_ended_unheard_is_awaited_no_longer),
		cmocka_unit_test(tables_that_another_user_keeps_are_bounded_whatever_clients_it_has),
		cmocka_unit_test(tables_that_all_keep_are_bounded),
		cmocka_unit_test(a_table_that_cannot_be_pinned_is_told),
	};

	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests_name("lend", tests, over_a_socket, NULL) +
	       cmocka_run_group_tests_name("lanes for loans", lanes, over_a_lane, NULL) +
	       cmocka_run_group_tests_name("lend over a lane", tests, over_a_lane, NULL);
}
