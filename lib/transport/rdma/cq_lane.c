/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/cq_lane.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "otte/otte.h"

#define WCS 16 /* that are polled for at a time */
#define SERIALS_MAX (1u << 31) /* what two tags each leave of 32 bits */

/* ---- Creation -------------------------------------------------------------------------------- */

static int check_params(const struct otte_rdma_context *context,
			const struct otte_rdma_lane_params *params)
{
	if (!params->max_cqes || params->max_cqes > context->limits.max_cqe)
		return otte_fail(-EINVAL, "%s: max_cqes %u, not 1 to %u", context->name,
				 params->max_cqes, context->limits.max_cqe);
	if (!params->max_qps)
		return otte_fail(-EINVAL, "%s: a lane for no QPs", context->name);
	return 0;
}

/* Nobody waits in it for an event. */
static int create_channel(struct otte_rdma_cq_lane *lane)
{
	struct otte_rdma_context *context = lane->context;
	int flags;

	if (!lane->params.events)
		return 0;
	errno = 0;
	lane->channel = context->verbs->create_comp_channel(context->native);
	if (!lane->channel)
		return otte_rdma_call_failed(context, "ibv_create_comp_channel", errno);
	flags = fcntl(lane->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(lane->channel->fd, F_SETFL, flags | O_NONBLOCK))
		return otte_rdma_call_failed(context, "O_NONBLOCK", errno);
	if (otte_fd_mark(lane->channel->fd))
		return otte_fail(-ENOMEM, "%s: %s", context->name, strerror(ENOMEM));
	return 0;
}

static int create_cq(struct otte_rdma_cq_lane *lane, struct ibv_cq **cq)
{
	struct otte_rdma_context *context = lane->context;

	errno = 0;
	*cq = context->verbs->create_cq(context->native, (int)lane->params.max_cqes, lane,
					lane->channel, 0);
	return *cq ? 0 : otte_rdma_call_failed(context, "ibv_create_cq", errno);
}

static int create_parts(struct otte_rdma_cq_lane *lane)
{
	int rc;

	lane->lates = calloc(lane->params.max_qps, sizeof(*lane->lates));
	if (!lane->lates)
		return otte_fail(-ENOMEM, "%s: %s", lane->context->name, strerror(ENOMEM));
	rc = create_channel(lane);
	if (!rc)
		rc = create_cq(lane, &lane->send_cq);
	if (!rc)
		rc = create_cq(lane, &lane->receive_cq);
	return rc;
}

static int destroy_cq(struct otte_rdma_cq_lane *lane, struct ibv_cq **cq)
{
	int rc;

	if (!*cq)
		return 0;
	rc = lane->context->verbs->destroy_cq(*cq);
	if (!rc) {
		*cq = NULL;
		return 0;
	}
	atomic_fetch_add(&lane->context->retained.cqs, 1);
	return otte_fail(-EUCLEAN, "%s: ibv_destroy_cq: %s; retained", lane->context->name,
			 strerror(rc < 0 ? -rc : rc));
}

/* After its CQs. */
static int destroy_channel(struct otte_rdma_cq_lane *lane)
{
	int rc;

	if (!lane->channel)
		return 0;
	otte_fd_forget(lane->channel->fd);
	rc = lane->context->verbs->destroy_comp_channel(lane->channel);
	if (!rc) {
		lane->channel = NULL;
		return 0;
	}
	atomic_fetch_add(&lane->context->retained.channels, 1);
	return otte_fail(-EUCLEAN, "%s: ibv_destroy_comp_channel: %s; retained",
			 lane->context->name, strerror(rc < 0 ? -rc : rc));
}

/* Each is tried once, but for a channel that a CQ still uses. */
static int destroy_parts(struct otte_rdma_cq_lane *lane)
{
	int send = destroy_cq(lane, &lane->send_cq);
	int receive = destroy_cq(lane, &lane->receive_cq);

	if (send || receive)
		return -EUCLEAN;
	return destroy_channel(lane);
}

static void free_lane(struct otte_rdma_cq_lane *lane)
{
	pthread_mutex_destroy(&lane->lock);
	free(lane->lates);
	free(lane);
}

static struct otte_rdma_cq_lane *new_lane(struct otte_rdma_context *context,
					  const struct otte_rdma_lane_params *params)
{
	struct otte_rdma_cq_lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->context = context;
	lane->params = *params;
	otte_rdma_credits_init(&lane->sends, params->max_cqes);
	otte_rdma_credits_init(&lane->receives, params->max_cqes);
	pthread_mutex_init(&lane->lock, NULL);
	return lane;
}

/* What asks for its state does so from any thread, also when it stays. */
static int retain(struct otte_rdma_cq_lane *lane)
{
	struct otte_rdma_context *context = lane->context;

	pthread_mutex_lock(&lane->lock);
	lane->state = OTTE_RDMA_LANE_RETAINED;
	lane->code = -EUCLEAN;
	snprintf(lane->why, sizeof(lane->why), "%s", otte_error_text());
	pthread_mutex_unlock(&lane->lock);
	pthread_mutex_lock(&context->lock);
	lane->next = context->retained_lanes;
	context->retained_lanes = lane;
	pthread_mutex_unlock(&context->lock);
	return -EUCLEAN;
}

/* It has no QPs but those that stay. What cannot be destroyed stays with the context. */
static int dismantle(struct otte_rdma_cq_lane *lane)
{
	uint32_t stranded;

	pthread_mutex_lock(&lane->lock);
	stranded = lane->stranded;
	pthread_mutex_unlock(&lane->lock);
	if (stranded) {
		otte_fail(-EUCLEAN, "%s: %u QPs of a lane are retained", lane->context->name,
			  stranded);
		return retain(lane);
	}
	if (destroy_parts(lane))
		return retain(lane);
	free_lane(lane);
	return 0;
}

static int undo(struct otte_rdma_cq_lane *lane, int rc)
{
	char why[OTTE_ERROR_BYTES];

	snprintf(why, sizeof(why), "%s", otte_error_text());
	if (dismantle(lane))
		return otte_fail_within(-EUCLEAN, "%s; and then ", why);
	return otte_fail(rc, "%s", why);
}

int otte_rdma_lane_create(struct otte_rdma_context *context,
			  const struct otte_rdma_lane_params *params,
			  struct otte_rdma_cq_lane **out)
{
	struct otte_rdma_cq_lane *lane;
	int rc = otte_rdma_context_check_device(context);

	if (!rc)
		rc = check_params(context, params);
	if (rc)
		return rc;
	lane = new_lane(context, params);
	if (!lane)
		return otte_fail(-ENOMEM, "%s: %s", context->name, strerror(ENOMEM));
	rc = create_parts(lane);
	if (rc)
		return undo(lane, rc);
	atomic_fetch_add(&context->children, 1);
	*out = lane;
	return 0;
}

/* Under the lock. */
static uint32_t count_in_use(struct otte_rdma_cq_lane *lane)
{
	struct otte_rdma_qp_status status;
	struct otte_rdma_qp *qp, *next;
	uint32_t count = 0;

	HASH_ITER(hh, lane->qps, qp, next) {
		otte_rdma_qp_status(qp, &status);
		count += status.state != OTTE_RDMA_QP_RETAINED;
	}
	return count;
}

static int check_unused(struct otte_rdma_cq_lane *lane)
{
	uint32_t in_use;
	int rc = 0;

	pthread_mutex_lock(&lane->lock);
	in_use = count_in_use(lane);
	if (lane->state == OTTE_RDMA_LANE_RETAINED)
		rc = otte_fail(-EUCLEAN, "%s", lane->why);
	else if (in_use)
		rc = otte_fail(-EBUSY, "%s: a lane has %u QPs", lane->context->name, in_use);
	pthread_mutex_unlock(&lane->lock);
	return rc;
}

int otte_rdma_lane_destroy(struct otte_rdma_cq_lane *lane)
{
	struct otte_rdma_context *context;
	int rc;

	if (!lane)
		return 0;
	rc = check_unused(lane);
	if (rc)
		return rc;
	context = lane->context;
	rc = dismantle(lane);
	atomic_fetch_sub(&context->children, 1);
	return rc;
}

/* ---- QPs on it ------------------------------------------------------------------------------- */

/* Under the lock. */
static bool is_open(const struct otte_rdma_cq_lane *lane)
{
	return lane->state == OTTE_RDMA_LANE_OPEN && lane->serial < SERIALS_MAX;
}

bool otte_rdma_lane_admits(struct otte_rdma_cq_lane *lane)
{
	bool open;

	pthread_mutex_lock(&lane->lock);
	open = is_open(lane);
	pthread_mutex_unlock(&lane->lock);
	return open;
}

/* Under the lock. */
static int check_open(const struct otte_rdma_cq_lane *lane)
{
	if (is_open(lane))
		return 0;
	return otte_fail(-EAGAIN, "%s: a lane takes no more QPs%s%s", lane->context->name,
			 lane->code ? ": " : "", lane->why);
}

int otte_rdma_lane_admit(struct otte_rdma_cq_lane *lane, uint32_t *serial)
{
	int rc;

	pthread_mutex_lock(&lane->lock);
	rc = check_open(lane);
	if (!rc)
		*serial = lane->serial++;
	pthread_mutex_unlock(&lane->lock);
	return rc;
}

static struct otte_rdma_qp *find(struct otte_rdma_cq_lane *lane, uint32_t qpn)
{
	struct otte_rdma_qp *qp;

	HASH_FIND(hh, lane->qps, &qpn, sizeof(qpn), qp);
	return qp;
}

/* Under the lock. */
static int add(struct otte_rdma_cq_lane *lane, struct otte_rdma_qp *qp)
{
	int rc = check_open(lane);

	if (rc)
		return rc;
	if (HASH_COUNT(lane->qps) >= lane->params.max_qps)
		return otte_fail(-EAGAIN, "%s: a lane has %u QPs, which is all",
				 lane->context->name, lane->params.max_qps);
	if (find(lane, qp->end.qpn))
		return otte_fail(-EEXIST, "%s: the provider gave QPN %u, of a QP in use",
				 lane->context->name, qp->end.qpn);
	HASH_ADD(hh, lane->qps, end.qpn, sizeof(qp->end.qpn), qp);
	return qp->hh.tbl ? 0 : otte_fail(-ENOMEM, "%s: %s", lane->context->name, strerror(ENOMEM));
}

int otte_rdma_lane_add(struct otte_rdma_cq_lane *lane, struct otte_rdma_qp *qp)
{
	int rc;

	pthread_mutex_lock(&lane->lock);
	rc = add(lane, qp);
	pthread_mutex_unlock(&lane->lock);
	return rc;
}

/* Once CLOSED it takes no QPs, so there are no more of these than QPs at a time. */
void otte_rdma_lane_remove(struct otte_rdma_cq_lane *lane, struct otte_rdma_qp *qp,
			   const struct otte_rdma_late *late)
{
	pthread_mutex_lock(&lane->lock);
	HASH_DEL(lane->qps, qp);
	if (late->sends || late->receives) {
		lane->lates[lane->late_count++] = *late;
		if (lane->state == OTTE_RDMA_LANE_OPEN)
			lane->state = OTTE_RDMA_LANE_CLOSED;
	}
	pthread_mutex_unlock(&lane->lock);
}

void otte_rdma_lane_strand(struct otte_rdma_cq_lane *lane)
{
	pthread_mutex_lock(&lane->lock);
	lane->stranded++;
	pthread_mutex_unlock(&lane->lock);
}

/* ---- Fences ---------------------------------------------------------------------------------- */

void otte_rdma_lane_fence(struct otte_rdma_cq_lane *lane, int code, const char *why)
{
	struct otte_rdma_qp *qp, *next;

	pthread_mutex_lock(&lane->lock);
	if (lane->state < OTTE_RDMA_LANE_FAULTED) {
		lane->state = OTTE_RDMA_LANE_FAULTED;
		lane->code = code;
		snprintf(lane->why, sizeof(lane->why), "%s", why);
		HASH_ITER(hh, lane->qps, qp, next)
			otte_rdma_qp_fence(qp, code, why);
	}
	pthread_mutex_unlock(&lane->lock);
}

/* `rc` has just failed with a text. */
static int fault(struct otte_rdma_cq_lane *lane, int rc)
{
	char why[OTTE_ERROR_BYTES];

	snprintf(why, sizeof(why), "%s", otte_error_text());
	otte_rdma_lane_fence(lane, rc, why);
	return otte_fail(rc, "%s", why);
}

static struct otte_rdma_qp *find_announced(struct otte_rdma_cq_lane *lane)
{
	struct otte_rdma_qp *qp, *next, *found = NULL;

	pthread_mutex_lock(&lane->lock);
	HASH_ITER(hh, lane->qps, qp, next)
		if (!found && otte_rdma_qp_take_announcement(qp))
			found = qp;
	pthread_mutex_unlock(&lane->lock);
	return found;
}

/* What is told may take QPs off the lane, so each is looked for anew. */
static void announce(struct otte_rdma_cq_lane *lane)
{
	struct otte_rdma_qp *qp;

	if (!atomic_exchange(&lane->announcements, 0))
		return;
	while ((qp = find_announced(lane)))
		if (qp->fenced)
			qp->fenced(qp, qp->arg);
}

/* ---- Polling --------------------------------------------------------------------------------- */

struct source {
	struct ibv_cq *cq;
	void (*tell)(struct otte_rdma_qp *qp, const struct ibv_wc *wc);
	bool sends;
};

/* Under the lock: of a QP that is gone, which had such a WR left. */
static bool is_late(struct otte_rdma_cq_lane *lane, const struct source *source, uint32_t qpn)
{
	uint32_t i, *left;

	for (i = 0; i < lane->late_count; i++) {
		left = source->sends ? &lane->lates[i].sends : &lane->lates[i].receives;
		if (lane->lates[i].qpn != qpn || !*left)
			continue;
		--*left;
		return true;
	}
	return false;
}

static void deliver(struct otte_rdma_cq_lane *lane, const struct source *source,
		    const struct ibv_wc *wc)
{
	struct otte_rdma_qp *qp;
	bool late;

	lane->cqes++;
	pthread_mutex_lock(&lane->lock);
	qp = find(lane, wc->qp_num);
	late = !qp && is_late(lane, source, wc->qp_num);
	pthread_mutex_unlock(&lane->lock);
	if (qp) {
		source->tell(qp, wc);
		return;
	}
	if (late) {
		lane->late_cqes++;
		return;
	}
	otte_fail(-EPROTO, "%s: a CQE of QP %u, which is not here", lane->context->name,
		  wc->qp_num);
	fault(lane, -EPROTO);
}

/* How many CQEs there were; or negative, with a text. */
static int poll_some(struct otte_rdma_cq_lane *lane, const struct source *source, uint32_t most)
{
	struct ibv_wc wcs[WCS];
	int i, count;

	count = lane->context->verbs->poll_cq(source->cq, (int)most, wcs);
	if (count < 0 || count > (int)most) {
		otte_fail(-EIO, "%s: ibv_poll_cq: %d", lane->context->name, count);
		return fault(lane, -EIO);
	}
	for (i = 0; i < count; i++)
		deliver(lane, source, &wcs[i]);
	return count;
}

static int poll_source(struct otte_rdma_cq_lane *lane, const struct source *source, uint32_t budget)
{
	uint32_t most, total = 0;
	int count;

	while (total < budget) {
		most = budget - total < WCS ? budget - total : WCS;
		count = poll_some(lane, source, most);
		if (count < 0)
			return count;
		total += (uint32_t)count;
		if ((uint32_t)count < most)
			break;
	}
	return (int)total;
}

/* Sends first: a window is known to be bound before its receipt is looked at. */
int otte_rdma_lane_poll(struct otte_rdma_cq_lane *lane, uint32_t budget)
{
	const struct source sends = { lane->send_cq, otte_rdma_qp_sent, true };
	const struct source receives = { lane->receive_cq, otte_rdma_qp_received, false };
	char why[OTTE_ERROR_BYTES];
	int sent, received;

	sent = poll_source(lane, &sends, budget);
	if (sent < 0)
		snprintf(why, sizeof(why), "%s", otte_error_text());
	received = poll_source(lane, &receives, budget);
	announce(lane);
	if (received < 0)
		return received;
	if (sent < 0)
		return otte_fail(sent, "%s", why);
	return sent + received;
}

/* ---- Events ---------------------------------------------------------------------------------- */

int otte_rdma_lane_fd(const struct otte_rdma_cq_lane *lane)
{
	return lane->channel->fd;
}

static int arm(struct otte_rdma_cq_lane *lane, struct ibv_cq *cq)
{
	int rc = lane->context->verbs->req_notify_cq(cq, 0);

	if (!rc)
		return 0;
	rc = otte_rdma_call_failed(lane->context, "ibv_req_notify_cq", rc);
	return fault(lane, rc);
}

int otte_rdma_lane_arm(struct otte_rdma_cq_lane *lane)
{
	int rc = arm(lane, lane->send_cq);

	return rc ? rc : arm(lane, lane->receive_cq);
}

int otte_rdma_lane_arm_posted(struct otte_rdma_cq_lane *lane)
{
	if (otte_rdma_credits_free(&lane->sends) == lane->sends.total)
		return arm(lane, lane->receive_cq);
	return otte_rdma_lane_arm(lane);
}

int otte_rdma_lane_heard(struct otte_rdma_cq_lane *lane)
{
	const struct otte_verbs *verbs = lane->context->verbs;
	struct ibv_cq *cq;
	void *context;
	int rc;

	while (!verbs->get_cq_event(lane->channel, &cq, &context))
		verbs->ack_cq_events(cq, 1);
	if (errno == EAGAIN)
		return 0;
	rc = otte_rdma_call_failed(lane->context, "ibv_get_cq_event", errno);
	return fault(lane, rc);
}

void otte_rdma_lane_status(struct otte_rdma_cq_lane *lane, struct otte_rdma_lane_status *status)
{
	pthread_mutex_lock(&lane->lock);
	*status = (struct otte_rdma_lane_status){
		.state = lane->state,
		.code = lane->code,
		.qps = HASH_COUNT(lane->qps),
		.sends = lane->sends.total - otte_rdma_credits_free(&lane->sends),
		.receives = lane->receives.total - otte_rdma_credits_free(&lane->receives),
	};
	memcpy(status->why, lane->why, sizeof(status->why));
	pthread_mutex_unlock(&lane->lock);
}
