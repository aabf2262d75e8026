/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What stands in for domain.c, netlink.c and sysfs.c where they are not part of the tree. Kbuild
 * decides by the files that are there.
 */
#ifndef OTTE_SEAMS_ABSENT_H
#define OTTE_SEAMS_ABSENT_H

#ifdef OTTE_NO_DOMAIN
static inline int otte_domain_init(void) { return 0; }
static inline void otte_domain_exit(void) { }
static inline int otte_domain_join_ioctl(struct otte_client *c, void *arg) { return -EOPNOTSUPP; }
static inline int otte_domain_nic_ioctl(struct otte_client *c, void *arg) { return -EOPNOTSUPP; }
static inline int otte_domain_kick_ioctl(struct otte_client *c, void *arg) { return -EOPNOTSUPP; }
static inline int otte_domain_set_ioctl(struct otte_client *c, void *arg) { return -EOPNOTSUPP; }
static inline int otte_domain_del_ioctl(struct otte_client *c, void *arg) { return -EOPNOTSUPP; }
static inline int otte_domain_mmap(struct otte_client *c, struct vm_area_struct *vma, u64 offset)
{
	return -EOPNOTSUPP;
}

static inline void otte_domain_client_gone(struct otte_client *client) { }
static inline void otte_domain_client_free(struct otte_client *client) { }
#endif

#ifdef OTTE_NO_NETLINK
static inline int otte_netlink_init(void) { return 0; }
static inline void otte_netlink_exit(void) { }
static inline void otte_netlink_event(enum otte_notice notice, u64 id,
				      const struct otte_refusal *why) { }
#endif

#ifdef OTTE_NO_SYSFS
#define otte_sysfs_groups NULL
static inline int otte_sysfs_init(void) { return 0; }
static inline void otte_sysfs_exit(void) { }
static inline int otte_sysfs_device_added(struct device *dev) { return 0; }
static inline void otte_sysfs_device_removed(void) { }
static inline void otte_sysfs_retained_add(struct otte_retained *record) { }
static inline void otte_sysfs_retained_del(struct otte_retained *record) { }
#endif

#endif /* OTTE_SEAMS_ABSENT_H */
