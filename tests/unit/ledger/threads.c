/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* 64 threads at once on one ledger, each with a client of its own, lending to whom they meet. */
#include "suite.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 64
#define ROUNDS (is_small() ? 5 : 200)

static struct world w;
static _Atomic uint64_t ids[THREADS]; /* clients to lend to; 0: not open */
static atomic_uint wrong;

static void check(int ok)
{
	if (!ok)
		atomic_fetch_add(&wrong, 1);
}

/* Accept what is offered, give back what was accepted; whatever became of it meanwhile. */
static void answer(struct otte_ledger_client *client)
{
	struct otte_event event;
	int rc;

	while (!w.ops->event_next(client, &event)) {
		if (event.kind != OTTE_EVENT_OFFERED)
			continue;
		rc = w.ops->loan_accept(client, event.loan);
		check(!rc || rc == -ENOENT);
		if (rc)
			continue;
		rc = w.ops->loan_settle(client, event.loan, OTTE_EVIDENCE_RETURNED);
		check(!rc || rc == -ENOENT); /* revoked in between */
	}
}

static void lend(struct otte_ledger_client *client, unsigned self, unsigned *seed)
{
	struct otte_region_claim claim = { 0x100000ull * (self + 1), 4096, OTTE_REMOTE_READ,
					   OTTE_BACKING_NONE };
	struct otte_loan_terms terms = {
		.length = 4096,
		.flags = OTTE_LOAN_REVOCABLE,
		.accepted = OTTE_EVIDENCE_DEFAULT | OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_BORROWER_EXITED)
	};
	uint64_t region, loan;
	int rc;

	check(!w.ops->region_add(client, &claim, &region));
	terms.region = region;
	terms.borrower.client = atomic_load(&ids[(unsigned)rand_r(seed) % THREADS]);
	rc = w.ops->loan_offer(client, &terms, &loan);
	check(!rc || rc == -ESRCH);
	if (!rc && rand_r(seed) % 2 && terms.borrower.client)
		w.ops->loan_revoke(client, loan);
	else if (!rc && !terms.borrower.client && !w.ops->loan_expose(client, loan))
		check(!w.ops->loan_settle(client, loan, OTTE_EVIDENCE_NEVER_EXPOSED));
	rc = w.ops->region_del(client, region);
	check(!rc || rc == -EINPROGRESS);
}

static void *work(void *arg)
{
	unsigned self = *(unsigned *)arg, seed = self, rounds = ROUNDS, i;
	struct otte_ledger_client *client;
	struct otte_ledger_counters counters;
	struct otte_loan_info rows[8];

	for (i = 0; i < rounds; i++) {
		if (w.ops->client_open(w.ledger, "thread", 0, &client)) {
			check(0);
			continue;
		}
		atomic_store(&ids[self], w.ops->client_id(client));
		lend(client, self, &seed);
		answer(client);
		lend(client, self, &seed);
		w.ops->counters(w.ledger, &counters);
		check(counters.clients >= 1);
		check(w.ops->dump_loans(w.ledger, rows, ARRAY_SIZE(rows)) >= 0);
		answer(client);
		atomic_store(&ids[self], 0);
		w.ops->client_close(client);
	}
	return NULL;
}

static void sixty_four_threads_leave_nothing_behind(void **unused)
{
	struct otte_ledger_counters counters;
	pthread_t threads[THREADS];
	unsigned numbers[THREADS], i;

	(void)unused;
	open_world(&w, NULL);
	for (i = 0; i < THREADS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(wrong, 0);
	counters = counters_of(&w);
	assert_int_equal(counters.clients, ACTORS);
	assert_int_equal(counters.loans, 0);
	assert_int_equal(counters.lent_bytes, 0);
	assert_int_equal(counters.regions, 1);
	assert_int_equal(counters.retained, 0);
	assert_true(counters.loans_settled > 0);
	print_message("%llu loans settled\n", (unsigned long long)counters.loans_settled);
	close_world(&w);
}

const struct CMUnitTest threads_tests[] = {
	cmocka_unit_test(sixty_four_threads_leave_nothing_behind),
};
const size_t threads_count = ARRAY_SIZE(threads_tests);
