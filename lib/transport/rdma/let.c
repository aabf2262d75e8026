/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A range of ours that a peer's NIC may reach for as long as we let it.
 *
 * As a grant (grant.c) it has a loan of exactly its range, and a window of exactly that, in one direction, to one queue
 * pair. It is over (REVOKED) when our invalidation of its key has completed; or with its queue pair, as a grant is. The
 * peer's word that it has done is no evidence, and only has us begin.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "ledger/ledger.h"
#include "transport/rdma/lease.h"

/* One source has at most so many times what it leaves to others. */
#define LEASES_TIMES 3
/* Those that are to be renewed sooner are looked at often. */
#define SHORT_IDLE_NS (4 * NSEC_PER_SEC)

static const struct otte_source_ops *ops_of(const struct otte_rdma_let *let)
{
	return &let->source->rdma->env.source;
}

static const struct otte_config *config_of(const struct otte_rdma_source *source)
{
	return source->rdma->env.config;
}

static void free_let(struct otte_rdma_let *let)
{
	let->source->leases--;
	let->source->rdma->leases--;
	let->source->rdma->busy = true;
	DL_DELETE(let->source->lets, let);
	free(let);
}

static void end_use(struct otte_rdma_let *let, enum otte_evidence evidence)
{
	struct otte_source_use *use = let->use;

	let->use = NULL;
	if (use)
		ops_of(let)->end_lent(use, false, evidence);
}

/* With the next look again, where it cannot be recorded. */
static void retain(struct otte_rdma_let *let)
{
	bool first = !let->stays;

	let->stays = true;
	if (!let->use || let->retained)
		return;
	let->retained = !ops_of(let)->retain(let->use);
	let->source->rdma->unrecorded |= !let->retained;
	if (!let->retained && first)
		otte_log(OTTE_LOG_ERROR, "a range that a NIC may still reach: %s", otte_error_text());
}

static void say(struct otte_rdma_let *let, uint16_t type)
{
	struct otte_rdma_message message = { .type = type, .leasing.lease = let->id };

	otte_rdma_source_say(let->source, &message);
}

static void fail_pair(struct otte_rdma_let *let, int code)
{
	if (otte_log_second_admits(&let->source->rdma->failed_ns, otte_now_ns()))
		otte_log(OTTE_LOG_WARNING, "queue pair of a peer's NIC %u: %s", let->pair->pair.remote_nic,
			 otte_error_text());
	otte_rdma_source_fail_pair(let->pair, code, otte_error_text());
}

/* ---- Its window ---- */

static void window_stays(struct otte_rdma_let *let)
{
	let->window_kept = true;
	otte_log(OTTE_LOG_ERROR, "a memory window stays: %s", otte_error_text());
	otte_rdma_lost(let->source->rdma, let->ask.length, "rdma: a memory window that could not be freed");
}

/* Its queue pair is in ERR or gone. */
static void free_window(struct otte_rdma_let *let)
{
	struct otte_rdma_window *window = let->window;

	let->window = NULL;
	if (window && otte_rdma_window_free(window))
		window_stays(let);
}

/* Nothing is bound to it. What was invalidated from here is not used again on rxe, which crashes at the next time. */
static void give_window_back(struct otte_rdma_let *let)
{
	struct otte_rdma_window *window = let->window;

	if (window->context->rxe) {
		free_window(let);
		return;
	}
	let->window = NULL;
	if (otte_rdma_window_release(window)) {
		window_stays(let);
		return;
	}
	window->next = let->pair->spares;
	let->pair->spares = window;
}

/* ---- Its end ---- */

static void invalidated(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct otte_rdma_let *let = container_of(work, struct otte_rdma_let, invalidation);
	int ret;

	let->source->rdma->busy = true;
	if (!let->window)
		return; /* freed, as its queue pair is about to be destroyed */
	ret = otte_rdma_window_invalidated(let->window, outcome);
	if (let->pair->pair.state != OTTE_RDMA_PAIR_JOINED)
		return;
	if (ret) {
		fail_pair(let, ret);
		return;
	}
	give_window_back(let);
	say(let, OTTE_RDMA_MSG_ENDED);
	if (let->window_kept) {
		retain(let);
		let->state = OTTE_RDMA_LET_RETAINED;
		let->pair = NULL;
		return;
	}
	end_use(let, OTTE_EVIDENCE_REVOKED);
	free_let(let);
}

/* Where there is no room, with the next look. */
static int invalidate(struct otte_rdma_let *let)
{
	int ret;

	let->invalidation.done = invalidated;
	ret = otte_rdma_window_invalidate(let->window, let->pair->pair.qp, &let->invalidation);
	if (ret == -EAGAIN)
		return 0;
	let->posted = true;
	return ret;
}

static int begin_end(struct otte_rdma_let *let)
{
	let->state = OTTE_RDMA_LET_ENDING;
	let->since_ns = otte_now_ns();
	return invalidate(let);
}

/* ---- Its beginning ---- */

static void say_leased(struct otte_rdma_let *let)
{
	const struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_LEASED,
		.leased = {
			.ask = let->ask.ask,
			.lease = let->id,
			.address = (uint64_t)(uintptr_t)let->address,
			.key = let->window->key,
			.qpn = let->pair->pair.qp->end.qpn,
			.idle_ms = (uint32_t)(config_of(let->source)->rdma_lease_idle_ns / NSEC_PER_MSEC),
		},
	};

	otte_rdma_source_say(let->source, &message);
}

static void bound(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct otte_rdma_let *let = container_of(work, struct otte_rdma_let, bind);
	int ret;

	let->source->rdma->busy = true;
	if (!let->window)
		return;
	ret = otte_rdma_window_bound(let->window, outcome);
	if (let->pair->pair.state != OTTE_RDMA_PAIR_JOINED)
		return;
	if (ret) {
		fail_pair(let, ret);
		return;
	}
	let->state = OTTE_RDMA_LET_LEASED;
	let->since_ns = otte_now_ns();
	atomic_fetch_add(&let->source->rdma->leases_given, 1);
	say_leased(let);
}

/* 0, or no room in the send queue now. */
static int open_window(struct otte_rdma_let *let)
{
	const struct otte_rdma_buffer *buffer = ops_of(let)->published(let->use)->buffer;
	const struct otte_rdma_window_range range = {
		.parent = &buffer->by_nic[let->pair->pair.nic].parent,
		.address = (uint64_t)(uintptr_t)let->address,
		.bytes = let->ask.length,
		.direction = let->ask.op,
	};
	int ret;

	let->bind.done = bound;
	ret = otte_rdma_window_bind(let->window, let->pair->pair.qp, &range, &let->bind);
	if (ret == -EAGAIN)
		return 0;
	let->state = OTTE_RDMA_LET_BINDING;
	let->since_ns = otte_now_ns();
	return ret;
}

/* On rxe a new one each time, as it is freed each time; give_window_back() says why. */
static int take_window(struct otte_rdma_let *let)
{
	struct otte_rdma_context *context = let->pair->pair.qp->context;

	if (context->rxe)
		return otte_rdma_window_take(context, &let->window);
	return otte_rdma_source_take_window(let->pair, &let->window);
}

/* What nobody sees is to need nobody's look afterwards. */
static int check_use(const struct otte_rdma_let *let)
{
	const struct otte_published *published = ops_of(let)->published(let->use);

	if (!ops_of(let)->lasts(let->use))
		return otte_fail(-EOPNOTSUPP, "memory that may be replaced is not leased");
	if (!published || !published->buffer || !published->buffer->remote ||
	    published->buffer->by_nic[let->pair->pair.nic].parent.state != OTTE_RDMA_MR_LIVE)
		return otte_fail(-EOPNOTSUPP, "no NIC knows region %lu", (unsigned long)let->ask.region);
	return 0;
}

static int begin_use(struct otte_rdma_let *let)
{
	const struct otte_lane_request request = {
		.op = let->ask.op,
		.priority = let->ask.priority,
		.intent = let->ask.intent,
		.id = let->ask.ask,
		.epoch = let->ask.epoch,
		.region = let->ask.region,
		.offset = let->ask.offset,
		.length = let->ask.length,
	};
	int ret;

	ret = ops_of(let)->begin_lent(let->source->peer, &request, &let->use, &let->address);
	if (ret)
		return ret;
	ret = check_use(let);
	if (!ret)
		ret = take_window(let);
	if (ret)
		end_use(let, OTTE_EVIDENCE_NEVER_EXPOSED);
	return ret;
}

static int check_share(const struct otte_rdma_source *source)
{
	uint32_t most = config_of(source)->rdma_leases, leases = source->rdma->leases;

	if (leases < most && otte_rdma_share(source->leases, most - leases, LEASES_TIMES))
		return 0;
	return otte_fail(-EDQUOT, "rdma.leases (%u) is full, or the peer's share of it", most);
}

static bool conflict(const struct otte_rdma_ask *ask, const struct otte_rdma_ask *other)
{
	return ask->region == other->region && ask->epoch == other->epoch &&
	       (ask->op == OTTE_WRITE || other->op == OTTE_WRITE) &&
	       ask->offset < other->offset + other->length &&
	       other->offset < ask->offset + ask->length;
}

/* Leases that are had again at once would keep who waits for one of them from its turn. */
static int check_waiting(const struct otte_rdma *rdma, const struct otte_rdma_ask *ask)
{
	const struct otte_rdma_lent *lent;

	DL_FOREACH2(rdma->waiting, lent, wait_next)
		if (conflict(&lent->ask, ask))
			return otte_fail(-EBUSY, "another peer waits for the range");
	return 0;
}

static void refuse(struct otte_rdma_source *source, const struct otte_rdma_ask *ask, int code)
{
	const struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_REFUSED,
		.answer = { .ask = ask->ask, .status = code },
	};

	otte_rdma_source_say(source, &message);
}

static int let_it(struct otte_rdma_source_pair *pair, const struct otte_rdma_ask *ask)
{
	struct otte_rdma_source *source = pair->source;
	struct otte_rdma_let *let;
	int ret;

	ret = check_share(source);
	if (!ret)
		ret = check_waiting(source->rdma, ask);
	if (ret)
		return ret;
	let = calloc(1, sizeof(*let));
	if (!let)
		return otte_fail(-ENOMEM, "no memory for a lease");
	let->source = source;
	let->pair = pair;
	let->ask = *ask;
	ret = begin_use(let);
	/* Asked for by who may have the range: whose lease is in the way is to give it back. */
	if (ret == -EBUSY)
		otte_rdma_let_in_way(source->rdma, ask);
	if (ret) {
		free(let);
		return ret;
	}
	let->id = ++source->rdma->last_grant;
	source->leases++;
	source->rdma->leases++;
	DL_APPEND(source->lets, let);
	ret = open_window(let);
	if (ret)
		fail_pair(let, ret);
	return 0;
}

int otte_rdma_let_ask(struct otte_rdma_source_pair *pair, const struct otte_rdma_ask *ask)
{
	int ret;

	if (ask->op != pair->pair.op)
		return otte_fail(-EPROTO, "op %u is to be leased on a queue pair for %u", ask->op, pair->pair.op);
	ret = let_it(pair, ask);
	if (ret)
		refuse(pair->source, ask, ret);
	return 0;
}

/* ---- What peers say ---- */

static struct otte_rdma_let *find(struct otte_rdma_source *source, uint64_t id)
{
	struct otte_rdma_let *let;

	DL_FOREACH(source->lets, let)
		if (let->id == id && let->state == OTTE_RDMA_LET_LEASED)
			return let;
	return NULL;
}

static void count(struct otte_rdma_let *let, const struct otte_rdma_leasing *leasing)
{
	bool read = let->ask.op == OTTE_READ;

	ops_of(let)->count(let->source->peer, leasing->requests, read ? leasing->bytes : 0, read ? 0 : leasing->bytes);
}

void otte_rdma_let_renewed(struct otte_rdma_source *source, const struct otte_rdma_leasing *leasing)
{
	struct otte_rdma_let *let = find(source, leasing->lease);

	if (!let)
		return; /* it is over, as the peer has been told */
	count(let, leasing);
	let->since_ns = otte_now_ns();
}

void otte_rdma_let_returned(struct otte_rdma_source *source, const struct otte_rdma_leasing *leasing)
{
	struct otte_rdma_let *let = find(source, leasing->lease);
	int ret;

	if (!let || let->pair->pair.state != OTTE_RDMA_PAIR_JOINED)
		return;
	count(let, leasing);
	ret = begin_end(let);
	if (ret)
		fail_pair(let, ret);
}

/* ---- Without the peer ---- */

static void want(struct otte_rdma_let *let)
{
	if (let->recalled_ns)
		return;
	let->recalled_ns = otte_now_ns();
	let->source->rdma->busy = true;
}

bool otte_rdma_let_in_way(struct otte_rdma *rdma, const struct otte_rdma_ask *ask)
{
	struct otte_rdma_source *source;
	struct otte_rdma_let *let;
	bool found = false;

	if (!rdma->leases)
		return false;
	pthread_mutex_lock(&rdma->lock);
	DL_FOREACH(rdma->sources, source) {
		DL_FOREACH(source->lets, let) {
			/* What stays will not go, whoever wants it. */
			if (let->stays || !conflict(&let->ask, ask))
				continue;
			want(let);
			found = true;
		}
	}
	pthread_mutex_unlock(&rdma->lock);
	return found;
}

void otte_rdma_lets_recall(struct otte_rdma_source *source, const struct otte_rdma_recalls *recalls)
{
	struct otte_rdma_let *let;

	DL_FOREACH(source->lets, let)
		if (let->state != OTTE_RDMA_LET_RETAINED && otte_rdma_recalls_name(recalls, let->ask.region))
			want(let);
}

/* Half of what an ASK waits for it (grant.c), so that who asks for the range gets it. */
static uint64_t recall_ns(const struct otte_config *config)
{
	return config->control_timeout_ns / 4;
}

/* At once where its memory is not what was registered, or the peer has not renewed it. */
static int look_at_leased(struct otte_rdma_let *let, uint64_t now_ns)
{
	const struct otte_config *config = config_of(let->source);

	if (let->recalled_ns && !let->told)
		say(let, OTTE_RDMA_MSG_RECALL);
	let->told |= !!let->recalled_ns;
	if (ops_of(let)->still(let->use) ||
	    otte_rdma_is_late(let->since_ns, config->rdma_lease_idle_ns, now_ns) ||
	    (let->recalled_ns && otte_rdma_is_late(let->recalled_ns, recall_ns(config), now_ns)))
		return begin_end(let);
	return 0;
}

static int look(struct otte_rdma_let *let, uint64_t now_ns)
{
	const struct otte_config *config = config_of(let->source);

	let->source->rdma->timed |= let->state != OTTE_RDMA_LET_LEASED || let->recalled_ns ||
				    config->rdma_lease_idle_ns < SHORT_IDLE_NS;
	if (let->state == OTTE_RDMA_LET_LEASED)
		return look_at_leased(let, now_ns);
	if (let->state == OTTE_RDMA_LET_EXPECTING)
		return open_window(let);
	if (otte_rdma_is_late(let->since_ns, config->control_timeout_ns, now_ns))
		return otte_fail(-ETIMEDOUT, "nothing is heard of a %s (control.timeout_ms)",
				 let->state == OTTE_RDMA_LET_BINDING ? "bind" : "lease's invalidation");
	if (let->state == OTTE_RDMA_LET_ENDING && !let->posted)
		return invalidate(let);
	return 0;
}

void otte_rdma_lets_look(struct otte_rdma_source *source, uint64_t now_ns)
{
	struct otte_rdma_let *let, *next;
	int ret = 0;

	DL_FOREACH_SAFE(source->lets, let, next) {
		if (let->stays)
			retain(let);
		if (!let->pair || let->pair->pair.state != OTTE_RDMA_PAIR_JOINED)
			continue;
		ret = look(let, now_ns);
		if (ret)
			break;
	}
	if (ret)
		fail_pair(let, ret);
}

void otte_rdma_lets_revoke(struct otte_rdma_source_pair *pair)
{
	struct otte_rdma_let *let;

	if (!pair->pair.stopped)
		return;
	DL_FOREACH(pair->source->lets, let)
		if (let->pair == pair)
			free_window(let);
}

void otte_rdma_lets_unpair(struct otte_rdma_source_pair *pair, bool gone)
{
	struct otte_rdma_let *let, *next;

	DL_FOREACH_SAFE(pair->source->lets, let, next) {
		if (let->pair != pair)
			continue;
		if (gone)
			free_window(let);
		if (gone && !let->window_kept) {
			end_use(let, OTTE_EVIDENCE_REVOKED);
			free_let(let);
			continue;
		}
		retain(let);
		if (!gone)
			continue;
		let->state = OTTE_RDMA_LET_RETAINED;
		let->pair = NULL;
	}
}
