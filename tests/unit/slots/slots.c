/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The slot gate on clocks of the test's own, and beside the module's arithmetic: kmod/slot.c is a part of
 * this program. SEED=N draws other cases.
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
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "sched/slots.h"
#include "sched/window.h"

/* What the module's header takes from the kernel's. */
typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
#define U64_MAX UINT64_MAX
#include "../../../kmod/slot.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define HIGH 1u
#define MEDIUM 2u
#define LOW 4u
#define ALL (HIGH | MEDIUM | LOW)
#define CASES 200000

const char *otte_error_text(void);

static uint64_t seed = 20261129;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 16) % below;
}

static const struct otte_slots_pattern usual = {
	.interval_ns = 2 * NSEC_PER_MSEC,
	.slots = 3,
	.lowest = { 0, 1, 2 },
};

static unsigned admit(const struct otte_slots *slots, uint64_t now_ns)
{
	uint64_t again_ns = UINT64_MAX;

	return otte_slots_admit(slots, ALL, now_ns, &again_ns);
}

/* When to ask again on behalf of `wanted`. */
static uint64_t again(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns)
{
	uint64_t again_ns = UINT64_MAX;

	otte_slots_admit(slots, wanted, now_ns, &again_ns);
	return again_ns;
}

/* ---- Texts ---- */

static void a_pattern_is_read_as_words(void **state)
{
	struct otte_slots_pattern p;

	(void)state;
	memset(&p, 0xa5, sizeof(p));
	assert_int_equal(otte_slots_parse("high,medium,low", &p), 0);
	assert_int_equal(p.slots, 3);
	assert_memory_equal(p.lowest, usual.lowest, sizeof(p.lowest));
	assert_int_equal(otte_slots_parse("low", &p), 0);
	assert_int_equal(p.slots, 1);
	assert_memory_equal(p.lowest, "\2\0\0\0", 4);
	assert_int_equal(otte_slots_parse("medium,medium,medium,medium,medium,medium,medium,medium,"
					  "medium,medium,medium,medium,medium,medium,medium,low",
					  &p),
			 0);
	assert_int_equal(p.slots, 16);
	assert_int_equal(p.lowest[14], 1);
	assert_int_equal(p.lowest[15], 2);
}

static void a_pattern_that_cannot_do_is_refused_with_the_reason(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "", "slot 1 is none of high, medium, low" },
		{ "low,", "slot 2 is none of high, medium, low" },
		{ ",low", "slot 1 is none of high, medium, low" },
		{ "low, low", "slot 2 is none of high, medium, low" },
		{ "Low", "slot 1 is none of high, medium, low" },
		{ "lo", "slot 1 is none of high, medium, low" },
		{ "low\n", "slot 1 is none of high, medium, low" },
		{ "high,medium", "no slot is for low, which could never send" },
		{ "low,low,low,low,low,low,low,low,low,low,low,low,low,low,low,low,low",
		  "more than 16 slots" },
	};
	struct otte_slots_pattern p;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(otte_slots_parse(cases[i].text, &p), -EINVAL);
		assert_string_equal(otte_error_text(), cases[i].words);
	}
}

static void names_are_those_that_a_domain_can_have(void **state)
{
	(void)state;
	assert_int_equal(otte_slots_check_name("default"), 0);
	assert_int_equal(otte_slots_check_name("A-z_0.9:x@y"), 0);
	assert_int_equal(otte_slots_check_name("0123456789012345678901234567890"), 0);
	assert_int_equal(otte_slots_check_name("01234567890123456789012345678901"), -EINVAL);
	assert_string_equal(otte_error_text(), "longer than 31 bytes");
	assert_int_equal(otte_slots_check_name("a b"), -EINVAL);
	assert_string_equal(otte_error_text(), "only letters, digits and any of -_.:@ are allowed");
	assert_int_equal(otte_slots_check_name("a/b"), -EINVAL);
	assert_int_equal(otte_slots_check_name("\xc3\xa4"), -EINVAL);
}

/* ---- The clock alone ---- */

static void slots_of_two_milliseconds_are_high_then_high_and_medium_then_all(void **state)
{
	static const unsigned sends[] = { HIGH, HIGH | MEDIUM, ALL };
	struct otte_slots slots;
	uint64_t slot, start_ns;

	(void)state;
	assert_int_equal(otte_slots_open_clock(&slots, &usual, 0, 1), 0);
	for (slot = 0; slot < 3000; slot++) {
		start_ns = slot * 2000000;
		assert_int_equal(admit(&slots, start_ns), sends[slot % 3]);
		assert_int_equal(admit(&slots, start_ns + 1999999), sends[slot % 3]);
	}
	otte_slots_close(&slots);
}

static void whoever_is_closed_out_hears_when_it_opens(void **state)
{
	struct otte_slots slots;

	(void)state;
	assert_int_equal(otte_slots_open_clock(&slots, &usual, 0, 1), 0);
	assert_int_equal(again(&slots, LOW, 6000000), 10000000);
	assert_int_equal(again(&slots, LOW, 9999999), 10000000);
	assert_int_equal(again(&slots, LOW, 10000000), UINT64_MAX);
	assert_int_equal(again(&slots, MEDIUM, 6000001), 8000000);
	assert_int_equal(again(&slots, MEDIUM | LOW, 6000001), 8000000);
	assert_int_equal(again(&slots, MEDIUM | LOW, 8000000), 10000000);
	assert_int_equal(again(&slots, HIGH, 6000001), UINT64_MAX);
	otte_slots_close(&slots);
}

/* Two processes, one of them in a time namespace, agree on the slot at each instant. */
static void another_time_namespace_sees_the_same_slots(void **state)
{
	static const int64_t offsets[] = { 5000000123, -5000000123, 1, -1 };
	struct otte_slots host, other;
	uint64_t now_ns;
	size_t i, n;

	(void)state;
	assert_int_equal(otte_slots_open_clock(&host, &usual, 0, 1), 0);
	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		assert_int_equal(otte_slots_open_clock(&other, &usual, offsets[i], 1), 0);
		for (n = 0; n < 10000; n++) {
			now_ns = 6 * NSEC_PER_SEC + draw(NSEC_PER_SEC);
			assert_int_equal(admit(&other, now_ns + (uint64_t)offsets[i]),
					 admit(&host, now_ns));
			if (admit(&host, now_ns) & LOW)
				continue;
			assert_int_equal(again(&other, LOW, now_ns + (uint64_t)offsets[i]),
					 again(&host, LOW, now_ns) + (uint64_t)offsets[i]);
		}
		otte_slots_close(&other);
	}
	otte_slots_close(&host);
}

static bool offset_is(int64_t wanted_ns)
{
	int64_t offset_ns = -1;

	return !otte_slots_clock_offset(&offset_ns) && offset_ns == wanted_ns;
}

/* Run by a process that is in a time namespace 100.5 s ahead: 0 means as it should be. */
static int offset_inside(void)
{
	int64_t offset_ns;

	if (!offset_is(100500000000))
		return 1;
	/* From now on the file is about another one. */
	if (unshare(CLONE_NEWTIME))
		return 77;
	return otte_slots_clock_offset(&offset_ns) == -EOPNOTSUPP ? 0 : 4;
}

/* The offsets are the children's: its own clock has none. 77: this machine does not let us. */
static int offset_beside(void)
{
	static const char offsets[] = "monotonic 100 500000000\n";
	int fd, status;
	pid_t pid;

	if (unshare(CLONE_NEWTIME))
		return 77;
	fd = open("/proc/self/timens_offsets", O_WRONLY);
	if (fd < 0 || write(fd, offsets, sizeof(offsets) - 1) < 0)
		return 77;
	close(fd);
	if (!offset_is(0))
		return 2;
	pid = fork();
	if (!pid)
		_exit(offset_inside());
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

static void the_offset_of_a_time_namespace_is_found_without_the_module(void **state)
{
	int status = 0;
	pid_t pid;

	(void)state;
	assert_true(offset_is(0));
	pid = fork();
	if (!pid)
		_exit(offset_beside());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- Beside the module's own arithmetic ---- */

static struct otte_slots_pattern draw_pattern(void)
{
	struct otte_slots_pattern p = {
		.interval_ns = OTTE_SLOT_NS_MIN +
			       draw(draw(2) ? 1000 : OTTE_SLOT_NS_MAX - OTTE_SLOT_NS_MIN),
		.slots = (uint32_t)(1 + draw(16)),
	};
	uint32_t i;

	for (i = 0; i < p.slots; i++)
		p.lowest[i] = (uint8_t)draw(3);
	p.lowest[draw(p.slots)] = 2;
	return p;
}

static void set_epoch(struct otte_slot_epoch *epoch, const struct otte_slots_pattern *p,
		      uint64_t base_ns)
{
	assert_int_equal(otte_slot_pattern(epoch, p->interval_ns, p->slots, p->lowest), 0);
	epoch->base_ns = base_ns;
}

static uint64_t draw_base(uint64_t now_ns, uint64_t interval_ns)
{
	switch (draw(5)) {
	case 0:
		return OTTE_SLOT_UNUSED_NS;
	case 1:
		return now_ns + draw(3) - 1;
	case 2:
		return now_ns + draw(20 * interval_ns);
	case 3:
		return now_ns - draw(20 * interval_ns);
	default:
		return draw(now_ns);
	}
}

/* One page in any state that it can be in, also about to change, and an instant. */
static void draw_page(struct otte_slot_page *page, uint64_t *now_ns)
{
	struct otte_slots_pattern first = draw_pattern(), second = draw_pattern();

	memset(page, 0, sizeof(*page));
	page->seq = (uint32_t)draw(1000) * 2;
	*now_ns = draw(8) ? NSEC_PER_SEC * 100 + draw(1ull << 50) :
			    UINT64_MAX - draw(draw(2) ? 2 : 1ull << 34);
	set_epoch(&page->epoch[0], &first, draw_base(*now_ns, first.interval_ns));
	set_epoch(&page->epoch[1], &second, draw_base(*now_ns, second.interval_ns));
	if (draw(16) == 0)
		page->epoch[1].base_ns = page->epoch[0].base_ns;
}

/* The pattern of a page alone. */
static void open_page(struct otte_slots *slots, const struct otte_slot_page *page)
{
	const struct otte_slots_domain domain = { .slot = page };

	otte_slots_open_domain(slots, &domain, 1);
}

static unsigned module_admits(const struct otte_slot_page *page, uint64_t now_ns)
{
	unsigned sends = 0;
	uint32_t p;

	for (p = 0; p < OTTE_PRIORITIES; p++)
		if (otte_slot_may_send(page->epoch, now_ns, p))
			sends |= 1u << p;
	return sends;
}

static void the_gate_and_the_module_answer_alike(void **state)
{
	struct otte_slot_page page;
	unsigned i, closed = 0, sends;
	struct otte_slots slots;
	uint64_t now_ns;

	(void)state;
	for (i = 0; i < CASES; i++) {
		draw_page(&page, &now_ns);
		open_page(&slots, &page);
		sends = module_admits(&page, now_ns);
		assert_int_equal(admit(&slots, now_ns), sends);
		closed += sends != ALL;
	}
	assert_in_range(closed, CASES / 10, CASES - CASES / 10);
}

static void patterns_that_the_module_refuses_are_refused_here_too(void **state)
{
	unsigned i, refused = 0;
	struct otte_slot_epoch epoch;
	struct otte_slots slots;
	int ret;

	(void)state;
	for (i = 0; i < CASES; i++) {
		struct otte_slots_pattern p = draw_pattern();

		switch (draw(6)) {
		case 0:
			p.interval_ns = OTTE_SLOT_NS_MIN - 1 + draw(3);
			break;
		case 1:
			p.interval_ns = OTTE_SLOT_NS_MAX - 1 + draw(3);
			break;
		case 2:
			p.slots = (uint32_t)draw(18);
			break;
		case 3:
			p.lowest[draw(16)] = (uint8_t)draw(4);
			break;
		case 4:
			memset(p.lowest, (int)draw(3), p.slots);
			break;
		default:
			break;
		}
		ret = otte_slots_open_clock(&slots, &p, 0, 1);
		assert_int_equal(ret, otte_slot_pattern(&epoch, p.interval_ns, p.slots, p.lowest));
		if (ret)
			refused++;
		else
			otte_slots_close(&slots);
	}
	assert_in_range(refused, CASES / 10, CASES - CASES / 10);
}

/* The first instant, in steps of boundaries, at which the module would let one of `wanted` send. */
static uint64_t module_opens(const struct otte_slot_page *page, unsigned wanted, uint64_t now_ns)
{
	uint64_t at_ns = now_ns, next_ns;
	int steps, i, in_force;

	for (steps = 0; steps < 100; steps++) {
		in_force = otte_slot_in_force(page->epoch, at_ns);
		next_ns = UINT64_MAX;
		for (i = 0; i < 2; i++)
			if (page->epoch[i].base_ns > at_ns)
				next_ns = min_u64(next_ns, page->epoch[i].base_ns);
		if (in_force >= 0) {
			const struct otte_slot_epoch *e = &page->epoch[in_force];
			uint64_t slot = (at_ns - e->base_ns) / e->interval_ns, end_ns;

			if (!__builtin_mul_overflow(slot + 1, e->interval_ns, &end_ns) &&
			    !__builtin_add_overflow(end_ns, e->base_ns, &end_ns))
				next_ns = min_u64(next_ns, end_ns);
		}
		if (next_ns == UINT64_MAX)
			return UINT64_MAX;
		at_ns = next_ns;
		if (module_admits(page, at_ns) & wanted)
			return at_ns;
	}
	return UINT64_MAX;
}

static void the_instant_to_ask_again_is_when_the_module_would_open(void **state)
{
	unsigned i, wanted, told = 0, changes = 0;
	struct otte_slot_page page;
	struct otte_slots slots;
	uint64_t now_ns, at_ns;

	(void)state;
	for (i = 0; i < CASES; i++) {
		draw_page(&page, &now_ns);
		open_page(&slots, &page);
		wanted = ALL & ~module_admits(&page, now_ns);
		if (!wanted)
			continue;
		at_ns = again(&slots, ALL, now_ns);
		assert_int_equal(at_ns, module_opens(&page, wanted, now_ns));
		assert_true(at_ns > now_ns || at_ns == UINT64_MAX);
		told += at_ns != UINT64_MAX;
		changes += at_ns != UINT64_MAX && otte_slot_in_force(page.epoch, at_ns) !=
							  otte_slot_in_force(page.epoch, now_ns);
	}
	assert_true(told > CASES / 10 && changes > CASES / 100);
}

/* ---- With the module's pages ---- */

struct domain {
	struct otte_slot_page page;
	struct otte_load_page load;
	struct otte_share_page share;
	struct otte_slots slots;
	unsigned kicks;
};

static void count_kick(void *arg)
{
	struct domain *domain = arg;

	domain->kicks++;
}

/* At time 0 of the usual pattern. */
static void domain_init(struct domain *domain)
{
	const struct otte_slots_domain pages = {
		.slot = &domain->page,
		.load = &domain->load,
		.share = &domain->share,
		.kick = count_kick,
		.arg = domain,
	};

	memset(domain, 0, sizeof(*domain));
	set_epoch(&domain->page.epoch[0], &usual, 0);
	domain->page.epoch[1].base_ns = OTTE_SLOT_UNUSED_NS;
	otte_slots_open_domain(&domain->slots, &pages, 1);
}

static void nobody_is_held_back_while_nobody_waits_above(void **state)
{
	struct domain d;
	uint64_t now_ns;

	(void)state;
	domain_init(&d);
	for (now_ns = 0; now_ns < 30000000; now_ns += 12345) {
		assert_int_equal(admit(&d.slots, now_ns), ALL);
		assert_int_equal(again(&d.slots, ALL, now_ns), UINT64_MAX);
	}
	/* Who waits at one's own priority or below is no reason. */
	d.load.waiting[2] = 1;
	assert_int_equal(admit(&d.slots, 0), ALL);
	d.load.waiting[1] = 1;
	assert_int_equal(admit(&d.slots, 0), HIGH | MEDIUM);
}

static void the_moment_somebody_waits_above_the_pattern_rules(void **state)
{
	unsigned i, p, expected, own, others;
	struct domain d;
	uint64_t now_ns;

	(void)state;
	for (i = 0; i < CASES; i++) {
		domain_init(&d);
		own = (unsigned)draw(8);
		others = (unsigned)draw(8);
		for (p = 0; p < OTTE_PRIORITIES; p++) {
			if (own & 1u << p)
				otte_slots_ask(&d.slots, p, 1 + draw(1 << 30));
			if (others & 1u << p)
				d.load.waiting[p] = 1 + draw(1 << 30);
		}
		now_ns = draw(12000000);
		expected = module_admits(&d.page, now_ns);
		for (p = 0; p < OTTE_PRIORITIES; p++)
			if (!((own | others) & ((1u << p) - 1)))
				expected |= 1u << p;
		assert_int_equal(admit(&d.slots, now_ns), expected);
	}
	domain_init(&d);
	otte_slots_ask(&d.slots, 0, 100);
	assert_int_equal(admit(&d.slots, 0), HIGH);
	otte_slots_answered(&d.slots, 0, 100);
	assert_int_equal(admit(&d.slots, 0), ALL);
}

/* What ends the wait is somebody else's, and shows at the next sum. */
static void who_is_held_back_for_another_asks_again_within_a_slot(void **state)
{
	struct domain d;

	(void)state;
	domain_init(&d);
	d.load.waiting[0] = 1;
	assert_int_equal(again(&d.slots, LOW, 0), 2000000);
	assert_int_equal(again(&d.slots, LOW, 500000), 2500000);
	assert_int_equal(again(&d.slots, LOW, 3999999), 4000000);
	assert_int_equal(again(&d.slots, MEDIUM, 1999999), 2000000);
}

/* An epoch that no module writes: as if there were none. */
static void a_damaged_pattern_lets_nobody_go(void **state)
{
	struct domain d;

	(void)state;
	domain_init(&d);
	d.load.waiting[0] = 1;
	assert_int_equal(admit(&d.slots, 4000000), ALL);
	d.page.epoch[0].interval_ns = 0;
	assert_int_equal(admit(&d.slots, 4000000), HIGH);
	domain_init(&d);
	d.load.waiting[0] = 1;
	d.page.epoch[0].slots = 0;
	assert_int_equal(admit(&d.slots, 4000000), HIGH);
	d.page.epoch[0].slots = 17;
	assert_int_equal(admit(&d.slots, 4000000), HIGH);
	d.page.epoch[0].slots = 3;
	d.page.epoch[0].lowest[2] = 3;
	assert_int_equal(admit(&d.slots, 4000000), HIGH);
	assert_true(again(&d.slots, ALL, 4000000) > 4000000);
}

/* ---- What the domain is told ---- */

static void the_module_is_asked_to_sum_where_it_does_not(void **state)
{
	struct domain d;

	(void)state;
	domain_init(&d);
	otte_slots_ask(&d.slots, 2, 100);
	assert_int_equal(d.kicks, 1);
	assert_int_equal(d.share.waiting[2], 100);
	/* More of what it knows of. */
	otte_slots_ask(&d.slots, 2, 50);
	assert_int_equal(d.kicks, 1);
	d.load.summing = 1;
	otte_slots_answered(&d.slots, 2, 100);
	otte_slots_answered(&d.slots, 2, 50);
	assert_int_equal(d.share.waiting[2], 0);
	/* It will see by itself. */
	otte_slots_ask(&d.slots, 2, 1);
	otte_slots_ask(&d.slots, 0, 1);
	assert_int_equal(d.kicks, 1);
	d.load.summing = 0;
	otte_slots_ask(&d.slots, 1, 1);
	assert_int_equal(d.kicks, 2);
}

static void others_who_wait_below_are_to_hear_at_once(void **state)
{
	struct domain d;

	(void)state;
	domain_init(&d);
	d.load.summing = 1;
	d.load.waiting[1] = 7;
	otte_slots_ask(&d.slots, 0, 1);
	assert_int_equal(d.kicks, 1);
	otte_slots_ask(&d.slots, 0, 1);
	assert_int_equal(d.kicks, 1);
	/* Nobody is below these. */
	otte_slots_ask(&d.slots, 1, 1);
	otte_slots_ask(&d.slots, 2, 1);
	assert_int_equal(d.kicks, 1);
	otte_slots_answered(&d.slots, 0, 2);
	otte_slots_ask(&d.slots, 0, 3);
	assert_int_equal(d.kicks, 2);
	assert_int_equal(d.share.waiting[0], 3);
}

static void by_the_clock_alone_nobody_is_told(void **state)
{
	struct otte_slots slots;

	(void)state;
	assert_int_equal(otte_slots_open_clock(&slots, &usual, 0, 1), 0);
	otte_slots_ask(&slots, 0, 1);
	otte_slots_answered(&slots, 0, 1);
	otte_slots_close(&slots);
}

static void window_init(struct otte_window *window, struct domain *domain)
{
	domain_init(domain);
	memset(window, 0, sizeof(*window));
	window->max_requests = 5;
	window->max_bytes = 1000;
	window->slots = &domain->slots;
	window->nic = 3;
	memset(window->queue.bound, 0xff, sizeof(window->queue.bound));
	domain->slots.low_bytes_max = 1000;
}

/* From before it is posted until it is done, also where it never waits in a queue. */
static void what_was_asked_for_counts_until_it_is_done(void **state)
{
	struct otte_queue_entry high = { .bytes = 10 }, low = { .bytes = 20, .priority = 2 };
	struct otte_queue_entry more = { .bytes = 40, .priority = 2 };
	struct otte_window window;
	struct domain d;

	(void)state;
	window_init(&window, &d);
	otte_clock_fake(600 * NSEC_PER_MSEC); /* a High slot */
	assert_true(otte_window_enter(&window, &high));
	assert_int_equal(d.share.waiting[0], 10);
	/* High is under way: Low waits for its slot. */
	assert_false(otte_window_enter(&window, &low));
	assert_int_equal(d.share.waiting[2], 0);
	assert_int_equal(otte_window_push(&window, &low), 0);
	assert_int_equal(otte_window_push(&window, &more), 0);
	assert_int_equal(d.share.waiting[2], 60);
	assert_null(otte_window_next(&window));
	otte_window_done(&window, &high);
	assert_int_equal(d.share.waiting[0], 0);
	assert_ptr_equal(otte_window_next(&window), &low);
	assert_int_equal(d.share.waiting[2], 60);
	assert_true(otte_window_remove(&window, &more));
	assert_int_equal(d.share.waiting[2], 20);
	otte_window_done(&window, &low);
	assert_int_equal(d.share.waiting[2], 0);
	assert_int_equal(d.slots.waiting[2], 0);
	otte_clock_fake(0);
}

/* Whose window is told otherwise: it has it from the end of its own. */
static void the_end_of_the_last_above_is_for_those_who_wait_elsewhere(void **state)
{
	struct otte_queue_entry high[2] = { { .bytes = 10 }, { .bytes = 30 } };
	struct otte_queue_entry own = { .bytes = 1, .priority = 2 };
	struct otte_queue_entry low = { .bytes = 20, .priority = 2 };
	struct otte_window window, other;
	struct domain d;

	(void)state;
	window_init(&window, &d);
	other = window;
	otte_clock_fake(600 * NSEC_PER_MSEC); /* a High slot */
	assert_true(otte_window_enter(&window, &high[0]));
	assert_true(otte_window_enter(&window, &high[1]));
	assert_int_equal(otte_window_push(&window, &own), 0);
	assert_int_equal(otte_window_push(&other, &low), 0);
	assert_null(otte_window_next(&other));
	assert_false(otte_window_done(&window, &high[1]));
	assert_true(otte_window_done(&window, &high[0]));
	assert_ptr_equal(otte_window_next(&other), &low);
	/* Nobody else waits. */
	assert_true(otte_window_remove(&window, &own));
	assert_true(otte_window_enter(&window, &high[0]));
	assert_int_equal(otte_window_push(&window, &own), 0);
	assert_false(otte_window_done(&window, &high[0]));
	assert_true(otte_window_remove(&window, &own));
	/* By the clock alone it makes no difference. */
	otte_window_done(&other, &low);
	d.slots.load = NULL;
	d.slots.share = NULL;
	assert_true(otte_window_enter(&window, &high[0]));
	assert_int_equal(otte_window_push(&other, &low), 0);
	assert_false(otte_window_done(&window, &high[0]));
	assert_true(otte_window_remove(&other, &low));
	otte_clock_fake(0);
}

/* It was queued behind what is under way, and never will be. */
static void the_last_above_that_is_taken_back_is_its_end_too(void **state)
{
	struct otte_queue_entry high[2] = { { .bytes = 10 }, { .bytes = 30 } };
	struct otte_queue_entry medium = { .bytes = 1, .priority = 1 };
	struct otte_queue_entry low = { .bytes = 20, .priority = 2 };
	struct otte_window window, other;
	struct domain d;

	(void)state;
	window_init(&window, &d);
	other = window;
	otte_clock_fake(600 * NSEC_PER_MSEC); /* a High slot */
	assert_int_equal(otte_window_push(&window, &high[0]), 0);
	assert_int_equal(otte_window_push(&window, &high[1]), 0);
	assert_int_equal(otte_window_push(&other, &low), 0);
	assert_null(otte_window_next(&other));
	assert_true(otte_window_remove(&window, &high[0]));
	assert_false(high[0].last);
	assert_true(otte_window_remove(&window, &high[1]));
	assert_true(high[1].last);
	assert_ptr_equal(otte_window_next(&other), &low);
	/* Nobody waits for it. */
	assert_int_equal(otte_window_push(&window, &high[0]), 0);
	assert_true(otte_window_remove(&window, &high[0]));
	assert_false(high[0].last);
	/* Those of its own window have nobody else to tell them. */
	assert_int_equal(otte_window_push(&window, &high[0]), 0);
	assert_int_equal(otte_window_push(&window, &medium), 0);
	assert_true(otte_window_remove(&window, &high[0]));
	assert_true(high[0].last);
	assert_true(otte_window_remove(&window, &medium));
	/* By the clock alone it makes no difference. */
	otte_window_done(&other, &low);
	d.slots.load = NULL;
	d.slots.share = NULL;
	assert_int_equal(otte_window_push(&window, &high[0]), 0);
	assert_int_equal(otte_window_push(&other, &low), 0);
	assert_true(otte_window_remove(&window, &high[0]));
	assert_false(high[0].last);
	assert_true(otte_window_remove(&other, &low));
	otte_clock_fake(0);
}

/* Those under way only, by the NIC that they went by, whichever the peer has now. */
static void bytes_under_way_are_told_of_by_nic(void **state)
{
	struct otte_queue_entry high = { .bytes = 10 }, low = { .bytes = 20, .priority = 2 };
	struct otte_window window;
	struct domain d;

	(void)state;
	window_init(&window, &d);
	otte_clock_fake(604 * NSEC_PER_MSEC); /* a slot for all */
	assert_int_equal(otte_window_push(&window, &low), 0);
	assert_int_equal(d.share.nic_bytes[3], 0);
	assert_ptr_equal(otte_window_next(&window), &low);
	assert_int_equal(d.share.nic_bytes[3], 20);
	window.nic = 15;
	assert_true(otte_window_enter(&window, &high));
	assert_int_equal(d.share.nic_bytes[3], 20);
	assert_int_equal(d.share.nic_bytes[15], 10);
	otte_window_done(&window, &low);
	assert_int_equal(d.share.nic_bytes[3], 0);
	otte_window_done(&window, &high);
	assert_int_equal(d.share.nic_bytes[15], 0);
	/* One that nobody counts. */
	window.nic = OTTE_SLOTS_NO_NIC;
	assert_true(otte_window_enter(&window, &high));
	otte_window_done(&window, &high);
	otte_clock_fake(0);
	assert_int_equal(otte_slots_nic_others(&d.slots, 3), 0);
	d.load.nic_bytes[3] = 777;
	d.load.nic_bytes[15] = 5;
	assert_int_equal(otte_slots_nic_others(&d.slots, 3), 777);
	assert_int_equal(otte_slots_nic_others(&d.slots, 15), 5);
	assert_int_equal(otte_slots_nic_others(&d.slots, OTTE_SLOTS_NO_NIC), 0);
}

static void a_page_that_is_being_written_means_not_now(void **state)
{
	struct domain d;

	(void)state;
	domain_init(&d);
	d.page.seq = 7;
	d.load.waiting[0] = 1;
	assert_int_equal(admit(&d.slots, 4000000), HIGH);
	assert_int_equal(again(&d.slots, ALL, 4000000), 4000000 + OTTE_SLOT_NS_MIN);
	d.page.seq = 8;
	assert_int_equal(admit(&d.slots, 4000000), ALL);
}

/* Under ThreadSanitizer each takes some ten times as long, and it sees a race at the first. */
#ifdef __SANITIZE_THREAD__
#define LOOKS 1000000
#else
#define LOOKS 4000000
#endif

static _Atomic bool writer_stop;

/* Two patterns that let all send at any time; a mixture of them does not. */
static void *write_page(void *arg)
{
	struct otte_slot_page *page = arg;
	uint64_t *to = (uint64_t *)&page->epoch[0], *from;
	struct otte_slot_epoch all[2] = { { .interval_ns = 1000000, .slots = 1, .lowest = { 2 } },
					  { .interval_ns = 1000000, .slots = 16 } };
	volatile unsigned pause;
	unsigned i, word;

	memset(all[1].lowest, 2, sizeof(all[1].lowest));
	for (i = 0; !atomic_load(&writer_stop); i++) {
		__atomic_store_n(&page->seq, page->seq + 1, __ATOMIC_RELAXED);
		from = (uint64_t *)&all[i % 2];
		for (word = 0; word < sizeof(all[0]) / sizeof(*from); word++)
			__atomic_store_n(&to[word], from[word], __ATOMIC_RELEASE);
		__atomic_store_n(&page->seq, page->seq + 1, __ATOMIC_RELEASE);
		/* For about as long as a read takes, at every phase of one. */
		for (pause = 0; pause < i % 40; pause++)
			;
	}
	return NULL;
}

static void a_torn_page_is_never_believed(void **state)
{
	unsigned i, sends, good = 0;
	static struct domain d; /* the writer's, too, should this test fail */
	pthread_t thread;

	(void)state;
	domain_init(&d);
	d.slots.load = NULL;
	d.page.epoch[0].slots = 1;
	d.page.epoch[0].lowest[0] = 2;
	atomic_store(&writer_stop, false);
	assert_int_equal(pthread_create(&thread, NULL, write_page, &d.page), 0);
	for (i = 0; i < LOOKS; i++) {
		sends = admit(&d.slots, 5500000);
		assert_true(sends == ALL || sends == 0);
		good += sends == ALL;
	}
	atomic_store(&writer_stop, true);
	pthread_join(thread, NULL);
	assert_true(good > 1000);
}

/* ---- Bytes under way ---- */

static void bytes_below_high_are_bounded_together(void **state)
{
	struct otte_slots slots;

	(void)state;
	assert_int_equal(otte_slots_open_clock(&slots, &usual, 0, 262144), 0);
	assert_true(otte_slots_take(&slots, 2, 200000));
	assert_true(otte_slots_take(&slots, 1, 62144));
	assert_false(otte_slots_take(&slots, 2, 1));
	assert_false(otte_slots_take(&slots, 1, 1));
	/* High is what the bound is for. */
	assert_true(otte_slots_take(&slots, 0, 1 << 30));
	otte_slots_give(&slots, 0, 1 << 30);
	otte_slots_give(&slots, 1, 62144);
	assert_true(otte_slots_take(&slots, 2, 62144));
	assert_false(otte_slots_take(&slots, 2, 1));
	otte_slots_give(&slots, 2, 62144);
	otte_slots_give(&slots, 2, 200000);
	assert_int_equal(slots.low_bytes, 0);
	otte_slots_close(&slots);
}

static void one_larger_than_the_bound_goes_while_there_are_no_others(void **state)
{
	struct otte_slots slots;

	(void)state;
	assert_int_equal(otte_slots_open_clock(&slots, &usual, 0, 1000), 0);
	assert_true(otte_slots_take(&slots, 2, 1));
	assert_false(otte_slots_take(&slots, 2, 1001));
	otte_slots_give(&slots, 2, 1);
	assert_true(otte_slots_take(&slots, 2, UINT64_MAX / 2));
	assert_false(otte_slots_take(&slots, 2, 1));
	otte_slots_give(&slots, 2, UINT64_MAX / 2);
	assert_int_equal(slots.low_bytes, 0);
	otte_slots_close(&slots);
}

struct taker {
	struct otte_slots *slots;
	uint64_t seed;
	_Atomic uint64_t *under_way;
	unsigned taken, refused;
	bool over;
};

static void *take_and_give(void *arg)
{
	struct taker *taker = arg;
	uint64_t bytes, total;
	unsigned i;

	for (i = 0; i < CASES; i++) {
		taker->seed = taker->seed * 6364136223846793005ull + 1442695040888963407ull;
		bytes = 1 + (taker->seed >> 16) % 600;
		if (!otte_slots_take(taker->slots, 1 + i % 2, bytes)) {
			taker->refused++;
			continue;
		}
		taker->taken++;
		total = atomic_fetch_add(taker->under_way, bytes) + bytes;
		taker->over |= total > 1000;
		atomic_fetch_sub(taker->under_way, bytes);
		otte_slots_give(taker->slots, 1 + i % 2, bytes);
	}
	return NULL;
}

static void threads_together_stay_within_the_bound(void **state)
{
	_Atomic uint64_t under_way = 0;
	struct otte_slots slots;
	struct taker takers[3];
	pthread_t threads[3];
	unsigned i, taken = 0, refused = 0;

	(void)state;
	assert_int_equal(otte_slots_open_clock(&slots, &usual, 0, 1000), 0);
	for (i = 0; i < 3; i++) {
		takers[i] = (struct taker){ .slots = &slots,
					    .seed = draw(UINT64_MAX),
					    .under_way = &under_way };
		assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &takers[i]), 0);
	}
	for (i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		assert_false(takers[i].over);
		taken += takers[i].taken;
		refused += takers[i].refused;
	}
	assert_int_equal(slots.low_bytes, 0);
	assert_int_equal(taken + refused, 3 * CASES);
	assert_true(taken > CASES);
	otte_slots_close(&slots);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pattern_is_read_as_words),
		cmocka_unit_test(a_pattern_that_cannot_do_is_refused_with_the_reason),
		cmocka_unit_test(names_are_those_that_a_domain_can_have),
		cmocka_unit_test(slots_of_two_milliseconds_are_high_then_high_and_medium_then_all),
		cmocka_unit_test(whoever_is_closed_out_hears_when_it_opens),
		cmocka_unit_test(another_time_namespace_sees_the_same_slots),
		cmocka_unit_test(the_offset_of_a_time_namespace_is_found_without_the_module),
		cmocka_unit_test(the_gate_and_the_module_answer_alike),
		cmocka_unit_test(patterns_that_the_module_refuses_are_refused_here_too),
		cmocka_unit_test(the_instant_to_ask_again_is_when_the_module_would_open),
		cmocka_unit_test(nobody_is_held_back_while_nobody_waits_above),
		cmocka_unit_test(the_moment_somebody_waits_above_the_pattern_rules),
		cmocka_unit_test(who_is_held_back_for_another_asks_again_within_a_slot),
		cmocka_unit_test(a_page_that_is_being_written_means_not_now),
		cmocka_unit_test(a_damaged_pattern_lets_nobody_go),
		cmocka_unit_test(the_module_is_asked_to_sum_where_it_does_not),
		cmocka_unit_test(others_who_wait_below_are_to_hear_at_once),
		cmocka_unit_test(by_the_clock_alone_nobody_is_told),
		cmocka_unit_test(what_was_asked_for_counts_until_it_is_done),
		cmocka_unit_test(the_end_of_the_last_above_is_for_those_who_wait_elsewhere),
		cmocka_unit_test(the_last_above_that_is_taken_back_is_its_end_too),
		cmocka_unit_test(bytes_under_way_are_told_of_by_nic),
		cmocka_unit_test(a_torn_page_is_never_believed),
		cmocka_unit_test(bytes_below_high_are_bounded_together),
		cmocka_unit_test(one_larger_than_the_bound_goes_while_there_are_no_others),
		cmocka_unit_test(threads_together_stay_within_the_bound),
	};
	const char *given = getenv("SEED");

	if (given)
		seed = strtoull(given, NULL, 0);
	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
