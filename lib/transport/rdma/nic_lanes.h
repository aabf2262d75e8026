/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A worker's lanes of NICs: of each the lane that its new QPs are on, and those that drain.
 *
 *   current --it takes no more QPs--> draining --it has none any more--> gone
 *
 * And a NIC's poller, which is of all workers: its context, and how much of it is in use.
 *
 * No lock: a worker's lanes are its thread's. A poller's counts are told by all workers, and read
 * by the monitor's thread; the rest of it is constant.
 */
#ifndef OTTE_TRANSPORT_RDMA_NIC_LANES_H
#define OTTE_TRANSPORT_RDMA_NIC_LANES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "transport/rdma/cq_lane.h"

struct otte_rdma;
struct otte_rdma_worker;

/*
 * A worker's lanes of a NIC that have QPs left and take no more, at most: beyond, it makes no QP
 * there.
 */
#define OTTE_RDMA_DRAINING_MAX 8

struct otte_rdma_nic_lane {
	struct otte_watch watch;
	struct otte_retired retired;
	struct otte_rdma_nic_lane *prev, *next; /* lanes->draining */
	struct otte_rdma_nic_lanes *lanes;
	struct otte_rdma_cq_lane *lane;
	bool deaf;                         /* no events of it come: it is polled now and then */
};

/* Those of one NIC. */
struct otte_rdma_nic_lanes {
	struct otte_rdma_worker *worker;
	struct otte_rdma_poller *poller;
	struct otte_rdma_nic_lane *current; /* NULL: not yet */
	struct otte_rdma_nic_lane *draining;
	uint32_t drains;                   /* so many */
};

/* A NIC. */
struct otte_rdma_poller {
	struct otte_rdma *rdma;
	struct otte_rdma_context *context; /* NULL: none of this id */
	uint64_t pd;                       /* random: which PD of which time */
	_Atomic uint32_t users;            /* pairs, from before their QP is made until its end */
	_Atomic uint32_t drains;           /* lanes that drain */
};

/* The lane that a new QP of a NIC is to be on. -EAGAIN with a text: too many drain. */
int otte_rdma_lane_of(struct otte_rdma_worker *worker, unsigned int nic,
		      struct otte_rdma_cq_lane **lane);
/* All of them; those that have drained go. Not within a round of the loop. */
void otte_rdma_lanes_poll(struct otte_rdma_worker *worker);
/* What comes from now on ends the thread's sleep. */
void otte_rdma_lanes_arm(struct otte_rdma_worker *worker);
bool otte_rdma_lanes_are_deaf(const struct otte_rdma_worker *worker);
/* After all workers, of all of them. -EUCLEAN: some lanes stay. */
int otte_rdma_lanes_close(struct otte_rdma *rdma);

#endif
