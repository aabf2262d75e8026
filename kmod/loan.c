// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loans: the use of a range of a region, in one direction, by one borrower.
 *
 * The states are in loan_state.c; they are moved by loan_move() alone, under the ledger. Who moves:
 *
 *	lender		offers, withdraws, exposes to remote peers and settles those, revokes
 *	borrower	accepts, declines, settles with its receipt
 *	client work	a side is gone: voids offers, settles or retains what was exposed
 *	loan->work	the last mapping or copy has left a shut gate
 *	administrator	through retained.c
 *
 * OFFERED and EXPOSED loans occupy their range in the region. A loan that has ended stays in the
 * registry, and its record charged, until both sides have read what they were told about it; then
 * otte_loan_try_forget() lets it go.
 */
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "client.h"
#include "event.h"
#include "fence.h"
#include "gate.h"
#include "ledger.h"
#include "loan.h"
#include "map.h"
#include "quota.h"
#include "range.h"
#include "region.h"
#include "retained.h"
#include "trace.h"

#define OFFERS_PER_BORROWER	4096	/* unanswered, of all lenders */
#define OFFERS_PER_TENANT	256	/* of one user in one cgroup, to one borrower */

#define EVIDENCE_ALL	(OTTE_EVIDENCE_NEVER_EXPOSED | OTTE_EVIDENCE_RETURNED | \
			 OTTE_EVIDENCE_UNMAPPED | OTTE_EVIDENCE_REVOKED | \
			 OTTE_EVIDENCE_BORROWER_EXITED | OTTE_EVIDENCE_FORCED)

DEFINE_XARRAY(otte_loans);

/* ---- references ---- */

static void loan_free(struct kref *ref)
{
	struct otte_loan *loan = container_of(ref, struct otte_loan, ref);
	bool published = loan->region;

	if (published)
		otte_region_put(loan->region);
	/* Its place in the registry, where it was never published. */
	xa_release(&otte_loans, loan->id);
	if (loan->borrower)
		otte_client_put(loan->borrower);
	otte_client_put(loan->lender);
	if (published)
		kfree_rcu(loan, rcu);
	else
		kfree(loan);
}

void otte_loan_get(struct otte_loan *loan)
{
	kref_get(&loan->ref);
}

void otte_loan_put(struct otte_loan *loan)
{
	kref_put(&loan->ref, loan_free);
}

struct otte_loan *otte_loan_get_borrowed(struct otte_client *borrower, u64 id)
{
	struct otte_loan *loan;

	rcu_read_lock();
	loan = xa_load(&otte_loans, id);
	if (loan && (loan->borrower != borrower || !kref_get_unless_zero(&loan->ref)))
		loan = NULL;
	rcu_read_unlock();
	return loan;
}

/* ---- state ---- */

static bool loan_ended(const struct otte_loan *loan)
{
	return loan->state == OTTE_LOAN_SETTLED || loan->state == OTTE_LOAN_WITHDRAWN;
}

static bool loan_move(struct otte_loan *loan, enum otte_loan_state to)
{
	otte_ledger_assert_held();
	if (WARN_ON_ONCE(otte_loan_state_check(loan->state, to)))
		return false;
	WRITE_ONCE(loan->state, to);
	otte_ledger_changed();
	return true;
}

/* Takes an ended loan out of its region and off what it lent; its record stays. */
static void loan_leave_region(struct otte_loan *loan)
{
	const struct otte_charge lent = {
		.amount[OTTE_RES_LENT_BYTES] = loan->charge.amount[OTTE_RES_LENT_BYTES],
	};
	struct otte_region *region = loan->region;

	otte_ledger_assert_held();
	otte_range_remove(&region->ranges, &loan->range);
	list_del_init(&loan->region_link);
	region->loan_count--;
	otte_quota_uncharge(loan->lender->payer, &lent);
	loan->charge.amount[OTTE_RES_LENT_BYTES] = 0;
	otte_region_loan_ended(region);
}

static void loan_leave_offers(struct otte_loan *loan)
{
	if (loan->in_offers) {
		loan->in_offers = false;
		list_del_init(&loan->borrower_link);
		loan->borrower->offer_count--;
	}
}

void otte_loan_try_forget(struct otte_loan *loan)
{
	otte_ledger_assert_held();
	if (!loan_ended(loan) || !loan->listed ||
	    !otte_event_idle(loan->lender, &loan->lender_event) ||
	    (loan->borrower && !otte_event_idle(loan->borrower, &loan->borrower_event)))
		return;
	loan->listed = false;
	loan_leave_offers(loan);
	xa_erase(&otte_loans, loan->id);
	otte_quota_uncharge(loan->lender->payer, &loan->charge);
	otte_ledger_changed();
	/* The registry's reference. */
	otte_loan_put(loan);
}

/* EXPOSED to SETTLED. The gate is shut, and empty but for mappings that were zapped for good. */
static void loan_settle(struct otte_loan *loan, u32 evidence)
{
	otte_ledger_assert_held();
	if (!loan_move(loan, OTTE_LOAN_SETTLED))
		return;
	loan->evidence = evidence;
	trace_otte_loan(loan);
	loan->region->exposed_count--;
	otte_retained_del(&loan->retained);
	list_del_init(&loan->borrower_link);
	otte_map_slot_release(loan->map_slot);
	otte_event_post(loan->lender, &loan->lender_event, OTTE_EVENT_SETTLED);
	/* A client that is gone is watched only while it has loans. Its work looks at all. */
	if (loan->borrower && loan->borrower->state == OTTE_CLIENT_GONE &&
	    list_empty(&loan->borrower->loans))
		otte_client_kick(loan->borrower);
	loan_leave_region(loan);
	otte_loan_try_forget(loan);
}

void otte_loan_void(struct otte_loan *loan, bool tell_lender)
{
	otte_ledger_assert_held();
	if (!loan_move(loan, OTTE_LOAN_WITHDRAWN))
		return;
	loan->evidence = OTTE_EVIDENCE_NEVER_EXPOSED;
	trace_otte_loan(loan);
	/* A borrower that has not read of the offer need not read of its end. */
	if (!otte_event_cancel(loan->borrower, &loan->borrower_event, 1U << OTTE_EVENT_OFFERED) ||
	    loan->offer_read)
		otte_event_post(loan->borrower, &loan->borrower_event, OTTE_EVENT_WITHDRAWN);
	if (tell_lender)
		otte_event_post(loan->lender, &loan->lender_event, OTTE_EVENT_SETTLED);
	loan_leave_region(loan);
	otte_loan_try_forget(loan);
}

/* A loan being revoked or forced ends once no copy is in its gate: its mappings are zapped. */
static bool loan_finish_ending(struct otte_loan *loan)
{
	otte_ledger_assert_held();
	if (loan->state != OTTE_LOAN_EXPOSED || !loan->ending || !loan->zapped ||
	    otte_gate_copying(&loan->gate))
		return false;
	if (loan->borrower)
		otte_event_post(loan->borrower, &loan->borrower_event, OTTE_EVENT_REVOKED);
	loan_settle(loan, loan->ending);
	return true;
}

void otte_loan_borrower_gone(struct otte_loan *loan)
{
	otte_ledger_assert_held();
	if (loan->state != OTTE_LOAN_EXPOSED || loan->ending)
		return;
	otte_gate_close(&loan->gate);
	if (loan->region->backing == OTTE_BACKING_PAGES &&
	    otte_evidence_accepted(loan->accepted, OTTE_EVIDENCE_UNMAPPED)) {
		/* Exact once the last mapping is gone; whoever takes it down wakes us again. */
		if (otte_gate_idle(&loan->gate))
			loan_settle(loan, OTTE_EVIDENCE_UNMAPPED);
		return;
	}
	if (otte_client_exited(loan->borrower) && otte_gate_idle(&loan->gate) &&
	    otte_evidence_accepted(loan->accepted, OTTE_EVIDENCE_BORROWER_EXITED)) {
		loan_settle(loan, OTTE_EVIDENCE_BORROWER_EXITED);
		return;
	}
	if (!loan->retained.listed) {
		otte_retained_add(&loan->retained);
		otte_event_post(loan->lender, &loan->lender_event, OTTE_EVENT_BORROWER_GONE);
	}
}

static void loan_work(struct work_struct *work)
{
	struct otte_loan *loan = container_of(work, struct otte_loan, work);

	otte_ledger_lock();
	if (loan->ending)
		loan_finish_ending(loan);
	else if (loan->borrower->state == OTTE_CLIENT_GONE)
		otte_loan_borrower_gone(loan);
	otte_ledger_unlock();
	otte_loan_put(loan);
}

void otte_loan_drained(struct otte_loan *loan)
{
	otte_loan_get(loan);
	if (!queue_work(otte_wq, &loan->work))
		otte_loan_put(loan);
}

void otte_loan_revoke(struct otte_loan *loan, u32 evidence, bool *draining)
{
	*draining = false;
	otte_ledger_lock();
	if (loan->state != OTTE_LOAN_EXPOSED) {
		otte_ledger_unlock();
		return;
	}
	if (!loan->ending || evidence == OTTE_EVIDENCE_FORCED)
		WRITE_ONCE(loan->ending, evidence); /* read by copies that are let in no more */
	otte_gate_close(&loan->gate);
	otte_ledger_unlock();

	otte_map_zap(loan);

	otte_ledger_lock();
	loan->zapped = true;
	if (loan->state == OTTE_LOAN_EXPOSED)
		*draining = !loan_finish_ending(loan);
	otte_ledger_unlock();
}

/* ---- LOAN_OFFER and LOAN_EXPOSE ---- */

static struct otte_loan *loan_create(struct otte_client *lender, u32 direction, u32 flags,
				     u32 evidence, u64 tag)
{
	struct otte_loan *loan = kzalloc(sizeof(*loan), GFP_KERNEL_ACCOUNT);

	if (!loan)
		return NULL;
	kref_init(&loan->ref);
	otte_client_get(lender);
	loan->lender = lender;
	loan->state = OTTE_LOAN_OFFERED;
	loan->direction = direction;
	loan->flags = flags;
	loan->accepted = evidence;
	loan->tag = tag;
	INIT_LIST_HEAD(&loan->region_link);
	INIT_LIST_HEAD(&loan->borrower_link);
	otte_gate_init(&loan->gate);
	init_rwsem(&loan->map_lock);
	INIT_WORK(&loan->work, loan_work);
	otte_event_node_init(&loan->lender_event, OTTE_SOURCE_LOAN_LENDER);
	otte_event_node_init(&loan->borrower_event, OTTE_SOURCE_LOAN_BORROWER);
	otte_retained_init(&loan->retained, OTTE_RETAINED_LOAN);
	loan->id = otte_id_next();
	loan->retained.id = loan->id;
	loan->retained.owner = lender;
	loan->retained.tag = tag;
	return loan;
}

/*
 * Whether @region can be lent: what is mapped now is what was registered. Of a suspect NONE region
 * nobody can say whether its pages are the same, which matters to all but those who go by address.
 */
static bool region_fresh(struct otte_region *region, u32 flags)
{
	u64 word = otte_region_word(region);

	if ((word & OTTE_STATUS_SUSPECT) && region->backing == OTTE_BACKING_NONE &&
	    !(flags & OTTE_LOAN_BY_ADDRESS))
		return false;
	return !(word & OTTE_STATUS_STALE);
}

/* What can be lent of @region: rights, range, freshness and what its backing allows. */
static int loan_check_region(struct otte_loan *loan, struct otte_region *region, u64 offset,
			     u64 length)
{
	int err;

	if (!region_fresh(region, loan->flags))
		return -ESTALE;
	if (loan->direction & ~region->access)
		return -EACCES;
	err = otte_range_set(&loan->range, offset, length, region->length,
			     loan->direction & OTTE_WRITE);
	if (err)
		return err;
	if (region->backing == OTTE_BACKING_FILE && (offset || length != region->length))
		return -ERANGE;
	loan->range.standing = loan->flags & OTTE_LOAN_STANDING;
	if ((loan->flags & (OTTE_LOAN_REVOCABLE | OTTE_LOAN_MAPPABLE)) &&
	    region->backing != OTTE_BACKING_PAGES)
		return -EACCES;
	if ((loan->flags & OTTE_LOAN_MAPPABLE) &&
	    (!PAGE_ALIGNED(region->page_offset + offset) || !PAGE_ALIGNED(length) ||
	     length > 1ULL << OTTE_MAP_WINDOW_SHIFT))
		return -EACCES;
	return 0;
}

/* Whether @borrower takes one more offer of @lender. Unread withdrawals count as well. */
static int loan_check_borrower(struct otte_client *lender, struct otte_client *borrower)
{
	unsigned int same = 0;
	struct otte_loan *loan;

	otte_ledger_assert_held();
	if (borrower->allowlist_only && borrower != lender &&
	    !xa_load(&borrower->allowed, lender->id))
		return -EACCES;
	if (otte_fence_blocks(lender, borrower))
		return -EKEYREVOKED;
	if (borrower->offer_count >= OFFERS_PER_BORROWER)
		return -ENOSPC;
	list_for_each_entry(loan, &borrower->offers, borrower_link)
		same += otte_client_same_tenant(loan->lender, lender);
	return same < OFFERS_PER_TENANT ? 0 : -ENOSPC;
}

/* Enters a loan that passed all checks into registry and region. */
static int loan_publish(struct otte_loan *loan, struct otte_region *region)
{
	int err;

	otte_ledger_assert_held();
	if (otte_range_conflicts(&region->ranges, &loan->range))
		return -EBUSY;
	/* Before it can be found: LOAN_COPY does not take the ledger. Freeing drops it. */
	otte_region_get(region);
	loan->region = region;
	loan->retained.bytes = otte_loan_length(loan);
	/* Reserved by loan_admit(): needs no memory. */
	err = xa_err(xa_store(&otte_loans, loan->id, loan, 0));
	if (WARN_ON_ONCE(err))
		return err;
	otte_loan_get(loan);
	loan->listed = true;
	otte_range_insert(&region->ranges, &loan->range);
	list_add_tail(&loan->region_link, &region->loans);
	region->loan_count++;
	otte_ledger_changed();
	return 0;
}

/* Charges the lender, and has the loan's place kept; the latter as for regions. */
static int loan_admit(struct otte_loan *loan, u64 length)
{
	const struct otte_charge charge = {
		.amount[OTTE_RES_LENT_BYTES] = length,
		.amount[OTTE_RES_LOANS] = 1,
	};
	struct otte_refusal why;
	int err;

	err = otte_quota_charge(loan->lender->payer, &charge, &why);
	if (err) {
		otte_client_refused(loan->lender, &why);
		return err;
	}
	err = xa_reserve(&otte_loans, loan->id, GFP_KERNEL_ACCOUNT);
	if (err)
		otte_quota_uncharge(loan->lender->payer, &charge);
	else
		loan->charge = charge;
	return err;
}

static int loan_offer(struct otte_loan *loan, const struct otte_loan_offer *arg)
{
	struct otte_client *lender = loan->lender, *borrower;
	struct otte_region *region;
	int err;

	otte_ledger_assert_held();
	if (otte_ledger_draining())
		return -ESHUTDOWN;
	region = otte_region_find(lender, arg->region);
	borrower = otte_client_find(arg->borrower);
	if (!region || !borrower)
		return -ENOENT;
	err = loan_check_region(loan, region, arg->offset, arg->length);
	if (err)
		return err;
	err = loan_check_borrower(lender, borrower);
	if (err)
		return err;
	/* Before it can be found; a loan that is not published drops it when it is freed. */
	otte_client_get(borrower);
	loan->borrower = borrower;
	err = loan_publish(loan, region);
	if (err)
		return err;
	loan->in_offers = true;
	list_add_tail(&loan->borrower_link, &borrower->offers);
	borrower->offer_count++;
	trace_otte_loan(loan);
	otte_event_post(borrower, &loan->borrower_event, OTTE_EVENT_OFFERED);
	return 0;
}

int otte_loan_offer_ioctl(struct otte_client *client, void *arg)
{
	struct otte_loan_offer *offer = arg;
	u32 evidence = offer->evidence ?: OTTE_EVIDENCE_DEFAULT;
	struct otte_loan *loan;
	int err;

	if ((offer->direction & ~(OTTE_READ | OTTE_WRITE)) || (evidence & ~EVIDENCE_ALL))
		return -EOPNOTSUPP;
	if ((offer->direction != OTTE_READ && offer->direction != OTTE_WRITE) || offer->loan)
		return -EINVAL;
	loan = loan_create(client, offer->direction, offer->flags, evidence, offer->tag);
	if (!loan)
		return -ENOMEM;
	err = loan_admit(loan, offer->length);
	if (err)
		goto put;
	otte_ledger_lock();
	err = loan_offer(loan, offer);
	otte_ledger_unlock();
	if (err)
		otte_quota_uncharge(client->payer, &loan->charge);
	else
		offer->loan = loan->id;
put:
	otte_loan_put(loan);
	return err;
}

static int loan_expose(struct otte_loan *loan, const struct otte_loan_expose *arg)
{
	struct otte_region *region;
	int err;

	otte_ledger_assert_held();
	if (otte_ledger_draining())
		return -ESHUTDOWN;
	region = otte_region_find(loan->lender, arg->region);
	if (!region)
		return -ENOENT;
	if (region->backing == OTTE_BACKING_FILE)
		return -EACCES;
	err = loan_check_region(loan, region, arg->offset, arg->length);
	if (err)
		return err;
	if (otte_fence_blocks_peer(loan->lender, arg->peer, arg->incarnation))
		return -EKEYREVOKED;
	err = loan_publish(loan, region);
	if (err)
		return err;
	region->exposed_count++;
	loan_move(loan, OTTE_LOAN_EXPOSED);
	trace_otte_loan(loan);
	return 0;
}

int otte_loan_expose_ioctl(struct otte_client *client, void *arg)
{
	const u32 remote = OTTE_EVIDENCE_RETURNED | OTTE_EVIDENCE_REVOKED;
	struct otte_loan_expose *expose = arg;
	u32 evidence = expose->evidence ?: remote;
	struct otte_loan *loan;
	int err;

	if ((expose->direction & ~(OTTE_READ | OTTE_WRITE)) || (evidence & ~EVIDENCE_ALL))
		return -EOPNOTSUPP;
	if (!expose->direction || (evidence & ~remote) || expose->loan ||
	    !memchr_inv(expose->peer, 0, OTTE_PEER_LEN))
		return -EINVAL;
	loan = loan_create(client, expose->direction, expose->flags, evidence, expose->tag);
	if (!loan)
		return -ENOMEM;
	memcpy(loan->peer, expose->peer, OTTE_PEER_LEN);
	loan->incarnation = expose->incarnation;
	err = loan_admit(loan, expose->length);
	if (err)
		goto put;
	otte_ledger_lock();
	err = loan_expose(loan, expose);
	otte_ledger_unlock();
	if (err)
		otte_quota_uncharge(client->payer, &loan->charge);
	else
		expose->loan = loan->id;
put:
	otte_loan_put(loan);
	return err;
}

/* ---- LOAN_ACCEPT ---- */

/* @window is 0, or what was reserved for a MAPPABLE loan and is the loan's if this succeeds. */
static int loan_accept(struct otte_loan *loan, struct otte_client *borrower, u32 window)
{
	struct otte_region *region = loan->region;

	otte_ledger_assert_held();
	if (loan->state == OTTE_LOAN_EXPOSED)
		return -EALREADY;
	/* An offer of a client that is gone is void, though its walk may be yet to come to it. */
	if (loan->state != OTTE_LOAN_OFFERED || loan->lender->state != OTTE_CLIENT_LIVE)
		return -ENOENT;
	if (otte_fence_blocks(loan->lender, borrower))
		return -EKEYREVOKED;
	if (!region_fresh(region, 0)) /* its borrower holds pages */
		return -ESTALE;
	if (window)
		otte_map_slot_use(loan, window);
	otte_event_cancel(borrower, &loan->borrower_event, 1U << OTTE_EVENT_OFFERED);
	loan_leave_offers(loan);
	list_add_tail(&loan->borrower_link, &borrower->loans);
	loan_move(loan, OTTE_LOAN_EXPOSED);
	trace_otte_loan(loan);
	region->exposed_count++;
	otte_gate_open(&loan->gate);
	/* A descriptor on its way counts as a copy, so that nobody settles before it landed. */
	if (region->backing == OTTE_BACKING_FILE)
		WARN_ON_ONCE(otte_gate_enter_copy(&loan->gate));
	otte_event_post(loan->lender, &loan->lender_event, OTTE_EVENT_ACCEPTED);
	return 0;
}

int otte_loan_accept_ioctl(struct otte_client *client, void *arg)
{
	struct otte_loan_accept *accept = arg;
	struct otte_loan *loan;
	u32 window = 0;
	int err;

	if (accept->length || accept->map_offset || accept->map_bytes || accept->direction ||
	    accept->fd)
		return -EINVAL;
	loan = otte_loan_get_borrowed(client, accept->loan);
	if (!loan)
		return -ENOENT;
	/* Now, so that nobody waits for memory with the ledger held. */
	err = loan->flags & OTTE_LOAN_MAPPABLE ? otte_map_slot_reserve(&window) : 0;
	if (err)
		goto put;
	otte_ledger_lock();
	err = loan_accept(loan, client, window);
	otte_ledger_unlock();
	if (err) {
		otte_map_slot_release(window);
	} else {
		accept->length = otte_loan_length(loan);
		accept->direction = loan->direction;
		accept->fd = -1;
		if (loan->map_slot) {
			accept->map_offset = otte_map_offset(loan->map_slot);
			accept->map_bytes = otte_loan_length(loan);
		}
	}
put:
	otte_loan_put(loan);
	return err;
}

/* The loan's file could not be handed over: nobody ever had it. */
static void loan_not_installed(struct otte_loan *loan)
{
	otte_ledger_lock();
	if (loan->state == OTTE_LOAN_EXPOSED && !otte_gate_close_idle(&loan->gate))
		loan_settle(loan, OTTE_EVIDENCE_NEVER_EXPOSED);
	otte_ledger_unlock();
}

/*
 * After the result was copied out (@err says whether that worked): installs the file of a FILE
 * loan as the very last thing. If only the descriptor's number cannot be written, it is there all
 * the same and the loan stays exposed.
 */
int otte_loan_accept_commit(struct otte_client *client, void *arg, void __user *uarg, int err)
{
	struct otte_loan_accept __user *uaccept = uarg;
	const struct otte_loan_accept *accept = arg;
	struct otte_loan *loan;
	int fd;

	loan = otte_loan_get_borrowed(client, accept->loan);
	if (!loan)
		return err;
	if (loan->region->backing != OTTE_BACKING_FILE)
		goto put;
	fd = err ?: otte_receive_fd(loan->region->file, O_CLOEXEC);
	if (otte_gate_leave_copy(&loan->gate))
		otte_loan_drained(loan);
	if (fd < 0) {
		loan_not_installed(loan);
		err = fd;
	} else if (put_user(fd, &uaccept->fd)) {
		err = -EFAULT;
	}
put:
	otte_loan_put(loan);
	return err;
}

/* ---- LOAN_SETTLE, LOAN_WITHDRAW, LOAN_REVOKE ---- */

/* The receipt of a local borrower. */
static int settle_by_borrower(struct otte_loan *loan, u32 evidence)
{
	otte_ledger_assert_held();
	if (evidence && evidence != OTTE_EVIDENCE_RETURNED)
		return -EACCES;
	if (loan->state == OTTE_LOAN_OFFERED) {
		otte_event_cancel(loan->borrower, &loan->borrower_event, 1U << OTTE_EVENT_OFFERED);
		loan->offer_read = false;
		otte_loan_void(loan, true);
		return 0;
	}
	if (loan->state != OTTE_LOAN_EXPOSED)
		return -ENOENT;
	if (otte_evidence_accepted(loan->accepted, OTTE_EVIDENCE_RETURNED))
		evidence = OTTE_EVIDENCE_RETURNED;
	else if (loan->region->backing == OTTE_BACKING_PAGES &&
		 otte_evidence_accepted(loan->accepted, OTTE_EVIDENCE_UNMAPPED))
		evidence = OTTE_EVIDENCE_UNMAPPED;
	else
		return -EACCES;
	if (loan->ending || otte_gate_close_idle(&loan->gate))
		return -EBUSY;
	otte_event_cancel(loan->borrower, &loan->borrower_event, 1U << OTTE_EVENT_OWNER_GONE);
	loan_settle(loan, evidence);
	return 0;
}

/* What a lender attests: for a remote peer, or for its own hardware's window on a NONE region. */
static int settle_by_lender(struct otte_loan *loan, u32 evidence)
{
	otte_ledger_assert_held();
	if (loan->state != OTTE_LOAN_EXPOSED)
		return loan_ended(loan) ? -ENOENT : -EBUSY;
	if (evidence != OTTE_EVIDENCE_REVOKED &&
	    (evidence != OTTE_EVIDENCE_RETURNED || loan->borrower))
		return -EACCES;
	if (loan->borrower && loan->region->backing != OTTE_BACKING_NONE)
		return -EACCES;
	if (!otte_evidence_accepted(loan->accepted, evidence))
		return -EACCES;
	if (loan->borrower)
		otte_event_post(loan->borrower, &loan->borrower_event, OTTE_EVENT_REVOKED);
	otte_gate_close(&loan->gate);
	loan_settle(loan, evidence);
	return 0;
}

int otte_loan_settle_ioctl(struct otte_client *client, void *arg)
{
	const struct otte_loan_settle *settle = arg;
	struct otte_loan *loan;
	int err = -ENOENT;

	if (settle->reserved)
		return -EOPNOTSUPP;
	otte_ledger_lock();
	loan = xa_load(&otte_loans, settle->loan);
	if (loan && loan->lender == client &&
	    (!loan->borrower || settle->evidence == OTTE_EVIDENCE_REVOKED))
		err = settle_by_lender(loan, settle->evidence);
	else if (loan && loan->borrower == client)
		err = settle_by_borrower(loan, settle->evidence);
	otte_ledger_unlock();
	return err;
}

int otte_loan_withdraw_ioctl(struct otte_client *client, void *arg)
{
	const struct otte_loan_withdraw *withdraw = arg;
	struct otte_loan *loan;
	int err = -ENOENT;

	otte_ledger_lock();
	loan = xa_load(&otte_loans, withdraw->loan);
	if (loan && loan->lender == client && !loan_ended(loan)) {
		err = -EBUSY;
		if (loan->state == OTTE_LOAN_OFFERED) {
			otte_loan_void(loan, false);
			err = 0;
		}
	}
	otte_ledger_unlock();
	return err;
}

int otte_loan_revoke_ioctl(struct otte_client *client, void *arg)
{
	struct otte_loan_revoke *revoke = arg;
	struct otte_loan *loan;
	bool draining;
	int err = 0;

	if (revoke->reserved)
		return -EOPNOTSUPP;
	if (revoke->draining)
		return -EINVAL;
	otte_ledger_lock();
	loan = xa_load(&otte_loans, revoke->loan);
	if (!loan || loan->lender != client || loan_ended(loan))
		err = -ENOENT;
	else if (!(loan->flags & OTTE_LOAN_REVOCABLE))
		err = -EACCES;
	else if (loan->state != OTTE_LOAN_EXPOSED)
		err = -EBUSY;
	else
		otte_loan_get(loan);
	otte_ledger_unlock();
	if (err)
		return err;
	otte_loan_revoke(loan, OTTE_EVIDENCE_REVOKED, &draining);
	revoke->draining = draining;
	otte_loan_put(loan);
	return 0;
}
