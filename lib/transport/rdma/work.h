/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One work request as its owner has it: embedded in what waits for it, and told once.
 *
 *   idle --posted--> charged --done()--> idle
 *
 * Charged, it belongs to the queue that it was posted to; nothing but a CQE, or the destruction of
 * its QP, ends that. done() runs in the thread of the QP's lane, under no lock.
 */
#ifndef OTTE_TRANSPORT_RDMA_WORK_H
#define OTTE_TRANSPORT_RDMA_WORK_H

#include <stdint.h>

#include "transport/rdma/verbs.h"

enum otte_rdma_evidence {
	OTTE_RDMA_COMPLETED, /* its CQE, or where it was unsignalled that of a later one */
	OTTE_RDMA_DRAINED, /* its QP is destroyed; what it did is unknown */
};

struct otte_rdma_outcome {
	enum otte_rdma_evidence evidence;
	int code; /* 0, or a negative errno: -ECANCELED where it was flushed or drained */
	enum ibv_wc_status status; /* COMPLETED */
	uint32_t vendor_error;
};

struct otte_rdma_work {
	void (*done)(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome);

	/* The queue's, while it is charged. */
	struct otte_rdma_outcome outcome;
	struct otte_rdma_work *next;
};

/* A negative errno; 0 of IBV_WC_SUCCESS. Never -EPROTO, which is a CQE's that cannot be. */
int otte_rdma_status_code(enum ibv_wc_status status);

/* done() of each of a list; under no lock. */
void otte_rdma_works_done(struct otte_rdma_work *list);

#endif
