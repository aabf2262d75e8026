/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/monitor.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/thread.h"
#include "base/util.h"

/* A context in the loop. */
struct source {
	struct otte_watch watch;
	struct otte_rdma_nic_watch nic;
	bool attached;
};

struct otte_rdma_monitor {
	struct otte_rdma_monitor_params params;
	struct otte_loop loop;
	struct otte_rdma_monitor_counts counts;
	pthread_t thread;
	bool started;
	_Atomic bool stopping, asked;

	/* The thread's. */
	uint64_t tick_ns; /* when the next one is due */
	size_t count;
	struct source sources[];
};

/* ---- Contexts in the loop -------------------------------------------------------------------- */

static void told(struct otte_watch *watch, uint32_t events)
{
	(void)events;
	otte_rdma_nic_watch_hear(&container_of(watch, struct source, watch)->nic);
}

static int attach(struct otte_rdma_monitor *monitor, struct source *source)
{
	int rc = otte_rdma_events_open(source->nic.context);

	if (rc)
		return rc;
	source->watch.fd = source->nic.context->native->async_fd;
	source->watch.ready = told;
	rc = otte_loop_add(&monitor->loop, &source->watch, EPOLLIN);
	source->attached = !rc;
	return rc;
}

static void detach(struct otte_rdma_monitor *monitor, struct source *source)
{
	if (source->attached)
		otte_loop_remove(&monitor->loop, &source->watch);
	source->attached = false;
}

static int attach_all(struct otte_rdma_monitor *monitor)
{
	size_t i;
	int rc;

	for (i = 0; i < monitor->count; i++) {
		rc = attach(monitor, &monitor->sources[i]);
		if (rc)
			return rc;
	}
	return 0;
}

static void detach_all(struct otte_rdma_monitor *monitor)
{
	size_t i;

	for (i = 0; i < monitor->count; i++)
		detach(monitor, &monitor->sources[i]);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static bool is_one_due(const struct otte_rdma_monitor *monitor)
{
	size_t i;

	for (i = 0; i < monitor->count; i++)
		if (monitor->sources[i].nic.due)
			return true;
	return false;
}

static int wait_ms(const struct otte_rdma_monitor *monitor, int most_ms)
{
	uint64_t now_ns = otte_now_ns(), ms;

	if (now_ns >= monitor->tick_ns || is_one_due(monitor))
		return 0;
	ms = (monitor->tick_ns - now_ns + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	return ms < (uint64_t)most_ms ? (int)ms : most_ms;
}

static bool is_paused(const struct otte_rdma_nic_watch *nic)
{
	struct otte_rdma_route route;

	otte_rdma_context_route(nic->context, &route);
	return route.state == OTTE_RDMA_CONTEXT_PAUSED;
}

static void note_asked(struct otte_rdma_monitor *monitor)
{
	size_t i;

	if (!atomic_exchange(&monitor->asked, false))
		return;
	for (i = 0; i < monitor->count; i++)
		if (is_paused(&monitor->sources[i].nic))
			monitor->sources[i].nic.due = true;
}

static void note_tick(struct otte_rdma_monitor *monitor)
{
	uint64_t now_ns = otte_now_ns();
	size_t i;

	if (now_ns < monitor->tick_ns)
		return;
	monitor->tick_ns = now_ns + monitor->params.interval_ns;
	atomic_fetch_add(&monitor->counts.ticks, 1);
	for (i = 0; i < monitor->count; i++)
		monitor->sources[i].nic.due = true;
}

void otte_rdma_monitor_round(struct otte_rdma_monitor *monitor, int timeout_ms)
{
	struct source *source;
	size_t i;

	otte_loop_run(&monitor->loop, wait_ms(monitor, timeout_ms));
	note_asked(monitor);
	note_tick(monitor);
	for (i = 0; i < monitor->count; i++) {
		source = &monitor->sources[i];
		if (source->nic.due)
			otte_rdma_nic_watch_ask(&source->nic);
		if (source->nic.lost)
			detach(monitor, source);
	}
}

static void *run(void *arg)
{
	struct otte_rdma_monitor *monitor = arg;

	while (!atomic_load(&monitor->stopping))
		otte_rdma_monitor_round(monitor, INT_MAX);
	return NULL;
}

/* ---- Its life -------------------------------------------------------------------------------- */

static struct otte_rdma_monitor *new_monitor(const struct otte_rdma_context_set *set,
					     const struct otte_rdma_monitor_params *params,
					     const struct otte_rdma_monitor_ops *ops, void *arg)
{
	struct otte_rdma_monitor *monitor;
	size_t id;

	monitor = calloc(1, sizeof(*monitor) + set->count * sizeof(monitor->sources[0]));
	if (!monitor)
		return NULL;
	monitor->params = *params;
	for (id = 0; id < set->count; id++)
		if (set->slots[id].context)
			monitor->sources[monitor->count++].nic = (struct otte_rdma_nic_watch){
				.context = set->slots[id].context,
				.ops = ops,
				.arg = arg,
				.automatic_gid = params->automatic_gid,
				.counts = &monitor->counts,
			};
	return monitor;
}

int otte_rdma_monitor_create(const struct otte_rdma_context_set *set,
			     const struct otte_rdma_monitor_params *params,
			     const struct otte_rdma_monitor_ops *ops, void *arg,
			     struct otte_rdma_monitor **out)
{
	struct otte_rdma_monitor *monitor;
	int rc;

	if (!params->interval_ns)
		return otte_fail(-EINVAL, "rdma: the monitor's interval is 0");
	monitor = new_monitor(set, params, ops, arg);
	if (!monitor)
		return otte_fail(-ENOMEM, "rdma: %s", strerror(ENOMEM));
	rc = otte_loop_init(&monitor->loop);
	if (rc)
		goto free_monitor;
	rc = attach_all(monitor);
	if (rc)
		goto detach;
	*out = monitor;
	return 0;

detach:
	detach_all(monitor);
	otte_loop_fini(&monitor->loop);
free_monitor:
	free(monitor);
	return rc;
}

int otte_rdma_monitor_start(struct otte_rdma_monitor *monitor)
{
	int rc = otte_thread_start(&monitor->thread, "otte-rdma-watch", run, monitor);

	monitor->started = !rc;
	return rc;
}

void otte_rdma_monitor_stop(struct otte_rdma_monitor *monitor)
{
	if (!monitor)
		return;
	atomic_store(&monitor->stopping, true);
	otte_loop_wake(&monitor->loop);
	if (monitor->started)
		pthread_join(monitor->thread, NULL);
	detach_all(monitor);
	otte_loop_fini(&monitor->loop);
	free(monitor);
}

void otte_rdma_monitor_ask(struct otte_rdma_monitor *monitor)
{
	atomic_store(&monitor->asked, true);
	otte_loop_wake(&monitor->loop);
}

const struct otte_rdma_monitor_counts *
otte_rdma_monitor_counts(const struct otte_rdma_monitor *monitor)
{
	return &monitor->counts;
}
