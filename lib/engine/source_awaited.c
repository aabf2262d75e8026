/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/source_awaited.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "engine/source_peer.h"

/*
 * Tables of uses that are kept without a grant. A client of our user keeps loans of the one table
 * that all of these share. Those of other users keep pages of ours: one user's clients so many, and
 * all together less than the 8 MiB that a process may usually pin.
 */
#define KEPT_BY_CLIENT 256
#define KEPT_BY_USER 128
#define KEPT_BY_OTHERS 192

/* Up to `accepted` nothing changes once it is in engine->awaited. */
struct otte_source_awaited {
	uint64_t loan;
	_Atomic bool *over; /* the grant's; NULL: it is of a table, */
	uint64_t client;    /* which this one has, */
	uint32_t user;
	bool foreign;
	uint32_t owner;     /* as whom it is in it */
	bool accepted;      /* a table, which was not to be had back with its grant */
	struct otte_source_awaited *next; /* of those that are found to have ended */
	UT_hash_handle hh;
};

/* NULL: no memory. */
static struct otte_source_awaited *await_end(const struct source_peer *peer, uint64_t loan, uint32_t owner,
					     _Atomic bool *over)
{
	struct otte_source_awaited *awaited = calloc(1, sizeof(*awaited));
	struct otte_engine *engine = peer->engine;

	if (!awaited)
		return NULL;
	awaited->loan = loan;
	awaited->over = over;
	awaited->client = peer->client;
	awaited->user = peer->user;
	awaited->foreign = peer->foreign;
	awaited->owner = owner;
	pthread_mutex_lock(&engine->awaited_lock);
	HASH_ADD(hh, engine->awaited, loan, sizeof(awaited->loan), awaited);
	pthread_mutex_unlock(&engine->awaited_lock);
	if (awaited->hh.tbl)
		return awaited;
	free(awaited);
	return NULL;
}

struct otte_source_awaited *otte_source_await_grant(const struct source_peer *peer, uint64_t loan,
						    _Atomic bool *over)
{
	return await_end(peer, loan, 0, over);
}

int otte_source_await_table(const struct source_peer *peer, uint64_t loan, uint32_t owner)
{
	return await_end(peer, loan, owner, NULL) ? 0 : otte_fail(-ENOMEM, "no memory for a loan");
}

/* Under awaited_lock. */
static void forget_awaited(struct otte_engine *engine, struct otte_source_awaited *awaited)
{
	HASH_DEL(engine->awaited, awaited);
	free(awaited);
}

void otte_source_stop_awaiting_grant(struct otte_engine *engine, struct otte_source_awaited *awaited)
{
	pthread_mutex_lock(&engine->awaited_lock);
	forget_awaited(engine, awaited);
	pthread_mutex_unlock(&engine->awaited_lock);
}

/* Whether a client has left the module. */
static bool has_left(struct otte_engine *engine, uint64_t client)
{
	static const uint8_t nobodys[OTTE_ATTEST_NONCE_BYTES];

	return engine->ledger->ops->attest_send &&
	       engine->ledger->ops->attest_send(engine->client, client, nobodys) == -ENOENT;
}

/* Of a table whose end nobody has told. */
static void clear_uses_of(struct otte_engine *engine, uint64_t client, uint32_t owner)
{
	if (has_left(engine, client))
		otte_mem_clear_uses(engine, owner);
}

/*
 * Under awaited_lock: a table whose grant is over. True: nor is there anything of the table, and `awaited` goes. Its
 * borrower may have accepted it: it is asked for no more until that has unmapped it, or has ended.
 */
static bool end_table(struct otte_engine *engine, struct otte_source_awaited *awaited, bool *unheard)
{
	int ret = engine->ledger->ops->loan_take_back(engine->client, awaited->loan, false);

	awaited->accepted = ret != 0;
	*unheard = ret == -ENOENT;
	return !ret || *unheard;
}

void otte_source_take_table_back(const struct source_peer *peer, uint64_t loan)
{
	struct otte_engine *engine = peer->engine;
	struct otte_source_awaited *awaited;
	uint32_t owner = 0;
	bool unheard = false;

	pthread_mutex_lock(&engine->awaited_lock);
	HASH_FIND(hh, engine->awaited, &loan, sizeof(loan), awaited);
	if (awaited) {
		owner = awaited->owner;
		if (end_table(engine, awaited, &unheard))
			forget_awaited(engine, awaited);
	}
	pthread_mutex_unlock(&engine->awaited_lock);
	if (unheard)
		clear_uses_of(engine, peer->client, owner);
}

/*
 * A borrower that keeps tables which it has no grant for any more gets no others. What those of other
 * users keep is pages that nobody else uses, of users who have as many clients as they like: that is
 * no loss of our user's.
 */
int otte_source_check_tables(const struct source_peer *peer)
{
	struct otte_source_awaited *awaited, *next;
	struct otte_engine *engine = peer->engine;
	unsigned clients = 0, users = 0, others = 0;

	pthread_mutex_lock(&engine->awaited_lock);
	if (HASH_COUNT(engine->awaited) >= KEPT_BY_USER) {
		HASH_ITER(hh, engine->awaited, awaited, next) {
			clients += awaited->accepted && awaited->client == peer->client;
			users += awaited->accepted && awaited->user == peer->user;
			others += awaited->accepted && awaited->foreign;
		}
	}
	pthread_mutex_unlock(&engine->awaited_lock);
	if (peer->foreign ? users < KEPT_BY_USER && others < KEPT_BY_OTHERS :
			    clients < KEPT_BY_CLIENT)
		return 0;
	return otte_fail(-EDQUOT,
			 "tables of uses kept: %u by client %lu, %u by user %u, %u by all other users",
			 clients, (unsigned long)peer->client, users, peer->user, others);
}

/*
 * Under awaited_lock: tables whose loans have ended unheard, out of the hash. What was not withdrawn with its grant was
 * accepted; the tables of other grants may still be on offer, and are seen to with them.
 */
static struct otte_source_awaited *take_ended(struct otte_engine *engine)
{
	struct otte_source_awaited *awaited, *next, *ended = NULL;
	bool unheard;

	HASH_ITER(hh, engine->awaited, awaited, next) {
		if (!awaited->accepted || !end_table(engine, awaited, &unheard))
			continue;
		HASH_DEL(engine->awaited, awaited);
		awaited->next = ended;
		ended = awaited;
	}
	return ended;
}

/* The ledger has forgotten what it had to tell. Grants are seen to by their lanes, which ask for their end in time. */
static void look_for_ended(struct otte_engine *engine)
{
	struct otte_source_awaited *awaited, *next;

	pthread_mutex_lock(&engine->awaited_lock);
	awaited = take_ended(engine);
	pthread_mutex_unlock(&engine->awaited_lock);
	for (; awaited; awaited = next) {
		next = awaited->next;
		clear_uses_of(engine, awaited->client, awaited->owner);
		free(awaited);
	}
}

void otte_source_told(struct otte_engine *engine, const struct otte_event *event)
{
	struct otte_source_awaited *awaited;
	uint32_t owner = 0;

	if (event->kind == OTTE_EVENT_MISSED)
		look_for_ended(engine);
	if (event->kind != OTTE_EVENT_SETTLED && event->kind != OTTE_EVENT_WITHDRAWN)
		return;
	pthread_mutex_lock(&engine->awaited_lock);
	HASH_FIND(hh, engine->awaited, &event->loan, sizeof(event->loan), awaited);
	if (awaited && awaited->over) {
		atomic_store(awaited->over, true);
	} else if (awaited) {
		/* Who gives a receipt has left nothing in the table; else its address space is gone. */
		owner = event->kind == OTTE_EVENT_SETTLED && event->evidence != OTTE_EVIDENCE_RETURNED ?
				awaited->owner : 0;
		forget_awaited(engine, awaited);
	}
	pthread_mutex_unlock(&engine->awaited_lock);
	if (owner)
		otte_mem_clear_uses(engine, owner);
}

void otte_source_stop_awaiting(struct otte_engine *engine)
{
	struct otte_source_awaited *awaited, *next;

	pthread_mutex_lock(&engine->awaited_lock);
	HASH_ITER(hh, engine->awaited, awaited, next)
		forget_awaited(engine, awaited);
	pthread_mutex_unlock(&engine->awaited_lock);
}
