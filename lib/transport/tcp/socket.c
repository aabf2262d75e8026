/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/tcp/tcp.h"

static int set_buffer(int fd, int option, uint64_t bytes, const char *key)
{
	int value = (int)bytes;

	if (!bytes)
		return 0;
	if (setsockopt(fd, SOL_SOCKET, option, &value, sizeof(value)) < 0)
		return otte_fail(-errno, "%s: %m", key);
	return 0;
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
		ret = otte_fail(-errno, "tcp.congestion \"%s\": %m", config->tcp_congestion);
	return ret;
}
