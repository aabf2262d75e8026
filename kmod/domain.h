/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: processes that share slots, and what dumps and traces see of them. See domain.c.
 */
#ifndef OTTE_DOMAIN_H
#define OTTE_DOMAIN_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

#include "otte_priv.h"

struct otte_client;
struct vm_area_struct;

/**
 * struct otte_domain - see domain.c
 * @link: in the registry; under the ledger, as the next five
 * @id: never reused
 * @name: NUL-terminated
 * @uid: owner
 * @gid: group
 * @mode: execute bits decide who may join
 * @member_count: clients that are in; changed with @lock held too
 * @lock: protects all below
 * @members: by otte_domain_member.link
 * @slot_page: what members map
 * @nic: names by index, empty for none
 * @ticking: @tick is queued or runs
 * @tick: sums at every interval until all are idle
 * @sums: made so far
 */
struct otte_domain {
	struct list_head link;
	u64 id;
	char name[OTTE_NAME_LEN];
	kuid_t uid;
	kgid_t gid;
	u32 mode;
	unsigned int member_count;

	struct mutex lock;	/* of all below */
	struct list_head members;
	struct page *slot_page;
	char nic[OTTE_NICS_MAX][OTTE_NAME_LEN];
	bool ticking;
	struct work_struct tick;
	u64 sums;
};

/**
 * struct otte_domain_facts - one moment of a domain
 * @now_ns: that moment
 * @epoch: both of the slot page
 * @nic: names by index
 * @sums: made so far
 * @ticking: sums go on
 */
struct otte_domain_facts {
	u64 now_ns;
	struct otte_slot_epoch epoch[2];
	char nic[OTTE_NICS_MAX][OTTE_NAME_LEN];
	u64 sums;
	bool ticking;
};

/* The domain with the smallest id above @id, or NULL. Ledger held. */
struct otte_domain *otte_domain_next(u64 id);
/* Ledger held. */
void otte_domain_snapshot(struct otte_domain *domain, struct otte_domain_facts *facts);
/* Id of the domain that @client is in, or 0. Ledger held. */
u64 otte_domain_of(const struct otte_client *client);

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

#endif /* OTTE_DOMAIN_H */
