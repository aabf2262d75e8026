/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Each budget is charged before use, refuses by name when full, and is free again afterwards. */
#include "suite.h"

#define BOTH (OTTE_REMOTE_READ | OTTE_REMOTE_WRITE)

static const struct otte_ledger_limits unlimited = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
						     UINT64_MAX };

static int try_region(struct world *w, uint64_t address, uint64_t length, uint64_t *region)
{
	struct otte_region_claim claim = { address, length, BOTH, OTTE_BACKING_NONE };

	return w->ops->region_add(w->client[LENDER], &claim, region);
}

static void regions_are_bounded(void **unused)
{
	struct otte_ledger_limits limits = unlimited;
	static struct picture before;
	uint64_t first, second, third;
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: the module's limits are an administrator's");
	limits.regions = 2;
	open_world(&w, &limits);
	assert_int_equal(try_region(&w, 1, 1, &first), 0);
	assert_int_equal(try_region(&w, 1, 1, &second), 0);
	take_picture(&w, &before);
	expect_refused(try_region(&w, 1, 1, &third), -EDQUOT,
		       "limits.regions: 2 of 2 charged, 1 more asked for");
	expect_same(&w, &before);
	assert_int_equal(w.ops->region_del(w.client[LENDER], first), 0);
	assert_int_equal(try_region(&w, 1, 1, &third), 0);
	close_world(&w);
}

static void registered_bytes_are_bounded_and_aliases_count_each(void **unused)
{
	struct otte_ledger_limits limits = unlimited;
	static struct picture before;
	uint64_t first, second;
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: the module's limits are an administrator's");
	limits.registered_bytes = 100;
	limits.regions = 2; /* which a refusal must not use up */
	open_world(&w, &limits);
	assert_int_equal(try_region(&w, 1, 60, &first), 0);
	take_picture(&w, &before);
	expect_refused(try_region(&w, 1, 41, &second), -EDQUOT,
		       "limits.registered_bytes: 60 of 100");
	expect_refused(try_region(&w, 1, UINT64_MAX - 1, &second), -EDQUOT, "registered_bytes");
	expect_same(&w, &before);
	assert_int_equal(try_region(&w, 1, 40, &second), 0);
	assert_int_equal(w.ops->region_del(w.client[LENDER], first), 0);
	assert_int_equal(try_region(&w, 1, 60, &first), 0);
	close_world(&w);
}

/* The budgets of loans, which one setting makes small at a time. */
static void open_lender(struct world *w, const struct otte_ledger_limits *limits,
			struct otte_loan_terms *terms)
{
	open_world(w, limits);
	w->region = add_region(w, LENDER, REGION_ADDRESS, REGION_LENGTH, BOTH);
	*terms = usual_terms(w, remote(1));
	terms->right = OTTE_LOAN_READ;
	terms->length = 60;
}

static void loans_are_bounded(void **unused)
{
	struct otte_ledger_limits limits = unlimited;
	static struct picture before;
	struct otte_loan_terms terms;
	uint64_t first, second, third;
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: the module's limits are an administrator's");
	limits.loans = 2;
	open_lender(&w, &limits, &terms);
	first = must_offer(&w, &terms);
	second = expose(&w, &terms);
	take_picture(&w, &before);
	expect_refused(offer(&w, &terms, &third), -EDQUOT, "limits.loans: 2 of 2");
	expect_same(&w, &before);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], first), 0);
	must_offer(&w, &terms);
	assert_int_equal(w.ops->loan_settle(w.client[LENDER], second, OTTE_EVIDENCE_RETURNED), 0);
	must_offer(&w, &terms);
	close_world(&w);
}

static void lent_bytes_are_bounded(void **unused)
{
	struct otte_ledger_limits limits = unlimited;
	static struct picture before;
	struct otte_loan_terms terms;
	uint64_t first, second;
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: the module's limits are an administrator's");
	limits.lent_bytes = 100;
	limits.loans = 2; /* which a refusal must not use up */
	open_lender(&w, &limits, &terms);
	first = must_offer(&w, &terms);
	take_picture(&w, &before);
	expect_refused(offer(&w, &terms, &second), -EDQUOT, "limits.lent_bytes: 60 of 100");
	expect_same(&w, &before);
	terms.length = 40;
	second = expose(&w, &terms);
	assert_int_equal(w.ops->loan_settle(w.client[LENDER], second, OTTE_EVIDENCE_RETURNED), 0);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], first), 0);
	terms.length = 100;
	must_offer(&w, &terms);
	close_world(&w);
}

static void holds_are_bounded_by_bytes(void **unused)
{
	struct otte_ledger_limits limits = unlimited;
	static struct picture before;
	uint64_t first, second;
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: the module's limits are an administrator's");
	limits.retained_bytes = 100;
	open_world(&w, &limits);
	assert_int_equal(w.ops->hold(w.client[LENDER], 60, "one", &first), 0);
	take_picture(&w, &before);
	expect_refused(w.ops->hold(w.client[LENDER], 41, "two", &second), -EDQUOT,
		       "limits.retained_bytes: 60 of 100");
	expect_refused(w.ops->hold(w.client[LENDER], UINT64_MAX, "two", &second), -EDQUOT,
		       "limits.retained_bytes");
	expect_same(&w, &before);
	assert_int_equal(w.ops->hold_drop(w.client[LENDER], first), 0);
	assert_int_equal(w.ops->hold(w.client[LENDER], 100, "two", &second), 0);
	close_world(&w);
}

/* Without bytes a hold still takes memory of ours. */
static void holds_are_bounded_in_number(void **unused)
{
	struct world w;
	uint64_t hold;
	int i;

	(void)unused;
	PROCESS_ONLY("own: the module's limits are an administrator's");
	open_world(&w, &unlimited);
	for (i = 0; i < 65536; i++)
		assert_int_equal(w.ops->hold(w.client[LENDER], 0, "", &hold), 0);
	expect_refused(w.ops->hold(w.client[LENDER], 0, "", &hold), -EDQUOT,
		       "retained records: 65536 of 65536");
	close_world(&w);
}

static void fences_are_bounded_in_number(void **unused)
{
	struct otte_borrower who = { 0 };
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: the module's limits are an administrator's");
	open_world(&w, &unlimited);
	for (who.epoch = 1; who.epoch <= 65536; who.epoch++)
		assert_int_equal(w.ops->fence(w.client[LENDER], &who), 0);
	expect_refused(w.ops->fence(w.client[LENDER], &who), -EDQUOT, "fences");
	who.epoch = 1;
	assert_int_equal(w.ops->fence(w.client[LENDER], &who), 0);
	close_world(&w);
}

static void a_limit_of_zero_allows_none(void **unused)
{
	static const struct otte_ledger_limits none;
	struct world w;
	uint64_t id;

	(void)unused;
	PROCESS_ONLY("own: the module's limits are an administrator's");
	open_world(&w, &none);
	expect_refused(try_region(&w, 1, 1, &id), -EDQUOT, "limits.regions: 0 of 0");
	expect_refused(w.ops->hold(w.client[LENDER], 1, "", &id), -EDQUOT, "retained_bytes");
	close_world(&w);
}

/* A death may pass the limit; then nothing new is lent until evidence brings it below again. */
static void an_owners_death_may_pass_the_retained_limit_and_stops_new_loans(void **unused)
{
	struct otte_ledger_limits limits = unlimited;
	struct otte_loan_terms terms, other;
	uint64_t loan, id;
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: the module's limits are an administrator's");
	limits.retained_bytes = REGION_LENGTH - 1;
	open_lender(&w, &limits, &terms);
	terms.borrower = local(&w, BORROWER);
	loan = expose(&w, &terms);
	other = terms;
	other.borrower = remote(2);
	other.region = add_region(&w, STRANGER, 0x900000, 100, BOTH);
	close_client(&w, LENDER);
	assert_int_equal(counters_of(&w).retained_bytes, REGION_LENGTH);
	expect_refused(w.ops->loan_offer(w.client[STRANGER], &other, &id), -EDQUOT,
		       "limits.retained_bytes: 4096 of 4095");
	expect_refused(w.ops->hold(w.client[STRANGER], 0, "", &id), -EDQUOT, "retained_bytes");
	assert_int_equal(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), 0);
	assert_int_equal(w.ops->loan_offer(w.client[STRANGER], &other, &id), 0);
	close_world(&w);
}

/* A client that reads no events cannot make the ledger grow. */
static void what_is_over_stays_charged_until_its_events_were_read(void **unused)
{
	struct otte_ledger_limits limits = unlimited;
	struct otte_loan_terms terms;
	uint64_t loan, id, region;
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: the module's limits are an administrator's");
	limits.loans = 1;
	limits.regions = 1;
	open_lender(&w, &limits, &terms);
	terms.borrower = local(&w, BORROWER);
	loan = must_offer(&w, &terms);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], loan), 0);
	assert_int_equal(counters_of(&w).loans, 0);
	expect_refused(offer(&w, &terms, &id), -EDQUOT, "limits.loans");
	expect_event(&w, BORROWER, OTTE_EVENT_OFFERED, 0, loan);
	expect_refused(offer(&w, &terms, &id), -EDQUOT, "limits.loans");
	expect_event(&w, BORROWER, OTTE_EVENT_WITHDRAWN, 0, loan);
	loan = expose(&w, &terms);
	expect_event(&w, BORROWER, OTTE_EVENT_OFFERED, 0, loan);

	region = w.region;
	assert_int_equal(w.ops->region_del(w.client[LENDER], region), -EINPROGRESS);
	assert_int_equal(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), 0);
	assert_int_equal(counters_of(&w).regions, 0);
	expect_refused(try_region(&w, 1, 1, &id), -EDQUOT, "limits.regions");
	expect_event(&w, LENDER, OTTE_EVENT_SETTLED, OTTE_EVIDENCE_RETURNED, loan);
	expect_refused(try_region(&w, 1, 1, &id), -EDQUOT, "limits.regions");
	expect_event(&w, LENDER, OTTE_EVENT_REGION_GONE, 0, region);
	assert_int_equal(try_region(&w, 1, 1, &id), 0);

	/* One who leaves has read all that it ever will. */
	terms.region = id;
	terms.length = 1;
	loan = must_offer(&w, &terms);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], loan), 0);
	assert_int_equal(offer(&w, &terms, &id), -EDQUOT);
	close_client(&w, BORROWER);
	terms.borrower = remote(1);
	must_offer(&w, &terms);
	close_world(&w);
}

const struct CMUnitTest limits_tests[] = {
	cmocka_unit_test(regions_are_bounded),
	cmocka_unit_test(registered_bytes_are_bounded_and_aliases_count_each),
	cmocka_unit_test(loans_are_bounded),
	cmocka_unit_test(lent_bytes_are_bounded),
	cmocka_unit_test(holds_are_bounded_by_bytes),
	cmocka_unit_test(holds_are_bounded_in_number),
	cmocka_unit_test(fences_are_bounded_in_number),
	cmocka_unit_test(a_limit_of_zero_allows_none),
	cmocka_unit_test(an_owners_death_may_pass_the_retained_limit_and_stops_new_loans),
	cmocka_unit_test(what_is_over_stays_charged_until_its_events_were_read),
};
const size_t limits_count = ARRAY_SIZE(limits_tests);
