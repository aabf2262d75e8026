/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See bare.h. */
#include "transport/tcp/bare.h"

#include "base/util.h"
#include "control/auth.h"

#define PAUSE_MAX (1u << 20)

void tcp_bare_reset(struct tcp_bare *bare)
{
	bare->wait = TCP_BARE_EXCHANGES;
	bare->pause = TCP_BARE_PAUSE_MIN;
	bare->good = 0;
}

/* The kernel is asked for many at once: for each of them it would cost more than it is worth. */
int tcp_bare_draw(struct tcp_bare *bare)
{
	int ret;

	ret = otte_random(bare->marks, sizeof(bare->marks));
	if (!ret)
		bare->marks_left = TCP_MARKS;
	return ret;
}

void tcp_bare_refused(struct tcp_bare *bare)
{
	bare->wait = bare->pause;
	bare->good = 0;
	bare->pause = (uint32_t)min_u64(2ull * bare->pause, PAUSE_MAX);
}

bool tcp_bare_is_refusal(const struct tcp_bare *bare, const uint8_t in[OTTE_LANE_ANSWER_BYTES],
			 uint64_t id, struct otte_lane_answer *answer)
{
	return !otte_lane_answer_decode(in, answer) && answer->status && answer->id == id &&
	       answer->mark[0] == bare->mark[0] && answer->mark[1] == bare->mark[1];
}

void tcp_bare_unask(uint8_t request[OTTE_LANE_REQUEST_BYTES])
{
	const uint64_t none[2] = { 0, 0 };

	otte_lane_request_mark(request, none);
}
