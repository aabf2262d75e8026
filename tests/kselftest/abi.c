// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every command of the ABI against wrong sizes, flags, pointers and callers: the errno contract at
 * the top of the header, command by command.
 *
 * OTTE_SWEEP_STEP=N looks at every Nth size only (the debug kernel is slow); the count is printed.
 */
#include <pthread.h>

#include "otte_test.h"
#include "kselftest_harness.h"

struct command {
	const char *name;
	unsigned long cmd;
	uint32_t size;		/* as first published, which is all there is in revision 1 */
	bool anybody;		/* works without CLIENT_INIT */
};

#define COMMAND(name, type, anybody) { #name, OTTE_IOC_##name, sizeof(struct type), anybody }

static const struct command commands[] = {
	COMMAND(QUERY, otte_query, true),
	COMMAND(CLIENT_INIT, otte_client_init, true),
	COMMAND(ATTEST, otte_attest, false),
	COMMAND(ALLOW, otte_allow, false),
	COMMAND(QUOTA, otte_quota, false),
	COMMAND(FENCE, otte_fence, false),
	COMMAND(REGION_ADD, otte_region_add, false),
	COMMAND(REGION_DEL, otte_region_del, false),
	COMMAND(REGION_VERIFY, otte_region_verify, false),
	COMMAND(LOAN_OFFER, otte_loan_offer, false),
	COMMAND(LOAN_ACCEPT, otte_loan_accept, false),
	COMMAND(LOAN_SETTLE, otte_loan_settle, false),
	COMMAND(LOAN_WITHDRAW, otte_loan_withdraw, false),
	COMMAND(LOAN_REVOKE, otte_loan_revoke, false),
	COMMAND(LOAN_EXPOSE, otte_loan_expose, false),
	COMMAND(LOAN_COPY, otte_loan_copy, false),
	COMMAND(HOLD, otte_hold, false),
	COMMAND(HOLD_DROP, otte_hold_drop, false),
	COMMAND(DOMAIN_JOIN, otte_domain_join, false),
	COMMAND(DOMAIN_NIC, otte_domain_nic, false),
	COMMAND(DOMAIN_KICK, otte_domain_kick, false),
	COMMAND(DOMAIN_SET, otte_domain_set, false),
	COMMAND(DOMAIN_DEL, otte_domain_del, false),
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

FIXTURE(abi)
{
	int fd;
	uint64_t client;
	unsigned char *arg;	/* two pages, the second not mapped */
};

FIXTURE_SETUP(abi)
{
	self->fd = otte_client(&self->client);
	ASSERT_GE(self->fd, 0);
	self->arg = otte_pages(2 * PAGE);
	ASSERT_NE(NULL, self->arg);
	ASSERT_EQ(0, munmap(self->arg + PAGE, PAGE));
}

FIXTURE_TEARDOWN(abi)
{
	close(self->fd);
}

/* A call with @size at the start of it, all else zero; the struct ends at the end of the page. */
static int call_sized(unsigned char *page, int fd, unsigned long cmd, uint32_t size)
{
	unsigned char *at = page + PAGE - (size < 4 ? 4 : size > PAGE ? PAGE : size);
	int err;

	memset(page, 0, PAGE);
	memcpy(at, &size, 4);
	err = otte_call(fd, cmd, at);
	return err;
}

TEST_F_TIMEOUT(abi, every_size_from_nothing_to_a_page_is_answered_as_the_contract_says, 240)
{
	unsigned int step = getenv("OTTE_SWEEP_STEP") ? atoi(getenv("OTTE_SWEEP_STEP")) : 1;
	unsigned int i, size, calls = 0;
	int err, full;

	for (i = 0; i < COMMANDS; i++) {
		int fd = commands[i].cmd == OTTE_IOC_CLIENT_INIT ? otte_open() : self->fd;

		full = call_sized(self->arg, fd, commands[i].cmd, commands[i].size);
		for (size = 0; size <= PAGE; size += size < 512 ? 1 : step) {
			err = call_sized(self->arg, fd, commands[i].cmd, size);
			calls++;
			if (size < commands[i].size) {
				EXPECT_EQ(-EINVAL, err)
					TH_LOG("%s size %u", commands[i].name, size);
			} else if (commands[i].cmd == OTTE_IOC_CLIENT_INIT) {
				EXPECT_EQ(-EALREADY, err)
					TH_LOG("%s size %u", commands[i].name, size);
			} else {
				EXPECT_EQ(full, err)
					TH_LOG("%s size %u", commands[i].name, size);
			}
			if (size <= commands[i].size || size == PAGE)
				continue;
			/* One byte behind the known struct. */
			memset(self->arg, 0, PAGE);
			memcpy(self->arg, &size, 4);
			self->arg[size - 1] = 1;
			EXPECT_EQ(-E2BIG, otte_call(fd, commands[i].cmd, self->arg))
				TH_LOG("%s size %u with a tail", commands[i].name, size);
			calls++;
		}
		EXPECT_EQ(-E2BIG, call_sized(self->arg, fd, commands[i].cmd, PAGE + 1));
		EXPECT_EQ(-E2BIG, call_sized(self->arg, fd, commands[i].cmd, UINT32_MAX));
		if (fd != self->fd)
			close(fd);
		otte_drain_events(self->fd);
	}
	note("%u calls\n", calls);
}

TEST_F(abi, nothing_is_written_behind_the_size_of_the_caller)
{
	struct {
		struct otte_query query;
		unsigned char guard[64];
	} arg;
	unsigned int i;

	memset(&arg, 0xcc, sizeof(arg));
	memset(&arg.query, 0, sizeof(arg.query));
	arg.query.size = sizeof(arg.query);
	ASSERT_EQ(0, otte_call(self->fd, OTTE_IOC_QUERY, &arg));
	ASSERT_EQ(sizeof(arg.query), arg.query.size);
	for (i = 0; i < sizeof(arg.guard); i++)
		ASSERT_EQ(0xcc, arg.guard[i]);
}

TEST_F(abi, unknown_flags_are_told_from_bad_values)
{
	unsigned int i, bit;
	uint32_t head[2];

	for (i = 0; i < COMMANDS; i++) {
		for (bit = 2; bit < 32; bit++) {
			if (commands[i].cmd == OTTE_IOC_LOAN_EXPOSE &&
			    1U << bit & (OTTE_LOAN_STANDING | OTTE_LOAN_BY_ADDRESS))
				continue;
			if (commands[i].cmd == OTTE_IOC_LOAN_OFFER &&
			    1U << bit == OTTE_LOAN_STANDING)
				continue;
			memset(self->arg, 0, PAGE);
			head[0] = commands[i].size;
			head[1] = 1U << bit;
			memcpy(self->arg, head, sizeof(head));
			EXPECT_EQ(-EOPNOTSUPP, otte_call(self->fd, commands[i].cmd, self->arg))
				TH_LOG("%s bit %u", commands[i].name, bit);
		}
	}
}

TEST_F(abi, pointers_that_lead_nowhere_are_faults)
{
	unsigned char *page = self->arg;
	unsigned int i;
	uint32_t size;

	for (i = 0; i < COMMANDS; i++) {
		EXPECT_EQ(-EFAULT, otte_call(self->fd, commands[i].cmd, NULL));
		EXPECT_EQ(-EFAULT, otte_call(self->fd, commands[i].cmd, (void *)-8UL));
		EXPECT_EQ(-EFAULT, otte_call(self->fd, commands[i].cmd, page + PAGE));
		/* The size can be read, the rest cannot. */
		memset(page, 0, PAGE);
		size = commands[i].size;
		memcpy(page + PAGE - 4, &size, 4);
		EXPECT_EQ(-EFAULT, otte_call(self->fd, commands[i].cmd, page + PAGE - 4))
			TH_LOG("%s", commands[i].name);
	}
}

TEST_F(abi, unknown_commands_are_no_terminal)
{
	unsigned int nr;

	for (nr = 0x50; nr < 0x100; nr++)
		EXPECT_EQ(-ENOTTY, otte_call(self->fd, _IO(OTTE_IOC_TYPE, nr), self->arg));
	EXPECT_EQ(-ENOTTY, otte_call(self->fd, _IOWR(OTTE_IOC_TYPE, 0, struct otte_query),
				     self->arg));
	EXPECT_EQ(-ENOTTY, otte_call(self->fd, 0x5401, self->arg));
}

TEST_F(abi, before_initialisation_only_queries_are_answered)
{
	int fd = otte_open();
	unsigned int i;
	char buf[512];

	for (i = 0; i < COMMANDS; i++) {
		if (!commands[i].anybody)
			EXPECT_EQ(-ENOTCONN, call_sized(self->arg, fd, commands[i].cmd,
							commands[i].size));
	}
	EXPECT_EQ(-1, read(fd, buf, sizeof(buf)));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, OTTE_MMAP_STATUS));
	EXPECT_EQ(0, call_sized(self->arg, fd, OTTE_IOC_QUERY, sizeof(struct otte_query)));
	close(fd);
}

TEST_F(abi, query_tells_what_runs)
{
	struct otte_query query = { .size = sizeof(query) };
	static const __u8 none[16];

	ASSERT_EQ(0, otte_call(self->fd, OTTE_IOC_QUERY, &query));
	EXPECT_EQ(OTTE_ABI_REVISION, query.revision);
	EXPECT_EQ(sizeof(struct otte_event), query.event_size);
	EXPECT_TRUE(query.features & OTTE_FEAT_PAGES);
	EXPECT_TRUE(query.features & OTTE_FEAT_FILE);
	EXPECT_TRUE(query.features & OTTE_FEAT_BOOT_ID);
	EXPECT_TRUE(query.features & OTTE_FEAT_STANDING);
	EXPECT_TRUE(query.features & OTTE_FEAT_STANDING_OFFER);
	EXPECT_TRUE(query.features & OTTE_FEAT_BY_ADDRESS);
	EXPECT_NE(0, memcmp(query.boot_id, none, 16));
	EXPECT_NE(0, memcmp(query.load_id, none, 16));
	EXPECT_NE(0, memcmp(query.load_id, query.boot_id, 16));
}

TEST_F(abi, a_file_is_initialised_once)
{
	uint64_t other;
	int fd;

	EXPECT_EQ(-EALREADY, otte_init_flags(self->fd, 0, NULL));
	fd = otte_client(&other);
	ASSERT_GE(fd, 0);
	EXPECT_NE(self->client, other);
	close(fd);
}

/* Says what each command answers in another process, then what read and mmap do. */
static bool all_refused(int fd, unsigned char *page)
{
	unsigned int i;
	char buf[512];

	for (i = 0; i < COMMANDS; i++) {
		if (!commands[i].anybody &&
		    call_sized(page, fd, commands[i].cmd, commands[i].size) != -EPERM)
			return false;
	}
	if (read(fd, buf, sizeof(buf)) != -1 || errno != EPERM)
		return false;
	if (mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, OTTE_MMAP_STATUS) != MAP_FAILED)
		return false;
	return errno == EPERM;
}

TEST_F(abi, a_forked_child_has_no_authority)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(!all_refused(self->fd, self->arg));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

static int in_shared_mm(void *arg)
{
	struct { int fd; unsigned char *page; } *shared = arg;

	return !all_refused(shared->fd, shared->page);
}

TEST_F(abi, a_process_that_shares_the_address_space_has_no_authority)
{
	struct { int fd; unsigned char *page; } shared = { self->fd, self->arg };
	char *stack = otte_pages(16 * PAGE);
	int status;
	pid_t pid;

	pid = clone(in_shared_mm, stack + 16 * PAGE, CLONE_VM | CLONE_VFORK | SIGCHLD, &shared);
	ASSERT_GT(pid, 0);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(abi, objects_of_another_client_do_not_exist)
{
	void *mem = otte_pages(PAGE);
	uint64_t region, loan, hold;
	struct otte_loan_withdraw withdraw = { .size = sizeof(withdraw) };
	char buf[16];
	int other = otte_client(NULL);

	ASSERT_EQ(0, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ, mem, PAGE, &region));
	ASSERT_EQ(0, otte_offer(self->fd, region, 0, PAGE, self->client, OTTE_READ, 0, &loan));
	ASSERT_EQ(0, otte_hold(self->fd, 1, &hold));
	EXPECT_EQ(-ENOENT, otte_region_del(other, region, NULL));
	EXPECT_EQ(-ENOENT, otte_verify(other, region));
	EXPECT_EQ(-ENOENT, otte_accept(other, loan, NULL));
	EXPECT_EQ(-ENOENT, otte_settle(other, loan));
	EXPECT_EQ(-ENOENT, otte_revoke(other, loan, NULL));
	EXPECT_EQ(-ENOENT, otte_copy(other, loan, 0, buf, 1));
	EXPECT_EQ(-ENOENT, otte_hold_drop(other, hold));
	withdraw.loan = loan;
	EXPECT_EQ(-ENOENT, otte_call(other, OTTE_IOC_LOAN_WITHDRAW, &withdraw));
	/* Nor do ids of one kind work for another. */
	EXPECT_EQ(-ENOENT, otte_region_del(self->fd, loan, NULL));
	EXPECT_EQ(-ENOENT, otte_accept(self->fd, region, NULL));
	EXPECT_EQ(-ENOENT, otte_hold_drop(self->fd, region));
	/* It would be retained for good. */
	EXPECT_EQ(0, otte_hold_drop(self->fd, hold));
	close(other);
}

struct racer {
	int fd;
	unsigned char *page;
	const struct command *command;
	bool stop;
};

static void *race(void *arg)
{
	struct racer *racer = arg;

	while (!__atomic_load_n(&racer->stop, __ATOMIC_RELAXED))
		call_sized(racer->page, racer->fd, racer->command->cmd, racer->command->size);
	return NULL;
}

TEST_F_TIMEOUT(abi, closing_under_a_running_call_ends_well, 120)
{
	struct racer racer = { .page = self->arg };
	pthread_t thread;
	unsigned int i, round;

	for (i = 0; i < COMMANDS; i++) {
		for (round = 0; round < 5; round++) {
			racer.fd = otte_client(NULL);
			racer.command = &commands[i];
			racer.stop = false;
			ASSERT_EQ(0, pthread_create(&thread, NULL, race, &racer));
			usleep(200);
			close(racer.fd);
			__atomic_store_n(&racer.stop, true, __ATOMIC_RELAXED);
			pthread_join(thread, NULL);
		}
	}
	ASSERT_TRUE(otte_all_zero(self->fd, 1));
}

TEST_HARNESS_MAIN
