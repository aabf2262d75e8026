/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The asynchronous events of an open device: taken without waiting, and each acknowledged once,
 * whoever it is about and whether anybody knows it. No state, no lock: the caller, one thread, is
 * the device's only consumer from open() on.
 *
 * The library's destroy_qp and destroy_cq wait until all events of theirs that were taken are
 * acknowledged. So an event of a QP or a CQ is told *before* that, while the object is certain to
 * be there, and with it what its creator keeps until it is destroyed (a CQ's lane, say). Who is
 * told must not wait for anything that is held across a destruction: that waits for this. All
 * others are told when they are acknowledged already.
 */
#ifndef OTTE_TRANSPORT_RDMA_EVENTS_H
#define OTTE_TRANSPORT_RDMA_EVENTS_H

#include <stdbool.h>

#include "transport/rdma/context.h"
#include "transport/rdma/verbs.h"

enum otte_rdma_event_kind {
	OTTE_RDMA_EVENT_PORT_DOWN = 0,
	OTTE_RDMA_EVENT_PORT_CHANGED = 1, /* up, or another GID, LID or subnet manager: ask it */
	OTTE_RDMA_EVENT_OTHER_PORT = 2, /* either, of a port that is not the context's */
	OTTE_RDMA_EVENT_DEVICE = 3, /* it is lost */
	OTTE_RDMA_EVENT_CQ = 4, /* it is in error */
	OTTE_RDMA_EVENT_QP = 5, /* likewise */
	OTTE_RDMA_EVENT_IGNORED = 6, /* progress of QPs; what is never created here */
	OTTE_RDMA_EVENT_KINDS = 7,
};

struct otte_rdma_event {
	enum otte_rdma_event_kind kind;
	const char *name; /* as verbs have it */
	/* Until the teller is back; the others are NULL. */
	const struct ibv_cq *cq;
	const struct ibv_qp *qp;
};

struct otte_rdma_event_listener {
	void (*heard)(void *arg, const struct otte_rdma_event *event);
	void *arg;
};

/* Nobody waits in it any more. Not 0, with a text: as the call that failed. */
int otte_rdma_events_open(const struct otte_rdma_context *context);

/*
 * At most `budget`. 0: none is left; 1: there may be more. Negative, with a text: they cannot be
 * taken, nor ever again.
 */
int otte_rdma_events_take(const struct otte_rdma_context *context, unsigned int budget,
			  const struct otte_rdma_event_listener *listener);

#endif
