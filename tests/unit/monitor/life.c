/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

#include <unistd.h>

#include "base/util.h"

#define ONE(test) cmocka_unit_test_setup_teardown(test, room_start_one, room_finish)
#define NONE(test) cmocka_unit_test_setup_teardown(test, room_start, room_finish)

static const struct otte_rdma_monitor_ops no_ops;

static int create(uint64_t interval_ns)
{
	struct otte_rdma_monitor_params params = OTTE_RDMA_MONITOR_PARAMS;

	params.interval_ns = interval_ns;
	return otte_rdma_monitor_create(&room.set, &params, &no_ops, NULL, &room.monitor);
}

/* ---- Creation -------------------------------------------------------------------------------- */

static void a_monitor_has_an_interval(void **state)
{
	(void)state;
	assert_int_equal(create(0), -EINVAL);
	assert_string_equal(otte_error_text(), "rdma: the monitor's interval is 0");
}

static int lowest_free_descriptor(void)
{
	int fd = dup(STDOUT_FILENO);

	close(fd);
	return fd;
}

static void what_fails_in_creation_leaves_nothing(void **state)
{
	unsigned int nth;
	int free_fd;

	(void)state;
	room_add("mlx5_0");
	room_add("mlx5_1");
	room_open_contexts(OTTE_RDMA_CHOOSE);
	free_fd = lowest_free_descriptor();
	fail_calloc = 1;
	assert_int_equal(create(1), -ENOMEM);
	assert_string_equal(otte_error_text(), "rdma: Cannot allocate memory");
	for (nth = 1; nth <= 3; nth++) {
		fail_epoll = nth;
		assert_int_equal(create(1), -ENOSPC);
		assert_int_equal(fail_epoll, 0);
		assert_int_equal(lowest_free_descriptor(), free_fd);
	}
	assert_int_equal(create(1), 0);
}

static void events_that_cannot_be_taken_without_waiting_are_refused_by_name(void **state)
{
	struct ibv_context *native;
	int fd;

	(void)state;
	room_add("mlx5_0");
	room_open_contexts(OTTE_RDMA_CHOOSE);
	native = room.contexts[0]->native;
	fd = native->async_fd;
	native->async_fd = -1;
	assert_int_equal(create(1), -EBADF);
	assert_string_equal(otte_error_text(),
			    "mlx5_0: O_NONBLOCK of its events: Bad file descriptor");
	native->async_fd = fd;
}

static void a_slot_without_a_context_is_passed_over(void **state)
{
	struct sim_device *first = room_add("mlx5_0");

	(void)state;
	room_add("mlx5_1");
	first->attr.device_cap_flags &= ~(unsigned int)IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	room_open();
	room_rounds();
	assert_int_equal(otte_rdma_monitor_counts(room.monitor)->queries, 1);
	sim_port_set(room.devices[1], 1, IBV_PORT_DOWN);
	room_rounds();
	assert_int_equal(state_of(1), OTTE_RDMA_CONTEXT_PAUSED);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void stop(void)
{
	otte_rdma_monitor_stop(room.monitor);
	room.monitor = NULL;
}

static void events_that_are_pending_at_the_end_hold_up_nothing(void **state)
{
	struct otte_rdma_cq_lane *lane = room_lane(0);
	struct otte_rdma_qp *qp = room_qp(lane);
	unsigned long gets = sim_calls(SIM_GET_ASYNC_EVENT);

	(void)state;
	sim_port_set(room.devices[0], 1, IBV_PORT_DOWN);
	sim_qp_fatal(qp->native);
	sim_cq_error(lane->send_cq);
	stop();
	assert_int_equal(sim_calls(SIM_GET_ASYNC_EVENT), gets);
	assert_int_equal(sim_counts(NULL).events, 3);
	assert_int_equal(otte_rdma_qp_destroy(qp), 0);
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
	assert_told(0, 0, 0);
}

static void it_borrows_all_and_destroys_nothing(void **state)
{
	struct otte_rdma_cq_lane *lane = room_lane(0);
	struct otte_rdma_qp *qp = room_qp(lane);

	(void)state;
	sim_qp_fatal(qp->native);
	sim_device_fatal(room.devices[0]);
	room_rounds();
	stop();
	assert_int_equal(sim_counts(NULL).contexts, 1);
	assert_int_equal(sim_counts(NULL).pds, 1);
	assert_int_equal(sim_counts(NULL).cqs, 2);
	assert_int_equal(sim_counts(NULL).qps, 1);
	assert_int_equal(otte_rdma_qp_destroy(qp), 0);
	assert_int_equal(otte_rdma_lane_destroy(lane), 0);
}

static void who_was_never_started_is_stopped_all_the_same(void **state)
{
	(void)state;
	stop();
	otte_rdma_monitor_stop(NULL);
}

int run_life_tests(void)
{
	const struct CMUnitTest tests[] = {
		NONE(a_monitor_has_an_interval),
		NONE(what_fails_in_creation_leaves_nothing),
		NONE(events_that_cannot_be_taken_without_waiting_are_refused_by_name),
		NONE(a_slot_without_a_context_is_passed_over),
		ONE(events_that_are_pending_at_the_end_hold_up_nothing),
		ONE(it_borrows_all_and_destroys_nothing),
		ONE(who_was_never_started_is_stopped_all_the_same),
	};

	return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
