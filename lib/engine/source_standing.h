/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Standing loans: what the ledger knows of the requests that a peer makes by lanes, one for each region and direction,
 * exposed once, by the first of them.
 *
 * Who admits a request counts it in `begun`, and in `ended` when it is over; equal counts mean that nothing of the loan
 * is under way. It is settled as REVOKED with its peer, or when its region goes. All under source_peer.lock.
 */
#ifndef OTTE_ENGINE_SOURCE_STANDING_H
#define OTTE_ENGINE_SOURCE_STANDING_H

#include <stdint.h>

#include "base/hash.h"

struct otte_region;
struct source_peer;

struct otte_standing {
	struct {
		uint64_t region;
		uint64_t right;
	} key;
	uint64_t loan;
	struct otte_region *region; /* stays as long as the loan: otte_source_forget() */
	uint64_t begun, ended;
	UT_hash_handle hh; /* peer->loans */
};

/* NULL: there is none. */
struct otte_standing *otte_standing_find(struct source_peer *peer, uint64_t region, uint8_t op);
/* Of a region that is used, and has none yet. */
int otte_standing_expose(struct source_peer *peer, struct otte_region *region, uint8_t op,
			 struct otte_standing **standing);
/* Those of the region; none of them is in use. */
void otte_standing_settle_region(struct source_peer *peer, uint64_t region);
/* Those of which nothing is under way; nothing new begins. */
void otte_standing_settle_idle(struct source_peer *peer);
void otte_standing_settle_all(struct source_peer *peer);

#endif
