/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/source_use.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/keep.h"
#include "engine/source_peer.h"
#include "engine/source_standing.h"

/* Uses that have ended are kept for the next requests, up to so many. */
#define SPARES 8

struct otte_source_use {
	struct source_peer *peer;
	struct otte_source_use *next; /* of the spares */
	struct otte_region *region;
	struct otte_standing *standing; /* NULL: it has a loan of its own */
	uint64_t loan;                  /* that one; 0: none */
	struct otte_access access;
	uint8_t op;
	bool retained;
	uint64_t hold;                  /* the ledger's record, where retained */
	uint64_t length;
};

static int check(const struct otte_region *region, const struct otte_lane_request *request)
{
	int ret;

	ret = otte_region_check_published(region);
	if (ret)
		return ret;
	if (!range_inside(request->offset, request->length, region->length))
		return otte_fail(-ERANGE, "[%lu, +%lu) is not inside region %lu of %lu bytes",
				 (unsigned long)request->offset, (unsigned long)request->length,
				 (unsigned long)region->id, (unsigned long)region->length);
	ret = otte_region_check_right(region, request->op);
	if (ret)
		return ret;
	ret = otte_region_check_fresh(region);
	if (ret)
		return ret;
	/* A file is cut off at its end: with its last byte the whole range is there. */
	if (!otte_mem_present(region->mem, region->offset + request->offset + request->length - 1))
		return otte_fail(-ESTALE, "the file behind region %lu is shorter now",
				 (unsigned long)region->id);
	return 0;
}

/* Under peer->lock. */
static struct otte_source_use *take_spare(struct source_peer *peer)
{
	struct otte_source_use *use = peer->spares;

	if (!use)
		return malloc(sizeof(*use));
	peer->spares = use->next;
	peer->spare_count--;
	return use;
}

/* Under peer->lock. NULL, or what the caller is to free. */
static struct otte_source_use *keep_spare(struct source_peer *peer, struct otte_source_use *use)
{
	if (peer->spare_count >= SPARES)
		return use;
	use->next = peer->spares;
	peer->spares = use;
	peer->spare_count++;
	return NULL;
}

/*
 * Under peer->lock: the standing loan that covers the request, with a use of its region. A region that was lent
 * to this peer before is found through its loan.
 */
static int find_loan(struct source_peer *peer, const struct otte_lane_request *request,
		     struct otte_standing **out)
{
	struct otte_standing *standing = otte_standing_find(peer, request->region, request->op);
	struct otte_region *region;
	int ret;

	if (standing) {
		region = standing->region;
		ret = otte_region_use(region);
	} else {
		ret = otte_region_use_id(peer->engine, request->region, &region);
	}
	if (ret)
		return ret;
	ret = check(region, request);
	if (!ret && otte_mem_on_device(region->mem))
		ret = otte_fail(-EOPNOTSUPP, "region %lu is a GPU's memory, which transport rdma alone reaches",
				(unsigned long)region->id);
	if (!ret && !standing)
		ret = otte_standing_expose(peer, region, request->op, &standing);
	if (ret)
		otte_region_unuse(region);
	*out = standing;
	return ret;
}

void otte_source_use_free_spares(struct source_peer *peer)
{
	struct otte_source_use *use;

	while ((use = peer->spares)) {
		peer->spares = use->next;
		free(use);
	}
}

/* A region that is used from now on, for a range that is to have a loan of its own. */
static int find_region(struct source_peer *peer, const struct otte_lane_request *request,
		       struct otte_region **out)
{
	int ret;

	ret = otte_region_use_id(peer->engine, request->region, out);
	if (ret)
		return ret;
	ret = check(*out, request);
	if (ret)
		otte_region_unuse(*out);
	return ret;
}

/*
 * Under peer->lock, so that a close that sees nobody busy has seen the last. `lent`: the loan is the use's own, and
 * still to be made.
 */
static int admit(struct source_peer *peer, const struct otte_lane_request *request, bool lent,
		 struct otte_source_use **out)
{
	struct otte_engine *engine = peer->engine;
	struct otte_region *region = NULL;
	struct otte_standing *standing = NULL;
	struct otte_source_use *use;
	int ret;

	if (atomic_load(&engine->source_closed))
		return otte_fail(-ESHUTDOWN, "this engine is closed as a source");
	if (request->epoch != engine->identity.epoch)
		return otte_fail(-ESTALE, "a request for epoch %016lx",
				 (unsigned long)request->epoch);
	use = take_spare(peer);
	if (!use)
		return otte_fail(-ENOMEM, "no memory for a request");
	ret = lent ? find_region(peer, request, &region) : find_loan(peer, request, &standing);
	if (ret) {
		free(keep_spare(peer, use));
		return ret;
	}
	if (!lent) {
		region = standing->region;
		standing->begun++;
	}
	zero_bytes(use, sizeof(*use));
	use->peer = peer;
	use->region = region;
	use->standing = standing;
	use->op = request->op;
	use->length = request->length;
	peer->busy++;
	*out = use;
	return 0;
}

/* The use is over, whoever was busy with it. */
static void dismiss(struct otte_source_use *use, bool complete)
{
	struct source_peer *peer = use->peer;
	struct otte_region *region = use->region;

	pthread_mutex_lock(&peer->lock);
	if (use->standing)
		use->standing->ended++;
	if (!use->retained)
		peer->busy--;
	if (complete) {
		peer->counts.requests++;
		if (use->op == OTTE_READ)
			peer->counts.read_bytes += use->length;
		else
			peer->counts.write_bytes += use->length;
	}
	use = keep_spare(peer, use);
	pthread_mutex_unlock(&peer->lock);
	free(use);
	otte_region_unuse(region);
}

static int begin(struct source_peer *peer, const struct otte_lane_request *request, bool lent,
		 struct otte_source_use **out, uint8_t **address)
{
	struct otte_source_use *use = NULL;
	uint64_t offset;
	int ret;

	*out = NULL;
	*address = NULL;
	pthread_mutex_lock(&peer->lock);
	ret = admit(peer, request, lent, &use);
	pthread_mutex_unlock(&peer->lock);
	if (ret)
		return ret;
	offset = use->region->offset + request->offset;
	*address = use->region->mem->address + offset;
	ret = otte_access_begin(&use->region->mem->access, &use->access, offset, request->length,
				request->op == OTTE_WRITE);
	if (ret) {
		dismiss(use, false);
		return ret;
	}
	*out = use;
	return 0;
}

int otte_source_begin(void *arg, const struct otte_lane_request *request,
		      struct otte_source_use **use, uint8_t **address)
{
	return begin(arg, request, false, use, address);
}

/*
 * Exactly this range, and for this use alone: it ends with evidence of its own. The order among uses is that of the
 * access map, so to the ledger it stands beside others, such as that of the whole region for what goes by address.
 */
static int lend_exactly(struct otte_source_use *use, uint64_t offset)
{
	struct otte_engine *engine = use->peer->engine;
	struct otte_loan_terms terms;
	int ret;

	otte_source_peer_terms(use->peer, use->region, use->op, &terms);
	terms.offset = offset;
	terms.length = use->length;
	ret = otte_source_expose(engine, &terms, &use->loan);
	if (ret == -EDQUOT)
		otte_source_say_quota(engine);
	return ret;
}

int otte_source_begin_lent(void *arg, const struct otte_lane_request *request,
			   struct otte_source_use **out, uint8_t **address)
{
	struct otte_source_use *use;
	int ret;

	ret = begin(arg, request, true, &use, address);
	*out = use;
	if (ret)
		return ret;
	ret = lend_exactly(use, request->offset);
	if (ret) {
		otte_access_end(&use->region->mem->access, &use->access);
		dismiss(use, false);
		*out = NULL;
		*address = NULL;
	}
	return ret;
}

void otte_source_end_lent(struct otte_source_use *use, bool complete, uint32_t evidence)
{
	struct otte_engine *engine = use->peer->engine;
	int ret;

	ret = engine->ledger->ops->loan_settle(engine->client, use->loan, evidence);
	if (ret)
		otte_log(OTTE_LOG_ERROR, "loan %lu cannot be settled: %s", (unsigned long)use->loan,
			 otte_error_text());
	otte_source_end(use, complete);
}

void otte_source_end(struct otte_source_use *use, bool complete)
{
	struct otte_engine *engine = use->peer->engine;

	otte_access_end(&use->region->mem->access, &use->access);
	if (use->retained)
		engine->ledger->ops->hold_drop(engine->client, use->hold);
	dismiss(use, complete);
}

int otte_source_retain(struct otte_source_use *use)
{
	struct source_peer *peer = use->peer;
	struct otte_engine *engine = peer->engine;
	int ret;

	ret = engine->ledger->ops->hold(engine->client, use->length, use->loan ? OTTE_LENT_REASON : OTTE_KEEP_REASON,
					&use->hold);
	if (ret)
		return ret;
	/* From now on close() reports it, instead of waiting for it. */
	pthread_mutex_lock(&peer->lock);
	use->retained = true;
	peer->busy--;
	pthread_mutex_unlock(&peer->lock);
	return 0;
}

struct otte_published *otte_source_published(const struct otte_source_use *use)
{
	return use->region->published;
}

/* What the engine has mapped is the engine's to unmap, which it does once no region of it is left. */
const struct otte_region_watch *otte_source_guarded(const struct otte_source_use *use)
{
	const struct otte_region_watch *watch = &use->region->watch;

	return watch->mask && use->region->mem->kind == OTTE_MEM_ADOPTED ? watch : NULL;
}

/* A file may be truncated, and nothing tells of it. */
bool otte_source_lasts(const struct otte_source_use *use)
{
	return !otte_source_guarded(use) && use->region->mem->kind != OTTE_MEM_FILE;
}

bool otte_source_firm(const struct otte_source_use *use)
{
	return otte_mem_is_firm(use->region->mem);
}

int otte_source_still(const struct otte_source_use *use)
{
	return otte_region_check_fresh(use->region);
}
