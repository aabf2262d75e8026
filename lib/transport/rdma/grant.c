/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A range of ours that a peer's NIC may reach.
 *
 * It has a loan in the ledger before anything can reach it, and a window that opens exactly this range, in one
 * direction, to one queue pair, by a key that nobody had before. Over it is when the peer's binding has come by that
 * queue pair and has invalidated that key (RETURNED); or when the queue pair is in ERR, its windows are freed, and it
 * is destroyed (REVOKED). Nothing else says so, least of all time: what is neither stays taken, and is recorded as
 * retained.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "control/auth.h"
#include "ledger/ledger.h"
#include "transport/rdma/lease.h"

/* One source has at most so many times what it leaves to others. */
#define PLACES_TIMES 3

static const struct otte_source_ops *ops_of(const struct otte_rdma_lent *lent)
{
	return &lent->source->rdma->env.source;
}

/* The peer counts it no more. */
static void answered(struct otte_rdma_lent *lent)
{
	if (!lent->answered)
		lent->source->unanswered--;
	lent->answered = true;
}

static void leave_place(struct otte_rdma_lent *lent)
{
	struct otte_rdma *rdma = lent->source->rdma;

	rdma->places--;
	lent->source->places--;
	if (lent->stuck)
		rdma->stuck--;
	lent->stuck = false;
}

static void free_lent(struct otte_rdma_lent *lent)
{
	struct otte_rdma_source *source = lent->source;

	if (lent->state == OTTE_RDMA_LENT_WAITING)
		DL_DELETE2(source->rdma->waiting, lent, wait_prev, wait_next);
	else if (lent->state != OTTE_RDMA_LENT_RETURNED)
		leave_place(lent);
	DL_DELETE(source->lents, lent);
	answered(lent);
	source->rdma->busy = true;
	free(lent);
}

/* It is ours to mend, and the peer hears no text. */
static void say_want(struct otte_rdma *rdma)
{
	if (otte_log_second_admits(&rdma->wanted_ns, otte_now_ns()))
		otte_log(OTTE_LOG_WARNING, "a peer gets no grant: %s", otte_error_text());
}

static void refuse(struct otte_rdma_lent *lent, int code)
{
	struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_REFUSED,
		.answer = { .ask = lent->ask.ask, .status = code },
	};

	if (code == -EDQUOT || code == -ENOMEM || code == -EUCLEAN)
		say_want(lent->source->rdma);
	if (code != -ECANCELED)
		ops_of(lent)->refused(lent->source->peer);
	otte_rdma_source_say(lent->source, &message);
	free_lent(lent);
}

static void end_use(struct otte_rdma_lent *lent, bool complete, enum otte_evidence evidence)
{
	struct otte_source_use *use = lent->use;

	lent->use = NULL;
	if (use)
		ops_of(lent)->end_lent(use, complete, evidence);
}

/* With the next look again, where it cannot be recorded. */
static void retain(struct otte_rdma_lent *lent)
{
	bool first = !lent->stays;

	lent->stays = true;
	if (!lent->use || lent->retained)
		return;
	lent->retained = !ops_of(lent)->retain(lent->use);
	lent->source->rdma->unrecorded |= !lent->retained;
	if (!lent->retained && first)
		otte_log(OTTE_LOG_ERROR, "a range that a NIC may still reach: %s", otte_error_text());
}

void otte_rdma_lents_retain(struct otte_rdma_source *source)
{
	struct otte_rdma_lent *lent;

	DL_FOREACH(source->lents, lent)
		if (lent->stays)
			retain(lent);
}

/* So does its place. */
static void stick(struct otte_rdma_lent *lent)
{
	lent->stuck = true;
	lent->source->rdma->stuck++;
	lent->source->rdma->busy = true;
}

/* It stays, and needs no pair: that will be freed. */
static void forget_pair(struct otte_rdma_lent *lent)
{
	lent->state = OTTE_RDMA_LENT_RETAINED;
	lent->pair = NULL;
}

/* Nothing is to be said of it any more. */
static void end_lent(struct otte_rdma_lent *lent)
{
	if (!lent->use) {
		free_lent(lent);
		return;
	}
	answered(lent);
	forget_pair(lent);
}

/* ---- Windows of a pair ---- */

static void window_stays(struct otte_rdma *rdma, uint64_t bytes)
{
	otte_log(OTTE_LOG_ERROR, "a memory window stays: %s", otte_error_text());
	otte_rdma_lost(rdma, bytes, "rdma: a memory window that could not be freed");
}

/* Nothing is bound to it any more. Not 0: it stays, and so must its range. */
static int spare_window(struct otte_rdma_lent *lent)
{
	struct otte_rdma_window *window = lent->window;
	int ret;

	lent->window = NULL;
	if (!window)
		return 0;
	ret = otte_rdma_window_release(window);
	if (ret) {
		window_stays(lent->source->rdma, lent->ask.length);
		return ret;
	}
	window->next = lent->pair->spares;
	lent->pair->spares = window;
	return 0;
}

/*
 * With a key that nobody had. The context gives out first what it got last, and has no others that are idle; one
 * whose keys are used up stays there.
 */
int otte_rdma_source_take_window(struct otte_rdma_source_pair *pair, struct otte_rdma_window **window)
{
	struct otte_rdma_window *spare = pair->spares;

	if (spare) {
		pair->spares = spare->next;
		otte_rdma_window_put(spare); /* which was released */
	}
	return otte_rdma_window_take(pair->pair.qp->context, window);
}

static int drop_window(struct otte_rdma *rdma, struct otte_rdma_window *window, uint64_t bytes)
{
	int ret = otte_rdma_window_free(window);

	if (ret)
		window_stays(rdma, bytes);
	return ret;
}

static void drop_spares(struct otte_rdma_source_pair *pair)
{
	struct otte_rdma_window *window;

	while ((window = pair->spares)) {
		pair->spares = window->next;
		drop_window(pair->source->rdma, window, 0);
	}
}

/* ---- The receipt ---- */

static void say_done(struct otte_rdma_lent *lent, int status)
{
	struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_DONE,
		.answer = { .ask = lent->ask.ask, .grant = lent->id, .status = status },
	};

	otte_rdma_source_say(lent->source, &message);
}

/* Exactly this grant's binding has come, and has taken its key with it. */
static void returned(struct otte_rdma_receipt *receipt, int code)
{
	struct otte_rdma_lent *lent = container_of(receipt, struct otte_rdma_lent, receipt);
	bool kept;
	int status;

	if (code) /* with its queue pair: otte_rdma_lents_unpair() */
		return;
	lent->source->rdma->busy = true;
	if (lent->window && otte_rdma_window_received(lent->window)) {
		otte_rdma_source_fail_pair(lent->pair, -EPROTO, otte_error_text());
		return;
	}
	kept = spare_window(lent) || lent->window_kept;
	lent->state = OTTE_RDMA_LENT_RETURNED;
	leave_place(lent); /* others need not wait for the peer's ACK */
	status = ops_of(lent)->still(lent->use);
	if (kept)
		retain(lent);
	else
		end_use(lent, !status, OTTE_EVIDENCE_RETURNED);
	if (lent->pair->pair.state == OTTE_RDMA_PAIR_JOINED)
		say_done(lent, status);
	else /* CLOSE has told everything, and no ACK will come */
		end_lent(lent);
}

/* ---- The window ---- */

static void say_grant(struct otte_rdma_lent *lent)
{
	struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_GRANT,
		.grant = {
			.ask = lent->ask.ask,
			.grant = lent->id,
			.address = (uint64_t)(uintptr_t)lent->address,
			.key = lent->window->key,
			.qpn = lent->pair->pair.qp->end.qpn,
		},
	};

	memcpy(message.grant.nonce, lent->nonce, sizeof(lent->nonce));
	otte_rdma_source_say(lent->source, &message);
}

static void bound(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct otte_rdma_lent *lent = container_of(work, struct otte_rdma_lent, bind);
	int ret;

	lent->source->rdma->busy = true;
	if (!lent->window)
		return; /* freed, as its queue pair is about to be destroyed */
	ret = otte_rdma_window_bound(lent->window, outcome);
	if (lent->pair->pair.state != OTTE_RDMA_PAIR_JOINED)
		return;
	if (ret) {
		otte_rdma_source_fail_pair(lent->pair, ret, otte_error_text());
		return;
	}
	lent->state = OTTE_RDMA_LENT_GRANTED;
	lent->since_ns = otte_now_ns();
	atomic_fetch_add(&lent->source->rdma->grants, 1);
	say_grant(lent);
}

/* 1: no room in the send queue now. */
static int open_window(struct otte_rdma_lent *lent)
{
	const struct otte_rdma_buffer *buffer = ops_of(lent)->published(lent->use)->buffer;
	const struct otte_rdma_window_range range = {
		.parent = &buffer->by_nic[lent->pair->pair.nic].parent,
		.address = (uint64_t)(uintptr_t)lent->address,
		.bytes = lent->ask.length,
		.direction = lent->ask.op,
	};
	int ret;

	lent->bind.done = bound;
	ret = otte_rdma_window_bind(lent->window, lent->pair->pair.qp, &range, &lent->bind);
	if (ret == -EAGAIN)
		return 1;
	lent->state = OTTE_RDMA_LENT_BINDING;
	lent->since_ns = otte_now_ns();
	return ret;
}

/* ---- From ASK to GRANT ---- */

static int begin_use(struct otte_rdma_lent *lent)
{
	const struct otte_rdma_ask *ask = &lent->ask;
	const struct otte_lane_request request = {
		.op = ask->op,
		.priority = ask->priority,
		.intent = ask->intent,
		.id = ask->ask,
		.epoch = ask->epoch,
		.region = ask->region,
		.offset = ask->offset,
		.length = ask->length,
	};
	const struct otte_published *published;
	int ret;

	ret = ops_of(lent)->begin_lent(lent->source->peer, &request, &lent->use, &lent->address);
	if (ret)
		return ret;
	published = ops_of(lent)->published(lent->use);
	if (published && published->buffer && published->buffer->remote &&
	    published->buffer->by_nic[lent->pair->pair.nic].parent.state == OTTE_RDMA_MR_LIVE)
		return 0;
	end_use(lent, false, OTTE_EVIDENCE_NEVER_EXPOSED);
	if (published && !published->buffer)
		return otte_fail(-EOPNOTSUPP, "rdma.host_memory is staged: NICs reach none of our regions");
	return otte_fail(-EOPNOTSUPP, "no NIC knows region %lu", (unsigned long)ask->region);
}

static void fill_receipt(struct otte_rdma_lent *lent)
{
	const struct otte_rdma *rdma = lent->source->rdma;
	const struct otte_identity *ours = rdma->env.identity;
	const struct otte_identity *theirs = rdma->env.source.identity(lent->source->peer);
	const struct otte_rdma_pair *pair = &lent->pair->pair;
	struct otte_rdma_binding binding = {
		.source = { .epoch = ours->epoch, .qpn = pair->qp->end.qpn, .nic = (uint8_t)pair->nic },
		.requester = { .epoch = theirs->epoch, .qpn = pair->remote_qpn, .nic = (uint8_t)pair->remote_nic },
		.grant = lent->id,
		.address = (uint64_t)(uintptr_t)lent->address,
		.length = lent->ask.length,
		.key = lent->window->key,
		.direction = lent->ask.op,
	};

	memcpy(binding.source.boot_id, ours->boot_id, sizeof(ours->boot_id));
	memcpy(binding.source.incarnation, ours->incarnation, sizeof(ours->incarnation));
	memcpy(binding.requester.boot_id, theirs->boot_id, sizeof(theirs->boot_id));
	memcpy(binding.requester.incarnation, theirs->incarnation, sizeof(theirs->incarnation));
	memcpy(binding.nonce, lent->nonce, sizeof(binding.nonce));
	lent->receipt.done = returned;
	lent->receipt.grant = lent->id;
	lent->receipt.key = lent->window->key;
	otte_rdma_binding_encode(&binding, lent->receipt.binding);
}

/* A use, a window and a receipt that is waited for, in a place that was reserved; or nothing of it. */
static int prepare(struct otte_rdma_lent *lent)
{
	struct otte_rdma_pair *pair = &lent->pair->pair;
	int ret;

	ret = otte_random(lent->nonce, sizeof(lent->nonce));
	if (!ret)
		ret = begin_use(lent);
	if (ret)
		goto release;
	lent->id = ++lent->source->rdma->last_grant;
	ret = otte_rdma_source_take_window(lent->pair, &lent->window);
	if (ret)
		goto end_use;
	fill_receipt(lent);
	ret = otte_rdma_qp_expect(pair->qp, &lent->receipt);
	if (!ret)
		return 0;
	spare_window(lent); /* which has never had a parent */
	if (ret != -EEXIST && ret != -ENOMEM) { /* the place is used up */
		end_use(lent, false, OTTE_EVIDENCE_NEVER_EXPOSED);
		return ret;
	}
end_use:
	end_use(lent, false, OTTE_EVIDENCE_NEVER_EXPOSED);
release:
	otte_rdma_qp_release(pair->qp, 1);
	return ret;
}

/* It has a place. */
static void grant(struct otte_rdma_lent *lent)
{
	struct otte_rdma_source_pair *pair = lent->pair;
	int ret;

	ret = prepare(lent);
	if (ret) {
		refuse(lent, ret);
		if (ret == -EUCLEAN)
			otte_rdma_source_fail_pair(pair, ret, otte_error_text());
		return;
	}
	ret = open_window(lent);
	if (ret < 0)
		otte_rdma_source_fail_pair(pair, ret, otte_error_text());
}

/* Of two that wait for a place: whose source has fewer, or has waited longer for one. */
static bool goes_before(const struct otte_rdma_lent *lent, const struct otte_rdma_lent *other)
{
	const struct otte_rdma_source *source = lent->source, *its = other->source;

	return source->places != its->places ? source->places < its->places : source->turn < its->turn;
}

/* The next whose queue has a place for the receipt, which is reserved; or NULL. Within a source first come first. */
static struct otte_rdma_lent *find_next(struct otte_rdma *rdma)
{
	uint32_t free = rdma->env.config->rdma_grants - rdma->places;
	struct otte_rdma_lent *lent, *next = NULL;

	DL_FOREACH2(rdma->waiting, lent, wait_next) {
		if ((next && !goes_before(lent, next)) || !otte_rdma_share(lent->source->places, free, PLACES_TIMES) ||
		    otte_rdma_let_in_way(rdma, &lent->ask) || otte_rdma_qp_reserve(lent->pair->pair.qp, 1))
			continue;
		if (next)
			otte_rdma_qp_release(next->pair->pair.qp, 1);
		next = lent;
	}
	return next;
}

/* No place will come any more. */
static void refuse_all(struct otte_rdma *rdma)
{
	struct otte_rdma_lent *lent, *next;

	DL_FOREACH_SAFE2(rdma->waiting, lent, next, wait_next) {
		otte_fail(-EUCLEAN, "all of rdma.grants (%u) stay", rdma->stuck);
		refuse(lent, -EUCLEAN);
	}
}

void otte_rdma_lents_go_on(struct otte_rdma *rdma)
{
	struct otte_rdma_lent *lent;

	if (rdma->stuck == rdma->env.config->rdma_grants)
		refuse_all(rdma);
	/* Each time from the beginning: where a pair fails, others that wait for it are gone. */
	while ((lent = find_next(rdma))) {
		DL_DELETE2(rdma->waiting, lent, wait_prev, wait_next);
		rdma->places++;
		lent->source->places++;
		lent->source->turn = ++rdma->last_turn;
		lent->state = OTTE_RDMA_LENT_EXPECTING;
		grant(lent);
	}
}

/* ---- What has had its time ---- */

/* It goes another way, or asks again. */
static void look_whether_in_vain(struct otte_rdma_lent *lent, uint64_t now_ns)
{
	uint64_t limit_ns = lent->source->rdma->env.config->control_timeout_ns / 2;

	lent->source->rdma->timed = true;
	if (otte_rdma_is_late(lent->since_ns, limit_ns, now_ns))
		refuse(lent, -EAGAIN);
}

/* Nothing else would end it where a CQE is lost, or the peer keeps what it was granted. */
static int check_limits(const struct otte_rdma_lent *lent, uint64_t now_ns)
{
	const struct otte_config *config = lent->source->rdma->env.config;

	lent->source->rdma->timed = true;
	if (lent->state == OTTE_RDMA_LENT_BINDING &&
	    otte_rdma_is_late(lent->since_ns, config->control_timeout_ns, now_ns))
		return otte_fail(-ETIMEDOUT, "nothing is heard of a bind (control.timeout_ms)");
	if (lent->state == OTTE_RDMA_LENT_GRANTED &&
	    otte_rdma_is_late(lent->since_ns, config->rdma_grant_ns, now_ns))
		return otte_fail(-ETIMEDOUT, "a grant is not given back (rdma.grant_ms)");
	if (lent->recalled_ns && otte_rdma_is_late(lent->recalled_ns, config->control_timeout_ns, now_ns))
		return otte_fail(-ETIMEDOUT, "a grant that is wanted back is not (control.timeout_ms)");
	return 0;
}

static bool is_granted(const struct otte_rdma_lent *lent)
{
	return lent->state == OTTE_RDMA_LENT_EXPECTING || lent->state == OTTE_RDMA_LENT_BINDING ||
	       lent->state == OTTE_RDMA_LENT_GRANTED;
}

void otte_rdma_lents_look(struct otte_rdma_source *source, uint64_t now_ns)
{
	struct otte_rdma_lent *lent, *next;
	int ret = 0;

	DL_FOREACH_SAFE(source->lents, lent, next) {
		if (!lent->pair || lent->pair->pair.state != OTTE_RDMA_PAIR_JOINED)
			continue;
		if (lent->state == OTTE_RDMA_LENT_WAITING) {
			look_whether_in_vain(lent, now_ns);
			continue;
		}
		ret = is_granted(lent) ? check_limits(lent, now_ns) : 0;
		if (!ret && lent->state == OTTE_RDMA_LENT_EXPECTING)
			ret = open_window(lent);
		if (ret < 0)
			break;
	}
	if (ret >= 0)
		return;
	if (otte_log_second_admits(&source->rdma->failed_ns, now_ns))
		otte_log(OTTE_LOG_WARNING, "queue pair of a peer's NIC %u: %s", lent->pair->pair.remote_nic,
			 otte_error_text());
	otte_rdma_source_fail_pair(lent->pair, ret, otte_error_text());
}

void otte_rdma_lents_recall(struct otte_rdma_source *source, const struct otte_rdma_recalls *recalls)
{
	uint64_t now_ns = otte_now_ns();
	struct otte_rdma_lent *lent;

	DL_FOREACH(source->lents, lent)
		if (is_granted(lent) && !lent->recalled_ns && otte_rdma_recalls_name(recalls, lent->ask.region))
			lent->recalled_ns = now_ns;
}

/* ---- What peers say ---- */

int otte_rdma_lent_ask(struct otte_rdma_source_pair *pair, const struct otte_rdma_ask *ask)
{
	struct otte_rdma_source *source = pair->source;
	struct otte_rdma_lent *lent;

	if (ask->op != pair->pair.op)
		return otte_fail(-EPROTO, "op %u is asked for on a queue pair for %u", ask->op, pair->pair.op);
	if (source->unanswered >= source->rdma->env.config->rdma_grants)
		return otte_fail(-EPROTO, "a peer asks for more than rdma.grants");
	lent = calloc(1, sizeof(*lent));
	if (!lent)
		return otte_fail(-ENOMEM, "no memory for a grant");
	lent->source = source;
	lent->pair = pair;
	lent->ask = *ask;
	lent->since_ns = otte_now_ns();
	source->unanswered++;
	DL_APPEND(source->lents, lent);
	DL_APPEND2(source->rdma->waiting, lent, wait_prev, wait_next);
	return 0;
}

static struct otte_rdma_lent *find(struct otte_rdma_source *source, uint64_t ask)
{
	struct otte_rdma_lent *lent;

	DL_FOREACH(source->lents, lent)
		if (lent->ask.ask == ask)
			return lent;
	return NULL;
}

void otte_rdma_lent_acknowledged(struct otte_rdma_source *source, const struct otte_rdma_answer *answer)
{
	struct otte_rdma_message message = { .type = OTTE_RDMA_MSG_READY, .answer = *answer };
	struct otte_rdma_lent *lent = find(source, answer->ask);

	if (!lent || lent->state != OTTE_RDMA_LENT_RETURNED || lent->id != answer->grant)
		return; /* of a queue pair that was closed */
	end_lent(lent);
	otte_rdma_source_say(source, &message);
}

void otte_rdma_lent_cancelled(struct otte_rdma_source *source, const struct otte_rdma_answer *answer)
{
	struct otte_rdma_lent *lent = find(source, answer->ask);

	if (lent && lent->state == OTTE_RDMA_LENT_WAITING)
		refuse(lent, -ECANCELED);
}

/* ---- Without the peer ---- */

void otte_rdma_lents_forget(struct otte_rdma_source *source)
{
	struct otte_rdma_lent *lent, *next;

	DL_FOREACH_SAFE(source->lents, lent, next)
		if (lent->state == OTTE_RDMA_LENT_WAITING || lent->state == OTTE_RDMA_LENT_RETURNED)
			end_lent(lent);
}

static void free_window(struct otte_rdma_lent *lent)
{
	if (!lent->window)
		return;
	lent->window_kept = drop_window(lent->source->rdma, lent->window, lent->ask.length);
	lent->window = NULL;
}

/* The queue pair is in ERR, unless that failed: then its windows go after it. */
void otte_rdma_lents_revoke(struct otte_rdma_source_pair *pair)
{
	struct otte_rdma_lent *lent, *next;

	if (pair->pair.stopped)
		drop_spares(pair);
	DL_FOREACH_SAFE(pair->source->lents, lent, next) {
		if (lent->pair != pair)
			continue;
		answered(lent);
		if (lent->state == OTTE_RDMA_LENT_WAITING || lent->state == OTTE_RDMA_LENT_RETURNED)
			end_lent(lent);
		else if (pair->pair.stopped)
			free_window(lent);
	}
}

void otte_rdma_lents_unpair(struct otte_rdma_source_pair *pair, bool gone)
{
	struct otte_rdma_lent *lent, *next;

	if (gone)
		drop_spares(pair);
	DL_FOREACH_SAFE(pair->source->lents, lent, next) {
		if (lent->pair != pair)
			continue;
		if (gone)
			free_window(lent);
		if (!gone || lent->window_kept) {
			retain(lent);
			stick(lent);
			if (gone)
				forget_pair(lent);
			continue;
		}
		end_use(lent, false, OTTE_EVIDENCE_REVOKED);
		free_lent(lent);
	}
}
