/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Transport local between two engines of one process, which are two peers of one host. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "unit/engine/pair.h"

static const uint64_t sizes[] = { 1, 17, 4096, 65537, 256 << 10, (256 << 10) + 1, (1 << 20) + 3, 16 << 20 };

static void trusted(struct otte_config *config)
{
	config->local_trusted = 1;
}

static uint32_t route(struct pair *pair)
{
	struct otte_task task;

	assert_int_equal(otte_batch_task(pair->batch, 0, &task), 0);
	return task.transport;
}

static void bytes_arrive_whole_and_nothing_beside_them(uint8_t op)
{
	const uint64_t size = 20 << 20, guard = 64;
	struct pair pair;
	size_t i;

	pair_open(&pair, size, trusted);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t n = sizes[i];
		uint8_t *from = op == OTTE_READ ? pair.remote_bytes : pair.local_bytes;
		uint8_t *to = op == OTTE_READ ? pair.local_bytes : pair.remote_bytes;

		pair_fill(from, size, (uint8_t)i);
		memset(to, 0xee, size);
		assert_int_equal(pair_run(&pair, op, guard, guard, n), 0);
		assert_int_equal(route(&pair), OTTE_TRANSPORT_LOCAL);
		assert_memory_equal(to + guard, from + guard, n);
		assert_int_equal(to[guard - 1], 0xee);
		assert_int_equal(to[guard + n], 0xee);
	}
	pair_close(&pair);
}

static void a_read_brings_the_exact_range_by_local(void **state)
{
	(void)state;
	bytes_arrive_whole_and_nothing_beside_them(OTTE_READ);
}

static void a_write_brings_the_exact_range_by_local(void **state)
{
	(void)state;
	bytes_arrive_whole_and_nothing_beside_them(OTTE_WRITE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_brings_the_exact_range_by_local),
		cmocka_unit_test(a_write_brings_the_exact_range_by_local),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
