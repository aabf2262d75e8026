// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions: what a client registered, until the last loan of it has ended.
 *
 *	LIVE --REGION_DEL, loans exposed--> CLOSING --last loan settles--> GONE
 *	LIVE --owner gone, loans exposed--> RETAINED --last loan settles--> GONE
 *	LIVE --either, no loan exposed--> GONE
 *	CLOSING --owner gone--> RETAINED
 *
 * The states are moved here under the ledger. Only LIVE regions can be found by their owner and
 * lent. GONE regions are doomed: ledger.c releases their backing without the ledger and then calls
 * otte_region_finish(), up to which they are listed and charged.
 *
 * Leaving LIVE or CLOSING begins with a walk over the region's loans, which may be very many. It
 * goes in steps, between which others have the ledger. Meanwhile the state stays what it was and
 * region->ending says that the walk is on: nobody finds the region, so no loan joins it and nobody
 * else ends it; loans that end leave it, but not even the last one ends it. Who walks does that, or
 * sets the new state.
 *
 * Beside the state there is a word: generation, suspect, stale, fenced. It is protected by
 * region->lock, which MMU notifiers take, and copied to the owner's status page under it. A
 * notifier does nothing else but queue region->notice.
 *
 * Under the same lock, and for those who copy: whether the pages that are pinned are lost to an
 * owner that lives, since it has unmapped the range or was found to have others there.
 */
#include <linux/oom.h>
#include <linux/slab.h>

#include "backing.h"
#include "client.h"
#include "event.h"
#include "ledger.h"
#include "loan.h"
#include "quota.h"
#include "range.h"
#include "region.h"
#include "retained.h"
#include "trace.h"

DEFINE_XARRAY(otte_regions);

/* ---- references ---- */

static void region_free(struct kref *ref)
{
	struct otte_region *region = container_of(ref, struct otte_region, ref);

	/* Its place in the registry, where it was never published. */
	xa_release(&otte_regions, region->id);
	otte_client_put(region->owner);
	/* Not by RCU: it is looked up under the ledger alone. */
	kfree(region);
}

void otte_region_get(struct otte_region *region)
{
	kref_get(&region->ref);
}

void otte_region_put(struct otte_region *region)
{
	kref_put(&region->ref, region_free);
}

struct otte_region *otte_region_find(struct otte_client *owner, u64 id)
{
	struct otte_region *region;

	otte_ledger_assert_held();
	region = xa_load(&otte_regions, id);
	if (!region || region->owner != owner || region->state != OTTE_REGION_LIVE ||
	    region->ending)
		return NULL;
	return region;
}

/* ---- the word ---- */

#define OTTE_STATUS_GEN		BIT_ULL(OTTE_STATUS_GEN_SHIFT)

static void word_publish(struct otte_region *region)
{
	lockdep_assert_held(&region->lock);
	if (region->status_word)
		/* Pairs with the acquire load of the owner, see the ABI. */
		smp_store_release(region->status_word, region->word);
}

/* Raises the generation with @flag; true if the flag is new. */
static bool word_mark(struct otte_region *region, u64 flag)
{
	bool new;

	lockdep_assert_held(&region->lock);
	new = !(region->word & flag);
	WRITE_ONCE(region->word, (region->word | flag) + OTTE_STATUS_GEN);
	word_publish(region);
	return new;
}

u64 otte_region_word(struct otte_region *region)
{
	return READ_ONCE(region->word);
}

void otte_region_mark_fenced(struct otte_region *region)
{
	spin_lock(&region->lock);
	word_mark(region, OTTE_STATUS_FENCED);
	spin_unlock(&region->lock);
}

/*
 * Whether an owner that lives gives the range up. One that dies has its address space taken down,
 * after a RELEASE; and maybe reaped before that, by the OOM killer or process_mrelease().
 */
static bool owner_unmaps(const struct otte_region *region, const struct mmu_notifier_range *range)
{
	return range->event == MMU_NOTIFY_UNMAP && !region->released &&
	       !check_stable_address_space(range->mm);
}

static bool range_invalidate(struct mmu_interval_notifier *notifier,
			     const struct mmu_notifier_range *range, unsigned long seq)
{
	struct otte_region *region = container_of(notifier, struct otte_region, notifier);
	u64 flag;
	bool new;

	switch (range->event) {
	case MMU_NOTIFY_UNMAP:
	case MMU_NOTIFY_RELEASE:
		flag = OTTE_STATUS_STALE;
		break;
	case MMU_NOTIFY_PROTECTION_VMA:	/* mprotect, NUMA hinting */
	case MMU_NOTIFY_PROTECTION_PAGE:	/* fork */
	case MMU_NOTIFY_SOFT_DIRTY:
		flag = 0;
		break;
	default:			/* CLEAR: maybe other pages, maybe the same */
		flag = OTTE_STATUS_SUSPECT;
		break;
	}

	spin_lock(&region->lock);
	mmu_interval_set_seq(notifier, seq);
	if (range->event == MMU_NOTIFY_RELEASE)
		region->released = true;
	else if (owner_unmaps(region, range))
		WRITE_ONCE(region->lost, true);
	new = flag && word_mark(region, flag);
	spin_unlock(&region->lock);
	if (new) {
		otte_region_get(region);
		if (!queue_work(otte_wq, &region->notice))
			otte_region_put(region);
	}
	return true;
}

static const struct mmu_interval_notifier_ops range_ops = {
	.invalidate = range_invalidate,
};

static void region_notice(struct work_struct *work)
{
	struct otte_region *region = container_of(work, struct otte_region, notice);
	u64 word = otte_region_word(region);

	if (word & OTTE_STATUS_STALE)
		otte_event_post(region->owner, &region->event, OTTE_EVENT_REGION_STALE);
	else if (word & OTTE_STATUS_SUSPECT)
		otte_event_post(region->owner, &region->event, OTTE_EVENT_REGION_SUSPECT);
	otte_region_put(region);
}

static int region_watch(struct otte_region *region)
{
	u64 start = round_down(region->addr, PAGE_SIZE);
	u64 length = round_up(region->addr + region->length, PAGE_SIZE) - start;
	int err;

	err = mmu_interval_notifier_insert(&region->notifier, current->mm, start, length,
					   &range_ops);
	if (!err)
		region->watched = true;
	return err;
}

void otte_region_unwatch(struct otte_region *region)
{
	if (xchg(&region->watched, false))
		mmu_interval_notifier_remove(&region->notifier);
}

/* ---- the end ---- */

static void region_gone(struct otte_region *region)
{
	otte_ledger_assert_held();
	region->state = OTTE_REGION_GONE;
	trace_otte_region(region);
	otte_retained_del(&region->retained);
	if (!region->verifying)
		otte_ledger_doom(region);
	otte_ledger_changed();
}

/* A call that compared the pages is through with them. A region that ended meanwhile is its. */
static void region_verified(struct otte_region *region)
{
	otte_ledger_lock();
	if (!--region->verifying && region->state == OTTE_REGION_GONE)
		otte_ledger_doom(region);
	otte_ledger_unlock();
}

void otte_region_loan_ended(struct otte_region *region)
{
	otte_ledger_assert_held();
	if (region->loan_count || region->ending)
		return;
	if (region->state == OTTE_REGION_CLOSING) {
		otte_event_post(region->owner, &region->event, OTTE_EVENT_REGION_GONE);
		region_gone(region);
	} else if (region->state == OTTE_REGION_RETAINED) {
		region_gone(region);
	}
}

/*
 * Voids all offers of @region and tells the borrowers of exposed loans if the owner is @gone. Drops
 * the ledger now and then. Loans not yet looked at are in a list of our own, which one that ends
 * meanwhile leaves like the region's.
 */
static void region_end_offers(struct otte_region *region, bool gone)
{
	unsigned int steps = 0;
	struct otte_loan *loan;
	LIST_HEAD(left);

	otte_ledger_assert_held();
	region->ending = true;
	list_splice_init(&region->loans, &left);
	while (!list_empty(&left)) {
		loan = list_first_entry(&left, struct otte_loan, region_link);
		list_move_tail(&loan->region_link, &region->loans);
		if (loan->state == OTTE_LOAN_OFFERED)
			otte_loan_void(loan, false);
		else if (gone && loan->borrower)
			otte_event_post(loan->borrower, &loan->borrower_event,
					OTTE_EVENT_OWNER_GONE);
		otte_ledger_step(&steps);
	}
	region->ending = false;
}

void otte_region_owner_gone(struct otte_region *region)
{
	otte_ledger_assert_held();
	if (region->state == OTTE_REGION_GONE)
		return;
	region_end_offers(region, true);
	if (region->loan_count) {
		region->state = OTTE_REGION_RETAINED;
		trace_otte_region(region);
		otte_retained_add(&region->retained);
	} else {
		region_gone(region);
	}
}

void otte_region_release_backing(struct otte_region *region)
{
	otte_region_unwatch(region);
	if (region->backing == OTTE_BACKING_PAGES)
		otte_pages_unpin(region);
	else if (region->backing == OTTE_BACKING_FILE)
		otte_escrow_drop(region);
}

void otte_region_finish(struct otte_region *region)
{
	otte_ledger_assert_held();
	xa_erase(&otte_regions, region->id);
	list_del_init(&region->owner_link);
	spin_lock(&region->lock);
	WRITE_ONCE(region->word, (region->word & ~0xffULL) + OTTE_STATUS_GEN);
	word_publish(region);
	region->status_word = NULL;
	spin_unlock(&region->lock);
	otte_client_status_put(region->owner, region->status_index);
	otte_quota_uncharge(region->owner->payer, &region->charge);
	otte_ledger_changed();
	/* The registry's reference. */
	otte_region_put(region);
}

/* ---- REGION_ADD ---- */

static struct otte_region *region_create(struct otte_client *owner,
					 const struct otte_region_add *arg)
{
	struct otte_region *region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);

	if (!region)
		return NULL;
	kref_init(&region->ref);
	otte_client_get(owner);
	region->owner = owner;
	region->state = OTTE_REGION_LIVE;
	region->backing = arg->backing;
	region->access = arg->access;
	region->addr = arg->addr;
	region->length = arg->length;
	region->tag = arg->tag;
	region->ranges = OTTE_RANGES_NONE;
	spin_lock_init(&region->lock);
	INIT_WORK(&region->notice, region_notice);
	INIT_LIST_HEAD(&region->owner_link);
	INIT_LIST_HEAD(&region->loans);
	INIT_LIST_HEAD(&region->doomed_link);
	otte_event_node_init(&region->event, OTTE_SOURCE_REGION);
	otte_retained_init(&region->retained, OTTE_RETAINED_REGION);
	region->id = otte_id_next();
	region->retained.id = region->id;
	region->retained.owner = owner;
	region->retained.bytes = region->length;
	region->retained.tag = region->tag;
	return region;
}

static int region_check(const struct otte_region_add *arg)
{
	u64 end;

	if (arg->backing > OTTE_BACKING_FILE || (arg->access & ~(OTTE_READ | OTTE_WRITE)) ||
	    arg->reserved || arg->reserved2)
		return -EOPNOTSUPP;
	if (!arg->access || !arg->length || arg->region || arg->status_index)
		return -EINVAL;
	if (arg->backing == OTTE_BACKING_FILE)
		return arg->addr || arg->length > S64_MAX ? -EINVAL : 0;
	if (arg->fd || check_add_overflow(arg->addr, arg->length, &end) || end > TASK_SIZE)
		return -EINVAL;
	if (arg->backing == OTTE_BACKING_PAGES && !otte_pages_supported())
		return -EOPNOTSUPP;
	return 0;
}

/* Charges @region for what it will hold, keeps its place; fills page_count and page_offset. */
static int region_admit(struct otte_region *region)
{
	struct otte_charge charge = {
		.amount[OTTE_RES_REGIONS] = 1,
		.amount[OTTE_RES_REGISTERED_BYTES] = region->length,
	};
	struct otte_refusal why;
	int err;

	if (region->backing == OTTE_BACKING_PAGES) {
		region->page_offset = offset_in_page(region->addr);
		region->page_count = DIV_ROUND_UP(region->page_offset + region->length, PAGE_SIZE);
		charge.amount[OTTE_RES_PINNED_BYTES] = (u64)region->page_count << PAGE_SHIFT;
	}
	err = otte_quota_charge(region->owner->payer, &charge, &why);
	if (err) {
		otte_client_refused(region->owner, &why);
		return err;
	}
	/*
	 * Its place: now, so that nobody waits for memory with the ledger held, and not before,
	 * since a registry frees by RCU, in batches, what those who are refused would have taken.
	 */
	err = xa_reserve(&otte_regions, region->id, GFP_KERNEL_ACCOUNT);
	if (err)
		otte_quota_uncharge(region->owner->payer, &charge);
	else
		region->charge = charge;
	return err;
}

/* The notifier comes first, so that no change after the pin goes unseen. */
static int region_take_backing(struct otte_region *region, int fd)
{
	struct otte_refusal why;
	int err;

	if (region->backing == OTTE_BACKING_FILE)
		return otte_escrow_take(region, fd);
	err = region_watch(region);
	if (err || region->backing == OTTE_BACKING_NONE)
		return err;
	err = otte_pages_pin(region, &why);
	if (err == -EDQUOT)
		otte_client_refused(region->owner, &why);
	if (err)
		otte_region_unwatch(region);
	return err;
}

/* Gives @region its word on the status page and makes it findable. */
static int region_publish(struct otte_region *region)
{
	struct otte_client *owner = region->owner;
	int index, err;

	otte_ledger_assert_held();
	if (otte_ledger_draining() || owner->state != OTTE_CLIENT_LIVE)
		return -ESHUTDOWN;
	index = otte_client_status_get(owner);
	if (index < 0)
		return index;
	/* Reserved by region_admit(): needs no memory. */
	err = xa_err(xa_store(&otte_regions, region->id, region, 0));
	if (WARN_ON_ONCE(err)) {
		otte_client_status_put(owner, index);
		return err;
	}
	otte_region_get(region);
	list_add_tail(&region->owner_link, &owner->regions);
	region->status_index = index;
	trace_otte_region(region);

	spin_lock(&region->lock);
	region->status_word = otte_client_status_word(owner, index);
	/* The page's generation goes on from the last region here, and keeps what was marked. */
	WRITE_ONCE(region->word, ((*region->status_word & ~0xffULL) + OTTE_STATUS_GEN) |
				 OTTE_STATUS_LIVE | (region->word & 0xff));
	if (owner->fenced)
		WRITE_ONCE(region->word, region->word | OTTE_STATUS_FENCED);
	word_publish(region);
	spin_unlock(&region->lock);
	otte_ledger_changed();
	return 0;
}

int otte_region_add_ioctl(struct otte_client *client, void *arg)
{
	struct otte_region_add *add = arg;
	struct otte_region *region;
	int err;

	err = region_check(add);
	if (err)
		return err;
	if (otte_ledger_draining())
		return -ESHUTDOWN;
	region = region_create(client, add);
	if (!region)
		return -ENOMEM;
	err = region_admit(region);
	if (err)
		goto put;
	err = region_take_backing(region, add->fd);
	if (err)
		goto uncharge;
	otte_ledger_lock();
	err = region_publish(region);
	otte_ledger_unlock();
	if (err)
		goto release;
	add->region = region->id;
	add->status_index = region->status_index;
	otte_region_put(region);
	return 0;

release:
	otte_region_release_backing(region);
uncharge:
	otte_quota_uncharge(client->payer, &region->charge);
put:
	otte_region_put(region);
	return err;
}

/* ---- REGION_DEL, REGION_VERIFY ---- */

int otte_region_del_ioctl(struct otte_client *client, void *arg)
{
	struct otte_region_del *del = arg;
	struct otte_region *region;
	int err = -ENOENT;

	if (del->reserved)
		return -EOPNOTSUPP;
	otte_ledger_lock();
	region = otte_region_find(client, del->region);
	if (region) {
		err = 0;
		region_end_offers(region, false);
		del->loans = region->loan_count;
		if (region->loan_count) {
			region->state = OTTE_REGION_CLOSING;
			trace_otte_region(region);
			otte_ledger_changed();
		} else {
			region_gone(region);
		}
	}
	otte_ledger_unlock();
	return err;
}

/*
 * The sequence is taken after every invalidation that runs over the range has ended, so that pages
 * about to be cleared are not found still mapped; any later one makes the retry check fail.
 */
static int region_verify_pages(struct otte_region *region)
{
	unsigned long seq;
	int err;

	seq = mmu_interval_read_begin(&region->notifier);
	err = otte_pages_verify(region);
	if (err && err != -ESTALE)
		return err;

	spin_lock(&region->lock);
	if (mmu_interval_read_retry(&region->notifier, seq)) {
		err = -EAGAIN;
	} else if (err) {
		WRITE_ONCE(region->lost, true);
		word_mark(region, OTTE_STATUS_STALE);
	} else {
		WRITE_ONCE(region->word, region->word & ~OTTE_STATUS_SUSPECT);
		word_publish(region);
	}
	spin_unlock(&region->lock);
	return err;
}

int otte_region_verify_ioctl(struct otte_client *client, void *arg)
{
	struct otte_region_verify *verify = arg;
	struct otte_region *region;
	u64 word;
	int err = 0;

	otte_ledger_lock();
	region = otte_region_find(client, verify->region);
	if (region) {
		otte_region_get(region);
		/* Another thread may delete it; its pages stay until they were compared. */
		region->verifying++;
	}
	otte_ledger_unlock();
	if (!region)
		return -ENOENT;

	word = otte_region_word(region);
	if (word & OTTE_STATUS_STALE)
		err = -ESTALE;
	else if ((word & OTTE_STATUS_SUSPECT) && region->backing == OTTE_BACKING_PAGES)
		err = region_verify_pages(region);
	else if (word & OTTE_STATUS_SUSPECT)
		err = -ESTALE;
	verify->generation = otte_region_word(region) >> OTTE_STATUS_GEN_SHIFT;
	region_verified(region);
	otte_region_put(region);
	return err;
}
