/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns what the module told a client and nobody has asked for yet. The module keeps a loan's
 * record, and its charge, until both sides read what they were told of it. So this reads along
 * whenever the client itself ended something, passes on what the interface knows, and keeps the
 * rest to itself.
 *
 * Whoever asks for no events must not stay charged for what it ended, however much others have to
 * tell it. So reading never stops for want of a reader: of what was taken in and not asked for, the
 * oldest is forgotten once there is too much, or no memory, and the next who asks hears how much
 * that was. What it meant for this client's own tables was noted before. Caller's lock: the client's.
 */
#include "ledger/kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define EVENTS_MAX 1024 /* of a client, taken in and not passed on */
/*
 * Read at one go. Others may tell as fast as this reads, so it must end; what they can have waiting
 * at one client, 4096 offers and 1024 nonces, and an own event behind all that, is less.
 */
#define PUMP_MAX 8192

static uint32_t kind_of(const struct otte_module_event *told)
{
	switch (told->type) {
	case OTTE_MODULE_OFFERED:
		return OTTE_EVENT_OFFERED;
	case OTTE_MODULE_WITHDRAWN:
		return OTTE_EVENT_WITHDRAWN;
	case OTTE_MODULE_OWNER_GONE:
		return OTTE_EVENT_OWNER_GONE;
	case OTTE_MODULE_REVOKED:
		return OTTE_EVENT_REVOKED;
	case OTTE_MODULE_SETTLED: /* an offer that its borrower declined, or left behind */
		return told->evidence == OTTE_EVIDENCE_NEVER_EXPOSED ? OTTE_EVENT_WITHDRAWN :
								       OTTE_EVENT_SETTLED;
	case OTTE_MODULE_REGION_GONE:
		return OTTE_EVENT_REGION_GONE;
	default:
		return 0;
	}
}

/* A borrower of this ledger counted it when it gave its receipt, and may have closed since. */
static bool is_counted(struct kernel_client *lender, const struct kernel_loan *loan,
		       const struct otte_module_event *told)
{
	if (told->evidence != OTTE_EVIDENCE_RETURNED)
		return false;
	return loan ? loan->within : kernel_client_is_open(kernel_ledger_of(lender), told->other);
}

/* Whether the lender is to hear of an end: not of those that it made, as of all remote loans. */
static bool settled(struct kernel_client *lender, const struct otte_module_event *told)
{
	struct kernel_loan *loan = kernel_loan_take(lender, &lender->lent, told->object);
	bool heard = told->other && !(loan && loan->ended);

	if (heard && kind_of(told) == OTTE_EVENT_SETTLED && !is_counted(lender, loan, told))
		kernel_count_settled(kernel_ledger_of(lender), 1);
	free(loan);
	return heard;
}

/* Takes note of it; true if the interface passes it on. */
static bool note(struct kernel_client *client, const struct otte_module_event *told)
{
	switch (told->type) {
	case OTTE_MODULE_SETTLED:
		return settled(client, told);
	case OTTE_MODULE_REVOKED:
		free(kernel_loan_take(client, &client->accepted, told->object));
		return true;
	case OTTE_MODULE_REGION_GONE:
		kernel_region_gone(client, told->object);
		return true;
	case OTTE_MODULE_OFFERED:
		kernel_offer_note(client, told);
		return true;
	case OTTE_MODULE_WITHDRAWN:
		kernel_offer_forget(client, told->object);
		return true;
	case OTTE_MODULE_ATTEST:
		kernel_attest_note(client, told);
		return false;
	case OTTE_MODULE_QUOTA:
		client->refusal = *told;
		return false;
	default:
		return kind_of(told) != 0;
	}
}

static void put_into_words(const struct otte_module_event *told, struct otte_event *event)
{
	*event = (struct otte_event){
		.kind = kind_of(told),
		.region = told->region,
		.loan = told->object,
		.tag = told->tag,
	};
	if (event->kind == OTTE_EVENT_SETTLED)
		event->evidence = told->evidence;
	if (event->kind == OTTE_EVENT_REVOKED)
		event->evidence = OTTE_EVIDENCE_REVOKED;
	if (event->kind == OTTE_EVENT_REGION_GONE) {
		event->region = told->object;
		event->loan = 0;
	}
}

/* The next one, taken note of: 1 if it is to be passed on, 0 if not; -EAGAIN. */
static int read_one(struct kernel_client *client, struct otte_module_event *told)
{
	int rc = otte_module_event(client->fd, kernel_ledger_of(client)->facts.event_bytes, told);

	return rc ? rc : note(client, told);
}

/* The memory of the oldest, or NULL: there is none. */
static struct kernel_event *forget_oldest(struct kernel_client *client)
{
	struct kernel_event *event = TAILQ_FIRST(&client->events);

	client->missed++;
	if (!event)
		return NULL;
	TAILQ_REMOVE(&client->events, event, link);
	client->event_count--;
	return event;
}

static void keep(struct kernel_client *client, const struct otte_module_event *told)
{
	struct kernel_event *event = NULL;

	if (client->event_count < EVENTS_MAX)
		event = malloc(sizeof(*event));
	if (!event)
		event = forget_oldest(client);
	if (!event)
		return;
	put_into_words(told, &event->event);
	TAILQ_INSERT_TAIL(&client->events, event, link);
	client->event_count++;
}

void kernel_event_pump(struct kernel_client *client)
{
	struct otte_module_event told;
	int rc = 0, i;

	for (i = 0; rc >= 0 && i < PUMP_MAX; i++) {
		rc = read_one(client, &told);
		if (rc > 0)
			keep(client, &told);
	}
}

static void take_first(struct kernel_client *client, struct otte_event *out)
{
	struct kernel_event *event = TAILQ_FIRST(&client->events);

	*out = event->event;
	TAILQ_REMOVE(&client->events, event, link);
	client->event_count--;
	free(event);
}

/* What was forgotten is older than all that was kept. */
static void take_missed(struct kernel_client *client, struct otte_event *event)
{
	*event = (struct otte_event){ .kind = OTTE_EVENT_MISSED, .missed = client->missed };
	client->missed = 0;
}

/* 1, or negative. Others' nonces, which come as fast as this reads, are passed on to nobody. */
static int read_to_pass_on(struct kernel_client *client, struct otte_module_event *told)
{
	int rc = 0, i;

	for (i = 0; !rc && i < PUMP_MAX; i++)
		rc = read_one(client, told);
	return rc ? rc : -EAGAIN;
}

int kernel_event_next(struct kernel_client *client, struct otte_event *event)
{
	struct otte_module_event told;
	int rc;

	if (client->missed) {
		take_missed(client, event);
		return 0;
	}
	if (!TAILQ_EMPTY(&client->events)) {
		take_first(client, event);
		return 0;
	}
	rc = read_to_pass_on(client, &told);
	if (rc < 0)
		return rc == -EAGAIN ? rc : kernel_refused(client, rc, "client", client->id);
	put_into_words(&told, event);
	return 0;
}

void kernel_event_free_all(struct kernel_client *client)
{
	struct otte_event ignored;

	while (!TAILQ_EMPTY(&client->events))
		take_first(client, &ignored);
}
