// SPDX-License-Identifier: GPL-2.0-only
/*
 * Backing PAGES: memory that the module pins for as long as the region or a loan of it lives.
 *
 * Pins are long-term and for writing even where only reads are lent: a read pin does not make
 * shared or copy-on-write pages ours, and the owner would go on with others. They are charged to
 * the user's locked memory, not to the mm's: the mm ends with the owner, the pins do not.
 * Only anonymous, shmem and hugetlb pages are taken: pages of file systems may be truncated, or
 * written back under the pin.
 */
#include <linux/cred.h>
#include <linux/hugetlb.h>
#include <linux/magic.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>

#include "backing.h"
#include "client.h"
#include "quota.h"
#include "region.h"

#define PIN_BATCH	512UL	/* pages between two looks at signals */
#define VERIFY_BATCH	32UL	/* page pointers on the stack */
#define PIN_TRIES	100	/* at a page on its way to swap */

bool otte_pages_supported(void)
{
	return OTTE_HAVE_SOUND_PINS;
}

/*
 * Charges locked memory to the owner's user, of CLIENT_INIT, against the caller's rlimit, and
 * remembers whom.
 */
static int memlock_charge(struct otte_region *region, struct otte_refusal *why)
{
	struct user_struct *user = region->owner->user;
	long used, pages = region->page_count;
	unsigned long limit = rlimit(RLIMIT_MEMLOCK);
	bool unlimited = limit == RLIM_INFINITY || capable(CAP_IPC_LOCK);

	limit >>= PAGE_SHIFT;
	used = atomic_long_read(&user->locked_vm);
	do {
		if (!unlimited && (used + pages < used || used + pages > limit)) {
			*why = (struct otte_refusal){
				.key = { OTTE_LEVEL_MEMLOCK,
					 from_kuid(&init_user_ns, user->uid) },
				.resource = OTTE_RES_PINNED_BYTES,
				.usage = (u64)used << PAGE_SHIFT,
				.limit = (u64)limit << PAGE_SHIFT,
				.requested = (u64)pages << PAGE_SHIFT,
			};
			return -EDQUOT;
		}
	} while (!atomic_long_try_cmpxchg(&user->locked_vm, &used, used + pages));
	region->pinned_user = otte_user_get(user);
	return 0;
}

static void memlock_uncharge(struct otte_region *region)
{
	atomic_long_sub(region->page_count, &region->pinned_user->locked_vm);
	otte_user_put(region->pinned_user);
	region->pinned_user = NULL;
}

/*
 * 0 for anonymous, shmem and hugetlb pages. The page lock keeps mapping and inode in place. A page
 * without a mapping was truncated, or is shmem's and on its way to swap; -EAGAIN, because the next
 * look at the address finds out.
 */
static int page_check(struct page *page)
{
	struct page *head = compound_head(page);
	struct address_space *mapping;
	int err = 0;

	if (is_zone_device_page(page))
		return -EACCES;
	if (PageAnon(head) || PageHuge(head))
		return 0;
	lock_page(head);
	mapping = head->mapping;
	if (!mapping)
		err = -EAGAIN;
	else if (!mapping->host || mapping->host->i_sb->s_magic != TMPFS_MAGIC)
		err = -EACCES;
	unlock_page(head);
	return err;
}

/* Pins up to @count pages from page @at on; returns how many, or an error. */
static long pin_batch(struct otte_region *region, unsigned long at, unsigned long count,
		      unsigned int flags)
{
	unsigned long start = (region->addr & PAGE_MASK) + (at << PAGE_SHIFT);
	long i, pinned;
	int err;

	pinned = pin_user_pages_fast(start, count, flags, region->pages + at);
	if (pinned <= 0)
		return pinned ?: -EFAULT;
	for (i = 0; i < pinned; i++) {
		err = page_check(region->pages[at + i]);
		if (err) {
			unpin_user_pages(region->pages + at, pinned);
			return err;
		}
	}
	return pinned;
}

int otte_pages_pin(struct otte_region *region, struct otte_refusal *why)
{
	unsigned int flags = FOLL_WRITE | FOLL_LONGTERM;
	unsigned int tries = 0;
	unsigned long at = 0;
	long pinned;
	int err;

	/* Lent for reading only: the range may be a private read-only mapping. */
	if (!(region->access & OTTE_WRITE))
		flags |= FOLL_FORCE;
	err = memlock_charge(region, why);
	if (err)
		return err;
	err = -ENOMEM;
	/* The caller chose the size: too much of it is its error and no reason to warn. */
	region->pages = kvmalloc_array(region->page_count, sizeof(*region->pages),
				       GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!region->pages)
		goto uncharge;
	while (at < region->page_count) {
		err = -EINTR;
		if (fatal_signal_pending(current))
			goto unpin;
		pinned = pin_batch(region, at, min(region->page_count - at, PIN_BATCH), flags);
		cond_resched();
		if (pinned == -EAGAIN && ++tries < PIN_TRIES)
			continue;
		err = pinned == -EAGAIN ? -EACCES : pinned;
		if (pinned < 0)
			goto unpin;
		at += pinned;
	}
	return 0;

unpin:
	unpin_user_pages(region->pages, at);
	kvfree(region->pages);
	region->pages = NULL;
uncharge:
	memlock_uncharge(region);
	return err;
}

void otte_pages_unpin(struct otte_region *region)
{
	unpin_user_pages_dirty_lock(region->pages, region->page_count,
				    region->access & OTTE_WRITE);
	kvfree(region->pages);
	region->pages = NULL;
	memlock_uncharge(region);
}

int otte_pages_verify(struct otte_region *region)
{
	struct page *now[VERIFY_BATCH];
	unsigned long at = 0, start, want;
	long i, got;
	int err = 0;

	while (!err && at < region->page_count) {
		if (fatal_signal_pending(current))
			return -EINTR;
		start = (region->addr & PAGE_MASK) + (at << PAGE_SHIFT);
		want = min(region->page_count - at, VERIFY_BATCH);
		got = get_user_pages_fast(start, want, 0, now);
		if (got <= 0)
			return got ?: -EFAULT;
		for (i = 0; i < got; i++) {
			if (now[i] != region->pages[at + i])
				err = -ESTALE;
			put_page(now[i]);
		}
		at += got;
		cond_resched();
	}
	return err;
}
