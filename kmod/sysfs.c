// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/class/misc/otte: one value a file. docs/abi/sysfs-class-misc-otte says which.
 *
 * Below retained/ there is a directory for each retained record. Records come and go with the
 * ledger held, where no directory can be made or removed: removing one waits for whoever is just
 * reading in it, and he may wait for the ledger. So the list is followed by one work item, which
 * compares it with the directories. Who moves:
 *
 *	otte_sysfs_retained_add, _del	queue the work, nothing more
 *	work				makes and removes directories; alone touches dirs
 *	device_added, device_removed	the parent; the work runs only between the two
 *
 * There are at most DIRS_MAX directories; when one goes, the work looks for records that had no
 * room. When memory is short it tries again later. The dump of netlink.c is the truth.
 *
 * Files know the id of their record by the name of their directory, and look it up each time they
 * are read. Writing "release" only queues: the directory goes later, never from its own store.
 *
 * File modes keep most users out but not user 0 of a container, so every store asks for
 * CAP_SYS_ADMIN itself, and every show of somebody's data asks whose it is.
 */
#include <linux/cred.h>
#include <linux/device.h>
#include <linux/kobject.h>
#include <linux/ktime.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "client.h"
#include "ledger.h"
#include "quota.h"
#include "retained.h"
#include "sysfs.h"

#define DIRS_MAX	1024
#define RETRY_MS	1000

static struct kobject *retained_parent;	/* set while the work may run */
static bool following;			/* the work may be queued; under the ledger */
static unsigned int record_count;	/* length of the retained list; under the ledger */

static DEFINE_XARRAY(dirs);		/* struct kobject by record id; the work's */
static unsigned int dir_count;		/* the work's */

static void follow_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(follow, follow_work);

/* ---- numbers ---- */

static ssize_t show_u64(char *buf, u64 value)
{
	return sysfs_emit(buf, "%llu\n", value);
}

/* Limits: "max" is none. */
static ssize_t show_limit(char *buf, u64 value)
{
	return value == U64_MAX ? sysfs_emit(buf, "max\n") : show_u64(buf, value);
}

static int parse_limit(const char *buf, u64 *value)
{
	if (sysfs_streq(buf, "max")) {
		*value = U64_MAX;
		return 0;
	}
	return kstrtou64(buf, 0, value);
}

/* ---- the device's own files ---- */

static ssize_t revision_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return show_u64(buf, OTTE_ABI_REVISION);
}
static DEVICE_ATTR_RO(revision);

static ssize_t load_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%16phN\n", otte_load_id());
}
static DEVICE_ATTR_RO(load_id);

static ssize_t generation_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return show_u64(buf, otte_ledger_generation());
}
static DEVICE_ATTR_RO(generation);

static ssize_t retained_records_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	unsigned int count;

	otte_ledger_lock();
	count = record_count;
	otte_ledger_unlock();
	return show_u64(buf, count);
}
static DEVICE_ATTR_RO(retained_records);

static ssize_t draining_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", otte_ledger_draining());
}

static ssize_t draining_store(struct device *dev, struct device_attribute *attr, const char *buf,
			      size_t count)
{
	bool draining;
	int err;

	if (!otte_may_administer())
		return -EPERM;
	err = kstrtobool(buf, &draining);
	if (err)
		return err;
	otte_ledger_set_draining(draining);
	return count;
}
static DEVICE_ATTR_RW(draining);

/* For every record, also one without a directory: a tenant's own holds can take all of those. */
static ssize_t retained_release_store(struct device *dev, struct device_attribute *attr,
				      const char *buf, size_t count)
{
	u64 id;
	int err;

	if (!otte_may_administer())
		return -EPERM;
	err = kstrtou64(buf, 10, &id);
	if (!err)
		err = otte_retained_release(id, current_uid());
	if (err == -ENOENT)
		err = -ENODEV;
	return err ?: count;
}
static DEVICE_ATTR_WO(retained_release);

static struct attribute *device_attrs[] = {
	&dev_attr_revision.attr,
	&dev_attr_load_id.attr,
	&dev_attr_generation.attr,
	&dev_attr_retained_records.attr,
	&dev_attr_retained_release.attr,
	&dev_attr_draining.attr,
	NULL
};

static const struct attribute_group device_group = {
	.attrs = device_attrs,
};

/* ---- usage/ and limit_LEVEL/: a file for each resource ---- */

/**
 * struct amount_attr - one such file
 * @attr: its place in sysfs
 * @level: whose; for usage always the module
 * @resource: of what
 */
struct amount_attr {
	struct device_attribute attr;
	enum otte_level level;
	enum otte_resource resource;
};

static const struct amount_attr *amount_of(const struct device_attribute *attr)
{
	return container_of(attr, struct amount_attr, attr);
}

static ssize_t usage_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return show_u64(buf, otte_quota_module_usage(amount_of(attr)->resource));
}

static ssize_t limit_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct amount_attr *amount = amount_of(attr);

	return show_limit(buf, otte_quota_limit(amount->level, amount->resource));
}

static ssize_t limit_store(struct device *dev, struct device_attribute *attr, const char *buf,
			   size_t count)
{
	const struct amount_attr *amount = amount_of(attr);
	u64 limit;
	int err;

	if (!otte_may_administer())
		return -EPERM;
	err = parse_limit(buf, &limit);
	if (err)
		return err;
	otte_quota_set_limit(amount->level, amount->resource, limit);
	return count;
}

/* Level and resource are filled in by otte_sysfs_init(). */
#define USAGE(_name)	{ .attr = __ATTR(_name, 0444, usage_show, NULL) }
#define LIMIT(_name)	{ .attr = __ATTR(_name, 0644, limit_show, limit_store) }

/* In the order of enum otte_resource. */
#define ALL_RESOURCES(_file) {						\
	_file(clients),							\
	_file(regions),							\
	_file(registered_bytes),					\
	_file(pinned_bytes),						\
	_file(lent_bytes),						\
	_file(loans),							\
	_file(retained_bytes),						\
	_file(holds),							\
}

static struct amount_attr usages[] = ALL_RESOURCES(USAGE);
static struct amount_attr limits[OTTE_LEVEL_COUNT][OTTE_RES_COUNT] = {
	[OTTE_LEVEL_MODULE] = ALL_RESOURCES(LIMIT),
	[OTTE_LEVEL_CGROUP] = ALL_RESOURCES(LIMIT),
	[OTTE_LEVEL_USER] = ALL_RESOURCES(LIMIT),
	[OTTE_LEVEL_CLIENT] = ALL_RESOURCES(LIMIT),
};

/* Filled by otte_sysfs_init(); NULL-terminated. */
static struct attribute *usage_attrs[OTTE_RES_COUNT + 1];
static struct attribute *limit_attrs[OTTE_LEVEL_COUNT][OTTE_RES_COUNT + 1];

static const struct attribute_group usage_group = {
	.name = "usage",
	.attrs = usage_attrs,
};

static const struct attribute_group limit_groups[OTTE_LEVEL_COUNT] = {
	[OTTE_LEVEL_MODULE] = {
		.name = "limit_module", .attrs = limit_attrs[OTTE_LEVEL_MODULE],
	},
	[OTTE_LEVEL_CGROUP] = {
		.name = "limit_cgroup", .attrs = limit_attrs[OTTE_LEVEL_CGROUP],
	},
	[OTTE_LEVEL_USER] = {
		.name = "limit_user", .attrs = limit_attrs[OTTE_LEVEL_USER],
	},
	[OTTE_LEVEL_CLIENT] = {
		.name = "limit_client", .attrs = limit_attrs[OTTE_LEVEL_CLIENT],
	},
};

const struct attribute_group *otte_sysfs_groups[] = {
	&device_group,
	&usage_group,
	&limit_groups[OTTE_LEVEL_MODULE],
	&limit_groups[OTTE_LEVEL_CGROUP],
	&limit_groups[OTTE_LEVEL_USER],
	&limit_groups[OTTE_LEVEL_CLIENT],
	NULL
};

/* ---- retained/ID/ ---- */

static const char *const kind_names[] = {
	[OTTE_RETAINED_REGION] = "region",
	[OTTE_RETAINED_LOAN] = "loan",
	[OTTE_RETAINED_HOLD] = "hold",
};

static ssize_t emit_kind(char *buf, const struct otte_retained *record)
{
	return sysfs_emit(buf, "%s\n", kind_names[record->kind]);
}

static ssize_t emit_bytes(char *buf, const struct otte_retained *record)
{
	return show_u64(buf, record->bytes);
}

static ssize_t emit_reason(char *buf, const struct otte_retained *record)
{
	return show_u64(buf, record->reason);
}

static ssize_t emit_tag(char *buf, const struct otte_retained *record)
{
	return show_u64(buf, record->tag);
}

static ssize_t emit_age_ms(char *buf, const struct otte_retained *record)
{
	return show_u64(buf, (ktime_get_boottime_ns() - record->since_ns) / NSEC_PER_MSEC);
}

static ssize_t emit_owner(char *buf, const struct otte_retained *record)
{
	return show_u64(buf, record->owner->id);
}

static ssize_t emit_owner_gone(char *buf, const struct otte_retained *record)
{
	return sysfs_emit(buf, "%d\n", record->owner->state == OTTE_CLIENT_GONE);
}

static ssize_t emit_tgid(char *buf, const struct otte_retained *record)
{
	return show_u64(buf, otte_client_tgid_seen(record->owner));
}

static ssize_t emit_uid(char *buf, const struct otte_retained *record)
{
	return show_u64(buf, from_kuid_munged(current_user_ns(), record->owner->uid));
}

static ssize_t emit_cgroup(char *buf, const struct otte_retained *record)
{
	return show_u64(buf, record->owner->cgroup);
}

static ssize_t emit_comm(char *buf, const struct otte_retained *record)
{
	return sysfs_emit(buf, "%.*s\n", OTTE_COMM_LEN, record->owner->comm);
}

/**
 * struct retained_attr - one file of a record
 * @attr: its place in sysfs
 * @emit: writes the value. Ledger held
 */
struct retained_attr {
	struct kobj_attribute attr;
	ssize_t (*emit)(char *buf, const struct otte_retained *record);
};

static int record_id(const struct kobject *kobj, u64 *id)
{
	return kstrtou64(kobject_name(kobj), 10, id);
}

static ssize_t retained_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct retained_attr *file = container_of(attr, struct retained_attr, attr);
	const struct otte_retained *record;
	ssize_t err;
	u64 id;

	err = record_id(kobj, &id);
	if (err)
		return err;
	otte_ledger_lock();
	record = otte_retained_find(id);
	if (!record)
		err = -ENODEV;
	else if (!otte_may_see(record->owner->uid))
		err = -EPERM;
	else
		err = file->emit(buf, record);
	otte_ledger_unlock();
	return err;
}

static ssize_t release_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			     size_t count)
{
	u64 id;
	int err;

	if (!otte_may_administer())
		return -EPERM;
	if (!sysfs_streq(buf, "1"))
		return -EINVAL;
	err = record_id(kobj, &id);
	if (!err)
		err = otte_retained_release(id, current_uid());
	if (err == -ENOENT)
		err = -ENODEV;
	return err ?: count;
}

#define RETAINED(_name)							\
static struct retained_attr retained_##_name = {			\
	.attr = __ATTR(_name, 0444, retained_show, NULL),		\
	.emit = emit_##_name,						\
}

RETAINED(kind);
RETAINED(bytes);
RETAINED(reason);
RETAINED(tag);
RETAINED(age_ms);
RETAINED(owner);
RETAINED(owner_gone);
RETAINED(tgid);
RETAINED(uid);
RETAINED(cgroup);
RETAINED(comm);

static struct kobj_attribute retained_release = __ATTR(release, 0200, NULL, release_store);

static struct attribute *retained_attrs[] = {
	&retained_kind.attr.attr,
	&retained_bytes.attr.attr,
	&retained_reason.attr.attr,
	&retained_tag.attr.attr,
	&retained_age_ms.attr.attr,
	&retained_owner.attr.attr,
	&retained_owner_gone.attr.attr,
	&retained_tgid.attr.attr,
	&retained_uid.attr.attr,
	&retained_cgroup.attr.attr,
	&retained_comm.attr.attr,
	&retained_release.attr,
	NULL
};

static const struct attribute_group retained_group = {
	.attrs = retained_attrs,
};

/* ---- following the list ---- */

static void dir_remove(u64 id, struct kobject *dir)
{
	xa_erase(&dirs, id);
	dir_count--;
	/* Waits for readers and for release_store(). The kobject core frees it. */
	kobject_del(dir);
	kobject_put(dir);
}

static int dir_make(u64 id)
{
	struct kobject *dir;
	char name[24];
	int err;

	snprintf(name, sizeof(name), "%llu", id);
	dir = kobject_create_and_add(name, retained_parent);
	if (!dir)
		return -ENOMEM;
	err = sysfs_create_group(dir, &retained_group);
	if (!err)
		err = xa_err(xa_store(&dirs, id, dir, GFP_KERNEL));
	if (err) {
		kobject_put(dir);
		return err;
	}
	dir_count++;
	return 0;
}

static bool record_exists(u64 id)
{
	bool exists;

	otte_ledger_lock();
	exists = otte_retained_find(id);
	otte_ledger_unlock();
	return exists;
}

/* The id of the record behind @id, or 0. */
static u64 record_after(u64 id)
{
	const struct otte_retained *record;

	otte_ledger_lock();
	record = otte_retained_next(id);
	id = record ? record->id : 0;
	otte_ledger_unlock();
	return id;
}

static void follow_work(struct work_struct *work)
{
	struct kobject *dir;
	unsigned long id;
	u64 record = 0;

	xa_for_each(&dirs, id, dir) {
		if (!record_exists(id))
			dir_remove(id, dir);
	}
	while (dir_count < DIRS_MAX && (record = record_after(record))) {
		if (xa_load(&dirs, record))
			continue;
		if (dir_make(record)) {
			queue_delayed_work(otte_wq, &follow, msecs_to_jiffies(RETRY_MS));
			break;
		}
		cond_resched();
	}
}

static void follow_soon(void)
{
	otte_ledger_assert_held();
	if (following)
		mod_delayed_work(otte_wq, &follow, 0);
}

void otte_sysfs_retained_add(struct otte_retained *record)
{
	record_count++;
	follow_soon();
}

void otte_sysfs_retained_del(struct otte_retained *record)
{
	record_count--;
	follow_soon();
}

int otte_sysfs_device_added(struct device *dev)
{
	struct kobject *parent = kobject_create_and_add("retained", &dev->kobj);

	if (!parent)
		return -ENOMEM;
	retained_parent = parent;
	otte_ledger_lock();
	following = true;
	follow_soon();
	otte_ledger_unlock();
	return 0;
}

void otte_sysfs_device_removed(void)
{
	struct kobject *dir;
	unsigned long id;

	otte_ledger_lock();
	following = false;
	otte_ledger_unlock();
	cancel_delayed_work_sync(&follow);
	xa_for_each(&dirs, id, dir)
		dir_remove(id, dir);
	kobject_del(retained_parent);
	kobject_put(retained_parent);
}

/* ---- init ---- */

static void __init attr_init(struct attribute **slot, struct amount_attr *amount,
			     enum otte_level level, enum otte_resource resource)
{
	sysfs_attr_init(&amount->attr.attr);
	amount->level = level;
	amount->resource = resource;
	*slot = &amount->attr.attr;
}

int __init otte_sysfs_init(void)
{
	unsigned int level, i;

	BUILD_BUG_ON(ARRAY_SIZE(usages) != OTTE_RES_COUNT);
	for (i = 0; i < OTTE_RES_COUNT; i++) {
		attr_init(&usage_attrs[i], &usages[i], OTTE_LEVEL_MODULE, i);
		for (level = 0; level < OTTE_LEVEL_COUNT; level++)
			attr_init(&limit_attrs[level][i], &limits[level][i], level, i);
	}
	return 0;
}

void otte_sysfs_exit(void)
{
	xa_destroy(&dirs);
}
