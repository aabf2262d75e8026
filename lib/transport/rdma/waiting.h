/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Works of one peer that wait for their turn: by priority, and in order of arrival within one.
 *
 * The engine's queue has put them in order already; what waits here has passed it, and was begun
 * before others came. So a later work of a higher priority goes ahead, but of none that has waited
 * for `aging_ns`: no stream of others keeps a work from its turn. 0: however long it has waited.
 *
 * No lock: the owner's is held around every call. `own.since_ns` and the links are the queue's.
 */
#ifndef OTTE_TRANSPORT_RDMA_WAITING_H
#define OTTE_TRANSPORT_RDMA_WAITING_H

#include "transport/transport.h"

void otte_rdma_waiting_add(struct otte_work **queue, struct otte_work *work, uint64_t now_ns,
			   uint64_t aging_ns);
/* It had its turn, and there is more of it: before all but those of a higher priority. */
void otte_rdma_waiting_return(struct otte_work **queue, struct otte_work *work);

#endif
