/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine as a source: what peers do with our memory. This is the part that knows sessions, and what the rest
 * of the engine asks of all of them. What one session has is of other owners:
 *
 *   source.c           source peers (source_peer.h)
 *   source_standing.c  standing loans, which cover the requests that come by lanes
 *   source_use.c       uses: requests under way; those that NICs reach by themselves have a loan each
 *   source_grant.c     grants: regions that a peer of this host reaches by itself
 *   source_awaited.c   loans of the module's whose end it will tell
 */
#ifndef OTTE_ENGINE_SOURCE_H
#define OTTE_ENGINE_SOURCE_H

#include "control/server.h"

struct otte_engine;

/* Handlers for the control server. */
int otte_source_opened(void *arg, struct otte_session *session);
void otte_source_closed(void *arg, struct otte_session *session);
int otte_source_lane(void *arg, struct otte_session *session, int fd, enum otte_lane_kind kind,
		     uint64_t counter);

/* What a transport asks of the engine or a peer: struct otte_source_ops of transport.h. */
void otte_source_lane_closed(void *peer);
void otte_source_connected(void *engine, int fd);
const struct otte_identity *otte_source_identity(const void *peer);
void otte_source_refused(void *peer);
void otte_source_count(void *peer, uint64_t requests, uint64_t read_bytes, uint64_t write_bytes);

/* Ask peers for what they are lent of the region; 0: of every one. */
void otte_source_recall(struct otte_engine *engine, uint64_t region);
/* No use of the region is left: settle every standing loan on it. */
void otte_source_forget(struct otte_engine *engine, uint64_t region);
/* Settle every standing loan that no retained use needs; none can be used any more. */
void otte_source_settle_all(struct otte_engine *engine);

/* Requests of peers under way, without retained ones, and what they are lent. */
uint64_t otte_source_busy(struct otte_engine *engine);

/* What was served. */
struct otte_source_counts {
	uint64_t requests, read_bytes, write_bytes;
};

void otte_source_sum(struct otte_engine *engine, struct otte_source_counts *sum);

#endif
