/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utlist.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "cuda/memory.h"
#include "engine/engine.h"

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Put an allocation on the engine's map of addresses, which takes each byte once. */
static int publish(struct otte_mem *mem)
{
	struct otte_engine *engine = mem->engine;
	int ret = 0;

	mem->place.start = (uint64_t)(uintptr_t)mem->address;
	mem->place.end = mem->place.start + mem->length;
	pthread_mutex_lock(&engine->memory_lock);
	if (otte_itree_find(&engine->memories, mem->place.start, mem->place.end, NULL, NULL)) {
		ret = otte_fail(-EEXIST, "the range overlaps memory that the engine has already");
	} else {
		otte_itree_insert(&engine->memories, &mem->place);
		engine->memory_count++;
	}
	pthread_mutex_unlock(&engine->memory_lock);
	return ret;
}

int otte_mem_create(struct otte_engine *engine, enum otte_mem_kind kind, void *address, uint64_t length,
		    unsigned flags, int fd, struct otte_mem **out)
{
	struct otte_mem *mem;
	int ret;

	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return otte_fail(-ENOMEM, "no memory for an allocation's record");
	mem->engine = engine;
	mem->kind = kind;
	mem->flags = flags;
	mem->address = address;
	mem->length = length;
	mem->fd = fd;
	mem->uses_fd = -1;
	otte_access_map_init(&mem->access);
	pthread_mutex_init(&mem->share_lock, NULL);
	ret = publish(mem);
	if (ret) {
		pthread_mutex_destroy(&mem->share_lock);
		otte_access_map_fini(&mem->access);
		free(mem);
		return ret;
	}
	*out = mem;
	return 0;
}

static int map(struct otte_engine *engine, enum otte_mem_kind kind, int fd, uint64_t offset,
	       uint64_t length, unsigned flags, int shared, struct otte_mem **out)
{
	int protection = PROT_READ | (flags & OTTE_MEM_READONLY ? 0 : PROT_WRITE);
	int how = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *address;
	int ret;

	address = mmap(NULL, length, protection, how, fd, (off_t)offset);
	if (address == MAP_FAILED)
		return otte_fail(-errno, "mmap of %lu bytes: %m", (unsigned long)length);
	if (flags & OTTE_MEM_HUGE)
		madvise(address, length, MADV_HUGEPAGE); /* a wish; the kernel may refuse it */
	ret = otte_mem_create(engine, kind, address, length, flags, shared, out);
	if (ret)
		munmap(address, length);
	return ret;
}

/* Whoever is trusted may map what is ours; where that cannot be, it is memory like any other. */
static int alloc_shared(struct otte_engine *engine, uint64_t length, unsigned flags, struct otte_mem **mem)
{
	int fd, ret;

	fd = otte_fd_memfd("otte-memory", (length + page_bytes() - 1) / page_bytes() * page_bytes());
	if (fd < 0) {
		otte_log(OTTE_LOG_WARNING, "memory of %lu bytes cannot be mapped by peers of this host: %m",
			 (unsigned long)length);
		return map(engine, OTTE_MEM_OWNED, -1, 0, length, flags, -1, mem);
	}
	ret = map(engine, OTTE_MEM_OWNED, fd, 0, length, flags, fd, mem);
	if (ret)
		otte_fd_close(fd);
	return ret;
}

int otte_mem_alloc(struct otte_engine *engine, uint64_t length, unsigned flags,
		   struct otte_mem **mem)
{
	int ret;

	if (!engine || !mem)
		return otte_fail(-EINVAL, "otte_mem_alloc: engine and mem must not be NULL");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	if (flags & ~OTTE_MEM_HUGE)
		return otte_fail(-EINVAL, "otte_mem_alloc: unknown flags 0x%x", flags);
	if (length == 0 || length > INT64_MAX - page_bytes())
		return otte_fail(-EINVAL, "otte_mem_alloc: a length of %lu", (unsigned long)length);
	if (engine->config.local_trusted)
		return alloc_shared(engine, length, flags, mem);
	return map(engine, OTTE_MEM_OWNED, -1, 0, length, flags, -1, mem);
}

int otte_mem_adopt(struct otte_engine *engine, void *address, uint64_t length,
		   struct otte_mem **mem)
{
	int ret;

	if (!engine || !address || !mem)
		return otte_fail(-EINVAL, "otte_mem_adopt: engine, address and mem must not be NULL");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	if (length == 0)
		return otte_fail(-EINVAL, "otte_mem_adopt: a length of 0");
	if (length > UINTPTR_MAX - (uintptr_t)address)
		return otte_fail(-EINVAL,
				 "otte_mem_adopt: %lu bytes at %p wrap around the address space",
				 (unsigned long)length, address);
	return otte_mem_create(engine, OTTE_MEM_ADOPTED, address, length, 0, -1, mem);
}

/* The bytes to map: what was asked for, or up to the file's end. */
static int file_extent(int fd, uint64_t offset, uint64_t *length)
{
	struct stat st;

	if (offset % page_bytes())
		return otte_fail(-EINVAL, "otte_mem_map_file: offset %lu is not on a page boundary",
				 (unsigned long)offset);
	if (fstat(fd, &st) < 0)
		return otte_fail(-errno, "otte_mem_map_file: fstat: %m");
	if (!S_ISREG(st.st_mode))
		return otte_fail(-EINVAL, "otte_mem_map_file: not a regular file or memfd");
	if (offset >= (uint64_t)st.st_size)
		return otte_fail(-EINVAL, "otte_mem_map_file: offset %lu is at or past the end, %lu",
				 (unsigned long)offset, (unsigned long)st.st_size);
	if (*length == 0)
		*length = (uint64_t)st.st_size - offset;
	if (!range_inside(offset, *length, (uint64_t)st.st_size))
		return otte_fail(-EINVAL, "otte_mem_map_file: the range ends past the file, %lu",
				 (unsigned long)st.st_size);
	return 0;
}

int otte_mem_map_file(struct otte_engine *engine, int fd, uint64_t offset, uint64_t length,
		      unsigned flags, struct otte_mem **mem)
{
	int ret;

	if (!engine || !mem)
		return otte_fail(-EINVAL, "otte_mem_map_file: engine and mem must not be NULL");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	if (flags & ~(OTTE_MEM_HUGE | OTTE_MEM_READONLY))
		return otte_fail(-EINVAL, "otte_mem_map_file: unknown flags 0x%x", flags);
	ret = file_extent(fd, offset, &length);
	if (ret)
		return ret;
	return map(engine, OTTE_MEM_FILE, fd, offset, length, flags, -1, mem);
}

/* One byte of ours, copied by the kernel: what would be a SIGBUS here is an error there. */
bool otte_mem_present(const struct otte_mem *mem, uint64_t at)
{
	struct iovec to, from = { mem->address + at, 1 };
	uint8_t byte;

	if (mem->kind != OTTE_MEM_FILE)
		return true;
	to = (struct iovec){ &byte, 1 };
	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

bool otte_mem_on_device(const struct otte_mem *mem)
{
	return mem->cuda && mem->cuda->kind == OTTE_CUDA_DEVICE;
}

bool otte_mem_is_firm(const struct otte_mem *mem)
{
	return mem->kind == OTTE_MEM_OWNED && !otte_mem_on_device(mem);
}

int otte_mem_share(const struct otte_mem *mem)
{
	if (mem->fd < 0)
		return otte_fail(-EOPNOTSUPP, "only memory that the engine allocated can be mapped by peers");
	return 0;
}

void *otte_mem_address(const struct otte_mem *mem)
{
	return mem ? mem->address : NULL;
}

uint64_t otte_mem_length(const struct otte_mem *mem)
{
	return mem ? mem->length : 0;
}

int otte_mem_release(struct otte_mem *mem)
{
	struct otte_engine *engine;
	int ret;

	if (!mem)
		return otte_fail(-EINVAL, "otte_mem_release: mem must not be NULL");
	engine = mem->engine;
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	if (atomic_load(&mem->views))
		return otte_fail(-EBUSY, "%lu regions or copiers of the memory are there",
				 (unsigned long)atomic_load(&mem->views));
	if (otte_access_any(&mem->access))
		return otte_fail(-EBUSY, "the memory is being transferred");
	/* What stays keeps its place, so that nothing else is taken for it. */
	if (mem->cuda) {
		ret = otte_mem_free_cuda(mem);
		if (ret)
			return ret;
	}
	pthread_mutex_lock(&engine->memory_lock);
	otte_itree_remove(&engine->memories, &mem->place);
	engine->memory_count--;
	pthread_mutex_unlock(&engine->memory_lock);
	otte_mem_free_uses(mem);
	if (mem->kind != OTTE_MEM_ADOPTED && !mem->cuda)
		munmap(mem->address, mem->length);
	otte_fd_close(mem->fd);
	pthread_mutex_destroy(&mem->share_lock);
	otte_access_map_fini(&mem->access);
	free(mem);
	return 0;
}
