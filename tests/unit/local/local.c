/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Transport local between two engines of one process, which are two peers of one host. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/batch.h"
#include "engine/direct.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "transport/local/local.h"
#include "unit/engine/pair.h"

static void trusted(struct otte_config *config)
{
	config->local_trusted = 1;
}

static void few_maps(struct otte_config *config)
{
	config->local_trusted = 1;
	config->local_maps = 3;
}

struct crossing {
	struct otte_uses *uses;
	_Atomic int *bytes;
	uint32_t owner;
	unsigned seed, held, wrong;
};

static _Atomic unsigned exchanges;

bool __real_local_copy_exchange(struct otte_transport_peer *peer, struct otte_work *work);
bool __wrap_local_copy_exchange(struct otte_transport_peer *peer, struct otte_work *work);
bool __wrap_local_copy_exchange(struct otte_transport_peer *peer, struct otte_work *work)
{
	bool done = __real_local_copy_exchange(peer, work);

	exchanges += done;
	return done;
}

/* What is moved in its call is no less; `within` looks on when the bytes have moved. */
static _Atomic unsigned directs;
static void (*within)(void *arg);
static void *within_arg;

bool __real_local_copy_direct(struct otte_transport_peer *peer, struct otte_work *work);
bool __wrap_local_copy_direct(struct otte_transport_peer *peer, struct otte_work *work);
bool __wrap_local_copy_direct(struct otte_transport_peer *peer, struct otte_work *work)
{
	bool done = __real_local_copy_direct(peer, work);

	exchanges += done;
	directs += done;
	if (done && within)
		within(within_arg);
	return done;
}

/* `moving` looks on before they do. */
static void (*moving)(void *arg);

int __real_local_way_move(const struct local_grant *grant, struct otte_work *work, uint64_t length);
int __wrap_local_way_move(const struct local_grant *grant, struct otte_work *work, uint64_t length);
int __wrap_local_way_move(const struct local_grant *grant, struct otte_work *work, uint64_t length)
{
	if (moving)
		moving(within_arg);
	return __real_local_way_move(grant, work, length);
}

/* While a request is live its plan may be pinned. */
static struct otte_peer *_Atomic watched;
static _Atomic unsigned unplanned, unplanned_live;

void __real_tcp_peer_unplan(struct otte_work *work);
void __wrap_tcp_peer_unplan(struct otte_work *work);
void __wrap_tcp_peer_unplan(struct otte_work *work)
{
	struct otte_peer *peer = watched;

	if (peer) {
		pthread_mutex_lock(&peer->lock);
		unplanned_live += peer->live != NULL;
		pthread_mutex_unlock(&peer->lock);
	}
	unplanned++;
	__real_tcp_peer_unplan(work);
}

/* Who takes the other one for a stranger. The socket of a source has the source's name. */
enum side {
	NOBODY,
	REQUESTER,
	SOURCE,
};

static _Atomic enum side distrusts;

int __real_local_check_user(int fd);
int __wrap_local_check_user(int fd);
int __wrap_local_check_user(int fd)
{
	struct sockaddr_un own;
	socklen_t length = sizeof(own);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &length), 0);
	if (distrusts == (length > sizeof(sa_family_t) ? SOURCE : REQUESTER))
		return otte_fail(-EPERM, "process 7 is of user 8, not of ours (9): it may not map memory");
	return __real_local_check_user(fd);
}

static uint32_t route(struct pair *pair)
{
	struct otte_task task;

	assert_int_equal(otte_batch_task(pair->batch, 0, &task), 0);
	return task.transport;
}

static void a_read_brings_the_exact_range_by_local(void **state)
{
	(void)state;
	pair_move_exact(OTTE_READ, OTTE_TRANSPORT_LOCAL, trusted);
}

static void a_write_brings_the_exact_range_by_local(void **state)
{
	(void)state;
	pair_move_exact(OTTE_WRITE, OTTE_TRANSPORT_LOCAL, trusted);
}

static int run_by(struct pair *pair, uint8_t transport, uint8_t op, uint64_t offset, uint64_t length)
{
	struct otte_request request = pair_request(pair, op, offset, offset, length);
	struct otte_task task;

	request.transport = transport;
	assert_int_equal(otte_batch_reset(pair->batch), 0);
	assert_int_equal(otte_batch_submit(pair->batch, &request, 1), 0);
	assert_int_equal(otte_batch_wait(pair->batch, 30 * SECOND), 0);
	assert_int_equal(otte_batch_task(pair->batch, 0, &task), 0);
	assert_true(task.locally_drained);
	return task.code;
}

static struct local_peer *peer_of(struct pair *pair)
{
	return container_of(pair->segment->peer->transport, struct local_peer, base);
}

/* Under the peer's lock: the engine's thread gives grants back whenever it is asked to. */
static struct local_grant *find_grant(struct pair *pair, uint8_t op)
{
	struct local_grant *grant, *next;

	HASH_ITER(hh, peer_of(pair)->grants, grant, next)
		if (grant->key.region == otte_region_id(pair->remote) && grant->key.op == op)
			return grant;
	return NULL;
}

static struct local_grant *grant_of(struct pair *pair, uint8_t op)
{
	struct local_peer *peer = peer_of(pair);
	struct local_grant *grant;

	otte_tail_lock(&peer->lock);
	grant = find_grant(pair, op);
	otte_tail_unlock(&peer->lock);
	return grant;
}

static unsigned count_grants(struct pair *pair)
{
	struct local_peer *peer = peer_of(pair);
	unsigned count;

	otte_tail_lock(&peer->lock);
	count = HASH_COUNT(peer->grants);
	otte_tail_unlock(&peer->lock);
	return count;
}

static void nothing_is_mapped_unless_both_sides_said_so(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 1 << 20, NULL);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_TCP);
	assert_int_equal(pair.remote_mem->fd, -1);
	pair_close(&pair);
}

static void a_request_may_name_its_transport(void **state)
{
	struct otte_request request;
	struct pair pair;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_TCP, OTTE_READ, 0, 4096), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_TCP);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
	pair_close(&pair);
	pair_open(&pair, 1 << 20, NULL);
	request = pair_request(&pair, OTTE_READ, 0, 0, 64);
	request.transport = OTTE_TRANSPORT_LOCAL;
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), -ENOSYS);
	assert_non_null(strstr(otte_error_text(), "local.trusted"));
	pair_close(&pair);
}

static void expect_refusal(struct pair *pair, const char *why)
{
	struct otte_failure failure;

	assert_int_equal(run_by(pair, OTTE_TRANSPORT_LOCAL, OTTE_WRITE, 0, 4096), -ENOTCONN);
	assert_int_equal(otte_batch_failure(pair->batch, &failure), 0);
	if (!strstr(failure.text, why))
		fail_msg("it says: %s", failure.text);
	assert_non_null(strstr(failure.text, "remote effect none, local range drained"));
	/* The other way is open. */
	assert_int_equal(run_by(pair, OTTE_TRANSPORT_ANY, OTTE_WRITE, 0, 4096), 0);
	assert_int_equal(route(pair), OTTE_TRANSPORT_TCP);
}

/* Another requester, which trusts the source, in place of the pair's. */
static void trust_alone(struct pair *pair)
{
	struct otte_region_desc desc = { .length = pair->size };
	char address[OTTE_ADDRESS_MAX];
	struct otte_config config;

	pair_close_requester(pair);
	assert_int_equal(otte_config_init(&config, sizeof(config)), 0);
	trusted(&config);
	config.listen_address[0] = '\0';
	assert_int_equal(otte_engine_create(&config, &pair->requester), 0);
	assert_int_equal(otte_mem_alloc(pair->requester, pair->size, 0, &pair->local_mem), 0);
	desc.mem = pair->local_mem;
	assert_int_equal(otte_region_register(pair->requester, &desc, 1, &pair->local), 0);
	assert_int_equal(otte_engine_address(pair->source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(pair->requester, address, OTTE_EPOCH_ANY, 30 * SECOND,
					   &pair->segment), 0);
	assert_int_equal(otte_batch_create(pair->requester, 16, &pair->batch), 0);
}

static void a_request_that_wants_this_transport_is_told_why_it_has_none(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 1 << 20, NULL);
	trust_alone(&pair);
	expect_refusal(&pair, ": the peer lacks local.trusted; ");
	pair_close(&pair);
	distrusts = REQUESTER;
	pair_open(&pair, 1 << 20, trusted);
	expect_refusal(&pair, ": process 7 is of user 8, not of ours (9)");
	pair_close(&pair);
	distrusts = SOURCE;
	pair_open(&pair, 1 << 20, trusted);
	expect_refusal(&pair, ": the peer turned us away: of another user");
	pair_close(&pair);
	distrusts = NOBODY;
}

/* What cannot be mapped goes over TCP, whose answers are the same as ever. */
static void what_cannot_be_moved_here_is_handed_on(void **state)
{
	static uint8_t bytes[65536];
	struct otte_region_desc desc = { .length = sizeof(bytes), .access = OTTE_REMOTE_READ };
	struct otte_request request;
	struct otte_region *adopted;
	struct otte_mem *mem;
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	assert_int_equal(otte_mem_adopt(pair.source, bytes, sizeof(bytes), &mem), 0);
	desc.mem = mem;
	assert_int_equal(otte_region_register(pair.source, &desc, 1, &adopted), 0);
	request = pair_request(&pair, OTTE_READ, 0, 0, sizeof(bytes));
	request.remote_region = otte_region_id(adopted);
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
	request.transport = OTTE_TRANSPORT_LOCAL;
	request.local_offset = sizeof(bytes);
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
	request.transport = OTTE_TRANSPORT_ANY;
	request.op = OTTE_WRITE;
	request.local_offset = 2 * sizeof(bytes);
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
	request.remote_region += 1000;
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
	assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
	assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	assert_int_equal(otte_batch_task(pair.batch, 1, &task), 0);
	assert_int_equal(task.code, -EOPNOTSUPP);
	assert_int_equal(otte_batch_task(pair.batch, 2, &task), 0);
	assert_int_equal(task.code, -EACCES);
	assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	assert_int_equal(otte_batch_task(pair.batch, 3, &task), 0);
	assert_int_equal(task.code, -ENOENT);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, pair.size - 8, 9), -ERANGE);
	assert_int_equal(otte_region_unregister(&adopted, 1, 10 * SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(mem), 0);
	pair_close(&pair);
}

/* The source has a READ's range for a moment after its last byte has come. */
static void wait_idle(struct pair *pair)
{
	while (otte_access_any(&pair->remote_mem->access))
		usleep(100);
}

/* A use of the source's own, of a peer that came by TCP, or of another that has the memory mapped. */
static void an_overlapping_write_is_refused_whoever_is_there(void **state)
{
	static const uint8_t routes[] = { OTTE_TRANSPORT_ANY, OTTE_TRANSPORT_TCP, OTTE_TRANSPORT_LOCAL };
	struct otte_access access;
	struct pair pair;
	unsigned i, held, op;
	int slot;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	for (i = 0; i < 3; i++) {
		for (held = OTTE_READ; held <= OTTE_WRITE; held++) {
			for (op = OTTE_READ; op <= OTTE_WRITE; op++) {
				int expected = held || op ? -EBUSY : 0;

				wait_idle(&pair);
				assert_int_equal(otte_access_begin(&pair.remote_mem->access, &access, 4096,
								   4096, held), 0);
				assert_int_equal(run_by(&pair, routes[i], op, 8191, 64), expected);
				assert_int_equal(run_by(&pair, routes[i], op, 8192, 64), 0);
				assert_int_equal(run_by(&pair, routes[i], op, 4032, 64), 0);
				otte_access_end(&pair.remote_mem->access, &access);
				wait_idle(&pair);
				slot = otte_uses_begin(pair.remote_mem->uses, 77, 4096, 8192, held);
				assert_true(slot >= 0);
				assert_int_equal(run_by(&pair, routes[i], op, 8191, 64), expected);
				assert_int_equal(run_by(&pair, routes[i], op, 8192, 64), 0);
				/* Left behind by one that died. */
				otte_uses_clear(pair.remote_mem->uses, 77);
				assert_int_equal(run_by(&pair, routes[i], op, 8191, 64), 0);
			}
		}
	}
	pair_close(&pair);
}

/* What is under way when the memory is lent for the first time counts as well. */
static void uses_from_before_the_first_grant_are_seen(void **state)
{
	struct otte_access access;
	struct pair pair;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	assert_int_equal(otte_access_begin(&pair.remote_mem->access, &access, 0, 100, true), 0);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 99, 1), -EBUSY);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 100, 1), 0);
	otte_access_end(&pair.remote_mem->access, &access);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 99, 1), 0);
	pair_close(&pair);
}

/* What a process that is wrong leaves in the table, while nobody uses it. */
static void scribble(struct pair *pair, uint64_t what)
{
	struct otte_uses *uses = pair->remote_mem->uses;
	unsigned i;

	wait_idle(pair);
	for (i = 0; i < OTTE_USES_SLOTS; i++) {
		atomic_store(&uses->slots[i].word, what);
		atomic_store(&uses->slots[i].start, what);
		atomic_store(&uses->slots[i].end, what);
	}
	atomic_store(&uses->top, (uint32_t)what);
	atomic_store(&uses->coarse_readers, (uint32_t)what);
	atomic_store(&uses->coarse_writers, (uint32_t)what);
}

static void a_full_or_senseless_table_sends_requests_over_tcp(void **state)
{
	struct otte_access access;
	struct otte_uses *uses;
	struct pair pair;
	unsigned i;
	int held = OTTE_USES_NONE;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	uses = pair.remote_mem->uses;
	for (i = 0; i < OTTE_USES_SLOTS; i++) {
		held = otte_uses_begin(uses, 77, 1 << 19, (1 << 19) + 1, false);
		assert_int_equal(held % OTTE_USES_SLOTS, i);
	}
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 0, 4096), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_TCP);
	/* The source's use is of all bytes then, for those who have the memory mapped. */
	assert_int_equal(otte_access_begin(&pair.remote_mem->access, &access, 0, 100, true), 0);
	assert_int_equal(access.slot, OTTE_USES_COARSE);
	otte_uses_end(uses, held);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 200, 64), -EBUSY);
	otte_access_end(&pair.remote_mem->access, &access);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 200, 64), 0);
	/* Whatever stands there, calls end; here, as a use of all bytes by nobody in particular. */
	scribble(&pair, UINT64_MAX);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_TCP);
	scribble(&pair, 0);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096), 0);
	pair_close(&pair);
}

static void unregistering_waits_for_the_receipt_and_nothing_moves_after(void **state)
{
	struct local_grant *grant;
	struct local_peer *peer;
	struct pair pair;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 0, 4096), 0);
	assert_int_equal(pair_stats(pair.source).loans, 2);
	/* A copy that does not end keeps its grant, and so the region. */
	peer = peer_of(&pair);
	otte_tail_lock(&peer->lock);
	grant = find_grant(&pair, OTTE_READ);
	grant->users++;
	otte_tail_unlock(&peer->lock);
	assert_int_equal(otte_region_unregister(&pair.remote, 1, SECOND / 5, NULL), -ETIMEDOUT);
	/* The requester may still have to hear of it. */
	while (!grant->leaving)
		usleep(1000);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), -ENOENT);
	while (pair_stats(pair.source).loans != 1)
		usleep(1000);
	otte_tail_lock(&peer->lock);
	local_grant_put(peer, grant);
	otte_tail_unlock(&peer->lock);
	assert_int_equal(otte_region_unregister(&pair.remote, 1, 10 * SECOND, NULL), 0);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	pair_close_requester(&pair);
	assert_int_equal(otte_mem_release(pair.remote_mem), 0);
	assert_int_equal(otte_engine_destroy(pair.source), 0);
}

/* A SIGBUS would be the end of the program. */
static void memory_of_ours_that_goes_away_fails_the_request_alone(void **state)
{
	struct otte_region_desc desc = { .length = 65536 };
	struct otte_region *region;
	struct otte_request request;
	struct otte_task task;
	struct otte_mem *mem;
	struct pair pair;
	uint8_t *bytes;
	unsigned op;
	int fd;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	pair_fill(pair.remote_bytes, pair.size, 9);
	fd = memfd_create("ours", 0);
	assert_int_equal(ftruncate(fd, 65536), 0);
	assert_int_equal(otte_mem_map_file(pair.requester, fd, 0, 0, 0, &mem), 0);
	bytes = otte_mem_address(mem);
	desc.mem = mem;
	assert_int_equal(otte_region_register(pair.requester, &desc, 1, &region), 0);
	for (op = OTTE_READ; op <= OTTE_WRITE; op++) {
		request = pair_request(&pair, (uint8_t)op, 0, 0, 65536);
		request.local = region;
		request.transport = OTTE_TRANSPORT_LOCAL;
		assert_int_equal(ftruncate(fd, 65536), 0);
		assert_int_equal(otte_batch_reset(pair.batch), 0);
		assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
		assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
		assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
		assert_int_equal(task.code, 0);
		assert_memory_equal(bytes, pair.remote_bytes, 65536);
		assert_int_equal(ftruncate(fd, 4096), 0);
		assert_int_equal(otte_batch_reset(pair.batch), 0);
		assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
		assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
		assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
		assert_int_equal(task.code, -ESTALE);
		assert_int_equal(task.remote_effect, op == OTTE_WRITE ? OTTE_EFFECT_UNKNOWN : OTTE_EFFECT_NONE);
		assert_true(task.locally_drained);
	}
	close(fd);
	assert_int_equal(otte_region_unregister(&region, 1, 10 * SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(mem), 0);
	pair_close(&pair);
}

static void closing_the_source_takes_back_what_is_lent(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	struct pair pair;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, 10 * SECOND, &report), 0);
	assert_int_equal(report.loans, 0);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), -ESHUTDOWN);
	pair_close(&pair);
}

static void what_is_lent_for_reading_cannot_be_mapped_for_writing(void **state)
{
	struct pair pair;
	void *map;
	int fd;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	fd = grant_of(&pair, OTTE_READ)->fd;
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_equal(map, MAP_FAILED);
	assert_int_equal(errno, EACCES);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	pair_close(&pair);
}

static void mappings_are_bounded_and_the_oldest_goes_first(void **state)
{
	struct otte_region_desc descs[6];
	struct otte_region *regions[6];
	struct otte_request request;
	struct otte_task task;
	struct pair pair;
	unsigned i, round;

	(void)state;
	pair_open(&pair, 1 << 20, few_maps);
	for (i = 0; i < 6; i++)
		descs[i] = (struct otte_region_desc){
			.mem = pair.remote_mem, .offset = i * 8192 + 100, .length = 8192,
			.access = OTTE_REMOTE_READ,
		};
	assert_int_equal(otte_region_register(pair.source, descs, 6, regions), 0);
	pair_fill(pair.remote_bytes, pair.size, 3);
	for (round = 0; round < 20; round++) {
		for (i = 0; i < 6; i++) {
			request = pair_request(&pair, OTTE_READ, 0, 50, 4096);
			request.remote_region = otte_region_id(regions[i]);
			assert_int_equal(otte_batch_reset(pair.batch), 0);
			assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
			assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
			assert_int_equal(otte_batch_task(pair.batch, 0, &task), 0);
			assert_int_equal(task.transport, OTTE_TRANSPORT_LOCAL);
			assert_memory_equal(pair.local_bytes, pair.remote_bytes + descs[i].offset + 50, 4096);
			assert_in_range(count_grants(&pair), 1, 3);
		}
	}
	assert_int_equal(otte_region_unregister(regions, 6, 10 * SECOND, NULL), 0);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	pair_close(&pair);
}

static void the_source_is_told_what_was_done(void **state)
{
	struct otte_stats stats;
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	for (i = 0; i < 100; i++)
		assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 1000), 0);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_WRITE, 0, 10), 0);
	for (i = 0; i < 5000 && pair_stats(pair.source).served_requests < 101; i++)
		usleep(1000);
	stats = pair_stats(pair.source);
	assert_int_equal(stats.served_requests, 101);
	assert_int_equal(stats.served_read_bytes, 100 * 1000);
	assert_int_equal(stats.served_write_bytes, 10);
	assert_int_equal(pair_stats(pair.requester).completed, 101);
	pair_close(&pair);
}

static int run_lone(struct pair *pair, uint8_t transport, uint8_t op, uint64_t offset, uint64_t length)
{
	struct otte_request request = pair_request(pair, op, offset, offset, length);
	struct otte_task task;
	int failed;

	request.transport = transport;
	failed = otte_batch_run(pair->batch, &request, 1, -1);
	assert_true(failed >= 0);
	assert_int_equal(otte_batch_task(pair->batch, 0, &task), 0);
	assert_int_equal(failed, task.code != 0);
	assert_true(task.locally_drained);
	return task.code;
}

/* Nothing else is live, so what is not too long is over when its submission is, again and again. */
static void a_lone_run_is_one_exchange(void **state)
{
	static const uint64_t sizes[] = {
		1, 17, 4096, 65537, 256 << 10, (256 << 10) + 1, (1 << 20) + 3, 16 << 20,
	};
	const uint64_t size = 20 << 20;
	unsigned before, i;
	struct pair pair;
	size_t at;

	(void)state;
	pair_open(&pair, size, trusted);
	for (at = 0; at < sizeof(sizes) / sizeof(sizes[0]); at++) {
		pair_fill(pair.remote_bytes, size, (uint8_t)at);
		memset(pair.local_bytes, 0xee, size);
		before = exchanges;
		for (i = 0; i < 1000 && exchanges < before + 3; i++) {
			assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_ANY, OTTE_READ, 64, sizes[at]), 0);
			assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
		}
		assert_int_equal(exchanges, before + 3);
		assert_memory_equal(pair.local_bytes + 64, pair.remote_bytes + 64, sizes[at]);
		assert_int_equal(pair.local_bytes[63], 0xee);
		assert_int_equal(pair.local_bytes[64 + sizes[at]], 0xee);
	}
	/* After a pause the lanes are looked after first, and then it is so again. */
	usleep(50000);
	before = exchanges;
	for (i = 0; i < 8; i++)
		assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_LOCAL, OTTE_WRITE, 64, 65536), 0);
	assert_true(exchanges > before);
	before = exchanges;
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, (16 << 20) + 1), 0);
	assert_int_equal(exchanges, before);
	pair_close(&pair);
}

static void reach(unsigned count)
{
	while (unplanned < count)
		usleep(100);
}

static void a_plan_goes_when_its_request_is_out_of_reach(void **state)
{
	struct pair pair;
	unsigned before;

	(void)state;
	pair_open(&pair, 4 << 20, trusted);
	before = unplanned;
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 64), 0);
	reach(before + 1);
	unplanned = unplanned_live = 0;
	watched = pair.segment->peer;
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 64), 0);
	reach(1);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4 << 20), 0);
	reach(2);
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, (256 << 10) + 1), 0);
	reach(3);
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 1 << 20), 0);
	reach(4);
	watched = NULL;
	assert_int_equal(unplanned_live, 0);
	pair_close(&pair);
}

/* An exchange that local cannot make is TCP's, or fails where nobody but local was to make it. */
static void an_exchange_in_anothers_way_is_handed_on(void **state)
{
	struct local_grant *grant;
	unsigned before, i;
	struct pair pair;
	int slot;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096), 0);
	grant = grant_of(&pair, OTTE_READ);
	/* By another reader in the way of none but local: a writer who is called coarse. */
	atomic_store(&grant->uses->coarse_writers, 1);
	before = exchanges;
	for (i = 0; i < 1000 && exchanges == before; i++)
		assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096), -EBUSY);
	assert_true(exchanges > before);
	pair_fill(pair.remote_bytes, 4096, 9);
	for (i = 0; i < 100; i++) {
		assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_ANY, OTTE_READ, 0, 4096), 0);
		assert_int_equal(route(&pair), OTTE_TRANSPORT_TCP);
	}
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, 4096);
	atomic_store(&grant->uses->coarse_writers, 0);
	slot = otte_uses_begin(grant->uses, 99, 0, 1 << 20, false);
	assert_true(slot >= 0);
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096), 0);
	otte_uses_end(grant->uses, slot);
	pair_close(&pair);
}

/* Once the grant is there, and nothing else is under way. */
static void open_direct(struct pair *pair, void (*configure)(struct otte_config *config), uint8_t op)
{
	unsigned i;

	pair_open(pair, 1 << 20, configure);
	directs = 0;
	for (i = 0; i < 1000 && !directs; i++)
		assert_int_equal(run_lone(pair, OTTE_TRANSPORT_ANY, op, 0, 4096), 0);
	assert_int_equal(directs, 1);
	directs = 0;
}

/* A request that is moved in its call; `look` looks on when its bytes have moved (within), or before (moving). */
static int run_watched(struct pair *pair, uint8_t op, uint64_t offset, uint64_t length, void (**when)(void *arg),
		       void (*look)(void *arg), void *arg)
{
	struct otte_request request = pair_request(pair, op, offset, offset, length);
	unsigned before = directs;
	int ret;

	within_arg = arg;
	*when = look;
	ret = otte_batch_run(pair->batch, &request, 1, -1);
	*when = NULL;
	assert_int_equal(directs, before + 1);
	return ret;
}

/* What another thread begins during such a request. */
struct meanwhile {
	void (*act)(void *arg);
	void *arg;
	_Atomic bool began, ended;
	bool ended_within;
	pthread_t thread;
};

static void *act_meanwhile(void *arg)
{
	struct meanwhile *meanwhile = arg;

	meanwhile->began = true;
	meanwhile->act(meanwhile->arg);
	meanwhile->ended = true;
	return NULL;
}

static void begin_meanwhile(void *arg)
{
	struct meanwhile *meanwhile = arg;

	assert_int_equal(pthread_create(&meanwhile->thread, NULL, act_meanwhile, meanwhile), 0);
	while (!meanwhile->began)
		usleep(100);
	usleep(200000);
	meanwhile->ended_within = meanwhile->ended;
}

/* `act` in another thread ends no earlier than the READ that is moved in its call. */
static void assert_waits_for_the_call(struct pair *pair, void (**when)(void *arg), void (*act)(void *arg), void *arg)
{
	struct meanwhile meanwhile = { .act = act, .arg = arg };

	assert_int_equal(run_watched(pair, OTTE_READ, 0, 64, when, begin_meanwhile, &meanwhile), 0);
	pthread_join(meanwhile.thread, NULL);
	assert_false(meanwhile.ended_within);
	assert_true(meanwhile.ended);
}

static void a_short_lone_run_is_moved_in_its_call_and_counted(void **state)
{
	struct otte_stats before, after;
	struct otte_batch_status status;
	struct pair pair;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	before = pair_stats(pair.requester);
	pair_fill(pair.remote_bytes, 1 << 20, 3);
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_ANY, OTTE_READ, 100, 65536), 0);
	assert_int_equal(directs, 1);
	assert_memory_equal(pair.local_bytes + 100, pair.remote_bytes + 100, 65536);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
	after = pair_stats(pair.requester);
	assert_int_equal(after.submitted - before.submitted, 1);
	assert_int_equal(after.completed - before.completed, 1);
	assert_int_equal(after.read_bytes - before.read_bytes, 65536);
	assert_int_equal(after.requests, 0);
	assert_int_equal(otte_batch_poll(pair.batch, &status), 0);
	assert_int_equal(status.submitted, 1);
	assert_int_equal(status.finished, 1);
	assert_int_equal(status.completed_prefix, 1);
	assert_int_equal(status.bytes_completed, 65536);
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_ANY, OTTE_READ, 100, 262145), 0);
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_TCP, OTTE_READ, 100, 64), 0);
	assert_int_equal(directs, 1);
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_ANY, OTTE_READ, 100, 262144), 0);
	assert_int_equal(directs, 2);
	pair_close(&pair);
}

/* Something else of the engine's is under way, or another transport, a clock or an eventfd has a say. */
static void who_is_not_alone_is_submitted(void **state)
{
	struct otte_request request;
	struct pair pair;
	int failed;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	atomic_fetch_add(&pair.requester->requests, 1);
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_ANY, OTTE_READ, 0, 64), 0);
	atomic_fetch_sub(&pair.requester->requests, 1);
	assert_int_equal(directs, 0);
	request = pair_request(&pair, OTTE_READ, 0, 0, 64);
	request.transport = OTTE_TRANSPORT_RDMA;
	pair.requester->no_rdma = 0;
	assert_false(otte_direct_run(pair.batch, &request, &failed));
	request.transport = OTTE_TRANSPORT_ANY;
	request.deadline_ns = 1;
	assert_true(otte_batch_run(pair.batch, &request, 1, -1) >= 0);
	assert_int_equal(directs, 0);
	request.deadline_ns = OTTE_DEADLINE_NONE;
	assert_true(otte_batch_eventfd(pair.batch) >= 0);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, -1), 0);
	assert_int_equal(directs, 0);
	pair_close(&pair);
}

static void gated(struct otte_config *config)
{
	config->local_trusted = 1;
	snprintf(config->slots_domain, sizeof(config->slots_domain), "unit");
	config->slot_interval_ns = SECOND / 1000;
}

static void few_low(struct otte_config *config)
{
	config->local_trusted = 1;
	config->max_low_requests = 8;
}

static void what_a_gate_or_a_tier_decides_is_submitted(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, 1 << 20, gated);
	directs = 0;
	for (i = 0; i < 20; i++)
		assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_ANY, OTTE_READ, 0, 64), 0);
	pair_close(&pair);
	pair_open(&pair, 1 << 20, few_low);
	for (i = 0; i < 20; i++)
		assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_ANY, OTTE_READ, 0, 64), 0);
	pair_close(&pair);
	assert_int_equal(directs, 0);
}

static int begin_and_end(struct otte_access_map *map, uint64_t offset, uint64_t length, bool write)
{
	struct otte_access access;
	int ret = otte_access_begin(map, &access, offset, length, write);

	if (!ret)
		otte_access_end(map, &access);
	return ret;
}

static void look_at_the_range(void *arg)
{
	struct pair *pair = arg;
	struct otte_access_map *map = &pair->local_mem->access;

	assert_int_equal(otte_engine_requests(pair->requester), 1);
	assert_true(otte_access_any(map));
	assert_int_equal(begin_and_end(map, 8191, 1, false), -EBUSY);
	assert_int_equal(begin_and_end(map, 8192, 1, true), 0);
	assert_int_equal(begin_and_end(map, 4095, 1, true), 0);
}

static void look_at_the_source_of_a_write(void *arg)
{
	struct pair *pair = arg;
	struct otte_access_map *map = &pair->local_mem->access;

	assert_int_equal(begin_and_end(map, 4096, 1, true), -EBUSY);
	assert_int_equal(begin_and_end(map, 4096, 1, false), 0);
}

static void nobody_touches_its_range_meanwhile(void **state)
{
	struct otte_access access;
	struct pair pair;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	assert_int_equal(run_watched(&pair, OTTE_READ, 4096, 4096, &within, look_at_the_range, &pair), 0);
	assert_false(otte_access_any(&pair.local_mem->access));
	/* And it keeps off another's. */
	assert_int_equal(otte_access_begin(&pair.local_mem->access, &access, 0, 64, false), 0);
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_ANY, OTTE_READ, 4096, 4096), 0);
	assert_int_equal(directs, 1);
	otte_access_end(&pair.local_mem->access, &access);
	pair_close(&pair);
	open_direct(&pair, trusted, OTTE_WRITE);
	assert_int_equal(run_watched(&pair, OTTE_WRITE, 4096, 4096, &within, look_at_the_source_of_a_write, &pair),
			 0);
	pair_close(&pair);
}

/* Lent memory has a table that its borrowers look at: what is alone stands there, too. */
static void look_at_the_table(void *arg)
{
	assert_int_equal(otte_uses_begin(arg, 7, 4096, 4097, false), OTTE_USES_CONFLICT);
}

static void what_is_lent_as_well_has_its_table_told(void **state)
{
	struct otte_mem_lent lent = { .end = 1 << 20 };
	struct otte_request request;
	struct pair pair;
	int slot;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	assert_int_equal(otte_mem_lend(pair.local_mem, &lent, false), 0);
	assert_int_equal(run_watched(&pair, OTTE_READ, 4096, 4096, &within, look_at_the_table, pair.local_mem->uses),
			 0);
	slot = otte_uses_begin(pair.local_mem->uses, 7, 0, 1 << 20, false);
	assert_true(slot >= 0);
	request = pair_request(&pair, OTTE_READ, 4096, 4096, 64);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, -1), -EBUSY);
	assert_int_equal(directs, 1);
	otte_uses_end(pair.local_mem->uses, slot);
	otte_mem_unlend(pair.local_mem, &lent);
	pair_close(&pair);
}

static void unmap(void *arg)
{
	atomic_store((_Atomic uint64_t *)arg, 1);
}

static void stale_in_its_call(uint8_t op, uint8_t effect)
{
	_Atomic uint64_t word = 0;
	struct otte_request request;
	struct otte_failure failure;
	struct otte_stats before, after;
	struct otte_region_watch watch;
	struct pair pair;

	open_direct(&pair, trusted, op);
	watch = pair.local->watch;
	pair.local->watch = (struct otte_region_watch){ .word = &word, .mask = 1 };
	before = pair_stats(pair.requester);
	assert_int_equal(run_watched(&pair, op, 0, 64, &within, unmap, &word), 1);
	assert_int_equal(otte_batch_failure(pair.batch, &failure), 0);
	assert_int_equal(failure.code, -ESTALE);
	assert_int_equal(failure.remote_effect, effect);
	assert_int_equal(failure.locally_drained, 1);
	after = pair_stats(pair.requester);
	assert_int_equal(after.failed - before.failed, 1);
	assert_int_equal(after.completed, before.completed);
	assert_int_equal(after.stale_regions - before.stale_regions, 1);
	/* And before: nothing moves. */
	request = pair_request(&pair, op, 0, 0, 64);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, -1), -ESTALE);
	assert_int_equal(directs, 1);
	pair.local->watch = watch;
	pair_close(&pair);
}

static void memory_that_goes_away_in_its_call_is_no_success(void **state)
{
	(void)state;
	stale_in_its_call(OTTE_READ, OTTE_EFFECT_NONE);
	stale_in_its_call(OTTE_WRITE, OTTE_EFFECT_UNKNOWN);
}

static void unregister(void *arg)
{
	assert_int_equal(otte_region_unregister(arg, 1, 10 * SECOND, NULL), 0);
}

static void unregistering_waits_for_what_is_moved_in_its_call(void **state)
{
	struct pair pair;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	assert_waits_for_the_call(&pair, &within, unregister, &pair.local);
	pair.local = NULL;
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	pair_close(&pair);
}

/* The source's region, which the requester has mapped: called back, it goes when the bytes have moved. */
static void a_grant_stays_while_it_moves_in_a_call(void **state)
{
	struct pair pair;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	assert_waits_for_the_call(&pair, &moving, unregister, &pair.remote);
	pair.remote = NULL;
	pair_close(&pair);
}

struct looker {
	struct otte_batch *batch;
	struct otte_batch_status status;
};

static void look_at_the_batch(void *arg)
{
	struct looker *looker = arg;

	assert_int_equal(otte_batch_poll(looker->batch, &looker->status), 0);
}

static void who_looks_at_a_batch_sees_what_has_moved(void **state)
{
	struct looker looker = { .batch = NULL };
	struct pair pair;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	looker.batch = pair.batch;
	assert_waits_for_the_call(&pair, &moving, look_at_the_batch, &looker);
	assert_int_equal(looker.status.finished, 1);
	assert_int_equal(looker.status.bytes_completed, 64);
	pair_close(&pair);
}

static void try_to_close(void *arg)
{
	struct otte_close_report report = { .size = sizeof(report) };

	assert_int_equal(otte_engine_close(arg, OTTE_CLOSE_REQUESTER, SECOND / 100, &report), -ETIMEDOUT);
	assert_int_equal(report.requests, 1);
}

static void closing_waits_for_what_is_moved_in_its_call(void **state)
{
	struct otte_request request;
	struct pair pair;
	int failed;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	assert_int_equal(run_watched(&pair, OTTE_READ, 0, 64, &within, try_to_close, pair.requester), 0);
	assert_int_equal(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, SECOND, NULL), 0);
	request = pair_request(&pair, OTTE_READ, 0, 0, 64);
	assert_false(otte_direct_run(pair.batch, &request, &failed));
	assert_int_equal(directs, 1);
	pair_close(&pair);
}

struct late_runner {
	struct pair *pair;
	int code;
};

static void *run_late(void *arg)
{
	struct late_runner *runner = arg;
	struct otte_request request = pair_request(runner->pair, OTTE_READ, 0, 0, 64);

	request.transport = OTTE_TRANSPORT_TCP;
	runner->code = otte_batch_run(runner->pair->batch, &request, 1, -1);
	return NULL;
}

/* It was open when it was looked at first. */
static void who_was_let_in_before_close_does_not_begin_after_it(void **state)
{
	struct late_runner runner;
	struct pair pair;
	pthread_t thread;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	assert_int_equal(run_lone(&pair, OTTE_TRANSPORT_ANY, OTTE_READ, 0, 64), 0);
	runner = (struct late_runner){ .pair = &pair };
	pthread_mutex_lock(&pair.batch->submit_lock);
	pthread_create(&thread, NULL, run_late, &runner);
	usleep(50000);
	assert_int_equal(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, SECOND, NULL), 0);
	pthread_mutex_unlock(&pair.batch->submit_lock);
	pthread_join(thread, NULL);
	assert_int_equal(runner.code, -ESHUTDOWN);
	assert_int_equal(otte_engine_requests(pair.requester), 0);
	assert_int_equal(atomic_load(&pair.requester->bytes), 0);
	pair_close(&pair);
}

/* The engine's thread looks after connections while requests are moved in calls, which lead for nobody. */
static void lanes_are_heard_beside_what_is_moved_in_calls(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	for (i = 0; i < 10; i++)
		assert_int_equal(run_by(&pair, OTTE_TRANSPORT_TCP, OTTE_READ, 0, 64), 0);
	atomic_store(&pair.requester->direct.busy, true);
	assert_int_equal(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL), 0);
	atomic_store(&pair.requester->direct.busy, false);
	pair.remote = NULL;
	pair_close(&pair);
}

struct closer {
	struct otte_segment *segment;
	int code;
};

static void *close_segment(void *arg)
{
	struct closer *closer = arg;

	closer->code = otte_segment_close(closer->segment);
	return NULL;
}

static void have_it_closed(void *arg)
{
	pthread_t thread;

	pthread_create(&thread, NULL, close_segment, arg);
	pthread_join(thread, NULL);
}

static void a_segment_is_not_closed_while_it_moves_in_a_call(void **state)
{
	struct closer closer = { .code = 1 };
	struct pair pair;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	closer.segment = pair.segment;
	assert_int_equal(run_watched(&pair, OTTE_READ, 0, 64, &within, have_it_closed, &closer), 0);
	assert_int_equal(closer.code, -EBUSY);
	/* And is once nothing moves. */
	pair_close(&pair);
}

static void a_hidden_region_is_not_moved_in_a_call(void **state)
{
	struct otte_region *region;
	struct otte_request request;
	struct pair pair;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	region = pair.local;
	assert_int_equal(otte_region_use(region), 0);
	assert_int_equal(otte_region_unregister(&region, 1, 0, NULL), -ETIMEDOUT);
	request = pair_request(&pair, OTTE_READ, 0, 0, 64);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, -1), -ENOENT);
	assert_int_equal(directs, 0);
	otte_region_unuse(pair.local);
	pair_close(&pair);
}

/* Two that call, each with a batch of its own, and one that looks on and cancels. */
struct caller {
	struct pair *pair;
	struct otte_batch *batch;
	unsigned seed, done, refused;
	_Atomic bool *over;
};

static void call_once(struct caller *caller)
{
	uint64_t length = 1 + (uint64_t)rand_r(&caller->seed) % 4096, offset = (uint64_t)rand_r(&caller->seed) % 8192;
	uint8_t op = rand_r(&caller->seed) % 2 ? OTTE_WRITE : OTTE_READ;
	struct otte_request request = pair_request(caller->pair, op, offset, offset, length);
	struct otte_task task;
	int ret;

	if (rand_r(&caller->seed) % 4) {
		ret = otte_batch_run(caller->batch, &request, 1, -1);
	} else {
		assert_int_equal(otte_batch_reset(caller->batch), 0);
		ret = otte_batch_submit(caller->batch, &request, 1);
		if (!ret)
			assert_int_equal(otte_batch_wait(caller->batch, 30 * SECOND), 0);
	}
	if (ret < 0) {
		assert_int_equal(ret, -EBUSY);
		caller->refused++;
		return;
	}
	assert_int_equal(otte_batch_task(caller->batch, 0, &task), 0);
	assert_true(task.locally_drained);
	if (task.code)
		assert_true(task.code == -EBUSY || task.code == -ECANCELED);
	else
		caller->done++;
}

static void *call(void *arg)
{
	unsigned i;

	for (i = 0; i < 3000; i++)
		call_once(arg);
	return NULL;
}

static void *look_on(void *arg)
{
	struct caller *callers = arg;
	struct otte_batch_status status;
	struct otte_task task;
	unsigned i;

	for (i = 0; !*callers->over; i++) {
		assert_int_equal(otte_batch_poll(callers[i % 2].batch, &status), 0);
		assert_true(status.finished <= status.submitted && status.submitted <= 1);
		assert_true(status.failed + status.completed_prefix == status.finished);
		otte_batch_task(callers[i % 2].batch, 0, &task);
		if (i % 64 == 0)
			assert_int_equal(otte_batch_cancel(callers[i % 2].batch), 0);
		pair_stats(callers->pair->requester);
	}
	return NULL;
}

/* Nothing is lost or counted twice, whatever came in between; the bytes are all the same, and stay so. */
static void calls_in_several_threads_end_each_as_one(void **state)
{
	struct caller callers[2];
	_Atomic bool over = false;
	pthread_t threads[3];
	struct otte_stats stats;
	struct pair pair;
	unsigned i;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	memset(pair.local_bytes, 0x5a, pair.size);
	memset(pair.remote_bytes, 0x5a, pair.size);
	for (i = 0; i < 2; i++) {
		callers[i] = (struct caller){ .pair = &pair, .seed = 4711 + i, .over = &over };
		assert_int_equal(otte_batch_create(pair.requester, 1, &callers[i].batch), 0);
	}
	printf("seed 4711\n");
	assert_int_equal(pthread_create(&threads[2], NULL, look_on, callers), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	over = true;
	pthread_join(threads[2], NULL);
	for (i = 0; i < 2; i++) {
		assert_true(callers[i].done > 0);
		assert_int_equal(otte_batch_destroy(callers[i].batch), 0);
	}
	assert_true(directs > 0);
	for (i = 0; i < 20480; i++) {
		assert_int_equal(pair.local_bytes[i], 0x5a);
		assert_int_equal(pair.remote_bytes[i], 0x5a);
	}
	assert_false(otte_access_any(&pair.local_mem->access));
	wait_idle(&pair);
	stats = pair_stats(pair.requester);
	assert_int_equal(stats.submitted, stats.completed + stats.failed);
	assert_int_equal(stats.requests, 0);
	assert_int_equal(stats.bytes, 0);
	pair_close(&pair);
}

static void *call_shared(void *arg)
{
	struct caller *caller = arg;
	struct otte_request request;
	unsigned i;
	int ret;

	for (i = 0; i < 5000; i++) {
		request = pair_request(caller->pair, OTTE_READ, caller->seed, caller->seed, 64);
		ret = otte_batch_run(caller->batch, &request, 1, -1);
		if (ret)
			assert_int_equal(ret, -EBUSY);
		else
			caller->done++;
	}
	return NULL;
}

/* A submission may be at the batch whose other thread would move its request inside its call. */
static void calls_of_one_batch_keep_off_each_other(void **state)
{
	struct otte_stats before, after;
	struct otte_batch_status status;
	struct caller callers[2];
	pthread_t threads[2];
	struct pair pair;
	unsigned i;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	before = pair_stats(pair.requester);
	for (i = 0; i < 2; i++) {
		callers[i] = (struct caller){ .pair = &pair, .batch = pair.batch, .seed = i * 64 };
		assert_int_equal(pthread_create(&threads[i], NULL, call_shared, &callers[i]), 0);
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	after = pair_stats(pair.requester);
	assert_true(directs > 0);
	assert_int_equal(after.completed - before.completed, callers[0].done + callers[1].done);
	assert_int_equal(after.failed, before.failed);
	assert_int_equal(otte_batch_poll(pair.batch, &status), 0);
	assert_int_equal(status.finished, status.submitted);
	pair_close(&pair);
}

struct insister {
	struct pair *pair;
	struct otte_request request;
	_Atomic unsigned moved;
	int code;
};

static void *insist(void *arg)
{
	struct insister *insister = arg;
	struct otte_task task;

	do {
		assert_in_range(otte_batch_run(insister->pair->batch, &insister->request, 1, -1), 0, 1);
		assert_int_equal(otte_batch_task(insister->pair->batch, 0, &task), 0);
		insister->code = task.code;
	} while (!insister->code && ++insister->moved);
	return NULL;
}

/* Who calls without a pause looks at nothing else; what the source asks for is heard all the same. */
static void what_is_moved_in_calls_can_be_called_back(void **state)
{
	struct pair pair;
	struct insister insister = { .pair = &pair };
	pthread_t thread;

	(void)state;
	open_direct(&pair, trusted, OTTE_READ);
	insister.request = pair_request(&pair, OTTE_READ, 0, 0, 64);
	assert_int_equal(pthread_create(&thread, NULL, insist, &insister), 0);
	while (insister.moved < 1000)
		usleep(100);
	assert_int_equal(otte_region_unregister(&pair.remote, 1, 10 * SECOND, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(insister.code, -ENOENT);
	pair_close_requester(&pair);
	assert_int_equal(otte_mem_release(pair.remote_mem), 0);
	assert_int_equal(otte_engine_destroy(pair.source), 0);
}

static void impatient(struct otte_config *config)
{
	config->local_trusted = 1;
	config->control_timeout_ns = SECOND;
	config->reconnect_min_ns = SECOND / 100;
}

static bool retains(struct pair *pair, uint64_t records)
{
	unsigned i;

	for (i = 0; i < 5000 && pair_stats(pair->source).retained != records; i++)
		usleep(1000);
	return pair_stats(pair->source).retained == records;
}

/* A peer that lives, has memory mapped, and is not heard of: nobody can say when it will be done with that. */
static void what_a_lost_peer_has_mapped_is_retained_until_it_says_more(void **state)
{
	struct local_grant *grant;
	struct local_peer *peer;
	struct pair pair;

	(void)state;
	pair_open(&pair, 1 << 20, impatient);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096), 0);
	peer = peer_of(&pair);
	otte_tail_lock(&peer->lock);
	grant = find_grant(&pair, OTTE_READ);
	grant->users++;
	shutdown(peer->lane.fd, SHUT_RDWR);
	otte_tail_unlock(&peer->lock);
	assert_true(retains(&pair, 1));
	assert_int_equal(pair_stats(pair.source).retained_bytes, 1 << 20);
	assert_int_equal(pair_stats(pair.source).loans, 1);
	assert_int_equal(otte_region_unregister(&pair.remote, 1, SECOND / 10, NULL), -ETIMEDOUT);
	/* It is done with it, connects anew and says so. */
	otte_tail_lock(&peer->lock);
	local_grant_put(peer, grant);
	otte_tail_unlock(&peer->lock);
	assert_true(retains(&pair, 0));
	assert_int_equal(otte_region_unregister(&pair.remote, 1, 10 * SECOND, NULL), 0);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	pair_close_requester(&pair);
	assert_int_equal(otte_mem_release(pair.remote_mem), 0);
	assert_int_equal(otte_engine_destroy(pair.source), 0);
}

/* The mapping shows what was registered, and still it is asked for back, so that the answer is TCP's. */
static void stale_memory_is_lent_no_longer(void **state)
{
	_Atomic uint64_t word = 0;
	struct pair pair;
	unsigned i;
	int code;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	pair.remote->watch = (struct otte_region_watch){ .word = &word, .mask = 1 };
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096), 0);
	atomic_store(&word, 1);
	for (i = 0, code = 0; i < 5000 && !code; i++) {
		code = pair_run(&pair, OTTE_READ, 0, 0, 4096);
		usleep(1000);
	}
	assert_int_equal(code, -ESTALE);
	assert_int_equal(route(&pair), OTTE_TRANSPORT_TCP);
	assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 0, 4096), -ESTALE);
	/* Ours is looked at before and after, whoever moves it. */
	atomic_store(&word, 0);
	pair.local->watch = (struct otte_region_watch){ .word = &word, .mask = 1 };
	atomic_store(&word, 1);
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	assert_int_equal(otte_batch_submit(pair.batch,
					   &(struct otte_request){ .segment = pair.segment,
								   .local = pair.local,
								   .remote_region = 1,
								   .length = 1 },
					   1), -ESTALE);
	atomic_store(&word, 0);
	pair_close(&pair);
}

/* A source that answers what no source does: it is left, and what waited for it goes over TCP. */
static void a_grant_that_makes_no_sense_is_not_believed(void **state)
{
	static const int32_t statuses[] = { 1, 7, INT32_MAX, INT32_MIN };
	struct local_message message;
	struct otte_request request;
	struct local_peer *peer;
	uint64_t bad_frames;
	struct pair pair;
	unsigned tries;
	int ends[2];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		pair_open(&pair, 1 << 20, impatient);
		assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096), 0);
		bad_frames = pair_stats(pair.requester).bad_frames;
		peer = peer_of(&pair);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		otte_tail_lock(&peer->lock);
		assert_int_equal(dup2(ends[0], peer->lane.fd), peer->lane.fd);
		otte_tail_unlock(&peer->lock);
		request = pair_request(&pair, OTTE_WRITE, 0, 0, 4096);
		assert_int_equal(otte_batch_reset(pair.batch), 0);
		assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
		do
			assert_int_equal(recv(ends[1], &message, sizeof(message), MSG_WAITALL),
					 sizeof(message));
		while (message.type != LOCAL_ASK);
		message.type = LOCAL_GRANT;
		message.status = statuses[i];
		assert_int_equal(send(ends[1], &message, sizeof(message), 0), sizeof(message));
		peer->lane.ready(&peer->lane, 0);
		assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
		assert_int_equal(route(&pair), OTTE_TRANSPORT_TCP);
		assert_int_equal(pair_stats(pair.requester).bad_frames, bad_frames + 1);
		/* The source gets its receipt by the next connection. */
		for (tries = 0; tries < 5000; tries++) {
			if (!run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096))
				break;
			usleep(1000);
		}
		assert_true(tries < 5000);
		close(ends[0]);
		close(ends[1]);
		pair_close(&pair);
	}
}

static int memfd_of(uint64_t bytes, int seals)
{
	int fd = memfd_create("lent", MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int map_grant_for(uint64_t op, int memory, int uses, uint64_t offset, uint64_t length, uint32_t owner)
{
	const struct local_message message = { .offset = offset, .length = length, .owner = owner };
	struct local_grant grant = { .key.op = op };
	const int fds[LOCAL_FDS] = { memory, uses };
	const struct otte_config config = { .local_trusted = 1 };
	struct local local = { .env.config = &config };
	struct local_peer peer = { .local = &local };
	int ret = local_way_map(&peer, &grant, &message, fds);

	if (!ret)
		local_way_unmap(&peer, &grant);
	return ret;
}

static int map_grant(int memory, int uses, uint64_t offset, uint64_t length, uint32_t owner)
{
	return map_grant_for(OTTE_READ, memory, uses, offset, length, owner);
}

/* What could be cut off under a mapping, or is not as long as it is said to be, would end us with SIGBUS. */
static void memory_that_may_go_away_is_not_mapped(void **state)
{
	const uint64_t bytes = 65536;
	int fixed = memfd_of(bytes, F_SEAL_SHRINK), loose = memfd_of(bytes, F_SEAL_GROW);
	int uses = memfd_of(sizeof(struct otte_uses), F_SEAL_SHRINK);
	int loose_uses = memfd_of(sizeof(struct otte_uses), F_SEAL_GROW);
	int short_uses = memfd_of(sizeof(struct otte_uses) - 1, F_SEAL_SHRINK);
	int file = open("/proc/self/exe", O_RDONLY);

	(void)state;
	assert_int_equal(map_grant(fixed, uses, 0, bytes, 2), 0);
	assert_int_equal(map_grant(fixed, uses, 100, bytes - 100, 2), 0);
	assert_int_equal(map_grant(loose, uses, 0, bytes, 2), -EPROTO);
	assert_int_equal(map_grant(fixed, loose_uses, 0, bytes, 2), -EPROTO);
	assert_int_equal(map_grant(fixed, short_uses, 0, bytes, 2), -EPROTO);
	assert_int_equal(map_grant(file, uses, 0, 1, 2), -EPROTO);
	assert_int_equal(map_grant(fixed, uses, 1, bytes, 2), -EPROTO);
	assert_int_equal(map_grant(fixed, uses, UINT64_MAX, 1, 2), -EPROTO);
	assert_int_equal(map_grant(fixed, uses, 4096, UINT64_MAX - 4095, 2), -EPROTO);
	assert_int_equal(map_grant(fixed, uses, 0, 0, 2), -EPROTO);
	assert_int_equal(map_grant(fixed, uses, 0, bytes, 0), -EPROTO);
	assert_int_equal(map_grant(fixed, uses, 0, bytes, 1u << 30), -EPROTO);
	assert_int_equal(map_grant(-1, -1, 0, bytes, 2), -EMFILE);
	/* Where the module's loan was asked for, to be mapped. */
	assert_int_equal(map_grant_for(OTTE_WRITE, fixed, uses, 0, bytes, 2), 0);
	assert_int_equal(map_grant_for(OTTE_WRITE | LOCAL_OP_MAPPED, fixed, uses, 0, bytes, 2), -EPROTO);
	close(fixed);
	close(loose);
	close(uses);
	close(loose_uses);
	close(short_uses);
	close(file);
}

static void patient(struct otte_config *config)
{
	config->local_trusted = 1;
	config->control_timeout_ns = 60 * SECOND;
}

/* In a child: nothing but calls of the system. */
static int knock(const struct sockaddr_un *address, unsigned length)
{
	char byte;
	int fd;

	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 1;
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)address, length))
		return 2;
	return recv(fd, &byte, 1, 0) == 0 ? 0 : 3;
}

static void another_user_is_turned_away(void **state)
{
	struct sockaddr_un address;
	struct pair pair;
	unsigned length;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid())
		skip();
	pair_open(&pair, 1 << 20, patient);
	length = local_address(&peer_of(&pair)->control->welcome.identity, &address);
	pid = fork();
	if (pid == 0) {
		alarm(10); /* who is let in may be silent for longer */
		_exit(knock(&address, length));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096), 0);
	pair_close(&pair);
}

/* Each ends as what it is, and what was completed is whole. */
static void a_cancelled_batch_ends_exactly(void **state)
{
	struct otte_request requests[16];
	const uint64_t each = 4 << 20;
	struct otte_task task;
	struct pair pair;
	unsigned i, round, op;
	int use;

	(void)state;
	pair_open(&pair, 16 * each, trusted);
	pair_fill(pair.remote_bytes, pair.size, 1);
	for (round = 0; round < 20; round++) {
		op = round % 2;
		memset(pair.local_bytes, round, pair.size);
		for (i = 0; i < 16; i++) {
			requests[i] = pair_request(&pair, (uint8_t)op, i * each, i * each, each);
			requests[i].transport = OTTE_TRANSPORT_LOCAL;
		}
		assert_int_equal(otte_batch_reset(pair.batch), 0);
		assert_int_equal(otte_batch_submit(pair.batch, requests, 16), 0);
		usleep(round * 300);
		assert_int_equal(otte_batch_cancel(pair.batch), 0);
		assert_int_equal(otte_batch_wait(pair.batch, 30 * SECOND), 0);
		for (i = 0; i < 16; i++) {
			assert_int_equal(otte_batch_task(pair.batch, i, &task), 0);
			assert_true(task.locally_drained);
			if (task.state == OTTE_TASK_COMPLETED)
				assert_memory_equal(pair.local_bytes + i * each,
						    pair.remote_bytes + i * each, each);
			else
				assert_int_equal(task.code, -ECANCELED);
			if (op == OTTE_READ)
				assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
		}
	}
	assert_int_equal(atomic_load(&pair.remote_mem->uses->coarse_writers), 0);
	use = otte_uses_begin(pair.remote_mem->uses, 77, 0, UINT64_MAX, true);
	assert_true(use >= 0);
	otte_uses_end(pair.remote_mem->uses, use);
	pair_close(&pair);
}

/* A connection that says it is a lane of the pair's session. */
static int forge_lane(struct pair *pair)
{
	struct otte_control_client *control = peer_of(pair)->control;
	struct otte_frame frame = { .type = OTTE_FRAME_LANE, .length = OTTE_LANE_HELLO_BYTES };
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_LANE_HELLO_BYTES];
	struct otte_client_address unused;
	struct otte_lane_hello hello;
	struct sockaddr_un address;
	unsigned length;
	int fd;

	assert_int_equal(otte_control_client_lane(control, OTTE_LANE_BYTES, &hello, &unused), 0);
	otte_frame_encode(&frame, bytes);
	otte_lane_hello_encode(&hello, bytes + OTTE_FRAME_HEADER, OTTE_LANE_HELLO_BYTES);
	length = local_address(&control->welcome.identity, &address);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(send(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(recv(fd, bytes, OTTE_FRAME_HEADER, MSG_WAITALL), OTTE_FRAME_HEADER);
	return fd;
}

/* Of the first layout, in which a table of uses has shorter slots: neither finds the other, nor is it heard. */
static void a_library_of_another_layout_is_no_peer(void **state)
{
	struct local_message message = { .magic = 0x4d54544f, .type = LOCAL_ASK, .op = OTTE_READ };
	struct otte_control_client *control;
	struct sockaddr_un address;
	struct pair pair;
	uint64_t bad;
	char *name, byte;
	unsigned length;
	int fd;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	control = peer_of(&pair)->control;
	length = local_address(&control->welcome.identity, &address);
	name = address.sun_path + 1;
	assert_memory_equal(name, "otte-local3/", 12);
	memmove(name + 10, name + 11, length - offsetof(struct sockaddr_un, sun_path) - 12);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, length - 1), -1);
	assert_int_equal(errno, ECONNREFUSED);
	close(fd);
	bad = pair_stats(pair.source).bad_frames;
	fd = forge_lane(&pair);
	message.region = otte_region_id(pair.remote);
	assert_int_equal(local_send(fd, &message, NULL), 0);
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
	assert_int_equal(pair_stats(pair.source).bad_frames, bad + 1);
	pair_close(&pair);
}

/* Messages of random bytes, or nearly right ones with descriptors that nobody wants. */
static void garbage_on_the_socket_harms_nobody(void **state)
{
	struct local_message message;
	unsigned seed = 4711, i, k;
	struct pair pair;
	int fd, fds[2];

	(void)state;
	printf("seed %u\n", seed);
	pair_open(&pair, 1 << 20, trusted);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(pipe(fds), 0);
	for (i = 0; i < 300; i++) {
		fd = forge_lane(&pair);
		for (k = 0; k < 20; k++) {
			uint8_t *bytes = (uint8_t *)&message;
			unsigned b;

			for (b = 0; b < sizeof(message); b++)
				bytes[b] = (uint8_t)(rand_r(&seed) >> 8);
			if (i % 3) {
				memset(&message, 0, sizeof(message));
				message.magic = LOCAL_MAGIC;
				message.type = (uint16_t)(rand_r(&seed) % 7);
				message.op = (uint16_t)(rand_r(&seed) % 3);
				message.id = rand_r(&seed) % 4;
				message.region = rand_r(&seed) % 4;
			}
			if (local_send(fd, &message, rand_r(&seed) % 2 ? fds : NULL))
				break;
		}
		shutdown(fd, SHUT_RDWR);
		close(fd);
		if (i % 50 == 0)
			assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096), 0);
	}
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(run_by(&pair, OTTE_TRANSPORT_LOCAL, OTTE_READ, 0, 4096), 0);
	assert_true(pair_stats(pair.source).bad_frames > 0);
	/*
	 * What such a lane was lent and has not returned stays lent: its process, which is this one, lives.
	 */
	pair_close_requester(&pair);
}

static void only_a_lane_of_a_session_is_let_in(void **state)
{
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_LANE_HELLO_BYTES];
	struct otte_frame frame = { .type = OTTE_FRAME_LANE, .length = OTTE_LANE_HELLO_BYTES };
	struct otte_lane_hello hello = { .session = 4711, .counter = 1 };
	struct sockaddr_un address;
	struct pair pair;
	unsigned length;
	int fd;

	(void)state;
	pair_open(&pair, 1 << 20, trusted);
	length = local_address(&peer_of(&pair)->control->welcome.identity, &address);
	otte_frame_encode(&frame, bytes);
	otte_lane_hello_encode(&hello, bytes + OTTE_FRAME_HEADER, OTTE_LANE_HELLO_BYTES);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(send(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(recv(fd, bytes, OTTE_FRAME_HEADER, MSG_WAITALL), OTTE_FRAME_HEADER);
	assert_int_equal(otte_frame_decode(bytes, 4096, &frame), 0);
	assert_int_equal(frame.type, OTTE_FRAME_ERROR);
	assert_int_equal(frame.status, -ESTALE);
	/* It may be of a session that was lost meanwhile. */
	assert_int_equal(pair_stats(pair.source).bad_frames, 0);
	close(fd);
	pair_close(&pair);
}

/* Both cross the same bytes; a reader's bytes are never half a writer's. */
static void *cross(void *arg)
{
	struct crossing *crossing = arg;
	unsigned i, seed = crossing->seed;

	for (i = 0; i < 200000; i++) {
		uint64_t start = (uint64_t)rand_r(&seed) % 8, end = start + 1 + (uint64_t)rand_r(&seed) % 4;
		bool write = rand_r(&seed) % 2;
		int slot;
		uint64_t k;

		slot = otte_uses_begin(crossing->uses, crossing->owner, start, end, write);
		if (slot < 0) {
			assert_int_equal(slot, OTTE_USES_CONFLICT);
			continue;
		}
		crossing->held++;
		for (k = start; k < end; k++) {
			int there = atomic_fetch_add(&crossing->bytes[k], write ? 1000 : 1);

			if (write ? there : there >= 1000)
				crossing->wrong++;
		}
		for (k = start; k < end; k++)
			atomic_fetch_sub(&crossing->bytes[k], write ? 1000 : 1);
		otte_uses_end(crossing->uses, slot);
	}
	return NULL;
}

static void a_writer_is_alone_whoever_comes_at_the_same_time(void **state)
{
	static struct otte_uses uses;
	static _Atomic int bytes[16];
	struct crossing crossings[4];
	pthread_t threads[4];
	unsigned i;

	(void)state;
	for (i = 0; i < 4; i++) {
		crossings[i] = (struct crossing){ &uses, bytes, i + 2, 4711 + i, 0, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, cross, &crossings[i]), 0);
	}
	printf("seed 4711\n");
	for (i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(crossings[i].wrong, 0);
		assert_true(crossings[i].held > 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_brings_the_exact_range_by_local),
		cmocka_unit_test(a_write_brings_the_exact_range_by_local),
		cmocka_unit_test(nothing_is_mapped_unless_both_sides_said_so),
		cmocka_unit_test(a_request_may_name_its_transport),
		cmocka_unit_test(a_request_that_wants_this_transport_is_told_why_it_has_none),
		cmocka_unit_test(what_cannot_be_moved_here_is_handed_on),
		cmocka_unit_test(an_overlapping_write_is_refused_whoever_is_there),
		cmocka_unit_test(uses_from_before_the_first_grant_are_seen),
		cmocka_unit_test(a_full_or_senseless_table_sends_requests_over_tcp),
		cmocka_unit_test(unregistering_waits_for_the_receipt_and_nothing_moves_after),
		cmocka_unit_test(memory_of_ours_that_goes_away_fails_the_request_alone),
		cmocka_unit_test(closing_the_source_takes_back_what_is_lent),
		cmocka_unit_test(what_is_lent_for_reading_cannot_be_mapped_for_writing),
		cmocka_unit_test(mappings_are_bounded_and_the_oldest_goes_first),
		cmocka_unit_test(the_source_is_told_what_was_done),
		cmocka_unit_test(a_lone_run_is_one_exchange),
		cmocka_unit_test(a_short_lone_run_is_moved_in_its_call_and_counted),
		cmocka_unit_test(who_is_not_alone_is_submitted),
		cmocka_unit_test(what_a_gate_or_a_tier_decides_is_submitted),
		cmocka_unit_test(nobody_touches_its_range_meanwhile),
		cmocka_unit_test(what_is_lent_as_well_has_its_table_told),
		cmocka_unit_test(memory_that_goes_away_in_its_call_is_no_success),
		cmocka_unit_test(unregistering_waits_for_what_is_moved_in_its_call),
		cmocka_unit_test(a_grant_stays_while_it_moves_in_a_call),
		cmocka_unit_test(who_looks_at_a_batch_sees_what_has_moved),
		cmocka_unit_test(closing_waits_for_what_is_moved_in_its_call),
		cmocka_unit_test(who_was_let_in_before_close_does_not_begin_after_it),
		cmocka_unit_test(lanes_are_heard_beside_what_is_moved_in_calls),
		cmocka_unit_test(a_segment_is_not_closed_while_it_moves_in_a_call),
		cmocka_unit_test(a_hidden_region_is_not_moved_in_a_call),
		cmocka_unit_test(calls_in_several_threads_end_each_as_one),
		cmocka_unit_test(calls_of_one_batch_keep_off_each_other),
		cmocka_unit_test(what_is_moved_in_calls_can_be_called_back),
		cmocka_unit_test(a_plan_goes_when_its_request_is_out_of_reach),
		cmocka_unit_test(an_exchange_in_anothers_way_is_handed_on),
		cmocka_unit_test(what_a_lost_peer_has_mapped_is_retained_until_it_says_more),
		cmocka_unit_test(stale_memory_is_lent_no_longer),
		cmocka_unit_test(a_grant_that_makes_no_sense_is_not_believed),
		cmocka_unit_test(memory_that_may_go_away_is_not_mapped),
		cmocka_unit_test(another_user_is_turned_away),
		cmocka_unit_test(a_cancelled_batch_ends_exactly),
		cmocka_unit_test(garbage_on_the_socket_harms_nobody),
		cmocka_unit_test(a_library_of_another_layout_is_no_peer),
		cmocka_unit_test(only_a_lane_of_a_session_is_let_in),
		cmocka_unit_test(a_writer_is_alone_whoever_comes_at_the_same_time),
	};

	return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
