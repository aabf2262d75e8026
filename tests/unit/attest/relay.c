/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS 32

static struct sockaddr_in loopback(uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	at.sin_port = htons(port);
	return at;
}

static void raise_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	request.ifr_flags = IFF_UP;
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &request), 0);
	close(fd);
}

int relay_enter(struct relay *relay)
{
	struct sockaddr_in at = loopback(0);
	socklen_t length = sizeof(at);

	relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(relay->listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(relay->listener, PAIRS), 0);
	assert_int_equal(getsockname(relay->listener, (struct sockaddr *)&at, &length), 0);
	relay->port = ntohs(at.sin_port);
	relay->home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_true(relay->home >= 0);
	if (unshare(CLONE_NEWNET)) {
		close(relay->home);
		close(relay->listener);
		return -1;
	}
	raise_loopback();
	return 0;
}

/* All of it, or the end of both. */
static int pass(int from, int to)
{
	char bytes[4096];
	ssize_t n = recv(from, bytes, sizeof(bytes), 0);

	if (n > 0)
		return send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -1;
	shutdown(from, SHUT_RDWR);
	shutdown(to, SHUT_RDWR);
	return -1;
}

static int dial(uint16_t port)
{
	struct sockaddr_in to = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (struct sockaddr *)&to, sizeof(to)) ? -1 : fd;
}

static void *run(void *arg)
{
	struct relay *relay = arg;
	struct pollfd fds[1 + 2 * PAIRS] = { { .fd = relay->listener, .events = POLLIN } };
	nfds_t count = 1, i;

	for (;;) {
		poll(fds, count, -1);
		for (i = 1; i < count; i++) {
			nfds_t other = i % 2 ? i + 1 : i - 1;

			if (fds[i].fd >= 0 && fds[i].revents && pass(fds[i].fd, fds[other].fd)) {
				close(fds[i].fd);
				close(fds[other].fd);
				fds[i].fd = fds[other].fd = -1;
			}
		}
		if (!fds[0].revents)
			continue;
		if (count == sizeof(fds) / sizeof(fds[0]))
			break;
		fds[count] = (struct pollfd){ accept(relay->listener, NULL, NULL), POLLIN, 0 };
		if (fds[count].fd < 0)
			break;
		fds[count + 1] = (struct pollfd){ dial(relay->target), POLLIN, 0 };
		count += 2;
	}
	for (i = 1; i < count; i++)
		close(fds[i].fd);
	return NULL;
}

void relay_leave(struct relay *relay)
{
	assert_int_equal(pthread_create(&relay->thread, NULL, run, relay), 0);
	assert_int_equal(setns(relay->home, CLONE_NEWNET), 0);
	close(relay->home);
}

void relay_close(struct relay *relay)
{
	shutdown(relay->listener, SHUT_RDWR);
	pthread_join(relay->thread, NULL);
	close(relay->listener);
}
