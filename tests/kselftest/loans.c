// SPDX-License-Identifier: GPL-2.0-only
/* Loans between clients: who may do what, when, and what each side is told. */
#include <linux/userfaultfd.h>
#include <pthread.h>

#include "otte_test.h"
#include "kselftest_harness.h"

#define BYTES	(4 * PAGE)

FIXTURE(loans)
{
	int lender, borrower;
	uint64_t lender_id, borrower_id, region;
	char *mem;
	char buf[BYTES];
	struct otte_event event;
};

FIXTURE_SETUP(loans)
{
	self->lender = otte_client(&self->lender_id);
	self->borrower = otte_client(&self->borrower_id);
	ASSERT_GE(self->lender, 0);
	ASSERT_GE(self->borrower, 0);
	self->mem = otte_pages(BYTES);
	otte_fill(self->mem, BYTES, 1);
	ASSERT_EQ(0, otte_region(self->lender, OTTE_BACKING_PAGES, OTTE_READ | OTTE_WRITE,
				 self->mem, BYTES, &self->region));
}

FIXTURE_TEARDOWN(loans)
{
	int fd;

	close(self->lender);
	close(self->borrower);
	fd = otte_client(NULL);
	EXPECT_TRUE(otte_all_zero(fd, 1));
	close(fd);
}

TEST_F(loans, both_sides_are_told_each_step_in_order)
{
	uint64_t loan;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, PAGE, 100, self->borrower_id,
				OTTE_READ, 0, &loan));
	ASSERT_EQ(0, otte_next_event(self->borrower, &self->event, 1000));
	EXPECT_EQ(OTTE_EVENT_OFFERED, self->event.type);
	EXPECT_EQ(loan, self->event.object);
	EXPECT_EQ(100, self->event.length);
	EXPECT_EQ(0, self->event.region);
	EXPECT_EQ(self->lender_id, self->event.other.client);
	EXPECT_EQ(getpid(), self->event.other.tgid);
	EXPECT_EQ(getuid(), self->event.other.uid);
	ASSERT_EQ(0, otte_accept(self->borrower, loan, NULL));
	EXPECT_EQ(-EALREADY, otte_accept(self->borrower, loan, NULL));
	ASSERT_EQ(0, otte_next_event(self->lender, &self->event, 1000));
	EXPECT_EQ(OTTE_EVENT_ACCEPTED, self->event.type);
	EXPECT_EQ(self->region, self->event.region);
	EXPECT_EQ(PAGE, self->event.offset);
	ASSERT_EQ(0, otte_settle(self->borrower, loan));
	ASSERT_EQ(0, otte_next_event(self->lender, &self->event, 1000));
	EXPECT_EQ(OTTE_EVENT_SETTLED, self->event.type);
	EXPECT_EQ(OTTE_EVIDENCE_RETURNED, self->event.evidence);
	EXPECT_EQ(-EAGAIN, otte_next_event(self->lender, &self->event, 0));
	EXPECT_EQ(-EAGAIN, otte_next_event(self->borrower, &self->event, 0));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LOANS));
}

TEST_F(loans, a_short_or_bad_buffer_loses_no_event)
{
	uint64_t loan;
	char small[sizeof(struct otte_event) - 1];

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, 1, self->borrower_id, OTTE_READ, 0,
				&loan));
	EXPECT_EQ(-1, read(self->borrower, small, sizeof(small)));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, syscall(SYS_read, self->borrower, NULL, sizeof(self->event)));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(0, otte_next_event(self->borrower, &self->event, 1000));
	EXPECT_EQ(loan, self->event.object);
}

TEST_F(loans, readers_share_and_a_writer_excludes)
{
	uint64_t a, b, c;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_READ,
				0, &a));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 10, 10, self->borrower_id, OTTE_READ,
				0, &b));
	EXPECT_EQ(-EBUSY, otte_offer(self->lender, self->region, PAGE - 1, 2, self->borrower_id,
				     OTTE_WRITE, 0, &c));
	EXPECT_EQ(0, otte_offer(self->lender, self->region, PAGE, 2, self->borrower_id,
				OTTE_WRITE, 0, &c));
	EXPECT_EQ(-EBUSY, otte_offer(self->lender, self->region, PAGE + 1, 1, self->borrower_id,
				     OTTE_READ, 0, &b));
	EXPECT_EQ(-EBUSY, otte_expose(self->lender, self->region, 0, 1, 1, 1, OTTE_WRITE, &b));
	EXPECT_EQ(0, otte_withdraw(self->lender, c));
	EXPECT_EQ(0, otte_offer(self->lender, self->region, PAGE + 1, 1, self->borrower_id,
				OTTE_READ, 0, &b));
}

TEST_F(loans, copies_stay_inside_range_and_direction)
{
	uint64_t r, w;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 100, PAGE, self->borrower_id,
				OTTE_READ, 0, &r));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 2 * PAGE, PAGE, self->borrower_id,
				OTTE_WRITE, 0, &w));
	EXPECT_EQ(-EBUSY, otte_copy(self->borrower, r, 0, self->buf, 1));
	ASSERT_EQ(0, otte_accept(self->borrower, r, NULL));
	ASSERT_EQ(0, otte_accept(self->borrower, w, NULL));
	ASSERT_EQ((int64_t)PAGE, otte_copy(self->borrower, r, 0, self->buf, PAGE));
	EXPECT_TRUE(otte_filled(self->buf, PAGE, 1, 100));
	EXPECT_EQ(-ERANGE, otte_copy(self->borrower, r, 0, self->buf, PAGE + 1));
	EXPECT_EQ(-ERANGE, otte_copy(self->borrower, r, PAGE, self->buf, 1));
	EXPECT_EQ(-ERANGE, otte_copy(self->borrower, r, UINT64_MAX, self->buf, 1));
	EXPECT_EQ(-ERANGE, otte_copy(self->borrower, r, 1, self->buf, UINT64_MAX));
	EXPECT_EQ(0, otte_copy(self->borrower, r, PAGE, self->buf, 0));
	EXPECT_EQ(-EFAULT, otte_copy(self->borrower, r, 0, (void *)16, 8));

	otte_fill(self->buf, PAGE, 99);
	ASSERT_EQ((int64_t)PAGE, otte_copy(self->borrower, w, 0, self->buf, PAGE));
	EXPECT_TRUE(otte_filled(self->mem + 2 * PAGE, PAGE, 99, 0));
	EXPECT_TRUE(otte_filled(self->mem, 2 * PAGE, 1, 0));
	EXPECT_TRUE(otte_filled(self->mem + 3 * PAGE, PAGE, 1, 3 * PAGE));
}

TEST_F(loans, a_copy_into_a_hole_returns_the_exact_prefix)
{
	char *dst = otte_pages(2 * PAGE);
	uint64_t loan;

	munmap(dst + PAGE, PAGE);
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, BYTES, self->borrower_id, OTTE_READ,
				0, &loan));
	ASSERT_EQ(0, otte_accept(self->borrower, loan, NULL));
	ASSERT_EQ(100, otte_copy(self->borrower, loan, 5, dst + PAGE - 100, PAGE));
	EXPECT_TRUE(otte_filled(dst + PAGE - 100, 100, 1, 5));
}

TEST_F(loans, a_copy_from_a_hole_writes_nothing_behind_the_prefix)
{
	char *src = otte_pages(2 * PAGE);
	uint64_t loan;

	munmap(src + PAGE, PAGE);
	otte_fill(src, PAGE, 99);
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, BYTES, self->borrower_id,
				OTTE_WRITE, 0, &loan));
	ASSERT_EQ(0, otte_accept(self->borrower, loan, NULL));
	EXPECT_EQ(-EFAULT, otte_copy(self->borrower, loan, 0, (void *)16, PAGE));
	EXPECT_TRUE(otte_filled(self->mem, BYTES, 1, 0));
	ASSERT_EQ(100, otte_copy(self->borrower, loan, 0, src + PAGE - 100, PAGE));
	EXPECT_TRUE(otte_filled(self->mem, 100, 99, PAGE - 100));
	EXPECT_TRUE(otte_filled(self->mem + 100, BYTES - 100, 1, 100));
}

TEST_F(loans, rights_and_ranges_are_those_of_the_region)
{
	void *ro = otte_pages(PAGE);
	uint64_t region, loan;

	ASSERT_EQ(0, otte_region(self->lender, OTTE_BACKING_PAGES, OTTE_READ, ro, PAGE, &region));
	EXPECT_EQ(-EACCES, otte_offer(self->lender, region, 0, 1, self->borrower_id, OTTE_WRITE, 0,
				      &loan));
	EXPECT_EQ(-ERANGE, otte_offer(self->lender, region, PAGE, 1, self->borrower_id, OTTE_READ,
				      0, &loan));
	EXPECT_EQ(-EINVAL, otte_offer(self->lender, region, 0, 0, self->borrower_id, OTTE_READ, 0,
				      &loan));
	EXPECT_EQ(-EINVAL, otte_offer(self->lender, region, 0, 1, self->borrower_id,
				      OTTE_READ | OTTE_WRITE, 0, &loan));
	EXPECT_EQ(-ENOENT, otte_offer(self->lender, region, 0, 1, 999999, OTTE_READ, 0, &loan));
	EXPECT_EQ(-EACCES, otte_offer(self->lender, region, 1, PAGE - 1, self->borrower_id,
				      OTTE_READ, OTTE_LOAN_MAPPABLE, &loan));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LOANS));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LENT_BYTES));
}

TEST_F(loans, a_withdrawn_offer_can_never_be_accepted)
{
	uint64_t unread, read_one, taken;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, 1, self->borrower_id, OTTE_READ, 0,
				&unread));
	ASSERT_EQ(0, otte_withdraw(self->lender, unread));
	EXPECT_EQ(-ENOENT, otte_accept(self->borrower, unread, NULL));
	/* What was never read of need not be told. */
	EXPECT_EQ(-EAGAIN, otte_next_event(self->borrower, &self->event, 0));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LOANS));

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, 1, self->borrower_id, OTTE_READ, 0,
				&read_one));
	ASSERT_EQ(0, otte_next_event(self->borrower, &self->event, 1000));
	ASSERT_EQ(0, otte_withdraw(self->lender, read_one));
	EXPECT_EQ(-ENOENT, otte_accept(self->borrower, read_one, NULL));
	ASSERT_EQ(0, otte_next_event(self->borrower, &self->event, 1000));
	EXPECT_EQ(OTTE_EVENT_WITHDRAWN, self->event.type);
	EXPECT_EQ(read_one, self->event.object);
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LOANS));

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, 1, self->borrower_id, OTTE_READ, 0,
				&taken));
	ASSERT_EQ(0, otte_accept(self->borrower, taken, NULL));
	EXPECT_EQ(-EBUSY, otte_withdraw(self->lender, taken));
}

TEST_F(loans, a_declined_offer_was_never_exposed)
{
	uint64_t loan;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, 1, self->borrower_id, OTTE_READ, 0,
				&loan));
	ASSERT_EQ(0, otte_settle_as(self->borrower, loan, 0));
	ASSERT_EQ(0, otte_next_event(self->lender, &self->event, 1000));
	EXPECT_EQ(OTTE_EVENT_SETTLED, self->event.type);
	EXPECT_EQ(OTTE_EVIDENCE_NEVER_EXPOSED, self->event.evidence);
	EXPECT_EQ(-EAGAIN, otte_next_event(self->borrower, &self->event, 0));
}

TEST_F(loans, deleting_hides_at_once_and_ends_with_the_last_loan)
{
	uint64_t offered, taken;
	uint32_t live;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_READ,
				0, &offered));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_READ,
				0, &taken));
	ASSERT_EQ(0, otte_accept(self->borrower, taken, NULL));
	otte_drain_events(self->lender);
	ASSERT_EQ(0, otte_region_del(self->lender, self->region, &live));
	EXPECT_EQ(1, live);
	EXPECT_EQ(-ENOENT, otte_region_del(self->lender, self->region, &live));
	EXPECT_EQ(-ENOENT, otte_accept(self->borrower, offered, NULL));
	EXPECT_EQ((int64_t)PAGE, otte_copy(self->borrower, taken, 0, self->buf, PAGE));
	EXPECT_EQ(BYTES, otte_usage(self->lender, OTTE_RES_PINNED_BYTES));
	ASSERT_EQ(0, otte_settle(self->borrower, taken));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_PINNED_BYTES));
	ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_REGION_GONE, &self->event));
	EXPECT_EQ(self->region, self->event.object);
}

TEST_F(loans, a_borrower_that_closes_has_unmapped)
{
	uint64_t loan;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_WRITE,
				0, &loan));
	ASSERT_EQ(0, otte_accept(self->borrower, loan, NULL));
	close(self->borrower);
	ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_SETTLED, &self->event));
	EXPECT_EQ(OTTE_EVIDENCE_UNMAPPED, self->event.evidence);
	self->borrower = otte_client(NULL);
}

TEST_F(loans, evidence_that_was_not_accepted_ends_nothing)
{
	uint64_t loan;

	ASSERT_EQ(0, otte_offer_evidence(self->lender, self->region, 0, PAGE, self->borrower_id,
					 OTTE_READ, OTTE_LOAN_REVOCABLE, OTTE_EVIDENCE_REVOKED,
					 &loan));
	ASSERT_EQ(0, otte_accept(self->borrower, loan, NULL));
	EXPECT_EQ(-EACCES, otte_settle(self->borrower, loan));
	close(self->borrower);
	ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_BORROWER_GONE, &self->event));
	EXPECT_EQ(PAGE, otte_usage(self->lender, OTTE_RES_RETAINED_BYTES));
	ASSERT_EQ(0, otte_revoke(self->lender, loan, NULL));
	ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_SETTLED, &self->event));
	EXPECT_EQ(OTTE_EVIDENCE_REVOKED, self->event.evidence);
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_RETAINED_BYTES));
	self->borrower = otte_client(NULL);
}

TEST_F(loans, only_revocable_loans_are_revoked_and_then_refuse_copies)
{
	uint64_t fixed, soft;
	uint32_t draining;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_READ,
				0, &fixed));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_READ,
				OTTE_LOAN_REVOCABLE, &soft));
	EXPECT_EQ(-EBUSY, otte_revoke(self->lender, soft, NULL));
	ASSERT_EQ(0, otte_accept(self->borrower, fixed, NULL));
	ASSERT_EQ(0, otte_accept(self->borrower, soft, NULL));
	EXPECT_EQ(-EACCES, otte_revoke(self->lender, fixed, NULL));
	EXPECT_EQ(-ENOENT, otte_revoke(self->borrower, soft, NULL));
	ASSERT_EQ(0, otte_revoke(self->lender, soft, &draining));
	EXPECT_EQ(0, draining);
	EXPECT_EQ(-EACCES, otte_copy(self->borrower, soft, 0, self->buf, 1));
	EXPECT_EQ(1, otte_copy(self->borrower, fixed, 0, self->buf, 1));
	ASSERT_EQ(0, otte_wait_event(self->borrower, OTTE_EVENT_REVOKED, &self->event));
	EXPECT_EQ(soft, self->event.object);
	ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_SETTLED, &self->event));
	EXPECT_EQ(OTTE_EVIDENCE_REVOKED, self->event.evidence);
	EXPECT_EQ(-ENOENT, otte_copy(self->borrower, soft, 0, self->buf, 1));
}

TEST_F(loans, a_fence_stops_what_is_not_yet_accepted)
{
	struct otte_fence fence = { .size = sizeof(fence), .client = self->borrower_id };
	uint64_t before, taken, remote;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, 1, self->borrower_id, OTTE_READ, 0,
				&before));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, 1, self->borrower_id, OTTE_READ, 0,
				&taken));
	ASSERT_EQ(0, otte_accept(self->borrower, taken, NULL));
	ASSERT_EQ(0, otte_call(self->lender, OTTE_IOC_FENCE, &fence));
	EXPECT_EQ(-EKEYREVOKED, otte_accept(self->borrower, before, NULL));
	EXPECT_EQ(-EKEYREVOKED, otte_offer(self->lender, self->region, 0, 1, self->borrower_id,
					   OTTE_READ, 0, &before));
	/* Fencing alone ends nothing. */
	EXPECT_EQ(1, otte_copy(self->borrower, taken, 0, self->buf, 1));

	ASSERT_EQ(0, otte_expose(self->lender, self->region, 0, 1, 7, 1, OTTE_READ, &remote));
	memset(&fence, 0, sizeof(fence));
	fence.size = sizeof(fence);
	fence.flags = OTTE_FENCE_PEER;
	fence.peer[0] = 7;
	fence.incarnation = 1;
	ASSERT_EQ(0, otte_call(self->lender, OTTE_IOC_FENCE, &fence));
	EXPECT_EQ(-EKEYREVOKED, otte_expose(self->lender, self->region, 0, 1, 7, 1, OTTE_READ,
					    &taken));
	/* The peer's next life is another. */
	EXPECT_EQ(0, otte_expose(self->lender, self->region, 0, 1, 7, 2, OTTE_READ, &taken));
	EXPECT_EQ(0, otte_settle(self->lender, taken));
	EXPECT_EQ(0, otte_settle(self->lender, remote));
}

TEST_F(loans, an_administrators_fence_is_everybodys)
{
	struct otte_fence fence = {
		.size = sizeof(fence), .flags = OTTE_FENCE_ALL, .client = self->borrower_id,
	};
	struct pollfd pollfd = { .fd = self->borrower };
	uint64_t loan;

	ASSERT_EQ(0, otte_call(self->lender, OTTE_IOC_FENCE, &fence));
	EXPECT_EQ(-EKEYREVOKED, otte_offer(self->lender, self->region, 0, 1, self->borrower_id,
					   OTTE_READ, 0, &loan));
	EXPECT_EQ(1, poll(&pollfd, 1, 0));
	EXPECT_TRUE(pollfd.revents & POLLERR);
	ASSERT_EQ(0, otte_wait_event(self->borrower, OTTE_EVENT_FENCED, &self->event));
}

TEST_F(loans, remote_loans_are_settled_by_their_lender_alone)
{
	uint64_t loan, held;

	ASSERT_EQ(0, otte_expose(self->lender, self->region, 0, PAGE, 1, 1,
				 OTTE_READ | OTTE_WRITE, &loan));
	EXPECT_EQ(-EBUSY, otte_expose(self->lender, self->region, 0, 1, 2, 1, OTTE_READ, &held));
	EXPECT_EQ(-ENOENT, otte_settle(self->borrower, loan));
	EXPECT_EQ(-EACCES, otte_settle_as(self->lender, loan, 0));
	EXPECT_EQ(-EACCES, otte_settle_as(self->lender, loan, OTTE_EVIDENCE_UNMAPPED));
	EXPECT_EQ(0, otte_settle_as(self->lender, loan, OTTE_EVIDENCE_REVOKED));
	EXPECT_EQ(-ENOENT, otte_settle_as(self->lender, loan, OTTE_EVIDENCE_REVOKED));
}

TEST_F(loans, standing_exposures_exclude_other_loans_only)
{
	const uint32_t standing = OTTE_LOAN_STANDING;
	uint64_t loans[3], other;
	unsigned int i;

	ASSERT_EQ(0, otte_expose_flags(self->lender, self->region, 0, PAGE, 1, 1, OTTE_WRITE,
				       standing, &loans[0]));
	ASSERT_EQ(0, otte_expose_flags(self->lender, self->region, 0, PAGE, 1, 1, OTTE_READ,
				       standing, &loans[1]));
	ASSERT_EQ(0, otte_expose_flags(self->lender, self->region, 0, PAGE, 2, 1, OTTE_WRITE,
				       standing, &loans[2]));
	EXPECT_EQ(-EBUSY, otte_expose(self->lender, self->region, 0, 1, 3, 1, OTTE_READ, &other));
	EXPECT_EQ(-EBUSY, otte_offer(self->lender, self->region, 0, 1, self->borrower_id,
				     OTTE_READ, 0, &other));
	EXPECT_EQ(-EOPNOTSUPP, otte_expose_flags(self->lender, self->region, 0, PAGE, 3, 1,
						 OTTE_READ, standing | OTTE_LOAN_REVOCABLE,
						 &other));
	EXPECT_EQ(-EACCES, otte_revoke(self->lender, loans[0], NULL));
	EXPECT_EQ(3 * PAGE, otte_usage(self->lender, OTTE_RES_LENT_BYTES));
	for (i = 0; i < 3; i += 2)
		EXPECT_EQ(0, otte_settle_as(self->lender, loans[i], OTTE_EVIDENCE_REVOKED));
	EXPECT_EQ(PAGE, otte_usage(self->lender, OTTE_RES_LENT_BYTES));
	/* What stands for reading is left: it shares with readers and excludes writers. */
	EXPECT_EQ(-EBUSY, otte_expose(self->lender, self->region, 0, 1, 3, 1, OTTE_WRITE, &other));
	EXPECT_EQ(0, otte_expose(self->lender, self->region, 0, 1, 3, 1, OTTE_READ, &other));
	EXPECT_EQ(-EBUSY, otte_expose_flags(self->lender, self->region, 0, PAGE, 1, 1, OTTE_WRITE,
					    standing, &loans[0]));
	EXPECT_EQ(0, otte_settle_as(self->lender, loans[1], OTTE_EVIDENCE_RETURNED));
	EXPECT_EQ(0, otte_settle_as(self->lender, other, OTTE_EVIDENCE_RETURNED));
}

TEST_F(loans, standing_offers_share_with_all_that_stands_and_with_nothing_else)
{
	const uint32_t standing = OTTE_LOAN_STANDING;
	uint64_t exposed, offered, again, other;

	ASSERT_EQ(0, otte_expose_flags(self->lender, self->region, 0, PAGE, 1, 1, OTTE_WRITE,
				       standing, &exposed));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_WRITE,
				standing, &offered));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_READ,
				standing, &again));
	EXPECT_EQ(-EBUSY, otte_offer(self->lender, self->region, 0, 1, self->borrower_id, OTTE_READ,
				     0, &other));
	EXPECT_EQ(0, otte_settle_as(self->lender, exposed, OTTE_EVIDENCE_REVOKED));
	EXPECT_EQ(-EBUSY, otte_expose(self->lender, self->region, 0, 1, 3, 1, OTTE_READ, &other));
	/* As good as any other once it is accepted. */
	EXPECT_EQ(0, otte_accept(self->borrower, offered, NULL));
	EXPECT_EQ(0, otte_settle(self->borrower, offered));
	EXPECT_EQ(-EBUSY, otte_expose(self->lender, self->region, 0, 1, 3, 1, OTTE_WRITE, &other));
	EXPECT_EQ(0, otte_withdraw(self->lender, again));
	EXPECT_EQ(0, otte_expose(self->lender, self->region, 0, 1, 3, 1, OTTE_WRITE, &other));
	EXPECT_EQ(0, otte_settle_as(self->lender, other, OTTE_EVIDENCE_REVOKED));
}

TEST_F(loans, standing_offers_are_offers_in_all_else)
{
	const uint32_t standing = OTTE_LOAN_STANDING;
	struct otte_fence fence = { .size = sizeof(fence), .client = self->borrower_id };
	uint64_t bare, own[2], mapped, late, other;

	EXPECT_EQ(-EOPNOTSUPP, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id,
					  OTTE_READ, standing | OTTE_LOAN_BY_ADDRESS, &other));
	EXPECT_EQ(-EACCES, otte_offer(self->lender, self->region, 1, PAGE, self->borrower_id,
				      OTTE_READ, standing | OTTE_LOAN_MAPPABLE, &other));
	ASSERT_EQ(0, otte_region(self->lender, OTTE_BACKING_NONE, OTTE_READ, self->mem, PAGE,
				 &bare));
	EXPECT_EQ(-EACCES, otte_offer(self->lender, bare, 0, PAGE, self->borrower_id, OTTE_READ,
				      standing | OTTE_LOAN_REVOCABLE, &other));

	/* Two writers of one range, which is the lender's to order, be it one itself. */
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->lender_id, OTTE_WRITE,
				standing, &own[0]));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->lender_id, OTTE_WRITE,
				standing, &own[1]));
	ASSERT_EQ(0, otte_accept(self->lender, own[0], NULL));
	ASSERT_EQ(0, otte_accept(self->lender, own[1], NULL));
	/* What stands is not for its lender to take but where it said so. */
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_READ,
				standing | OTTE_LOAN_MAPPABLE, &mapped));
	ASSERT_EQ(0, otte_next_event(self->borrower, &self->event, 1000));
	EXPECT_EQ(mapped, self->event.object);
	EXPECT_EQ(standing | OTTE_LOAN_MAPPABLE, self->event.flags);
	ASSERT_EQ(0, otte_accept(self->borrower, mapped, NULL));
	EXPECT_EQ(-EACCES, otte_revoke(self->lender, mapped, NULL));
	EXPECT_EQ(3 * PAGE, otte_usage(self->lender, OTTE_RES_LENT_BYTES));
	EXPECT_EQ(3, otte_usage(self->lender, OTTE_RES_LOANS));

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_READ,
				standing | OTTE_LOAN_REVOCABLE, &late));
	ASSERT_EQ(0, otte_call(self->lender, OTTE_IOC_FENCE, &fence));
	EXPECT_EQ(-EKEYREVOKED, otte_accept(self->borrower, late, NULL));
	EXPECT_EQ(-EKEYREVOKED, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id,
					   OTTE_READ, standing, &other));
	EXPECT_EQ(0, otte_withdraw(self->lender, late));
	EXPECT_EQ(0, otte_settle(self->borrower, mapped));
	EXPECT_EQ(0, otte_settle(self->lender, own[0]));
	EXPECT_EQ(0, otte_settle(self->lender, own[1]));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LENT_BYTES));
}

TEST_F(loans, what_the_lender_unmapped_is_not_copied_any_more)
{
	uint64_t reads, writes;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_READ,
				0, &reads));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, PAGE, PAGE, self->borrower_id,
				OTTE_WRITE, 0, &writes));
	ASSERT_EQ(0, otte_accept(self->borrower, reads, NULL));
	ASSERT_EQ(0, otte_accept(self->borrower, writes, NULL));
	EXPECT_EQ((int64_t)PAGE, otte_copy(self->borrower, reads, 0, self->buf, PAGE));
	EXPECT_EQ(0, memcmp(self->buf, self->mem, PAGE));
	EXPECT_EQ(0, otte_copy(self->borrower, reads, 0, self->buf, 0));
	/* Maybe replaced, maybe not: that is for the lender to find out. */
	ASSERT_EQ(0, madvise(self->mem + 2 * PAGE, PAGE, MADV_DONTNEED));
	EXPECT_EQ(0, otte_copy(self->borrower, reads, 0, self->buf, 0));
	ASSERT_EQ(0, munmap(self->mem + 3 * PAGE, PAGE));
	EXPECT_EQ(-ESTALE, otte_copy(self->borrower, reads, 0, self->buf, 0));
	EXPECT_EQ(-ESTALE, otte_copy(self->borrower, reads, 0, self->buf, PAGE));
	EXPECT_EQ(-ESTALE, otte_copy(self->borrower, writes, 0, self->buf, PAGE));
	EXPECT_EQ(0, otte_settle(self->borrower, reads));
	EXPECT_EQ(0, otte_settle(self->borrower, writes));
}

TEST_F(loans, what_was_found_to_be_other_pages_is_not_copied_any_more)
{
	uint64_t reads, writes;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->borrower_id, OTTE_READ,
				0, &reads));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, PAGE, PAGE, self->borrower_id,
				OTTE_WRITE, 0, &writes));
	ASSERT_EQ(0, otte_accept(self->borrower, reads, NULL));
	ASSERT_EQ(0, otte_accept(self->borrower, writes, NULL));
	ASSERT_EQ(0, otte_verify(self->lender, self->region));
	EXPECT_EQ((int64_t)PAGE, otte_copy(self->borrower, writes, 0, self->buf, PAGE));
	ASSERT_EQ(0, madvise(self->mem + PAGE, PAGE, MADV_DONTNEED));
	self->mem[PAGE] = 1;
	ASSERT_EQ(-ESTALE, otte_verify(self->lender, self->region));
	EXPECT_EQ(-ESTALE, otte_copy(self->borrower, writes, 0, self->buf, PAGE));
	EXPECT_EQ(-ESTALE, otte_copy(self->borrower, reads, 0, self->buf, 0));
	EXPECT_EQ(0, otte_settle(self->borrower, reads));
	EXPECT_EQ(0, otte_settle(self->borrower, writes));
}

TEST_F(loans, an_unwelcome_lender_is_refused_and_a_flood_is_capped)
{
	struct otte_allow allow = { .size = sizeof(allow), .client = self->lender_id };
	uint64_t picky, loan;
	unsigned int n = 0;
	int fd = otte_open(), err;

	ASSERT_EQ(0, otte_init_flags(fd, OTTE_CLIENT_ALLOWLIST, &picky));
	EXPECT_EQ(-EACCES, otte_offer(self->lender, self->region, 0, 1, picky, OTTE_READ, 0,
				      &loan));
	ASSERT_EQ(0, otte_call(fd, OTTE_IOC_ALLOW, &allow));
	EXPECT_EQ(0, otte_offer(self->lender, self->region, 0, 1, picky, OTTE_READ, 0, &loan));
	allow.flags = OTTE_ALLOW_REMOVE;
	ASSERT_EQ(0, otte_call(fd, OTTE_IOC_ALLOW, &allow));
	EXPECT_EQ(-EACCES, otte_offer(self->lender, self->region, 0, 1, picky, OTTE_READ, 0,
				      &loan));
	close(fd);

	while (!(err = otte_offer(self->lender, self->region, 0, 1, self->borrower_id, OTTE_READ,
				  0, &loan)) && n < 10000)
		n++;
	EXPECT_EQ(-ENOSPC, err);
	EXPECT_EQ(256, n);
	/* Withdrawing an unread offer makes room; a read one does when its end is read. */
	EXPECT_EQ(0, otte_withdraw(self->lender, loan));
	EXPECT_EQ(0, otte_offer(self->lender, self->region, 0, 1, self->borrower_id, OTTE_READ, 0,
				&loan));
	otte_drain_events(self->borrower);
	EXPECT_EQ(0, otte_withdraw(self->lender, loan));
	EXPECT_EQ(-ENOSPC, otte_offer(self->lender, self->region, 0, 1, self->borrower_id,
				      OTTE_READ, 0, &loan));
	otte_drain_events(self->borrower);
	EXPECT_EQ(0, otte_offer(self->lender, self->region, 0, 1, self->borrower_id, OTTE_READ, 0,
				&loan));
}

TEST_F(loans, a_nonce_arrives_with_the_senders_true_identity)
{
	unsigned int i;

	ASSERT_EQ(0, otte_attest(self->lender, self->borrower_id, 42));
	ASSERT_EQ(0, otte_next_event(self->borrower, &self->event, 1000));
	EXPECT_EQ(OTTE_EVENT_ATTEST, self->event.type);
	EXPECT_EQ(42, self->event.nonce[0]);
	EXPECT_EQ(self->lender_id, self->event.other.client);
	EXPECT_EQ(getpid(), self->event.other.tgid);
	EXPECT_EQ(-ENOENT, otte_attest(self->lender, self->region, 1));
	for (i = 0; i < 8; i++)
		ASSERT_EQ(0, otte_attest(self->lender, self->borrower_id, i));
	EXPECT_EQ(-EBUSY, otte_attest(self->lender, self->borrower_id, 9));
	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, otte_next_event(self->borrower, &self->event, 1000));
		EXPECT_EQ(i, self->event.nonce[0]);
	}
	EXPECT_EQ(0, otte_attest(self->lender, self->borrower_id, 9));
}

TEST_F(loans, a_hold_is_charged_until_it_is_dropped)
{
	uint64_t hold;

	ASSERT_EQ(0, otte_hold(self->lender, 12345, &hold));
	EXPECT_EQ(12345, otte_usage(self->lender, OTTE_RES_RETAINED_BYTES));
	EXPECT_EQ(1, otte_usage(self->lender, OTTE_RES_HOLDS));
	EXPECT_EQ(0, otte_hold_drop(self->lender, hold));
	EXPECT_EQ(-ENOENT, otte_hold_drop(self->lender, hold));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_HOLDS));
}

TEST_F(loans, no_holds_are_large_enough_to_wrap_a_sum_or_to_leave_others_nothing)
{
	uint64_t most, hold;

	EXPECT_EQ(-EDQUOT, otte_hold(self->lender, UINT64_MAX, &hold));
	EXPECT_EQ(-EDQUOT, otte_hold(self->lender, UINT64_MAX - PAGE, &hold));
	ASSERT_EQ(0, otte_hold(self->lender, 1ULL << 56, &most));
	EXPECT_EQ(-EDQUOT, otte_hold(self->lender, 1, &hold));
	EXPECT_EQ(0, otte_hold(self->borrower, 12345, &hold));
	EXPECT_EQ(0, otte_hold_drop(self->borrower, hold));
	EXPECT_EQ(0, otte_hold_drop(self->lender, most));
}

static struct {
	int fd;
	uint64_t next;
} guessed;

static void *copy_on_and_on(void *arg)
{
	uint64_t id;

	while ((id = __atomic_load_n(&guessed.next, __ATOMIC_RELAXED)))
		otte_copy(guessed.fd, id, 0, arg, 1);
	return NULL;
}

/* Ids are one sequence, so the next can be guessed. */
TEST_F(loans, a_loan_can_be_looked_for_while_it_is_being_offered)
{
	const time_t until = time(NULL) + 5; /* enough for all on a stock kernel */
	pthread_t thread;
	uint64_t loan;
	char byte;
	int i;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, 1, self->lender_id, OTTE_READ, 0,
				&loan));
	ASSERT_EQ(0, otte_withdraw(self->lender, loan));
	guessed.fd = self->lender;
	guessed.next = loan + 1;
	ASSERT_EQ(0, pthread_create(&thread, NULL, copy_on_and_on, &byte));
	for (i = 0; i < 30000 && time(NULL) < until; i++) {
		ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, 1, self->lender_id,
					OTTE_READ, 0, &loan));
		ASSERT_EQ(0, otte_withdraw(self->lender, loan));
		__atomic_store_n(&guessed.next, loan + 1, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&guessed.next, 0, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	TH_LOG("%d offers", i);
}

TEST_F(loans, a_loan_to_oneself_works_and_ends_with_its_client)
{
	uint64_t loan;

	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, PAGE, self->lender_id, OTTE_READ, 0,
				&loan));
	ASSERT_EQ(0, otte_accept(self->lender, loan, NULL));
	ASSERT_EQ((int64_t)PAGE, otte_copy(self->lender, loan, 0, self->buf, PAGE));
	EXPECT_TRUE(otte_filled(self->buf, PAGE, 1, 0));
}

static int memfd(unsigned int seals, size_t bytes)
{
	int fd = memfd_create("lent", MFD_ALLOW_SEALING);

	if (ftruncate(fd, bytes) || fcntl(fd, F_ADD_SEALS, seals))
		return -1;
	return fd;
}

TEST_F(loans, a_sealed_memfd_is_lent_whole)
{
	const unsigned int fixed = F_SEAL_SHRINK | F_SEAL_GROW, frozen = 0x10;
	int open_fd = memfd(0, BYTES), file = memfd(fixed, BYTES), ro, pipe_fd[2];
	struct otte_loan_accept accept;
	uint64_t region, loan;
	char *map;

	EXPECT_EQ(-EACCES, otte_region_file(self->lender, OTTE_WRITE, open_fd, BYTES, &region));
	EXPECT_EQ(-EACCES, otte_region_file(self->lender, OTTE_READ, file, BYTES, &region));
	EXPECT_EQ(-ERANGE, otte_region_file(self->lender, OTTE_WRITE, file, PAGE, &region));
	ASSERT_EQ(0, pipe(pipe_fd));
	EXPECT_EQ(-EOPNOTSUPP, otte_region_file(self->lender, OTTE_WRITE, pipe_fd[0], BYTES,
						&region));
	EXPECT_EQ(-EOPNOTSUPP, otte_region_file(self->lender, OTTE_WRITE, self->borrower, BYTES,
						&region));
	EXPECT_EQ(-EBADF, otte_region_file(self->lender, OTTE_WRITE, 999, BYTES, &region));

	ASSERT_EQ(4, write(file, "otte", 4));
	ro = memfd(fixed, BYTES);
	ASSERT_EQ(4, write(ro, "otte", 4));
	ASSERT_EQ(0, fcntl(ro, F_ADD_SEALS, frozen));
	ASSERT_EQ(0, otte_region_file(self->lender, OTTE_READ, ro, BYTES, &region));
	close(ro);
	EXPECT_EQ(-ERANGE, otte_offer(self->lender, region, 0, PAGE, self->borrower_id, OTTE_READ,
				      0, &loan));
	ASSERT_EQ(0, otte_offer(self->lender, region, 0, BYTES, self->borrower_id, OTTE_READ, 0,
				&loan));
	ASSERT_EQ(0, otte_accept(self->borrower, loan, &accept));
	ASSERT_GE(accept.fd, 0);
	EXPECT_EQ(FD_CLOEXEC, fcntl(accept.fd, F_GETFD));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, BYTES, PROT_WRITE, MAP_SHARED, accept.fd, 0));
	map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, accept.fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(0, memcmp(map, "otte", 4));
	close(accept.fd);
	munmap(map, BYTES);
	EXPECT_EQ(0, otte_settle(self->borrower, loan));
}

/* Nobody touches @page, a new one, before the handler's reader lets them. The handler, or -1. */
static int guard(void *page)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	/* Blocking ones are never polled for: all that poll() says of them is POLLERR. */
	int handler = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	reg.range.start = (uintptr_t)page;
	reg.range.len = PAGE;
	if (handler < 0 || ioctl(handler, UFFDIO_API, &api) ||
	    ioctl(handler, UFFDIO_REGISTER, &reg))
		return -1;
	return handler;
}

/* Somebody is at it; true if so. */
static bool is_touched(int handler)
{
	struct pollfd pollfd = { .fd = handler, .events = POLLIN };
	struct uffd_msg msg;

	return poll(&pollfd, 1, 10000) == 1 && read(handler, &msg, sizeof(msg)) == sizeof(msg);
}

static int let_go_on(int handler, void *page)
{
	struct uffdio_zeropage zero = { .range = { (uintptr_t)page, PAGE } };

	return ioctl(handler, UFFDIO_ZEROPAGE, &zero);
}

struct reader {
	int fd;
	void *to;
	ssize_t got;
};

static void *read_one(void *arg)
{
	struct reader *reader = arg;

	reader->got = read(reader->fd, reader->to, sizeof(struct otte_event));
	return NULL;
}

/* A charge that nobody has room for. */
static int offer_too_much(int fd, uint64_t region, uint64_t borrower, uint64_t length)
{
	uint64_t loan;

	return otte_offer(fd, region, 0, length, borrower, OTTE_READ, 0, &loan);
}

TEST_F(loans, a_refusal_while_the_one_before_is_being_read_is_told_as_well)
{
	struct reader reader = { .fd = self->lender, .to = otte_pages(PAGE) };
	int handler = guard(reader.to);
	pthread_t thread;

	if (handler < 0)
		SKIP(return, "no userfaultfd for faults in the kernel");
	EXPECT_EQ(-EDQUOT, offer_too_much(self->lender, self->region, self->borrower_id,
					  1ULL << 60));
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_one, &reader));
	/* The first record is on its way to the page. */
	ASSERT_TRUE(is_touched(handler));
	EXPECT_EQ(-EDQUOT, offer_too_much(self->lender, self->region, self->borrower_id,
					  1ULL << 61));
	ASSERT_EQ(0, let_go_on(handler, reader.to));
	pthread_join(thread, NULL);
	ASSERT_EQ(sizeof(struct otte_event), reader.got);
	memcpy(&self->event, reader.to, sizeof(self->event));
	EXPECT_EQ(OTTE_EVENT_QUOTA, self->event.type);
	EXPECT_EQ(1ULL << 60, self->event.requested);
	ASSERT_EQ(0, otte_next_event(self->lender, &self->event, 1000));
	EXPECT_EQ(OTTE_EVENT_QUOTA, self->event.type);
	EXPECT_EQ(1ULL << 61, self->event.requested);
	EXPECT_EQ(-EAGAIN, otte_next_event(self->lender, &self->event, 0));
	close(handler);
}

/* Between two looks at why a copy is to stop. */
#define CHUNK	(16 * PAGE)

struct copier {
	int fd;
	uint64_t loan;
	char *to;
	size_t bytes;
	int64_t got;
};

static void *copy_all(void *arg)
{
	struct copier *copier = arg;

	copier->got = otte_copy(copier->fd, copier->loan, 0, copier->to, copier->bytes);
	return NULL;
}

/*
 * A loan of the whole region, and a thread that copies it from or to a buffer of which @page is not
 * there yet, so that nobody touches it before the test is done; what comes before it is there.
 */
struct stuck {
	struct copier copier;
	pthread_t thread;
	uint32_t direction;
	char *page;
	int handler;
	int sock;
};

/* false: this kernel has no userfaultfd for faults in the kernel. */
static bool stuck_prepare(struct stuck *stuck, uint32_t direction, unsigned int at)
{
	stuck->copier.to = otte_pages(BYTES);
	stuck->copier.bytes = BYTES;
	stuck->direction = direction;
	otte_fill(stuck->copier.to, at * PAGE, 99);
	stuck->page = stuck->copier.to + at * PAGE;
	stuck->handler = guard(stuck->page);
	return stuck->handler >= 0;
}

/* Until the thread is at the page that it has to wait for. */
static bool stuck_start(struct stuck *stuck, int lender, int borrower, uint64_t region,
			uint64_t borrower_id)
{
	stuck->copier.fd = borrower;
	return !otte_offer(lender, region, 0, BYTES, borrower_id, stuck->direction,
			   OTTE_LOAN_STANDING | OTTE_LOAN_REVOCABLE, &stuck->copier.loan) &&
	       !otte_accept(borrower, stuck->copier.loan, NULL) &&
	       !pthread_create(&stuck->thread, NULL, copy_all, &stuck->copier) &&
	       is_touched(stuck->handler);
}

/* Lets it go on, and ends it: what the copy has returned. */
static int64_t stuck_end(struct stuck *stuck)
{
	if (let_go_on(stuck->handler, stuck->page))
		return -EIO;
	pthread_join(stuck->thread, NULL);
	close(stuck->handler);
	return stuck->copier.got;
}

#define STUCK_START(stuck)								\
	ASSERT_TRUE(stuck_start(stuck, self->lender, self->borrower, self->region,	\
				self->borrower_id))

FIXTURE(stuck)
{
	int lender, borrower;
	uint64_t lender_id, borrower_id, region;
	char *mem;
	char buf[BYTES];
	struct otte_event event;
	struct stuck stuck;
};

FIXTURE_VARIANT(stuck)
{
	uint32_t direction;
	unsigned int at;
};

FIXTURE_VARIANT_ADD(stuck, reads)
{
	.direction = OTTE_READ,
	.at = 0,
};

FIXTURE_VARIANT_ADD(stuck, reads_half)
{
	.direction = OTTE_READ,
	.at = 2,
};

FIXTURE_VARIANT_ADD(stuck, writes)
{
	.direction = OTTE_WRITE,
	.at = 0,
};

FIXTURE_VARIANT_ADD(stuck, writes_half)
{
	.direction = OTTE_WRITE,
	.at = 2,
};

FIXTURE_SETUP(stuck)
{
	if (!stuck_prepare(&self->stuck, variant->direction, variant->at))
		SKIP(return, "no userfaultfd for faults in the kernel");
	self->lender = otte_client(&self->lender_id);
	self->borrower = otte_client(&self->borrower_id);
	ASSERT_GE(self->lender, 0);
	ASSERT_GE(self->borrower, 0);
	self->mem = otte_pages(BYTES);
	otte_fill(self->mem, BYTES, 1);
	ASSERT_EQ(0, otte_region(self->lender, OTTE_BACKING_PAGES, OTTE_READ | OTTE_WRITE,
				 self->mem, BYTES, &self->region));
}

FIXTURE_TEARDOWN(stuck)
{
	int fd;

	close(self->lender);
	close(self->borrower);
	fd = otte_client(NULL);
	EXPECT_TRUE(otte_all_zero(fd, 1));
	close(fd);
}

/* What a copy that got no further than the page has returned, where its loan ended with @err. */
static int64_t stuck_prefix(const struct stuck *stuck, int err)
{
	size_t before = stuck->page - stuck->copier.to;

	return before ? (int64_t)before : err;
}

/* It has copied what comes before the page. */
static bool stuck_at_page(const struct stuck *stuck, const char *mem)
{
	size_t before = stuck->page - stuck->copier.to;

	if (stuck->direction == OTTE_WRITE)
		return otte_filled(mem, before, 99, 0) &&
		       otte_filled(mem + before, BYTES - before, 1, before);
	return otte_filled(stuck->copier.to, before, 1, 0) && otte_filled(mem, BYTES, 1, 0);
}

/* And was ended there, so that nothing came into the buffer from the page on. */
static bool stuck_ended_at_page(const struct stuck *stuck, const char *mem)
{
	size_t i;

	for (i = stuck->page - stuck->copier.to; stuck->direction == OTTE_READ && i < BYTES; i++) {
		if (stuck->copier.to[i])
			return false;
	}
	return stuck_at_page(stuck, mem);
}

/* It has copied all. What it wrote from the page on are zeroes. */
static bool stuck_is_whole(const struct stuck *stuck, const char *mem)
{
	return !memcmp(stuck->copier.to, mem, BYTES) &&
	       (stuck->direction == OTTE_WRITE || otte_filled(mem, BYTES, 1, 0));
}

TEST_F(stuck, a_copy_goes_on_where_it_was)
{
	STUCK_START(&self->stuck);
	EXPECT_TRUE(stuck_at_page(&self->stuck, self->mem));
	EXPECT_EQ(BYTES, otte_usage(self->lender, OTTE_RES_LENT_BYTES));
	EXPECT_EQ((int64_t)BYTES, stuck_end(&self->stuck));
	EXPECT_TRUE(stuck_is_whole(&self->stuck, self->mem));
	EXPECT_EQ(0, otte_settle(self->borrower, self->stuck.copier.loan));
}

TEST_F(stuck, a_revocation_is_over_at_once)
{
	uint64_t loan;
	uint32_t draining;

	STUCK_START(&self->stuck);
	loan = self->stuck.copier.loan;
	ASSERT_EQ(0, otte_revoke(self->lender, loan, &draining));
	EXPECT_EQ(0, draining);
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LENT_BYTES));
	ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_SETTLED, &self->event));
	EXPECT_EQ(loan, self->event.object);
	EXPECT_EQ(OTTE_EVIDENCE_REVOKED, self->event.evidence);
	EXPECT_EQ(-ENOENT, otte_revoke(self->lender, loan, NULL));
	EXPECT_EQ(-EACCES, otte_copy(self->borrower, loan, 0, self->buf, 1));
	EXPECT_EQ(-EACCES, otte_copy(self->borrower, loan, 0, self->buf, 0));
	EXPECT_EQ(-ENOENT, otte_settle(self->borrower, loan));
	EXPECT_EQ(stuck_prefix(&self->stuck, -EACCES), stuck_end(&self->stuck));
	EXPECT_TRUE(stuck_ended_at_page(&self->stuck, self->mem));
	/* Not a second time. */
	EXPECT_EQ(-EAGAIN, otte_next_event(self->lender, &self->event, 0));
	ASSERT_EQ(0, otte_wait_event(self->borrower, OTTE_EVENT_REVOKED, &self->event));
	EXPECT_EQ(-EAGAIN, otte_next_event(self->borrower, &self->event, 0));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LOANS));
}

/* Its record may be gone as well by the time that the copy asks to be let in. */
TEST_F(stuck, a_loan_that_is_forgotten_is_still_refused)
{
	STUCK_START(&self->stuck);
	ASSERT_EQ(0, otte_revoke(self->lender, self->stuck.copier.loan, NULL));
	otte_drain_events(self->lender);
	otte_drain_events(self->borrower);
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LOANS));
	EXPECT_EQ(-ENOENT, otte_copy(self->borrower, self->stuck.copier.loan, 0, self->buf, 0));
	EXPECT_EQ(stuck_prefix(&self->stuck, -EACCES), stuck_end(&self->stuck));
	EXPECT_TRUE(stuck_ended_at_page(&self->stuck, self->mem));
}

TEST_F(stuck, what_its_borrower_settles_is_over_at_once)
{
	STUCK_START(&self->stuck);
	ASSERT_EQ(0, otte_settle(self->borrower, self->stuck.copier.loan));
	ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_SETTLED, &self->event));
	EXPECT_EQ(OTTE_EVIDENCE_RETURNED, self->event.evidence);
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LOANS));
	EXPECT_EQ(stuck_prefix(&self->stuck, -ENOENT), stuck_end(&self->stuck));
	EXPECT_TRUE(stuck_ended_at_page(&self->stuck, self->mem));
}

TEST_F(stuck, a_region_is_deleted_and_unpinned_with_the_revocation)
{
	uint32_t live;

	STUCK_START(&self->stuck);
	ASSERT_EQ(0, otte_region_del(self->lender, self->region, &live));
	EXPECT_EQ(1, live);
	EXPECT_EQ(BYTES, otte_usage(self->lender, OTTE_RES_PINNED_BYTES));
	ASSERT_EQ(0, otte_revoke(self->lender, self->stuck.copier.loan, NULL));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_PINNED_BYTES));
	ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_REGION_GONE, &self->event));
	EXPECT_EQ(self->region, self->event.object);
	/* Nothing may be read of it, nor written: its pages are somebody else's. */
	EXPECT_TRUE(stuck_at_page(&self->stuck, self->mem));
	EXPECT_EQ(stuck_prefix(&self->stuck, -EACCES), stuck_end(&self->stuck));
	EXPECT_TRUE(stuck_ended_at_page(&self->stuck, self->mem));
}

/* Deleting ends no loan: the copy goes on. */
TEST_F(stuck, a_region_that_is_deleted_meanwhile_is_copied_to_the_end)
{
	STUCK_START(&self->stuck);
	ASSERT_EQ(0, otte_region_del(self->lender, self->region, NULL));
	EXPECT_EQ((int64_t)BYTES, stuck_end(&self->stuck));
	EXPECT_TRUE(stuck_is_whole(&self->stuck, self->mem));
	EXPECT_EQ(0, otte_settle(self->borrower, self->stuck.copier.loan));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_PINNED_BYTES));
}

TEST_F(stuck, what_its_lender_unmaps_meanwhile_ends_it)
{
	STUCK_START(&self->stuck);
	ASSERT_EQ(0, munmap(self->mem + BYTES - PAGE, PAGE));
	EXPECT_EQ(stuck_prefix(&self->stuck, -ESTALE), stuck_end(&self->stuck));
	EXPECT_EQ(0, otte_settle(self->borrower, self->stuck.copier.loan));
}

TEST_F(stuck, another_copy_of_the_loan_does_not_wait)
{
	STUCK_START(&self->stuck);
	otte_fill(self->buf, BYTES, 7);
	EXPECT_EQ((int64_t)BYTES, otte_copy(self->borrower, self->stuck.copier.loan, 0, self->buf,
					    BYTES));
	EXPECT_TRUE(otte_filled(variant->direction == OTTE_READ ? self->buf : self->mem, BYTES,
				variant->direction == OTTE_READ ? 1 : 7, 0));
	EXPECT_EQ((int64_t)BYTES, stuck_end(&self->stuck));
	EXPECT_EQ(0, otte_settle(self->borrower, self->stuck.copier.loan));
}

/* A lender as a process: hears of borrower and direction, says loan and region, and is killed. */
static void lender_process(int sock)
{
	char *mem = otte_pages(BYTES);
	uint64_t region, loan, borrower, direction;
	int fd = otte_client(NULL);

	otte_fill(mem, BYTES, 1);
	borrower = hear(sock);
	direction = hear(sock);
	if (otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ | OTTE_WRITE, mem, BYTES, &region) ||
	    otte_offer(fd, region, 0, BYTES, borrower, direction, 0, &loan))
		_exit(4);
	say(sock, loan);
	say(sock, region);
	hear(sock);
}

/* A loan of a lender that was killed while its copy was at the page; @region was its region. */
static bool stuck_orphan(struct stuck *stuck, int borrower, uint64_t borrower_id, uint64_t *region)
{
	struct peer peer = peer_start(lender_process);
	struct copier *copier = &stuck->copier;
	struct otte_event event;
	bool touched;

	say(peer.sock, borrower_id);
	say(peer.sock, stuck->direction);
	copier->loan = hear(peer.sock);
	*region = hear(peer.sock);
	copier->fd = borrower;
	/* Since the fork what comes before the page has to be faulted in as well, to be written. */
	otte_fill(copier->to, stuck->page - copier->to, 99);
	touched = !otte_accept(borrower, copier->loan, NULL) &&
		  !pthread_create(&stuck->thread, NULL, copy_all, copier) &&
		  is_touched(stuck->handler);
	peer_kill(&peer);
	return touched && !otte_wait_event(borrower, OTTE_EVENT_OWNER_GONE, &event);
}

TEST_F(stuck, a_lender_that_is_killed_meanwhile_leaves_what_was_lent)
{
	struct copier *copier = &self->stuck.copier;
	uint64_t region;

	ASSERT_TRUE(stuck_orphan(&self->stuck, self->borrower, self->borrower_id, &region));
	EXPECT_EQ(BYTES, otte_usage(self->borrower, OTTE_RES_RETAINED_BYTES));
	EXPECT_EQ((int64_t)BYTES, stuck_end(&self->stuck));
	if (variant->direction == OTTE_READ)
		EXPECT_TRUE(otte_filled(copier->to, BYTES, 1, 0));
	EXPECT_EQ(0, otte_settle(self->borrower, copier->loan));
	EXPECT_EQ(0, otte_usage(self->borrower, OTTE_RES_RETAINED_BYTES));
}

/* The directory of what is retained is made a little later. */
static int end_retained(uint64_t record)
{
	char path[96];
	int i, err = -ENOENT;

	snprintf(path, sizeof(path), "/sys/class/misc/otte/retained/%llu/release",
		 (unsigned long long)record);
	for (i = 0; i < 3000 && err == -ENOENT; i++) {
		err = write_file(path, "1");
		if (err == -ENOENT)
			usleep(1000);
	}
	return err;
}

TEST_F(stuck, what_an_administrator_releases_meanwhile_is_over)
{
	uint64_t region;

	if (access("/sys/class/misc/otte/retained", F_OK))
		SKIP(return, "nothing can be released without sysfs");
	ASSERT_TRUE(stuck_orphan(&self->stuck, self->borrower, self->borrower_id, &region));
	ASSERT_EQ(0, end_retained(region));
	ASSERT_EQ(0, otte_wait_event(self->borrower, OTTE_EVENT_REVOKED, &self->event));
	EXPECT_EQ(self->stuck.copier.loan, self->event.object);
	EXPECT_EQ(stuck_prefix(&self->stuck, -EACCES), stuck_end(&self->stuck));
	if (variant->direction == OTTE_READ)
		EXPECT_TRUE(otte_filled(self->stuck.copier.to, variant->at * PAGE, 1, 0));
	EXPECT_EQ(0, self->stuck.page[0]);
	EXPECT_EQ(0, otte_usage(self->borrower, OTTE_RES_RETAINED_BYTES));
}

static void *say_when_touched(void *arg)
{
	struct stuck *stuck = arg;

	if (!is_touched(stuck->handler))
		_exit(5);
	say(stuck->sock, 1);
	return NULL;
}

static uint32_t stuck_direction;
static unsigned int stuck_page;

/* A borrower as a process, which nobody lets go on. */
static void borrower_process(int sock)
{
	struct stuck stuck = { .sock = sock };
	pthread_t thread;
	uint64_t id, loan;
	int fd = otte_client(&id);

	if (!stuck_prepare(&stuck, stuck_direction, stuck_page))
		_exit(4);
	say(sock, id);
	loan = hear(sock);
	if (otte_accept(fd, loan, NULL))
		_exit(4);
	pthread_create(&thread, NULL, say_when_touched, &stuck);
	otte_copy(fd, loan, 0, stuck.copier.to, BYTES);
	_exit(6);
}

TEST_F(stuck, a_borrower_is_killed_and_has_unmapped)
{
	uint64_t borrower, loan;
	struct peer peer;

	stuck_direction = variant->direction;
	stuck_page = variant->at;
	peer = peer_start(borrower_process);
	borrower = hear(peer.sock);
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, BYTES, borrower, variant->direction,
				0, &loan));
	say(peer.sock, loan);
	ASSERT_EQ(1, hear(peer.sock));
	peer_kill(&peer);
	ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_SETTLED, &self->event));
	EXPECT_EQ(loan, self->event.object);
	EXPECT_EQ(OTTE_EVIDENCE_UNMAPPED, self->event.evidence);
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LENT_BYTES));
	EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_RETAINED_BYTES));
	close(self->stuck.handler);
}

TEST_F(loans, what_is_unmapped_in_the_midst_of_a_copy_ends_it)
{
	struct copier copier = {
		.fd = self->borrower, .to = otte_pages(2 * CHUNK), .bytes = 2 * CHUNK
	};
	char *mem = otte_pages(2 * CHUNK), *second = copier.to + CHUNK;
	int handler = guard(second);
	pthread_t thread;
	uint64_t region;

	if (handler < 0)
		SKIP(return, "no userfaultfd for faults in the kernel");
	otte_fill(mem, 2 * CHUNK, 1);
	ASSERT_EQ(0, otte_region(self->lender, OTTE_BACKING_PAGES, OTTE_READ, mem, 2 * CHUNK,
				 &region));
	ASSERT_EQ(0, otte_offer(self->lender, region, 0, 2 * CHUNK, self->borrower_id, OTTE_READ, 0,
				&copier.loan));
	ASSERT_EQ(0, otte_accept(self->borrower, copier.loan, NULL));
	/* The first chunk is faulted in, and copied; the second one waits. */
	ASSERT_EQ(0, pthread_create(&thread, NULL, copy_all, &copier));
	ASSERT_TRUE(is_touched(handler));
	ASSERT_EQ(0, munmap(mem + 2 * CHUNK - PAGE, PAGE));
	ASSERT_EQ(0, let_go_on(handler, second));
	pthread_join(thread, NULL);
	EXPECT_EQ((int64_t)CHUNK, copier.got);
	EXPECT_TRUE(otte_filled(copier.to, CHUNK, 1, 0));
	EXPECT_EQ(0, copier.to[CHUNK]);
	EXPECT_EQ(0, copier.to[CHUNK + PAGE]);
	EXPECT_EQ(-ESTALE, otte_copy(self->borrower, copier.loan, 0, copier.to, 0));
	EXPECT_EQ(0, otte_settle(self->borrower, copier.loan));
	close(handler);
}

/* A page that can be read as it is, and has to be faulted in to be written. */
static char *private_page(char *at, unsigned char value)
{
	int file = memfd_create("filled", 0);
	char data[PAGE], *page;

	memset(data, value, PAGE);
	if (write(file, data, PAGE) != PAGE)
		return NULL;
	page = mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0);
	close(file);
	return page == at && (unsigned char)*(volatile char *)page == value ? page : NULL;
}

TEST_F(loans, a_copy_that_ends_while_its_buffer_is_faulted_in_leaves_the_buffer_as_it_was)
{
	struct copier copier = {
		.fd = self->borrower, .to = otte_pages(BYTES), .bytes = BYTES
	};
	int handler = guard(copier.to + PAGE), i;
	pthread_t thread;

	if (handler < 0)
		SKIP(return, "no userfaultfd for faults in the kernel");
	ASSERT_NE(NULL, private_page(copier.to, 0xee));
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, BYTES, self->borrower_id, OTTE_READ,
				OTTE_LOAN_REVOCABLE, &copier.loan));
	ASSERT_EQ(0, otte_accept(self->borrower, copier.loan, NULL));
	ASSERT_EQ(0, pthread_create(&thread, NULL, copy_all, &copier));
	ASSERT_TRUE(is_touched(handler));
	ASSERT_EQ(0, otte_revoke(self->lender, copier.loan, NULL));
	ASSERT_EQ(0, let_go_on(handler, copier.to + PAGE));
	pthread_join(thread, NULL);
	EXPECT_EQ(-EACCES, copier.got);
	for (i = 0; i < (int)PAGE; i++)
		ASSERT_EQ(0xee, (unsigned char)copier.to[i]);
	close(handler);
}

/* Each page has to be faulted in, over several chunks, and the first hole is the end. */
TEST_F(loans, a_new_buffer_is_faulted_in_up_to_the_exact_hole)
{
	const size_t hole = CHUNK + 3 * PAGE;
	char *mem = otte_pages(2 * CHUNK), *to = otte_pages(2 * CHUNK);
	uint64_t region, reads, writes;
	size_t i;

	otte_fill(mem, 2 * CHUNK, 1);
	ASSERT_EQ(0, munmap(to + hole, PAGE));
	ASSERT_EQ(0, otte_region(self->lender, OTTE_BACKING_PAGES, OTTE_READ | OTTE_WRITE, mem,
				 2 * CHUNK, &region));
	ASSERT_EQ(0, otte_offer(self->lender, region, 0, 2 * CHUNK, self->borrower_id, OTTE_READ,
				OTTE_LOAN_STANDING, &reads));
	ASSERT_EQ(0, otte_offer(self->lender, region, 0, 2 * CHUNK, self->borrower_id, OTTE_WRITE,
				OTTE_LOAN_STANDING, &writes));
	ASSERT_EQ(0, otte_accept(self->borrower, reads, NULL));
	ASSERT_EQ(0, otte_accept(self->borrower, writes, NULL));
	EXPECT_EQ((int64_t)hole - 5, otte_copy(self->borrower, reads, 9, to + 5, 2 * CHUNK - 9));
	EXPECT_TRUE(otte_filled(to + 5, hole - 5, 1, 9));
	EXPECT_EQ(0, to[4]);
	for (i = hole + PAGE; i < 2 * CHUNK; i++)
		ASSERT_EQ(0, to[i]);
	EXPECT_EQ(-EFAULT, otte_copy(self->borrower, reads, 0, to + hole, PAGE));
	/* It may be read, which is not enough. */
	ASSERT_EQ(0, mprotect(to, PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, otte_copy(self->borrower, reads, 0, to, PAGE));
	EXPECT_EQ((int64_t)PAGE, otte_copy(self->borrower, writes, 0, to, PAGE));

	otte_fill(to + PAGE, hole - PAGE, 99);
	EXPECT_EQ((int64_t)(hole - PAGE),
		  otte_copy(self->borrower, writes, 0, to + PAGE, 2 * CHUNK));
	EXPECT_TRUE(otte_filled(mem, hole - PAGE, 99, 0));
	EXPECT_TRUE(otte_filled(mem + hole - PAGE, 2 * CHUNK - (hole - PAGE), 1, hole - PAGE));
	EXPECT_EQ(-EFAULT, otte_copy(self->borrower, writes, 0, to + hole, PAGE));
	EXPECT_EQ(0, otte_settle(self->borrower, reads));
	EXPECT_EQ(0, otte_settle(self->borrower, writes));
}

/* Takes a buffer's pages away until it is told to stop. */
struct taker {
	char *at;
	unsigned int rounds;
	bool stop;
};

static void *take_away(void *arg)
{
	struct taker *taker = arg;

	while (!__atomic_load_n(&taker->stop, __ATOMIC_RELAXED)) {
		madvise(taker->at, BYTES, MADV_DONTNEED);
		__atomic_add_fetch(&taker->rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static unsigned int taken(const struct taker *taker)
{
	return __atomic_load_n(&taker->rounds, __ATOMIC_RELAXED);
}

/* What was faulted in may be gone again before the copy is there, which then has it once more. */
TEST_F(loans, a_buffer_that_vanishes_meanwhile_is_faulted_in_again)
{
	struct taker taker = { .at = otte_pages(BYTES) };
	const uint32_t direction[] = { OTTE_READ, OTTE_WRITE };
	uint64_t loan[2];
	pthread_t thread;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, BYTES, self->borrower_id,
					direction[i], OTTE_LOAN_STANDING, &loan[i]));
		ASSERT_EQ(0, otte_accept(self->borrower, loan[i], NULL));
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, take_away, &taker));
	for (i = 0; i < 2000 || (taken(&taker) < 2000 && i < 200000); i++)
		ASSERT_EQ((int64_t)BYTES, otte_copy(self->borrower, loan[i % 2], 0, taker.at,
						    BYTES));
	__atomic_store_n(&taker.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	note("%u copies while the buffer was taken away %u times\n", i, taker.rounds);
	EXPECT_EQ(0, otte_settle(self->borrower, loan[0]));
	EXPECT_EQ(0, otte_settle(self->borrower, loan[1]));
}

/* A stack is not there below its end, and grows by being touched. */
TEST_F(loans, a_buffer_on_a_stack_that_grows_is_faulted_in)
{
	const size_t room = 1024 * PAGE;
	char *stack, *end = otte_pages(room) + room;
	uint64_t loan;

	/* What is mapped has to keep away from it, by a gap of 256 pages. */
	ASSERT_EQ(0, munmap(end - room, room));
	stack = mmap(end - PAGE, PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
	ASSERT_EQ(end - PAGE, stack);
	ASSERT_EQ(0, otte_offer(self->lender, self->region, 0, BYTES, self->borrower_id, OTTE_READ,
				0, &loan));
	ASSERT_EQ(0, otte_accept(self->borrower, loan, NULL));
	EXPECT_EQ((int64_t)BYTES, otte_copy(self->borrower, loan, 0, stack - BYTES, BYTES));
	EXPECT_TRUE(otte_filled(stack - BYTES, BYTES, 1, 0));
	EXPECT_EQ(0, otte_settle(self->borrower, loan));
}

/* Copies other bytes each time until the loan ends: @got is of the last copy. */
static void *copy_until_it_ends(void *arg)
{
	struct copier *copier = arg;
	static unsigned char value;
	int64_t got;

	do {
		memset(copier->to, ++value, copier->bytes);
		got = otte_copy(copier->fd, copier->loan, 0, copier->to, copier->bytes);
	} while (got == (int64_t)copier->bytes);
	copier->got = got;
	return NULL;
}

/* Copies that move bytes end with their chunk, and once the loan has settled nothing changes. */
TEST_F(loans, a_revocation_in_the_midst_of_writing_is_exact)
{
	const size_t bytes = 16 * CHUNK;
	struct copier copier = { .fd = self->borrower, .to = otte_pages(bytes), .bytes = bytes };
	char *mem = otte_pages(bytes), *seen = otte_pages(bytes);
	unsigned int i, drained = 0, cut = 0;
	uint32_t draining;
	pthread_t thread;
	uint64_t region;

	ASSERT_EQ(0, otte_region(self->lender, OTTE_BACKING_PAGES, OTTE_WRITE, mem, bytes,
				 &region));
	/* A copy of which the end would not be seen before it is through is never cut. */
	for (i = 0; i < 32 || (!cut && i < 500); i++) {
		ASSERT_EQ(0, otte_offer(self->lender, region, 0, bytes, self->borrower_id,
					OTTE_WRITE, OTTE_LOAN_REVOCABLE, &copier.loan));
		ASSERT_EQ(0, otte_accept(self->borrower, copier.loan, NULL));
		ASSERT_EQ(0, pthread_create(&thread, NULL, copy_until_it_ends, &copier));
		usleep(2000 + 517 * (i % 32));
		ASSERT_EQ(0, otte_revoke(self->lender, copier.loan, &draining));
		drained += draining;
		/* Told once, whoever ends it: the revocation, or the copy that leaves. */
		ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_SETTLED, &self->event));
		EXPECT_EQ(copier.loan, self->event.object);
		EXPECT_EQ(OTTE_EVIDENCE_REVOKED, self->event.evidence);
		memcpy(seen, mem, bytes);
		pthread_join(thread, NULL);
		EXPECT_EQ(0, memcmp(seen, mem, bytes));
		if (copier.got < 0) {
			EXPECT_EQ(-EACCES, copier.got);
		} else {
			cut++;
			EXPECT_EQ(0, copier.got % (int64_t)PAGE);
			EXPECT_EQ(0, memcmp(copier.to, mem, copier.got));
			EXPECT_NE(copier.to[0], mem[copier.got]);
		}
		ASSERT_EQ(0, otte_wait_event(self->borrower, OTTE_EVENT_REVOKED, &self->event));
		EXPECT_EQ(-EAGAIN, otte_next_event(self->lender, &self->event, 0));
		EXPECT_EQ(0, otte_usage(self->lender, OTTE_RES_LOANS));
	}
	EXPECT_NE(0, cut);
	note("%u of %u revocations met a copy in a chunk, %u copies were cut\n", drained, i, cut);
}

TEST_F(loans, a_full_table_of_descriptors_exposes_nothing)
{
	int file = memfd(F_SEAL_SHRINK | F_SEAL_GROW, BYTES), fds[64], n = 0;
	uint64_t region, loan;

	ASSERT_EQ(0, otte_region_file(self->lender, OTTE_WRITE, file, BYTES, &region));
	ASSERT_EQ(0, otte_offer(self->lender, region, 0, BYTES, self->borrower_id, OTTE_WRITE, 0,
				&loan));
	otte_drain_events(self->lender);
	struct { unsigned long cur, max; } old, few;
	ASSERT_EQ(0, syscall(SYS_prlimit64, 0, 7, NULL, &old));
	few = old;
	few.cur = 32;
	ASSERT_EQ(0, syscall(SYS_prlimit64, 0, 7, &few, NULL));
	while (n < 64 && (fds[n] = dup(0)) >= 0)
		n++;
	EXPECT_EQ(-EMFILE, otte_accept(self->borrower, loan, NULL));
	while (n)
		close(fds[--n]);
	syscall(SYS_prlimit64, 0, 7, &old, NULL);
	ASSERT_EQ(0, otte_wait_event(self->lender, OTTE_EVENT_SETTLED, &self->event));
	EXPECT_EQ(OTTE_EVIDENCE_NEVER_EXPOSED, self->event.evidence);
	EXPECT_EQ(-ENOENT, otte_accept(self->borrower, loan, NULL));
}

TEST_HARNESS_MAIN
