/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every allocation may fail: a clean -ENOMEM, nothing changed, and the same call works right after.
 */
#include "suite.h"

#define MANY 300 /* enough that every table grows on the way */

/*
 * Threads are not what this is about: under their sanitizer, which is slow, every ninth is enough.
 */
#ifdef __SANITIZE_THREAD__
#define STRIDE 9
#else
#define STRIDE 1
#endif

static uint64_t attempts, refusals;

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
	struct otte_ledger_client *more[40];
	uint64_t id = 0;
	int i;

	for (i = 0; i < 40; i++)
		RETRY(w, w->ops->client_open(w->ledger, "more", 0, &more[i]));
	for (i = 0; i < MANY; i++) {
		claim.address = 0x1000000ull + 16ull * (unsigned)i;
		RETRY(w, w->ops->region_add(w->client[LENDER], &claim, &terms.region));
		terms.borrower = i % 2 ? local(w, BORROWER) : remote((uint8_t)i);
		RETRY(w, w->ops->loan_offer(w->client[LENDER], &terms, &id));
		RETRY(w, w->ops->fence(w->client[STRANGER],
				       &(struct otte_borrower){ .epoch = (unsigned)i }));
		if (i % 8 == 0)
			RETRY(w, w->ops->hold(w->client[STRANGER], 1, "held", &id));
	}
	for (i = 0; i < 40; i++)
		w->ops->client_close(more[i]);
}

/* What never fails needs no memory: ends, evidence, deaths, events, dumps. */
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
	assert_true(count > MANY / 4);
	for (i = 0; i < count && i < ARRAY_SIZE(records); i++)
		assert_int_equal(w->ops->release(w->ledger, records[i].id), 0);
	while (!w->ops->event_next(w->client[BORROWER], &event))
		if (event.kind == OTTE_EVENT_OWNER_GONE && taken++ % 2)
			w->ops->loan_settle(w->client[BORROWER], event.loan,
					    OTTE_EVIDENCE_RETURNED);
	close_client(w, BORROWER);
	close_client(w, STRANGER);
	assert_int_equal(allocations, before);
}

static void each_allocation_in_turn_fails_cleanly(void **unused)
{
	uint64_t nth, total;
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: and events that find no memory are missed");
	open_world(&w, NULL);
	fail_allocation(0);
	fill(&w);
	total = allocations;
	empty(&w);
	close_world(&w);
	assert_true(total > 2 * MANY);
	print_message("%llu allocations\n", (unsigned long long)total);
	for (nth = 1; nth <= total; nth += is_small() ? 61 : STRIDE) {
		attempts = refusals = 0;
		open_world(&w, NULL);
		fail_allocation(nth);
		fill(&w);
		fail_allocation(0);
		assert_int_equal(refusals, 1);
		assert_int_equal(counters_of(&w).loans, MANY);
		assert_int_equal(counters_of(&w).regions, MANY + 1);
		if (nth % 16 == 0)
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
