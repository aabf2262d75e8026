/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/gate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/util.h"
#include "engine/engine.h"

/* Under gate->lock. */
static void set_timer(struct otte_gate *gate, uint64_t at_ns)
{
	const struct itimerspec when = {
		.it_value = { (time_t)(at_ns / NSEC_PER_SEC), (long)(at_ns % NSEC_PER_SEC) },
	};

	gate->timer_ns = at_ns;
	timerfd_settime(gate->timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Under gate->lock: who asked between the timer's firing and now found it set to what has gone by. */
static void set_for_others(struct otte_gate *gate)
{
	struct otte_engine *engine = container_of(gate, struct otte_engine, gate);
	uint64_t due_ns = atomic_load(&engine->tick_due_ns);

	if (due_ns != UINT64_MAX && due_ns > otte_now_ns())
		set_timer(gate, due_ns);
}

static void timer_ready(struct otte_watch *watch, uint32_t events)
{
	struct otte_gate *gate = container_of(watch, struct otte_gate, timer);
	uint64_t count;

	(void)events;
	pthread_mutex_lock(&gate->lock);
	/* The thread looks at tick_due_ns after each round. A timer that was set anew says nothing yet. */
	if (read(watch->fd, &count, sizeof(count)) > 0) {
		gate->timer_ns = UINT64_MAX;
		set_for_others(gate);
	}
	pthread_mutex_unlock(&gate->lock);
}

void otte_gate_look_at(struct otte_engine *engine, uint64_t at_ns)
{
	struct otte_gate *gate = &engine->gate;

	at_ns = max_u64(at_ns, 1); /* a timer set to 0 is off */
	otte_engine_tick_at(engine, at_ns);
	pthread_mutex_lock(&gate->lock);
	if (at_ns < gate->timer_ns)
		set_timer(gate, at_ns);
	pthread_mutex_unlock(&gate->lock);
}

static void kick(void *arg)
{
	struct otte_engine *engine = arg;

	engine->ledger->ops->domain_kick(engine->client);
}

/* The administrator's pattern rules. */
static void tell_what_is_ignored(const struct otte_config *config)
{
	struct otte_config defaults;

	if (!otte_config_init(&defaults, sizeof(defaults)) &&
	    (strcmp(config->slots_pattern, defaults.slots_pattern) ||
	     config->slot_interval_ns != defaults.slot_interval_ns))
		otte_log(OTTE_LOG_WARNING,
			 "slots of domain %s: the module has the pattern; slots.pattern and "
			 "slots.interval_us are ignored",
			 config->slots_domain);
}

/* The module's domain: pattern, and who waits. */
static int join_domain(struct otte_engine *engine)
{
	const struct otte_config *config = &engine->config;
	struct otte_slots_domain domain = { .kick = kick, .arg = engine };
	struct otte_ledger_domain pages;
	int ret;

	ret = engine->ledger->ops->domain_join(engine->client, config->slots_domain, &pages);
	if (ret)
		return otte_fail_within(ret, "slots.domain: ");
	domain.slot = pages.slot;
	domain.load = pages.load;
	domain.share = pages.share;
	otte_slots_open_domain(&engine->gate.slots, &domain, config->low_inflight_bytes);
	tell_what_is_ignored(config);
	return 0;
}

/* The config's own pattern, and nobody knows who waits. */
static int open_clock(struct otte_engine *engine)
{
	const struct otte_config *config = &engine->config;
	struct otte_slots_pattern pattern = { .interval_ns = config->slot_interval_ns };
	int64_t offset_ns;
	int ret;

	ret = otte_slots_parse(config->slots_pattern, &pattern);
	if (!ret)
		ret = otte_slots_clock_offset(&offset_ns);
	if (ret)
		return otte_fail_within(ret, "slots.domain: ");
	return otte_slots_open_clock(&engine->gate.slots, &pattern, offset_ns,
				     config->low_inflight_bytes);
}

static void tell_transport(struct otte_engine *engine)
{
	const struct otte_nic_domain domain = {
		.slots = &engine->gate.slots,
		.index = otte_gate_nic,
		.engine = engine,
	};

	otte_transport_join(engine->transport, &domain);
}

int otte_gate_open(struct otte_engine *engine)
{
	bool joins = engine->ledger->ops->domain_join != NULL;
	struct otte_gate *gate = &engine->gate;
	int ret;

	if (!engine->config.slots_domain[0])
		return 0;
	ret = joins ? join_domain(engine) : open_clock(engine);
	if (ret)
		return ret;
	gate->timer_ns = UINT64_MAX;
	gate->timer.ready = timer_ready;
	gate->timer.fd = otte_fd_timer();
	if (gate->timer.fd < 0) {
		ret = otte_fail(-errno, "timerfd_create: %m");
		goto close_slots;
	}
	ret = otte_loop_add(&engine->progress.control, &gate->timer, EPOLLIN);
	if (ret)
		goto close_timer;
	pthread_mutex_init(&gate->lock, NULL);
	gate->open = true;
	tell_transport(engine);
	otte_log(OTTE_LOG_INFO, "slots of domain %s %s", engine->config.slots_domain,
		 joins ? "by the module's pattern, while somebody waits above" :
			 "by the clock alone and the pattern of this engine");
	return 0;

close_timer:
	otte_fd_close(gate->timer.fd);
close_slots:
	otte_slots_close(&gate->slots);
	return ret;
}

void otte_gate_close(struct otte_engine *engine)
{
	struct otte_gate *gate = &engine->gate;

	if (!gate->open)
		return;
	gate->open = false;
	otte_loop_remove(&engine->progress.control, &gate->timer);
	otte_fd_close(gate->timer.fd);
	pthread_mutex_destroy(&gate->lock);
}

void otte_gate_fini(struct otte_engine *engine)
{
	otte_slots_close(&engine->gate.slots);
}

struct otte_slots *otte_gate_slots(struct otte_engine *engine)
{
	return engine->gate.open ? &engine->gate.slots : NULL;
}

/* Under gate->lock. */
static bool is_news(struct otte_gate *gate, const char *name)
{
	size_t i;

	for (i = 0; i < OTTE_GATE_UNCOUNTED && gate->uncounted[i][0]; i++)
		if (!strcmp(gate->uncounted[i], name))
			return false;
	if (i < OTTE_GATE_UNCOUNTED)
		snprintf(gate->uncounted[i], sizeof(gate->uncounted[i]), "%s", name);
	return i < OTTE_GATE_UNCOUNTED;
}

uint8_t otte_gate_nic(struct otte_engine *engine, const char *name)
{
	struct otte_gate *gate = &engine->gate;
	bool news;
	uint32_t index;

	if (!gate->open || !gate->slots.share)
		return OTTE_SLOTS_NO_NIC;
	if (!engine->ledger->ops->domain_nic(engine->client, name, &index))
		return (uint8_t)index;
	pthread_mutex_lock(&gate->lock);
	news = is_news(gate, name);
	pthread_mutex_unlock(&gate->lock);
	if (news)
		otte_log(OTTE_LOG_WARNING, "slots of domain %s: bytes under way are not told of: %s",
			 engine->config.slots_domain, otte_error_text());
	return OTTE_SLOTS_NO_NIC;
}
