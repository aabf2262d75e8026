/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The code uses the newest kernel's names; this header defines them for older ones. Each shim says
 * at which version it dies. Where a vendor backports an interface, the probes of Kbuild decide
 * (OTTE_HAVE_*), not the version.
 */
#ifndef OTTE_COMPAT_H
#define OTTE_COMPAT_H

#include <linux/file.h>
#include <linux/mm.h>
#include <linux/version.h>

#ifndef CONFIG_64BIT
#error "otte needs a 64-bit kernel: its mmap windows do not fit 32-bit offsets"
#endif

/* Dies at 6.3: flags of a VMA became writable through helpers only. */
#ifndef OTTE_HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/*
 * Long-term pins of anonymous memory are sound since 5.19, when a pinned page became exclusive to
 * its address space across fork. Dies with the last older kernel.
 */
#define OTTE_HAVE_SOUND_PINS	(LINUX_VERSION_CODE >= KERNEL_VERSION(5, 19, 0))

#endif /* OTTE_COMPAT_H */
