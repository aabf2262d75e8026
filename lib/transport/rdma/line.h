/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lane of RDMA frames: messages of protocol.h over a stream, in the transport's own loop.
 *
 *   closed --open--> open --the owner's, after any error--> closed
 *
 * No lock: the transport's thread.
 */
#ifndef OTTE_TRANSPORT_RDMA_LINE_H
#define OTTE_TRANSPORT_RDMA_LINE_H

#include <stdbool.h>

#include "base/loop.h"
#include "control/stream.h"
#include "transport/rdma/protocol.h"

struct otte_rdma_line {
	struct otte_watch watch; /* fd -1: closed */
	struct otte_loop *loop;
	struct otte_stream stream;
	bool waits_for_room;
};

/* Takes over `fd`; watch.ready is set. Without an error only. */
int otte_rdma_line_open(struct otte_rdma_line *line, struct otte_loop *loop, int fd);
/* The memory of the watch is to be retired, see loop.h. */
void otte_rdma_line_close(struct otte_rdma_line *line);
static inline bool otte_rdma_line_is_open(const struct otte_rdma_line *line)
{
	return line->watch.fd >= 0;
}

/* What has no room in the socket goes later. Negative: the line is of no use any more. */
int otte_rdma_line_say(struct otte_rdma_line *line, const struct otte_rdma_message *message);
/* The first frame of a line that was opened here. */
int otte_rdma_line_greet(struct otte_rdma_line *line, const struct otte_lane_hello *hello);
/* 0: greeted back; 1: not yet. */
int otte_rdma_line_greeted(struct otte_rdma_line *line);
/* 1: *message is there; 0: nothing whole yet. */
int otte_rdma_line_hear(struct otte_rdma_line *line, struct otte_rdma_message *message);
/* The socket is writable. */
int otte_rdma_line_flush(struct otte_rdma_line *line);

#endif
