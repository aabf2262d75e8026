// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "otte": dumps of the ledger, and notices for administrators.
 *
 * A dump has a cursor, made when it is asked for and freed when it ends or its socket is closed. It
 * holds who asked (user id, administrator or not, pid and user namespace) and the id up to which
 * the answer was given; later parts are made in whatever process reads the socket, so nothing of
 * current is looked at then. Each part walks a registry by id with the ledger held, and goes on
 * behind the last id next time. Ids only grow, so a dump ends, and shows each object that was there
 * throughout exactly once.
 *
 * Netlink serialises the parts of one dump; the cursor needs no lock. Notices are sent with the
 * ledger held, or not; nothing here takes it then.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/ktime.h>
#include <linux/netlink.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <net/genetlink.h>

#include "../include/uapi/linux/otte_netlink.h"
#include "client.h"
#include "domain.h"
#include "ledger.h"
#include "loan.h"
#include "netlink.h"
#include "quota.h"
#include "region.h"
#include "retained.h"
#include "slot.h"
#include "trace.h"

#define STEPS_HELD	512	/* objects looked at before the ledger is dropped for a moment */

static struct genl_family otte_family;
static bool registered;

/**
 * struct cursor - of one dump
 * @uid: who asked
 * @admin: sees everything
 * @pid_ns: of who asked; referenced
 * @user_ns: of who asked; referenced
 * @last: everything up to this id has been answered
 * @accounts: ACCOUNTS: copies of those that may be seen, taken at the first part
 * @account_count: their number
 * @account_room: that array's
 */
struct cursor {
	kuid_t uid;
	bool admin;
	struct pid_namespace *pid_ns;
	struct user_namespace *user_ns;
	u64 last;
	struct otte_account *accounts;
	unsigned int account_count;
	unsigned int account_room;
};

static bool may_see(const struct cursor *cursor, kuid_t uid)
{
	return cursor->admin || uid_eq(cursor->uid, uid);
}

/* ---- attributes ---- */

static int put_u64(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, OTTE_A_PAD);
}

static int put_uid(struct sk_buff *skb, const struct cursor *cursor, kuid_t uid)
{
	return nla_put_u32(skb, OTTE_A_UID, from_kuid_munged(cursor->user_ns, uid));
}

/* Who a client is; of its tgid what the asker's pid namespace calls it. */
static int put_person(struct sk_buff *skb, const struct cursor *cursor,
		      const struct otte_client *client)
{
	char comm[OTTE_COMM_LEN + 1] = {};

	memcpy(comm, client->comm, OTTE_COMM_LEN);
	if (nla_put_u32(skb, OTTE_A_TGID, pid_nr_ns(client->tgid, cursor->pid_ns)) ||
	    put_uid(skb, cursor, client->uid) ||
	    nla_put_string(skb, OTTE_A_COMM, comm))
		return -EMSGSIZE;
	return 0;
}

static int put_client(struct sk_buff *skb, struct cursor *cursor, struct otte_client *client)
{
	if (put_u64(skb, OTTE_A_ID, client->id) ||
	    put_person(skb, cursor, client) ||
	    put_u64(skb, OTTE_A_CGROUP, client->cgroup) ||
	    put_u64(skb, OTTE_A_START_NS, client->start_ns) ||
	    nla_put_u32(skb, OTTE_A_FENCED, client->fenced) ||
	    put_u64(skb, OTTE_A_DOMAIN, otte_domain_of(client)))
		return -EMSGSIZE;
	return 0;
}

static int put_region(struct sk_buff *skb, struct otte_region *region)
{
	if (put_u64(skb, OTTE_A_ID, region->id) ||
	    put_u64(skb, OTTE_A_OWNER, region->owner->id) ||
	    nla_put_u32(skb, OTTE_A_STATE, region->state) ||
	    nla_put_u32(skb, OTTE_A_BACKING, region->backing) ||
	    nla_put_u32(skb, OTTE_A_ACCESS, region->access) ||
	    put_u64(skb, OTTE_A_BYTES, region->length) ||
	    put_u64(skb, OTTE_A_TAG, region->tag) ||
	    put_u64(skb, OTTE_A_WORD, otte_region_word(region)) ||
	    nla_put_u32(skb, OTTE_A_LOANS, region->loan_count) ||
	    nla_put_u32(skb, OTTE_A_EXPOSED, region->exposed_count))
		return -EMSGSIZE;
	return 0;
}

static int put_loan(struct sk_buff *skb, const struct cursor *cursor, struct otte_loan *loan)
{
	bool lender = may_see(cursor, loan->lender->uid);

	if (put_u64(skb, OTTE_A_ID, loan->id) ||
	    put_u64(skb, OTTE_A_OWNER, loan->lender->id) ||
	    nla_put_u32(skb, OTTE_A_STATE, loan->state) ||
	    nla_put_u32(skb, OTTE_A_DIRECTION, loan->direction) ||
	    nla_put_u32(skb, OTTE_A_FLAGS, loan->flags) ||
	    nla_put_u32(skb, OTTE_A_ACCEPTED, loan->accepted) ||
	    nla_put_u32(skb, OTTE_A_EVIDENCE, loan->evidence) ||
	    put_u64(skb, OTTE_A_BYTES, otte_loan_length(loan)) ||
	    put_u64(skb, OTTE_A_TAG, loan->tag))
		return -EMSGSIZE;
	if (loan->borrower) {
		if (put_u64(skb, OTTE_A_BORROWER, loan->borrower->id))
			return -EMSGSIZE;
	} else if (nla_put(skb, OTTE_A_PEER, sizeof(loan->peer), loan->peer) ||
		   put_u64(skb, OTTE_A_INCARNATION, loan->incarnation)) {
		return -EMSGSIZE;
	}
	if (lender && (put_u64(skb, OTTE_A_REGION, loan->region->id) ||
		       put_u64(skb, OTTE_A_OFFSET, otte_loan_offset(loan))))
		return -EMSGSIZE;
	return 0;
}

static int put_retained(struct sk_buff *skb, const struct cursor *cursor,
			struct otte_retained *record)
{
	if (put_u64(skb, OTTE_A_ID, record->id) ||
	    nla_put_u32(skb, OTTE_A_KIND, record->kind) ||
	    put_u64(skb, OTTE_A_OWNER, record->owner->id) ||
	    put_person(skb, cursor, record->owner) ||
	    put_u64(skb, OTTE_A_CGROUP, record->owner->cgroup) ||
	    put_u64(skb, OTTE_A_BYTES, record->bytes) ||
	    nla_put_u32(skb, OTTE_A_REASON, record->reason) ||
	    put_u64(skb, OTTE_A_TAG, record->tag) ||
	    put_u64(skb, OTTE_A_AGE_NS, ktime_get_boottime_ns() - record->since_ns))
		return -EMSGSIZE;
	return 0;
}

static int put_epochs(struct sk_buff *skb, const struct otte_domain_facts *facts)
{
	int in_force = otte_slot_in_force(facts->epoch, facts->now_ns);
	const struct otte_slot_epoch *epoch = &facts->epoch[max(in_force, 0)];

	if (nla_put(skb, OTTE_A_EPOCH, sizeof(*epoch), epoch))
		return -EMSGSIZE;
	if (!otte_slot_pending(facts->epoch, facts->now_ns))
		return 0;
	epoch = &facts->epoch[!in_force];
	return nla_put(skb, OTTE_A_EPOCH, sizeof(*epoch), epoch);
}

static int put_domain(struct sk_buff *skb, const struct cursor *cursor,
		      struct otte_domain *domain)
{
	struct otte_domain_facts facts;
	unsigned int i, nics = 0;

	otte_domain_snapshot(domain, &facts);
	if (put_u64(skb, OTTE_A_ID, domain->id) ||
	    nla_put_string(skb, OTTE_A_NAME, domain->name) ||
	    put_uid(skb, cursor, domain->uid) ||
	    nla_put_u32(skb, OTTE_A_GID, from_kgid_munged(cursor->user_ns, domain->gid)) ||
	    nla_put_u32(skb, OTTE_A_MODE, domain->mode) ||
	    nla_put_u32(skb, OTTE_A_MEMBERS, domain->member_count) ||
	    put_u64(skb, OTTE_A_NOW_NS, facts.now_ns) ||
	    put_epochs(skb, &facts) ||
	    put_u64(skb, OTTE_A_SUMS, facts.sums) ||
	    nla_put_u32(skb, OTTE_A_SUMMING, facts.ticking))
		return -EMSGSIZE;
	for (i = 0; i < OTTE_NICS_MAX; i++) {
		if (facts.nic[i][0])
			nics = i + 1;
	}
	for (i = 0; i < nics; i++) {
		if (nla_put_string(skb, OTTE_A_NIC, facts.nic[i]))
			return -EMSGSIZE;
	}
	return 0;
}

/* The key as the asker's user namespace calls it. */
static u64 account_key(const struct cursor *cursor, const struct otte_quota_key *key)
{
	if (key->level == OTTE_LEVEL_USER)
		return from_kuid_munged(cursor->user_ns, make_kuid(&init_user_ns, key->id));
	return key->id;
}

static int put_account(struct sk_buff *skb, const struct cursor *cursor,
		       const struct otte_account *account)
{
	unsigned int i;

	if (nla_put_u32(skb, OTTE_A_LEVEL, account->key.level) ||
	    put_u64(skb, OTTE_A_KEY, account_key(cursor, &account->key)))
		return -EMSGSIZE;
	for (i = 0; i < OTTE_RES_COUNT; i++) {
		if (put_u64(skb, OTTE_A_USAGE, account->usage[i]))
			return -EMSGSIZE;
	}
	for (i = 0; i < OTTE_RES_COUNT; i++) {
		if (put_u64(skb, OTTE_A_LIMIT, otte_quota_limit(account->key.level, i)))
			return -EMSGSIZE;
	}
	return 0;
}

/* ---- walks: the next object behind the cursor that may be seen. Ledger held ---- */

/**
 * struct walk - one kind of dump
 * @next: the object with the smallest id above *@id, whose id goes there; NULL at the end
 * @seen: whether the asker may see it; NULL for everybody
 * @put: its attributes
 */
struct walk {
	void *(*next)(u64 *id);
	bool (*seen)(const struct cursor *cursor, void *object);
	int (*put)(struct sk_buff *skb, struct cursor *cursor, void *object);
};

static void *next_in(struct xarray *registry, u64 *id)
{
	unsigned long index = *id;
	void *object = xa_find_after(registry, &index, ULONG_MAX, XA_PRESENT);

	*id = index;
	return object;
}

static void *client_next(u64 *id)
{
	return next_in(&otte_clients, id);
}

static bool client_seen(const struct cursor *cursor, void *object)
{
	const struct otte_client *client = object;

	return may_see(cursor, client->uid);
}

static int client_put(struct sk_buff *skb, struct cursor *cursor, void *object)
{
	return put_client(skb, cursor, object);
}

static void *region_next(u64 *id)
{
	return next_in(&otte_regions, id);
}

static bool region_seen(const struct cursor *cursor, void *object)
{
	const struct otte_region *region = object;

	return may_see(cursor, region->owner->uid);
}

static int region_put(struct sk_buff *skb, struct cursor *cursor, void *object)
{
	return put_region(skb, object);
}

static void *loan_next(u64 *id)
{
	return next_in(&otte_loans, id);
}

static bool loan_seen(const struct cursor *cursor, void *object)
{
	const struct otte_loan *loan = object;

	return may_see(cursor, loan->lender->uid) ||
	       (loan->borrower && may_see(cursor, loan->borrower->uid));
}

static int loan_put(struct sk_buff *skb, struct cursor *cursor, void *object)
{
	return put_loan(skb, cursor, object);
}

static void *retained_next(u64 *id)
{
	struct otte_retained *record = otte_retained_next(*id);

	if (record)
		*id = record->id;
	return record;
}

static bool retained_seen(const struct cursor *cursor, void *object)
{
	const struct otte_retained *record = object;

	return may_see(cursor, record->owner->uid);
}

static int retained_put(struct sk_buff *skb, struct cursor *cursor, void *object)
{
	return put_retained(skb, cursor, object);
}

static void *domain_next(u64 *id)
{
	struct otte_domain *domain = otte_domain_next(*id);

	if (domain)
		*id = domain->id;
	return domain;
}

static int domain_put(struct sk_buff *skb, struct cursor *cursor, void *object)
{
	return put_domain(skb, cursor, object);
}

static const struct walk walks[OTTE_NL_COMMANDS] = {
	[OTTE_NL_CLIENTS] = { client_next, client_seen, client_put },
	[OTTE_NL_REGIONS] = { region_next, region_seen, region_put },
	[OTTE_NL_LOANS] = { loan_next, loan_seen, loan_put },
	[OTTE_NL_RETAINED] = { retained_next, retained_seen, retained_put },
	[OTTE_NL_DOMAINS] = { domain_next, NULL, domain_put },
};

/* ---- dumps ---- */

static struct cursor *cursor_of(struct netlink_callback *cb)
{
	return (struct cursor *)cb->args[0];
}

/* In the sender's context: the only moment at which current is who asks. */
static int dump_start(struct netlink_callback *cb)
{
	struct cursor *cursor = kzalloc(sizeof(*cursor), GFP_KERNEL_ACCOUNT);

	if (!cursor)
		return -ENOMEM;
	cursor->uid = NETLINK_CREDS(cb->skb)->uid;
	cursor->admin = netlink_capable(cb->skb, CAP_SYS_ADMIN);
	cursor->pid_ns = get_pid_ns(task_active_pid_ns(current));
	cursor->user_ns = get_user_ns(current_user_ns());
	cb->args[0] = (long)cursor;
	return 0;
}

static int dump_done(struct netlink_callback *cb)
{
	struct cursor *cursor = cursor_of(cb);

	put_pid_ns(cursor->pid_ns);
	put_user_ns(cursor->user_ns);
	kvfree(cursor->accounts);
	kfree(cursor);
	return 0;
}

/* Begins one message of a dump; NULL if the buffer is full. */
static void *message_begin(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct genlmsghdr *request = nlmsg_data(cb->nlh);
	void *head;

	head = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq, &otte_family,
			   NLM_F_MULTI, request->cmd);
	if (!head)
		return NULL;
	if (put_u64(skb, OTTE_A_GENERATION, otte_ledger_generation())) {
		genlmsg_cancel(skb, head);
		return NULL;
	}
	genl_dump_check_consistent(cb, head);
	return head;
}

/* 0 and less than the whole registry means that @skb is full and there will be another part. */
static int walk_part(const struct walk *walk, struct cursor *cursor, struct sk_buff *skb,
		     struct netlink_callback *cb)
{
	unsigned int steps = 0;
	u64 id = cursor->last;
	void *object, *head;

	otte_ledger_assert_held();
	while ((object = walk->next(&id))) {
		if (!walk->seen || walk->seen(cursor, object)) {
			head = message_begin(skb, cb);
			if (!head)
				break;
			if (walk->put(skb, cursor, object)) {
				genlmsg_cancel(skb, head);
				break;
			}
			genlmsg_end(skb, head);
		}
		cursor->last = id;
		/* Much that may not be seen makes a long part: let others have the ledger. */
		if (!(++steps % STEPS_HELD)) {
			otte_ledger_yield();
			cb->seq = otte_ledger_generation();
		}
	}
	/* One object that fits no empty buffer would make the dump endless. */
	return object && !skb->len ? -EMSGSIZE : skb->len;
}

static int dump_walk(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct genlmsghdr *request = nlmsg_data(cb->nlh);
	int len;

	otte_ledger_lock();
	cb->seq = otte_ledger_generation();
	len = walk_part(&walks[request->cmd], cursor_of(cb), skb, cb);
	otte_ledger_unlock();
	return len;
}

static int account_keep(const struct otte_account *account, void *arg)
{
	struct cursor *cursor = arg;
	struct otte_account *larger;
	unsigned int room;

	if (cursor->account_count == cursor->account_room) {
		room = cursor->account_room * 2 ?: 64;
		larger = kvmalloc_array(room, sizeof(*larger), GFP_KERNEL_ACCOUNT);
		if (!larger)
			return -ENOMEM;
		if (cursor->accounts)
			memcpy(larger, cursor->accounts,
			       array_size(cursor->account_count, sizeof(*larger)));
		kvfree(cursor->accounts);
		cursor->accounts = larger;
		cursor->account_room = room;
	}
	cursor->accounts[cursor->account_count++] = *account;
	return 0;
}

/*
 * Copies what the asker may see. Users are looked up instead of copying everybody's accounts, which
 * would hold everybody up.
 */
static int accounts_take(struct cursor *cursor)
{
	const struct otte_quota_key keys[] = {
		{ .level = OTTE_LEVEL_MODULE },
		{ .level = OTTE_LEVEL_USER, .id = from_kuid(&init_user_ns, cursor->uid) },
	};
	struct otte_account account;
	unsigned int i;
	int err = 0;

	if (cursor->admin)
		return otte_quota_for_each(account_keep, cursor);
	for (i = 0; i < ARRAY_SIZE(keys) && !err; i++) {
		if (otte_quota_copy(&keys[i], &account))
			err = account_keep(&account, cursor);
	}
	return err;
}

/* All accounts are copied at the first part; @last counts those that were answered. */
static int dump_accounts(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct cursor *cursor = cursor_of(cb);
	void *head;
	int err;

	if (!cursor->account_room) {
		err = accounts_take(cursor);
		if (err)
			return err;
	}
	while (cursor->last < cursor->account_count) {
		head = message_begin(skb, cb);
		if (!head)
			break;
		if (put_account(skb, cursor, &cursor->accounts[cursor->last])) {
			genlmsg_cancel(skb, head);
			break;
		}
		genlmsg_end(skb, head);
		cursor->last++;
	}
	return skb->len;
}

/* ---- status ---- */

static int put_status(struct sk_buff *skb)
{
	unsigned int i;

	if (put_u64(skb, OTTE_A_GENERATION, otte_ledger_generation()) ||
	    nla_put_u32(skb, OTTE_A_REVISION, OTTE_ABI_REVISION) ||
	    nla_put(skb, OTTE_A_LOAD_ID, 16, otte_load_id()) ||
	    nla_put_u32(skb, OTTE_A_DRAINING, otte_ledger_draining()))
		return -EMSGSIZE;
	for (i = 0; i < OTTE_RES_COUNT; i++) {
		if (put_u64(skb, OTTE_A_USAGE, otte_quota_module_usage(i)))
			return -EMSGSIZE;
	}
	for (i = 0; i < OTTE_RES_COUNT; i++) {
		if (put_u64(skb, OTTE_A_LIMIT, otte_quota_limit(OTTE_LEVEL_MODULE, i)))
			return -EMSGSIZE;
	}
	return 0;
}

static int status_doit(struct sk_buff *request, struct genl_info *info)
{
	struct sk_buff *skb = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL_ACCOUNT);
	void *head;

	if (!skb)
		return -ENOMEM;
	head = genlmsg_put_reply(skb, info, &otte_family, 0, OTTE_NL_STATUS);
	if (!head || put_status(skb)) {
		nlmsg_free(skb);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, head);
	return genlmsg_reply(skb, info);
}

/* ---- notices ---- */

static int put_notice(struct sk_buff *skb, enum otte_notice notice, u64 id,
		      const struct otte_refusal *why)
{
	if (nla_put_u32(skb, OTTE_A_NOTICE, notice) ||
	    put_u64(skb, OTTE_A_ID, id) ||
	    put_u64(skb, OTTE_A_GENERATION, otte_ledger_generation()))
		return -EMSGSIZE;
	if (why && (nla_put_u32(skb, OTTE_A_LEVEL, why->key.level) ||
		    put_u64(skb, OTTE_A_KEY, why->key.id) ||
		    nla_put_u32(skb, OTTE_A_RESOURCE, why->resource) ||
		    put_u64(skb, OTTE_A_USAGE, why->usage) ||
		    put_u64(skb, OTTE_A_LIMIT, why->limit) ||
		    put_u64(skb, OTTE_A_REQUESTED, why->requested)))
		return -EMSGSIZE;
	return 0;
}

void otte_netlink_event(enum otte_notice notice, u64 id, const struct otte_refusal *why)
{
	struct sk_buff *skb;
	void *head;

	trace_otte_notice(notice, id);
	if (why)
		trace_otte_refused(id, why);
	if (!READ_ONCE(registered) || !genl_has_listeners(&otte_family, &init_net, 0))
		return;
	/* Nobody waits for memory with the ledger held; a notice may be lost. */
	skb = genlmsg_new(NLMSG_GOODSIZE, GFP_NOWAIT | __GFP_NOWARN);
	if (!skb)
		return;
	head = genlmsg_put(skb, 0, 0, &otte_family, 0, OTTE_NL_NOTICE);
	if (!head || put_notice(skb, notice, id, why)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, head);
	genlmsg_multicast(&otte_family, skb, 0, 0, GFP_NOWAIT | __GFP_NOWARN);
}

/* ---- family ---- */

#define DUMP(_cmd, _dumpit) {						\
	.cmd = (_cmd),							\
	.start = dump_start,						\
	.dumpit = (_dumpit),						\
	.done = dump_done,						\
}

static const struct genl_ops otte_ops[] = {
	{ .cmd = OTTE_NL_STATUS, .doit = status_doit },
	DUMP(OTTE_NL_CLIENTS, dump_walk),
	DUMP(OTTE_NL_REGIONS, dump_walk),
	DUMP(OTTE_NL_LOANS, dump_walk),
	DUMP(OTTE_NL_RETAINED, dump_walk),
	DUMP(OTTE_NL_DOMAINS, dump_walk),
	DUMP(OTTE_NL_ACCOUNTS, dump_accounts),
};

static const struct genl_multicast_group otte_groups[] = {
	{ .name = OTTE_NL_GROUP_EVENTS, OTTE_GENL_GROUP_ADMIN },
};

static struct genl_family otte_family __ro_after_init = {
	.name = OTTE_NL_FAMILY,
	.version = OTTE_NL_VERSION,
	.module = THIS_MODULE,
	/* A dump that waits for the ledger, or walks long, holds up no other family. */
	.parallel_ops = true,
	.ops = otte_ops,
	.n_ops = ARRAY_SIZE(otte_ops),
	.mcgrps = otte_groups,
	.n_mcgrps = ARRAY_SIZE(otte_groups),
};

#define SAME(_internal, _dumped)	BUILD_BUG_ON((int)(_internal) != (int)(_dumped))

int __init otte_netlink_init(void)
{
	int err;

	/* Dumps show the module's own enums: keep them what the header says. */
	SAME(OTTE_NOTICE_CLIENT_NEW, OTTE_NL_NOTICE_CLIENT_NEW);
	SAME(OTTE_NOTICE_CLIENT_GONE, OTTE_NL_NOTICE_CLIENT_GONE);
	SAME(OTTE_NOTICE_RETAINED, OTTE_NL_NOTICE_RETAINED);
	SAME(OTTE_NOTICE_RELEASED, OTTE_NL_NOTICE_RELEASED);
	SAME(OTTE_NOTICE_QUOTA, OTTE_NL_NOTICE_QUOTA);
	SAME(OTTE_NOTICE_FENCED, OTTE_NL_NOTICE_FENCED);
	SAME(OTTE_RETAINED_REGION, OTTE_NL_KIND_REGION);
	SAME(OTTE_RETAINED_LOAN, OTTE_NL_KIND_LOAN);
	SAME(OTTE_RETAINED_HOLD, OTTE_NL_KIND_HOLD);
	SAME(OTTE_REGION_LIVE, OTTE_NL_REGION_LIVE);
	SAME(OTTE_REGION_CLOSING, OTTE_NL_REGION_CLOSING);
	SAME(OTTE_REGION_RETAINED, OTTE_NL_REGION_RETAINED);
	SAME(OTTE_REGION_GONE, OTTE_NL_REGION_GONE);
	SAME(OTTE_LOAN_OFFERED, OTTE_NL_LOAN_OFFERED);
	SAME(OTTE_LOAN_EXPOSED, OTTE_NL_LOAN_EXPOSED);
	SAME(OTTE_LOAN_SETTLED, OTTE_NL_LOAN_SETTLED);
	SAME(OTTE_LOAN_WITHDRAWN, OTTE_NL_LOAN_WITHDRAWN);

	err = genl_register_family(&otte_family);
	if (!err)
		WRITE_ONCE(registered, true);
	return err;
}

void otte_netlink_exit(void)
{
	if (!registered)
		return;
	WRITE_ONCE(registered, false);
	genl_unregister_family(&otte_family);
}
