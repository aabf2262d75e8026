/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rules of docs/architecture.md, "Ledger", that are about more than one loan's state. */
#include "suite.h"

#include <unistd.h>

#include "base/clock.h"

#define MANY 20000 /* loans of one range */
#define BOTH (OTTE_REMOTE_READ | OTTE_REMOTE_WRITE)

static int settle(struct world *w, enum actor who, uint64_t loan, enum otte_evidence evidence)
{
	return w->ops->loan_settle(w->client[who], loan, evidence);
}

/* ---- What an offer must be ------------------------------------------------------------------- */

static void malformed_claims_are_refused(void **unused)
{
	static const struct {
		struct otte_region_claim claim;
		int code;
	} cases[] = {
		{ { 0x1000, 0, BOTH, OTTE_BACKING_NONE }, -EINVAL },
		{ { UINT64_MAX, 2, BOTH, OTTE_BACKING_NONE }, -EINVAL },
		{ { 2, UINT64_MAX - 1, BOTH, OTTE_BACKING_NONE }, -EINVAL },
		{ { 0x1000, 1, 4, OTTE_BACKING_NONE }, -EINVAL },
		{ { 0x1000, 1, BOTH, OTTE_BACKING_FILE + 1 }, -EINVAL },
	};
	static struct picture before;
	struct world w;
	uint64_t region;
	size_t i;

	(void)unused;
	open_world(&w, NULL);
	take_picture(&w, &before);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		expect_refused(w.ops->region_add(w.client[LENDER], &cases[i].claim, &region),
			       cases[i].code, "region: ");
		expect_same(&w, &before);
	}
	if (!is_kernel()) /* which knows where user memory ends */
		add_region(&w, LENDER, UINT64_MAX - 1, 1, BOTH);
	close_world(&w);
}

/* Only the kernel can keep pages or files alive; a fixture of it will answer otherwise. */
static void the_process_ledger_has_no_backing_of_its_own(void **unused)
{
	struct otte_region_claim claim = { 0x1000, 1, BOTH, OTTE_BACKING_PAGES };
	struct otte_loan_terms terms;
	struct world w;
	uint64_t id;

	(void)unused;
	PROCESS_ONLY("the module has PAGES and FILE");
	open_world(&w, NULL);
	expect_refused(w.ops->region_add(w.client[LENDER], &claim, &id), -EOPNOTSUPP, "backing");
	claim.backing = OTTE_BACKING_FILE;
	expect_refused(w.ops->region_add(w.client[LENDER], &claim, &id), -EOPNOTSUPP, "backing");
	terms = usual_terms(&w, remote(1));
	terms.flags |= OTTE_LOAN_MAPPABLE;
	expect_refused(offer(&w, &terms, &id), -EOPNOTSUPP, "no backing to be mapped");
	close_world(&w);
}

static void an_offer_is_refused_by_the_first_rule_that_it_breaks(void **unused)
{
	static struct picture before;
	struct otte_loan_terms good, t;
	struct world w;
	uint64_t id, reader, writer, none;

	(void)unused;
	open_world(&w, NULL);
	reader = add_region(&w, LENDER, 0x100000, 100, OTTE_REMOTE_READ);
	writer = add_region(&w, LENDER, 0x200000, 100, OTTE_REMOTE_WRITE);
	none = add_region(&w, LENDER, 0x300000, 100, OTTE_LOCAL_ONLY);
	good = usual_terms(&w, remote(1));
	take_picture(&w, &before);
#define REFUSED(change, code, part)                             \
	do {                                                    \
		t = good;                                       \
		change;                                         \
		expect_refused(offer(&w, &t, &id), code, part); \
		expect_same(&w, &before);                       \
	} while (0)
	REFUSED(t.length = 0, -EINVAL, "length 0");
	REFUSED(t.reserved = 1, -EINVAL, "reserved 1");
	REFUSED(t.right = 2, -EINVAL, "right 2");
	REFUSED(t.flags = 16, -EINVAL, "flags 10");
	REFUSED((t.flags = OTTE_LOAN_BY_ADDRESS, t.borrower = local(&w, BORROWER)), -EINVAL,
		"by address, to client");
	REFUSED(t.region = 0, -ENOENT, "region 0");
	REFUSED(t.region = w.id[LENDER], -ENOENT, "unknown");
	REFUSED(t.offset = REGION_LENGTH, -ERANGE, "outside");
	REFUSED(t.length++, -ERANGE, "outside");
	REFUSED(t.offset = 1, -ERANGE, "outside");
	REFUSED(t.offset = UINT64_MAX, -ERANGE, "outside");
	REFUSED((t.region = reader, t.length = 1), -EACCES, "right to write");
	REFUSED((t.region = writer, t.length = 1, t.right = OTTE_LOAN_READ), -EACCES,
		"right to read");
	REFUSED((t.region = none, t.length = 1, t.right = OTTE_LOAN_READ), -EACCES, "right");
	REFUSED(t.borrower.client = UINT64_MAX, -ESRCH, "client");
	REFUSED(t.borrower.client = w.region, -ESRCH, "client");
#undef REFUSED
	close_world(&w);
}

static void who_takes_no_offers_is_lent_by_nobody_but_itself_and_lends(void **unused)
{
	struct otte_region_claim claim = { 0x900000, 100, OTTE_REMOTE_READ, OTTE_BACKING_NONE };
	struct otte_ledger_client *picky;
	static struct picture before;
	struct otte_loan_terms terms;
	struct world w;
	uint64_t id;

	(void)unused;
	open_world(&w, NULL);
	assert_int_equal(w.ops->client_open(w.ledger, "picky", OTTE_CLIENT_NO_OFFERS, &picky), 0);
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.borrower.client = w.ops->client_id(picky);
	take_picture(&w, &before);
	expect_refused(offer(&w, &terms, &id), -EACCES, "takes no offers");
	expect_same(&w, &before);
	assert_int_equal(w.ops->region_add(picky, &claim, &terms.region), 0);
	terms.length = 100;
	terms.right = OTTE_LOAN_READ;
	assert_int_equal(w.ops->loan_offer(picky, &terms, &id), 0);
	assert_int_equal(w.ops->loan_accept(picky, id), 0);
	assert_int_equal(w.ops->loan_settle(picky, id, OTTE_EVIDENCE_RETURNED), 0);
	terms.borrower.client = w.id[BORROWER];
	assert_int_equal(w.ops->loan_offer(picky, &terms, &id), 0);
	assert_int_equal(w.ops->loan_withdraw(picky, id), 0);
	w.ops->client_close(picky);
	close_world(&w);
}

/* ---- Watching -------------------------------------------------------------------------------- */

static void an_owner_watches_its_region_until_it_unregisters_it(void **unused)
{
	struct otte_region_watch watch;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	assert_int_equal(w.ops->region_watch(w.client[LENDER], w.region, &watch), 0);
	assert_true(otte_region_is_fresh(&watch));
	assert_int_equal(watch.mask != 0, is_kernel()); /* the process ledger cannot know */
	expect_refused(w.ops->region_watch(w.client[STRANGER], w.region, &watch), -EPERM, "another");
	expect_refused(w.ops->region_watch(w.client[LENDER], w.region + 1000, &watch), -ENOENT,
		       "unknown");
	assert_int_equal(w.ops->region_del(w.client[LENDER], w.region), 0);
	assert_int_equal(w.ops->region_watch(w.client[LENDER], w.region, &watch), -ENOENT);
	close_world(&w);
}

/* ---- Conflicts ------------------------------------------------------------------------------- */

struct kind {
	uint32_t right;
	uint32_t flags;
};

static const struct kind kinds[] = {
	{ OTTE_LOAN_READ, 0 },
	{ OTTE_LOAN_WRITE, 0 },
	{ OTTE_LOAN_READ, OTTE_LOAN_STANDING },
	{ OTTE_LOAN_WRITE, OTTE_LOAN_STANDING },
};

static int excludes(const struct kind *a, const struct kind *b)
{
	if (a->flags & b->flags & OTTE_LOAN_STANDING)
		return 0;
	return a->right == OTTE_LOAN_WRITE || b->right == OTTE_LOAN_WRITE;
}

/* First [100, 200) as kind a, offered or exposed; then [offset, offset + length) as kind b. */
static void try_pair(const struct kind *a, const struct kind *b, uint64_t offset, uint64_t length,
		     int exposed, int alias)
{
	int overlap = offset < 200 && offset + length > 100;
	struct otte_loan_terms terms;
	uint64_t first, second;
	struct world w;
	int rc;

	open_world(&w, NULL);
	terms = usual_terms(&w, remote(1));
	terms.right = a->right;
	terms.flags = a->flags;
	terms.offset = 100;
	terms.length = 100;
	first = exposed ? expose(&w, &terms) : must_offer(&w, &terms);
	terms.right = b->right;
	terms.flags = b->flags;
	terms.offset = offset;
	terms.length = length;
	terms.borrower = remote(2);
	if (alias) { /* the same bytes under another region, 50 bytes further on */
		terms.region =
			add_region(&w, LENDER, REGION_ADDRESS - 50, REGION_LENGTH + 50, BOTH);
		terms.offset += 50;
	}
	rc = offer(&w, &terms, &second);
	if (is_kernel() && alias)
		overlap = 0; /* each region of the module knows its own loans */
	assert_int_equal(rc, overlap && excludes(a, b) ? -EBUSY : 0);
	if (rc) {
		assert_non_null(strstr(otte_error_text(), "live"));
		if (exposed)
			assert_int_equal(settle(&w, LENDER, first, OTTE_EVIDENCE_RETURNED), 0);
		else
			assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], first), 0);
		must_offer(&w, &terms); /* free again */
	}
	close_world(&w);
}

static void readers_share_and_a_writer_excludes_the_same_bytes(void **unused)
{
	static const struct {
		uint64_t offset, length;
	} ranges[] = {
		{ 100, 100 }, { 0, 100 },  { 200, 100 }, { 0, 101 },   { 199, 1 },
		{ 150, 10 },  { 50, 500 }, { 100, 1 },	 { 500, 100 }, { 150, 100 },
	};
	size_t a, b, r;
	int exposed, alias;

	(void)unused;
	for (a = 0; a < ARRAY_SIZE(kinds); a++)
		for (b = 0; b < ARRAY_SIZE(kinds); b++)
			for (r = 0; r < ARRAY_SIZE(ranges); r++)
				for (exposed = 0; exposed < 2; exposed++)
					for (alias = 0; alias < 2; alias++)
						try_pair(&kinds[a], &kinds[b], ranges[r].offset,
							 ranges[r].length, exposed, alias);
}

static void readers_of_one_range_do_not_slow_each_other(void **unused)
{
	static uint64_t loans[MANY];
	struct otte_loan_terms terms;
	struct world w;
	int i;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, remote(1));
	terms.right = OTTE_LOAN_READ;
	for (i = 0; i < MANY; i++)
		loans[i] = must_offer(&w, &terms);
	assert_int_equal(counters_of(&w).loans, MANY);
	for (i = 0; i < MANY; i++)
		assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], loans[i]), 0);
	terms.right = OTTE_LOAN_WRITE;
	must_offer(&w, &terms);
	close_world(&w);
}

/* ---- Regions --------------------------------------------------------------------------------- */

static void unregister_hides_at_once_and_completes_with_the_last_loan(void **unused)
{
	struct otte_loan_terms terms;
	uint64_t first, second, offered, id;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.right = OTTE_LOAN_READ;
	first = expose(&w, &terms);
	second = expose(&w, &terms);
	offered = must_offer(&w, &terms);
	expect_refused(w.ops->region_del(w.client[LENDER], w.region), -EINPROGRESS,
		       "2 loans without evidence");
	assert_int_equal(state_of(&w, offered), is_kernel() ? NOTHING : OTTE_LOAN_WITHDRAWN);
	assert_int_equal(w.ops->loan_accept(w.client[BORROWER], offered), -ENOENT);
	expect_refused(offer(&w, &terms, &id), -ENOENT, "unregistered");
	assert_int_equal(counters_of(&w).registered_bytes, REGION_LENGTH);
	expect_no_event(&w, LENDER);

	assert_int_equal(settle(&w, BORROWER, first, OTTE_EVIDENCE_RETURNED), 0);
	assert_int_equal(w.ops->region_del(w.client[LENDER], w.region), -EALREADY);
	expect_event(&w, LENDER, OTTE_EVENT_SETTLED, OTTE_EVIDENCE_RETURNED, first);
	expect_no_event(&w, LENDER);
	assert_int_equal(settle(&w, BORROWER, second, OTTE_EVIDENCE_RETURNED), 0);
	assert_int_equal(counters_of(&w).regions, 0);
	assert_int_equal(counters_of(&w).registered_bytes, 0);
	assert_int_equal(w.ops->region_del(w.client[LENDER], w.region), -ENOENT);
	expect_event(&w, LENDER, OTTE_EVENT_SETTLED, OTTE_EVIDENCE_RETURNED, second);
	expect_event(&w, LENDER, OTTE_EVENT_REGION_GONE, 0, w.region);
	expect_no_event(&w, LENDER);
	close_world(&w);
}

static void unregister_of_an_idle_region_withdraws_its_offers_and_is_done(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	loan = must_offer(&w, &terms);
	assert_int_equal(w.ops->region_del(w.client[LENDER], w.region), 0);
	expect_past_offer(&w, loan, 1);
	expect_no_event(&w, BORROWER);
	expect_no_event(&w, LENDER);
	assert_int_equal(counters_of(&w).regions, 0);
	assert_int_equal(counters_of(&w).loans, 0);
	assert_int_equal(counters_of(&w).lent_bytes, 0);
	close_world(&w);
}

/* ---- Death ----------------------------------------------------------------------------------- */

static void an_owner_that_leaves_retains_what_is_lent_until_evidence_arrives(void **unused)
{
	struct otte_loan_terms terms, other;
	struct otte_retained_info info;
	uint64_t lent, offered, idle, id, lender;
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: the module tells an age, and conflicts are of one region");
	otte_clock_fake(12345);
	open_world(&w, NULL);
	idle = add_region(&w, LENDER, 0x900000, 10, BOTH);
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.length = 10;
	lent = expose(&w, &terms);
	other = terms;
	other.region = idle;
	offered = must_offer(&w, &other);
	lender = w.id[LENDER];
	close_client(&w, LENDER);
	otte_clock_fake(0);

	assert_int_equal(retained_of(&w, &info, 1), 1);
	assert_int_equal(info.kind, OTTE_RETAINED_REGION);
	assert_int_equal(info.loans, 1);
	assert_int_equal(info.bytes, REGION_LENGTH);
	assert_int_equal(info.owner, lender);
	assert_int_equal(info.owner_pid, getpid());
	assert_int_equal(info.since_ns, 12345);
	assert_string_equal(info.reason, "lender left before its loans had evidence");
	assert_int_equal(counters_of(&w).retained, 1);
	assert_int_equal(counters_of(&w).retained_bytes, REGION_LENGTH);
	assert_int_equal(counters_of(&w).regions, 1); /* the idle one went, this keeps its charge */
	assert_int_equal(counters_of(&w).registered_bytes, REGION_LENGTH);
	assert_int_equal(counters_of(&w).lent_bytes, 10);
	assert_int_equal(counters_of(&w).clients, 2);

	expect_event(&w, BORROWER, OTTE_EVENT_OFFERED, 0, lent);
	w.region = idle;
	expect_event(&w, BORROWER, OTTE_EVENT_OFFERED, 0, offered);
	/* Regions go in the order in which they were registered. */
	w.region = terms.region;
	expect_event(&w, BORROWER, OTTE_EVENT_OWNER_GONE, 0, lent);
	w.region = idle;
	expect_event(&w, BORROWER, OTTE_EVENT_WITHDRAWN, 0, offered);
	expect_no_event(&w, BORROWER);

	/* Its bytes are still lent: nobody may be given them. */
	other.region = add_region(&w, STRANGER, REGION_ADDRESS, 100, BOTH);
	other.borrower = remote(1);
	expect_refused(w.ops->loan_offer(w.client[STRANGER], &other, &id), -EBUSY, "live");

	assert_int_equal(settle(&w, BORROWER, lent, OTTE_EVIDENCE_RETURNED), 0);
	assert_int_equal(retained_of(&w, &info, 1), 0);
	assert_int_equal(counters_of(&w).retained_bytes, 0);
	assert_int_equal(counters_of(&w).registered_bytes, 100);
	assert_int_equal(counters_of(&w).regions, 1);
	assert_int_equal(w.ops->loan_offer(w.client[STRANGER], &other, &id), 0);
	close_world(&w);
}

static void an_unregistered_region_is_retained_when_its_owner_leaves(void **unused)
{
	struct otte_loan_terms terms;
	struct otte_retained_info info;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	loan = expose(&w, &terms);
	assert_int_equal(w.ops->region_del(w.client[LENDER], w.region), -EINPROGRESS);
	close_client(&w, LENDER);
	assert_int_equal(retained_of(&w, &info, 1), 1);
	expect_past_offer(&w, loan, 0);
	expect_event(&w, BORROWER, OTTE_EVENT_OWNER_GONE, 0, loan);
	assert_int_equal(settle(&w, BORROWER, loan, OTTE_EVIDENCE_RETURNED), 0);
	assert_int_equal(retained_of(&w, &info, 1), 0);
	assert_int_equal(counters_of(&w).regions, 0);
	close_world(&w);
}

static void a_borrower_that_leaves_gives_no_evidence_unless_its_exit_is_accepted(void **unused)
{
	struct otte_loan_terms terms;
	uint64_t kept, ended, offered;
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: an exit is a process's");
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.right = OTTE_LOAN_READ;
	ended = expose(&w, &terms);
	terms.accepted = 0;
	kept = expose(&w, &terms);
	offered = must_offer(&w, &terms);
	close_client(&w, BORROWER);
	expect_event(&w, LENDER, OTTE_EVENT_SETTLED, OTTE_EVIDENCE_BORROWER_EXITED, ended);
	expect_event(&w, LENDER, OTTE_EVENT_WITHDRAWN, 0, offered);
	expect_no_event(&w, LENDER);
	assert_int_equal(state_of(&w, kept), OTTE_LOAN_EXPOSED);
	assert_int_equal(counters_of(&w).loans, 1);
	assert_int_equal(w.ops->region_del(w.client[LENDER], w.region), -EINPROGRESS);
	close_client(&w, LENDER);
	assert_int_equal(counters_of(&w).retained, 1); /* nobody is left who could say */
	close_world(&w);
}

static void a_receipt_counts_once_though_who_gave_it_left_before_it_was_heard(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	loan = expose(&w, &terms);
	assert_int_equal(
		w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), 0);
	close_client(&w, BORROWER);
	expect_event(&w, LENDER, OTTE_EVENT_SETTLED, OTTE_EVIDENCE_RETURNED, loan);
	expect_no_event(&w, LENDER);
	assert_int_equal(counters_of(&w).loans_settled, 1);
	close_world(&w);
}

static void both_sides_may_leave_in_either_order(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	int first, accepted;

	(void)unused;
	PROCESS_ONLY("own: an exit is a process's");
	for (first = LENDER; first <= BORROWER; first++) {
		for (accepted = 0; accepted < 2; accepted++) {
			open_world(&w, NULL);
			terms = usual_terms(&w, local(&w, BORROWER));
			if (!accepted)
				terms.accepted = 0;
			expose(&w, &terms);
			close_client(&w, first);
			close_client(&w, LENDER + BORROWER - first);
			assert_int_equal(counters_of(&w).retained, !accepted);
			assert_int_equal(counters_of(&w).loans, !accepted);
			assert_int_equal(counters_of(&w).regions, !accepted);
			close_world(&w);
		}
	}
}

static void a_client_that_borrows_from_itself_leaves_like_any_other(void **unused)
{
	struct otte_loan_terms terms;
	struct otte_retained_info info;
	struct world w;
	uint64_t loan;
	int accepted;

	(void)unused;
	PROCESS_ONLY("own: an exit is a process's");
	for (accepted = 0; accepted < 2; accepted++) {
		open_world(&w, NULL);
		terms = usual_terms(&w, local(&w, LENDER));
		if (!accepted)
			terms.accepted = 0;
		loan = must_offer(&w, &terms);
		assert_int_equal(w.ops->loan_accept(w.client[LENDER], loan), 0);
		close_client(&w, LENDER);
		assert_int_equal(retained_of(&w, &info, 1), !accepted);
		assert_int_equal(counters_of(&w).loans, !accepted);
		close_world(&w);
	}
}

static void a_client_id_is_never_borrowed_by_after_it_left(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	close_client(&w, BORROWER);
	assert_int_equal(w.ops->client_open(w.ledger, "next", 0, &w.client[BORROWER]), 0);
	assert_int_not_equal(w.ops->client_id(w.client[BORROWER]), w.id[BORROWER]);
	expect_refused(offer(&w, &terms, &loan), -ESRCH, "unknown");
	close_world(&w);
}

/* ---- Fence ----------------------------------------------------------------------------------- */

static void a_fence_refuses_new_loans_and_ends_none(void **unused)
{
	struct otte_loan_terms terms;
	struct otte_borrower who;
	uint64_t old, offered, id;
	struct world w;
	int is_local;

	(void)unused;
	for (is_local = 0; is_local < 2; is_local++) {
		open_world(&w, NULL);
		terms = usual_terms(&w, is_local ? local(&w, BORROWER) : remote(1));
		terms.right = OTTE_LOAN_READ;
		old = expose(&w, &terms);
		offered = must_offer(&w, &terms);
		assert_int_equal(w.ops->fence(w.client[LENDER], &terms.borrower), 0);
		assert_int_equal(w.ops->fence(w.client[LENDER], &terms.borrower), 0);
		expect_refused(offer(&w, &terms, &id), -EKEYREVOKED, "fenced");
		if (is_local)
			expect_refused(w.ops->loan_accept(w.client[BORROWER], offered),
				       -EKEYREVOKED, "fenced");
		else
			expect_refused(w.ops->loan_expose(w.client[LENDER], offered), -EKEYREVOKED,
				       "fenced");
		assert_int_equal(state_of(&w, offered), OTTE_LOAN_OFFERED);
		assert_int_equal(state_of(&w, old), OTTE_LOAN_EXPOSED);
		assert_int_equal(
			settle(&w, is_local ? BORROWER : LENDER, old, OTTE_EVIDENCE_RETURNED), 0);
		/* Others, and other lenders, are not touched. */
		terms.borrower = is_local ? local(&w, STRANGER) : remote(2);
		must_offer(&w, &terms);
		who = is_local ? local(&w, BORROWER) : remote(1);
		terms.borrower = who;
		terms.region = add_region(&w, STRANGER, 0x500000, REGION_LENGTH, BOTH);
		assert_int_equal(w.ops->loan_offer(w.client[STRANGER], &terms, &id), 0);
		close_world(&w);
	}
}

static void a_fence_is_of_one_incarnation(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t id;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, remote(1));
	terms.right = OTTE_LOAN_READ;
	assert_int_equal(w.ops->fence(w.client[LENDER], &terms.borrower), 0);
	terms.borrower.epoch++;
	must_offer(&w, &terms);
	terms.borrower.epoch--;
	terms.borrower.incarnation[15] ^= 1;
	must_offer(&w, &terms);
	terms.borrower.incarnation[15] ^= 1;
	assert_int_equal(offer(&w, &terms, &id), -EKEYREVOKED);
	/* A local client is known by its id alone, whatever stands in the rest. */
	terms.borrower = local(&w, BORROWER);
	terms.borrower.epoch = 5;
	assert_int_equal(w.ops->fence(w.client[LENDER], &terms.borrower), 0);
	terms.borrower.epoch = 6;
	assert_int_equal(offer(&w, &terms, &id), -EKEYREVOKED);
	close_world(&w);
}

/* ---- Revoke ---------------------------------------------------------------------------------- */

static void only_what_was_offered_as_revocable_can_be_revoked(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.flags = 0;
	loan = expose(&w, &terms);
	expect_refused(w.ops->loan_revoke(w.client[LENDER], loan), -EPERM, "as revocable");
	assert_int_equal(state_of(&w, loan), OTTE_LOAN_EXPOSED);
	close_world(&w);
}

/* Of what is not its own the lender learns nothing, for that would take a look at everybody's. */
static void what_a_lender_offered_is_its_own_to_take_back(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	loan = must_offer(&w, &terms);
	expect_refused(w.ops->loan_take_back(w.client[STRANGER], loan, true), -ENOENT, "unknown");
	expect_refused(w.ops->loan_take_back(w.client[BORROWER], loan, true), -ENOENT, "unknown");
	assert_int_equal(state_of(&w, loan), OTTE_LOAN_OFFERED);
	assert_int_equal(w.ops->loan_take_back(w.client[LENDER], loan, false), 0);
	expect_refused(w.ops->loan_take_back(w.client[LENDER], loan, true), -ENOENT, "unknown");
	loan = expose(&w, &terms);
	expect_refused(w.ops->loan_take_back(w.client[LENDER], loan, false), -EBUSY, "is exposed");
	assert_int_equal(state_of(&w, loan), OTTE_LOAN_EXPOSED);
	assert_int_equal(w.ops->loan_take_back(w.client[LENDER], loan, true), 0);
	expect_refused(w.ops->loan_take_back(w.client[LENDER], loan, true), -ENOENT, "unknown");
	assert_int_equal(counters_of(&w).loans, 0);
	close_world(&w);
}

/* ---- Retained -------------------------------------------------------------------------------- */

static void a_hold_stays_until_its_owner_or_an_administrator_ends_it(void **unused)
{
	struct otte_retained_info info[3];
	uint64_t first, second, owner;
	char reason[200];
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	memset(reason, 'r', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = 0;
	owner = w.id[LENDER];
	assert_int_equal(w.ops->hold(w.client[LENDER], 100, "a queue pair", &first), 0);
	assert_int_equal(w.ops->hold(w.client[LENDER], 0, reason, &second), 0);
	expect_refused(w.ops->hold(w.client[LENDER], 1, NULL, &first), -EINVAL, "no reason");
	assert_int_equal(retained_of(&w, info, 3), 2);
	assert_int_equal(info[0].id, first);
	assert_int_equal(info[0].kind, OTTE_RETAINED_HOLD);
	assert_int_equal(info[0].bytes, 100);
	assert_int_equal(info[0].loans, 0);
	assert_string_equal(info[0].reason, "a queue pair");
	assert_int_equal(strlen(info[1].reason), sizeof(info[1].reason) - 1);
	expect_refused(w.ops->hold_drop(w.client[STRANGER], first), -EPERM, "another client's");
	expect_refused(w.ops->hold_drop(w.client[LENDER], w.region), -ENOENT, "unknown");
	assert_int_equal(w.ops->hold_drop(w.client[LENDER], second), 0);
	assert_int_equal(w.ops->hold_drop(w.client[LENDER], second), -ENOENT);
	close_client(&w, LENDER);
	assert_int_equal(retained_of(&w, info, 3), 1);
	assert_int_equal(info[0].owner, owner);
	assert_int_equal(counters_of(&w).retained_bytes, 100);
	assert_int_equal(w.ops->hold_drop(w.client[STRANGER], first), -EPERM);
	assert_int_equal(w.ops->release(w.ledger, first), 0);
	assert_int_equal(counters_of(&w).retained_bytes, 0);
	expect_refused(w.ops->release(w.ledger, first), -ENOENT, "unknown");
	close_world(&w);
}

static void release_forces_the_loans_of_a_retained_region_and_tells_borrowers(void **unused)
{
	struct otte_loan_terms terms;
	struct otte_retained_info info;
	struct otte_loan_info row;
	uint64_t loan, far;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.right = OTTE_LOAN_READ;
	terms.accepted = OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_RETURNED);
	loan = expose(&w, &terms);
	terms.borrower = remote(1);
	far = expose(&w, &terms);
	close_client(&w, LENDER);
	assert_int_equal(settle(&w, STRANGER, far, OTTE_EVIDENCE_RETURNED), -EPERM);
	assert_int_equal(retained_of(&w, &info, 1), 1);
	assert_int_equal(info.loans, 2);
	assert_int_equal(w.ops->hold_drop(w.client[STRANGER], info.id), -ENOENT);
	assert_int_equal(w.ops->release(w.ledger, info.id), 0);
	assert_int_equal(retained_of(&w, &info, 1), 0);
	assert_int_equal(counters_of(&w).regions, 0);
	assert_int_equal(counters_of(&w).loans, 0);
	assert_int_equal(counters_of(&w).loans_settled, 2);
	assert_int_equal(counters_of(&w).retained_bytes, 0);
	assert_int_equal(w.ops->dump_loans(w.ledger, &row, 1), 1);
	assert_int_equal(row.id, loan);
	assert_int_equal(row.evidence, OTTE_EVIDENCE_FORCED);
	expect_past_offer(&w, loan, 0);
	expect_event(&w, BORROWER, OTTE_EVENT_OWNER_GONE, 0, loan);
	/* The module does not say by whom. */
	expect_event(&w, BORROWER, OTTE_EVENT_REVOKED,
		     is_kernel() ? OTTE_EVIDENCE_REVOKED : OTTE_EVIDENCE_FORCED, loan);
	expect_no_event(&w, BORROWER);
	close_world(&w);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void events_come_in_the_order_in_which_they_happened(void **unused)
{
	struct otte_loan_terms terms;
	uint64_t a, b, c;
	struct world w;

	(void)unused;
	PROCESS_ONLY("own: what is past is not told");
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.right = OTTE_LOAN_READ;
	a = must_offer(&w, &terms);
	b = must_offer(&w, &terms);
	assert_int_equal(w.ops->loan_accept(w.client[BORROWER], b), 0);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], a), 0);
	c = expose(&w, &terms);
	assert_int_equal(w.ops->loan_revoke(w.client[LENDER], c), 0);
	assert_int_equal(w.ops->loan_revoke(w.client[LENDER], b), 0);
	expect_event(&w, BORROWER, OTTE_EVENT_OFFERED, 0, a);
	expect_event(&w, BORROWER, OTTE_EVENT_OFFERED, 0, b);
	expect_event(&w, BORROWER, OTTE_EVENT_WITHDRAWN, 0, a);
	expect_event(&w, BORROWER, OTTE_EVENT_OFFERED, 0, c);
	expect_event(&w, BORROWER, OTTE_EVENT_REVOKED, OTTE_EVIDENCE_REVOKED, c);
	expect_event(&w, BORROWER, OTTE_EVENT_REVOKED, OTTE_EVIDENCE_REVOKED, b);
	expect_no_event(&w, BORROWER);
	expect_no_event(&w, LENDER); /* it did it all itself */
	expect_no_event(&w, STRANGER);
	close_world(&w);
}

static void what_a_lender_does_for_a_remote_peer_raises_no_event(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;
	unsigned i;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, remote(1));
	loan = expose(&w, &terms);
	assert_int_equal(settle(&w, LENDER, loan, OTTE_EVIDENCE_RETURNED), 0);
	loan = must_offer(&w, &terms);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], loan), 0);
	for (i = 0; i < ACTORS; i++)
		expect_no_event(&w, i);
	close_world(&w);
}

/* ---- Dumps ----------------------------------------------------------------------------------- */

static void dumps_state_all_terms_and_never_write_past_their_capacity(void **unused)
{
	struct otte_loan_info rows[4];
	struct otte_retained_info records[3];
	struct otte_loan_terms terms;
	uint64_t a, b, id;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, remote(3));
	terms.right = OTTE_LOAN_READ;
	terms.offset = 8;
	terms.length = 16;
	terms.accepted = 0;
	a = must_offer(&w, &terms);
	b = expose(&w, &terms);
	memset(rows, 0xa5, sizeof(rows));
	assert_int_equal(w.ops->dump_loans(w.ledger, NULL, 0), 2);
	assert_int_equal(w.ops->dump_loans(w.ledger, rows, 1), 2);
	assert_int_equal(rows[0].id, a);
	assert_int_equal(rows[1].id, 0xa5a5a5a5a5a5a5a5ull);
	assert_int_equal(w.ops->dump_loans(w.ledger, rows, 4), 2);
	assert_int_equal(rows[1].id, b);
	assert_int_equal(rows[1].lender, w.id[LENDER]);
	assert_int_equal(rows[1].state, OTTE_LOAN_EXPOSED);
	assert_int_equal(rows[1].evidence, OTTE_EVIDENCE_NONE);
	terms.accepted = OTTE_EVIDENCE_DEFAULT; /* which 0 stands for */
	assert_memory_equal(&rows[1].terms, &terms, sizeof(terms));

	assert_int_equal(w.ops->hold(w.client[LENDER], 1, "one", &id), 0);
	assert_int_equal(w.ops->hold(w.client[LENDER], 2, "two", &id), 0);
	memset(records, 0xa5, sizeof(records));
	assert_int_equal(retained_of(&w, NULL, 0), 2);
	assert_int_equal(retained_of(&w, records, 1), 2);
	assert_string_equal(records[0].reason, "one");
	assert_int_equal(records[1].id, 0xa5a5a5a5a5a5a5a5ull);
	close_world(&w);
}

static void evidence_has_a_name(void **unused)
{
	(void)unused;
	assert_string_equal(otte_evidence_name(OTTE_EVIDENCE_RETURNED), "RETURNED");
	assert_string_equal(otte_evidence_name(OTTE_EVIDENCE_FORCED), "FORCED");
	assert_string_equal(otte_evidence_name(OTTE_EVIDENCE_NONE), "?");
	assert_string_equal(otte_evidence_name(OTTE_EVIDENCE_FORCED + 1), "?");
}

const struct CMUnitTest rules_tests[] = {
	cmocka_unit_test(who_takes_no_offers_is_lent_by_nobody_but_itself_and_lends),
	cmocka_unit_test(an_owner_watches_its_region_until_it_unregisters_it),
	cmocka_unit_test(malformed_claims_are_refused),
	cmocka_unit_test(the_process_ledger_has_no_backing_of_its_own),
	cmocka_unit_test(an_offer_is_refused_by_the_first_rule_that_it_breaks),
	cmocka_unit_test(readers_share_and_a_writer_excludes_the_same_bytes),
	cmocka_unit_test(readers_of_one_range_do_not_slow_each_other),
	cmocka_unit_test(unregister_hides_at_once_and_completes_with_the_last_loan),
	cmocka_unit_test(unregister_of_an_idle_region_withdraws_its_offers_and_is_done),
	cmocka_unit_test(an_owner_that_leaves_retains_what_is_lent_until_evidence_arrives),
	cmocka_unit_test(an_unregistered_region_is_retained_when_its_owner_leaves),
	cmocka_unit_test(a_borrower_that_leaves_gives_no_evidence_unless_its_exit_is_accepted),
	cmocka_unit_test(a_receipt_counts_once_though_who_gave_it_left_before_it_was_heard),
	cmocka_unit_test(both_sides_may_leave_in_either_order),
	cmocka_unit_test(a_client_that_borrows_from_itself_leaves_like_any_other),
	cmocka_unit_test(a_client_id_is_never_borrowed_by_after_it_left),
	cmocka_unit_test(a_fence_refuses_new_loans_and_ends_none),
	cmocka_unit_test(a_fence_is_of_one_incarnation),
	cmocka_unit_test(only_what_was_offered_as_revocable_can_be_revoked),
	cmocka_unit_test(what_a_lender_offered_is_its_own_to_take_back),
	cmocka_unit_test(a_hold_stays_until_its_owner_or_an_administrator_ends_it),
	cmocka_unit_test(release_forces_the_loans_of_a_retained_region_and_tells_borrowers),
	cmocka_unit_test(events_come_in_the_order_in_which_they_happened),
	cmocka_unit_test(what_a_lender_does_for_a_remote_peer_raises_no_event),
	cmocka_unit_test(dumps_state_all_terms_and_never_write_past_their_capacity),
	cmocka_unit_test(evidence_has_a_name),
};
const size_t rules_count = ARRAY_SIZE(rules_tests);
