/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns each client's queue of events. An event is part of the object that it speaks of, so raising
 * one cannot fail; the object outlives its own end until the event was read or its reader left.
 * Caller's lock: the ledger's.
 */
#include "ledger/process.h"

#include <assert.h>
#include <errno.h>

/* No reader (remote, or left): nobody to tell. */
void process_event_raise(struct process_event *event, struct process_client *reader, uint32_t kind,
			 uint32_t evidence)
{
	assert(!event->reader);
	if (!reader)
		return;
	event->reader = reader;
	event->kind = kind;
	event->evidence = evidence;
	TAILQ_INSERT_TAIL(&reader->events, event, link);
}

/* Takes the event off its reader's queue, which may free the object around it. */
static void take(struct process_client *reader, struct process_event *event)
{
	struct process_ledger *ledger = process_ledger_of(reader);

	TAILQ_REMOVE(&reader->events, event, link);
	event->reader = NULL;
	if (event->loan)
		process_loan_event_read(ledger, event->loan);
	else
		process_region_event_read(ledger, event->region);
}

static void describe(const struct process_event *event, struct otte_event *out)
{
	*out = (struct otte_event){ .kind = event->kind, .evidence = event->evidence };
	if (event->loan) {
		out->loan = event->loan->id;
		out->region = event->loan->terms.region;
		out->tag = event->loan->terms.tag;
	} else {
		out->region = event->region->id;
	}
}

int process_event_next(struct process_client *client, struct otte_event *out)
{
	struct process_event *event = TAILQ_FIRST(&client->events);

	if (!event)
		return -EAGAIN;
	describe(event, out);
	take(client, event);
	return 0;
}

void process_event_drop_all(struct process_client *client)
{
	struct process_event *event;

	while ((event = TAILQ_FIRST(&client->events)))
		take(client, event);
}
