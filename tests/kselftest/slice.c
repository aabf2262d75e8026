// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first thing the ledger is for: memory lent by a process that is then killed stays what it
 * was until its borrower gives it back.
 */
#include "otte_test.h"
#include "kselftest_harness.h"

#define BYTES	(16 * PAGE)
#define SEED	7

FIXTURE(slice)
{
	int fd;
	uint64_t client;
};

FIXTURE_SETUP(slice)
{
	self->fd = otte_client(&self->client);
	ASSERT_GE(self->fd, 0);
	ASSERT_TRUE(otte_all_zero(self->fd, 1));
}

FIXTURE_TEARDOWN(slice)
{
	close(self->fd);
}

/* Lends BYTES to whom it is told, says the loan's id, waits to be killed. */
static void lender(int sock)
{
	uint64_t region, loan, borrower = hear(sock);
	void *mem = otte_pages(BYTES);
	int fd = otte_client(NULL);

	otte_fill(mem, BYTES, SEED);
	if (otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ, mem, BYTES, &region) ||
	    otte_offer(fd, region, 0, BYTES, borrower, OTTE_READ, OTTE_LOAN_MAPPABLE, &loan))
		_exit(1);
	say(sock, loan);
	pause();
}

TEST_F(slice, memory_of_a_killed_owner_is_read_by_copy_and_by_map_until_settled)
{
	struct peer peer = peer_start(lender);
	struct otte_loan_accept accept;
	static char buf[BYTES];
	uint64_t loan;
	char *map;
	int i;

	say(peer.sock, self->client);
	loan = hear(peer.sock);
	ASSERT_NE(UINT64_MAX, loan);
	ASSERT_EQ(0, otte_accept(self->fd, loan, &accept));
	ASSERT_EQ(BYTES, accept.length);
	ASSERT_EQ(BYTES, accept.map_bytes);
	ASSERT_EQ(-1, accept.fd);
	peer_kill(&peer);

	for (i = 0; i < 3; i++) {
		memset(buf, 0xcc, BYTES);
		ASSERT_EQ((int64_t)BYTES, otte_copy(self->fd, loan, 0, buf, BYTES));
		ASSERT_TRUE(otte_filled(buf, BYTES, SEED, 0));
	}
	map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, self->fd, accept.map_offset);
	ASSERT_NE(MAP_FAILED, map);
	ASSERT_TRUE(otte_filled(map, BYTES, SEED, 0));

	ASSERT_EQ(BYTES, otte_usage(self->fd, OTTE_RES_PINNED_BYTES));
	ASSERT_EQ(BYTES, otte_usage(self->fd, OTTE_RES_RETAINED_BYTES));
	ASSERT_EQ(-EBUSY, otte_settle(self->fd, loan));
	ASSERT_EQ(0, munmap(map, BYTES));
	ASSERT_EQ(0, otte_settle(self->fd, loan));
	ASSERT_EQ(-ENOENT, otte_settle(self->fd, loan));
	ASSERT_TRUE(otte_all_zero(self->fd, 1));
}

TEST_HARNESS_MAIN
