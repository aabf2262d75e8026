/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* When work is done: step by step, by chance (SEED=N draws others), late, or by a thread. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ends.h"
#include "suites.h"

static struct ibv_mr *remote;
static uint64_t seed = 20261130;

static unsigned int draw(unsigned int below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned int)(seed >> 33) % below;
}

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
	assert_int_equal(there.verbs->dereg_mr(remote), 0);
	return ends_finish(state);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void a_step_is_one_request(void **state)
{
	(void)state;
	sim_progress_set(SIM_STEPPED, 0);
	end_read(&here, 0, 1, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	end_read(&here, 1, 1, there.bytes + 1, remote->rkey, IBV_SEND_SIGNALED);
	end_is_idle(&here);
	assert_int_equal(sim_counts(here.device).wrs, 2);
	assert_true(sim_step());
	assert_int_equal(here.bytes[0], 1);
	assert_int_equal(here.bytes[1], 0);
	assert_int_equal(sim_counts(here.device).wrs, 1);
	assert_int_equal(sim_drain(), 1);
	assert_int_equal(here.bytes[1], 2);
	assert_false(sim_step());
}

static void queues_take_turns(void **state)
{
	int i;

	(void)state;
	sim_progress_set(SIM_STEPPED, 0);
	for (i = 0; i < 2; i++) {
		end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
		end_write(&there, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
	}
	for (i = 0; i < 2; i++) {
		assert_true(sim_step());
		assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
		end_is_idle(&there);
		assert_true(sim_step());
		assert_int_equal(end_sent(&there).status, IBV_WC_SUCCESS);
		end_is_idle(&here);
	}
}

/* Which of two queues was first, eight times: a bit for each. */
static unsigned int order_by(uint64_t chance)
{
	unsigned int order = 0;
	struct ibv_wc wc;
	int i;

	sim_progress_set(SIM_STEPPED, chance);
	for (i = 0; i < 8; i++) {
		end_write(&here, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
		end_write(&there, 0, 0, NULL, 0, IBV_SEND_SIGNALED);
		assert_true(sim_step());
		order = order << 1 | (here.verbs->poll_cq(here.sends, 1, &wc) == 1);
		sim_drain();
		while (here.verbs->poll_cq(here.sends, 1, &wc) ||
		       there.verbs->poll_cq(there.sends, 1, &wc))
			;
	}
	return order;
}

static void by_chance_the_order_is_that_of_the_seed(void **state)
{
	unsigned int different = 0, i;

	(void)state;
	assert_int_equal(order_by(0), 0xff);
	assert_int_equal(order_by(seed), order_by(seed));
	for (i = 1; i <= 16; i++)
		different += order_by(seed + i) != order_by(seed);
	assert_true(different > 0);
}

/* What an end has posted and not yet found: the ids of its signalled sends, and of its receives. */
struct expected {
	struct end *end;
	uint64_t sends[END_WRS], recvs[END_WRS];
	unsigned int send_count, recv_count;
	unsigned int slots; /* of sends, not given back */
	unsigned int silent; /* the last of them, not signalled */
	uint64_t read;
};

static void expect_next(uint64_t *ids, unsigned int *count, const struct ibv_wc *wc)
{
	assert_true(*count > 0);
	assert_int_equal(wc->status, IBV_WC_SUCCESS);
	assert_int_equal(wc->wr_id, ids[0]);
	memmove(ids, ids + 1, --*count * sizeof(*ids));
}

static void find(struct expected *own)
{
	struct ibv_wc wc;

	while (own->end->verbs->poll_cq(own->end->sends, 1, &wc)) {
		expect_next(own->sends, &own->send_count, &wc);
		if (!own->send_count)
			own->slots = own->silent;
	}
	while (own->end->verbs->poll_cq(own->end->recvs, 1, &wc))
		expect_next(own->recvs, &own->recv_count, &wc);
}

static void post_any(struct expected *own, struct expected *other, const struct ibv_mr *mr)
{
	const unsigned int fence = draw(2) ? IBV_SEND_FENCE : 0;
	const bool signals = own->silent == 3 || draw(2);
	const unsigned int flags = fence | (signals ? IBV_SEND_SIGNALED : 0);
	const uint32_t length = draw(64);
	uint64_t id;

	switch (other->recv_count < END_WRS ? draw(3) : draw(2)) {
	case 0:
		id = end_read(own->end, 8192 + draw(64), length, mr->addr, mr->rkey, flags);
		own->read += length;
		break;
	case 1:
		id = end_write(own->end, 8192, length, mr->addr, mr->rkey, flags);
		break;
	default:
		other->recvs[other->recv_count++] = end_recv(other->end, 16384, 64);
		id = end_send(own->end, 8192, length, flags);
		break;
	}
	own->slots++;
	own->silent = signals ? 0 : own->silent + 1;
	if (signals)
		own->sends[own->send_count++] = id;
}

#define POSTS 5000

static void whatever_is_posted_completes_once_and_in_order(void **state)
{
	struct ibv_mr *own = here.verbs->reg_mr(here.pd, here.bytes, 4096,
						IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
							IBV_ACCESS_REMOTE_WRITE);
	struct expected ends[2] = { { .end = &here }, { .end = &there } };
	unsigned int i, which;

	(void)state;
	assert_non_null(own);
	sim_progress_set(SIM_STEPPED, seed | 1);
	for (i = 0; i < POSTS; i++) {
		which = draw(2);
		sim_reads_late(draw(2));
		if (ends[which].slots == END_WRS || !draw(8))
			sim_drain();
		else if (draw(2))
			sim_step();
		find(&ends[0]);
		find(&ends[1]);
		if (ends[which].slots < END_WRS)
			post_any(&ends[which], &ends[!which], which ? own : remote);
	}
	sim_drain();
	find(&ends[0]);
	find(&ends[1]);
	assert_int_equal(ends[0].send_count + ends[1].send_count, 0);
	assert_int_equal(ends[0].recv_count + ends[1].recv_count, 0);
	assert_int_equal(sim_counts(NULL).wrs, 0);
	assert_int_equal(sim_counts(here.device).bytes_read, ends[0].read);
	assert_int_equal(sim_counts(there.device).bytes_read, ends[1].read);
	assert_int_equal(here.verbs->dereg_mr(own), 0);
}

/* ---- Late READs ------------------------------------------------------------------------------ */

static struct ibv_mw *window;

/* A READ of a window, and its invalidation behind it. */
static void race(unsigned int fence)
{
	window = end_window(&there, 0, 100, IBV_ACCESS_REMOTE_READ);
	sim_reads_late(true);
	end_recv(&there, 8192, 64);
	sim_progress_set(SIM_STEPPED, 0);
	end_read(&here, 0, 10, there.bytes, window->rkey, IBV_SEND_SIGNALED);
	end_send_inv(&here, 0, 1, window->rkey, fence | IBV_SEND_SIGNALED);
	sim_drain();
}

static void without_a_fence_an_invalidation_overtakes_a_read(void **state)
{
	(void)state;
	race(0);
	assert_int_equal(end_sent(&here).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(end_sent(&here).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_received(&there).status, IBV_WC_SUCCESS);
	assert_int_equal(here.bytes[0], 0);
	assert_int_equal(there.verbs->dealloc_mw(window), 0);
}

static void with_a_fence_it_does_not(void **state)
{
	(void)state;
	race(IBV_SEND_FENCE);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_int_equal(end_received(&there).status, IBV_WC_SUCCESS);
	assert_int_equal(here.bytes[9], 10);
	assert_int_equal(there.verbs->dealloc_mw(window), 0);
}

static void late_reads_keep_the_order_of_completions(void **state)
{
	uint64_t first;

	(void)state;
	sim_reads_late(true);
	sim_progress_set(SIM_STEPPED, 0);
	first = end_read(&here, 0, 10, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	end_write(&here, 100, 10, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	assert_true(sim_step());
	assert_true(sim_step());
	assert_int_equal(there.bytes[0], 0);
	end_is_idle(&here);
	assert_true(sim_step());
	assert_int_equal(end_sent(&here).wr_id, first);
	assert_int_equal(end_sent(&here).wr_id, first + 1);
	assert_int_equal(here.bytes[0], 0);
}

/* 4 are outstanding at most; the fifth begins when the first has ended. */
static void no_more_reads_are_outstanding_than_was_agreed(void **state)
{
	int i;

	(void)state;
	sim_reads_late(true);
	sim_progress_set(SIM_STEPPED, 0);
	for (i = 0; i < 5; i++)
		end_read(&here, (size_t)i, 1, there.bytes + i, remote->rkey, IBV_SEND_SIGNALED);
	for (i = 0; i < 4; i++)
		assert_true(sim_step());
	end_is_idle(&here);
	assert_true(sim_step());
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_int_equal(sim_drain(), 5);
	for (i = 0; i < 4; i++)
		assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_memory_equal(here.bytes, there.bytes, 5);
}

static void a_failure_comes_after_the_reads_before_it(void **state)
{
	(void)state;
	sim_reads_late(true);
	sim_progress_set(SIM_STEPPED, 0);
	end_read(&here, 0, 10, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	end_write(&here, 100, 10, there.bytes, remote->rkey + 1, 0);
	sim_drain();
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_int_equal(end_sent(&here).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(here.bytes[9], 10);
}

/* ---- A thread -------------------------------------------------------------------------------- */

static void a_thread_does_the_work_by_itself(void **state)
{
	struct ibv_wc wc = {};
	int n = 0;

	(void)state;
	sim_progress_set(SIM_THREAD, 0);
	end_read(&here, 0, 100, there.bytes, remote->rkey, IBV_SEND_SIGNALED);
	while (!n)
		n = here.verbs->poll_cq(here.sends, 1, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(here.bytes, there.bytes, 100);
	sim_progress_set(SIM_INLINE, 0);
}

#define ROUNDS 200
#define CHUNK 64

/* Reads its own part, again and again, over its own queue pair. */
struct reader {
	struct ibv_qp *qp, *other;
	struct ibv_cq *cq;
	size_t at;
};

static void *read_all(void *arg)
{
	struct reader *reader = arg;
	struct ibv_sge sge = { (uintptr_t)here.bytes + reader->at, CHUNK, here.local->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { (uintptr_t)there.bytes + reader->at, remote->rkey },
	}, *bad;
	struct ibv_wc wc;
	int i, n;

	for (i = 0; i < ROUNDS; i++) {
		memset(here.bytes + reader->at, 0, CHUNK);
		wr.wr_id = (uint64_t)i;
		assert_int_equal(here.verbs->post_send(reader->qp, &wr, &bad), 0);
		while (!(n = here.verbs->poll_cq(reader->cq, 1, &wc)))
			sched_yield();
		assert_int_equal(n, 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, i);
		assert_memory_equal(here.bytes + reader->at, there.bytes + reader->at, CHUNK);
	}
	return NULL;
}

static void read_by_threads(enum sim_progress progress)
{
	struct reader readers[4];
	struct ibv_cq *sends = here.sends;
	pthread_t threads[4];
	int i;

	for (i = 0; i < 4; i++) {
		here.sends = here.verbs->create_cq(here.context, 4, NULL, NULL, 0);
		readers[i] = (struct reader){ end_create_qp(&here), end_create_qp(&there),
					      here.sends, (size_t)i * CHUNK };
		end_connect(&here, readers[i].qp, &there, readers[i].other);
		end_connect(&there, readers[i].other, &here, readers[i].qp);
	}
	here.sends = sends;
	sim_progress_set(progress, 0);
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	sim_progress_set(SIM_INLINE, 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(here.verbs->destroy_qp(readers[i].qp), 0);
		assert_int_equal(there.verbs->destroy_qp(readers[i].other), 0);
		assert_int_equal(here.verbs->destroy_cq(readers[i].cq), 0);
	}
	assert_int_equal(sim_counts(here.device).bytes_read, 4 * ROUNDS * CHUNK);
}

static void threads_do_not_disturb_each_other(void **state)
{
	(void)state;
	read_by_threads(SIM_INLINE);
}

static void nor_does_the_simulators(void **state)
{
	(void)state;
	read_by_threads(SIM_THREAD);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int run_progress_tests(void)
{
	const char *given = getenv("SEED");
	const struct CMUnitTest tests[] = {
		TEST(a_step_is_one_request),
		TEST(queues_take_turns),
		TEST(by_chance_the_order_is_that_of_the_seed),
		TEST(whatever_is_posted_completes_once_and_in_order),
		TEST(without_a_fence_an_invalidation_overtakes_a_read),
		TEST(with_a_fence_it_does_not),
		TEST(late_reads_keep_the_order_of_completions),
		TEST(no_more_reads_are_outstanding_than_was_agreed),
		TEST(a_failure_comes_after_the_reads_before_it),
		TEST(a_thread_does_the_work_by_itself),
		TEST(threads_do_not_disturb_each_other),
		TEST(nor_does_the_simulators),
	};

	if (given)
		seed = strtoull(given, NULL, 0);
	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
