/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Completion queues and channels: order, room, notification and acknowledgement. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "suites.h"

static bool readable(int fd)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	return poll(&wanted, 1, 0) == 1;
}

static void set_nonblocking(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
}

/* One message for the other end, which has a receive for it. */
static void tell(unsigned int flags)
{
	end_recv(&there, 0, 64);
	end_send(&here, 0, 8, flags | IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
}

static void request(int solicited_only)
{
	assert_int_equal(there.verbs->req_notify_cq(there.recvs, solicited_only), 0);
}

/* ---- CQs ------------------------------------------------------------------------------------- */

static void completions_come_in_their_order(void **state)
{
	struct ibv_wc wc[4];
	uint64_t first;

	(void)state;
	first = end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	end_write(&here, 0, 0, NULL, 0, 0);
	end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	assert_int_equal(here.verbs->poll_cq(here.sends, 2, wc), 2);
	assert_int_equal(here.verbs->poll_cq(here.sends, 4, wc + 2), 1);
	assert_int_equal(wc[0].wr_id, first);
	assert_int_equal(wc[1].wr_id, first + 2);
	assert_int_equal(wc[2].wr_id, first + 3);
	assert_int_equal(here.verbs->poll_cq(here.sends, 0, wc), 0);
}

static void a_cq_cannot_be_what_the_device_has_not(void **state)
{
	(void)state;
	assert_null(here.verbs->create_cq(here.context, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(
		here.verbs->create_cq(here.context, here.device->attr.max_cqe + 1, NULL, NULL, 0));
	assert_null(here.verbs->create_cq(here.context, 1, NULL, there.channel, 0));
	assert_null(
		here.verbs->create_cq(here.context, 1, NULL, NULL, here.context->num_comp_vectors));
	here.device->attr.max_cq = 2;
	assert_null(here.verbs->create_cq(here.context, 1, NULL, NULL, 0));
	assert_int_equal(errno, ENOMEM);
}

/* What was in it can be polled; then it says that it is in error. */
static void a_cq_without_room_is_in_error(void **state)
{
	struct ibv_qp *own = here.qp, *other = end_create_qp(&there);
	struct ibv_cq *cq = here.verbs->create_cq(here.context, 2, NULL, NULL, 0);
	struct ibv_cq *before = here.sends;
	struct ibv_async_event event;
	struct ibv_wc wc[3];
	int i;

	(void)state;
	here.sends = cq;
	here.qp = end_create_qp(&here);
	end_connect(&here, here.qp, &there, other);
	end_connect(&there, other, &here, here.qp);
	for (i = 0; i < 3; i++)
		end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	assert_int_equal(here.verbs->get_async_event(here.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, cq);
	here.verbs->ack_async_event(&event);
	assert_int_equal(here.verbs->get_async_event(here.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_FATAL);
	assert_ptr_equal(event.element.qp, here.qp);
	here.verbs->ack_async_event(&event);
	assert_int_equal(here.verbs->poll_cq(cq, 3, wc), 2);
	assert_int_equal(wc[1].status, IBV_WC_SUCCESS);
	assert_int_equal(here.verbs->poll_cq(cq, 3, wc), -1);
	assert_int_equal(end_state(&here, here.qp), IBV_QPS_ERR);
	assert_int_equal(here.verbs->destroy_qp(here.qp), 0);
	assert_int_equal(there.verbs->destroy_qp(other), 0);
	assert_int_equal(here.verbs->destroy_cq(cq), 0);
	here.qp = own;
	here.sends = before;
}

/* ---- Notification ---------------------------------------------------------------------------- */

static void nobody_is_told_who_has_not_asked(void **state)
{
	(void)state;
	tell(0);
	assert_false(readable(there.channel->fd));
	request(0);
	assert_false(readable(there.channel->fd));
	tell(0);
	assert_true(readable(there.channel->fd));
}

static void one_event_is_told_for_each_time_asked(void **state)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	(void)state;
	set_nonblocking(there.channel->fd);
	request(0);
	tell(0);
	tell(0);
	assert_int_equal(there.verbs->get_cq_event(there.channel, &cq, &context), 0);
	assert_ptr_equal(cq, there.recvs);
	assert_ptr_equal(context, &there);
	assert_int_equal(there.verbs->get_cq_event(there.channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(readable(there.channel->fd));
	there.verbs->ack_cq_events(cq, 1);
}

static void who_wants_solicited_ones_hears_of_no_others(void **state)
{
	(void)state;
	request(1);
	tell(0);
	assert_false(readable(there.channel->fd));
	tell(IBV_SEND_SOLICITED);
	assert_true(readable(there.channel->fd));
}

static void a_failed_completion_is_solicited(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	(void)state;
	request(1);
	end_recv(&there, 0, 64);
	assert_int_equal(there.verbs->modify_qp(there.qp, &attr, IBV_QP_STATE), 0);
	assert_true(readable(there.channel->fd));
}

static void what_a_held_cq_has_comes_late_and_in_order(void **state)
{
	uint64_t first;

	(void)state;
	request(1);
	sim_cq_hold(there.recvs, true);
	first = end_recv(&there, 0, 64);
	end_recv(&there, 0, 64);
	end_send(&here, 0, 8, IBV_SEND_SOLICITED);
	end_send(&here, 0, 9, 0);
	end_is_idle(&there);
	assert_false(readable(there.channel->fd));
	assert_int_equal(sim_counts(there.device).recvs, 0);
	sim_cq_hold(there.recvs, false);
	assert_true(readable(there.channel->fd));
	assert_int_equal(end_received(&there).wr_id, first);
	assert_int_equal(end_received(&there).byte_len, 9);
	request(0);
	sim_cq_hold(there.recvs, true);
	sim_cq_hold(there.recvs, false);
	assert_int_equal(sim_counts(there.device).events, 1);
}

static void a_wish_for_all_is_not_taken_back(void **state)
{
	(void)state;
	request(0);
	request(1);
	tell(0);
	assert_true(readable(there.channel->fd));
}

/* ---- Acknowledgement ------------------------------------------------------------------------- */

static _Atomic bool acknowledged;

static void *acknowledge_late(void *cq)
{
	usleep(50000);
	atomic_store(&acknowledged, true);
	there.verbs->ack_cq_events(cq, 2);
	return NULL;
}

static void destroy_waits_for_acknowledgements(void **state)
{
	pthread_t thread;
	struct ibv_cq *cq;
	void *context;

	(void)state;
	request(0);
	tell(0);
	request(0);
	tell(0);
	assert_int_equal(there.verbs->get_cq_event(there.channel, &cq, &context), 0);
	assert_int_equal(there.verbs->get_cq_event(there.channel, &cq, &context), 0);
	assert_int_equal(sim_counts(there.device).events, 2);
	assert_int_equal(sim_counts(NULL).events, 2);
	assert_int_equal(there.verbs->destroy_qp(there.qp), 0);
	there.qp = NULL;
	atomic_store(&acknowledged, false);
	assert_int_equal(pthread_create(&thread, NULL, acknowledge_late, there.recvs), 0);
	assert_int_equal(there.verbs->destroy_cq(there.recvs), 0);
	assert_true(atomic_load(&acknowledged));
	there.recvs = NULL;
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void an_event_that_nobody_took_goes_with_its_cq(void **state)
{
	(void)state;
	request(0);
	tell(0);
	assert_true(readable(there.channel->fd));
	assert_int_equal(sim_counts(there.device).events, 1);
	assert_int_equal(there.verbs->destroy_qp(there.qp), 0);
	there.qp = NULL;
	assert_int_equal(there.verbs->destroy_cq(there.recvs), 0);
	there.recvs = NULL;
	assert_false(readable(there.channel->fd));
}

/* In a child, which says why to nobody and ends. */
static void aborts(void (*acknowledge)(void))
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		close(STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		acknowledge();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void acknowledge_completion(void)
{
	there.verbs->ack_cq_events(there.recvs, 1);
}

static void acknowledge_port(void)
{
	struct ibv_async_event event = { .element.port_num = 1, .event_type = IBV_EVENT_PORT_ERR };

	there.verbs->ack_async_event(&event);
}

static void what_was_not_taken_cannot_be_acknowledged(void **state)
{
	(void)state;
	request(0);
	tell(0);
	sim_port_set(there.device, 1, IBV_PORT_DOWN);
	aborts(acknowledge_completion);
	aborts(acknowledge_port);
}

static void *tell_late(void *unused)
{
	(void)unused;
	usleep(50000);
	end_send(&here, 0, 8, 0);
	return NULL;
}

static void who_gets_an_event_waits_for_it(void **state)
{
	pthread_t thread;
	struct ibv_cq *cq;
	void *context;

	(void)state;
	request(0);
	end_recv(&there, 0, 64);
	assert_int_equal(pthread_create(&thread, NULL, tell_late, NULL), 0);
	assert_int_equal(there.verbs->get_cq_event(there.channel, &cq, &context), 0);
	assert_int_equal(end_received(&there).byte_len, 8);
	there.verbs->ack_cq_events(cq, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_start, ends_finish)

int run_completion_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(completions_come_in_their_order),
		TEST(a_cq_cannot_be_what_the_device_has_not),
		TEST(a_cq_without_room_is_in_error),
		TEST(nobody_is_told_who_has_not_asked),
		TEST(one_event_is_told_for_each_time_asked),
		TEST(who_wants_solicited_ones_hears_of_no_others),
		TEST(a_failed_completion_is_solicited),
		TEST(what_a_held_cq_has_comes_late_and_in_order),
		TEST(a_wish_for_all_is_not_taken_back),
		TEST(destroy_waits_for_acknowledgements),
		TEST(an_event_that_nobody_took_goes_with_its_cq),
		TEST(what_was_not_taken_cannot_be_acknowledged),
		TEST(who_gets_an_event_waits_for_it),
	};

	return cmocka_run_group_tests_name("completion", tests, NULL, NULL);
}
