/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Asynchronous events: what raises them, who gets them, and who waits for them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <cmocka.h>
#include <unistd.h>

#include "ends.h"
#include "suites.h"

/* The next event of the context, acknowledged. */
static struct ibv_async_event next(struct end *end, struct ibv_context *context)
{
	struct ibv_async_event event = {};

	assert_int_equal(end->verbs->get_async_event(context, &event), 0);
	end->verbs->ack_async_event(&event);
	return event;
}

static void there_is_none(struct ibv_context *context)
{
	struct pollfd wanted = { .fd = context->async_fd, .events = POLLIN };

	assert_int_equal(poll(&wanted, 1, 0), 0);
}

static void a_port_tells_every_context_of_its_device(void **state)
{
	struct ibv_context *second = here.verbs->open_device(&here.device->device);
	struct ibv_async_event event;

	(void)state;
	assert_non_null(second);
	sim_port_set(here.device, 1, IBV_PORT_DOWN);
	event = next(&here, here.context);
	assert_int_equal(event.event_type, IBV_EVENT_PORT_ERR);
	assert_int_equal(event.element.port_num, 1);
	assert_int_equal(next(&here, second).event_type, IBV_EVENT_PORT_ERR);
	there_is_none(here.context);
	there_is_none(there.context);
	sim_port_set(here.device, 1, IBV_PORT_DOWN);
	there_is_none(here.context);
	sim_port_set(here.device, 1, IBV_PORT_ACTIVE);
	assert_int_equal(next(&here, here.context).event_type, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(here.verbs->close_device(second), 0);
}

static void a_test_raises_what_it_wants(void **state)
{
	static const enum ibv_event_type types[] = { IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE,
						     IBV_EVENT_PKEY_CHANGE, IBV_EVENT_SM_CHANGE,
						     IBV_EVENT_CLIENT_REREGISTER };
	struct ibv_async_event event;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		sim_raise_port(there.device, 1, types[i]);
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		event = next(&there, there.context);
		assert_int_equal(event.event_type, types[i]);
		assert_int_equal(event.element.port_num, 1);
	}
	assert_int_equal(end_state(&there, there.qp), IBV_QPS_RTS);
}

static void who_does_not_wait_is_told_that_there_is_none(void **state)
{
	struct ibv_async_event event;

	(void)state;
	assert_int_equal(fcntl(here.context->async_fd, F_SETFL, O_NONBLOCK), 0);
	errno = 0;
	assert_int_equal(here.verbs->get_async_event(here.context, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

static void a_refused_request_is_an_event_of_who_refused_it(void **state)
{
	struct ibv_async_event event;

	(void)state;
	end_read(&here, 0, 10, there.bytes, 0x12345, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_REM_ACCESS_ERR);
	event = next(&there, there.context);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(event.element.qp, there.qp);
	there_is_none(here.context);
}

static void rxe_tells_nothing_of_it(void **state)
{
	(void)state;
	there.device->quirks = SIM_RXE_NO_QP_EVENTS;
	end_read(&here, 0, 10, there.bytes, 0x12345, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_REM_ACCESS_ERR);
	there_is_none(there.context);
}

static void the_first_message_establishes_who_is_only_ready_to_receive(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		assert_int_equal(here.verbs->modify_qp(here.qp, &attr, IBV_QP_STATE), 0);
		assert_int_equal(there.verbs->modify_qp(there.qp, &attr, IBV_QP_STATE), 0);
		end_connect(&here, here.qp, &there, there.qp);
		assert_int_equal(end_to_init(&there, there.qp), 0);
		assert_int_equal(end_to_rtr(&there, there.qp, &here, here.qp), 0);
		end_write(&here, 0, 0, NULL, 0, 0);
		end_write(&here, 0, 0, NULL, 0, 0);
		assert_int_equal(next(&there, there.context).event_type, IBV_EVENT_COMM_EST);
		there_is_none(there.context);
	}
}

static void a_fatal_queue_pair_is_in_error(void **state)
{
	struct ibv_async_event event;

	(void)state;
	end_recv(&there, 0, 10);
	sim_qp_fatal(there.qp);
	event = next(&there, there.context);
	assert_int_equal(event.event_type, IBV_EVENT_QP_FATAL);
	assert_ptr_equal(event.element.qp, there.qp);
	assert_int_equal(end_received(&there).status, IBV_WC_WR_FLUSH_ERR);
}

static void a_cq_in_error_loses_what_comes(void **state)
{
	struct ibv_async_event event;
	struct ibv_wc wc;

	(void)state;
	sim_cq_error(here.sends);
	event = next(&here, here.context);
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, here.sends);
	end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	assert_int_equal(here.verbs->poll_cq(here.sends, 1, &wc), -1);
	assert_int_equal(next(&here, here.context).event_type, IBV_EVENT_QP_FATAL);
}

static void of_a_fatal_device_nothing_is_left_but_to_destroy(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp *unused = end_create_qp(&there);

	(void)state;
	end_recv(&there, 0, 10);
	sim_device_fatal(there.device);
	assert_int_equal(end_state(&there, there.qp), IBV_QPS_ERR);
	assert_int_equal(end_state(&there, unused), IBV_QPS_RESET);
	assert_int_equal(there.verbs->destroy_qp(unused), 0);
	assert_int_equal(next(&there, there.context).event_type, IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(end_received(&there).status, IBV_WC_WR_FLUSH_ERR);
	errno = 0;
	assert_null(there.verbs->alloc_pd(there.context));
	assert_int_equal(errno, EIO);
	assert_null(there.verbs->reg_mr(there.pd, there.bytes, 1, 0));
	assert_null(there.verbs->create_cq(there.context, 1, NULL, NULL, 0));
	assert_null(there.verbs->create_comp_channel(there.context));
	assert_null(there.verbs->open_device(&there.device->device));
	assert_int_equal(there.verbs->modify_qp(there.qp, &attr, IBV_QP_STATE), EIO);
	end_write(&here, 0, 0, NULL, 0, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_RETRY_EXC_ERR);
}

/* ---- Acknowledgement ------------------------------------------------------------------------- */

static _Atomic bool acknowledged;

static void *acknowledge_late(void *event)
{
	usleep(50000);
	atomic_store(&acknowledged, true);
	there.verbs->ack_async_event(event);
	return NULL;
}

static void a_queue_pair_waits_for_its_acknowledgements(void **state)
{
	struct ibv_async_event event;
	pthread_t thread;

	(void)state;
	sim_qp_fatal(there.qp);
	assert_int_equal(there.verbs->get_async_event(there.context, &event), 0);
	assert_int_equal(sim_counts(there.device).events, 1);
	atomic_store(&acknowledged, false);
	assert_int_equal(pthread_create(&thread, NULL, acknowledge_late, &event), 0);
	assert_int_equal(there.verbs->destroy_qp(there.qp), 0);
	assert_true(atomic_load(&acknowledged));
	there.qp = NULL;
	assert_int_equal(sim_counts(there.device).events, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void an_event_that_nobody_took_goes_with_its_queue_pair(void **state)
{
	(void)state;
	sim_qp_fatal(there.qp);
	sim_raise_port(there.device, 1, IBV_EVENT_GID_CHANGE);
	assert_int_equal(there.verbs->destroy_qp(there.qp), 0);
	there.qp = NULL;
	assert_int_equal(next(&there, there.context).event_type, IBV_EVENT_GID_CHANGE);
	there_is_none(there.context);
}

static void an_event_that_is_not_acknowledged_is_left(void **state)
{
	struct ibv_async_event event;

	(void)state;
	sim_raise_port(there.device, 1, IBV_EVENT_GID_CHANGE);
	assert_int_equal(there.verbs->get_async_event(there.context, &event), 0);
	assert_int_equal(sim_counts(NULL).events, 1);
	there.verbs->ack_async_event(&event);
	assert_int_equal(sim_counts(NULL).events, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_start, ends_finish)

int run_events_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_port_tells_every_context_of_its_device),
		TEST(a_test_raises_what_it_wants),
		TEST(who_does_not_wait_is_told_that_there_is_none),
		TEST(a_refused_request_is_an_event_of_who_refused_it),
		TEST(rxe_tells_nothing_of_it),
		TEST(the_first_message_establishes_who_is_only_ready_to_receive),
		TEST(a_fatal_queue_pair_is_in_error),
		TEST(a_cq_in_error_loses_what_comes),
		TEST(of_a_fatal_device_nothing_is_left_but_to_destroy),
		TEST(a_queue_pair_waits_for_its_acknowledgements),
		TEST(an_event_that_nobody_took_goes_with_its_queue_pair),
		TEST(an_event_that_is_not_acknowledged_is_left),
	};

	return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
