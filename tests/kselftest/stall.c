// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client with very many loans ends. That takes its time, but nobody else waits for all of it: the
 * longest call of another client is compared with the whole end, both of the same round. A loaded
 * machine may hold up any one call; what the ledger holds up it holds up in every round.
 *
 * OTTE_STALL_LOANS changes the number of loans.
 */
#include "otte_test.h"
#include "kselftest_harness.h"

#define LOANS_MAX	131072	/* of one client */
#define BATCH		200	/* fewer offers than a tenant may have unanswered */
#define PARTS		4	/* what others wait is less than this part of the end */
#define ROUNDS		5	/* at most, until one shows it */

static struct shared {
	uint64_t began_ns, ended_ns;	/* the child's close() */
	uint64_t loan[LOANS_MAX];
} *shared;

static unsigned int loans;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* Told to, closes its client, which is over when close() returns; then stays. */
static void end(int sock, int fd)
{
	otte_drain_events(fd);
	say(sock, 1);
	hear(sock);
	__atomic_store_n(&shared->began_ns, now_ns(), __ATOMIC_SEQ_CST);
	close(fd);
	__atomic_store_n(&shared->ended_ns, now_ns(), __ATOMIC_SEQ_CST);
	hear(sock);
}

static int offer_batch(int fd, uint64_t region, uint64_t borrower, unsigned int from)
{
	unsigned int i;
	int err = 0;

	for (i = from; i < from + BATCH && i < loans && !err; i++)
		err = otte_offer_evidence(fd, region, i % PAGE, 1, borrower, OTTE_READ, 0,
					  OTTE_EVIDENCE_DEFAULT | OTTE_EVIDENCE_BORROWER_EXITED,
					  &shared->loan[i]);
	return err;
}

static int accept_batch(int fd, unsigned int from)
{
	unsigned int i;
	int err = 0;

	for (i = from; i < from + BATCH && i < loans && !err; i++)
		err = otte_accept(fd, shared->loan[i], NULL);
	return err;
}

static void lender(int sock)
{
	uint64_t region, borrower = hear(sock);
	int fd = otte_client(NULL);
	unsigned int i;

	if (otte_region(fd, OTTE_BACKING_NONE, OTTE_READ, otte_pages(PAGE), PAGE, &region))
		_exit(1);
	for (i = 0; i < loans; i += BATCH) {
		if (offer_batch(fd, region, borrower, i))
			_exit(2);
		say(sock, i);
		hear(sock);
	}
	end(sock, fd);
}

static void borrower(int sock)
{
	uint64_t client;
	unsigned int i;
	int fd = otte_client(&client);

	say(sock, client);
	for (i = 0; i < loans; i += BATCH) {
		hear(sock);
		if (accept_batch(fd, i))
			_exit(1);
		say(sock, i);
	}
	end(sock, fd);
}

FIXTURE(stall)
{
	int fd;
	uint64_t client;
};

FIXTURE_SETUP(stall)
{
	const char *text = getenv("OTTE_STALL_LOANS");

	loans = text ? strtoul(text, NULL, 0) : 100000;
	ASSERT_GE(LOANS_MAX, loans);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	self->fd = otte_client(&self->client);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(stall)
{
	otte_drain_events(self->fd);
	EXPECT_TRUE(otte_all_zero(self->fd, 1));
	close(self->fd);
}

/* The longest of calls that need the ledger and nothing else, until the child's end is over. */
static uint64_t longest_call(int fd, unsigned int *calls)
{
	uint64_t before, after, began, longest = 0;

	*calls = 0;
	do {
		before = now_ns();
		otte_verify(fd, 0);
		after = now_ns();
		began = __atomic_load_n(&shared->began_ns, __ATOMIC_SEQ_CST);
		if (!began || after < began)
			continue;
		++*calls;
		if (before < began)
			before = began;
		if (longest < after - before)
			longest = after - before;
	} while (!__atomic_load_n(&shared->ended_ns, __ATOMIC_SEQ_CST));
	return longest;
}

/* True if the end of @peer, which is ready for it, holds up nobody for long. */
static bool ends_without_stall(int fd, struct peer *peer)
{
	uint64_t longest, whole;
	unsigned int calls;

	if (hear(peer->sock) != 1)
		return false;
	say(peer->sock, 1);
	longest = longest_call(fd, &calls);
	whole = shared->ended_ns - shared->began_ns;
	note("%u loans end in %llu us; of %u calls meanwhile the longest takes %llu us\n", loans,
	     (unsigned long long)whole / 1000, calls, (unsigned long long)longest / 1000);
	return longest < whole / PARTS;
}

static struct peer start(void (*body)(int sock))
{
	shared->began_ns = 0;
	shared->ended_ns = 0;
	return peer_start(body);
}

TEST_F_TIMEOUT(stall, borrower_with_many_loans_holds_up_nobody, 300)
{
	uint64_t region, other;
	unsigned int i, round;
	bool smooth = false;
	struct peer peer;

	ASSERT_EQ(0, otte_region(self->fd, OTTE_BACKING_NONE, OTTE_READ, otte_pages(PAGE), PAGE,
				 &region));
	for (round = 0; round < ROUNDS && !smooth; round++) {
		peer = start(borrower);
		other = hear(peer.sock);
		for (i = 0; i < loans; i += BATCH) {
			ASSERT_EQ(0, offer_batch(self->fd, region, other, i));
			say(peer.sock, i);
			ASSERT_EQ(i, hear(peer.sock));
		}
		smooth = ends_without_stall(self->fd, &peer);
		/* All were looked at: alive and without its file, it leaves no evidence. */
		ASSERT_EQ(loans, otte_usage(self->fd, OTTE_RES_RETAINED_BYTES));
		peer_kill(&peer);
		for (i = 0; i < 1000 && otte_usage(self->fd, OTTE_RES_RETAINED_BYTES); i++)
			usleep(10000);
		ASSERT_EQ(0, otte_usage(self->fd, OTTE_RES_RETAINED_BYTES));
		otte_drain_events(self->fd);
	}
	EXPECT_TRUE(smooth);
	EXPECT_EQ(0, otte_region_del(self->fd, region, NULL));
}

TEST_F_TIMEOUT(stall, lender_with_many_loans_holds_up_nobody, 300)
{
	unsigned int i, round, told;
	struct otte_event event;
	bool smooth = false;
	struct peer peer;

	for (round = 0; round < ROUNDS && !smooth; round++) {
		peer = start(lender);
		say(peer.sock, self->client);
		for (i = 0; i < loans; i += BATCH) {
			ASSERT_EQ(i, hear(peer.sock));
			ASSERT_EQ(0, accept_batch(self->fd, i));
			say(peer.sock, i);
		}
		smooth = ends_without_stall(self->fd, &peer);
		/* Each loan's borrower was told, once. */
		for (told = 0; !otte_next_event(self->fd, &event, 0);)
			told += event.type == OTTE_EVENT_OWNER_GONE;
		ASSERT_EQ(loans, told);
		ASSERT_EQ(PAGE, otte_usage(self->fd, OTTE_RES_RETAINED_BYTES));
		for (i = 0; i < loans; i++)
			ASSERT_EQ(0, otte_settle(self->fd, shared->loan[i]));
		peer_kill(&peer);
	}
	EXPECT_TRUE(smooth);
}

TEST_HARNESS_MAIN
