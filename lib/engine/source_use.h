/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Uses: a request of a peer from its admission until the transport is done with its range.
 *
 *   begin() -> live [-> retain() -> retained] -> end()
 *
 * A live use holds its region, its range in the access map and a loan, and close() waits for it. What comes by a lane
 * is under the standing loan of its region (source_standing.h). What a NIC reaches by itself has a loan of its own, of
 * exactly its range, which ends with a receipt or with the word of the NIC that its key opens nothing any more.
 *
 * One whose end the transport cannot prove is retained: it has a record in the ledger, holds its range and its loan
 * like any other, but nobody waits for it any more.
 *
 * One thread at a time has a use, the transport sees to that; what others count of it is under source_peer.lock.
 * These are the functions that struct otte_source_ops of transport.h describes.
 */
#ifndef OTTE_ENGINE_SOURCE_USE_H
#define OTTE_ENGINE_SOURCE_USE_H

#include "transport/transport.h"

struct source_peer;

int otte_source_begin(void *peer, const struct otte_lane_request *request,
		      struct otte_source_use **use, uint8_t **address);
int otte_source_begin_lent(void *peer, const struct otte_lane_request *request,
			   struct otte_source_use **use, uint8_t **address);
int otte_source_still(const struct otte_source_use *use);
const struct otte_region_watch *otte_source_guarded(const struct otte_source_use *use);
bool otte_source_lasts(const struct otte_source_use *use);
bool otte_source_firm(const struct otte_source_use *use);
struct otte_published *otte_source_published(const struct otte_source_use *use);
int otte_source_retain(struct otte_source_use *use);
void otte_source_end(struct otte_source_use *use, bool complete);
void otte_source_end_lent(struct otte_source_use *use, bool complete, uint32_t evidence);

/* Those that a peer keeps for its next requests; nobody else knows it any more. */
void otte_source_use_free_spares(struct source_peer *peer);

#endif
