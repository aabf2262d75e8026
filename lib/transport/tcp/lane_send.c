/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a lane sends: requests in the order of its queue, each WRITE's with its payload behind it.
 *
 * By whoever enqueues and finds room in the socket, else by the loop once there is; under `lock`. `unsent` is how
 * far it has come. While the lane is held nothing is sent (lane_receive.c and bare.h say when).
 */
#include <errno.h>
#include <sys/uio.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/sys.h"
#include "transport/tcp/lane.h"

#define IOV_SLICES 32

int tcp_lane_ask_for_room(struct tcp_lane *lane, bool want)
{
	if (lane->wants_room == want)
		return 0;
	lane->wants_room = want;
	return otte_loop_change(tcp_lane_loop(lane), &lane->watch, EPOLLIN | (want ? EPOLLOUT : 0u));
}

/* Under lock: the slice's payload goes alone, straight from its memory. */
static bool wants_zerocopy(const struct tcp_lane *lane, const struct tcp_slice *slice)
{
	return slice->plan->op == OTTE_WRITE && tcp_zerocopy_wants(lane->zerocopy, slice->length);
}

/* Up to a payload that goes alone; *flags then say that it follows. */
static int gather(struct tcp_lane *lane, struct iovec *iov, int *flags)
{
	struct tcp_slice *slice = lane->unsent;
	bool cut = false;
	int n = 0;

	for (; slice && n + 2 <= 2 * IOV_SLICES; slice = slice->next) {
		uint64_t payload = 0;

		if (!slice->sent && !cut && lane->cut_sent < lane->cut_bytes) {
			cut = true;
			iov[n].iov_base = lane->cuts + lane->cut_sent;
			iov[n++].iov_len = lane->cut_bytes - lane->cut_sent;
		}
		if (slice->sent < OTTE_LANE_REQUEST_BYTES) {
			iov[n].iov_base = slice->request + slice->sent;
			iov[n++].iov_len = OTTE_LANE_REQUEST_BYTES - slice->sent;
		} else {
			payload = slice->sent - OTTE_LANE_REQUEST_BYTES;
		}
		if (wants_zerocopy(lane, slice)) {
			*flags |= MSG_MORE;
			return n;
		}
		if (slice->plan->op == OTTE_WRITE) {
			iov[n].iov_base = slice->local + payload;
			iov[n++].iov_len = slice->length - payload;
		}
	}
	return n;
}

/* Under lock: `bytes` more of the queue are on their way. */
static void advance(struct tcp_lane *lane, uint64_t bytes)
{
	while (bytes) {
		struct tcp_slice *slice = lane->unsent;
		uint64_t part;

		if (!slice->sent && lane->cut_sent < lane->cut_bytes) {
			part = min_u64(bytes, lane->cut_bytes - lane->cut_sent);
			lane->cut_sent += (uint32_t)part;
			bytes -= part;
			continue;
		}
		part = min_u64(bytes, tcp_slice_wire_bytes(slice) - slice->sent);

		slice->sent += part;
		bytes -= part;
		if (slice->sent == tcp_slice_wire_bytes(slice))
			lane->unsent = slice->next;
	}
	atomic_store_explicit(&lane->progress_ns, otte_coarse_ns(), memory_order_relaxed);
}

void tcp_lane_shut(struct tcp_lane *lane)
{
	lane->broken = true;
	shutdown(lane->watch.fd, SHUT_RDWR);
	otte_loop_bring_back(tcp_lane_loop(lane));
}

/* Under lock. As send(): of what is unsent, all that can go in one call. */
static ssize_t send_some(struct tcp_lane *lane)
{
	struct tcp_slice *slice = lane->unsent;
	struct iovec iov[2 * IOV_SLICES + 1]; /* and a cut */
	struct msghdr message = { .msg_iov = iov };
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;

	if (slice->sent >= OTTE_LANE_REQUEST_BYTES && wants_zerocopy(lane, slice))
		return tcp_zerocopy_send(lane->zerocopy, &slice->claim,
					 slice->local + (slice->sent - OTTE_LANE_REQUEST_BYTES),
					 tcp_slice_wire_bytes(slice) - slice->sent);
	message.msg_iovlen = (size_t)gather(lane, iov, &flags);
	if (message.msg_iovlen == 1) /* a lone READ: the short call is cheaper */
		return otte_sys_send(lane->watch.fd, iov[0].iov_base, iov[0].iov_len, flags);
	return otte_sys_sendmsg(lane->watch.fd, &message, flags);
}

void tcp_lane_flush(struct tcp_lane *lane)
{
	ssize_t n;

	while (lane->unsent && !lane->broken && !lane->held) {
		n = send_some(lane);
		if (n > 0) {
			advance(lane, (uint64_t)n);
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			if (tcp_lane_ask_for_room(lane, true))
				tcp_lane_shut(lane);
			return;
		} else if (errno != EINTR) {
			/* Local memory went away in the middle of a frame: the frame cannot be ended. */
			if (errno == EFAULT)
				lane->unsent->abandon = -ESTALE;
			tcp_lane_shut(lane);
			return;
		}
	}
	if (!lane->broken && tcp_lane_ask_for_room(lane, false))
		tcp_lane_shut(lane);
}

bool tcp_lane_enqueue(struct tcp_lane *lane, struct tcp_slice *slice)
{
	bool ready;

	pthread_mutex_lock(&lane->lock);
	/* Who sends so need not sleep for the answer. */
	lane->exchanges = 0;
	otte_loop_bring_back(tcp_lane_loop(lane));
	ready = lane->state == TCP_LANE_READY && !lane->broken &&
		!atomic_load(&slice->plan->abandon);
	if (ready) {
		if (!lane->queue)
			atomic_store_explicit(&lane->progress_ns, otte_coarse_ns(),
					      memory_order_relaxed);
		DL_APPEND(lane->queue, slice);
		if (!lane->unsent)
			lane->unsent = slice;
		tcp_lane_change_queued(lane, slice->length, 0);
		if (!lane->wants_room)
			tcp_lane_flush(lane);
	}
	pthread_mutex_unlock(&lane->lock);
	return ready;
}
