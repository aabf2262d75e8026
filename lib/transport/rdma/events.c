/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/events.h"

#include <errno.h>
#include <fcntl.h>

int otte_rdma_events_open(const struct otte_rdma_context *context)
{
	int flags = fcntl(context->native->async_fd, F_GETFL);

	if (flags < 0 || fcntl(context->native->async_fd, F_SETFL, flags | O_NONBLOCK))
		return otte_rdma_call_failed(context, "O_NONBLOCK of its events", errno);
	return 0;
}

static enum otte_rdma_event_kind kind_of_port(const struct otte_rdma_context *context,
					      const struct ibv_async_event *native,
					      enum otte_rdma_event_kind kind)
{
	return native->element.port_num == context->port ? kind : OTTE_RDMA_EVENT_OTHER_PORT;
}

static enum otte_rdma_event_kind kind_of(const struct otte_rdma_context *context,
					 const struct ibv_async_event *native)
{
	switch (native->event_type) {
	case IBV_EVENT_PORT_ERR:
		return kind_of_port(context, native, OTTE_RDMA_EVENT_PORT_DOWN);
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_SM_CHANGE:
		return kind_of_port(context, native, OTTE_RDMA_EVENT_PORT_CHANGED);
	case IBV_EVENT_DEVICE_FATAL:
		return OTTE_RDMA_EVENT_DEVICE;
	case IBV_EVENT_CQ_ERR:
		return OTTE_RDMA_EVENT_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return OTTE_RDMA_EVENT_QP;
	default:
		return OTTE_RDMA_EVENT_IGNORED;
	}
}

static void tell(const struct otte_rdma_context *context, struct ibv_async_event *native,
		 const struct otte_rdma_event_listener *listener)
{
	struct otte_rdma_event event = {
		.kind = kind_of(context, native),
		.name = context->verbs->event_type_str(native->event_type),
	};

	if (event.kind == OTTE_RDMA_EVENT_CQ)
		event.cq = native->element.cq;
	if (event.kind == OTTE_RDMA_EVENT_QP)
		event.qp = native->element.qp;
	if (event.cq || event.qp) {
		listener->heard(listener->arg, &event);
		context->verbs->ack_async_event(native);
	} else {
		context->verbs->ack_async_event(native);
		listener->heard(listener->arg, &event);
	}
}

int otte_rdma_events_take(const struct otte_rdma_context *context, unsigned int budget,
			  const struct otte_rdma_event_listener *listener)
{
	struct ibv_async_event native;

	while (budget--) {
		errno = 0;
		if (!context->verbs->get_async_event(context->native, &native))
			tell(context, &native, listener);
		else if (errno == EAGAIN)
			return 0;
		else if (errno != EINTR)
			return otte_rdma_call_failed(context, "ibv_get_async_event", errno);
	}
	return 1;
}
