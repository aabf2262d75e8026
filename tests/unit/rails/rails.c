/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The health of rails on a clock of the test's own: each rule at its boundary, and all of them over
 * drawn walks against a model that remembers everything. SEED=N draws others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/util.h"
#include "otte/otte.h"
#include "sched/rails.h"

#define PEER 7000
#define OTHER 7001
#define START_NS (7 * NSEC_PER_SEC + 3)
#define SEC NSEC_PER_SEC
#define HOUR_NS (3600 * NSEC_PER_SEC)

static uint64_t seed = 20261130;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 16) % below;
}

/* ---- Allocations that fail ---- */

static unsigned fail_allocation; /* so many from now; 0: none */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static bool fails(void)
{
	return fail_allocation && !--fail_allocation;
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

/* ---- What the tests are written in ---- */

static const struct otte_rail rail_00 = { PEER, 0, 0 };

static struct otte_rails *create(uint64_t probe_interval_ns)
{
	struct otte_rails_config config;
	struct otte_rails *rails;

	otte_rails_config_init(&config);
	config.probe_interval_ns = probe_interval_ns;
	assert_int_equal(otte_rails_create(&config, &rails), 0);
	return rails;
}

static struct otte_rail_ticket take(struct otte_rails *rails, const struct otte_rail *rail,
				    uint64_t now_ns, enum otte_rail_purpose purpose)
{
	struct otte_rail_ticket ticket;

	assert_int_equal(otte_rails_admit(rails, rail, now_ns, &ticket), 0);
	assert_int_equal(ticket.purpose, purpose);
	return ticket;
}

static void refused(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns)
{
	struct otte_rail_ticket ticket;

	assert_int_equal(otte_rails_admit(rails, rail, now_ns, &ticket), -EAGAIN);
}

static void fail_once(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns,
		      enum otte_rail_purpose purpose)
{
	struct otte_rail_ticket ticket = take(rails, rail, now_ns, purpose);

	otte_rails_fail(rails, &ticket, now_ns);
}

static void succeed_once(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns,
			 enum otte_rail_purpose purpose)
{
	struct otte_rail_ticket ticket = take(rails, rail, now_ns, purpose);

	otte_rails_succeed(rails, &ticket);
}

static void cancel_once(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns,
			enum otte_rail_purpose purpose)
{
	struct otte_rail_ticket ticket = take(rails, rail, now_ns, purpose);

	otte_rails_cancel(rails, &ticket);
}

static void pause_rail(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns)
{
	unsigned i;

	for (i = 0; i < 3; i++)
		fail_once(rails, rail, now_ns, OTTE_RAIL_TRAFFIC);
}

static struct otte_rail_counters total(const struct otte_rails *rails)
{
	struct otte_rails_stats stats;

	otte_rails_stats(rails, &stats);
	return stats.total;
}

static uint32_t pairs(const struct otte_rails *rails)
{
	struct otte_rails_stats stats;

	otte_rails_stats(rails, &stats);
	return stats.pairs;
}

/* ---- Pauses ---- */

static void the_third_failure_within_ten_seconds_pauses(void **state)
{
	static const struct otte_rail late = { PEER, 0, 1 };
	struct otte_rails *rails = create(HOUR_NS);

	(void)state;
	fail_once(rails, &rail_00, START_NS, OTTE_RAIL_TRAFFIC);
	fail_once(rails, &rail_00, START_NS + 1, OTTE_RAIL_TRAFFIC);
	/* What goes well in between does not make up for it. */
	succeed_once(rails, &rail_00, START_NS + 2, OTTE_RAIL_TRAFFIC);
	assert_int_equal(total(rails).paused, 0);
	fail_once(rails, &rail_00, START_NS + 10 * SEC, OTTE_RAIL_TRAFFIC);
	assert_int_equal(total(rails).paused, 1);
	refused(rails, &rail_00, START_NS + 10 * SEC);
	/* A nanosecond later the first is too old; the second is not. */
	fail_once(rails, &late, START_NS, OTTE_RAIL_TRAFFIC);
	fail_once(rails, &late, START_NS + 5, OTTE_RAIL_TRAFFIC);
	fail_once(rails, &late, START_NS + 10 * SEC + 1, OTTE_RAIL_TRAFFIC);
	assert_int_equal(total(rails).paused, 1);
	fail_once(rails, &late, START_NS + 10 * SEC + 5, OTTE_RAIL_TRAFFIC);
	assert_int_equal(total(rails).paused, 2);
	otte_rails_destroy(rails);
}

/* And then it goes as with any other pause; told too late, or of a trial, it is a failure as others. */
static void one_that_is_condemned_is_paused_at_once(void **state)
{
	struct otte_rails *rails = create(HOUR_NS);
	struct otte_rail_ticket condemned, before, trial;
	struct otte_rails_stats stats;

	(void)state;
	before = take(rails, &rail_00, START_NS, OTTE_RAIL_TRAFFIC);
	condemned = take(rails, &rail_00, START_NS, OTTE_RAIL_TRAFFIC);
	otte_rails_condemn(rails, &condemned, START_NS);
	refused(rails, &rail_00, START_NS + 30 * SEC - 1);
	otte_rails_condemn(rails, &before, START_NS + SEC);
	otte_rails_stats(rails, &stats);
	assert_int_equal(stats.total.paused, 1);
	assert_int_equal(stats.total.errors, 2);
	trial = take(rails, &rail_00, START_NS + 30 * SEC, OTTE_RAIL_HALF_OPEN);
	otte_rails_condemn(rails, &trial, START_NS + 31 * SEC);
	refused(rails, &rail_00, START_NS + 91 * SEC - 1);
	succeed_once(rails, &rail_00, START_NS + 91 * SEC, OTTE_RAIL_HALF_OPEN);
	before = take(rails, &rail_00, START_NS + 92 * SEC, OTTE_RAIL_TRAFFIC);
	otte_rails_port_changed(rails, 0);
	otte_rails_condemn(rails, &before, START_NS + 92 * SEC);
	otte_rails_stats(rails, &stats);
	assert_int_equal(stats.total.paused, 0);
	assert_int_equal(stats.total.fenced, 1);
	otte_rails_destroy(rails);
}

static void the_first_pause_is_thirty_seconds_to_the_nanosecond(void **state)
{
	struct otte_rails *rails = create(HOUR_NS);

	(void)state;
	pause_rail(rails, &rail_00, START_NS);
	refused(rails, &rail_00, START_NS + 30 * SEC - 1);
	succeed_once(rails, &rail_00, START_NS + 30 * SEC, OTTE_RAIL_HALF_OPEN);
	succeed_once(rails, &rail_00, START_NS + 30 * SEC, OTTE_RAIL_TRAFFIC);
	otte_rails_destroy(rails);
}

static void each_failed_half_open_trial_doubles_the_pause_up_to_five_minutes(void **state)
{
	static const uint64_t seconds[] = { 30, 60, 120, 240, 300, 300, 300 };
	struct otte_rails *rails = create(HOUR_NS);
	uint64_t now_ns = START_NS;
	unsigned i;

	(void)state;
	pause_rail(rails, &rail_00, now_ns);
	for (i = 0; i < ARRAY_SIZE(seconds); i++) {
		refused(rails, &rail_00, now_ns + seconds[i] * SEC - 1);
		now_ns += seconds[i] * SEC;
		fail_once(rails, &rail_00, now_ns, OTTE_RAIL_HALF_OPEN);
	}
	assert_int_equal(total(rails).probes, ARRAY_SIZE(seconds));
	assert_int_equal(total(rails).errors, 3 + ARRAY_SIZE(seconds));
	otte_rails_destroy(rails);
}

static void after_a_recovery_all_is_as_at_first(void **state)
{
	struct otte_rails *rails = create(HOUR_NS);
	uint64_t now_ns = START_NS;

	(void)state;
	pause_rail(rails, &rail_00, now_ns);
	fail_once(rails, &rail_00, now_ns += 30 * SEC, OTTE_RAIL_HALF_OPEN);
	succeed_once(rails, &rail_00, now_ns += 60 * SEC, OTTE_RAIL_HALF_OPEN);
	assert_int_equal(total(rails).recoveries, 1);
	assert_int_equal(total(rails).paused, 0);
	fail_once(rails, &rail_00, now_ns, OTTE_RAIL_TRAFFIC);
	fail_once(rails, &rail_00, now_ns, OTTE_RAIL_TRAFFIC);
	assert_int_equal(total(rails).paused, 0);
	fail_once(rails, &rail_00, now_ns, OTTE_RAIL_TRAFFIC);
	refused(rails, &rail_00, now_ns + 30 * SEC - 1);
	cancel_once(rails, &rail_00, now_ns + 30 * SEC, OTTE_RAIL_HALF_OPEN);
	otte_rails_destroy(rails);
}

/* ---- Trials ---- */

static void a_paused_rail_is_probed_once_a_second(void **state)
{
	struct otte_rails *rails = create(SEC);

	(void)state;
	pause_rail(rails, &rail_00, START_NS);
	refused(rails, &rail_00, START_NS + SEC - 1);
	fail_once(rails, &rail_00, START_NS + SEC, OTTE_RAIL_PROBE);
	refused(rails, &rail_00, START_NS + 2 * SEC - 1);
	/* From when it began, and only as often as somebody has something to send. */
	fail_once(rails, &rail_00, START_NS + 2 * SEC + 7, OTTE_RAIL_PROBE);
	refused(rails, &rail_00, START_NS + 3 * SEC + 6);
	succeed_once(rails, &rail_00, START_NS + 3 * SEC + 7, OTTE_RAIL_PROBE);
	succeed_once(rails, &rail_00, START_NS + 3 * SEC + 7, OTTE_RAIL_TRAFFIC);
	assert_int_equal(total(rails).probes, 3);
	otte_rails_destroy(rails);
}

static void with_an_interval_of_zero_a_probe_is_due_at_once(void **state)
{
	struct otte_rails *rails = create(0);
	struct otte_rail_ticket probe;

	(void)state;
	pause_rail(rails, &rail_00, START_NS);
	fail_once(rails, &rail_00, START_NS, OTTE_RAIL_PROBE);
	probe = take(rails, &rail_00, START_NS, OTTE_RAIL_PROBE);
	refused(rails, &rail_00, START_NS + SEC);
	otte_rails_succeed(rails, &probe);
	succeed_once(rails, &rail_00, START_NS + SEC, OTTE_RAIL_TRAFFIC);
	otte_rails_destroy(rails);
}

static void a_failed_probe_leaves_the_pause_as_it_is(void **state)
{
	struct otte_rails *rails = create(SEC);
	struct otte_rail_ticket probe;

	(void)state;
	pause_rail(rails, &rail_00, START_NS);
	fail_once(rails, &rail_00, START_NS + 5 * SEC, OTTE_RAIL_PROBE);
	/* Also one that began during the pause and fails when it would have been over. */
	probe = take(rails, &rail_00, START_NS + 30 * SEC - 1, OTTE_RAIL_PROBE);
	otte_rails_fail(rails, &probe, START_NS + 40 * SEC);
	fail_once(rails, &rail_00, START_NS + 40 * SEC, OTTE_RAIL_HALF_OPEN);
	/* The pause that follows is the second. */
	fail_once(rails, &rail_00, START_NS + 100 * SEC - 1, OTTE_RAIL_PROBE);
	fail_once(rails, &rail_00, START_NS + 100 * SEC, OTTE_RAIL_HALF_OPEN);
	fail_once(rails, &rail_00, START_NS + 220 * SEC - 1, OTTE_RAIL_PROBE);
	cancel_once(rails, &rail_00, START_NS + 220 * SEC, OTTE_RAIL_HALF_OPEN);
	otte_rails_destroy(rails);
}

static void a_rail_has_one_trial_at_a_time(void **state)
{
	static const struct otte_rail beside = { PEER, 0, 1 }, elsewhere = { OTHER, 0, 0 };
	struct otte_rail_ticket probe, half_open, other;
	struct otte_rails *rails = create(SEC);

	(void)state;
	pause_rail(rails, &rail_00, START_NS);
	pause_rail(rails, &beside, START_NS);
	probe = take(rails, &rail_00, START_NS + SEC, OTTE_RAIL_PROBE);
	refused(rails, &rail_00, START_NS + 2 * SEC);
	refused(rails, &rail_00, START_NS + 31 * SEC);
	/* Another rail has its own, and the same pair of another peer is well. */
	other = take(rails, &beside, START_NS + SEC, OTTE_RAIL_PROBE);
	succeed_once(rails, &elsewhere, START_NS + SEC, OTTE_RAIL_TRAFFIC);
	otte_rails_fail(rails, &probe, START_NS + 31 * SEC);
	half_open = take(rails, &rail_00, START_NS + 31 * SEC, OTTE_RAIL_HALF_OPEN);
	refused(rails, &rail_00, START_NS + HOUR_NS);
	otte_rails_succeed(rails, &half_open);
	otte_rails_succeed(rails, &other);
	assert_int_equal(total(rails).recoveries, 2);
	otte_rails_destroy(rails);
}

static void nothing_but_the_trial_s_success_ends_a_pause(void **state)
{
	struct otte_rails *rails = create(SEC);
	struct otte_rail_ticket before[2], probe;
	uint64_t now_ns = START_NS;

	(void)state;
	before[0] = take(rails, &rail_00, now_ns, OTTE_RAIL_TRAFFIC);
	before[1] = take(rails, &rail_00, now_ns, OTTE_RAIL_TRAFFIC);
	pause_rail(rails, &rail_00, now_ns);
	probe = take(rails, &rail_00, now_ns + SEC, OTTE_RAIL_PROBE);
	otte_rails_succeed(rails, &before[0]);
	refused(rails, &rail_00, now_ns + 2 * SEC);
	assert_int_equal(total(rails).recoveries, 0);
	/* Nor does what was sent before make it longer. */
	otte_rails_fail(rails, &before[1], now_ns + 29 * SEC);
	assert_int_equal(total(rails).errors, 4);
	otte_rails_fail(rails, &probe, now_ns + 29 * SEC);
	succeed_once(rails, &rail_00, now_ns + 30 * SEC, OTTE_RAIL_HALF_OPEN);
	assert_int_equal(total(rails).recoveries, 1);
	otte_rails_destroy(rails);
}

static void a_cancelled_trial_is_due_again_and_was_none(void **state)
{
	struct otte_rails *rails = create(SEC);

	(void)state;
	pause_rail(rails, &rail_00, START_NS);
	cancel_once(rails, &rail_00, START_NS + SEC, OTTE_RAIL_PROBE);
	cancel_once(rails, &rail_00, START_NS + SEC, OTTE_RAIL_PROBE);
	fail_once(rails, &rail_00, START_NS + SEC, OTTE_RAIL_PROBE);
	refused(rails, &rail_00, START_NS + 2 * SEC - 1);
	cancel_once(rails, &rail_00, START_NS + 30 * SEC, OTTE_RAIL_HALF_OPEN);
	fail_once(rails, &rail_00, START_NS + 30 * SEC, OTTE_RAIL_HALF_OPEN);
	assert_int_equal(total(rails).probes, 2);
	refused(rails, &rail_00, START_NS + 31 * SEC - 1);
	/* Traffic that is cancelled is nothing either. */
	otte_rails_forget(rails, PEER);
	cancel_once(rails, &rail_00, START_NS, OTTE_RAIL_TRAFFIC);
	assert_int_equal(total(rails).errors, 5);
	otte_rails_destroy(rails);
}

/* ---- Ports ---- */

static void what_is_told_of_a_port_before_it_changed_changes_nothing(void **state)
{
	static const struct otte_rail elsewhere = { PEER, 1, 0 };
	struct otte_rails *rails = create(SEC);
	struct otte_rail_ticket failing[3], probe, half_open;
	unsigned i;

	(void)state;
	for (i = 0; i < 3; i++)
		failing[i] = take(rails, &rail_00, START_NS, OTTE_RAIL_TRAFFIC);
	otte_rails_port_changed(rails, 0);
	for (i = 0; i < 3; i++)
		otte_rails_fail(rails, &failing[i], START_NS);
	assert_int_equal(total(rails).errors, 0);
	assert_int_equal(total(rails).fenced, 3);
	assert_int_equal(total(rails).paused, 0);

	pause_rail(rails, &rail_00, START_NS);
	probe = take(rails, &rail_00, START_NS + SEC, OTTE_RAIL_PROBE);
	otte_rails_port_changed(rails, 0);
	/* It still has its slot. */
	refused(rails, &rail_00, START_NS + 2 * SEC);
	otte_rails_succeed(rails, &probe);
	assert_int_equal(total(rails).recoveries, 0);
	half_open = take(rails, &rail_00, START_NS + 30 * SEC, OTTE_RAIL_HALF_OPEN);
	otte_rails_port_changed(rails, 0);
	otte_rails_fail(rails, &half_open, START_NS + 31 * SEC);
	/* The pause is no longer for it. */
	assert_int_equal(total(rails).errors, 3);
	fail_once(rails, &rail_00, START_NS + 31 * SEC, OTTE_RAIL_HALF_OPEN);
	refused(rails, &rail_00, START_NS + 32 * SEC - 1);
	fail_once(rails, &rail_00, START_NS + 91 * SEC, OTTE_RAIL_HALF_OPEN);

	/* Another port is another one. */
	failing[0] = take(rails, &elsewhere, START_NS, OTTE_RAIL_TRAFFIC);
	otte_rails_port_changed(rails, 0);
	otte_rails_fail(rails, &failing[0], START_NS);
	assert_int_equal(total(rails).errors, 6);
	otte_rails_destroy(rails);
}

static void failures_of_two_ports_do_not_add_up(void **state)
{
	struct otte_rails *rails = create(SEC);

	(void)state;
	fail_once(rails, &rail_00, START_NS, OTTE_RAIL_TRAFFIC);
	fail_once(rails, &rail_00, START_NS, OTTE_RAIL_TRAFFIC);
	otte_rails_port_changed(rails, 0);
	fail_once(rails, &rail_00, START_NS, OTTE_RAIL_TRAFFIC);
	fail_once(rails, &rail_00, START_NS, OTTE_RAIL_TRAFFIC);
	assert_int_equal(total(rails).paused, 0);
	fail_once(rails, &rail_00, START_NS, OTTE_RAIL_TRAFFIC);
	assert_int_equal(total(rails).paused, 1);
	otte_rails_destroy(rails);
}

/* ---- Which rails there are ---- */

/* Three NICs on either side, all compatible; direct are those with the same number. */
static const struct otte_rail_paths three = {
	.compatible = { 7, 7, 7 },
	.direct = { 1, 2, 4 },
};

static void topology_mask_and_paths_say_what_is_allowed(void **state)
{
	struct otte_rails_allowed allowed;
	struct otte_rails_config config;
	struct otte_rails *rails = create(SEC);

	(void)state;
	assert_int_equal(otte_rails_allowed(rails, PEER, &three, 7, START_NS, &allowed), 0);
	assert_int_equal(allowed.locals, 7);
	assert_int_equal(allowed.healthy[1], 7);
	assert_int_equal(allowed.trial[1], 0);
	assert_int_equal(otte_rails_allowed(rails, PEER, &three, 0xfe, START_NS, &allowed), 0);
	assert_int_equal(allowed.locals, 6);
	assert_int_equal(allowed.healthy[0], 0);
	otte_rails_destroy(rails);

	otte_rails_config_init(&config);
	config.topology = OTTE_RAILS_DIRECT;
	assert_int_equal(otte_rails_create(&config, &rails), 0);
	assert_int_equal(otte_rails_allowed(rails, PEER, &three, ~0ull, START_NS, &allowed), 0);
	assert_int_equal(allowed.locals, 7);
	assert_int_equal(allowed.healthy[0], 1);
	assert_int_equal(allowed.healthy[1], 2);
	assert_int_equal(allowed.healthy[2], 4);
	otte_rails_destroy(rails);
}

static void a_paused_rail_is_not_allowed_until_a_trial_is_due(void **state)
{
	static const struct otte_rail rail_01 = { PEER, 0, 1 };
	struct otte_rails *rails = create(SEC);
	struct otte_rails_allowed allowed;
	struct otte_rail_ticket probe;

	(void)state;
	pause_rail(rails, &rail_01, START_NS);
	assert_int_equal(otte_rails_allowed(rails, PEER, &three, 3, START_NS + SEC - 1, &allowed),
			 0);
	assert_int_equal(allowed.healthy[0], 5);
	assert_int_equal(allowed.trial[0], 0);
	assert_int_equal(allowed.healthy[1], 7);
	assert_int_equal(otte_rails_allowed(rails, PEER, &three, 3, START_NS + SEC, &allowed), 0);
	assert_int_equal(allowed.healthy[0], 5);
	assert_int_equal(allowed.trial[0], 2);
	/* The same pair of another peer. */
	assert_int_equal(otte_rails_allowed(rails, OTHER, &three, 3, START_NS, &allowed), 0);
	assert_int_equal(allowed.healthy[0], 7);
	probe = take(rails, &rail_01, START_NS + SEC, OTTE_RAIL_PROBE);
	assert_int_equal(otte_rails_allowed(rails, PEER, &three, 3, START_NS + HOUR_NS, &allowed),
			 0);
	assert_int_equal(allowed.trial[0], 0);
	otte_rails_succeed(rails, &probe);
	assert_int_equal(otte_rails_allowed(rails, PEER, &three, 3, START_NS + SEC, &allowed), 0);
	assert_int_equal(allowed.healthy[0], 7);
	otte_rails_destroy(rails);
}

static void looking_arms_no_trial(void **state)
{
	struct otte_rails *rails = create(SEC);
	struct otte_rails_stats before, after;
	struct otte_rails_allowed allowed;
	unsigned i;

	(void)state;
	pause_rail(rails, &rail_00, START_NS);
	otte_rails_stats(rails, &before);
	for (i = 0; i < 1000; i++)
		assert_int_equal(
			otte_rails_allowed(rails, PEER, &three, 7, START_NS + SEC, &allowed), 0);
	otte_rails_stats(rails, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(allowed.trial[0], 1);
	fail_once(rails, &rail_00, START_NS + SEC, OTTE_RAIL_PROBE);
	otte_rails_destroy(rails);
}

static void check_unreachable(const struct otte_rails *rails, const struct otte_rail_paths *paths,
			      uint64_t devices, uint64_t now_ns, const char *text)
{
	struct otte_rails_allowed allowed;
	unsigned i;

	assert_int_equal(otte_rails_allowed(rails, PEER, paths, devices, now_ns, &allowed),
			 -ENETUNREACH);
	assert_string_equal(otte_error_text(), text);
	assert_int_equal(allowed.locals, 0);
	for (i = 0; i < OTTE_NIC_IDS; i++)
		assert_int_equal(allowed.healthy[i] | allowed.trial[i], 0);
}

static void where_nothing_is_allowed_the_text_says_why(void **state)
{
	static const struct otte_rail_paths unlike = { .compatible = { 2 }, .direct = { 0 } };
	static const struct otte_rail rail_01 = { PEER, 0, 1 };
	struct otte_rails_config config;
	struct otte_rails *rails = create(SEC);

	(void)state;
	check_unreachable(rails, &three, 0, START_NS, "no NIC of 0x0 has a path to the peer");
	check_unreachable(rails, &three, 0xf0, START_NS, "no NIC of 0xf0 has a path to the peer");
	pause_rail(rails, &rail_01, START_NS);
	check_unreachable(rails, &unlike, 1, START_NS + SEC / 2,
			  "rails to the peer are all paused (1), the next trial is in 500 ms");
	take(rails, &rail_01, START_NS + SEC, OTTE_RAIL_PROBE);
	check_unreachable(rails, &unlike, 1, START_NS + SEC,
			  "rails to the peer are all paused (1) and tried now");
	otte_rails_destroy(rails);
	otte_rails_config_init(&config);
	config.topology = OTTE_RAILS_DIRECT;
	assert_int_equal(otte_rails_create(&config, &rails), 0);
	check_unreachable(rails, &unlike, 1, START_NS,
			  "no NIC of 0x1 has a path to the peer (rail_topology is direct)");
	otte_rails_destroy(rails);
}

/* ---- The table ---- */

static struct otte_rails *create_small(uint32_t max_pairs)
{
	struct otte_rails_config config;
	struct otte_rails *rails;

	otte_rails_config_init(&config);
	config.max_pairs = max_pairs;
	assert_int_equal(otte_rails_create(&config, &rails), 0);
	return rails;
}

static void full(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns)
{
	struct otte_rail_ticket ticket;
	uint32_t before = pairs(rails);

	assert_int_equal(otte_rails_admit(rails, rail, now_ns, &ticket), -EDQUOT);
	assert_non_null(strstr(otte_error_text(), "max_rail_pairs (2)"));
	assert_int_equal(pairs(rails), before);
}

static void a_full_table_keeps_what_is_in_use_paused_or_failed_lately(void **state)
{
	static const struct otte_rail a = { PEER, 0, 0 }, b = { PEER, 0, 1 }, c = { PEER, 0, 2 };
	struct otte_rails *rails = create_small(2);
	struct otte_rail_ticket used;

	(void)state;
	pause_rail(rails, &a, START_NS);
	used = take(rails, &b, START_NS, OTTE_RAIL_TRAFFIC);
	full(rails, &c, START_NS + HOUR_NS);
	/* Those that are known go on. */
	succeed_once(rails, &b, START_NS, OTTE_RAIL_TRAFFIC);
	otte_rails_fail(rails, &used, START_NS);
	full(rails, &c, START_NS + 10 * SEC);
	succeed_once(rails, &c, START_NS + 10 * SEC + 1, OTTE_RAIL_TRAFFIC);
	assert_int_equal(pairs(rails), 2);
	assert_int_equal(total(rails).paused, 1);
	refused(rails, &a, START_NS);
	otte_rails_destroy(rails);
}

static void an_idle_one_goes_for_another_but_not_with_failures_that_count(void **state)
{
	static const struct otte_rail a = { PEER, 0, 0 }, b = { PEER, 0, 1 }, c = { PEER, 0, 2 };
	struct otte_rails *rails = create_small(2);

	(void)state;
	fail_once(rails, &a, START_NS, OTTE_RAIL_TRAFFIC);
	fail_once(rails, &a, START_NS, OTTE_RAIL_TRAFFIC);
	succeed_once(rails, &b, START_NS, OTTE_RAIL_TRAFFIC);
	/* It is b that goes, though a is idle for longer. */
	succeed_once(rails, &c, START_NS + SEC, OTTE_RAIL_TRAFFIC);
	fail_once(rails, &a, START_NS + SEC, OTTE_RAIL_TRAFFIC);
	assert_int_equal(total(rails).paused, 1);
	otte_rails_destroy(rails);
}

static void a_forgotten_epoch_gives_its_places_back_with_its_last_ticket(void **state)
{
	static const struct otte_rail a = { PEER, 0, 0 }, b = { PEER, 1, 0 }, c = { OTHER, 0, 0 };
	struct otte_rails *rails = create_small(2);
	struct otte_rail_ticket probe, sent;

	(void)state;
	pause_rail(rails, &a, START_NS);
	pause_rail(rails, &b, START_NS);
	probe = take(rails, &b, START_NS + SEC, OTTE_RAIL_PROBE);
	otte_rails_forget(rails, PEER);
	assert_int_equal(total(rails).paused, 0);
	assert_int_equal(pairs(rails), 1);
	sent = take(rails, &c, START_NS, OTTE_RAIL_TRAFFIC);
	full(rails, &a, START_NS);
	otte_rails_succeed(rails, &probe);
	assert_int_equal(total(rails).recoveries, 0);
	assert_int_equal(total(rails).fenced, 1);
	assert_int_equal(pairs(rails), 1);
	otte_rails_forget(rails, OTHER);
	otte_rails_fail(rails, &sent, START_NS);
	assert_int_equal(total(rails).errors, 6);
	assert_int_equal(pairs(rails), 0);
	/* Idle ones, and a trial that is cancelled afterwards. */
	succeed_once(rails, &a, START_NS, OTTE_RAIL_TRAFFIC);
	pause_rail(rails, &b, START_NS);
	probe = take(rails, &b, START_NS + SEC, OTTE_RAIL_PROBE);
	otte_rails_forget(rails, PEER);
	assert_int_equal(pairs(rails), 1);
	otte_rails_cancel(rails, &probe);
	assert_int_equal(pairs(rails), 0);
	assert_int_equal(total(rails).paused, 0);
	otte_rails_destroy(rails);
}

static void counters_are_kept_by_local_nic_too(void **state)
{
	static const struct otte_rail a = { PEER, 3, 0 }, b = { OTHER, 3, 9 }, c = { PEER, 63, 63 };
	struct otte_rails *rails = create(SEC);
	struct otte_rails_stats stats;
	struct otte_rail_ticket before;

	(void)state;
	pause_rail(rails, &a, START_NS);
	pause_rail(rails, &b, START_NS);
	before = take(rails, &c, START_NS, OTTE_RAIL_TRAFFIC);
	pause_rail(rails, &c, START_NS);
	succeed_once(rails, &b, START_NS + SEC, OTTE_RAIL_PROBE);
	otte_rails_port_changed(rails, 63);
	otte_rails_fail(rails, &before, START_NS);
	otte_rails_stats(rails, &stats);
	assert_memory_equal(
		&stats.nic[3],
		(&(struct otte_rail_counters){
			.errors = 6, .probes = 1, .recoveries = 1, .pauses = 2, .paused = 1 }),
		sizeof(stats.nic[3]));
	assert_memory_equal(&stats.nic[63],
			    (&(struct otte_rail_counters){
				    .errors = 3, .pauses = 1, .fenced = 1, .paused = 1 }),
			    sizeof(stats.nic[63]));
	assert_memory_equal(&stats.total,
			    (&(struct otte_rail_counters){ .errors = 9,
							   .probes = 1,
							   .recoveries = 1,
							   .pauses = 3,
							   .fenced = 1,
							   .paused = 2 }),
			    sizeof(stats.total));
	assert_int_equal(stats.pairs, 3);
	otte_rails_destroy(rails);
}

static void a_config_that_makes_no_sense_is_named(void **state)
{
	struct otte_rails_config config;
	struct otte_rails *rails;

	(void)state;
	otte_rails_config_init(&config);
	assert_int_equal(config.max_pairs, 1024);
	assert_int_equal(config.topology, OTTE_RAILS_ALL);
	config.max_pairs = 0;
	assert_int_equal(otte_rails_create(&config, &rails), -EINVAL);
	assert_string_equal(otte_error_text(), "max_rail_pairs is 0");
	otte_rails_config_init(&config);
	config.error_threshold = OTTE_RAILS_ERRORS_MAX + 1;
	assert_int_equal(otte_rails_create(&config, &rails), -EINVAL);
	assert_string_equal(otte_error_text(), "rail_error_threshold (17) is not 1 to 16");
	config.error_threshold = 0;
	assert_int_equal(otte_rails_create(&config, &rails), -EINVAL);
	otte_rails_config_init(&config);
	config.cooldown_ns = config.cooldown_max_ns + 1;
	assert_int_equal(otte_rails_create(&config, &rails), -EINVAL);
	otte_rails_destroy(NULL);
}

static void without_memory_nothing_has_changed(void **state)
{
	struct otte_rails_config config;
	struct otte_rail_ticket ticket;
	struct otte_rails *rails;
	unsigned n;
	int ret;

	(void)state;
	otte_rails_config_init(&config);
	fail_allocation = 1;
	assert_int_equal(otte_rails_create(&config, &rails), -ENOMEM);
	rails = create(SEC);
	for (n = 1;; n++) {
		fail_allocation = n;
		ret = otte_rails_admit(rails, &rail_00, START_NS, &ticket);
		if (!ret)
			break;
		assert_int_equal(ret, -ENOMEM);
		assert_int_equal(pairs(rails), 0);
	}
	fail_allocation = 0;
	assert_true(n > 2);
	otte_rails_succeed(rails, &ticket);
	otte_rails_destroy(rails);
}

/* ---- Against a model ---- */

#define PEERS 2
#define NICS 3
#define RAILS (PEERS * NICS * NICS)
#define TABLE 12
#define TICKETS 40
#define STEPS 60000

struct model_rail {
	struct otte_rail rail;
	bool known; /* in the table */
	uint64_t idle; /* order of becoming so; 0: it is not */
	uint32_t tickets;
	bool paused, tried;
	uint64_t began_ns, length_ns; /* of the pause */
	uint64_t probe_ns, probe_before_ns; /* when the last probe began, or the pause */
	/* All failures of traffic since it was last well for certain. */
	struct {
		uint64_t at_ns, generation;
	} failed[16];
	unsigned failures;
	unsigned epoch;
};

struct model_ticket {
	bool out;
	struct otte_rail_ticket ticket;
	struct model_rail *rail;
	uint64_t generation;
	unsigned epoch;
	enum otte_rail_purpose purpose;
};

struct model {
	struct otte_rails_config config;
	struct otte_rails *rails;
	struct model_rail rail[RAILS];
	struct model_ticket ticket[TICKETS];
	uint64_t generation[NICS], now_ns, order;
	struct otte_rail_counters expected;
	uint32_t ghosts; /* forgotten, with tickets */
	unsigned full, evicted, half_open;
};

static bool model_trial_due(const struct model *m, const struct model_rail *r)
{
	return !r->tried && (m->now_ns >= r->began_ns + r->length_ns ||
			     m->now_ns >= r->probe_ns + m->config.probe_interval_ns);
}

static bool model_failed_lately(const struct model *m, const struct model_rail *r)
{
	return r->failures &&
	       m->now_ns - r->failed[r->failures - 1].at_ns <= m->config.error_window_ns;
}

static uint32_t model_pairs(const struct model *m)
{
	uint32_t known = m->ghosts, i;

	for (i = 0; i < RAILS; i++)
		known += m->rail[i].known;
	return known;
}

static void model_reset(struct model_rail *r)
{
	unsigned epoch = r->epoch;
	struct otte_rail rail = r->rail;

	memset(r, 0, sizeof(*r));
	r->rail = rail;
	r->epoch = epoch;
}

static bool model_evict(struct model *m)
{
	struct model_rail *oldest = NULL;
	unsigned i;

	for (i = 0; i < RAILS; i++) {
		struct model_rail *r = &m->rail[i];

		if (r->known && r->idle && !model_failed_lately(m, r) &&
		    (!oldest || r->idle < oldest->idle))
			oldest = r;
	}
	if (!oldest)
		return false;
	model_reset(oldest);
	m->evicted++;
	return true;
}

static int model_admit(struct model *m, struct model_rail *r, enum otte_rail_purpose *purpose)
{
	if (!r->known) {
		if (model_pairs(m) == TABLE && !model_evict(m)) {
			m->full++;
			return -EDQUOT;
		}
		r->known = true;
	}
	*purpose = OTTE_RAIL_TRAFFIC;
	if (r->paused) {
		if (!model_trial_due(m, r))
			return -EAGAIN;
		*purpose = m->now_ns >= r->began_ns + r->length_ns ? OTTE_RAIL_HALF_OPEN :
								     OTTE_RAIL_PROBE;
		r->tried = true;
		r->probe_before_ns = r->probe_ns;
		if (*purpose == OTTE_RAIL_PROBE)
			r->probe_ns = m->now_ns;
		m->half_open += *purpose == OTTE_RAIL_HALF_OPEN;
	}
	r->tickets++;
	r->idle = 0;
	return 0;
}

static void model_pause(struct model *m, struct model_rail *r, uint64_t length_ns)
{
	m->expected.pauses++;
	m->expected.paused += !r->paused;
	r->paused = true;
	r->tried = false;
	r->began_ns = r->probe_ns = m->now_ns;
	r->length_ns = length_ns;
	r->failures = 0;
}

static void model_traffic_failed(struct model *m, struct model_rail *r)
{
	unsigned i, recent = 1;

	if (r->paused)
		return;
	for (i = 0; i < r->failures; i++)
		recent += r->failed[i].generation == m->generation[r->rail.local] &&
			  m->now_ns - r->failed[i].at_ns <= m->config.error_window_ns;
	if (recent == m->config.error_threshold) {
		model_pause(m, r, m->config.cooldown_ns);
		return;
	}
	if (r->failures == ARRAY_SIZE(r->failed))
		memmove(r->failed, r->failed + 1, --r->failures * sizeof(r->failed[0]));
	r->failed[r->failures].at_ns = m->now_ns;
	r->failed[r->failures++].generation = m->generation[r->rail.local];
}

/* `how`: 0 it went well, 1 it failed, 2 it was cancelled. */
static void model_end(struct model *m, struct model_ticket *t, unsigned how)
{
	struct model_rail *r = t->rail;
	bool trial = t->purpose != OTTE_RAIL_TRAFFIC, stale = t->epoch != r->epoch;

	m->expected.probes += trial && how != 2;
	if (stale) {
		unsigned left = 0, i;

		m->expected.fenced += how != 2;
		for (i = 0; i < TICKETS; i++)
			left += m->ticket[i].out && m->ticket[i].rail == r &&
				m->ticket[i].epoch == t->epoch;
		m->ghosts -= !left;
		return;
	}
	if (how == 2) {
		if (trial)
			r->probe_ns = r->probe_before_ns;
	} else if (t->generation != m->generation[r->rail.local]) {
		m->expected.fenced++;
	} else if (how == 0 && trial) {
		m->expected.recoveries++;
		m->expected.paused--;
		r->paused = false;
		r->failures = 0;
	} else if (how == 1) {
		m->expected.errors++;
		if (!trial)
			model_traffic_failed(m, r);
		if (t->purpose == OTTE_RAIL_HALF_OPEN)
			model_pause(m, r, min_u64(2 * r->length_ns, m->config.cooldown_max_ns));
	}
	if (trial)
		r->tried = false;
	if (!--r->tickets && !r->paused)
		r->idle = ++m->order;
}

static void model_forget(struct model *m, uint64_t peer)
{
	unsigned i;

	for (i = 0; i < RAILS; i++) {
		struct model_rail *r = &m->rail[i];

		if (r->rail.peer != peer)
			continue;
		m->ghosts += r->known && r->tickets;
		m->expected.paused -= r->paused;
		r->epoch++;
		model_reset(r);
	}
}

static void walk_admit(struct model *m, struct model_ticket *t)
{
	struct model_rail *r = &m->rail[draw(RAILS)];
	enum otte_rail_purpose purpose = OTTE_RAIL_TRAFFIC;
	int expected = model_admit(m, r, &purpose);

	assert_int_equal(otte_rails_admit(m->rails, &r->rail, m->now_ns, &t->ticket), expected);
	if (expected)
		return;
	assert_int_equal(t->ticket.purpose, purpose);
	t->out = true;
	t->rail = r;
	t->generation = m->generation[r->rail.local];
	t->epoch = r->epoch;
	t->purpose = purpose;
}

static void walk_end(struct model *m, struct model_ticket *t)
{
	unsigned how = draw(8) ? draw(3) != 0 : 2;

	t->out = false;
	model_end(m, t, how);
	if (how == 0)
		otte_rails_succeed(m->rails, &t->ticket);
	else if (how == 1)
		otte_rails_fail(m->rails, &t->ticket, m->now_ns);
	else
		otte_rails_cancel(m->rails, &t->ticket);
}

static void check_allowed(struct model *m)
{
	uint64_t peer = PEER + draw(PEERS), devices = draw(1 << NICS), locals = 0;
	struct otte_rails_allowed allowed;
	unsigned i;
	int ret = otte_rails_allowed(m->rails, peer, &three, devices, m->now_ns, &allowed);

	for (i = 0; i < RAILS; i++) {
		struct model_rail *r = &m->rail[i];
		uint64_t remote = 1ull << r->rail.remote, local = 1ull << r->rail.local;
		bool healthy = devices & local && !r->paused;
		bool trial = devices & local && r->paused && model_trial_due(m, r);

		if (r->rail.peer != peer)
			continue;
		assert_int_equal(!!(allowed.healthy[r->rail.local] & remote), healthy);
		assert_int_equal(!!(allowed.trial[r->rail.local] & remote), trial);
		if (healthy || trial)
			locals |= local;
	}
	assert_int_equal(allowed.locals, locals);
	assert_int_equal(ret, locals ? 0 : -ENETUNREACH);
}

static void walk_step(struct model *m)
{
	struct model_ticket *t = &m->ticket[draw(TICKETS)];
	struct otte_rails_stats stats;

	m->now_ns += draw(draw(20) ? SEC / 4 : 20 * SEC);
	if (t->out)
		walk_end(m, t);
	else
		walk_admit(m, t);
	if (!draw(200)) {
		unsigned local = (unsigned)draw(NICS);

		m->generation[local]++;
		otte_rails_port_changed(m->rails, local);
	}
	if (!draw(1000)) {
		uint64_t peer = PEER + draw(PEERS);

		model_forget(m, peer);
		otte_rails_forget(m->rails, peer);
	}
	check_allowed(m);
	otte_rails_stats(m->rails, &stats);
	assert_memory_equal(&stats.total, &m->expected, sizeof(m->expected));
	assert_int_equal(stats.pairs, model_pairs(m));
}

static void walk(struct model *m, uint64_t probe_interval_ns)
{
	unsigned i;

	memset(m, 0, sizeof(*m));
	otte_rails_config_init(&m->config);
	m->config.max_pairs = TABLE;
	m->config.probe_interval_ns = probe_interval_ns;
	m->now_ns = START_NS;
	for (i = 0; i < RAILS; i++)
		m->rail[i].rail =
			(struct otte_rail){ PEER + i / (NICS * NICS), i / NICS % NICS, i % NICS };
	assert_int_equal(otte_rails_create(&m->config, &m->rails), 0);
	for (i = 0; i < STEPS; i++)
		walk_step(m);
	for (i = 0; i < TICKETS; i++)
		if (m->ticket[i].out)
			walk_end(m, &m->ticket[i]);
	otte_rails_forget(m->rails, PEER);
	otte_rails_forget(m->rails, PEER + 1);
	assert_int_equal(pairs(m->rails), 0);
	otte_rails_destroy(m->rails);
	assert_true(m->expected.recoveries > 100 && m->expected.fenced > 100);
	assert_true(m->full > 100 && m->evicted > 100 && m->half_open > 100);
}

static void drawn_walks_agree_with_a_model(void **state)
{
	static struct model model;

	(void)state;
	walk(&model, SEC);
	walk(&model, 0);
	walk(&model, 100 * SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_third_failure_within_ten_seconds_pauses),
		cmocka_unit_test(one_that_is_condemned_is_paused_at_once),
		cmocka_unit_test(the_first_pause_is_thirty_seconds_to_the_nanosecond),
		cmocka_unit_test(each_failed_half_open_trial_doubles_the_pause_up_to_five_minutes),
		cmocka_unit_test(after_a_recovery_all_is_as_at_first),
		cmocka_unit_test(a_paused_rail_is_probed_once_a_second),
		cmocka_unit_test(with_an_interval_of_zero_a_probe_is_due_at_once),
		cmocka_unit_test(a_failed_probe_leaves_the_pause_as_it_is),
		cmocka_unit_test(a_rail_has_one_trial_at_a_time),
		cmocka_unit_test(nothing_but_the_trial_s_success_ends_a_pause),
		cmocka_unit_test(a_cancelled_trial_is_due_again_and_was_none),
		cmocka_unit_test(what_is_told_of_a_port_before_it_changed_changes_nothing),
		cmocka_unit_test(failures_of_two_ports_do_not_add_up),
		cmocka_unit_test(topology_mask_and_paths_say_what_is_allowed),
		cmocka_unit_test(a_paused_rail_is_not_allowed_until_a_trial_is_due),
		cmocka_unit_test(looking_arms_no_trial),
		cmocka_unit_test(where_nothing_is_allowed_the_text_says_why),
		cmocka_unit_test(a_full_table_keeps_what_is_in_use_paused_or_failed_lately),
		cmocka_unit_test(an_idle_one_goes_for_another_but_not_with_failures_that_count),
		cmocka_unit_test(a_forgotten_epoch_gives_its_places_back_with_its_last_ticket),
		cmocka_unit_test(counters_are_kept_by_local_nic_too),
		cmocka_unit_test(a_config_that_makes_no_sense_is_named),
		cmocka_unit_test(without_memory_nothing_has_changed),
		cmocka_unit_test(drawn_walks_agree_with_a_model),
	};
	const char *given = getenv("SEED");

	if (given)
		seed = strtoull(given, NULL, 0);
	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("rails", tests, NULL, NULL);
}
