/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns loans: OFFERED -> EXPOSED -> SETTLED, OFFERED -> WITHDRAWN. Live ones (OFFERED, EXPOSED)
 * stand in their region's list, their borrower's list and a tree by address. One that is over gives
 * back lent bytes at once, and its place in `limits.loans` when its last event was read. Caller's
 * lock: the ledger's. Called by the ops, by regions and clients that go, and by events that were
 * read.
 */
#include "ledger/process.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/util.h"
#include "ledger/terms.h"

#define BIT(e) OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_##e)

/* Who ended it: the others are told. */
enum party {
	BY_LENDER,
	BY_BORROWER,
	BY_ADMINISTRATOR,
};

static bool is_remote(const struct process_loan *loan)
{
	return !loan->terms.borrower.client;
}

static bool is_live(const struct process_loan *loan)
{
	return loan->state == OTTE_LOAN_OFFERED || loan->state == OTTE_LOAN_EXPOSED;
}

static void move(struct process_loan *loan, enum otte_loan_state to)
{
	static const unsigned from[] = {
		[OTTE_LOAN_OFFERED] = 0,
		[OTTE_LOAN_EXPOSED] = 1u << OTTE_LOAN_OFFERED,
		[OTTE_LOAN_SETTLED] = 1u << OTTE_LOAN_EXPOSED,
		[OTTE_LOAN_WITHDRAWN] = 1u << OTTE_LOAN_OFFERED,
	};

	assert(from[to] & 1u << loan->state);
	loan->state = to;
}

/* ---- Offer ----------------------------------------------------------------------------------- */

static enum process_tree tree_of(const struct otte_loan_terms *terms)
{
	if (terms->flags & OTTE_LOAN_STANDING)
		return terms->right == OTTE_LOAN_WRITE ? TREE_STANDING_WRITE : TREE_STANDING_READ;
	return terms->right == OTTE_LOAN_WRITE ? TREE_WRITE : TREE_READ;
}

static int check_conflict(const struct process_ledger *ledger, const struct otte_inode *range,
			  enum process_tree kind)
{
	/* Readers share; a writer excludes; standing loans exclude nothing among each other. */
	static const unsigned excluded[] = {
		[TREE_READ] = 1u << TREE_WRITE | 1u << TREE_STANDING_WRITE,
		[TREE_WRITE] = 1u << TREE_READ | 1u << TREE_WRITE | 1u << TREE_STANDING_READ |
			       1u << TREE_STANDING_WRITE,
		[TREE_STANDING_READ] = 1u << TREE_WRITE,
		[TREE_STANDING_WRITE] = 1u << TREE_READ | 1u << TREE_WRITE,
	};
	const struct otte_inode *hit;
	unsigned i;

	for (i = 0; i < TREES; i++) {
		if (!(excluded[kind] & 1u << i))
			continue;
		hit = otte_itree_find(&ledger->trees[i], range->start, range->end, NULL, NULL);
		if (hit)
			return otte_fail(-EBUSY, "loan %" PRIu64 " of the same bytes is live",
					 container_of(hit, struct process_loan, range)->id);
	}
	return 0;
}

static int find_borrower(const struct process_client *lender, const struct otte_borrower *who,
			 struct process_client **borrower)
{
	const struct process_ledger *ledger = process_ledger_of(lender);

	*borrower = NULL;
	if (!who->client)
		return 0;
	HASH_FIND(hh, ledger->clients, &who->client, sizeof(who->client), *borrower);
	if (!*borrower)
		return otte_fail(-ESRCH, "client %" PRIu64 ": unknown", who->client);
	if ((*borrower)->no_offers && *borrower != lender)
		return otte_fail(-EACCES, "client %" PRIu64 ": takes no offers of this lender",
				 who->client);
	return 0;
}

static int charge(struct process_ledger *ledger, uint64_t length)
{
	int rc;

	/* A dead owner may have passed this limit: nothing more is lent until it is below again. */
	rc = otte_quota_check(&ledger->quota, OTTE_BUDGET_RETAINED_BYTES);
	if (rc)
		return rc;
	rc = otte_quota_charge(&ledger->quota, OTTE_BUDGET_LOANS, 1);
	if (rc)
		return rc;
	rc = otte_quota_charge(&ledger->quota, OTTE_BUDGET_LENT_BYTES, length);
	if (rc)
		otte_quota_release(&ledger->quota, OTTE_BUDGET_LOANS, 1);
	return rc;
}

static struct process_loan *make(const struct process_ledger *ledger,
				 const struct otte_loan_terms *terms,
				 const struct otte_inode *range)
{
	struct process_loan *loan = calloc(1, sizeof(*loan));
	unsigned i;

	if (!loan)
		return NULL;
	loan->id = ledger->next_id + 1;
	loan->terms = *terms;
	if (!loan->terms.accepted)
		loan->terms.accepted = OTTE_EVIDENCE_DEFAULT;
	loan->range = *range;
	for (i = 0; i < LOAN_EVENTS; i++)
		loan->events[i].loan = loan;
	return loan;
}

static void publish(struct process_loan *loan, struct process_region *region,
		    struct process_client *borrower)
{
	struct process_ledger *ledger = process_ledger_of(region->owner);

	ledger->next_id++;
	loan->lender = region->owner;
	loan->lender_id = region->owner->id;
	loan->region = region;
	TAILQ_INSERT_TAIL(&region->loans, loan, in_region);
	region->loan_count++;
	loan->borrower = borrower;
	if (borrower)
		TAILQ_INSERT_TAIL(&borrower->borrowed, loan, in_borrower);
	otte_itree_insert(&ledger->trees[tree_of(&loan->terms)], &loan->range);
	ledger->counters.loans++;
	process_event_raise(&loan->events[LOAN_EVENT_OFFERED], borrower, OTTE_EVENT_OFFERED,
			    OTTE_EVIDENCE_NONE);
}

static int admit(struct process_client *lender, const struct otte_loan_terms *terms,
		 struct process_region **region, struct process_client **borrower,
		 struct otte_inode *range)
{
	struct process_ledger *ledger = process_ledger_of(lender);
	int rc;

	rc = otte_terms_check(terms);
	if (rc)
		return rc;
	rc = process_region_find(lender, terms->region, region);
	if (rc)
		return rc;
	rc = otte_terms_check_region(terms, &(*region)->claim);
	if (rc)
		return rc;
	rc = find_borrower(lender, &terms->borrower, borrower);
	if (rc)
		return rc;
	rc = process_fence_check(lender, &terms->borrower);
	if (rc)
		return rc;
	range->start = (*region)->claim.address + terms->offset;
	range->end = range->start + terms->length;
	return check_conflict(ledger, range, tree_of(terms));
}

int process_loan_offer(struct process_client *lender, const struct otte_loan_terms *terms,
		       uint64_t *id)
{
	struct process_ledger *ledger = process_ledger_of(lender);
	struct process_client *borrower;
	struct process_region *region;
	struct otte_inode range = { 0 };
	struct process_loan *loan;
	int rc;

	rc = admit(lender, terms, &region, &borrower, &range);
	if (rc)
		return rc;
	rc = charge(ledger, terms->length);
	if (rc)
		return rc;
	loan = make(ledger, terms, &range);
	if (!loan)
		goto uncharge;
	HASH_ADD(hh, ledger->loans, id, sizeof(loan->id), loan);
	if (!loan->hh.tbl)
		goto free_loan;
	publish(loan, region, borrower);
	*id = loan->id;
	return 0;

free_loan:
	free(loan);
uncharge:
	otte_quota_release(&ledger->quota, OTTE_BUDGET_LENT_BYTES, terms->length);
	otte_quota_release(&ledger->quota, OTTE_BUDGET_LOANS, 1);
	return otte_fail(-ENOMEM, "no memory for a loan");
}

/* ---- End ------------------------------------------------------------------------------------- */

void process_loan_event_read(struct process_ledger *ledger, struct process_loan *loan)
{
	unsigned i;

	if (is_live(loan))
		return;
	for (i = 0; i < LOAN_EVENTS; i++)
		if (loan->events[i].reader)
			return;
	HASH_DEL(ledger->loans, loan);
	otte_quota_release(&ledger->quota, OTTE_BUDGET_LOANS, 1);
	free(loan);
}

static void tell_end(struct process_loan *loan, enum party by)
{
	bool settled = loan->state == OTTE_LOAN_SETTLED;

	if (by != BY_BORROWER)
		process_event_raise(&loan->events[LOAN_EVENT_ENDED], loan->borrower,
				    settled ? OTTE_EVENT_REVOKED : OTTE_EVENT_WITHDRAWN,
				    loan->evidence);
	if (by != BY_LENDER)
		process_event_raise(&loan->events[LOAN_EVENT_LENDER], loan->lender,
				    settled ? OTTE_EVENT_SETTLED : OTTE_EVENT_WITHDRAWN,
				    loan->evidence);
}

static void unlink_live(struct process_ledger *ledger, struct process_loan *loan)
{
	TAILQ_REMOVE(&loan->region->loans, loan, in_region);
	loan->region->loan_count--;
	if (loan->borrower)
		TAILQ_REMOVE(&loan->borrower->borrowed, loan, in_borrower);
	otte_itree_remove(&ledger->trees[tree_of(&loan->terms)], &loan->range);
	loan->region = NULL;
	loan->borrower = loan->lender = NULL;
}

/* Ends a live loan, and with it perhaps its region; tells who did not do it. May free the loan. */
static void end(struct process_ledger *ledger, struct process_loan *loan, enum otte_loan_state to,
		enum otte_evidence evidence, enum party by)
{
	struct process_region *region = loan->region;

	move(loan, to);
	loan->evidence = evidence;
	ledger->counters.loans--;
	ledger->counters.loans_settled += to == OTTE_LOAN_SETTLED;
	otte_quota_release(&ledger->quota, OTTE_BUDGET_LENT_BYTES, loan->terms.length);
	tell_end(loan, by);
	unlink_live(ledger, loan);
	process_loan_event_read(ledger, loan); /* perhaps there is none to read */
	process_region_loan_over(ledger, region);
}

static void withdraw(struct process_ledger *ledger, struct process_loan *loan, enum party by)
{
	end(ledger, loan, OTTE_LOAN_WITHDRAWN, OTTE_EVIDENCE_NONE, by);
}

/* ---- Ops on one loan ------------------------------------------------------------------------- */

static int find_live(struct process_ledger *ledger, uint64_t id, struct process_loan **loan)
{
	HASH_FIND(hh, ledger->loans, &id, sizeof(id), *loan);
	if (*loan && is_live(*loan))
		return 0;
	otte_fail(-ENOENT, "loan %" PRIu64 ": unknown", id);
	return -ENOENT; /* spelt out, so that analysers see that it is not 0 */
}

static int find_lent(struct process_client *lender, uint64_t id, struct process_loan **loan)
{
	int rc = find_live(process_ledger_of(lender), id, loan);

	if (rc)
		return rc;
	return (*loan)->lender == lender ? 0 : otte_fail(-EPERM, "loan %" PRIu64 ": another's", id);
}

/* An offer always has its lender: one who leaves withdraws it first. */
static int expose(struct process_loan *loan)
{
	int rc;

	if (loan->state == OTTE_LOAN_EXPOSED)
		return otte_fail(-EALREADY, "loan %" PRIu64 ": is exposed already", loan->id);
	rc = process_fence_check(loan->lender, &loan->terms.borrower);
	if (rc)
		return rc;
	move(loan, OTTE_LOAN_EXPOSED);
	return 0;
}

int process_loan_accept(struct process_client *borrower, uint64_t id)
{
	struct process_loan *loan;
	int rc;

	rc = find_live(process_ledger_of(borrower), id, &loan);
	if (rc)
		return rc;
	if (loan->borrower != borrower)
		return otte_fail(-EPERM, "loan %" PRIu64 ": is not offered to client %" PRIu64, id,
				 borrower->id);
	return expose(loan);
}

int process_loan_expose(struct process_client *lender, uint64_t id)
{
	struct process_loan *loan;
	int rc;

	rc = find_lent(lender, id, &loan);
	if (rc)
		return rc;
	if (!is_remote(loan))
		return otte_fail(-EPERM, "loan %" PRIu64 ": a local borrower accepts by itself",
				 id);
	return expose(loan);
}

static int refuse_offer(const struct process_loan *loan)
{
	return otte_fail(-EINVAL, "loan %" PRIu64 ": is only offered, withdraw it", loan->id);
}

int process_loan_settle(struct process_client *client, uint64_t id, enum otte_evidence evidence)
{
	struct process_ledger *ledger = process_ledger_of(client);
	struct process_loan *loan;
	int rc;

	rc = find_live(ledger, id, &loan);
	if (rc)
		return rc;
	if (loan->lender != client && loan->borrower != client)
		return otte_fail(-EPERM, "loan %" PRIu64 ": another's", id);
	if (loan->state == OTTE_LOAN_OFFERED)
		return refuse_offer(loan);
	rc = otte_terms_check_attestation(&loan->terms, id, loan->lender == client,
					  loan->borrower == client, evidence);
	if (rc)
		return rc;
	rc = otte_terms_check_accepted(&loan->terms, id, evidence);
	if (rc)
		return rc;
	end(ledger, loan, OTTE_LOAN_SETTLED, evidence, is_remote(loan) ? BY_LENDER : BY_BORROWER);
	return 0;
}

int process_loan_withdraw(struct process_client *lender, uint64_t id)
{
	struct process_loan *loan;
	int rc;

	rc = find_lent(lender, id, &loan);
	if (rc)
		return rc;
	if (loan->state == OTTE_LOAN_EXPOSED)
		return otte_fail(-EBUSY, "loan %" PRIu64 ": is exposed, only evidence ends it", id);
	withdraw(process_ledger_of(lender), loan, BY_LENDER);
	return 0;
}

int process_loan_revoke(struct process_client *lender, uint64_t id)
{
	struct process_loan *loan;
	int rc;

	rc = find_lent(lender, id, &loan);
	if (rc)
		return rc;
	if (is_remote(loan))
		return otte_fail(-EPERM,
				 "loan %" PRIu64 ": is a remote peer's, invalidate it and settle",
				 id);
	if (!(loan->terms.flags & OTTE_LOAN_REVOCABLE))
		return otte_fail(-EPERM, "loan %" PRIu64 ": was not offered as revocable", id);
	if (loan->state == OTTE_LOAN_OFFERED)
		return refuse_offer(loan);
	rc = otte_terms_check_accepted(&loan->terms, id, OTTE_EVIDENCE_REVOKED);
	if (rc)
		return rc;
	end(process_ledger_of(lender), loan, OTTE_LOAN_SETTLED, OTTE_EVIDENCE_REVOKED, BY_LENDER);
	return 0;
}

int process_loan_take_back(struct process_client *lender, uint64_t id, bool revoke)
{
	struct process_loan *loan;
	int rc;

	rc = find_live(process_ledger_of(lender), id, &loan);
	if (rc)
		return rc;
	if (loan->lender != lender)
		return otte_fail(-ENOENT, "loan %" PRIu64 ": unknown", id);
	rc = process_loan_withdraw(lender, id);
	return rc == -EBUSY && revoke ? process_loan_revoke(lender, id) : rc;
}

/* ---- When others go -------------------------------------------------------------------------- */

/* The region must not finish under its caller: that is for its exposed loans to do, or for it. */
void process_loan_withdraw_all(struct process_ledger *ledger, struct process_region *region)
{
	struct process_loan *loan, *next;

	assert(region->state == REGION_REGISTERED || region->state == REGION_HIDDEN);
	for (loan = TAILQ_FIRST(&region->loans); loan; loan = next) {
		next = TAILQ_NEXT(loan, in_region);
		if (loan->state == OTTE_LOAN_OFFERED)
			withdraw(ledger, loan, BY_LENDER);
	}
}

/* The last one takes the region with it. */
void process_loan_force_all(struct process_ledger *ledger, struct process_region *region)
{
	uint32_t left;

	for (left = region->loan_count; left; left--)
		end(ledger, TAILQ_FIRST(&region->loans), OTTE_LOAN_SETTLED, OTTE_EVIDENCE_FORCED,
		    BY_ADMINISTRATOR);
}

void process_loan_lender_left(struct process_loan *loan)
{
	loan->lender = NULL;
	process_event_raise(&loan->events[LOAN_EVENT_OWNER_GONE], loan->borrower,
			    OTTE_EVENT_OWNER_GONE, OTTE_EVIDENCE_NONE);
}

/*
 * Offers can never be accepted now. Exposed ones lack evidence, unless its death is accepted as
 * such.
 */
void process_loan_borrower_left(struct process_client *borrower)
{
	struct process_ledger *ledger = process_ledger_of(borrower);
	struct process_loan *loan;

	while ((loan = TAILQ_FIRST(&borrower->borrowed))) {
		if (loan->state == OTTE_LOAN_OFFERED) {
			withdraw(ledger, loan, BY_BORROWER);
		} else if (loan->terms.accepted & BIT(BORROWER_EXITED)) {
			end(ledger, loan, OTTE_LOAN_SETTLED, OTTE_EVIDENCE_BORROWER_EXITED,
			    BY_BORROWER);
		} else {
			TAILQ_REMOVE(&borrower->borrowed, loan, in_borrower);
			loan->borrower = NULL;
		}
	}
}

void process_loan_describe(const struct process_loan *loan, struct otte_loan_info *info)
{
	*info = (struct otte_loan_info){
		.id = loan->id,
		.lender = loan->lender_id,
		.state = loan->state,
		.evidence = loan->evidence,
		.terms = loan->terms,
	};
}
