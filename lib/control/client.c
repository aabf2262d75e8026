/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "control/client.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"

/* Frames that nobody has sent yet may pile up to this many times the largest one. */
#define TX_FRAMES 16
/* One peer is heard so often before the others have their turn. */
#define ROUND_FRAMES 32

/* Lives on the stack of otte_control_client_call(), linked while it waits. */
struct otte_call {
	struct otte_call *prev, *next;
	uint64_t id;
	uint16_t answer_type;
	bool done;
	int status;
	uint8_t *payload;
	size_t length;
	pthread_cond_t cond;
};

void otte_control_client_init(struct otte_control_client *client)
{
	pthread_mutex_init(&client->lock, NULL);
	client->state = OTTE_CLIENT_IDLE;
	client->watch.fd = -1;
	client->calls = NULL;
	client->next_id = 1;
}

void otte_control_client_fini(struct otte_control_client *client)
{
	otte_control_client_stop(client, -ESHUTDOWN);
	pthread_mutex_destroy(&client->lock);
}

static void end_calls(struct otte_control_client *client, int code)
{
	struct otte_call *call, *next;

	DL_FOREACH_SAFE(client->calls, call, next) {
		DL_DELETE(client->calls, call);
		call->done = true;
		call->status = code;
		pthread_cond_signal(&call->cond);
	}
}

static void drop_socket(struct otte_control_client *client)
{
	otte_attest_end(&client->attestation);
	if (client->watch.fd < 0)
		return;
	otte_loop_remove(client->loop, &client->watch);
	otte_fd_close(client->watch.fd);
	client->watch.fd = -1;
	otte_stream_fini(&client->stream);
}

/* Under lock. True if this call moved the state, so that the caller has to tell. */
static bool lose(struct otte_control_client *client, int code)
{
	if (client->state == OTTE_CLIENT_IDLE || client->state == OTTE_CLIENT_LOST)
		return false;
	client->state = OTTE_CLIENT_LOST;
	client->code = code;
	snprintf(client->text, sizeof(client->text), "%s", otte_error_text());
	drop_socket(client);
	end_calls(client, code);
	return true;
}

static int make_socket(struct otte_control_client *client)
{
	const struct otte_client_address *to = &client->addresses[client->current];
	int fd, one = 1, ret;

	fd = otte_fd_socket(to->address.ss_family, SOCK_STREAM);
	if (fd < 0)
		return otte_fail(-errno, "socket: %m");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	if (connect(fd, (const struct sockaddr *)&to->address, to->length) < 0 &&
	    errno != EINPROGRESS) {
		ret = otte_fail(-errno, "connect: %m");
		goto close_fd;
	}
	client->watch.fd = fd;
	ret = otte_loop_add(client->loop, &client->watch, EPOLLIN | EPOLLOUT);
	if (ret) {
		client->watch.fd = -1;
		goto close_fd;
	}
	client->waits_for_room = true;
	otte_stream_init(&client->stream, fd, client->max_payload,
			 (size_t)TX_FRAMES * (client->max_payload + OTTE_FRAME_HEADER));
	return 0;

close_fd:
	otte_fd_close(fd);
	return ret;
}

/* Try the addresses from client->current on. */
static int connect_next(struct otte_control_client *client)
{
	int ret = -EADDRNOTAVAIL;

	for (; client->current < client->address_count; client->current++) {
		ret = make_socket(client);
		if (!ret)
			return 0;
	}
	return ret;
}

static void client_ready(struct otte_watch *watch, uint32_t events);

int otte_control_client_start(struct otte_control_client *client)
{
	int ret;

	pthread_mutex_lock(&client->lock);
	if (client->state != OTTE_CLIENT_IDLE && client->state != OTTE_CLIENT_LOST) {
		pthread_mutex_unlock(&client->lock);
		return 0;
	}
	client->watch.ready = client_ready;
	client->current = 0;
	client->deadline_ns = otte_now_ns() + client->timeout_ns;
	ret = connect_next(client);
	if (!ret)
		client->state = OTTE_CLIENT_CONNECTING;
	pthread_mutex_unlock(&client->lock);
	return ret;
}

void otte_control_client_stop(struct otte_control_client *client, int code)
{
	bool tell;

	pthread_mutex_lock(&client->lock);
	tell = lose(client, code);
	pthread_mutex_unlock(&client->lock);
	if (tell && client->changed)
		client->changed(client, OTTE_CLIENT_LOST, code);
}

void otte_control_client_tick(struct otte_control_client *client, uint64_t now_ns)
{
	char limit[OTTE_TIME_TEXT];
	bool tell = false;

	pthread_mutex_lock(&client->lock);
	if (client->state >= OTTE_CLIENT_CONNECTING && client->state < OTTE_CLIENT_OPEN &&
	    client->deadline_ns <= now_ns) {
		otte_fail(-ETIMEDOUT, "the peer did not answer the hello within %s (control.timeout_ms)",
			  otte_time_text(limit, client->timeout_ns));
		tell = lose(client, -ETIMEDOUT);
	}
	pthread_mutex_unlock(&client->lock);
	if (tell)
		client->changed(client, OTTE_CLIENT_LOST, -ETIMEDOUT);
}

/*
 * Under lock. -EDQUOT, -ENOMEM: nothing was sent. -ECONNRESET: sending failed, and so that no part of
 * what the caller takes for unsent is sent after all, the connection ends; the loop finds its end.
 */
static int send_frame(struct otte_control_client *client, uint16_t type, uint64_t id,
		      const void *payload, size_t length)
{
	struct otte_frame frame = { .type = type, .length = (uint32_t)length, .id = id };
	int ret;

	ret = otte_stream_send(&client->stream, &frame, payload);
	if (ret == 1 && !client->waits_for_room) {
		client->waits_for_room = true;
		if (otte_loop_change(client->loop, &client->watch, EPOLLIN | EPOLLOUT))
			ret = -ECONNRESET;
	}
	if (ret == -ECONNRESET)
		shutdown(client->watch.fd, SHUT_RDWR);
	return ret < 0 ? ret : 0;
}

static int send_hello(struct otte_control_client *client)
{
	struct otte_hello *hello = &client->hello;
	int ret;

	memset(hello, 0, sizeof(*hello));
	hello->identity = *client->identity;
	ret = otte_random(hello->nonce, sizeof(hello->nonce));
	if (ret)
		return ret;
	if (client->keys->count) {
		hello->flags = OTTE_HELLO_AUTH;
		memcpy(hello->key_id, client->keys->key[0].id, sizeof(hello->key_id));
	}
	otte_hello_encode(hello, client->hello_bytes, sizeof(client->hello_bytes));
	client->state = OTTE_CLIENT_HELLO;
	client->can = (struct otte_can){ .offered = otte_attest_offer(client->attestor) | client->offers };
	client->claims = false;
	client->attested = 0;
	client->lends = false;
	client->rdma = false;
	client->unattested = 0;
	return send_frame(client, OTTE_FRAME_HELLO, client->can.offered, client->hello_bytes,
			  sizeof(client->hello_bytes));
}

static int prove(struct otte_control_client *client, const uint8_t *welcome)
{
	const struct otte_key *key = &client->keys->key[0];
	struct otte_proof proof;
	uint8_t out[OTTE_PROOF_BYTES];
	uint8_t mac[OTTE_MAC_BYTES];

	otte_hello_mac(key, true, &client->can, client->hello_bytes, welcome, mac);
	if (!otte_mac_equal(mac, client->welcome.mac))
		return otte_fail(-EKEYREJECTED, "the peer does not have the key");
	otte_hello_mac(key, false, &client->can, client->hello_bytes, welcome, proof.mac);
	otte_session_key(key, client->hello.nonce, client->welcome.nonce, client->session_key);
	otte_proof_encode(&proof, out, sizeof(out));
	return send_frame(client, OTTE_FRAME_PROOF, 0, out, sizeof(out));
}

/* What both sides will do, as the peer says. */
static int agree(struct otte_control_client *client, const uint8_t *welcome)
{
	if (!(client->can.agreed & OTTE_CAN_ATTEST))
		return 0;
	if (!client->attestor->client)
		return otte_fail(-EPROTO, "the peer takes up what it was not offered");
	client->claims = true;
	otte_attest_begin(&client->attestation, client->attestor, false,
			  client->keys->count ? client->session_key : NULL, client->hello_bytes,
			  welcome);
	return 0;
}

static int take_welcome(struct otte_control_client *client, const struct otte_frame *frame,
			const uint8_t *payload)
{
	bool auth;
	int ret;

	ret = otte_welcome_decode(payload, frame->length, &client->welcome);
	if (ret)
		return ret;
	auth = client->welcome.flags & OTTE_HELLO_AUTH;
	if (auth != (client->keys->count > 0))
		return otte_fail(-EKEYREJECTED, "the peer %s", auth ?
				 "wants a key, this engine has none" : "has no key, this engine wants one");
	client->state = OTTE_CLIENT_READY_WAIT;
	client->can.agreed = frame->id;
	ret = auth ? prove(client, payload) : 0;
	return ret ? ret : agree(client, payload);
}

/* Looks out for the peer's proof and gives ours. */
static int attest(struct otte_control_client *client)
{
	int ret = otte_attest_await(&client->attestation);

	return ret ? ret : otte_attest_give(&client->attestation);
}

static int take_claim(struct otte_control_client *client, const struct otte_frame *frame,
		      const uint8_t *payload)
{
	const struct otte_attestor *attestor = client->attestor;
	struct otte_claim theirs, ours = { 0 };
	uint8_t out[OTTE_CLAIM_BYTES];
	int ret;

	ret = otte_claim_decode(payload, frame->length, &theirs);
	if (ret)
		return ret;
	client->claims = false;
	memcpy(ours.module, attestor->module, sizeof(ours.module));
	if (otte_attest_claimed(&client->attestation, &theirs)) {
		ret = attest(client);
		if (ret && ret != -EDQUOT)
			return ret;
		client->unattested = ret;
		ours.client = ret ? 0 : attestor->client;
	}
	if (!theirs.client) /* it has no turn for us */
		client->unattested = -EDQUOT;
	if (!ours.client)
		otte_attest_end(&client->attestation);
	otte_claim_encode(&ours, out, sizeof(out));
	return send_frame(client, OTTE_FRAME_CLAIM, 0, out, sizeof(out));
}

static int take_ready(struct otte_control_client *client, int status)
{
	struct otte_attestation *attestation = &client->attestation;
	int ret;

	if (client->claims)
		return otte_fail(-EPROTO, "the peer does not say which client it is");
	if (status && (status != -EDQUOT || !attestation->attestor))
		return otte_fail(-EPROTO, "the peer is ready with status %d", status);
	if (status) {
		client->unattested = status;
		otte_attest_end(attestation);
	}
	if (attestation->attestor) {
		ret = otte_attest_check(attestation);
		if (ret)
			return ret;
		client->attested = attestation->claimed;
		client->lends = client->can.agreed & client->can.offered & OTTE_CAN_LEND;
		otte_attest_end(attestation);
	}
	client->rdma = client->can.agreed & client->offers & OTTE_CAN_RDMA;
	client->state = OTTE_CLIENT_OPEN;
	client->lane_counter = 0;
	return 0;
}

static int take_error(const struct otte_frame *frame, const uint8_t *payload)
{
	char text[OTTE_TEXT_MAX];

	if (otte_text_decode(payload, frame->length, text))
		return -EPROTO;
	if (frame->status >= 0 || frame->status < -4095)
		return otte_fail(-EPROTO, "the peer refuses with status %d", frame->status);
	return otte_fail(frame->status, "the peer refuses: %s", text);
}

static int take_answer(struct otte_control_client *client, const struct otte_frame *frame,
		       const uint8_t *payload)
{
	struct otte_call *call;

	DL_FOREACH(client->calls, call)
		if (call->id == frame->id)
			break;
	if (!call) { /* its caller gave up, or nobody asked to hear */
		client->refused_notices += frame->type == OTTE_FRAME_NOTIFIED && frame->status;
		return 0;
	}
	if (call->answer_type != frame->type)
		return otte_fail(-EPROTO, "the peer answers with frame type %u", frame->type);
	DL_DELETE(client->calls, call);
	call->done = true;
	call->status = frame->status;
	if (frame->length) {
		call->payload = malloc(frame->length);
		if (call->payload) {
			memcpy(call->payload, payload, frame->length);
			call->length = frame->length;
		} else {
			call->status = -ENOMEM;
		}
	}
	pthread_cond_signal(&call->cond);
	return 0;
}

/* Under lock. 0, 1: tell OPEN, 2: tell BYE, negative: the connection is lost. */
static int handle(struct otte_control_client *client, const struct otte_frame *frame,
		  const uint8_t *payload)
{
	if (frame->type == OTTE_FRAME_ERROR)
		return take_error(frame, payload);
	if (client->state == OTTE_CLIENT_HELLO && frame->type == OTTE_FRAME_WELCOME)
		return take_welcome(client, frame, payload);
	if (client->claims && frame->type == OTTE_FRAME_CLAIM)
		return take_claim(client, frame, payload);
	if (client->state == OTTE_CLIENT_READY_WAIT && frame->type == OTTE_FRAME_READY) {
		int ret = take_ready(client, frame->status);

		return ret ? ret : 1;
	}
	if (client->state == OTTE_CLIENT_OPEN) {
		switch (frame->type) {
		case OTTE_FRAME_REGIONS:
		case OTTE_FRAME_STATS_REPLY:
		case OTTE_FRAME_NOTIFIED:
		case OTTE_FRAME_PONG:
			return take_answer(client, frame, payload);
		case OTTE_FRAME_BYE:
			return 2;
		}
	}
	return otte_fail(-EPROTO, "the peer sends frame type %u out of order", frame->type);
}

static int finish_connect(struct otte_control_client *client)
{
	socklen_t length = sizeof(int);
	int error = 0;

	getsockopt(client->watch.fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (error) {
		drop_socket(client);
		client->current++;
		if (client->current < client->address_count)
			return connect_next(client);
		errno = error;
		return otte_fail(-error, "connect: %m");
	}
	return send_hello(client);
}

/* Under lock: writable. */
static int flush(struct otte_control_client *client)
{
	int ret;

	ret = otte_stream_flush(&client->stream);
	if (ret == 0 && client->waits_for_room) {
		client->waits_for_room = false;
		ret = otte_loop_change(client->loop, &client->watch, EPOLLIN);
	}
	return ret < 0 ? ret : 0;
}

/* Under lock: connected, or room to send. 0 or negative. */
static int writable(struct otte_control_client *client, uint32_t events)
{
	if (client->state == OTTE_CLIENT_CONNECTING)
		return finish_connect(client);
	return events & EPOLLOUT ? flush(client) : 0;
}

/* What one received frame asks of client_ready(). */
enum { NOTHING_MORE = 0, GO_ON = 1, TELL_OPEN = 2, TELL_BYE = 3 };

/* Under lock: readable. One of the above, or negative. */
static int receive(struct otte_control_client *client)
{
	struct otte_frame frame;
	const uint8_t *payload;
	int ret;

	if (client->watch.fd < 0 || client->state <= OTTE_CLIENT_CONNECTING)
		return NOTHING_MORE;
	ret = otte_stream_receive(&client->stream, &frame, &payload);
	if (ret <= 0)
		return ret;
	ret = handle(client, &frame, payload);
	return ret < 0 ? ret : GO_ON + ret;
}

static void client_ready(struct otte_watch *watch, uint32_t events)
{
	struct otte_control_client *client = container_of(watch, struct otte_control_client, watch);
	unsigned frames = 0, refused;
	bool lost;
	int ret;

	pthread_mutex_lock(&client->lock);
	ret = watch->fd < 0 ? 0 : writable(client, events);
	do {
		if (ret >= 0)
			ret = receive(client);
		lost = ret < 0 && lose(client, ret);
		if (lost || ret > GO_ON) {
			pthread_mutex_unlock(&client->lock);
			client->changed(client, lost ? OTTE_CLIENT_LOST : OTTE_CLIENT_OPEN,
					lost ? ret : ret == TELL_BYE ? -ESHUTDOWN : 0);
			pthread_mutex_lock(&client->lock);
		}
	} while (ret > 0 && ++frames < ROUND_FRAMES);
	refused = client->refused_notices;
	client->refused_notices = 0;
	pthread_mutex_unlock(&client->lock);
	if (refused)
		otte_log(OTTE_LOG_WARNING, "a peer has no room for %u notifications", refused);
}

int otte_control_client_post(struct otte_control_client *client, uint16_t type, const void *payload,
			     size_t length)
{
	int ret;

	pthread_mutex_lock(&client->lock);
	if (client->state == OTTE_CLIENT_OPEN)
		ret = send_frame(client, type, client->next_id++, payload, length);
	else
		ret = otte_fail(-ECONNRESET, "the peer is lost");
	pthread_mutex_unlock(&client->lock);
	return ret;
}

int otte_control_client_call(struct otte_control_client *client, uint16_t type, const void *request,
			     size_t request_length, uint16_t answer_type, uint64_t timeout_ns,
			     uint8_t **payload, size_t *length)
{
	struct otte_call call = { .answer_type = answer_type };
	char limit[OTTE_TIME_TEXT];
	const struct timespec until = otte_timespec(otte_now_ns() + timeout_ns);
	int ret, timed_out = 0;

	otte_cond_init(&call.cond);
	pthread_mutex_lock(&client->lock);
	ret = client->state == OTTE_CLIENT_OPEN ? 0 : otte_fail(-ECONNRESET, "the peer is lost");
	if (!ret) {
		call.id = client->next_id++;
		ret = send_frame(client, type, call.id, request, request_length);
	}
	if (!ret) {
		DL_APPEND(client->calls, &call);
		while (!call.done && !timed_out)
			timed_out = pthread_cond_timedwait(&call.cond, &client->lock, &until);
		if (!call.done) {
			DL_DELETE(client->calls, &call);
			ret = otte_fail(-ETIMEDOUT, "the peer did not answer within %s",
					otte_time_text(limit, timeout_ns));
		} else if (call.status) {
			ret = otte_fail(call.status, "the peer answers: %s",
					client->state == OTTE_CLIENT_LOST ?
						client->text : otte_strerror(call.status));
		}
	}
	pthread_mutex_unlock(&client->lock);
	pthread_cond_destroy(&call.cond);
	if (ret) {
		free(call.payload);
		return ret;
	}
	*payload = call.payload;
	*length = call.length;
	return 0;
}

bool otte_control_client_cuts(struct otte_control_client *client)
{
	bool cuts;

	pthread_mutex_lock(&client->lock);
	cuts = client->can.agreed & client->offers & OTTE_CAN_CUT;
	pthread_mutex_unlock(&client->lock);
	return cuts;
}

int otte_control_client_lane(struct otte_control_client *client, enum otte_lane_kind kind,
			     struct otte_lane_hello *hello, struct otte_client_address *address)
{
	int ret = 0;

	pthread_mutex_lock(&client->lock);
	if (client->state == OTTE_CLIENT_OPEN) {
		memset(hello, 0, sizeof(*hello));
		hello->session = client->welcome.session;
		hello->counter = ++client->lane_counter;
		if (client->keys->count)
			otte_lane_mac(client->session_key, kind, hello->session, hello->counter,
				      hello->mac);
		*address = client->addresses[client->current];
	} else {
		ret = otte_fail(-ECONNRESET, "the peer is lost");
	}
	pthread_mutex_unlock(&client->lock);
	return ret;
}
