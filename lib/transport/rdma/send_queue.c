/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/send_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"

/* What each op is to verbs, and what its CQE must say. */
static const struct {
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode completes_as;
} ops[] = {
	[OTTE_RDMA_READ] = { IBV_WR_RDMA_READ, IBV_WC_RDMA_READ },
	[OTTE_RDMA_WRITE] = { IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE },
	[OTTE_RDMA_FINISH] = { IBV_WR_SEND_WITH_INV, IBV_WC_SEND },
	[OTTE_RDMA_TELL] = { IBV_WR_SEND, IBV_WC_SEND },
	[OTTE_RDMA_BIND] = { IBV_WR_BIND_MW, IBV_WC_BIND_MW },
	[OTTE_RDMA_INVALIDATE] = { IBV_WR_LOCAL_INV, IBV_WC_LOCAL_INV },
};

/* ---- Life ------------------------------------------------------------------------------------ */

static void free_arrays(struct otte_rdma_send_queue *queue)
{
	free(queue->wrs);
	free(queue->sges);
	otte_rdma_wr_ring_close(&queue->ring);
	queue->wrs = NULL;
	queue->sges = NULL;
}

static int alloc_arrays(struct otte_rdma_send_queue *queue, uint32_t depth, uint32_t tag)
{
	int rc = otte_rdma_wr_ring_open(&queue->ring, depth, tag);

	if (rc)
		return rc;
	queue->wrs = calloc(depth, sizeof(*queue->wrs));
	queue->sges = calloc(depth, sizeof(*queue->sges));
	if (queue->wrs && queue->sges)
		return 0;
	return otte_fail(-ENOMEM, "rdma: no memory for %u WRs", depth);
}

int otte_rdma_send_queue_open(struct otte_rdma_send_queue *queue, struct otte_rdma_context *context,
			      const struct otte_rdma_send_queue_params *params,
			      struct otte_rdma_credits *credits, uint32_t tag)
{
	uint32_t half = params->max_send_wr / 2 ? params->max_send_wr / 2 : 1;
	int rc;

	*queue = (struct otte_rdma_send_queue){
		.credits = credits,
		.signal_interval = params->signal_interval < half ? params->signal_interval : half,
	};
	rc = alloc_arrays(queue, params->max_send_wr, tag);
	if (!rc)
		rc = otte_rdma_messages_open(&queue->messages, context, params->pd,
					     params->messages ? queue->ring.size : 0);
	if (rc)
		free_arrays(queue);
	return rc;
}

int otte_rdma_send_queue_close(struct otte_rdma_send_queue *queue)
{
	free_arrays(queue);
	return otte_rdma_messages_close(&queue->messages);
}

/* ---- Posting --------------------------------------------------------------------------------- */

static int check(const struct otte_rdma_send_queue *queue, const struct otte_rdma_send *send)
{
	switch (send->op) {
	case OTTE_RDMA_READ:
	case OTTE_RDMA_WRITE:
		if (!send->bytes != send->empty || send->bytes > OTTE_RDMA_PAYLOAD_MAX)
			return otte_fail(-EINVAL, "rdma: %" PRIu64 " bytes in one WR", send->bytes);
		return 0;
	case OTTE_RDMA_FINISH:
	case OTTE_RDMA_TELL:
		return queue->messages.pages ? 0 : otte_fail(-EINVAL, "rdma: no messages here");
	case OTTE_RDMA_BIND:
		return send->bytes ? 0 : otte_fail(-EINVAL, "rdma: a window of no bytes");
	case OTTE_RDMA_INVALIDATE:
		return 0;
	}
	return otte_fail(-EINVAL, "rdma: op %d", (int)send->op);
}

static int check_all(const struct otte_rdma_send_queue *queue, const struct otte_rdma_send *sends,
		     uint32_t count)
{
	uint32_t i;
	int rc = 0;

	if (!count || count > queue->ring.depth)
		return otte_fail(-EINVAL, "rdma: %u WRs in one post, at most %u", count,
				 queue->ring.depth);
	for (i = 0; i < count && !rc; i++)
		rc = check(queue, &sends[i]);
	return rc;
}

static void fill_payload(const struct otte_rdma_send *send, struct ibv_send_wr *wr,
			 struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){
		.addr = send->local,
		.length = (uint32_t)send->bytes,
		.lkey = send->lkey,
	};
	wr->sg_list = sge;
	wr->num_sge = !send->empty;
	wr->wr.rdma.remote_addr = send->remote;
	wr->wr.rdma.rkey = send->key;
}

/* The message is in the WR's own place, and stays there while the WR is charged. */
static void fill_message(const struct otte_rdma_send_queue *queue,
			 const struct otte_rdma_send *send, struct ibv_send_wr *wr,
			 struct ibv_sge *sge)
{
	uint32_t place = otte_rdma_wr_place(&queue->ring, wr->wr_id);

	memcpy(otte_rdma_messages_at(&queue->messages, place), send->message,
	       OTTE_RDMA_BINDING_BYTES);
	*sge = otte_rdma_messages_sge(&queue->messages, place);
	wr->sg_list = sge;
	wr->num_sge = 1;
	if (send->op == OTTE_RDMA_FINISH)
		wr->invalidate_rkey = send->key;
	wr->send_flags |= IBV_SEND_FENCE;
}

static void fill_bind(const struct otte_rdma_send *send, struct ibv_send_wr *wr)
{
	wr->bind_mw.mw = send->window;
	wr->bind_mw.rkey = send->key;
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = send->parent,
		.addr = send->remote,
		.length = send->bytes,
		.mw_access_flags = send->access,
	};
}

static void fill(const struct otte_rdma_send_queue *queue, const struct otte_rdma_send *send,
		 struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	wr->opcode = ops[send->op].opcode;
	if (send->fenced)
		wr->send_flags |= IBV_SEND_FENCE;
	if (send->op == OTTE_RDMA_FINISH || send->op == OTTE_RDMA_TELL)
		fill_message(queue, send, wr, sge);
	else if (send->op == OTTE_RDMA_BIND)
		fill_bind(send, wr);
	else if (send->op == OTTE_RDMA_INVALIDATE)
		wr->invalidate_rkey = send->key;
	else
		fill_payload(send, wr, sge);
}

/* Charges them, in a chain. */
static void build(struct otte_rdma_send_queue *queue, const struct otte_rdma_send *sends,
		  uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		const struct otte_rdma_wr wr = {
			.signaled = i + 1 == count || (i + 1) % queue->signal_interval == 0,
			.opcode = ops[sends[i].op].completes_as,
			.work = sends[i].work,
		};
		struct ibv_send_wr *native = &queue->wrs[i];

		memset(native, 0, sizeof(*native));
		otte_rdma_wr_ring_push(&queue->ring, &wr, &native->wr_id);
		native->next = i + 1 < count ? native + 1 : NULL;
		native->send_flags = wr.signaled ? IBV_SEND_SIGNALED : 0;
		fill(queue, &sends[i], native, &queue->sges[i]);
	}
}

/* How many were accepted for certain, no other being; or -1: `bad` is none of them. */
static int64_t find_bad(const struct otte_rdma_send_queue *queue, const struct ibv_send_wr *bad,
			uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (bad == &queue->wrs[i])
			return i;
	return -1;
}

/* After a post that failed with this errno. */
static int settle(struct otte_rdma_send_queue *queue, const struct ibv_send_wr *bad, uint32_t count,
		  int error, uint32_t *accepted)
{
	int64_t good = find_bad(queue, bad, count);

	if (good < 0)
		return otte_fail(-EUCLEAN, "ibv_post_send: %s, and not which of %u",
				 strerror(error), count);
	*accepted = (uint32_t)good;
	otte_rdma_wr_ring_take_back(&queue->ring, count - *accepted);
	otte_rdma_credits_give(queue->credits, count - *accepted);
	if (good && !(queue->wrs[good - 1].send_flags & IBV_SEND_SIGNALED))
		return otte_fail(-EPROTO, "ibv_post_send: %s, behind one without a signal",
				 strerror(error));
	return otte_fail(-error, "ibv_post_send: %s", strerror(error));
}

int otte_rdma_send_queue_post(struct otte_rdma_send_queue *queue, const struct otte_verbs *verbs,
			      struct ibv_qp *qp, const struct otte_rdma_send *sends, uint32_t count,
			      uint32_t *accepted)
{
	struct ibv_send_wr *bad = NULL;
	int rc;

	*accepted = 0;
	rc = check_all(queue, sends, count);
	if (rc)
		return rc;
	if (otte_rdma_wr_ring_room(&queue->ring) < count ||
	    !otte_rdma_credits_take(queue->credits, count))
		return -EAGAIN;
	build(queue, sends, count);
	*accepted = count;
	rc = verbs->post_send(qp, queue->wrs, &bad);
	if (rc)
		rc = settle(queue, bad, count, rc < 0 ? -rc : rc, accepted);
	queue->posted += *accepted;
	return rc;
}

/* ---- Completions ----------------------------------------------------------------------------- */

static int refuse(const struct ibv_wc *wc, const char *why)
{
	return otte_fail(-EPROTO, "QP %u: CQE of send WR 0x%" PRIx64 " %s", wc->qp_num, wc->wr_id,
			 why);
}

/* Status says whether opcode is defined. */
static int check_cqe(const struct otte_rdma_send_queue *queue, const struct ibv_wc *wc)
{
	const struct otte_rdma_wr *wr = otte_rdma_wr_ring_find(&queue->ring, wc->wr_id);

	if (!wr)
		return refuse(wc, "that is not under way");
	if (wc->status == IBV_WC_SUCCESS && wc->opcode != wr->opcode)
		return refuse(wc, "with another's opcode");
	if (wc->status == IBV_WC_SUCCESS && !wr->signaled)
		return refuse(wc, "that has no signal");
	return 0;
}

int otte_rdma_send_queue_complete(struct otte_rdma_send_queue *queue, const struct ibv_wc *wc,
				  struct otte_rdma_work **done)
{
	const struct otte_rdma_outcome outcome = {
		.evidence = OTTE_RDMA_COMPLETED,
		.code = otte_rdma_status_code(wc->status),
		.status = wc->status,
		.vendor_error = wc->vendor_err,
	};
	uint32_t count;
	bool missing;
	int rc;

	*done = NULL;
	rc = check_cqe(queue, wc);
	if (rc)
		return rc;
	otte_rdma_wr_ring_discharge(&queue->ring, wc->wr_id, &outcome, done, &count, &missing);
	otte_rdma_credits_give(queue->credits, count);
	queue->completed += count;
	if (missing)
		return refuse(wc, "before an earlier one's");
	return outcome.code;
}

uint32_t otte_rdma_send_queue_drain(struct otte_rdma_send_queue *queue,
				    struct otte_rdma_work **done)
{
	return otte_rdma_wr_ring_drain(&queue->ring, done);
}
