/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one thread of a transport that takes the asynchronous events of all its contexts, and asks
 * their ports each second, whether anybody transfers or not. What it does with them is
 * nic_watch.h's.
 *
 *   created: the descriptors are in its loop --start--> its thread runs --stop--> gone
 *
 * What it looks at is borrowed: contexts outlive it, it refers to no lane or QP beyond the event
 * that names it, and so it is never the last to let go of anything. stop() is called before the
 * first context is closed, by no callback and under no lock that one takes; QPs and CQs may be
 * destroyed before, meanwhile and after. Events that nobody has taken by then are owed no
 * acknowledgement.
 *
 * Locks: none of its own. Its thread takes the loop's lock and that of a context's route, both
 * innermost, and what the callbacks take. Why it cannot deadlock with a destruction: destroy_qp and
 * destroy_cq wait for events of their own object alone that were taken, and the thread has at most
 * one of those, from when it took it until it acknowledges it, in the same function. In between it
 * calls cq_failed() or qp_failed() and nothing else; the owner's locks that those take are held
 * across no destruction: the lanes', QPs' and contexts' are not (cq_lane.c, qp.c destroy without
 * any). While it waits anywhere else, in another callback, in a query or for the loop, it owes
 * nobody anything.
 *
 * A provider that sleeps in a query delays all the events behind it, by that time.
 */
#ifndef OTTE_TRANSPORT_RDMA_MONITOR_H
#define OTTE_TRANSPORT_RDMA_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/context_set.h"
#include "transport/rdma/nic_watch.h"

struct otte_rdma_monitor;

struct otte_rdma_monitor_params {
	uint64_t interval_ns; /* between two looks at all ports */
	bool automatic_gid; /* none is fixed: select.gid_index was CHOOSE, or UNSET of no device */
};

#define OTTE_RDMA_MONITOR_PARAMS                                 \
	{                                                        \
		.interval_ns = 1000000000, .automatic_gid = true \
	}

/*
 * `ops` stay valid until stop(). -EINVAL: no interval; -ENOMEM; or what a call failed with; each
 * with a text.
 */
int otte_rdma_monitor_create(const struct otte_rdma_context_set *set,
			     const struct otte_rdma_monitor_params *params,
			     const struct otte_rdma_monitor_ops *ops, void *arg,
			     struct otte_rdma_monitor **monitor);

/* Not 0, with a text: the thread cannot be started; it may be tried again. */
int otte_rdma_monitor_start(struct otte_rdma_monitor *monitor);

/* Joins the thread, lets go of all descriptors and frees it. NULL is allowed. */
void otte_rdma_monitor_stop(struct otte_rdma_monitor *monitor);

/* By anybody: something has drained, so ports of paused routes are asked at once. */
void otte_rdma_monitor_ask(struct otte_rdma_monitor *monitor);

/*
 * What its thread does over and over: waits at most so long, hears what was told, asks the ports
 * that are due. For tests, where there is no thread; the first round asks all.
 */
void otte_rdma_monitor_round(struct otte_rdma_monitor *monitor, int timeout_ms);

const struct otte_rdma_monitor_counts *
otte_rdma_monitor_counts(const struct otte_rdma_monitor *monitor);

#endif
