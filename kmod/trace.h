/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: tracepoints, under events/otte. For people, not an ABI: ids and sizes, no addresses, no
 * names of peers. Instantiated in trace.c.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM otte

#if !defined(OTTE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define OTTE_TRACE_H

#include <linux/tracepoint.h>

#include "client.h"
#include "domain.h"
#include "loan.h"
#include "netlink.h"
#include "quota.h"
#include "region.h"

/* What administrators are told, traced whether or not somebody listens. */
TRACE_EVENT(otte_notice,
	TP_PROTO(enum otte_notice notice, u64 id),
	TP_ARGS(notice, id),
	TP_STRUCT__entry(
		__field(int, notice)
		__field(u64, id)
	),
	TP_fast_assign(
		__entry->notice = notice;
		__entry->id = id;
	),
	TP_printk("%s id=%llu",
		  __print_symbolic(__entry->notice,
				   { 0, "client_new" },
				   { 1, "client_gone" },
				   { 2, "retained" },
				   { 3, "released" },
				   { 4, "quota" },
				   { 5, "fenced" }),
		  __entry->id)
);

TRACE_EVENT(otte_refused,
	TP_PROTO(u64 client, const struct otte_refusal *why),
	TP_ARGS(client, why),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u32, level)
		__field(u32, resource)
		__field(u64, key)
		__field(u64, usage)
		__field(u64, limit)
		__field(u64, requested)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->level = why->key.level;
		__entry->resource = why->resource;
		__entry->key = why->key.id;
		__entry->usage = why->usage;
		__entry->limit = why->limit;
		__entry->requested = why->requested;
	),
	TP_printk("client=%llu level=%u key=%llu resource=%u usage=%llu limit=%llu requested=%llu",
		  __entry->client, __entry->level, __entry->key, __entry->resource,
		  __entry->usage, __entry->limit, __entry->requested)
);

/* A domain was made, or its pattern is about to change. */
TRACE_EVENT(otte_domain,
	TP_PROTO(const struct otte_domain *domain, const struct otte_slot_epoch *epoch),
	TP_ARGS(domain, epoch),
	TP_STRUCT__entry(
		__field(u64, id)
		__array(char, name, OTTE_NAME_LEN)
		__field(u64, base_ns)
		__field(u64, interval_ns)
		__field(u32, slots)
	),
	TP_fast_assign(
		__entry->id = domain->id;
		memcpy(__entry->name, domain->name, OTTE_NAME_LEN);
		__entry->base_ns = epoch->base_ns;
		__entry->interval_ns = epoch->interval_ns;
		__entry->slots = epoch->slots;
	),
	TP_printk("id=%llu name=%s base_ns=%llu interval_ns=%llu slots=%u", __entry->id,
		  __entry->name, __entry->base_ns, __entry->interval_ns, __entry->slots)
);

/* The sums of a domain begin or end to be made at every interval. */
TRACE_EVENT(otte_tick,
	TP_PROTO(u64 domain, bool ticking, u64 sums),
	TP_ARGS(domain, ticking, sums),
	TP_STRUCT__entry(
		__field(u64, domain)
		__field(bool, ticking)
		__field(u64, sums)
	),
	TP_fast_assign(
		__entry->domain = domain;
		__entry->ticking = ticking;
		__entry->sums = sums;
	),
	TP_printk("domain=%llu ticking=%d sums=%llu", __entry->domain, __entry->ticking,
		  __entry->sums)
);

/* A region or a loan has come into the state it is in. */
TRACE_EVENT(otte_region,
	TP_PROTO(const struct otte_region *region),
	TP_ARGS(region),
	TP_STRUCT__entry(
		__field(u64, id)
		__field(u64, owner)
		__field(u64, length)
		__field(u32, backing)
		__field(int, state)
	),
	TP_fast_assign(
		__entry->id = region->id;
		__entry->owner = region->owner->id;
		__entry->length = region->length;
		__entry->backing = region->backing;
		__entry->state = region->state;
	),
	TP_printk("id=%llu owner=%llu length=%llu backing=%u state=%s", __entry->id,
		  __entry->owner, __entry->length, __entry->backing,
		  __print_symbolic(__entry->state,
				   { 0, "live" },
				   { 1, "closing" },
				   { 2, "retained" },
				   { 3, "gone" }))
);

TRACE_EVENT(otte_loan,
	TP_PROTO(const struct otte_loan *loan),
	TP_ARGS(loan),
	TP_STRUCT__entry(
		__field(u64, id)
		__field(u64, region)
		__field(u64, borrower)
		__field(u64, length)
		__field(int, state)
		__field(u32, evidence)
	),
	TP_fast_assign(
		__entry->id = loan->id;
		__entry->region = loan->region->id;
		__entry->borrower = loan->borrower ? loan->borrower->id : 0;
		__entry->length = otte_loan_length(loan);
		__entry->state = loan->state;
		__entry->evidence = loan->evidence;
	),
	TP_printk("id=%llu region=%llu borrower=%llu length=%llu state=%s evidence=0x%x",
		  __entry->id, __entry->region, __entry->borrower, __entry->length,
		  __print_symbolic(__entry->state,
				   { 0, "offered" },
				   { 1, "exposed" },
				   { 2, "settled" },
				   { 3, "withdrawn" }),
		  __entry->evidence)
);

#endif /* OTTE_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
