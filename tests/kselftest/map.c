// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attacks on mmap() of a loan. After a loan has settled nothing of it can be read: shown by filling
 * the memory anew and looking at every mapping that might have stayed.
 */
#include <pthread.h>
#include <setjmp.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#include "otte_test.h"
#include "kselftest_harness.h"

#define PAGES	64
#define BYTES	(PAGES * PAGE)

static sigjmp_buf fault_jump;

static void on_fault(int sig)
{
	siglongjmp(fault_jump, sig);
}

/* The signal that reading (or writing) @at raises, 0 for none. */
static int touch(volatile char *at, bool write)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	int sig;

	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sig = sigsetjmp(fault_jump, 1);
	if (sig)
		return sig;
	if (write)
		*at = 1;
	else
		(void)*at;
	return 0;
}

FIXTURE(map)
{
	int lender, borrower;
	uint64_t lender_id, borrower_id, region, loan;
	struct otte_loan_accept accept;
	char *mem;
};

FIXTURE_VARIANT(map)
{
	uint32_t direction;
};

FIXTURE_VARIANT_ADD(map, read)
{
	.direction = OTTE_READ,
};

FIXTURE_VARIANT_ADD(map, write)
{
	.direction = OTTE_WRITE,
};

FIXTURE_SETUP(map)
{
	self->lender = otte_client(&self->lender_id);
	self->borrower = otte_client(&self->borrower_id);
	ASSERT_GE(self->lender, 0);
	ASSERT_GE(self->borrower, 0);
	self->mem = otte_pages(BYTES);
	otte_fill(self->mem, BYTES, 5);
	ASSERT_EQ(0, otte_region(self->lender, OTTE_BACKING_PAGES, OTTE_READ | OTTE_WRITE,
				 self->mem, BYTES, &self->region));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 8 * PAGE, 16 * PAGE, self->borrower_id,
				variant->direction, OTTE_LOAN_MAPPABLE | OTTE_LOAN_REVOCABLE,
				&self->loan));
	ASSERT_EQ(0, otte_accept(self->borrower, self->loan, &self->accept));
}

FIXTURE_TEARDOWN(map)
{
	int fd;

	close(self->lender);
	close(self->borrower);
	fd = otte_client(NULL);
	EXPECT_TRUE(otte_all_zero(fd, 1));
	close(fd);
}

#define LENT	(16 * PAGE)

#define MAP(length, prot, flags, at) \
	mmap(NULL, length, prot, flags, self->borrower, self->accept.map_offset + (at))

TEST_F(map, only_what_was_lent_is_mapped_and_as_it_was_lent)
{
	char *map;

	EXPECT_EQ(MAP_FAILED, MAP(LENT, PROT_READ, MAP_PRIVATE, 0));
	EXPECT_EQ(MAP_FAILED, MAP(LENT + PAGE, PROT_READ, MAP_SHARED, 0));
	EXPECT_EQ(MAP_FAILED, MAP(PAGE, PROT_READ, MAP_SHARED, LENT));
	EXPECT_EQ(MAP_FAILED, MAP(2 * PAGE, PROT_READ, MAP_SHARED, LENT - PAGE));
	EXPECT_EQ(MAP_FAILED, MAP(PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, 0));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ, MAP_SHARED, self->lender,
				   self->accept.map_offset));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ, MAP_SHARED, self->borrower,
				   self->accept.map_offset + (1ULL << 42)));
	map = MAP(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	if (variant->direction == OTTE_READ) {
		EXPECT_EQ(MAP_FAILED, map);
	} else {
		ASSERT_NE(MAP_FAILED, map);
		map[7] = 77;
		EXPECT_EQ(77, self->mem[8 * PAGE + 7]);
		munmap(map, PAGE);
	}
	map = MAP(PAGE, PROT_READ, MAP_SHARED, 3 * PAGE);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_TRUE(otte_filled(map, PAGE, 5, 11 * PAGE));
	EXPECT_EQ(variant->direction == OTTE_READ ? -1 : 0,
		  mprotect(map, PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-1, mprotect(map, PAGE, PROT_READ | PROT_EXEC));
	munmap(map, PAGE);
	EXPECT_EQ(0, otte_settle(self->borrower, self->loan));
	EXPECT_EQ(MAP_FAILED, MAP(PAGE, PROT_READ, MAP_SHARED, 0));
}

TEST_F(map, a_file_opened_for_reading_alone_cannot_map)
{
	struct otte_loan_accept accept;
	uint64_t id, loan;
	int fd = open(OTTE_DEV, O_RDONLY);

	ASSERT_EQ(0, otte_init_flags(fd, 0, &id));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 32 * PAGE, PAGE, id, OTTE_READ,
				OTTE_LOAN_MAPPABLE, &loan));
	ASSERT_EQ(0, otte_accept(fd, loan, &accept));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, accept.map_offset));
	close(fd);
}

TEST_F(map, a_loan_that_is_not_mappable_has_no_window)
{
	struct otte_loan_accept accept;
	uint64_t loan;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 32 * PAGE, PAGE, self->borrower_id,
				OTTE_READ, 0, &loan));
	ASSERT_EQ(0, otte_accept(self->borrower, loan, &accept));
	EXPECT_EQ(0, accept.map_offset);
	EXPECT_EQ(0, accept.map_bytes);
}

TEST_F(map, a_mapping_is_not_split_grown_or_inherited)
{
	char *map = MAP(LENT, PROT_READ, MAP_SHARED, 0), *moved;
	int status;
	pid_t pid;

	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(0, touch(map, false));
	EXPECT_EQ(-1, munmap(map, PAGE));
	EXPECT_EQ(-1, munmap(map + LENT - PAGE, PAGE));
	EXPECT_EQ(-1, mprotect(map, PAGE, PROT_NONE));
	EXPECT_EQ(MAP_FAILED, mmap(map + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS |
				   MAP_FIXED, -1, 0));
	EXPECT_EQ(MAP_FAILED, mremap(map, LENT, LENT + PAGE, MREMAP_MAYMOVE));
	EXPECT_EQ(MAP_FAILED, mremap(map, LENT, LENT - PAGE, 0));
	EXPECT_EQ(-1, madvise(map, LENT, MADV_DOFORK));
	EXPECT_EQ(-1, madvise(map, LENT, MADV_DONTNEED));
	pid = fork();
	if (!pid)
		_exit(touch(map, false) == SIGSEGV ? 0 : 1);
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);

	/* Moving it whole is harmless, and still counted as one. */
	moved = mremap(map, LENT, LENT, MREMAP_MAYMOVE | MREMAP_FIXED, otte_pages(LENT));
	ASSERT_NE(MAP_FAILED, moved);
	EXPECT_TRUE(otte_filled(moved, LENT, 5, 8 * PAGE));
	EXPECT_EQ(SIGSEGV, touch(map, false));
	EXPECT_EQ(-EBUSY, otte_settle(self->borrower, self->loan));
	munmap(moved, LENT);
	EXPECT_EQ(0, otte_settle(self->borrower, self->loan));
}

TEST_F(map, it_cannot_be_registered_or_written_to_through_the_back_door)
{
	char *map = MAP(LENT, PROT_READ, MAP_SHARED, 0);
	uint64_t region;
	int mem = open("/proc/self/mem", O_RDWR), pipe_fd[2];
	char byte = 9;

	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(0, touch(map, false));
	EXPECT_EQ(-EFAULT, otte_region(self->borrower, OTTE_BACKING_PAGES, OTTE_READ, map, PAGE,
				       &region));
	EXPECT_EQ(-1, pwrite(mem, &byte, 1, (uintptr_t)map));
	EXPECT_EQ(-1, pread(mem, &byte, 1, (uintptr_t)map));
	ASSERT_EQ(0, pipe(pipe_fd));
	EXPECT_EQ(-1, syscall(SYS_vmsplice, pipe_fd[1],
			      &(struct iovec){ map, PAGE }, 1, 0));
	EXPECT_TRUE(otte_filled(self->mem, BYTES, 5, 0));
	munmap(map, LENT);
}

/* After a revocation no old page can be seen, whatever the memory holds now. */
TEST_F(map, revoked_mappings_are_dead_for_good)
{
	char *late = MAP(PAGE, PROT_READ, MAP_SHARED, 0);
	char *map = MAP(LENT, PROT_READ, MAP_SHARED, 0);
	uint32_t draining;
	unsigned int i;

	ASSERT_NE(MAP_FAILED, map);
	ASSERT_NE(MAP_FAILED, late);
	EXPECT_TRUE(otte_filled(map, LENT, 5, 8 * PAGE));
	ASSERT_EQ(0, otte_revoke(self->lender, self->loan, &draining));
	EXPECT_EQ(0, draining);
	ASSERT_EQ(0, otte_region_del(self->lender, self->region, NULL));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_PINNED_BYTES));
	munmap(self->mem, BYTES);
	self->mem = otte_pages(BYTES);
	memset(self->mem, 0xa5, BYTES);
	for (i = 0; i < LENT / PAGE; i++)
		EXPECT_EQ(SIGBUS, touch(map + i * PAGE, false));
	EXPECT_EQ(SIGBUS, touch(late, false));
	EXPECT_EQ(MAP_FAILED, MAP(PAGE, PROT_READ, MAP_SHARED, 0));
	EXPECT_EQ(0, munmap(map, LENT));
	EXPECT_EQ(0, munmap(late, PAGE));
}

TEST_F(map, a_second_device_node_is_no_way_around_a_revocation)
{
	struct otte_loan_accept accept;
	uint64_t id, loan;
	struct stat st;
	char *map;
	int fd;

	ASSERT_EQ(0, stat(OTTE_DEV, &st));
	unlink("/tmp/otte-again");
	ASSERT_EQ(0, mknod("/tmp/otte-again", S_IFCHR | 0600, st.st_rdev));
	fd = open("/tmp/otte-again", O_RDWR);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, otte_init_flags(fd, 0, &id));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 32 * PAGE, PAGE, id, OTTE_READ,
				OTTE_LOAN_MAPPABLE | OTTE_LOAN_REVOCABLE, &loan));
	ASSERT_EQ(0, otte_accept(fd, loan, &accept));
	map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, accept.map_offset);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(0, touch(map, false));
	ASSERT_EQ(0, otte_revoke(self->lender, loan, NULL));
	EXPECT_EQ(SIGBUS, touch(map, false));
	munmap(map, PAGE);
	close(fd);
	unlink("/tmp/otte-again");
}

struct stormer {
	int fd;
	uint64_t offset;
	volatile bool stop;
	unsigned long reads, dead, wrong;
};

static unsigned long reads_of(const struct stormer *s)
{
	return __atomic_load_n(&s->reads, __ATOMIC_RELAXED);
}

static __thread sigjmp_buf storm_jump;

static void on_storm(int sig)
{
	siglongjmp(storm_jump, 1);
}

/* Maps, reads each page, unmaps, again and again; sees the lent bytes or SIGBUS, nothing else. */
static void *storm(void *arg)
{
	struct stormer *s = arg;
	char *volatile map = NULL;
	unsigned int i;

	while (!s->stop) {
		map = mmap(NULL, LENT, PROT_READ, MAP_SHARED, s->fd, s->offset);
		if (map == MAP_FAILED)
			break;
		if (sigsetjmp(storm_jump, 1)) {
			s->dead++;
		} else {
			for (i = 0; i < LENT; i += PAGE) {
				if (!otte_filled((char *)map + i, 8, 5, 8 * PAGE + i))
					s->wrong++;
				s->reads++;
			}
		}
		munmap(map, LENT);
	}
	return NULL;
}

TEST_F_TIMEOUT(map, a_revocation_during_a_storm_of_faults_lets_no_old_page_through, 120)
{
	struct sigaction action = { .sa_handler = on_storm, .sa_flags = SA_NODEFER };
	struct stormer s[2] = {};
	pthread_t thread[2];
	unsigned int i;

	sigaction(SIGBUS, &action, NULL);
	for (i = 0; i < 2; i++) {
		s[i].fd = self->borrower;
		s[i].offset = self->accept.map_offset;
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, storm, &s[i]));
	}
	usleep(200000);
	for (i = 0; i < 2000 && !(reads_of(&s[0]) && reads_of(&s[1])); i++)
		usleep(10000);
	ASSERT_EQ(0, otte_revoke(self->lender, self->loan, NULL));
	ASSERT_EQ(0, otte_region_del(self->lender, self->region, NULL));
	memset(self->mem, 0xa5, BYTES);
	munmap(self->mem, BYTES);
	self->mem = otte_pages(BYTES);
	memset(self->mem, 0x5a, BYTES);
	usleep(100000);
	for (i = 0; i < 2; i++) {
		s[i].stop = true;
		pthread_join(thread[i], NULL);
		EXPECT_EQ(0, s[i].wrong);
		EXPECT_GT(s[i].reads, 0);
	}
}

static void map_and_fault(int sock)
{
	struct otte_loan_accept accept;
	struct otte_event event;
	uint64_t id;
	int fd = otte_client(&id);
	char *map;

	say(sock, id);
	if (otte_wait_event(fd, OTTE_EVENT_OFFERED, &event) ||
	    otte_accept(fd, event.object, &accept))
		_exit(1);
	say(sock, event.object);
	for (;;) {
		map = mmap(NULL, LENT, PROT_READ, MAP_SHARED, fd, accept.map_offset);
		if (map == MAP_FAILED || touch(map, false) || touch(map + LENT - PAGE, false))
			_exit(2);
		munmap(map, LENT);
	}
}

TEST_F_TIMEOUT(map, a_borrower_killed_while_faulting_has_unmapped, 120)
{
	struct otte_event event;
	struct peer peer;
	unsigned int round;
	uint64_t id, loan;

	for (round = 0; round < 10; round++) {
		peer = peer_start(map_and_fault);
		id = hear(peer.sock);
		ASSERT_EQ(0, otte_offer(self->lender, self->region, 32 * PAGE, LENT, id, OTTE_READ,
					OTTE_LOAN_MAPPABLE, &loan));
		ASSERT_EQ(loan, hear(peer.sock));
		usleep(1000 * (round + 1));
		peer_kill(&peer);
		do {
			ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_SETTLED, &event));
		} while (event.object != loan);
		EXPECT_EQ(OTTE_EVIDENCE_UNMAPPED, event.evidence);
	}
}

static void lend_then_exec(int sock)
{
	char *const args[] = { "/bin/busybox", "sleep", "1000", NULL };
	uint64_t region, loan, borrower = hear(sock);
	char *mem = otte_pages(BYTES);
	int fd = otte_client(NULL);

	otte_fill(mem, BYTES, 6);
	if (otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ, mem, BYTES, &region) ||
	    otte_offer(fd, region, 0, BYTES, borrower, OTTE_READ, OTTE_LOAN_MAPPABLE, &loan))
		_exit(1);
	say(sock, loan);
	hear(sock);
	/* The file is inherited; the client ends all the same. */
	fcntl(fd, F_SETFD, 0);
	execv(args[0], args);
	_exit(2);
}

TEST_F(map, a_lender_that_executes_leaves_its_pages_to_the_borrower)
{
	struct peer peer = peer_start(lend_then_exec);
	struct otte_loan_accept accept;
	struct otte_event event;
	uint64_t loan;
	char *map;

	say(peer.sock, self->borrower_id);
	loan = hear(peer.sock);
	ASSERT_EQ(0, otte_accept(self->borrower, loan, &accept));
	map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, self->borrower, accept.map_offset);
	ASSERT_NE(MAP_FAILED, map);
	say(peer.sock, 0);
	ASSERT_EQ(0, otte_wait_event(self->borrower, OTTE_EVENT_OWNER_GONE, &event));
	EXPECT_EQ(loan, event.object);
	EXPECT_EQ(BYTES, otte_usage(self->borrower, OTTE_RES_RETAINED_BYTES));
	EXPECT_TRUE(otte_filled(map, BYTES, 6, 0));
	munmap(map, BYTES);
	EXPECT_EQ(0, otte_settle(self->borrower, loan));
	EXPECT_EQ(0, otte_usage(self->borrower, OTTE_RES_RETAINED_BYTES));
	peer_kill(&peer);
}

TEST_HARNESS_MAIN
