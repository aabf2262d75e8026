// SPDX-License-Identifier: GPL-2.0-only
/*
 * Event queues: never lossy, never allocating.
 *
 * A node is embedded in what it tells about and holds a reference on it while it is queued. It
 * keeps one bit for each type of event; posting sets the bit and queues the node if it was idle.
 * Types of one node are told in ascending order, which is also the order in which they can happen.
 *
 * A reader claims the queue, builds the record of the first node under queue->lock, copies it out
 * with no lock held, and only then takes the bit off, unless it was posted anew meanwhile; if the
 * copy faults the record stays first.
 * While one reader has the claim, others wait as if the queue were empty.
 */
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "client.h"
#include "event.h"
#include "hold.h"
#include "ledger.h"
#include "loan.h"
#include "quota.h"
#include "region.h"

void otte_event_queue_init(struct otte_event_queue *queue)
{
	spin_lock_init(&queue->lock);
	INIT_LIST_HEAD(&queue->nodes);
	init_waitqueue_head(&queue->readers);
	queue->posted_anew = 0;
	queue->claimed = false;
	queue->closed = false;
}

void otte_event_node_init(struct otte_event_node *node, enum otte_event_source source)
{
	INIT_LIST_HEAD(&node->link);
	node->source = source;
	node->pending = 0;
}

static struct otte_loan *node_loan(struct otte_event_node *node)
{
	if (node->source == OTTE_SOURCE_LOAN_LENDER)
		return container_of(node, struct otte_loan, lender_event);
	return container_of(node, struct otte_loan, borrower_event);
}

/* Nodes inside a client need no reference: the queue is part of the same client. */
static void node_get(struct otte_event_node *node)
{
	switch (node->source) {
	case OTTE_SOURCE_LOAN_LENDER:
	case OTTE_SOURCE_LOAN_BORROWER:
		otte_loan_get(node_loan(node));
		break;
	case OTTE_SOURCE_REGION:
		otte_region_get(container_of(node, struct otte_region, event));
		break;
	case OTTE_SOURCE_HOLD:
		otte_hold_get(container_of(node, struct otte_hold_record, event));
		break;
	case OTTE_SOURCE_ATTEST:
		kref_get(&container_of(node, struct otte_attest_record, event)->ref);
		break;
	case OTTE_SOURCE_QUOTA:
	case OTTE_SOURCE_FENCED:
		break;
	}
}

/* Puts the queue's reference of a node that has nothing more to tell. No lock held. */
static void node_put(struct otte_event_node *node)
{
	struct otte_loan *loan;

	switch (node->source) {
	case OTTE_SOURCE_LOAN_LENDER:
	case OTTE_SOURCE_LOAN_BORROWER:
		loan = node_loan(node);
		otte_ledger_lock();
		otte_loan_try_forget(loan);
		otte_ledger_unlock();
		otte_loan_put(loan);
		break;
	case OTTE_SOURCE_REGION:
		otte_region_put(container_of(node, struct otte_region, event));
		break;
	case OTTE_SOURCE_HOLD:
		otte_hold_put(container_of(node, struct otte_hold_record, event));
		break;
	case OTTE_SOURCE_ATTEST:
		otte_attest_put(container_of(node, struct otte_attest_record, event));
		break;
	case OTTE_SOURCE_QUOTA:
	case OTTE_SOURCE_FENCED:
		break;
	}
}

void otte_event_post(struct otte_client *client, struct otte_event_node *node,
		     enum otte_event_type type)
{
	struct otte_event_queue *queue = &client->events;

	spin_lock(&queue->lock);
	if (!queue->closed) {
		if (!node->pending) {
			node_get(node);
			list_add_tail(&node->link, &queue->nodes);
		}
		node->pending |= 1U << type;
		if (queue->claimed && queue->nodes.next == &node->link)
			queue->posted_anew |= 1U << type;
	}
	spin_unlock(&queue->lock);
	wake_up_poll(&queue->readers, EPOLLIN);
}

/*
 * The reference of a node that became idle is dropped here without looking at the loan again: the
 * caller is about to change its state and does that itself. A node whose record is being copied out
 * stays: the reader will tell it.
 */
bool otte_event_cancel(struct otte_client *client, struct otte_event_node *node, u32 types)
{
	struct otte_event_queue *queue = &client->events;
	bool idle, put = false;

	spin_lock(&queue->lock);
	if (node->pending && !(queue->claimed && queue->nodes.next == &node->link)) {
		node->pending &= ~types;
		if (!node->pending) {
			list_del_init(&node->link);
			put = true;
		}
	}
	idle = !node->pending;
	spin_unlock(&queue->lock);
	if (put && (node->source == OTTE_SOURCE_LOAN_LENDER ||
		    node->source == OTTE_SOURCE_LOAN_BORROWER))
		otte_loan_put(node_loan(node));
	return idle;
}

bool otte_event_idle(struct otte_client *client, struct otte_event_node *node)
{
	bool idle;

	spin_lock(&client->events.lock);
	idle = !node->pending;
	spin_unlock(&client->events.lock);
	return idle;
}

void otte_event_close(struct otte_client *client)
{
	struct otte_event_queue *queue = &client->events;
	struct otte_event_node *node;

	spin_lock(&queue->lock);
	queue->closed = true;
	while (!list_empty(&queue->nodes)) {
		node = list_first_entry(&queue->nodes, struct otte_event_node, link);
		list_del_init(&node->link);
		node->pending = 0;
		spin_unlock(&queue->lock);
		node_put(node);
		otte_ledger_give_way();
		spin_lock(&queue->lock);
	}
	spin_unlock(&queue->lock);
	wake_up_poll(&queue->readers, EPOLLIN | EPOLLERR);
}

static void fill_loan(struct otte_event *event, const struct otte_loan *loan,
		      enum otte_event_source source)
{
	event->object = loan->id;
	event->length = otte_loan_length(loan);
	event->tag = loan->tag;
	event->flags = loan->flags;
	event->direction = loan->direction;
	if (source == OTTE_SOURCE_LOAN_BORROWER) {
		otte_client_identity(loan->lender, &event->other);
		return;
	}
	event->region = loan->region->id;
	event->offset = otte_loan_offset(loan);
	if (event->type == OTTE_EVENT_SETTLED)
		event->evidence = loan->evidence;
	if (loan->borrower)
		otte_client_identity(loan->borrower, &event->other);
}

static void fill_region(struct otte_event *event, const struct otte_region *region)
{
	event->object = region->id;
	event->length = region->length;
	event->tag = region->tag;
	event->generation = READ_ONCE(region->word) >> OTTE_STATUS_GEN_SHIFT;
}

static void fill_hold(struct otte_event *event, const struct otte_hold_record *hold)
{
	event->object = hold->retained.id;
	event->length = hold->retained.bytes;
	event->tag = hold->retained.tag;
}

static void fill_quota(struct otte_event *event, const struct otte_client *client)
{
	const struct otte_refusal *why = &client->refusal;

	event->object = client->id;
	event->level = why->key.level;
	event->resource = why->resource;
	event->key = otte_client_key_seen(&why->key);
	event->usage = why->usage;
	event->limit = why->limit;
	event->requested = why->requested;
}

/*
 * The record of the first pending type of @node. queue->lock held, so that what it guards is one
 * moment's. The rest is the ledger's, which is not held: it was written before the type was posted.
 */
static void fill(struct otte_event *event, struct otte_client *client,
		 struct otte_event_node *node)
{
	struct otte_attest_record *attest;

	lockdep_assert_held(&client->events.lock);
	memset(event, 0, sizeof(*event));
	event->size = sizeof(*event);
	event->type = __ffs(node->pending);
	switch (node->source) {
	case OTTE_SOURCE_LOAN_LENDER:
	case OTTE_SOURCE_LOAN_BORROWER:
		fill_loan(event, node_loan(node), node->source);
		break;
	case OTTE_SOURCE_REGION:
		fill_region(event, container_of(node, struct otte_region, event));
		break;
	case OTTE_SOURCE_HOLD:
		fill_hold(event, container_of(node, struct otte_hold_record, event));
		break;
	case OTTE_SOURCE_ATTEST:
		attest = container_of(node, struct otte_attest_record, event);
		event->object = attest->from->id;
		otte_client_identity(attest->from, &event->other);
		memcpy(event->nonce, attest->nonce, sizeof(event->nonce));
		break;
	case OTTE_SOURCE_QUOTA:
		fill_quota(event, client);
		break;
	case OTTE_SOURCE_FENCED:
		event->object = client->id;
		break;
	}
}

/* Claims the queue and builds its first record; NULL if it is empty or another reader is at it. */
static struct otte_event_node *claim(struct otte_client *client, struct otte_event *event)
{
	struct otte_event_queue *queue = &client->events;
	struct otte_event_node *node = NULL;

	spin_lock(&queue->lock);
	if (!queue->claimed && !list_empty(&queue->nodes)) {
		node = list_first_entry(&queue->nodes, struct otte_event_node, link);
		queue->claimed = true;
		queue->posted_anew = 0;
		fill(event, client, node);
	}
	spin_unlock(&queue->lock);
	return node;
}

/* Ends the claim; a record that was @read is taken off. */
static void unclaim(struct otte_client *client, struct otte_event_node *node, u32 type, bool read)
{
	struct otte_event_queue *queue = &client->events;
	bool idle = false;

	spin_lock(&queue->lock);
	queue->claimed = false;
	if (read) {
		if (type == OTTE_EVENT_OFFERED)
			node_loan(node)->offer_read = true;
		/* What was told is not what has happened since. */
		node->pending &= ~(1U << type) | queue->posted_anew;
		idle = !node->pending;
		if (idle)
			list_del_init(&node->link);
	}
	spin_unlock(&queue->lock);
	wake_up_poll(&queue->readers, EPOLLIN);
	if (idle)
		node_put(node);
}

static bool readable(struct otte_event_queue *queue)
{
	bool ready;

	spin_lock(&queue->lock);
	ready = queue->closed || (!queue->claimed && !list_empty(&queue->nodes));
	spin_unlock(&queue->lock);
	return ready;
}

ssize_t otte_event_read(struct otte_client *client, struct file *file, char __user *buf,
			size_t count)
{
	struct otte_event_queue *queue = &client->events;
	struct otte_event_node *node;
	struct otte_event event;
	size_t done = 0;
	int err = 0;

	if (count < sizeof(event))
		return -EMSGSIZE;
	while (count - done >= sizeof(event)) {
		node = claim(client, &event);
		if (!node) {
			err = -EAGAIN;
			if (done || (file->f_flags & O_NONBLOCK))
				break;
			err = wait_event_interruptible(queue->readers, readable(queue));
			if (err)
				break;
			err = -ESHUTDOWN;
			if (READ_ONCE(queue->closed))
				break;
			continue;
		}
		err = copy_to_user(buf + done, &event, sizeof(event)) ? -EFAULT : 0;
		unclaim(client, node, event.type, !err);
		if (err)
			break;
		done += sizeof(event);
	}
	return done ? done : err;
}

__poll_t otte_event_poll(struct otte_client *client, struct file *file, poll_table *wait)
{
	struct otte_event_queue *queue = &client->events;
	__poll_t mask = 0;

	poll_wait(file, &queue->readers, wait);
	spin_lock(&queue->lock);
	if (!list_empty(&queue->nodes))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (queue->closed)
		mask |= EPOLLERR | EPOLLHUP;
	spin_unlock(&queue->lock);
	if (READ_ONCE(client->fenced))
		mask |= EPOLLERR;
	return mask;
}
