/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two engines as far as the owners go: a requester on host 0 and a source on host 1, each with a
 * context, a lane, a QP and memory, over the simulated verbs.
 */
#ifndef OTTE_TESTS_OWNERS_ENDS_H
#define OTTE_TESTS_OWNERS_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "otte/otte.h"
#include "sim/verbs/sim.h"
#include "transport/rdma/context_set.h"
#include "transport/rdma/cq_lane.h"
#include "transport/rdma/mr.h"
#include "transport/rdma/qp.h"
#include "transport/rdma/window.h"

#define END_BYTES 65536
#define END_SEND_WRS 4
#define END_RECV_WRS 4
#define END_CQES 16

struct end {
	struct sim_device *device;
	struct otte_rdma_context_set set;
	struct otte_rdma_context *context; /* of the set */
	struct otte_rdma_cq_lane *lane;
	struct otte_rdma_qp *qp;
	struct otte_rdma_mr local, parent;
	uint8_t *bytes;
	unsigned int fenced; /* how often it was told of a QP that was */
};

extern struct end requester, source;

/* A context for each device of the host, of which there are some. */
void set_open(unsigned int host, struct otte_rdma_context_set *set);

/* Devices, contexts, lanes, memory. `ends_start` also connected QPs. */
int ends_open(void **state);
int ends_start(void **state);
/* The same with a source on rxe. */
int ends_start_rxe(void **state);
/* What of it is there; nothing else is left. */
int ends_finish(void **state);
/*
 * The test has retained something: what is left is the simulator's to forget, and kept till exit.
 */
int ends_forget(void **state);

/* What the memory there refers to is retained, and no leak. */
void keep_reachable(const void *what, size_t bytes);

/* A QP as the requester's or the source's. */
struct otte_rdma_qp_params requester_params(void);
struct otte_rdma_qp_params source_params(void);
struct otte_rdma_qp *end_create_qp(struct end *end, const struct otte_rdma_qp_params *params);
void qps_connect(struct otte_rdma_qp *one, struct otte_rdma_qp *other);

/* A work that counts how often it was told, and of what. */
struct told {
	struct otte_rdma_work work;
	struct otte_rdma_outcome outcome;
	unsigned int count;
};

void told_init(struct told *told);

struct told_receipt {
	struct otte_rdma_receipt receipt;
	int code;
	unsigned int count;
};

/* Of this grant with a key, with the binding that belongs to it. */
void told_receipt_init(struct told_receipt *told, uint64_t grant, uint32_t key);

/* One WR of `op` from one end's memory, over its QP; told to `told`. What the post says. */
int end_post(struct end *end, const struct otte_rdma_send *send, struct told *told);
struct otte_rdma_send payload(enum otte_rdma_op op, size_t at, uint64_t bytes, uint32_t key);
struct otte_rdma_send finish(const struct told_receipt *receipt);

/* A window over the source's [at, at + bytes), bound and heard of. */
struct otte_rdma_window *source_bind(size_t at, uint64_t bytes, enum otte_op direction);

/* Polls the lane once, with room for all. How many CQEs there were. */
int end_poll(struct end *end);
void ends_poll(void);

struct otte_rdma_qp_status end_status(const struct end *end);
struct otte_rdma_lane_status lane_status(const struct end *end);
/* Charged: in the queues of the QP, and in the CQs of the lane. */
void assert_charged(const struct end *end, uint32_t sends, uint32_t receives);
/* It was fenced with this code, and told so once. */
void assert_fenced(struct end *end, int code, const char *text);

/* Text of the last failure contains this. */
void assert_text(const char *part);

/* Fails the call once: the next one, or the one after so many. */
unsigned int fail_call(enum sim_verb verb, int error);
unsigned int fail_call_after(enum sim_verb verb, unsigned int after, int error);
/* A post, of which so many are taken: the next one fails with ENOMEM, and says so or not. */
void fail_post(enum sim_verb verb, unsigned int taken, enum sim_bad_wr bad_wr);
/* The WR after so many is done with this status, whosever it is. */
void fail_wr(unsigned int after, enum ibv_wc_status status);
/* What comes of the WR after so many of this end's QP is not as it should be. */
void spoil_cqe(const struct end *end, enum sim_fault_kind kind, unsigned int after, uint64_t value);

/* The nth allocation from now fails; 0: none. */
extern unsigned int fail_allocation;
/*
 * Has one allocation after the other fail until `make` succeeds: -ENOMEM, with a text of its own, each time before, and
 * then `nothing_is_left` says so. How many failed.
 */
unsigned int fail_each_allocation(int (*make)(void), void (*nothing_is_left)(void));

int run_binding_tests(void);
int run_context_tests(void);
int run_buffer_tests(void);
int run_qp_tests(void);
int run_send_tests(void);
int run_receive_tests(void);
int run_window_tests(void);
int run_lane_tests(void);
int run_thread_tests(void);

#endif
