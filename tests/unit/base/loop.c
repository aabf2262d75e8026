/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is set aside comes back. The rest of the loop is tested by everything that runs one. */
#include "suites.h"

#include <poll.h>
#include <unistd.h>

#include "base/loop.h"

static unsigned called;
static uint32_t told;

struct aside {
	struct otte_loop loop;
	struct otte_watch watch;
	int fd[2];
};

static void ready(struct otte_watch *watch, uint32_t events)
{
	(void)watch;
	called++;
	told = events;
}

static void open_aside(struct aside *aside)
{
	called = 0;
	*aside = (struct aside){ .watch.ready = ready };
	assert_int_equal(pipe(aside->fd), 0);
	assert_int_equal(write(aside->fd[1], "x", 1), 1);
	aside->watch.fd = aside->fd[0];
	assert_int_equal(otte_loop_init(&aside->loop), 0);
	assert_int_equal(otte_loop_add(&aside->loop, &aside->watch, EPOLLIN), 0);
	otte_loop_set_aside(&aside->loop, &aside->watch);
}

static void close_aside(struct aside *aside)
{
	otte_loop_remove(&aside->loop, &aside->watch);
	assert_false(aside->watch.aside);
	otte_loop_fini(&aside->loop);
	close(aside->fd[0]);
	close(aside->fd[1]);
}

/* Whether the set has anything to tell, without a round. */
static bool has_news(const struct aside *aside)
{
	struct pollfd set = { .fd = aside->loop.epoll_fd, .events = POLLIN };

	return poll(&set, 1, 0) == 1;
}

static void the_set_hears_nothing_of_what_is_aside_until_it_is_brought_back(void **state)
{
	struct aside aside;

	(void)state;
	open_aside(&aside);
	otte_loop_set_aside(&aside.loop, &aside.watch);
	assert_false(has_news(&aside));
	otte_loop_bring_back(&aside.loop);
	assert_true(has_news(&aside));
	otte_loop_bring_back(&aside.loop);
	otte_loop_run(&aside.loop, 0);
	assert_int_equal(called, 1);
	close_aside(&aside);
}

static void a_round_brings_back(void **state)
{
	struct aside aside;

	(void)state;
	open_aside(&aside);
	otte_loop_run(&aside.loop, 0);
	assert_int_equal(called, 1);
	assert_int_equal(told, EPOLLIN);
	close_aside(&aside);
}

static void what_is_aside_can_be_changed_and_removed(void **state)
{
	struct aside aside;

	(void)state;
	open_aside(&aside);
	assert_int_equal(otte_loop_change(&aside.loop, &aside.watch, 0), 0);
	otte_loop_bring_back(&aside.loop);
	assert_false(has_news(&aside));
	assert_int_equal(otte_loop_change(&aside.loop, &aside.watch, EPOLLIN), 0);
	assert_true(has_news(&aside));
	otte_loop_set_aside(&aside.loop, &aside.watch);
	otte_loop_remove(&aside.loop, &aside.watch);
	otte_loop_run(&aside.loop, 0);
	assert_int_equal(called, 0);
	close_aside(&aside);
}

static void nothing_is_aside_of_a_loop_that_is_kept_whole(void **state)
{
	struct aside aside;

	(void)state;
	open_aside(&aside);
	otte_loop_keep_whole(&aside.loop, true);
	assert_true(has_news(&aside));
	otte_loop_set_aside(&aside.loop, &aside.watch);
	assert_true(has_news(&aside));
	otte_loop_keep_whole(&aside.loop, false);
	otte_loop_set_aside(&aside.loop, &aside.watch);
	assert_false(has_news(&aside));
	close_aside(&aside);
}

int run_loop_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_set_hears_nothing_of_what_is_aside_until_it_is_brought_back),
		cmocka_unit_test(a_round_brings_back),
		cmocka_unit_test(what_is_aside_can_be_changed_and_removed),
		cmocka_unit_test(nothing_is_aside_of_a_loop_that_is_kept_whole),
	};

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
