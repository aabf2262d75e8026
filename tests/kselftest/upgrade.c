// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replacing the module: refused while anybody uses it, with the reason in sysfs; and what an
 * administrator does instead, drain, unload, load. docs/kernel-operations.md is the procedure.
 */
#include "otte_test.h"
#include "kselftest_harness.h"

#define TOP		"/sys/class/misc/otte/"
#define MODULE		"/lab/ko/otte.ko"	/* where the guest was given it */
#define BYTES		(4 * PAGE)

/* As rmmod does: without waiting. */
static int unload(void)
{
	return syscall(SYS_delete_module, "otte", O_NONBLOCK) ? -errno : 0;
}

static int load(void)
{
	int err = 0, fd = open(MODULE, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (syscall(SYS_finit_module, fd, "", 0))
		err = -errno;
	close(fd);
	return err;
}

/* What a closed file leaves is let go by work, and the module with it. */
static int unload_soon(void)
{
	int i, err;

	for (i = 0; i < 1000; i++) {
		err = unload();
		if (err != -EAGAIN)
			return err;
		usleep(10000);
	}
	return err;
}

static bool becomes(const char *file, int64_t wanted)
{
	int i;

	for (i = 0; i < 1000 && read_number(file) != wanted; i++)
		usleep(10000);
	return read_number(file) == wanted;
}

/* Nothing is left of tests and programs before this one. */
static bool unused(void)
{
	return becomes(TOP "usage/clients", 0) && becomes(TOP "usage/regions", 0) &&
	       becomes(TOP "usage/loans", 0) && becomes(TOP "retained_records", 0);
}

static int load_id(int fd, uint8_t id[16])
{
	struct otte_query query = { .size = sizeof(query) };
	int err = otte_call(fd, OTTE_IOC_QUERY, &query);

	memcpy(id, query.load_id, sizeof(query.load_id));
	return err;
}

TEST(an_open_file_keeps_the_module_and_goes_on_working)
{
	uint8_t id[16];
	int fd;

	ASSERT_TRUE(unused());
	fd = otte_open();
	ASSERT_LE(0, fd);
	ASSERT_EQ(-EAGAIN, unload());
	ASSERT_EQ(0, load_id(fd, id));
	ASSERT_EQ(0, otte_init_flags(fd, 0, NULL));
	close(fd);
}

TEST(an_open_client_keeps_the_module_and_sysfs_tells_of_it)
{
	uint64_t client, region, loan;
	void *memory = otte_pages(BYTES), *copy = otte_pages(BYTES);
	int fd;

	ASSERT_TRUE(unused());
	fd = otte_client(&client);
	ASSERT_LE(0, fd);
	ASSERT_TRUE(memory && copy);
	otte_fill(memory, BYTES, 3);
	ASSERT_EQ(0, otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ, memory, BYTES, &region));
	ASSERT_EQ(0, otte_offer(fd, region, 0, BYTES, client, OTTE_READ, 0, &loan));
	ASSERT_EQ(0, otte_accept(fd, loan, NULL));
	ASSERT_EQ(-EAGAIN, unload());
	EXPECT_EQ(1, read_number(TOP "usage/clients"));
	EXPECT_EQ(1, read_number(TOP "usage/regions"));
	EXPECT_EQ(1, read_number(TOP "usage/loans"));
	/* Nothing was taken away by the attempt. */
	EXPECT_EQ((int64_t)BYTES, otte_copy(fd, loan, 0, copy, BYTES));
	EXPECT_TRUE(otte_filled(copy, BYTES, 3, 0));
	EXPECT_EQ(0, otte_settle(fd, loan));
	close(fd);
}

static void hold_and_die(int sock)
{
	uint64_t hold = 0;
	int fd = otte_client(NULL);

	say(sock, fd < 0 || otte_hold(fd, 4096, &hold) ? 0 : hold);
	hear(sock);
}

TEST(what_is_retained_keeps_the_module_when_nobody_has_it_open)
{
	struct peer peer;
	uint64_t hold;
	char id[32];

	ASSERT_TRUE(unused());
	peer = peer_start(hold_and_die);
	hold = hear(peer.sock);
	ASSERT_NE(0, hold);
	ASSERT_NE(UINT64_MAX, hold);
	peer_kill(&peer);
	ASSERT_TRUE(becomes(TOP "retained_records", 1));
	ASSERT_EQ(-EAGAIN, unload());
	EXPECT_EQ(4096, read_number(TOP "usage/retained_bytes"));
	snprintf(id, sizeof(id), "%llu", (unsigned long long)hold);
	ASSERT_EQ(0, write_file(TOP "retained_release", id));
	ASSERT_TRUE(becomes(TOP "retained_records", 0));
}

TEST(drain_unload_load)
{
	uint64_t client, region, loan;
	void *memory = otte_pages(BYTES);
	uint8_t before[16], after[16];
	int fd, late;

	if (access(MODULE, R_OK))
		SKIP(return, "the module's file is not in this guest");
	ASSERT_TRUE(unused());
	fd = otte_client(&client);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, load_id(fd, before));
	ASSERT_EQ(0, otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ, memory, BYTES, &region));
	ASSERT_EQ(0, otte_offer(fd, region, 0, BYTES, client, OTTE_READ, 0, &loan));
	ASSERT_EQ(0, otte_accept(fd, loan, NULL));

	/* Drain: nothing new, and what there is goes on to its end. */
	ASSERT_EQ(0, write_file(TOP "draining", "1"));
	late = otte_open();
	ASSERT_LE(0, late);
	EXPECT_EQ(-ESHUTDOWN, otte_init_flags(late, 0, NULL));
	close(late);
	EXPECT_EQ(-ESHUTDOWN, otte_offer(fd, region, 0, BYTES, client, OTTE_READ, 0, &loan));
	EXPECT_EQ(-EAGAIN, unload());
	EXPECT_EQ((int64_t)BYTES, otte_copy(fd, loan, 0, memory, BYTES));
	EXPECT_EQ(0, otte_settle(fd, loan));
	close(fd);

	/* The users are gone: sysfs says so, and then the module goes. */
	EXPECT_TRUE(becomes(TOP "usage/clients", 0));
	EXPECT_EQ(0, read_number(TOP "usage/regions"));
	EXPECT_EQ(0, read_number(TOP "usage/loans"));
	ASSERT_EQ(0, unload_soon());
	ASSERT_EQ(-ENOENT, otte_open());

	ASSERT_EQ(0, load());
	fd = otte_client(&client);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, load_id(fd, after));
	EXPECT_NE(0, memcmp(before, after, sizeof(after)));
	close(fd);
}

TEST_HARNESS_MAIN
