/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/line.h"
#include "base/log.h"
#include "base/thread.h"
#include "engine/batch.h"
#include "engine/engine.h"

/* Lanes and hellos are looked at this often while there are peers. */
#define TICK_NS (50 * NSEC_PER_MSEC)

/* ---- State ---- */

/* Under lock. */
static void say_why(struct otte_peer *peer, int code)
{
	char text[OTTE_ADDRESS_MAX + OTTE_TEXT_MAX + 128];

	peer->code = code;
	snprintf(text, sizeof(text), "peer %s: %s", peer->endpoint, otte_error_text());
	otte_line_escape(peer->text, sizeof(peer->text), text);
}

static void on_lost(struct otte_peer *peer, int code)
{
	struct otte_engine *engine = peer->engine;
	bool was_ready, lost;

	pthread_mutex_lock(&peer->lock);
	was_ready = peer->state == OTTE_PEER_READY;
	lost = !peer->closing &&
	       (was_ready || peer->state == OTTE_PEER_CONNECTING);
	if (lost) {
		peer->state = OTTE_PEER_LOST;
		peer->losses++;
		say_why(peer, code);
		peer->retry_at_ns = otte_now_ns() + peer->backoff_ns;
		peer->backoff_ns = min_u64(peer->backoff_ns * 2, engine->config.reconnect_max_ns);
	}
	pthread_mutex_unlock(&peer->lock);
	if (was_ready)
		atomic_fetch_sub(&engine->counters.peers_out, 1);
	if (lost && was_ready)
		otte_log(OTTE_LOG_WARNING, "lost %s", peer->text);
	peer->transport->ops->peer_stop(peer->transport, -ECONNRESET);
	otte_batch_fail_queued(peer, -ECONNRESET);
	pthread_mutex_lock(&peer->lock);
	pthread_cond_broadcast(&peer->changed);
	pthread_mutex_unlock(&peer->lock);
}

/*
 * Under lock: whether who answers is who answered, by its word and by the module's. -EDQUOT: the module has no room to
 * say it, so one whom it has attested before is asked again later; somebody unknown must not take that one's place.
 */
static int check_same(const struct otte_peer *peer)
{
	const struct otte_control_client *control = &peer->control;
	uint64_t epoch = control->welcome.identity.epoch;

	if (peer->identity.epoch && peer->identity.epoch != epoch)
		return otte_fail(-ESTALE, "epoch %016lx answers there now, not %016lx",
				 (unsigned long)epoch, (unsigned long)peer->identity.epoch);
	if (peer->client && control->unattested)
		return otte_fail(-EDQUOT, "whether it is client %lu of the module cannot be told now",
				 (unsigned long)peer->client);
	if (peer->client && peer->client != control->attested)
		return otte_fail(-ESTALE, "client %lu of the module answers there now, not %lu",
				 (unsigned long)control->attested, (unsigned long)peer->client);
	return 0;
}

/* Under lock: what there is to say of it, once for each peer, or NULL. */
static const char *how_attested(struct otte_peer *peer)
{
	const struct otte_control_client *control = &peer->control;
	const struct otte_identity *ours = &peer->engine->identity;

	if (control->attested)
		return peer->said_unattested && !peer->client ? "is attested now" : NULL;
	if (!peer->engine->attestor.client || peer->said_unattested)
		return NULL;
	peer->said_unattested = true;
	if (control->unattested)
		return "is not attested: the module, or the peer, has no room for that";
	if (memcmp(control->welcome.identity.boot_id, ours->boot_id, sizeof(ours->boot_id)) == 0)
		return "of this host does not say which client of the module it is";
	return NULL;
}

static void on_open(struct otte_peer *peer)
{
	const struct otte_welcome *welcome = &peer->control.welcome;
	const char *said = NULL;
	int ret;

	pthread_mutex_lock(&peer->lock);
	ret = check_same(peer);
	if (ret == -ESTALE) {
		say_why(peer, -ESTALE);
		peer->state = OTTE_PEER_STALE;
		pthread_cond_broadcast(&peer->changed);
	} else if (!ret) {
		said = how_attested(peer);
		peer->identity = welcome->identity;
		peer->authenticated = welcome->flags & OTTE_HELLO_AUTH;
		peer->client = peer->control.attested;
		peer->said_bye = false;
	}
	pthread_mutex_unlock(&peer->lock);
	if (said)
		otte_log(peer->control.unattested ? OTTE_LOG_WARNING : OTTE_LOG_INFO, "peer %s %s",
			 peer->endpoint, said);
	if (ret)
		otte_control_client_stop(&peer->control, ret);
	else
		peer->transport->ops->peer_connect(peer->transport);
}

static void control_changed(struct otte_control_client *control, enum otte_client_state state,
			    int code)
{
	struct otte_peer *peer = container_of(control, struct otte_peer, control);

	if (state == OTTE_CLIENT_LOST) {
		on_lost(peer, code);
	} else if (code == -ESHUTDOWN) {
		pthread_mutex_lock(&peer->lock);
		peer->said_bye = true;
		pthread_mutex_unlock(&peer->lock);
	} else {
		on_open(peer);
	}
}

/* Where a domain counts bytes under way at NICs. */
static uint8_t find_nic(struct otte_peer *peer)
{
	char name[IF_NAMESIZE];

	if (!peer->window.slots || !peer->window.slots->share || !peer->transport->ops->peer_nic ||
	    peer->transport->ops->peer_nic(peer->transport, name))
		return OTTE_SLOTS_NO_NIC;
	return otte_gate_nic(peer->engine, name);
}

static void transport_changed(void *arg)
{
	struct otte_peer *peer = arg;
	bool ready = false;
	uint8_t nic;
	int ret;

	ret = peer->transport->ops->peer_ready(peer->transport);
	if (ret < 0) {
		otte_control_client_stop(&peer->control, ret);
		return;
	}
	if (ret == 0 || peer->state != OTTE_PEER_CONNECTING)
		return;
	nic = find_nic(peer);
	pthread_mutex_lock(&peer->lock);
	if (peer->state == OTTE_PEER_CONNECTING && !peer->closing) {
		ready = true;
		peer->window.nic = nic;
		peer->state = OTTE_PEER_READY;
		peer->backoff_ns = peer->engine->config.reconnect_min_ns;
		pthread_cond_broadcast(&peer->changed);
	}
	pthread_mutex_unlock(&peer->lock);
	if (ready)
		atomic_fetch_add(&peer->engine->counters.peers_out, 1);
}

/* ---- Life ---- */

static void fill_window(struct otte_engine *engine, struct otte_window *window)
{
	const struct otte_config *config = &engine->config;

	window->max_requests = config->window_requests;
	window->max_bytes = config->window_bytes;
	window->slots = otte_gate_slots(engine);
	window->nic = OTTE_SLOTS_NO_NIC;
	window->queue.aging_ns = config->aging_ns;
	window->queue.per_entry = config->aging_per_entry;
	window->queue.bound[OTTE_PRIORITY_HIGH] = config->max_high_requests;
	window->queue.bound[OTTE_PRIORITY_MEDIUM] = config->max_medium_requests;
	window->queue.bound[OTTE_PRIORITY_LOW] = config->max_low_requests;
}

static void fill_control(struct otte_engine *engine, const struct otte_addresses *addresses,
			 struct otte_control_client *control)
{
	unsigned i;

	control->loop = &engine->progress.control;
	control->identity = &engine->identity;
	control->keys = &engine->keys;
	control->attestor = &engine->attestor;
	control->offers = OTTE_CAN_CUT | (engine->no_rdma ? 0 : OTTE_CAN_RDMA);
	control->max_payload = engine->config.control_frame_bytes;
	control->timeout_ns = engine->config.control_timeout_ns;
	control->changed = control_changed;
	for (i = 0; i < addresses->count && i < OTTE_CLIENT_ADDRESSES; i++) {
		control->addresses[i].address = addresses->list[i].storage;
		control->addresses[i].length = addresses->list[i].length;
	}
	control->address_count = i;
}

static int create(struct otte_engine *engine, const char *endpoint,
		  const struct otte_addresses *addresses, uint64_t epoch, struct otte_peer **out)
{
	struct otte_peer *peer;
	int ret;

	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return otte_fail(-ENOMEM, "no memory for a peer");
	peer->engine = engine;
	peer->refs = 1;
	snprintf(peer->endpoint, sizeof(peer->endpoint), "%s", endpoint);
	peer->identity.epoch = epoch;
	peer->next_deadline_ns = UINT64_MAX;
	peer->backoff_ns = engine->config.reconnect_min_ns;
	fill_window(engine, &peer->window);
	fill_control(engine, addresses, &peer->control);
	ret = engine->transport->ops->peer_open(engine->transport, &peer->control, transport_changed,
						peer, &peer->transport);
	if (ret) {
		free(peer);
		return ret;
	}
	otte_control_client_init(&peer->control);
	pthread_mutex_init(&peer->lock, NULL);
	otte_cond_init(&peer->changed);
	*out = peer;
	return 0;
}

static void free_peer(struct otte_peer *peer)
{
	struct otte_known_region *region, *next;

	HASH_ITER(hh, peer->regions, region, next) {
		HASH_DEL(peer->regions, region);
		free(region);
	}
	peer->transport->ops->peer_close(peer->transport);
	otte_control_client_fini(&peer->control);
	pthread_cond_destroy(&peer->changed);
	pthread_mutex_destroy(&peer->lock);
	free(peer);
}

static void lanes_forgot(struct otte_retired *retired)
{
	struct otte_peer *peer = container_of(retired, struct otte_peer, retired);

	free_peer(peer);
}

static void control_forgot(struct otte_retired *retired)
{
	struct otte_peer *peer = container_of(retired, struct otte_peer, retired);

	peer->retired.free = lanes_forgot;
	otte_loop_retire(&peer->engine->progress.lanes, &peer->retired);
}

/* No one has the peer any more. Its watches may still stand in rounds that are being handled. */
static void take_down(struct otte_peer *peer)
{
	struct otte_engine *engine = peer->engine;
	char said[OTTE_ERROR_BYTES];
	bool was_ready;

	/* Whoever lets the peer go has perhaps just said why. */
	snprintf(said, sizeof(said), "%s", otte_error_text());
	pthread_mutex_lock(&peer->lock);
	was_ready = peer->state == OTTE_PEER_READY;
	peer->closing = true;
	peer->state = OTTE_PEER_LOST;
	pthread_mutex_unlock(&peer->lock);
	if (was_ready)
		atomic_fetch_sub(&engine->counters.peers_out, 1);
	otte_fail(-ESHUTDOWN, "the segment is closed");
	otte_control_client_stop(&peer->control, -ESHUTDOWN);
	peer->transport->ops->peer_stop(peer->transport, -ESHUTDOWN);
	peer->retired.free = control_forgot;
	otte_loop_retire(&engine->progress.control, &peer->retired);
	otte_loop_wake(&engine->progress.control);
	otte_fail(0, "%s", said);
}

int otte_peer_get(struct otte_engine *engine, const char *endpoint,
		  const struct otte_addresses *addresses, uint64_t epoch, struct otte_peer **out,
		  uint64_t *losses)
{
	struct otte_peer *peer;
	int ret = 0;

	pthread_mutex_lock(&engine->peer_lock);
	DL_FOREACH(engine->peers, peer) {
		bool usable;

		pthread_mutex_lock(&peer->lock);
		/* One that is connecting still finds out who answers: it serves the same question only. */
		usable = peer->state == OTTE_PEER_READY ?
				 !epoch || peer->identity.epoch == epoch :
				 peer->state == OTTE_PEER_CONNECTING && peer->identity.epoch == epoch;
		*losses = peer->losses;
		pthread_mutex_unlock(&peer->lock);
		if (usable && strcmp(peer->endpoint, endpoint) == 0)
			break;
	}
	if (peer) {
		atomic_fetch_add(&peer->refs, 1);
	} else {
		*losses = 0;
		ret = create(engine, endpoint, addresses, epoch, &peer);
		if (!ret)
			DL_APPEND(engine->peers, peer);
	}
	pthread_mutex_unlock(&engine->peer_lock);
	if (ret)
		return ret;
	*out = peer;
	/* The engine's thread looks after peers from now on, even if there was none the last time. */
	atomic_store(&engine->tick_due_ns, 0);
	otte_loop_wake(&engine->progress.control);
	ret = otte_control_client_start(&peer->control);
	if (ret) {
		on_lost(peer, ret); /* others may be waiting for the same peer */
		otte_peer_put(peer);
	}
	return ret;
}

static void add_counts(struct otte_request_counts *sum, const struct otte_request_counts *more)
{
	sum->submitted += more->submitted;
	sum->completed += more->completed;
	sum->failed += more->failed;
	sum->read_bytes += more->read_bytes;
	sum->write_bytes += more->write_bytes;
	sum->promoted += more->promoted;
}

/* Under peer->lock. */
static void add_waiting(struct otte_request_counts *sum, const struct otte_peer *peer)
{
	unsigned i;

	sum->promoted += peer->window.promoted;
	for (i = 0; i < OTTE_PRIORITIES; i++)
		sum->waiting[i] += peer->window.queue.count[i];
}

void otte_peer_hold(struct otte_peer *peer)
{
	atomic_fetch_add(&peer->refs, 1);
}

void otte_peer_put(struct otte_peer *peer)
{
	struct otte_engine *engine = peer->engine;
	uint64_t refs = atomic_load(&peer->refs);
	bool last;

	while (refs > 1)
		if (atomic_compare_exchange_weak(&peer->refs, &refs, refs - 1))
			return;
	pthread_mutex_lock(&engine->peer_lock);
	last = atomic_fetch_sub(&peer->refs, 1) == 1;
	if (last) {
		DL_DELETE(engine->peers, peer);
		add_counts(&engine->request_counts, &peer->counts);
		engine->request_counts.promoted += peer->window.promoted;
	}
	pthread_mutex_unlock(&engine->peer_lock);
	if (last)
		take_down(peer);
}

/* ---- What others ask ---- */

int otte_peer_wait_ready(struct otte_peer *peer, uint64_t losses, uint64_t until_ns)
{
	const struct timespec until = otte_timespec(until_ns);
	uint64_t begun_ns = otte_now_ns(), limit_ns;
	char limit[OTTE_TIME_TEXT];
	int ret = 0;

	/* As the caller said it, but for the microseconds that have gone by since. */
	limit_ns = until_ns - min_u64(until_ns, begun_ns);
	limit_ns = (limit_ns + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC * NSEC_PER_MSEC;
	pthread_mutex_lock(&peer->lock);
	while (peer->state == OTTE_PEER_CONNECTING && peer->losses == losses && ret == 0)
		ret = pthread_cond_timedwait(&peer->changed, &peer->lock, &until);
	if (peer->state == OTTE_PEER_READY)
		ret = 0;
	else if (peer->state == OTTE_PEER_CONNECTING && peer->losses == losses)
		ret = otte_fail(-ETIMEDOUT, "peer %s did not answer within %s", peer->endpoint,
				otte_time_text(limit, limit_ns));
	else
		ret = otte_fail(peer->code, "%s", peer->text);
	pthread_mutex_unlock(&peer->lock);
	return ret;
}

int otte_peer_check(struct otte_peer *peer)
{
	int ret = 0;

	if (peer->state == OTTE_PEER_READY && !peer->said_bye)
		return 0;
	pthread_mutex_lock(&peer->lock);
	if (peer->state == OTTE_PEER_STALE)
		ret = otte_fail(-ESTALE, "%s", peer->text);
	else if (peer->state != OTTE_PEER_READY)
		ret = otte_fail(-ECONNRESET, "%s", peer->text);
	else if (peer->said_bye)
		ret = otte_fail(-ESHUTDOWN, "peer %s is closing", peer->endpoint);
	pthread_mutex_unlock(&peer->lock);
	return ret;
}

/* False: the region was not described. */
static bool recall(struct otte_peer *peer, uint64_t id, struct otte_region_memo *memo)
{
	uint64_t stamp = atomic_load(&peer->described);
	struct otte_known_region *region;

	if (!stamp)
		return false;
	if (memo->stamp == stamp && memo->id == id)
		return true;
	pthread_mutex_lock(&peer->lock);
	HASH_FIND(hh, peer->regions, &id, sizeof(id), region);
	if (region)
		*memo = (struct otte_region_memo){
			.stamp = peer->described,
			.id = id,
			.length = region->length,
			.access = region->access,
		};
	pthread_mutex_unlock(&peer->lock);
	return region;
}

/* What the memo says of it. */
static int check_region(const struct otte_request *request, const struct otte_region_memo *memo)
{
	uint32_t right = request->op == OTTE_READ ? OTTE_REMOTE_READ : OTTE_REMOTE_WRITE;

	if (!range_inside(request->remote_offset, request->length, memo->length))
		return otte_fail(-ERANGE,
				 "[%lu, +%lu) is not inside remote region %lu of %lu bytes",
				 (unsigned long)request->remote_offset,
				 (unsigned long)request->length, (unsigned long)memo->id,
				 (unsigned long)memo->length);
	if (!(memo->access & right))
		return otte_fail(-EACCES, "remote region %lu does not grant it",
				 (unsigned long)memo->id);
	return 0;
}

int otte_peer_check_region(struct otte_peer *peer, const struct otte_request *request,
			   struct otte_region_memo *memo)
{
	return recall(peer, request->remote_region, memo) ? check_region(request, memo) : 0;
}

bool otte_peer_admits(struct otte_peer *peer, const struct otte_request *request,
		      const struct otte_region_memo *memo)
{
	uint64_t stamp = atomic_load(&peer->described);

	if (peer->state != OTTE_PEER_READY || peer->said_bye)
		return false;
	return !stamp || (memo->stamp == stamp && memo->id == request->remote_region &&
			  check_region(request, memo) == 0);
}

static void add_direct(struct otte_request_counts *sum, struct otte_engine *engine)
{
	uint64_t completed = atomic_load(&engine->direct.completed);
	uint64_t failed = atomic_load(&engine->direct.failed);

	sum->submitted += completed + failed;
	sum->completed += completed;
	sum->failed += failed;
	sum->read_bytes += atomic_load(&engine->direct.read_bytes);
	sum->write_bytes += atomic_load(&engine->direct.write_bytes);
}

void otte_peer_sum(struct otte_engine *engine, struct otte_request_counts *sum)
{
	struct otte_peer *peer;

	pthread_mutex_lock(&engine->peer_lock);
	*sum = engine->request_counts;
	DL_FOREACH(engine->peers, peer)
	{
		pthread_mutex_lock(&peer->lock);
		add_counts(sum, &peer->counts);
		add_waiting(sum, peer);
		pthread_mutex_unlock(&peer->lock);
	}
	pthread_mutex_unlock(&engine->peer_lock);
	add_direct(sum, engine);
}

uint64_t otte_peer_tick(struct otte_peer *peer, uint64_t now_ns)
{
	bool reconnect = false;
	uint64_t next_ns;

	otte_control_client_tick(&peer->control, now_ns);
	peer->transport->ops->peer_tick(peer->transport, now_ns);
	next_ns = otte_batch_expire(peer, now_ns);
	/* What the gate held back may go by now. Whatever else waits is looked at as room is made for it. */
	if (peer->window.slots)
		peer->served = otte_batch_dispatch_in_turn(peer);
	pthread_mutex_lock(&peer->lock);
	if (peer->state == OTTE_PEER_LOST && !peer->closing) {
		reconnect = peer->retry_at_ns <= now_ns;
		if (reconnect)
			peer->state = OTTE_PEER_CONNECTING;
		else
			next_ns = min_u64(next_ns, peer->retry_at_ns);
	}
	pthread_mutex_unlock(&peer->lock);
	if (reconnect) {
		int ret;

		atomic_fetch_add(&peer->engine->counters.reconnects, 1);
		ret = otte_control_client_start(&peer->control);
		if (ret)
			on_lost(peer, ret);
	}
	return min_u64(next_ns, now_ns + TICK_NS);
}
