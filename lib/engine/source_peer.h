/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A source peer: one record for each session, for the files of the source alone (source.h).
 *
 * It lives from the session's opening until the session has ended and its last lane is closed, and nothing that came
 * by them is left; then its standing loans are settled as REVOKED: our own lanes were the only way to the bytes, and
 * they are gone, which is exact. Unregistering a region settles the loans on it the same way, after the last request
 * on it has ended. Uses with a loan of their own, and grants, end otherwise (source_use.h, source_grant.h).
 *
 * A peer of another user is lent by copy alone, which can be revoked, and with a table of uses of its own
 * (memory_uses.h).
 */
#ifndef OTTE_ENGINE_SOURCE_PEER_H
#define OTTE_ENGINE_SOURCE_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/source.h"
#include "ledger/ledger.h"

struct otte_engine;
struct otte_region;
struct otte_source_use;
struct otte_standing;

/* A client of our module, whose sessions share it; or a peer that is none, with its only one. */
struct otte_source_borrower {
	uint64_t refs; /* sessions; under source_lock */
	_Atomic uint32_t grants; /* of the module's loans, until they are over; up to local.maps */
};

/* refs: the session, each lane until the uses that came by it have ended, and each parked grant. */
struct source_peer {
	struct source_peer *prev, *next; /* engine->source_peers */
	struct otte_engine *engine;
	struct otte_identity identity;
	uint64_t client; /* which one of our module it is, attested; 0: not known */
	uint32_t user;   /* and of which user, attested, too */
	bool foreign;    /* which is not ours */
	struct otte_source_borrower *borrower;
	_Atomic uint32_t grants; /* others than the module's, retained ones too; up to local.maps */
	_Atomic uint64_t refs;
	_Atomic uint32_t lanes;
	pthread_mutex_t lock; /* the rest, and the counts of the loans */
	struct otte_standing *loans;
	struct otte_standing *last; /* of them: the one that was last asked for, or NULL */
	uint64_t busy; /* uses that are not retained, and grants */
	struct otte_source_counts counts;
	struct otte_source_use *spares;
	unsigned spare_count;
};

void otte_source_peer_get(struct source_peer *peer);
/* The last one settles its standing loans and frees it. Without any lock of the source's. */
void otte_source_peer_put(struct source_peer *peer);

/* Of a standing loan of the whole region to this peer, of no client of the module's. */
void otte_source_peer_terms(const struct source_peer *peer, const struct otte_region *region, uint8_t op,
			    struct otte_loan_terms *terms);
/* Offered and exposed, or neither. */
int otte_source_expose(struct otte_engine *engine, const struct otte_loan_terms *terms, uint64_t *loan);
/* An administrator's limit is told where it can be raised; peers can ask for this line, so once a second. */
void otte_source_say_quota(struct otte_engine *engine);

#endif
