/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: accounts, limits, charges. Free of VFS and tasks. See quota.c.
 */
#ifndef OTTE_QUOTA_H
#define OTTE_QUOTA_H

#include <linux/kref.h>
#include <linux/list.h>

#include "otte_priv.h"

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

#endif /* OTTE_QUOTA_H */
