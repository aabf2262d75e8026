/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "control/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"

/* Of a queue, with one system call. */
#define FRAMES_A_CALL 16

struct otte_tx {
	struct otte_tx *next;
	size_t length, sent;
	uint8_t bytes[];
};

void otte_stream_init(struct otte_stream *stream, int fd, uint32_t max_payload, size_t tx_limit)
{
	memset(stream, 0, sizeof(*stream));
	stream->fd = fd;
	stream->max_payload = max_payload;
	stream->tx_limit = tx_limit;
	stream->tx_tail = &stream->tx;
}

void otte_stream_fini(struct otte_stream *stream)
{
	struct otte_tx *tx;

	while ((tx = stream->tx)) {
		stream->tx = tx->next;
		free(tx);
	}
	stream->tx_tail = &stream->tx;
	stream->tx_bytes = 0;
	free(stream->payload);
	stream->payload = NULL;
	stream->capacity = 0;
	free(stream->in);
	stream->in = NULL;
	stream->in_begin = stream->in_end = 0;
}

int otte_stream_buffer(struct otte_stream *stream, uint32_t bytes)
{
	stream->in = malloc(bytes);
	if (!stream->in)
		return otte_fail(-ENOMEM, "no memory for what is received");
	stream->in_size = bytes;
	return 0;
}

/* How many; 0: none yet; else negative. */
static ssize_t receive(struct otte_stream *stream, void *to, size_t most)
{
	ssize_t n;

	do
		n = recv(stream->fd, to, most, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return otte_fail(-ECONNRESET, "the peer closed the connection");
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	return n < 0 ? otte_fail(-errno, "recv: %m") : n;
}

/*
 * Into the buffer, which is empty. A socket that gave less than there was room for is not asked
 * twice in a row.
 */
static ssize_t refill(struct otte_stream *stream)
{
	ssize_t n;

	if (stream->in_drained) {
		stream->in_drained = false;
		return 0;
	}
	n = receive(stream, stream->in, stream->in_size);
	if (n <= 0)
		return n;
	stream->in_begin = 0;
	stream->in_end = (uint32_t)n;
	stream->in_drained = stream->in_end < stream->in_size;
	return n;
}

static uint32_t take_buffered(struct otte_stream *stream, uint8_t *to, uint32_t most)
{
	uint32_t n = stream->in_end - stream->in_begin;

	if (n > most)
		n = most;
	memcpy(to, stream->in + stream->in_begin, n);
	stream->in_begin += n;
	return n;
}

/* 1: `want` bytes stand in `to`; 0: not yet; else negative. */
static int fill(struct otte_stream *stream, uint8_t *to, uint32_t want, bool may_receive)
{
	ssize_t n;

	while (stream->got < want) {
		if (stream->in_begin < stream->in_end)
			n = take_buffered(stream, to + stream->got, want - stream->got);
		else if (!may_receive)
			return 0;
		else if (!stream->in)
			n = receive(stream, to + stream->got, want - stream->got);
		else if ((n = refill(stream)) > 0)
			continue;
		if (n <= 0)
			return (int)n;
		stream->got += (uint32_t)n;
	}
	return 1;
}

static int reserve_payload(struct otte_stream *stream, uint32_t length)
{
	uint8_t *larger;

	if (length <= stream->capacity)
		return 0;
	larger = realloc(stream->payload, length);
	if (!larger)
		return otte_fail(-ENOMEM, "no memory for a frame of %u bytes", length);
	stream->payload = larger;
	stream->capacity = length;
	return 0;
}

static int next_frame(struct otte_stream *stream, bool may_receive, struct otte_frame *frame,
		      const uint8_t **payload)
{
	int ret;

	if (!stream->have_header) {
		ret = fill(stream, stream->header, OTTE_FRAME_HEADER, may_receive);
		if (ret <= 0)
			return ret;
		ret = otte_frame_decode(stream->header, stream->max_payload, &stream->frame);
		if (ret)
			return ret;
		ret = reserve_payload(stream, stream->frame.length);
		if (ret)
			return ret;
		stream->have_header = true;
		stream->got = 0;
	}
	ret = fill(stream, stream->payload, stream->frame.length, may_receive);
	if (ret <= 0)
		return ret;
	stream->have_header = false;
	stream->got = 0;
	*frame = stream->frame;
	*payload = stream->payload;
	return 1;
}

int otte_stream_receive(struct otte_stream *stream, struct otte_frame *frame,
			const uint8_t **payload)
{
	return next_frame(stream, true, frame, payload);
}

int otte_stream_receive_buffered(struct otte_stream *stream, struct otte_frame *frame,
				 const uint8_t **payload)
{
	return next_frame(stream, false, frame, payload);
}

/* How many bytes of the queue went. */
static ssize_t send_some(struct otte_stream *stream)
{
	struct iovec parts[FRAMES_A_CALL];
	struct msghdr message = { .msg_iov = parts };
	struct otte_tx *tx;
	ssize_t n;

	for (tx = stream->tx; tx && message.msg_iovlen < FRAMES_A_CALL; tx = tx->next)
		parts[message.msg_iovlen++] =
			(struct iovec){ tx->bytes + tx->sent, tx->length - tx->sent };
	do
		n = sendmsg(stream->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

/* Out of the queue. */
static void sent(struct otte_stream *stream, size_t bytes)
{
	struct otte_tx *tx;
	size_t part;

	while (bytes && (tx = stream->tx)) {
		part = tx->length - tx->sent;
		if (part > bytes) {
			tx->sent += bytes;
			return;
		}
		bytes -= part;
		stream->tx = tx->next;
		if (!stream->tx)
			stream->tx_tail = &stream->tx;
		stream->tx_bytes -= tx->length;
		free(tx);
	}
}

int otte_stream_flush(struct otte_stream *stream)
{
	ssize_t n;

	while (stream->tx) {
		n = send_some(stream);
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 1;
		if (n < 0)
			return otte_fail(-ECONNRESET, "send: %m");
		sent(stream, (size_t)n);
	}
	return 0;
}

int otte_stream_queue(struct otte_stream *stream, const struct otte_frame *frame,
		      const void *payload)
{
	size_t length = OTTE_FRAME_HEADER + (size_t)frame->length;
	struct otte_tx *tx;

	if (length > stream->tx_limit - stream->tx_bytes)
		return otte_fail(-EDQUOT, "a control connection has %zu bytes unsent",
				 stream->tx_bytes);
	tx = malloc(sizeof(*tx) + length);
	if (!tx)
		return otte_fail(-ENOMEM, "no memory for a frame of %zu bytes", length);
	tx->next = NULL;
	tx->length = length;
	tx->sent = 0;
	otte_frame_encode(frame, tx->bytes);
	if (frame->length)
		memcpy(tx->bytes + OTTE_FRAME_HEADER, payload, frame->length);
	*stream->tx_tail = tx;
	stream->tx_tail = &tx->next;
	stream->tx_bytes += length;
	return 0;
}

int otte_stream_send(struct otte_stream *stream, const struct otte_frame *frame,
		     const void *payload)
{
	int ret = otte_stream_queue(stream, frame, payload);

	return ret ? ret : otte_stream_flush(stream);
}
