/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames over a non-blocking socket. A stream belongs to whoever embeds it and is used under the
 * owner's lock; it keeps at most one frame's payload inward and `tx_limit` bytes outward.
 */
#ifndef OTTE_CONTROL_STREAM_H
#define OTTE_CONTROL_STREAM_H

#include <stdbool.h>

#include "control/wire.h"

struct otte_tx;

struct otte_stream {
	int fd;
	uint32_t max_payload;
	uint32_t got;              /* of header, then of payload */
	bool have_header;
	uint8_t header[OTTE_FRAME_HEADER];
	struct otte_frame frame;
	uint8_t *payload;          /* as large as the largest frame so far */
	uint32_t capacity;
	uint8_t *in;               /* NULL: each part of a frame is received by itself */
	uint32_t in_size, in_begin, in_end;
	bool in_drained;           /* the last receive came short: there was no more */
	struct otte_tx *tx, **tx_tail;
	size_t tx_bytes, tx_limit;
};

void otte_stream_init(struct otte_stream *stream, int fd, uint32_t max_payload, size_t tx_limit);
/*
 * Many small frames are received at a time, so many bytes of them: where frames come in numbers.
 * -ENOMEM.
 */
int otte_stream_buffer(struct otte_stream *stream, uint32_t bytes);
/* Frees the buffers; the descriptor is the owner's. */
void otte_stream_fini(struct otte_stream *stream);

/*
 * 1: a frame is in *frame, its payload in *payload until the next call. 0: nothing whole yet.
 * -ECONNRESET: the peer closed. Else the error of recv() or of the decoder.
 */
int otte_stream_receive(struct otte_stream *stream, struct otte_frame *frame,
			const uint8_t **payload);

/* The same of what has been received into the buffer already; what is in the socket stays there. */
int otte_stream_receive_buffered(struct otte_stream *stream, struct otte_frame *frame,
				 const uint8_t **payload);

/* For the next flush. -EDQUOT: tx_limit would be passed; nothing queued. */
int otte_stream_queue(struct otte_stream *stream, const struct otte_frame *frame,
		      const void *payload);
/*
 * Queue a frame and send what the socket takes. -EDQUOT: tx_limit would be passed; nothing queued.
 */
int otte_stream_send(struct otte_stream *stream, const struct otte_frame *frame,
		     const void *payload);

/*
 * 0: all sent; 1: the socket is full, wait until it is writable; negative: the connection is dead.
 */
int otte_stream_flush(struct otte_stream *stream);

#endif
