/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/line.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/util.h"

/* What is said and not yet sent; a line that has more to say has a peer that does not listen. */
#define UNSENT_BYTES (1 * MIB)
/* At a time: some 60 messages. */
#define RECEIVE_BYTES (4 * KIB)

/*
 * A host without power closes no connection, and may be owed nothing that it would have to
 * acknowledge. So it is asked for a sign of life whenever it has been silent for a while, by the
 * kernel: a process that is busy, or stopped, has it given for it.
 */
static void expect_signs_of_life(int fd, uint64_t silence_ns)
{
	const unsigned int limit_ms = (unsigned int)(silence_ns / NSEC_PER_MSEC);
	const int pause_s = (int)max_u64(1, silence_ns / NSEC_PER_SEC / 4), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &pause_s, sizeof(pause_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause_s, sizeof(pause_s));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
}

int otte_rdma_line_open(struct otte_rdma_line *line, struct otte_rdma_lines *lines, int fd)
{
	int one = 1, ret;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	expect_signs_of_life(fd, lines->silence_ns);
	line->lines = lines;
	line->unsent = line->waits_for_room = false;
	otte_stream_init(&line->stream, fd, OTTE_RDMA_FRAME_MAX, UNSENT_BYTES);
	ret = otte_stream_buffer(&line->stream, RECEIVE_BYTES);
	if (ret)
		return ret;
	line->watch.fd = fd;
	ret = otte_loop_add(lines->loop, &line->watch, EPOLLIN);
	if (!ret)
		return 0;
	line->watch.fd = -1;
	otte_stream_fini(&line->stream);
	return ret;
}

/* Out of those that have something to send. */
static void settle(struct otte_rdma_line *line)
{
	if (line->unsent)
		DL_DELETE(line->lines->unsent, line);
	line->unsent = false;
}

void otte_rdma_line_close(struct otte_rdma_line *line)
{
	if (!otte_rdma_line_is_open(line))
		return;
	if (line->unsent)
		otte_stream_flush(&line->stream);
	settle(line);
	otte_loop_remove(line->lines->loop, &line->watch);
	otte_stream_fini(&line->stream);
	otte_fd_close(line->watch.fd);
	line->watch.fd = -1;
}

/* What a send or flush has returned: 1: wait until the socket is writable. */
static int after_send(struct otte_rdma_line *line, int ret)
{
	bool wait = ret == 1;

	if (ret < 0 || wait == line->waits_for_room)
		return ret < 0 ? ret : 0;
	line->waits_for_room = wait;
	return otte_loop_change(line->lines->loop, &line->watch, EPOLLIN | (wait ? EPOLLOUT : 0u));
}

int otte_rdma_line_say(struct otte_rdma_line *line, const struct otte_rdma_message *message)
{
	struct otte_frame frame = { .type = OTTE_FRAME_RDMA };
	uint8_t bytes[OTTE_RDMA_FRAME_MAX];
	ssize_t length;
	int ret;

	if (!otte_rdma_line_is_open(line))
		return otte_fail(-ENOTCONN, "the peer has no lane for RDMA");
	length = otte_rdma_message_encode(message, bytes, sizeof(bytes));
	if (length < 0)
		return (int)length;
	frame.length = (uint32_t)length;
	ret = otte_stream_queue(&line->stream, &frame, bytes);
	if (ret || line->unsent || line->waits_for_room)
		return ret;
	line->unsent = true;
	DL_APPEND(line->lines->unsent, line);
	return 0;
}

void otte_rdma_lines_send(struct otte_rdma_lines *lines)
{
	struct otte_rdma_line *line, *next;

	DL_FOREACH_SAFE(lines->unsent, line, next) {
		settle(line);
		if (otte_rdma_line_flush(line))
			shutdown(line->watch.fd, SHUT_RDWR);
	}
}

int otte_rdma_line_greet(struct otte_rdma_line *line, const struct otte_lane_hello *hello)
{
	const struct otte_frame frame = {
		.type = otte_lane_frame(OTTE_LANE_RDMA),
		.length = OTTE_LANE_HELLO_BYTES,
	};
	uint8_t bytes[OTTE_LANE_HELLO_BYTES];

	otte_lane_hello_encode(hello, bytes, sizeof(bytes));
	return after_send(line, otte_stream_send(&line->stream, &frame, bytes));
}

static int hear(struct otte_rdma_line *line, bool only_here, struct otte_frame *frame,
		const uint8_t **payload)
{
	char text[OTTE_TEXT_MAX];
	int ret = only_here ? otte_stream_receive_buffered(&line->stream, frame, payload) :
			      otte_stream_receive(&line->stream, frame, payload);

	if (ret != 1 || frame->type != OTTE_FRAME_ERROR)
		return ret;
	if (otte_text_decode(*payload, frame->length, text))
		return -EPROTO;
	return otte_fail(frame->status, "the peer refuses: %s", text);
}

int otte_rdma_line_greeted(struct otte_rdma_line *line)
{
	struct otte_frame frame;
	const uint8_t *payload;
	int ret = hear(line, false, &frame, &payload);

	if (ret != 1)
		return ret < 0 ? ret : 1;
	if (frame.type != OTTE_FRAME_LANE_READY || frame.status)
		return otte_fail(-EPROTO,
				 "a lane's hello is answered with frame type %u, status %d",
				 frame.type, frame.status);
	return 0;
}

int otte_rdma_line_hear(struct otte_rdma_line *line, bool only_here,
			struct otte_rdma_message *message)
{
	struct otte_frame frame;
	const uint8_t *payload;
	int ret = hear(line, only_here, &frame, &payload);

	if (ret != 1)
		return ret;
	if (frame.type != OTTE_FRAME_RDMA)
		return otte_fail(-EPROTO, "frame type %u on a lane for RDMA", frame.type);
	ret = otte_rdma_message_decode(payload, frame.length, message);
	return ret ? ret : 1;
}

int otte_rdma_line_flush(struct otte_rdma_line *line)
{
	return after_send(line, otte_stream_flush(&line->stream));
}
