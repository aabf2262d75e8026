/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: the use of a range by one borrower, in one direction. See loan.c, loan_state.c, copy.c.
 */
#ifndef OTTE_LOAN_H
#define OTTE_LOAN_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rwsem.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "event.h"
#include "gate.h"
#include "quota.h"
#include "range.h"
#include "retained.h"

struct otte_client;
struct otte_region;

enum otte_loan_state {
	OTTE_LOAN_OFFERED,
	OTTE_LOAN_EXPOSED,
	OTTE_LOAN_SETTLED,
	OTTE_LOAN_WITHDRAWN,
	OTTE_LOAN_STATES,
};

/**
 * struct otte_loan - see loan.c
 * @ref: last put frees
 * @rcu: freed after a grace period
 * @id: in otte_loans until it has ended and both sides have read about it
 * @listed: in otte_loans
 * @region: referenced
 * @lender: region->owner, referenced
 * @borrower: referenced; NULL for a remote peer
 * @peer: remote peer
 * @incarnation: of @peer
 * @state: moved by loan_move() in loan.c, under the ledger
 * @direction: OTTE_READ | OTTE_WRITE
 * @flags: OTTE_LOAN_*; of an exposure STANDING and BY_ADDRESS only, of an offer all but BY_ADDRESS
 * @accepted: mask of evidence the lender accepts, FORCED always
 * @evidence: why it ended
 * @ending: evidence to settle with once copies have left; 0 if not being revoked
 * @tag: the lender's
 * @range: in region->ranges while OFFERED or EXPOSED
 * @region_link: in region->loans while OFFERED or EXPOSED
 * @borrower_link: in borrower->offers or borrower->loans
 * @in_offers: in borrower->offers
 * @offer_read: the borrower was told of the offer, so it must be told of its end
 * @gate: mappings and copies
 * @map_lock: see the lock order
 * @revoked: faults are refused; set under @map_lock
 * @zapped: what was mapped before @revoked is gone; under the ledger
 * @map_slot: window of mmap offsets, 0 for none
 * @work: settles when the gate has drained
 * @charge: lent bytes and one loan
 * @retained: borrower gone without evidence
 * @lender_event: ACCEPTED, BORROWER_GONE, SETTLED
 * @borrower_event: OFFERED, WITHDRAWN, OWNER_GONE, REVOKED
 */
struct otte_loan {
	struct kref ref;
	struct rcu_head rcu;
	u64 id;
	bool listed;
	struct otte_region *region;
	struct otte_client *lender;
	struct otte_client *borrower;
	u8 peer[OTTE_PEER_LEN];
	u64 incarnation;
	enum otte_loan_state state;
	u32 direction;
	u32 flags;
	u32 accepted;
	u32 evidence;
	u32 ending;
	u64 tag;
	struct otte_range range;
	struct list_head region_link;
	struct list_head borrower_link;
	bool in_offers;
	bool offer_read;

	struct otte_gate gate;
	struct rw_semaphore map_lock;
	bool revoked;
	bool zapped;
	u32 map_slot;
	struct work_struct work;

	struct otte_charge charge;
	struct otte_retained retained;
	struct otte_event_node lender_event;
	struct otte_event_node borrower_event;
};

/* By id. Walk under the ledger; loan.c and copy.c look up under RCU. */
extern struct xarray otte_loans;

static inline u64 otte_loan_offset(const struct otte_loan *loan)
{
	return loan->range.start;
}

static inline u64 otte_loan_length(const struct otte_loan *loan)
{
	return loan->range.last - loan->range.start + 1;
}

/* loan_state.c, free of VFS: 0 or -EBUSY for a move that is not allowed. */
int otte_loan_state_check(enum otte_loan_state from, enum otte_loan_state to);
/* Whether @evidence ends a loan that accepts @accepted. */
bool otte_evidence_accepted(u32 accepted, u32 evidence);
extern const char *const otte_loan_state_names[OTTE_LOAN_STATES];

void otte_loan_get(struct otte_loan *loan);
void otte_loan_put(struct otte_loan *loan);
/* A loan to @borrower, in any state, with a reference. RCU lookup, no lock needed. */
struct otte_loan *otte_loan_get_borrowed(struct otte_client *borrower, u64 id);
/* Looks at a loan whose borrower is gone: settles it or retains it. Ledger held. */
void otte_loan_borrower_gone(struct otte_loan *loan);
/* OFFERED only: the offer is void, and its lender is told unless it was it. Ledger held. */
void otte_loan_void(struct otte_loan *loan, bool tell_lender);
/*
 * Zaps every mapping and lets no new copy in; settles with @evidence (REVOKED or FORCED), now or
 * when the last copy leaves the gate. Takes the ledger. @draining is set if one is still inside.
 */
void otte_loan_revoke(struct otte_loan *loan, u32 evidence, bool *draining);
/* Events of an ended loan were read or dropped: forget it if that was all. Ledger held. */
void otte_loan_try_forget(struct otte_loan *loan);
/* Queues loan->work after the gate told that it is empty. */
void otte_loan_drained(struct otte_loan *loan);

int otte_loan_offer_ioctl(struct otte_client *client, void *arg);
int otte_loan_accept_ioctl(struct otte_client *client, void *arg);
int otte_loan_accept_commit(struct otte_client *client, void *arg, void __user *uarg, int err);
int otte_loan_settle_ioctl(struct otte_client *client, void *arg);
int otte_loan_withdraw_ioctl(struct otte_client *client, void *arg);
int otte_loan_revoke_ioctl(struct otte_client *client, void *arg);
int otte_loan_expose_ioctl(struct otte_client *client, void *arg);

/* copy.c */

#define OTTE_COPY_MAX_BYTES	(256UL << 20)

int otte_loan_copy_ioctl(struct otte_client *client, void *arg);

#endif /* OTTE_LOAN_H */
