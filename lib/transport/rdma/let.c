/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/let.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/rdma/exposure.h"
#include "transport/rdma/grant.h"
#include "transport/rdma/mirror.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/source.h"

/* Those that are to be renewed sooner are looked at often. */
#define SHORT_IDLE_NS (4 * NSEC_PER_SEC)

static struct otte_rdma_let *to_let(struct otte_rdma_exposure *exposure)
{
	return container_of(exposure, struct otte_rdma_let, base);
}

static const struct otte_config *config_of(const struct otte_rdma_source *source)
{
	return source->rdma->env.config;
}

static void free_let(struct otte_rdma_let *let)
{
	struct otte_rdma_source *source = let->base.source;

	otte_rdma_ranges_unlet(&let->range);
	source->leases--;
	source->worker->busy = true;
	DL_DELETE(source->lets, let);
	free(let);
}

/* What stays needs no pair. */
static void end_let(struct otte_rdma_let *let, bool settled)
{
	if (settled) {
		free_let(let);
		return;
	}
	/* It will not go, whoever wants it. */
	otte_rdma_ranges_stay(&let->range);
	let->state = OTTE_RDMA_LET_RETAINED;
	let->base.pair = NULL;
}

static void say(struct otte_rdma_let *let, uint16_t type)
{
	struct otte_rdma_message message = { .type = type, .leasing.lease = let->base.id };

	otte_rdma_source_say(let->base.source, &message);
}

/* ---- Its end ---- */

static void invalidated(struct otte_rdma_exposure *exposure, int code)
{
	struct otte_rdma_let *let = to_let(exposure);

	if (code) {
		otte_rdma_exposure_fail_pair(exposure, code);
		return;
	}
	say(let, OTTE_RDMA_MSG_ENDED);
	end_let(let, otte_rdma_exposure_settle(exposure, false, OTTE_EVIDENCE_REVOKED));
}

/* Where there is no room, with the next look. */
static int invalidate(struct otte_rdma_let *let)
{
	int ret = otte_rdma_exposure_invalidate(&let->base);

	if (ret == -EAGAIN)
		return 0;
	let->posted = true;
	return ret;
}

static int begin_end(struct otte_rdma_let *let)
{
	let->state = OTTE_RDMA_LET_ENDING;
	let->base.since_ns = otte_now_ns();
	return invalidate(let);
}

/* ---- Its beginning ---- */

static void say_leased(struct otte_rdma_let *let)
{
	const struct otte_rdma_exposure *exposure = &let->base;
	uint64_t idle_ns = config_of(exposure->source)->rdma_lease_idle_ns;
	const struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_LEASED,
		.leased = {
			.ask = exposure->ask.ask,
			.lease = exposure->id,
			.address = (uint64_t)(uintptr_t)exposure->address,
			.key = exposure->window->key,
			.qpn = exposure->pair->pair.qp->end.qpn,
			.idle_ms = (uint32_t)(idle_ns / NSEC_PER_MSEC),
		},
	};

	otte_rdma_source_say(exposure->source, &message);
}

static void bound(struct otte_rdma_exposure *exposure, int code)
{
	struct otte_rdma_let *let = to_let(exposure);

	if (code) {
		otte_rdma_exposure_fail_pair(exposure, code);
		return;
	}
	let->state = OTTE_RDMA_LET_LEASED;
	exposure->since_ns = otte_now_ns();
	atomic_fetch_add(&exposure->source->rdma->leases_given, 1);
	say_leased(let);
}

/* 0, or no room in the send queue now. */
static int open_window(struct otte_rdma_let *let)
{
	int ret = otte_rdma_exposure_bind(&let->base);

	if (ret == -EAGAIN)
		return 0;
	let->state = OTTE_RDMA_LET_BINDING;
	return ret;
}

/* What nobody sees is to need nobody's look afterwards. */
static int check_lasts(const struct otte_rdma_exposure *exposure)
{
	if (otte_rdma_is_mirrored(otte_rdma_exposure_ops(exposure)->published(exposure->use)))
		return otte_fail(-EOPNOTSUPP, "rdma.host_memory is staged: chunks are not leased");
	if (otte_rdma_exposure_ops(exposure)->lasts(exposure->use))
		return 0;
	return otte_fail(-EOPNOTSUPP, "memory that may be replaced is not leased");
}

static int expose(struct otte_rdma_exposure *exposure)
{
	int ret = otte_rdma_exposure_begin(exposure);

	if (ret)
		return ret;
	ret = check_lasts(exposure);
	if (!ret)
		ret = otte_rdma_exposure_take_window(exposure);
	if (ret)
		otte_rdma_exposure_cancel(exposure);
	return ret;
}

static int let_it(struct otte_rdma_source_pair *pair, const struct otte_rdma_ask *ask)
{
	static const struct otte_rdma_exposure_use as_lease = {
		.bound = bound,
		.invalidated = invalidated,
	};
	struct otte_rdma_source *source = pair->source;
	struct otte_rdma_let *let;
	int ret;

	let = calloc(1, sizeof(*let));
	if (!let)
		return otte_fail(-ENOMEM, "no memory for a lease");
	otte_rdma_exposure_init(&let->base, &as_lease, pair, ask);
	let->range.worker = source->worker;
	let->range.ask = &let->base.ask;
	/* Before it stands in the way of anybody, and so that nobody is refused for it unseen. */
	ret = otte_rdma_ranges_let(&let->range, source->leases);
	if (ret)
		goto free_let;
	ret = expose(&let->base);
	if (ret)
		goto unlet;
	let->base.id = atomic_fetch_add(&source->rdma->last_grant, 1) + 1;
	source->leases++;
	DL_APPEND(source->lets, let);
	ret = open_window(let);
	if (ret)
		otte_rdma_exposure_fail_pair(&let->base, ret);
	return 0;

unlet:
	otte_rdma_ranges_unlet(&let->range);
	/* Asked for by who may have the range: whose lease is in the way is to give it back. */
	if (ret == -EBUSY)
		otte_rdma_ranges_want(source->worker, ask);
free_let:
	free(let);
	return ret;
}

int otte_rdma_let_ask(struct otte_rdma_source_pair *pair, const struct otte_rdma_ask *ask)
{
	int ret;

	if (ask->op != pair->pair.op)
		return otte_fail(-EPROTO, "op %u is to be leased on a queue pair for %u", ask->op,
				 pair->pair.op);
	if (pair->pair.cell)
		return otte_fail(-EPROTO, "a range is to be leased on a cell");
	ret = let_it(pair, ask);
	if (ret)
		otte_rdma_exposure_refuse(pair->source, ask, ret);
	return 0;
}

/* ---- What peers say ---- */

static struct otte_rdma_let *find(struct otte_rdma_source *source, uint64_t id)
{
	struct otte_rdma_let *let;

	DL_FOREACH(source->lets, let)
		if (let->base.id == id && let->state == OTTE_RDMA_LET_LEASED)
			return let;
	return NULL;
}

static void count(struct otte_rdma_let *let, const struct otte_rdma_leasing *leasing)
{
	bool read = let->base.ask.op == OTTE_READ;

	otte_rdma_exposure_ops(&let->base)
		->count(let->base.source->peer, leasing->requests, read ? leasing->bytes : 0,
			read ? 0 : leasing->bytes);
}

void otte_rdma_let_renewed(struct otte_rdma_source *source, const struct otte_rdma_leasing *leasing)
{
	struct otte_rdma_let *let = find(source, leasing->lease);

	if (!let)
		return; /* it is over, as the peer has been told */
	count(let, leasing);
	let->base.since_ns = otte_now_ns();
}

void otte_rdma_let_returned(struct otte_rdma_source *source,
			    const struct otte_rdma_leasing *leasing)
{
	struct otte_rdma_let *let = find(source, leasing->lease);
	int ret;

	if (!let || let->base.pair->pair.state != OTTE_RDMA_PAIR_JOINED)
		return;
	count(let, leasing);
	ret = begin_end(let);
	if (ret)
		otte_rdma_exposure_fail_pair(&let->base, ret);
}

/* ---- Without the peer ---- */

static void want(struct otte_rdma_let *let)
{
	if (otte_rdma_exposure_want(&let->base))
		let->base.source->worker->busy = true;
}

void otte_rdma_lets_recall(struct otte_rdma_source *source, const struct otte_rdma_recalls *recalls)
{
	struct otte_rdma_let *let;

	DL_FOREACH(source->lets, let)
		if (let->state != OTTE_RDMA_LET_RETAINED &&
		    otte_rdma_recalls_name(recalls, let->base.ask.region))
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
	const struct otte_rdma_exposure *exposure = &let->base;
	const struct otte_config *config = config_of(exposure->source);
	uint64_t recalled_ns = exposure->recalled_ns;

	if (recalled_ns && !let->told)
		say(let, OTTE_RDMA_MSG_RECALL);
	let->told |= !!recalled_ns;
	if (otte_rdma_exposure_ops(exposure)->still(exposure->use) ||
	    otte_rdma_is_late(exposure->since_ns, config->rdma_lease_idle_ns, now_ns) ||
	    (recalled_ns && otte_rdma_is_late(recalled_ns, recall_ns(config), now_ns)))
		return begin_end(let);
	return 0;
}

static int look(struct otte_rdma_let *let, uint64_t now_ns)
{
	struct otte_rdma_source *source = let->base.source;
	const char *what = let->state == OTTE_RDMA_LET_BINDING ? "bind" : "lease's invalidation";
	int ret;

	if (atomic_load(&let->range.wanted))
		want(let);
	source->worker->timed |= let->state != OTTE_RDMA_LET_LEASED || let->base.recalled_ns ||
				 config_of(source)->rdma_lease_idle_ns < SHORT_IDLE_NS;
	if (let->state == OTTE_RDMA_LET_LEASED)
		return look_at_leased(let, now_ns);
	if (let->state == OTTE_RDMA_LET_EXPECTING)
		return open_window(let);
	ret = otte_rdma_exposure_check_posted(&let->base, what, now_ns);
	if (!ret && let->state == OTTE_RDMA_LET_ENDING && !let->posted)
		ret = invalidate(let);
	return ret;
}

void otte_rdma_lets_look(struct otte_rdma_source *source, uint64_t now_ns)
{
	struct otte_rdma_let *let, *next;
	int ret = 0;

	DL_FOREACH_SAFE(source->lets, let, next) {
		if (let->base.stays)
			otte_rdma_exposure_retain(&let->base);
		if (!let->base.pair || let->base.pair->pair.state != OTTE_RDMA_PAIR_JOINED)
			continue;
		ret = look(let, now_ns);
		if (ret)
			break;
	}
	if (ret)
		otte_rdma_exposure_fail_pair(&let->base, ret);
}

void otte_rdma_lets_revoke(struct otte_rdma_source_pair *pair)
{
	struct otte_rdma_let *let;

	if (!pair->pair.stopped)
		return;
	DL_FOREACH(pair->source->lets, let)
		if (let->base.pair == pair)
			otte_rdma_exposure_free_window(&let->base);
}

void otte_rdma_lets_unpair(struct otte_rdma_source_pair *pair, bool gone)
{
	struct otte_rdma_let *let, *next;
	bool settled;

	DL_FOREACH_SAFE(pair->source->lets, let, next) {
		if (let->base.pair != pair)
			continue;
		settled = otte_rdma_exposure_unpair(&let->base, gone);
		if (gone)
			end_let(let, settled);
		else
			otte_rdma_ranges_stay(&let->range);
	}
}
