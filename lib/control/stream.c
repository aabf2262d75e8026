/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "control/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"

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
}

/* 1: `want` bytes stand in `to`; 0: not yet; else negative. */
static int fill(struct otte_stream *stream, uint8_t *to, uint32_t want)
{
	ssize_t n;

	while (stream->got < want) {
		n = recv(stream->fd, to + stream->got, want - stream->got, MSG_DONTWAIT);
		if (n == 0)
			return otte_fail(-ECONNRESET, "the peer closed the connection");
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n < 0)
			return otte_fail(-errno, "recv: %m");
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

int otte_stream_receive(struct otte_stream *stream, struct otte_frame *frame,
			const uint8_t **payload)
{
	int ret;

	if (!stream->have_header) {
		ret = fill(stream, stream->header, OTTE_FRAME_HEADER);
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
	ret = fill(stream, stream->payload, stream->frame.length);
	if (ret <= 0)
		return ret;
	stream->have_header = false;
	stream->got = 0;
	*frame = stream->frame;
	*payload = stream->payload;
	return 1;
}

int otte_stream_flush(struct otte_stream *stream)
{
	struct otte_tx *tx;
	ssize_t n;

	while ((tx = stream->tx)) {
		n = send(stream->fd, tx->bytes + tx->sent, tx->length - tx->sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 1;
		if (n < 0)
			return otte_fail(-ECONNRESET, "send: %m");
		tx->sent += (size_t)n;
		if (tx->sent < tx->length)
			continue;
		stream->tx = tx->next;
		if (!stream->tx)
			stream->tx_tail = &stream->tx;
		stream->tx_bytes -= tx->length;
		free(tx);
	}
	return 0;
}

int otte_stream_send(struct otte_stream *stream, const struct otte_frame *frame,
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
	return otte_stream_flush(stream);
}
