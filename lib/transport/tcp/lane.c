/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One payload connection to a peer.
 *
 * Slices are sent in the order of the queue and answered in that order. Sending is done by whoever
 * enqueues or by the loop, under `lock`; receiving by the loop, or by the waiter of a lone request, who sleeps
 * in it for TCP_ALONE_MS at a time, under `rx_lock`, straight into the memory of the slice at the head. A
 * receive reads exactly what is known to belong there: the rest of a payload, its verdict (wire.h) where one
 * was announced, and then the next answer; or an answer and, if it is the last one expected and so nothing else
 * can follow it, its payload and a verdict.
 *
 * After many lone READs the answer to the next one is asked for bare (control/wire.h): then the payload is
 * `current` from before the request is sent, and in place of its first bytes a refusal may come. Until it is
 * known which it is, nothing else is sent. This is for memory that cannot go away, for those bytes are looked at
 * where they lie, and after a refusal are what they were.
 *
 * A WRITE that was sent without a copy ends when both have come, the answer and the kernel's notification
 * (zerocopy.h). Between the two it stands in `unproven`.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "control/auth.h"
#include "transport/tcp/tcp.h"

#define IOV_SLICES 32
/* One lane may take this much of a round before the others have their turn. */
#define ROUND_BYTES (4 * MIB)
/*
 * So many exchanges on a connection, and answers are asked for bare. After a refusal that came in place of one it
 * takes twice as many as the last time; so many answers that were none take one such step back.
 */
#define BARE_EXCHANGES 64
#define BARE_PAUSE_MIN (2 * BARE_EXCHANGES)
#define BARE_PAUSE_MAX (1u << 20)

static void lane_ready(struct otte_watch *watch, uint32_t events);

void tcp_lane_init(struct tcp_lane *lane, struct tcp_peer *peer)
{
	memset(lane, 0, sizeof(*lane));
	lane->watch.fd = -1;
	lane->watch.ready = lane_ready;
	lane->peer = peer;
	lane->backoff_ns = peer->tcp->env.config->reconnect_min_ns;
	pthread_mutex_init(&lane->lock, NULL);
	pthread_mutex_init(&lane->rx_lock, NULL);
}

void tcp_lane_fini(struct tcp_lane *lane)
{
	pthread_mutex_destroy(&lane->lock);
	pthread_mutex_destroy(&lane->rx_lock);
}

static struct otte_loop *lane_loop(struct tcp_lane *lane)
{
	return lane->peer->tcp->env.loop;
}

/*
 * Who sleeps in the connection does so with rx_lock, and would have it again before anybody else woke. So it is
 * told that somebody waits.
 */
static void lock_rx(struct tcp_lane *lane)
{
	if (pthread_mutex_trylock(&lane->rx_lock) == 0)
		return;
	atomic_fetch_add(&lane->rx_wanted, 1);
	pthread_mutex_lock(&lane->rx_lock);
	atomic_fetch_sub(&lane->rx_wanted, 1);
}

/* Under lock, which orders the writers; pick() and idle() look without it. */
static void change_queued(struct tcp_lane *lane, uint64_t more, uint64_t less)
{
	uint64_t bytes = atomic_load_explicit(&lane->queued_bytes, memory_order_relaxed);

	atomic_store_explicit(&lane->queued_bytes, bytes + more - less, memory_order_relaxed);
}

/* Takes the slice's reference to its plan with it. */
static void add_done(struct tcp_slice **done, struct tcp_slice *slice, int code, uint8_t effect)
{
	slice->code = code;
	slice->effect = effect;
	slice->done_next = *done;
	*done = slice;
}

/* Under rx_lock: it is told, but stays in the queue for its answer, which may come before it is told. */
static void end_early(struct tcp_slice *slice, int code, uint8_t effect, struct tcp_slice **done)
{
	atomic_fetch_add(&slice->plan->refs, 1);
	slice->finished = true;
	add_done(done, slice, code, effect);
}

/* Without locks. */
static void finish_all(struct tcp_slice *done)
{
	while (done) {
		struct tcp_slice *slice = done;
		struct tcp_plan *plan = slice->plan;

		done = slice->done_next;
		tcp_slice_finish(slice, slice->code, slice->effect);
		tcp_plan_put(plan);
	}
}

/* ---- Sending ---- */

/* Under lock. */
static int ask_for_room(struct tcp_lane *lane, bool want)
{
	if (lane->wants_room == want)
		return 0;
	lane->wants_room = want;
	return otte_loop_change(lane_loop(lane), &lane->watch, EPOLLIN | (want ? EPOLLOUT : 0u));
}

/* Under lock: the slice's payload goes alone, straight from its memory. */
static bool wants_zerocopy(const struct tcp_lane *lane, const struct tcp_slice *slice)
{
	return slice->plan->op == OTTE_WRITE && tcp_zerocopy_wants(lane->zerocopy, slice->length);
}

/* Up to a payload that goes alone; *flags then say that it follows. */
static int gather(const struct tcp_lane *lane, struct iovec *iov, int *flags)
{
	struct tcp_slice *slice = lane->unsent;
	int n = 0;

	for (; slice && n + 2 <= 2 * IOV_SLICES; slice = slice->next) {
		uint64_t payload = 0;

		if (slice->sent < OTTE_LANE_REQUEST_BYTES) {
			iov[n].iov_base = slice->request + slice->sent;
			iov[n++].iov_len = OTTE_LANE_REQUEST_BYTES - slice->sent;
		} else {
			payload = slice->sent - OTTE_LANE_REQUEST_BYTES;
		}
		if (wants_zerocopy(lane, slice)) {
			*flags |= MSG_MORE;
			return n;
		}
		if (slice->plan->op == OTTE_WRITE) {
			iov[n].iov_base = slice->local + payload;
			iov[n++].iov_len = slice->length - payload;
		}
	}
	return n;
}

/* Under lock: `bytes` more of the queue are on their way. */
static void advance(struct tcp_lane *lane, uint64_t bytes)
{
	while (bytes) {
		struct tcp_slice *slice = lane->unsent;
		uint64_t part = min_u64(bytes, tcp_slice_wire_bytes(slice) - slice->sent);

		slice->sent += part;
		bytes -= part;
		if (slice->sent == tcp_slice_wire_bytes(slice))
			lane->unsent = slice->next;
	}
	atomic_store_explicit(&lane->progress_ns, otte_coarse_ns(), memory_order_relaxed);
}

/* Under lock. Takes the connection down for the loop to bury. */
static void shut(struct tcp_lane *lane)
{
	lane->broken = true;
	shutdown(lane->watch.fd, SHUT_RDWR);
	otte_loop_bring_back(lane_loop(lane));
}

/* Under lock. As send(): of what is unsent, all that can go in one call. */
static ssize_t send_some(struct tcp_lane *lane)
{
	struct tcp_slice *slice = lane->unsent;
	struct iovec iov[2 * IOV_SLICES];
	struct msghdr message = { .msg_iov = iov };
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;

	if (slice->sent >= OTTE_LANE_REQUEST_BYTES && wants_zerocopy(lane, slice))
		return tcp_zerocopy_send(lane->zerocopy, &slice->claim,
					 slice->local + (slice->sent - OTTE_LANE_REQUEST_BYTES),
					 tcp_slice_wire_bytes(slice) - slice->sent);
	message.msg_iovlen = (size_t)gather(lane, iov, &flags);
	if (message.msg_iovlen == 1) /* a lone READ: the short call is cheaper */
		return otte_sys_send(lane->watch.fd, iov[0].iov_base, iov[0].iov_len, flags);
	return otte_sys_sendmsg(lane->watch.fd, &message, flags);
}

/* Under lock. */
static void flush(struct tcp_lane *lane)
{
	ssize_t n;

	while (lane->unsent && !lane->broken && !lane->held) {
		n = send_some(lane);
		if (n > 0) {
			advance(lane, (uint64_t)n);
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			if (ask_for_room(lane, true))
				shut(lane);
			return;
		} else if (errno != EINTR) {
			/* Local memory went away in the middle of a frame: the frame cannot be ended. */
			if (errno == EFAULT)
				lane->unsent->abandon = -ESTALE;
			shut(lane);
			return;
		}
	}
	if (!lane->broken && ask_for_room(lane, false))
		shut(lane);
}

bool tcp_lane_enqueue(struct tcp_lane *lane, struct tcp_slice *slice)
{
	bool ready;

	pthread_mutex_lock(&lane->lock);
	/* Who sends so need not sleep for the answer. */
	lane->exchanges = 0;
	otte_loop_bring_back(lane_loop(lane));
	ready = lane->state == TCP_LANE_READY && !lane->broken &&
		!atomic_load(&slice->plan->abandon);
	if (ready) {
		if (!lane->queue)
			atomic_store_explicit(&lane->progress_ns, otte_coarse_ns(),
					      memory_order_relaxed);
		DL_APPEND(lane->queue, slice);
		if (!lane->unsent)
			lane->unsent = slice;
		change_queued(lane, slice->length, 0);
		if (!lane->wants_room)
			flush(lane);
	}
	pthread_mutex_unlock(&lane->lock);
	return ready;
}

/* ---- Receiving ---- */

/* Under lock: the oldest slice if its answer may come; *alone: nothing else can follow that answer. */
static struct tcp_slice *sent_head(struct tcp_lane *lane, bool *alone)
{
	struct tcp_slice *head = lane->queue == lane->unsent ? NULL : lane->queue;

	*alone = head && (!head->next || head->next == lane->unsent);
	return head;
}

static struct tcp_slice *answered_next(struct tcp_lane *lane, bool *alone)
{
	struct tcp_slice *head;

	pthread_mutex_lock(&lane->lock);
	head = sent_head(lane, alone);
	pthread_mutex_unlock(&lane->lock);
	return head;
}

/* Under both locks: what was added to a held lane goes out. */
static void let_go(struct tcp_lane *lane)
{
	lane->held = false;
	if (lane->unsent && !lane->wants_room)
		flush(lane);
}

/* Under both locks: the kernel has let go of all that was sent of the slice. */
static void slice_proven(struct tcp_lane *lane, struct tcp_slice *slice, struct tcp_slice **done)
{
	if (slice->answered) {
		DL_DELETE(lane->unproven, slice);
		slice->finished = true;
		add_done(done, slice, slice->code, slice->effect);
	} else if (slice->abandon && !slice->finished &&
		   slice->sent == tcp_slice_wire_bytes(slice)) {
		end_early(slice, slice->abandon, OTTE_EFFECT_UNKNOWN, done);
	}
}

/* Under both locks. */
static void reap(struct tcp_lane *lane, struct tcp_slice **done)
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

	if (slice->abandon && !code) {
		code = slice->abandon;
		effect = OTTE_EFFECT_UNKNOWN;
	}
	pthread_mutex_lock(&lane->lock);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what is answered is in the queue */
	DL_DELETE(lane->queue, slice);
	change_queued(lane, 0, slice->length);
	if (lane->held)
		let_go(lane);
	if (!proven) {
		slice->answered = true;
		slice->code = code;
		slice->effect = effect;
		DL_APPEND(lane->unproven, slice);
		reap(lane, done);
	}
	pthread_mutex_unlock(&lane->lock);
	if (!proven)
		return;
	if (slice->finished) {
		tcp_plan_put(slice->plan);
		return;
	}
	slice->finished = true;
	add_done(done, slice, code, effect);
}

static int bad(struct tcp_lane *lane, const char *what)
{
	atomic_fetch_add(&lane->peer->tcp->counters.bad_frames, 1);
	return otte_fail(-EPROTO, "a peer's answer %s", what);
}

/* Under rx_lock: a whole answer is in, and `extra` bytes of what follows it. */
static int take_answer(struct tcp_lane *lane, struct tcp_slice *head, uint64_t extra,
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

/* Under rx_lock: what is still to come of the current payload, its verdict included. */
static uint64_t payload_left(const struct tcp_lane *lane)
{
	return lane->current->length + !!lane->mask - lane->current_got;
}

/* Under rx_lock. */
static void end_payload(struct tcp_lane *lane, struct tcp_slice **done)
{
	struct tcp_slice *slice = lane->current;
	bool stale;

	if (!slice || payload_left(lane))
		return;
	stale = lane->mask && (lane->verdict & lane->mask) != lane->fresh;
	lane->current = NULL;
	pop(lane, slice, stale ? -ESTALE : 0, OTTE_EFFECT_NONE, done);
}

/* ---- Bare answers ---- */

/* Under rx_lock. The kernel is asked for many at once: for each of them it would cost more than it is worth. */
static int draw_mark(struct tcp_lane *lane)
{
	int ret;

	if (!lane->marks_left) {
		ret = otte_random(lane->marks, sizeof(lane->marks));
		if (ret)
			return ret;
		lane->marks_left = TCP_MARKS;
	}
	lane->marks_left--;
	lane->mark[0] = lane->marks[lane->marks_left][0];
	lane->mark[1] = lane->marks[lane->marks_left][1] | 1; /* 0, 0 is none */
	return 0;
}

/* Under rx_lock, with nothing under way: the slice, not yet sent, is to be answered bare, if there is a mark. */
static void ask_bare(struct tcp_lane *lane, struct tcp_slice *slice)
{
	if (draw_mark(lane))
		return;
	otte_lane_request_mark(slice->request, lane->mark);
	memcpy(lane->kept, slice->local, sizeof(lane->kept));
	lane->current = slice;
	lane->current_got = 0;
	lane->mask = 0; /* no verdict follows */
	lane->bare = true;
}

/* Whether it may be. Of a slice that nobody can end meanwhile. */
static bool may_be_bare(const struct tcp_slice *slice)
{
	return slice->plan->work->firm && slice->length > OTTE_LANE_ANSWER_BYTES;
}

/* Its answer, if it is asked for again, has a header. */
static void unmark(struct tcp_slice *slice)
{
	const uint64_t none[2] = { 0, 0 };

	otte_lane_request_mark(slice->request, none);
}

/* Under rx_lock: what is in of the answer, to lane->answer, while the slice still has its memory. */
static void keep_start(struct tcp_lane *lane)
{
	memcpy(lane->answer, lane->current->local, lane->current_got);
	lane->answer_got = (uint32_t)lane->current_got;
}

/* Under rx_lock. It can be a refusal's, and then is no part of what the slice's memory is to hold. */
static void put_back_start(const struct tcp_lane *lane)
{
	memcpy(lane->current->local, lane->kept, lane->current_got);
}

/*
 * Under rx_lock: whether so little of a bare answer is in that it cannot be told what it is, in memory that the slice
 * still has.
 */
static bool has_start(const struct tcp_lane *lane)
{
	return lane->bare && !lane->current->finished && !lane->garbled;
}

static bool is_refusal(const struct tcp_lane *lane, struct otte_lane_answer *answer)
{
	return !otte_lane_answer_decode(lane->answer, answer) && answer->status &&
	       answer->id == (uint64_t)(uintptr_t)lane->current &&
	       answer->mark[0] == lane->mark[0] && answer->mark[1] == lane->mark[1];
}

/* Under rx_lock. */
static void ask_for_headers(struct tcp_lane *lane)
{
	lane->bare_wait = lane->bare_pause;
	lane->bare_good = 0;
	lane->bare_pause = (uint32_t)min_u64(2ull * lane->bare_pause, BARE_PAUSE_MAX);
}

/* Under rx_lock: a bare answer is no refusal. */
static void note_good(struct tcp_lane *lane)
{
	if (++lane->bare_good < BARE_EXCHANGES)
		return;
	lane->bare_good = 0;
	if (lane->bare_pause > BARE_PAUSE_MIN)
		lane->bare_pause /= 2;
}

/* Under rx_lock: the connection is new. */
static void reset_bare(struct tcp_lane *lane)
{
	lane->bare_wait = BARE_EXCHANGES;
	lane->bare_pause = BARE_PAUSE_MIN;
	lane->bare_good = 0;
}

/* Under rx_lock: there is more to say than a payload. The slice goes once more, as if it had not been sent. */
static void ask_again(struct tcp_lane *lane, struct tcp_slice *slice)
{
	unmark(slice);
	pthread_mutex_lock(&lane->lock);
	slice->sent = 0;
	lane->unsent = slice;
	let_go(lane);
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
			keep_start(lane);
		refused = is_refusal(lane, &answer);
	}
	lane->bare = false;
	lane->answer_got = 0;
	if (!refused) {
		note_good(lane);
		return;
	}
	if (!slice->finished)
		put_back_start(lane);
	lane->current = NULL;
	ask_for_headers(lane);
	if (answer.status == -EAGAIN && !slice->finished)
		ask_again(lane, slice);
	else
		pop(lane, slice, answer.status, answer.effect, done);
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

/* The same, as far as one call goes, of a slice that is all there is and waits for it. */
static OTTE_FRAMELESS ssize_t receive_bare(struct tcp_lane *lane, struct tcp_slice *slice)
{
	ssize_t n = otte_sys_recv(lane->watch.fd, slice->local, slice->length, 0);

	if (n > 0)
		lane->current_got = (uint64_t)n;
	return n;
}

/* ---- Receiving ---- */

/* Payload of a slice that was given up: the kernel drops it. */
static ssize_t receive_nothing(struct tcp_lane *lane, bool *emptied)
{
	uint64_t rest = payload_left(lane);
	ssize_t n;

	if (lane->bare)
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
	uint64_t rest = payload_left(lane);
	struct iovec iov[3];
	struct msghdr message = { .msg_iov = iov };
	bool alone;
	ssize_t n;

	if (lane->current_got < slice->length)
		iov[message.msg_iovlen++] = (struct iovec){ slice->local + lane->current_got,
							    slice->length - lane->current_got };
	if (lane->mask)
		iov[message.msg_iovlen++] = (struct iovec){ &lane->verdict, 1 };
	if (answered_next(lane, &alone) && !alone)
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

/* Under both locks: one slice, wholly sent, is all there is. */
static bool owes_one(const struct tcp_lane *lane)
{
	const struct tcp_slice *head = lane->queue;

	return lane->state == TCP_LANE_READY && head && !head->next && !lane->unsent &&
	       !head->finished;
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
		head = answered_next(lane, &alone);
	ret = take_answer(lane, head, (uint64_t)n - part, done);
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
	head = sent_head(lane, &alone);
	held = alone && head->plan->op == OTTE_READ && !head->finished;
	lane->held = held;
	pthread_mutex_unlock(&lane->lock);
	return receive_into(lane, head, held, flags, done, emptied);
}

/* Under rx_lock. Local memory of the current slice went away: the rest of its payload is dropped. */
static int lose_memory(struct tcp_lane *lane, struct tcp_slice **done)
{
	if (lane->bare) {
		/* With it went what tells a payload from a refusal, and so what comes after either. */
		lane->garbled = true;
		lane->current->abandon = -ESTALE;
		return otte_fail(-EFAULT, "the memory of a READ went away");
	}
	end_early(lane->current, -ESTALE, OTTE_EFFECT_NONE, done);
	return 1;
}

/* Under rx_lock, after a receive that found `current` and returned n. As receive(). */
static int received(struct tcp_lane *lane, struct tcp_slice *current, ssize_t n,
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
	if (lane->bare)
		tell_bare(lane, done);
	end_payload(lane, done);
	if (!lane->current && lane->answer_got == sizeof(lane->answer)) {
		bool alone;

		ret = take_answer(lane, answered_next(lane, &alone), 0, done);
		if (ret)
			return ret;
	}
	return 1;
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
	return received(lane, current, n, done);
}

/* Under rx_lock: a lane that may still be held, whose answer is not all there. */
static void let_go_early(struct tcp_lane *lane)
{
	if (!lane->held || lane->bare)
		return;
	pthread_mutex_lock(&lane->lock);
	let_go(lane);
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

/* Under rx_lock. 0 or negative. */
static int receive_round(struct tcp_lane *lane, struct tcp_slice **done)
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
	finish_all(done);
	if (ret < 0)
		tcp_lane_kill(lane, -ECONNRESET, true);
	return ret > 0;
}

/* ---- Both in one ---- */

/* So many exchanges in a row, and the loop need not hear of the next ones. */
#define ASIDE_EXCHANGES 32

/*
 * Under rx_lock: the slice is all there is in the lane. It counts as sent, and the lane is held as in
 * receive_answer(), from before it is sent: so nobody else sends, and that needs no lock.
 */
static bool begin_exchange(struct tcp_lane *lane, struct tcp_slice *slice)
{
	bool able;

	pthread_mutex_lock(&lane->lock);
	able = lane->state == TCP_LANE_READY && !lane->broken && !lane->queue && !lane->wants_room &&
	       !lane->current && !lane->answer_got && !atomic_load(&slice->plan->abandon);
	if (able) {
		atomic_store_explicit(&lane->progress_ns, otte_coarse_ns(), memory_order_relaxed);
		DL_APPEND(lane->queue, slice);
		change_queued(lane, slice->length, 0);
		slice->sent = OTTE_LANE_REQUEST_BYTES;
		lane->held = true;
		if (++lane->exchanges >= ASIDE_EXCHANGES)
			otte_loop_set_aside(lane_loop(lane), &lane->watch);
	}
	pthread_mutex_unlock(&lane->lock);
	if (able && lane->bare_wait)
		lane->bare_wait--;
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
	bool marked = lane->bare && n > OTTE_LANE_MARK_AT;

	if (lane->bare && !marked) {
		lane->bare = false;
		lane->current = NULL;
		unmark(slice);
	}
	pthread_mutex_lock(&lane->lock);
	slice->sent = n > 0 ? (uint64_t)n : 0;
	lane->unsent = slice;
	if (marked)
		shut(lane);
	else
		let_go(lane);
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
		if (lane->bare)
			n = receive_bare(lane, slice);
		else
			n = receive_into(lane, slice, true, 0, &done, &emptied);
		end_exchange(lane, received(lane, lane->current, n, &done));
	} else {
		send_rest(lane, slice, n);
	}
	pthread_mutex_unlock(&lane->rx_lock);
	finish_all(done);
	return true;
}

/* ---- Connecting ---- */

static int open_socket(struct tcp_lane *lane, const struct otte_client_address *to)
{
	int fd, ret;

	fd = otte_fd_socket(to->address.ss_family, SOCK_STREAM);
	if (fd < 0)
		return otte_fail(-errno, "socket: %m");
	ret = tcp_socket_prepare(lane->peer->tcp->env.config, fd);
	if (!ret && connect(fd, (const struct sockaddr *)&to->address, to->length) < 0 &&
	    errno != EINPROGRESS)
		ret = otte_fail(-errno, "connect: %m");
	if (!ret) {
		lane->watch.fd = fd;
		ret = otte_loop_add(lane_loop(lane), &lane->watch, EPOLLIN | EPOLLOUT);
	}
	if (ret) {
		lane->watch.fd = -1;
		otte_fd_close(fd);
		return ret;
	}
	lane->wants_room = true;
	return 0;
}

/* 1: a part of it waits for room; 0: all is sent. */
static int send_hello(struct tcp_lane *lane)
{
	struct otte_frame frame = { .type = OTTE_FRAME_LANE, .length = OTTE_LANE_HELLO_BYTES };
	uint8_t out[OTTE_LANE_HELLO_BYTES];

	otte_lane_hello_encode(&lane->greeting, out, sizeof(out));
	lane->state = TCP_LANE_HELLO;
	return otte_stream_send(&lane->hello, &frame, out);
}

int tcp_lane_connect(struct tcp_lane *lane)
{
	struct otte_client_address to;
	int ret;

	ret = otte_control_client_lane(lane->peer->control, false, &lane->greeting, &to);
	if (ret)
		return ret;

	lock_rx(lane);
	pthread_mutex_lock(&lane->lock);
	if (lane->state == TCP_LANE_DOWN) {
		ret = open_socket(lane, &to);
		if (!ret) {
			lane->state = TCP_LANE_CONNECTING;
			otte_stream_init(&lane->hello, lane->watch.fd, 4096, 4096);
		}
		atomic_store(&lane->progress_ns, otte_coarse_ns());
	}
	pthread_mutex_unlock(&lane->lock);
	pthread_mutex_unlock(&lane->rx_lock);
	return ret;
}

/* Under both locks, CONNECTING or HELLO. 1: READY now; 0: not yet. */
static int shake_hands(struct tcp_lane *lane)
{
	struct sockaddr_storage peer;
	socklen_t length = sizeof(int), peer_length = sizeof(peer);
	struct otte_frame frame;
	const uint8_t *payload;
	int error = 0, ret;

	if (lane->state == TCP_LANE_CONNECTING) {
		getsockopt(lane->watch.fd, SOL_SOCKET, SO_ERROR, &error, &length);
		if (error)
			return otte_fail(-error, "connect: %s", strerror(error));
		/* An event of the connection before this one may come late. */
		if (getpeername(lane->watch.fd, (struct sockaddr *)&peer, &peer_length) < 0)
			return 0;
		atomic_store(&lane->peer->local,
			     tcp_socket_connected(lane->peer->tcp->env.config, lane->watch.fd));
		ret = send_hello(lane);
		return ret < 0 ? ret : ask_for_room(lane, ret);
	}
	ret = otte_stream_flush(&lane->hello);
	if (ret >= 0)
		ret = ask_for_room(lane, ret);
	if (ret)
		return ret;
	ret = otte_stream_receive(&lane->hello, &frame, &payload);
	if (ret <= 0)
		return ret;
	if (frame.type != OTTE_FRAME_LANE_READY)
		return otte_fail(-EPROTO, "a lane's hello is answered with frame type %u", frame.type);
	otte_stream_fini(&lane->hello);
	reset_bare(lane);
	lane->zerocopy = tcp_zerocopy_open(&lane->peer->tcp->zerocopies, lane->peer->tcp->env.config,
					   lane->watch.fd, atomic_load(&lane->peer->local));
	lane->state = TCP_LANE_READY;
	lane->backoff_ns = lane->peer->tcp->env.config->reconnect_min_ns;
	return 1;
}

/* ---- The loop's side ---- */

static void connecting_ready(struct tcp_lane *lane)
{
	int ret = 0;

	lock_rx(lane);
	pthread_mutex_lock(&lane->lock);
	if (lane->state == TCP_LANE_CONNECTING || lane->state == TCP_LANE_HELLO)
		ret = shake_hands(lane);
	pthread_mutex_unlock(&lane->lock);
	pthread_mutex_unlock(&lane->rx_lock);
	if (ret < 0) {
		tcp_lane_kill(lane, ret, false);
	} else if (ret == 1) {
		atomic_fetch_add(&lane->peer->tcp->counters.lanes, 1);
		lane->peer->changed(lane->peer->arg);
	}
}

/* Under rx_lock: notifications, or an error that the next receive finds. */
static void hear_kernel(struct tcp_lane *lane, struct tcp_slice **done)
{
	pthread_mutex_lock(&lane->lock);
	if (lane->zerocopy)
		reap(lane, done);
	pthread_mutex_unlock(&lane->lock);
}

static void lane_ready(struct otte_watch *watch, uint32_t events)
{
	struct tcp_lane *lane = container_of(watch, struct tcp_lane, watch);
	struct tcp_slice *done = NULL;
	enum tcp_lane_state state;
	int ret = 0;

	state = atomic_load(&lane->state);
	if (state == TCP_LANE_READY && (events & EPOLLOUT)) {
		pthread_mutex_lock(&lane->lock);
		if (lane->state == TCP_LANE_READY)
			flush(lane);
		pthread_mutex_unlock(&lane->lock);
	}
	if (state == TCP_LANE_CONNECTING || state == TCP_LANE_HELLO) {
		connecting_ready(lane);
		return;
	}
	if (state != TCP_LANE_READY || !(events & ~(uint32_t)EPOLLOUT))
		return;
	lock_rx(lane);
	if (events & EPOLLERR)
		hear_kernel(lane, &done);
	if (lane->watch.fd >= 0)
		ret = receive_round(lane, &done);
	pthread_mutex_unlock(&lane->rx_lock);
	finish_all(done);
	if (ret < 0)
		tcp_lane_kill(lane, -ECONNRESET, true);
}

void tcp_lane_break(struct tcp_lane *lane)
{
	pthread_mutex_lock(&lane->lock);
	if (lane->state != TCP_LANE_DOWN && !lane->broken)
		shut(lane);
	pthread_mutex_unlock(&lane->lock);
}

/* ---- Ending ---- */

bool tcp_lane_abandon(struct tcp_lane *lane, const struct tcp_plan *plan, int code)
{
	struct tcp_slice *slice, *next, *done = NULL;
	bool drained = true;

	lock_rx(lane);
	pthread_mutex_lock(&lane->lock);
	if (lane->zerocopy)
		reap(lane, &done);
	DL_FOREACH(lane->unproven, slice)
		drained &= slice->plan != plan;
	DL_FOREACH_SAFE(lane->queue, slice, next) {
		if (slice->plan != plan || slice->finished)
			continue;
		if (slice->sent == 0) {
			if (lane->unsent == slice)
				lane->unsent = next;
			DL_DELETE(lane->queue, slice);
			change_queued(lane, 0, slice->length);
			slice->finished = true;
			add_done(&done, slice, code, OTTE_EFFECT_NONE);
		} else if (plan->op == OTTE_WRITE &&
			   (slice->sent < tcp_slice_wire_bytes(slice) || slice->claim.left)) {
			slice->abandon = code;
			drained = false;
		} else {
			if (slice == lane->current && has_start(lane)) {
				keep_start(lane);
				put_back_start(lane);
			}
			end_early(slice, code, plan->op == OTTE_WRITE ? OTTE_EFFECT_UNKNOWN :
									OTTE_EFFECT_NONE, &done);
		}
	}
	pthread_mutex_unlock(&lane->lock);
	pthread_mutex_unlock(&lane->rx_lock);
	finish_all(done);
	return drained;
}

/* ---- What the kernel still refers to of a dead lane ---- */

static void lingering_proven(struct tcp_claim *claim)
{
	struct tcp_slice *slice = container_of(claim, struct tcp_slice, claim);
	struct tcp_plan *plan = slice->plan;

	if (slice->kept)
		plan->keep->let_go(slice->kept);
	else
		tcp_slice_finish(slice, slice->code, slice->effect);
	tcp_plan_put(plan);
}

/* The work need not wait any longer, but its memory has to. */
static int lingering_retain(struct tcp_claim *claim)
{
	struct tcp_slice *slice = container_of(claim, struct tcp_slice, claim);
	struct tcp_plan *plan = slice->plan;
	int ret;

	ret = plan->keep->keep(plan->work, slice->local, slice->length, &slice->kept);
	if (ret)
		return ret;
	atomic_store(&plan->undrained, true);
	tcp_slice_finish(slice, -EUCLEAN, OTTE_EFFECT_UNKNOWN);
	return 0;
}

static const struct tcp_linger_ops lingering = {
	.proven = lingering_proven,
	.retain = lingering_retain,
};

/* Every slice that is left in it knows its result. */
static void end_zerocopy(struct tcp_zerocopy *zerocopy)
{
	if (zerocopy->claims) {
		tcp_zerocopy_linger(zerocopy, &lingering, NULL);
	} else {
		otte_fd_close(zerocopy->fd);
		tcp_zerocopy_close(zerocopy);
	}
}

/* A slice that fell out of a dead lane. What the kernel refers to waits for proof. */
static void bury(struct tcp_lane *lane, struct tcp_slice *slice, int code, bool retry)
{
	struct tcp_plan *plan = slice->plan;
	uint8_t effect = plan->op == OTTE_WRITE && slice->sent ? OTTE_EFFECT_UNKNOWN :
								 OTTE_EFFECT_NONE;

	if (slice->finished) {
		tcp_plan_put(plan);
		return;
	}
	if (slice->claim.left) {
		slice->code = slice->abandon ? slice->abandon : code;
		slice->effect = effect;
		return;
	}
	if (retry && !slice->abandon && effect == OTTE_EFFECT_NONE) {
		uint32_t left = slice->sent ? atomic_load(&plan->retries) : 1;

		while (slice->sent && left &&
		       !atomic_compare_exchange_weak(&plan->retries, &left, left - 1))
			;
		if (left) {
			if (slice->sent)
				atomic_fetch_add(&lane->peer->tcp->counters.retries, 1);
			slice->sent = 0;
			unmark(slice);
			tcp_peer_place(lane->peer, slice, 0);
			return;
		}
	}
	slice->finished = true;
	tcp_slice_finish(slice, slice->abandon ? slice->abandon : code, effect);
	tcp_plan_put(plan);
}

void tcp_lane_kill(struct tcp_lane *lane, int code, bool retry)
{
	struct tcp_slice *queue, *unproven, *slice, *next;
	struct tcp_zerocopy *zerocopy;
	enum tcp_lane_state state;

	lock_rx(lane);
	pthread_mutex_lock(&lane->lock);
	state = lane->state;
	if (state == TCP_LANE_DOWN) {
		pthread_mutex_unlock(&lane->lock);
		pthread_mutex_unlock(&lane->rx_lock);
		return;
	}
	if (state != TCP_LANE_READY)
		otte_stream_fini(&lane->hello);
	otte_loop_remove(lane_loop(lane), &lane->watch);
	zerocopy = lane->zerocopy;
	if (!zerocopy)
		otte_fd_close(lane->watch.fd);
	lane->watch.fd = -1;
	lane->zerocopy = NULL;
	lane->state = TCP_LANE_DOWN;
	lane->broken = false;
	lane->retry_at_ns = otte_now_ns() + lane->backoff_ns;
	lane->backoff_ns = min_u64(lane->backoff_ns * 2,
				   lane->peer->tcp->env.config->reconnect_max_ns);
	if (has_start(lane))
		put_back_start(lane);
	queue = lane->queue;
	unproven = lane->unproven;
	lane->queue = NULL;
	lane->unproven = NULL;
	lane->unsent = NULL;
	lane->current = NULL;
	lane->answer_got = 0;
	lane->bare = false;
	lane->held = false;
	lane->garbled = false;
	atomic_store(&lane->queued_bytes, 0);
	pthread_mutex_unlock(&lane->lock);
	pthread_mutex_unlock(&lane->rx_lock);

	if (state == TCP_LANE_READY)
		atomic_fetch_sub(&lane->peer->tcp->counters.lanes, 1);
	otte_log(OTTE_LOG_INFO, "a lane is down: %s", otte_error_text());
	tcp_peer_note_loss(lane->peer);
	if (zerocopy)
		tcp_zerocopy_disconnect(zerocopy);
	DL_FOREACH_SAFE(unproven, slice, next)
		if (!slice->claim.left)
			lingering_proven(&slice->claim);
	DL_FOREACH_SAFE(queue, slice, next)
		bury(lane, slice, code, retry);
	if (zerocopy)
		end_zerocopy(zerocopy);
	lane->peer->changed(lane->peer->arg);
}
