/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns what this process knows of loans: the terms of those that a client lent, and which it
 * accepted. The module owns their states. A refusal of the module is put into the interface's words
 * with the help of its dump, which says what a bare ENOENT does not; that costs a dump, and only
 * where something was refused. Caller's lock: the client's.
 *
 * Remote loans: the module has no offer to a peer, only an exposure. It is made when the loan is
 * offered, so that the ledger never knows of less than could have left, and loan_expose() only
 * opens it here. What is withdrawn before that is settled as REVOKED: nobody holds it.
 */
#include "ledger/kernel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ledger/terms.h"

#define PEER_MARK 1 /* in the last byte, so that no name is all zero, which the module refuses */

static bool is_remote(const struct kernel_loan *loan)
{
	return !loan->terms.borrower.client;
}

/* ---- Names of peers -------------------------------------------------------------------------- */

static void peer_encode(const struct otte_borrower *who, uint8_t peer[OTTE_MODULE_PEER_LEN])
{
	memset(peer, 0, OTTE_MODULE_PEER_LEN);
	memcpy(peer, who->incarnation, sizeof(who->incarnation));
	peer[OTTE_MODULE_PEER_LEN - 1] = PEER_MARK;
}

void kernel_peer_decode(const uint8_t peer[OTTE_MODULE_PEER_LEN], struct otte_borrower *who)
{
	memcpy(who->incarnation, peer, sizeof(who->incarnation));
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static struct kernel_loan *find(struct kernel_loan *table, uint64_t id)
{
	struct kernel_loan *loan;

	HASH_FIND(hh, table, &id, sizeof(id), loan);
	return loan && !loan->ended ? loan : NULL;
}

static int add(struct kernel_client *client, struct kernel_loan **table, struct kernel_loan *loan)
{
	struct kernel_ledger *ledger = kernel_ledger_of(client);

	pthread_mutex_lock(&ledger->lock);
	HASH_ADD(hh, *table, id, sizeof(loan->id), loan);
	pthread_mutex_unlock(&ledger->lock);
	return loan->hh.tbl ? 0 : otte_fail(-ENOMEM, "no memory for a loan");
}

static void take(struct kernel_client *client, struct kernel_loan **table, struct kernel_loan *loan)
{
	struct kernel_ledger *ledger = kernel_ledger_of(client);

	pthread_mutex_lock(&ledger->lock);
	HASH_DEL(*table, loan);
	pthread_mutex_unlock(&ledger->lock);
}

static void forget(struct kernel_client *client, struct kernel_loan **table,
		   struct kernel_loan *loan)
{
	take(client, table, loan);
	free(loan);
}

/* One of the marks that dumps look at. */
static void mark(struct kernel_client *client, bool *which)
{
	struct kernel_ledger *ledger = kernel_ledger_of(client);

	pthread_mutex_lock(&ledger->lock);
	*which = true;
	pthread_mutex_unlock(&ledger->lock);
}

struct kernel_loan *kernel_loan_take(struct kernel_client *client, struct kernel_loan **table,
				     uint64_t id)
{
	struct kernel_loan *loan;

	HASH_FIND(hh, *table, &id, sizeof(id), loan);
	if (loan)
		take(client, table, loan);
	return loan;
}

void kernel_loan_complete(const struct kernel_client *lender, struct otte_loan_info *info)
{
	const struct kernel_loan *loan = find(lender->lent, info->id);

	if (!loan)
		return;
	info->terms = loan->terms;
	if (is_remote(loan) && !loan->exposed)
		info->state = OTTE_LOAN_OFFERED;
}

static void free_table(struct kernel_client *client, struct kernel_loan **table)
{
	struct kernel_loan *loan, *next;

	HASH_ITER(hh, *table, loan, next)
		forget(client, table, loan);
}

void kernel_loan_free_all(struct kernel_client *client)
{
	free_table(client, &client->lent);
	free_table(client, &client->accepted);
	while (client->offers)
		kernel_offer_forget(client, client->offers->id);
}

void kernel_loan_region_gone(struct kernel_client *lender, uint64_t region)
{
	struct kernel_loan *loan, *next;

	HASH_ITER(hh, lender->lent, loan, next)
		if (loan->terms.region == region && !loan->ended)
			forget(lender, &lender->lent, loan);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static int unknown(uint64_t id)
{
	return otte_fail(-ENOENT, "loan %" PRIu64 ": unknown", id);
}

/*
 * Says of a loan that is none of this caller's tables what the interface says: -ENOENT where it is
 * not live, else -EPERM, or 0 where this caller is one of its sides.
 */
static int look(struct kernel_client *client, uint64_t id, struct otte_loan_info *info)
{
	int rc = kernel_look_loan(kernel_ledger_of(client), id, info);

	if (rc || info->state > OTTE_LOAN_EXPOSED)
		return unknown(id);
	if (info->lender == client->id || info->terms.borrower.client == client->id)
		return 0;
	return otte_fail(-EPERM, "loan %" PRIu64 ": another's", id);
}

/* For calls that are the lender's. */
static int refuse_not_lent(struct kernel_client *client, uint64_t id)
{
	struct otte_loan_info info;
	int rc = look(client, id, &info);

	return rc ? rc : otte_fail(-EPERM, "loan %" PRIu64 ": another's", id);
}

static bool is_live(struct kernel_client *client, uint64_t id)
{
	struct otte_loan_info info;

	return !look(client, id, &info);
}

static int refuse_offer(uint64_t id)
{
	return otte_fail(-EINVAL, "loan %" PRIu64 ": is only offered, withdraw it", id);
}

/* ---- Offer ----------------------------------------------------------------------------------- */

/*
 * The module can revoke what it maps or copies; the rest its lender revokes by its own word. One
 * that knows no standing offers is asked for such as exclude like any.
 */
static uint32_t module_flags(const struct kernel_client *lender,
			     const struct otte_loan_terms *terms,
			     const struct kernel_region *region)
{
	bool standing_offers = kernel_ledger_of(lender)->standing_offers;
	uint32_t standing =
		terms->flags & OTTE_LOAN_STANDING && standing_offers ? OTTE_MODULE_STANDING : 0;

	if (region->claim.backing != OTTE_BACKING_PAGES)
		return standing;
	return standing | (terms->flags & OTTE_LOAN_REVOCABLE ? OTTE_MODULE_REVOCABLE : 0) |
	       (terms->flags & OTTE_LOAN_MAPPABLE ? OTTE_MODULE_MAPPABLE : 0);
}

/* A module that cannot tell who goes by address from who does not is asked as for the latter. */
static uint32_t exposure_flags(const struct kernel_client *lender,
			       const struct otte_loan_terms *terms)
{
	bool by_address = kernel_ledger_of(lender)->by_address;

	return (terms->flags & OTTE_LOAN_STANDING ? OTTE_MODULE_STANDING : 0) |
	       (terms->flags & OTTE_LOAN_BY_ADDRESS && by_address ? OTTE_MODULE_BY_ADDRESS : 0);
}

static int publish(struct kernel_client *lender, const struct otte_loan_terms *terms,
		   const struct kernel_region *region, uint64_t *id)
{
	struct otte_module_terms wanted = {
		.region = terms->region,
		.offset = terms->offset,
		.length = terms->length,
		.borrower = terms->borrower.client,
		.direction = terms->right == OTTE_LOAN_WRITE ? OTTE_MODULE_WRITE : OTTE_MODULE_READ,
		.tag = terms->tag,
	};

	if (terms->borrower.client) {
		wanted.flags = module_flags(lender, terms, region);
		wanted.evidence = terms->accepted >> 1; /* bit n there is bit n + 1 here */
		return otte_module_loan_offer(lender->fd, &wanted, id);
	}
	wanted.flags = exposure_flags(lender, terms);
	wanted.incarnation = terms->borrower.epoch;
	peer_encode(&terms->borrower, wanted.peer);
	return otte_module_loan_expose(lender->fd, &wanted, id);
}

/* The module does not say on which side the fence is. */
static int refused_fenced(const struct otte_loan_terms *terms)
{
	if (terms->borrower.client)
		return otte_fail(-EKEYREVOKED,
				 "region %" PRIu64 ": client %" PRIu64 " is fenced, or this one",
				 terms->region, terms->borrower.client);
	return otte_fail(-EKEYREVOKED,
			 "region %" PRIu64 ": the peer of epoch %" PRIx64
			 " is fenced, or this client",
			 terms->region, terms->borrower.epoch);
}

static int refused_offer(struct kernel_client *lender, int rc, const struct otte_loan_terms *terms)
{
	switch (rc) {
	case -EBUSY:
		return otte_fail(-EBUSY, "region %" PRIu64 ": a loan of the same bytes is live",
				 terms->region);
	case -ENOENT: /* the region is known */
		return otte_fail(-ESRCH, "client %" PRIu64 ": unknown", terms->borrower.client);
	case -ENOSPC:
		return otte_fail(-EDQUOT, "client %" PRIu64 ": has too many offers unanswered",
				 terms->borrower.client);
	case -EACCES:
		return otte_fail(-EACCES, "client %" PRIu64 ": takes no offers of this lender",
				 terms->borrower.client);
	case -EKEYREVOKED:
		return refused_fenced(terms);
	case -ESTALE:
		return kernel_region_refuse_stale(lender, terms->region);
	default:
		return kernel_refused(lender, rc, "region", terms->region);
	}
}

int kernel_loan_offer(struct kernel_client *lender, const struct otte_loan_terms *terms,
		      uint64_t *id)
{
	struct kernel_region *region;
	struct kernel_loan *loan;
	int rc;

	rc = otte_terms_check(terms);
	if (rc)
		return rc;
	rc = kernel_region_find(lender, terms->region, &region);
	if (rc)
		return rc;
	rc = otte_terms_check_region(terms, &region->claim);
	if (!rc && terms->borrower.client)
		rc = kernel_region_verify(lender, region);
	if (rc)
		return rc;
	loan = calloc(1, sizeof(*loan));
	if (!loan)
		return otte_fail(-ENOMEM, "no memory for a loan");
	loan->terms = *terms;
	loan->within = kernel_client_is_ours(kernel_ledger_of(lender), terms->borrower.client);
	if (!terms->accepted)
		loan->terms.accepted = OTTE_EVIDENCE_DEFAULT;
	rc = publish(lender, terms, region, &loan->id);
	if (rc) {
		rc = refused_offer(lender, rc, terms);
		goto free_loan;
	}
	rc = add(lender, &lender->lent, loan);
	if (rc)
		goto undo;
	*id = loan->id;
	return 0;

undo:
	if (is_remote(loan))
		otte_module_loan_settle(lender->fd, loan->id,
					OTTE_MODULE_EVIDENCE_BIT(OTTE_EVIDENCE_REVOKED));
	else
		otte_module_loan_withdraw(lender->fd, loan->id);
free_loan:
	free(loan);
	return rc;
}

/* ---- Offers to this client ------------------------------------------------------------------- */

/* The module bounds how many stand unanswered. Of one that finds no room here only its lender is not known. */
void kernel_offer_note(struct kernel_client *borrower, const struct otte_module_event *told)
{
	struct kernel_offer *offer = calloc(1, sizeof(*offer));

	if (!offer)
		return;
	offer->id = told->object;
	offer->lender = told->other;
	offer->revocable = told->flags & OTTE_MODULE_REVOCABLE;
	HASH_ADD(hh, borrower->offers, id, sizeof(offer->id), offer);
	if (!offer->hh.tbl)
		free(offer);
}

void kernel_offer_forget(struct kernel_client *borrower, uint64_t id)
{
	struct kernel_offer *offer;

	HASH_FIND(hh, borrower->offers, &id, sizeof(id), offer);
	if (!offer)
		return;
	HASH_DEL(borrower->offers, offer);
	free(offer);
}

static int find_offer(struct kernel_client *borrower, uint64_t id, uint64_t lender,
		      const struct kernel_offer **out)
{
	struct kernel_offer *offer;

	kernel_event_pump(borrower);
	HASH_FIND(hh, borrower->offers, &id, sizeof(id), offer);
	if (!offer)
		return unknown(id);
	if (offer->lender != lender)
		return otte_fail(-EPERM, "loan %" PRIu64 ": is of client %" PRIu64 ", not of %" PRIu64,
				 id, offer->lender, lender);
	*out = offer;
	return 0;
}

/* ---- Accept, expose -------------------------------------------------------------------------- */

static int refused_accept(struct kernel_client *borrower, int rc, uint64_t id)
{
	struct otte_loan_info info;
	int why;

	switch (rc) {
	case -EALREADY:
		return otte_fail(rc, "loan %" PRIu64 ": is exposed already", id);
	case -ENOENT:
		why = look(borrower, id, &info);
		return why ? why :
			     otte_fail(-EPERM,
				       "loan %" PRIu64 ": is not offered to client %" PRIu64, id,
				       borrower->id);
	default:
		return kernel_refused(borrower, rc, "loan", id);
	}
}

int kernel_loan_accept(struct kernel_client *borrower, uint64_t id)
{
	struct otte_module_accepted accepted;
	struct kernel_loan *loan;
	int rc;

	/* It may have been revoked since: only the module knows. */
	if (find(borrower->accepted, id))
		return refused_accept(borrower,
				      otte_module_loan_accept(borrower->fd, id, &accepted), id);
	loan = calloc(1, sizeof(*loan));
	if (!loan)
		return otte_fail(-ENOMEM, "no memory for a loan");
	loan->id = id;
	/* First here, so that nothing that was accepted is unknown. */
	rc = add(borrower, &borrower->accepted, loan);
	if (rc)
		goto free_loan;
	rc = otte_module_loan_accept(borrower->fd, id, &loan->accepted);
	if (!rc) {
		kernel_offer_forget(borrower, id);
		return 0;
	}
	rc = refused_accept(borrower, rc, id);
	take(borrower, &borrower->accepted, loan);
free_loan:
	free(loan);
	return rc;
}

int kernel_loan_borrow(struct kernel_client *borrower, uint64_t id, uint64_t lender,
		       struct otte_borrowed *borrowed)
{
	const struct kernel_offer *offer = NULL;
	const struct kernel_loan *loan;
	bool revocable;
	int rc;

	rc = find_offer(borrower, id, lender, &offer);
	if (rc)
		return rc;
	revocable = offer->revocable; /* what is accepted is no offer any more */
	rc = kernel_loan_accept(borrower, id);
	if (rc)
		return rc;
	loan = find(borrower->accepted, id);
	*borrowed = (struct otte_borrowed){
		.length = loan->accepted.length,
		.right = loan->accepted.direction == OTTE_MODULE_WRITE ? OTTE_LOAN_WRITE :
									 OTTE_LOAN_READ,
		.mappable = loan->accepted.map_bytes != 0,
		.revocable = revocable,
	};
	return 0;
}

/* The module's words for a loan that has ended depend on who has read of it. */
int kernel_loan_copy(const struct kernel_client *borrower, uint64_t id, uint64_t offset, void *buffer,
		     uint64_t length, uint64_t *done)
{
	int rc = otte_module_loan_copy(borrower->fd, id, offset, buffer, length, done);

	switch (rc) {
	case 0:
		return 0;
	case -EACCES:
	case -ENOENT:
	case -EBUSY:
		return otte_fail(-EKEYREVOKED, "loan %" PRIu64 ": was revoked", id);
	case -ESTALE:
		return otte_fail(
			rc, "loan %" PRIu64 ": its lender has unmapped or replaced the memory", id);
	case -EFAULT:
		return otte_fail(rc, "loan %" PRIu64 ": no memory of ours there", id);
	default:
		return otte_fail(rc, "loan %" PRIu64 ": the module says %s", id, strerror(-rc));
	}
}

int kernel_loan_map(struct kernel_client *borrower, uint64_t id, void **address)
{
	const struct kernel_loan *loan = find(borrower->accepted, id);
	int rc;

	if (!loan)
		return unknown(id);
	if (!loan->accepted.map_bytes)
		return otte_fail(-EOPNOTSUPP, "loan %" PRIu64 ": is not lent to be mapped", id);
	rc = otte_module_loan_map(borrower->fd, &loan->accepted, address);
	return rc ? kernel_refused(borrower, rc, "loan", id) : 0;
}

int kernel_loan_expose(struct kernel_client *lender, uint64_t id)
{
	struct kernel_loan *loan = find(lender->lent, id);

	if (!loan)
		return refuse_not_lent(lender, id);
	if (!is_remote(loan))
		return is_live(lender, id) ?
			       otte_fail(-EPERM,
					 "loan %" PRIu64 ": a local borrower accepts by itself",
					 id) :
			       unknown(id);
	if (loan->exposed)
		return otte_fail(-EALREADY, "loan %" PRIu64 ": is exposed already", id);
	if (loan->fenced)
		return otte_fail(-EKEYREVOKED, "loan %" PRIu64 ": its peer is fenced", id);
	mark(lender, &loan->exposed);
	return 0;
}

/* ---- Settle ---------------------------------------------------------------------------------- */

/* Says so to the module; what it answers about that is nobody else's. */
static int end_remote(struct kernel_client *lender, struct kernel_loan *loan,
		      enum otte_evidence evidence)
{
	uint32_t stated = evidence == OTTE_EVIDENCE_RETURNED ? evidence : OTTE_EVIDENCE_REVOKED;
	int rc;

	rc = otte_module_loan_settle(lender->fd, loan->id, OTTE_MODULE_EVIDENCE_BIT(stated));
	if (rc)
		return kernel_refused(lender, rc, "loan", loan->id);
	mark(lender, &loan->ended);
	kernel_event_pump(lender); /* or the module keeps it charged until somebody asks */
	return 0;
}

static int settle_remote(struct kernel_client *lender, struct kernel_loan *loan,
			 enum otte_evidence evidence)
{
	int rc;

	if (!loan->exposed)
		return refuse_offer(loan->id);
	rc = otte_terms_check_attestation(&loan->terms, loan->id, true, false, evidence);
	if (rc)
		return rc;
	rc = otte_terms_check_accepted(&loan->terms, loan->id, evidence);
	if (rc)
		return rc;
	rc = end_remote(lender, loan, evidence);
	if (!rc)
		kernel_count_settled(kernel_ledger_of(lender), 1);
	return rc;
}

static int refuse_receipt(uint64_t id)
{
	return otte_fail(-EPERM, "loan %" PRIu64 ": its terms do not accept RETURNED", id);
}

static int settle_accepted(struct kernel_client *borrower, struct kernel_loan *loan)
{
	uint64_t id = loan->id;
	int rc;

	rc = otte_module_loan_settle(borrower->fd, id,
				     OTTE_MODULE_EVIDENCE_BIT(OTTE_EVIDENCE_RETURNED));
	switch (rc) {
	case 0:
		forget(borrower, &borrower->accepted, loan);
		kernel_count_settled(kernel_ledger_of(borrower), 1);
		return 0;
	case -ENOENT: /* revoked meanwhile */
		forget(borrower, &borrower->accepted, loan);
		return unknown(id);
	case -EACCES: /* nor will they: it is the lender's to end, and charged to that */
		forget(borrower, &borrower->accepted, loan);
		return refuse_receipt(id);
	case -EBUSY:
		return otte_fail(-EBUSY, "loan %" PRIu64 ": a mapping or a copy of it exists", id);
	default:
		return kernel_refused(borrower, rc, "loan", id);
	}
}

int kernel_loan_settle(struct kernel_client *client, uint64_t id, enum otte_evidence evidence)
{
	struct kernel_loan *loan = find(client->accepted, id);
	struct otte_loan_info info;
	int rc;

	if (loan && evidence == OTTE_EVIDENCE_RETURNED)
		return settle_accepted(client, loan);
	loan = find(client->lent, id);
	if (loan && is_remote(loan))
		return settle_remote(client, loan, evidence);
	rc = look(client, id, &info);
	if (rc)
		return rc;
	if (info.state == OTTE_LOAN_OFFERED)
		return refuse_offer(id);
	if (evidence == OTTE_EVIDENCE_RETURNED && info.terms.borrower.client == client->id)
		return refuse_receipt(id);
	return otte_fail(-EINVAL, "loan %" PRIu64 ": this client cannot attest %s", id,
			 otte_evidence_name(evidence));
}

/* ---- Withdraw, revoke ------------------------------------------------------------------------ */

static int refuse_exposed(uint64_t id)
{
	return otte_fail(-EBUSY, "loan %" PRIu64 ": is exposed, only evidence ends it", id);
}

void kernel_loan_withdraw_remote(struct kernel_client *lender, uint64_t region)
{
	struct kernel_loan *loan, *next;

	HASH_ITER(hh, lender->lent, loan, next)
		if (is_remote(loan) && !loan->exposed && !loan->ended &&
		    (!region || loan->terms.region == region) &&
		    !otte_module_loan_settle(lender->fd, loan->id,
					     OTTE_MODULE_EVIDENCE_BIT(OTTE_EVIDENCE_REVOKED)))
			mark(lender, &loan->ended);
	kernel_event_pump(lender);
}

int kernel_loan_withdraw(struct kernel_client *lender, uint64_t id)
{
	struct kernel_loan *loan = find(lender->lent, id);
	int rc;

	if (!loan)
		return refuse_not_lent(lender, id);
	if (is_remote(loan))
		return loan->exposed ? refuse_exposed(id) :
				       end_remote(lender, loan, OTTE_EVIDENCE_REVOKED);
	rc = otte_module_loan_withdraw(lender->fd, id);
	if (rc == -EBUSY)
		return refuse_exposed(id);
	if (rc == -ENOENT)
		return unknown(id); /* its end is still to be read */
	if (rc)
		return kernel_refused(lender, rc, "loan", id);
	forget(lender, &lender->lent, loan);
	return 0;
}

/* PAGES the module takes away itself; of a NONE region it is the lender's own statement. */
static int revoke_in_module(struct kernel_client *lender, const struct kernel_loan *loan)
{
	struct kernel_region *region;
	bool draining = false;
	int rc;

	HASH_FIND(hh, lender->regions, &loan->terms.region, sizeof(loan->terms.region), region);
	if (region && region->claim.backing == OTTE_BACKING_PAGES) {
		rc = otte_module_loan_revoke(lender->fd, loan->id, &draining);
		return !rc && draining ? -EINPROGRESS : rc;
	}
	return otte_module_loan_settle(lender->fd, loan->id,
				       OTTE_MODULE_EVIDENCE_BIT(OTTE_EVIDENCE_REVOKED));
}

static int refused_revoke(struct kernel_client *lender, int rc, uint64_t id)
{
	switch (rc) {
	case -EBUSY:
		return refuse_offer(id);
	case -EACCES:
		return otte_fail(-EPERM, "loan %" PRIu64 ": its terms do not accept REVOKED", id);
	case -EINPROGRESS:
		return otte_fail(rc, "loan %" PRIu64 ": is revoked once a copy of it has ended", id);
	default:
		return kernel_refused(lender, rc, "loan", id);
	}
}

int kernel_loan_revoke(struct kernel_client *lender, uint64_t id)
{
	struct kernel_loan *loan = find(lender->lent, id);
	int rc;

	if (!loan)
		return refuse_not_lent(lender, id);
	if (is_remote(loan))
		return otte_fail(-EPERM,
				 "loan %" PRIu64 ": is a remote peer's, invalidate it and settle",
				 id);
	if (!(loan->terms.flags & OTTE_LOAN_REVOCABLE))
		return is_live(lender, id) ?
			       otte_fail(-EPERM, "loan %" PRIu64 ": was not offered as revocable",
					 id) :
			       unknown(id);
	rc = revoke_in_module(lender, loan);
	if (rc)
		return refused_revoke(lender, rc, id);
	mark(lender, &loan->ended);
	kernel_count_settled(kernel_ledger_of(lender), 1);
	kernel_event_pump(lender);
	return 0;
}

/* Who asks for what it has lent itself needs no look for whose an unknown loan is. */
int kernel_loan_take_back(struct kernel_client *lender, uint64_t id, bool revoke)
{
	int rc;

	if (!find(lender->lent, id))
		return unknown(id);
	rc = kernel_loan_withdraw(lender, id);
	return rc == -EBUSY && revoke ? kernel_loan_revoke(lender, id) : rc;
}

/* ---- Fence ----------------------------------------------------------------------------------- */

static bool is_same_peer(const struct otte_borrower *a, const struct otte_borrower *b)
{
	return !a->client && a->epoch == b->epoch &&
	       !memcmp(a->incarnation, b->incarnation, sizeof(a->incarnation));
}

/* What was offered to it cannot be exposed any more: the module sees no difference there. */
static void fence_offers(struct kernel_client *lender, const struct otte_borrower *who)
{
	struct kernel_loan *loan;

	for (loan = lender->lent; loan; loan = loan->hh.next)
		if (is_same_peer(&loan->terms.borrower, who))
			loan->fenced = true; /* no dump shows it */
}

int kernel_fence(struct kernel_client *client, const struct otte_borrower *who)
{
	uint8_t peer[OTTE_MODULE_PEER_LEN];
	int rc;

	if (who->client) {
		rc = otte_module_fence(client->fd, who->client);
	} else {
		peer_encode(who, peer);
		rc = otte_module_fence_peer(client->fd, peer, who->epoch);
	}
	if (rc == -ENOSPC)
		return otte_fail(-EDQUOT,
				 "client %" PRIu64 ": has as many fences as the module keeps",
				 client->id);
	if (rc == -ENOENT)
		return otte_fail(-ESRCH, "client %" PRIu64 ": unknown", who->client);
	if (rc)
		return kernel_refused(client, rc, "client", client->id);
	if (!who->client)
		fence_offers(client, who);
	return 0;
}
