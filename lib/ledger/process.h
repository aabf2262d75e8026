/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the files of the process back end share: its objects and the verbs between their owners.
 *
 *   process.c           the ledger and its clients: lock, tables, ops
 *   process_region.c    regions: registered, hidden, retained, gone
 *   process_loan.c      loans and the terms they obey
 *   process_retained.c  records of what cannot be proven: retained regions and holds
 *   process_event.c     each client's queue of events
 *   process_fence.c     each client's fences
 *   quota.c             budgets
 *
 * One mutex for each ledger, taken by the ops in process.c alone. Every function below is called
 * with it held, and none of them blocks, logs or calls out.
 */
#ifndef OTTE_LEDGER_PROCESS_H
#define OTTE_LEDGER_PROCESS_H

#include <pthread.h>
#include <sys/queue.h>

#define HASH_NONFATAL_OOM 1 /* an element that could not be added has hh.tbl NULL */
#include <uthash.h>

#include "base/itree.h"
#include "ledger/ledger.h"
#include "ledger/quota.h"

struct process_client;
struct process_loan;
struct process_region;

/* An event, embedded in the object that it speaks of: queued while `reader` is set. */
struct process_event {
	TAILQ_ENTRY(process_event) link;
	struct process_client *reader;
	uint32_t kind;             /* enum otte_event_kind */
	uint32_t evidence;         /* enum otte_evidence */
	struct process_loan *loan; /* this or the region is set */
	struct process_region *region;
};

TAILQ_HEAD(process_events, process_event);

/* A loan raises each of these at most once in its life. */
enum process_loan_event {
	LOAN_EVENT_OFFERED,    /* to the borrower */
	LOAN_EVENT_OWNER_GONE, /* to the borrower */
	LOAN_EVENT_ENDED,      /* to the borrower: withdrawn or revoked */
	LOAN_EVENT_LENDER,     /* to the lender: settled, or withdrawn for want of a borrower */
	LOAN_EVENTS,
};

struct process_loan {
	uint64_t id;
	UT_hash_handle hh; /* in the ledger's loans, until freed */
	enum otte_loan_state state;
	enum otte_evidence evidence;
	struct otte_loan_terms terms;
	uint64_t lender_id;
	struct process_client *lender;   /* NULL: left, or the loan is over */
	struct process_client *borrower; /* NULL: remote, left, or the loan is over */
	struct process_region *region;   /* NULL: the loan is over */
	struct otte_inode range;         /* by address, in one of the ledger's trees while live */
	TAILQ_ENTRY(process_loan) in_region;
	TAILQ_ENTRY(process_loan) in_borrower;
	struct process_event events[LOAN_EVENTS];
};

TAILQ_HEAD(process_loans, process_loan);
TAILQ_HEAD(process_regions, process_region);

/* REGISTERED -> HIDDEN -> GONE; from either of the first two -> RETAINED -> GONE, or -> GONE. */
enum process_region_state {
	REGION_REGISTERED,
	REGION_HIDDEN,   /* unregistered while loans were exposed */
	REGION_RETAINED, /* its owner left while loans were exposed */
	REGION_GONE,     /* kept only for its unread event */
};

/* One thing that is kept for want of evidence. Embedded where that may not fail. */
struct process_record {
	TAILQ_ENTRY(process_record) link;
	uint64_t id;
	uint32_t kind; /* enum otte_retained_kind */
	uint64_t bytes;
	uint64_t owner_id, owner_pid;
	uint64_t since_ns;
	char reason[96];
	struct process_region *region; /* NULL: a hold, which the record is all of */
};

TAILQ_HEAD(process_records, process_record);

struct process_region {
	uint64_t id;
	UT_hash_handle hh; /* in the ledger's regions, until GONE */
	enum process_region_state state;
	struct otte_region_claim claim;
	struct process_client *owner; /* NULL: left */
	TAILQ_ENTRY(process_region) in_owner;
	struct process_loans loans; /* OFFERED and EXPOSED ones */
	uint32_t loan_count;
	struct process_record record; /* while RETAINED */
	struct process_event gone;
};

struct process_fence {
	struct otte_borrower who;
	UT_hash_handle hh;
};

struct process_client {
	struct otte_ledger_client base;
	uint64_t id;
	uint64_t pid;
	char comm[16];
	bool no_offers; /* but its own */
	UT_hash_handle hh;
	struct process_regions regions;
	struct process_loans borrowed; /* OFFERED and EXPOSED ones */
	struct process_events events;
	struct process_fence *fences;
};

/*
 * Live loans by address. Which of them an offer conflicts with follows from right and kind alone.
 */
enum process_tree {
	TREE_READ,
	TREE_WRITE,
	TREE_STANDING_READ,
	TREE_STANDING_WRITE,
	TREES,
};

struct process_ledger {
	struct otte_ledger base;
	pthread_mutex_t lock; /* protects all below and every object */
	uint64_t next_id;
	struct process_client *clients; /* tables by id, in the order of ids */
	struct process_region *regions;
	struct process_loan *loans;
	struct process_records records; /* in the order of ids */
	struct otte_itree trees[TREES];
	struct otte_quota quota;
	struct otte_ledger_counters counters;
};

static inline struct process_ledger *process_ledger_of(const struct process_client *client)
{
	return (struct process_ledger *)client->base.ledger;
}

/* process_event.c */
void process_event_raise(struct process_event *event, struct process_client *reader, uint32_t kind,
			 uint32_t evidence);
int process_event_next(struct process_client *client, struct otte_event *out);
void process_event_drop_all(struct process_client *client);

/* process_region.c */
int process_region_add(struct process_client *client, const struct otte_region_claim *claim,
		       uint64_t *id);
int process_region_del(struct process_client *client, uint64_t id);
int process_region_watch(struct process_client *client, uint64_t id,
			 struct otte_region_watch *watch);
/* Registered and its own, or the error with its text. */
int process_region_find(struct process_client *client, uint64_t id, struct process_region **region);
/* One of its loans is over. */
void process_region_loan_over(struct process_ledger *ledger, struct process_region *region);
void process_region_orphan(struct process_client *owner, struct process_region *region);
void process_region_event_read(struct process_ledger *ledger, struct process_region *region);

/* process_loan.c */
int process_loan_offer(struct process_client *lender, const struct otte_loan_terms *terms,
		       uint64_t *id);
int process_loan_accept(struct process_client *borrower, uint64_t id);
int process_loan_expose(struct process_client *lender, uint64_t id);
int process_loan_settle(struct process_client *client, uint64_t id, enum otte_evidence evidence);
int process_loan_withdraw(struct process_client *lender, uint64_t id);
int process_loan_revoke(struct process_client *lender, uint64_t id);
int process_loan_take_back(struct process_client *lender, uint64_t id, bool revoke);
/* The region's offers are withdrawn by their lender. */
void process_loan_withdraw_all(struct process_ledger *ledger, struct process_region *region);
/* An administrator ends what is left of a retained region's loans. */
void process_loan_force_all(struct process_ledger *ledger, struct process_region *region);
void process_loan_lender_left(struct process_loan *loan);
void process_loan_borrower_left(struct process_client *borrower);
void process_loan_event_read(struct process_ledger *ledger, struct process_loan *loan);
void process_loan_describe(const struct process_loan *loan, struct otte_loan_info *info);

/* process_retained.c */
void process_record_region(struct process_client *owner, struct process_region *region);
void process_record_drop(struct process_ledger *ledger, struct process_record *record);
int process_hold(struct process_client *client, uint64_t bytes, const char *reason, uint64_t *id);
int process_hold_drop(struct process_client *client, uint64_t id);
int process_release(struct process_ledger *ledger, uint64_t id);
void process_record_describe(const struct process_record *record, struct otte_retained_info *info);

/* process_fence.c */
int process_fence_add(struct process_client *client, const struct otte_borrower *who);
/* 0, or -EKEYREVOKED with its text. */
int process_fence_check(const struct process_client *client, const struct otte_borrower *who);
void process_fence_free(struct process_client *client);

#endif
