/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/chain.h"

#include <utlist.h>

int otte_chain_peer_ready(struct otte_transport_peer *peer)
{
	return peer->next->ops->peer_ready(peer->next);
}

int otte_chain_peer_nic(struct otte_transport_peer *peer, char name[IF_NAMESIZE])
{
	return peer->next->ops->peer_nic(peer->next, name);
}

int otte_chain_plan(struct otte_transport_peer *peer, struct otte_work *work)
{
	work->own.planner = peer->next->ops;
	return peer->next->ops->plan(peer->next, work);
}

void otte_chain_unplan(struct otte_work *work)
{
	work->own.planner->unplan(work);
}

void *otte_chain_pin(struct otte_work *work)
{
	return work->own.planner->pin(work);
}

struct otte_work *otte_chain_take_pinned(struct otte_work **queue, const void *pinned)
{
	struct otte_work *work;

	DL_FOREACH2(*queue, work, own.next) {
		if (work->native == pinned) {
			DL_DELETE2(*queue, work, own.prev, own.next);
			return work;
		}
	}
	return NULL;
}
