/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "transport/tcp/tcp.h"

/*
 * Within one host a second connection adds no bandwidth, only a request, an answer and a turn of each side;
 * so slices are at least this long there.
 */
#define LOCAL_BLOCK_BYTES (16 * MIB)

static void encode(const struct otte_work *work, uint64_t offset, struct tcp_slice *slice)
{
	const struct otte_lane_request request = {
		.op = work->op,
		.priority = work->priority,
		.intent = work->intent,
		.id = (uint64_t)(uintptr_t)slice, /* a name only: compared, never followed */
		.epoch = work->epoch,
		.region = work->region,
		.offset = work->offset + offset,
		.length = slice->length,
	};

	otte_lane_request_encode(&request, slice->request);
}

int tcp_plan_create(const struct otte_transport_env *env, bool local, struct otte_work *work)
{
	const struct otte_config *config = env->config;
	uint64_t block_bytes = local ? LOCAL_BLOCK_BYTES : config->tcp_block_bytes;
	struct otte_slicing slicing;
	struct tcp_plan *plan;
	uint64_t offset;
	uint32_t i;

	/*
	 * More slices than lanes would only be requests that follow each other on one connection, which
	 * cost a header and a turn of the source each and bring nothing.
	 */
	slicing = otte_slice_plan(work->length, block_bytes,
				  (uint32_t)min_u64(config->tcp_max_slices, config->tcp_lanes));
	plan = malloc(sizeof(*plan) + slicing.count * sizeof(plan->slices[0]));
	if (!plan)
		return otte_fail(-ENOMEM, "no memory for %u slices", slicing.count);
	*plan = (struct tcp_plan){
		.work = work,
		.op = work->op,
		.count = slicing.count,
		.unfinished = slicing.count,
		.refs = slicing.count,
		.retries = work->retries,
		.keep = &env->keep,
	};
	for (i = 0; i < plan->count; i++) {
		struct tcp_slice *slice = &plan->slices[i];

		zero_bytes(slice, sizeof(*slice));
		slice->plan = plan;
		otte_slice_range(&slicing, work->length, i, &offset, &slice->length);
		slice->local = work->local + offset;
		encode(work, offset, slice);
	}
	work->native = plan;
	return 0;
}

void tcp_plan_put(struct tcp_plan *plan)
{
	/* With one reference left there is nobody who could take another: pins are taken of live works. */
	if (atomic_load_explicit(&plan->refs, memory_order_acquire) == 1 ||
	    atomic_fetch_sub(&plan->refs, 1) == 1)
		free(plan);
}

uint64_t tcp_slice_wire_bytes(const struct tcp_slice *slice)
{
	return OTTE_LANE_REQUEST_BYTES + (slice->plan->op == OTTE_WRITE ? slice->length : 0);
}

void tcp_slice_finish(struct tcp_slice *slice, int code, uint8_t effect)
{
	struct tcp_plan *plan = slice->plan;
	struct otte_work *work = plan->work;
	int none = 0;

	if (code == -EUCLEAN)
		atomic_store(&plan->code, code);
	else if (code)
		atomic_compare_exchange_strong(&plan->code, &none, code);
	if (plan->op == OTTE_WRITE && (!code || effect == OTTE_EFFECT_UNKNOWN))
		atomic_store(&plan->touched, true);
	if (plan->count > 1 && atomic_fetch_sub(&plan->unfinished, 1) != 1)
		return;
	work->code = atomic_load(&plan->code);
	work->effect = work->code && atomic_load(&plan->touched) ? OTTE_EFFECT_UNKNOWN :
								   OTTE_EFFECT_NONE;
	work->drained = !atomic_load(&plan->undrained);
	work->carrier = OTTE_TRANSPORT_TCP;
	work->done(work);
}
