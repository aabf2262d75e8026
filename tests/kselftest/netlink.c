// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink: the dumps tell the truth, to everybody as much of it as is his.
 */
#include "otte_genl.h"
#include "kselftest_harness.h"

#include <grp.h>

#define ALICE	1001
#define BOB	1002

static struct rows rows;

static int become(uid_t uid)
{
	return setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid);
}

FIXTURE(netlink)
{
	int fd;
	uint64_t client;
	struct genl genl;
};

FIXTURE_SETUP(netlink)
{
	self->fd = otte_client(&self->client);
	ASSERT_GE(self->fd, 0);
	ASSERT_EQ(0, genl_open(&self->genl));
}

FIXTURE_TEARDOWN(netlink)
{
	close(self->fd);
	close(self->genl.fd);
}

TEST_F(netlink, status_is_that_of_the_device)
{
	struct otte_query query = { .size = sizeof(query) };
	struct row row;

	ASSERT_EQ(0, otte_call(self->fd, OTTE_IOC_QUERY, &query));
	ASSERT_EQ(0, genl_status(&self->genl, &row));
	EXPECT_EQ(OTTE_ABI_REVISION, row.num[OTTE_A_REVISION]);
	EXPECT_EQ(0, memcmp(query.load_id, row.load_id, 16));
	EXPECT_EQ(OTTE_RES_COUNT, row.has[OTTE_A_USAGE]);
	EXPECT_EQ(OTTE_RES_COUNT, row.has[OTTE_A_LIMIT]);
	EXPECT_EQ(otte_usage(self->fd, OTTE_RES_CLIENTS), row.usage[OTTE_RES_CLIENTS]);
	EXPECT_EQ(1, row.has[OTTE_A_GENERATION]);
	EXPECT_EQ(0, row.num[OTTE_A_DRAINING]);
}

TEST_F(netlink, client_is_listed_with_who_it_is)
{
	const struct row *row;
	char comm[16] = {};

	prctl(PR_GET_NAME, comm);
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_CLIENTS, &rows));
	row = row_find(&rows, self->client);
	ASSERT_NE(NULL, row);
	EXPECT_EQ((uint64_t)getpid(), row->num[OTTE_A_TGID]);
	EXPECT_EQ(1, row->has[OTTE_A_UID]);
	EXPECT_EQ(0, row->num[OTTE_A_UID]);
	EXPECT_STREQ(comm, row->name);
	EXPECT_LT(0, row->num[OTTE_A_START_NS]);
	EXPECT_EQ(0, row->num[OTTE_A_DOMAIN]);
	EXPECT_EQ(0, row->num[OTTE_A_FENCED]);
	close(self->fd);
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_CLIENTS, &rows));
	EXPECT_EQ(NULL, row_find(&rows, self->client));
}

TEST_F(netlink, region_and_loan_are_listed_from_birth_to_end)
{
	void *mem = otte_pages(4 * PAGE);
	uint64_t region, loan, remote;
	const struct row *row;

	ASSERT_EQ(0, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ, mem, 4 * PAGE, &region));
	ASSERT_EQ(0, otte_offer(self->fd, region, PAGE, 2 * PAGE, self->client, OTTE_READ,
				OTTE_LOAN_REVOCABLE, &loan));
	ASSERT_EQ(0, otte_expose(self->fd, region, 3 * PAGE, 100, 0x77, 9, OTTE_READ, &remote));
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_REGIONS, &rows));
	row = row_find(&rows, region);
	ASSERT_NE(NULL, row);
	EXPECT_EQ(self->client, row->num[OTTE_A_OWNER]);
	EXPECT_EQ(OTTE_NL_REGION_LIVE, row->num[OTTE_A_STATE]);
	EXPECT_EQ(OTTE_BACKING_PAGES, row->num[OTTE_A_BACKING]);
	EXPECT_EQ(OTTE_READ, row->num[OTTE_A_ACCESS]);
	EXPECT_EQ(4 * PAGE, row->num[OTTE_A_BYTES]);
	EXPECT_EQ(OTTE_STATUS_LIVE, row->num[OTTE_A_WORD] & 0xff);
	EXPECT_EQ(2, row->num[OTTE_A_LOANS]);
	EXPECT_EQ(1, row->num[OTTE_A_EXPOSED]);

	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_LOANS, &rows));
	row = row_find(&rows, loan);
	ASSERT_NE(NULL, row);
	EXPECT_EQ(OTTE_NL_LOAN_OFFERED, row->num[OTTE_A_STATE]);
	EXPECT_EQ(self->client, row->num[OTTE_A_OWNER]);
	EXPECT_EQ(self->client, row->num[OTTE_A_BORROWER]);
	EXPECT_EQ(region, row->num[OTTE_A_REGION]);
	EXPECT_EQ(PAGE, row->num[OTTE_A_OFFSET]);
	EXPECT_EQ(2 * PAGE, row->num[OTTE_A_BYTES]);
	EXPECT_EQ(OTTE_READ, row->num[OTTE_A_DIRECTION]);
	EXPECT_EQ(OTTE_LOAN_REVOCABLE, row->num[OTTE_A_FLAGS]);
	EXPECT_EQ(0, row->num[OTTE_A_EVIDENCE]);
	EXPECT_EQ(0, row->has[OTTE_A_PEER]);
	row = row_find(&rows, remote);
	ASSERT_NE(NULL, row);
	EXPECT_EQ(OTTE_NL_LOAN_EXPOSED, row->num[OTTE_A_STATE]);
	EXPECT_EQ(0, row->has[OTTE_A_BORROWER]);
	EXPECT_EQ(0x77, row->peer[0]);
	EXPECT_EQ(9, row->num[OTTE_A_INCARNATION]);

	ASSERT_EQ(0, otte_accept(self->fd, loan, NULL));
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_LOANS, &rows));
	EXPECT_EQ(OTTE_NL_LOAN_EXPOSED, row_find(&rows, loan)->num[OTTE_A_STATE]);
	ASSERT_EQ(0, otte_settle(self->fd, loan));
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_LOANS, &rows));
	/* Its lender has not read about it yet. */
	row = row_find(&rows, loan);
	ASSERT_NE(NULL, row);
	EXPECT_EQ(OTTE_NL_LOAN_SETTLED, row->num[OTTE_A_STATE]);
	EXPECT_EQ(OTTE_EVIDENCE_RETURNED, row->num[OTTE_A_EVIDENCE]);
	otte_drain_events(self->fd);
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_LOANS, &rows));
	EXPECT_EQ(NULL, row_find(&rows, loan));
	ASSERT_EQ(0, otte_settle_as(self->fd, remote, OTTE_EVIDENCE_RETURNED));
	ASSERT_EQ(0, otte_region_del(self->fd, region, NULL));
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_REGIONS, &rows));
	EXPECT_EQ(NULL, row_find(&rows, region));
}

TEST_F(netlink, what_is_retained_is_listed_with_its_owner_after_its_death)
{
	uint64_t hold;
	const struct row *row;

	ASSERT_EQ(0, otte_hold(self->fd, 12345, &hold));
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_RETAINED, &rows));
	row = row_find(&rows, hold);
	ASSERT_NE(NULL, row);
	EXPECT_EQ(OTTE_NL_KIND_HOLD, row->num[OTTE_A_KIND]);
	EXPECT_EQ(12345, row->num[OTTE_A_BYTES]);
	EXPECT_EQ(self->client, row->num[OTTE_A_OWNER]);
	EXPECT_EQ((uint64_t)getpid(), row->num[OTTE_A_TGID]);
	EXPECT_EQ(1, row->has[OTTE_A_AGE_NS]);
	EXPECT_GT(5000000000ULL, row->num[OTTE_A_AGE_NS]);
	ASSERT_EQ(0, otte_hold_drop(self->fd, hold));
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_RETAINED, &rows));
	EXPECT_EQ(NULL, row_find(&rows, hold));
}

TEST_F(netlink, domains_are_listed_for_everybody)
{
	struct otte_domain_join join = { .size = sizeof(join), .name = "default" };
	struct otte_domain_nic nic = { .size = sizeof(nic), .name = "netlink0" };
	const struct row *row;

	ASSERT_EQ(0, otte_call(self->fd, OTTE_IOC_DOMAIN_JOIN, &join));
	ASSERT_EQ(0, otte_call(self->fd, OTTE_IOC_DOMAIN_NIC, &nic));
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_DOMAINS, &rows));
	row = row_find(&rows, join.domain);
	ASSERT_NE(NULL, row);
	EXPECT_STREQ("default", row->name);
	EXPECT_EQ(1, row->num[OTTE_A_MEMBERS]);
	EXPECT_EQ(1, row->has[OTTE_A_EPOCH]);
	EXPECT_EQ(OTTE_SLOT_NS_DEFAULT, row->epoch[0].interval_ns);
	EXPECT_EQ(3, row->epoch[0].slots);
	EXPECT_LE(row->epoch[0].base_ns, row->num[OTTE_A_NOW_NS]);
	EXPECT_EQ(0111, row->num[OTTE_A_MODE]);
	EXPECT_STREQ("netlink0", row->nic[nic.index]);
	EXPECT_EQ(0, row->num[OTTE_A_SUMMING]);
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_CLIENTS, &rows));
	EXPECT_EQ(join.domain, row_find(&rows, self->client)->num[OTTE_A_DOMAIN]);
}

TEST_F(netlink, accounts_are_listed_with_usage_and_limits)
{
	unsigned int i, modules = 0, own = 0;

	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_ACCOUNTS, &rows));
	for (i = 0; i < rows.count; i++) {
		ASSERT_EQ(OTTE_RES_COUNT, rows.row[i].has[OTTE_A_USAGE]);
		ASSERT_EQ(OTTE_RES_COUNT, rows.row[i].has[OTTE_A_LIMIT]);
		modules += rows.row[i].num[OTTE_A_LEVEL] == OTTE_LEVEL_MODULE;
		own += rows.row[i].num[OTTE_A_LEVEL] == OTTE_LEVEL_CLIENT &&
		       rows.row[i].num[OTTE_A_KEY] == self->client &&
		       rows.row[i].usage[OTTE_RES_CLIENTS] == 1;
	}
	EXPECT_EQ(1, modules);
	EXPECT_EQ(1, own);
}

/* ---- who sees what ---- */

/* What a process of another user sees; its own client borrows from the parent's. */
static void other_user(int sock)
{
	uint64_t client, region, loan, hidden;
	int fd = otte_open();
	const struct row *row;
	unsigned int i;
	struct genl genl;

	if (become(ALICE) || otte_init_flags(fd, 0, &client))
		_exit(10);
	say(sock, client);
	region = hear(sock);
	loan = hear(sock);
	hidden = hear(sock);
	if (genl_open(&genl) || otte_accept(fd, loan, NULL))
		_exit(11);
	if (genl_dump(&genl, OTTE_NL_CLIENTS, &rows) || rows.count != 1 ||
	    rows.row[0].num[OTTE_A_ID] != client || rows.row[0].num[OTTE_A_UID] != ALICE)
		_exit(12);
	if (genl_dump(&genl, OTTE_NL_REGIONS, &rows) || rows.count)
		_exit(13);
	/* It borrows, but where the memory lies is its lender's. */
	if (genl_dump(&genl, OTTE_NL_LOANS, &rows) || rows.count != 1)
		_exit(14);
	row = row_find(&rows, loan);
	if (!row || row->has[OTTE_A_REGION] || row->has[OTTE_A_OFFSET] ||
	    row->num[OTTE_A_BYTES] != PAGE || row_find(&rows, hidden))
		_exit(15);
	if (genl_dump(&genl, OTTE_NL_RETAINED, &rows) || rows.count)
		_exit(16);
	if (genl_dump(&genl, OTTE_NL_ACCOUNTS, &rows) || rows.count != 2)
		_exit(17);
	for (i = 0; i < rows.count; i++) {
		if (rows.row[i].num[OTTE_A_LEVEL] == OTTE_LEVEL_USER &&
		    rows.row[i].num[OTTE_A_KEY] != ALICE)
			_exit(18);
	}
	if (genl_dump(&genl, OTTE_NL_DOMAINS, &rows) || !rows.count)
		_exit(19);
	(void)region;
	_exit(0);
}

TEST_F(netlink, other_users_see_what_is_theirs_and_nothing_else)
{
	struct peer peer = peer_start(other_user);
	void *mem = otte_pages(4 * PAGE);
	uint64_t region, loan, hidden, hold, client = hear(peer.sock);

	ASSERT_NE(UINT64_MAX, client);
	ASSERT_EQ(0, otte_hold(self->fd, 1, &hold));
	ASSERT_EQ(0, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ, mem, 4 * PAGE, &region));
	ASSERT_EQ(0, otte_offer(self->fd, region, PAGE, PAGE, client, OTTE_READ, 0, &loan));
	ASSERT_EQ(0, otte_offer(self->fd, region, 0, PAGE, self->client, OTTE_READ, 0, &hidden));
	say(peer.sock, region);
	say(peer.sock, loan);
	say(peer.sock, hidden);
	EXPECT_EQ(0, peer_wait(&peer));
	otte_hold_drop(self->fd, hold);
}

/* A socket that an administrator opened is no licence for who sends through it. */
TEST_F(netlink, passed_socket_shows_what_its_sender_may_see)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (become(BOB))
			_exit(1);
		if (genl_dump(&self->genl, OTTE_NL_CLIENTS, &rows))
			_exit(2);
		_exit(rows.count ? 3 : 0);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
}

static int in_pid_namespace(uint64_t outside)
{
	const struct row *row;
	uint64_t client;
	struct genl genl;

	if (getpid() != 1 || otte_client(&client) < 0 || genl_open(&genl) ||
	    genl_dump(&genl, OTTE_NL_CLIENTS, &rows))
		return 1;
	row = row_find(&rows, client);
	if (!row || row->num[OTTE_A_TGID] != 1)
		return 2;
	row = row_find(&rows, outside);
	if (!row || !row->has[OTTE_A_TGID] || row->num[OTTE_A_TGID])
		return 3;
	return 0;
}

TEST_F(netlink, pids_are_those_of_the_senders_pid_namespace_or_zero)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (unshare(CLONE_NEWPID))
			_exit(9);
		pid = fork();
		if (!pid)
			_exit(in_pid_namespace(self->client));
		waitpid(pid, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 8);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
}

TEST_F(netlink, other_network_namespaces_have_no_such_family)
{
	struct genl genl;
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(unshare(CLONE_NEWNET) ? 1 : genl_open(&genl) == -ENOENT ? 0 : 2);
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
}

/* ---- generations and long dumps ---- */

#define HOLDS	3000

TEST_F(netlink, generation_stands_still_while_nothing_changes)
{
	void *mem = otte_pages(PAGE);
	struct row before, after;
	uint64_t region;

	ASSERT_EQ(0, genl_status(&self->genl, &before));
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_CLIENTS, &rows));
	EXPECT_EQ(before.num[OTTE_A_GENERATION], rows.row[0].num[OTTE_A_GENERATION]);
	ASSERT_EQ(0, genl_status(&self->genl, &after));
	EXPECT_EQ(before.num[OTTE_A_GENERATION], after.num[OTTE_A_GENERATION]);
	ASSERT_EQ(0, otte_region(self->fd, OTTE_BACKING_NONE, OTTE_READ, mem, PAGE, &region));
	ASSERT_EQ(0, genl_status(&self->genl, &after));
	EXPECT_LT(before.num[OTTE_A_GENERATION], after.num[OTTE_A_GENERATION]);
}

TEST_F(netlink, long_dump_shows_each_record_once_and_says_if_something_changed_meanwhile)
{
	static uint64_t hold[HOLDS];
	uint64_t one_more, sum = 0;
	unsigned int i;

	for (i = 0; i < HOLDS; i++) {
		ASSERT_EQ(0, otte_hold(self->fd, i + 1, &hold[i]));
		sum += i + 1;
	}
	ASSERT_EQ(0, genl_dump(&self->genl, OTTE_NL_RETAINED, &rows));
	ASSERT_EQ(HOLDS, rows.count);
	EXPECT_LT(2, rows.parts);
	EXPECT_FALSE(rows.interrupted);
	for (i = 0; i < HOLDS; i++) {
		ASSERT_EQ(hold[i], rows.row[i].num[OTTE_A_ID]);
		sum -= rows.row[i].num[OTTE_A_BYTES];
	}
	EXPECT_EQ(0, sum);

	rows.count = 0;
	rows.parts = 0;
	ASSERT_EQ(0, genl_ask_dump(&self->genl, OTTE_NL_RETAINED));
	ASSERT_EQ(1, genl_part(&self->genl, &rows));
	EXPECT_FALSE(rows.interrupted);
	ASSERT_EQ(0, otte_hold(self->fd, 1, &one_more));
	while (genl_part(&self->genl, &rows) == 1)
		;
	EXPECT_TRUE(rows.interrupted);
	EXPECT_EQ(HOLDS + 1, rows.count);

	/* Given up in the middle: the socket's end frees the cursor. */
	ASSERT_EQ(0, genl_ask_dump(&self->genl, OTTE_NL_RETAINED));
	rows.count = 0;
	ASSERT_EQ(1, genl_part(&self->genl, &rows));
	for (i = 0, sum = 0; i < HOLDS; i++)
		sum += !otte_hold_drop(self->fd, hold[i]);
	EXPECT_EQ(HOLDS, sum);
	ASSERT_EQ(0, otte_hold_drop(self->fd, one_more));
}

/* ---- notices ---- */

/* The next notice about @id, or the error. */
static int notice_about(struct genl *genl, uint64_t id, struct row *row)
{
	int err;

	do {
		err = genl_next(genl, row);
	} while (!err && row->num[OTTE_A_ID] != id);
	return err;
}

TEST_F(netlink, notices_are_for_administrators)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct genl genl;

		if (become(ALICE) || genl_open(&genl))
			_exit(1);
		if (!setsockopt(genl.fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &genl.group,
				sizeof(genl.group)))
			_exit(2);
		_exit(errno == EPERM ? 0 : 3);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
}

TEST_F(netlink, notices_tell_of_clients_retained_records_and_refusals)
{
	uint64_t client = 0, hold = 0;
	struct row row;
	int fd;

	ASSERT_EQ(0, setsockopt(self->genl.fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP,
				&self->genl.group, sizeof(self->genl.group)));
	fd = otte_client(&client);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, notice_about(&self->genl, client, &row));
	EXPECT_EQ(OTTE_NL_NOTICE_CLIENT_NEW, row.num[OTTE_A_NOTICE]);
	EXPECT_EQ(1, row.has[OTTE_A_GENERATION]);
	ASSERT_EQ(0, otte_hold(fd, 5, &hold));
	ASSERT_EQ(0, notice_about(&self->genl, hold, &row));
	EXPECT_EQ(OTTE_NL_NOTICE_RETAINED, row.num[OTTE_A_NOTICE]);
	ASSERT_EQ(0, otte_hold_drop(fd, hold));
	ASSERT_EQ(0, notice_about(&self->genl, hold, &row));
	EXPECT_EQ(OTTE_NL_NOTICE_RELEASED, row.num[OTTE_A_NOTICE]);

	/* One byte more than can be counted is refused at some account. */
	ASSERT_EQ(0, otte_hold(fd, 5, &hold));
	ASSERT_EQ(-EDQUOT, otte_hold(fd, UINT64_MAX, &client));
	ASSERT_EQ(0, otte_hold_drop(fd, hold));
	do {
		ASSERT_EQ(0, genl_next(&self->genl, &row));
	} while (row.num[OTTE_A_NOTICE] != OTTE_NL_NOTICE_QUOTA);
	EXPECT_EQ(OTTE_RES_RETAINED_BYTES, row.num[OTTE_A_RESOURCE]);
	EXPECT_EQ(UINT64_MAX, row.num[OTTE_A_REQUESTED]);
	EXPECT_EQ(1, row.has[OTTE_A_LEVEL]);
	EXPECT_EQ(1, row.has[OTTE_A_KEY]);
	EXPECT_EQ(1, row.has[OTTE_A_LIMIT]);
	close(fd);
	do {
		ASSERT_EQ(0, genl_next(&self->genl, &row));
	} while (row.num[OTTE_A_NOTICE] != OTTE_NL_NOTICE_CLIENT_GONE);
}

TEST_HARNESS_MAIN
