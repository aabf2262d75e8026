/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: what the files of the module share.
 *
 * Every struct is declared once, under the name of the file that owns it; the functions below it
 * are that file's. Only they change the struct's state.
 *
 * Lock order, outermost first. A lock is never taken while one below it in this list is held.
 *
 *	mmap_lock		(the caller's; held by mmap, fault and ->close)
 *	loan->map_lock		rwsem; a fault holds it shared from the check to the new PTE,
 *				revocation holds it exclusively to set loan->revoked
 *	otte_ledger_turn	mutex; the first of those who wait for the next has it. ledger.c's
 *	otte_ledger		mutex; every state, list and registry of clients, regions, loans,
 *				holds, fences and retained records
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

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/rbtree.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "compat.h"
#include "../include/uapi/linux/otte.h"

struct otte_client;
struct otte_domain_member;
struct otte_loan;
struct otte_region;
struct user_namespace;
struct user_struct;

/* ---- ledger.c: the one mutex, ids, generation, and what is left to be done outside it ---- */

extern struct workqueue_struct *otte_wq;

void otte_ledger_lock(void);
/* Also releases the backings of the regions that ended while the lock was held. May sleep long. */
void otte_ledger_unlock(void);
/* Called between two holds of a loop: whoever waits for the ledger gets it first. Not held. */
void otte_ledger_give_way(void);
/* Drops it and gives way: what was found under it may have ended when it returns. */
void otte_ledger_yield(void);
/* After each object of a walk that has no bound: yields every so many @steps, counted from 0. */
void otte_ledger_step(unsigned int *steps);
void otte_ledger_assert_held(void);

/* Grows with every change that a dump would show. Call with the ledger held. */
void otte_ledger_changed(void);
u64 otte_ledger_generation(void);

u64 otte_id_next(void);

/* Queues @region for the release of its backing at unlock. */
void otte_ledger_doom(struct otte_region *region);

/* Administrators stop admission before an unload: new clients, regions, loans get ESHUTDOWN. */
bool otte_ledger_draining(void);
void otte_ledger_set_draining(bool draining);

int otte_ledger_init(void);
void otte_ledger_exit(void);

/* ---- quota.c: accounts, limits, charges. Free of VFS and tasks ---- */

/**
 * struct otte_quota_key - names an account
 * @level: enum otte_level
 * @id: cgroup id, uid in the initial user namespace, client id; 0 for the module
 */
struct otte_quota_key {
	u32 level;
	u64 id;
};

/**
 * struct otte_account - usage of one payer at one level
 * @node: in the table of accounts
 * @users: payers that include it; freed at 0. A payer lives as long as anything it was charged for
 * @key: who
 * @usage: for each resource
 *
 * All under quota_lock.
 */
struct otte_account {
	struct hlist_node node;
	unsigned int users;
	struct otte_quota_key key;
	u64 usage[OTTE_RES_COUNT];
};

/**
 * struct otte_payer - the accounts that one client is charged to, fixed at CLIENT_INIT
 * @ref: the client's, and one of each object charged
 * @count: number of accounts
 * @account: module first, client last
 */
struct otte_payer {
	struct kref ref;
	unsigned int count;
	struct otte_account *account[];
};

/**
 * struct otte_charge - an amount for each resource, charged as one
 * @amount: by enum otte_resource
 */
struct otte_charge {
	u64 amount[OTTE_RES_COUNT];
};

/**
 * struct otte_refusal - why a charge was refused
 * @key: the account that has no room (level OTTE_LEVEL_MEMLOCK for the user's rlimit)
 * @resource: of what
 * @usage: its usage then
 * @limit: its limit then
 * @requested: what was asked for
 */
struct otte_refusal {
	struct otte_quota_key key;
	u32 resource;
	u64 usage;
	u64 limit;
	u64 requested;
};

struct otte_payer *otte_payer_create(const struct otte_quota_key *keys, unsigned int count);
struct otte_payer *otte_payer_get(struct otte_payer *payer);
void otte_payer_put(struct otte_payer *payer);

/* All or nothing over all accounts and resources: -EDQUOT fills @why. */
int otte_quota_charge(struct otte_payer *payer, const struct otte_charge *charge,
		      struct otte_refusal *why);
/* For what cannot be refused any more: retention at a death. */
void otte_quota_charge_forced(struct otte_payer *payer, const struct otte_charge *charge);
void otte_quota_uncharge(struct otte_payer *payer, const struct otte_charge *charge);

/* Default limit of every account of @level; U64_MAX for none. */
u64 otte_quota_limit(enum otte_level level, enum otte_resource resource);
void otte_quota_set_limit(enum otte_level level, enum otte_resource resource, u64 limit);
u64 otte_quota_module_usage(enum otte_resource resource);
/* Snapshot of one account of @payer; -ENOENT past the last. */
int otte_quota_read(struct otte_payer *payer, unsigned int index, struct otte_quota_key *key,
		    u64 usage[OTTE_RES_COUNT], u64 limit[OTTE_RES_COUNT]);
/* Copies the account of @key; false if nobody is charged to it. */
bool otte_quota_copy(const struct otte_quota_key *key, struct otte_account *copy);
/* Calls @show for a copy of each account in the table, without a lock held. For dumps. */
int otte_quota_for_each(int (*show)(const struct otte_account *account, void *arg), void *arg);

extern const char *const otte_resource_names[OTTE_RES_COUNT];
extern const char *const otte_level_names[OTTE_LEVEL_COUNT];

/* ---- event.c: queues that never allocate and never lose ---- */

/* What a node is embedded in; decides how its records are filled and which kref it holds. */
enum otte_event_source {
	OTTE_SOURCE_LOAN_LENDER,
	OTTE_SOURCE_LOAN_BORROWER,
	OTTE_SOURCE_REGION,
	OTTE_SOURCE_HOLD,
	OTTE_SOURCE_ATTEST,
	OTTE_SOURCE_QUOTA,
	OTTE_SOURCE_FENCED,
};

/**
 * struct otte_event_node - embedded in each object that can have events
 * @link: in the queue while @pending is not 0
 * @source: what it is embedded in
 * @pending: bit for each enum otte_event_type not yet read; told in ascending order
 */
struct otte_event_node {
	struct list_head link;
	enum otte_event_source source;
	u32 pending;
};

/**
 * struct otte_event_queue - of one client
 * @lock: protects all of it and the nodes in it
 * @nodes: first in, first out
 * @readers: readers and pollers sleep here
 * @claimed: a reader is copying the first node's record out; others wait
 * @posted_anew: types of that node that were posted since its record was built
 * @closed: posts are dropped
 */
struct otte_event_queue {
	spinlock_t lock;	/* the queue and the nodes in it */
	struct list_head nodes;
	wait_queue_head_t readers;
	u32 posted_anew;
	bool claimed;
	bool closed;
};

void otte_event_queue_init(struct otte_event_queue *queue);
void otte_event_node_init(struct otte_event_node *node, enum otte_event_source source);
/* Posts @type for @client. The caller holds a reference on the object that embeds @node. */
void otte_event_post(struct otte_client *client, struct otte_event_node *node,
		     enum otte_event_type type);
/* Takes back types that were not read yet; true if @node is idle now. */
bool otte_event_cancel(struct otte_client *client, struct otte_event_node *node, u32 types);
bool otte_event_idle(struct otte_client *client, struct otte_event_node *node);
/* At the client's end: drops what is queued. Call without the ledger. */
void otte_event_close(struct otte_client *client);

ssize_t otte_event_read(struct otte_client *client, struct file *file, char __user *buf,
			size_t count);
__poll_t otte_event_poll(struct otte_client *client, struct file *file, poll_table *wait);

/* ---- client.c: one open of the device by one process ---- */

enum otte_client_state {
	OTTE_CLIENT_NEW,	/* open, not initialised */
	OTTE_CLIENT_LIVE,
	OTTE_CLIENT_GONE,	/* its file or address space is gone; what it left is retained */
};

/* Facts about a client's end, set by those who see them, read by its work. */
enum otte_client_flag {
	OTTE_CLIENT_FILE_GONE,	/* last release of the file */
	OTTE_CLIENT_MM_GONE,	/* MMU_NOTIFY_RELEASE: the mm has no users */
	OTTE_CLIENT_GROUP_DEAD,	/* every thread of the group has exited */
	OTTE_CLIENT_INITIALISING,	/* not a fact: CLIENT_INIT runs at most once at a time */
};

/**
 * struct otte_client - see client.c
 * @ref: last put frees
 * @rcu: freed after a grace period
 * @id: set by CLIENT_INIT
 * @state: moved by client.c under the ledger; NEW to LIVE is published by a release store
 * @flags: bits of enum otte_client_flag
 * @allowlist_only: initialised with OTTE_CLIENT_ALLOWLIST
 * @fenced: by an administrator, for every lender
 * @tgid: its thread group
 * @mm: its address space, compared and never used; NULL once gone
 * @user: for locked memory
 * @uid: real uid at CLIENT_INIT
 * @cgroup: id of the leaf cgroup, 0 if unknown
 * @start_ns: boottime start of the process
 * @timens_offset_ns: monotonic offset of its time namespace
 * @comm: at CLIENT_INIT
 * @payer: who is charged
 * @charge: what the client itself was charged
 * @life: tells of the mm's end; watches page 0, which nobody maps
 * @watched: @life and @exit_wait are in place
 * @exit_wait: on the pid; its callback queues @work
 * @work: reacts to @flags; runs on otte_wq
 * @regions: by otte_region.owner_link
 * @loans: borrowed and exposed, by otte_loan.borrower_link
 * @offers: offered to it and not answered, or withdrawn and not read; same link
 * @offer_count: length of @offers
 * @holds: by otte_hold_record.owner_link
 * @fences: of clients, by id (value entries)
 * @peer_fences: struct otte_peer_fence
 * @fence_count: of both kinds
 * @allowed: ids of welcome lenders (value entries)
 * @allowed_count: length of @allowed
 * @attests: sent and not yet read
 * @attested: received and not yet read
 * @events: its queue
 * @quota_event: OTTE_EVENT_QUOTA
 * @refusal: the last one, under events.lock
 * @fenced_event: OTTE_EVENT_FENCED
 * @status_pages: the pages behind OTTE_MMAP_STATUS
 * @status_page_count: their number
 * @status_regions: words there
 * @status_used: bitmap of words in use, under the ledger
 * @member: domain.c's, set once by DOMAIN_JOIN under the ledger
 */
struct otte_client {
	struct kref ref;
	struct rcu_head rcu;
	u64 id;
	enum otte_client_state state;
	unsigned long flags;
	bool allowlist_only;
	bool fenced;

	struct pid *tgid;
	struct mm_struct *mm;
	struct user_struct *user;
	kuid_t uid;
	u64 cgroup;
	u64 start_ns;
	s64 timens_offset_ns;
	char comm[OTTE_COMM_LEN];

	struct otte_payer *payer;
	struct otte_charge charge;

	struct mmu_interval_notifier life;
	bool watched;
	wait_queue_entry_t exit_wait;
	struct work_struct work;

	struct list_head regions;
	struct list_head loans;
	struct list_head offers;
	unsigned int offer_count;
	struct list_head holds;
	struct xarray fences;
	struct list_head peer_fences;
	unsigned int fence_count;
	struct xarray allowed;
	unsigned int allowed_count;
	struct list_head attests;
	struct list_head attested;

	struct otte_event_queue events;
	struct otte_event_node quota_event;
	struct otte_refusal refusal;
	struct otte_event_node fenced_event;

	struct page **status_pages;
	unsigned int status_page_count;
	unsigned int status_regions;
	unsigned long *status_used;

	struct otte_domain_member *member;
};

#define OTTE_STATUS_REGIONS_MAX	65536

/* Registry of LIVE clients by id. Walk and look up under the ledger. */
extern struct xarray otte_clients;

struct otte_client *otte_client_create(void);
void otte_client_get(struct otte_client *client);
void otte_client_put(struct otte_client *client);
/* A LIVE client by id or NULL. Ledger held; no reference taken. */
struct otte_client *otte_client_find(u64 id);
/* One user in one cgroup: what caps count that nobody escapes by opening more clients. */
bool otte_client_same_tenant(const struct otte_client *a, const struct otte_client *b);
/* 0 if the caller is the process that initialised @client and it is LIVE. */
int otte_client_check(struct otte_client *client);
/* The file is gone: retires @client before it returns. */
void otte_client_release(struct otte_client *client);
/* Has @client look again at what it borrowed. Any context that may take a spinlock. */
void otte_client_kick(struct otte_client *client);
/* Threads and address space are gone: BORROWER_EXITED, but for mappings and copies. */
bool otte_client_exited(const struct otte_client *client);
/* Remembers @why, posts OTTE_EVENT_QUOTA, tells netlink. Call without spinlocks. */
void otte_client_refused(struct otte_client *client, const struct otte_refusal *why);
/* @client as seen by the calling task's namespaces. */
void otte_client_identity(const struct otte_client *client, struct otte_identity *identity);
u32 otte_client_tgid_seen(const struct otte_client *client);
/* The id of an account as the calling task may see it: a uid in its user namespace. */
u64 otte_client_key_seen(const struct otte_quota_key *key);
/* Whether the calling task may see what belongs to @uid: its own, or CAP_SYS_ADMIN. */
bool otte_may_see(kuid_t uid);
bool otte_may_administer(void);

int otte_client_mmap_status(struct otte_client *client, struct vm_area_struct *vma);
/* Reserves a word, or -ENOSPC. Ledger held. */
int otte_client_status_get(struct otte_client *client);
void otte_client_status_put(struct otte_client *client, unsigned int index);
u64 *otte_client_status_word(struct otte_client *client, unsigned int index);

int otte_client_init_ioctl(struct otte_client *client, void *arg);
int otte_client_attest_ioctl(struct otte_client *client, void *arg);
int otte_client_allow_ioctl(struct otte_client *client, void *arg);
int otte_client_quota_ioctl(struct otte_client *client, void *arg);

/**
 * struct otte_attest_record - a nonce on its way
 * @ref: the queue's
 * @link: in from->attests, under the ledger
 * @to_link: in to->attested, under the ledger
 * @event: in the receiver's queue
 * @from: the sender
 * @to: the receiver, whose queue's end lets go of the record; NULL until it is found
 * @nonce: what it sent
 */
struct otte_attest_record {
	struct kref ref;
	struct list_head link;
	struct list_head to_link;
	struct otte_event_node event;
	struct otte_client *from;
	struct otte_client *to;
	u8 nonce[OTTE_NONCE_LEN];
};

void otte_attest_put(struct otte_attest_record *attest);

/* ---- fence.c ---- */

/* Whether @lender may still lend to @borrower. Ledger held. */
bool otte_fence_blocks(struct otte_client *lender, struct otte_client *borrower);
bool otte_fence_blocks_peer(struct otte_client *lender, const u8 peer[OTTE_PEER_LEN],
			    u64 incarnation);
void otte_fence_free_all(struct otte_client *client);
int otte_fence_ioctl(struct otte_client *client, void *arg);

/* ---- retained.c: what lacks evidence ---- */

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

/* ---- hold.c ---- */

/**
 * struct otte_hold_record - a native object that a client could not prove drained
 * @ref: registry, events, work
 * @owner: referenced
 * @owner_link: in owner->holds
 * @kind: enum otte_hold_kind
 * @charge: what was charged for it besides retained bytes
 * @retained: listed from the start
 * @event: HOLD_RELEASED
 */
struct otte_hold_record {
	struct kref ref;
	struct otte_client *owner;
	struct list_head owner_link;
	u32 kind;
	struct otte_charge charge;
	struct otte_retained retained;
	struct otte_event_node event;
};

void otte_hold_put(struct otte_hold_record *hold);
void otte_hold_get(struct otte_hold_record *hold);
/* Ends it for good. Ledger held. */
void otte_hold_end(struct otte_hold_record *hold);
int otte_hold_ioctl(struct otte_client *client, void *arg);
int otte_hold_drop_ioctl(struct otte_client *client, void *arg);

/* ---- range.c: readers share, a writer excludes. Free of VFS ---- */

/**
 * struct otte_range - a lent range in one of its region's interval trees
 * @rb: in the tree
 * @start: first byte
 * @last: last byte
 * @subtree_last: largest @last below
 * @writer: excludes all overlapping ranges
 * @standing: but not those that stand, if it does: their lender orders them
 */
struct otte_range {
	struct rb_node rb;
	u64 start;
	u64 last;
	u64 subtree_last;
	bool writer;
	bool standing;
};

/* By whether it stands. */
struct otte_ranges {
	struct rb_root_cached readers[2];
	struct rb_root_cached writers[2];
};

#define OTTE_RANGES_NONE	((struct otte_ranges){ { RB_ROOT_CACHED, RB_ROOT_CACHED },	\
						       { RB_ROOT_CACHED, RB_ROOT_CACHED } })

/*
 * 0, -ERANGE if [offset, offset + length) is not inside [0, size), -EINVAL if it is empty. Not
 * standing.
 */
int otte_range_set(struct otte_range *range, u64 offset, u64 length, u64 size, bool writer);
bool otte_range_conflicts(struct otte_ranges *ranges, const struct otte_range *range);
void otte_range_insert(struct otte_ranges *ranges, struct otte_range *range);
void otte_range_remove(struct otte_ranges *ranges, struct otte_range *range);

/* ---- gate.c: who is using a loan's memory through the module. Free of VFS ---- */

/**
 * struct otte_gate - mappings and copies of one loan
 * @lock: protects all of it
 * @open: new ones are let in
 * @maps: VMAs
 * @copies: copies in flight
 */
struct otte_gate {
	spinlock_t lock;	/* all of it */
	bool open;
	unsigned int maps;
	unsigned int copies;
};

void otte_gate_init(struct otte_gate *gate);
void otte_gate_open(struct otte_gate *gate);
/* Shuts the gate only if nobody is inside: -EBUSY otherwise. */
int otte_gate_close_idle(struct otte_gate *gate);
/* Shuts it anyhow. */
void otte_gate_close(struct otte_gate *gate);
int otte_gate_enter_map(struct otte_gate *gate);
/* One more for a mapping that exists (mremap), even when the gate is shut. */
void otte_gate_dup_map(struct otte_gate *gate);
int otte_gate_enter_copy(struct otte_gate *gate);
/* Both return true if the gate is shut and the last one has left. */
bool otte_gate_leave_map(struct otte_gate *gate);
bool otte_gate_leave_copy(struct otte_gate *gate);
bool otte_gate_is_open(struct otte_gate *gate);
bool otte_gate_idle(struct otte_gate *gate);
bool otte_gate_copying(struct otte_gate *gate);

/* ---- region.c ---- */

enum otte_region_state {
	OTTE_REGION_LIVE,
	OTTE_REGION_CLOSING,	/* deleted by its owner, loans are still exposed */
	OTTE_REGION_RETAINED,	/* the owner is gone, loans are still exposed */
	OTTE_REGION_GONE,	/* backing released or about to be */
};

/**
 * struct otte_region - see region.c
 * @ref: last put frees
 * @rcu: freed after a grace period
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
	struct rcu_head rcu;
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

/* ---- pages.c, escrow.c: the two backings that the module holds ---- */

int otte_pages_pin(struct otte_region *region, struct otte_refusal *why);
void otte_pages_unpin(struct otte_region *region);
/* 0 if the owner still maps the pinned pages, -ESTALE, -EFAULT. By the owner, no lock held. */
int otte_pages_verify(struct otte_region *region);
bool otte_pages_supported(void);

int otte_escrow_take(struct otte_region *region, int fd);
void otte_escrow_drop(struct otte_region *region);

/* ---- loan.c ---- */

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
 * @state: moved by otte_loan_move() under the ledger
 * @direction: OTTE_READ | OTTE_WRITE
 * @flags: OTTE_LOAN_*; of an exposure STANDING and BY_ADDRESS only, of an offer all but BY_ADDRESS
 * @accepted: mask of evidence the lender accepts, FORCED always
 * @evidence: why it ended
 * @ending: evidence to settle with once copies have drained; 0 if not being revoked
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
/* An EXPOSED loan borrowed by @borrower, with a reference. RCU lookup, no lock needed. */
struct otte_loan *otte_loan_get_borrowed(struct otte_client *borrower, u64 id);
/* Looks at a loan whose borrower is gone: settles it or retains it. Ledger held. */
void otte_loan_borrower_gone(struct otte_loan *loan);
/* OFFERED only: the offer is void, and its lender is told unless it was it. Ledger held. */
void otte_loan_void(struct otte_loan *loan, bool tell_lender);
/*
 * Zaps every mapping and lets no new copy in; settles with @evidence (REVOKED or FORCED), now or
 * when the last copy ends. Takes the ledger. @draining is set if a copy is still in flight.
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

/* ---- copy.c, map.c ---- */

#define OTTE_COPY_MAX_BYTES	(256UL << 20)

int otte_loan_copy_ioctl(struct otte_client *client, void *arg);

/* Bytes of one loan's window of mmap offsets, and the number of windows. */
#define OTTE_MAP_WINDOW_SHIFT	42
#define OTTE_MAP_SLOTS		0x100000U

/* A window for a loan about to be accepted; may wait for memory. */
int otte_map_slot_reserve(u32 *slot);
/* It is @loan's from now on. Ledger held. */
void otte_map_slot_use(struct otte_loan *loan, u32 slot);
/* Nobody maps @slot any more, or has yet; 0 is none. */
void otte_map_slot_release(u32 slot);
static inline u64 otte_map_offset(u32 slot)
{
	return (u64)slot << OTTE_MAP_WINDOW_SHIFT;
}

int otte_map_mmap(struct otte_client *client, struct file *file, struct vm_area_struct *vma);
/* No PTE of @loan is left when it returns. No lock held. */
void otte_map_zap(struct otte_loan *loan);
int otte_map_init(void);
void otte_map_exit(void);
/* Every open uses this inode's mapping. */
struct inode *otte_map_inode(void);
/* Makes @vma a read-only or writable window on module pages; see uapi "Shared pages". */
int otte_map_pages(struct vm_area_struct *vma, struct page **pages, unsigned int count,
		   bool writable);

/* ---- main.c ---- */

/* 16 bytes. */
const u8 *otte_load_id(void);
u64 otte_features(void);

/*
 * ---- Seams: domain.c, netlink.c, sysfs.c, trace.h ----
 *
 * All init functions are called from module init in the order domain, sysfs (attribute groups are
 * handed to the misc device before it is registered), netlink; exits in reverse after the device
 * is gone.
 */

int otte_domain_init(void);
void otte_domain_exit(void);
/* ioctl handlers; @arg is the uapi struct, in kernel memory, to be filled in place. */
int otte_domain_join_ioctl(struct otte_client *client, void *arg);
int otte_domain_nic_ioctl(struct otte_client *client, void *arg);
int otte_domain_kick_ioctl(struct otte_client *client, void *arg);
int otte_domain_set_ioctl(struct otte_client *client, void *arg);
int otte_domain_del_ioctl(struct otte_client *client, void *arg);
/* @offset is OTTE_MMAP_SLOT, _LOAD or _SHARE. mmap_lock held: must not take the ledger. */
int otte_domain_mmap(struct otte_client *client, struct vm_area_struct *vma, u64 offset);
/* The client is gone: its share counts no more within one interval. No lock held, may sleep. */
void otte_domain_client_gone(struct otte_client *client);
/* Last reference of the client: frees client->member. Must not sleep. */
void otte_domain_client_free(struct otte_client *client);

/* What is multicast to administrators. */
enum otte_notice {
	OTTE_NOTICE_CLIENT_NEW,
	OTTE_NOTICE_CLIENT_GONE,
	OTTE_NOTICE_RETAINED,
	OTTE_NOTICE_RELEASED,
	OTTE_NOTICE_QUOTA,
	OTTE_NOTICE_FENCED,
	OTTE_NOTICE_COUNT,
};

int otte_netlink_init(void);
void otte_netlink_exit(void);
/*
 * Best effort. @id is the client or retained record; @why is set for QUOTA only. Process context;
 * the ledger may be held, so it must not be taken.
 */
void otte_netlink_event(enum otte_notice notice, u64 id, const struct otte_refusal *why);

int otte_sysfs_init(void);
void otte_sysfs_exit(void);
/* NULL-terminated, for struct miscdevice.groups. */
extern const struct attribute_group *otte_sysfs_groups[];
/* Called once the device is registered, and before it is deregistered. */
int otte_sysfs_device_added(struct device *dev);
void otte_sysfs_device_removed(void);
/*
 * A record was listed or is about to leave the list. The ledger is held, so directories cannot be
 * made or removed here: mark and queue work, which walks otte_retained_next() under the ledger,
 * drops it, then makes what is missing (up to its cap) and removes what is gone.
 */
void otte_sysfs_retained_add(struct otte_retained *record);
void otte_sysfs_retained_del(struct otte_retained *record);

#endif /* OTTE_PRIV_H */
