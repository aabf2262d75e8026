// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the end of a process proves, case by case: the evidence is right and never early.
 *
 * The borrower dies in each of the ways below. Its loans are of a PAGES region (which the module
 * itself unmaps: exact), of a NONE region whose lender accepts BORROWER_EXITED, and of a NONE
 * region whose lender does not.
 */
#include <linux/io_uring.h>
#include <pthread.h>
#include <sys/uio.h>

#include "otte_test.h"
#include "kselftest_harness.h"

#define WITH_EXIT	(OTTE_EVIDENCE_DEFAULT | OTTE_EVIDENCE_BORROWER_EXITED)

/* ---- ways to go, run in the borrower after it said that it is ready ---- */

static int passed_sock = -1;	/* a socket of the test, for SCM_RIGHTS */
static int lingering[2];	/* a pipe: what is left of a borrower stays until the test writes */

static void linger(void)
{
	char byte;

	close(lingering[1]);
	if (read(lingering[0], &byte, 1) < 0)
		_exit(7);
}

static void *sleeper(void *arg)
{
	pause();
	return NULL;
}

static void way_killed(int fd)
{
	pause();
}

static void way_threads(int fd)
{
	pthread_t thread;
	int i;

	for (i = 0; i < 3; i++)
		pthread_create(&thread, NULL, sleeper, NULL);
	pause();
}

static void way_leader_first(int fd)
{
	pthread_t thread;

	pthread_create(&thread, NULL, sleeper, NULL);
	syscall(SYS_exit, 0);
}

/* A child keeps the file open; the mm is its own. */
static void way_child_keeps_file(int fd)
{
	if (!fork()) {
		linger();
		_exit(0);
	}
	pause();
}

static int remainder_of(void *arg)
{
	linger();
	return 0;
}

static void way_files_shared(int fd)
{
	clone(remainder_of, otte_pages(16 * PAGE) + 15 * PAGE, CLONE_FILES | SIGCHLD, NULL);
	pause();
}

/* Another process goes on in the same address space. */
static void way_mm_shared(int fd)
{
	clone(remainder_of, otte_pages(16 * PAGE) + 15 * PAGE, CLONE_VM | SIGCHLD, NULL);
	pause();
}

static void way_uring(int fd)
{
	struct io_uring_params params = {};
	int ring = syscall(SYS_io_uring_setup, 4, &params);

	syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &fd, 1);
	close(fd);
	pause();
}

static void way_passed(int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	sendmsg(passed_sock, &msg, 0);
	pause();
}

static void way_exec(int fd)
{
	char *const args[] = { "/bin/busybox", "sleep", "1000", NULL };

	execv(args[0], args);
}

static void way_exit(int fd)
{
	_exit(0);
}

static void way_close(int fd)
{
	close(fd);
	pause();
}

/* ---- the borrower ---- */

static void (*way)(int fd);

static void borrower(int sock)
{
	struct otte_event event;
	uint64_t id;
	int i, fd = otte_client(&id);

	say(sock, id);
	for (i = 0; i < 3; i++) {
		if (otte_wait_event(fd, OTTE_EVENT_OFFERED, &event) ||
		    otte_accept(fd, event.object, NULL))
			_exit(9);
	}
	say(sock, 1);
	hear(sock);
	way(fd);
	_exit(8);
}

FIXTURE(death)
{
	int fd;
	uint64_t client, pages, none, loan[3];
	char *mem;
	struct peer peer;
	int spare[2];
};

FIXTURE_VARIANT(death)
{
	void (*way)(int fd);
	bool dies_itself;	/* nobody has to kill it */
	bool lives_on;		/* the process is alive after its client has ended */
	bool lingers;		/* something of it is left after its death */
	bool early_pages;	/* that something does not keep the address space */
};

FIXTURE_VARIANT_ADD(death, killed)
{
	 .way = way_killed
};

FIXTURE_VARIANT_ADD(death, killed_with_threads)
{
	 .way = way_threads
};

FIXTURE_VARIANT_ADD(death, leader_exits_first)
{
	 .way = way_leader_first
};

FIXTURE_VARIANT_ADD(death, child_keeps_file)
{
	.way = way_child_keeps_file, .lingers = true, .early_pages = true,
};

FIXTURE_VARIANT_ADD(death, files_are_shared)
{
	.way = way_files_shared, .lingers = true, .early_pages = true,
};

FIXTURE_VARIANT_ADD(death, address_space_is_shared)
{
	 .way = way_mm_shared, .lingers = true
};

FIXTURE_VARIANT_ADD(death, registered_with_io_uring)
{
	 .way = way_uring
};

FIXTURE_VARIANT_ADD(death, passed_and_in_flight)
{
	.way = way_passed, .lingers = true, .early_pages = true,
};

FIXTURE_VARIANT_ADD(death, executes)
{
	 .way = way_exec, .dies_itself = true, .lives_on = true
};

FIXTURE_VARIANT_ADD(death, exits)
{
	 .way = way_exit, .dies_itself = true
};

FIXTURE_VARIANT_ADD(death, closes)
{
	 .way = way_close, .dies_itself = true, .lives_on = true
};

FIXTURE_SETUP(death)
{
	uint64_t id;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, self->spare));
	ASSERT_EQ(0, pipe(lingering));
	passed_sock = self->spare[0];
	self->fd = otte_client(&self->client);
	ASSERT_GE(self->fd, 0);
	self->mem = otte_pages(2 * PAGE);
	ASSERT_EQ(0, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ, self->mem, PAGE,
				 &self->pages));
	ASSERT_EQ(0, otte_region(self->fd, OTTE_BACKING_NONE, OTTE_READ, self->mem + PAGE, PAGE,
				 &self->none));
	way = variant->way;
	self->peer = peer_start(borrower);
	id = hear(self->peer.sock);
	ASSERT_EQ(0, otte_offer_evidence(self->fd, self->pages, 0, PAGE, id, OTTE_READ, 0, 0,
					 &self->loan[0]));
	ASSERT_EQ(0, otte_offer_evidence(self->fd, self->none, 0, 1, id, OTTE_READ, 0, WITH_EXIT,
					 &self->loan[1]));
	ASSERT_EQ(0, otte_offer_evidence(self->fd, self->none, 1, 1, id, OTTE_READ, 0, 0,
					 &self->loan[2]));
	ASSERT_EQ(1, hear(self->peer.sock));
	otte_drain_events(self->fd);
}

FIXTURE_TEARDOWN(death)
{
	close(lingering[0]);
	close(lingering[1]);
	close(self->spare[0]);
	close(self->spare[1]);
	close(self->fd);
}

/*
 * Until nothing comes for @ms: what the lender is told about each loan, evidence, or 0 for nothing.
 */
static void collect(int fd, const uint64_t loan[3], uint32_t evidence[3], bool gone[3], int ms)
{
	struct otte_event event;
	int i;

	while (!otte_next_event(fd, &event, ms)) {
		for (i = 0; i < 3; i++) {
			if (event.object != loan[i])
				continue;
			if (event.type == OTTE_EVENT_SETTLED)
				evidence[i] = event.evidence;
			else if (event.type == OTTE_EVENT_BORROWER_GONE)
				gone[i] = true;
		}
	}
}

/*
 * Waits until all three were told of, those that @settle by their evidence, the others by their
 * borrower's end; and then for what should not come.
 */
static void collect_all(int fd, const uint64_t loan[3], uint32_t evidence[3], bool gone[3],
			const bool settle[3])
{
	int i, told, tries;

	for (told = 0, tries = 0; told < 3 && tries < 400; tries++) {
		collect(fd, loan, evidence, gone, 50);
		for (i = 0, told = 0; i < 3; i++)
			told += settle[i] ? evidence[i] != 0 : gone[i];
	}
	collect(fd, loan, evidence, gone, 200);
}

TEST_F_TIMEOUT(death, its_evidence_is_right_and_never_early, 60)
{
	const bool proven[3] = { true, !variant->lives_on, false };
	const bool ended[3] = { true, true, false };
	uint32_t evidence[3] = {};
	bool gone[3] = {};

	/* While it lives nothing has ended. */
	collect(self->fd, self->loan, evidence, gone, 50);
	ASSERT_EQ(0, evidence[0] | evidence[1] | evidence[2]);

	say(self->peer.sock, 0);
	if (variant->dies_itself && !variant->lives_on) {
		waitpid(self->peer.pid, NULL, 0);
	} else if (!variant->dies_itself) {
		usleep(200000);
		collect(self->fd, self->loan, evidence, gone, 50);
		EXPECT_EQ(0, evidence[0] | evidence[1] | evidence[2]);
		kill(self->peer.pid, SIGKILL);
		waitpid(self->peer.pid, NULL, 0);
	}

	if (variant->lingers) {
		/* Dead and reaped, yet something is left. Open files are of no use to others. */
		collect(self->fd, self->loan, evidence, gone, 300);
		EXPECT_EQ(variant->early_pages ? OTTE_EVIDENCE_UNMAPPED : 0, evidence[0]);
		EXPECT_EQ(variant->early_pages ? OTTE_EVIDENCE_BORROWER_EXITED : 0, evidence[1]);
		EXPECT_EQ(0, evidence[2]);
		ASSERT_EQ(1, write(lingering[1], "", 1));
	}
	collect_all(self->fd, self->loan, evidence, gone, proven);
	EXPECT_EQ(OTTE_EVIDENCE_UNMAPPED, evidence[0]);
	EXPECT_FALSE(gone[0]);
	EXPECT_EQ(0, evidence[2]);
	EXPECT_TRUE(gone[2]);
	if (variant->lives_on) {
		/* A closed file or a new program proves nothing about verbs or CUDA. */
		EXPECT_EQ(0, evidence[1]);
		EXPECT_TRUE(gone[1]);
		kill(self->peer.pid, SIGKILL);
		waitpid(self->peer.pid, NULL, 0);
		collect_all(self->fd, self->loan, evidence, gone, ended);
	}
	EXPECT_EQ(OTTE_EVIDENCE_BORROWER_EXITED, evidence[1]);
	EXPECT_EQ(0, evidence[2]);
	EXPECT_EQ(1, otte_usage(self->fd, OTTE_RES_RETAINED_BYTES));
	/* The lender's own hardware can still revoke it. */
	EXPECT_EQ(0, otte_settle_as(self->fd, self->loan[2], OTTE_EVIDENCE_REVOKED));
	EXPECT_EQ(0, otte_usage(self->fd, OTTE_RES_RETAINED_BYTES));
}

FIXTURE(watch)
{
	int fd;
	uint64_t client;
};

FIXTURE_SETUP(watch)
{
	self->fd = otte_client(&self->client);
	ASSERT_GE(self->fd, 0);
}

FIXTURE_TEARDOWN(watch)
{
	close(self->fd);
}

static void borrow_one_and_close(int sock)
{
	struct otte_event event;
	uint64_t id;
	int fd = otte_client(&id);

	say(sock, id);
	if (otte_wait_event(fd, OTTE_EVENT_OFFERED, &event) ||
	    otte_accept(fd, event.object, NULL))
		_exit(9);
	close(fd);
	say(sock, 1);
	/* Threads come and go, the address space changes: nobody may be watching any more. */
	hear(sock);
	_exit(0);
}

TEST_F(watch, a_client_that_is_gone_is_forgotten_with_its_last_loan_though_its_process_lives)
{
	char *mem = otte_pages(PAGE);
	uint64_t region, loan;
	struct peer peer = peer_start(borrow_one_and_close);
	unsigned int tries;

	ASSERT_EQ(0, otte_region(self->fd, OTTE_BACKING_NONE, OTTE_READ, mem, PAGE, &region));
	ASSERT_EQ(0, otte_offer(self->fd, region, 0, PAGE, hear(peer.sock), OTTE_READ, 0, &loan));
	ASSERT_EQ(1, hear(peer.sock));
	EXPECT_EQ(2, otte_usage(self->fd, OTTE_RES_CLIENTS));
	EXPECT_EQ(PAGE, otte_usage(self->fd, OTTE_RES_RETAINED_BYTES));
	ASSERT_EQ(0, otte_settle_as(self->fd, loan, OTTE_EVIDENCE_REVOKED));
	otte_drain_events(self->fd);
	for (tries = 0; tries < 2000 && otte_usage(self->fd, OTTE_RES_CLIENTS) > 1; tries++)
		usleep(10000);
	EXPECT_EQ(1, otte_usage(self->fd, OTTE_RES_CLIENTS));
	say(peer.sock, 0);
	EXPECT_EQ(0, peer_wait(&peer));
}

/* ---- the owner's death ---- */

static void owner(int sock)
{
	uint64_t region, offered, taken, borrower = hear(sock);
	char *mem = otte_pages(2 * PAGE);
	int fd = otte_client(NULL);

	if (otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ, mem, 2 * PAGE, &region) ||
	    otte_offer(fd, region, 0, PAGE, borrower, OTTE_READ, 0, &taken) ||
	    otte_offer(fd, region, PAGE, PAGE, borrower, OTTE_READ, 0, &offered))
		_exit(1);
	say(sock, taken);
	say(sock, offered);
	hear(sock);
	way(fd);
	_exit(8);
}

FIXTURE(owner)
{
	int fd;
	uint64_t client;
	int spare[2];
};

FIXTURE_VARIANT(owner)
{
	void (*way)(int fd);
	bool dies_itself;
};

FIXTURE_VARIANT_ADD(owner, killed)
{
	 .way = way_killed
};

FIXTURE_VARIANT_ADD(owner, child_keeps_file)
{
	 .way = way_child_keeps_file
};

FIXTURE_VARIANT_ADD(owner, passed_and_in_flight)
{
	 .way = way_passed
};

FIXTURE_VARIANT_ADD(owner, executes)
{
	 .way = way_exec, .dies_itself = true
};

FIXTURE_VARIANT_ADD(owner, closes)
{
	 .way = way_close, .dies_itself = true
};

FIXTURE_SETUP(owner)
{
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, self->spare));
	ASSERT_EQ(0, pipe(lingering));
	passed_sock = self->spare[0];
	self->fd = otte_client(&self->client);
	ASSERT_GE(self->fd, 0);
}

FIXTURE_TEARDOWN(owner)
{
	close(lingering[0]);
	close(lingering[1]);
	close(self->spare[0]);
	close(self->spare[1]);
	close(self->fd);
}

TEST_F(owner, its_offers_are_void_and_what_was_taken_is_retained)
{
	struct otte_event event;
	uint64_t taken, offered;
	struct peer peer;
	char buf[PAGE];

	way = variant->way;
	peer = peer_start(owner);
	say(peer.sock, self->client);
	taken = hear(peer.sock);
	offered = hear(peer.sock);
	ASSERT_EQ(0, otte_accept(self->fd, taken, NULL));
	say(peer.sock, 0);
	usleep(100000);
	if (!variant->dies_itself)
		kill(peer.pid, SIGKILL);
	ASSERT_EQ(0, otte_wait_event(self->fd, OTTE_EVENT_OWNER_GONE, &event));
	EXPECT_EQ(taken, event.object);
	EXPECT_EQ(-ENOENT, otte_accept(self->fd, offered, NULL));
	EXPECT_EQ((int64_t)PAGE, otte_copy(self->fd, taken, 0, buf, PAGE));
	EXPECT_EQ(2 * PAGE, otte_usage(self->fd, OTTE_RES_RETAINED_BYTES));
	EXPECT_EQ(0, otte_settle(self->fd, taken));
	EXPECT_EQ(0, otte_usage(self->fd, OTTE_RES_RETAINED_BYTES));
	EXPECT_EQ(0, otte_usage(self->fd, OTTE_RES_PINNED_BYTES));
	peer_kill(&peer);
}

static void lend_and_wait(int sock)
{
	uint64_t borrower = hear(sock), region, loan;
	int fd = otte_client(NULL);
	char *mem = otte_pages(PAGE);

	otte_fill(mem, PAGE, 5);
	if (otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ, mem, PAGE, &region) ||
	    otte_offer(fd, region, 0, PAGE, borrower, OTTE_READ, 0, &loan))
		_exit(1);
	say(sock, loan);
	pause();
}

/* Nobody but us runs on the first CPU. */
static int run_alone(void)
{
	struct sched_param param = { .sched_priority = 1 };

	return sched_setscheduler(0, SCHED_FIFO, &param) ? -errno : 0;
}

static int run_like_all(void)
{
	struct sched_param param = { 0 };

	return sched_setscheduler(0, SCHED_OTHER, &param) ? -errno : 0;
}

static int on_first_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/* As the OOM killer does: its memory is unmapped before its address space comes to its end. */
static int kill_and_reap(pid_t pid)
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0), err;

	kill(pid, SIGKILL);
	err = syscall(SYS_process_mrelease, pidfd, 0) ? -errno : 0;
	close(pidfd);
	return err;
}

TEST(an_owner_that_is_reaped_while_it_dies_leaves_its_pages)
{
	struct otte_event event;
	uint64_t client = 0, loan;
	struct peer peer;
	int fd, err;
	char buf[PAGE];

	fd = otte_client(&client);
	ASSERT_GE(fd, 0);
	/* Where it is killed by who keeps it from running, it is there to be reaped. */
	ASSERT_EQ(0, on_first_cpu());
	peer = peer_start(lend_and_wait);
	say(peer.sock, client);
	loan = hear(peer.sock);
	ASSERT_EQ(0, otte_accept(fd, loan, NULL));
	ASSERT_EQ(0, run_alone());
	err = kill_and_reap(peer.pid);
	EXPECT_EQ((int64_t)PAGE, otte_copy(fd, loan, 0, buf, PAGE));
	ASSERT_EQ(0, run_like_all());
	ASSERT_EQ(0, err);
	EXPECT_TRUE(otte_filled(buf, PAGE, 5, 0));
	ASSERT_EQ(0, otte_wait_event(fd, OTTE_EVENT_OWNER_GONE, &event));
	EXPECT_EQ((int64_t)PAGE, otte_copy(fd, loan, 0, buf, PAGE));
	EXPECT_EQ(0, otte_settle(fd, loan));
	EXPECT_TRUE(otte_all_zero(fd, 1));
	peer_kill(&peer);
	close(fd);
}

TEST_HARNESS_MAIN
