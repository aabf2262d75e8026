/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What becomes of a request: it is admitted, refused, or parked, and what its answer says.
 *
 * An answer is a header and what it promises. A READ that bears a mark is answered by its payload alone, with no
 * header, if it is not refused (control/wire.h).
 *
 * A request that is in conflict with a use that only waits for the kernel (source_unproven.c), and with nothing else,
 * must not be refused for it; its lane is parked until that use has ended.
 *
 * Memory that is the application's to unmap is guarded: behind a READ's payload goes a verdict (source_step.c).
 */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "ledger/ledger.h"
#include "transport/tcp/source.h"

/* A conflict that lasts longer is told to the peer. Lost acknowledgements are sent again well before. */
#define PARK_NS (2 * NSEC_PER_SEC)

static bool is_marked(const struct source_lane *lane)
{
	return lane->request.mark[0] | lane->request.mark[1];
}

static void prepare_header(struct source_lane *lane)
{
	struct otte_lane_answer answer = {
		.op = lane->request.op,
		.effect = lane->effect,
		.id = lane->request.id,
		.status = lane->status,
		.length = lane->status ? 0 : lane->request.length,
		.mask = lane->guard ? (uint8_t)lane->guard->mask : 0,
		.fresh = lane->guard ? (uint8_t)lane->guard->fresh : 0,
	};

	if (lane->status) {
		answer.mark[0] = lane->request.mark[0];
		answer.mark[1] = lane->request.mark[1];
	}
	otte_lane_answer_encode(&answer, lane->answer);
	lane->head = sizeof(lane->answer);
}

void tcp_source_prepare_answer(struct source_lane *lane)
{
	if (lane->status || !is_marked(lane))
		prepare_header(lane);
	else
		lane->head = 0;
	tcp_source_become(lane, SOURCE_ANSWER);
}

/*
 * A peer has the last byte of a READ before the worker that sent it has ended the use, and may at once
 * ask another worker for what excludes it. So where there are several, sending and ending are one step
 * to the others, and a conflict is looked at again when the steps that were going on are over.
 */
static bool several_workers(const struct source_lane *lane)
{
	return lane->tcp->env.config->tcp_workers > 1 || atomic_load(&lane->tcp->express.taken);
}

/* None of these steps sleeps, so this takes no longer than one of them copies, and has its turn. */
static void wait_for_sending(struct tcp *tcp)
{
	const struct timespec pause = { .tv_nsec = 20 * NSEC_PER_USEC };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(tcp->sending); i++) {
		uint32_t step = atomic_load(&tcp->sending[i]);

		while (step % 2 && atomic_load(&tcp->sending[i]) == step)
			nanosleep(&pause, NULL);
	}
}

static int begin_use(struct source_lane *lane)
{
	struct tcp *tcp = lane->tcp;
	int ret;

	ret = tcp->env.source.begin(lane->peer, &lane->request, &lane->use, &lane->address);
	if (ret == -EBUSY && several_workers(lane)) {
		wait_for_sending(tcp);
		ret = tcp->env.source.begin(lane->peer, &lane->request, &lane->use, &lane->address);
	}
	return ret;
}

/*
 * The request is refused with -EBUSY. True: for something that waits for the kernel alone, and the lane is
 * parked until that is over; EPOLLERR, the way of the notifications, needs no asking.
 */
static bool park(struct source_lane *lane)
{
	struct tcp *tcp = lane->tcp;
	uint64_t now_ns = otte_now_ns();

	if (!lane->park_until_ns)
		lane->park_until_ns = now_ns + PARK_NS;
	pthread_mutex_lock(&tcp->lock);
	lane->parked = lane->address && now_ns < lane->park_until_ns &&
		       tcp_source_is_unproven(tcp, lane->address, lane->request.length) &&
		       (lane->alone || !otte_loop_change(lane->loop, &lane->watch, 0));
	pthread_mutex_unlock(&tcp->lock);
	if (lane->parked)
		tcp_source_become(lane, SOURCE_PARKED);
	return lane->parked;
}

/* Of a READ that is admitted: what its verdict is taken from, if one follows. Then the header has to say so. */
static void take_guard(struct source_lane *lane)
{
	lane->guard = lane->tcp->env.source.guarded(lane->use);
	if (!lane->guard || !is_marked(lane))
		return;
	lane->guard = NULL;
	lane->status = -EAGAIN;
	tcp_source_end_use(lane, false);
}

void tcp_source_admit(struct source_lane *lane)
{
	lane->effect = OTTE_EFFECT_NONE;
	lane->status = begin_use(lane);
	if (lane->status == -EBUSY) {
		if (park(lane))
			return;
		/* What was in the way may have ended between the two looks. */
		lane->status = begin_use(lane);
	}
	lane->park_until_ns = 0;
	if (lane->status)
		lane->tcp->env.source.refused(lane->peer);
	lane->guard = NULL;
	lane->lost = false;
	if (lane->request.op == OTTE_READ) {
		if (lane->use)
			take_guard(lane);
		tcp_source_prepare_answer(lane);
	} else {
		tcp_source_become(lane, lane->status ? SOURCE_DROP : SOURCE_PAYLOAD);
	}
}

int tcp_source_retry_parked(struct source_lane *lane)
{
	struct tcp *tcp = lane->tcp;
	int ret;

	pthread_mutex_lock(&tcp->lock);
	lane->parked = false;
	ret = otte_loop_change(lane->loop, &lane->watch, EPOLLIN);
	pthread_mutex_unlock(&tcp->lock);
	if (ret)
		return ret;
	if (lane->cutting)
		return tcp_source_cut_on(lane);
	tcp_source_admit(lane);
	return lane->state != SOURCE_PARKED;
}
