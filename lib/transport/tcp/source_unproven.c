/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers that are sent without a copy (zerocopy.h), and the uses of those that wait for the kernel.
 *
 * A READ that was answered so is over for the peer once it has the bytes, but here only with the kernel's
 * notification: until then its use stands in tcp.unproven, and the lane goes on. What is in conflict with it parks
 * its lane (source_admit.c), which is kicked when a use has ended.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/loop.h"
#include "transport/tcp/source.h"

/*
 * Answers of one lane that are sent, or being sent, without a copy. With more than these waiting for the
 * kernel, the next one is copied.
 */
#define SENT_MAX 32

void tcp_source_leave_use(struct source_lane *lane, bool complete)
{
	struct source_sent *sent = lane->sending;
	struct tcp *tcp = lane->tcp;

	sent->use = lane->use;
	sent->complete = complete;
	lane->use = NULL;
	lane->sending = NULL;
	pthread_mutex_lock(&tcp->lock);
	DL_APPEND(tcp->unproven, sent);
	pthread_mutex_unlock(&tcp->lock);
}

void tcp_source_kick(struct source_lane *lane)
{
	if (lane->parked && !lane->alone && otte_loop_change(lane->loop, &lane->watch, EPOLLOUT))
		shutdown(lane->watch.fd, SHUT_RDWR);
}

static void sent_proven(struct tcp_claim *claim)
{
	struct source_sent *sent = container_of(claim, struct source_sent, claim);
	struct tcp *tcp = sent->lane->tcp;
	struct source_lane *lane;

	if (!sent->use)
		return; /* it is still being sent */
	tcp->env.source.end(sent->use, sent->complete);
	pthread_mutex_lock(&tcp->lock);
	DL_DELETE(tcp->unproven, sent);
	sent->use = NULL;
	sent->taken = false;
	DL_FOREACH(tcp->lanes, lane)
		tcp_source_kick(lane);
	pthread_mutex_unlock(&tcp->lock);
}

void tcp_source_proven(struct tcp_claim *proven)
{
	struct tcp_claim *next;

	for (; proven; proven = next) {
		next = proven->next;
		sent_proven(proven);
	}
}

static int sent_retain(struct tcp_claim *claim)
{
	struct source_sent *sent = container_of(claim, struct source_sent, claim);

	return sent->lane->tcp->env.source.retain(sent->use);
}

static const struct tcp_linger_ops lingering = {
	.proven = sent_proven,
	.retain = sent_retain,
	.over = tcp_source_lane_over,
};

bool tcp_source_is_unproven(const struct tcp *tcp, const uint8_t *address, uint64_t length)
{
	const struct source_sent *sent;

	DL_FOREACH(tcp->unproven, sent)
		if (address < sent->address + sent->length && sent->address < address + length)
			return true;
	return false;
}

struct source_sent *tcp_source_take_sent(struct source_lane *lane)
{
	struct source_sent *sent;

	for (sent = lane->sent; sent < lane->sent + SENT_MAX; sent++) {
		if (sent->taken)
			continue;
		*sent = (struct source_sent){
			.lane = lane,
			.address = lane->address,
			.length = lane->request.length,
			.taken = true,
		};
		return sent;
	}
	return NULL;
}

void tcp_source_open_zerocopy(struct source_lane *lane, bool local)
{
	struct tcp *tcp = lane->tcp;

	lane->zerocopy = tcp_zerocopy_open(&tcp->zerocopies, tcp->env.config, lane->watch.fd, local);
	if (!lane->zerocopy)
		return;
	lane->sent = calloc(SENT_MAX, sizeof(*lane->sent));
	if (lane->sent)
		return;
	tcp_zerocopy_close(lane->zerocopy);
	lane->zerocopy = NULL;
}

bool tcp_source_end_zerocopy(struct source_lane *lane)
{
	if (!lane->zerocopy)
		return true;
	tcp_source_proven(tcp_zerocopy_disconnect(lane->zerocopy));
	if (lane->sending && lane->sending->claim.left)
		tcp_source_leave_use(lane, false);
	if (lane->zerocopy->claims)
		return false;
	tcp_zerocopy_close(lane->zerocopy);
	return true;
}

void tcp_source_linger(struct source_lane *lane)
{
	tcp_zerocopy_linger(lane->zerocopy, &lingering, lane);
}
