/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/memory_uses.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/engine.h"

/* Whole pages, so that the module can lend them. */
uint64_t otte_mem_uses_bytes(void)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (sizeof(struct otte_uses) + page - 1) / page * page;
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

void otte_mem_free_uses(struct otte_mem *mem)
{
	struct otte_engine *engine = mem->engine;

	if (!mem->uses)
		return;
	pthread_mutex_lock(&engine->memory_lock);
	DL_DELETE(engine->tracked, mem);
	pthread_mutex_unlock(&engine->memory_lock);
	disclaim_uses(engine, mem->uses_region);
	munmap(mem->uses, otte_mem_uses_bytes());
	free(mem->seen);
	otte_fd_close(mem->uses_fd);
}
