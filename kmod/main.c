// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device /dev/otte: open, ioctl table, mmap offsets; and the module's beginning and end.
 *
 * A table gives for each command the sizes, the flags it knows and its handler. The dispatcher
 * copies the struct in before and out after, so that handlers see kernel memory only and no lock
 * is ever held over a copy.
 */
#include <linux/compat.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/uaccess.h>
#include <linux/uuid.h>
#ifdef CONFIG_CGROUPS
#include <linux/cgroup.h>
#endif

#include "backing.h"
#include "client.h"
#include "domain.h"
#include "event.h"
#include "fence.h"
#include "hold.h"
#include "ledger.h"
#include "loan.h"
#include "map.h"
#include "netlink.h"
#include "otte_priv.h"
#include "region.h"
#include "sysfs.h"

static u8 load_id[16];
static u8 boot_id[16];
static bool boot_id_known;

/* ---- QUERY ---- */

static bool cgroup_v2_in_use(void)
{
#ifdef CONFIG_CGROUPS
	return READ_ONCE(cgrp_dfl_root.cgrp.nr_descendants);
#else
	return false;
#endif
}

u64 otte_features(void)
{
	u64 features = OTTE_FEAT_DOMAIN | OTTE_FEAT_STANDING | OTTE_FEAT_BY_ADDRESS |
		       OTTE_FEAT_STANDING_OFFER;

	if (otte_pages_supported())
		features |= OTTE_FEAT_PAGES;
	if (OTTE_HAVE_RECEIVE_FD)
		features |= OTTE_FEAT_FILE;
	if (cgroup_v2_in_use())
		features |= OTTE_FEAT_CGROUP;
	if (boot_id_known)
		features |= OTTE_FEAT_BOOT_ID;
	if (IS_ENABLED(CONFIG_TIME_NS))
		features |= OTTE_FEAT_TIME_NS;
	return features;
}

const u8 *otte_load_id(void)
{
	return load_id;
}

static int query_ioctl(struct otte_client *client, void *arg)
{
	struct otte_query *query = arg;

	query->revision = OTTE_ABI_REVISION;
	query->event_size = sizeof(struct otte_event);
	query->features = otte_features();
	memcpy(query->boot_id, boot_id, sizeof(query->boot_id));
	memcpy(query->load_id, load_id, sizeof(query->load_id));
	query->status_regions_max = OTTE_STATUS_REGIONS_MAX;
	query->copy_max = OTTE_COPY_MAX_BYTES;
	query->map_max = 1ULL << OTTE_MAP_WINDOW_SHIFT;
	return 0;
}

/* The kernel keeps its boot id to itself, but for this file; without procfs QUERY says so. */
static void read_boot_id(void)
{
	char text[UUID_STRING_LEN + 1] = {};
	struct file *file;
	loff_t pos = 0;
	uuid_t uuid;

	file = filp_open("/proc/sys/kernel/random/boot_id", O_RDONLY, 0);
	if (IS_ERR(file))
		return;
	if (kernel_read(file, text, UUID_STRING_LEN, &pos) == UUID_STRING_LEN &&
	    !uuid_parse(text, &uuid)) {
		export_uuid(boot_id, &uuid);
		boot_id_known = true;
	}
	filp_close(file, NULL);
}

/* ---- ioctl ---- */

union command_arg {
	struct {
		u32 size;
		u32 flags;
	} head;
	struct otte_query query;
	struct otte_client_init client_init;
	struct otte_attest attest;
	struct otte_allow allow;
	struct otte_quota quota;
	struct otte_fence fence;
	struct otte_region_add region_add;
	struct otte_region_del region_del;
	struct otte_region_verify region_verify;
	struct otte_loan_offer loan_offer;
	struct otte_loan_accept loan_accept;
	struct otte_loan_settle loan_settle;
	struct otte_loan_withdraw loan_withdraw;
	struct otte_loan_revoke loan_revoke;
	struct otte_loan_expose loan_expose;
	struct otte_loan_copy loan_copy;
	struct otte_hold hold;
	struct otte_hold_drop hold_drop;
	struct otte_domain_join domain_join;
	struct otte_domain_nic domain_nic;
	struct otte_domain_kick domain_kick;
	struct otte_domain_set domain_set;
	struct otte_domain_del domain_del;
};

/**
 * struct command - one ioctl
 * @cmd: its number
 * @size: of the struct this module knows
 * @min_size: of its first published form
 * @flags: those it knows
 * @anybody: needs no client: works before CLIENT_INIT
 * @handler: does it
 * @commit: called after the result was copied out, with 0 or what that failed with
 */
struct command {
	unsigned int cmd;
	u32 size;
	u32 min_size;
	u32 flags;
	bool anybody;
	int (*handler)(struct otte_client *client, void *arg);
	int (*commit)(struct otte_client *client, void *arg, void __user *uarg, int err);
};

#define COMMAND(_cmd, _struct, _last, ...) {				\
	.cmd = (_cmd),							\
	.size = sizeof(struct _struct),					\
	.min_size = offsetofend(struct _struct, _last),			\
	__VA_ARGS__							\
}

static const struct command commands[] = {
	COMMAND(OTTE_IOC_QUERY, otte_query, map_max,
		.anybody = true, .handler = query_ioctl),
	COMMAND(OTTE_IOC_CLIENT_INIT, otte_client_init, status_bytes,
		.anybody = true, .flags = OTTE_CLIENT_ALLOWLIST,
		.handler = otte_client_init_ioctl),
	COMMAND(OTTE_IOC_ATTEST, otte_attest, nonce, .handler = otte_client_attest_ioctl),
	COMMAND(OTTE_IOC_ALLOW, otte_allow, client,
		.flags = OTTE_ALLOW_REMOVE, .handler = otte_client_allow_ioctl),
	COMMAND(OTTE_IOC_QUOTA, otte_quota, limit, .handler = otte_client_quota_ioctl),
	COMMAND(OTTE_IOC_FENCE, otte_fence, peer,
		.flags = OTTE_FENCE_PEER | OTTE_FENCE_ALL, .handler = otte_fence_ioctl),
	COMMAND(OTTE_IOC_REGION_ADD, otte_region_add, reserved2,
		.handler = otte_region_add_ioctl),
	COMMAND(OTTE_IOC_REGION_DEL, otte_region_del, reserved,
		.handler = otte_region_del_ioctl),
	COMMAND(OTTE_IOC_REGION_VERIFY, otte_region_verify, generation,
		.handler = otte_region_verify_ioctl),
	COMMAND(OTTE_IOC_LOAN_OFFER, otte_loan_offer, loan,
		.flags = OTTE_LOAN_REVOCABLE | OTTE_LOAN_MAPPABLE | OTTE_LOAN_STANDING,
		.handler = otte_loan_offer_ioctl),
	COMMAND(OTTE_IOC_LOAN_ACCEPT, otte_loan_accept, fd,
		.handler = otte_loan_accept_ioctl, .commit = otte_loan_accept_commit),
	COMMAND(OTTE_IOC_LOAN_SETTLE, otte_loan_settle, reserved,
		.handler = otte_loan_settle_ioctl),
	COMMAND(OTTE_IOC_LOAN_WITHDRAW, otte_loan_withdraw, loan,
		.handler = otte_loan_withdraw_ioctl),
	COMMAND(OTTE_IOC_LOAN_REVOKE, otte_loan_revoke, reserved,
		.handler = otte_loan_revoke_ioctl),
	COMMAND(OTTE_IOC_LOAN_EXPOSE, otte_loan_expose, loan,
		.flags = OTTE_LOAN_STANDING | OTTE_LOAN_BY_ADDRESS,
		.handler = otte_loan_expose_ioctl),
	COMMAND(OTTE_IOC_LOAN_COPY, otte_loan_copy, done, .handler = otte_loan_copy_ioctl),
	COMMAND(OTTE_IOC_HOLD, otte_hold, hold, .handler = otte_hold_ioctl),
	COMMAND(OTTE_IOC_HOLD_DROP, otte_hold_drop, hold, .handler = otte_hold_drop_ioctl),
	COMMAND(OTTE_IOC_DOMAIN_JOIN, otte_domain_join, domain,
		.handler = otte_domain_join_ioctl),
	COMMAND(OTTE_IOC_DOMAIN_NIC, otte_domain_nic, reserved,
		.handler = otte_domain_nic_ioctl),
	COMMAND(OTTE_IOC_DOMAIN_KICK, otte_domain_kick, flags,
		.handler = otte_domain_kick_ioctl),
	COMMAND(OTTE_IOC_DOMAIN_SET, otte_domain_set, domain,
		.flags = OTTE_DOMAIN_CREATE, .handler = otte_domain_set_ioctl),
	COMMAND(OTTE_IOC_DOMAIN_DEL, otte_domain_del, name,
		.handler = otte_domain_del_ioctl),
};

static const struct command *command_find(unsigned int cmd)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		if (commands[i].cmd == cmd)
			return &commands[i];
	}
	return NULL;
}

static int command_copy_in(const struct command *command, union command_arg *arg,
			   void __user *uarg, u32 *usize)
{
	int err;

	if (get_user(*usize, (u32 __user *)uarg))
		return -EFAULT;
	if (*usize > PAGE_SIZE)
		return -E2BIG;
	if (*usize < command->min_size)
		return -EINVAL;
	err = copy_struct_from_user(arg, command->size, uarg, *usize);
	if (err)
		return err;
	return arg->head.flags & ~command->flags ? -EOPNOTSUPP : 0;
}

static long otte_ioctl(struct file *file, unsigned int cmd, unsigned long uptr)
{
	const struct command *command = command_find(cmd);
	struct otte_client *client = file->private_data;
	void __user *uarg = (void __user *)uptr;
	union command_arg arg;
	u32 usize;
	int err;

	if (!command)
		return -ENOTTY;
	if (!command->anybody) {
		err = otte_client_check(client);
		if (err)
			return err;
	}
	err = command_copy_in(command, &arg, uarg, &usize);
	if (err)
		return err;
	err = command->handler(client, &arg);
	if (err)
		return err;
	arg.head.size = usize;
	if (copy_to_user(uarg, &arg, min(usize, command->size)))
		err = -EFAULT;
	return command->commit ? command->commit(client, &arg, uarg, err) : err;
}

/* ---- the file ---- */

static int otte_open(struct inode *inode, struct file *file)
{
	struct otte_client *client;

	if (in_compat_syscall())
		return -EOPNOTSUPP;
	client = otte_client_create();
	if (!client)
		return -ENOMEM;
	file->private_data = client;
	/* All VMAs of the module in one place, whatever node this is. */
	file->f_mapping = otte_map_inode()->i_mapping;
	return nonseekable_open(inode, file);
}

static int otte_release(struct inode *inode, struct file *file)
{
	otte_client_release(file->private_data);
	return 0;
}

static ssize_t otte_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	struct otte_client *client = file->private_data;
	int err = otte_client_check(client);

	return err ?: otte_event_read(client, file, buf, count);
}

static __poll_t otte_poll(struct file *file, poll_table *wait)
{
	return otte_event_poll(file->private_data, file, wait);
}

static int otte_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct otte_client *client = file->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	int err = otte_client_check(client);

	if (err)
		return err;
	if (in_compat_syscall())
		return -EOPNOTSUPP;
	if (offset >= OTTE_MMAP_LOANS)
		return otte_map_mmap(client, file, vma);
	switch (offset) {
	case OTTE_MMAP_STATUS:
		return otte_client_mmap_status(client, vma);
	case OTTE_MMAP_SLOT:
	case OTTE_MMAP_LOAD:
	case OTTE_MMAP_SHARE:
		return otte_domain_mmap(client, vma, offset);
	default:
		return -ENOENT;
	}
}

/* No compat_ioctl: 32-bit callers get ENOTTY. */
static const struct file_operations otte_fops = {
	.owner = THIS_MODULE,
	.open = otte_open,
	.release = otte_release,
	.read = otte_read,
	.poll = otte_poll,
	.unlocked_ioctl = otte_ioctl,
	.mmap = otte_mmap,
};

static struct miscdevice otte_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "otte",
	.fops = &otte_fops,
	.groups = otte_sysfs_groups,
	.mode = 0660,
};

/* ---- the module ---- */

static int __init otte_init(void)
{
	int err;

	/* Slot 0 of the offsets is the module's own pages; those from 1 on are windows of loans. */
	BUILD_BUG_ON(OTTE_MMAP_LOANS != 1ULL << OTTE_MAP_WINDOW_SHIFT);
	BUILD_BUG_ON((u64)OTTE_MAP_SLOTS << OTTE_MAP_WINDOW_SHIFT > S64_MAX);

	get_random_bytes(load_id, sizeof(load_id));
	read_boot_id();
	err = otte_ledger_init();
	if (err)
		return err;
	err = otte_map_init();
	if (err)
		goto ledger;
	err = otte_domain_init();
	if (err)
		goto map;
	err = otte_sysfs_init();
	if (err)
		goto domain;
	err = misc_register(&otte_misc);
	if (err)
		goto sysfs;
	/*
	 * The device may be open by now, and a dump may run as soon as there is the family: from
	 * here on there is no way back. Directories and dumps show the same.
	 */
	if (otte_sysfs_device_added(otte_misc.this_device))
		pr_warn("no directory of retained records: out of memory\n");
	err = otte_netlink_init();
	if (err)
		pr_warn("no netlink family, so no dumps and notices: error %d\n", err);
	return 0;

sysfs:
	otte_sysfs_exit();
domain:
	otte_domain_exit();
map:
	otte_map_exit();
ledger:
	otte_ledger_exit();
	return err;
}

/*
 * Nobody has the device open and nothing is charged: each initialised client holds the module, and
 * everything charged holds a client. Only work may still be on its way out of our text.
 */
static void __exit otte_exit(void)
{
	otte_sysfs_device_removed();
	misc_deregister(&otte_misc);
	otte_ledger_exit();
	mmu_notifier_synchronize();
	otte_netlink_exit();
	otte_sysfs_exit();
	otte_domain_exit();
	otte_map_exit();
	rcu_barrier();
}

module_init(otte_init);
module_exit(otte_exit);

MODULE_DESCRIPTION("Ledger of registered, lent and retained memory");
MODULE_AUTHOR("The otte authors");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
