/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lone request by a lease: its submitter posts it and polls for its end himself, in the turn of
 * its peer's worker, whose thread sleeps; after a moment the thread does (worker.h).
 */
#ifndef OTTE_TRANSPORT_RDMA_ALONE_H
#define OTTE_TRANSPORT_RDMA_ALONE_H

#include <stdbool.h>

#include "transport/transport.h"

struct otte_rdma_peer;

/*
 * A work that is alone, by who submits it: started, and waited for a moment. False: nothing has
 * happened, it is to be started.
 */
bool otte_rdma_alone_exchange(struct otte_rdma_peer *peer, struct otte_work *work);

#endif
