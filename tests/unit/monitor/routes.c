/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

#include <string.h>

#include "base/util.h"

#define ONE(test) cmocka_unit_test_setup_teardown(test, room_start_one, room_finish)
#define NONE(test) cmocka_unit_test_setup_teardown(test, room_start, room_finish)

static struct ibv_port_attr *attr(void)
{
	return &room.devices[0]->ports[0].attr;
}

static const struct otte_rdma_monitor_counts *counts(void)
{
	return otte_rdma_monitor_counts(room.monitor);
}

static void assert_gid(int index, uint8_t last_byte)
{
	const struct otte_rdma_address address = address_of(0);

	assert_int_equal(address.gid.index, index);
	assert_int_equal(address.gid.bytes[15], last_byte);
}

static void set_gid(unsigned int index, const char *address)
{
	sim_gid_set(room.devices[0], 1, index, address, IBV_GID_TYPE_ROCE_V2);
}

/* ---- When ------------------------------------------------------------------------------------ */

static void ports_are_asked_each_second_whether_anybody_transfers_or_not(void **state)
{
	(void)state;
	assert_int_equal(counts()->ticks, 1);
	assert_int_equal(counts()->queries, 1);
	room_pass(NSEC_PER_SEC - 1);
	assert_int_equal(counts()->queries, 1);
	room_pass(1);
	assert_int_equal(counts()->ticks, 2);
	assert_int_equal(counts()->queries, 2);
	room_pass(5 * NSEC_PER_SEC);
	assert_int_equal(counts()->ticks, 3);
	assert_int_equal(counts()->queries, 3);
	assert_told(0, 0, 0);
}

static void each_port_is_told_its_rate(void **state)
{
	(void)state;
	assert_int_equal(room.told[0].rates, 1);
	assert_int_equal(room.told[0].rate, 12500000000ull);
	attr()->active_width = 1;
	room_pass(NSEC_PER_SEC);
	assert_int_equal(room.told[0].rate, 3125000000ull);
	attr()->active_speed = 0;
	room_pass(NSEC_PER_SEC);
	assert_int_equal(room.told[0].rates, 3);
	assert_int_equal(room.told[0].rate, 0);
	assert_told(0, 0, 0);
}

/* ---- Ports that are down --------------------------------------------------------------------- */

static void a_port_that_goes_down_fences_once_and_comes_back(void **state)
{
	struct otte_rdma_route before, after;

	(void)state;
	otte_rdma_context_route(room.contexts[0], &before);
	sim_port_set(room.devices[0], 1, IBV_PORT_DOWN);
	room_rounds();
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_PAUSED);
	assert_told(0, 1, 0);
	assert_int_equal(room.told[0].code, -ENETDOWN);
	assert_string_equal(room.told[0].why, "mlx5_0 port 1: port error");
	room_pass(NSEC_PER_SEC);
	assert_told(0, 1, 0);
	assert_int_equal(otte_rdma_context_check(room.contexts[0]), -ENETDOWN);
	assert_string_equal(otte_error_text(), "mlx5_0 port 1: is not active");
	sim_port_set(room.devices[0], 1, IBV_PORT_ACTIVE);
	room_rounds();
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
	assert_told(0, 1, 1);
	otte_rdma_context_route(room.contexts[0], &after);
	assert_true(after.generation > before.generation);
	assert_int_equal(counts()->pauses, 1);
	assert_int_equal(counts()->recoveries, 1);
	assert_acknowledged(2);
}

static void without_any_event_it_is_found_all_the_same(void **state)
{
	(void)state;
	attr()->state = IBV_PORT_DOWN;
	room_pass(NSEC_PER_SEC);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_PAUSED);
	assert_string_equal(room.told[0].why, "mlx5_0 port 1: is not active");
	attr()->state = IBV_PORT_ACTIVE;
	room_pass(NSEC_PER_SEC);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
	assert_told(0, 1, 1);
	assert_acknowledged(0);
}

static void an_initially_paused_port_comes_up_with_the_address_of_then(void **state)
{
	struct ibv_port_attr *port = &room_add("mlx5_0")->ports[0].attr;

	(void)state;
	port->state = IBV_PORT_INIT;
	port->active_mtu = IBV_MTU_1024;
	set_gid(1, NULL);
	room_open();
	room_rounds();
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_PAUSED);
	assert_gid(0, 1);
	assert_told(0, 0, 0);
	assert_int_equal(room.told[0].rates, 0);
	port->state = IBV_PORT_ACTIVE;
	port->active_mtu = IBV_MTU_2048;
	set_gid(3, "192.0.2.7");
	room_pass(NSEC_PER_SEC);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
	assert_gid(3, 7);
	assert_int_equal(address_of(0).mtu_bytes, 2048);
	assert_told(0, 0, 1);
	assert_int_equal(room.told[0].rates, 1);
	assert_int_equal(counts()->recoveries, 1);
	assert_int_equal(counts()->pauses, 0);
}

static void a_route_comes_back_when_all_over_it_has_drained_and_not_before(void **state)
{
	unsigned int asked;

	(void)state;
	room.drained = false;
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
	room_rounds();
	room_pass(NSEC_PER_SEC);
	room_pass(NSEC_PER_SEC);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_PAUSED);
	assert_told(0, 1, 0);
	asked = room.told[0].asked;
	assert_true(asked >= 2);
	room_rounds();
	assert_int_equal(room.told[0].asked, asked);
	room.drained = true;
	otte_rdma_monitor_ask(room.monitor);
	room_rounds();
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
	assert_told(0, 1, 1);
}

static void who_has_drained_has_no_active_port_asked(void **state)
{
	(void)state;
	otte_rdma_monitor_ask(room.monitor);
	room_rounds();
	assert_int_equal(counts()->queries, 1);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static void an_automatic_gid_that_changes_is_chosen_anew(void **state)
{
	(void)state;
	assert_gid(1, 1);
	set_gid(1, NULL);
	set_gid(4, "192.0.2.9");
	sim_raise_port(room.devices[0], 1, IBV_EVENT_GID_CHANGE);
	room_rounds();
	assert_told(0, 1, 1);
	assert_string_equal(room.told[0].why, "mlx5_0 port 1: GID 1 is empty");
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
	assert_gid(4, 9);
	set_gid(4, "192.0.2.10");
	room_pass(NSEC_PER_SEC);
	assert_told(0, 2, 2);
	assert_string_equal(room.told[0].why, "mlx5_0 port 1: the GID is another");
	assert_gid(4, 10);
}

static void a_pinned_gid_has_no_substitute(void **state)
{
	(void)state;
	room_add("mlx5_0");
	room_open_pinned(1);
	room_rounds();
	set_gid(1, NULL);
	set_gid(4, "192.0.2.9");
	sim_raise_port(room.devices[0], 1, IBV_EVENT_GID_CHANGE);
	room_rounds();
	room_pass(NSEC_PER_SEC);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_PAUSED);
	assert_told(0, 1, 0);
	set_gid(1, "192.0.2.11");
	room_pass(NSEC_PER_SEC);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
	assert_told(0, 1, 1);
	assert_gid(1, 11);
}

static void a_better_gid_fences_nobody(void **state)
{
	(void)state;
	room_add("mlx5_0");
	set_gid(1, NULL);
	room_open();
	room_rounds();
	assert_gid(0, 1);
	set_gid(2, "192.0.2.2");
	sim_raise_port(room.devices[0], 1, IBV_EVENT_GID_CHANGE);
	room_rounds();
	assert_int_equal(counts()->queries, 2);
	assert_told(0, 0, 0);
	assert_gid(0, 1);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
}

static void another_mtu_or_lid_fences_and_is_published(void **state)
{
	(void)state;
	attr()->active_mtu = IBV_MTU_1024;
	room_pass(NSEC_PER_SEC);
	assert_told(0, 1, 1);
	assert_string_equal(room.told[0].why, "mlx5_0 port 1: the MTU is another");
	assert_int_equal(address_of(0).mtu_bytes, 1024);
	attr()->lid = 17;
	sim_raise_port(room.devices[0], 1, IBV_EVENT_LID_CHANGE);
	room_rounds();
	assert_told(0, 2, 2);
	assert_string_equal(room.told[0].why, "mlx5_0 port 1: the LID is another");
	assert_int_equal(address_of(0).lid, 17);
	sim_gid_set(room.devices[0], 1, 1, "192.0.2.1", IBV_GID_TYPE_ROCE_V1);
	room_pass(NSEC_PER_SEC);
	assert_told(0, 3, 3);
	assert_string_equal(room.told[0].why, "mlx5_0 port 1: the GID is another");
	attr()->link_layer = IBV_LINK_LAYER_INFINIBAND;
	room_pass(NSEC_PER_SEC);
	assert_told(0, 4, 4);
	assert_string_equal(room.told[0].why, "mlx5_0 port 1: the link layer is another");
}

/* ---- Queries that fail ----------------------------------------------------------------------- */

static void a_query_that_fails_changes_nothing_and_is_counted(void **state)
{
	struct otte_rdma_route before, after;

	(void)state;
	otte_rdma_context_route(room.contexts[0], &before);
	room.devices[0]->ports[0].error = EIO;
	room_pass(NSEC_PER_SEC);
	room_pass(NSEC_PER_SEC);
	room.devices[0]->ports[0].error = 0;
	room.devices[0]->ports[0].gids[1].error = EIO;
	room_pass(NSEC_PER_SEC);
	room.devices[0]->ports[0].gids[1].error = 0;
	attr()->active_mtu = (enum ibv_mtu)9;
	room_pass(NSEC_PER_SEC);
	otte_rdma_context_route(room.contexts[0], &after);
	assert_int_equal(after.state, OTTE_RDMA_CONTEXT_ACTIVE);
	assert_int_equal(after.generation, before.generation);
	assert_told(0, 0, 0);
	assert_int_equal(room.told[0].rates, 1);
	assert_int_equal(counts()->queries, 5);
	assert_int_equal(counts()->failed_queries, 4);
	assert_string_equal(room.log, "rdma: mlx5_0 port 1: cannot be asked: mlx5_0 port 1: "
				      "ibv_query_port: Input/output error\n");
	attr()->active_mtu = IBV_MTU_4096;
	room_pass(NSEC_PER_SEC);
	assert_int_equal(counts()->failed_queries, 4);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
}

static void nor_does_it_end_a_pause(void **state)
{
	(void)state;
	sim_port_set(room.devices[0], 1, IBV_PORT_DOWN);
	room_rounds();
	sim_port_set(room.devices[0], 1, IBV_PORT_ACTIVE);
	room.devices[0]->ports[0].error = EIO;
	room_rounds();
	room_pass(NSEC_PER_SEC);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_PAUSED);
	assert_told(0, 1, 0);
	assert_int_equal(counts()->failed_queries, 2);
}

/* ---- What comes between question and answer -------------------------------------------------- */

static void pause_now(void)
{
	otte_rdma_context_pause(room.contexts[0], -ENETDOWN, "somebody else's fault");
	room.drained = false;
}

static void a_newer_fault_of_somebody_else_stands(void **state)
{
	(void)state;
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
	room.at_drained = pause_now;
	otte_rdma_monitor_round(room.monitor, 0);
	assert_null(room.at_drained);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_PAUSED);
	room_rounds();
	assert_int_equal(otte_rdma_context_check(room.contexts[0]), -ENETDOWN);
	assert_string_equal(otte_error_text(), "mlx5_0 port 1: somebody else's fault");
	assert_told(0, 1, 0);
	room.drained = true;
	room_pass(NSEC_PER_SEC);
	assert_told(0, 1, 1);
}

static void pause_and_say_drained(void)
{
	otte_rdma_context_pause(room.contexts[0], -ENETDOWN, "somebody else's fault");
}

static void an_answer_of_before_it_resumes_nothing(void **state)
{
	(void)state;
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
	room.at_drained = pause_and_say_drained;
	otte_rdma_monitor_round(room.monitor, 0);
	assert_null(room.at_drained);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_PAUSED);
	assert_told(0, 1, 0);
	room_rounds();
	assert_told(0, 1, 1);
}

static void go_down(void)
{
	sim_port_set(room.devices[0], 1, IBV_PORT_DOWN);
}

static void an_event_of_after_the_question_is_heard_before_the_route_resumes(void **state)
{
	(void)state;
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
	room.at_drained = go_down;
	room_rounds();
	assert_null(room.at_drained);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_PAUSED);
	assert_told(0, 1, 0);
	assert_int_equal(counts()->recoveries, 0);
	assert_acknowledged(2);
}

static void change_gid(void)
{
	set_gid(1, "192.0.2.12");
	sim_raise_port(room.devices[0], 1, IBV_EVENT_GID_CHANGE);
}

static void an_address_of_before_a_change_is_not_published(void **state)
{
	(void)state;
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
	room.at_drained = change_gid;
	room_rounds();
	assert_null(room.at_drained);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_ACTIVE);
	assert_gid(1, 12);
	assert_told(0, 1, 1);
	assert_int_equal(counts()->pauses, 1);
}

static void lose_the_device(void)
{
	sim_device_fatal(room.devices[0]);
}

static void a_device_that_is_lost_meanwhile_stays_lost(void **state)
{
	(void)state;
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
	room.at_drained = lose_the_device;
	room_rounds();
	assert_null(room.at_drained);
	assert_int_equal(state_of(0), OTTE_RDMA_CONTEXT_FATAL);
	assert_told(0, 2, 0);
	assert_acknowledged(2);
}

static void a_port_that_flaps_does_not_fill_the_log(void **state)
{
	unsigned int i;
	const char *line;

	(void)state;
	for (i = 0; i < 100; i++) {
		sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
		room_rounds();
	}
	assert_told(0, 100, 100);
	for (i = 0, line = room.log; (line = strchr(line, '\n')); line++)
		i++;
	assert_int_equal(i, OTTE_LOG_LIMIT_LINES);
	room.log[0] = '\0';
	room_pass(NSEC_PER_SEC);
	sim_raise_port(room.devices[0], 1, IBV_EVENT_PORT_ERR);
	room_rounds();
	assert_non_null(strstr(room.log, "mlx5_0 port 1: 190 lines were held back\n"));
}

int run_route_tests(void)
{
	const struct CMUnitTest tests[] = {
		ONE(ports_are_asked_each_second_whether_anybody_transfers_or_not),
		ONE(each_port_is_told_its_rate),
		ONE(a_port_that_goes_down_fences_once_and_comes_back),
		ONE(without_any_event_it_is_found_all_the_same),
		NONE(an_initially_paused_port_comes_up_with_the_address_of_then),
		ONE(a_route_comes_back_when_all_over_it_has_drained_and_not_before),
		ONE(who_has_drained_has_no_active_port_asked),
		ONE(an_automatic_gid_that_changes_is_chosen_anew),
		NONE(a_pinned_gid_has_no_substitute),
		NONE(a_better_gid_fences_nobody),
		ONE(another_mtu_or_lid_fences_and_is_published),
		ONE(a_query_that_fails_changes_nothing_and_is_counted),
		ONE(nor_does_it_end_a_pause),
		ONE(a_newer_fault_of_somebody_else_stands),
		ONE(an_answer_of_before_it_resumes_nothing),
		ONE(an_event_of_after_the_question_is_heard_before_the_route_resumes),
		ONE(an_address_of_before_a_change_is_not_published),
		ONE(a_device_that_is_lost_meanwhile_stays_lost),
		ONE(a_port_that_flaps_does_not_fill_the_log),
	};

	return cmocka_run_group_tests_name("routes", tests, NULL, NULL);
}
