/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/tcp/zerocopy.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <utlist.h>
#include <linux/errqueue.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "otte/otte.h"

/* Sends in a row that the kernel copied after all: this route copies, and asking only costs. */
#define COPIED_RUN_MAX 16
/*
 * A disconnected socket's segments are freed at once, but for those that a queue or a device still holds,
 * which are gone within milliseconds. Later than this the memory counts as retained.
 */
#define LINGER_NS NSEC_PER_SEC

/* ---- A socket ---- */

void tcp_zerocopies_init(struct tcp_zerocopies *all)
{
	pthread_mutex_init(&all->lock, NULL);
}

void tcp_zerocopies_fini(struct tcp_zerocopies *all)
{
	pthread_mutex_destroy(&all->lock);
}

struct tcp_zerocopy *tcp_zerocopy_open(struct tcp_zerocopies *all, const struct otte_config *config,
				       int fd, bool local)
{
	struct tcp_zerocopy *zerocopy;
	int one = 1;

	if (config->tcp_zerocopy == OTTE_ZEROCOPY_OFF ||
	    (local && config->tcp_zerocopy != OTTE_ZEROCOPY_ALWAYS))
		return NULL;
	if (setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)) < 0) {
		otte_log(OTTE_LOG_DEBUG, "tcp.zerocopy: SO_ZEROCOPY: %m; this lane copies");
		return NULL;
	}
	zerocopy = calloc(1, sizeof(*zerocopy));
	if (!zerocopy)
		return NULL;
	zerocopy->all = all;
	zerocopy->config = config;
	zerocopy->fd = fd;
	return zerocopy;
}

void tcp_zerocopy_close(struct tcp_zerocopy *zerocopy)
{
	free(zerocopy);
}

bool tcp_zerocopy_wants(const struct tcp_zerocopy *zerocopy, uint64_t length)
{
	return zerocopy && !zerocopy->stopped && length >= zerocopy->config->tcp_zerocopy_bytes;
}

/* ---- Sending ---- */

/* The send that was just made is the claim's, too. */
static void take(struct tcp_zerocopy *zerocopy, struct tcp_claim *claim, uint64_t bytes)
{
	if (!claim->count)
		claim->first = zerocopy->number;
	if (!claim->left)
		DL_APPEND(zerocopy->claims, claim);
	zerocopy->number++;
	claim->count++;
	claim->left++;
	atomic_fetch_add_explicit(&zerocopy->all->sends, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&zerocopy->all->outstanding, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&zerocopy->all->bytes, bytes, memory_order_relaxed);
}

ssize_t tcp_zerocopy_send(struct tcp_zerocopy *zerocopy, struct tcp_claim *claim, const void *data,
			  uint64_t length)
{
	ssize_t n;

	n = otte_sys_send(zerocopy->fd, data, length, MSG_ZEROCOPY | MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		take(zerocopy, claim, (uint64_t)n);
	if (n >= 0 || errno != ENOBUFS)
		return n;
	atomic_fetch_add_explicit(&zerocopy->all->refused, 1, memory_order_relaxed);
	return otte_sys_send(zerocopy->fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- Notifications ---- */

/* How many of [low, high] are the claim's; numbers wrap. */
static uint32_t overlap(const struct tcp_claim *claim, uint32_t low, uint32_t high)
{
	int64_t from = (int32_t)(low - claim->first), to = (int32_t)(high - claim->first);

	if (from < 0)
		from = 0;
	if (to >= claim->count)
		to = (int64_t)claim->count - 1;
	return to >= from ? (uint32_t)(to - from + 1) : 0;
}

static void note_copied(struct tcp_zerocopy *zerocopy, bool copied, uint32_t sends)
{
	if (!copied) {
		zerocopy->copied_run = 0;
		return;
	}
	atomic_fetch_add_explicit(&zerocopy->all->copied, sends, memory_order_relaxed);
	zerocopy->copied_run += sends;
	if (zerocopy->copied_run >= COPIED_RUN_MAX &&
	    zerocopy->config->tcp_zerocopy != OTTE_ZEROCOPY_ALWAYS)
		zerocopy->stopped = true;
}

static void note(struct tcp_zerocopy *zerocopy, const struct sock_extended_err *error,
		 struct tcp_claim **proven)
{
	uint32_t sends = error->ee_data - error->ee_info + 1;
	struct tcp_claim *claim, *next;

	note_copied(zerocopy, error->ee_code & SO_EE_CODE_ZEROCOPY_COPIED, sends);
	atomic_fetch_sub_explicit(&zerocopy->all->outstanding, sends, memory_order_relaxed);
	DL_FOREACH_SAFE(zerocopy->claims, claim, next) {
		claim->left -= overlap(claim, error->ee_info, error->ee_data);
		if (claim->left)
			continue;
		DL_DELETE(zerocopy->claims, claim);
		claim->next = *proven;
		*proven = claim;
	}
}

/* The kernel's notification in a message of the error queue; NULL: it holds something else. */
static const struct sock_extended_err *notification(struct msghdr *message)
{
	const struct sock_extended_err *error;
	struct cmsghdr *part;

	for (part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		if (!(part->cmsg_level == SOL_IP && part->cmsg_type == IP_RECVERR) &&
		    !(part->cmsg_level == SOL_IPV6 && part->cmsg_type == IPV6_RECVERR))
			continue;
		error = (const void *)CMSG_DATA(part);
		if (error->ee_origin == SO_EE_ORIGIN_ZEROCOPY && !error->ee_errno)
			return error;
	}
	return NULL;
}

struct tcp_claim *tcp_zerocopy_reap(struct tcp_zerocopy *zerocopy)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(struct sock_extended_err) + sizeof(struct sockaddr_in6))];
	} control;
	const struct sock_extended_err *error;
	struct tcp_claim *proven = NULL;

	for (;;) {
		struct msghdr message = {
			.msg_control = &control,
			.msg_controllen = sizeof(control),
		};

		if (otte_sys_recvmsg(zerocopy->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
			if (errno == EINTR)
				continue;
			return proven;
		}
		error = notification(&message);
		if (error)
			note(zerocopy, error, &proven);
	}
}

/* ---- The end of a connection ---- */

struct tcp_claim *tcp_zerocopy_disconnect(struct tcp_zerocopy *zerocopy)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct tcp_claim *proven, *more;

	zerocopy->stopped = true;
	proven = tcp_zerocopy_reap(zerocopy);
	/* Without claims a close is enough, and lets copies that are under way arrive. */
	if (!zerocopy->claims || zerocopy->disconnected)
		return proven;
	zerocopy->disconnected = connect(zerocopy->fd, &nobody, sizeof(nobody)) == 0;
	more = tcp_zerocopy_reap(zerocopy);
	LL_CONCAT(proven, more);
	return proven;
}

void tcp_zerocopy_linger(struct tcp_zerocopy *zerocopy, const struct tcp_linger_ops *ops, void *arg)
{
	struct tcp_zerocopies *all = zerocopy->all;

	zerocopy->ops = ops;
	zerocopy->arg = arg;
	zerocopy->since_ns = otte_now_ns();
	pthread_mutex_lock(&all->lock);
	DL_APPEND(all->lingering, zerocopy);
	pthread_mutex_unlock(&all->lock);
}

static void retain_claims(struct tcp_zerocopy *zerocopy)
{
	struct tcp_claim *claim;

	DL_FOREACH(zerocopy->claims, claim) {
		if (claim->retained)
			continue;
		claim->retained = zerocopy->ops->retain(claim) == 0;
		if (claim->retained)
			otte_log(OTTE_LOG_WARNING, "the kernel has not released %u sends of a lane that is "
				 "down; their memory is retained", claim->left);
	}
}

/* True: it is over, and freed. */
static bool look_after(struct tcp_zerocopy *zerocopy, uint64_t now_ns)
{
	struct tcp_claim *proven, *next;

	for (proven = tcp_zerocopy_disconnect(zerocopy); proven; proven = next) {
		next = proven->next;
		zerocopy->ops->proven(proven);
	}
	if (zerocopy->claims) {
		if (now_ns - min_u64(now_ns, zerocopy->since_ns) > LINGER_NS)
			retain_claims(zerocopy);
		return false;
	}
	otte_fd_close(zerocopy->fd);
	if (zerocopy->ops->over)
		zerocopy->ops->over(zerocopy->arg);
	tcp_zerocopy_close(zerocopy);
	return true;
}

/* Whoever comes takes all of them off the list, so that nothing is called under its lock. */
void tcp_zerocopies_tick(struct tcp_zerocopies *all, uint64_t now_ns)
{
	struct tcp_zerocopy *taken, *zerocopy, *next;

	pthread_mutex_lock(&all->lock);
	taken = all->lingering;
	all->lingering = NULL;
	pthread_mutex_unlock(&all->lock);
	DL_FOREACH_SAFE(taken, zerocopy, next) {
		if (look_after(zerocopy, now_ns))
			continue;
		pthread_mutex_lock(&all->lock);
		DL_APPEND(all->lingering, zerocopy);
		pthread_mutex_unlock(&all->lock);
	}
}
