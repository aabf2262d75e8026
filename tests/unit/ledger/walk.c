/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A random walk over every call, right and wrong, against a model: plain arrays searched from end
 * to end, which keep to ledger.h and know nothing of trees, lists or reference counts. After each
 * step the code, the counters and, from time to time, dumps and events must agree.
 *
 * Over the module the model departs where docs/architecture.md, "The kernel back end", does: no
 * limits of the caller's; conflicts within one region; a borrower that closes leaves a record; a
 * hold has a byte at least and is not released while its owner lives. Which of two reasons for a
 * refusal is told is the module's choice. Of events the ends of loans are compared, each told once;
 * of the others only what cannot be out of date when it is read.
 *
 * OTTE_TEST_SEED=N walks once, from there.
 */
#include "suite.h"

enum {
	CLIENTS = 4,
	REGIONS = 24,
	LOANS = 96,
	FENCES = 64,
	EVENTS = 4096,
	RECORDS = 64,
	LISTED = RECORDS + LOANS, /* of loans, too, over the module */
	STEPS = 40000,
	KERNEL_STEPS = 5000
};

#define LIMIT_REGISTERED 5000
#define LIMIT_LENT 1500
#define LIMIT_RETAINED 900

struct m_client {
	struct otte_ledger_client *handle; /* NULL: closed */
	uint64_t id;
	struct otte_event events[EVENTS];
	unsigned head, tail;
};

struct m_region {
	uint64_t id; /* 0: free row */
	uint64_t owner;
	struct otte_region_claim claim;
	int hidden, orphaned;
};

struct m_loan {
	uint64_t id; /* 0: free row; rows are found by id, in no order */
	uint64_t lender;
	struct otte_loan_terms terms;
	int exposed;
	int lender_left, borrower_left;
};

struct m_record {
	uint64_t owner, bytes, hold; /* hold 0: a region's */
	uint64_t region;
};

static struct model {
	struct otte_ledger *ledger;
	const struct otte_ledger_ops *ops;
	struct m_client clients[CLIENTS];
	struct m_region regions[REGIONS];
	struct m_loan loans[LOANS];
	struct m_record records[RECORDS];
	unsigned record_count;
	struct {
		uint64_t by;
		struct otte_borrower who;
	} fences[FENCES];
	unsigned fence_count;
	uint64_t settled, last_id;
	unsigned seed;
} m;

static unsigned pick(unsigned below)
{
	return (unsigned)rand_r(&m.seed) % below;
}

/* Over the module: it is a record of its own. */
static int is_record(const struct m_loan *loan)
{
	return is_kernel() && loan->id && loan->exposed && loan->borrower_left;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static struct otte_ledger_counters sums(void)
{
	struct otte_ledger_counters c = { .loans_settled = m.settled, .retained = m.record_count };
	unsigned i;

	for (i = 0; i < CLIENTS; i++)
		c.clients += !!m.clients[i].handle;
	for (i = 0; i < REGIONS; i++)
		if (m.regions[i].id) {
			c.regions++;
			c.registered_bytes += m.regions[i].claim.length;
		}
	for (i = 0; i < LOANS; i++)
		if (m.loans[i].id) {
			c.loans++;
			c.lent_bytes += m.loans[i].terms.length;
			if (is_record(&m.loans[i])) {
				c.retained++;
				c.retained_bytes += m.loans[i].terms.length;
			}
		}
	for (i = 0; i < m.record_count; i++)
		c.retained_bytes += m.records[i].bytes;
	return c;
}

static struct m_client *client_by(uint64_t id)
{
	unsigned i;

	for (i = 0; i < CLIENTS; i++)
		if (m.clients[i].handle && m.clients[i].id == id)
			return &m.clients[i];
	return NULL;
}

static struct m_region *region_by(uint64_t id)
{
	unsigned i;

	for (i = 0; id && i < REGIONS; i++)
		if (m.regions[i].id == id)
			return &m.regions[i];
	return NULL;
}

static struct m_loan *loan_by(uint64_t id)
{
	unsigned i;

	for (i = 0; id && i < LOANS; i++)
		if (m.loans[i].id == id)
			return &m.loans[i];
	return NULL;
}

static unsigned loans_on(uint64_t region)
{
	unsigned i, count = 0;

	for (i = 0; i < LOANS; i++)
		count += m.loans[i].id && m.loans[i].terms.region == region;
	return count;
}

/* The loan with the smallest id above `after` that `which` is true of: the order of events. */
static struct m_loan *next_loan(uint64_t after, int (*which)(const struct m_loan *, uint64_t),
				uint64_t arg)
{
	struct m_loan *best = NULL;
	unsigned i;

	for (i = 0; i < LOANS; i++)
		if (m.loans[i].id > after && which(&m.loans[i], arg) &&
		    (!best || m.loans[i].id < best->id))
			best = &m.loans[i];
	return best;
}

static int of_region(const struct m_loan *loan, uint64_t region)
{
	return loan->terms.region == region;
}

static int of_borrower(const struct m_loan *loan, uint64_t client)
{
	return loan->terms.borrower.client == client && !loan->borrower_left;
}

/* ---- Consequences ---------------------------------------------------------------------------- */

static void tell(uint64_t id, uint32_t kind, uint32_t evidence, const struct m_loan *loan,
		 uint64_t region)
{
	struct m_client *c = id ? client_by(id) : NULL;

	if (!c)
		return;
	c->events[c->head++ % EVENTS] = (struct otte_event){
		.kind = kind,
		.evidence = evidence,
		.region = region,
		.loan = loan ? loan->id : 0,
		.tag = loan ? loan->terms.tag : 0,
	};
	assert_true(c->head - c->tail < EVENTS);
}

static void drop_record_of(uint64_t region)
{
	unsigned i;

	for (i = 0; i < m.record_count; i++)
		if (m.records[i].region == region)
			break;
	assert_true(i < m.record_count);
	memmove(&m.records[i], &m.records[i + 1], (--m.record_count - i) * sizeof(m.records[0]));
}

static void maybe_gone(struct m_region *region)
{
	if (!(region->hidden || region->orphaned) || loans_on(region->id))
		return;
	if (region->orphaned)
		drop_record_of(region->id);
	else
		tell(region->owner, OTTE_EVENT_REGION_GONE, 0, NULL, region->id);
	region->id = 0;
}

/* by: 0 lender, 1 borrower, 2 administrator */
static void over(struct m_loan *loan, uint32_t evidence, int by)
{
	uint64_t region = loan->terms.region;

	if (by != 1 && !loan->borrower_left)
		tell(loan->terms.borrower.client,
		     evidence ? OTTE_EVENT_REVOKED : OTTE_EVENT_WITHDRAWN, evidence, loan, region);
	if (by != 0 && !loan->lender_left)
		tell(loan->lender, evidence ? OTTE_EVENT_SETTLED : OTTE_EVENT_WITHDRAWN, evidence,
		     loan, region);
	m.settled += evidence != 0;
	loan->id = 0;
	maybe_gone(region_by(region));
}

static void withdraw_offers(uint64_t region)
{
	struct m_loan *loan;
	uint64_t at = 0;

	while ((loan = next_loan(at, of_region, region))) {
		at = loan->id;
		if (!loan->exposed)
			over(loan, 0, 0);
	}
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void fresh_id(uint64_t id)
{
	assert_true(id > m.last_id);
	m.last_id = id;
}

static void step_open(struct m_client *c)
{
	if (c->handle)
		return;
	assert_int_equal(m.ops->client_open(m.ledger, "walker", 0, &c->handle), 0);
	c->id = m.ops->client_id(c->handle);
	c->head = c->tail = 0;
	fresh_id(c->id);
}

static void orphan(struct m_client *c, struct m_region *region)
{
	struct m_loan *loan;
	uint64_t at = 0;

	withdraw_offers(region->id);
	if (!loans_on(region->id)) {
		region->id = 0;
		return;
	}
	region->orphaned = 1;
	assert_true(m.record_count < RECORDS);
	m.records[m.record_count++] = (struct m_record){
		.owner = c->id,
		.bytes = region->claim.length,
		.region = region->id,
	};
	while ((loan = next_loan(at, of_region, region->id))) {
		at = loan->id;
		loan->lender_left = 1;
		if (!loan->borrower_left)
			tell(loan->terms.borrower.client, OTTE_EVENT_OWNER_GONE, 0, loan,
			     region->id);
	}
}

static void step_close(struct m_client *c)
{
	struct m_loan *loan;
	uint64_t at = 0;
	unsigned i;

	m.ops->client_close(c->handle);
	for (;;) { /* in the order in which they were registered: by id */
		struct m_region *best = NULL;

		for (i = 0; i < REGIONS; i++)
			if (m.regions[i].id && m.regions[i].owner == c->id &&
			    !m.regions[i].orphaned && (!best || m.regions[i].id < best->id))
				best = &m.regions[i];
		if (!best)
			break;
		orphan(c, best);
	}
	while ((loan = next_loan(at, of_borrower, c->id))) {
		at = loan->id;
		if (!loan->exposed)
			over(loan, 0, 1);
		else if (!is_kernel() &&
			 loan->terms.accepted & OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_BORROWER_EXITED))
			over(loan, OTTE_EVIDENCE_BORROWER_EXITED, 1);
		else
			loan->borrower_left = 1;
	}
	c->handle = NULL;
}

static int expect_add(const struct otte_region_claim *claim)
{
	if (!claim->length)
		return -EINVAL;
	if (is_kernel())
		return 0;
	return sums().registered_bytes + claim->length > LIMIT_REGISTERED ? -EDQUOT : 0;
}

static void step_add(struct m_client *c)
{
	struct otte_region_claim claim = { 1000 + 50ull * pick(60), 50ull * pick(6),
					   pick(4) ? 3 : pick(4), 0 };
	struct m_region *row = NULL;
	int expected = expect_add(&claim);
	uint64_t id;
	unsigned i;

	for (i = 0; i < REGIONS; i++)
		if (!m.regions[i].id)
			row = &m.regions[i];
	if (!row)
		return;
	assert_int_equal(m.ops->region_add(c->handle, &claim, &id), expected);
	if (expected)
		return;
	fresh_id(id);
	*row = (struct m_region){ .id = id, .owner = c->id, .claim = claim };
}

static uint64_t some_region(void)
{
	return m.regions[pick(REGIONS)].id;
}

static void step_del(struct m_client *c)
{
	uint64_t id = some_region();
	struct m_region *region = region_by(id);
	int expected = 0;

	if (!region)
		expected = -ENOENT;
	else if (region->owner != c->id)
		expected = -EPERM;
	else if (region->hidden)
		expected = -EALREADY;
	if (!expected) {
		withdraw_offers(id);
		if (loans_on(id)) {
			region->hidden = 1;
			expected = -EINPROGRESS;
		} else {
			region->id = 0;
		}
	}
	assert_int_equal(m.ops->region_del(c->handle, id), expected);
}

static int fenced(uint64_t by, const struct otte_borrower *who)
{
	unsigned i;

	for (i = 0; i < m.fence_count; i++)
		if (m.fences[i].by == by && !memcmp(&m.fences[i].who, who, sizeof(*who)))
			return 1;
	return 0;
}

static int clashes(uint64_t start, uint64_t end, const struct otte_loan_terms *terms)
{
	unsigned i;

	for (i = 0; i < LOANS; i++) {
		const struct otte_loan_terms *t = &m.loans[i].terms;
		uint64_t from, to;

		if (!m.loans[i].id || (is_kernel() && t->region != terms->region))
			continue;
		from = region_by(t->region)->claim.address + t->offset;
		to = from + t->length;
		if (from >= end || to <= start)
			continue;
		if (terms->right == OTTE_LOAN_READ && t->right == OTTE_LOAN_READ)
			continue;
		if (terms->flags & t->flags & OTTE_LOAN_STANDING)
			continue;
		return 1;
	}
	return 0;
}

static int expect_offer(const struct m_client *c, const struct otte_loan_terms *t)
{
	const struct m_region *region = region_by(t->region);

	if (!t->length)
		return -EINVAL;
	if (!region)
		return -ENOENT;
	if (region->owner != c->id)
		return -EPERM;
	if (region->hidden)
		return -ENOENT;
	if (t->offset + t->length > region->claim.length)
		return -ERANGE;
	if (!(region->claim.access & (t->right ? OTTE_REMOTE_WRITE : OTTE_REMOTE_READ)))
		return -EACCES;
	if (t->borrower.client && !client_by(t->borrower.client))
		return -ESRCH;
	if (fenced(c->id, &t->borrower))
		return -EKEYREVOKED;
	if (clashes(region->claim.address + t->offset,
		    region->claim.address + t->offset + t->length, t))
		return -EBUSY;
	if (is_kernel())
		return 0;
	if (sums().retained_bytes > LIMIT_RETAINED || sums().lent_bytes + t->length > LIMIT_LENT)
		return -EDQUOT;
	return 0;
}

/* Whether this is a reason as good as the one expected. */
static int is_reason(const struct m_client *c, const struct otte_loan_terms *t, int code)
{
	const struct m_region *region = region_by(t->region);

	if (!is_kernel())
		return 0;
	switch (code) {
	case -ESRCH:
		return t->borrower.client && !client_by(t->borrower.client);
	case -EKEYREVOKED:
		return fenced(c->id, &t->borrower);
	case -EBUSY:
		return clashes(region->claim.address + t->offset,
			       region->claim.address + t->offset + t->length, t);
	default:
		return 0;
	}
}

/* Both codes are of those that the module may tell in any order. */
static void agree_on_offer(const struct m_client *c, const struct otte_loan_terms *t, int code,
			   int expected)
{
	if (code != expected && (expected == -ESRCH || expected == -EKEYREVOKED) &&
	    is_reason(c, t, code))
		return;
	assert_int_equal(code, expected);
}

/* Mostly one of its own. */
static uint64_t some_region_of(const struct m_client *c)
{
	const struct m_region *region = &m.regions[pick(REGIONS)];
	unsigned i;

	for (i = 0; i < 40 && (!region->id || region->owner != c->id); i++)
		region = &m.regions[pick(REGIONS)];
	return pick(16) ? region->id : some_region();
}

static struct otte_borrower somebody(void)
{
	struct otte_borrower who = { 0 };

	if (pick(3)) {
		who.client = m.clients[pick(CLIENTS)].id;
		if (who.client)
			return who;
	}
	who.incarnation[0] = (uint8_t)(1 + pick(6));
	who.epoch = who.incarnation[0];
	return who;
}

static void step_offer(struct m_client *c)
{
	struct otte_loan_terms t = {
		.region = some_region_of(c),
		.offset = 10ull * pick(20),
		.length = 10ull * pick(8),
		.right = pick(2),
		.flags = (pick(2) ? OTTE_LOAN_REVOCABLE : 0) | (pick(3) ? 0 : OTTE_LOAN_STANDING),
		.accepted = pick(3) ? 2 * pick(32) : 0,
		.tag = pick(1000),
		.borrower = somebody(),
	};
	struct m_loan *row = NULL;
	uint64_t id = 0;
	int expected = expect_offer(c, &t);
	unsigned i;

	for (i = 0; i < LOANS; i++)
		if (!m.loans[i].id)
			row = &m.loans[i];
	if (!row)
		return;
	agree_on_offer(c, &t, m.ops->loan_offer(c->handle, &t, &id), expected);
	if (expected)
		return;
	fresh_id(id);
	if (!t.accepted)
		t.accepted = OTTE_EVIDENCE_DEFAULT;
	*row = (struct m_loan){ .id = id, .lender = c->id, .terms = t };
	tell(t.borrower.client, OTTE_EVENT_OFFERED, 0, row, t.region);
}

static int expect_expose(const struct m_loan *loan)
{
	if (loan->exposed)
		return -EALREADY;
	return fenced(loan->lender, &loan->terms.borrower) ? -EKEYREVOKED : 0;
}

static void step_expose(struct m_client *c, uint64_t id, int accept)
{
	struct m_loan *loan = loan_by(id);
	uint64_t borrower = loan ? loan->terms.borrower.client : 0;
	int expected;

	if (!loan)
		expected = -ENOENT;
	else if (accept ? borrower != c->id : loan->lender != c->id || borrower)
		expected = -EPERM;
	else
		expected = expect_expose(loan);
	assert_int_equal(accept ? m.ops->loan_accept(c->handle, id) :
				  m.ops->loan_expose(c->handle, id),
			 expected);
	if (!expected)
		loan->exposed = 1;
}

static int expect_settle(const struct m_client *c, const struct m_loan *loan, uint32_t evidence)
{
	uint64_t borrower = loan->terms.borrower.client;
	int can;

	if (loan->lender != c->id && borrower != c->id)
		return -EPERM;
	if (!loan->exposed)
		return -EINVAL;
	if (borrower)
		can = borrower == c->id && evidence == OTTE_EVIDENCE_RETURNED;
	else
		can = evidence && evidence != OTTE_EVIDENCE_UNMAPPED &&
		      evidence < OTTE_EVIDENCE_FORCED;
	if (!can)
		return -EINVAL;
	return loan->terms.accepted & 1u << evidence ? 0 : -EPERM;
}

static void step_settle(struct m_client *c, uint64_t id)
{
	uint32_t evidence = pick(2) ? OTTE_EVIDENCE_RETURNED : pick(8);
	struct m_loan *loan = loan_by(id);
	int expected = loan ? expect_settle(c, loan, evidence) : -ENOENT;

	assert_int_equal(m.ops->loan_settle(c->handle, id, evidence), expected);
	if (!expected)
		over(loan, evidence, loan->terms.borrower.client ? 1 : 0);
}

static void step_withdraw(struct m_client *c, uint64_t id)
{
	struct m_loan *loan = loan_by(id);
	int expected = !loan		     ? -ENOENT :
		       loan->lender != c->id ? -EPERM :
		       loan->exposed	     ? -EBUSY :
					       0;

	assert_int_equal(m.ops->loan_withdraw(c->handle, id), expected);
	if (!expected)
		over(loan, 0, 0);
}

static void step_revoke(struct m_client *c, uint64_t id)
{
	struct m_loan *loan = loan_by(id);
	int expected = 0, code;

	if (!loan)
		expected = -ENOENT;
	else if (loan->lender != c->id || !loan->terms.borrower.client ||
		 !(loan->terms.flags & OTTE_LOAN_REVOCABLE))
		expected = -EPERM;
	else if (!loan->exposed)
		expected = -EINVAL;
	else if (!(loan->terms.accepted & OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_REVOKED)))
		expected = -EPERM;
	code = m.ops->loan_revoke(c->handle, id);
	if (is_kernel() && expected == -EINVAL && code == -EPERM)
		assert_false(loan->terms.accepted & OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_REVOKED));
	else
		assert_int_equal(code, expected);
	if (!expected)
		over(loan, OTTE_EVIDENCE_REVOKED, 0);
}

/* Mostly one that it has made an offer to, if there is any: a fence must reach that, too. */
static struct otte_borrower somebody_to_fence(const struct m_client *c)
{
	unsigned i, first = pick(LOANS);

	for (i = pick(4) ? 0 : LOANS; i < LOANS; i++) {
		const struct m_loan *loan = &m.loans[(first + i) % LOANS];

		if (loan->id && !loan->exposed && loan->lender == c->id)
			return loan->terms.borrower;
	}
	return somebody();
}

/* What was offered before the fence is nobody's to expose any more. */
static void expect_fenced(struct m_client *c, const struct otte_borrower *who)
{
	const struct m_loan *loan;
	unsigned i;

	for (i = 0; i < LOANS; i++) {
		loan = &m.loans[i];
		if (loan->id && !loan->exposed && loan->lender == c->id &&
		    !memcmp(&loan->terms.borrower, who, sizeof(*who)))
			step_expose(who->client ? client_by(who->client) : c, loan->id,
				    who->client != 0);
	}
}

static void step_fence(struct m_client *c)
{
	struct otte_borrower who = somebody_to_fence(c);
	int expected = is_kernel() && who.client && !client_by(who.client) ? -ESRCH : 0;

	if (m.fence_count == FENCES)
		return;
	assert_int_equal(m.ops->fence(c->handle, &who), expected);
	if (expected)
		return;
	m.fences[m.fence_count].by = c->id;
	m.fences[m.fence_count++].who = who;
	expect_fenced(c, &who);
}

static void step_hold(struct m_client *c)
{
	uint64_t bytes = pick(300), id;
	int expected = 0;

	if (!is_kernel() && sums().retained_bytes + bytes > LIMIT_RETAINED)
		expected = -EDQUOT;

	if (m.record_count >= RECORDS - REGIONS)
		return;
	assert_int_equal(m.ops->hold(c->handle, bytes, "held", &id), expected);
	if (expected)
		return;
	fresh_id(id);
	if (is_kernel() && !bytes)
		bytes = 1;
	m.records[m.record_count++] = (struct m_record){ c->id, bytes, id, 0 };
}

static void step_hold_drop(struct m_client *c)
{
	unsigned i = m.record_count ? pick(m.record_count) : 0;
	uint64_t id = m.record_count ? m.records[i].hold : 0;
	int expected = !id ? -ENOENT : m.records[i].owner != c->id ? -EPERM : 0;

	assert_int_equal(m.ops->hold_drop(c->handle, id), expected);
	if (!expected)
		memmove(&m.records[i], &m.records[i + 1],
			(--m.record_count - i) * sizeof(m.records[0]));
}

static void drop_hold(uint64_t id)
{
	unsigned i = 0;

	while (m.records[i].hold != id)
		i++;
	memmove(&m.records[i], &m.records[i + 1], (--m.record_count - i) * sizeof(m.records[0]));
}

/* What is over stays so; the rest may have changed since it was told. */
static void check_event(const struct otte_event *event)
{
	assert_true(event->loan <= m.last_id && event->region <= m.last_id);
	switch (event->kind) {
	case OTTE_EVENT_WITHDRAWN:
	case OTTE_EVENT_SETTLED:
	case OTTE_EVENT_REVOKED:
		assert_int_not_equal(event->loan, 0);
		assert_null(loan_by(event->loan));
		break;
	case OTTE_EVENT_OWNER_GONE:
		assert_true(!loan_by(event->loan) || loan_by(event->loan)->lender_left);
		break;
	case OTTE_EVENT_REGION_GONE:
		assert_int_equal(event->loan, 0);
		assert_int_not_equal(event->region, 0);
		assert_null(region_by(event->region));
		break;
	default:
		assert_int_equal(event->kind, OTTE_EVENT_OFFERED);
	}
}

static int is_end(uint32_t kind)
{
	return kind == OTTE_EVENT_SETTLED || kind == OTTE_EVENT_REVOKED;
}

/* The end of a loan is told as it was, and once: what was heard is not expected any more. */
static void hear_end(struct m_client *c, const struct otte_event *event)
{
	struct otte_event *row;
	uint32_t evidence;
	unsigned i;

	for (i = c->tail; i != c->head; i++)
		if (c->events[i % EVENTS].loan == event->loan &&
		    c->events[i % EVENTS].kind == event->kind)
			break;
	assert_int_not_equal(i, c->head);
	row = &c->events[i % EVENTS];
	/* To a borrower the module says REVOKED whoever took it. */
	evidence = row->kind == OTTE_EVENT_REVOKED ? OTTE_EVIDENCE_REVOKED : row->evidence;
	assert_int_equal(event->evidence, evidence);
	assert_int_equal(event->tag, row->tag);
	row->loan = 0;
}

/* Over the module: all that there is, and no loan's end is missing. */
static void read_all(struct m_client *c)
{
	struct otte_event event;
	unsigned i;
	int rc;

	while (!(rc = m.ops->event_next(c->handle, &event))) {
		check_event(&event);
		if (is_end(event.kind))
			hear_end(c, &event);
	}
	assert_int_equal(rc, -EAGAIN);
	for (i = c->tail; i != c->head; i++)
		if (is_end(c->events[i % EVENTS].kind))
			assert_int_equal(c->events[i % EVENTS].loan, 0);
	c->tail = c->head;
}

/* Over the module: by the record's id, which is its object's. */
static void step_release_listed(unsigned i)
{
	static struct otte_retained_info rows[LISTED];
	ssize_t count = m.ops->dump_retained(m.ledger, rows, LISTED);
	struct m_loan *loan;
	int expected = 0;

	assert_in_range(count, 0, LISTED);
	if (i >= count)
		return;
	if (rows[i].kind == OTTE_RETAINED_HOLD && client_by(rows[i].owner))
		expected = -EBUSY;
	assert_int_equal(m.ops->release(m.ledger, rows[i].id), expected);
	if (expected)
		return;
	if (rows[i].kind == OTTE_RETAINED_HOLD)
		drop_hold(rows[i].id);
	else if (rows[i].kind == OTTE_RETAINED_LOAN)
		over(loan_by(rows[i].id), OTTE_EVIDENCE_FORCED, 2);
	else
		while ((loan = next_loan(0, of_region, rows[i].id)))
			over(loan, OTTE_EVIDENCE_FORCED, 2);
	/* Its lender counts what it reads. */
	if (client_by(rows[i].owner))
		read_all(client_by(rows[i].owner));
}

static void step_release(unsigned i)
{
	static struct otte_retained_info rows[RECORDS];
	struct m_loan *loan;
	uint64_t region;

	if (is_kernel()) {
		step_release_listed(i);
		return;
	}

	if (i >= m.record_count)
		return;
	assert_int_equal(m.ops->dump_retained(m.ledger, rows, RECORDS), m.record_count);
	assert_int_equal(m.ops->release(m.ledger, rows[i].id), 0);
	region = m.records[i].region;
	if (m.records[i].hold) {
		memmove(&m.records[i], &m.records[i + 1],
			(--m.record_count - i) * sizeof(m.records[0]));
		return;
	}
	while ((loan = next_loan(0, of_region, region)))
		over(loan, OTTE_EVIDENCE_FORCED, 2);
}

static void step_event(struct m_client *c)
{
	struct otte_event event;
	int expected = c->head == c->tail ? -EAGAIN : 0;

	if (is_kernel()) {
		read_all(c);
		return;
	}
	assert_int_equal(m.ops->event_next(c->handle, &event), expected);
	if (!expected)
		assert_memory_equal(&event, &c->events[c->tail++ % EVENTS], sizeof(event));
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static int any(const struct m_loan *loan, uint64_t unused)
{
	(void)loan;
	(void)unused;
	return 1;
}

/* What only the lender's process knows is not there once it has left. */
static void compare_terms(const struct otte_loan_info *row, const struct m_loan *loan)
{
	if (!is_kernel() || client_by(loan->lender)) {
		assert_memory_equal(&row->terms, &loan->terms, sizeof(loan->terms));
		return;
	}
	assert_int_equal(row->terms.region, loan->terms.region);
	assert_int_equal(row->terms.offset, loan->terms.offset);
	assert_int_equal(row->terms.length, loan->terms.length);
	assert_int_equal(row->terms.right, loan->terms.right);
	assert_int_equal(row->terms.tag, loan->terms.tag);
	assert_memory_equal(&row->terms.borrower, &loan->terms.borrower,
			    sizeof(loan->terms.borrower));
}

/* Each that is listed, and no other: their number is that of the sums. */
static void compare_listed(void)
{
	static struct otte_retained_info rows[LISTED];
	ssize_t count = m.ops->dump_retained(m.ledger, rows, LISTED), i;
	const struct m_region *region;
	const struct m_loan *loan;
	unsigned k;

	assert_int_equal(count, sums().retained);
	for (i = 0; i < count; i++) {
		assert_true(!i || rows[i].id > rows[i - 1].id);
		switch (rows[i].kind) {
		case OTTE_RETAINED_REGION:
			region = region_by(rows[i].id);
			assert_true(region && region->orphaned);
			assert_int_equal(rows[i].owner, region->owner);
			assert_int_equal(rows[i].bytes, region->claim.length);
			assert_int_equal(rows[i].loans, loans_on(region->id));
			break;
		case OTTE_RETAINED_LOAN:
			loan = loan_by(rows[i].id);
			assert_true(loan && is_record(loan));
			assert_int_equal(rows[i].owner, loan->lender);
			assert_int_equal(rows[i].bytes, loan->terms.length);
			break;
		default:
			for (k = 0; k < m.record_count && m.records[k].hold != rows[i].id; k++)
				;
			assert_true(k < m.record_count);
			assert_int_equal(rows[i].owner, m.records[k].owner);
			assert_int_equal(rows[i].bytes, m.records[k].bytes);
		}
	}
}

static void compare_dumps(void)
{
	static struct otte_retained_info records[RECORDS];
	static struct otte_loan_info rows[16384];
	ssize_t count = m.ops->dump_loans(m.ledger, rows, ARRAY_SIZE(rows)), i;
	const struct m_loan *loan;
	uint64_t at = 0;

	assert_in_range(count, 0, ARRAY_SIZE(rows));
	for (i = 0; i < count; i++) {
		if (rows[i].state > OTTE_LOAN_EXPOSED)
			continue; /* over, with events not yet read */
		loan = next_loan(at, any, 0);
		assert_non_null(loan);
		at = loan->id;
		assert_int_equal(rows[i].id, loan->id);
		assert_int_equal(rows[i].lender, loan->lender);
		assert_int_equal(rows[i].state, loan->exposed);
		compare_terms(&rows[i], loan);
	}
	assert_null(next_loan(at, any, 0));
	if (is_kernel()) {
		compare_listed();
		return;
	}
	assert_int_equal(m.ops->dump_retained(m.ledger, records, RECORDS), m.record_count);
	for (i = 0; i < m.record_count; i++) {
		assert_int_equal(records[i].owner, m.records[i].owner);
		assert_int_equal(records[i].bytes, m.records[i].bytes);
		assert_int_equal(records[i].loans,
				 m.records[i].hold ? 0 : loans_on(m.records[i].region));
	}
}

/* Mostly one that is live. */
static uint64_t some_loan(void)
{
	uint64_t id = 0;
	unsigned i;

	for (i = 0; !id && i < 20; i++)
		id = m.loans[pick(LOANS)].id;
	return id;
}

/* Half of the time one of the loan's two sides, else whoever it is. */
static struct m_client *some_client(uint64_t loan)
{
	const struct m_loan *l = loan_by(loan);
	struct m_client *c = NULL;

	if (l && pick(2))
		c = client_by(pick(2) && l->terms.borrower.client ? l->terms.borrower.client :
								    l->lender);
	return c ? c : &m.clients[pick(CLIENTS)];
}

static void step(void)
{
	uint64_t loan = some_loan();
	struct m_client *c = some_client(loan);

	if (!c->handle) {
		step_open(c);
		return;
	}
	switch (pick(32)) {
	case 0:
		if (!pick(3))
			step_close(c);
		break;
	case 1:
	case 2:
	case 3:
		step_add(c);
		break;
	case 4:
		step_del(c);
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		step_expose(c, loan, 1);
		break;
	case 9:
	case 10:
		step_expose(c, loan, 0);
		break;
	case 11:
	case 12:
	case 22:
	case 23:
		step_settle(c, loan);
		break;
	case 13:
		step_withdraw(c, loan);
		break;
	case 14:
		step_revoke(c, loan);
		break;
	case 15:
		if (!pick(8))
			step_fence(c);
		break;
	case 16:
		step_hold(c);
		break;
	case 17:
		step_hold_drop(c);
		break;
	case 18:
		step_release(pick(2 * m.record_count + 1));
		break;
	case 19:
	case 20:
	case 21:
		step_event(c);
		break;
	default:
		step_offer(c);
	}
}

static void walk(unsigned seed)
{
	static const struct otte_ledger_limits limits = {
		.regions = UINT64_MAX,
		.registered_bytes = LIMIT_REGISTERED,
		.loans = UINT64_MAX,
		.lent_bytes = LIMIT_LENT,
		.retained_bytes = LIMIT_RETAINED,
	};
	const unsigned steps = is_kernel() ? KERNEL_STEPS : STEPS;
	struct otte_ledger_counters expected, counters;
	unsigned i;

	memset(&m, 0, sizeof(m));
	m.seed = seed;
	assert_int_equal(backend->open(&limits, &m.ledger), 0);
	m.ops = m.ledger->ops;
	for (i = 0; i < steps; i++) {
		step();
		m.ops->counters(m.ledger, &counters);
		expected = sums();
		assert_memory_equal(&counters, &expected, sizeof(counters));
		if (i % 32 == 0)
			compare_dumps();
	}
	for (i = 0; i < CLIENTS; i++) {
		while (m.clients[i].handle && m.clients[i].head != m.clients[i].tail)
			step_event(&m.clients[i]);
		if (m.clients[i].handle)
			step_close(&m.clients[i]);
	}
	while (sums().retained)
		step_release(0);
	m.ops->counters(m.ledger, &counters);
	expected = (struct otte_ledger_counters){ .loans_settled = m.settled };
	assert_memory_equal(&counters, &expected, sizeof(counters));
	m.ops->close(m.ledger);
}

static void a_random_walk_agrees_with_the_model(void **unused)
{
	const char *given = getenv("OTTE_TEST_SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : 1;
	unsigned walks = given ? 1 : is_kernel() ? 3 : is_small() ? 1 : 12, left;

	(void)unused;
	for (left = walks; left; left--, seed++) {
		print_message("OTTE_TEST_SEED=%u\n", seed);
		walk(seed);
		print_message("%llu loans settled\n", (unsigned long long)m.settled);
		assert_true(m.settled > (is_kernel() ? 40 : 400)); /* it went somewhere */
	}
}

const struct CMUnitTest walk_tests[] = {
	cmocka_unit_test(a_random_walk_agrees_with_the_model),
};
const size_t walk_count = ARRAY_SIZE(walk_tests);
