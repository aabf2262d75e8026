// SPDX-License-Identifier: GPL-2.0-only
/*
 * Backing FILE: a whole object that the module holds through its file, from an allow-list.
 *
 *	memfd		sealed against shrinking and growing; lent for reading only if also sealed
 *			against future writes
 *	dma-buf		lent for reading only if not open for writing
 *	device file	of a character major that the administrator named (NVIDIA's, say); how much
 *			one may do with it cannot be limited here, so it is lent for writing only
 *
 * Nothing else: holding a file that can hold files (sockets, io_uring, epoll, our own node) would
 * make cycles that nobody collects.
 */
#include <linux/fcntl.h>
#include <linux/hugetlb.h>
#include <linux/magic.h>
#include <linux/moduleparam.h>
#include <linux/shmem_fs.h>

#include "backing.h"
#include "map.h"
#include "region.h"

#define ESCROW_MAJORS_MAX	8
#define OTTE_DMA_BUF_MAGIC	0x444d4142	/* told by the file system: no symbol needed */

static unsigned int escrow_majors[ESCROW_MAJORS_MAX];
static unsigned int escrow_major_count;
module_param_array(escrow_majors, uint, &escrow_major_count, 0444);
MODULE_PARM_DESC(escrow_majors, "Character majors whose files may be lent whole (default: none)");

static bool major_allowed(const struct inode *inode)
{
	unsigned int i;

	for (i = 0; i < escrow_major_count; i++) {
		if (imajor(inode) == escrow_majors[i])
			return true;
	}
	return false;
}

/* Seals of a memory file; false if it is none. */
static bool memory_seals(struct inode *inode, unsigned int *seals)
{
	switch (inode->i_sb->s_magic) {
	case TMPFS_MAGIC:
		*seals = SHMEM_I(inode)->seals;
		return true;
#ifdef CONFIG_HUGETLBFS
	case HUGETLBFS_MAGIC:
		*seals = HUGETLBFS_I(inode)->seals;
		return true;
#endif
	default:
		return false;
	}
}

static int check_memory(const struct otte_region *region, const struct inode *inode,
			unsigned int seals)
{
	const unsigned int fixed = F_SEAL_SHRINK | F_SEAL_GROW;

	if ((seals & fixed) != fixed)
		return -EACCES;
	if ((region->access & OTTE_READ) && !(seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)))
		return -EACCES;
	return region->length == i_size_read(inode) ? 0 : -ERANGE;
}

static int check_dma_buf(const struct otte_region *region, const struct file *file)
{
	if ((region->access & OTTE_READ) && (file->f_mode & FMODE_WRITE))
		return -EACCES;
	return region->length == i_size_read(file_inode(file)) ? 0 : -ERANGE;
}

static int check_file(const struct otte_region *region, const struct file *file)
{
	struct inode *inode = file_inode(file);
	unsigned int seals;

	/* Our own node has the major of all misc devices, which an administrator may have named. */
	if (file->f_mapping == otte_map_inode()->i_mapping)
		return -EOPNOTSUPP;
	if (S_ISREG(inode->i_mode) && memory_seals(inode, &seals))
		return check_memory(region, inode, seals);
	if (inode->i_sb->s_magic == OTTE_DMA_BUF_MAGIC)
		return check_dma_buf(region, file);
	if (S_ISCHR(inode->i_mode) && major_allowed(inode))
		return region->access & OTTE_READ ? -EACCES : 0;
	return -EOPNOTSUPP;
}

int otte_escrow_take(struct otte_region *region, int fd)
{
	struct file *file;
	int err;

	if (!OTTE_HAVE_RECEIVE_FD)
		return -EOPNOTSUPP;
	file = fget(fd);
	if (!file)
		return -EBADF;
	err = check_file(region, file);
	if (err)
		fput(file);
	else
		region->file = file;
	return err;
}

void otte_escrow_drop(struct otte_region *region)
{
	fput(region->file);
	region->file = NULL;
}
