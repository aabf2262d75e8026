/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What otte.h states about struct otte_config and its loaders: values, refusals and their texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "engine/config.h"

static char logged[4096];

static void collect(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	assert_int_equal(level, OTTE_LOG_WARNING);
	strncat(logged, line, sizeof(logged) - strlen(logged) - 1);
	strncat(logged, "\n", sizeof(logged) - strlen(logged) - 1);
}

static void fresh(struct otte_config *config)
{
	assert_int_equal(otte_config_init(config, sizeof(*config)), 0);
}

static int load(struct otte_config *config, const char *text)
{
	return otte_config_load_json(config, text, strlen(text));
}

/* Refused with the code and text, and nothing changed. */
static void refused(const char *text, int code, const char *words)
{
	struct otte_config config, before;

	fresh(&config);
	before = config;
	assert_int_equal(load(&config, text), code);
	assert_string_equal(otte_error_text(), words);
	assert_memory_equal(&config, &before, sizeof(config));
}

static void defaults_are_those_of_the_header(void **state)
{
	struct otte_config c;

	(void)state;
	memset(&c, 0xa5, sizeof(c));
	fresh(&c);
	assert_int_equal(c.size, sizeof(c));
	assert_int_equal(c.version, OTTE_CONFIG_VERSION);
	assert_string_equal(c.name, "");
	assert_int_equal(c.ledger, OTTE_LEDGER_AUTO);
	assert_string_equal(c.listen_address, "127.0.0.1");
	assert_int_equal(c.listen_port, 0);
	assert_string_equal(c.advertise, "");
	assert_string_equal(c.key_file, "");
	assert_int_equal(c.control_connections, 256);
	assert_int_equal(c.control_frame_bytes, 65536);
	assert_int_equal(c.control_timeout_ns, 5 * NSEC_PER_SEC);
	assert_int_equal(c.reconnect_min_ns, 50 * NSEC_PER_MSEC);
	assert_int_equal(c.reconnect_max_ns, 5 * NSEC_PER_SEC);
	assert_int_equal(c.max_regions, 65536);
	assert_int_equal(c.max_registered_bytes, TIB);
	assert_int_equal(c.max_requests, 65536);
	assert_int_equal(c.max_bytes, GIB);
	assert_int_equal(c.max_loans, 65536);
	assert_int_equal(c.max_retained_bytes, 16 * GIB);
	assert_int_equal(c.max_notifications, 1024);
	assert_int_equal(c.window_requests, 64);
	assert_int_equal(c.window_bytes, 64 * MIB);
	assert_int_equal(c.default_deadline_ns, 30 * NSEC_PER_SEC);
	assert_int_equal(c.retry_budget, 1);
	assert_int_equal(c.tcp_lanes, 2);
	assert_int_equal(c.tcp_workers, 1);
	assert_string_equal(c.tcp_congestion, "");
	assert_int_equal(c.tcp_block_bytes, 65536);
	assert_int_equal(c.tcp_max_slices, 64);
	assert_int_equal(c.tcp_send_buffer, 0);
	assert_int_equal(c.tcp_receive_buffer, 0);
	assert_int_equal(c.tcp_stall_ns, 10 * NSEC_PER_SEC);
	assert_int_equal(c.tcp_zerocopy, OTTE_ZEROCOPY_AUTO);
	assert_int_equal(c.tcp_zerocopy_bytes, 65536);
	assert_int_equal(c.local_trusted, 0);
	assert_int_equal(c.local_maps, 256);
	assert_int_equal(c.local_pinned, 0);
	assert_int_equal(c.local_map_entries, 64);
	assert_int_equal(c.local_map_bytes, 1 << 20);
	assert_int_equal(c.local_map_repeats, 16);
	assert_int_equal(c.rdma_enabled, 0);
	assert_string_equal(c.rdma_device, "");
	assert_int_equal(c.rdma_port, 0);
	assert_int_equal(c.rdma_gid_index, OTTE_RDMA_GID_UNSET);
	assert_string_equal(c.rdma_whitelist, "");
	assert_string_equal(c.rdma_blacklist, "");
	assert_int_equal(c.rdma_numa_node, OTTE_RDMA_NODE_UNSET);
	assert_int_equal(c.rdma_device_mask, 0);
	assert_int_equal(c.rdma_strict_numa, 0);
	assert_string_equal(c.rdma_priority_matrix, "");
	assert_string_equal(c.rdma_topology_file, "");
	assert_int_equal(c.rdma_endpoints, 64);
	assert_int_equal(c.rdma_pairs, 2);
	assert_int_equal(c.rdma_grants, 64);
	assert_int_equal(c.rdma_send_wrs, 16);
	assert_int_equal(c.rdma_cqes, 1024);
	assert_int_equal(c.rdma_mrs, 64);
	assert_int_equal(c.rdma_mr_bytes, 64 * MIB);
	assert_int_equal(c.rdma_host_memory, OTTE_HOST_MEMORY_DIRECT);
	assert_int_equal(c.rdma_chunk_bytes, 256 * KIB);
	assert_int_equal(c.rdma_direct_bytes, 64 * MIB);
	assert_int_equal(c.rdma_staging_bytes, 64 * MIB);
	assert_int_equal(c.rdma_key_indices, 65536);
	assert_int_equal(c.rdma_qp_timeout, 14);
	assert_int_equal(c.rdma_qp_retries, 7);
	assert_int_equal(c.rdma_rd_atomic, 16);
	assert_int_equal(c.rdma_dest_rd_atomic, 16);
	assert_int_equal(c.rdma_signal_interval, 1);
	assert_int_equal(c.rdma_cuda_memory, OTTE_CUDA_MEMORY_STAGED);
	assert_int_equal(c.rdma_disable_gpu_direct, 0);
	assert_int_equal(c.rdma_gpu_registration, OTTE_GPU_REGISTRATION_AUTO);
	assert_int_equal(c.rdma_gpu_source_reuse, 0);
	assert_int_equal(c.rdma_lease, 0);
	assert_int_equal(c.rdma_leases, 64);
	assert_int_equal(c.rdma_lease_idle_ns, 10 * NSEC_PER_SEC);
	assert_int_equal(c.rdma_grant_ns, 60 * NSEC_PER_SEC);
	assert_int_equal(c.rdma_stall_ns, 0);
	assert_int_equal(c.rdma_destruction_ns, 30 * NSEC_PER_SEC);
	assert_int_equal(c.rdma_rail_topology, OTTE_RAIL_ALL);
	assert_int_equal(c.rdma_max_rail_pairs, 1024);
	assert_int_equal(c.rdma_rail_error_threshold, 3);
	assert_int_equal(c.rdma_rail_error_window_ns, 10 * NSEC_PER_SEC);
	assert_int_equal(c.rdma_rail_cooldown_ns, 30 * NSEC_PER_SEC);
	assert_int_equal(c.rdma_rail_probe_interval_ns, NSEC_PER_SEC);
	assert_int_equal(c.rdma_smart_selection, 1);
	assert_int_equal(c.rdma_link_rate_mbps, 0);
	assert_int_equal(c.rdma_log_slice_affinity, 0);
	assert_int_equal(c.rdma_deadline_bw_arbitration, 0);
	assert_int_equal(c.rdma_workers, 1);
	assert_int_equal(c.rdma_progress, OTTE_RDMA_PROGRESS_EVENTS);
	assert_int_equal(c.rdma_bind_cpus, 1);
	assert_int_equal(c.stats_socket, 1);
	assert_int_equal(c.max_high_requests, 65536);
	assert_int_equal(c.max_medium_requests, 65536);
	assert_int_equal(c.max_low_requests, 65536);
	assert_int_equal(c.aging_per_entry, 0);
	assert_int_equal(c.aging_ns, 10 * NSEC_PER_MSEC);
	assert_string_equal(c.slots_domain, "");
	assert_string_equal(c.slots_pattern, "high,medium,low");
	assert_int_equal(c.slot_interval_ns, 2 * NSEC_PER_MSEC);
	assert_int_equal(c.low_inflight_bytes, 256 * KIB);
	assert_int_equal(otte_config_check(&c), 0);
}

static void every_json_key_reaches_its_field(void **state)
{
	static const char text[] =
		"{\"name\":\"n\",\"ledger\":\"process\","
		"\"listen\":{\"address\":\"::1\",\"port\":65535,\"advertise\":\"host:1\"},"
		"\"auth\":{\"key_file\":\"/k\"},"
		"\"control\":{\"connections\":3,\"frame_bytes\":8192,\"timeout_ms\":4,"
		"\"reconnect_min_ms\":5,\"reconnect_max_ms\":6},"
		"\"limits\":{\"regions\":7,\"registered_bytes\":8,\"requests\":9,\"bytes\":10,"
		"\"loans\":11,\"retained_bytes\":0,\"notifications\":13},"
		"\"window\":{\"requests\":14,\"bytes\":4096},\"deadline\":{\"default_ms\":0},"
		"\"retry\":{\"budget\":16},"
		"\"tcp\":{\"lanes\":15,\"workers\":16,\"congestion\":\"cubic\",\"block_bytes\":4097,"
		"\"max_slices\":17,"
		"\"send_buffer_bytes\":180000,\"receive_buffer_bytes\":190000,\"stall_timeout_ms\":20,"
		"\"zerocopy\":\"always\",\"zerocopy_bytes\":21},"
		"\"local\":{\"trusted\":true,\"maps\":22,\"pinned\":true,\"map_entries\":23,"
		"\"map_bytes\":4099,\"map_repeats\":24},"
		"\"rdma\":{\"enabled\":true,\"device\":\"mlx5_0\",\"port\":2,\"gid_index\":3,"
		"\"endpoints\":4,\"pairs\":7,\"grants\":5,\"send_wrs\":6,\"cqes\":27,\"mrs\":8,"
		"\"mr_bytes\":4100,\"key_indices\":10,\"qp_timeout\":11,\"qp_retries\":1,\"lease\":\"region\","
		"\"leases\":13,\"lease_idle_ms\":114,\"grant_ms\":18,\"stall_ms\":19,\"destruction_ms\":12,"
		"\"rail_topology\":\"direct\",\"max_rail_pairs\":13,\"rail_error_threshold\":14,"
		"\"rail_error_window_ms\":15,\"rail_cooldown_ms\":16,\"rail_probe_interval_ms\":0,"
		"\"smart_selection\":false,\"link_rate_mbps\":18,\"log_slice_affinity\":true,"
		"\"deadline_bw_arbitration\":true,\"whitelist\":\"a,b\",\"blacklist\":\"c\","
		"\"numa_node\":104,\"device_mask\":9223372036854775807,\"strict_numa\":true,"
		"\"priority_matrix\":{\"cpu:0\" : [[\"a\"],\n[ ]]},\"topology_file\":\"/t\","
		"\"rd_atomic\":0,\"dest_rd_atomic\":255,\"signal_interval\":105,"
		"\"cuda_memory\":\"direct\",\"disable_gpu_direct\":false,"
		"\"gpu_direct_registration\":\"peermem\",\"gpu_source_reuse\":true,"
		"\"workers\":3,\"progress\":\"polling\","
		"\"bind_cpus\":false,"
		"\"host_memory\":\"staged\",\"chunk_bytes\":4101,\"direct_bytes\":4102,"
		"\"staging_bytes\":4103},"
		"\"priority\":{\"high_requests\":22,\"medium_requests\":23,\"low_requests\":24,"
		"\"aging_per_entry\":true,\"aging_ms\":25},"
		"\"slots\":{\"domain\":\"default\",\"pattern\":\"high,low\",\"interval_us\":126,"
		"\"low_inflight_bytes\":4098},"
		"\"stats\":{\"socket\":false}}";
	struct otte_config c;

	(void)state;
	fresh(&c);
	assert_int_equal(load(&c, text), 0);
	assert_string_equal(c.name, "n");
	assert_int_equal(c.ledger, OTTE_LEDGER_PROCESS);
	assert_string_equal(c.listen_address, "::1");
	assert_int_equal(c.listen_port, 65535);
	assert_string_equal(c.advertise, "host:1");
	assert_string_equal(c.key_file, "/k");
	assert_int_equal(c.control_connections, 3);
	assert_int_equal(c.control_frame_bytes, 8192);
	assert_int_equal(c.control_timeout_ns, 4 * NSEC_PER_MSEC);
	assert_int_equal(c.reconnect_min_ns, 5 * NSEC_PER_MSEC);
	assert_int_equal(c.reconnect_max_ns, 6 * NSEC_PER_MSEC);
	assert_int_equal(c.max_regions, 7);
	assert_int_equal(c.max_registered_bytes, 8);
	assert_int_equal(c.max_requests, 9);
	assert_int_equal(c.max_bytes, 10);
	assert_int_equal(c.max_loans, 11);
	assert_int_equal(c.max_retained_bytes, 0);
	assert_int_equal(c.max_notifications, 13);
	assert_int_equal(c.window_requests, 14);
	assert_int_equal(c.window_bytes, 4096);
	assert_int_equal(c.default_deadline_ns, 0);
	assert_int_equal(c.retry_budget, 16);
	assert_int_equal(c.tcp_lanes, 15);
	assert_int_equal(c.tcp_workers, 16);
	assert_string_equal(c.tcp_congestion, "cubic");
	assert_int_equal(c.tcp_block_bytes, 4097);
	assert_int_equal(c.tcp_max_slices, 17);
	assert_int_equal(c.tcp_send_buffer, 180000);
	assert_int_equal(c.tcp_receive_buffer, 190000);
	assert_int_equal(c.tcp_stall_ns, 20 * NSEC_PER_MSEC);
	assert_int_equal(c.tcp_zerocopy, OTTE_ZEROCOPY_ALWAYS);
	assert_int_equal(c.tcp_zerocopy_bytes, 21);
	assert_int_equal(c.local_trusted, 1);
	assert_int_equal(c.local_maps, 22);
	assert_int_equal(c.local_pinned, 1);
	assert_int_equal(c.local_map_entries, 23);
	assert_int_equal(c.local_map_bytes, 4099);
	assert_int_equal(c.local_map_repeats, 24);
	assert_int_equal(c.rdma_enabled, 1);
	assert_string_equal(c.rdma_device, "mlx5_0");
	assert_int_equal(c.rdma_port, 2);
	assert_int_equal(c.rdma_gid_index, 3);
	assert_string_equal(c.rdma_whitelist, "a,b");
	assert_string_equal(c.rdma_blacklist, "c");
	assert_int_equal(c.rdma_numa_node, 104);
	assert_int_equal(c.rdma_device_mask, INT64_MAX);
	assert_int_equal(c.rdma_strict_numa, 1);
	assert_string_equal(c.rdma_priority_matrix, "{\"cpu:0\":[[\"a\"],[]]}");
	assert_string_equal(c.rdma_topology_file, "/t");
	assert_int_equal(c.rdma_endpoints, 4);
	assert_int_equal(c.rdma_pairs, 7);
	assert_int_equal(c.rdma_grants, 5);
	assert_int_equal(c.rdma_send_wrs, 6);
	assert_int_equal(c.rdma_cqes, 27);
	assert_int_equal(c.rdma_mrs, 8);
	assert_int_equal(c.rdma_mr_bytes, 4100);
	assert_int_equal(c.rdma_host_memory, OTTE_HOST_MEMORY_STAGED);
	assert_int_equal(c.rdma_chunk_bytes, 4101);
	assert_int_equal(c.rdma_direct_bytes, 4102);
	assert_int_equal(c.rdma_staging_bytes, 4103);
	assert_int_equal(c.rdma_key_indices, 10);
	assert_int_equal(c.rdma_qp_timeout, 11);
	assert_int_equal(c.rdma_qp_retries, 1);
	assert_int_equal(c.rdma_rd_atomic, 0);
	assert_int_equal(c.rdma_dest_rd_atomic, 255);
	assert_int_equal(c.rdma_signal_interval, 105);
	assert_int_equal(c.rdma_cuda_memory, OTTE_CUDA_MEMORY_DIRECT);
	assert_int_equal(c.rdma_disable_gpu_direct, 0);
	assert_int_equal(c.rdma_gpu_registration, OTTE_GPU_REGISTRATION_PEERMEM);
	assert_int_equal(c.rdma_gpu_source_reuse, 1);
	assert_int_equal(c.rdma_lease, 2);
	assert_int_equal(c.rdma_leases, 13);
	assert_int_equal(c.rdma_lease_idle_ns, 114 * NSEC_PER_MSEC);
	assert_int_equal(c.rdma_grant_ns, 18 * NSEC_PER_MSEC);
	assert_int_equal(c.rdma_stall_ns, 19 * NSEC_PER_MSEC);
	assert_int_equal(c.rdma_destruction_ns, 12 * NSEC_PER_MSEC);
	assert_int_equal(c.rdma_rail_topology, OTTE_RAIL_DIRECT);
	assert_int_equal(c.rdma_max_rail_pairs, 13);
	assert_int_equal(c.rdma_rail_error_threshold, 14);
	assert_int_equal(c.rdma_rail_error_window_ns, 15 * NSEC_PER_MSEC);
	assert_int_equal(c.rdma_rail_cooldown_ns, 16 * NSEC_PER_MSEC);
	assert_int_equal(c.rdma_rail_probe_interval_ns, 0);
	assert_int_equal(c.rdma_smart_selection, 0);
	assert_int_equal(c.rdma_link_rate_mbps, 18);
	assert_int_equal(c.rdma_log_slice_affinity, 1);
	assert_int_equal(c.rdma_deadline_bw_arbitration, 1);
	assert_int_equal(c.rdma_workers, 3);
	assert_int_equal(c.rdma_progress, OTTE_RDMA_PROGRESS_POLLING);
	assert_int_equal(c.rdma_bind_cpus, 0);
	assert_int_equal(c.stats_socket, 0);
	assert_int_equal(c.max_high_requests, 22);
	assert_int_equal(c.max_medium_requests, 23);
	assert_int_equal(c.max_low_requests, 24);
	assert_int_equal(c.aging_per_entry, 1);
	assert_int_equal(c.aging_ns, 25 * NSEC_PER_MSEC);
	assert_string_equal(c.slots_domain, "default");
	assert_string_equal(c.slots_pattern, "high,low");
	assert_int_equal(c.slot_interval_ns, 126 * NSEC_PER_USEC);
	assert_int_equal(c.low_inflight_bytes, 4098);
}

static void an_overlay_leaves_other_keys_alone(void **state)
{
	struct otte_config c;

	(void)state;
	fresh(&c);
	assert_int_equal(load(&c, "{\"tcp\":{\"lanes\":7,\"congestion\":\"a-longer-name\"}}"), 0);
	assert_int_equal(load(&c, "{\"tcp\":{\"workers\":3,\"congestion\":\"x\"}}"), 0);
	assert_int_equal(load(&c, "{}"), 0);
	assert_int_equal(load(&c, "{\"tcp\":{}}"), 0);
	assert_int_equal(c.tcp_lanes, 7);
	assert_int_equal(c.tcp_workers, 3);
	assert_memory_equal(c.tcp_congestion, "x\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
}

static void each_refusal_names_its_key_and_changes_nothing(void **state)
{
	static const struct {
		const char *text;
		const char *words;
	} cases[] = {
		{ "{\"tpc\":1}", "tpc: unknown key" },
		{ "{\"tcp\":{\"lane\":1}}", "tcp.lane: unknown key" },
		{ "{\"tcp\":{\"tcp\":{\"lanes\":1}}}", "tcp.tcp: unknown key" },
		{ "{\"lanes\":1}", "lanes: unknown key" },
		{ "{\"tcp.lanes\":1}",
		  "tcp.lanes: unknown key; a dot stands for an object in an object" },
		{ "{\"a\\nb\":1}", "a\\x0ab: unknown key" },
		{ "{\"\":1}", ": unknown key" },
		{ "{\"tcp\":1}", "tcp: an object is wanted, not an integer" },
		{ "{\"tcp\":{\"lanes\":\"2\"}}",
		  "tcp.lanes: an integer of 1 to 16 is wanted, not a string" },
		{ "{\"tcp\":{\"lanes\":2.0}}",
		  "tcp.lanes: an integer of 1 to 16 is wanted, not a real number" },
		{ "{\"tcp\":{\"lanes\":null}}",
		  "tcp.lanes: an integer of 1 to 16 is wanted, not null" },
		{ "{\"tcp\":{\"lanes\":{}}}",
		  "tcp.lanes: an integer of 1 to 16 is wanted, not an object" },
		{ "{\"tcp\":{\"workers\":9,\"lanes\":0}}",
		  "tcp.lanes: 0 is out of range, allowed are 1 to 16" },
		{ "{\"tcp\":{\"lanes\":17}}",
		  "tcp.lanes: 17 is out of range, allowed are 1 to 16" },
		{ "{\"tcp\":{\"lanes\":-1}}",
		  "tcp.lanes: -1 is out of range, allowed are 1 to 16" },
		{ "{\"tcp\":{\"lanes\":4294967298}}",
		  "tcp.lanes: 4294967298 is out of range, allowed are 1 to 16" },
		{ "{\"control\":{\"timeout_ms\":3600001}}",
		  "control.timeout_ms: 3600001 is out of range, allowed are 1 to 3600000" },
		{ "{\"control\":{\"timeout_ms\":9223372036854775807}}",
		  "control.timeout_ms: 9223372036854775807 is out of range, allowed are 1 to "
		  "3600000" },
		{ "{\"ledger\":\"\"}", "ledger: '' is none of auto, kernel, process" },
		{ "{\"ledger\":0}", "ledger: a string is wanted, not an integer" },
		{ "{\"stats\":{\"socket\":1}}",
		  "stats.socket: true or false is wanted, not an integer" },
		{ "{\"name\":[]}", "name: a string is wanted, not an array" },
		{ "{\"tcp\":{\"congestion\":\"0123456789abcdef\"}}",
		  "tcp.congestion: 16 bytes are too long, allowed are 0 to 15" },
		{ "{\"priority\":{\"aging_ms\":3600001}}",
		  "priority.aging_ms: 3600001 is out of range, allowed are 0 to 3600000" },
		{ "{\"priority\":{\"low_requests\":0}}",
		  "priority.low_requests: 0 is out of range, allowed are 1 to 16777216" },
		{ "{\"priority\":{\"aging_per_entry\":1}}",
		  "priority.aging_per_entry: true or false is wanted, not an integer" },
		{ "{\"rdma\":{\"qp_timeout\":0}}",
		  "rdma.qp_timeout: 0 is out of range, allowed are 1 to 31" },
		{ "{\"rdma\":{\"send_wrs\":3}}",
		  "rdma.send_wrs: 3 is out of range, allowed are 4 to 4096" },
		{ "{\"rdma\":{\"whitelist\":\"mlx5_0,,mlx5_1\"}}",
		  "rdma.whitelist: name 2 is empty" },
		{ "{\"rdma\":{\"whitelist\":[\"mlx5_0\"]}}",
		  "rdma.whitelist: a string is wanted, not an array" },
		{ "{\"rdma\":{\"blacklist\":\"mlx5_0,\"}}", "rdma.blacklist: name 2 is empty" },
		{ "{\"rdma\":{\"blacklist\":\"mlx5_0, mlx5_1\"}}",
		  "rdma.blacklist: name 2 has what no name has" },
		{ "{\"rdma\":{\"blacklist\":\"../mlx5_0\"}}",
		  "rdma.blacklist: name 1 has what no name has" },
		{ "{\"rdma\":{\"numa_node\":65536}}",
		  "rdma.numa_node: 65536 is out of range, allowed are 0 to 65535" },
		{ "{\"rdma\":{\"device_mask\":-1}}",
		  "rdma.device_mask: -1 is out of range, allowed are 0 to 18446744073709551615" },
		{ "{\"rdma\":{\"strict_numa\":1}}",
		  "rdma.strict_numa: true or false is wanted, not an integer" },
		{ "{\"rdma\":{\"priority_matrix\":\"{}\"}}",
		  "rdma.priority_matrix: an object is wanted, not a string" },
		{ "{\"rdma\":{\"priority_matrix\":[]}}",
		  "rdma.priority_matrix: an object is wanted, not an array" },
		{ "{\"rdma\":{\"rd_atomic\":256}}",
		  "rdma.rd_atomic: 256 is out of range, allowed are 0 to 255" },
		{ "{\"rdma\":{\"dest_rd_atomic\":256}}",
		  "rdma.dest_rd_atomic: 256 is out of range, allowed are 0 to 255" },
		{ "{\"rdma\":{\"signal_interval\":0}}",
		  "rdma.signal_interval: 0 is out of range, allowed are 1 to 4096" },
		{ "{\"rdma\":{\"cuda_memory\":\"peermem\"}}",
		  "rdma.cuda_memory: 'peermem' is none of staged, direct" },
		{ "{\"rdma\":{\"gpu_direct_registration\":\"direct\"}}",
		  "rdma.gpu_direct_registration: 'direct' is none of auto, dmabuf, peermem" },
		{ "{\"slots\":{\"interval_us\":99}}",
		  "slots.interval_us: 99 is out of range, allowed are 100 to 1000000" },
		{ "{\"slots\":{\"interval_us\":1000001}}",
		  "slots.interval_us: 1000001 is out of range, allowed are 100 to 1000000" },
		{ "{\"slots\":{\"low_inflight_bytes\":4095}}",
		  "slots.low_inflight_bytes: 4095 is out of range, allowed are 4096 to "
		  "1152921504606846976" },
		{ "{\"slots\":{\"domain\":\"a b\"}}",
		  "slots.domain: only letters, digits and any of -_.:@ are allowed" },
		{ "{\"slots\":{\"domain\":\"01234567890123456789012345678901\"}}",
		  "slots.domain: 32 bytes are too long, allowed are 0 to 31" },
		{ "{\"slots\":{\"pattern\":\"\"}}",
		  "slots.pattern: slot 1 is none of high, medium, low" },
		{ "{\"slots\":{\"pattern\":\"high,medium\"}}",
		  "slots.pattern: no slot is for low, which could never send" },
		{ "[]", "config: an object is wanted, not an array" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		refused(cases[i].text, -EINVAL, cases[i].words);
}

static void what_is_not_json_is_refused_with_its_place(void **state)
{
	static const struct {
		const char *text;
		const char *part;
	} cases[] = {
		{ "", "line 1 column 0: " },
		{ "{\n\"name\":", "line 2 column 7: " },
		{ "{} {}", "line 1 column 4: " },
		{ "{\"name\":\"a\\u0000b\"}", "line 1 column" },
		{ "{\"name\":\"\xff\"}", "line 1 column" },
		{ "{\"tcp\":{\"lanes\":99999999999999999999}}", "too big integer" },
		{ "{\"tcp\":{\"lanes\":1,\"lanes\":1}}", "duplicate object key near '\"lanes\"'" },
		{ "{\"tcp\":{},\"tcp\":{}}", "duplicate object key near '\"tcp\"'" },
	};
	struct otte_config c, before;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		fresh(&c);
		before = c;
		assert_int_equal(load(&c, cases[i].text), -EINVAL);
		assert_non_null(strstr(otte_error_text(), cases[i].part));
		assert_null(strchr(otte_error_text(), '\n'));
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

static void text_of_the_longest_length_fits_and_one_more_does_not(void **state)
{
	struct otte_config c;
	char name[OTTE_NAME_MAX + 1], text[128];

	(void)state;
	memset(name, 'x', sizeof(name));
	name[OTTE_NAME_MAX - 1] = 0;
	snprintf(text, sizeof(text), "{\"name\":\"%s\"}", name);
	fresh(&c);
	assert_int_equal(load(&c, text), 0);
	assert_string_equal(c.name, name);
	name[OTTE_NAME_MAX - 1] = 'x';
	name[OTTE_NAME_MAX] = 0;
	snprintf(text, sizeof(text), "{\"name\":\"%s\"}", name);
	refused(text, -EINVAL, "name: 64 bytes are too long, allowed are 0 to 63");
}

/* In whatever way its text is spaced, and from the environment as it is. */
static void an_object_is_kept_as_its_text(void **state)
{
	static const char shortest[] = "{\"cpu:0\":[[\"\"],[]]}";
	char object[OTTE_MATRIX_MAX + 1], text[OTTE_MATRIX_MAX + 64];
	size_t room = OTTE_MATRIX_MAX - sizeof(shortest);
	struct otte_config c;

	(void)state;
	fresh(&c);
	memset(object, 'x', sizeof(object));
	snprintf(text, sizeof(text), "{\"rdma\":{\"priority_matrix\":{\"cpu:0\":[[\"%.*s\"],[ ]]}}}",
		 (int)room, object);
	assert_int_equal(load(&c, text), 0);
	assert_int_equal(strlen(c.rdma_priority_matrix), OTTE_MATRIX_MAX - 1);
	assert_int_equal(otte_config_check(&c), 0);
	assert_int_equal(load(&c, "{\"rdma\":{\"priority_matrix\":{}}}"), 0);
	assert_string_equal(c.rdma_priority_matrix, "");
	snprintf(text, sizeof(text), "{\"rdma\":{\"priority_matrix\":{\"cpu:0\":[[\"%.*s\"],[]]}}}",
		 (int)room + 1, object);
	refused(text, -EINVAL,
		"rdma.priority_matrix: 8192 bytes are too long, allowed are 0 to 8191");
	refused("{\"rdma\":{\"priority_matrix\":{\"cpu:0\":1,\"cpu:0\":2}}}", -EINVAL,
		"line 1 column 45: duplicate object key near '\"cpu:0\"'");
}

static void direct_gpu_memory_is_not_what_disables_it(void **state)
{
	struct otte_config c;

	(void)state;
	fresh(&c);
	assert_int_equal(load(&c, "{\"rdma\":{\"disable_gpu_direct\":true}}"), 0);
	assert_int_equal(otte_config_check(&c), 0);
	assert_int_equal(load(&c, "{\"rdma\":{\"cuda_memory\":\"direct\"}}"), 0);
	assert_int_equal(otte_config_check(&c), -EINVAL);
	assert_string_equal(otte_error_text(),
			    "rdma.cuda_memory: direct, and rdma.disable_gpu_direct is true");
	assert_int_equal(load(&c, "{\"rdma\":{\"disable_gpu_direct\":false}}"), 0);
	assert_int_equal(otte_config_check(&c), 0);
}

static void queue_pairs_of_gpu_memory_cannot_be_reused(void **state)
{
	struct otte_config c;

	(void)state;
	fresh(&c);
	assert_int_equal(load(&c, "{\"rdma\":{\"gpu_source_reuse\":true}}"), 0);
	assert_int_equal(otte_config_check(&c), -EINVAL);
	assert_non_null(strstr(otte_error_text(), "rdma.gpu_source_reuse: true"));
	assert_int_equal(load(&c, "{\"rdma\":{\"gpu_source_reuse\":false}}"), 0);
	assert_int_equal(otte_config_check(&c), 0);
}

static void json_of_one_mebibyte_is_read_and_one_byte_more_is_not(void **state)
{
	char *text = malloc(MIB + 1);
	struct otte_config c;

	(void)state;
	assert_non_null(text);
	memset(text, ' ', MIB + 1);
	memcpy(text, "{}", 2);
	fresh(&c);
	assert_int_equal(otte_config_load_json(&c, text, MIB), 0);
	assert_int_equal(otte_config_load_json(&c, text, MIB + 1), -E2BIG);
	assert_string_equal(otte_error_text(),
			    "config: 1048577 bytes of JSON, allowed are 1048576");
	assert_int_equal(otte_config_load_json(&c, NULL, 0), -EINVAL);
	assert_int_equal(otte_config_load_json(NULL, "{}", 2), -EINVAL);
	assert_int_equal(otte_config_load_file(&c, NULL), -EINVAL);
	assert_int_equal(otte_config_load_env(NULL), -EINVAL);
	free(text);
}

static void a_file_loads_and_its_faults_are_named(void **state)
{
	char path[] = "/tmp/otte-config-XXXXXX", words[128];
	int fd = mkstemp(path);
	struct otte_config c;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "{\"retry\":{\"budget\":5}}", 22), 22);
	fresh(&c);
	assert_int_equal(otte_config_load_file(&c, path), 0);
	assert_int_equal(c.retry_budget, 5);

	assert_int_equal(pwrite(fd, "{\"retry\":{\"budget\":99}}", 23, 0), 23);
	assert_int_equal(otte_config_load_file(&c, path), -EINVAL);
	snprintf(words, sizeof(words), "%s: retry.budget: 99 is out of range, allowed are 0 to 16",
		 path);
	assert_string_equal(otte_error_text(), words);
	assert_int_equal(c.retry_budget, 5);

	assert_int_equal(ftruncate(fd, (off_t)MIB + 1), 0);
	assert_int_equal(otte_config_load_file(&c, path), -E2BIG);
	close(fd);
	unlink(path);
	assert_int_equal(otte_config_load_file(&c, path), -ENOENT);
	snprintf(words, sizeof(words), "%s: No such file or directory", path);
	assert_string_equal(otte_error_text(), words);
	assert_int_equal(otte_config_load_file(&c, "/"), -EISDIR);
	assert_string_equal(otte_error_text(), "/: Is a directory");
}

static int clean_environment(void **state)
{
	(void)state;
	clearenv();
	logged[0] = 0;
	return 0;
}

static void variables_set_values_of_every_type(void **state)
{
	struct otte_config c;

	(void)state;
	setenv("OTTE_TCP_LANES", "4", 1);
	setenv("OTTE_CONTROL_RECONNECT_MIN_MS", "7", 1);
	setenv("OTTE_LIMITS_REGISTERED_BYTES", "1152921504606846976", 1);
	setenv("OTTE_LEDGER", "kernel", 1);
	setenv("OTTE_STATS_SOCKET", "false", 1);
	setenv("OTTE_LISTEN_ADDRESS", "", 1);
	setenv("OTTE_SLOTS_INTERVAL_US", "50000", 1);
	setenv("OTTE_SLOTS_PATTERN", "medium,low", 1);
	fresh(&c);
	assert_int_equal(otte_config_load_env(&c), 0);
	assert_int_equal(c.tcp_lanes, 4);
	assert_int_equal(c.reconnect_min_ns, 7 * NSEC_PER_MSEC);
	assert_int_equal(c.max_registered_bytes, 1ull << 60);
	assert_int_equal(c.ledger, OTTE_LEDGER_KERNEL);
	assert_int_equal(c.stats_socket, 0);
	assert_string_equal(c.listen_address, "");
	assert_int_equal(c.slot_interval_ns, 50 * NSEC_PER_MSEC);
	assert_string_equal(c.slots_pattern, "medium,low");
}

static void a_bad_variable_is_named_with_its_key_and_changes_nothing(void **state)
{
	static const struct {
		const char *name, *value, *words;
	} cases[] = {
		{ "OTTE_SLOTS_PATTERN", "low,",
		  "OTTE_SLOTS_PATTERN: slots.pattern: slot 2 is none of high, medium, low" },
		{ "OTTE_SLOTS_INTERVAL_US", "2ms",
		  "OTTE_SLOTS_INTERVAL_US: slots.interval_us: '2ms' is not an integer, allowed are "
		  "100 to 1000000" },
		{ "OTTE_TCP_LANES", "17",
		  "OTTE_TCP_LANES: tcp.lanes: 17 is out of range, allowed are 1 to 16" },
		{ "OTTE_TCP_LANES", "",
		  "OTTE_TCP_LANES: tcp.lanes: '' is not an integer, allowed are 1 to 16" },
		{ "OTTE_TCP_LANES", " 2",
		  "OTTE_TCP_LANES: tcp.lanes: ' 2' is not an integer, allowed are 1 to 16" },
		{ "OTTE_TCP_LANES", "-1",
		  "OTTE_TCP_LANES: tcp.lanes: '-1' is not an integer, allowed are 1 to 16" },
		{ "OTTE_TCP_LANES", "99999999999999999999",
		  "OTTE_TCP_LANES: tcp.lanes: 99999999999999999999 is out of range, allowed are 1 "
		  "to 16" },
		{ "OTTE_LEDGER", "k\n",
		  "OTTE_LEDGER: ledger: 'k\\x0a' is none of auto, kernel, process" },
		{ "OTTE_STATS_SOCKET", "yes",
		  "OTTE_STATS_SOCKET: stats.socket: 'yes' is none of true, false, 1, 0" },
		{ "OTTE_TCP_CONGESTION", "0123456789abcdef",
		  "OTTE_TCP_CONGESTION: tcp.congestion: 16 bytes are too long, allowed are 0 to "
		  "15" },
	};
	struct otte_config c, before;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		clearenv();
		setenv("OTTE_CONTROL_CONNECTIONS", "9", 1);
		setenv(cases[i].name, cases[i].value, 1);
		fresh(&c);
		before = c;
		assert_int_equal(otte_config_load_env(&c), -EINVAL);
		assert_string_equal(otte_error_text(), cases[i].words);
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

static void an_unknown_variable_is_warned_about_and_changes_nothing(void **state)
{
	struct otte_config c, before;

	(void)state;
	setenv("OTTE_TCP_LANE", "4", 1);
	setenv("OTTE_", "4", 1);
	setenv("OTTER", "4", 1);
	setenv("OTTE_TCP_LANES", "2", 1);
	fresh(&c);
	before = c;
	otte_log_set(collect, NULL, OTTE_LOG_WARNING);
	assert_int_equal(otte_config_load_env(&c), 0);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	assert_non_null(strstr(logged, "config: OTTE_TCP_LANE names no key, ignored\n"));
	assert_non_null(strstr(logged, "config: OTTE_ names no key, ignored\n"));
	assert_null(strstr(logged, "OTTER"));
	assert_null(strstr(logged, "LANES"));
	assert_memory_equal(&c, &before, sizeof(c));
}

static void otte_config_names_a_file_that_is_read_first(void **state)
{
	char path[] = "/tmp/otte-config-XXXXXX";
	int fd = mkstemp(path);
	struct otte_config c;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "{\"tcp\":{\"lanes\":5,\"workers\":6}}", 31), 31);
	close(fd);
	setenv("OTTE_CONFIG", path, 1);
	setenv("OTTE_TCP_LANES", "7", 1);
	fresh(&c);
	otte_log_set(collect, NULL, OTTE_LOG_WARNING);
	assert_int_equal(otte_config_load_env(&c), 0);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	assert_string_equal(logged, "");
	assert_int_equal(c.tcp_lanes, 7);
	assert_int_equal(c.tcp_workers, 6);
	unlink(path);
	setenv("OTTE_CONFIG", "/none", 1);
	assert_int_equal(otte_config_load_env(&c), -ENOENT);
	assert_string_equal(otte_error_text(), "OTTE_CONFIG: /none: No such file or directory");
	assert_int_equal(c.tcp_workers, 6);
}

static void a_struct_of_another_size_is_read_within_its_size(void **state)
{
	struct {
		struct otte_config config;
		char tail[64];
	} grown;
	struct otte_config taken;
	char before[64];

	(void)state;
	assert_int_equal(otte_config_init(&grown.config, sizeof(grown.config) - 1), -EINVAL);
	assert_int_equal(otte_config_init(NULL, sizeof(grown.config)), -EINVAL);

	memset(&grown, 0xa5, sizeof(grown));
	memset(before, 0xa5, sizeof(before));
	fresh(&grown.config);
	assert_memory_equal(grown.tail, before, sizeof(before));
	assert_int_equal(load(&grown.config, "{\"tcp\":{\"lanes\":3}}"), 0);
	assert_memory_equal(grown.tail, before, sizeof(before));

	assert_int_equal(otte_config_init(&grown.config, sizeof(grown)), 0);
	memset(before, 0, sizeof(before));
	assert_memory_equal(grown.tail, before, sizeof(before));
	assert_int_equal(load(&grown.config, "{\"tcp\":{\"lanes\":3}}"), 0);
	assert_int_equal(grown.config.size, sizeof(grown));
	assert_int_equal(otte_config_take(&taken, &grown.config), 0);
	assert_int_equal(taken.size, sizeof(taken));
	assert_int_equal(taken.tcp_lanes, 3);

	grown.tail[63] = 1;
	assert_int_equal(load(&grown.config, "{}"), -E2BIG);
	assert_int_equal(otte_config_check(&grown.config), -E2BIG);
	assert_non_null(strstr(otte_error_text(), "config.size: "));
	assert_int_equal(otte_config_take(&taken, &grown.config), -E2BIG);

	fresh(&grown.config);
	grown.config.size--;
	assert_int_equal(otte_config_check(&grown.config), -EINVAL);
	fresh(&grown.config);
	grown.config.version = OTTE_CONFIG_VERSION + 1;
	assert_int_equal(otte_config_check(&grown.config), -EINVAL);
	assert_string_equal(otte_error_text(), "config.version: 2, this library knows 1 to 1");
	assert_int_equal(load(&grown.config, "{}"), -EINVAL);
	grown.config.version = 0;
	assert_int_equal(otte_config_check(&grown.config), -EINVAL);
}

/* Without a loader: each number just outside its range, each text unterminated. */
static void check_names_every_key_that_was_set_out_of_range(void **state)
{
	struct otte_config_key key;
	struct otte_config c;
	size_t i, named = 0;
	uint64_t unit, wide;
	char *place;

	(void)state;
	for (i = 0; !otte_config_describe(i, &key); i++) {
		fresh(&c);
		place = (char *)&c + key.offset;
		unit = key.type == OTTE_CONFIG_MS ? NSEC_PER_MSEC :
		       key.type == OTTE_CONFIG_US ? NSEC_PER_USEC :
						    1;
		wide = key.max * unit + 1;
		if (key.max == UINT64_MAX) {
			named++;
			continue;
		}
		if (key.type == OTTE_CONFIG_TEXT || key.type == OTTE_CONFIG_OBJECT)
			memset(place, 'x', key.max + 1);
		else if (key.type == OTTE_CONFIG_U64 || key.type == OTTE_CONFIG_MS ||
			 key.type == OTTE_CONFIG_US)
			memcpy(place, &wide, sizeof(wide));
		else
			memcpy(place, &(uint32_t){ (uint32_t)wide }, sizeof(uint32_t));
		assert_int_equal(otte_config_check(&c), -EINVAL);
		assert_int_equal(strncmp(otte_error_text(), key.key, strlen(key.key)), 0);
		assert_int_equal(otte_error_text()[strlen(key.key)], ':');
		named++;
		if (key.type == OTTE_CONFIG_TEXT || key.type == OTTE_CONFIG_OBJECT || !key.min)
			continue;
		fresh(&c);
		memset(place, 0, key.type == OTTE_CONFIG_U32 ? sizeof(uint32_t) : sizeof(wide));
		if (key.or_zero) {
			assert_int_equal(otte_config_check(&c), 0);
			*place = 1;
		}
		assert_int_equal(otte_config_check(&c), -EINVAL);
		assert_int_equal(strncmp(otte_error_text(), key.key, strlen(key.key)), 0);
	}
	assert_int_equal(named, 99);
	fresh(&c);
	memcpy(c.slots_pattern, "low,no", 7);
	assert_int_equal(otte_config_check(&c), -EINVAL);
	assert_string_equal(otte_error_text(), "slots.pattern: slot 2 is none of high, medium, low");
	fresh(&c);
	memcpy(c.slots_domain, "a/b", 4);
	assert_int_equal(otte_config_check(&c), -EINVAL);
	fresh(&c);
	c.control_timeout_ns = 999999;
	assert_int_equal(otte_config_check(&c), -EINVAL);
	assert_string_equal(otte_error_text(), "control.timeout_ms: 999999 ns is out of range, "
					       "allowed are 1 to 3600000");
}

static void the_first_pause_is_not_longer_than_the_longest(void **state)
{
	struct otte_config c;

	(void)state;
	fresh(&c);
	assert_int_equal(load(&c, "{\"control\":{\"reconnect_min_ms\":6000}}"), 0);
	assert_int_equal(otte_config_check(&c), -EINVAL);
	assert_string_equal(otte_error_text(),
			    "control.reconnect_min_ms: 6 s, allowed is at most "
			    "control.reconnect_max_ms, 5 s");
	assert_int_equal(load(&c, "{\"control\":{\"reconnect_max_ms\":6000}}"), 0);
	assert_int_equal(otte_config_check(&c), 0);
}

static void a_buffer_is_left_to_the_system_or_large_enough_to_be_of_use(void **state)
{
	struct otte_config c;

	(void)state;
	fresh(&c);
	assert_int_equal(load(&c, "{\"tcp\":{\"send_buffer_bytes\":1}}"), -EINVAL);
	assert_string_equal(otte_error_text(), "tcp.send_buffer_bytes: 1 is out of range, "
					       "allowed are 0 or 65536 to 1073741824");
	assert_int_equal(load(&c, "{\"tcp\":{\"receive_buffer_bytes\":65535}}"), -EINVAL);
	assert_non_null(strstr(otte_error_text(), "tcp.receive_buffer_bytes: 65535"));
	assert_int_equal(load(&c, "{\"tcp\":{\"receive_buffer_bytes\":\"much\"}}"), -EINVAL);
	assert_non_null(strstr(otte_error_text(), "an integer of 0 or 65536 to 1073741824"));
	c.tcp_send_buffer = 1;
	assert_int_equal(otte_config_check(&c), -EINVAL);
	assert_non_null(strstr(otte_error_text(), "tcp.send_buffer_bytes: 1 is out of range"));
	assert_int_equal(load(&c, "{\"tcp\":{\"send_buffer_bytes\":65536}}"), 0);
	assert_int_equal(otte_config_check(&c), 0);
	assert_int_equal(load(&c, "{\"tcp\":{\"send_buffer_bytes\":0}}"), 0);
	assert_int_equal(otte_config_check(&c), 0);
}

static void take_gives_defaults_for_none_and_keeps_its_target_on_error(void **state)
{
	struct otte_config c, taken, before;

	(void)state;
	fresh(&c);
	assert_int_equal(otte_config_take(&taken, NULL), 0);
	assert_memory_equal(&taken, &c, sizeof(c));
	c.tcp_lanes = 0;
	before = taken;
	assert_int_equal(otte_config_take(&taken, &c), -EINVAL);
	assert_memory_equal(&taken, &before, sizeof(taken));
}

/* The table is what the man page and --help are made from. */
static void keys_variables_and_fields_are_all_different(void **state)
{
	struct otte_config_key a, b;
	char one[80], two[80];
	size_t i, j;

	(void)state;
	for (i = 0; !otte_config_describe(i, &a); i++) {
		otte_config_variable(a.key, one, sizeof(one));
		assert_true(*a.meaning);
		for (j = i + 1; !otte_config_describe(j, &b); j++) {
			otte_config_variable(b.key, two, sizeof(two));
			assert_string_not_equal(a.key, b.key);
			assert_string_not_equal(one, two);
			assert_true(a.offset < b.offset);
		}
	}
	otte_config_variable("tcp.stall_timeout_ms", one, sizeof(one));
	assert_string_equal(one, "OTTE_TCP_STALL_TIMEOUT_MS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_header),
		cmocka_unit_test(every_json_key_reaches_its_field),
		cmocka_unit_test(an_overlay_leaves_other_keys_alone),
		cmocka_unit_test(each_refusal_names_its_key_and_changes_nothing),
		cmocka_unit_test(what_is_not_json_is_refused_with_its_place),
		cmocka_unit_test(text_of_the_longest_length_fits_and_one_more_does_not),
		cmocka_unit_test(an_object_is_kept_as_its_text),
		cmocka_unit_test(direct_gpu_memory_is_not_what_disables_it),
		cmocka_unit_test(queue_pairs_of_gpu_memory_cannot_be_reused),
		cmocka_unit_test(json_of_one_mebibyte_is_read_and_one_byte_more_is_not),
		cmocka_unit_test(a_file_loads_and_its_faults_are_named),
		cmocka_unit_test_setup(variables_set_values_of_every_type, clean_environment),
		cmocka_unit_test_setup(a_bad_variable_is_named_with_its_key_and_changes_nothing,
				       clean_environment),
		cmocka_unit_test_setup(an_unknown_variable_is_warned_about_and_changes_nothing,
				       clean_environment),
		cmocka_unit_test_setup(otte_config_names_a_file_that_is_read_first,
				       clean_environment),
		cmocka_unit_test(a_struct_of_another_size_is_read_within_its_size),
		cmocka_unit_test(check_names_every_key_that_was_set_out_of_range),
		cmocka_unit_test(the_first_pause_is_not_longer_than_the_longest),
		cmocka_unit_test(a_buffer_is_left_to_the_system_or_large_enough_to_be_of_use),
		cmocka_unit_test(take_gives_defaults_for_none_and_keeps_its_target_on_error),
		cmocka_unit_test(keys_variables_and_fields_are_all_different),
	};

	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
