/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a lane is served: step by step, by its loop or by the express thread.
 *
 * Memory that is the application's to unmap is guarded: behind a READ's payload goes the verdict, a byte of
 * the word that tells of it, read after the payload was. So who has the verdict that it is fresh has only bytes
 * of what was registered. The word is this process's memory like the payload, and the kernel takes the parts of
 * one send in their order: that costs no call of its own. Where loads may overtake each other, or the payload is
 * not copied, the verdict is read and sent on its own.
 *
 * A lane whose peer waits for each answer before it asks again is taken out of its loop and belongs to the
 * express thread, which sleeps in the connection: that saves a turn of the loop, some twentieth of a small
 * READ's time. The loop has it back as soon as nothing comes for TCP_ALONE_MS, or something goes wrong.
 */
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"
#include "ledger/ledger.h"
#include "transport/tcp/source.h"

#define ROUND_BYTES (4 * MIB)
/* One lane may be served so often before the others have their turn. */
#define ROUND_REQUESTS 16
/* And so many calls of the system it may take, whatever they bring: a payload may have no end. */
#define ROUND_STEPS 64
#define PACE_ROUNDS 8
/* So many rounds of one request each, and a lane is offered to the express thread. */
#define LONE_ROUNDS 32
/* Of a payload whose memory is gone so much is made up, or the lane ends. */
#define FILL_BYTES (64 * KIB)
/* Whether the parts of a send are read in their order, and a word's low byte is its first. */
#if defined(__x86_64__)
#define ORDERED true
#else
#define ORDERED false
#endif

/* Each step: 1 go on, 0 the socket has nothing or no room, negative the connection is of no use. */

static int receive_flags(const struct source_lane *lane)
{
	return atomic_load_explicit(&lane->alone, memory_order_relaxed) ? 0 : MSG_DONTWAIT;
}

static int received(struct source_lane *lane, ssize_t n)
{
	if (n > 0) {
		lane->moved += (uint64_t)n;
		return 1;
	}
	if (n == 0)
		return otte_fail(-ECONNRESET, "the peer closed a lane");
	if (errno == EINTR)
		return 1;
	return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : otte_fail(-errno, "recv: %m");
}

static OTTE_FRAMELESS int take_request(struct source_lane *lane)
{
	int ret;

	ret = received(lane, otte_sys_recv(lane->watch.fd, lane->header + lane->moved,
				  sizeof(lane->header) - lane->moved, receive_flags(lane)));
	if (ret <= 0 || lane->moved < sizeof(lane->header))
		return ret;
	if (otte_lane_is_cut(lane->header))
		return tcp_source_take_cut(lane);
	ret = otte_lane_request_decode(lane->header, &lane->request);
	if (ret) {
		atomic_fetch_add(&lane->tcp->counters.bad_frames, 1);
		return ret;
	}
	tcp_source_admit(lane);
	return lane->state != SOURCE_PARKED;
}

/* All of a WRITE is in, if its memory was there until now. */
static void end_payload(struct source_lane *lane)
{
	if (lane->tcp->env.source.still(lane->use)) {
		lane->status = -ESTALE;
		lane->effect = OTTE_EFFECT_UNKNOWN;
	}
	tcp_source_end_use(lane, !lane->status);
}

static int take_payload(struct source_lane *lane)
{
	uint64_t rest = lane->request.length - lane->moved;
	ssize_t n;
	int ret;

	n = otte_sys_recv(lane->watch.fd, lane->address + lane->moved, rest, receive_flags(lane));
	if (n < 0 && errno == EFAULT) {
		/* The memory went away under the mapping; what follows belongs nowhere. */
		tcp_source_end_use(lane, false);
		lane->status = -ESTALE;
		/* Of what the kernel was copying when it met the hole, some may have arrived. */
		lane->effect = OTTE_EFFECT_UNKNOWN;
		lane->state = SOURCE_DROP;
		return 1;
	}
	ret = received(lane, n);
	if (ret > 0 && lane->moved == lane->request.length) {
		end_payload(lane);
		tcp_source_prepare_answer(lane);
	} else if (n > 0 && !lane->alone) {
		ret = 0; /* less than there was room for: the socket is empty */
	}
	return ret;
}

static int drop_payload(struct source_lane *lane)
{
	uint64_t rest = lane->request.length - lane->moved;
	int ret;

	ret = received(lane, otte_sys_recv(lane->watch.fd, NULL, rest,
					   receive_flags(lane) | MSG_TRUNC));
	if (ret > 0 && lane->moved == lane->request.length)
		tcp_source_prepare_answer(lane);
	return ret;
}

static int ask_for_room(struct source_lane *lane, bool want)
{
	if (lane->wants_room == want)
		return 0;
	lane->wants_room = want;
	if (lane->alone)
		return 0; /* it goes back into the loop with that wish */
	/* While an answer cannot be sent, no further request is taken. */
	return otte_loop_change(lane->loop, &lane->watch, want ? EPOLLOUT : EPOLLIN);
}

/*
 * The memory of a READ went away. Before a byte of its answer is out the request alone fails. So it does where a
 * verdict will say so of the bytes that the header has promised. Else nothing that could follow it is right, and
 * the lane ends.
 */
static int lose_payload(struct source_lane *lane)
{
	uint64_t left = lane->head + lane->request.length - lane->moved;

	if (!lane->moved) {
		tcp_source_end_use(lane, false);
		lane->status = -ESTALE;
		lane->guard = NULL;
		lane->tcp->env.source.refused(lane->peer);
		tcp_source_prepare_answer(lane);
		return 1;
	}
	lane->lost = lane->guard && left <= FILL_BYTES;
	if (lane->lost)
		return 1;
	otte_log(OTTE_LOG_WARNING, "memory of region %lu went away while a peer was reading it",
		 (unsigned long)lane->request.region);
	return otte_fail(-ESTALE, "the memory of an answer went away");
}

static uint64_t payload_sent(const struct source_lane *lane)
{
	return lane->moved - min_u64(lane->moved, lane->head);
}

static void add_part(struct msghdr *message, const void *base, uint64_t length)
{
	struct iovec *part = &message->msg_iov[message->msg_iovlen++];

	part->iov_base = (void *)base; /* sends read it */
	part->iov_len = length;
}

/* As send(): what is left of the answer's head and of the payload, and the verdict, where it can be taken so. */
static OTTE_FRAMELESS ssize_t send_copied(struct source_lane *lane, uint64_t payload)
{
	struct iovec parts[3];
	struct msghdr message = { .msg_iov = parts };
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	uint64_t into = payload_sent(lane);

	if (lane->moved >= lane->head && !lane->guard) /* the short call is cheaper */
		return otte_sys_send(lane->watch.fd, lane->address + into, payload - into, flags);
	if (lane->moved < lane->head)
		add_part(&message, lane->answer + lane->moved, lane->head - lane->moved);
	if (payload > into)
		add_part(&message, lane->address + into, payload - into);
	if (lane->guard && ORDERED)
		add_part(&message, (const void *)lane->guard->word, 1);
	else if (lane->guard)
		flags |= MSG_MORE;
	return otte_sys_sendmsg(lane->watch.fd, &message, flags);
}

/* All else is out. Of what was made up it says that it is not fresh. */
static ssize_t send_verdict(struct source_lane *lane)
{
	const struct otte_region_watch *guard = lane->guard;

	lane->verdict = (uint8_t)(lane->lost || !otte_region_is_fresh(guard) ? ~guard->fresh :
									       guard->fresh);
	return otte_sys_send(lane->watch.fd, &lane->verdict, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* In place of the payload. */
static ssize_t send_made_up(struct source_lane *lane, uint64_t payload)
{
	static const uint8_t nothing[4 * KIB];

	return otte_sys_send(lane->watch.fd, nothing,
			     min_u64(payload - payload_sent(lane), sizeof(nothing)),
			     MSG_MORE | MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* What is left of the answer's head, with something behind it to come. */
static ssize_t send_head(struct source_lane *lane)
{
	return otte_sys_send(lane->watch.fd, lane->answer + lane->moved,
			     lane->head - lane->moved, MSG_MORE | MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* As send() without a copy: the answer's head has a place of its own, which is used again at once, and so is copied. */
static ssize_t send_zerocopy(struct source_lane *lane, uint64_t payload)
{
	uint64_t into = lane->moved - lane->head;

	if (lane->moved < lane->head)
		return send_head(lane);
	return tcp_zerocopy_send(lane->zerocopy, &lane->sending->claim, lane->address + into,
				 payload - into);
}

static bool wants_zerocopy(struct source_lane *lane, uint64_t payload)
{
	if (!payload || !tcp_zerocopy_wants(lane->zerocopy, payload))
		return false;
	if (!lane->sending)
		lane->sending = tcp_source_take_sent(lane);
	return lane->sending;
}

/* Whether the verdict can have been good, to count by: the peer has it. */
static bool is_good(const struct source_lane *lane)
{
	return !lane->guard || (!lane->lost && otte_region_is_fresh(lane->guard));
}

/* All of the answer is in the socket. */
static void end_answer(struct source_lane *lane)
{
	bool good = is_good(lane);

	if (!good)
		lane->tcp->env.source.refused(lane->peer);
	if (lane->sending && lane->sending->claim.left)
		tcp_source_leave_use(lane, good);
	else
		tcp_source_end_use(lane, good);
	if (lane->sending)
		lane->sending->taken = false;
	lane->sending = NULL;
	tcp_source_become(lane, SOURCE_REQUEST);
}

/* As send(): of an answer with so much payload, the part that is next. */
static OTTE_FRAMELESS ssize_t send_part(struct source_lane *lane, uint64_t payload)
{
	if (lane->guard && lane->moved == lane->head + payload)
		return send_verdict(lane);
	/* Nothing is read of memory that was found gone, wherever in the answer that was. */
	if (lane->lost)
		return lane->moved < lane->head ? send_head(lane) : send_made_up(lane, payload);
	return wants_zerocopy(lane, payload) ? send_zerocopy(lane, payload) :
					       send_copied(lane, payload);
}

/* A part is out, and the next one need not have found the socket full. */
static bool goes_on(const struct source_lane *lane, uint64_t payload)
{
	return lane->lost || lane->moved == lane->head || lane->moved == lane->head + payload;
}

static OTTE_FRAMELESS int send_some(struct source_lane *lane)
{
	uint64_t payload = lane->request.op == OTTE_READ && !lane->status ? lane->request.length : 0;
	uint64_t total = lane->head + payload + (lane->guard ? 1 : 0);
	ssize_t n;
	int ret;

	n = send_part(lane, payload);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return ask_for_room(lane, true);
	if (n < 0 && errno == EFAULT)
		return lose_payload(lane);
	if (n < 0)
		return errno == EINTR ? 1 : otte_fail(-errno, "send: %m");
	lane->moved += (uint64_t)n;
	if (lane->moved < total)
		return goes_on(lane, payload) ? 1 : ask_for_room(lane, true);
	end_answer(lane);
	ret = ask_for_room(lane, false);
	return ret ? ret : 1;
}

/* That of the thread that serves the lane: the express thread's is the last. */
static _Atomic uint32_t *sending(const struct source_lane *lane)
{
	unsigned i = atomic_load_explicit(&lane->alone, memory_order_relaxed) ? OTTE_WORKERS_MAX :
										lane->loop_index;

	return &lane->tcp->sending[i];
}

/*
 * A step of its own thread's, so a store is enough: who has to see it was told by the peer, who had the bytes from
 * the kernel after it.
 */
static OTTE_FRAMELESS int send_answer(struct source_lane *lane)
{
	_Atomic uint32_t *mark = sending(lane);
	uint32_t before = atomic_load_explicit(mark, memory_order_relaxed);
	int ret;

	atomic_store_explicit(mark, before + 1, memory_order_release);
	ret = send_some(lane);
	atomic_store_explicit(mark, before + 2, memory_order_release);
	return ret;
}

static OTTE_FRAMELESS int step(struct source_lane *lane)
{
	switch (lane->state) {
	case SOURCE_REQUEST:
		return take_request(lane);
	case SOURCE_PAYLOAD:
		return take_payload(lane);
	case SOURCE_DROP:
		return drop_payload(lane);
	case SOURCE_PARKED:
		return tcp_source_retry_parked(lane);
	default:
		return send_answer(lane);
	}
}

/* ---- Alone ---- */

/* One that is parked has its conflict looked at once more. */
static void give_back(struct source_lane *lane)
{
	struct tcp *tcp = lane->tcp;
	int ret;

	lane->lone_rounds = 0;
	lane->progress_ns = otte_coarse_ns();
	pthread_mutex_lock(&tcp->lock);
	atomic_store(&lane->alone, false);
	ret = otte_loop_add(lane->loop, &lane->watch,
			    lane->wants_room || lane->parked ? EPOLLOUT : EPOLLIN);
	pthread_mutex_unlock(&tcp->lock);
	if (ret) {
		otte_log(OTTE_LOG_ERROR, "a peer's lane ends: %s", otte_error_text());
		tcp_source_end_lane(lane);
	}
}

/* The express thread's. */
void tcp_source_serve_alone(struct source_lane *lane)
{
	int ret;

	do {
		ret = step(lane);
	} while (ret > 0);
	if (ret < 0) {
		otte_log(OTTE_LOG_DEBUG, "a peer's lane ends: %s", otte_error_text());
		shutdown(lane->watch.fd, SHUT_RDWR); /* which the loop finds */
	}
	give_back(lane);
}

/* The last the loop does with a lane: it may be the express thread's after. */
static void go_alone(struct source_lane *lane)
{
	struct tcp_express *express = &lane->tcp->express;

	/* The kernel's notifications come through the loop. */
	if (lane->lone_rounds < LONE_ROUNDS || lane->zerocopy || !tcp_express_take(express))
		return;
	otte_loop_remove(lane->loop, &lane->watch);
	atomic_store(&lane->alone, true);
	tcp_express_serve(express, lane);
}

/* ---- In the loop ---- */

/*
 * Whether the peer sends requests without waiting for answers: told by a round that found more than
 * one, or, now and then, by how many bytes already wait behind the one that was served.
 */
static void note_pace(struct source_lane *lane, unsigned served)
{
	if (lane->eager) {
		lane->eager = served > 1 || !tcp_source_between_requests(lane);
	} else if (++lane->rounds % PACE_ROUNDS == 0) {
		int waiting = 0;

		lane->eager = ioctl(lane->watch.fd, FIONREAD, &waiting) == 0 && waiting > 0;
	}
}

static bool is_lost(const struct source_lane *lane, uint32_t events)
{
	socklen_t length = sizeof(int);
	int error = 0;

	if (events & EPOLLERR)
		getsockopt(lane->watch.fd, SOL_SOCKET, SO_ERROR, &error, &length);
	return error || events & EPOLLHUP;
}

void tcp_source_ready(struct otte_watch *watch, uint32_t events)
{
	struct source_lane *lane = container_of(watch, struct source_lane, watch);
	const enum source_state begun = lane->state;
	const uint64_t begun_moved = lane->moved;
	unsigned served = 0, steps = 0;
	uint64_t bytes = 0;
	int ret;

	if (watch->fd < 0)
		return;
	if (events & EPOLLERR && lane->zerocopy)
		tcp_source_proven(tcp_zerocopy_reap(lane->zerocopy));
	/* A parked lane reads nothing that would tell it. */
	if (lane->state == SOURCE_PARKED && is_lost(lane, events)) {
		tcp_source_end_lane(lane);
		return;
	}
	do {
		enum source_state before = lane->state;

		ret = step(lane);
		if (before == SOURCE_ANSWER && lane->state == SOURCE_REQUEST) {
			bytes += lane->request.length;
			served++;
			/* To a peer that waits for each answer a second look would find nothing. */
			if (!lane->eager || served == ROUND_REQUESTS || bytes >= ROUND_BYTES)
				break;
		}
	} while (ret > 0 && ++steps < ROUND_STEPS);
	/* An answer that is left for the next round: no more requests need come to bring that about. */
	if (ret > 0 && lane->state == SOURCE_ANSWER)
		ret = ask_for_room(lane, true);
	if (ret < 0) {
		otte_log(OTTE_LOG_DEBUG, "a peer's lane ends: %s", otte_error_text());
		tcp_source_end_lane(lane);
		return;
	}
	/* A round that moved nothing is no progress: the tick ends a lane that goes round and round. */
	if (served || lane->state != begun || lane->moved != begun_moved)
		lane->progress_ns = otte_coarse_ns();
	note_pace(lane, served);
	lane->lone_rounds = served == 1 && !lane->eager && tcp_source_between_requests(lane) ?
				    lane->lone_rounds + 1 : 0;
	go_alone(lane);
}
