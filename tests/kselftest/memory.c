// SPDX-License-Identifier: GPL-2.0-only
/*
 * What happens to registered memory, and what the status page says about it: stale or suspect
 * before the call that did it returns, and neither for what leaves the pages alone.
 */
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "otte_test.h"
#include "kselftest_harness.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif
#define HUGE_BYTES	(2UL << 20)
#define BYTES		(16 * PAGE)

FIXTURE(memory)
{
	int fd;
	uint64_t client, region;
	unsigned int index;
	uint64_t *status;
	char *mem;
};

FIXTURE_VARIANT(memory)
{
	uint32_t backing;
};

FIXTURE_VARIANT_ADD(memory, none)
{
	.backing = OTTE_BACKING_NONE,
};

FIXTURE_VARIANT_ADD(memory, pages)
{
	.backing = OTTE_BACKING_PAGES,
};

static int add(int fd, uint32_t backing, void *mem, size_t bytes, uint64_t *region,
	       unsigned int *index)
{
	struct otte_region_add arg = {
		.size = sizeof(arg), .backing = backing, .access = OTTE_READ | OTTE_WRITE,
		.addr = (uintptr_t)mem, .length = bytes,
	};
	int err = otte_call(fd, OTTE_IOC_REGION_ADD, &arg);

	*region = arg.region;
	*index = arg.status_index;
	return err;
}

FIXTURE_SETUP(memory)
{
	self->fd = otte_client(&self->client);
	ASSERT_GE(self->fd, 0);
	self->status = otte_status_map(self->fd, PAGE);
	ASSERT_NE(NULL, self->status);
	/* With a page of its own on either side. */
	self->mem = (char *)otte_pages(BYTES + 2 * PAGE) + PAGE;
	otte_fill(self->mem, BYTES, 3);
	ASSERT_EQ(0, add(self->fd, variant->backing, self->mem, BYTES, &self->region,
			 &self->index));
	ASSERT_EQ(OTTE_STATUS_LIVE, otte_status_word(self->status, self->index) & 0xff);
}

FIXTURE_TEARDOWN(memory)
{
	uint64_t word = otte_status_word(self->status, self->index);

	EXPECT_EQ(0, otte_region_del(self->fd, self->region, NULL));
	EXPECT_EQ(0, otte_status_word(self->status, self->index) & 0xff);
	EXPECT_GT(otte_status_word(self->status, self->index) >> OTTE_STATUS_GEN_SHIFT,
		  word >> OTTE_STATUS_GEN_SHIFT);
	munmap(self->status, PAGE);
	close(self->fd);
}

/* State and whether the generation grew since @before. */
#define EXPECT_STATE(flags, grew) do {							\
	uint64_t now = otte_status_word(self->status, self->index);			\
	EXPECT_EQ(OTTE_STATUS_LIVE | (flags), now & 0xff);				\
	EXPECT_EQ(grew, now >> OTTE_STATUS_GEN_SHIFT > before >> OTTE_STATUS_GEN_SHIFT); \
} while (0)

TEST_F(memory, munmap_makes_it_stale)
{
	uint64_t before = otte_status_word(self->status, self->index), loan;
	struct otte_event event;

	ASSERT_EQ(0, munmap(self->mem + 4 * PAGE, PAGE));
	EXPECT_STATE(OTTE_STATUS_STALE, true);
	EXPECT_EQ(-ESTALE, otte_verify(self->fd, self->region));
	EXPECT_EQ(-ESTALE, otte_offer(self->fd, self->region, 0, 1, self->client, OTTE_READ, 0,
				      &loan));
	ASSERT_EQ(0, otte_wait_event(self->fd, OTTE_EVENT_REGION_STALE, &event));
	EXPECT_EQ(self->region, event.object);
}

TEST_F(memory, unmapping_beside_it_does_nothing)
{
	uint64_t before = otte_status_word(self->status, self->index);
	char *next = otte_pages(PAGE);

	munmap(next, PAGE);
	munmap(self->mem - PAGE, PAGE);
	munmap(self->mem + BYTES, PAGE);
	EXPECT_STATE(0, false);
}

TEST_F(memory, mapping_over_it_makes_it_stale)
{
	uint64_t before = otte_status_word(self->status, self->index);

	ASSERT_EQ(self->mem, mmap(self->mem, PAGE, PROT_READ,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	EXPECT_STATE(OTTE_STATUS_STALE, true);
}

TEST_F(memory, moving_it_makes_it_stale)
{
	uint64_t before = otte_status_word(self->status, self->index);
	char *to = otte_pages(BYTES);

	ASSERT_EQ(to, mremap(self->mem, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	EXPECT_STATE(OTTE_STATUS_STALE, true);
}

TEST_F(memory, shrinking_it_makes_it_stale)
{
	uint64_t before = otte_status_word(self->status, self->index);

	ASSERT_EQ(self->mem, mremap(self->mem, BYTES, BYTES - PAGE, 0));
	EXPECT_STATE(OTTE_STATUS_STALE, true);
}

TEST_F(memory, dropping_pages_makes_it_suspect_and_verify_finds_out)
{
	uint64_t before = otte_status_word(self->status, self->index);
	struct otte_event event;

	ASSERT_EQ(0, madvise(self->mem + 2 * PAGE, PAGE, MADV_DONTNEED));
	EXPECT_STATE(OTTE_STATUS_SUSPECT, true);
	ASSERT_EQ(0, otte_wait_event(self->fd, OTTE_EVENT_REGION_SUSPECT, &event));
	EXPECT_EQ(-ESTALE, otte_verify(self->fd, self->region));
	if (variant->backing == OTTE_BACKING_PAGES)
		EXPECT_STATE(OTTE_STATUS_SUSPECT | OTTE_STATUS_STALE, true);
}

/* What the owner sees at its addresses is what it registered, as long as they are mapped. */
TEST_F(memory, what_is_suspect_is_lent_by_address_and_what_is_stale_is_not)
{
	const uint32_t both = OTTE_LOAN_BY_ADDRESS | OTTE_LOAN_STANDING;
	uint64_t loan, other;

	ASSERT_EQ(0, otte_expose_flags(self->fd, self->region, 0, PAGE, 1, 1, OTTE_READ,
				       OTTE_LOAN_BY_ADDRESS, &loan));
	ASSERT_EQ(0, otte_settle_as(self->fd, loan, OTTE_EVIDENCE_RETURNED));
	ASSERT_EQ(0, madvise(self->mem + 2 * PAGE, PAGE, MADV_DONTNEED));
	ASSERT_EQ(OTTE_STATUS_LIVE | OTTE_STATUS_SUSPECT,
		  otte_status_word(self->status, self->index) & 0xff);
	/* Pinned pages are there all the same. */
	if (variant->backing == OTTE_BACKING_NONE) {
		EXPECT_EQ(-ESTALE, otte_expose(self->fd, self->region, 0, PAGE, 1, 1, OTTE_READ,
					       &other));
		EXPECT_EQ(-ESTALE, otte_expose_flags(self->fd, self->region, 0, PAGE, 1, 1,
						     OTTE_READ, OTTE_LOAN_STANDING, &other));
		EXPECT_EQ(-ESTALE, otte_offer(self->fd, self->region, 0, PAGE, self->client,
					      OTTE_READ, 0, &other));
	}
	ASSERT_EQ(0, otte_expose_flags(self->fd, self->region, 0, PAGE, 1, 1, OTTE_READ, both,
				       &loan));
	/* It excludes and is charged like any other, and is no offer's. */
	EXPECT_EQ(-EBUSY, otte_expose_flags(self->fd, self->region, 0, PAGE, 1, 1, OTTE_WRITE,
					    OTTE_LOAN_BY_ADDRESS, &other));
	EXPECT_EQ(PAGE, otte_usage(self->fd, OTTE_RES_LENT_BYTES));
	EXPECT_EQ(-EOPNOTSUPP, otte_offer(self->fd, self->region, PAGE, PAGE, self->client,
					  OTTE_READ, OTTE_LOAN_BY_ADDRESS, &other));
	ASSERT_EQ(0, munmap(self->mem + 4 * PAGE, PAGE));
	EXPECT_EQ(-ESTALE, otte_expose_flags(self->fd, self->region, 0, PAGE, 2, 1, OTTE_READ, both,
					     &other));
	EXPECT_EQ(-ESTALE, otte_expose_flags(self->fd, self->region, 0, PAGE, 2, 1, OTTE_READ,
					     OTTE_LOAN_BY_ADDRESS, &other));
	/* Settling is as it was. */
	EXPECT_EQ(0, otte_settle_as(self->fd, loan, OTTE_EVIDENCE_REVOKED));
	EXPECT_EQ(0, otte_usage(self->fd, OTTE_RES_LENT_BYTES));
}

TEST_F(memory, an_offer_is_not_accepted_after_its_pages_may_have_changed)
{
	uint64_t loan;

	ASSERT_EQ(0, otte_offer(self->fd, self->region, 0, BYTES, self->client, OTTE_READ, 0,
				&loan));
	ASSERT_EQ(0, madvise(self->mem + 2 * PAGE, PAGE, MADV_DONTNEED));
	/* Pinned pages are there all the same; VERIFY tells whether they are still the owner's. */
	EXPECT_EQ(variant->backing == OTTE_BACKING_NONE ? -ESTALE : 0,
		  otte_accept(self->fd, loan, NULL));
	EXPECT_EQ(0, otte_settle(self->fd, loan));
}

TEST_F(memory, protecting_it_does_nothing)
{
	uint64_t before = otte_status_word(self->status, self->index);

	ASSERT_EQ(0, mprotect(self->mem, BYTES, PROT_READ));
	ASSERT_EQ(0, mprotect(self->mem, PAGE, PROT_NONE));
	ASSERT_EQ(0, mprotect(self->mem, BYTES, PROT_READ | PROT_WRITE));
	EXPECT_STATE(0, false);
	EXPECT_EQ(0, otte_verify(self->fd, self->region));
}

TEST_F(memory, a_fork_and_writes_after_it_never_make_it_stale)
{
	uint64_t before = otte_status_word(self->status, self->index);
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	EXPECT_EQ(0, otte_status_word(self->status, self->index) & OTTE_STATUS_STALE);
	EXPECT_STATE(0, false);
	self->mem[0]++;
	self->mem[BYTES - 1]++;
	EXPECT_EQ(0, otte_status_word(self->status, self->index) & OTTE_STATUS_STALE);
	/* Pinned pages were copied for the child, so the parent's are the same ones. */
	if (variant->backing == OTTE_BACKING_PAGES)
		EXPECT_EQ(0, otte_verify(self->fd, self->region));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

struct unmapper {
	char *mem;
	uint64_t *status;
	unsigned int index;
	uint64_t after;
};

static void *unmap_and_look(void *arg)
{
	struct unmapper *u = arg;

	munmap(u->mem, PAGE);
	u->after = otte_status_word(u->status, u->index);
	return NULL;
}

TEST_F(memory, the_thread_that_unmapped_sees_it_stale_when_munmap_returns)
{
	unsigned int round;

	for (round = 0; round < 50; round++) {
		struct unmapper u = { .mem = otte_pages(PAGE), .status = self->status };
		pthread_t thread;
		uint64_t region;

		u.mem[0] = 1;
		ASSERT_EQ(0, add(self->fd, variant->backing, u.mem, PAGE, &region, &u.index));
		ASSERT_EQ(0, pthread_create(&thread, NULL, unmap_and_look, &u));
		pthread_join(thread, NULL);
		EXPECT_TRUE(u.after & OTTE_STATUS_STALE);
		ASSERT_EQ(0, otte_region_del(self->fd, region, NULL));
	}
}

TEST_F(memory, splitting_a_huge_page_is_at_most_suspect_and_verify_clears_it)
{
	char *area = otte_pages(2 * HUGE_BYTES);
	char *huge = (char *)(((uintptr_t)area + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));
	uint64_t region, word;
	unsigned int index;

	madvise(huge, HUGE_BYTES, MADV_HUGEPAGE);
	memset(huge, 1, HUGE_BYTES);
	ASSERT_EQ(0, add(self->fd, variant->backing, huge, HUGE_BYTES, &region, &index));
	/* A change of protection in its middle splits the page table entry. */
	ASSERT_EQ(0, mprotect(huge + 4 * PAGE, PAGE, PROT_READ));
	word = otte_status_word(self->status, index);
	EXPECT_EQ(0, word & OTTE_STATUS_STALE);
	if (variant->backing == OTTE_BACKING_PAGES || !(word & OTTE_STATUS_SUSPECT)) {
		EXPECT_EQ(0, otte_verify(self->fd, region));
		EXPECT_EQ(OTTE_STATUS_LIVE, otte_status_word(self->status, index) & 0xff);
	}
	ASSERT_EQ(0, otte_region_del(self->fd, region, NULL));
}

TEST_F(memory, the_status_page_cannot_be_written_or_run)
{
	void *map;

	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd,
				   OTTE_MMAP_STATUS));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, self->fd,
				   OTTE_MMAP_STATUS));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, self->fd,
				   OTTE_MMAP_STATUS));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, self->fd,
				   OTTE_MMAP_STATUS));
	map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, self->fd, OTTE_MMAP_STATUS);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(-1, mprotect(map, PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-1, mprotect(map, PAGE, PROT_READ | PROT_EXEC));
	munmap(map, PAGE);
}

/* ---- what can be registered ---- */

FIXTURE(pins)
{
	int fd;
};

FIXTURE_SETUP(pins)
{
	self->fd = otte_client(NULL);
	ASSERT_GE(self->fd, 0);
}

FIXTURE_TEARDOWN(pins)
{
	close(self->fd);
}

TEST_F(pins, file_pages_holes_and_device_memory_are_refused)
{
	char *hole = otte_pages(3 * PAGE);
	int exe = open("/proc/self/exe", O_RDONLY);
	uint64_t region;
	void *map;

	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, OTTE_MMAP_STATUS);
	EXPECT_EQ(MAP_FAILED, map);
	munmap(hole + PAGE, PAGE);
	EXPECT_EQ(-EFAULT, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ, hole, 3 * PAGE,
				       &region));
	map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, exe, 0);
	EXPECT_NE(0, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ, map, PAGE, &region));
	/* Copied on write for the pin: the private copy is anonymous. */
	map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, exe, 0);
	EXPECT_EQ(0, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ, map, PAGE, &region));
	EXPECT_EQ(-EINVAL, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ, hole, 0, &region));
	EXPECT_EQ(-EINVAL, otte_region(self->fd, OTTE_BACKING_NONE, OTTE_READ, (void *)-PAGE,
				       2 * PAGE, &region));
	EXPECT_EQ(-EINVAL, otte_region(self->fd, OTTE_BACKING_NONE, 0, hole, PAGE, &region));
	EXPECT_EQ(PAGE, otte_usage(self->fd, OTTE_RES_PINNED_BYTES));
}

TEST_F(pins, shared_memory_is_pinned_as_it_is)
{
	int file = memfd_create("shared", 0);
	uint64_t region;
	char *map;

	ASSERT_EQ(0, ftruncate(file, BYTES));
	map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	ASSERT_EQ(0, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ | OTTE_WRITE, map, BYTES,
				 &region));
	map[0] = 1;
	EXPECT_EQ(0, otte_verify(self->fd, region));
}

TEST_F(pins, more_than_can_be_listed_is_refused_quietly)
{
	uint64_t region;

	EXPECT_EQ(-ENOMEM, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ, (void *)PAGE,
				       1ULL << 42, &region));
	EXPECT_EQ(0, otte_usage(self->fd, OTTE_RES_PINNED_BYTES));
}

static struct {
	int fd;
	uint64_t region;
	bool stop;
} verified;

static void *verify_on_and_on(void *arg)
{
	while (!__atomic_load_n(&verified.stop, __ATOMIC_ACQUIRE))
		otte_verify(verified.fd, __atomic_load_n(&verified.region, __ATOMIC_ACQUIRE));
	return arg;
}

TEST_F(pins, a_region_can_be_deleted_while_another_thread_verifies_it)
{
	const unsigned long bytes = 1024 * PAGE;
	char *mem = otte_pages(bytes);
	pthread_t thread;
	uint64_t region;
	int i;

	verified.fd = self->fd;
	ASSERT_EQ(0, pthread_create(&thread, NULL, verify_on_and_on, NULL));
	for (i = 0; i < 300; i++) {
		ASSERT_EQ(0, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ | OTTE_WRITE, mem,
					 bytes, &region));
		/* Found out only after all other pages were compared. */
		ASSERT_EQ(0, madvise(mem + bytes - PAGE, PAGE, MADV_DONTNEED));
		__atomic_store_n(&verified.region, region, __ATOMIC_RELEASE);
		usleep(i * 10);
		EXPECT_EQ(0, otte_region_del(self->fd, region, NULL));
	}
	__atomic_store_n(&verified.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, otte_usage(self->fd, OTTE_RES_PINNED_BYTES));
	EXPECT_EQ(0, otte_usage(self->fd, OTTE_RES_REGIONS));
}

/* Becomes an ordinary user with @pages of locked memory. */
static void drop_to_user(unsigned long pages)
{
	struct rlimit limit = { pages * PAGE, pages * PAGE };

	if (chmod(OTTE_DEV, 0666) || setrlimit(RLIMIT_MEMLOCK, &limit) ||
	    syscall(SYS_setgid, 1234) || syscall(SYS_setuid, 1234))
		_exit(10);
}

static int user_pins(unsigned long pages, uint64_t *region, int *fd)
{
	struct otte_event event;
	int err;

	*fd = otte_client(NULL);
	if (*fd < 0)
		return *fd;
	err = otte_region(*fd, OTTE_BACKING_PAGES, OTTE_READ, otte_pages(pages * PAGE),
			  pages * PAGE, region);
	if (err == -EDQUOT && (otte_next_event(*fd, &event, 1000) ||
			       event.type != OTTE_EVENT_QUOTA ||
			       event.level != OTTE_LEVEL_MEMLOCK || event.key != 1234))
		return -EPROTO;
	return err;
}

static void user_in_its_limit(int sock)
{
	uint64_t region;
	int fd, err;

	drop_to_user(8);
	say(sock, -user_pins(8, &region, &fd));
	say(sock, -user_pins(1, &region, &err));
	say(sock, 0);
	pause();
}

TEST_F(pins, locked_memory_is_the_users_over_all_its_clients)
{
	struct peer one, two;

	one = peer_start(user_in_its_limit);
	EXPECT_EQ(0, hear(one.sock));
	EXPECT_EQ(EDQUOT, hear(one.sock));
	hear(one.sock);
	two = peer_start(user_in_its_limit);
	EXPECT_EQ(EDQUOT, hear(two.sock));
	peer_kill(&two);
	peer_kill(&one);
	/* What the dead had locked is free again. */
	ASSERT_TRUE(otte_all_zero(self->fd, 1));
	two = peer_start(user_in_its_limit);
	EXPECT_EQ(0, hear(two.sock));
	peer_kill(&two);
}

static void user_lends_and_waits(int sock)
{
	uint64_t region, loan, borrower = hear(sock);
	int fd, err;

	drop_to_user(8);
	err = user_pins(4, &region, &fd);
	if (!err)
		err = otte_offer(fd, region, 0, PAGE, borrower, OTTE_READ, 0, &loan);
	say(sock, err ? 0 : loan);
	pause();
}

TEST_F(pins, registering_lending_and_dying_cannot_pass_the_users_limit)
{
	uint64_t client = 0, loan, taken[8];
	unsigned int i, n = 0;
	struct peer peer;
	int fd = otte_client(&client);

	for (i = 0; i < 8; i++) {
		peer = peer_start(user_lends_and_waits);
		say(peer.sock, client);
		loan = hear(peer.sock);
		if (loan && !otte_accept(fd, loan, NULL))
			taken[n++] = loan;
		peer_kill(&peer);
	}
	EXPECT_EQ(2, n);
	EXPECT_EQ(8 * PAGE, otte_usage(self->fd, OTTE_RES_PINNED_BYTES));
	for (i = 0; i < n; i++)
		EXPECT_EQ(0, otte_settle(fd, taken[i]));
	EXPECT_EQ(0, otte_usage(self->fd, OTTE_RES_PINNED_BYTES));
	close(fd);
	peer = peer_start(user_in_its_limit);
	EXPECT_EQ(0, hear(peer.sock));
	peer_kill(&peer);
}

TEST_HARNESS_MAIN
