/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Leases, by simulated NICs: what moves by one without its source, and how each ends.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/routes.h"
#include "transport/rdma/source.h"
#include "transport/rdma/use.h"
#include "unit/engine/nics.h"
#include "seen.h"

#define SIZE (1u << 20)

/* ---- What is said, and heard ---- */

static _Atomic unsigned said[18], asked[18];
/* A requester that does not hear of recalls, nor of the ends of leases; a source that has none to give. */
static _Atomic bool deaf, poor;

void __real_otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message);
void __wrap_otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message);

void __wrap_otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message)
{
	atomic_fetch_add(&said[message->type], 1);
	if (!atomic_load(&deaf) ||
	    (message->type != OTTE_RDMA_MSG_RECALL && message->type != OTTE_RDMA_MSG_ENDED))
		__real_otte_rdma_source_say(source, message);
}

void __real_otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths);
void __wrap_otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths);

void __wrap_otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths)
{
	__real_otte_rdma_fill_paths(rdma, paths);
	if (atomic_load(&poor))
		paths->leases = 0;
}

/* A requester that does not say this; and one whose next LEASE is of a time that is over. */
static _Atomic unsigned unsaid;
static _Atomic bool stale_lease;

void __real_otte_rdma_peer_say(struct otte_rdma_peer *peer, const struct otte_rdma_message *message);
void __wrap_otte_rdma_peer_say(struct otte_rdma_peer *peer, const struct otte_rdma_message *message);

void __wrap_otte_rdma_peer_say(struct otte_rdma_peer *peer, const struct otte_rdma_message *message)
{
	struct otte_rdma_message stale = *message;

	atomic_fetch_add(&asked[message->type], 1);
	if (message->type == OTTE_RDMA_MSG_LEASE && atomic_exchange(&stale_lease, false))
		stale.ask.epoch++;
	if (atomic_load(&unsaid) != message->type)
		__real_otte_rdma_peer_say(peer, &stale);
}

/* What evidence the loans of NICs had. */
static _Atomic unsigned evidence[16];

void __real_otte_source_end_lent(struct otte_source_use *use, bool complete, uint32_t as);
void __wrap_otte_source_end_lent(struct otte_source_use *use, bool complete, uint32_t as);

void __wrap_otte_source_end_lent(struct otte_source_use *use, bool complete, uint32_t as)
{
	atomic_fetch_add(&evidence[as], 1);
	__real_otte_source_end_lent(use, complete, as);
}

static int honest(void **state)
{
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(said); i++) {
		atomic_store(&said[i], 0);
		atomic_store(&asked[i], 0);
	}
	for (i = 0; i < ARRAY_SIZE(evidence); i++)
		atomic_store(&evidence[i], 0);
	atomic_store(&deaf, false);
	atomic_store(&poor, false);
	atomic_store(&unsaid, 0);
	atomic_store(&stale_lease, false);
	return with_nics(state);
}

static unsigned messages(void)
{
	unsigned i, sum = 0;

	for (i = 0; i < ARRAY_SIZE(said); i++)
		sum += atomic_load(&said[i]) + atomic_load(&asked[i]);
	return sum;
}

/* ---- Configurations and requests ---- */

static void use_leases(struct otte_config *config)
{
	use_nics_at_once(config);
	config->rdma_destruction_ns = 100000000;
	config->default_deadline_ns = 0;
}

static void use_short_limits(struct otte_config *config)
{
	use_leases(config);
	config->control_timeout_ns = SECOND;
}

static void use_short_idle(struct otte_config *config)
{
	use_leases(config);
	config->rdma_lease_idle_ns = SECOND;
}

/* Long enough that a machine which stands still for two seconds has not missed a renewal. */
static void use_some_idle(struct otte_config *config)
{
	use_leases(config);
	config->rdma_lease_idle_ns = 4 * SECOND;
}

static void lease_open(struct pair *pair, uint64_t size, void (*adjust)(struct otte_config *config))
{
	struct otte_region_info rows[4];
	size_t count;

	pair_open(pair, size, adjust);
	OK(otte_segment_describe(pair->segment, 10 * SECOND, rows, 4, &count));
}

static struct otte_request lease_request(const struct pair *pair, uint8_t op, uint8_t lease, uint64_t offset,
					 uint64_t length)
{
	struct otte_request request = rdma_request(pair, op, offset, length);

	request.lease = lease;
	return request;
}

static struct otte_task run_by(struct pair *pair, const struct otte_request *request)
{
	OK(otte_batch_reset(pair->batch));
	OK(otte_batch_submit(pair->batch, request, 1));
	OK(otte_batch_wait(pair->batch, 20 * SECOND));
	return task_of(pair, 0);
}

/* By a lease of the whole region. */
static struct otte_task run_lease(struct pair *pair, uint8_t op, uint64_t offset, uint64_t length)
{
	const struct otte_request request = lease_request(pair, op, OTTE_LEASE_REGION, offset, length);

	return run_by(pair, &request);
}

static void assert_moved(struct otte_task task)
{
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
}

static uint64_t lease_requests(const struct pair *pair)
{
	return pair_stats(pair->requester).rdma_lease_requests;
}

static bool is_revoked(void *arg)
{
	(void)arg;
	return atomic_load(&evidence[OTTE_EVIDENCE_REVOKED]) > 0;
}

/* ---- What moves ---- */

/* Of its only worker. */
static uint64_t rounds_of(const struct otte_engine *engine)
{
	return ((struct otte_rdma *)engine->transport)->workers[0].rounds;
}

static void it_is_asked_for_once(uint8_t op)
{
	unsigned before, i;
	uint64_t rounds;
	struct pair pair;

	lease_open(&pair, SIZE, use_leases);
	pair_fill(op == OTTE_READ ? pair.remote_bytes : pair.local_bytes, SIZE, 3);
	assert_moved(run_lease(&pair, op, 0, 1));
	before = messages();
	usleep(50000);
	rounds = rounds_of(pair.source);
	for (i = 0; i < 100; i++)
		assert_moved(run_lease(&pair, op, i * 8192, 4096 + i));
	/* The source hears of none of them, and does nothing: it looks up once a second. */
	assert_int_equal(messages(), before);
	assert_in_range(rounds_of(pair.source) - rounds, 0, 10);
	for (i = 0; i < 100; i++)
		assert_memory_equal(pair.local_bytes + i * 8192, pair.remote_bytes + i * 8192, 4096 + i);
	assert_int_equal(pair_stats(pair.source).rdma_leases, 1);
	assert_int_equal(pair_stats(pair.source).rdma_grants, 0);
	assert_int_equal(pair_stats(pair.source).loans, 1);
	assert_int_equal(lease_requests(&pair), 101);
	pair_close(&pair);
	assert_int_equal(atomic_load(&evidence[OTTE_EVIDENCE_REVOKED]), 1);
}

static void many_reads_are_asked_for_once(void **state)
{
	(void)state;
	it_is_asked_for_once(OTTE_READ);
}

static void many_writes_are_asked_for_once(void **state)
{
	(void)state;
	it_is_asked_for_once(OTTE_WRITE);
}

/* As a lone request, which its submitter moves himself. */
static void a_lone_request_needs_no_thread(void **state)
{
	struct otte_request request;
	struct pair pair;
	unsigned i;

	(void)state;
	lease_open(&pair, SIZE, use_leases);
	pair_fill(pair.remote_bytes, SIZE, 4);
	assert_moved(run_lease(&pair, OTTE_READ, 0, 1));
	for (i = 0; i < 50; i++) {
		request = lease_request(&pair, OTTE_READ, OTTE_LEASE_REGION, i * 4096, 4000);
		assert_int_equal(otte_batch_run(pair.batch, &request, 1, 5 * SECOND), 0);
		assert_moved(task_of(&pair, 0));
	}
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, 4000);
	assert_int_equal(lease_requests(&pair), 51);
	pair_close(&pair);
}

static void use_region_leases(struct otte_config *config)
{
	use_leases(config);
	config->rdma_lease = OTTE_LEASE_REGION - OTTE_LEASE_OFF;
}

/* By the configuration; any length, to the byte. */
static void whatever_its_length_it_arrives_whole(void **state)
{
	(void)state;
	pair_move_exact(OTTE_READ, OTTE_TRANSPORT_RDMA, use_region_leases);
	pair_move_exact(OTTE_WRITE, OTTE_TRANSPORT_RDMA, use_region_leases);
	/* Of regions that were not described, so that most have one of their own, as far as there are. */
	assert_true(atomic_load(&asked[OTTE_RDMA_MSG_LEASE]) > atomic_load(&asked[OTTE_RDMA_MSG_ASK]));
}

/* More than there are places for; where each byte is looked at twice they take too long. */
#ifdef __SANITIZE_THREAD__
#define PIECES 1
#else
#define PIECES (OTTE_RDMA_USE_PIECES + 1)
#endif

static void a_long_request_has_several_pieces(void **state)
{
	const uint64_t length = PIECES * OTTE_RDMA_PIECE_BYTES + 3;
	struct pair pair;

	(void)state;
	lease_open(&pair, length, use_leases);
	pair_fill(pair.remote_bytes, length, 5);
	assert_moved(run_lease(&pair, OTTE_READ, 0, length));
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, length);
	assert_int_equal(lease_requests(&pair), 1);
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_ASK]), 0);
	pair_close(&pair);
}

static void use_few_sends(struct otte_config *config)
{
	use_leases(config);
	config->rdma_send_wrs = 4;
}

static void many_at_once_wait_for_room(void **state)
{
	enum { COUNT = 256, EACH = 1000 };
	static struct otte_request requests[COUNT];
	struct pair pair;
	unsigned i;

	(void)state;
	lease_open(&pair, SIZE, use_few_sends);
	pair_fill(pair.remote_bytes, SIZE, 6);
	for (i = 0; i < COUNT; i++)
		requests[i] = lease_request(&pair, OTTE_READ, OTTE_LEASE_REGION, (COUNT - 1 - i) * EACH, EACH);
	sim_progress_set(SIM_THREAD, 0);
	OK(otte_batch_submit(pair.batch, requests, COUNT));
	OK(otte_batch_wait(pair.batch, 20 * SECOND));
	for (i = 0; i < COUNT; i++)
		assert_moved(task_of(&pair, i));
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, COUNT * EACH);
	assert_int_equal(lease_requests(&pair), COUNT);
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_LEASE]), 1);
	pair_close(&pair);
}

/* Of its range alone, where nothing larger was named; another range is another lease. */
static void a_range_is_leased_by_itself(void **state)
{
	struct otte_request request;
	struct pair pair;

	(void)state;
	lease_open(&pair, SIZE, use_leases);
	request = lease_request(&pair, OTTE_READ, OTTE_LEASE_RANGE, 4096, 8192);
	assert_moved(run_by(&pair, &request));
	request = lease_request(&pair, OTTE_READ, OTTE_LEASE_RANGE, 5000, 100);
	assert_moved(run_by(&pair, &request));
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_LEASE]), 1);
	request = lease_request(&pair, OTTE_READ, OTTE_LEASE_RANGE, 4095, 1);
	assert_moved(run_by(&pair, &request));
	request = lease_request(&pair, OTTE_READ, OTTE_LEASE_RANGE, 4096 + 8191, 2);
	assert_moved(run_by(&pair, &request));
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_LEASE]), 3);
	request = lease_request(&pair, OTTE_READ, OTTE_LEASE_OFF, 4096, 100);
	assert_moved(run_by(&pair, &request));
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_ASK]), 1);
	assert_int_equal(pair_stats(pair.source).loans, 3);
	pair_close(&pair);
}

/* ---- Where there is none ---- */

static void a_peer_that_gives_none_is_asked_for_none(void **state)
{
	struct pair pair;

	(void)state;
	atomic_store(&poor, true);
	lease_open(&pair, SIZE, use_leases);
	assert_moved(run_lease(&pair, OTTE_READ, 0, 4096));
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_LEASE]), 0);
	assert_int_equal(pair_stats(pair.source).rdma_grants, 1);
	pair_close(&pair);
}

static void use_two_leases(struct otte_config *config)
{
	use_leases(config);
	config->rdma_leases = 2;
}

/* One of two for one peer; beyond that each request is granted once, and what is not used gives way. */
static void there_are_so_many(void **state)
{
	struct otte_request request;
	struct pair pair, other;
	unsigned i;

	(void)state;
	lease_open(&pair, SIZE, use_two_leases);
	pair_join(&other, &pair, use_two_leases);
	for (i = 0; i < 3; i++) {
		request = lease_request(&pair, OTTE_READ, OTTE_LEASE_RANGE, i * 8192, 4096);
		assert_moved(run_by(&pair, &request));
	}
	assert_int_equal(pair_stats(pair.source).rdma_leases, 1);
	assert_int_equal(pair_stats(pair.source).loans, 1);
	request = lease_request(&other, OTTE_READ, OTTE_LEASE_RANGE, 65536, 4096);
	assert_moved(run_by(&other, &request));
	assert_int_equal(pair_stats(pair.source).rdma_leases, 2);
	pair_close_requester(&other);
	pair_close(&pair);
}

/* What is not there is refused as ever, and no lease is left of it. */
static void what_is_refused_is_no_lease(void **state)
{
	struct otte_request request;
	struct otte_access access;
	struct pair pair;

	(void)state;
	lease_open(&pair, SIZE, use_leases);
	OK(otte_access_begin(&pair.remote_mem->access, &access, 0, 4096, true));
	request = lease_request(&pair, OTTE_READ, OTTE_LEASE_RANGE, 4095, 2);
	assert_int_equal(run_by(&pair, &request).code, -EBUSY);
	otte_access_end(&pair.remote_mem->access, &access);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	assert_int_equal(pair_stats(pair.source).rdma_leases, 0);
	assert_moved(run_by(&pair, &request));
	pair_close(&pair);
}

static void use_one_grant(struct otte_config *config)
{
	use_leases(config);
	config->rdma_grants = 1;
}

static bool has_asked(void *arg)
{
	(void)arg;
	return atomic_load(&asked[OTTE_RDMA_MSG_ASK]) > 0;
}

/* Refused a lease, a request goes stretch by stretch; by the second one a lease could be had again. */
static void what_began_by_grants_goes_on_by_grants(void **state)
{
	const uint64_t length = OTTE_RDMA_PIECE_BYTES + 70000;
	struct otte_request request;
	struct pair pair;

	(void)state;
	lease_open(&pair, length, use_one_grant);
	pair_fill(pair.remote_bytes, length, 8);
	sim_progress_set(SIM_STEPPED, 0);
	atomic_store(&stale_lease, true);
	request = lease_request(&pair, OTTE_READ, OTTE_LEASE_REGION, 0, length);
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_true(comes(has_asked, NULL));
	usleep(1200000); /* a second: then a lease is asked for again */
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 20 * SECOND));
	assert_moved(task_of(&pair, 0));
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, length);
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_LEASE]), 1);
	assert_int_equal(pair_stats(pair.source).rdma_grants, 2);
	assert_int_equal(sim_counts(NULL).bytes_read, length);
	pair_close(&pair);
}

/* Nobody would know that a part of it is not the file's any more. */
static void what_is_a_file_is_not_leased(void **state)
{
	struct otte_region_desc desc = { .length = SIZE, .access = OTTE_REMOTE_READ };
	struct otte_request request;
	struct otte_region *view;
	struct pair pair;
	int fd = memfd_create("leases", 0);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	lease_open(&pair, SIZE, use_leases);
	OK(otte_mem_map_file(pair.source, fd, 0, SIZE, 0, &desc.mem));
	OK(otte_region_register(pair.source, &desc, 1, &view));
	memset(otte_mem_address(desc.mem), 0x66, SIZE);
	request = lease_request(&pair, OTTE_READ, OTTE_LEASE_RANGE, 0, 4096);
	request.remote_region = otte_region_id(view);
	assert_moved(run_by(&pair, &request));
	assert_int_equal(pair.local_bytes[4095], 0x66);
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_LEASE]), 1);
	assert_int_equal(atomic_load(&said[OTTE_RDMA_MSG_LEASED]), 0);
	assert_int_equal(pair_stats(pair.source).rdma_grants, 1);
	OK(otte_region_unregister(&view, 1, 5 * SECOND, NULL));
	OK(otte_mem_release(desc.mem));
	close(fd);
	pair_close(&pair);
}

/* ---- How it ends ---- */

/* Written, and then read: the one lease gives way to the other. */
static void a_lease_in_the_way_is_given_back(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	lease_open(&pair, SIZE, use_leases);
	for (i = 0; i < 3; i++) {
		pair_fill(pair.local_bytes, SIZE, (uint8_t)i);
		assert_moved(run_lease(&pair, OTTE_WRITE, 0, SIZE));
		assert_memory_equal(pair.local_bytes, pair.remote_bytes, SIZE);
		memset(pair.local_bytes, 0, SIZE);
		assert_moved(run_lease(&pair, OTTE_READ, 0, SIZE));
		assert_memory_equal(pair.local_bytes, pair.remote_bytes, SIZE);
	}
	assert_true(atomic_load(&said[OTTE_RDMA_MSG_RECALL]) > 0);
	assert_int_equal(pair_stats(pair.requester).retries, 0);
	pair_close(&pair);
}

/* Each one ends by an invalidation; the next one has its window. */
static void many_leases_need_few_windows(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	lease_open(&pair, SIZE, use_leases);
	for (i = 0; i < 100; i++) {
		assert_moved(run_lease(&pair, OTTE_WRITE, 0, 4096));
		assert_moved(run_lease(&pair, OTTE_READ, 0, 4096));
	}
	assert_in_range(atomic_load(&said[OTTE_RDMA_MSG_LEASED]), 100, 200);
	assert_in_range(sim_counts(nics[SOURCE][0]).mws, 1, 4);
	pair_close(&pair);
}

/* A holder that does not hear of the recall, and others who want its range. */
static void hold_deaf(struct pair *pair, uint8_t op)
{
	atomic_store(&deaf, true);
	assert_moved(run_lease(pair, op, 0, 4096));
	assert_int_equal(atomic_load(&said[OTTE_RDMA_MSG_LEASED]), 1);
}

static bool is_recalled(void *arg)
{
	(void)arg;
	return atomic_load(&said[OTTE_RDMA_MSG_RECALL]) > 0;
}

/* Which is no work for the thread, until the time of the recall is over. */
static void who_waits_for_a_lease_costs_nothing(void **state)
{
	struct otte_request request;
	struct pair pair, other;
	uint64_t rounds;

	(void)state;
	lease_open(&pair, SIZE, use_leases);
	pair_join(&other, &pair, use_leases);
	hold_deaf(&pair, OTTE_WRITE);
	request = rdma_request(&other, OTTE_READ, 0, 4096);
	OK(otte_batch_submit(other.batch, &request, 1));
	assert_true(comes(is_recalled, NULL));
	rounds = rounds_of(pair.source);
	usleep(300000);
	assert_in_range(rounds_of(pair.source) - rounds, 0, 100);
	/* It is taken from its holder before who waits for it gives up. */
	OK(otte_batch_wait(other.batch, 20 * SECOND));
	assert_moved(task_of(&other, 0));
	assert_int_equal(atomic_load(&said[OTTE_RDMA_MSG_REFUSED]), 0);
	pair_close_requester(&other);
	pair_close(&pair);
}

/* Leases of others, which are no conflict with the one that is there, do not go before who waits for all of them. */
static void who_waits_is_not_passed_by_leases(void **state)
{
	struct otte_request request;
	struct pair pair, writer, reader;

	(void)state;
	lease_open(&pair, SIZE, use_leases);
	pair_join(&writer, &pair, use_leases);
	pair_join(&reader, &pair, use_leases);
	assert_moved(run(&reader, OTTE_READ, SIZE / 2, 4096));
	hold_deaf(&pair, OTTE_READ);
	request = rdma_request(&writer, OTTE_WRITE, 0, 4096);
	OK(otte_batch_submit(writer.batch, &request, 1));
	assert_true(comes(is_recalled, NULL));
	request = lease_request(&reader, OTTE_READ, OTTE_LEASE_RANGE, 0, 4096);
	OK(otte_batch_reset(reader.batch));
	OK(otte_batch_submit(reader.batch, &request, 1));
	OK(otte_batch_wait(writer.batch, 20 * SECOND));
	assert_moved(task_of(&writer, 0));
	OK(otte_batch_wait(reader.batch, 20 * SECOND));
	assert_int_equal(atomic_load(&said[OTTE_RDMA_MSG_LEASED]), 1);
	pair_close_requester(&reader);
	pair_close_requester(&writer);
	pair_close(&pair);
}

/* Who may not write it has no reader's lease taken from it. */
static void who_may_not_have_it_recalls_nothing(void **state)
{
	struct otte_region_desc desc = { .length = 65536, .access = OTTE_REMOTE_READ };
	struct otte_request request;
	struct otte_region *view;
	struct pair pair, other;

	(void)state;
	lease_open(&pair, SIZE, use_leases);
	pair_join(&other, &pair, use_leases);
	desc.mem = pair.remote_mem;
	OK(otte_region_register(pair.source, &desc, 1, &view));
	request = lease_request(&pair, OTTE_READ, OTTE_LEASE_RANGE, 0, 4096);
	request.remote_region = otte_region_id(view);
	assert_moved(run_by(&pair, &request));
	request = lease_request(&other, OTTE_WRITE, OTTE_LEASE_RANGE, 0, 4096);
	request.remote_region = otte_region_id(view);
	atomic_store(&unsaid, OTTE_RDMA_MSG_ASK);
	OK(otte_batch_submit(other.batch, &request, 1));
	assert_true(comes(has_asked, NULL)); /* what a lease was refused to */
	assert_int_equal(atomic_load(&said[OTTE_RDMA_MSG_REFUSED]), 1);
	assert_int_equal(atomic_load(&said[OTTE_RDMA_MSG_RECALL]), 0);
	OK(otte_batch_cancel(other.batch));
	OK(otte_batch_wait(other.batch, 20 * SECOND));
	atomic_store(&unsaid, 0);
	pair_close_requester(&other);
	OK(otte_region_unregister(&view, 1, 5 * SECOND, NULL));
	pair_close(&pair);
}

static void unregister_asks_for_it_back(void **state)
{
	struct pair pair;
	uint64_t then_ns;

	(void)state;
	lease_open(&pair, SIZE, use_leases);
	assert_moved(run_lease(&pair, OTTE_READ, 0, 4096));
	then_ns = otte_now_ns();
	OK(otte_region_unregister(&pair.remote, 1, 4 * SECOND, NULL));
	/* It has not waited for what takes leases back. */
	assert_true(otte_now_ns() - then_ns < 2 * SECOND);
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_RETURN]), 1);
	assert_int_equal(atomic_load(&evidence[OTTE_EVIDENCE_REVOKED]), 1);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	assert_int_equal(pair_stats(pair.source).served_requests, 1);
	assert_int_equal(pair_stats(pair.source).served_read_bytes, 4096);
	/* Nor has it cost a queue pair. */
	assert_int_equal(pair_stats(pair.requester).rdma_qps, 1);
	close_rest(&pair);
}

/* Whose holder is silent: it is revoked, and what it does next is refused by the NIC. */
static struct otte_task use_revoked(uint8_t op, uint32_t transport)
{
	struct otte_region_desc desc = { .length = 4096, .access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE };
	struct otte_request request;
	struct otte_region *view;
	struct otte_task task;
	struct pair pair;

	lease_open(&pair, SIZE, use_short_limits);
	desc.mem = pair.remote_mem;
	desc.offset = 65536;
	OK(otte_region_register(pair.source, &desc, 1, &view));
	pair_fill(pair.remote_bytes, SIZE, 9);
	atomic_store(&deaf, true);
	atomic_store(&unsaid, OTTE_RDMA_MSG_RETURN);
	request = lease_request(&pair, op, OTTE_LEASE_RANGE, 0, 4096);
	request.remote_region = otte_region_id(view);
	assert_moved(run_by(&pair, &request));
	/* Another one's use, so that it is wanted back; the region stays. */
	otte_rdma_source_recall((struct otte_rdma *)pair.source->transport, 0);
	assert_true(comes(is_revoked, NULL));
	assert_int_equal(pair_stats(pair.source).loans, 0);
	memset(pair.local_bytes, 0x77, 4096);
	memset(pair.remote_bytes + 65536, 0x55, 4096);
	request.transport = (uint8_t)transport;
	task = run_by(&pair, &request);
	if (task.code)
		assert_int_equal(pair.local_bytes[0], 0x77);
	else
		assert_int_equal(pair.local_bytes[0], 0x55);
	if (op == OTTE_WRITE)
		assert_int_equal(pair.remote_bytes[65536], 0x55);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(pair_stats(pair.requester).retries, op == OTTE_READ);
	assert_int_equal(pair_stats(pair.source).retained, 0);
	OK(otte_region_unregister(&view, 1, 5 * SECOND, NULL));
	pair_close(&pair);
	return task;
}

static void what_was_revoked_reads_nothing(void **state)
{
	struct otte_task task;

	(void)state;
	task = use_revoked(OTTE_READ, OTTE_TRANSPORT_ANY);
	assert_int_equal(task.code, 0);
}

static void what_was_revoked_writes_nothing(void **state)
{
	struct otte_task task;

	(void)state;
	task = use_revoked(OTTE_WRITE, OTTE_TRANSPORT_ANY);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
}

static void a_silent_holder_keeps_no_region(void **state)
{
	struct pair pair;

	(void)state;
	lease_open(&pair, SIZE, use_short_limits);
	atomic_store(&deaf, true);
	assert_moved(run_lease(&pair, OTTE_READ, 0, 4096));
	OK(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL));
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_RETURN]), 0);
	assert_int_equal(atomic_load(&evidence[OTTE_EVIDENCE_REVOKED]), 1);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	close_rest(&pair);
}

static void a_silent_holder_keeps_no_engine(void **state)
{
	struct pair pair;

	(void)state;
	lease_open(&pair, SIZE, use_short_limits);
	atomic_store(&deaf, true);
	assert_moved(run_lease(&pair, OTTE_WRITE, 0, 4096));
	OK(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, 5 * SECOND, NULL));
	assert_int_equal(atomic_load(&evidence[OTTE_EVIDENCE_REVOKED]), 1);
	pair_close(&pair);
}

/* Of the invalidation nobody hears: its pair is closed, and that is the evidence. */
static void an_invalidation_that_is_never_heard_of_costs_the_pair(void **state)
{
	const struct sim_fault fault = { .kind = SIM_FAULT_CQE_LOST, .target = nics[SOURCE][0], .times = 1 };
	struct pair pair;
	unsigned id;

	(void)state;
	lease_open(&pair, SIZE, use_short_limits);
	assert_moved(run_lease(&pair, OTTE_READ, 0, 4096));
	id = sim_fault_arm(&fault);
	OK(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL));
	assert_int_equal(sim_fault_hits(id), 1);
	assert_int_equal(atomic_load(&evidence[OTTE_EVIDENCE_REVOKED]), 1);
	assert_true(comes(is_unconnected, &pair));
	assert_int_equal(pair_stats(pair.source).retained, 0);
	close_rest(&pair);
}

/* The requester gives back what it does not use. */
static void what_is_not_used_goes_back(void **state)
{
	struct pair pair;

	(void)state;
	lease_open(&pair, SIZE, use_short_idle);
	assert_moved(run_lease(&pair, OTTE_READ, 0, 4096));
	assert_true(comes(is_drained, &pair));
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_RETURN]), 1);
	/* None where whoever looks came too late for it. */
	assert_in_range(atomic_load(&asked[OTTE_RDMA_MSG_RENEW]), 0, 1);
	assert_int_equal(pair_stats(pair.requester).rdma_qps, 1);
	assert_moved(run_lease(&pair, OTTE_READ, 0, 4096));
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_LEASE]), 2);
	pair_close(&pair);
}

static void what_is_used_is_renewed(void **state)
{
	unsigned requests = 0;
	uint64_t until_ns;
	struct pair pair;

	(void)state;
	lease_open(&pair, SIZE, use_some_idle);
	until_ns = otte_now_ns() + 7 * SECOND;
	while (otte_now_ns() < until_ns) {
		assert_moved(run_lease(&pair, OTTE_READ, 0, 4096));
		requests++;
		usleep(5000);
	}
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_LEASE]), 1);
	assert_in_range(atomic_load(&asked[OTTE_RDMA_MSG_RENEW]), 1, 4);
	assert_int_equal(lease_requests(&pair), requests);
	OK(otte_region_unregister(&pair.remote, 1, 4 * SECOND, NULL));
	assert_int_equal(pair_stats(pair.source).served_requests, requests);
	close_rest(&pair);
}

/* The source takes what is not renewed, by its own clock. */
static void what_is_not_renewed_is_revoked(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	lease_open(&pair, SIZE, use_some_idle);
	assert_moved(run_lease(&pair, OTTE_READ, 0, 4096));
	atomic_store(&unsaid, OTTE_RDMA_MSG_RENEW);
	/* Whichever request comes next may have another one; one that was under way has moved nothing. */
	while (!is_revoked(NULL)) {
		task = run_lease(&pair, OTTE_READ, 0, 4096);
		if (task.code)
			assert_int_equal(task.code, -ECONNRESET);
		else
			assert_moved(task);
		usleep(5000);
	}
	assert_int_equal(atomic_load(&asked[OTTE_RDMA_MSG_RETURN]), 0);
	assert_true(is_revoked(NULL));
	pair_close(&pair);
}

/* With the requester's session everything goes. */
static void a_requester_that_is_gone_has_nothing_any_more(void **state)
{
	struct pair pair;

	(void)state;
	lease_open(&pair, SIZE, use_leases);
	assert_moved(run_lease(&pair, OTTE_READ, 0, 4096));
	assert_moved(run_lease(&pair, OTTE_READ, 8192, 4096));
	otte_control_client_stop(&pair.segment->peer->control, -ECONNRESET);
	assert_true(comes(is_drained, &pair));
	assert_int_equal(atomic_load(&evidence[OTTE_EVIDENCE_REVOKED]), 1);
	assert_int_equal(pair_stats(pair.source).retained, 0);
	OK(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL));
	close_rest(&pair);
}

/* A link that is cut: READs go another way once the NIC has given up, WRITEs have an unknown effect. */
static void a_pair_that_is_lost_takes_its_lease(void **state)
{
	struct otte_request request;
	struct otte_task task;
	struct pair pair;
	unsigned op;

	(void)state;
	for (op = OTTE_READ; op <= OTTE_WRITE; op++) {
		lease_open(&pair, SIZE, use_leases);
		assert_moved(run_lease(&pair, (uint8_t)op, 0, 4096));
		sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], false);
		request = lease_request(&pair, (uint8_t)op, OTTE_LEASE_REGION, 0, 4096);
		request.transport = OTTE_TRANSPORT_ANY;
		task = run_by(&pair, &request);
		assert_int_equal(task.code, op == OTTE_READ ? 0 : -ECONNRESET);
		assert_int_equal(task.remote_effect, op == OTTE_READ ? OTTE_EFFECT_NONE : OTTE_EFFECT_UNKNOWN);
		assert_int_equal(task.locally_drained, 1);
		sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], true);
		assert_true(comes(is_unconnected, &pair));
		assert_int_equal(pair_stats(pair.source).retained, 0);
		pair_close(&pair);
		honest(NULL);
	}
}

static void what_waits_for_its_bytes_can_be_cancelled(void **state)
{
	struct otte_request request;
	struct otte_task task;
	uint64_t then_ns;
	struct pair pair;

	(void)state;
	lease_open(&pair, SIZE, use_leases);
	assert_moved(run_lease(&pair, OTTE_READ, 0, 4096));
	sim_progress_set(SIM_STEPPED, 0);
	request = lease_request(&pair, OTTE_READ, OTTE_LEASE_REGION, 0, 4096);
	OK(otte_batch_reset(pair.batch));
	OK(otte_batch_submit(pair.batch, &request, 1));
	usleep(20000);
	OK(otte_batch_cancel(pair.batch));
	usleep(20000);
	/* The NIC is at it. */
	assert_int_equal(task_of(&pair, 0).state, OTTE_TASK_DISPATCHED);
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 5 * SECOND));
	task = task_of(&pair, 0);
	assert_true(task.code == 0 || task.code == -ECANCELED);
	assert_int_equal(task.locally_drained, 1);
	/* Its deadline does not wait for the NIC. */
	sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], false);
	sim_retry_set(SIM_BY_CLOCK);
	then_ns = otte_now_ns();
	request.deadline_ns = then_ns + SECOND / 10;
	task = run_by(&pair, &request);
	assert_true(otte_now_ns() - then_ns < 4 * SECOND / 10);
	assert_int_equal(task.code, -ETIMEDOUT);
	assert_int_equal(task.locally_drained, 1);
	sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], true);
	pair_close(&pair);
}

/* ---- rxe ---- */

/* Of what was leased: by the source, as if it had to have it back. */
static void recall_all(struct pair *pair)
{
	struct otte_rdma *rdma = (struct otte_rdma *)pair->source->transport;

	otte_rdma_source_recall(rdma, 0);
	assert_true(comes(is_drained, pair));
}

/* There a window that was invalidated is not used again, and pins no memory; nor does the region. */
static void on_rxe_nothing_is_invalidated_twice(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	sim_device_be_rxe(nics[SOURCE][0]);
	sim_device_be_rxe(nics[REQUESTER][0]);
	lease_open(&pair, SIZE, use_leases);
	for (i = 1; i <= 3; i++) {
		assert_moved(run_lease(&pair, OTTE_READ, 0, SIZE));
		recall_all(&pair);
		assert_int_equal(sim_counts(nics[SOURCE][0]).mws, i > 1);
		assert_moved(run(&pair, OTTE_READ, 0, 4096));
		/* Of the grants, which are given back by the peer; and of each lease. */
		assert_int_equal(sim_calls(SIM_ALLOC_MW), 1 + i);
	}
	assert_int_equal(pair_stats(pair.source).rdma_leases, 3);
	OK(otte_region_unregister(&pair.remote, 1, 4 * SECOND, NULL));
	assert_int_equal(sim_counts(nics[SOURCE][0]).mws_bound, 0);
	assert_true(sim_counts(nics[SOURCE][0]).pinned_bytes < SIZE);
	close_rest(&pair);
}

int main(void)
{
#define LEASE(test) cmocka_unit_test_setup_teardown(test, honest, nothing_is_left)
	const struct CMUnitTest tests[] = {
		LEASE(many_reads_are_asked_for_once),
		LEASE(many_writes_are_asked_for_once),
		LEASE(a_lone_request_needs_no_thread),
		LEASE(whatever_its_length_it_arrives_whole),
		LEASE(a_long_request_has_several_pieces),
		LEASE(many_at_once_wait_for_room),
		LEASE(a_range_is_leased_by_itself),
		LEASE(a_peer_that_gives_none_is_asked_for_none),
		LEASE(there_are_so_many),
		LEASE(what_is_refused_is_no_lease),
		LEASE(what_began_by_grants_goes_on_by_grants),
		LEASE(what_is_a_file_is_not_leased),
		LEASE(a_lease_in_the_way_is_given_back),
		LEASE(many_leases_need_few_windows),
		LEASE(who_waits_for_a_lease_costs_nothing),
		LEASE(who_waits_is_not_passed_by_leases),
		LEASE(who_may_not_have_it_recalls_nothing),
		LEASE(unregister_asks_for_it_back),
		LEASE(what_was_revoked_reads_nothing),
		LEASE(what_was_revoked_writes_nothing),
		LEASE(a_silent_holder_keeps_no_region),
		LEASE(a_silent_holder_keeps_no_engine),
		LEASE(an_invalidation_that_is_never_heard_of_costs_the_pair),
		LEASE(what_is_not_used_goes_back),
		LEASE(what_is_used_is_renewed),
		LEASE(what_is_not_renewed_is_revoked),
		LEASE(a_requester_that_is_gone_has_nothing_any_more),
		LEASE(a_pair_that_is_lost_takes_its_lease),
		LEASE(what_waits_for_its_bytes_can_be_cancelled),
		LEASE(on_rxe_nothing_is_invalidated_twice),
	};

	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
