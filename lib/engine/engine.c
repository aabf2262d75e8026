/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "control/descriptor.h"
#include "engine/attestor.h"
#include "engine/batch.h"
#include "engine/config.h"
#include "engine/direct.h"
#include "engine/fork.h"
#include "engine/keep.h"
#include "engine/notify.h"
#include "engine/serve.h"
#include "engine/source.h"
#include "engine/source_awaited.h"
#include "engine/source_grant.h"
#include "engine/source_use.h"

/* close() looks this often whether peers' requests have drained. */
#define DRAIN_STEP_NS (1 * NSEC_PER_MSEC)

uint64_t otte_deadline_after(int64_t timeout_ns)
{
	uint64_t now_ns;

	if (timeout_ns < 0)
		return OTTE_FOREVER_NS;
	now_ns = otte_now_ns();
	if ((uint64_t)timeout_ns > OTTE_FOREVER_NS - now_ns)
		return OTTE_FOREVER_NS;
	return now_ns + (uint64_t)timeout_ns;
}

/* ---- The engine's thread ---- */

/* The peers of this moment, each held; at most `capacity`. */
static size_t hold_peers(struct otte_engine *engine, struct otte_peer **peers, size_t capacity,
			 const struct otte_peer *after)
{
	struct otte_peer *peer;
	size_t n = 0;

	pthread_mutex_lock(&engine->peer_lock);
	peer = after ? after->next : engine->peers;
	for (; peer && n < capacity; peer = peer->next) {
		otte_peer_hold(peer);
		peers[n++] = peer;
	}
	pthread_mutex_unlock(&engine->peer_lock);
	return n;
}

static void to_the_end(struct otte_engine *engine)
{
	struct otte_peer *first = engine->peers;

	DL_DELETE(engine->peers, first);
	DL_APPEND(engine->peers, first);
}

/* Peers that wait for the same room get it in turn: who was the first to get some is the last to be asked next. */
static void rotate_peers(struct otte_engine *engine)
{
	struct otte_peer *served = NULL, *peer;

	pthread_mutex_lock(&engine->peer_lock);
	DL_FOREACH(engine->peers, peer) {
		if (peer->served && !served)
			served = peer;
		peer->served = false;
	}
	if (served) {
		while (engine->peers != served)
			to_the_end(engine);
		to_the_end(engine);
	}
	pthread_mutex_unlock(&engine->peer_lock);
}

static int tick(void *arg, uint64_t now_ns)
{
	struct otte_engine *engine = arg;
	struct otte_peer *peers[32], *last = NULL;
	uint64_t next_ns = UINT64_MAX;
	size_t i, n;

	if (now_ns < atomic_load(&engine->tick_due_ns))
		goto out;
	atomic_store(&engine->tick_due_ns, UINT64_MAX);
	rotate_peers(engine);
	if (engine->gate.open)
		otte_slots_new_round(&engine->gate.slots);
	do {
		n = hold_peers(engine, peers, ARRAY_SIZE(peers), last);
		if (last)
			otte_peer_put(last);
		last = NULL;
		for (i = 0; i < n; i++) {
			next_ns = min_u64(next_ns, otte_peer_tick(peers[i], now_ns));
			if (i + 1 == ARRAY_SIZE(peers))
				last = peers[i];
			else
				otte_peer_put(peers[i]);
		}
	} while (last);
	/* A submission may have asked for less meanwhile. */
	otte_engine_tick_at(engine, next_ns);
out:
	next_ns = atomic_load(&engine->tick_due_ns);
	if (next_ns == UINT64_MAX)
		return -1;
	return next_ns <= now_ns ? 0 : (int)min_u64((next_ns - now_ns) / NSEC_PER_MSEC + 1, 1000);
}

/* ---- Create ---- */

static int open_ledger(struct otte_engine *engine)
{
	const struct otte_ledger_limits limits = {
		.regions = engine->config.max_regions,
		.registered_bytes = engine->config.max_registered_bytes,
		.loans = engine->config.max_loans,
		.lent_bytes = UINT64_MAX, /* a standing loan counts its whole region for each peer */
		.retained_bytes = engine->config.max_retained_bytes,
	};
	int ret;

	engine->user = getuid();
	ret = otte_ledger_open(engine->config.ledger, &limits, &engine->ledger);
	if (ret)
		return ret;
	/* It borrows from peers alone. Whoever shares the node has nothing to offer it. */
	ret = engine->ledger->ops->client_open(engine->ledger, engine->identity.name,
					       OTTE_CLIENT_NO_OFFERS, &engine->client);
	if (ret)
		engine->ledger->ops->close(engine->ledger);
	else
		otte_attestor_fill(engine, &engine->attestor);
	return ret;
}

static void close_ledger(struct otte_engine *engine)
{
	otte_source_stop_awaiting(engine);
	engine->ledger->ops->client_close(engine->client);
	engine->ledger->ops->close(engine->ledger);
}

/* They are to be there. */
static bool names_nics(const struct otte_config *config)
{
	return config->rdma_device[0] || config->rdma_whitelist[0] || config->rdma_device_mask ||
	       config->rdma_priority_matrix[0] || config->rdma_topology_file[0];
}

/*
 * Where it is wanted and can be had. What the config names must be there; without that its lack is told to who asks for
 * this transport and no other.
 */
static int probe_rdma(struct otte_engine *engine)
{
	int ret;

	ret = otte_rdma_transport.check(&engine->config);
	if (ret)
		return ret;
	ret = otte_rdma_transport.probe(&engine->config);
	engine->no_rdma = ret;
	snprintf(engine->no_rdma_text, sizeof(engine->no_rdma_text), "%s", otte_error_text());
	if (!ret)
		return 0;
	if (engine->config.rdma_enabled && names_nics(&engine->config))
		return ret;
	if (engine->config.rdma_enabled)
		otte_log(OTTE_LOG_WARNING, "transport rdma is not there: %s", engine->no_rdma_text);
	return 0;
}

static const struct otte_source_ops source_ops = {
	.begin = otte_source_begin,
	.refused = otte_source_refused,
	.still = otte_source_still,
	.guarded = otte_source_guarded,
	.lasts = otte_source_lasts,
	.firm = otte_source_firm,
	.end = otte_source_end,
	.retain = otte_source_retain,
	.lane_closed = otte_source_lane_closed,
	.begin_lent = otte_source_begin_lent,
	.end_lent = otte_source_end_lent,
	.published = otte_source_published,
	.identity = otte_source_identity,
	.grant = otte_source_grant,
	.give_back = otte_source_give_back,
	.process_ended = otte_source_process_ended,
	.over = otte_source_over,
	.granted = otte_source_granted,
	.fresh = otte_source_fresh,
	.stands = otte_source_stands,
	.revoke_grant = otte_source_revoke_grant,
	.retain_grant = otte_source_retain_grant,
	.count = otte_source_count,
	.connected = otte_source_connected,
};

/* In the order in which they are asked. */
static int open_transport(struct otte_engine *engine)
{
	const struct otte_transport_ops *chain[4] = { NULL };
	unsigned count = 0;
	struct otte_transport_env env = {
		.config = &engine->config,
		.loop = &engine->progress.lanes,
		.serve_loops = engine->serve_loops,
		.source = source_ops,
		.keep = {
			.keep = otte_keep,
			.let_go = otte_keep_let_go,
			.lost = otte_keep_lost,
		},
		.identity = &engine->identity,
		.client = engine->ledger->ops->loan_copy ? engine->client : NULL,
		.next = &chain[1],
	};
	int ret;

	env.source.engine = engine;
	ret = probe_rdma(engine);
	if (!ret)
		ret = otte_tcp_transport.probe(&engine->config);
	if (ret)
		return ret;
	if (engine->config.local_trusted || env.client)
		chain[count++] = &otte_local_transport;
	if (!engine->no_rdma)
		chain[count++] = &otte_rdma_transport;
	chain[count] = &otte_tcp_transport;
	engine->server.offers = OTTE_CAN_CUT | (engine->no_rdma ? 0 : OTTE_CAN_RDMA);
	return chain[0]->create(&env, &engine->transport);
}

static void init_locks(struct otte_engine *engine)
{
	pthread_mutex_init(&engine->memory_lock, NULL);
	pthread_mutex_init(&engine->register_lock, NULL);
	pthread_rwlock_init(&engine->region_lock, NULL);
	pthread_mutex_init(&engine->region_wait_lock, NULL);
	otte_cond_init(&engine->region_idle);
	pthread_mutex_init(&engine->peer_lock, NULL);
	pthread_mutex_init(&engine->source_lock, NULL);
	pthread_mutex_init(&engine->awaited_lock, NULL);
	pthread_mutex_init(&engine->parked_lock, NULL);
	pthread_mutex_init(&engine->close_lock, NULL);
}

static void fini_locks(struct otte_engine *engine)
{
	pthread_mutex_destroy(&engine->memory_lock);
	pthread_mutex_destroy(&engine->register_lock);
	pthread_rwlock_destroy(&engine->region_lock);
	pthread_mutex_destroy(&engine->region_wait_lock);
	pthread_cond_destroy(&engine->region_idle);
	pthread_mutex_destroy(&engine->peer_lock);
	pthread_mutex_destroy(&engine->source_lock);
	pthread_mutex_destroy(&engine->awaited_lock);
	pthread_mutex_destroy(&engine->parked_lock);
	pthread_mutex_destroy(&engine->close_lock);
}

static int identify(struct otte_engine *engine)
{
	int ret;

	ret = otte_fork_watch();
	if (ret)
		return ret;
	engine->generation = atomic_load(&otte_fork_generation);
	ret = otte_identity_init(&engine->identity, engine->config.name);
	if (ret || !engine->config.key_file[0])
		return ret;
	ret = otte_keys_load(engine->config.key_file, &engine->keys);
	return ret ? otte_fail_within(ret, "auth.key_file: ") : 0;
}

int otte_engine_create(const struct otte_config *config, struct otte_engine **out)
{
	struct otte_engine *engine;
	int ret;

	if (!out)
		return otte_fail(-EINVAL, "otte_engine_create: engine must not be NULL");
	*out = NULL;
	engine = calloc(1, sizeof(*engine));
	if (!engine)
		return otte_fail(-ENOMEM, "no memory for an engine");
	init_locks(engine);
	ret = otte_config_take(&engine->config, config);
	if (!ret)
		ret = identify(engine);
	if (ret)
		goto free_engine;
	engine->bounded = engine->config.max_high_requests < engine->config.max_requests ||
			  engine->config.max_medium_requests < engine->config.max_requests ||
			  engine->config.max_low_requests < engine->config.max_requests;
	ret = open_ledger(engine);
	if (ret)
		goto wipe_keys;
	ret = otte_notify_queue_create(&engine->notify);
	if (ret)
		goto close_ledger;
	ret = otte_serve_open(engine);
	if (ret)
		goto destroy_notify;
	ret = open_transport(engine);
	if (ret)
		goto close_serve;
	ret = otte_progress_start(&engine->progress, &engine->requests, &engine->direct.busy, tick, engine);
	if (ret)
		goto destroy_transport;
	ret = otte_gate_open(engine);
	if (ret)
		goto stop_progress;
	otte_direct_open(engine);
	ret = otte_serve_start(engine);
	if (ret)
		goto stop_progress;
	*out = engine;
	return 0;

stop_progress:
	otte_progress_stop(&engine->progress);
	otte_gate_close(engine);
	/* Before the transport goes: a worker that did start may have accepted peers with lanes. */
	otte_control_server_close(&engine->server);
	otte_progress_fini(&engine->progress);
destroy_transport:
	engine->transport->ops->destroy(engine->transport);
	otte_gate_fini(engine);
close_serve:
	otte_control_server_close(&engine->server);
	otte_serve_close(engine);
destroy_notify:
	otte_notify_queue_destroy(engine->notify);
close_ledger:
	close_ledger(engine);
wipe_keys:
	otte_keys_wipe(&engine->keys);
free_engine:
	fini_locks(engine);
	free(engine);
	return ret;
}

/* ---- Close ---- */

/* The ledger's, and what is retained without a record there. */
static void count(struct otte_engine *engine, struct otte_ledger_counters *counters)
{
	engine->ledger->ops->counters(engine->ledger, counters);
	counters->retained += atomic_load(&engine->kept);
	counters->retained_bytes += atomic_load(&engine->kept_bytes);
}

static void fill_report(struct otte_engine *engine, struct otte_close_report *report)
{
	struct otte_ledger_counters counters;
	struct otte_close_report whole = { 0 };

	if (!report)
		return;
	count(engine, &counters);
	whole.requests = otte_engine_requests(engine);
	whole.loans = counters.loans;
	whole.retained = counters.retained;
	whole.retained_bytes = counters.retained_bytes;
	sized_copy_out(report, &whole, sizeof(whole));
}

static bool drained(struct otte_engine *engine, unsigned directions)
{
	if (directions & OTTE_CLOSE_REQUESTER && otte_engine_requests(engine))
		return false;
	return !(directions & OTTE_CLOSE_SOURCE) || !otte_source_busy(engine);
}

static int drain(struct otte_engine *engine, unsigned directions, uint64_t until_ns)
{
	const struct timespec step = { .tv_nsec = DRAIN_STEP_NS };

	while (!drained(engine, directions)) {
		if (otte_now_ns() >= until_ns)
			return otte_fail(-ETIMEDOUT, "%lu requests of ours and %lu of peers are under way",
					 (unsigned long)otte_engine_requests(engine),
					 (unsigned long)otte_source_busy(engine));
		otte_progress_poll(&engine->progress);
		nanosleep(&step, NULL);
	}
	return 0;
}

static int close_directions(struct otte_engine *engine, unsigned directions, uint64_t until_ns)
{
	struct otte_ledger_counters counters;
	int ret;

	if (directions & OTTE_CLOSE_REQUESTER)
		atomic_store(&engine->requester_closed, true);
	if (directions & OTTE_CLOSE_SOURCE && !atomic_exchange(&engine->source_closed, true)) {
		otte_serve_say_bye(engine);
		otte_source_recall(engine, 0);
	}
	ret = drain(engine, directions, until_ns);
	if (ret)
		return ret;
	if (directions & OTTE_CLOSE_SOURCE)
		otte_source_settle_all(engine);
	count(engine, &counters);
	if (counters.retained)
		return otte_fail(-EUCLEAN, "%lu records of %lu bytes are retained",
				 (unsigned long)counters.retained,
				 (unsigned long)counters.retained_bytes);
	return 0;
}

int otte_engine_close(struct otte_engine *engine, unsigned directions, int64_t timeout_ns,
		      struct otte_close_report *report)
{
	bool mine;
	int ret;

	if (!engine)
		return otte_fail(-EINVAL, "otte_engine_close: engine must not be NULL");
	if (!directions || directions & ~(OTTE_CLOSE_SOURCE | OTTE_CLOSE_REQUESTER))
		return otte_fail(-EINVAL, "otte_engine_close: directions are %#x, allowed are bits of %#x",
				 directions, OTTE_CLOSE_SOURCE | OTTE_CLOSE_REQUESTER);
	if (report && report->size < sizeof(report->size))
		return otte_fail(-EINVAL, "otte_engine_close: report->size is not set");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	pthread_mutex_lock(&engine->close_lock);
	mine = !engine->closing;
	engine->closing = true;
	pthread_mutex_unlock(&engine->close_lock);
	if (!mine)
		return otte_fail(-EALREADY, "another thread is closing the engine");
	ret = close_directions(engine, directions, otte_deadline_after(timeout_ns));
	fill_report(engine, report);
	pthread_mutex_lock(&engine->close_lock);
	engine->closing = false;
	pthread_mutex_unlock(&engine->close_lock);
	return ret;
}

static int check_unused(struct otte_engine *engine)
{
	uint64_t segments = atomic_load(&engine->segments), batches = atomic_load(&engine->batches);
	uint64_t lists = atomic_load(&engine->block_lists), regions, memories;

	pthread_rwlock_rdlock(&engine->region_lock);
	regions = HASH_COUNT(engine->regions);
	pthread_rwlock_unlock(&engine->region_lock);
	pthread_mutex_lock(&engine->memory_lock);
	memories = engine->memory_count;
	pthread_mutex_unlock(&engine->memory_lock);
	if (segments || batches || lists || regions || memories)
		return otte_fail(-EBUSY,
				 "%lu segments, %lu batches, %lu block lists, %lu regions, %lu memories are in use",
				 (unsigned long)segments, (unsigned long)batches,
				 (unsigned long)lists, (unsigned long)regions,
				 (unsigned long)memories);
	return 0;
}

int otte_engine_destroy(struct otte_engine *engine)
{
	int ret;

	if (!engine)
		return 0;
	ret = otte_fork_check(engine->generation);
	if (!ret)
		ret = check_unused(engine);
	if (ret)
		return ret;
	atomic_store(&engine->requester_closed, true);
	atomic_store(&engine->source_closed, true);
	otte_progress_stop(&engine->progress);
	otte_serve_stop(engine);
	otte_transport_settle(engine->transport);
	/* No thread of ours runs any more that knows of requests: what is left is taken down in the order of use. */
	otte_control_server_close(&engine->server);
	otte_gate_close(engine);
	otte_progress_fini(&engine->progress);
	engine->transport->ops->destroy(engine->transport);
	otte_gate_fini(engine);
	otte_serve_close(engine);
	otte_notify_queue_destroy(engine->notify);
	close_ledger(engine);
	otte_keys_wipe(&engine->keys);
	fini_locks(engine);
	free(engine);
	return 0;
}

/* ---- Who we are ---- */

uint64_t otte_engine_epoch(const struct otte_engine *engine)
{
	return engine ? engine->identity.epoch : 0;
}

int otte_engine_address(struct otte_engine *engine, char *text, size_t size)
{
	int ret;

	if (!engine || !text)
		return otte_fail(-EINVAL, "otte_engine_address: engine and text must not be NULL");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	if (!engine->address[0])
		return otte_fail(-ENOTCONN, "the engine has no listener");
	if (strlen(engine->address) >= size)
		return otte_fail(-ENOSPC, "the address needs %zu bytes", strlen(engine->address) + 1);
	strcpy(text, engine->address);
	return 0;
}

int otte_engine_descriptor(struct otte_engine *engine, char *text, size_t size)
{
	struct otte_descriptor descriptor = { 0 };
	int ret;

	if (!engine || !text)
		return otte_fail(-EINVAL, "otte_engine_descriptor: engine and text must not be NULL");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	if (!engine->address[0])
		return otte_fail(-ENOTCONN, "the engine has no listener");
	ret = otte_endpoint_parse(engine->address, 0, &descriptor.endpoint);
	if (ret)
		return ret;
	memcpy(descriptor.boot_id, engine->identity.boot_id, sizeof(descriptor.boot_id));
	memcpy(descriptor.incarnation, engine->identity.incarnation,
	       sizeof(descriptor.incarnation));
	descriptor.epoch = engine->identity.epoch;
	return otte_descriptor_encode(&descriptor, text, size);
}
