// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains: whose turn it is, and who waits.
 *
 * A domain is made by an administrator and lives until it is deleted or the module goes; one named
 * "default" is always there. It has no states. What members see of it are three kinds of pages:
 *
 *	slot page	one for the domain, read-only: pattern, interval, base (slot.c). Written by
 *			DOMAIN_SET, only the epoch that is not in force, under domain->lock and seq.
 *	share page	one for each member, written by it alone and trusted for nothing.
 *	load page	one for each member, read-only: the sum of the others' share pages (load.c).
 *
 * Sums are made by DOMAIN_KICK and whenever a member comes or goes, and at every interval while
 * anybody waits or has bytes in flight. An idle domain costs nothing:
 *
 *	IDLE --kick finds demand--> TICKING --all share pages are zero, looked at twice--> IDLE
 *
 * domain->ticking says which; it moves under domain->lock, and in TICKING exactly one instance of
 * domain->tick is queued, sleeping or summing. The second look closes the race with a member that
 * raises a value just then: it sets the value, then reads @summing; we clear @summing, then read
 * the value; with a full barrier between, one of the two sees the other.
 *
 * Locks. The ledger protects the registry, client->member and the number of members; domain->lock,
 * taken inside it and a leaf, protects the rest of a domain and the list of members. Sums take
 * domain->lock alone, so a busy ledger delays no tick. Nothing is copied from or to user memory
 * here: share pages are the module's own.
 *
 * A member belongs to its client. The client's end takes it off the list, and from the next sum on,
 * which follows at once, nobody counts it. Its pages stay until the client's last reference.
 */
#include <linux/cred.h>
#include <linux/ctype.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "client.h"
#include "domain.h"
#include "ledger.h"
#include "load.h"
#include "map.h"
#include "slot.h"
#include "trace.h"

#define DOMAINS_MAX		64
#define MEMBERS_MAX		4096	/* of one domain; bounds the time of a sum */
#define MODE_MASK		0777

/**
 * struct otte_domain_member - a client's part in its domain
 * @link: in domain->members until the client is gone
 * @domain: NULL once the client is gone
 * @nics: bitmap of the NICs it has named
 * @share_page: it writes, we read
 * @load_page: we write, it reads
 * @load: what the share page said at the last sum
 */
struct otte_domain_member {
	struct list_head link;
	struct otte_domain *domain;
	unsigned long nics;
	struct page *share_page;
	struct page *load_page;
	struct otte_load load;
};

/* By creation, the default one first. Under the ledger. */
static LIST_HEAD(domains);
static unsigned int domain_count;

/* What others see of a waiting High request depends on it: it must not queue behind other work. */
static struct workqueue_struct *tick_wq;

static struct otte_slot_page *slot_page(const struct otte_domain *domain)
{
	return page_address(domain->slot_page);
}

static struct otte_share_page *share_page(const struct otte_domain_member *member)
{
	return page_address(member->share_page);
}

static struct otte_load_page *load_page(const struct otte_domain_member *member)
{
	return page_address(member->load_page);
}

/* ---- sums ---- */

static void set_summing(struct otte_domain *domain, u32 summing)
{
	struct otte_domain_member *member;

	lockdep_assert_held(&domain->lock);
	list_for_each_entry(member, &domain->members, link)
		WRITE_ONCE(load_page(member)->summing, summing);
}

/* One look at every share page. Returns whether anybody waits or has bytes in flight. */
static bool sum_once(struct otte_domain *domain)
{
	struct otte_domain_member *member;
	struct otte_load sum = {};
	u64 now_ns;

	lockdep_assert_held(&domain->lock);
	list_for_each_entry(member, &domain->members, link) {
		otte_load_read(&member->load, share_page(member), member->nics);
		otte_load_add(&sum, &member->load);
	}
	now_ns = ktime_get_ns();
	list_for_each_entry(member, &domain->members, link)
		otte_load_publish(load_page(member), &sum, &member->load, now_ns);
	domain->sums++;
	return !otte_load_idle(&sum);
}

/* Sums, and says on every load page whether it will be done again. Returns the same. */
static bool domain_sum(struct otte_domain *domain)
{
	bool busy = sum_once(domain);

	if (!busy) {
		set_summing(domain, 0);
		/* Pairs with the barrier of a member that raised a value and then reads summing. */
		smp_mb();
		busy = sum_once(domain);
	}
	if (busy)
		set_summing(domain, 1);
	return busy;
}

/* Sums now, and makes sure that a tick follows if somebody is busy. */
static void domain_kick(struct otte_domain *domain)
{
	lockdep_assert_held(&domain->lock);
	if (domain_sum(domain) && !domain->ticking) {
		domain->ticking = true;
		trace_otte_tick(domain->id, true, domain->sums);
		queue_work(tick_wq, &domain->tick);
	}
}

/*
 * Sleeps in its worker while there is demand, rather than be queued by a timer each time: so no
 * tick waits for a worker. A thread of its own would be there for an idle domain, too.
 */
static void tick_work(struct work_struct *work)
{
	struct otte_domain *domain = container_of(work, struct otte_domain, tick);
	struct otte_slot_page *page = slot_page(domain);
	ktime_t next = ktime_get();
	int in_force;

	for (;;) {
		mutex_lock(&domain->lock);
		in_force = otte_slot_in_force(page->epoch, ktime_get_ns());
		next = ktime_add_ns(next, page->epoch[max(in_force, 0)].interval_ns);
		mutex_unlock(&domain->lock);
		/* After a delay do not catch up: what counts is the newest sum. */
		if (ktime_after(ktime_get(), next))
			next = ktime_get();
		set_current_state(TASK_IDLE);
		schedule_hrtimeout(&next, HRTIMER_MODE_ABS);

		mutex_lock(&domain->lock);
		domain->ticking = domain_sum(domain);
		if (!domain->ticking)
			break;
		mutex_unlock(&domain->lock);
	}
	trace_otte_tick(domain->id, false, domain->sums);
	mutex_unlock(&domain->lock);
}

/* ---- the registry ---- */

static bool name_ok(const u8 name[OTTE_NAME_LEN])
{
	unsigned int i;

	for (i = 0; i < OTTE_NAME_LEN && name[i]; i++) {
		if (!isascii(name[i]) || !(isalnum(name[i]) || strchr("-_.:@", name[i])))
			return false;
	}
	return i && i < OTTE_NAME_LEN;
}

static struct otte_domain *domain_find(const u8 name[OTTE_NAME_LEN])
{
	struct otte_domain *domain;

	otte_ledger_assert_held();
	list_for_each_entry(domain, &domains, link) {
		if (!strcmp(domain->name, name))
			return domain;
	}
	return NULL;
}

struct otte_domain *otte_domain_next(u64 id)
{
	struct otte_domain *domain;

	otte_ledger_assert_held();
	list_for_each_entry(domain, &domains, link) {
		if (domain->id > id)
			return domain;
	}
	return NULL;
}

void otte_domain_snapshot(struct otte_domain *domain, struct otte_domain_facts *facts)
{
	const struct otte_slot_page *page = slot_page(domain);

	mutex_lock(&domain->lock);
	facts->now_ns = ktime_get_ns();
	memcpy(facts->epoch, page->epoch, sizeof(facts->epoch));
	memcpy(facts->nic, domain->nic, sizeof(facts->nic));
	facts->sums = domain->sums;
	facts->ticking = domain->ticking;
	mutex_unlock(&domain->lock);
}

static void domain_free(struct otte_domain *domain)
{
	if (domain->slot_page)
		put_page(domain->slot_page);
	kfree(domain);
}

/* A domain whose pattern counts from now on; not yet in the registry. */
static struct otte_domain *domain_alloc(const u8 name[OTTE_NAME_LEN],
					const struct otte_slot_epoch *pattern)
{
	struct otte_domain *domain = kzalloc(sizeof(*domain), GFP_KERNEL_ACCOUNT);
	struct otte_slot_page *page;

	if (!domain)
		return NULL;
	mutex_init(&domain->lock);
	INIT_LIST_HEAD(&domain->members);
	INIT_WORK(&domain->tick, tick_work);
	domain->id = otte_id_next();
	memcpy(domain->name, name, OTTE_NAME_LEN);
	domain->slot_page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!domain->slot_page) {
		domain_free(domain);
		return NULL;
	}
	page = slot_page(domain);
	page->version = OTTE_ABI_REVISION;
	page->domain = domain->id;
	page->epoch[0] = *pattern;
	page->epoch[0].base_ns = ktime_get_ns();
	page->epoch[1].base_ns = OTTE_SLOT_UNUSED_NS;
	return domain;
}

/*
 * Off the registry and without members, nobody can make it tick again: a tick that still runs finds
 * no demand and ends.
 */
static void domain_destroy(struct otte_domain *domain)
{
	cancel_work_sync(&domain->tick);
	domain_free(domain);
}

static int domain_create(struct otte_domain_set *set, const struct otte_slot_epoch *pattern,
			 kuid_t uid, kgid_t gid)
{
	struct otte_domain *domain = domain_alloc(set->name, pattern);
	int err = 0;

	if (!domain)
		return -ENOMEM;
	domain->uid = uid;
	domain->gid = gid;
	domain->mode = set->mode;
	set->domain = domain->id;
	set->effective_ns = slot_page(domain)->epoch[0].base_ns;

	otte_ledger_lock();
	if (domain_find(set->name)) {
		err = -EEXIST;
	} else if (domain_count >= DOMAINS_MAX) {
		err = -ENOSPC;
	} else {
		list_add_tail(&domain->link, &domains);
		domain_count++;
		otte_ledger_changed();
		trace_otte_domain(domain, slot_page(domain)->epoch);
	}
	otte_ledger_unlock();
	if (err)
		domain_free(domain);
	return err;
}

/*
 * Writes the epoch that is not in force, with the base that @pattern shall have. Now is read after
 * seq became odd: who computes with the page as it was before has read his clock before that, and
 * the base is a whole interval later, however long we are held up here. Meanwhile readers look
 * again; preemption is off so that it is over soon.
 */
static int publish_epoch(struct otte_slot_page *page, unsigned int in_force,
			 struct otte_slot_epoch *pattern)
{
	int err;

	preempt_disable();
	WRITE_ONCE(page->seq, page->seq + 1);
	smp_mb();	/* seq is odd before the clock is read and before anything changes */
	err = otte_slot_boundary(&page->epoch[in_force], ktime_get_ns(), &pattern->base_ns);
	if (!err)
		page->epoch[!in_force] = *pattern;
	smp_store_release(&page->seq, page->seq + 1);	/* even after all has changed */
	preempt_enable();
	return err;
}

static int domain_change(struct otte_domain *domain, struct otte_domain_set *set,
			 struct otte_slot_epoch *pattern, kuid_t uid, kgid_t gid)
{
	struct otte_slot_page *page = slot_page(domain);
	u64 now_ns;
	int in_force, err = 0;

	mutex_lock(&domain->lock);
	now_ns = ktime_get_ns();
	in_force = otte_slot_in_force(page->epoch, now_ns);
	if (WARN_ON_ONCE(in_force < 0)) {
		err = -EINVAL;
	} else if (otte_slot_pending(page->epoch, now_ns)) {
		err = -EBUSY;
	} else if (otte_slot_same_pattern(&page->epoch[in_force], pattern)) {
		set->effective_ns = page->epoch[in_force].base_ns;
	} else {
		err = publish_epoch(page, in_force, pattern);
		set->effective_ns = pattern->base_ns;
	}
	if (!err) {
		domain->uid = uid;
		domain->gid = gid;
		domain->mode = set->mode;
		set->domain = domain->id;
		trace_otte_domain(domain, &page->epoch[set->effective_ns ==
						       page->epoch[1].base_ns]);
	}
	mutex_unlock(&domain->lock);
	return err;
}

int otte_domain_set_ioctl(struct otte_client *client, void *arg)
{
	struct otte_domain_set *set = arg;
	struct otte_slot_epoch pattern = {};
	struct otte_domain *domain;
	kuid_t uid;
	kgid_t gid;
	int err;

	if (!otte_may_administer())
		return -EPERM;
	if (set->effective_ns || set->domain)
		return -EINVAL;
	uid = make_kuid(current_user_ns(), set->uid);
	gid = make_kgid(current_user_ns(), set->gid);
	if (!name_ok(set->name) || (set->mode & ~MODE_MASK) || !uid_valid(uid) || !gid_valid(gid))
		return -EINVAL;
	err = otte_slot_pattern(&pattern, set->interval_ns, set->slots, set->lowest);
	if (err)
		return err;
	if (set->flags & OTTE_DOMAIN_CREATE)
		return domain_create(set, &pattern, uid, gid);

	otte_ledger_lock();
	domain = domain_find(set->name);
	err = domain ? domain_change(domain, set, &pattern, uid, gid) : -ENOENT;
	if (!err)
		otte_ledger_changed();
	otte_ledger_unlock();
	return err;
}

int otte_domain_del_ioctl(struct otte_client *client, void *arg)
{
	const struct otte_domain_del *del = arg;
	struct otte_domain *domain;
	int err = 0;

	if (!otte_may_administer())
		return -EPERM;
	if (!name_ok(del->name))
		return -EINVAL;
	otte_ledger_lock();
	domain = domain_find(del->name);
	if (!domain) {
		err = -ENOENT;
	} else if (list_is_first(&domain->link, &domains)) {
		err = -EPERM;
	} else if (domain->member_count) {
		err = -EBUSY;
	} else {
		list_del(&domain->link);
		domain_count--;
		otte_ledger_changed();
	}
	otte_ledger_unlock();
	if (!err)
		domain_destroy(domain);
	return err;
}

/* ---- members ---- */

/* As for a file: the first class that fits decides, and root has no special part in it. */
static bool may_join(const struct otte_domain *domain)
{
	u32 mode = domain->mode;

	if (uid_eq(current_fsuid(), domain->uid))
		mode >>= 6;
	else if (in_group_p(domain->gid))
		mode >>= 3;
	return mode & 1;
}

static void member_free(struct otte_domain_member *member)
{
	if (member->share_page)
		put_page(member->share_page);
	if (member->load_page)
		put_page(member->load_page);
	kfree(member);
}

static struct otte_domain_member *member_alloc(const struct otte_client *client)
{
	struct otte_domain_member *member = kzalloc(sizeof(*member), GFP_KERNEL_ACCOUNT);

	if (!member)
		return NULL;
	INIT_LIST_HEAD(&member->link);
	member->share_page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	member->load_page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!member->share_page || !member->load_page) {
		member_free(member);
		return NULL;
	}
	share_page(member)->version = OTTE_ABI_REVISION;
	share_page(member)->timens_offset_ns = client->timens_offset_ns;
	load_page(member)->version = OTTE_ABI_REVISION;
	return member;
}

static int member_join(struct otte_client *client, struct otte_domain *domain,
		       struct otte_domain_member *member)
{
	otte_ledger_assert_held();
	if (client->member)
		return -EALREADY;
	if (!domain)
		return -ENOENT;
	if (!may_join(domain))
		return -EACCES;
	if (domain->member_count >= MEMBERS_MAX)
		return -ENOSPC;
	member->domain = domain;
	mutex_lock(&domain->lock);
	list_add_tail(&member->link, &domain->members);
	domain->member_count++;
	domain_kick(domain);
	mutex_unlock(&domain->lock);
	/* Pairs with mmap and the other commands, which look without the ledger. */
	smp_store_release(&client->member, member);
	otte_ledger_changed();
	return 0;
}

int otte_domain_join_ioctl(struct otte_client *client, void *arg)
{
	struct otte_domain_join *join = arg;
	struct otte_domain_member *member;
	struct otte_domain *domain;
	int err;

	if (join->domain || !name_ok(join->name))
		return -EINVAL;
	member = member_alloc(client);
	if (!member)
		return -ENOMEM;
	otte_ledger_lock();
	domain = domain_find(join->name);
	err = member_join(client, domain, member);
	if (!err)
		join->domain = domain->id;
	otte_ledger_unlock();
	if (err)
		member_free(member);
	return err;
}

void otte_domain_client_gone(struct otte_client *client)
{
	struct otte_domain_member *member;
	struct otte_domain *domain;

	otte_ledger_lock();
	member = client->member;
	if (member && member->domain) {
		domain = member->domain;
		mutex_lock(&domain->lock);
		list_del_init(&member->link);
		domain->member_count--;
		domain_kick(domain);
		mutex_unlock(&domain->lock);
		member->domain = NULL;
		otte_ledger_changed();
	}
	otte_ledger_unlock();
}

void otte_domain_client_free(struct otte_client *client)
{
	if (client->member)
		member_free(client->member);
}

u64 otte_domain_of(const struct otte_client *client)
{
	otte_ledger_assert_held();
	return client->member && client->member->domain ? client->member->domain->id : 0;
}

/* ---- what members do; none of it can run beside the end of its client ---- */

static struct otte_domain_member *member_of(const struct otte_client *client)
{
	/* Pairs with the release in member_join(). */
	return smp_load_acquire(&client->member);
}

/* A name never used takes the first empty index, or else that of a name nobody uses any more. */
static int nic_index(struct otte_domain *domain, const u8 name[OTTE_NAME_LEN])
{
	struct otte_domain_member *member;
	unsigned long used = 0;
	int i, found = -ENOSPC;

	lockdep_assert_held(&domain->lock);
	for (i = 0; i < OTTE_NICS_MAX; i++) {
		if (!strcmp(domain->nic[i], name))
			return i;
	}
	list_for_each_entry(member, &domain->members, link)
		used |= member->nics;
	for (i = 0; i < OTTE_NICS_MAX; i++) {
		if (used & (1UL << i))
			continue;
		if (found < 0 || !domain->nic[i][0])
			found = i;
		if (!domain->nic[i][0])
			break;
	}
	if (found >= 0)
		memcpy(domain->nic[found], name, OTTE_NAME_LEN);
	return found;
}

int otte_domain_nic_ioctl(struct otte_client *client, void *arg)
{
	struct otte_domain_member *member = member_of(client);
	struct otte_domain_nic *nic = arg;
	struct otte_domain *domain;
	int index;

	if (nic->reserved)
		return -EOPNOTSUPP;
	if (nic->index || !name_ok(nic->name))
		return -EINVAL;
	if (!member)
		return -ENOTCONN;
	domain = member->domain;
	mutex_lock(&domain->lock);
	index = nic_index(domain, nic->name);
	if (index >= 0)
		member->nics |= 1UL << index;
	mutex_unlock(&domain->lock);
	if (index < 0)
		return index;
	nic->index = index;
	return 0;
}

/*
 * Whether @member's share page says anything else than at the last sum. If not, a sum tells nobody
 * anything new of it; and if it has demand, the domain ticks already.
 */
static bool share_changed(const struct otte_domain_member *member)
{
	struct otte_load load;

	lockdep_assert_held(&member->domain->lock);
	otte_load_read(&load, share_page(member), member->nics);
	return memcmp(&load, &member->load, sizeof(load));
}

int otte_domain_kick_ioctl(struct otte_client *client, void *arg)
{
	struct otte_domain_member *member = member_of(client);

	if (!member)
		return -ENOTCONN;
	mutex_lock(&member->domain->lock);
	if (share_changed(member))
		domain_kick(member->domain);
	mutex_unlock(&member->domain->lock);
	return 0;
}

int otte_domain_mmap(struct otte_client *client, struct vm_area_struct *vma, u64 offset)
{
	struct otte_domain_member *member = member_of(client);

	if (!member)
		return -ENOTCONN;
	switch (offset) {
	case OTTE_MMAP_SLOT:
		return otte_map_pages(vma, &member->domain->slot_page, 1, false);
	case OTTE_MMAP_LOAD:
		return otte_map_pages(vma, &member->load_page, 1, false);
	case OTTE_MMAP_SHARE:
		return otte_map_pages(vma, &member->share_page, 1, true);
	default:
		return -EINVAL;
	}
}

/* ---- module ---- */

int otte_domain_init(void)
{
	static const u8 lowest[OTTE_SLOTS_MAX] = {
		OTTE_PRIORITY_HIGH, OTTE_PRIORITY_MEDIUM, OTTE_PRIORITY_LOW,
	};
	static const u8 name[OTTE_NAME_LEN] = "default";
	struct otte_slot_epoch pattern = {};
	struct otte_domain *domain;
	int err;

	BUILD_BUG_ON(sizeof(struct otte_slot_page) > PAGE_SIZE);
	BUILD_BUG_ON(sizeof(struct otte_load_page) > PAGE_SIZE);
	BUILD_BUG_ON(sizeof(struct otte_share_page) > PAGE_SIZE);
	BUILD_BUG_ON(OTTE_NICS_MAX > BITS_PER_LONG);

	tick_wq = alloc_workqueue("otte_tick", WQ_UNBOUND | WQ_HIGHPRI, DOMAINS_MAX);
	if (!tick_wq)
		return -ENOMEM;
	err = otte_slot_pattern(&pattern, OTTE_SLOT_NS_DEFAULT, OTTE_PRIORITIES, lowest);
	if (WARN_ON(err))
		goto undo;
	err = -ENOMEM;
	domain = domain_alloc(name, &pattern);
	if (!domain)
		goto undo;
	domain->uid = GLOBAL_ROOT_UID;
	domain->gid = GLOBAL_ROOT_GID;
	domain->mode = 0111;
	list_add_tail(&domain->link, &domains);
	domain_count = 1;
	return 0;
undo:
	destroy_workqueue(tick_wq);
	return err;
}

/* Every client is freed by now: they hold the module. */
void otte_domain_exit(void)
{
	struct otte_domain *domain, *next;

	list_for_each_entry_safe(domain, next, &domains, link) {
		WARN_ON_ONCE(domain->member_count);
		list_del(&domain->link);
		domain_destroy(domain);
	}
	destroy_workqueue(tick_wq);
}
