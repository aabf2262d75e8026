// SPDX-License-Identifier: GPL-2.0-only
/*
 * Quotas: accounts at four levels, and charges that are all or nothing.
 *
 * A client is charged at every account of its payer at once: the module, each cgroup above it, its
 * user and the owners of the user namespaces around it, and itself. The accounts are fixed at
 * CLIENT_INIT; an object keeps the payer it was charged to, so that moving to another cgroup or
 * changing uid takes nothing along, and an account lives as long as somebody is charged to it.
 *
 * One spinlock protects all usage and limits: a charge touches a handful of words.
 */
#include <linux/hashtable.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "quota.h"

#define ACCOUNT_HASH_BITS	8

static DEFINE_SPINLOCK(quota_lock);
static DEFINE_HASHTABLE(accounts, ACCOUNT_HASH_BITS);
static unsigned int account_count;

const char *const otte_resource_names[OTTE_RES_COUNT] = {
	[OTTE_RES_CLIENTS] = "clients",
	[OTTE_RES_REGIONS] = "regions",
	[OTTE_RES_REGISTERED_BYTES] = "registered_bytes",
	[OTTE_RES_PINNED_BYTES] = "pinned_bytes",
	[OTTE_RES_LENT_BYTES] = "lent_bytes",
	[OTTE_RES_LOANS] = "loans",
	[OTTE_RES_RETAINED_BYTES] = "retained_bytes",
	[OTTE_RES_HOLDS] = "holds",
};

const char *const otte_level_names[OTTE_LEVEL_COUNT] = {
	[OTTE_LEVEL_MODULE] = "module",
	[OTTE_LEVEL_CGROUP] = "cgroup",
	[OTTE_LEVEL_USER] = "user",
	[OTTE_LEVEL_CLIENT] = "client",
};

#define FOR_EACH_LEVEL(_module, _cgroup, _user, _client) {	\
	[OTTE_LEVEL_MODULE] = _module,				\
	[OTTE_LEVEL_CGROUP] = _cgroup,				\
	[OTTE_LEVEL_USER] = _user,				\
	[OTTE_LEVEL_CLIENT] = _client,				\
}

#define NO_LIMIT	FOR_EACH_LEVEL(U64_MAX, U64_MAX, U64_MAX, U64_MAX)

/*
 * What one account may hold of each resource where nobody has set another limit. Records are
 * bounded from the start, bytes by RLIMIT_MEMLOCK and by whoever sets a limit.
 */
static u64 limits[OTTE_RES_COUNT][OTTE_LEVEL_COUNT] = {
	[OTTE_RES_CLIENTS]		= FOR_EACH_LEVEL(65536, 16384, 16384, 1),
	[OTTE_RES_REGIONS]		= FOR_EACH_LEVEL(1 << 20, 1 << 19, 1 << 19, 1 << 16),
	[OTTE_RES_REGISTERED_BYTES]	= NO_LIMIT,
	[OTTE_RES_PINNED_BYTES]		= NO_LIMIT,
	[OTTE_RES_LENT_BYTES]		= NO_LIMIT,
	[OTTE_RES_LOANS]		= FOR_EACH_LEVEL(1 << 20, 1 << 19, 1 << 19, 1 << 17),
	[OTTE_RES_RETAINED_BYTES]	= NO_LIMIT,
	[OTTE_RES_HOLDS]		= FOR_EACH_LEVEL(65536, 32768, 16384, 4096),
};

/*
 * And however high a limit is set. Retained bytes are charged by force, and at most once for what
 * is charged as registered, as lent and as held: three times the module's ceiling must not wrap.
 * That of the others keeps one tenant from filling the module's.
 */
static const u64 ceilings[OTTE_LEVEL_COUNT] =
	FOR_EACH_LEVEL(1ULL << 62, 1ULL << 58, 1ULL << 58, 1ULL << 56);

static u32 key_hash(const struct otte_quota_key *key)
{
	return hash_min(key->id + ((u64)key->level << 56), ACCOUNT_HASH_BITS);
}

static struct otte_account *account_find(const struct otte_quota_key *key)
{
	struct otte_account *account;

	lockdep_assert_held(&quota_lock);
	hlist_for_each_entry(account, &accounts[key_hash(key)], node) {
		if (account->key.level == key->level && account->key.id == key->id)
			return account;
	}
	return NULL;
}

/* Joins the account of @key, or makes @spare it. Returns the one joined. */
static struct otte_account *account_join(const struct otte_quota_key *key,
					 struct otte_account *spare)
{
	struct otte_account *account = account_find(key);

	if (!account) {
		account = spare;
		account->key = *key;
		hlist_add_head(&account->node, &accounts[key_hash(key)]);
		account_count++;
	}
	account->users++;
	return account;
}

/* Returns the account if nobody is left in it, for freeing outside the lock. */
static struct otte_account *account_leave(struct otte_account *account)
{
	lockdep_assert_held(&quota_lock);
	if (--account->users)
		return NULL;
	hlist_del(&account->node);
	account_count--;
	return account;
}

struct otte_payer *otte_payer_create(const struct otte_quota_key *keys, unsigned int count)
{
	struct otte_payer *payer;
	struct otte_account *spare;
	unsigned int i;

	payer = kzalloc(struct_size(payer, account, count), GFP_KERNEL_ACCOUNT);
	if (!payer)
		return NULL;
	kref_init(&payer->ref);
	for (i = 0; i < count; i++) {
		spare = kzalloc(sizeof(*spare), GFP_KERNEL_ACCOUNT);
		if (!spare) {
			otte_payer_put(payer);
			return NULL;
		}
		spin_lock(&quota_lock);
		payer->account[i] = account_join(&keys[i], spare);
		payer->count = i + 1;
		spin_unlock(&quota_lock);
		if (payer->account[i] != spare)
			kfree(spare);
	}
	return payer;
}

struct otte_payer *otte_payer_get(struct otte_payer *payer)
{
	kref_get(&payer->ref);
	return payer;
}

static void payer_free(struct kref *ref)
{
	struct otte_payer *payer = container_of(ref, struct otte_payer, ref);
	struct otte_account *empty;
	unsigned int i;

	for (i = 0; i < payer->count; i++) {
		spin_lock(&quota_lock);
		empty = account_leave(payer->account[i]);
		spin_unlock(&quota_lock);
		kfree(empty);
	}
	kfree(payer);
}

void otte_payer_put(struct otte_payer *payer)
{
	kref_put(&payer->ref, payer_free);
}

/*
 * Whether @account has room. What was charged by force may lie above the limit of retained bytes:
 * nothing more is granted then, whatever it is.
 */
static bool account_has_room(const struct otte_account *account, const struct otte_charge *charge,
			     struct otte_refusal *why)
{
	unsigned int i;
	u64 limit, sum;

	for (i = 0; i < OTTE_RES_COUNT; i++) {
		limit = limits[i][account->key.level];
		if (!charge->amount[i] &&
		    (i != OTTE_RES_RETAINED_BYTES || account->usage[i] <= limit))
			continue;
		limit = min(limit, ceilings[account->key.level]);
		if (!check_add_overflow(account->usage[i], charge->amount[i], &sum) &&
		    sum <= limit)
			continue;
		why->key = account->key;
		why->resource = i;
		why->usage = account->usage[i];
		why->limit = limit;
		why->requested = charge->amount[i];
		return false;
	}
	return true;
}

static void account_add(struct otte_account *account, const struct otte_charge *charge)
{
	unsigned int i;

	for (i = 0; i < OTTE_RES_COUNT; i++)
		account->usage[i] += charge->amount[i];
}

static void account_sub(struct otte_account *account, const struct otte_charge *charge)
{
	unsigned int i;

	for (i = 0; i < OTTE_RES_COUNT; i++) {
		if (WARN_ON_ONCE(account->usage[i] < charge->amount[i]))
			account->usage[i] = 0;
		else
			account->usage[i] -= charge->amount[i];
	}
}

int otte_quota_charge(struct otte_payer *payer, const struct otte_charge *charge,
		      struct otte_refusal *why)
{
	unsigned int i;
	int err = 0;

	spin_lock(&quota_lock);
	for (i = 0; i < payer->count; i++) {
		if (!account_has_room(payer->account[i], charge, why)) {
			err = -EDQUOT;
			goto out;
		}
	}
	for (i = 0; i < payer->count; i++)
		account_add(payer->account[i], charge);
out:
	spin_unlock(&quota_lock);
	return err;
}

void otte_quota_charge_forced(struct otte_payer *payer, const struct otte_charge *charge)
{
	unsigned int i;

	spin_lock(&quota_lock);
	for (i = 0; i < payer->count; i++)
		account_add(payer->account[i], charge);
	spin_unlock(&quota_lock);
}

void otte_quota_uncharge(struct otte_payer *payer, const struct otte_charge *charge)
{
	unsigned int i;

	spin_lock(&quota_lock);
	for (i = 0; i < payer->count; i++)
		account_sub(payer->account[i], charge);
	spin_unlock(&quota_lock);
}

u64 otte_quota_limit(enum otte_level level, enum otte_resource resource)
{
	u64 limit;

	spin_lock(&quota_lock);
	limit = limits[resource][level];
	spin_unlock(&quota_lock);
	return limit;
}

void otte_quota_set_limit(enum otte_level level, enum otte_resource resource, u64 limit)
{
	spin_lock(&quota_lock);
	limits[resource][level] = limit;
	spin_unlock(&quota_lock);
}

u64 otte_quota_module_usage(enum otte_resource resource)
{
	const struct otte_quota_key key = { .level = OTTE_LEVEL_MODULE };
	struct otte_account *account;
	u64 usage;

	spin_lock(&quota_lock);
	account = account_find(&key);
	usage = account ? account->usage[resource] : 0;
	spin_unlock(&quota_lock);
	return usage;
}

int otte_quota_read(struct otte_payer *payer, unsigned int index, struct otte_quota_key *key,
		    u64 usage[OTTE_RES_COUNT], u64 limit[OTTE_RES_COUNT])
{
	struct otte_account *account;
	unsigned int i;

	if (index >= payer->count)
		return -ENOENT;
	spin_lock(&quota_lock);
	account = payer->account[index];
	*key = account->key;
	memcpy(usage, account->usage, sizeof(account->usage));
	for (i = 0; i < OTTE_RES_COUNT; i++)
		limit[i] = limits[i][account->key.level];
	spin_unlock(&quota_lock);
	return 0;
}

bool otte_quota_copy(const struct otte_quota_key *key, struct otte_account *copy)
{
	struct otte_account *account;

	spin_lock(&quota_lock);
	account = account_find(key);
	if (account)
		*copy = *account;
	spin_unlock(&quota_lock);
	return account;
}

/* Copies up to @room accounts; returns how many there are. */
static unsigned int accounts_snapshot(struct otte_account *copy, unsigned int room)
{
	struct otte_account *account;
	unsigned int bucket, n = 0;

	spin_lock(&quota_lock);
	if (account_count <= room) {
		hash_for_each(accounts, bucket, account, node)
			copy[n++] = *account;
	} else {
		n = account_count;
	}
	spin_unlock(&quota_lock);
	return n;
}

int otte_quota_for_each(int (*show)(const struct otte_account *account, void *arg), void *arg)
{
	struct otte_account *copy = NULL;
	unsigned int i, n, room = 0;
	int err = 0;

	while ((n = accounts_snapshot(copy, room)) > room) {
		kvfree(copy);
		room = n + n / 4;
		copy = kvmalloc_array(room, sizeof(*copy), GFP_KERNEL);
		if (!copy)
			return -ENOMEM;
	}
	for (i = 0; i < n && !err; i++)
		err = show(&copy[i], arg);
	kvfree(copy);
	return err;
}
