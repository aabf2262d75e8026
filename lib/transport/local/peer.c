/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A peer we ask: the connection. What comes by it is of grant.c.
 *
 *   DOWN -> HELLO -> READY -> DOWN ...
 *
 * DOWN is no failure: the other transport takes what comes meanwhile. The connection is tried again while the
 * control connection is open. When it ends, every grant leaves; the descriptor stays open until the last one's
 * receipt is sent, for the source settles by it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/line.h"
#include "base/log.h"
#include "ledger/ledger.h"
#include "transport/local/local.h"

#define HELLO_BYTES 4096
/* One peer is heard so often before others have their turn. */
#define ROUND_MESSAGES 64
/* What was done is told at once after so many requests, and else with the next tick. */
#define COUNT_REQUESTS 16384
/* The last receipt may wait so long for room in the socket. */
#define LAST_MS 50
#define LAST_TRIES 4

static struct local_peer *to_peer(struct otte_transport_peer *peer)
{
	return container_of(peer, struct local_peer, base);
}

static struct otte_loop *loop_of(const struct local_peer *peer)
{
	return peer->local->env.loop;
}

/* ---- What is told ---- */

int local_peer_say(struct local_peer *peer, const struct local_message *message)
{
	return local_say(peer->lane.fd, local_peer_frames(peer), message, NULL);
}

/* Under lock. */
static void tell_counts(struct local_peer *peer)
{
	const struct local_message message = {
		.magic = LOCAL_MAGIC,
		.type = LOCAL_COUNT,
		.id = peer->requests,
		.offset = peer->read_bytes,
		.length = peer->write_bytes,
	};

	if (!peer->requests || peer->lane.fd < 0 || (peer->framed && !peer->welcomed) || local_peer_say(peer, &message))
		return;
	peer->requests = peer->read_bytes = peer->write_bytes = 0;
}

void local_peer_count(struct local_peer *peer, const struct otte_work *work)
{
	peer->requests++;
	if (work->op == OTTE_READ)
		peer->read_bytes += work->length;
	else
		peer->write_bytes += work->length;
	if (peer->requests >= COUNT_REQUESTS)
		tell_counts(peer);
}

/* Under lock. 0: the source will know. */
static int tell_returned(struct local_peer *peer, uint64_t id)
{
	const struct local_message message = {
		.magic = LOCAL_MAGIC,
		.type = LOCAL_RETURN,
		.id = id,
	};

	tell_counts(peer);
	return local_peer_say(peer, &message);
}

/* ---- The end of the connection ---- */

/* Under lock. */
static void say_last(struct local_peer *peer)
{
	struct pollfd room = { .fd = peer->lane.fd, .events = POLLOUT };
	int i, ret;

	/* What fails for any reason but the source's end is tried again: without it the source waits for ours. */
	for (i = 0; i < LAST_TRIES; i++) {
		ret = tell_returned(peer, 0);
		if (ret == 0 || ret == -EPIPE || ret == -ECONNRESET)
			break;
		poll(&room, 1, LAST_MS);
	}
	for (i = 0; peer->framed && i < LAST_TRIES && otte_stream_flush(&peer->stream) == 1; i++)
		poll(&room, 1, LAST_MS);
}

/* The receipt of all is the last thing that is said. */
void local_peer_close_lane(struct local_peer *peer)
{
	if (peer->lane.fd < 0)
		return;
	if (!peer->framed || peer->welcomed)
		say_last(peer);
	if (peer->framed)
		otte_stream_fini(&peer->stream);
	otte_fd_close(peer->lane.fd);
	peer->lane.fd = -1;
	peer->requests = peer->read_bytes = peer->write_bytes = 0;
}

/* Where a receipt cannot be sent the connection ends instead, with the receipt of all. */
void local_peer_return(struct local_peer *peer, uint64_t id)
{
	if (tell_returned(peer, id))
		shutdown(peer->lane.fd, SHUT_RD);
}

/* Under lock. -> DOWN, and tried again in time unless stopped. */
static void take_down(struct local_peer *peer)
{
	const struct otte_config *config = peer->local->env.config;
	uint64_t again_ns;

	if (peer->state == LOCAL_DOWN)
		return;
	again_ns = peer->state == LOCAL_READY ? config->reconnect_min_ns : config->reconnect_max_ns;
	if (peer->state == LOCAL_HELLO && !peer->framed)
		otte_stream_fini(&peer->stream);
	otte_loop_remove(loop_of(peer), &peer->lane);
	peer->state = LOCAL_DOWN;
	atomic_store(&peer->base.indirect, OTTE_INDIRECT_NEVER);
	peer->since_ns = otte_now_ns() + again_ns;
	peer->leaving++; /* so that none of them closes what the others need */
	local_grants_leave(peer);
	if (!--peer->leaving)
		local_peer_close_lane(peer);
	/* What waited for a grant is to be handed on. */
	local_copy_kick(peer);
}

/* ---- Who may lend to us ---- */

/*
 * Another peer that is the same client may have said that it may not any more, so it is said each time. Where it is not
 * to be had the offer is refused.
 */
void local_peer_welcome(struct local_peer *peer, bool is_welcome)
{
	struct otte_ledger_client *client = peer->local->env.client;
	int ret;

	if (!client || !peer->lender)
		return;
	ret = client->ledger->ops->welcome(client, peer->lender, is_welcome);
	if (!ret || !is_welcome || peer->unwelcome)
		return;
	peer->unwelcome = true;
	otte_log(OTTE_LOG_WARNING, "a peer of this host cannot lend to us: %s", otte_error_text());
}

/* Under lock. One that was started anew is another client, and the module keeps a place for each that is welcome. */
static void set_lender(struct local_peer *peer, uint64_t lender)
{
	if (peer->lender != lender)
		local_peer_welcome(peer, false);
	peer->lender = lender;
}

/* ---- Connecting ---- */

/* Under lock: the error is what keeps the peer from being reached. */
static void note_why(struct local_peer *peer)
{
	otte_line_escape(peer->why, sizeof(peer->why), otte_error_text());
}

/* Which of both it is, only the peer's log says. */
static int turned_away(int code)
{
	return otte_fail(code, "the peer turned us away: of another user, or a PID namespace that it does not see");
}

/* Whoever is reached so is of our network namespace. */
static bool is_loopback(const struct otte_client_address *to)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&to->address;
	const struct sockaddr_in *four = (const struct sockaddr_in *)&to->address;

	if (to->address.ss_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
	return to->address.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

static int complain_unconnected(int error, const struct otte_client_address *to)
{
	if (error != ECONNREFUSED)
		return otte_fail(-error, "connect: %s", strerror(error));
	return otte_fail(-error, "the peer lacks local.trusted%s",
			 is_loopback(to) ? "" : ", or is of another network namespace");
}

static int connect_lane(struct local_peer *peer, const struct otte_client_address *to, int *out)
{
	struct sockaddr_un address;
	unsigned length = local_address(&peer->control->welcome.identity, &address);
	int fd, ret = 0;

	fd = otte_fd_socket(AF_UNIX, SOCK_STREAM);
	if (fd < 0)
		return otte_fail(-errno, "socket: %m");
	if (connect(fd, (const struct sockaddr *)&address, length) < 0)
		ret = complain_unconnected(errno, to);
	if (!ret)
		ret = local_check_user(fd);
	if (ret)
		otte_fd_close(fd);
	else
		*out = fd;
	return ret;
}

/* Where the control connection goes, which may be through other namespaces. Never waits. */
static int connect_framed(const struct otte_client_address *to, int *out)
{
	int fd, one = 1, ret;

	fd = otte_fd_socket(to->address.ss_family, SOCK_STREAM);
	if (fd < 0)
		return otte_fail(-errno, "socket: %m");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (const struct sockaddr *)&to->address, to->length) < 0 && errno != EINPROGRESS) {
		ret = otte_fail(-errno, "connect: %m");
		otte_fd_close(fd);
		return ret;
	}
	*out = fd;
	return 0;
}

/* Under lock. */
static int say_hello(struct local_peer *peer, bool framed)
{
	enum otte_lane_kind kind = framed ? OTTE_LANE_LEND : OTTE_LANE_BYTES;
	struct otte_frame frame = {
		.type = otte_lane_frame(kind),
		.length = OTTE_LANE_HELLO_BYTES,
	};
	uint8_t out[OTTE_LANE_HELLO_BYTES];
	struct otte_client_address to;
	struct otte_lane_hello hello;
	int ret;

	ret = otte_control_client_lane(peer->control, kind, &hello, &to);
	if (!ret)
		ret = framed ? connect_framed(&to, &peer->lane.fd) : connect_lane(peer, &to, &peer->lane.fd);
	if (ret)
		return ret;
	peer->framed = framed;
	peer->welcomed = false;
	otte_lane_hello_encode(&hello, out, sizeof(out));
	otte_stream_init(&peer->stream, peer->lane.fd, HELLO_BYTES, HELLO_BYTES);
	/* What waits for the connection goes once there is one. */
	ret = otte_stream_send(&peer->stream, &frame, out);
	if (!framed && (ret == -EPIPE || ret == -ECONNRESET))
		turned_away(ret);
	if (ret == 0 || (ret == 1 && framed))
		ret = otte_loop_add(loop_of(peer), &peer->lane, EPOLLIN | (ret ? EPOLLOUT : 0u));
	if (ret) {
		otte_stream_fini(&peer->stream);
		otte_fd_close(peer->lane.fd);
		peer->lane.fd = -1;
		return ret < 0 ? ret : otte_fail(-ECONNRESET, "no room for a hello");
	}
	return 0;
}

/* Under lock. Within this network namespace first, where that can do more. */
static int say_a_hello(struct local_peer *peer, bool trusted, bool lends)
{
	int ret = trusted ? say_hello(peer, false) : 0;

	return lends && (ret || !trusted) ? say_hello(peer, true) : ret;
}

/* Under lock. */
static int open_kick(struct local_peer *peer)
{
	int fd, ret;

	if (peer->kick.fd >= 0)
		return 0;
	fd = otte_fd_eventfd(0);
	if (fd < 0)
		return otte_fail(-errno, "eventfd: %m");
	peer->kick.fd = fd;
	ret = otte_loop_add(loop_of(peer), &peer->kick, EPOLLIN);
	if (ret) {
		otte_fd_close(fd);
		peer->kick.fd = -1;
	}
	return ret;
}

/* Under lock, of a peer that is down: nothing comes into its queue any more, and what has begun needs no turn. */
static void close_kick(struct local_peer *peer)
{
	if (peer->kick.fd < 0 || peer->queue || peer->running)
		return;
	otte_loop_remove(loop_of(peer), &peer->kick);
	otte_fd_close(peer->kick.fd);
	peer->kick.fd = -1;
	peer->kicked = false;
}

/* Copies that have not ended may still need the old connection for their receipts. */
static void begin(struct local_peer *peer)
{
	const struct otte_identity *theirs = &peer->control->welcome.identity;
	const struct otte_transport_env *env = &peer->local->env;
	uint64_t lender = env->client ? peer->control->attested : 0;
	bool lends = lender && peer->control->lends;
	bool here = !memcmp(theirs->boot_id, env->identity->boot_id, sizeof(theirs->boot_id));
	bool trusted = env->config->local_trusted && here;
	bool say = false;
	int ret = 0;

	if (!lends && !trusted) {
		otte_tail_lock(&peer->lock);
		set_lender(peer, lender);
		snprintf(peer->why, sizeof(peer->why), "%s",
			 here ? "neither local.trusted nor the module's ledger at both sides" :
				"the peer is of another host");
		otte_tail_unlock(&peer->lock);
		return;
	}
	otte_tail_lock(&peer->lock);
	peer->stopped = false;
	set_lender(peer, lender);
	if (peer->state == LOCAL_DOWN && peer->lane.fd < 0) {
		peer->since_ns = otte_now_ns();
		ret = open_kick(peer);
		if (!ret)
			ret = say_a_hello(peer, trusted, lends);
		if (!ret)
			peer->state = LOCAL_HELLO;
		else
			peer->since_ns += env->config->reconnect_max_ns;
		if (ret)
			note_why(peer);
		say = ret && !peer->said;
		peer->said |= say;
	}
	otte_tail_unlock(&peer->lock);
	if (say)
		otte_log(OTTE_LOG_INFO, "peer %s is of this host and reached over %s: %s",
			 theirs->name, peer->base.next->ops->name, otte_error_text());
}

/* ---- What is said to us ---- */

/* Under lock. 1: more may be there. */
static int take_message(struct local_peer *peer)
{
	struct local_message message;
	int fds[LOCAL_FDS], ret;

	ret = local_hear(peer->lane.fd, local_peer_frames(peer), &message, fds);
	if (ret <= 0)
		return ret;
	if (message.type == LOCAL_GRANT)
		ret = local_grant_take(peer, &message, fds);
	else if (message.type == LOCAL_RECALL)
		local_grant_recall(peer, message.id);
	else
		ret = otte_fail(-EPROTO, "message type %u of a source", message.type);
	local_close_fds(fds);
	return ret < 0 ? ret : 1;
}

/* Under lock. 0: it is said; 1: not yet. */
static int flush_hello(struct local_peer *peer)
{
	bool waited = peer->stream.tx;
	int ret = otte_stream_flush(&peer->stream);

	return ret || !waited ? ret : otte_loop_change(loop_of(peer), &peer->lane, EPOLLIN);
}

/* Under lock. */
static int take_welcome(struct local_peer *peer)
{
	struct otte_frame frame;
	const uint8_t *payload;
	int ret;

	ret = flush_hello(peer);
	if (ret)
		return ret < 0 ? ret : 0;
	ret = otte_stream_receive(&peer->stream, &frame, &payload);
	if (ret <= 0)
		return ret;
	if (frame.type != OTTE_FRAME_LANE_READY)
		return otte_fail(-EPROTO, "a lane's hello is answered with frame type %u", frame.type);
	if (!peer->framed)
		otte_stream_fini(&peer->stream);
	peer->welcomed = true;
	peer->state = LOCAL_READY;
	atomic_store(&peer->base.indirect, 0);
	/* The last connection may have been lost with its receipts; all that it brought is unmapped. */
	local_peer_return(peer, 0);
	local_copy_kick(peer);
	return 1;
}

static void lane_ready(struct otte_watch *watch, uint32_t events)
{
	struct local_peer *peer = container_of(watch, struct local_peer, lane);
	bool said = false;
	unsigned messages;
	int ret = 1;

	(void)events;
	otte_tail_lock(&peer->lock);
	for (messages = 0; messages < ROUND_MESSAGES && ret == 1 && peer->state != LOCAL_DOWN; messages++)
		ret = peer->state == LOCAL_HELLO ? take_welcome(peer) : take_message(peer);
	if (ret < 0) {
		if (ret == -EPROTO)
			atomic_fetch_add(&peer->local->bad_frames, 1);
		if (peer->state == LOCAL_HELLO && ret != -EPROTO)
			turned_away(ret);
		note_why(peer);
		said = !peer->said;
		peer->said = true;
		/* It may be dead: what is written into its memory now nobody may ever see. */
		local_copy_abandon(peer, -ECONNRESET, true);
		take_down(peer);
	}
	otte_tail_unlock(&peer->lock);
	if (said)
		otte_log(OTTE_LOG_INFO, "what is lent by a peer of this host goes back: %s",
			 otte_error_text());
}

/* ---- What the engine asks ---- */

int local_peer_open(struct otte_transport *transport, struct otte_control_client *control,
		    void (*changed)(void *arg), void *arg, struct otte_transport_peer **out)
{
	struct local *local = container_of(transport, struct local, base);
	struct local_peer *peer;
	int ret;

	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return otte_fail(-ENOMEM, "no memory for a peer");
	ret = local->next->ops->peer_open(local->next, control, changed, arg, &peer->base.next);
	if (ret) {
		free(peer);
		return ret;
	}
	peer->base.ops = transport->ops;
	peer->local = local;
	peer->control = control;
	peer->lane.fd = peer->kick.fd = -1;
	peer->lane.ready = lane_ready;
	peer->kick.ready = local_copy_ready;
	peer->stopped = true;
	peer->base.indirect = OTTE_INDIRECT_NEVER;
	otte_tail_lock_init(&peer->lock);
	*out = &peer->base;
	return 0;
}

void local_peer_connect(struct otte_transport_peer *base)
{
	struct local_peer *peer = to_peer(base);

	/* First, so that no request finds the other one ready and this one not begun. */
	begin(peer);
	peer->base.next->ops->peer_connect(peer->base.next);
}

void local_peer_stop(struct otte_transport_peer *base, int code)
{
	struct local_peer *peer = to_peer(base);

	otte_tail_lock(&peer->lock);
	peer->stopped = true;
	local_copy_abandon(peer, code, false);
	take_down(peer);
	otte_tail_unlock(&peer->lock);
	local_copy_fail(peer, code);
	otte_tail_lock(&peer->lock);
	if (peer->state == LOCAL_DOWN)
		close_kick(peer);
	otte_tail_unlock(&peer->lock);
	peer->base.next->ops->peer_stop(peer->base.next, code);
}

/* Under lock: the source has not said for too long what it was asked. */
static bool overdue(struct local_peer *peer, uint64_t now_ns)
{
	uint64_t limit_ns = peer->local->env.config->control_timeout_ns;

	if (peer->state == LOCAL_HELLO)
		return now_ns - min_u64(now_ns, peer->since_ns) > limit_ns;
	return local_grants_overdue(peer, now_ns, limit_ns);
}

void local_peer_tick(struct otte_transport_peer *base, uint64_t now_ns)
{
	struct local_peer *peer = to_peer(base);
	bool again;

	otte_tail_lock(&peer->lock);
	if (peer->state != LOCAL_DOWN && overdue(peer, now_ns)) {
		snprintf(peer->why, sizeof(peer->why), "the peer did not answer (control.timeout_ms)");
		take_down(peer);
	}
	tell_counts(peer);
	if (peer->framed && peer->state == LOCAL_READY)
		otte_stream_flush(&peer->stream);
	again = peer->state == LOCAL_DOWN && !peer->stopped && peer->since_ns <= now_ns;
	otte_tail_unlock(&peer->lock);
	if (again)
		begin(peer);
	peer->base.next->ops->peer_tick(peer->base.next, now_ns);
}

void local_peer_close(struct otte_transport_peer *base)
{
	struct local_peer *peer = to_peer(base);

	if (peer->kick.fd >= 0)
		otte_loop_remove(loop_of(peer), &peer->kick);
	otte_fd_close(peer->kick.fd);
	if (peer->lane.fd >= 0 && peer->framed)
		otte_stream_fini(&peer->stream);
	otte_fd_close(peer->lane.fd);
	local_peer_welcome(peer, false);
	otte_tail_lock_fini(&peer->lock);
	peer->base.next->ops->peer_close(peer->base.next);
	free(peer);
}
