/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files of the module below /sys/class/misc/otte: one value each. */
#ifndef OTTECTL_SYSFS_H
#define OTTECTL_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where they are; tests put a folder of their own there. */
extern const char *sysfs_top;

/* The module's own folder, below /sys/module. */
extern const char *sysfs_module;

/* Whether the module is loaded. */
bool sysfs_present(void);

/* How many references keep it from being unloaded; -ENOENT where the kernel cannot unload it at all. */
int sysfs_module_references(uint64_t *references);

/* The value without its newline, or negative errno; -EMSGSIZE if it is longer. */
int sysfs_read(const char *name, char *value, size_t size);

/* A number; "max" is UINT64_MAX. -EBADMSG for anything else. */
int sysfs_read_number(const char *name, uint64_t *value);

/* 0 or negative errno. */
int sysfs_write(const char *name, const char *value);

/* Says that the module is not loaded, and what loads it. EXIT_ABSENT. */
int complain_absent(void);

/* Says what went wrong with a file, and what is missing; `code` is a negative errno. An exit code. */
int complain_sysfs(int code, const char *name);

/* Complains and returns an exit code if the module is absent or has another revision than ours. */
int sysfs_check(void);

#endif
