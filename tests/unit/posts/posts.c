/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload that asks the slot gate where it is posted: the order, on a clock of the test's; and two
 * engines over simulated NICs, whose gate lets a request go and closes before it is granted.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/util.h"
#include "engine/engine.h"
#include "seen.h"
#include "sched/slots.h"
#include "transport/rdma/posts.h"
#include "transport/rdma/rdma.h"
#include "unit/engine/nics.h"

#define HIGH 0
#define MEDIUM 1
#define LOW 2

unsigned __real_otte_slots_admit(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns,
				 uint64_t *again_ns);
unsigned __wrap_otte_slots_admit(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns,
				 uint64_t *again_ns);

/* ---- What the gate says ---- */

static bool scripted;
static _Atomic unsigned passes;  /* so many questions get yes, then none */
static _Atomic unsigned refusals;
static _Atomic uint64_t opens_ns; /* until then; 0: not by itself */

unsigned __wrap_otte_slots_admit(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns,
				 uint64_t *again_ns)
{
	uint64_t at_ns = atomic_load(&opens_ns);
	unsigned left = atomic_load(&passes);

	if (!scripted)
		return __real_otte_slots_admit(slots, wanted, now_ns, again_ns);
	while (left && !atomic_compare_exchange_weak(&passes, &left, left - 1))
		;
	if (left || (at_ns && now_ns >= at_ns))
		return wanted;
	atomic_fetch_add(&refusals, 1);
	*again_ns = min_u64(*again_ns, at_ns ? at_ns : now_ns + 5 * NSEC_PER_MSEC);
	return 0;
}

/* ---- The order ---- */

static struct otte_config config;
static struct otte_rdma_posts posts;
static struct otte_slots slots;

static struct item {
	struct otte_rdma_posting posting;
	char name;
} items[8];
static char posted[16];
static struct otte_rdma_posting *goes_with; /* the next one that is posted takes this one out */

static void note(struct otte_rdma_posting *posting)
{
	const struct item *item = container_of(posting, struct item, posting);

	posted[strlen(posted)] = item->name;
	if (goes_with)
		otte_rdma_posts_remove(&posts, goes_with);
	goes_with = NULL;
}

/* Slots of a millisecond: High, High and Medium, all. */
static int open_slots(void **state)
{
	struct otte_slots_pattern pattern = { .interval_ns = NSEC_PER_MSEC };
	unsigned i;

	(void)state;
	scripted = false;
	goes_with = NULL;
	OK(otte_config_init(&config, sizeof(config)));
	OK(otte_slots_parse("high,medium,low", &pattern));
	OK(otte_slots_open_clock(&slots, &pattern, 0, 1u << 20));
	otte_rdma_posts_init(&posts, &config);
	posts.slots = &slots;
	memset(items, 0, sizeof(items));
	for (i = 0; i < ARRAY_SIZE(items); i++)
		items[i] = (struct item){ .posting.post = note, .name = (char)('a' + i) };
	return 0;
}

static int close_slots(void **state)
{
	(void)state;
	otte_slots_close(&slots);
	return 0;
}

static void add(char name, uint8_t priority, uint64_t since_ns)
{
	otte_rdma_posts_add(&posts, &items[name - 'a'].posting, priority, since_ns);
}

static const char *posted_at(uint64_t now_ns)
{
	memset(posted, 0, sizeof(posted));
	otte_rdma_posts_go_on(&posts, now_ns);
	return posted;
}

static void each_goes_in_the_slot_of_its_priority(void **state)
{
	const uint64_t ms = NSEC_PER_MSEC;

	(void)state;
	add('a', LOW, 30 * ms);
	add('b', MEDIUM, 30 * ms);
	add('c', HIGH, 30 * ms);
	assert_string_equal(posted_at(30 * ms), "c");
	assert_int_equal(posts.again_ns, 31 * ms);
	assert_string_equal(posted_at(31 * ms - 1), "");
	assert_string_equal(posted_at(31 * ms), "b");
	assert_int_equal(posts.again_ns, 32 * ms);
	assert_string_equal(posted_at(32 * ms), "a");
	assert_int_equal(posts.again_ns, UINT64_MAX);
}

static void those_of_one_slot_go_by_priority_and_in_order(void **state)
{
	const uint64_t ms = NSEC_PER_MSEC;

	(void)state;
	add('a', LOW, 2 * ms);
	add('b', MEDIUM, 2 * ms);
	add('c', LOW, 2 * ms);
	add('d', HIGH, 2 * ms);
	add('e', MEDIUM, 2 * ms);
	add('f', HIGH, 2 * ms);
	add('a', LOW, 2 * ms); /* waits already */
	assert_string_equal(posted_at(2 * ms), "dfbeac");
	assert_string_equal(posted_at(2 * ms), "");
}

/* After 10 ms, and a millisecond later by another tier; but in no other slot than before. */
static void age_changes_the_order_and_not_the_slot(void **state)
{
	const uint64_t ms = NSEC_PER_MSEC;

	(void)state;
	add('a', LOW, 0);
	assert_string_equal(posted_at(12 * ms), "");
	add('b', MEDIUM, 13 * ms);
	assert_string_equal(posted_at(13 * ms - 1), "");
	assert_string_equal(posted_at(13 * ms), "b");
	add('c', MEDIUM, 13 * ms);
	add('d', HIGH, 13 * ms);
	assert_string_equal(posted_at(14 * ms), "adc");
}

static void what_was_taken_out_is_not_posted(void **state)
{
	const uint64_t ms = NSEC_PER_MSEC;

	(void)state;
	add('a', LOW, 2 * ms);
	add('b', LOW, 2 * ms);
	add('c', LOW, 2 * ms);
	otte_rdma_posts_remove(&posts, &items[1].posting);
	otte_rdma_posts_remove(&posts, &items[1].posting);
	goes_with = &items[2].posting;
	assert_string_equal(posted_at(2 * ms), "a");
	assert_string_equal(posted_at(2 * ms), "");
}

static void who_would_pass_alone_waits_behind_others(void **state)
{
	const uint64_t ms = NSEC_PER_MSEC;

	(void)state;
	assert_true(otte_rdma_posts_may_pass(&posts, HIGH, 0));
	assert_false(otte_rdma_posts_may_pass(&posts, MEDIUM, 0));
	assert_true(otte_rdma_posts_may_pass(&posts, MEDIUM, ms));
	add('a', LOW, ms);
	assert_false(otte_rdma_posts_may_pass(&posts, HIGH, ms));
	otte_rdma_posts_remove(&posts, &items[0].posting);
	assert_true(otte_rdma_posts_may_pass(&posts, HIGH, ms));
}

/* ---- Two engines ---- */

#define SIZE (1u << 20)

static bool gated;

static void use_slots(struct otte_config *to)
{
	use_nics(to);
	if (gated)
		strcpy(to->slots_domain, "default");
}

static int with_a_gate(void **state)
{
	scripted = gated = true;
	atomic_store(&opens_ns, 0);
	atomic_store(&passes, UINT32_MAX);
	atomic_store(&refusals, 0);
	return with_nics(state);
}

static uint64_t carried(uint8_t op)
{
	return op == OTTE_READ ? sim_counts(nics[REQUESTER][0]).bytes_read :
				 sim_counts(nics[SOURCE][0]).bytes_written;
}

/* The window asks once. */
static struct otte_request low_request(const struct pair *pair, uint8_t op, uint64_t offset)
{
	struct otte_request request = rdma_request(pair, op, offset, 4096);

	request.priority = OTTE_PRIORITY_LOW;
	return request;
}

static void close_behind_the_window(void)
{
	atomic_store(&refusals, 0);
	atomic_store(&passes, 1);
}

static bool was_refused(void *arg)
{
	(void)arg;
	return atomic_load(&refusals) >= 2;
}

static void waits_for_its_slot(uint8_t op, uint8_t lease)
{
	struct otte_request request;
	struct otte_task task;
	struct pair pair;
	uint64_t before;

	pair_open(&pair, SIZE, use_slots);
	pair_fill(pair.remote_bytes, pair.size, 1);
	pair_fill(pair.local_bytes, pair.size, 2);
	request = low_request(&pair, op, 0);
	request.lease = lease;
	OK(otte_batch_submit(pair.batch, &request, 1)); /* the pair, and a lease */
	assert_int_equal(wait_task(&pair).code, 0);
	OK(otte_batch_reset(pair.batch));
	before = carried(op);
	close_behind_the_window();
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_true(comes(was_refused, NULL));
	/* What is High passes meanwhile. */
	request.priority = OTTE_PRIORITY_HIGH;
	request.lease = OTTE_LEASE_OFF;
	request.local_offset = request.remote_offset = 8192;
	OK(otte_batch_submit(pair.batch, &request, 1));
	while (task_of(&pair, 1).state != OTTE_TASK_COMPLETED)
		usleep(WAIT_US);
	assert_int_equal(carried(op) - before, 4096);
	assert_int_equal(task_of(&pair, 0).state, OTTE_TASK_DISPATCHED);
	atomic_store(&opens_ns, otte_now_ns());
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	task = task_of(&pair, 0);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
	assert_int_equal(carried(op) - before, 2 * 4096);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, 4096);
	pair_close(&pair);
}

static void what_was_granted_waits_for_its_slot(void **state)
{
	(void)state;
	waits_for_its_slot(OTTE_READ, OTTE_LEASE_OFF);
	with_a_gate(NULL);
	waits_for_its_slot(OTTE_WRITE, OTTE_LEASE_OFF);
}

static void what_is_leased_waits_for_its_slot(void **state)
{
	(void)state;
	waits_for_its_slot(OTTE_READ, OTTE_LEASE_RANGE);
	with_a_gate(NULL);
	waits_for_its_slot(OTTE_WRITE, OTTE_LEASE_RANGE);
}

/* Who waits for a lone request by a lease posts it himself, if the gate lets him. */
static void a_lone_request_waits_for_its_slot(void **state)
{
	struct otte_request request;
	struct pair pair;
	uint64_t before;

	(void)state;
	pair_open(&pair, SIZE, use_slots);
	request = low_request(&pair, OTTE_READ, 0);
	request.lease = OTTE_LEASE_RANGE;
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 20 * SECOND), 0);
	before = carried(OTTE_READ);
	close_behind_the_window();
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, SECOND / 20), -ETIMEDOUT);
	assert_true(atomic_load(&refusals) >= 1);
	assert_int_equal(carried(OTTE_READ), before);
	atomic_store(&passes, UINT32_MAX);
	assert_int_equal(wait_task(&pair).code, 0);
	assert_int_equal(otte_batch_run(pair.batch, &request, 1, 20 * SECOND), 0);
	assert_int_equal(carried(OTTE_READ) - before, 2 * 4096);
	pair_close(&pair);
}

/* Nobody wakes the thread then but its own timer. */
static void it_goes_when_its_slot_opens(void **state)
{
	struct otte_request request;
	uint64_t at_ns;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_slots);
	request = low_request(&pair, OTTE_READ, 0);
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_int_equal(wait_task(&pair).code, 0);
	OK(otte_batch_reset(pair.batch));
	at_ns = otte_now_ns() + 50 * NSEC_PER_MSEC;
	close_behind_the_window();
	atomic_store(&opens_ns, at_ns);
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_int_equal(wait_task(&pair).code, 0);
	assert_true(otte_now_ns() >= at_ns);
	assert_true(atomic_load(&refusals) >= 1);
	pair_close(&pair);
}

/* Cancelled or overdue it gives back what it was granted, without payload, and whatever the slot. */
static void ends_while_its_slot_is_closed(bool cancel, uint8_t lease)
{
	struct otte_request request;
	struct otte_task task;
	struct pair pair;
	uint64_t before;

	with_a_gate(NULL);
	pair_open(&pair, SIZE, use_slots);
	request = low_request(&pair, OTTE_WRITE, 0);
	request.lease = lease;
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_int_equal(wait_task(&pair).code, 0);
	OK(otte_batch_reset(pair.batch));
	before = carried(OTTE_WRITE);
	close_behind_the_window();
	if (!cancel)
		request.deadline_ns = otte_now_ns() + NSEC_PER_SEC; /* not before it is refused */
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_true(comes(was_refused, NULL));
	if (cancel)
		OK(otte_batch_cancel(pair.batch));
	task = wait_task(&pair);
	assert_int_equal(task.code, cancel ? -ECANCELED : -ETIMEDOUT);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(carried(OTTE_WRITE), before);
	if (lease == OTTE_LEASE_OFF)
		assert_true(comes(is_drained, &pair));
	atomic_store(&passes, UINT32_MAX);
	OK(otte_batch_reset(pair.batch));
	request.deadline_ns = 0;
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_int_equal(wait_task(&pair).code, 0);
	pair_close(&pair);
}

static void what_ends_early_does_not_wait_for_a_slot(void **state)
{
	(void)state;
	ends_while_its_slot_is_closed(true, OTTE_LEASE_OFF);
	ends_while_its_slot_is_closed(false, OTTE_LEASE_OFF);
	ends_while_its_slot_is_closed(true, OTTE_LEASE_RANGE);
	ends_while_its_slot_is_closed(false, OTTE_LEASE_RANGE);
}

static void a_pair_that_is_lost_takes_what_waits_with_it(void **state)
{
	struct otte_request request;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_slots);
	request = low_request(&pair, OTTE_READ, 0);
	request.transport = OTTE_TRANSPORT_ANY;
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_int_equal(wait_task(&pair).code, 0);
	OK(otte_batch_reset(pair.batch));
	close_behind_the_window();
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_true(comes(was_refused, NULL));
	sim_port_set(nics[REQUESTER][0], 1, IBV_PORT_DOWN);
	assert_int_equal(wait_task(&pair).code, 0);
	assert_int_equal(task_of(&pair, 0).transport, OTTE_TRANSPORT_TCP);
	atomic_store(&passes, UINT32_MAX);
	pair_close(&pair);
}

static void without_a_domain_nobody_asks_the_gate(void **state)
{
	struct otte_request request;
	struct pair pair;

	(void)state;
	gated = false;
	atomic_store(&passes, 0);
	pair_open(&pair, SIZE, use_slots);
	request = low_request(&pair, OTTE_READ, 0);
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_int_equal(wait_task(&pair).code, 0);
	assert_int_equal(atomic_load(&refusals), 0);
	pair_close(&pair);
}

int main(void)
{
#define ON_A_CLOCK(test) cmocka_unit_test_setup_teardown(test, open_slots, close_slots)
#define IN_A_ROOM(test) cmocka_unit_test_setup_teardown(test, with_a_gate, nothing_is_left)
	const struct CMUnitTest tests[] = {
		ON_A_CLOCK(each_goes_in_the_slot_of_its_priority),
		ON_A_CLOCK(those_of_one_slot_go_by_priority_and_in_order),
		ON_A_CLOCK(age_changes_the_order_and_not_the_slot),
		ON_A_CLOCK(what_was_taken_out_is_not_posted),
		ON_A_CLOCK(who_would_pass_alone_waits_behind_others),
		IN_A_ROOM(what_was_granted_waits_for_its_slot),
		IN_A_ROOM(what_is_leased_waits_for_its_slot),
		IN_A_ROOM(a_lone_request_waits_for_its_slot),
		IN_A_ROOM(it_goes_when_its_slot_opens),
		IN_A_ROOM(what_ends_early_does_not_wait_for_a_slot),
		IN_A_ROOM(a_pair_that_is_lost_takes_what_waits_with_it),
		IN_A_ROOM(without_a_domain_nobody_asks_the_gate),
	};

	return cmocka_run_group_tests_name("posts", tests, NULL, NULL);
}
