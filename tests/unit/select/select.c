/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the config says of NICs, from its keys to what goes over each of two simulated rails: which
 * devices there are, which of them requests take, in which order of nearness, and how deep.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/util.h"
#include "engine/config.h"
#include "engine/engine.h"
#include "seen.h"
#include "topo/memory_node.h"
#include "topo/topo.h"
#include "transport/rdma/endpoint.h"
#include "transport/rdma/peer.h"
#include "unit/multirail/room.h"

static int memory_is_at = OTTE_TOPO_NO_NODE;

int __wrap_otte_memory_node(const void *address, uint64_t length);

int __wrap_otte_memory_node(const void *address, uint64_t length)
{
	(void)address;
	(void)length;
	return memory_is_at;
}

/* ---- A config of some keys more ---- */

static const char *keys; /* "\"rdma\":{...}" without the outer braces */
static bool by_turns;

static void use_keys(struct otte_config *config)
{
	char text[2048];

	if (by_turns)
		use_rdma(config);
	else
		use_selection(config);
	snprintf(text, sizeof(text), "{\"rdma\":{%s}}", keys);
	OK(otte_config_load_json(config, text, strlen(text)));
}

static void refused(const char *with, int code, const char *words)
{
	struct otte_config config;
	struct otte_engine *engine;

	keys = with;
	OK(otte_config_init(&config, sizeof(config)));
	use_keys(&config);
	assert_int_equal(otte_engine_create(&config, &engine), code);
	assert_string_equal(otte_error_text(), words);
	assert_null(engine);
}

/* What of a READ of so many bytes the second NIC has carried, and the first one the rest. */
static uint64_t second_carries(struct pair *pair, uint64_t length)
{
	uint64_t first = carried(OTTE_READ, 0), second = carried(OTTE_READ, 1);
	struct otte_task task = move(pair, OTTE_READ, OTTE_TRANSPORT_RDMA, length, 3);

	assert_int_equal(task.code, 0);
	assert_arrived(pair, OTTE_READ, length);
	first = carried(OTTE_READ, 0) - first;
	second = carried(OTTE_READ, 1) - second;
	assert_int_equal(first + second, length);
	return second;
}

static int fresh(void **state)
{
	memory_is_at = OTTE_TOPO_NO_NODE;
	by_turns = false;
	return with_two_nics(state);
}

static size_t nics_of(struct otte_engine *engine, struct otte_nic_info rows[RAILS])
{
	size_t count;

	OK(otte_engine_nics(engine, rows, RAILS, &count));
	return count;
}

/* ---- Devices ---- */

static void a_whitelist_leaves_its_devices_alone(void **state)
{
	struct otte_nic_info rows[RAILS];
	struct pair pair;

	(void)state;
	keys = "\"whitelist\":\"mlx5_1\",\"blacklist\":\"mlx5_1,mlx5_0\"";
	pair_open(&pair, SIZE, use_keys);
	assert_int_equal(nics_of(pair.requester, rows), 1);
	assert_string_equal(rows[0].name, "mlx5_1");
	assert_int_equal(rows[0].nic, 0);
	assert_int_equal(second_carries(&pair, 1u << 20), 1u << 20);
	pair_close(&pair);
}

static void a_blacklist_leaves_all_others(void **state)
{
	struct otte_nic_info rows[RAILS];
	struct pair pair;

	(void)state;
	keys = "\"blacklist\":\"mlx5_0\"";
	pair_open(&pair, SIZE, use_keys);
	assert_int_equal(nics_of(pair.requester, rows), 1);
	assert_string_equal(rows[0].name, "mlx5_1");
	assert_int_equal(second_carries(&pair, 1u << 20), 1u << 20);
	pair_close(&pair);
}

static void what_is_to_be_used_is_there(void **state)
{
	(void)state;
	refused("\"whitelist\":\"mlx5_0,mlx5_7\"", -ENODEV,
		"rdma.whitelist: there is no device mlx5_7");
	refused("\"whitelist\":\"mlx5_0\",\"device\":\"mlx5_1\"", -EINVAL,
		"rdma: mlx5_1 is fixed, and excluded by the whitelist");
}

static _Atomic unsigned warnings;

static void count_warnings(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	if (level == OTTE_LOG_WARNING && strstr(line, arg))
		atomic_fetch_add(&warnings, 1);
}

/* One that is misspelt here would be used. */
static void what_is_to_be_left_alone_and_is_not_there_is_warned_about(void **state)
{
	static char words[] = "rdma.blacklist: there is no device mlx5_7";
	struct pair pair;

	(void)state;
	atomic_store(&warnings, 0);
	keys = "\"blacklist\":\"mlx5_7\"";
	OK(otte_log_set(count_warnings, words, OTTE_LOG_WARNING));
	pair_open(&pair, SIZE, use_keys);
	OK(otte_log_set(NULL, NULL, OTTE_LOG_WARNING));
	assert_true(atomic_load(&warnings) >= 2);
	second_carries(&pair, 65536);
	pair_close(&pair);
}

static void with_nothing_left_requests_go_by_tcp(void **state)
{
	struct pair pair;

	(void)state;
	keys = "\"blacklist\":\"mlx5_0,mlx5_1\"";
	pair_open(&pair, SIZE, use_keys);
	assert_int_equal(run_over(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 65536).transport,
			 OTTE_TRANSPORT_TCP);
	pair_close(&pair);
}

/* ---- The mask ---- */

static void lease_goes_by(struct pair *pair, unsigned rail)
{
	struct otte_request request = rdma_request(pair, OTTE_READ, 0, 4096);
	uint64_t before = carried(OTTE_READ, rail);

	request.lease = OTTE_LEASE_RANGE;
	OK(otte_batch_reset(pair->batch));
	OK(otte_batch_submit(pair->batch, &request, 1));
	assert_int_equal(wait_task(pair).code, 0);
	assert_true(pair_stats(pair->requester).rdma_lease_requests >= 1);
	assert_int_equal(carried(OTTE_READ, rail) - before, 4096);
}

static void requests_go_over_the_nics_of_the_mask(void **state)
{
	struct otte_nic_info rows[RAILS];
	struct pair pair;

	(void)state;
	keys = "\"device_mask\":2";
	pair_open(&pair, SIZE, use_keys);
	assert_int_equal(second_carries(&pair, 1u << 20), 1u << 20);
	lease_goes_by(&pair, 1);
	/* The others are there, and keep their ids. */
	assert_int_equal(nics_of(pair.requester, rows), RAILS);
	assert_int_equal(rows[0].slices, 0);
	assert_int_equal(rows[1].nic, 1);
	pair_close(&pair);
}

static void use_all_bits(struct otte_config *config)
{
	use_selection(config);
	config->rdma_device_mask = UINT64_MAX;
}

static void no_bit_and_all_bits_are_all_nics(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_all_bits);
	assert_int_equal(second_carries(&pair, 1u << 20), 1u << 19);
	pair_close(&pair);
	with_two_nics(NULL);
	keys = "\"device_mask\":0";
	pair_open(&pair, SIZE, use_keys);
	assert_int_equal(second_carries(&pair, 1u << 20), 1u << 19);
	pair_close(&pair);
}

static void a_mask_that_leaves_nothing_makes_no_engine(void **state)
{
	(void)state;
	refused("\"device_mask\":12", -ENODEV,
		"rdma.device_mask: 0xc leaves no NIC, there are those of 0x3");
	refused("\"device_mask\":2,\"blacklist\":\"mlx5_1\"", -ENODEV,
		"rdma.device_mask: 0x2 leaves no NIC, there are those of 0x1");
}

/* ---- Nearness ---- */

/*
 * The first NIC is at node 0, the second one, which is so many times as fast, at node 1, or nobody
 * knows.
 */
struct far {
	struct pair pair;
	char roots[2][32]; /* of both hosts */
	bool known;
};

static void open_far(struct far *far, unsigned faster, bool known)
{
	unsigned host, i;

	with_two_nics(NULL);
	far->known = known;
	for (host = 0; host < 2; host++) {
		strcpy(far->roots[host], "/tmp/otte-select-XXXXXX");
		assert_non_null(mkdtemp(far->roots[host]));
		for (i = 0; i < RAILS && known; i++)
			put_at_node(nics[host][i], far->roots[host], (int)i);
	}
	ours[0]->ports[0].port_speed = 100;
	ours[1]->ports[0].port_speed = 100ull * faster;
	pair_open(&far->pair, SIZE, use_keys);
}

static void close_far(struct far *far)
{
	unsigned host, i;

	pair_close(&far->pair);
	for (host = 0; host < 2; host++) {
		for (i = 0; i < RAILS && far->known; i++)
			take_from_node(nics[host][i]);
		OK(rmdir(far->roots[host]));
	}
}

/* Whether it takes the second NIC, of one slice. */
static bool takes_second(const char *with, int memory, unsigned faster)
{
	struct far far;
	uint64_t second;

	keys = with;
	memory_is_at = memory;
	open_far(&far, faster, true);
	second = second_carries(&far.pair, 65536);
	assert_true(!second || second == 65536);
	close_far(&far);
	return second;
}

static void a_preferred_node_is_in_place_of_the_memorys_own(void **state)
{
	(void)state;
	assert_false(takes_second("\"numa_node\":65535", 0, 2));
	assert_true(takes_second("\"numa_node\":1", 0, 1));
	assert_true(takes_second("\"numa_node\":1", OTTE_TOPO_NO_NODE, 1));
	assert_false(takes_second("\"numa_node\":0", 1, 2));
	refused("\"numa_node\":4095", -ENODEV, "rdma.numa_node: there is no node 4095");
}

static void strict_locality_has_no_nic_of_another_node(void **state)
{
	(void)state;
	assert_true(takes_second("\"strict_numa\":false", 0, 100));
	assert_false(takes_second("\"strict_numa\":true", 0, 100));
	assert_true(takes_second("\"strict_numa\":true,\"numa_node\":1", 0, 1));
	/* Of memory of which nobody knows where it is no NIC is known to be elsewhere. */
	assert_true(takes_second("\"strict_numa\":true", OTTE_TOPO_NO_NODE, 100));
}

static void fails_as(struct pair *pair, int code, const char *words)
{
	struct otte_failure failure;
	struct otte_task task = run(pair, OTTE_READ, 0, 65536);

	assert_int_equal(task.code, code);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	OK(otte_batch_failure(pair->batch, &failure));
	if (!strstr(failure.text, words))
		fail_msg("'%s' is not in '%s'", words, failure.text);
}

static void what_no_nic_is_left_for_goes_by_tcp_or_fails_before_payload(void **state)
{
	struct far far;

	(void)state;
	keys = "\"strict_numa\":true";
	memory_is_at = 7;
	open_far(&far, 1, true);
	fails_as(&far.pair, -ENODEV, "no NIC that reaches the peer is for memory at cpu:7");
	assert_int_equal(run_over(&far.pair, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 65536).transport,
			 OTTE_TRANSPORT_TCP);
	assert_int_equal(pair_stats(far.pair.source).rdma_grants, 0);
	close_far(&far);
}

static void a_nic_of_unknown_place_stays(void **state)
{
	struct far far;

	(void)state;
	keys = "\"strict_numa\":true";
	memory_is_at = 7;
	open_far(&far, 2, false);
	assert_int_equal(second_carries(&far.pair, 65536), 65536);
	close_far(&far);
}

static void what_masks_and_strictness_leave_nothing_of_makes_no_engine(void **state)
{
	char root[] = "/tmp/otte-select-XXXXXX";
	unsigned i;

	(void)state;
	assert_non_null(mkdtemp(root));
	for (i = 0; i < RAILS; i++)
		put_at_node(theirs[i], root, (int)i);
	refused("\"strict_numa\":true,\"numa_node\":1,\"device_mask\":1", -ENODEV,
		"rdma.numa_node: for memory at node 1 no NIC is left");
	for (i = 0; i < RAILS; i++)
		take_from_node(theirs[i]);
	OK(rmdir(root));
}

static void a_lease_goes_by_a_near_nic(void **state)
{
	struct far far;

	(void)state;
	keys = "\"numa_node\":1";
	open_far(&far, 1, true);
	lease_goes_by(&far.pair, 1);
	close_far(&far);
}

/* ---- Ranks ---- */

#define MATRIX "\"priority_matrix\":{\"cpu:0\":[[\"mlx5_0\"],[\"mlx5_1\"]],\"cpu:1\":[[],[]]}"

/* Whatever their nodes are; and the second rank weighs five times as much. */
static void a_matrix_ranks_nics_by_place(void **state)
{
	(void)state;
	assert_true(takes_second("\"priority_matrix\":{\"cpu:0\":[[\"mlx5_1\"],[\"mlx5_0\"]]}", 0, 1));
	assert_false(takes_second(MATRIX, 0, 4));
	assert_true(takes_second(MATRIX, 0, 6));
	/* A place without a row: as the row `*`, of all that are named. */
	assert_false(takes_second(MATRIX, 5, 4));
	assert_true(takes_second("\"priority_matrix\":{\"cpu:0\":[[\"mlx5_0\"],[]],\"*\":[[\"mlx5_1\"],[]]}",
				 5, 1));
	/* NICs that a row does not name are not for it, and a mask only narrows that. */
	assert_false(takes_second("\"priority_matrix\":{\"cpu:0\":[[\"mlx5_0\"],[]]}", 0, 100));
	assert_true(takes_second(MATRIX ",\"device_mask\":2", 0, 1));
}

static void a_row_of_no_nics_disables_its_place(void **state)
{
	struct far far;

	(void)state;
	keys = MATRIX;
	memory_is_at = 1;
	open_far(&far, 1, true);
	fails_as(&far.pair, -ENODEV, "no NIC that reaches the peer is for memory at cpu:1");
	close_far(&far);
}

static void a_fault_in_the_matrix_makes_no_engine(void **state)
{
	(void)state;
	refused("\"priority_matrix\":{\"cpu:0\":[[\"mlx5_9\"],[]]}", -EINVAL,
		"rdma.priority_matrix: cpu:0[0][0]: 'mlx5_9' is none of the NICs that were found");
	refused("\"blacklist\":\"mlx5_1\"," MATRIX, -EINVAL,
		"rdma.priority_matrix: cpu:0[1][0]: 'mlx5_1' is none of the NICs that were found");
	refused("\"priority_matrix\":{\"gpu:0\":[[],[]]}", -EINVAL,
		"rdma.priority_matrix: 'gpu:0' is no location, allowed are cpu:N, cuda:N and *");
}

static void write_file(const char *path, const char *text, size_t spaces)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	while (spaces--)
		fputc(' ', file);
	fputs(text, file);
	OK(fclose(file));
}

/* Ranks 0, 1 and 2 weigh 1, 5 and 10. */
static void a_file_of_nics_and_mems_has_three_ranks(void **state)
{
	static const char *const middle =
		"{\"nics\":[{\"name\":\"mlx5_1\"},{\"name\":\"mlx5_0\"}],\"mems\":[{\"name\":\"cpu:0\","
		"\"type\":0,\"device_list\":{\"rank0\":[1],\"rank1\":[0],\"rank2\":[]}}]}";
	static const char *const last =
		"{\"nics\":[{\"name\":\"mlx5_1\"},{\"name\":\"mlx5_0\"}],\"mems\":[{\"name\":\"cpu:0\","
		"\"type\":0,\"device_list\":{\"rank0\":[1],\"rank1\":[],\"rank2\":[0]}}]}";
	char path[] = "/tmp/otte-select-file-XXXXXX", with[128], words[256];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	snprintf(with, sizeof(with), "\"topology_file\":\"%s\"", path);
	write_file(path, middle, 0);
	assert_false(takes_second(with, 0, 4));
	assert_true(takes_second(with, 0, 6));
	write_file(path, last, 0);
	assert_false(takes_second(with, 0, 6));
	assert_true(takes_second(with, 0, 11));
	write_file(path, "{\"nics\":[],\"mems\":1}", 0);
	snprintf(words, sizeof(words), "rdma.topology_file: %s: mems: a list is wanted, not an integer",
		 path);
	refused(with, -EINVAL, words);
	write_file(path, "{}", 1u << 20);
	snprintf(words, sizeof(words), "rdma.topology_file: %s: longer than 1048576 bytes, the most",
		 path);
	refused(with, -E2BIG, words);
	OK(unlink(path));
	snprintf(words, sizeof(words), "rdma.topology_file: %s: No such file or directory", path);
	refused(with, -ENOENT, words);
	/* The matrix goes before it. */
	snprintf(with, sizeof(with), "\"topology_file\":\"%s\"," MATRIX, path);
	assert_false(takes_second(with, 0, 4));
}

/* ---- Depth and signals ---- */

static const struct otte_rdma_qp *first_qp(struct pair *pair)
{
	struct otte_rdma *rdma = rdma_of(pair->requester);

	return rdma->workers[0].peers->endpoints->pairs[0].qp;
}

static void queue_pairs_are_as_deep_as_the_config_says(void **state)
{
	struct pair pair;

	(void)state;
	keys = "\"rd_atomic\":3,\"dest_rd_atomic\":5,\"whitelist\":\"mlx5_0\"";
	pair_open(&pair, SIZE, use_keys);
	second_carries(&pair, 4096);
	assert_int_equal(first_qp(&pair)->max_rd_atomic, 3);
	assert_int_equal(first_qp(&pair)->end.max_dest_rd_atomic, 5);
	pair_close(&pair);
	with_two_nics(NULL);
	keys = "\"rd_atomic\":5,\"dest_rd_atomic\":3,\"whitelist\":\"mlx5_0\"";
	pair_open(&pair, SIZE, use_keys);
	second_carries(&pair, 4096);
	assert_int_equal(first_qp(&pair)->max_rd_atomic, 3);
	pair_close(&pair);
}

static void write_goes(struct pair *pair, uint64_t offset)
{
	struct otte_task task = run(pair, OTTE_WRITE, offset, 65536);

	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
}

static void no_read_goes_at_a_depth_of_zero(void **state)
{
	static const struct {
		const char *keys, *words;
	} cases[] = {
		{ "\"rd_atomic\":0", "rdma.rd_atomic is 0: no READ goes by RDMA" },
		{ "\"dest_rd_atomic\":0", "not with this" },
	};
	struct pair pair;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		with_two_nics(NULL);
		keys = cases[i].keys;
		pair_open(&pair, SIZE, use_keys);
		write_goes(&pair, 1u << 18);
		fails_as(&pair, -EOPNOTSUPP, cases[i].words);
		assert_int_equal(
			run_over(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 65536).transport,
			OTTE_TRANSPORT_TCP);
		write_goes(&pair, 1u << 19); /* what TCP read may be in use yet */
		assert_int_equal(pair_stats(pair.requester).rdma_rail_errors, 0);
		pair_close(&pair);
	}
}

/* The payload and what ends it: of two WRs one tells, or both. */
static void of_so_many_wrs_one_tells(void **state)
{
	static const char *const with[] = { "\"signal_interval\":1", "\"signal_interval\":4096" };
	struct otte_stats before, after;
	struct pair pair;
	unsigned i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(with); i++) {
		with_two_nics(NULL);
		keys = with[i];
		pair_open(&pair, SIZE, use_keys);
		write_goes(&pair, 0);
		before = pair_stats(pair.requester);
		write_goes(&pair, 0);
		after = pair_stats(pair.requester);
		assert_int_equal(after.rdma_wrs - before.rdma_wrs, 2);
		assert_int_equal(after.rdma_cqes - before.rdma_cqes, i ? 1 : 2);
		pair_close(&pair);
	}
}

int main(void)
{
#define IN_A_ROOM(test) cmocka_unit_test_setup_teardown(test, fresh, nothing_is_left)
	const struct CMUnitTest tests[] = {
		IN_A_ROOM(a_whitelist_leaves_its_devices_alone),
		IN_A_ROOM(a_blacklist_leaves_all_others),
		IN_A_ROOM(what_is_to_be_used_is_there),
		IN_A_ROOM(what_is_to_be_left_alone_and_is_not_there_is_warned_about),
		IN_A_ROOM(with_nothing_left_requests_go_by_tcp),
		IN_A_ROOM(requests_go_over_the_nics_of_the_mask),
		IN_A_ROOM(no_bit_and_all_bits_are_all_nics),
		IN_A_ROOM(a_mask_that_leaves_nothing_makes_no_engine),
		IN_A_ROOM(a_preferred_node_is_in_place_of_the_memorys_own),
		IN_A_ROOM(strict_locality_has_no_nic_of_another_node),
		IN_A_ROOM(what_no_nic_is_left_for_goes_by_tcp_or_fails_before_payload),
		IN_A_ROOM(a_nic_of_unknown_place_stays),
		IN_A_ROOM(what_masks_and_strictness_leave_nothing_of_makes_no_engine),
		IN_A_ROOM(a_lease_goes_by_a_near_nic),
		IN_A_ROOM(a_matrix_ranks_nics_by_place),
		IN_A_ROOM(a_row_of_no_nics_disables_its_place),
		IN_A_ROOM(a_fault_in_the_matrix_makes_no_engine),
		IN_A_ROOM(a_file_of_nics_and_mems_has_three_ranks),
		IN_A_ROOM(queue_pairs_are_as_deep_as_the_config_says),
		IN_A_ROOM(no_read_goes_at_a_depth_of_zero),
		IN_A_ROOM(of_so_many_wrs_one_tells),
	};

	return cmocka_run_group_tests_name("select", tests, NULL, NULL);
}
