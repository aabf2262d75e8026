// SPDX-License-Identifier: GPL-2.0-only
/*
 * mmap() of a loan: its pages in the borrower's address space, and the module's own shared pages.
 *
 * The PTEs carry page frame numbers and no references (VM_PFNMAP), for every kind of page. So
 * nobody can take a reference through them that outlives the mapping (get_user_pages refuses), and
 * the pins must stay until the last PTE is gone. That is known exactly:
 *
 *	->close of the VMA comes after its PTEs were cleared and the TLB was flushed;
 *	revocation sets loan->revoked while holding map_lock, which each fault holds from its check
 *	to its PTE, and then unmaps the loan's window wherever it is mapped.
 *
 * Every open file of the device uses the mapping of one private inode, so that the second step
 * finds all VMAs, whatever device node they were opened through. Each MAPPABLE loan has a window of
 * offsets there while it is exposed. A VMA is never split, never grows and is not inherited, so one
 * ->open or ->close is one whole mapping; mremap() may move it.
 */
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>

#include "client.h"
#include "gate.h"
#include "ledger.h"
#include "loan.h"
#include "map.h"
#include "region.h"

#define OTTE_FS_MAGIC	0x6f747465	/* "otte" */

/* A fault fills the aligned block it falls into, so that each is paid for once in any order. */
#define FAULT_BYTES	(64 * PAGE_SIZE)

/* Window to loan; entries are valid under RCU while the loan is exposed. */
static DEFINE_XARRAY_FLAGS(windows, XA_FLAGS_ALLOC1);

static struct vfsmount *otte_mount;
static struct inode *otte_inode;

int otte_map_slot_reserve(u32 *slot)
{
	int err = xa_alloc(&windows, slot, NULL, XA_LIMIT(1, OTTE_MAP_SLOTS - 1),
			   GFP_KERNEL_ACCOUNT);

	return err == -EBUSY ? -ENOSPC : err;
}

void otte_map_slot_use(struct otte_loan *loan, u32 slot)
{
	otte_ledger_assert_held();
	loan->map_slot = slot;
	/* Reserved: needs no memory. */
	WARN_ON_ONCE(xa_err(xa_store(&windows, slot, loan, 0)));
}

void otte_map_slot_release(u32 slot)
{
	if (slot)
		xa_erase(&windows, slot);
}

/* The loan that @pgoff belongs to, if @client borrows it, with a reference. */
static struct otte_loan *loan_by_pgoff(struct otte_client *client, unsigned long pgoff)
{
	struct otte_loan *loan;

	rcu_read_lock();
	loan = xa_load(&windows, pgoff >> (OTTE_MAP_WINDOW_SHIFT - PAGE_SHIFT));
	if (loan && (loan->borrower != client || !kref_get_unless_zero(&loan->ref)))
		loan = NULL;
	rcu_read_unlock();
	return loan;
}

/* ---- VMAs of loans ---- */

static unsigned long loan_pgoff(const struct otte_loan *loan)
{
	return otte_map_offset(loan->map_slot) >> PAGE_SHIFT;
}

static void loan_vm_open(struct vm_area_struct *vma)
{
	struct otte_loan *loan = vma->vm_private_data;

	otte_loan_get(loan);
	otte_gate_dup_map(&loan->gate);
}

static void loan_vm_close(struct vm_area_struct *vma)
{
	struct otte_loan *loan = vma->vm_private_data;

	if (otte_gate_leave_map(&loan->gate))
		otte_loan_drained(loan);
	otte_loan_put(loan);
}

static int loan_vm_may_split(struct vm_area_struct *vma, unsigned long addr)
{
	return -EINVAL;
}

/* Fills the PTE at @addr. The caller holds map_lock and has seen that the loan is not revoked. */
static vm_fault_t loan_fill(struct vm_area_struct *vma, unsigned long addr)
{
	struct otte_loan *loan = vma->vm_private_data;
	struct otte_region *region = loan->region;
	unsigned long at = (region->page_offset + otte_loan_offset(loan)) >> PAGE_SHIFT;

	at += vma->vm_pgoff - loan_pgoff(loan) + ((addr - vma->vm_start) >> PAGE_SHIFT);
	return vmf_insert_pfn(vma, addr, page_to_pfn(region->pages[at]));
}

static vm_fault_t loan_vm_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct otte_loan *loan = vma->vm_private_data;
	unsigned long touched = vmf->address & PAGE_MASK;
	unsigned long block = ALIGN_DOWN(touched, FAULT_BYTES);
	unsigned long addr = max(block, vma->vm_start);
	unsigned long end = min(block + FAULT_BYTES, vma->vm_end);
	vm_fault_t result = VM_FAULT_SIGBUS;

	down_read(&loan->map_lock);
	if (!loan->revoked)
		result = loan_fill(vma, touched);
	/* Only the page that was touched has to be there. */
	while (result == VM_FAULT_NOPAGE && addr < end) {
		if (addr != touched && loan_fill(vma, addr) != VM_FAULT_NOPAGE)
			break;
		addr += PAGE_SIZE;
	}
	up_read(&loan->map_lock);
	return result;
}

static const struct vm_operations_struct loan_vm_ops = {
	.open = loan_vm_open,
	.close = loan_vm_close,
	.may_split = loan_vm_may_split,
	.fault = loan_vm_fault,
};

/* Flags that no later mprotect() can get around. */
static int vma_restrict(struct vm_area_struct *vma, bool writable)
{
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC || (!writable && (vma->vm_flags & VM_WRITE)))
		return -EACCES;
	vm_flags_clear(vma, writable ? VM_MAYEXEC : VM_MAYEXEC | VM_MAYWRITE);
	/* VM_IO: madvise() can take neither DONTCOPY nor DONTDUMP off again. */
	vm_flags_set(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	return 0;
}

int otte_map_mmap(struct otte_client *client, struct file *file, struct vm_area_struct *vma)
{
	struct otte_loan *loan;
	unsigned long first, pages;
	int err;

	loan = loan_by_pgoff(client, vma->vm_pgoff);
	if (!loan)
		return -ENOENT;
	err = -EACCES;
	if ((file->f_mode & (FMODE_READ | FMODE_WRITE)) != (FMODE_READ | FMODE_WRITE))
		goto put;
	err = -ERANGE;
	first = vma->vm_pgoff - loan_pgoff(loan);
	pages = otte_loan_length(loan) >> PAGE_SHIFT;
	if (first >= pages || vma_pages(vma) > pages - first)
		goto put;
	err = vma_restrict(vma, loan->direction == OTTE_WRITE);
	if (err)
		goto put;
	err = otte_gate_enter_map(&loan->gate);
	if (err)
		goto put;
	vm_flags_set(vma, VM_PFNMAP);
	vma->vm_private_data = loan;
	vma->vm_ops = &loan_vm_ops;
	return 0;
put:
	otte_loan_put(loan);
	return err;
}

void otte_map_zap(struct otte_loan *loan)
{
	down_write(&loan->map_lock);
	loan->revoked = true;
	up_write(&loan->map_lock);
	if (loan->map_slot)
		unmap_mapping_range(otte_inode->i_mapping, otte_map_offset(loan->map_slot),
				    otte_loan_length(loan), 1);
}

/* ---- VMAs of the module's pages ---- */

int otte_map_pages(struct vm_area_struct *vma, struct page **pages, unsigned int count,
		   bool writable)
{
	unsigned long i;
	int err;

	if (vma_pages(vma) > count)
		return -ERANGE;
	err = vma_restrict(vma, writable);
	for (i = 0; !err && i < vma_pages(vma); i++)
		err = vm_insert_page(vma, vma->vm_start + (i << PAGE_SHIFT), pages[i]);
	return err;
}

/* ---- the private inode ---- */

static int otte_fs_init(struct fs_context *fc)
{
	return init_pseudo(fc, OTTE_FS_MAGIC) ? 0 : -ENOMEM;
}

/* Without an owner: nobody can mount it, and its one superblock would pin the module for ever. */
static struct file_system_type otte_fs = {
	.name = "otte",
	.init_fs_context = otte_fs_init,
	.kill_sb = kill_anon_super,
};

struct inode *otte_map_inode(void)
{
	return otte_inode;
}

int otte_map_init(void)
{
	otte_mount = kern_mount(&otte_fs);
	if (IS_ERR(otte_mount))
		return PTR_ERR(otte_mount);
	otte_inode = alloc_anon_inode(otte_mount->mnt_sb);
	if (IS_ERR(otte_inode)) {
		kern_unmount(otte_mount);
		return PTR_ERR(otte_inode);
	}
	return 0;
}

void otte_map_exit(void)
{
	iput(otte_inode);
	kern_unmount(otte_mount);
}
