/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: loans and pages of the module in the address space of a client. See map.c.
 */
#ifndef OTTE_MAP_H
#define OTTE_MAP_H

#include <linux/fs.h>
#include <linux/mm.h>

#include "otte_priv.h"

struct otte_client;
struct otte_loan;

/* Bytes of one loan's window of mmap offsets, and the number of windows. */
#define OTTE_MAP_WINDOW_SHIFT	42
#define OTTE_MAP_SLOTS		0x100000U

/* A window for a loan about to be accepted; may wait for memory. */
int otte_map_slot_reserve(u32 *slot);
/* It is @loan's from now on. Ledger held. */
void otte_map_slot_use(struct otte_loan *loan, u32 slot);
/* Nobody maps @slot any more, or has yet; 0 is none. */
void otte_map_slot_release(u32 slot);
static inline u64 otte_map_offset(u32 slot)
{
	return (u64)slot << OTTE_MAP_WINDOW_SHIFT;
}

int otte_map_mmap(struct otte_client *client, struct file *file, struct vm_area_struct *vma);
/* No PTE of @loan is left when it returns. No lock held. */
void otte_map_zap(struct otte_loan *loan);
int otte_map_init(void);
void otte_map_exit(void);
/* Every open uses this inode's mapping. */
struct inode *otte_map_inode(void);
/* Makes @vma a read-only or writable window on module pages; see uapi "Shared pages". */
int otte_map_pages(struct vm_area_struct *vma, struct page **pages, unsigned int count,
		   bool writable);

#endif /* OTTE_MAP_H */
