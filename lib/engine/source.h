/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What peers do with our memory: one record for each session, its standing loans, its requests.
 *
 * A source_peer lives from the session's opening until the session has ended and its last lane is
 * closed; then its loans are settled as REVOKED: our own lanes were the only way to the bytes, and
 * they are gone, which is exact; but for grants of `local`, which end with a receipt or their
 * process. Unregistering a region settles the loans on it the same way, after the last request on
 * it has ended.
 *
 * A grant is a standing loan of a peer of this host that reaches the region by itself: a use of the region that
 * lasts until its receipt is here, or its process is proven to have ended. Where the region is pinned by the module
 * the loan is one of the module's to the peer's client, which can also be revoked: whatever a peer says or does not
 * say, such a loan is over only when the module says so.
 *
 * A peer of another user is lent by copy alone, which can be revoked, and with a table of uses of its own (memory.h).
 *
 * What a NIC reaches by itself is a use with a loan of its own, of exactly its range, which ends with a receipt or with
 * the word of the NIC that its key opens nothing any more.
 *
 * A use whose end the transport cannot prove is retained: it has a record in the ledger, holds its range and
 * its loan like any other, but nobody waits for it any more. So is a grant; one of the module's needs no record, since
 * the module itself sees to its end.
 */
#ifndef OTTE_ENGINE_SOURCE_H
#define OTTE_ENGINE_SOURCE_H

#include "control/server.h"
#include "transport/transport.h"

struct otte_engine;
struct otte_event;

/* Handlers for the control server, and what a transport asks. */
int otte_source_opened(void *arg, struct otte_session *session);
void otte_source_closed(void *arg, struct otte_session *session);
int otte_source_lane(void *arg, struct otte_session *session, int fd, enum otte_lane_kind kind);

int otte_source_begin(void *peer, const struct otte_lane_request *request,
		      struct otte_source_use **use, uint8_t **address);
void otte_source_refused(void *peer);
int otte_source_still(const struct otte_source_use *use);
const struct otte_region_watch *otte_source_guarded(const struct otte_source_use *use);
void otte_source_end(struct otte_source_use *use, bool complete);
int otte_source_retain(struct otte_source_use *use);
int otte_source_begin_lent(void *peer, const struct otte_lane_request *request,
			   struct otte_source_use **use, uint8_t **address);
void otte_source_end_lent(struct otte_source_use *use, bool complete, uint32_t evidence);
struct otte_published *otte_source_published(const struct otte_source_use *use);
const struct otte_identity *otte_source_identity(const void *peer);
void otte_source_lane_closed(void *peer);
int otte_source_grant(void *peer, uint64_t region, uint8_t op, bool mapped, bool by_module, uint32_t owner,
		      struct otte_source_lent *lent);
void otte_source_give_back(struct otte_source_grant *grant, bool returned);
bool otte_source_over(const struct otte_source_grant *grant);
uint64_t otte_source_granted(const struct otte_source_grant *grant);
bool otte_source_fresh(const struct otte_source_grant *grant);
bool otte_source_stands(const struct otte_source_grant *grant);
void otte_source_process_ended(void *engine, uint32_t owner);
int otte_source_revoke_grant(struct otte_source_grant *grant);
int otte_source_retain_grant(struct otte_source_grant *grant);
void otte_source_count(void *peer, uint64_t requests, uint64_t read_bytes, uint64_t write_bytes);
void otte_source_connected(void *engine, int fd);

/* Ask peers for what they are lent of the region; 0: of every one. */
void otte_source_recall(struct otte_engine *engine, uint64_t region);

/* Looks after loans that were revoked while a copy was on its way. The serving thread calls it now and then. */
void otte_source_tick(struct otte_engine *engine);

/* What the ledger told the engine's client. The serving thread calls it. */
void otte_source_told(struct otte_engine *engine, const struct otte_event *event);
/* Nothing is lent by lanes any more: what is still awaited of the ledger is forgotten. */
void otte_source_stop_awaiting(struct otte_engine *engine);

/* No use of the region is left: settle every standing loan on it. */
void otte_source_forget(struct otte_engine *engine, uint64_t region);

/* What was served. */
struct otte_source_counts {
	uint64_t requests, read_bytes, write_bytes;
};

void otte_source_sum(struct otte_engine *engine, struct otte_source_counts *sum);

/* Requests of peers under way, without retained ones, and what they are lent. */
uint64_t otte_source_busy(struct otte_engine *engine);
/* Settle every standing loan that no retained use needs; none can be used any more. */
void otte_source_settle_all(struct otte_engine *engine);

#endif
