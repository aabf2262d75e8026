/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The opening side of one control connection.
 *
 *   IDLE -> CONNECTING -> HELLO -> READY_WAIT -> OPEN -> LOST -> CONNECTING ...
 *   any state but IDLE and LOST -> LOST, with a code and a text
 *
 * States are moved by the thread that runs `loop`, except that any thread may start (IDLE or LOST ->
 * CONNECTING) and stop (-> LOST). `lock` protects everything below it in the struct; changed() is called
 * without it. The struct lives in its owner, who keeps it until the loop can no longer know the watch.
 */
#ifndef OTTE_CONTROL_CLIENT_H
#define OTTE_CONTROL_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/loop.h"
#include "control/attest.h"
#include "control/auth.h"
#include "control/stream.h"

#define OTTE_CLIENT_ADDRESSES 8

enum otte_client_state {
	OTTE_CLIENT_IDLE = 0,
	OTTE_CLIENT_CONNECTING = 1,
	OTTE_CLIENT_HELLO = 2,
	OTTE_CLIENT_READY_WAIT = 3,
	OTTE_CLIENT_OPEN = 4,
	OTTE_CLIENT_LOST = 5,
};

struct otte_client_address {
	struct sockaddr_storage address;
	socklen_t length;
};

struct otte_call;

struct otte_control_client {
	struct otte_watch watch;
	struct otte_loop *loop;
	const struct otte_identity *identity;
	const struct otte_keys *keys;
	const struct otte_attestor *attestor;
	uint64_t offers;                /* OTTE_CAN_* beside what the attestor says */
	uint32_t max_payload;
	uint64_t timeout_ns;
	unsigned address_count;
	struct otte_client_address addresses[OTTE_CLIENT_ADDRESSES];
	/*
	 * Told of OPEN and LOST, by the loop's thread or the caller of stop. BYE is told as OPEN with code
	 * -ESHUTDOWN.
	 */
	void (*changed)(struct otte_control_client *client, enum otte_client_state state, int code);

	pthread_mutex_t lock;
	enum otte_client_state state;
	unsigned current;               /* address being tried or in use */
	struct otte_stream stream;
	bool waits_for_room;
	uint64_t deadline_ns;           /* until OPEN */
	struct otte_hello hello;
	struct otte_welcome welcome;    /* from HELLO on: the peer */
	uint8_t hello_bytes[OTTE_HELLO_BYTES];
	uint8_t session_key[OTTE_SECRET_BYTES];
	struct otte_can can;
	bool claims;                    /* READY_WAIT: the peer is still to say which client it is */
	struct otte_attestation attestation; /* READY_WAIT */
	uint64_t attested;              /* OPEN: which client of our module the peer is; 0: not known */
	bool lends;                     /* OPEN: both sides can LEND, and the peer is attested */
	bool rdma;                      /* OPEN: both sides have lanes for RDMA */
	int unattested;                 /* OPEN: -EDQUOT if it could not be attested now */
	uint64_t lane_counter;
	uint64_t next_id;
	struct otte_call *calls;
	unsigned refused_notices;       /* answers that nobody waits for, not yet logged */
	int code;                       /* LOST: why */
	char text[OTTE_TEXT_MAX];
};

/* The fields up to `lock` are set by the caller before. */
void otte_control_client_init(struct otte_control_client *client);
void otte_control_client_fini(struct otte_control_client *client);

/* Begin to connect. Never waits. A failure is told through changed() or returned, not both. */
int otte_control_client_start(struct otte_control_client *client);

/* -> LOST with `code`; calls in progress end with it. Idempotent. */
void otte_control_client_stop(struct otte_control_client *client, int code);

/* End an overdue hello. The loop's thread calls it now and then. */
void otte_control_client_tick(struct otte_control_client *client, uint64_t now_ns);

/*
 * Send a request and wait for its answer, at most `timeout_ns`. On 0 the answer's payload is in
 * *payload (the caller frees it) and its size in *length. Not from the loop's thread.
 */
int otte_control_client_call(struct otte_control_client *client, uint16_t type, const void *request,
			     size_t request_length, uint16_t answer_type, uint64_t timeout_ns,
			     uint8_t **payload, size_t *length);

/* Send a frame whose answer nobody waits for. Never waits. */
int otte_control_client_post(struct otte_control_client *client, uint16_t type, const void *payload,
			     size_t length);

/* Whether the lanes of bytes of this session may carry cuts. */
bool otte_control_client_cuts(struct otte_control_client *client);
/* What a new lane of this session must say, and where to connect it. -ECONNRESET unless OPEN. */
int otte_control_client_lane(struct otte_control_client *client, enum otte_lane_kind kind,
			     struct otte_lane_hello *hello, struct otte_client_address *address);

#endif
