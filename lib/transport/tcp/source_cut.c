/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A peer's cut (control/wire.h): what came by lanes that it calls dead must be done with before it is served on.
 *
 * Each dead lane is the thread's that serves it, and may be in the middle of a payload. So it is shut down, which
 * ends its receives once they have what is in the socket, and its own thread takes it off the list. Until none of them
 * is there the lane that brought the cut is parked; each lane's end kicks it. Only lanes of its own session are
 * touched.
 */
#include <sys/socket.h>
#include <utlist.h>

#include "base/loop.h"
#include "transport/tcp/source.h"

/* Under tcp->lock. Whether some are left. */
static bool shut_dead(const struct source_lane *lane)
{
	struct source_lane *other;
	bool left = false;

	DL_FOREACH(lane->tcp->lanes, other) {
		if (other == lane || other->peer != lane->peer ||
		    !otte_lane_cut_ends(&lane->cut, other->counter))
			continue;
		shutdown(other->watch.fd, SHUT_RDWR);
		left = true;
	}
	return left;
}

int tcp_source_cut_on(struct source_lane *lane)
{
	struct tcp *tcp = lane->tcp;
	int ret = 0;

	pthread_mutex_lock(&tcp->lock);
	lane->cutting = shut_dead(lane);
	if (lane->cutting && !lane->alone)
		ret = otte_loop_change(lane->loop, &lane->watch, 0);
	lane->parked = lane->cutting && !ret;
	pthread_mutex_unlock(&tcp->lock);
	if (ret)
		return ret;
	tcp_source_become(lane, lane->cutting ? SOURCE_PARKED : SOURCE_REQUEST);
	return !lane->cutting;
}

int tcp_source_take_cut(struct source_lane *lane)
{
	struct otte_lane_cut cut;
	int ret;

	ret = otte_lane_cut_decode(lane->header, &cut);
	if (ret) {
		atomic_fetch_add(&lane->tcp->counters.bad_frames, 1);
		return ret;
	}
	pthread_mutex_lock(&lane->tcp->lock);
	lane->cut = cut;
	pthread_mutex_unlock(&lane->tcp->lock);
	return tcp_source_cut_on(lane);
}

bool tcp_source_is_cut(const struct tcp *tcp, const void *peer, uint64_t counter)
{
	const struct source_lane *lane;

	DL_FOREACH(tcp->lanes, lane)
		if (lane->peer == peer && lane->cut.last && otte_lane_cut_ends(&lane->cut, counter))
			return true;
	return false;
}
