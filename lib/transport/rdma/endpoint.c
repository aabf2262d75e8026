/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The queue pairs with a peer over one rail, for one direction: an array of fixed width. Those of
 * cells (cell.h) are in an array of their own, and each is closed when its one transfer is over.
 *
 * A slot is filled when those before it are full, and one at a time: who finds one coming waits for
 * it instead of making another. What fails holds the array off, each time twice as long, until
 * something has passed it.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/rdma/endpoint.h"
#include "transport/rdma/lease.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/routes.h"
#include "transport/rdma/transfer.h"
#include "transport/rdma/use.h"

/* A pair has so many transfers, of two WRs each, before another is made. */
#define PAIR_LOAD(config) max_u64(1, (config)->rdma_send_wrs / 2)
/* The pause is doubled so often at most, which is more than the longest one needs. */
#define DOUBLINGS_MAX 20

static void pair_failed(struct otte_rdma_pair *pair, int code);
static void pair_closed(struct otte_rdma_pair *pair, bool gone);

/* ---- Those of a peer ---- */

static bool is_like(const struct otte_rdma_endpoint *endpoint,
		    const struct otte_rdma_endpoint *like)
{
	return endpoint->nic == like->nic && endpoint->remote_nic == like->remote_nic &&
	       endpoint->op == like->op && endpoint->cell == like->cell;
}

static struct otte_rdma_endpoint *find(const struct otte_rdma_peer *peer,
				       const struct otte_rdma_endpoint *like)
{
	struct otte_rdma_endpoint *endpoint;

	DL_FOREACH(peer->endpoints, endpoint)
		if (is_like(endpoint, like))
			return endpoint;
	return NULL;
}

struct otte_rdma_endpoint *otte_rdma_endpoint_find(const struct otte_rdma_peer *peer,
						   unsigned int nic, unsigned int remote_nic,
						   uint8_t op)
{
	const struct otte_rdma_endpoint like = { .nic = nic, .remote_nic = remote_nic, .op = op };

	return find(peer, &like);
}

static int get(struct otte_rdma_peer *peer, const struct otte_rdma_endpoint *like,
	       struct otte_rdma_endpoint **out)
{
	struct otte_rdma_endpoint *endpoint = find(peer, like);
	unsigned int i;

	*out = endpoint;
	if (endpoint)
		return 0;
	endpoint = malloc(sizeof(*endpoint));
	if (!endpoint)
		return otte_fail(-ENOMEM, "no memory for queue pairs");
	*endpoint = *like;
	endpoint->peer = peer;
	for (i = 0; i < OTTE_RDMA_WIDTH; i++)
		endpoint->pairs[i] = (struct otte_rdma_pair){
			.rdma = peer->rdma,
			.worker = peer->worker,
			.owner = endpoint,
			.nic = like->nic,
			.remote_nic = like->remote_nic,
			.op = like->op,
			.cell = like->cell,
			.failed = pair_failed,
			.closed = pair_closed,
		};
	DL_APPEND(peer->endpoints, endpoint);
	*out = endpoint;
	return 0;
}

int otte_rdma_endpoint_get(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic,
			   uint8_t op, struct otte_rdma_endpoint **out)
{
	const struct otte_rdma_endpoint like = { .nic = nic, .remote_nic = remote_nic, .op = op };

	return get(peer, &like, out);
}

int otte_rdma_endpoint_get_cells(struct otte_rdma_peer *peer, unsigned int nic,
				 unsigned int remote_nic, uint8_t op,
				 struct otte_rdma_endpoint **out)
{
	const struct otte_rdma_endpoint like = {
		.nic = nic, .remote_nic = remote_nic, .op = op, .cell = true
	};

	return get(peer, &like, out);
}

void otte_rdma_endpoints_free(struct otte_rdma_peer *peer)
{
	struct otte_rdma_endpoint *endpoint, *next;

	DL_FOREACH_SAFE(peer->endpoints, endpoint, next)
		free(endpoint);
	peer->endpoints = NULL;
}

/* Whether any pair is in one of these states, bits by enum otte_rdma_pair_state. */
static bool any_is(const struct otte_rdma_endpoint *endpoint, unsigned int states)
{
	unsigned int i;

	for (i = 0; i < OTTE_RDMA_WIDTH; i++)
		if (states >> endpoint->pairs[i].state & 1)
			return true;
	return false;
}

static bool any_of_peer_is(const struct otte_rdma_peer *peer, unsigned int states)
{
	const struct otte_rdma_endpoint *endpoint;

	DL_FOREACH(peer->endpoints, endpoint)
		if (any_is(endpoint, states))
			return true;
	return false;
}

bool otte_rdma_peer_has_retained(const struct otte_rdma_peer *peer)
{
	return any_of_peer_is(peer, 1u << OTTE_RDMA_PAIR_RETAINED);
}

bool otte_rdma_endpoints_are_over(const struct otte_rdma_peer *peer)
{
	return !any_of_peer_is(peer, 1u << OTTE_RDMA_PAIR_OPEN | 1u << OTTE_RDMA_PAIR_JOINED |
					     1u << OTTE_RDMA_PAIR_CLOSING);
}

static uint64_t load_of(const struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair)
{
	const struct otte_rdma_transfer *transfer;
	uint64_t load = 0;

	DL_FOREACH(peer->transfers, transfer)
		load += transfer->pair == pair && transfer->state < OTTE_RDMA_TRANSFER_OVER;
	return load;
}

/* ---- What fails ---- */

/* Nothing is on it, nor may come by a lease. */
static bool is_idle(const struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair)
{
	const struct otte_rdma_lease *lease;

	if (pair->state != OTTE_RDMA_PAIR_JOINED || pair->under_way || load_of(peer, pair))
		return false;
	DL_FOREACH(peer->leases, lease)
		if (lease->pair == pair)
			return false;
	return !otte_rdma_uses_are_on(peer, pair);
}

static struct otte_rdma_pair *find_idle(const struct otte_rdma_endpoint *endpoint)
{
	unsigned int i;

	for (i = 0; i < OTTE_RDMA_WIDTH; i++)
		if (is_idle(endpoint->peer, &endpoint->pairs[i]))
			return (struct otte_rdma_pair *)&endpoint->pairs[i];
	return NULL;
}

/*
 * What goes by cells goes by nothing else. Those of the peer that stand idle give way to them, one
 * for each cell that found no room (rdma.endpoints, at either end), and are made again when they
 * are wanted.
 */
static void make_room(struct otte_rdma_peer *peer)
{
	struct otte_rdma_message message = { .type = OTTE_RDMA_MSG_CLOSE };
	const struct otte_rdma_endpoint *endpoint;
	struct otte_rdma_pair *pair = NULL;

	DL_FOREACH(peer->endpoints, endpoint)
		if (!pair && !endpoint->cell)
			pair = find_idle(endpoint);
	if (!pair)
		return;
	message.close.connection = pair->connection;
	message.close.status = -EDQUOT;
	otte_rdma_pair_close(pair, -EDQUOT, "it gives way to a cell");
	otte_rdma_peer_say(peer, &message);
}

/* No pair is made for a while. */
static void hold_off(struct otte_rdma_endpoint *endpoint, int code)
{
	const struct otte_config *config = endpoint->peer->rdma->env.config;
	uint64_t pause_ns = config->reconnect_min_ns << endpoint->failures;

	if (endpoint->failures < DOUBLINGS_MAX)
		endpoint->failures++;
	endpoint->again_ns = otte_now_ns() + min_u64(pause_ns, config->reconnect_max_ns);
	endpoint->code = code;
	if (endpoint->cell && code == -EDQUOT)
		make_room(endpoint->peer);
}

void otte_rdma_endpoint_succeeded(struct otte_rdma_endpoint *endpoint)
{
	endpoint->failures = 0;
}

bool otte_rdma_endpoint_is_blocked(const struct otte_rdma_endpoint *endpoint, uint64_t now_ns,
				   int *code)
{
	unsigned int i, retained = 0, width = endpoint->peer->rdma->env.config->rdma_pairs;

	if (any_is(endpoint, 1u << OTTE_RDMA_PAIR_OPEN | 1u << OTTE_RDMA_PAIR_JOINED))
		return false;
	for (i = 0; i < width; i++)
		retained += endpoint->pairs[i].state == OTTE_RDMA_PAIR_RETAINED;
	if (retained == width)
		*code = -EUCLEAN;
	else if (now_ns < endpoint->again_ns)
		*code = endpoint->code;
	else
		return false;
	return true;
}

static void close_pair(struct otte_rdma_endpoint *endpoint, struct otte_rdma_pair *pair, int code)
{
	struct otte_rdma_peer *peer = endpoint->peer;
	struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_CLOSE,
		.close = { .connection = pair->connection, .status = code },
	};

	if (pair->state != OTTE_RDMA_PAIR_OPEN && pair->state != OTTE_RDMA_PAIR_JOINED)
		return;
	otte_rdma_pair_close(pair, code, otte_error_text());
	if (otte_rdma_line_is_open(&peer->line))
		otte_rdma_peer_say(peer, &message);
	otte_rdma_transfers_lose(peer, pair, code);
	otte_rdma_leases_lose(peer, pair);
	otte_rdma_uses_lose(peer, pair);
}

void otte_rdma_endpoint_end(struct otte_rdma_pair *pair)
{
	otte_rdma_pair_close(pair, -ECANCELED, "what it was for is over");
}

void otte_rdma_endpoints_close(struct otte_rdma_peer *peer, int code)
{
	struct otte_rdma_endpoint *endpoint;
	unsigned int i;

	DL_FOREACH(peer->endpoints, endpoint) {
		for (i = 0; i < OTTE_RDMA_WIDTH; i++)
			close_pair(endpoint, &endpoint->pairs[i], code);
	}
}

void otte_rdma_endpoints_fence(struct otte_rdma_peer *peer, unsigned int nic)
{
	struct otte_rdma_endpoint *endpoint;
	unsigned int i;

	DL_FOREACH(peer->endpoints, endpoint) {
		if (endpoint->nic != nic)
			continue;
		for (i = 0; i < OTTE_RDMA_WIDTH; i++)
			close_pair(endpoint, &endpoint->pairs[i],
				   otte_rdma_why_changed(peer->rdma, nic));
	}
	otte_rdma_endpoints_try_again(peer);
}

void otte_rdma_endpoints_try_again(struct otte_rdma_peer *peer)
{
	struct otte_rdma_endpoint *endpoint;

	DL_FOREACH(peer->endpoints, endpoint) {
		endpoint->again_ns = 0;
		endpoint->failures = 0;
	}
}

static void fail_pair(struct otte_rdma_endpoint *endpoint, struct otte_rdma_pair *pair, int code,
		      int told)
{
	otte_log(OTTE_LOG_WARNING, "NIC %u to NIC %u of peer %s: %s", pair->nic, pair->remote_nic,
		 endpoint->peer->source.name, otte_error_text());
	hold_off(endpoint, told);
	close_pair(endpoint, pair, code);
}

static void pair_failed(struct otte_rdma_pair *pair, int code)
{
	fail_pair(pair->owner, pair, code, -ECONNRESET);
}

static void pair_closed(struct otte_rdma_pair *pair, bool gone)
{
	struct otte_rdma_endpoint *endpoint = pair->owner;

	otte_rdma_transfers_unpair(endpoint->peer, pair, gone);
	otte_rdma_uses_unpair(endpoint->peer, pair, gone);
}

/* ---- Making them ---- */

static int build(struct otte_rdma_endpoint *endpoint, struct otte_rdma_pair *pair)
{
	struct otte_rdma_peer *peer = endpoint->peer;
	struct otte_rdma_message message = { .type = OTTE_RDMA_MSG_CONNECT };
	const struct otte_rdma_path *local, *remote;
	struct otte_rdma_paths ours;
	int ret;

	otte_rdma_fill_paths(peer->rdma, &ours);
	local = otte_rdma_find_path(&ours, endpoint->nic);
	remote = otte_rdma_find_path(&peer->paths, endpoint->remote_nic);
	if (!local || !remote)
		return otte_fail(-ENETUNREACH, "NIC %u or NIC %u of the peer is not there any more",
				 endpoint->nic, endpoint->remote_nic);
	pair->connection = ++peer->last_connection;
	ret = otte_rdma_pair_open(pair, false);
	if (ret)
		return ret;
	message.connect = (struct otte_rdma_connect){
		.connection = pair->connection,
		.source_pd = remote->pd,
		.requester_pd = local->pd,
		.source_nic = remote->nic,
		.requester_nic = local->nic,
		.op = pair->op,
		.cell = pair->cell,
		.qpn = pair->qp->end.qpn,
		.psn = pair->qp->end.psn,
		.mtu_bytes = (uint32_t)min_u64(local->mtu_bytes, remote->mtu_bytes),
		.rd_atomic = pair->qp->params.max_rd_atomic,
	};
	otte_rdma_peer_say(peer, &message);
	return 0;
}

/* A cell has room for one transfer, ever. */
static uint64_t room_of(const struct otte_rdma_endpoint *endpoint)
{
	return endpoint->cell ? 1 : PAIR_LOAD(endpoint->peer->rdma->env.config);
}

/* The one with most room, or NULL. */
static struct otte_rdma_pair *roomiest(struct otte_rdma_endpoint *endpoint)
{
	uint64_t least = room_of(endpoint), load;
	struct otte_rdma_pair *found = NULL;
	unsigned int i;

	for (i = 0; i < OTTE_RDMA_WIDTH; i++) {
		struct otte_rdma_pair *pair = &endpoint->pairs[i];

		if (pair->state != OTTE_RDMA_PAIR_JOINED || (pair->cell && pair->spent))
			continue;
		load = load_of(endpoint->peer, pair);
		if (load >= least)
			continue;
		least = load;
		found = pair;
	}
	return found;
}

static struct otte_rdma_pair *first_empty(struct otte_rdma_endpoint *endpoint)
{
	unsigned int i;

	for (i = 0; i < endpoint->peer->rdma->env.config->rdma_pairs; i++)
		if (endpoint->pairs[i].state == OTTE_RDMA_PAIR_EMPTY)
			return &endpoint->pairs[i];
	return NULL;
}

int otte_rdma_endpoint_pick(struct otte_rdma_endpoint *endpoint, uint64_t now_ns,
			    struct otte_rdma_pair **out)
{
	bool joined = any_is(endpoint, 1u << OTTE_RDMA_PAIR_JOINED);
	struct otte_rdma_pair *empty = first_empty(endpoint);
	int ret, code;

	*out = roomiest(endpoint);
	if (*out)
		return 0;
	if (otte_rdma_endpoint_is_blocked(endpoint, now_ns, &code))
		return otte_fail(code,
				 code == -EUCLEAN ?
					 "all queue pairs of a rail stay, and none is of use" :
					 "no queue pair to the peer, for a while");
	if (!empty || now_ns < endpoint->again_ns || any_is(endpoint, 1u << OTTE_RDMA_PAIR_OPEN))
		return 1;
	ret = build(endpoint, empty);
	if (!ret)
		return 1;
	hold_off(endpoint, ret);
	return joined ? 1 : ret;
}

/* ---- What the peer says of them ---- */

static struct otte_rdma_pair *find_pair(const struct otte_rdma_peer *peer, uint64_t connection)
{
	struct otte_rdma_endpoint *endpoint;
	unsigned int i;

	DL_FOREACH(peer->endpoints, endpoint) {
		for (i = 0; i < OTTE_RDMA_WIDTH; i++)
			if (endpoint->pairs[i].state != OTTE_RDMA_PAIR_EMPTY &&
			    endpoint->pairs[i].connection == connection)
				return &endpoint->pairs[i];
	}
	return NULL;
}

int otte_rdma_endpoint_connected(struct otte_rdma_peer *peer,
				 const struct otte_rdma_connected *connected)
{
	struct otte_rdma_pair *pair = find_pair(peer, connected->connection);
	const struct otte_rdma_path *path;
	int ret = connected->status;

	if (!pair || pair->state == OTTE_RDMA_PAIR_CLOSING ||
	    pair->state == OTTE_RDMA_PAIR_RETAINED)
		return 0;
	if (pair->state != OTTE_RDMA_PAIR_OPEN)
		return otte_fail(-EPROTO, "a queue pair that is connected twice");
	path = otte_rdma_find_path(&peer->paths, pair->remote_nic);
	if (ret)
		otte_fail(ret, "the peer makes no queue pair");
	else
		ret = otte_rdma_pair_join(pair, path, connected->qpn, connected->psn,
					  connected->mtu_bytes, connected->rd_atomic);
	if (ret)
		fail_pair(pair->owner, pair, ret, ret);
	return 0;
}

int otte_rdma_endpoint_closed(struct otte_rdma_peer *peer, const struct otte_rdma_close *message)
{
	struct otte_rdma_pair *pair = find_pair(peer, message->connection);

	if (!pair)
		return 0;
	if (pair->state == OTTE_RDMA_PAIR_OPEN || pair->state == OTTE_RDMA_PAIR_JOINED)
		hold_off(pair->owner, -ECONNRESET);
	otte_fail(message->status, "the peer has closed its queue pair");
	/* What it says is of its own end: it blames no rail. */
	close_pair(pair->owner, pair, -ECONNRESET);
	return 0;
}

void otte_rdma_endpoints_give_up(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	uint64_t limit_ns = peer->rdma->env.config->control_timeout_ns;
	struct otte_rdma_endpoint *endpoint;
	unsigned int i;

	DL_FOREACH(peer->endpoints, endpoint) {
		for (i = 0; i < OTTE_RDMA_WIDTH; i++) {
			struct otte_rdma_pair *pair = &endpoint->pairs[i];

			if (otte_rdma_pair_is_stalled(pair, now_ns))
				otte_fail(-ETIMEDOUT,
					  "%u work requests, and none completes (rdma.stall_ms)",
					  pair->under_way);
			else if (pair->state == OTTE_RDMA_PAIR_OPEN &&
				 now_ns - min_u64(now_ns, pair->since_ns) > limit_ns)
				otte_fail(-ETIMEDOUT,
					  "the peer makes no queue pair (control.timeout_ms)");
			else
				continue;
			pair_failed(pair, -ETIMEDOUT);
		}
	}
}
