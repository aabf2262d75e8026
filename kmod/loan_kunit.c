// SPDX-License-Identifier: GPL-2.0-only
/* The states of a loan, what counts as evidence, and its gate. */
#include <kunit/test.h>

#include "gate.h"
#include "loan.h"

static void only_the_moves_of_the_table_exist(struct kunit *test)
{
	static const struct {
		enum otte_loan_state from, to;
	} allowed[] = {
		{ OTTE_LOAN_OFFERED, OTTE_LOAN_EXPOSED },
		{ OTTE_LOAN_OFFERED, OTTE_LOAN_WITHDRAWN },
		{ OTTE_LOAN_EXPOSED, OTTE_LOAN_SETTLED },
	};
	unsigned int from, to, i;
	int want;

	for (from = 0; from < OTTE_LOAN_STATES; from++) {
		for (to = 0; to < OTTE_LOAN_STATES; to++) {
			want = -EBUSY;
			for (i = 0; i < ARRAY_SIZE(allowed); i++) {
				if (allowed[i].from == from && allowed[i].to == to)
					want = 0;
			}
			KUNIT_EXPECT_EQ(test, want, otte_loan_state_check(from, to));
		}
	}
}

static void evidence_counts_only_if_accepted(struct kunit *test)
{
	u32 bit;

	for (bit = 1; bit <= OTTE_EVIDENCE_FORCED; bit <<= 1) {
		KUNIT_EXPECT_TRUE(test, otte_evidence_accepted(bit, bit));
		KUNIT_EXPECT_EQ(test,
				bit == OTTE_EVIDENCE_FORCED || bit == OTTE_EVIDENCE_NEVER_EXPOSED,
				otte_evidence_accepted(~bit & 0x3f, bit));
	}
	KUNIT_EXPECT_FALSE(test, otte_evidence_accepted(OTTE_EVIDENCE_DEFAULT,
							OTTE_EVIDENCE_BORROWER_EXITED));
	KUNIT_EXPECT_TRUE(test, otte_evidence_accepted(0, OTTE_EVIDENCE_FORCED));
}

static void a_gate_lets_in_only_while_open(struct kunit *test)
{
	struct otte_gate gate;

	otte_gate_init(&gate);
	KUNIT_EXPECT_EQ(test, -EACCES, otte_gate_enter_map(&gate));
	KUNIT_EXPECT_EQ(test, -EACCES, otte_gate_enter_copy(&gate));
	otte_gate_open(&gate);
	KUNIT_EXPECT_EQ(test, 0, otte_gate_enter_map(&gate));
	KUNIT_EXPECT_EQ(test, 0, otte_gate_enter_copy(&gate));
	otte_gate_close(&gate);
	KUNIT_EXPECT_EQ(test, -EACCES, otte_gate_enter_map(&gate));
	KUNIT_EXPECT_EQ(test, -EACCES, otte_gate_enter_copy(&gate));
	/* A mapping that exists can be moved all the same. */
	otte_gate_dup_map(&gate);
	KUNIT_EXPECT_FALSE(test, otte_gate_leave_map(&gate));
	KUNIT_EXPECT_TRUE(test, otte_gate_leave_map(&gate));
	KUNIT_EXPECT_TRUE(test, otte_gate_copying(&gate));
	KUNIT_EXPECT_TRUE(test, otte_gate_leave_copy(&gate));
	KUNIT_EXPECT_TRUE(test, otte_gate_idle(&gate));
}

static void a_gate_is_shut_idle_only_when_empty(struct kunit *test)
{
	struct otte_gate gate;

	otte_gate_init(&gate);
	otte_gate_open(&gate);
	KUNIT_EXPECT_EQ(test, 0, otte_gate_enter_map(&gate));
	KUNIT_EXPECT_EQ(test, -EBUSY, otte_gate_close_idle(&gate));
	KUNIT_EXPECT_TRUE(test, otte_gate_is_open(&gate));
	KUNIT_EXPECT_EQ(test, 0, otte_gate_enter_copy(&gate));
	KUNIT_EXPECT_FALSE(test, otte_gate_leave_map(&gate));
	KUNIT_EXPECT_EQ(test, -EBUSY, otte_gate_close_idle(&gate));
	KUNIT_EXPECT_FALSE(test, otte_gate_leave_copy(&gate));
	KUNIT_EXPECT_EQ(test, 0, otte_gate_close_idle(&gate));
	KUNIT_EXPECT_EQ(test, -EACCES, otte_gate_enter_copy(&gate));
}

/* A copy leaves whenever its buffer is to be faulted in, and asks again. */
static void a_shut_gate_is_left_for_the_last_time_once(struct kunit *test)
{
	struct otte_gate gate;

	otte_gate_init(&gate);
	otte_gate_open(&gate);
	KUNIT_EXPECT_EQ(test, 0, otte_gate_enter_copy(&gate));
	KUNIT_EXPECT_FALSE(test, otte_gate_leave_copy(&gate));
	KUNIT_EXPECT_EQ(test, 0, otte_gate_enter_copy(&gate));
	KUNIT_EXPECT_EQ(test, 0, otte_gate_enter_copy(&gate));
	otte_gate_close(&gate);
	KUNIT_EXPECT_FALSE(test, otte_gate_leave_copy(&gate));
	KUNIT_EXPECT_EQ(test, -EACCES, otte_gate_enter_copy(&gate));
	KUNIT_EXPECT_TRUE(test, otte_gate_copying(&gate));
	KUNIT_EXPECT_TRUE(test, otte_gate_leave_copy(&gate));
	KUNIT_EXPECT_EQ(test, -EACCES, otte_gate_enter_copy(&gate));
	KUNIT_EXPECT_FALSE(test, otte_gate_copying(&gate));
}

static struct kunit_case loan_cases[] = {
	KUNIT_CASE(only_the_moves_of_the_table_exist),
	KUNIT_CASE(evidence_counts_only_if_accepted),
	KUNIT_CASE(a_gate_lets_in_only_while_open),
	KUNIT_CASE(a_gate_is_shut_idle_only_when_empty),
	KUNIT_CASE(a_shut_gate_is_left_for_the_last_time_once),
	{}
};

static struct kunit_suite loan_suite = {
	.name = "otte_loan",
	.test_cases = loan_cases,
};

kunit_test_suite(loan_suite);
