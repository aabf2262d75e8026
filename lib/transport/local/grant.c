/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a peer has lent us: a region for one direction, which is mapped, or copied by the module.
 *
 *   ASKED -> LIVE or REFUSED; REFUSED -> gone, after a while; LIVE -> leaving -> given back
 *
 * A grant is asked for by the first request that needs it, and leaves when its source wants it back, when there is no
 * room for another, or with the connection. One that leaves is out of the table at once, and is given back, with a
 * receipt, by its last user. All under local_peer.lock.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/local/local.h"

#define ERRNO_MAX 4095
/* A refusal is believed for so long. */
#define REFUSED_NS NSEC_PER_SEC

/* ---- The end of a grant ---- */

static void free_grant(struct local_peer *peer, struct local_grant *grant)
{
	peer->mapped -= grant->key.op & LOCAL_OP_MAPPED ? 1 : 0;
	free(grant);
}

/* The last user of a grant that leaves has gone. */
static void give_back(struct local_peer *peer, struct local_grant *grant)
{
	local_way_unmap(peer, grant);
	peer->leaving--;
	if (peer->state == LOCAL_READY)
		local_peer_return(peer, grant->id);
	free_grant(peer, grant);
	if (!peer->leaving && peer->state == LOCAL_DOWN)
		local_peer_close_lane(peer);
}

static void leave(struct local_peer *peer, struct local_grant *grant)
{
	HASH_DEL(peer->grants, grant);
	peer->last = NULL;
	if (grant->state != LOCAL_LIVE) {
		free_grant(peer, grant);
		return;
	}
	grant->leaving = true;
	peer->leaving++;
	if (!grant->users)
		give_back(peer, grant);
}

void local_grant_spoil(struct local_peer *peer, struct local_grant *grant)
{
	if (!grant->leaving)
		leave(peer, grant);
}

void local_grant_put(struct local_peer *peer, struct local_grant *grant)
{
	if (--grant->users == 0 && grant->leaving)
		give_back(peer, grant);
}

void local_grants_leave(struct local_peer *peer)
{
	struct local_grant *grant, *next;

	HASH_ITER(hh, peer->grants, grant, next)
		leave(peer, grant);
}

/* ---- What its source says ---- */

static struct local_grant *find_key(struct local_peer *peer, uint64_t region, uint64_t op)
{
	struct local_grant *grant = peer->last, key = { .key = { region, op } };

	if (grant && grant->key.region == region && grant->key.op == op)
		return grant;
	HASH_FIND(hh, peer->grants, &key.key, sizeof(key.key), grant);
	peer->last = grant;
	return grant;
}

int local_grant_take(struct local_peer *peer, const struct local_message *message, const int fds[LOCAL_FDS])
{
	struct local_grant *grant = find_key(peer, message->region, message->op);
	int ret = message->status;

	if (!grant || grant->state != LOCAL_ASKED)
		return otte_fail(-EPROTO, "a grant that nobody asked for");
	if (ret > 0 || ret < -ERRNO_MAX)
		return otte_fail(-EPROTO, "a grant of status %d", ret);
	if (!ret) {
		grant->id = message->id;
		grant->epoch = peer->control->welcome.identity.epoch;
		ret = local_way_map(peer, grant, message, fds);
		if (ret)
			local_peer_return(peer, message->id);
	}
	grant->state = ret ? LOCAL_REFUSED : LOCAL_LIVE;
	grant->code = ret;
	grant->since_ns = otte_coarse_ns();
	if (ret && !(grant->key.op & LOCAL_OP_MAPPED)) {
		atomic_store(&peer->refused_until_ns, grant->since_ns + REFUSED_NS);
		atomic_store(&peer->base.indirect, OTTE_INDIRECT(grant->key.region, grant->key.op));
	} else if (!ret) {
		atomic_store(&peer->base.indirect, 0);
	}
	local_copy_kick(peer);
	return 0;
}

/* One that has been given back meanwhile is not found. */
void local_grant_recall(struct local_peer *peer, uint64_t id)
{
	struct local_grant *grant, *next;

	HASH_ITER(hh, peer->grants, grant, next) {
		if (grant->state == LOCAL_LIVE && grant->id == id) {
			leave(peer, grant);
			return;
		}
	}
}

bool local_grants_overdue(const struct local_peer *peer, uint64_t now_ns, uint64_t limit_ns)
{
	const struct local_grant *grant;

	for (grant = peer->grants; grant; grant = grant->hh.next)
		if (grant->state == LOCAL_ASKED && now_ns - min_u64(now_ns, grant->since_ns) > limit_ns)
			return true;
	return false;
}

/* ---- What a request needs ---- */

/* One less, of those that are mapped or of all, by giving back the one whose last use is longest ago. */
static bool leave_oldest(struct local_peer *peer, bool mapped)
{
	struct local_grant *grant, *next, *oldest = NULL;

	HASH_ITER(hh, peer->grants, grant, next)
		if (grant->state != LOCAL_ASKED && !grant->users &&
		    (!mapped || grant->key.op & LOCAL_OP_MAPPED) &&
		    (!oldest || grant->used < oldest->used))
			oldest = grant;
	if (oldest)
		leave(peer, oldest);
	return oldest;
}

/* Room for one more. */
static int make_room(struct local_peer *peer, bool mapped)
{
	const struct otte_config *config = peer->local->env.config;

	if (mapped && peer->mapped >= config->local_map_entries && !leave_oldest(peer, true))
		return otte_fail(-EDQUOT, "local.map_entries (%u) is full", config->local_map_entries);
	if (HASH_COUNT(peer->grants) + peer->leaving >= config->local_maps && !leave_oldest(peer, false))
		return otte_fail(-EDQUOT, "local.maps (%u) is full", config->local_maps);
	return 0;
}

static int ask(struct local_peer *peer, const struct otte_work *work, bool mapped)
{
	const struct local_message message = {
		.magic = LOCAL_MAGIC,
		.type = LOCAL_ASK,
		.op = (uint16_t)(work->op | (mapped ? LOCAL_OP_MAPPED : 0)),
		.region = work->region,
	};
	struct local_grant *grant;
	int ret;

	ret = make_room(peer, mapped);
	if (ret)
		return ret;
	grant = calloc(1, sizeof(*grant));
	if (!grant)
		return otte_fail(-ENOMEM, "no memory for a grant");
	grant->key.region = work->region;
	grant->key.op = message.op;
	grant->since_ns = otte_now_ns();
	peer->mapped += mapped;
	HASH_ADD(hh, peer->grants, key, sizeof(grant->key), grant);
	if (!grant->hh.tbl) {
		free_grant(peer, grant);
		return otte_fail(-ENOMEM, "no memory for a grant");
	}
	local_peer_welcome(peer, true);
	ret = local_peer_say(peer, &message);
	if (ret) {
		leave(peer, grant);
		return otte_fail(ret, "a peer of this host does not take what is said to it");
	}
	return 1;
}

/* A refusal is believed for a while. */
static struct local_grant *find_current(struct local_peer *peer, uint64_t region, uint64_t op)
{
	struct local_grant *grant = find_key(peer, region, op);

	if (!grant || grant->state != LOCAL_REFUSED || otte_coarse_ns() - grant->since_ns < REFUSED_NS)
		return grant;
	leave(peer, grant);
	return NULL;
}

/* Whether a borrowed region is used so much that it is worth a mapping. Counts. */
static bool wants_mapping(const struct local_peer *peer, struct local_grant *grant, const struct otte_work *work)
{
	const struct otte_config *config = peer->local->env.config;

	if (!grant->client || !config->local_map_entries || !work->firm)
		return false;
	if (work->length >= config->local_map_bytes)
		return true;
	if (grant->repeats < config->local_map_repeats)
		grant->repeats++;
	return grant->repeats == config->local_map_repeats;
}

/* The mapped one in place of a grant that is copied, which has to do until it comes. */
static struct local_grant *prefer_mapped(struct local_peer *peer, struct local_grant *grant,
					 const struct otte_work *work)
{
	struct local_grant *mapped = find_current(peer, work->region, work->op | LOCAL_OP_MAPPED);

	if (!mapped) {
		grant->users++; /* it is not what makes room */
		ask(peer, work, true);
		grant->users--;
		grant->repeats = 0;
	}
	if (!mapped || mapped->state != LOCAL_LIVE || mapped->length != grant->length)
		return grant;
	mapped->used = peer->uses;
	return mapped;
}

int local_grant_find(struct local_peer *peer, const struct otte_work *work, struct local_grant **out)
{
	struct local_grant *grant;

	if (peer->state == LOCAL_HELLO)
		return 1;
	if (peer->state == LOCAL_DOWN)
		return otte_fail(-ENOTCONN, "%s",
				 *peer->why ? peer->why : "the peer cannot be reached within this host");
	grant = find_current(peer, work->region, work->op);
	if (!grant)
		return ask(peer, work, false);
	grant->used = ++peer->uses;
	if (grant->state == LOCAL_ASKED)
		return 1;
	/* Why is of interest to nobody whose request goes the other way. */
	if (grant->state == LOCAL_REFUSED && work->wanted != OTTE_TRANSPORT_LOCAL)
		return grant->code;
	if (grant->state == LOCAL_REFUSED)
		return otte_fail(grant->code, "the peer does not lend region %lu",
				 (unsigned long)work->region);
	if (!range_inside(work->offset, work->length, grant->length))
		return otte_fail(-ERANGE, "[%lu, +%lu) is not inside region %lu of %lu bytes",
				 (unsigned long)work->offset, (unsigned long)work->length,
				 (unsigned long)work->region, (unsigned long)grant->length);
	if (work->epoch != grant->epoch)
		return otte_fail(-ESTALE, "a request for another epoch");
	*out = wants_mapping(peer, grant, work) ? prefer_mapped(peer, grant, work) : grant;
	return 0;
}
