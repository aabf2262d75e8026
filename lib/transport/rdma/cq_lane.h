/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A pair of CQs of a context, one of send queues and one of receive queues, and the QPs on them.
 * One thread has it, its worker: it alone polls, and destroys what is on the lane.
 *
 *   OPEN     QPs are added
 *     |  a QP went whose CQEs may still come: no QP is added any more, those that there are go on
 *   CLOSED
 *     |  fence: a CQE of nobody's, an error of a CQ, the route's fault; also from OPEN
 *   FAULTED  all its QPs are fenced, and told so
 *     |  destroy, once it has no QPs
 *   gone, or RETAINED: a CQ or the channel could not be destroyed, nor is tried again
 *
 * A CQE goes to the QP of its QPN, which looks whether it can be (send_queue.h, receive_queue.h).
 * One of a QPN that is not here is nobody's, and so the charge of somebody's WR would never end:
 * the lane is at fault; but for QPs that were destroyed with WRs unheard of, whose CQEs may come
 * late and are counted.
 *
 * Each CQ has max_cqes places, for as many WRs of all its QPs together (credits.h). Those of a QP
 * that was destroyed with WRs unheard of are free again when the CQs are destroyed, and not before.
 *
 * Polling, or by events: arm(), poll() once more, sleep on fd(), heard(), poll().
 *
 * Lock: `lock`, of state and table; before the QPs'. No done(), fenced() or receipt is called
 * under any.
 */
#ifndef OTTE_TRANSPORT_RDMA_CQ_LANE_H
#define OTTE_TRANSPORT_RDMA_CQ_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "transport/rdma/context.h"
#include "transport/rdma/credits.h"
#include "transport/rdma/qp.h"

enum otte_rdma_lane_state {
	OTTE_RDMA_LANE_OPEN = 0,
	OTTE_RDMA_LANE_CLOSED = 1,
	OTTE_RDMA_LANE_FAULTED = 2,
	OTTE_RDMA_LANE_RETAINED = 3,
};

struct otte_rdma_lane_params {
	uint32_t max_cqes; /* of each CQ */
	uint32_t max_qps; /* at a time */
	bool events; /* with a completion channel */
};

#define OTTE_RDMA_LANE_PARAMS                       \
	{                                           \
		.max_cqes = 1024, .max_qps = 64,    \
	}

/* A QP that was destroyed with WRs unheard of. */
struct otte_rdma_late {
	uint32_t qpn;
	uint32_t sends, receives;
};

struct otte_rdma_cq_lane {
	/* Constant. */
	struct otte_rdma_context *context;
	struct otte_rdma_lane_params params;
	struct ibv_comp_channel *channel; /* NULL: it is polled */
	struct ibv_cq *send_cq, *receive_cq;

	struct otte_rdma_credits sends, receives;
	_Atomic uint32_t announcements; /* QPs whose fenced() may be due */

	pthread_mutex_t lock;
	enum otte_rdma_lane_state state;
	int code; /* FAULTED: why */
	char why[OTTE_ERROR_BYTES];
	uint32_t serial; /* of its QPs, for the ids of WRs; never used twice */
	struct otte_rdma_qp *qps; /* by QPN; RETAINED ones, too, if they exist */
	uint32_t stranded; /* QPs that could not be destroyed: nor can the CQs */
	struct otte_rdma_late *lates; /* room for max_qps */
	uint32_t late_count;

	/* The lane's thread's. */
	uint64_t cqes, late_cqes; /* ever */

	struct otte_rdma_cq_lane *next; /* RETAINED: the context's list */
};

/* -EINVAL with a text: a parameter that the device cannot; else as the call that failed. */
int otte_rdma_lane_create(struct otte_rdma_context *context,
			  const struct otte_rdma_lane_params *params,
			  struct otte_rdma_cq_lane **lane);

/*
 * 0: gone. -EBUSY: it has QPs. -EUCLEAN with a text: RETAINED, or a QP on it is. NULL is allowed.
 */
int otte_rdma_lane_destroy(struct otte_rdma_cq_lane *lane);

/*
 * At most `budget` CQEs of each CQ, 16 at a time; then QPs that were fenced are told. How many CQEs
 * there were; -EIO with a text: a CQ cannot be polled (any more).
 */
int otte_rdma_lane_poll(struct otte_rdma_cq_lane *lane, uint32_t budget);

/* With events only. Both CQs: the next CQE makes fd() readable. Not 0, with a text: FAULTED. */
int otte_rdma_lane_arm(struct otte_rdma_cq_lane *lane);
/*
 * The same for what is posted by now: who posts later looks for the end of it himself, or has it
 * armed again.
 */
int otte_rdma_lane_arm_posted(struct otte_rdma_cq_lane *lane);
int otte_rdma_lane_fd(const struct otte_rdma_cq_lane *lane);
/* Takes the events that are there, and acknowledges each once. Not 0, with a text: FAULTED. */
int otte_rdma_lane_heard(struct otte_rdma_cq_lane *lane);

/* By anybody. All QPs are fenced now; the next poll() tells them. The first code and text stay. */
void otte_rdma_lane_fence(struct otte_rdma_cq_lane *lane, int code, const char *why);

struct otte_rdma_lane_status {
	enum otte_rdma_lane_state state;
	int code;
	char why[OTTE_ERROR_BYTES];
	uint32_t qps;
	uint32_t sends, receives; /* places that are taken in the CQs */
};

void otte_rdma_lane_status(struct otte_rdma_cq_lane *lane, struct otte_rdma_lane_status *status);

/* Whether it takes QPs; once it does not it never does again. */
bool otte_rdma_lane_admits(struct otte_rdma_cq_lane *lane);

/* ---- For QPs ---- */

/* -EAGAIN with a text: it takes no more. *serial is a new QP's. */
int otte_rdma_lane_admit(struct otte_rdma_cq_lane *lane, uint32_t *serial);
/* It has its QPN. -EAGAIN, -EEXIST with a text, -ENOMEM. */
int otte_rdma_lane_add(struct otte_rdma_cq_lane *lane, struct otte_rdma_qp *qp);
/* It is destroyed; `late`: with how many WRs unheard of. */
void otte_rdma_lane_remove(struct otte_rdma_cq_lane *lane, struct otte_rdma_qp *qp,
			   const struct otte_rdma_late *late);
/* A QP on its CQs could not be destroyed. */
void otte_rdma_lane_strand(struct otte_rdma_cq_lane *lane);

#endif
