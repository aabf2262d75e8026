/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: native objects that a client could not prove drained. See hold.c.
 */
#ifndef OTTE_HOLD_H
#define OTTE_HOLD_H

#include <linux/kref.h>
#include <linux/list.h>

#include "event.h"
#include "quota.h"
#include "retained.h"

struct otte_client;

/**
 * struct otte_hold_record - a native object that a client could not prove drained
 * @ref: registry, events, work
 * @owner: referenced
 * @owner_link: in owner->holds
 * @kind: enum otte_hold_kind
 * @charge: what was charged for it besides retained bytes
 * @retained: listed from the start
 * @event: HOLD_RELEASED
 */
struct otte_hold_record {
	struct kref ref;
	struct otte_client *owner;
	struct list_head owner_link;
	u32 kind;
	struct otte_charge charge;
	struct otte_retained retained;
	struct otte_event_node event;
};

void otte_hold_put(struct otte_hold_record *hold);
void otte_hold_get(struct otte_hold_record *hold);
/* Ends it for good. Ledger held. */
void otte_hold_end(struct otte_hold_record *hold);
int otte_hold_ioctl(struct otte_client *client, void *arg);
int otte_hold_drop_ioctl(struct otte_client *client, void *arg);

#endif /* OTTE_HOLD_H */
