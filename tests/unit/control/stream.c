// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Frames over a socket: many with one system call, and what there is when it ends in the middle of
 * one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/stream.h"
#include "suites.h"

#define BUFFER 512

struct link {
	int fds[2];
	struct otte_stream to, from;
};

static void link_open(struct link *link, int type)
{
	assert_int_equal(socketpair(AF_UNIX, type, 0, link->fds), 0);
	otte_stream_init(&link->to, link->fds[0], 4096, 1 << 20);
	otte_stream_init(&link->from, link->fds[1], 4096, 1 << 20);
}

static void link_close(struct link *link)
{
	otte_stream_fini(&link->to);
	otte_stream_fini(&link->from);
	close(link->fds[0]);
	close(link->fds[1]);
}

/* Number `n` is of 1 to 16 bytes, and has the number as its id. */
static void fill_numbered(unsigned n, struct otte_frame *frame, uint8_t payload[16])
{
	*frame = (struct otte_frame){ .type = OTTE_FRAME_NOTIFY, .length = 1 + n % 16, .id = n };
	memset(payload, (int)(n * 7 + 1), 16);
}

static void queue_numbered(struct link *link, unsigned n)
{
	struct otte_frame frame;
	uint8_t payload[16];

	fill_numbered(n, &frame, payload);
	assert_int_equal(otte_stream_queue(&link->to, &frame, payload), 0);
}

static void check_numbered(unsigned n, const struct otte_frame *frame, const uint8_t *payload)
{
	struct otte_frame expected;
	uint8_t bytes[16];

	fill_numbered(n, &expected, bytes);
	assert_int_equal(frame->id, n);
	assert_int_equal(frame->length, expected.length);
	assert_memory_equal(payload, bytes, expected.length);
}

static void hear_numbered(struct link *link, unsigned n)
{
	struct otte_frame frame;
	const uint8_t *payload;

	assert_int_equal(otte_stream_receive(&link->from, &frame, &payload), 1);
	check_numbered(n, &frame, payload);
}

static int in_socket(const struct link *link)
{
	int bytes;

	assert_int_equal(ioctl(link->fds[1], FIONREAD, &bytes), 0);
	return bytes;
}

/* A socket that keeps what was sent with one call together shows how many calls there were. */
static void what_is_queued_goes_with_one_call(void **state)
{
	struct link link;
	uint8_t bytes[4096];
	unsigned i, total = 0;

	(void)state;
	link_open(&link, SOCK_SEQPACKET);
	for (i = 0; i < 10; i++) {
		queue_numbered(&link, i);
		total += OTTE_FRAME_HEADER + 1 + i % 16;
	}
	assert_int_equal(recv(link.fds[1], bytes, sizeof(bytes), MSG_DONTWAIT), -1);
	assert_int_equal(otte_stream_flush(&link.to), 0);
	assert_int_equal(recv(link.fds[1], bytes, sizeof(bytes), MSG_DONTWAIT), total);
	assert_int_equal(recv(link.fds[1], bytes, sizeof(bytes), MSG_DONTWAIT), -1);
	assert_int_equal(link.to.tx_bytes, 0);
	link_close(&link);
}

/* More than a socket takes at a time: each frame arrives whole, and in order. */
static void what_has_no_room_goes_later(void **state)
{
	struct link link;
	unsigned sent, heard = 0;
	int small = 4096, ret = 1;

	(void)state;
	link_open(&link, SOCK_STREAM);
	assert_int_equal(setsockopt(link.fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	for (sent = 0; sent < 2000; sent++)
		queue_numbered(&link, sent);
	assert_int_equal(otte_stream_flush(&link.to), 1);
	while (heard < sent) {
		hear_numbered(&link, heard++);
		if (ret == 1 && in_socket(&link) == 0)
			ret = otte_stream_flush(&link.to);
	}
	assert_int_equal(ret, 0);
	assert_int_equal(link.to.tx_bytes, 0);
	link_close(&link);
}

#define LONG_BYTES 200000

/* Longer than the socket has room for. */
static void a_frame_may_go_in_parts(void **state)
{
	struct otte_frame frame = { .type = OTTE_FRAME_REGIONS, .length = LONG_BYTES };
	uint8_t *bytes = malloc(LONG_BYTES);
	int small = 4096, ret, parts = 0;
	const uint8_t *payload;
	struct link link;
	unsigned i;

	(void)state;
	link_open(&link, SOCK_STREAM);
	link.from.max_payload = LONG_BYTES;
	assert_int_equal(setsockopt(link.fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	for (i = 0; i < LONG_BYTES; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 24);
	assert_int_equal(otte_stream_queue(&link.to, &frame, bytes), 0);
	queue_numbered(&link, 1);
	do {
		ret = otte_stream_flush(&link.to);
		parts += ret == 1;
	} while ((i = (unsigned)otte_stream_receive(&link.from, &frame, &payload)) == 0 &&
		 ret == 1);
	assert_int_equal(i, 1);
	assert_true(parts > 2);
	assert_memory_equal(payload, bytes, LONG_BYTES);
	assert_int_equal(otte_stream_flush(&link.to), 0);
	hear_numbered(&link, 1);
	link_close(&link);
	free(bytes);
}

static void the_queue_is_bounded(void **state)
{
	const struct otte_frame frame = { .type = OTTE_FRAME_NOTIFY, .length = 1 };
	struct link link;
	uint8_t payload = 1;
	unsigned i;

	(void)state;
	link_open(&link, SOCK_STREAM);
	link.to.tx_limit = 100;
	for (i = 0; i < 4; i++)
		assert_int_equal(otte_stream_queue(&link.to, &frame, &payload), 0);
	assert_int_equal(otte_stream_queue(&link.to, &frame, &payload), -EDQUOT);
	assert_int_equal(otte_stream_flush(&link.to), 0);
	assert_int_equal(otte_stream_queue(&link.to, &frame, &payload), 0);
	link_close(&link);
}

static void many_are_received_at_a_time(void **state)
{
	struct otte_frame frame;
	const uint8_t *payload;
	struct link link;
	unsigned i;

	(void)state;
	link_open(&link, SOCK_STREAM);
	assert_int_equal(otte_stream_buffer(&link.from, BUFFER), 0);
	for (i = 0; i < 10; i++)
		queue_numbered(&link, i);
	assert_int_equal(otte_stream_flush(&link.to), 0);
	hear_numbered(&link, 0);
	assert_int_equal(in_socket(&link), 0);
	for (i = 1; i < 10; i++)
		hear_numbered(&link, i);
	assert_int_equal(otte_stream_receive(&link.from, &frame, &payload), 0);
	/* What comes later is found, too, and so is the end. */
	queue_numbered(&link, 10);
	assert_int_equal(otte_stream_flush(&link.to), 0);
	hear_numbered(&link, 10);
	assert_int_equal(otte_stream_receive(&link.from, &frame, &payload), 0);
	shutdown(link.fds[0], SHUT_RDWR);
	assert_int_equal(otte_stream_receive(&link.from, &frame, &payload), -ECONNRESET);
	link_close(&link);
}

/* Buffers of a length that no frame's ends with, and frames that come byte by byte. */
static void wherever_the_buffer_ends(void **state)
{
	struct otte_frame frame;
	const uint8_t *payload;
	struct link link;
	uint8_t bytes[64];
	unsigned size, i, n;
	int ret;

	(void)state;
	for (size = 1; size < 96; size++) {
		link_open(&link, SOCK_STREAM);
		assert_int_equal(otte_stream_buffer(&link.from, size), 0);
		for (i = 0; i < 12; i++)
			queue_numbered(&link, i);
		assert_int_equal(otte_stream_flush(&link.to), 0);
		for (i = 0; i < 12; i++)
			hear_numbered(&link, i);
		fill_numbered(12, &frame, bytes + OTTE_FRAME_HEADER);
		otte_frame_encode(&frame, bytes);
		n = OTTE_FRAME_HEADER + frame.length;
		for (i = 0; i < n; i++) {
			while ((ret = otte_stream_receive(&link.from, &frame, &payload)) == 0 &&
			       in_socket(&link))
				;
			assert_int_equal(ret, 0);
			assert_int_equal(send(link.fds[0], bytes + i, 1, 0), 1);
		}
		while ((ret = otte_stream_receive(&link.from, &frame, &payload)) == 0 &&
		       in_socket(&link))
			;
		assert_int_equal(ret, 1);
		check_numbered(12, &frame, payload);
		link_close(&link);
	}
}

/* A reader that stops for now hears to its end what no loop would tell it of. */
static void what_was_received_is_heard_without_the_socket(void **state)
{
	struct otte_frame frame;
	const uint8_t *payload;
	struct link link;
	unsigned i, before;

	(void)state;
	link_open(&link, SOCK_STREAM);
	assert_int_equal(otte_stream_buffer(&link.from, BUFFER), 0);
	for (i = 0; i < 100; i++)
		queue_numbered(&link, i);
	assert_int_equal(otte_stream_flush(&link.to), 0);
	hear_numbered(&link, 0);
	before = (unsigned)in_socket(&link);
	assert_true(before > 0);
	for (i = 1; otte_stream_receive_buffered(&link.from, &frame, &payload) == 1; i++)
		check_numbered(i, &frame, payload);
	assert_in_range(i, 10, 20);
	assert_int_equal(in_socket(&link), before);
	for (; i < 100; i++)
		hear_numbered(&link, i);
	link_close(&link);
}

int run_stream_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_queued_goes_with_one_call),
		cmocka_unit_test(what_has_no_room_goes_later),
		cmocka_unit_test(a_frame_may_go_in_parts),
		cmocka_unit_test(the_queue_is_bounded),
		cmocka_unit_test(many_are_received_at_a_time),
		cmocka_unit_test(wherever_the_buffer_ends),
		cmocka_unit_test(what_was_received_is_heard_without_the_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
