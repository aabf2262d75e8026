/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How the bytes of a grant are reached.
 *
 * Through the module: a loan to our client of it, which we accept, copy from and to, and settle. The module sees to
 * range, direction and end, and its pages outlive their owner.
 *
 * Without it: the memfd behind the source's memory, mapped. It must be sealed against shrinking: one that is cut off
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

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "ledger/ledger.h"
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

/* A lender that accepts no receipts can have us say so for each grant: once a second is enough. */
static void settle_loan(const struct local_peer *peer, uint64_t loan)
{
	struct otte_ledger_client *client = peer->local->env.client;
	int ret = client->ledger->ops->loan_settle(client, loan, OTTE_EVIDENCE_RETURNED);

	/* Revoked meanwhile: it is settled. */
	if (ret && ret != -ENOENT &&
	    otte_log_second_admits(&peer->local->unsettled_ns, otte_coarse_ns()))
		otte_log(OTTE_LOG_ERROR, "loan %lu cannot be given back: %s", (unsigned long)loan,
			 otte_error_text());
}

/*
 * Under peer->lock. A loan of the peer's, of at least `length` bytes. What another client offers is not what the peer
 * has lent us, whoever says so.
 */
static int take_loan(const struct local_peer *peer, uint64_t loan, uint64_t length, uint32_t right,
		     struct otte_borrowed *borrowed)
{
	struct otte_ledger_client *client = peer->local->env.client;
	const struct otte_ledger_ops *ops;
	int ret;

	if (!client || !peer->lender)
		return otte_fail(-EPROTO, "a loan of a peer that is no client of our module");
	ops = client->ledger->ops;
	ret = ops->loan_borrow(client, loan, peer->lender, borrowed);
	if (ret)
		return ret;
	if (borrowed->length >= length && borrowed->right == right)
		return 0;
	settle_loan(peer, loan);
	return otte_fail(-EPROTO, "loan %lu is another than its grant", (unsigned long)loan);
}

/*
 * One that cannot be mapped is given back. Nor is one mapped that its lender could take away: it would end us
 * with SIGBUS, at the moment of its choice.
 */
static int map_loan(const struct local_peer *peer, uint64_t loan,
		    const struct otte_borrowed *borrowed, void **map)
{
	struct otte_ledger_client *client = peer->local->env.client;
	void *address = NULL;
	int ret;

	if (borrowed->revocable)
		ret = otte_fail(-EPROTO, "loan %lu can be taken away while it is mapped", (unsigned long)loan);
	else
		ret = client->ledger->ops->loan_map(client, loan, &address);
	if (ret)
		settle_loan(peer, loan);
	else
		*map = address;
	return ret;
}

static int borrow(const struct local_peer *peer, struct local_grant *grant, const struct local_message *message)
{
	struct otte_ledger_client *client = peer->local->env.client;
	struct otte_borrowed borrowed;
	int ret;

	ret = take_loan(peer, message->loan, message->length, grant->key.op & LOCAL_OP, &borrowed);
	if (ret)
		return ret;
	if (borrowed.length != message->length) {
		settle_loan(peer, message->loan);
		return otte_fail(-EPROTO, "loan %lu is longer than its grant", (unsigned long)message->loan);
	}
	if (grant->key.op & LOCAL_OP_MAPPED) {
		ret = map_loan(peer, message->loan, &borrowed, &grant->map);
		if (ret)
			return ret;
		grant->map_length = message->length;
		grant->bytes = grant->map;
	}
	grant->client = client;
	grant->loan = message->loan;
	return 0;
}

static int map_memory(const struct local_peer *peer, struct local_grant *grant,
		      const struct local_message *message, int fd)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip = message->offset % page;
	int protection = grant->key.op == OTTE_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
	int ret;

	if (!peer->local->env.config->local_trusted)
		return otte_fail(-EPROTO, "memory itself, where only loans are wanted");
	ret = check_memory(fd, message->offset, message->length);
	if (ret)
		return ret;
	grant->map_length = message->length + skip;
	ret = map(fd, message->offset - skip, grant->map_length, protection, &grant->map);
	if (ret)
		return ret;
	grant->fd = otte_fd_dup(fd);
	if (grant->fd < 0) {
		ret = otte_fail(-errno, "a descriptor of lent memory: %m");
		munmap(grant->map, grant->map_length);
		grant->map = NULL;
		return ret;
	}
	grant->bytes = (uint8_t *)grant->map + skip;
	return 0;
}

/* The lender's pages, which stay as long as they are mapped, whatever becomes of it. */
static int borrow_uses(const struct local_peer *peer, struct local_grant *grant, uint64_t loan)
{
	struct otte_borrowed borrowed;
	void *uses = NULL;
	int ret;

	ret = take_loan(peer, loan, sizeof(*grant->uses), OTTE_LOAN_WRITE, &borrowed);
	if (!ret)
		ret = map_loan(peer, loan, &borrowed, &uses);
	if (ret)
		return ret;
	grant->uses = uses;
	grant->uses_length = borrowed.length;
	grant->uses_loan = loan;
	/* So that its pages are there from now on: one that is not is a SIGBUS once the loan is released. */
	(void)atomic_load(&grant->uses->top);
	return 0;
}

static int map_uses(struct local_grant *grant, int fd)
{
	void *uses = NULL;
	int ret;

	ret = check_memory(fd, 0, sizeof(*grant->uses));
	if (ret)
		return ret;
	ret = map(fd, 0, sizeof(*grant->uses), PROT_READ | PROT_WRITE, &uses);
	if (ret)
		return ret;
	grant->uses = uses;
	grant->uses_length = sizeof(*grant->uses);
	grant->uses_loan = 0;
	return 0;
}

static void unmap_uses(const struct local_peer *peer, struct local_grant *grant)
{
	munmap(grant->uses, grant->uses_length);
	if (grant->uses_loan)
		settle_loan(peer, grant->uses_loan);
}

int local_way_map(const struct local_peer *peer, struct local_grant *grant,
		  const struct local_message *message, const int fds[LOCAL_FDS])
{
	int ret;

	if (!message->length || !message->owner || message->owner > OTTE_USES_OWNER_MAX)
		return otte_fail(-EPROTO, "a grant of no bytes or no owner");
	if (grant->key.op & LOCAL_OP_MAPPED && !message->loan)
		return otte_fail(-EPROTO, "memory itself, where a loan was asked for");
	ret = peer->framed ? borrow_uses(peer, grant, message->uses) : map_uses(grant, fds[1]);
	if (ret)
		return ret;
	grant->fd = -1;
	if (message->loan)
		ret = borrow(peer, grant, message);
	else
		ret = map_memory(peer, grant, message, fds[0]);
	if (ret) {
		unmap_uses(peer, grant);
		return ret;
	}
	grant->offset = message->offset;
	grant->length = message->length;
	grant->owner = message->owner;
	return 0;
}

void local_way_unmap(const struct local_peer *peer, struct local_grant *grant)
{
	if (grant->map)
		munmap(grant->map, grant->map_length);
	unmap_uses(peer, grant);
	otte_fd_close(grant->fd);
	if (grant->client)
		settle_loan(peer, grant->loan);
}

/* Whether it is still lent, and the owner still has it mapped. */
static int look(const struct local_grant *grant, const struct otte_work *work)
{
	uint64_t none;

	return grant->client->ledger->ops->loan_copy(grant->client, grant->loan, 0, work->local, 0, &none);
}

/*
 * Like a mapped loan it can be taken away by an administrator alone, who releases what a dead owner has left behind.
 * That is looked for once in each tick of the coarse clock, some milliseconds, for it costs a system call.
 */
int local_way_look_uses(struct local_grant *grant)
{
	uint64_t now_ns = otte_coarse_ns(), none;

	if (atomic_load_explicit(&grant->looked_ns, memory_order_relaxed) == now_ns)
		return 0;
	if (grant->client->ledger->ops->loan_copy(grant->client, grant->uses_loan, 0, NULL, 0, &none))
		return otte_fail(-EKEYREVOKED, "the table of uses of region %lu was taken away",
				 (unsigned long)grant->key.region);
	atomic_store_explicit(&grant->looked_ns, now_ns, memory_order_relaxed);
	return 0;
}

static int move_by_module(const struct local_grant *grant, struct otte_work *work, uint64_t length)
{
	const struct otte_ledger_ops *ops = grant->client->ledger->ops;
	uint64_t end = work->own.moved + length, at = work->own.moved, done;
	int ret;

	while (at < end) {
		ret = ops->loan_copy(grant->client, grant->loan, work->offset + at, work->local + at, end - at,
				     &done);
		if (ret == -EFAULT)
			ret = otte_fail(-ESTALE, "local memory went away");
		work->own.torn |= !ret;
		at += ret ? 0 : done;
		/* A WRITE into what its owner has unmapped meanwhile is none that anybody will see. */
		if (!ret && at == work->length && work->op == OTTE_WRITE)
			ret = look(grant, work);
		if (ret)
			return ret;
		work->own.moved = at;
	}
	return 0;
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

static void copy(const struct local_grant *grant, struct otte_work *work, uint64_t length)
{
	uint8_t *theirs = grant->bytes + work->offset + work->own.moved;
	uint8_t *ours = work->local + work->own.moved;

	if (work->op == OTTE_READ)
		memcpy(ours, theirs, length);
	else
		memcpy(theirs, ours, length);
}

/*
 * Nobody but an administrator can take it away, after its owner has died; that is looked for before each step, as what
 * is touched then ends us.
 */
static int move_mapped(const struct local_grant *grant, struct otte_work *work, uint64_t length)
{
	int ret = look(grant, work);

	if (ret)
		return ret;
	copy(grant, work, length);
	work->own.torn = true;
	if (work->op == OTTE_WRITE && work->own.moved + length == work->length)
		ret = look(grant, work);
	work->own.moved += ret ? 0 : length;
	return ret;
}

/* A mapping that leaves is of a peer that may be gone, and then an administrator's to take away: it is left alone. */
static bool maps(const struct local_grant *grant)
{
	return grant->bytes && !atomic_load_explicit(&grant->leaving, memory_order_relaxed);
}

int local_way_move(const struct local_grant *grant, struct otte_work *work, uint64_t length)
{
	if (grant->client && (!work->firm || !maps(grant)))
		return move_by_module(grant, work, length);
	if (grant->client)
		return move_mapped(grant, work, length);
	if (!work->firm)
		return move_by_kernel(grant, work, length);
	copy(grant, work, length);
	work->own.moved += length;
	return 0;
}
