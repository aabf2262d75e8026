/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Two hosts with a simulated NIC each, on which engines run; and a requester that is none. */
#ifndef OTTE_TESTS_NICS_H
#define OTTE_TESTS_NICS_H

#include "sim/verbs/sim.h"
#include "transport/rdma/line.h"
#include "transport/rdma/protocol.h"
#include "transport/rdma/rdma.h"
#include "unit/engine/pair.h"

#define SIZE (1u << 20)

#define OK(call)                                                                      \
	do {                                                                          \
		int ok_ret = (call);                                                  \
		if (ok_ret)                                                           \
			fail_msg("%s: %d: %s", #call, ok_ret, otte_error_text());     \
	} while (0)

/* Of host 0, the source's, and of host 1. */
extern struct sim_device *nics[2];

int with_nics(void **state);
int nothing_is_left(void **state);

/* RDMA, a process ledger, no pause before a line or a pair is made again. */
void use_rdma(struct otte_config *config);

struct otte_request rdma_request(const struct pair *pair, uint8_t op, uint64_t offset, uint64_t length);
struct otte_task task_of(struct pair *pair, uint32_t index);
/* One request by RDMA and nothing else; what came of it. */
struct otte_task run(struct pair *pair, uint8_t op, uint64_t offset, uint64_t length);
void submit(struct pair *pair, uint8_t op, uint64_t offset, uint64_t length);

/* Within 10 s. */
bool comes(bool (*condition)(void *arg), void *arg);
/* Of a pair: nothing is lent, one range is, no queue pairs are left. */
bool is_drained(void *arg);
bool has_loan(void *arg);
bool is_unconnected(void *arg);
/* Its requester's lane is there, which one of the tests' is not to be before. */
bool has_its_lane(void *arg);

/* Everything of the source but its requester. */
void close_rest(struct pair *pair);

/* What speaks on a lane of a requester's session, and has no NIC. */
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
void stranger_connect(struct stranger *stranger, uint64_t connection, uint32_t mtu_bytes, uint32_t rd_atomic);
/* Until there were so many answers to that in all, or the lane is lost; at most 10 s. */
void stranger_hear(struct stranger *stranger, unsigned answers);

#endif
