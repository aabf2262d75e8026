/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A monitor over contexts of simulated devices, on a clock that stands still until a test moves it;
 * and who is told, who keeps count. Rounds are the test's unless it starts the thread.
 */
#ifndef OTTE_TESTS_MONITOR_ROOM_H
#define OTTE_TESTS_MONITOR_ROOM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "otte/otte.h"
#include "sim/verbs/sim.h"
#include "transport/rdma/cq_lane.h"
#include "transport/rdma/monitor.h"
#include "transport/rdma/qp.h"

#define START_NS 1000000000ull /* before what any clock says */

/* What the owner was told of one context. */
struct told {
	_Atomic unsigned int fenced, resumed, rates, cqs, qps, asked;
	int code;
	char why[OTTE_ERROR_BYTES];
	uint64_t rate;
	const struct ibv_cq *cq;
	const struct ibv_qp *qp;
};

struct room {
	struct sim_device *devices[2];
	struct otte_rdma_context_set set;
	struct otte_rdma_context *contexts[3]; /* of the set, by NIC id */
	struct otte_rdma_monitor *monitor;
	struct told told[3]; /* by NIC id */
	_Atomic bool drained; /* what the owner says */
	void (*at_drained)(void); /* once, when it is asked */
	void (*at_qp)(const struct ibv_qp *qp); /* when it is told of one */
	void (*at_cq)(const struct ibv_cq *cq);
	char log[4096];
	uint64_t now_ns;
	uint64_t interval_ns; /* the monitor's; 0: its default */
};

extern struct room room;

/* The simulator is empty, the clock stands. */
int room_start(void **state);
/* mlx5_0, with one port: as it is, then as the test has made it. */
struct sim_device *room_add(const char *name);
void room_open(void);
/* The same with the GID of this index fixed. */
void room_open_pinned(int gid_index);
void room_open_contexts(int gid_index);
/* One device with one port; and the monitor's first round. */
int room_start_one(void **state);
/* Nothing is left. */
int room_finish(void **state);

/* Rounds, until nothing is due at this time; never waits. */
void room_rounds(void);
/* So much later. */
void room_pass(uint64_t ns);

enum otte_rdma_context_state state_of(unsigned int nic);
struct otte_rdma_address address_of(unsigned int nic);
uint64_t events_of(enum otte_rdma_event_kind kind);
uint64_t all_events(void);
/* Taken and acknowledged: so many in all. */
void assert_acknowledged(unsigned int count);
void assert_told(unsigned int nic, unsigned int fenced, unsigned int resumed);

struct otte_rdma_cq_lane *room_lane(unsigned int nic);
/* One that is connected to itself. */
struct otte_rdma_qp *room_qp(struct otte_rdma_cq_lane *lane);

/* Fails it `times` times, with this errno. */
void fail_call(enum sim_verb verb, unsigned int times, int error);

/* The nth call from now fails; 0: none. */
extern unsigned int fail_calloc, fail_epoll;

int run_event_tests(void);
int run_route_tests(void);
int run_life_tests(void);
int run_thread_tests(void);

#endif
