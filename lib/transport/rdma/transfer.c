/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A slice on its way: asked for, granted, moved, given back.
 *
 * A slice leaves its transfer when nothing of ours can touch its range any more: every WR that was
 * posted for it has completed, or its QP is destroyed. What is left of the transfer is between us
 * and the source.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/rdma/endpoint.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/parent.h"
#include "transport/rdma/payload.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/routes.h"
#include "transport/rdma/transfer.h"

static bool is_charged(const struct otte_rdma_transfer *transfer)
{
	return transfer->payload_charged || transfer->finish_charged;
}

/* ---- The end of one ---- */

/*
 * The slice leaves the transfer; nobody cancels it by that any more. What was posted to a pair that
 * is lost keeps its stage until that is gone.
 */
static struct otte_rdma_slice *let_go(struct otte_rdma_transfer *transfer)
{
	struct otte_rdma_slice *slice = transfer->slice;

	if (transfer->state != OTTE_RDMA_TRANSFER_LOST || !transfer->payload_posted)
		otte_rdma_stage_give(transfer->peer->worker, &transfer->stage);
	if (transfer->payload_posted && !transfer->intact)
		transfer->work->own.torn = true;
	transfer->slice = NULL;
	transfer->work = NULL;
	return slice;
}

/* What came of it, for the health of its rail. */
static void vouch(struct otte_rdma_transfer *transfer)
{
	if (transfer->ticketed)
		otte_rdma_rail_succeed(transfer->peer, transfer->pair->nic,
				       transfer->pair->remote_nic, &transfer->ticket);
	transfer->ticketed = false;
	otte_rdma_endpoint_succeeded(transfer->pair->owner);
}

static void give_ticket_back(struct otte_rdma_transfer *transfer)
{
	if (transfer->ticketed)
		otte_rdma_rail_cancel(transfer->peer, &transfer->ticket);
	transfer->ticketed = false;
}

static void free_transfer(struct otte_rdma_transfer *transfer)
{
	otte_rdma_posts_remove(&transfer->peer->worker->posts, &transfer->posting);
	DL_DELETE(transfer->peer->transfers, transfer);
	otte_rdma_stage_give(transfer->peer->worker, &transfer->stage);
	free(transfer);
}

/* It was answered for good. */
static void settle(struct otte_rdma_transfer *transfer)
{
	transfer->peer->unanswered--;
	free_transfer(transfer);
}

/* It is over, as the source says, and everything of it has completed. */
static void end_slice(struct otte_rdma_transfer *transfer)
{
	vouch(transfer);
	if (!transfer->slice)
		return;
	if (!transfer->status)
		transfer->status = otte_rdma_stage_empty(&transfer->stage, transfer->slice);
	if (transfer->status)
		otte_rdma_slice_failed(let_go(transfer), transfer->status);
	else
		otte_rdma_slice_done(let_go(transfer));
}

/* What came of it is known by DONE alone, whatever its CQEs say. */
static bool is_proven(const struct otte_rdma_transfer *transfer)
{
	return transfer->done && transfer->pair->cell;
}

static void say_ack(struct otte_rdma_peer *peer, uint64_t ask, uint64_t grant)
{
	struct otte_rdma_message ack = {
		.type = OTTE_RDMA_MSG_ACK,
		.answer = { .ask = ask, .grant = grant },
	};

	otte_rdma_peer_say(peer, &ack);
}

static void be_over(struct otte_rdma_transfer *transfer)
{
	transfer->state = OTTE_RDMA_TRANSFER_OVER;
	transfer->since_ns = otte_now_ns();
	if (!transfer->orphan)
		say_ack(transfer->peer, transfer->ask, transfer->grant);
	end_slice(transfer);
}

static void look_whether_over(struct otte_rdma_transfer *transfer)
{
	if (transfer->state != OTTE_RDMA_TRANSFER_POSTED || !transfer->done)
		return;
	if (is_proven(transfer))
		otte_rdma_endpoint_end(transfer->pair);
	/* Of what has failed its pair tells the rest, whatever the source says. */
	else if (transfer->code)
		return;
	if (!is_charged(transfer))
		be_over(transfer);
}

/* Nothing of it moves any more, and its pair is of no use. */
static void look_whether_lost(struct otte_rdma_transfer *transfer)
{
	bool posted = transfer->payload_posted;

	if (transfer->state == OTTE_RDMA_TRANSFER_LOST && !is_charged(transfer) && transfer->slice)
		otte_rdma_slice_lost(let_go(transfer), transfer->pair->owner, posted);
}

/* One failure of a pair is one of its rail, however many transfers there are on it. */
static void blame(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair, int code)
{
	bool blames = otte_rdma_blames_rail(code);
	struct otte_rdma_transfer *transfer;

	DL_FOREACH(peer->transfers, transfer) {
		if (transfer->pair != pair || transfer->state == OTTE_RDMA_TRANSFER_LOST)
			continue;
		if (blames && transfer->ticketed) {
			otte_rdma_rail_fail(peer, pair->nic, pair->remote_nic, &transfer->ticket);
			transfer->ticketed = blames = false;
		}
		give_ticket_back(transfer);
	}
	otte_rdma_rail_blame(peer, pair, blames, code);
}

void otte_rdma_transfers_lose(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair,
			      int code)
{
	struct otte_rdma_transfer *transfer, *next;

	/* First, so that nothing of it is tried again over that rail. */
	blame(peer, pair, code);
	DL_FOREACH_SAFE(peer->transfers, transfer, next) {
		if (transfer->pair != pair || transfer->state == OTTE_RDMA_TRANSFER_LOST)
			continue;
		peer->unanswered--;
		otte_rdma_posts_remove(&peer->worker->posts, &transfer->posting);
		transfer->state = OTTE_RDMA_TRANSFER_LOST;
		look_whether_lost(transfer);
	}
}

/*
 * The NIC may write into, or read, what it was told to for as long as there is the queue pair: a
 * chunk stays, and the request's own range is as free as where all has completed. In place, who
 * waits for the request is told so, and its range stays taken.
 */
static void end_unproven(struct otte_rdma_transfer *transfer)
{
	bool staged = transfer->stage.chunk;

	if (transfer->payload_charged || (staged && transfer->payload_posted))
		otte_rdma_stage_stick(transfer->peer->worker, &transfer->stage);
	else
		otte_rdma_stage_give(transfer->peer->worker, &transfer->stage);
	if (!transfer->slice)
		return;
	if (transfer->payload_charged)
		otte_device_lease_tell(&transfer->slice->lease, OTTE_DEVICE_DOUBTED,
				       transfer->bytes, otte_now_ns());
	if (staged)
		otte_rdma_slice_lost(let_go(transfer), transfer->pair->owner,
				     transfer->payload_posted);
	else
		otte_rdma_slice_unproven(let_go(transfer));
}

void otte_rdma_transfers_unpair(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair,
				bool gone)
{
	struct otte_rdma_transfer *transfer, *next;

	DL_FOREACH_SAFE(peer->transfers, transfer, next) {
		if (transfer->pair != pair)
			continue;
		if (!gone)
			end_unproven(transfer);
		else if (transfer->state == OTTE_RDMA_TRANSFER_OVER && !transfer->orphan)
			transfer->pair = NULL;
		else
			free_transfer(transfer);
	}
}

void otte_rdma_transfers_forget(struct otte_rdma_peer *peer)
{
	struct otte_rdma_transfer *transfer, *next;

	DL_FOREACH_SAFE(peer->transfers, transfer, next) {
		if (transfer->state == OTTE_RDMA_TRANSFER_LOST)
			continue;
		transfer->orphan = true;
		if (!transfer->pair)
			free_transfer(transfer);
	}
}

/* ---- Moving ---- */

static void completed(struct otte_rdma_transfer *transfer, const struct otte_rdma_outcome *outcome)
{
	transfer->peer->worker->busy = true;
	otte_rdma_pair_hear(transfer->pair);
	if (outcome->code && !transfer->code && !is_proven(transfer))
		transfer->code = outcome->code;
	if (!is_charged(transfer))
		transfer->since_ns = otte_now_ns();
	look_whether_over(transfer);
	look_whether_lost(transfer);
}

static void payload_done(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct otte_rdma_transfer *transfer =
		container_of(work, struct otte_rdma_transfer, payload);
	enum otte_device_event event =
		outcome->code && !is_proven(transfer) ? OTTE_DEVICE_DROPPED : OTTE_DEVICE_COMPLETED;

	transfer->payload_charged = false;
	if (transfer->slice)
		otte_device_lease_tell(&transfer->slice->lease, event, transfer->bytes,
				       otte_now_ns());
	completed(transfer, outcome);
}

static void finish_done(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct otte_rdma_transfer *transfer = container_of(work, struct otte_rdma_transfer, finish);

	transfer->finish_charged = false;
	completed(transfer, outcome);
}

static void fill_payload(struct otte_rdma_transfer *transfer, struct otte_rdma_send *send)
{
	const struct otte_work *work = transfer->work;

	*send = (struct otte_rdma_send){
		.op = work->op == OTTE_READ ? OTTE_RDMA_READ : OTTE_RDMA_WRITE,
		.remote = transfer->address,
		.key = transfer->key,
		.work = &transfer->payload,
	};
	otte_rdma_stage_place(transfer->peer->rdma, &transfer->stage, transfer->slice,
			      transfer->pair->nic, send);
}

/* What cannot be read is not sent: the grant goes back unused. */
static void fill_stage(struct otte_rdma_transfer *transfer)
{
	int ret = 0;

	if (transfer->work && !transfer->unused)
		ret = otte_rdma_stage_fill(&transfer->stage, transfer->slice);
	if (!ret)
		return;
	transfer->unused = true;
	otte_rdma_slice_failed(let_go(transfer), ret);
}

static void post(struct otte_rdma_transfer *transfer)
{
	struct otte_rdma_send sends[2];
	uint32_t count = 0, accepted = 0;
	struct otte_device_lease *lease;
	bool payload;
	int ret;

	fill_stage(transfer);
	payload = transfer->work && !transfer->unused;
	lease = payload ? &transfer->slice->lease : NULL;
	if (payload)
		fill_payload(transfer, &sends[count++]);
	transfer->binding[OTTE_RDMA_BINDING_UNUSED_AT] = !payload;
	sends[count++] = (struct otte_rdma_send){
		.op = transfer->pair->cell ? OTTE_RDMA_TELL : OTTE_RDMA_FINISH,
		.fenced = true,
		.key = transfer->key,
		.message = transfer->binding,
		.work = &transfer->finish,
	};
	if (payload)
		otte_device_lease_tell(lease, OTTE_DEVICE_POSTED, transfer->bytes, otte_now_ns());
	/*
	 * What was posted may be told before this returns, but by this thread alone, which does not
	 * poll now.
	 */
	ret = otte_rdma_pair_post(transfer->pair, sends, count, &accepted);
	if (payload && !accepted)
		otte_device_lease_tell(lease, OTTE_DEVICE_DROPPED, transfer->bytes, otte_now_ns());
	if (ret == -EAGAIN)
		return;
	transfer->payload_posted = transfer->payload_charged = payload && accepted > 0;
	transfer->finish_charged = accepted == count;
	transfer->state = OTTE_RDMA_TRANSFER_POSTED;
	if (ret)
		transfer->pair->failed(transfer->pair, ret);
}

static void post_in_turn(struct otte_rdma_posting *posting)
{
	post(container_of(posting, struct otte_rdma_transfer, posting));
}

/* At once; payload in its turn, where there are slots. What goes back unused is no payload. */
static void go(struct otte_rdma_transfer *transfer)
{
	struct otte_rdma_posts *posts = &transfer->peer->worker->posts;

	if (otte_rdma_posts_gate(posts) && transfer->work && !transfer->unused) {
		otte_rdma_posts_add(posts, &transfer->posting, transfer->work->priority,
				    transfer->work->own.since_ns);
		return;
	}
	otte_rdma_posts_remove(posts, &transfer->posting);
	post(transfer);
}

/* The caller of a request wants its end. */
static void abandon(struct otte_rdma_transfer *transfer, int code)
{
	struct otte_rdma_message cancel = {
		.type = OTTE_RDMA_MSG_CANCEL,
		.answer.ask = transfer->ask,
	};

	if (transfer->state == OTTE_RDMA_TRANSFER_POSTED && is_charged(transfer) &&
	    code == -ETIMEDOUT) {
		otte_fail(-ETIMEDOUT, "a request that is overdue");
		transfer->pair->failed(transfer->pair, -ECANCELED); /* which blames no rail */
	}
	/* What has failed ends with its pair. */
	if (transfer->state > OTTE_RDMA_TRANSFER_POSTED || is_charged(transfer) || transfer->code)
		return;
	if (transfer->state == OTTE_RDMA_TRANSFER_ASKED)
		otte_rdma_peer_say(transfer->peer, &cancel);
	transfer->unused = transfer->state != OTTE_RDMA_TRANSFER_POSTED;
	otte_rdma_slice_failed(let_go(transfer), code);
}

static const char *missing(const struct otte_rdma_transfer *transfer)
{
	if (transfer->state == OTTE_RDMA_TRANSFER_ASKED)
		return "GRANT";
	if (transfer->state == OTTE_RDMA_TRANSFER_OVER)
		return "READY";
	if (transfer->state == OTTE_RDMA_TRANSFER_POSTED && !is_charged(transfer) &&
	    !transfer->code)
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

static void go_on_with(struct otte_rdma_transfer *transfer)
{
	int code = transfer->work ? atomic_load(&transfer->work->own.abandon) : 0;

	if (transfer->pair->state == OTTE_RDMA_PAIR_RETAINED)
		end_unproven(transfer);
	else if (code)
		abandon(transfer, code);
	if (transfer->state == OTTE_RDMA_TRANSFER_GRANTED)
		go(transfer);
}

void otte_rdma_transfers_go_on(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	struct otte_rdma_transfer *transfer, *next;

	DL_FOREACH_SAFE(peer->transfers, transfer, next) {
		if (transfer->pair)
			go_on_with(transfer);
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

static void log_rail(const struct otte_rdma_transfer *transfer)
{
	const struct otte_rdma_pair *pair = transfer->pair;
	const struct otte_rdma_context *context = pair->rdma->pollers[pair->nic].context;
	const struct otte_rdma_path *path =
		otte_rdma_find_path(&transfer->peer->paths, pair->remote_nic);
	struct otte_rdma_gid gid = {};
	char text[OTTE_RDMA_GID_TEXT];

	if (path)
		memcpy(gid.bytes, path->gid, sizeof(gid.bytes));
	otte_log(OTTE_LOG_DEBUG,
		 "slice of %lu bytes: NIC %u (%s port %u) to NIC %u (%s) of peer %s",
		 (unsigned long)transfer->bytes, pair->nic, context->name, context->port,
		 pair->remote_nic, otte_rdma_gid_text(&gid, text), transfer->peer->source.name);
}

int otte_rdma_transfer_begin(struct otte_rdma_peer *peer, struct otte_rdma_pair *pair,
			     struct otte_rdma_slice *slice, const struct otte_rail_ticket *ticket,
			     const struct otte_rdma_stage *stage)
{
	struct otte_rdma_message ask = { .type = OTTE_RDMA_MSG_ASK };
	struct otte_work *work = slice->parent->work;
	struct otte_rdma_transfer *transfer = calloc(1, sizeof(*transfer));

	if (!transfer)
		return otte_fail(-ENOMEM, "no memory for a transfer");
	transfer->peer = peer;
	transfer->pair = pair;
	transfer->slice = slice;
	transfer->bytes = slice->bytes;
	transfer->ask = ++peer->last_ask;
	transfer->since_ns = otte_now_ns();
	transfer->payload.done = payload_done;
	transfer->finish.done = finish_done;
	transfer->posting.post = post_in_turn;
	DL_APPEND(peer->transfers, transfer);
	peer->unanswered++;
	transfer->work = work;
	transfer->ticket = *ticket;
	transfer->ticketed = true;
	transfer->stage = *stage;
	pair->spent = true;
	if (peer->rdma->env.config->rdma_log_slice_affinity)
		log_rail(transfer);
	ask.ask = (struct otte_rdma_ask){
		.ask = transfer->ask,
		.connection = pair->connection,
		.epoch = work->epoch,
		.region = work->region,
		.offset = work->offset + slice->offset,
		.length = slice->bytes,
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
		.source = {
			.epoch = theirs->epoch,
			.qpn = grant->qpn,
			.nic = (uint8_t)pair->remote_nic,
		},
		.requester = {
			.epoch = ours->epoch,
			.qpn = pair->qp->end.qpn,
			.nic = (uint8_t)pair->nic,
		},
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
	/* In slots with all that were granted with it, in the order in which they were asked for. */
	if (otte_rdma_posts_gate(&peer->worker->posts))
		peer->worker->busy = true;
	else
		post(transfer);
	return 0;
}

static void refused(struct otte_rdma_transfer *transfer, int code)
{
	give_ticket_back(transfer);
	if (transfer->pair->cell)
		otte_rdma_endpoint_end(transfer->pair);
	if (transfer->slice)
		otte_rdma_slice_refused(let_go(transfer), code);
	settle(transfer);
}

int otte_rdma_transfer_answered(struct otte_rdma_peer *peer,
				const struct otte_rdma_message *message)
{
	const struct otte_rdma_answer *answer = &message->answer;
	struct otte_rdma_transfer *transfer = find(peer, answer->ask);

	/*
	 * Its pair was closed meanwhile. A cell's end at the source, which has said this, hears of
	 * no CLOSE any more.
	 */
	if (!transfer || transfer->state == OTTE_RDMA_TRANSFER_LOST) {
		if (message->type == OTTE_RDMA_MSG_DONE)
			say_ack(peer, answer->ask, answer->grant);
		return 0;
	}
	if (message->type == OTTE_RDMA_MSG_REFUSED && transfer->state == OTTE_RDMA_TRANSFER_ASKED) {
		refused(transfer, answer->status);
		return 0;
	}
	if (message->type == OTTE_RDMA_MSG_DONE && transfer->state == OTTE_RDMA_TRANSFER_POSTED &&
	    !transfer->done && answer->grant == transfer->grant) {
		transfer->done = true;
		transfer->status = answer->status;
		transfer->intact = answer->intact;
		look_whether_over(transfer);
		return 0;
	}
	if (message->type == OTTE_RDMA_MSG_READY && transfer->state == OTTE_RDMA_TRANSFER_OVER &&
	    answer->grant == transfer->grant) {
		settle(transfer);
		return 0;
	}
	return otte_fail(-EPROTO, "message %u of a source, for a request in state %u",
			 message->type, transfer->state);
}
