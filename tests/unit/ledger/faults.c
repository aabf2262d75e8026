/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every allocation may fail: a clean -ENOMEM, nothing changed, and the same call works right after.
 */
#include "suite.h"

#define MANY 300 /* enough that every table grows on the way */
#define MANY_KERNEL 40 /* each call is followed by dumps of all, in a guest */
#define MORE 40 /* clients */

/*
 * Threads are not what this is about: under their sanitizer, which is slow, every ninth is enough.
 */
#ifdef __SANITIZE_THREAD__
#define STRIDE 9
#else
#define STRIDE 1
#endif

static uint64_t attempts, refusals;

static int many(void)
{
	return is_kernel() ? MANY_KERNEL : MANY;
}

/* Of a small sweep over the module the first ones all: those make the tables. The rest is alike. */
static uint64_t after(uint64_t nth)
{
	if (!is_small())
		return nth + STRIDE;
	if (!is_kernel())
		return nth + 61;
	return nth + (nth < 20 ? 1 : 16);
}

/* Whether what follows a failure is gone through to its end, which takes most of the time. */
static int is_emptied(uint64_t nth)
{
	return is_kernel() || nth % 16 == 0;
}

/*
 * The call was allowed to fail for want of memory, once; it changed nothing, and works when
 * repeated.
 */
#define RETRY(w, call)                                                           \
	do {                                                                     \
		struct otte_ledger_counters was = counters_of(w);                \
		int rc_ = call;                                                  \
		attempts++;                                                      \
		if (rc_ == -ENOMEM) {                                            \
			struct otte_ledger_counters is = counters_of(w);         \
			refusals++;                                              \
			assert_non_null(strstr(otte_error_text(), "no memory")); \
			assert_memory_equal(&was, &is, sizeof(was));             \
			rc_ = call;                                              \
		}                                                                \
		assert_int_equal(rc_, 0);                                        \
	} while (0)

static void fill(struct world *w)
{
	struct otte_region_claim claim = { 0, 16, OTTE_REMOTE_WRITE, OTTE_BACKING_NONE };
	struct otte_loan_terms terms = { .length = 16, .right = OTTE_LOAN_WRITE };
	struct otte_ledger_client *more[MORE];
	const int clients = is_kernel() ? MORE / 8 : MORE;
	uint64_t id = 0;
	int i;

	for (i = 0; i < clients; i++)
		RETRY(w, w->ops->client_open(w->ledger, "more", 0, &more[i]));
	for (i = 0; i < many(); i++) {
		claim.address = 0x1000000ull + 16ull * (unsigned)i;
		RETRY(w, w->ops->region_add(w->client[LENDER], &claim, &terms.region));
		terms.borrower = i % 2 ? local(w, BORROWER) : remote((uint8_t)i);
		RETRY(w, w->ops->loan_offer(w->client[LENDER], &terms, &id));
		RETRY(w, w->ops->fence(w->client[STRANGER],
				       &(struct otte_borrower){ .epoch = (unsigned)i }));
		if (i % 8 == 0)
			RETRY(w, w->ops->hold(w->client[STRANGER], 1, "held", &id));
	}
	for (i = 0; i < clients; i++)
		w->ops->client_close(more[i]);
}

/*
 * What never fails needs no memory: ends, evidence, deaths, events, dumps. Over the module, events
 * that find none are missed; and a hold is not released while its owner lives.
 */
static void empty(struct world *w)
{
	struct otte_retained_info records[128];
	struct otte_event event;
	uint64_t before = allocations;
	size_t count, i;
	int taken = 0;

	while (!w->ops->event_next(w->client[BORROWER], &event))
		if (++taken % 2)
			assert_int_equal(w->ops->loan_accept(w->client[BORROWER], event.loan), 0);
	close_client(w, LENDER);
	count = retained_of(w, records, ARRAY_SIZE(records));
	assert_true(count > (size_t)many() / 4);
	for (i = 0; i < count && i < ARRAY_SIZE(records); i++)
		assert_int_equal(w->ops->release(w->ledger, records[i].id),
				 is_kernel() && records[i].kind == OTTE_RETAINED_HOLD ? -EBUSY : 0);
	while (!w->ops->event_next(w->client[BORROWER], &event))
		if (event.kind == OTTE_EVENT_OWNER_GONE && taken++ % 2)
			w->ops->loan_settle(w->client[BORROWER], event.loan,
					    OTTE_EVIDENCE_RETURNED);
	close_client(w, BORROWER);
	close_client(w, STRANGER);
	if (!is_kernel())
		assert_int_equal(allocations, before);
}

static void each_allocation_in_turn_fails_cleanly(void **unused)
{
	uint64_t nth, total;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	fail_allocation(0);
	fill(&w);
	total = allocations;
	empty(&w);
	close_world(&w);
	assert_true(total > 2 * (uint64_t)many());
	print_message("%llu allocations\n", (unsigned long long)total);
	for (nth = 1; nth <= total; nth = after(nth)) {
		attempts = refusals = 0;
		open_world(&w, NULL);
		fail_allocation(nth);
		fill(&w);
		fail_allocation(0);
		assert_int_equal(refusals, 1);
		assert_int_equal(counters_of(&w).loans, many());
		assert_int_equal(counters_of(&w).regions, many() + 1);
		if (is_emptied(nth))
			empty(&w);
		close_world(&w);
	}
}

static void a_ledger_that_gets_no_memory_does_not_open(void **unused)
{
	struct otte_ledger *ledger = NULL;

	(void)unused;
	fail_allocation(1);
	expect_refused(backend->open(NULL, &ledger), -ENOMEM, "no memory");
	fail_allocation(0);
	assert_null(ledger);
}

const struct CMUnitTest faults_tests[] = {
	cmocka_unit_test(each_allocation_in_turn_fails_cleanly),
	cmocka_unit_test(a_ledger_that_gets_no_memory_does_not_open),
};
const size_t faults_count = ARRAY_SIZE(faults_tests);
