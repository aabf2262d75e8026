/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who may touch which bytes, against a model that keeps a count of readers and a mark for each byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/access.h"

#define BYTES 512
#define HANDLES 96
#define STEPS 200000

static uint64_t seed = 20260730;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 16) % below;
}

struct handle {
	struct otte_access access;
	bool live;
};

static unsigned readers[BYTES];
static bool written[BYTES];

static bool free_for(uint64_t start, uint64_t end, bool write)
{
	uint64_t i;

	for (i = start; i < end; i++)
		if (written[i] || (write && readers[i]))
			return false;
	return true;
}

static void mark(const struct handle *handle, bool begin)
{
	uint64_t i;

	for (i = handle->access.range.start; i < handle->access.range.end; i++) {
		if (handle->access.write)
			written[i] = begin;
		else
			readers[i] += begin ? 1 : -1;
	}
}

static void readers_share_and_a_writer_excludes(void **state)
{
	static struct handle handles[HANDLES];
	struct otte_access_map map;
	unsigned i, granted = 0, refused = 0, live = 0;

	(void)state;
	otte_access_map_init(&map);
	for (i = 0; i < STEPS; i++) {
		struct handle *handle = &handles[draw(HANDLES)];
		uint64_t start = draw(BYTES - 1), length = 1 + draw(draw(4) ? 8 : BYTES - start);
		bool write = draw(3) == 0;
		int ret;

		if (handle->live) {
			mark(handle, false);
			otte_access_end(&map, &handle->access);
			handle->live = false;
			live--;
		} else {
			if (start + length > BYTES)
				length = BYTES - start;
			ret = otte_access_begin(&map, &handle->access, start, length, write);
			assert_int_equal(ret, free_for(start, start + length, write) ? 0 : -EBUSY);
			handle->live = ret == 0;
			if (handle->live)
				mark(handle, true);
			live += handle->live;
			granted += handle->live;
			refused += !handle->live;
		}
		assert_int_equal(otte_access_any(&map), live > 0);
	}
	assert_true(granted > STEPS / 10 && refused > STEPS / 10);
	for (i = 0; i < HANDLES; i++)
		if (handles[i].live)
			otte_access_end(&map, &handles[i].access);
	assert_false(otte_access_any(&map));
	otte_access_map_fini(&map);
}

static void neighbours_do_not_touch(void **state)
{
	struct otte_access left, right, over;
	struct otte_access_map map;

	(void)state;
	otte_access_map_init(&map);
	assert_int_equal(otte_access_begin(&map, &left, 0, 10, true), 0);
	assert_int_equal(otte_access_begin(&map, &right, 10, 10, true), 0);
	assert_int_equal(otte_access_begin(&map, &over, 9, 2, false), -EBUSY);
	otte_access_end(&map, &left);
	assert_int_equal(otte_access_begin(&map, &over, 0, 10, false), 0);
	otte_access_end(&map, &over);
	otte_access_end(&map, &right);
	otte_access_map_fini(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readers_share_and_a_writer_excludes),
		cmocka_unit_test(neighbours_do_not_touch),
	};

	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
