/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every state of a loan and a region, every event, every actor: what is refused, with which code,
 * and the state after. And every kind of evidence against every set that a lender can accept.
 */
#include "suite.h"

enum action {
	ACCEPT,
	EXPOSE,
	SETTLE, /* with each evidence in turn */
	WITHDRAW,
	REVOKE,
};

enum kind {
	LOCAL,
	REMOTE,
};

#define ALL_EVIDENCE (-1)
#define UNKNOWN_EVIDENCE 99

/*
 * One row: who does what to a loan of this kind, and what comes of it in each live state. `to` is
 * the state after where that is 0; in all other cases nothing changes. In the states SETTLED and
 * WITHDRAWN, and for an id that never was, every row is -ENOENT.
 */
static const struct row {
	enum kind kind;
	enum actor actor;
	enum action action;
	int evidence; /* of SETTLE */
	int offered, exposed;
	int to;
} rows[] = {
	{ LOCAL, LENDER, ACCEPT, 0, -EPERM, -EPERM, 0 },
	{ LOCAL, BORROWER, ACCEPT, 0, 0, -EALREADY, OTTE_LOAN_EXPOSED },
	{ LOCAL, STRANGER, ACCEPT, 0, -EPERM, -EPERM, 0 },
	{ LOCAL, LENDER, EXPOSE, 0, -EPERM, -EPERM, 0 },
	{ LOCAL, BORROWER, EXPOSE, 0, -EPERM, -EPERM, 0 },
	{ LOCAL, STRANGER, EXPOSE, 0, -EPERM, -EPERM, 0 },
	{ LOCAL, LENDER, WITHDRAW, 0, 0, -EBUSY, OTTE_LOAN_WITHDRAWN },
	{ LOCAL, BORROWER, WITHDRAW, 0, -EPERM, -EPERM, 0 },
	{ LOCAL, STRANGER, WITHDRAW, 0, -EPERM, -EPERM, 0 },
	{ LOCAL, LENDER, REVOKE, 0, -EINVAL, 0, OTTE_LOAN_SETTLED },
	{ LOCAL, BORROWER, REVOKE, 0, -EPERM, -EPERM, 0 },
	{ LOCAL, STRANGER, REVOKE, 0, -EPERM, -EPERM, 0 },
	{ LOCAL, LENDER, SETTLE, ALL_EVIDENCE, -EINVAL, -EINVAL, 0 },
	{ LOCAL, STRANGER, SETTLE, ALL_EVIDENCE, -EPERM, -EPERM, 0 },
	{ LOCAL, BORROWER, SETTLE, OTTE_EVIDENCE_NONE, -EINVAL, -EINVAL, 0 },
	{ LOCAL, BORROWER, SETTLE, OTTE_EVIDENCE_NEVER_EXPOSED, -EINVAL, -EINVAL, 0 },
	{ LOCAL, BORROWER, SETTLE, OTTE_EVIDENCE_RETURNED, -EINVAL, 0, OTTE_LOAN_SETTLED },
	{ LOCAL, BORROWER, SETTLE, OTTE_EVIDENCE_UNMAPPED, -EINVAL, -EINVAL, 0 },
	{ LOCAL, BORROWER, SETTLE, OTTE_EVIDENCE_REVOKED, -EINVAL, -EINVAL, 0 },
	{ LOCAL, BORROWER, SETTLE, OTTE_EVIDENCE_BORROWER_EXITED, -EINVAL, -EINVAL, 0 },
	{ LOCAL, BORROWER, SETTLE, OTTE_EVIDENCE_FORCED, -EINVAL, -EINVAL, 0 },
	{ LOCAL, BORROWER, SETTLE, UNKNOWN_EVIDENCE, -EINVAL, -EINVAL, 0 },

	{ REMOTE, LENDER, ACCEPT, 0, -EPERM, -EPERM, 0 },
	{ REMOTE, STRANGER, ACCEPT, 0, -EPERM, -EPERM, 0 },
	{ REMOTE, LENDER, EXPOSE, 0, 0, -EALREADY, OTTE_LOAN_EXPOSED },
	{ REMOTE, STRANGER, EXPOSE, 0, -EPERM, -EPERM, 0 },
	{ REMOTE, LENDER, WITHDRAW, 0, 0, -EBUSY, OTTE_LOAN_WITHDRAWN },
	{ REMOTE, STRANGER, WITHDRAW, 0, -EPERM, -EPERM, 0 },
	{ REMOTE, LENDER, REVOKE, 0, -EPERM, -EPERM, 0 },
	{ REMOTE, STRANGER, REVOKE, 0, -EPERM, -EPERM, 0 },
	{ REMOTE, STRANGER, SETTLE, ALL_EVIDENCE, -EPERM, -EPERM, 0 },
	{ REMOTE, LENDER, SETTLE, OTTE_EVIDENCE_NONE, -EINVAL, -EINVAL, 0 },
	{ REMOTE, LENDER, SETTLE, OTTE_EVIDENCE_NEVER_EXPOSED, -EINVAL, 0, OTTE_LOAN_SETTLED },
	{ REMOTE, LENDER, SETTLE, OTTE_EVIDENCE_RETURNED, -EINVAL, 0, OTTE_LOAN_SETTLED },
	{ REMOTE, LENDER, SETTLE, OTTE_EVIDENCE_UNMAPPED, -EINVAL, -EINVAL, 0 },
	{ REMOTE, LENDER, SETTLE, OTTE_EVIDENCE_REVOKED, -EINVAL, 0, OTTE_LOAN_SETTLED },
	{ REMOTE, LENDER, SETTLE, OTTE_EVIDENCE_BORROWER_EXITED, -EINVAL, 0, OTTE_LOAN_SETTLED },
	{ REMOTE, LENDER, SETTLE, OTTE_EVIDENCE_FORCED, -EINVAL, -EINVAL, 0 },
	{ REMOTE, LENDER, SETTLE, UNKNOWN_EVIDENCE, -EINVAL, -EINVAL, 0 },
};

static int act(struct world *w, const struct row *row, int evidence, uint64_t loan)
{
	struct otte_ledger_client *client = w->client[row->actor];

	switch (row->action) {
	case ACCEPT:
		return w->ops->loan_accept(client, loan);
	case EXPOSE:
		return w->ops->loan_expose(client, loan);
	case SETTLE:
		return w->ops->loan_settle(client, loan, (enum otte_evidence)evidence);
	case WITHDRAW:
		return w->ops->loan_withdraw(client, loan);
	default:
		return w->ops->loan_revoke(client, loan);
	}
}

/* A loan of this kind, brought into this state. */
static uint64_t bring(struct world *w, enum kind kind, enum otte_loan_state state)
{
	struct otte_loan_terms terms =
		usual_terms(w, kind == LOCAL ? local(w, BORROWER) : remote(1));
	uint64_t loan;

	if (state == OTTE_LOAN_OFFERED || state == OTTE_LOAN_WITHDRAWN) {
		loan = must_offer(w, &terms);
		if (state == OTTE_LOAN_WITHDRAWN)
			assert_int_equal(w->ops->loan_withdraw(w->client[LENDER], loan), 0);
		return loan;
	}
	loan = expose(w, &terms);
	if (state == OTTE_LOAN_SETTLED)
		assert_int_equal(w->ops->loan_settle(w->client[kind == LOCAL ? BORROWER : LENDER],
						     loan, OTTE_EVIDENCE_RETURNED),
				 0);
	return loan;
}

static void drain_events(struct world *w)
{
	struct otte_event event;
	unsigned i;

	for (i = 0; i < ACTORS; i++)
		while (!w->ops->event_next(w->client[i], &event))
			;
}

static void check_success(struct world *w, const struct row *row, int evidence, uint64_t loan,
			  const struct picture *before)
{
	struct otte_ledger_counters now = counters_of(w);
	int live = row->to == OTTE_LOAN_EXPOSED;
	struct otte_loan_info info[2];

	assert_int_equal(now.loans, live);
	assert_int_equal(now.lent_bytes, live ? REGION_LENGTH : 0);
	assert_int_equal(now.loans_settled,
			 before->counters.loans_settled + (row->to == OTTE_LOAN_SETTLED));
	assert_int_equal(now.regions, 1);
	if (row->kind == REMOTE && !live) {
		assert_int_equal(state_of(w, loan), NOTHING); /* its lender knows, nobody else is */
		return;
	}
	if (is_kernel() && row->to == OTTE_LOAN_WITHDRAWN) {
		assert_int_equal(state_of(w, loan), NOTHING); /* nobody had read of the offer */
		return;
	}
	assert_int_equal(w->ops->dump_loans(w->ledger, info, 2), 1);
	assert_int_equal(info[0].state, row->to);
	if (row->action == REVOKE)
		evidence = OTTE_EVIDENCE_REVOKED;
	assert_int_equal(info[0].evidence, row->to == OTTE_LOAN_SETTLED ? evidence : 0);
}

static void check_row(const struct row *row, enum otte_loan_state state, int evidence, int expected)
{
	static struct picture before;
	struct world w;
	uint64_t loan;
	int rc;

	open_world(&w, NULL);
	loan = bring(&w, row->kind, state);
	take_picture(&w, &before);
	rc = act(&w, row, evidence, loan);
	if (rc != expected)
		print_error("row %zu, state %d, evidence %d\n", (size_t)(row - rows), (int)state,
			    evidence);
	assert_int_equal(rc, expected);
	if (rc) {
		assert_true(*otte_error_text());
		expect_same(&w, &before);
	} else {
		check_success(&w, row, evidence, loan, &before);
	}
	close_world(&w);
}

static int expected_of(const struct row *row, enum otte_loan_state state)
{
	if (state == OTTE_LOAN_OFFERED)
		return row->offered;
	return state == OTTE_LOAN_EXPOSED ? row->exposed : -ENOENT;
}

static void each_state_and_event_gives_the_stated_code_and_state(void **unused)
{
	int state, evidence;
	size_t i;

	(void)unused;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		for (state = OTTE_LOAN_OFFERED; state <= OTTE_LOAN_WITHDRAWN; state++) {
			if (rows[i].evidence != ALL_EVIDENCE) {
				check_row(&rows[i], state, rows[i].evidence,
					  expected_of(&rows[i], state));
				continue;
			}
			for (evidence = 0; evidence <= OTTE_EVIDENCE_FORCED; evidence++)
				check_row(&rows[i], state, evidence, expected_of(&rows[i], state));
		}
	}
}

/* An ended loan whose events were all read, and an id that never was. */
static void what_names_nothing_is_unknown_to_every_event(void **unused)
{
	int state, evidence;
	struct world w;
	uint64_t loan;
	size_t i;

	(void)unused;
	for (state = OTTE_LOAN_SETTLED; state <= OTTE_LOAN_WITHDRAWN; state++) {
		open_world(&w, NULL);
		loan = bring(&w, LOCAL, state);
		drain_events(&w);
		assert_int_equal(state_of(&w, loan), NOTHING);
		for (i = 0; i < ARRAY_SIZE(rows); i++) {
			evidence = rows[i].evidence == ALL_EVIDENCE ? OTTE_EVIDENCE_RETURNED :
								      rows[i].evidence;
			assert_int_equal(act(&w, &rows[i], evidence, loan), -ENOENT);
			assert_int_equal(act(&w, &rows[i], evidence, 0), -ENOENT);
			assert_int_equal(act(&w, &rows[i], evidence, w.region), -ENOENT);
			assert_int_equal(act(&w, &rows[i], evidence, UINT64_MAX), -ENOENT);
		}
		close_world(&w);
	}
}

/*
 * The lender is gone: only the borrower's receipt ends it; nothing is offered or revoked any more.
 */
static void an_orphaned_loan_obeys_its_borrower_alone(void **unused)
{
	static struct picture before;
	int evidence;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	loan = bring(&w, LOCAL, OTTE_LOAN_EXPOSED);
	close_client(&w, LENDER);
	take_picture(&w, &before);
	assert_int_equal(w.ops->loan_accept(w.client[BORROWER], loan), -EALREADY);
	assert_int_equal(w.ops->loan_accept(w.client[STRANGER], loan), -EPERM);
	assert_int_equal(w.ops->loan_expose(w.client[STRANGER], loan), -EPERM);
	assert_int_equal(w.ops->loan_withdraw(w.client[BORROWER], loan), -EPERM);
	assert_int_equal(w.ops->loan_revoke(w.client[BORROWER], loan), -EPERM);
	for (evidence = 0; evidence <= OTTE_EVIDENCE_FORCED; evidence++) {
		assert_int_equal(w.ops->loan_settle(w.client[STRANGER], loan, evidence), -EPERM);
		if (evidence != OTTE_EVIDENCE_RETURNED)
			assert_int_equal(w.ops->loan_settle(w.client[BORROWER], loan, evidence),
					 -EINVAL);
	}
	expect_same(&w, &before);
	assert_int_equal(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), 0);
	assert_int_equal(counters_of(&w).loans, 0);
	close_world(&w);
}

/* The borrower is gone and its death is not accepted: the lender can revoke, nothing else. */
static void a_loan_whose_borrower_left_is_the_lenders_to_revoke_only(void **unused)
{
	static struct picture before;
	struct otte_loan_terms terms;
	int evidence;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.accepted = 0;
	loan = expose(&w, &terms);
	close_client(&w, BORROWER);
	take_picture(&w, &before);
	assert_int_equal(w.ops->loan_accept(w.client[LENDER], loan), -EPERM);
	assert_int_equal(w.ops->loan_expose(w.client[LENDER], loan), -EPERM);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], loan), -EBUSY);
	for (evidence = 0; evidence <= OTTE_EVIDENCE_FORCED; evidence++)
		assert_int_equal(w.ops->loan_settle(w.client[LENDER], loan, evidence), -EINVAL);
	expect_same(&w, &before);
	assert_int_equal(w.ops->loan_revoke(w.client[LENDER], loan), 0);
	assert_int_equal(counters_of(&w).loans, 0);
	close_world(&w);
}

/* ---- Regions --------------------------------------------------------------------------------- */

enum region_state {
	REGISTERED,
	HIDDEN,
	RETAINED,
	GONE,
	REGION_STATES,
};

static void each_region_state_and_event_gives_the_stated_code(void **unused)
{
	static const struct {
		enum actor actor;
		int del[REGION_STATES];
		int offer[REGION_STATES];
	} table[] = {
		{ LENDER, { 0, -EALREADY, 0, -ENOENT }, { 0, -ENOENT, 0, -ENOENT } },
		{ STRANGER,
		  { -EPERM, -EPERM, -EPERM, -ENOENT },
		  { -EPERM, -EPERM, -EPERM, -ENOENT } },
	};
	struct otte_loan_terms terms, inner;
	struct otte_ledger_client *client;
	struct world w;
	uint64_t other;
	unsigned i, s;

	(void)unused;
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		for (s = 0; s < REGION_STATES; s++) {
			open_world(&w, NULL);
			terms = usual_terms(&w, local(&w, BORROWER));
			terms.length = 1;
			inner = terms;
			inner.offset = 1;
			client = w.client[table[i].actor];
			if (s == HIDDEN || s == RETAINED)
				expose(&w, &terms);
			if (s == HIDDEN)
				assert_int_equal(w.ops->region_del(w.client[LENDER], w.region),
						 -EINPROGRESS);
			if (s == GONE)
				assert_int_equal(w.ops->region_del(w.client[LENDER], w.region), 0);
			if (s == RETAINED)
				close_client(&w, LENDER);
			if (s != RETAINED || table[i].actor != LENDER) {
				assert_int_equal(w.ops->loan_offer(client, &inner, &other),
						 table[i].offer[s]);
				assert_int_equal(w.ops->region_del(client, w.region),
						 table[i].del[s]);
			}
			close_world(&w);
		}
	}
}

/* ---- Evidence -------------------------------------------------------------------------------- */

static unsigned effective(unsigned accepted)
{
	return accepted ? accepted : 0x1e; /* NEVER_EXPOSED, RETURNED, UNMAPPED, REVOKED */
}

/* Who can give evidence e of an EXPOSED loan of this kind, in this test's own words. */
static int settle_somehow(struct world *w, enum kind kind, uint64_t loan, int evidence)
{
	if (kind == REMOTE)
		return w->ops->loan_settle(w->client[LENDER], loan, evidence);
	if (evidence == OTTE_EVIDENCE_REVOKED)
		return w->ops->loan_revoke(w->client[LENDER], loan);
	if (evidence == OTTE_EVIDENCE_BORROWER_EXITED) {
		close_client(w, BORROWER);
		return counters_of(w).loans ? -EPERM : 0;
	}
	return w->ops->loan_settle(w->client[BORROWER], loan, evidence);
}

static int possible(enum kind kind, int evidence)
{
	switch (evidence) {
	case OTTE_EVIDENCE_RETURNED:
	case OTTE_EVIDENCE_REVOKED:
	case OTTE_EVIDENCE_BORROWER_EXITED:
		return 1;
	case OTTE_EVIDENCE_NEVER_EXPOSED:
		return kind == REMOTE;
	default:
		return 0;
	}
}

static void evidence_settles_only_where_the_terms_accept_it(void **unused)
{
	struct otte_loan_terms terms;
	unsigned accepted;
	int kind, evidence, expected, rc;
	struct world w;
	uint64_t loan;

	(void)unused;
	for (accepted = 0; accepted < 64; accepted += 2) {
		for (kind = LOCAL; kind <= REMOTE; kind++) {
			for (evidence = 0; evidence <= OTTE_EVIDENCE_FORCED; evidence++) {
				open_world(&w, NULL);
				terms = usual_terms(&w, kind == LOCAL ? local(&w, BORROWER) :
									remote(1));
				terms.accepted = accepted;
				loan = expose(&w, &terms);
				rc = settle_somehow(&w, kind, loan, evidence);
				expected = !possible(kind, evidence)		? -EINVAL :
					   effective(accepted) & 1u << evidence ? 0 :
										  -EPERM;
				/* To the module its process lives on. */
				if (is_kernel() && kind == LOCAL &&
				    evidence == OTTE_EVIDENCE_BORROWER_EXITED)
					expected = -EPERM;
				assert_int_equal(rc, expected);
				assert_int_equal(counters_of(&w).loans, rc ? 1 : 0);
				assert_int_equal(counters_of(&w).loans_settled, rc ? 0 : 1);
				if (rc)
					assert_int_equal(state_of(&w, loan), OTTE_LOAN_EXPOSED);
				close_world(&w);
			}
		}
	}
}

static void no_terms_accept_what_only_an_administrator_gives(void **unused)
{
	static const unsigned wrong[] = { 1, 1u << OTTE_EVIDENCE_FORCED, 0x80, 1u << 31 };
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;
	size_t i;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, remote(1));
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		terms.accepted = OTTE_EVIDENCE_DEFAULT | wrong[i];
		expect_refused(offer(&w, &terms, &loan), -EINVAL, "accepted evidence");
	}
	close_world(&w);
}

const struct CMUnitTest matrix_tests[] = {
	cmocka_unit_test(each_state_and_event_gives_the_stated_code_and_state),
	cmocka_unit_test(what_names_nothing_is_unknown_to_every_event),
	cmocka_unit_test(an_orphaned_loan_obeys_its_borrower_alone),
	cmocka_unit_test(a_loan_whose_borrower_left_is_the_lenders_to_revoke_only),
	cmocka_unit_test(each_region_state_and_event_gives_the_stated_code),
	cmocka_unit_test(evidence_settles_only_where_the_terms_accept_it),
	cmocka_unit_test(no_terms_accept_what_only_an_administrator_gives),
};
const size_t matrix_count = ARRAY_SIZE(matrix_tests);
