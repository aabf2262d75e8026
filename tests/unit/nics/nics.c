/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is told of each NIC, and by what requests choose between them: over two rails, with all that
 * is between a request and a NIC.
 */
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/util.h"
#include "engine/engine.h"
#include "engine/stats.h"
#include "unit/multirail/room.h"
#include "seen.h"

#define LINK 12500000000ull /* bytes per second of a simulated port */

static int read_one(struct pair *pair, uint64_t length)
{
	return run(pair, OTTE_READ, 0, length).code;
}

/* ---- What is told ---- */

static void each_nic_has_a_row(void **state)
{
	struct otte_nic_info rows[RAILS];
	struct pair pair;
	size_t count = 77;
	unsigned i;

	(void)state;
	ours[0]->ports[0].attr.state = IBV_PORT_DOWN;
	pair_open(&pair, SIZE, use_selection);
	OK(otte_engine_nics(pair.requester, NULL, 0, &count));
	assert_int_equal(count, RAILS);
	memset(rows, 0x5a, sizeof(rows));
	OK(otte_engine_nics(pair.requester, rows, 1, &count));
	assert_int_equal(count, RAILS);
	assert_int_equal(rows[0].nic, 0);
	assert_int_equal(rows[1].nic, 0x5a5a5a5a);
	read_nics(&pair, rows);
	for (i = 0; i < RAILS; i++) {
		assert_int_equal(rows[i].nic, i);
		assert_int_equal(rows[i].port, 1);
		assert_int_equal(rows[i].active, i);
		assert_int_equal(rows[i].measured, 0);
		assert_int_equal(rows[i].link_rate, LINK);
		assert_int_equal(rows[i].selection_rate, LINK);
		assert_int_equal(rows[i].transmit_rate, LINK);
		assert_int_equal(rows[i].posted_bytes, 0);
		assert_int_equal(rows[i].slices, 0);
	}
	assert_string_equal(rows[0].name, "mlx5_0");
	assert_string_equal(rows[1].name, "mlx5_1");
	pair_close(&pair);
}

static void without_rdma_there_is_no_row(void **state)
{
	struct otte_engine *engine;
	size_t count = 77;

	(void)state;
	OK(otte_engine_create(NULL, &engine));
	OK(otte_engine_nics(engine, NULL, 0, &count));
	assert_int_equal(count, 0);
	OK(otte_engine_destroy(engine));
}

/* In turn: four slices of 128 KiB each. */
static void rows_say_what_has_moved(void **state)
{
	struct otte_nic_info rows[RAILS];
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(read_one(&pair, 1u << 20), 0);
	read_nics(&pair, rows);
	for (i = 0; i < RAILS; i++) {
		assert_int_equal(rows[i].slices, 4);
		assert_int_equal(rows[i].assigned_bytes, 1u << 19);
		assert_int_equal(rows[i].posted_bytes, 1u << 19);
		assert_int_equal(rows[i].completed_bytes, 1u << 19);
		assert_int_equal(rows[i].under_way_bytes, 0);
		assert_int_equal(rows[i].charged_bytes, 0);
	}
	pair_close(&pair);
}

static void use_leases(struct otte_config *config)
{
	use_selection(config);
	config->rdma_lease = 1;
}

/* Which are on one rail, and are no slices. */
static void rows_say_what_leases_have_moved(void **state)
{
	struct otte_nic_info rows[RAILS];
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_leases);
	for (i = 0; i < 3; i++)
		assert_int_equal(read_one(&pair, 65536), 0);
	assert_int_equal(pair_stats(pair.requester).rdma_lease_requests, 3);
	read_nics(&pair, rows);
	assert_int_equal(rows[0].posted_bytes + rows[1].posted_bytes, 3 * 65536);
	assert_int_equal(rows[0].completed_bytes + rows[1].completed_bytes, 3 * 65536);
	assert_int_equal(rows[0].under_way_bytes + rows[1].under_way_bytes, 0);
	assert_int_equal(rows[0].slices + rows[1].slices, 0);
	pair_close(&pair);
}

/* Twice the link's rate for 20 ms, against an old value of nine times the weight; then nothing. */
static void rows_say_what_was_measured(void **state)
{
	struct otte_nic_info rows[RAILS];
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_selection);
	measure(&pair, 1, LINK / 25, 20 * NSEC_PER_MSEC, 1);
	read_nics(&pair, rows);
	assert_int_equal(rows[0].measured, 0);
	assert_int_equal(rows[1].measured, 1);
	assert_in_range(rows[1].transmit_rate, LINK / 10 * 11 - 2, LINK / 10 * 11 + 2);
	measure(&pair, 1, 1, NSEC_PER_SEC, 300);
	read_nics(&pair, rows);
	assert_in_range(rows[1].transmit_rate, LINK / 10, LINK / 10 + 2);
	assert_in_range(rows[1].selection_rate, LINK / 10, LINK / 10 + 2);
	assert_int_equal(rows[1].link_rate, LINK);
	assert_int_equal(rows[0].selection_rate, LINK);
	pair_close(&pair);
}

static void use_pauses(struct otte_config *config)
{
	use_rdma(config);
	config->rdma_rail_topology = OTTE_RAIL_DIRECT;
	config->rdma_rail_error_threshold = 1;
	config->rdma_rail_cooldown_ns = 3600 * NSEC_PER_SEC;
	config->rdma_rail_probe_interval_ns = 3600 * NSEC_PER_SEC;
	config->reconnect_min_ns = config->reconnect_max_ns = 3600 * NSEC_PER_SEC;
}

/* What moves over from it counts at both. */
static void rows_say_which_rails_have_failed(void **state)
{
	struct otte_nic_info rows[RAILS];
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_pauses);
	assert_int_equal(read_one(&pair, 1u << 20), 0);
	sim_retry_set(SIM_BY_CLOCK);
	sim_progress_set(SIM_THREAD, 0);
	sim_link_set(ours[1], theirs[1], false);
	assert_int_equal(read_one(&pair, 1u << 20), 0);
	read_nics(&pair, rows);
	assert_int_equal(rows[0].rail_errors + rows[0].rail_pauses + rows[0].rails_paused, 0);
	assert_int_equal(rows[1].rail_errors, 1);
	assert_int_equal(rows[1].rail_pauses, 1);
	assert_int_equal(rows[1].rails_paused, 1);
	assert_int_equal(rows[0].slices, 4 + 4 + 4);
	assert_int_equal(rows[1].slices, 4 + 4);
	assert_int_equal(rows[1].completed_bytes, 1u << 19);
	pair_close(&pair);
}

static void an_engine_says_its_nics_in_json(void **state)
{
	json_t *object, *rows, *nic;
	struct otte_stats stats;
	struct pair pair;
	char *text;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(read_one(&pair, 1u << 20), 0);
	stats = pair_stats(pair.requester);
	text = otte_stats_json(pair.requester, &stats);
	object = json_loads(text, 0, NULL);
	rows = json_object_get(object, "rdma_nics");
	assert_int_equal(json_array_size(rows), RAILS);
	nic = json_array_get(rows, 1);
	assert_int_equal(json_integer_value(json_object_get(nic, "nic")), 1);
	assert_string_equal(json_string_value(json_object_get(nic, "name")), "mlx5_1");
	assert_int_equal(json_integer_value(json_object_get(nic, "port")), 1);
	assert_true(json_is_true(json_object_get(nic, "active")));
	assert_int_equal(json_integer_value(json_object_get(nic, "link_rate")), LINK);
	assert_int_equal(json_integer_value(json_object_get(nic, "completed_bytes")), 1u << 19);
	assert_int_equal(json_integer_value(json_object_get(nic, "slices")), 4);
	json_decref(object);
	free(text);
	pair_close(&pair);
}

/* ---- By what they choose ---- */

/* Eight slices, of which the slow one gets none, but in each hundredth request. */
static void each_hundredth_request_goes_everywhere(void **state)
{
	uint64_t before;
	struct pair pair;
	unsigned i;

	(void)state;
	ours[0]->ports[0].port_speed = 1000;
	ours[1]->ports[0].port_speed = 1;
	pair_open(&pair, SIZE, use_selection);
	for (i = 1; i <= 200; i++) {
		before = carried(OTTE_READ, 1);
		/* One of a single slice is none of the hundred. */
		assert_int_equal(read_one(&pair, 65536), 0);
		assert_int_equal(carried(OTTE_READ, 1), before);
		assert_int_equal(read_one(&pair, 512u << 10), 0);
		assert_int_equal(carried(OTTE_READ, 1) - before, i % 100 ? 0 : 256u << 10);
	}
	pair_close(&pair);
}

/* ---- What is near ---- */

static int memory_is_at;

int __wrap_otte_memory_node(const void *address, uint64_t length);

int __wrap_otte_memory_node(const void *address, uint64_t length)
{
	(void)address;
	(void)length;
	return memory_is_at;
}

/*
 * The first request of two engines whose first NIC is near, and whose second one is so fast; what
 * of it the second one carries. Nothing was measured before.
 */
static uint64_t far_one_carries(uint64_t speed, int memory, uint64_t length,
				void (*adjust)(struct otte_config *config))
{
	char root[] = "/tmp/otte-nics-XXXXXX";
	struct pair pair;
	uint64_t bytes;
	unsigned i;

	with_two_networks(NULL);
	assert_non_null(mkdtemp(root));
	ours[0]->ports[0].port_speed = 100;
	ours[1]->ports[0].port_speed = speed;
	for (i = 0; i < RAILS; i++)
		put_at_node(ours[i], root, (int)i);
	memory_is_at = memory;
	pair_open(&pair, SIZE, adjust);
	assert_int_equal(read_one(&pair, length), 0);
	bytes = carried(OTTE_READ, 1);
	assert_int_equal(carried(OTTE_READ, 0) + bytes, length);
	pair_close(&pair);
	memory_is_at = OTTE_TOPO_NO_NODE;
	for (i = 0; i < RAILS; i++)
		take_from_node(ours[i]);
	OK(rmdir(root));
	return bytes;
}

/* Others are of the last rank, which weighs ten times as much. */
static void a_near_nic_goes_before_one_that_is_not_ten_times_faster(void **state)
{
	(void)state;
	assert_int_equal(far_one_carries(100, 0, 65536, use_selection), 0);
	assert_int_equal(far_one_carries(990, 0, 65536, use_selection), 0);
	assert_int_equal(far_one_carries(1010, 0, 65536, use_selection), 65536);
	/* Of another node nothing is near, as of memory of which nobody knows where it is. */
	assert_int_equal(far_one_carries(110, 7, 65536, use_selection), 65536);
	assert_int_equal(far_one_carries(110, OTTE_TOPO_NO_NODE, 65536, use_selection), 65536);
	assert_int_equal(far_one_carries(90, 1, 65536, use_selection), 65536);
}

/* 8 slices: 7.3 and 0.7; 6.4 and 1.6; 2.3 and 5.7. What is left is for the best. */
static void slices_are_given_out_by_what_is_near(void **state)
{
	(void)state;
	assert_int_equal(far_one_carries(100, 0, 1u << 20, use_selection), 0);
	assert_int_equal(far_one_carries(250, 0, 1u << 20, use_selection), 1u << 17);
	assert_int_equal(far_one_carries(250, OTTE_TOPO_NO_NODE, 1u << 20, use_selection),
			 6u << 17);
}

static void in_turn_only_near_ones_have_one(void **state)
{
	(void)state;
	assert_int_equal(far_one_carries(1000, 0, 1u << 20, use_rdma), 0);
	assert_int_equal(far_one_carries(1000, OTTE_TOPO_NO_NODE, 1u << 20, use_rdma), 1u << 19);
}

/* ---- Other processes ---- */

static uint64_t slot_page[512], load_page[512], share_page[512];
/* Where bytes by NIC begin in the last two. */
#define NIC_BYTES 8

static unsigned named;
static char names[RAILS][OTTE_NAME_MAX];

static int give_pages(struct otte_ledger_client *client, const char *name,
		      struct otte_ledger_domain *domain)
{
	(void)client;
	(void)name;
	domain->slot = (const struct otte_slot_page *)slot_page;
	domain->load = (const struct otte_load_page *)load_page;
	domain->share = (struct otte_share_page *)share_page;
	return 0;
}

/* The first is counted third, and the second fourth. */
static int count_nic(struct otte_ledger_client *client, const char *nic, uint32_t *index)
{
	(void)client;
	if (named == RAILS)
		return otte_fail(-ENOSPC, "NIC %s", nic);
	snprintf(names[named], sizeof(names[named]), "%s", nic);
	*index = 2 + named++;
	return 0;
}

struct joined {
	struct pair pair;
	struct otte_ledger_ops ops;
	const struct otte_ledger_ops *before;
};

/* The requester's gate is opened as if its ledger were one that has domains. */
static void join(struct joined *joined, void (*adjust)(struct otte_config *config))
{
	struct otte_engine *engine;

	memset(load_page, 0, sizeof(load_page));
	memset(share_page, 0, sizeof(share_page));
	named = 0;
	pair_open(&joined->pair, SIZE, adjust);
	engine = joined->pair.requester;
	joined->before = engine->ledger->ops;
	joined->ops = *engine->ledger->ops;
	joined->ops.domain_join = give_pages;
	joined->ops.domain_nic = count_nic;
	engine->ledger->ops = &joined->ops;
	strcpy(engine->config.slots_domain, "test");
	OK(otte_gate_open(engine));
}

static void part(struct joined *joined)
{
	joined->pair.requester->ledger->ops = joined->before;
	pair_close(&joined->pair);
}

static void others_have(unsigned rail, uint64_t bytes)
{
	__atomic_store_n(&load_page[NIC_BYTES + 2 + rail], bytes, __ATOMIC_RELAXED);
}

static uint64_t we_have(unsigned rail)
{
	return __atomic_load_n(&share_page[NIC_BYTES + 2 + rail], __ATOMIC_RELAXED);
}

static void what_others_have_under_way_counts(void **state)
{
	struct otte_nic_info rows[RAILS];
	struct joined joined;
	uint64_t before;
	unsigned busy, i;

	(void)state;
	join(&joined, use_selection);
	assert_int_equal(named, RAILS);
	assert_string_equal(names[0], "mlx5_0:1");
	assert_string_equal(names[1], "mlx5_1:1");
	for (i = 0; i < 4; i++) {
		busy = i % RAILS;
		others_have(busy, 1ull << 36);
		others_have(!busy, 0);
		before = carried(OTTE_READ, busy);
		assert_int_equal(read_one(&joined.pair, 65536), 0);
		assert_int_equal(read_one(&joined.pair, 1u << 20), 0);
		assert_int_equal(carried(OTTE_READ, busy), before);
		read_nics(&joined.pair, rows);
		assert_int_equal(rows[busy].others_bytes, 1ull << 36);
		assert_int_equal(rows[!busy].others_bytes, 0);
		assert_int_equal(we_have(0) + we_have(1), 0);
	}
	part(&joined);
}

static void use_long_retries(struct otte_config *config)
{
	use_pauses(config);
	config->rdma_smart_selection = 1;
	config->rdma_qp_timeout = 21; /* 8.6 s */
	config->rdma_qp_retries = 7;
}

struct expected {
	struct joined *joined;
	uint64_t bytes;
};

static bool is_under_way(void *arg)
{
	struct expected *expected = arg;
	struct otte_nic_info rows[RAILS];

	read_nics(&expected->joined->pair, rows);
	return rows[1].under_way_bytes == expected->bytes && we_have(1) == expected->bytes;
}

/* The only rail is silent, so what was posted stays under way until its port goes. */
static void others_are_told_what_is_under_way(struct joined *joined, uint8_t op)
{
	struct expected expected = { joined, 1u << 20 };
	struct otte_nic_info rows[RAILS];
	struct otte_request request;

	assert_int_equal(run(&joined->pair, op, 0, 1u << 20).code, 0);
	assert_int_equal(we_have(1), 0);
	sim_retry_set(SIM_BY_CLOCK);
	sim_progress_set(SIM_THREAD, 0);
	sim_link_set(ours[1], theirs[1], false);
	request = rdma_request(&joined->pair, op, 0, 1u << 20);
	OK(otte_batch_reset(joined->pair.batch));
	OK(otte_batch_submit(joined->pair.batch, &request, 1));
	assert_true(comes(is_under_way, &expected));
	read_nics(&joined->pair, rows);
	assert_int_equal(rows[1].posted_bytes, 2u << 20);
	assert_int_equal(rows[1].completed_bytes, 1u << 20);
	sim_port_set(ours[1], 1, IBV_PORT_DOWN);
	OK(otte_batch_wait(joined->pair.batch, 30 * SECOND));
	expected.bytes = 0;
	assert_true(comes(is_under_way, &expected));
	read_nics(&joined->pair, rows);
	assert_int_equal(rows[1].charged_bytes, 0);
	assert_int_equal(rows[1].completed_bytes, 1u << 20);
	assert_int_equal(we_have(0), 0);
}

static void others_are_told_of_slices(void **state)
{
	struct joined joined;

	(void)state;
	ours[0]->ports[0].attr.state = IBV_PORT_DOWN;
	join(&joined, use_long_retries);
	others_are_told_what_is_under_way(&joined, OTTE_WRITE);
	part(&joined);
}

static void use_long_leases(struct otte_config *config)
{
	use_long_retries(config);
	config->rdma_lease = 1;
}

static void others_are_told_of_leases(void **state)
{
	struct joined joined;

	(void)state;
	ours[0]->ports[0].attr.state = IBV_PORT_DOWN;
	join(&joined, use_long_leases);
	others_are_told_what_is_under_way(&joined, OTTE_READ);
	part(&joined);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, with_two_networks, nothing_is_left)
	const struct CMUnitTest tests[] = {
		TEST(each_nic_has_a_row),
		TEST(without_rdma_there_is_no_row),
		TEST(rows_say_what_has_moved),
		TEST(rows_say_what_leases_have_moved),
		TEST(rows_say_what_was_measured),
		TEST(rows_say_which_rails_have_failed),
		TEST(an_engine_says_its_nics_in_json),
		TEST(each_hundredth_request_goes_everywhere),
		TEST(a_near_nic_goes_before_one_that_is_not_ten_times_faster),
		TEST(slices_are_given_out_by_what_is_near),
		TEST(in_turn_only_near_ones_have_one),
		TEST(what_others_have_under_way_counts),
		TEST(others_are_told_of_slices),
		TEST(others_are_told_of_leases),
	};

	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
