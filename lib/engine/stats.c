/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/stats.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/source.h"
#include "topo/priority.h"

/*
 * A peer asks as often as it likes, and to count the kernel's ledger takes dumps of the whole node: so
 * what peers are told of the ledger is up to this old, and older where counting takes long, so that it
 * takes no more than a tenth of the thread's time.
 */
#define TOLD_AGE_NS (100 * NSEC_PER_MSEC)
#define TOLD_TIMES 9

uint64_t otte_stats_age(uint64_t took_ns)
{
	return max_u64(TOLD_AGE_NS, TOLD_TIMES * took_ns);
}

static void fill(struct otte_engine *engine, const struct otte_ledger_counters *ledger,
		 struct otte_stats *stats)
{
	struct otte_request_counts asked;
	struct otte_source_counts served;

	otte_peer_sum(engine, &asked);
	otte_source_sum(engine, &served);
	*stats = (struct otte_stats){
		.size = stats->size,
		.threads = 2 + engine->config.tcp_workers + !engine->no_rdma, /* engine.h */
		.regions = ledger->regions,
		.registered_bytes = ledger->registered_bytes,
		.segments = atomic_load(&engine->segments),
		.requests = otte_engine_requests(engine),
		.bytes = atomic_load(&engine->bytes),
		.submitted = asked.submitted,
		.completed = asked.completed,
		.failed = asked.failed,
		.read_bytes = asked.read_bytes,
		.write_bytes = asked.write_bytes,
		.served_read_bytes = served.read_bytes,
		.served_write_bytes = served.write_bytes,
		.served_requests = served.requests,
		.refused_requests = atomic_load(&engine->counters.refused_requests),
		.peers_in = atomic_load(&engine->server.open_sessions),
		.peers_out = atomic_load(&engine->counters.peers_out),
		.bad_frames = atomic_load(&engine->server.bad_frames),
		.reconnects = atomic_load(&engine->counters.reconnects),
		.loans = ledger->loans,
		.loans_settled = ledger->loans_settled,
		.retained = ledger->retained + atomic_load(&engine->kept),
		.retained_bytes = ledger->retained_bytes + atomic_load(&engine->kept_bytes),
		.notifications_sent = atomic_load(&engine->counters.notifications_sent),
		.notifications_received = atomic_load(&engine->counters.notifications_received),
		.stale_regions = atomic_load(&engine->counters.stale_regions),
		.waiting_high = asked.waiting[OTTE_PRIORITY_HIGH],
		.waiting_medium = asked.waiting[OTTE_PRIORITY_MEDIUM],
		.waiting_low = asked.waiting[OTTE_PRIORITY_LOW],
		.promoted = asked.promoted,
		.low_inflight_bytes = atomic_load(&engine->gate.slots.low_bytes),
	};
	engine->transport->ops->counters(engine->transport, stats);
}

void otte_engine_fill_stats(struct otte_engine *engine, struct otte_stats *stats)
{
	struct otte_ledger_counters ledger = { 0 };

	engine->ledger->ops->counters(engine->ledger, &ledger);
	fill(engine, &ledger, stats);
}

void otte_engine_tell_stats(struct otte_engine *engine, struct otte_stats *stats)
{
	uint64_t now_ns = otte_now_ns(), then_ns;

	if (now_ns >= engine->told.until_ns) {
		engine->ledger->ops->counters(engine->ledger, &engine->told.ledger);
		then_ns = otte_now_ns();
		engine->told.until_ns = then_ns + otte_stats_age(then_ns - now_ns);
	}
	fill(engine, &engine->told.ledger, stats);
}

int otte_engine_stats(struct otte_engine *engine, struct otte_stats *stats)
{
	struct otte_stats whole = { .size = sizeof(whole) };
	int ret;

	if (!engine || !stats)
		return otte_fail(-EINVAL, "otte_engine_stats: engine and stats must not be NULL");
	if (stats->size < sizeof(stats->size))
		return otte_fail(-EINVAL, "otte_engine_stats: stats->size is not set");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	otte_engine_fill_stats(engine, &whole);
	sized_copy_out(stats, &whole, sizeof(whole));
	return 0;
}

int otte_engine_nics(struct otte_engine *engine, struct otte_nic_info *rows, size_t capacity,
		     size_t *count)
{
	int ret;

	if (!engine || !count || (!rows && capacity))
		return otte_fail(-EINVAL,
				 "otte_engine_nics: engine, rows and count must not be NULL");
	ret = otte_fork_check(engine->generation);
	if (ret)
		return ret;
	*count = otte_transport_nics(engine->transport, rows, capacity);
	return 0;
}

#define COUNTER(name) { #name, offsetof(struct otte_stats, name) }

static const struct {
	const char *name;
	size_t offset;
} counters[] = {
	COUNTER(regions), COUNTER(registered_bytes), COUNTER(segments), COUNTER(requests),
	COUNTER(bytes), COUNTER(submitted), COUNTER(completed), COUNTER(failed),
	COUNTER(read_bytes), COUNTER(write_bytes), COUNTER(served_read_bytes),
	COUNTER(served_write_bytes), COUNTER(served_requests), COUNTER(refused_requests),
	COUNTER(peers_in), COUNTER(peers_out), COUNTER(lanes), COUNTER(bad_frames),
	COUNTER(reconnects), COUNTER(retries), COUNTER(loans), COUNTER(loans_settled),
	COUNTER(retained), COUNTER(retained_bytes), COUNTER(notifications_sent),
	COUNTER(notifications_received), COUNTER(stale_regions), COUNTER(zerocopy_bytes),
	COUNTER(zerocopy_sends), COUNTER(zerocopy_copied), COUNTER(zerocopy_refused),
	COUNTER(zerocopy_outstanding), COUNTER(waiting_high), COUNTER(waiting_medium),
	COUNTER(waiting_low), COUNTER(promoted), COUNTER(low_inflight_bytes),
	COUNTER(rdma_qps), COUNTER(rdma_mrs), COUNTER(rdma_mr_bytes), COUNTER(rdma_grants),
	COUNTER(rdma_cqes), COUNTER(rdma_leases), COUNTER(rdma_lease_requests),
	COUNTER(rdma_slices), COUNTER(rdma_slices_moved), COUNTER(rdma_rails_paused),
	COUNTER(rdma_rail_errors), COUNTER(rdma_rail_probes), COUNTER(rdma_rail_recoveries),
	COUNTER(rdma_direct_bytes), COUNTER(rdma_staging_bytes), COUNTER(rdma_wrs),
	COUNTER(rdma_dmabuf_registrations), COUNTER(rdma_peermem_registrations),
};

#define NIC_VALUE(name) { #name, offsetof(struct otte_nic_info, name) }

static const struct {
	const char *name;
	size_t offset;
} nic_values[] = {
	NIC_VALUE(link_rate), NIC_VALUE(selection_rate), NIC_VALUE(transmit_rate),
	NIC_VALUE(charged_bytes), NIC_VALUE(under_way_bytes), NIC_VALUE(others_bytes),
	NIC_VALUE(assigned_bytes), NIC_VALUE(posted_bytes), NIC_VALUE(completed_bytes), NIC_VALUE(slices),
	NIC_VALUE(rails_paused), NIC_VALUE(rail_pauses), NIC_VALUE(rail_errors),
	NIC_VALUE(rail_probes), NIC_VALUE(rail_recoveries),
};

static int add_nic(json_t *array, const struct otte_nic_info *row)
{
	json_t *object = json_object();
	uint64_t value;
	size_t i;
	int bad;

	if (!object)
		return -1;
	bad = json_object_set_new(object, "nic", json_integer(row->nic));
	bad |= json_object_set_new(object, "name", json_string(row->name));
	bad |= json_object_set_new(object, "port", json_integer(row->port));
	bad |= json_object_set_new(object, "active", json_boolean(row->active));
	bad |= json_object_set_new(object, "measured", json_boolean(row->measured));
	for (i = 0; i < ARRAY_SIZE(nic_values); i++) {
		memcpy(&value, (const char *)row + nic_values[i].offset, sizeof(value));
		bad |= json_object_set_new(object, nic_values[i].name,
					   json_integer((json_int_t)value));
	}
	return json_array_append_new(array, object) | bad;
}

/* Where there are none there is no array. */
static int add_nics(json_t *object, struct otte_transport *transport)
{
	struct otte_nic_info rows[OTTE_NIC_IDS];
	size_t count = otte_transport_nics(transport, rows, ARRAY_SIZE(rows)), i;
	json_t *array;
	int bad = 0;

	if (!count)
		return 0;
	array = json_array();
	for (i = 0; i < count && i < ARRAY_SIZE(rows); i++)
		bad |= add_nic(array, &rows[i]);
	return json_object_set_new(object, "rdma_nics", array) | bad;
}

char *otte_stats_json(const struct otte_engine *engine, const struct otte_stats *stats)
{
	char *text = NULL;
	json_t *object;
	size_t i;
	int bad;

	object = json_object();
	if (!object)
		return NULL;
	bad = json_object_set_new(object, "name", json_string(engine->identity.name));
	bad |= json_object_set_new(object, "pid", json_integer(getpid()));
	bad |= json_object_set_new(object, "address", json_string(engine->address));
	bad |= json_object_set_new(object, "ledger", json_string(engine->ledger->ops->name));
	bad |= json_object_set_new(object, "threads", json_integer(stats->threads));
	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		uint64_t value;

		memcpy(&value, (const char *)stats + counters[i].offset, sizeof(value));
		bad |= json_object_set_new(object, counters[i].name,
					   json_integer((json_int_t)value));
	}
	bad |= add_nics(object, engine->transport);
	if (!bad)
		text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}
