/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/util.h"

struct room room;
unsigned int fail_calloc, fail_epoll;

/* ---- Calls that fail ------------------------------------------------------------------------- */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __real_epoll_ctl(int set, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int set, int op, int fd, struct epoll_event *event);

void *__wrap_calloc(size_t count, size_t size)
{
	if (!fail_calloc || --fail_calloc)
		return __real_calloc(count, size);
	errno = ENOMEM;
	return NULL;
}

int __wrap_epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	if (op != EPOLL_CTL_ADD || !fail_epoll || --fail_epoll)
		return __real_epoll_ctl(set, op, fd, event);
	errno = ENOSPC;
	return -1;
}

void fail_call(enum sim_verb verb, unsigned int times, int error)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = verb,
		.times = times,
		.error = error,
	};

	sim_fault_arm(&fault);
}

/* ---- Who is told ----------------------------------------------------------------------------- */

static struct told *told_of(const struct otte_rdma_context *context)
{
	return &room.told[context->nic];
}

static void fenced(void *arg, struct otte_rdma_context *context, int code, const char *why)
{
	struct told *told = told_of(context);

	assert_ptr_equal(arg, &room);
	assert_int_not_equal(otte_rdma_context_check(context), 0);
	told->code = code;
	snprintf(told->why, sizeof(told->why), "%s", why);
	told->fenced++;
}

static bool drained(void *arg, struct otte_rdma_context *context)
{
	void (*once)(void) = room.at_drained;

	(void)arg;
	told_of(context)->asked++;
	room.at_drained = NULL;
	if (once)
		once();
	return room.drained;
}

static void resumed(void *arg, struct otte_rdma_context *context)
{
	(void)arg;
	told_of(context)->resumed++;
}

static void rate(void *arg, struct otte_rdma_context *context, uint64_t bytes_per_s)
{
	(void)arg;
	told_of(context)->rate = bytes_per_s;
	told_of(context)->rates++;
}

static void cq_failed(void *arg, struct otte_rdma_context *context, const struct ibv_cq *cq,
		      const char *why)
{
	(void)arg;
	(void)why;
	told_of(context)->cq = cq;
	told_of(context)->cqs++;
	if (room.at_cq)
		room.at_cq(cq);
}

static void qp_failed(void *arg, struct otte_rdma_context *context, const struct ibv_qp *qp,
		      const char *why)
{
	(void)arg;
	(void)why;
	told_of(context)->qp = qp;
	told_of(context)->qps++;
	if (room.at_qp)
		room.at_qp(qp);
}

static const struct otte_rdma_monitor_ops ops = {
	.fenced = fenced,
	.drained = drained,
	.resumed = resumed,
	.rate = rate,
	.cq_failed = cq_failed,
	.qp_failed = qp_failed,
};

static void keep_log(void *arg, enum otte_log_level level, const char *line)
{
	size_t used = strlen(room.log);

	(void)arg;
	(void)level;
	snprintf(room.log + used, sizeof(room.log) - used, "%s\n", line);
}

/* ---- Opening --------------------------------------------------------------------------------- */

int room_start(void **state)
{
	(void)state;
	sim_reset();
	memset(&room, 0, sizeof(room));
	room.drained = true;
	room.now_ns = START_NS;
	otte_clock_fake(room.now_ns);
	otte_log_set(keep_log, NULL, OTTE_LOG_INFO);
	return 0;
}

struct sim_device *room_add(const char *name)
{
	unsigned int i = room.devices[0] != NULL;

	room.devices[i] = sim_device_add(0, name);
	return room.devices[i];
}

void room_open_contexts(int gid_index)
{
	const struct otte_rdma_context_params params = OTTE_RDMA_CONTEXT_PARAMS;
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	static struct otte_rdma_nics nics;
	unsigned int nic;

	select.gid_index = gid_index;
	assert_int_equal(otte_rdma_discover(sim_verbs(0), &select, &nics), 0);
	assert_int_equal(otte_rdma_context_set_open(sim_verbs(0), &nics, &params, &room.set), 0);
	otte_rdma_nics_close(sim_verbs(0), &nics);
	for (nic = 0; nic < ARRAY_SIZE(room.contexts); nic++)
		room.contexts[nic] = otte_rdma_context_set_get(&room.set, nic);
}

static void open_with(int gid_index)
{
	struct otte_rdma_monitor_params params = OTTE_RDMA_MONITOR_PARAMS;

	room_open_contexts(gid_index);
	params.automatic_gid = gid_index == OTTE_RDMA_CHOOSE;
	if (room.interval_ns)
		params.interval_ns = room.interval_ns;
	assert_int_equal(otte_rdma_monitor_create(&room.set, &params, &ops, &room, &room.monitor),
			 0);
}

void room_open(void)
{
	open_with(OTTE_RDMA_CHOOSE);
}

void room_open_pinned(int gid_index)
{
	open_with(gid_index);
}

int room_start_one(void **state)
{
	room_start(state);
	room_add("mlx5_0");
	room_open();
	room_rounds();
	return 0;
}

int room_finish(void **state)
{
	(void)state;
	otte_rdma_monitor_stop(room.monitor);
	assert_int_equal(otte_rdma_context_set_close(&room.set), 0);
	assert_string_equal(sim_left(), "");
	otte_log_set(NULL, NULL, OTTE_LOG_WARNING);
	otte_clock_fake(0);
	return 0;
}

/* ---- Time ------------------------------------------------------------------------------------ */

void room_rounds(void)
{
	unsigned int i;

	for (i = 0; i < 4; i++)
		otte_rdma_monitor_round(room.monitor, 0);
}

void room_pass(uint64_t ns)
{
	room.now_ns += ns;
	otte_clock_fake(room.now_ns);
	room_rounds();
}

/* ---- What there is --------------------------------------------------------------------------- */

enum otte_rdma_context_state state_of(unsigned int nic)
{
	struct otte_rdma_route route;

	otte_rdma_context_route(room.contexts[nic], &route);
	return route.state;
}

struct otte_rdma_address address_of(unsigned int nic)
{
	struct otte_rdma_route route;

	otte_rdma_context_route(room.contexts[nic], &route);
	return route.address;
}

uint64_t events_of(enum otte_rdma_event_kind kind)
{
	return otte_rdma_monitor_counts(room.monitor)->events[kind];
}

uint64_t all_events(void)
{
	uint64_t sum = 0;
	int kind;

	for (kind = 0; kind < OTTE_RDMA_EVENT_KINDS; kind++)
		sum += events_of((enum otte_rdma_event_kind)kind);
	return sum;
}

void assert_acknowledged(unsigned int count)
{
	assert_int_equal(all_events(), count);
	assert_int_equal(sim_calls(SIM_ACK_ASYNC_EVENT), count);
	assert_int_equal(sim_counts(NULL).events, 0);
}

void assert_told(unsigned int nic, unsigned int fenced_count, unsigned int resumed_count)
{
	assert_int_equal(room.told[nic].fenced, fenced_count);
	assert_int_equal(room.told[nic].resumed, resumed_count);
}

/* ---- Lanes and QPs --------------------------------------------------------------------------- */

struct otte_rdma_cq_lane *room_lane(unsigned int nic)
{
	const struct otte_rdma_lane_params params = OTTE_RDMA_LANE_PARAMS;
	struct otte_rdma_cq_lane *lane;

	assert_int_equal(otte_rdma_lane_create(room.contexts[nic], &params, &lane), 0);
	return lane;
}

struct otte_rdma_qp *room_qp(struct otte_rdma_cq_lane *lane)
{
	const struct otte_rdma_qp_params params = OTTE_RDMA_QP_PARAMS;
	struct otte_rdma_qp *qp;

	assert_int_equal(otte_rdma_qp_create(lane, &params, NULL, NULL, &qp), 0);
	assert_int_equal(otte_rdma_qp_connect(qp, &qp->end), 0);
	return qp;
}
