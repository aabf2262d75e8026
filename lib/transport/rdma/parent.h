/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A parent: a request, or a stretch of a long one, and the slices that it is cut into. parent.c
 * says how finely, and when it begins.
 *
 * A slice:
 *
 *   WAITING --asked for--> UNDER_WAY --DONE--> DONE
 *      ^                      |  `--refused, failed, dropped--> DROPPED: its parent has failed
 *      |                      `--its pair stays--> UNPROVEN, likewise
 *      `--lost, and another rail is there: if nothing was posted, or it is a READ that may go again
 *
 * No lock: its worker's thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_PARENT_H
#define OTTE_TRANSPORT_RDMA_PARENT_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/devices.h"
#include "transport/rdma/budget.h"
#include "transport/rdma/rail.h"
#include "transport/transport.h"

struct otte_rdma_endpoint;
struct otte_rdma_peer;

enum otte_rdma_slice_state {
	OTTE_RDMA_SLICE_WAITING = 0,
	OTTE_RDMA_SLICE_UNDER_WAY,
	OTTE_RDMA_SLICE_DONE,
	OTTE_RDMA_SLICE_DROPPED,
	OTTE_RDMA_SLICE_UNPROVEN,
};

struct otte_rdma_slice {
	struct otte_rdma_parent *parent;
	enum otte_rdma_slice_state state;
	uint64_t offset, bytes;        /* of the work */
	unsigned int nic, remote_nic;
	struct otte_device_lease lease;
	uint32_t tries;                /* its payload was lost so often */
	uint32_t turns;                /* from rail to rail, since it was asked for last */
	bool moved;                    /* to another rail */
	bool celled;                   /* it was asked for over a cell */
	uint64_t busy_ns, again_ns;    /* since when its range is busy; not asked for before */
};

/* Its work is in the peer's `running` meanwhile. */
struct otte_rdma_parent {
	struct otte_rdma_parent *prev, *next; /* peer->parents */
	struct otte_rdma_peer *peer;
	struct otte_work *work;
	uint64_t epoch;                /* the peer's, at its beginning */
	struct otte_location location; /* of its memory here */
	uint8_t op;
	int code;                      /* of the first slice that failed; 0: none has */
	bool settled;                  /* and that is it: not for the other transport */
	bool replays;                  /* payload was lost that goes again, if anything does */
	uint32_t count, waiting, under_way, done, unproven; /* slices */
	struct otte_rdma_turn turn;    /* for a stage */
	struct otte_rdma_slice slices[];
};

/* What is to be known of a work before it is taken out of the queue. */
struct otte_rdma_plan {
	struct otte_rdma_wanted wanted;
	struct otte_location location; /* of its memory here */
	bool known;                    /* that memory, to a NIC that reaches the peer */
	bool staged;                   /* it passes a pool */
	uint64_t left;                 /* bytes */
	bool patient;                  /* it waits for rails that are being tried */
};

/* Under the peer's lock. */
void otte_rdma_plan(const struct otte_rdma_peer *peer, const struct otte_work *work,
		    struct otte_rdma_plan *plan);
/*
 * Of the first of the peer's queue. 0; 1: it waits there; negative, with a text: it stays there,
 * and cannot begin.
 */
int otte_rdma_parent_begin(struct otte_rdma_peer *peer, struct otte_work *work,
			   const struct otte_rdma_plan *plan, uint64_t now_ns);
/* Slices are asked for, and what is over is told. */
void otte_rdma_parents_go_on(struct otte_rdma_peer *peer, uint64_t now_ns);
/* The line is lost: each ends when nothing of it is under way. */
void otte_rdma_parents_fail(struct otte_rdma_peer *peer, int code, bool settled);

/*
 * What became of a slice that was under way. None of these ends its parent before the next
 * parents_go_on().
 */
void otte_rdma_slice_done(struct otte_rdma_slice *slice);
void otte_rdma_slice_refused(struct otte_rdma_slice *slice, int code);
/* Its payload was in vain, as the source says; or nobody wants it any more. */
void otte_rdma_slice_failed(struct otte_rdma_slice *slice, int code);
/* Its pair is of no use any more, and nothing of it moves. */
void otte_rdma_slice_lost(struct otte_rdma_slice *slice, const struct otte_rdma_endpoint *endpoint,
			  bool posted);
/* Its pair stays, and may go on moving it. */
void otte_rdma_slice_unproven(struct otte_rdma_slice *slice);

#endif
