/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One reliable connection: a QP of a context, on a lane, with its two queues.
 *
 *   NEW      created, in INIT: receives can be posted
 *     |  connect
 *   READY    in RTS
 *     |  fence: a CQE or post that cannot be, the lane's or the route's fault, its owner
 *   FENCED   nothing new is admitted; what is posted goes on
 *     |  drain, or a CQE of an error, after which it is in ERR by itself
 *   DRAINING in ERR: whatever is posted completes, flushed
 *     |  destroy, from any of these
 *   gone, or RETAINED: it could not be destroyed; stays as it is, with all its charges, untried
 *
 * FENCED and DRAINING have a code and a text, the first ones. The lane's thread tells once, by
 * `fenced`, of a QP that was fenced by anybody.
 *
 * destroy() needs no empty queue: what is still charged then is told as DRAINED, for a QP that
 * does not exist moves no byte, but its places in the CQs stay taken (cq_lane.h). Windows that are
 * bound to a QP are freed before it: rxe waits 50 s for them.
 *
 * Who may: anybody posts, expects and fences; the thread of its lane alone destroys it, so that it
 * stays while that looks at its CQEs. Lock: `lock`, of the state and both queues and around native
 * calls; within the lane's, before the context's.
 */
#ifndef OTTE_TRANSPORT_RDMA_QP_H
#define OTTE_TRANSPORT_RDMA_QP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "transport/rdma/context.h"
#include "transport/rdma/receive_queue.h"
#include "transport/rdma/send_queue.h"

struct otte_rdma_cq_lane;

enum otte_rdma_qp_state {
	OTTE_RDMA_QP_NEW = 0,
	OTTE_RDMA_QP_READY = 1,
	OTTE_RDMA_QP_FENCED = 2,
	OTTE_RDMA_QP_DRAINING = 3,
	OTTE_RDMA_QP_RETAINED = 4,
};

struct otte_rdma_qp_params {
	struct ibv_pd *pd; /* NULL: the context's */
	uint32_t max_send_wr;
	uint32_t max_recv_wr; /* 0: it expects no receipts */
	uint32_t signal_interval; /* at least 1 */
	bool finishes; /* it posts FINISH or TELL */
	unsigned int remote_access; /* IBV_ACCESS_REMOTE_READ or _WRITE, by a window or an MR; or 0 */
	uint8_t timeout; /* 4.096 us << timeout; 0: none */
	uint8_t retry_count; /* at most 7, which is 6 on rxe */
	uint8_t rnr_retry; /* at most 7, which is without end */
	uint8_t min_rnr_timer; /* as verbs encode it, at most 31 */
	uint8_t max_rd_atomic; /* READs under way; 0 stays 0 */
	uint8_t max_dest_rd_atomic; /* READs that are answered */
};

#define OTTE_RDMA_QP_PARAMS                                                           \
	{                                                                             \
		.max_send_wr = 16, .signal_interval = 1, .timeout = 14,               \
		.retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 12,                \
		.max_rd_atomic = 16, .max_dest_rd_atomic = 16,                        \
	}

/* What the two ends tell each other. */
struct otte_rdma_qp_end {
	uint32_t qpn;
	uint32_t psn;
	struct otte_rdma_address address;
	uint8_t max_dest_rd_atomic; /* that it answers at most */
};

struct otte_rdma_qp {
	/* Constant. */
	struct otte_rdma_context *context;
	struct otte_rdma_cq_lane *lane;
	struct ibv_qp *native;
	struct otte_rdma_qp_params params;
	struct otte_rdma_qp_end end; /* ours */
	uint64_t route_generation; /* of the address in it */
	void (*fenced)(struct otte_rdma_qp *qp, void *arg); /* lane's thread, no lock */
	void *arg;

	pthread_mutex_t lock;
	enum otte_rdma_qp_state state;
	int code; /* FENCED, DRAINING */
	char why[OTTE_ERROR_BYTES];
	bool announce; /* fenced() is due */
	uint8_t max_rd_atomic; /* READY: as it was set */
	struct otte_rdma_send_queue send;
	struct otte_rdma_receive_queue receive;

	UT_hash_handle hh; /* the lane's, under its lock */
	struct otte_rdma_qp *next; /* RETAINED: the context's list */
};

/* min(wanted, limit); 0 of what is wanted stays 0, 0 of a limit is 1. */
uint8_t otte_rdma_rd_atomic(uint8_t wanted, uint32_t limit);

/*
 * A QP of the lane's context, in INIT, on the lane. -EINVAL with a text: a parameter, -ENETDOWN,
 * -ENODEV: the route (context.h), -EAGAIN with a text: the lane takes no more QPs, -ENOMEM; else,
 * with a text, what a call failed with. -EUCLEAN: it failed, and something of it is retained.
 */
int otte_rdma_qp_create(struct otte_rdma_cq_lane *lane, const struct otte_rdma_qp_params *params,
			void (*fenced)(struct otte_rdma_qp *qp, void *arg), void *arg,
			struct otte_rdma_qp **qp);

/* NEW to READY. Else with a text, and it is FENCED: only destroy() is left. */
int otte_rdma_qp_connect(struct otte_rdma_qp *qp, const struct otte_rdma_qp_end *peer);

/* As otte_rdma_send_queue_post(); -ESHUTDOWN with a text: it is not READY, none was posted. */
int otte_rdma_qp_post(struct otte_rdma_qp *qp, const struct otte_rdma_send *sends, uint32_t count,
		      uint32_t *accepted);

/* As receive_queue.h; -ESHUTDOWN with a text: it is neither NEW nor READY. */
int otte_rdma_qp_reserve(struct otte_rdma_qp *qp, uint32_t receipts);
void otte_rdma_qp_release(struct otte_rdma_qp *qp, uint32_t receipts);
int otte_rdma_qp_expect(struct otte_rdma_qp *qp, struct otte_rdma_receipt *receipt);
bool otte_rdma_qp_forget(struct otte_rdma_qp *qp, struct otte_rdma_receipt *receipt);

void otte_rdma_qp_fence(struct otte_rdma_qp *qp, int code, const char *why);

/*
 * Fences, and puts it into ERR. Not 0, with a text: that failed, and only destroy() ends what is
 * posted.
 */
int otte_rdma_qp_drain(struct otte_rdma_qp *qp, int code, const char *why);
/* Nothing is charged in its queues. */
bool otte_rdma_qp_is_drained(struct otte_rdma_qp *qp);

/*
 * By the lane's thread. 0: gone. -EUCLEAN with a text: RETAINED. Where the native QP is gone, works
 * and receipts that are left are told before it returns, and do not find this QP any more.
 */
int otte_rdma_qp_destroy(struct otte_rdma_qp *qp);

struct otte_rdma_qp_status {
	enum otte_rdma_qp_state state;
	int code;
	char why[OTTE_ERROR_BYTES];
	uint32_t sends, receives; /* charged */
	uint32_t expected; /* receipts */
};

void otte_rdma_qp_status(struct otte_rdma_qp *qp, struct otte_rdma_qp_status *status);

/* ---- For the lane ---- */

/* CQEs with its QPN. Tell whom they concern; the QP may be gone afterwards. */
void otte_rdma_qp_sent(struct otte_rdma_qp *qp, const struct ibv_wc *wc);
void otte_rdma_qp_received(struct otte_rdma_qp *qp, const struct ibv_wc *wc);
/* Whether fenced() is due; it is not any more. */
bool otte_rdma_qp_take_announcement(struct otte_rdma_qp *qp);

#endif
