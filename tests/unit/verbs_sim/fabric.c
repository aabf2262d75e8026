/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who reaches whom, and how long one waits who does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "base/clock.h"
#include "ends.h"
#include "suites.h"

/* Of timeout 14 and 6 retries: seven times 4.096 us * 2^14. */
#define PATIENCE_NS (7 * (4096ull << 14))

static struct ibv_mr *remote;

static int start(void **state)
{
	ends_start(state);
	remote = there.verbs->reg_mr(there.pd, there.bytes, 4096,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					     IBV_ACCESS_REMOTE_WRITE);
	return remote ? 0 : -1;
}

static int finish(void **state)
{
	otte_clock_fake(0);
	assert_int_equal(there.verbs->dereg_mr(remote), 0);
	return ends_finish(state);
}

static void write_ends(enum ibv_wc_status status)
{
	memset(here.bytes, 0x99, 10);
	end_write(&here, 0, 10, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, status);
}

static void written(bool is)
{
	assert_int_equal(there.bytes[0], is ? 0x99 : 1);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static void over_a_cut_link_nothing_comes(void **state)
{
	(void)state;
	sim_link_set(here.device, there.device, false);
	write_ends(IBV_WC_RETRY_EXC_ERR);
	written(false);
	assert_int_equal(end_state(&here, here.qp), IBV_QPS_ERR);
	assert_int_equal(end_state(&there, there.qp), IBV_QPS_RTS);
}

static void a_link_that_is_joined_again_carries_again(void **state)
{
	(void)state;
	sim_link_set(here.device, there.device, false);
	sim_link_set(here.device, there.device, true);
	write_ends(IBV_WC_SUCCESS);
	written(true);
}

/* The requester cannot know. */
static void a_write_whose_answer_is_lost_was_done(void **state)
{
	(void)state;
	sim_path_set(there.device, here.device, false);
	write_ends(IBV_WC_RETRY_EXC_ERR);
	written(true);
}

static void a_send_whose_answer_is_lost_was_received(void **state)
{
	(void)state;
	sim_path_set(there.device, here.device, false);
	end_recv(&there, 0, 64);
	end_send(&here, 0, 10, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(end_received(&there).byte_len, 10);
}

static void a_read_whose_answer_is_lost_brings_nothing(void **state)
{
	(void)state;
	sim_path_set(there.device, here.device, false);
	end_read(&here, 0, 10, there.bytes, remote->rkey, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(here.bytes[0], 0);
}

static void a_port_that_is_down_reaches_nobody(void **state)
{
	(void)state;
	sim_port_set(there.device, 1, IBV_PORT_DOWN);
	write_ends(IBV_WC_RETRY_EXC_ERR);
	written(false);
}

static void an_own_port_that_is_down_reaches_nobody(void **state)
{
	(void)state;
	sim_port_set(here.device, 1, IBV_PORT_DOWN);
	write_ends(IBV_WC_RETRY_EXC_ERR);
	written(false);
}

static void an_address_that_is_gone_reaches_nobody(void **state)
{
	(void)state;
	sim_gid_set(there.device, 1, END_GID, "192.0.2.77", IBV_GID_TYPE_ROCE_V2);
	write_ends(IBV_WC_RETRY_EXC_ERR);
}

static void an_own_address_that_is_gone_reaches_nobody(void **state)
{
	(void)state;
	sim_gid_set(here.device, 1, END_GID, NULL, 0);
	write_ends(IBV_WC_RETRY_EXC_ERR);
}

/* The next packet that the other end expects, too. */
static void to_rts_with_psn(struct ibv_qp *qp, uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.sq_psn = psn,
		.max_rd_atomic = 1,
	};

	assert_int_equal(here.verbs->modify_qp(qp, &attr,
					       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static void a_queue_of_another_connection_does_not_listen(void **state)
{
	struct ibv_qp *stranger = end_create_qp(&here), *own = here.qp;

	(void)state;
	assert_int_equal(end_to_init(&here, stranger), 0);
	assert_int_equal(end_to_rtr(&here, stranger, &there, there.qp), 0);
	to_rts_with_psn(stranger, own->qp_num + 100);
	here.qp = stranger;
	write_ends(IBV_WC_RETRY_EXC_ERR);
	here.qp = own;
	write_ends(IBV_WC_SUCCESS);
	assert_int_equal(here.verbs->destroy_qp(stranger), 0);
}

/* With the same number of a queue, and all else but its address. */
static void a_queue_of_another_device_is_not_the_one_expected(void **state)
{
	static struct end impostor;

	(void)state;
	end_open(&impostor, sim_device_add(0, "mlx5_1"));
	assert_int_equal(impostor.qp->qp_num, here.qp->qp_num);
	end_connect(&impostor, impostor.qp, &there, there.qp);
	end_write(&impostor, 0, 10, there.bytes, remote->rkey, 0);
	assert_int_equal(end_sent(&impostor).status, IBV_WC_RETRY_EXC_ERR);
	written(false);
	end_close(&impostor);
}

static void two_queues_of_one_device_reach_each_other(void **state)
{
	struct ibv_qp *one = end_create_qp(&there), *other = end_create_qp(&there);
	struct ibv_qp *own = there.qp;

	(void)state;
	end_connect(&there, one, &there, other);
	end_connect(&there, other, &there, one);
	there.qp = one;
	end_write(&there, 100, 10, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&there).status, IBV_WC_SUCCESS);
	assert_memory_equal(there.bytes, there.bytes + 100, 10);
	there.qp = own;
	assert_int_equal(there.verbs->destroy_qp(one), 0);
	assert_int_equal(there.verbs->destroy_qp(other), 0);
}

/* Two rails of which only like ones reach each other. */
static void rails_may_be_apart(void **state)
{
	static struct end here2, there2;

	(void)state;
	end_open(&here2, sim_device_add(0, "mlx5_1"));
	end_open(&there2, sim_device_add(1, "mlx5_1"));
	sim_link_set(here.device, there2.device, false);
	sim_link_set(here2.device, there.device, false);
	end_connect(&here2, here2.qp, &there2, there2.qp);
	end_connect(&there2, there2.qp, &here2, here2.qp);
	end_write(&here2, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here2).status, IBV_WC_SUCCESS);
	write_ends(IBV_WC_SUCCESS);
	assert_int_equal(here2.verbs->destroy_qp(here2.qp), 0);
	here2.qp = end_create_qp(&here2);
	end_connect(&here2, here2.qp, &there, there.qp);
	end_write(&here2, 0, 0, NULL, 0, 0);
	assert_int_equal(end_sent(&here2).status, IBV_WC_RETRY_EXC_ERR);
	end_close(&here2);
	end_close(&there2);
}

/* InfiniBand without a global route. */
static void a_lid_is_an_address_too(void **state)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.ah_attr = { .dlid = 7, .port_num = 1 },
	};
	struct ibv_qp *one = end_create_qp(&there), *own = there.qp;

	(void)state;
	there.device->ports[0].attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
	there.device->ports[0].attr.lid = 7;
	attr.dest_qp_num = one->qp_num;
	attr.rq_psn = one->qp_num + 100;
	assert_int_equal(end_to_init(&there, one), 0);
	assert_int_equal(there.verbs->modify_qp(one, &attr,
						IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
							IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
							IBV_QP_MAX_DEST_RD_ATOMIC |
							IBV_QP_MIN_RNR_TIMER),
			 0);
	assert_int_equal(end_to_rts(&there, one), 0);
	there.qp = one;
	end_write(&there, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&there).status, IBV_WC_SUCCESS);
	there.qp = own;
	assert_int_equal(there.verbs->destroy_qp(one), 0);
}

/* ---- Patience -------------------------------------------------------------------------------- */

static void by_the_clock_a_request_waits_for_all_its_retries(void **state)
{
	(void)state;
	otte_clock_fake(1000);
	sim_retry_set(SIM_BY_CLOCK);
	sim_link_set(here.device, there.device, false);
	end_write(&here, 0, 0, NULL, 0, 0);
	otte_clock_fake(1000 + PATIENCE_NS - 1);
	end_is_idle(&here);
	otte_clock_fake(1000 + PATIENCE_NS);
	assert_int_equal(end_sent(&here).status, IBV_WC_RETRY_EXC_ERR);
}

static void a_link_that_comes_back_in_time_was_never_away(void **state)
{
	(void)state;
	otte_clock_fake(1000);
	sim_retry_set(SIM_BY_CLOCK);
	sim_link_set(here.device, there.device, false);
	memset(here.bytes, 0x99, 10);
	end_write(&here, 0, 10, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	otte_clock_fake(1000 + PATIENCE_NS - 1);
	end_is_idle(&here);
	sim_link_set(here.device, there.device, true);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	written(true);
}

/* It is not done a second time. */
static void an_answer_that_comes_late_is_that_of_before(void **state)
{
	(void)state;
	otte_clock_fake(1000);
	sim_retry_set(SIM_BY_CLOCK);
	sim_path_set(there.device, here.device, false);
	end_recv(&there, 0, 64);
	end_recv(&there, 0, 64);
	end_send(&here, 0, 10, IBV_SEND_SIGNALED);
	assert_int_equal(end_received(&there).byte_len, 10);
	end_is_idle(&here);
	sim_path_set(there.device, here.device, true);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	end_is_idle(&there);
	end_send(&here, 0, 11, 0);
	assert_int_equal(end_received(&there).byte_len, 11);
}

static void set_retries(uint8_t timeout, uint8_t rnr_retry)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };

	assert_int_equal(here.verbs->modify_qp(here.qp, &attr, IBV_QP_STATE), 0);
	attr.timeout = timeout;
	attr.rnr_retry = rnr_retry;
	assert_int_equal(here.verbs->modify_qp(here.qp, &attr, IBV_QP_TIMEOUT | IBV_QP_RNR_RETRY),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(here.verbs->modify_qp(here.qp, &attr, IBV_QP_STATE), 0);
}

static void timeout_0_waits_for_ever(void **state)
{
	(void)state;
	otte_clock_fake(1000);
	sim_retry_set(SIM_BY_CLOCK);
	set_retries(0, 7);
	sim_link_set(here.device, there.device, false);
	end_write(&here, 0, 0, NULL, 0, 0);
	otte_clock_fake(UINT64_MAX / 2);
	end_is_idle(&here);
	assert_int_equal(sim_counts(here.device).wrs, 1);
}

static void without_a_receive_the_retries_are_counted(void **state)
{
	(void)state;
	set_retries(14, 3);
	end_send(&here, 0, 10, 0);
	assert_int_equal(end_sent(&here).status, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(end_state(&there, there.qp), IBV_QPS_RTS);
}

/* What is behind it cannot even be sent, and is found out first. */
static void the_oldest_request_is_the_one_that_fails(void **state)
{
	uint64_t first;

	(void)state;
	otte_clock_fake(1000);
	sim_retry_set(SIM_BY_CLOCK);
	sim_reads_late(true);
	sim_link_set(here.device, there.device, false);
	first = end_read(&here, 0, 10, there.bytes, remote->rkey, 0);
	end_is_idle(&here);
	end_write(&here, END_BYTES - 9, 10, there.bytes, remote->rkey, 0);
	end_fails(&here, first, IBV_WC_RETRY_EXC_ERR);
	end_fails(&here, first + 1, IBV_WC_WR_FLUSH_ERR);
}

/* Each has a time of its own. */
static void who_was_heard_waits_for_an_answer_anew(void **state)
{
	(void)state;
	otte_clock_fake(1000);
	sim_retry_set(SIM_BY_CLOCK);
	sim_link_set(here.device, there.device, false);
	end_send(&here, 0, 10, IBV_SEND_SIGNALED);
	sim_link_set(here.device, there.device, true);
	otte_clock_fake(1000 + PATIENCE_NS);
	end_is_idle(&here);
	sim_link_set(here.device, there.device, false);
	otte_clock_fake(1000 + 2 * PATIENCE_NS - 1);
	end_is_idle(&here);
	otte_clock_fake(1000 + 2 * PATIENCE_NS);
	assert_int_equal(end_sent(&here).status, IBV_WC_RETRY_EXC_ERR);
}

/* The receiver's timer is 12: 640 us. */
static void without_a_receive_the_clock_is_the_receivers(void **state)
{
	(void)state;
	otte_clock_fake(1000);
	sim_retry_set(SIM_BY_CLOCK);
	set_retries(14, 3);
	end_send(&here, 0, 10, 0);
	otte_clock_fake(1000 + 3 * 640000 - 1);
	end_is_idle(&here);
	otte_clock_fake(1000 + 3 * 640000);
	assert_int_equal(end_sent(&here).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int run_fabric_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(over_a_cut_link_nothing_comes),
		TEST(a_link_that_is_joined_again_carries_again),
		TEST(a_write_whose_answer_is_lost_was_done),
		TEST(a_send_whose_answer_is_lost_was_received),
		TEST(a_read_whose_answer_is_lost_brings_nothing),
		TEST(a_port_that_is_down_reaches_nobody),
		TEST(an_own_port_that_is_down_reaches_nobody),
		TEST(an_address_that_is_gone_reaches_nobody),
		TEST(an_own_address_that_is_gone_reaches_nobody),
		TEST(a_queue_of_another_connection_does_not_listen),
		TEST(a_queue_of_another_device_is_not_the_one_expected),
		TEST(two_queues_of_one_device_reach_each_other),
		TEST(rails_may_be_apart),
		TEST(a_lid_is_an_address_too),
		TEST(by_the_clock_a_request_waits_for_all_its_retries),
		TEST(a_link_that_comes_back_in_time_was_never_away),
		TEST(an_answer_that_comes_late_is_that_of_before),
		TEST(timeout_0_waits_for_ever),
		TEST(without_a_receive_the_retries_are_counted),
		TEST(the_oldest_request_is_the_one_that_fails),
		TEST(who_was_heard_waits_for_an_answer_anew),
		TEST(without_a_receive_the_clock_is_the_receivers),
	};

	return cmocka_run_group_tests_name("fabric", tests, NULL, NULL);
}
