/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a lane receives: by the loop, or by the waiter of a lone request, who sleeps in the connection for
 * TCP_ALONE_MS at a time; under `rx_lock`, straight into the memory of the slice at the head.
 *
 * A receive reads exactly what is known to belong there: the rest of a payload, its verdict (wire.h) where one
 * was announced, and then the next answer; or an answer and, if it is the last one expected and so nothing else
 * can follow it, its payload and a verdict.
 *
 * The exchange of a lone READ is the request and the receive in one, by a caller who has nothing else to do.
 */
#include <errno.h>
#include <sys/uio.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/sys.h"
#include "transport/tcp/lane.h"

/* One lane may take this much of a round before the others have their turn. */
#define ROUND_BYTES (4 * MIB)

/* Under both locks: one slice, wholly sent, is all there is. */
static bool owes_one(const struct tcp_lane *lane)
{
	const struct tcp_slice *head = lane->queue;

	return lane->state == TCP_LANE_READY && head && !head->next && !lane->unsent &&
	       !head->finished;
}

/* As receive_payload(), of a slice that was given up: what may be a refusal is kept for a look at it. */
static ssize_t receive_start(struct tcp_lane *lane, bool *emptied)
{
	uint64_t rest = sizeof(lane->answer) - lane->current_got;
	ssize_t n;

	n = otte_sys_recv(lane->watch.fd, lane->answer + lane->answer_got, rest, MSG_DONTWAIT);
	*emptied = n > 0 && (uint64_t)n < rest;
	if (n > 0) {
		lane->current_got += (uint64_t)n;
		lane->answer_got += (uint32_t)n;
	}
	return n;
}

/* Payload of a slice that was given up: the kernel drops it. */
static ssize_t receive_nothing(struct tcp_lane *lane, bool *emptied)
{
	uint64_t rest = tcp_lane_payload_left(lane);
	ssize_t n;

	if (lane->bare.pending)
		return receive_start(lane, emptied);
	n = otte_sys_recv(lane->watch.fd, NULL, rest, MSG_DONTWAIT | MSG_TRUNC);
	*emptied = n > 0 && (uint64_t)n < rest;
	if (n > 0)
		lane->current_got += (uint64_t)n;
	return n;
}

static ssize_t receive_payload(struct tcp_lane *lane, int flags, bool *emptied)
{
	struct tcp_slice *slice = lane->current;
	uint64_t rest = tcp_lane_payload_left(lane);
	struct iovec iov[3];
	struct msghdr message = { .msg_iov = iov };
	bool alone;
	ssize_t n;

	if (lane->current_got < slice->length)
		iov[message.msg_iovlen++] = (struct iovec){ slice->local + lane->current_got,
							    slice->length - lane->current_got };
	if (lane->mask)
		iov[message.msg_iovlen++] = (struct iovec){ &lane->verdict, 1 };
	if (tcp_lane_answered_next(lane, &alone) && !alone)
		iov[message.msg_iovlen++] = (struct iovec){ lane->answer, sizeof(lane->answer) };
	n = otte_sys_recvmsg(lane->watch.fd, &message, flags);
	if (n > 0) {
		uint64_t part = min_u64((uint64_t)n, rest);

		*emptied = part < rest;
		lane->current_got += part;
		lane->answer_got = (uint32_t)((uint64_t)n - part);
	}
	return n;
}

/* An answer; if the lane is held for it, with the payload of `head`. */
static OTTE_FRAMELESS ssize_t receive_into(struct tcp_lane *lane, struct tcp_slice *head, bool held,
					   int flags, struct tcp_slice **done, bool *emptied)
{
	struct iovec iov[3] = {
		{ lane->answer + lane->answer_got, sizeof(lane->answer) - lane->answer_got },
	};
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 1 };
	uint64_t part;
	bool alone;
	ssize_t n;
	int ret;

	if (held) {
		iov[1] = (struct iovec){ head->local, head->length };
		iov[2] = (struct iovec){ &lane->verdict, 1 };
		message.msg_iovlen = 3;
	}
	n = otte_sys_recvmsg(lane->watch.fd, &message, flags);
	if (n < 0 && errno == EFAULT && message.msg_iovlen == 3) {
		/* The memory is gone; the answer itself has a place. */
		message.msg_iovlen = 1;
		n = otte_sys_recvmsg(lane->watch.fd, &message, flags);
	}
	if (n <= 0)
		return n;
	part = min_u64((uint64_t)n, iov[0].iov_len);
	/* Whether a verdict follows is not known before. Nothing else can. */
	*emptied = (uint64_t)n < iov[0].iov_len + (message.msg_iovlen == 3 ? iov[1].iov_len : 0);
	lane->answer_got += (uint32_t)part;
	if (lane->answer_got < sizeof(lane->answer))
		return n;
	if (!head) /* nothing was asked when the look began */
		head = tcp_lane_answered_next(lane, &alone);
	ret = tcp_lane_take_answer(lane, head, (uint64_t)n - part, done);
	return ret ? ret : n;
}

/*
 * An answer, and its payload with it where nothing else can follow: then the lane is held, for nothing must
 * be sent meanwhile either, or a refusal could be followed by the answer to that, in the place of the
 * payload. Who would sleep (no MSG_DONTWAIT) does so for a lone slice only.
 */
static ssize_t receive_answer(struct tcp_lane *lane, int flags, struct tcp_slice **done,
			      bool *emptied)
{
	struct tcp_slice *head;
	bool alone, held;

	pthread_mutex_lock(&lane->lock);
	if (!(flags & MSG_DONTWAIT) && !owes_one(lane)) {
		pthread_mutex_unlock(&lane->lock);
		errno = EAGAIN;
		return -1;
	}
	head = tcp_lane_sent_head(lane, &alone);
	held = alone && head->plan->op == OTTE_READ && !head->finished;
	lane->held = held;
	pthread_mutex_unlock(&lane->lock);
	return receive_into(lane, head, held, flags, done, emptied);
}

/* Under rx_lock. */
static int receive_some(struct tcp_lane *lane, int flags, struct tcp_slice **done, bool *emptied)
{
	struct tcp_slice *current = lane->current;
	ssize_t n;

	if (current)
		n = current->finished ? receive_nothing(lane, emptied) :
					receive_payload(lane, flags, emptied);
	else
		n = receive_answer(lane, flags, done, emptied);
	return tcp_lane_received(lane, current, n, done);
}

/* Under rx_lock: a lane that may still be held, whose answer is not all there. */
static void let_go_early(struct tcp_lane *lane)
{
	if (!lane->held || lane->bare.pending)
		return;
	pthread_mutex_lock(&lane->lock);
	tcp_lane_let_go(lane);
	pthread_mutex_unlock(&lane->lock);
}

/*
 * Under rx_lock. 1: something came; 0: nothing; negative: the connection is of no use. A receive that got
 * less than it had room for has emptied the socket, which need not be asked again to say so.
 */
static int receive(struct tcp_lane *lane, int flags, struct tcp_slice **done, bool *emptied)
{
	int ret;

	if (lane->garbled)
		return otte_fail(-EPROTO, "what a peer's answers are can be told no more");
	ret = receive_some(lane, flags, done, emptied);
	let_go_early(lane);
	return ret;
}

/* Nothing is expected: what a receive would find can only be the end. */
static bool idle(struct tcp_lane *lane)
{
	return !lane->current && !lane->answer_got && !atomic_load(&lane->queued_bytes);
}

int tcp_lane_receive_round(struct tcp_lane *lane, struct tcp_slice **done)
{
	unsigned turns = ROUND_BYTES / (64 * KIB);
	bool emptied = false;
	int ret;

	do {
		ret = receive(lane, MSG_DONTWAIT, done, &emptied);
	} while (ret > 0 && !emptied && --turns && !idle(lane));
	return ret < 0 ? ret : 0;
}

bool tcp_lane_receive_alone(struct tcp_lane *lane)
{
	struct tcp_slice *done = NULL;
	bool emptied = false;
	int ret = 0;

	if (atomic_load(&lane->rx_wanted) || pthread_mutex_trylock(&lane->rx_lock))
		return false;
	if (lane->watch.fd >= 0 && !(lane->current && lane->current->finished))
		ret = receive(lane, 0, &done, &emptied);
	pthread_mutex_unlock(&lane->rx_lock);
	tcp_done_finish(done);
	if (ret < 0)
		tcp_lane_kill(lane, -ECONNRESET, true);
	return ret > 0;
}

/* ---- The exchange of a lone READ ---- */

/* So many exchanges in a row, and the loop need not hear of the next ones. */
#define ASIDE_EXCHANGES 32

/* As receive_payload(), as far as one call goes, of a slice that is all there is and is asked for bare. */
static OTTE_FRAMELESS ssize_t receive_bare(struct tcp_lane *lane, struct tcp_slice *slice)
{
	ssize_t n = otte_sys_recv(lane->watch.fd, slice->local, slice->length, 0);

	if (n > 0)
		lane->current_got = (uint64_t)n;
	return n;
}

/* Whether it may be answered so. Of a slice that nobody can end meanwhile. */
static bool may_be_bare(const struct tcp_slice *slice)
{
	return slice->plan->work->firm && slice->length > OTTE_LANE_ANSWER_BYTES;
}

/* Under rx_lock, with nothing under way: the slice, not yet sent, is to be answered bare, if there is a mark. */
static void ask_bare(struct tcp_lane *lane, struct tcp_slice *slice)
{
	if (!tcp_bare_ask(&lane->bare, slice->request, slice->local))
		return;
	lane->current = slice;
	lane->current_got = 0;
	lane->mask = 0; /* no verdict follows */
}

/*
 * Under rx_lock: the slice is all there is in the lane. It counts as sent, and the lane is held as in
 * receive_answer(), from before it is sent: so nobody else sends, and that needs no lock.
 */
static bool begin_exchange(struct tcp_lane *lane, struct tcp_slice *slice)
{
	bool able;

	pthread_mutex_lock(&lane->lock);
	able = lane->state == TCP_LANE_READY && !lane->broken && !lane->queue && !lane->wants_room &&
	       !lane->current && !lane->answer_got && lane->cut_sent == lane->cut_bytes &&
	       !atomic_load(&slice->plan->abandon);
	if (able) {
		atomic_store_explicit(&lane->progress_ns, otte_coarse_ns(), memory_order_relaxed);
		DL_APPEND(lane->queue, slice);
		tcp_lane_change_queued(lane, slice->length, 0);
		slice->sent = OTTE_LANE_REQUEST_BYTES;
		lane->held = true;
		if (++lane->exchanges >= ASIDE_EXCHANGES)
			otte_loop_set_aside(tcp_lane_loop(lane), &lane->watch);
	}
	pthread_mutex_unlock(&lane->lock);
	if (able && lane->bare.wait)
		lane->bare.wait--;
	else if (able && may_be_bare(slice))
		ask_bare(lane, slice);
	return able;
}

/*
 * Under rx_lock: send() returned n, and the rest goes the usual way, as does an error. Others' requests may then
 * follow it, so it must not bear a mark; with a part of one out already the connection is given up.
 */
static void send_rest(struct tcp_lane *lane, struct tcp_slice *slice, ssize_t n)
{
	bool marked = lane->bare.pending && n > OTTE_LANE_MARK_AT;

	if (lane->bare.pending && !marked) {
		lane->bare.pending = false;
		lane->current = NULL;
		tcp_bare_unask(slice->request);
	}
	pthread_mutex_lock(&lane->lock);
	slice->sent = n > 0 ? (uint64_t)n : 0;
	lane->unsent = slice;
	if (marked)
		tcp_lane_shut(lane);
	else
		tcp_lane_let_go(lane);
	pthread_mutex_unlock(&lane->lock);
}

/* Under rx_lock. */
static void end_exchange(struct tcp_lane *lane, int ret)
{
	let_go_early(lane);
	if (ret >= 0)
		return;
	/* Not killed here: without rx_lock others may end the slice, and the peer be gone. */
	if (ret == -EPROTO)
		lane->garbled = true;
	tcp_lane_break(lane);
}

bool tcp_lane_exchange(struct tcp_lane *lane, struct tcp_slice *slice)
{
	struct tcp_slice *done = NULL;
	bool emptied = false;
	ssize_t n;

	if (atomic_load(&lane->rx_wanted) || pthread_mutex_trylock(&lane->rx_lock))
		return false;
	if (!begin_exchange(lane, slice)) {
		pthread_mutex_unlock(&lane->rx_lock);
		return false;
	}
	n = otte_sys_send(lane->watch.fd, slice->request, OTTE_LANE_REQUEST_BYTES,
			  MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n == OTTE_LANE_REQUEST_BYTES) {
		if (lane->bare.pending)
			n = receive_bare(lane, slice);
		else
			n = receive_into(lane, slice, true, 0, &done, &emptied);
		end_exchange(lane, tcp_lane_received(lane, lane->current, n, &done));
	} else {
		send_rest(lane, slice, n);
	}
	pthread_mutex_unlock(&lane->rx_lock);
	tcp_done_finish(done);
	return true;
}
