/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two engines over simulated NICs that break, of hosts with one NIC or two (nics.h).
 */
#ifndef OTTE_TESTS_RDMA_FAULTS_ROOM_H
#define OTTE_TESTS_RDMA_FAULTS_ROOM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "engine/engine.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/qp.h"
#include "unit/engine/nics.h"

#define SIZE (1u << 20)
/* What libibverbs says of forks. */
extern int fork_state, fork_init_code;
extern _Atomic unsigned fork_inits;

/* PATHS are said with another PD than before. */
extern _Atomic bool forged_paths;
/* PATHS are said with this MTU; 0: with their own. */
extern _Atomic uint32_t forged_mtu;

int room_start(void **state);
int room_start_two(void **state);

/* Failed handshakes are repeated at once, and what is never heard of is over soon. */
void use_rdma(struct otte_config *config);
/* The same; and a bind that is not heard of for a second is given up. */
void use_short_control(struct otte_config *config);
/* The same; but of a pair that could not be made none is tried again for a minute. */
void use_long_waits(struct otte_config *config);

/* 4 KiB by RDMA and nothing else: its code. */
int read_by_rdma(struct pair *pair, uint64_t offset);

/* Of a pair of engines. */
bool is_retained(void *arg);
bool works_by_rdma(void *arg);
/* Nobody can write there: a NIC may still use it. */
bool is_taken(struct otte_mem *mem, uint64_t offset, uint64_t length);

/* The fault's id. Times: once. */
unsigned strike(enum sim_fault_kind kind, struct sim_device *device, uint64_t value);
unsigned fail_call(enum sim_verb verb, struct sim_device *device, unsigned times);

/* The queue pair of a host that was connected last. */
struct otte_rdma_qp *joined(unsigned host);
/* The GID that it was connected to. */
const uint8_t *joined_to(unsigned host);
uint32_t joined_mtu(unsigned host);
uint32_t charged(unsigned host);

int run_lane_tests(void);
int run_route_tests(void);
int run_matrix_tests(void);
int run_fork_tests(void);
int run_peer_tests(void);
int run_stall_tests(void);

#endif
