/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ledger: who registered what, who borrowed it, which evidence ended the loan, what is
 * retained.
 *
 * One interface, two back ends (docs/architecture.md, "Ledger", has the prose):
 *   process.c  the rules inside one process
 *   kernel.c   the same rules in otte.ko, through /dev/otte (kernel.h says where it differs)
 * tests/unit/ledger holds one conformance suite that drives every state and event over each.
 *
 * Loan states, moved only by the calls below:
 *   OFFERED -> EXPOSED -> SETTLED        OFFERED -> WITHDRAWN
 *
 * All calls are thread-safe, return 0 or a negative errno with the text set, and hold no lock of
 * the caller. The engine is one client of its ledger.
 *
 * Ids are never 0, never used again, and different for all objects of a ledger. An id that names
 * nothing live is -ENOENT in every call (a loan that ended names nothing, whether or not its events
 * were read); one that names another client's object is -EPERM. -ENOMEM leaves nothing half-done.
 */
#ifndef OTTE_LEDGER_LEDGER_H
#define OTTE_LEDGER_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct otte_attest;
struct otte_ledger;
struct otte_ledger_client;

enum otte_evidence {
	OTTE_EVIDENCE_NONE = 0,
	OTTE_EVIDENCE_NEVER_EXPOSED = 1,
	OTTE_EVIDENCE_RETURNED = 2,        /* the borrower's receipt */
	OTTE_EVIDENCE_UNMAPPED = 3,        /* the module's own mapping and copies are gone */
	OTTE_EVIDENCE_REVOKED = 4,         /* authority withdrawn and drained by the lender */
	OTTE_EVIDENCE_BORROWER_EXITED = 5, /* only where the lender accepted it */
	OTTE_EVIDENCE_FORCED = 6,          /* an administrator, after revoke and drain */
};

#define OTTE_EVIDENCE_BIT(e) (1u << (e))
#define OTTE_EVIDENCE_DEFAULT                                                                    \
	(OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_NEVER_EXPOSED) |                                        \
	 OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_RETURNED) | OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_UNMAPPED) | \
	 OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_REVOKED))

enum otte_loan_state {
	OTTE_LOAN_OFFERED = 0,
	OTTE_LOAN_EXPOSED = 1,
	OTTE_LOAN_SETTLED = 2,
	OTTE_LOAN_WITHDRAWN = 3,
};

enum otte_loan_right {
	OTTE_LOAN_READ = 0,  /* the borrower may read; readers share */
	OTTE_LOAN_WRITE = 1, /* the borrower may write; excludes every overlapping loan */
};

enum otte_backing {
	OTTE_BACKING_NONE = 0,  /* bookkeeping */
	OTTE_BACKING_PAGES = 1, /* pinned by the ledger: kernel back end only, else -EOPNOTSUPP */
	OTTE_BACKING_FILE = 2,  /* an escrowed object: kernel back end only, else -EOPNOTSUPP */
};

/* Who borrows: a local client by id, or one incarnation of a remote peer. */
struct otte_borrower {
	uint64_t client;         /* 0: remote */
	uint8_t incarnation[16]; /* remote: of its process */
	uint64_t epoch;          /* remote: of its engine */
};

#define OTTE_LOAN_REVOCABLE 1u /* the lender may end it with loan_revoke */
#define OTTE_LOAN_MAPPABLE 2u  /* a region of backing PAGES or FILE only, else -EOPNOTSUPP */
/*
 * A standing loan covers many requests of one peer, region and right. The lender orders overlapping
 * requests itself, so standing loans exclude nothing among each other; one-shot loans still
 * conflict with them as usual.
 */
#define OTTE_LOAN_STANDING 4u
/*
 * To a remote borrower, which reaches the bytes through the lender alone: it goes by address, and
 * nobody holds pages. Memory whose pages may have been replaced can be lent so, by a module that
 * knows of it; by one that does not, as by all others, -ESTALE.
 */
#define OTTE_LOAN_BY_ADDRESS 8u

struct otte_loan_terms {
	uint64_t region;
	uint64_t offset;
	uint64_t length;
	uint32_t right;    /* enum otte_loan_right */
	uint32_t flags;    /* OTTE_LOAN_* */
	uint32_t accepted; /* OTTE_EVIDENCE_BIT of all but FORCED; 0: the default four */
	uint32_t reserved;
	uint64_t tag; /* the lender's, shown in dumps */
	struct otte_borrower borrower;
};

struct otte_region_claim {
	uint64_t address;
	uint64_t length;
	uint32_t access;  /* OTTE_REMOTE_* */
	uint32_t backing; /* enum otte_backing */
};

/*
 * Whether what a region named is still what is mapped there. The back end changes the word before
 * the munmap() or mremap() that makes it otherwise returns: bytes that were copied before a look
 * that finds it fresh were copied from, or to, what was registered. A look is a load: no lock, no
 * system call. Good until region_del() or client_close().
 *
 * It is for those who go by address. Pages may be replaced under an address without the word saying
 * so (copy on write, swap, migration, madvise()): they show what the owner sees there.
 */
struct otte_region_watch {
	const _Atomic uint64_t *word;
	uint64_t mask; /* 0: it never changes, since nobody looks */
	uint64_t fresh; /* what the masked word is until then */
	uint64_t suspect; /* any of these: its pages may have been replaced */
};

static inline bool otte_region_is_fresh(const struct otte_region_watch *watch)
{
	/* After the copy. TSan does not know fences. */
#ifndef __SANITIZE_THREAD__
	atomic_thread_fence(memory_order_acquire);
#endif
	return (atomic_load_explicit(watch->word, memory_order_acquire) & watch->mask) ==
	       watch->fresh;
}

/*
 * Budgets, each refused with -EDQUOT naming it. 0: none of it. UINT64_MAX: no limit. A loan or
 * region that is over stays charged to `loans` or `regions` until the events that speak of it were
 * read, so that a client which reads none cannot make the ledger grow. An owner's death is never
 * refused: it may charge retained_bytes beyond its limit, and while that is so no new loan is
 * offered.
 */
struct otte_ledger_limits {
	uint64_t regions;
	uint64_t registered_bytes;
	uint64_t loans;
	uint64_t lent_bytes;
	uint64_t retained_bytes;
};

/* Nobody but itself may offer this client a loan: -EACCES. It lends as it likes. */
#define OTTE_CLIENT_NO_OFFERS 1u

struct otte_ledger_counters {
	uint64_t clients;
	uint64_t regions;
	uint64_t registered_bytes;
	uint64_t loans; /* OFFERED or EXPOSED */
	uint64_t lent_bytes;
	uint64_t loans_settled; /* ever */
	uint64_t retained;      /* records */
	uint64_t retained_bytes;
};

enum otte_event_kind {
	OTTE_EVENT_OFFERED = 1,     /* to the borrower */
	OTTE_EVENT_WITHDRAWN = 2,   /* to the borrower, or to the lender: the borrower left first */
	OTTE_EVENT_SETTLED = 3,     /* to the lender, when another than itself settled it */
	OTTE_EVENT_REVOKED = 4,     /* to the borrower: by its lender, or FORCED */
	OTTE_EVENT_OWNER_GONE = 5,  /* to the borrower: the backing is retained for it */
	OTTE_EVENT_REGION_GONE = 6, /* to the owner: an unregistered region's last loan settled */
	OTTE_EVENT_MISSED = 7,      /* kernel only: to who was late, see event_next() */
};

struct otte_event {
	uint32_t kind;     /* enum otte_event_kind */
	uint32_t evidence; /* enum otte_evidence, of SETTLED and REVOKED */
	uint64_t region;
	uint64_t loan; /* 0 in REGION_GONE */
	uint64_t tag;
	uint64_t missed; /* of MISSED: how many events were forgotten */
};

struct otte_loan_info {
	uint64_t id;
	uint64_t lender; /* client id */
	uint32_t state;
	uint32_t evidence;
	struct otte_loan_terms terms;
};

enum otte_retained_kind {
	OTTE_RETAINED_REGION = 1, /* the owner left while loans lacked evidence */
	OTTE_RETAINED_HOLD = 2,   /* a native object that its owner could not prove drained */
	OTTE_RETAINED_LOAN = 3,   /* kernel only: its borrower left without accepted evidence */
};

struct otte_retained_info {
	uint64_t id;
	uint32_t kind;
	uint32_t loans; /* still without evidence; 0 for a hold */
	uint64_t bytes;
	uint64_t owner; /* client id */
	uint64_t owner_pid;
	uint64_t since_ns;
	char reason[96];
};

#define OTTE_ATTEST_MODULE_BYTES 16
#define OTTE_ATTEST_NONCE_BYTES 32

/*
 * A client's part in an arbitration domain of the node: the module's pages, as its ABI has them.
 * Mapped until the client closes. Only `share` is the client's to write.
 */
struct otte_slot_page;
struct otte_load_page;
struct otte_share_page;

struct otte_ledger_domain {
	const struct otte_slot_page *slot;
	const struct otte_load_page *load;
	struct otte_share_page *share;
};

/* What a borrower got. */
struct otte_borrowed {
	uint64_t length;
	uint32_t right; /* enum otte_loan_right */
	bool mappable;
	bool revocable; /* its lender can take it away at any moment */
};

struct otte_ledger_ops {
	const char *name; /* "process", "kernel" */

	/*
	 * Frees all of it. After the last client_close; what is retained is forgotten, and logged.
	 */
	void (*close)(struct otte_ledger *ledger);

	/* `flags`: OTTE_CLIENT_*. */
	int (*client_open)(struct otte_ledger *ledger, const char *comm, uint32_t flags,
			   struct otte_ledger_client **client);
	uint64_t (*client_id)(const struct otte_ledger_client *client);
	/*
	 * The owner leaves: its offers are withdrawn, regions without live loans go, the others are
	 * retained with their charge until evidence arrives, and borrowers are told. As a borrower
	 * it leaves its exposed loans without evidence, or with BORROWER_EXITED where that was
	 * accepted; offers to it are withdrawn and their lenders told. Its holds stay, for
	 * release() to end.
	 */
	void (*client_close)(struct otte_ledger_client *client);

	/* -EINVAL malformed, -EOPNOTSUPP backing, -EDQUOT. Ranges may overlap other regions'. */
	int (*region_add)(struct otte_ledger_client *client, const struct otte_region_claim *claim,
			  uint64_t *region);
	/*
	 * Hides the region at once (no new offers, -ENOENT) and withdraws its offers. 0: it is
	 * gone. -EINPROGRESS: loans are exposed; OTTE_EVENT_REGION_GONE follows when the last one
	 * settles. Called again: -EALREADY while that is pending, then -ENOENT.
	 */
	int (*region_del)(struct otte_ledger_client *client, uint64_t region);
	/* How to look whether it is what was registered. -ENOENT, -EPERM. */
	int (*region_watch)(struct otte_ledger_client *client, uint64_t region,
			    struct otte_region_watch *watch);

	/*
	 * -EINVAL malformed, -ENOENT region unknown or hidden, -ERANGE, -EACCES right, -EOPNOTSUPP
	 * flag, -ESRCH no such local borrower, -EACCES one that takes no offers, -EKEYREVOKED
	 * fenced, -EBUSY conflict, -EDQUOT.
	 * Ranges conflict by address, so aliases of one range do as well; an offer excludes like a
	 * loan.
	 */
	int (*loan_offer)(struct otte_ledger_client *lender, const struct otte_loan_terms *terms,
			  uint64_t *loan);
	/*
	 * By the named local borrower, once. -ENOENT unknown, -EPERM another's, -EALREADY twice,
	 * -EKEYREVOKED fenced since it was offered (it stays OFFERED).
	 */
	int (*loan_accept)(struct otte_ledger_client *borrower, uint64_t loan);
	/*
	 * Of a client that takes no offers: those of this lender are taken from now on, or no
	 * longer. Again: 0. -ENOENT no such client, or it was not welcome; -EDQUOT. NULL, with the
	 * three below, where nothing can be borrowed: in a back end that itself reaches nobody's
	 * memory, or with a module that is too old.
	 */
	int (*welcome)(struct otte_ledger_client *client, uint64_t lender, bool welcome);
	/*
	 * loan_accept for one that the back end itself can reach, of this lender and no other
	 * (-EPERM). Of what was not offered, or is accepted already: -ENOENT.
	 */
	int (*loan_borrow)(struct otte_ledger_client *borrower, uint64_t loan, uint64_t lender,
			   struct otte_borrowed *borrowed);
	/*
	 * Copies from or to `offset` of a borrowed loan, by its right: *done bytes of it, 1 to
	 * `length`. On error none: -EKEYREVOKED it was revoked or settled, -ESTALE its lender, who
	 * lives, has unmapped it or was found to have other pages there, -EFAULT the buffer. With a
	 * `length` of 0 that is all that is looked at. Good beyond the lender's death. Takes no
	 * lock. Where the buffer blocks (userfaultfd) the loan is not held.
	 */
	int (*loan_copy)(struct otte_ledger_client *borrower, uint64_t loan, uint64_t offset,
			 void *buffer, uint64_t length, uint64_t *done);
	/*
	 * Maps a borrowed loan, for munmap() before it is settled. Who touches it once it was
	 * revoked gets a SIGBUS, so one that is to be mapped is lent without OTTE_LOAN_REVOCABLE,
	 * and one that is `revocable` after all is not to be mapped, whatever its lender says;
	 * then only an administrator who releases what a dead lender left behind does that to it.
	 * -EOPNOTSUPP: not mappable.
	 */
	int (*loan_map)(struct otte_ledger_client *borrower, uint64_t loan, void **address);
	/* By the lender, for a remote borrower; -EPERM for a local one. Else as loan_accept. */
	int (*loan_expose)(struct otte_ledger_client *lender, uint64_t loan);
	/*
	 * An EXPOSED loan: by its local borrower with RETURNED, or by the lender of a remote one
	 * with what it can attest: NEVER_EXPOSED (no byte of the authority left us), RETURNED (the
	 * peer's receipt), REVOKED (invalidated and drained), BORROWER_EXITED. -EINVAL: evidence
	 * this caller cannot give, or an offer (withdraw it); -EPERM: not accepted by the lender's
	 * terms.
	 */
	int (*loan_settle)(struct otte_ledger_client *client, uint64_t loan,
			   enum otte_evidence evidence);
	/*
	 * By the lender, of an OFFERED loan; -EBUSY for an EXPOSED one, which only evidence ends.
	 */
	int (*loan_withdraw)(struct otte_ledger_client *lender, uint64_t loan);
	/*
	 * By the lender, of an EXPOSED loan to a local borrower that was offered as REVOCABLE: ends
	 * the borrower's authority, settles as REVOKED and tells the borrower. -EPERM: not
	 * revocable, not accepted, or remote (invalidate it and settle); -EINVAL: an offer
	 * (withdraw it). The process back end can unmap nothing: there this is the lender's own
	 * statement that it has. -EINPROGRESS: no copy begins any more, one still moves a chunk; the
	 * loan settles when that is done, after which this is -ENOENT. A copy that waits for its
	 * buffer to be faulted in is not waited for.
	 */
	int (*loan_revoke)(struct otte_ledger_client *lender, uint64_t loan);
	/*
	 * loan_withdraw, and where it is exposed and `revoke`, loan_revoke, for a lender that names
	 * what it has offered itself to a local borrower: of whatever is not live and its own this
	 * is -ENOENT, which costs no look through what everybody has lent.
	 */
	int (*loan_take_back)(struct otte_ledger_client *lender, uint64_t loan, bool revoke);

	/* No new loans of this client to `who`, nor offers accepted. Ends none. Again: 0. */
	int (*fence)(struct otte_ledger_client *client, const struct otte_borrower *who);

	/* Record a native object as retained; -EDQUOT. Dropped by its owner once it is drained. */
	int (*hold)(struct otte_ledger_client *client, uint64_t bytes, const char *reason,
		    uint64_t *hold);
	int (*hold_drop)(struct otte_ledger_client *client, uint64_t hold);

	/*
	 * Which client another process is, as the module attests it: one sends a nonce, the other one, who awaits
	 * that nonce, learns whose it is. NULL, all five, in a back end that cannot say so.
	 */
	/* Which load of the module: among its clients, on this host and since then, ids are good. */
	void (*attest_module)(const struct otte_ledger_client *client,
			      uint8_t module[OTTE_ATTEST_MODULE_BYTES]);
	/* -ENOENT no such client, -EDQUOT it has too many unread ones. */
	int (*attest_send)(struct otte_ledger_client *client, uint64_t to,
			   const uint8_t nonce[OTTE_ATTEST_NONCE_BYTES]);
	/* One that nobody awaits is dropped. The number of those awaited is the caller's to bound. */
	int (*attest_await)(struct otte_ledger_client *client,
			    const uint8_t nonce[OTTE_ATTEST_NONCE_BYTES], struct otte_attest **attest);
	/*
	 * Whose it was. -EAGAIN, without a text: nobody has sent it, or more clients than one, or it stands
	 * behind more events than one call reads. `user`, unless NULL: whose process that is, as this process's user
	 * namespace has it.
	 */
	int (*attest_heard)(struct otte_ledger_client *client, struct otte_attest *attest,
			    uint64_t *from, uint32_t *user);
	/* For each one awaited, before client_close. */
	void (*attest_forget)(struct otte_ledger_client *client, struct otte_attest *attest);

	/*
	 * The client's oldest event. -EAGAIN when there is none (no text). Each lives in the object
	 * it speaks of, so none is lost; but the kernel back end, which must read along to have
	 * what it ended uncharged, keeps only the last 1,024 that nobody asked for. Then the next
	 * event is MISSED: look at the dumps.
	 */
	int (*event_next)(struct otte_ledger_client *client, struct otte_event *event);

	/*
	 * Joins a domain, once for each client, which leaves it when it ends. -ENOENT no such
	 * domain, -EACCES its owner, group and mode do not let this process in, -ENOSPC it is full,
	 * -EALREADY a second time. NULL: this back end has no domains.
	 */
	int (*domain_join)(struct otte_ledger_client *client, const char *name,
			   struct otte_ledger_domain *domain);
	/*
	 * Of a client that has joined, like the next: where the domain counts bytes of this NIC.
	 * -ENOSPC: it counts as many others as it can.
	 */
	int (*domain_nic)(struct otte_ledger_client *client, const char *nic, uint32_t *index);
	/* Have the sums made now, where that can be. Takes no lock of the ledger's. */
	void (*domain_kick)(struct otte_ledger_client *client);

	/*
	 * Rows are copied in the order of their ids; returns how many there are, of which at most
	 * `capacity` were written. Loans that are over show until their events were read.
	 */
	ssize_t (*dump_loans)(struct otte_ledger *ledger, struct otte_loan_info *rows,
			      size_t capacity);
	ssize_t (*dump_retained)(struct otte_ledger *ledger, struct otte_retained_info *rows,
				 size_t capacity);
	/* Administrator: revoke, drain, settle as FORCED, drop the record. -ENOENT: no record. */
	int (*release)(struct otte_ledger *ledger, uint64_t retained);
	void (*counters)(struct otte_ledger *ledger, struct otte_ledger_counters *counters);
};

/* First members of each back end's own structs. */
struct otte_ledger {
	const struct otte_ledger_ops *ops;
};

struct otte_ledger_client {
	struct otte_ledger *ledger;
};

/* "RETURNED"; "?" for none. Static storage. */
const char *otte_evidence_name(uint32_t evidence);

/* The process back end. `limits` NULL: none. */
int otte_ledger_process_open(const struct otte_ledger_limits *limits, struct otte_ledger **ledger);

/*
 * The kernel back end, over /dev/otte. Of `limits` it takes `regions`, the words on its status page
 * (NULL: as many as there can be): all else is the module's to limit. Fails closed: -ENODEV no
 * node, -EACCES no permission, -EPROTONOSUPPORT another ABI or a missing feature, named.
 */
int otte_ledger_kernel_open(const struct otte_ledger_limits *limits, struct otte_ledger **ledger);

/*
 * By kind: enum otte_ledger_kind. AUTO takes the kernel's where it can be had, else the
 * process's, and logs which, and why.
 */
int otte_ledger_open(uint32_t kind, const struct otte_ledger_limits *limits,
		     struct otte_ledger **ledger);

#endif
