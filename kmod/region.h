/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: memory that its owner registered. See region.c.
 */
#ifndef OTTE_REGION_H
#define OTTE_REGION_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mmu_notifier.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "event.h"
#include "quota.h"
#include "range.h"
#include "retained.h"

struct otte_client;
struct user_struct;

enum otte_region_state {
	OTTE_REGION_LIVE,
	OTTE_REGION_CLOSING,	/* deleted by its owner, loans are still exposed */
	OTTE_REGION_RETAINED,	/* the owner is gone, loans are still exposed */
	OTTE_REGION_GONE,	/* backing released or about to be */
};

/**
 * struct otte_region - see region.c
 * @ref: last put frees
 * @id: in otte_regions until GONE
 * @owner: referenced, also after its end
 * @owner_link: in owner->regions
 * @state: moved by region.c under the ledger
 * @backing: enum otte_backing
 * @access: OTTE_READ | OTTE_WRITE
 * @addr: first byte in the owner's address space, 0 for FILE
 * @length: bytes
 * @tag: the owner's
 * @status_index: word on the owner's status page
 * @notifier: watches the range, NONE and PAGES
 * @watched: @notifier is in place
 * @lock: protects @word and the copy of it on the status page, @released and @lost
 * @word: generation and OTTE_STATUS_*
 * @status_word: its copy, NULL while the region has no word there
 * @released: the address space is taken down: what is unmapped from now on says nothing
 * @lost: the owner lives and no longer has @pages there: nobody copies any more. Never unset;
 *	read without @lock
 * @notice: posts what a notifier saw
 * @pages: pinned, PAGES
 * @page_count: their number
 * @page_offset: of the first byte in the first page
 * @pinned_user: whose locked_vm was charged; referenced
 * @file: escrowed, FILE
 * @ranges: offered and exposed ranges
 * @loans: those loans, by otte_loan.region_link
 * @loan_count: length of @loans
 * @exposed_count: those of them that are exposed
 * @ending: its loans are being walked, see region.c
 * @verifying: calls that compare its pages right now, without the ledger; they keep the backing
 * @charge: regions, registered and pinned bytes
 * @retained: RETAINED
 * @event: STALE, SUSPECT, GONE
 * @doomed_link: ledger.c's
 */
struct otte_region {
	struct kref ref;
	u64 id;
	struct otte_client *owner;
	struct list_head owner_link;
	enum otte_region_state state;
	u32 backing;
	u32 access;
	u64 addr;
	u64 length;
	u64 tag;
	unsigned int status_index;

	struct mmu_interval_notifier notifier;
	bool watched;
	spinlock_t lock;	/* down to lost */
	u64 word;
	u64 *status_word;
	bool released;
	bool lost;
	struct work_struct notice;

	struct page **pages;
	unsigned long page_count;
	unsigned int page_offset;
	struct user_struct *pinned_user;
	struct file *file;

	struct otte_ranges ranges;
	struct list_head loans;
	unsigned int loan_count;
	unsigned int exposed_count;
	bool ending;
	unsigned int verifying;

	struct otte_charge charge;
	struct otte_retained retained;
	struct otte_event_node event;
	struct list_head doomed_link;
};

/* By id. Walk and look up under the ledger. */
extern struct xarray otte_regions;

void otte_region_get(struct otte_region *region);
void otte_region_put(struct otte_region *region);
/* A LIVE region of @owner, or NULL. Ledger held; no reference taken. */
struct otte_region *otte_region_find(struct otte_client *owner, u64 id);
/* The last loan has ended: CLOSING and RETAINED regions are doomed. Ledger held. */
void otte_region_loan_ended(struct otte_region *region);
/* The owner is gone. Ledger held, and dropped now and then; the caller has a reference. */
void otte_region_owner_gone(struct otte_region *region);
/* Removes the notifier; the range is not watched any more. May sleep, no lock held. */
void otte_region_unwatch(struct otte_region *region);
/* Unpins or drops the file. By ledger.c for doomed regions, no lock held. */
void otte_region_release_backing(struct otte_region *region);
/* Then, with the ledger held: off the registry and off the charges. */
void otte_region_finish(struct otte_region *region);
u64 otte_region_word(struct otte_region *region);
void otte_region_mark_fenced(struct otte_region *region);

int otte_region_add_ioctl(struct otte_client *client, void *arg);
int otte_region_del_ioctl(struct otte_client *client, void *arg);
int otte_region_verify_ioctl(struct otte_client *client, void *arg);

#endif /* OTTE_REGION_H */
