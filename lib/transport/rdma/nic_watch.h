/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One context as its monitor sees it: what its device tells, what its port answers, and what
 * follows for its route, whose states are context.h's:
 *
 *   ACTIVE --its port is down, or its address another: by an event or when asked--> PAUSED
 *   PAUSED --its port is well, `drained` says that nothing of the old route is left, and nothing
 *            was heard since it was asked--> ACTIVE, with the address that was found
 *   any    --the device tells that it is lost, or its events cannot be taken any more--> FATAL
 *
 * An address is found by the same rule as at first: the best GID of that port where it is
 * automatic, but not before the route is PAUSED (a better one fences nobody), else the same index.
 * A query that fails changes nothing and is counted.
 *
 * An older answer clears no newer fault, twice: what others did to the route since the port was
 * asked shows in its generation; what its device told meanwhile is heard before it is resumed, and
 * has the port asked anew.
 *
 * No lock: one thread, the monitor's. It borrows the context, and destroys nothing.
 */
#ifndef OTTE_TRANSPORT_RDMA_NIC_WATCH_H
#define OTTE_TRANSPORT_RDMA_NIC_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log_limit.h"
#include "transport/rdma/context.h"
#include "transport/rdma/events.h"

#define OTTE_RDMA_EVENTS_A_ROUND 64 /* of one context: no flood holds up the others */

/*
 * The owner of lanes and QPs. All are called by the monitor's thread, one at a time, without a
 * lock, and do not stop it (monitor.h). None of them may wait for a worker.
 */
struct otte_rdma_monitor_ops {
	/*
	 * No path goes out by the route any more. All QPs of the context are to be closed, and who
	 * waits for it woken.
	 */
	void (*fenced)(void *arg, struct otte_rdma_context *context, int code, const char *why);
	/*
	 * Whether all of the old route is gone: QPs, what builds them, faulted lanes. Asked each
	 * second while the port is well, and after otte_rdma_monitor_ask().
	 */
	bool (*drained)(void *arg, struct otte_rdma_context *context);
	/* Paths go out again; others may have paused it meanwhile, so look. */
	void (*resumed)(void *arg, struct otte_rdma_context *context);
	/* What an active port says it can; 0: it does not say. Who fixed a rate keeps that. */
	void (*rate)(void *arg, struct otte_rdma_context *context, uint64_t bytes_per_s);
	/*
	 * It is in error, and exists until this is back; what stands for it may not be known (yet,
	 * or any more). The lane, or the QP, is to be fenced. See events.h: no lock may be waited
	 * for that is held across a destruction.
	 */
	void (*cq_failed)(void *arg, struct otte_rdma_context *context, const struct ibv_cq *cq,
			  const char *why);
	void (*qp_failed)(void *arg, struct otte_rdma_context *context, const struct ibv_qp *qp,
			  const char *why);
};

/* Of all contexts together; anybody may look. */
struct otte_rdma_monitor_counts {
	_Atomic uint64_t ticks;
	_Atomic uint64_t queries, failed_queries;
	_Atomic uint64_t pauses, recoveries;
	_Atomic uint64_t lost_consumers;
	_Atomic uint64_t events[OTTE_RDMA_EVENT_KINDS];
};

struct otte_rdma_nic_watch {
	/* Constant. */
	struct otte_rdma_context *context;
	const struct otte_rdma_monitor_ops *ops;
	void *arg;
	bool automatic_gid;
	struct otte_rdma_monitor_counts *counts;

	bool due; /* the port is to be asked */
	bool lost; /* its events cannot be taken any more, nor are they asked for */
	bool failing; /* the last query did */
	char why[OTTE_ERROR_BYTES]; /* PAUSED: what the port last answered */
	struct otte_log_limit limit;
};

/*
 * Takes what the device has told, of one round. True: nothing is left. False: there may be more, or
 * it is `lost`, and not to be heard again.
 */
bool otte_rdma_nic_watch_hear(struct otte_rdma_nic_watch *watch);

/* Asks the port, and does what follows. May leave it due again. */
void otte_rdma_nic_watch_ask(struct otte_rdma_nic_watch *watch);

#endif
