/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/grant.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "control/auth.h"
#include "transport/rdma/exposure.h"
#include "transport/rdma/let.h"
#include "transport/rdma/mirror.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/source.h"

/* What prepare() says beside 0 and errors. */
#define NOT_NOW 1
#define ENDS_WITH_PAIR 2

static struct otte_rdma_lent *to_lent(struct otte_rdma_exposure *exposure)
{
	return container_of(exposure, struct otte_rdma_lent, base);
}

static bool is_joined(const struct otte_rdma_lent *lent)
{
	return lent->base.pair->pair.state == OTTE_RDMA_PAIR_JOINED;
}

/* The peer counts it no more. */
static void answered(struct otte_rdma_lent *lent)
{
	if (!lent->answered)
		lent->base.source->unanswered--;
	lent->answered = true;
}

static void leave_place(struct otte_rdma_lent *lent)
{
	struct otte_rdma_source *source = lent->base.source;

	otte_rdma_places_leave(source->worker, &source->places, lent->stuck);
	lent->stuck = false;
}

static void free_lent(struct otte_rdma_lent *lent)
{
	struct otte_rdma_source *source = lent->base.source;

	if (lent->state == OTTE_RDMA_LENT_WAITING)
		DL_DELETE2(source->worker->waiting, lent, wait_prev, wait_next);
	else if (lent->state != OTTE_RDMA_LENT_RETURNED)
		leave_place(lent);
	otte_rdma_ranges_waited(&lent->range);
	DL_DELETE(source->lents, lent);
	answered(lent);
	source->worker->busy = true;
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
	struct otte_rdma_source *source = lent->base.source;
	struct otte_rdma_source_pair *pair = lent->base.pair;

	if (code == -EDQUOT || code == -ENOMEM || code == -EUCLEAN)
		say_want(source->rdma);
	if (code != -ECANCELED)
		otte_rdma_exposure_ops(&lent->base)->refused(source->peer);
	otte_rdma_exposure_refuse(source, &lent->base.ask, code);
	free_lent(lent);
	if (pair->pair.cell)
		otte_rdma_source_end_pair(pair);
}

void otte_rdma_lents_retain(struct otte_rdma_source *source)
{
	struct otte_rdma_lent *lent;

	DL_FOREACH(source->lents, lent)
		if (lent->base.stays)
			otte_rdma_exposure_retain(&lent->base);
}

/* Its place stays with it. */
static void stick(struct otte_rdma_lent *lent)
{
	lent->stuck = true;
	otte_rdma_places_stick(lent->base.source->worker);
}

/* Nothing is to be said of it any more. What stays needs no pair: that will be freed. */
static void end_lent(struct otte_rdma_lent *lent)
{
	if (!lent->base.use) {
		free_lent(lent);
		return;
	}
	answered(lent);
	lent->state = OTTE_RDMA_LENT_RETAINED;
	lent->base.pair = NULL;
}

/* ---- The receipt ---- */

static void say_done(struct otte_rdma_lent *lent, int status, bool intact)
{
	struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_DONE,
		.answer = {
			.ask = lent->base.ask.ask,
			.grant = lent->base.id,
			.status = status,
			.intact = intact,
		},
	};

	otte_rdma_source_say(lent->base.source, &message);
}

/* Nothing can reach the range any more; it is told. */
static void settle(struct otte_rdma_lent *lent)
{
	struct otte_rdma_exposure *exposure = &lent->base;
	bool used = !lent->receipt.unused, intact;
	int status;

	lent->state = OTTE_RDMA_LENT_RETURNED;
	leave_place(lent); /* others need not wait for the peer's ACK */
	status = otte_rdma_exposure_conclude(exposure, used, &intact);
	otte_rdma_exposure_settle(exposure, !status && used, OTTE_EVIDENCE_RETURNED);
	say_done(lent, status, intact);
}

/* Exactly this grant's binding has come, and has taken its key with it, if it had a window's. */
static void returned(struct otte_rdma_receipt *receipt, int code)
{
	struct otte_rdma_lent *lent = container_of(receipt, struct otte_rdma_lent, receipt);
	struct otte_rdma_exposure *exposure = &lent->base;

	if (code) /* with its queue pair: otte_rdma_lents_unpair() */
		return;
	exposure->source->worker->busy = true;
	if (otte_rdma_exposure_is_celled(exposure)) {
		if (!is_joined(lent))
			return; /* CLOSE has told everything */
		lent->state = OTTE_RDMA_LENT_LEAVING;
		otte_rdma_source_end_pair(exposure->pair);
		return;
	}
	if (exposure->window && otte_rdma_window_received(exposure->window)) {
		otte_rdma_source_fail_pair(exposure->pair, -EPROTO, otte_error_text());
		return;
	}
	otte_rdma_exposure_put_window(exposure);
	settle(lent);
	if (!is_joined(lent)) /* CLOSE has told everything, and no ACK will come */
		end_lent(lent);
}

/* ---- The window ---- */

static void say_grant(struct otte_rdma_lent *lent)
{
	const struct otte_rdma_exposure *exposure = &lent->base;
	struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_GRANT,
		.grant = {
			.ask = exposure->ask.ask,
			.grant = exposure->id,
			.address = (uint64_t)(uintptr_t)otte_rdma_exposure_at(exposure),
			.key = otte_rdma_exposure_key(exposure),
			.qpn = exposure->pair->pair.qp->end.qpn,
		},
	};

	memcpy(message.grant.nonce, lent->nonce, sizeof(lent->nonce));
	otte_rdma_source_say(exposure->source, &message);
}

static void bound(struct otte_rdma_exposure *exposure, int code)
{
	struct otte_rdma_lent *lent = to_lent(exposure);

	if (code) {
		otte_rdma_source_fail_pair(exposure->pair, code, otte_error_text());
		return;
	}
	lent->state = OTTE_RDMA_LENT_GRANTED;
	exposure->since_ns = otte_now_ns();
	atomic_fetch_add(&exposure->source->rdma->grants, 1);
	say_grant(lent);
}

/* 1: no room in the send queue now. */
static int open_window(struct otte_rdma_lent *lent)
{
	int ret;

	if (otte_rdma_exposure_is_celled(&lent->base)) { /* it is open */
		bound(&lent->base, 0);
		return 0;
	}
	ret = otte_rdma_exposure_bind(&lent->base);
	if (ret == -EAGAIN)
		return 1;
	lent->state = OTTE_RDMA_LENT_BINDING;
	return ret;
}

/* ---- From ASK to GRANT ---- */

static void fill_receipt(struct otte_rdma_lent *lent)
{
	const struct otte_rdma_exposure *exposure = &lent->base;
	const struct otte_rdma *rdma = exposure->source->rdma;
	const struct otte_identity *ours = rdma->env.identity;
	const struct otte_identity *theirs = rdma->env.source.identity(exposure->source->peer);
	const struct otte_rdma_pair *pair = &exposure->pair->pair;
	struct otte_rdma_binding binding = {
		.source = {
			.epoch = ours->epoch,
			.qpn = pair->qp->end.qpn,
			.nic = (uint8_t)pair->nic,
		},
		.requester = {
			.epoch = theirs->epoch,
			.qpn = pair->remote_qpn,
			.nic = (uint8_t)pair->remote_nic,
		},
		.grant = exposure->id,
		.address = (uint64_t)(uintptr_t)otte_rdma_exposure_at(exposure),
		.length = exposure->ask.length,
		.key = otte_rdma_exposure_key(exposure),
		.direction = exposure->ask.op,
	};

	memcpy(binding.source.boot_id, ours->boot_id, sizeof(ours->boot_id));
	memcpy(binding.source.incarnation, ours->incarnation, sizeof(ours->incarnation));
	memcpy(binding.requester.boot_id, theirs->boot_id, sizeof(theirs->boot_id));
	memcpy(binding.requester.incarnation, theirs->incarnation, sizeof(theirs->incarnation));
	memcpy(binding.nonce, lent->nonce, sizeof(binding.nonce));
	lent->receipt.done = returned;
	lent->receipt.grant = exposure->id;
	lent->receipt.key = otte_rdma_exposure_key(exposure);
	lent->receipt.plain = otte_rdma_exposure_is_celled(exposure);
	otte_rdma_binding_encode(&binding, lent->receipt.binding);
}

/* What opens the range to the peer. NOT_NOW: there is no chunk, or a producer is not done. */
static int take_key(struct otte_rdma_lent *lent)
{
	struct otte_rdma_exposure *exposure = &lent->base;
	int ret;

	if (otte_rdma_exposure_is_celled(exposure)) {
		ret = otte_rdma_exposure_register(exposure);
		lent->pending = ret > 0;
		return ret;
	}
	ret = otte_rdma_exposure_mirror(exposure);
	return ret ? ret : otte_rdma_exposure_take_window(exposure);
}

/* A key of a cell may be guessed, though nobody was told it: it is over with its pair. */
static int end_with_pair(struct otte_rdma_lent *lent, int code)
{
	otte_rdma_source_fail_pair(lent->base.pair, code, otte_error_text());
	return ENDS_WITH_PAIR;
}

/*
 * A use, a chunk if it needs one, a key, and a receipt that is waited for, in a place that was
 * reserved; or nothing. NOT_NOW; ENDS_WITH_PAIR.
 */
static int prepare(struct otte_rdma_lent *lent)
{
	struct otte_rdma_exposure *exposure = &lent->base;
	struct otte_rdma_qp *qp = exposure->pair->pair.qp;
	int ret;

	ret = otte_random(lent->nonce, sizeof(lent->nonce));
	if (!ret)
		ret = otte_rdma_exposure_begin(exposure);
	if (ret)
		goto release;
	exposure->id = atomic_fetch_add(&exposure->source->rdma->last_grant, 1) + 1;
	ret = take_key(lent);
	if (ret)
		goto cancel;
	fill_receipt(lent);
	ret = otte_rdma_qp_expect(qp, &lent->receipt);
	if (!ret)
		return 0;
	if (otte_rdma_exposure_is_celled(exposure))
		return end_with_pair(lent, ret);
	if (ret != -EEXIST && ret != -ENOMEM) { /* the place is used up */
		otte_rdma_exposure_cancel(exposure);
		return ret;
	}
cancel:
	otte_rdma_exposure_cancel(exposure);
release:
	otte_rdma_qp_release(qp, 1);
	return ret;
}

/* It waits on: another worker was faster with the last chunk. */
static void put_back(struct otte_rdma_lent *lent)
{
	struct otte_rdma_source *source = lent->base.source;

	otte_rdma_places_undo(source->worker, &source->places);
	lent->state = OTTE_RDMA_LENT_WAITING;
	DL_PREPEND2(source->worker->waiting, lent, wait_prev, wait_next);
}

/* It has a place. False: it waits on, and so do all others. */
static bool grant(struct otte_rdma_lent *lent)
{
	struct otte_rdma_source_pair *pair = lent->base.pair;
	int ret;

	ret = prepare(lent);
	if (ret == ENDS_WITH_PAIR)
		return true;
	if (ret == NOT_NOW) {
		put_back(lent);
		return lent->pending;
	}
	/* Not before: no lease of the range was to be had meanwhile. */
	otte_rdma_ranges_waited(&lent->range);
	if (ret) {
		refuse(lent, ret);
		if (ret == -EUCLEAN)
			otte_rdma_source_fail_pair(pair, ret, otte_error_text());
		return true;
	}
	ret = open_window(lent);
	if (ret < 0)
		otte_rdma_source_fail_pair(pair, ret, otte_error_text());
	return true;
}

static bool goes_before(const struct otte_rdma_lent *lent, const struct otte_rdma_lent *other)
{
	return otte_rdma_places_before(&lent->base.source->places, &other->base.source->places);
}

/*
 * The next whose queue has a place for the receipt, which is reserved; or NULL. Within a source
 * first come first. `denied`: the first that has its share of places.
 */
static struct otte_rdma_lent *find_next(struct otte_rdma_worker *worker,
					struct otte_rdma_lent **denied)
{
	uint32_t places = otte_rdma_places_free(&worker->rdma->places);
	uint32_t free = (uint32_t)min_u64(places, otte_rdma_mirrors_free(worker->rdma));
	struct otte_rdma_lent *lent, *next = NULL;

	*denied = NULL;
	DL_FOREACH2(worker->waiting, lent, wait_next) {
		if (lent->pending || (next && !goes_before(lent, next)))
			continue;
		if (!otte_rdma_places_admit(&lent->base.source->places, free)) {
			if (free == places && (!*denied || goes_before(lent, *denied)))
				*denied = lent;
			continue;
		}
		if (otte_rdma_ranges_want(worker, &lent->base.ask) ||
		    otte_rdma_qp_reserve(lent->base.pair->pair.qp, 1))
			continue;
		if (next)
			otte_rdma_qp_release(next->base.pair->pair.qp, 1);
		next = lent;
	}
	return next;
}

/* 0: a place, and a chunk, will come. */
static int check_places(struct otte_rdma *rdma)
{
	if (otte_rdma_places_all_stick(&rdma->places))
		return otte_fail(-EUCLEAN, "all of rdma.grants (%u) stay", rdma->places.total);
	return otte_rdma_mirrors_ready(rdma);
}

/* With the error's text. */
static void refuse_all(struct otte_rdma_worker *worker, int code)
{
	struct otte_rdma_lent *lent, *next;

	say_want(worker->rdma);
	DL_FOREACH_SAFE2(worker->waiting, lent, next, wait_next)
		refuse(lent, code);
}

/* False: nobody has a place now, of those who wait. */
static bool grant_next(struct otte_rdma_worker *worker)
{
	struct otte_rdma_lent *denied, *lent = find_next(worker, &denied);

	if (!lent) {
		otte_rdma_places_bid(worker, denied ? &denied->base.source->places : NULL);
		return false;
	}
	if (!otte_rdma_places_take(worker, &lent->base.source->places)) {
		otte_rdma_qp_release(lent->base.pair->pair.qp, 1);
		return false;
	}
	DL_DELETE2(worker->waiting, lent, wait_prev, wait_next);
	lent->state = OTTE_RDMA_LENT_EXPECTING;
	return grant(lent);
}

void otte_rdma_lents_go_on(struct otte_rdma_worker *worker)
{
	struct otte_rdma_lent *lent;
	int ret;

	if (!worker->waiting) {
		otte_rdma_places_bid(worker, NULL);
		return;
	}
	ret = check_places(worker->rdma);
	if (ret)
		refuse_all(worker, ret);
	DL_FOREACH2(worker->waiting, lent, wait_next)
		lent->pending = false;
	/* Each time from the beginning: where a pair fails, others that wait for it are gone. */
	while (grant_next(worker))
		;
}

/* ---- What has had its time ---- */

/* It goes another way, or asks again. */
static void look_whether_in_vain(struct otte_rdma_lent *lent, uint64_t now_ns)
{
	struct otte_rdma *rdma = lent->base.source->rdma;

	lent->base.source->worker->timed = true;
	if (otte_rdma_is_late(lent->base.since_ns, rdma->env.config->control_timeout_ns / 2,
			      now_ns))
		refuse(lent, -EAGAIN);
}

/* Nothing else would end it where a CQE is lost, or the peer keeps what it was granted. */
static int check_limits(const struct otte_rdma_lent *lent, uint64_t now_ns)
{
	const struct otte_rdma_exposure *exposure = &lent->base;
	const struct otte_config *config = exposure->source->rdma->env.config;
	int ret = 0;

	exposure->source->worker->timed = true;
	if (lent->state == OTTE_RDMA_LENT_BINDING)
		ret = otte_rdma_exposure_check_posted(exposure, "bind", now_ns);
	if (ret)
		return ret;
	if (lent->state == OTTE_RDMA_LENT_GRANTED &&
	    otte_rdma_is_late(exposure->since_ns, config->rdma_grant_ns, now_ns))
		return otte_fail(-ETIMEDOUT, "a grant is not given back (rdma.grant_ms)");
	if (exposure->recalled_ns &&
	    otte_rdma_is_late(exposure->recalled_ns, config->control_timeout_ns, now_ns))
		return otte_fail(-ETIMEDOUT,
				 "a grant that is wanted back is not (control.timeout_ms)");
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
		if (!lent->base.pair || !is_joined(lent))
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
	if (ret < 0)
		otte_rdma_exposure_fail_pair(&lent->base, ret);
}

void otte_rdma_lents_recall(struct otte_rdma_source *source,
			    const struct otte_rdma_recalls *recalls)
{
	struct otte_rdma_lent *lent;

	DL_FOREACH(source->lents, lent)
		if (is_granted(lent) && otte_rdma_recalls_name(recalls, lent->base.ask.region))
			otte_rdma_exposure_want(&lent->base);
}

/* ---- What peers say ---- */

int otte_rdma_lent_ask(struct otte_rdma_source_pair *pair, const struct otte_rdma_ask *ask)
{
	static const struct otte_rdma_exposure_use as_grant = { .bound = bound };
	struct otte_rdma_source *source = pair->source;
	uint32_t longest = otte_rdma_mirrors_longest(source->rdma);
	struct otte_rdma_lent *lent;

	if (ask->op != pair->pair.op)
		return otte_fail(-EPROTO, "op %u is asked for on a queue pair for %u", ask->op,
				 pair->pair.op);
	if (pair->pair.cell && pair->pair.spent)
		return otte_fail(-EPROTO, "two ranges are asked for on one cell");
	if (source->unanswered >= source->rdma->env.config->rdma_grants)
		return otte_fail(-EPROTO, "a peer asks for more than rdma.grants");
	if (longest && ask->length > longest)
		return otte_fail(-EPROTO, "a peer asks for more than rdma.chunk_bytes");
	lent = calloc(1, sizeof(*lent));
	if (!lent)
		return otte_fail(-ENOMEM, "no memory for a grant");
	otte_rdma_exposure_init(&lent->base, &as_grant, pair, ask);
	lent->range.worker = source->worker;
	lent->range.ask = &lent->base.ask;
	otte_rdma_ranges_wait(&lent->range);
	source->unanswered++;
	pair->pair.spent = true;
	DL_APPEND(source->lents, lent);
	DL_APPEND2(source->worker->waiting, lent, wait_prev, wait_next);
	return 0;
}

static struct otte_rdma_lent *find(struct otte_rdma_source *source, uint64_t ask)
{
	struct otte_rdma_lent *lent;

	DL_FOREACH(source->lents, lent)
		if (lent->base.ask.ask == ask)
			return lent;
	return NULL;
}

void otte_rdma_lent_acknowledged(struct otte_rdma_source *source,
				 const struct otte_rdma_answer *answer)
{
	struct otte_rdma_message message = { .type = OTTE_RDMA_MSG_READY, .answer = *answer };
	struct otte_rdma_lent *lent = find(source, answer->ask);

	if (!lent || lent->state != OTTE_RDMA_LENT_RETURNED || lent->base.id != answer->grant)
		return; /* of a queue pair that was closed */
	end_lent(lent);
	otte_rdma_source_say(source, &message);
}

void otte_rdma_lent_cancelled(struct otte_rdma_source *source,
			      const struct otte_rdma_answer *answer)
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

/* The queue pair is in ERR, unless that failed: then its windows go after it. */
void otte_rdma_lents_revoke(struct otte_rdma_source_pair *pair)
{
	struct otte_rdma_lent *lent, *next;

	DL_FOREACH_SAFE(pair->source->lents, lent, next) {
		if (lent->base.pair != pair)
			continue;
		answered(lent);
		if (lent->state == OTTE_RDMA_LENT_WAITING || lent->state == OTTE_RDMA_LENT_RETURNED)
			end_lent(lent);
		else if (pair->pair.stopped)
			otte_rdma_exposure_free_window(&lent->base);
	}
}

void otte_rdma_lents_keep(struct otte_rdma_source_pair *pair)
{
	struct otte_rdma_lent *lent;

	DL_FOREACH(pair->source->lents, lent)
		if (lent->base.pair == pair)
			lent->base.window_kept = true;
}

/* Its pair and its cell are gone. Whose line is lost nobody acknowledges. */
static void leave(struct otte_rdma_lent *lent)
{
	lent->base.pair = NULL;
	settle(lent);
	if (lent->base.source->lost)
		end_lent(lent);
}

void otte_rdma_lents_unpair(struct otte_rdma_source_pair *pair, bool gone)
{
	struct otte_rdma_lent *lent, *next;

	DL_FOREACH_SAFE(pair->source->lents, lent, next) {
		if (lent->base.pair != pair)
			continue;
		if (lent->state == OTTE_RDMA_LENT_LEAVING && gone && !lent->base.window_kept) {
			leave(lent);
			continue;
		}
		if (lent->state == OTTE_RDMA_LENT_LEAVING) { /* instead of DONE */
			answered(lent);
		}
		if (otte_rdma_exposure_unpair(&lent->base, gone)) {
			free_lent(lent);
			continue;
		}
		stick(lent);
		if (gone)
			lent->state = OTTE_RDMA_LENT_RETAINED;
	}
}
