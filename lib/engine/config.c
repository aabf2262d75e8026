/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the meaning of struct otte_config: one table says for each key its JSON name, place, unit,
 * range and default, and all else walks that table. config_value.h says which files do.
 *
 * A loader overlays a private copy and gives it back whole, so that an error changes nothing. A
 * value is checked against its own range when it is loaded; rules between keys only at engine
 * create (otte_config_check), since a later file or variable may still mend them.
 *
 * No state and no lock: threads may call at once on different structs. otte_config_load_env() reads
 * the environment, which the program must not change meanwhile.
 */
#include "engine/config_value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/name_list.h"
#include "base/util.h"
#include "sched/slots.h"

#define HOUR_MS (3600 * 1000ull)
/* The largest packet, of loopback. A buffer that holds no whole one waits for each to be acknowledged. */
#define BUFFER_MIN (64 * KIB)
#define BYTES_MAX (1ull << 60) /* fits JSON's signed integers with room to add */

/* When the struct grows: version 1 keeps this size, and the loaders refuse keys beyond `size`. */
#define VERSION_1_SIZE \
	(offsetof(struct otte_config, low_inflight_bytes) + sizeof(uint64_t))
_Static_assert(sizeof(struct otte_config) == VERSION_1_SIZE, "struct otte_config is of version 1");
_Static_assert(OTTE_NAME_LIST_BYTES == OTTE_NAMES_MAX, "lists of names are those of the config");

static const char *const ledger_words[] = { "auto", "kernel", "process", NULL };
/* enum otte_lease from OFF on. */
static const char *const lease_words[] = { "off", "range", "region", NULL };
static const char *const zerocopy_words[] = { "auto", "off", "always", NULL };
static const char *const rail_words[] = { "all", "direct", NULL };
static const char *const host_memory_words[] = { "direct", "staged", NULL };
static const char *const cuda_memory_words[] = { "staged", "direct", NULL };
static const char *const gpu_registration_words[] = { "auto", "dmabuf", "peermem", NULL };
static const char *const progress_words[] = { "events", "polling", NULL };

static int check_pattern(const char *text)
{
	struct otte_slots_pattern pattern;

	return otte_slots_parse(text, &pattern);
}

#define PLACE(field) .offset = offsetof(struct otte_config, field)
#define TEXT(name, field, text, about)                                                      \
	{                                                                                   \
		.key = name, .type = OTTE_CONFIG_TEXT, PLACE(field), .standard_text = text, \
		.max = sizeof(((struct otte_config *)0)->field) - 1, .meaning = about       \
	}
#define FORMED_TEXT(name, field, text, form, about)                                         \
	{                                                                                   \
		.key = name, .type = OTTE_CONFIG_TEXT, PLACE(field), .standard_text = text, \
		.max = sizeof(((struct otte_config *)0)->field) - 1, .check = form,         \
		.meaning = about                                                            \
	}
/* An object in JSON, kept as its text. */
#define OBJECT(name, field, about)                                                         \
	{                                                                                  \
		.key = name, .type = OTTE_CONFIG_OBJECT, PLACE(field), .standard_text = "", \
		.max = sizeof(((struct otte_config *)0)->field) - 1, .meaning = about      \
	}
#define NUMBER(name, field, kind, low, high, value, about)                        \
	{                                                                         \
		.key = name, .type = kind, PLACE(field), .min = low, .max = high, \
		.standard = value, .meaning = about                               \
	}
#define WORD(name, field, list, value, about)                                       \
	{                                                                           \
		.key = name, .type = OTTE_CONFIG_WORD, PLACE(field), .words = list, \
		.max = ARRAY_SIZE(list) - 2, .standard = value, .meaning = about    \
	}
#define U32(name, field, low, high, value, about) \
	NUMBER(name, field, OTTE_CONFIG_U32, low, high, value, about)
#define U64(name, field, low, high, value, about) \
	NUMBER(name, field, OTTE_CONFIG_U64, low, high, value, about)
#define MS(name, field, low, high, value, about) \
	NUMBER(name, field, OTTE_CONFIG_MS, low, high, value, about)
#define US(name, field, low, high, value, about) \
	NUMBER(name, field, OTTE_CONFIG_US, low, high, value, about)
/* Also 0, which stands for what the library or the system chooses. */
#define U64_OR_ZERO(name, field, low, high, about)                                      \
	{                                                                               \
		.key = name, .type = OTTE_CONFIG_U64, PLACE(field), .min = low,         \
		.max = high, .or_zero = true, .meaning = about                          \
	}
#define SWITCH(name, field, value, about) \
	NUMBER(name, field, OTTE_CONFIG_SWITCH, 0, 1, value, about)

static const struct otte_config_key keys[] = {
	TEXT("name", name, "", "shown to peers; empty: the process's comm"),
	WORD("ledger", ledger, ledger_words, OTTE_LEDGER_AUTO, "who keeps the ledger"),
	TEXT("listen.address", listen_address, "127.0.0.1",
	     "host or address to listen on; empty: no listener"),
	U32("listen.port", listen_port, 0, 65535, 0, "port to listen on; 0: any free one"),
	TEXT("listen.advertise", advertise, "", "host[:port] given to peers; empty: as bound"),
	TEXT("auth.key_file", key_file, "", "file of pre-shared keys; empty: no authentication"),
	U32("control.connections", control_connections, 1, 65536, 256,
	    "control connections accepted at a time"),
	U32("control.frame_bytes", control_frame_bytes, 8 * KIB, MIB, 64 * KIB,
	    "longest control frame"),
	MS("control.timeout_ms", control_timeout_ns, 1, HOUR_MS, 5000,
	   "longest wait for a hello or an answer"),
	MS("control.reconnect_min_ms", reconnect_min_ns, 1, HOUR_MS, 50,
	   "first pause before connecting again"),
	MS("control.reconnect_max_ms", reconnect_max_ns, 1, HOUR_MS, 5000,
	   "longest pause before connecting again"),
	U64("limits.regions", max_regions, 1, 1ull << 24, 65536, "regions registered at a time"),
	U64("limits.registered_bytes", max_registered_bytes, 1, BYTES_MAX, TIB,
	    "bytes registered at a time, aliases counted each"),
	U64("limits.requests", max_requests, 1, 1ull << 24, 65536, "requests outstanding"),
	U64("limits.bytes", max_bytes, 1, BYTES_MAX, GIB, "bytes of requests outstanding"),
	U64("limits.loans", max_loans, 1, 1ull << 24, 65536, "loans live at a time"),
	U64("limits.retained_bytes", max_retained_bytes, 0, BYTES_MAX, 16 * GIB,
	    "bytes kept for want of evidence"),
	U64("limits.notifications", max_notifications, 1, 65536, 1024,
	    "notifications queued in each direction"),
	SWITCH("stats.socket", stats_socket, 1, "answer on the abstract UNIX socket otte/PID"),
	U32("window.requests", window_requests, 1, 65536, 64, "requests dispatched to one peer"),
	U64("window.bytes", window_bytes, 4 * KIB, BYTES_MAX, 64 * MIB,
	    "bytes dispatched to one peer"),
	MS("deadline.default_ms", default_deadline_ns, 0, 24 * HOUR_MS, 30000,
	   "deadline of requests that state none; 0: none"),
	U32("retry.budget", retry_budget, 0, 16, 1, "times a drained READ is tried again"),
	U32("tcp.lanes", tcp_lanes, 1, 16, 2, "payload connections to one peer"),
	U32("tcp.workers", tcp_workers, 1, 16, 1, "threads that serve peers"),
	U32("tcp.max_slices", tcp_max_slices, 1, 4096, 64, "slices of one request"),
	TEXT("tcp.congestion", tcp_congestion, "",
	     "congestion control of payload connections; empty: the system's"),
	U64("tcp.block_bytes", tcp_block_bytes, 4 * KIB, 16 * MIB, 64 * KIB, "base of slicing"),
	U64_OR_ZERO("tcp.send_buffer_bytes", tcp_send_buffer, BUFFER_MIN, GIB,
		    "SO_SNDBUF; 0: by where the peer is"),
	U64_OR_ZERO("tcp.receive_buffer_bytes", tcp_receive_buffer, BUFFER_MIN, GIB,
		    "SO_RCVBUF; 0: the system's"),
	MS("tcp.stall_timeout_ms", tcp_stall_ns, 1, HOUR_MS, 10000,
	   "longest time without a byte moved"),
	WORD("tcp.zerocopy", tcp_zerocopy, zerocopy_words, OTTE_ZEROCOPY_AUTO,
	     "whether payload is sent with MSG_ZEROCOPY"),
	U32("tcp.zerocopy_bytes", tcp_zerocopy_bytes, 1, GIB, 64 * KIB,
	    "shorter payload is copied"),
	SWITCH("local.trusted", local_trusted, 0,
	       "peers of this host, of the same user, may map what the engine allocates"),
	U32("local.maps", local_maps, 1, 65536, 256,
	    "regions of one peer that are lent to us, and of ours to one peer, at a time"),
	SWITCH("local.pinned", local_pinned, 0,
	       "what peers may use is pinned by the module, so that those of this host can borrow it"),
	U32("local.map_entries", local_map_entries, 0, 65536, 64,
	    "borrowed regions of one peer that are mapped at a time; 0: the module copies"),
	U32("local.map_bytes", local_map_bytes, 4 * KIB, GIB, MIB,
	    "a request of so many bytes has its region mapped"),
	U32("local.map_repeats", local_map_repeats, 1, 1u << 24, 16,
	    "so many shorter requests have their region mapped"),
	SWITCH("rdma.enabled", rdma_enabled, 0, "whether NICs of RDMA are used, through libibverbs.so.1"),
	TEXT("rdma.device", rdma_device, "", "the only verbs device to use; empty: any"),
	U32("rdma.port", rdma_port, 0, 255, 0, "its port; 0: 1 where a device is named, else any"),
	U32("rdma.gid_index", rdma_gid_index, 0, OTTE_RDMA_GID_UNSET, OTTE_RDMA_GID_UNSET,
	    "the port's address; 65535: 0 where a device is named, else the best"),
	FORMED_TEXT("rdma.whitelist", rdma_whitelist, "", otte_name_list_check,
		    "the only verbs devices to use, by commas; empty: all but those of the next"),
	FORMED_TEXT("rdma.blacklist", rdma_blacklist, "", otte_name_list_check,
		    "verbs devices that are left alone, by commas"),
	U32("rdma.numa_node", rdma_numa_node, 0, OTTE_RDMA_NODE_UNSET, OTTE_RDMA_NODE_UNSET,
	    "node whose NICs are near; 65535: that of the memory"),
	U64("rdma.device_mask", rdma_device_mask, 0, UINT64_MAX, 0,
	    "NICs that requests go over, bits by their ids; 0: all"),
	SWITCH("rdma.strict_numa", rdma_strict_numa, 0, "NICs that are known to be of another node are not used"),
	OBJECT("rdma.priority_matrix", rdma_priority_matrix,
	       "NICs by where memory is: {\"cpu:0\": [[preferred], [others]]}; empty: as the next"),
	TEXT("rdma.topology_file", rdma_topology_file, "",
	     "file of such a matrix, or of nics and mems; empty: as the machine is"),
	U32("rdma.endpoints", rdma_endpoints, 1, 65536, 64, "queue pairs"),
	U32("rdma.pairs", rdma_pairs, 1, 8, 2, "queue pairs over one rail for each direction"),
	U32("rdma.grants", rdma_grants, 1, 4096, 64, "ranges that peers may reach at a time"),
	U32("rdma.send_wrs", rdma_send_wrs, 4, 4096, 16, "work requests under way on one queue pair"),
	U32("rdma.cqes", rdma_cqes, 16, 1u << 20, 1024, "entries of a completion queue"),
	U32("rdma.mrs", rdma_mrs, 1, 1u << 20, 64, "memory regions that NICs know"),
	U32("rdma.key_indices", rdma_key_indices, 1, 1u << 24, 65536, "memory windows that a NIC ever had"),
	U32("rdma.qp_timeout", rdma_qp_timeout, 1, 31, 14,
	    "a packet is sent again after 4.096 us times 2 to that power"),
	U32("rdma.qp_retries", rdma_qp_retries, 0, 7, 7, "and so often"),
	U32("rdma.rd_atomic", rdma_rd_atomic, 0, 255, 16,
	    "READs under way on one queue pair; 0: none go by RDMA"),
	U32("rdma.dest_rd_atomic", rdma_dest_rd_atomic, 0, 255, 16,
	    "READs of a peer that one queue pair answers at a time; 0: none"),
	U64("rdma.mr_bytes", rdma_mr_bytes, 4 * KIB, BYTES_MAX, 64 * MIB, "bytes of these"),
	WORD("rdma.lease", rdma_lease, lease_words, 0, "what requests that name none lease"),
	U32("rdma.leases", rdma_leases, 0, 4096, 64, "ranges that peers may lease at a time, and we of one peer"),
	MS("rdma.lease_idle_ms", rdma_lease_idle_ns, 100, HOUR_MS, 10000,
	   "longest time that a lease stands without being used"),
	MS("rdma.grant_ms", rdma_grant_ns, 1, HOUR_MS, 60000, "longest time that a peer keeps one of rdma.grants"),
	MS("rdma.stall_ms", rdma_stall_ns, 0, HOUR_MS, 0,
	   "longest time without a completion while something is under way on a queue pair; 0: as its timeout allows"),
	WORD("rdma.host_memory", rdma_host_memory, host_memory_words, OTTE_HOST_MEMORY_DIRECT,
	     "whether NICs know what is registered, or bytes are copied through a pool that they know"),
	WORD("rdma.cuda_memory", rdma_cuda_memory, cuda_memory_words, OTTE_CUDA_MEMORY_STAGED,
	     "the same of memory of GPUs; staged: no NIC knows it"),
	SWITCH("rdma.disable_gpu_direct", rdma_disable_gpu_direct, 0,
	       "no NIC is to know memory of GPUs"),
	WORD("rdma.gpu_direct_registration", rdma_gpu_registration, gpu_registration_words,
	     OTTE_GPU_REGISTRATION_AUTO, "how NICs are told of memory of GPUs"),
	SWITCH("rdma.gpu_source_reuse", rdma_gpu_source_reuse, 0,
	       "queue pairs of a GPU's memory serve more than one request, which nothing can do yet"),
	U32("rdma.chunk_bytes", rdma_chunk_bytes, 4 * KIB, 16 * MIB, 256 * KIB,
	    "bytes of a chunk of that pool; no slice is longer"),
	U64("rdma.direct_bytes", rdma_direct_bytes, 4 * KIB, BYTES_MAX, 64 * MIB,
	    "bytes that NICs move in place at a time"),
	U64("rdma.staging_bytes", rdma_staging_bytes, 4 * KIB, BYTES_MAX, 64 * MIB,
	    "bytes of the pool, of whole chunks"),
	MS("rdma.destruction_ms", rdma_destruction_ns, 1, HOUR_MS, 30000,
	   "longest wait for what is under way on a queue pair that is to go"),
	WORD("rdma.rail_topology", rdma_rail_topology, rail_words, OTTE_RAIL_ALL,
	     "which NIC of a peer each of ours may be paired with"),
	U32("rdma.max_rail_pairs", rdma_max_rail_pairs, 1, 1u << 20, 1024,
	    "pairs of a NIC of ours and one of a peer's whose health is known"),
	U32("rdma.rail_error_threshold", rdma_rail_error_threshold, 1, 16, 3, "failures that pause such a pair"),
	SWITCH("rdma.smart_selection", rdma_smart_selection, 1, "NICs are chosen by load and rate; else in turn"),
	U32("rdma.link_rate_mbps", rdma_link_rate_mbps, 0, 1u << 31, 0,
	    "rate of every NIC; 0: as each reports"),
	SWITCH("rdma.log_slice_affinity", rdma_log_slice_affinity, 0,
	       "the NICs of each slice are logged, at level debug"),
	SWITCH("rdma.deadline_bw_arbitration", rdma_deadline_bw_arbitration, 0,
	       "what waits goes by what its deadline leaves it; what cannot be done in time is refused"),
	U32("rdma.signal_interval", rdma_signal_interval, 1, 4096, 1,
	    "one of so many work requests tells of its completion"),
	U32("rdma.workers", rdma_workers, 1, 8, 1, "threads; each peer has one of them"),
	WORD("rdma.progress", rdma_progress, progress_words, OTTE_RDMA_PROGRESS_EVENTS,
	     "whether they sleep until something is to be done, or poll"),
	SWITCH("rdma.bind_cpus", rdma_bind_cpus, 1, "they run on CPUs of the memory nodes of their NICs"),
	MS("rdma.rail_error_window_ms", rdma_rail_error_window_ns, 1, HOUR_MS, 10000, "if they are no further apart"),
	MS("rdma.rail_cooldown_ms", rdma_rail_cooldown_ns, 1, HOUR_MS, 30000, "length of the first pause"),
	MS("rdma.rail_probe_interval_ms", rdma_rail_probe_interval_ns, 0, HOUR_MS, 1000,
	   "a paused pair is tried so often"),
	U32("priority.high_requests", max_high_requests, 1, 1u << 24, 65536,
	    "High requests outstanding"),
	U32("priority.medium_requests", max_medium_requests, 1, 1u << 24, 65536,
	    "Medium requests outstanding"),
	U32("priority.low_requests", max_low_requests, 1, 1u << 24, 65536,
	    "Low requests outstanding"),
	SWITCH("priority.aging_per_entry", aging_per_entry, 0,
	       "only what has aged itself moves up, not its whole tier"),
	MS("priority.aging_ms", aging_ns, 0, HOUR_MS, 10,
	   "wait after which a request moves up; 0: never"),
	FORMED_TEXT("slots.domain", slots_domain, "", otte_slots_check_name,
		    "domain whose slots are kept; empty: none"),
	FORMED_TEXT("slots.pattern", slots_pattern, "high,medium,low", check_pattern,
		    "lowest priority that sends in each slot"),
	US("slots.interval_us", slot_interval_ns, 100, 1000000, 2000, "length of a slot"),
	U64("slots.low_inflight_bytes", low_inflight_bytes, 4 * KIB, BYTES_MAX, 256 * KIB,
	    "bytes dispatched below High, in a domain"),
};

const struct otte_config_key *otte_config_key_at(size_t index)
{
	return index < ARRAY_SIZE(keys) ? &keys[index] : NULL;
}

int otte_config_describe(size_t index, struct otte_config_key *key)
{
	if (index >= ARRAY_SIZE(keys))
		return -ENOENT;
	*key = keys[index];
	return 0;
}

void otte_config_variable(const char *key, char *name, size_t size)
{
	char *c;

	snprintf(name, size, "OTTE_%s", key);
	for (c = name; *c; c++)
		*c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
}

const struct otte_config_key *otte_config_find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		if (!strcmp(keys[i].key, name))
			return &keys[i];
	return NULL;
}

int otte_config_is_group(const char *name)
{
	size_t length = strlen(name), i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		if (!strncmp(keys[i].key, name, length) && keys[i].key[length] == '.')
			return 1;
	return 0;
}

/* ---- The struct itself ----------------------------------------------------------------------- */

static void fill_defaults(struct otte_config *config)
{
	size_t i;

	memset(config, 0, sizeof(*config));
	config->size = sizeof(*config);
	config->version = OTTE_CONFIG_VERSION;
	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		if (otte_config_is_text(&keys[i]))
			otte_config_put_text(config, &keys[i], keys[i].standard_text);
		else
			otte_config_put_number(config, &keys[i], keys[i].standard);
	}
}

int otte_config_init(struct otte_config *config, size_t size)
{
	struct otte_config whole;

	if (!config)
		return otte_fail(-EINVAL, "config: NULL");
	if (size < VERSION_1_SIZE || size > UINT32_MAX)
		return otte_fail(-EINVAL,
				 "config: a size of %zu bytes, allowed are %zu and more, "
				 "sizeof(struct otte_config) of the program",
				 size, VERSION_1_SIZE);
	fill_defaults(&whole);
	whole.size = (uint32_t)size;
	memset(config, 0, size);
	memcpy(config, &whole, size < sizeof(whole) ? size : sizeof(whole));
	return 0;
}

/* Only the header: that the rest may be read at all, and read as this version. */
static int check_header(const struct otte_config *config)
{
	const char *tail = (const char *)config;
	size_t i;

	if (!config)
		return otte_fail(-EINVAL, "config: NULL");
	if (config->size < VERSION_1_SIZE)
		return otte_fail(-EINVAL,
				 "config.size: %" PRIu32
				 " is less than %zu, the size of version 1; "
				 "otte_config_init() sets it",
				 config->size, VERSION_1_SIZE);
	if (config->version < 1 || config->version > OTTE_CONFIG_VERSION)
		return otte_fail(-EINVAL, "config.version: %" PRIu32 ", this library knows 1 to %d",
				 config->version, OTTE_CONFIG_VERSION);
	for (i = sizeof(*config); i < config->size; i++)
		if (tail[i])
			return otte_fail(-E2BIG,
					 "config.size: %" PRIu32 ", and byte %zu is set, but this "
					 "library knows %zu bytes only",
					 config->size, i, sizeof(*config));
	return 0;
}

static int check_text(const struct otte_config *config, const struct otte_config_key *key)
{
	const char *text = (const char *)config + key->offset;

	if (memchr(text, 0, key->max + 1))
		return otte_config_check_form(key, text);
	return otte_fail(-EINVAL, "%s: not terminated, allowed are 0 to %" PRIu64 " bytes",
			 key->key, key->max);
}

static int check_number(const struct otte_config *config, const struct otte_config_key *key)
{
	uint64_t value = otte_config_get_number(config, key), scale = otte_config_scale(key);
	char shown[40];

	if (otte_config_in_range(key, value, scale))
		return 0;
	snprintf(shown, sizeof(shown), scale == 1 ? "%" PRIu64 : "%" PRIu64 " ns", value);
	return otte_config_refuse_number(key, shown);
}

int otte_config_check(const struct otte_config *config)
{
	char min[OTTE_TIME_TEXT], max[OTTE_TIME_TEXT];
	int rc = check_header(config);
	size_t i;

	for (i = 0; !rc && i < ARRAY_SIZE(keys); i++)
		rc = otte_config_is_text(&keys[i]) ? check_text(config, &keys[i]) :
						     check_number(config, &keys[i]);
	if (rc)
		return rc;
	if (config->reconnect_min_ns > config->reconnect_max_ns)
		return otte_fail(-EINVAL,
				 "control.reconnect_min_ms: %s, allowed is at most "
				 "control.reconnect_max_ms, %s",
				 otte_time_text(min, config->reconnect_min_ns),
				 otte_time_text(max, config->reconnect_max_ns));
	if (config->rdma_cuda_memory == OTTE_CUDA_MEMORY_DIRECT && config->rdma_disable_gpu_direct)
		return otte_fail(-EINVAL, "rdma.cuda_memory: direct, and rdma.disable_gpu_direct is true");
	if (config->rdma_gpu_source_reuse)
		return otte_fail(-EINVAL, "rdma.gpu_source_reuse: true, and no NIC's keys over a GPU's memory "
					  "can be revoked; allowed is false");
	return 0;
}

int otte_config_copy_in(struct otte_config *whole, const struct otte_config *config)
{
	int rc = check_header(config);

	if (rc)
		return rc;
	fill_defaults(whole);
	memcpy(whole, config, min_u64(config->size, sizeof(*whole)));
	return 0;
}

int otte_config_take(struct otte_config *to, const struct otte_config *from)
{
	struct otte_config whole;
	int rc;

	if (from) {
		rc = otte_config_copy_in(&whole, from);
		if (rc)
			return rc;
		whole.size = sizeof(whole);
	} else {
		fill_defaults(&whole);
	}
	rc = otte_config_check(&whole);
	if (rc)
		return rc;
	*to = whole;
	return 0;
}
