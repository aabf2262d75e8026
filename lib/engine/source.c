/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "engine/engine.h"
#include "engine/keep.h"

/*
 * One standing loan: exposed once, its requests counted here. `begun` grows when a request is admitted,
 * `ended` when it is over; equal counts mean that nothing of the loan is under way.
 */
struct standing {
	struct {
		uint64_t region;
		uint64_t right;
	} key;
	uint64_t loan;
	struct otte_region *region; /* stays as long as the loan: otte_source_forget() */
	uint64_t begun, ended;
	UT_hash_handle hh;
};

/* As the kernel shows a user who is not in the namespace (kernel.overflowuid). */
#define NO_USER 65534

/*
 * Tables of uses that are kept without a grant. A client of our user keeps loans of the one table
 * that all of these share. Those of other users keep pages of ours: one user's clients so many, and
 * all together less than the 8 MiB that a process may usually pin.
 */
#define KEPT_BY_CLIENT 256
#define KEPT_BY_USER 128
#define KEPT_BY_OTHERS 192

/* Uses that have ended are kept for the next requests, up to so many. */
#define SPARES 8

/* A client of our module, whose sessions share it; or a peer that is none, with its only one. */
struct borrower {
	uint64_t refs; /* sessions; under source_lock */
	_Atomic uint32_t grants; /* of the module's loans, until they are over; up to local.maps */
};

/* refs: the session, and each lane until the uses that came by it have ended. */
struct source_peer {
	struct source_peer *prev, *next; /* engine->source_peers */
	struct otte_engine *engine;
	struct otte_identity identity;
	uint64_t client; /* which one of our module it is, attested; 0: not known */
	uint32_t user;   /* and of which user, attested, too */
	bool foreign;    /* which is not ours */
	struct borrower *borrower;
	_Atomic uint32_t grants; /* others than the module's, retained ones too; up to local.maps */
	_Atomic uint64_t refs;
	_Atomic uint32_t lanes;
	pthread_mutex_t lock; /* the rest, and the counts of the loans */
	struct standing *loans;
	struct standing *last; /* of them: the one that was last asked for, or NULL */
	uint64_t busy; /* uses that are not retained, and grants */
	struct otte_source_counts counts;
	struct otte_source_use *spares;
	unsigned spare_count;
};

struct otte_source_use {
	struct source_peer *peer;
	struct otte_source_use *next; /* of the spares */
	struct otte_region *region;
	struct standing *standing;      /* NULL: it has a loan of its own */
	uint64_t loan;                  /* that one; 0: none */
	struct otte_access access;
	uint8_t op;
	bool retained;
	uint64_t hold;                  /* the ledger's record, where retained */
	uint64_t length;
};

/* engine->parked: it was given back, and the module has yet to say that it is over. */
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

/*
 * engine->awaited, by loan, under engine->awaited_lock: of a grant, or of a table of uses. The latter has none, and
 * stays until the ledger says that the borrower has it mapped no more.
 */
struct otte_source_awaited {
	uint64_t loan;
	struct otte_source_grant *grant;
	uint64_t client;
	uint32_t user;
	bool foreign;
	uint32_t owner; /* in the table */
	bool accepted;  /* a table, which was not to be had back with its grant */
	struct otte_source_awaited *next; /* of those that are found to have ended */
	UT_hash_handle hh;
};

/* Under peer->lock, or nobody else knows the peer. */
static void settle(struct source_peer *peer, struct standing *standing)
{
	struct otte_engine *engine = peer->engine;
	int ret;

	HASH_DEL(peer->loans, standing);
	peer->last = NULL;
	ret = engine->ledger->ops->loan_settle(engine->client, standing->loan,
					       OTTE_EVIDENCE_REVOKED);
	if (ret)
		otte_log(OTTE_LOG_ERROR, "loan %lu cannot be settled: %s",
			 (unsigned long)standing->loan, otte_error_text());
	free(standing);
}

static void settle_peer(struct source_peer *peer)
{
	struct standing *standing, *next;

	pthread_mutex_lock(&peer->lock);
	HASH_ITER(hh, peer->loans, standing, next)
		settle(peer, standing);
	pthread_mutex_unlock(&peer->lock);
}

static void add_counts(struct otte_source_counts *sum, const struct otte_source_counts *more)
{
	sum->requests += more->requests;
	sum->read_bytes += more->read_bytes;
	sum->write_bytes += more->write_bytes;
}

static void put(struct source_peer *peer)
{
	struct otte_engine *engine = peer->engine;
	struct otte_source_use *use;

	if (atomic_fetch_sub(&peer->refs, 1) != 1)
		return;
	/* While it is on the list: a region's owner who finds no loan of it may discard the region. */
	settle_peer(peer);
	pthread_mutex_lock(&engine->source_lock);
	DL_DELETE(engine->source_peers, peer);
	if (!--peer->borrower->refs)
		free(peer->borrower);
	add_counts(&engine->source_counts, &peer->counts);
	pthread_mutex_unlock(&engine->source_lock);
	while ((use = peer->spares)) {
		peer->spares = use->next;
		free(use);
	}
	pthread_mutex_destroy(&peer->lock);
	free(peer);
}

/* ---- Sessions ---- */

/* Root may map what it likes anyway. Users who have no number in this namespace are none of ours. */
static bool is_foreign(const struct otte_engine *engine, uint32_t user)
{
	return user && (user != engine->user || user == NO_USER);
}

/* Under source_lock. NULL: no memory. */
static struct borrower *use_borrower(struct otte_engine *engine, uint64_t client)
{
	struct borrower *borrower = NULL;
	struct source_peer *peer;

	DL_FOREACH(engine->source_peers, peer) {
		if (client && peer->client == client)
			borrower = peer->borrower;
	}
	if (!borrower)
		borrower = calloc(1, sizeof(*borrower));
	if (borrower)
		borrower->refs++;
	return borrower;
}

int otte_source_opened(void *arg, struct otte_session *session)
{
	struct otte_engine *engine = arg;
	struct source_peer *peer;

	if (atomic_load(&engine->source_closed))
		return otte_fail(-ESHUTDOWN, "this engine is closed as a source");
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return otte_fail(-ENOMEM, "no memory for a session");
	peer->engine = engine;
	peer->identity = session->peer;
	peer->client = session->attested;
	peer->user = session->attested_user;
	peer->foreign = session->attested && is_foreign(engine, session->attested_user);
	peer->refs = 1;
	pthread_mutex_init(&peer->lock, NULL);
	pthread_mutex_lock(&engine->source_lock);
	peer->borrower = use_borrower(engine, peer->client);
	if (peer->borrower)
		DL_APPEND(engine->source_peers, peer);
	pthread_mutex_unlock(&engine->source_lock);
	if (!peer->borrower) {
		pthread_mutex_destroy(&peer->lock);
		free(peer);
		return otte_fail(-ENOMEM, "no memory for a session");
	}
	session->user = peer;
	return 0;
}

void otte_source_closed(void *arg, struct otte_session *session)
{
	struct otte_engine *engine = arg;
	struct source_peer *peer = session->user;

	engine->transport->ops->drop_lanes(engine->transport, peer);
	put(peer);
}

int otte_source_lane(void *arg, struct otte_session *session, int fd, enum otte_lane_kind kind)
{
	struct otte_engine *engine = arg;
	const struct otte_transport_ops *ops = engine->transport->ops;
	struct source_peer *peer = session->user;
	/* One more where the peer may be of this host, and where NICs are to be used. */
	unsigned max = OTTE_SOURCE_LANES_MAX + (engine->config.local_trusted || peer->client) +
		       (session->can & OTTE_CAN_RDMA ? 1 : 0);
	int ret;

	if (atomic_fetch_add(&peer->lanes, 1) >= max) {
		atomic_fetch_sub(&peer->lanes, 1);
		return otte_fail(-EDQUOT, "a session has %u lanes already", max);
	}
	atomic_fetch_add(&peer->refs, 1);
	ret = ops->accept_lane(engine->transport, peer, fd, kind);
	if (ret)
		otte_source_lane_closed(peer);
	return ret;
}

void otte_source_lane_closed(void *arg)
{
	struct source_peer *peer = arg;

	atomic_fetch_sub(&peer->lanes, 1);
	put(peer);
}

/* ---- Requests ---- */

/* An administrator's limit is told where it can be raised; peers can ask for this line, so once a second. */
static void say_quota(struct otte_engine *engine)
{
	if (otte_log_second_admits(&engine->quota_said_ns, otte_coarse_ns()))
		otte_log(OTTE_LOG_WARNING, "a peer is lent nothing: %s", otte_error_text());
}

static void fill_terms(const struct source_peer *peer, const struct otte_region *region, uint8_t op,
		       struct otte_loan_terms *terms)
{
	*terms = (struct otte_loan_terms){
		.region = region->id,
		.length = region->length,
		.right = op == OTTE_READ ? OTTE_LOAN_READ : OTTE_LOAN_WRITE,
		.flags = OTTE_LOAN_STANDING,
		.borrower.epoch = peer->identity.epoch,
	};
	memcpy(terms->borrower.incarnation, peer->identity.incarnation,
	       sizeof(terms->borrower.incarnation));
}

/* Under peer->lock. */
static int expose(struct source_peer *peer, struct otte_region *region, uint8_t op,
		  struct standing **out)
{
	struct otte_engine *engine = peer->engine;
	const struct otte_ledger_ops *ops = engine->ledger->ops;
	struct otte_loan_terms terms;
	struct standing *standing;
	int ret;

	fill_terms(peer, region, op, &terms);
	standing = calloc(1, sizeof(*standing));
	if (!standing)
		return otte_fail(-ENOMEM, "no memory for a loan");
	standing->region = region;
	standing->key.region = region->id;
	standing->key.right = op;
	if (engine->transport->ops->serves_by_address)
		terms.flags |= OTTE_LOAN_BY_ADDRESS;
	ret = ops->loan_offer(engine->client, &terms, &standing->loan);
	if (ret == -EDQUOT)
		say_quota(engine);
	if (ret)
		goto free_standing;
	HASH_ADD(hh, peer->loans, key, sizeof(standing->key), standing);
	if (!standing->hh.tbl) {
		ret = otte_fail(-ENOMEM, "no memory for a loan");
		goto withdraw;
	}
	ret = ops->loan_expose(engine->client, standing->loan);
	if (ret)
		goto forget;
	*out = standing;
	return 0;

forget:
	HASH_DEL(peer->loans, standing); /* never was the last */
withdraw:
	ops->loan_withdraw(engine->client, standing->loan);
free_standing:
	free(standing);
	return ret;
}

/* Under peer->lock. */
static struct standing *find_standing(struct source_peer *peer, uint64_t region, uint8_t op)
{
	struct standing *standing = peer->last, key = { .key = { region, op } };

	if (standing && standing->key.region == region && standing->key.right == op)
		return standing;
	HASH_FIND(hh, peer->loans, &key.key, sizeof(key.key), standing);
	peer->last = standing;
	return standing;
}

static int published(const struct otte_region *region)
{
	if (region->access == OTTE_LOCAL_ONLY)
		return otte_fail(-ENOENT, "region %lu is not published", (unsigned long)region->id);
	return 0;
}

static int check_right(const struct otte_region *region, uint8_t op)
{
	if (!(region->access & (op == OTTE_READ ? OTTE_REMOTE_READ : OTTE_REMOTE_WRITE)))
		return otte_fail(-EACCES, "region %lu does not grant it", (unsigned long)region->id);
	return 0;
}

static int check(const struct otte_region *region, const struct otte_lane_request *request)
{
	int ret;

	ret = published(region);
	if (ret)
		return ret;
	if (!range_inside(request->offset, request->length, region->length))
		return otte_fail(-ERANGE, "[%lu, +%lu) is not inside region %lu of %lu bytes",
				 (unsigned long)request->offset, (unsigned long)request->length,
				 (unsigned long)region->id, (unsigned long)region->length);
	ret = check_right(region, request->op);
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

/*
 * Under peer->lock: the standing loan that covers the request, with a use of its region. A region that was lent
 * to this peer before is found through its loan, and its rights need no second look.
 */
static int find_loan(struct source_peer *peer, const struct otte_lane_request *request,
		     struct standing **out)
{
	struct standing *standing = find_standing(peer, request->region, request->op);
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
	if (!ret && !standing)
		ret = expose(peer, region, request->op, &standing);
	if (ret)
		otte_region_unuse(region);
	*out = standing;
	return ret;
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
	struct standing *standing = NULL;
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
	const struct otte_ledger_ops *ops = engine->ledger->ops;
	struct otte_loan_terms terms;
	int ret;

	fill_terms(use->peer, use->region, use->op, &terms);
	terms.offset = offset;
	terms.length = use->length;
	ret = ops->loan_offer(engine->client, &terms, &use->loan);
	if (ret == -EDQUOT)
		say_quota(engine);
	if (ret)
		return ret;
	ret = ops->loan_expose(engine->client, use->loan);
	if (ret)
		ops->loan_withdraw(engine->client, use->loan);
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

const struct otte_identity *otte_source_identity(const void *arg)
{
	const struct source_peer *peer = arg;

	return &peer->identity;
}

struct otte_published *otte_source_published(const struct otte_source_use *use)
{
	return use->region->published;
}

void otte_source_refused(void *arg)
{
	const struct source_peer *peer = arg;

	atomic_fetch_add(&peer->engine->counters.refused_requests, 1);
}

/* What the engine has mapped is the engine's to unmap, which it does once no region of it is left. */
const struct otte_region_watch *otte_source_guarded(const struct otte_source_use *use)
{
	const struct otte_region_watch *watch = &use->region->watch;

	return watch->mask && use->region->mem->kind == OTTE_MEM_ADOPTED ? watch : NULL;
}

int otte_source_still(const struct otte_source_use *use)
{
	return otte_region_check_fresh(use->region);
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

/* ---- Peers of this host ---- */

/* To its client of the module. */
static int offer(struct source_peer *peer, struct otte_region *region, uint8_t op, bool mapped,
		 uint64_t *loan)
{
	struct otte_engine *engine = peer->engine;
	struct otte_loan_terms terms;

	fill_terms(peer, region, op, &terms);
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
	struct otte_engine *engine = peer->engine;
	const struct otte_ledger_ops *ops = engine->ledger->ops;
	struct otte_loan_terms terms;
	int ret;

	fill_terms(peer, region, op, &terms);
	terms.accepted = OTTE_EVIDENCE_DEFAULT | OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_BORROWER_EXITED);
	ret = ops->loan_offer(engine->client, &terms, loan);
	if (ret)
		return ret;
	ret = ops->loan_expose(engine->client, *loan);
	if (ret)
		ops->loan_withdraw(engine->client, *loan);
	return ret;
}

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

/* ---- What the ledger will tell ---- */

static struct otte_source_awaited *await_end(struct otte_engine *engine, uint64_t loan)
{
	struct otte_source_awaited *awaited = calloc(1, sizeof(*awaited));

	if (!awaited)
		return NULL;
	awaited->loan = loan;
	pthread_mutex_lock(&engine->awaited_lock);
	HASH_ADD(hh, engine->awaited, loan, sizeof(awaited->loan), awaited);
	pthread_mutex_unlock(&engine->awaited_lock);
	if (awaited->hh.tbl)
		return awaited;
	free(awaited);
	return NULL;
}

/* Under awaited_lock. */
static void forget_awaited(struct otte_engine *engine, struct otte_source_awaited *awaited)
{
	HASH_DEL(engine->awaited, awaited);
	free(awaited);
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

/* The ledger is not asked for what it has told the end of. */
static void take_uses_back(struct otte_source_grant *grant)
{
	struct otte_engine *engine = grant->peer->engine;
	struct otte_source_awaited *awaited;
	uint32_t owner = 0;
	bool unheard = false;

	if (!grant->uses_loan)
		return;
	pthread_mutex_lock(&engine->awaited_lock);
	HASH_FIND(hh, engine->awaited, &grant->uses_loan, sizeof(grant->uses_loan), awaited);
	if (awaited) {
		owner = awaited->owner;
		if (end_table(engine, awaited, &unheard))
			forget_awaited(engine, awaited);
	}
	pthread_mutex_unlock(&engine->awaited_lock);
	if (unheard)
		clear_uses_of(engine, grant->peer->client, owner);
}

static void stop_awaiting(struct otte_source_grant *grant)
{
	struct otte_engine *engine = grant->peer->engine;

	if (!grant->awaited)
		return;
	pthread_mutex_lock(&engine->awaited_lock);
	forget_awaited(engine, grant->awaited);
	pthread_mutex_unlock(&engine->awaited_lock);
	grant->awaited = NULL;
}

/*
 * A borrower that keeps tables which it has no grant for any more gets no others. What those of other
 * users keep is pages that nobody else uses, of users who have as many clients as they like: that is
 * no loss of our user's.
 */
static int check_kept(const struct source_peer *peer)
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
	struct otte_source_awaited *awaited;
	int ret;

	ret = check_kept(peer);
	if (!ret)
		ret = engine->ledger->ops->loan_offer(engine->client, &terms, &grant->uses_loan);
	if (ret)
		return ret;
	awaited = await_end(engine, grant->uses_loan);
	if (!awaited) {
		engine->ledger->ops->loan_take_back(engine->client, grant->uses_loan, false);
		grant->uses_loan = 0;
		return otte_fail(-ENOMEM, "no memory for a loan");
	}
	awaited->client = peer->client;
	awaited->user = peer->user;
	awaited->foreign = peer->foreign;
	awaited->owner = owner;
	return 0;
}

/* Without it the end is asked for. */
static void await_grant(struct otte_source_grant *grant)
{
	grant->awaited = await_end(grant->peer->engine, grant->loan);
	if (!grant->awaited)
		return;
	grant->awaited->grant = grant;
	grant->awaited->client = grant->peer->client;
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
	else if (owner)
		await_grant(grant);
	return ret;
}

/* With a use of the region. */
static int grant_region(struct source_peer *peer, struct otte_region *region, uint8_t op, bool mapped,
			bool by_module, uint32_t owner, struct otte_source_lent *lent)
{
	bool borrowed = region->pinned && peer->client && peer->engine->ledger->ops->loan_copy;
	struct otte_source_grant *grant;
	int ret;

	ret = published(region);
	if (!ret)
		ret = check_right(region, op);
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
		say_quota(peer->engine);
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
	say_quota(engine);
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

bool otte_source_over(const struct otte_source_grant *grant)
{
	return atomic_load(&grant->over);
}

/* Nobody else knows of it: it is looked at until it is over. */
static void park(struct otte_source_grant *grant)
{
	struct otte_engine *engine = grant->peer->engine;

	atomic_fetch_add(&grant->peer->refs, 1);
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
	stop_awaiting(grant);
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
		put(peer);
	}
	retain_parked(engine);
	look_at_uses(engine);
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
	if (awaited && awaited->grant) {
		atomic_store(&awaited->grant->over, true);
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

void otte_source_process_ended(void *arg, uint32_t owner)
{
	otte_mem_clear_uses(arg, owner);
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

void otte_source_count(void *arg, uint64_t requests, uint64_t read_bytes, uint64_t write_bytes)
{
	const struct otte_source_counts more = { requests, read_bytes, write_bytes };
	struct source_peer *peer = arg;

	pthread_mutex_lock(&peer->lock);
	add_counts(&peer->counts, &more);
	pthread_mutex_unlock(&peer->lock);
}

void otte_source_connected(void *arg, int fd)
{
	struct otte_engine *engine = arg;

	otte_control_server_adopt(&engine->server, fd);
}

void otte_source_recall(struct otte_engine *engine, uint64_t region)
{
	if (engine->transport->ops->recall)
		engine->transport->ops->recall(engine->transport, region);
}

/* ---- The end of loans ---- */

/* Under peer->lock, and nothing new begins. */
static void settle_idle(struct source_peer *peer)
{
	struct standing *standing, *next;

	HASH_ITER(hh, peer->loans, standing, next)
		if (standing->begun == standing->ended)
			settle(peer, standing);
}

void otte_source_forget(struct otte_engine *engine, uint64_t region)
{
	struct standing *standing;
	struct source_peer *peer;
	unsigned op;

	pthread_mutex_lock(&engine->source_lock);
	DL_FOREACH(engine->source_peers, peer) {
		pthread_mutex_lock(&peer->lock);
		for (op = OTTE_READ; op <= OTTE_WRITE; op++) {
			standing = find_standing(peer, region, (uint8_t)op);
			if (standing)
				settle(peer, standing);
		}
		pthread_mutex_unlock(&peer->lock);
	}
	pthread_mutex_unlock(&engine->source_lock);
}

uint64_t otte_source_busy(struct otte_engine *engine)
{
	struct source_peer *peer;
	uint64_t busy = 0;

	pthread_mutex_lock(&engine->source_lock);
	DL_FOREACH(engine->source_peers, peer)
	{
		pthread_mutex_lock(&peer->lock);
		busy += peer->busy;
		pthread_mutex_unlock(&peer->lock);
	}
	pthread_mutex_unlock(&engine->source_lock);
	return busy;
}

void otte_source_sum(struct otte_engine *engine, struct otte_source_counts *sum)
{
	struct source_peer *peer;

	pthread_mutex_lock(&engine->source_lock);
	*sum = engine->source_counts;
	DL_FOREACH(engine->source_peers, peer)
	{
		pthread_mutex_lock(&peer->lock);
		add_counts(sum, &peer->counts);
		pthread_mutex_unlock(&peer->lock);
	}
	pthread_mutex_unlock(&engine->source_lock);
}

void otte_source_settle_all(struct otte_engine *engine)
{
	struct source_peer *peer;

	pthread_mutex_lock(&engine->source_lock);
	DL_FOREACH(engine->source_peers, peer) {
		pthread_mutex_lock(&peer->lock);
		settle_idle(peer);
		pthread_mutex_unlock(&peer->lock);
	}
	pthread_mutex_unlock(&engine->source_lock);
}
