/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Engines in a domain of the module's: who gets in, who waits for whom, what others are told, and what is left when a
 * process dies. Two engines in one process are two members; others are made where one has to die.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "slot_log.h"
#include "unit/engine/pair.h"

#define DOMAIN "test"
#define SLOT_NS (5 * NSEC_PER_MSEC)
#define SIZE (1u << 20)
#define PIECE (64u << 10)
#define HIGH OTTE_PRIORITY_HIGH
#define LOW OTTE_PRIORITY_LOW

static void ok(int ret, const char *what)
{
	if (ret)
		fail_msg("%s: %d: %s", what, ret, otte_error_text());
}

#define OK(call) ok(call, #call)

/* ---- Members ---- */

static void configure(struct otte_config *config)
{
	config->ledger = OTTE_LEDGER_KERNEL;
	config->stats_socket = 0;
	strcpy(config->slots_domain, DOMAIN);
	config->low_inflight_bytes = 2 * PIECE;
}

static int create_in(const char *domain, struct otte_engine **engine)
{
	struct otte_config config;

	OK(otte_config_init(&config, sizeof(config)));
	configure(&config);
	config.listen_address[0] = 0;
	strcpy(config.slots_domain, domain);
	return otte_engine_create(&config, engine);
}

static struct otte_slots *slots_of(struct otte_engine *engine)
{
	return &engine->gate.slots;
}

/* Within ten seconds: sums are made by another thread. */
static bool comes_true(bool (*is)(void *arg), void *arg)
{
	const struct timespec step = { .tv_nsec = NSEC_PER_MSEC };
	int tries;

	for (tries = 0; tries < 10000; tries++) {
		if (is(arg))
			return true;
		nanosleep(&step, NULL);
	}
	return false;
}

static bool somebody_waits_high(void *arg)
{
	return slot_others_wait(slots_of(arg), HIGH) != 0;
}

static bool nobody_waits(void *arg)
{
	unsigned p;

	for (p = HIGH; p <= LOW; p++)
		if (slot_others_wait(slots_of(arg), p))
			return false;
	return true;
}

/* Low requests, one after the other, for so long. */
static void read_low(struct pair *pair, uint64_t for_ns)
{
	uint64_t until_ns = otte_now_ns() + for_ns;
	struct otte_request request = pair_request(pair, OTTE_READ, 0, 0, PIECE);

	request.priority = LOW;
	while (otte_now_ns() < until_ns) {
		OK(otte_batch_submit(pair->batch, &request, 1));
		OK(otte_batch_wait(pair->batch, 10 * SECOND));
		OK(otte_batch_reset(pair->batch));
	}
}

static unsigned early_posts(unsigned *all)
{
	unsigned i, early = 0;

	*all = slot_log_count();
	for (i = 0; i < *all; i++) {
		const struct slot_post *post = slot_log_post(i);

		if (!slot_post_obeys(post))
			fail_msg("post %u at %lu: priority %u, slot %u, waiting %x", i,
				 (unsigned long)post->now_ns, post->priority, post->lowest,
				 post->waiting);
		assert_true(post->low_bytes <= 2 * PIECE);
		early += slot_post_is_early(post);
	}
	return early;
}

static int make_domain(void **state)
{
	(void)state;
	return slot_domain_create(DOMAIN, SLOT_NS, 0111);
}

static int remove_domain(void **state)
{
	(void)state;
	return slot_domain_delete(DOMAIN);
}

/* ---- Who gets in ---- */

static void a_domain_that_is_not_there_is_named(void **state)
{
	struct otte_engine *engine;

	(void)state;
	assert_int_equal(create_in("nowhere", &engine), -ENOENT);
	assert_string_equal(otte_error_text(),
			    "slots.domain: nowhere: the module has no domain of that name, an "
			    "administrator creates it (ottectl domains create)");
}

static void a_domain_that_lets_nobody_in_says_so(void **state)
{
	struct otte_engine *engine;

	(void)state;
	OK(slot_domain_create("shut", SLOT_NS, 0));
	assert_int_equal(create_in("shut", &engine), -EACCES);
	assert_string_equal(otte_error_text(), "slots.domain: shut: owner, group and mode of the "
					       "domain do not let this process in");
	OK(slot_domain_delete("shut"));
}

static void a_member_keeps_its_domain_until_its_engine_goes(void **state)
{
	struct otte_engine *engine;

	(void)state;
	OK(create_in(DOMAIN, &engine));
	assert_int_equal(slot_domain_delete(DOMAIN), -EBUSY);
	OK(otte_engine_destroy(engine));
	OK(slot_domain_delete(DOMAIN));
	OK(slot_domain_create(DOMAIN, SLOT_NS, 0111));
}

/* ---- Who waits for whom ---- */

static void low_goes_at_any_time_while_nobody_waits_above(void **state)
{
	unsigned all, early;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, configure);
	slot_log_start();
	read_low(&pair, 30 * SLOT_NS);
	early = early_posts(&all);
	print_message("%u posts, %u outside of their slots\n", all, early);
	assert_true(early > 0 && early < all);
	pair_close(&pair);
}

static void once_somebody_waits_above_low_keeps_to_its_slots(void **state)
{
	struct otte_engine *other;
	unsigned all, early;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, configure);
	OK(create_in(DOMAIN, &other));
	assert_true(nobody_waits(pair.requester));
	/* Nobody sums yet: it is asked to, and has done so when the call returns. */
	otte_slots_ask(slots_of(other), HIGH, 1000);
	assert_int_equal(slot_others_wait(slots_of(pair.requester), HIGH), 1000);
	assert_int_equal(slot_others_wait(slots_of(other), HIGH), 0);
	slot_log_start();
	read_low(&pair, 30 * SLOT_NS);
	early = early_posts(&all);
	print_message("%u posts, %u outside of their slots\n", all, early);
	assert_true(all > 0);
	assert_int_equal(early, 0);

	otte_slots_answered(slots_of(other), HIGH, 1000);
	assert_true(comes_true(nobody_waits, pair.requester));
	slot_log_start();
	read_low(&pair, 30 * SLOT_NS);
	early = early_posts(&all);
	assert_true(early > 0);
	OK(otte_engine_destroy(other));
	pair_close(&pair);
}

/* The flood is on, so the module sums; the next sum would be a slot away. */
static void who_waits_above_a_flood_is_heard_at_once(void **state)
{
	struct otte_engine *low, *high;
	unsigned i;

	(void)state;
	OK(create_in(DOMAIN, &low));
	OK(create_in(DOMAIN, &high));
	otte_slots_ask(slots_of(low), LOW, 5000);
	for (i = 0; i < 100; i++) {
		otte_slots_ask(slots_of(high), HIGH, 1 + i);
		assert_int_equal(slot_others_wait(slots_of(low), HIGH), 1 + i);
		otte_slots_answered(slots_of(high), HIGH, 1 + i);
	}
	assert_int_equal(slot_others_wait(slots_of(high), LOW), 5000);
	otte_slots_answered(slots_of(low), LOW, 5000);
	assert_true(comes_true(nobody_waits, high));
	OK(otte_engine_destroy(low));
	OK(otte_engine_destroy(high));
}

static void all_that_was_asked_for_is_taken_back_in_the_end(void **state)
{
	struct otte_engine *other;
	struct otte_request requests[64];
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, configure);
	OK(create_in(DOMAIN, &other));
	for (i = 0; i < 64; i++) {
		requests[i] = pair_request(&pair, OTTE_READ, 0, 0, PIECE);
		requests[i].local_offset = requests[i].remote_offset = (i % 16) * PIECE;
		requests[i].priority = (uint8_t)(i % 3);
	}
	for (i = 0; i < 64; i += 16) {
		OK(otte_batch_submit(pair.batch, &requests[i], 16));
		/* Some are done, some end in the queue, some on their way. */
		if (i % 32)
			otte_batch_cancel(pair.batch);
		otte_batch_wait(pair.batch, 10 * SECOND);
		OK(otte_batch_reset(pair.batch));
	}
	assert_true(comes_true(nobody_waits, other));
	OK(otte_engine_destroy(other));
	pair_close(&pair);
}

/* ---- NICs ---- */

struct nic_is {
	struct otte_engine *engine;
	uint8_t nic;
	uint64_t bytes;
};

static bool nic_is(void *arg)
{
	const struct nic_is *is = arg;

	return otte_slots_nic_others(slots_of(is->engine), is->nic) == is->bytes;
}

/* A name has one index for all. */
static void bytes_under_way_reach_the_others_by_nic(void **state)
{
	struct nic_is is = { 0 };
	struct otte_engine *other, *third;
	uint8_t nic, more;

	(void)state;
	OK(create_in(DOMAIN, &is.engine));
	OK(create_in(DOMAIN, &other));
	OK(create_in(DOMAIN, &third));
	nic = otte_gate_nic(other, "eth7");
	more = otte_gate_nic(other, "eth8");
	assert_int_not_equal(nic, OTTE_SLOTS_NO_NIC);
	assert_int_not_equal(nic, more);
	assert_int_equal(otte_gate_nic(third, "eth8"), more);
	assert_int_equal(otte_gate_nic(is.engine, "eth7"), nic);
	otte_slots_ask(slots_of(other), LOW, 1);
	otte_slots_depart(slots_of(other), nic, 4000);
	otte_slots_depart(slots_of(other), more, 500);
	otte_slots_depart(slots_of(third), more, 60);
	is.nic = nic;
	is.bytes = 4000;
	assert_true(comes_true(nic_is, &is));
	is.nic = more;
	is.bytes = 560;
	assert_true(comes_true(nic_is, &is));
	OK(otte_engine_destroy(third));
	is.bytes = 500;
	assert_true(comes_true(nic_is, &is));
	/* Its own are not among them. */
	assert_int_equal(otte_slots_nic_others(slots_of(other), more), 0);
	otte_slots_arrive(slots_of(other), more, 500);
	is.bytes = 0;
	assert_true(comes_true(nic_is, &is));
	OK(otte_engine_destroy(other));
	is.nic = nic;
	assert_true(comes_true(nic_is, &is));
	OK(otte_engine_destroy(is.engine));
}

/* A name that the module takes for none, and more NICs than it counts: told of once, and not counted. */
static void a_nic_that_the_domain_does_not_count_is_none(void **state)
{
	struct otte_engine *engine;
	char name[16];
	int i;

	(void)state;
	OK(create_in(DOMAIN, &engine));
	assert_int_equal(otte_gate_nic(engine, "a b"), OTTE_SLOTS_NO_NIC);
	for (i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_in_range(otte_gate_nic(engine, name), 0, 15);
	}
	assert_int_equal(otte_gate_nic(engine, "n16"), OTTE_SLOTS_NO_NIC);
	OK(otte_engine_destroy(engine));
}

static void requests_are_counted_with_the_nic_of_their_route(void **state)
{
	struct nic_is is = { 0 };
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, configure);
	OK(create_in(DOMAIN, &is.engine));
	is.nic = otte_gate_nic(is.engine, "lo");
	assert_int_not_equal(is.nic, OTTE_SLOTS_NO_NIC);
	assert_int_equal(pair.segment->peer->window.nic, is.nic);
	read_low(&pair, 4 * SLOT_NS);
	assert_true(comes_true(nic_is, &is));
	OK(otte_engine_destroy(is.engine));
	pair_close(&pair);
}

/* ---- Death ---- */

_Noreturn static void wait_high(int ready)
{
	struct otte_engine *engine;

	if (!create_in(DOMAIN, &engine)) {
		otte_slots_ask(slots_of(engine), HIGH, 777);
		(void)!write(ready, "", 1);
	}
	for (;;)
		pause();
}

static void who_waits_no_longer_counts_once_its_process_is_killed(void **state)
{
	struct otte_engine *engine;
	int ready[2];
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid)
		wait_high(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	OK(create_in(DOMAIN, &engine));
	assert_int_equal(slot_others_wait(slots_of(engine), HIGH), 777);
	assert_true(somebody_waits_high(engine));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(comes_true(nobody_waits, engine));
	OK(otte_engine_destroy(engine));
	close(ready[0]);
	close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_domain_that_is_not_there_is_named),
		cmocka_unit_test(a_domain_that_lets_nobody_in_says_so),
		cmocka_unit_test(a_member_keeps_its_domain_until_its_engine_goes),
		cmocka_unit_test(low_goes_at_any_time_while_nobody_waits_above),
		cmocka_unit_test(once_somebody_waits_above_low_keeps_to_its_slots),
		cmocka_unit_test(who_waits_above_a_flood_is_heard_at_once),
		cmocka_unit_test(all_that_was_asked_for_is_taken_back_in_the_end),
		cmocka_unit_test(bytes_under_way_reach_the_others_by_nic),
		cmocka_unit_test(a_nic_that_the_domain_does_not_count_is_none),
		cmocka_unit_test(requests_are_counted_with_the_nic_of_their_route),
		cmocka_unit_test(who_waits_no_longer_counts_once_its_process_is_killed),
	};

	return cmocka_run_group_tests(tests, make_domain, remove_domain);
}
