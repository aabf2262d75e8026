/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two hosts with simulated NICs, on which engines run: the source's on host 0, and those of
 * requesters on host 1. A program over it wraps otte_verbs_open (VERBS_ROOM in mk/tests.mk).
 */
#ifndef OTTE_TESTS_NICS_H
#define OTTE_TESTS_NICS_H

#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "sim/verbs/sim.h"
#include "unit/engine/pair.h"

#define SOURCE 0
#define REQUESTER 1

#define WAIT_US 1000
#define WAIT_TURNS 10000

#define OK(call)                                                                  \
	do {                                                                      \
		int ok_ret = (call);                                              \
		if (ok_ret)                                                       \
			fail_msg("%s: %d: %s", #call, ok_ret, otte_error_text()); \
	} while (0)

/* In a process of its own, where a failed assertion of cmocka's does not end it well. */
#define MUST(condition)                                                        \
	do {                                                                   \
		if (!(condition)) {                                            \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			fflush(stdout);                                        \
			_exit(1);                                              \
		}                                                              \
	} while (0)

extern struct sim_device *nics[2][2]; /* by host, and in the order of their ids */
/* What an engine on a host finds as libibverbs; NULL: none. */
extern const struct otte_verbs *verbs_of[2];
/* Engines are on host 0 and host 1 in turn; else the first one alone is on host 0. */
extern bool hosts_in_turn;
/* How often libibverbs was asked for. */
unsigned verbs_opened(void);

/* Each host has so many, which all reach each other. */
int without_nics(void **state);
int with_nics(void **state);
int with_two_nics(void **state);
int nothing_is_left(void **state);
/* A child that ends with whatever stays, and has found everything as it should be. */
void in_its_own_process(void (*test)(void));

/* RDMA, and a process ledger. */
void use_nics(struct otte_config *config);
/* And no pause before a line or a pair is made again. */
void use_nics_at_once(struct otte_config *config);

/* At the same place of both. */
struct otte_request request_over(const struct pair *pair, uint8_t op, uint32_t transport,
				 uint64_t offset, uint64_t length);
struct otte_task task_of(struct pair *pair, uint32_t index);
/* One request of the batch, and nothing else. */
void submit_over(struct pair *pair, uint8_t op, uint32_t transport, uint64_t offset,
		 uint64_t length);
/* What comes of it. */
struct otte_task wait_task(struct pair *pair);
struct otte_task run_over(struct pair *pair, uint8_t op, uint32_t transport, uint64_t offset,
			  uint64_t length);
/* By RDMA and nothing else. submit(): beside what the batch has. */
struct otte_request rdma_request(const struct pair *pair, uint8_t op, uint64_t offset,
				 uint64_t length);
void submit(struct pair *pair, uint8_t op, uint64_t offset, uint64_t length);
struct otte_task run(struct pair *pair, uint8_t op, uint64_t offset, uint64_t length);

/*
 * All of what was moved at GUARD is where it goes to, which was UNTOUCHED before, and nothing is
 * written beside it.
 */
#define GUARD 64
#define UNTOUCHED 0xa5
void assert_arrived(const struct pair *pair, uint8_t op, uint64_t length);

/* Within 10 s. */
bool comes(bool (*condition)(void *arg), void *arg);
/* Of a pair: nothing is lent, some range is, one was granted, no queue pairs are left. */
bool is_drained(void *arg);
bool has_loan(void *arg);
bool is_granted(void *arg);
bool is_unconnected(void *arg);
/* Its requester's lane is there, which one of the tests' is not to be before. */
bool has_its_lane(void *arg);

/* Everything of the source but its requester. */
void close_rest(struct pair *pair);

#endif
