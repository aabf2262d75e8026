/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Completion queues and their channels. A CQ that has no room for a completion loses it and is in
 * error for good: what is in it can be polled, what comes is lost.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "sim/verbs/private.h"

#define RUBBISH 0x5a5a5a5au

static struct sim_cq *cq_of(struct ibv_cq *cq)
{
	return container_of(cq, struct sim_cq, cq);
}

static struct sim_channel *channel_of(struct ibv_comp_channel *channel)
{
	return container_of(channel, struct sim_channel, channel);
}

/* ---- Channels -------------------------------------------------------------------------------- */

static struct ibv_comp_channel *create_channel(struct sim_context *context)
{
	struct sim_channel *channel = calloc(1, sizeof(*channel));
	int error = channel ? sim_event_queue_open(&channel->events) : ENOMEM;

	if (error) {
		free(channel);
		errno = error;
		return NULL;
	}
	channel->channel.context = &context->context;
	channel->channel.fd = channel->events.fd;
	LIST_INSERT_HEAD(&context->channels, channel, link);
	context->nic->counts.channels++;
	return &channel->channel;
}

struct ibv_comp_channel *sim_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = NULL;
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_CREATE_COMP_CHANNEL, SIM_OF(context, context->device));
	if (!error && sim_nic_of(context)->fatal)
		error = EIO;
	if (error)
		errno = error;
	else
		channel = create_channel(sim_context_of(context));
	pthread_mutex_unlock(&sim_lock);
	return channel;
}

static void free_channel(struct sim_channel *channel)
{
	sim_nic_of(channel->channel.context)->counts.channels--;
	LIST_REMOVE(channel, link);
	sim_event_queue_close(&channel->events);
	free(channel);
}

int sim_destroy_comp_channel(struct ibv_comp_channel *native)
{
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_DESTROY_COMP_CHANNEL,
			       SIM_OF(native, native->context, native->context->device));
	if (!error && native->refcnt)
		error = EBUSY;
	if (!error)
		free_channel(channel_of(native));
	pthread_mutex_unlock(&sim_lock);
	return error;
}

int sim_get_cq_event(struct ibv_comp_channel *native, struct ibv_cq **native_cq, void **cq_context)
{
	struct sim_channel *channel = channel_of(native);
	struct sim_event event;
	bool taken = false;
	struct sim_cq *cq;
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_GET_CQ_EVENT,
			       SIM_OF(native, native->context, native->context->device));
	if (error)
		errno = error;
	else
		taken = sim_event_take(&channel->events, &event);
	if (taken) {
		cq = container_of(event.object, struct sim_cq, object);
		cq->object.completions++;
		*native_cq = &cq->cq;
		*cq_context = cq->cq.cq_context;
	}
	pthread_mutex_unlock(&sim_lock);
	return taken ? 0 : -1;
}

void sim_ack_cq_events(struct ibv_cq *native, unsigned int count)
{
	struct sim_cq *cq = cq_of(native);

	pthread_mutex_lock(&sim_lock);
	sim_fault_call(SIM_ACK_CQ_EVENTS, SIM_OF(native));
	if (count > cq->object.completions)
		sim_abort("%u completion events are acknowledged, %u were taken", count,
			  cq->object.completions);
	cq->object.completions -= count;
	pthread_cond_broadcast(&sim_changed);
	pthread_mutex_unlock(&sim_lock);
}

/* ---- CQs ------------------------------------------------------------------------------------- */

static int check_cq(struct sim_context *context, int entries,
		    const struct ibv_comp_channel *channel, int vector)
{
	const struct ibv_device_attr *attr = &context->nic->device.attr;

	if (context->nic->fatal)
		return EIO;
	if (entries < 1 || entries > attr->max_cqe)
		return EINVAL;
	if (vector < 0 || vector >= context->context.num_comp_vectors)
		return EINVAL;
	if (channel && channel->context != &context->context)
		return EINVAL;
	return context->nic->counts.cqs >= (unsigned int)attr->max_cq ? ENOMEM : 0;
}

static struct sim_cq *new_cq(int entries)
{
	struct sim_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return NULL;
	cq->ring = calloc((size_t)entries, sizeof(struct sim_cqe));
	cq->size = (unsigned int)entries;
	if (cq->ring)
		return cq;
	free(cq);
	return NULL;
}

struct ibv_cq *sim_create_cq(struct ibv_context *native, int entries, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct sim_context *context = sim_context_of(native);
	struct sim_cq *cq = NULL;
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_CREATE_CQ, SIM_OF(native, native->device));
	if (!error)
		error = check_cq(context, entries, channel, vector);
	if (!error)
		cq = new_cq(entries);
	if (cq) {
		cq->cq.context = native;
		cq->cq.channel = channel;
		cq->cq.cq_context = cq_context;
		cq->cq.cqe = entries;
		if (channel)
			channel->refcnt++;
		LIST_INSERT_HEAD(&context->cqs, cq, link);
		context->nic->counts.cqs++;
	}
	pthread_mutex_unlock(&sim_lock);
	if (!cq)
		errno = error ? error : ENOMEM;
	return cq ? &cq->cq : NULL;
}

/* Nobody finds it any more; who has taken an event of it may still name it. */
static void remove_cq(struct sim_cq *cq)
{
	struct sim_context *context = sim_context_of(cq->cq.context);

	if (cq->cq.channel) {
		sim_event_purge(&channel_of(cq->cq.channel)->events, &cq->object);
		cq->cq.channel->refcnt--;
	}
	sim_event_purge(&context->events, &cq->object);
	LIST_REMOVE(cq, link);
	context->nic->counts.cqs--;
	context->nic->counts.cqes -= cq->count;
}

static void free_cq(struct sim_cq *cq)
{
	free(cq->ring);
	free(cq);
}

int sim_destroy_cq(struct ibv_cq *native)
{
	struct sim_cq *cq = cq_of(native);
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_DESTROY_CQ,
			       SIM_OF(native, native->context, native->context->device));
	if (!error && cq->queues)
		error = EBUSY;
	if (!error) {
		remove_cq(cq);
		sim_event_wait_acked(&cq->object, "destroy_cq");
		free_cq(cq);
	}
	pthread_mutex_unlock(&sim_lock);
	return error;
}

void sim_completion_free(struct sim_context *context)
{
	struct sim_cq *cq;

	while ((cq = LIST_FIRST(&context->cqs))) {
		remove_cq(cq);
		free_cq(cq);
	}
	while (!LIST_EMPTY(&context->channels))
		free_channel(LIST_FIRST(&context->channels));
}

/* ---- Notification ---------------------------------------------------------------------------- */

int sim_req_notify_cq(struct ibv_cq *native, int solicited_only)
{
	struct sim_cq *cq = cq_of(native);
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_REQ_NOTIFY_CQ,
			       SIM_OF(native, native->context, native->context->device));
	/* A wish for all is not taken back by one for less. */
	if (!error && (!solicited_only || cq->notify == SIM_NOTIFY_OFF))
		cq->notify = solicited_only ? SIM_NOTIFY_SOLICITED : SIM_NOTIFY_ALL;
	pthread_mutex_unlock(&sim_lock);
	return error;
}

static void notify(struct sim_cq *cq, bool solicited)
{
	if (cq->held) {
		cq->held_any = true;
		cq->held_solicited |= solicited;
		return;
	}
	if (cq->notify == SIM_NOTIFY_OFF || (cq->notify == SIM_NOTIFY_SOLICITED && !solicited))
		return;
	cq->notify = SIM_NOTIFY_OFF;
	if (cq->cq.channel)
		sim_event_push(&channel_of(cq->cq.channel)->events, NULL, &cq->object);
}

void sim_cq_hold(struct ibv_cq *native, bool hold)
{
	struct sim_cq *cq = cq_of(native);

	pthread_mutex_lock(&sim_lock);
	cq->held = hold;
	if (!hold && cq->held_any)
		notify(cq, cq->held_solicited);
	cq->held_any = false;
	cq->held_solicited = false;
	pthread_mutex_unlock(&sim_lock);
}

/* ---- Completions ----------------------------------------------------------------------------- */

static void set_error(struct sim_cq *cq)
{
	const struct ibv_async_event event = {
		.element.cq = &cq->cq,
		.event_type = IBV_EVENT_CQ_ERR,
	};

	if (cq->error)
		return;
	cq->error = true;
	sim_event_push(&sim_context_of(cq->cq.context)->events, &event, &cq->object);
}

void sim_cq_error(struct ibv_cq *cq)
{
	pthread_mutex_lock(&sim_lock);
	set_error(cq_of(cq));
	pthread_mutex_unlock(&sim_lock);
}

static void push(struct sim_cq *cq, const struct sim_cqe *cqe)
{
	if (cq->error || cq->count == cq->size) {
		set_error(cq);
		if (cqe->qp->attr.qp_state != IBV_QPS_ERR) {
			sim_qp_set_error(cqe->qp);
			sim_qp_raise(cqe->qp, IBV_EVENT_QP_FATAL);
		}
		return;
	}
	cq->ring[(cq->first + cq->count++) % cq->size] = *cqe;
	sim_nic_of(cq->cq.context)->counts.cqes++;
	notify(cq, cqe->solicited || cqe->wc.status != IBV_WC_SUCCESS);
}

/* Only these are defined of one that failed: wr_id, status, qp_num and vendor_err. */
static void spoil(struct ibv_wc *wc)
{
	wc->opcode = (enum ibv_wc_opcode)RUBBISH;
	wc->byte_len = RUBBISH;
	wc->invalidated_rkey = RUBBISH;
	wc->wc_flags = RUBBISH;
	wc->src_qp = RUBBISH;
}

static void change(struct sim_qp *qp, struct sim_cq *cq, struct ibv_wc *wc)
{
	const void *const of[] = { &cq->cq,	   &qp->qp,	     qp->qp.pd,
				   qp->qp.context, &qp->nic->device, NULL };
	const struct sim_fault *fault;

	if ((fault = sim_fault_strikes(SIM_FAULT_CQE_QPN, of)))
		wc->qp_num ^= (uint32_t)fault->value;
	if ((fault = sim_fault_strikes(SIM_FAULT_CQE_WR_ID, of)))
		wc->wr_id ^= fault->value;
	if ((fault = sim_fault_strikes(SIM_FAULT_CQE_FLAGS, of)))
		wc->wc_flags ^= (unsigned int)fault->value;
	if ((fault = sim_fault_strikes(SIM_FAULT_CQE_KEY, of)))
		wc->invalidated_rkey ^= (uint32_t)fault->value;
}

void sim_complete(struct sim_qp *qp, const struct sim_cqe *cqe)
{
	struct sim_cq *cq = cqe->send ? sim_send_cq(qp) : sim_recv_cq(qp);
	const void *const of[] = { &cq->cq,	   &qp->qp,	     qp->qp.pd,
				   qp->qp.context, &qp->nic->device, NULL };
	struct sim_cqe changed = *cqe;

	changed.qp = qp;
	changed.wc.qp_num = qp->qp.qp_num;
	if (changed.wc.status != IBV_WC_SUCCESS)
		spoil(&changed.wc);
	change(qp, cq, &changed.wc);
	if (sim_fault_strikes(SIM_FAULT_CQE_LOST, of))
		return;
	push(cq, &changed);
	if (sim_fault_strikes(SIM_FAULT_CQE_TWICE, of))
		push(cq, &changed);
}

/* Its slot, and those of what was posted before it and had no completion. */
static void free_slots(const struct sim_cqe *cqe)
{
	struct sim_numbers *numbers;

	if (!cqe->qp)
		return;
	numbers = cqe->send ? &cqe->qp->sends : &cqe->qp->recvs;
	numbers->free = max_u64(numbers->free, cqe->posted + 1);
}

static int poll_all(struct sim_cq *cq, int count, struct ibv_wc *wc)
{
	int done;

	if (cq->held)
		return 0;
	if (cq->error && !cq->count && count)
		return -1;
	for (done = 0; done < count && cq->count; done++) {
		wc[done] = cq->ring[cq->first].wc;
		free_slots(&cq->ring[cq->first]);
		cq->first = (cq->first + 1) % cq->size;
		cq->count--;
		sim_nic_of(cq->cq.context)->counts.cqes--;
	}
	return done;
}

/* Time may have passed for what waits by the clock. */
int sim_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	int error, done;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_POLL_CQ, SIM_OF(cq, cq->context, cq->context->device));
	sim_progress();
	done = error ? -1 : poll_all(cq_of(cq), count, wc);
	pthread_mutex_unlock(&sim_lock);
	return done;
}

void sim_cq_forget(struct sim_cq *cq, const struct sim_qp *qp, bool drop)
{
	unsigned int i, kept = 0;
	struct sim_cqe *cqe;

	for (i = 0; i < cq->count; i++) {
		cqe = &cq->ring[(cq->first + i) % cq->size];
		if (cqe->qp == qp) {
			if (drop)
				continue;
			cqe->qp = NULL;
		}
		cq->ring[(cq->first + kept++) % cq->size] = *cqe;
	}
	sim_nic_of(cq->cq.context)->counts.cqes -= cq->count - kept;
	cq->count = kept;
}
