/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Many threads post on one QP while the lane's thread polls; in the end everything balances. */
#include "ends.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/util.h"

#define POSTERS 4
#define READS 500

static struct otte_rdma_window *window;
static _Atomic unsigned int done;
static _Atomic bool stopped;

static void count(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	(void)work;
	if (!outcome->code)
		atomic_fetch_add(&done, 1);
}

static void *post_reads(void *arg)
{
	static struct otte_rdma_work works[POSTERS][READS];
	unsigned int poster = *(unsigned int *)arg, i;
	struct otte_rdma_send send = payload(OTTE_RDMA_READ, poster * 64, 64, window->key);
	uint32_t accepted;

	for (i = 0; i < READS; i++) {
		works[poster][i].done = count;
		send.work = &works[poster][i];
		while (otte_rdma_qp_post(requester.qp, &send, 1, &accepted) == -EAGAIN)
			sched_yield();
	}
	return NULL;
}

static void *poll_lane(void *arg)
{
	(void)arg;
	while (!atomic_load(&stopped))
		end_poll(&requester);
	return NULL;
}

static void what_many_threads_post_is_told_once_each(void **state)
{
	static unsigned int numbers[POSTERS];
	pthread_t posters[POSTERS], poller;
	unsigned int i;

	(void)state;
	window = source_bind(0, 4096, OTTE_READ);
	sim_progress_set(SIM_THREAD, 0);
	atomic_store(&done, 0);
	atomic_store(&stopped, false);
	assert_int_equal(pthread_create(&poller, NULL, poll_lane, NULL), 0);
	for (i = 0; i < POSTERS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&posters[i], NULL, post_reads, &numbers[i]), 0);
	}
	for (i = 0; i < POSTERS; i++)
		pthread_join(posters[i], NULL);
	while (atomic_load(&done) < POSTERS * READS)
		sched_yield();
	atomic_store(&stopped, true);
	pthread_join(poller, NULL);
	sim_progress_set(SIM_INLINE, 0);
	assert_int_equal(requester.qp->send.posted, POSTERS * READS);
	assert_int_equal(requester.qp->send.completed, POSTERS * READS);
	assert_charged(&requester, 0, 0);
	otte_rdma_qp_drain(source.qp, -ECANCELED, "done");
	assert_int_equal(otte_rdma_window_free(window), 0);
}

static void *fence_lane(void *arg)
{
	(void)arg;
	otte_rdma_lane_fence(requester.lane, -ESTALE, "the route is another");
	return NULL;
}

static void *post_until_fenced(void *arg)
{
	const struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 8, window->key);
	unsigned int *posted = arg;
	uint32_t accepted;
	int rc;

	do {
		rc = otte_rdma_qp_post(requester.qp, &send, 1, &accepted);
		*posted += accepted;
	} while (rc != -ESHUTDOWN);
	return NULL;
}

static void a_fence_stops_who_posts(void **state)
{
	unsigned int posted[POSTERS] = {}, total = 0, i;
	pthread_t posters[POSTERS], poller, fencer;

	(void)state;
	window = source_bind(0, 4096, OTTE_READ);
	sim_progress_set(SIM_THREAD, 0);
	atomic_store(&stopped, false);
	assert_int_equal(pthread_create(&poller, NULL, poll_lane, NULL), 0);
	for (i = 0; i < POSTERS; i++)
		assert_int_equal(pthread_create(&posters[i], NULL, post_until_fenced, &posted[i]),
				 0);
	assert_int_equal(pthread_create(&fencer, NULL, fence_lane, NULL), 0);
	pthread_join(fencer, NULL);
	for (i = 0; i < POSTERS; i++) {
		pthread_join(posters[i], NULL);
		total += posted[i];
	}
	while (!otte_rdma_qp_is_drained(requester.qp))
		sched_yield();
	atomic_store(&stopped, true);
	pthread_join(poller, NULL);
	sim_progress_set(SIM_INLINE, 0);
	assert_int_equal(requester.qp->send.posted, total);
	assert_fenced(&requester, -ESTALE, "the route is another");
	otte_rdma_qp_drain(source.qp, -ECANCELED, "done");
	assert_int_equal(otte_rdma_window_free(window), 0);
}

static struct otte_rdma_qp *_Atomic built;

/* One at a time, as long as the lane's thread keeps up. */
static void *build_qps(void *arg)
{
	const struct otte_rdma_qp_params params = requester_params();
	struct otte_rdma_qp *qp;
	unsigned int i;

	(void)arg;
	for (i = 0; i < 200; i++) {
		qp = end_create_qp(&requester, &params);
		assert_int_equal(otte_rdma_qp_connect(qp, &qp->end), 0);
		while (atomic_load(&built))
			sched_yield();
		atomic_store(&built, qp);
	}
	while (atomic_load(&built))
		sched_yield();
	atomic_store(&stopped, true);
	return NULL;
}

static void qps_come_by_one_thread_and_go_by_the_lanes(void **state)
{
	const struct otte_rdma_send send = payload(OTTE_RDMA_READ, 0, 8, 1);
	struct otte_rdma_qp *qp;
	unsigned int posted = 0;
	uint32_t accepted;
	pthread_t builder;

	(void)state;
	sim_progress_set(SIM_THREAD, 0);
	atomic_store(&stopped, false);
	assert_int_equal(pthread_create(&builder, NULL, build_qps, NULL), 0);
	while (!atomic_load(&stopped)) {
		end_poll(&requester);
		qp = atomic_load(&built);
		if (!qp)
			continue;
		assert_int_equal(otte_rdma_qp_post(qp, &send, 1, &accepted), 0);
		posted++;
		while (!otte_rdma_qp_is_drained(qp))
			end_poll(&requester);
		assert_int_equal(otte_rdma_qp_destroy(qp), 0);
		atomic_store(&built, NULL);
	}
	pthread_join(builder, NULL);
	sim_progress_set(SIM_INLINE, 0);
	assert_int_equal(posted, 200);
	assert_int_equal(lane_status(&requester).qps, 0);
	assert_int_equal(lane_status(&requester).sends, 0);
	assert_int_equal(lane_status(&requester).state, OTTE_RDMA_LANE_OPEN);
}

static void *ask_lane(void *arg)
{
	struct otte_rdma_lane_status status = { .state = OTTE_RDMA_LANE_OPEN };

	while (status.state != OTTE_RDMA_LANE_RETAINED)
		otte_rdma_lane_status(arg, &status);
	return NULL;
}

static void a_lane_that_stays_may_be_asked_meanwhile(void **state)
{
	pthread_t asker;

	(void)state;
	assert_int_equal(pthread_create(&asker, NULL, ask_lane, requester.lane), 0);
	fail_call(SIM_DESTROY_CQ, EBUSY);
	assert_int_equal(otte_rdma_lane_destroy(requester.lane), -EUCLEAN);
	pthread_join(asker, NULL);
	assert_int_equal(lane_status(&requester).code, -EUCLEAN);
	assert_int_equal(otte_rdma_lane_destroy(requester.lane), -EUCLEAN);
	requester.lane = NULL;
}

int run_thread_tests(void)
{
	const struct CMUnitTest tests[] = {
#define NONE(test) cmocka_unit_test_setup_teardown(test, ends_open, ends_finish)
#define PAIR(test) cmocka_unit_test_setup_teardown(test, ends_start, ends_finish)
		PAIR(what_many_threads_post_is_told_once_each),
		PAIR(a_fence_stops_who_posts),
		NONE(qps_come_by_one_thread_and_go_by_the_lanes),
		cmocka_unit_test_setup_teardown(a_lane_that_stays_may_be_asked_meanwhile, ends_open, ends_forget),
	};

	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
