/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A piece of a request: asked for, granted, moved, given back.
 *
 * A work is in at most one transfer at a time, and then in its peer's `running`. It is told, or handed on, when
 * nothing of ours can touch its range any more: every WR that was posted for it has completed, or its QP is destroyed.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/rdma/rdma.h"

static bool is_charged(const struct otte_rdma_transfer *transfer)
{
	return transfer->payload_charged || transfer->finish_charged;
}

/* ---- The end of one ---- */

/* The work leaves the transfer; nobody cancels it by that any more. */
static struct otte_work *let_go(struct otte_rdma_transfer *transfer)
{
	struct otte_rdma_peer *peer = transfer->peer;
	struct otte_work *work = transfer->work;

	pthread_mutex_lock(&peer->lock);
	DL_DELETE2(peer->running, work, own.prev, own.next);
	pthread_mutex_unlock(&peer->lock);
	transfer->work = NULL;
	return work;
}

static void free_transfer(struct otte_rdma_transfer *transfer)
{
	DL_DELETE(transfer->peer->transfers, transfer);
	free(transfer);
}

/* It was answered for good. */
static void settle(struct otte_rdma_transfer *transfer)
{
	transfer->peer->unanswered--;
	free_transfer(transfer);
}

/*
 * Between two pieces the work is in the queue again, and before all others. It is in one list or the other whenever
 * somebody wants its end; who did so before is heard here.
 */
static int go_on_later(struct otte_rdma_transfer *transfer)
{
	struct otte_rdma_peer *peer = transfer->peer;
	struct otte_work *work = transfer->work;
	int code;

	transfer->work = NULL;
	pthread_mutex_lock(&peer->lock);
	DL_DELETE2(peer->running, work, own.prev, own.next);
	code = atomic_load(&work->own.abandon);
	if (!code)
		DL_PREPEND2(peer->queue, work, own.prev, own.next);
	pthread_mutex_unlock(&peer->lock);
	return code;
}

/* The piece is over, as the source says, and everything of it has completed. */
static void end_piece(struct otte_rdma_transfer *transfer)
{
	struct otte_work *work = transfer->work;
	int code = transfer->status;

	if (!work)
		return;
	if (code) {
		otte_fail(code, "the peer says that it was in vain");
		otte_rdma_work_tell(let_go(transfer), code, true);
		return;
	}
	work->own.moved += transfer->bytes;
	if (work->own.moved == work->length) {
		otte_rdma_work_tell(let_go(transfer), 0, true);
		return;
	}
	code = go_on_later(transfer);
	if (code)
		otte_rdma_work_tell(work, code, true);
}

static void look_whether_over(struct otte_rdma_transfer *transfer)
{
	struct otte_rdma_message ack = {
		.type = OTTE_RDMA_MSG_ACK,
		.answer = { .ask = transfer->ask, .grant = transfer->grant },
	};

	/* Of what has failed its pair tells the rest, whatever the source says. */
	if (transfer->state != OTTE_RDMA_TRANSFER_POSTED || is_charged(transfer) || !transfer->done || transfer->code)
		return;
	transfer->state = OTTE_RDMA_TRANSFER_OVER;
	transfer->since_ns = otte_now_ns();
	otte_rdma_peer_say(transfer->peer, &ack);
	end_piece(transfer);
}

/*
 * Nothing of it moves any more, and its pair is of no use. What was not begun goes the other way as if nothing had
 * been; so does a READ, as a retry. A WRITE that may have reached the peer ends.
 */
static void end_lost(struct otte_rdma_transfer *transfer)
{
	struct otte_rdma_peer *peer = transfer->peer;
	struct otte_work *work;
	int abandon;

	if (!transfer->work)
		return;
	work = let_go(transfer);
	abandon = atomic_load(&work->own.abandon);
	otte_fail(-ECONNRESET, "queue pair %u of the peer is lost", transfer->pair->remote_qpn);
	if (abandon || (transfer->payload_posted && !work->retries)) {
		otte_rdma_work_tell(work, abandon ? abandon : -ECONNRESET, true);
		return;
	}
	if (transfer->payload_posted && work->op == OTTE_READ && work->wanted != OTTE_TRANSPORT_RDMA) {
		work->retries--;
		atomic_fetch_add(&peer->rdma->retries, 1);
	}
	otte_rdma_work_hand_on(peer, work, -ECONNRESET);
}

static void look_whether_lost(struct otte_rdma_transfer *transfer)
{
	if (transfer->state == OTTE_RDMA_TRANSFER_LOST && !is_charged(transfer))
		end_lost(transfer);
}

void otte_rdma_transfers_lose(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair)
{
	struct otte_rdma_transfer *transfer, *next;

	DL_FOREACH_SAFE(peer->transfers, transfer, next) {
		if (transfer->pair != pair || transfer->state == OTTE_RDMA_TRANSFER_LOST)
			continue;
		peer->unanswered--;
		transfer->state = OTTE_RDMA_TRANSFER_LOST;
		look_whether_lost(transfer);
	}
}

/*
 * The NIC may write into, or read, what it was told to for as long as there is the queue pair: who waits for the
 * request is told so, and its range stays taken.
 */
static void end_unproven(struct otte_rdma_transfer *transfer)
{
	const struct otte_keep_ops *keep = &transfer->peer->rdma->env.keep;
	struct otte_work *work;
	void *kept;

	if (!transfer->work)
		return;
	work = transfer->work;
	work->carrier = OTTE_TRANSPORT_RDMA;
	if (keep->keep(work, work->local + work->own.moved, transfer->bytes, &kept)) {
		otte_log(OTTE_LOG_ERROR, "a range that a NIC may still use: %s", otte_error_text());
		return; /* the request has it as long as it is not told; with the next look */
	}
	work = let_go(transfer);
	otte_fail(-EUCLEAN, "a queue pair could not be destroyed");
	otte_rdma_work_tell(work, -EUCLEAN, false);
}

void otte_rdma_transfers_unpair(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair, bool gone)
{
	struct otte_rdma_transfer *transfer, *next;

	DL_FOREACH_SAFE(peer->transfers, transfer, next) {
		if (transfer->pair != pair)
			continue;
		if (!gone)
			end_unproven(transfer);
		else
			free_transfer(transfer);
	}
}

/* ---- Moving ---- */

static void completed(struct otte_rdma_transfer *transfer, const struct otte_rdma_outcome *outcome)
{
	transfer->peer->rdma->busy = true;
	if (outcome->code && !transfer->code)
		transfer->code = outcome->code;
	if (!is_charged(transfer))
		transfer->since_ns = otte_now_ns();
	look_whether_over(transfer);
	look_whether_lost(transfer);
}

static void payload_done(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct otte_rdma_transfer *transfer = container_of(work, struct otte_rdma_transfer, payload);

	transfer->payload_charged = false;
	completed(transfer, outcome);
}

static void finish_done(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct otte_rdma_transfer *transfer = container_of(work, struct otte_rdma_transfer, finish);

	transfer->finish_charged = false;
	completed(transfer, outcome);
}

/* Its region may have been registered when the NIC was not to be had. */
static bool is_known(const struct otte_work *work, unsigned int nic)
{
	return work->published->buffer->by_nic[nic].local.state == OTTE_RDMA_MR_LIVE;
}

static void fill_payload(struct otte_rdma_transfer *transfer, struct otte_rdma_send *send)
{
	const struct otte_work *work = transfer->work;
	const struct otte_rdma_buffer *buffer = work->published->buffer;

	*send = (struct otte_rdma_send){
		.op = work->op == OTTE_READ ? OTTE_RDMA_READ : OTTE_RDMA_WRITE,
		.local = (uint64_t)(uintptr_t)(work->local + work->own.moved),
		.bytes = transfer->bytes,
		.lkey = buffer->by_nic[transfer->pair->nic].local.native->lkey,
		.remote = transfer->address,
		.key = transfer->key,
		.work = &transfer->payload,
	};
}

static void post(struct otte_rdma_transfer *transfer)
{
	struct otte_rdma_send sends[2];
	uint32_t count = 0, accepted = 0;
	bool payload = transfer->work && !transfer->unused;
	int ret;

	if (payload)
		fill_payload(transfer, &sends[count++]);
	sends[count++] = (struct otte_rdma_send){
		.op = OTTE_RDMA_FINISH,
		.fenced = true,
		.key = transfer->key,
		.message = transfer->binding,
		.work = &transfer->finish,
	};
	/* What was posted may be told before this returns, but by this thread alone, which does not poll now. */
	ret = otte_rdma_qp_post(transfer->pair->qp, sends, count, &accepted);
	if (ret == -EAGAIN)
		return;
	transfer->payload_posted = transfer->payload_charged = payload && accepted > 0;
	transfer->finish_charged = accepted == count;
	if (transfer->payload_posted)
		transfer->work->own.torn = true;
	transfer->state = OTTE_RDMA_TRANSFER_POSTED;
	if (ret)
		transfer->pair->failed(transfer->pair, ret);
}

/* The caller of a request wants its end. */
static void abandon(struct otte_rdma_transfer *transfer, int code)
{
	struct otte_rdma_message cancel = {
		.type = OTTE_RDMA_MSG_CANCEL,
		.answer.ask = transfer->ask,
	};

	if (transfer->state == OTTE_RDMA_TRANSFER_POSTED && is_charged(transfer) && code == -ETIMEDOUT) {
		otte_fail(-ETIMEDOUT, "a request that is overdue");
		transfer->pair->failed(transfer->pair, -ETIMEDOUT);
	}
	/* What has failed ends with its pair. */
	if (transfer->state > OTTE_RDMA_TRANSFER_POSTED || is_charged(transfer) || transfer->code)
		return;
	if (transfer->state == OTTE_RDMA_TRANSFER_ASKED)
		otte_rdma_peer_say(transfer->peer, &cancel);
	transfer->unused = transfer->state != OTTE_RDMA_TRANSFER_POSTED;
	otte_rdma_work_tell(let_go(transfer), code, true);
}

static const char *missing(const struct otte_rdma_transfer *transfer)
{
	if (transfer->state == OTTE_RDMA_TRANSFER_ASKED)
		return "GRANT";
	if (transfer->state == OTTE_RDMA_TRANSFER_OVER)
		return "READY";
	if (transfer->state == OTTE_RDMA_TRANSFER_POSTED && !is_charged(transfer) && !transfer->code)
		return "DONE";
	return NULL;
}

static void look_whether_late(struct otte_rdma_transfer *transfer, uint64_t now_ns)
{
	const struct otte_config *config = transfer->peer->rdma->env.config;
	const char *what = missing(transfer);
	uint64_t limit_ns = config->control_timeout_ns;

	if (transfer->state == OTTE_RDMA_TRANSFER_ASKED)
		limit_ns *= 2;
	if (!what || now_ns - min_u64(now_ns, transfer->since_ns) <= limit_ns)
		return;
	otte_fail(-ETIMEDOUT, "the peer does not say %s (control.timeout_ms)", what);
	otte_rdma_peer_break(transfer->peer, -ETIMEDOUT);
}

void otte_rdma_transfers_go_on(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	struct otte_rdma_transfer *transfer, *next;

	DL_FOREACH_SAFE(peer->transfers, transfer, next) {
		int code = transfer->work ? atomic_load(&transfer->work->own.abandon) : 0;

		if (transfer->pair->state == OTTE_RDMA_PAIR_RETAINED)
			end_unproven(transfer);
		else if (code)
			abandon(transfer, code);
		if (transfer->state == OTTE_RDMA_TRANSFER_GRANTED)
			post(transfer);
		look_whether_late(transfer, now_ns);
	}
}

/* ---- What is asked and answered ---- */

static struct otte_rdma_transfer *find(struct otte_rdma_peer *peer, uint64_t ask)
{
	struct otte_rdma_transfer *transfer;

	DL_FOREACH(peer->transfers, transfer)
		if (transfer->ask == ask)
			return transfer;
	return NULL;
}

/*
 * In the queue until now, if it is still there: who wants it to end early may have been faster. It stays there where
 * the NIC does not know its memory.
 */
static bool take(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair, struct otte_work *work,
		 bool *known)
{
	struct otte_work *each;

	pthread_mutex_lock(&peer->lock);
	DL_FOREACH2(peer->queue, each, own.next)
		if (each == work && each->op == pair->op)
			break;
	*known = each && is_known(work, pair->nic);
	if (*known) {
		DL_DELETE2(peer->queue, work, own.prev, own.next);
		DL_APPEND2(peer->running, work, own.prev, own.next);
	}
	pthread_mutex_unlock(&peer->lock);
	return each;
}

int otte_rdma_transfer_begin(struct otte_rdma_peer *peer, struct otte_rdma_pair *pair, struct otte_work *work)
{
	struct otte_rdma_message ask = { .type = OTTE_RDMA_MSG_ASK };
	struct otte_rdma_transfer *transfer;
	bool known;

	transfer = calloc(1, sizeof(*transfer));
	if (!transfer)
		return otte_fail(-ENOMEM, "no memory for a transfer");
	if (!take(peer, pair, work, &known)) {
		free(transfer);
		return 0;
	}
	if (!known) {
		free(transfer);
		return otte_fail(-EOPNOTSUPP, "NIC %u does not know the local region", pair->nic);
	}
	transfer->peer = peer;
	transfer->pair = pair;
	transfer->work = work;
	transfer->ask = ++peer->last_ask;
	transfer->since_ns = otte_now_ns();
	transfer->bytes = min_u64(work->length - work->own.moved, OTTE_RDMA_PIECE_BYTES);
	transfer->payload.done = payload_done;
	transfer->finish.done = finish_done;
	DL_APPEND(peer->transfers, transfer);
	peer->unanswered++;
	ask.ask = (struct otte_rdma_ask){
		.ask = transfer->ask,
		.connection = pair->connection,
		.epoch = work->epoch,
		.region = work->region,
		.offset = work->offset + work->own.moved,
		.length = transfer->bytes,
		.op = work->op,
		.priority = work->priority,
		.intent = work->intent,
	};
	otte_rdma_peer_say(peer, &ask);
	return 0;
}

static void fill_binding(struct otte_rdma_transfer *transfer, const struct otte_rdma_grant *grant)
{
	const struct otte_identity *ours = transfer->peer->rdma->env.identity;
	const struct otte_identity *theirs = &transfer->peer->source;
	const struct otte_rdma_pair *pair = transfer->pair;
	struct otte_rdma_binding binding = {
		.source = { .epoch = theirs->epoch, .qpn = grant->qpn, .nic = (uint8_t)pair->remote_nic },
		.requester = { .epoch = ours->epoch, .qpn = pair->qp->end.qpn, .nic = (uint8_t)pair->nic },
		.grant = grant->grant,
		.address = grant->address,
		.length = transfer->bytes,
		.key = grant->key,
		.direction = pair->op,
	};

	memcpy(binding.source.boot_id, theirs->boot_id, sizeof(theirs->boot_id));
	memcpy(binding.source.incarnation, theirs->incarnation, sizeof(theirs->incarnation));
	memcpy(binding.requester.boot_id, ours->boot_id, sizeof(ours->boot_id));
	memcpy(binding.requester.incarnation, ours->incarnation, sizeof(ours->incarnation));
	memcpy(binding.nonce, grant->nonce, sizeof(binding.nonce));
	otte_rdma_binding_encode(&binding, transfer->binding);
}

int otte_rdma_transfer_granted(struct otte_rdma_peer *peer, const struct otte_rdma_grant *grant)
{
	struct otte_rdma_transfer *transfer = find(peer, grant->ask);

	if (!transfer || transfer->state == OTTE_RDMA_TRANSFER_LOST)
		return 0;
	if (transfer->state != OTTE_RDMA_TRANSFER_ASKED || grant->qpn != transfer->pair->remote_qpn)
		return otte_fail(-EPROTO, "a grant that nobody asked for");
	transfer->grant = grant->grant;
	transfer->address = grant->address;
	transfer->key = grant->key;
	fill_binding(transfer, grant);
	transfer->state = OTTE_RDMA_TRANSFER_GRANTED;
	post(transfer);
	return 0;
}

/* No place has come for a while: what may go by nothing else asks again. */
static void ask_again(struct otte_rdma_transfer *transfer)
{
	struct otte_work *work = transfer->work;
	int code = go_on_later(transfer);

	if (code)
		otte_rdma_work_tell(work, code, true);
}

static void refused(struct otte_rdma_transfer *transfer, int code)
{
	struct otte_rdma_peer *peer = transfer->peer;
	struct otte_work *work = transfer->work;

	if (work && code == -EAGAIN && work->wanted == OTTE_TRANSPORT_RDMA) {
		ask_again(transfer);
	} else if (work) {
		let_go(transfer);
		otte_fail(code, "the peer does not grant it");
		otte_rdma_work_hand_on(peer, work, code);
	}
	settle(transfer);
}

int otte_rdma_transfer_answered(struct otte_rdma_peer *peer, const struct otte_rdma_message *message)
{
	const struct otte_rdma_answer *answer = &message->answer;
	struct otte_rdma_transfer *transfer = find(peer, answer->ask);

	/* Its pair was closed meanwhile. */
	if (!transfer || transfer->state == OTTE_RDMA_TRANSFER_LOST)
		return 0;
	if (message->type == OTTE_RDMA_MSG_REFUSED && transfer->state == OTTE_RDMA_TRANSFER_ASKED) {
		refused(transfer, answer->status);
		return 0;
	}
	if (message->type == OTTE_RDMA_MSG_DONE && transfer->state == OTTE_RDMA_TRANSFER_POSTED && !transfer->done &&
	    answer->grant == transfer->grant) {
		transfer->done = true;
		transfer->status = answer->status;
		look_whether_over(transfer);
		return 0;
	}
	if (message->type == OTTE_RDMA_MSG_READY && transfer->state == OTTE_RDMA_TRANSFER_OVER &&
	    answer->grant == transfer->grant) {
		settle(transfer);
		return 0;
	}
	return otte_fail(-EPROTO, "message %u of a source, for a request in state %u", message->type,
			 transfer->state);
}
