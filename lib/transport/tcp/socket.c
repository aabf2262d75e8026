/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/tcp/tcp.h"

/*
 * SO_SNDBUF to a peer on this host, where the system's grows to 4 MiB. No link has to be kept full there, but
 * both copies of a byte, into the socket and out of it, should find it in a core's own cache. The kernel
 * doubles it for its bookkeeping. More is slower on one CPU, less is slower on two (docs/performance.md).
 */
#define LOCAL_SEND_BYTES (256 * KIB)

static int set_buffer(int fd, int option, uint64_t bytes, const char *key)
{
	int value = (int)bytes;

	if (!bytes)
		return 0;
	if (setsockopt(fd, SOL_SOCKET, option, &value, sizeof(value)) < 0)
		return otte_fail(-errno, "%s: %m", key);
	return 0;
}

#define CONGESTION(which) "net.ipv4.tcp_" which "_congestion_control"

static int refuse_congestion(const char *name, int error)
{
	if (error == ENOENT)
		return otte_fail(-ENOENT, "tcp.congestion \"%s\": not among " CONGESTION("available"),
				 name);
	if (error == EPERM)
		return otte_fail(-EPERM, "tcp.congestion \"%s\": not among " CONGESTION("allowed"),
				 name);
	return otte_fail(-error, "tcp.congestion \"%s\": %s", name, strerror(error));
}

int tcp_socket_prepare(const struct otte_config *config, int fd)
{
	unsigned int timeout_ms = (unsigned int)(config->tcp_stall_ns / NSEC_PER_MSEC);
	int one = 1, ret;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
	ret = set_buffer(fd, SO_SNDBUF, config->tcp_send_buffer, "tcp.send_buffer_bytes");
	if (!ret)
		ret = set_buffer(fd, SO_RCVBUF, config->tcp_receive_buffer,
				 "tcp.receive_buffer_bytes");
	if (!ret && config->tcp_congestion[0] &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, config->tcp_congestion,
		       (socklen_t)strlen(config->tcp_congestion)) < 0)
		ret = refuse_congestion(config->tcp_congestion, errno);
	return ret;
}

/* Of two addresses of one family: a connection to this host has the same at both ends, or is loopback. */
static bool is_local(int fd)
{
	struct sockaddr_storage ours = { 0 }, theirs = { 0 };
	const struct sockaddr_in6 *ours6 = (const struct sockaddr_in6 *)&ours;
	const struct sockaddr_in6 *theirs6 = (const struct sockaddr_in6 *)&theirs;
	const struct sockaddr_in *ours4 = (const struct sockaddr_in *)&ours;
	const struct sockaddr_in *theirs4 = (const struct sockaddr_in *)&theirs;
	socklen_t ours_length = sizeof(ours), theirs_length = sizeof(theirs);

	if (getsockname(fd, (struct sockaddr *)&ours, &ours_length) < 0 ||
	    getpeername(fd, (struct sockaddr *)&theirs, &theirs_length) < 0)
		return false;
	if (theirs.ss_family == AF_INET)
		return ours4->sin_addr.s_addr == theirs4->sin_addr.s_addr ||
		       ntohl(theirs4->sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
	return theirs.ss_family == AF_INET6 &&
	       memcmp(&ours6->sin6_addr, &theirs6->sin6_addr, sizeof(ours6->sin6_addr)) == 0;
}

bool tcp_socket_connected(const struct otte_config *config, int fd)
{
	const struct timeval alone = { .tv_usec = TCP_ALONE_MS * 1000 };
	int value = LOCAL_SEND_BYTES;
	bool local = is_local(fd);

	/* Who would not sleep says so with each call. */
	fcntl(fd, F_SETFL, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &alone, sizeof(alone));
	if (!config->tcp_send_buffer && local)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof(value));
	return local;
}
