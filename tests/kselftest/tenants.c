// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tenants: what one container may see of another and take from it. Containers here are what the
 * kernel makes of namespaces and cgroups; but for one test nobody has a user namespace, and all are
 * root.
 */
#include <sys/mount.h>
#include <sys/stat.h>

#include "otte_test.h"
#include "kselftest_harness.h"

#define CGROUPS	"/sys/fs/cgroup"

static bool cgroup_make(const char *path)
{
	return !mkdir(path, 0755) || errno == EEXIST;
}

static bool cgroup_enter(const char *path)
{
	char procs[128];
	int fd;
	bool ok;

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	fd = open(procs, O_WRONLY);
	ok = fd >= 0 && write(fd, "0", 1) == 1;
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Account @index of the caller; false past the last. */
static bool account(int fd, unsigned int index, struct otte_quota *quota)
{
	memset(quota, 0, sizeof(*quota));
	quota->size = sizeof(*quota);
	quota->index = index;
	return !otte_call(fd, OTTE_IOC_QUOTA, quota);
}

static unsigned int accounts_at(int fd, uint32_t level)
{
	struct otte_quota quota;
	unsigned int i, n = 0;

	for (i = 0; account(fd, i, &quota); i++)
		n += quota.level == level;
	return n;
}

FIXTURE(tenants)
{
	int fd;
	uint64_t client;
};

FIXTURE_SETUP(tenants)
{
	self->fd = otte_client(&self->client);
	ASSERT_GE(self->fd, 0);
	ASSERT_TRUE(cgroup_make(CGROUPS "/a"));
	ASSERT_TRUE(cgroup_make(CGROUPS "/a/inner"));
	ASSERT_TRUE(cgroup_make(CGROUPS "/b"));
}

FIXTURE_TEARDOWN(tenants)
{
	otte_drain_events(self->fd);
	EXPECT_TRUE(otte_all_zero(self->fd, 1));
	close(self->fd);
}

/* Says who sent it a nonce, in its own terms, and sends one back. */
static void in_pid_namespace(int sock)
{
	uint64_t other = hear(sock), id = 0;
	struct otte_event event;
	pid_t pid;
	int fd;

	if (unshare(CLONE_NEWPID))
		_exit(1);
	pid = fork();
	if (pid) {
		int status;

		say(sock, pid);
		waitpid(pid, &status, 0);
		_exit(WEXITSTATUS(status));
	}
	fd = otte_client(&id);
	say(sock, id);
	if (otte_wait_event(fd, OTTE_EVENT_ATTEST, &event))
		_exit(2);
	say(sock, event.other.tgid);
	if (otte_attest(fd, other, 5) || otte_attest(fd, id, 6) ||
	    otte_wait_event(fd, OTTE_EVENT_ATTEST, &event))
		_exit(3);
	say(sock, event.other.tgid);
	hear(sock);
	_exit(0);
}

TEST_F(tenants, pids_are_those_of_the_readers_namespace_or_nothing)
{
	struct peer peer = peer_start(in_pid_namespace);
	uint64_t pid = 0, id = 0, a, b;
	struct otte_event event;

	say(peer.sock, self->client);
	/* The pid and the client's id come from two processes, in either order. */
	a = hear(peer.sock);
	b = hear(peer.sock);
	id = a;
	pid = b;
	if (otte_attest(self->fd, id, 4)) {
		id = b;
		pid = a;
		ASSERT_EQ(0, otte_attest(self->fd, id, 4));
	}
	/* We have no pid in there. */
	EXPECT_EQ(0, hear(peer.sock));
	EXPECT_EQ(1, hear(peer.sock));
	ASSERT_EQ(0, otte_wait_event(self->fd, OTTE_EVENT_ATTEST, &event));
	EXPECT_EQ(id, event.other.client);
	EXPECT_EQ(pid, event.other.tgid);
	say(peer.sock, 0);
	EXPECT_EQ(0, peer_wait(&peer));
}

static void in_inner_cgroup(int sock)
{
	uint64_t region;
	int fd;

	hear(sock);
	if (!cgroup_enter(CGROUPS "/a/inner"))
		_exit(1);
	fd = otte_client(NULL);
	if (otte_region(fd, OTTE_BACKING_NONE, OTTE_READ, otte_pages(PAGE), PAGE, &region))
		_exit(2);
	say(sock, accounts_at(fd, OTTE_LEVEL_CGROUP));
	/* Leaving takes nothing along. */
	if (!cgroup_enter(CGROUPS "/b"))
		_exit(3);
	say(sock, accounts_at(fd, OTTE_LEVEL_CGROUP));
	hear(sock);
}

static void in_outer_cgroup(int sock)
{
	struct otte_quota quota;
	unsigned int i;
	int fd;

	if (!cgroup_enter(CGROUPS "/a"))
		_exit(1);
	fd = otte_client(NULL);
	say(sock, accounts_at(fd, OTTE_LEVEL_CGROUP));
	hear(sock);
	for (i = 0; account(fd, i, &quota); i++) {
		if (quota.level == OTTE_LEVEL_CGROUP)
			say(sock, quota.usage[OTTE_RES_REGISTERED_BYTES]);
	}
	hear(sock);
}

TEST_F(tenants, a_delegated_cgroup_gets_no_fresh_quota)
{
	struct peer outer = peer_start(in_outer_cgroup), inner = peer_start(in_inner_cgroup);

	EXPECT_EQ(1, hear(outer.sock));
	say(inner.sock, 0);
	EXPECT_EQ(2, hear(inner.sock));
	EXPECT_EQ(2, hear(inner.sock));
	/* What the inner one registered counts in the outer one. */
	say(outer.sock, 0);
	EXPECT_EQ(PAGE, hear(outer.sock));
	peer_kill(&inner);
	peer_kill(&outer);
}

/* Floods one borrower until it is refused, then stays. */
static const char *tenant;

static void flood(int sock)
{
	uint64_t region, loan, borrower = hear(sock), n = 0;
	int fd, err;

	if (!cgroup_enter(tenant))
		_exit(1);
	fd = otte_client(NULL);
	if (otte_region(fd, OTTE_BACKING_NONE, OTTE_READ, otte_pages(PAGE), PAGE, &region))
		_exit(2);
	for (;;) {
		err = otte_offer(fd, region, 0, 1, borrower, OTTE_READ, 0, &loan);
		if (err)
			break;
		n++;
	}
	say(sock, n);
	say(sock, -err);
	hear(sock);
}

TEST_F(tenants, a_flood_of_offers_harms_only_its_tenant)
{
	struct peer first, again, other;

	tenant = CGROUPS "/a";
	first = peer_start(flood);
	say(first.sock, self->client);
	EXPECT_EQ(256, hear(first.sock));
	EXPECT_EQ(ENOSPC, hear(first.sock));
	/* Another process of the same tenant has no more. */
	again = peer_start(flood);
	say(again.sock, self->client);
	EXPECT_EQ(0, hear(again.sock));
	EXPECT_EQ(ENOSPC, hear(again.sock));
	/* Same user, other cgroup: another tenant. */
	tenant = CGROUPS "/b";
	other = peer_start(flood);
	say(other.sock, self->client);
	EXPECT_EQ(256, hear(other.sock));
	peer_kill(&first);
	peer_kill(&again);
	peer_kill(&other);
}

/* Sends nonces to one receiver, with as many clients as it takes, until it is refused. */
static void flood_nonces(int sock)
{
	uint64_t to = hear(sock), n = 0;
	int i, fd, err = 0;

	if (!cgroup_enter(tenant))
		_exit(1);
	for (i = 0; i < 20; i++) {
		fd = otte_client(NULL);
		while (!(err = otte_attest(fd, to, 1)))
			n++;
	}
	say(sock, n);
	say(sock, -err);
	hear(sock);
}

TEST_F(tenants, a_flood_of_nonces_harms_only_its_tenant)
{
	struct peer first, other;

	tenant = CGROUPS "/a";
	first = peer_start(flood_nonces);
	say(first.sock, self->client);
	EXPECT_EQ(64, hear(first.sock));
	EXPECT_EQ(EBUSY, hear(first.sock));
	tenant = CGROUPS "/b";
	other = peer_start(flood_nonces);
	say(other.sock, self->client);
	EXPECT_EQ(64, hear(other.sock));
	/* What has been read makes room. */
	otte_drain_events(self->fd);
	EXPECT_EQ(0, otte_attest(self->fd, self->client, 1));
	peer_kill(&first);
	peer_kill(&other);
}

/* ---- user namespaces ---- */

#define OWNER	2001	/* makes a namespace */
#define INSIDE	3000	/* is 0 in it, and makes another one */

/* Registers a page and says what its accounts of users have of it. */
static void register_and_say(int sock, int fd)
{
	struct otte_quota quota;
	uint64_t region;
	unsigned int i;

	if (otte_init_flags(fd, 0, NULL) ||
	    otte_region(fd, OTTE_BACKING_NONE, OTTE_READ, otte_pages(PAGE), PAGE, &region))
		_exit(5);
	say(sock, accounts_at(fd, OTTE_LEVEL_USER));
	for (i = 0; account(fd, i, &quota); i++) {
		if (quota.level == OTTE_LEVEL_USER)
			say(sock, quota.usage[OTTE_RES_REGISTERED_BYTES]);
	}
	hear(sock);
}

static void in_user_namespaces(int sock)
{
	int fd = otte_open();

	if (setresuid(OWNER, OWNER, OWNER) || unshare(CLONE_NEWUSER))
		_exit(1);
	say(sock, 1);
	hear(sock);
	/* Root of a namespace of OWNER, and then of one of its own. */
	if (setresgid(0, 0, 0) || setresuid(0, 0, 0) || unshare(CLONE_NEWUSER))
		_exit(2);
	register_and_say(sock, fd);
}

static void as_owner(int sock)
{
	int fd = otte_open();

	if (setresuid(OWNER, OWNER, OWNER))
		_exit(1);
	register_and_say(sock, fd);
}

static void as_inside(int sock)
{
	int fd = otte_open();

	if (setresuid(INSIDE, INSIDE, INSIDE))
		_exit(1);
	register_and_say(sock, fd);
}

static bool map_ids(pid_t pid, const char *file)
{
	char path[64], map[32];
	int fd, n;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	n = snprintf(map, sizeof(map), "0 %d 10", INSIDE);
	fd = open(path, O_WRONLY);
	ok = fd >= 0 && write(fd, map, n) == n;
	if (fd >= 0)
		close(fd);
	return ok;
}

TEST_F(tenants, a_user_namespace_gives_no_fresh_quota)
{
	struct peer nested = peer_start(in_user_namespaces), owner, inside;

	ASSERT_EQ(1, hear(nested.sock));
	ASSERT_TRUE(map_ids(nested.pid, "uid_map"));
	ASSERT_TRUE(map_ids(nested.pid, "gid_map"));
	say(nested.sock, 0);
	/* Itself, which also owns the inner namespace, and the owner of the outer one. */
	ASSERT_EQ(2, hear(nested.sock));
	EXPECT_EQ(PAGE, hear(nested.sock));
	EXPECT_EQ(PAGE, hear(nested.sock));
	/* Both have to do with what is left. */
	owner = peer_start(as_owner);
	EXPECT_EQ(1, hear(owner.sock));
	EXPECT_EQ(2 * PAGE, hear(owner.sock));
	inside = peer_start(as_inside);
	EXPECT_EQ(1, hear(inside.sock));
	EXPECT_EQ(2 * PAGE, hear(inside.sock));
	peer_kill(&nested);
	peer_kill(&owner);
	peer_kill(&inside);
}

/* 0 of a container that the host's root made. */
static void in_namespace_of_root(int sock)
{
	int fd = otte_open();

	if (unshare(CLONE_NEWUSER))
		_exit(1);
	say(sock, 1);
	hear(sock);
	if (setresgid(0, 0, 0) || setresuid(0, 0, 0))
		_exit(2);
	register_and_say(sock, fd);
}

TEST_F(tenants, a_container_of_root_is_not_charged_to_root)
{
	struct peer container = peer_start(in_namespace_of_root), inside;

	ASSERT_EQ(1, hear(container.sock));
	ASSERT_TRUE(map_ids(container.pid, "uid_map"));
	ASSERT_TRUE(map_ids(container.pid, "gid_map"));
	say(container.sock, 0);
	/* Its own user alone, with what that has on the host. */
	ASSERT_EQ(1, hear(container.sock));
	EXPECT_EQ(PAGE, hear(container.sock));
	inside = peer_start(as_inside);
	EXPECT_EQ(1, hear(inside.sock));
	EXPECT_EQ(2 * PAGE, hear(inside.sock));
	peer_kill(&container);
	peer_kill(&inside);
}

TEST_HARNESS_MAIN
