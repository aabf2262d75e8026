/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/worker.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "topo/cpus.h"
#include "topo/topo.h"
#include "transport/rdma/deadline.h"
#include "transport/rdma/endpoint.h"
#include "transport/rdma/grant.h"
#include "transport/rdma/lease.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/routes.h"
#include "transport/rdma/source.h"

/* The thread looks up this often while something has a limit, and while there is nothing to do. */
#define TICK_MS 20
#define IDLE_MS 1000
#define SETTLE_STEP_NS 50000
/* Of so many who do not have the turn one waits for it, this long and as much as the kernel adds. */
#define PATIENT_ONE_OF 32
#define PATIENCE_NS 1

/* ---- What it looks at ---- */

static void free_peer(struct otte_retired *retired)
{
	struct otte_rdma_peer *peer = container_of(retired, struct otte_rdma_peer, retired);

	otte_rdma_endpoints_free(peer);
	pthread_mutex_destroy(&peer->lock);
	free(peer);
}

/* Others append to the list; this thread alone takes away from it. */
static void look_at_peers(struct otte_rdma_worker *worker, uint64_t now_ns)
{
	struct otte_rdma_peer *peer, *next;
	bool stays;

	pthread_mutex_lock(&worker->lock);
	for (peer = worker->peers; peer; peer = next) {
		pthread_mutex_unlock(&worker->lock);
		stays = otte_rdma_peer_look(peer, now_ns);
		pthread_mutex_lock(&worker->lock);
		next = peer->next_peer;
		if (stays)
			continue;
		DL_DELETE2(worker->peers, peer, prev, next_peer);
		atomic_fetch_sub(&worker->sessions, 1);
		/* What a queue pair that stays may still name stays with it. */
		if (otte_rdma_peer_has_retained(peer))
			continue;
		otte_rdma_leases_forget(peer);
		peer->retired.free = free_peer;
		otte_loop_retire(&worker->loop, &peer->retired);
	}
	pthread_mutex_unlock(&worker->lock);
}

static void free_source(struct otte_retired *retired)
{
	free(container_of(retired, struct otte_rdma_source, retired));
}

static void look_at_sources(struct otte_rdma_worker *worker, uint64_t now_ns)
{
	struct otte_rdma_source *source, *next;
	bool stays;

	otte_rdma_sources_hear(worker);
	pthread_mutex_lock(&worker->lock);
	for (source = worker->sources; source; source = next) {
		pthread_mutex_unlock(&worker->lock);
		stays = otte_rdma_source_look(source, now_ns);
		if (!stays)
			worker->rdma->env.source.lane_closed(source->peer);
		pthread_mutex_lock(&worker->lock);
		next = source->next;
		if (stays)
			continue;
		DL_DELETE(worker->sources, source);
		atomic_fetch_sub(&worker->sessions, 1);
		if (source->pairs)
			continue;
		source->retired.free = free_source;
		otte_loop_retire(&worker->loop, &source->retired);
	}
	pthread_mutex_unlock(&worker->lock);
}

/* ---- The thread ---- */

static bool is_over(struct otte_rdma_worker *worker, uint64_t now_ns, uint64_t *stop_ns)
{
	const struct otte_rdma *rdma = worker->rdma;
	bool nothing;

	if (!atomic_load(&rdma->stop))
		return false;
	if (!*stop_ns)
		*stop_ns = now_ns;
	pthread_mutex_lock(&worker->lock);
	nothing = !worker->peers && !worker->sources && !worker->closing;
	pthread_mutex_unlock(&worker->lock);
	return nothing || now_ns - *stop_ns > 2 * rdma->env.config->rdma_destruction_ns;
}

static uint64_t sleep_ns(struct otte_rdma_worker *worker)
{
	struct otte_rdma_peer *peer;
	bool soon = worker->closing || worker->unrecorded || worker->timed || worker->soon ||
		    atomic_load(&worker->rdma->stop);

	soon |= otte_rdma_lanes_are_deaf(worker);
	pthread_mutex_lock(&worker->lock);
	DL_FOREACH2(worker->peers, peer, next_peer)
		soon |= peer->state == OTTE_RDMA_PEER_HELLO || peer->state == OTTE_RDMA_PEER_PATHS;
	pthread_mutex_unlock(&worker->lock);
	return (soon ? TICK_MS : IDLE_MS) * NSEC_PER_MSEC;
}

static bool try_turn(struct otte_rdma_worker *worker)
{
	return !atomic_load(&worker->awaited) && !pthread_mutex_trylock(&worker->turn);
}

/*
 * A thread that has just ended somebody's request, and woken him, still has the turn, until it has
 * looked for more and sleeps. Where the scheduler gives him its CPU at once he finds the turn taken,
 * and leaves his next request to the thread, and the one after that: it would go on so for ever, at
 * the price of two more switches for each. So now and then one sleeps, which lets the thread come to
 * its own sleep. A thread that is busy costs those who do so little, as they are few.
 */
bool otte_rdma_take_turn(struct otte_rdma_worker *worker)
{
	const struct timespec patience = { .tv_nsec = PATIENCE_NS };

	if (try_turn(worker))
		return true;
	if (worker->rdma->env.config->rdma_progress == OTTE_RDMA_PROGRESS_POLLING)
		return false; /* it is never given up */
	if (atomic_fetch_add(&worker->impatient, 1) % PATIENT_ONE_OF != PATIENT_ONE_OF - 1)
		return false;
	nanosleep(&patience, NULL);
	return try_turn(worker);
}

void otte_rdma_end_turn(struct otte_rdma_worker *worker)
{
	pthread_mutex_unlock(&worker->turn);
}

/* Until there is something to do, or the slot opens of what waits for it; without the turn. */
static void sleep_a_while(struct otte_rdma_worker *worker, uint64_t limit_ns)
{
	struct pollfd set = { .fd = worker->loop.epoll_fd, .events = POLLIN };
	uint64_t again_ns = worker->posts.again_ns, now_ns;
	struct timespec limit;

	if (again_ns != UINT64_MAX) {
		now_ns = otte_now_ns();
		limit_ns = min_u64(limit_ns, again_ns - min_u64(again_ns, now_ns));
	}
	limit = (struct timespec){ (time_t)(limit_ns / NSEC_PER_SEC),
				   (long)(limit_ns % NSEC_PER_SEC) };
	pthread_mutex_unlock(&worker->turn);
	ppoll(&set, 1, &limit, NULL);
	atomic_store(&worker->awaited, true);
	pthread_mutex_lock(&worker->turn);
	atomic_store(&worker->awaited, false);
}

static bool polls(const struct otte_rdma_worker *worker)
{
	return worker->pairs &&
	       worker->rdma->env.config->rdma_progress == OTTE_RDMA_PROGRESS_POLLING;
}

/* Who polls lets others have its CPU, who may be at work for it. */
static void wait_a_while(struct otte_rdma_worker *worker)
{
	if (polls(worker))
		sched_yield();
	else
		sleep_a_while(worker, sleep_ns(worker));
}

/* Where it may not it runs where it can. */
static void bind_to_cpus(const struct otte_rdma_worker *worker)
{
	if (worker->bound && sched_setaffinity(0, sizeof(worker->cpus), &worker->cpus))
		otte_log(OTTE_LOG_WARNING,
			 "a thread of rdma is not bound to CPUs near its NICs: %m");
}

static void *run(void *arg)
{
	struct otte_rdma_worker *worker = arg;
	uint64_t now_ns = otte_now_ns(), stop_ns = 0;

	bind_to_cpus(worker);
	pthread_mutex_lock(&worker->turn);
	while (!is_over(worker, now_ns, &stop_ns)) {
		worker->busy = worker->unrecorded = worker->timed = worker->soon = false;
		/* Before it looks: what is left from here on needs another wake. */
		atomic_store(&worker->woken, false);
		atomic_fetch_add(&worker->rounds, 1);
		otte_rdma_lanes_poll(worker);
		otte_rdma_routes_look(worker);
		look_at_peers(worker, now_ns);
		otte_rdma_posts_go_on(&worker->posts, now_ns);
		look_at_sources(worker, now_ns);
		otte_rdma_lents_go_on(worker);
		otte_rdma_pairs_reap(worker, now_ns);
		otte_rdma_lines_send(&worker->lines);
		if (!worker->busy) {
			otte_rdma_lanes_arm(worker);
			otte_rdma_lanes_poll(worker);
		}
		if (!worker->busy && !worker->lines.unsent)
			wait_a_while(worker);
		otte_loop_run(&worker->loop, 0);
		now_ns = otte_now_ns();
	}
	pthread_mutex_unlock(&worker->turn);
	return NULL;
}

/* ---- All of them ---- */

void otte_rdma_wake_all(struct otte_rdma *rdma)
{
	unsigned int i;

	for (i = 0; i < rdma->worker_count; i++)
		otte_rdma_wake(&rdma->workers[i]);
}

/* A round of one that began after this was called. */
static void settle(struct otte_rdma_worker *worker)
{
	const struct timespec step = { .tv_nsec = SETTLE_STEP_NS };
	uint64_t seen = atomic_load(&worker->rounds);

	while (atomic_load(&worker->rounds) == seen) {
		otte_rdma_wake(worker);
		nanosleep(&step, NULL);
	}
}

void otte_rdma_workers_settle(struct otte_rdma *rdma)
{
	unsigned int i;

	for (i = 0; i < rdma->worker_count; i++)
		settle(&rdma->workers[i]);
}

struct otte_rdma_worker *otte_rdma_worker_choose(struct otte_rdma *rdma)
{
	struct otte_rdma_worker *each, *least = &rdma->workers[rdma->next_worker];
	unsigned int i;

	for (i = 1; i < rdma->worker_count; i++) {
		each = &rdma->workers[(rdma->next_worker + i) % rdma->worker_count];
		if (atomic_load(&each->sessions) < atomic_load(&least->sessions))
			least = each;
	}
	rdma->next_worker = (least->index + 1) % rdma->worker_count;
	atomic_fetch_add(&least->sessions, 1);
	return least;
}

bool otte_rdma_workers_keep(const struct otte_rdma *rdma)
{
	unsigned int i;

	for (i = 0; i < rdma->worker_count; i++)
		if (rdma->workers[i].peers || rdma->workers[i].sources)
			return true;
	return false;
}

/* ---- Life ---- */

static int open_worker(struct otte_rdma *rdma, unsigned int index)
{
	struct otte_rdma_worker *worker = &rdma->workers[index];
	unsigned int nic;
	int ret;

	ret = otte_loop_init(&worker->loop);
	if (ret)
		return ret;
	ret = otte_rdma_deadlines_open(worker, rdma->env.config);
	if (ret) {
		otte_loop_fini(&worker->loop);
		return ret;
	}
	worker->rdma = rdma;
	worker->index = index;
	worker->lines.loop = &worker->loop;
	otte_rdma_posts_init(&worker->posts, rdma->env.config);
	worker->lines.silence_ns = rdma->env.config->control_timeout_ns;
	for (nic = 0; nic < OTTE_NIC_IDS; nic++)
		worker->lanes[nic] = (struct otte_rdma_nic_lanes){
			.worker = worker,
			.poller = &rdma->pollers[nic],
		};
	pthread_mutex_init(&worker->lock, NULL);
	pthread_mutex_init(&worker->turn, NULL);
	return 0;
}

int otte_rdma_workers_open(struct otte_rdma *rdma)
{
	int ret;

	for (; rdma->worker_count < rdma->env.config->rdma_workers; rdma->worker_count++) {
		ret = open_worker(rdma, rdma->worker_count);
		if (ret) {
			otte_rdma_workers_close(rdma);
			return ret;
		}
	}
	return 0;
}

void otte_rdma_workers_close(struct otte_rdma *rdma)
{
	while (rdma->worker_count) {
		struct otte_rdma_worker *worker = &rdma->workers[--rdma->worker_count];

		otte_loop_fini(&worker->loop);
		otte_rdma_deadlines_close(worker);
		pthread_mutex_destroy(&worker->turn);
		pthread_mutex_destroy(&worker->lock);
	}
}

static int start(struct otte_rdma_worker *worker)
{
	char name[16] = "otte-rdma";
	int ret;

	if (worker->rdma->worker_count > 1)
		snprintf(name, sizeof(name), "otte-rdma%u", worker->index);
	ret = otte_thread_start(&worker->thread, name, run, worker);
	worker->started = !ret;
	return ret;
}

/* The nodes of the NICs; how many NICs say theirs. */
static size_t list_nodes(const struct otte_rdma *rdma, int nodes[OTTE_NIC_IDS])
{
	const struct otte_rdma_context *context;
	size_t count = 0;
	unsigned int nic;

	for (nic = 0; nic < OTTE_NIC_IDS; nic++) {
		context = rdma->pollers[nic].context;
		if (context && context->node != OTTE_TOPO_NO_NODE)
			nodes[count++] = context->node;
	}
	return count;
}

/*
 * Of those that who makes the engine runs on. Where nothing is known of NICs or CPUs they run where
 * he does.
 */
static void choose_cpus(struct otte_rdma *rdma)
{
	struct otte_topo *topo = NULL;
	cpu_set_t allowed, cpus;
	int nodes[OTTE_NIC_IDS];
	size_t count = list_nodes(rdma, nodes);
	unsigned int i;
	bool known;

	if (!rdma->env.config->rdma_bind_cpus || !count ||
	    sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	if (otte_topo_read(NULL, &topo)) {
		otte_log(OTTE_LOG_WARNING, "threads of rdma are not bound to CPUs: %s",
			 otte_error_text());
		return;
	}
	known = otte_topo_cpus_near(topo, nodes, count, &allowed, &cpus);
	otte_topo_free(topo);
	for (i = 0; i < rdma->worker_count; i++) {
		rdma->workers[i].bound = known;
		rdma->workers[i].cpus = cpus;
	}
}

int otte_rdma_workers_start(struct otte_rdma *rdma)
{
	unsigned int i;
	int ret = 0;

	choose_cpus(rdma);
	for (i = 0; i < rdma->worker_count && !ret; i++)
		ret = start(&rdma->workers[i]);
	if (ret)
		otte_rdma_workers_stop(rdma);
	return ret;
}

void otte_rdma_workers_stop(struct otte_rdma *rdma)
{
	unsigned int i;

	atomic_store(&rdma->stop, true);
	otte_rdma_wake_all(rdma);
	for (i = 0; i < rdma->worker_count; i++)
		if (rdma->workers[i].started)
			pthread_join(rdma->workers[i].thread, NULL);
}
