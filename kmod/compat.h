/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The code uses the newest kernel's names; this header defines them for older ones. Each shim says
 * at which version it dies. Where a vendor may have backported an interface, Kbuild looks for it in
 * the headers (OTTE_HAVE_*), so that no version has to be believed.
 */
#ifndef OTTE_COMPAT_H
#define OTTE_COMPAT_H

#undef pr_fmt
#define pr_fmt(fmt) "otte: " fmt

#include <linux/file.h>
#include <linux/mm.h>
#include <linux/sched/user.h>

#ifndef CONFIG_64BIT
#error "otte needs a 64-bit kernel: its windows of mmap offsets do not fit 32 bits"
#endif

/* Dies at 6.3, when flags of a VMA became writable through helpers only. */
#if !OTTE_HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* Dies at 5.11. Without high memory, which 64-bit kernels have not, every page has its address. */
#if !OTTE_HAVE_KMAP_LOCAL
static inline void *kmap_local_page(struct page *page)
{
	return page_address(page);
}

static inline void kunmap_local(const void *addr)
{
}
#endif

/* Dies at 5.11, when vm_operations_struct.split got the name of what it answers. */
#if !OTTE_HAVE_MAY_SPLIT
#define may_split split
#endif

/* Exported with two arguments since 5.15, with three since 6.8; not there below. */
static inline int otte_receive_fd(struct file *file, unsigned int flags)
{
#if OTTE_RECEIVE_FD_TELLS
	return receive_fd(file, NULL, flags);
#elif OTTE_HAVE_RECEIVE_FD
	return receive_fd(file, flags);
#else
	return -EOPNOTSUPP;
#endif
}

/*
 * OTTE_HAVE_SOUND_PINS, by Kbuild: long-term pins of anonymous memory are sound since 5.19, when a
 * pinned page became exclusive to its address space across fork. Without them nothing is charged to
 * a user's locked memory, and kernels of that age do not export what drops a user. Both die with
 * the last older kernel.
 */
static inline struct user_struct *otte_user_get(struct user_struct *user)
{
#if OTTE_HAVE_SOUND_PINS
	return get_uid(user);
#else
	return NULL;
#endif
}

static inline void otte_user_put(struct user_struct *user)
{
#if OTTE_HAVE_SOUND_PINS
	free_uid(user);
#endif
}

/*
 * Dies at 5.16, which has all of this family. What is copied from or to is pinned, so a kernel that
 * lacks them never gets here; there a buffer would be faulted in by one page at a time.
 */
#if !OTTE_HAVE_FAULT_IN
static inline size_t fault_in_readable(const char __user *uaddr, size_t size)
{
	return size;
}

static inline size_t fault_in_safe_writeable(const char __user *uaddr, size_t size)
{
	return size;
}
#endif

/*
 * A multicast group for administrators alone. Older kernels have a field of its own instead of the
 * flag; one with neither must not compile, because the group would be open to all.
 */
#ifdef GENL_MCAST_CAP_SYS_ADMIN
#define OTTE_GENL_GROUP_ADMIN	.flags = GENL_MCAST_CAP_SYS_ADMIN
#else
#define OTTE_GENL_GROUP_ADMIN	.cap_sys_admin = 1
#endif

#endif /* OTTE_COMPAT_H */
