/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: what all files of the module need.
 *
 * Every struct is declared once, in the header of its object, with the functions of the file that
 * owns it. Only they change the struct's state.
 *
 * Module init calls those of ledger, map, domain and sysfs (attribute groups are handed to the misc
 * device before it is registered), registers the device, and then calls that of netlink. Exit takes
 * the device away first, and then the ledger's work, which may use all of the others; these go in
 * the order netlink, sysfs, domain, map.
 *
 * Lock order, outermost first. A lock is never taken while one below it in this list is held.
 *
 *	mmap_lock		(the caller's; held by mmap, fault and ->close)
 *	loan->map_lock		rwsem; a fault holds it shared from the check to the new PTE,
 *				revocation holds it exclusively to set loan->revoked
 *	otte_ledger_turn	mutex; the first of those who wait for the next has it. ledger.c's
 *	otte_ledger		mutex; every state, list and registry of clients, regions, loans,
 *				holds, fences and retained records; the registry of domains
 *	domain->lock		mutex; pages and members of a domain. Nothing is taken inside it
 *	region->lock		spinlock; status word of a region. Taken by MMU notifiers
 *	gate->lock		spinlock; counts of mappings and copies of a loan
 *	quota_lock		spinlock; usage of all accounts
 *	queue->lock		spinlock; event queue of a client. Not for interrupts or notifiers
 *
 * The four spinlocks are leaves: none is taken inside another. Not under otte_ledger: mmap_lock,
 * copies from and to user memory, pinning and unpinning, inserting and removing interval
 * notifiers, fput() and anything else that may call back or wait for a user. What a state change
 * leaves to be done outside is queued and done by otte_ledger_unlock() itself. Paths that hold
 * mmap_lock (mmap, fault, ->close) never take otte_ledger; they use RCU lookups and the gate.
 *
 * References. A client, region, loan or hold is freed by its last kref. Its registry holds one
 * while its id can be looked up; every queued event, work item, VMA, and every object that points
 * at it holds one more. Initialised clients hold the module, and everything charged holds a client.
 */
#ifndef OTTE_PRIV_H
#define OTTE_PRIV_H

#include <linux/types.h>

#include "compat.h"
#include "../include/uapi/linux/otte.h"

/* main.c */

/* 16 bytes. */
const u8 *otte_load_id(void);
u64 otte_features(void);

#endif /* OTTE_PRIV_H */
