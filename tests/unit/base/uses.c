/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/uses.h"
#include "suites.h"

#define MINE 5u
#define OTHERS 6u

static int open_table(void **state)
{
	*state = calloc(1, sizeof(struct otte_uses));
	return *state ? 0 : -1;
}

static int close_table(void **state)
{
	free(*state);
	return 0;
}

static bool is_free(struct otte_uses *uses, uint64_t at)
{
	int use = otte_uses_begin(uses, 99, at, at + 1, true);

	if (use >= 0)
		otte_uses_end(uses, use);
	return use >= 0;
}

static void a_use_that_is_over_is_in_nobodys_way(void **state)
{
	struct otte_uses *uses = *state;
	int use = otte_uses_begin(uses, MINE, 0, 4096, true);

	assert_true(use >= 0);
	assert_false(is_free(uses, 4095));
	assert_true(is_free(uses, 4096));
	otte_uses_end(uses, use);
	assert_true(is_free(uses, 4095));
}

/* What the last use of a slot said at its end says nothing of the next. */
static void its_slot_is_the_next_ones(void **state)
{
	struct otte_uses *uses = *state;
	unsigned i;
	int use;

	for (i = 0; i < 3 * OTTE_USES_SLOTS; i++) {
		use = otte_uses_begin(uses, MINE, 0, 4096, i % 2);
		assert_true(use >= 0);
		assert_int_equal(use % OTTE_USES_SLOTS, 0);
		assert_int_equal(otte_uses_begin(uses, OTHERS, 0, 1, true), OTTE_USES_CONFLICT);
		if (i % 3 == 0)
			otte_uses_beat(uses, use);
		assert_int_equal(otte_uses_begin(uses, OTHERS, 0, 1, true), OTTE_USES_CONFLICT);
		otte_uses_end(uses, use);
	}
}

/* One whose slot was freed, and is another's by now, ends and beats for nobody. */
static void who_wakes_up_late_ends_no_other(void **state)
{
	struct otte_uses *uses = *state;
	int late = otte_uses_begin(uses, MINE, 0, 4096, true), use;

	otte_uses_clear(uses, MINE);
	use = otte_uses_begin(uses, OTHERS, 0, 4096, true);
	assert_int_equal(use % OTTE_USES_SLOTS, late % OTTE_USES_SLOTS);
	otte_uses_end(uses, late);
	assert_false(is_free(uses, 0));
	otte_uses_beat(uses, late);
	otte_uses_end(uses, use);
	assert_true(is_free(uses, 0));
}

static bool count(void *arg, uint32_t owner)
{
	unsigned *asked = arg;

	assert_int_equal(owner, MINE);
	++*asked;
	return false;
}

static void what_stands_is_asked_for_and_what_is_over_or_beats_is_not(void **state)
{
	struct otte_uses_seen *seen = calloc(OTTE_USES_SLOTS, sizeof(*seen));
	struct otte_uses_own own = { .slots = seen };
	struct otte_uses *uses = *state;
	unsigned asked = 0, i;
	int use;

	use = otte_uses_begin(uses, MINE, 0, 4096, false);
	for (i = 0; i < 3; i++)
		otte_uses_look(uses, &own, count, &asked);
	assert_int_equal(asked, 2);
	for (i = 0; i < 3; i++) {
		otte_uses_beat(uses, use);
		otte_uses_look(uses, &own, count, &asked);
	}
	assert_int_equal(asked, 2);
	otte_uses_end(uses, use);
	for (i = 0; i < 3; i++)
		otte_uses_look(uses, &own, count, &asked);
	assert_int_equal(asked, 2);
	free(seen);
}

/* However long it beats. */
static void a_beat_is_never_an_end(void **state)
{
	struct otte_uses *uses = *state;
	int use = otte_uses_begin(uses, MINE, 0, 4096, true);
	_Atomic uint64_t *pulse = &uses->slots[use % OTTE_USES_SLOTS].pulse;

	otte_uses_beat(uses, use);
	atomic_fetch_add(pulse, UINT32_MAX - 2);
	assert_false(is_free(uses, 0));
	otte_uses_beat(uses, use);
	assert_false(is_free(uses, 0));
	otte_uses_beat(uses, use);
	assert_false(is_free(uses, 0));
	otte_uses_end(uses, use);
	assert_true(is_free(uses, 0));
}

/* What stands as the lender's and is not is freed at the second look that finds it so. */
static void a_forged_use_of_the_lenders_is_freed(void **state)
{
	struct otte_uses_seen *seen = calloc(OTTE_USES_SLOTS, sizeof(*seen));
	struct otte_uses_own own = { .slots = seen };
	struct otte_uses *uses = *state;
	unsigned asked = 0;
	int mine;

	mine = otte_uses_lend(uses, &own, 8192, 12288, true, true);
	assert_true(otte_uses_begin(uses, OTTE_USES_LENDER, 0, 4096, true) >= 0);
	otte_uses_look(uses, &own, count, &asked);
	otte_uses_look(uses, &own, count, &asked);
	assert_false(is_free(uses, 0));
	otte_uses_look(uses, &own, count, &asked);
	assert_true(is_free(uses, 0));
	assert_false(is_free(uses, 8192));
	assert_int_equal(asked, 0);
	otte_uses_unlend(uses, &own, mine, true);
	assert_true(is_free(uses, 8192));
	free(seen);
}

#define CELLS 8
#define USERS 4
#define TURNS 20000

struct crowd {
	struct otte_uses *uses;
	struct otte_uses_own own;
	pthread_mutex_t lock;  /* of own, for look */
	long cells[CELLS];     /* plain: what is touched under a use needs no more */
	_Atomic long written;
	_Atomic bool over;
	_Atomic unsigned next;
	unsigned seed;
};

static bool never(void *arg, uint32_t owner)
{
	(void)arg;
	(void)owner;
	return false;
}

static void *look(void *arg)
{
	struct crowd *crowd = arg;

	while (!crowd->over) {
		pthread_mutex_lock(&crowd->lock);
		otte_uses_look(crowd->uses, &crowd->own, never, NULL);
		pthread_mutex_unlock(&crowd->lock);
		usleep(1000);
	}
	return NULL;
}

/* The first is the lender, without its lock. */
static void *use(void *arg)
{
	struct crowd *crowd = arg;
	uint32_t owner = OTTE_USES_LENDER + atomic_fetch_add(&crowd->next, 1);
	unsigned seed = crowd->seed + owner, i, at;
	long sum = 0;
	int id;

	for (i = 0; i < TURNS; i++) {
		unsigned start = (unsigned)rand_r(&seed) % CELLS;
		unsigned end = start + 1 + (unsigned)rand_r(&seed) % (CELLS - start);
		bool write = rand_r(&seed) % 2;

		if (owner == OTTE_USES_LENDER)
			id = otte_uses_lend_alone(crowd->uses, &crowd->own, start, end, write);
		else
			id = otte_uses_begin(crowd->uses, owner, start, end, write);
		if (id < 0)
			continue;
		for (at = start; at < end; at++) {
			if (write)
				crowd->cells[at]++;
			sum += write || crowd->cells[at] < 0;
		}
		if (owner == OTTE_USES_LENDER)
			otte_uses_unlend(crowd->uses, &crowd->own, id, write);
		else
			otte_uses_end(crowd->uses, id);
	}
	atomic_fetch_add(&crowd->written, sum);
	return NULL;
}

static void users_keep_off_each_other(void **state)
{
	struct otte_uses_seen *seen = calloc(OTTE_USES_SLOTS, sizeof(*seen));
	struct crowd crowd = { .uses = *state, .own = { .slots = seen }, .lock = PTHREAD_MUTEX_INITIALIZER };
	const char *seed = getenv("OTTE_TEST_SEED");
	pthread_t threads[USERS], looker;
	unsigned i;
	long sum = 0;

	crowd.seed = seed ? (unsigned)strtoul(seed, NULL, 0) : 4711;
	printf("seed %u\n", crowd.seed);
	pthread_create(&looker, NULL, look, &crowd);
	for (i = 0; i < USERS; i++)
		pthread_create(&threads[i], NULL, use, &crowd);
	for (i = 0; i < USERS; i++)
		pthread_join(threads[i], NULL);
	crowd.over = true;
	pthread_join(looker, NULL);
	for (i = 0; i < CELLS; i++)
		sum += crowd.cells[i];
	assert_int_equal(sum, crowd.written);
	assert_true(is_free(crowd.uses, 0));
	free(seen);
}

#define ON_A_TABLE(test) cmocka_unit_test_setup_teardown(test, open_table, close_table)

int run_uses_tests(void)
{
	const struct CMUnitTest tests[] = {
		ON_A_TABLE(a_use_that_is_over_is_in_nobodys_way),
		ON_A_TABLE(its_slot_is_the_next_ones),
		ON_A_TABLE(who_wakes_up_late_ends_no_other),
		ON_A_TABLE(what_stands_is_asked_for_and_what_is_over_or_beats_is_not),
		ON_A_TABLE(a_beat_is_never_an_end),
		ON_A_TABLE(a_forged_use_of_the_lenders_is_freed),
		ON_A_TABLE(users_keep_off_each_other),
	};

	return cmocka_run_group_tests_name("uses", tests, NULL, NULL);
}
