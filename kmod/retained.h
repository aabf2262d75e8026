/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: what lacks evidence. See retained.c.
 */
#ifndef OTTE_RETAINED_H
#define OTTE_RETAINED_H

#include <linux/rbtree.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

#include "otte_priv.h"

struct otte_client;

enum otte_retained_kind {
	OTTE_RETAINED_REGION,	/* backing of an owner that is gone */
	OTTE_RETAINED_LOAN,	/* its borrower is gone and left no accepted evidence */
	OTTE_RETAINED_HOLD,	/* native object declared by its owner */
};

/**
 * struct otte_retained - embedded in region, loan and hold
 * @rb: in the registry, by @id; embedded, so that listing never needs memory
 * @kind: which
 * @listed: in the registry
 * @id: the object's
 * @bytes: charged as RETAINED_BYTES while listed
 * @owner: who is charged: the lender or the holder. Valid while listed
 * @reason: errno-like, holds only
 * @tag: the object's
 * @since_ns: boottime of the listing
 * @release: queued by otte_retained_release()
 * @released_by: who asked for it
 */
struct otte_retained {
	struct rb_node rb;
	enum otte_retained_kind kind;
	bool listed;
	u64 id;
	u64 bytes;
	struct otte_client *owner;
	u32 reason;
	u64 tag;
	u64 since_ns;
	struct work_struct release;
	kuid_t released_by;
};

void otte_retained_init(struct otte_retained *record, enum otte_retained_kind kind);
/* Lists and charges, which cannot fail. Takes the record off the list again. Ledger held. */
void otte_retained_add(struct otte_retained *record);
void otte_retained_del(struct otte_retained *record);
/* The record with @id or NULL; the one with the smallest id above @id or NULL. Ledger held. */
struct otte_retained *otte_retained_find(u64 id);
struct otte_retained *otte_retained_next(u64 id);
/*
 * An administrator ends a retained record: revoke, drain, settle as FORCED. Queues the work and
 * returns 0, -ENOENT, or -EBUSY for a hold of a live client. The caller has checked CAP_SYS_ADMIN.
 * Takes the ledger.
 */
int otte_retained_release(u64 id, kuid_t by);

#endif /* OTTE_RETAINED_H */
