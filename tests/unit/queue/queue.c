/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The queue of three priorities on a clock of the test's own: each rule at its boundary, and all of them
 * over drawn cases against a model that is one array. SEED=N draws others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "base/util.h"
#include "sched/queue.h"

#define HIGH 0
#define MEDIUM 1
#define LOW 2
#define AGING_NS (10 * NSEC_PER_MSEC)
#define START_NS (7 * NSEC_PER_SEC + 3)

static uint64_t seed = 20261129;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 16) % below;
}

static struct otte_queue fresh(bool per_entry)
{
	return (struct otte_queue){
		.bound = { 100, 100, 100 },
		.aging_ns = AGING_NS,
		.per_entry = per_entry,
	};
}

static void push(struct otte_queue *queue, struct otte_queue_entry *entry, uint8_t priority,
		 uint64_t now_ns)
{
	*entry = (struct otte_queue_entry){ .priority = priority,
					    .enqueued_ns = now_ns,
					    .bytes = 1 };
	assert_int_equal(otte_queue_push(queue, entry), 0);
	assert_true(entry->queued);
}

static struct otte_queue_entry *pop(struct otte_queue *queue, unsigned admitted)
{
	struct otte_queue_entry *entry = otte_queue_first(queue, admitted);

	if (entry)
		assert_true(otte_queue_remove(queue, entry));
	return entry;
}

static void high_goes_before_medium_before_low_and_each_is_first_in_first_out(void **state)
{
	static const uint8_t pushed[] = { LOW, MEDIUM, HIGH, LOW, HIGH, MEDIUM };
	static const int order[] = { 2, 4, 1, 5, 0, 3 };
	struct otte_queue queue = fresh(false);
	struct otte_queue_entry entries[6];
	unsigned i;

	(void)state;
	for (i = 0; i < 6; i++)
		push(&queue, &entries[i], pushed[i], START_NS);
	for (i = 0; i < 6; i++) {
		assert_false(otte_queue_empty(&queue));
		assert_ptr_equal(pop(&queue, OTTE_QUEUE_ALL), &entries[order[i]]);
	}
	assert_true(otte_queue_empty(&queue));
	assert_null(otte_queue_first(&queue, OTTE_QUEUE_ALL));
}

static void what_is_not_admitted_is_passed_by_and_stays(void **state)
{
	struct otte_queue queue = fresh(false);
	struct otte_queue_entry high, medium, low;

	(void)state;
	push(&queue, &low, LOW, START_NS);
	push(&queue, &medium, MEDIUM, START_NS);
	push(&queue, &high, HIGH, START_NS);
	assert_ptr_equal(otte_queue_first(&queue, 1u << LOW), &low);
	assert_ptr_equal(otte_queue_first(&queue, 1u << LOW | 1u << MEDIUM), &medium);
	assert_null(otte_queue_first(&queue, 0));
	assert_ptr_equal(otte_queue_first(&queue, OTTE_QUEUE_ALL), &high);
	assert_true(high.queued && medium.queued && low.queued);
}

static void a_full_priority_refuses_and_the_others_do_not(void **state)
{
	struct otte_queue_entry entries[6], more = { .priority = MEDIUM };
	struct otte_queue queue = fresh(false);
	unsigned i;

	(void)state;
	queue.bound[HIGH] = 1;
	queue.bound[MEDIUM] = 2;
	queue.bound[LOW] = 3;
	for (i = 0; i < 6; i++)
		push(&queue, &entries[i], (uint8_t)(i < 1 ? HIGH : i < 3 ? MEDIUM : LOW), START_NS);
	for (i = 0; i < OTTE_PRIORITIES; i++) {
		more.priority = (uint8_t)i;
		assert_int_equal(otte_queue_push(&queue, &more), -EDQUOT);
		assert_false(more.queued);
		assert_false(otte_queue_remove(&queue, &more));
	}
	/* What has gone up still counts where it was asked. */
	assert_int_equal(otte_queue_age(&queue, START_NS + AGING_NS), 5);
	more.priority = LOW;
	assert_int_equal(otte_queue_push(&queue, &more), -EDQUOT);
	more.priority = HIGH;
	assert_int_equal(otte_queue_push(&queue, &more), -EDQUOT);
	assert_true(otte_queue_remove(&queue, &entries[5]));
	more.priority = LOW;
	assert_int_equal(otte_queue_push(&queue, &more), 0);
}

static void an_entry_is_aged_at_exactly_ten_milliseconds(void **state)
{
	struct otte_queue_entry entry;
	struct otte_queue queue;
	int per_entry;

	(void)state;
	for (per_entry = 0; per_entry < 2; per_entry++) {
		queue = fresh(per_entry);
		push(&queue, &entry, LOW, START_NS);
		assert_int_equal(otte_queue_age(&queue, START_NS), 0);
		assert_int_equal(
			otte_queue_age(&queue, START_NS + AGING_NS - OTTE_QUEUE_PASS_NS - 1), 0);
		assert_int_equal(otte_queue_age(&queue, START_NS + AGING_NS - 1), 0);
		assert_int_equal(entry.tier, LOW);

		queue = fresh(per_entry);
		push(&queue, &entry, LOW, START_NS);
		assert_int_equal(otte_queue_age(&queue, START_NS + AGING_NS), 1);
		assert_int_equal(entry.tier, MEDIUM);
		assert_int_equal(entry.priority, LOW);
	}
}

static void passes_are_a_millisecond_apart_and_raise_by_one_tier(void **state)
{
	uint64_t now_ns = START_NS + 100 * AGING_NS;
	struct otte_queue_entry low, medium;
	struct otte_queue queue;
	int per_entry;

	(void)state;
	for (per_entry = 0; per_entry < 2; per_entry++) {
		queue = fresh(per_entry);
		push(&queue, &low, LOW, START_NS);
		push(&queue, &medium, MEDIUM, START_NS);
		assert_int_equal(otte_queue_age(&queue, now_ns), 2);
		assert_int_equal(medium.tier, HIGH);
		assert_int_equal(low.tier, MEDIUM);
		assert_int_equal(otte_queue_age(&queue, now_ns), 0);
		assert_int_equal(otte_queue_age(&queue, now_ns + OTTE_QUEUE_PASS_NS - 1), 0);
		assert_int_equal(low.tier, MEDIUM);
		assert_int_equal(otte_queue_age(&queue, now_ns + OTTE_QUEUE_PASS_NS), 1);
		assert_int_equal(low.tier, HIGH);
		assert_int_equal(otte_queue_age(&queue, now_ns + 2 * OTTE_QUEUE_PASS_NS), 0);
		assert_ptr_equal(pop(&queue, OTTE_QUEUE_ALL), &medium);
		assert_ptr_equal(pop(&queue, OTTE_QUEUE_ALL), &low);
	}
}

/* One that was young again after its first step would need twenty milliseconds to reach High. */
static void the_age_counts_from_the_enqueueing_however_often_it_moved(void **state)
{
	struct otte_queue_entry low, high;
	struct otte_queue queue = fresh(true);

	(void)state;
	push(&queue, &low, LOW, START_NS);
	assert_int_equal(otte_queue_age(&queue, START_NS + AGING_NS), 1);
	assert_int_equal(low.enqueued_ns, START_NS);
	assert_int_equal(otte_queue_age(&queue, START_NS + AGING_NS + OTTE_QUEUE_PASS_NS), 1);
	assert_int_equal(low.enqueued_ns, START_NS);
	push(&queue, &high, HIGH, START_NS + AGING_NS + OTTE_QUEUE_PASS_NS);
	assert_ptr_equal(pop(&queue, OTTE_QUEUE_ALL), &low);
	assert_ptr_equal(pop(&queue, OTTE_QUEUE_ALL), &high);
}

static void an_aged_head_takes_its_whole_tier_along(void **state)
{
	struct otte_queue_entry old, young, medium;
	struct otte_queue queue = fresh(false);

	(void)state;
	push(&queue, &medium, MEDIUM, START_NS + AGING_NS);
	push(&queue, &old, LOW, START_NS);
	push(&queue, &young, LOW, START_NS + AGING_NS);
	assert_int_equal(otte_queue_age(&queue, START_NS + AGING_NS), 2);
	assert_int_equal(young.tier, MEDIUM);
	/* Behind what was there, and its head is what was there. */
	assert_int_equal(otte_queue_age(&queue, START_NS + AGING_NS + OTTE_QUEUE_PASS_NS), 0);
	assert_ptr_equal(pop(&queue, OTTE_QUEUE_ALL), &medium);
	assert_int_equal(otte_queue_age(&queue, START_NS + AGING_NS + 2 * OTTE_QUEUE_PASS_NS), 2);
	assert_ptr_equal(pop(&queue, OTTE_QUEUE_ALL), &old);
	assert_ptr_equal(pop(&queue, OTTE_QUEUE_ALL), &young);
}

static void per_entry_takes_along_only_what_has_aged_itself(void **state)
{
	struct otte_queue_entry old, young, medium;
	struct otte_queue queue = fresh(true);

	(void)state;
	push(&queue, &medium, MEDIUM, START_NS + AGING_NS);
	push(&queue, &old, LOW, START_NS);
	push(&queue, &young, LOW, START_NS + 1);
	assert_int_equal(otte_queue_age(&queue, START_NS + AGING_NS), 1);
	assert_int_equal(old.tier, MEDIUM);
	assert_int_equal(young.tier, LOW);
	/* Past the younger Medium one before it. */
	assert_int_equal(otte_queue_age(&queue, START_NS + AGING_NS + OTTE_QUEUE_PASS_NS), 2);
	assert_int_equal(old.tier, HIGH);
	assert_int_equal(young.tier, MEDIUM);
	assert_int_equal(medium.tier, MEDIUM);
	assert_ptr_equal(pop(&queue, OTTE_QUEUE_ALL), &old);
	assert_ptr_equal(pop(&queue, OTTE_QUEUE_ALL), &medium);
	assert_ptr_equal(pop(&queue, OTTE_QUEUE_ALL), &young);
}

static void an_old_low_one_in_the_high_tier_is_still_judged_as_low(void **state)
{
	struct otte_queue_entry low, high;
	struct otte_queue queue = fresh(false);

	(void)state;
	push(&queue, &low, LOW, START_NS);
	otte_queue_age(&queue, START_NS + AGING_NS);
	otte_queue_age(&queue, START_NS + AGING_NS + OTTE_QUEUE_PASS_NS);
	assert_int_equal(low.tier, HIGH);
	push(&queue, &high, HIGH, START_NS + 2 * AGING_NS);
	assert_ptr_equal(otte_queue_first(&queue, 1u << HIGH), &high);
	assert_ptr_equal(otte_queue_first(&queue, OTTE_QUEUE_ALL), &low);
}

static void without_aging_nothing_moves_up(void **state)
{
	struct otte_queue queue = fresh(false);
	struct otte_queue_entry low;

	(void)state;
	queue.aging_ns = 0;
	push(&queue, &low, LOW, START_NS);
	assert_int_equal(otte_queue_age(&queue, START_NS + NSEC_PER_SEC), 0);
	assert_int_equal(low.tier, LOW);
}

static void an_entry_of_the_future_is_not_aged(void **state)
{
	struct otte_queue queue = fresh(true);
	struct otte_queue_entry low;

	(void)state;
	push(&queue, &low, LOW, START_NS + 1);
	assert_int_equal(otte_queue_age(&queue, START_NS), 0);
	assert_int_equal(low.tier, LOW);
}

/* ---- Against a model ---- */

#define ENTRIES 48
#define STEPS 400000

/* All that is queued, in the order in which it came to its tier. */
struct model {
	struct otte_queue_entry *line[ENTRIES];
	unsigned tier[ENTRIES];
	unsigned length;
	uint64_t pass_due_ns;
};

static void model_drop(struct model *model, unsigned at)
{
	model->length--;
	memmove(&model->line[at], &model->line[at + 1],
		(model->length - at) * sizeof(model->line[0]));
	memmove(&model->tier[at], &model->tier[at + 1],
		(model->length - at) * sizeof(model->tier[0]));
}

static void model_append(struct model *model, struct otte_queue_entry *entry, unsigned tier)
{
	model->line[model->length] = entry;
	model->tier[model->length++] = tier;
}

static unsigned model_count(const struct model *model, unsigned priority)
{
	unsigned count = 0, i;

	for (i = 0; i < model->length; i++)
		count += model->line[i]->priority == priority;
	return count;
}

/* Where the next one is; -1: none. */
static int model_first(const struct model *model, unsigned admitted)
{
	unsigned tier, i;

	for (tier = 0; tier < OTTE_PRIORITIES; tier++)
		for (i = 0; i < model->length; i++)
			if (model->tier[i] == tier && admitted & 1u << model->line[i]->priority)
				return (int)i;
	return -1;
}

static bool model_aged(const struct otte_queue_entry *entry, uint64_t now_ns)
{
	return now_ns >= entry->enqueued_ns + AGING_NS;
}

static unsigned model_pass(struct model *model, unsigned tier, bool per_entry, uint64_t now_ns)
{
	bool stopped[OTTE_PRIORITIES] = { false }, whole = false, seen = false;
	unsigned raised = 0, i, end = model->length;

	for (i = 0; i < end;) {
		struct otte_queue_entry *entry = model->line[i];

		if (model->tier[i] != tier) {
			i++;
			continue;
		}
		if (!seen)
			whole = model_aged(entry, now_ns);
		seen = true;
		stopped[entry->priority] |= !model_aged(entry, now_ns);
		if (per_entry ? stopped[entry->priority] : !whole) {
			i++;
			continue;
		}
		model_drop(model, i);
		model_append(model, entry, tier - 1);
		end--;
		raised++;
	}
	return raised;
}

static unsigned model_age(struct model *model, bool per_entry, uint64_t now_ns)
{
	unsigned raised;

	if (now_ns < model->pass_due_ns || !(model_count(model, MEDIUM) + model_count(model, LOW)))
		return 0;
	model->pass_due_ns = now_ns + NSEC_PER_MSEC;
	raised = model_pass(model, MEDIUM, per_entry, now_ns);
	return raised + model_pass(model, LOW, per_entry, now_ns);
}

struct walk {
	struct otte_queue queue;
	struct model model;
	struct otte_queue_entry entries[ENTRIES];
	uint64_t now_ns;
	unsigned refused, raised, taken;
};

static void push_one(struct walk *walk, struct otte_queue_entry *entry)
{
	unsigned waiting;
	int ret;

	entry->priority = (uint8_t)draw(OTTE_PRIORITIES);
	/* Threads may push in another order than that of their clocks. */
	entry->enqueued_ns = walk->now_ns - draw(20000);
	waiting = model_count(&walk->model, entry->priority);
	ret = otte_queue_push(&walk->queue, entry);
	assert_int_equal(ret, waiting < walk->queue.bound[entry->priority] ? 0 : -EDQUOT);
	if (!ret)
		model_append(&walk->model, entry, entry->priority);
	walk->refused += ret != 0;
}

static void take_one(struct walk *walk)
{
	unsigned admitted = (unsigned)draw(OTTE_QUEUE_ALL + 1);
	int at = model_first(&walk->model, admitted);
	struct otte_queue_entry *entry = otte_queue_first(&walk->queue, admitted);

	assert_ptr_equal(entry, at < 0 ? NULL : walk->model.line[at]);
	if (!entry)
		return;
	assert_int_equal(entry->tier, walk->model.tier[at]);
	assert_true(otte_queue_remove(&walk->queue, entry));
	model_drop(&walk->model, (unsigned)at);
	walk->taken++;
}

static void drop_one(struct walk *walk, struct otte_queue_entry *entry)
{
	unsigned i;

	assert_true(otte_queue_remove(&walk->queue, entry));
	for (i = 0; walk->model.line[i] != entry; i++)
		;
	model_drop(&walk->model, i);
}

static void step(struct walk *walk)
{
	struct otte_queue_entry *entry = &walk->entries[draw(ENTRIES)];
	unsigned i;

	walk->now_ns += draw(4) ? draw(300000) : draw(3) * NSEC_PER_MSEC;
	switch (draw(8)) {
	case 0:
		if (entry->queued)
			drop_one(walk, entry);
		else
			assert_false(otte_queue_remove(&walk->queue, entry));
		break;
	case 1:
	case 2:
		take_one(walk);
		break;
	case 3:
		i = otte_queue_age(&walk->queue, walk->now_ns);
		assert_int_equal(i, model_age(&walk->model, walk->queue.per_entry, walk->now_ns));
		walk->raised += i;
		break;
	default:
		if (!entry->queued)
			push_one(walk, entry);
	}
	for (i = 0; i < OTTE_PRIORITIES; i++)
		assert_int_equal(walk->queue.count[i], model_count(&walk->model, i));
	assert_int_equal(otte_queue_empty(&walk->queue), !walk->model.length);
}

static void drawn_walks_agree_with_a_model(void **state)
{
	static struct walk walk;
	unsigned i, per_entry;

	(void)state;
	for (per_entry = 0; per_entry < 2; per_entry++) {
		memset(&walk, 0, sizeof(walk));
		walk.now_ns = START_NS;
		walk.queue = fresh(per_entry);
		walk.queue.bound[HIGH] = 9;
		walk.queue.bound[MEDIUM] = 12;
		walk.queue.bound[LOW] = 15;
		for (i = 0; i < STEPS; i++)
			step(&walk);
		assert_true(walk.refused > 1000 && walk.raised > 1000 && walk.taken > 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(high_goes_before_medium_before_low_and_each_is_first_in_first_out),
		cmocka_unit_test(what_is_not_admitted_is_passed_by_and_stays),
		cmocka_unit_test(a_full_priority_refuses_and_the_others_do_not),
		cmocka_unit_test(an_entry_is_aged_at_exactly_ten_milliseconds),
		cmocka_unit_test(passes_are_a_millisecond_apart_and_raise_by_one_tier),
		cmocka_unit_test(the_age_counts_from_the_enqueueing_however_often_it_moved),
		cmocka_unit_test(an_aged_head_takes_its_whole_tier_along),
		cmocka_unit_test(per_entry_takes_along_only_what_has_aged_itself),
		cmocka_unit_test(an_old_low_one_in_the_high_tier_is_still_judged_as_low),
		cmocka_unit_test(without_aging_nothing_moves_up),
		cmocka_unit_test(an_entry_of_the_future_is_not_aged),
		cmocka_unit_test(drawn_walks_agree_with_a_model),
	};
	const char *given = getenv("SEED");

	if (given)
		seed = strtoull(given, NULL, 0);
	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
