/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events: queues of them behind a descriptor, for contexts and for completion channels, and who has
 * still to acknowledge what.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "sim/verbs/private.h"

/* ---- A queue --------------------------------------------------------------------------------- */

int sim_event_queue_open(struct sim_event_queue *queue)
{
	TAILQ_INIT(&queue->events);
	queue->count = 0;
	queue->fd = eventfd(0, EFD_CLOEXEC);
	return queue->fd < 0 ? errno : 0;
}

/* The counter is 1 while there are events, else 0. */
static void show(struct sim_event_queue *queue, bool readable)
{
	uint64_t value = 1;
	ssize_t done;

	done = readable ? write(queue->fd, &value, sizeof(value)) :
			  read(queue->fd, &value, sizeof(value));
	if (done != sizeof(value))
		sim_abort("descriptor %d: somebody else reads it or has closed it", queue->fd);
}

void sim_event_push(struct sim_event_queue *queue, const struct ibv_async_event *async,
		    struct sim_object *object)
{
	struct sim_event *event = calloc(1, sizeof(*event));

	if (!event)
		return;
	if (async)
		event->async = *async;
	event->object = object;
	TAILQ_INSERT_TAIL(&queue->events, event, link);
	if (!queue->count++)
		show(queue, true);
}

static void drop(struct sim_event_queue *queue, struct sim_event *event)
{
	TAILQ_REMOVE(&queue->events, event, link);
	free(event);
	if (!--queue->count)
		show(queue, false);
}

static bool wait_for_event(const struct sim_event_queue *queue)
{
	struct pollfd wanted = { .fd = queue->fd, .events = POLLIN };
	int rc;

	if (fcntl(queue->fd, F_GETFL) & O_NONBLOCK) {
		errno = EAGAIN;
		return false;
	}
	pthread_mutex_unlock(&sim_lock);
	rc = poll(&wanted, 1, -1);
	pthread_mutex_lock(&sim_lock);
	return rc > 0;
}

bool sim_event_take(struct sim_event_queue *queue, struct sim_event *event)
{
	struct sim_event *first;

	while (!(first = TAILQ_FIRST(&queue->events)))
		if (!wait_for_event(queue))
			return false;
	*event = *first;
	drop(queue, first);
	return true;
}

void sim_event_purge(struct sim_event_queue *queue, const struct sim_object *object)
{
	struct sim_event *event, *next;

	for (event = TAILQ_FIRST(&queue->events); event; event = next) {
		next = TAILQ_NEXT(event, link);
		if (event->object == object)
			drop(queue, event);
	}
}

void sim_event_queue_close(struct sim_event_queue *queue)
{
	struct sim_event *event;

	while ((event = TAILQ_FIRST(&queue->events))) {
		TAILQ_REMOVE(&queue->events, event, link);
		free(event);
	}
	queue->count = 0;
	close(queue->fd);
}

/* ---- Acknowledgements ------------------------------------------------------------------------ */

struct sim_object sim_ports;

void sim_event_wait_acked(const struct sim_object *object, const char *what)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SIM_ACK_WAIT_MS / 1000;
	while (object->completions || object->asyncs)
		if (pthread_cond_timedwait(&sim_changed, &sim_lock, &until) == ETIMEDOUT)
			sim_abort("%s waits for ever: %u completion events and %u asynchronous "
				  "ones were taken and not acknowledged",
				  what, object->completions, object->asyncs);
}

static struct sim_object *object_of(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return &container_of(event->element.cq, struct sim_cq, cq)->object;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
		return &sim_qp_of(event->element.qp)->object;
	default:
		return &sim_ports;
	}
}

int sim_get_async_event(struct ibv_context *native, struct ibv_async_event *async)
{
	struct sim_context *context = sim_context_of(native);
	struct sim_event event;
	bool taken = false;
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_GET_ASYNC_EVENT, SIM_OF(native, native->device));
	if (error)
		errno = error;
	else
		taken = sim_event_take(&context->events, &event);
	if (taken) {
		*async = event.async;
		(event.object ? event.object : &sim_ports)->asyncs++;
	}
	pthread_mutex_unlock(&sim_lock);
	return taken ? 0 : -1;
}

void sim_ack_async_event(struct ibv_async_event *event)
{
	struct sim_object *object;

	pthread_mutex_lock(&sim_lock);
	sim_fault_call(SIM_ACK_ASYNC_EVENT, SIM_OF(NULL));
	object = object_of(event);
	if (!object->asyncs--)
		sim_abort("an asynchronous event is acknowledged that was not taken");
	pthread_cond_broadcast(&sim_changed);
	pthread_mutex_unlock(&sim_lock);
}
