/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256

enum { BACK = 1, THERE = 2 };

/* Two sockets; bytes of each that wait for room in the other. */
struct pipe {
	int fd[2];             /* 0: the opener's, 1: the target's */
	unsigned frozen;
	size_t waiting[2];     /* read from fd[i], not yet written to fd[!i] */
	unsigned long long taken;
	char bytes[2][65536];
};

static struct pipe *pipes[CONNECTIONS_MAX];
static unsigned accepted;
static struct sockaddr_in target;

static void parse_address(const char *text, struct sockaddr_in *address)
{
	char host[64];
	unsigned port;

	MUST(sscanf(text, "%63[^:]:%u", host, &port) == 2, "%s", text);
	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	MUST(inet_pton(AF_INET, host, &address->sin_addr) == 1, "%s", host);
}

static void drop(unsigned n)
{
	if (n >= accepted || !pipes[n])
		return;
	close(pipes[n]->fd[0]);
	close(pipes[n]->fd[1]);
	free(pipes[n]);
	pipes[n] = NULL;
}

static void take_connection(int listener)
{
	int one = 1, fd = accept(listener, NULL, NULL);
	struct pipe *pipe;

	MUST(fd >= 0 && accepted < CONNECTIONS_MAX, "%m");
	pipe = calloc(1, sizeof(*pipe));
	MUST(pipe, "%m");
	pipe->fd[0] = fd;
	pipe->fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(pipe->fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	pipes[accepted++] = pipe;
	if (connect(pipe->fd[1], (struct sockaddr *)&target, sizeof(target)) < 0)
		drop(accepted - 1);
}

static bool frozen(const struct pipe *pipe, int from)
{
	return pipe->frozen & (from ? BACK : THERE);
}

/* False: the connection is over. */
static bool move(struct pipe *pipe, int from, const struct pollfd *ends)
{
	ssize_t n;

	if (!pipe->waiting[from] && ends[from].revents & (POLLIN | POLLHUP | POLLERR)) {
		n = recv(pipe->fd[from], pipe->bytes[from], sizeof(pipe->bytes[from]), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			return false;
		pipe->waiting[from] = n > 0 ? (size_t)n : 0;
		if (!from && n > 0)
			pipe->taken += (size_t)n;
	}
	if (!pipe->waiting[from] || frozen(pipe, from))
		return true;
	n = send(pipe->fd[!from], pipe->bytes[from], pipe->waiting[from],
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN;
	pipe->waiting[from] -= (size_t)n;
	memmove(pipe->bytes[from], pipe->bytes[from] + n, pipe->waiting[from]);
	return true;
}

static void watch(const struct pipe *pipe, struct pollfd *ends)
{
	int i;

	for (i = 0; i < 2; i++) {
		ends[i] = (struct pollfd){ .fd = pipe->fd[i] };
		if (!pipe->waiting[i])
			ends[i].events |= POLLIN;
		if (pipe->waiting[!i] && !frozen(pipe, !i))
			ends[i].events |= POLLOUT;
		/* Full and held: its hang-up is of no interest, and would be told again and again. */
		if (!ends[i].events)
			ends[i].fd = -1;
	}
}

/* False: the end of input. */
static bool obey(void)
{
	char line[256], text[128];
	unsigned n, how, i;

	if (!fgets(line, sizeof(line), stdin))
		return false;
	if (sscanf(line, "target %127s", text) == 1) {
		parse_address(text, &target);
	} else if (strcmp(line, "count\n") == 0) {
		/* the answer says it */
	} else if (sscanf(line, "drop %u", &n) == 1) {
		drop(n);
	} else if (strcmp(line, "drop all\n") == 0) {
		for (i = 0; i < accepted; i++)
			drop(i);
	} else if (sscanf(line, "freeze %u %u", &n, &how) == 2) {
		MUST(n < accepted && pipes[n], "no connection %u", n);
		pipes[n]->frozen = how;
	} else if (sscanf(line, "thaw %u", &n) == 1) {
		MUST(n < accepted, "no connection %u", n);
		if (pipes[n])
			pipes[n]->frozen = 0;
	} else if (sscanf(line, "held %u", &n) == 1) {
		MUST(n < accepted && pipes[n], "no connection %u", n);
		printf("held %llu\n", pipes[n]->taken);
		return true;
	} else {
		MUST(false, "unknown command \"%s\"", line);
	}
	printf("ok %u\n", accepted);
	return true;
}

static void run(int listener)
{
	struct pollfd set[2 + 2 * CONNECTIONS_MAX];
	unsigned i, n;

	for (;;) {
		set[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
		set[1] = (struct pollfd){ .fd = listener, .events = POLLIN };
		n = accepted;
		for (i = 0; i < n; i++) {
			set[2 + 2 * i] = set[3 + 2 * i] = (struct pollfd){ .fd = -1 };
			if (pipes[i])
				watch(pipes[i], &set[2 + 2 * i]);
		}
		MUST(poll(set, 2 + 2 * n, -1) >= 0 || errno == EINTR, "%m");
		for (i = 0; i < n; i++)
			if (pipes[i] && !(move(pipes[i], 0, &set[2 + 2 * i]) &&
					  move(pipes[i], 1, &set[2 + 2 * i])))
				drop(i);
		if (set[1].revents)
			take_connection(listener);
		if (set[0].revents && !obey())
			return;
	}
}

bool proxy_role(int argc, char **argv, int *status)
{
	struct sockaddr_in address;
	socklen_t length = sizeof(address);
	int listener;

	if (argc != 3 || strcmp(argv[1], "proxy"))
		return false;
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Commands are read one a poll(): none may hide in a buffer. */
	setvbuf(stdin, NULL, _IONBF, 0);
	parse_address(argv[2], &target);
	parse_address("127.0.0.1:0", &address);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	MUST(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	     listen(listener, 64) == 0 &&
	     getsockname(listener, (struct sockaddr *)&address, &length) == 0, "%m");
	printf("ready 127.0.0.1:%u\n", ntohs(address.sin_port));
	run(listener);
	*status = 0;
	return true;
}

void proxy_start(struct proxy *proxy, const char *address)
{
	child_start(&proxy->child, -1, "proxy", address, (char *)NULL);
	child_hear(&proxy->child);
	MUST(sscanf(proxy->child.line, "ready %63s", proxy->address) == 1, "%s", proxy->child.line);
}
