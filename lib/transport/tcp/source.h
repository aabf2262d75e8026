/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the files of a serving lane share: a payload connection that a peer opened, served in order.
 *
 *   REQUEST --READ--> ANSWER --sent--> REQUEST
 *   REQUEST --WRITE--> PAYLOAD --in--> ANSWER       (refused: DROP instead of PAYLOAD)
 *   REQUEST --> PARKED --> as above
 *   REQUEST --a cut--> REQUEST, or PARKED until the lanes that it calls dead have ended --> REQUEST
 *
 *   source.c           a lane's life
 *   source_step.c      what is received and sent, step by step, and by whom
 *   source_admit.c     what becomes of a request: admitted, refused or parked
 *   source_cut.c       lanes that a peer calls dead end before it is served on
 *   source_unproven.c  answers that are sent, and their uses, which wait for the kernel
 *
 * Everything in the struct belongs to the thread of the lane's loop, but for what tcp.lock protects:
 * the list, the descriptor while it is on the list, so that drop() cannot shut down a number that has
 * become another file, `parked`, `cut`, and the uses in tcp.unproven. A lane that is alone belongs to the express
 * thread (source_step.c).
 *
 * What is in line here is on the way of every request.
 */
#ifndef OTTE_TRANSPORT_TCP_SOURCE_H
#define OTTE_TRANSPORT_TCP_SOURCE_H

#include "transport/tcp/tcp.h"

enum source_state {
	SOURCE_REQUEST = 0,
	SOURCE_PAYLOAD = 1,
	SOURCE_DROP = 2,
	SOURCE_ANSWER = 3,
	SOURCE_PARKED = 4,
};

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
	uint64_t counter;               /* of its hello */
	struct otte_lane_cut cut;       /* the last one that came; last 0: none */
	bool cutting;                   /* PARKED for it; under tcp->lock, as cut is */
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

static inline void tcp_source_become(struct source_lane *lane, enum source_state state)
{
	lane->state = state;
	lane->moved = 0;
}

static inline void tcp_source_end_use(struct source_lane *lane, bool complete)
{
	struct otte_source_use *use = lane->use;

	lane->use = NULL;
	if (use)
		lane->tcp->env.source.end(use, complete);
}

static inline bool tcp_source_between_requests(const struct source_lane *lane)
{
	return lane->state == SOURCE_REQUEST && !lane->moved;
}

/* ---- source.c ---- */

/* It is lost, or the transport closes. Of the loop's thread, or once there is none. */
void tcp_source_end_lane(struct source_lane *lane);
/* Nothing of it is left, at last: its peer is told. */
void tcp_source_lane_over(void *lane);

/* ---- source_step.c ---- */

/* The loop's callback, and the express thread's. */
void tcp_source_ready(struct otte_watch *watch, uint32_t events);
void tcp_source_serve_alone(struct source_lane *lane);

/* ---- source_admit.c ---- */

/* A request is in. */
void tcp_source_admit(struct source_lane *lane);
/* The same of one that is parked, and was kicked, or the kernel has said something. A step. */
int tcp_source_retry_parked(struct source_lane *lane);
/* Nothing more of the request is to come: by its status and effect. */
void tcp_source_prepare_answer(struct source_lane *lane);

/* ---- source_cut.c ---- */

/* A cut is in. A step, as is the next one: the lane is PARKED for it, and was kicked. */
int tcp_source_take_cut(struct source_lane *lane);
int tcp_source_cut_on(struct source_lane *lane);
/* Under tcp->lock: whether a lane of this peer has called dead the one with that counter. */
bool tcp_source_is_cut(const struct tcp *tcp, const void *peer, uint64_t counter);

/* ---- source_unproven.c ---- */

/* Without zerocopy where there is no memory for it. */
void tcp_source_open_zerocopy(struct source_lane *lane, bool local);
/* True: the kernel has let go of everything. Else the lane has to linger, which takes its socket. */
bool tcp_source_end_zerocopy(struct source_lane *lane);
void tcp_source_linger(struct source_lane *lane);
/* Claims that the kernel has let go of: their uses end. */
void tcp_source_proven(struct tcp_claim *proven);
/* The next answer's record; NULL: it is copied. */
struct source_sent *tcp_source_take_sent(struct source_lane *lane);
/* The answer is sent, or its lane is lost: its use goes on without the lane. */
void tcp_source_leave_use(struct source_lane *lane, bool complete);
/* Under tcp->lock: whether the bytes are of a use that only waits for the kernel. */
bool tcp_source_is_unproven(const struct tcp *tcp, const uint8_t *address, uint64_t length);
/* Under tcp->lock. Any thread: the lane's own, if it is parked, finds out whether what it waits for is over. */
void tcp_source_kick(struct source_lane *lane);

#endif
