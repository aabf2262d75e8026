/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lane of RDMA frames: messages of protocol.h over a stream, in the transport's own loop.
 *
 *   closed --open--> open --the owner's, after any error--> closed
 *
 * What is said goes out when the thread has done what it can, with otte_rdma_lines_send(), and what
 * came at a time is received at a time: a batch of requests makes as many messages, and a system
 * call for each would cost more than they do.
 *
 * A host that is gone without a word is missed: see `silence_ns`.
 *
 * No lock: the transport's thread.
 */
#ifndef OTTE_TRANSPORT_RDMA_LINE_H
#define OTTE_TRANSPORT_RDMA_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "control/stream.h"
#include "transport/rdma/protocol.h"

/* Those of a thread. */
struct otte_rdma_lines {
	struct otte_loop *loop;
	uint64_t silence_ns; /* after so much of a peer's host the line is lost */
	struct otte_rdma_line *unsent; /* have said something since the last send */
};

struct otte_rdma_line {
	struct otte_watch watch; /* fd -1: closed */
	struct otte_rdma_line *prev, *next; /* lines->unsent */
	struct otte_rdma_lines *lines;
	struct otte_stream stream;
	bool unsent;
	bool waits_for_room;
};

/* Takes over `fd`; watch.ready is set. Without an error only. */
int otte_rdma_line_open(struct otte_rdma_line *line, struct otte_rdma_lines *lines, int fd);
/*
 * What was said goes out before, if there is room. The memory of the watch is to be retired, see
 * loop.h.
 */
void otte_rdma_line_close(struct otte_rdma_line *line);
static inline bool otte_rdma_line_is_open(const struct otte_rdma_line *line)
{
	return line->watch.fd >= 0;
}

/* Negative: the line is of no use any more. */
int otte_rdma_line_say(struct otte_rdma_line *line, const struct otte_rdma_message *message);
/* The first frame of a line that was opened here. */
int otte_rdma_line_greet(struct otte_rdma_line *line, const struct otte_lane_hello *hello);
/* 0: greeted back; 1: not yet. */
int otte_rdma_line_greeted(struct otte_rdma_line *line);
/*
 * 1: *message is there; 0: nothing whole yet. `only_here`: of what has been received already, which
 * the loop knows nothing of; who hears no more for now hears that to its end.
 */
int otte_rdma_line_hear(struct otte_rdma_line *line, bool only_here,
			struct otte_rdma_message *message);
/* The socket is writable. */
int otte_rdma_line_flush(struct otte_rdma_line *line);
/*
 * What has no room in its socket goes later. Where nothing can be sent the line is shut down: its
 * owner hears it.
 */
void otte_rdma_lines_send(struct otte_rdma_lines *lines);

#endif
