/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "engine/engine.h"
#include "engine/source_peer.h"
#include "engine/source_standing.h"
#include "engine/source_use.h"

/* As the kernel shows a user who is not in the namespace (kernel.overflowuid). */
#define NO_USER 65534

static void add_counts(struct otte_source_counts *sum, const struct otte_source_counts *more)
{
	sum->requests += more->requests;
	sum->read_bytes += more->read_bytes;
	sum->write_bytes += more->write_bytes;
}

/* ---- Source peers ---- */

void otte_source_peer_get(struct source_peer *peer)
{
	atomic_fetch_add(&peer->refs, 1);
}

void otte_source_peer_put(struct source_peer *peer)
{
	struct otte_engine *engine = peer->engine;

	if (atomic_fetch_sub(&peer->refs, 1) != 1)
		return;
	/* While it is on the list: a region's owner who finds no loan of it may discard the region. */
	pthread_mutex_lock(&peer->lock);
	otte_standing_settle_all(peer);
	pthread_mutex_unlock(&peer->lock);
	pthread_mutex_lock(&engine->source_lock);
	DL_DELETE(engine->source_peers, peer);
	if (!--peer->borrower->refs)
		free(peer->borrower);
	add_counts(&engine->source_counts, &peer->counts);
	pthread_mutex_unlock(&engine->source_lock);
	otte_source_use_free_spares(peer);
	pthread_mutex_destroy(&peer->lock);
	free(peer);
}

void otte_source_peer_terms(const struct source_peer *peer, const struct otte_region *region, uint8_t op,
			    struct otte_loan_terms *terms)
{
	*terms = (struct otte_loan_terms){
		.region = region->id,
		.length = region->length,
		.right = op == OTTE_READ ? OTTE_LOAN_READ : OTTE_LOAN_WRITE,
		.flags = OTTE_LOAN_STANDING,
		.borrower.epoch = peer->identity.epoch,
	};
	memcpy(terms->borrower.incarnation, peer->identity.incarnation,
	       sizeof(terms->borrower.incarnation));
}

int otte_source_expose(struct otte_engine *engine, const struct otte_loan_terms *terms, uint64_t *loan)
{
	const struct otte_ledger_ops *ops = engine->ledger->ops;
	int ret;

	ret = ops->loan_offer(engine->client, terms, loan);
	if (ret)
		return ret;
	ret = ops->loan_expose(engine->client, *loan);
	if (ret)
		ops->loan_withdraw(engine->client, *loan);
	return ret;
}

void otte_source_say_quota(struct otte_engine *engine)
{
	if (otte_log_second_admits(&engine->quota_said_ns, otte_coarse_ns()))
		otte_log(OTTE_LOG_WARNING, "a peer is lent nothing: %s", otte_error_text());
}

/* ---- Sessions ---- */

/* Root may map what it likes anyway. Users who have no number in this namespace are none of ours. */
static bool is_foreign(const struct otte_engine *engine, uint32_t user)
{
	return user && (user != engine->user || user == NO_USER);
}

/* Under source_lock. NULL: no memory. */
static struct otte_source_borrower *use_borrower(struct otte_engine *engine, uint64_t client)
{
	struct otte_source_borrower *borrower = NULL;
	struct source_peer *peer;

	DL_FOREACH(engine->source_peers, peer) {
		if (client && peer->client == client)
			borrower = peer->borrower;
	}
	if (!borrower)
		borrower = calloc(1, sizeof(*borrower));
	if (borrower)
		borrower->refs++;
	return borrower;
}

int otte_source_opened(void *arg, struct otte_session *session)
{
	struct otte_engine *engine = arg;
	struct source_peer *peer;

	if (atomic_load(&engine->source_closed))
		return otte_fail(-ESHUTDOWN, "this engine is closed as a source");
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return otte_fail(-ENOMEM, "no memory for a session");
	peer->engine = engine;
	peer->identity = session->peer;
	peer->client = session->attested;
	peer->user = session->attested_user;
	peer->foreign = session->attested && is_foreign(engine, session->attested_user);
	peer->refs = 1;
	pthread_mutex_init(&peer->lock, NULL);
	pthread_mutex_lock(&engine->source_lock);
	peer->borrower = use_borrower(engine, peer->client);
	if (peer->borrower)
		DL_APPEND(engine->source_peers, peer);
	pthread_mutex_unlock(&engine->source_lock);
	if (!peer->borrower) {
		pthread_mutex_destroy(&peer->lock);
		free(peer);
		return otte_fail(-ENOMEM, "no memory for a session");
	}
	session->user = peer;
	return 0;
}

void otte_source_closed(void *arg, struct otte_session *session)
{
	struct otte_engine *engine = arg;
	struct source_peer *peer = session->user;

	engine->transport->ops->drop_lanes(engine->transport, peer);
	otte_source_peer_put(peer);
}

int otte_source_lane(void *arg, struct otte_session *session, int fd, enum otte_lane_kind kind,
		     uint64_t counter)
{
	struct otte_engine *engine = arg;
	const struct otte_transport_ops *ops = engine->transport->ops;
	struct source_peer *peer = session->user;
	/* One more where the peer may be of this host, and those of RDMA where NICs are to be used. */
	unsigned max = OTTE_SOURCE_LANES_MAX + (engine->config.local_trusted || peer->client) +
		       (session->can & OTTE_CAN_RDMA ? OTTE_RDMA_LANES_MAX : 0);
	int ret;

	if (atomic_fetch_add(&peer->lanes, 1) >= max) {
		atomic_fetch_sub(&peer->lanes, 1);
		return otte_fail(-EDQUOT, "a session has %u lanes already", max);
	}
	otte_source_peer_get(peer);
	ret = ops->accept_lane(engine->transport, peer, fd, kind, counter);
	if (ret)
		otte_source_lane_closed(peer);
	return ret;
}

void otte_source_lane_closed(void *arg)
{
	struct source_peer *peer = arg;

	atomic_fetch_sub(&peer->lanes, 1);
	otte_source_peer_put(peer);
}

void otte_source_connected(void *arg, int fd)
{
	struct otte_engine *engine = arg;

	otte_control_server_adopt(&engine->server, fd);
}

const struct otte_identity *otte_source_identity(const void *arg)
{
	const struct source_peer *peer = arg;

	return &peer->identity;
}

void otte_source_refused(void *arg)
{
	const struct source_peer *peer = arg;

	atomic_fetch_add(&peer->engine->counters.refused_requests, 1);
}

void otte_source_count(void *arg, uint64_t requests, uint64_t read_bytes, uint64_t write_bytes)
{
	const struct otte_source_counts more = { requests, read_bytes, write_bytes };
	struct source_peer *peer = arg;

	pthread_mutex_lock(&peer->lock);
	add_counts(&peer->counts, &more);
	pthread_mutex_unlock(&peer->lock);
}

/* ---- Of all sessions ---- */

void otte_source_recall(struct otte_engine *engine, uint64_t region)
{
	if (engine->transport->ops->recall)
		engine->transport->ops->recall(engine->transport, region);
}

void otte_source_forget(struct otte_engine *engine, uint64_t region)
{
	struct source_peer *peer;

	pthread_mutex_lock(&engine->source_lock);
	DL_FOREACH(engine->source_peers, peer) {
		pthread_mutex_lock(&peer->lock);
		otte_standing_settle_region(peer, region);
		pthread_mutex_unlock(&peer->lock);
	}
	pthread_mutex_unlock(&engine->source_lock);
}

void otte_source_settle_all(struct otte_engine *engine)
{
	struct source_peer *peer;

	pthread_mutex_lock(&engine->source_lock);
	DL_FOREACH(engine->source_peers, peer) {
		pthread_mutex_lock(&peer->lock);
		otte_standing_settle_idle(peer);
		pthread_mutex_unlock(&peer->lock);
	}
	pthread_mutex_unlock(&engine->source_lock);
}

uint64_t otte_source_busy(struct otte_engine *engine)
{
	struct source_peer *peer;
	uint64_t busy = 0;

	pthread_mutex_lock(&engine->source_lock);
	DL_FOREACH(engine->source_peers, peer) {
		pthread_mutex_lock(&peer->lock);
		busy += peer->busy;
		pthread_mutex_unlock(&peer->lock);
	}
	pthread_mutex_unlock(&engine->source_lock);
	return busy;
}

void otte_source_sum(struct otte_engine *engine, struct otte_source_counts *sum)
{
	struct source_peer *peer;

	pthread_mutex_lock(&engine->source_lock);
	*sum = engine->source_counts;
	DL_FOREACH(engine->source_peers, peer) {
		pthread_mutex_lock(&peer->lock);
		add_counts(sum, &peer->counts);
		pthread_mutex_unlock(&peer->lock);
	}
	pthread_mutex_unlock(&engine->source_lock);
}
