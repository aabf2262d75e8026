/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdbool.h>
#include <stdlib.h>

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

#define ON_A_TABLE(test) cmocka_unit_test_setup_teardown(test, open_table, close_table)

int run_uses_tests(void)
{
	const struct CMUnitTest tests[] = {
		ON_A_TABLE(a_use_that_is_over_is_in_nobodys_way),
		ON_A_TABLE(its_slot_is_the_next_ones),
		ON_A_TABLE(who_wakes_up_late_ends_no_other),
		ON_A_TABLE(what_stands_is_asked_for_and_what_is_over_or_beats_is_not),
		ON_A_TABLE(a_beat_is_never_an_end),
	};

	return cmocka_run_group_tests_name("uses", tests, NULL, NULL);
}
