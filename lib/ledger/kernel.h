/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel back end: the rules are otte.ko's, reached through /dev/otte. What is kept here is
 * what the module does not keep, or does not say to a caller: a region's claim, the terms of what this
 * process lent, texts. Nothing here decides whether a loan may be: the module does.
 *
 * Who owns what (each in the file of its name):
 *   kernel.c           the ledger and its clients (one descriptor each), the ops
 *   kernel_region.c    a client's regions
 *   kernel_loan.c      what it lent and what it accepted
 *   kernel_retained.c  its holds, release
 *   kernel_domain.c    its part in a domain
 *   kernel_attest.c    the nonces that it awaits
 *   kernel_event.c     what the module told and nobody has asked for yet
 *   kernel_dump.c      the module's dumps as the interface's rows, and what explains a refusal
 *
 * Locks, in this order: client->lock (its descriptor's calls, its tables), netlink.lock,
 * ledger->lock (who the clients are, counts). What dumps and counters look at, a client's regions,
 * lent and holds, changes under both the first and the last, and may be read under either. A call
 * into the module never waits for a user, so holding client->lock over it lasts as long as what it has to do. Most of
 * that is to look at all pages of a region that is suspect, before it is lent (kernel_region_verify).
 *
 * What differs from the process back end is in docs/architecture.md, "The kernel back end".
 */
#ifndef OTTE_LEDGER_KERNEL_H
#define OTTE_LEDGER_KERNEL_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "ledger/ledger.h"
#include "ledger/module.h"
#include "ledger/netlink.h"

/* A client of this ledger, also after it left something behind: for counters. */
struct kernel_member {
	uint64_t id;
	struct kernel_client *client; /* NULL: left */
	UT_hash_handle hh;
};

struct kernel_ledger {
	struct otte_ledger base;
	struct otte_netlink netlink;
	uint8_t load_id[OTTE_ATTEST_MODULE_BYTES];
	struct otte_ledger_ops ops; /* without those that the module is too old for */
	bool by_address, standing_offers; /* the module knows such loans */
	uint64_t regions_max; /* of each client: the caller's limit */
	uint32_t status_regions; /* words asked for on each client's status page */
	struct otte_module_facts facts;
	pthread_mutex_t lock; /* the rest */
	struct kernel_member *members;
	uint64_t settled;
};

/* LIVE -> HIDDEN, until the module says that it is gone. */
struct kernel_region {
	uint64_t id;
	const _Atomic uint64_t *word; /* on the client's status page */
	struct otte_region_claim claim;
	bool hidden;
	UT_hash_handle hh;
};

/*
 * What this client lent (client->lent) or accepted (client->accepted). A remote loan is EXPOSED in
 * the module from its offer on, so that it excludes and is charged like any other; `exposed` is
 * what the caller was told. An entry that `ended` here waits for the module's own word of that,
 * which nobody else is to hear. The lender's entry of a local loan may outlive it until that end
 * was read: it is never taken as a proof that the loan is live.
 */
struct kernel_loan {
	uint64_t id;
	struct otte_loan_terms terms;
	bool within; /* local: its borrower is of this ledger, and counts the receipts that it gives */
	bool exposed; /* remote */
	bool fenced; /* remote: since it was offered */
	bool ended;
	struct otte_module_accepted accepted; /* by this client */
	UT_hash_handle hh;
};

/* What local clients offer to this one, from when that was read until it is answered or void. */
struct kernel_offer {
	uint64_t id;
	uint64_t lender;
	bool revocable;
	UT_hash_handle hh;
};

struct kernel_hold {
	uint64_t id;
	uint64_t bytes;
	char reason[96];
	UT_hash_handle hh;
};

struct kernel_event {
	TAILQ_ENTRY(kernel_event) link;
	struct otte_event event;
};

/* From when it is awaited until it is forgotten. */
struct otte_attest {
	LIST_ENTRY(otte_attest) link;
	uint8_t nonce[OTTE_ATTEST_NONCE_BYTES];
	uint64_t from; /* 0: nobody */
	uint32_t user;
	bool disputed; /* more clients than one sent it */
};

struct kernel_client {
	struct otte_ledger_client base;
	uint64_t id;
	int fd;
	void *status; /* the page */
	uint64_t status_bytes; /* none of these changes */
	pthread_mutex_t lock; /* the rest */
	struct kernel_region *regions;
	struct kernel_loan *lent, *accepted;
	struct kernel_offer *offers;
	struct kernel_hold *holds;
	struct otte_ledger_domain domain; /* NULLs until it has joined one */
	LIST_HEAD(kernel_attests, otte_attest) attests;
	TAILQ_HEAD(kernel_events, kernel_event) events;
	unsigned event_count;
	uint64_t missed; /* events that were forgotten, since somebody heard how many */
	struct otte_module_event refusal; /* the last one for want of budget; `level` NULL: none */
};

static inline struct kernel_ledger *kernel_ledger_of(const struct kernel_client *client)
{
	return (struct kernel_ledger *)client->base.ledger;
}

/* ---- kernel.c -------------------------------------------------------------------------------- */

/* Under ledger->lock. NULL: it never was a client of this ledger, or left nothing behind. */
struct kernel_member *kernel_member_find(struct kernel_ledger *ledger, uint64_t client);
/* Whether it is an open client of this ledger; and whether it ever was one and left something. */
bool kernel_client_is_open(struct kernel_ledger *ledger, uint64_t client);
bool kernel_client_is_ours(struct kernel_ledger *ledger, uint64_t client);
void kernel_count_settled(struct kernel_ledger *ledger, uint64_t loans);
/*
 * The module's refusals that mean the same in every call, with the text "WHAT ID: …". Others get
 * the system's words.
 */
int kernel_refused(struct kernel_client *client, int rc, const char *what, uint64_t id);

/* ---- kernel_region.c ------------------------------------------------------------------------- */

int kernel_region_add(struct kernel_client *client, const struct otte_region_claim *claim,
		      uint64_t *region);
int kernel_region_del(struct kernel_client *client, uint64_t region);
int kernel_region_watch(struct kernel_client *client, uint64_t region,
			struct otte_region_watch *watch);
/* What the module's -ESTALE means: whether its pages may be others, or there is nothing there. */
int kernel_region_refuse_stale(struct kernel_client *client, uint64_t region);
/* The one to lend from: -ENOENT, -EPERM. */
int kernel_region_find(struct kernel_client *client, uint64_t id, struct kernel_region **region);
/*
 * Whether the pages that the module holds are those that the owner has there: what is lent of them is copied from, and
 * must be what the owner sees. 0, -ESTALE.
 */
int kernel_region_verify(struct kernel_client *client, const struct kernel_region *region);
void kernel_region_gone(struct kernel_client *client, uint64_t region);
void kernel_region_free_all(struct kernel_client *client);

/* ---- kernel_loan.c --------------------------------------------------------------------------- */

int kernel_loan_offer(struct kernel_client *lender, const struct otte_loan_terms *terms,
		      uint64_t *loan);
int kernel_loan_accept(struct kernel_client *borrower, uint64_t loan);
int kernel_loan_expose(struct kernel_client *lender, uint64_t loan);
int kernel_loan_borrow(struct kernel_client *borrower, uint64_t loan, uint64_t lender,
		       struct otte_borrowed *borrowed);
/* Without the client's lock. */
int kernel_loan_copy(const struct kernel_client *borrower, uint64_t loan, uint64_t offset,
		     void *buffer, uint64_t length, uint64_t *done);
int kernel_loan_map(struct kernel_client *borrower, uint64_t loan, void **address);
/* The module told that it was offered, and that it is no longer. */
void kernel_offer_note(struct kernel_client *borrower, const struct otte_module_event *told);
void kernel_offer_forget(struct kernel_client *borrower, uint64_t loan);
int kernel_loan_settle(struct kernel_client *client, uint64_t loan, enum otte_evidence evidence);
int kernel_loan_withdraw(struct kernel_client *lender, uint64_t loan);
int kernel_loan_revoke(struct kernel_client *lender, uint64_t loan);
int kernel_loan_take_back(struct kernel_client *lender, uint64_t loan, bool revoke);
int kernel_fence(struct kernel_client *client, const struct otte_borrower *who);

/* What of this region was never exposed; 0: of all of them. */
void kernel_loan_withdraw_remote(struct kernel_client *lender, uint64_t region);
/* The module has none of this region's any more. */
void kernel_loan_region_gone(struct kernel_client *lender, uint64_t region);
/* The module said that it is over: what we knew of it, or NULL. The caller frees it. */
struct kernel_loan *kernel_loan_take(struct kernel_client *client, struct kernel_loan **table,
				     uint64_t loan);
void kernel_loan_free_all(struct kernel_client *client);
/* Under ledger->lock: what the lender's process knows better than the module. */
void kernel_loan_complete(const struct kernel_client *lender, struct otte_loan_info *info);
/* Of a peer's name in the module. */
void kernel_peer_decode(const uint8_t peer[OTTE_MODULE_PEER_LEN], struct otte_borrower *who);

/* ---- kernel_retained.c ----------------------------------------------------------------------- */

int kernel_hold(struct kernel_client *client, uint64_t bytes, const char *reason, uint64_t *hold);
int kernel_hold_drop(struct kernel_client *client, uint64_t hold);
void kernel_hold_free_all(struct kernel_client *client);
/* Under ledger->lock. */
void kernel_hold_complete(const struct kernel_client *owner, struct otte_retained_info *info);
int kernel_release(struct kernel_ledger *ledger, uint64_t retained);

/* ---- kernel_domain.c ------------------------------------------------------------------------- */

int kernel_domain_join(struct kernel_client *client, const char *name,
		       struct otte_ledger_domain *domain);
int kernel_domain_nic(struct kernel_client *client, const char *nic, uint32_t *index);
void kernel_domain_unmap(struct kernel_client *client);

/* ---- kernel_attest.c ------------------------------------------------------------------------- */

int kernel_attest_send(struct kernel_client *client, uint64_t to, const uint8_t *nonce);
int kernel_attest_await(struct kernel_client *client, const uint8_t *nonce,
			struct otte_attest **attest);
int kernel_attest_heard(struct kernel_client *client, struct otte_attest *attest, uint64_t *from,
			uint32_t *user);
void kernel_attest_forget(struct otte_attest *attest);
/* The module told it. */
void kernel_attest_note(struct kernel_client *client, const struct otte_module_event *told);

/* ---- kernel_event.c -------------------------------------------------------------------------- */

int kernel_event_next(struct kernel_client *client, struct otte_event *event);
/* Takes in what the module has to tell. */
void kernel_event_pump(struct kernel_client *client);
void kernel_event_free_all(struct kernel_client *client);

/* ---- kernel_dump.c --------------------------------------------------------------------------- */

ssize_t kernel_dump_loans(struct kernel_ledger *ledger, struct otte_loan_info *rows,
			  size_t capacity);
ssize_t kernel_dump_retained(struct kernel_ledger *ledger, struct otte_retained_info *rows,
			     size_t capacity);
/* 0, -ENOENT (with no text), or why there is no dump. */
int kernel_look_loan(struct kernel_ledger *ledger, uint64_t loan, struct otte_loan_info *info);
int kernel_look_region(struct kernel_ledger *ledger, uint64_t region, uint64_t *owner,
		       uint64_t *exposed);
int kernel_look_retained(struct kernel_ledger *ledger, uint64_t id,
			 struct otte_retained_info *info);
/* Of this ledger's clients; loans_settled and clients are the caller's to fill. */
int kernel_count(struct kernel_ledger *ledger, struct otte_ledger_counters *counters);

#endif
