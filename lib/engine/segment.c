/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/segment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "control/descriptor.h"
#include "engine/engine.h"

/* `text` is a descriptor, or an address alone: then the epoch is the caller's, and any process is right. */
static int parse(const char *text, uint64_t epoch, struct otte_descriptor *wanted)
{
	int ret;

	if (!otte_descriptor_is(text)) {
		wanted->epoch = epoch;
		return otte_endpoint_parse(text, 0, &wanted->endpoint);
	}
	ret = otte_descriptor_decode(text, wanted);
	if (ret)
		return ret;
	if (epoch != OTTE_EPOCH_ANY && epoch != wanted->epoch)
		return otte_fail(-ESTALE, "the descriptor is of another epoch than was asked for");
	return 0;
}

/* A descriptor names one engine of one process of one boot, and the epoch is a part of that only. */
static int check_identity(const char *text, const struct otte_descriptor *wanted,
			  struct otte_peer *peer)
{
	bool named;

	if (!otte_descriptor_is(text))
		return 0;
	pthread_mutex_lock(&peer->lock);
	named = otte_descriptor_names(wanted, &peer->identity);
	pthread_mutex_unlock(&peer->lock);
	return named ? 0 : otte_fail(-ESTALE, "peer %s is another process than the descriptor names",
				     peer->endpoint);
}

static int connect_peer(struct otte_engine *engine, const struct otte_endpoint *endpoint,
			uint64_t epoch, uint64_t until_ns, struct otte_peer **out)
{
	struct otte_addresses addresses;
	char text[OTTE_ADDRESS_MAX];
	struct otte_peer *peer;
	uint64_t losses;
	int ret;

	ret = otte_endpoint_format(endpoint, text, sizeof(text));
	if (!ret)
		ret = otte_endpoint_resolve(endpoint, false, &addresses);
	if (ret)
		return ret;
	/* Lanes shake hands in a loop that nobody may be running. */
	otte_progress_attend(&engine->progress);
	ret = otte_peer_get(engine, text, &addresses, epoch, &peer, &losses);
	if (!ret) {
		ret = otte_peer_wait_ready(peer, losses, until_ns);
		if (ret)
			otte_peer_put(peer);
	}
	otte_progress_unattend(&engine->progress);
	*out = peer;
	return ret;
}

int otte_segment_open(struct otte_engine *engine, const char *text, uint64_t epoch,
		      int64_t timeout_ns, struct otte_segment **out)
{
	struct otte_descriptor wanted = { 0 };
	struct otte_segment *segment;
	int ret;

	if (!engine || !text || !out)
		return otte_fail(-EINVAL, "otte_segment_open: engine, endpoint and segment must not be NULL");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	if (atomic_load(&engine->requester_closed))
		return otte_fail(-ESHUTDOWN, "this engine is closed as a requester");
	ret = parse(text, epoch, &wanted);
	if (ret)
		return ret;
	segment = calloc(1, sizeof(*segment));
	if (!segment)
		return otte_fail(-ENOMEM, "no memory for a segment");
	segment->engine = engine;
	ret = connect_peer(engine, &wanted.endpoint, wanted.epoch, otte_deadline_after(timeout_ns),
			   &segment->peer);
	if (!ret) {
		ret = check_identity(text, &wanted, segment->peer);
		if (ret)
			otte_peer_put(segment->peer);
	}
	if (ret) {
		free(segment);
		return ret;
	}
	pthread_mutex_lock(&segment->peer->lock);
	segment->epoch = segment->peer->identity.epoch;
	pthread_mutex_unlock(&segment->peer->lock);
	atomic_fetch_add(&engine->segments, 1);
	*out = segment;
	return 0;
}

static int check(struct otte_segment *segment, const char *function)
{
	if (!segment)
		return otte_fail(-EINVAL, "%s: segment must not be NULL", function);
	return otte_fork_check(segment->engine->generation);
}

void otte_segment_use(struct otte_segment *segment)
{
	pthread_mutex_lock(&segment->peer->lock);
	segment->uses++;
	pthread_mutex_unlock(&segment->peer->lock);
}

void otte_segment_unuse(struct otte_segment *segment)
{
	pthread_mutex_lock(&segment->peer->lock);
	segment->uses--;
	pthread_mutex_unlock(&segment->peer->lock);
}

int otte_segment_close(struct otte_segment *segment)
{
	struct otte_engine *engine;
	uint64_t uses;
	int ret;

	ret = check(segment, "otte_segment_close");
	if (ret)
		return ret;
	engine = segment->engine;
	pthread_mutex_lock(&segment->peer->lock);
	uses = segment->uses + (atomic_load(&engine->direct.segment) == segment);
	pthread_mutex_unlock(&segment->peer->lock);
	if (uses)
		return otte_fail(-EBUSY, "%lu requests hold the segment", (unsigned long)uses);
	otte_peer_put(segment->peer);
	free(segment);
	atomic_fetch_sub(&engine->segments, 1);
	return 0;
}

/* ---- Describe ---- */

/* Under peer->lock: what was recalled of the regions is not to be trusted any more. */
static void stamp(struct otte_peer *peer)
{
	atomic_store(&peer->described, atomic_fetch_add(&peer->engine->describe_stamp, 1) + 1);
}

/* Under peer->lock. A row that cannot be remembered is only not checked before it is sent. */
static void remember(struct otte_peer *peer, const struct otte_region_info *row, uint64_t describe)
{
	struct otte_known_region *region;

	HASH_FIND(hh, peer->regions, &row->id, sizeof(row->id), region);
	if (!region) {
		region = calloc(1, sizeof(*region));
		if (!region)
			return;
		region->id = row->id;
		HASH_ADD(hh, peer->regions, id, sizeof(region->id), region);
		if (!region->hh.tbl) {
			free(region);
			return;
		}
	}
	region->length = row->length;
	region->access = row->access;
	region->described = describe;
	stamp(peer);
}

static void forget_older(struct otte_peer *peer, uint64_t describe)
{
	struct otte_known_region *region, *next;

	pthread_mutex_lock(&peer->lock);
	HASH_ITER(hh, peer->regions, region, next) {
		if (region->described >= describe)
			continue;
		HASH_DEL(peer->regions, region);
		free(region);
		stamp(peer);
	}
	pthread_mutex_unlock(&peer->lock);
}

struct description {
	struct otte_peer *peer;
	struct otte_region_info *rows;
	size_t capacity, count;
	uint64_t describe, after;
	bool more;
};

static int take_frame(struct description *description, const uint8_t *payload, size_t length)
{
	struct otte_regions regions;
	struct otte_region_info row;
	uint32_t i;
	int ret;

	ret = otte_regions_decode(payload, length, &regions);
	if (ret)
		return ret;
	if (regions.more && !regions.count)
		return otte_fail(-EPROTO, "a peer announces more regions and sends none");
	pthread_mutex_lock(&description->peer->lock);
	for (i = 0; i < regions.count; i++) {
		otte_regions_row(payload, i, &row);
		if (row.id <= description->after) {
			ret = otte_fail(-EPROTO, "a peer describes region %lu twice",
					(unsigned long)row.id);
			break;
		}
		description->after = row.id;
		remember(description->peer, &row, description->describe);
		if (description->count < description->capacity)
			description->rows[description->count] = row;
		description->count++;
	}
	pthread_mutex_unlock(&description->peer->lock);
	description->more = regions.more;
	return ret;
}

static int ask_frame(struct description *description, uint64_t until_ns)
{
	const struct otte_describe describe = { .after = description->after };
	uint64_t now_ns = otte_now_ns();
	uint8_t request[8], *payload = NULL;
	size_t length;
	ssize_t n;
	int ret;

	n = otte_describe_encode(&describe, request, sizeof(request));
	if (n < 0)
		return (int)n;
	ret = otte_control_client_call(&description->peer->control, OTTE_FRAME_DESCRIBE, request,
				       (size_t)n, OTTE_FRAME_REGIONS,
				       until_ns - min_u64(until_ns, now_ns), &payload, &length);
	if (ret)
		return ret;
	ret = take_frame(description, payload, length);
	free(payload);
	return ret;
}

int otte_segment_describe(struct otte_segment *segment, int64_t timeout_ns,
			  struct otte_region_info *rows, size_t capacity, size_t *count)
{
	struct description description = { .rows = rows, .capacity = capacity, .more = true };
	uint64_t until_ns = otte_deadline_after(timeout_ns);
	int ret;

	ret = check(segment, "otte_segment_describe");
	if (ret)
		return ret;
	if ((capacity && !rows) || !count)
		return otte_fail(-EINVAL, "otte_segment_describe: rows and count must not be NULL");
	ret = otte_peer_check(segment->peer);
	if (ret)
		return ret;
	description.peer = segment->peer;
	pthread_mutex_lock(&segment->peer->lock);
	description.describe = ++segment->peer->describes;
	pthread_mutex_unlock(&segment->peer->lock);
	while (description.more && !ret)
		ret = ask_frame(&description, until_ns);
	if (ret)
		return ret;
	forget_older(segment->peer, description.describe);
	*count = description.count;
	return 0;
}

/* ---- What the peer is ---- */

int otte_segment_peer(struct otte_segment *segment, struct otte_peer_info *info)
{
	struct otte_peer_info whole = { .protocol = OTTE_WIRE_VERSION };
	struct otte_peer *peer;
	int ret;

	ret = check(segment, "otte_segment_peer");
	if (ret)
		return ret;
	if (!info || info->size < sizeof(info->size))
		return otte_fail(-EINVAL, "otte_segment_peer: info is NULL or its size is not set");
	peer = segment->peer;
	pthread_mutex_lock(&peer->lock);
	whole.epoch = peer->identity.epoch;
	memcpy(whole.boot_id, peer->identity.boot_id, sizeof(whole.boot_id));
	memcpy(whole.incarnation, peer->identity.incarnation, sizeof(whole.incarnation));
	whole.pid = peer->identity.pid;
	whole.authenticated = peer->authenticated;
	whole.client = peer->client;
	memcpy(whole.name, peer->identity.name, sizeof(whole.name));
	pthread_mutex_unlock(&peer->lock);
	whole.same_host = memcmp(whole.boot_id, segment->engine->identity.boot_id,
				 sizeof(whole.boot_id)) == 0;
	strcpy(whole.address, peer->endpoint);
	sized_copy_out(info, &whole, sizeof(whole));
	return 0;
}

int otte_segment_stats(struct otte_segment *segment, int64_t timeout_ns, struct otte_stats *stats)
{
	struct otte_stats whole = { .size = sizeof(whole) };
	uint64_t now_ns = otte_now_ns(), until_ns = otte_deadline_after(timeout_ns);
	uint8_t *payload = NULL;
	size_t length;
	int ret;

	ret = check(segment, "otte_segment_stats");
	if (ret)
		return ret;
	if (!stats || stats->size < sizeof(stats->size))
		return otte_fail(-EINVAL, "otte_segment_stats: stats is NULL or its size is not set");
	ret = otte_peer_check(segment->peer);
	if (ret)
		return ret;
	ret = otte_control_client_call(&segment->peer->control, OTTE_FRAME_STATS, NULL, 0,
				       OTTE_FRAME_STATS_REPLY, until_ns - now_ns, &payload, &length);
	if (ret)
		return ret;
	ret = otte_stats_decode(payload, length, &whole);
	free(payload);
	if (ret)
		return ret;
	sized_copy_out(stats, &whole, sizeof(whole));
	return 0;
}
