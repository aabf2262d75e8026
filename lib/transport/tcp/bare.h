/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When a lane's READ asks for a bare answer, and what tells a refusal that comes in its place.
 *
 * After many lone READs the answer to the next one is asked for bare (control/wire.h): the payload alone, no header.
 * In place of its first bytes a refusal may come, which bears the mark of the request; and until it is known which
 * it is, nothing else is sent on the lane. The payload goes to its memory before that is known. So this is for memory
 * that cannot go away, for those bytes are looked at where they lie, and after a refusal are what they were.
 *
 * A part of struct tcp_lane, under its rx_lock.
 */
#ifndef OTTE_TRANSPORT_TCP_BARE_H
#define OTTE_TRANSPORT_TCP_BARE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "control/wire.h"

/*
 * So many exchanges on a connection, and answers are asked for bare. After a refusal that came in place of one it
 * takes twice as many as the last time; so many answers that were none take one such step back.
 */
#define TCP_BARE_EXCHANGES 64
#define TCP_BARE_PAUSE_MIN (2 * TCP_BARE_EXCHANGES)

/* Drawn at once. */
#define TCP_MARKS 64

struct tcp_bare {
	bool pending;                    /* asked for; too little is in to tell it from a refusal */
	uint8_t kept[OTTE_LANE_ANSWER_BYTES]; /* what its first bytes are written to held before */
	uint64_t mark[2];                /* what that refusal would bear */
	uint64_t marks[TCP_MARKS][2];    /* random: of the next requests, the last one first */
	uint32_t marks_left;
	uint32_t wait;                   /* so many exchanges more, and answers are asked for bare */
	uint32_t pause;                  /* what it is set to by the next refusal in place of one */
	uint32_t good;                   /* bare answers since pause changed */
};

/* The connection is new. */
void tcp_bare_reset(struct tcp_bare *bare);
/* Nonzero: no marks are to be had. */
int tcp_bare_draw(struct tcp_bare *bare);
/* A refusal came in place of an answer: for a while they have headers. */
void tcp_bare_refused(struct tcp_bare *bare);
/* Whether `in` is one, of the request with this id. */
bool tcp_bare_is_refusal(const struct tcp_bare *bare, const uint8_t in[OTTE_LANE_ANSWER_BYTES],
			 uint64_t id, struct otte_lane_answer *answer);
/* The answer to this request, if it is sent again, has a header. */
void tcp_bare_unask(uint8_t request[OTTE_LANE_REQUEST_BYTES]);

/*
 * The request is to be answered bare, to memory that starts at `start`, and pending then. False: there is no mark for
 * it. In line, like the next one: lone small READs all come this way.
 */
static inline bool tcp_bare_ask(struct tcp_bare *bare, uint8_t request[OTTE_LANE_REQUEST_BYTES],
				const uint8_t *start)
{
	if (!bare->marks_left && tcp_bare_draw(bare))
		return false;
	bare->marks_left--;
	bare->mark[0] = bare->marks[bare->marks_left][0];
	bare->mark[1] = bare->marks[bare->marks_left][1] | 1; /* 0, 0 is none */
	otte_lane_request_mark(request, bare->mark);
	memcpy(bare->kept, start, sizeof(bare->kept));
	bare->pending = true;
	return true;
}

/* What has come is no refusal. */
static inline void tcp_bare_good(struct tcp_bare *bare)
{
	if (++bare->good < TCP_BARE_EXCHANGES)
		return;
	bare->good = 0;
	if (bare->pause > TCP_BARE_PAUSE_MIN)
		bare->pause /= 2;
}

#endif
