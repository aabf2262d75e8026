// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fences: a client, or one incarnation of a remote peer, that gets no new loans.
 *
 * Each lender keeps its own fences; an administrator's fence is a mark on the client itself and
 * counts for everybody. The ledger orders a fence against offer, accept and expose: whichever has
 * the mutex first is first. Fences are never lifted, and end with the lender.
 */
#include <linux/slab.h>
#include <linux/string.h>

#include "client.h"
#include "event.h"
#include "fence.h"
#include "ledger.h"
#include "netlink.h"
#include "region.h"

#define FENCES_MAX	1024	/* of one lender */

/**
 * struct otte_peer_fence - a remote peer to whom a lender exposes nothing any more
 * @link: in client->peer_fences of the lender
 * @peer: who
 * @incarnation: of @peer
 */
struct otte_peer_fence {
	struct list_head link;
	u8 peer[OTTE_PEER_LEN];
	u64 incarnation;
};

bool otte_fence_blocks(struct otte_client *lender, struct otte_client *borrower)
{
	otte_ledger_assert_held();
	return lender->fenced || borrower->fenced || xa_load(&lender->fences, borrower->id);
}

bool otte_fence_blocks_peer(struct otte_client *lender, const u8 peer[OTTE_PEER_LEN],
			    u64 incarnation)
{
	struct otte_peer_fence *fence;

	otte_ledger_assert_held();
	if (lender->fenced)
		return true;
	list_for_each_entry(fence, &lender->peer_fences, link) {
		if (fence->incarnation == incarnation &&
		    !memcmp(fence->peer, peer, OTTE_PEER_LEN))
			return true;
	}
	return false;
}

void otte_fence_free_all(struct otte_client *client)
{
	struct otte_peer_fence *fence, *next;

	list_for_each_entry_safe(fence, next, &client->peer_fences, link) {
		list_del(&fence->link);
		kfree(fence);
	}
	xa_destroy(&client->fences);
}

static int fence_peer(struct otte_client *lender, const struct otte_fence *arg)
{
	struct otte_peer_fence *fence;
	int err = 0;

	fence = kzalloc(sizeof(*fence), GFP_KERNEL_ACCOUNT);
	if (!fence)
		return -ENOMEM;
	memcpy(fence->peer, arg->peer, OTTE_PEER_LEN);
	fence->incarnation = arg->incarnation;

	otte_ledger_lock();
	if (otte_fence_blocks_peer(lender, arg->peer, arg->incarnation))
		goto out;
	err = -ENOSPC;
	if (lender->fence_count >= FENCES_MAX)
		goto out;
	lender->fence_count++;
	list_add(&fence->link, &lender->peer_fences);
	fence = NULL;
	err = 0;
out:
	otte_ledger_unlock();
	kfree(fence);
	return err;
}

static int fence_client(struct otte_client *lender, u64 id)
{
	int err;

	/* Before the ledger is taken, so that nobody waits for memory with it held. */
	err = xa_reserve(&lender->fences, id, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;
	otte_ledger_lock();
	if (!otte_client_find(id)) {
		err = -ENOENT;
	} else if (!xa_load(&lender->fences, id)) {
		err = -ENOSPC;
		if (lender->fence_count < FENCES_MAX) {
			err = xa_err(xa_store(&lender->fences, id, xa_mk_value(1), GFP_NOWAIT));
			lender->fence_count += !err;
		}
	}
	/* What was reserved and not used; also a thread's that is just here with the same id. */
	xa_release(&lender->fences, id);
	otte_ledger_unlock();
	return err;
}

static int fence_everywhere(u64 id)
{
	struct otte_client *client;
	struct otte_region *region;
	int err = -ENOENT;

	if (!otte_may_administer())
		return -EPERM;
	otte_ledger_lock();
	client = otte_client_find(id);
	if (client) {
		err = 0;
		if (!client->fenced) {
			WRITE_ONCE(client->fenced, true);
			list_for_each_entry(region, &client->regions, owner_link)
				otte_region_mark_fenced(region);
			otte_event_post(client, &client->fenced_event, OTTE_EVENT_FENCED);
			otte_netlink_event(OTTE_NOTICE_FENCED, id, NULL);
			otte_ledger_changed();
		}
	}
	otte_ledger_unlock();
	return err;
}

int otte_fence_ioctl(struct otte_client *client, void *arg)
{
	const struct otte_fence *fence = arg;

	if (!(fence->flags & OTTE_FENCE_PEER) &&
	    (fence->incarnation || memchr_inv(fence->peer, 0, OTTE_PEER_LEN)))
		return -EOPNOTSUPP;
	switch (fence->flags) {
	case 0:
		return fence_client(client, fence->client);
	case OTTE_FENCE_PEER:
		return fence->client ? -EOPNOTSUPP : fence_peer(client, fence);
	case OTTE_FENCE_ALL:
		return fence_everywhere(fence->client);
	default:
		return -EINVAL;
	}
}
