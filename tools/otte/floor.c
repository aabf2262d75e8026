/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "floor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pin.h"

#define FLOOR_BATCH_MAX 1024

struct floor_header {
	uint64_t write; /* 0: send me `length` bytes from `offset`; 1: they follow */
	uint64_t offset;
	uint64_t length;
};

struct floor_connection {
	int fd;
	char *memory;
	uint64_t memory_bytes;
};

static int send_all(int fd, const void *data, uint64_t length, int flags)
{
	const char *at = data;

	while (length) {
		ssize_t n = send(fd, at, length, flags | MSG_NOSIGNAL);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		at += n;
		length -= (uint64_t)n;
	}
	return 0;
}

static int receive_all(int fd, void *data, uint64_t length)
{
	char *at = data;

	while (length) {
		ssize_t n = recv(fd, at, length, MSG_WAITALL);

		if (n == 0)
			return -ECONNRESET;
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		at += n;
		length -= (uint64_t)n;
	}
	return 0;
}

static int set_up_socket(int fd, const struct floor_options *options)
{
	int one = 1, size;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		return -errno;
	if (options->congestion && *options->congestion &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options->congestion,
		       (socklen_t)strlen(options->congestion)))
		return -errno;
	if (options->send_buffer_bytes) {
		size = (int)options->send_buffer_bytes;
		if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)))
			return -errno;
	}
	if (options->receive_buffer_bytes) {
		size = (int)options->receive_buffer_bytes;
		if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)))
			return -errno;
	}
	return 0;
}

static int serve_one(const struct floor_connection *connection)
{
	struct floor_header header;
	uint64_t receipt = 0;
	int rc;

	rc = receive_all(connection->fd, &header, sizeof(header));
	if (rc)
		return rc;
	if (header.length > connection->memory_bytes ||
	    header.offset > connection->memory_bytes - header.length)
		return -ERANGE;
	if (!header.write)
		return send_all(connection->fd, connection->memory + header.offset, header.length,
				0);
	rc = receive_all(connection->fd, connection->memory + header.offset, header.length);
	if (rc)
		return rc;
	return send_all(connection->fd, &receipt, sizeof(receipt), 0);
}

static void *serve_connection(void *arg)
{
	struct floor_connection *connection = arg;

	while (!serve_one(connection))
		;
	close(connection->fd);
	free(connection);
	return NULL;
}

static void *map_memory(uint64_t length)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void serve(int listener, const struct floor_options *options)
{
	struct floor_connection *connection;
	pthread_t thread;
	char *memory = map_memory(options->memory_bytes);
	int fd;

	if (!memory)
		_exit(1);
	memset(memory, 0x5a, options->memory_bytes);
	for (;;) {
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0 && errno == EINTR)
			continue;
		connection = fd < 0 ? NULL : malloc(sizeof(*connection));
		if (!connection || set_up_socket(fd, options))
			_exit(1);
		*connection = (struct floor_connection){ fd, memory, options->memory_bytes };
		if (pthread_create(&thread, NULL, serve_connection, connection))
			_exit(1);
		pthread_detach(thread);
	}
}

static int listen_on_loopback(const struct floor_options *options, uint16_t *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	int fd, rc;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	rc = set_up_socket(fd, options);
	if (!rc && (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 64) ||
		    getsockname(fd, (struct sockaddr *)&address, &length)))
		rc = -errno;
	if (rc) {
		close(fd);
		return rc;
	}
	*port = ntohs(address.sin_port);
	return fd;
}

int floor_start(struct floor *floor, const struct floor_options *options)
{
	int listener;

	floor->options = *options;
	floor->server = -1;
	listener = listen_on_loopback(options, &floor->port);
	if (listener < 0)
		return listener;
	floor->server = fork();
	if (floor->server < 0) {
		close(listener);
		return -errno;
	}
	if (floor->server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pin_to(options->server_cpu))
			_exit(1);
		serve(listener, options);
	}
	close(listener);
	return 0;
}

int floor_connect(const struct floor *floor)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(floor->port) };
	int fd, rc;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	rc = set_up_socket(fd, &floor->options);
	if (!rc && connect(fd, (struct sockaddr *)&address, sizeof(address)))
		rc = -errno;
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

static int exchange_read(int fd, void *memory, uint64_t length, unsigned batch)
{
	struct floor_header headers[FLOOR_BATCH_MAX];
	unsigned i;
	int rc;

	for (i = 0; i < batch; i++)
		headers[i] = (struct floor_header){ 0, i * length, length };
	rc = send_all(fd, headers, batch * sizeof(headers[0]), 0);
	return rc ? rc : receive_all(fd, memory, batch * length);
}

static int exchange_write(int fd, const char *memory, uint64_t length, unsigned batch)
{
	uint64_t receipts[FLOOR_BATCH_MAX];
	struct floor_header header;
	unsigned i;
	int rc;

	for (i = 0; i < batch; i++) {
		header = (struct floor_header){ 1, i * length, length };
		rc = send_all(fd, &header, sizeof(header), MSG_MORE);
		if (!rc)
			rc = send_all(fd, memory + i * length, length, 0);
		if (rc)
			return rc;
	}
	return receive_all(fd, receipts, batch * sizeof(receipts[0]));
}

int floor_exchange(int fd, bool write, void *memory, uint64_t length, unsigned batch)
{
	if (!batch || batch > FLOOR_BATCH_MAX)
		return -EINVAL;
	return write ? exchange_write(fd, memory, length, batch) :
		       exchange_read(fd, memory, length, batch);
}

void floor_stop(struct floor *floor)
{
	if (floor->server <= 0)
		return;
	kill(floor->server, SIGKILL);
	while (waitpid(floor->server, NULL, 0) < 0 && errno == EINTR)
		;
	floor->server = -1;
}
