/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "control/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"

/* A peer may let this many frames' worth of answers pile up before it is cut off. */
#define TX_FRAMES 16
/* One connection is heard so often before the others have their turn. */
#define ROUND_FRAMES 32
/* Nonces that may come at once: the module keeps 64 unread ones of one tenant's clients for one receiver. */
#define ASKED_MAX 32
/* That part of its time limit a session waits at most for being asked. */
#define TURN_PART 4
#define DESCRIPTOR_PAUSE_NS (100 * NSEC_PER_MSEC)
#define ROWS_A_FRAME(payload) (((payload) - OTTE_REGIONS_HEADER) / OTTE_REGION_ROW_BYTES)

static void free_session(struct otte_retired *retired)
{
	struct otte_session *session = container_of(retired, struct otte_session, retired);

	otte_stream_fini(&session->stream);
	free(session);
}

static void end_attestation(struct otte_session *session)
{
	if (session->attestation.wait)
		session->server->asked--;
	otte_attest_end(&session->attestation);
}

/* The one way out of the table. keep_fd: the descriptor has a new owner. */
static void end_session(struct otte_session *session, bool keep_fd)
{
	struct otte_control_server *server = session->server;

	if (session->state == OTTE_SESSION_CLOSED)
		return;
	if (session->state == OTTE_SESSION_NEW)
		server->greeting--;
	else
		server->greeted--;
	if (session->state == OTTE_SESSION_OPEN) {
		atomic_fetch_sub(&server->open_sessions, 1);
		server->handlers.closed(server->handlers.arg, session);
	}
	if (session->state == OTTE_SESSION_TURN)
		server->turns--;
	session->state = OTTE_SESSION_CLOSED;
	end_attestation(session);
	DL_DELETE(server->sessions, session);
	otte_loop_remove(server->loop, &session->watch);
	if (!keep_fd)
		otte_fd_close(session->stream.fd);
	otte_loop_retire(server->loop, &session->retired);
}

/* 0, or negative when the session has ended. */
static int after_send(struct otte_session *session, int ret)
{
	bool wait = ret == 1;

	if (ret < 0) {
		end_session(session, false);
		return ret;
	}
	if (wait != session->waits_for_room) {
		session->waits_for_room = wait;
		ret = otte_loop_change(session->server->loop, &session->watch,
				       EPOLLIN | (wait ? EPOLLOUT : 0u));
		if (ret) {
			end_session(session, false);
			return ret;
		}
	}
	return 0;
}

static int answer(struct otte_session *session, uint16_t type, uint64_t id, int32_t status,
		  const void *payload, size_t length)
{
	struct otte_frame frame = {
		.type = type, .length = (uint32_t)length, .status = status, .id = id,
	};

	return after_send(session, otte_stream_send(&session->stream, &frame, payload));
}

static void tell_held(struct otte_control_server *server, uint64_t now_ns)
{
	uint32_t held = otte_log_limit_held(&server->said, now_ns);

	if (held)
		otte_log(OTTE_LOG_WARNING, "%u more peers were cut off, turned away or not attested",
			 held);
}

/* What a peer did to us, within bounds for all of them together. */
static void tell(struct otte_control_server *server, const char *what)
{
	uint64_t now_ns = otte_now_ns();

	tell_held(server, now_ns);
	if (otte_log_limit_admits(&server->said, now_ns))
		otte_log(OTTE_LOG_WARNING, "%s: %s", what, otte_error_text());
	server->due_ns = min_u64(server->due_ns, otte_log_limit_due(&server->said));
}

/* Say why, then hang up. */
static int refuse(struct otte_session *session, int code)
{
	uint8_t text[OTTE_TEXT_MAX];
	char line[OTTE_TEXT_MAX];
	ssize_t length;

	snprintf(line, sizeof(line), "%s", otte_error_text());
	length = otte_text_encode(line, text, sizeof(text));
	if (answer(session, OTTE_FRAME_ERROR, 0, code, text, length < 0 ? 0 : (size_t)length) == 0)
		end_session(session, false);
	return code;
}

/* One whose session is still there hears why, and the log says so. */
static void cut_off(struct otte_session *session, int code)
{
	struct otte_control_server *server = session->server;

	if (session->state == OTTE_SESSION_CLOSED)
		return;
	/* One peer too many, one that left, or a lane that comes after its session was lost, has broken nothing. */
	if (code != -EDQUOT && code != -ECONNRESET && code != -ESTALE)
		atomic_fetch_add(&server->bad_frames, 1);
	tell(server, "a peer is cut off");
	refuse(session, code);
}

/* `status`: -EDQUOT if it would have been attested and could not. */
static int open_session(struct otte_session *session, int status)
{
	struct otte_control_server *server = session->server;
	int ret;

	end_attestation(session);
	ret = server->handlers.opened(server->handlers.arg, session);
	if (ret)
		return ret;
	session->state = OTTE_SESSION_OPEN;
	atomic_fetch_add(&server->open_sessions, 1);
	return answer(session, OTTE_FRAME_READY, 0, status, NULL, 0);
}

/* Which key both sides are to prove, or NULL where no key is in use. Errors are read at both sides: neither is "we". */
static int choose_key(struct otte_control_server *server, const struct otte_hello *hello,
		      const struct otte_key **key)
{
	*key = NULL;
	if (!server->keys->count && !(hello->flags & OTTE_HELLO_AUTH))
		return 0;
	if (!server->keys->count)
		return otte_fail(-EKEYREJECTED, "who connects has a key, who listens has none");
	if (!(hello->flags & OTTE_HELLO_AUTH))
		return otte_fail(-EKEYREJECTED, "who listens wants a key, who connects has none");
	*key = otte_keys_find(server->keys, hello->key_id);
	if (!*key)
		return otte_fail(-EKEYREJECTED, "who listens does not have the key of who connects");
	return 0;
}

static void leave_turn(struct otte_session *session)
{
	session->server->turns--;
	session->state = OTTE_SESSION_CLAIM;
}

/* Says which client we are, and has the peer say which it is. */
static int claim(struct otte_session *session, uint64_t client)
{
	struct otte_claim ours = { .client = client };
	uint8_t out[OTTE_CLAIM_BYTES];

	memcpy(ours.module, session->server->attestor->module, sizeof(ours.module));
	otte_claim_encode(&ours, out, sizeof(out));
	return answer(session, OTTE_FRAME_CLAIM, 0, 0, out, sizeof(out));
}

static int ask(struct otte_session *session)
{
	int ret = otte_attest_await(&session->attestation);

	if (ret)
		return ret;
	session->server->asked++;
	return claim(session, session->attestation.attestor->client);
}

/* Those that waited longest, once others are through. Sessions may end by it. */
static void give_turns(struct otte_control_server *server)
{
	struct otte_session *session, *next;
	int ret;

	DL_FOREACH_SAFE(server->sessions, session, next) {
		if (!server->turns || server->asked >= ASKED_MAX)
			return;
		if (session->state != OTTE_SESSION_TURN)
			continue;
		leave_turn(session);
		ret = ask(session);
		if (ret)
			cut_off(session, ret);
	}
}

/* Others take too long: it goes on unattested. */
static void pass_over(struct otte_session *session)
{
	leave_turn(session);
	end_attestation(session);
	otte_fail(-EDQUOT, "%u others are asked which client they are and do not say it", ASKED_MAX);
	tell(session->server, "a peer is not attested");
	claim(session, 0);
}

/* The hellos are settled, and keys if there are any. */
static int greeted(struct otte_session *session)
{
	struct otte_control_server *server = session->server;

	if (!session->attestation.attestor)
		return open_session(session, 0);
	session->state = OTTE_SESSION_TURN;
	session->turn_ns = otte_now_ns() + server->timeout_ns / TURN_PART;
	server->due_ns = min_u64(server->due_ns, session->turn_ns);
	server->turns++;
	return 0; /* give_turns() */
}

static int welcome(struct otte_session *session, const struct otte_frame *frame,
		   const uint8_t *payload, const struct otte_hello *hello)
{
	struct otte_control_server *server = session->server;
	struct otte_welcome reply = {
		.identity = *server->identity,
		.max_payload = server->max_payload,
		.max_lanes = server->max_lanes,
	};
	struct otte_can can = {
		.offered = frame->id,
		.agreed = otte_attest_agree(server->attestor, frame->id) | (frame->id & server->offers),
	};
	uint8_t out[OTTE_WELCOME_BYTES];
	const struct otte_key *key;
	int ret;

	ret = choose_key(server, hello, &key);
	if (!ret)
		ret = otte_random(&session->id, sizeof(session->id));
	if (!ret)
		ret = otte_random(reply.nonce, sizeof(reply.nonce));
	if (ret)
		return ret;
	session->peer = hello->identity;
	reply.session = session->id;
	if (key) {
		reply.flags = OTTE_HELLO_AUTH;
		otte_welcome_encode(&reply, out, sizeof(out));
		otte_hello_mac(key, true, &can, payload, out, reply.mac);
		otte_hello_mac(key, false, &can, payload, out, session->expected_proof);
		otte_session_key(key, hello->nonce, reply.nonce, session->session_key);
	}
	otte_welcome_encode(&reply, out, sizeof(out));
	if (can.agreed & OTTE_CAN_ATTEST)
		otte_attest_begin(&session->attestation, server->attestor, true,
				  key ? session->session_key : NULL, payload, out);
	session->can = can.agreed;
	session->state = OTTE_SESSION_PROOF;
	server->greeting--;
	server->greeted++;
	ret = answer(session, OTTE_FRAME_WELCOME, can.agreed, 0, out, sizeof(out));
	if (ret || key)
		return ret;
	return greeted(session);
}

static int full(const struct otte_control_server *server)
{
	return otte_fail(-EDQUOT, "control.connections (%u) is full", server->max_connections);
}

static int take_hello(struct otte_session *session, const struct otte_frame *frame,
		      const uint8_t *payload)
{
	struct otte_hello hello;
	int ret;

	ret = otte_hello_decode(payload, frame->length, &hello);
	if (!ret && session->server->greeted >= session->server->max_connections)
		ret = full(session->server);
	if (ret)
		return ret;
	return welcome(session, frame, payload, &hello);
}

static int take_proof(struct otte_session *session, const struct otte_frame *frame,
		      const uint8_t *payload)
{
	struct otte_proof proof;
	int ret;

	ret = otte_proof_decode(payload, frame->length, &proof);
	if (ret)
		return ret;
	if (!otte_mac_equal(proof.mac, session->expected_proof)) {
		atomic_fetch_add(&session->server->refused_hellos, 1);
		return otte_fail(-EKEYREJECTED, "who connects does not have the key that it names");
	}
	session->authenticated = true;
	return greeted(session);
}

static int open_unattested(struct otte_session *session)
{
	tell(session->server, "a peer is not attested");
	return open_session(session, -EDQUOT);
}

static int take_claim(struct otte_session *session, const struct otte_frame *frame,
		      const uint8_t *payload)
{
	struct otte_attestation *attestation = &session->attestation;
	struct otte_claim theirs;
	int ret;

	ret = otte_claim_decode(payload, frame->length, &theirs);
	if (ret)
		return ret;
	if (otte_attest_claimed(attestation, &theirs)) {
		ret = otte_attest_check(attestation);
		if (!ret)
			ret = otte_attest_give(attestation);
		if (ret == -EKEYREJECTED)
			atomic_fetch_add(&session->server->refused_hellos, 1);
		if (ret == -EDQUOT)
			return open_unattested(session);
		if (ret)
			return ret;
		session->attested = attestation->claimed;
		session->attested_user = attestation->user;
	}
	return open_session(session, 0);
}

static struct otte_session *find_session(struct otte_control_server *server, uint64_t id)
{
	struct otte_session *session;

	DL_FOREACH(server->sessions, session)
		if (session->state == OTTE_SESSION_OPEN && session->id == id)
			return session;
	return NULL;
}

/* Each counter once. Lanes are connections of their own, so they may overtake each other a little. */
static bool take_counter(struct otte_session *session, uint64_t counter)
{
	uint64_t behind;

	if (counter > session->last_lane) {
		uint64_t ahead = counter - session->last_lane;

		session->taken_lanes = ahead < 64 ? session->taken_lanes << ahead | 1 : 1;
		session->last_lane = counter;
		return true;
	}
	behind = session->last_lane - counter;
	if (behind >= 64 || session->taken_lanes & 1ull << behind)
		return false;
	session->taken_lanes |= 1ull << behind;
	return true;
}

/* Whether a frame of this type opens a lane. */
static bool opens_lane(uint16_t type, enum otte_lane_kind *kind)
{
	static const enum otte_lane_kind kinds[] = { OTTE_LANE_BYTES, OTTE_LANE_LEND, OTTE_LANE_RDMA };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		*kind = kinds[i];
		if (otte_lane_frame(*kind) == type)
			return true;
	}
	return false;
}

/* Whether the session has agreed on lanes of a kind. */
static int check_kind(const struct otte_session *session, enum otte_lane_kind kind)
{
	if (kind == OTTE_LANE_LEND && !(session->can & OTTE_CAN_LEND && session->attested))
		return otte_fail(-EPROTO, "a lane for loans, of a session that has none");
	if (kind == OTTE_LANE_RDMA && !(session->can & OTTE_CAN_RDMA))
		return otte_fail(-EPROTO, "a lane for RDMA, of a session that has none");
	return 0;
}

/* The first frame of a connection said that it is a lane: its descriptor goes to the transport. */
static int take_lane(struct otte_session *connection, const struct otte_frame *frame,
		     const uint8_t *payload, enum otte_lane_kind kind)
{
	struct otte_control_server *server = connection->server;
	struct otte_session *session;
	struct otte_lane_hello hello;
	uint8_t mac[OTTE_MAC_BYTES] = { 0 };
	int ret;

	ret = otte_lane_hello_decode(payload, frame->length, &hello);
	if (ret)
		return ret;
	session = find_session(server, hello.session);
	if (!session)
		return otte_fail(-ESTALE, "no session %016lx for a lane", (unsigned long)hello.session);
	if (session->authenticated)
		otte_lane_mac(session->session_key, kind, hello.session, hello.counter, mac);
	if (!otte_mac_equal(mac, hello.mac))
		return otte_fail(-EKEYREJECTED, "a lane does not have its session's key");
	ret = check_kind(session, kind);
	if (ret)
		return ret;
	if (!take_counter(session, hello.counter))
		return otte_fail(-EPROTO, "lane %lu of a session came twice or too late",
				 (unsigned long)hello.counter);
	ret = answer(connection, OTTE_FRAME_LANE_READY, frame->id, 0, NULL, 0);
	if (ret)
		return ret;
	/* The transport would not send the rest of it, and the peer would wait for that. */
	if (connection->waits_for_room) {
		end_session(connection, false);
		return otte_fail(-ECONNRESET, "no room for the answer to a new lane's hello");
	}
	/* The watch goes first: the descriptor gets another one, perhaps in this very loop. */
	otte_loop_remove(server->loop, &connection->watch);
	connection->watch.fd = -1;
	ret = server->handlers.lane(server->handlers.arg, session, connection->stream.fd, kind,
				    hello.counter);
	end_session(connection, ret == 0);
	return 0;
}

static int send_regions(struct otte_session *session, const struct otte_frame *frame,
			const uint8_t *payload)
{
	struct otte_control_server *server = session->server;
	struct otte_regions regions = { 0 };
	struct otte_describe describe;
	ssize_t length;
	int ret;

	ret = otte_describe_decode(payload, frame->length, &describe);
	if (ret)
		return ret;
	ret = server->handlers.describe(server->handlers.arg, describe.after, server->rows,
					ROWS_A_FRAME(server->max_payload), &regions);
	if (ret)
		return answer(session, OTTE_FRAME_REGIONS, frame->id, ret, NULL, 0);
	length = otte_regions_encode(&regions, server->rows, server->frame, server->max_payload);
	if (length < 0)
		return (int)length;
	return answer(session, OTTE_FRAME_REGIONS, frame->id, 0, server->frame, (size_t)length);
}

static int send_stats(struct otte_session *session, const struct otte_frame *frame)
{
	struct otte_control_server *server = session->server;
	struct otte_stats stats = { .size = sizeof(stats) };
	ssize_t length;

	server->handlers.stats(server->handlers.arg, &stats);
	length = otte_stats_encode(&stats, server->frame, server->max_payload);
	if (length < 0)
		return (int)length;
	return answer(session, OTTE_FRAME_STATS_REPLY, frame->id, 0, server->frame, (size_t)length);
}

static int take_notify(struct otte_session *session, const struct otte_frame *frame,
		       const uint8_t *payload)
{
	struct otte_control_server *server = session->server;
	int ret;

	if (frame->length == 0 || frame->length > OTTE_NOTIFY_MAX)
		return otte_fail(-EPROTO, "a notification of %u bytes", frame->length);
	ret = server->handlers.notify(server->handlers.arg, session, payload, frame->length);
	return answer(session, OTTE_FRAME_NOTIFIED, frame->id, ret, NULL, 0);
}

static int handle_open(struct otte_session *session, const struct otte_frame *frame,
		       const uint8_t *payload)
{
	switch (frame->type) {
	case OTTE_FRAME_DESCRIBE:
		return send_regions(session, frame, payload);
	case OTTE_FRAME_STATS:
		return send_stats(session, frame);
	case OTTE_FRAME_NOTIFY:
		return take_notify(session, frame, payload);
	case OTTE_FRAME_PING:
		return answer(session, OTTE_FRAME_PONG, frame->id, 0, NULL, 0);
	default:
		return otte_fail(-EPROTO, "frame type %u in an open session", frame->type);
	}
}

static int handle(struct otte_session *session, const struct otte_frame *frame,
		  const uint8_t *payload)
{
	enum otte_lane_kind kind;

	if (session->state == OTTE_SESSION_OPEN)
		return handle_open(session, frame, payload);
	if (session->state == OTTE_SESSION_PROOF && frame->type == OTTE_FRAME_PROOF)
		return take_proof(session, frame, payload);
	if (session->state == OTTE_SESSION_CLAIM && frame->type == OTTE_FRAME_CLAIM)
		return take_claim(session, frame, payload);
	if (session->state == OTTE_SESSION_NEW && frame->type == OTTE_FRAME_HELLO)
		return take_hello(session, frame, payload);
	if (session->state == OTTE_SESSION_NEW && opens_lane(frame->type, &kind))
		return take_lane(session, frame, payload, kind);
	return otte_fail(-EPROTO, "frame type %u came out of order", frame->type);
}

static void hear_session(struct otte_session *session, uint32_t events)
{
	struct otte_frame frame;
	const uint8_t *payload;
	unsigned frames;
	int ret;

	if (session->state == OTTE_SESSION_CLOSED)
		return;
	if ((events & EPOLLOUT) && after_send(session, otte_stream_flush(&session->stream)))
		return;
	for (frames = 0; frames < ROUND_FRAMES && session->state != OTTE_SESSION_CLOSED; frames++) {
		ret = otte_stream_receive(&session->stream, &frame, &payload);
		if (ret == 0)
			return;
		if (ret == -ECONNRESET) {
			end_session(session, false);
			return;
		}
		if (ret == 1)
			ret = handle(session, &frame, payload);
		if (ret < 0)
			cut_off(session, ret);
	}
}

/* What it said may have made room for others, or itself one of them. */
static void session_ready(struct otte_watch *watch, uint32_t events)
{
	struct otte_session *session = container_of(watch, struct otte_session, watch);
	struct otte_control_server *server = session->server; /* the session may end */

	hear_session(session, events);
	if (server->turns)
		give_turns(server);
}

static int add_connection(struct otte_control_server *server, int fd)
{
	struct otte_session *session;
	int ret;

	session = calloc(1, sizeof(*session));
	if (!session)
		return otte_fail(-ENOMEM, "no memory for a connection");
	session->server = server;
	session->retired.free = free_session;
	session->watch.fd = fd;
	session->watch.ready = session_ready;
	session->deadline_ns = otte_now_ns() + server->timeout_ns;
	server->due_ns = min_u64(server->due_ns, session->deadline_ns);
	otte_stream_init(&session->stream, fd, server->max_payload,
			 (size_t)TX_FRAMES * (server->max_payload + OTTE_FRAME_HEADER));
	ret = otte_loop_add(server->loop, &session->watch, EPOLLIN);
	if (ret) {
		free_session(&session->retired);
		return ret;
	}
	DL_APPEND(server->sessions, session);
	server->greeting++;
	return 0;
}

static void pause_listener(struct otte_control_server *server)
{
	if (server->paused_until_ns)
		return;
	otte_fail(-errno, "accept: %m");
	tell(server, "the listener pauses");
	server->paused_until_ns = otte_now_ns() + DESCRIPTOR_PAUSE_NS;
	server->due_ns = min_u64(server->due_ns, server->paused_until_ns);
	otte_loop_remove(server->loop, &server->listener);
}

/* Whoever is not let in is told why, as far as that fits into an empty socket. */
static void turn_away(struct otte_control_server *server, int fd, int code)
{
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_TEXT_MAX];
	struct otte_frame frame = { .type = OTTE_FRAME_ERROR, .status = code };
	ssize_t length;

	tell(server, "a peer is turned away");
	length = otte_text_encode(otte_error_text(), bytes + OTTE_FRAME_HEADER, OTTE_TEXT_MAX);
	frame.length = length < 0 ? 0 : (uint32_t)length;
	otte_frame_encode(&frame, bytes);
	if (send(fd, bytes, OTTE_FRAME_HEADER + frame.length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		otte_log(OTTE_LOG_DEBUG, "it is not told: %m");
	/* Unread bytes would turn the close into a reset, which may overtake what was just sent. */
	shutdown(fd, SHUT_WR);
	if (recv(fd, NULL, server->max_payload, MSG_DONTWAIT | MSG_TRUNC) < 0 && errno != EAGAIN)
		otte_log(OTTE_LOG_DEBUG, "nor heard: %m");
	otte_fd_close(fd);
}

void otte_control_server_adopt(struct otte_control_server *server, int fd)
{
	int ret;

	ret = server->greeting < server->max_connections ? add_connection(server, fd) : full(server);
	if (ret)
		turn_away(server, fd, ret);
}

static void listener_ready(struct otte_watch *watch, uint32_t events)
{
	struct otte_control_server *server =
		container_of(watch, struct otte_control_server, listener);
	int fd;

	(void)events;
	fd = otte_fd_accept(watch->fd);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_listener(server);
		return;
	}
	otte_control_server_adopt(server, fd);
}

int otte_control_server_open(struct otte_control_server *server, int fd)
{
	int ret;

	server->sessions = NULL;
	server->greeting = server->greeted = 0;
	server->asked = server->turns = 0;
	server->said = (struct otte_log_limit){ 0 };
	server->paused_until_ns = 0;
	server->due_ns = UINT64_MAX;
	server->listener.fd = -1;
	server->rows = calloc(ROWS_A_FRAME(server->max_payload), sizeof(*server->rows));
	server->frame = malloc(server->max_payload);
	if (!server->rows || !server->frame) {
		ret = otte_fail(-ENOMEM, "no memory for frames of %u bytes", server->max_payload);
		goto free_scratch;
	}
	if (fd >= 0) {
		server->listener.fd = fd;
		server->listener.ready = listener_ready;
		ret = otte_loop_add(server->loop, &server->listener, EPOLLIN);
		if (ret) {
			server->listener.fd = -1;
			goto free_scratch;
		}
	}
	return 0;

free_scratch:
	free(server->rows);
	free(server->frame);
	server->rows = NULL;
	server->frame = NULL;
	return ret;
}

void otte_control_server_tick(struct otte_control_server *server, uint64_t now_ns)
{
	struct otte_session *session, *next;
	uint64_t due = UINT64_MAX;

	DL_FOREACH_SAFE(server->sessions, session, next) {
		if (session->state >= OTTE_SESSION_OPEN)
			continue;
		if (session->deadline_ns <= now_ns) {
			atomic_fetch_add(&server->bad_frames, 1);
			end_session(session, false);
			continue;
		}
		due = min_u64(due, session->deadline_ns);
		if (session->state != OTTE_SESSION_TURN)
			continue;
		if (session->turn_ns <= now_ns)
			pass_over(session);
		else
			due = min_u64(due, session->turn_ns);
	}
	give_turns(server);
	if (server->paused_until_ns && server->paused_until_ns <= now_ns) {
		server->paused_until_ns = 0;
		if (otte_loop_add(server->loop, &server->listener, EPOLLIN))
			server->paused_until_ns = now_ns + DESCRIPTOR_PAUSE_NS;
	}
	if (server->paused_until_ns)
		due = min_u64(due, server->paused_until_ns);
	tell_held(server, now_ns);
	server->due_ns = min_u64(due, otte_log_limit_due(&server->said));
}

void otte_control_server_bye(struct otte_control_server *server)
{
	struct otte_session *session, *next;

	DL_FOREACH_SAFE(server->sessions, session, next)
		if (session->state == OTTE_SESSION_OPEN)
			answer(session, OTTE_FRAME_BYE, 0, 0, NULL, 0);
}

void otte_control_server_close(struct otte_control_server *server)
{
	struct otte_session *session, *next;

	DL_FOREACH_SAFE(server->sessions, session, next)
		end_session(session, false);
	if (server->listener.fd >= 0) {
		otte_loop_remove(server->loop, &server->listener);
		otte_fd_close(server->listener.fd);
		server->listener.fd = -1;
	}
	free(server->rows);
	free(server->frame);
	server->rows = NULL;
	server->frame = NULL;
}
