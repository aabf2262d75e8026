/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns regions: REGISTERED -> HIDDEN -> GONE, or -> RETAINED -> GONE when the owner leaves first. A
 * region keeps its charge until it is gone, and its place in `limits.regions` until its event was
 * read as well. Caller's lock: the ledger's. Called by the ops, by clients that leave, by loans
 * that end and by events that were read.
 */
#include "ledger/process.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "ledger/terms.h"

static void move(struct process_region *region, enum process_region_state to)
{
	static const unsigned from[] = {
		[REGION_REGISTERED] = 0,
		[REGION_HIDDEN] = 1u << REGION_REGISTERED,
		[REGION_RETAINED] = 1u << REGION_REGISTERED | 1u << REGION_HIDDEN,
		[REGION_GONE] = 1u << REGION_REGISTERED | 1u << REGION_HIDDEN |
				1u << REGION_RETAINED,
	};

	assert(from[to] & 1u << region->state);
	region->state = to;
}

/* ---- Birth ----------------------------------------------------------------------------------- */

static int check_claim(const struct otte_region_claim *claim)
{
	int rc = otte_claim_check(claim);

	if (rc)
		return rc;
	if (claim->backing != OTTE_BACKING_NONE)
		return otte_fail(-EOPNOTSUPP,
				 "region: OTTE_REGION_PINNED or local.pinned needs the module's "
				 "ledger (ledger = kernel), this is the process ledger, which has "
				 "no backing of its own");
	return 0;
}

static int charge(struct process_ledger *ledger, uint64_t length)
{
	int rc;

	rc = otte_quota_charge(&ledger->quota, OTTE_BUDGET_REGIONS, 1);
	if (rc)
		return rc;
	rc = otte_quota_charge(&ledger->quota, OTTE_BUDGET_REGISTERED_BYTES, length);
	if (rc)
		otte_quota_release(&ledger->quota, OTTE_BUDGET_REGIONS, 1);
	return rc;
}

static void publish(struct process_client *owner, struct process_region *region)
{
	struct process_ledger *ledger = process_ledger_of(owner);

	region->owner = owner;
	TAILQ_INSERT_TAIL(&owner->regions, region, in_owner);
	ledger->counters.regions++;
}

int process_region_add(struct process_client *client, const struct otte_region_claim *claim,
		       uint64_t *id)
{
	struct process_ledger *ledger = process_ledger_of(client);
	struct process_region *region;
	int rc;

	rc = check_claim(claim);
	if (rc)
		return rc;
	rc = charge(ledger, claim->length);
	if (rc)
		return rc;
	region = calloc(1, sizeof(*region));
	if (!region)
		goto uncharge;
	region->id = ledger->next_id + 1;
	region->claim = *claim;
	region->gone.region = region;
	TAILQ_INIT(&region->loans);
	HASH_ADD(hh, ledger->regions, id, sizeof(region->id), region);
	if (!region->hh.tbl)
		goto free_region;
	ledger->next_id++;
	publish(client, region);
	*id = region->id;
	return 0;

free_region:
	free(region);
uncharge:
	otte_quota_release(&ledger->quota, OTTE_BUDGET_REGISTERED_BYTES, claim->length);
	otte_quota_release(&ledger->quota, OTTE_BUDGET_REGIONS, 1);
	return otte_fail(-ENOMEM, "no memory for a region");
}

/* ---- Look-up --------------------------------------------------------------------------------- */

static int find_own(struct process_client *client, uint64_t id, struct process_region **region)
{
	struct process_ledger *ledger = process_ledger_of(client);

	HASH_FIND(hh, ledger->regions, &id, sizeof(id), *region);
	if (!*region) {
		otte_fail(-ENOENT, "region %" PRIu64 ": unknown", id);
		return -ENOENT; /* spelt out, so that analysers see that it is not 0 */
	}
	if ((*region)->owner != client)
		return otte_fail(-EPERM, "region %" PRIu64 ": another client's", id);
	return 0;
}

int process_region_find(struct process_client *client, uint64_t id, struct process_region **region)
{
	int rc = find_own(client, id, region);

	if (rc)
		return rc;
	if ((*region)->state != REGION_REGISTERED)
		return otte_fail(-ENOENT, "region %" PRIu64 ": unregistered", id);
	return 0;
}

/* Nobody tells this process what becomes of its mappings. */
int process_region_watch(struct process_client *client, uint64_t id,
			 struct otte_region_watch *watch)
{
	static const _Atomic uint64_t never;
	struct process_region *region;
	int rc = process_region_find(client, id, &region);

	if (rc)
		return rc;
	*watch = (struct otte_region_watch){ .word = &never };
	return 0;
}

/* ---- End ------------------------------------------------------------------------------------- */

static void free_unless_queued(struct process_ledger *ledger, struct process_region *region)
{
	if (region->gone.reader)
		return;
	otte_quota_release(&ledger->quota, OTTE_BUDGET_REGIONS, 1);
	free(region);
}

/* Nothing of it is in use: gives back what it charged. `reader` is told, if there is one. */
static void finish(struct process_ledger *ledger, struct process_region *region,
		   struct process_client *reader)
{
	move(region, REGION_GONE);
	HASH_DEL(ledger->regions, region);
	if (region->owner)
		TAILQ_REMOVE(&region->owner->regions, region, in_owner);
	region->owner = NULL;
	ledger->counters.regions--;
	otte_quota_release(&ledger->quota, OTTE_BUDGET_REGISTERED_BYTES, region->claim.length);
	process_event_raise(&region->gone, reader, OTTE_EVENT_REGION_GONE, OTTE_EVIDENCE_NONE);
	free_unless_queued(ledger, region);
}

void process_region_event_read(struct process_ledger *ledger, struct process_region *region)
{
	free_unless_queued(ledger, region);
}

int process_region_del(struct process_client *client, uint64_t id)
{
	struct process_ledger *ledger = process_ledger_of(client);
	struct process_region *region;
	int rc;

	rc = find_own(client, id, &region);
	if (rc)
		return rc;
	if (region->state == REGION_HIDDEN)
		return otte_fail(-EALREADY,
				 "region %" PRIu64 ": already waits for %" PRIu32
				 " loans without evidence",
				 id, region->loan_count);
	process_loan_withdraw_all(ledger, region);
	if (!region->loan_count) {
		finish(ledger, region, NULL);
		return 0;
	}
	move(region, REGION_HIDDEN);
	return otte_fail(-EINPROGRESS, "region %" PRIu64 ": %" PRIu32 " loans without evidence", id,
			 region->loan_count);
}

void process_region_loan_over(struct process_ledger *ledger, struct process_region *region)
{
	if (region->loan_count)
		return;
	if (region->state == REGION_RETAINED)
		process_record_drop(ledger, &region->record);
	if (region->state != REGION_REGISTERED)
		finish(ledger, region, region->owner);
}

/* Its owner leaves. */
void process_region_orphan(struct process_client *owner, struct process_region *region)
{
	struct process_ledger *ledger = process_ledger_of(owner);
	struct process_loan *loan;

	process_loan_withdraw_all(ledger, region);
	if (!region->loan_count) {
		finish(ledger, region, NULL);
		return;
	}
	move(region, REGION_RETAINED);
	TAILQ_REMOVE(&owner->regions, region, in_owner);
	region->owner = NULL;
	process_record_region(owner, region);
	TAILQ_FOREACH(loan, &region->loans, in_region)
		process_loan_lender_left(loan);
}
