/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The accepting side of control connections: listener, hellos, sessions, requests of peers.
 *
 * A connection is NEW until its first frame says what it is. HELLO makes it a session (PROOF while
 * a key has to be proven, TURN while too many others are asked which client of the module they are,
 * CLAIM while it is asked, then OPEN), of which there are at most max_connections; LANE hands its
 * descriptor to the transport and ends the session object. One that is not OPEN yet lives at most
 * timeout_ns, and of NEW ones there are at most max_connections too: those of a session's lanes
 * come while every session is taken.
 *
 * Everything here runs in the thread that runs `loop`, handlers included; there is no lock. The counters
 * may be read from anywhere.
 */
#ifndef OTTE_CONTROL_SERVER_H
#define OTTE_CONTROL_SERVER_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/log_limit.h"
#include "base/loop.h"
#include "control/attest.h"
#include "control/auth.h"
#include "control/stream.h"
#include "control/wire.h"

struct otte_control_server;

enum otte_session_state {
	OTTE_SESSION_NEW = 0,
	OTTE_SESSION_PROOF = 1,
	OTTE_SESSION_TURN = 2,
	OTTE_SESSION_CLAIM = 3,
	OTTE_SESSION_OPEN = 4,
	OTTE_SESSION_CLOSED = 5,
};

struct otte_session {
	struct otte_watch watch;
	struct otte_retired retired;
	struct otte_control_server *server;
	struct otte_session *prev, *next; /* server->sessions */
	enum otte_session_state state;
	struct otte_stream stream;
	bool waits_for_room;              /* EPOLLOUT is asked for */
	uint64_t deadline_ns;             /* until OPEN */
	uint64_t turn_ns;                 /* TURN: until it goes on without */
	uint64_t id;                      /* random; from PROOF on */
	struct otte_identity peer;
	bool authenticated;
	struct otte_attestation attestation; /* until OPEN; awaits in CLAIM */
	uint64_t attested;                /* OPEN: which client of our module it is; 0: not known */
	uint32_t attested_user;           /* and of which user */
	uint64_t can;                     /* OTTE_CAN_* of both sides */
	uint64_t last_lane;               /* highest lane counter taken */
	uint64_t taken_lanes;             /* bit n: counter last_lane - n was taken */
	uint8_t session_key[OTTE_SECRET_BYTES];
	uint8_t expected_proof[OTTE_MAC_BYTES];
	void *user;                       /* the handlers' */
};

/* What the engine does for peers. Called by the loop's thread, outside every lock. */
struct otte_control_handlers {
	void *arg;
	/* Accept an OPEN session, set session->user; or a negative errno, sent to the peer. */
	int (*opened)(void *arg, struct otte_session *session);
	/* The session of an earlier opened() ends; `session` must not be used after. */
	void (*closed)(void *arg, struct otte_session *session);
	/* Take over `fd` as a lane on 0; otherwise it stays the caller's. */
	int (*lane)(void *arg, struct otte_session *session, int fd, enum otte_lane_kind kind,
		    uint64_t counter);
	/* Rows with an id above `after`, ascending; at most `capacity`, their number in *count. */
	int (*describe)(void *arg, uint64_t after, struct otte_region_info *rows, size_t capacity,
			struct otte_regions *regions);
	void (*stats)(void *arg, struct otte_stats *stats);
	int (*notify)(void *arg, struct otte_session *session, const void *data, size_t length);
};

struct otte_control_server {
	struct otte_loop *loop;
	const struct otte_identity *identity;
	const struct otte_keys *keys;
	const struct otte_attestor *attestor;
	uint64_t offers;                  /* OTTE_CAN_* beside what the attestor says */
	struct otte_control_handlers handlers;
	uint32_t max_connections, max_payload, max_lanes;
	uint64_t timeout_ns;

	struct otte_watch listener;       /* fd -1: none */
	uint64_t paused_until_ns;         /* the listener, after descriptors ran out */
	uint64_t due_ns;                  /* tick() has something to do then; UINT64_MAX: nothing */
	struct otte_session *sessions;
	uint32_t greeting;                /* connections that have not said what they are */
	uint32_t greeted;                 /* and those that are sessions; max_connections of each */
	unsigned asked, turns;            /* those whose nonce is awaited; those in TURN */
	struct otte_log_limit said;       /* of what peers make us log */
	struct otte_region_info *rows;    /* scratch of one REGIONS frame */
	uint8_t *frame;                   /* scratch of one payload */
	_Atomic uint64_t open_sessions, bad_frames, refused_hellos;
};

/*
 * Takes over the listening socket `fd` (-1: no listener). All other fields up to timeout_ns are set by
 * the caller before.
 */
int otte_control_server_open(struct otte_control_server *server, int fd);

/* A connection that another listener of the engine's accepted: taken, or turned away. The loop's thread calls it. */
void otte_control_server_adopt(struct otte_control_server *server, int fd);

/* Ends overdue connections and pauses. To be called from due_ns on. */
void otte_control_server_tick(struct otte_control_server *server, uint64_t now_ns);

/* Tell every session that no new requests will be admitted. */
void otte_control_server_bye(struct otte_control_server *server);

/* Ends every connection and the listener. The loop's thread calls it, or nobody runs the loop. */
void otte_control_server_close(struct otte_control_server *server);

#endif
