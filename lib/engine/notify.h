/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Small messages between applications: what came in waits here, bounded, until it is taken. */
#ifndef OTTE_ENGINE_NOTIFY_H
#define OTTE_ENGINE_NOTIFY_H

#include "control/server.h"
#include "otte/otte.h"

struct otte_engine;
struct otte_notify_queue;
struct otte_pending_notify;

int otte_notify_queue_create(struct otte_notify_queue **queue);
void otte_notify_queue_destroy(struct otte_notify_queue *queue);

/* The control server's handler. */
int otte_notify_receive(void *arg, struct otte_session *session, const void *data, size_t length);

/* Send what hung on a batch, or drop it (`code` not 0), and free it. Without locks. */
void otte_notify_send_list(struct otte_pending_notify *list, int code);

#endif
