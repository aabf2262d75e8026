// SPDX-License-Identifier: GPL-2.0-only
/*
 * The retained list: everything whose end lacks evidence.
 *
 *	region	its owner is gone while loans of it are exposed
 *	loan	its borrower is gone and left no evidence that the lender accepts
 *	hold	declared by its owner
 *
 * A record is embedded in its object, so listing it needs no memory and cannot fail; while listed
 * its bytes are charged to the owner as retained. It leaves the list when evidence arrives, when
 * its owner drops it, or when an administrator releases it: that is queued here, revokes and drains
 * first, and is logged with who asked. Nothing leaves by the passing of time.
 *
 * The ledger protects the list.
 */
#include <linux/ktime.h>
#include <linux/printk.h>

#include "client.h"
#include "event.h"
#include "hold.h"
#include "ledger.h"
#include "loan.h"
#include "netlink.h"
#include "quota.h"
#include "region.h"
#include "retained.h"
#include "sysfs.h"

static struct rb_root records = RB_ROOT;

static struct otte_region *record_region(struct otte_retained *record)
{
	return container_of(record, struct otte_region, retained);
}

static struct otte_loan *record_loan(struct otte_retained *record)
{
	return container_of(record, struct otte_loan, retained);
}

static struct otte_hold_record *record_hold(struct otte_retained *record)
{
	return container_of(record, struct otte_hold_record, retained);
}

static void record_get(struct otte_retained *record)
{
	switch (record->kind) {
	case OTTE_RETAINED_REGION:
		otte_region_get(record_region(record));
		break;
	case OTTE_RETAINED_LOAN:
		otte_loan_get(record_loan(record));
		break;
	case OTTE_RETAINED_HOLD:
		otte_hold_get(record_hold(record));
		break;
	}
}

static void record_put(struct otte_retained *record)
{
	switch (record->kind) {
	case OTTE_RETAINED_REGION:
		otte_region_put(record_region(record));
		break;
	case OTTE_RETAINED_LOAN:
		otte_loan_put(record_loan(record));
		break;
	case OTTE_RETAINED_HOLD:
		otte_hold_put(record_hold(record));
		break;
	}
}

static void charge_of(const struct otte_retained *record, struct otte_charge *charge)
{
	*charge = (struct otte_charge){ .amount[OTTE_RES_RETAINED_BYTES] = record->bytes };
}

struct otte_retained *otte_retained_find(u64 id)
{
	struct rb_node *rb = records.rb_node;
	struct otte_retained *record;

	otte_ledger_assert_held();
	while (rb) {
		record = rb_entry(rb, struct otte_retained, rb);
		if (record->id == id)
			return record;
		rb = id < record->id ? rb->rb_left : rb->rb_right;
	}
	return NULL;
}

struct otte_retained *otte_retained_next(u64 id)
{
	struct rb_node *rb = records.rb_node;
	struct otte_retained *record, *best = NULL;

	otte_ledger_assert_held();
	while (rb) {
		record = rb_entry(rb, struct otte_retained, rb);
		if (record->id > id) {
			best = record;
			rb = rb->rb_left;
		} else {
			rb = rb->rb_right;
		}
	}
	return best;
}

void otte_retained_add(struct otte_retained *record)
{
	struct rb_node **rb = &records.rb_node, *parent = NULL;
	struct otte_charge charge;

	otte_ledger_assert_held();
	if (WARN_ON_ONCE(record->listed))
		return;
	while (*rb) {
		parent = *rb;
		rb = record->id < rb_entry(parent, struct otte_retained, rb)->id ?
			     &parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&record->rb, parent, rb);
	rb_insert_color(&record->rb, &records);
	record->listed = true;
	record->since_ns = ktime_get_boottime_ns();
	charge_of(record, &charge);
	otte_quota_charge_forced(record->owner->payer, &charge);
	otte_ledger_changed();
	otte_sysfs_retained_add(record);
	otte_netlink_event(OTTE_NOTICE_RETAINED, record->id, NULL);
}

void otte_retained_del(struct otte_retained *record)
{
	struct otte_charge charge;

	otte_ledger_assert_held();
	if (!record->listed)
		return;
	otte_sysfs_retained_del(record);
	rb_erase(&record->rb, &records);
	record->listed = false;
	charge_of(record, &charge);
	otte_quota_uncharge(record->owner->payer, &charge);
	otte_ledger_changed();
	otte_netlink_event(OTTE_NOTICE_RELEASED, record->id, NULL);
}

/*
 * Ends every exposed loan of a region. The list is walked anew each time, the ledger being dropped
 * for the revocation; a loan that still drains is marked and passed over.
 */
static void force_region(struct otte_region *region)
{
	struct otte_loan *loan;
	bool draining;

	for (;;) {
		otte_ledger_lock();
		list_for_each_entry(loan, &region->loans, region_link) {
			if (loan->state == OTTE_LOAN_EXPOSED &&
			    loan->ending != OTTE_EVIDENCE_FORCED)
				break;
		}
		if (list_entry_is_head(loan, &region->loans, region_link)) {
			otte_ledger_unlock();
			return;
		}
		otte_loan_get(loan);
		otte_ledger_unlock();
		otte_loan_revoke(loan, OTTE_EVIDENCE_FORCED, &draining);
		otte_loan_put(loan);
		otte_ledger_give_way();
	}
}

static void force_hold(struct otte_hold_record *hold)
{
	otte_ledger_lock();
	if (hold->retained.listed) {
		otte_event_post(hold->owner, &hold->event, OTTE_EVENT_HOLD_RELEASED);
		otte_hold_end(hold);
	}
	otte_ledger_unlock();
}

static void release_work(struct work_struct *work)
{
	struct otte_retained *record = container_of(work, struct otte_retained, release);
	bool draining;

	pr_notice("retained %llu (%llu bytes) released by uid %u\n", record->id, record->bytes,
		  from_kuid(&init_user_ns, record->released_by));
	switch (record->kind) {
	case OTTE_RETAINED_REGION:
		force_region(record_region(record));
		break;
	case OTTE_RETAINED_LOAN:
		otte_loan_revoke(record_loan(record), OTTE_EVIDENCE_FORCED, &draining);
		break;
	case OTTE_RETAINED_HOLD:
		force_hold(record_hold(record));
		break;
	}
	record_put(record);
}

void otte_retained_init(struct otte_retained *record, enum otte_retained_kind kind)
{
	RB_CLEAR_NODE(&record->rb);
	record->kind = kind;
	INIT_WORK(&record->release, release_work);
}

int otte_retained_release(u64 id, kuid_t by)
{
	struct otte_retained *record;
	int err = -ENOENT;

	otte_ledger_lock();
	record = otte_retained_find(id);
	if (record) {
		err = -EBUSY;
		if (record->kind != OTTE_RETAINED_HOLD ||
		    record->owner->state == OTTE_CLIENT_GONE) {
			err = 0;
			record_get(record);
			if (!work_pending(&record->release))
				record->released_by = by;
			if (!queue_work(otte_wq, &record->release))
				record_put(record);
		}
	}
	otte_ledger_unlock();
	return err;
}
