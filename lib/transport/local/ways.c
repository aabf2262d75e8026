/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How the bytes of a grant are reached.
 *
 * Here: the memfd behind the source's memory, mapped. It must be sealed against shrinking: one that is cut off
 * under a mapping would end us with SIGBUS. Our own side may be a file or the application's memory, which can go
 * away at any moment; the kernel copies that.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "transport/local/local.h"

/* `fd` has `bytes` bytes, and always will; each page of it can be had, which one of hugetlbfs may deny with SIGBUS. */
static int check_memory(int fd, uint64_t offset, uint64_t bytes)
{
	struct statfs fs;
	struct stat st;
	int seals;

	if (fd < 0)
		return otte_fail(-EMFILE, "no descriptor came with a grant");
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return otte_fail(-EPROTO, "memory that is not sealed against shrinking");
	if (fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
		return otte_fail(-EPROTO, "memory that is not a plain memfd");
	if (fstat(fd, &st) < 0 || st.st_size < 0 ||
	    !range_inside(offset, bytes, (uint64_t)st.st_size))
		return otte_fail(-EPROTO, "memory that is shorter than its grant");
	return 0;
}

/* Not for children: what they have mapped would outlive the receipt. */
static int map(int fd, uint64_t offset, uint64_t length, int protection, void **out)
{
	void *address = mmap(NULL, length, protection, MAP_SHARED, fd, (off_t)offset);

	if (address == MAP_FAILED)
		return otte_fail(-errno, "mmap of %lu lent bytes: %m", (unsigned long)length);
	if (madvise(address, length, MADV_DONTFORK)) {
		int ret = otte_fail(-errno, "madvise of %lu lent bytes: %m", (unsigned long)length);

		munmap(address, length);
		return ret;
	}
	*out = address;
	return 0;
}

int local_way_map(struct local_grant *grant, const struct local_message *message, const int fds[LOCAL_FDS])
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip = message->offset % page;
	int protection = grant->key.op == OTTE_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
	void *uses = NULL;
	int ret;

	ret = check_memory(fds[0], message->offset, message->length);
	if (!ret && (!message->length || !message->owner || message->owner >= 1u << 30))
		ret = otte_fail(-EPROTO, "a grant of no bytes or no owner");
	if (!ret)
		ret = check_memory(fds[1], 0, sizeof(*grant->uses));
	if (ret)
		return ret;
	ret = map(fds[1], 0, sizeof(*grant->uses), PROT_READ | PROT_WRITE, &uses);
	if (ret)
		return ret;
	grant->map_length = message->length + skip;
	ret = map(fds[0], message->offset - skip, grant->map_length, protection, &grant->map);
	if (ret)
		goto unmap_uses;
	grant->fd = otte_fd_dup(fds[0]);
	if (grant->fd < 0) {
		ret = otte_fail(-errno, "a descriptor of lent memory: %m");
		goto unmap;
	}
	grant->uses = uses;
	grant->bytes = (uint8_t *)grant->map + skip;
	grant->offset = message->offset;
	grant->length = message->length;
	grant->owner = message->owner;
	return 0;

unmap:
	munmap(grant->map, grant->map_length);
unmap_uses:
	munmap(uses, sizeof(*grant->uses));
	return ret;
}

void local_way_unmap(struct local_grant *grant)
{
	munmap(grant->map, grant->map_length);
	munmap(grant->uses, sizeof(*grant->uses));
	otte_fd_close(grant->fd);
}

/* What has no page any more is an error to the kernel, where it would be the end of us. */
static int move_by_kernel(const struct local_grant *grant, struct otte_work *work, uint64_t length)
{
	ssize_t n;

	while (length) {
		uint8_t *ours = work->local + work->own.moved;
		off_t theirs = (off_t)(grant->offset + work->offset + work->own.moved);

		n = work->op == OTTE_READ ? pread(grant->fd, ours, length, theirs) :
					    pwrite(grant->fd, ours, length, theirs);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return otte_fail(-ESTALE, "local memory went away: %m");
		if (n == 0)
			return otte_fail(-ESTALE, "lent memory ends early");
		work->own.moved += (uint64_t)n;
		length -= (uint64_t)n;
	}
	return 0;
}

int local_way_move(const struct local_grant *grant, struct otte_work *work, uint64_t length)
{
	uint8_t *theirs = grant->bytes + work->offset + work->own.moved;
	uint8_t *ours = work->local + work->own.moved;

	if (!work->firm)
		return move_by_kernel(grant, work, length);
	if (work->op == OTTE_READ)
		memcpy(ours, theirs, length);
	else
		memcpy(theirs, ours, length);
	work->own.moved += length;
	return 0;
}
