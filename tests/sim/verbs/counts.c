/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What there is, in numbers and in words. */
#include <stdarg.h>
#include <stdio.h>

#include "base/util.h"
#include "sim/verbs/private.h"

/* ---- Numbers --------------------------------------------------------------------------------- */

static unsigned int unread_of(const struct sim_context *context)
{
	unsigned int events = context->events.count;
	const struct sim_channel *channel;
	const struct sim_cq *cq;
	const struct sim_pd *pd;
	const struct sim_qp *qp;

	LIST_FOREACH(channel, &context->channels, link)
		events += channel->events.count;
	LIST_FOREACH(cq, &context->cqs, link)
		events += cq->object.completions + cq->object.asyncs;
	LIST_FOREACH(pd, &context->pds, link)
		LIST_FOREACH(qp, &pd->qps, pd_link)
			events += qp->object.asyncs;
	return events;
}

static struct sim_counts counts_of(const struct sim_nic *nic)
{
	struct sim_counts counts = nic->counts;
	const struct sim_context *context;

	LIST_FOREACH(context, &nic->contexts, link)
		counts.events += unread_of(context);
	return counts;
}

static void add(struct sim_counts *sum, const struct sim_counts *other)
{
	sum->contexts += other->contexts;
	sum->pds += other->pds;
	sum->mrs += other->mrs;
	sum->mws += other->mws;
	sum->mws_bound += other->mws_bound;
	sum->channels += other->channels;
	sum->cqs += other->cqs;
	sum->qps += other->qps;
	sum->wrs += other->wrs;
	sum->recvs += other->recvs;
	sum->cqes += other->cqes;
	sum->events += other->events;
	sum->opened += other->opened;
	sum->bytes_read += other->bytes_read;
	sum->bytes_written += other->bytes_written;
	sum->bytes_sent += other->bytes_sent;
	sum->pinned_bytes += other->pinned_bytes;
}

static struct sim_counts count_all(void)
{
	struct sim_counts sum = { .device_lists = sim_lists_now, .events = sim_ports.asyncs };
	struct sim_counts one;
	unsigned int i;

	for (i = 0; i < sim_nic_count; i++) {
		one = counts_of(&sim_nics[i]);
		add(&sum, &one);
	}
	return sum;
}

struct sim_counts sim_counts(const struct sim_device *device)
{
	struct sim_counts counts;

	pthread_mutex_lock(&sim_lock);
	counts = device ? counts_of(container_of(device, struct sim_nic, device)) : count_all();
	pthread_mutex_unlock(&sim_lock);
	return counts;
}

/* ---- Words ----------------------------------------------------------------------------------- */

#define TEXT_BYTES 1024

__attribute__((format(printf, 2, 3))) static void say(char *text, const char *format, ...)
{
	va_list args;
	size_t used = 0;

	while (text[used])
		used++;
	va_start(args, format);
	vsnprintf(text + used, TEXT_BYTES - used, format, args);
	va_end(args);
}

static void say_count(char *text, const char *owner, unsigned int count, const char *what)
{
	if (count)
		say(text, "%s%s: %u %s", *text ? ", " : "", owner, count, what);
}

static void say_nic(char *text, const struct sim_nic *nic)
{
	const struct sim_counts counts = counts_of(nic);
	const char *name = nic->device.device.name;

	say_count(text, name, counts.contexts, "contexts");
	say_count(text, name, counts.pds, "PDs");
	say_count(text, name, counts.mrs, "MRs");
	say_count(text, name, counts.mws, "windows");
	say_count(text, name, counts.mws_bound, "bound windows");
	say_count(text, name, counts.channels, "channels");
	say_count(text, name, counts.cqs, "CQs");
	say_count(text, name, counts.qps, "QPs");
	say_count(text, name, counts.wrs, "sends");
	say_count(text, name, counts.recvs, "receives");
	say_count(text, name, counts.cqes, "completions not polled");
	say_count(text, name, counts.events, "events not taken or not acknowledged");
}

const char *sim_left(void)
{
	static _Thread_local char text[TEXT_BYTES];
	unsigned int i;

	*text = '\0';
	pthread_mutex_lock(&sim_lock);
	say_count(text, "all", sim_lists_now, "device lists");
	for (i = 0; i < sim_nic_count; i++)
		say_nic(text, &sim_nics[i]);
	say_count(text, "ports", sim_ports.asyncs, "events not acknowledged");
	pthread_mutex_unlock(&sim_lock);
	return text;
}

bool sim_is_empty(void)
{
	return !*sim_left();
}
