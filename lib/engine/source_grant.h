/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Grants: a standing loan to a peer of this host that reaches the region by itself, and a use of the region that lasts
 * until the peer's receipt is here, or its process is proven to have ended.
 *
 *   grant() -> live -> give_back() -> gone
 *                                  -> parked -> gone
 *   retain_grant(), of a live one; tick(), of a parked one: retained besides
 *
 * Where the region is pinned by the module the loan is one of the module's to the peer's client, which can also be
 * revoked: whatever a peer says or does not say, such a loan is over only when the module says so. One that is given
 * back before is parked, and looked at with each tick, until it is. A retained one has a record in the ledger; one of
 * the module's needs none, since the module itself sees to its end, and is counted instead.
 *
 * One lane at a time has a live grant; the list of parked ones is under parked_lock, `retained` and `hold` under
 * source_peer.lock. All but the last are the functions that struct otte_source_ops of transport.h describes.
 */
#ifndef OTTE_ENGINE_SOURCE_GRANT_H
#define OTTE_ENGINE_SOURCE_GRANT_H

#include "transport/transport.h"

struct otte_engine;

int otte_source_grant(void *peer, uint64_t region, uint8_t op, bool mapped, bool by_module, uint32_t owner,
		      struct otte_source_lent *lent);
void otte_source_give_back(struct otte_source_grant *grant, bool returned);
int otte_source_revoke_grant(struct otte_source_grant *grant);
int otte_source_retain_grant(struct otte_source_grant *grant);
bool otte_source_over(const struct otte_source_grant *grant);
bool otte_source_fresh(const struct otte_source_grant *grant);
bool otte_source_stands(const struct otte_source_grant *grant);
uint64_t otte_source_granted(const struct otte_source_grant *grant);
void otte_source_process_ended(void *engine, uint32_t owner);

/*
 * Looks after loans that were revoked while a copy was on its way, and for uses that stand still. The serving thread
 * calls it now and then.
 */
void otte_source_tick(struct otte_engine *engine);

#endif
