/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the process back end's ledger and its clients: the rules of docs/architecture.md, "Ledger",
 * for clients of one process. It has no backing of its own (every region is bookkeeping) and
 * attests nothing that the process does not know.
 *
 * One mutex for each ledger; every op takes it once and calls the owner of the object, whose
 * functions run under it (process.h). 64 threads may call at once and wait for each other only for
 * as long as a table look-up takes. Nothing is logged or called back under it.
 *
 * A client lives from client_open to client_close; what it leaves behind (retained regions, holds,
 * loans it borrowed) names it by id alone.
 */
#include "ledger/process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

static struct process_ledger *to_ledger(struct otte_ledger *ledger)
{
	return (struct process_ledger *)ledger;
}

static struct process_client *to_client(struct otte_ledger_client *client)
{
	return (struct process_client *)client;
}

static struct process_client *enter(struct otte_ledger_client *handle)
{
	struct process_client *client = to_client(handle);

	pthread_mutex_lock(&process_ledger_of(client)->lock);
	return client;
}

static int leave(struct process_client *client, int rc)
{
	pthread_mutex_unlock(&process_ledger_of(client)->lock);
	return rc;
}

/* ---- Clients --------------------------------------------------------------------------------- */

static int add_client(struct process_ledger *ledger, struct process_client *client)
{
	client->id = ledger->next_id + 1;
	HASH_ADD(hh, ledger->clients, id, sizeof(client->id), client);
	if (!client->hh.tbl)
		return otte_fail(-ENOMEM, "no memory for a ledger client");
	ledger->next_id++;
	ledger->counters.clients++;
	return 0;
}

static int client_open(struct otte_ledger *handle, const char *comm, uint32_t flags,
		       struct otte_ledger_client **out)
{
	struct process_ledger *ledger = to_ledger(handle);
	struct process_client *client = calloc(1, sizeof(*client));
	int rc;

	if (!client)
		return otte_fail(-ENOMEM, "no memory for a ledger client");
	client->base.ledger = handle;
	client->pid = (uint64_t)getpid();
	client->no_offers = flags & OTTE_CLIENT_NO_OFFERS;
	snprintf(client->comm, sizeof(client->comm), "%s", comm ? comm : "");
	TAILQ_INIT(&client->regions);
	TAILQ_INIT(&client->borrowed);
	TAILQ_INIT(&client->events);
	pthread_mutex_lock(&ledger->lock);
	rc = add_client(ledger, client);
	pthread_mutex_unlock(&ledger->lock);
	if (rc)
		free(client);
	else
		*out = &client->base;
	return rc;
}

static uint64_t client_id(const struct otte_ledger_client *handle)
{
	return ((const struct process_client *)handle)->id; /* never changes: no lock */
}

/* First as an owner, then as a borrower, so that a loan to itself meets both in that order. */
static void remove_client(struct process_ledger *ledger, struct process_client *client)
{
	struct process_region *region;

	while ((region = TAILQ_FIRST(&client->regions)))
		process_region_orphan(client, region);
	process_loan_borrower_left(client);
	process_event_drop_all(client);
	process_fence_free(client);
	HASH_DEL(ledger->clients, client);
	ledger->counters.clients--;
}

static void client_close(struct otte_ledger_client *handle)
{
	struct process_client *client = enter(handle);
	struct process_ledger *ledger = process_ledger_of(client);

	remove_client(ledger, client);
	pthread_mutex_unlock(&ledger->lock);
	free(client);
}

/* ---- Ops of a client ------------------------------------------------------------------------- */

static int region_add(struct otte_ledger_client *handle, const struct otte_region_claim *claim,
		      uint64_t *region)
{
	struct process_client *client = enter(handle);

	return leave(client, process_region_add(client, claim, region));
}

static int region_del(struct otte_ledger_client *handle, uint64_t region)
{
	struct process_client *client = enter(handle);

	return leave(client, process_region_del(client, region));
}

static int region_watch(struct otte_ledger_client *handle, uint64_t region,
			struct otte_region_watch *watch)
{
	struct process_client *client = enter(handle);

	return leave(client, process_region_watch(client, region, watch));
}

static int loan_offer(struct otte_ledger_client *handle, const struct otte_loan_terms *terms,
		      uint64_t *loan)
{
	struct process_client *client = enter(handle);

	return leave(client, process_loan_offer(client, terms, loan));
}

static int loan_accept(struct otte_ledger_client *handle, uint64_t loan)
{
	struct process_client *client = enter(handle);

	return leave(client, process_loan_accept(client, loan));
}

static int loan_expose(struct otte_ledger_client *handle, uint64_t loan)
{
	struct process_client *client = enter(handle);

	return leave(client, process_loan_expose(client, loan));
}

static int loan_settle(struct otte_ledger_client *handle, uint64_t loan,
		       enum otte_evidence evidence)
{
	struct process_client *client = enter(handle);

	return leave(client, process_loan_settle(client, loan, evidence));
}

static int loan_withdraw(struct otte_ledger_client *handle, uint64_t loan)
{
	struct process_client *client = enter(handle);

	return leave(client, process_loan_withdraw(client, loan));
}

static int loan_revoke(struct otte_ledger_client *handle, uint64_t loan)
{
	struct process_client *client = enter(handle);

	return leave(client, process_loan_revoke(client, loan));
}

static int loan_take_back(struct otte_ledger_client *handle, uint64_t loan, bool revoke)
{
	struct process_client *client = enter(handle);

	return leave(client, process_loan_take_back(client, loan, revoke));
}

static int fence(struct otte_ledger_client *handle, const struct otte_borrower *who)
{
	struct process_client *client = enter(handle);

	return leave(client, process_fence_add(client, who));
}

static int hold(struct otte_ledger_client *handle, uint64_t bytes, const char *reason, uint64_t *id)
{
	struct process_client *client = enter(handle);

	return leave(client, process_hold(client, bytes, reason, id));
}

static int hold_drop(struct otte_ledger_client *handle, uint64_t id)
{
	struct process_client *client = enter(handle);

	return leave(client, process_hold_drop(client, id));
}

static int event_next(struct otte_ledger_client *handle, struct otte_event *event)
{
	struct process_client *client = enter(handle);

	return leave(client, process_event_next(client, event));
}

/* ---- Ops of the ledger ----------------------------------------------------------------------- */

static ssize_t dump_loans(struct otte_ledger *handle, struct otte_loan_info *rows, size_t capacity)
{
	struct process_ledger *ledger = to_ledger(handle);
	struct process_loan *loan;
	size_t count = 0;

	pthread_mutex_lock(&ledger->lock);
	for (loan = ledger->loans; loan; loan = loan->hh.next, count++)
		if (count < capacity)
			process_loan_describe(loan, &rows[count]);
	pthread_mutex_unlock(&ledger->lock);
	return (ssize_t)count;
}

static ssize_t dump_retained(struct otte_ledger *handle, struct otte_retained_info *rows,
			     size_t capacity)
{
	struct process_ledger *ledger = to_ledger(handle);
	struct process_record *record;
	size_t count = 0;

	pthread_mutex_lock(&ledger->lock);
	TAILQ_FOREACH(record, &ledger->records, link) {
		if (count < capacity)
			process_record_describe(record, &rows[count]);
		count++;
	}
	pthread_mutex_unlock(&ledger->lock);
	return (ssize_t)count;
}

static int release(struct otte_ledger *handle, uint64_t retained)
{
	struct process_ledger *ledger = to_ledger(handle);
	int rc;

	pthread_mutex_lock(&ledger->lock);
	rc = process_release(ledger, retained);
	pthread_mutex_unlock(&ledger->lock);
	return rc;
}

static void counters(struct otte_ledger *handle, struct otte_ledger_counters *out)
{
	struct process_ledger *ledger = to_ledger(handle);

	pthread_mutex_lock(&ledger->lock);
	*out = ledger->counters;
	out->registered_bytes = ledger->quota.used[OTTE_BUDGET_REGISTERED_BYTES];
	out->lent_bytes = ledger->quota.used[OTTE_BUDGET_LENT_BYTES];
	out->retained_bytes = ledger->quota.used[OTTE_BUDGET_RETAINED_BYTES];
	pthread_mutex_unlock(&ledger->lock);
}

/* Nobody else calls any more: no lock, so that it may log. */
static void close_ledger(struct otte_ledger *handle)
{
	struct process_ledger *ledger = to_ledger(handle);
	struct process_client *client, *next;
	struct process_record *record;

	HASH_ITER(hh, ledger->clients, client, next) {
		remove_client(ledger, client);
		free(client);
	}
	if (ledger->counters.retained)
		otte_log(OTTE_LOG_WARNING,
			 "ledger: closed with %" PRIu64 " retained records of %" PRIu64 " bytes",
			 ledger->counters.retained, ledger->quota.used[OTTE_BUDGET_RETAINED_BYTES]);
	while ((record = TAILQ_FIRST(&ledger->records)))
		process_release(ledger, record->id);
	pthread_mutex_destroy(&ledger->lock);
	free(ledger);
}

static const struct otte_ledger_ops process_ops = {
	.name = "process",
	.close = close_ledger,
	.client_open = client_open,
	.client_id = client_id,
	.client_close = client_close,
	.region_add = region_add,
	.region_del = region_del,
	.region_watch = region_watch,
	.loan_offer = loan_offer,
	.loan_accept = loan_accept,
	.loan_expose = loan_expose,
	.loan_settle = loan_settle,
	.loan_withdraw = loan_withdraw,
	.loan_revoke = loan_revoke,
	.loan_take_back = loan_take_back,
	.fence = fence,
	.hold = hold,
	.hold_drop = hold_drop,
	.event_next = event_next,
	.dump_loans = dump_loans,
	.dump_retained = dump_retained,
	.release = release,
	.counters = counters,
};

int otte_ledger_process_open(const struct otte_ledger_limits *limits, struct otte_ledger **out)
{
	struct process_ledger *ledger = calloc(1, sizeof(*ledger));

	if (!ledger)
		return otte_fail(-ENOMEM, "no memory for a ledger");
	ledger->base.ops = &process_ops;
	pthread_mutex_init(&ledger->lock, NULL);
	TAILQ_INIT(&ledger->records);
	otte_quota_init(&ledger->quota, limits);
	*out = &ledger->base;
	return 0;
}
