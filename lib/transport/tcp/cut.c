/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a lane that went down may have sent must not arrive behind a later request.
 *
 * The source serves lanes independently, and the bytes of a lost connection may yet be on their way to it. So before
 * a WRITE of it is told as ended, every other lane has a cut (control/wire.h) to send ahead of its next slice, and so
 * has each lane that is connected later. The source serves nothing behind it before it has ended the dead lanes.
 * What is asked for while no lane has gone down costs nothing.
 *
 * A cut is never out of date: what it calls dead stays so, and what was not yet connected it does not name.
 */
#include <string.h>

#include "transport/tcp/tcp.h"

/* Under lane->lock. One of which a part is out has to go out whole; one of which nothing is is replaced. */
static void put(struct tcp_lane *lane, const struct otte_lane_cut *cut)
{
	const uint32_t size = OTTE_LANE_REQUEST_BYTES;
	uint32_t at;

	if (lane->cut_sent == lane->cut_bytes)
		lane->cut_sent = 0;
	if (lane->cut_sent >= size) {
		memcpy(lane->cuts, lane->cuts + size, size);
		lane->cut_sent -= size;
	}
	at = lane->cut_sent ? size : 0;
	otte_lane_cut_encode(cut, lane->cuts + at);
	lane->cut_bytes = at + size;
}

void tcp_cut_session(struct tcp_peer *peer, uint64_t session)
{
	if (peer->session == session)
		return;
	peer->session = session;
	peer->cuts = otte_control_client_cuts(peer->control);
	memset(&peer->cut, 0, sizeof(peer->cut));
}

void tcp_cut_begin(struct tcp_lane *lane)
{
	lane->cut_sent = 0;
	lane->cut_bytes = 0;
	if (lane->peer->cut.last)
		put(lane, &lane->peer->cut);
}

/* Under peer->lock, under which alone lanes come up. */
static void gather_live(struct tcp_peer *peer)
{
	uint32_t i;

	memset(peer->cut.live, 0, sizeof(peer->cut.live));
	for (i = 0; i < peer->lane_count; i++) {
		struct tcp_lane *lane = &peer->lanes[i];

		pthread_mutex_lock(&lane->lock);
		if (lane->state != TCP_LANE_DOWN)
			otte_lane_cut_spare(&peer->cut, lane->counter);
		pthread_mutex_unlock(&lane->lock);
	}
}

static void tell_live(struct tcp_peer *peer)
{
	uint32_t i;

	for (i = 0; i < peer->lane_count; i++) {
		struct tcp_lane *lane = &peer->lanes[i];

		pthread_mutex_lock(&lane->lock);
		if (lane->state != TCP_LANE_DOWN)
			put(lane, &peer->cut);
		pthread_mutex_unlock(&lane->lock);
	}
}

void tcp_cut_lane(struct tcp_peer *peer, uint64_t session, uint64_t counter)
{
	pthread_mutex_lock(&peer->lock);
	if (peer->cuts && peer->session == session) {
		if (peer->cut.last < counter)
			peer->cut.last = counter;
		gather_live(peer);
		tell_live(peer);
	}
	pthread_mutex_unlock(&peer->lock);
}
