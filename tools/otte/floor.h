/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bar of the benchmark: what two processes reach with nothing but blocking sockets.
 *
 * A server process answers each fixed header with the bytes that it asks for (READ), or takes the
 * bytes that follow it and answers with a receipt (WRITE). No libotte is involved. One connection
 * belongs to one thread of the client and has a thread of its own in the server.
 */
#ifndef OTTE_TOOL_FLOOR_H
#define OTTE_TOOL_FLOOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct floor_options {
	const char *congestion; /* NULL or "": the system's */
	uint64_t send_buffer_bytes; /* 0: the system's */
	uint64_t receive_buffer_bytes;
	uint64_t memory_bytes; /* what the server answers from; largest size x batch */
	int server_cpu; /* -1: not pinned */
};

struct floor {
	struct floor_options options;
	pid_t server;
	uint16_t port;
};

/* Start the server process on a free loopback port. 0 or a negative errno. Fork-safe callers only. */
int floor_start(struct floor *floor, const struct floor_options *options);

/* A connected descriptor for one thread, or a negative errno. */
int floor_connect(const struct floor *floor);

/*
 * `batch` requests of `length` bytes each, asked for together, one after the other in `memory`.
 * Returns when all bytes are in (READ) or all receipts are (WRITE). 0 or a negative errno.
 */
int floor_exchange(int fd, bool write, void *memory, uint64_t length, unsigned batch);

/* End the server process and collect it. */
void floor_stop(struct floor *floor);

#endif
