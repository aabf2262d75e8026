/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A payload connection that a peer opened, served in order.
 *
 *   REQUEST --READ--> ANSWER --sent--> REQUEST
 *   REQUEST --WRITE--> PAYLOAD --in--> ANSWER       (refused: DROP instead of PAYLOAD)
 *   REQUEST --> PARKED --> as above
 *
 * An answer is a header and what it promises. A READ that bears a mark is answered by its payload alone, with no
 * header, if it is not refused (control/wire.h).
 *
 * A READ that was answered without a copy (zerocopy.h) is over for the peer once it has the bytes, but here
 * only with the kernel's notification: until then its use stands in tcp.unproven, and the lane goes on. A
 * request that is in conflict with such a use, and with nothing else, must not be refused for it; its lane is
 * parked until that use has ended.
 *
 * Memory that is the application's to unmap is guarded: behind a READ's payload goes the verdict, a byte of
 * the word that tells of it, read after the payload was. So who has the verdict that it is fresh has only bytes
 * of what was registered. The word is this process's memory like the payload, and the kernel takes the parts of
 * one send in their order: that costs no call of its own. Where loads may overtake each other, or the payload is
 * not copied, the verdict is read and sent on its own.
 *
 * Everything in the struct belongs to the thread of the lane's loop, but for what tcp.lock protects:
 * the list, the descriptor while it is on the list, so that drop() cannot shut down a number that has
 * become another file, `parked`, and the uses in tcp.unproven.
 *
 * A lane whose peer waits for each answer before it asks again is taken out of its loop and belongs to the
 * express thread, which sleeps in the connection: that saves a turn of the loop, some twentieth of a small
 * READ's time. The loop has it back as soon as nothing comes for TCP_ALONE_MS, or something goes wrong.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "ledger/ledger.h"
#include "transport/tcp/tcp.h"

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

enum source_state {
	SOURCE_REQUEST = 0,
	SOURCE_PAYLOAD = 1,
	SOURCE_DROP = 2,
	SOURCE_ANSWER = 3,
	SOURCE_PARKED = 4,
};

/*
 * Answers of one lane that are sent, or being sent, without a copy. With more than these waiting for the
 * kernel, the next one is copied.
 */
#define SENT_MAX 32
/* A conflict that lasts longer is told to the peer. Lost acknowledgements are sent again well before. */
#define PARK_NS (2 * NSEC_PER_SEC)

struct source_sent {
	struct source_sent *prev, *next; /* tcp->unproven */
	struct tcp_claim claim;
	struct source_lane *lane;
	struct otte_source_use *use;     /* from the answer's end, or the lane's, until it is proven */
	uint8_t *address;
	uint64_t length;
	bool taken, complete;
};

struct source_lane {
	struct otte_watch watch;
	struct otte_retired retired;
	struct source_lane *prev, *next;
	struct tcp *tcp;
	struct otte_loop *loop;
	unsigned loop_index;
	void *peer;
	enum source_state state;
	bool wants_room;
	bool eager;                     /* requests come without waiting for answers */
	_Atomic bool alone;             /* out of its loop, the express thread's */
	uint32_t rounds, lone_rounds;
	uint8_t header[OTTE_LANE_REQUEST_BYTES];
	uint8_t answer[OTTE_LANE_ANSWER_BYTES];
	uint32_t head;                  /* bytes of `answer` that are sent: all, or none */
	struct otte_lane_request request;
	struct otte_source_use *use;    /* NULL: refused, or between requests */
	uint8_t *address;
	uint64_t moved;                 /* of header, payload or answer, by state */
	const struct otte_region_watch *guard; /* of a READ that is admitted; NULL: no verdict follows */
	uint8_t verdict;
	bool lost;                      /* the payload's memory: the rest is made up */
	int32_t status;
	uint8_t effect;
	uint64_t progress_ns;
	struct tcp_zerocopy *zerocopy;  /* NULL: every answer is copied */
	struct source_sent *sent;       /* SENT_MAX of them, with it */
	struct source_sent *sending;    /* the one of the answer that is being sent */
	bool parked;
	uint64_t park_until_ns;         /* 0: the present request was not parked yet */
};

static void free_lane(struct otte_retired *retired)
{
	struct source_lane *lane = container_of(retired, struct source_lane, retired);

	free(lane->sent);
	free(lane);
}

static void end_use(struct source_lane *lane, bool complete)
{
	struct otte_source_use *use = lane->use;

	lane->use = NULL;
	if (use)
		lane->tcp->env.source.end(use, complete);
}

/* ---- Uses that wait for the kernel ---- */

/* The answer is sent, or its lane is lost: its use goes on without the lane. */
static void leave_use(struct source_lane *lane, bool complete)
{
	struct source_sent *sent = lane->sending;
	struct tcp *tcp = lane->tcp;

	sent->use = lane->use;
	sent->complete = complete;
	lane->use = NULL;
	lane->sending = NULL;
	pthread_mutex_lock(&tcp->lock);
	DL_APPEND(tcp->unproven, sent);
	pthread_mutex_unlock(&tcp->lock);
}

/* Under tcp->lock. Any thread: the lane's own finds out whether its conflict is over. */
static void kick(struct source_lane *lane)
{
	if (lane->parked && !lane->alone && otte_loop_change(lane->loop, &lane->watch, EPOLLOUT))
		shutdown(lane->watch.fd, SHUT_RDWR);
}

static void sent_proven(struct tcp_claim *claim)
{
	struct source_sent *sent = container_of(claim, struct source_sent, claim);
	struct tcp *tcp = sent->lane->tcp;
	struct source_lane *lane;

	if (!sent->use)
		return; /* it is still being sent */
	tcp->env.source.end(sent->use, sent->complete);
	pthread_mutex_lock(&tcp->lock);
	DL_DELETE(tcp->unproven, sent);
	sent->use = NULL;
	sent->taken = false;
	DL_FOREACH(tcp->lanes, lane)
		kick(lane);
	pthread_mutex_unlock(&tcp->lock);
}

static void all_proven(struct tcp_claim *proven)
{
	struct tcp_claim *next;

	for (; proven; proven = next) {
		next = proven->next;
		sent_proven(proven);
	}
}

static int sent_retain(struct tcp_claim *claim)
{
	struct source_sent *sent = container_of(claim, struct source_sent, claim);

	return sent->lane->tcp->env.source.retain(sent->use);
}

static void lane_over(void *arg)
{
	struct source_lane *lane = arg;

	lane->tcp->env.source.lane_closed(lane->peer);
	otte_loop_retire(lane->loop, &lane->retired);
}

static const struct tcp_linger_ops lingering = {
	.proven = sent_proven,
	.retain = sent_retain,
	.over = lane_over,
};

/* The bytes are of a use that only waits for the kernel. Under tcp->lock. */
static bool unproven(const struct tcp *tcp, const uint8_t *address, uint64_t length)
{
	const struct source_sent *sent;

	DL_FOREACH(tcp->unproven, sent)
		if (address < sent->address + sent->length && sent->address < address + length)
			return true;
	return false;
}

/* The next answer's record; NULL: it is copied. */
static struct source_sent *take_sent(struct source_lane *lane)
{
	struct source_sent *sent;

	for (sent = lane->sent; sent < lane->sent + SENT_MAX; sent++) {
		if (sent->taken)
			continue;
		*sent = (struct source_sent){
			.lane = lane,
			.address = lane->address,
			.length = lane->request.length,
			.taken = true,
		};
		return sent;
	}
	return NULL;
}

/* Without zerocopy where there is no memory for it. */
static void open_zerocopy(struct source_lane *lane, bool local)
{
	struct tcp *tcp = lane->tcp;

	lane->zerocopy = tcp_zerocopy_open(&tcp->zerocopies, tcp->env.config, lane->watch.fd, local);
	if (!lane->zerocopy)
		return;
	lane->sent = calloc(SENT_MAX, sizeof(*lane->sent));
	if (lane->sent)
		return;
	tcp_zerocopy_close(lane->zerocopy);
	lane->zerocopy = NULL;
}

/* ---- The end of a lane ---- */

/* True: the kernel has let go of everything. */
static bool end_zerocopy(struct source_lane *lane)
{
	if (!lane->zerocopy)
		return true;
	all_proven(tcp_zerocopy_disconnect(lane->zerocopy));
	if (lane->sending && lane->sending->claim.left)
		leave_use(lane, false);
	if (lane->zerocopy->claims)
		return false;
	tcp_zerocopy_close(lane->zerocopy);
	return true;
}

static void close_lane(struct source_lane *lane)
{
	struct tcp *tcp = lane->tcp;
	bool over = end_zerocopy(lane);

	end_use(lane, false);
	otte_loop_remove(lane->loop, &lane->watch); /* it may not be in it */
	pthread_mutex_lock(&tcp->lock);
	DL_DELETE(tcp->lanes, lane);
	if (over)
		otte_fd_close(lane->watch.fd);
	lane->watch.fd = -1;
	pthread_mutex_unlock(&tcp->lock);
	atomic_fetch_sub(&tcp->counters.lanes, 1);
	if (over)
		lane_over(lane);
	else
		tcp_zerocopy_linger(lane->zerocopy, &lingering, lane);
}

static void become(struct source_lane *lane, enum source_state state)
{
	lane->state = state;
	lane->moved = 0;
}

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

static void prepare_answer(struct source_lane *lane)
{
	if (lane->status || !is_marked(lane))
		prepare_header(lane);
	else
		lane->head = 0;
	become(lane, SOURCE_ANSWER);
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

/* That of the thread that serves the lane: the express thread's is the last. */
static _Atomic uint32_t *sending(const struct source_lane *lane)
{
	unsigned i = atomic_load_explicit(&lane->alone, memory_order_relaxed) ? OTTE_WORKERS_MAX :
										lane->loop_index;

	return &lane->tcp->sending[i];
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
	lane->parked = now_ns < lane->park_until_ns &&
		       unproven(tcp, lane->address, lane->request.length) &&
		       (lane->alone || !otte_loop_change(lane->loop, &lane->watch, 0));
	pthread_mutex_unlock(&tcp->lock);
	if (lane->parked)
		become(lane, SOURCE_PARKED);
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
	end_use(lane, false);
}

static void admit(struct source_lane *lane)
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
		prepare_answer(lane);
	} else {
		become(lane, lane->status ? SOURCE_DROP : SOURCE_PAYLOAD);
	}
}

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
	ret = otte_lane_request_decode(lane->header, &lane->request);
	if (ret) {
		atomic_fetch_add(&lane->tcp->counters.bad_frames, 1);
		return ret;
	}
	admit(lane);
	return lane->state != SOURCE_PARKED;
}

/* All of a WRITE is in, if its memory was there until now. */
static void end_payload(struct source_lane *lane)
{
	if (lane->tcp->env.source.still(lane->use)) {
		lane->status = -ESTALE;
		lane->effect = OTTE_EFFECT_UNKNOWN;
	}
	end_use(lane, !lane->status);
}

static int take_payload(struct source_lane *lane)
{
	uint64_t rest = lane->request.length - lane->moved;
	ssize_t n;
	int ret;

	n = otte_sys_recv(lane->watch.fd, lane->address + lane->moved, rest, receive_flags(lane));
	if (n < 0 && errno == EFAULT) {
		/* The memory went away under the mapping; what follows belongs nowhere. */
		end_use(lane, false);
		lane->status = -ESTALE;
		/* Of what the kernel was copying when it met the hole, some may have arrived. */
		lane->effect = OTTE_EFFECT_UNKNOWN;
		lane->state = SOURCE_DROP;
		return 1;
	}
	ret = received(lane, n);
	if (ret > 0 && lane->moved == lane->request.length) {
		end_payload(lane);
		prepare_answer(lane);
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
		prepare_answer(lane);
	return ret;
}

/* The lane was kicked, or the kernel has said something. */
static int retry_parked(struct source_lane *lane)
{
	struct tcp *tcp = lane->tcp;
	int ret;

	pthread_mutex_lock(&tcp->lock);
	lane->parked = false;
	ret = otte_loop_change(lane->loop, &lane->watch, EPOLLIN);
	pthread_mutex_unlock(&tcp->lock);
	if (ret)
		return ret;
	admit(lane);
	return lane->state != SOURCE_PARKED;
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
		end_use(lane, false);
		lane->status = -ESTALE;
		lane->guard = NULL;
		lane->tcp->env.source.refused(lane->peer);
		prepare_answer(lane);
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
		lane->sending = take_sent(lane);
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
		leave_use(lane, good);
	else
		end_use(lane, good);
	if (lane->sending)
		lane->sending->taken = false;
	lane->sending = NULL;
	become(lane, SOURCE_REQUEST);
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
		return retry_parked(lane);
	default:
		return send_answer(lane);
	}
}

static bool between_requests(const struct source_lane *lane)
{
	return lane->state == SOURCE_REQUEST && !lane->moved;
}

/*
 * Whether the peer sends requests without waiting for answers: told by a round that found more than
 * one, or, now and then, by how many bytes already wait behind the one that was served.
 */
static void note_pace(struct source_lane *lane, unsigned served)
{
	if (lane->eager) {
		lane->eager = served > 1 || !between_requests(lane);
	} else if (++lane->rounds % PACE_ROUNDS == 0) {
		int waiting = 0;

		lane->eager = ioctl(lane->watch.fd, FIONREAD, &waiting) == 0 && waiting > 0;
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
		close_lane(lane);
	}
}

/* The express thread's. */
static void serve_alone(struct source_lane *lane)
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

static bool is_lost(const struct source_lane *lane, uint32_t events)
{
	socklen_t length = sizeof(int);
	int error = 0;

	if (events & EPOLLERR)
		getsockopt(lane->watch.fd, SOL_SOCKET, SO_ERROR, &error, &length);
	return error || events & EPOLLHUP;
}

static void source_ready(struct otte_watch *watch, uint32_t events)
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
		all_proven(tcp_zerocopy_reap(lane->zerocopy));
	/* A parked lane reads nothing that would tell it. */
	if (lane->state == SOURCE_PARKED && is_lost(lane, events)) {
		close_lane(lane);
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
		close_lane(lane);
		return;
	}
	/* A round that moved nothing is no progress: the tick ends a lane that goes round and round. */
	if (served || lane->state != begun || lane->moved != begun_moved)
		lane->progress_ns = otte_coarse_ns();
	note_pace(lane, served);
	lane->lone_rounds = served == 1 && !lane->eager && between_requests(lane) ?
				    lane->lone_rounds + 1 : 0;
	go_alone(lane);
}

int tcp_source_open(struct tcp *tcp)
{
	return tcp_express_init(&tcp->express, serve_alone);
}

int tcp_source_accept(struct otte_transport *transport, void *peer, int fd)
{
	struct tcp *tcp = container_of(transport, struct tcp, base);
	struct source_lane *lane;
	int ret;

	ret = tcp_socket_prepare(tcp->env.config, fd);
	if (ret)
		return ret;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return otte_fail(-ENOMEM, "no memory for a lane");
	lane->tcp = tcp;
	lane->peer = peer;
	lane->retired.free = free_lane;
	lane->watch.fd = fd;
	lane->watch.ready = source_ready;
	open_zerocopy(lane, tcp_socket_connected(tcp->env.config, fd));
	lane->progress_ns = otte_coarse_ns();
	pthread_mutex_lock(&tcp->lock);
	lane->loop_index = tcp->next_loop++ % tcp->env.config->tcp_workers;
	lane->loop = &tcp->env.serve_loops[lane->loop_index];
	DL_APPEND(tcp->lanes, lane);
	ret = otte_loop_add(lane->loop, &lane->watch, EPOLLIN);
	if (ret)
		DL_DELETE(tcp->lanes, lane);
	else
		atomic_fetch_add(&tcp->counters.lanes, 1);
	pthread_mutex_unlock(&tcp->lock);
	if (ret) {
		tcp_zerocopy_close(lane->zerocopy);
		free_lane(&lane->retired);
	}
	return ret;
}

void tcp_source_drop(struct otte_transport *transport, void *peer)
{
	struct tcp *tcp = container_of(transport, struct tcp, base);
	struct source_lane *lane;

	pthread_mutex_lock(&tcp->lock);
	DL_FOREACH(tcp->lanes, lane)
		if (lane->peer == peer)
			shutdown(lane->watch.fd, SHUT_RDWR);
	pthread_mutex_unlock(&tcp->lock);
}

void tcp_source_tick(struct otte_transport *transport, unsigned index, uint64_t now_ns)
{
	struct tcp *tcp = container_of(transport, struct tcp, base);
	struct source_lane *lane;

	tcp_zerocopies_tick(&tcp->zerocopies, now_ns);
	pthread_mutex_lock(&tcp->lock);
	DL_FOREACH(tcp->lanes, lane) {
		if (lane->parked) {
			kick(lane); /* its time may be over */
			continue;
		}
		if (lane->loop_index != index || atomic_load(&lane->alone) || between_requests(lane))
			continue;
		if (now_ns - min_u64(now_ns, lane->progress_ns) > tcp->env.config->tcp_stall_ns)
			shutdown(lane->watch.fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&tcp->lock);
}

void tcp_source_close(struct tcp *tcp)
{
	struct source_lane *lane;

	/* Those who sleep in a lane wake. */
	pthread_mutex_lock(&tcp->lock);
	DL_FOREACH(tcp->lanes, lane)
		shutdown(lane->watch.fd, SHUT_RDWR);
	pthread_mutex_unlock(&tcp->lock);
	tcp_express_fini(&tcp->express);
	while (tcp->lanes)
		close_lane(tcp->lanes);
}
