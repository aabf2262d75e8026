/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/source_grant.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/keep.h"
#include "engine/source_awaited.h"
#include "engine/source_peer.h"

struct otte_source_grant {
	struct otte_source_grant *prev, *next; /* engine->parked */
	uint64_t parked_ns;
	struct source_peer *peer;
	struct otte_region *region;
	struct otte_mem_user user;
	_Atomic uint32_t *counted; /* in */
	uint64_t loan;
	bool borrowed; /* the module's loan to the peer's client */
	bool mapped;   /* borrowed: its touch could not be taken away without harm, so it is not revocable */
	_Atomic bool over; /* borrowed: and nothing of it is left */
	bool retained; /* under peer->lock */
	uint64_t hold; /* retained, and not borrowed */
	struct otte_mem_lent lent;
	uint64_t uses_loan; /* of the table, where that is the module's to lend */
	struct otte_source_awaited *awaited; /* of `loan`, where that is so */
};

/* A descriptor of the memory for `op`: what is to be read cannot be mapped for writing through it. */
static int open_for(const struct otte_mem *mem, uint8_t op, int *fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", mem->fd);
	*fd = open(path, (op == OTTE_READ ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	return *fd < 0 ? otte_fail(-errno, "%s: %m", path) : 0;
}

/* Whole pages. */
static bool mappable(const struct otte_region *region)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t address = (uint64_t)(uintptr_t)region->mem->address + region->offset;

	return address % page == 0 && region->length % page == 0;
}

/* Whether a peer can reach the region by itself in this way. `by_module`: and not otherwise. */
static int check_way(const struct source_peer *peer, const struct otte_region *region, bool borrowed, bool mapped,
		     bool by_module)
{
	if (mapped && (!borrowed || !mappable(region)))
		return otte_fail(-EOPNOTSUPP, "region %lu cannot be mapped by borrowers",
				 (unsigned long)region->id);
	/* What is mapped cannot be taken back, and whoever has our table can write in it. */
	if (peer->foreign && (mapped || !by_module))
		return otte_fail(-EOPNOTSUPP, "region %lu is lent to other users to be copied alone",
				 (unsigned long)region->id);
	if (borrowed)
		return 0;
	if (by_module || !region->engine->config.local_trusted)
		return otte_fail(-EOPNOTSUPP, "region %lu is not pinned, or its peer is no client of our module",
				 (unsigned long)region->id);
	return otte_mem_share(region->mem);
}

/* The range of the region in its allocation, with a table of its uses. */
static int lend_range(struct otte_source_grant *grant, uint8_t op, bool by_module)
{
	const struct otte_region *region = grant->region;

	grant->lent.client = grant->peer->foreign ? grant->peer->client : 0;
	grant->lent.start = region->offset;
	grant->lent.end = region->offset + region->length;
	grant->lent.write = op == OTTE_WRITE;
	return otte_mem_lend(region->mem, &grant->lent, by_module);
}

/* To its client of the module. */
static int offer(struct source_peer *peer, struct otte_region *region, uint8_t op, bool mapped,
		 uint64_t *loan)
{
	struct otte_engine *engine = peer->engine;
	struct otte_loan_terms terms;

	otte_source_peer_terms(peer, region, op, &terms);
	terms.borrower = (struct otte_borrower){ .client = peer->client };
	terms.flags |= mapped ? OTTE_LOAN_MAPPABLE : OTTE_LOAN_REVOCABLE;
	return engine->ledger->ops->loan_offer(engine->client, &terms, loan);
}

/*
 * The loan ends with a receipt or with the process that has the mapping: local.trusted accepts that. It is a loan of
 * its own: what goes over lanes ends with them, and so with other evidence.
 */
static int lend(struct source_peer *peer, struct otte_region *region, uint8_t op, uint64_t *loan)
{
	struct otte_loan_terms terms;

	otte_source_peer_terms(peer, region, op, &terms);
	terms.accepted = OTTE_EVIDENCE_DEFAULT | OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_BORROWER_EXITED);
	return otte_source_expose(peer->engine, &terms, loan);
}

/* The table, to be mapped: what is lent of that stays as long as its borrower wants, and costs us these pages alone. */
static int offer_uses(struct otte_source_grant *grant, uint32_t owner)
{
	struct source_peer *peer = grant->peer;
	struct otte_engine *engine = peer->engine;
	const struct otte_loan_terms terms = {
		.region = grant->lent.uses_region,
		.length = otte_mem_uses_bytes(),
		.right = OTTE_LOAN_WRITE,
		.flags = OTTE_LOAN_STANDING | OTTE_LOAN_MAPPABLE,
		.borrower.client = peer->client,
	};
	int ret;

	ret = otte_source_check_tables(peer);
	if (!ret)
		ret = engine->ledger->ops->loan_offer(engine->client, &terms, &grant->uses_loan);
	if (ret)
		return ret;
	ret = otte_source_await_table(peer, grant->uses_loan, owner);
	if (ret) {
		engine->ledger->ops->loan_take_back(engine->client, grant->uses_loan, false);
		grant->uses_loan = 0;
	}
	return ret;
}

static void take_uses_back(const struct otte_source_grant *grant)
{
	if (grant->uses_loan)
		otte_source_take_table_back(grant->peer, grant->uses_loan);
}

/*
 * Both, or none. `owner` 0: the table is no loan. Whoever guesses its id can take a loan before it is granted, so the
 * one of the memory comes last: once it is on offer nothing can fail, and a grant sees to its end.
 */
static int offer_all(struct otte_source_grant *grant, uint8_t op, uint32_t owner)
{
	int ret = owner ? offer_uses(grant, owner) : 0;

	if (ret)
		return ret;
	ret = offer(grant->peer, grant->region, op, grant->mapped, &grant->loan);
	if (ret)
		take_uses_back(grant);
	else if (owner) /* Without it the end is asked for. */
		grant->awaited = otte_source_await_grant(grant->peer, grant->loan, &grant->over);
	return ret;
}

/* With a use of the region. */
static int grant_region(struct source_peer *peer, struct otte_region *region, uint8_t op, bool mapped,
			bool by_module, uint32_t owner, struct otte_source_lent *lent)
{
	bool borrowed = region->pinned && peer->client && peer->engine->ledger->ops->loan_copy;
	struct otte_source_grant *grant;
	int ret;

	ret = otte_region_check_published(region);
	if (!ret)
		ret = otte_region_check_right(region, op);
	if (!ret)
		ret = otte_region_check_fresh(region);
	if (!ret)
		ret = check_way(peer, region, borrowed, mapped, by_module);
	if (ret)
		return ret;
	grant = calloc(1, sizeof(*grant));
	if (!grant)
		return otte_fail(-ENOMEM, "no memory for a grant");
	grant->peer = peer;
	grant->region = region;
	grant->borrowed = borrowed;
	grant->mapped = mapped;
	grant->user.owner = owner;
	ret = lend_range(grant, op, by_module);
	if (ret == -EDQUOT) /* of the table of uses, which is pinned as well */
		otte_source_say_quota(peer->engine);
	if (ret)
		goto free_grant;
	lent->fd = -1;
	if (!borrowed)
		ret = open_for(region->mem, op, &lent->fd);
	if (ret)
		goto unlend;
	pthread_mutex_lock(&peer->lock);
	if (atomic_load(&peer->engine->source_closed))
		ret = otte_fail(-ESHUTDOWN, "this engine is closed as a source");
	if (!ret)
		ret = borrowed ? offer_all(grant, op, by_module ? owner : 0) : lend(peer, region, op, &grant->loan);
	if (!ret)
		peer->busy++;
	pthread_mutex_unlock(&peer->lock);
	if (ret == -EDQUOT)
		otte_source_say_quota(peer->engine);
	if (ret)
		goto close_fd;
	otte_mem_add_user(region->mem, &grant->user);
	lent->grant = grant;
	lent->loan = borrowed ? grant->loan : 0;
	lent->uses_fd = by_module ? -1 : region->mem->uses_fd;
	lent->uses_loan = grant->uses_loan;
	lent->offset = region->offset;
	lent->length = region->length;
	return 0;

close_fd:
	otte_fd_close(lent->fd);
unlend:
	otte_mem_unlend(region->mem, &grant->lent);
free_grant:
	free(grant);
	return ret;
}

/* Before anything is done for it, so that nobody has work done, or loans charged, beyond that. */
static int count_grant(struct otte_engine *engine, _Atomic uint32_t *count)
{
	uint32_t max = engine->config.local_maps;

	if (atomic_fetch_add(count, 1) < max)
		return 0;
	atomic_fetch_sub(count, 1);
	otte_fail(-EDQUOT, "a peer is lent %u regions (local.maps) already", max);
	otte_source_say_quota(engine);
	return -EDQUOT;
}

/*
 * The module's loans are counted by client, however many sessions that opens. What is lent over a
 * socket is by session: of what an earlier one was lent nobody but the peer's end may tell, and it is
 * not to go without for that.
 */
int otte_source_grant(void *arg, uint64_t id, uint8_t op, bool mapped, bool by_module, uint32_t owner,
		      struct otte_source_lent *lent)
{
	struct source_peer *peer = arg;
	_Atomic uint32_t *count = by_module ? &peer->borrower->grants : &peer->grants;
	struct otte_region *region;
	int ret;

	ret = count_grant(peer->engine, count);
	if (ret)
		return ret;
	ret = otte_region_use_id(peer->engine, id, &region);
	if (ret)
		goto uncount;
	ret = grant_region(peer, region, op, mapped, by_module, owner, lent);
	if (ret)
		goto unuse;
	lent->grant->counted = count;
	return 0;

unuse:
	otte_region_unuse(region);
uncount:
	atomic_fetch_sub(count, 1);
	return ret;
}

/*
 * It was never accepted, or its borrower has settled it, or it is revoked, which is nothing new where the borrower is
 * gone: each is exact.
 */
int otte_source_revoke_grant(struct otte_source_grant *grant)
{
	struct otte_engine *engine = grant->peer->engine;
	int ret;

	if (!grant->borrowed)
		return -EOPNOTSUPP;
	if (atomic_load(&grant->over))
		return 0;
	ret = engine->ledger->ops->loan_take_back(engine->client, grant->loan, !grant->mapped);
	if (ret == -EBUSY && grant->mapped)
		return -EOPNOTSUPP;
	if (ret && ret != -ENOENT)
		return ret;
	atomic_store(&grant->over, true);
	return 0;
}

/* Nobody else knows of it: it is looked at until it is over. */
static void park(struct otte_source_grant *grant)
{
	struct otte_engine *engine = grant->peer->engine;

	otte_source_peer_get(grant->peer);
	grant->parked_ns = otte_now_ns();
	pthread_mutex_lock(&engine->parked_lock);
	DL_APPEND(engine->parked, grant);
	pthread_mutex_unlock(&engine->parked_lock);
}

static int settle_grant(const struct otte_source_grant *grant, bool returned)
{
	struct otte_engine *engine = grant->peer->engine;

	if (grant->borrowed)
		return 0;
	return engine->ledger->ops->loan_settle(engine->client, grant->loan,
						returned ? OTTE_EVIDENCE_RETURNED :
							   OTTE_EVIDENCE_BORROWER_EXITED);
}

/*
 * Under peer->lock. The module has its own loans in its books until it has seen their end, also when we are dead: a
 * record of ours beside that would count them twice, and outlive them. For what we say of ourselves they are counted.
 */
static int put_on_record(struct otte_source_grant *grant)
{
	struct otte_engine *engine = grant->peer->engine;
	uint64_t bytes = grant->region->length;

	if (!grant->borrowed)
		return engine->ledger->ops->hold(engine->client, bytes, OTTE_MAPPED_REASON, &grant->hold);
	atomic_fetch_add(&engine->kept, 1);
	atomic_fetch_add(&engine->kept_bytes, bytes);
	return 0;
}

/* Under peer->lock. */
static void drop_record(const struct otte_source_grant *grant)
{
	struct otte_engine *engine = grant->peer->engine;

	if (!grant->borrowed) {
		engine->ledger->ops->hold_drop(engine->client, grant->hold);
		return;
	}
	atomic_fetch_sub(&engine->kept, 1);
	atomic_fetch_sub(&engine->kept_bytes, grant->region->length);
}

void otte_source_give_back(struct otte_source_grant *grant, bool returned)
{
	struct source_peer *peer = grant->peer;
	struct otte_region *region = grant->region;
	int ret;

	if (grant->borrowed && otte_source_revoke_grant(grant)) {
		park(grant);
		return;
	}
	if (grant->awaited)
		otte_source_stop_awaiting_grant(peer->engine, grant->awaited);
	take_uses_back(grant);
	pthread_mutex_lock(&peer->lock);
	ret = settle_grant(grant, returned);
	if (grant->retained)
		drop_record(grant);
	else
		peer->busy--;
	pthread_mutex_unlock(&peer->lock);
	atomic_fetch_sub(grant->counted, 1);
	if (ret)
		otte_log(OTTE_LOG_ERROR, "loan %lu cannot be settled: %s", (unsigned long)grant->loan,
			 otte_error_text());
	otte_mem_remove_user(region->mem, &grant->user);
	otte_mem_unlend(region->mem, &grant->lent);
	free(grant);
	otte_region_unuse(region);
}

int otte_source_retain_grant(struct otte_source_grant *grant)
{
	struct source_peer *peer = grant->peer;
	int ret;

	pthread_mutex_lock(&peer->lock);
	ret = put_on_record(grant);
	if (!ret) {
		grant->retained = true;
		peer->busy--;
	}
	pthread_mutex_unlock(&peer->lock);
	return ret;
}

/* One that is over is out of the list, and its to be given back for good. */
static struct otte_source_grant *unpark(struct otte_engine *engine)
{
	struct otte_source_grant *grant;

	pthread_mutex_lock(&engine->parked_lock);
	DL_FOREACH(engine->parked, grant)
		if (!otte_source_revoke_grant(grant))
			break;
	if (grant)
		DL_DELETE(engine->parked, grant);
	pthread_mutex_unlock(&engine->parked_lock);
	return grant;
}

/* Its borrower may keep a mapping for as long as it likes. */
static void retain_parked(struct otte_engine *engine)
{
	struct otte_source_grant *grant;
	uint64_t now_ns;

	pthread_mutex_lock(&engine->parked_lock);
	now_ns = otte_now_ns();
	DL_FOREACH(engine->parked, grant)
		if (!grant->retained && now_ns - grant->parked_ns > engine->config.control_timeout_ns)
			otte_source_retain_grant(grant);
	pthread_mutex_unlock(&engine->parked_lock);
}

/* A use that stands still for so long is of a process that has stopped, or does not mean well. */
static void look_at_uses(struct otte_engine *engine)
{
	uint64_t now_ns = otte_now_ns();

	if (now_ns - engine->looked_ns <= engine->config.control_timeout_ns)
		return;
	engine->looked_ns = now_ns;
	otte_mem_look(engine);
}

void otte_source_tick(struct otte_engine *engine)
{
	struct otte_source_grant *grant;
	struct source_peer *peer;

	while ((grant = unpark(engine))) {
		peer = grant->peer;
		otte_source_give_back(grant, true);
		otte_source_peer_put(peer);
	}
	retain_parked(engine);
	look_at_uses(engine);
}

void otte_source_process_ended(void *arg, uint32_t owner)
{
	otte_mem_clear_uses(arg, owner);
}

bool otte_source_over(const struct otte_source_grant *grant)
{
	return atomic_load(&grant->over);
}

bool otte_source_fresh(const struct otte_source_grant *grant)
{
	const struct otte_region_watch *watch = &grant->region->watch;

	/* What is borrowed is a matter of pages, all else goes by address. */
	if (grant->borrowed && watch->mask && atomic_load(watch->word) & watch->suspect)
		return false;
	return otte_region_is_fresh(watch);
}

bool otte_source_stands(const struct otte_source_grant *grant)
{
	return atomic_load(&grant->user.stands);
}

uint64_t otte_source_granted(const struct otte_source_grant *grant)
{
	return grant->region->id;
}
