/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Children of a process that NICs know memory of. */
#include <fcntl.h>
#include <sys/wait.h>

#include "room.h"

#include "transport/rdma/cq_lane.h"

static void with_libibverbs_of(int status, unsigned inits)
{
	struct pair pair;

	fork_state = status;
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	assert_int_equal(atomic_load(&fork_inits), inits);
	pair_close(&pair);
}

/*
 * By each engine, when it looks whether there are NICs and when it takes them; asked again it does
 * nothing.
 */
static void libibverbs_is_asked_where_the_kernel_does_not_do_it(void **state)
{
	(void)state;
	with_libibverbs_of(IBV_FORK_DISABLED, 4);
}

static void libibverbs_is_not_asked_where_the_kernel_does_it(void **state)
{
	(void)state;
	with_libibverbs_of(IBV_FORK_UNNEEDED, 0);
}

static void libibverbs_is_not_asked_twice(void **state)
{
	(void)state;
	with_libibverbs_of(IBV_FORK_ENABLED, 0);
}

/* Somebody else has registered memory: nothing of that is to be had by RDMA, and all else is. */
static void where_it_is_too_late_there_is_no_rdma(void **state)
{
	struct otte_request request;
	struct pair pair;

	(void)state;
	fork_state = IBV_FORK_DISABLED;
	fork_init_code = EINVAL;
	pair_open(&pair, SIZE, use_rdma);
	request = pair_request(&pair, OTTE_READ, 0, 0, 4096);
	request.transport = OTTE_TRANSPORT_RDMA;
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), -ENOSYS);
	assert_string_equal(
		otte_error_text(),
		"request 0: transport rdma: ibv_fork_init: Invalid argument; memory was registered "
		"without it, which no fork may come upon before Linux 5.12");
	assert_int_equal(run_over(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 4096).transport,
			 OTTE_TRANSPORT_TCP);
	assert_int_equal(sim_calls(SIM_OPEN_DEVICE), 0);
	pair_close(&pair);
}

/* It has no descriptor of any device, and is refused whatever it asks for. Its parent goes on. */
static void a_child_has_nothing_of_a_nic(void **state)
{
	struct otte_request request;
	int events, completions, status;
	struct pair pair;
	pid_t pid;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	events = joined(REQUESTER)->context->native->async_fd;
	completions = otte_rdma_lane_fd(joined(REQUESTER)->lane);
	request = pair_request(&pair, OTTE_READ, 0, 0, 4096);
	request.transport = OTTE_TRANSPORT_RDMA;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct otte_region_desc desc = { .mem = pair.local_mem, .length = 4096 };
		struct otte_region *region;

		MUST(fcntl(events, F_GETFD) == -1 && errno == EBADF);
		MUST(fcntl(completions, F_GETFD) == -1 && errno == EBADF);
		MUST(otte_batch_submit(pair.batch, &request, 1) == -EOWNERDEAD);
		MUST(otte_region_register(pair.requester, &desc, 1, &region) == -EOWNERDEAD);
		MUST(otte_engine_destroy(pair.requester) == -EOWNERDEAD);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(fcntl(events, F_GETFD), FD_CLOEXEC);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	pair_close(&pair);
	/* What has their numbers now is anybody's. */
	assert_int_equal(dup2(0, events), events);
	assert_int_equal(dup2(0, completions), completions);
	pid = fork();
	if (!pid) {
		MUST(fcntl(events, F_GETFD) != -1);
		MUST(fcntl(completions, F_GETFD) != -1);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(events);
	close(completions);
}

int run_fork_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(libibverbs_is_asked_where_the_kernel_does_not_do_it,
						room_start, nothing_is_left),
		cmocka_unit_test_setup_teardown(libibverbs_is_not_asked_where_the_kernel_does_it,
						room_start, nothing_is_left),
		cmocka_unit_test_setup_teardown(libibverbs_is_not_asked_twice, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(where_it_is_too_late_there_is_no_rdma, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_child_has_nothing_of_a_nic, room_start,
						nothing_is_left),
	};

	return cmocka_run_group_tests_name("forks", tests, NULL, NULL);
}
