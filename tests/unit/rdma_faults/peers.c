/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a peer says that it should not, what it does not say, and what the requester does then. */
#include "room.h"

#include "base/clock.h"
#include "engine/batch.h"
#include "transport/rdma/endpoint.h"
#include "transport/rdma/line.h"
#include "transport/rdma/parent.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rdma.h"

static _Atomic bool forge_close, swallow_answers, forge_ask;
static _Atomic unsigned connects, asks, swallowed;

int __real_otte_rdma_line_say(struct otte_rdma_line *line, const struct otte_rdma_message *message);
int __wrap_otte_rdma_line_say(struct otte_rdma_line *line, const struct otte_rdma_message *message);

int __wrap_otte_rdma_line_say(struct otte_rdma_line *line, const struct otte_rdma_message *message)
{
	struct otte_rdma_message close = { .type = OTTE_RDMA_MSG_CLOSE };
	struct otte_rdma_message ask = { .type = OTTE_RDMA_MSG_ASK };
	int ret;

	if (message->type == OTTE_RDMA_MSG_CONNECT)
		atomic_fetch_add(&connects, 1);
	if (message->type == OTTE_RDMA_MSG_ASK)
		atomic_fetch_add(&asks, 1);
	if (atomic_load(&swallow_answers) &&
	    (message->type == OTTE_RDMA_MSG_GRANT || message->type == OTTE_RDMA_MSG_REFUSED)) {
		atomic_fetch_add(&swallowed, 1);
		return 0;
	}
	if (message->type == OTTE_RDMA_MSG_GRANT && atomic_exchange(&forge_ask, false)) {
		ask.ask.length = 1;
		return __real_otte_rdma_line_say(line, &ask);
	}
	ret = __real_otte_rdma_line_say(line, message);
	if (message->type == OTTE_RDMA_MSG_CONNECTED && atomic_load(&forge_close)) {
		close.close.connection = message->connected.connection;
		close.close.status = -EIO;
		__real_otte_rdma_line_say(line, &close);
	}
	return ret;
}

static _Atomic bool refuse_tickets;
static _Atomic unsigned refused_tickets;

int __real_otte_rails_admit(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns,
			    struct otte_rail_ticket *ticket);
int __wrap_otte_rails_admit(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns,
			    struct otte_rail_ticket *ticket);

int __wrap_otte_rails_admit(struct otte_rails *rails, const struct otte_rail *rail, uint64_t now_ns,
			    struct otte_rail_ticket *ticket)
{
	if (!atomic_load(&refuse_tickets))
		return __real_otte_rails_admit(rails, rail, now_ns, ticket);
	atomic_fetch_add(&refused_tickets, 1);
	return otte_fail(-EDQUOT, "max_rail_pairs is full");
}

static _Atomic bool hold_loss, is_lost;

void __real_otte_rdma_endpoints_close(struct otte_rdma_peer *peer, int code);
void __wrap_otte_rdma_endpoints_close(struct otte_rdma_peer *peer, int code);

/* In the middle of a line's loss. */
void __wrap_otte_rdma_endpoints_close(struct otte_rdma_peer *peer, int code)
{
	if (atomic_load(&hold_loss))
		atomic_store(&is_lost, true);
	while (atomic_load(&hold_loss))
		usleep(1000);
	__real_otte_rdma_endpoints_close(peer, code);
}

static struct otte_batch *_Atomic to_cancel;

int __real_otte_rdma_parent_begin(struct otte_rdma_peer *peer, struct otte_work *work,
				  const struct otte_rdma_plan *plan, uint64_t now_ns);
int __wrap_otte_rdma_parent_begin(struct otte_rdma_peer *peer, struct otte_work *work,
				  const struct otte_rdma_plan *plan, uint64_t now_ns);

static bool another_waits(struct otte_rdma_peer *peer)
{
	bool waits;

	pthread_mutex_lock(&peer->lock);
	waits = peer->queue && peer->queue->own.next;
	pthread_mutex_unlock(&peer->lock);
	return waits;
}

/* One that cannot begin, and is cancelled before anybody is told so. */
int __wrap_otte_rdma_parent_begin(struct otte_rdma_peer *peer, struct otte_work *work,
				  const struct otte_rdma_plan *plan, uint64_t now_ns)
{
	struct otte_batch *batch = atomic_exchange(&to_cancel, NULL);

	if (!batch)
		return __real_otte_rdma_parent_begin(peer, work, plan, now_ns);
	while (!another_waits(peer))
		usleep(1000);
	otte_batch_cancel(batch);
	return otte_fail(-ENETUNREACH, "no rail for the first one");
}

static struct otte_rdma *rdma_of(struct otte_engine *engine)
{
	return container_of(engine->transport, struct otte_rdma, base);
}

/* A look each second; some more for what may have been left to be said. */
static void assert_idle(struct pair *pair)
{
	uint64_t rounds[2];

	usleep(300000);
	rounds[0] = atomic_load(&rdma_of(pair->source)->workers[0].rounds);
	rounds[1] = atomic_load(&rdma_of(pair->requester)->workers[0].rounds);
	sleep(1);
	assert_in_range(atomic_load(&rdma_of(pair->source)->workers[0].rounds) - rounds[0], 0, 4);
	assert_in_range(atomic_load(&rdma_of(pair->requester)->workers[0].rounds) - rounds[1], 0, 4);
}

static void two_idle_engines(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	assert_idle(&pair);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	assert_int_equal(run(&pair, OTTE_WRITE, 0, SIZE).code, 0);
	assert_idle(&pair);
	sim_port_set(nics[SOURCE][0], 1, IBV_PORT_DOWN);
	assert_idle(&pair);
	sim_port_set(nics[SOURCE][0], 1, IBV_PORT_ACTIVE);
	assert_true(comes(works_by_rdma, &pair));
	assert_idle(&pair);
	pair_close(&pair);
}

static struct otte_task run_until(struct pair *pair, uint8_t lease, uint64_t offset, uint64_t ns)
{
	struct otte_request request = pair_request(pair, OTTE_READ, offset, offset, 4096);
	struct otte_task task;

	request.transport = OTTE_TRANSPORT_RDMA;
	request.lease = lease;
	do { /* unless it has passed before the request was there, on a busy machine */
		request.deadline_ns = otte_now_ns() + ns;
		OK(otte_batch_reset(pair->batch));
		OK(otte_batch_submit(pair->batch, &request, 1));
		task = wait_task(pair);
	} while (task.code == -ETIME);
	return task;
}

/* Each is closed before anything can go over it. */
static void a_source_that_closes_at_once(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	atomic_store(&forge_close, true);
	atomic_store(&connects, 0);
	task = run_until(&pair, OTTE_LEASE_OFF, 0, 30 * SECOND);
	atomic_store(&forge_close, false);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(atomic_load(&connects), 1);
	assert_true(comes(works_by_rdma, &pair));
	pair_close(&pair);
}

/* Its deadline says nothing about the rail, which is tried before it carries more. */
static void be_overdue(uint8_t lease)
{
	struct otte_task task;
	struct ibv_cq *cq;
	struct pair pair;

	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(run_until(&pair, lease, 0, 20 * SECOND).code, 0);
	cq = joined(REQUESTER)->native->send_cq;
	sim_cq_hold(cq, true);
	task = run_until(&pair, lease, 0, SECOND / 20); /* its lane goes with the pair */
	assert_int_equal(task.code, -ETIMEDOUT);
	assert_int_equal(pair_stats(pair.requester).rdma_rail_errors, 0);
	assert_true(comes(works_by_rdma, &pair));
	pair_close(&pair);
}

static void an_overdue_request(void **state)
{
	(void)state;
	be_overdue(OTTE_LEASE_OFF);
	room_start(NULL);
	be_overdue(OTTE_LEASE_RANGE);
}

/* Those that were cancelled do not take the places of others for good. */
static void answers_that_never_come(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_short_control);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	atomic_store(&asks, 1);
	atomic_store(&swallow_answers, true);
	for (i = 0; i < 64; i++)
		run_until(&pair, OTTE_LEASE_OFF, 4096 * i, SECOND / 100);
	atomic_store(&swallow_answers, false);
	assert_int_equal(atomic_load(&swallowed), atomic_load(&asks) - 1);
	usleep(3500000); /* twice control.timeout, and a look after that */
	assert_int_equal(run_until(&pair, OTTE_LEASE_OFF, 0, SECOND).code, 0);
	pair_close(&pair);
}

/* Nobody can be asked: neither of two rails has room in the table of rails. */
static void a_full_table_of_rails(void **state)
{
	struct otte_task task;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(run(&pair, OTTE_READ, 0, SIZE).code, 0);
	atomic_store(&refuse_tickets, true);
	task = run_until(&pair, OTTE_LEASE_OFF, 0, SECOND);
	atomic_store(&refuse_tickets, false);
	assert_int_equal(task.code, -EDQUOT);
	assert_true(atomic_load(&refused_tickets) < 100);
	assert_true(comes(works_by_rdma, &pair));
	pair_close(&pair);
}

static bool loses(void *arg)
{
	(void)arg;
	return atomic_load(&is_lost);
}

static bool greets_again(void *arg)
{
	struct pair *pair = arg;

	return rdma_of(pair->requester)->workers[0].peers->state == OTTE_RDMA_PEER_HELLO;
}

/* A READ by RDMA in a batch of its own. */
static struct otte_batch *create_alone(const struct pair *pair)
{
	struct otte_batch *batch;

	OK(otte_batch_create(pair->requester, 1, &batch));
	return batch;
}

static void submit_alone(const struct pair *pair, struct otte_batch *batch)
{
	struct otte_request request = pair_request(pair, OTTE_READ, 8192, 8192, 4096);

	request.transport = OTTE_TRANSPORT_RDMA;
	OK(otte_batch_submit(batch, &request, 1));
}

static int end_alone(struct otte_batch *batch)
{
	struct otte_task task;

	OK(otte_batch_wait(batch, 30 * SECOND));
	OK(otte_batch_task(batch, 0, &task));
	OK(otte_batch_destroy(batch));
	return task.code;
}

/* It is for the next line, and does not end with the one that is being lost. */
static void what_comes_while_a_line_is_lost(void **state)
{
	struct otte_batch *batch;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	atomic_store(&hold_loss, true);
	atomic_store(&forge_ask, true);
	submit_over(&pair, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 4096);
	assert_true(comes(loses, NULL));
	assert_true(comes(greets_again, &pair));
	batch = create_alone(&pair);
	submit_alone(&pair, batch);
	atomic_store(&hold_loss, false);
	assert_int_equal(end_alone(batch), 0);
	assert_int_equal(wait_task(&pair).code, 0);
	pair_close(&pair);
}

/* The code of the first one is not the second one's. */
static void one_that_is_cancelled_as_it_fails(void **state)
{
	struct otte_batch *first;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_rdma);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	first = create_alone(&pair);
	atomic_store(&to_cancel, first);
	submit_alone(&pair, first);
	assert_int_equal(read_by_rdma(&pair, 0), 0);
	assert_int_equal(end_alone(first), -ECANCELED);
	pair_close(&pair);
}

int run_peer_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_idle_engines, room_start, nothing_is_left),
		cmocka_unit_test_setup_teardown(a_source_that_closes_at_once, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(a_full_table_of_rails, room_start_two,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(an_overdue_request, room_start, nothing_is_left),
		cmocka_unit_test_setup_teardown(answers_that_never_come, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(what_comes_while_a_line_is_lost, room_start,
						nothing_is_left),
		cmocka_unit_test_setup_teardown(one_that_is_cancelled_as_it_fails, room_start,
						nothing_is_left),
	};

	return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
