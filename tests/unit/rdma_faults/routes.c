/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ports that go down, come back, or are others; and what devices tell besides. */
#include "base/clock.h"
#include "transport/rdma/cq_lane.h"
#include "transport/rdma/routes.h"
#include "room.h"

static void set_port(struct sim_device *device, enum ibv_port_state state)
{
	sim_port_set(device, 1, state);
}

static bool has_heard(void *arg)
{
	return sim_counts(arg).events == 0;
}

/* Whoever wants no transport in particular goes on; MRs stay. Back, it is used again at once. */
static void go_and_come_back(unsigned host)
{
	struct otte_task task;
	struct pair pair;
	uint64_t mrs;

	pair_open(&pair, SIZE, use_long_waits);
	pair_fill(pair.remote_bytes, SIZE, 4);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	mrs = pair_stats(pair.source).rdma_mrs + pair_stats(pair.requester).rdma_mrs;
	set_port(nics[host][0], IBV_PORT_DOWN);
	assert_true(comes(is_unconnected, &pair));
	assert_int_equal(read_by_rdma(&pair, 0), -ENETUNREACH);
	task = run_over(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 4096, 4096);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, 8192);
	assert_int_equal(pair_stats(pair.source).rdma_mrs + pair_stats(pair.requester).rdma_mrs,
			 mrs);
	set_port(nics[host][0], IBV_PORT_ACTIVE);
	assert_true(comes(works_by_rdma, &pair));
	task = run_over(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 8192, 4096);
	assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
	assert_int_equal(pair_stats(pair.source).bad_frames + pair_stats(pair.requester).bad_frames,
			 0);
	assert_int_equal(pair_stats(pair.source).retained + pair_stats(pair.requester).retained, 0);
	/* Down and up, told once each and acknowledged once each. */
	assert_true(comes(has_heard, nics[host][0]));
	assert_int_equal(sim_calls(SIM_ACK_ASYNC_EVENT), 2);
	pair_close(&pair);
}

static void a_port_of_the_requesters_goes_and_comes_back(void **state)
{
	(void)state;
	go_and_come_back(REQUESTER);
}

static void a_port_of_the_sources_goes_and_comes_back(void **state)
{
	(void)state;
	go_and_come_back(SOURCE);
}

/* And nothing is on the source's other one. A NIC of the requester's that has lost its like one may try this one. */
static bool is_on(const struct pair *pair, unsigned source_nic, unsigned requester_nic)
{
	(void)pair;
	return sim_counts(nics[SOURCE][source_nic]).qps >= 1 &&
	       sim_counts(nics[REQUESTER][requester_nic]).qps >= 1 &&
	       sim_counts(nics[SOURCE][!source_nic]).qps == 0;
}

static bool is_quiet(void *arg)
{
	struct pair *pair = arg;

	return is_unconnected(pair) && !sim_counts(NULL).events;
}

/* Nothing is on this NIC any more, and either host knows of what is on the others. */
static bool is_off(void *arg)
{
	return !sim_counts(arg).qps && !sim_counts(NULL).events &&
	       sim_counts(nics[SOURCE][0]).qps + sim_counts(nics[SOURCE][1]).qps ==
		       sim_counts(nics[REQUESTER][0]).qps + sim_counts(nics[REQUESTER][1]).qps;
}

/* A request that finds the port down is asked on the other one, without a failure in between. */
static void the_other_nic_is_used_at_once(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_long_waits);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	assert_true(is_on(&pair, 0, 0));
	set_port(nics[SOURCE][0], IBV_PORT_DOWN);
	assert_true(comes(is_off, nics[SOURCE][0]));
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	assert_true(is_on(&pair, 1, 1));
	set_port(nics[SOURCE][0], IBV_PORT_ACTIVE);
	assert_true(comes(has_heard, nics[SOURCE][0]));
	usleep(100000);
	set_port(nics[SOURCE][1], IBV_PORT_DOWN);
	assert_true(comes(is_off, nics[SOURCE][1]));
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	assert_true(is_on(&pair, 0, 0));
	set_port(nics[REQUESTER][0], IBV_PORT_DOWN);
	assert_true(comes(is_off, nics[REQUESTER][0]));
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	assert_true(is_on(&pair, 0, 1));
	pair_close(&pair);
}

/* What is under way is retired first; a READ goes on elsewhere, of a WRITE nobody knows. */
static void what_is_under_way_ends_with_its_port(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	pair_fill(pair.remote_bytes, SIZE, 6);
	sim_retry_set(SIM_BY_CLOCK);
	sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], false);
	submit_over(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 4096);
	assert_true(comes(is_granted, &pair));
	usleep(20000);
	assert_true(is_taken(pair.local_mem, 0, 4096));
	set_port(nics[REQUESTER][0], IBV_PORT_DOWN);
	task = wait_task(&pair);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, 4096);
	assert_true(comes(is_unconnected, &pair));
	sim_link_set(nics[SOURCE][0], nics[REQUESTER][0], true);
	set_port(nics[REQUESTER][0], IBV_PORT_ACTIVE);
	assert_true(comes(works_by_rdma, &pair));
	pair_close(&pair);
}

/*
 * The best GID of then; its peer is told, and reaches it there. At once, although no event comes
 * after the last of the old ones is gone.
 */
static void change_address(unsigned host)
{
	static const char *const addresses[] = { "192.0.2.77", "192.0.2.78" };
	uint64_t since_ns, spent_ns = 0;
	const union ibv_gid *gid;
	struct pair pair;
	unsigned i, index;

	pair_open(&pair, SIZE, use_long_waits);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	for (i = 0; i < 6; i++) {
		index = 2 - i % 2;
		gid = &nics[host][0]->ports[0].gids[index].gid;
		sim_gid_set(nics[host][0], 1, 3 - index, NULL, 0);
		sim_gid_set(nics[host][0], 1, index, addresses[i % 2], IBV_GID_TYPE_ROCE_V2);
		since_ns = otte_now_ns();
		sim_raise_port(nics[host][0], 1, IBV_EVENT_GID_CHANGE);
		assert_true(comes(is_unconnected, &pair));
		assert_true(comes(works_by_rdma, &pair));
		spent_ns += otte_now_ns() - since_ns;
		assert_int_equal(joined(host)->end.address.gid.index, index);
		assert_memory_equal(joined(host)->end.address.gid.bytes, gid->raw, 16);
		assert_memory_equal(joined_to(!host), gid->raw, 16);
	}
	assert_true(spent_ns < SECOND);
	pair_close(&pair);
}

static void another_address_of_the_sources_is_found_and_said(void **state)
{
	(void)state;
	change_address(SOURCE);
}

static void another_address_of_the_requesters_is_found_and_said(void **state)
{
	(void)state;
	change_address(REQUESTER);
}

static void use_fixed_gid(struct otte_config *config)
{
	use_long_waits(config);
	config->rdma_gid_index = 1;
}

static unsigned long queries;

static bool was_asked(void *arg)
{
	(void)arg;
	return sim_calls(SIM_QUERY_PORT) > queries + 2;
}

/* What is fixed has no substitute: it is back when the address is. */
static void an_address_that_is_fixed_is_waited_for(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_fixed_gid);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	sim_gid_set(nics[SOURCE][0], 1, 1, NULL, 0);
	sim_raise_port(nics[SOURCE][0], 1, IBV_EVENT_GID_CHANGE);
	assert_true(comes(is_unconnected, &pair));
	queries = sim_calls(SIM_QUERY_PORT);
	assert_true(comes(was_asked, NULL));
	assert_int_equal(read_by_rdma(&pair, 0), -ENETUNREACH);
	sim_gid_set(nics[SOURCE][0], 1, 1, "192.0.2.78", IBV_GID_TYPE_ROCE_V2);
	assert_true(comes(works_by_rdma, &pair));
	assert_int_equal(joined(SOURCE)->end.address.gid.index, 1);
	pair_close(&pair);
}

/* Registered while no path goes out, memory is reached as soon as one does. */
static void a_port_that_is_down_at_first_is_used_once_it_is_up(void **state)
{
	struct pair pair;

	(void)state;
	nics[SOURCE][0]->ports[0].attr.state = IBV_PORT_DOWN;
	nics[REQUESTER][0]->ports[0].attr.state = IBV_PORT_DOWN;
	pair_open(&pair, SIZE, use_long_waits);
	assert_int_equal(pair_stats(pair.source).rdma_mrs, 2); /* for it, and for its peers */
	assert_int_equal(pair_stats(pair.requester).rdma_mrs, 1);
	assert_int_equal(read_by_rdma(&pair, 0), -ENETUNREACH);
	set_port(nics[SOURCE][0], IBV_PORT_ACTIVE);
	set_port(nics[REQUESTER][0], IBV_PORT_ACTIVE);
	assert_true(comes(works_by_rdma, &pair));
	assert_int_equal(pair_stats(pair.source).rdma_mrs, 2);
	assert_int_equal(pair_stats(pair.requester).rdma_mrs, 1);
	pair_close(&pair);
}

/* No port event heals it. What there is of it can be destroyed, and is. */
static void a_device_that_is_lost_stays_fenced(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	sim_device_fatal(nics[REQUESTER][0]);
	assert_true(comes(is_quiet, &pair));
	sim_raise_port(nics[REQUESTER][0], 1, IBV_EVENT_PORT_ACTIVE);
	assert_true(comes(is_quiet, &pair));
	usleep(50000);
	assert_int_equal(read_by_rdma(&pair, 0), -ENETUNREACH);
	task = run_over(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 4096);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_TCP);
	assert_int_equal(pair_stats(pair.requester).retained, 0);
	pair_close(&pair);
}

/* Without a request that would find it; and at once, see below. */
static void a_queue_pair_in_error_is_closed_at_both_ends(void **state)
{
	uint64_t since_ns, spent_ns = 0;
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	for (i = 0; i < 6; i++) {
		assert_true(comes(works_by_rdma, &pair));
		usleep(50000);
		since_ns = otte_now_ns();
		sim_qp_fatal(joined(i % 2)->native);
		assert_true(comes(is_quiet, &pair));
		spent_ns += otte_now_ns() - since_ns;
	}
	assert_true(spent_ns < SECOND);
	assert_true(comes(works_by_rdma, &pair));
	assert_int_equal(sim_calls(SIM_ACK_ASYNC_EVENT), 6);
	pair_close(&pair);
}

static bool has_two_cqs(void *arg)
{
	return sim_counts(arg).cqs == 2;
}

/* At once: who only polls finds it within a second, as there is nothing else to do. */
static void a_completion_queue_in_error_is_replaced(void **state)
{
	uint64_t since_ns, spent_ns = 0;
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	for (i = 0; i < 5; i++) {
		assert_true(comes(works_by_rdma, &pair));
		usleep(50000);
		since_ns = otte_now_ns();
		sim_cq_error(joined(REQUESTER)->lane->send_cq);
		assert_true(comes(is_quiet, &pair));
		spent_ns += otte_now_ns() - since_ns;
	}
	assert_true(spent_ns < SECOND);
	assert_true(comes(works_by_rdma, &pair));
	assert_true(comes(has_two_cqs, nics[REQUESTER][0]));
	pair_close(&pair);
}

static void assert_follows(int code, struct otte_rdma_paths *paths,
			   const struct otte_rdma_paths *earlier)
{
	assert_int_equal(otte_rdma_paths_follow(paths, earlier), code);
	*paths = *earlier;
}

static void paths_said_again_are_of_the_same_nics(void **state)
{
	const struct otte_rdma_paths earlier = {
		.grants = 64,
		.count = 2,
		.rows = {
			{ .nic = 0, .port = 1, .active = 1, .mtu_bytes = 4096, .pd = 7 },
			{ .nic = 3, .port = 2, .active = 1, .mtu_bytes = 4096, .pd = 8 },
		},
	};
	struct otte_rdma_paths paths = earlier;

	(void)state;
	assert_follows(0, &paths, &earlier);
	paths.rows[1].active = 0;
	paths.rows[1].gid[15] = 9;
	paths.rows[1].gid_type = 2;
	paths.rows[0].mtu_bytes = 1024;
	paths.rows[0].lid = 5;
	assert_follows(0, &paths, &earlier);
	paths.grants = 65;
	assert_follows(-EPROTO, &paths, &earlier);
	paths.count = 1;
	assert_follows(-EPROTO, &paths, &earlier);
	paths.rows[1].nic = 4;
	assert_follows(-EPROTO, &paths, &earlier);
	paths.rows[1].port = 1;
	assert_follows(-EPROTO, &paths, &earlier);
	paths.rows[1].pd = 9;
	assert_follows(-EPROTO, &paths, &earlier);
	assert_string_equal(otte_error_text(), "PATHS in which NIC 3 is another one");
}

/* Its port has had a smaller one since it has said its PATHS. */
static void the_smaller_mtu_is_told(void **state)
{
	struct pair pair;

	(void)state;
	nics[SOURCE][0]->ports[0].attr.active_mtu = IBV_MTU_1024;
	atomic_store(&forged_mtu, 4096);
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	atomic_store(&forged_mtu, 0);
	assert_int_equal(joined_mtu(SOURCE), 4096);
	assert_int_equal(joined_mtu(REQUESTER), 1024);
	pair_close(&pair);
}

static bool has_bad_frame(void *arg)
{
	return pair_stats(arg).bad_frames == 1;
}

/* Its line is cut, and a new one begins with what it says then. */
static void forge(unsigned host)
{
	struct pair pair;

	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	atomic_store(&forged_paths, true);
	set_port(nics[host][0], IBV_PORT_DOWN);
	assert_true(comes(has_bad_frame, host == SOURCE ? pair.requester : pair.source));
	atomic_store(&forged_paths, false);
	set_port(nics[host][0], IBV_PORT_ACTIVE);
	assert_true(comes(works_by_rdma, &pair));
	assert_int_equal(pair_stats(host == SOURCE ? pair.source : pair.requester).bad_frames, 0);
	pair_close(&pair);
}

static void a_peer_whose_nics_are_others_is_cut_off(void **state)
{
	(void)state;
	forge(SOURCE);
	room_start(NULL);
	forge(REQUESTER);
}

/*
 * What of the old route is still there may still use it: the port is well, and its NIC stays away.
 */
static void stay_away(void)
{
	struct pair pair;
	unsigned i;

	pair_open(&pair, SIZE, use_rdma);
	MUST(read_by_rdma(&pair, 0) == 0);
	fail_call(SIM_DESTROY_QP, nics[REQUESTER][0], 1000);
	set_port(nics[REQUESTER][0], IBV_PORT_DOWN);
	MUST(comes(is_retained, &pair));
	queries = sim_calls(SIM_QUERY_PORT);
	set_port(nics[REQUESTER][0], IBV_PORT_ACTIVE);
	MUST(comes(was_asked, NULL));
	for (i = 0; i < 10; i++)
		MUST(read_by_rdma(&pair, 0) == -ENETUNREACH);
	MUST(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, SECOND, NULL) == -EUCLEAN);
}

static void a_nic_with_what_stays_does_not_return(void **state)
{
	(void)state;
	in_its_own_process(stay_away);
}

/*
 * A port that goes and comes back all the time, while requests go on: each ends, and nothing is
 * left.
 */
static void a_port_that_flaps_loses_nothing(void **state)
{
	enum {
		COUNT = 200
	};
	unsigned i, by[4] = { 0 };
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	pair_fill(pair.remote_bytes, SIZE, 8);
	for (i = 0; i < COUNT; i++) {
		submit_over(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 4096);
		set_port(nics[i / 2 % 2][i % 4 / 2], i % 3 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
		task = wait_task(&pair);
		assert_int_equal(task.code, 0);
		assert_in_range(task.transport, 0, 3);
		by[task.transport]++;
		assert_memory_equal(pair.local_bytes, pair.remote_bytes, 4096);
		memset(pair.local_bytes, 0, 4096);
		usleep(1000);
	}
	print_message("by rdma: %u, by tcp: %u\n", by[OTTE_TRANSPORT_RDMA], by[OTTE_TRANSPORT_TCP]);
	for (i = 0; i < 4; i++)
		set_port(nics[i / 2][i % 2], IBV_PORT_ACTIVE);
	assert_true(comes(works_by_rdma, &pair));
	assert_int_equal(pair_stats(pair.source).bad_frames + pair_stats(pair.requester).bad_frames,
			 0);
	assert_int_equal(pair_stats(pair.source).retained + pair_stats(pair.requester).retained, 0);
	pair_close(&pair);
}

int run_route_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_port_of_the_requesters_goes_and_comes_back,
						room_start, nothing_is_left),
		cmocka_unit_test_setup_teardown(a_port_of_the_sources_goes_and_comes_back,
						room_start, nothing_is_left),
		cmocka_unit_test_setup_teardown(the_other_nic_is_used_at_once, room_start_two,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(what_is_under_way_ends_with_its_port, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(another_address_of_the_sources_is_found_and_said,
						room_start, nothing_is_left),
		cmocka_unit_test_setup_teardown(another_address_of_the_requesters_is_found_and_said,
						room_start, nothing_is_left),
		cmocka_unit_test_setup_teardown(an_address_that_is_fixed_is_waited_for, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_port_that_is_down_at_first_is_used_once_it_is_up,
						room_start, nothing_is_left),
		cmocka_unit_test_setup_teardown(a_device_that_is_lost_stays_fenced, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_queue_pair_in_error_is_closed_at_both_ends,
						room_start, nothing_is_left),
		cmocka_unit_test_setup_teardown(a_completion_queue_in_error_is_replaced, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(the_smaller_mtu_is_told, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(paths_said_again_are_of_the_same_nics, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_peer_whose_nics_are_others_is_cut_off, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_nic_with_what_stays_does_not_return, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_port_that_flaps_loses_nothing, room_start_two,
						nothing_is_left),
	};

	return cmocka_run_group_tests_name("routes", tests, NULL, NULL);
}
