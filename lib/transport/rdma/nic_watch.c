/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/nic_watch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/rdma/port.h"

/* ---- What is said ---------------------------------------------------------------------------- */

/* The fabric can provoke it. */
static void OTTE_PRINTF(3, 4)
	say(struct otte_rdma_nic_watch *watch, enum otte_log_level level, const char *format, ...)
{
	const struct otte_rdma_context *context = watch->context;
	uint64_t now_ns = otte_now_ns();
	char text[OTTE_ERROR_BYTES];
	uint32_t held;
	va_list args;

	held = otte_log_limit_held(&watch->limit, now_ns);
	if (held)
		otte_log(level, "rdma: %s port %u: %u lines were held back", context->name,
			 context->port, held);
	if (!otte_log_limit_admits(&watch->limit, now_ns))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	otte_log(level, "rdma: %s port %u: %s", context->name, context->port, text);
}

/* ---- The route ------------------------------------------------------------------------------- */

static void tell_fenced(struct otte_rdma_nic_watch *watch, int code, const char *why)
{
	char text[OTTE_RDMA_NAME_MAX + OTTE_ERROR_BYTES + 16];

	snprintf(text, sizeof(text), "%s port %u: %s", watch->context->name, watch->context->port,
		 why);
	watch->ops->fenced(watch->arg, watch->context, code, text);
}

/* Also of one that is PAUSED: its generation is another, and an answer of before is too old. */
static void pause_route(struct otte_rdma_nic_watch *watch, const char *why)
{
	snprintf(watch->why, sizeof(watch->why), "%s", why);
	if (!otte_rdma_context_pause(watch->context, -ENETDOWN, why))
		return;
	atomic_fetch_add(&watch->counts->pauses, 1);
	say(watch, OTTE_LOG_WARNING, "%s: paused", why);
	tell_fenced(watch, -ENETDOWN, why);
}

static void fail_device(struct otte_rdma_nic_watch *watch, int code, const char *why)
{
	if (!otte_rdma_context_fail(watch->context, code, why))
		return;
	say(watch, OTTE_LOG_ERROR, "%s: the device is not used any more", why);
	tell_fenced(watch, code, why);
}

static void resume_route(struct otte_rdma_nic_watch *watch, uint64_t generation,
			 const struct otte_rdma_address *address)
{
	char gid[OTTE_RDMA_GID_TEXT];

	if (!watch->ops->drained(watch->arg, watch->context))
		return;
	if (!otte_rdma_nic_watch_hear(watch))
		watch->due = true;
	if (watch->due)
		return;
	if (otte_rdma_context_resume(watch->context, generation, address)) {
		watch->due = true;
		return;
	}
	watch->why[0] = '\0';
	atomic_fetch_add(&watch->counts->recoveries, 1);
	say(watch, OTTE_LOG_INFO, "active, with GID %d, %s", address->gid.index,
	    otte_rdma_gid_text(&address->gid, gid));
	watch->ops->resumed(watch->arg, watch->context);
}

/* ---- What is heard --------------------------------------------------------------------------- */

static void heard(void *arg, const struct otte_rdma_event *event)
{
	struct otte_rdma_nic_watch *watch = arg;

	atomic_fetch_add(&watch->counts->events[event->kind], 1);
	switch (event->kind) {
	case OTTE_RDMA_EVENT_PORT_DOWN:
		pause_route(watch, event->name);
		watch->due = true;
		break;
	case OTTE_RDMA_EVENT_PORT_CHANGED:
		watch->due = true;
		break;
	case OTTE_RDMA_EVENT_DEVICE:
		fail_device(watch, -ENODEV, event->name);
		break;
	case OTTE_RDMA_EVENT_CQ:
		watch->ops->cq_failed(watch->arg, watch->context, event->cq, event->name);
		break;
	case OTTE_RDMA_EVENT_QP:
		watch->ops->qp_failed(watch->arg, watch->context, event->qp, event->name);
		break;
	default:
		break;
	}
}

static void lose(struct otte_rdma_nic_watch *watch)
{
	char why[OTTE_ERROR_BYTES];

	snprintf(why, sizeof(why), "its events are lost: %s", otte_error_text());
	watch->lost = true;
	atomic_fetch_add(&watch->counts->lost_consumers, 1);
	fail_device(watch, -ENODEV, why);
}

bool otte_rdma_nic_watch_hear(struct otte_rdma_nic_watch *watch)
{
	const struct otte_rdma_event_listener listener = { .heard = heard, .arg = watch };
	int rc;

	rc = otte_rdma_events_take(watch->context, OTTE_RDMA_EVENTS_A_ROUND, &listener);
	if (rc < 0)
		lose(watch);
	return rc == 0;
}

/* ---- What is asked --------------------------------------------------------------------------- */

static int gid_to_ask_for(const struct otte_rdma_nic_watch *watch,
			  const struct otte_rdma_route *route)
{
	return watch->automatic_gid && route->state == OTTE_RDMA_CONTEXT_PAUSED ?
		       OTTE_RDMA_CHOOSE :
		       route->address.gid.index;
}

static int query(struct otte_rdma_nic_watch *watch, int gid_index, struct otte_rdma_answer *answer)
{
	int rc = otte_rdma_port_ask(watch->context, gid_index, answer);

	atomic_fetch_add(&watch->counts->queries, 1);
	if (rc) {
		atomic_fetch_add(&watch->counts->failed_queries, 1);
		if (!watch->failing)
			say(watch, OTTE_LOG_WARNING, "cannot be asked: %s", otte_error_text());
	}
	watch->failing = rc != 0;
	return rc;
}

/* It was ACTIVE. What it has instead is looked for in the next round: another GID, perhaps. */
static void follow_active(struct otte_rdma_nic_watch *watch, const struct otte_rdma_route *route,
			  const struct otte_rdma_answer *answer)
{
	const char *why = answer->usable ?
				  otte_rdma_address_change(&route->address, &answer->address) :
				  answer->why;

	if (!why)
		return;
	pause_route(watch, why);
	watch->due = true;
}

static void follow_paused(struct otte_rdma_nic_watch *watch, const struct otte_rdma_route *route,
			  const struct otte_rdma_answer *answer)
{
	if (answer->usable)
		resume_route(watch, route->generation, &answer->address);
	else if (strcmp(watch->why, answer->why))
		pause_route(watch, answer->why);
}

static void follow(struct otte_rdma_nic_watch *watch, const struct otte_rdma_route *route,
		   const struct otte_rdma_answer *answer)
{
	if (answer->usable)
		watch->ops->rate(watch->arg, watch->context, answer->bytes_per_s);
	if (route->state == OTTE_RDMA_CONTEXT_ACTIVE)
		follow_active(watch, route, answer);
	else
		follow_paused(watch, route, answer);
}

void otte_rdma_nic_watch_ask(struct otte_rdma_nic_watch *watch)
{
	struct otte_rdma_answer answer;
	struct otte_rdma_route route;

	watch->due = false;
	otte_rdma_context_route(watch->context, &route);
	if (route.state >= OTTE_RDMA_CONTEXT_FATAL)
		return;
	if (!query(watch, gid_to_ask_for(watch, &route), &answer))
		follow(watch, &route, &answer);
}
