/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What transports have in common that do what they can and leave the rest to the next one (transport.h). A peer of
 * such a transport has the next one's behind it, base.next, from peer_open() until peer_close(); whether work can
 * start is that one's to say, and so is what it plans: everything is planned for it, since handing on must not fail.
 */
#ifndef OTTE_TRANSPORT_CHAIN_H
#define OTTE_TRANSPORT_CHAIN_H

#include "transport/transport.h"

/* For struct otte_transport_ops. */
int otte_chain_peer_ready(struct otte_transport_peer *peer);
int otte_chain_peer_nic(struct otte_transport_peer *peer, char name[IF_NAMESIZE]);
int otte_chain_plan(struct otte_transport_peer *peer, struct otte_work *work);
void otte_chain_unplan(struct otte_work *work);
void *otte_chain_pin(struct otte_work *work);

/* The work of a pin, out of the queue; NULL: it is not in it. Under the queue's lock. */
struct otte_work *otte_chain_take_pinned(struct otte_work **queue, const void *pinned);

#endif
