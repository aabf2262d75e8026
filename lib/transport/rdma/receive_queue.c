/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/receive_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"

/* IB_WC_WITH_INVALIDATE of the kernel, in whose words rxe fills CQEs of user space. */
#define RXE_WC_WITH_INV (1u << 2)

/* ---- Life ------------------------------------------------------------------------------------ */

int otte_rdma_receive_queue_open(struct otte_rdma_receive_queue *queue,
				 struct otte_rdma_context *context, struct ibv_pd *pd,
				 uint32_t max_recv_wr, struct otte_rdma_credits *credits,
				 uint32_t tag)
{
	int rc;

	*queue = (struct otte_rdma_receive_queue){ .credits = credits, .rxe = context->rxe };
	rc = otte_rdma_wr_ring_open(&queue->ring, max_recv_wr, tag);
	if (rc)
		return rc;
	rc = otte_rdma_messages_open(&queue->messages, context, pd,
				     max_recv_wr ? queue->ring.size : 0);
	if (rc)
		otte_rdma_wr_ring_close(&queue->ring);
	return rc;
}

int otte_rdma_receive_queue_close(struct otte_rdma_receive_queue *queue)
{
	otte_rdma_wr_ring_close(&queue->ring);
	return otte_rdma_messages_close(&queue->messages);
}

/* ---- Room ------------------------------------------------------------------------------------ */

int otte_rdma_receive_queue_reserve(struct otte_rdma_receive_queue *queue, uint32_t count)
{
	if (otte_rdma_wr_ring_room(&queue->ring) - queue->reserved < count ||
	    !otte_rdma_credits_take(queue->credits, count))
		return -EAGAIN;
	queue->reserved += count;
	return 0;
}

void otte_rdma_receive_queue_release(struct otte_rdma_receive_queue *queue, uint32_t count)
{
	queue->reserved -= count;
	otte_rdma_credits_give(queue->credits, count);
}

/* ---- Receipts -------------------------------------------------------------------------------- */

static struct otte_rdma_receipt *find(const struct otte_rdma_receive_queue *queue, uint64_t grant)
{
	struct otte_rdma_receipt *receipt;

	HASH_FIND(hh, queue->receipts, &grant, sizeof(grant), receipt);
	return receipt;
}

static int add(struct otte_rdma_receive_queue *queue, struct otte_rdma_receipt *receipt)
{
	if (find(queue, receipt->grant))
		return -EEXIST;
	HASH_ADD(hh, queue->receipts, grant, sizeof(receipt->grant), receipt);
	if (!receipt->hh.tbl)
		return otte_fail(-ENOMEM, "no memory for a receipt");
	receipt->expected = true;
	queue->expected++;
	return 0;
}

static void remove_receipt(struct otte_rdma_receive_queue *queue, struct otte_rdma_receipt *receipt)
{
	HASH_DEL(queue->receipts, receipt);
	receipt->expected = false;
	queue->expected--;
}

/* ---- Posting --------------------------------------------------------------------------------- */

/* A WR's only `bad_wr` is itself. */
static int settle(struct otte_rdma_receive_queue *queue, const struct ibv_recv_wr *wr,
		  const struct ibv_recv_wr *bad, int error)
{
	if (bad != wr)
		return otte_fail(-EUCLEAN, "ibv_post_recv: %s, and not which", strerror(error));
	otte_rdma_wr_ring_take_back(&queue->ring, 1);
	otte_rdma_credits_give(queue->credits, 1);
	return otte_fail(-error, "ibv_post_recv: %s", strerror(error));
}

static int post(struct otte_rdma_receive_queue *queue, const struct otte_verbs *verbs,
		struct ibv_qp *qp)
{
	static const struct otte_rdma_wr charged = { .signaled = true, .opcode = IBV_WC_RECV };
	struct ibv_recv_wr wr = { .num_sge = 1 }, *bad = NULL;
	struct ibv_sge sge;
	int rc;

	otte_rdma_wr_ring_push(&queue->ring, &charged, &wr.wr_id);
	sge = otte_rdma_messages_sge(&queue->messages, otte_rdma_wr_place(&queue->ring, wr.wr_id));
	wr.sg_list = &sge;
	rc = verbs->post_recv(qp, &wr, &bad);
	return rc ? settle(queue, &wr, bad, rc < 0 ? -rc : rc) : 0;
}

/* A buffer that is posted and no receipt needs, or another one. */
static int provide(struct otte_rdma_receive_queue *queue, const struct otte_verbs *verbs,
		   struct ibv_qp *qp)
{
	if (queue->ring.charged < queue->expected)
		return post(queue, verbs, qp);
	otte_rdma_credits_give(queue->credits, 1);
	return 0;
}

int otte_rdma_receive_queue_expect(struct otte_rdma_receive_queue *queue,
				   const struct otte_verbs *verbs, struct ibv_qp *qp,
				   struct otte_rdma_receipt *receipt)
{
	int rc;

	if (!queue->reserved)
		return otte_fail(-EINVAL, "QP %u: a receipt without a place", qp->qp_num);
	rc = add(queue, receipt);
	if (rc)
		return rc;
	queue->reserved--;
	rc = provide(queue, verbs, qp);
	if (rc)
		remove_receipt(queue, receipt);
	return rc;
}

bool otte_rdma_receive_queue_forget(struct otte_rdma_receive_queue *queue,
				    struct otte_rdma_receipt *receipt)
{
	if (!receipt->expected)
		return false;
	remove_receipt(queue, receipt);
	return true;
}

/* ---- Completions ----------------------------------------------------------------------------- */

static int refuse(const struct ibv_wc *wc, const char *why)
{
	return otte_fail(-EPROTO, "QP %u: CQE of receive WR 0x%" PRIx64 " %s", wc->qp_num,
			 wc->wr_id, why);
}

static bool has_invalidated(const struct otte_rdma_receive_queue *queue, const struct ibv_wc *wc)
{
	return wc->wc_flags & (IBV_WC_WITH_INV | (queue->rxe ? RXE_WC_WITH_INV : 0));
}

/* What is wrong with the keys that came invalidated; NULL: nothing. */
static const char *check_keys(const struct otte_rdma_receive_queue *queue,
			      const struct otte_rdma_receipt *receipt, const struct ibv_wc *wc)
{
	if (receipt->plain)
		return has_invalidated(queue, wc) ? "that has invalidated a key" : NULL;
	if (!has_invalidated(queue, wc))
		return "that has invalidated no key";
	return wc->invalidated_rkey != receipt->key ? "that has invalidated another key" : NULL;
}

/* The receipt that the message is, all of it; else NULL, with a text. */
static struct otte_rdma_receipt *match(const struct otte_rdma_receive_queue *queue,
				       const struct ibv_wc *wc, const uint8_t *message)
{
	struct otte_rdma_binding binding;
	struct otte_rdma_receipt *receipt;
	const char *why;

	if (wc->byte_len != OTTE_RDMA_BINDING_BYTES) {
		refuse(wc, "with a message of another length");
		return NULL;
	}
	if (otte_rdma_binding_decode(message, &binding)) {
		otte_fail_within(-EPROTO, "QP %u: ", wc->qp_num);
		return NULL;
	}
	receipt = find(queue, binding.grant);
	why = receipt ? check_keys(queue, receipt, wc) : "of a grant that is not expected";
	if (!why && memcmp(message, receipt->binding, OTTE_RDMA_BINDING_UNUSED_AT) != 0)
		why = "with another binding";
	if (!why) {
		receipt->unused = binding.unused;
		return receipt;
	}
	refuse(wc, why);
	return NULL;
}

/* The buffer's WR is over, whatever it brought. */
static int discharge(struct otte_rdma_receive_queue *queue, const struct ibv_wc *wc)
{
	const struct otte_rdma_wr *wr = otte_rdma_wr_ring_find(&queue->ring, wc->wr_id);
	struct otte_rdma_work *none = NULL;
	uint32_t count;
	bool missing;

	if (!wr)
		return refuse(wc, "that is not under way");
	if (wc->status == IBV_WC_SUCCESS && wc->opcode != wr->opcode)
		return refuse(wc, "with another's opcode");
	otte_rdma_wr_ring_discharge(&queue->ring, wc->wr_id, &(struct otte_rdma_outcome){}, &none,
				    &count, &missing);
	otte_rdma_credits_give(queue->credits, count);
	return missing ? refuse(wc, "before an earlier one's") : otte_rdma_status_code(wc->status);
}

int otte_rdma_receive_queue_complete(struct otte_rdma_receive_queue *queue, const struct ibv_wc *wc,
				     struct otte_rdma_receipt **done)
{
	uint32_t place = otte_rdma_wr_place(&queue->ring, wc->wr_id);
	struct otte_rdma_receipt *receipt;
	int rc;

	*done = NULL;
	rc = discharge(queue, wc);
	if (rc)
		return rc;
	receipt = match(queue, wc, otte_rdma_messages_at(&queue->messages, place));
	if (!receipt)
		return -EPROTO;
	remove_receipt(queue, receipt);
	receipt->next = NULL;
	queue->received++;
	*done = receipt;
	return 0;
}

uint32_t otte_rdma_receive_queue_drain(struct otte_rdma_receive_queue *queue,
				       struct otte_rdma_receipt **done)
{
	struct otte_rdma_receipt *receipt, *next;
	struct otte_rdma_work *none;

	*done = NULL;
	HASH_ITER(hh, queue->receipts, receipt, next) {
		remove_receipt(queue, receipt);
		receipt->next = *done;
		*done = receipt;
	}
	otte_rdma_receive_queue_release(queue, queue->reserved);
	return otte_rdma_wr_ring_drain(&queue->ring, &none);
}
