/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A payload connection that a peer opened, served in order.
 *
 *   REQUEST --READ--> ANSWER --sent--> REQUEST
 *   REQUEST --WRITE--> PAYLOAD --in--> ANSWER       (refused: DROP instead of PAYLOAD)
 *
 * Everything in the struct belongs to the thread of the lane's loop, but for what tcp.lock protects:
 * the list, and the descriptor while it is on the list, so that drop() cannot shut down a number that
 * has become another file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#define ROUND_BYTES (4 * MIB)
/* One lane may be served so often before the others have their turn. */
#define ROUND_REQUESTS 16
/* And so many calls of the system it may take, whatever they bring: a payload may have no end. */
#define ROUND_STEPS 64
#define PACE_ROUNDS 8

enum source_state {
	SOURCE_REQUEST = 0,
	SOURCE_PAYLOAD = 1,
	SOURCE_DROP = 2,
	SOURCE_ANSWER = 3,
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
	uint32_t rounds;
	uint8_t header[OTTE_LANE_REQUEST_BYTES];
	uint8_t answer[OTTE_LANE_ANSWER_BYTES];
	struct otte_lane_request request;
	struct otte_source_use *use;    /* NULL: refused, or between requests */
	uint8_t *address;
	uint64_t moved;                 /* of header, payload or answer, by state */
	int32_t status;
	uint8_t effect;
	uint64_t progress_ns;
};

static void free_lane(struct otte_retired *retired)
{
	free(container_of(retired, struct source_lane, retired));
}

static void end_use(struct source_lane *lane, bool complete)
{
	struct otte_source_use *use = lane->use;

	lane->use = NULL;
	if (use)
		lane->tcp->env.source.end(use, complete);
}

static void close_lane(struct source_lane *lane)
{
	struct tcp *tcp = lane->tcp;

	end_use(lane, false);
	otte_loop_remove(lane->loop, &lane->watch);
	pthread_mutex_lock(&tcp->lock);
	DL_DELETE(tcp->lanes, lane);
	otte_fd_close(lane->watch.fd);
	lane->watch.fd = -1;
	pthread_mutex_unlock(&tcp->lock);
	atomic_fetch_sub(&tcp->counters.lanes, 1);
	tcp->env.source.lane_closed(lane->peer);
	otte_loop_retire(lane->loop, &lane->retired);
}

static void become(struct source_lane *lane, enum source_state state)
{
	lane->state = state;
	lane->moved = 0;
}

static void prepare_answer(struct source_lane *lane)
{
	const struct otte_lane_answer answer = {
		.op = lane->request.op,
		.effect = lane->effect,
		.id = lane->request.id,
		.status = lane->status,
		.length = lane->status ? 0 : lane->request.length,
	};

	otte_lane_answer_encode(&answer, lane->answer);
	become(lane, SOURCE_ANSWER);
}

/*
 * A peer has the last byte of a READ before the worker that sent it has ended the use, and may at once
 * ask another worker for what excludes it. So where there are several, sending and ending are one step
 * to the others, and a conflict is looked at again when the steps that were going on are over.
 */
static bool several_workers(const struct source_lane *lane)
{
	return lane->tcp->env.config->tcp_workers > 1;
}

static int begin_use(struct source_lane *lane)
{
	struct tcp *tcp = lane->tcp;
	int ret;

	ret = tcp->env.source.begin(lane->peer, &lane->request, &lane->use, &lane->address);
	if (ret == -EBUSY && several_workers(lane)) {
		pthread_rwlock_wrlock(&tcp->sending);
		pthread_rwlock_unlock(&tcp->sending);
		ret = tcp->env.source.begin(lane->peer, &lane->request, &lane->use, &lane->address);
	}
	if (ret)
		tcp->env.source.refused(lane->peer);
	return ret;
}

static void admit(struct source_lane *lane)
{
	lane->effect = OTTE_EFFECT_NONE;
	lane->status = begin_use(lane);
	if (lane->request.op == OTTE_READ)
		prepare_answer(lane);
	else
		become(lane, lane->status ? SOURCE_DROP : SOURCE_PAYLOAD);
}

/* Each step: 1 go on, 0 the socket has nothing or no room, negative the connection is of no use. */

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

static int take_request(struct source_lane *lane)
{
	int ret;

	ret = received(lane, otte_sys_recv(lane->watch.fd, lane->header + lane->moved,
				  sizeof(lane->header) - lane->moved, MSG_DONTWAIT));
	if (ret <= 0 || lane->moved < sizeof(lane->header))
		return ret;
	ret = otte_lane_request_decode(lane->header, &lane->request);
	if (ret) {
		atomic_fetch_add(&lane->tcp->counters.bad_frames, 1);
		return ret;
	}
	admit(lane);
	return 1;
}

static int take_payload(struct source_lane *lane)
{
	uint64_t rest = lane->request.length - lane->moved;
	ssize_t n;
	int ret;

	n = otte_sys_recv(lane->watch.fd, lane->address + lane->moved, rest, MSG_DONTWAIT);
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
		end_use(lane, true);
		prepare_answer(lane);
	} else if (n > 0) {
		ret = 0; /* less than there was room for: the socket is empty */
	}
	return ret;
}

static int drop_payload(struct source_lane *lane)
{
	uint64_t rest = lane->request.length - lane->moved;
	int ret;

	ret = received(lane, otte_sys_recv(lane->watch.fd, NULL, rest, MSG_DONTWAIT | MSG_TRUNC));
	if (ret > 0 && lane->moved == lane->request.length)
		prepare_answer(lane);
	return ret;
}

static int ask_for_room(struct source_lane *lane, bool want)
{
	if (lane->wants_room == want)
		return 0;
	lane->wants_room = want;
	/* While an answer cannot be sent, no further request is taken. */
	return otte_loop_change(lane->loop, &lane->watch, want ? EPOLLOUT : EPOLLIN);
}

/*
 * The memory of a READ went away. Before a byte of its answer is out the request alone fails. Where the
 * header has promised the bytes already, nothing that could follow it is right, and the lane ends.
 */
static int lose_payload(struct source_lane *lane)
{
	if (lane->moved) {
		otte_log(OTTE_LOG_WARNING, "memory of region %lu went away while a peer was reading it",
			 (unsigned long)lane->request.region);
		return otte_fail(-ESTALE, "the memory of an answer went away");
	}
	end_use(lane, false);
	lane->status = -ESTALE;
	lane->tcp->env.source.refused(lane->peer);
	prepare_answer(lane);
	return 1;
}

static int send_some(struct source_lane *lane)
{
	uint64_t payload = lane->request.op == OTTE_READ && !lane->status ? lane->request.length : 0;
	uint64_t total = sizeof(lane->answer) + payload;
	struct iovec iov[2];
	struct msghdr message = { .msg_iov = iov };
	uint64_t into = 0;
	ssize_t n;
	int ret;

	if (lane->moved < sizeof(lane->answer)) {
		iov[message.msg_iovlen].iov_base = lane->answer + lane->moved;
		iov[message.msg_iovlen++].iov_len = sizeof(lane->answer) - lane->moved;
	} else {
		into = lane->moved - sizeof(lane->answer);
	}
	if (payload) {
		iov[message.msg_iovlen].iov_base = lane->address + into;
		iov[message.msg_iovlen++].iov_len = payload - into;
	}
	n = otte_sys_sendmsg(lane->watch.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		ret = ask_for_room(lane, true);
		return ret;
	}
	if (n < 0 && errno == EFAULT)
		return lose_payload(lane);
	if (n < 0)
		return errno == EINTR ? 1 : otte_fail(-errno, "send: %m");
	lane->moved += (uint64_t)n;
	if (lane->moved < total) /* the socket took what it had room for */
		return ask_for_room(lane, true);
	end_use(lane, true);
	become(lane, SOURCE_REQUEST);
	ret = ask_for_room(lane, false);
	return ret ? ret : 1;
}

static int send_answer(struct source_lane *lane)
{
	int ret;

	if (!several_workers(lane))
		return send_some(lane);
	pthread_rwlock_rdlock(&lane->tcp->sending);
	ret = send_some(lane);
	pthread_rwlock_unlock(&lane->tcp->sending);
	return ret;
}

static int step(struct source_lane *lane)
{
	switch (lane->state) {
	case SOURCE_REQUEST:
		return take_request(lane);
	case SOURCE_PAYLOAD:
		return take_payload(lane);
	case SOURCE_DROP:
		return drop_payload(lane);
	default:
		return send_answer(lane);
	}
}

/*
 * Whether the peer sends requests without waiting for answers: told by a round that found more than
 * one, or, now and then, by how many bytes already wait behind the one that was served.
 */
static void note_pace(struct source_lane *lane, unsigned served)
{
	lane->progress_ns = otte_coarse_ns();
	if (lane->eager) {
		lane->eager = served > 1 || lane->state != SOURCE_REQUEST || lane->moved;
	} else if (++lane->rounds % PACE_ROUNDS == 0) {
		int waiting = 0;

		lane->eager = ioctl(lane->watch.fd, FIONREAD, &waiting) == 0 && waiting > 0;
	}
}

static void source_ready(struct otte_watch *watch, uint32_t events)
{
	struct source_lane *lane = container_of(watch, struct source_lane, watch);
	unsigned served = 0, steps = 0;
	uint64_t bytes = 0;
	int ret;

	(void)events;
	if (watch->fd < 0)
		return;
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
	if (ret < 0) {
		otte_log(OTTE_LOG_DEBUG, "a peer's lane ends: %s", otte_error_text());
		close_lane(lane);
		return;
	}
	note_pace(lane, served);
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
	tcp_socket_connected(tcp->env.config, fd);
	lane->tcp = tcp;
	lane->peer = peer;
	lane->retired.free = free_lane;
	lane->watch.fd = fd;
	lane->watch.ready = source_ready;
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
	if (ret)
		free(lane);
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

	pthread_mutex_lock(&tcp->lock);
	DL_FOREACH(tcp->lanes, lane) {
		if (lane->loop_index != index || (lane->state == SOURCE_REQUEST && !lane->moved))
			continue;
		if (now_ns - min_u64(now_ns, lane->progress_ns) > tcp->env.config->tcp_stall_ns)
			shutdown(lane->watch.fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&tcp->lock);
}

void tcp_source_close(struct tcp *tcp)
{
	while (tcp->lanes)
		close_lane(tcp->lanes);
}
