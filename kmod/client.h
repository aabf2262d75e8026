/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: one open of the device by one process. See client.c.
 */
#ifndef OTTE_CLIENT_H
#define OTTE_CLIENT_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mmu_notifier.h>
#include <linux/pid.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "event.h"
#include "quota.h"

struct otte_domain_member;
struct user_struct;

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

#endif /* OTTE_CLIENT_H */
