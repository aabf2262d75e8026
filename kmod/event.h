/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: queues of events, that never allocate and never lose. See event.c.
 */
#ifndef OTTE_EVENT_H
#define OTTE_EVENT_H

#include <linux/fs.h>
#include <linux/list.h>
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "otte_priv.h"

struct otte_client;

/* What a node is embedded in; decides how its records are filled and which kref it holds. */
enum otte_event_source {
	OTTE_SOURCE_LOAN_LENDER,
	OTTE_SOURCE_LOAN_BORROWER,
	OTTE_SOURCE_REGION,
	OTTE_SOURCE_HOLD,
	OTTE_SOURCE_ATTEST,
	OTTE_SOURCE_QUOTA,
	OTTE_SOURCE_FENCED,
};

/**
 * struct otte_event_node - embedded in each object that can have events
 * @link: in the queue while @pending is not 0
 * @source: what it is embedded in
 * @pending: bit for each enum otte_event_type not yet read; told in ascending order
 */
struct otte_event_node {
	struct list_head link;
	enum otte_event_source source;
	u32 pending;
};

/**
 * struct otte_event_queue - of one client
 * @lock: protects all of it and the nodes in it
 * @nodes: first in, first out
 * @readers: readers and pollers sleep here
 * @claimed: a reader is copying the first node's record out; others wait
 * @posted_anew: types of that node that were posted since its record was built
 * @closed: posts are dropped
 */
struct otte_event_queue {
	spinlock_t lock;	/* the queue and the nodes in it */
	struct list_head nodes;
	wait_queue_head_t readers;
	u32 posted_anew;
	bool claimed;
	bool closed;
};

void otte_event_queue_init(struct otte_event_queue *queue);
void otte_event_node_init(struct otte_event_node *node, enum otte_event_source source);
/* Posts @type for @client. The caller holds a reference on the object that embeds @node. */
void otte_event_post(struct otte_client *client, struct otte_event_node *node,
		     enum otte_event_type type);
/* Takes back types that were not read yet; true if @node is idle now. */
bool otte_event_cancel(struct otte_client *client, struct otte_event_node *node, u32 types);
bool otte_event_idle(struct otte_client *client, struct otte_event_node *node);
/* At the client's end: drops what is queued. Call without the ledger. */
void otte_event_close(struct otte_client *client);

ssize_t otte_event_read(struct otte_client *client, struct file *file, char __user *buf,
			size_t count);
__poll_t otte_event_poll(struct otte_client *client, struct file *file, poll_table *wait);

#endif /* OTTE_EVENT_H */
