/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: the files of the device. See sysfs.c.
 */
#ifndef OTTE_SYSFS_H
#define OTTE_SYSFS_H

#include <linux/device.h>

#include "otte_priv.h"

struct otte_retained;

int otte_sysfs_init(void);
void otte_sysfs_exit(void);
/* NULL-terminated, for struct miscdevice.groups. */
extern const struct attribute_group *otte_sysfs_groups[];
/* Called once the device is registered, and before it is deregistered. */
int otte_sysfs_device_added(struct device *dev);
void otte_sysfs_device_removed(void);
/*
 * A record was listed or is about to leave the list. The ledger is held, so directories cannot be
 * made or removed here: mark and queue work, which walks otte_retained_next() under the ledger,
 * drops it, then makes what is missing (up to its cap) and removes what is gone.
 */
void otte_sysfs_retained_add(struct otte_retained *record);
void otte_sysfs_retained_del(struct otte_retained *record);

#endif /* OTTE_SYSFS_H */
