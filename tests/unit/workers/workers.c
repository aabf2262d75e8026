/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Several workers of one engine's NICs: what each has, and what they share. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/thread.h"
#include "crowd.h"
#include "engine/engine.h"
#include "topo/topo.h"
#include "transport/rdma/monitor.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/source.h"

/* ---- What is wrapped ---- */

/* Which call fails; 0: none. */
static unsigned failing_loop, failing_thread;

int __real_otte_loop_init(struct otte_loop *loop);
int __wrap_otte_loop_init(struct otte_loop *loop);

int __wrap_otte_loop_init(struct otte_loop *loop)
{
	if (failing_loop && !--failing_loop)
		return otte_fail(-EMFILE, "no more descriptors");
	return __real_otte_loop_init(loop);
}

int __real_otte_thread_start(pthread_t *thread, const char *name, void *(*body)(void *arg),
			     void *arg);
int __wrap_otte_thread_start(pthread_t *thread, const char *name, void *(*body)(void *arg),
			     void *arg);

int __wrap_otte_thread_start(pthread_t *thread, const char *name, void *(*body)(void *arg),
			     void *arg)
{
	if (failing_thread && !--failing_thread)
		return otte_fail(-EAGAIN, "thread %s cannot be started", name);
	return __real_otte_thread_start(thread, name, body, arg);
}

/* Whom the source has granted something, in this order. */
static struct otte_rdma_source *granted[64];
static _Atomic unsigned grants;

void __real_otte_rdma_source_say(struct otte_rdma_source *source,
				 const struct otte_rdma_message *message);
void __wrap_otte_rdma_source_say(struct otte_rdma_source *source,
				 const struct otte_rdma_message *message);

void __wrap_otte_rdma_source_say(struct otte_rdma_source *source,
				 const struct otte_rdma_message *message)
{
	unsigned place;

	if (message->type == OTTE_RDMA_MSG_GRANT) {
		place = atomic_fetch_add(&grants, 1);
		if (place < ARRAY_SIZE(granted))
			granted[place] = source;
	}
	__real_otte_rdma_source_say(source, message);
}

/* A requester that keeps what it is granted. */
static const struct otte_identity *_Atomic keeper;

int __real_otte_rdma_transfer_granted(struct otte_rdma_peer *peer,
				      const struct otte_rdma_grant *grant);
int __wrap_otte_rdma_transfer_granted(struct otte_rdma_peer *peer,
				      const struct otte_rdma_grant *grant);

int __wrap_otte_rdma_transfer_granted(struct otte_rdma_peer *peer,
				      const struct otte_rdma_grant *grant)
{
	if (peer->rdma->env.identity == keeper)
		return 0;
	return __real_otte_rdma_transfer_granted(peer, grant);
}

/* Which worker of this engine has woken which, ever. */
static struct otte_rdma *_Atomic watched;
static _Atomic bool woken_by[2][2];

void __real_otte_loop_wake(struct otte_loop *loop);
void __wrap_otte_loop_wake(struct otte_loop *loop);

void __wrap_otte_loop_wake(struct otte_loop *loop)
{
	struct otte_rdma *rdma = watched;
	unsigned by, whom;

	for (by = 0; rdma && by < 2; by++)
		for (whom = 0; whom < 2; whom++)
			if (loop == &rdma->workers[whom].loop &&
			    pthread_equal(pthread_self(), rdma->workers[by].thread))
				woken_by[by][whom] = true;
	__real_otte_loop_wake(loop);
}

static bool first_has_woken_second(void *arg)
{
	(void)arg;
	return woken_by[0][1];
}

/* A machine whose only node, 3, has CPU `near_cpu`; -1: this machine. */
static int near_cpu = -1;

int __real_otte_topo_read(const char *xml_path, struct otte_topo **topo);
int __wrap_otte_topo_read(const char *xml_path, struct otte_topo **topo);

int __wrap_otte_topo_read(const char *xml_path, struct otte_topo **topo)
{
	if (near_cpu < 0)
		return __real_otte_topo_read(xml_path, topo);
	*topo = calloc(1, sizeof(**topo));
	assert_non_null(*topo);
	(*topo)->nodes = calloc(1, sizeof(*(*topo)->nodes));
	assert_non_null((*topo)->nodes);
	(*topo)->node_count = 1;
	(*topo)->nodes[0].id = 3;
	CPU_SET(near_cpu, &(*topo)->nodes[0].cpu_set);
	return 0;
}

static bool unbindable;

int __real_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *cpus);
int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *cpus);

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *cpus)
{
	if (!unbindable)
		return __real_sched_setaffinity(pid, size, cpus);
	errno = EPERM;
	return -1;
}

static int as_usual(void **state)
{
	failing_loop = failing_thread = 0;
	near_cpu = -1;
	unbindable = false;
	keeper = NULL;
	watched = NULL;
	memset(woken_by, 0, sizeof(woken_by));
	atomic_store(&grants, 0);
	workers = 2;
	return with_two_nics(state);
}

/* ---- Who has whom ---- */

static bool has_nothing_taken(void *arg)
{
	struct otte_rdma *rdma = arg;
	bool nothing;
	unsigned i;

	pthread_mutex_lock(&rdma->places.lock);
	nothing = !rdma->places.taken && !rdma->places.stuck;
	for (i = 0; i < OTTE_RDMA_WORKERS_MAX; i++)
		nothing &= !rdma->places.bids[i].made;
	pthread_mutex_unlock(&rdma->places.lock);
	pthread_mutex_lock(&rdma->ranges.lock);
	nothing &= !rdma->ranges.awaited;
	pthread_mutex_unlock(&rdma->ranges.lock);
	return nothing && !atomic_load(&rdma->direct.used) &&
	       !atomic_load(&rdma->staging.budget.used) && !atomic_load(&rdma->mirrors.budget.used);
}

static void assert_spread(const struct otte_rdma *rdma, unsigned each)
{
	unsigned i;

	assert_int_equal(rdma->worker_count, workers);
	for (i = 0; i < rdma->worker_count; i++)
		assert_int_equal(atomic_load(&rdma->workers[i].sessions), each);
}

static void move_by(uint32_t count, bool one_requester)
{
	struct crowd crowd;

	workers = count;
	if (one_requester)
		crowd_ask_many(&crowd, 4, use_workers);
	else
		crowd_meet(&crowd, 4, use_workers);
	assert_spread(crowd_rdma(&crowd), 4 / count);
	crowd_start(&crowd, 12, 0, OTTE_TRANSPORT_RDMA);
	crowd_wait(&crowd);
	assert_true(comes(has_nothing_taken, crowd_rdma(&crowd)));
	crowd_part(&crowd);
}

static void one_worker_moves_bytes_both_ways(void **state)
{
	(void)state;
	move_by(1, false);
	assert_int_equal(with_two_nics(state), 0);
	move_by(1, true);
}

static void two_workers_share_peers_and_move_bytes_both_ways(void **state)
{
	(void)state;
	move_by(2, false);
	assert_int_equal(with_two_nics(state), 0);
	move_by(2, true);
}

static void four_workers_have_a_peer_each(void **state)
{
	(void)state;
	move_by(4, false);
	assert_int_equal(with_two_nics(state), 0);
	move_by(4, true);
}

static void bytes_that_a_thread_of_nics_moves_are_the_same(void **state)
{
	(void)state;
	sim_progress_set(SIM_THREAD, 7);
	move_by(2, false);
	sim_progress_set(SIM_INLINE, 0);
}

static bool has_two_sessions(void *arg)
{
	struct otte_rdma *rdma = arg;

	return atomic_load(&rdma->workers[0].sessions) + atomic_load(&rdma->workers[1].sessions) ==
	       2;
}

/* The first and the third go, which one worker had: it has the next two. */
static void who_comes_is_given_to_who_has_fewest(void **state)
{
	struct crowd crowd;
	struct otte_rdma *rdma;
	unsigned i;

	(void)state;
	crowd_meet(&crowd, 4, use_workers);
	rdma = crowd_rdma(&crowd);
	for (i = 0; i < 4; i += 2)
		pair_close_requester(&crowd.members[i].pair);
	assert_true(comes(has_two_sessions, rdma));
	assert_int_equal(atomic_load(&rdma->workers[1].sessions), 2);
	for (i = 0; i < 4; i += 2) {
		pair_join(&crowd.members[i].pair, &crowd.members[1].pair, use_workers);
		assert_true(comes(has_its_lane, &crowd.members[i].pair));
	}
	assert_spread(rdma, 2);
	crowd_part(&crowd);
}

/* Each has completion queues of its own on each NIC that it uses. */
static void each_worker_has_its_lane_on_a_nic(void **state)
{
	struct crowd crowd;
	struct otte_rdma *rdma;
	unsigned i;

	(void)state;
	crowd_meet(&crowd, 2, use_workers);
	crowd_start(&crowd, 1, 4096, OTTE_TRANSPORT_RDMA);
	crowd_wait(&crowd);
	rdma = crowd_rdma(&crowd);
	for (i = 0; i < 2; i++) {
		pthread_mutex_lock(&rdma->workers[i].turn);
		assert_true(rdma->workers[i].lanes[0].current || rdma->workers[i].lanes[1].current);
		assert_true(rdma->workers[i].pairs > 0);
		pthread_mutex_unlock(&rdma->workers[i].turn);
	}
	crowd_part(&crowd);
}

/* ---- Places ---- */

static void use_one_place(struct otte_config *config)
{
	use_workers(config);
	config->rdma_grants = 1;
	config->default_deadline_ns = 0;
}

/* Six of two workers, and one place. */
static void nobody_starves_for_want_of_places(void **state)
{
	struct crowd crowd;

	(void)state;
	crowd_meet(&crowd, 6, use_one_place);
	crowd_start(&crowd, 30, 4096, OTTE_TRANSPORT_RDMA);
	crowd_wait(&crowd);
	assert_true(comes(has_nothing_taken, crowd_rdma(&crowd)));
	crowd_part(&crowd);
}

static void use_two_places(struct otte_config *config)
{
	use_workers(config);
	config->rdma_grants = 2;
	config->default_deadline_ns = 0;
}

static bool has_one_grant(void *arg)
{
	(void)arg;
	return atomic_load(&grants) == 1;
}

static bool both_bid(void *arg)
{
	struct otte_rdma *rdma = arg;
	bool both;

	pthread_mutex_lock(&rdma->places.lock);
	both = rdma->places.bids[0].made && rdma->places.bids[1].made;
	pthread_mutex_unlock(&rdma->places.lock);
	return both;
}

static bool first_bids(void *arg)
{
	struct otte_rdma *rdma = arg;
	bool made;

	pthread_mutex_lock(&rdma->places.lock);
	made = rdma->places.bids[0].made;
	pthread_mutex_unlock(&rdma->places.lock);
	return made;
}

static void ask(struct pair *pair, uint64_t offset, unsigned count)
{
	struct otte_request requests[2];
	unsigned i;

	OK(otte_batch_reset(pair->batch));
	for (i = 0; i < count; i++)
		requests[i] = rdma_request(pair, OTTE_READ, offset + (count - i) * 8192, 4096);
	OK(otte_batch_submit(pair->batch, requests, count));
}

/*
 * Of two places a third peer keeps one. The first has the other and waits for another, at one
 * worker; then the second, at the other worker, asks for its first. The place that comes free where
 * the first waits is the second's.
 */
static void a_place_goes_to_the_worker_whose_source_is_next(void **state)
{
	struct crowd crowd;
	struct pair *first, *second, *third;
	struct otte_rdma *rdma;

	(void)state;
	crowd_meet(&crowd, 3, use_two_places);
	first = &crowd.members[0].pair;
	second = &crowd.members[1].pair;
	third = &crowd.members[2].pair;
	rdma = crowd_rdma(&crowd);
	keeper = &third->requester->identity;
	ask(third, 65536, 1);
	assert_true(comes(has_one_grant, NULL));
	sim_progress_set(SIM_STEPPED, 0);
	ask(first, 0, 2);
	assert_true(comes(first_bids, rdma));
	ask(second, 131072, 1);
	assert_true(comes(both_bid, rdma));
	watched = rdma;
	sim_progress_set(SIM_INLINE, 0);
	assert_true(comes(first_has_woken_second, NULL));
	OK(otte_batch_wait(first->batch, 5 * SECOND));
	OK(otte_batch_wait(second->batch, 5 * SECOND));
	assert_int_equal(atomic_load(&grants), 4);
	assert_ptr_equal(granted[0]->worker, &rdma->workers[0]);
	assert_ptr_equal(granted[1]->worker, &rdma->workers[0]);
	assert_ptr_equal(granted[2]->worker, &rdma->workers[1]);
	assert_ptr_equal(granted[3], granted[1]);
	watched = NULL;
	OK(otte_batch_cancel(third->batch));
	OK(otte_batch_wait(third->batch, 5 * SECOND));
	crowd_part(&crowd);
}

/* ---- Bytes under way ---- */

static void use_few_bytes(struct otte_config *config)
{
	use_workers(config);
	config->rdma_direct_bytes = 4096;
	config->default_deadline_ns = 0;
}

/* Of who asks. */
static void use_one_chunk(struct otte_config *config)
{
	use_workers(config);
	config->rdma_chunk_bytes = 4096;
	config->rdma_staging_bytes = 4096;
	config->default_deadline_ns = 0;
	config->rdma_host_memory = config->listen_address[0] ? OTTE_HOST_MEMORY_DIRECT :
							       OTTE_HOST_MEMORY_STAGED;
}

static void use_room_for_one(void (*adjust)(struct otte_config *config))
{
	struct crowd crowd;

	crowd_ask_many(&crowd, 4, adjust);
	crowd_start(&crowd, 20, 4096, OTTE_TRANSPORT_RDMA);
	crowd_wait(&crowd);
	assert_true(comes(has_nothing_taken, crowd_rdma(&crowd)));
	crowd_part(&crowd);
}

static void what_comes_back_is_told_the_worker_whose_turn_it_is(void **state)
{
	(void)state;
	use_room_for_one(use_few_bytes);
}

static bool has_all_bytes(void *arg)
{
	struct otte_rdma *rdma = arg;

	return atomic_load(&rdma->direct.used) == 4096;
}

static bool one_waits_for_bytes(void *arg)
{
	struct otte_rdma *rdma = arg;

	return otte_rdma_budget_next(&rdma->direct) == &rdma->workers[1];
}

/* One peer has all that there is, and the other's worker sleeps until something comes back. */
static void a_worker_is_woken_when_its_turn_comes(void **state)
{
	struct crowd crowd;
	struct otte_rdma *rdma;
	unsigned i;

	(void)state;
	crowd_ask_many(&crowd, 2, use_few_bytes);
	rdma = crowd_rdma(&crowd);
	for (i = 0; i < 2; i++)
		assert_int_equal(run(&crowd.members[i].pair, OTTE_READ, 0, 4096).code, 0);
	assert_true(comes(has_nothing_taken, rdma));
	sim_progress_set(SIM_STEPPED, 0);
	ask(&crowd.members[0].pair, 0, 1);
	assert_true(comes(has_all_bytes, rdma));
	ask(&crowd.members[1].pair, 65536, 1);
	assert_true(comes(one_waits_for_bytes, rdma));
	watched = rdma;
	sim_progress_set(SIM_INLINE, 0);
	assert_true(comes(first_has_woken_second, NULL));
	watched = NULL;
	for (i = 0; i < 2; i++)
		OK(otte_batch_wait(crowd.members[i].pair.batch, 5 * SECOND));
	crowd_part(&crowd);
}

static void chunks_of_one_pool_go_round_all_workers(void **state)
{
	(void)state;
	use_room_for_one(use_one_chunk);
}

/* Of who is asked. */
static void use_one_mirror(struct otte_config *config)
{
	use_one_chunk(config);
	config->rdma_host_memory = config->listen_address[0] ? OTTE_HOST_MEMORY_STAGED :
							       OTTE_HOST_MEMORY_DIRECT;
}

static void chunks_that_are_granted_go_round_all_workers(void **state)
{
	struct crowd crowd;

	(void)state;
	crowd_meet(&crowd, 4, use_one_mirror);
	crowd_start(&crowd, 20, 4096, OTTE_TRANSPORT_RDMA);
	crowd_wait(&crowd);
	assert_true(comes(has_nothing_taken, crowd_rdma(&crowd)));
	crowd_part(&crowd);
}

/* One who does not queue; he would be in the way of others until he leaves. */
static void who_only_tries_for_bytes_is_in_nobodys_way(void **state)
{
	struct otte_rdma_budget budget = { .limit = 2, .lock = PTHREAD_MUTEX_INITIALIZER };
	struct otte_rdma_turn first = {}, second = {};
	uint64_t charged[2], none;

	(void)state;
	assert_int_equal(otte_rdma_budget_take(&budget, NULL, 1, &charged[0]), 0);
	assert_int_equal(otte_rdma_budget_take(&budget, NULL, 2, &none), 1);
	assert_int_equal(otte_rdma_budget_take(&budget, &first, 1, &charged[1]), 0);
	/* And waits behind those who do. */
	assert_int_equal(otte_rdma_budget_take(&budget, &second, 1, &none), 1);
	otte_rdma_budget_give(&budget, charged[0]);
	assert_int_equal(otte_rdma_budget_take(&budget, NULL, 1, &none), 1);
	assert_int_equal(otte_rdma_budget_take(&budget, &second, 1, &charged[0]), 0);
	otte_rdma_budget_leave(&budget, &second);
	assert_null(budget.queue);
}

/* ---- Leases ---- */

static void use_leases(struct otte_config *config)
{
	use_workers(config);
	config->control_timeout_ns = SECOND;
	config->rdma_lease_idle_ns = 60 * SECOND;
}

/* What one worker's peer has leased the other's peer waits for, and not until that lets go of it. */
static void a_lease_of_another_worker_is_wanted_back(void **state)
{
	struct otte_request request;
	struct crowd crowd;
	struct pair *holder, *other;

	(void)state;
	crowd_meet(&crowd, 2, use_leases);
	holder = &crowd.members[0].pair;
	other = &crowd.members[1].pair;
	request = rdma_request(holder, OTTE_WRITE, 0, 4096);
	request.lease = OTTE_LEASE_RANGE;
	OK(otte_batch_submit(holder->batch, &request, 1));
	OK(otte_batch_wait(holder->batch, 5 * SECOND));
	assert_int_equal(task_of(holder, 0).code, 0);
	assert_int_equal(pair_stats(holder->source).rdma_leases, 1);
	watched = crowd_rdma(&crowd);
	assert_int_equal(run_over(other, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 4096).code, 0);
	assert_true(woken_by[1][0]);
	watched = NULL;
	assert_int_equal(task_of(other, 0).transport, OTTE_TRANSPORT_RDMA);
	crowd_part(&crowd);
}

/* ---- Ends ---- */

static void close_under_way(bool one_requester)
{
	struct crowd crowd;
	unsigned i;

	if (one_requester)
		crowd_ask_many(&crowd, 4, use_workers);
	else
		crowd_meet(&crowd, 4, use_workers);
	crowd_start(&crowd, 100000, 0, OTTE_TRANSPORT_ANY);
	for (i = 0; i < crowd.count; i++)
		assert_true(comes(has_its_lane, &crowd.members[i].pair));
	for (i = 0; i < (one_requester ? crowd.count : 1); i++)
		OK(otte_engine_close(crowd.members[i].pair.source, OTTE_CLOSE_SOURCE, 10 * SECOND,
				     NULL));
	crowd_wait_for_any(&crowd);
	crowd_part(&crowd);
}

static void a_source_that_closes_under_way_keeps_nothing(void **state)
{
	(void)state;
	close_under_way(false);
	assert_int_equal(with_two_nics(state), 0);
	close_under_way(true);
}

static bool has_no_pairs(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).rdma_qps == 0;
}

/* ---- Ports ---- */

static bool is_paused(void *arg)
{
	struct otte_rdma_route route;

	otte_rdma_context_route(arg, &route);
	return route.state == OTTE_RDMA_CONTEXT_PAUSED;
}

static bool is_active(void *arg)
{
	return !is_paused(arg);
}

static bool has_been_asked_again(void *arg)
{
	const struct otte_rdma_monitor_counts *counts = arg;
	static uint64_t since;

	if (!since)
		since = atomic_load(&counts->queries);
	return atomic_load(&counts->queries) > since + 3;
}

/* The second worker has a peer and no pair, and is held: it has not heard that the port went. */
static void a_route_returns_when_all_workers_have_heard(void **state)
{
	struct otte_rdma_context *context;
	struct otte_rdma *rdma;
	struct crowd crowd;

	(void)state;
	assert_int_equal(with_nics(state), 0);
	crowd_meet(&crowd, 2, use_workers);
	rdma = crowd_rdma(&crowd);
	context = rdma->pollers[0].context;
	assert_int_equal(run(&crowd.members[0].pair, OTTE_READ, 0, 4096).code, 0);
	while (!otte_rdma_take_turn(&rdma->workers[1]))
		usleep(WAIT_US);
	sim_port_set(nics[SOURCE][0], 1, IBV_PORT_DOWN);
	assert_true(comes(is_paused, context));
	sim_port_set(nics[SOURCE][0], 1, IBV_PORT_ACTIVE);
	assert_true(comes(has_no_pairs, &crowd.members[0].pair));
	assert_true(comes(has_been_asked_again, (void *)otte_rdma_monitor_counts(rdma->monitor)));
	assert_true(is_paused(context));
	otte_rdma_end_turn(&rdma->workers[1]);
	otte_rdma_wake(&rdma->workers[1]);
	assert_true(comes(is_active, context));
	crowd_start(&crowd, 2, 4096, OTTE_TRANSPORT_ANY);
	crowd_wait(&crowd);
	crowd_part(&crowd);
}

static void a_port_goes_and_comes_under_way(void **state)
{
	struct otte_rdma *rdma;
	struct crowd crowd;
	unsigned i;

	(void)state;
	crowd_meet(&crowd, 4, use_workers);
	rdma = crowd_rdma(&crowd);
	crowd_start(&crowd, 200, 65536, OTTE_TRANSPORT_ANY);
	for (i = 0; i < 3; i++) {
		sim_port_set(nics[SOURCE][0], 1, IBV_PORT_DOWN);
		assert_true(comes(is_paused, rdma->pollers[0].context));
		sim_port_set(nics[SOURCE][0], 1, IBV_PORT_ACTIVE);
		assert_true(comes(is_active, rdma->pollers[0].context));
	}
	crowd_wait_for_any(&crowd);
	/* A WRITE that was under way has an unknown effect, and is the last of its thread. */
	for (i = 0; i < crowd.count; i++)
		assert_true(!crowd.members[i].code || crowd.members[i].code == -ECONNRESET);
	assert_true(comes(has_nothing_taken, rdma));
	crowd_part(&crowd);
}

/* ---- Polling ---- */

static void use_polling(struct otte_config *config)
{
	use_workers(config);
	config->rdma_progress = OTTE_RDMA_PROGRESS_POLLING;
}

struct rounds {
	struct otte_rdma_worker *worker;
	uint64_t since;
};

static bool goes_round(void *arg)
{
	struct rounds *rounds = arg;

	return atomic_load(&rounds->worker->rounds) - rounds->since > 1000;
}

/* As long as it has pairs; without them it looks up once a second. */
static void who_polls_does_not_sleep_as_long_as_it_has_pairs(void **state)
{
	struct rounds rounds;
	struct crowd crowd;
	unsigned i;

	(void)state;
	workers = 1;
	crowd_meet(&crowd, 2, use_polling);
	rounds.worker = &crowd_rdma(&crowd)->workers[0];
	usleep(50000);
	rounds.since = atomic_load(&rounds.worker->rounds);
	usleep(50000);
	assert_in_range(atomic_load(&rounds.worker->rounds) - rounds.since, 0, 20);
	crowd_start(&crowd, 4, 0, OTTE_TRANSPORT_RDMA);
	crowd_wait(&crowd);
	rounds.since = atomic_load(&rounds.worker->rounds);
	assert_true(comes(goes_round, &rounds));
	assert_int_equal(sim_calls(SIM_REQ_NOTIFY_CQ), 0);
	for (i = 0; i < 2; i++)
		pair_close_requester(&crowd.members[i].pair);
	assert_true(comes(has_no_pairs, &crowd.members[0].pair));
	usleep(50000);
	rounds.since = atomic_load(&rounds.worker->rounds);
	usleep(50000);
	assert_in_range(atomic_load(&rounds.worker->rounds) - rounds.since, 0, 20);
	pair_close_source(&crowd.members[0].pair);
}

static void two_workers_that_poll_move_bytes_both_ways(void **state)
{
	struct crowd crowd;

	(void)state;
	crowd_meet(&crowd, 4, use_polling);
	crowd_start(&crowd, 12, 0, OTTE_TRANSPORT_RDMA);
	crowd_wait(&crowd);
	assert_true(comes(has_nothing_taken, crowd_rdma(&crowd)));
	crowd_part(&crowd);
}

/* ---- CPUs ---- */

static void put_at_node(struct sim_device *device, const char *root, bool there)
{
	char path[128];
	FILE *file;

	snprintf(device->device.ibdev_path, sizeof(device->device.ibdev_path), "%s", root);
	snprintf(path, sizeof(path), "%s/device/numa_node", root);
	if (!there) {
		unlink(path);
		return;
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "3\n");
	fclose(file);
}

static bool runs_near(void *arg)
{
	const struct otte_rdma *rdma = arg;
	cpu_set_t cpus;
	bool near = true;
	unsigned i;

	for (i = 0; i < rdma->worker_count; i++)
		near &= !pthread_getaffinity_np(rdma->workers[i].thread, sizeof(cpus), &cpus) &&
			CPU_COUNT(&cpus) == 1 && CPU_ISSET(near_cpu, &cpus);
	return near;
}

static bool runs_where_we_do(void *arg)
{
	const struct otte_rdma *rdma = arg;
	cpu_set_t cpus, ours;
	bool same = true;
	unsigned i;

	assert_int_equal(sched_getaffinity(0, sizeof(ours), &ours), 0);
	for (i = 0; i < rdma->worker_count; i++)
		same &= !pthread_getaffinity_np(rdma->workers[i].thread, sizeof(cpus), &cpus) &&
			CPU_EQUAL(&cpus, &ours);
	return same;
}

static void make_and_look(void (*adjust)(struct otte_config *config), bool (*where)(void *arg))
{
	struct otte_engine *engine;
	struct otte_config config;

	OK(otte_config_init(&config, sizeof(config)));
	adjust(&config);
	OK(otte_engine_create(&config, &engine));
	assert_true(comes(where, rdma_of(engine)));
	OK(otte_engine_destroy(engine));
	assert_int_equal(with_two_nics(NULL), 0);
}

static void use_no_cpus(struct otte_config *config)
{
	use_workers(config);
	config->rdma_bind_cpus = 0;
}

static int first_cpu_of_ours(void)
{
	cpu_set_t ours;
	int cpu;

	assert_int_equal(sched_getaffinity(0, sizeof(ours), &ours), 0);
	for (cpu = 0; !CPU_ISSET(cpu, &ours); cpu++)
		;
	return cpu;
}

static void workers_run_near_their_nics(void **state)
{
	char root[] = "/tmp/otte-workers.XXXXXX", path[64];
	unsigned turn;

	(void)state;
	assert_non_null(mkdtemp(root));
	snprintf(path, sizeof(path), "%s/device", root);
	assert_int_equal(mkdir(path, 0700), 0);
	near_cpu = first_cpu_of_ours();
	for (turn = 0; turn < 4; turn++) {
		put_at_node(nics[SOURCE][1], root, turn != 3);
		unbindable = turn == 1;
		/* Bound; not permitted; not wanted; not known of any NIC. */
		make_and_look(turn == 2 ? use_no_cpus : use_workers,
			      turn ? runs_where_we_do : runs_near);
	}
	rmdir(path);
	rmdir(root);
}

/* ---- What cannot be made ---- */

/* Threads of this process whose names begin so. */
static unsigned count_threads(const char *name)
{
	char path[sizeof("/proc/self/task/") + NAME_MAX + sizeof("/comm")], comm[32];
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	unsigned count = 0;
	FILE *file;

	assert_non_null(tasks);
	while ((task = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		count += fgets(comm, sizeof(comm), file) && !strncmp(comm, name, strlen(name));
		fclose(file);
	}
	closedir(tasks);
	return count;
}

/* ---- The turn ---- */

/* Whose turn ends as this thread sleeps; and how often it has. */
static _Thread_local struct otte_rdma_worker *ending;
static _Thread_local unsigned sleeps;

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	sleeps++;
	if (ending)
		otte_rdma_end_turn(ending);
	ending = NULL;
	return __real_nanosleep(time, left);
}

/* Whether anybody of the next so many has the turn, which is taken, and how many of them sleep. */
static bool try_turns(struct otte_rdma_worker *worker, unsigned tries, unsigned *slept)
{
	bool taken = false;

	sleeps = 0;
	while (tries--)
		taken |= otte_rdma_take_turn(worker);
	*slept = sleeps;
	return taken;
}

static void one_of_many_waits_for_the_turn(void **state)
{
	struct otte_config config = { .rdma_progress = OTTE_RDMA_PROGRESS_EVENTS };
	struct otte_rdma rdma = { .env.config = &config };
	struct otte_rdma_worker worker = { .rdma = &rdma, .turn = PTHREAD_MUTEX_INITIALIZER };
	unsigned slept;

	(void)state;
	assert_true(try_turns(&worker, 1, &slept));
	assert_int_equal(slept, 0);
	assert_false(try_turns(&worker, 31, &slept));
	assert_int_equal(slept, 0);
	assert_false(try_turns(&worker, 32, &slept));
	assert_int_equal(slept, 1);
	ending = &worker;
	assert_true(try_turns(&worker, 32, &slept));
	assert_int_equal(slept, 1);
	/* Who polls never gives it up. */
	config.rdma_progress = OTTE_RDMA_PROGRESS_POLLING;
	assert_false(try_turns(&worker, 100, &slept));
	assert_int_equal(slept, 0);
	otte_rdma_end_turn(&worker);
	/* The thread wants it. */
	config.rdma_progress = OTTE_RDMA_PROGRESS_EVENTS;
	atomic_store(&worker.awaited, true);
	assert_false(try_turns(&worker, 1, &slept));
}

static void workers_are_known_by_their_names(void **state)
{
	struct otte_engine *engine;
	struct otte_config config;

	(void)state;
	for (workers = 1; workers <= 3; workers += 2) {
		OK(otte_config_init(&config, sizeof(config)));
		use_workers(&config);
		OK(otte_engine_create(&config, &engine));
		assert_int_equal(count_threads("otte-rdma\n"), workers == 1);
		assert_int_equal(count_threads("otte-rdma0\n"), workers == 3);
		assert_int_equal(count_threads("otte-rdma2\n"), workers == 3);
		OK(otte_engine_destroy(engine));
	}
}

static int make_engine(void)
{
	struct otte_engine *engine;
	struct otte_config config;
	int ret;

	OK(otte_config_init(&config, sizeof(config)));
	use_workers(&config);
	ret = otte_engine_create(&config, &engine);
	if (!ret)
		OK(otte_engine_destroy(engine));
	assert_string_equal(sim_left(), "");
	assert_int_equal(count_threads("otte-rdma"), 0);
	return ret;
}

/* Until there is no such call any more. */
static void fail_each(unsigned *which, int code)
{
	unsigned count;
	int ret;

	for (count = 1;; count++) {
		assert_int_equal(with_two_nics(NULL), 0);
		*which = count;
		ret = make_engine();
		if (*which)
			break;
		assert_int_equal(ret, code);
	}
	*which = 0;
	assert_int_equal(ret, 0);
	assert_true(count > workers);
}

static void where_a_worker_cannot_be_made_nothing_is_left(void **state)
{
	(void)state;
	workers = 4;
	fail_each(&failing_thread, -EAGAIN);
	fail_each(&failing_loop, -EMFILE);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, as_usual, nothing_is_left)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_worker_moves_bytes_both_ways),
		TEST(two_workers_share_peers_and_move_bytes_both_ways),
		TEST(four_workers_have_a_peer_each),
		TEST(bytes_that_a_thread_of_nics_moves_are_the_same),
		TEST(who_comes_is_given_to_who_has_fewest),
		TEST(each_worker_has_its_lane_on_a_nic),
		TEST(nobody_starves_for_want_of_places),
		TEST(a_place_goes_to_the_worker_whose_source_is_next),
		TEST(what_comes_back_is_told_the_worker_whose_turn_it_is),
		TEST(a_worker_is_woken_when_its_turn_comes),
		TEST(chunks_of_one_pool_go_round_all_workers),
		TEST(chunks_that_are_granted_go_round_all_workers),
		TEST(who_only_tries_for_bytes_is_in_nobodys_way),
		TEST(a_lease_of_another_worker_is_wanted_back),
		TEST(a_source_that_closes_under_way_keeps_nothing),
		TEST(a_route_returns_when_all_workers_have_heard),
		TEST(a_port_goes_and_comes_under_way),
		TEST(who_polls_does_not_sleep_as_long_as_it_has_pairs),
		TEST(two_workers_that_poll_move_bytes_both_ways),
		TEST(workers_run_near_their_nics),
		TEST(one_of_many_waits_for_the_turn),
		TEST(workers_are_known_by_their_names),
		TEST(where_a_worker_cannot_be_made_nothing_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
