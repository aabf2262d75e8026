/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/exposure.h"

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "cuda/memory.h"
#include "transport/rdma/mirror.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/source.h"

void otte_rdma_exposure_init(struct otte_rdma_exposure *exposure,
			     const struct otte_rdma_exposure_use *as,
			     struct otte_rdma_source_pair *pair, const struct otte_rdma_ask *ask)
{
	exposure->as = as;
	exposure->source = pair->source;
	exposure->pair = pair;
	exposure->ask = *ask;
	exposure->since_ns = otte_now_ns();
}

/* ---- Its loan ---- */

static void end_loan(struct otte_rdma_exposure *exposure, bool complete,
		     enum otte_evidence evidence)
{
	struct otte_source_use *use = exposure->use;

	exposure->use = NULL;
	if (use)
		otte_rdma_exposure_ops(exposure)->end_lent(use, complete, evidence);
}

static bool is_known(const struct otte_rdma_exposure *exposure,
		     const struct otte_published *published)
{
	unsigned int nic = exposure->pair->pair.nic;

	if (otte_rdma_is_mirrored(published))
		return otte_rdma_mirrors_reach(exposure->source->rdma, nic);
	return published && published->buffer->remote &&
	       published->buffer->by_nic[nic].parent.state == OTTE_RDMA_MR_LIVE;
}

/* With a text. */
static int check_known(const struct otte_rdma_exposure *exposure,
		       const struct otte_published *published)
{
	const unsigned long region = (unsigned long)exposure->ask.region;
	bool celled = otte_rdma_exposure_is_celled(exposure);
	bool gpu = published && published->gpu;

	if (gpu && !celled)
		return otte_fail(OTTE_RDMA_WANTS_CELL, "region %lu is a GPU's memory", region);
	if (!gpu && celled)
		return otte_fail(-EOPNOTSUPP, "region %lu is no GPU's memory", region);
	if (gpu || is_known(exposure, published))
		return 0;
	return otte_fail(-EOPNOTSUPP, "no NIC knows region %lu", region);
}

int otte_rdma_exposure_begin(struct otte_rdma_exposure *exposure)
{
	const struct otte_source_ops *ops = otte_rdma_exposure_ops(exposure);
	const struct otte_rdma_ask *ask = &exposure->ask;
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
	int ret;

	ret = ops->begin_lent(exposure->source->peer, &request, &exposure->use, &exposure->address);
	if (ret)
		return ret;
	ret = check_known(exposure, ops->published(exposure->use));
	if (ret)
		end_loan(exposure, false, OTTE_EVIDENCE_NEVER_EXPOSED);
	return ret;
}

int otte_rdma_exposure_register(struct otte_rdma_exposure *exposure)
{
	const struct otte_published *published =
		otte_rdma_exposure_ops(exposure)->published(exposure->use);
	const bool written = exposure->ask.op == OTTE_WRITE;
	const struct otte_rdma_mr_spec spec = {
		.at = exposure->address,
		.bytes = exposure->ask.length,
		.access = written ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE :
				    IBV_ACCESS_REMOTE_READ,
		.route = published->buffer->route,
		.gpu = published->gpu,
	};
	int ret;

	ret = otte_cuda_ready_poll(published->gpu);
	if (ret)
		return ret == -EAGAIN ? 1 : ret;
	return otte_rdma_cell_register(&exposure->pair->cell, &spec);
}

uint32_t otte_rdma_exposure_key(const struct otte_rdma_exposure *exposure)
{
	if (otte_rdma_exposure_is_celled(exposure))
		return exposure->pair->cell.mr.native->rkey;
	return exposure->window->key;
}

void otte_rdma_exposure_retain(struct otte_rdma_exposure *exposure)
{
	bool first = !exposure->stays;

	exposure->stays = true;
	if (!exposure->use || exposure->retained)
		return;
	exposure->retained = !otte_rdma_exposure_ops(exposure)->retain(exposure->use);
	exposure->source->worker->unrecorded |= !exposure->retained;
	if (!exposure->retained && first)
		otte_log(OTTE_LOG_ERROR, "a range that a NIC may still reach: %s",
			 otte_error_text());
}

int otte_rdma_exposure_mirror(struct otte_rdma_exposure *exposure)
{
	if (!otte_rdma_is_mirrored(otte_rdma_exposure_ops(exposure)->published(exposure->use)))
		return 0;
	return otte_rdma_mirror_take(exposure);
}

int otte_rdma_exposure_conclude(struct otte_rdma_exposure *exposure, bool used, bool *intact)
{
	*intact = false;
	if (!exposure->use)
		return -ESTALE; /* it was over with its pair, which stays */
	if (exposure->chunk && exposure->ask.op == OTTE_WRITE && used)
		return otte_rdma_mirror_empty(exposure, intact);
	return otte_rdma_exposure_ops(exposure)->still(exposure->use);
}

/*
 * Nobody but us has touched the range: it is lent no more, whatever becomes of its chunk. That comes
 * back last: whoever waits for it, at any worker, may want the same range.
 */
static void settle_mirrored(struct otte_rdma_exposure *exposure, bool complete,
			    enum otte_evidence evidence)
{
	end_loan(exposure, complete, evidence);
	if (exposure->window_kept)
		otte_rdma_mirror_stick(exposure);
	else
		otte_rdma_mirror_give(exposure);
}

bool otte_rdma_exposure_settle(struct otte_rdma_exposure *exposure, bool complete,
			       enum otte_evidence evidence)
{
	if (exposure->chunk) {
		settle_mirrored(exposure, complete, evidence);
		return true;
	}
	if (exposure->window_kept) {
		otte_rdma_exposure_retain(exposure);
		return false;
	}
	end_loan(exposure, complete, evidence);
	return true;
}

bool otte_rdma_exposure_unpair(struct otte_rdma_exposure *exposure, bool gone)
{
	if (!gone && exposure->chunk) {
		otte_rdma_mirror_stick(exposure);
		/* Nothing is copied between them from here on. */
		end_loan(exposure, false, OTTE_EVIDENCE_REVOKED);
		return false;
	}
	if (!gone) {
		otte_rdma_exposure_retain(exposure);
		return false;
	}
	otte_rdma_exposure_free_window(exposure);
	if (otte_rdma_exposure_settle(exposure, false, OTTE_EVIDENCE_REVOKED))
		return true;
	exposure->pair = NULL;
	return false;
}

void otte_rdma_exposure_cancel(struct otte_rdma_exposure *exposure)
{
	otte_rdma_exposure_put_window(exposure);
	end_loan(exposure, false, OTTE_EVIDENCE_NEVER_EXPOSED);
	otte_rdma_mirror_give(exposure);
}

/* ---- Its window ---- */

static void window_stays(struct otte_rdma *rdma, uint64_t bytes)
{
	otte_log(OTTE_LOG_ERROR, "a memory window stays: %s", otte_error_text());
	otte_rdma_lost(rdma, bytes, "rdma: a memory window that could not be freed");
}

static void keep_window(struct otte_rdma_exposure *exposure)
{
	exposure->window_kept = true;
	window_stays(exposure->source->rdma, exposure->ask.length);
}

/* What was invalidated from here is not used again on rxe, which crashes at the next time. */
static bool is_for_once(const struct otte_rdma_exposure *exposure)
{
	return exposure->as->invalidated && exposure->pair->pair.qp->context->rxe;
}

/*
 * With a key that nobody had. A spare one whose keys are used up stays with the context, which has
 * no others that are idle but another worker's of this moment.
 */
int otte_rdma_exposure_take_window(struct otte_rdma_exposure *exposure)
{
	struct otte_rdma_source_pair *pair = exposure->pair;
	struct otte_rdma_window *spare = is_for_once(exposure) ? NULL : pair->spares;

	if (spare) {
		pair->spares = spare->next;
		return otte_rdma_window_renew(spare, &exposure->window);
	}
	return otte_rdma_window_take(pair->pair.qp->context, &exposure->window);
}

void otte_rdma_exposure_put_window(struct otte_rdma_exposure *exposure)
{
	struct otte_rdma_window *window = exposure->window;

	if (!window)
		return;
	if (is_for_once(exposure)) {
		otte_rdma_exposure_free_window(exposure);
		return;
	}
	exposure->window = NULL;
	if (otte_rdma_window_release(window)) {
		keep_window(exposure);
		return;
	}
	window->next = exposure->pair->spares;
	exposure->pair->spares = window;
}

void otte_rdma_exposure_free_window(struct otte_rdma_exposure *exposure)
{
	struct otte_rdma_window *window = exposure->window;

	exposure->window = NULL;
	if (window && otte_rdma_window_free(window))
		keep_window(exposure);
}

void otte_rdma_exposures_drop_spares(struct otte_rdma_source_pair *pair)
{
	struct otte_rdma_window *window;

	while ((window = pair->spares)) {
		pair->spares = window->next;
		if (otte_rdma_window_free(window))
			window_stays(pair->source->rdma, 0);
	}
}

static bool is_joined(const struct otte_rdma_exposure *exposure)
{
	return exposure->pair->pair.state == OTTE_RDMA_PAIR_JOINED;
}

static void bound(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct otte_rdma_exposure *exposure = container_of(work, struct otte_rdma_exposure, bind);
	int ret;

	exposure->source->worker->busy = true;
	if (!exposure->window)
		return; /* freed, as its queue pair is about to be destroyed */
	ret = otte_rdma_window_bound(exposure->window, outcome);
	if (is_joined(exposure))
		exposure->as->bound(exposure, ret);
}

static const struct otte_rdma_mr *parent_of(const struct otte_rdma_exposure *exposure)
{
	const struct otte_published *published;

	if (exposure->chunk)
		return otte_rdma_mirror_parent(exposure);
	published = otte_rdma_exposure_ops(exposure)->published(exposure->use);
	return &published->buffer->by_nic[exposure->pair->pair.nic].parent;
}

int otte_rdma_exposure_bind(struct otte_rdma_exposure *exposure)
{
	const struct otte_rdma_pair *pair = &exposure->pair->pair;
	const struct otte_rdma_window_range range = {
		.parent = parent_of(exposure),
		.address = (uint64_t)(uintptr_t)otte_rdma_exposure_at(exposure),
		.bytes = exposure->ask.length,
		.direction = exposure->ask.op,
	};
	int ret;

	exposure->bind.done = bound;
	ret = otte_rdma_window_bind(exposure->window, pair->qp, &range, &exposure->bind);
	if (ret != -EAGAIN)
		exposure->since_ns = otte_now_ns();
	return ret;
}

static void invalidated(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct otte_rdma_exposure *exposure =
		container_of(work, struct otte_rdma_exposure, invalidation);
	int ret;

	exposure->source->worker->busy = true;
	if (!exposure->window)
		return; /* as above */
	ret = otte_rdma_window_invalidated(exposure->window, outcome);
	if (!is_joined(exposure))
		return;
	if (!ret)
		otte_rdma_exposure_put_window(exposure);
	exposure->as->invalidated(exposure, ret);
}

int otte_rdma_exposure_invalidate(struct otte_rdma_exposure *exposure)
{
	exposure->invalidation.done = invalidated;
	return otte_rdma_window_invalidate(exposure->window, exposure->pair->pair.qp,
					   &exposure->invalidation);
}

/* ---- What is late, wanted, refused ---- */

bool otte_rdma_exposure_want(struct otte_rdma_exposure *exposure)
{
	if (exposure->recalled_ns)
		return false;
	exposure->recalled_ns = otte_now_ns();
	return true;
}

int otte_rdma_exposure_check_posted(const struct otte_rdma_exposure *exposure, const char *what,
				    uint64_t now_ns)
{
	uint64_t limit_ns = exposure->source->rdma->env.config->control_timeout_ns;

	if (!otte_rdma_is_late(exposure->since_ns, limit_ns, now_ns))
		return 0;
	return otte_fail(-ETIMEDOUT, "nothing is heard of a %s (control.timeout_ms)", what);
}

void otte_rdma_exposure_fail_pair(struct otte_rdma_exposure *exposure, int code)
{
	if (otte_log_second_admits(&exposure->source->rdma->failed_ns, otte_now_ns()))
		otte_log(OTTE_LOG_WARNING, "queue pair of a peer's NIC %u: %s",
			 exposure->pair->pair.remote_nic, otte_error_text());
	otte_rdma_source_fail_pair(exposure->pair, code, otte_error_text());
}

void otte_rdma_exposure_refuse(struct otte_rdma_source *source, const struct otte_rdma_ask *ask,
			       int code)
{
	const struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_REFUSED,
		.answer = { .ask = ask->ask, .status = code },
	};

	otte_rdma_source_say(source, &message);
}
