/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An engine behind the slot gate: who waits, in which order they leave, and how a wait ends otherwise. Most of
 * it on a clock of the test's own; where posts race with the real one, each is held against the clock.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/util.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "transport/tcp/tcp.h"
#include "unit/engine/pair.h"
#include "seen.h"

#define SIZE (1u << 20)
#define HIGH OTTE_PRIORITY_HIGH
#define MEDIUM OTTE_PRIORITY_MEDIUM
#define LOW OTTE_PRIORITY_LOW
#define SLOT_NS (2 * NSEC_PER_MSEC)

/* ---- What is posted, and what the gate said ---- */

#define POSTS_MAX 65536

static struct {
	const struct otte_transport_peer *peer;
	uint64_t bytes, low_bytes; /* its own; all below High that are under way */
	uint8_t priority;
} posts[POSTS_MAX];
static _Atomic unsigned post_count, exchanges, pushes, takes, wrong_takes;
static const struct otte_slots *asked;
/* A post may be kept from starting until the test lets it. */
static bool hold_posts;
static _Atomic(struct otte_work *) held;
static struct otte_transport_peer *held_peer;

void __real_tcp_peer_start(struct otte_transport_peer *peer, struct otte_work *work);
void __wrap_tcp_peer_start(struct otte_transport_peer *peer, struct otte_work *work);

static void log_post(struct otte_transport_peer *peer, const struct otte_work *work)
{
	unsigned i = atomic_fetch_add(&post_count, 1);

	assert_true(i < POSTS_MAX);
	posts[i].peer = peer;
	posts[i].priority = work->priority;
	posts[i].bytes = work->length;
	posts[i].low_bytes = asked ? atomic_load(&asked->low_bytes) : 0;
}

void __wrap_tcp_peer_start(struct otte_transport_peer *peer, struct otte_work *work)
{
	log_post(peer, work);
	if (hold_posts) {
		assert_null(atomic_load(&held));
		held_peer = peer;
		atomic_store(&held, work);
	} else {
		__real_tcp_peer_start(peer, work);
	}
}

/* The other way to post: it ends before it returns, or was none. */
bool __real_tcp_peer_exchange(struct otte_transport_peer *peer, struct otte_work *work);
bool __wrap_tcp_peer_exchange(struct otte_transport_peer *peer, struct otte_work *work);

bool __wrap_tcp_peer_exchange(struct otte_transport_peer *peer, struct otte_work *work)
{
	struct otte_work copy = *work;
	uint64_t low_bytes = asked ? atomic_load(&asked->low_bytes) : 0;

	if (hold_posts || !__real_tcp_peer_exchange(peer, work))
		return false;
	log_post(peer, &copy);
	posts[post_count - 1].low_bytes = low_bytes;
	atomic_fetch_add(&exchanges, 1);
	return true;
}

static void log_posts(const struct otte_segment *segment)
{
	asked = segment->peer->window.slots;
	post_count = 0;
	exchanges = 0;
	pushes = 0;
	takes = 0;
	wrong_takes = 0;
}

/* Pushes are counted: a request that goes at once does not pass through a queue. */
int __real_otte_queue_push(struct otte_queue *queue, struct otte_queue_entry *entry);
int __wrap_otte_queue_push(struct otte_queue *queue, struct otte_queue_entry *entry);

int __wrap_otte_queue_push(struct otte_queue *queue, struct otte_queue_entry *entry)
{
	atomic_fetch_add(&pushes, 1);
	return __real_otte_queue_push(queue, entry);
}

/* The clock that this thread last asked the gate with, and what it must have been told then. */
static __thread unsigned sends;

unsigned __real_otte_slots_admit(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns,
				 uint64_t *again_ns);
unsigned __wrap_otte_slots_admit(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns,
				 uint64_t *again_ns);

unsigned __wrap_otte_slots_admit(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns,
				 uint64_t *again_ns)
{
	sends = (2u << now_ns / SLOT_NS % 3) - 1;
	return __real_otte_slots_admit(slots, wanted, now_ns, again_ns);
}

bool __real_otte_slots_take(struct otte_slots *slots, unsigned priority, uint64_t bytes);
bool __wrap_otte_slots_take(struct otte_slots *slots, unsigned priority, uint64_t bytes);

/* What is taken is posted next. */
bool __wrap_otte_slots_take(struct otte_slots *slots, unsigned priority, uint64_t bytes)
{
	bool taken = __real_otte_slots_take(slots, priority, bytes);

	if (taken && priority != HIGH) {
		atomic_fetch_add(&takes, 1);
		if (!(sends & 1u << priority))
			atomic_fetch_add(&wrong_takes, 1);
	}
	return taken;
}

/* ---- Two engines on a clock ---- */

static uint64_t cycle_ns; /* start of a High slot, the test's present */

static void gated(struct otte_config *config)
{
	config->stats_socket = 0;
	strcpy(config->slots_domain, "test");
}

static void tight(struct otte_config *config)
{
	gated(config);
	config->low_inflight_bytes = 16 * KIB;
}

static void one_under_way(struct otte_config *config)
{
	gated(config);
	config->window_requests = 1;
}

static void ungated(struct otte_config *config)
{
	config->stats_socket = 0;
}

/* To slot 0, 1 or 2 of the present cycle, `ns` into it. */
static void to_slot(unsigned slot, uint64_t ns)
{
	otte_clock_fake(cycle_ns + slot * SLOT_NS + ns);
}

static void open_at_high_slot(struct pair *pair, void (*adjust)(struct otte_config *config))
{
	pair_open(pair, SIZE, adjust);
	pair_fill(pair->remote_bytes, SIZE, 5);
	memset(pair->local_bytes, 0, SIZE);
	log_posts(pair->segment);
	cycle_ns = (otte_now_ns() / (3 * SLOT_NS) + 2) * (3 * SLOT_NS);
	to_slot(0, 0);
}

/* What the module would have given, beside the pattern: pages on which nobody waits. */
static uint64_t load[512], share[512];

static void no_kick(void *arg)
{
	(void)arg;
}

static void as_in_a_domain(const struct pair *pair)
{
	struct otte_slots *slots = &pair->requester->gate.slots;

	memset(load, 0, sizeof(load));
	memset(share, 0, sizeof(share));
	slots->kick = no_kick;
	slots->load = (const struct otte_load_page *)load;
	slots->share = (struct otte_share_page *)share;
}

static struct otte_segment *open_other(const struct pair *pair, const struct pair *other)
{
	char address[OTTE_ADDRESS_MAX];
	struct otte_segment *segment;

	assert_int_equal(otte_engine_address(other->source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(pair->requester, address, OTTE_EPOCH_ANY, 30 * SECOND,
					   &segment),
			 0);
	return segment;
}

static void close_pair(struct pair *pair)
{
	otte_clock_fake(0);
	pair_close(pair);
}

static struct otte_task task_of(struct otte_batch *batch, uint32_t index)
{
	struct otte_task task;

	assert_int_equal(otte_batch_task(batch, index, &task), 0);
	return task;
}

/* A READ, or for WRITE the same place the other way, of 4 KiB at number `place`. */
static struct otte_request request_of(const struct pair *pair, uint8_t op, uint8_t priority,
				      unsigned place)
{
	struct otte_request request =
		pair_request(pair, op, place * 8 * KIB, place * 8 * KIB, 4 * KIB);

	request.priority = priority;
	return request;
}

static void submit(const struct pair *pair, uint8_t op, uint8_t priority, unsigned place)
{
	struct otte_request request = request_of(pair, op, priority, place);

	assert_int_equal(otte_batch_submit(pair->batch, &request, 1), 0);
}

static void let_one_pass(const struct pair *pair)
{
	struct otte_batch_status status;

	assert_int_equal(otte_batch_poll(pair->batch, &status), 0);
}

/* Long enough for the engine's thread to do what it should not. */
static void let_pass(const struct pair *pair)
{
	int i;

	for (i = 0; i < 20; i++) {
		usleep(1000);
		let_one_pass(pair);
	}
}

/* The post that is held is started, ends, and the next one is held, if one waits. */
static void start_held(const struct pair *pair, bool more)
{
	struct otte_work *work = atomic_exchange(&held, NULL);

	assert_non_null(work);
	__real_tcp_peer_start(held_peer, work);
	while (more && !atomic_load(&held))
		let_one_pass(pair);
}

/* ---- Waiting, and its regular end ---- */

static void low_alone_waits_for_its_slot_of_the_clock(void **state)
{
	struct otte_stats stats;
	struct pair pair;

	(void)state;
	open_at_high_slot(&pair, gated);
	submit(&pair, OTTE_READ, LOW, 0);
	let_pass(&pair);
	to_slot(1, SLOT_NS - 1);
	let_pass(&pair);
	assert_int_equal(task_of(pair.batch, 0).state, OTTE_TASK_QUEUED);
	stats = pair_stats(pair.requester);
	assert_int_equal(stats.waiting_low, 1);
	assert_int_equal(stats.waiting_medium + stats.waiting_high, 0);
	assert_int_equal(post_count, 0);
	to_slot(2, 0);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	assert_int_equal(task_of(pair.batch, 0).code, 0);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, 4096);
	stats = pair_stats(pair.requester);
	assert_int_equal(stats.waiting_low, 0);
	assert_int_equal(stats.low_inflight_bytes, 0);
	close_pair(&pair);
}

static void who_may_send_goes_at_once_and_through_no_queue(void **state)
{
	struct pair pair;

	(void)state;
	open_at_high_slot(&pair, gated);
	submit(&pair, OTTE_READ, HIGH, 0);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	to_slot(1, 0);
	submit(&pair, OTTE_READ, MEDIUM, 1);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	to_slot(2, SLOT_NS - 1);
	submit(&pair, OTTE_WRITE, LOW, 2);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	assert_int_equal(post_count, 3);
	assert_int_equal(pushes, 0);
	close_pair(&pair);
}

static void what_waits_leaves_by_priority_and_in_its_order(void **state)
{
	static const uint8_t asked_for[] = { LOW, LOW, MEDIUM, LOW, MEDIUM };
	static const unsigned order[] = { 2, 4, 0, 1, 3 };
	struct otte_request request;
	struct pair pair;
	unsigned i;

	(void)state;
	open_at_high_slot(&pair, gated);
	for (i = 0; i < ARRAY_SIZE(asked_for); i++) {
		request = request_of(&pair, OTTE_READ, asked_for[i], i);
		request.length = 100 + i;
		assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
	}
	let_pass(&pair);
	assert_int_equal(post_count, 0);
	assert_int_equal(pair_stats(pair.requester).waiting_medium, 2);
	/* One of High passes them all. */
	submit(&pair, OTTE_READ, HIGH, 10);
	while (task_of(pair.batch, 5).state != OTTE_TASK_COMPLETED)
		let_pass(&pair);
	assert_int_equal(post_count, 1);
	to_slot(2, 0);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	assert_int_equal(post_count, 6);
	for (i = 0; i < ARRAY_SIZE(order); i++)
		assert_int_equal(posts[1 + i].bytes, 100 + order[i]);
	close_pair(&pair);
}

/* Not at the next tick, which may be half a slot later. */
static void the_engine_wakes_when_the_slot_opens(void **state)
{
	struct itimerspec left = { 0 };
	struct otte_gate *gate;
	struct pair pair;
	uint64_t timer_ns;

	(void)state;
	open_at_high_slot(&pair, gated);
	/* Far enough for the timer to be looked at before it fires. */
	cycle_ns += 10000 * (3 * SLOT_NS);
	to_slot(0, 0);
	gate = &pair.requester->gate;
	submit(&pair, OTTE_READ, LOW, 0);
	let_pass(&pair);
	pthread_mutex_lock(&gate->lock);
	timer_ns = gate->timer_ns;
	assert_int_equal(timerfd_gettime(gate->timer.fd, &left), 0);
	pthread_mutex_unlock(&gate->lock);
	assert_int_equal(timer_ns, cycle_ns + 2 * SLOT_NS);
	assert_in_range(left.it_value.tv_sec, 50, 61);
	/* An earlier one takes its place, a later one does not. */
	submit(&pair, OTTE_READ, MEDIUM, 1);
	let_pass(&pair);
	otte_gate_look_at(pair.requester, cycle_ns + SLOT_NS + 1);
	pthread_mutex_lock(&gate->lock);
	timer_ns = gate->timer_ns;
	pthread_mutex_unlock(&gate->lock);
	assert_int_equal(timer_ns, cycle_ns + SLOT_NS);
	to_slot(2, 0);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	close_pair(&pair);
}

static uint64_t timer_of(struct otte_gate *gate)
{
	uint64_t timer_ns;

	pthread_mutex_lock(&gate->lock);
	timer_ns = gate->timer_ns;
	pthread_mutex_unlock(&gate->lock);
	return timer_ns;
}

/* It is set to what has gone by, and so not set anew; the thread has yet to read it. */
static void a_look_asked_for_while_the_timer_fires_is_in_time(void **state)
{
	const struct itimerspec past = { .it_value.tv_nsec = 1 };
	struct otte_gate *gate;
	struct pair pair;

	(void)state;
	open_at_high_slot(&pair, gated);
	cycle_ns += 10000 * (3 * SLOT_NS);
	to_slot(0, 0);
	gate = &pair.requester->gate;
	submit(&pair, OTTE_READ, LOW, 0);
	let_pass(&pair);
	pthread_mutex_lock(&gate->lock);
	gate->timer_ns = 1;
	assert_int_equal(timerfd_settime(gate->timer.fd, TFD_TIMER_ABSTIME, &past, NULL), 0);
	pthread_mutex_unlock(&gate->lock);
	while (timer_of(gate) == 1)
		let_pass(&pair);
	assert_int_equal(timer_of(gate), cycle_ns + 2 * SLOT_NS);
	to_slot(2, 0);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	close_pair(&pair);
}

/* For another peer of the same engine. */
static void submit_low_to(const struct pair *pair, struct otte_segment *segment,
			  const struct pair *other, unsigned place)
{
	struct otte_request request = request_of(pair, OTTE_READ, LOW, place);

	request.segment = segment;
	request.remote_region = otte_region_id(other->remote);
	assert_int_equal(otte_batch_submit(pair->batch, &request, 1), 0);
}

static void let_complete(const struct pair *pair, uint32_t index)
{
	unsigned i;

	for (i = 0; i < 500 && task_of(pair->batch, index).state != OTTE_TASK_COMPLETED; i++)
		let_pass(pair);
	assert_int_equal(task_of(pair->batch, index).state, OTTE_TASK_COMPLETED);
}

/* Of the same engine, for another peer; on a clock that never comes to the slot that it waits for. */
static void the_end_of_what_was_above_wakes_who_waits_for_another_peer(void **state)
{
	struct otte_segment *segment;
	struct pair pair, other;

	(void)state;
	pair_open(&other, SIZE, ungated);
	open_at_high_slot(&pair, gated);
	otte_clock_fake(0);
	segment = open_other(&pair, &other);
	as_in_a_domain(&pair);
	cycle_ns += 10000 * (3 * SLOT_NS);
	to_slot(0, 0);
	hold_posts = true;
	submit(&pair, OTTE_READ, HIGH, 0);
	submit_low_to(&pair, segment, &other, 1);
	let_pass(&pair);
	assert_int_equal(post_count, 1);
	assert_int_equal(pair_stats(pair.requester).waiting_low, 1);
	hold_posts = false;
	start_held(&pair, false);
	let_complete(&pair, 1);
	assert_int_equal(post_count, 2);
	otte_clock_fake(0);
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	assert_int_equal(otte_segment_close(segment), 0);
	pair_close(&pair);
	pair_close(&other);
}

/* High waits for room in its window, is cancelled there, and who waited for its end does not wait for a slot. */
static void the_cancelled_end_of_what_was_above_wakes_too(void **state)
{
	struct otte_segment *segment;
	struct otte_request request;
	struct otte_batch *above;
	struct pair pair, other;

	(void)state;
	pair_open(&other, SIZE, ungated);
	open_at_high_slot(&pair, one_under_way);
	otte_clock_fake(0);
	segment = open_other(&pair, &other);
	as_in_a_domain(&pair);
	assert_int_equal(otte_batch_create(pair.requester, 1, &above), 0);
	cycle_ns += 10000 * (3 * SLOT_NS);
	to_slot(0, 0);
	hold_posts = true;
	submit(&pair, OTTE_READ, LOW, 0);
	hold_posts = false;
	assert_non_null(atomic_load(&held));
	request = request_of(&pair, OTTE_READ, HIGH, 1);
	assert_int_equal(otte_batch_submit(above, &request, 1), 0);
	submit_low_to(&pair, segment, &other, 2);
	let_pass(&pair);
	assert_int_equal(post_count, 1);
	assert_int_equal(pair_stats(pair.requester).waiting_high, 1);
	assert_int_equal(pair_stats(pair.requester).waiting_low, 1);
	assert_int_equal(otte_batch_cancel(above), 0);
	let_complete(&pair, 1);
	otte_clock_fake(0);
	start_held(&pair, false);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	assert_int_equal(otte_batch_destroy(above), 0);
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	assert_int_equal(otte_segment_close(segment), 0);
	pair_close(&pair);
	pair_close(&other);
}

/* Bytes are then counted at none. */
static void a_transport_without_nics_serves_a_domain_too(void **state)
{
	struct otte_transport_ops without = otte_tcp_transport;
	struct otte_transport *transport;
	struct otte_segment *segment;
	struct pair pair, other;

	(void)state;
	pair_open(&other, SIZE, ungated);
	pair_open(&pair, SIZE, gated);
	without.peer_nic = NULL;
	transport = pair.requester->transport;
	as_in_a_domain(&pair);
	transport->ops = &without;
	segment = open_other(&pair, &other);
	assert_int_equal(segment->peer->window.nic, OTTE_SLOTS_NO_NIC);
	transport->ops = &otte_tcp_transport;
	assert_int_equal(otte_segment_close(segment), 0);
	pair_close(&pair);
	pair_close(&other);
}

/* ---- What the log has of a domain ---- */

static _Atomic unsigned warnings;

static void count_warnings(void *arg, enum otte_log_level level, const char *text)
{
	(void)arg;
	if (level == OTTE_LOG_WARNING && strstr(text, "slots of domain "))
		atomic_fetch_add(&warnings, 1);
}

static int refuse_nic(struct otte_ledger_client *client, const char *nic, uint32_t *index)
{
	(void)client;
	(void)index;
	return otte_fail(-EDQUOT, "NIC %s", nic);
}

static int give_pages(struct otte_ledger_client *client, const char *name,
		      struct otte_ledger_domain *domain)
{
	static uint64_t slot[512];

	(void)client;
	(void)name;
	domain->slot = (const struct otte_slot_page *)slot;
	domain->load = (const struct otte_load_page *)load;
	domain->share = (struct otte_share_page *)share;
	return 0;
}

/* The engine's gate opened as if its ledger were one that has domains. */
static void open_in_domain(struct otte_engine *engine, struct otte_ledger_ops *ops)
{
	*ops = *engine->ledger->ops;
	ops->domain_join = give_pages;
	ops->domain_nic = refuse_nic;
	engine->ledger->ops = ops;
	strcpy(engine->config.slots_domain, "test");
	atomic_store(&warnings, 0);
	assert_int_equal(otte_gate_open(engine), 0);
}

static void a_nic_that_is_not_counted_is_told_of_once(void **state)
{
	const struct otte_ledger_ops *before;
	struct otte_ledger_ops ops;
	struct pair pair;
	int i;

	(void)state;
	pair_open(&pair, SIZE, ungated);
	before = pair.requester->ledger->ops;
	otte_log_set(count_warnings, NULL, OTTE_LOG_WARNING);
	open_in_domain(pair.requester, &ops);
	for (i = 0; i < 3; i++) {
		assert_int_equal(otte_gate_nic(pair.requester, "left"), OTTE_SLOTS_NO_NIC);
		assert_int_equal(otte_gate_nic(pair.requester, "right"), OTTE_SLOTS_NO_NIC);
	}
	assert_int_equal(warnings, 2);
	otte_log_set(NULL, NULL, OTTE_LOG_WARNING);
	pair.requester->ledger->ops = before;
	pair_close(&pair);
}

static void a_pattern_that_a_domain_ignores_is_told_of(void **state)
{
	const struct otte_ledger_ops *before;
	struct otte_ledger_ops ops;
	struct pair pair;
	unsigned i;

	(void)state;
	for (i = 0; i < 3; i++) {
		pair_open(&pair, SIZE, ungated);
		before = pair.requester->ledger->ops;
		otte_log_set(count_warnings, NULL, OTTE_LOG_WARNING);
		if (i == 1)
			strcpy(pair.requester->config.slots_pattern, "high,low");
		if (i == 2)
			pair.requester->config.slot_interval_ns++;
		open_in_domain(pair.requester, &ops);
		assert_int_equal(warnings, i > 0);
		otte_log_set(NULL, NULL, OTTE_LOG_WARNING);
		pair.requester->ledger->ops = before;
		pair_close(&pair);
	}
}

/* ---- Other ends of a wait ---- */

static void a_deadline_in_the_queue_is_etime_and_nothing_moved(void **state)
{
	struct otte_request request;
	struct otte_task task;
	struct pair pair;
	uint8_t before;

	(void)state;
	open_at_high_slot(&pair, gated);
	before = pair.remote_bytes[0];
	memset(pair.local_bytes, ~before, 4096);
	request = request_of(&pair, OTTE_WRITE, LOW, 0);
	request.deadline_ns = cycle_ns + 1000;
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
	let_pass(&pair);
	assert_int_equal(task_of(pair.batch, 0).state, OTTE_TASK_QUEUED);
	to_slot(0, 1000);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	task = task_of(pair.batch, 0);
	assert_int_equal(task.code, -ETIME);
	assert_int_equal(task.state, OTTE_TASK_TIMEOUT);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(pair.remote_bytes[0], before);
	assert_int_equal(post_count, 0);
	close_pair(&pair);
}

/* The slot opens at the very instant of the deadline: too late is too late. */
static void a_deadline_comes_before_a_slot_that_opens_with_it(void **state)
{
	struct otte_request request;
	struct pair pair;

	(void)state;
	open_at_high_slot(&pair, gated);
	request = request_of(&pair, OTTE_WRITE, LOW, 0);
	request.deadline_ns = cycle_ns + 2 * SLOT_NS;
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
	to_slot(2, 0);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	assert_int_equal(task_of(pair.batch, 0).code, -ETIME);
	assert_int_equal(post_count, 0);
	close_pair(&pair);
}

static void cancelled_in_the_queue_nothing_moved(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	open_at_high_slot(&pair, gated);
	submit(&pair, OTTE_WRITE, LOW, 0);
	submit(&pair, OTTE_WRITE, MEDIUM, 1);
	assert_int_equal(otte_batch_cancel(pair.batch), 0);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	task = task_of(pair.batch, 0);
	assert_int_equal(task.code, -ECANCELED);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(task_of(pair.batch, 1).code, -ECANCELED);
	assert_int_equal(pair_stats(pair.requester).waiting_low, 0);
	to_slot(2, 0);
	let_pass(&pair);
	assert_int_equal(post_count, 0);
	close_pair(&pair);
}

static void a_lost_peer_ends_what_waits_for_it(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	open_at_high_slot(&pair, gated);
	submit(&pair, OTTE_WRITE, LOW, 0);
	pair_close_source(&pair);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	task = task_of(pair.batch, 0);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(post_count, 0);
	otte_clock_fake(0);
	pair_close_requester(&pair);
}

/* Accepted is accepted: close waits for it as for what is under way, and it still gets its slot. */
static void close_waits_for_what_waits(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	struct otte_request more;
	struct pair pair;

	(void)state;
	open_at_high_slot(&pair, gated);
	submit(&pair, OTTE_READ, LOW, 0);
	assert_int_equal(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, 0, &report),
			 -ETIMEDOUT);
	assert_int_equal(report.requests, 1);
	more = request_of(&pair, OTTE_READ, LOW, 1);
	assert_int_equal(otte_batch_submit(pair.batch, &more, 1), -ESHUTDOWN);
	to_slot(2, 0);
	assert_int_equal(
		otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, 20 * SECOND, &report), 0);
	assert_int_equal(task_of(pair.batch, 0).code, 0);
	close_pair(&pair);
}

/* ---- Bounds ---- */

static void two_low(struct otte_config *config)
{
	gated(config);
	config->max_low_requests = 2;
	config->max_medium_requests = 1;
}

static void a_full_priority_is_refused_by_name_and_the_others_are_not(void **state)
{
	struct otte_request requests[3];
	struct pair pair;
	unsigned i;

	(void)state;
	open_at_high_slot(&pair, two_low);
	for (i = 0; i < 3; i++)
		requests[i] = request_of(&pair, OTTE_READ, LOW, i);
	/* All or none, and what was charged for others of the submission is given back. */
	assert_int_equal(otte_batch_submit(pair.batch, requests, 3), -EDQUOT);
	assert_string_equal(otte_error_text(), "priority.low_requests (2) is full");
	requests[0].priority = MEDIUM;
	assert_int_equal(otte_batch_submit(pair.batch, requests, 3), 0);
	requests[0].priority = HIGH;
	requests[1].priority = MEDIUM;
	assert_int_equal(otte_batch_submit(pair.batch, requests, 2), -EDQUOT);
	assert_string_equal(otte_error_text(), "priority.medium_requests (1) is full");
	assert_int_equal(pair.requester->by_priority[HIGH], 0);
	assert_int_equal(pair_stats(pair.requester).requests, 3);
	submit(&pair, OTTE_READ, HIGH, 5);
	to_slot(2, 0);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	/* A submission that fails later gives back as well. */
	requests[1].priority = LOW;
	requests[2].local_offset = requests[1].local_offset;
	assert_int_equal(otte_batch_submit(pair.batch, requests, 3), -EBUSY);
	for (i = 0; i < OTTE_PRIORITIES; i++)
		assert_int_equal(pair.requester->by_priority[i], 0);
	close_pair(&pair);
}

static void bytes_below_high_stay_within_their_bound(void **state)
{
	struct otte_request requests[64];
	struct pair pair;
	unsigned i;

	(void)state;
	open_at_high_slot(&pair, tight);
	to_slot(2, 0);
	for (i = 0; i < 64; i++)
		requests[i] =
			request_of(&pair, i % 2 ? OTTE_READ : OTTE_WRITE, i % 3 ? LOW : MEDIUM, i);
	assert_int_equal(otte_batch_submit(pair.batch, requests, 64), 0);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	assert_int_equal(post_count, 64);
	for (i = 0; i < 64; i++)
		assert_in_range(posts[i].low_bytes, 4096, 16 * KIB);
	assert_int_equal(pair_stats(pair.requester).low_inflight_bytes, 0);
	close_pair(&pair);
}

static void neighbours_below_high_are_merged_within_the_bound(void **state)
{
	struct otte_request requests[16];
	struct pair pair;
	unsigned i;

	(void)state;
	open_at_high_slot(&pair, tight);
	to_slot(2, 0);
	for (i = 0; i < 16; i++) {
		requests[i] = pair_request(&pair, OTTE_READ, i * 4096, i * 4096, 4096);
		requests[i].priority = LOW;
	}
	assert_int_equal(otte_batch_submit(pair.batch, requests, 16), 0);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	assert_int_equal(post_count, 4);
	for (i = 0; i < 4; i++)
		assert_int_equal(posts[i].bytes, 16 * KIB);
	for (i = 0; i < 16; i++)
		requests[i].priority = HIGH;
	assert_int_equal(otte_batch_submit(pair.batch, requests, 16), 0);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	assert_int_equal(post_count, 5);
	assert_int_equal(posts[4].bytes, 64 * KIB);
	close_pair(&pair);
}

static void one_below_high(struct otte_config *config)
{
	gated(config);
	config->low_inflight_bytes = 8 * KIB;
}

/* Two peers want the room that there is for one request: neither has to wait until the other has done all. */
static void peers_get_room_below_high_in_turn(void **state)
{
	struct otte_request requests[40];
	struct otte_segment *segment;
	char address[OTTE_ADDRESS_MAX];
	struct pair pair, other;
	unsigned i;

	(void)state;
	pair_open(&other, SIZE, ungated);
	open_at_high_slot(&pair, one_below_high);
	otte_clock_fake(0);
	assert_int_equal(otte_engine_address(other.source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(pair.requester, address, OTTE_EPOCH_ANY, 30 * SECOND,
					   &segment),
			 0);
	to_slot(0, 0);
	for (i = 0; i < 40; i++) {
		requests[i] = pair_request(&pair, OTTE_READ, i * 8 * KIB, i * 8 * KIB, 8 * KIB - 1);
		requests[i].priority = LOW;
		if (i >= 20) {
			requests[i].segment = segment;
			requests[i].remote_region = otte_region_id(other.remote);
		}
	}
	hold_posts = true;
	assert_int_equal(otte_batch_submit(pair.batch, requests, 40), 0);
	to_slot(2, 0);
	while (!atomic_load(&held))
		let_one_pass(&pair);
	for (i = 0; i < 40; i++)
		start_held(&pair, i < 39);
	hold_posts = false;
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	assert_int_equal(post_count, 40);
	for (i = 1; i < 40; i++)
		assert_ptr_not_equal(posts[i].peer, posts[i - 1].peer);
	otte_clock_fake(0);
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	assert_int_equal(otte_segment_close(segment), 0);
	pair_close(&pair);
	pair_close(&other);
}

static void finish_one(const struct pair *pair)
{
	unsigned finished = 0;
	struct otte_batch_status status = { 0 };

	assert_int_equal(otte_batch_poll(pair->batch, &status), 0);
	finished = status.finished;
	start_held(pair, false);
	while (status.finished == finished)
		assert_int_equal(otte_batch_poll(pair->batch, &status), 0);
}

/* No second one has room beside it. */
static void submit_large(const struct pair *pair, unsigned place)
{
	struct otte_request request = request_of(pair, OTTE_READ, LOW, place);

	request.length = 8 * KIB - 1;
	assert_int_equal(otte_batch_submit(pair->batch, &request, 1), 0);
}

/*
 * A caller who submits again as soon as it can is faster than the engine's thread, which gives to others in turn.
 * That thread stands still here for as long as that takes.
 */
static void who_comes_back_at_once_does_not_go_before_who_waits(void **state)
{
	struct otte_request request;
	struct otte_segment *segment;
	char address[OTTE_ADDRESS_MAX];
	struct pair pair, other;
	const struct otte_transport_peer *waiting;
	unsigned i;

	(void)state;
	pair_open(&other, SIZE, ungated);
	open_at_high_slot(&pair, one_below_high);
	otte_clock_fake(0);
	assert_int_equal(otte_engine_address(other.source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(pair.requester, address, OTTE_EPOCH_ANY, 30 * SECOND,
					   &segment),
			 0);
	waiting = segment->peer->transport;
	to_slot(2, 0);
	hold_posts = true;
	submit_large(&pair, 0);
	assert_int_equal(post_count, 1);
	/* Larger than all the room that there is, so it needs all of it. */
	request = pair_request(&pair, OTTE_READ, 512 * KIB, 512 * KIB, 64 * KIB);
	request.priority = LOW;
	request.segment = segment;
	request.remote_region = otte_region_id(other.remote);
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), 0);
	submit_large(&pair, 1);
	for (i = 2; i < 12 && held_peer != waiting; i++) {
		pthread_mutex_lock(&pair.requester->peer_lock);
		finish_one(&pair);
		submit_large(&pair, i);
		pthread_mutex_unlock(&pair.requester->peer_lock);
		while (!atomic_load(&held))
			let_one_pass(&pair);
	}
	/* Either of them may have had the first turn. */
	assert_in_range(i, 3, 4);
	hold_posts = false;
	start_held(&pair, false);
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	assert_int_equal(post_count, i + 1);
	assert_int_equal(pair_stats(pair.requester).low_inflight_bytes, 0);
	otte_clock_fake(0);
	assert_int_equal(otte_batch_reset(pair.batch), 0);
	assert_int_equal(otte_segment_close(segment), 0);
	pair_close(&pair);
	pair_close(&other);
}

struct low_run {
	const struct pair *pair;
	int ret;
};

static void *run_low(void *arg)
{
	struct low_run *run = arg;
	struct otte_request request = request_of(run->pair, OTTE_READ, LOW, 0);

	run->ret = otte_batch_run(run->pair->batch, &request, 1, -1);
	return NULL;
}

/* Whoever may sleep in a connection does not where the gate is closed, and asks it before it exchanges. */
static void a_run_waits_for_its_slot_and_is_then_one_exchange(void **state)
{
	struct otte_request request;
	struct pair pair;
	pthread_t thread;
	struct low_run run = { .pair = &pair, .ret = -1 };
	unsigned i;

	(void)state;
	open_at_high_slot(&pair, gated);
	request = request_of(&pair, OTTE_READ, LOW, 0);
	assert_int_equal(pthread_create(&thread, NULL, run_low, &run), 0);
	while (!pair_stats(pair.requester).waiting_low && !post_count)
		let_pass(&pair);
	let_pass(&pair);
	assert_int_equal(post_count, 0);
	assert_int_equal(task_of(pair.batch, 0).state, OTTE_TASK_QUEUED);
	to_slot(2, 0);
	pthread_join(thread, NULL);
	assert_int_equal(run.ret, 0);
	assert_int_equal(takes, 1);
	for (i = 0; i < 1000 && !exchanges; i++)
		assert_int_equal(otte_batch_run(pair.batch, &request, 1, -1), 0);
	printf("%u runs until one was an exchange\n", i);
	assert_true(exchanges > 0);
	assert_int_equal(takes, post_count);
	assert_int_equal(wrong_takes, 0);
	assert_int_equal(pair_stats(pair.requester).low_inflight_bytes, 0);
	close_pair(&pair);
}

/* ---- Age ---- */

static void one_at_a_time(struct otte_config *config)
{
	ungated(config);
	config->window_requests = 1;
	config->aging_ns = NSEC_PER_MSEC;
}

static void one_at_a_time_without_age(struct otte_config *config)
{
	one_at_a_time(config);
	config->aging_ns = 0;
}

/*
 * A Low one waits for a window of one, and so do High ones at any time, on a clock that goes on by a third of a
 * millisecond with each. Returns how many of a hundred were posted before the Low one.
 */
static unsigned posted_before_low(void (*adjust)(struct otte_config *config))
{
	struct otte_request low;
	struct pair pair;
	unsigned i;

	open_at_high_slot(&pair, adjust);
	hold_posts = true;
	submit(&pair, OTTE_READ, HIGH, 0);
	low = request_of(&pair, OTTE_READ, LOW, 101);
	low.length = 77;
	assert_int_equal(otte_batch_submit(pair.batch, &low, 1), 0);
	for (i = 1; i < 100; i++) {
		submit(&pair, OTTE_READ, HIGH, i);
		to_slot(0, i * NSEC_PER_MSEC / 3);
		start_held(&pair, true);
	}
	start_held(&pair, true);
	start_held(&pair, false);
	hold_posts = false;
	assert_int_equal(otte_batch_wait(pair.batch, -1), 0);
	assert_int_equal(post_count, 101);
	for (i = 0; posts[i].bytes != 77; i++)
		;
	assert_int_equal(pair_stats(pair.requester).promoted, adjust == one_at_a_time ? 2 : 0);
	close_pair(&pair);
	return i;
}

static void age_lets_low_finish_under_high(void **state)
{
	(void)state;
	/* In the tier of Medium after one millisecond, in that of High after two, behind the one that waits there. */
	assert_int_equal(posted_before_low(one_at_a_time), 7);
	assert_int_equal(posted_before_low(one_at_a_time_without_age), 100);
}

#define STREAMS 6

struct stream {
	const struct pair *pair;
	struct otte_batch *batch;
	uint8_t priority;
	unsigned place;
	uint64_t until_ns;
	unsigned done;
	int code;
};

static _Atomic unsigned got_on; /* streams */

/* A busy machine may start one of them late: until each has got on, beside all others. */
static bool streams_go_on(uint64_t until_ns)
{
	const uint64_t now_ns = otte_now_ns();

	return now_ns < until_ns ||
	       (atomic_load(&got_on) < STREAMS && atomic_load(&post_count) < POSTS_MAX / 2 &&
		now_ns < until_ns + 60 * NSEC_PER_SEC);
}

/* A few requests at a time, one batch after the other. */
static void *run_stream(void *arg)
{
	struct stream *stream = arg;
	struct otte_request requests[4];
	struct otte_batch_status status;
	unsigned i;

	while (!stream->code && streams_go_on(stream->until_ns)) {
		for (i = 0; i < 4; i++)
			requests[i] = request_of(stream->pair, OTTE_READ, stream->priority,
						 stream->place + i);
		stream->code = otte_batch_submit(stream->batch, requests, 4);
		if (!stream->code)
			stream->code = otte_batch_wait(stream->batch, 20 * SECOND);
		if (!stream->code)
			stream->code = otte_batch_poll(stream->batch, &status);
		if (!stream->code && status.failed)
			stream->code = -EIO;
		if (!stream->code)
			stream->code = otte_batch_reset(stream->batch);
		if (stream->done == 4)
			atomic_fetch_add(&got_on, 1);
		stream->done += 4;
	}
	return NULL;
}

static void every_post_obeys_the_gate(void **state)
{
	struct stream streams[STREAMS];
	pthread_t threads[STREAMS];
	struct pair pair;
	unsigned i, low = 0;

	(void)state;
	pair_open(&pair, SIZE, gated);
	log_posts(pair.segment);
	atomic_store(&got_on, 0);
	for (i = 0; i < STREAMS; i++) {
		streams[i] = (struct stream){
			.pair = &pair,
			.priority = (uint8_t)(i % 3),
			.place = i * 4,
			.until_ns = otte_now_ns() + 400 * NSEC_PER_MSEC,
		};
		assert_int_equal(otte_batch_create(pair.requester, 4, &streams[i].batch), 0);
		assert_int_equal(pthread_create(&threads[i], NULL, run_stream, &streams[i]), 0);
	}
	for (i = 0; i < STREAMS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(streams[i].code, 0);
		/* Whatever the load of this machine, everybody got on. */
		assert_true(streams[i].done > 4);
		assert_int_equal(otte_batch_destroy(streams[i].batch), 0);
	}
	for (i = 0; i < post_count; i++)
		low += posts[i].priority != HIGH;
	printf("%u posts, %u of them below High\n", (unsigned)post_count, low);
	assert_int_equal(takes, low);
	assert_int_equal(wrong_takes, 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(low_alone_waits_for_its_slot_of_the_clock),
		cmocka_unit_test(who_may_send_goes_at_once_and_through_no_queue),
		cmocka_unit_test(what_waits_leaves_by_priority_and_in_its_order),
		cmocka_unit_test(the_engine_wakes_when_the_slot_opens),
		cmocka_unit_test(a_look_asked_for_while_the_timer_fires_is_in_time),
		cmocka_unit_test(the_end_of_what_was_above_wakes_who_waits_for_another_peer),
		cmocka_unit_test(the_cancelled_end_of_what_was_above_wakes_too),
		cmocka_unit_test(a_transport_without_nics_serves_a_domain_too),
		cmocka_unit_test(a_nic_that_is_not_counted_is_told_of_once),
		cmocka_unit_test(a_pattern_that_a_domain_ignores_is_told_of),
		cmocka_unit_test(a_deadline_in_the_queue_is_etime_and_nothing_moved),
		cmocka_unit_test(a_deadline_comes_before_a_slot_that_opens_with_it),
		cmocka_unit_test(cancelled_in_the_queue_nothing_moved),
		cmocka_unit_test(a_lost_peer_ends_what_waits_for_it),
		cmocka_unit_test(close_waits_for_what_waits),
		cmocka_unit_test(a_full_priority_is_refused_by_name_and_the_others_are_not),
		cmocka_unit_test(bytes_below_high_stay_within_their_bound),
		cmocka_unit_test(neighbours_below_high_are_merged_within_the_bound),
		cmocka_unit_test(peers_get_room_below_high_in_turn),
		cmocka_unit_test(who_comes_back_at_once_does_not_go_before_who_waits),
		cmocka_unit_test(a_run_waits_for_its_slot_and_is_then_one_exchange),
		cmocka_unit_test(age_lets_low_finish_under_high),
		cmocka_unit_test(every_post_obeys_the_gate),
	};

	return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
