/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/tail_lock.h"
#include "suites.h"

struct shared {
	struct otte_tail_lock lock;
	unsigned value, seen; /* under lock, or in its tail */
	_Atomic bool began, ended;
};

static void *look(void *arg)
{
	struct shared *shared = arg;

	shared->began = true;
	otte_tail_lock(&shared->lock);
	shared->seen = shared->value;
	otte_tail_unlock(&shared->lock);
	shared->ended = true;
	return NULL;
}

static void who_locks_waits_for_the_tail(void **state)
{
	struct shared shared = { .value = 1 };
	pthread_t thread;

	(void)state;
	otte_tail_lock_init(&shared.lock);
	otte_tail_lock(&shared.lock);
	shared.value = 2;
	otte_tail_detach(&shared.lock);
	pthread_create(&thread, NULL, look, &shared);
	while (!shared.began)
		usleep(100);
	usleep(20000);
	assert_false(shared.ended);
	shared.value = 3;
	otte_tail_end(&shared.lock);
	pthread_join(thread, NULL);
	assert_int_equal(shared.seen, 3);
	otte_tail_lock_fini(&shared.lock);
}

static void *lock_and_wait(void *arg)
{
	struct shared *shared = arg;

	shared->began = true;
	otte_tail_lock(&shared->lock);
	otte_tail_unlock(&shared->lock);
	pthread_testcancel();
	return NULL;
}

/* Who is cancelled while it waits takes no lock with it. */
static void a_cancelled_waiter_leaves_the_lock_to_others(void **state)
{
	struct shared shared = { .value = 0 };
	struct timespec until;
	pthread_t thread;
	void *result;

	(void)state;
	otte_tail_lock_init(&shared.lock);
	otte_tail_lock(&shared.lock);
	otte_tail_detach(&shared.lock);
	pthread_create(&thread, NULL, lock_and_wait, &shared);
	while (!shared.began)
		usleep(100);
	usleep(20000);
	pthread_cancel(thread);
	usleep(20000);
	otte_tail_end(&shared.lock);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 5;
	assert_int_equal(pthread_mutex_timedlock(&shared.lock.mutex, &until), 0);
	otte_tail_unlock(&shared.lock);
	otte_tail_lock_fini(&shared.lock);
}

#define TURNS 20000

/* Every other turn ends by the tail. */
static void *count(void *arg)
{
	struct shared *shared = arg;
	unsigned i;

	for (i = 0; i < TURNS; i++) {
		otte_tail_lock(&shared->lock);
		if (i % 2) {
			otte_tail_detach(&shared->lock);
			shared->value++;
			otte_tail_end(&shared->lock);
		} else {
			shared->value++;
			otte_tail_unlock(&shared->lock);
		}
	}
	return NULL;
}

static void one_at_a_time_is_in_it(void **state)
{
	struct shared shared = { .value = 0 };
	pthread_t threads[3];
	unsigned i;

	(void)state;
	otte_tail_lock_init(&shared.lock);
	for (i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, count, &shared);
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(shared.value, 3 * TURNS);
	otte_tail_lock_fini(&shared.lock);
}

int run_tail_lock_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_locks_waits_for_the_tail),
		cmocka_unit_test(a_cancelled_waiter_leaves_the_lock_to_others),
		cmocka_unit_test(one_at_a_time_is_in_it),
	};

	return cmocka_run_group_tests_name("tail_lock", tests, NULL, NULL);
}
