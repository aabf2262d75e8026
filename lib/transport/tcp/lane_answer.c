/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is received, and what it makes of the slice at the head of the queue.
 *
 * The head is answered by a header (wire.h), for a READ with its payload and perhaps a verdict behind it, or bare
 * (bare.h). `current` is the READ whose payload is coming in. Everything here is under rx_lock, and leaves slices
 * that have their result on the list `done`, for who has let go of it to tell.
 *
 * A WRITE that was sent without a copy ends when both have come, the answer and the kernel's notification
 * (zerocopy.h). Between the two it stands in `unproven`.
 */
#include <errno.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/tcp/lane.h"

/* Under both locks: the kernel has let go of all that was sent of the slice. */
static void slice_proven(struct tcp_lane *lane, struct tcp_slice *slice, struct tcp_slice **done)
{
	if (slice->answered) {
		DL_DELETE(lane->unproven, slice);
		slice->finished = true;
		tcp_done_add(done, slice, slice->code, slice->effect);
	}
}

void tcp_lane_reap(struct tcp_lane *lane, struct tcp_slice **done)
{
	struct tcp_claim *claim, *next;

	for (claim = tcp_zerocopy_reap(lane->zerocopy); claim; claim = next) {
		next = claim->next;
		slice_proven(lane, container_of(claim, struct tcp_slice, claim), done);
	}
}

/*
 * Under rx_lock: the head is answered. The peer has its bytes then, so most often the kernel has let go of
 * them, and has said so; else it will.
 */
static void pop(struct tcp_lane *lane, struct tcp_slice *slice, int code, uint8_t effect,
		struct tcp_slice **done)
{
	bool proven = !slice->claim.left;

	if (slice->abandon) {
		effect = code ? effect : OTTE_EFFECT_UNKNOWN;
		code = slice->abandon;
	}
	pthread_mutex_lock(&lane->lock);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what is answered is in the queue */
	DL_DELETE(lane->queue, slice);
	tcp_lane_change_queued(lane, 0, slice->length);
	if (lane->held)
		tcp_lane_let_go(lane);
	if (!proven) {
		slice->answered = true;
		slice->code = code;
		slice->effect = effect;
		DL_APPEND(lane->unproven, slice);
		tcp_lane_reap(lane, done);
	}
	pthread_mutex_unlock(&lane->lock);
	if (!proven)
		return;
	if (slice->finished) {
		tcp_plan_put(slice->plan);
		return;
	}
	slice->finished = true;
	tcp_done_add(done, slice, code, effect);
}

static int bad(struct tcp_lane *lane, const char *what)
{
	atomic_fetch_add(&lane->peer->tcp->counters.bad_frames, 1);
	return otte_fail(-EPROTO, "a peer's answer %s", what);
}

int tcp_lane_take_answer(struct tcp_lane *lane, struct tcp_slice *head, uint64_t extra,
			 struct tcp_slice **done)
{
	struct otte_lane_answer answer;
	int ret;

	lane->answer_got = 0;
	ret = otte_lane_answer_decode(lane->answer, &answer);
	if (ret)
		return bad(lane, "is malformed");
	if (!head || answer.id != (uint64_t)(uintptr_t)head || answer.op != head->plan->op)
		return bad(lane, "is to no request of ours");
	if (answer.mark[0] | answer.mark[1])
		return bad(lane, "bears a mark that its request did not");
	if (answer.status == 0 && answer.length != head->length)
		return bad(lane, "has another length than was asked for");
	if (answer.op == OTTE_READ && answer.status == 0 && extra <= head->length + !!answer.mask) {
		lane->current = head;
		lane->current_got = extra;
		lane->mask = answer.mask;
		lane->fresh = answer.fresh;
		return 0;
	}
	if (extra)
		return bad(lane, "is followed by bytes that nobody asked for");
	pop(lane, head, answer.status, answer.effect, done);
	return 0;
}

/* Under rx_lock. */
static void end_payload(struct tcp_lane *lane, struct tcp_slice **done)
{
	struct tcp_slice *slice = lane->current;
	bool stale;

	if (!slice || tcp_lane_payload_left(lane))
		return;
	stale = lane->mask && (lane->verdict & lane->mask) != lane->fresh;
	lane->current = NULL;
	pop(lane, slice, stale ? -ESTALE : 0, OTTE_EFFECT_NONE, done);
}

void tcp_lane_keep_start(struct tcp_lane *lane)
{
	memcpy(lane->answer, lane->current->local, lane->current_got);
	lane->answer_got = (uint32_t)lane->current_got;
}

void tcp_lane_put_back_start(const struct tcp_lane *lane)
{
	memcpy(lane->current->local, lane->bare.kept, lane->current_got);
}

/* Under rx_lock: there is more to say than a payload. The slice goes once more, as if it had not been sent. */
static void ask_again(struct tcp_lane *lane, struct tcp_slice *slice)
{
	tcp_bare_unask(slice->request);
	pthread_mutex_lock(&lane->lock);
	slice->sent = 0;
	lane->unsent = slice;
	tcp_lane_let_go(lane);
	pthread_mutex_unlock(&lane->lock);
}

/* Under rx_lock: more of what may be bare is in. A payload is longer than a refusal, and nothing follows either. */
static void tell_bare(struct tcp_lane *lane, struct tcp_slice **done)
{
	struct tcp_slice *slice = lane->current;
	struct otte_lane_answer answer;
	bool refused = false;

	if (lane->current_got < sizeof(lane->answer))
		return;
	if (lane->current_got == sizeof(lane->answer)) {
		if (!slice->finished)
			tcp_lane_keep_start(lane);
		refused = tcp_bare_is_refusal(&lane->bare, lane->answer, (uintptr_t)slice, &answer);
	}
	lane->bare.pending = false;
	lane->answer_got = 0;
	if (!refused) {
		tcp_bare_good(&lane->bare);
		return;
	}
	if (!slice->finished)
		tcp_lane_put_back_start(lane);
	lane->current = NULL;
	tcp_bare_refused(&lane->bare);
	if (answer.status == -EAGAIN && !slice->finished)
		ask_again(lane, slice);
	else
		pop(lane, slice, answer.status, answer.effect, done);
}

/* Under rx_lock. Local memory of the current slice went away: the rest of its payload is dropped. */
static int lose_memory(struct tcp_lane *lane, struct tcp_slice **done)
{
	if (lane->bare.pending) {
		/* With it went what tells a payload from a refusal, and so what comes after either. */
		lane->garbled = true;
		lane->current->abandon = -ESTALE;
		return otte_fail(-EFAULT, "the memory of a READ went away");
	}
	tcp_done_add_early(done, lane->current, -ESTALE);
	return 1;
}

int tcp_lane_received(struct tcp_lane *lane, struct tcp_slice *current, ssize_t n,
		      struct tcp_slice **done)
{
	int ret;

	if (n == 0)
		return otte_fail(-ECONNRESET, "the peer closed a lane");
	if (n == -EPROTO)
		return (int)n;
	if (n < 0) {
		if (errno == EFAULT && current && !current->finished)
			return lose_memory(lane, done);
		if (errno == EINTR)
			return 1;
		return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : otte_fail(-errno, "recv: %m");
	}
	atomic_store_explicit(&lane->progress_ns, otte_coarse_ns(), memory_order_relaxed);
	if (lane->bare.pending)
		tell_bare(lane, done);
	end_payload(lane, done);
	if (!lane->current && lane->answer_got == sizeof(lane->answer)) {
		bool alone;

		ret = tcp_lane_take_answer(lane, tcp_lane_answered_next(lane, &alone), 0, done);
		if (ret)
			return ret;
	}
	return 1;
}
