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

static int create(struct otte_engine *engine, enum otte_mem_kind kind, void *address,
		  uint64_t length, unsigned flags, int fd, struct otte_mem **out)
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
	ret = create(engine, kind, address, length, flags, shared, out);
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
	if (length == 0 || length > UINTPTR_MAX - (uintptr_t)address)
		return otte_fail(-EINVAL, "otte_mem_adopt: a length of %lu", (unsigned long)length);
	return create(engine, OTTE_MEM_ADOPTED, address, length, 0, -1, mem);
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

/* ---- Tables of uses ---- */

/* Whole pages, so that the module can lend them. */
uint64_t otte_mem_uses_bytes(void)
{
	return (sizeof(struct otte_uses) + page_bytes() - 1) / page_bytes() * page_bytes();
}

static int make_uses(struct otte_uses **uses, int *fd)
{
	void *map;
	int ret;

	*fd = otte_fd_memfd("otte-uses", otte_mem_uses_bytes());
	if (*fd < 0)
		return otte_fail(-errno, "memfd_create: %m");
	map = mmap(NULL, otte_mem_uses_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (map == MAP_FAILED) {
		ret = otte_fail(-errno, "mmap of a table of uses: %m");
		otte_fd_close(*fd);
		return ret;
	}
	*uses = map;
	return 0;
}

/* The ledger's region of a table: pinned, so that it stays where it is as long as a borrower has it mapped. */
static int claim_uses(struct otte_engine *engine, struct otte_uses *uses, uint64_t *region)
{
	const struct otte_region_claim claim = {
		.address = (uint64_t)(uintptr_t)uses,
		.length = otte_mem_uses_bytes(),
		.access = OTTE_REMOTE_WRITE,
		.backing = OTTE_BACKING_PAGES,
	};

	return engine->ledger->ops->region_add(engine->client, &claim, region);
}

/* Who still has it mapped keeps the pages, and nothing else: the ledger ends that. */
static void disclaim_uses(struct otte_engine *engine, uint64_t region)
{
	int ret = region ? engine->ledger->ops->region_del(engine->client, region) : 0;

	if (ret && ret != -EINPROGRESS)
		otte_log(OTTE_LOG_ERROR, "a table of uses stays registered: %s", otte_error_text());
}

/* Under share_lock. */
static int open_uses(struct otte_mem *mem)
{
	int ret;

	ret = make_uses(&mem->uses, &mem->uses_fd);
	if (ret) {
		mem->uses_fd = -1;
		return ret;
	}
	mem->seen = calloc(OTTE_USES_SLOTS, sizeof(*mem->seen));
	if (!mem->seen) {
		munmap(mem->uses, otte_mem_uses_bytes());
		mem->uses = NULL;
		otte_fd_close(mem->uses_fd);
		mem->uses_fd = -1;
		return otte_fail(-ENOMEM, "no memory for a table of uses");
	}
	otte_access_share(&mem->access, mem->uses, mem->seen);
	pthread_mutex_lock(&mem->engine->memory_lock);
	DL_APPEND(mem->engine->tracked, mem);
	pthread_mutex_unlock(&mem->engine->memory_lock);
	return 0;
}

/* Under share_lock. */
static int track(struct otte_mem *mem, struct otte_mem_lent *lent, bool by_module)
{
	int ret = mem->uses ? 0 : open_uses(mem);

	if (!ret && by_module && !mem->uses_region)
		ret = claim_uses(mem->engine, mem->uses, &mem->uses_region);
	lent->uses_region = by_module ? mem->uses_region : 0;
	return ret;
}

/* Under share_lock. */
static struct otte_mem_guest *find_guest(struct otte_mem *mem, uint64_t client)
{
	unsigned i;

	for (i = 0; i < OTTE_ACCESS_GUESTS; i++)
		if (mem->guests[i].client == client)
			return &mem->guests[i];
	return NULL;
}

/* Under share_lock, of an unused place. */
static int open_guest(struct otte_mem *mem, struct otte_mem_guest *guest, uint64_t client)
{
	struct otte_uses *uses = NULL;
	int fd = -1, ret;

	ret = make_uses(&uses, &fd);
	if (ret)
		return ret;
	otte_fd_close(fd);
	ret = claim_uses(mem->engine, uses, &guest->uses_region);
	if (ret)
		goto unmap;
	guest->place = otte_access_share_guest(&mem->access, uses);
	if (guest->place < 0) {
		ret = guest->place;
		goto disclaim;
	}
	guest->uses = uses;
	guest->client = client;
	guest->lents = 0;
	return 0;

disclaim:
	disclaim_uses(mem->engine, guest->uses_region);
unmap:
	munmap(uses, otte_mem_uses_bytes());
	return ret;
}

/* Under share_lock: what it may write there after this is nobody's concern. */
static void close_guest(struct otte_mem *mem, struct otte_mem_guest *guest)
{
	otte_access_forget_guest(&mem->access, guest->place);
	disclaim_uses(mem->engine, guest->uses_region);
	munmap(guest->uses, otte_mem_uses_bytes());
	*guest = (struct otte_mem_guest){ 0 };
}

/* Under share_lock. */
static int track_guest(struct otte_mem *mem, struct otte_mem_lent *lent)
{
	struct otte_mem_guest *guest = find_guest(mem, lent->client);
	int ret = 0;

	if (!guest) {
		guest = find_guest(mem, 0);
		ret = guest ? open_guest(mem, guest, lent->client) :
			      otte_fail(-EUSERS, "%d peers of other users borrow of this memory already",
					OTTE_ACCESS_GUESTS);
	}
	if (ret)
		return ret;
	guest->lents++;
	otte_access_lend(&mem->access, guest->place, &lent->access, lent->start, lent->end, lent->write);
	lent->guest = guest;
	lent->uses_region = guest->uses_region;
	return 0;
}

/* Under share_lock. */
static int check_others(const struct otte_mem *mem, const struct otte_mem_lent *lent)
{
	const struct otte_mem_lent *other;

	DL_FOREACH(mem->lents, other)
		if (other->client != lent->client && (other->write || lent->write) &&
		    other->start < lent->end && lent->start < other->end)
			return otte_fail(-EBUSY, "bytes [%lu, %lu) are lent to another user",
					 (unsigned long)other->start, (unsigned long)other->end);
	return 0;
}

int otte_mem_lend(struct otte_mem *mem, struct otte_mem_lent *lent, bool by_module)
{
	int ret;

	pthread_mutex_lock(&mem->share_lock);
	ret = check_others(mem, lent);
	if (!ret)
		ret = lent->client ? track_guest(mem, lent) : track(mem, lent, by_module);
	if (!ret)
		DL_APPEND(mem->lents, lent);
	pthread_mutex_unlock(&mem->share_lock);
	return ret;
}

void otte_mem_unlend(struct otte_mem *mem, struct otte_mem_lent *lent)
{
	pthread_mutex_lock(&mem->share_lock);
	DL_DELETE(mem->lents, lent);
	if (lent->guest)
		otte_access_unlend(&mem->access, lent->guest->place, &lent->access);
	if (lent->guest && --lent->guest->lents == 0)
		close_guest(mem, lent->guest);
	pthread_mutex_unlock(&mem->share_lock);
}

void otte_mem_clear_uses(struct otte_engine *engine, uint32_t owner)
{
	struct otte_mem *mem;

	pthread_mutex_lock(&engine->memory_lock);
	DL_FOREACH(engine->tracked, mem)
		otte_uses_clear(mem->uses, owner);
	pthread_mutex_unlock(&engine->memory_lock);
}

void otte_mem_add_user(struct otte_mem *mem, struct otte_mem_user *user)
{
	pthread_mutex_lock(&mem->engine->memory_lock);
	DL_APPEND(mem->users, user);
	pthread_mutex_unlock(&mem->engine->memory_lock);
}

void otte_mem_remove_user(struct otte_mem *mem, struct otte_mem_user *user)
{
	pthread_mutex_lock(&mem->engine->memory_lock);
	DL_DELETE(mem->users, user);
	pthread_mutex_unlock(&mem->engine->memory_lock);
}

/* Under memory_lock. True: it is nobody's. */
static bool stands_still(void *arg, uint32_t owner)
{
	const struct otte_mem *mem = arg;
	struct otte_mem_user *user;
	bool found = false;

	DL_FOREACH(mem->users, user) {
		if (user->owner != owner)
			continue;
		atomic_store(&user->stands, true);
		found = true;
	}
	return !found;
}

void otte_mem_look(struct otte_engine *engine)
{
	struct otte_mem *mem;

	pthread_mutex_lock(&engine->memory_lock);
	DL_FOREACH(engine->tracked, mem)
		otte_access_look(&mem->access, stands_still, mem);
	pthread_mutex_unlock(&engine->memory_lock);
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
		return otte_fail(-EBUSY, "%lu regions of the memory are registered",
				 (unsigned long)atomic_load(&mem->views));
	if (otte_access_any(&mem->access))
		return otte_fail(-EBUSY, "the memory is being transferred");
	pthread_mutex_lock(&engine->memory_lock);
	otte_itree_remove(&engine->memories, &mem->place);
	engine->memory_count--;
	if (mem->uses)
		DL_DELETE(engine->tracked, mem);
	pthread_mutex_unlock(&engine->memory_lock);
	if (mem->kind != OTTE_MEM_ADOPTED)
		munmap(mem->address, mem->length);
	disclaim_uses(engine, mem->uses_region);
	if (mem->uses)
		munmap(mem->uses, otte_mem_uses_bytes());
	free(mem->seen);
	otte_fd_close(mem->uses_fd);
	otte_fd_close(mem->fd);
	pthread_mutex_destroy(&mem->share_lock);
	otte_access_map_fini(&mem->access);
	free(mem);
	return 0;
}
