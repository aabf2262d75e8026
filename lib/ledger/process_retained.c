/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the records of what is kept for want of evidence: regions whose owner left, and holds,
 * native objects that their owner could not prove drained. A region's record is part of it, since
 * an owner's death cannot fail. Records are few and looked up by administrators: a list in the
 * order of ids. Caller's lock: the ledger's.
 */
#include "ledger/process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define HOLDS_MAX 65536 /* records of any kind before a hold is refused: a hold may have 0 bytes */

static void enlist(struct process_client *owner, struct process_record *record)
{
	struct process_ledger *ledger = process_ledger_of(owner);

	record->id = ++ledger->next_id;
	record->owner_id = owner->id;
	record->owner_pid = owner->pid;
	record->since_ns = otte_now_ns();
	TAILQ_INSERT_TAIL(&ledger->records, record, link);
	ledger->counters.retained++;
}

/* The end of a record; a hold is freed with it, a region looks after itself. */
void process_record_drop(struct process_ledger *ledger, struct process_record *record)
{
	TAILQ_REMOVE(&ledger->records, record, link);
	ledger->counters.retained--;
	otte_quota_release(&ledger->quota, OTTE_BUDGET_RETAINED_BYTES, record->bytes);
	if (record->kind == OTTE_RETAINED_HOLD)
		free(record);
}

/* Charged without asking: death is not refused. */
void process_record_region(struct process_client *owner, struct process_region *region)
{
	struct process_record *record = &region->record;

	record->kind = OTTE_RETAINED_REGION;
	record->region = region;
	record->bytes = region->claim.length;
	snprintf(record->reason, sizeof(record->reason), "%s left before its loans had evidence",
		 owner->comm);
	otte_quota_force(&process_ledger_of(owner)->quota, OTTE_BUDGET_RETAINED_BYTES,
			 record->bytes);
	enlist(owner, record);
}

int process_hold(struct process_client *client, uint64_t bytes, const char *reason, uint64_t *id)
{
	struct process_ledger *ledger = process_ledger_of(client);
	struct process_record *record;
	int rc;

	if (!reason)
		return otte_fail(-EINVAL, "hold: no reason");
	if (ledger->counters.retained >= HOLDS_MAX)
		return otte_fail(-EDQUOT, "retained records: %" PRIu64 " of %d charged",
				 ledger->counters.retained, HOLDS_MAX);
	record = calloc(1, sizeof(*record));
	if (!record)
		return otte_fail(-ENOMEM, "no memory for a hold");
	rc = otte_quota_charge(&ledger->quota, OTTE_BUDGET_RETAINED_BYTES, bytes);
	if (rc) {
		free(record);
		return rc;
	}
	record->kind = OTTE_RETAINED_HOLD;
	record->bytes = bytes;
	snprintf(record->reason, sizeof(record->reason), "%s", reason);
	enlist(client, record);
	*id = record->id;
	return 0;
}

static struct process_record *find(struct process_ledger *ledger, uint64_t id)
{
	struct process_record *record;

	TAILQ_FOREACH(record, &ledger->records, link)
		if (record->id == id)
			return record;
	return NULL;
}

int process_hold_drop(struct process_client *client, uint64_t id)
{
	struct process_ledger *ledger = process_ledger_of(client);
	struct process_record *record = find(ledger, id);

	if (!record || record->kind != OTTE_RETAINED_HOLD)
		return otte_fail(-ENOENT, "hold %" PRIu64 ": unknown", id);
	if (record->owner_id != client->id)
		return otte_fail(-EPERM, "hold %" PRIu64 ": another client's", id);
	process_record_drop(ledger, record);
	return 0;
}

int process_release(struct process_ledger *ledger, uint64_t id)
{
	struct process_record *record = find(ledger, id);

	if (!record)
		return otte_fail(-ENOENT, "retained %" PRIu64 ": unknown", id);
	if (record->region)
		process_loan_force_all(ledger, record->region); /* its last loan ends the record */
	else
		process_record_drop(ledger, record);
	return 0;
}

void process_record_describe(const struct process_record *record, struct otte_retained_info *info)
{
	*info = (struct otte_retained_info){
		.id = record->id,
		.kind = record->kind,
		.loans = record->region ? record->region->loan_count : 0,
		.bytes = record->bytes,
		.owner = record->owner_id,
		.owner_pid = record->owner_pid,
		.since_ns = record->since_ns,
	};
	memcpy(info->reason, record->reason, sizeof(info->reason));
}
