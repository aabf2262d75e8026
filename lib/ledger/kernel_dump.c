/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The module's dumps as the interface's rows. The dump is the node's, not this ledger's: it shows
 * what the module shows this user. No state; called with or without a client's lock.
 *
 * What only the lender's process knows of a remote loan (which evidence it accepts, that it stands,
 * that it is not yet exposed), and the text of a hold, are added where that process is this one.
 */
#include "ledger/kernel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/util.h"

/* ---- Rows ------------------------------------------------------------------------------------ */

static uint32_t evidence_from(uint64_t bit)
{
	return bit ? (uint32_t)__builtin_ctzll(bit) + 1 : 0;
}

static void describe_loan(const struct otte_netlink_row *row, struct otte_loan_info *info)
{
	struct otte_loan_terms *terms = &info->terms;

	memset(info, 0, sizeof(*info));
	info->id = row->num[OTTE_A_ID];
	info->lender = row->num[OTTE_A_OWNER];
	info->state = (uint32_t)row->num[OTTE_A_STATE]; /* in the same order */
	/* An offer that came to nothing ends with no evidence here. */
	if (info->state == OTTE_LOAN_SETTLED)
		info->evidence = evidence_from(row->num[OTTE_A_EVIDENCE]);
	terms->region = row->num[OTTE_A_REGION];
	terms->offset = row->num[OTTE_A_OFFSET];
	terms->length = row->num[OTTE_A_BYTES];
	terms->right = row->num[OTTE_A_DIRECTION] & OTTE_MODULE_WRITE ? OTTE_LOAN_WRITE :
									OTTE_LOAN_READ;
	if (row->num[OTTE_A_FLAGS] & OTTE_MODULE_REVOCABLE)
		terms->flags |= OTTE_LOAN_REVOCABLE;
	if (row->num[OTTE_A_FLAGS] & OTTE_MODULE_MAPPABLE)
		terms->flags |= OTTE_LOAN_MAPPABLE;
	if (row->num[OTTE_A_FLAGS] & OTTE_MODULE_STANDING)
		terms->flags |= OTTE_LOAN_STANDING;
	if (row->num[OTTE_A_FLAGS] & OTTE_MODULE_BY_ADDRESS)
		terms->flags |= OTTE_LOAN_BY_ADDRESS;
	terms->accepted = (uint32_t)row->num[OTTE_A_ACCEPTED] << 1;
	terms->tag = row->num[OTTE_A_TAG];
	terms->borrower.client = row->num[OTTE_A_BORROWER];
	terms->borrower.epoch = row->num[OTTE_A_INCARNATION];
	if (!terms->borrower.client)
		kernel_peer_decode(row->peer, &terms->borrower);
}

static void describe_retained(const struct otte_netlink_row *row, struct otte_retained_info *info)
{
	static const uint32_t kinds[] = {
		[OTTE_NL_KIND_REGION] = OTTE_RETAINED_REGION,
		[OTTE_NL_KIND_LOAN] = OTTE_RETAINED_LOAN,
		[OTTE_NL_KIND_HOLD] = OTTE_RETAINED_HOLD,
	};
	uint64_t kind = row->num[OTTE_A_KIND];
	int reason = (int)row->num[OTTE_A_REASON];

	memset(info, 0, sizeof(*info));
	info->id = row->num[OTTE_A_ID];
	info->kind = kind <= OTTE_NL_KIND_HOLD ? kinds[kind] : 0;
	info->bytes = row->num[OTTE_A_BYTES];
	info->owner = row->num[OTTE_A_OWNER];
	info->owner_pid = row->num[OTTE_A_TGID];
	info->since_ns = otte_now_ns() - row->num[OTTE_A_AGE_NS];
	switch (info->kind) {
	case OTTE_RETAINED_REGION:
		snprintf(info->reason, sizeof(info->reason),
			 "%s left before its loans had evidence", row->comm);
		break;
	case OTTE_RETAINED_LOAN:
		info->loans = 1;
		snprintf(info->reason, sizeof(info->reason), "its borrower left without evidence");
		break;
	default:
		snprintf(info->reason, sizeof(info->reason), "%s",
			 reason ? strerror(reason) : "not proven drained");
	}
}

/* ---- Dumps ----------------------------------------------------------------------------------- */

struct taken {
	void *rows;
	size_t capacity, count;
};

static void restart(void *arg)
{
	((struct taken *)arg)->count = 0;
}

static void take_loan(void *arg, const struct otte_netlink_row *row)
{
	struct taken *taken = arg;

	if (taken->count < taken->capacity)
		describe_loan(row, (struct otte_loan_info *)taken->rows + taken->count);
	taken->count++;
}

static struct kernel_client *client_by(struct kernel_ledger *ledger, uint64_t id)
{
	const struct kernel_member *member = kernel_member_find(ledger, id);

	return member ? member->client : NULL;
}

static void complete_loans(struct kernel_ledger *ledger, struct otte_loan_info *rows, size_t count)
{
	const struct kernel_client *lender;
	size_t i;

	pthread_mutex_lock(&ledger->lock);
	for (i = 0; i < count; i++) {
		lender = client_by(ledger, rows[i].lender);
		if (lender)
			kernel_loan_complete(lender, &rows[i]);
	}
	pthread_mutex_unlock(&ledger->lock);
}

static void complete_retained(struct kernel_ledger *ledger, struct otte_retained_info *rows,
			      size_t count)
{
	const struct kernel_client *owner;
	size_t i;

	pthread_mutex_lock(&ledger->lock);
	for (i = 0; i < count; i++) {
		owner = client_by(ledger, rows[i].owner);
		if (owner)
			kernel_hold_complete(owner, &rows[i]);
	}
	pthread_mutex_unlock(&ledger->lock);
}

ssize_t kernel_dump_loans(struct kernel_ledger *ledger, struct otte_loan_info *rows,
			  size_t capacity)
{
	struct taken taken = { rows, capacity, 0 };
	const struct otte_netlink_sink sink = { restart, take_loan, &taken };
	int rc = otte_netlink_dump(&ledger->netlink, OTTE_NL_LOANS, &sink);

	if (rc)
		return rc;
	complete_loans(ledger, rows, min_u64(taken.count, capacity));
	return (ssize_t)taken.count;
}

static void take_retained(void *arg, const struct otte_netlink_row *row)
{
	struct taken *taken = arg;

	if (taken->count < taken->capacity)
		describe_retained(row, (struct otte_retained_info *)taken->rows + taken->count);
	taken->count++;
}

/* How many loans lack evidence in a region that is retained. */
static void add_loans(void *arg, const struct otte_netlink_row *row)
{
	struct taken *taken = arg;
	struct otte_retained_info *records = taken->rows;
	size_t i;

	for (i = 0; i < taken->count && i < taken->capacity; i++)
		if (records[i].kind == OTTE_RETAINED_REGION && records[i].id == row->num[OTTE_A_ID])
			records[i].loans = (uint32_t)row->num[OTTE_A_EXPOSED];
}

static void keep(void *arg)
{
	(void)arg;
}

ssize_t kernel_dump_retained(struct kernel_ledger *ledger, struct otte_retained_info *rows,
			     size_t capacity)
{
	struct taken taken = { rows, capacity, 0 };
	const struct otte_netlink_sink sink = { restart, take_retained, &taken };
	const struct otte_netlink_sink loans = { keep, add_loans, &taken };
	int rc = otte_netlink_dump(&ledger->netlink, OTTE_NL_RETAINED, &sink);

	if (!rc && taken.count && capacity)
		rc = otte_netlink_dump(&ledger->netlink, OTTE_NL_REGIONS, &loans);
	if (rc)
		return rc;
	complete_retained(ledger, rows, min_u64(taken.count, capacity));
	return (ssize_t)taken.count;
}

/* ---- One row --------------------------------------------------------------------------------- */

struct wanted {
	uint64_t id;
	bool found;
	struct otte_netlink_row row;
};

static void lose(void *arg)
{
	((struct wanted *)arg)->found = false;
}

static void match(void *arg, const struct otte_netlink_row *row)
{
	struct wanted *wanted = arg;

	if (row->num[OTTE_A_ID] != wanted->id)
		return;
	wanted->found = true;
	wanted->row = *row;
}

static int look(struct kernel_ledger *ledger, uint8_t command, struct wanted *wanted)
{
	const struct otte_netlink_sink sink = { lose, match, wanted };
	int rc = otte_netlink_dump(&ledger->netlink, command, &sink);

	if (rc)
		return rc;
	return wanted->found ? 0 : -ENOENT;
}

int kernel_look_loan(struct kernel_ledger *ledger, uint64_t loan, struct otte_loan_info *info)
{
	struct wanted wanted = { .id = loan };
	int rc = look(ledger, OTTE_NL_LOANS, &wanted);

	if (!rc)
		describe_loan(&wanted.row, info);
	return rc;
}

int kernel_look_region(struct kernel_ledger *ledger, uint64_t region, uint64_t *owner,
		       uint64_t *exposed)
{
	struct wanted wanted = { .id = region };
	int rc = look(ledger, OTTE_NL_REGIONS, &wanted);

	*owner = wanted.row.num[OTTE_A_OWNER];
	*exposed = wanted.row.num[OTTE_A_EXPOSED];
	return rc;
}

int kernel_look_retained(struct kernel_ledger *ledger, uint64_t id, struct otte_retained_info *info)
{
	struct wanted wanted = { .id = id };
	int rc = look(ledger, OTTE_NL_RETAINED, &wanted);

	if (!rc)
		describe_retained(&wanted.row, info);
	return rc;
}

/* ---- Counting -------------------------------------------------------------------------------- */

struct count {
	struct kernel_ledger *ledger;
	uint64_t rows, bytes;
	uint64_t below; /* rows in a state below this count; 0: all do */
};

static void recount(void *arg)
{
	struct count *count = arg;

	count->rows = count->bytes = 0;
}

static void count_row(void *arg, const struct otte_netlink_row *row)
{
	struct count *count = arg;

	if (!kernel_client_is_ours(count->ledger, row->num[OTTE_A_OWNER]))
		return;
	if (count->below && row->num[OTTE_A_STATE] >= count->below)
		return;
	count->rows++;
	count->bytes += row->num[OTTE_A_BYTES];
}

static int count_dump(struct kernel_ledger *ledger, uint8_t command, uint64_t below, uint64_t *rows,
		      uint64_t *bytes)
{
	struct count count = { .ledger = ledger, .below = below };
	const struct otte_netlink_sink sink = { recount, count_row, &count };
	int rc = otte_netlink_dump(&ledger->netlink, command, &sink);

	*rows = count.rows;
	*bytes = count.bytes;
	return rc;
}

int kernel_count(struct kernel_ledger *ledger, struct otte_ledger_counters *counters)
{
	int rc;

	rc = count_dump(ledger, OTTE_NL_REGIONS, OTTE_NL_REGION_GONE, &counters->regions,
			&counters->registered_bytes);
	if (!rc)
		rc = count_dump(ledger, OTTE_NL_LOANS, OTTE_NL_LOAN_SETTLED, &counters->loans,
				&counters->lent_bytes);
	if (!rc)
		rc = count_dump(ledger, OTTE_NL_RETAINED, 0, &counters->retained,
				&counters->retained_bytes);
	return rc;
}
