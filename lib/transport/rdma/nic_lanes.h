/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The lanes of NICs: a NIC's context, the lane that new QPs of it are on, and those that drain.
 *
 *   current --it takes no more QPs--> draining --it has none any more--> gone
 *
 * No lock: the thread's, "otte-rdma"; two counts are read by the monitor's.
 */
#ifndef OTTE_TRANSPORT_RDMA_NIC_LANES_H
#define OTTE_TRANSPORT_RDMA_NIC_LANES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "transport/rdma/cq_lane.h"

struct otte_rdma;

/* Lanes of a NIC that have QPs left and take no more, at most: beyond, no QP is made on it. */
#define OTTE_RDMA_DRAINING_MAX 8

struct otte_rdma_nic_lane {
	struct otte_watch watch;
	struct otte_retired retired;
	struct otte_rdma_nic_lane *prev, *next; /* poller->draining */
	struct otte_rdma_poller *poller;
	struct otte_rdma_cq_lane *lane;
	bool deaf;                         /* its events do not come: it is polled now and then */
};

/* A NIC: its context and lanes. */
struct otte_rdma_poller {
	struct otte_rdma *rdma;
	struct otte_rdma_context *context; /* NULL: none of this id */
	uint64_t pd;                       /* random: which PD of which time */
	struct otte_rdma_nic_lane *current; /* NULL: not yet */
	struct otte_rdma_nic_lane *draining;

	/* Written by the thread and read by the monitor's. */
	_Atomic uint32_t users;            /* pairs, from before their QP is made until its end */
	_Atomic uint32_t drains;           /* lanes in `draining` */
};

/* The lane that a new QP of a NIC is to be on. -EAGAIN with a text: too many drain. */
int otte_rdma_lane_of(struct otte_rdma *rdma, unsigned int nic, struct otte_rdma_cq_lane **lane);
/* All of them; those that have drained go. Not within a round of the loop. */
void otte_rdma_lanes_poll(struct otte_rdma *rdma);
/* What comes from now on ends the thread's sleep. */
void otte_rdma_lanes_arm(struct otte_rdma *rdma);
bool otte_rdma_lanes_are_deaf(const struct otte_rdma *rdma);
/* After the thread. -EUCLEAN: some of them stay. */
int otte_rdma_lanes_close(struct otte_rdma *rdma);

#endif
