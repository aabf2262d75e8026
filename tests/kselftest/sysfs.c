// SPDX-License-Identifier: GPL-2.0-only
/*
 * sysfs: one value a file, other users' data for nobody else, and an administrator's last word on
 * what is retained.
 */
#include "otte_test.h"
#include "kselftest_harness.h"

#include <dirent.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/stat.h>

#define TOP		"/sys/class/misc/otte/"
#define ALICE		1001
#define DIRS_MAX	1024

static const char *record(uint64_t id, const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), TOP "retained/%llu/%s", (unsigned long long)id, file);
	return path;
}

static int become(uid_t uid)
{
	return setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid);
}

/* User 0 as containers know it: all capabilities of files, none over the system. */
static int drop_sys_admin(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		return -errno;
	data[0].effective &= ~(1U << CAP_SYS_ADMIN);
	data[0].permitted &= ~(1U << CAP_SYS_ADMIN);
	data[0].inheritable = 0;
	return syscall(SYS_capset, &head, data) ? -errno : 0;
}

static bool exists(const char *path, bool wanted)
{
	struct stat stat;
	int i;

	for (i = 0; i < 3000 && (!lstat(path, &stat)) != wanted; i++)
		usleep(1000);
	return (!lstat(path, &stat)) == wanted;
}

/* The directory is there, and complete: "release" is made last. */
static bool listed(uint64_t id)
{
	return exists(record(id, "release"), true);
}

static unsigned int dirs(void)
{
	unsigned int n = 0;
	struct dirent *entry;
	DIR *dir = opendir(TOP "retained");

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

static bool dirs_become(unsigned int wanted)
{
	int i;

	for (i = 0; i < 1200; i++) {
		if (dirs() == wanted)
			return true;
		usleep(50000);
	}
	return false;
}

static bool becomes(const char *path, int64_t wanted)
{
	int i;

	for (i = 0; i < 1200 && read_number(path) != wanted; i++)
		usleep(50000);
	return read_number(path) == wanted;
}

/* Releases are queued: waits until the list itself has shrunk. */
static bool records_become(int64_t wanted)
{
	return becomes(TOP "retained_records", wanted);
}

FIXTURE(sysfs)
{
	int fd;
	uint64_t client;
};

FIXTURE_SETUP(sysfs)
{
	self->fd = otte_client(&self->client);
	ASSERT_GE(self->fd, 0);
}

FIXTURE_TEARDOWN(sysfs)
{
	close(self->fd);
}

TEST_F(sysfs, device_files_say_what_the_ioctls_say)
{
	struct otte_query query = { .size = sizeof(query) };
	char text[64], hex[33];
	int64_t before;
	uint64_t hold;
	int i;

	ASSERT_EQ(0, otte_call(self->fd, OTTE_IOC_QUERY, &query));
	EXPECT_EQ(OTTE_ABI_REVISION, read_number(TOP "revision"));
	ASSERT_EQ(0, read_file(TOP "load_id", text, sizeof(text)));
	for (i = 0; i < 16; i++)
		sprintf(hex + 2 * i, "%02x", query.load_id[i]);
	EXPECT_STREQ(hex, text);
	EXPECT_EQ(0, read_number(TOP "draining"));
	EXPECT_EQ(1, read_number(TOP "usage/clients"));
	EXPECT_EQ(0, read_number(TOP "usage/loans"));
	before = read_number(TOP "generation");
	EXPECT_EQ(before, read_number(TOP "generation"));
	ASSERT_EQ(0, otte_hold(self->fd, 4711, &hold));
	EXPECT_LT(before, read_number(TOP "generation"));
	EXPECT_EQ(4711, read_number(TOP "usage/retained_bytes"));
	EXPECT_EQ(1, read_number(TOP "usage/holds"));
	EXPECT_EQ(1, read_number(TOP "retained_records"));
	ASSERT_EQ(0, otte_hold_drop(self->fd, hold));
	EXPECT_EQ(0, read_number(TOP "usage/retained_bytes"));
	EXPECT_EQ(0, read_number(TOP "retained_records"));
}

/* Levels that are tried one after the other; each refuses what is above its limit. */
TEST_F(sysfs, limit_that_is_set_refuses_from_then_on)
{
	static const char *const files[] = {
		TOP "limit_module/holds", TOP "limit_user/holds", TOP "limit_client/holds",
	};
	static const uint32_t levels[] = {
		OTTE_LEVEL_MODULE, OTTE_LEVEL_USER, OTTE_LEVEL_CLIENT,
	};
	struct otte_event event;
	uint64_t hold, refused;
	char before[32], text[32];
	unsigned int i;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, read_file(files[i], before, sizeof(before)));
		ASSERT_EQ(0, write_file(files[i], "1\n"));
		EXPECT_EQ(1, read_number(files[i]));
		ASSERT_EQ(0, otte_hold(self->fd, 1, &hold));
		EXPECT_EQ(-EDQUOT, otte_hold(self->fd, 1, &refused));
		ASSERT_EQ(0, otte_wait_event(self->fd, OTTE_EVENT_QUOTA, &event));
		EXPECT_EQ(levels[i], event.level);
		EXPECT_EQ(OTTE_RES_HOLDS, event.resource);
		EXPECT_EQ(1, event.limit);
		ASSERT_EQ(0, otte_hold_drop(self->fd, hold));
		ASSERT_EQ(0, write_file(files[i], before));
		ASSERT_EQ(0, read_file(files[i], text, sizeof(text)));
		EXPECT_STREQ(before, text);
	}
	EXPECT_EQ(-EINVAL, write_file(files[0], "many"));
	EXPECT_EQ(-EINVAL, write_file(files[0], "-1"));
	EXPECT_EQ(-ERANGE, write_file(files[0], "18446744073709551616"));
	ASSERT_EQ(0, read_file(files[0], before, sizeof(before)));
	ASSERT_EQ(0, write_file(files[0], "max"));
	ASSERT_EQ(0, read_file(files[0], text, sizeof(text)));
	EXPECT_STREQ("max", text);
	ASSERT_EQ(0, write_file(files[0], before));
}

TEST_F(sysfs, draining_lets_nobody_in_and_can_be_taken_back)
{
	void *mem = otte_pages(PAGE);
	uint64_t region;
	int fd;

	ASSERT_EQ(0, write_file(TOP "draining", "1"));
	EXPECT_EQ(1, read_number(TOP "draining"));
	EXPECT_EQ(-ESHUTDOWN, otte_client(NULL));
	EXPECT_EQ(-ESHUTDOWN, otte_region(self->fd, OTTE_BACKING_NONE, OTTE_READ, mem, PAGE,
					  &region));
	ASSERT_EQ(0, write_file(TOP "draining", "0"));
	fd = otte_client(NULL);
	EXPECT_GE(fd, 0);
	close(fd);
}

/* Whether the trace has a line with @text; tracing is read as a whole, it is short. */
static bool traced(const char *text)
{
	FILE *trace = fopen("/sys/kernel/tracing/trace", "r");
	char line[512];
	bool found = false;

	while (trace && !found && fgets(line, sizeof(line), trace))
		found = strstr(line, text);
	if (trace)
		fclose(trace);
	return found;
}

TEST_F(sysfs, tracepoints_tell_each_state_of_a_loan)
{
	static const char enable[] = "/sys/kernel/tracing/events/otte/enable";
	static const char *const states[] = { "offered", "exposed", "settled" };
	void *mem = otte_pages(PAGE);
	uint64_t region, loan;
	unsigned int i;
	char text[128];

	if (access(enable, W_OK))
		SKIP(return, "a kernel without tracing");
	ASSERT_EQ(0, write_file(enable, "1"));
	ASSERT_EQ(0, otte_region(self->fd, OTTE_BACKING_PAGES, OTTE_READ, mem, PAGE, &region));
	ASSERT_EQ(0, otte_offer(self->fd, region, 0, PAGE, self->client, OTTE_READ, 0, &loan));
	ASSERT_EQ(0, otte_accept(self->fd, loan, NULL));
	ASSERT_EQ(0, otte_settle(self->fd, loan));
	ASSERT_EQ(0, otte_region_del(self->fd, region, NULL));
	ASSERT_EQ(0, write_file(enable, "0"));
	for (i = 0; i < 3; i++) {
		snprintf(text, sizeof(text),
			 "otte_loan: id=%llu region=%llu borrower=%llu length=4096 state=%s",
			 (unsigned long long)loan, (unsigned long long)region,
			 (unsigned long long)self->client, states[i]);
		EXPECT_TRUE(traced(text));
	}
	snprintf(text, sizeof(text), "otte_region: id=%llu", (unsigned long long)region);
	EXPECT_TRUE(traced(text));
	EXPECT_TRUE(traced("backing=1 state=gone"));
}

/* ---- retained/ ---- */

static uint64_t child_holds;

/* Holds so much and dies without a word. */
static void dying_holder(int sock)
{
	uint64_t hold = 0, i;
	int fd = otte_client(NULL);

	for (i = 0; i < child_holds; i++) {
		if (otte_hold(fd, 1000 + i, &hold))
			_exit(1);
	}
	say(sock, hold);
	pause();
}

/* Id of the last hold of a client that is gone. */
static uint64_t dead_hold(uint64_t holds)
{
	struct peer peer;
	uint64_t hold;

	child_holds = holds;
	peer = peer_start(dying_holder);
	hold = hear(peer.sock);
	peer_kill(&peer);
	return hold;
}

#define STANDING	3

/* Two peers that read and write one page at a time; then dies. */
static void dying_lender(int sock)
{
	uint64_t client, region, loan;
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = otte_client(&client), i, err;

	err = otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ | OTTE_WRITE, page, PAGE, &region);
	for (i = 0; !err && i < STANDING; i++)
		err = otte_expose_flags(fd, region, 0, PAGE, 1 + i, 1,
					i ? OTTE_WRITE : OTTE_READ, OTTE_LOAN_STANDING, &loan);
	say(sock, err ? UINT64_MAX : region);
	pause();
}

TEST_F(sysfs, standing_exposures_of_a_dead_lender_are_one_record_and_end_together)
{
	struct peer peer = peer_start(dying_lender);
	uint64_t region = hear(peer.sock);

	ASSERT_NE(UINT64_MAX, region);
	EXPECT_EQ(STANDING * PAGE, read_number(TOP "usage/lent_bytes"));
	peer_kill(&peer);
	ASSERT_TRUE(listed(region));
	EXPECT_EQ(1, read_number(TOP "retained_records"));
	EXPECT_EQ(PAGE, read_number(TOP "usage/retained_bytes"));
	EXPECT_EQ(PAGE, read_number(TOP "usage/pinned_bytes"));
	EXPECT_EQ(STANDING * PAGE, read_number(TOP "usage/lent_bytes"));
	EXPECT_EQ(STANDING, read_number(TOP "usage/loans"));
	ASSERT_EQ(0, write_file(record(region, "release"), "1"));
	EXPECT_TRUE(records_become(0));
	EXPECT_EQ(0, read_number(TOP "usage/retained_bytes"));
	EXPECT_EQ(0, read_number(TOP "usage/lent_bytes"));
	EXPECT_TRUE(becomes(TOP "usage/loans", 0));
	EXPECT_TRUE(becomes(TOP "usage/pinned_bytes", 0));
}

TEST_F(sysfs, record_has_a_directory_until_an_administrator_releases_it)
{
	uint64_t hold = dead_hold(1);
	char text[64];
	int fd;

	ASSERT_NE(UINT64_MAX, hold);
	ASSERT_TRUE(listed(hold));
	EXPECT_EQ(0, read_file(record(hold, "kind"), text, sizeof(text)));
	EXPECT_STREQ("hold", text);
	EXPECT_EQ(1000, read_number(record(hold, "bytes")));
	EXPECT_EQ(0, read_number(record(hold, "reason")));
	EXPECT_EQ(0, read_number(record(hold, "uid")));
	EXPECT_EQ(1, read_number(record(hold, "owner_gone")));
	EXPECT_LT(0, read_number(record(hold, "owner")));
	EXPECT_EQ(0, read_file(record(hold, "comm"), text, sizeof(text)));
	EXPECT_STREQ("sysfs", text);
	EXPECT_GE(5000, read_number(record(hold, "age_ms")));

	EXPECT_EQ(-EINVAL, write_file(record(hold, "release"), "0"));
	EXPECT_EQ(-EINVAL, write_file(record(hold, "release"), "yes"));
	EXPECT_EQ(1, read_number(TOP "retained_records"));
	fd = open(record(hold, "bytes"), O_RDONLY);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, write_file(record(hold, "release"), "1\n"));
	EXPECT_TRUE(exists(record(hold, ""), false));
	EXPECT_EQ(0, read_number(TOP "retained_records"));
	/* A file that was open says no more. */
	EXPECT_EQ(-1, read(fd, text, sizeof(text)));
	EXPECT_EQ(ENODEV, errno);
	close(fd);
	EXPECT_TRUE(otte_all_zero(self->fd, 1));
}

TEST_F(sysfs, hold_of_a_living_client_is_its_own_affair)
{
	uint64_t hold;

	ASSERT_EQ(0, otte_hold(self->fd, 1, &hold));
	ASSERT_TRUE(listed(hold));
	EXPECT_EQ((int64_t)self->client, read_number(record(hold, "owner")));
	EXPECT_EQ(getpid(), read_number(record(hold, "tgid")));
	EXPECT_EQ(0, read_number(record(hold, "owner_gone")));
	EXPECT_EQ(-EBUSY, write_file(record(hold, "release"), "1"));
	ASSERT_EQ(0, otte_hold_drop(self->fd, hold));
	EXPECT_TRUE(exists(record(hold, ""), false));
}

TEST_F_TIMEOUT(sysfs, record_without_a_directory_can_be_released, 180)
{
	uint64_t mine[DIRS_MAX], hold;
	char text[24];
	int i;

	for (i = 0; i < DIRS_MAX; i++)
		ASSERT_EQ(0, otte_hold(self->fd, 1, &mine[i]));
	ASSERT_TRUE(dirs_become(DIRS_MAX));
	hold = dead_hold(1);
	ASSERT_NE(UINT64_MAX, hold);
	EXPECT_TRUE(exists(record(hold, "release"), false));
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)hold);
	EXPECT_EQ(0, write_file(TOP "retained_release", text));
	for (i = 0; i < 3000 && read_number(TOP "retained_records") != DIRS_MAX; i++)
		usleep(1000);
	EXPECT_EQ(DIRS_MAX, read_number(TOP "retained_records"));
	EXPECT_EQ(-ENODEV, write_file(TOP "retained_release", text));
	EXPECT_EQ(-EINVAL, write_file(TOP "retained_release", "all"));
	snprintf(text, sizeof(text), "%llu", (unsigned long long)mine[0]);
	EXPECT_EQ(-EBUSY, write_file(TOP "retained_release", text));
	for (i = 0; i < DIRS_MAX; i++)
		EXPECT_EQ(0, otte_hold_drop(self->fd, mine[i]));
	EXPECT_TRUE(dirs_become(0));
}

TEST_F(sysfs, user_0_without_sys_admin_sets_and_releases_nothing)
{
	uint64_t hold = dead_hold(1);
	int status;
	pid_t pid;

	ASSERT_NE(UINT64_MAX, hold);
	ASSERT_TRUE(listed(hold));
	pid = fork();
	if (!pid) {
		if (drop_sys_admin())
			_exit(1);
		if (write_file(record(hold, "release"), "1") != -EPERM)
			_exit(2);
		if (write_file(TOP "limit_module/holds", "0") != -EPERM)
			_exit(3);
		if (write_file(TOP "retained_release", "1") != -EPERM)
			_exit(5);
		_exit(write_file(TOP "draining", "1") == -EPERM ? 0 : 4);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, read_number(TOP "draining"));
	EXPECT_EQ(1, read_number(TOP "retained_records"));
	ASSERT_EQ(0, write_file(record(hold, "release"), "1"));
	EXPECT_TRUE(exists(record(hold, ""), false));
}

static void other_user(int sock)
{
	uint64_t theirs = hear(sock), mine;
	int fd = otte_open();

	if (become(ALICE) || otte_init_flags(fd, 0, NULL) || otte_hold(fd, 77, &mine))
		_exit(1);
	if (!listed(mine) || read_number(record(mine, "bytes")) != 77 ||
	    read_number(record(mine, "uid")) != ALICE)
		_exit(2);
	if (read_number(record(theirs, "bytes")) != -EPERM ||
	    read_number(record(theirs, "tgid")) != -EPERM ||
	    read_number(record(theirs, "kind")) != -EPERM)
		_exit(3);
	if (write_file(record(mine, "release"), "1") != -EACCES ||
	    write_file(TOP "limit_module/holds", "0") != -EACCES)
		_exit(4);
	/* Sums of all are no secret. */
	if (read_number(TOP "usage/holds") < 2)
		_exit(5);
	otte_hold_drop(fd, mine);
	_exit(0);
}

TEST_F(sysfs, records_of_other_users_are_not_shown)
{
	struct peer peer = peer_start(other_user);
	uint64_t hold;

	ASSERT_EQ(0, otte_hold(self->fd, 1, &hold));
	ASSERT_TRUE(listed(hold));
	say(peer.sock, hold);
	EXPECT_EQ(0, peer_wait(&peer));
	ASSERT_EQ(0, otte_hold_drop(self->fd, hold));
}

/* User 0 of a container with a pid namespace of its own. */
TEST_F(sysfs, pids_are_those_of_the_readers_pid_namespace_or_zero)
{
	uint64_t hold;
	int status;
	pid_t pid;

	ASSERT_EQ(0, otte_hold(self->fd, 1, &hold));
	ASSERT_TRUE(listed(hold));
	EXPECT_EQ(getpid(), read_number(record(hold, "tgid")));
	pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWPID))
			_exit(1);
		pid = fork();
		if (!pid)
			_exit(read_number(record(hold, "tgid")) ? 2 : 0);
		waitpid(pid, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, otte_hold_drop(self->fd, hold));
}

/* Releases @n records that have directories. */
static unsigned int release_some(unsigned int n)
{
	struct dirent *entry;
	unsigned int done = 0;
	DIR *dir = opendir(TOP "retained");

	while (dir && done < n && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.' &&
		    !write_file(record(strtoull(entry->d_name, NULL, 10), "release"), "1"))
			done++;
	}
	if (dir)
		closedir(dir);
	return done;
}

TEST_F_TIMEOUT(sysfs, directories_are_capped_and_follow_the_list_as_it_shrinks, 180)
{
	const unsigned int holds = DIRS_MAX + 100;
	unsigned int left;

	ASSERT_NE(UINT64_MAX, dead_hold(holds));
	EXPECT_EQ(holds, read_number(TOP "retained_records"));
	EXPECT_TRUE(dirs_become(DIRS_MAX));
	/* Those that had no room move up. */
	EXPECT_EQ(50, release_some(50));
	EXPECT_TRUE(records_become(holds - 50));
	EXPECT_TRUE(dirs_become(DIRS_MAX));
	EXPECT_EQ(500, release_some(500));
	EXPECT_TRUE(dirs_become(holds - 550));
	while ((left = read_number(TOP "retained_records")))
		release_some(left);
	EXPECT_TRUE(dirs_become(0));
	EXPECT_TRUE(otte_all_zero(self->fd, 1));
}

static void reader(int sock)
{
	struct dirent *entry;
	char text[64];
	DIR *dir;

	fcntl(sock, F_SETFL, O_NONBLOCK);
	while (hear(sock) == UINT64_MAX && errno == EAGAIN) {
		dir = opendir(TOP "retained");
		while (dir && (entry = readdir(dir))) {
			uint64_t id = strtoull(entry->d_name, NULL, 10);

			read_file(record(id, "age_ms"), text, sizeof(text));
			read_file(record(id, "comm"), text, sizeof(text));
		}
		if (dir)
			closedir(dir);
	}
}

/* Who reads in a directory waits for the ledger; who removes it waits for the reader. */
TEST_F_TIMEOUT(sysfs, records_come_and_go_under_readers, 180)
{
	struct peer peer[3];
	uint64_t hold[64];
	unsigned int i, rounds, failures = 0;

	for (i = 0; i < 3; i++)
		peer[i] = peer_start(reader);
	for (rounds = 0; rounds < 50; rounds++) {
		for (i = 0; i < 64; i++)
			failures += !!otte_hold(self->fd, 1, &hold[i]);
		usleep(2000);
		for (i = 0; i < 64; i++)
			failures += !!otte_hold_drop(self->fd, hold[i]);
	}
	for (i = 0; i < 3; i++)
		peer_kill(&peer[i]);
	EXPECT_EQ(0, failures);
	EXPECT_TRUE(dirs_become(0));
}

TEST_HARNESS_MAIN
