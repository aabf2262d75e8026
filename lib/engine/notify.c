/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/notify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/segment.h"

struct received {
	struct received *prev, *next;
	uint64_t epoch;
	uint32_t length;
	uint8_t data[];
};

/* event_fd is readable exactly while the list is not empty. */
struct otte_notify_queue {
	pthread_mutex_t lock;
	struct received *list;
	uint64_t count;
	int event_fd;
};

int otte_notify_queue_create(struct otte_notify_queue **out)
{
	struct otte_notify_queue *queue;
	int ret;

	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return otte_fail(-ENOMEM, "no memory for notifications");
	queue->event_fd = otte_fd_eventfd(0);
	if (queue->event_fd < 0) {
		ret = otte_fail(-errno, "eventfd: %m");
		free(queue);
		return ret;
	}
	pthread_mutex_init(&queue->lock, NULL);
	*out = queue;
	return 0;
}

void otte_notify_queue_destroy(struct otte_notify_queue *queue)
{
	struct received *entry, *next;

	if (!queue)
		return;
	DL_FOREACH_SAFE(queue->list, entry, next)
		free(entry);
	otte_fd_close(queue->event_fd);
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}

int otte_notify_receive(void *arg, struct otte_session *session, const void *data, size_t length)
{
	struct otte_engine *engine = arg;
	struct otte_notify_queue *queue = engine->notify;
	struct received *entry;
	uint64_t one = 1;
	int ret = 0;

	entry = malloc(sizeof(*entry) + length);
	if (!entry)
		return -ENOMEM;
	entry->epoch = session->peer.epoch;
	entry->length = (uint32_t)length;
	memcpy(entry->data, data, length);
	pthread_mutex_lock(&queue->lock);
	if (queue->count >= engine->config.max_notifications) {
		ret = -EDQUOT;
	} else {
		DL_APPEND(queue->list, entry);
		if (!queue->count++ && write(queue->event_fd, &one, sizeof(one)) < 0)
			otte_log(OTTE_LOG_ERROR, "the notifications' eventfd: %m");
	}
	pthread_mutex_unlock(&queue->lock);
	if (ret)
		free(entry);
	else
		atomic_fetch_add(&engine->counters.notifications_received, 1);
	return ret;
}

int otte_notification_next(struct otte_engine *engine, struct otte_notification *notification)
{
	struct otte_notify_queue *queue;
	struct received *entry;
	uint64_t drain;
	int ret;

	if (!engine || !notification)
		return otte_fail(-EINVAL, "otte_notification_next: engine and notification must not be NULL");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	queue = engine->notify;
	pthread_mutex_lock(&queue->lock);
	entry = queue->list;
	if (entry) {
		DL_DELETE(queue->list, entry);
		if (!--queue->count && read(queue->event_fd, &drain, sizeof(drain)) < 0)
			otte_log(OTTE_LOG_ERROR, "the notifications' eventfd: %m");
	}
	pthread_mutex_unlock(&queue->lock);
	if (!entry)
		return otte_fail(-EAGAIN, "no notification waits");
	notification->epoch = entry->epoch;
	notification->length = entry->length;
	notification->reserved = 0;
	memcpy(notification->data, entry->data, entry->length);
	free(entry);
	return 0;
}

int otte_notification_eventfd(struct otte_engine *engine)
{
	int ret;

	if (!engine)
		return otte_fail(-EINVAL, "otte_notification_eventfd: engine must not be NULL");
	ret = otte_fork_check(engine->generation);
	return ret ? ret : engine->notify->event_fd;
}

/* ---- Sending ---- */

static int send_now(struct otte_segment *segment, const void *data, size_t length)
{
	int ret;

	ret = otte_control_client_post(&segment->peer->control, OTTE_FRAME_NOTIFY, data, length);
	if (!ret)
		atomic_fetch_add(&segment->engine->counters.notifications_sent, 1);
	return ret;
}

void otte_notify_send_list(struct otte_pending_notify *list, int code)
{
	struct otte_pending_notify *next;

	for (; list; list = next) {
		next = list->next;
		if (code == 0 && send_now(list->segment, list->data, list->length))
			otte_log(OTTE_LOG_WARNING, "a notification is lost: %s", otte_error_text());
		otte_segment_unuse(list->segment);
		free(list);
	}
}

/* Tie it to what the batch has so far; `*now`: all of that is complete already. */
static int tie(struct otte_batch *batch, struct otte_pending_notify *pending, bool *now)
{
	int ret = 0;

	otte_tail_lock(&batch->lock);
	pending->after = batch->submitted;
	*now = batch->prefix == batch->submitted;
	if (!*now && batch->finished == batch->submitted) {
		ret = otte_fail(-ECANCELED, "a request of the batch has failed");
	} else if (!*now) {
		*batch->notify_tail = pending;
		batch->notify_tail = &pending->next;
	}
	otte_tail_unlock(&batch->lock);
	return ret;
}

int otte_notify(struct otte_segment *segment, struct otte_batch *batch, const void *data,
		size_t length)
{
	struct otte_pending_notify *pending;
	bool now;
	int ret;

	if (!segment || !data)
		return otte_fail(-EINVAL, "otte_notify: segment and data must not be NULL");
	ret = otte_fork_check(segment->engine->generation);
	if (ret)
		return ret;
	if (length == 0 || length > OTTE_NOTIFY_MAX)
		return otte_fail(-EINVAL, "otte_notify: %zu bytes, not 1..%d", length,
				 OTTE_NOTIFY_MAX);
	if (atomic_load(&segment->engine->requester_closed))
		return otte_fail(-ESHUTDOWN, "this engine is closed as a requester");
	ret = otte_peer_check(segment->peer);
	if (ret)
		return ret;
	if (!batch)
		return send_now(segment, data, length);
	if (batch->engine != segment->engine)
		return otte_fail(-EINVAL, "otte_notify: batch is not of this engine");
	pending = malloc(sizeof(*pending) + length);
	if (!pending)
		return otte_fail(-ENOMEM, "no memory for a notification");
	pending->next = NULL;
	pending->segment = segment;
	pending->length = (uint32_t)length;
	memcpy(pending->data, data, length);
	otte_segment_use(segment);
	ret = tie(batch, pending, &now);
	if (now || ret) {
		otte_segment_unuse(segment);
		free(pending);
	}
	if (now)
		ret = send_now(segment, data, length);
	return ret;
}
