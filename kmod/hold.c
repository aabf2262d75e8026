// SPDX-License-Identifier: GPL-2.0-only
/*
 * Holds: native objects that their owner could not prove drained.
 *
 * Accounting only. A hold is listed as retained from the start. Its owner drops it when the proof
 * came after all; once the owner is gone only an administrator can end it. It is on owner->holds
 * and in the retained list together, under the ledger; either end takes it off both.
 */
#include <linux/slab.h>

#include "client.h"
#include "event.h"
#include "hold.h"
#include "ledger.h"
#include "quota.h"
#include "retained.h"

static void hold_free(struct kref *ref)
{
	struct otte_hold_record *hold = container_of(ref, struct otte_hold_record, ref);

	otte_client_put(hold->owner);
	kfree(hold);
}

void otte_hold_get(struct otte_hold_record *hold)
{
	kref_get(&hold->ref);
}

void otte_hold_put(struct otte_hold_record *hold)
{
	kref_put(&hold->ref, hold_free);
}

void otte_hold_end(struct otte_hold_record *hold)
{
	otte_ledger_assert_held();
	otte_retained_del(&hold->retained);
	list_del_init(&hold->owner_link);
	otte_quota_uncharge(hold->owner->payer, &hold->charge);
	otte_ledger_changed();
	otte_hold_put(hold);
}

int otte_hold_ioctl(struct otte_client *client, void *arg)
{
	struct otte_hold *uhold = arg;
	struct otte_hold_record *hold;
	struct otte_refusal why;
	struct otte_charge room;
	int err;

	if (uhold->kind >= OTTE_HOLD_COUNT)
		return -EOPNOTSUPP;
	if (!uhold->bytes || uhold->hold)
		return -EINVAL;
	hold = kzalloc(sizeof(*hold), GFP_KERNEL_ACCOUNT);
	if (!hold)
		return -ENOMEM;
	kref_init(&hold->ref);
	hold->owner = client;
	hold->kind = uhold->kind;
	hold->charge.amount[OTTE_RES_HOLDS] = 1;
	otte_client_get(client);
	otte_retained_init(&hold->retained, OTTE_RETAINED_HOLD);
	otte_event_node_init(&hold->event, OTTE_SOURCE_HOLD);
	hold->retained.id = otte_id_next();
	hold->retained.owner = client;
	hold->retained.bytes = uhold->bytes;
	hold->retained.reason = uhold->reason;
	hold->retained.tag = uhold->tag;

	/* Listing charges the bytes by force, so ask for room first, under the same lock. */
	room = hold->charge;
	room.amount[OTTE_RES_RETAINED_BYTES] = uhold->bytes;
	otte_ledger_lock();
	err = otte_quota_charge(client->payer, &room, &why);
	if (!err) {
		room.amount[OTTE_RES_HOLDS] = 0;
		otte_quota_uncharge(client->payer, &room);
		list_add(&hold->owner_link, &client->holds);
		otte_retained_add(&hold->retained);
		uhold->hold = hold->retained.id;
	}
	otte_ledger_unlock();
	if (err) {
		otte_client_refused(client, &why);
		otte_hold_put(hold);
	}
	return err;
}

int otte_hold_drop_ioctl(struct otte_client *client, void *arg)
{
	struct otte_hold_drop *drop = arg;
	struct otte_retained *record;
	int err = -ENOENT;

	otte_ledger_lock();
	record = otte_retained_find(drop->hold);
	if (record && record->kind == OTTE_RETAINED_HOLD && record->owner == client) {
		otte_hold_end(container_of(record, struct otte_hold_record, retained));
		err = 0;
	}
	otte_ledger_unlock();
	return err;
}
