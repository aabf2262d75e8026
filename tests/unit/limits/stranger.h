/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A requester that is none: it speaks on a lane of a requester's session, and has no NIC. */
#ifndef OTTE_TESTS_LIMITS_STRANGER_H
#define OTTE_TESTS_LIMITS_STRANGER_H

#include "base/loop.h"
#include "transport/rdma/line.h"
#include "unit/engine/pair.h"

struct stranger {
	struct otte_loop loop;
	struct otte_rdma_lines lines;
	struct otte_rdma_line line;
	struct otte_rdma_paths theirs;
	bool ready, lost;
	unsigned connected, refused;
	struct otte_rdma_connected last;
};

/* A lane of the session, in the place of its own, which should not come back soon. */
void stranger_open(struct stranger *stranger, struct pair *pair);
void stranger_close(struct stranger *stranger);
void stranger_connect(struct stranger *stranger, uint64_t connection, uint32_t mtu_bytes,
		      uint32_t rd_atomic);
/* Until there were so many answers to that in all, or the lane is lost; at most 10 s. */
void stranger_hear(struct stranger *stranger, unsigned answers);

#endif
