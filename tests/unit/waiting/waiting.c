/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The order in which works of a peer have their turn, against a plain model of it.
 */
#include "transport/rdma/waiting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <utlist.h>

#define AGING_NS 10000000ull
#define HIGH 0
#define MEDIUM 1
#define LOW 2

static struct otte_work *works;

static struct otte_work *work(unsigned int index, uint8_t priority)
{
	works[index].priority = priority;
	return &works[index];
}

/* The indices of those that wait, as a word: "0 2 1". */
static void assert_order(struct otte_work *queue, const char *expected)
{
	struct otte_work *each;
	char order[512] = "";

	DL_FOREACH2(queue, each, own.next)
		sprintf(order + strlen(order), "%s%d", *order ? " " : "", (int)(each - works));
	assert_string_equal(order, expected);
}

static void order_of_arrival_within_a_priority(void **state)
{
	struct otte_work *queue = NULL;
	unsigned int i;

	(void)state;
	for (i = 0; i < 5; i++)
		otte_rdma_waiting_add(&queue, work(i, LOW), 1000, AGING_NS);
	assert_order(queue, "0 1 2 3 4");
}

static void a_higher_one_goes_ahead(void **state)
{
	struct otte_work *queue = NULL;

	(void)state;
	otte_rdma_waiting_add(&queue, work(0, LOW), 1000, AGING_NS);
	otte_rdma_waiting_add(&queue, work(1, LOW), 1001, AGING_NS);
	otte_rdma_waiting_add(&queue, work(2, MEDIUM), 1002, AGING_NS);
	otte_rdma_waiting_add(&queue, work(3, HIGH), 1003, AGING_NS);
	otte_rdma_waiting_add(&queue, work(4, MEDIUM), 1004, AGING_NS);
	otte_rdma_waiting_add(&queue, work(5, HIGH), 1005, AGING_NS);
	assert_order(queue, "3 5 2 4 0 1");
}

static void nobody_goes_ahead_of_who_has_waited(void **state)
{
	struct otte_work *queue = NULL;

	(void)state;
	otte_rdma_waiting_add(&queue, work(0, LOW), 1000, AGING_NS);
	otte_rdma_waiting_add(&queue, work(1, LOW), 1500, AGING_NS);
	otte_rdma_waiting_add(&queue, work(2, HIGH), 1000 + AGING_NS - 1, AGING_NS);
	assert_order(queue, "2 0 1");
	otte_rdma_waiting_add(&queue, work(3, HIGH), 1000 + AGING_NS, AGING_NS);
	assert_order(queue, "2 0 3 1");
	otte_rdma_waiting_add(&queue, work(4, HIGH), 1500 + AGING_NS, AGING_NS);
	assert_order(queue, "2 0 3 1 4");
}

static void without_aging_a_higher_one_always_goes_ahead(void **state)
{
	struct otte_work *queue = NULL;

	(void)state;
	otte_rdma_waiting_add(&queue, work(0, LOW), 1000, 0);
	otte_rdma_waiting_add(&queue, work(1, HIGH), 1000 + 1000 * AGING_NS, 0);
	assert_order(queue, "1 0");
}

/* Two threads that read the clock and take the lock in another order. */
static void a_clock_that_was_read_late_overtakes_nobody_wrongly(void **state)
{
	struct otte_work *queue = NULL;

	(void)state;
	otte_rdma_waiting_add(&queue, work(0, LOW), 2000, AGING_NS);
	otte_rdma_waiting_add(&queue, work(1, HIGH), 1000, AGING_NS);
	assert_order(queue, "1 0");
}

static void what_goes_on_lets_higher_ones_pass(void **state)
{
	struct otte_work *queue = NULL, *long_one = work(9, MEDIUM);

	(void)state;
	otte_rdma_waiting_return(&queue, long_one);
	assert_order(queue, "9");
	DL_DELETE2(queue, long_one, own.prev, own.next);
	otte_rdma_waiting_add(&queue, work(0, HIGH), 1000, AGING_NS);
	otte_rdma_waiting_return(&queue, long_one);
	assert_order(queue, "0 9");
	DL_DELETE2(queue, long_one, own.prev, own.next);
	otte_rdma_waiting_add(&queue, work(1, MEDIUM), 1001, AGING_NS);
	otte_rdma_waiting_add(&queue, work(2, LOW), 1002, AGING_NS);
	otte_rdma_waiting_return(&queue, long_one);
	assert_order(queue, "0 9 1 2");
}

/* However many others come, one that waits has its turn after those that came within the time. */
static void no_stream_keeps_one_waiting(void **state)
{
	struct otte_work *queue = NULL, *first;
	uint64_t now_ns = 1000;
	unsigned int i, turns = 0;

	(void)state;
	otte_rdma_waiting_add(&queue, work(0, LOW), now_ns, AGING_NS);
	for (i = 1; i == 1 || queue != &works[0]; i++) {
		/* Two come for each that goes. */
		otte_rdma_waiting_add(&queue, work(2 * i, HIGH), now_ns, AGING_NS);
		otte_rdma_waiting_add(&queue, work(2 * i + 1, HIGH), now_ns, AGING_NS);
		first = queue;
		DL_DELETE2(queue, first, own.prev, own.next);
		turns++;
		assert_true(turns < 20);
		now_ns += AGING_NS / 4;
	}
	/* Four times two came within the time. */
	assert_int_equal(turns, 8);
}

static int have_works(void **state)
{
	(void)state;
	works = calloc(64, sizeof(*works));
	return !works;
}

static int have_none(void **state)
{
	(void)state;
	free(works);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_of_arrival_within_a_priority),
		cmocka_unit_test(a_higher_one_goes_ahead),
		cmocka_unit_test(nobody_goes_ahead_of_who_has_waited),
		cmocka_unit_test(without_aging_a_higher_one_always_goes_ahead),
		cmocka_unit_test(a_clock_that_was_read_late_overtakes_nobody_wrongly),
		cmocka_unit_test(what_goes_on_lets_higher_ones_pass),
		cmocka_unit_test(no_stream_keeps_one_waiting),
	};

	return cmocka_run_group_tests(tests, have_works, have_none);
}
