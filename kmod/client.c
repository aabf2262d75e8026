// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clients: one open of /dev/otte by one process in one address space.
 *
 *	NEW --CLIENT_INIT--> LIVE --file or address space gone--> GONE
 *
 * Three facts end a client, each seen by somebody who may only set a flag and queue client->work:
 *
 *	FILE_GONE	->release of the file. Says nothing about the process.
 *	MM_GONE		MMU_NOTIFY_RELEASE: the address space has no users (exit or exec). Comes
 *			before its mappings are taken down, and even if an inherited descriptor
 *			keeps the file open.
 *	GROUP_DEAD	the wait entry on the pid: all threads have exited. Not by exec.
 *
 * FILE_GONE or MM_GONE retires the client: what it lent is retained, what it was offered is void.
 * The work then looks at what it borrowed, again whenever a fact or the last mapping or copy comes
 * in. MM_GONE with GROUP_DEAD is what BORROWER_EXITED stands for; files that the process shared or
 * passed on are not covered, which is why a lender must accept that evidence by name.
 *
 * A client may have very many regions and loans, so its work goes in steps, between which others
 * have the ledger:
 *
 *	1	GONE, and off the registry: nobody finds it, so nothing is lent to it any more, and
 *		what it has offered cannot be accepted any more
 *	2	its regions, one by one: offers void, borrowers told, then retained or gone
 *	3	offers to it: void
 *	4	its end is told, its events are dropped, its domain is left
 *	5	what it borrowed: settled or retained. Again whenever a fact comes in
 *
 * From 1 on its lists only shrink. A walk moves what it has not yet looked at to a list of its own,
 * which an object that ends meanwhile leaves as it would leave the client's.
 *
 * Calls are for the thread group and address space of CLIENT_INIT alone, so that neither fork, nor
 * a passed descriptor, nor exec hands authority on. No call can run beside the retirement: a call
 * holds the file and, being from that address space, the mm.
 */
#include <linux/bitmap.h>
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/pid_namespace.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/time_namespace.h>
#include <linux/user_namespace.h>

#include "client.h"
#include "domain.h"
#include "event.h"
#include "fence.h"
#include "ledger.h"
#include "loan.h"
#include "map.h"
#include "netlink.h"
#include "quota.h"
#include "region.h"

#define ALLOWED_MAX		1024	/* entries of one allow-list */
#define KEYS_MAX		256	/* accounts of one client: cgroups and namespaces nest */
#define ATTESTS_PER_SENDER	64
#define ATTESTS_PER_PAIR	8
#define ATTESTS_PER_TENANT	64	/* of one user in one cgroup, to one receiver */
#define ATTESTS_PER_RECEIVER	1024

DEFINE_XARRAY(otte_clients);

bool otte_may_administer(void)
{
	return capable(CAP_SYS_ADMIN);
}

bool otte_may_see(kuid_t uid)
{
	return uid_eq(uid, current_uid()) || otte_may_administer();
}

u32 otte_client_tgid_seen(const struct otte_client *client)
{
	return pid_nr_ns(client->tgid, task_active_pid_ns(current));
}

u64 otte_client_key_seen(const struct otte_quota_key *key)
{
	if (key->level == OTTE_LEVEL_USER || key->level == OTTE_LEVEL_MEMLOCK)
		return from_kuid_munged(current_user_ns(), make_kuid(&init_user_ns, key->id));
	return key->id;
}

void otte_client_identity(const struct otte_client *client, struct otte_identity *identity)
{
	identity->client = client->id;
	identity->cgroup = client->cgroup;
	identity->start_ns = client->start_ns;
	identity->tgid = otte_client_tgid_seen(client);
	identity->uid = from_kuid_munged(current_user_ns(), client->uid);
	memcpy(identity->comm, client->comm, sizeof(identity->comm));
}

/* ---- references ---- */

static void status_free(struct otte_client *client)
{
	unsigned int i;

	for (i = 0; i < client->status_page_count; i++)
		put_page(client->status_pages[i]);
	kvfree(client->status_pages);
	bitmap_free(client->status_used);
}

static void client_free(struct kref *ref)
{
	struct otte_client *client = container_of(ref, struct otte_client, ref);
	bool initialised = client->id;

	otte_fence_free_all(client);
	xa_destroy(&client->allowed);
	status_free(client);
	otte_domain_client_free(client);
	if (client->payer) {
		otte_quota_uncharge(client->payer, &client->charge);
		otte_payer_put(client->payer);
	}
	if (client->mm)
		mmdrop(client->mm);
	otte_user_put(client->user);
	put_pid(client->tgid);
	/*
	 * Nobody can look at one that was never in the registry, and one that is refused costs
	 * others no batch of what RCU frees late.
	 */
	if (!initialised) {
		kfree(client);
		return;
	}
	kfree_rcu(client, rcu);
	module_put(THIS_MODULE);
}

void otte_client_get(struct otte_client *client)
{
	kref_get(&client->ref);
}

void otte_client_put(struct otte_client *client)
{
	kref_put(&client->ref, client_free);
}

bool otte_client_same_tenant(const struct otte_client *a, const struct otte_client *b)
{
	return uid_eq(a->uid, b->uid) && a->cgroup == b->cgroup;
}

struct otte_client *otte_client_find(u64 id)
{
	otte_ledger_assert_held();
	return xa_load(&otte_clients, id);
}

/* ---- the end ---- */

/*
 * Not delay_group_leader(): a thread that executes takes the leader's place, and the old leader,
 * which has exited, is no leader any more. Who still looks at it would find nothing delayed.
 */
static bool group_dead(struct pid *tgid)
{
	struct task_struct *leader;
	bool dead;

	rcu_read_lock();
	leader = pid_task(tgid, PIDTYPE_TGID);
	dead = !leader || (READ_ONCE(leader->exit_state) && thread_group_empty(leader));
	rcu_read_unlock();
	return dead;
}

bool otte_client_exited(const struct otte_client *client)
{
	return test_bit(OTTE_CLIENT_MM_GONE, &client->flags) &&
	       test_bit(OTTE_CLIENT_GROUP_DEAD, &client->flags);
}

void otte_client_kick(struct otte_client *client)
{
	otte_client_get(client);
	if (!queue_work(otte_wq, &client->work))
		otte_client_put(client);
}

static bool life_invalidate(struct mmu_interval_notifier *life,
			    const struct mmu_notifier_range *range, unsigned long seq)
{
	struct otte_client *client = container_of(life, struct otte_client, life);

	mmu_interval_set_seq(life, seq);
	if (range->event != MMU_NOTIFY_RELEASE)
		return true;
	set_bit(OTTE_CLIENT_MM_GONE, &client->flags);
	otte_client_kick(client);
	return true;
}

static const struct mmu_interval_notifier_ops life_ops = {
	.invalidate = life_invalidate,
};

/* On pid->wait_pidfd; woken for each exit that may have been the group's last. */
static int exit_woken(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	otte_client_kick(container_of(entry, struct otte_client, exit_wait));
	return 0;
}

static int client_watch(struct otte_client *client)
{
	int err;

	err = mmu_interval_notifier_insert(&client->life, client->mm, 0, PAGE_SIZE, &life_ops);
	if (err)
		return err;
	init_waitqueue_func_entry(&client->exit_wait, exit_woken);
	add_wait_queue(&client->tgid->wait_pidfd, &client->exit_wait);
	client->watched = true;
	/* The watch's reference: both callbacks may come at any time until they are removed. */
	otte_client_get(client);
	return 0;
}

/*
 * By the work alone, and by CLIENT_INIT before the client is published. The caller has a reference
 * of its own.
 */
static void client_unwatch(struct otte_client *client)
{
	if (!client->watched)
		return;
	client->watched = false;
	remove_wait_queue(&client->tgid->wait_pidfd, &client->exit_wait);
	mmu_interval_notifier_remove(&client->life);
	otte_client_put(client);
}

/* Each unwatched in between, without the ledger: retained records pin no address space. */
static void retire_regions(struct otte_client *client)
{
	struct otte_region *region;
	LIST_HEAD(left);

	otte_ledger_assert_held();
	list_splice_init(&client->regions, &left);
	while (!list_empty(&left)) {
		region = list_first_entry(&left, struct otte_region, owner_link);
		otte_region_get(region);
		list_move_tail(&region->owner_link, &client->regions);
		otte_region_owner_gone(region);
		otte_ledger_unlock();
		otte_region_unwatch(region);
		otte_region_put(region);
		otte_ledger_give_way();
		otte_ledger_lock();
	}
}

static void retire_offers(struct otte_client *client)
{
	unsigned int steps = 0;
	struct otte_loan *loan;
	LIST_HEAD(left);

	otte_ledger_assert_held();
	list_splice_init(&client->offers, &left);
	while (!list_empty(&left)) {
		loan = list_first_entry(&left, struct otte_loan, borrower_link);
		list_move_tail(&loan->borrower_link, &client->offers);
		if (loan->state == OTTE_LOAN_OFFERED)
			otte_loan_void(loan, true);
		otte_ledger_step(&steps);
	}
}

/* What a GONE client borrowed. */
static void retire_loans(struct otte_client *client)
{
	unsigned int steps = 0;
	struct otte_loan *loan;
	LIST_HEAD(left);

	otte_ledger_assert_held();
	list_splice_init(&client->loans, &left);
	while (!list_empty(&left)) {
		loan = list_first_entry(&left, struct otte_loan, borrower_link);
		list_move_tail(&loan->borrower_link, &client->loans);
		otte_loan_borrower_gone(loan);
		otte_ledger_step(&steps);
	}
}

/* LIVE to GONE, once. */
static void client_retire(struct otte_client *client)
{
	otte_ledger_lock();
	if (client->state != OTTE_CLIENT_LIVE) {
		otte_ledger_unlock();
		return;
	}
	WRITE_ONCE(client->state, OTTE_CLIENT_GONE);
	xa_erase(&otte_clients, client->id);
	otte_ledger_changed();
	retire_regions(client);
	retire_offers(client);
	otte_netlink_event(OTTE_NOTICE_CLIENT_GONE, client->id, NULL);
	otte_ledger_unlock();

	otte_event_close(client);
	otte_domain_client_gone(client);
	mmdrop(client->mm);
	WRITE_ONCE(client->mm, NULL);
	/* The registry's reference. */
	otte_client_put(client);
}

static void client_work(struct work_struct *work)
{
	struct otte_client *client = container_of(work, struct otte_client, work);
	bool done;

	/* Woken before CLIENT_INIT is through: its caller is alive, so nothing can have ended. */
	/* Pairs with the release store of client_setup(). */
	if (smp_load_acquire(&client->state) == OTTE_CLIENT_NEW) {
		otte_client_put(client);
		return;
	}
	if (group_dead(client->tgid))
		set_bit(OTTE_CLIENT_GROUP_DEAD, &client->flags);
	if (test_bit(OTTE_CLIENT_FILE_GONE, &client->flags) ||
	    test_bit(OTTE_CLIENT_MM_GONE, &client->flags))
		client_retire(client);

	otte_ledger_lock();
	if (client->state == OTTE_CLIENT_GONE)
		retire_loans(client);
	done = client->state == OTTE_CLIENT_GONE &&
	       (list_empty(&client->loans) || otte_client_exited(client));
	otte_ledger_unlock();
	if (done)
		client_unwatch(client);
	otte_client_put(client);
}

void otte_client_release(struct otte_client *client)
{
	if (READ_ONCE(client->state) != OTTE_CLIENT_NEW) {
		set_bit(OTTE_CLIENT_FILE_GONE, &client->flags);
		otte_client_kick(client);
		flush_work(&client->work);
	}
	otte_client_put(client);
}

/* ---- the beginning ---- */

struct otte_client *otte_client_create(void)
{
	struct otte_client *client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);

	if (!client)
		return NULL;
	kref_init(&client->ref);
	client->state = OTTE_CLIENT_NEW;
	INIT_WORK(&client->work, client_work);
	INIT_LIST_HEAD(&client->regions);
	INIT_LIST_HEAD(&client->loans);
	INIT_LIST_HEAD(&client->offers);
	INIT_LIST_HEAD(&client->holds);
	INIT_LIST_HEAD(&client->peer_fences);
	INIT_LIST_HEAD(&client->attests);
	INIT_LIST_HEAD(&client->attested);
	xa_init(&client->fences);
	xa_init(&client->allowed);
	otte_event_queue_init(&client->events);
	otte_event_node_init(&client->quota_event, OTTE_SOURCE_QUOTA);
	otte_event_node_init(&client->fenced_event, OTTE_SOURCE_FENCED);
	return client;
}

#ifdef CONFIG_TIME_NS
static s64 timens_offset_now(void)
{
	return timespec64_to_ns(&current->nsproxy->time_ns->offsets.monotonic);
}
#else
static s64 timens_offset_now(void)
{
	return 0;
}
#endif

int otte_client_check(struct otte_client *client)
{
	/* Pairs with client_setup(): a client that is seen LIVE is seen set up. */
	enum otte_client_state state = smp_load_acquire(&client->state);

	if (state == OTTE_CLIENT_NEW)
		return -ENOTCONN;
	if (state == OTTE_CLIENT_GONE)
		return -ESHUTDOWN;
	if (READ_ONCE(client->mm) != current->mm || client->tgid != task_tgid(current))
		return -EPERM;
	if (client->timens_offset_ns != timens_offset_now())
		return -EPERM;
	return 0;
}

/* The accounts a client is charged to; cgroups change under us, so they are counted first. */
struct key_list {
	struct otte_quota_key *key;
	unsigned int count;
	unsigned int room;
};

/* Counts also what does not fit. */
static void key_add(struct key_list *list, u32 level, u64 id)
{
	unsigned int i;

	for (i = 0; i < min(list->count, list->room); i++) {
		if (list->key[i].level == level && list->key[i].id == id)
			return;
	}
	if (list->count < list->room)
		list->key[list->count] = (struct otte_quota_key){ level, id };
	list->count++;
}

static u64 key_add_cgroups(struct key_list *list)
{
	u64 leaf = 0;
#ifdef CONFIG_CGROUPS
	struct cgroup *cgroup;

	rcu_read_lock();
	cgroup = task_dfl_cgroup(current);
	leaf = cgroup_id(cgroup);
	/* The root is everybody, which is the module's account. */
	for (; cgroup_parent(cgroup); cgroup = cgroup_parent(cgroup))
		key_add(list, OTTE_LEVEL_CGROUP, cgroup_id(cgroup));
	rcu_read_unlock();
#endif
	return leaf;
}

/*
 * Owners of user namespaces as well, or ids that a user may take there would be fresh quota. But
 * not the host's root: its namespaces are containers of many tenants, and one of them could fill
 * the account that is then everybody's.
 */
static void key_add_users(struct key_list *list)
{
	const struct user_namespace *ns;

	key_add(list, OTTE_LEVEL_USER, from_kuid(&init_user_ns, current_uid()));
	for (ns = current_user_ns(); ns != &init_user_ns; ns = ns->parent) {
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			key_add(list, OTTE_LEVEL_USER, from_kuid(&init_user_ns, ns->owner));
	}
}

static int client_capture_payer(struct otte_client *client)
{
	struct key_list list = { .room = 16 };
	int err = -ENOMEM;

	for (;;) {
		list.count = 0;
		list.key = kcalloc(list.room, sizeof(*list.key), GFP_KERNEL_ACCOUNT);
		if (!list.key)
			return err;
		key_add(&list, OTTE_LEVEL_MODULE, 0);
		client->cgroup = key_add_cgroups(&list);
		key_add_users(&list);
		key_add(&list, OTTE_LEVEL_CLIENT, client->id);
		if (list.count <= list.room)
			break;
		kfree(list.key);
		if (list.count > KEYS_MAX)
			return -ENOSPC;
		list.room = list.count + 8;
	}
	client->payer = otte_payer_create(list.key, list.count);
	if (client->payer)
		err = 0;
	kfree(list.key);
	return err;
}

static int client_alloc_status(struct otte_client *client, unsigned int regions)
{
	const size_t head = sizeof(struct otte_status_page);
	struct otte_status_page *status;
	unsigned int i, pages;

	if (!regions)
		regions = (PAGE_SIZE - head) / sizeof(u64);
	pages = DIV_ROUND_UP(head + (size_t)regions * sizeof(u64), PAGE_SIZE);
	client->status_used = bitmap_zalloc(regions, GFP_KERNEL_ACCOUNT);
	client->status_pages = kvcalloc(pages, sizeof(*client->status_pages), GFP_KERNEL_ACCOUNT);
	if (!client->status_used || !client->status_pages)
		return -ENOMEM;
	for (i = 0; i < pages; i++) {
		client->status_pages[i] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!client->status_pages[i])
			return -ENOMEM;
		client->status_page_count++;
	}
	client->status_regions = regions;
	status = page_address(client->status_pages[0]);
	status->version = OTTE_ABI_REVISION;
	status->regions = regions;
	status->client = client->id;
	return 0;
}

/* What the ledger says about the caller from now on. */
static void client_capture_identity(struct otte_client *client)
{
	client->tgid = get_task_pid(current, PIDTYPE_TGID);
	client->mm = current->mm;
	mmgrab(client->mm);
	client->user = otte_user_get(current_user());
	client->uid = current_uid();
	client->start_ns = current->group_leader->start_boottime;
	client->timens_offset_ns = timens_offset_now();
	get_task_comm(client->comm, current->group_leader);
}

/* Undoes what client_setup() did; the client is as after open. */
static void client_reset(struct otte_client *client)
{
	client_unwatch(client);
	status_free(client);
	client->status_pages = NULL;
	client->status_used = NULL;
	client->status_page_count = 0;
	if (client->payer) {
		otte_quota_uncharge(client->payer, &client->charge);
		otte_payer_put(client->payer);
		client->payer = NULL;
	}
	client->charge = (struct otte_charge){};
	mmdrop(client->mm);
	client->mm = NULL;
	otte_user_put(client->user);
	client->user = NULL;
	put_pid(client->tgid);
	client->tgid = NULL;
	client->id = 0;
	module_put(THIS_MODULE);
}

static int client_setup(struct otte_client *client, const struct otte_client_init *arg)
{
	const struct otte_charge charge = { .amount[OTTE_RES_CLIENTS] = 1 };
	struct otte_refusal why;
	int err;

	__module_get(THIS_MODULE);
	client->id = otte_id_next();
	client->allowlist_only = arg->flags & OTTE_CLIENT_ALLOWLIST;
	client_capture_identity(client);
	err = client_capture_payer(client);
	if (err)
		goto undo;
	err = otte_quota_charge(client->payer, &charge, &why);
	if (err)
		goto undo;
	client->charge = charge;
	err = client_alloc_status(client, arg->status_regions);
	if (err)
		goto undo;
	err = client_watch(client);
	if (err)
		goto undo;

	/* Before the ledger is taken, so that nobody waits for memory with it held. */
	err = xa_reserve(&otte_clients, client->id, GFP_KERNEL_ACCOUNT);
	if (err)
		goto undo;
	/* The registry's reference. */
	otte_client_get(client);
	otte_ledger_lock();
	err = xa_err(xa_store(&otte_clients, client->id, client, 0));
	if (!WARN_ON_ONCE(err)) {
		/* Pairs with otte_client_check(): all that was set up comes before. */
		smp_store_release(&client->state, OTTE_CLIENT_LIVE);
		otte_ledger_changed();
		otte_netlink_event(OTTE_NOTICE_CLIENT_NEW, client->id, NULL);
	}
	otte_ledger_unlock();
	if (!err)
		return 0;
	otte_client_put(client);
undo:
	client_reset(client);
	return err;
}

int otte_client_init_ioctl(struct otte_client *client, void *arg)
{
	struct otte_client_init *init = arg;
	int err;

	if (init->reserved)
		return -EOPNOTSUPP;
	if (init->client || init->status_bytes || init->status_regions > OTTE_STATUS_REGIONS_MAX)
		return -EINVAL;
	if (otte_ledger_draining())
		return -ESHUTDOWN;
	if (test_and_set_bit(OTTE_CLIENT_INITIALISING, &client->flags))
		return -EALREADY;
	err = client_setup(client, init);
	if (err) {
		clear_bit(OTTE_CLIENT_INITIALISING, &client->flags);
		return err;
	}
	init->client = client->id;
	init->status_bytes = (u64)client->status_page_count << PAGE_SHIFT;
	return 0;
}

/* ---- the status page ---- */

int otte_client_mmap_status(struct otte_client *client, struct vm_area_struct *vma)
{
	return otte_map_pages(vma, client->status_pages, client->status_page_count, false);
}

int otte_client_status_get(struct otte_client *client)
{
	unsigned int index;

	otte_ledger_assert_held();
	index = find_first_zero_bit(client->status_used, client->status_regions);
	if (index >= client->status_regions)
		return -ENOSPC;
	__set_bit(index, client->status_used);
	return index;
}

void otte_client_status_put(struct otte_client *client, unsigned int index)
{
	otte_ledger_assert_held();
	__clear_bit(index, client->status_used);
}

u64 *otte_client_status_word(struct otte_client *client, unsigned int index)
{
	size_t at = sizeof(struct otte_status_page) + (size_t)index * sizeof(u64);

	return page_address(client->status_pages[at >> PAGE_SHIFT]) + offset_in_page(at);
}

/* ---- quota ---- */

void otte_client_refused(struct otte_client *client, const struct otte_refusal *why)
{
	spin_lock(&client->events.lock);
	client->refusal = *why;
	spin_unlock(&client->events.lock);
	otte_event_post(client, &client->quota_event, OTTE_EVENT_QUOTA);
	otte_netlink_event(OTTE_NOTICE_QUOTA, client->id, why);
}

int otte_client_quota_ioctl(struct otte_client *client, void *arg)
{
	struct otte_quota *quota = arg;
	struct otte_quota_key key;
	int err;

	BUILD_BUG_ON(OTTE_RES_COUNT > OTTE_RES_MAX);
	memset(quota->usage, 0, sizeof(quota->usage));
	memset(quota->limit, 0, sizeof(quota->limit));
	err = otte_quota_read(client->payer, quota->index, &key, quota->usage, quota->limit);
	if (err)
		return err;
	quota->level = key.level;
	quota->key = otte_client_key_seen(&key);
	return 0;
}

/* ---- allow-list and attestation ---- */

int otte_client_allow_ioctl(struct otte_client *client, void *arg)
{
	const struct otte_allow *allow = arg;
	int err = 0;

	if (!allow->client)
		return -EINVAL;
	if (!(allow->flags & OTTE_ALLOW_REMOVE)) {
		err = xa_reserve(&client->allowed, allow->client, GFP_KERNEL_ACCOUNT);
		if (err)
			return err;
	}
	otte_ledger_lock();
	if (allow->flags & OTTE_ALLOW_REMOVE) {
		if (xa_erase(&client->allowed, allow->client))
			client->allowed_count--;
		else
			err = -ENOENT;
	} else if (!otte_client_find(allow->client)) {
		err = -ENOENT;
	} else if (!xa_load(&client->allowed, allow->client)) {
		err = -ENOSPC;
		if (client->allowed_count < ALLOWED_MAX) {
			err = xa_err(xa_store(&client->allowed, allow->client, xa_mk_value(1),
					      GFP_NOWAIT));
			client->allowed_count += !err;
		}
	}
	/* What was reserved and not used; also a thread's that is just here with the same id. */
	xa_release(&client->allowed, allow->client);
	otte_ledger_unlock();
	return err;
}

static void attest_free(struct kref *ref)
{
	struct otte_attest_record *attest = container_of(ref, struct otte_attest_record, ref);

	otte_ledger_lock();
	list_del(&attest->link);
	list_del(&attest->to_link);
	otte_ledger_unlock();
	otte_client_put(attest->from);
	if (attest->to)
		otte_client_put(attest->to);
	kfree(attest);
}

void otte_attest_put(struct otte_attest_record *attest)
{
	kref_put(&attest->ref, attest_free);
}

/* Whether @from may have one more unread nonce at @to; its tenant has no more than others. */
static bool attest_has_room(struct otte_client *from, struct otte_client *to)
{
	unsigned int sent = 0, pair = 0, tenant = 0, received = 0;
	struct otte_attest_record *attest;

	otte_ledger_assert_held();
	list_for_each_entry(attest, &from->attests, link)
		sent++;
	list_for_each_entry(attest, &to->attested, to_link) {
		received++;
		pair += attest->from == from;
		tenant += otte_client_same_tenant(attest->from, from);
	}
	return sent < ATTESTS_PER_SENDER && pair < ATTESTS_PER_PAIR &&
	       tenant < ATTESTS_PER_TENANT && received < ATTESTS_PER_RECEIVER;
}

int otte_client_attest_ioctl(struct otte_client *client, void *arg)
{
	const struct otte_attest *uattest = arg;
	struct otte_attest_record *attest;
	struct otte_client *to;
	int err = 0;

	attest = kzalloc(sizeof(*attest), GFP_KERNEL_ACCOUNT);
	if (!attest)
		return -ENOMEM;
	kref_init(&attest->ref);
	INIT_LIST_HEAD(&attest->link);
	INIT_LIST_HEAD(&attest->to_link);
	otte_event_node_init(&attest->event, OTTE_SOURCE_ATTEST);
	otte_client_get(client);
	attest->from = client;
	memcpy(attest->nonce, uattest->nonce, sizeof(attest->nonce));

	otte_ledger_lock();
	to = otte_client_find(uattest->client);
	if (!to) {
		err = -ENOENT;
	} else if (!attest_has_room(client, to)) {
		err = -EBUSY;
	} else {
		otte_client_get(to);
		attest->to = to;
		list_add(&attest->link, &client->attests);
		list_add(&attest->to_link, &to->attested);
		otte_event_post(to, &attest->event, OTTE_EVENT_ATTEST);
	}
	otte_ledger_unlock();
	otte_attest_put(attest);
	return err;
}
